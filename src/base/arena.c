/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file allocates an arena's pieces from a list of blocks, the newest first. A new block has a
 * quarter of the size of all earlier blocks, but at least ARENA_FIRST and at most ARENA_MOST bytes,
 * since a scheduler keeps tens of thousands of small arenas. A larger piece gets a block of its own
 * size. Only the newest block has free space. calloc() zeroes the blocks.
 */
#include "base/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define ARENA_FIRST 480u
#define ARENA_MOST 65536u
#define ARENA_ALIGN _Alignof(max_align_t)

struct arena_block {
	struct arena_block *next;
	max_align_t bytes[];
};

void arena_done(struct arena *a)
{
	struct arena_block *next;

	for (struct arena_block *b = a->blocks; b; b = next) {
		next = b->next;
		free(b);
	}
	*a = (struct arena){0};
}

void *arena_take(struct arena *a, size_t n)
{
	struct arena_block *b;
	size_t size;
	void *p;

	if (n > SIZE_MAX / 2)
		return NULL;
	n = MAX((n + ARENA_ALIGN - 1) / ARENA_ALIGN, (size_t)1) * ARENA_ALIGN;
	if (!a->blocks || n > a->size - a->used) {
		size = MIN(MAX(a->total / 4, (size_t)ARENA_FIRST), (size_t)ARENA_MOST);
		size = MAX(size, n);
		b = calloc(1, sizeof(*b) + size);
		if (!b)
			return NULL;
		b->next = a->blocks;
		a->blocks = b;
		a->size = size;
		a->total += size;
		a->used = 0;
	}
	p = (char *)a->blocks->bytes + a->used;
	a->used += n;
	return p;
}

void *arena_take_array(struct arena *a, size_t n, size_t item)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, item, &bytes))
		return NULL;
	return arena_take(a, bytes);
}

char *arena_dup(struct arena *a, struct str s)
{
	char *p = arena_take(a, s.n + 1);

	if (p && s.n)
		memcpy(p, s.p, s.n);
	return p;
}
