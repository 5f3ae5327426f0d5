/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listening sockets that rest. A process without a free descriptor cannot accept, and its listening
 * socket stays readable: a loop that polls it would spin. Such a socket is left alone for
 * LISTENER_REST_NS; the connections wait in its queue. One thread.
 */
#ifndef BASE_LISTENER_H
#define BASE_LISTENER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/loop.h"

#define LISTENER_REST_NS (100 * NSEC_PER_MSEC)

/* Whether accept(2) has failed with what only time mends: descriptors, memory. */
bool listener_is_short(int error);

/* In a loop. Zeroed means "not in a loop"; removing that is fine. */
struct listener {
	struct loop_io io;
	struct loop_timer rest;
	/* Owns the connection, which is close-on-exec and does not block. */
	void (*fn)(struct listener *listener, int fd);
	void *data;
};

/* fd: listens already and does not block; stays the caller's. 0 or -errno. */
int listener_add(struct loop *loop, struct listener *listener, int fd,
	void (*fn)(struct listener *listener, int fd));
void listener_remove(struct listener *listener);

/* In a loop of poll(2) of the caller's own. */
struct listener_poll {
	int fd;
	uint64_t rest_until_ns;
};

/* For pollfd.fd: -1 while it rests, and poll(2) ignores that. */
int listener_poll_fd(const struct listener_poll *listener);
/* accept4 with SOCK_CLOEXEC and the flags; the connection, or -errno. */
int listener_poll_accept(struct listener_poll *listener, int flags);

#endif
