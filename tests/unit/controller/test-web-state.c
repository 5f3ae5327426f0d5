/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/rand.h"
#include "controller/web-state.h"
#include "kube/kube-json.h"

static const uint32_t many[WEB_N_KINDS] = {10000, 10000, 10000, 10000, 10000};

static struct web_state *fresh(const uint32_t *max)
{
	struct web_state *state = NULL;

	assert_ok(web_state_new(max, &state));
	return state;
}

/* Checks the event that a viewer gets which knows the state up to number `since`. */
static void assert_told(const struct web_state *state, uint64_t since, const char *wanted)
{
	_cleanup_buf_ struct buf out = BUF_INIT(1u << 20);

	assert_ok(web_state_format(state, since, UINT32_MAX, &out));
	assert_string_equal(buf_text(&out), wanted);
}

static void a_new_viewer_gets_the_whole_state(void **state)
{
	struct web_state *s = fresh(many);

	assert_told(s, 0, "{\"all\":true}");
	assert_ok(web_state_set(s, WEB_WAITING, "n/p", "{}"));
	assert_ok(web_state_set(s, WEB_NODES, "b", "{\"x\":1}"));
	assert_ok(web_state_set(s, WEB_NODES, "a", "2"));
	assert_ok(web_state_set(s, WEB_NODES, "gone", "2"));
	assert_ok(web_state_set(s, WEB_NODES, "gone", NULL));
	assert_told(s, 0,
		"{\"all\":true,\"nodes\":{\"b\":{\"x\":1},\"a\":2},\"waiting\":{\"n/p\":{}}}");
	web_state_free(s);
}

static void a_viewer_gets_each_change_once(void **state)
{
	struct web_state *s = fresh(many);
	uint64_t number;

	assert_ok(web_state_set(s, WEB_NODES, "a", "1"));
	assert_ok(web_state_set(s, WEB_NODES, "b", "1"));
	number = web_state_number(s);
	assert_told(s, number, "{\"all\":false}");
	assert_ok(web_state_set(s, WEB_NODES, "a", "1"));
	assert_int_equal(web_state_number(s), number);
	assert_ok(web_state_set(s, WEB_NODES, "a", "2"));
	assert_ok(web_state_set(s, WEB_NODES, "a", "3"));
	assert_ok(web_state_set(s, WEB_NODES, "b", NULL));
	assert_told(s, number, "{\"all\":false,\"nodes\":{\"a\":3,\"b\":null}}");
	assert_ok(web_state_set(s, WEB_NODES, "b", "back"));
	assert_told(s, number, "{\"all\":false,\"nodes\":{\"a\":3,\"b\":back}}");
	web_state_free(s);
}

static void an_unknown_event_number_gets_the_whole_state(void **state)
{
	struct web_state *s = fresh(many);

	assert_ok(web_state_set(s, WEB_NODES, "a", "1"));
	assert_told(s, 2, "{\"all\":true,\"nodes\":{\"a\":1}}");
	web_state_free(s);
}

static void a_viewer_away_for_too_long_gets_the_whole_state(void **state)
{
	struct web_state *s = fresh(many);
	char key[16];
	uint64_t number;

	assert_ok(web_state_set(s, WEB_NODES, "stays", "1"));
	number = web_state_number(s);
	for (unsigned int i = 0; i <= WEB_REMOVED_MAX; i++) {
		snprintf(key, sizeof(key), "k%u", i);
		assert_ok(web_state_set(s, WEB_WAITING, key, "1"));
		assert_ok(web_state_set(s, WEB_WAITING, key, NULL));
	}
	assert_told(s, number, "{\"all\":true,\"nodes\":{\"stays\":1}}");
	number = web_state_number(s);
	assert_ok(web_state_set(s, WEB_WAITING, "k1", "2"));
	assert_told(s, number, "{\"all\":false,\"waiting\":{\"k1\":2}}");
	web_state_free(s);
}

static void the_number_of_objects_is_limited(void **state)
{
	struct web_state *s = fresh((uint32_t[WEB_N_KINDS]){[WEB_WAITING] = 2});

	assert_ok(web_state_set(s, WEB_WAITING, "a", "1"));
	assert_ok(web_state_set(s, WEB_WAITING, "b", "1"));
	assert_int_equal(web_state_set(s, WEB_WAITING, "c", "1"), -ENOSPC);
	assert_ok(web_state_set(s, WEB_WAITING, "a", "2"));
	assert_ok(web_state_set(s, WEB_WAITING, "b", NULL));
	assert_ok(web_state_set(s, WEB_WAITING, "c", "1"));
	assert_int_equal(web_state_set(s, WEB_WAITING, "b", "1"), -ENOSPC);
	assert_int_equal(web_state_count(s, WEB_WAITING), 2);
	assert_false(web_state_has(s, WEB_WAITING, "b"));
	assert_int_equal(web_state_set(s, WEB_NODES, "a", "1"), -ENOSPC);
	web_state_free(s);
}

static void keys_are_quoted(void **state)
{
	struct web_state *s = fresh(many);

	assert_ok(web_state_set(s, WEB_NODES, "\"<b>\n", "1"));
	assert_told(s, 0, "{\"all\":true,\"nodes\":{\"\\\"<b>\\n\":1}}");
	assert_int_equal(web_state_set(s, WEB_NODES, "\xff", "1"), -ENOMEM);
	web_state_free(s);
}

/* ---- a viewer's copy of the state ---- */

static void take_in(json_t *seen, const struct web_state *s, uint64_t since)
{
	_cleanup_buf_ struct buf out = BUF_INIT(4u << 20);
	_cleanup_json_ json_t *told = NULL;
	const char *key;
	json_t *value;

	assert_ok(web_state_format(s, since, UINT32_MAX, &out));
	assert_ok(kube_json_parse(buf_str(&out), &told, NULL));
	if (json_is_true(json_object_get(told, "all")))
		json_object_clear(seen);
	json_object_foreach(json_object_get(told, "nodes"), key, value)
		if (json_is_null(value))
			json_object_del(seen, key);
		else
			json_object_set(seen, key, value);
}

/*
 * Makes random changes. Viewers that fetch events at random times must end with a copy of the
 * state.
 */
static void a_viewers_copy_equals_the_state(void **state)
{
	struct web_state *s = fresh(many);
	_cleanup_json_ json_t *truth = json_object();
	json_t *seen[4];
	uint64_t number[ARRAY_SIZE(seen)] = {0};
	struct rand rand = rand_seeded(7);

	for (size_t i = 0; i < ARRAY_SIZE(seen); i++)
		seen[i] = json_object();
	for (int i = 0; i < 20000; i++) {
		const size_t who = rand_below(&rand, ARRAY_SIZE(seen));
		char key[16], value[16];

		snprintf(key, sizeof(key), "n%u", (unsigned int)rand_below(&rand, 6000));
		snprintf(value, sizeof(value), "%u", (unsigned int)rand_below(&rand, 10));
		if (rand_below(&rand, 3)) {
			json_object_set_new(truth, key, json_integer(value[0] - '0'));
			assert_ok(web_state_set(s, WEB_NODES, key, value));
		} else {
			json_object_del(truth, key);
			assert_ok(web_state_set(s, WEB_NODES, key, NULL));
		}
		if (rand_below(&rand, 300) >= who * who * who)
			continue;
		take_in(seen[who], s, number[who]);
		number[who] = web_state_number(s);
	}
	for (size_t i = 0; i < ARRAY_SIZE(seen); i++) {
		take_in(seen[i], s, number[i]);
		assert_true(json_equal(seen[i], truth));
		json_decref(seen[i]);
	}
	web_state_free(s);
}

static void a_viewer_gets_only_the_kinds_that_it_asks_for(void **state)
{
	_cleanup_buf_ struct buf out = BUF_INIT(1u << 20);
	struct web_state *s = fresh(many);

	assert_ok(web_state_set(s, WEB_NODES, "a", "1"));
	assert_ok(web_state_set(s, WEB_SUMMARY, "a", "2"));
	assert_ok(web_state_format(s, 0, 1u << WEB_SUMMARY, &out));
	assert_string_equal(buf_text(&out), "{\"all\":true,\"summary\":{\"a\":2}}");
	assert_string_equal(web_state_get(s, WEB_NODES, "a"), "1");
	assert_null(web_state_get(s, WEB_NODES, "b"));
	web_state_free(s);
}

static void words_are_found_in_keys_and_texts(void **state)
{
	static const struct {
		const char *words, *found;
	} cases[] = {
		{"", "[\"gpu-1\",\"gpu-2\"]"},
		{"gpu", "[\"gpu-1\",\"gpu-2\"]"},
		{"Train", "[\"gpu-1\"]"},
		{"train gpu-2", "[]"},
		{" gpu-2  h200 ", "[\"gpu-2\"]"},
		{"g p u 1 t r a i", "[\"gpu-1\"]"},
	};
	struct web_state *s = fresh(many);

	assert_ok(web_state_set(s, WEB_NODES, "gpu-1", "{\"pod\":\"train\"}"));
	assert_ok(web_state_set(s, WEB_NODES, "gpu-2", "{\"model\":\"H200\"}"));
	assert_ok(web_state_set(s, WEB_NODES, "gone", "{}"));
	assert_ok(web_state_set(s, WEB_NODES, "gone", NULL));
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_buf_ struct buf out = BUF_INIT(1u << 20);

		assert_ok(web_state_find(s, WEB_NODES, str_from(cases[i].words), &out));
		assert_string_equal(buf_text(&out), cases[i].found);
	}
	web_state_free(s);
}

static void a_search_has_at_most_eight_words(void **state)
{
	_cleanup_buf_ struct buf out = BUF_INIT(1u << 20);
	struct web_state *s = fresh(many);

	assert_int_equal(web_state_find(s, WEB_NODES, STR("1 2 3 4 5 6 7 8 9"), &out), -E2BIG);
	assert_int_equal(out.n, 0);
	assert_ok(web_state_find(s, WEB_NODES, STR("1 2 3 4 5 6 7 8"), &out));
	web_state_free(s);
}

UNIT_MAIN(UNIT(a_new_viewer_gets_the_whole_state), UNIT(a_viewer_gets_each_change_once),
	UNIT(an_unknown_event_number_gets_the_whole_state),
	UNIT(a_viewer_away_for_too_long_gets_the_whole_state),
	UNIT(the_number_of_objects_is_limited), UNIT(keys_are_quoted),
	UNIT(a_viewers_copy_equals_the_state), UNIT(a_viewer_gets_only_the_kinds_that_it_asks_for),
	UNIT(words_are_found_in_keys_and_texts), UNIT(a_search_has_at_most_eight_words))
