/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds divvy's own files relative to the folder of the running program, so that a build folder and
 * an installed tree work alike. Any thread.
 */
#ifndef BASE_INSTALL_PATH_H
#define BASE_INSTALL_PATH_H

#include <stddef.h>

#include "base/error.h"

/* A message about a missing file of divvy ends with the name of the package that contains it. */
#ifdef DIVVY_PACKAGE
#define INSTALL_PATH_PACKAGE \
	"; the package " DIVVY_PACKAGE " contains it: apt install --reinstall " DIVVY_PACKAGE
#else
#define INSTALL_PATH_PACKAGE ""
#endif

/*
 * Looks for `name` in the folders, in order, and takes the first file for which access(2) grants
 * `mode`. The folders are relative to the running program's folder; NULL ends the list. Writes the
 * real path of the folder, and the name: a link of that name stays a link, because an upgrade may
 * replace what it points to while programs keep the path. Returns 0, -ENOENT if no folder has the
 * file, or -ENAMETOOLONG.
 */
int install_path_find(
	const char *const *folders, const char *name, int mode, char *ret_path, size_t size);

/*
 * Finds a program that another program of divvy starts, such as "divvy-remote-server". Errors as
 * install_path_find().
 */
int install_path_find_program(const char *name, char *ret_path, size_t size, struct error *err);

#endif
