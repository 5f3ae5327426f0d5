/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated NVML reports the devices of the simulated machine: names and numbers agree with
 * CUDA's; memory and processes are those of the running programs.
 */
#include "driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda/nvml-proto.h"

static struct {
#define NVML(abi, ...) PFN_##abi *abi;
#define NVML_OTHER(type, ...) NVML(__VA_ARGS__)
#include "cuda/nvml.def"
#undef NVML
#undef NVML_OTHER
} ml;

static int channel[2];

#define NV(code, expression) \
	do { \
		nvmlReturn_t got_ = expression; \
		tap_ok(got_ == (code), "line %d: %s: %d", __LINE__, #expression, (int)got_); \
	} while (0)

static bool open_nvml(void)
{
	void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);

	if (!library)
		return false;
#define NVML(abi, ...) ml.abi = (PFN_##abi *)dlsym(library, #abi);
#define NVML_OTHER(type, ...) NVML(__VA_ARGS__)
#include "cuda/nvml.def"
#undef NVML
#undef NVML_OTHER
	return ml.nvmlInit_v2 != NULL;
}

static void strict(void)
{
	nvmlDevice_t device;
	char name[64];
	unsigned n;

	NV(NVML_ERROR_UNINITIALIZED, ml.nvmlDeviceGetCount_v2(&n));
	NV(NVML_ERROR_UNINITIALIZED, ml.nvmlShutdown());
	NV(NVML_SUCCESS, ml.nvmlInit_v2());
	NV(NVML_SUCCESS, ml.nvmlInit_v2());
	NV(NVML_SUCCESS, ml.nvmlDeviceGetCount_v2(&n));
	tap_ok(n == 2, "two devices");
	NV(NVML_ERROR_INVALID_ARGUMENT, ml.nvmlDeviceGetHandleByIndex_v2(2, &device));
	NV(NVML_ERROR_INVALID_ARGUMENT, ml.nvmlDeviceGetHandleByIndex_v2(0, NULL));
	NV(NVML_SUCCESS, ml.nvmlDeviceGetHandleByIndex_v2(1, &device));
	NV(NVML_ERROR_INSUFFICIENT_SIZE, ml.nvmlDeviceGetName(device, name, 3));
	NV(NVML_SUCCESS, ml.nvmlDeviceGetName(device, name, sizeof(name)));
	NV(NVML_ERROR_INVALID_ARGUMENT,
		ml.nvmlDeviceGetName((nvmlDevice_t)(uintptr_t)0x1234, name, sizeof(name)));
	NV(NVML_ERROR_NOT_FOUND, ml.nvmlDeviceGetHandleByUUID("GPU-none", &device));
	NV(NVML_ERROR_NOT_SUPPORTED, ml.nvmlDeviceGetFanSpeed(device, &n));
	NV(NVML_SUCCESS, ml.nvmlShutdown());
	NV(NVML_SUCCESS, ml.nvmlDeviceGetCount_v2(&n));
	NV(NVML_SUCCESS, ml.nvmlShutdown());
	NV(NVML_ERROR_UNINITIALIZED, ml.nvmlDeviceGetCount_v2(&n));
}

static void agrees(void)
{
	char uuid[96], text[96], serial[32];
	nvmlDevice_t device, again;
	nvmlMemory_v2_t memory = {.version = NVML_STRUCT_VERSION(Memory, 2)};
	nvmlGpuTopologyLevel_t level;
	nvmlPciInfo_t pci;
	CUuuid cuda_uuid;
	size_t total;
	unsigned index;

	NEED(drv.cuInit(0));
	NV(NVML_SUCCESS, ml.nvmlInit_v2());
	for (int i = 0; i < 2; i++) {
		NV(NVML_SUCCESS, ml.nvmlDeviceGetHandleByIndex_v2((unsigned)i, &device));
		NV(NVML_SUCCESS, ml.nvmlDeviceGetUUID(device, uuid, sizeof(uuid)));
		NEED(drv.cuDeviceGetUuid_v2(&cuda_uuid, i));
		snprintf(text, sizeof(text), "GPU-%02x%02x%02x%02x", (uint8_t)cuda_uuid.bytes[0],
			(uint8_t)cuda_uuid.bytes[1], (uint8_t)cuda_uuid.bytes[2],
			(uint8_t)cuda_uuid.bytes[3]);
		tap_ok(strncmp(uuid, text, 12) == 0,
			"device %d: NVML's UUID %s begins like CUDA's %s", i, uuid, text);
		NV(NVML_SUCCESS, ml.nvmlDeviceGetHandleByUUID(uuid, &again));
		tap_ok(again == device, "a device is found by its UUID");
		NV(NVML_SUCCESS, ml.nvmlDeviceGetPciInfo_v3(device, &pci));
		NV(NVML_SUCCESS, ml.nvmlDeviceGetHandleByPciBusId_v2(pci.busId, &again));
		tap_ok(again == device, "a device is found by its bus id");
		NV(NVML_SUCCESS, ml.nvmlDeviceGetSerial(device, serial, sizeof(serial)));
		NV(NVML_SUCCESS, ml.nvmlDeviceGetHandleBySerial(serial, &again));
		tap_ok(again == device, "a device is found by its serial number");
		NV(NVML_SUCCESS, ml.nvmlDeviceGetIndex(device, &index));
		tap_ok(index == (unsigned)i, "NVML and CUDA give the device the same index");
		NEED(drv.cuDeviceTotalMem_v2(&total, i));
		NV(NVML_SUCCESS, ml.nvmlDeviceGetMemoryInfo_v2(device, &memory));
		tap_ok(memory.total == total, "NVML and CUDA give the device the same memory");
	}
	ml.nvmlDeviceGetHandleByIndex_v2(0, &again);
	NV(NVML_SUCCESS, ml.nvmlDeviceGetTopologyCommonAncestor(device, again, &level));
	tap_ok(level > NVML_TOPOLOGY_INTERNAL && level <= NVML_TOPOLOGY_SYSTEM,
		"two devices have a common ancestor outside their boards");
	memory.version = 1;
	NV(NVML_ERROR_ARGUMENT_VERSION_MISMATCH, ml.nvmlDeviceGetMemoryInfo_v2(device, &memory));
}

static void hold(void *unused)
{
	CUcontext context;
	CUdeviceptr p;
	char byte;

	(void)unused;
	NEED(drv.cuInit(0));
	NEED(drv.cuCtxCreate_v2(&context, 0, 1));
	NEED(drv.cuMemAlloc_v2(&p, 512 << 20));
	if (write(channel[1], "", 1) != 1 || read(channel[1], &byte, 1) != 1)
		_exit(1);
	NEED(drv.cuCtxDestroy_v2(context));
}

static void processes(void)
{
	nvmlProcessInfo_t infos[8];
	nvmlProcessInfo_v1_t old[8];
	nvmlMemory_t memory;
	nvmlDevice_t device;
	unsigned n = 0;
	char byte;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, channel) < 0)
		_exit(1);
	pid = part_start(hold, NULL);
	if (read(channel[0], &byte, 1) != 1)
		_exit(1);
	NV(NVML_SUCCESS, ml.nvmlInit_v2());
	NV(NVML_SUCCESS, ml.nvmlDeviceGetHandleByIndex_v2(1, &device));
	NV(NVML_ERROR_INSUFFICIENT_SIZE,
		ml.nvmlDeviceGetComputeRunningProcesses_v3(device, &n, NULL));
	tap_ok(n == 1, "the device has one process");
	n = 8;
	NV(NVML_SUCCESS, ml.nvmlDeviceGetComputeRunningProcesses_v3(device, &n, infos));
	tap_ok(n == 1 && infos[0].pid == (unsigned)pid, "the process is the child");
	NV(NVML_SUCCESS, ml.nvmlDeviceGetMemoryInfo(device, &memory));
	tap_ok(infos[0].usedGpuMemory > 512u << 20 && memory.used >= infos[0].usedGpuMemory,
		"the process has its memory and its context's: %llu", infos[0].usedGpuMemory);
	n = 8;
	NV(NVML_SUCCESS, ml.nvmlDeviceGetComputeRunningProcesses(device, &n, old));
	tap_ok(n == 1 && old[0].pid == (unsigned)pid &&
			old[0].usedGpuMemory == infos[0].usedGpuMemory,
		"the old form of the process list agrees");
	NV(NVML_SUCCESS, ml.nvmlDeviceGetHandleByIndex_v2(0, &device));
	n = 8;
	NV(NVML_SUCCESS, ml.nvmlDeviceGetComputeRunningProcesses_v3(device, &n, infos));
	tap_ok(n == 0, "the other device has no process");
	if (write(channel[0], "", 1) != 1)
		_exit(1);
	tap_ok(part_wait(pid), "the child exits with 0");
	ml.nvmlDeviceGetHandleByIndex_v2(1, &device);
	n = 8;
	NV(NVML_SUCCESS, ml.nvmlDeviceGetComputeRunningProcesses_v3(device, &n, infos));
	tap_ok(n == 0, "an exited process is in no list");
	NV(NVML_SUCCESS, ml.nvmlDeviceGetMemoryInfo(device, &memory));
	tap_ok(memory.used == 0, "an exited process holds no memory: %llu", memory.used);
}

static void events(void)
{
	nvmlEventData_t data;
	nvmlEventSet_t set;
	nvmlDevice_t device;

	NV(NVML_SUCCESS, ml.nvmlInit_v2());
	NV(NVML_SUCCESS, ml.nvmlDeviceGetHandleByIndex_v2(0, &device));
	NV(NVML_SUCCESS, ml.nvmlEventSetCreate(&set));
	NV(NVML_SUCCESS, ml.nvmlDeviceRegisterEvents(device, nvmlEventTypeXidCriticalError, set));
	NV(NVML_ERROR_TIMEOUT, ml.nvmlEventSetWait_v2(set, &data, 10));
	NV(NVML_SUCCESS, ml.nvmlEventSetFree(set));
	NV(NVML_ERROR_INVALID_ARGUMENT, ml.nvmlEventSetWait_v2(set, &data, 10));
}

/* ---- faults ---- */

/* The third allocation fails: the context's memory is the first allocation. */
static void out_of_memory(void)
{
	CUdeviceptr p;

	begin_context();
	OK(drv.cuMemAlloc_v2(&p, 4096));
	EXPECT(CUDA_ERROR_OUT_OF_MEMORY, drv.cuMemAlloc_v2(&p, 4096));
	OK(drv.cuMemAlloc_v2(&p, 4096));
	OK(drv.cuCtxSynchronize());
}

/* Launches until the device fails, and checks that the error stays. */
static CUresult run_until_error(int device)
{
	unsigned long long ns = 1000;
	void *params[] = {&ns};
	CUcontext context;
	CUfunction spin;
	CUdeviceptr p;
	CUresult r = CUDA_SUCCESS;

	NEED(drv.cuInit(0));
	NEED(drv.cuCtxCreate_v2(&context, 0, device));
	spin = kernel_get(load_kernels(), "spin_ns");
	for (int i = 0; i < 20 && r == CUDA_SUCCESS; i++) {
		NEED(drv.cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
		r = drv.cuCtxSynchronize();
	}
	tap_ok(r != CUDA_SUCCESS && drv.cuMemAlloc_v2(&p, 4096) == r && drv.cuCtxSynchronize() == r,
		"the error stays: %d", r);
	OK(drv.cuCtxDestroy_v2(context));
	return r;
}

static void device_fails(void)
{
	unsigned long long before, after;
	nvmlEventData_t data;
	nvmlEventSet_t set;
	nvmlDevice_t healthy, lost;
	nvmlMemory_t memory;

	NV(NVML_SUCCESS, ml.nvmlInit_v2());
	NV(NVML_SUCCESS, ml.nvmlDeviceGetHandleByIndex_v2(0, &healthy));
	NV(NVML_SUCCESS, ml.nvmlDeviceGetHandleByIndex_v2(1, &lost));
	NV(NVML_SUCCESS, ml.nvmlEventSetCreate(&set));
	NV(NVML_SUCCESS, ml.nvmlDeviceRegisterEvents(lost, nvmlEventTypeXidCriticalError, set));
	NV(NVML_SUCCESS, ml.nvmlDeviceRegisterEvents(healthy, nvmlEventTypeDoubleBitEccError, set));
	NV(NVML_SUCCESS,
		ml.nvmlDeviceGetTotalEccErrors(
			healthy, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC, &before));
	run_until_error(1);
	NV(NVML_SUCCESS, ml.nvmlEventSetWait_v2(set, &data, 10000));
	tap_ok(data.device == lost && data.eventType == nvmlEventTypeXidCriticalError &&
			data.eventData == 79,
		"an event reports that the lost device fell off the bus");
	NV(NVML_ERROR_GPU_IS_LOST, ml.nvmlDeviceGetMemoryInfo(lost, &memory));
	NV(NVML_SUCCESS, ml.nvmlDeviceGetMemoryInfo(healthy, &memory));
	EXPECT(CUDA_ERROR_ECC_UNCORRECTABLE, run_until_error(0));
	NV(NVML_SUCCESS,
		ml.nvmlDeviceGetTotalEccErrors(
			healthy, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC, &after));
	tap_ok(after > before, "NVML counts the ECC error");
	NV(NVML_SUCCESS, ml.nvmlEventSetWait_v2(set, &data, 10000));
	tap_ok(data.device == healthy && data.eventType == nvmlEventTypeDoubleBitEccError,
		"an event reports the ECC error");
}

static void put_faults(const char *text)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/faults", machine_dir());
	f = fopen(path, "we");
	if (!f || fputs(text, f) < 0 || fclose(f) != 0)
		exit(99);
}

int main(void)
{
	tap_begin();
	machine_begin("2xH200-8Gi", "context_create_us=0");
	if (!driver_open() || !open_nvml())
		return 1;
	part_run("mistakes", strict);
	part_run("devices as in CUDA", agrees);
	part_run("processes", processes);
	part_run("events", events);
	machine_end();
	machine_begin("2xH200-8Gi", "context_create_us=0");
	put_faults("oom device=0 nth=3\n");
	part_run("an allocation fails", out_of_memory);
	machine_end();
	machine_begin("2xH200-8Gi", "context_create_us=0");
	put_faults("lost device=1 after=3\necc device=0 after=3\n");
	part_run("devices fail", device_fails);
	machine_end();
	tap_end();
	return tap_failures() != 0;
}
