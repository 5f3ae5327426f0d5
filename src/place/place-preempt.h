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
 * If one half of a remote tenant (place-mode.h) is a victim, both halves are evicted. The cost
 * counts only the half on the node. Preemption never frees network bandwidth.
 *
 * With `is_graceful` victims become terminating (place_mark_terminating()) instead of being
 * removed. The new tenant is counted at once, so no other tenant can get the freed capacity. It may
 * start when all victims are removed, or when place_is_awaiting() is false. If the new tenant is
 * removed before it starts, its victims still terminate. Plans, gangs and reclaiming treat their
 * victims in the same way. A caller that decides for several tenants under one savepoint first
 * removes all victims, and calls place_readd_terminating() for each of them at the end. Otherwise
 * the devices of the first tenant's victims would be closed to the next tenants.
 *
 * Terminating tenants are never victims. Their devices accept no new tenant, so that the capacity
 * is promised once. Their CPU and memory of the node count as used, except for a tenant that may
 * wait (is_terminating_free of the spec). So several pods that arrive together do not preempt more
 * than needed. The caller has subtracted terminating tenants from the budgets.
 *
 * Every victim is necessary: if any one of them stayed, the tenant would not fit. A tenant of
 * priority 0 preempts nobody. The search tries at most PLACE_PREEMPT_STEPS sets per node and
 * PLACE_PREEMPT_ALL_STEPS in all. Below these limits the result is the cheapest set; otherwise it
 * is the cheapest set found.
 *
 * The search computes a lower bound of the cost of each node from place-held.h, in O(nodes +
 * tenants of low priority). The search takes nodes from the lowest bound until no other node can be
 * better. The placement model does not change. Threads: as place.h.
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

/*
 * How many tenants with this label as their `budget` may still be evicted. A label without an entry
 * has no limit.
 */
struct place_budget {
	uint32_t label, may_evict;
};

/*
 * Rules that replace priorities, for place-reclaim.h. rank: tenants of lower rank are evicted
 * first; a tenant of negative rank is never evicted. `leave` returns whether the tenant may be
 * evicted in addition to the tenants counted as evicted, and if so counts the tenant too. `stay`
 * takes a tenant out of that count, in any order. `models` returns the models that the queue's
 * limits allow without the counted tenants; `but` (or NULL) is a counted tenant that stays. If
 * `models` is NULL, evictions do not help against a limit.
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
	bool is_forced;       /* budgets may be exceeded */
	bool is_latest_first; /* prefer victims that started later (`started` of their specs) */
	bool is_graceful;     /* victims become terminating */
	const struct place_preempt_order *order; /* order of victims; NULL: by priority */
};

struct place_plan {
	struct place_choice choice;
	uint32_t *victims, n_victims; /* ascending; includes other halves of remote tenants */
	uint32_t violations;          /* victims beyond their budgets */
	uint32_t highest;             /* highest priority (or rank) of a victim */
	uint64_t share_lost;
	bool is_graceful;
	/* fingerprint of the plan's nodes; place_preempt_apply() refuses if it has changed */
	uint64_t seen;
};

/*
 * The plan has no victims if the tenant fits already. -ENOSPC: no set of victims suffices; `err`
 * says why. -EINVAL, -ENOMEM. On failure *ret_plan is unchanged. The caller frees the plan with
 * place_plan_done().
 */
int place_preempt_find(struct place *place, const struct place_spec *spec,
	const struct place_preempt *rules, struct place_plan *ret_plan, struct error *err);

/*
 * For each priority p: the largest share, in permille, that a device of the node would have free
 * without its tenants of a priority below p. O(tenants of the node x devices).
 */
void place_preempt_free(
	const struct place *place, uint32_t node, uint32_t ret[static SPEC_PRIORITY_MAX + 1]);

/*
 * 1: the tenant would fit on the node if all tenants were evicted that the rules allow, ignoring
 * budgets. 0: no plan exists for the node. -ENOMEM. O(tenants of the node).
 */
int place_preempt_could(struct place *place, const struct place_spec *spec,
	const struct place_preempt *rules, uint32_t node);

/*
 * Removes the victims or makes them terminating, and adds the tenant. On failure nothing changes.
 * -ESTALE: the nodes have changed since the plan was made.
 */
int place_preempt_apply(struct place *place, const struct place_spec *spec,
	const struct place_plan *plan, uint32_t *ret_tenant, struct error *err);

/*
 * The plan that evicts these n tenants, on any nodes, and places the spec on `node`. The plan
 * leaves out tenants that turn out unnecessary, the last one first. The placement model does not
 * change. -ENOSPC: the spec does not fit on the node. -ENOMEM. The plan is as from
 * place_preempt_find(), but `violations` and `highest` are 0.
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
