/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of a machine's devices, by a management library that simulates them. */
#include "unit.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/device.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"

#define ENGINE_ENDS_NS (30 * NSEC_PER_SEC)

static char folder[] = "/tmp/divvy-test-device-XXXXXX";
static struct device_set *set;

/* Of more than four half are on each NUMA node; of one model they have NVLinks, if it has any. */
static int open_devices(void **state)
{
	const struct device_wish wish = {.simulate = "2xH200-141Gi,6xT4", .runtime_dir = folder};
	const char *build = getenv("DIVVY_BUILD");
	char path[256];
	struct error err = {0};

	if (!mkdtemp(folder) || !build)
		return -1;
	snprintf(path, sizeof(path), "%s/src/sim", build);
	setenv("DIVVY_SIM_LIBS", path, 1);
	snprintf(path, sizeof(path), "%s/sim", folder);
	setenv("DIVVY_SIM", path, 1);
	if (folder_make(path, 0755, &err) < 0)
		return -1;
	if (device_set_open(&wish, &set, &err) < 0) {
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
	const uint64_t end = clock_now_ns() + ENGINE_ENDS_NS;
	char path[256];

	device_set_close(set);
	/* The simulated machine goes with its last user; its socket goes first. */
	snprintf(path, sizeof(path), "%s/sim/engine.sock", folder);
	while (access(path, F_OK) == 0 && clock_now_ns() < end)
		clock_sleep_until_ns(clock_now_ns() + 10 * NSEC_PER_MSEC);
	return nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void links_are_as_the_driver_says(void **state)
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

static void each_has_its_numa_node(void **state)
{
	for (uint32_t i = 0; i < set->n; i++)
		assert_int_equal(set->devices[i].info.numa, i / 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT(links_are_as_the_driver_says), UNIT(each_has_its_numa_node)};

	return cmocka_run_group_tests(tests, open_devices, close_devices);
}
