/* SPDX-License-Identifier: Apache-2.0 */
/* The largest shapes that the nodes of a cluster can take. */
#include "unit.h"

#include <stdio.h>

#include "base/cleanup.h"
#include "cluster.h"
#include "place/place-shapes.h"

static uint32_t add_node(struct place *place, const char *name, uint32_t n_devices,
	uint32_t cpu_milli, uint64_t memory_bytes)
{
	struct place_device_info devices[PLACE_NODE_DEVICES_MAX] = {0};
	const struct place_node_info info = {.name = name,
		.n_devices = n_devices,
		.devices = devices,
		.cpu_milli = cpu_milli,
		.memory_bytes = memory_bytes};
	uint32_t node;

	assert_ok(place_node_add(place, &info, &node, NULL));
	return node;
}

static void each_kind_of_node_is_one_shape(void **state)
{
	_cleanup_place_ struct place *place = cluster_by_hand(&place_scarcity, NULL);
	struct mix_entry shapes[PLACE_SHAPES_MAX];
	uint32_t removed;

	assert_int_equal(place_shapes_of(place, shapes), 0);
	add_node(place, "a", 8, 96000, 384 * GIB);
	add_node(place, "b", 0, 64000, 256 * GIB);
	add_node(place, "c", 8, 96000, 384 * GIB);
	add_node(place, "d", 8, 128000, 384 * GIB);
	removed = add_node(place, "e", 4, 128000, 384 * GIB);
	assert_int_equal(place_shapes_of(place, shapes), 3);
	assert_int_equal(shapes[0].count, 8);
	assert_int_equal(shapes[0].share, SPEC_SHARE_ONE);
	assert_int_equal(shapes[0].cpu_milli, 96000);
	assert_int_equal(shapes[0].mib, 384 * 1024);
	assert_int_equal(shapes[0].n, 1);
	assert_int_equal(shapes[0].models, 1);
	assert_int_equal(shapes[1].cpu_milli, 128000);
	assert_int_equal(shapes[2].count, 4);
	assert_ok(place_node_remove(place, removed, NULL));
	assert_int_equal(place_shapes_of(place, shapes), 2);
	/* Present tenants do not change the shape of their node. */
	cluster_put(place,
		(struct place_spec){
			.share = 500, .count = 1, .node = PLACE_NONE, .device = PLACE_NONE},
		0);
	assert_int_equal(place_shapes_of(place, shapes), 2);
	assert_int_equal(shapes[0].cpu_milli, 96000);
}

/* Nodes of different models are different kinds. */
static void kinds_differ_by_model(void **state)
{
	_cleanup_place_ struct place *place = cluster_by_hand(&place_scarcity, NULL);
	struct place_device_info device = {0};
	const struct place_node_info info = {
		.name = "b", .n_devices = 1, .devices = &device, .cpu_milli = 8000};
	struct mix_entry shapes[PLACE_SHAPES_MAX];
	uint64_t other;
	uint32_t node;

	add_node(place, "a", 1, 8000, 0);
	assert_ok(place_model(place, "T4", &other, NULL));
	device.model = (uint32_t)__builtin_ctzll(other);
	assert_ok(place_node_add(place, &info, &node, NULL));
	assert_int_equal(place_shapes_of(place, shapes), 2);
	assert_int_equal(shapes[0].models, 1);
	assert_int_equal(shapes[1].models, other);
}

/* A shape has at most SPEC_DEVICES_MAX devices, like a tenant. */
static void a_shape_has_at_most_the_devices_of_a_tenant(void **state)
{
	_cleanup_place_ struct place *place = cluster_by_hand(&place_scarcity, NULL);
	struct mix_entry shapes[PLACE_SHAPES_MAX];

	add_node(place, "a", PLACE_NODE_DEVICES_MAX, 96000, 384 * GIB);
	assert_int_equal(place_shapes_of(place, shapes), 1);
	assert_int_equal(shapes[0].count, SPEC_DEVICES_MAX);
}

static void of_too_many_kinds_the_largest_are_kept(void **state)
{
	_cleanup_place_ struct place *place = cluster_by_hand(&place_scarcity, NULL);
	struct mix_entry shapes[PLACE_SHAPES_MAX];
	uint32_t n_large = 0;
	char name[16];

	for (uint32_t i = 0; i < PLACE_SHAPES_MAX + 5; i++) {
		snprintf(name, sizeof(name), "small-%u", i);
		add_node(place, name, 1, 1000 + i, GIB);
	}
	for (uint32_t i = 0; i < 4; i++) {
		snprintf(name, sizeof(name), "large-%u", i);
		add_node(place, name, 8, 1000 + i, GIB);
	}
	assert_int_equal(place_shapes_of(place, shapes), PLACE_SHAPES_MAX);
	for (uint32_t i = 0; i < PLACE_SHAPES_MAX; i++)
		n_large += shapes[i].count == 8;
	assert_int_equal(n_large, 4);
}

UNIT_MAIN(UNIT(each_kind_of_node_is_one_shape), UNIT(kinds_differ_by_model),
	UNIT(a_shape_has_at_most_the_devices_of_a_tenant),
	UNIT(of_too_many_kinds_the_largest_are_kept))
