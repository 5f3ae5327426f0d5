/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "scheduler/quantity.h"
#include "unit.h"

static int64_t parse(const char *text, enum quantity_unit unit)
{
	struct error err = {0};
	int64_t n = -1;
	int r = quantity_count(str_from(text), unit, &n, &err);

	if (r < 0) {
		assert_contains(err.msg, text);
		assert_int_equal(n, -1);
	}
	return r < 0 ? r : n;
}

static void quantities_are_exact_and_rounded_up(void **state)
{
	static const struct {
		const char *text;
		int64_t whole, milli;
	} cases[] = {
		{"0", 0, 0},
		{"1", 1, 1000},
		{"+2", 2, 2000},
		{"-0", 0, 0},
		{".5", 1, 500},
		{"1.", 1, 1000},
		{"0.3", 1, 300},
		{"0.0001", 1, 1},
		{"500m", 1, 500},
		{"1500m", 2, 1500},
		{"1u", 1, 1},
		{"1n", 1, 1},
		{"1000000n", 1, 1},
		{"2000001n", 1, 3},
		{"1k", 1000, 1000000},
		{"1Ki", 1024, 1024000},
		{"1.5Gi", 1610612736, 1610612736000},
		{"0.1Ki", 103, 102400},
		{"2e3", 2000, 2000000},
		{"2E3", 2000, 2000000},
		{"2e+3", 2000, 2000000},
		{"25e-1", 3, 2500},
		{"1E", 1000000000000000000, -ERANGE},
		{"7Ei", 8070450532247928832, -ERANGE},
		{"8Ei", -ERANGE, -ERANGE},
		{"9223372036854775807", INT64_MAX, -ERANGE},
		{"9223372036854775808", -ERANGE, -ERANGE},
		{"00000000000000000000000000000000000000000000000000001", 1, 1000},
		{"1.000000000000000000000000000000000000000000000000000", 1, 1000},
		{"1234567890123456789012345678", -ERANGE, -ERANGE},
		{"0.000000000000000000000000000000000000001Ki", 1, 1},
		{"1e999", -ERANGE, -ERANGE},
		{"1e-999", 1, 1},
		{"0e999", 0, 0},
		{"-1", -ERANGE, -ERANGE},
		{"-1m", -ERANGE, -ERANGE},
		{"", -EINVAL, -EINVAL},
		{".", -EINVAL, -EINVAL},
		{"m", -EINVAL, -EINVAL},
		{"1 ", -EINVAL, -EINVAL},
		{"1.2.3", -EINVAL, -EINVAL},
		{"1K", -EINVAL, -EINVAL},
		{"1e", -EINVAL, -EINVAL},
		{"1e1000", -EINVAL, -EINVAL},
		{"1e5k", -EINVAL, -EINVAL},
		{"1mi", -EINVAL, -EINVAL},
		{"0x10", -EINVAL, -EINVAL},
		{"--1", -EINVAL, -EINVAL},
	};
	size_t n_failed = 0;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		int64_t whole = parse(cases[i].text, QUANTITY_WHOLE);
		int64_t milli = parse(cases[i].text, QUANTITY_MILLI);

		if (whole == cases[i].whole && milli == cases[i].milli)
			continue;
		print_error("'%s' is %lld and %lld\n", cases[i].text, (long long)whole,
			(long long)milli);
		n_failed++;
	}
	assert_int_equal(n_failed, 0);
}

static void too_many_digits_are_refused(void **state)
{
	char text[QUANTITY_DIGITS_MAX + 4] = "0.";

	memset(text + 2, '1', QUANTITY_DIGITS_MAX);
	assert_int_equal(parse(text, QUANTITY_WHOLE), 1);
	text[QUANTITY_DIGITS_MAX + 2] = '1';
	assert_int_equal(parse(text, QUANTITY_WHOLE), -ERANGE);
}

static void sums_stop_at_the_most(void **state)
{
	assert_int_equal(quantity_add(1, 2), 3);
	assert_true(quantity_add(INT64_MAX, 1) == INT64_MAX);
	assert_true(quantity_add(INT64_MAX - 1, INT64_MAX) == INT64_MAX);
}

UNIT_MAIN(UNIT(quantities_are_exact_and_rounded_up), UNIT(too_many_digits_are_refused),
	UNIT(sums_stop_at_the_most))
