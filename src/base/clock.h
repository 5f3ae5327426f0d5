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

/*
 * This clock stops while the machine is suspended. Cannot fail; takes about 20 ns, without a system
 * call on x86-64.
 */
uint64_t clock_now_ns(void);

/* This clock continues while the machine is suspended. */
uint64_t clock_boot_ns(void);

/*
 * Nanoseconds since 1970. The value jumps when the administrator sets the clock: use it only for
 * display and records.
 */
uint64_t clock_real_ns(void);

/* Sleeps until clock_now_ns() has reached the deadline; signals do not shorten it. */
void clock_sleep_until_ns(uint64_t deadline_ns);

/*
 * Sets how late the kernel may wake this thread from a timed wait (default: 50 us). Children
 * inherit the value. Returns -EINVAL for 0, because the kernel would take it as "the default".
 */
int clock_set_slack_ns(uint64_t slack_ns);

/* now_ns - then_ns, or 0 if then_ns is later: for durations. */
static inline uint64_t clock_since_ns(uint64_t now_ns, uint64_t then_ns)
{
	return now_ns > then_ns ? now_ns - then_ns : 0;
}

/* t_ns + delta_ns, or CLOCK_NEVER if the sum would overflow: for deadlines. */
static inline uint64_t clock_add_ns(uint64_t t_ns, uint64_t delta_ns)
{
	return delta_ns > CLOCK_NEVER - t_ns ? CLOCK_NEVER : t_ns + delta_ns;
}

/*
 * State of a thread that waits for signs of life from peers and checks for them more often than
 * every CLOCK_PAUSE_NS. A zeroed struct is the start. One thread.
 */
struct clock_listener {
	uint64_t looked_ns; /* time of the last look; 0: none yet */
	uint64_t from_ns;   /* silence before this time does not count */
};

#define CLOCK_PAUSE_NS (2 * NSEC_PER_SEC)

/*
 * Notes that the listener looks at now_ns. Call it at each look, also while there is no peer. If
 * the listener has not run for longer than CLOCK_PAUSE_NS, the machine was stopped or overloaded.
 * The listener's peers may have had the same pause, so their silence counts only from now on.
 */
static inline void clock_look(struct clock_listener *listener, uint64_t now_ns)
{
	if (listener->looked_ns && clock_since_ns(now_ns, listener->looked_ns) > CLOCK_PAUSE_NS)
		listener->from_ns = now_ns;
	listener->looked_ns = now_ns;
}

/* Nanoseconds that a peer, last heard at then_ns, had been silent at the last look. */
static inline uint64_t clock_silent_ns(const struct clock_listener *listener, uint64_t then_ns)
{
	return clock_since_ns(listener->looked_ns, MAX(then_ns, listener->from_ns));
}

#endif
