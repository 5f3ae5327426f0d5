/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <errno.h>

#include "base/cleanup.h"
#include "spec/measured.h"

static void written_entries_are_read_back(void **state)
{
	const struct measured all[] = {
		{STR("uid-1"), STR("main"), 1, {{300, 1ull << 30}}},
		{STR("uid-1"), STR("side"), 2, {{0, 0}, {1000, 5}}},
	};
	_cleanup_buf_ struct buf text = BUF_INIT(MEASURED_MAX);
	struct measured got;
	struct str rest;

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		assert_ok(measured_format(&all[i], &text));
	assert_string_equal(buf_text(&text), "uid-1/main=300:1073741824 uid-1/side=0:0,1000:5");
	rest = buf_str(&text);
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		assert_int_equal(measured_next(&rest, &got, NULL), 1);
		assert_true(str_eq(got.uid, all[i].uid));
		assert_true(str_eq(got.container, all[i].container));
		assert_int_equal(got.n, all[i].n);
		for (uint32_t k = 0; k < got.n; k++) {
			assert_int_equal(
				got.device[k].share_permille, all[i].device[k].share_permille);
			assert_int_equal(got.device[k].memory_bytes, all[i].device[k].memory_bytes);
		}
	}
	assert_int_equal(measured_next(&rest, &got, NULL), 0);
}

static void an_entry_that_does_not_fit_is_left_out_whole(void **state)
{
	const struct measured one = {STR("u"), STR("c"), 1, {{1, 2}}};
	_cleanup_buf_ struct buf text = BUF_INIT(12);

	assert_ok(measured_format(&one, &text));
	assert_int_equal(measured_format(&one, &text), -EMSGSIZE);
	assert_true(str_is(buf_str(&text), "u/c=1:2"));
}

static void a_malformed_entry_is_named_and_skipped(void **state)
{
	static const char *const wrong[] = {"u", "u/c", "u/c=", "/c=1:2", "u/=1:2", "u=1:2",
		"u/c=1", "u/c=1:", "u/c=:2", "u/c=-1:2", "u/c=1:2,", "u/c=1:2:3", "u/c=0x1:2",
		"u/c=1:99999999999999999999",
		"u/c=1:1,1:1,1:1,1:1,1:1,1:1,1:1,1:1,1:1,1:1,1:1,1:1,1:1,1:1,1:1,1:1,1:1"};

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		_cleanup_buf_ struct buf text = BUF_INIT(1024);
		struct measured got;
		struct error err;
		struct str rest;

		buf_addf(&text, "%s good/one=7:8", wrong[i]);
		rest = buf_str(&text);
		if (measured_next(&rest, &got, &err) != -EINVAL)
			fail_msg("taken: %s", wrong[i]);
		assert_contains(err.msg, wrong[i]);
		assert_int_equal(measured_next(&rest, &got, NULL), 1);
		assert_true(str_is(got.uid, "good"));
		assert_int_equal(got.device[0].share_permille, 7);
	}
}

static void an_entry_is_found_among_all(void **state)
{
	const struct str all = STR("u/a=1:8 nonsense u/b=2:8 v/a=3:8");
	struct measured got;

	assert_ok(measured_find(all, STR("u"), STR("b"), &got));
	assert_int_equal(got.device[0].share_permille, 2);
	assert_ok(measured_find(all, STR("v"), STR("a"), &got));
	assert_int_equal(got.device[0].share_permille, 3);
	assert_int_equal(measured_find(all, STR("v"), STR("b"), &got), -ENOENT);
	assert_int_equal(got.device[0].share_permille, 3);
	assert_int_equal(measured_find(STR(""), STR("v"), STR("b"), &got), -ENOENT);
}

static void a_share_above_one_device_is_cut_to_one(void **state)
{
	struct str rest = STR("u/c=1003:0");
	struct measured got;

	assert_int_equal(measured_next(&rest, &got, NULL), 1);
	assert_int_equal(got.device[0].share_permille, 1000);
}

static void only_large_changes_count(void **state)
{
	static const struct {
		const char *before, *now;
		bool does_differ;
	} rows[] = {
		{"", "", false},
		{"", "u/a=0:0", true},
		{"u/a=0:0", "", true},
		{"u/a=100:0", "u/a=149:0", false},
		{"u/a=100:0", "u/a=150:0", true},
		{"u/a=100:0", "u/a=50:0", true},
		{"u/a=0:0", "u/a=0:67108863", false},
		{"u/a=0:0", "u/a=0:67108864", true},
		/* the memory changed by less than an eighth */
		{"u/a=0:8589934592", "u/a=0:9089934592", false},
		{"u/a=0:8589934592", "u/a=0:4294967296", true},
		{"u/a=0:0", "v/a=0:0", true},
		{"u/a=0:0", "u/b=0:0", true},
		{"u/a=0:0", "u/a=0:0,0:0", true},
		{"u/a=0:0,100:0", "u/a=0:0,200:0", true},
		{"u/a=0:0 v/a=5:0", "u/a=0:0 v/a=500:0", true},
		{"u/a=0:0 v/a=5:0", "u/a=1:1 v/a=6:2", false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (measured_differs(str_from(rows[i].before), str_from(rows[i].now)) !=
			rows[i].does_differ)
			fail_msg("'%s' and '%s'", rows[i].before, rows[i].now);
}

UNIT_MAIN(UNIT(only_large_changes_count), UNIT(written_entries_are_read_back),
	UNIT(an_entry_that_does_not_fit_is_left_out_whole),
	UNIT(a_malformed_entry_is_named_and_skipped), UNIT(an_entry_is_found_among_all),
	UNIT(a_share_above_one_device_is_cut_to_one))
