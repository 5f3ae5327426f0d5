/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of a slot, on a disk that may be slow: its folder, the loader's list beside the folder,
 * and the record of the slot's library. The kubelet gets the answer to an Allocate only when these
 * files exist.
 */
#ifndef NODE_NODE_FILES_H
#define NODE_NODE_FILES_H

#include <stdbool.h>

#include "base/error.h"

struct slot_files;
struct worker;

/* The texts are copied. */
struct slot_files_params {
	const char *folder; /* the slot's folder */
	bool is_remote;     /* true: the list names the remote libraries */
	/*
	 * Arguments for library_note() (node-library.h), which writes the record. library NULL: no
	 * record.
	 */
	const char *state_dir, *slot, *library;
};

/*
 * Writes the files. Blocks on the disk; any thread. Returns 0, or -errno of the first file that
 * fails.
 */
int slot_files_make(const struct slot_files_params *params, struct error *err);

/* result: the value that slot_files_make() returned. Called in the loop's thread. */
typedef void slot_files_fn(void *data, int result, const struct error *err);

/*
 * Has the worker write the files, in the order of the calls, and returns at once: 0 or -ENOMEM.
 * `done` is called later, once, unless slot_files_forget() comes before. The loop's thread.
 */
int slot_files_write(struct worker *disk, const struct slot_files_params *params,
	slot_files_fn *done, void *data, struct slot_files **ret_files);

/* Cancels the call of `done`; the worker still writes the files. Accepts NULL. */
void slot_files_forget(struct slot_files *files);

#endif
