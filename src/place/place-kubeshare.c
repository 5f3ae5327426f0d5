/* SPDX-License-Identifier: Apache-2.0 */
/*
 * KubeShare 1.0 (Yeh et al., "KubeShare: A Framework to Manage GPUs as First-Class and Shared
 * Resources in Container Cloud", HPDC 2020), algorithm 1, step 3. First choice is a used device
 * without an affinity label that has the least left over. Second is a device with an affinity label
 * that has the most left over, to keep room for that label. Last is an idle device. place-fit.c has
 * the earlier steps, which decide who may share. The published code has only one step: the least
 * left over, where an idle device counts as entirely free.
 *
 * KubeShare's tenants have one device. For several devices the best are taken and their values
 * added.
 */
#include "place/place-internal.h"
#include "place/place-policy.h"

#define TIER (1 << 17) /* above any share */

static bool has_affinity(const struct device *d)
{
	for (uint32_t i = 0; i < d->n_tags; i++)
		if (d->tags[i].role == ROLE_AFFINITY)
			return true;
	return false;
}

static uint64_t judge_paper(const struct place *place, const struct place_class *class,
	uint32_t node, uint64_t mask, int64_t *ret_value)
{
	const uint32_t first = place->nodes[node].first_device;

	for (uint64_t left = mask; left; left &= left - 1) {
		uint32_t i = (uint32_t)__builtin_ctzll(left);
		int32_t over = place->share_free[first + i] - (int32_t) class->share;

		if (device_is_idle(place, first + i))
			ret_value[i] = 0;
		else if (has_affinity(&place->devices[first + i]))
			ret_value[i] = TIER + over;
		else
			ret_value[i] = 3 * TIER - over;
	}
	return mask;
}

const struct place_policy place_kubeshare = {
	.name = "kubeshare",
	.about = "KubeShare 1.0 as published: best fit, worst fit among labels, then a new device",
	.bound = place_judged_bound,
	.score = place_judged_score,
	.judge = judge_paper,
};

static uint64_t judge_code(const struct place *place, const struct place_class *class,
	uint32_t node, uint64_t mask, int64_t *ret_value)
{
	const uint32_t first = place->nodes[node].first_device;

	for (uint64_t left = mask; left; left &= left - 1) {
		uint32_t i = (uint32_t)__builtin_ctzll(left);

		ret_value[i] = (int64_t) class->share - place->share_free[first + i];
	}
	return mask;
}

const struct place_policy place_kubeshare_code = {
	.name = "kubeshare-code",
	.about = "KubeShare 1.0 as shipped: the device with the least left over",
	.bound = place_judged_bound,
	.score = place_judged_score,
	.judge = judge_code,
};
