/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of divvy's own, looked for from the folder of the running program, so that a build folder
 * and an installed tree both work as they are. Any thread.
 */
#ifndef BASE_BESIDE_H
#define BASE_BESIDE_H

#include <stddef.h>

#include "base/error.h"

/*
 * The real path of `name` in the first of the folders (relative to the running program's; NULL
 * behind the last) that has it so that access(2) grants `mode`. -ENOENT, -ENAMETOOLONG.
 */
int beside_find(
	const char *const *folders, const char *name, int mode, char *ret_path, size_t size);

/* A program that another one of divvy's starts ("divvy-remote-server"). -ENOENT in words. */
int beside_find_program(const char *name, char *ret_path, size_t size, struct error *err);

#endif
