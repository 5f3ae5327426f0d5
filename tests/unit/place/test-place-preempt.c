/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preemption: compared with all sets of victims on small clusters; refused specs; nodes with more
 * sets than the search tries.
 */
#include "unit.h"

#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "cluster.h"
#include "place/place-held.h"
#include "place/place-internal.h"
#include "place/place-preempt.h"

#define CANDIDATES 9u /* most tenants of a node: 2^9 = 512 sets */

/* The costs of a set of victims, the most important first. */
struct cost {
	uint64_t violations, highest, n, share, late, node;
};

static int compare(const struct cost *a, const struct cost *b)
{
	const uint64_t x[] = {a->violations, a->highest, a->n, a->share, a->late, a->node},
		       y[] = {b->violations, b->highest, b->n, b->share, b->late, b->node};

	for (size_t i = 0; i < ARRAY_SIZE(x); i++)
		if (x[i] != y[i])
			return x[i] < y[i] ? -1 : 1;
	return 0;
}

static struct cost cost_of(const struct place *place, const struct place_preempt *rules,
	const uint32_t *victims, uint32_t n)
{
	struct cost cost = {.n = n};
	uint32_t gone[8] = {0};

	for (uint32_t i = 0; i < n; i++) {
		const struct place_tenant *t = place_tenant(place, victims[i]);
		uint32_t b = 0;

		cost.node = t->node;
		cost.highest = MAX(cost.highest, (uint64_t)t->spec.priority);
		cost.share += t->spec.share * t->n;
		if (rules->is_latest_first)
			cost.late = MAX(cost.late, UINT64_MAX - t->spec.started);
		while (b < rules->n_budgets && rules->budgets[b].label != t->spec.budget)
			b++;
		if (b < rules->n_budgets && ++gone[b] > rules->budgets[b].may_evict)
			cost.violations++;
	}
	return cost;
}

static bool fits_without(struct place *place, const struct place_spec *spec, uint32_t node,
	const uint32_t *victims, uint32_t n)
{
	uint32_t mark = place_savepoint(place);
	bool fits;

	for (uint32_t i = 0; i < n; i++)
		assert_ok(place_remove(place, victims[i]));
	if (spec->is_terminating_free)
		place_count_terminating_free(place, node, true);
	fits = place_reason_of(place, spec, node) == PLACE_FITS;
	if (spec->is_terminating_free)
		place_count_terminating_free(place, node, false);
	place_rollback(place, mark);
	place_release(place);
	return fits;
}

/* Finds the cheapest of all sets on all nodes. false: no set suffices. */
static bool cheapest(struct place *place, const struct place_spec *spec,
	const struct place_preempt *rules, struct cost *ret)
{
	bool is_found = false;

	for (uint32_t node = 0; node < place->n_nodes; node++) {
		uint32_t list[CANDIDATES], n = 0;

		for (uint32_t i = 0; i < place->n_tenants; i++)
			if (place->tenants[i].node == node && !place->tenants[i].is_terminating &&
				place->tenants[i].spec.priority < spec->priority && n < CANDIDATES)
				list[n++] = i;
		for (uint32_t set = 1; set < 1u << n; set++) {
			uint32_t victims[CANDIDATES], k = 0;
			struct cost cost;

			for (uint32_t i = 0; i < n; i++)
				if (set >> i & 1)
					victims[k++] = list[i];
			cost = cost_of(place, rules, victims, k);
			if (cost.violations && !rules->is_forced)
				continue;
			if (is_found && compare(&cost, ret) >= 0)
				continue;
			if (!fits_without(place, spec, node, victims, k))
				continue;
			*ret = cost;
			is_found = true;
		}
	}
	return is_found;
}

static bool is_small(const struct place *place)
{
	for (uint32_t at = 0; at < place->n_nodes; at++)
		if (place->held[at].n > CANDIDATES)
			return false;
	return true;
}

static void give_budgets(struct rand *rand, struct place *place, const uint32_t *label)
{
	for (uint32_t i = 0; i < place->n_tenants; i++) {
		struct place_tenant *t = &place->tenants[i];
		struct place_choice choice;
		struct place_spec spec;
		uint32_t tenant;

		if (t->node == PLACE_NONE || rand_below(rand, 2))
			continue;
		choice = (struct place_choice){.node = t->node, .n = t->n};
		memcpy(choice.device, t->device, sizeof(choice.device));
		spec = t->spec;
		spec.budget = label[rand_below(rand, 2)];
		assert_ok(place_remove(place, i));
		if (place_add(place, &spec, &choice, &tenant, NULL) == 0)
			assert_int_equal(tenant, i);
	}
}

static void one_round(struct rand *rand, uint32_t *n_found)
{
	_cleanup_place_ struct place *place = cluster_new(
		rand, &place_best_fit, 1 + (uint32_t)rand_below(rand, 4), 3);
	struct place_budget budgets[2];
	struct place_preempt rules = {.budgets = budgets,
		.n_budgets = (uint32_t)rand_below(rand, 3),
		.is_forced = rand_below(rand, 2),
		.is_latest_first = rand_below(rand, 2),
		.is_graceful = rand_below(rand, 2)};
	uint32_t label[2];

	assert_ok(place_label(place, "", "x", &label[0], NULL));
	assert_ok(place_label(place, "", "y", &label[1], NULL));
	for (int i = 0; i < 2; i++)
		budgets[i] = (struct place_budget){label[i], (uint32_t)rand_below(rand, 3)};
	cluster_fill(rand, place, 5 + (uint32_t)rand_below(rand, 25));
	give_budgets(rand, place, label);
	for (uint32_t i = 0; i < place->n_tenants; i++)
		if (place_tenant(place, i) && !rand_below(rand, 8))
			assert_ok(place_mark_terminating(place, i, NULL));
	for (int step = 0; step < 12 && is_small(place); step++) {
		struct place_spec spec = cluster_spec(rand, place);
		_cleanup_(place_plan_done) struct place_plan plan = {0};
		struct place_choice choice;
		struct cost best, cost;
		uint64_t digest = cluster_digest(place);
		uint32_t tenant = 0;
		int r;

		spec.is_terminating_free = rand_below(rand, 2);
		if (place_find(place, &spec, &choice, NULL) == 0)
			continue;
		r = place_preempt_find(place, &spec, &rules, &plan, NULL);
		assert_int_equal(cluster_digest(place), digest);
		if (!cheapest(place, &spec, &rules, &best)) {
			assert_int_equal(r, -ENOSPC);
			continue;
		}
		assert_ok(r);
		cost = cost_of(place, &rules, plan.victims, plan.n_victims);
		if (compare(&cost, &best))
			fail_msg("share %u x %u: %u victims of %u, %u are enough", spec.share,
				spec.count, (uint32_t)cost.n, (uint32_t)cost.share,
				(uint32_t)best.n);
		assert_int_equal(plan.violations, cost.violations);
		assert_int_equal(plan.highest, cost.highest);
		assert_int_equal(plan.share_lost, cost.share);
		(*n_found)++;
		assert_ok(place_preempt_apply(place, &spec, &plan, &tenant, NULL));
		cluster_check(place);
		for (uint32_t i = 0; i < plan.n_victims; i++)
			assert_true(rules.is_graceful
					? place_tenant(place, plan.victims[i])->is_terminating
					: plan.victims[i] == tenant ||
						!place_tenant(place, plan.victims[i]));
		assert_int_equal(place_preempt_apply(place, &spec, &plan, &tenant, NULL), -ESTALE);
	}
}

static void victims_are_the_cheapest_set(void **state)
{
	uint32_t n_found = 0;

	for (uint64_t seed = 0; seed < 3000; seed++) {
		struct rand rand = rand_seeded(seed);

		one_round(&rand, &n_found);
	}
	assert_true(n_found > 1000);
}

static void add(
	struct place *place, uint32_t share, uint32_t priority, uint32_t budget, uint32_t *ret)
{
	struct place_spec spec = PLACE_SPEC_INIT;
	struct place_choice choice;

	spec.share = share;
	spec.priority = priority;
	spec.budget = budget;
	assert_ok(place_find(place, &spec, &choice, NULL));
	assert_ok(place_add(place, &spec, &choice, ret, NULL));
}

static void impossible_preemptions_are_refused(void **state)
{
	struct rand rand = rand_seeded(1);
	_cleanup_place_ struct place *place = cluster_new(&rand, &place_first_fit, 1, 1);
	struct place_spec spec = PLACE_SPEC_INIT;
	_cleanup_(place_plan_done) struct place_plan plan = {0};
	struct place_preempt rules = {0};
	struct place_budget budgets[2];
	uint32_t low, high, label, other;
	struct error err = {0};

	assert_ok(place_label(place, "", "x", &label, NULL));
	assert_ok(place_label(place, "", "y", &other, NULL));
	add(place, 400, 10, label, &low);
	add(place, 600, 50, 0, &high);
	spec.share = 500;
	assert_int_equal(place_preempt_find(place, &spec, &rules, &plan, &err), -ENOSPC);
	assert_contains(err.msg, "priority below 50");
	spec.priority = 0;
	spec.share = 300;
	assert_int_equal(place_preempt_find(place, &spec, &rules, &plan, &err), -ENOSPC);
	assert_contains(err.msg, "opportunistic");
	spec.priority = 20;
	budgets[0] = (struct place_budget){label, 0};
	rules = (struct place_preempt){.budgets = budgets, .n_budgets = 1};
	assert_int_equal(place_preempt_find(place, &spec, &rules, &plan, &err), -ENOSPC);
	rules.is_forced = true;
	assert_ok(place_preempt_find(place, &spec, &rules, &plan, &err));
	assert_int_equal(plan.n_victims, 1);
	assert_int_equal(plan.victims[0], low);
	assert_int_equal(plan.violations, 1);
	budgets[1] = budgets[0];
	rules.n_budgets = 2;
	assert_int_equal(place_preempt_check(place, &rules, &err), -EINVAL);
	assert_contains(err.msg, "expected ascending labels");
	budgets[0].label = 99;
	assert_int_equal(place_preempt_check(place, &rules, &err), -EINVAL);
	assert_contains(err.msg, "label 99");
	rules.n_budgets = PLACE_BUDGETS_MAX + 1;
	assert_int_equal(place_preempt_check(place, &rules, &err), -EINVAL);
	assert_contains(err.msg, "65537 budgets");
}

/* If a node has more sets than the search tries, no tenant is evicted needlessly all the same. */
static void a_node_may_have_many_possible_victims(void **state)
{
	struct rand rand = rand_seeded(3);
	_cleanup_place_ struct place *place = cluster_new(&rand, &place_first_fit, 1, 1);
	struct place_spec spec = PLACE_SPEC_INIT;
	_cleanup_(place_plan_done) struct place_plan plan = {0};
	struct place_preempt rules = {0};
	uint32_t tenant;

	place->nodes[0].n_tenants_max = 0;
	for (uint32_t i = 0; i < 200; i++) {
		struct place_spec small = PLACE_SPEC_INIT;
		struct place_choice choice;

		small.share = 1 + (uint32_t)rand_below(&rand, 9);
		small.device_bytes = 1 + rand_below(&rand, 80000000);
		small.priority = 10;
		if (place_find(place, &small, &choice, NULL) == 0)
			assert_ok(place_add(place, &small, &choice, &tenant, NULL));
	}
	spec.share = 700;
	spec.device_bytes = 9 * GIB;
	assert_ok(place_preempt_find(place, &spec, &rules, &plan, NULL));
	assert_true(plan.n_victims > 1);
	for (uint32_t out = 0; out < plan.n_victims; out++) {
		uint32_t others[256], n = 0;

		for (uint32_t i = 0; i < plan.n_victims; i++)
			if (i != out)
				others[n++] = plan.victims[i];
		assert_false(fits_without(place, &spec, 0, others, n));
	}
}

static void put(struct place *place, uint32_t device, uint32_t share, uint32_t cpu_milli)
{
	struct place_spec spec = PLACE_SPEC_INIT;

	spec.share = share;
	spec.cpu_milli = cpu_milli;
	spec.priority = 10;
	cluster_put(place, spec, device);
}

/* The share that the victims of the cheapest plan lose together. */
static uint32_t lost_for(struct place *place, const struct place_spec *spec)
{
	const struct place_preempt rules = {0};
	_cleanup_(place_plan_done) struct place_plan plan = {0};

	assert_ok(place_preempt_find(place, spec, &rules, &plan, NULL));
	assert_int_equal(plan.n_victims, 2);
	return (uint32_t)plan.share_lost;
}

/*
 * On the second node two victims are just enough, so the lower bound of its cost must not say
 * three.
 */
static void no_more_victims_than_needed_are_evicted(void **state)
{
	_cleanup_place_ struct place *by_share = cluster_by_hand(&place_first_fit, NULL),
				     *by_cpu = cluster_by_hand(&place_first_fit, NULL);
	struct place_spec spec = PLACE_SPEC_INIT, stays = PLACE_SPEC_INIT;
	const uint32_t shares[2][3] = {{350, 350, 300}, {300, 300, 200}};
	uint32_t first[2][2];

	for (uint32_t i = 0; i < 2; i++) {
		first[0][i] = cluster_add_node(by_share, i ? "b" : "a", NULL, "0", "0");
		first[1][i] = cluster_add_node(by_cpu, i ? "b" : "a", NULL, "0", "0");
		for (uint32_t k = 0; k < 3; k++) {
			put(by_share, first[0][i], shares[i][k], 0);
			put(by_cpu, first[1][i], i ? 100 : 200, i ? 6000 : 8000);
		}
	}
	stays.priority = 90;
	stays.share = 200;
	cluster_put(by_share, stays, first[0][1]);
	stays.cpu_milli = 8000;
	cluster_put(by_cpu, stays, first[1][0]);
	stays.cpu_milli = 14000;
	cluster_put(by_cpu, stays, first[1][1]);
	spec.share = 600;
	assert_int_equal(lost_for(by_share, &spec), 600);
	spec.share = 100;
	spec.cpu_milli = 12000;
	assert_int_equal(lost_for(by_cpu, &spec), 200);
}

UNIT_MAIN(UNIT(victims_are_the_cheapest_set), UNIT(impossible_preemptions_are_refused),
	UNIT(a_node_may_have_many_possible_victims), UNIT(no_more_victims_than_needed_are_evicted))
