/* SPDX-License-Identifier: Apache-2.0 */
/* Reads members of JSON answers. Nothing here fails. */
#ifndef CMDLINE_JSON_MEMBER_H
#define CMDLINE_JSON_MEMBER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* A member that is absent, as in the answer of another version, reads as 0, "" or false. */
static inline int64_t json_int_or_zero(const json_t *object, const char *name)
{
	const json_t *v = json_object_get(object, name);

	return json_is_real(v) ? (int64_t)json_real_value(v) : (int64_t)json_integer_value(v);
}

static inline uint64_t json_uint_or_zero(const json_t *object, const char *name)
{
	const int64_t v = json_int_or_zero(object, name);

	return v > 0 ? (uint64_t)v : 0;
}

/* Reads the member `name`, or `old_name` if the answer of an older version lacks `name`. */
static inline uint64_t json_uint_renamed(
	const json_t *object, const char *name, const char *old_name)
{
	return json_uint_or_zero(object, json_object_get(object, name) ? name : old_name);
}

/* The share that a tenant used of a device. */
static inline uint32_t json_used_permille(const json_t *object)
{
	return (uint32_t)json_uint_renamed(object, "used_permille", "got_permille");
}

static inline double json_real_or_zero(const json_t *object, const char *name)
{
	return json_number_value(json_object_get(object, name));
}

static inline const char *json_text_or_empty(const json_t *object, const char *name)
{
	const char *s = json_string_value(json_object_get(object, name));

	return s ? s : "";
}

static inline bool json_bool_or_false(const json_t *object, const char *name)
{
	return json_is_true(json_object_get(object, name));
}

#endif
