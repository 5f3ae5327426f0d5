/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interfaces between the two libraries. Through link_table, libdivvy-nvml.so uses
 * libdivvy-cuda.so, so that a process registers once. Through link_nvml_table, libdivvy-cuda.so
 * finds functions of the real NVML. cuGetExportTable and nvmlInternalGetExportTable return the
 * tables for the id LINK_ID, which no driver knows. Both libraries come from one build; `size`
 * detects a mix of versions.
 */
#ifndef HOOK_HOOK_LINK_H
#define HOOK_HOOK_LINK_H

#include <stdint.h>

#define LINK_ID "divvy-link-0001\0" /* 16 bytes, as cuGetExportTable expects */

struct link_device {
	uint8_t uuid[16];
	uint64_t quota_bytes;
	uint64_t used_bytes;
};

struct link_table {
	uint32_t size;
	/*
	 * Registers if necessary. Returns the tenant's devices in the tenant's order; 0: this
	 * program has none; -1: all devices are visible (no daemon, policy open).
	 */
	int (*devices)(struct link_device *ret_devices, uint32_t max);
};

struct link_nvml_table {
	uint32_t size;
	/* Returns a function of the real NVML; NULL: NVML is missing or lacks the function. */
	void *(*symbol)(const char *name);
};

#endif
