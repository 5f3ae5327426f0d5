/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verdicts of src/kuberules, for tests that compare them with another scheduler's: reads
 *     {"minor": 20, "objects": {KIND: [OBJECT...], ...}, "pods": ["namespace/name"...]}
 * from stdin and prints, for each of these pods,
 *     {"namespace/name": {"nodes": [NAME...], "why": SENTENCE, "not": {NAME: PHRASE...},
 *                         "rules": [RULE...]}, ...}
 * The rules are the names in fit-why.def by which nodes were refused.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "kuberules/fit.h"

static int fill(struct view *view, json_t *objects, struct error *err)
{
	const char *name;
	json_t *list, *one;
	size_t i;

	json_object_foreach(objects, name, list) {
		enum object_kind kind;

		if (object_kind_parse(name, &kind) < 0)
			return fail(err, EINVAL, "'%s' is no kind of object", name);
		json_array_foreach(list, i, one) {
			int r = view_set(view, kind, one, err);

			if (r < 0)
				return r;
		}
	}
	return 0;
}

static const char *const rules[FIT_WHYS] = {
	[FIT_OK] = "OK",
#define WHY(name, phrase) [FIT_##name] = #name,
#include "kuberules/fit-why.def"
#undef WHY
};

static json_t *refused(const char *why)
{
	return json_pack("{s:[], s:s, s:{}, s:[]}", "nodes", "why", why, "not", "rules");
}

static json_t *answer(struct view *view, const struct pod *pod)
{
	_cleanup_(fit_free_p) struct fit *fit = NULL;
	_cleanup_free_ struct fit_answer *answers = NULL;
	_cleanup_buf_ struct buf text = BUF_INIT(1 << 16);
	json_t *nodes = json_array(), *reasons = json_object(), *seen = json_array();
	uint32_t n = view_n_nodes(view);
	struct error err = {0};

	if (fit_new(view, pod, &fit, &err) < 0) {
		json_decref(nodes);
		json_decref(reasons);
		json_decref(seen);
		return refused(err.msg);
	}
	answers = calloc(n + 1, sizeof(*answers));
	if (!answers)
		abort();
	fit_nodes(fit, answers);
	for (uint32_t i = 0; i < n; i++) {
		const char *name = view_node(view, i)->object.name;

		buf_clear(&text);
		fit_format(answers[i], &text);
		if (answers[i].why) {
			json_object_set_new(reasons, name, json_string(buf_text(&text)));
			json_array_append_new(seen, json_string(rules[answers[i].why]));
			continue;
		}
		json_array_append_new(nodes, json_string(name));
	}
	buf_clear(&text);
	fit_summarize(answers, n, &text);
	return json_pack("{s:o, s:s, s:o, s:o}", "nodes", nodes, "why", buf_text(&text), "not",
		reasons, "rules", seen);
}

static json_t *answer_named(struct view *view, const char *key)
{
	const char *slash = strchr(key, '/');
	_cleanup_free_ char *ns = slash ? strndup(key, (size_t)(slash - key)) : NULL;
	const struct object *pod = ns ? view_find(view, OBJECT_POD, ns, slash + 1) : NULL;

	return pod ? answer(view, pod_from_object(pod)) : refused("no such pod");
}

int main(void)
{
	_cleanup_(view_free_p) struct view *view = NULL;
	json_t *in, *out = json_object(), *key;
	struct error err = {0};
	json_error_t why;
	size_t i;

	in = json_loadf(stdin, 0, &why);
	if (!in) {
		fprintf(stderr, "fit: line %d: %s\n", why.line, why.text);
		return 1;
	}
	if (view_new((unsigned)json_integer_value(json_object_get(in, "minor")), &view, &err) < 0 ||
		fill(view, json_object_get(in, "objects"), &err) < 0) {
		fprintf(stderr, "fit: %s\n", err.msg);
		json_decref(in);
		return 1;
	}
	json_array_foreach(json_object_get(in, "pods"), i, key)
		json_object_set_new(
			out, json_string_value(key), answer_named(view, json_string_value(key)));
	json_dumpf(out, stdout, JSON_COMPACT);
	json_decref(out);
	json_decref(in);
	return 0;
}
