/* SPDX-License-Identifier: Apache-2.0 */
/* The process and the tenant that caused an Xid: a fake kernel log, with a clock of its own. */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"

static uint64_t fake_now_ns(void);
static void fake_sleep_until_ns(uint64_t ns);
static ssize_t fake_read(int fd, void *to, size_t n);

#define clock_now_ns fake_now_ns
#define clock_sleep_until_ns fake_sleep_until_ns
#define read fake_read
#define memory_query fake_memory_query
#define memory_listed fake_memory_listed
#define memory_generation fake_memory_generation
#define worker_submit fake_submit
#include "agent/xid-watch.c"

#define LINE "NVRM: Xid (PCI:0000:0a:00): 31, pid=%d, name=python\n"

static uint64_t now_ns;
/* Answers of the next reads: a record with this pid; 0: none now; below: -errno. */
static int records[8];
static uint32_t n_records, n_read;

static uint64_t fake_now_ns(void)
{
	return now_ns;
}

static void fake_sleep_until_ns(uint64_t ns)
{
	now_ns = ns;
}

static ssize_t fake_read(int fd, void *to, size_t n)
{
	const int record = n_read < n_records ? records[n_read++] : 0;

	if (record > 0)
		return snprintf(to, n, "4,1,1,-;" LINE, record);
	errno = record ? -record : EAGAIN;
	return -1;
}

static uint32_t n_queries, n_listed;
static struct memory_unmanaged listed[2];
static uint64_t generation;

size_t memory_listed(struct agent *agent, struct memory_unmanaged *ret, size_t max)
{
	assert_true(n_listed <= max);
	memcpy(ret, listed, n_listed * sizeof(*ret));
	return n_listed;
}

uint64_t memory_generation(const struct agent *agent)
{
	return generation;
}

void memory_query(struct agent *agent)
{
	n_queries++;
}

void worker_submit(struct worker *worker, struct worker_job *job)
{
}

static void watch_init(struct xid_watch *w)
{
	*w = (struct xid_watch){.has_records = true, .n_places = 1};
	w->places[0] = (struct xid_place){.uuid = "GPU-a", .pci = {.bus = 10}};
	now_ns = 100 * NSEC_PER_SEC;
	n_records = n_read = 0;
}

static void add_record(int record)
{
	assert_true(n_records < ARRAY_SIZE(records));
	records[n_records++] = record;
}

static pid_t find_pid(struct xid_watch *w)
{
	return xid_find_pid(w, &(struct nvml_xid){.uuid = "GPU-a", .xid = 31});
}

static void a_record_that_is_too_long_hides_no_later_one(void **state)
{
	static struct xid_watch w;

	watch_init(&w);
	add_record(-EPIPE);
	/* /dev/kmsg answers so if a record has more bytes than the buffer. */
	for (uint32_t i = 0; i <= LINE_TRIES; i++)
		add_record(-EINVAL);
	add_record(4);
	assert_int_equal(find_pid(&w), 4);
}

static void lines_serve_the_xids_in_order(void **state)
{
	static struct xid_watch w;

	watch_init(&w);
	add_record(4);
	add_record(5);
	xid_read_log(&w);
	now_ns += NSEC_PER_SEC / 2;
	assert_int_equal(find_pid(&w), 4);
	assert_int_equal(find_pid(&w), 5);
	assert_int_equal(find_pid(&w), 0);
}

/* The driver did not report the Xid of the first line. */
static void a_line_serves_no_xid_that_comes_much_later(void **state)
{
	static struct xid_watch w;

	watch_init(&w);
	add_record(4);
	xid_read_log(&w);
	now_ns += LINE_AGE_NS + 1;
	add_record(5);
	assert_int_equal(find_pid(&w), 5);
	assert_int_equal(find_pid(&w), 0);
}

/* The last query may have ended a moment before the Xid. */
static void each_xid_begins_a_query(void **state)
{
	static struct device_set set;
	static struct agent agent = {.devices = &set};
	static struct xid_watch w;

	watch_init(&w);
	w.agent = &agent;
	n_queries = 0;
	xid_watch_done(&w.job);
	assert_int_equal(n_queries, 0);
	w.seen[w.n_seen++].xid.xid = 48;
	xid_watch_done(&w.job);
	assert_int_equal(n_queries, 1);
}

/* ---- the tenant that probably caused an Xid ---- */

/* Two tenants with one process each on device 0. */
struct place {
	struct device devices[2];
	struct device_set set;
	struct agent agent;
	struct xid_watch w;
	struct tenant *tenant[2];
	struct process *process[2];
};

static void place_init(struct place *at)
{
	*at = (struct place){.set = {.devices = at->devices, .n = 2}};
	at->devices[1].index = 1;
	watch_init(&at->w);
	at->w.agent = &at->agent;
	at->agent.devices = &at->set;
	at->agent.xid_watch = &at->w;
	LIST_INIT(&at->agent.tenants);
	LIST_INIT(&at->agent.processes);
	n_listed = 0;
	for (uint32_t i = 0; i < 2; i++) {
		struct tenant *t = calloc(1, sizeof(*t) + sizeof(struct tenant_device));
		struct process *p = calloc(1, sizeof(*p) + sizeof(struct process_device));

		assert_non_null(t);
		assert_non_null(p);
		*t = (struct tenant){.agent = &at->agent, .id = i + 1, .n_processes = 1, .n = 1};
		t->devices[0].device = &at->devices[0];
		p->agent = &at->agent;
		p->tenant = t;
		p->pid = (pid_t)(10 + i);
		LIST_INSERT_HEAD(&at->agent.tenants, t, link);
		LIST_INSERT_HEAD(&at->agent.processes, p, link);
		at->tenant[i] = t;
		at->process[i] = p;
	}
}

static void place_done(struct place *at)
{
	for (uint32_t i = 0; i < 2; i++) {
		free(at->tenant[i]);
		free(at->process[i]);
	}
}

static void end_process(struct place *at, uint32_t i)
{
	at->tenant[i]->n_processes--;
	xid_watch_process_exited(at->process[i]);
}

static void a_tenant_is_named_if_no_other_used_the_device(void **state)
{
	static struct place at;

	place_init(&at);
	assert_null(xid_find_only_tenant(&at.w, 1));
	end_process(&at, 1);
	/* The process that has just ended may have caused the Xid. */
	assert_null(xid_find_only_tenant(&at.w, 1));
	now_ns += LEFT_NS;
	assert_null(xid_find_only_tenant(&at.w, 1));
	now_ns++;
	assert_ptr_equal(xid_find_only_tenant(&at.w, 1), at.tenant[0]);
	assert_null(xid_find_only_tenant(&at.w, 2));
	place_done(&at);
}

static void processes_of_a_tenant_raise_no_doubt_about_it(void **state)
{
	static struct place at;

	place_init(&at);
	end_process(&at, 1);
	now_ns += LEFT_NS + 1;
	at.tenant[0]->n_processes = 3;
	end_process(&at, 0);
	end_process(&at, 0);
	assert_ptr_equal(xid_find_only_tenant(&at.w, 1), at.tenant[0]);
	/* The end of another tenant's process stays known after further ends of its own. */
	at.tenant[1]->n_processes = 1;
	end_process(&at, 1);
	end_process(&at, 0);
	at.tenant[0]->n_processes = 1;
	assert_null(xid_find_only_tenant(&at.w, 1));
	place_done(&at);
}

static void an_unmanaged_process_raises_doubt(void **state)
{
	static struct place at;

	place_init(&at);
	at.tenant[1]->n_processes = 0;
	listed[0] = (struct memory_unmanaged){.pid = 10, .device = 0};
	listed[1] = (struct memory_unmanaged){.pid = 99, .device = 1};
	n_listed = 2;
	generation++;
	assert_ptr_equal(xid_find_only_tenant(&at.w, 1), at.tenant[0]);
	listed[1].device = 0;
	generation++;
	assert_null(xid_find_only_tenant(&at.w, 1));
	place_done(&at);
}

int main(void)
{
	const struct CMUnitTest tests[] = {UNIT(a_record_that_is_too_long_hides_no_later_one),
		UNIT(lines_serve_the_xids_in_order),
		UNIT(a_line_serves_no_xid_that_comes_much_later), UNIT(each_xid_begins_a_query),
		UNIT(a_tenant_is_named_if_no_other_used_the_device),
		UNIT(processes_of_a_tenant_raise_no_doubt_about_it),
		UNIT(an_unmanaged_process_raises_doubt)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
