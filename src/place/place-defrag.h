/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Defragmentation: moves that leave whole devices to nobody. Only tenants of one device that say
 * they may be moved (`is_movable`) and use no network device move, each once, to devices of the
 * same model that are in use already; a device is emptied altogether or its tenants stay, and one
 * that somebody is leaving is neither emptied nor moved to. Nobody moves to where more are that it
 * would rather not meet (place-apart.h). Those
 * that hold least are emptied first, and tenants go where least is left over. Who is moved is
 * disturbed: it counts into its disruption budget, which is never exceeded.
 *
 * A plan is a list of moves in order, each of which fits when those before it are done: it is made
 * by doing them, and taking all back. The caller executes it, or not. O(devices + moves x tries).
 * Threads: as place.h.
 */
#ifndef PLACE_PLACE_DEFRAG_H
#define PLACE_PLACE_DEFRAG_H

#include <stdbool.h>
#include <stdint.h>

#include "place/place-preempt.h"

#define PLACE_MOVES_MAX 65536u
#define PLACE_MOVE_TRIES 256u /* devices that are tried for one tenant */

struct place_move {
	uint32_t tenant;
	struct place_choice from, to;
};

struct place_defrag {
	struct place_move *moves;
	uint32_t n_moves;
	uint32_t whole_before, whole_after;           /* devices that nobody is on and are open */
	uint64_t fragmented_before, fragmented_after; /* place_fragmentation() */
};

/*
 * At most n_moves_max moves; none where nothing is gained. Of the rules only the budgets count;
 * NULL: none. -EINVAL, -ENOMEM: untouched. The plan is done with by place_defrag_done.
 */
int place_defrag_find(struct place *place, uint32_t n_moves_max, const struct place_preempt *rules,
	struct place_defrag *ret_plan, struct error *err);

/*
 * Moves the tenant, which gets a new number, or changes nothing: -ENOENT, -ESTALE, -ENOSPC, -EINVAL
 * for one that is leaving, or uses network devices: those were chosen for where it is.
 */
int place_defrag_move(struct place *place, const struct place_move *move, uint32_t *ret_tenant,
	struct error *err);

/* Whether a tenant may be moved, where that was not known when it came. -ENOENT. */
int place_set_movable(struct place *place, uint32_t tenant, bool is_movable);

void place_defrag_done(struct place_defrag *plan);

#endif
