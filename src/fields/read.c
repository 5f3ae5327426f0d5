/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file reads JSON objects into structs: see read.h. read_table_object() continues after an
 * error, and keeps the first one. For files there is read_lined(), which stops at the first error
 * and adds the line to the message. The functions keep no state; any thread.
 */
#include "fields/read.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"

static const struct read_field *find_field(
	const struct read_field *fields, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(fields[i].name, name))
			return &fields[i];
	return NULL;
}

static int read_table_object(struct arena *arena, json_t *object, const struct read_field *fields,
	size_t n, void *into, bool is_strict, struct error *err)
{
	const struct read_field *field;
	const char *name;
	json_t *value;
	int first = 0;

	if (!json_is_object(object))
		return fail(err, EINVAL, "is not an object");
	json_object_foreach(object, name, value) {
		int r = 0;

		if (json_is_null(value))
			continue;
		field = find_field(fields, n, name);
		if (field && field->read)
			r = field->read(
				arena, value, (char *)into + field->offset, first ? NULL : err);
		if (!field && is_strict)
			r = fail(first ? NULL : err, ENOTSUP,
				"this scheduler does not know the field");
		if (r < 0 && !first)
			first = fail_within(err, r, "%.64s", name);
	}
	return first;
}

int read_fields(struct arena *arena, json_t *object, const struct read_field *fields, size_t n,
	void *into, struct error *err)
{
	return read_table_object(arena, object, fields, n, into, true, err);
}

int read_some(struct arena *arena, json_t *object, const struct read_field *fields, size_t n,
	void *into, struct error *err)
{
	return read_table_object(arena, object, fields, n, into, false, err);
}

/* ---- files ---- */

/* Copies the key; turns '_' into '-' if the table treats them as equal. */
static void read_copy_name(const struct read_table *table, const char *key, char *ret_name)
{
	snprintf(ret_name, READ_NAME_MAX + 1, "%s", key);
	for (char *p = ret_name; table->is_dash_taken && *p; p++)
		*p = *p == '_' ? '-' : *p;
}

/*
 * Whether an earlier key of the object gives the same name. Only a '_' that counts as '-' can make
 * two different keys equal.
 */
static bool read_was_field_there(
	const struct read_table *table, json_t *object, const char *key, const char *name)
{
	char other[READ_NAME_MAX + 1];
	const char *before;
	json_t *value;

	if (!table->is_dash_taken || !strchr(name, '-'))
		return false;
	json_object_foreach(object, before, value) {
		if (before == key)
			break;
		read_copy_name(table, before, other);
		if (!strcmp(other, name))
			return true;
	}
	return false;
}

static int fail_name(const struct read_table *table, unsigned int line, const char *name, int r,
	struct error *err)
{
	return fail_within(err, r, "line %u: %s%s%s", line, table->quote, name, table->quote);
}

static int read_list_item(const struct yaml_file *file, json_t *object,
	const struct read_table *table, const char *key, json_t *value, void *into,
	struct error *err)
{
	const unsigned int line = yaml_line(file, key), twice = yaml_line_twice(file, key);
	const struct read_field *field;
	char name[READ_NAME_MAX + 1];
	int r;

	if (strlen(key) > READ_NAME_MAX)
		return fail(err, EINVAL,
			"line %u: the field's name is too long; expected at most %d characters",
			line, READ_NAME_MAX);
	read_copy_name(table, key, name);
	if (twice || read_was_field_there(table, object, key, name))
		return fail_name(table, twice ? twice : line, name,
			fail(err, EEXIST, "the field occurs twice"), err);
	field = find_field(table->fields, table->n, name);
	if (!field) {
		r = table->other(table, name, value, into, err);
		return r < 0 ? fail_name(table, line, name, r, err) : 0;
	}
	r = field->read(NULL, value, (char *)into + field->offset, err);
	return r < 0 ? fail_within(err, r, "line %u: %s", line, name) : 0;
}

int read_lined(const struct yaml_file *file, json_t *object, const struct read_table *table,
	void *into, struct error *err)
{
	const char *key;
	json_t *value;

	json_object_foreach(object, key, value) {
		int r = read_list_item(file, object, table, key, value, into, err);

		if (r < 0)
			return r;
	}
	return 0;
}

/* ---- values ---- */

int read_list(struct arena *arena, json_t *value, size_t item, read_fn *read, void **ret_items,
	uint32_t *ret_n, struct error *err)
{
	size_t n = json_array_size(value), i;
	json_t *one;
	int first = 0;
	char *items;

	if (!json_is_array(value))
		return fail(err, EINVAL, "is not a list");
	if (n > READ_LIST_MAX)
		return fail(err, E2BIG, "has %zu items; at most %d are allowed", n, READ_LIST_MAX);
	items = arena_take_array(arena, n, item);
	if (!items)
		return fail(err, ENOMEM, "out of memory");
	json_array_foreach(value, i, one) {
		int r = read(arena, one, items + i * item, first ? NULL : err);

		if (r < 0 && !first)
			first = fail_within(err, r, "%zu", i);
	}
	*ret_items = items;
	*ret_n = (uint32_t)n;
	return first;
}

int read_text(struct arena *arena, json_t *value, void *into, struct error *err)
{
	struct str s = {json_string_value(value), json_string_length(value)};
	char *copy;

	if (!s.p)
		return fail(err, EINVAL, "is not a text");
	if (s.n > READ_TEXT_MAX)
		return fail(
			err, E2BIG, "has %zu bytes; at most %d are allowed", s.n, READ_TEXT_MAX);
	if (str_find(s, '\0') < s.n)
		return fail(err, EINVAL, "has a zero byte");
	copy = arena_dup(arena, s);
	if (!copy)
		return fail(err, ENOMEM, "out of memory");
	*(const char **)into = copy;
	return 0;
}

READ_LIST(read_texts_raw, const char *, read_text)

int read_texts(struct arena *arena, json_t *value, void *into, struct error *err)
{
	struct texts *texts = into;
	int r = read_texts_raw(arena, value, into, err);

	/* Items that could not be read become "", so that callers never find NULL. */
	for (uint32_t i = 0; i < texts->n; i++)
		if (!texts->v[i])
			texts->v[i] = "";
	return r;
}

int read_bool(struct arena *arena, json_t *value, void *into, struct error *err)
{
	if (!json_is_boolean(value))
		return fail(err, EINVAL, "is neither true nor false");
	*(bool *)into = json_is_true(value);
	return 0;
}

int read_true(struct arena *arena, json_t *value, void *into, struct error *err)
{
	*(bool *)into = true;
	return 0;
}

int read_number(struct arena *arena, json_t *value, void *into, struct error *err)
{
	if (!json_is_integer(value))
		return fail(err, EINVAL, "is not a whole number");
	*(int64_t *)into = json_integer_value(value);
	return 0;
}

bool texts_has(const struct texts *texts, const char *text)
{
	for (uint32_t i = 0; i < texts->n; i++)
		if (!strcmp(texts->v[i], text))
			return true;
	return false;
}

int read_word(json_t *value, const char *const *words, size_t n, int *ret_word, struct error *err)
{
	const char *text = json_string_value(value);

	if (!text)
		return fail(err, EINVAL, "is not a text");
	for (size_t i = 0; i < n; i++)
		if (!strcmp(words[i], text)) {
			*ret_word = (int)i;
			return 0;
		}
	return fail(err, ENOTSUP, "'%.64s' is not known to this scheduler", text);
}
