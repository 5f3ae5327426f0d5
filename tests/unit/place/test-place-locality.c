/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The locality bonus of the default policy: near the gang, level by level, and near opportunistic
 * tenants. Tests check its size and the text that explains it. test-place-policies checks that the
 * search finds these places.
 */
#include "unit.h"

#include <errno.h>

#include "base/cleanup.h"
#include "cluster.h"
#include "place/place-cell.h"
#include "place/place-policy.h"
#include "place/place.h"
#include "replay/cell-file.h"

static struct place *place_of(const struct place_cells *cells)
{
	return cluster_by_hand(place_policy_find("default"), cells);
}

/* Adds a node with one device for each digit of `links`. Returns the first device. */
static uint32_t add_node(struct place *place, const char *name, const char *rack, const char *links)
{
	return cluster_add_node(place, name, rack, NULL, links);
}

static struct place_spec spec_of(uint32_t share, uint32_t group)
{
	struct place_spec spec = PLACE_SPEC_INIT;

	spec.share = share;
	spec.group = group;
	return spec;
}

static struct place_spec opportunistic(uint32_t share)
{
	struct place_spec spec = spec_of(share, 0);

	spec.priority = 0;
	spec.class = SPEC_OPPORTUNISTIC;
	return spec;
}

static void say_why(struct place *place, struct place_spec spec, const char *expected)
{
	struct place_choice choice;
	char text[PLACE_WHY];

	assert_ok(place_find(place, &spec, &choice, NULL));
	assert_contains(place_choice_format(place, &spec, &choice, text), expected);
}

static void a_gang_is_placed_together(void **state)
{
	_cleanup_place_ struct place *place = place_of(NULL);
	const uint32_t a = add_node(place, "a", "", "0000"), b = add_node(place, "b", "", "0011");
	uint32_t fellow;

	/*
	 * Now neither node is empty, so the policy keeps neither for a tenant that needs a whole
	 * node.
	 */
	cluster_put(place, spec_of(1000, 0), a + 3);
	/* The gang's first member goes to the first node. */
	assert_int_equal(cluster_device_for(place, spec_of(1000, 7)), a);
	fellow = cluster_put(place, spec_of(1000, 7), b + 2);
	/*
	 * The next member goes to the same link. When the link is full, members go to the same
	 * node.
	 */
	assert_int_equal(cluster_device_for(place, spec_of(1000, 7)), b + 3);
	say_why(place, spec_of(1000, 7), "by scarcity, with 1 of the 1 devices of its group");
	cluster_put(place, spec_of(1000, 7), b + 3);
	assert_int_equal(cluster_device_for(place, spec_of(300, 7)), b);
	/* Tenants of another gang, or of no gang, get no bonus on the gang's node. */
	assert_int_equal(cluster_device_for(place, spec_of(1000, 8)), a);
	assert_int_equal(cluster_device_for(place, spec_of(1000, 0)), a);
	/* After all members are removed, a new member gets no bonus either. */
	assert_ok(place_remove(place, fellow));
	cluster_put(place, spec_of(1000, 0), b + 2);
	assert_ok(place_remove(place, fellow + 1));
	assert_int_equal(cluster_device_for(place, spec_of(1000, 7)), a);
}

/* A tenant of two devices goes to the nearest devices of the gang where two are free. */
static void a_tenant_of_several_devices_goes_near_its_gang(void **state)
{
	_cleanup_place_ struct place *place = place_of(NULL);
	const uint32_t b = (add_node(place, "a", "", "00001111"),
		add_node(place, "b", "", "00001111"));
	struct place_spec two = spec_of(1000, 7);

	two.count = 2;
	cluster_put(place, spec_of(1000, 7), b + 5);
	assert_int_equal(cluster_device_for(place, two), b + 4);
	two.share = 400;
	assert_int_equal(cluster_device_for(place, two), b + 4);
}

static void a_gang_stays_in_its_rack(void **state)
{
	_cleanup_place_ struct place *place = place_of(NULL);
	const uint32_t a = add_node(place, "a", "r1", "00"), b = add_node(place, "b", "r2", "00"),
		       c = add_node(place, "c", "r2", "0");
	struct place_node_info moved = {.name = "c",
		.rack = "",
		.cpu_milli = 32000,
		.n_devices = 1,
		.devices = &(struct place_device_info){.memory_bytes = 16 * GIB}};

	cluster_put(place, spec_of(1000, 7), c);
	assert_int_equal(cluster_device_for(place, spec_of(500, 7)), b);
	say_why(place, spec_of(500, 7), "by scarcity, in a rack or cell of its group");
	assert_int_equal(cluster_device_for(place, spec_of(500, 0)), a);
	/* A node without a rack is near no other node. */
	assert_ok(place_node_update(place, place_node_find(place, "c"), &moved, NULL));
	assert_int_equal(cluster_device_for(place, spec_of(500, 7)), a);
}

static const char rows[] = "cellTypes:\n"
			   "  NODE: {childCellType: V100, childCellNumber: 2, isNodeLevel: true}\n"
			   "  RACK: {childCellType: NODE, childCellNumber: 2}\n"
			   "  ROW: {childCellType: RACK, childCellNumber: 2}\n"
			   "cells:\n"
			   "- {cellType: NODE, cellId: a}\n"
			   "- cellType: ROW\n"
			   "  cellChildren:\n"
			   "  - cellChildren: [{cellId: b}, {cellId: c}]\n"
			   "  - cellChildren: [{cellId: d}, {cellId: e}]\n";

/*
 * The cell file decides what is near: first the lowest cell above the gang's node, then the cell
 * above that cell.
 */
static void a_gang_stays_in_its_cells(void **state)
{
	_cleanup_cells_ struct place_cells *cells = NULL;
	_cleanup_place_ struct place *place = NULL;
	uint32_t first[5];

	assert_ok(place_cells_parse(str_from(rows), &cells, NULL));
	place = place_of(cells);
	for (uint32_t i = 0; i < 5; i++)
		first[i] = add_node(place, (const char[]){(char)('a' + i), '\0'}, "", "00");
	cluster_put(place, spec_of(1000, 7), first[4]);
	cluster_put(place, spec_of(1000, 0), first[4] + 1);
	assert_int_equal(cluster_device_for(place, spec_of(500, 7)), first[3]);
	cluster_put(place, spec_of(1000, 0), first[3]);
	cluster_put(place, spec_of(1000, 0), first[3] + 1);
	assert_int_equal(cluster_device_for(place, spec_of(500, 7)), first[1]);
	assert_int_equal(cluster_device_for(place, spec_of(500, 0)), first[0]);
}

static void opportunistic_tenants_are_packed(void **state)
{
	_cleanup_place_ struct place *place = place_of(NULL);
	const uint32_t a = add_node(place, "a", "", "00"), b = add_node(place, "b", "", "00");
	uint32_t tenant;

	/*
	 * Now neither node is empty, so the policy keeps neither for a tenant that needs a whole
	 * node.
	 */
	cluster_put(place, spec_of(1000, 0), a + 1);
	cluster_put(place, spec_of(300, 0), b);
	tenant = cluster_put(place, opportunistic(300), b + 1);
	assert_int_equal(cluster_device_for(place, opportunistic(200)), b + 1);
	say_why(place, opportunistic(200), "by scarcity, beside 1 opportunistic");
	/*
	 * A tenant that is not opportunistic gets no bonus on node b. An opportunistic tenant that
	 * does not fit on b goes elsewhere.
	 */
	assert_int_equal(cluster_device_for(place, spec_of(200, 0)), a);
	assert_int_equal(cluster_device_for(place, opportunistic(800)), a);
	/* An opportunistic tenant gets no bonus for its gang. */
	cluster_put(place, spec_of(100, 7), b);
	assert_ok(place_remove(place, tenant));
	{
		struct place_spec spec = opportunistic(200);

		spec.group = 7;
		assert_int_equal(cluster_device_for(place, spec), a);
	}
}

/* A place that leaves no capacity unusable comes before the bonus for the gang's rack. */
static void a_device_is_not_wasted_for_a_rack(void **state)
{
	_cleanup_place_ struct place *place = place_of(NULL);
	const struct place_spec typical[] = {spec_of(1000, 0), spec_of(500, 0)};
	const uint32_t a = add_node(place, "a", "r1", "0"),
		       c = (add_node(place, "b", "r2", "0"), add_node(place, "c", "r2", "0"));

	place_set_workload_mix(place, typical, 2);
	cluster_put(place, spec_of(500, 0), a);
	cluster_put(place, spec_of(1000, 7), c);
	/*
	 * The tenant fills the free half of a's device, instead of taking half of b's idle device
	 * in the gang's rack.
	 */
	assert_int_equal(cluster_device_for(place, spec_of(500, 7)), a);
}

UNIT_MAIN(UNIT(a_gang_is_placed_together), UNIT(a_tenant_of_several_devices_goes_near_its_gang),
	UNIT(a_gang_stays_in_its_rack), UNIT(a_gang_stays_in_its_cells),
	UNIT(opportunistic_tenants_are_packed), UNIT(a_device_is_not_wasted_for_a_rack))
