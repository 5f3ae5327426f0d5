/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the order and the pauses of pending pods, in virtual time. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "scheduler/pending.h"
#include "unit.h"

#define SECOND UINT64_C(1000000000)

static struct rand rand_;
static struct pending *pending;

/*
 * Of the lines of queues (pending.h), that with the higher number comes first. Line 2 is below its
 * guarantee (is_owed()).
 */
static bool is_before(void *arg, uint32_t a, uint32_t b)
{
	return a > b;
}

static bool is_owed(void *arg, uint32_t line)
{
	return line == 2;
}

static int begin(void **state)
{
	static const struct pending_queues lines = {is_before, is_owed, NULL};

	rand_ = rand_seeded(3);
	return pending_new(&rand_, &lines, &pending);
}

static int end(void **state)
{
	pending_free(pending);
	return 0;
}

static struct pending_key pod(const char *name)
{
	return (struct pending_key){PENDING_POD, name};
}

static void add(const char *name, int64_t priority, uint32_t gpu_priority, uint64_t created_ns)
{
	const struct pending_rank rank = {priority, gpu_priority, created_ns, 0};

	assert_ok(pending_add(pending, pod(name), &rank));
}

static void next(uint64_t now_ns, const char *name)
{
	const struct pending_key *got = pending_next(pending, now_ns);

	if (!name) {
		assert_null(got);
		return;
	}
	assert_non_null(got);
	assert_int_equal(got->kind, PENDING_POD);
	assert_string_equal(got->name, name);
}

static void items_that_are_not_added_again_are_removed(void **state)
{
	add("stays", 0, 50, 1);
	add("goes", 0, 50, 2);
	add("is out", 0, 50, 0);
	next(0, "is out");
	pending_doubt_all(pending);
	add("stays", 0, 50, 1);
	add("is out", 0, 50, 0);
	add("comes", 0, 50, 3);
	pending_remove_doubted(pending);
	assert_false(pending_has(pending, pod("goes")));
	assert_int_equal(pending_counts(pending).n_out, 1);
	next(0, "stays");
	next(0, "comes");
	next(0, NULL);
	pending_remove_doubted(pending);
	assert_true(pending_has(pending, pod("is out")));
}

static void queue_items_keep_their_order(void **state)
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
		pending_put_back(pending, pod("a"), PENDING_FAILED, now_ns);
		assert_true(pending_deadline(pending) >= now_ns + pause / 2);
		assert_true(pending_deadline(pending) <= now_ns + pause);
		next(pending_deadline(pending) - 1, NULL);
		now_ns = pending_deadline(pending);
	}
	next(now_ns, "a");
}

static void an_item_that_backs_off_can_be_woken(void **state)
{
	add("a", 0, 0, 0);
	add("b", 0, 0, 1);
	next(0, "a");
	next(0, "b");
	pending_put_back(pending, pod("a"), PENDING_NOWHERE, 0);
	pending_put_back(pending, pod("b"), PENDING_NOWHERE, 0);
	next(100 * SECOND, NULL);
	assert_int_equal(pending_counts(pending).n_unschedulable, 2);
	/* pending_wake_one() makes an item active at once. */
	pending_wake_one(pending, pod("b"));
	next(0, "b");
	/* An event during the pause: the item becomes active when the pause ends. */
	pending_wake(pending, 1);
	assert_int_equal(pending_counts(pending).n_backing_off, 1);
	next(1, NULL);
	next(SECOND, "a");
	/* An event after the pause: the item becomes active at once. */
	pending_put_back(pending, pod("a"), PENDING_NOWHERE, SECOND);
	pending_wake(pending, 100 * SECOND);
	next(100 * SECOND, "a");
	/* Without an event the item becomes active after PENDING_UNSCHEDULABLE_NS. */
	pending_put_back(pending, pod("a"), PENDING_NOWHERE, 100 * SECOND);
	assert_true(pending_deadline(pending) > 400 * SECOND);
	next(pending_deadline(pending), "a");
}

static void removed_items_are_forgotten(void **state)
{
	add("a", 0, 0, 0);
	add("b", 0, 0, 1);
	pending_remove(pending, pod("a"));
	pending_remove(pending, pod("nobody"));
	assert_false(pending_has(pending, pod("a")));
	next(0, "b");
	pending_remove(pending, pod("b"));
	pending_put_back(pending, pod("b"), PENDING_FAILED, 0);
	next(100 * SECOND, NULL);
	assert_true(pending_deadline(pending) == CLOCK_NEVER);
}

/* A gang and a pod with the same name are two items. */
static void kinds_have_names_of_their_own(void **state)
{
	const struct pending_rank rank = {0, 0, 0, 0};
	const struct pending_key gang = {PENDING_GANG, "ns/a"};

	assert_ok(pending_add(pending, gang, &rank));
	assert_false(pending_has(pending, pod("ns/a")));
	add("ns/a", 0, 0, 0);
	add("ns/a-b", 0, 0, 0);
	assert_int_equal(pending_counts(pending).n_active, 3);
	/* With equal rank and name the pod comes before the gang. */
	next(0, "ns/a");
	assert_int_equal(pending_next(pending, 0)->kind, PENDING_GANG);
	next(0, "ns/a-b");
	pending_remove(pending, pod("ns/a"));
	assert_false(pending_has(pending, pod("ns/a")));
	assert_true(pending_has(pending, gang));
	pending_doubt_all(pending);
	assert_ok(pending_add(pending, gang, &rank));
	pending_remove_doubted(pending);
	assert_true(pending_has(pending, gang));
	assert_false(pending_has(pending, pod("ns/a-b")));
}

static void add_in(uint32_t line, const char *name, int64_t priority)
{
	const struct pending_rank rank = {priority, 50, 0, line};

	assert_ok(pending_add(pending, pod(name), &rank));
}

static void queues_take_turns(void **state)
{
	add_in(1, "one", 9);
	add_in(3, "three-low", 0);
	add_in(3, "three-high", 5);
	add_in(0, "none-low", 4);
	add_in(0, "none-high", 7);
	/*
	 * Of the lines 1 and 3 (pending.h), line 3 comes first. The first item of line 3 and the
	 * first item of line 0 are compared by rank.
	 */
	next(0, "none-high");
	next(0, "three-high");
	next(0, "none-low");
	next(0, "three-low");
	next(0, "one");
	/* An item that is added again, with another line in its rank, moves to that line. */
	add_in(1, "moved", 0);
	add_in(3, "stays", 0);
	add_in(4, "moved", 0);
	next(0, "moved");
	next(0, "stays");
	next(0, NULL);
}

static void an_item_below_its_guarantee_does_not_back_off(void **state)
{
	add_in(1, "one", 0);
	add_in(2, "two", 0);
	next(0, "two");
	next(0, "one");
	pending_put_back(pending, pod("one"), PENDING_NOWHERE, 0);
	pending_put_back(pending, pod("two"), PENDING_NOWHERE, 0);
	pending_wake(pending, 1);
	next(1, "two");
	next(1, NULL);
	/* The item waits until the given time, or until an event. */
	pending_put_back_until(pending, pod("two"), 300 * SECOND);
	next(299 * SECOND, "one");
	next(299 * SECOND, NULL);
	next(300 * SECOND, "two");
	pending_put_back_until(pending, pod("two"), 900 * SECOND);
	pending_wake(pending, 400 * SECOND);
	next(400 * SECOND, "two");
	/*
	 * After an error an event does not end the pause, because the try would probably fail
	 * again.
	 */
	pending_put_back(pending, pod("two"), PENDING_FAILED, 400 * SECOND);
	pending_wake(pending, 400 * SECOND);
	next(400 * SECOND, NULL);
	next(411 * SECOND, "two");
}

static void a_bounded_number_of_items_below_their_guarantee_wakes(void **state)
{
	for (uint32_t i = 0; i <= PENDING_BELOW_GUARANTEE_MAX; i++) {
		char name[16];

		snprintf(name, sizeof(name), "p%u", i);
		add_in(2, name, 0);
		assert_non_null(pending_next(pending, 0));
		pending_put_back(pending, pod(name), PENDING_NOWHERE, 0);
	}
	/*
	 * The limit counts the items of a line (pending.h) in the order of their rank: "high" was
	 * added last, but is first.
	 */
	add_in(2, "high", 9);
	next(0, "high");
	pending_put_back(pending, pod("high"), PENDING_NOWHERE, 0);
	pending_wake(pending, 1);
	assert_int_equal(pending_counts(pending).n_active, PENDING_BELOW_GUARANTEE_MAX);
	assert_int_equal(pending_counts(pending).n_backing_off, 2);
	next(1, "high");
}

static void an_item_does_not_back_off_when_its_devices_come(void **state)
{
	add("rests", 0, 0, 0);
	add("pauses", 0, 0, 1);
	add("failed", 0, 0, 2);
	add("late", 0, 0, 3);
	for (int i = 0; i < 4; i++)
		assert_non_null(pending_next(pending, 0));
	pending_put_back(pending, pod("pauses"), PENDING_NOWHERE, 0);
	pending_wake(pending, 1);
	pending_put_back(pending, pod("rests"), PENDING_NOWHERE, 0);
	pending_put_back(pending, pod("failed"), PENDING_FAILED, 0);
	pending_put_back(pending, pod("late"), PENDING_NOWHERE, 0);
	/*
	 * pending_hurry() makes at most n items active, and skips items that pause after an error.
	 */
	pending_hurry(pending, 2);
	next(1, "rests");
	next(1, "pauses");
	next(1, NULL);
	pending_hurry(pending, 2);
	next(1, "late");
	next(1, NULL);
}

static void new_devices_wake_the_first_items_of_all_queues(void **state)
{
	add_in(0, "low", 0);
	add_in(1, "middle", 5);
	add_in(0, "high", 9);
	add_in(3, "lowest", -1);
	for (int i = 0; i < 4; i++)
		assert_non_null(pending_next(pending, 0));
	pending_put_back(pending, pod("lowest"), PENDING_NOWHERE, 0);
	pending_put_back(pending, pod("low"), PENDING_NOWHERE, 0);
	pending_put_back_until(pending, pod("middle"), 300 * SECOND);
	pending_put_back(pending, pod("high"), PENDING_NOWHERE, 0);
	pending_hurry(pending, 2);
	next(1, "high");
	next(1, "middle");
	next(1, NULL);
	/* pending_hurry() uses the rank that an item has now, and skips removed items. */
	add_in(3, "lowest", 7);
	pending_remove(pending, pod("low"));
	pending_hurry(pending, 2);
	next(1, "lowest");
	next(1, NULL);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(queue_items_keep_their_order),
		TEST(items_that_are_not_added_again_are_removed),
		TEST(pauses_grow_to_a_limit),
		TEST(an_item_that_backs_off_can_be_woken),
		TEST(removed_items_are_forgotten),
		TEST(kinds_have_names_of_their_own),
		TEST(queues_take_turns),
		TEST(an_item_below_its_guarantee_does_not_back_off),
		TEST(a_bounded_number_of_items_below_their_guarantee_wakes),
		TEST(an_item_does_not_back_off_when_its_devices_come),
		TEST(new_devices_wake_the_first_items_of_all_queues),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
