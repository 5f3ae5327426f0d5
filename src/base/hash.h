/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hash tables: uthash with a random seed for each process. Users choose many of the keys, and must
 * not be able to predict which keys share a bucket. Include this file instead of uthash.h. HASH_ADD
 * aborts when memory runs out. In a file that first defines HASH_NONFATAL_OOM as 1, the element is
 * not added and its hh.tbl is NULL. A table belongs to one thread.
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* The hash of n bytes, with the seed of this process. Any thread. */
uint32_t hash_seeded(const void *p, size_t n);

#define HASH_FUNCTION(key, n, ret) \
	do { \
		(ret) = hash_seeded(key, n); \
	} while (0)
#define uthash_fatal(message) abort()
#include <uthash.h>

#endif
