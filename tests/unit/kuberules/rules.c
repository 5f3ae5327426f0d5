/* SPDX-License-Identifier: Apache-2.0 */
/* Runs tables of verdicts: see rules.h. */
#include "rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "kuberules/fit.h"
#include "unit-json.h"

struct view *rules_world(const char *world, unsigned minor)
{
	struct str rest = str_from(world), line;
	struct view *view = NULL;
	struct error err = {0};

	assert_ok(view_new(minor ? minor : 20, &view, &err));
	while (str_split(&rest, '\n', &line)) {
		_cleanup_free_ char *text = str_dup(line);
		char *json_text = strchr(text, ' ');
		enum object_kind kind;
		json_t *json;

		if (!line.n)
			continue;
		*json_text++ = '\0';
		assert_ok(object_kind_parse(text, &kind));
		json = unit_json(json_text);
		if (view_set(view, kind, json, &err) < 0)
			fail_msg("%s: %s", err.msg, json_text);
		json_decref(json);
	}
	return view;
}

static void find_fits(struct view *view, struct buf *fits, struct buf *said)
{
	_cleanup_(fit_free_p) struct fit *fit = NULL;
	struct fit_answer answers[16];
	struct error err = {0};
	const struct object *pod = view_find(view, OBJECT_POD, "a", "q");

	assert_non_null(pod);
	assert_true(view_n_nodes(view) <= ARRAY_SIZE(answers));
	if (fit_new(view, pod_from_object(pod), &fit, &err) < 0) {
		assert_true(err.code > 0);
		buf_add_text(said, err.msg);
		return;
	}
	fit_nodes(fit, answers);
	for (uint32_t i = 0; i < view_n_nodes(view); i++)
		if (!answers[i].why)
			buf_addf(fits, "%s%s", fits->n ? " " : "", view_node(view, i)->object.name);
	fit_summarize(answers, view_n_nodes(view), said);
}

void rules_check(const struct rule_case *cases, size_t n)
{
	size_t n_failed = 0;

	for (size_t i = 0; i < n; i++) {
		_cleanup_buf_ struct buf fits = BUF_INIT(4096), said = BUF_INIT(65536);
		struct view *view = rules_world(cases[i].world, cases[i].minor);

		find_fits(view, &fits, &said);
		view_free(view);
		if (!strcmp(buf_text(&fits), cases[i].fits) &&
			(!cases[i].said || strstr(buf_text(&said), cases[i].said)))
			continue;
		print_error("%s: fits '%s', should fit '%s'; said: %s; should say: %s\n",
			cases[i].what, buf_text(&fits), cases[i].fits, buf_text(&said),
			cases[i].said ? cases[i].said : "anything");
		n_failed++;
	}
	assert_int_equal(n_failed, 0);
}

json_t *rules_jsonv(const char *fmt, va_list ap)
{
	_cleanup_buf_ struct buf text = BUF_INIT(1u << 16);

	buf_addv(&text, fmt, ap);
	return unit_json(buf_text(&text));
}
