/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gangs: placed completely or not at all, up to a threshold, near each other, with victims; and
 * invalid gangs.
 */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "cluster.h"
#include "place/place-gang.h"
#include "place/place-internal.h"

#define MOST 40u

static const struct place_policy *const policies[] = {
	&place_first_fit, &place_best_fit, &place_fgd, &place_scarcity};

/* Counts the members that fit if each goes to the first node that has capacity. */
static uint32_t fit_alone(struct place *place, const struct place_spec *members, uint32_t n)
{
	uint32_t mark = place_savepoint(place), placed = 0, tenant;

	for (uint32_t i = 0; i < n; i++)
		for (uint32_t node = 0; node < place->n_nodes; node++) {
			struct place_spec pinned = members[i];
			struct place_choice choice;

			pinned.node = node;
			if (place_find(place, &pinned, &choice, NULL) < 0)
				continue;
			assert_ok(place_add(place, &members[i], &choice, &tenant, NULL));
			placed++;
			break;
		}
	place_rollback(place, mark);
	place_release(place);
	return placed;
}

static void check_group(
	const struct place *place, const struct place_gang *gang, const struct place_group *group)
{
	uint32_t n = 0;

	assert_int_equal(group->n, gang->n);
	for (uint32_t i = 0; i < group->n; i++) {
		const struct place_member *m = &group->members[i];
		const struct place_tenant *t;

		if (m->tenant == PLACE_NONE)
			continue;
		t = place_tenant(place, m->tenant);
		assert_non_null(t);
		assert_int_equal(t->node, m->choice.node);
		assert_int_equal(t->spec.share, gang->members[i].share);
		n++;
	}
	assert_int_equal(n, group->n_placed);
	assert_true(n >= place_gang_least(gang->n, gang->threshold));
}

static void a_gang_is_placed_as_a_whole_or_not_at_all(void **state)
{
	uint32_t n_placed = 0, n_refused = 0;

	for (uint64_t seed = 0; seed < 1500; seed++) {
		struct rand rand = rand_seeded(seed);
		_cleanup_place_ struct place *place = cluster_new(
			&rand, policies[seed % 4], 1 + (uint32_t)rand_below(&rand, 8), 4);
		struct place_spec members[MOST];
		struct place_gang gang = {.members = members,
			.n = 1 + (uint32_t)rand_below(&rand, MOST),
			.threshold = 1 + (uint32_t)rand_below(&rand, 1000),
			.near = (enum place_near)rand_below(&rand, 3)};
		_cleanup_(place_group_done) struct place_group group = {0};
		bool is_simple;
		uint64_t digest;
		uint32_t most;
		int r;

		cluster_fill(&rand, place, (uint32_t)rand_below(&rand, 20));
		members[0] = cluster_spec(&rand, place);
		for (uint32_t i = 1; i < gang.n; i++)
			members[i] = members[0];
		digest = cluster_digest(place);
		most = fit_alone(place, members, gang.n);
		assert_int_equal(cluster_digest(place), digest);
		r = place_gang_add(place, &gang, &group, NULL);
		cluster_check(place);
		/*
		 * With labels or several devices per member, the choice for one member decides
		 * whether the next fits.
		 */
		is_simple = members[0].count <= 1 && !members[0].affinity && !members[0].exclusion;
		if (r == 0) {
			check_group(place, &gang, &group);
			if (is_simple)
				assert_int_equal(group.n_placed, most);
			assert_int_equal(group.n_victims, 0);
			n_placed++;
		} else {
			assert_int_equal(r, -ENOSPC);
			assert_int_equal(cluster_digest(place), digest);
			if (is_simple)
				assert_true(most < place_gang_least(gang.n, gang.threshold));
			n_refused++;
		}
	}
	assert_true(n_placed > 200 && n_refused > 200);
}

/*
 * Whether the victim could be placed as before, and after it all members where they are, in order.
 */
static bool could_have_stayed(
	struct place *place, const struct place_tenant *was, const struct place_group *group)
{
	struct place_choice choice = {.node = was->node, .n = was->n};
	struct place_spec members[MOST];
	const uint32_t mark = place_savepoint(place);
	uint32_t tenant;
	int r;

	for (uint32_t i = 0; i < group->n; i++)
		if (group->members[i].tenant != PLACE_NONE) {
			members[i] = place_tenant(place, group->members[i].tenant)->spec;
			assert_ok(place_remove(place, group->members[i].tenant));
		}
	memcpy(choice.device, was->device, sizeof(choice.device));
	r = place_add(place, &was->spec, &choice, &tenant, NULL);
	for (uint32_t i = 0; i < group->n && r == 0; i++)
		if (group->members[i].tenant != PLACE_NONE)
			r = place_add(place, &members[i], &group->members[i].choice, &tenant, NULL);
	place_rollback(place, mark);
	place_release(place);
	return r == 0;
}

static void every_victim_is_necessary(void **state)
{
	uint32_t n_with_victims = 0;

	for (uint64_t seed = 0; seed < 800; seed++) {
		struct rand rand = rand_seeded(seed);
		_cleanup_place_ struct place *place = cluster_new(
			&rand, policies[seed % 4], 1 + (uint32_t)rand_below(&rand, 5), 3);
		const struct place_preempt rules = {0};
		struct place_spec members[MOST];
		struct place_gang gang = {.members = members,
			.n = 1 + (uint32_t)rand_below(&rand, 8),
			.threshold = 1000,
			.preempt = &rules};
		_cleanup_(place_group_done) struct place_group group = {0};
		struct place_tenant *before;
		uint64_t digest;
		int r;

		cluster_fill(&rand, place, 30);
		members[0] = cluster_spec(&rand, place);
		members[0].priority = 50;
		for (uint32_t i = 1; i < gang.n; i++)
			members[i] = members[0];
		before = malloc((place->n_tenants + 1) * sizeof(*before));
		memcpy(before, place->tenants, place->n_tenants * sizeof(*before));
		digest = cluster_digest(place);
		r = place_gang_add(place, &gang, &group, NULL);
		if (r < 0) {
			assert_int_equal(r, -ENOSPC);
			assert_int_equal(cluster_digest(place), digest);
			free(before);
			continue;
		}
		check_group(place, &gang, &group);
		cluster_check(place);
		n_with_victims += group.n_victims != 0;
		for (uint32_t v = 0; v < group.n_victims; v++) {
			const struct place_tenant *was = &before[group.victims[v]];

			assert_true(was->spec.priority < 50);
			assert_false(could_have_stayed(place, was, &group));
		}
		free(before);
	}
	assert_true(n_with_victims > 100);
}

static void add_node(struct place *place, const char *name, const char *rack, uint32_t n)
{
	struct place_device_info devices[8] = {0};
	const struct place_node_info info = {
		.name = name, .rack = rack, .n_devices = n, .devices = devices};
	uint32_t node;

	assert_ok(place_node_add(place, &info, &node, NULL));
}

static struct place *racks_new(void)
{
	const struct place_config config = {.policy = &place_worst_fit};
	struct place *place = NULL;
	uint64_t bit;

	assert_ok(place_new(&config, &place, NULL));
	assert_ok(place_model(place, "A", &bit, NULL));
	add_node(place, "a0", "a", 4);
	add_node(place, "b0", "b", 3);
	add_node(place, "c0", "c", 8);
	add_node(place, "a1", "a", 4);
	add_node(place, "b1", "b", 3);
	add_node(place, "d0", "", 8);
	return place;
}

static const struct {
	uint32_t n;
	enum place_near near;
	const char *nodes[4]; /* the members' nodes in order, each node once */
} nears[] = {
	{3, PLACE_NEAR_NODE, {"b0"}},
	{4, PLACE_NEAR_NODE, {"a0"}},
	{6, PLACE_NEAR_NODE, {"c0"}},
	{12, PLACE_NEAR_NODE, {"c0", "a0"}},
	{6, PLACE_NEAR_RACK, {"b0", "b1"}},
	{7, PLACE_NEAR_RACK, {"a0", "a1"}},
	{14, PLACE_NEAR_RACK, {"a0", "a1", "b0", "b1"}},
	{11, PLACE_NEAR_RACK, {"a0", "a1", "b0"}},
};

static void add_tenant(struct place *place, uint32_t share, uint32_t priority, uint32_t affinity)
{
	const struct place_choice choice = {.n = 1};
	struct place_spec spec = PLACE_SPEC_INIT;
	uint32_t tenant;

	spec.share = share;
	spec.priority = priority;
	spec.affinity = affinity;
	assert_ok(place_add(place, &spec, &choice, &tenant, NULL));
}

/* A node with one device, and a label that no tenant has yet. */
static struct place *one_device(const struct place_policy *policy, uint32_t *ret_label)
{
	const struct place_config config = {.policy = policy};
	struct place *place = NULL;
	uint64_t bit;

	assert_ok(place_new(&config, &place, NULL));
	assert_ok(place_model(place, "A", &bit, NULL));
	assert_ok(place_label(place, "", "x", ret_label, NULL));
	add_node(place, "n", "", 1);
	return place;
}

/*
 * The first member goes to the device that has its affinity label. The device keeps that label when
 * its earlier tenant is removed.
 */
static void a_member_can_use_a_place_freed_for_another(void **state)
{
	const struct place_preempt rules = {0};
	uint32_t label;
	struct place *place = one_device(&place_first_fit, &label);
	struct place_spec members[2] = {PLACE_SPEC_INIT, PLACE_SPEC_INIT};
	struct place_gang gang = {.members = members, .n = 2, .threshold = 1000, .preempt = &rules};
	_cleanup_(place_group_done) struct place_group group = {0};
	struct error err = {0};
	uint64_t digest;

	add_tenant(place, 300, 10, label);
	add_tenant(place, 300, 90, 0);
	members[0].share = members[1].share = 300;
	members[0].affinity = label;
	digest = cluster_digest(place);
	members[1].node = 7;
	assert_int_equal(place_gang_add(place, &gang, &group, &err), -EINVAL);
	assert_string_equal(err.msg, "member 1: there is no node 7");
	assert_int_equal(cluster_digest(place), digest);
	members[1].node = PLACE_NONE;
	assert_ok(place_gang_add(place, &gang, &group, &err));
	assert_int_equal(group.n_placed, 2);
	assert_int_equal(group.n_victims, 1);
	assert_int_equal(group.victims[0], 0);
	place_free(place);
}

/*
 * All three tenants would fit on the device by share. But the first tenant with an affinity label
 * needs an idle device, so the victim is not put back after the gang is placed.
 */
static void a_victim_of_a_label_stays_evicted(void **state)
{
	const struct place_preempt rules = {0};
	uint32_t label;
	struct place *place = one_device(&place_best_fit, &label);
	struct place_spec members[2] = {PLACE_SPEC_INIT, PLACE_SPEC_INIT};
	struct place_gang gang = {.members = members, .n = 2, .threshold = 1000, .preempt = &rules};
	_cleanup_(place_group_done) struct place_group group = {0};
	struct error err = {0};

	add_tenant(place, 300, 10, 0);
	members[0].share = members[1].share = 300;
	members[0].affinity = members[1].affinity = label;
	assert_ok(place_gang_add(place, &gang, &group, &err));
	assert_int_equal(group.n_placed, 2);
	assert_int_equal(group.n_victims, 1);
	place_free(place);
}

/*
 * Gangs with different members and with victims. A victim that turns out to be unnecessary keeps
 * its tenant number.
 */
static void random_gangs_keep_all_rules(void **state)
{
	uint32_t n_placed = 0;

	for (uint64_t seed = 0; seed < 2400; seed++) {
		struct rand rand = rand_seeded(seed);
		_cleanup_place_ struct place *place = cluster_new(
			&rand, policies[seed % 4], 1 + (uint32_t)rand_below(&rand, 4), 3);
		const struct place_preempt rules = {0};
		struct place_spec members[8];
		struct place_gang gang = {.members = members,
			.n = 1 + (uint32_t)rand_below(&rand, 8),
			.threshold = 1 + (uint32_t)rand_below(&rand, 1000),
			.near = (enum place_near)rand_below(&rand, 3),
			.preempt = &rules};
		_cleanup_(place_group_done) struct place_group group = {0};
		uint32_t mark, v = 0, before[64], n_before = 0;
		uint64_t digest;
		int r;

		cluster_fill(&rand, place, 30);
		for (uint32_t i = 0; i < gang.n; i++) {
			members[i] = cluster_spec(&rand, place);
			members[i].priority = 45;
		}
		for (uint32_t i = 0; i < place->n_tenants; i++)
			before[n_before++] = place->tenants[i].spec.share;
		digest = cluster_digest(place);
		mark = place_savepoint(place);
		r = place_gang_add(place, &gang, &group, NULL);
		assert_true(r == 0 || r == -ENOSPC);
		cluster_check(place);
		if (r == 0) {
			check_group(place, &gang, &group);
			for (uint32_t i = 0; i < n_before; i++) {
				bool is_gone = v < group.n_victims && group.victims[v] == i;

				v += is_gone;
				assert_int_equal(!place_tenant(place, i), is_gone);
				assert_true(
					is_gone || place_tenant(place, i)->spec.share == before[i]);
			}
			n_placed++;
		}
		place_rollback(place, mark);
		place_release(place);
		assert_int_equal(cluster_digest(place), digest);
		/* No tenant number is used twice, even if its tenant was removed several times. */
		cluster_fill(&rand, place, 30);
		cluster_check(place);
	}
	assert_true(n_placed > 500);
}

static void members_are_placed_near_each_other(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(nears); i++) {
		_cleanup_place_ struct place *place = racks_new();
		_cleanup_(place_group_done) struct place_group group = {0};
		struct place_spec members[MOST];
		struct place_gang gang = {.members = members,
			.n = nears[i].n,
			.threshold = 1000,
			.near = nears[i].near};
		uint32_t used = 0, last = PLACE_NONE;

		for (uint32_t k = 0; k < gang.n; k++) {
			members[k] = PLACE_SPEC_INIT;
			members[k].share = 1000;
			members[k].is_exclusive = true;
		}
		assert_ok(place_gang_add(place, &gang, &group, NULL));
		for (uint32_t k = 0; k < gang.n; k++) {
			if (group.members[k].choice.node == last)
				continue;
			last = group.members[k].choice.node;
			assert_true(used < 4 && nears[i].nodes[used]);
			assert_string_equal(place->nodes[last].name->text, nears[i].nodes[used]);
			used++;
		}
		assert_true(used == 4 || !nears[i].nodes[used]);
	}
}

static void impossible_gangs_are_refused(void **state)
{
	_cleanup_place_ struct place *place = racks_new();
	struct place_spec members[2] = {PLACE_SPEC_INIT, PLACE_SPEC_INIT};
	struct place_gang gang = {.members = members, .n = 2, .threshold = 1000};
	_cleanup_(place_group_done) struct place_group group = {0};
	struct error err = {0};
	uint64_t digest = cluster_digest(place);

	members[0].share = members[1].share = 500;
	gang.n = 0;
	assert_int_equal(place_gang_add(place, &gang, &group, &err), -EINVAL);
	assert_contains(err.msg, "a gang of 0");
	gang.n = PLACE_GANG_MAX + 1;
	assert_int_equal(place_gang_add(place, &gang, &group, &err), -EINVAL);
	assert_contains(err.msg, "65537");
	gang.n = 2;
	gang.threshold = 1001;
	assert_int_equal(place_gang_add(place, &gang, &group, &err), -EINVAL);
	assert_contains(err.msg, "threshold 1001");
	gang.threshold = 1000;
	members[1].priority = 51;
	assert_int_equal(place_gang_add(place, &gang, &group, &err), -EINVAL);
	assert_contains(err.msg, "member 1: priority 51");
	members[1].priority = 50;
	members[1].share = 1001;
	assert_int_equal(place_gang_add(place, &gang, &group, &err), -EINVAL);
	assert_contains(err.msg, "member 1: share 1001");
	members[1].share = 500;
	members[1].count = 9;
	assert_int_equal(place_gang_add(place, &gang, &group, &err), -ENOSPC);
	assert_contains(err.msg, "1 of 2 members fit; at least 2 must fit");
	assert_int_equal(cluster_digest(place), digest);
	assert_null(group.members);
	gang.threshold = 250; /* floor(0.25 x 2 + 0.5) */
	assert_ok(place_gang_add(place, &gang, &group, &err));
	assert_int_equal(group.n_placed, 1);
}

static void a_gang_starts_at_its_threshold(void **state)
{
	assert_int_equal(place_gang_least(5, 500), 3);
	assert_int_equal(place_gang_least(4, 500), 2);
	assert_int_equal(place_gang_least(5, 1), 1);
	assert_int_equal(place_gang_least(10, 249), 2);
	assert_int_equal(place_gang_least(10, 250), 3);
	assert_int_equal(place_gang_least(65536, 1000), 65536);
}

UNIT_MAIN(UNIT(a_gang_is_placed_as_a_whole_or_not_at_all), UNIT(every_victim_is_necessary),
	UNIT(a_member_can_use_a_place_freed_for_another), UNIT(a_victim_of_a_label_stays_evicted),
	UNIT(random_gangs_keep_all_rules), UNIT(members_are_placed_near_each_other),
	UNIT(impossible_gangs_are_refused), UNIT(a_gang_starts_at_its_threshold))
