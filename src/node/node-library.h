/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The libraries that tenants map, in a folder named after version and contents. A folder is written
 * once and never changed, so an upgrade replaces no file that a running program has mapped. A
 * container keeps the folder that its slot had at the kubelet's Allocate, through all restarts of
 * the container and the machine. A file for each slot records the folder. A folder is removed when
 * no slot of a container names it. All functions block on the disk, so divvyd calls them at its
 * start, and later from the disk worker alone.
 */
#ifndef NODE_NODE_LIBRARY_H
#define NODE_NODE_LIBRARY_H

#include <limits.h>
#include <stdbool.h>

#include "base/error.h"

#define LIBRARY_RECORDS "library-of" /* folder in the state folder, with a file for each slot */
#define LIBRARY_RECORDS_MAX (4u << 20)

/*
 * Installs the interception libraries, and the simulated driver if `driver` is not NULL, below
 * state_dir/lib. Writes the folder's path.
 */
int library_install(const char *state_dir, const char *driver, char ret_folder[static PATH_MAX],
	struct error *err);

/* Records that the slot's container has this folder. */
int library_note(const char *state_dir, const char *slot, const char *folder, struct error *err);
/* Whether the slot has a record. If a slot in use has none, it may use any version. */
bool library_is_noted(const char *state_dir, const char *slot);

typedef bool library_is_held_fn(void *data, const char *slot);
/*
 * Deletes the records of slots that no container holds, and removes the folders that no slot names.
 * Keeps `folder`, the current one. Returns the number of other folders that are left.
 */
int library_sweep(const char *state_dir, const char *folder, library_is_held_fn *is_held,
	void *data, struct error *err);

#endif
