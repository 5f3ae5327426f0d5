/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is on each node, least priority first: what a search for victims reads. A node's tenants are
 * next to each other with all that the search compares, so that a node costs it a few cache lines.
 * place-tenant.c tells of each change, taking back included; room never shrinks, so only
 * place_held_reserve can fail. O(tenants of the node) a change.
 */
#ifndef PLACE_PLACE_HELD_H
#define PLACE_PLACE_HELD_H

#include <stdint.h>

struct place;

struct holder {
	uint64_t devices; /* bit i: the node's i-th */
	uint64_t started;
	uint32_t tenant, budget, queue;
	uint32_t cpu_milli,
		memory_mib; /* of the node; MiB rounded up, the most that fits for more */
	uint16_t share;     /* that it holds of each */
	uint8_t priority;
};

struct held {
	struct holder *list; /* by priority, then by number */
	uint32_t n, size;
};

/* What one of them holds of all its devices together, permille. */
static inline uint32_t holder_share(const struct holder *h)
{
	return h->share * (uint32_t)__builtin_popcountll(h->devices);
}

int place_held_reserve(struct place *place, uint32_t node); /* for one more; -ENOMEM */
void place_held_add(struct place *place, uint32_t tenant);
void place_held_remove(struct place *place, uint32_t tenant);

#endif
