/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <errno.h>

#include "base/clock.h"
#include "base/parse.h"

#define UNTOUCHED 12345

struct example {
	const char *text;
	int result;
	uint64_t value;
};

typedef int parse_fn(struct str text, uint64_t *ret, struct error *err);

/* Each refusal leaves the value alone and names the refused text. */
static void check(parse_fn *parse, const struct example *e, size_t n)
{
	struct error err;
	uint64_t value;
	int r;

	for (; n--; e++) {
		value = UNTOUCHED;
		err = (struct error){0};
		r = parse(str_from(e->text), &value, &err);
		if (r != e->result || value != (r ? UNTOUCHED : e->value))
			fail_msg("'%s': %d, %llu", e->text, r, (unsigned long long)value);
		if (r) {
			assert_int_equal(err.code, -r);
			assert_contains(err.msg, "'");
		}
	}
}

static int small(struct str text, uint64_t *ret, struct error *err)
{
	return parse_uint(text, 1, 100, ret, err);
}

static int any(struct str text, uint64_t *ret, struct error *err)
{
	return parse_uint(text, 0, UINT64_MAX, ret, err);
}

static void numbers_are_parsed(void **state)
{
	static const struct example within[] = {
		{"1", 0, 1},
		{"100", 0, 100},
		{"007", 0, 7},
		{"0", -ERANGE, 0},
		{"101", -ERANGE, 0},
		{"99999999999999999999999", -ERANGE, 0},
		{"", -EINVAL, 0},
		{"-1", -EINVAL, 0},
		{"+1", -EINVAL, 0},
		{" 1", -EINVAL, 0},
		{"1 ", -EINVAL, 0},
		{"0x10", -EINVAL, 0},
		{"1e3", -EINVAL, 0},
	};
	static const struct example wide[] = {
		{"18446744073709551615", 0, UINT64_MAX},
		{"18446744073709551616", -ERANGE, 0},
		{"28446744073709551615", -ERANGE, 0},
	};

	check(small, within, ARRAY_SIZE(within));
	check(any, wide, ARRAY_SIZE(wide));
}

static int share(struct str text, uint64_t *ret, struct error *err)
{
	uint32_t permille;
	int r = parse_share(text, &permille, err);

	if (r == 0)
		*ret = permille;
	return r;
}

static void shares_are_parsed(void **state)
{
	static const struct example examples[] = {
		{"0.3", 0, 300},
		{"0.1", 0, 100},
		{"0.001", 0, 1},
		{"0.999", 0, 999},
		{"0", 0, 0},
		{"0.0", 0, 0},
		{"1", 0, 1000},
		{"1.0", 0, 1000},
		{"1.5", 0, 1500},
		{"16", 0, 16000},
		{"0.50000000000000000000000000", 0, 500},
		{"1000", 0, 1000000},
		{"1000.001", -ERANGE, 0},
		{"1001", -ERANGE, 0},
		{"0.0001", -ERANGE, 0},
		{"0.3001", -ERANGE, 0},
		{"0.30000000000000004", -ERANGE, 0},
		{"0.00000000000000000000000000000000001", -ERANGE, 0},
		{"99999999999999999999", -ERANGE, 0},
		{"", -EINVAL, 0},
		{".", -EINVAL, 0},
		{".5", -EINVAL, 0},
		{"1.", -EINVAL, 0},
		{"1..5", -EINVAL, 0},
		{"1.5.5", -EINVAL, 0},
		{"0,3", -EINVAL, 0},
		{"-0.3", -EINVAL, 0},
		{"3e-1", -EINVAL, 0},
		{"30%", -EINVAL, 0},
		{"nan", -EINVAL, 0},
	};

	check(share, examples, ARRAY_SIZE(examples));
}

static void tenths_add_up_to_one_gpu(void **state)
{
	uint64_t a = 0, b = 0, c = 0;

	assert_ok(share(STR("0.1"), &a, NULL));
	assert_ok(share(STR("0.2"), &b, NULL));
	assert_ok(share(STR("0.7"), &c, NULL));
	assert_int_equal(a + b + c, SHARE_ONE);
}

static void bytes_are_parsed(void **state)
{
	static const struct example examples[] = {
		{"0", 0, 0},
		{"1024", 0, 1024},
		{"500M", 0, 500000000},
		{"4Gi", 0, UINT64_C(4) << 30},
		{"141Gi", 0, UINT64_C(141) << 30},
		{"141GiB", 0, UINT64_C(141) << 30},
		{"1.5Gi", 0, UINT64_C(3) << 29},
		{"1k", 0, 1000},
		{"1K", 0, 1000},
		{"1Ki", 0, 1024},
		{"2B", 0, 2},
		{"0.5k", 0, 500},
		{"8191Pi", 0, UINT64_C(8191) << 50},
		{"9223372036854775807", 0, INT64_MAX},
		{"8192Pi", -ERANGE, 0},
		{"9223372036854775808", -ERANGE, 0},
		{"99999999999P", -ERANGE, 0},
		{"1.5", -ERANGE, 0},
		{"0.0001Ki", -ERANGE, 0},
		{"", -EINVAL, 0},
		{"Gi", -EINVAL, 0},
		{"4gi", -EINVAL, 0},
		{"4 Gi", -EINVAL, 0},
		{"4Gi ", -EINVAL, 0},
		{"4GiBB", -EINVAL, 0},
		{"4m", -EINVAL, 0},
		{"-4Gi", -EINVAL, 0},
		{"50%", -EINVAL, 0},
	};

	check(parse_bytes, examples, ARRAY_SIZE(examples));
}

static int percent(struct str text, uint64_t *ret, struct error *err)
{
	uint32_t permille;
	int r = parse_percent(text, &permille, err);

	if (r == 0)
		*ret = permille;
	return r;
}

static void percentages_are_parsed(void **state)
{
	static const struct example examples[] = {
		{"0%", 0, 0},
		{"50%", 0, 500},
		{"12.5%", 0, 125},
		{"100%", 0, 1000},
		{"100.1%", -ERANGE, 0},
		{"12.55%", -ERANGE, 0},
		{"50", -EINVAL, 0},
		{"%", -EINVAL, 0},
		{"50%%", -EINVAL, 0},
		{"50 %", -EINVAL, 0},
	};

	check(percent, examples, ARRAY_SIZE(examples));
}

static void durations_are_parsed(void **state)
{
	static const struct example examples[] = {
		{"0", 0, 0},
		{"0s", 0, 0},
		{"7ns", 0, 7},
		{"30us", 0, 30 * NSEC_PER_USEC},
		{"500ms", 0, 500 * NSEC_PER_MSEC},
		{"10s", 0, 10 * NSEC_PER_SEC},
		{"2m", 0, 120 * NSEC_PER_SEC},
		{"1.5h", 0, 5400 * NSEC_PER_SEC},
		{"1d", 0, 86400 * NSEC_PER_SEC},
		{"0.5ns", -ERANGE, 0},
		{"106751d", 0, UINT64_C(106751) * 86400 * NSEC_PER_SEC},
		{"106752d", -ERANGE, 0},
		{"10", -EINVAL, 0},
		{"s", -EINVAL, 0},
		{"", -EINVAL, 0},
		{"10 s", -EINVAL, 0},
		{"10S", -EINVAL, 0},
		{"-1s", -EINVAL, 0},
		{"10sec", -EINVAL, 0},
	};

	check(parse_duration, examples, ARRAY_SIZE(examples));
}

static void booleans_are_parsed(void **state)
{
	struct error err;
	bool value = false;

	assert_ok(parse_bool(STR("yes"), &value, &err));
	assert_true(value);
	assert_ok(parse_bool(STR("off"), &value, &err));
	assert_false(value);
	assert_int_equal(parse_bool(STR("maybe"), &value, &err), -EINVAL);
	assert_contains(err.msg, "'maybe'");
	assert_int_equal(parse_bool(STR(""), &value, &err), -EINVAL);
}

static void hexadecimal_digits_are_parsed(void **state)
{
	uint8_t out[3] = {1, 2, 3};
	const uint8_t want[3] = {0x00, 0xfF, 0xa5};
	struct error err;

	assert_int_equal(parse_hex(STR("00ff"), out, 3, &err), -EINVAL);
	assert_contains(err.msg, "6 hexadecimal digits");
	assert_int_equal(parse_hex(STR("00ff0g"), out, 3, &err), -EINVAL);
	assert_contains(err.msg, "character 6");
	assert_int_equal(out[0], 1);
	assert_ok(parse_hex(STR("00fFa5"), out, 3, &err));
	assert_memory_equal(out, want, 3);
}

static void messages_name_the_expected_value(void **state)
{
	struct error err;
	uint64_t value;
	uint32_t permille;

	parse_uint(STR("101"), 0, 100, &value, &err);
	assert_string_equal(err.msg, "'101' is out of range; expected 0 to 100");
	parse_share(STR("0.3001"), &permille, &err);
	assert_contains(err.msg, "'0.3001'");
	assert_contains(err.msg, "multiple of 0.001");
	parse_bytes(STR("4GG"), &value, &err);
	assert_contains(err.msg, "4Gi");
	parse_duration(STR("10"), &value, &err);
	assert_contains(err.msg, "ms");
}

static void a_long_value_is_cut_in_the_message(void **state)
{
	char novel[200];
	struct error err;
	uint64_t value;

	memset(novel, 'x', sizeof(novel));
	parse_bytes((struct str){novel, sizeof(novel)}, &value, &err);
	assert_contains(err.msg, "xxx...'");
	assert_contains(err.msg, "4Gi");
}

UNIT_MAIN(UNIT(numbers_are_parsed), UNIT(shares_are_parsed), UNIT(tenths_add_up_to_one_gpu),
	UNIT(bytes_are_parsed), UNIT(percentages_are_parsed), UNIT(durations_are_parsed),
	UNIT(booleans_are_parsed), UNIT(hexadecimal_digits_are_parsed),
	UNIT(messages_name_the_expected_value), UNIT(a_long_value_is_cut_in_the_message))
