/* SPDX-License-Identifier: Apache-2.0 */
/* Gemini's resource-config.txt in both forms, and messages about malformed texts. */
#include "unit.h"

#include <errno.h>

#include "base/cleanup.h"
#include "spec/gemini.h"

static void rows_are_clients(void **state)
{
	_cleanup_gemini_ struct gemini gemini = {NULL, 0};

	assert_ok(gemini_parse(STR("# clients\n3\n\nns/a 0.3 0.6 4294967296\r\nb 0.5 1.0 1GiB\n"
				   "c 0 1 5\n"),
		&gemini, NULL));
	assert_int_equal(gemini.n, 3);
	assert_string_equal(gemini.client[0].name, "ns/a");
	assert_int_equal(gemini.client[0].spec.request, 300);
	assert_int_equal(gemini.client[0].spec.limit, 600);
	assert_int_equal(gemini.client[0].spec.memory_bytes, 4294967296);
	assert_int_equal(gemini.client[0].spec.count, 1);
	assert_int_equal(gemini.client[1].spec.limit, 1000);
	assert_false(gemini.client[1].spec.exclusive);
	assert_int_equal(gemini.client[2].spec.class, SPEC_OPPORTUNISTIC);
}

static void sections_are_clients(void **state)
{
	_cleanup_gemini_ struct gemini gemini = {NULL, 0};

	assert_ok(gemini_parse(STR("[a]\nMinUtil = 0.25\nMaxUtil=0.5\nMemoryLimit=1GiB\n"
				   "[b]\nMemoryLimit=5"),
		&gemini, NULL));
	assert_int_equal(gemini.n, 2);
	assert_int_equal(gemini.client[0].spec.request, 250);
	assert_int_equal(gemini.client[0].spec.memory_bytes, 1 << 30);
	assert_int_equal(gemini.client[1].spec.class, SPEC_OPPORTUNISTIC);
	assert_int_equal(gemini.client[1].spec.limit, 1000);
}

static void empty_texts_have_no_clients(void **state)
{
	_cleanup_gemini_ struct gemini gemini = {NULL, 0};

	assert_ok(gemini_parse(STR(" \n# nobody\n"), &gemini, NULL));
	assert_int_equal(gemini.n, 0);
	assert_ok(gemini_parse(STR("0\n"), &gemini, NULL));
}

static const struct {
	const char *text, *says;
} wrong[] = {
	{"x\n", "line 1"},
	{"2\na 0.1 0.2 5\n", "ends after 1 clients"},
	{"1\na 0.1 0.2 5\nb 0.1 0.2 5\n", "line 3"},
	{"1\na 0.5 0.2 5\n", "limit is below"},
	{"1\na 0.1 0.2\n", "3 words"},
	{"1\na 0.1 0.2 5 6\n", "unexpected word"},
	{"1\na 1.1 1.2 5\n", "'1.1'"},
	{"1\na 0.1 0 5\n", "limit '0'"},
	{"1\na 0.1 0.2 0\n", "memory '0'"},
	{"2\na 0.1 0.2 5\na 0.1 0.2 5\n", "twice"},
	{"[a\n", "no ']' ends the section"},
	{"[]\n", "1 to 63"},
	{"[a]\nMinUtil\n", "Key=value"},
	{"[a]\nSpeed=3\n", "MinUtil, MaxUtil"},
	{"[a]\nMinUtil=0.2\n", "memory is missing"},
	{"99999\n", "0 to 1024"},
};

static void refusals_name_the_line(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct gemini gemini = {NULL, 0};
		struct error err = {0};

		assert_int_equal(gemini_parse(str_from(wrong[i].text), &gemini, &err), -EINVAL);
		assert_null(gemini.client);
		assert_contains(err.msg, wrong[i].says);
		assert_contains(err.msg, "line");
	}
}

UNIT_MAIN(UNIT(rows_are_clients), UNIT(sections_are_clients), UNIT(empty_texts_have_no_clients),
	UNIT(refusals_name_the_line))
