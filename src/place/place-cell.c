/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree of cells: see place-cell.h. Without a cell file the tree is not built, and a device's
 * path comes from its node.
 */
#include "place/place-cell.h"

#include <stdlib.h>
#include <string.h>

#include "place/place-cell-internal.h"
#include "place/place-internal.h"

void place_cells_free(struct place_cells *cells)
{
	struct cell_node *node, *next;

	if (!cells)
		return;
	HASH_ITER(hh, cells->nodes, node, next) {
		HASH_DEL(cells->nodes, node);
		free(node);
	}
	HASH_CLEAR(hh, cells->by_name);
	for (uint32_t i = 0; i < cells->n; i++)
		free(cells->cells[i].name);
	free(cells->cells);
	free(cells->types);
	free(cells);
}

uint32_t place_cells_n(const struct place_cells *cells)
{
	return cells->n;
}

void place_cell_get(const struct place_cells *cells, uint32_t at, struct place_cell_view *ret)
{
	const struct cell *cell = &cells->cells[at];

	*ret = (struct place_cell_view){
		.type = cell->type->name,
		.node = cell->node ? cell->node->name : "",
		.parent = cell->parent,
		.first_child = cell->first_child,
		.n_children = cell->n_children,
		.priority = cell->type->priority,
	};
}

static bool place_cell_is_model(const char *a, const char *b)
{
	for (; *a && *b; a++, b++)
		if (*a != *b && !((*a == ' ' || *a == '-') && (*b == ' ' || *b == '-')))
			return false;
	return *a == *b;
}

uint32_t place_cells_leaf(
	const struct place_cells *cells, const char *name, const char *model, uint32_t nth)
{
	const struct cell_node *node;

	HASH_FIND_STR(cells->nodes, name, node);
	if (!node)
		return PLACE_NONE;
	for (uint32_t at = node->first; at != PLACE_NONE; at = cells->cells[at].next)
		if ((!model || place_cell_is_model(cells->cells[at].type->name, model)) &&
			nth-- == 0)
			return at;
	return PLACE_NONE;
}

/* ---- path of a device ---- */

/* A name of up to nine digits is a number. */
static struct place_cell_part place_cell_make_part(struct str name, uint32_t cell)
{
	struct place_cell_part part = {.name = name, .cell = cell};

	for (size_t i = 0; i < name.n; i++) {
		if (name.p[i] < '0' || name.p[i] > '9' || i == 9)
			return part;
		part.number = part.number * 10 + (uint32_t)(name.p[i] - '0');
	}
	part.name = STR_NONE;
	return part;
}

static void given_path(const struct place_cells *cells, uint32_t at, struct place_cell_path *ret)
{
	ret->n = 0;
	for (; at != PLACE_NONE; at = cells->cells[at].parent) {
		const struct cell *cell = &cells->cells[at];
		struct str name = str_from(cell->name);
		uint32_t id = at;

		/* Only a root's id can have several parts. */
		for (size_t i = name.n; i > 0; i--) {
			if (name.p[i - 1] != '/')
				continue;
			ret->part[ret->n++] = place_cell_make_part(
				(struct str){name.p + i, name.n - i}, id);
			name.n = i - 1;
			id = PLACE_NONE;
		}
		ret->part[ret->n++] = name.n
			? place_cell_make_part(name, id)
			: (struct place_cell_part){.number = cell->number, .cell = id};
	}
}

static void found_path(const struct place *place, uint32_t device, struct place_cell_path *ret)
{
	const struct device *d = &place->devices[device];
	const struct node *node = &place->nodes[d->node];
	uint32_t n = 0;

	ret->part[n++] = (struct place_cell_part){
		.number = device - node->first_device + 1, .cell = PLACE_NONE};
	ret->part[n++] = (struct place_cell_part){.number = d->link, .cell = PLACE_NONE};
	ret->part[n++] = (struct place_cell_part){.number = d->numa, .cell = PLACE_NONE};
	ret->part[n++] = place_cell_make_part(str_from(node->name->text), PLACE_NONE);
	ret->part[n++] = place_cell_make_part(str_from(node->rack), PLACE_NONE);
	ret->n = n;
}

void place_cell_path(const struct place *place, uint32_t device, struct place_cell_path *ret)
{
	uint32_t cell = place->devices[device].cell;

	if (cell != PLACE_NONE)
		given_path(place->config.cells, cell, ret);
	else
		found_path(place, device, ret);
}

static bool place_cell_is_same_part(
	const struct place_cell_part *a, const struct place_cell_part *b)
{
	return a->cell == b->cell && a->number == b->number && str_eq(a->name, b->name);
}

uint32_t place_cell_steps(const struct place_cell_path *a, const struct place_cell_path *b)
{
	uint32_t common = 0;

	while (common < a->n && common < b->n &&
		place_cell_is_same_part(&a->part[a->n - 1 - common], &b->part[b->n - 1 - common]))
		common++;
	return common ? MAX(a->n, b->n) - common : CELL_FAR;
}

/* Returns the index of the path's part that is the node itself. */
static uint32_t node_step(const struct place *place, const struct place_cell_path *path)
{
	uint32_t step = 0;

	if (path->part[0].cell == PLACE_NONE)
		return 3; /* found_path() has device, link and NUMA node before the node */
	while (step + 1 < path->n && path->part[step + 1].cell != PLACE_NONE &&
		place->config.cells->cells[path->part[step + 1].cell].node)
		step++;
	return step;
}

uint32_t place_cells_above(const struct place *place, uint32_t a, uint32_t b)
{
	const struct device *da = &place->devices[a], *db = &place->devices[b];
	struct place_cell_path pa, pb;
	uint32_t steps, node;

	if (da->node == db->node)
		return 0;
	if ((da->cell == PLACE_NONE) != (db->cell == PLACE_NONE) ||
		(da->cell == PLACE_NONE && !place->nodes[da->node].rack[0]))
		return CELL_FAR;
	place_cell_path(place, a, &pa);
	place_cell_path(place, b, &pb);
	steps = place_cell_steps(&pa, &pb);
	node = node_step(place, &pa);
	return steps == CELL_FAR ? CELL_FAR : MAX(steps, node + 1) - node;
}

uint32_t place_distance(const struct place *place, uint32_t a, uint32_t b)
{
	const struct device *da = &place->devices[a], *db = &place->devices[b];
	struct place_cell_path pa, pb;

	/* Two devices of one node without a cell file are the frequent case, and need no path. */
	if (da->node == db->node && da->cell == PLACE_NONE && db->cell == PLACE_NONE) {
		if (da->numa != db->numa)
			return 3;
		return da->link != db->link ? 2 : a != b;
	}
	place_cell_path(place, a, &pa);
	place_cell_path(place, b, &pb);
	return place_cell_steps(&pa, &pb);
}

static uint32_t part_distance(const struct place_cell_part *a, const struct place_cell_part *b)
{
	if (a->name.n == 0 && b->name.n == 0)
		return a->number > b->number ? a->number - b->number : b->number - a->number;
	return str_eq(a->name, b->name) ? 0 : 100;
}

uint32_t place_cell_id_distance(const struct place_cell_path *a, const struct place_cell_path *b)
{
	const struct place_cell_path *longer = a->n > b->n ? a : b;
	uint32_t n = MIN(a->n, b->n);
	uint64_t sum = 0;

	for (uint32_t i = 0; i < n; i++)
		sum += part_distance(&a->part[i], &b->part[i]);
	for (uint32_t i = n; i < longer->n; i++)
		sum += longer->part[i].name.n ? 100 : longer->part[i].number;
	return (uint32_t)MIN(sum, (uint64_t)CELL_ID_FAR);
}

uint32_t place_cell_priority(const struct place *place, uint32_t device)
{
	uint32_t cell = place->devices[device].cell;

	return cell != PLACE_NONE ? place->config.cells->cells[cell].type->priority : 0;
}
