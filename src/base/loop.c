/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event loop: see loop.h.
 *
 * Invariants: heap[0..armed) is a binary heap by (deadline, order), heap[armed..timers) holds the
 * timers that are not armed, and heap[t->index] == t for each; so arming is a swap and a sift, and
 * never allocates. ready[at..n) are the events of the batch not yet dispatched: NULL for a removed
 * source, the loop itself for the timerfd. wakeup_ns is what the timerfd is set to.
 */
#include "base/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"

#define BATCH_MAX 64

struct loop {
	int epoll_fd;
	int timer_fd;
	uint64_t wakeup_ns;
	uint64_t now_ns;
	uint64_t batch;
	uint64_t next_order;

	struct loop_timer **heap;
	size_t armed, timers, capacity;

	struct epoll_event ready[BATCH_MAX];
	int at, n;

	bool stopped;
	int result;
};

int loop_new(struct loop **ret_loop)
{
	struct epoll_event timer_event = {.events = EPOLLIN};
	_cleanup_loop_ struct loop *loop = calloc(1, sizeof(*loop));

	if (!loop)
		return -ENOMEM;
	loop->timer_fd = -1;
	timer_event.data.ptr = loop;
	loop->wakeup_ns = CLOCK_NEVER;
	loop->now_ns = clock_now_ns();
	loop->batch = 1; /* that of a timer which has never fired is 0 */
	loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (loop->epoll_fd < 0)
		return -errno;
	loop->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (loop->timer_fd < 0)
		return -errno;
	if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, loop->timer_fd, &timer_event) < 0)
		return -errno;
	*ret_loop = TAKE_PTR(loop);
	return 0;
}

void loop_free(struct loop *loop)
{
	if (!loop)
		return;
	fd_close(loop->epoll_fd);
	fd_close(loop->timer_fd);
	free(loop->heap);
	free(loop);
}

void loop_free_p(struct loop **loop)
{
	loop_free(*loop);
}

int loop_add_io(struct loop *loop, struct loop_io *io, int fd, uint32_t events, loop_io_fn *fn)
{
	struct epoll_event event = {.events = events, .data.ptr = io};

	if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
		return -errno;
	io->loop = loop;
	io->fd = fd;
	io->events = events;
	io->fn = fn;
	return 0;
}

int loop_mod_io(struct loop_io *io, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = io};

	if (events == io->events)
		return 0;
	if (epoll_ctl(io->loop->epoll_fd, EPOLL_CTL_MOD, io->fd, &event) < 0)
		return -errno;
	io->events = events;
	return 0;
}

void loop_remove_io(struct loop_io *io)
{
	struct loop *loop = io->loop;
	int i;

	if (!loop)
		return;
	epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, io->fd, NULL);
	for (i = loop->at; i < loop->n; i++)
		if (loop->ready[i].data.ptr == io)
			loop->ready[i].data.ptr = NULL;
	io->loop = NULL;
}

static bool is_before(const struct loop_timer *a, const struct loop_timer *b)
{
	if (a->deadline_ns != b->deadline_ns)
		return a->deadline_ns < b->deadline_ns;
	return a->order < b->order;
}

static void place(struct loop *loop, size_t i, struct loop_timer *t)
{
	loop->heap[i] = t;
	t->index = i;
}

static void swap(struct loop *loop, size_t i, size_t j)
{
	struct loop_timer *t = loop->heap[i];

	place(loop, i, loop->heap[j]);
	place(loop, j, t);
}

/* Restores the heap around i, whose deadline has changed in either direction. */
static void sift(struct loop *loop, size_t i)
{
	size_t child;

	while (i > 0 && is_before(loop->heap[i], loop->heap[(i - 1) / 2])) {
		swap(loop, i, (i - 1) / 2);
		i = (i - 1) / 2;
	}
	while ((child = 2 * i + 1) < loop->armed) {
		if (child + 1 < loop->armed && is_before(loop->heap[child + 1], loop->heap[child]))
			child++;
		if (!is_before(loop->heap[child], loop->heap[i]))
			break;
		swap(loop, i, child);
		i = child;
	}
}

int loop_add_timer(struct loop *loop, struct loop_timer *timer, loop_timer_fn *fn)
{
	struct loop_timer **grown;
	size_t capacity;

	if (loop->timers == loop->capacity) {
		capacity = MAX(loop->capacity * 2, (size_t)16);
		grown = reallocarray(loop->heap, capacity, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		loop->heap = grown;
		loop->capacity = capacity;
	}
	timer->loop = loop;
	timer->fn = fn;
	timer->deadline_ns = CLOCK_NEVER;
	timer->batch = 0;
	place(loop, loop->timers++, timer);
	return 0;
}

void loop_cancel_timer(struct loop_timer *timer)
{
	struct loop *loop = timer->loop;
	size_t i = timer->index;

	if (!loop_timer_is_armed(timer))
		return;
	timer->deadline_ns = CLOCK_NEVER;
	swap(loop, i, --loop->armed);
	if (i < loop->armed)
		sift(loop, i);
}

void loop_set_timer(struct loop_timer *timer, uint64_t deadline_ns)
{
	struct loop *loop = timer->loop;

	if (deadline_ns == CLOCK_NEVER) {
		loop_cancel_timer(timer);
		return;
	}
	if (!loop_timer_is_armed(timer))
		swap(loop, timer->index, loop->armed++);
	/* What fired just now comes last: set to the past again and again, it holds up no other. */
	if (timer->batch == loop->batch)
		deadline_ns = MAX(deadline_ns, loop->now_ns);
	timer->deadline_ns = deadline_ns;
	timer->order = loop->next_order++;
	sift(loop, timer->index);
}

void loop_remove_timer(struct loop_timer *timer)
{
	struct loop *loop = timer->loop;

	if (!loop)
		return;
	loop_cancel_timer(timer);
	swap(loop, timer->index, --loop->timers);
	timer->loop = NULL;
}

/* Sets the timerfd to that time unless it is set so already; a time in the past fires at once. */
static int set_wakeup(struct loop *loop, uint64_t wakeup_ns)
{
	struct itimerspec spec = {.it_interval = {0}};

	if (wakeup_ns == loop->wakeup_ns)
		return 0;
	if (wakeup_ns != CLOCK_NEVER) {
		/* An all-zero time would disarm it. */
		spec.it_value.tv_sec = (time_t)(wakeup_ns / NSEC_PER_SEC);
		spec.it_value.tv_nsec = (long)(wakeup_ns % NSEC_PER_SEC) + !wakeup_ns;
	}
	if (timerfd_settime(loop->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL) < 0)
		return -errno;
	loop->wakeup_ns = wakeup_ns;
	return 0;
}

/* Fills ready[]; waits for it at most until the deadline or the first timer. */
static int wait_for_events(struct loop *loop, uint64_t deadline_ns)
{
	int timeout_ms = -1;
	int r = 0;

	if (loop->armed)
		deadline_ns = MIN(deadline_ns, loop->heap[0]->deadline_ns);
	if (deadline_ns == 0 || deadline_ns <= clock_now_ns())
		timeout_ms = 0;
	else
		r = set_wakeup(loop, deadline_ns);
	if (r < 0)
		return r;

	r = epoll_wait(loop->epoll_fd, loop->ready, BATCH_MAX, timeout_ms);
	if (r < 0 && errno != EINTR)
		return -errno;
	loop->at = 0;
	loop->n = MAX(r, 0);
	loop->now_ns = clock_now_ns();
	return 0;
}

/* The timerfd is a level: read, or it would wake us for ever. */
static void acknowledge_wakeup(struct loop *loop)
{
	uint64_t expirations;

	if (read(loop->timer_fd, &expirations, sizeof(expirations)) > 0)
		loop->wakeup_ns = CLOCK_NEVER;
}

static int dispatch_io(struct loop *loop)
{
	struct epoll_event *event;
	struct loop_io *io;
	int called = 0;

	while (loop->at < loop->n) {
		event = &loop->ready[loop->at++];
		if (event->data.ptr == loop) {
			acknowledge_wakeup(loop);
			continue;
		}
		io = event->data.ptr;
		if (!io)
			continue;
		io->fn(io, event->events);
		called++;
	}
	return called;
}

static int dispatch_timers(struct loop *loop)
{
	uint64_t batch = ++loop->batch;
	struct loop_timer *timer;
	int called = 0;

	while (loop->armed) {
		timer = loop->heap[0];
		if (timer->deadline_ns > loop->now_ns || timer->batch == batch)
			break;
		timer->batch = batch;
		loop_cancel_timer(timer);
		timer->fn(timer, loop->now_ns);
		called++;
	}
	return called;
}

int loop_run_once(struct loop *loop, uint64_t deadline_ns)
{
	int r = wait_for_events(loop, deadline_ns);
	int called;

	if (r < 0)
		return r;
	called = dispatch_io(loop);
	return called + dispatch_timers(loop);
}

int loop_run(struct loop *loop)
{
	int r;

	loop->stopped = false;
	while (!loop->stopped) {
		r = loop_run_once(loop, CLOCK_NEVER);
		if (r < 0)
			return r;
	}
	return loop->result;
}

void loop_stop(struct loop *loop, int result)
{
	loop->stopped = true;
	loop->result = result;
}

uint64_t loop_now_ns(const struct loop *loop)
{
	return loop->now_ns;
}
