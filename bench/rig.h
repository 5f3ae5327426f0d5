/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interface between result.c, rig.c and host.c: the library that shared runs preload, and the end
 * of all started processes when the program has to stop.
 */
#ifndef BENCH_RIG_H
#define BENCH_RIG_H

#include <stddef.h>

#define BENCH_HOOK_ENV 32

struct bench_hook {
	const char *path; /* NULL: divvy */
	const char *env[BENCH_HOOK_ENV];
	size_t n_env;
};

extern struct bench_hook bench_hook;

/* Ends every rig of this program, and the host load. */
void rig_end_all(void);
/* Ends the load that host_init() has started. Call it when no program runs. */
void host_end(void);

#endif
