/* SPDX-License-Identifier: Apache-2.0 */
#include "kubelet/grpc-wire.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "unit.h"

static void statuses_have_their_numbers(void **state)
{
	assert_int_equal(GRPC_UNAVAILABLE, 14);
	assert_int_equal(GRPC_UNAUTHENTICATED, 16);
	assert_string_equal(grpc_status_name(GRPC_DEADLINE_EXCEEDED), "DEADLINE_EXCEEDED");
	assert_string_equal(grpc_status_name((enum grpc_status)99), "UNKNOWN");
	assert_int_equal(grpc_status_parse(STR("0")), GRPC_OK);
	assert_int_equal(grpc_status_parse(STR("12")), GRPC_UNIMPLEMENTED);
	assert_int_equal(grpc_status_parse(STR("17")), GRPC_UNKNOWN);
	assert_int_equal(grpc_status_parse(STR("")), GRPC_UNKNOWN);
	assert_int_equal(grpc_status_parse(STR("ok")), GRPC_UNKNOWN);
}

static void timeouts_are_read(void **state)
{
	static const struct {
		const char *text;
		uint64_t ns;
	} good[] = {
		{"0n", 0},
		{"7n", 7},
		{"30u", 30 * NSEC_PER_USEC},
		{"100m", 100 * NSEC_PER_MSEC},
		{"29999999u", 29999999 * NSEC_PER_USEC},
		{"10S", 10 * NSEC_PER_SEC},
		{"3M", 180 * NSEC_PER_SEC},
		{"2H", 7200 * NSEC_PER_SEC},
		{"99999999H", CLOCK_NEVER},
	};
	static const char *const bad[] = {
		"", "S", "1", "1s", "-1S", "1.5S", "+1S", "100000000n", "1 S", "1SS", "H1"};
	uint64_t ns;

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		assert_ok(grpc_timeout_parse(str_from(good[i].text), &ns));
		assert_true(ns == good[i].ns);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(grpc_timeout_parse(str_from(bad[i]), &ns), -EINVAL);
}

/* The written timeout is never shorter than the deadline. */
static void timeouts_are_written_with_eight_digits(void **state)
{
	static const uint64_t values[] = {0, 1, 99999999, 100000000, 100000001, 30 * NSEC_PER_SEC,
		12345678901, UINT64_MAX / 2, UINT64_MAX};
	char text[GRPC_TIMEOUT_SIZE];
	uint64_t ns;

	grpc_timeout_format(100000001, text);
	assert_string_equal(text, "100001u");
	grpc_timeout_format(10 * NSEC_PER_SEC, text);
	assert_string_equal(text, "10000000u");
	for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
		grpc_timeout_format(values[i], text);
		assert_true(strlen(text) <= 9);
		assert_ok(grpc_timeout_parse(str_from(text), &ns));
		assert_true(ns >= values[i]);
		assert_true(ns - values[i] <= values[i] / 99999 + 1);
	}
}

static void messages_survive_a_header(void **state)
{
	_cleanup_buf_ struct buf header = BUF_INIT(8192), back = BUF_INIT(8192);
	const struct str text = STR("100 % of 'd\xc3\xa9vice'\n\x01~ \x7f");

	assert_ok(grpc_text_encode(text, &header));
	assert_string_equal(buf_text(&header), "100 %25 of 'd%C3%A9vice'%0A%01~ %7F");
	assert_ok(grpc_text_decode(buf_str(&header), &back));
	assert_true(str_eq(buf_str(&back), text));
	buf_clear(&back);
	assert_ok(grpc_text_decode(STR("%4 %G1 %41%"), &back));
	assert_string_equal(buf_text(&back), "%4 %G1 A%");
}

static void long_messages_are_cut(void **state)
{
	_cleanup_buf_ struct buf out = BUF_INIT(8192);
	char text[4 * GRPC_TEXT_MAX];

	memset(text, '\n', sizeof(text));
	assert_ok(grpc_text_encode((struct str){text, sizeof(text)}, &out));
	assert_int_equal(out.n, 3 * GRPC_TEXT_MAX);
	memset(text, 'a', sizeof(text));
	buf_clear(&out);
	assert_ok(grpc_text_decode((struct str){text, sizeof(text)}, &out));
	assert_int_equal(out.n, GRPC_TEXT_MAX);
}

static void a_message_has_its_prefix(void **state)
{
	_cleanup_buf_ struct buf b = BUF_INIT(2u << 20);
	struct str message;

	assert_ok(grpc_message_add(&b, STR("abc")));
	assert_memory_equal(b.p, "\0\0\0\0\3abc", 8);
	for (size_t n = 0; n < b.n; n++)
		assert_int_equal(grpc_message_take((struct str){b.p, n}, 100, &message), 0);
	assert_int_equal(grpc_message_take(buf_str(&b), 100, &message), 1);
	assert_true(str_is(message, "abc"));

	buf_clear(&b);
	assert_ok(grpc_message_add(&b, STR("")));
	assert_int_equal(grpc_message_take(buf_str(&b), 0, &message), 1);
	assert_int_equal(message.n, 0);
}

static void malformed_messages_are_refused(void **state)
{
	struct str message;

	assert_int_equal(grpc_message_take(STR("\1\0\0\0\0"), 100, &message), -EPROTONOSUPPORT);
	assert_int_equal(grpc_message_take(STR("\1"), 100, &message), -EPROTONOSUPPORT);
	assert_int_equal(grpc_message_take(STR("\2"), 100, &message), -EBADMSG);
	assert_int_equal(grpc_message_take(STR("\0\0\0\0\1ab"), 100, &message), -EBADMSG);
	assert_int_equal(grpc_message_take(STR("\0\0\0\0\145"), 100, &message), -EMSGSIZE);
	assert_int_equal(grpc_message_take(STR("\0\0\0\0\144"), 100, &message), 0);
	assert_int_equal(grpc_message_take(STR("\0\377\377\377\377"), 100, &message), -EMSGSIZE);
}

UNIT_MAIN(UNIT(statuses_have_their_numbers), UNIT(timeouts_are_read),
	UNIT(timeouts_are_written_with_eight_digits), UNIT(messages_survive_a_header),
	UNIT(long_messages_are_cut), UNIT(a_message_has_its_prefix),
	UNIT(malformed_messages_are_refused))
