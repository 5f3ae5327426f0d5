/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads KubeShare 2.0's file of cells: see cell-file.h. First the types, which must end in a model
 * and pass a node on the way, then each root, level by level, because that is how KubeShare numbers
 * what has no id. As there, children that are listed count, whatever number the type gives.
 */
#include "replay/cell-file.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

#include <libfyaml.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "place/place-cell-internal.h"
#include "place/place-internal.h"

#define SHOW "'%.*s'"
#define SHOWN(s) (int)MIN((s).n, (size_t)48), (s).p

struct reader {
	struct place_cells *cells;
	struct fy_node **spec; /* by cell: what the file says of it, or NULL */
	uint32_t spec_size;
	struct error *err;
};

/* What one entry says; line: where it begins, as far as that is known. */
struct cell_spec {
	struct str type, id;
	struct fy_node *children;
	size_t line;
};

static size_t line_of(struct fy_node *node)
{
	struct fy_token *token = fy_node_is_scalar(node) ? fy_node_get_scalar_token(node) : NULL;
	const struct fy_mark *mark = token ? fy_token_start_mark(token) : NULL;

	return mark ? (size_t)mark->line + 1 : 0;
}

static int get_text(
	struct reader *r, struct fy_node *node, size_t line, const char *what, struct str *ret)
{
	struct str text = STR_NONE;

	if (!node || !fy_node_is_scalar(node) || fy_node_is_alias(node))
		return fail(r->err, EINVAL, "line %zu: %s: one plain value is right", line, what);
	text.p = fy_node_get_scalar(node, &text.n);
	*ret = text.p ? text : STR("");
	return 0;
}

static int get_name(
	struct reader *r, struct fy_node *node, size_t line, const char *what, struct str *ret)
{
	struct str text;
	int e = get_text(r, node, line, what, &text);

	if (e < 0)
		return e;
	for (size_t i = 0; i < text.n; i++)
		if (iscntrl((unsigned char)text.p[i]))
			return fail(r->err, EINVAL, "line %zu: %s: it has control characters in it",
				line, what);
	if (text.n == 0 || text.n >= CELL_NAME)
		return fail(r->err, EINVAL,
			"line %zu: %s " SHOW ": 1 to %u characters are possible", line, what,
			SHOWN(text), CELL_NAME - 1);
	*ret = text;
	return 0;
}

static int get_number(struct reader *r, struct fy_node *node, size_t line, const char *what,
	uint32_t max, uint32_t *ret)
{
	struct error err = {0};
	struct str text;
	uint64_t value;
	int e = get_text(r, node, line, what, &text);

	if (e < 0)
		return e;
	if (parse_uint(text, 0, max, &value, &err) < 0)
		return fail(r->err, EINVAL, "line %zu: %s: %s", line, what, err.msg);
	*ret = (uint32_t)value;
	return 0;
}

/* YAML 1.1's words for it, in any case. */
static int get_bool(
	struct reader *r, struct fy_node *node, size_t line, const char *what, bool *ret)
{
	char word[8] = "";
	struct str text;
	int e = get_text(r, node, line, what, &text);

	if (e < 0)
		return e;
	for (size_t i = 0; i < text.n && i < sizeof(word) - 1; i++)
		word[i] = (char)tolower((unsigned char)text.p[i]);
	if (text.n >= sizeof(word) || parse_bool(str_from(word), ret, NULL) < 0)
		return fail(r->err, EINVAL, "line %zu: %s " SHOW ": true or false is right", line,
			what, SHOWN(text));
	return 0;
}

/* The next entry of a mapping, and where it is. */
static struct fy_node *next_key(
	struct reader *r, struct fy_node *map, void **at, struct str *ret_key, size_t *ret_line)
{
	struct fy_node_pair *pair = fy_node_mapping_iterate(map, at);
	struct fy_node *key = pair ? fy_node_pair_key(pair) : NULL;

	*ret_key = STR("");
	if (!pair)
		return NULL;
	if (key && fy_node_is_scalar(key)) {
		*ret_line = line_of(key);
		get_text(r, key, *ret_line, "key", ret_key);
	}
	/* A key without value has none at all. */
	return fy_node_pair_value(pair) ? fy_node_pair_value(pair) : key;
}

/* Which of the keys (a list with blanks between) it is, from 0; each may be there once. */
static int key_index(
	struct reader *r, struct str key, size_t line, const char *keys, uint32_t *seen)
{
	struct str rest = str_from(keys), word;

	for (int i = 0; str_word(&rest, &word); i++) {
		if (!str_eq(key, word))
			continue;
		if (*seen & 1u << i)
			return fail(r->err, EINVAL, "line %zu: " SHOW ": it is there twice", line,
				SHOWN(key));
		*seen |= 1u << i;
		return i;
	}
	return fail(
		r->err, EINVAL, "line %zu: " SHOW ": there are only: %s", line, SHOWN(key), keys);
}

/* ---- types ---- */

static struct cell_type *type_find(const struct place_cells *cells, struct str name)
{
	struct cell_type *type;

	HASH_FIND(hh, cells->by_name, name.p, name.n, type);
	return type;
}

static int type_new(struct reader *r, struct str name, size_t line, struct cell_type **ret)
{
	struct place_cells *cells = r->cells;
	struct cell_type *type;

	if (cells->n_types == CELL_TYPES_MAX)
		return fail(r->err, E2BIG,
			"line %zu: " SHOW ": up to %u types and models are possible", line,
			SHOWN(name), CELL_TYPES_MAX);
	type = &cells->types[cells->n_types++];
	memcpy(type->name, name.p, name.n);
	type->line = line;
	HASH_ADD_KEYPTR(hh, cells->by_name, type->name, name.n, type);
	if (!type->hh.tbl)
		return fail(r->err, ENOMEM, "out of memory for types of cells");
	*ret = type;
	return 0;
}

#define TYPE_KEYS "childCellType childCellNumber childCellPriority isNodeLevel"

static int read_type_key(
	struct reader *r, struct cell_type *type, int key, struct fy_node *value, size_t line)
{
	struct str child = STR_NONE;
	int e = key;

	switch (key) {
	case 0:
		e = get_name(r, value, line, "childCellType", &child);
		if (e == 0)
			memcpy(type->child_name, child.p, child.n);
		break;
	case 1: e = get_number(r, value, line, "childCellNumber", CELLS_MAX, &type->number); break;
	case 2:
		type->has_priority = true;
		e = get_number(
			r, value, line, "childCellPriority", CELL_PRIORITY_MAX, &type->priority);
		break;
	case 3: e = get_bool(r, value, line, "isNodeLevel", &type->says_node); break;
	default: break; /* it was refused */
	}
	return e;
}

static int read_type(struct reader *r, struct cell_type *type, struct fy_node *map)
{
	struct fy_node *value;
	void *at = NULL;
	uint32_t seen = 0;
	struct str key;
	size_t line;
	int e = 0;

	while (e == 0 && (value = next_key(r, map, &at, &key, &line)))
		e = read_type_key(r, type, key_index(r, key, line, TYPE_KEYS, &seen), value, line);
	return e;
}

static int read_types(struct reader *r, struct fy_node *map, size_t line)
{
	struct fy_node *body;
	struct cell_type *type;
	struct str name;
	void *at = NULL;
	int e;

	if (!fy_node_is_mapping(map))
		return fail(r->err, EINVAL, "line %zu: cellTypes: names of types are right", line);
	while ((body = next_key(r, map, &at, &name, &line))) {
		if (name.n == 0 || name.n >= CELL_NAME)
			return fail(r->err, EINVAL,
				"line %zu: type " SHOW ": 1 to %u characters are possible", line,
				SHOWN(name), CELL_NAME - 1);
		if (type_find(r->cells, name))
			return fail(r->err, EINVAL, "line %zu: type " SHOW ": it is there twice",
				line, SHOWN(name));
		e = type_new(r, name, line, &type);
		if (e == 0 && fy_node_is_mapping(body))
			e = read_type(r, type, body);
		if (e == 0 && !type->child_name[0])
			e = fail(r->err, EINVAL, "line %zu: type '%s': childCellType is missing",
				type->line, type->name);
		if (e < 0)
			return e;
	}
	return 0;
}

/* What it consists of: a type, or a model, whose priority this is then. */
static int link_type(struct reader *r, struct cell_type *type)
{
	struct str name = str_from(type->child_name);
	int e;

	type->child = type_find(r->cells, name);
	if (!type->child) {
		e = type_new(r, name, type->line, &type->child);
		if (e < 0)
			return e;
	}
	if (type->child->child_name[0] || !type->has_priority)
		return 0;
	if (type->child->has_priority && type->child->priority != type->priority)
		return fail(r->err, EINVAL,
			"line %zu: type '%s': childCellPriority %u: '%s' has %u already, a model "
			"has one",
			type->line, type->name, type->priority, type->child->name,
			type->child->priority);
	type->child->has_priority = true;
	type->child->priority = type->priority;
	return 0;
}

static int check_type(struct reader *r, struct cell_type *type)
{
	uint32_t depth = 1;

	for (const struct cell_type *t = type->child; t; t = t->child) {
		type->is_above |= t->says_node;
		if (t == type || ++depth > CELL_TYPES_MAX)
			return fail(r->err, EINVAL, "line %zu: type '%s': it contains itself",
				type->line, type->name);
	}
	type->is_node = type->says_node && !type->is_above;
	if (depth > CELL_DEPTH_MAX)
		return fail(r->err, E2BIG,
			"line %zu: type '%s': %u cells within each other, up to %u are possible",
			type->line, type->name, depth, CELL_DEPTH_MAX);
	return 0;
}

static int check_types(struct reader *r)
{
	const uint32_t n = r->cells->n_types; /* models come behind */
	int e = 0;

	for (uint32_t i = 0; e == 0 && i < n; i++)
		e = link_type(r, &r->cells->types[i]);
	for (uint32_t i = 0; e == 0 && i < n; i++)
		e = check_type(r, &r->cells->types[i]);
	/* Of a type this is what its child has: only models have one of their own. */
	for (uint32_t i = 0; e == 0 && i < n; i++)
		r->cells->types[i].priority = 0;
	return e;
}

/* ---- cells ---- */

static int get_list(struct reader *r, struct fy_node *node, size_t line, struct fy_node **ret)
{
	if (!fy_node_is_sequence(node))
		return fail(r->err, EINVAL, "line %zu: a list of cells is right", line);
	*ret = node;
	return 0;
}

static int read_spec(struct reader *r, struct fy_node *node, size_t line, struct cell_spec *ret)
{
	struct cell_spec spec = {.line = line};
	struct fy_node *value;
	uint32_t seen = 0;
	void *at = NULL;
	struct str key;
	int e = 0;

	*ret = spec;
	if (!node || fy_node_is_null(node))
		return 0;
	if (!fy_node_is_mapping(node))
		return fail(r->err, EINVAL,
			"line %zu: a cell: cellType, cellId or cellChildren are right",
			fy_node_is_scalar(node) ? line_of(node) : line);
	while (e == 0 && (value = next_key(r, node, &at, &key, &spec.line))) {
		e = key_index(r, key, spec.line, "cellType cellId cellChildren", &seen);
		if (e == 0)
			e = get_name(r, value, spec.line, "cellType", &spec.type);
		else if (e == 1)
			e = get_name(r, value, spec.line, "cellId", &spec.id);
		else if (e == 2)
			e = get_list(r, value, spec.line, &spec.children);
	}
	if (e == 0)
		*ret = spec;
	return e;
}

static int cell_new(struct reader *r, const struct cell_type *type, uint32_t parent,
	struct fy_node *spec, size_t line)
{
	struct place_cells *cells = r->cells;
	int e;

	if (cells->n == CELLS_MAX)
		return fail(r->err, E2BIG, "line %zu: cell of type '%s': up to %u are possible",
			line, type->name, CELLS_MAX);
	e = array_grow(&cells->cells, &cells->size, cells->n + 1, sizeof(*cells->cells));
	if (e == 0)
		e = array_grow(&r->spec, &r->spec_size, cells->n + 1, sizeof(*r->spec));
	if (e < 0)
		return fail(r->err, -e, "out of memory for %u cells", cells->n + 1);
	r->spec[cells->n] = spec;
	cells->cells[cells->n++] = (struct cell){
		.type = type, .parent = parent, .next = PLACE_NONE};
	return 0;
}

static int set_id(struct reader *r, uint32_t at, const struct cell_spec *spec, uint32_t number)
{
	struct cell *cell = &r->cells->cells[at];
	uint32_t parts = 1;

	cell->number = number;
	for (size_t i = 0; i < spec->id.n; i++)
		if (spec->id.p[i] == '/') {
			/* No part may be empty: the last is a node's name. */
			if (i == 0 || i + 1 == spec->id.n || spec->id.p[i - 1] == '/')
				return fail(r->err, EINVAL,
					"line %zu: cellId " SHOW ": names between '/' are right",
					spec->line, SHOWN(spec->id));
			parts++;
		}
	if (parts > (cell->parent == PLACE_NONE ? CELL_ROOT_PARTS : 1))
		return fail(r->err, EINVAL,
			"line %zu: cellId " SHOW ": up to %u parts at the top, and one in a cell",
			spec->line, SHOWN(spec->id), CELL_ROOT_PARTS);
	if (!spec->id.n)
		return 0;
	cell->name = str_dup(spec->id);
	return cell->name ? 0 : fail(r->err, ENOMEM, "line %zu: out of memory", spec->line);
}

/* The node of that cell's name, new or with other cells of the same. */
static int set_node(struct reader *r, struct cell *cell)
{
	char number[16];
	const char *name = cell->name;
	struct cell_node *node;
	size_t n;

	snprintf(number, sizeof(number), "%u", cell->number);
	if (name && strrchr(name, '/'))
		name = strrchr(name, '/') + 1;
	if (!name)
		name = number;
	HASH_FIND_STR(r->cells->nodes, name, node);
	if (!node) {
		n = strlen(name);
		node = calloc(1, sizeof(*node) + n + 1);
		if (!node)
			return fail(r->err, ENOMEM, "out of memory for node %s", name);
		memcpy(node->name, name, n);
		node->first = node->last = PLACE_NONE;
		HASH_ADD_KEYPTR(hh, r->cells->nodes, node->name, n, node);
		if (!node->hh.tbl) {
			free(node);
			return fail(r->err, ENOMEM, "out of memory for node %s", name);
		}
	}
	cell->node = node;
	return 0;
}

static int add_leaf(struct reader *r, uint32_t at, const struct cell_spec *spec)
{
	struct cell *cells = r->cells->cells;
	struct cell_node *node = cells[at].node;

	if (spec->children)
		return fail(r->err, EINVAL, "line %zu: '%s' is a model: it has no cells in it",
			spec->line, cells[at].type->name);
	if (node->n == PLACE_NODE_DEVICES_MAX)
		return fail(r->err, E2BIG,
			"line %zu: node '%s': up to %u devices of a node are possible", spec->line,
			node->name, PLACE_NODE_DEVICES_MAX);
	if (node->n++)
		cells[node->last].next = at;
	else
		node->first = at;
	node->last = at;
	return 0;
}

static int add_children(struct reader *r, uint32_t at, const struct cell_spec *spec)
{
	const struct cell_type *type = r->cells->cells[at].type;
	uint32_t first = r->cells->n;
	struct fy_node *child;
	void *i = NULL;
	int e = 0;

	while (e == 0 && spec->children && (child = fy_node_sequence_iterate(spec->children, &i)))
		e = cell_new(r, type->child, at, child, spec->line);
	if (r->cells->n == first)
		for (uint32_t k = 0; e == 0 && k < type->number; k++)
			e = cell_new(r, type->child, at, NULL, spec->line);
	if (e == 0 && r->cells->n == first)
		e = fail(r->err, EINVAL,
			"line %zu: type '%s': childCellNumber is missing, and no cellChildren are "
			"listed",
			type->line, type->name);
	r->cells->cells[at].first_child = first;
	r->cells->cells[at].n_children = r->cells->n - first;
	return e;
}

static int build_cell(struct reader *r, uint32_t at, uint32_t number, size_t line)
{
	struct cell *cell = &r->cells->cells[at];
	const struct cell_type *type = cell->type;
	struct cell_spec spec;
	int e;

	e = read_spec(r, r->spec[at], line, &spec);
	if (e < 0)
		return e;
	if (spec.type.n && !str_is(spec.type, type->name))
		return fail(r->err, EINVAL, "line %zu: cellType " SHOW ": '%s' consists of '%s'",
			spec.line, SHOWN(spec.type), r->cells->cells[cell->parent].type->name,
			type->name);
	e = set_id(r, at, &spec, number);
	if (e == 0 && type->is_node)
		e = set_node(r, cell);
	else if (cell->parent != PLACE_NONE)
		cell->node = r->cells->cells[cell->parent].node;
	if (e < 0)
		return e;
	return type->child ? add_children(r, at, &spec) : add_leaf(r, at, &spec);
}

/* Level by level: what has no id is numbered through each. */
static int build_root(struct reader *r, struct fy_node *node, uint32_t number, size_t line)
{
	uint32_t at = r->cells->n, first = at, end = at + 1;
	const struct cell_type *type;
	struct cell_spec spec;
	int e;

	e = read_spec(r, node, line, &spec);
	if (e < 0)
		return e;
	if (!spec.type.n)
		return fail(r->err, EINVAL, "line %zu: cell %u: cellType is missing", spec.line,
			number);
	type = type_find(r->cells, spec.type);
	if (!type || !type->child)
		return fail(r->err, EINVAL, "line %zu: cellType " SHOW ": cellTypes has none such",
			spec.line, SHOWN(spec.type));
	if (!type->is_node && !type->is_above)
		return fail(r->err, EINVAL,
			"line %zu: cellType '%s': neither it nor what it consists of, down to the "
			"model '%s', has isNodeLevel: true",
			spec.line, type->name, type->child->name);
	e = cell_new(r, type, PLACE_NONE, node, spec.line);
	if (e == 0)
		e = build_cell(r, at, number, spec.line);
	while (e == 0 && ++at < r->cells->n) {
		if (at == end) {
			first = at;
			end = r->cells->n;
		}
		e = build_cell(r, at, at - first + 1, spec.line);
	}
	return e;
}

static int read_cells(struct reader *r, struct fy_node *node, size_t line)
{
	struct fy_node *list = NULL, *root;
	uint32_t number = 0;
	void *at = NULL;
	int e = get_list(r, node, line, &list);

	while (e == 0 && (root = fy_node_sequence_iterate(list, &at)))
		e = build_root(r, root, ++number, line);
	if (e == 0 && !number)
		e = fail(r->err, EINVAL,
			"line %zu: cells: the list is empty: at least one is needed", line);
	return e;
}

static int read_root(struct reader *r, struct fy_node *root)
{
	struct fy_node *part[2] = {NULL}, *value;
	size_t line = 1, lines[2] = {0};
	uint32_t seen = 0;
	void *at = NULL;
	struct str key;
	int e;

	if (!root || !fy_node_is_mapping(root))
		return fail(r->err, EINVAL, "line 1: cellTypes and cells are right");
	while ((value = next_key(r, root, &at, &key, &line))) {
		e = key_index(r, key, line, "cellTypes cells", &seen);
		if (e < 0)
			return e;
		part[e] = value;
		lines[e] = line;
	}
	if (!part[0] || !part[1])
		return fail(r->err, EINVAL, "%s: missing", part[0] ? "cells" : "cellTypes");
	e = read_types(r, part[0], lines[0]);
	if (e == 0)
		e = check_types(r);
	return e < 0 ? e : read_cells(r, part[1], lines[1]);
}

/*
 * What no file of cells has in it and the parser does not always survive: on a directive in broken
 * UTF-8 version 0.7.12 does not come back.
 */
static int check_text(struct str text, struct error *err)
{
	const unsigned char *p = (const unsigned char *)text.p;
	size_t line = 1, length;

	for (size_t i = 0; i < text.n; i += length) {
		length = str_utf8((struct str){text.p + i, text.n - i});
		if (!length || (p[i] < ' ' && !strchr("\t\n\r", p[i])) || p[i] == 0x7f || !p[i])
			return fail(err, EINVAL, "line %zu: byte 0x%02x: text in UTF-8 is right",
				line, p[i]);
		if (p[i] == '%' && (i == 0 || p[i - 1] == '\n' || p[i - 1] == '\r'))
			return fail(err, EINVAL, "line %zu: '%%': there are no directives", line);
		line += p[i] == '\n';
	}
	return 0;
}

/* What the YAML parser says first. */
static int fail_yaml(struct fy_diag *diag, struct error *err)
{
	struct fy_diag_error *first;
	void *at = NULL;

	first = fy_diag_errors_iterate(diag, &at);
	if (!first)
		return fail(err, EINVAL, "the file is empty: cellTypes and cells are right");
	return fail(err, EINVAL, "line %d, column %d: %s", first->line, first->column, first->msg);
}

/* Its words are taken from the diagnostic object: it shall not print them as well. */
static void print_nothing(struct fy_diag *diag, void *user, const char *text, size_t n)
{
}

static struct fy_diag *diag_new(void)
{
	struct fy_diag_cfg config;
	struct fy_diag *diag;

	fy_diag_cfg_default(&config);
	config.fp = NULL;
	config.output_fn = print_nothing;
	diag = fy_diag_create(&config);
	if (diag)
		fy_diag_set_collect_errors(diag, true);
	return diag;
}

/* Not fy_diag_unref(), which forgets the errors it has collected. */
DEFINE_CLEANUP(struct fy_diag *, fy_diag_destroy)
DEFINE_CLEANUP(struct fy_document *, fy_document_destroy)
DEFINE_CLEANUP(struct place_cells *, place_cells_free)

int place_cells_parse(struct str text, struct place_cells **ret_cells, struct error *err)
{
	_cleanup_(fy_diag_destroy_p) struct fy_diag *diag = NULL;
	_cleanup_(fy_document_destroy_p) struct fy_document *document = NULL;
	_cleanup_(place_cells_free_p) struct place_cells *cells = NULL;
	/* The parser would compare each key with each; key_index() and type_find() do it here. */
	struct fy_parse_cfg config = {
		.flags = FYPCF_QUIET | FYPCF_JSON_NONE | FYPCF_ALLOW_DUPLICATE_KEYS};
	struct reader reader = {.err = err};
	int r;

	if (text.n > CELL_FILE_MAX)
		return fail(err, E2BIG, "%zu bytes: up to %u are possible", text.n, CELL_FILE_MAX);
	r = check_text(text, err);
	if (r < 0)
		return r;
	cells = calloc(1, sizeof(*cells));
	if (cells)
		cells->types = calloc(CELL_TYPES_MAX, sizeof(*cells->types));
	diag = diag_new();
	if (!cells || !cells->types || !diag)
		return fail(err, ENOMEM, "out of memory for cells");
	config.diag = diag;
	document = fy_document_build_from_string(&config, text.p, text.n);
	if (!document)
		return fail_yaml(diag, err);
	reader.cells = cells;
	r = read_root(&reader, fy_document_root(document));
	free(reader.spec);
	if (r < 0)
		return r;
	*ret_cells = TAKE_PTR(cells);
	return 0;
}
