/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where ranges begin that open file descriptions have locked (F_OFD_SETLK), in all processes. Such
 * a lock ends with the last copy of its descriptor, also one on its way through a socket, and the
 * kernel lists all of them in /proc/locks. Every process can lock ranges of its own files.
 */
#ifndef BASE_OPEN_LOCKS_H
#define BASE_OPEN_LOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct open_locks {
	uint64_t *starts; /* ascending */
	size_t n;
};

/* Any thread; may take milliseconds. -errno: nothing is known, and *ret is untouched. */
int open_locks_read(struct open_locks *ret);
/* The text of /proc/locks. */
int open_locks_parse(struct str text, struct open_locks *ret);
bool open_locks_has(const struct open_locks *locks, uint64_t start);
void open_locks_done(struct open_locks *locks);

#endif
