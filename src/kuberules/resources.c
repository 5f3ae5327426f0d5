/* SPDX-License-Identifier: Apache-2.0 */
/* Amounts of resources: see resources.h. */
#include "kuberules/resources.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "fields/read.h"
#include "spec/quantity.h"

static int64_t *find_other(const struct resources *r, const char *name)
{
	for (uint32_t i = 0; i < r->n_others; i++)
		if (!strcmp(r->others[i].name, name))
			return &r->others[i].n;
	return NULL;
}

int64_t resources_other(const struct resources *r, const char *name)
{
	const int64_t *n = find_other(r, name);

	return n ? *n : 0;
}

static int add_other(struct arena *arena, struct resources *r, const char *name, int64_t n)
{
	if (r->n_others == r->room_others) {
		uint32_t room = MAX(r->room_others * 2, 4u);
		struct resource *others = arena_take_array(arena, room, sizeof(*others));

		if (!others)
			return -ENOMEM;
		if (r->n_others)
			memcpy(others, r->others, r->n_others * sizeof(*others));
		r->others = others;
		r->room_others = room;
	}
	r->others[r->n_others++] = (struct resource){name, n};
	return 0;
}

/*
 * Returns whether `name` is a resource that counts besides CPU, memory and ephemeral storage. No
 * container can request other names, so a node's amounts of them do not matter.
 */
static bool is_other_name(const char *name)
{
	return strchr(name, '/') || str_has_prefix(str_from(name), STR("hugepages-")) ||
		str_has_prefix(str_from(name), STR("attachable-volumes-"));
}

static int read_amount(struct arena *arena, struct resources *into, const char *name,
	struct str text, bool is_node, struct error *err)
{
	int64_t *fixed = !strcmp(name, "cpu")        ? &into->cpu_milli
		: !strcmp(name, "memory")            ? &into->memory_bytes
		: !strcmp(name, "ephemeral-storage") ? &into->ephemeral_bytes
		: is_node && !strcmp(name, "pods")   ? &into->pods
						     : NULL;
	int64_t n;
	int r;

	if (!fixed && !is_other_name(name))
		return is_node ? 0 : fail(err, ENOTSUP, "is no resource this scheduler knows");
	r = quantity_parse_up(text, fixed == &into->cpu_milli ? 1000 : 1, &n, err);
	if (r < 0)
		return r;
	if (fixed) {
		*fixed = n;
		return 0;
	}
	if (into->n_others == RESOURCES_OTHER_MAX)
		return fail(err, E2BIG, "exceeds the limit of %d different resources",
			RESOURCES_OTHER_MAX);
	name = arena_dup(arena, str_from(name));
	return name && !add_other(arena, into, name, n) ? 0 : fail(err, ENOMEM, "out of memory");
}

static int resources_read_list_of(
	struct arena *arena, json_t *value, struct resources *into, bool is_node, struct error *err)
{
	const char *name;
	json_t *one;
	char number[32];
	struct str text;
	int first = 0;

	if (!json_is_object(value))
		return fail(err, EINVAL, "is no map");
	json_object_foreach(value, name, one) {
		int r;

		text = (struct str){json_string_value(one), json_string_length(one)};
		if (json_is_integer(one)) {
			snprintf(number, sizeof(number), "%" JSON_INTEGER_FORMAT,
				json_integer_value(one));
			text = str_from(number);
		}
		r = text.p ? read_amount(arena, into, name, text, is_node, first ? NULL : err)
			   : fail(first ? NULL : err, EINVAL, "is no quantity");
		if (r < 0 && !first)
			first = fail_within(err, r, "%.64s", name);
	}
	return first;
}

int resources_read(struct arena *arena, json_t *value, void *into, struct error *err)
{
	return resources_read_list_of(arena, value, into, false, err);
}

int resources_read_node(struct arena *arena, json_t *value, void *into, struct error *err)
{
	return resources_read_list_of(arena, value, into, true, err);
}

static int resources_combine(
	struct arena *arena, struct resources *a, const struct resources *b, bool is_sum)
{
#define COMBINE(x, y) ((x) = is_sum ? resource_add((x), (y)) : MAX((x), (y)))
	COMBINE(a->cpu_milli, b->cpu_milli);
	COMBINE(a->memory_bytes, b->memory_bytes);
	COMBINE(a->ephemeral_bytes, b->ephemeral_bytes);
	for (uint32_t i = 0; i < b->n_others; i++) {
		int64_t *n = find_other(a, b->others[i].name);
		int r;

		if (n) {
			COMBINE(*n, b->others[i].n);
			continue;
		}
		if (!is_sum && !b->others[i].n)
			continue;
		r = add_other(arena, a, b->others[i].name, b->others[i].n);
		if (r < 0)
			return r;
	}
#undef COMBINE
	return 0;
}

int resources_add(struct arena *arena, struct resources *a, const struct resources *b)
{
	return resources_combine(arena, a, b, true);
}

int resources_raise(struct arena *arena, struct resources *a, const struct resources *b)
{
	return resources_combine(arena, a, b, false);
}

int resources_set(struct arena *arena, struct resources *r, const char *name, int64_t n)
{
	int64_t *other = find_other(r, name);

	if (!strcmp(name, "cpu"))
		other = &r->cpu_milli;
	else if (!strcmp(name, "memory"))
		other = &r->memory_bytes;
	if (!other)
		return add_other(arena, r, name, n);
	*other = n;
	return 0;
}
