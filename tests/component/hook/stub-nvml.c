/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An NVML without a device: the stub driver's four devices, numbered the other way round than CUDA
 * numbers them, as NVML may. Every other entry (stub-nvml-entries.c) says yes and does nothing.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "cuda/nvml_proto.h"

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

	u[15] = (uint8_t)(DEVICES - index);
	snprintf(text, length,
		"GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0],
		u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13],
		u[14], u[15]);
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
