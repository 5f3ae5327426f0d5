/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Specs as JSON: see spec-json.h. The textual form goes through spec_set(), so options, files and
 * requests get the same error messages. Pure functions; any thread.
 */
#include "agent/spec-json.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/format.h"
#include "base/str.h"

json_t *spec_to_json(const struct spec *s)
{
	return json_pack("{s:i, s:i, s:i, s:b, s:I, s:i, s:s, s:s, s:i, s:s, s:s, s:s, s:s*}",
		"request_permille", (int)s->request, "limit_permille", (int)s->limit, "count",
		(int)s->count, "exclusive", (int)s->exclusive, "memory_bytes",
		(json_int_t)s->memory_bytes, "memory_permille", (int)s->memory_permille,
		"memory_policy", spec_memory_policy_name(s->memory_policy), "class",
		spec_class_name(s->class), "priority", (int)s->priority, "mode",
		spec_mode_name(s->mode), "model", s->model, "device", s->device,
		"preferred_anti_affinity",
		s->preferred_anti_affinity[0] ? s->preferred_anti_affinity : NULL);
}

int spec_from_json(const json_t *json, struct spec *ret_spec, struct error *err)
{
	const char *policy, *class, *mode, *model, *device, *apart = "";
	int request, limit, count, exclusive, permille, priority;
	json_int_t bytes;
	struct spec s;
	json_error_t why;
	int r;

	if (json_unpack_ex((json_t *)json, &why, 0,
		    "{s:i, s:i, s:i, s:b, s:I, s:i, s:s, s:s, s:i, s:s, s:s, s:s, s?s}",
		    "request_permille", &request, "limit_permille", &limit, "count", &count,
		    "exclusive", &exclusive, "memory_bytes", &bytes, "memory_permille", &permille,
		    "memory_policy", &policy, "class", &class, "priority", &priority, "mode", &mode,
		    "model", &model, "device", &device, "preferred_anti_affinity", &apart) < 0)
		return fail(err, EINVAL, "spec: %s", why.text);
	spec_init(&s);
	r = spec_set(&s, "memory-policy", policy, err);
	if (r >= 0)
		r = spec_set(&s, "class", class, err);
	if (r >= 0)
		r = spec_set(&s, "mode", mode, err);
	if (r >= 0 && apart[0])
		r = spec_set(&s, "preferred-anti-affinity", apart, err);
	if (r >= 0)
		r = str_copy(s.model, sizeof(s.model), str_from(model));
	if (r >= 0)
		r = str_copy(s.device, sizeof(s.device), str_from(device));
	if (r < 0)
		return r;
	if (request < 1 || request > (int)SPEC_SHARE_ONE || limit < request ||
		limit > (int)SPEC_SHARE_ONE || count < 1 || count > (int)SPEC_DEVICES_MAX ||
		bytes < 0 || permille < 0 || priority < 0 || priority > 100)
		return fail(err, EINVAL, "spec: a number is out of range");
	s.request = (uint32_t)request;
	s.limit = (uint32_t)limit;
	s.count = (uint32_t)count;
	s.exclusive = exclusive;
	s.memory_bytes = (uint64_t)bytes;
	s.memory_permille = (uint32_t)permille;
	s.priority = (uint32_t)priority;
	*ret_spec = s;
	return 0;
}

const char *spec_json_show(const json_t *value, char ret[static SPEC_JSON_SHOWN])
{
	_cleanup_free_ char *text = json_dumps(
		value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
	const size_t n = text ? strlen(text) : 0;

	snprintf(ret, SPEC_JSON_SHOWN, "%s", text ? text : "?");
	if (n >= SPEC_JSON_SHOWN)
		memcpy(ret + SPEC_JSON_SHOWN - sizeof("..."), "...", sizeof("..."));
	return ret;
}

int spec_set_json(struct spec *spec, const json_t *fields, struct error *err)
{
	char shown[SPEC_JSON_SHOWN];
	const char *key;
	json_t *value;

	if (!json_is_object(fields))
		return fail(err, EINVAL, "spec %s: expected an object of fields",
			spec_json_show(fields, shown));
	json_object_foreach((json_t *)fields, key, value) {
		struct text number;
		const char *text = json_string_value(value);
		int r;

		if (json_is_integer(value)) {
			snprintf(number.s, sizeof(number.s), "%lld",
				(long long)json_integer_value(value));
			text = number.s;
		} else if (json_is_real(value)) {
			number = format_real(json_real_value(value));
			text = number.s;
		}
		if (!text)
			return fail(err, EINVAL, "%.40s %s: expected a text or a number", key,
				spec_json_show(value, shown));
		r = spec_set(spec, key, text, err);
		if (r < 0)
			return r;
	}
	return 0;
}
