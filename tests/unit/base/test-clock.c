/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/prctl.h>

#include "base/clock.h"

static void time_goes_forward(void **state)
{
	uint64_t a = clock_now_ns(), b = clock_now_ns();

	assert_true(a > 0 && b >= a);
	assert_true(clock_boot_ns() >= b);
	/* 2020 at least, in nanoseconds since 1970. */
	assert_true(clock_real_ns() > UINT64_C(1577836800) * NSEC_PER_SEC);
}

static void sleeps_until_the_deadline(void **state)
{
	uint64_t deadline = clock_now_ns() + 2 * NSEC_PER_MSEC;

	clock_sleep_until_ns(deadline);
	assert_true(clock_now_ns() >= deadline);
	clock_sleep_until_ns(0);
}

static void slack_can_be_set_and_zero_is_refused(void **state)
{
	assert_ok(clock_set_slack_ns(1234));
	assert_int_equal(prctl(PR_GET_TIMERSLACK), 1234);
	assert_int_equal(clock_set_slack_ns(0), -EINVAL);
	assert_int_equal(prctl(PR_GET_TIMERSLACK), 1234);
}

static void differences_do_not_wrap(void **state)
{
	assert_int_equal(clock_since_ns(10, 3), 7);
	assert_int_equal(clock_since_ns(3, 10), 0);
	assert_int_equal(clock_add_ns(3, 10), 13);
	assert_true(clock_add_ns(10, CLOCK_NEVER) == CLOCK_NEVER);
	assert_true(clock_add_ns(10, CLOCK_NEVER - 5) == CLOCK_NEVER);
}

/*
 * Looks each second from `from` to before `to`. Returns whether the peer, last heard at `heard`, is
 * silent for more than 8 s at the last look.
 */
static bool gives_up(struct clock_listener *l, uint64_t from, uint64_t to, uint64_t heard)
{
	bool is_silent = false;

	for (uint64_t s = from; s < to; s++) {
		clock_look(l, s * NSEC_PER_SEC);
		is_silent = clock_silent_ns(l, heard * NSEC_PER_SEC) > 8 * NSEC_PER_SEC;
	}
	return is_silent;
}

static void silence_counts_while_the_listener_runs(void **state)
{
	struct clock_listener l = {0};

	assert_false(gives_up(&l, 1, 10, 1));
	assert_true(gives_up(&l, 10, 11, 1));
	/* The listener heard the peer again. */
	assert_false(gives_up(&l, 11, 13, 10));
}

static void a_pause_of_the_listener_is_no_silence(void **state)
{
	struct clock_listener l = {0};

	assert_false(gives_up(&l, 1, 5, 1));
	assert_false(gives_up(&l, 20, 29, 1));
	assert_true(gives_up(&l, 29, 30, 1));
	/* The listener's pause does not count as silence of another peer either. */
	assert_false(gives_up(&l, 40, 41, 30));
	/* A listener that looks 2 s after its previous look has not paused. */
	assert_false(gives_up(&l, 42, 43, 30));
	assert_false(gives_up(&l, 44, 45, 30));
	assert_true(gives_up(&l, 45, 50, 30));
}

UNIT_MAIN(UNIT(silence_counts_while_the_listener_runs), UNIT(a_pause_of_the_listener_is_no_silence),
	UNIT(time_goes_forward), UNIT(sleeps_until_the_deadline),
	UNIT(slack_can_be_set_and_zero_is_refused), UNIT(differences_do_not_wrap))
