/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Alibaba's gpushare scheduler extender. A node is usable if a device has enough free memory. On
 * the node the extender chooses the device with the least free memory that suffices, and among
 * equal devices the first. Nodes are ranked by kube-scheduler's NodeResourcesLeastAllocated: the
 * mean of the free fractions of CPU and memory, in whole percent. The extender knows no tenants
 * with several devices; this policy chooses each of several devices by the same rule.
 */
#include "base/cleanup.h"
#include "place/place-internal.h"
#include "place/place-policy.h"

static int32_t gpushare_percent(uint64_t all, uint64_t free, uint64_t asked)
{
	return all && free > asked ? (int32_t)((unsigned __int128)(free - asked) * 100 / all) : 0;
}

static int32_t least_allocated(
	const struct place *place, uint32_t at, uint64_t cpu_milli, uint64_t memory_bytes)
{
	const struct node *node = &place->nodes[at];

	return (gpushare_percent(node->cpu_all, place->cpu_free[at], cpu_milli) +
		       gpushare_percent(node->memory_all, place->memory_free[at], memory_bytes)) /
		2;
}

/* CPU and memory are not part of a class, so the bound assumes a request of 0. */
static int32_t gpushare_bound(struct place *place, const struct place_class *class, uint32_t node)
{
	return least_allocated(place, node, 0, 0);
}

static int32_t gpushare_score(struct place *place, const struct place_spec *spec, uint32_t node,
	uint64_t mask, struct place_choice *choice)
{
	const uint32_t first = place->nodes[node].first_device;
	int64_t value[PLACE_NODE_DEVICES_MAX], sum;

	for (uint64_t left = mask; left; left &= left - 1) {
		uint32_t i = (uint32_t)__builtin_ctzll(left);

		value[i] = -(int64_t)place->devices[first + i].memory_free;
	}
	if (!place_take_best(place, value, mask, choice, &sum))
		return PLACE_NEVER;
	return least_allocated(place, node, spec->cpu_milli, spec->memory_bytes);
}

const struct place_policy place_gpushare = {
	.name = "gpushare",
	.about = "gpushare: the emptiest node, on it the device with the least memory that fits",
	.is_by_node = true,
	.bound = gpushare_bound,
	.score = gpushare_score,
};
