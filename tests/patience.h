/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bound of a wait in a test: the twin of patience() in tap.py. A time-out ends a hanging test,
 * so each one comes from here and grows with the machine's load. On an idle machine a bound is
 * twice the time that the caller names, and under load at most ten times that time.
 *
 * Works in a forked child and in any thread; allocates nothing.
 */
#ifndef TESTS_PATIENCE_H
#define TESTS_PATIENCE_H

#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

/* Seconds that suffice for any wait of a test on an idle machine. */
#define PATIENCE_S 60u

/* Percent by which the machine's load stretches the bound of a wait: 200 to 1000. */
static inline unsigned int patience_percent(void)
{
	const long processors = sysconf(_SC_NPROCESSORS_ONLN);
	double load, percent;

	if (getloadavg(&load, 1) != 1)
		return 200;
	percent = 200 * load / (processors > 0 ? (double)processors : 1);
	return percent < 200 ? 200 : percent > 1000 ? 1000 : (unsigned int)percent;
}

/* The bound, on this machine now, of a wait that takes at most `seconds` on an idle machine. */
static inline unsigned int patience_s(unsigned int seconds)
{
	return (unsigned int)((uint64_t)seconds * patience_percent() / 100);
}

static inline int patience_ms(unsigned int milliseconds)
{
	return (int)((uint64_t)milliseconds * patience_percent() / 100);
}

static inline uint64_t patience_ns(uint64_t nanoseconds)
{
	return nanoseconds / 100 * patience_percent();
}

#endif
