/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Expressions of CEL: faults, what is not supported, errors of evaluations, and the limits.
 * tests/k8s/test-allocator.py compares the results with Kubernetes' own evaluator.
 */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "claims/cel-internal.h"

static const struct cel_pair domain[] = {
	{{.type = CEL_STRING, .text = {"model", 5}}, {.type = CEL_STRING, .text = {"A100", 4}}}};
static const struct cel_pair domains[] = {
	{{.type = CEL_STRING, .text = {"d", 1}}, {.type = CEL_MAP, .map = {domain, 1}}}};
static const struct cel_pair fields[] = {{{.type = CEL_STRING, .text = {"attributes", 10}},
	{.type = CEL_MAP, .is_default_empty = true, .map = {domains, 1}}}};
static const struct cel_value device = {.type = CEL_MAP, .map = {fields, 1}};

/* Returns 1 for true, 0 for false, or the error of the parser or the evaluation. */
static int result_of(const char *text, struct error *err)
{
	_cleanup_(cel_free_p) struct cel *cel = NULL;
	uint64_t steps = CEL_STEPS_MAX;
	bool matches;
	int r = cel_parse(str_from(text), &cel, err);

	r = r < 0 ? r : cel_match(cel, &device, &steps, &matches, err);
	return r < 0 ? r : matches;
}

static void expressions_have_results(void **state)
{
	static const struct {
		const char *text;
		int r;
		const char *why; /* part of the message; NULL: none */
	} cases[] = {
		{"device.attributes['d'].model == 'A100'", 1, NULL},
		{"device.attributes['x'].model == 'A100'", -EINVAL, "no such key: model"},
		{"has(device.attributes['x'].model)", 0, NULL},
		{"device.attributes['x'].model == 'A100' || true", 1, NULL},
		{"1 < 'a'", -EINVAL, "order"},
		{"1 / 0 == 1", -EINVAL, "division by zero"},
		{"9223372036854775807 + 1 > 0", -EINVAL, "overflow"},
		{"device.driver == 'x'", -EINVAL, "no such key: driver"},
		{"other", -EINVAL, "undeclared reference to other"},
		{"'A100'", -EINVAL, "not true or false"},
		{"true &&", -EINVAL, "ends too early"},
		{"true)", -EINVAL, "unexpected ')'"},
		{"'abc", -EINVAL, "has no end"},
		{"'\\q' == ''", -EINVAL, "escape"},
		{"99999999999999999999 == 1", -EINVAL, "out of range"},
		{"ip('1.2.3.4') == 1", -ENOTSUP, "ip()"},
		{"'a'.reverse() == 'a'", -ENOTSUP, "reverse()"},
		{"device.?attributes == 1", -ENOTSUP, "optional"},
		{"[?1] == [1]", -ENOTSUP, "optional"},
		{"Device{} == 1", -ENOTSUP, "messages"},
		{"'a'.matches('\\\\pL')", -EINVAL, "not supported"},
		{"'\\u00e4\\x41\\101\\n'.size() == 4 // a comment", 1, NULL},
		{"r'\\n'.size() == 2 && '''it's''' == \"it's\"", 1, NULL},
		{"b'ab' == b'ab' && 0x10 == 16 && 2u == 2", 1, NULL},
		{"{'a': 1, 'a': 2} == {}", -EINVAL, "twice"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct error err = {0};
		const int r = result_of(cases[i].text, &err);

		if (r != cases[i].r || (cases[i].why && !strstr(err.msg, cases[i].why)))
			fail_msg("%s: %d %s", cases[i].text, r, err.msg);
	}
}

/* Returns the piece n times, which the caller frees. */
static char *repeated(const char *piece, size_t n)
{
	const size_t size = strlen(piece);
	char *text = calloc(n + 1, size + 1);

	for (size_t i = 0; text && i < n; i++)
		memcpy(text + i * size, piece, size);
	return text;
}

static void limits_hold(void **state)
{
	_cleanup_free_ char *deep = repeated("(", CEL_DEPTH_MAX), *large = repeated("1+", 6000);
	struct error err;

	assert_int_equal(result_of(deep, &err), -E2BIG);
	assert_int_equal(result_of(large, &err), -E2BIG);
	assert_non_null(strstr(err.msg, "longer than 10240 bytes"));
	/* Each level multiplies the steps by 8. */
	assert_int_equal(result_of("[1,2,3,4,5,6,7,8].all(a, [1,2,3,4,5,6,7,8].all(b, "
				   "[1,2,3,4,5,6,7,8].all(c, [1,2,3,4,5,6,7,8].all(d, "
				   "[1,2,3,4,5,6,7,8].all(e, [1,2,3,4,5,6,7,8].all(f, "
				   "[1,2,3,4,5,6,7,8].all(g, a + b + c + d + e + f + g > 0)))))))",
				 &err),
		-E2BIG);
	assert_non_null(strstr(err.msg, "steps"));
}

/* A list of 64 numbers, without the brackets. */
#define NUMBERS_8 "1,2,3,4,5,6,7,8"
#define NUMBERS_64 \
	NUMBERS_8 "," NUMBERS_8 "," NUMBERS_8 "," NUMBERS_8 "," NUMBERS_8 "," NUMBERS_8 \
		  "," NUMBERS_8 "," NUMBERS_8
/* The expression `what` for each of 64 * 64 pairs, where s has 10 KiB and t has 64 items. */
#define MANY_TIMES(what) \
	"cel.bind(t, [" NUMBERS_64 "], cel.bind(s, ['0123456789'].map(x, x + x + x + x).map(x, " \
	"x + x + x + x).map(x, x + x + x + x).map(x, x + x + x + x).map(x, x + x + x + x)[0], " \
	"t.all(i, t.all(j, " what "))))"

/* Work that a function does in one call counts, so that many calls cannot take long. */
static void work_in_functions_counts(void **state)
{
	static const char *const cases[] = {
		MANY_TIMES("s.charAt(10000) != 'x'"),
		MANY_TIMES("s.substring(10000) != 'x'"),
		MANY_TIMES("s.startsWith(s)"),
		MANY_TIMES("s.endsWith(s)"),
		MANY_TIMES("s.trim() != 'x'"),
		MANY_TIMES("s <= s"),
		MANY_TIMES("s in {s: 1}"),
		MANY_TIMES("'0123'.indexOf(s) < 0"),
		MANY_TIMES("!s.matches('(a?b?){400}c')"),
		/* the memory for a list that the error leaves unused */
		MANY_TIMES("t.all(k, t.map(x, 1 / 0).size() == 0 || true)"),
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct error err = {0};
		const int r = result_of(cases[i], &err);

		if (r != -E2BIG)
			fail_msg("%s: %d %s", cases[i], r, err.msg);
	}
}

/* Returns the bytes that a program keeps of the expression. */
static size_t memory_of(const char *text)
{
	_cleanup_(cel_free_p) struct cel *cel = NULL;

	assert_ok(cel_parse(str_from(text), &cel, NULL));
	return cel->arena.total;
}

static void memory_grows_with_the_text(void **state)
{
	_cleanup_free_ char *texts = repeated("''+", 3000), *calls = repeated("[]+", 3000);

	/* No operand follows the last operator. */
	texts[strlen(texts) - 1] = calls[strlen(calls) - 1] = ' ';
	assert_in_range(memory_of(texts), 1, 1 << 20);
	assert_in_range(memory_of(calls), 1, 1 << 20);
}

UNIT_MAIN(UNIT(expressions_have_results), UNIT(limits_hold), UNIT(work_in_functions_counts),
	UNIT(memory_grows_with_the_text))
