/* SPDX-License-Identifier: Apache-2.0 */
/* The tree of cells: reading KubeShare 2.0's file, errors in such files, and distances. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "cluster.h"
#include "place/place-cell.h"
#include "place/place-internal.h"
#include "place/place-policy.h"
#include "replay/cell-file.h"

/* A cell file in the form of KubeShare's own examples. */
static const char nodes[] = "cellTypes:\n"
			    "  GTX1080-NODE:\n"
			    "    childCellType: \"NVIDIA-GeForce-GTX-1080\"\n"
			    "    childCellNumber: 2\n"
			    "    childCellPriority: 11\n"
			    "    isNodeLevel: true\n"
			    "  3-GTX1080-NODE:\n"
			    "    childCellType: GTX1080-NODE\n"
			    "    childCellNumber: 3\n"
			    "  V100-PCIE-NODE:\n"
			    "    childCellType: \"Tesla-V100-PCIE-32GB\"\n"
			    "    childCellNumber: 4\n"
			    "    childCellPriority: 100\n"
			    "    isNodeLevel: true\n"
			    "cells:\n"
			    "- cellType: 3-GTX1080-NODE\n"
			    "  cellChildren:\n"
			    "  - cellId: juno\n"
			    "  - cellId: apple\n"
			    "  - cellId: lemon\n"
			    "- cellType: V100-PCIE-NODE\n"
			    "  cellId: hall/ubuntu\n"
			    "\n"
			    "#nvidia-smi topo --matrix\n";

static void nodes_are_read(void **state)
{
	_cleanup_cells_ struct place_cells *cells = NULL;
	struct place_cell_view cell;
	uint32_t leaf;

	assert_ok(place_cells_parse(str_from(nodes), &cells, NULL));
	assert_int_equal(place_cells_n(cells), 1 + 3 + 6 + 1 + 4);
	place_cell_get(cells, 0, &cell);
	assert_string_equal(cell.type, "3-GTX1080-NODE");
	assert_string_equal(cell.node, "");
	assert_int_equal(cell.parent, PLACE_NONE);
	assert_int_equal(cell.n_children, 3);
	leaf = place_cells_leaf(cells, "apple", "NVIDIA GeForce GTX 1080", 1);
	assert_int_not_equal(leaf, PLACE_NONE);
	place_cell_get(cells, leaf, &cell);
	assert_string_equal(cell.node, "apple");
	assert_int_equal(cell.priority, 11);
	assert_int_equal(cell.n_children, 0);
	assert_int_equal(
		place_cells_leaf(cells, "apple", "NVIDIA GeForce GTX 1080", 2), PLACE_NONE);
	assert_int_equal(place_cells_leaf(cells, "apple", "A100", 0), PLACE_NONE);
	assert_int_equal(place_cells_leaf(cells, "hall", "Tesla-V100-PCIE-32GB", 0), PLACE_NONE);
	assert_int_not_equal(
		place_cells_leaf(cells, "ubuntu", "Tesla-V100-PCIE-32GB", 3), PLACE_NONE);
}

/* From KubeShare's kubeshare-config-final.yaml, where two cells are halves of one node. */
static void two_cells_may_be_of_one_node(void **state)
{
	_cleanup_cells_ struct place_cells *cells = NULL;

	assert_ok(place_cells_parse(STR("cellTypes:\n"
					"  N: {childCellType: V, childCellNumber: 4,\n"
					"      childCellPriority: 200, isNodeLevel: True}\n"
					"  2N: {childCellType: N, childCellNumber: 2}\n"
					"cells:\n"
					"- cellType: 2N\n"
					"  cellChildren: [{cellId: u}, {cellId: u}]\n"),
		&cells, NULL));
	assert_int_not_equal(place_cells_leaf(cells, "u", "V", 7), PLACE_NONE);
	assert_int_equal(place_cells_leaf(cells, "u", "V", 8), PLACE_NONE);
}

/* ---- what is refused ---- */

#define TYPE "cellTypes: {N: {childCellType: V, childCellNumber: 2, isNodeLevel: true}}\n"

static const struct {
	const char *text, *says;
} wrong[] = {
	{"", "the file is empty"},
	{"cellTypes: {N: [}", "line 1, column 17: "},
	{"cellTypes:\n  A: {childCellType: V}\n  A: {childCellType: V}\ncells: []\n",
		"line 3: type 'A' occurs twice"},
	{"cells: []\ncells: []\n", "line 2: 'cells': the field occurs twice"},
	{"cellTypes:\n  A:\n    childCellType: V\n    childCellType: W\ncells: []\n",
		"line 4: 'childCellType': the field occurs twice"},
	{"cellTypes:\n\tA: 1\n", "line 2, column 1: "},
	{"a: 1\n%YAML 1.2\n", "line 2: '%'"},
	{"a: 1\nb: \xff\n", "line 2: byte 0xff: expected text in UTF-8"},
	{"a: \xc0\x80\n", "byte 0xc0"},
	{"a: \xed\xa0\x80\n", "byte 0xed"},
	{"a: \xe2\x82", "byte 0xe2"},
	{"a: \x01", "byte 0x01"},
	{"x", "line 1: expected cellTypes and cells"},
	{"cells: []\n", "cellTypes: missing"},
	{"cellTypes: {}\n", "cells: missing"},
	{TYPE "cells: 5\n", "line 2: expected a list"},
	{TYPE "cells: []\nmore: 1\n", "line 3: 'more'"},
	{"cellTypes: 3\ncells: []\n", "line 1: cellTypes: expected names"},
	{"cellTypes:\n  N:\n    childCellNumber: 1\ncells: []\n",
		"line 2: type 'N': childCellType"},
	{"cellTypes:\n  N:\ncells: []\n", "line 2: type 'N': childCellType is missing"},
	{"cellTypes:\n  N:\n    childCellNumbr: 1\ncells: []\n", "line 3: 'childCellNumbr'"},
	{"cellTypes:\n  N:\n    childCellNumber: x\ncells: []\n", "line 3: childCellNumber: 'x'"},
	{"cellTypes:\n  N:\n    childCellNumber: -1\ncells: []\n", "'-1'"},
	{"cellTypes:\n  N:\n    childCellPriority: 1001\ncells: []\n", "0 to 1000"},
	{"cellTypes:\n  N:\n    isNodeLevel: maybe\ncells: []\n", "line 3: isNodeLevel: 'maybe'"},
	{"cellTypes:\n  N:\n    childCellType: [a]\ncells: []\n",
		"line 3: childCellType: expected one plain"},
	{"cellTypes:\n  A: {childCellType: B}\n  B: {childCellType: A}\ncells: []\n",
		"line 2: type 'A': the type contains itself"},
	{"cellTypes:\n  A: {childCellType: A}\ncells: []\n", "contains itself"},
	{"cellTypes:\n  A: {childCellType: V, childCellPriority: 1}\n"
	 "  B: {childCellType: V, childCellPriority: 2}\ncells: []\n",
		"line 3: type 'B': childCellPriority 2: 'V' has 1"},
	{"cellTypes:\n  A: {childCellType: V, childCellNumber: 1}\ncells:\n- cellType: A\n",
		"line 4: cellType 'A': no type from it"},
	{TYPE "cells:\n- cellType: M\n", "line 3: cellType 'M'"},
	{TYPE "cells:\n- cellType: V\n", "line 3: cellType 'V': 'cellTypes' has no such type"},
	{TYPE "cells:\n- cellId: a\n", "cell 1: cellType is missing"},
	{TYPE "cells:\n- 7\n", "line 3: expected a cell"},
	{TYPE "cells:\n- cellType: N\n  speed: 2\n", "line 4: 'speed'"},
	{TYPE "cells:\n- cellType: N\n  cellChildren: 2\n", "line 4: expected a list"},
	{TYPE "cells:\n- cellType: N\n  cellId: a/\n", "line 4: cellId 'a/'"},
	{TYPE "cells:\n- cellType: N\n  cellId: 1/2/3/4/5/6/7/8/9\n", "at most 8 parts"},
	{TYPE "cells:\n- cellType: N\n  cellChildren:\n  - cellId: a/b\n", "line 5: cellId 'a/b'"},
	{TYPE "cells:\n- cellType: N\n  cellChildren:\n  - cellType: N\n",
		"line 5: cellType 'N': expected the child type of 'N', 'V'"},
	{TYPE "cells:\n- cellType: N\n  cellChildren:\n  - cellChildren: [{}]\n", "'V' is a model"},
	{"cellTypes: {N: {childCellType: V, isNodeLevel: true}}\ncells:\n- cellType: N\n",
		"type 'N': childCellNumber is missing"},
	{"cellTypes: {N: {childCellType: V, childCellNumber: 65, isNodeLevel: true}}\n"
	 "cells:\n- cellType: N\n  cellId: a\n",
		"node 'a' has more than 64 devices"},
	{"cellTypes: {N: {childCellType: V, childCellNumber: 1, isNodeLevel: true},\n"
	 "  M: {childCellType: N, childCellNumber: 1048576}}\ncells:\n- cellType: M\n",
		"more than 1048576 cells"},
	{"cellTypes: {N: &a {childCellType: V, isNodeLevel: true}, M: *a}\ncells: []\n",
		"type 'M': childCellType is missing"},
};

static void refusals_name_the_line(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct place_cells *cells = NULL;
		struct error err = {0};
		int r = place_cells_parse(str_from(wrong[i].text), &cells, &err);

		if (r == 0)
			fail_msg("was read: %s", wrong[i].text);
		assert_null(cells);
		assert_contains(err.msg, wrong[i].says);
	}
}

static void depth_and_types_have_limits(void **state)
{
	_cleanup_buf_ struct buf deep = BUF_INIT(1 << 20), many = BUF_INIT(1 << 20);
	struct place_cells *cells = NULL;
	struct error err = {0};

	buf_add_text(&deep, "cellTypes:\n");
	for (unsigned int i = 0; i < CELL_DEPTH_MAX; i++)
		buf_addf(&deep,
			"  T%u: {childCellType: T%u, childCellNumber: 1, isNodeLevel: true}\n", i,
			i + 1);
	buf_add_text(&deep, "cells:\n- cellType: T1\n  cellId: n\n");
	assert_int_equal(place_cells_parse(buf_str(&deep), &cells, &err), -E2BIG);
	assert_contains(err.msg, "type 'T0': 17 cells are nested; at most 16");

	buf_add_text(&many, "cellTypes:\n");
	for (unsigned int i = 0; i < CELL_TYPES_MAX; i++)
		buf_addf(&many, "  T%u: {childCellType: V}\n", i);
	buf_add_text(&many, "cells: []\n");
	assert_int_equal(place_cells_parse(buf_str(&many), &cells, &err), -E2BIG);
	assert_contains(err.msg, "more than 1024 types and models");
	assert_null(cells);
}

static void files_have_a_greatest_size(void **state)
{
	_cleanup_free_ char *text = calloc(1, CELL_FILE_MAX + 1);
	struct place_cells *cells = NULL;
	struct error err = {0};

	assert_int_equal(
		place_cells_parse((struct str){text, CELL_FILE_MAX + 1}, &cells, &err), -E2BIG);
	assert_contains(err.msg, "16777217 bytes");
}

/* ---- near and far ---- */

static const uint8_t numa_of[] = {0, 0, 0, 0, 1, 1}, link_of[] = {0, 0, 1, 1, 0, 0};

static struct place *cluster(const struct place_cells *cells, const char *model, uint32_t n_devices,
	const char *const *names, uint32_t n_names)
{
	struct place_config config = {.policy = &place_first_fit, .cells = cells};
	struct place_device_info devices[8] = {0};
	struct place *place;
	uint64_t bit;

	assert_ok(place_new(&config, &place, NULL));
	assert_ok(place_model(place, model, &bit, NULL));
	for (uint32_t i = 0; i < n_devices; i++)
		devices[i] = (struct place_device_info){
			.memory_bytes = 1 << 30, .numa = numa_of[i], .link = link_of[i]};
	for (uint32_t i = 0; i < n_names; i++) {
		struct place_node_info info = {.name = names[i],
			.rack = i == 2 ? "r2" : "r1",
			.n_devices = n_devices,
			.devices = devices};
		uint32_t node;

		assert_ok(place_node_add(place, &info, &node, NULL));
	}
	return place;
}

static void distances_are_found(void **state)
{
	static const char *const names[] = {"a", "b", "c"};
	_cleanup_place_ struct place *place = cluster(NULL, "V", 6, names, 3);
	struct place_cell_path a, b;

	assert_int_equal(place_distance(place, 0, 0), 0);
	assert_int_equal(place_distance(place, 0, 1), 1);
	assert_int_equal(place_distance(place, 0, 2), 2);
	assert_int_equal(place_distance(place, 0, 4), 3);
	assert_int_equal(place_distance(place, 0, 6), 4);
	assert_int_equal(place_distance(place, 0, 12), CELL_FAR);
	/*
	 * Within a node, place_distance() needs no path but must give the same distance as the
	 * paths.
	 */
	for (uint32_t i = 0; i < 6; i++)
		for (uint32_t k = 0; k < 6; k++) {
			place_cell_path(place, i, &a);
			place_cell_path(place, k, &b);
			assert_int_equal(place_distance(place, i, k), place_cell_steps(&a, &b));
		}
	assert_int_equal(place_cell_priority(place, 0), 0);
}

static void distances_are_given(void **state)
{
	static const char *const names[] = {"juno", "apple", "ubuntu"};
	_cleanup_cells_ struct place_cells *cells = NULL;
	_cleanup_place_ struct place *place = NULL;
	struct place_cell_path a, b;

	assert_ok(place_cells_parse(str_from(nodes), &cells, NULL));
	place = cluster(cells, "NVIDIA GeForce GTX 1080", 2, names, 3);
	assert_int_equal(place_distance(place, 0, 1), 1);
	assert_int_equal(place_distance(place, 0, 2), 2);
	/* In the file, the devices of node ubuntu have another model. */
	assert_int_equal(place_distance(place, 0, 4), CELL_FAR);
	assert_int_equal(place_cell_priority(place, 0), 11);
	assert_int_equal(place_cell_priority(place, 4), 0);

	/*
	 * The ids are 1/juno/1 and 1/apple/4, because leaves are numbered across all nodes of the
	 * root.
	 */
	place_cell_path(place, 0, &a);
	place_cell_path(place, 3, &b);
	assert_int_equal(a.n, 3);
	assert_int_equal(a.part[0].number, 1);
	assert_int_equal(b.part[0].number, 4);
	assert_int_equal(a.part[2].number, 1);
	assert_int_equal(place_cell_id_distance(&a, &b), 3 + 100);
	assert_int_equal(place_cell_id_distance(&a, &a), 0);
}

static void ids_of_different_length(void **state)
{
	struct place_cell_path a = {
		.n = 2, .part = {{.number = 3, .cell = 1}, {.name = STR("n"), .cell = 2}}};
	struct place_cell_path b = {.n = 4,
		.part = {{.number = 1, .cell = 3}, {.name = STR("n"), .cell = 4},
			{.number = 7, .cell = 5}, {.name = STR("hall"), .cell = 6}}};

	assert_int_equal(place_cell_id_distance(&a, &b), 2 + 0 + 7 + 100);
	assert_int_equal(place_cell_id_distance(&b, &a), 2 + 0 + 7 + 100);
	assert_int_equal(place_cell_steps(&a, &b), CELL_FAR);
	b.part[1].number = 5; /* now one path has a number here and the other a name */
	b.part[1].name = STR_NONE;
	assert_int_equal(place_cell_id_distance(&a, &b), 2 + 100 + 7 + 100);
}

UNIT_MAIN(UNIT(nodes_are_read), UNIT(two_cells_may_be_of_one_node), UNIT(refusals_name_the_line),
	UNIT(depth_and_types_have_limits), UNIT(files_have_a_greatest_size),
	UNIT(distances_are_found), UNIT(distances_are_given), UNIT(ids_of_different_length))
