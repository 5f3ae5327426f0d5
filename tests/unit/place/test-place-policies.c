/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The choice of each policy, by the rules of the system that it comes from. The search looks at few
 * nodes; it must choose the same as a search of all nodes, whatever happened before.
 */
#include "unit.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/rand.h"
#include "cluster.h"
#include "place/place-conflicts.h"
#include "place/place-cell.h"
#include "place/place-internal.h"
#include "place/place-policy.h"
#include "place/place-preempt.h"
#include "replay/cell-file.h"

static struct place *place_of(const struct place_policy *policy)
{
	return cluster_by_hand(policy, NULL);
}

/* Adds a node with one device for each digit of `numa` and `link`. */
static uint32_t add_node(struct place *place, const char *name, const char *numa, const char *link)
{
	return cluster_add_node(place, name, NULL, numa, link);
}

static struct place_spec spec_of(uint32_t share)
{
	struct place_spec spec = PLACE_SPEC_INIT;

	spec.share = share;
	return spec;
}

static uint32_t label(struct place *place, const char *name)
{
	uint32_t id;

	assert_ok(place_label(place, "ns", name, &id, NULL));
	return id;
}

static uint32_t node_for(struct place *place, struct place_spec spec)
{
	struct place_choice choice;

	assert_ok(place_find(place, &spec, &choice, NULL));
	return choice.node;
}

/* ---- KubeShare 1.0 ---- */

static void kubeshare_fits_best(void **state)
{
	_cleanup_place_ struct place *place = place_of(&place_kubeshare);
	struct place_spec red = spec_of(300);

	add_node(place, "a", "00", "00");
	add_node(place, "b", "00", "00");
	/* No device is in use, so the first is taken. */
	assert_int_equal(cluster_device_for(place, spec_of(500)), 0);
	cluster_put(place, spec_of(300), 0);
	cluster_put(place, spec_of(500), 2);
	assert_int_equal(cluster_device_for(place, spec_of(400)), 2);
	assert_int_equal(cluster_device_for(place, spec_of(600)), 0);
	assert_int_equal(cluster_device_for(place, spec_of(800)), 1);

	/*
	 * A device with an affinity label comes after all other used devices. Among devices with
	 * labels, the one with the most free share is taken.
	 */
	red.affinity = label(place, "red");
	cluster_put(place, red, 1);
	assert_int_equal(cluster_device_for(place, spec_of(600)), 0);
	assert_int_equal(cluster_device_for(place, spec_of(701)), 3);
	cluster_put(place, spec_of(600), 0);
	cluster_put(place, spec_of(400), 2);
	red.affinity = label(place, "blue");
	red.share = 100;
	cluster_put(place, red, 3);
	assert_int_equal(cluster_device_for(place, spec_of(200)), 3);
}

static void kubeshare_keeps_labels_together(void **state)
{
	_cleanup_place_ struct place *place = place_of(&place_kubeshare);
	struct place_spec red = spec_of(600);

	add_node(place, "a", "00", "00");
	cluster_put(place, spec_of(100), 0);
	red.affinity = label(place, "red");
	assert_int_equal(cluster_device_for(place, red), 1);
	cluster_put(place, red, 1);
	/* A second tenant of the label does not fit on the label's device, so it fits nowhere. */
	assert_int_equal(cluster_device_for(place, red), PLACE_NONE);
	red.share = 400;
	assert_int_equal(cluster_device_for(place, red), 1);
}

static void kubeshare_code_compares_free_capacity(void **state)
{
	_cleanup_place_ struct place *place = place_of(&place_kubeshare_code);
	struct place_spec red = spec_of(500);

	add_node(place, "a", "00", "00");
	add_node(place, "b", "00", "00");
	cluster_put(place, spec_of(300), 0);
	red.affinity = label(place, "red");
	cluster_put(place, red, 2);
	/* KubeShare's published code ignores affinity labels when it chooses among devices. */
	assert_int_equal(cluster_device_for(place, spec_of(400)), 2);
	assert_int_equal(cluster_device_for(place, spec_of(600)), 0);
	assert_int_equal(cluster_device_for(place, spec_of(800)), 1);
}

/* ---- KubeShare 2.0 ---- */

static const char priorities[] = "cellTypes:\n"
				 "  SLOW: {childCellType: V100, childCellNumber: 2,\n"
				 "    childCellPriority: 10, isNodeLevel: true}\n"
				 "  FAST: {childCellType: H100, childCellNumber: 2,\n"
				 "    childCellPriority: 100, isNodeLevel: true}\n"
				 "cells:\n"
				 "- {cellType: SLOW, cellId: a}\n"
				 "- {cellType: FAST, cellId: b}\n";

static void kubeshare2_packs_and_spreads(void **state)
{
	_cleanup_place_ struct place *place = place_of(&place_kubeshare2);
	struct place_spec spec = spec_of(200);
	struct place_choice choice;

	add_node(place, "a", "00", "00");
	add_node(place, "b", "00", "00");
	cluster_put(place, spec_of(500), 3);
	spec.priority = 0;
	assert_ok(place_find(place, &spec, &choice, NULL));
	assert_int_equal(choice.device[0], 3);
	/* for node b, by the formula in place-kubeshare2.c: ([0 + 0] + [0 + 50] - 100 / 2) / 2 */
	assert_int_equal(choice.score, 0);
	spec.priority = 1;
	assert_ok(place_find(place, &spec, &choice, NULL));
	assert_int_equal(choice.device[0], 0);
	assert_int_equal(choice.score, 0);
	cluster_put(place, spec_of(200), 0);
	cluster_put(place, spec_of(400), 1);
	/*
	 * Node a has the score -(20 + 40) / 2, b has -(0 + 50) / 2. On b the emptier device is
	 * taken.
	 */
	assert_ok(place_find(place, &spec, &choice, NULL));
	assert_int_equal(choice.device[0], 2);
	assert_int_equal(choice.score, -25000);
}

static void kubeshare2_prefers_a_model(void **state)
{
	_cleanup_cells_ struct place_cells *cells = NULL;
	struct place_config config = {.policy = &place_kubeshare2_guarantee};
	struct place_device_info devices[2] = {{.memory_bytes = GIB}, {.memory_bytes = GIB}};
	struct place_node_info info = {.n_devices = 2, .devices = devices};
	_cleanup_place_ struct place *place = NULL;
	uint64_t bit;
	uint32_t node;

	assert_ok(place_cells_parse(str_from(priorities), &cells, NULL));
	config.cells = cells;
	assert_ok(place_new(&config, &place, NULL));
	assert_ok(place_model(place, "V100", &bit, NULL));
	assert_ok(place_model(place, "H100", &bit, NULL));
	info.name = "a";
	assert_ok(place_node_add(place, &info, &node, NULL));
	info.name = "b";
	devices[0].model = devices[1].model = 1;
	assert_ok(place_node_add(place, &info, &node, NULL));
	assert_int_equal(cluster_device_for(place, spec_of(500)), 2);
	/* When b is nearly full, its score 100 - (100 + 90) / 2 is below a's, which is 10. */
	cluster_put(place, spec_of(1000), 2);
	cluster_put(place, spec_of(900), 3);
	assert_int_equal(cluster_device_for(place, spec_of(100)), 0);
}

static void kubeshare2_stays_near_its_gang(void **state)
{
	_cleanup_place_ struct place *place = place_of(&place_kubeshare2_guarantee);
	struct place_spec spec = spec_of(100);
	uint32_t tenant;

	add_node(place, "a", "0000", "0000");
	add_node(place, "b", "0000", "0000");
	spec.group = 7;
	tenant = cluster_put(place, spec, 6);
	assert_int_equal(place_group(place, 7)->n, 1);
	/*
	 * Node b has a member of the gang and is nearer. Of b's devices, that member's device comes
	 * first: its used share costs 10, and the distance of the next device would cost 100.
	 */
	assert_int_equal(cluster_device_for(place, spec), 6);
	spec.share = 1000;
	assert_int_equal(cluster_device_for(place, spec), 5);
	assert_ok(place_remove(place, tenant));
	assert_null(place_group(place, 7));
	assert_int_equal(cluster_device_for(place, spec), 0);
}

/* The mean distance to all members counts, not that to the last member. */
static void kubeshare2_stays_near_most_of_its_gang(void **state)
{
	_cleanup_place_ struct place *place = place_of(&place_kubeshare2_guarantee);
	struct place_spec spec = spec_of(100);

	add_node(place, "a", "00", "00");
	add_node(place, "b", "00", "00");
	spec.group = 7;
	cluster_put(place, spec, 0);
	cluster_put(place, spec, 1);
	cluster_put(place, spec, 2);
	assert_int_equal(node_for(place, spec), 0);
}

/* Two racks of two nodes. id_1 and id_2 are cellIds, or "" for KubeShare's numbers 1 and 2. */
#define RACKS(id_1, id_2) \
	"cellTypes:\n" \
	"  NODE: {childCellType: V100, childCellNumber: 2, isNodeLevel: true}\n" \
	"  RACK: {childCellType: NODE, childCellNumber: 2}\n" \
	"cells:\n" \
	"- {cellType: RACK, " id_1 "cellChildren: [{cellId: a}, {cellId: b}]}\n" \
	"- {cellType: RACK, " id_2 "cellChildren: [{cellId: c}, {cellId: d}]}\n"

/* The choice for the third member of a group whose first two members fill node a. */
static struct place_choice beside_a(const char *racks)
{
	_cleanup_cells_ struct place_cells *cells = NULL;
	_cleanup_place_ struct place *place = NULL;
	struct place_spec spec = spec_of(1000);
	struct place_choice choice;

	assert_ok(place_cells_parse(str_from(racks), &cells, NULL));
	place = cluster_by_hand(&place_kubeshare2_guarantee, cells);
	for (uint32_t i = 0; i < 4; i++)
		add_node(place, (const char[]){(char)('a' + i), '\0'}, "00", "00");
	spec.group = 7;
	cluster_put(place, spec, 0);
	cluster_put(place, spec, 1);
	assert_ok(place_find(place, &spec, &choice, NULL));
	return choice;
}

/*
 * The group has leaves 1 and 2 of the first rack, node b has leaves 3 and 4. Nodes c and d have
 * leaves 1 to 4 of the second rack. The numbers of the two racks differ by 1, two names count 100.
 * Mean distances to the group:
 *
 *            to b, by leaf     to c             to d
 *   numbers  101.5, 102.5      101.5, 101.5     102.5, 103.5
 *   names    101.5, 102.5      200.5, 200.5     201.5, 202.5
 */
static void kubeshare2_tells_racks_apart_by_name(void **state)
{
	struct place_choice choice = beside_a(RACKS("", ""));

	assert_int_equal(choice.node, 2);
	assert_int_equal(choice.score, -10150000);
	choice = beside_a(RACKS("cellId: r1, ", "cellId: r2, "));
	assert_int_equal(choice.node, 1);
	assert_int_equal(choice.device[0], 2);
	assert_int_equal(choice.score, -10200000);
}

static void kubeshare2_keeps_scarce_devices_free(void **state)
{
	_cleanup_place_ struct place *place = place_of(&place_kubeshare2);
	struct place_spec none = PLACE_SPEC_INIT;

	none.count = 0;
	add_node(place, "a", "0", "0");
	add_node(place, "b", "", "");
	assert_int_equal(node_for(place, none), 1);
}

/* ---- dot product ---- */

/*
 * The score is the negative product in 1/800000: CPU as a part of 128 cores, devices as a part of
 * eight. The smaller product wins.
 */
static void dot_product_weighs_both(void **state)
{
	_cleanup_place_ struct place *place = place_of(&place_dot_product);
	struct place_spec spec = spec_of(500);
	struct place_choice choice;

	spec.count = 2;
	spec.cpu_milli = 16000;
	add_node(place, "a", "00", "00");
	assert_ok(place_find(place, &spec, &choice, NULL));
	/* CPU: 16/128 requested x 32/128 free. Devices: 1/8 requested x 2/8 free. */
	assert_int_equal(choice.score, -25000 - 25000);
	add_node(place, "b", "00", "00");
	cluster_put(place, spec_of(500), 2);
	assert_ok(place_find(place, &spec, &choice, NULL));
	assert_int_equal(choice.node, 1);
	assert_int_equal(choice.score, -25000 - 18750);
}

/* ---- FGD ---- */

/*
 * The grade of the place that is found for `count` devices of `share` on an empty node, if
 * `typical` is the only typical tenant.
 */
static int32_t fgd_grade_of(uint32_t share, uint32_t count, const struct place_spec *typical)
{
	_cleanup_place_ struct place *place = place_of(&place_fgd);
	struct place_spec spec = spec_of(share);
	struct place_choice choice;

	add_node(place, "a", "00000000", "00000000");
	place_set_workload_mix(place, typical, 1);
	spec.count = count;
	assert_ok(place_find(place, &spec, &choice, NULL));
	return place_fgd.grade(place, &spec, choice.score);
}

/* A grade is floor(100 sigmoid(x)), where x is the decrease of F in devices (place-fgd.c). */
static void fgd_grades_as_published(void **state)
{
	/*
	 * The typical tenant requests no device. So F is all free share, and falls by the requested
	 * share.
	 */
	static const struct {
		uint32_t share, count;
		int32_t grade;
	} cases[] = {
		{40, 1, 50},   /* 50.9998 */
		{41, 1, 51},   /* 51.02 */
		{80, 1, 51},   /* 51.9989 */
		{81, 1, 52},   /* 52.02 */
		{405, 1, 59},  /* 59.989 */
		{406, 1, 60},  /* 60.01 */
		{1000, 1, 73}, /* 73.1 */
		{1000, 2, 88}, /* 88.08 */
		{1000, 4, 98}, /* 98.2 */
		{1000, 8, 99}, /* 99.97 */
	};
	struct place_spec none = PLACE_SPEC_INIT, all = spec_of(1000);

	none.count = 0;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(
			fgd_grade_of(cases[i].share, cases[i].count, &none), cases[i].grade);
	/*
	 * A typical tenant of eight devices no longer fits, so the other seven devices are
	 * fragments now.
	 */
	all.count = 8;
	/* F rises by 7: 100 sigmoid(-7) is 0.09 */
	assert_int_equal(fgd_grade_of(1000, 1, &all), 0);
	all.count = 1;
	/* F rises by 0.7: 100 sigmoid(-0.7) is 33.2 */
	assert_int_equal(fgd_grade_of(300, 1, &all), 33);
	assert_int_equal(fgd_grade_of(1000, 1, &all), 50);
}

/* ---- gpushare ---- */

static void gpushare_fills_memory(void **state)
{
	_cleanup_place_ struct place *place = place_of(&place_gpushare);
	struct place_spec spec = spec_of(100), cpu = spec_of(100);

	add_node(place, "a", "000", "000");
	add_node(place, "b", "000", "000");
	spec.device_bytes = 4 * GIB;
	cluster_put(place, spec, 1);
	cluster_put(place, spec, 4);
	/* The device with the least free memory that suffices is taken. */
	assert_int_equal(cluster_device_for(place, spec), 1);
	spec.device_bytes = 13 * GIB;
	assert_int_equal(cluster_device_for(place, spec), 0);
	/* The node with more free CPU wins, whatever its devices. */
	cpu.cpu_milli = 8000;
	cpu.device_bytes = GIB;
	cluster_put(place, cpu, 0);
	spec.device_bytes = 4 * GIB;
	assert_int_equal(cluster_device_for(place, spec), 4);
}

/* Nodes are compared by the CPU and memory that are free after the tenant is placed. */
static void gpushare_counts_requests(void **state)
{
	_cleanup_place_ struct place *place = place_of(&place_gpushare);
	const struct place_device_info device = {.memory_bytes = GIB};
	struct place_node_info info = {.n_devices = 1, .devices = &device};
	struct place_spec spec = spec_of(100);
	uint32_t node;

	info.name = "small";
	info.cpu_milli = 10000;
	assert_ok(place_node_add(place, &info, &node, NULL));
	info.name = "large";
	info.cpu_milli = 100000;
	assert_ok(place_node_add(place, &info, &node, NULL));
	spec.cpu_milli = 5000;
	cluster_put(place, spec, 1);
	/*
	 * After the placement, 50 % of the small node's CPU is free, or 90 % of the large node's.
	 * Before, it is 100 % and 95 %.
	 */
	assert_int_equal(node_for(place, spec), 1);
}

/* ---- GaiaGPU ---- */

static void gaiagpu_takes_the_fullest_node(void **state)
{
	_cleanup_place_ struct place *place = place_of(&place_gaiagpu);

	add_node(place, "a", "00", "00");
	add_node(place, "b", "00", "00");
	cluster_put(place, spec_of(300), 0);
	cluster_put(place, spec_of(500), 3);
	assert_int_equal(cluster_device_for(place, spec_of(100)), 3);
	assert_int_equal(cluster_device_for(place, spec_of(600)), 2);
	cluster_put(place, spec_of(1000), 2);
	assert_int_equal(cluster_device_for(place, spec_of(600)), 0);
}

static void gaiagpu_counts_cores_before_memory(void **state)
{
	_cleanup_place_ struct place *place = place_of(&place_gaiagpu);
	struct place_spec much = spec_of(300), little = spec_of(500);

	much.device_bytes = 12 * GIB;
	little.device_bytes = GIB;
	add_node(place, "a", "0", "0");
	add_node(place, "b", "0", "0");
	cluster_put(place, much, 0);
	cluster_put(place, little, 1);
	assert_int_equal(cluster_device_for(place, spec_of(100)), 1);
}

static void gaiagpu_keeps_device_groups_whole(void **state)
{
	_cleanup_place_ struct place *place = place_of(&place_gaiagpu);
	struct place_spec two = spec_of(1000);
	struct place_choice choice;

	/* Two NUMA nodes, each with two links of two devices. */
	add_node(place, "a", "00001111", "00110011");
	cluster_put(place, spec_of(1000), 0);
	assert_int_equal(cluster_device_for(place, spec_of(1000)), 1);
	cluster_put(place, spec_of(1000), 4);
	cluster_put(place, spec_of(1000), 5);
	/*
	 * NUMA node 1 has two free devices, NUMA node 0 three. So a device of NUMA node 1 is taken.
	 */
	assert_int_equal(cluster_device_for(place, spec_of(1000)), 6);
	two.count = 2;
	assert_ok(place_find(place, &two, &choice, NULL));
	assert_int_equal(choice.device[0], 2);
	assert_int_equal(choice.device[1], 3);
	two.count = 3;
	assert_ok(place_find(place, &two, &choice, NULL));
	assert_int_equal(choice.device[0], 1);
	assert_int_equal(choice.device[1], 2);
	assert_int_equal(choice.device[2], 3);
}

/* ---- Wang ---- */

/*
 * Which classes may join a device. `there` has a digit for each present tenant: its class. Each
 * present tenant has a share of 0.3.
 */
static const struct {
	const char *there;
	bool takes[3];
} wang_rules[] = {
	{"", {true, true, true}},
	{"0", {false, false, true}},
	{"1", {false, true, true}},
	{"2", {true, true, true}},
	{"02", {false, false, false}},
	{"11", {false, true, true}},
	{"12", {false, true, true}},
	{"22", {true, true, false}},
	{"112", {false, true, false}},
};

static void wang_keeps_classes_apart(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(wang_rules); i++) {
		_cleanup_place_ struct place *place = place_of(&place_wang);
		struct place_spec spec = spec_of(300);

		add_node(place, "a", "0", "0");
		for (const char *c = wang_rules[i].there; *c; c++) {
			spec.class = (enum spec_class)(*c - '0');
			cluster_put(place, spec, 0);
		}
		for (int class = 0; class < 3; class ++) {
			spec = spec_of(100);
			spec.class = (enum spec_class) class;
			if ((cluster_device_for(place, spec) == 0) != wang_rules[i].takes[class])
				fail_msg("class %d beside %s", class, wang_rules[i].there);
		}
	}
}

/*
 * Tenants are preempted if their class excludes the new tenant. If none may be preempted, the
 * refusal names the policy's rules.
 */
static void wang_preempts_tenants_of_excluding_classes(void **state)
{
	_cleanup_place_ struct place *place = place_of(&place_wang);
	const struct place_preempt rules = {0};
	struct place_spec spec = spec_of(300);
	struct place_plan plan = {0};
	struct place_choice choice = {.n = 1};
	uint32_t t[3];
	struct place_why why;
	char text[PLACE_WHY];
	struct error err;

	add_node(place, "a", "00", "00");
	for (uint32_t i = 0; i < 3; i++) {
		spec.class = i == 2 ? SPEC_OPPORTUNISTIC : SPEC_LATENCY;
		spec.priority = i == 1 ? 20 : 10;
		choice.device[0] = i % 2;
		assert_ok(place_add(place, &spec, &choice, &t[i], NULL));
	}
	spec.class = SPEC_LATENCY;
	assert_int_equal(place_add(place, &spec, &choice, &t[2], NULL), -ENOSPC);
	assert_int_equal(place_find(place, &spec, &choice, NULL), -ENOSPC);
	place_explain(place, &spec, &why);
	assert_int_equal(why.nodes[PLACE_POLICY], 1);
	assert_contains(place_why_format(&why, &spec, text), "1 is excluded by the policy's rules");
	assert_int_equal(place_preempt_find(place, &spec, &rules, &plan, &err), -ENOSPC);
	spec.priority = 90;
	assert_ok(place_preempt_find(place, &spec, &rules, &plan, &err));
	assert_int_equal(plan.n_victims, 1);
	assert_int_equal(plan.victims[0], t[0]);
	assert_int_equal(plan.choice.device[0], 0);
	place_plan_done(&plan);
}

static void wang_scores(void **state)
{
	_cleanup_place_ struct place *place = place_of(&place_wang);
	struct place_spec spec = spec_of(300);
	struct place_choice choice;

	add_node(place, "a", "0000", "0000");
	spec.class = SPEC_LATENCY;
	cluster_put(place, spec, 1);
	spec.class = SPEC_STANDARD;
	cluster_put(place, spec, 2);
	spec.class = SPEC_OPPORTUNISTIC;
	cluster_put(place, spec, 3);
	spec.share = 100;
	/*
	 * Costs for class 2, by the formula in place-wang.c. Beside a tenant of class 0: 100 +
	 * 1000; of class 1: 100 + 1000 - 700; of class 2: 200.
	 */
	assert_ok(place_find(place, &spec, &choice, NULL));
	assert_int_equal(choice.device[0], 3);
	assert_int_equal(choice.score, -200);
	cluster_put(place, spec, 3);
	assert_ok(place_find(place, &spec, &choice, NULL));
	assert_int_equal(choice.device[0], 2);
	assert_int_equal(choice.score, -400);
	/*
	 * Costs for class 1, by the formula in place-wang.c. The device beside a tenant of class 1
	 * costs 100 + 600, of which 600 are for the free share left over. The device beside two
	 * tenants of class 2 costs 300 + 500.
	 */
	spec.class = SPEC_STANDARD;
	assert_ok(place_find(place, &spec, &choice, NULL));
	assert_int_equal(choice.device[0], 2);
	assert_int_equal(choice.score, -700);
	/* Only an idle device is left for this share. */
	spec.class = SPEC_LATENCY;
	spec.share = 700;
	assert_int_equal(cluster_device_for(place, spec), 0);
}

/* ---- the search, compared with a search of all nodes ---- */

#define TENANTS 400u

struct world {
	struct place *place;
	struct rand rand;
	uint32_t tenants[TENANTS], n;
	uint32_t labels[4];
};

static uint32_t dice(struct world *w, uint32_t n)
{
	return (uint32_t)rand_below(&w->rand, n);
}

static void random_node(struct world *w, uint32_t i)
{
	struct place_device_info devices[8] = {0};
	char name[16];
	const char *const racks[] = {"", "r1", "r2"};
	uint32_t labels[1] = {w->labels[dice(w, 4)]}, node, model = dice(w, 3);
	bool is_mixed = dice(w, 5) == 0;
	struct place_node_info info = {.name = name,
		.rack = racks[dice(w, 3)],
		.cpu_milli = 4000 * (1 + dice(w, 8)),
		.memory_bytes = (1 + dice(w, 8)) * 16 * GIB,
		.n_tenants_max = dice(w, 4) ? 0 : 6,
		.taints = dice(w, 8) == 0,
		.labels = labels,
		.n_labels = dice(w, 2),
		.is_closed = dice(w, 12) == 0,
		.n_devices = dice(w, 9),
		.devices = devices};

	snprintf(name, sizeof(name), "n%u", i);
	for (uint32_t k = 0; k < info.n_devices; k++)
		devices[k] = (struct place_device_info){.model = is_mixed ? dice(w, 3) : model,
			.memory_bytes = (1 + dice(w, 3)) * 8 * GIB,
			.numa = k >= 4,
			.link = (uint8_t)(k / 2),
			.is_closed = dice(w, 20) == 0};
	assert_ok(place_node_add(w->place, &info, &node, NULL));
}

static struct place_spec random_spec(struct world *w)
{
	static const uint32_t shares[] = {1, 100, 250, 333, 500, 800, 1000, 1000};
	static const uint32_t counts[] = {1, 1, 1, 1, 1, 2, 2, 3, 4, 0};
	struct place_spec spec = PLACE_SPEC_INIT;

	spec.count = counts[dice(w, ARRAY_SIZE(counts))];
	spec.share = spec.count ? shares[dice(w, ARRAY_SIZE(shares))] : 0;
	spec.is_exclusive = spec.share == 1000 && dice(w, 2);
	if (spec.count && dice(w, 3) == 0)
		spec.device_bytes = (1 + dice(w, 12)) * GIB;
	else if (spec.count && dice(w, 3) == 0)
		spec.device_permille = dice(w, 1001);
	spec.cpu_milli = dice(w, 3) ? dice(w, 6) * 500 : 0;
	spec.memory_bytes = dice(w, 3) ? dice(w, 6) * GIB : 0;
	spec.models = dice(w, 3) ? 0 : 1 + dice(w, 7);
	spec.class = (enum spec_class)dice(w, 3);
	spec.priority = dice(w, 2) ? dice(w, 101) : 0;
	spec.group = dice(w, 2) ? 0 : 1 + dice(w, 5);
	spec.tolerations = dice(w, 2);
	if (dice(w, 8) == 0)
		spec.affinity = w->labels[dice(w, 4)];
	if (dice(w, 8) == 0)
		spec.anti_affinity = w->labels[dice(w, 4)];
	if (dice(w, 8) == 0)
		spec.exclusion = w->labels[dice(w, 4)];
	if (dice(w, 3) == 0)
		spec.preferred_anti_affinity = w->labels[dice(w, 4)];
	if (dice(w, 16) == 0)
		spec.near = w->labels[dice(w, 4)];
	if (dice(w, 16) == 0)
		spec.node = dice(w, place_n_nodes(w->place));
	if (spec.count == 1 && place_n_devices(w->place) && dice(w, 16) == 0)
		spec.device = dice(w, place_n_devices(w->place));
	return spec;
}

/* The smallest number of conflicts on any node where the spec fits. */
static uint32_t fewest_of_all(
	const struct place *place, const struct place_spec *spec, const uint32_t *met)
{
	uint32_t least = UINT32_MAX;

	for (uint32_t node = 0; spec->count && node < place->n_nodes; node++)
		if (place_reason_of(place, spec, node) == PLACE_FITS) {
			const uint32_t n = cluster_fewest(place, spec, node, met);

			least = n < least ? n : least;
		}
	return least;
}

/*
 * Compares all nodes: the fewest conflicts win, then the greatest grade, then the lowest node.
 * false: the spec fits nowhere.
 */
static bool look_at_all(
	struct place *place, const struct place_spec *spec, struct place_choice *ret)
{
	const struct place_policy *policy = place->config.policy;
	_cleanup_free_ uint32_t *met = cluster_met(place, spec);
	const uint32_t n_conflicts = fewest_of_all(place, spec, met);
	bool is_found = false;
	int32_t best = 0;

	for (uint32_t node = 0; node < place->n_nodes; node++) {
		struct place_choice choice = {.node = node, .n = spec->count};
		uint64_t mask;
		int32_t grade;

		if (place_node_reason(place, spec, node) != PLACE_FITS)
			continue;
		mask = place_eligible(place, spec, node);
		if ((uint32_t)__builtin_popcountll(mask) < spec->count)
			continue;
		if (spec->count && cluster_fewest(place, spec, node, met) != n_conflicts)
			continue;
		for (uint64_t left = mask; left && spec->count == 1; left &= left - 1)
			if (met[place->nodes[node].first_device +
				    (uint32_t)__builtin_ctzll(left)] != n_conflicts)
				mask &= ~(left & -left);
		if (spec->count > 1 && place_has_conflicts(place, spec)) {
			struct place_fewest fewest = place_fewest_of(place, spec, node, mask);

			choice.score = place_fewest_score(place, spec, &fewest, &choice);
		} else {
			choice.score = policy->score(place, spec, node, mask, &choice);
			choice.n_conflicts = spec->count ? n_conflicts : 0;
		}
		if (choice.score == PLACE_NEVER)
			continue;
		grade = policy->grade ? policy->grade(place, spec, choice.score) : choice.score;
		if (is_found && grade <= best)
			continue;
		is_found = true;
		best = grade;
		*ret = choice;
	}
	return is_found;
}

static void decide(struct world *w)
{
	const struct place_spec spec = random_spec(w);
	struct place_choice choice = {0}, other = {0};
	struct error err = {0};
	int r;

	place_note_arrival(w->place, &spec);
	r = place_find(w->place, &spec, &choice, &err);
	if (r < 0 && r != -ENOSPC)
		fail_msg("%s", err.msg);
	if (look_at_all(w->place, &spec, &other) != (r == 0))
		fail_msg("%s: %s", w->place->config.policy->name,
			r ? "nothing was found where there is a place" : "found where none is");
	if (r < 0)
		return;
	if (choice.node != other.node || choice.score != other.score)
		fail_msg("%s: node %u with %d instead of %u with %d (share %u, %u devices)",
			w->place->config.policy->name, choice.node, choice.score, other.node,
			other.score, spec.share, spec.count);
	assert_memory_equal(choice.device, other.device, choice.n * sizeof(*choice.device));
	assert_int_equal(choice.n_conflicts, other.n_conflicts);
	if (w->n < TENANTS)
		assert_ok(place_add(w->place, &spec, &choice, &w->tenants[w->n++], NULL));
}

/* Removes a random tenant, or marks it as terminating. */
static void leave(struct world *w)
{
	uint32_t at = dice(w, w->n ? w->n : 1);

	if (!w->n)
		return;
	if (dice(w, 4) == 0) {
		assert_ok(place_mark_terminating(w->place, w->tenants[at], NULL));
		return;
	}
	assert_ok(place_remove(w->place, w->tenants[at]));
	w->tenants[at] = w->tenants[--w->n];
}

/* Checks that the counts equal the sums over the tenants. */
static void check_counts(const struct world *w)
{
	const struct place *place = w->place;
	uint32_t in_group[6] = {0};

	for (uint32_t d = 0; d < place->n_devices; d++) {
		uint32_t n_of[N_CLASSES] = {0}, share = place->devices[d].share_all;

		for (uint32_t i = 0; i < w->n; i++) {
			const struct place_tenant *t = place_tenant(place, w->tenants[i]);

			for (uint32_t k = 0; k < t->n && !t->is_terminating; k++)
				if (t->device[k] == d) {
					n_of[t->spec.class]++;
					in_group[t->spec.group]++;
					share -= t->spec.is_exclusive ? share : t->spec.share;
				}
		}
		assert_memory_equal(n_of, place->devices[d].n_of, sizeof(n_of));
		assert_int_equal(share, place->share_free[d]);
	}
	for (uint32_t group = 1; group < ARRAY_SIZE(in_group); group++) {
		const struct group *found = place_group(place, group);

		assert_int_equal(found ? found->n : 0, in_group[group]);
	}
}

/* Makes random changes under a savepoint, then rolls them back or keeps them. */
static void try_things(struct world *w)
{
	uint32_t before[TENANTS], n = w->n, mark = place_savepoint(w->place);
	bool is_kept = dice(w, 3) == 0;

	memcpy(before, w->tenants, sizeof(before));
	for (uint32_t i = dice(w, 8); i > 0; i--) {
		uint32_t what = dice(w, 3), share = 1 + dice(w, 1000);

		if (what == 0)
			leave(w);
		else if (what == 1)
			decide(w);
		else if (w->n && !place_tenant(w->place, w->tenants[0])->spec.is_exclusive &&
			place_tenant(w->place, w->tenants[0])->n)
			place_resize(w->place, w->tenants[0], share, dice(w, 8) * GIB, NULL);
	}
	if (!is_kept) {
		place_rollback(w->place, mark);
		memcpy(w->tenants, before, sizeof(before));
		w->n = n;
	}
	place_release(w->place);
	check_counts(w);
}

static const char halves[] =
	"cellTypes:\n"
	"  HALF: {childCellType: m1, childCellNumber: 4, childCellPriority: 7}\n"
	"  NODE: {childCellType: HALF, childCellNumber: 2, isNodeLevel: true}\n"
	"  RACK: {childCellType: NODE, childCellNumber: 3}\n"
	"cells:\n"
	"- {cellType: RACK, cellChildren: [{cellId: n1}, {cellId: n2}, {cellId: n3}]}\n"
	"- {cellType: NODE, cellId: hall/n7}\n";

static void live(const struct place_policy *policy, uint64_t seed, const struct place_cells *cells)
{
	static const uint32_t factors[] = {0, 1500, 0, 3000};
	struct place_config config = {.policy = policy,
		.share_factor = factors[seed / 2 % ARRAY_SIZE(factors)],
		.cells = cells};
	struct world w = {.rand = rand_seeded(seed)};
	char name[] = "l0";
	uint64_t bit;

	assert_ok(place_new(&config, &w.place, NULL));
	for (uint32_t i = 0; i < 3; i++) {
		const char *const models[] = {"m0", "m1", "m2"};

		assert_ok(place_model(w.place, models[i], &bit, NULL));
	}
	assert_ok(place_taint(w.place, "t", &bit, NULL));
	for (uint32_t i = 0; i < 4; i++) {
		name[1] = (char)('0' + i);
		w.labels[i] = label(w.place, name);
	}
	for (uint32_t i = 0, n = 1 + dice(&w, 80); i < n; i++)
		random_node(&w, i);
	for (uint32_t i = 0; i < 300; i++) {
		uint32_t what = dice(&w, 10);

		if (what < 6)
			decide(&w);
		else if (what < 9)
			leave(&w);
		else
			try_things(&w);
	}
	check_counts(&w);
	while (w.n)
		leave(&w);
	check_counts(&w);
	assert_int_equal(place_n_tenants(w.place), 0);
	place_free(w.place);
}

static void the_search_equals_a_search_of_all_nodes(void **state)
{
	_cleanup_cells_ struct place_cells *cells = NULL;

	assert_ok(place_cells_parse(str_from(halves), &cells, NULL));
	for (size_t i = 0; place_policies[i]; i++)
		for (uint64_t seed = 1; seed <= 48; seed++)
			live(place_policies[i], seed, seed % 2 ? NULL : cells);
	for (uint64_t seed = 1; seed <= 48; seed++) {
		live(&place_in_turn, seed, NULL);
		live(&place_by_memory, seed, NULL);
	}
}

/* ---- labels of tenants with several devices ---- */

static void a_label_can_be_on_all_devices(void **state)
{
	_cleanup_place_ struct place *place = place_of(&place_first_fit);
	struct place_spec spec = spec_of(500);
	char name[8];

	/*
	 * One tenant of one device, then tenants of four each: without a reservation in advance,
	 * the label's list of devices would be full in the middle of a tenant.
	 */
	for (uint32_t i = 0; i < 12; i++) {
		snprintf(name, sizeof(name), "n%u", i);
		add_node(place, name, "0000", "0000");
	}
	spec.anti_affinity = label(place, "apart");
	cluster_put(place, spec, 0);
	spec.count = 4;
	for (uint32_t i = 1; i < 12; i++) {
		struct place_choice choice;
		uint32_t tenant;

		assert_ok(place_find(place, &spec, &choice, NULL));
		assert_int_equal(choice.node, i);
		assert_ok(place_add(place, &spec, &choice, &tenant, NULL));
	}
	assert_int_equal(
		place_label_at(place, spec.anti_affinity)->n_devices[ROLE_ANTI_AFFINITY], 45);
}

/* The device's tenants stay, and its free capacity is zero, not negative. */
static void a_device_may_become_too_small(void **state)
{
	_cleanup_place_ struct place *place = place_of(&place_first_fit);
	struct place_device_info small = {.memory_bytes = 8 * GIB};
	struct place_node_info info = {
		.name = "a", .cpu_milli = 1000, .n_devices = 1, .devices = &small};
	struct place_spec spec = spec_of(300);
	uint32_t node = add_node(place, "a", "0", "0"), tenant;
	struct place_device_view view;

	spec.device_bytes = 10 * GIB;
	tenant = cluster_put(place, spec, 0);
	assert_ok(place_node_update(place, node, &info, NULL));
	assert_ok(place_resize(place, tenant, 200, 10 * GIB, NULL));
	assert_true(place_device_get(place, 0, &view));
	assert_int_equal(view.memory_free, 0);
	spec.device_bytes = 1;
	assert_int_equal(cluster_device_for(place, spec), PLACE_NONE);
}

/*
 * A free device is of no use without free memory of its node, except for tenants that request no
 * memory.
 */
static void the_default_keeps_node_memory_for_typical_tenants(void **state)
{
	_cleanup_place_ struct place *place = place_of(place_policy_find("default"));
	struct place_device_info devices[2] = {{.memory_bytes = GIB}, {.memory_bytes = GIB}};
	struct place_node_info info = {.n_devices = 2, .devices = devices};
	struct place_spec typical = spec_of(1000), spec = spec_of(1000);
	uint32_t a, b;

	info.name = "a";
	info.memory_bytes = 16 * GIB;
	assert_ok(place_node_add(place, &info, &a, NULL));
	info.name = "b";
	info.memory_bytes = 20 * GIB;
	assert_ok(place_node_add(place, &info, &b, NULL));
	spec.memory_bytes = 10 * GIB;
	place_set_workload_mix(place, &typical, 1);
	assert_int_equal(node_for(place, spec), a);
	typical.memory_bytes = 8 * GIB;
	place_set_workload_mix(place, &typical, 1);
	assert_int_equal(node_for(place, spec), b);
}

/* Node a has one device of model A with 80 GiB, node b two devices of model B with 24 GiB. */
static struct place *place_of_models(uint64_t *ret_a, uint32_t *ret_node_a, uint32_t *ret_node_b)
{
	struct place *place = place_of(place_policy_find("default"));
	struct place_device_info devices[2] = {{.memory_bytes = 80 * GIB}};
	struct place_node_info info = {.name = "a", .n_devices = 1, .devices = devices};
	uint64_t b;

	assert_ok(place_model(place, "A", ret_a, NULL));
	assert_ok(place_model(place, "B", &b, NULL));
	devices[0].model = (uint32_t)__builtin_ctzll(*ret_a);
	assert_ok(place_node_add(place, &info, ret_node_a, NULL));
	info.name = "b";
	info.n_devices = 2;
	devices[0].model = devices[1].model = (uint32_t)__builtin_ctzll(b);
	devices[0].memory_bytes = devices[1].memory_bytes = 24 * GIB;
	assert_ok(place_node_add(place, &info, ret_node_b, NULL));
	return place;
}

/*
 * Some typical tenants can use only model A, and request more than A's part of the free devices. So
 * tenants that can use both models get B.
 */
static void check_models_left(
	struct place *place, struct place_spec typical[static 4], uint32_t a, uint32_t b)
{
	struct place_choice choice;
	uint32_t tenant;

	place_set_workload_mix(place, typical, 4);
	assert_ok(place_find(place, &typical[0], &choice, NULL));
	assert_ok(place_add(place, &typical[0], &choice, &tenant, NULL));
	/*
	 * By best fit the tenant would take the free part of A's device, but other typical tenants
	 * need it.
	 */
	assert_int_equal(node_for(place, typical[2]), b);
	place_set_workload_mix(place, &typical[2], 2);
	assert_int_equal(node_for(place, typical[2]), a);
}

static void the_default_keeps_lacked_models_free(void **state)
{
	struct place_spec typical[] = {spec_of(470), spec_of(470), spec_of(470), spec_of(1000)};
	uint32_t a, b;
	uint64_t model;
	_cleanup_place_ struct place *place = place_of_models(&model, &a, &b);

	typical[0].models = typical[1].models = model;
	check_models_left(place, typical, a, b);
}

/*
 * A pod that requests more memory than model B has can only use model A, as if the pod had
 * requested A.
 */
static void the_default_keeps_models_with_much_memory_free(void **state)
{
	struct place_spec typical[] = {spec_of(470), spec_of(470), spec_of(470), spec_of(1000)};
	uint32_t a, b;
	uint64_t model;
	_cleanup_place_ struct place *place = place_of_models(&model, &a, &b);

	typical[0].device_bytes = typical[1].device_bytes = 30 * GIB;
	typical[2].device_bytes = typical[3].device_bytes = 1 * GIB;
	check_models_left(place, typical, a, b);
}

/*
 * Devices differ only in memory. A tenant that requests bytes gets the smaller device if that
 * suffices.
 */
static void the_default_takes_the_smaller_memory(void **state)
{
	_cleanup_place_ struct place *place = place_of(place_policy_find("default"));
	struct place_device_info devices[] = {{.memory_bytes = 40 * GIB}, {.memory_bytes = 5 * GIB},
		{.memory_bytes = 40 * GIB}, {.memory_bytes = 5 * GIB}};
	struct place_node_info info = {
		.name = "a", .n_devices = ARRAY_SIZE(devices), .devices = devices};
	struct place_spec part = spec_of(200), whole = spec_of(1000);
	struct place_choice choice;
	uint32_t node;

	assert_ok(place_node_add(place, &info, &node, NULL));
	place_set_workload_mix(place, &part, 1);
	assert_int_equal(cluster_device_for(place, part), 0);
	assert_int_equal(cluster_device_for(place, whole), 0);
	part.device_bytes = whole.device_bytes = 4 * GIB;
	assert_int_equal(cluster_device_for(place, part), 1);
	assert_int_equal(cluster_device_for(place, whole), 1);
	whole.count = 2;
	assert_ok(place_find(place, &whole, &choice, NULL));
	assert_int_equal(choice.device[0] + choice.device[1], 1 + 3);
	whole.count = 3;
	assert_ok(place_find(place, &whole, &choice, NULL));
	whole.count = part.count = 2;
	assert_ok(place_find(place, &part, &choice, NULL));
	assert_int_equal(choice.device[0] + choice.device[1], 1 + 3);
	part.count = 1;
	part.device_bytes = whole.device_bytes = 6 * GIB;
	assert_int_equal(cluster_device_for(place, part), 0);
	/* Among devices in use, the policy compares the free memory, not the size. */
	cluster_put(place, part, 0);
	part.device_bytes = 30 * GIB;
	cluster_put(place, part, 2);
	part.device_bytes = 6 * GIB;
	assert_int_equal(cluster_device_for(place, part), 2);
}

/*
 * Between nodes of one model too, the smaller devices that suffice are taken. That holds before any
 * arrival, and in any order of the nodes.
 */
static void the_default_takes_the_node_of_smaller_memory(void **state)
{
	for (uint32_t small = 0; small < 2; small++) {
		_cleanup_place_ struct place *place = place_of(place_policy_find("default"));
		struct place_spec spec = spec_of(1000);

		for (uint32_t i = 0; i < 2; i++) {
			struct place_device_info devices[2] = {
				{.memory_bytes = (i == small ? 40 : 80) * GIB},
				{.memory_bytes = (i == small ? 40 : 80) * GIB}};
			struct place_node_info info = {
				.name = i ? "b" : "a", .n_devices = 2, .devices = devices};
			uint32_t node;

			assert_ok(place_node_add(place, &info, &node, NULL));
		}
		assert_int_equal(cluster_device_for(place, spec), 0);
		for (uint32_t share = 500; share <= 1000; share += 500)
			for (spec.count = 1; spec.count <= 2; spec.count++) {
				spec.share = share;
				spec.device_bytes = 4 * GIB;
				assert_int_equal(cluster_device_for(place, spec) / 2, small);
				spec.device_bytes = 50 * GIB;
				assert_int_equal(cluster_device_for(place, spec) / 2, 1 - small);
			}
		/*
		 * The policy fills the rest of a large device before it takes a part of an idle
		 * small device.
		 */
		spec = spec_of(900);
		cluster_put(place, spec, 2 * (1 - small));
		spec = spec_of(100);
		spec.device_bytes = GIB;
		place_set_workload_mix(
			place, (struct place_spec[]){spec_of(1000), spec_of(100)}, 2);
		assert_int_equal(cluster_device_for(place, spec), 2 * (1 - small));
	}
}

/*
 * After the first arrivals the policy does not expect all tenants to be like them: tenants share
 * devices instead of getting one each.
 */
static void the_default_packs_the_first_tenants(void **state)
{
	static const uint32_t shares[] = {500, 300, 300, 250, 1000, 1000};
	_cleanup_place_ struct place *place = place_of(place_policy_find("default"));
	struct place_choice choice;
	uint32_t tenant;

	add_node(place, "a", "0000", "0000");
	for (size_t i = 0; i < ARRAY_SIZE(shares); i++) {
		const struct place_spec spec = spec_of(shares[i]);

		place_note_arrival(place, &spec);
		assert_ok(place_find(place, &spec, &choice, NULL));
		assert_ok(place_add(place, &spec, &choice, &tenant, NULL));
	}
}

/* ---- the largest shapes of nodes ---- */

struct nodes {
	uint32_t n, n_devices, cpu_milli;
	uint64_t memory_bytes;
};

/*
 * Nodes of eight devices, few with much CPU and memory and many with less; and nodes of two
 * devices.
 */
static const struct nodes few_large[] = {
	{4, 8, 128000, 768 * GIB},
	{24, 8, 96000, 384 * GIB},
	{16, 2, 104000, 512 * GIB},
};

static uint32_t add_nodes(struct place *place, const struct nodes *nodes, size_t n)
{
	uint32_t n_devices = 0;

	for (size_t kind = 0; kind < n; kind++)
		for (uint32_t i = 0; i < nodes[kind].n; i++) {
			struct place_device_info devices[8] = {0};
			char name[32];
			const struct place_node_info info = {.name = name,
				.n_devices = nodes[kind].n_devices,
				.devices = devices,
				.cpu_milli = nodes[kind].cpu_milli,
				.memory_bytes = nodes[kind].memory_bytes};
			uint32_t node;

			snprintf(name, sizeof(name), "kind-%zu-%u", kind, i);
			assert_ok(place_node_add(place, &info, &node, NULL));
			n_devices += info.n_devices;
		}
	return n_devices;
}

static struct place_spec spec_on_host(
	uint32_t count, uint32_t share, uint32_t cpu_milli, uint64_t memory_bytes)
{
	struct place_spec spec = spec_of(share);

	spec.count = count;
	spec.cpu_milli = cpu_milli;
	spec.memory_bytes = memory_bytes;
	return spec;
}

static bool arrive(struct place *place, const struct place_spec *spec)
{
	struct place_choice choice;
	uint32_t tenant;

	place_note_arrival(place, spec);
	if (place_find(place, spec, &choice, NULL) < 0)
		return false;
	assert_ok(place_add(place, spec, &choice, &tenant, NULL));
	return true;
}

/* Adds random small tenants until they use `until` permille of devices. */
static void fill_with_small(struct place *place, struct rand *rand, uint64_t until)
{
	const struct place_spec small[] = {
		spec_on_host(1, 1000, 11400, 47 * GIB),
		spec_on_host(1, 1000, 15700, 57 * GIB),
		spec_on_host(1, 470, 11900, 46 * GIB),
		spec_on_host(1, 810, 4000, 6 * GIB),
		spec_on_host(0, 0, 8000, 16 * GIB),
	};

	for (uint64_t share = 0; share < until;) {
		const struct place_spec *spec = &small[rand_below(rand, ARRAY_SIZE(small))];

		assert_true(arrive(place, spec));
		share += (uint64_t)spec->share * spec->count;
	}
}

/*
 * Only few nodes can take a tenant of the largest shape (place-shapes.h), and no such tenant has
 * arrived. While small tenants use a quarter of the devices, none of them is on these nodes. Best
 * fit keeps these nodes empty as well.
 */
static void the_default_keeps_what_only_large_shapes_can_use(void **state)
{
	const struct place_spec large = spec_on_host(8, 1000, 120000, 720 * GIB);

	for (uint64_t seed = 1; seed <= 10; seed++) {
		_cleanup_place_ struct place *place = place_of(place_policy_find("default"));
		const uint32_t n_devices = add_nodes(place, few_large, ARRAY_SIZE(few_large));
		struct rand rand = rand_seeded(seed);

		fill_with_small(place, &rand, n_devices * 1000ull / 4);
		for (uint32_t i = 0; i < few_large[0].n; i++)
			if (!arrive(place, &large))
				fail_msg("order %" PRIu64 ": no node for large tenant %u", seed,
					i + 1);
	}
}

/*
 * How many tenants that need a whole large node still fit after small tenants were placed.
 * has_unfit: some arriving tenants fit no node at all.
 */
static uint32_t count_large(uint64_t seed, bool has_unfit)
{
	static const struct nodes nodes[] = {
		{100, 8, 96000, 384 * GIB},
		{30, 2, 64000, 256 * GIB},
	};
	const struct place_spec large = spec_on_host(8, 1000, 64000, 256 * GIB),
				unfit = spec_on_host(8, 1000, 120000, 256 * GIB);
	_cleanup_place_ struct place *place = place_of(place_policy_find("default"));
	const uint32_t n_devices = add_nodes(place, nodes, ARRAY_SIZE(nodes));
	struct rand rand = rand_seeded(seed);
	uint32_t n = 0;

	for (uint32_t i = 0; i < 10; i++) {
		if (has_unfit)
			assert_false(arrive(place, &unfit));
		n += arrive(place, &large);
		fill_with_small(place, &rand, n_devices * 1000ull / 20);
	}
	while (arrive(place, &large))
		n++;
	return n;
}

/*
 * Tenants that fit no node hardly change how many tenants of whole nodes fit. If the shapes of
 * place-shapes.h outweighed all tenants that fit, the policy would keep small nodes instead, since
 * these are fewer.
 */
static void the_default_expects_shapes_less_than_tenants_that_fit(void **state)
{
	uint32_t n = 0, n_with_unfit = 0;

	for (uint64_t seed = 1; seed <= 10; seed++) {
		n += count_large(seed, false);
		n_with_unfit += count_large(seed, true);
	}
	if (n_with_unfit * 100 < n * 97)
		fail_msg("%u large tenants fit; beside tenants that fit no node: %u", n,
			n_with_unfit);
}

static void policies_have_names(void **state)
{
	for (size_t i = 0; place_policies[i]; i++) {
		assert_ptr_equal(place_policy_find(place_policies[i]->name), place_policies[i]);
		assert_true(place_policies[i]->about[0]);
	}
	assert_null(place_policy_find("none such"));
}

UNIT_MAIN(UNIT(kubeshare_fits_best), UNIT(kubeshare_keeps_labels_together),
	UNIT(kubeshare_code_compares_free_capacity), UNIT(kubeshare2_packs_and_spreads),
	UNIT(kubeshare2_prefers_a_model), UNIT(kubeshare2_stays_near_its_gang),
	UNIT(kubeshare2_stays_near_most_of_its_gang), UNIT(kubeshare2_tells_racks_apart_by_name),
	UNIT(kubeshare2_keeps_scarce_devices_free), UNIT(dot_product_weighs_both),
	UNIT(fgd_grades_as_published), UNIT(gpushare_fills_memory), UNIT(gpushare_counts_requests),
	UNIT(gaiagpu_takes_the_fullest_node), UNIT(gaiagpu_counts_cores_before_memory),
	UNIT(gaiagpu_keeps_device_groups_whole), UNIT(wang_keeps_classes_apart),
	UNIT(wang_preempts_tenants_of_excluding_classes), UNIT(wang_scores),
	UNIT(the_search_equals_a_search_of_all_nodes), UNIT(a_label_can_be_on_all_devices),
	UNIT(a_device_may_become_too_small),
	UNIT(the_default_keeps_node_memory_for_typical_tenants),
	UNIT(the_default_keeps_lacked_models_free),
	UNIT(the_default_keeps_models_with_much_memory_free),
	UNIT(the_default_takes_the_smaller_memory),
	UNIT(the_default_takes_the_node_of_smaller_memory),
	UNIT(the_default_packs_the_first_tenants),
	UNIT(the_default_keeps_what_only_large_shapes_can_use),
	UNIT(the_default_expects_shapes_less_than_tenants_that_fit), UNIT(policies_have_names))
