/* SPDX-License-Identifier: Apache-2.0 */
/* Whose turn it is, in virtual time. */
#include <string.h>

#include "base/clock.h"
#include "scheduler/pending.h"
#include "unit.h"

#define SECOND UINT64_C(1000000000)

static struct rand rand_;
static struct pending *pending;

static int begin(void **state)
{
	rand_ = rand_seeded(3);
	return pending_new(&rand_, &pending);
}

static int end(void **state)
{
	pending_free(pending);
	return 0;
}

static void add(const char *name, int64_t priority, uint32_t gpu_priority, uint64_t created_ns)
{
	const struct pending_rank rank = {priority, gpu_priority, created_ns};

	assert_ok(pending_add(pending, name, &rank));
}

static void next(uint64_t now_ns, const char *name)
{
	const char *got = pending_next(pending, now_ns);

	if (!name) {
		assert_null(got);
		return;
	}
	assert_non_null(got);
	assert_string_equal(got, name);
}

static void in_their_order(void **state)
{
	add("late", 0, 50, 2);
	add("early", 0, 50, 1);
	add("same-b", 0, 50, 3);
	add("same-a", 0, 50, 3);
	add("gpu", 0, 60, 9);
	add("spec", 1, 0, 9);
	next(0, "spec");
	next(0, "gpu");
	next(0, "early");
	next(0, "late");
	next(0, "same-a");
	next(0, "same-b");
	next(0, NULL);
	assert_int_equal(pending_counts(pending).n_out, 6);
}

static void pauses_grow_to_a_limit(void **state)
{
	uint64_t now_ns = 0;

	add("a", 0, 0, 0);
	for (int i = 0; i < 8; i++) {
		const uint64_t pause = MIN(SECOND << i, (uint64_t)PENDING_BACKOFF_MAX_NS);

		next(now_ns, "a");
		pending_put_back(pending, "a", PENDING_FAILED, now_ns);
		assert_true(pending_deadline(pending) >= now_ns + pause / 2);
		assert_true(pending_deadline(pending) <= now_ns + pause);
		next(pending_deadline(pending) - 1, NULL);
		now_ns = pending_deadline(pending);
	}
	next(now_ns, "a");
}

static void who_rests_is_woken(void **state)
{
	add("a", 0, 0, 0);
	add("b", 0, 0, 1);
	next(0, "a");
	next(0, "b");
	pending_put_back(pending, "a", PENDING_NOWHERE, 0);
	pending_put_back(pending, "b", PENDING_NOWHERE, 0);
	next(100 * SECOND, NULL);
	assert_int_equal(pending_counts(pending).n_resting, 2);
	/* Its own wish has changed: at once. */
	pending_wake_one(pending, "b");
	next(0, "b");
	/* Soon after it was tried: after its pause. */
	pending_wake(pending, 1);
	assert_int_equal(pending_counts(pending).n_backing_off, 1);
	next(1, NULL);
	next(SECOND, "a");
	/* Long after it: at once. */
	pending_put_back(pending, "a", PENDING_NOWHERE, SECOND);
	pending_wake(pending, 100 * SECOND);
	next(100 * SECOND, "a");
	/* And in the end without that. */
	pending_put_back(pending, "a", PENDING_NOWHERE, 100 * SECOND);
	assert_true(pending_deadline(pending) > 400 * SECOND);
	next(pending_deadline(pending), "a");
}

static void who_has_gone_is_forgotten(void **state)
{
	add("a", 0, 0, 0);
	add("b", 0, 0, 1);
	pending_remove(pending, "a");
	pending_remove(pending, "nobody");
	assert_false(pending_has(pending, "a"));
	next(0, "b");
	pending_remove(pending, "b");
	pending_put_back(pending, "b", PENDING_FAILED, 0);
	next(100 * SECOND, NULL);
	assert_true(pending_deadline(pending) == CLOCK_NEVER);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(in_their_order),
		TEST(pauses_grow_to_a_limit),
		TEST(who_rests_is_woken),
		TEST(who_has_gone_is_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
