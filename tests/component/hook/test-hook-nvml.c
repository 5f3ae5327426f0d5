/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVML shows what CUDA shows: the tenant's devices, in its order, with its memory, though the real
 * NVML numbers them the other way round; and both together are one process to the daemon.
 */
#include "rig.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/nvml_proto.h"

#define NVML(name) ((PFN_##name *)(uintptr_t)dlsym(RTLD_DEFAULT, #name))

static struct fake_daemon *start(void)
{
	struct fake_options options;

	rig_options(&options);
	setenv("STUB_DEVICES", "4", 1);
	options.devices = 2;
	fake_stub_uuid(3, options.uuid[0]);
	fake_stub_uuid(1, options.uuid[1]);
	return rig_start(&options);
}

/* "GPU-...04" is the stub driver's device 3. */
static int last_of(nvmlDevice_t device)
{
	char text[64];

	if (NVML(nvmlDeviceGetUUID)(device, text, sizeof text) != NVML_SUCCESS)
		return -1;
	return text[strlen(text) - 1] - '1';
}

static int devices(void *arg)
{
	static const char other[] = "GPU-64697676-7973-7475-6200-000000000001";
	static const char own[] = "GPU-64697676-7973-7475-6200-000000000002";
	struct fake_daemon *d = start();
	unsigned int count = 0, index = 99;
	nvmlDevice_t device[2], found;

	check(d && NVML(nvmlInit_v2)() == NVML_SUCCESS);
	check(NVML(nvmlDeviceGetCount_v2)(&count) == NVML_SUCCESS && count == 2);
	for (unsigned int i = 0; i < 2; i++) {
		check(NVML(nvmlDeviceGetHandleByIndex_v2)(i, &device[i]) == NVML_SUCCESS);
		check(NVML(nvmlDeviceGetIndex)(device[i], &index) == NVML_SUCCESS && index == i);
	}
	check(last_of(device[0]) == 3 && last_of(device[1]) == 1);
	check(NVML(nvmlDeviceGetHandleByIndex_v2)(2, &found) == NVML_ERROR_INVALID_ARGUMENT);
	check(NVML(nvmlDeviceGetHandleByUUID)(own, &found) == NVML_SUCCESS && found == device[1]);
	check(NVML(nvmlDeviceGetHandleByUUID)(other, &found) == NVML_ERROR_NOT_FOUND);
	check(fake_daemon_processes(d) == 1);
	/* CUDA's setting is CUDA's: NVML shows all of the tenant's */
	setenv("CUDA_VISIBLE_DEVICES", "1", 1);
	check(cuInit(0) == CUDA_SUCCESS);
	check(NVML(nvmlDeviceGetCount_v2)(&count) == NVML_SUCCESS && count == 2);
	check(fake_daemon_processes(d) == 1);
	rig_stop(d);
	return 0;
}

static int memory(void *arg)
{
	struct fake_daemon *d = start();
	nvmlMemory_v2_t two = {.version = 0};
	nvmlMemory_t one;
	nvmlDevice_t device;
	CUdeviceptr p;

	check(d && rig_context() && cuMemAlloc_v2(&p, 64 * MiB) == CUDA_SUCCESS);
	check(NVML(nvmlDeviceGetHandleByIndex_v2)(0, &device) == NVML_SUCCESS);
	check(NVML(nvmlDeviceGetMemoryInfo)(device, &one) == NVML_SUCCESS);
	check(one.total == 8 * GiB && one.used == CONTEXT_BYTES + 64 * MiB);
	check(one.free == one.total - one.used);
	check(NVML(nvmlDeviceGetMemoryInfo_v2)(device, &two) == NVML_SUCCESS);
	check(two.total == one.total && two.used == one.used && two.free == one.free);
	/* a quota below what is in use is no reason for a number near 2^64 */
	fake_daemon_quota(d, MiB);
	check(NVML(nvmlDeviceGetMemoryInfo)(device, &one) == NVML_SUCCESS);
	check(one.total == MiB && one.used == MiB && one.free == 0);
	rig_stop(d);
	return 0;
}

/* Without a daemon, and open: the machine as it is. */
static int nobody(void *arg)
{
	unsigned int count = 0;
	nvmlDevice_t device;

	setenv("DIVVY_SOCKET", "/nowhere/at/all", 1);
	check(NVML(nvmlDeviceGetCount_v2)(&count) == NVML_SUCCESS && count == 4);
	check(NVML(nvmlDeviceGetHandleByIndex_v2)(0, &device) == NVML_SUCCESS);
	check(last_of(device) == 3);
	check(!strcmp(NVML(nvmlErrorString)(NVML_SUCCESS), "a sentence"));
	return 0;
}

#define SCENARIO(name) \
	static void test_##name(void **state) \
	{ \
		rig_child(name, NULL); \
	}

SCENARIO(devices)
SCENARIO(memory)
SCENARIO(nobody)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_devices),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_nobody),
	};

	return cmocka_run_group_tests_name("hook-nvml", tests, NULL, NULL);
}
