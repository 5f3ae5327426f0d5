/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listening sockets that pause. A process without a free descriptor cannot accept, and its
 * listening socket stays readable, so a loop that polls it would spin. This file ignores such a
 * socket for LISTENER_REST_NS; new connections wait in its backlog. One thread.
 */
#ifndef BASE_LISTENER_H
#define BASE_LISTENER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/loop.h"

#define LISTENER_REST_NS (100 * NSEC_PER_MSEC)

/*
 * Whether this errno of accept(2) means a shortage of descriptors or memory, which only time
 * resolves.
 */
bool listener_is_short(int error);

/* A listening socket in a loop. Zeroed means "not in a loop"; removing it then does nothing. */
struct listener {
	struct loop_io io;
	struct loop_timer rest;
	/*
	 * Called for each accepted connection, which is close-on-exec and non-blocking. `fn` owns
	 * fd.
	 */
	void (*fn)(struct listener *listener, int fd);
	void *data;
};

/* fd already listens, is non-blocking, and stays the caller's. Returns 0 or -errno. */
int listener_add(struct loop *loop, struct listener *listener, int fd,
	void (*fn)(struct listener *listener, int fd));
void listener_remove(struct listener *listener);

/* A listening socket in the caller's own loop of poll(2). */
struct listener_poll {
	int fd;
	uint64_t rest_until_ns;
};

/* The value for pollfd.fd: -1, which poll(2) ignores, while the socket pauses. */
int listener_poll_fd(const struct listener_poll *listener);
/* accept4 with SOCK_CLOEXEC and the flags. Returns the connection or -errno. */
int listener_poll_accept(struct listener_poll *listener, int flags);

#endif
