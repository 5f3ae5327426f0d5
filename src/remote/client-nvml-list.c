/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVML's lists of processes, as they are of a device of this machine: the program's own, with the
 * pids that they have here, and what their workers use over there. Any thread.
 */
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

LISTS(nvmlDeviceGetComputeRunningProcesses_v3, REMOTE_NVML_COMPUTE, nvmlProcessInfo_t)
LISTS(nvmlDeviceGetGraphicsRunningProcesses_v3, REMOTE_NVML_GRAPHICS, nvmlProcessInfo_t)
LISTS(nvmlDeviceGetMPSComputeRunningProcesses_v3, REMOTE_NVML_MPS, nvmlProcessInfo_t)

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

NVML_EXPORT nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(
	nvmlDevice_t device, nvmlProcessesUtilizationInfo_t *procesesUtilInfo)
{
	NVML_CHECK(nvml_is_begun(), NVML_ERROR_UNINITIALIZED);
	return nvml_utilization_info(device, procesesUtilInfo);
}
