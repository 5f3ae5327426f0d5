/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preferred anti-affinity: its effect in examples made by hand. A preference never makes a tenant
 * wait and never evicts one. test-place-policies and test-place-walk compare placement with a
 * search of all places.
 */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "cluster.h"
#include "place/place-conflicts.h"
#include "place/place-bounds.h"
#include "place/place-defrag.h"
#include "place/place-gang.h"
#include "place/place-internal.h"
#include "place/place-mode.h"
#include "place/place-preempt.h"

static uint32_t label(struct place *place, const char *ns, const char *name)
{
	uint32_t id;

	assert_ok(place_label(place, ns, name, &id, NULL));
	return id;
}

static struct place_spec spec_of(uint32_t share, uint32_t preferred)
{
	struct place_spec spec = PLACE_SPEC_INIT;

	spec.share = share;
	spec.preferred_anti_affinity = preferred;
	return spec;
}

static struct place_choice find(struct place *place, struct place_spec spec)
{
	struct place_choice choice;

	assert_ok(place_find(place, &spec, &choice, NULL));
	return choice;
}

/* With every policy, conflicts come before scores. */
static void devices_with_fewer_conflicts_come_first(void **state)
{
	for (size_t i = 0; place_policies[i]; i++) {
		_cleanup_place_ struct place *place = cluster_by_hand(place_policies[i], NULL);
		const uint32_t a = label(place, "ns", "a");
		const struct place_spec spec = spec_of(100, a);
		struct place_choice choice;
		char text[PLACE_WHY];

		cluster_add_node(place, "n", NULL, "00", "00");
		cluster_add_node(place, "m", NULL, "0", "0");
		for (uint32_t device = 0; device < 3; device++)
			for (uint32_t k = 0; k < 2; k++)
				if (device != 2 || k == 0)
					cluster_put(place, spec_of(100, a), device);
		/* Device 2 has one conflicting tenant, the other devices have two each. */
		choice = find(place, spec);
		assert_int_equal(choice.device[0], 2);
		assert_int_equal(choice.n_conflicts, 1);
		assert_contains(place_choice_format(place, &spec, &choice, text),
			"beside 1 tenant that preferred-anti-affinity 'a' would keep apart");
		/* Another label, or the same name in another namespace, makes no conflict. */
		choice = find(place, spec_of(100, label(place, "ns", "b")));
		assert_int_equal(choice.n_conflicts, 0);
		choice = find(place, spec_of(100, label(place, "other", "a")));
		assert_int_equal(choice.n_conflicts, 0);
	}
}

/*
 * A device without conflicts is of no use if it lacks capacity. Then the tenant goes to a device
 * with conflicts.
 */
static void preferred_anti_affinity_never_makes_a_tenant_wait(void **state)
{
	_cleanup_place_ struct place *place = cluster_by_hand(&place_best_fit, NULL);
	const uint32_t a = label(place, "ns", "a");
	struct place_spec alone = spec_of(1000, 0);
	struct place_choice choice;
	uint32_t tenant;

	cluster_add_node(place, "n", NULL, "00", "00");
	alone.is_exclusive = true;
	tenant = cluster_put(place, alone, 1);
	cluster_put(place, spec_of(300, a), 0);
	choice = find(place, spec_of(300, a));
	assert_int_equal(choice.device[0], 0);
	assert_int_equal(choice.n_conflicts, 1);
	assert_ok(place_remove(place, tenant));
	choice = find(place, spec_of(300, a));
	assert_int_equal(choice.device[0], 1);
	assert_int_equal(choice.n_conflicts, 0);
	/*
	 * Without preferred anti-affinity, best fit takes the device with the least share left
	 * over.
	 */
	assert_int_equal(cluster_device_for(place, spec_of(300, 0)), 0);
}

/*
 * Preferred and required anti-affinity of one label conflict, whichever tenant comes first. The
 * required one stays a hard rule.
 */
static void a_label_may_be_preferred_and_required(void **state)
{
	_cleanup_place_ struct place *place = cluster_by_hand(&place_best_fit, NULL);
	const uint32_t a = label(place, "ns", "a");
	struct place_spec rule = spec_of(100, 0), both = spec_of(100, a);
	uint32_t tenant;

	rule.anti_affinity = both.anti_affinity = a;
	cluster_add_node(place, "n", NULL, "00", "00");
	tenant = cluster_put(place, rule, 0);
	assert_int_equal(cluster_device_for(place, spec_of(100, a)), 1);
	assert_ok(place_remove(place, tenant));
	tenant = cluster_put(place, spec_of(100, a), 0);
	assert_int_equal(cluster_device_for(place, rule), 1);
	assert_ok(place_remove(place, tenant));
	/* A tenant that has label `a` as preferred and as required anti-affinity counts once. */
	cluster_put(place, both, 0);
	cluster_put(place, both, 1);
	assert_int_equal(find(place, spec_of(100, a)).n_conflicts, 1);
	assert_int_equal(cluster_device_for(place, both), PLACE_NONE);
	assert_int_equal(cluster_device_for(place, rule), PLACE_NONE);
}

/* An affinity label or a requested node decides, even if the device has conflicts. */
static void required_rules_come_before_preferences(void **state)
{
	_cleanup_place_ struct place *place = cluster_by_hand(&place_best_fit, NULL);
	const uint32_t a = label(place, "ns", "a"), red = label(place, "ns", "red");
	struct place_spec spec = spec_of(100, a);

	cluster_add_node(place, "n", NULL, "0", "0");
	cluster_add_node(place, "m", NULL, "0", "0");
	spec.affinity = red;
	cluster_put(place, spec, 0);
	assert_int_equal(find(place, spec).device[0], 0);
	assert_int_equal(find(place, spec).n_conflicts, 1);
	spec.affinity = 0;
	assert_int_equal(find(place, spec).device[0], 1);
	spec.node = 0;
	assert_int_equal(find(place, spec).device[0], 0);
}

/*
 * Device 2 has no conflict, so every choice of two devices includes it. The policy chooses the
 * second device among devices with one conflict each.
 */
static void several_devices_have_the_fewest_conflicts(void **state)
{
	for (size_t i = 0; place_policies[i]; i++) {
		_cleanup_place_ struct place *place = cluster_by_hand(place_policies[i], NULL);
		const uint32_t a = label(place, "ns", "a");
		struct place_spec two = spec_of(100, a);
		struct place_choice choice;

		two.count = 2;
		cluster_add_node(place, "n", NULL, "0000", "0000");
		cluster_put(place, spec_of(300, a), 0);
		cluster_put(place, spec_of(200, a), 1);
		cluster_put(place, spec_of(100, a), 3);
		choice = find(place, two);
		assert_int_equal(choice.n_conflicts, 1);
		assert_true(choice.device[0] == 2 || choice.device[1] == 2);
		assert_true(choice.device[0] != choice.device[1]);
		two.count = 4;
		assert_int_equal(find(place, two).n_conflicts, 3);
	}
}

/* No tenant is preempted for a preference: preemption is only for a tenant that fits nowhere. */
static void a_preference_evicts_no_tenant(void **state)
{
	_cleanup_place_ struct place *place = cluster_by_hand(&place_best_fit, NULL);
	const struct place_preempt rules = {0};
	const uint32_t a = label(place, "ns", "a");
	_cleanup_(place_plan_done) struct place_plan plan = {0};
	struct place_spec low = spec_of(600, a), high = spec_of(300, a);

	cluster_add_node(place, "n", NULL, "0", "0");
	low.priority = 10;
	high.priority = 90;
	cluster_put(place, low, 0);
	assert_ok(place_preempt_find(place, &high, &rules, &plan, NULL));
	assert_int_equal(plan.n_victims, 0);
	assert_int_equal(plan.choice.n_conflicts, 1);
}

/* The preemptor goes to the device with the fewest conflicts after the victims are removed. */
static void victims_count_as_no_conflict(void **state)
{
	_cleanup_place_ struct place *place = cluster_by_hand(&place_best_fit, NULL);
	const struct place_preempt rules = {0};
	const uint32_t a = label(place, "ns", "a");
	_cleanup_(place_plan_done) struct place_plan plan = {0};
	struct place_spec low = spec_of(600, a), high = spec_of(600, a);

	cluster_add_node(place, "n", NULL, "0", "0");
	low.priority = 10;
	high.priority = 90;
	cluster_put(place, low, 0);
	assert_ok(place_preempt_find(place, &high, &rules, &plan, NULL));
	assert_int_equal(plan.n_victims, 1);
	assert_int_equal(plan.choice.n_conflicts, 0);
}

/* Members prefer the node of an earlier member only if that adds no conflicts. */
static void gang_members_keep_apart(void **state)
{
	_cleanup_place_ struct place *place = cluster_by_hand(&place_first_fit, NULL);
	const uint32_t a = label(place, "ns", "a");
	struct place_spec members[4] = {
		spec_of(200, a), spec_of(200, a), spec_of(200, a), spec_of(200, a)};
	const struct place_gang gang = {.members = members, .n = 4, .threshold = 1000};
	_cleanup_(place_group_done) struct place_group group = {0};
	uint32_t n[3] = {0};

	for (uint32_t i = 0; i < 3; i++)
		cluster_add_node(place, (const char *[]){"n", "m", "o"}[i], NULL, "0", "0");
	assert_ok(place_gang_add(place, &gang, &group, NULL));
	for (uint32_t i = 0; i < 4; i++)
		n[group.members[i].choice.device[0]]++;
	/* The fourth member has one conflict on each node, so the first node is taken. */
	assert_int_equal(n[0], 2);
	assert_int_equal(n[1], 1);
	assert_int_equal(n[2], 1);
}

static void defragmentation_adds_no_conflicts(void **state)
{
	_cleanup_place_ struct place *place = cluster_by_hand(&place_first_fit, NULL);
	const uint32_t a = label(place, "ns", "a");
	_cleanup_(place_defrag_done) struct place_defrag plan = {0}, other = {0};
	struct place_spec spec = spec_of(200, a);
	struct place_move move;
	struct error err = {0};
	uint32_t tenant, there;

	cluster_add_node(place, "n", NULL, "000", "000");
	spec.is_movable = true;
	tenant = cluster_put(place, spec, 0);
	there = cluster_put(place, spec_of(700, a), 1); /* the device with the least free share */
	cluster_put(place, spec_of(300, 0), 2);
	assert_ok(place_defrag_find(place, 10, NULL, &plan, NULL));
	assert_int_equal(plan.n_moves, 1);
	assert_int_equal(plan.moves[0].to.device[0], 2);
	move = plan.moves[0];
	move.to.device[0] = 1;
	assert_int_equal(place_defrag_move(place, &move, &tenant, &err), -ENOSPC);
	assert_contains(err.msg, "more preference conflicts");
	/* With no conflicting tenant on device 1, the tenant moves to that device. */
	assert_ok(place_remove(place, there));
	cluster_put(place, spec_of(700, 0), 1);
	assert_ok(place_defrag_find(place, 10, NULL, &other, NULL));
	assert_int_equal(other.moves[0].to.device[0], 1);
	assert_ok(place_defrag_move(place, &other.moves[0], &tenant, NULL));
}

static void add_network(struct place *place, uint32_t node, enum place_network_kind kind)
{
	uint32_t network;

	assert_ok(place_network_add(place,
		&(struct place_network_info){
			.node = node, .kind = kind, .mbit = 1000, .latency_us = 5},
		&network, NULL));
}

/*
 * Only the device half can conflict, not the client half. A worse network is chosen to avoid a
 * conflict.
 */
static void client_and_device_halves_keep_apart(void **state)
{
	_cleanup_place_ struct place *place = cluster_by_hand(&place_best_fit, NULL);
	const uint32_t a = label(place, "ns", "a");
	struct place_mode_params params = {.spec = spec_of(300, a), .mode = SPEC_MODE_REMOTE};
	struct place_decision d;
	uint32_t tenants[2];

	cluster_add_node(place, "near", "r", "0", "0");
	cluster_add_node(place, "far", NULL, "0", "0");
	cluster_add_node(place, "client", "r", "", "");
	for (uint32_t node = 0; node < 3; node++) {
		if (node != 2)
			place->nodes[node].cpu_all = 0;
		place_node_count(place, node);
		place_bounds_changed(place->bounds, node);
		if (node != 1)
			add_network(place, node, PLACE_NETWORK_DIRECT);
		add_network(place, node, PLACE_NETWORK_OVERLAY);
	}
	params.spec.cpu_milli = 1000;
	assert_ok(place_mode_choose(place, &params, &d, NULL));
	assert_int_equal(d.choice.node, 0);
	assert_int_equal(d.kind, PLACE_NETWORK_DIRECT);
	assert_ok(place_mode_add(place, &d, tenants, NULL));
	assert_int_equal(place_tenant(place, tenants[1])->spec.preferred_anti_affinity, 0);
	assert_ok(place_mode_choose(place, &params, &d, NULL));
	assert_int_equal(d.choice.node, 1);
	assert_int_equal(d.kind, PLACE_NETWORK_OVERLAY);
	assert_int_equal(d.choice.n_conflicts, 0);
	assert_ok(place_mode_add(place, &d, tenants, NULL));
	/* Both devices have one conflict now, so the better network decides. */
	assert_ok(place_mode_choose(place, &params, &d, NULL));
	assert_int_equal(d.choice.node, 0);
	assert_int_equal(d.choice.n_conflicts, 1);
	assert_contains(d.why, "would keep apart");
}

struct allowed {
	uint64_t devices[2];
};

static uint64_t ask(void *arg, const struct place_spec *spec, uint32_t node, const uint32_t *gone,
	uint32_t n_gone)
{
	return ((struct allowed *)arg)->devices[node];
}

/*
 * If the caller's filter permits only devices with more conflicts on one node, the tenant goes to
 * another node.
 */
static void a_filter_limits_the_preference(void **state)
{
	_cleanup_place_ struct place *place = cluster_by_hand(&place_best_fit, NULL);
	const uint32_t a = label(place, "ns", "a");
	struct allowed allowed = {{UINT64_MAX, UINT64_MAX}};
	struct place_choice choice;

	cluster_add_node(place, "n", NULL, "00", "00");
	cluster_add_node(place, "m", NULL, "00", "00");
	cluster_put(place, spec_of(100, a), 0);
	cluster_put(place, spec_of(100, a), 0);
	cluster_put(place, spec_of(100, a), 2);
	cluster_put(place, spec_of(100, a), 3);
	place_set_filter(place, ask, &allowed);
	assert_int_equal(find(place, spec_of(100, a)).device[0], 1);
	allowed.devices[0] = 1;
	choice = find(place, spec_of(100, a));
	assert_int_equal(choice.node, 1);
	assert_int_equal(choice.n_conflicts, 1);
	allowed.devices[1] = 0;
	choice = find(place, spec_of(100, a));
	assert_int_equal(choice.device[0], 0);
	assert_int_equal(choice.n_conflicts, 2);
}

/* A label counts as long as a placed tenant has it, also after a rollback. */
static void removed_tenants_are_no_conflict(void **state)
{
	_cleanup_place_ struct place *place = cluster_by_hand(&place_best_fit, NULL);
	const uint32_t a = label(place, "ns", "a");
	const struct place_spec spec = spec_of(300, a);
	uint32_t tenant, mark;

	cluster_add_node(place, "n", NULL, "00", "00");
	assert_false(place_has_conflicts(place, &spec));
	tenant = cluster_put(place, spec, 0);
	assert_true(place_has_conflicts(place, &spec));
	assert_int_equal(place_label_forget(place, a, NULL), -EBUSY);
	mark = place_savepoint(place);
	assert_ok(place_remove(place, tenant));
	assert_false(place_has_conflicts(place, &spec));
	place_rollback(place, mark);
	place_release(place);
	assert_int_equal(place_count_conflicts(place, &spec, 0), 1);
	assert_ok(place_mark_terminating(place, tenant, NULL));
	assert_false(place_has_conflicts(place, &spec));
	assert_ok(place_remove(place, tenant));
	assert_ok(place_label_forget(place, a, NULL));
}

UNIT_MAIN(UNIT(devices_with_fewer_conflicts_come_first),
	UNIT(preferred_anti_affinity_never_makes_a_tenant_wait),
	UNIT(a_label_may_be_preferred_and_required), UNIT(required_rules_come_before_preferences),
	UNIT(several_devices_have_the_fewest_conflicts), UNIT(a_preference_evicts_no_tenant),
	UNIT(victims_count_as_no_conflict), UNIT(gang_members_keep_apart),
	UNIT(defragmentation_adds_no_conflicts), UNIT(client_and_device_halves_keep_apart),
	UNIT(a_filter_limits_the_preference), UNIT(removed_tenants_are_no_conflict))
