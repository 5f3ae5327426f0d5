/* SPDX-License-Identifier: Apache-2.0 */
/* Writes files into a tar archive (ustar, POSIX.1-1988) in memory. Pure. */
#ifndef CLI_TAR_H
#define CLI_TAR_H

#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

#define TAR_NAME_MAX 100u       /* bytes of a name; tar_add() refuses longer ones */
#define TAR_FILE_MAX (1u << 30) /* bytes of a file */

/*
 * Adds a file of mode 0600 without an owner; mtime_s counts from 1970. -ENAMETOOLONG, -EINVAL (an
 * empty or absolute name), -EFBIG, -ENOMEM, -EMSGSIZE (beyond the buffer's maximum; a smaller file
 * may still fit).
 */
int tar_add(
	struct buf *out, const char *name, struct str data, uint64_t mtime_s, struct error *err);
/* Writes the end of the archive. */
int tar_end(struct buf *out);

#endif
