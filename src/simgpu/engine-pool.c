/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread stays with its task until the task has no more work, so a task whose kernel waits for
 * another kernel needs a thread of its own. Threads are therefore more than processors, and a
 * "turn" is the right to run. Turns go to the tenant with the least used time, and inside a tenant
 * to the thread that has waited longest. A thread gives its turn back at a pause, if it has run
 * for a slice and a tenant with less time waits. A thread that comes back from outside runs at
 * once, and the next thread that pauses gives way.
 *
 * Time counts only while others wait, so a tenant that had the machine alone owes nothing. A tenant
 * may have as many threads as are left after its own, so the next tenants find fewer threads.
 */
#include "simgpu/engine-pool.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "simgpu/engine.h"

enum { TURNS_MAX = 64, THREADS_MAX = 192 };

#define SLICE_NS (4 * NSEC_PER_MSEC)
/* Most time that counts at once: what was before the others came is forgotten. */
#define CHARGE_MAX_NS (2 * SLICE_NS)

struct pool_thread {
	pthread_t id;
	pthread_cond_t wake;
	struct pool_task *task; /* NULL: idle */
	bool has_turn, is_inside, is_outside, has_ended;
	uint64_t since_ns, slice_ns; /* processor time: when it was last counted; of this turn */
	struct pool_waiter waiter;
	TAILQ_ENTRY(pool_thread) link; /* idle threads */
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t go, quiet; /* go: the loop has resumed; quiet: a thread is elsewhere now */
	TAILQ_HEAD(, pool_waiter) waiters;
	TAILQ_HEAD(, pool_task) queue, dead;
	TAILQ_HEAD(, pool_thread) idle;
	uint32_t turns, turns_max; /* threads that run; 0: the pool has not begun */
	uint32_t busy;             /* threads that have a task */
	uint32_t inside;
	uint64_t least_ns; /* used time of the tenant that got the last turn */
	_Atomic bool stop, is_contended;
	bool is_ending;
	int wake; /* eventfd for the loop */
	_Atomic uint32_t n_threads;
	struct pool_thread threads[THREADS_MAX];
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER,
	.go = PTHREAD_COND_INITIALIZER,
	.quiet = PTHREAD_COND_INITIALIZER,
	.wake = -1};

static _Thread_local struct pool_thread *self;

static uint64_t thread_time_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * NSEC_PER_SEC + (uint64_t)t.tv_nsec;
}

/* ---- turns; under the lock ---- */

static bool has_thread_for(const struct tenant *t)
{
	return t->threads < THREADS_MAX - pool.busy;
}

static void *thread_main(void *arg);

/* An idle thread, or a new one. NULL: there is none. */
static struct pool_thread *thread_find(void)
{
	struct pool_thread *th = TAILQ_FIRST(&pool.idle);

	/* The idle threads end, or have ended. */
	if (pool.is_ending)
		return NULL;
	if (th) {
		TAILQ_REMOVE(&pool.idle, th, link);
		return th;
	}
	if (pool.n_threads == THREADS_MAX)
		return NULL;
	th = &pool.threads[pool.n_threads];
	*th = (struct pool_thread){.wake = PTHREAD_COND_INITIALIZER};
	if (pthread_create(&th->id, NULL, thread_main, th) != 0)
		return NULL;
	pool.n_threads++;
	return th;
}

static void turn_begin(struct pool_thread *th)
{
	th->has_turn = true;
	pool.turns++;
	pool.least_ns = MAX(pool.least_ns, th->task->tenant->used_ns);
	pthread_cond_signal(&th->wake);
}

static void turn_end(void)
{
	pool.turns--;
}

/* Gives a thread to a task, and a turn to the thread. */
static bool task_begin(struct pool_task *task)
{
	struct pool_thread *th = has_thread_for(task->tenant) ? thread_find() : NULL;

	if (!th)
		return false;
	th->task = task;
	task->workers++;
	task->tenant->threads++;
	pool.busy++;
	turn_begin(th);
	return true;
}

static void waiter_add(struct pool_waiter *w, struct tenant *tenant)
{
	/* A tenant that wanted nothing for a while does not get all of the next time. */
	if (tenant->wanting++ == 0 && tenant->threads == 0)
		tenant->used_ns = MAX(tenant->used_ns, pool.least_ns);
	w->tenant = tenant;
	TAILQ_INSERT_TAIL(&pool.waiters, w, link);
}

static void waiter_remove(struct pool_waiter *w)
{
	w->tenant->wanting--;
	TAILQ_REMOVE(&pool.waiters, w, link);
}

/* The waiter whose tenant has used the least time. */
static struct pool_waiter *waiter_choose(bool is_thread)
{
	struct pool_waiter *w, *best = NULL;

	TAILQ_FOREACH(w, &pool.waiters, link)
		if ((w->thread || (!is_thread && has_thread_for(w->tenant))) &&
			(!best || w->tenant->used_ns < best->tenant->used_ns))
			best = w;
	return best;
}

/* A task for which one more thread would be of use. */
static struct pool_task *task_choose(void)
{
	struct pool_task *task, *best = NULL;

	TAILQ_FOREACH(task, &pool.queue, link) {
		if (task->workers == 0 || task->workers >= task->most ||
			!has_thread_for(task->tenant))
			continue;
		if (!best || task->tenant->threads < best->tenant->threads ||
			(task->tenant == best->tenant && task->workers < best->workers))
			best = task;
	}
	return best;
}

/* Gives the turns that are free to those who wait. */
static void turns_give(void)
{
	bool is_short = false; /* the machine starts no more threads */

	while (pool.turns < pool.turns_max) {
		struct pool_waiter *w = waiter_choose(is_short);
		struct pool_task *task = w ? w->task : task_choose();

		if (w && w->thread) {
			waiter_remove(w);
			turn_begin(w->thread);
			continue;
		}
		if (!task)
			break;
		if (!task_begin(task)) {
			if (is_short)
				break;
			is_short = true;
			continue;
		}
		if (w) {
			waiter_remove(w);
			task->is_waiting = false;
		}
	}
	pool.is_contended = !TAILQ_EMPTY(&pool.waiters) || pool.turns > pool.turns_max;
}

static void turn_await(struct pool_thread *th)
{
	while (!th->has_turn)
		pthread_cond_wait(&th->wake, &pool.lock);
	th->has_turn = false;
	th->since_ns = th->slice_ns = thread_time_ns();
}

static void turn_charge(struct pool_thread *th)
{
	uint64_t now = thread_time_ns();

	th->task->tenant->used_ns += MIN(now - th->since_ns, CHARGE_MAX_NS);
	th->since_ns = now;
}

/* ---- inside and outside; under the lock ---- */

static void inside_enter(struct pool_thread *th)
{
	while (pool.stop)
		pthread_cond_wait(&pool.go, &pool.lock);
	pool.inside++;
	th->is_inside = true;
}

static void inside_leave(struct pool_thread *th)
{
	if (!th->is_inside)
		return;
	pool.inside--;
	th->is_inside = false;
	pthread_cond_broadcast(&pool.quiet);
}

/* Whether a thread whose slice is over has to give way. */
static bool must_give_way(const struct pool_thread *th)
{
	const struct pool_waiter *w = waiter_choose(false);

	return pool.turns > pool.turns_max ||
		(w && w->tenant->used_ns <= th->task->tenant->used_ns);
}

static void give_way(struct pool_thread *th)
{
	turn_charge(th);
	if (th->since_ns - th->slice_ns < SLICE_NS || th->task->is_abandoned)
		return;
	if (!must_give_way(th)) {
		th->slice_ns = th->since_ns;
		return;
	}
	inside_leave(th);
	th->waiter = (struct pool_waiter){.thread = th};
	waiter_add(&th->waiter, th->task->tenant);
	pthread_cond_broadcast(&pool.quiet);
	turn_end();
	turns_give();
	turn_await(th);
}

void pool_pause(void)
{
	struct pool_thread *th = self;
	bool was_inside = th->is_inside;

	if (!pool.stop && !pool.is_contended)
		return;
	pthread_mutex_lock(&pool.lock);
	if (pool.stop)
		inside_leave(th);
	if (pool.is_contended)
		give_way(th);
	if (was_inside && !th->is_inside)
		inside_enter(th);
	pthread_mutex_unlock(&pool.lock);
}

void pool_enter(void)
{
	pthread_mutex_lock(&pool.lock);
	inside_enter(self);
	pthread_mutex_unlock(&pool.lock);
}

void pool_leave(void)
{
	pthread_mutex_lock(&pool.lock);
	inside_leave(self);
	pthread_mutex_unlock(&pool.lock);
}

void pool_go_outside(void)
{
	pthread_mutex_lock(&pool.lock);
	inside_leave(self);
	self->is_outside = true;
	self->task->outside++;
	turn_end();
	turns_give();
	pthread_cond_broadcast(&pool.quiet);
	pthread_mutex_unlock(&pool.lock);
}

bool pool_come_back(void)
{
	bool is_abandoned;

	pthread_mutex_lock(&pool.lock);
	self->is_outside = false;
	self->task->outside--;
	pool.turns++;
	pool.is_contended |= pool.turns > pool.turns_max;
	if (!self->task->is_abandoned)
		inside_enter(self);
	/* The loop may have abandoned the task while the thread waited to enter. */
	is_abandoned = self->task->is_abandoned;
	if (is_abandoned)
		inside_leave(self);
	pthread_mutex_unlock(&pool.lock);
	return !is_abandoned;
}

/* ---- threads ---- */

static void pool_wake(void)
{
	uint64_t one = 1;

	if (write(pool.wake, &one, sizeof(one)) < 0)
		log_debug("wake the loop: %m");
}

static void task_dequeue(struct pool_task *task)
{
	if (task->is_waiting)
		waiter_remove(&task->waiter);
	if (task->is_queued)
		TAILQ_REMOVE(&pool.queue, task, link);
	task->is_queued = task->is_waiting = false;
}

/* The thread has found no more work. */
static void task_left(struct pool_thread *th)
{
	struct pool_task *task = th->task;

	turn_charge(th);
	turn_end();
	th->task = NULL;
	task->tenant->threads--;
	pool.busy--;
	task_dequeue(task);
	if (--task->workers == 0) {
		task->has_ended = true;
		if (task->is_abandoned)
			TAILQ_INSERT_TAIL(&pool.dead, task, link);
		pool_wake();
	}
	pthread_cond_broadcast(&pool.quiet);
	turns_give();
}

static void *thread_main(void *arg)
{
	struct pool_thread *th = arg;

	self = th;
	pthread_mutex_lock(&pool.lock);
	for (;;) {
		while (!th->task && !pool.is_ending)
			pthread_cond_wait(&th->wake, &pool.lock);
		if (!th->task)
			break;
		turn_await(th);
		pthread_mutex_unlock(&pool.lock);
		th->task->run(th->task);
		pthread_mutex_lock(&pool.lock);
		task_left(th);
		TAILQ_INSERT_HEAD(&pool.idle, th, link);
		/* turns_give() may have found no thread */
		turns_give();
	}
	th->has_ended = true;
	pthread_cond_broadcast(&pool.quiet);
	pthread_mutex_unlock(&pool.lock);
	return NULL;
}

/* ---- the loop's thread ---- */

int pool_wake_fd(void)
{
	if (pool.wake < 0)
		pool.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return pool.wake;
}

static uint32_t processors(void)
{
	cpu_set_t cpus;

	if (sched_getaffinity(0, sizeof(cpus), &cpus) < 0)
		return 1;
	return MIN((uint32_t)CPU_COUNT(&cpus), (uint32_t)TURNS_MAX);
}

void pool_start(struct pool_task *task)
{
	pthread_mutex_lock(&pool.lock);
	if (pool.turns_max == 0) {
		TAILQ_INIT(&pool.waiters);
		TAILQ_INIT(&pool.queue);
		TAILQ_INIT(&pool.dead);
		TAILQ_INIT(&pool.idle);
		pool.turns_max = processors();
	}
	task->is_queued = task->is_waiting = true;
	task->waiter = (struct pool_waiter){.task = task};
	waiter_add(&task->waiter, task->tenant);
	TAILQ_INSERT_TAIL(&pool.queue, task, link);
	turns_give();
	pthread_mutex_unlock(&pool.lock);
}

bool pool_has_ended(struct pool_task *task)
{
	bool has_ended;

	pthread_mutex_lock(&pool.lock);
	has_ended = task->has_ended;
	pthread_mutex_unlock(&pool.lock);
	return has_ended;
}

/* Threads of the task that wait for a turn get one, so that they leave. */
static void task_hurry(struct pool_task *task)
{
	struct pool_waiter *w, *next;

	for (w = TAILQ_FIRST(&pool.waiters); w; w = next) {
		next = TAILQ_NEXT(w, link);
		if (w->thread && w->thread->task == task) {
			waiter_remove(w);
			turn_begin(w->thread);
		}
	}
}

bool pool_take(struct pool_task *task)
{
	bool was_stopped = pool.stop, has_ended;

	pthread_mutex_lock(&pool.lock);
	task_dequeue(task);
	if (task->workers) {
		pool.stop = false;
		pthread_cond_broadcast(&pool.go);
		while (task->workers > task->outside) {
			task_hurry(task);
			pthread_cond_wait(&pool.quiet, &pool.lock);
		}
		pool.stop = was_stopped;
		while (was_stopped && pool.inside)
			pthread_cond_wait(&pool.quiet, &pool.lock);
	}
	has_ended = task->workers == 0;
	task->is_abandoned = !has_ended;
	pthread_mutex_unlock(&pool.lock);
	return has_ended;
}

void pool_reap(void)
{
	struct pool_task *task;

	if (pool.turns_max == 0)
		return;
	for (;;) {
		pthread_mutex_lock(&pool.lock);
		task = TAILQ_FIRST(&pool.dead);
		if (task)
			TAILQ_REMOVE(&pool.dead, task, link);
		pthread_mutex_unlock(&pool.lock);
		if (!task)
			return;
		task->free(task);
	}
}

/* Threads that are outside may never come back. The end of the process ends them. */
void pool_end(void)
{
	uint32_t left;

	pthread_mutex_lock(&pool.lock);
	pool.is_ending = true;
	do {
		left = 0;
		for (uint32_t i = 0; i < pool.n_threads; i++) {
			struct pool_thread *th = &pool.threads[i];

			pthread_cond_signal(&th->wake);
			left += !th->has_ended && !th->is_outside;
		}
		if (left)
			pthread_cond_wait(&pool.quiet, &pool.lock);
	} while (left);
	pthread_mutex_unlock(&pool.lock);
	for (uint32_t i = 0; i < pool.n_threads; i++)
		if (pool.threads[i].has_ended)
			pthread_join(pool.threads[i].id, NULL);
	pool.wake = fd_close(pool.wake);
}

/* Nests: only the outermost call stops and resumes. */
static uint32_t n_stops;

void compute_stop(void)
{
	if (n_stops++)
		return;
	pool.stop = true;
	if (pool.n_threads == 0)
		return;
	pthread_mutex_lock(&pool.lock);
	while (pool.inside)
		pthread_cond_wait(&pool.quiet, &pool.lock);
	pthread_mutex_unlock(&pool.lock);
}

void compute_resume(void)
{
	if (--n_stops)
		return;
	pool.stop = false;
	if (pool.n_threads == 0)
		return;
	pthread_mutex_lock(&pool.lock);
	pthread_cond_broadcast(&pool.go);
	pthread_mutex_unlock(&pool.lock);
}
