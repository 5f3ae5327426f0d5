/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that ends all at once: what belongs to one object (its texts, its arrays) is taken from
 * its arena piece by piece and freed together. Nothing taken is ever given back alone. One thread.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>

#include "base/str.h"

struct arena_block;

/* All zero is an empty one. */
struct arena {
	struct arena_block *blocks; /* the newest first */
	size_t size;                /* of the newest block */
	size_t used;                /* ... and how much of it is taken */
};

void arena_done(struct arena *a);

/* n zeroed bytes, aligned for any type; NULL when out of memory. */
void *arena_take(struct arena *a, size_t n);

/* As arena_take() for n items; also NULL when the product is too large. */
void *arena_take_array(struct arena *a, size_t n, size_t item);

/* A terminated copy. */
char *arena_dup(struct arena *a, struct str s);

#endif
