/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Only this file reads the system's clocks; deciding code gets `now` as an argument. All clocks
 * come from clock_gettime(), which needs no system call on x86-64. No state; any thread.
 */
#include "base/clock.h"
#include "base/thread.h"

#include <errno.h>
#include <sys/prctl.h>
#include <time.h>

static uint64_t read_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

uint64_t clock_now_ns(void)
{
	return read_ns(CLOCK_MONOTONIC);
}

uint64_t clock_boot_ns(void)
{
	return read_ns(CLOCK_BOOTTIME);
}

uint64_t clock_real_ns(void)
{
	return read_ns(CLOCK_REALTIME);
}

void clock_sleep_until_ns(uint64_t deadline_ns)
{
	struct timespec ts = {
		.tv_sec = (time_t)(deadline_ns / NSEC_PER_SEC),
		.tv_nsec = (long)(deadline_ns % NSEC_PER_SEC),
	};
	NOT_CANCELLED;

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

int clock_set_slack_ns(uint64_t slack_ns)
{
	if (!slack_ns)
		return -EINVAL;
	return prctl(PR_SET_TIMERSLACK, (unsigned long)slack_ns, 0, 0, 0) < 0 ? -errno : 0;
}
