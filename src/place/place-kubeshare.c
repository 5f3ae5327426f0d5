/* SPDX-License-Identifier: Apache-2.0 */
/*
 * KubeShare 1.0 (Yeh et al., "KubeShare: A Framework to Manage GPUs as First-Class and Shared
 * Resources in Container Cloud", HPDC 2020), algorithm 1, step 3. The policy first takes a used
 * device without an affinity label; among several, the one with the least share left over. Next
 * comes a device with an affinity label; among several, the one with the most share left over, to
 * keep capacity for that label. Last comes an idle device. place-fit.c has the earlier steps, which
 * decide which tenants may share a device. The published code only takes the device with the least
 * share left over, idle devices included.
 *
 * KubeShare's tenants have one device. For a tenant with several devices, this policy takes the
 * best devices, and their values are added.
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
