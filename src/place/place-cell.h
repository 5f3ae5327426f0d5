/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cells: a tree that tells which devices are near each other. Its leaves are devices. The tree
 * comes from the nodes' own data (rack > node > NUMA node > link > device), or from KubeShare 2.0's
 * file (replay/cell-file.h).
 *
 * A cell without an id gets an id by KubeShare's rule. A root gets its position in the list, from
 * 1; another cell gets its position in its level below the root. A cell's id is "parent's/own".
 * Pure. A tree does not change once it is read, and any thread may use it.
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
/* bytes of the name of a type, a model or an id, with the terminating 0 */
#define CELL_NAME SPEC_LABEL
#define CELL_ROOT_PARTS 8u /* parts of a root's id: "hall2/row7/rack3/node1" has four */
#define CELL_PRIORITY_MAX 1000u

#define CELL_PATH_MAX (CELL_DEPTH_MAX + CELL_ROOT_PARTS)
#define CELL_FAR CELL_PATH_MAX /* distance without a common cell */

struct place;
struct place_cells;

void place_cells_free(struct place_cells *cells);

uint32_t place_cells_n(const struct place_cells *cells);

struct place_cell_view {
	/* name of the cell's type, or of a leaf's device model; `type` and `node` are borrowed */
	const char *type;
	/* name of the node that the cell is or is part of; "" for a cell above nodes */
	const char *node;
	uint32_t parent;      /* number of the parent cell; PLACE_NONE: the cell is a root */
	uint32_t first_child; /* children are consecutive */
	uint32_t n_children;  /* 0: the cell is a device */
	uint32_t priority;    /* set for leaves only */
};

/* `at` is below place_cells_n(). A cell comes before the cells in it. */
void place_cell_get(const struct place_cells *cells, uint32_t at, struct place_cell_view *ret_view);

/*
 * The node's `nth` device of the model, from 0 in file order, or PLACE_NONE. A `model` of NULL
 * stands for any. A blank and a '-' in a model's name are equal.
 */
uint32_t place_cells_leaf(
	const struct place_cells *cells, const char *node, const char *model, uint32_t nth);

/* ---- location of a device ---- */

/* One step of the path from a device up to its root. */
struct place_cell_part {
	struct str name; /* n == 0: `number` is the name */
	uint32_t number;
	/* number of the cell from the file; PLACE_NONE: the part is from the node's data */
	uint32_t cell;
};

struct place_cell_path {
	uint32_t n;
	struct place_cell_part part[CELL_PATH_MAX]; /* borrowed until the next change */
};

/*
 * The device's path: from the configured cell file if the file names the device, else from the
 * node's data.
 */
void place_cell_path(const struct place *place, uint32_t device, struct place_cell_path *ret_path);

/*
 * Steps from the device up to the lowest common cell; 0 for the same device. From the nodes' data:
 * 1 same link, 2 same NUMA node, 3 same node, 4 same rack. CELL_FAR: no common cell.
 */
uint32_t place_cell_steps(const struct place_cell_path *a, const struct place_cell_path *b);

/*
 * Cells above the node up to the lowest common cell: 0 for the same node. 1: the same rack, or the
 * same cell next above the nodes in a cell file. CELL_FAR: no common cell, or a node without a
 * rack.
 */
uint32_t place_cells_above(const struct place *place, uint32_t a, uint32_t b);

/* The place_cell_steps() of two devices. */
uint32_t place_distance(const struct place *place, uint32_t a, uint32_t b);

/*
 * KubeShare 2.0's distance of two ids, whose parts are compared from the device upwards. Two
 * numbers add their difference; a name and another unequal part add 100. A part that only the
 * longer id has adds its number, or 100 for a name. At most CELL_ID_FAR.
 *
 * As in KubeShare, a root without an id is a number. So 1/a/1 is 101 from 2/c/1 in another root,
 * and 102 from 1/b/3 on the next node of its own root. Only ids that are names separate roots, by
 * 100.
 */
#define CELL_ID_FAR 1000000u
uint32_t place_cell_id_distance(const struct place_cell_path *a, const struct place_cell_path *b);

/* KubeShare 2.0's priority of the device's model; 0 if no file names the device. */
uint32_t place_cell_priority(const struct place *place, uint32_t device);

#endif
