/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file accepts connections in a loop, or for a caller that polls by itself. A shortage of
 * descriptors or memory disables the socket until a timer, or a point in time, ends the pause. One
 * batch accepts at most ACCEPTS_A_TURN connections. The callback may remove the listener, which
 * ends its batch. One thread.
 */
#include "base/listener.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/cleanup.h"

/* A batch ends at either limit, so that other events of the loop need not wait longer. */
#define ACCEPTS_A_TURN 64
#define TURN_NS NSEC_PER_MSEC

bool listener_is_short(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

static void listener_pause(struct listener *l)
{
	loop_mod_io(&l->io, 0);
	loop_set_timer(&l->rest, clock_now_ns() + LISTENER_REST_NS);
}

static void on_listen(struct loop_io *io, uint32_t events)
{
	struct listener *l = CONTAINER_OF(io, struct listener, io);
	const uint64_t until_ns = clock_now_ns() + TURN_NS;

	for (int i = 0; i < ACCEPTS_A_TURN && l->io.loop; i++) {
		int fd = accept4(io->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0 && listener_is_short(errno))
			listener_pause(l);
		if (fd < 0)
			break;
		l->fn(l, fd);
		if (clock_now_ns() >= until_ns)
			break;
	}
}

static void on_rested(struct loop_timer *timer, uint64_t now)
{
	struct listener *l = CONTAINER_OF(timer, struct listener, rest);

	loop_mod_io(&l->io, EPOLLIN);
}

int listener_add(struct loop *loop, struct listener *l, int fd,
	void (*fn)(struct listener *listener, int fd))
{
	int r;

	l->fn = fn;
	r = loop_add_timer(loop, &l->rest, on_rested);
	if (r < 0)
		return r;
	r = loop_add_io(loop, &l->io, fd, EPOLLIN, on_listen);
	if (r < 0)
		loop_remove_timer(&l->rest);
	return r;
}

void listener_remove(struct listener *l)
{
	if (!l->rest.loop)
		return;
	loop_remove_io(&l->io);
	loop_remove_timer(&l->rest);
}

int listener_poll_fd(const struct listener_poll *l)
{
	return clock_now_ns() < l->rest_until_ns ? -1 : l->fd;
}

int listener_poll_accept(struct listener_poll *l, int flags)
{
	int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | flags);

	if (fd >= 0)
		return fd;
	if (listener_is_short(errno))
		l->rest_until_ns = clock_now_ns() + LISTENER_REST_NS;
	return -errno;
}
