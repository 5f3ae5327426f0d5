/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded: the time of day is OTHER_CLOCK_S seconds ahead, like a wrong clock.
 */
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *ret)
{
	const char *ahead = getenv("OTHER_CLOCK_S");
	const int r = (int)syscall(SYS_clock_gettime, clock, ret);

	if (r == 0 && clock == CLOCK_REALTIME && ahead)
		ret->tv_sec += atol(ahead);
	return r;
}
