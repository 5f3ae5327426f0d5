/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time: uint64_t nanoseconds of CLOCK_MONOTONIC unless a name says otherwise. Any thread.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

#include "base/cleanup.h"

#define NSEC_PER_USEC UINT64_C(1000)
#define NSEC_PER_MSEC UINT64_C(1000000)
#define NSEC_PER_SEC UINT64_C(1000000000)
#define USEC_PER_MSEC UINT64_C(1000)
#define USEC_PER_SEC UINT64_C(1000000)
#define MSEC_PER_SEC UINT64_C(1000)

/* "No deadline": later than any time. */
#define CLOCK_NEVER UINT64_MAX

/* Stops while the machine is suspended. Cannot fail; about 20 ns, no system call on x86-64. */
uint64_t clock_now_ns(void);

/* Goes on while the machine is suspended. */
uint64_t clock_boot_ns(void);

/* Since 1970, jumps when the administrator sets the clock: for display and records only. */
uint64_t clock_real_ns(void);

/* Sleeps until clock_now_ns() has reached the deadline; signals do not shorten it. */
void clock_sleep_until_ns(uint64_t deadline_ns);

/*
 * How late the kernel may wake this thread from a timed wait (its default is 50 us); 0 is refused
 * with -EINVAL since the kernel takes it for "the default". Children inherit it.
 */
int clock_set_slack_ns(uint64_t slack_ns);

/* a - b, but 0 where b is later: for durations. */
static inline uint64_t clock_since_ns(uint64_t now_ns, uint64_t then_ns)
{
	return now_ns > then_ns ? now_ns - then_ns : 0;
}

/* a + b, but CLOCK_NEVER where that would overflow: for deadlines. */
static inline uint64_t clock_add_ns(uint64_t t_ns, uint64_t delta_ns)
{
	return delta_ns > CLOCK_NEVER - t_ns ? CLOCK_NEVER : t_ns + delta_ns;
}

/*
 * The state of a thread that waits for signs of life from others, and looks for them more often
 * than every CLOCK_PAUSE_NS. Begins as all 0. One thread.
 */
struct clock_listener {
	uint64_t looked_ns; /* at the last look; 0: there was none */
	uint64_t from_ns;   /* silence before this time does not count */
};

#define CLOCK_PAUSE_NS (2 * NSEC_PER_SEC)

/*
 * Notes that the listener looks at now_ns. Call it at each look, also while there is no peer. When
 * the listener has not run for longer than CLOCK_PAUSE_NS (the machine stood still, or gave it no
 * processor), its peers may have had the same pause: their silence counts from now on.
 */
static inline void clock_look(struct clock_listener *listener, uint64_t now_ns)
{
	if (listener->looked_ns && clock_since_ns(now_ns, listener->looked_ns) > CLOCK_PAUSE_NS)
		listener->from_ns = now_ns;
	listener->looked_ns = now_ns;
}

/* How long a peer that was last heard at then_ns was silent at the last look, in nanoseconds. */
static inline uint64_t clock_silent_ns(const struct clock_listener *listener, uint64_t then_ns)
{
	return clock_since_ns(listener->looked_ns, MAX(then_ns, listener->from_ns));
}

#endif
