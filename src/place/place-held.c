/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file keeps the tenants of each node in an array sorted by priority, then by tenant number.
 * place_held_position() finds an entry by binary search, so a listed tenant must keep its priority
 * and node. Terminating tenants are in no list. The caller calls place_held_reserve() before
 * place_held_add(), which therefore cannot fail. An array never shrinks, so a rollback needs no new
 * memory.
 */
#include "place/place-held.h"

#include <assert.h>
#include <string.h>

#include "base/cleanup.h"
#include "place/place-internal.h"

int place_held_reserve(struct place *place, uint32_t node)
{
	struct held *held = &place->held[node];

	return array_grow(&held->list, &held->size, held->n + 1, sizeof(*held->list));
}

/* Returns the tenant's position in the list, or the position where to insert it. */
static uint32_t place_held_position(const struct held *held, uint32_t priority, uint32_t tenant)
{
	uint32_t low = 0, high = held->n;

	while (low < high) {
		uint32_t middle = (low + high) / 2;
		const struct holder *h = &held->list[middle];

		if (h->priority < priority || (h->priority == priority && h->tenant < tenant))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

void place_held_add(struct place *place, uint32_t tenant)
{
	const struct place_tenant *t = &place->tenants[tenant];
	struct held *held = &place->held[t->node];
	struct holder h = {
		.tenant = tenant,
		.started = t->spec.started,
		.budget = t->spec.budget,
		.queue = t->spec.queue,
		.cpu_milli = t->spec.cpu_milli,
		.memory_mib = (uint32_t)MIN(
			(t->spec.memory_bytes + (1u << 20) - 1) >> 20, (uint64_t)UINT32_MAX),
		.share = (uint16_t)(t->spec.is_exclusive ? place->config.share_factor
							 : t->spec.share),
		.priority = (uint8_t)t->spec.priority,
	};
	uint32_t at = place_held_position(held, t->spec.priority, tenant);

	for (uint32_t i = 0; i < t->n; i++)
		h.devices |= 1ull << (t->device[i] - place->nodes[t->node].first_device);
	assert(held->n < held->size);
	memmove(&held->list[at + 1], &held->list[at], (held->n - at) * sizeof(h));
	held->list[at] = h;
	held->n++;
}

void place_held_remove(struct place *place, uint32_t tenant)
{
	const struct place_tenant *t = &place->tenants[tenant];
	struct held *held = &place->held[t->node];
	uint32_t at = place_held_position(held, t->spec.priority, tenant);

	assert(at < held->n && held->list[at].tenant == tenant);
	held->n--;
	memmove(&held->list[at], &held->list[at + 1], (held->n - at) * sizeof(*held->list));
}
