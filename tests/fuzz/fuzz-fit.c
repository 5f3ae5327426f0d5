/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a cluster from JSON, {"pod": [...], "node": [...], ...}, and tests every pod on every node,
 * by the oldest rules and by new ones. A refusal has a message, a pod with an unknown field value
 * fits nowhere, a repeated test gives the same answer, and no node remains after all objects are
 * removed.
 */
#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "fuzz.h"
#include "kuberules/fit.h"

#define OBJECTS_MAX 64 /* objects of each kind that are read; more would only take longer */

static void fill(struct view *view, json_t *json)
{
	struct error err = {0};
	enum object_kind kind;
	const char *name;
	json_t *list, *one;
	size_t i;

	json_object_foreach(json, name, list) {
		if (object_kind_parse(name, &kind) < 0)
			continue;
		json_array_foreach(list, i, one) {
			if (i == OBJECTS_MAX)
				break;
			err.msg[0] = '\0';
			FUZZ_CHECK(view_set(view, kind, one, &err) == 0 || err.msg[0]);
		}
	}
}

static void check(struct view *view, const struct object *object)
{
	_cleanup_(fit_free_p) struct fit *fit = NULL;
	_cleanup_buf_ struct buf text = BUF_INIT(1 << 16);
	struct error err = {0};
	int r = fit_new(view, pod_from_object(object), &fit, &err);

	FUZZ_CHECK((object->refusal.code != 0) == (object->refusal.msg[0] != '\0'));
	FUZZ_CHECK(r == 0 || err.msg[0]);
	FUZZ_CHECK(!object->refusal.code || r < 0);
	for (uint32_t n = 0; r == 0 && n < view_n_nodes(view); n++) {
		struct fit_answer answer = fit_node(fit, n), again = fit_node(fit, n);

		FUZZ_CHECK(answer.why < FIT_WHYS && answer.why == again.why);
		FUZZ_CHECK(!view_node(view, n)->object.refusal.code || answer.why != FIT_OK);
		buf_clear(&text);
		fit_format(answer, &text);
		FUZZ_CHECK(buf_error(&text) == 0 && text.n);
	}
}

static void each(struct view *view, json_t *json, bool is_removing)
{
	enum object_kind kind;
	const char *name;
	json_t *list, *one;
	size_t i;

	json_object_foreach(json, name, list) {
		if (object_kind_parse(name, &kind) < 0)
			continue;
		json_array_foreach(list, i, one) {
			json_t *meta = json_object_get(one, "metadata");
			const char *ns = json_string_value(json_object_get(meta, "namespace"));
			const char *of = json_string_value(json_object_get(meta, "name"));
			const struct object *object = NULL;

			if (of)
				object = view_find(view, kind, ns ? ns : "", of);
			if (object && is_removing)
				FUZZ_CHECK(view_remove(view, kind, ns ? ns : "", of) == 0);
			else if (object && kind == OBJECT_POD)
				check(view, object);
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static const unsigned minors[] = {20, 36, 37};
	json_t *json = json_loadb((const char *)data, n, JSON_ALLOW_NUL, NULL);

	for (size_t i = 0; json && i < ARRAY_SIZE(minors); i++) {
		_cleanup_(view_free_p) struct view *view = NULL;

		FUZZ_CHECK(view_new(minors[i], &view, NULL) == 0);
		fill(view, json);
		each(view, json, false);
		each(view, json, true);
		FUZZ_CHECK(view_n_nodes(view) == 0);
	}
	json_decref(json);
	return 0;
}
