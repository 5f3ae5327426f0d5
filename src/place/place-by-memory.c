/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This policy chooses the devices with the least free memory, over all nodes. Other policies are
 * compared with this one, as with place-random.c. A tenant that requests no bytes uses memory in
 * proportion to its share. So the policy takes as a device's free memory the smaller of two
 * numbers: its unreserved bytes, and its total memory times its free share.
 */
#include "base/cleanup.h"
#include "place/place-internal.h"
#include "place/place-policy.h"

#define MIB_UNTOLD SPEC_SHARE_ONE /* assumed memory of a device with unknown memory */

static int64_t free_mib(const struct place *place, uint32_t at)
{
	const struct device *device = &place->devices[at];
	const uint64_t all = device->memory_all ? device->memory_all >> 20 : MIB_UNTOLD;
	const uint64_t open = all * place->share_free[at] / SPEC_SHARE_ONE;

	return (int64_t)(device->memory_all ? MIN(open, device->memory_free >> 20) : open);
}

static uint64_t by_memory_judge_device(const struct place *place, const struct place_class *class,
	uint32_t node, uint64_t mask, int64_t *ret_value)
{
	const uint32_t first = place->nodes[node].first_device;

	for (uint64_t left = mask; left; left &= left - 1) {
		const uint32_t i = (uint32_t)__builtin_ctzll(left);

		ret_value[i] = MAX(-free_mib(place, first + i), -(int64_t)PLACE_VALUE_MAX);
	}
	return mask;
}

const struct place_policy place_by_memory = {
	.name = "by-memory",
	.about = "the devices with the least memory free, of all nodes",
	.spans_shares = true,
	.bound = place_judged_bound,
	.score = place_judged_score,
	.judge = by_memory_judge_device,
};
