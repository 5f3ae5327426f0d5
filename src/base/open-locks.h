/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Start offsets of the ranges that open file descriptions of all processes have locked
 * (F_OFD_SETLK). Such a lock ends with the last copy of its descriptor, also a copy in transit
 * through a socket; the kernel lists all locks in /proc/locks. Any process can lock ranges of files
 * that it has open.
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

/* Reads /proc/locks; may take milliseconds. On -errno *ret is untouched. Any thread. */
int open_locks_read(struct open_locks *ret);
/* Parses the text of /proc/locks. Returns 0 or -ENOMEM. */
int open_locks_parse(struct str text, struct open_locks *ret);
bool open_locks_has(const struct open_locks *locks, uint64_t start);
void open_locks_done(struct open_locks *locks);

#endif
