/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What libdivvy-nvml.so asks of libdivvy-cuda.so, so that a process registers once: a table behind
 * cuGetExportTable under an id of our own. Both come from one build; `size` guards against a mix.
 */
#ifndef HOOK_LINK_H
#define HOOK_LINK_H

#include <stdint.h>

#define LINK_ID "divvy-link-0001\0" /* 16 bytes */

struct link_device {
	uint8_t uuid[16];
	uint64_t quota_bytes;
	uint64_t used_bytes;
};

struct link_table {
	uint32_t size;
	/*
	 * Registers if need be. The tenant's devices in its order, or -1 when everything shows as
	 * it is (no daemon, policy open), or 0 when there are none for this program.
	 */
	int (*devices)(struct link_device *ret_devices, uint32_t max);
};

#endif
