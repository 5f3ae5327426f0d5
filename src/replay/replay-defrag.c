/* SPDX-License-Identifier: Apache-2.0 */
/* Plans of core/place-defrag.h, carried out at once. */
#include <errno.h>

#include "replay/replay-tasks.h"

/* The most that a task may have left: what a uint64_t holds is little more. */
#define WORK_MAX (WORKLOAD_TIME_MAX_NS * SPEC_SHARE_ONE)

static int move(struct tasks *t, const struct place_move *move, struct error *err)
{
	const struct replay_input *in = t->run->in;
	const uint32_t slot = t->slot_of[move->tenant];
	struct running was;
	uint64_t cost;
	uint32_t tenant;
	int r = tasks_stop(t, slot, &was);

	r = r < 0 ? r : place_defrag_move(t->run->place, move, &tenant, err);
	if (r < 0)
		return r;
	cost = in->defrag.cost_ns * in->workload->tasks[was.task].limit;
	return tasks_start(t, was.task, MIN(was.left, WORK_MAX - cost) + cost, &move->to, tenant);
}

int run_defrag(struct tasks *t, struct place_defrag *ret_done, struct error *err)
{
	struct place_defrag plan = {0};
	int r = place_defrag_find(t->run->place, t->run->in->defrag.n_moves, NULL, &plan, err);

	for (uint32_t i = 0; r == 0 && i < plan.n_moves; i++)
		r = move(t, &plan.moves[i], err);
	if (r < 0) {
		place_defrag_done(&plan);
		return r;
	}
	t->run->result->n_moves += plan.n_moves;
	*ret_done = plan;
	return 0;
}
