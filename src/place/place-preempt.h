/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preemption: the cheapest set of victims on one node, all of lower priority, that makes a tenant
 * fit. Sets are compared in this order, the first difference decides:
 * - fewer exceeded disruption budgets (none, unless forced)
 * - lower priority of the highest victim
 * - fewer victims, then less lost share (permille, over all devices)
 * - with is_latest_first, the later start of the earliest victim
 * - the first node
 *
 * A tenant in two halves (place-mode.h) counts where one half is in the way, and both halves are
 * evicted. Preemption never frees network bandwidth.
 *
 * With `is_graceful` victims become terminating (place_mark_terminating()) instead of being
 * removed. The new tenant is counted at once, so no other tenant takes its place. It may start when
 * all victims are removed, or when place_is_awaiting() is false. If it gives up, its victims still
 * terminate. Plans, gangs and reclaiming obey this rule too. A caller that decides for several
 * tenants under one savepoint removes victims at once, and calls place_readd_terminating() for all
 * of them at the end. Otherwise only the first tenant could use their devices.
 *
 * Terminating tenants are never victims. Their devices are closed, so that the capacity is promised
 * once. Their CPU and memory of the node are closed too, except for a tenant that may wait
 * (can_wait of the spec). So several pods that arrive together do not preempt more than needed. The
 * caller has subtracted terminating tenants from the budgets.
 *
 * Every victim is necessary: if any one of them stayed, the tenant would not fit. A tenant of
 * priority 0 preempts nobody. The result is exact up to PLACE_PREEMPT_STEPS tried sets per node and
 * PLACE_PREEMPT_ALL_STEPS in all; beyond that it is the best found.
 *
 * The search computes a lower bound of the cost of each node from place-held.h, in O(nodes +
 * tenants of low priority). It searches nodes from the lowest bound until no other node can be
 * better. Nothing changes. Threads: as place.h.
 */
#ifndef PLACE_PLACE_PREEMPT_H
#define PLACE_PLACE_PREEMPT_H

#include <stdbool.h>
#include <stdint.h>

#include "place/place.h"

#define PLACE_BUDGETS_MAX (1u << 16)
#define PLACE_PREEMPT_STEPS 1024u
#define PLACE_PREEMPT_ALL_STEPS 4096u

struct holder;

/* How many tenants with that `budget` label may still be evicted; without an entry: all. */
struct place_budget {
	uint32_t label, may_evict;
};

/*
 * Rules that replace priorities, for place-reclaim.h. rank: tenants of lower rank are evicted
 * first; a tenant of negative rank stays. `leave` returns whether the tenant may be evicted in
 * addition to the counted ones, and if so counts it. `stay` removes a tenant from the count, in any
 * order. models: the models that the queue's limits allow without the counted tenants, but with
 * `but`. If `models` is NULL, no tenant is evicted for a limit.
 */
struct place_preempt_order {
	int (*rank)(void *arg, const struct holder *h);
	bool (*leave)(void *arg, const struct holder *h);
	void (*stay)(void *arg, const struct holder *h);
	uint64_t (*models)(void *arg, const struct holder *but); /* or NULL */
	void *arg;
};

struct place_preempt {
	const struct place_budget *budgets; /* labels ascending */
	uint32_t n_budgets;
	bool is_forced;                          /* budgets may be exceeded */
	bool is_latest_first;                    /* by `started` of the spec */
	bool is_graceful;                        /* victims become terminating */
	const struct place_preempt_order *order; /* NULL: by priority */
};

struct place_plan {
	struct place_choice choice;
	uint32_t *victims, n_victims; /* ascending, with their other halves */
	uint32_t violations;          /* victims beyond their budgets */
	uint32_t highest;             /* highest priority (or rank) of a victim */
	uint64_t share_lost;
	bool is_graceful;
	uint64_t seen; /* fingerprint of the victims' nodes; a change makes the plan void */
};

/*
 * The plan has no victims if the tenant fits already. -ENOSPC: no victims help, `err` says why.
 * -EINVAL, -ENOMEM. On failure *ret_plan is unchanged. The caller frees the plan with
 * place_plan_done().
 */
int place_preempt_find(struct place *place, const struct place_spec *spec,
	const struct place_preempt *rules, struct place_plan *ret_plan, struct error *err);

/*
 * For each priority: the largest share, in permille, that one device of the node would have free
 * without all tenants of lower priority. O(tenants of the node x devices).
 */
void place_preempt_free(
	const struct place *place, uint32_t node, uint32_t ret[static SPEC_PRIORITY_MAX + 1]);

/*
 * 1 if the tenant would fit on the node without all tenants that may be evicted, whatever budgets
 * say. 0: no plan exists for the node. -ENOMEM. O(tenants of the node).
 */
int place_preempt_could(struct place *place, const struct place_spec *spec,
	const struct place_preempt *rules, uint32_t node);

/*
 * Removes the victims or makes them terminating, and adds the tenant; or changes nothing. -ESTALE:
 * the nodes have changed since the plan was made.
 */
int place_preempt_apply(struct place *place, const struct place_spec *spec,
	const struct place_plan *plan, uint32_t *ret_tenant, struct error *err);

/*
 * The plan that evicts these n tenants, on any nodes, and places the spec on `node`. Tenants that
 * turn out unnecessary are dropped, the last first. Nothing changes. -ENOSPC: the spec does not fit
 * there. -ENOMEM. The plan is as from place_preempt_find(), but `violations` and `highest` are 0.
 */
int place_preempt_plan(struct place *place, const struct place_spec *spec, uint32_t node,
	const uint32_t *tenants, uint32_t n, bool is_graceful, struct place_plan *ret_plan,
	struct error *err);

/* Checks that the budgets' labels exist and ascend: 0 or -EINVAL. */
int place_preempt_check(
	const struct place *place, const struct place_preempt *rules, struct error *err);

/* The index of the label's budget, or PLACE_NONE. */
uint32_t place_budget_of(const struct place_preempt *rules, uint32_t label);

void place_plan_done(struct place_plan *plan);

#endif
