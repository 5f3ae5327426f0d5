/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine's threads (engine-pool.h), with this test in the place of the loop. A thread that
 * comes back from outside never goes on with a task that the loop has abandoned meanwhile. At the
 * end, no thread waits for a turn that an ended thread got.
 */
#include "simgpu/engine-pool.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "simgpu/engine.h"
#include "unit.h"

struct round {
	struct pool_task task;       /* of a tenant whose memory does not answer */
	struct pool_task other;      /* of another tenant */
	sem_t is_answered, has_left; /* its memory; its thread inside */
	_Atomic uint32_t begun, coming;
	_Atomic bool is_canceled, is_other_held, is_freed;
	_Atomic int came_back; /* what pool_come_back() returned; -1: not yet */
	uint64_t delay_ns;
};

static struct round *round_of(struct pool_task *task)
{
	return CONTAINER_OF(task, struct round, task);
}

static void nap(uint64_t ns)
{
	clock_sleep_until_ns(clock_now_ns() + ns);
}

/* One thread goes outside, and one stays inside until its task is canceled. */
static void silent_run(struct pool_task *task)
{
	struct round *r = round_of(task);
	bool is_first = atomic_fetch_add(&r->begun, 1) == 0;

	pool_enter();
	if (is_first) {
		pool_go_outside();
		sem_wait(&r->is_answered);
		r->coming = 1;
		r->came_back = pool_come_back();
	} else {
		while (!r->is_canceled)
			pool_pause();
		sem_post(&r->has_left);
	}
	pool_leave();
}

/*
 * Is inside while the loop takes the other task, and lets the memory answer before it allows the
 * loop to go on.
 */
static void other_run(struct pool_task *task)
{
	struct round *r = CONTAINER_OF(task, struct round, other);

	pool_enter();
	r->is_other_held = true;
	while (!r->is_canceled)
		pool_pause();
	sem_wait(&r->has_left);
	nap(r->delay_ns);
	sem_post(&r->is_answered);
	while (!r->coming)
		nap(NSEC_PER_MSEC / 10);
	nap(r->delay_ns);
	pool_leave();
}

static void silent_free(struct pool_task *task)
{
	round_of(task)->is_freed = true;
}

/* Returns whether the loop has abandoned the task. */
static bool play(uint64_t delay_ns)
{
	struct tenant silent = {.refs = 1}, good = {.refs = 1};
	struct round r = {.came_back = -1, .delay_ns = delay_ns};
	bool has_ended;

	sem_init(&r.is_answered, 0, 0);
	sem_init(&r.has_left, 0, 0);
	r.task = (struct pool_task){
		.run = silent_run, .free = silent_free, .tenant = &silent, .most = 2};
	r.other = (struct pool_task){.run = other_run, .tenant = &good, .most = 1};
	pool_start(&r.task);
	while (r.begun < 2)
		nap(NSEC_PER_MSEC);
	pool_start(&r.other);
	while (!r.is_other_held)
		nap(NSEC_PER_MSEC);
	compute_stop();
	r.is_canceled = true;
	has_ended = pool_take(&r.task);
	/* Here the loop frees what the kernel worked on. */
	compute_resume();
	while (r.came_back < 0)
		nap(NSEC_PER_MSEC);
	assert_int_equal(r.came_back, has_ended);
	while (!pool_has_ended(&r.other) || !pool_has_ended(&r.task))
		nap(NSEC_PER_MSEC);
	pool_reap();
	assert_int_equal(r.is_freed, !has_ended);
	assert_true(pool_take(&r.other));
	sem_destroy(&r.is_answered);
	sem_destroy(&r.has_left);
	return !has_ended;
}

/* On a busy machine the memory may answer too early; then the round is played more slowly. */
static void test_a_thread_learns_that_its_task_is_abandoned(void **state)
{
	uint64_t delay_ns = NSEC_PER_MSEC;

	assert_true(pool_wake_fd() >= 0);
	while (!play(delay_ns))
		delay_ns *= 2;
}

/* ---- the end ---- */

enum { TASKS = 32 };

struct busy_task {
	struct pool_task task;
	_Atomic bool *is_over;
};

static void busy_run(struct pool_task *task)
{
	const struct busy_task *b = (struct busy_task *)task;

	while (!*b->is_over)
		pool_pause();
}

static void start_all(struct busy_task *tasks, struct tenant *tenant, _Atomic bool *is_over)
{
	for (int i = 0; i < TASKS; i++) {
		tasks[i] = (struct busy_task){
			.task = {.run = busy_run, .tenant = tenant, .most = 1}, .is_over = is_over};
		pool_start(&tasks[i].task);
	}
}

static void *set_later(void *arg)
{
	nap(200 * NSEC_PER_MSEC);
	*(_Atomic bool *)arg = true;
	return NULL;
}

static void test_the_end_gives_no_turn_to_an_ended_thread(void **state)
{
	static struct busy_task first[TASKS], second[TASKS];
	static struct tenant tenant = {.refs = 1};
	static _Atomic bool is_first_over, is_second_over;
	pthread_t setter;

	/* Tasks that share the processors have a thread each, which is idle afterwards. */
	start_all(first, &tenant, &is_first_over);
	nap(200 * NSEC_PER_MSEC);
	is_first_over = true;
	for (int i = 0; i < TASKS; i++)
		while (!pool_has_ended(&first[i].task))
			nap(NSEC_PER_MSEC);
	/* Some of these have not begun when the idle threads end. */
	start_all(second, &tenant, &is_second_over);
	assert_int_equal(pthread_create(&setter, NULL, set_later, (void *)&is_second_over), 0);
	pool_end();
	pthread_join(setter, NULL);
}

UNIT_MAIN(UNIT(test_a_thread_learns_that_its_task_is_abandoned),
	UNIT(test_the_end_gives_no_turn_to_an_ended_thread))
