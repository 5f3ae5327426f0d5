/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a cluster's cell file and compares the file with the cluster. See replay-cluster.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "place/place-cell.h"
#include "replay/cell-file.h"
#include "replay/replay-cluster.h"

/* Number of devices by model, in the order of each model's first device. */
struct counts {
	struct {
		const char *model;
		uint32_t n;
	} of[PLACE_NODE_DEVICES_MAX];
	uint32_t n;
};

static void cluster_cells_count_model(struct counts *counts, const char *model, uint32_t n)
{
	uint32_t i = 0;

	while (i < counts->n && strcmp(counts->of[i].model, model) != 0)
		i++;
	if (i == counts->n)
		counts->of[counts->n++].model = model;
	counts->of[i].n += n;
}

/* Writes the counts, such as "2 of 'T4' and 1 of 'A10'". */
static void format_counts(const struct counts *counts, char ret[static CLUSTER_CELLS_TEXT])
{
	_cleanup_buf_ struct buf text = BUF_INIT(CLUSTER_CELLS_TEXT);

	for (uint32_t i = 0; i < counts->n; i++)
		buf_addf(&text, "%s%" PRIu32 " of '%s'", i ? " and " : "", counts->of[i].n,
			counts->of[i].model);
	snprintf(ret, CLUSTER_CELLS_TEXT, "%s", counts->n ? buf_text(&text) : "none");
}

/*
 * Returns whether each device of the node has a leaf cell and each leaf cell has a device. The
 * search is that of set_cell() in place/place.c.
 */
static bool is_as_said(const struct cluster *c, const struct cluster_node *node,
	const struct counts *counts, uint32_t n_leaves)
{
	for (uint32_t i = 0; i < counts->n; i++)
		if (place_cells_leaf(c->cells, node->name, counts->of[i].model,
			    counts->of[i].n - 1) == PLACE_NONE)
			return false;
	return n_leaves == node->n_devices;
}

static void compare_node(
	const struct cluster *c, const struct cluster_node *node, struct cluster_cells_met *met)
{
	struct counts has = {0}, said = {0};
	struct place_cell_view cell;
	uint32_t n = 0, at;

	for (; (at = place_cells_leaf(c->cells, node->name, NULL, n)) != PLACE_NONE; n++) {
		place_cell_get(c->cells, at, &cell);
		cluster_cells_count_model(&said, cell.type, 1);
	}
	if (!n)
		return;
	for (uint32_t k = 0; k < node->n_kinds; k++)
		if (node->kinds[k].n_devices)
			cluster_cells_count_model(
				&has, c->models[node->kinds[k].model], node->kinds[k].n_devices);
	if (is_as_said(c, node, &has, n) || met->n_other++)
		return;
	met->other = node->name;
	format_counts(&has, met->has);
	format_counts(&said, met->said);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int cluster_cells_compare(
	const struct cluster *c, struct cluster_cells_met *ret_met, struct error *err)
{
	_cleanup_free_ const char **names = calloc(c->n + 1ull, sizeof(*names));
	struct cluster_cells_met met = {0};
	struct place_cell_view cell, above;

	if (!names)
		return fail(err, ENOMEM, "out of memory for %u nodes", c->n);
	for (uint32_t i = 0; i < c->n; i++)
		names[i] = c->nodes[i].name;
	qsort(names, c->n, sizeof(*names), by_text);
	for (uint32_t at = 0; c->cells && at < place_cells_n(c->cells); at++) {
		place_cell_get(c->cells, at, &cell);
		if (cell.parent != PLACE_NONE)
			place_cell_get(c->cells, cell.parent, &above);
		if (!cell.node[0] || (cell.parent != PLACE_NONE && above.node[0]))
			continue;
		met.n_nodes++;
		if (!bsearch(&cell.node, names, c->n, sizeof(*names), by_text) && !met.n_unknown++)
			met.unknown = cell.node;
	}
	for (uint32_t i = 0; c->cells && i < c->n; i++)
		compare_node(c, &c->nodes[i], &met);
	*ret_met = met;
	return 0;
}

int cluster_read_cells(struct cluster *c, struct str text, struct error *err)
{
	struct place_cells *cells, *before = c->cells;
	struct cluster_cells_met met;
	int r = place_cells_parse(text, &cells, err);

	if (r < 0)
		return r;
	c->cells = cells;
	r = cluster_cells_compare(c, &met, err);
	if (r == 0 && met.n_unknown == met.n_nodes)
		r = fail(err, EINVAL,
			"no cell is a node of the cluster; expected a cell with the name of a "
			"node as the last part of its id, such as '%s'",
			c->n ? c->nodes[0].name : "");
	if (r < 0)
		c->cells = before;
	place_cells_free(r < 0 ? cells : before);
	return r;
}
