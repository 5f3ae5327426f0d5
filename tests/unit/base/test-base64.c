/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <errno.h>

#include "base/base64.h"
#include "base/rand.h"

static void reads_and_writes_the_published_examples(void **state)
{
	static const char *const pairs[][2] = {{"", ""}, {"f", "Zg=="}, {"fo", "Zm8="},
		{"foo", "Zm9v"}, {"foob", "Zm9vYg=="}, {"fooba", "Zm9vYmE="},
		{"foobar", "Zm9vYmFy"}};

	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
		_cleanup_buf_ struct buf text = BUF_INIT(100), bytes = BUF_INIT(100);

		assert_ok(base64_encode(str_from(pairs[i][0]), &text));
		assert_string_equal(buf_text(&text), pairs[i][1]);
		assert_ok(base64_decode(str_from(pairs[i][1]), &bytes));
		assert_string_equal(buf_text(&bytes), pairs[i][0]);
	}
}

static void reads_back_any_bytes(void **state)
{
	struct rand rand = rand_seeded(5);

	for (size_t n = 0; n < 200; n++) {
		_cleanup_buf_ struct buf bytes = BUF_INIT(1000), text = BUF_INIT(1000),
					 back = BUF_INIT(1000);

		for (size_t i = 0; i < n; i++)
			buf_add_byte(&bytes, (char)rand_u64(&rand));
		assert_ok(base64_encode(buf_str(&bytes), &text));
		buf_add_byte(&text, '\n');
		assert_ok(base64_decode(buf_str(&text), &back));
		assert_true(str_eq(buf_str(&bytes), buf_str(&back)));
	}
}

static void refuses_other_texts(void **state)
{
	static const char *const bad[] = {
		"Z", "Zg", "Zg=", "Zg===", "Zg==Zg==", "Z*==", "=", "Zm9v=", "Zg=v"};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		_cleanup_buf_ struct buf bytes = BUF_INIT(100);

		if (base64_decode(str_from(bad[i]), &bytes) != -EINVAL)
			fail_msg("'%s' was read", bad[i]);
	}
}

UNIT_MAIN(UNIT(reads_and_writes_the_published_examples), UNIT(reads_back_any_bytes),
	UNIT(refuses_other_texts))
