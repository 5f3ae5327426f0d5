/* SPDX-License-Identifier: Apache-2.0 */
/* Regular expressions of matches(): what matches, what is refused, and the limits. */
#include "unit.h"

#include <errno.h>

#include "base/cleanup.h"
#include "claims/cel-regex.h"

static void expressions_match_a_part_of_the_text(void **state)
{
	static const struct {
		const char *regex, *text;
		bool matches;
	} cases[] = {
		{"", "", true},
		{"b", "abc", true},
		{"^b", "abc", false},
		{"c$", "abc", true},
		{"^abc$", "abc", true},
		{"^$", "a", false},
		{"a.c", "a\nc", false},
		{"a.c", "a€c", true},
		{"^a*$", "aaaa", true},
		{"^a+$", "", false},
		{"^ab?c$", "ac", true},
		{"^ab??c$", "abc", true},
		{"^(ab|c)+$", "abcab", true},
		{"^(ab|c|de)+$", "abd", false},
		{"^(?:a|)b$", "b", true},
		{"^a{2}$", "aa", true},
		{"^a{2,}$", "a", false},
		{"^a{1,3}$", "aaaa", false},
		{"^(ab){0,2}$", "abab", true},
		{"^a{0}b$", "b", true},
		{"a{x}", "a{x}", true},
		{"^[a-c]+$", "abcd", false},
		{"^[^a-c]+$", "xyz", true},
		{"[]]", "]", true},
		{"^[a-]+$", "a-a", true},
		{"^[\\d.]+$", "1.2", true},
		{"^\\w\\s\\D\\W\\S$", "a x a", true},
		{"\\.", "a", false},
		{"(?i)^NVIDIA.a100", "nvidia-A100", true},
		{"(?i)[x-z]", "Y", true},
		{"^.*a100.*$", "nvidia a100 80g", true},
		{"(a*)*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac", false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct error err = {0};
		size_t steps;
		bool matches;

		if (cel_regex_match(str_from(cases[i].regex), str_from(cases[i].text), SIZE_MAX,
			    &matches, &steps, &err) < 0)
			fail_msg("%s: %s", cases[i].regex, err.msg);
		if (matches != cases[i].matches)
			fail_msg("'%s' %s '%s'", cases[i].regex,
				matches ? "matches" : "does not match", cases[i].text);
	}
}

static void other_expressions_are_refused(void **state)
{
	static const struct {
		const char *regex;
		int r;
	} cases[] = {
		{"*", -EINVAL},
		{"a**", -EINVAL},
		{"(a", -EINVAL},
		{"a)", -EINVAL},
		{"[a", -EINVAL},
		{"[z-a]", -EINVAL},
		{"a\\", -EINVAL},
		{"a{3,2}", -EINVAL},
		{"a{1001}", -EINVAL},
		{"\\bx", -ENOTSUP},
		{"\\pL", -ENOTSUP},
		{"(?P<n>x)", -ENOTSUP},
		{"[[:alpha:]]", -ENOTSUP},
		{"[a\\D]", -ENOTSUP},
		{"(a{1000}){3}", -E2BIG},
	};
	char deep[2 * CEL_REGEX_DEPTH_MAX + 4];
	size_t steps;
	bool matches;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		if (cel_regex_match(str_from(cases[i].regex), STR("x"), SIZE_MAX, &matches, &steps,
			    NULL) != cases[i].r)
			fail_msg("%s", cases[i].regex);
	memset(deep, '(', CEL_REGEX_DEPTH_MAX + 1);
	memset(deep + CEL_REGEX_DEPTH_MAX + 1, ')', CEL_REGEX_DEPTH_MAX + 1);
	assert_int_equal(cel_regex_match((struct str){deep, 2ul * CEL_REGEX_DEPTH_MAX + 2},
				 STR("x"), SIZE_MAX, &matches, &steps, NULL),
		-E2BIG);
	assert_int_equal(cel_regex_match((struct str){deep + 1, 2ul * CEL_REGEX_DEPTH_MAX},
				 STR("x"), SIZE_MAX, &matches, &steps, NULL),
		0);
}

static void a_short_expression_can_take_many_steps(void **state)
{
	bool matches;
	size_t steps = 0;

	assert_int_equal(
		cel_regex_match(STR("b{1000}"), STR("aaaaaaaaa"), 10009, &matches, &steps, NULL),
		-ETIMEDOUT);
	assert_int_equal(steps, 10010);
	assert_ok(cel_regex_match(STR("b{1000}"), STR("aaaaaaaaa"), 10010, &matches, &steps, NULL));
	assert_false(matches);
}

UNIT_MAIN(UNIT(expressions_match_a_part_of_the_text), UNIT(other_expressions_are_refused),
	UNIT(a_short_expression_can_take_many_steps))
