/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places as many members of a gang as possible, in the given order. If fewer than the threshold
 * fit, nothing changes. All attempts happen under a savepoint and are rolled back on failure.
 *
 * Without `near`, a member goes to a node of the members placed last if the policy grades that node
 * like the best one. That node must not have more preference conflicts (place-conflicts.h).
 * PLACE_NEAR_RACK uses as few racks as possible and few nodes in each; PLACE_NEAR_NODE uses as few
 * nodes as possible. Both fill the largest node or rack first. As soon as one node or rack can take
 * all remaining members, both use the smallest that can. How many members a node can take is
 * computed as if all members had the first member's spec. If some members then do not fit there,
 * the policy chooses other nodes for them.
 *
 * Cost: one decision per member, and with `near` one pass over the nodes and a sort. With
 * preemption, each member that does not fit adds one search (place-preempt.h).
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
	uint32_t threshold; /* permille of n, 1 to 1000 */
	enum place_near near;
	const struct place_preempt *preempt; /* NULL: no preemption */
};

struct place_member {
	struct place_choice choice;
	uint32_t tenant; /* PLACE_NONE: the member is not placed */
};

struct place_group {
	struct place_member *members; /* one for each member of the gang */
	uint32_t n, n_placed;
	/* removed, or terminating if preempt->is_graceful; ascending */
	uint32_t *victims, n_victims;
};

/* floor(threshold x size + 0.5), at least 1; as KubeShare 2.0. */
uint32_t place_gang_least(uint32_t size, uint32_t threshold);

/*
 * Places the gang and removes the victims, or marks them as terminating. Every victim is necessary.
 * -ENOSPC: too few fit; `err` says how many fit and how many must fit. -EINVAL: members of
 * different priority, or values out of range. -ENOMEM. On failure nothing changes. The caller frees
 * the group with place_group_done().
 */
int place_gang_add(struct place *place, const struct place_gang *gang,
	struct place_group *ret_group, struct error *err);

void place_group_done(struct place_group *group);

#endif
