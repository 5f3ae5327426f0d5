/* SPDX-License-Identifier: Apache-2.0 */
/* Starts programs and waits for them. Not for the hook libraries. Any thread. */
#ifndef BASE_SPAWN_H
#define BASE_SPAWN_H

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/str.h"

struct spawn {
	const char *const *argv; /* argv[0] is looked up in PATH unless it has a slash */
	/* "NAME=value", ..., NULL; these override our environment; NULL: our environment */
	const char *const *env;
	/*
	 * Three descriptors for stdin, stdout and stderr, where -1 means ours. They stay the
	 * caller's. NULL: the child gets our three.
	 */
	const int *stdio_fds;
};

/*
 * Starts a program with default signal handlers and an empty signal mask. Pass the pid to
 * spawn_wait(). Returns 0, or -errno if the program cannot be started.
 */
int spawn_run(const struct spawn *spawn, pid_t *ret_pid, struct error *err);

/*
 * Reaps a child; ret_status as from waitpid(). Returns -ETIMEDOUT if the child still runs at the
 * deadline (CLOCK_NEVER: no deadline), -ECHILD if the pid is no child of ours.
 */
int spawn_wait(pid_t pid, uint64_t deadline_ns, int *ret_status);

/*
 * Reaps a child and appends what it wrote to the pipe, up to the buf's maximum; drops the rest. fd:
 * our end, which becomes non-blocking. Returns -ETIMEDOUT at the deadline: the child is killed, and
 * *ret_status is set unless the child does not end even then.
 */
int spawn_read(pid_t pid, int fd, uint64_t deadline_ns, struct buf *text, int *ret_status);

#endif
