/* SPDX-License-Identifier: Apache-2.0 */
/* Carries out plans of place/place-defrag.h at once. */
#include <errno.h>

#include "replay/replay-queue.h"

/* Largest remaining work of a task. A move adds its cost, which must not overflow a uint64_t. */
#define WORK_MAX (WORKLOAD_TIME_MAX_NS * SPEC_SHARE_ONE)

static int replay_defrag_move(struct queue *q, const struct place_move *move, struct error *err)
{
	const struct replay_input *in = q->run->in;
	struct claim *claim = claim_of(q, move->tenant);
	struct tasks *t = &q->tasks;
	struct running was;
	uint64_t cost;
	uint32_t tenant;
	int r = claim ? 0 : tasks_stop(t, t->slot_of[move->tenant], &was);

	r = r < 0 ? r : place_defrag_move(q->run->place, move, &tenant, err);
	if (r < 0)
		return r;
	if (claim) {
		/* The task has not started, so the move costs no work. */
		claim->tenant = tenant;
		claim->choice = move->to;
		return 0;
	}
	run_note(q->run, REPLAY_MOVED, t->now_ns, was.task, &move->to, NULL);
	cost = in->defrag.cost_ns * in->workload->tasks[was.task].limit;
	return tasks_start(t, was.task, MIN(was.left, WORK_MAX - cost) + cost, &move->to, tenant);
}

int run_defrag(struct queue *q, struct place_defrag *ret_done, struct error *err)
{
	struct place_defrag plan = {0};
	int r = place_defrag_find(q->run->place, q->run->in->defrag.n_moves, NULL, &plan, err);

	for (uint32_t i = 0; r == 0 && i < plan.n_moves; i++)
		r = replay_defrag_move(q, &plan.moves[i], err);
	if (r < 0) {
		place_defrag_done(&plan);
		return r;
	}
	q->run->result->n_moves += plan.n_moves;
	*ret_done = plan;
	return 0;
}
