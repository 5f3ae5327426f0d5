/* SPDX-License-Identifier: Apache-2.0 */
/* Xids that an administrator clears in GPUNode.spec.cleared. */
#include "unit.h"

#include <stdlib.h>

#define control_room fake_control_room
#include "node/node-faults.c"

/* 2026-01-02T03:04:05.5Z */
#define XID_NS (UINT64_C(1767323045) * NSEC_PER_SEC + NSEC_PER_SEC / 2)
#define UUID "GPU-a"

static uint32_t n_rooms;

void control_room(struct agent *agent)
{
	n_rooms++;
}

/* Whether the device is still faulty after this entry of spec.cleared. */
static bool is_faulty_after(const char *uuid, const char *time)
{
	static struct device device;
	static struct device_set set;
	static struct agent agent;
	static struct node node;
	const struct nvml_xid xid = {.gpu_instance = NVML_NO_INSTANCE, .xid = 79};
	_cleanup_json_ json_t *gpu_node = json_pack(
		"{s:{s:[{s:s, s:s}]}}", "spec", "cleared", "uuid", uuid, "timeAdded", time);

	device = (struct device){.info = {.uuid = UUID}};
	set = (struct device_set){.devices = &device, .n = 1};
	agent.devices = &set;
	node.agent = &agent;
	n_rooms = 0;
	assert_int_equal(device_note_xid(&set, &xid, XID_NS), 1);
	faults_clear(&node, gpu_node);
	return device_is_faulty(&device);
}

static void only_the_time_of_the_taint_clears_an_xid(void **state)
{
	assert_false(is_faulty_after(UUID, "2026-01-02T03:04:05Z"));
	assert_false(is_faulty_after(UUID, "2026-01-02T04:04:05+01:00"));
	assert_true(is_faulty_after(UUID, "2026-01-02T03:04:04Z"));
	/* A time in the future would also clear Xids that nobody has seen yet. */
	assert_true(is_faulty_after(UUID, "2026-01-02T03:04:06Z"));
	assert_true(is_faulty_after(UUID, "2099-01-01T00:00:00Z"));
	assert_true(is_faulty_after(UUID, "today"));
	assert_true(is_faulty_after("GPU-b", "2026-01-02T03:04:05Z"));
}

static void waiting_requests_use_the_device_again(void **state)
{
	assert_false(is_faulty_after(UUID, "2026-01-02T03:04:05Z"));
	assert_int_equal(n_rooms, 1);
	assert_true(is_faulty_after(UUID, "2026-01-02T03:04:04Z"));
	assert_int_equal(n_rooms, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {UNIT(only_the_time_of_the_taint_clears_an_xid),
		UNIT(waiting_requests_use_the_device_again)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
