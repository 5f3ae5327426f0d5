/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVML's lists of processes as on a local device: the program's own processes with their local
 * pids, and the usage of their workers on the device's machine. Any thread.
 */
#include "remote/client-nvml.h"

static nvmlReturn_t list_processes(nvmlDevice_t device, enum remote_nvml_kind kind,
	unsigned int *count, nvmlProcessInfo_t *infos)
{
	NVML_CHECK(nvml_is_begun(), NVML_ERROR_UNINITIALIZED);
	NVML_CHECK(count && (infos || !*count), NVML_ERROR_INVALID_ARGUMENT);
	return nvml_ask_list(device, &(struct remote_nvml_ask){.kind = kind}, infos, count);
}

#define LISTS(name, kind) \
	NVML_EXPORT nvmlReturn_t name( \
		nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos) \
	{ \
		return list_processes(device, kind, count, infos); \
	}

LISTS(nvmlDeviceGetComputeRunningProcesses_v3, REMOTE_NVML_COMPUTE)
LISTS(nvmlDeviceGetGraphicsRunningProcesses_v3, REMOTE_NVML_GRAPHICS)
LISTS(nvmlDeviceGetMPSComputeRunningProcesses_v3, REMOTE_NVML_MPS)

NVML_EXPORT nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device,
	nvmlProcessUtilizationSample_t *utilization, unsigned int *processSamplesCount,
	unsigned long long lastSeenTimeStamp)
{
	struct remote_nvml_ask ask = {.kind = REMOTE_NVML_USED, .since = lastSeenTimeStamp};

	NVML_CHECK(nvml_is_begun(), NVML_ERROR_UNINITIALIZED);
	NVML_CHECK(processSamplesCount, NVML_ERROR_INVALID_ARGUMENT);
	return nvml_ask_list(device, &ask, utilization, processSamplesCount);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(
	nvmlDevice_t device, nvmlProcessesUtilizationInfo_t *procesesUtilInfo)
{
	NVML_CHECK(nvml_is_begun(), NVML_ERROR_UNINITIALIZED);
	return nvml_utilization_info(device, procesesUtilInfo);
}
