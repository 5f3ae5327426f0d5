/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds divvy's own files relative to the folder of the running program, so that a build folder and
 * an installed tree work alike. Any thread.
 */
#ifndef BASE_INSTALL_PATH_H
#define BASE_INSTALL_PATH_H

#include <stddef.h>

#include "base/error.h"

/*
 * Looks for `name` in the folders, in order, and takes the first file for which access(2) grants
 * `mode`. The folders are relative to the running program's folder; NULL ends the list. Writes the
 * file's real path. Returns 0, -ENOENT if no folder has the file, or -ENAMETOOLONG.
 */
int install_path_find(
	const char *const *folders, const char *name, int mode, char *ret_path, size_t size);

/*
 * Finds a program that another program of divvy starts, such as "divvy-remote-server". Errors as
 * install_path_find().
 */
int install_path_find_program(const char *name, char *ret_path, size_t size, struct error *err);

#endif
