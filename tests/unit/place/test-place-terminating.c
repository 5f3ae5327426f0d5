/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Terminating tenants: their capacity until they are removed, and the pods that wait for that
 * capacity.
 */
#include "unit.h"

#include <errno.h>

#include "base/cleanup.h"
#include "cluster.h"
#include "place/place-defrag.h"
#include "place/place-gang.h"
#include "place/place-held.h"
#include "place/place-internal.h"
#include "place/place-mode.h"
#include "place/place-policy.h"
#include "place/place-queue.h"

static void add_node(struct place *place, const char *name, uint32_t n_devices, uint32_t n_max)
{
	const struct place_device_info device = {.memory_bytes = 16 * GIB};
	const struct place_device_info devices[] = {device, device, device, device};
	const struct place_node_info info = {.name = name,
		.cpu_milli = 8000,
		.memory_bytes = 32 * GIB,
		.n_tenants_max = n_max,
		.n_devices = n_devices,
		.devices = devices};
	uint32_t node;

	assert_ok(place_node_add(place, &info, &node, NULL));
}

/* A cluster of one node "a" with n_devices devices and at most n_max tenants. */
static struct place *one_node(uint32_t n_devices, uint32_t n_max)
{
	const struct place_config config = {.policy = &place_first_fit};
	struct place *place = NULL;
	uint64_t bit;

	assert_ok(place_new(&config, &place, NULL));
	assert_ok(place_model(place, "A", &bit, NULL));
	add_node(place, "a", n_devices, n_max);
	return place;
}

static struct place_spec spec_of(uint32_t share, uint32_t priority, uint32_t cpu_milli)
{
	struct place_spec spec = PLACE_SPEC_INIT;

	spec.share = share;
	spec.count = share > 0;
	spec.priority = priority;
	spec.cpu_milli = cpu_milli;
	return spec;
}

static uint32_t add(struct place *place, struct place_spec spec)
{
	struct place_choice choice;
	uint32_t tenant = PLACE_NONE;

	assert_ok(place_find(place, &spec, &choice, NULL));
	assert_ok(place_add(place, &spec, &choice, &tenant, NULL));
	return tenant;
}

/*
 * Places the spec by graceful preemption, with exactly n_victims victims. *ret_victim is the first
 * victim.
 */
static uint32_t come(
	struct place *place, struct place_spec spec, uint32_t n_victims, uint32_t *ret_victim)
{
	const struct place_preempt rules = {.is_graceful = true};
	_cleanup_(place_plan_done) struct place_plan plan = {0};
	uint32_t tenant = PLACE_NONE;

	assert_ok(place_preempt_find(place, &spec, &rules, &plan, NULL));
	assert_int_equal(plan.n_victims, n_victims);
	assert_ok(place_preempt_apply(place, &spec, &plan, &tenant, NULL));
	*ret_victim = plan.victims[0];
	return tenant;
}

static struct place_device_view device(const struct place *place, uint32_t at)
{
	struct place_device_view view;

	assert_true(place_device_get(place, at, &view));
	return view;
}

static void a_terminating_tenant_keeps_its_device(void **state)
{
	_cleanup_place_ struct place *place = one_node(1, 0);
	struct place_spec small = spec_of(300, 50, 0), any = PLACE_SPEC_INIT;
	uint32_t low = add(place, spec_of(1000, 10, 0)), high, victim;
	char text[PLACE_WHY];
	struct place_choice choice;
	struct place_why why;

	any.count = 0;
	high = come(place, spec_of(600, 90, 0), 1, &victim);
	assert_int_equal(victim, low);
	assert_int_not_equal(high, low);
	assert_true(place_tenant(place, low)->is_terminating);
	assert_false(place_tenant(place, high)->is_terminating);
	assert_int_equal(place_n_tenants(place), 2);
	assert_int_equal(device(place, 0).share_free, 400);
	assert_int_equal(device(place, 0).n_tenants, 1);
	assert_int_equal(device(place, 0).n_terminating, 1);
	assert_int_equal(place_find(place, &small, &choice, NULL), -ENOSPC);
	assert_int_equal(place_device_reason(place, &small, 0), PLACE_TERMINATING);
	place_explain(place, &small, &why);
	assert_contains(
		place_why_format(&why, &small, text), "1 has devices with terminating tenants");
	/*
	 * The refusal's text gives the free share after the reason PLACE_NO_SHARE, also if another
	 * reason follows.
	 */
	why.nodes[PLACE_NO_SHARE] = 2;
	why.most_share = 200;
	assert_string_equal(place_why_format(&why, &small, text),
		"0 of 3 nodes have room: 2 have too little of their devices left (0.3 of 1 asked, "
		"0.2 free at most), 1 has devices with terminating tenants");
	small.share = 500; /* would not fit even if the terminating tenant were removed */
	assert_int_equal(place_device_reason(place, &small, 0), PLACE_NO_SHARE);
	assert_ok(place_find(place, &any, &choice, NULL));
	assert_true(place_is_awaiting(place, high));
	assert_false(place_is_awaiting(place, low));
	assert_ok(place_remove(place, low));
	assert_false(place_is_awaiting(place, high));
	assert_null(place_tenant(place, low));
	assert_int_equal(place_remove(place, low), -ENOENT);
	small.share = 400;
	add(place, small);
}

static void a_terminating_tenant_keeps_its_part_of_the_node(void **state)
{
	_cleanup_place_ struct place *place = one_node(2, 3);
	struct place_spec needs = spec_of(1000, 50, 1000), none = spec_of(0, 50, 0);
	struct place_choice choice;
	struct place_node_view view;
	struct place_spec low = spec_of(1000, 10, 6000);
	uint32_t victim, other, high;

	low.memory_bytes = 30 * GIB;
	add(place, low);
	other = add(place, spec_of(100, 10, 1000));
	high = come(place, spec_of(1000, 90, 5000), 1, &victim);
	assert_true(place_node_get(place, 0, &view));
	assert_int_equal(view.n_tenants, 3);
	assert_int_equal(view.cpu_free, 0); /* tenants use 12 cores, and the node has 8 */
	assert_int_equal(view.memory_free, 2 * GIB);
	/* The second device is idle, but the node has no free tenant slot and no CPU. */
	assert_int_equal(place_reason_of(place, &needs, 0), PLACE_FULL_OF_TENANTS);
	assert_ok(place_remove(place, other));
	assert_int_equal(place_reason_of(place, &needs, 0), PLACE_NO_CPU);
	assert_true(place_is_awaiting(place, high));
	assert_ok(place_remove(place, victim));
	assert_false(place_is_awaiting(place, high));
	assert_true(place_node_get(place, 0, &view));
	assert_int_equal(view.cpu_free, 3000);
	assert_ok(place_find(place, &needs, &choice, NULL));
	/* A tenant without a device waits for the node's CPU. */
	none.priority = 95;
	none.cpu_milli = 8000;
	other = come(place, none, 1, &victim);
	assert_int_equal(victim, high);
	assert_true(place_is_awaiting(place, other));
	assert_ok(place_remove(place, high));
	assert_false(place_is_awaiting(place, other));
}

/* Each new pod evicts only one tenant, even if CPU, memory or tenant slots are the scarcest. */
static void a_waiting_pod_is_nominated_for_unreserved_capacity(void **state)
{
	_cleanup_place_ struct place *place = one_node(4, 4);
	struct place_spec high = spec_of(1000, 90, 2000), low = spec_of(1000, 10, 2000);
	uint32_t victim[4], tenant[4];
	struct place_choice choice;
	struct error err = {0};

	low.memory_bytes = high.memory_bytes = 8 * GIB;
	for (int i = 0; i < 4; i++)
		add(place, low);
	high.is_terminating_free = true;
	for (int i = 0; i < 3; i++)
		tenant[i] = come(place, high, 1, &victim[i]);
	assert_false(place_tenant(place, tenant[0])->spec.is_terminating_free);
	/* The three victims free 2 cores each, and all of these are reserved for the new pods. */
	high.count = high.share = 0;
	high.priority = 5;
	assert_int_equal(place_find(place, &high, &choice, NULL), -ENOSPC);
	assert_int_equal(
		place_add(place, &high, &(struct place_choice){.node = 0}, tenant + 3, &err),
		-ENOSPC);
	high.count = 1;
	high.share = 1000;
	high.priority = 90;
	assert_ok(place_remove(place, victim[1]));
	assert_true(place_is_awaiting(place, tenant[1]));
	tenant[3] = come(place, high, 1, &victim[3]);
	/*
	 * A removed pod leaves CPU that no other pod has reserved, so a pod that may wait gets it.
	 */
	assert_ok(place_remove(place, tenant[0]));
	high.count = high.share = 0;
	assert_ok(place_find(place, &high, &choice, NULL));
	assert_ok(place_add(place, &high, &choice, &tenant[0], NULL));
	assert_true(place_is_awaiting(place, tenant[0]));
	high.is_terminating_free = false;
	assert_int_equal(place_find(place, &high, &choice, NULL), -ENOSPC);
}

static void victims_go_on_terminating_when_the_preemptor_is_removed(void **state)
{
	_cleanup_place_ struct place *place = one_node(1, 0);
	const struct place_preempt rules = {.is_graceful = true};
	struct place_spec higher = spec_of(1000, 99, 0);
	_cleanup_(place_plan_done) struct place_plan plan = {0};
	uint32_t low = add(place, spec_of(1000, 10, 0)), victim, tenant;
	struct error err = {0};

	tenant = come(place, spec_of(1000, 90, 0), 1, &victim);
	assert_ok(place_remove(place, tenant));
	assert_true(place_tenant(place, low)->is_terminating);
	assert_int_equal(device(place, 0).share_free, 1000);
	assert_int_equal(device(place, 0).n_tenants, 0);
	/* The only tenant on the device is terminating already, so no eviction helps. */
	assert_int_equal(place_preempt_find(place, &higher, &rules, &plan, &err), -ENOSPC);
	assert_int_equal(place_resize(place, low, 100, 0, &err), -EBUSY);
	assert_contains(err.msg, "is terminating");
	assert_ok(place_mark_terminating(place, low, &err));
	assert_int_equal(device(place, 0).n_terminating, 1);
	assert_ok(place_remove(place, low));
	assert_int_equal(place_mark_terminating(place, low, &err), -ENOENT);
	assert_contains(err.msg, "no tenant");
	add(place, higher);
}

static void a_plan_is_void_after_a_removal(void **state)
{
	_cleanup_place_ struct place *place = one_node(2, 0);
	const struct place_preempt rules = {.is_graceful = true};
	const struct place_spec high = spec_of(1000, 90, 0), small = spec_of(100, 10, 0);
	const struct place_choice second = {.node = 0, .n = 1, .device = {1}};
	_cleanup_(place_plan_done) struct place_plan plan = {0};
	uint32_t first = add(place, spec_of(1000, 10, 0)), tenant;
	struct error err = {0};

	add(place, spec_of(900, 10, 0));
	assert_ok(place_mark_terminating(place, first, NULL));
	assert_ok(place_preempt_find(place, &high, &rules, &plan, NULL));
	assert_int_equal(plan.n_victims, 1);
	assert_int_not_equal(plan.victims[0], first);
	assert_ok(place_remove(place, first));
	assert_int_equal(place_preempt_apply(place, &high, &plan, &tenant, &err), -ESTALE);
	/* The node has as many tenants as before, but one on the planned device is terminating. */
	assert_ok(place_restore(place, &small, &second, NULL, &first, NULL));
	assert_ok(place_mark_terminating(place, first, NULL));
	assert_int_equal(place_preempt_apply(place, &high, &plan, &tenant, &err), -ESTALE);
}

/* Counters that a tenant changes. */
struct seen {
	uint64_t used, mbit, memory;
	uint32_t share, cpu, n_tenants, n_terminating, n_group, n_tags, n_held, n_all;
};

static struct seen see(const struct place *place)
{
	const struct group *group = place_group(place, 7);

	return (struct seen){
		.used = place_queue_used(place, 1, PLACE_NONE),
		.mbit = place_network_free_mbit(place, 1),
		.memory = place->devices[0].memory_free,
		.share = place->share_free[0],
		.cpu = place->cpu_free[0],
		.n_tenants = place->devices[0].n_tenants,
		.n_terminating = place->devices[0].n_terminating,
		.n_group = group ? group->n : 0,
		.n_tags = place->devices[0].n_tags,
		.n_held = place->held[0].n,
		.n_all = place_n_tenants(place),
	};
}

static void a_terminating_tenant_frees_its_queue_label_and_network(void **state)
{
	static const struct place_queue_info queue = {"q", "", 1000, 1000, 1, NULL, 0};
	_cleanup_place_ struct place *place = one_node(1, 0);
	struct place_spec spec = spec_of(1000, 10, 1000), high = spec_of(500, 90, 0);
	uint32_t tenant, network, mark, inner, label;
	struct seen before, told, now;
	struct error err = {0};

	assert_ok(place_network_add(place,
		&(struct place_network_info){.kind = PLACE_NETWORK_HOST, .mbit = 100}, &network,
		NULL));
	assert_ok(place_queue_set(place, &queue, 1, NULL, NULL));
	assert_ok(place_label(place, "", "x", &label, NULL));
	spec.queue = 1;
	spec.group = 7;
	spec.affinity = spec.exclusion = label;
	spec.network[0] = network;
	spec.network_mbit = 60;
	tenant = add(place, spec);
	before = see(place);
	mark = place_savepoint(place);
	assert_ok(place_mark_terminating(place, tenant, NULL));
	told = see(place);
	assert_int_equal(told.used, 0);
	assert_int_equal(told.mbit, 100);
	assert_int_equal(told.memory, 16 * GIB);
	assert_int_equal(told.share, 1000);
	assert_int_equal(told.cpu, 7000);
	assert_int_equal(told.n_group + told.n_tags + told.n_held + told.n_tenants, 0);
	assert_int_equal(told.n_terminating, 1);
	/* Under a savepoint, remove the terminating tenant, put it back and remove it again. */
	inner = place_savepoint(place);
	assert_ok(place_remove(place, tenant));
	assert_ok(place_readd_terminating(place, tenant, NULL));
	assert_ok(place_remove(place, tenant));
	place_rollback(place, inner);
	place_release(place);
	now = see(place);
	assert_memory_equal(&now, &told, sizeof(now));
	place_rollback(place, mark);
	now = see(place);
	assert_memory_equal(&now, &before, sizeof(now));
	assert_false(place_tenant(place, tenant)->is_terminating);
	/* A preemption that is rolled back leaves the counters unchanged too. */
	come(place, high, 1, &inner);
	assert_int_equal(inner, tenant);
	place_rollback(place, mark);
	place_release(place);
	now = see(place);
	assert_memory_equal(&now, &before, sizeof(now));
	assert_int_equal(place_readd_terminating(place, tenant, &err), -ENOENT);
	assert_contains(err.msg, "was not removed");
	/* The terminating tenant still refers to its label, network device and queue. */
	assert_ok(place_mark_terminating(place, tenant, NULL));
	assert_null(place->idle_groups);
	assert_int_equal(place_label_forget(place, label, &err), -EBUSY);
	assert_int_equal(place_network_remove(place, network, &err), -EBUSY);
	assert_int_equal(place_queue_set(place, NULL, 0, NULL, &err), -EBUSY);
	assert_ok(place_queue_set(place, &queue, 1, NULL, NULL));
	assert_int_equal(place_queue_used(place, 1, PLACE_NONE), 0);
	assert_int_equal(place_node_remove(place, 0, &err), -EBUSY);
	assert_ok(place_remove(place, tenant));
	assert_ok(place_network_remove(place, network, NULL));
	assert_ok(place_label_forget(place, label, NULL));
}

static void no_resize_uses_terminating_capacity(void **state)
{
	_cleanup_place_ struct place *place = one_node(1, 0);
	uint32_t stays = add(place, spec_of(300, 50, 0)), goes = add(place, spec_of(300, 50, 0));
	struct error err = {0};

	assert_ok(place_mark_terminating(place, goes, NULL));
	assert_int_equal(place_resize(place, stays, 400, 0, &err), -EBUSY);
	assert_contains(err.msg, "has terminating tenants");
	assert_int_equal(place_resize(place, stays, 300, 8 * GIB, &err), -EBUSY);
	assert_ok(place_resize(place, stays, 200, 0, NULL));
	assert_ok(place_remove(place, goes));
	assert_ok(place_resize(place, stays, 1000, 0, NULL));
}

/*
 * Two members share the device of one victim. If the victim were marked as terminating before both
 * are placed, the device would be closed to the second member.
 */
static void a_gang_takes_the_place_of_one_tenant(void **state)
{
	const struct place_preempt rules = {.is_graceful = true};
	_cleanup_place_ struct place *place = one_node(1, 0);
	uint32_t low = add(place, spec_of(1000, 10, 8000));
	const struct place_spec members[] = {spec_of(500, 90, 4000), spec_of(500, 90, 4000)};
	const struct place_gang gang = {
		.members = members, .n = 2, .threshold = 1000, .preempt = &rules};
	_cleanup_(place_group_done) struct place_group group = {0};

	assert_ok(place_gang_add(place, &gang, &group, NULL));
	assert_int_equal(group.n_victims, 1);
	assert_int_equal(group.victims[0], low);
	assert_true(place_tenant(place, low)->is_terminating);
	for (int i = 0; i < 2; i++) {
		assert_int_not_equal(group.members[i].tenant, low);
		assert_true(place_is_awaiting(place, group.members[i].tenant));
	}
	assert_ok(place_remove(place, low));
	for (int i = 0; i < 2; i++)
		assert_false(place_is_awaiting(place, group.members[i].tenant));
	assert_int_equal(device(place, 0).share_free, 0);
}

static void both_halves_of_a_remote_tenant_terminate(void **state)
{
	_cleanup_place_ struct place *place = one_node(1, 0);
	uint32_t server = add(place, spec_of(1000, 10, 0)), client, high, victim;
	struct place_spec half = spec_of(0, 10, 1000);

	add_node(place, "b", 0, 0);
	half.node = 1;
	client = add(place, half);
	assert_ok(place_mode_tie(place, server, client, NULL));
	high = come(place, spec_of(1000, 90, 0), 2, &victim);
	assert_true(place_tenant(place, server)->is_terminating);
	assert_true(place_tenant(place, client)->is_terminating);
	assert_int_equal(place_peer(place, server), client);
	assert_ok(place_remove(place, server));
	assert_false(place_is_awaiting(place, high));
	assert_int_equal(place->cpu_free[1], 7000);
	assert_ok(place_remove(place, client));
	/* A half that is terminating already is not evicted again with its other half. */
	assert_ok(place_remove(place, high));
	server = add(place, spec_of(1000, 10, 0));
	client = add(place, half);
	assert_ok(place_mode_tie(place, server, client, NULL));
	assert_ok(place_mark_terminating(place, client, NULL));
	come(place, spec_of(1000, 90, 0), 1, &victim);
	assert_int_equal(victim, server);
}

static void a_terminating_tenant_is_not_moved(void **state)
{
	_cleanup_place_ struct place *place = one_node(2, 0);
	_cleanup_(place_defrag_done) struct place_defrag plan = {0};
	struct place_spec spec = spec_of(300, 50, 0);
	uint32_t first, second, tenant;
	struct error err = {0};

	spec.is_movable = true;
	first = add(place, spec);
	assert_ok(place_add(
		place, &spec, &(struct place_choice){.n = 1, .device = {1}}, &second, NULL));
	assert_ok(place_defrag_find(place, 10, NULL, &plan, NULL));
	assert_int_equal(plan.n_moves, 1);
	assert_ok(place_mark_terminating(place, plan.moves[0].tenant, NULL));
	assert_int_equal(place_defrag_move(place, &plan.moves[0], &tenant, &err), -EINVAL);
	assert_contains(err.msg, "is terminating");
	place_defrag_done(&plan);
	spec.share = 100;
	tenant = add(place, spec); /* goes to the device without the terminating tenant */
	assert_int_equal(place_tenant(place, tenant)->device[0],
		place_tenant(place, first)->is_terminating ? 1 : 0);
	assert_ok(place_mark_terminating(place, tenant, NULL));
	assert_ok(place_defrag_find(place, 10, NULL, &plan, NULL));
	assert_int_equal(plan.n_moves, 0);
	assert_int_equal(plan.whole_before, 0);
	assert_ok(place_remove(place, place_tenant(place, first)->is_terminating ? first : second));
	place_defrag_done(&plan);
	assert_ok(place_defrag_find(place, 10, NULL, &plan, NULL));
	assert_int_equal(plan.whole_before, 1);
}

static void tenants_beside_a_terminating_tenant_are_not_moved(void **state)
{
	_cleanup_place_ struct place *place = one_node(2, 0);
	_cleanup_(place_defrag_done) struct place_defrag plan = {0};
	struct place_spec spec = spec_of(300, 50, 0);
	const uint32_t leaving = add(place, spec_of(100, 50, 0));
	uint32_t tenant;

	spec.is_movable = true;
	add(place, spec);
	assert_ok(place_add(
		place, &spec, &(struct place_choice){.n = 1, .device = {1}}, &tenant, NULL));
	assert_ok(place_mark_terminating(place, leaving, NULL));
	assert_ok(place_defrag_find(place, 10, NULL, &plan, NULL));
	assert_int_equal(plan.n_moves, 0);
	assert_ok(place_remove(place, leaving));
	place_defrag_done(&plan);
	assert_ok(place_defrag_find(place, 10, NULL, &plan, NULL));
	assert_int_equal(plan.n_moves, 1);
}

/* Restores state after a restart: terminating tenants come first. */
static void a_restored_tenant_waits_for_terminating_ones(void **state)
{
	_cleanup_place_ struct place *place = one_node(1, 0);
	const struct place_choice here = {.node = 0, .n = 1, .device = {0}};
	const struct place_spec low = spec_of(1000, 10, 8000), high = spec_of(1000, 90, 8000);
	uint32_t a, b, c;

	assert_ok(place_restore(place, &low, &here, NULL, &a, NULL));
	assert_ok(place_mark_terminating(place, a, NULL));
	assert_ok(place_restore(place, &low, &here, NULL, &b, NULL));
	assert_ok(place_mark_terminating(place, b, NULL));
	assert_ok(place_restore(place, &high, &here, NULL, &c, NULL));
	assert_int_equal(place->nodes[0].cpu_taken, 24000);
	assert_true(place_is_awaiting(place, c));
	assert_ok(place_remove(place, a));
	assert_true(place_is_awaiting(place, c));
	assert_ok(place_remove(place, b));
	assert_false(place_is_awaiting(place, c));
}

UNIT_MAIN(UNIT(a_terminating_tenant_keeps_its_device),
	UNIT(a_terminating_tenant_keeps_its_part_of_the_node),
	UNIT(a_waiting_pod_is_nominated_for_unreserved_capacity),
	UNIT(victims_go_on_terminating_when_the_preemptor_is_removed),
	UNIT(a_plan_is_void_after_a_removal),
	UNIT(a_terminating_tenant_frees_its_queue_label_and_network),
	UNIT(no_resize_uses_terminating_capacity), UNIT(a_gang_takes_the_place_of_one_tenant),
	UNIT(both_halves_of_a_remote_tenant_terminate), UNIT(a_terminating_tenant_is_not_moved),
	UNIT(tenants_beside_a_terminating_tenant_are_not_moved),
	UNIT(a_restored_tenant_waits_for_terminating_ones))
