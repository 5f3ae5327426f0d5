/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The caller's filter (place_set_filter()): single decisions, gangs and the search for victims obey
 * it.
 */
#include "unit.h"

#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "cluster.h"
#include "place/place-gang.h"
#include "place/place-policy.h"
#include "place/place-preempt.h"

/* Two nodes with two devices each. */
static struct place *two_nodes(void)
{
	const struct place_config config = {.policy = &place_best_fit};
	struct place_device_info device[2] = {
		{.memory_bytes = 1u << 30}, {.memory_bytes = 1u << 30}};
	struct place *place = NULL;
	uint64_t bit;

	assert_ok(place_new(&config, &place, NULL));
	assert_ok(place_model(place, "A", &bit, NULL));
	for (int i = 0; i < 2; i++) {
		const struct place_node_info info = {.name = i ? "n1" : "n0",
			.rack = "",
			.cpu_milli = 8000,
			.memory_bytes = 1ull << 40,
			.n_devices = 2,
			.devices = device};
		uint32_t node;

		assert_ok(place_node_add(place, &info, &node, NULL));
	}
	return place;
}

static struct place_spec share(uint32_t permille)
{
	struct place_spec spec = PLACE_SPEC_INIT;

	spec.share = permille;
	return spec;
}

/* The devices that the test's filter allows, and how often the filter was called. */
struct rules {
	uint64_t allowed[2]; /* devices of each node */
	uint32_t at_least_gone;
	uint32_t n_asked;
};

static uint64_t ask(void *arg, const struct place_spec *spec, uint32_t node, const uint32_t *gone,
	uint32_t n_gone)
{
	struct rules *rules = arg;

	rules->n_asked++;
	for (uint32_t i = 1; i < n_gone; i++)
		assert_true(gone[i] > gone[i - 1]);
	return n_gone < rules->at_least_gone ? 0 : rules->allowed[node];
}

static void the_filter_may_refuse_a_node(void **state)
{
	_cleanup_place_ struct place *place = two_nodes();
	const struct place_spec spec = share(300);
	struct rules rules = {.allowed = {0, UINT64_MAX}};
	struct place_choice choice;

	place_set_filter(place, ask, &rules);
	assert_ok(place_find(place, &spec, &choice, NULL));
	assert_int_equal(choice.node, 1);
	rules.allowed[1] = 0;
	assert_int_equal(place_find(place, &spec, &choice, NULL), -ENOSPC);
	place_set_filter(place, NULL, NULL);
	assert_ok(place_find(place, &spec, &choice, NULL));
	assert_int_equal(choice.node, 0);
}

static void the_filter_may_refuse_devices(void **state)
{
	_cleanup_place_ struct place *place = two_nodes();
	struct place_spec spec = share(300);
	struct rules rules = {.allowed = {2, 0}};
	struct place_choice choice;

	place_set_filter(place, ask, &rules);
	assert_ok(place_find(place, &spec, &choice, NULL));
	assert_int_equal(choice.device[0], 1);
	spec.count = 2;
	assert_int_equal(place_find(place, &spec, &choice, NULL), -ENOSPC);
}

static void the_filter_is_asked_only_about_chosen_nodes(void **state)
{
	_cleanup_place_ struct place *place = two_nodes();
	struct rules rules = {.allowed = {UINT64_MAX, UINT64_MAX}};
	struct place_spec spec = share(300);
	struct place_choice choice;

	place_set_filter(place, ask, &rules);
	assert_ok(place_find(place, &spec, &choice, NULL));
	assert_int_equal(rules.n_asked, 1);
	/* The spec requests no device, so any answer of the filter except 0 permits the node. */
	spec.share = spec.count = 0;
	rules.allowed[0] = 0;
	assert_ok(place_find(place, &spec, &choice, NULL));
	assert_int_equal(choice.node, 1);
}

static void gangs_obey_the_filter(void **state)
{
	_cleanup_place_ struct place *place = two_nodes();
	const struct place_spec members[3] = {share(800), share(800), share(800)};
	const struct place_gang gang = {.members = members, .n = 3, .threshold = 1000};
	struct rules rules = {.allowed = {1, UINT64_MAX}};
	struct place_group group;

	place_set_filter(place, ask, &rules);
	assert_ok(place_gang_add(place, &gang, &group, NULL));
	for (int i = 0; i < 3; i++)
		assert_int_not_equal(group.members[i].choice.device[0], 1);
	for (int i = 0; i < 3; i++)
		assert_ok(place_remove(place, group.members[i].tenant));
	place_group_done(&group);
	rules.allowed[1] = 1;
	assert_int_equal(place_gang_add(place, &gang, &group, NULL), -ENOSPC);
	assert_int_equal(place_n_tenants(place), 0);
}

/*
 * Two tenants of low priority fill the node. One victim frees enough share, but the filter requires
 * two.
 */
static void enough_victims_are_evicted_for_the_filter(void **state)
{
	_cleanup_place_ struct place *place = two_nodes();
	const struct place_preempt how = {.is_graceful = false};
	struct rules rules = {.allowed = {UINT64_MAX, 0}};
	struct place_spec low = share(1000), spec = share(500);
	struct place_choice choice = {.node = 0, .n = 1};
	_cleanup_(place_plan_done) struct place_plan plan = {0};
	uint32_t tenant;

	low.priority = 10;
	for (uint32_t i = 0; i < 2; i++) {
		choice.device[0] = i;
		assert_ok(place_add(place, &low, &choice, &tenant, NULL));
	}
	place_set_filter(place, ask, &rules);
	assert_ok(place_preempt_find(place, &spec, &how, &plan, NULL));
	assert_int_equal(plan.n_victims, 1);
	place_plan_done(&plan);
	rules.at_least_gone = 2;
	assert_ok(place_preempt_find(place, &spec, &how, &plan, NULL));
	assert_int_equal(plan.n_victims, 2);
	assert_int_equal(plan.choice.node, 0);
	place_plan_done(&plan);
	/*
	 * The filter permits only the second device, so the tenant on the first device is no
	 * victim.
	 */
	rules = (struct rules){.allowed = {2, 0}, .at_least_gone = 1};
	assert_ok(place_preempt_find(place, &spec, &how, &plan, NULL));
	assert_int_equal(plan.n_victims, 1);
	assert_int_equal(plan.choice.device[0], 1);
	place_plan_done(&plan);
	rules.at_least_gone = 3;
	assert_int_equal(place_preempt_find(place, &spec, &how, &plan, NULL), -ENOSPC);
}

/* Enough share is free, but the filter permits the node only after a victim was removed. */
static void a_victim_may_be_needed_only_for_the_filter(void **state)
{
	_cleanup_place_ struct place *place = two_nodes();
	const struct place_preempt how = {.is_graceful = false};
	struct rules rules = {.allowed = {UINT64_MAX, 0}, .at_least_gone = 1};
	struct place_spec low = share(100), spec = share(500);
	const struct place_choice choice = {.node = 0, .n = 1};
	_cleanup_(place_plan_done) struct place_plan plan = {0};
	uint32_t tenant;

	low.priority = 10;
	assert_ok(place_add(place, &low, &choice, &tenant, NULL));
	place_set_filter(place, ask, &rules);
	assert_ok(place_preempt_find(place, &spec, &how, &plan, NULL));
	assert_int_equal(plan.n_victims, 1);
	assert_int_equal(plan.victims[0], tenant);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_filter_may_refuse_a_node),
		cmocka_unit_test(the_filter_may_refuse_devices),
		cmocka_unit_test(the_filter_is_asked_only_about_chosen_nodes),
		cmocka_unit_test(gangs_obey_the_filter),
		cmocka_unit_test(enough_victims_are_evicted_for_the_filter),
		cmocka_unit_test(a_victim_may_be_needed_only_for_the_filter),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
