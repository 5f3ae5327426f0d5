/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event loop of a daemon: file descriptors (epoll, level triggered) and timers in nanoseconds
 * (one timerfd, which the kernel's timer slack does not delay). One thread; nothing here locks.
 *
 * Sources and timers are the caller's memory, usually inside the object that they serve. A callback
 * may add, change and remove any source or timer, its own included, and free the memory right
 * after. The loop removes such a source from the current batch, and does not touch a source after
 * its callback. No callback comes after a removal. A callback must not run the loop.
 *
 * In a batch, descriptors come first. Then come the timers that were due when the batch began, by
 * deadline, then by the order in which they were armed; each timer once.
 */
#ifndef BASE_LOOP_H
#define BASE_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "base/clock.h"

struct loop;
struct loop_io;
struct loop_timer;

/* events: EPOLLIN and so on; EPOLLERR and EPOLLHUP are always delivered. */
typedef void loop_io_fn(struct loop_io *io, uint32_t events);
typedef void loop_timer_fn(struct loop_timer *timer, uint64_t now_ns);

/*
 * Zeroed means "not in a loop"; removing it then does nothing. Only `data` is the caller's to
 * write.
 */
struct loop_io {
	struct loop *loop;
	loop_io_fn *fn;
	void *data;
	int fd; /* stays the caller's; remove the source before closing it */
	uint32_t events;
};

struct loop_timer {
	struct loop *loop;
	loop_timer_fn *fn;
	void *data;
	uint64_t deadline_ns; /* CLOCK_NEVER: not armed */
	uint64_t order;
	uint64_t batch;
	uint32_t index;
};

int loop_new(struct loop **ret_loop);

/* Drops the remaining sources and timers, whose memory stays the callers'. Accepts NULL. */
void loop_free(struct loop *loop);
void loop_free_p(struct loop **loop);
#define _cleanup_loop_ __attribute__((cleanup(loop_free_p)))

/* Returns -EEXIST if the descriptor is already in the loop, -EPERM for a regular file. */
int loop_add_io(struct loop *loop, struct loop_io *io, int fd, uint32_t events, loop_io_fn *fn);
/*
 * Waits for other events from now on. With 0 the source stays, and reports only errors and hangups.
 */
int loop_mod_io(struct loop_io *io, uint32_t events);
void loop_remove_io(struct loop_io *io);

/* Adds a timer, not armed yet. Only this function can return -ENOMEM; arming cannot fail. */
int loop_add_timer(struct loop *loop, struct loop_timer *timer, loop_timer_fn *fn);
/*
 * Arms or moves the timer. A deadline in the past fires in this batch or the next. A timer that has
 * just fired then comes after all other due timers. O(log n).
 */
void loop_set_timer(struct loop_timer *timer, uint64_t deadline_ns);
void loop_cancel_timer(struct loop_timer *timer);
void loop_remove_timer(struct loop_timer *timer);

static inline bool loop_timer_is_armed(const struct loop_timer *timer)
{
	return timer->loop && timer->deadline_ns != CLOCK_NEVER;
}

/*
 * Waits until a source or timer is due, at most until the deadline (CLOCK_NEVER: for ever; 0: not
 * at all), and runs one batch. Returns the number of callbacks, or -errno.
 */
int loop_run_once(struct loop *loop, uint64_t deadline_ns);

/* Runs batches until loop_stop(), and returns the result passed there, or -errno. */
int loop_run(struct loop *loop);
void loop_stop(struct loop *loop, int result);

/* The time at which the current batch began. */
uint64_t loop_now_ns(const struct loop *loop);

#endif
