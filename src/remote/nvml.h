/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What NVML of the program asks NVML of the device's machine: one note each way. A session begun
 * with REMOTE_HELLO_NVML carries nothing else, and needs no context of the driver's.
 */
#pragma once

#include <stdint.h>

#include "cuda/nvml_types.h"
#include "remote/session.h"

enum remote_question {
	REMOTE_NVML_SYSTEM, /* struct remote_nvml_system */
	REMOTE_NVML_DEVICE, /* struct remote_nvml_device: what never changes */
	REMOTE_NVML_USE,    /* struct remote_nvml_use: what does */
};

/* In REMOTE_ASK, machine is the question and lane the device; in REMOTE_TELL, lane the result. */

struct remote_nvml_system {
	uint32_t devices;
	int32_t cuda; /* version, as CUDA counts them */
	char driver[NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE];
	char nvml[NVML_SYSTEM_NVML_VERSION_BUFFER_SIZE];
};

struct remote_nvml_device {
	char name[NVML_DEVICE_NAME_V2_BUFFER_SIZE];
	char uuid[64];
	int32_t major, minor; /* compute capability */
	nvmlPciInfo_t pci;
};

struct remote_nvml_use {
	nvmlReturn_t memory_result, utilisation_result;
	nvmlMemory_t memory;
	nvmlUtilization_t utilisation;
};

_Static_assert(sizeof(struct remote_nvml_system) <= REMOTE_VISIBLE, "abi");
_Static_assert(sizeof(struct remote_nvml_device) <= REMOTE_VISIBLE, "abi");
_Static_assert(sizeof(struct remote_nvml_use) <= REMOTE_VISIBLE, "abi");
