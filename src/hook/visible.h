/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver numbers the devices that CUDA_VISIBLE_DEVICES names, once, in its cuInit. For that one
 * call it reads an environment of ours in which the variable names the tenant's devices by UUID,
 * those that the program's own CUDA_VISIBLE_DEVICES leaves; then the program's environment is back,
 * untouched. Ordinals are then the tenant's everywhere in the API, in structs and attributes too.
 */
#ifndef HOOK_VISIBLE_H
#define HOOK_VISIBLE_H

#include <stdbool.h>

#include "hook/hook.h"

struct visible {
	char **before, **during;
	char *text, *own; /* our variable, and the program's, if it has one */
};

/* False: nothing of the tenant's is left to see (or no memory). Under the init lock. */
bool visible_begin(struct visible *ret_visible, struct hook *h);
void visible_end(struct visible *visible);

/*
 * Which of the tenant's devices the program's setting leaves, in its order: indices into h->device.
 * As the driver reads it: numbers count the tenant's devices from 0, or (beginnings of) UUIDs; the
 * list ends at the first entry that names none; an entry named twice empties it. Returns how many.
 */
uint32_t visible_select(
	const struct hook *h, const char *setting, uint32_t ret_index[static MSG_DEVICES]);

#endif
