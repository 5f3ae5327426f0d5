/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting programs and waiting for them. Not for the hook libraries. Any thread.
 */
#ifndef BASE_SPAWN_H
#define BASE_SPAWN_H

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct spawn {
	const char *const *argv; /* argv[0] is looked up in PATH unless it has a slash */
	const char *const *env;  /* "NAME=value", ..., NULL, put over ours; NULL: ours */
	/*
	 * They stay the caller's; NULL: the child has ours. Otherwise three, where -1 means ours.
	 */
	const int *stdio_fds;
};

/*
 * Starts a program with default signal handlers and an empty signal mask; its pid is for
 * spawn_wait(). Fails, with a sentence, when the program itself could not be started.
 */
int spawn_run(const struct spawn *spawn, pid_t *ret_pid, struct error *err);

/*
 * Reaps a child; ret_status as waitpid(). -ETIMEDOUT when it still runs at the deadline
 * (CLOCK_NEVER: waits for ever), -ECHILD when it is no child of ours.
 */
int spawn_wait(pid_t pid, uint64_t deadline_ns, int *ret_status);

#endif
