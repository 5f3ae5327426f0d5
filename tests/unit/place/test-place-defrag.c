/* SPDX-License-Identifier: Apache-2.0 */
/* Plans of defragmentation: executed in order, the moves have exactly the planned effect. */
#include "unit.h"

#include <errno.h>

#include "base/cleanup.h"
#include "cluster.h"
#include "place/place-defrag.h"
#include "place/place-internal.h"

static uint32_t whole(const struct place *place)
{
	uint32_t n = 0;

	for (uint32_t at = 0; at < place_n_devices(place); at++) {
		struct place_device_view view;

		n += place_device_get(place, at, &view) && !view.n_tenants && !view.is_closed;
	}
	return n;
}

static void replay(struct place *place, const struct place_defrag *plan)
{
	for (uint32_t i = 0; i < plan->n_moves; i++) {
		const struct place_move *move = &plan->moves[i];
		const struct place_tenant was = *place_tenant(place, move->tenant);
		const struct place_tenant *is;
		_cleanup_free_ uint32_t *before = cluster_met(place, &was.spec), *after = NULL;
		uint32_t tenant;

		assert_true(was.spec.is_movable);
		assert_int_equal(was.n, 1);
		assert_true(place->devices[move->to.device[0]].n_tenants > 0);
		assert_int_equal(place->devices[move->to.device[0]].model,
			place->devices[move->from.device[0]].model);
		/* no tenant moves to a device that was emptied before */
		for (uint32_t k = 0; k < i; k++)
			assert_int_not_equal(plan->moves[k].from.device[0], move->to.device[0]);
		assert_ok(place_defrag_move(place, move, &tenant, NULL));
		is = place_tenant(place, tenant);
		assert_int_equal(is->device[0], move->to.device[0]);
		/*
		 * Both counts of conflicts include the tenant itself, or neither does, so the test
		 * may compare the counts.
		 */
		after = cluster_met(place, &is->spec);
		assert_true(after[is->device[0]] <= before[was.device[0]]);
		assert_int_equal(is->spec.share, was.spec.share);
		assert_int_equal(is->bytes[0], was.bytes[0]);
	}
}

static void a_plan_has_its_promised_effect(void **state)
{
	uint32_t n_moves = 0, n_gained = 0;

	for (uint64_t seed = 0; seed < 1000; seed++) {
		struct rand rand = rand_seeded(seed);
		_cleanup_place_ struct place *place = cluster_new(
			&rand, &place_worst_fit, 1 + (uint32_t)rand_below(&rand, 8), 4);
		_cleanup_(place_defrag_done) struct place_defrag plan = {0};
		uint32_t most = (uint32_t)rand_below(&rand, 12), moved[16], n = 0;
		struct place_spec typical[3];
		uint64_t digest;

		for (int i = 0; i < 3; i++)
			typical[i] = cluster_spec(&rand, place);
		place_set_workload_mix(place, typical, 3);
		cluster_fill(&rand, place, (uint32_t)rand_below(&rand, 30));
		for (uint32_t i = 0; i < place->n_tenants; i++)
			if (rand_below(&rand, 2) && place_tenant(place, i))
				assert_ok(place_remove(place, i));
		digest = cluster_digest(place);
		assert_ok(place_defrag_find(place, most, NULL, &plan, NULL));
		assert_int_equal(cluster_digest(place), digest);
		assert_true(plan.n_moves <= most);
		assert_int_equal(plan.whole_before, whole(place));
		assert_int_equal(plan.fragmented_before, place_fragmentation(place));
		for (uint32_t i = 0; i < plan.n_moves; i++) {
			for (uint32_t k = 0; k < n; k++)
				assert_int_not_equal(moved[k], plan.moves[i].tenant);
			moved[n++] = plan.moves[i].tenant;
		}
		/* Execute the plan, then roll it back. */
		place_savepoint(place);
		replay(place, &plan);
		cluster_check(place);
		assert_int_equal(plan.whole_after, whole(place));
		assert_int_equal(plan.fragmented_after, place_fragmentation(place));
		place_rollback(place, 0);
		place_release(place);
		assert_int_equal(cluster_digest(place), digest);
		assert_true(plan.whole_after >= plan.whole_before);
		assert_int_equal(plan.whole_after == plan.whole_before, plan.n_moves == 0);
		n_moves += plan.n_moves;
		n_gained += plan.whole_after - plan.whole_before;
	}
	assert_true(n_moves > 500 && n_gained > 300);
}

static void add(struct place *place, uint32_t device, uint32_t share, bool is_movable)
{
	struct place_spec spec = PLACE_SPEC_INIT;
	struct place_choice choice = {
		.node = place->devices[device].node, .n = 1, .device = {device}};
	uint32_t tenant;

	spec.share = share;
	spec.is_movable = is_movable;
	assert_ok(place_add(place, &spec, &choice, &tenant, NULL));
}

static void a_small_example_is_defragmented(void **state)
{
	const struct place_config config = {.policy = &place_first_fit};
	const struct place_device_info devices[4] = {{.memory_bytes = GIB}, {.memory_bytes = GIB},
		{.memory_bytes = GIB}, {.memory_bytes = GIB}};
	const struct place_node_info info = {.name = "n", .n_devices = 4, .devices = devices};
	struct place *place = NULL;
	_cleanup_(place_defrag_done) struct place_defrag plan = {0};
	struct error err = {0};
	uint32_t node, tenant;
	uint64_t bit;

	assert_ok(place_new(&config, &place, NULL));
	assert_ok(place_model(place, "A", &bit, NULL));
	assert_ok(place_node_add(place, &info, &node, NULL));
	add(place, 0, 300, true);
	add(place, 0, 200, true);
	add(place, 1, 600, true);
	add(place, 2, 700, true);
	add(place, 3, 100, false); /* not movable, so other tenants can only move to its device */
	/*
	 * Two moves, each to the device with the least free share that suffices: 300 to a device
	 * with 300 free, 200 to a device with 400 free.
	 */
	assert_ok(place_defrag_find(place, 2, NULL, &plan, &err));
	assert_int_equal(plan.n_moves, 2);
	assert_int_equal(plan.moves[0].tenant, 0);
	assert_int_equal(plan.moves[0].to.device[0], 2);
	assert_int_equal(plan.moves[1].tenant, 1);
	assert_int_equal(plan.moves[1].to.device[0], 1);
	assert_int_equal(plan.whole_before, 0);
	assert_int_equal(plan.whole_after, 1);
	assert_ok(place_remove(place, 0));
	assert_int_equal(place_defrag_move(place, &plan.moves[0], &tenant, &err), -ENOENT);
	add(place, 3, 300, true);
	assert_int_equal(place_defrag_move(place, &plan.moves[0], &tenant, &err), -ESTALE);
	assert_int_equal(place_defrag_find(place, PLACE_MOVES_MAX + 1, NULL, &plan, &err), -EINVAL);
	assert_contains(err.msg, "65537 moves");
	place_free(place);
}

/*
 * With random budgets, no plan moves more tenants of a budget than its may_evict allows. All other
 * properties of a plan are as without budgets.
 */
static void budgets_are_kept(void **state)
{
	uint32_t n_moves = 0, n_less = 0;

	for (uint64_t seed = 0; seed < 600; seed++) {
		struct rand rand = rand_seeded(seed);
		_cleanup_place_ struct place *place = cluster_new(
			&rand, &place_worst_fit, 2 + (uint32_t)rand_below(&rand, 6), 4);
		_cleanup_(place_defrag_done) struct place_defrag plan = {0}, free_plan = {0};
		struct place_budget budgets[3];
		struct place_preempt rules = {
			.budgets = budgets, .n_budgets = 3, .is_forced = rand_below(&rand, 2) == 0};
		uint32_t gone[3] = {0};
		uint64_t digest;

		for (uint32_t i = 0; i < 3; i++) {
			char name[16];

			snprintf(name, sizeof(name), "budget%u", i);
			assert_ok(place_label(place, "", name, &budgets[i].label, NULL));
			budgets[i].may_evict = (uint32_t)rand_below(&rand, 4);
		}
		for (uint32_t i = 0; i < 30; i++) {
			struct place_spec spec = cluster_spec(&rand, place);
			struct place_choice choice;
			uint32_t tenant;

			spec.budget = budgets[rand_below(&rand, 3)].label;
			if (place_find(place, &spec, &choice, NULL) == 0)
				assert_ok(place_add(place, &spec, &choice, &tenant, NULL));
		}
		digest = cluster_digest(place);
		assert_ok(place_defrag_find(place, 100, NULL, &free_plan, NULL));
		assert_ok(place_defrag_find(place, 100, &rules, &plan, NULL));
		assert_int_equal(cluster_digest(place), digest);
		for (uint32_t i = 0; i < plan.n_moves; i++)
			for (uint32_t k = 0; k < 3; k++)
				gone[k] += place_tenant(place, plan.moves[i].tenant)->spec.budget ==
					budgets[k].label;
		for (uint32_t k = 0; k < 3; k++)
			assert_true(gone[k] <= budgets[k].may_evict);
		n_moves += plan.n_moves;
		n_less += plan.n_moves < free_plan.n_moves;
		replay(place, &plan);
		assert_int_equal(plan.whole_after, whole(place));
	}
	assert_true(n_moves > 50 && n_less > 50);
}

UNIT_MAIN(UNIT(a_plan_has_its_promised_effect), UNIT(budgets_are_kept),
	UNIT(a_small_example_is_defragmented))
