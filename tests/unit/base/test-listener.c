/* SPDX-License-Identifier: Apache-2.0 */
/* A listener pauses while no descriptors are free, and loses no connection. */
#include "unit.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/listener.h"

#define WAITING 3

struct place {
	int fd, clients[WAITING];
};

/* Makes a listening socket with connections in its queue. */
static void start(struct place *p)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	socklen_t n = sizeof(address);

	p->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	/* The kernel chooses an abstract name. */
	assert_ok(bind(p->fd, (struct sockaddr *)&address, sizeof(sa_family_t)));
	assert_ok(listen(p->fd, WAITING));
	assert_ok(getsockname(p->fd, (struct sockaddr *)&address, &n));
	for (int i = 0; i < WAITING; i++) {
		p->clients[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
		assert_ok(connect(p->clients[i], (struct sockaddr *)&address, n));
	}
}

static void stop(struct place *p)
{
	for (int i = 0; i < WAITING; i++)
		close(p->clients[i]);
	close(p->fd);
}

static rlim_t limit_files(rlim_t files)
{
	struct rlimit limit;
	rlim_t old;

	assert_ok(getrlimit(RLIMIT_NOFILE, &limit));
	old = limit.rlim_cur;
	limit.rlim_cur = files;
	assert_ok(setrlimit(RLIMIT_NOFILE, &limit));
	return old;
}

static int accepted;

static void on_accept(struct listener *l, int fd)
{
	close(fd);
	++*(int *)l->data;
}

static void a_listener_rests_without_descriptors(void **state)
{
	struct listener l = {.data = &accepted};
	struct loop *loop;
	struct place p;
	uint64_t end_ns;
	rlim_t old;
	int turns = 0;

	accepted = 0;
	start(&p);
	assert_ok(loop_new(&loop));
	assert_ok(listener_add(loop, &l, p.fd, on_accept));
	old = limit_files(0);
	/*
	 * Runs for three pauses of the listener: each pause has one turn at its begin and one at
	 * its end.
	 */
	for (end_ns = clock_now_ns() + 3 * LISTENER_REST_NS; clock_now_ns() < end_ns; turns++)
		assert_true(loop_run_once(loop, end_ns) >= 0);
	assert_in_range(turns, 1, 20);
	assert_int_equal(accepted, 0);
	limit_files(old);
	while (accepted < WAITING)
		assert_true(loop_run_once(loop, CLOCK_NEVER) >= 0);
	listener_remove(&l);
	listener_remove(&l);
	loop_free(loop);
	stop(&p);
}

static void a_polled_listener_rests_too(void **state)
{
	struct place p;
	struct listener_poll l;
	rlim_t old;
	int fd;

	start(&p);
	l = (struct listener_poll){.fd = p.fd};
	assert_int_equal(listener_poll_fd(&l), p.fd);
	old = limit_files(0);
	assert_int_equal(listener_poll_accept(&l, 0), -EMFILE);
	limit_files(old);
	assert_int_equal(listener_poll_fd(&l), -1);
	while (listener_poll_fd(&l) < 0)
		clock_sleep_until_ns(l.rest_until_ns);
	fd = listener_poll_accept(&l, SOCK_NONBLOCK);
	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	close(fd);
	for (int i = 1; i < WAITING; i++)
		close(listener_poll_accept(&l, 0));
	/* A listener with an empty queue of connections does not pause. */
	assert_int_equal(listener_poll_accept(&l, 0), -EAGAIN);
	assert_int_equal(listener_poll_fd(&l), p.fd);
	stop(&p);
}

UNIT_MAIN(UNIT(a_listener_rests_without_descriptors), UNIT(a_polled_listener_rests_too))
