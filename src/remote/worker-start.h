/* SPDX-License-Identifier: Apache-2.0 */
/* Makes sessions and starts workers, for divvy-remote-server and for links. Any thread. */
#ifndef REMOTE_WORKER_START_H
#define REMOTE_WORKER_START_H

#include "base/fd.h"
#include "remote/session.h"

/* Makes a sealed session: maps it, and returns its descriptor. 0 or -errno. */
int session_new(enum remote_link_role link_role, struct map *ret_map, int *ret_fd);

/*
 * Call before the first worker starts: puts what all workers share into this process's environment.
 */
void workers_begin(void);

/* Room in a worker's command line for the pid of its program. */
#define WORKER_WHOSE "               "

/*
 * Turns this process into divvy-remote-worker for the program at the other end of the socket.
 * $DIVVY_REMOTE_HOOKS names the libraries to preload. Returns only on failure.
 */
void worker_become(int sock);

#endif
