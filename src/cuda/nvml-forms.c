/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVML functions that a library answers by another function of its own (FORM in nvml.def), and
 * nvml_utilization_info(). Built into each library that has a column with FORM. Any thread.
 */
#include <stddef.h>
#include <stdlib.h>

#include "cuda/nvml-answer.h"

#define LIST_MAX 65536u /* more than any list has; bounds the allocation for a wrong count */

#define FORM(abi, params, call) \
	NVML_EXPORT nvmlReturn_t abi params \
	{ \
		return call; \
	}

FORM(nvmlInit, (void), nvmlInitWithFlags(0))
FORM(nvmlInit_v2, (void), nvmlInitWithFlags(0))
FORM(nvmlSystemGetCudaDriverVersion, (int *version), nvmlSystemGetCudaDriverVersion_v2(version))
FORM(nvmlDeviceGetCount, (unsigned int *count), nvmlDeviceGetCount_v2(count))
FORM(nvmlDeviceGetHandleByIndex, (unsigned int index, nvmlDevice_t *device),
	nvmlDeviceGetHandleByIndex_v2(index, device))
FORM(nvmlDeviceGetHandleByPciBusId, (const char *bus_id, nvmlDevice_t *device),
	nvmlDeviceGetHandleByPciBusId_v2(bus_id, device))
FORM(nvmlEventSetWait, (nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout_ms),
	nvmlEventSetWait_v2(set, data, timeout_ms))

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
	nvmlMemory_t plain;

	NVML_CHECK_VERSION(memory, Memory, 2);
	NVML_TRY(nvmlDeviceGetMemoryInfo(device, &plain));
	memory->total = plain.total;
	memory->reserved = 0;
	memory->free = plain.free;
	memory->used = plain.used;
	return NVML_SUCCESS;
}

/* ---- lists of processes ---- */

_Static_assert(sizeof(nvmlProcessInfo_v2_t) == sizeof(nvmlProcessInfo_t) &&
		offsetof(nvmlProcessInfo_v2_t, computeInstanceId) ==
			offsetof(nvmlProcessInfo_t, computeInstanceId),
	"version 2 is laid out as version 3");

static nvmlReturn_t list_v1(PFN_nvmlDeviceGetComputeRunningProcesses_v3 *list, nvmlDevice_t device,
	unsigned int *count, nvmlProcessInfo_v1_t *infos)
{
	nvmlProcessInfo_t *newest = NULL;
	unsigned int n;
	nvmlReturn_t r;

	if (!count)
		return list(device, NULL, NULL);
	n = *count < LIST_MAX ? *count : LIST_MAX;
	if (n && infos) {
		newest = calloc(n, sizeof(*newest));
		if (!newest)
			return NVML_ERROR_MEMORY;
	}
	r = list(device, &n, newest);
	if (r == NVML_SUCCESS || r == NVML_ERROR_INSUFFICIENT_SIZE)
		*count = n;
	for (unsigned int i = 0; newest && r == NVML_SUCCESS && i < n; i++)
		infos[i] = (nvmlProcessInfo_v1_t){
			.pid = newest[i].pid, .usedGpuMemory = newest[i].usedGpuMemory};
	free(newest);
	return r;
}

#define LIST_FORMS(name) \
	FORM(name, (nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_v1_t *infos), \
		list_v1(name##_v3, device, count, infos)) \
	FORM(name##_v2, (nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_v2_t *infos), \
		name##_v3(device, count, (void *)infos))

LIST_FORMS(nvmlDeviceGetComputeRunningProcesses)
LIST_FORMS(nvmlDeviceGetGraphicsRunningProcesses)
LIST_FORMS(nvmlDeviceGetMPSComputeRunningProcesses)

nvmlReturn_t nvml_utilization_info(nvmlDevice_t device, nvmlProcessesUtilizationInfo_t *info)
{
	nvmlProcessUtilizationSample_t *samples = NULL;
	unsigned int n;
	nvmlReturn_t r;

	NVML_CHECK_VERSION(info, ProcessesUtilizationInfo, 1);
	n = info->procUtilArray ? info->processSamplesCount : 0;
	if (n > LIST_MAX)
		n = LIST_MAX;
	if (n) {
		samples = calloc(n, sizeof(*samples));
		if (!samples)
			return NVML_ERROR_MEMORY;
	}
	info->processSamplesCount = n;
	r = nvmlDeviceGetProcessUtilization(
		device, samples, &info->processSamplesCount, info->lastSeenTimeStamp);
	for (unsigned int i = 0; samples && r == NVML_SUCCESS && i < info->processSamplesCount; i++)
		info->procUtilArray[i] = (nvmlProcessUtilizationInfo_v1_t){
			.timeStamp = samples[i].timeStamp,
			.pid = samples[i].pid,
			.smUtil = samples[i].smUtil,
			.memUtil = samples[i].memUtil,
			.encUtil = samples[i].encUtil,
			.decUtil = samples[i].decUtil,
		};
	free(samples);
	return r;
}
