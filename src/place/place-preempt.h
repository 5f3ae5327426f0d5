/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who has to leave so that a tenant fits: the cheapest set of tenants of one node, all of lower
 * priority. Cheaper is, in this order:
 *
 *   fewer disruption budgets exceeded (none at all, unless forced);
 *   the lower priority of the highest victim;
 *   fewer victims, then less share lost (permille, over all devices);
 *   where told, the later start of the victim that started first;
 *   the first node.
 *
 * Who is there in two halves (place-mode.h) counts where one of them is in the way, and leaves with
 * both. Nobody leaves for the bandwidth of a network.
 *
 * With `is_graceful` victims are not gone when the newcomer has come, but leaving (place_leave): it
 * is counted in its place at once, so that nobody takes that, and may begin to run when all of them
 * have been removed, or place_is_awaiting says no more. Where it gives up before, they go on
 * leaving. It is a rule like the others, so that plans, gangs and what queues reclaim all obey it.
 * But who decides for several under one mark lets victims go at once and calls place_linger for all
 * of them in the end: else what they leave is closed to all but the first.
 *
 * Who is leaving already is no victim again. Its devices are closed, so that nobody is promised
 * what others wait for; and so are the CPU and memory that it has of its node, but for who can wait
 * until it has gone (can_wait of the spec): with many that come at once nobody leaves for what
 * others leave anyhow. From budgets the caller has taken it off.
 *
 * Nobody leaves in vain: without any one of the victims it does not fit. Of priority 0 nobody
 * preempts. The choice is exact up to PLACE_PREEMPT_STEPS sets tried on a node, and as many as
 * PLACE_PREEMPT_ALL_STEPS in all; beyond that it is the best found by then.
 *
 * The search reads who is on each node (place-held.h) for a bound of the cost, O(nodes + tenants of
 * low priority), and looks at nodes from the lowest bound on until no other can be better. Nothing
 * is changed. Threads: as place.h.
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

/* How many of the tenants with that `budget` label may still go; without an entry: all. */
struct place_budget {
	uint32_t label, may_go;
};

/*
 * Other rules than priorities, for place-reclaim.h. rank: who has less goes first; negative:
 * it stays. While sets are tried, leave says whether it may go after those that have left so far,
 * and counts it if so; stay takes that back, in any order. models: of which it may have devices by
 * its queue's limits once those that have left are gone, but for one (or NULL); without it nobody
 * leaves for a limit.
 */
struct place_preempt_order {
	int (*rank)(void *arg, const struct holder *h);
	bool (*leave)(void *arg, const struct holder *h);
	void (*stay)(void *arg, const struct holder *h);
	uint64_t (*models)(void *arg, const struct holder *but); /* or NULL */
	void *arg;
};

struct place_preempt {
	const struct place_budget *budgets; /* labels rising */
	uint32_t n_budgets;
	bool is_forced;                          /* budgets may be exceeded */
	bool is_latest_first;                    /* by `started` of the spec */
	bool is_graceful;                        /* victims are told to go, and run on */
	const struct place_preempt_order *order; /* NULL: by priority */
};

struct place_plan {
	struct place_choice choice;
	uint32_t *victims, n_victims; /* tenants, rising; with their other halves */
	uint32_t violations;          /* victims beyond their budgets */
	uint32_t highest;             /* priority (or rank) of a victim */
	uint64_t share_lost;
	bool is_graceful;
	uint64_t seen; /* of the nodes and of other halves: where that changes the plan is void */
};

/*
 * Where it fits without that, nobody is a victim. -ENOSPC: nobody's leaving helps, the sentence
 * says why; -EINVAL, -ENOMEM. The plan is done with by place_plan_done; untouched on failure.
 */
int place_preempt_find(struct place *place, const struct place_spec *spec,
	const struct place_preempt *rules, struct place_plan *ret_plan, struct error *err);

/*
 * The most, permille, that one device of the node has free, and would have if all of lower priority
 * left it; by priority. Who asks for more has no room there. O(tenants of the node x devices).
 */
void place_preempt_room(
	const struct place *place, uint32_t node, uint32_t ret[static SPEC_PRIORITY_MAX + 1]);

/*
 * Whether it would fit on that node if all left that may, whatever budgets say: of a node of which
 * this is false no plan is to be had. O(tenants of the node). -ENOMEM.
 */
int place_preempt_could(struct place *place, const struct place_spec *spec,
	const struct place_preempt *rules, uint32_t node);

/*
 * Victims go, or are leaving, and it comes; or nothing changes: -ESTALE where the node is not as it
 * was planned.
 */
int place_preempt_apply(struct place *place, const struct place_spec *spec,
	const struct place_plan *plan, uint32_t *ret_tenant, struct error *err);

/*
 * The plan in which those n tenants leave, wherever they are, and it goes to that node; without
 * those without whom it fits there all the same, the last first. Nothing is changed. -ENOSPC: it
 * does not fit there; -ENOMEM. *ret_plan: as place_preempt_find, but for `violations` and
 * `highest`, which are 0.
 */
int place_preempt_plan(struct place *place, const struct place_spec *spec, uint32_t node,
	const uint32_t *tenants, uint32_t n, bool is_graceful, struct place_plan *ret_plan,
	struct error *err);

/* The budgets' labels rise and are known; 0 or -EINVAL. */
int place_preempt_check(
	const struct place *place, const struct place_preempt *rules, struct error *err);

/* The index of the label's budget, or PLACE_NONE. */
uint32_t place_budget_of(const struct place_preempt *rules, uint32_t label);

void place_plan_done(struct place_plan *plan);

#endif
