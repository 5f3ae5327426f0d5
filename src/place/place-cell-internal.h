/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data of the tree of cells, for place-cell.c and the reader of cell files. See place-cell.h.
 */
#ifndef PLACE_PLACE_CELL_INTERNAL_H
#define PLACE_PLACE_CELL_INTERNAL_H

#include "place/place-cell.h"
#include "place/place-internal.h"

/*
 * A cell type that the cell file defines, or a device model: a child_name that is not the name of a
 * type in the file is the name of a model.
 */
struct cell_type {
	UT_hash_handle hh;
	char name[CELL_NAME];
	char child_name[CELL_NAME]; /* "": this is a model */
	struct cell_type *child;
	uint32_t number, priority;
	unsigned int line;
	bool has_priority, says_node;
	/*
	 * is_node: the cells of this type are the nodes, because the file marks the type
	 * (says_node) and no type below it. is_above: the cells of this type contain nodes.
	 */
	bool is_node, is_above;
};

struct cell_node {
	UT_hash_handle hh;
	uint32_t first, last, n; /* leaves of the node, linked by `next` */
	char name[];
};

struct cell {
	const struct cell_type *type;
	struct cell_node *node; /* NULL for cells above nodes */
	char *name;             /* NULL: `number` is the id */
	uint32_t number;
	uint32_t parent, first_child, n_children, next;
};

struct place_cells {
	struct cell_type *types; /* CELL_TYPES_MAX elements; the array never moves */
	struct cell_type *by_name;
	uint32_t n_types;
	struct cell_node *nodes;
	struct cell *cells;
	uint32_t n, size;
};

#endif
