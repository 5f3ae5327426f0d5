/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This policy chooses the devices with the most free share, over all nodes. So each device gets a
 * tenant before any device gets a second one. Other policies are compared with this one, as with
 * place-random.c. place_worst_fit compares nodes instead, in whole percents.
 */
#include "place/place-internal.h"
#include "place/place-policy.h"

static int32_t in_turn_bound(struct place *place, const struct place_class *class, uint32_t at)
{
	const struct node *node = &place->nodes[at];
	int64_t free[PLACE_NODE_DEVICES_MAX];

	for (uint32_t i = 0; i < node->n_devices; i++)
		free[i] = place->share_free[node->first_device + i];
	return place_score_of(place_sum_of_greatest(free, node->n_devices, class->count));
}

static int32_t in_turn_score(struct place *place, const struct place_spec *spec, uint32_t node,
	uint64_t mask, struct place_choice *choice)
{
	int32_t free = 0;

	place_take_most(place, spec, node, mask, choice);
	for (uint32_t k = 0; k < choice->n; k++)
		free += place->share_free[choice->device[k]];
	return free;
}

const struct place_policy place_in_turn = {
	.name = "in-turn",
	.about = "the devices with the most free, of all nodes",
	.spans_shares = true,
	.bound = in_turn_bound,
	.score = in_turn_score,
};
