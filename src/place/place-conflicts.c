/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file counts preference conflicts from the tags of a device, which count its tenants by label
 * and role. place_fewest_of() takes the devices of a node in groups of equal counts, the least
 * count first. Only the last group may have more devices than the tenant still needs. That group
 * becomes `some`, and all groups before it become `all`. place_fewest_score() first lets the policy
 * choose among both sets. If the choice lacks a device of `all`, the function asks the policy
 * again, with `all` and the best devices of that choice only.
 */
#include "place/place-conflicts.h"

#include "base/cleanup.h"
#include "place/place-internal.h"
#include "place/place-policy.h"

bool place_has_conflicts(const struct place *place, const struct place_spec *spec)
{
	const struct label *preferred = place_label_at(place, spec->preferred_anti_affinity),
			   *rule = place_label_at(place, spec->anti_affinity);

	return spec->count &&
		((preferred &&
			 preferred->n_devices[ROLE_PREFERRED] +
				 preferred->n_devices[ROLE_ANTI_AFFINITY]) ||
			(rule && rule->n_devices[ROLE_PREFERRED]));
}

/* No tag has label 0, which stands for no label in a spec: such a field matches no tag. */
uint32_t place_count_conflicts(
	const struct place *place, const struct place_spec *spec, uint32_t device)
{
	const struct device *d = &place->devices[device];
	uint32_t n = 0;

	for (uint32_t i = 0; i < d->n_tags; i++) {
		const struct tag *tag = &d->tags[i];

		if (tag->role != ROLE_PREFERRED && tag->role != ROLE_ANTI_AFFINITY)
			continue;
		if (tag->label == spec->preferred_anti_affinity ||
			(tag->role == ROLE_PREFERRED && tag->label == spec->anti_affinity))
			n += tag->n;
	}
	return n;
}

struct place_fewest place_fewest_of(
	const struct place *place, const struct place_spec *spec, uint32_t node, uint64_t mask)
{
	const uint32_t first = place->nodes[node].first_device;
	uint32_t met[PLACE_NODE_DEVICES_MAX], lacking = spec->count;
	struct place_fewest ret = {.n_conflicts = 0};

	for (uint64_t left = mask; left; left &= left - 1)
		met[__builtin_ctzll(left)] = place_count_conflicts(
			place, spec, first + (uint32_t)__builtin_ctzll(left));
	while (lacking && mask) {
		uint32_t least = UINT32_MAX, n;
		uint64_t here = 0;

		for (uint64_t left = mask; left; left &= left - 1) {
			const int i = __builtin_ctzll(left);

			if (met[i] < least)
				here = 0;
			least = MIN(least, met[i]);
			here |= met[i] == least ? 1ull << i : 0;
		}
		n = MIN(lacking, (uint32_t)__builtin_popcountll(here));
		ret.n_conflicts += n * least;
		if (n < (uint32_t)__builtin_popcountll(here))
			ret.some = here;
		else
			ret.all |= here;
		mask &= ~here;
		lacking -= n;
	}
	return ret;
}

int32_t place_fewest_score(struct place *place, const struct place_spec *spec,
	const struct place_fewest *fewest, struct place_choice *choice)
{
	const struct place_policy *policy = place->config.policy;
	const uint32_t first = place->nodes[choice->node].first_device;
	uint64_t chosen = 0, exact = fewest->all;
	int32_t score;

	choice->n_conflicts = fewest->n_conflicts;
	score = policy->score(place, spec, choice->node, fewest->all | fewest->some, choice);
	if (!fewest->all || !fewest->some || score == PLACE_NEVER)
		return score;
	for (uint32_t k = 0; k < choice->n; k++) {
		const uint64_t bit = 1ull << (choice->device[k] - first);

		chosen |= bit;
		if ((uint32_t)__builtin_popcountll(exact) < choice->n)
			exact |= bit;
	}
	return chosen == exact ? score : policy->score(place, spec, choice->node, exact, choice);
}

char *place_choice_conflicts(const struct place *place, const struct place_spec *spec,
	const struct place_choice *choice, char ret[static SPEC_CONFLICTS])
{
	const uint32_t label = spec->preferred_anti_affinity ? spec->preferred_anti_affinity
							     : spec->anti_affinity;

	return spec_conflicts_format(place_label_name(place, label), choice->n_conflicts, ret);
}
