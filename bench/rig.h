/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between result.c, rig.c and host.c: which library shared runs preload, and how to end what was
 * started when the program has to stop.
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

/* Ends every rig of this program, and the host load beside them. */
void rig_end_all(void);
/* The load of host.h that there is, when no program runs any more. */
void host_end(void);

#endif
