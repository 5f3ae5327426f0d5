/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whom a tenant would rather not meet on its devices, which keeps nobody waiting: those that have
 * its label of preferred anti-affinity, as that or as anti-affinity, and those that prefer to be
 * apart from the label of its own anti-affinity. Two tenants mean each other or neither does, so
 * that it is the same whoever comes first.
 *
 * Of all places where it may go at all it takes one where it meets the fewest, each as often as it
 * shares a device with it; of those the policy's score says which. It comes before the score
 * because it is what a user knows of these programs and no policy does, and a weight against a
 * score would mean something else with each policy. Threads: as place.h.
 */
#ifndef PLACE_PLACE_APART_H
#define PLACE_PLACE_APART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "place/place.h"

/* Whether there is anybody that it could meet, as things are. O(1). */
bool place_is_apart(const struct place *place, const struct place_spec *spec);

/* How many of them are on the device. O(labels on it). */
uint32_t place_meets(const struct place *place, const struct place_spec *spec, uint32_t device);

/* The sets of devices of a node on which it meets the fewest. Bit i: the node's i-th. */
struct place_fewest {
	uint64_t all;   /* are in each of them */
	uint64_t some;  /* any of these, as many as are lacking */
	uint32_t n_met; /* on each set together */
};

/* Of the mask, which has spec->count at least. */
struct place_fewest place_fewest_of(
	const struct place *place, const struct place_spec *spec, uint32_t node, uint64_t mask);

/*
 * The policy's score of the node with one of these sets, which it fills in with n_met; node and n
 * of the choice are set. Of one device it is the policy's best; of several, where some are taken
 * because fewer are met there, the policy says which others.
 */
int32_t place_fewest_score(struct place *place, const struct place_spec *spec,
	const struct place_fewest *fewest, struct place_choice *choice);

/* spec_met_format() of what it has chosen. */
char *place_choice_met(const struct place *place, const struct place_spec *spec,
	const struct place_choice *choice, char ret[static SPEC_MET]);

#endif
