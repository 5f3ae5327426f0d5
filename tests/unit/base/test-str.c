/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <errno.h>

#include "base/str.h"

static void compares_pieces(void **state)
{
	assert_true(str_eq(STR("ab"), str_from("ab")));
	assert_false(str_eq(STR("ab"), STR("abc")));
	assert_true(str_eq(STR_NONE, STR("")));
	assert_true(str_is(STR("x"), "x"));
	assert_true(str_compare(STR("a"), STR("b")) < 0);
	assert_true(str_compare(STR("ab"), STR("a")) > 0);
	assert_int_equal(str_compare(STR_NONE, STR_NONE), 0);
}

static void skips_prefix_and_suffix(void **state)
{
	struct str s = STR("divvy.gpu/limit");

	assert_false(str_skip_prefix(&s, STR("limit")));
	assert_true(str_is(s, "divvy.gpu/limit"));
	assert_true(str_skip_prefix(&s, STR("divvy.gpu/")));
	assert_true(str_is(s, "limit"));
	assert_true(str_skip_suffix(&s, STR("it")));
	assert_true(str_is(s, "lim"));
	assert_false(str_has_suffix(s, STR("long suffix")));
	assert_true(str_has_suffix(STR_NONE, STR("")));
}

static void splits_with_empty_pieces(void **state)
{
	struct str rest = STR("a,,b,");
	struct str piece;
	const char *want[] = {"a", "", "b", ""};
	size_t i;

	for (i = 0; i < 4; i++) {
		assert_true(str_split(&rest, ',', &piece));
		assert_true(str_is(piece, want[i]));
	}
	assert_false(str_split(&rest, ',', &piece));
	rest = STR("");
	assert_true(str_split(&rest, ',', &piece));
	assert_int_equal(piece.n, 0);
	assert_false(str_split(&rest, ',', &piece));
}

static void does_not_read_behind_the_piece(void **state)
{
	/* The byte behind the piece is not part of it: a separator there changes nothing. */
	struct str rest = {"a,b", 1};
	struct str piece;

	assert_true(str_split(&rest, ',', &piece));
	assert_true(str_is(piece, "a"));
	assert_false(str_split(&rest, ',', &piece));
}

static void finds_words(void **state)
{
	struct str rest = STR(" \tone  two\n");
	struct str word;

	assert_true(str_word(&rest, &word));
	assert_true(str_is(word, "one"));
	assert_true(str_word(&rest, &word));
	assert_true(str_is(word, "two"));
	assert_false(str_word(&rest, &word));
	rest = STR_NONE;
	assert_false(str_word(&rest, &word));
}

static void trims_white_space(void **state)
{
	assert_true(str_is(str_trim(STR(" \r\n a b\t")), "a b"));
	assert_int_equal(str_trim(STR(" \n")).n, 0);
	assert_true(str_is(str_last_line(STR("a\n b c \n\n \n")), "b c"));
	assert_int_equal(str_last_line(STR("\n ")).n, 0);
	assert_int_equal(str_find(STR("abc"), 'c'), 2);
	assert_int_equal(str_find(STR("abc"), 'x'), 3);
	assert_int_equal(str_find(STR_NONE, 'x'), 0);
}

static void copies_or_refuses_a_text_that_does_not_fit(void **state)
{
	char dst[4] = "old";
	_cleanup_free_ char *heap = str_dup((struct str){"abcdef", 3});

	assert_string_equal(heap, "abc");
	assert_int_equal(str_copy(dst, sizeof(dst), STR("abc")), 0);
	assert_string_equal(dst, "abc");
	assert_int_equal(str_copy(dst, sizeof(dst), STR("abcd")), -ENAMETOOLONG);
	assert_string_equal(dst, "");
}

static void hashes_of_other_texts_differ(void **state)
{
	const uint64_t a = str_hash_text(STR_HASH_START, "a"), none = str_hash(STR("\0"));

	assert_true(a == str_hash(STR("a\0")));
	assert_true(str_hash_text(a, "b") == str_hash(STR("a\0b\0")));
	assert_true(str_hash_text(a, "b") != str_hash_text(STR_HASH_START, "ab"));
	assert_true(str_hash_text(STR_HASH_START, NULL) == none);
	assert_true(str_hash_text(STR_HASH_START, "") == none);
}

static void hashes_match_the_published_vectors(void **state)
{
	/* The test vectors that the authors of FNV-1a publish. */
	assert_true(str_hash(STR("")) == UINT64_C(0xcbf29ce484222325));
	assert_true(str_hash(STR("a")) == UINT64_C(0xaf63dc4c8601ec8c));
	assert_true(str_hash(STR("foobar")) == UINT64_C(0x85944171f73967e8));
	assert_true(str_hash_append(str_hash(STR("foo")), STR("bar")) == str_hash(STR("foobar")));
}

static void a_buffer_grows_to_its_maximum_and_no_further(void **state)
{
	_cleanup_buf_ struct buf b = BUF_INIT(200);
	int i;

	for (i = 0; i < 200; i++)
		assert_int_equal(buf_add_byte(&b, 'x'), 0);
	assert_int_equal(buf_add_byte(&b, 'x'), -EMSGSIZE);
	assert_int_equal(b.n, 200);
	assert_int_equal(strlen(buf_text(&b)), 200);
}

static void a_buffer_remembers_its_failure(void **state)
{
	_cleanup_buf_ struct buf b = BUF_INIT(4);

	assert_int_equal(buf_add_text(&b, "abcde"), -EMSGSIZE);
	assert_int_equal(buf_add_text(&b, "a"), -EMSGSIZE);
	assert_int_equal(buf_error(&b), -EMSGSIZE);
	assert_null(buf_take(&b));
	buf_clear(&b);
	assert_int_equal(buf_add_text(&b, "abcd"), 0);
	assert_string_equal(buf_text(&b), "abcd");
}

static void formats_into_a_buffer(void **state)
{
	_cleanup_buf_ struct buf b = BUF_INIT(1000);

	assert_string_equal(buf_text(&b), "");
	assert_int_equal(buf_addf(&b, "%d-%s", 7, "x"), 0);
	assert_int_equal(buf_addf(&b, "%0300d", 1), 0);
	assert_int_equal(b.n, 303);
	assert_int_equal(buf_addf(&b, "%0900d", 1), -EMSGSIZE);
	assert_int_equal(b.n, 303);
}

static void consumes_from_the_front(void **state)
{
	_cleanup_buf_ struct buf b = BUF_INIT(10);

	buf_consume(&b, 1);
	buf_add_text(&b, "abcdef");
	buf_consume(&b, 2);
	assert_string_equal(buf_text(&b), "cdef");
	buf_truncate(&b, 9);
	assert_string_equal(buf_text(&b), "cdef");
	buf_truncate(&b, 3);
	assert_string_equal(buf_text(&b), "cde");
	buf_consume(&b, 100);
	assert_string_equal(buf_text(&b), "");
	buf_truncate(&b, 0);
}

static void hands_its_memory_over(void **state)
{
	_cleanup_buf_ struct buf b = BUF_INIT(10);
	_cleanup_free_ char *empty = buf_take(&b);
	_cleanup_free_ char *full = NULL;

	assert_string_equal(empty, "");
	buf_add_text(&b, "abc");
	full = buf_take(&b);
	assert_string_equal(full, "abc");
	assert_int_equal(b.n, 0);
	assert_int_equal(buf_add_text(&b, "again"), 0);
}

static void measures_utf8_characters(void **state)
{
	static const struct {
		const char *text;
		size_t n;
	} cases[] = {
		{"a", 1}, {"\x7f", 1}, {"\xc2\x80", 2}, {"\xdf\xbf-", 2}, {"\xe0\xa0\x80", 3},
		{"\xed\x9f\xbf", 3}, {"\xee\x80\x80", 3}, {"\xf0\x90\x80\x80", 4},
		{"\xf4\x8f\xbf\xbf", 4}, {"", 0}, {"\x80", 0}, /* no first byte of a character */
		{"\xc1\xbf", 0},                               /* overlong form */
		{"\xe0\x9f\xbf", 0},                           /* overlong form */
		{"\xf0\x8f\xbf\xbf", 0},                       /* overlong form */
		{"\xed\xa0\x80", 0},                           /* half of a surrogate pair */
		{"\xf4\x90\x80\x80", 0},                       /* beyond the last code point */
		{"\xf8\x88\x80\x80\x80", 0},                   /* five bytes */
		{"\xc2", 0},                                   /* cut off */
		{"\xe2\x82", 0},                               /* cut off */
		{"\xc2-", 0},                                  /* interrupted */
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(str_utf8(str_from(cases[i].text)), cases[i].n);
}

static void computes_the_distance_of_words(void **state)
{
	char long_word[STR_DISTANCE_MAX + 1];

	memset(long_word, 'x', sizeof(long_word));
	assert_int_equal(str_distance(STR("request"), STR("request")), 0);
	assert_int_equal(str_distance(STR("reqest"), STR("request")), 1);
	assert_int_equal(str_distance(STR("limit"), STR("limits")), 1);
	assert_int_equal(str_distance(STR("abc"), STR("axc")), 1);
	assert_int_equal(str_distance(STR("ab"), STR("ba")), 2);
	assert_int_equal(str_distance(STR(""), STR("abc")), 3);
	assert_int_equal(str_distance(STR_NONE, STR_NONE), 0);
	assert_int_equal(
		str_distance((struct str){long_word, STR_DISTANCE_MAX}, STR("")), STR_DISTANCE_MAX);
	assert_int_equal(str_distance((struct str){long_word, STR_DISTANCE_MAX + 1},
				 (struct str){long_word, STR_DISTANCE_MAX + 1}),
		STR_DISTANCE_MAX);
}

UNIT_MAIN(UNIT(compares_pieces), UNIT(skips_prefix_and_suffix), UNIT(splits_with_empty_pieces),
	UNIT(does_not_read_behind_the_piece), UNIT(finds_words), UNIT(measures_utf8_characters),
	UNIT(computes_the_distance_of_words), UNIT(trims_white_space),
	UNIT(copies_or_refuses_a_text_that_does_not_fit), UNIT(hashes_match_the_published_vectors),
	UNIT(hashes_of_other_texts_differ), UNIT(a_buffer_grows_to_its_maximum_and_no_further),
	UNIT(a_buffer_remembers_its_failure), UNIT(formats_into_a_buffer),
	UNIT(consumes_from_the_front), UNIT(hands_its_memory_over))
