/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread for slow work, such as calls of the device driver or disk writes, so that the loop never
 * waits. Jobs run one at a time, in order; the loop's thread calls `done`.
 */
#ifndef THREADS_THREAD_WORKER_H
#define THREADS_THREAD_WORKER_H

#include <sys/queue.h>

#include "base/loop.h"

struct worker;

struct worker_job {
	void (*run)(
		struct worker_job *job); /* worker's thread; touches only the job's own memory */
	void (*done)(struct worker_job *job); /* loop's thread; may free the job */
	STAILQ_ENTRY(worker_job) link;
};

int worker_new(struct loop *loop, struct worker **ret_worker);
/* The job stays the caller's and must live until `done`. */
void worker_submit(struct worker *worker, struct worker_job *job);
/* Finishes all submitted jobs, calls their `done` and ends the thread. Accepts NULL. */
void worker_free(struct worker *worker);
/*
 * As worker_free(), but waits at most `seconds`, then abandons the thread with its jobs and memory.
 */
#define WORKER_LEAVE_S 1u      /* for jobs that are merely slow */
#define WORKER_LEAVE_DISK_S 5u /* for the disk worker, whose writes should complete */
void worker_leave(struct worker *worker, unsigned int seconds);

#endif
