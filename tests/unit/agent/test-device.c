/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's view of a machine's devices, through a management library that simulates them. */
#include "unit.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/device.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "../../patience.h"

static char folder[] = "/tmp/divvy-test-device-XXXXXX";
static struct device_set *set;

/*
 * A machine with more than four simulated devices has half of them on each NUMA node. Devices of
 * the same model have NVLinks if the model has NVLink.
 */
static int open_devices(void **state)
{
	const struct device_params params = {
		.simulate = "2xH200-141Gi,6xT4", .runtime_dir = folder};
	const char *build = getenv("DIVVY_BUILD");
	char path[256];
	struct error err = {0};

	if (!mkdtemp(folder) || !build)
		return -1;
	snprintf(path, sizeof(path), "%s/src/simgpu", build);
	setenv("DIVVY_SIM_LIBS", path, 1);
	snprintf(path, sizeof(path), "%s/sim", folder);
	setenv("DIVVY_SIM", path, 1);
	if (folder_make(path, 0755, &err) < 0)
		return -1;
	if (device_set_open(&params, &set, &err) < 0) {
		print_error("%s\n", err.msg);
		return -1;
	}
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static int close_devices(void **state)
{
	const uint64_t end = clock_now_ns() + patience_ns(60 * NSEC_PER_SEC);
	char path[256];

	device_set_close(set);
	/* The simulated machine ends with its last user, and removes its socket first. */
	snprintf(path, sizeof(path), "%s/sim/engine.sock", folder);
	while (access(path, F_OK) == 0 && clock_now_ns() < end)
		clock_sleep_until_ns(clock_now_ns() + 10 * NSEC_PER_MSEC);
	return nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void links_match_the_drivers_report(void **state)
{
	assert_int_equal(set->n, 8);
	for (uint32_t a = 0; a < set->n; a++)
		for (uint32_t b = 0; b < set->n; b++) {
			const enum nvml_link want = a == b ? NVML_LINK_NONE
				: a < 2 && b < 2           ? NVML_LINK_NVLINK
				: a / 4 == b / 4           ? NVML_LINK_NUMA
							   : NVML_LINK_NONE;

			if (device_link(set, a, b) != want)
				fail_msg("%u to %u: %d", a, b, (int)device_link(set, a, b));
		}
}

static void each_device_has_its_numa_node(void **state)
{
	for (uint32_t i = 0; i < set->n; i++)
		assert_int_equal(set->devices[i].info.numa, i / 4);
}

static struct device some(const char *uuid, const char *parent, uint32_t gpu_instance)
{
	struct device d = {.info.is_mig = parent != NULL, .info.gpu_instance = gpu_instance};

	snprintf(d.info.uuid, sizeof(d.info.uuid), "%s", uuid);
	snprintf(d.info.parent, sizeof(d.info.parent), "%s", parent ? parent : "");
	return d;
}

/* Xid errors of two devices, and of two MIG instances of a third device. */
static const struct {
	const char *uuid;
	uint32_t gpu_instance;
	uint64_t xid;
	uint64_t counted, ill; /* a bit for each device */
} xids[] = {
	{"GPU-a", NVML_NO_INSTANCE, 79, 0x1, 0x1}, {"GPU-b", NVML_NO_INSTANCE, 48, 0x2, 0x2},
	{"GPU-b", NVML_NO_INSTANCE, 13, 0x2, 0}, {"GPU-b", NVML_NO_INSTANCE, 31, 0x2, 0},
	{"GPU-b", NVML_NO_INSTANCE, 43, 0x2, 0}, {"GPU-b", NVML_NO_INSTANCE, 45, 0x2, 0},
	{"GPU-b", NVML_NO_INSTANCE, 68, 0x2, 0}, {"GPU-b", NVML_NO_INSTANCE, 109, 0x2, 0},
	{"GPU-b", NVML_NO_INSTANCE, 14, 0x2, 0x2}, {"GPU-c", NVML_NO_INSTANCE, 79, 0xc, 0xc},
	{"GPU-c", 2, 79, 0x8, 0x8}, {"GPU-c", 7, 79, 0, 0}, {"GPU-d", NVML_NO_INSTANCE, 79, 0, 0},
	{"", NVML_NO_INSTANCE, 79, 0xf, 0xf}, /* the Xid names no device */
};

static void xid_errors_that_no_program_causes_make_a_device_unhealthy(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(xids); i++) {
		struct device devices[] = {some("GPU-a", NULL, NVML_NO_INSTANCE),
			some("GPU-b", NULL, NVML_NO_INSTANCE), some("MIG-1", "GPU-c", 1),
			some("MIG-2", "GPU-c", 2)};
		struct device_set some_set = {.devices = devices, .n = ARRAY_SIZE(devices)};
		struct nvml_xid xid = {.gpu_instance = xids[i].gpu_instance, .xid = xids[i].xid};

		snprintf(xid.uuid, sizeof(xid.uuid), "%s", xids[i].uuid);
		assert_int_equal(device_note_xid(&some_set, &xid), xids[i].ill);
		for (uint32_t k = 0; k < some_set.n; k++) {
			assert_int_equal(devices[k].n_xids, xids[i].counted >> k & 1);
			assert_int_equal(device_is_faulty(&devices[k]), xids[i].ill >> k & 1);
		}
	}
}

static void the_first_fatal_xid_is_reported(void **state)
{
	struct device device = some("GPU-a", NULL, NVML_NO_INSTANCE);
	struct device_set some_set = {.devices = &device, .n = 1};
	struct nvml_xid xid = {.uuid = "GPU-a", .gpu_instance = NVML_NO_INSTANCE, .xid = 62};

	assert_int_equal(device_note_xid(&some_set, &xid), 1);
	xid.xid = 79;
	assert_int_equal(device_note_xid(&some_set, &xid), 0);
	assert_string_equal(device_fault_text(&device), "had Xid 62, which no program causes");
	assert_int_equal(device.n_xids, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {UNIT(links_match_the_drivers_report),
		UNIT(each_device_has_its_numa_node),
		UNIT(xid_errors_that_no_program_causes_make_a_device_unhealthy),
		UNIT(the_first_fatal_xid_is_reported)};

	return cmocka_run_group_tests(tests, open_devices, close_devices);
}
