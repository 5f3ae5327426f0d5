/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GaiaGPU (Gu et al., "GaiaGPU: Sharing GPUs in Container Clouds", ISPA 2018) as in Tencent's
 * gpu-admission and gpu-manager. Chooses the node with the fewest free cores, then with the least
 * free device memory, then the first. The units are 1/100 of a device and 256 MiB. On the node:
 *
 *   share     for a part of a device: the device with the fewest free cores, then the least free
 *             memory;
 *   fragment  for one device: at each level of the tree the cell with the fewest free devices, so
 *             that large cells stay whole;
 *   link      for several devices: in the lowest cell with enough free devices; among cells of
 *             equal height the cell with the fewest free devices, then the least free memory, then
 *             the first.
 */
#include "base/cleanup.h"
#include "place/place-cell.h"
#include "place/place-internal.h"
#include "place/place-policy.h"

#define CORE_MILLI 10u
#define MEMORY_BITS 28 /* 256 MiB */
#define MEMORY_MAX (1u << 17)
/* most cores of a node; CORES_MAX * MEMORY_MAX is 2^31, so a score fits in an int32_t */
#define CORES_MAX (1u << 14)

static int32_t gaiagpu_node_score(const struct place *place, uint32_t at)
{
	const struct node *node = &place->nodes[at];
	uint64_t cores = 0, memory = 0;

	for (uint32_t i = node->first_device; i < node->first_device + node->n_devices; i++) {
		if (!device_is_open(&place->devices[i]))
			continue;
		cores += place->share_free[i];
		memory += place->devices[i].memory_free >> MEMORY_BITS;
	}
	cores = MIN(cores / CORE_MILLI, (uint64_t)CORES_MAX - 1);
	return -(int32_t)(cores * MEMORY_MAX + MIN(memory, (uint64_t)MEMORY_MAX - 1));
}

static int32_t gaiagpu_bound(struct place *place, const struct place_class *class, uint32_t node)
{
	return gaiagpu_node_score(place, node);
}

static bool take_share(const struct place *place, uint64_t mask, struct place_choice *choice)
{
	const uint32_t first = place->nodes[choice->node].first_device;
	int64_t value[PLACE_NODE_DEVICES_MAX], sum;

	for (uint64_t left = mask; left; left &= left - 1) {
		uint32_t i = (uint32_t)__builtin_ctzll(left);
		uint64_t memory = place->devices[first + i].memory_free >> 20;

		value[i] = -((int64_t)place->share_free[first + i] << 40 |
			(int64_t)MIN(memory, (1ull << 40) - 1));
	}
	return place_take_best(place, value, mask, choice, &sum);
}

/* Devices of the mask within `steps` steps of device i, including i. */
static uint64_t cell_of(
	const struct place *place, uint32_t first, uint32_t i, uint64_t mask, uint32_t steps)
{
	uint64_t cell = 0;

	for (uint64_t left = mask; left; left &= left - 1) {
		uint32_t k = (uint32_t)__builtin_ctzll(left);

		if (place_distance(place, first + i, first + k) <= steps)
			cell |= 1ull << k;
	}
	return cell;
}

static uint32_t most_steps(const struct place *place, uint32_t first, uint64_t mask)
{
	uint32_t most = 0;

	for (uint64_t left = mask; left; left &= left - 1) {
		uint32_t far = place_distance(place, first + (uint32_t)__builtin_ctzll(mask),
			first + (uint32_t)__builtin_ctzll(left));

		most = MAX(most, far);
	}
	return most;
}

static void take_fragment(const struct place *place, uint64_t mask, struct place_choice *choice)
{
	const uint32_t first = place->nodes[choice->node].first_device;

	for (uint32_t steps = most_steps(place, first, mask); steps > 1; steps--) {
		uint64_t smallest = mask;

		for (uint64_t left = mask, cell; left; left &= ~cell) {
			cell = cell_of(
				place, first, (uint32_t)__builtin_ctzll(left), mask, steps - 1);
			if (__builtin_popcountll(cell) < __builtin_popcountll(smallest))
				smallest = cell;
		}
		mask = smallest;
	}
	choice->device[0] = first + (uint32_t)__builtin_ctzll(mask);
}

static uint64_t memory_of(const struct place *place, uint32_t first, uint64_t mask)
{
	uint64_t sum = 0;

	for (; mask; mask &= mask - 1)
		sum += place->devices[first + (uint32_t)__builtin_ctzll(mask)].memory_free >> 20;
	return sum;
}

static void take_link(const struct place *place, const struct place_spec *spec, uint64_t mask,
	struct place_choice *choice)
{
	const uint32_t first = place->nodes[choice->node].first_device;
	const uint32_t top = most_steps(place, first, mask);
	uint64_t best = mask;

	for (uint32_t steps = 1; steps < top && best == mask; steps++) {
		uint64_t memory = UINT64_MAX;
		int n = INT32_MAX;

		for (uint64_t left = mask, cell; left; left &= ~cell) {
			cell = cell_of(place, first, (uint32_t)__builtin_ctzll(left), mask, steps);
			if ((uint32_t)__builtin_popcountll(cell) < choice->n ||
				__builtin_popcountll(cell) > n)
				continue;
			if (__builtin_popcountll(cell) == n &&
				memory_of(place, first, cell) >= memory)
				continue;
			n = __builtin_popcountll(cell);
			memory = memory_of(place, first, cell);
			best = cell;
		}
	}
	place_take_near(place, spec, choice->node, best, choice);
}

static int32_t gaiagpu_score(struct place *place, const struct place_spec *spec, uint32_t node,
	uint64_t mask, struct place_choice *choice)
{
	if (spec->share < SPEC_SHARE_ONE) {
		if (!take_share(place, mask, choice))
			return PLACE_NEVER;
	} else if (spec->count == 1) {
		take_fragment(place, mask, choice);
	} else {
		take_link(place, spec, mask, choice);
	}
	return gaiagpu_node_score(place, node);
}

const struct place_policy place_gaiagpu = {
	.name = "gaiagpu",
	.about = "GaiaGPU: the fullest node, on it what leaves large groups of devices whole",
	.is_by_node = true,
	.bound = gaiagpu_bound,
	.score = gaiagpu_score,
};
