/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread for what may take long (asking the device driver, writing to a disk), so that the loop
 * never waits. Jobs run one at a time, in order; `done` is called in the loop's thread.
 */
#ifndef THREADS_WORKER_H
#define THREADS_WORKER_H

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
/* The job stays the caller's and must live until done. */
void worker_submit(struct worker *worker, struct worker_job *job);
/* Finishes what was submitted, calls their done, ends the thread. NULL is fine. */
void worker_free(struct worker *worker);
/* The same, but what is not done by then is left behind, with its thread and memory. */
#define WORKER_LEAVE_S 1u      /* for a job that is merely long */
#define WORKER_LEAVE_DISK_S 5u /* for one that is worth waiting for */
void worker_leave(struct worker *worker, unsigned int seconds);

#endif
