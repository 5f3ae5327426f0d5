/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An NVML without a device: the stub driver's four devices in the reverse of CUDA's order, as NVML
 * may number them. Each device runs the processes of $STUB_PIDS ("1,2"). A process's bytes and
 * percent equal its position in that list. Every other entry (stub-nvml-entries.c) does nothing and
 * succeeds.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cuda/nvml-proto.h"
#include "cuda/uuid.h"

#define API __attribute__((visibility("default")))
#define DEVICES 4u

static char devices[DEVICES];

static unsigned int number_of(nvmlDevice_t device)
{
	return (unsigned int)((const char *)device - devices);
}

static void uuid_text(unsigned int index, char *text, unsigned int length)
{
	uint8_t u[16] = "divvystub";
	char digits[CUDA_UUID_TEXT];

	u[15] = (uint8_t)(DEVICES - index);
	cuda_uuid_format(u, digits);
	snprintf(text, length, "GPU-%s", digits);
}

/* This name is in no list of this project, like a function of a newer NVML. */
nvmlReturn_t nvmlStubNewerThanTheList(int *value);

API nvmlReturn_t nvmlStubNewerThanTheList(int *value)
{
	*value = 4712;
	return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *deviceCount)
{
	*deviceCount = DEVICES;
	return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
	if (index >= DEVICES)
		return NVML_ERROR_INVALID_ARGUMENT;
	*device = (nvmlDevice_t)(void *)&devices[index];
	return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
	for (unsigned int i = 0; i < DEVICES; i++) {
		char text[64];

		uuid_text(i, text, sizeof text);
		if (!strcasecmp(text, uuid))
			return nvmlDeviceGetHandleByIndex_v2(i, device);
	}
	return NVML_ERROR_NOT_FOUND;
}

API nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
	uuid_text(number_of(device), uuid, length);
	return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
	*index = number_of(device);
	return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
	*memory = (nvmlMemory_t){.total = 64ull << 30, .free = 50ull << 30, .used = 14ull << 30};
	return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
	memory->total = 64ull << 30;
	memory->reserved = 1ull << 30;
	memory->free = 49ull << 30;
	memory->used = 14ull << 30;
	return NVML_SUCCESS;
}

/* Returns the number of processes and writes at most `room` of them to ret_pid. */
static unsigned int pids(unsigned int *ret_pid, unsigned int room)
{
	const char *text = getenv("STUB_PIDS");
	unsigned int n = 0;
	char *end;

	for (; text && *text; text = *end ? end + 1 : end) {
		const unsigned int pid = (unsigned int)strtoul(text, &end, 10);

		if (n < room)
			ret_pid[n] = pid;
		n++;
	}
	return n;
}

API nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(
	nvmlDevice_t device, unsigned int *infoCount, nvmlProcessInfo_t *infos)
{
	unsigned int pid[64];
	const unsigned int n = pids(pid, 64);
	const nvmlReturn_t r = n > *infoCount ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;

	for (unsigned int i = 0; i < n && r == NVML_SUCCESS; i++)
		infos[i] = (nvmlProcessInfo_t){.pid = pid[i], .usedGpuMemory = i};
	*infoCount = n;
	return r;
}

API nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device,
	nvmlProcessUtilizationSample_t *utilization, unsigned int *processSamplesCount,
	unsigned long long lastSeenTimeStamp)
{
	unsigned int pid[64];
	const unsigned int n = lastSeenTimeStamp < 1000 ? pids(pid, 64) : 0;
	const bool fits = utilization && n <= *processSamplesCount;

	for (unsigned int i = 0; i < n && fits; i++)
		utilization[i] = (nvmlProcessUtilizationSample_t){.pid = pid[i], .smUtil = i};
	*processSamplesCount = n;
	if (!n)
		return NVML_ERROR_NOT_FOUND;
	return fits ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}

API nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(
	nvmlDevice_t device, nvmlProcessesUtilizationInfo_t *info)
{
	unsigned int pid[64];
	const unsigned int n = pids(pid, 64);
	const bool fits = n <= info->processSamplesCount;

	for (unsigned int i = 0; i < n && fits; i++)
		info->procUtilArray[i] = (nvmlProcessUtilizationInfo_v1_t){.pid = pid[i]};
	info->processSamplesCount = n;
	return fits ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}

API nvmlReturn_t nvmlDeviceGetAccountingPids(
	nvmlDevice_t device, unsigned int *count, unsigned int *ret_pids)
{
	const unsigned int n = pids(ret_pids, *count);
	const bool fits = n <= *count;

	*count = n;
	return fits ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}
