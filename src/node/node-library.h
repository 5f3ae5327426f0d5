/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The libraries that tenants map: in a folder by version and contents, which is written once and
 * never changed, so that an upgrade replaces nothing that a running program has. A container
 * keeps the folder that its slot had when the kubelet allocated it, through all its restarts and
 * the machine's: which that is stands in a file for each slot, and a folder goes when no slot
 * that a container has names it. One thread; all of it blocks as files do.
 */
#ifndef NODE_NODE_LIBRARY_H
#define NODE_NODE_LIBRARY_H

#include <limits.h>
#include <stdbool.h>

#include "base/error.h"

#define LIBRARY_RECORDS "library-of" /* below the state's folder: a file for each slot */
#define LIBRARY_RECORDS_MAX (4u << 20)

/*
 * Puts the hook libraries (and the simulated driver, if driver is not NULL) below
 * state_dir/lib, and says in which folder.
 */
int library_install(const char *state_dir, const char *driver, char ret_folder[static PATH_MAX],
	struct error *err);

/* From now on the slot's container has that one. */
int library_note(const char *state_dir, const char *slot, const char *folder, struct error *err);
/* Where this is false for a slot that somebody has, any version may be in use. */
bool library_is_noted(const char *state_dir, const char *slot);

typedef bool library_is_held_fn(void *data, const char *slot);
/*
 * Forgets what slots had that nobody holds now, and removes the folders that no slot names, but
 * not `folder`, the one of today. Returns how many others are left.
 */
int library_sweep(const char *state_dir, const char *folder, library_is_held_fn *is_held,
	void *data, struct error *err);

#endif
