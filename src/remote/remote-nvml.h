/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions of the program's NVML to the NVML of the device's machine, one note each way. A session
 * that begins with REMOTE_HELLO_NVML carries nothing else, and needs no CUDA context.
 */
#ifndef REMOTE_REMOTE_NVML_H
#define REMOTE_REMOTE_NVML_H

#include <stddef.h>
#include <stdint.h>

#include "cuda/nvml-types.h"
#include "remote/session.h"

enum remote_question {
	REMOTE_NVML_SYSTEM, /* struct remote_nvml_system */
	REMOTE_NVML_DEVICE, /* struct remote_nvml_device: constant facts */
	REMOTE_NVML_USE,    /* struct remote_nvml_use: changing values */
	/*
	 * The question has a struct remote_nvml_ask. Each answer is one page of the list, a struct
	 * remote_nvml_list.
	 */
	REMOTE_NVML_LIST,
};

/*
 * Members of struct remote_note: in REMOTE_ASK, `machine` is the question and `lane` the device; in
 * REMOTE_TELL, `lane` is the result.
 */

struct remote_nvml_system {
	uint32_t devices;
	int32_t cuda; /* CUDA version: 1000 * major + 10 * minor */
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

/* Lists of the program's own processes, with their pids on the program's machine. */
enum remote_nvml_kind {
	REMOTE_NVML_COMPUTE, /* nvmlProcessInfo_t */
	REMOTE_NVML_GRAPHICS,
	REMOTE_NVML_MPS,
	REMOTE_NVML_USED, /* nvmlProcessUtilizationSample_t */
};

/* The most processes of a tenant: PAGE_PROCESSES of wire/page.h. */
#define REMOTE_NVML_ENTRIES 1024u

/* The content of remote_note.text in a REMOTE_ASK. */
struct remote_nvml_ask {
	uint32_t kind; /* enum remote_nvml_kind */
	uint32_t from; /* 0: makes a new list; otherwise continues the last list at this entry */
	uint64_t since;
};

struct remote_nvml_list {
	uint32_t n;    /* entries of the whole list */
	uint32_t here; /* entries on this page */
	_Alignas(8) char entries[REMOTE_VISIBLE - 8];
};

static inline size_t remote_nvml_entry_size(uint32_t kind)
{
	return kind == REMOTE_NVML_USED ? sizeof(nvmlProcessUtilizationSample_t)
					: sizeof(nvmlProcessInfo_t);
}

_Static_assert(sizeof(struct remote_nvml_list) <= REMOTE_VISIBLE, "abi");
_Static_assert(sizeof(struct remote_nvml_system) <= REMOTE_VISIBLE, "abi");
_Static_assert(sizeof(struct remote_nvml_device) <= REMOTE_VISIBLE, "abi");
_Static_assert(sizeof(struct remote_nvml_use) <= REMOTE_VISIBLE, "abi");

#endif
