/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event loop: see loop.h.
 *
 * Invariants: the heap of armed timers, by (deadline, order), has room for all timers, so arming
 * never allocates; armed.v[t->index] == t for each armed timer. ready[at..n) are the undispatched
 * events of the batch: NULL for a removed source, the loop itself for the timerfd. wakeup_ns is the
 * time that the timerfd is set to. One thread.
 */
#include "base/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/heap.h"

#define BATCH_MAX 64

HEAP_HEAD(timers, struct loop_timer *);

struct loop {
	int epoll_fd;
	int timer_fd;
	uint64_t wakeup_ns;
	uint64_t now_ns;
	uint64_t batch;
	uint64_t next_order;

	struct timers armed;
	uint32_t n_timers;

	struct epoll_event ready[BATCH_MAX];
	int at, n;

	bool stopped;
	int result;
};

static bool timer_is_before(const struct loop_timer *a, const struct loop_timer *b)
{
	if (a->deadline_ns != b->deadline_ns)
		return a->deadline_ns < b->deadline_ns;
	return a->order < b->order;
}

static void timer_set_index(struct loop_timer *timer, uint32_t index)
{
	timer->index = index;
}

HEAP_DEFINE(timers, struct loop_timer *, timer_is_before, timer_set_index)

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
	loop->batch = 1; /* 0 is the batch of a timer that has never fired */
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
	free(loop->armed.v);
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

int loop_add_timer(struct loop *loop, struct loop_timer *timer, loop_timer_fn *fn)
{
	if (timers_reserve(&loop->armed, loop->n_timers + 1ul) < 0)
		return -ENOMEM;
	loop->n_timers++;
	timer->loop = loop;
	timer->fn = fn;
	timer->deadline_ns = CLOCK_NEVER;
	timer->batch = 0;
	return 0;
}

void loop_cancel_timer(struct loop_timer *timer)
{
	if (!loop_timer_is_armed(timer))
		return;
	timer->deadline_ns = CLOCK_NEVER;
	timers_remove(&timer->loop->armed, timer->index);
}

void loop_set_timer(struct loop_timer *timer, uint64_t deadline_ns)
{
	const bool was_armed = loop_timer_is_armed(timer);
	struct loop *loop = timer->loop;

	if (deadline_ns == CLOCK_NEVER) {
		loop_cancel_timer(timer);
		return;
	}
	/*
	 * A timer that has just fired comes last: setting it to the past repeatedly must not delay
	 * other timers.
	 */
	if (timer->batch == loop->batch)
		deadline_ns = MAX(deadline_ns, loop->now_ns);
	timer->deadline_ns = deadline_ns;
	timer->order = loop->next_order++;
	if (was_armed)
		timers_moved(&loop->armed, timer->index);
	else
		timers_add(&loop->armed, timer);
}

void loop_remove_timer(struct loop_timer *timer)
{
	struct loop *loop = timer->loop;

	if (!loop)
		return;
	loop_cancel_timer(timer);
	loop->n_timers--;
	timer->loop = NULL;
}

/* Sets the timerfd unless it is set already; a time in the past fires at once. */
static int set_wakeup(struct loop *loop, uint64_t wakeup_ns)
{
	struct itimerspec spec = {.it_interval = {0}};

	if (wakeup_ns == loop->wakeup_ns)
		return 0;
	if (wakeup_ns != CLOCK_NEVER) {
		/* An all-zero time would disarm the timerfd. */
		spec.it_value.tv_sec = (time_t)(wakeup_ns / NSEC_PER_SEC);
		spec.it_value.tv_nsec = (long)(wakeup_ns % NSEC_PER_SEC) + !wakeup_ns;
	}
	if (timerfd_settime(loop->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL) < 0)
		return -errno;
	loop->wakeup_ns = wakeup_ns;
	return 0;
}

/* Fills ready[]; waits at most until the deadline or the first timer. */
static int wait_for_events(struct loop *loop, uint64_t deadline_ns)
{
	int timeout_ms = -1;
	int r = 0;

	if (loop->armed.n)
		deadline_ns = MIN(deadline_ns, loop->armed.v[0]->deadline_ns);
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

/* Reading resets the timerfd, which would otherwise stay readable. */
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

	while (loop->armed.n) {
		timer = loop->armed.v[0];
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
