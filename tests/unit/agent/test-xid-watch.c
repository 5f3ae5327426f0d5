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

static uint32_t n_queries;

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

int main(void)
{
	const struct CMUnitTest tests[] = {UNIT(a_record_that_is_too_long_hides_no_later_one),
		UNIT(lines_serve_the_xids_in_order),
		UNIT(a_line_serves_no_xid_that_comes_much_later), UNIT(each_xid_begins_a_query)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
