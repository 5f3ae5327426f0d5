/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Defragmentation: moves that empty whole devices. A tenant moves at most once, and only to a
 * device of the same model that is already in use. A tenant moves only if it is movable
 * (`is_movable`), has one device and no network device, and is no half of a remote pod. A device is
 * emptied completely or not at all. A device with terminating tenants is neither emptied nor a
 * target.
 *
 * No move increases a tenant's preference conflicts (place-conflicts.h). Devices with the least use
 * are emptied first, and tenants go where the least share is left over. A move disturbs the tenant,
 * so the tenant's disruption budget counts the move and is never exceeded.
 *
 * A plan is an ordered list of moves; each move fits once all earlier moves are done. The planner
 * makes the moves under a savepoint and rolls them back. The caller may then execute the plan.
 * O(devices + moves x tries). Threads: as place.h.
 */
#ifndef PLACE_PLACE_DEFRAG_H
#define PLACE_PLACE_DEFRAG_H

#include <stdbool.h>
#include <stdint.h>

#include "place/place-preempt.h"

#define PLACE_MOVES_MAX 65536u
#define PLACE_MOVE_TRIES 256u /* devices tried for one tenant */

struct place_move {
	uint32_t tenant;
	struct place_choice from, to;
};

struct place_defrag {
	struct place_move *moves;
	uint32_t n_moves;
	uint32_t whole_before, whole_after;           /* open devices without tenants */
	uint64_t fragmented_before, fragmented_after; /* place_fragmentation() */
};

/*
 * Plans at most n_moves_max moves, none if no device can be emptied. Only the budgets of `rules`
 * count; NULL: no budgets. -EINVAL, -ENOMEM: *ret_plan is unchanged. The caller frees the plan with
 * place_defrag_done().
 */
int place_defrag_find(struct place *place, uint32_t n_moves_max, const struct place_preempt *rules,
	struct place_defrag *ret_plan, struct error *err);

/*
 * Moves the tenant, which gets a new number, or changes nothing. -ENOENT: no such tenant. -ESTALE:
 * the tenant is no longer at move->from. -ENOSPC: the target lacks capacity or has more preference
 * conflicts. -EINVAL: the tenant is terminating, has network devices, or is one half of a remote
 * pod.
 */
int place_defrag_move(struct place *place, const struct place_move *move, uint32_t *ret_tenant,
	struct error *err);

/* Sets whether the tenant may be moved. -ENOENT. */
int place_set_movable(struct place *place, uint32_t tenant, bool is_movable);

void place_defrag_done(struct place_defrag *plan);

#endif
