/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This policy chooses a random node and random devices. Other policies are compared with this one,
 * which is not in the list of policies. The random numbers depend only on the number of tenants and
 * on the used slots. So equal runs make equal choices.
 */
#include "base/rand.h"
#include "place/place-internal.h"
#include "place/place-policy.h"

static uint64_t random_policy_draw(
	const struct place *place, const struct place_spec *spec, uint32_t node)
{
	struct rand r = rand_seeded((uint64_t)place->n_placed << 40 ^
		(uint64_t)place->tenant_free << 20 ^ (uint64_t)spec->share << 8);

	r.state = rand_u64(&r) + node;
	return rand_u64(&r);
}

/* The largest random number is not known in advance, so the search must score every node. */
static int32_t random_bound(struct place *place, const struct place_class *class, uint32_t node)
{
	return INT32_MAX;
}

static int32_t random_score(struct place *place, const struct place_spec *spec, uint32_t node,
	uint64_t mask, struct place_choice *choice)
{
	struct rand r = rand_seeded(random_policy_draw(place, spec, node));

	for (uint32_t k = 0; k < choice->n; k++) {
		uint64_t skip = rand_below(&r, (uint64_t)__builtin_popcountll(mask)), left = mask;

		for (; skip; skip--)
			left &= left - 1;
		left &= -left;
		mask &= ~left;
		choice->device[k] = place->nodes[node].first_device +
			(uint32_t)__builtin_ctzll(left);
	}
	return (int32_t)(rand_u64(&r) >> 34);
}

const struct place_policy place_random = {
	.name = "random",
	.about = "any node with room, and on it any device",
	.spans_shares = true,
	.is_by_node = true,
	.bound = random_bound,
	.score = random_score,
};
