/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "controller/web-history.h"
#include "kube/kube-json.h"

#define GIB (1ull << 30)

static struct web_history *fresh(uint32_t max)
{
	struct web_history *h = NULL;

	assert_ok(web_history_new(max, &h));
	return h;
}

static json_t *told(const struct web_history *h, const char *key, uint64_t now_s)
{
	_cleanup_buf_ struct buf out = BUF_INIT(1u << 20);
	json_t *json = NULL;

	assert_ok(web_history_format(h, key, now_s, &out));
	assert_ok(kube_json_parse(buf_str(&out), &json, NULL));
	return json;
}

static void assert_series(const json_t *told_all, const char *which, const char *wanted)
{
	_cleanup_free_ char *text = kube_json_format(json_object_get(told_all, which));

	assert_string_equal(text, wanted);
}

static void the_history_is_listed_oldest_first(void **state)
{
	struct web_history *h = fresh(10);
	json_t *json;

	assert_ok(web_history_add(h, "u/c", 300, GIB, 1000));
	assert_ok(web_history_add(h, "u/c", 310, GIB, 1005)); /* in the same step of 10 s */
	assert_ok(web_history_add(h, "u/c", 100, 2 * GIB, 1010));
	assert_ok(web_history_add(h, "u/c", 0, 0, 1031)); /* a step without a value is skipped */
	json = told(h, "u/c", 1045);
	assert_series(json, "fine",
		"{\"step\":10,\"ago\":5,\"share\":[310,100,null,0,null],"
		"\"mib\":[1024,2048,null,0,null]}");
	assert_series(json, "coarse", "{\"step\":300,\"ago\":145,\"share\":[177],\"mib\":[1024]}");
	json_decref(json);
	web_history_free(h);
}

static void means_cover_their_own_step(void **state)
{
	struct web_history *h = fresh(10);
	json_t *json;

	for (uint64_t s = 3000; s < 3300; s += 10)
		assert_ok(web_history_add(h, "u/c", 200, 0, s));
	for (uint64_t s = 3300; s < 3400; s += 10)
		assert_ok(web_history_add(h, "u/c", 1000, 0, s));
	json = told(h, "u/c", 3400);
	assert_series(
		json, "coarse", "{\"step\":300,\"ago\":100,\"share\":[200,1000],\"mib\":[0,0]}");
	json_decref(json);
	web_history_free(h);
}

static void one_hour_is_kept(void **state)
{
	struct web_history *h = fresh(10);
	const uint64_t end = 5 * 86400;
	json_t *json, *share;

	for (uint64_t s = 86400; s <= end; s += WEB_FINE_S)
		assert_ok(web_history_add(h, "u/c", (uint32_t)(s / WEB_FINE_S % 1000), 0, s));
	json = told(h, "u/c", end);
	share = kube_json_at(json, "fine", "share", NULL);
	assert_int_equal(json_array_size(share), WEB_FINE_N);
	for (uint64_t i = 0; i < WEB_FINE_N; i++)
		assert_int_equal(json_integer_value(json_array_get(share, i)),
			(end / WEB_FINE_S - WEB_FINE_N + 1 + i) % 1000);
	assert_int_equal(
		json_array_size(kube_json_at(json, "coarse", "share", NULL)), WEB_COARSE_N);
	json_decref(json);
	web_history_free(h);
}

static void a_long_silence_is_a_gap(void **state)
{
	struct web_history *h = fresh(10);
	json_t *json, *share;

	assert_ok(web_history_add(h, "u/c", 500, 0, 1000));
	assert_ok(web_history_add(h, "u/c", 700, 0, 1000 + 2 * WEB_FINE_N * WEB_FINE_S));
	json = told(h, "u/c", 1000 + 2 * WEB_FINE_N * WEB_FINE_S);
	share = kube_json_at(json, "fine", "share", NULL);
	assert_int_equal(json_array_size(share), 1);
	assert_int_equal(json_integer_value(json_array_get(share, 0)), 700);
	json_decref(json);
	/* A silence that is longer than the history is a gap too. */
	json = told(h, "u/c", 1000 + 9 * WEB_FINE_N * WEB_FINE_S);
	share = kube_json_at(json, "fine", "share", NULL);
	for (size_t i = 0; i < json_array_size(share); i++)
		assert_true(json_is_null(json_array_get(share, i)));
	json_decref(json);
	web_history_free(h);
}

static void the_number_of_tenants_is_limited(void **state)
{
	struct web_history *h = fresh(2);
	_cleanup_buf_ struct buf out = BUF_INIT(1u << 20);

	assert_ok(web_history_add(h, "a", 1, 0, 10));
	assert_ok(web_history_add(h, "b", 1, 0, 10));
	assert_int_equal(web_history_add(h, "c", 1, 0, 10), -ENOSPC);
	assert_ok(web_history_add(h, "a", 2, 0, 20));
	assert_int_equal(web_history_format(h, "c", 20, &out), -ENOENT);
	web_history_forget(h, "b");
	web_history_forget(h, "b");
	assert_ok(web_history_add(h, "c", 1, 0, 30));
	assert_int_equal(web_history_count(h), 2);
	web_history_free(h);
}

UNIT_MAIN(UNIT(the_history_is_listed_oldest_first), UNIT(means_cover_their_own_step),
	UNIT(one_hour_is_kept), UNIT(a_long_silence_is_a_gap),
	UNIT(the_number_of_tenants_is_limited))
