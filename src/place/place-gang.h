/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places tenants that belong together, all or nothing: as many of them as possible, in the order in
 * which they are given, and at least the threshold; else nothing changes. What is tried on the way
 * is under a mark and taken back before anybody sees it.
 *
 * Members near each other: where nothing is asked, a member goes to a node of its last fellows
 * when the policy grades it like the best one, and it meets no more there that it would rather not
 * (place-apart.h); with `near` that counts on each node alone. PLACE_NEAR_RACK takes as few racks
 * as possible and in each as few nodes, PLACE_NEAR_NODE as few nodes as possible: the largest
 * first, and the smallest one that is enough for the rest. How many fit is told by the first
 * member; should that be wrong, the others go where the policy puts them.
 *
 * Cost: one decision a member, and with `near` one pass over the nodes and a sort; with preemption
 * one search (place-preempt.h) for each member that does not fit. Threads: as place.h.
 */
#ifndef PLACE_PLACE_GANG_H
#define PLACE_PLACE_GANG_H

#include <stdint.h>

#include "place/place-preempt.h"

#define PLACE_GANG_MAX 65536u

enum place_near { PLACE_NEAR_ANY, PLACE_NEAR_RACK, PLACE_NEAR_NODE };

struct place_gang {
	const struct place_spec *members;
	uint32_t n;
	uint32_t threshold; /* permille of n, 1..1000 */
	enum place_near near;
	const struct place_preempt *preempt; /* NULL: nobody has to leave */
};

struct place_member {
	struct place_choice choice;
	uint32_t tenant; /* PLACE_NONE: not placed */
};

struct place_group {
	struct place_member *members; /* as many as the gang's */
	uint32_t n, n_placed;
	uint32_t *victims, n_victims; /* who has left, or is leaving (is_graceful); rising */
};

/* floor(threshold x size + 0.5), as KubeShare 2.0; at least 1. */
uint32_t place_gang_least(uint32_t size, uint32_t threshold);

/*
 * 0 and everything is done, also the leaving of the victims; none of them is in vain. -ENOSPC with
 * how many fit and how many are needed, -EINVAL (members of different priority, bounds), -ENOMEM:
 * nothing has changed. The group is done with by place_group_done.
 */
int place_gang_add(struct place *place, const struct place_gang *gang,
	struct place_group *ret_group, struct error *err);

void place_group_done(struct place_group *group);

#endif
