/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file translates the camelCase fields of a SharePod's spec into the requested keys of its
 * pod. spec_field_name() lists the fields, so a new field of the spec needs no change here. Numbers
 * become text, and null counts as a missing field. `containers` is the only list; its names become
 * one annotation, separated by commas. A list of more than LIST_MAX bytes counts as missing.
 */
#include "manifest/requested-json.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/format.h"
#include "base/str.h"
#include "kube/kube-json.h"

#define PREFIX "divvy.gpu/"
#define CONTAINER_KEY PREFIX "container"
#define LIST_MAX 8192u

void requested_json_field(const char *name, char ret[static SPEC_FIELD])
{
	size_t n = 0;

	for (; *name && n + 1 < SPEC_FIELD; name++) {
		if (*name == '-' && name[1])
			ret[n++] = (char)toupper(*++name);
		else
			ret[n++] = *name;
	}
	ret[n] = '\0';
}

json_t *requested_json_text(const json_t *value)
{
	char text[40];

	/* a text that has a NUL would lose its end */
	if (json_is_string(value))
		return strlen(json_string_value(value)) == json_string_length(value)
			? json_string(json_string_value(value))
			: NULL;
	if (json_is_integer(value))
		snprintf(text, sizeof(text), "%lld", (long long)json_integer_value(value));
	else if (json_is_real(value))
		return json_string(format_real(json_real_value(value)).s);
	else
		return NULL;
	return json_string(text);
}

/* Joins the list of containers to "a,b"; NULL if it is empty. */
static json_t *containers_text(const json_t *list)
{
	_cleanup_buf_ struct buf text = BUF_INIT(LIST_MAX);

	for (size_t i = 0; i < json_array_size(list); i++)
		if (json_is_string(json_array_get(list, i)))
			buf_addf(&text, "%s%s", text.n ? "," : "",
				json_string_value(json_array_get(list, i)));
	return text.n && buf_error(&text) == 0 ? json_string(buf_text(&text)) : NULL;
}

int requested_json_read(const json_t *spec, json_t **ret_keys, struct error *err)
{
	_cleanup_json_ json_t *keys = json_object();
	char name[SPEC_FIELD], field[SPEC_FIELD], key[sizeof(PREFIX) + SPEC_FIELD];
	json_t *containers;

	for (size_t i = 0; keys && spec_field_name(i, name); i++) {
		const json_t *value;
		json_t *text;

		requested_json_field(name, field);
		value = json_object_get(spec, field);
		if (!value || json_is_null(value))
			continue;
		text = requested_json_text(value);
		if (!text)
			return fail(err, EINVAL, "spec.%s: has to be text or a number", field);
		snprintf(key, sizeof(key), PREFIX "%s", name);
		json_object_set_new(keys, key, text);
	}
	if (!keys)
		return fail(err, ENOMEM, "out of memory");
	containers = containers_text(json_object_get(spec, "containers"));
	if (containers)
		json_object_set_new(keys, CONTAINER_KEY, containers);
	*ret_keys = TAKE_PTR(keys);
	return 0;
}
