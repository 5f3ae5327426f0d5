/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds places, and victims if the input permits preemption, for one queue item (struct queue_item)
 * of the placement simulation. Items of no queue go to gather_gang(), which leaves thresholds and
 * preemption to the placement model. gather_each() adds the tasks one by one; the task's queue, if
 * there is one, admits the task first. If too few tasks of the item fit, both functions leave the
 * placement model as before. Preemption by priority evicts only tasks of the same queue, and all
 * tasks without a queue count as one queue. place_queue_reclaim() takes devices back from other
 * queues.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "place/place-held.h"
#include "place/place-reclaim.h"
#include "place/place-victims.h"
#include "replay/replay-queue.h"

/* Tasks that started last are evicted first. */
static const struct place_preempt rules = {.is_latest_first = true};

static struct place_spec spec_now(const struct queue *q, uint32_t at)
{
	struct place_spec spec = *spec_at(q, at);

	spec.started = q->tasks.now_ns;
	return spec;
}

/* ---- order of victims ---- */

/*
 * Victims have a lower priority and belong to the same queue, where "no queue" counts as one queue.
 * If victims could be in other queues, tasks could evict each other for ever: a task by priority,
 * its victim by the guarantee of its queue.
 */
static int gather_rank_holder(void *arg, const struct holder *h)
{
	const struct place_spec *spec = arg;

	return h->queue == spec->queue && h->priority < spec->priority ? h->priority : -1;
}

static bool gather_evict_holder(void *arg, const struct holder *h)
{
	return true;
}

static void gather_keep_holder(void *arg, const struct holder *h)
{
}

/* ---- gangs without a queue: thresholds and preemption by the placement model ---- */

static int gather_gang(
	struct queue *q, const struct queue_item *item, struct place_group *ret, struct error *err)
{
	_cleanup_free_ struct place_spec *members = calloc(item->n, sizeof(*members));
	const struct place_preempt_order order = {.rank = gather_rank_holder,
		.leave = gather_evict_holder,
		.stay = gather_keep_holder,
		.arg = members};
	const struct place_preempt by_priority = {.is_latest_first = true,
		.is_graceful = q->run->in->grace_ns > 0,
		.order = place_queue_n(q->run->place) ? &order : NULL};
	const struct place_gang gang = {.members = members,
		.n = item->n,
		.threshold = item->threshold,
		.preempt = q->run->in->preempt == REPLAY_KEEP ? NULL : &by_priority};

	if (!members)
		return fail(err, ENOMEM, "out of memory for a run");
	for (uint32_t i = 0; i < item->n; i++) {
		members[i] = spec_now(q, item->first + i);
		members[i].priority = members[0].priority;
	}
	return place_gang_add(q->run->place, &gang, ret, err);
}

/* ---- task by task: admission by the queue, preemption within the queue ---- */

static int gather_preempt(
	const struct queue *q, struct place_spec *spec, struct place_plan *ret, struct error *err)
{
	const struct place_preempt_order order = {.rank = gather_rank_holder,
		.leave = gather_evict_holder,
		.stay = gather_keep_holder,
		.arg = spec};
	const struct place_preempt own = {.is_latest_first = true, .order = &order};

	if (q->run->in->preempt == REPLAY_KEEP)
		return -ENOSPC;
	return place_queue_preempt(q->run->place, spec, &own, ret, err);
}

struct gathered {
	struct place_group group;
	struct place_victims victims;
	bool has_borrowed; /* a task's queue borrows devices for the task */
};

static void gathered_done(struct gathered *g)
{
	place_group_done(&g->group);
	place_victims_done(&g->victims);
}

/*
 * First tries to reclaim devices that other queues borrowed; if that fails, tries to preempt tasks
 * of lower priority.
 */
static int gather_find_victims(struct queue *q, struct place_spec *spec, bool is_guaranteed,
	struct place_choice *ret, struct place_victims *victims, struct error *err)
{
	_cleanup_(place_plan_done) struct place_plan plan = {0};
	int r = is_guaranteed ? place_queue_reclaim(q->run->place, spec, &rules, &plan, err)
			      : -ENOSPC;

	if (r == -ENOSPC)
		r = gather_preempt(q, spec, &plan, err);
	if (r < 0)
		return r;
	*ret = plan.choice;
	r = place_victims_leave(victims, q->run->place, plan.victims, plan.n_victims);
	return r < 0 ? fail(err, -r, "out of memory for a run") : 0;
}

static int gather_member(struct queue *q, struct place_spec *spec, struct place_member *member,
	struct gathered *g, struct error *err)
{
	struct place_verdict verdict = {.admission = PLACE_ADMIT_BORROW};
	int r = spec->queue ? place_queue_admit(q->run->place, spec, &verdict, err) : 0;

	if (r < 0)
		return r;
	if (verdict.admission == PLACE_ADMIT_NEVER)
		return -ENOSPC;
	if (verdict.admission == PLACE_ADMIT_WAIT)
		r = -ENOSPC;
	r = r < 0 ? r : place_find(q->run->place, spec, &member->choice, err);
	if (r == -ENOSPC && spec->queue)
		r = gather_find_victims(q, spec, verdict.admission == PLACE_ADMIT_NOW,
			&member->choice, &g->victims, err);
	r = r < 0 ? r : place_add(q->run->place, spec, &member->choice, &member->tenant, err);
	if (r < 0)
		member->tenant = PLACE_NONE;
	else
		g->has_borrowed |= spec->queue && verdict.admission != PLACE_ADMIT_NOW;
	return r;
}

/*
 * Runs after all required tasks have places. Puts back victims that none of these places needs. The
 * other victims become victims of the whole item.
 */
static int gather_settle(struct queue *q, struct gathered *g, struct error *err)
{
	int r = place_victims_readd(&g->victims, q->run->place);

	if (r == 0)
		g->group.victims = place_victims_numbers(&g->victims);
	if (!g->group.victims)
		return fail(err, ENOMEM, "out of memory for a run");
	g->group.n_victims = g->victims.n;
	return q->run->in->grace_ns
		? place_victims_readd_terminating(&g->victims, q->run->place, err)
		: 0;
}

static int gather_each(
	struct queue *q, const struct queue_item *item, struct place_group *ret, struct error *err)
{
	_cleanup_(gathered_done) struct gathered g = {
		.group = {.members = calloc(item->n, sizeof(*g.group.members)), .n = item->n}};
	const uint32_t least = place_gang_least(item->n, item->threshold);
	uint32_t savepoint, refused = 0;
	int r = 0;

	if (!g.group.members)
		return fail(err, ENOMEM, "out of memory for a run");
	savepoint = place_savepoint(q->run->place);
	for (uint32_t i = 0; r == 0 && i < item->n; i++) {
		struct place_spec spec = spec_now(q, item->first + i);

		spec.priority = spec_at(q, item->first)->priority;
		r = gather_member(q, &spec, &g.group.members[i], &g, err);
		if (r == -ENOSPC && item->n - ++refused >= least)
			r = 0;
	}
	r = r < 0 ? r : gather_settle(q, &g, err);
	if (r < 0)
		place_rollback(q->run->place, savepoint);
	place_release(q->run->place);
	if (r < 0)
		return r;
	g.group.n_placed = item->n - refused;
	q->helps |= g.has_borrowed;
	*ret = TAKE(g.group, (struct place_group){0});
	return 0;
}

int gather(
	struct queue *q, const struct queue_item *item, struct place_group *ret, struct error *err)
{
	const bool is_gang = item->n > 1 && item->threshold < 1000;

	if (!item->queue && (is_gang || q->run->in->preempt != REPLAY_KEEP))
		return gather_gang(q, item, ret, err);
	return gather_each(q, item, ret, err);
}
