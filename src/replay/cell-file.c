/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads KubeShare 2.0's cell file; cell-file.h describes the format. The reader first reads and
 * checks all cell types: the children of a type, their children and so on must end in a device
 * model. Then the reader builds the tree of each root level by level, because KubeShare numbers
 * cells without an id in this order. As in KubeShare, children in a cell's list count instead of
 * the type's childCellNumber.
 */
#include "replay/cell-file.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "fields/read.h"
#include "fields/yaml.h"
#include "place/place-cell-internal.h"
#include "place/place-internal.h"

#define SHOW "'%.48s'"

struct reader {
	const struct yaml_file *file;
	struct place_cells *cells;
	json_t **spec; /* by cell: the cell's entry in the file, or NULL */
	uint32_t spec_size;
	struct error *err;
};

/*
 * The fields of one entry of the file. line: the entry's line, or the nearest known line above the
 * entry.
 */
struct cell_spec {
	const json_t *json;
	struct str type, id;
	json_t *children;
	unsigned int line;
};

struct root {
	json_t *types, *cells;
};

/* ---- values ---- */

/* Text of a plain value, with a terminating 0; a null value is an empty text. */
static int cell_file_plain_text(json_t *value, struct str *ret_text, struct error *err)
{
	const struct str text = json_is_null(value)
		? STR("")
		: (struct str){json_string_value(value), json_string_length(value)};

	if (!text.p)
		return fail(err, EINVAL, "expected one plain value");
	*ret_text = text;
	return 0;
}

static int cell_file_parse_name(struct str text, struct str *ret_name, struct error *err)
{
	for (size_t i = 0; i < text.n; i++)
		if (iscntrl((unsigned char)text.p[i]))
			return fail(err, EINVAL, "the name has control characters");
	if (text.n == 0 || text.n >= CELL_NAME)
		return fail(
			err, EINVAL, SHOW ": expected 1 to %u characters", text.p, CELL_NAME - 1);
	*ret_name = text;
	return 0;
}

static int parse_child(struct str text, char *ret_name, struct error *err)
{
	struct str name;
	int r = cell_file_parse_name(text, &name, err);

	if (r == 0)
		memcpy(ret_name, name.p, name.n);
	return r;
}

static int parse_up_to(struct str text, uint32_t max, uint32_t *ret, struct error *err)
{
	uint64_t value;
	int r = parse_uint(text, 0, max, &value, err);

	if (r == 0)
		*ret = (uint32_t)value;
	return r;
}

static int cell_file_parse_number(struct str text, uint32_t *ret_number, struct error *err)
{
	return parse_up_to(text, CELLS_MAX, ret_number, err);
}

static int cell_file_set_priority(struct str text, struct cell_type *type, struct error *err)
{
	type->has_priority = true;
	return parse_up_to(text, CELL_PRIORITY_MAX, &type->priority, err);
}

/* Parses isNodeLevel: any boolean word of YAML 1.1, in upper or lower case. */
static int parse_level(struct str text, bool *ret_is_node, struct error *err)
{
	char word[8] = "";

	for (size_t i = 0; i < text.n && i < sizeof(word) - 1; i++)
		word[i] = (char)tolower((unsigned char)text.p[i]);
	if (text.n >= sizeof(word) || parse_bool(str_from(word), ret_is_node, NULL) < 0)
		return fail(err, EINVAL, SHOW ": expected true or false", text.p);
	return 0;
}

/* Stores a reference to the value, which a later function reads. */
static int read_any(struct arena *arena, json_t *value, void *into, struct error *err)
{
	*(json_t **)into = value;
	return 0;
}

READ_PARSED(cell_file_read_name, cell_file_plain_text, struct str, cell_file_parse_name)
READ_PARSED(read_child, cell_file_plain_text, char, parse_child)
READ_PARSED(read_number_of, cell_file_plain_text, uint32_t, cell_file_parse_number)
READ_PARSED(cell_file_read_priority, cell_file_plain_text, struct cell_type, cell_file_set_priority)
READ_PARSED(read_level, cell_file_plain_text, bool, parse_level)

static const struct read_field type_fields[] = {
	READ_FIELD(struct cell_type, child_name, "childCellType", read_child),
	READ_FIELD(struct cell_type, number, "childCellNumber", read_number_of),
	READ_WHOLE("childCellPriority", cell_file_read_priority),
	READ_FIELD(struct cell_type, says_node, "isNodeLevel", read_level),
};

static const struct read_field spec_fields[] = {
	READ_FIELD(struct cell_spec, type, "cellType", cell_file_read_name),
	READ_FIELD(struct cell_spec, id, "cellId", cell_file_read_name),
	READ_FIELD(struct cell_spec, children, "cellChildren", read_any),
};

static const struct read_field root_fields[] = {
	READ_FIELD(struct root, types, "cellTypes", read_any),
	READ_FIELD(struct root, cells, "cells", read_any),
};

static int cell_file_other_field(const struct read_table *table, const char *name, json_t *value,
	void *into, struct error *err)
{
	_cleanup_buf_ struct buf names = BUF_INIT(256);

	for (size_t i = 0; i < table->n; i++)
		buf_addf(&names, " %s", table->fields[i].name);
	return fail(err, EINVAL, "unknown field; expected one of:%s", buf_text(&names));
}

static const struct read_table type_table = {
	type_fields, ARRAY_SIZE(type_fields), "'", false, cell_file_other_field};
static const struct read_table spec_table = {
	spec_fields, ARRAY_SIZE(spec_fields), "'", false, cell_file_other_field};
static const struct read_table root_table = {
	root_fields, ARRAY_SIZE(root_fields), "'", false, cell_file_other_field};

/* ---- types ---- */

static struct cell_type *type_find(const struct place_cells *cells, struct str name)
{
	struct cell_type *type;

	HASH_FIND(hh, cells->by_name, name.p, name.n, type);
	return type;
}

static int type_new(struct reader *r, struct str name, unsigned int line, struct cell_type **ret)
{
	struct place_cells *cells = r->cells;
	struct cell_type *type;

	if (cells->n_types == CELL_TYPES_MAX)
		return fail(r->err, E2BIG,
			"line %u: " SHOW ": the file has more than %u types and models", line,
			name.p, CELL_TYPES_MAX);
	type = &cells->types[cells->n_types++];
	memcpy(type->name, name.p, name.n);
	type->line = line;
	HASH_ADD_KEYPTR(hh, cells->by_name, type->name, name.n, type);
	if (!type->hh.tbl)
		return fail(r->err, ENOMEM, "out of memory for types of cells");
	*ret = type;
	return 0;
}

static int read_type(struct reader *r, const char *key, json_t *value)
{
	const struct str name = str_from(key);
	unsigned int line = yaml_line(r->file, key);
	struct cell_type *type;
	int e;

	if (name.n == 0 || name.n >= CELL_NAME)
		return fail(r->err, EINVAL, "line %u: type " SHOW ": expected 1 to %u characters",
			line, key, CELL_NAME - 1);
	if (yaml_line_twice(r->file, key))
		return fail(r->err, EINVAL, "line %u: type " SHOW " occurs twice",
			yaml_line_twice(r->file, key), key);
	e = type_new(r, name, line, &type);
	if (e == 0 && json_is_object(value))
		e = read_lined(r->file, value, &type_table, type, r->err);
	if (e == 0 && !type->child_name[0])
		e = fail(r->err, EINVAL, "line %u: type '%s': childCellType is missing", type->line,
			type->name);
	return e;
}

static int read_types(struct reader *r, json_t *map)
{
	const char *key;
	json_t *value;

	if (!json_is_object(map))
		return fail(r->err, EINVAL, "line %u: cellTypes: expected names of types",
			yaml_line_of(r->file, r->file->root, "cellTypes"));
	json_object_foreach(map, key, value) {
		int e = read_type(r, key, value);

		if (e < 0)
			return e;
	}
	return 0;
}

/*
 * Sets type->child to a cell type or a device model of that name. A model gets the type's
 * childCellPriority.
 */
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
			"line %u: type '%s': childCellPriority %u: '%s' has %u already; a model "
			"has one priority",
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
			return fail(r->err, EINVAL, "line %u: type '%s': the type contains itself",
				type->line, type->name);
	}
	type->is_node = type->says_node && !type->is_above;
	if (depth > CELL_DEPTH_MAX)
		return fail(r->err, E2BIG,
			"line %u: type '%s': %u cells are nested; at most %u are allowed",
			type->line, type->name, depth, CELL_DEPTH_MAX);
	return 0;
}

static int check_types(struct reader *r)
{
	const uint32_t n = r->cells->n_types; /* link_type() appends models behind the types */
	int e = 0;

	for (uint32_t i = 0; e == 0 && i < n; i++)
		e = link_type(r, &r->cells->types[i]);
	for (uint32_t i = 0; e == 0 && i < n; i++)
		e = check_type(r, &r->cells->types[i]);
	/*
	 * link_type() has copied each type's childCellPriority to its model; only models keep a
	 * priority.
	 */
	for (uint32_t i = 0; e == 0 && i < n; i++)
		r->cells->types[i].priority = 0;
	return e;
}

/* ---- cells ---- */

/* Returns the line of the field, or the line of the entry if the field is missing. */
static unsigned int cell_file_line_of(
	const struct reader *r, const struct cell_spec *spec, const char *field)
{
	unsigned int line = spec->json ? yaml_line_of(r->file, spec->json, field) : 0;

	return line ? line : spec->line;
}

static int cell_file_check_list(struct reader *r, const json_t *value, unsigned int line)
{
	return json_is_array(value)
		? 0
		: fail(r->err, EINVAL, "line %u: expected a list of cells", line);
}

static int cell_file_read_spec(
	struct reader *r, json_t *json, unsigned int line, struct cell_spec *ret_spec)
{
	struct cell_spec spec = {.line = line};
	int e = 0;

	if (json && !json_is_null(json)) {
		if (yaml_line(r->file, json))
			spec.line = yaml_line(r->file, json);
		if (!json_is_object(json))
			return fail(r->err, EINVAL,
				"line %u: expected a cell with cellType, cellId or cellChildren",
				spec.line);
		spec.json = json;
		e = read_lined(r->file, json, &spec_table, &spec, r->err);
		if (e == 0 && spec.children)
			e = cell_file_check_list(
				r, spec.children, cell_file_line_of(r, &spec, "cellChildren"));
	}
	if (e == 0)
		*ret_spec = spec;
	return e;
}

static int cell_new(struct reader *r, const struct cell_type *type, uint32_t parent, json_t *spec,
	unsigned int line)
{
	struct place_cells *cells = r->cells;
	int e;

	if (cells->n == CELLS_MAX)
		return fail(r->err, E2BIG,
			"line %u: cell of type '%s': the file has more than %u cells", line,
			type->name, CELLS_MAX);
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
			/* No part may be empty, because the last part is a node's name. */
			if (i == 0 || i + 1 == spec->id.n || spec->id.p[i - 1] == '/')
				return fail(r->err, EINVAL,
					"line %u: cellId " SHOW
					": expected names with '/' between them",
					cell_file_line_of(r, spec, "cellId"), spec->id.p);
			parts++;
		}
	if (parts > (cell->parent == PLACE_NONE ? CELL_ROOT_PARTS : 1))
		return fail(r->err, EINVAL,
			"line %u: cellId " SHOW
			": expected at most %u parts at the top, and one within a cell",
			cell_file_line_of(r, spec, "cellId"), spec->id.p, CELL_ROOT_PARTS);
	if (!spec->id.n)
		return 0;
	cell->name = str_dup(spec->id);
	return cell->name ? 0 : fail(r->err, ENOMEM, "line %u: out of memory", spec->line);
}

/*
 * Sets cell->node to the node whose name is the cell's id, or its number. Several cells may be
 * parts of one node.
 */
static int cell_file_set_node(struct reader *r, struct cell *cell)
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
		return fail(r->err, EINVAL, "line %u: '%s' is a model, which contains no cells",
			cell_file_line_of(r, spec, "cellChildren"), cells[at].type->name);
	if (node->n == PLACE_NODE_DEVICES_MAX)
		return fail(r->err, E2BIG, "line %u: node '%s' has more than %u devices",
			spec->line, node->name, PLACE_NODE_DEVICES_MAX);
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
	int e = 0;

	for (size_t i = 0; e == 0 && i < json_array_size(spec->children); i++)
		e = cell_new(r, type->child, at, json_array_get(spec->children, i), spec->line);
	if (r->cells->n == first)
		for (uint32_t k = 0; e == 0 && k < type->number; k++)
			e = cell_new(r, type->child, at, NULL, spec->line);
	if (e == 0 && r->cells->n == first)
		e = fail(r->err, EINVAL,
			"line %u: type '%s': childCellNumber is missing; set it, or list "
			"cellChildren",
			type->line, type->name);
	r->cells->cells[at].first_child = first;
	r->cells->cells[at].n_children = r->cells->n - first;
	return e;
}

static int build_cell(struct reader *r, uint32_t at, uint32_t number, unsigned int line)
{
	struct cell *cell = &r->cells->cells[at];
	const struct cell_type *type = cell->type;
	struct cell_spec spec;
	int e;

	e = cell_file_read_spec(r, r->spec[at], line, &spec);
	if (e < 0)
		return e;
	if (spec.type.n && !str_is(spec.type, type->name))
		return fail(r->err, EINVAL,
			"line %u: cellType " SHOW ": expected the child type of '%s', '%s'",
			cell_file_line_of(r, &spec, "cellType"), spec.type.p,
			r->cells->cells[cell->parent].type->name, type->name);
	e = set_id(r, at, &spec, number);
	if (e == 0 && type->is_node)
		e = cell_file_set_node(r, cell);
	else if (cell->parent != PLACE_NONE)
		cell->node = r->cells->cells[cell->parent].node;
	if (e < 0)
		return e;
	return type->child ? add_children(r, at, &spec) : add_leaf(r, at, &spec);
}

/*
 * Builds the tree of a root level by level, because cells without an id are numbered through each
 * level.
 */
static int build_root(struct reader *r, json_t *json, uint32_t number, unsigned int line)
{
	uint32_t at = r->cells->n, first = at, end = at + 1;
	const struct cell_type *type;
	struct cell_spec spec;
	int e;

	e = cell_file_read_spec(r, json, line, &spec);
	if (e < 0)
		return e;
	if (!spec.type.n)
		return fail(
			r->err, EINVAL, "line %u: cell %u: cellType is missing", spec.line, number);
	type = type_find(r->cells, spec.type);
	if (!type || !type->child)
		return fail(r->err, EINVAL,
			"line %u: cellType " SHOW ": 'cellTypes' has no such type",
			cell_file_line_of(r, &spec, "cellType"), spec.type.p);
	if (!type->is_node && !type->is_above)
		return fail(r->err, EINVAL,
			"line %u: cellType '%s': no type from it down to the model '%s' has "
			"isNodeLevel: true",
			cell_file_line_of(r, &spec, "cellType"), type->name, type->child->name);
	e = cell_new(r, type, PLACE_NONE, json, spec.line);
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

static int read_cells(struct reader *r, json_t *list)
{
	const unsigned int line = yaml_line_of(r->file, r->file->root, "cells");
	int e = cell_file_check_list(r, list, line);

	for (size_t i = 0; e == 0 && i < json_array_size(list); i++)
		e = build_root(r, json_array_get(list, i), (uint32_t)i + 1, line);
	if (e == 0 && !json_array_size(list))
		e = fail(r->err, EINVAL,
			"line %u: cells: the list is empty; expected at least one cell", line);
	return e;
}

static int cell_file_read_root(struct reader *r)
{
	struct root root = {NULL, NULL};
	int e;

	if (!r->file->root)
		return fail(r->err, EINVAL, "the file is empty; expected cellTypes and cells");
	if (!json_is_object(r->file->root))
		return fail(r->err, EINVAL, "line 1: expected cellTypes and cells");
	e = read_lined(r->file, r->file->root, &root_table, &root, r->err);
	if (e < 0)
		return e;
	if (!root.types || !root.cells)
		return fail(r->err, EINVAL, "%s: missing", root.types ? "cells" : "cellTypes");
	e = read_types(r, root.types);
	if (e == 0)
		e = check_types(r);
	return e < 0 ? e : read_cells(r, root.cells);
}

DEFINE_CLEANUP(struct place_cells *, place_cells_free)

int place_cells_parse(struct str text, struct place_cells **ret_cells, struct error *err)
{
	const struct yaml_file_params params = {.max_bytes = CELL_FILE_MAX, .ignores_tags = true};
	_cleanup_(place_cells_free_p) struct place_cells *cells = NULL;
	_cleanup_(yaml_file_done) struct yaml_file file = {.root = NULL};
	struct reader reader = {.file = &file, .err = err};
	int r;

	if (text.n > CELL_FILE_MAX)
		return fail(err, E2BIG, "the file has %zu bytes; at most %u are allowed", text.n,
			CELL_FILE_MAX);
	cells = calloc(1, sizeof(*cells));
	if (cells)
		cells->types = calloc(CELL_TYPES_MAX, sizeof(*cells->types));
	if (!cells || !cells->types)
		return fail(err, ENOMEM, "out of memory for cells");
	reader.cells = cells;
	r = yaml_file_parse(text, &params, &file, err);
	if (r == 0)
		r = cell_file_read_root(&reader);
	free(reader.spec);
	if (r == -EMSGSIZE)
		return -E2BIG;
	if (r < 0)
		return r == -ENOMEM || r == -E2BIG ? r : -EINVAL;
	*ret_cells = TAKE_PTR(cells);
	return 0;
}
