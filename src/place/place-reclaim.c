/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file gives the search for victims an order by queue, and finds victims on several nodes for
 * limits. `evicted` counts the use that victims under trial give back; reclaim_evict_holder() adds
 * to that count and reclaim_keep_holder() subtracts. Unless `is_own` is set, a queue loses tenants
 * only while it exceeds its quota. reclaim_across() first selects victims until the limits allow
 * the tenant. Then reclaim_across() removes those victims under a savepoint, and searches for a
 * node with the cheapest further victims. reclaim_find_victims() rolls every removal back and
 * returns the cheapest plan.
 */
#include "place/place-reclaim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "place/place-held.h"
#include "place/place-queue-internal.h"

struct reclaim {
	struct place *place;
	const struct place_spec *spec;
	const struct place_preempt_order *also; /* the caller's order, which applies too; or NULL */
	/* only `also` decides which tenants may be evicted; queues and quotas do not */
	bool is_own;
	uint64_t models; /* models that the queue guarantees, or that the spec requests */
	/*
	 * is_above[queue]: the queue is the requesting tenant's queue or an ancestor of that queue
	 */
	bool *is_above;
	uint32_t *rank; /* rank[queue]: the queue's position in the order of compare_ranked() */
	uint64_t (*evicted)[ALL + 1]; /* evicted[queue]: use of the victims under trial */
};

static void reclaim_done(struct reclaim *r)
{
	free(r->is_above);
	free(r->rank);
	free(r->evicted);
}

/* ---- candidates ---- */

static uint32_t model_of(const struct reclaim *r, const struct holder *h)
{
	const struct place_tenant *t = &r->place->tenants[h->tenant];

	return t->n ? r->place->devices[t->device[0]].model : ALL;
}

/*
 * Returns whether all of these queues exceed their quotas: the tenant's queue, and its ancestors
 * that are not also ancestors of the requesting queue. Tenants of the requesting queue or of one of
 * its ancestors are never evicted.
 */
static bool may_leave(const struct reclaim *r, const struct holder *h)
{
	const struct queue *queue = r->place->queues->queue;
	const uint32_t model = model_of(r, h);
	uint32_t at = h->queue - 1;

	if (r->is_own)
		return true;
	if (!h->queue || !h->devices || r->is_above[at])
		return false;
	for (; at != PLACE_NONE && !r->is_above[at]; at = queue[at].parent)
		if (queue_beyond(&queue[at], r->evicted[at], model) <= 0)
			return false;
	return true;
}

static int reclaim_rank_holder(void *arg, const struct holder *h)
{
	const struct reclaim *r = arg;
	const int also = r->also ? r->also->rank(r->also->arg, h) : 0;

	if (r->is_own || also < 0)
		return also;
	return may_leave(r, h) ? (int)(r->rank[h->queue - 1] * 101 + h->priority) : -1;
}

static void reclaim_count_holder(struct reclaim *r, const struct holder *h, int sign)
{
	const struct queue *queue = r->place->queues->queue;
	const struct place_tenant *t = &r->place->tenants[h->tenant];
	const uint64_t share = (uint64_t)(int64_t)(sign * (int)queue_share(r->place, &t->spec));

	for (uint32_t at = h->queue - 1; at != PLACE_NONE; at = queue[at].parent)
		for (uint32_t i = 0; i < t->n; i++) {
			r->evicted[at][ALL] += share;
			r->evicted[at][r->place->devices[t->device[i]].model] += share;
		}
}

static bool reclaim_evict_holder(void *arg, const struct holder *h)
{
	struct reclaim *r = arg;

	if (!may_leave(r, h) || (r->also && !r->also->leave(r->also->arg, h)))
		return false;
	reclaim_count_holder(r, h, 1);
	return true;
}

static void reclaim_keep_holder(void *arg, const struct holder *h)
{
	struct reclaim *r = arg;

	if (r->also)
		r->also->stay(r->also->arg, h);
	reclaim_count_holder(r, h, -1);
}

/* ---- limits ---- */

static bool reclaim_is_full(const struct reclaim *r, uint32_t at, uint32_t bound)
{
	return queue_is_full(&r->place->queues->queue[at], r->evicted[at], bound,
		queue_requested(r->place, r->spec));
}

/*
 * Returns the models that all limits allow without the victims under trial. `but`: this victim
 * counts as present.
 */
static uint64_t reclaim_models_freed(void *arg, const struct holder *but)
{
	struct reclaim *r = arg;
	uint64_t may = r->models;

	if (but)
		reclaim_count_holder(r, but, -1);
	for (uint32_t at = r->spec->queue - 1; at != PLACE_NONE;
		at = r->place->queues->queue[at].parent) {
		if (reclaim_is_full(r, at, ALL))
			may = 0;
		for (uint64_t m = may & r->place->queues->models; m; m &= m - 1)
			if (reclaim_is_full(r, at, (uint32_t)__builtin_ctzll(m)))
				may &= ~(m & -m);
	}
	if (but)
		reclaim_count_holder(r, but, 1);
	return may;
}

/*
 * Returns whether the tenant's use counts toward a limit that the request would exceed for one of
 * the models of `goal`.
 */
static bool is_in_the_way(const struct reclaim *r, const struct holder *h, uint64_t goal)
{
	const uint32_t model = model_of(r, h);
	uint32_t at = h->queue - 1;

	while (at != PLACE_NONE && !r->is_above[at])
		at = r->place->queues->queue[at].parent;
	for (; at != PLACE_NONE; at = r->place->queues->queue[at].parent)
		if (reclaim_is_full(r, at, ALL) ||
			(model != ALL && (goal >> model & 1) && reclaim_is_full(r, at, model)))
			return true;
	return false;
}

/* Returns whether the request would exceed a limit for this model alone. */
static bool is_model_full(const struct reclaim *r, uint32_t model)
{
	for (uint32_t at = r->spec->queue - 1; at != PLACE_NONE;
		at = r->place->queues->queue[at].parent)
		if (reclaim_is_full(r, at, model))
			return true;
	return false;
}

/* ---- the order of queues ---- */

/* The queue's largest excess over one of its quotas. */
static int64_t most_beyond(const struct place *place, const struct queue *q)
{
	int64_t most = queue_beyond(q, queue_nothing, ALL);

	for (uint32_t m = 0; m < place->n_models; m++)
		most = MAX(most, queue_beyond(q, queue_nothing, m));
	return most;
}

struct ranked {
	int64_t beyond;
	uint32_t weight, queue;
};

/* The queue with the largest excess divided by its weight comes first. */
static int compare_ranked(const void *pa, const void *pb)
{
	const struct ranked *a = pa, *b = pb;
	int64_t left = a->beyond * (int64_t)b->weight, right = b->beyond * (int64_t)a->weight;

	if (left != right)
		return left > right ? -1 : 1;
	return a->queue < b->queue ? -1 : a->queue > b->queue;
}

static int reclaim_init(struct reclaim *r)
{
	const struct place_queues *queues = r->place->queues;
	_cleanup_free_ struct ranked *ranked = calloc(queues->n, sizeof(*ranked));

	r->is_above = calloc(queues->n, sizeof(*r->is_above));
	r->rank = calloc(queues->n, sizeof(*r->rank));
	r->evicted = calloc(queues->n, sizeof(*r->evicted));
	if (!ranked || !r->is_above || !r->rank || !r->evicted)
		return -ENOMEM;
	for (uint32_t at = r->spec->queue - 1; at != PLACE_NONE; at = queues->queue[at].parent)
		r->is_above[at] = true;
	for (uint32_t i = 0; i < queues->n; i++)
		ranked[i] = (struct ranked){
			most_beyond(r->place, &queues->queue[i]), queues->queue[i].weight, i};
	qsort(ranked, queues->n, sizeof(*ranked), compare_ranked);
	for (uint32_t i = 0; i < queues->n; i++)
		r->rank[ranked[i].queue] = i;
	return 0;
}

/* ---- victims on several nodes ---- */

struct borrower {
	struct holder h;
	int rank;
	bool has_left;
};

static int compare_borrowers(const void *pa, const void *pb)
{
	const struct borrower *a = pa, *b = pb;

	if (a->rank != b->rank)
		return a->rank < b->rank ? -1 : 1;
	if (holder_share(&a->h) != holder_share(&b->h))
		return holder_share(&a->h) < holder_share(&b->h) ? -1 : 1;
	return a->h.tenant < b->h.tenant ? -1 : a->h.tenant > b->h.tenant;
}

static int list_borrowers(struct reclaim *r, uint64_t goal, struct borrower **ret, uint32_t *ret_n)
{
	const struct place *place = r->place;
	struct borrower *list = NULL;
	uint32_t n = 0, room = 0;

	for (uint32_t node = 0; node < place->n_nodes; node++)
		for (uint32_t i = 0; i < place->held[node].n; i++) {
			const struct holder *h = &place->held[node].list[i];
			const int is = is_in_the_way(r, h, goal) ? reclaim_rank_holder(r, h) : -1;

			if (is < 0)
				continue;
			if (array_grow(&list, &room, n + 1ull, sizeof(*list)) < 0) {
				free(list);
				return -ENOMEM;
			}
			list[n++] = (struct borrower){.h = *h, .rank = is};
		}
	if (n)
		qsort(list, n, sizeof(*list), compare_borrowers);
	*ret = list;
	*ret_n = n;
	return 0;
}

/*
 * Removes tenants in their order until the limits permit one of the models; -ENOSPC if they never
 * do. All tenants stay then, so the next search counts from the start.
 */
static int leave_for_limits(struct reclaim *r, uint64_t goal, struct borrower *list, uint32_t n,
	const struct place_preempt *rules, struct place_budget *budgets)
{
	for (uint32_t i = 0; i < n && !(reclaim_models_freed(r, NULL) & goal); i++) {
		const uint32_t budget = place_budget_of(rules, list[i].h.budget);

		if ((budget != PLACE_NONE && !budgets[budget].may_evict) ||
			!reclaim_evict_holder(r, &list[i].h))
			continue;
		list[i].has_left = true;
		if (budget != PLACE_NONE)
			budgets[budget].may_evict--;
	}
	if (reclaim_models_freed(r, NULL) & goal)
		return 0;
	for (uint32_t i = 0; i < n; i++) {
		if (list[i].has_left)
			reclaim_keep_holder(r, &list[i].h);
		list[i].has_left = false;
	}
	return -ENOSPC;
}

/*
 * Finds a plan as if the tenants of `evicted` were removed. The plan's victims do not include them.
 */
static int find_without(struct reclaim *r, const struct place_preempt *rules,
	const uint32_t *evicted, uint32_t n, struct place_plan *ret_plan, struct error *err)
{
	struct place *place = r->place;
	const uint32_t savepoint = place_savepoint(place);
	int done = 0;

	place->evicted = evicted;
	place->n_evicted = n;
	for (uint32_t i = 0; i < n && done == 0; i++)
		done = place_remove(place, evicted[i]);
	done = done < 0 ? fail(err, -done, "out of memory for a plan")
			: place_preempt_find(place, r->spec, rules, ret_plan, err);
	place->evicted = NULL;
	place->n_evicted = 0;
	place_rollback(place, savepoint);
	place_release(place);
	return done;
}

/*
 * Makes a plan whose victims are the list's tenants with has_left, and further victims on one node.
 */
static int plan_across(struct reclaim *r, const struct place_preempt *rules,
	const struct borrower *list, uint32_t n, struct place_plan *ret, struct error *err)
{
	_cleanup_(place_plan_done) struct place_plan besides = {0};
	_cleanup_free_ uint32_t *all = calloc(n + 1ull, sizeof(*all));
	uint32_t *more, n_all = 0;
	int done;

	if (!all)
		return fail(err, ENOMEM, "out of memory for a plan");
	for (uint32_t i = 0; i < n; i++)
		if (list[i].has_left) {
			reclaim_count_holder(r, &list[i].h,
				-1); /* place_remove() will subtract this use from `used` */
			all[n_all++] = list[i].h.tenant;
		}
	qsort(all, n_all, sizeof(*all), place_compare_numbers);
	done = find_without(r, rules, all, n_all, &besides, err);
	if (done < 0)
		return done;
	more = realloc(all, (n_all + besides.n_victims + 1ull) * sizeof(*all));
	if (!more)
		return fail(err, ENOMEM, "out of memory for a plan");
	all = more;
	for (uint32_t i = 0; i < besides.n_victims; i++)
		all[n_all++] = besides.victims[i];
	done = place_preempt_plan(
		r->place, r->spec, besides.choice.node, all, n_all, rules->is_graceful, ret, err);
	if (done == 0)
		ret->violations = besides.violations;
	return done;
}

static int reclaim_across(struct reclaim *r, uint64_t goal, const struct place_preempt *rules,
	struct place_plan *ret, struct error *err)
{
	_cleanup_free_ struct place_budget *budgets = calloc(
		rules->n_budgets + 1ull, sizeof(*budgets));
	_cleanup_free_ struct borrower *list = NULL;
	struct place_preempt by_queue = *rules;
	uint32_t n = 0;
	int done = budgets ? list_borrowers(r, goal, &list, &n) : -ENOMEM;

	if (done < 0)
		return fail(err, -done, "out of memory for a plan");
	if (rules->n_budgets)
		memcpy(budgets, rules->budgets, rules->n_budgets * sizeof(*budgets));
	by_queue.budgets = budgets;
	done = leave_for_limits(r, goal, list, n, rules, budgets);
	done = done < 0 ? fail(err, ENOSPC, "too few evictable tenants to stay below the limits")
			: plan_across(r, &by_queue, list, n, ret, err);
	for (uint32_t i = 0; i < n && r->also; i++)
		if (list[i].has_left)
			r->also->stay(r->also->arg, &list[i].h);
	return done;
}

/* ---- the cheapest plan ---- */

/*
 * Returns the highest rank of a victim of the plan, by the ranks that tenants have before any
 * removal.
 */
static uint32_t highest_of(struct reclaim *r, const struct place_plan *plan)
{
	const struct place *place = r->place;
	uint32_t highest = 0;

	for (uint32_t v = 0; v < plan->n_victims; v++) {
		const struct held *held = &place->held[place->tenants[plan->victims[v]].node];

		for (uint32_t i = 0; i < held->n; i++)
			if (held->list[i].tenant == plan->victims[v])
				highest = MAX(highest,
					(uint32_t)MAX(reclaim_rank_holder(r, &held->list[i]), 0));
	}
	return highest;
}

/* Compares plans in the order of place-preempt.h. */
static bool is_cheaper(const struct place_plan *a, const struct place_plan *b)
{
	if (a->violations != b->violations)
		return a->violations < b->violations;
	if (a->highest != b->highest)
		return a->highest < b->highest;
	if (a->n_victims != b->n_victims)
		return a->n_victims < b->n_victims;
	return a->share_lost < b->share_lost;
}

/*
 * Makes a plan with victims on several nodes. The plan replaces *best if it is cheaper or if there
 * is no *best yet.
 */
static int try_across(struct reclaim *r, uint64_t goal, const struct place_preempt *rules,
	struct place_plan *best, bool *has_best, struct error *err)
{
	struct place_plan plan;
	int done = reclaim_across(r, goal, rules, &plan, err);

	if (done < 0)
		return done == -ENOSPC ? 0 : done;
	plan.highest = highest_of(r, &plan);
	if (*has_best && !is_cheaper(&plan, best)) {
		place_plan_done(&plan);
		return 0;
	}
	if (*has_best)
		place_plan_done(best);
	*best = plan;
	*has_best = true;
	return 0;
}

/*
 * If the request would exceed limits, tenants on other nodes may have to be evicted as well. Each
 * model whose own limit would be exceeded is tried as a separate goal.
 */
static int compare_across(struct reclaim *r, const struct place_preempt *rules,
	struct place_plan *best, bool *has_best, struct error *err)
{
	uint64_t closed = r->models & ~reclaim_models_freed(r, NULL), own = 0;
	int done = 0;

	for (uint32_t m = 0; m < r->place->n_models; m++)
		if ((closed >> m & 1) && is_model_full(r, m))
			own |= UINT64_C(1) << m;
	if (r->place->n_models < PLACE_MODELS_MAX)
		closed &= (UINT64_C(1) << r->place->n_models) - 1;
	if (closed & ~own)
		done = try_across(r, closed & ~own, rules, best, has_best, err);
	for (; own && done == 0; own &= own - 1)
		done = try_across(r, own & -own, rules, best, has_best, err);
	return done;
}

/*
 * Finds the cheapest victims, with queues in the order of compare_ranked(), for capacity and for
 * limits.
 */
static int reclaim_find_victims(struct reclaim *r, const struct place_preempt *rules,
	struct place_plan *ret, struct error *err)
{
	struct place_preempt_order order = {.rank = reclaim_rank_holder,
		.leave = reclaim_evict_holder,
		.stay = reclaim_keep_holder,
		.arg = r};
	struct place_preempt by_queue = *rules;
	_cleanup_(place_plan_done) struct place_plan best = {0};
	bool has_best;
	int done = reclaim_init(r);

	if (done < 0)
		return fail(err, -done, "out of memory for a plan");
	by_queue.order = &order;
	r->models = r->spec->models ? r->spec->models : UINT64_MAX;
	if (r->spec->count && reclaim_models_freed(r, NULL) != r->models)
		order.models = reclaim_models_freed;
	done = place_preempt_find(r->place, r->spec, &by_queue, &best, err);
	has_best = done == 0;
	if (order.models && (done == -ENOSPC || best.n_victims))
		done = compare_across(r, &by_queue, &best, &has_best, err);
	if (done < 0 || !has_best)
		return done < 0 ? done : -ENOSPC;
	*ret = TAKE(best, (struct place_plan){0});
	return 0;
}

int place_queue_reclaim(struct place *place, const struct place_spec *spec,
	const struct place_preempt *rules, struct place_plan *ret, struct error *err)
{
	struct place_spec guaranteed = *spec;
	_cleanup_(reclaim_done) struct reclaim reclaim = {
		.place = place, .spec = &guaranteed, .also = rules->order};
	struct place_verdict verdict;
	int r = place_queue_admit(place, spec, &verdict, err);

	if (r < 0)
		return r;
	if (verdict.admission != PLACE_ADMIT_NOW)
		return fail(err, EDQUOT, "nothing to reclaim: %s", verdict.why);
	/* Reclaim only models that the quota covers: other models may only be borrowed. */
	if (verdict.models)
		guaranteed.models = verdict.models;
	return reclaim_find_victims(&reclaim, rules, ret, err);
}

int place_queue_preempt(struct place *place, const struct place_spec *spec,
	const struct place_preempt *rules, struct place_plan *ret, struct error *err)
{
	_cleanup_(reclaim_done) struct reclaim reclaim = {
		.place = place, .spec = spec, .also = rules->order, .is_own = true};
	struct place_verdict verdict;
	int r = place_queue_admit(place, spec, &verdict, err);

	if (r < 0)
		return r;
	if (verdict.admission == PLACE_ADMIT_NEVER)
		return fail(err, ENOSPC, "%s", verdict.why);
	return reclaim_find_victims(&reclaim, rules, ret, err);
}
