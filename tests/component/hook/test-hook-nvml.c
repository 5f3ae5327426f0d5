/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVML shows what CUDA shows: the tenant's devices in its order and with its memory, although the
 * driver's NVML numbers them in reverse. CUDA and NVML of a program are one process to the daemon.
 */
#include "rig.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "cuda/nvml-proto.h"

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

/* Last digit of the UUID: "GPU-...04" is the stub driver's device 3. */
static int last_of(nvmlDevice_t device)
{
	char text[64];

	if (NVML(nvmlDeviceGetUUID)(device, text, sizeof text) != NVML_SUCCESS)
		return -1;
	return text[strlen(text) - 1] - '1';
}

static int visible_devices(void *arg)
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
	/* CUDA_VISIBLE_DEVICES affects CUDA only: NVML shows all of the tenant's devices */
	setenv("CUDA_VISIBLE_DEVICES", "1", 1);
	check(cuInit(0) == CUDA_SUCCESS);
	check(NVML(nvmlDeviceGetCount_v2)(&count) == NVML_SUCCESS && count == 2);
	check(fake_daemon_processes(d) == 1);
	rig_stop(d);
	return 0;
}

static int tenant_memory(void *arg)
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
	/* with a quota below the current use, free memory is 0, not a number near 2^64 */
	fake_daemon_quota(d, MiB);
	check(NVML(nvmlDeviceGetMemoryInfo)(device, &one) == NVML_SUCCESS);
	check(one.total == MiB && one.used == MiB && one.free == 0);
	/* free memory is in whole blocks, so that an allocation can take all of it */
	fake_daemon_quota(d, 2 * GiB + 12345);
	check(NVML(nvmlDeviceGetMemoryInfo)(device, &one) == NVML_SUCCESS);
	check(one.total == 2 * GiB && one.free == 2 * GiB - CONTEXT_BYTES - 64 * MiB);
	check(one.used == one.total - one.free);
	rig_stop(d);
	return 0;
}

/* Starts a process that waits, with this secret in its environment; NULL: without a secret. */
static pid_t start_other(const char *secret)
{
	char entry[64] = "NOTHING=";
	char *const argv[] = {"cat", NULL}, *const env[] = {"DIVVY_TENANTS=x", entry, NULL};
	int in[2], out[2];
	char byte = 'x';
	pid_t pid;

	if (secret)
		snprintf(entry, sizeof entry, "DIVVY_TENANT=%s", secret);
	if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC))
		return -1;
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(in[0], STDIN_FILENO);
		dup2(out[1], STDOUT_FILENO);
		execve("/bin/cat", argv, env);
		_exit(1);
	}
	close(out[1]);
	/* The byte that the process returns proves that exec has set its environment. */
	return write(in[1], &byte, 1) == 1 && read(out[0], &byte, 1) == 1 ? pid : -1;
}

#define OWN "00112233445566778899aabbccddeeff"
#define OTHER "10112233445566778899aabbccddeeff"

/*
 * Writes the listed pids in order. Returns their number, or -1 if the call's result is
 * inconsistent.
 */
static int listed(nvmlDevice_t device, unsigned int ret_pids[static 16])
{
	nvmlProcessInfo_t infos[16];
	unsigned int n = 0, again;

	if (NVML(nvmlDeviceGetComputeRunningProcesses_v3)(device, &n, NULL) !=
		NVML_ERROR_INSUFFICIENT_SIZE)
		return -1;
	again = n - 1;
	if (NVML(nvmlDeviceGetComputeRunningProcesses_v3)(device, &again, infos) !=
			NVML_ERROR_INSUFFICIENT_SIZE ||
		again != n)
		return -1;
	again = 16;
	if (NVML(nvmlDeviceGetComputeRunningProcesses_v3)(device, &again, infos) != NVML_SUCCESS ||
		again != n)
		return -1;
	for (unsigned int i = 0; i < n; i++)
		ret_pids[i] = infos[i].pid;
	return (int)n;
}

/*
 * The device runs pid 1, a process of another tenant, a process without a secret, a process of this
 * tenant, and this process.
 */
static int processes_of_tenant(void *arg)
{
	nvmlProcessesUtilizationInfo_t used = {
		.version = NVML_STRUCT_VERSION(ProcessesUtilizationInfo, 1)};
	nvmlProcessUtilizationSample_t samples[2];
	const unsigned int self = (unsigned int)getpid();
	nvmlProcessUtilizationInfo_v1_t infos[2];
	nvmlAccountingStats_t stats;
	struct fake_daemon *d;
	unsigned int pids[16], n = 0;
	nvmlDevice_t device;
	pid_t own, other, none;
	char text[96];

	setenv("DIVVY_TENANT", OWN, 1);
	own = start_other(OWN);
	other = start_other(OTHER);
	none = start_other(NULL);
	check(own > 0 && other > 0 && none > 0);
	snprintf(text, sizeof text, "1,%d,%d,%d,%u", other, none, own, self);
	setenv("STUB_PIDS", text, 1);
	d = start();
	check(d && NVML(nvmlDeviceGetHandleByIndex_v2)(0, &device) == NVML_SUCCESS);
	check(listed(device, pids) == 2 && pids[0] == (unsigned int)own && pids[1] == self);

	check(NVML(nvmlDeviceGetProcessUtilization)(device, NULL, &n, 0) ==
			NVML_ERROR_INSUFFICIENT_SIZE &&
		n == 2);
	check(NVML(nvmlDeviceGetProcessUtilization)(device, samples, &n, 0) == NVML_SUCCESS);
	check(n == 2 && samples[0].pid == (unsigned int)own && samples[0].smUtil == 3);
	check(NVML(nvmlDeviceGetProcessUtilization)(device, samples, &n, 1000) ==
		NVML_ERROR_NOT_FOUND);
	used.procUtilArray = infos;
	used.processSamplesCount = 1;
	check(NVML(nvmlDeviceGetProcessesUtilizationInfo)(device, &used) ==
			NVML_ERROR_INSUFFICIENT_SIZE &&
		used.processSamplesCount == 2);
	check(NVML(nvmlDeviceGetProcessesUtilizationInfo)(device, &used) == NVML_SUCCESS);
	check(infos[0].pid == (unsigned int)own && infos[1].pid == self);

	n = 16;
	check(NVML(nvmlDeviceGetAccountingPids)(device, &n, pids) == NVML_SUCCESS && n == 2);
	check(NVML(nvmlDeviceGetAccountingStats)(device, (unsigned int)other, &stats) ==
		NVML_ERROR_NOT_FOUND);
	check(NVML(nvmlDeviceGetAccountingStats)(device, self, &stats) == NVML_SUCCESS);

	/* None of the tenant's processes is on the device. */
	snprintf(text, sizeof text, "1,%d", other);
	setenv("STUB_PIDS", text, 1);
	n = 0;
	check(NVML(nvmlDeviceGetComputeRunningProcesses_v3)(device, &n, NULL) == NVML_SUCCESS &&
		n == 0);
	check(NVML(nvmlDeviceGetProcessUtilization)(device, NULL, &n, 0) == NVML_ERROR_NOT_FOUND);
	used.processSamplesCount = 2;
	check(NVML(nvmlDeviceGetProcessesUtilizationInfo)(device, &used) == NVML_ERROR_NOT_FOUND &&
		used.processSamplesCount == 0);
	rig_stop(d);
	return 0;
}

/* A program without a secret sees the processes without a secret that have its user and cgroup. */
static int processes_without_secret(void *arg)
{
	const unsigned int self = (unsigned int)getpid();
	const pid_t none = start_other(NULL), other = start_other(OTHER), empty = start_other("");
	struct fake_daemon *d;
	unsigned int pids[16];
	nvmlDevice_t device;
	char text[96];

	check(none > 0 && other > 0 && empty > 0);
	snprintf(text, sizeof text, "%d,%d,%u,%d", other, none, self, empty);
	setenv("STUB_PIDS", text, 1);
	d = start();
	check(d && NVML(nvmlDeviceGetHandleByIndex_v2)(0, &device) == NVML_SUCCESS);
	check(listed(device, pids) == 3 && pids[0] == (unsigned int)none && pids[1] == self &&
		pids[2] == (unsigned int)empty);
	rig_stop(d);
	return 0;
}

/* Without a daemon NVML shows the machine unchanged. */
static int machine_without_daemon(void *arg)
{
	unsigned int count = 0, pids[16];
	nvmlDevice_t device;

	setenv("DIVVY_SOCKET", "/nowhere/at/all", 1);
	check(NVML(nvmlDeviceGetCount_v2)(&count) == NVML_SUCCESS && count == 4);
	check(NVML(nvmlDeviceGetHandleByIndex_v2)(0, &device) == NVML_SUCCESS);
	check(last_of(device) == 3);
	check(!strcmp(NVML(nvmlErrorString)(NVML_SUCCESS), "a sentence"));
	setenv("STUB_PIDS", "1,2,3", 1);
	check(listed(device, pids) == 3 && pids[0] == 1 && pids[2] == 3);
	return 0;
}

#define SCENARIO(name) \
	static void test_##name(void **state) \
	{ \
		rig_child(name, NULL); \
	}

SCENARIO(visible_devices)
SCENARIO(tenant_memory)
SCENARIO(processes_of_tenant)
SCENARIO(processes_without_secret)
SCENARIO(machine_without_daemon)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_visible_devices),
		cmocka_unit_test(test_tenant_memory),
		cmocka_unit_test(test_processes_of_tenant),
		cmocka_unit_test(test_processes_without_secret),
		cmocka_unit_test(test_machine_without_daemon),
	};

	return cmocka_run_group_tests_name("hook-nvml", tests, NULL, NULL);
}
