/* SPDX-License-Identifier: Apache-2.0 */
#include "unit-json.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "manifest/policy.h"

static const struct {
	const char *spec, *labels;
	bool selects;
} cases[] = {
	{"{}", "{}", true},
	{"{\"namespaces\":[]}", "{}", false},
	{"{\"namespaces\":[\"b\",\"a\"]}", "{}", true},
	{"{\"namespaces\":[\"b\"]}", "{}", false},
	{"{\"namespaces\":[\"b\"],\"namespaceSelector\":{\"matchLabels\":{\"t\":\"x\"}}}",
		"{\"t\":\"x\"}", true},
	{"{\"namespaceSelector\":{\"matchLabels\":{\"t\":\"x\"}}}", "{\"t\":\"y\"}", false},
	{"{\"namespaceSelector\":{\"matchLabels\":{\"t\":\"x\"}}}", "{}", false},
	{"{\"namespaceSelector\":{}}", "{}", true},
#define EXPRESSION(operator, values) \
	"{\"namespaceSelector\":{\"matchExpressions\":[{\"key\":\"t\",\"operator\":\"" \
	operator"\"" values "}]}}"
	{EXPRESSION("In", ",\"values\":[\"x\"]"), "{\"t\":\"x\"}", true},
	{EXPRESSION("In", ",\"values\":[\"x\"]"), "{}", false},
	{EXPRESSION("NotIn", ",\"values\":[\"x\"]"), "{\"t\":\"x\"}", false},
	{EXPRESSION("NotIn", ",\"values\":[\"x\"]"), "{}", true},
	{EXPRESSION("Exists", ""), "{\"t\":\"\"}", true},
	{EXPRESSION("Exists", ""), "{}", false},
	{EXPRESSION("DoesNotExist", ""), "{}", true},
	{EXPRESSION("DoesNotExist", ""), "{\"t\":\"x\"}", false},
	/* A malformed expression selects no pod. */
	{EXPRESSION("In", ""), "{\"t\":\"x\"}", false},
	{EXPRESSION("Exists", ",\"values\":[\"x\"]"), "{\"t\":\"x\"}", false},
};

static void selects_as_kubernetes_does(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_json_ json_t *spec = unit_json(cases[i].spec),
				      *labels = unit_json(cases[i].labels);

		if (policy_selects(spec, "a", labels) != cases[i].selects)
			fail_msg("%s %s", cases[i].spec, cases[i].labels);
	}
}

static void a_wrong_selector_is_named(void **state)
{
	_cleanup_json_ json_t *in = unit_json(EXPRESSION("In", "")),
			      *exists = unit_json(EXPRESSION("Exists", ",\"values\":[\"x\"]"));
	struct error err;

	assert_int_equal(policy_check_selector(in, &err), -EINVAL);
	assert_contains(err.msg, "matchExpressions[0]: In goes with values");
	assert_int_equal(policy_check_selector(exists, &err), -EINVAL);
	assert_contains(err.msg, "Exists goes without values");
}

static void overcommit_is_a_number_or_a_text(void **state)
{
	static const struct {
		const char *spec;
		uint32_t permille;
	} said[] = {
		{"{}", 0},
		{"{\"overcommit\":{\"share\":2}}", 0},
		{"{\"overcommit\":{\"memory\":2}}", 2000},
		{"{\"overcommit\":{\"memory\":1.5}}", 1500},
		{"{\"overcommit\":{\"memory\":\"1.25\"}}", 1250},
		{"{\"overcommit\":{\"memory\":0.5}}", 1000},
		{"{\"overcommit\":{\"memory\":1e300}}", 16000},
		{"{\"overcommit\":{\"memory\":\"99\"}}", 16000},
		{"{\"overcommit\":{\"memory\":\"much\"}}", 0},
		{"{\"overcommit\":{\"memory\":[2]}}", 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(said); i++) {
		_cleanup_json_ json_t *spec = unit_json(said[i].spec);

		if (policy_overcommit_memory(spec) != said[i].permille)
			fail_msg("%s: %u", said[i].spec, policy_overcommit_memory(spec));
	}
}

static void dialects_are_added_to_the_namespaces_list(void **state)
{
	_cleanup_json_ json_t *spec = unit_json("{\"dialects\":[\"hami\",\"gpushare=MiB\"]}");
	_cleanup_buf_ struct buf list = BUF_INIT(POLICY_DIALECTS_MAX);

	buf_add_text(&list, "nvidia");
	policy_add_dialects(spec, &list);
	assert_string_equal(buf_text(&list), "nvidia,hami,gpushare=MiB");
}

UNIT_MAIN(UNIT(selects_as_kubernetes_does), UNIT(a_wrong_selector_is_named),
	UNIT(overcommit_is_a_number_or_a_text), UNIT(dialects_are_added_to_the_namespaces_list))
