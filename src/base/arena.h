/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that is freed all at once. An object takes its texts and arrays from its arena piece by
 * piece, and arena_done() frees all of them. No piece can be freed alone. One thread.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>

#include "base/str.h"

struct arena_block;

/* A zeroed struct is an empty arena. */
struct arena {
	struct arena_block *blocks; /* the newest first */
	size_t size;                /* bytes of the newest block */
	size_t total;               /* bytes of all blocks */
	size_t used;                /* bytes taken from the newest block */
};

void arena_done(struct arena *a);

/* Returns n zeroed bytes, aligned for any type; NULL when out of memory. */
void *arena_take(struct arena *a, size_t n);

/* As arena_take() for n items of `item` bytes; also NULL if the product overflows. */
void *arena_take_array(struct arena *a, size_t n, size_t item);

/* Returns a terminated copy; NULL when out of memory. */
char *arena_dup(struct arena *a, struct str s);

#endif
