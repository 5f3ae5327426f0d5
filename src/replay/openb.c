/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Splits the text of a trace into lines and cells, and reads each row with the function for nodes
 * or for pods. read_rows() takes the titles from the first line that is not empty. Every later row
 * must have as many columns as that line. The first n_required titles of `wanted` must be present;
 * other columns may be missing or have empty cells. openb_order() has its own loop, because a file
 * of an order has no titles and no columns. The first fault ends the reading, and the rows read so
 * far are freed.
 */
#include "replay/openb.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/parse.h"
#include "base/cleanup.h"
#include "spec/spec.h"

#define COLUMNS_MAX 64u
#define MIB (1ull << 20)
#define BYTE_ORDER_MARK STR("\xef\xbb\xbf")

struct row {
	struct str cell[COLUMNS_MAX];
	uint32_t n, line;
};

struct titles {
	const char *const *wanted; /* NULL at the end */
	uint32_t n_required;
	uint32_t at[16]; /* column of each wanted title; COLUMNS_MAX: missing */
	uint32_t n;
};

/*
 * A quote is part of a cell, and a comma inside quotes still separates two cells. Such a cell is
 * only a part of the value that the author meant, so it is an error.
 */
static bool is_cut(struct str cell)
{
	return str_has_prefix(cell, STR("\"")) && (cell.n == 1 || !str_has_suffix(cell, STR("\"")));
}

static int openb_split_line(struct str line, uint32_t number, struct row *ret, struct error *err)
{
	struct str cell;

	for (size_t i = 0; i < line.n; i++)
		if ((unsigned char)line.p[i] < ' ' && line.p[i] != '\t')
			return fail(err, EINVAL, "line %u: byte 0x%02x: expected text", number,
				(unsigned int)line.p[i]);
	ret->n = 0;
	ret->line = number;
	while (str_split(&line, ',', &cell)) {
		if (ret->n == COLUMNS_MAX)
			return fail(err, EINVAL, "line %u: the line has more than %u columns",
				number, COLUMNS_MAX);
		cell = str_trim(cell);
		if (is_cut(cell))
			return fail(err, EINVAL,
				"line %u: column %u: '%.*s' has a quote; expected cells without "
				"quotes and commas",
				number, ret->n + 1, (int)MIN(cell.n, 32u), cell.p);
		ret->cell[ret->n++] = cell;
	}
	return 0;
}

static int read_titles(const struct row *row, struct titles *t, struct error *err)
{
	t->n = row->n;
	for (uint32_t w = 0; t->wanted[w]; w++) {
		t->at[w] = COLUMNS_MAX;
		for (uint32_t c = 0; c < row->n; c++) {
			if (!str_is(row->cell[c], t->wanted[w]))
				continue;
			if (t->at[w] != COLUMNS_MAX)
				return fail(err, EINVAL, "the first line names column '%s' twice",
					t->wanted[w]);
			t->at[w] = c;
		}
		if (w < t->n_required && t->at[w] == COLUMNS_MAX)
			return fail(err, EINVAL, "the first line has no column '%s'", t->wanted[w]);
	}
	return 0;
}

static struct str openb_cell(const struct row *row, const struct titles *t, uint32_t wanted)
{
	return t->at[wanted] < row->n ? row->cell[t->at[wanted]] : STR("");
}

static int openb_number(const struct row *row, const struct titles *t, uint32_t wanted,
	uint64_t max, uint64_t *ret, struct error *err)
{
	struct str text = openb_cell(row, t, wanted);

	if (t->at[wanted] == COLUMNS_MAX || (wanted >= t->n_required && text.n == 0)) {
		*ret = 0;
		return 0;
	}
	if (parse_uint(text, 0, max, ret, NULL) < 0)
		return fail(err, EINVAL,
			"line %u: %s '%" STR_FMT "': expected a whole number from 0 to %" PRIu64,
			row->line, t->wanted[wanted], STR_ARG(text), max);
	return 0;
}

/*
 * Calls `one` for each line after the titles. *ret is an array with an item of `size` bytes for
 * each of these lines.
 */
static int read_rows(struct str text, struct titles *t, size_t size,
	int (*one)(const struct row *, const struct titles *, void *, struct error *), void **ret,
	struct error *err)
{
	uint32_t n = 0, room = 0, line_number = 0;
	bool has_titles = false;
	char *items = NULL;
	struct str line;
	struct row row;
	int r = 0;

	str_skip_prefix(&text, BYTE_ORDER_MARK);
	while (r == 0 && str_split(&text, '\n', &line)) {
		line_number++;
		line = str_trim(line);
		if (!line.n)
			continue;
		r = openb_split_line(line, line_number, &row, err);
		if (r < 0)
			break;
		if (!has_titles) {
			has_titles = true;
			r = read_titles(&row, t, err);
			continue;
		}
		if (n == OPENB_ROWS_MAX) {
			r = fail(err, EINVAL, "line %u: the file has more than %u rows",
				line_number, n);
			break;
		}
		if (array_grow(&items, &room, n + 1, size) < 0) {
			r = fail(err, ENOMEM, "out of memory for %u rows", n);
			break;
		}
		if (row.n != t->n)
			r = fail(err, EINVAL,
				"line %u: the line has %u columns; the first line has %u",
				line_number, row.n, t->n);
		else
			r = one(&row, t, items + n++ * size, err);
	}
	if (r == 0 && n == 0)
		r = fail(err, EINVAL, "the file has no row after the first line");
	if (r < 0) {
		free(items);
		return r;
	}
	*ret = items;
	return (int)n;
}

/* ---- nodes ---- */

enum { NODE_NAME, NODE_CPU, NODE_MEMORY, NODE_GPU, NODE_MODEL };
static const char *const node_titles[] = {"sn", "cpu_milli", "memory_mib", "gpu", "model", NULL};

static int openb_read_node(
	const struct row *row, const struct titles *t, void *item, struct error *err)
{
	struct openb_node *node = item;
	uint64_t cpu, memory, n;
	int r;

	r = openb_number(row, t, NODE_CPU, INT32_MAX, &cpu, err);
	if (r == 0)
		r = openb_number(row, t, NODE_MEMORY, UINT32_MAX, &memory, err);
	if (r == 0)
		r = openb_number(row, t, NODE_GPU, OPENB_DEVICES_MAX, &n, err);
	if (r < 0)
		return r;
	*node = (struct openb_node){.name = openb_cell(row, t, NODE_NAME),
		.model = openb_cell(row, t, NODE_MODEL),
		.line = row->line,
		.cpu_milli = (uint32_t)cpu,
		.n_devices = (uint32_t)n,
		.memory_bytes = memory * MIB};
	if (!node->name.n || node->name.n >= SPEC_LABEL)
		return fail(err, EINVAL, "line %u: sn '%.*s': expected 1 to %u characters",
			row->line, (int)MIN(node->name.n, SPEC_LABEL), node->name.p,
			SPEC_LABEL - 1);
	if (node->model.n >= SPEC_LABEL)
		return fail(err, EINVAL, "line %u: model '%.*s': expected at most %u characters",
			row->line, (int)SPEC_LABEL, node->model.p, SPEC_LABEL - 1);
	return 0;
}

int openb_nodes(struct str text, struct openb_node **ret, struct error *err)
{
	struct titles t = {.wanted = node_titles, .n_required = NODE_MODEL};

	return read_rows(text, &t, sizeof(**ret), openb_read_node, (void **)ret, err);
}

/* ---- pods ---- */

enum { POD_NAME, POD_CPU, POD_MEMORY, POD_COUNT, POD_SHARE, POD_MODELS, POD_CREATED, POD_DELETED };
static const char *const pod_titles[] = {"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli",
	"gpu_spec", "creation_time", "deletion_time", NULL};

static int openb_read_pod(
	const struct row *row, const struct titles *t, void *item, struct error *err)
{
	uint64_t cpu, memory, count, share, created, deleted;
	struct openb_pod *pod = item;
	int r;

	r = openb_number(row, t, POD_CPU, INT32_MAX, &cpu, err);
	if (r == 0)
		r = openb_number(row, t, POD_MEMORY, UINT32_MAX, &memory, err);
	if (r == 0)
		r = openb_number(row, t, POD_COUNT, SPEC_DEVICES_MAX, &count, err);
	if (r == 0)
		r = openb_number(row, t, POD_SHARE, SPEC_SHARE_ONE, &share, err);
	if (r == 0)
		r = openb_number(row, t, POD_CREATED, UINT32_MAX, &created, err);
	if (r == 0)
		r = openb_number(row, t, POD_DELETED, UINT32_MAX, &deleted, err);
	if (r < 0)
		return r;
	if (!count != !share)
		return fail(err, EINVAL,
			"line %u: num_gpu %" PRIu64 " with gpu_milli %" PRIu64
			": one of the two is 0; expected both 0 or none",
			row->line, count, share);
	if (openb_cell(row, t, POD_DELETED).n && deleted < created)
		return fail(err, EINVAL,
			"line %u: deletion_time %" PRIu64 " is before creation_time %" PRIu64,
			row->line, deleted, created);
	if (!openb_cell(row, t, POD_NAME).n)
		return fail(err, EINVAL, "line %u: name '': expected the name of a pod", row->line);
	*pod = (struct openb_pod){.name = openb_cell(row, t, POD_NAME),
		.models = openb_cell(row, t, POD_MODELS),
		.line = row->line,
		.cpu_milli = (uint32_t)cpu,
		.share = (uint32_t)share,
		.count = (uint32_t)count,
		.memory_bytes = memory * MIB,
		.created_s = created,
		.deleted_s = deleted,
		.has_times = openb_cell(row, t, POD_CREATED).n &&
			openb_cell(row, t, POD_DELETED).n};
	return 0;
}

int openb_pods(struct str text, struct openb_pod **ret, struct error *err)
{
	struct titles t = {.wanted = pod_titles, .n_required = POD_MODELS};

	return read_rows(text, &t, sizeof(**ret), openb_read_pod, (void **)ret, err);
}

/* ---- orders ---- */

int openb_order(struct str text, uint32_t n_rows, uint32_t **ret, struct error *err)
{
	uint32_t n = 0, room = 0, line_number = 0, *items = NULL;
	struct str line;
	uint64_t row;

	if (array_grow(&items, &room, 1, sizeof(*items)) < 0)
		return fail(err, ENOMEM, "out of memory for an order");
	str_skip_prefix(&text, BYTE_ORDER_MARK);
	while (str_split(&text, '\n', &line)) {
		line_number++;
		line = str_trim(line);
		if (!line.n)
			continue;
		if (!n_rows || n == OPENB_ROWS_MAX ||
			parse_uint(line, 0, n_rows - 1, &row, NULL) < 0) {
			free(items);
			return fail(err, EINVAL,
				"line %u: '%.*s': expected the index of one of %u rows",
				line_number, (int)MIN(line.n, 32u), line.p, n_rows);
		}
		if (array_grow(&items, &room, n + 1, sizeof(*items)) < 0) {
			free(items);
			return fail(err, ENOMEM, "out of memory for %u rows", n);
		}
		items[n++] = (uint32_t)row;
	}
	*ret = items;
	return (int)n;
}
