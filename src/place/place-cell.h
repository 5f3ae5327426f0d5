/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cells: what is near to what. A tree whose leaves are devices, found from what nodes say of
 * themselves (rack > node > NUMA node > link > device), or given by KubeShare 2.0's file
 * (replay/cell-file.h).
 *
 * Ids that are not given are KubeShare's: of a root its place in the list, from 1; of others that
 * in their level below the root. A cell's id is "parent's/own". Pure; a tree that is read is not
 * changed any more, and any thread may use it.
 */
#ifndef PLACE_PLACE_CELL_H
#define PLACE_PLACE_CELL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "spec/spec.h"

#define CELL_TYPES_MAX 1024u
#define CELLS_MAX (1u << 20)
#define CELL_DEPTH_MAX 16u
#define CELL_NAME SPEC_LABEL /* of a type, a model, an id; with the byte behind it */
#define CELL_ROOT_PARTS 8u   /* of a root's id: "hall2/row7/rack3/node1" has four */
#define CELL_PRIORITY_MAX 1000u

#define CELL_PATH_MAX (CELL_DEPTH_MAX + CELL_ROOT_PARTS)
#define CELL_FAR CELL_PATH_MAX /* no cell holds both */

struct place;
struct place_cells;

void place_cells_free(struct place_cells *cells);

uint32_t place_cells_n(const struct place_cells *cells);

struct place_cell_view {
	const char *type;     /* of a leaf: the model; borrowed, as node */
	const char *node;     /* "" above nodes */
	uint32_t parent;      /* PLACE_NONE: it is a root */
	uint32_t first_child; /* children are next to each other */
	uint32_t n_children;  /* 0: it is a device */
	uint32_t priority;    /* of a leaf */
};

/* at < place_cells_n(): roots come before what is in them. */
void place_cell_get(const struct place_cells *cells, uint32_t at, struct place_cell_view *ret_view);

/*
 * The node's device of that model, or with NULL of any, `nth` from 0 in the order of the file, or
 * PLACE_NONE. In models a blank and a '-' are the same.
 */
uint32_t place_cells_leaf(
	const struct place_cells *cells, const char *node, const char *model, uint32_t nth);

/* ---- where a device is ---- */

/* A step of the way from a device up. */
struct place_cell_part {
	struct str name; /* n == 0: it is a number */
	uint32_t number;
	uint32_t cell; /* of the file; PLACE_NONE: found */
};

struct place_cell_path {
	uint32_t n;
	struct place_cell_part part[CELL_PATH_MAX]; /* borrowed until the next change */
};

/* By the file of the configuration where it names the device, else as found. */
void place_cell_path(const struct place *place, uint32_t device, struct place_cell_path *ret_path);

/*
 * How many steps up from the device the two meet: 0 for the same. As found: 1 on the same link, 2
 * on the same NUMA node, 3 on the same node, 4 in the same rack. CELL_FAR where they do not meet.
 */
uint32_t place_cell_steps(const struct place_cell_path *a, const struct place_cell_path *b);

/*
 * How many cells above their nodes the two meet: 0 on the same node, 1 in the same rack as found or
 * in the cell that is next above the node's in the file. CELL_FAR: nowhere; a node without a rack
 * meets no other.
 */
uint32_t place_cells_above(const struct place *place, uint32_t a, uint32_t b);

/* place_cell_steps() of two devices. */
uint32_t place_distance(const struct place *place, uint32_t a, uint32_t b);

/*
 * KubeShare 2.0's distance of two ids: aligned at the device, the difference of two numbers and 100
 * for two parts that differ otherwise; what only one of them has counts as the number it is, or
 * 100. At most CELL_ID_FAR.
 *
 * So KubeShare has it, and a root without id is a number: 1/a/1 is 101 from 2/c/1, in another root,
 * and 102 from 1/b/3, on the next node of two devices in its own. Only ids that are names keep
 * roots apart, as far as 100 goes.
 */
#define CELL_ID_FAR 1000000u
uint32_t place_cell_id_distance(const struct place_cell_path *a, const struct place_cell_path *b);

/* KubeShare 2.0's priority of the device's model: 0 where no file names it. */
uint32_t place_cell_priority(const struct place *place, uint32_t device);

#endif
