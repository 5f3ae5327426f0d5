/* SPDX-License-Identifier: Apache-2.0 */
#include "patch.h"

#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/str.h"
#include "kube/kube-json.h"

static void unescape(struct str step, char *out, size_t size)
{
	size_t n = 0;

	for (size_t i = 0; i < step.n && n + 1 < size; i++) {
		if (step.p[i] == '~' && i + 1 < step.n)
			out[n++] = step.p[++i] == '1' ? '/' : '~';
		else
			out[n++] = step.p[i];
	}
	out[n] = '\0';
}

static json_t *child(json_t *at, const char *step)
{
	if (json_is_array(at))
		return json_array_get(at, (size_t)strtoul(step, NULL, 10));
	return json_object_get(at, step);
}

static bool apply_one(json_t *object, const json_t *o)
{
	const char *op = json_string_value(json_object_get(o, "op"));
	struct str rest = str_from(json_string_value(json_object_get(o, "path"))), step;
	json_t *at = object, *value = json_object_get(o, "value");
	char name[512] = "";
	bool is_first = true;

	while (str_split(&rest, '/', &step)) {
		if (is_first) {
			is_first = false;
			continue;
		}
		if (name[0])
			at = child(at, name);
		if (!at)
			return false;
		unescape(step, name, sizeof(name));
	}
	if (json_is_array(at))
		return !strcmp(op, "add") && !strcmp(name, "-") && value &&
			json_array_append(at, value) == 0;
	if (!json_is_object(at))
		return false;
	if (!strcmp(op, "add"))
		return value && json_object_set(at, name, value) == 0;
	if (!json_object_get(at, name))
		return false;
	if (!strcmp(op, "remove"))
		return json_object_del(at, name) == 0;
	return !strcmp(op, "replace") && value && json_object_set(at, name, value) == 0;
}

bool patch_apply(json_t *object, const json_t *patch)
{
	for (size_t i = 0; i < json_array_size(patch); i++)
		if (!apply_one(object, json_array_get(patch, i)))
			return false;
	return true;
}

json_t *patch_of_review(const json_t *review)
{
	const char *text = kube_json_text_at(review, "response", "patch", NULL);
	_cleanup_buf_ struct buf decoded = BUF_INIT(4u << 20);

	if (!text || base64_decode(str_from(text), &decoded) < 0)
		return NULL;
	return json_loadb(buf_text(&decoded), decoded.n, 0, NULL);
}
