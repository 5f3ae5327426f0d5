/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hash tables: uthash with a hash of this process's own. Users choose many of the keys and must not
 * find out which of them land in one bucket, so a random seed comes first. Include this instead of
 * uthash.h. Out of memory HASH_ADD aborts; in files that define HASH_NONFATAL_OOM as 1 before, it
 * leaves an element whose hh.tbl is NULL and which is not in the table. A table has one thread.
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* Never the same in two processes. Any thread. */
uint32_t hash_seeded(const void *p, size_t n);

#define HASH_FUNCTION(key, n, ret) \
	do { \
		(ret) = hash_seeded(key, n); \
	} while (0)
#define uthash_fatal(message) abort()
#include <uthash.h>

#endif
