/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/clock.h"
#include "controller/queue.h"

static void each_key_once_in_order(void **state)
{
	struct queue *q = NULL;

	assert_ok(queue_new(1, &q));
	assert_null(queue_take(q, 0));
	queue_add(q, "a");
	queue_add(q, "b");
	queue_add(q, "a");
	assert_int_equal(queue_next_ns(q), 0);
	assert_string_equal(queue_take(q, 0), "a");
	assert_string_equal(queue_take(q, 0), "b");
	assert_null(queue_take(q, 0));
	queue_done(q, "a", false, 0);
	queue_done(q, "b", false, 0);
	assert_int_equal(queue_next_ns(q), CLOCK_NEVER);
	assert_int_equal(queue_counts(q).n_waiting, 0);
	queue_free(q);
}

/* What is said while it is under way is not lost, and not done beside it. */
static void added_while_it_runs(void **state)
{
	struct queue *q = NULL;

	assert_ok(queue_new(1, &q));
	queue_add(q, "a");
	assert_string_equal(queue_take(q, 0), "a");
	queue_add(q, "a");
	queue_add(q, "a");
	assert_null(queue_take(q, 0));
	queue_done(q, "a", false, 0);
	assert_string_equal(queue_take(q, 0), "a");
	queue_done(q, "a", false, 0);
	assert_null(queue_take(q, 0));
	queue_free(q);
}

static void failures_come_later_and_later(void **state)
{
	struct queue *q = NULL;
	uint64_t now = 0, last = 0;

	assert_ok(queue_new(7, &q));
	queue_add(q, "a");
	for (int i = 0; i < 30; i++) {
		uint64_t wait;

		assert_string_equal(queue_take(q, now), "a");
		queue_done(q, "a", true, now);
		wait = queue_next_ns(q) - now;
		assert_in_range(wait, QUEUE_RETRY_NS / 2, QUEUE_RETRY_MAX_NS);
		if (i == 29)
			assert_true(wait >= QUEUE_RETRY_MAX_NS / 2);
		assert_null(queue_take(q, now + wait - 1));
		last = wait;
		now += wait;
	}
	assert_true(last > 0);
	/* A word from outside does not wait, and a success forgets. */
	assert_string_equal(queue_take(q, now), "a");
	queue_done(q, "a", true, now);
	queue_add(q, "a");
	assert_string_equal(queue_take(q, now), "a");
	queue_done(q, "a", false, now);
	queue_add(q, "a");
	assert_string_equal(queue_take(q, now), "a");
	queue_done(q, "a", true, now);
	assert_true(queue_next_ns(q) - now <= QUEUE_RETRY_NS);
	assert_int_equal(queue_counts(q).n_failed, 32);
	queue_free(q);
}

static void a_time_of_its_own(void **state)
{
	struct queue *q = NULL;

	assert_ok(queue_new(1, &q));
	queue_add(q, "a");
	assert_string_equal(queue_take(q, 0), "a");
	queue_add_at(q, "a", 100); /* as a job does that looks again every now and then */
	assert_null(queue_take(q, 200));
	queue_done(q, "a", false, 50);
	assert_int_equal(queue_next_ns(q), 100);
	assert_null(queue_take(q, 99));
	queue_add_at(q, "a", 500); /* the sooner counts */
	assert_string_equal(queue_take(q, 100), "a");
	queue_done(q, "a", false, 100);
	assert_int_equal(queue_next_ns(q), CLOCK_NEVER);
	queue_free(q);
}

UNIT_MAIN(UNIT(each_key_once_in_order), UNIT(added_while_it_runs),
	UNIT(failures_come_later_and_later), UNIT(a_time_of_its_own))
