/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/loop.h"
#include "base/rand.h"

static uint64_t last_deadline;
static int calls;

static struct loop *new_loop(void)
{
	struct loop *loop = NULL;

	assert_ok(loop_new(&loop));
	calls = 0;
	last_deadline = 0;
	return loop;
}

static void count_io(struct loop_io *io, uint32_t events)
{
	calls++;
}

static void count_timer(struct loop_timer *timer, uint64_t now_ns)
{
	calls++;
}

static void an_empty_loop_waits_until_the_deadline(void **state)
{
	_cleanup_loop_ struct loop *loop = new_loop();
	uint64_t deadline = clock_now_ns() + 3 * NSEC_PER_MSEC;

	assert_int_equal(loop_run_once(loop, 0), 0);
	assert_int_equal(loop_run_once(loop, deadline), 0);
	assert_true(clock_now_ns() >= deadline);
}

static void calls_a_source_as_long_as_it_is_ready(void **state)
{
	_cleanup_loop_ struct loop *loop = new_loop();
	_cleanup_close_ int fd = eventfd(1, EFD_CLOEXEC);
	struct loop_io io = {.data = NULL};

	assert_ok(loop_add_io(loop, &io, fd, EPOLLIN, count_io));
	assert_int_equal(loop_run_once(loop, CLOCK_NEVER), 1);
	assert_int_equal(loop_run_once(loop, CLOCK_NEVER), 1);
	assert_ok(loop_mod_io(&io, 0));
	assert_int_equal(loop_run_once(loop, 0), 0);
	assert_ok(loop_mod_io(&io, EPOLLIN));
	assert_int_equal(loop_run_once(loop, CLOCK_NEVER), 1);
	loop_remove_io(&io);
	loop_remove_io(&io);
	assert_int_equal(loop_run_once(loop, 0), 0);
	assert_int_equal(calls, 3);
}

static void refuses_the_same_descriptor_twice(void **state)
{
	_cleanup_loop_ struct loop *loop = new_loop();
	_cleanup_close_ int fd = eventfd(0, EFD_CLOEXEC);
	struct loop_io a = {.data = NULL}, b = {.data = NULL};

	assert_ok(loop_add_io(loop, &a, fd, EPOLLIN, count_io));
	assert_int_equal(loop_add_io(loop, &b, fd, EPOLLIN, count_io), -EEXIST);
	assert_null(b.loop);
	assert_int_equal(loop_add_io(loop, &b, -1, EPOLLIN, count_io), -EBADF);
}

/* Sources on the heap, all ready at once; the first callback frees all sources. */
struct victim {
	struct loop_io io;
	struct victim **all;
	int fd;
};

enum { VICTIMS = 20 };

static void free_everybody(struct loop_io *io, uint32_t events)
{
	struct victim **all = ((struct victim *)io->data)->all;
	int i;

	calls++;
	for (i = 0; i < VICTIMS; i++) {
		loop_remove_io(&all[i]->io);
		close(all[i]->fd);
		free(all[i]);
		all[i] = NULL;
	}
}

static void a_callback_may_free_every_source_of_its_batch(void **state)
{
	_cleanup_loop_ struct loop *loop = new_loop();
	struct victim *all[VICTIMS];
	int i;

	for (i = 0; i < VICTIMS; i++) {
		all[i] = calloc(1, sizeof(*all[i]));
		assert_non_null(all[i]);
		all[i]->all = all;
		all[i]->fd = eventfd(1, EFD_CLOEXEC);
		all[i]->io.data = all[i];
		assert_ok(loop_add_io(loop, &all[i]->io, all[i]->fd, EPOLLIN, free_everybody));
	}
	assert_int_equal(loop_run_once(loop, CLOCK_NEVER), 1);
	assert_int_equal(loop_run_once(loop, 0), 0);
	assert_int_equal(calls, 1);
}

static void a_timer_fires_once_and_not_before_its_time(void **state)
{
	_cleanup_loop_ struct loop *loop = new_loop();
	struct loop_timer timer = {.data = NULL};
	uint64_t deadline = clock_now_ns() + 2 * NSEC_PER_MSEC + 345;

	assert_ok(loop_add_timer(loop, &timer, count_timer));
	assert_false(loop_timer_is_armed(&timer));
	loop_set_timer(&timer, deadline);
	assert_true(loop_timer_is_armed(&timer));
	while (!calls)
		assert_true(loop_run_once(loop, CLOCK_NEVER) >= 0);
	assert_true(clock_now_ns() >= deadline);
	assert_true(loop_now_ns(loop) >= deadline);
	assert_false(loop_timer_is_armed(&timer));
	assert_int_equal(loop_run_once(loop, clock_now_ns() + NSEC_PER_MSEC), 0);
	assert_int_equal(calls, 1);
}

static void a_cancelled_or_removed_timer_stays_silent(void **state)
{
	_cleanup_loop_ struct loop *loop = new_loop();
	struct loop_timer a = {.data = NULL}, b = {.data = NULL};

	assert_ok(loop_add_timer(loop, &a, count_timer));
	assert_ok(loop_add_timer(loop, &b, count_timer));
	loop_set_timer(&a, 1);
	loop_set_timer(&b, 1);
	loop_cancel_timer(&a);
	loop_cancel_timer(&a);
	loop_remove_timer(&b);
	loop_remove_timer(&b);
	assert_int_equal(loop_run_once(loop, 0), 0);
	loop_set_timer(&a, 1);
	assert_int_equal(loop_run_once(loop, 0), 1);
	loop_set_timer(&a, 1);
	loop_set_timer(&a, CLOCK_NEVER);
	assert_int_equal(loop_run_once(loop, 0), 0);
}

static void rearm_at_once(struct loop_timer *timer, uint64_t now_ns)
{
	calls++;
	loop_set_timer(timer, 0);
}

static void a_timer_that_rearms_itself_does_not_hold_the_loop(void **state)
{
	_cleanup_loop_ struct loop *loop = new_loop();
	struct loop_timer timer = {.data = NULL};

	assert_ok(loop_add_timer(loop, &timer, rearm_at_once));
	loop_set_timer(&timer, 0);
	assert_int_equal(loop_run_once(loop, CLOCK_NEVER), 1);
	assert_int_equal(loop_run_once(loop, CLOCK_NEVER), 1);
	assert_int_equal(calls, 2);
}

static void a_timer_that_rearms_itself_does_not_hold_the_others(void **state)
{
	_cleanup_loop_ struct loop *loop = new_loop();
	struct loop_timer busy = {.data = NULL}, other = {.data = NULL};

	assert_ok(loop_add_timer(loop, &busy, rearm_at_once));
	assert_ok(loop_add_timer(loop, &other, count_timer));
	loop_set_timer(&busy, 0);
	assert_int_equal(loop_run_once(loop, CLOCK_NEVER), 1);
	loop_set_timer(&other, clock_now_ns());
	assert_int_equal(loop_run_once(loop, CLOCK_NEVER), 2);
	assert_int_equal(calls, 3);
	assert_false(loop_timer_is_armed(&other));
}

static void note_order(struct loop_timer *timer, uint64_t now_ns)
{
	uint64_t deadline = *(uint64_t *)timer->data;

	assert_true(deadline >= last_deadline);
	assert_true(deadline <= now_ns);
	last_deadline = deadline;
	calls++;
}

/* Random arming, moving, cancelling and removing, compared with a plain array of deadlines. */
static void timers_fire_by_deadline_after_any_changes(void **state)
{
	enum { TIMERS = 100, STEPS = 5000 };
	_cleanup_loop_ struct loop *loop = new_loop();
	struct loop_timer timer[TIMERS] = {{.data = NULL}};
	uint64_t deadline[TIMERS];
	struct rand rand = rand_seeded(7);
	int step, i, due;
	size_t k;

	for (k = 0; k < TIMERS; k++) {
		timer[k].data = &deadline[k];
		deadline[k] = CLOCK_NEVER;
		assert_ok(loop_add_timer(loop, &timer[k], note_order));
	}
	for (step = 0; step < STEPS; step++) {
		k = rand_below(&rand, TIMERS);
		deadline[k] = rand_below(&rand, 4) ? rand_below(&rand, 50) + 1 : CLOCK_NEVER;
		loop_set_timer(&timer[k], deadline[k]);
		k = rand_below(&rand, TIMERS);
		loop_remove_timer(&timer[k]);
		deadline[k] = CLOCK_NEVER;
		assert_ok(loop_add_timer(loop, &timer[k], note_order));
		if (rand_below(&rand, 50))
			continue;
		for (i = due = 0; i < TIMERS; i++) {
			assert_int_equal(
				loop_timer_is_armed(&timer[i]), deadline[i] != CLOCK_NEVER);
			due += deadline[i] != CLOCK_NEVER;
		}
		last_deadline = 0;
		assert_int_equal(loop_run_once(loop, 0), due);
		assert_int_equal(loop_run_once(loop, 0), 0); /* no timer fires twice */
		for (i = 0; i < TIMERS; i++)
			deadline[i] = CLOCK_NEVER;
	}
	assert_true(calls > STEPS / 4);
}

static void equal_deadlines_keep_the_order_of_their_arming(void **state)
{
	enum { TIMERS = 17 };
	_cleanup_loop_ struct loop *loop = new_loop();
	struct loop_timer timer[TIMERS];
	uint64_t order[TIMERS];
	size_t i;

	for (i = 0; i < TIMERS; i++) {
		order[i] = i + 1;
		timer[i] = (struct loop_timer){.data = &order[i]};
		assert_ok(loop_add_timer(loop, &timer[i], note_order));
	}
	for (i = 0; i < TIMERS; i++)
		loop_set_timer(&timer[i], 5);
	assert_int_equal(loop_run_once(loop, 0), TIMERS);
	assert_int_equal(last_deadline, TIMERS);
}

static void remove_the_other(struct loop_timer *timer, uint64_t now_ns)
{
	calls++;
	loop_remove_timer(timer->data);
	loop_remove_timer(timer);
}

static void a_timer_may_remove_another_that_is_due(void **state)
{
	_cleanup_loop_ struct loop *loop = new_loop();
	struct loop_timer a = {.data = NULL}, b = {.data = NULL};

	a.data = &b;
	b.data = &a;
	assert_ok(loop_add_timer(loop, &a, remove_the_other));
	assert_ok(loop_add_timer(loop, &b, remove_the_other));
	loop_set_timer(&a, 1);
	loop_set_timer(&b, 1);
	assert_int_equal(loop_run_once(loop, 0), 1);
	assert_int_equal(loop_run_once(loop, 0), 0);
}

static void stop(struct loop_timer *timer, uint64_t now_ns)
{
	loop_stop(timer->loop, 42);
}

static void runs_until_it_is_stopped(void **state)
{
	_cleanup_loop_ struct loop *loop = new_loop();
	struct loop_timer timer = {.data = NULL};

	assert_ok(loop_add_timer(loop, &timer, stop));
	loop_set_timer(&timer, clock_now_ns() + NSEC_PER_MSEC);
	assert_int_equal(loop_run(loop), 42);
	loop_set_timer(&timer, 1);
	assert_int_equal(loop_run(loop), 42);
}

/* The loop reads the timerfd after it has fired: the next wait must really wait. */
static void does_not_spin_after_a_timer(void **state)
{
	_cleanup_loop_ struct loop *loop = new_loop();
	struct loop_timer timer = {.data = NULL};
	uint64_t end;
	int batches = 0;

	assert_ok(loop_add_timer(loop, &timer, count_timer));
	loop_set_timer(&timer, clock_now_ns() + NSEC_PER_MSEC);
	end = clock_now_ns() + 20 * NSEC_PER_MSEC;
	while (clock_now_ns() < end) {
		assert_true(loop_run_once(loop, end) >= 0);
		batches++;
	}
	assert_int_equal(calls, 1);
	assert_true(batches < 10);
}

UNIT_MAIN(UNIT(an_empty_loop_waits_until_the_deadline), UNIT(calls_a_source_as_long_as_it_is_ready),
	UNIT(refuses_the_same_descriptor_twice),
	UNIT(a_callback_may_free_every_source_of_its_batch),
	UNIT(a_timer_fires_once_and_not_before_its_time),
	UNIT(a_cancelled_or_removed_timer_stays_silent),
	UNIT(a_timer_that_rearms_itself_does_not_hold_the_loop),
	UNIT(a_timer_that_rearms_itself_does_not_hold_the_others),
	UNIT(timers_fire_by_deadline_after_any_changes),
	UNIT(equal_deadlines_keep_the_order_of_their_arming),
	UNIT(a_timer_may_remove_another_that_is_due), UNIT(runs_until_it_is_stopped),
	UNIT(does_not_spin_after_a_timer))
