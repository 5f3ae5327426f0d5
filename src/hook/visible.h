/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the driver number only the tenant's devices. The driver reads CUDA_VISIBLE_DEVICES once, in
 * its cuInit. For that call this code installs another environment. Its CUDA_VISIBLE_DEVICES names
 * those of the tenant's devices, by UUID, that the program's own variable selects. Afterwards the
 * code restores the program's unchanged environment. Ordinals then count the tenant's devices
 * everywhere in the API, also in structs and attributes.
 */
#ifndef HOOK_VISIBLE_H
#define HOOK_VISIBLE_H

#include <stdbool.h>

#include "hook/hook.h"

struct visible {
	char **before, **during;
	char *text, *own; /* text: this library's variable; own: the program's, if it has one */
};

/*
 * Installs the environment for cuInit. False: the program's variable selects none of the tenant's
 * devices, or memory is short. Call under the init lock.
 */
bool visible_begin(struct visible *ret_visible, struct hook *h);
void visible_end(struct visible *visible);

/*
 * Selects the tenant's devices by the program's setting, in the setting's order, and writes indices
 * into h->device. Reads the setting as the driver does. Numbers count the tenant's devices from 0;
 * other entries are UUIDs or prefixes of them. The list ends at the first entry that names no
 * device, and an entry named twice empties it. Returns the number of selected devices.
 */
uint32_t visible_select(
	const struct hook *h, const char *setting, uint32_t ret_index[static MSG_DEVICES]);

#endif
