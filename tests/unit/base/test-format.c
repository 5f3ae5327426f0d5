/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/clock.h"
#include "base/format.h"
#include "base/parse.h"
#include "base/rand.h"
#include "base/table.h"

static void bytes_are_formatted(void **state)
{
	assert_string_equal(format_bytes(0).s, "0");
	assert_string_equal(format_bytes(1023).s, "1023");
	assert_string_equal(format_bytes(1024).s, "1Ki");
	assert_string_equal(format_bytes(UINT64_C(3) << 29).s, "1.5Gi");
	assert_string_equal(format_bytes(UINT64_C(141) << 30).s, "141Gi");
	/* Rounds up into the next unit rather than to 1024Mi. */
	assert_string_equal(format_bytes((UINT64_C(1) << 30) - 1).s, "1Gi");
	assert_string_equal(format_bytes(UINT64_MAX).s, "16Ei");
	assert_string_equal(format_bytes_exact((UINT64_C(1) << 30) - 1).s, "1073741823");
	assert_string_equal(format_bytes_exact(UINT64_C(9) << 29).s, "4608Mi");
}

static void shares_are_formatted(void **state)
{
	assert_string_equal(format_share(300).s, "0.3");
	assert_string_equal(format_share(125).s, "0.125");
	assert_string_equal(format_share(1).s, "0.001");
	assert_string_equal(format_share(0).s, "0");
	assert_string_equal(format_share(1000).s, "1");
	assert_string_equal(format_share(10000).s, "10");
	assert_string_equal(format_percent(300).s, "30%");
	assert_string_equal(format_percent(125).s, "12.5%");
}

static void durations_are_formatted(void **state)
{
	assert_string_equal(format_duration(0).s, "0");
	assert_string_equal(format_duration(740).s, "740ns");
	assert_string_equal(format_duration(1500).s, "1.5us");
	assert_string_equal(format_duration(1500 * NSEC_PER_USEC).s, "1.5ms");
	assert_string_equal(format_duration(999 * NSEC_PER_MSEC).s, "999ms");
	assert_string_equal(format_duration(12345 * NSEC_PER_MSEC).s, "12.3s");
	assert_string_equal(format_duration(130 * NSEC_PER_SEC).s, "2m10s");
	assert_string_equal(format_duration(60 * NSEC_PER_SEC).s, "1m");
	assert_string_equal(format_duration(11100 * NSEC_PER_SEC).s, "3h5m");
	assert_string_equal(format_duration(UINT64_MAX).s, "213503d23h");
	assert_string_equal(format_duration_nearest(0).s, "0");
	assert_string_equal(format_duration_nearest(12345 * NSEC_PER_MSEC).s, "12.3s");
	assert_string_equal(format_duration_nearest(12350 * NSEC_PER_MSEC).s, "12.4s");
	assert_string_equal(format_duration_nearest(59949 * NSEC_PER_MSEC).s, "59.9s");
	assert_string_equal(format_duration_nearest(59950 * NSEC_PER_MSEC).s, "1m");
	assert_string_equal(format_duration_nearest(130499 * NSEC_PER_MSEC).s, "2m10s");
	assert_string_equal(format_duration_nearest(130500 * NSEC_PER_MSEC).s, "2m11s");
	assert_string_equal(format_duration_nearest(3599500 * NSEC_PER_MSEC).s, "1h");
	assert_string_equal(format_duration_nearest(11129 * NSEC_PER_SEC).s, "3h5m");
	assert_string_equal(format_duration_nearest(11130 * NSEC_PER_SEC).s, "3h6m");
	assert_string_equal(format_duration_nearest(86399 * NSEC_PER_SEC).s, "1d");
	assert_string_equal(format_duration_nearest(88200 * NSEC_PER_SEC).s, "1d1h");
	assert_string_equal(format_duration_nearest(UINT64_MAX).s, "213503d23h");
}

static void exact_formats_are_read_back(void **state)
{
	struct rand rand = rand_seeded(1);
	uint64_t want, got;
	uint32_t permille;
	int i;

	for (i = 0; i < 20000; i++) {
		want = rand_u64(&rand) >> (1 + rand_below(&rand, 63));
		assert_ok(parse_bytes(str_from(format_bytes_exact(want).s), &got, NULL));
		assert_true(want == got);
	}
	for (i = 0; i <= 2000; i++) {
		assert_ok(parse_share(str_from(format_share((uint32_t)i).s), &permille, NULL));
		assert_int_equal(permille, i);
	}
}

static void hexadecimal_digits_are_formatted(void **state)
{
	const uint8_t bytes_in[] = {0, 0xff, 0xa5};
	const uint8_t many[40] = {0};

	assert_string_equal(format_hex(bytes_in, 3).s, "00ffa5");
	assert_int_equal(strlen(format_hex(many, sizeof(many)).s), 30);
}

static void random_numbers_are_the_published_ones(void **state)
{
	/* splitmix64 from seed 1234567, as in its reference implementation. */
	struct rand rand = rand_seeded(1234567);
	uint8_t a[16] = {0}, b[16] = {0};
	unsigned int seen = 0;
	uint64_t x;
	int i;

	assert_true(rand_u64(&rand) == UINT64_C(6457827717110365317));
	assert_true(rand_u64(&rand) == UINT64_C(3203168211198807973));
	for (i = 0; i < 1000; i++) {
		x = rand_below(&rand, 6);
		assert_true(x < 6);
		seen |= 1u << x;
		assert_true(rand_unit(&rand) >= 0 && rand_unit(&rand) < 1);
	}
	assert_int_equal(seen, 0x3f);
	assert_int_equal(rand_below(&rand, 0), 0);
	assert_ok(random_bytes(a, sizeof(a)));
	assert_ok(random_bytes(b, sizeof(b)));
	assert_memory_not_equal(a, b, sizeof(a));
}

static const struct table_column columns[] = {{"NAME", false}, {"SHARE", true}, {"NOTE", false}};

static void tables_are_aligned(void **state)
{
	_cleanup_table_ struct table t;
	_cleanup_buf_ struct buf out = BUF_INIT(1000);

	table_init(&t, columns, 3);
	table_add(&t, "a");
	table_addf(&t, "%d", 5);
	table_add(&t, "x");
	table_add(&t, "b\xc3\xa4r");
	table_add(&t, "");
	table_add(&t, NULL);
	table_add(&t, "longer");
	assert_ok(table_format(&t, true, &out));
	assert_string_equal(buf_text(&out),
		"NAME    SHARE  NOTE\n"
		"a           5  x\n"
		"b\xc3\xa4r         -  -\n"
		"longer      -  -\n");
}

static void tables_may_go_without_titles(void **state)
{
	_cleanup_table_ struct table t;
	_cleanup_buf_ struct buf out = BUF_INIT(1000);

	table_init(&t, columns, 3);
	assert_ok(table_format(&t, false, &out));
	assert_string_equal(buf_text(&out), "");
	table_add(&t, "a");
	table_add(&t, "1");
	table_add(&t, "z");
	assert_ok(table_format(&t, false, &out));
	assert_string_equal(buf_text(&out), "a  1  z\n");
}

static void numbers_keep_their_value(void **state)
{
	assert_string_equal(format_real(17179869184.0).s, "17179869184");
	assert_string_equal(format_real(-3.0).s, "-3");
	assert_string_equal(format_real(0.1 + 0.2).s, "0.3");
	assert_string_equal(format_real(1e300).s, "1e+300");
}

UNIT_MAIN(UNIT(bytes_are_formatted), UNIT(shares_are_formatted), UNIT(durations_are_formatted),
	UNIT(exact_formats_are_read_back), UNIT(hexadecimal_digits_are_formatted),
	UNIT(random_numbers_are_the_published_ones), UNIT(tables_are_aligned),
	UNIT(tables_may_go_without_titles), UNIT(numbers_keep_their_value))
