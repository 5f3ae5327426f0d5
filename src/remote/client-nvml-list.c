/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVML's lists of processes, as they are of a device of this machine: the program's own, with the
 * pids that they have here, and what their workers use over there. Any thread.
 */
#include <stdlib.h>

#include "base/cleanup.h"
#include "remote/client-nvml.h"

static nvmlReturn_t list_processes(
	nvmlDevice_t device, enum remote_nvml_kind kind, unsigned int *count, struct nvml_array to)
{
	struct remote_nvml_ask ask = {.kind = kind};

	if (!nvml_is_begun())
		return NVML_ERROR_UNINITIALIZED;
	if (!count || (*count && !to.entries))
		return NVML_ERROR_INVALID_ARGUMENT;
	to.room = *count;
	return nvml_list(device, &ask, &to, count);
}

#define LISTS(name, kind, type) \
	NVML_EXPORT nvmlReturn_t name(nvmlDevice_t device, unsigned int *count, type *infos) \
	{ \
		return list_processes(device, kind, count, \
			(struct nvml_array){.entries = infos, .size = sizeof(*infos)}); \
	}

LISTS(nvmlDeviceGetComputeRunningProcesses, REMOTE_NVML_COMPUTE, nvmlProcessInfo_v1_t)
LISTS(nvmlDeviceGetComputeRunningProcesses_v2, REMOTE_NVML_COMPUTE, nvmlProcessInfo_v2_t)
LISTS(nvmlDeviceGetComputeRunningProcesses_v3, REMOTE_NVML_COMPUTE, nvmlProcessInfo_t)
LISTS(nvmlDeviceGetGraphicsRunningProcesses, REMOTE_NVML_GRAPHICS, nvmlProcessInfo_v1_t)
LISTS(nvmlDeviceGetGraphicsRunningProcesses_v2, REMOTE_NVML_GRAPHICS, nvmlProcessInfo_v2_t)
LISTS(nvmlDeviceGetGraphicsRunningProcesses_v3, REMOTE_NVML_GRAPHICS, nvmlProcessInfo_t)
LISTS(nvmlDeviceGetMPSComputeRunningProcesses, REMOTE_NVML_MPS, nvmlProcessInfo_v1_t)
LISTS(nvmlDeviceGetMPSComputeRunningProcesses_v2, REMOTE_NVML_MPS, nvmlProcessInfo_v2_t)
LISTS(nvmlDeviceGetMPSComputeRunningProcesses_v3, REMOTE_NVML_MPS, nvmlProcessInfo_t)
_Static_assert(offsetof(nvmlProcessInfo_v1_t, usedGpuMemory) ==
			offsetof(nvmlProcessInfo_t, usedGpuMemory) &&
		sizeof(nvmlProcessInfo_v2_t) == sizeof(nvmlProcessInfo_t),
	"the older forms begin as the newest");

NVML_EXPORT nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device,
	nvmlProcessUtilizationSample_t *utilization, unsigned int *processSamplesCount,
	unsigned long long lastSeenTimeStamp)
{
	struct remote_nvml_ask ask = {.kind = REMOTE_NVML_USED, .since = lastSeenTimeStamp};
	struct nvml_array to = {.entries = utilization, .size = sizeof(*utilization)};

	if (!nvml_is_begun())
		return NVML_ERROR_UNINITIALIZED;
	if (!processSamplesCount)
		return NVML_ERROR_INVALID_ARGUMENT;
	to.room = utilization ? *processSamplesCount : 0;
	return nvml_list(device, &ask, &to, processSamplesCount);
}

/* Without JPEG and optical flow: of those the older call, which is asked there, does not tell. */
NVML_EXPORT nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(
	nvmlDevice_t device, nvmlProcessesUtilizationInfo_t *procesesUtilInfo)
{
	nvmlProcessesUtilizationInfo_t *info = procesesUtilInfo;
	nvmlProcessUtilizationSample_t *samples;
	nvmlReturn_t r;

	if (!nvml_is_begun())
		return NVML_ERROR_UNINITIALIZED;
	NVML_CHECK_VERSION(info, ProcessesUtilizationInfo, 1);
	samples = calloc(REMOTE_NVML_ENTRIES, sizeof(*samples));
	if (!samples)
		return NVML_ERROR_MEMORY;
	if (!info->procUtilArray)
		info->processSamplesCount = 0;
	else if (info->processSamplesCount > REMOTE_NVML_ENTRIES)
		info->processSamplesCount = REMOTE_NVML_ENTRIES;
	r = nvmlDeviceGetProcessUtilization(
		device, samples, &info->processSamplesCount, info->lastSeenTimeStamp);
	for (unsigned i = 0; r == NVML_SUCCESS && i < info->processSamplesCount; i++)
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
