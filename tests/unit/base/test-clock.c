/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <errno.h>
#include <sys/prctl.h>

#include "base/clock.h"

static void time_goes_forward(void **state)
{
	uint64_t a = clock_now_ns(), b = clock_now_ns();

	assert_true(a > 0 && b >= a);
	assert_true(clock_boot_ns() >= b);
	/* 2020 at least: nanoseconds since 1970. */
	assert_true(clock_real_ns() > UINT64_C(1577836800) * NSEC_PER_SEC);
}

static void sleeps_until_the_deadline(void **state)
{
	uint64_t deadline = clock_now_ns() + 2 * NSEC_PER_MSEC;

	clock_sleep_until_ns(deadline);
	assert_true(clock_now_ns() >= deadline);
	clock_sleep_until_ns(0);
}

static void slack_is_set_and_zero_refused(void **state)
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

UNIT_MAIN(UNIT(time_goes_forward), UNIT(sleeps_until_the_deadline),
	UNIT(slack_is_set_and_zero_refused), UNIT(differences_do_not_wrap))
