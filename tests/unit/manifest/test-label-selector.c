/* SPDX-License-Identifier: Apache-2.0 */
#include "unit-json.h"

#include <errno.h>

#include "base/cleanup.h"
#include "manifest/label-selector.h"

static void a_text_selects_matching_labels(void **state)
{
	static const struct {
		const char *text, *labels;
		bool fits;
	} rows[] = {
		{"", "{}", true},
		{"", "{'a':'b'}", true},
		{"app=web", "{'app':'web'}", true},
		{"app==web", "{'app':'web'}", true},
		{" app = web ", "{'app':'web'}", true},
		{"app=web", "{'app':'webs'}", false},
		{"app=web", "{}", false},
		{"app=", "{'app':''}", true},
		{"app=", "{}", false},
		{"app!=web", "{'app':'db'}", true},
		{"app!=web", "{}", true},
		{"app!=web", "{'app':'web'}", false},
		{"x.io/tier in (a, b)", "{'x.io/tier':'b'}", true},
		{"x.io/tier in (a, b)", "{'x.io/tier':'c'}", false},
		{"tier in (a)", "{}", false},
		{"tier in (,a)", "{'tier':''}", true},
		{"tier notin (a,b)", "{'tier':'c'}", true},
		{"tier notin (a,b)", "{}", true},
		{"tier notin (a,b)", "{'tier':'a'}", false},
		{"tier", "{'tier':'a'}", true},
		{"tier", "{}", false},
		{"!tier", "{}", true},
		{"! tier", "{'tier':'a'}", false},
		{"in in (in)", "{'in':'in'}", true},
		{"a=b,tier in (c,d),!e", "{'a':'b','tier':'d'}", true},
		{"a=b,tier in (c,d),!e", "{'a':'b','tier':'d','e':''}", false},
		{"a=b,a!=b", "{'a':'b'}", false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_json_ json_t *labels = unit_json(rows[i].labels), *selector = NULL;
		struct error err = {.msg = ""};

		if (label_selector_parse(str_from(rows[i].text), &selector, &err) < 0)
			fail_msg("'%s': %s", rows[i].text, err.msg);
		if (label_selector_fits(selector, labels) != rows[i].fits)
			fail_msg("'%s' and %s", rows[i].text, rows[i].labels);
	}
}

static void other_texts_are_refused_with_a_message(void **state)
{
	static const char *const wrong[] = {",", "a=b,", ",a=b", "=b", "!", "!a=b", "a>1", "a<1",
		"a b", "a in", "a in b", "a in (b", "a in b)", "a in (b c)", "a notin", "a=b c",
		"a=b=c", "a = b/c", "a,,b", "(a)", "a=\"b\"", "a=\xff", "a===b"};

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		json_t *selector = NULL;
		struct error err;

		if (label_selector_parse(str_from(wrong[i]), &selector, &err) != -EINVAL)
			fail_msg("'%s' is taken", wrong[i]);
		assert_contains(err.msg, "expected KEY=VALUE");
		assert_null(selector);
	}
}

static void text_and_terms_are_limited(void **state)
{
	_cleanup_buf_ struct buf text = BUF_INIT(2 * LABEL_SELECTOR_TEXT_MAX);
	json_t *selector = NULL;
	struct error err;

	for (unsigned int i = 0; i < LABEL_SELECTOR_TERMS_MAX; i++)
		assert_ok(buf_addf(&text, "%sa", i ? "," : ""));
	assert_ok(label_selector_parse(buf_str(&text), &selector, &err));
	json_decref(selector);
	assert_ok(buf_add_text(&text, ",a"));
	assert_int_equal(label_selector_parse(buf_str(&text), &selector, &err), -E2BIG);
	assert_contains(err.msg, "more than 64 terms");
	buf_clear(&text);
	assert_ok(buf_addf(&text, "a=%0*d", (int)LABEL_VALUE_MAX, 1));
	assert_ok(label_selector_parse(buf_str(&text), &selector, &err));
	json_decref(selector);
	assert_ok(buf_add_byte(&text, '1'));
	assert_int_equal(label_selector_parse(buf_str(&text), &selector, &err), -EINVAL);
	while (text.n <= LABEL_SELECTOR_TEXT_MAX)
		assert_ok(buf_add_byte(&text, 'a'));
	assert_int_equal(label_selector_parse(buf_str(&text), &selector, &err), -E2BIG);
	assert_contains(err.msg, "4096 bytes");
}

/* A selector in the form of Kubernetes objects. */
static void an_object_selects_matching_labels(void **state)
{
	_cleanup_json_ json_t *both = unit_json("{'matchLabels':{'a':'b'},'matchExpressions':["
						"{'key':'c','operator':'In','values':['d']}]}"),
			      *strange = unit_json("{'matchExpressions':[{'key':'a','operator':"
						   "'Gt','values':['1']}]}"),
			      *fits = unit_json("{'a':'b','c':'d'}"), *not = unit_json("{'a':'b'}");

	assert_true(label_selector_fits(both, fits));
	assert_false(label_selector_fits(both, not ));
	assert_false(label_selector_fits(strange, fits));
	assert_true(label_selector_fits(NULL, fits));
}

UNIT_MAIN(UNIT(a_text_selects_matching_labels), UNIT(other_texts_are_refused_with_a_message),
	UNIT(text_and_terms_are_limited), UNIT(an_object_selects_matching_labels))
