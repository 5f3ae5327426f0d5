/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connection handover: descriptors travel over socket pairs between listener and children. All
 * children share one pair to the listener, and the listener has a further pair for each child. Each
 * packet is a session's name with exactly one descriptor. A child whose socket is full never blocks
 * the listener: the listener closes that connection instead. A child publishes its name by a
 * release store, so handover_find_session() never compares a half-written name.
 */
#include "link/handover.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fd.h"

int handover_init(struct handover *d, struct children *children)
{
	struct rlimit files;
	int pair[2];

	if (getrlimit(RLIMIT_NOFILE, &files) < 0)
		return -errno;
	d->files = files.rlim_cur;
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	d->in = pair[0];
	d->knock = pair[1];
	d->children = children;
	for (unsigned i = 0; i < CHILDREN_MAX; i++)
		d->to[i] = -1;
	return 0;
}

int handover_open(struct handover *d, int place)
{
	int pair[2];

	handover_close(d, place);
	atomic_store(&d->children->v[place].is_named, false);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	d->to[place] = pair[0];
	return pair[1];
}

void handover_in_child(struct handover *d)
{
	struct rlimit files;

	d->in = fd_close(d->in);
	for (unsigned i = 0; i < CHILDREN_MAX; i++)
		d->to[i] = fd_close(d->to[i]);
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = d->files;
		setrlimit(RLIMIT_NOFILE, &files);
	}
}

void handover_close(struct handover *d, int place)
{
	if (place >= 0)
		d->to[place] = fd_close(d->to[place]);
}

static int handover_find_session(struct handover *d, const struct bulk_name *name)
{
	for (unsigned i = 0; i < CHILDREN_MAX; i++) {
		struct child *one = &d->children->v[i];

		/* pairs with the release in handover_name() */
		if (d->to[i] >= 0 && one->pid &&
			atomic_load_explicit(&one->is_named, memory_order_acquire) &&
			!memcmp(one->name, name->bytes, sizeof(one->name)))
			return d->to[i];
	}
	return -1;
}

void handover_pass(struct handover *d)
{
	_cleanup_fd_list_ struct fd_list fds = {.n = 0};
	struct bulk_name name;
	int to;

	if (fd_recv(d->in, &name, sizeof(name), &fds, MSG_DONTWAIT) != sizeof(name) || fds.n != 1)
		return;
	to = handover_find_session(d, &name);
	/* A child that takes no more has a full or closed socket: the connection is then closed. */
	if (to >= 0)
		fd_send(to, &name, sizeof(name), fds.fd, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void handover_name(struct handover *d, int place, const struct bulk_name *name)
{
	struct child *one = &d->children->v[place];

	memcpy(one->name, name->bytes, sizeof(one->name));
	/* pairs with the acquire in handover_find_session() */
	atomic_store_explicit(&one->is_named, true, memory_order_release);
}

void handover_shut(struct handover *d, int place, int own)
{
	atomic_store(&d->children->v[place].is_named, false);
	fd_close(own);
}

int handover_submit(const struct handover *d, const struct bulk_name *name, int fd)
{
	const ssize_t n = fd_send(d->knock, name, sizeof(*name), &fd, 1, MSG_NOSIGNAL);

	return n == sizeof(*name) ? 0 : -EPIPE;
}

int handover_await(int own, uint64_t until_ns)
{
	_cleanup_fd_list_ struct fd_list fds = {.n = 0};
	struct pollfd p = {.fd = own, .events = POLLIN};
	struct bulk_name name;
	int fd;

	for (;;) {
		const uint64_t left = clock_since_ns(until_ns, clock_now_ns());
		const int r = poll(&p, 1, (int)((left + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC));

		if (r > 0)
			break;
		if (left == 0)
			return -ETIMEDOUT;
	}
	if (fd_recv(own, &name, sizeof(name), &fds, 0) != sizeof(name) || fds.n != 1)
		return -EPIPE;
	fd = fds.fd[0];
	fds.n = 0;
	return fd;
}
