/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tenants of each node, lowest priority first, for the search for victims. The entries of a
 * node are adjacent and hold all values that the search compares, so the search reads only a few
 * cache lines for each node. place-tenant.c reports each change, rollbacks included. Arrays never
 * shrink, so only place_held_reserve() can fail. O(tenants of the node) per change.
 */
#ifndef PLACE_PLACE_HELD_H
#define PLACE_PLACE_HELD_H

#include <stdint.h>

struct place;

struct holder {
	uint64_t devices; /* bit i is the node's i-th device */
	uint64_t started;
	uint32_t tenant, budget, queue;
	uint32_t cpu_milli,
		/* the tenant's memory of the node, in MiB, rounded up; at most UINT32_MAX */
		memory_mib;
	uint16_t share; /* share of each device, in permille */
	uint8_t priority;
};

struct held {
	struct holder *list; /* by priority, then by number */
	uint32_t n, size;
};

/* The tenant's share of all its devices together, in permille. */
static inline uint32_t holder_share(const struct holder *h)
{
	return h->share * (uint32_t)__builtin_popcountll(h->devices);
}

/* Reserves memory for one more tenant of the node. -ENOMEM. */
int place_held_reserve(struct place *place, uint32_t node);
void place_held_add(struct place *place, uint32_t tenant);
void place_held_remove(struct place *place, uint32_t tenant);

#endif
