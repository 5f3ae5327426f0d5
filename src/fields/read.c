/* SPDX-License-Identifier: Apache-2.0 */
/* JSON objects into structs: see read.h. */
#include "fields/read.h"

#include <errno.h>
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

static int read_object(struct arena *arena, json_t *object, const struct read_field *fields,
	size_t n, void *into, bool is_strict, struct error *err)
{
	const struct read_field *field;
	const char *name;
	json_t *value;
	int first = 0;

	if (!json_is_object(object))
		return fail(err, EINVAL, "is no object");
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
	return read_object(arena, object, fields, n, into, true, err);
}

int read_some(struct arena *arena, json_t *object, const struct read_field *fields, size_t n,
	void *into, struct error *err)
{
	return read_object(arena, object, fields, n, into, false, err);
}

int read_list(struct arena *arena, json_t *value, size_t item, read_fn *read, void **ret_items,
	uint32_t *ret_n, struct error *err)
{
	size_t n = json_array_size(value), i;
	json_t *one;
	int first = 0;
	char *items;

	if (!json_is_array(value))
		return fail(err, EINVAL, "is no list");
	if (n > READ_LIST_MAX)
		return fail(err, E2BIG, "has %zu items: at most %d", n, READ_LIST_MAX);
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
		return fail(err, EINVAL, "is no text");
	if (s.n > READ_TEXT_MAX)
		return fail(err, E2BIG, "has %zu bytes: at most %d", s.n, READ_TEXT_MAX);
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

	/* Nobody has to look for what could not be read. */
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
		return fail(err, EINVAL, "is no whole number");
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
		return fail(err, EINVAL, "is no text");
	for (size_t i = 0; i < n; i++)
		if (!strcmp(words[i], text)) {
			*ret_word = (int)i;
			return 0;
		}
	return fail(err, ENOTSUP, "'%.64s' is not known to this scheduler", text);
}
