/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file prefers devices with little memory for tenants that request bytes. For whole devices,
 * smallest_of() adds sizes from the smallest until enough devices are selected. The mask must have
 * at least as many devices as requested, or smallest_of() never ends. For shares, each device gets
 * a value whose high bits are the free share, and whose low 40 bits are the size in MiB. So the
 * smallest free share wins, and the size decides between equal shares.
 */
#include "place/place-size.h"

#include "base/cleanup.h"
#include "place/place-internal.h"
#include "place/place-policy.h"

void place_sizes_of(const struct place *place, struct place_sizes *ret)
{
	ret->are_several = false;
	for (uint32_t m = 0; m < PLACE_MODELS_MAX; m++)
		ret->smallest[m] = UINT64_MAX;
	for (uint32_t at = 0; at < place->n_nodes; at++) {
		const struct node *n = &place->nodes[at];

		for (uint32_t i = n->first_device; n->is_used && i < n->first_device + n->n_devices;
			i++) {
			uint64_t *smallest = &ret->smallest[place->devices[i].model];
			const uint64_t size = place->devices[i].memory_all;

			if (!size)
				continue;
			ret->are_several |= *smallest != UINT64_MAX && *smallest != size;
			*smallest = MIN(*smallest, size);
		}
	}
}

uint64_t place_size_beyond(
	const struct place *place, const struct place_sizes *sizes, uint32_t device)
{
	const uint64_t size = place->devices[device].memory_all;
	const uint64_t smallest = sizes->smallest[place->devices[device].model];

	return size > smallest ? size - smallest : 0;
}

uint64_t place_size_least_beyond(
	const struct place *place, const struct place_sizes *sizes, uint32_t node)
{
	const struct node *n = &place->nodes[node];
	uint64_t least = n->n_devices ? UINT64_MAX : 0;

	for (uint32_t i = n->first_device; i < n->first_device + n->n_devices; i++)
		least = MIN(least, place_size_beyond(place, sizes, i));
	return least;
}

/* Returns all devices of the smallest sizes, for as many sizes as give `count` devices. */
static uint64_t smallest_of(
	const struct place *place, uint32_t first, uint64_t mask, uint32_t count)
{
	uint64_t small = 0;

	while ((uint32_t)__builtin_popcountll(small) < count) {
		uint64_t least = UINT64_MAX, next = 0;

		for (uint64_t left = mask & ~small; left; left &= left - 1) {
			const int i = __builtin_ctzll(left);
			const uint64_t size = place->devices[first + (uint32_t)i].memory_all;

			if (size < least)
				next = 0;
			least = MIN(least, size);
			next |= size == least ? 1ull << i : 0;
		}
		small |= next;
	}
	return small;
}

void place_size_take(const struct place *place, const struct place_spec *spec, uint32_t node,
	uint64_t mask, struct place_choice *choice)
{
	const uint32_t first = place->nodes[node].first_device;
	int64_t value[PLACE_NODE_DEVICES_MAX], sum;

	if (spec->share == SPEC_SHARE_ONE) {
		mask = smallest_of(place, first, mask, spec->count);
		place_take_near(place, spec, node, mask, choice);
		return;
	}
	for (uint64_t left = mask; left; left &= left - 1) {
		const uint32_t i = (uint32_t)__builtin_ctzll(left);

		value[i] = -((int64_t)place->share_free[first + i] << 40) -
			(int64_t)(place->devices[first + i].memory_all >> 20);
	}
	place_take_best(place, value, mask, choice, &sum);
}
