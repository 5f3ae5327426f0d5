/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads beside the engine's loop. A task is work of a tenant: the computing of a kernel, or the
 * translation of a module. As many threads run at once as the machine has processors; the others
 * wait for their turn. The tenant that has used the least processor time is next.
 *
 * Threads that are "inside" may read the tables of memory. Before the loop changes these tables, it
 * stops them (compute_stop()), which they allow every few milliseconds. A thread goes "outside"
 * before it reads the memory of a program, since such a read may never end: neither the loop nor
 * other tenants wait for a thread that is outside.
 */
#ifndef SIMGPU_ENGINE_POOL_H
#define SIMGPU_ENGINE_POOL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "simgpu/engine-tenant.h"

struct pool_thread;
struct pool_task;

/* A task or a thread that waits for a processor. */
struct pool_waiter {
	struct tenant *tenant;
	struct pool_task *task;     /* that no thread has begun; or NULL */
	struct pool_thread *thread; /* or NULL */
	TAILQ_ENTRY(pool_waiter) link;
};

/* The owner embeds the struct, and sets the first members. */
struct pool_task {
	void (*run)(struct pool_task *task);  /* any number of threads up to `most` */
	void (*free)(struct pool_task *task); /* called by pool_reap() after an abandonment */
	struct tenant *tenant;                /* with a reference for the task */
	uint32_t most;
	/* the pool's */
	uint32_t workers, outside; /* threads with the task, and those of them that are outside */
	bool is_queued;            /* further threads may join */
	bool is_waiting, has_ended, is_abandoned;
	struct pool_waiter waiter;
	TAILQ_ENTRY(pool_task) link;
};

/* ---- the loop's thread ---- */

/* Readable when a task has ended. -1: no descriptors are left. */
int pool_wake_fd(void);
/* Starts a task. */
void pool_start(struct pool_task *task);
/* Whether the last thread has left the task. */
bool pool_has_ended(struct pool_task *task);
/*
 * Takes a task from its threads, which must leave soon. Returns false if a thread is outside: the
 * task is then abandoned, and belongs to the pool.
 */
bool pool_take(struct pool_task *task);
/* Frees abandoned tasks that have ended. */
void pool_reap(void);
/* Ends all threads, except those that are outside. */
void pool_end(void);

/* ---- threads of the pool, in `run` ---- */

/* Enters and leaves the part of the work that may read the tables of memory. */
void pool_enter(void);
void pool_leave(void);
/* Lets the loop and other tenants go on. Inside and elsewhere, but not outside. */
void pool_pause(void);
/* From inside. pool_come_back() returns false if the task was abandoned meanwhile. */
void pool_go_outside(void);
bool pool_come_back(void);

#endif
