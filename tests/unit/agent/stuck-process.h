/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that is stuck in mmap(2) over a file of a FUSE file system that does not answer. Until
 * stuck_end(), a reader of its /proc/PID/environ waits for the lock of its memory. (Linux 4.17 and
 * newer refuse to read an environment that is itself a mapped file.)
 */
#ifndef TESTS_UNIT_AGENT_STUCK_PROCESS_H
#define TESTS_UNIT_AGENT_STUCK_PROCESS_H

#include <sys/types.h>

struct stuck_process {
	pid_t pid;
	int life_fd; /* closing it ends the file system */
};

/* Skips the test if this process may not mount FUSE. */
void stuck_start(struct stuck_process *ret_stuck);
/*
 * Ends the file system, so that readers continue, and the process. End several stuck processes in
 * reverse order of their starts.
 */
void stuck_end(struct stuck_process *stuck);

#endif
