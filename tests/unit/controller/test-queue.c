/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "controller/queue.h"
#include "unit.h"

static struct queue_key key(const char *name)
{
	return (struct queue_key){1, "ns", name};
}

static void took(struct queue *q, uint64_t now_ns, const char *name)
{
	const struct queue_key *got = queue_take(q, now_ns);

	assert_non_null(got);
	assert_int_equal(got->kind, 1);
	assert_string_equal(got->ns, "ns");
	assert_string_equal(got->name, name);
}

static void each_key_is_queued_once_in_order(void **state)
{
	struct queue *q = NULL;

	assert_ok(queue_new(1, &q));
	assert_null(queue_take(q, 0));
	queue_add(q, key("a"));
	queue_add(q, key("b"));
	queue_add(q, key("a"));
	assert_int_equal(queue_next_ns(q), 0);
	took(q, 0, "a");
	took(q, 0, "b");
	assert_null(queue_take(q, 0));
	queue_done(q, key("a"), false, 0);
	queue_done(q, key("b"), false, 0);
	assert_int_equal(queue_next_ns(q), CLOCK_NEVER);
	assert_int_equal(queue_counts(q).n_waiting, 0);
	queue_free(q);
}

/* A key that is added while its job runs gets another run after that one. */
static void a_key_added_while_it_runs_comes_again(void **state)
{
	struct queue *q = NULL;

	assert_ok(queue_new(1, &q));
	queue_add(q, key("a"));
	took(q, 0, "a");
	queue_add(q, key("a"));
	queue_add(q, key("a"));
	assert_null(queue_take(q, 0));
	queue_done(q, key("a"), false, 0);
	took(q, 0, "a");
	queue_done(q, key("a"), false, 0);
	assert_null(queue_take(q, 0));
	queue_free(q);
}

static void failed_keys_back_off(void **state)
{
	struct queue *q = NULL;
	uint64_t now = 0, last = 0;

	assert_ok(queue_new(7, &q));
	queue_add(q, key("a"));
	for (int i = 0; i < 30; i++) {
		uint64_t wait;

		took(q, now, "a");
		queue_done(q, key("a"), true, now);
		wait = queue_next_ns(q) - now;
		assert_in_range(wait, QUEUE_RETRY_NS / 2, QUEUE_RETRY_MAX_NS);
		if (i == 29)
			assert_true(wait >= QUEUE_RETRY_MAX_NS / 2);
		assert_null(queue_take(q, now + wait - 1));
		last = wait;
		now += wait;
	}
	assert_true(last > 0);
	/* queue_add() makes a failed key due at once. A success resets the pause. */
	took(q, now, "a");
	queue_done(q, key("a"), true, now);
	queue_add(q, key("a"));
	took(q, now, "a");
	queue_done(q, key("a"), false, now);
	queue_add(q, key("a"));
	took(q, now, "a");
	queue_done(q, key("a"), true, now);
	assert_true(queue_next_ns(q) - now <= QUEUE_RETRY_NS);
	assert_int_equal(queue_counts(q).n_failed, 32);
	queue_free(q);
}

static void a_key_may_have_a_time_of_its_own(void **state)
{
	struct queue *q = NULL;

	assert_ok(queue_new(1, &q));
	queue_add(q, key("a"));
	took(q, 0, "a");
	queue_add_at(q, key("a"), 100); /* as a job does that repeats itself */
	assert_null(queue_take(q, 200));
	queue_done(q, key("a"), false, 50);
	assert_int_equal(queue_next_ns(q), 100);
	assert_null(queue_take(q, 99));
	queue_add_at(q, key("a"), 500); /* the earlier time counts */
	took(q, 100, "a");
	queue_done(q, key("a"), false, 100);
	assert_int_equal(queue_next_ns(q), CLOCK_NEVER);
	queue_free(q);
}

static void kinds_and_namespaces_keep_names_apart(void **state)
{
	static const struct queue_key keys[] = {{0, "a", "b"}, {1, "a", "b"}, {0, "", "a/b"},
		{0, "a/b", ""}, {0, "ab", ""}, {0, "", ""}};
	struct queue *q = NULL;

	assert_ok(queue_new(1, &q));
	for (int i = 0; i < 2; i++)
		for (size_t k = 0; k < ARRAY_SIZE(keys); k++)
			assert_ok(queue_add(q, keys[k]));
	for (size_t k = 0; k < ARRAY_SIZE(keys); k++) {
		const struct queue_key *got = queue_take(q, 0);

		assert_non_null(got);
		assert_int_equal(got->kind, keys[k].kind);
		assert_string_equal(got->ns, keys[k].ns);
		assert_string_equal(got->name, keys[k].name);
		queue_done(q, *got, false, 0);
	}
	assert_null(queue_take(q, 0));
	queue_free(q);
}

static void names_that_are_too_long_are_not_queued(void **state)
{
	char name[QUEUE_NAME + 1] = "";
	struct queue *q = NULL;

	assert_ok(queue_new(1, &q));
	memset(name, 'a', QUEUE_NAME);
	assert_int_equal(queue_add(q, key(name)), -ENAMETOOLONG);
	assert_int_equal(queue_add_at(q, (struct queue_key){1, name, "a"}, 0), -ENAMETOOLONG);
	queue_done(q, key(name), false, 0);
	assert_null(queue_take(q, 0));
	name[QUEUE_NAME - 1] = '\0';
	assert_ok(queue_add(q, key(name)));
	took(q, 0, name);
	queue_free(q);
}

UNIT_MAIN(UNIT(each_key_is_queued_once_in_order), UNIT(a_key_added_while_it_runs_comes_again),
	UNIT(failed_keys_back_off), UNIT(a_key_may_have_a_time_of_its_own),
	UNIT(kinds_and_namespaces_keep_names_apart), UNIT(names_that_are_too_long_are_not_queued))
