/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preference conflicts: tenants on a device that preferred anti-affinity would avoid. Conflicts
 * never keep a pod waiting.
 *
 * Two tenants conflict if both have the same anti-affinity label and at least one of the two labels
 * is only preferred. The relation is symmetric, so the order of arrival does not matter.
 *
 * Among all places that fit, placement takes those with the fewest conflicts; the policy's score
 * decides between them. A tenant counts once for each device that it shares. Conflicts come before
 * the score: a weight that adds both would have another effect with each policy. Threads: as
 * place.h.
 */
#ifndef PLACE_PLACE_CONFLICTS_H
#define PLACE_PLACE_CONFLICTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "place/place.h"

/* Whether any tenant that is placed now could conflict with the spec. O(1). */
bool place_has_conflicts(const struct place *place, const struct place_spec *spec);

/* The spec's conflicts on the device. O(labels on the device). */
uint32_t place_count_conflicts(
	const struct place *place, const struct place_spec *spec, uint32_t device);

/* The sets of a node's devices with the fewest conflicts. Bit i is the node's i-th device. */
struct place_fewest {
	uint64_t all;         /* devices in every set */
	uint64_t some;        /* devices from which each set takes the rest of spec->count */
	uint32_t n_conflicts; /* conflicts of each set */
};

/* The sets within `mask`, which has at least spec->count devices. */
struct place_fewest place_fewest_of(
	const struct place *place, const struct place_spec *spec, uint32_t node, uint64_t mask);

/*
 * Sets n_conflicts of `choice` and returns the policy's score of the best set of `fewest`. The
 * caller has set choice->node and choice->n. For one device the policy chooses the best. For
 * several devices, the policy chooses those that complete `fewest->all`.
 */
int32_t place_fewest_score(struct place *place, const struct place_spec *spec,
	const struct place_fewest *fewest, struct place_choice *choice);

/* Writes the choice's conflicts as spec_conflicts_format() does. Returns `ret`. */
char *place_choice_conflicts(const struct place *place, const struct place_spec *spec,
	const struct place_choice *choice, char ret[static SPEC_CONFLICTS]);

#endif
