/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event loop of a daemon: file descriptors (epoll, level triggered) and timers in nanoseconds
 * (one timerfd, which the kernel's timer slack does not delay). One thread; nothing here locks.
 *
 * Sources and timers are the caller's memory, usually inside the object they serve. A callback may
 * add, change and remove any of them, its own included, and free their memory right after: a
 * removed source is blotted out of the batch under way, and the loop touches nothing of a source
 * once its callback has been called. No callback comes after a removal. The one thing a callback
 * may not do is to run the loop.
 *
 * In a batch, descriptors come first, then the timers that were due when the batch began, by
 * deadline and, where equal, by the order of their arming; each timer once.
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

/* events: EPOLLIN and so on; EPOLLERR and EPOLLHUP come unasked. */
typedef void loop_io_fn(struct loop_io *io, uint32_t events);
typedef void loop_timer_fn(struct loop_timer *timer, uint64_t now_ns);

/* Zeroed means "not in a loop"; removing that is fine. The fields are the loop's, data aside. */
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

/* Forgets what is still in it; their memory stays the callers'. NULL is fine. */
void loop_free(struct loop *loop);
void loop_free_p(struct loop **loop);
#define _cleanup_loop_ __attribute__((cleanup(loop_free_p)))

/* -EEXIST when that descriptor is in the loop already, -EPERM for a plain file. */
int loop_add_io(struct loop *loop, struct loop_io *io, int fd, uint32_t events, loop_io_fn *fn);
/* Waits for other events from now on; 0 keeps it, silent but for errors. */
int loop_mod_io(struct loop_io *io, uint32_t events);
void loop_remove_io(struct loop_io *io);

/* Not armed at first. -ENOMEM is possible here and nowhere later. */
int loop_add_timer(struct loop *loop, struct loop_timer *timer, loop_timer_fn *fn);
/*
 * Arms it, or moves it; a deadline in the past fires in this batch or the next, that of a timer
 * which has just fired after all others that are due. O(log n).
 */
void loop_set_timer(struct loop_timer *timer, uint64_t deadline_ns);
void loop_cancel_timer(struct loop_timer *timer);
void loop_remove_timer(struct loop_timer *timer);

static inline bool loop_timer_is_armed(const struct loop_timer *timer)
{
	return timer->loop && timer->deadline_ns != CLOCK_NEVER;
}

/*
 * Waits until something is due, at most until the deadline (CLOCK_NEVER: for ever; 0: not at all),
 * and runs one batch. Returns the number of callbacks, or -errno.
 */
int loop_run_once(struct loop *loop, uint64_t deadline_ns);

/* Batches until loop_stop(); returns what that was given, or -errno. */
int loop_run(struct loop *loop);
void loop_stop(struct loop *loop, int result);

/* The time at which the batch under way began. */
uint64_t loop_now_ns(const struct loop *loop);

#endif
