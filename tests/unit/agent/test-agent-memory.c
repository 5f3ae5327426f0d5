/* SPDX-License-Identifier: Apache-2.0 */
/* The queries of devices: a fake driver answers, and the test runs each step of a query itself. */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"

static uint64_t fake_now_ns(void);

#define clock_now_ns fake_now_ns
#define nvml_reopen fake_reopen
#define nvml_find fake_find
#define nvml_processes fake_processes
#define nvml_used_bytes fake_used_bytes
#define nvml_recovery fake_recovery
#define worker_submit fake_submit
#include "agent/agent-memory.c"

/* The driver's answers to the next query. The driver does not say how much memory is in use. */
static struct {
	int processes; /* 0 or -errno */
	bool is_reachable;
	enum nvml_recovery recovery;
	uint32_t n_reopens;
	int reopen_result;
	uint64_t reopen_ns; /* how long the driver takes to begin again */
} driver;

int nvml_reopen(struct nvml *nvml, uint64_t *ret_took_ns)
{
	driver.n_reopens++;
	*ret_took_ns = driver.reopen_ns;
	return driver.reopen_result;
}

nvml_handle nvml_find(struct nvml *nvml, const char *uuid)
{
	return driver.is_reachable ? &driver : NULL;
}

int nvml_processes(
	struct nvml *nvml, nvml_handle handle, struct nvml_process *ret_processes, size_t max)
{
	return driver.processes;
}

int nvml_used_bytes(struct nvml *nvml, nvml_handle handle, uint64_t *ret_bytes)
{
	return -EIO;
}

enum nvml_recovery nvml_recovery(struct nvml *nvml, nvml_handle handle)
{
	return driver.recovery;
}

void worker_submit(struct worker *worker, struct worker_job *job)
{
}

static uint64_t now_ns;

static uint64_t fake_now_ns(void)
{
	return now_ns;
}

/* A daemon with one device. */
struct place {
	struct device device;
	struct device_set set;
	struct agent agent;
	struct memory memory;
	char uuid[1][96], parent[1][96];
};

static void place_init(struct place *at)
{
	struct memory *m = &at->memory;

	now_ns = NSEC_PER_SEC;
	driver = (typeof(driver)){.is_reachable = true};
	*at = (struct place){.set = {.n = 1}};
	at->set.devices = &at->device;
	at->agent.devices = &at->set;
	at->agent.memory = m;
	m->agent = &at->agent;
	TAILQ_INIT(&m->questions);
	TAILQ_INIT(&m->graves);
	m->query = (struct query){.agent = &at->agent,
		.n_devices = 1,
		.handles = {&driver},
		.whole = {&driver},
		.uuids = at->uuid,
		.parents = at->parent};
}

static void begin_query(struct place *at)
{
	at->agent.is_leaving = false;
	memory_read_processes(&at->memory);
	assert_true(at->memory.is_asking);
}

/* The daemon leaves, so that the end of a query only notes the answers. */
static void end_query(struct place *at)
{
	now_ns = MAX(now_ns, at->memory.query.reopen_ns); /* the pause is over */
	run_query(&at->memory.query.job);
	at->agent.is_leaving = true;
	query_done(&at->memory.query.job);
}

static void query(struct place *at)
{
	begin_query(at);
	end_query(at);
}

static void a_lost_device_is_opened_again_until_it_answers(void **state)
{
	static struct place at;

	place_init(&at);
	query(&at);
	assert_int_equal(driver.n_reopens, 0);
	driver.processes = -ENODEV;
	query(&at);
	query(&at);
	assert_int_equal(driver.n_reopens, 1);
	assert_true(device_has_fault(&at.device, DEVICE_LOST));
	/* Another error does not show that the device is back. */
	driver.processes = -EIO;
	query(&at);
	query(&at);
	assert_int_equal(driver.n_reopens, 3);
	assert_true(device_has_fault(&at.device, DEVICE_LOST));
	driver.processes = 0;
	query(&at);
	query(&at);
	assert_int_equal(driver.n_reopens, 4);
	assert_false(device_is_faulty(&at.device));
}

static void a_device_that_the_driver_does_not_find_is_opened_again(void **state)
{
	static struct place at;

	place_init(&at);
	driver.processes = -ENODEV;
	query(&at);
	driver.is_reachable = false;
	query(&at);
	query(&at);
	assert_int_equal(driver.n_reopens, 2);
	driver = (typeof(driver)){.is_reachable = true};
	query(&at);
	assert_int_equal(driver.n_reopens, 1);
	assert_false(device_is_faulty(&at.device));
}

static uint64_t pause_s(const struct place *at)
{
	return (at->memory.query.reopen_ns - now_ns) / NSEC_PER_SEC;
}

/* Each reopening lets the queries of all devices wait. */
static void the_pause_between_reopenings_grows_to_5_minutes(void **state)
{
	static struct place at;

	place_init(&at);
	driver.processes = -ENODEV;
	query(&at);
	for (uint64_t s = 1; s < 300; s *= 2) {
		query(&at);
		assert_int_equal(pause_s(&at), s);
	}
	for (uint32_t i = 0; i < 3; i++) {
		query(&at);
		assert_int_equal(pause_s(&at), 300);
	}
	driver.processes = 0;
	query(&at);
	driver.processes = -ENODEV;
	query(&at);
	query(&at);
	assert_int_equal(pause_s(&at), 1);
}

static void a_slow_driver_is_opened_again_after_a_longer_pause(void **state)
{
	static struct place at;

	place_init(&at);
	driver.processes = -ENODEV;
	driver.reopen_ns = 2 * NSEC_PER_SEC;
	query(&at);
	query(&at);
	assert_int_equal(pause_s(&at), 2 * REOPEN_REST);
	driver.reopen_ns = 60 * NSEC_PER_SEC;
	query(&at);
	assert_int_equal(pause_s(&at), 300);
}

/* A failed reopening leaves the process without any device, the healthy ones included. */
static void a_reopening_that_fails_is_tried_again_soon(void **state)
{
	static struct place at;

	place_init(&at);
	driver.processes = -ENODEV;
	for (uint32_t i = 0; i < 8; i++)
		query(&at);
	assert_int_equal(pause_s(&at), 64);
	driver.reopen_result = -EIO;
	driver.is_reachable = false;
	for (uint32_t i = 0; i < 3; i++) {
		query(&at);
		assert_int_equal(pause_s(&at), 1);
	}
	driver.reopen_result = 0;
	driver.is_reachable = true;
	query(&at);
	assert_int_equal(pause_s(&at), 128);
}

/* The driver may have answered before the Xid. The next query begins after the Xid. */
static void an_answer_from_before_an_xid_ends_no_fault(void **state)
{
	const struct nvml_xid xid = {
		.gpu_instance = NVML_NO_INSTANCE, .xid = 48, .recovery = NVML_RECOVERY_RESET};
	static struct place at;

	place_init(&at);
	begin_query(&at);
	assert_int_equal(device_note_xid(&at.set, &xid, 1), 1);
	end_query(&at);
	assert_true(device_has_fault(&at.device, DEVICE_XID));
	query(&at);
	assert_false(device_is_faulty(&at.device));
}

int main(void)
{
	const struct CMUnitTest tests[] = {UNIT(a_lost_device_is_opened_again_until_it_answers),
		UNIT(a_device_that_the_driver_does_not_find_is_opened_again),
		UNIT(the_pause_between_reopenings_grows_to_5_minutes),
		UNIT(a_slow_driver_is_opened_again_after_a_longer_pause),
		UNIT(a_reopening_that_fails_is_tried_again_soon),
		UNIT(an_answer_from_before_an_xid_ends_no_fault)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
