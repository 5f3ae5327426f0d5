/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accounts by day and namespace: the sums, the rows that are dropped, and a round trip through
 * JSON.
 */
#include "../unit.h"

#include <errno.h>
#include <stdio.h>

#include "node/account.h"
#include "base/clock.h"
#include "base/cleanup.h"

#define DAY_NS (UINT64_C(86400) * NSEC_PER_SEC)
#define NOON (UINT64_C(20000) * DAY_NS + DAY_NS / 2) /* 2024-10-04 */

static const struct account one = {.asked_ns = 3 * NSEC_PER_SEC,
	.granted_ns = 2 * NSEC_PER_SEC,
	.used_ns = NSEC_PER_SEC + 500 * NSEC_PER_MSEC};

static void sums_by_day_and_namespace(void **state)
{
	struct accounts a = {.n = 0};

	assert_ok(accounts_add(&a, NOON, "x", &one));
	assert_ok(accounts_add(&a, NOON + 60 * NSEC_PER_SEC, "x", &one));
	assert_ok(accounts_add(&a, NOON, "y", &one));
	assert_ok(accounts_add(&a, NOON + DAY_NS, "x", &one));
	assert_int_equal(a.n, 3);
	assert_string_equal(a.v[0].day, "2024-10-04");
	assert_string_equal(a.v[2].day, "2024-10-05");
	assert_int_equal(a.v[0].asked_ns, 6 * NSEC_PER_SEC);
	assert_int_equal(a.v[0].used_ns, 3 * NSEC_PER_SEC);
	accounts_done(&a);
}

static void drops_old_rows(void **state)
{
	struct accounts a = {.n = 0};
	char space[64];

	for (uint64_t d = 0; d < 50; d++)
		assert_ok(accounts_add(&a, NOON + d * DAY_NS, "x", &one));
	assert_int_equal(a.n, ACCOUNT_DAYS);
	assert_string_equal(a.v[ACCOUNT_DAYS - 1].day, "2024-11-22");
	for (unsigned i = 0; i < 2 * ACCOUNT_ROWS_MAX; i++) {
		snprintf(space, sizeof(space), "s%u", i);
		assert_ok(accounts_add(&a, NOON + 49 * DAY_NS, space, &one));
	}
	assert_int_equal(a.n, ACCOUNT_ROWS_MAX);
	assert_string_equal(a.v[ACCOUNT_ROWS_MAX - 1].space, space);
	accounts_done(&a);
}

static void a_clock_set_back_makes_an_older_row(void **state)
{
	struct accounts a = {.n = 0};

	assert_ok(accounts_add(&a, NOON + DAY_NS, "x", &one));
	assert_ok(accounts_add(&a, NOON, "x", &one));
	assert_int_equal(a.n, 2);
	assert_string_equal(a.v[0].day, "2024-10-04");
	accounts_done(&a);
}

static void rows_survive_a_write_and_a_read(void **state)
{
	struct accounts a = {.n = 0}, b = {.n = 0};
	json_t *list, *again, *bad;

	accounts_add(&a, NOON, "x", &one);
	accounts_add(&a, NOON + DAY_NS, "y", &one);
	list = accounts_json(&a);
	assert_ok(accounts_load(&b, list));
	again = accounts_json(&b);
	assert_true(json_equal(list, again));
	assert_int_equal(
		json_integer_value(json_object_get(json_array_get(list, 0), "usedMilliseconds")),
		1500);
	bad = json_pack("[{s:s, s:s}, {s:s, s:s, s:I}, i]", "day", "yesterday", "namespace", "x",
		"day", "2024-10-06", "namespace", "z", "usedMilliseconds", (json_int_t)-5, 7);
	assert_ok(accounts_load(&b, bad));
	assert_int_equal(b.n, 3);
	assert_int_equal(b.v[2].used_ns, 0);
	json_decref(list);
	json_decref(again);
	json_decref(bad);
	accounts_done(&a);
	accounts_done(&b);
}

static void old_names_are_written_and_read(void **state)
{
	struct accounts a = {.n = 0}, b = {.n = 0};
	json_t *list, *row;

	accounts_add(&a, NOON, "x", &one);
	list = accounts_json(&a);
	row = json_array_get(list, 0);
	assert_int_equal(json_integer_value(json_object_get(row, "requestedMilliseconds")), 3000);
	assert_int_equal(json_integer_value(json_object_get(row, "askedMilliseconds")), 3000);
	json_object_del(row, "requestedMilliseconds");
	assert_ok(accounts_load(&b, list));
	assert_int_equal(b.v[0].asked_ns, 3 * NSEC_PER_SEC);
	json_decref(list);
	accounts_done(&a);
	accounts_done(&b);
}

UNIT_MAIN(UNIT(sums_by_day_and_namespace), UNIT(drops_old_rows),
	UNIT(a_clock_set_back_makes_an_older_row), UNIT(rows_survive_a_write_and_a_read),
	UNIT(old_names_are_written_and_read))
