/* SPDX-License-Identifier: Apache-2.0 */
/* What the tree of cells is made of, for its reader. See place-cell.h. */
#ifndef PLACE_PLACE_CELL_INTERNAL_H
#define PLACE_PLACE_CELL_INTERNAL_H

#include "place/place-cell.h"
#include "place/place-internal.h"

/* A type of the file, or a model: what is no type is one. */
struct cell_type {
	UT_hash_handle hh;
	char name[CELL_NAME];
	char child_name[CELL_NAME]; /* "": a model */
	struct cell_type *child;
	uint32_t number, priority;
	unsigned int line;
	bool has_priority, says_node;
	bool is_node, is_above; /* as it turns out: the lowest that says so is the node */
};

struct cell_node {
	UT_hash_handle hh;
	uint32_t first, last, n; /* its leaves, linked by next */
	char name[];
};

struct cell {
	const struct cell_type *type;
	struct cell_node *node; /* NULL above nodes */
	char *name;             /* NULL: the number is its id */
	uint32_t number;
	uint32_t parent, first_child, n_children, next;
};

struct place_cells {
	struct cell_type *types; /* CELL_TYPES_MAX, which do not move */
	struct cell_type *by_name;
	uint32_t n_types;
	struct cell_node *nodes;
	struct cell *cells;
	uint32_t n, size;
};

#endif
