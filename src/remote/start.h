/* SPDX-License-Identifier: Apache-2.0 */
/* What all processes around a session share: making one, starting a worker. Any thread. */
#ifndef REMOTE_START_H
#define REMOTE_START_H

#include "base/fd.h"
#include "remote/session.h"

/* A sealed session, mapped, and its descriptor. 0 or -errno. */
int session_new(enum remote_hub hub, struct map *ret_map, int *ret_fd);

/* Before the first worker is started: what they have in common, in our environment. */
void workers_begin(void);

/* Room in its command line, into which the worker writes the pid of its program. */
#define WORKER_WHOSE "               "

/*
 * Becomes divvy-remote-worker for the program at the other end of the socket, with the libraries
 * of $DIVVY_REMOTE_HOOKS before the driver. Returns only on failure.
 */
void worker_become(int sock);

#endif
