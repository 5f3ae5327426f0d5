/* SPDX-License-Identifier: Apache-2.0 */
/* Kubernetes' quantities: every unit, exactly, and texts that are no quantity. */
#include "unit.h"

#include <errno.h>

#include "base/cleanup.h"
#include "spec/quantity.h"

static const struct {
	const char *text;
	uint64_t per_unit, value;
} right[] = {
	{"0", 1, 0},
	{"1", 1, 1},
	{"+1", 1, 1},
	{"-0", 1, 0},
	{"007", 1, 7},
	{"1.", 1, 1},
	{".5", 1000, 500},
	{"0.5", 1000, 500},
	{"0.500000000000000000000000", 1000, 500},
	{"500m", 1000, 500},
	{"1000m", 1, 1},
	{"5e-1", 1000, 500},
	{"1e3", 1, 1000},
	{"1E3", 1, 1000},
	{"1E+3", 1, 1000},
	{"1E", 1, 1000000000000000000},
	{"2k", 1, 2000},
	{"3M", 1, 3000000},
	{"1G", 1, 1000000000},
	{"1T", 1, 1000000000000},
	{"1P", 1, 1000000000000000},
	{"1Ki", 1, 1024},
	{"1.5Ki", 1, 1536},
	{"1Mi", 1, 1 << 20},
	{"4Gi", 1, 4ull << 30},
	{"1Ti", 1, 1ull << 40},
	{"1Pi", 1, 1ull << 50},
	{"7Ei", 1, 7ull << 60},
	{"3000000000n", 1, 3},
	{"5u", 1000000, 5},
	{"9223372036854775807", 1, INT64_MAX},
	{"10000000000000000000000e-10", 1, 1000000000000},
	{"0e999999999", 1, 0},
};

static void every_form(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(right); i++) {
		uint64_t value = 77;
		struct error err = {0};

		if (quantity_parse(str_from(right[i].text), right[i].per_unit, &value, &err) < 0)
			fail_msg("%s: %s", right[i].text, err.msg);
		if (value != right[i].value)
			fail_msg("%s: %llu", right[i].text, (unsigned long long)value);
	}
}

static const struct {
	const char *text;
	uint64_t per_unit;
	int r;
	const char *says;
} wrong[] = {
	{"", 1, -EINVAL, "not a quantity"},
	{"Gi", 1, -EINVAL, "not a quantity"},
	{".", 1, -EINVAL, "not a quantity"},
	{"1 Gi", 1, -EINVAL, "not a quantity"},
	{"1gi", 1, -EINVAL, "not a quantity"},
	{"1K", 1, -EINVAL, "not a quantity"},
	{"1e", 1, -EINVAL, "not a quantity"},
	{"1e1.5", 1, -EINVAL, "not a quantity"},
	{"1.2.3", 1, -EINVAL, "not a quantity"},
	{"--1", 1, -EINVAL, "not a quantity"},
	{"0x10", 1, -EINVAL, "not a quantity"},
	{"NaN", 1, -EINVAL, "not a quantity"},
	{"-1", 1, -ERANGE, "negative"},
	{"1.5", 1, -ERANGE, "whole number"},
	{"100m", 1, -ERANGE, "whole number"},
	{"0.0001", 1000, -ERANGE, "too many digits"},
	{"9223372036854775808", 1, -ERANGE, "out of range"},
	{"18446744073709551616", 1, -ERANGE, "out of range"},
	{"8Ei", 1, -ERANGE, "out of range"},
	{"10E", 1, -ERANGE, "out of range"},
	{"1e19", 1, -ERANGE, "out of range"},
	{"1e99999999999", 1, -ERANGE, "out of range"},
	{"1e-99999999999", 1, -ERANGE, "whole number"},
	{"9999999999999999Ei", 1000, -ERANGE, "out of range"},
	{"0.00000000000000000000000000000000000000000000000000000000000000000001", 1, -ERANGE,
		"out of range"},
	{"0.12345678901234567890123456789", 1000, -ERANGE, "out of range"},
};

static void refusals(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		uint64_t value = 77;
		struct error err = {0};
		int r = quantity_parse(str_from(wrong[i].text), wrong[i].per_unit, &value, &err);

		if (r != wrong[i].r || value != 77)
			fail_msg("%s: %d", wrong[i].text, r);
		assert_contains(err.msg, wrong[i].says);
	}
}

static void rounded_up(void **state)
{
	static const struct {
		const char *text;
		int64_t whole, milli;
	} cases[] = {
		{"0", 0, 0},
		{".5", 1, 500},
		{"0.3", 1, 300},
		{"0.0001", 1, 1},
		{"1500m", 2, 1500},
		{"1n", 1, 1},
		{"1000000n", 1, 1},
		{"2000001n", 1, 3},
		{"1.5Gi", 1610612736, 1610612736000},
		{"0.1Ki", 103, 102400},
		{"25e-1", 3, 2500},
		{"1E", 1000000000000000000, -ERANGE},
		{"7Ei", 8070450532247928832, -ERANGE},
		{"8Ei", -ERANGE, -ERANGE},
		{"9223372036854775807", INT64_MAX, -ERANGE},
		{"9223372036854775808", -ERANGE, -ERANGE},
		{"00000000000000000000000000000000000000000000000000001", 1, 1000},
		{"1.000000000000000000000000000000000000000000000000000", 1, 1000},
		{"1234567890123456789012345678", -ERANGE, -ERANGE},
		{"0.1234567890123456789012345678Ei", 142335986942043634, -ERANGE},
		{"0.000000000000000000000000000000000000001Ki", 1, 1},
		{"1e999", -ERANGE, -ERANGE},
		{"1e-999", 1, 1},
		{"-1m", -ERANGE, -ERANGE},
		{"1K", -EINVAL, -EINVAL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct str text = str_from(cases[i].text);
		int64_t whole = 77, milli = 77;
		int r = quantity_parse_up(text, 1, &whole, NULL);

		assert_true((r < 0 ? r : whole) == cases[i].whole);
		assert_true(r == 0 || whole == 77);
		r = quantity_parse_up(text, 1000, &milli, NULL);
		assert_true((r < 0 ? r : milli) == cases[i].milli);
	}
}

static void written_as_kubernetes_does(void **state)
{
	static const struct {
		uint64_t value;
		const char *milli, *bytes;
	} cases[] = {
		{0, "0", "0"},
		{1, "1m", "1"},
		{350, "350m", "350"},
		{1000, "1", "1k"},
		{1024, "1024m", "1Ki"},
		{1500, "1500m", "1500"},
		{3000000, "3k", "3000000"},
		{UINT64_C(3) << 30, "3221225472m", "3Gi"},
		{UINT64_C(96) << 20, "100663296m", "96Mi"},
		{INT64_MAX, "9223372036854775807m", "9223372036854775807"},
	};
	char text[QUANTITY_SIZE];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t back = 7;

		assert_string_equal(quantity_format_milli(cases[i].value, text), cases[i].milli);
		assert_ok(quantity_parse(str_from(text), 1000, &back, NULL));
		assert_true(back == cases[i].value);
		assert_string_equal(quantity_format_bytes(cases[i].value, text), cases[i].bytes);
		assert_ok(quantity_parse(str_from(text), 1, &back, NULL));
		assert_true(back == cases[i].value);
	}
}

UNIT_MAIN(UNIT(every_form), UNIT(refusals), UNIT(rounded_up), UNIT(written_as_kubernetes_does))
