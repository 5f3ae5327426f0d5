/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The closer: see closer.h. One mutex guards the lists; an eventfd informs the loop of finished
 * jobs. A thread uses only its job, never the connection that contains the job. All signals are
 * blocked in the threads, so that the loop's signalfd receives them.
 */
#include "threads/closer.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "threads/side-thread.h"

#define STACK_BYTES (128u << 10)
#define LEAVE_NS (NSEC_PER_SEC)
#define LOOKS_MAX 64 /* packets that closer_shut() inspects */
/*
 * The kernel's SCM_MAX_FD: with less room the kernel would close the remaining descriptors itself,
 * in recvmsg().
 */
#define PASSED_MAX 253u

TAILQ_HEAD(job_list, closer_job);
TAILQ_HEAD(queue_list, closer_queue);

struct closer {
	pthread_mutex_t lock;
	/*
	 * wake: a job is ready; left: a thread has ended or, in closer_leave(), a job has finished
	 */
	pthread_cond_t wake, left;
	struct queue_list ready; /* queues with a job that no thread runs */
	struct job_list finished;
	unsigned int n_ready;
	/*
	 * A thread that was started or woken counts as idle until it has a job: it will take a
	 * ready queue.
	 */
	unsigned int n_threads, n_idle;
	bool is_ending;
	int event_fd;
	struct loop_io io;
};

/* ---- in the threads ---- */

static void forget_linger(int fd)
{
	const struct linger none = {0, 0};

	/* Fails for anything but a socket; that is harmless. */
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
}

struct passed {
	int fd[PASSED_MAX];
	size_t n;
	bool is_end; /* the peer has closed, and there was no packet; needs SO_PASSCRED */
};

/* Receives one message; the caller owns its descriptors, even if the message was truncated. */
static ssize_t closer_receive_fds(
	int sock, void *p, size_t n, struct passed *passed, int *ret_flags)
{
	union {
		/* After closer_shut() each packet has credentials. */
		char bytes[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(sizeof(int) * PASSED_MAX)];
		struct cmsghdr align;
	} control;
	struct iovec iov = {.iov_base = p, .iov_len = n};
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	ssize_t got = recvmsg(sock, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	passed->n = 0;
	if (got < 0)
		return -errno;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
		size_t bytes = c->cmsg_len - CMSG_LEN(0);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		bytes = MIN(bytes, sizeof(passed->fd) - passed->n * sizeof(int));
		memcpy(&passed->fd[passed->n], CMSG_DATA(c), bytes);
		passed->n += bytes / sizeof(int);
	}
	passed->is_end = !got && !msg.msg_controllen;
	*ret_flags = msg.msg_flags;
	return got;
}

static void closer_close_all(struct passed *passed)
{
	for (size_t i = 0; i < passed->n; i++) {
		forget_linger(passed->fd[i]);
		close(passed->fd[i]);
	}
	passed->n = 0;
}

static bool are_memfds(const struct passed *passed)
{
	for (size_t i = 0; i < passed->n; i++)
		if (fcntl(passed->fd[i], F_GET_SEALS) < 0)
			return false;
	return true;
}

static void run_receive(struct closer_job *job)
{
	struct passed passed;
	int flags;
	ssize_t n = closer_receive_fds(
		job->sock, job->packet, sizeof(job->packet), &passed, &flags);

	if (n >= 0 && (flags & (MSG_TRUNC | MSG_CTRUNC) || passed.n > FD_PASS_MAX))
		n = -EMSGSIZE;
	if (n >= 0 && !are_memfds(&passed))
		n = -EBADF;
	job->result = (int)n;
	if (n < 0) {
		closer_close_all(&passed);
		return;
	}
	memcpy(job->fds.fd, passed.fd, passed.n * sizeof(int));
	job->fds.n = passed.n;
}

static void run_close_listener(struct closer_job *job)
{
	job->sock = fd_close(job->sock);
}

static void run_give_back(struct closer_job *job)
{
	fd_list_done(&job->fds);
}

static void run_close(struct closer_job *job)
{
	struct passed passed;
	char byte;
	int flags;

	/*
	 * Reads until the queue is empty: the kernel closes remaining descriptors with the socket,
	 * and a TCP socket then lingers. closer_close_all() turns lingering off.
	 */
	while (closer_receive_fds(job->sock, &byte, sizeof(byte), &passed, &flags) >= 0 &&
		!passed.is_end)
		closer_close_all(&passed);
	job->sock = fd_close(job->sock);
}

static void closer_make_ready(struct closer *c, struct closer_queue *q)
{
	if (q->is_ready || q->is_busy || TAILQ_EMPTY(&q->jobs))
		return;
	q->is_ready = true;
	c->n_ready++;
	TAILQ_INSERT_TAIL(&c->ready, q, link);
	pthread_cond_signal(&c->wake);
}

static struct closer_job *take_job(struct closer *c)
{
	struct closer_queue *q = TAILQ_FIRST(&c->ready);
	struct closer_job *job;

	if (!q)
		return NULL;
	c->n_ready--;
	TAILQ_REMOVE(&c->ready, q, link);
	q->is_ready = false;
	q->is_busy = true;
	job = TAILQ_FIRST(&q->jobs);
	TAILQ_REMOVE(&q->jobs, job, link);
	return job;
}

static void *closer_main(void *arg)
{
	struct closer *c = arg;
	const uint64_t one = 1;

	pthread_mutex_lock(&c->lock);
	c->n_idle--;
	for (;;) {
		struct closer_job *job = take_job(c);

		if (!job && c->is_ending)
			break;
		if (!job) {
			c->n_idle++;
			pthread_cond_wait(&c->wake, &c->lock);
			c->n_idle--;
			continue;
		}
		pthread_mutex_unlock(&c->lock);
		job->run(job);
		pthread_mutex_lock(&c->lock);
		TAILQ_INSERT_TAIL(&c->finished, job, link);
		if (!job->fds.n) {
			job->queue->is_busy = false;
			closer_make_ready(c, job->queue);
		}
		if (c->is_ending)
			pthread_cond_signal(&c->left);
		/* Fails only if the counter is full; the loop is awake then. */
		if (write(c->event_fd, &one, sizeof(one)) < 0)
			continue;
	}
	c->n_threads--;
	pthread_cond_signal(&c->left);
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

/* ---- in the loop's thread ---- */

static void add_thread(struct closer *c)
{
	/* Without a new thread the job waits for an existing one. */
	if (side_thread_start(closer_main, c, STACK_BYTES, NULL) < 0)
		return;
	c->n_threads++;
	c->n_idle++;
}

static void closer_submit_job(struct closer *c, struct closer_job *job, bool is_first)
{
	struct closer_queue *q = job->queue;

	pthread_mutex_lock(&c->lock);
	if (is_first) {
		TAILQ_INSERT_HEAD(&q->jobs, job, link);
		q->is_busy = false;
	} else {
		TAILQ_INSERT_TAIL(&q->jobs, job, link);
	}
	closer_make_ready(c, q);
	if (c->n_ready > c->n_idle && c->n_threads < CLOSER_THREADS_MAX)
		add_thread(c);
	pthread_mutex_unlock(&c->lock);
}

void closer_receive(struct closer *c, struct closer_queue *q, struct closer_job *job, int sock,
	void (*done)(struct closer_job *job))
{
	job->queue = q;
	job->run = run_receive;
	job->done = done;
	job->sock = sock;
	job->fds.n = 0;
	closer_submit_job(c, job, false);
}

void closer_give_back(
	struct closer *c, struct closer_job *job, void (*done)(struct closer_job *job))
{
	job->run = run_give_back;
	job->done = done;
	closer_submit_job(c, job, true);
}

void closer_close(struct closer *c, struct closer_queue *q, struct closer_job *job, int sock,
	void (*done)(struct closer_job *job))
{
	job->queue = q;
	job->run = run_close;
	job->done = done;
	job->sock = sock;
	job->fds.n = 0;
	closer_submit_job(c, job, false);
}

/* The job has a queue of its own, because the tenant that owned the socket has ended. */
struct listener_job {
	struct closer_job job;
	struct closer_queue queue;
};

static void free_listener_job(struct closer_job *job)
{
	free(job->data);
}

void closer_close_listener(struct closer *c, int sock)
{
	struct listener_job *l = c ? calloc(1, sizeof(*l)) : NULL;

	if (!c)
		close(sock);
	if (!l)
		return; /* losing the socket is better than closing it in this thread */
	closer_queue_init(&l->queue);
	l->job = (struct closer_job){.queue = &l->queue,
		.run = run_close_listener,
		.done = free_listener_job,
		.data = l,
		.sock = sock};
	closer_submit_job(c, &l->job, false);
}

static void closer_call_done(struct closer *c)
{
	for (;;) {
		struct closer_job *job;

		pthread_mutex_lock(&c->lock);
		job = TAILQ_FIRST(&c->finished);
		if (job)
			TAILQ_REMOVE(&c->finished, job, link);
		pthread_mutex_unlock(&c->lock);
		if (!job)
			return;
		job->done(job);
	}
}

static void closer_on_event(struct loop_io *io, uint32_t events)
{
	struct closer *c = io->data;
	uint64_t n;

	if (read(c->event_fd, &n, sizeof(n)) < 0 && errno != EAGAIN)
		return;
	closer_call_done(c);
}

void closer_queue_init(struct closer_queue *q)
{
	TAILQ_INIT(&q->jobs);
	q->is_busy = q->is_ready = false;
}

bool closer_shut(int sock)
{
	union {
		char bytes[CMSG_SPACE(sizeof(struct ucred))];
		struct cmsghdr align;
	} control;
	const int on = 1;

	/*
	 * Each packet then has a control message, which distinguishes an empty packet from the end.
	 */
	if (setsockopt(sock, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0 ||
		shutdown(sock, SHUT_RDWR) < 0)
		return false;
	for (int i = 0; i < LOOKS_MAX; i++) {
		char byte;
		struct iovec iov = {.iov_base = &byte, .iov_len = 1};
		struct msghdr msg = {
			.msg_iov = &iov,
			.msg_iovlen = 1,
			.msg_control = control.bytes,
			.msg_controllen = sizeof(control.bytes),
		};

		if (recvmsg(sock, &msg, MSG_PEEK | MSG_DONTWAIT) < 0)
			continue;
		/* MSG_PEEK leaves the descriptors in the queue, so nothing is closed here. */
		if (msg.msg_flags & MSG_CTRUNC)
			return false;
		if (!msg.msg_controllen)
			return true;
		recv(sock, &byte, sizeof(byte), MSG_DONTWAIT);
	}
	return false;
}

int closer_new(struct loop *loop, struct closer **ret_closer)
{
	struct closer *c = calloc(1, sizeof(*c));
	pthread_condattr_t attr;
	int r;

	if (!c)
		return -ENOMEM;
	TAILQ_INIT(&c->ready);
	TAILQ_INIT(&c->finished);
	c->io.data = c;
	c->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = c->event_fd < 0 ? -errno
			    : loop_add_io(loop, &c->io, c->event_fd, EPOLLIN, closer_on_event);
	if (r < 0) {
		fd_close(c->event_fd);
		free(c);
		return r;
	}
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->wake, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&c->left, &attr);
	pthread_condattr_destroy(&attr);
	*ret_closer = c;
	return 0;
}

void closer_leave(struct closer *c)
{
	uint64_t until_ns = clock_now_ns() + LEAVE_NS;
	const struct timespec until = {.tv_sec = (time_t)(until_ns / NSEC_PER_SEC),
		.tv_nsec = (long)(until_ns % NSEC_PER_SEC)};
	bool is_over = false, is_left;

	if (!c)
		return;
	pthread_mutex_lock(&c->lock);
	c->is_ending = true;
	pthread_cond_broadcast(&c->wake);
	/* A `done` callback may submit another job, and so start another thread. */
	while (!is_over && (c->n_threads || !TAILQ_EMPTY(&c->finished))) {
		while (!is_over && c->n_threads && TAILQ_EMPTY(&c->finished))
			is_over = pthread_cond_timedwait(&c->left, &c->lock, &until) == ETIMEDOUT;
		pthread_mutex_unlock(&c->lock);
		closer_call_done(c);
		pthread_mutex_lock(&c->lock);
	}
	is_left = c->n_threads;
	pthread_mutex_unlock(&c->lock);
	loop_remove_io(&c->io);
	if (is_left) /* a blocked thread still uses this memory */
		return;
	fd_close(c->event_fd);
	pthread_cond_destroy(&c->left);
	pthread_cond_destroy(&c->wake);
	pthread_mutex_destroy(&c->lock);
	free(c);
}
