/* SPDX-License-Identifier: Apache-2.0 */
/* Older and newer forms of NVML's functions return the results of the library's own functions. */
#include "cuda/nvml-answer.h"

#include "cuda/nvml-entries.h"
#include "unit.h"

#define DEVICE ((nvmlDevice_t)(uintptr_t)7)

/* A library with one device, on which this many processes run, with pids 1, 2, ... */
static unsigned int processes;

nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
	return flags ? NVML_ERROR_INVALID_ARGUMENT : NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
	*version = 13000;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
	*count = 1;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
	*device = DEVICE;
	return index ? NVML_ERROR_INVALID_ARGUMENT : NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *device)
{
	return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout_ms)
{
	return NVML_ERROR_TIMEOUT;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
	if (device != DEVICE)
		return NVML_ERROR_INVALID_ARGUMENT;
	*memory = (nvmlMemory_t){.total = 30, .free = 20, .used = 10};
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(
	nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos)
{
	if (device != DEVICE || !count || (*count && !infos))
		return NVML_ERROR_INVALID_ARGUMENT;
	NVML_TRY(nvml_entries_fit(processes, infos, count));
	for (unsigned int i = 0; i < processes; i++)
		infos[i] = (nvmlProcessInfo_t){.pid = i + 1, .usedGpuMemory = 10 * i};
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(
	nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos)
{
	*count = 0;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(
	nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos)
{
	return NVML_ERROR_GPU_IS_LOST;
}

nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device,
	nvmlProcessUtilizationSample_t *utilization, unsigned int *count, unsigned long long since)
{
	nvmlReturn_t r;

	if (device != DEVICE)
		return NVML_ERROR_INVALID_ARGUMENT;
	r = nvml_entries_fit(processes, utilization, count);
	for (unsigned int i = 0; r == NVML_SUCCESS && i < processes; i++)
		utilization[i] = (nvmlProcessUtilizationSample_t){
			.pid = i + 1, .timeStamp = since, .smUtil = 50, .decUtil = 3};
	return nvml_entries_or_none(r, processes);
}

static void an_older_form_calls_the_newer(void **state)
{
	nvmlDevice_t device = NULL;
	unsigned int n = 0;
	int version = 0;

	assert_int_equal(nvmlInit(), NVML_SUCCESS);
	assert_int_equal(nvmlInit_v2(), NVML_SUCCESS);
	assert_int_equal(nvmlSystemGetCudaDriverVersion(&version), NVML_SUCCESS);
	assert_int_equal(version, 13000);
	assert_int_equal(nvmlDeviceGetCount(&n), NVML_SUCCESS);
	assert_int_equal(n, 1);
	assert_int_equal(nvmlDeviceGetHandleByIndex(0, &device), NVML_SUCCESS);
	assert_ptr_equal(device, DEVICE);
	assert_int_equal(nvmlDeviceGetHandleByIndex(1, &device), NVML_ERROR_INVALID_ARGUMENT);
	assert_int_equal(nvmlDeviceGetHandleByPciBusId("", &device), NVML_ERROR_NOT_FOUND);
	assert_int_equal(nvmlEventSetWait(NULL, NULL, 0), NVML_ERROR_TIMEOUT);
}

static void memory_v2_reports_no_reserved_memory(void **state)
{
	nvmlMemory_v2_t memory = {.version = NVML_STRUCT_VERSION(Memory, 2), .reserved = 5};

	assert_int_equal(nvmlDeviceGetMemoryInfo_v2(DEVICE, &memory), NVML_SUCCESS);
	assert_true(memory.total == 30 && memory.free == 20 && memory.used == 10);
	assert_true(memory.reserved == 0);
	/* A wrong version is reported before a wrong device. */
	assert_int_equal(nvmlDeviceGetMemoryInfo_v2(NULL, &memory), NVML_ERROR_INVALID_ARGUMENT);
	memory.version = 0;
	assert_int_equal(
		nvmlDeviceGetMemoryInfo_v2(NULL, &memory), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
}

static void older_lists_match_the_newest(void **state)
{
	nvmlProcessInfo_v1_t first[2];
	nvmlProcessInfo_v2_t second[2];
	unsigned int n = 2;

	processes = 2;
	assert_int_equal(nvmlDeviceGetComputeRunningProcesses(DEVICE, &n, first), NVML_SUCCESS);
	assert_true(n == 2 && first[1].pid == 2 && first[1].usedGpuMemory == 10);
	assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v2(DEVICE, &n, second), NVML_SUCCESS);
	assert_true(n == 2 && second[1].pid == 2 && second[1].usedGpuMemory == 10);
	n = 1;
	first[0].pid = 99;
	assert_int_equal(nvmlDeviceGetComputeRunningProcesses(DEVICE, &n, first),
		NVML_ERROR_INSUFFICIENT_SIZE);
	assert_true(n == 2 && first[0].pid == 99);
	n = 0;
	assert_int_equal(nvmlDeviceGetComputeRunningProcesses(DEVICE, &n, NULL),
		NVML_ERROR_INSUFFICIENT_SIZE);
	assert_int_equal(n, 2);
	/* An error of the newest form is returned, and the count stays. */
	assert_int_equal(nvmlDeviceGetComputeRunningProcesses(DEVICE, &n, NULL),
		NVML_ERROR_INVALID_ARGUMENT);
	assert_int_equal(nvmlDeviceGetComputeRunningProcesses(DEVICE, NULL, first),
		NVML_ERROR_INVALID_ARGUMENT);
	assert_int_equal(
		nvmlDeviceGetMPSComputeRunningProcesses(DEVICE, &n, first), NVML_ERROR_GPU_IS_LOST);
	assert_int_equal(n, 2);
	assert_int_equal(nvmlDeviceGetGraphicsRunningProcesses(DEVICE, &n, NULL), NVML_SUCCESS);
	assert_int_equal(n, 0);
	/* A huge count makes the library allocate no more than the list needs. */
	n = UINT32_MAX;
	assert_int_equal(nvmlDeviceGetComputeRunningProcesses(DEVICE, &n, first), NVML_SUCCESS);
	assert_int_equal(n, 2);
}

static void utilisation_of_processes_has_a_newer_form(void **state)
{
	nvmlProcessUtilizationInfo_v1_t entries[2];
	nvmlProcessesUtilizationInfo_t info = {
		.version = NVML_STRUCT_VERSION(ProcessesUtilizationInfo, 1),
		.processSamplesCount = 2,
		.lastSeenTimeStamp = 1000,
		.procUtilArray = entries};

	processes = 2;
	assert_int_equal(nvml_utilization_info(DEVICE, &info), NVML_SUCCESS);
	assert_int_equal(info.processSamplesCount, 2);
	assert_true(entries[1].pid == 2 && entries[1].timeStamp == 1000 &&
		entries[1].smUtil == 50 && entries[1].decUtil == 3 && entries[1].jpgUtil == 0);
	info.processSamplesCount = 1;
	assert_int_equal(nvml_utilization_info(DEVICE, &info), NVML_ERROR_INSUFFICIENT_SIZE);
	assert_int_equal(info.processSamplesCount, 2);
	info.procUtilArray = NULL;
	assert_int_equal(nvml_utilization_info(DEVICE, &info), NVML_ERROR_INSUFFICIENT_SIZE);
	assert_int_equal(info.processSamplesCount, 2);
	processes = 0;
	assert_int_equal(nvml_utilization_info(DEVICE, &info), NVML_ERROR_NOT_FOUND);
	info.version = 0;
	assert_int_equal(nvml_utilization_info(NULL, &info), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	assert_int_equal(nvml_utilization_info(NULL, NULL), NVML_ERROR_INVALID_ARGUMENT);
}

UNIT_MAIN(UNIT(an_older_form_calls_the_newer), UNIT(memory_v2_reports_no_reserved_memory),
	UNIT(older_lists_match_the_newest), UNIT(utilisation_of_processes_has_a_newer_form))
