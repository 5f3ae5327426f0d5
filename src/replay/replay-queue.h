/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulation with time, in four parts. replay-queue.c orders the events. replay-wait.c keeps
 * waiting items and the record of freed nodes. replay-gather.c finds places for tasks that start
 * together. replay-terminate.c keeps terminating tasks and reserved places.
 */
#ifndef REPLAY_REPLAY_QUEUE_H
#define REPLAY_REPLAY_QUEUE_H

#include "place/place-gang.h"
#include "replay/replay-tasks.h"

#define FREED_MAX 64u

/* A queue item: tasks that start together. The tasks are neighbours in `arrivals`. */
struct queue_item {
	uint32_t first, n;
	uint32_t share;     /* smallest request of its tasks for one device */
	uint32_t threshold; /* permille of its tasks that have to start */
	uint32_t queue;     /* queue number of place-queue.h */
	/* a task has an affinity label, so a task that starts elsewhere can make a place usable */
	bool has_locality;
	bool is_new; /* not yet tried since it began to wait */
};

/*
 * Waiting items in the order in which they are tried. wait_queues[0] has the tasks without a queue,
 * and wait_queues[i] those of queue i (place-queue.h).
 */
struct wait_queue {
	struct queue_item *items;
	uint32_t n, room;
	/* during try_all(): the next item, and the number of items that continue to wait */
	uint32_t at, kept;
};

/* State of one task; there is one entry for each task. */
struct progress {
	uint64_t left;     /* remaining work, permille x ns */
	uint64_t since_ns; /* start of the current wait */
	uint64_t ended_ns; /* CLOCK_NEVER: the task has not ended */
	uint32_t at;       /* index in `arrivals` */
	uint32_t queued; /* index of the task in the result's queued_s; PLACE_NONE: never placed */
};

/*
 * A terminating task, which runs until at_ns. `round` numbers the item whose start evicts the
 * task.
 */
struct notice {
	uint64_t at_ns;
	uint32_t tenant, round;
	uint32_t comer; /* the preemptor: a task, or the first task of a gang */
};

/*
 * A task with a reserved place, which starts when all terminating tasks with the same `round`
 * (struct notice) have ended. If tenant is PLACE_NONE, the task has no place: other tasks of its
 * gang have places, and when they start this task waits again.
 */
struct claim {
	uint32_t at; /* index in `arrivals` */
	uint32_t tenant, round;
	struct place_choice choice;
};

struct queue {
	struct run *run;
	struct tasks tasks;
	uint32_t *arrivals; /* tasks in order of arrival */
	struct progress *progress;
	uint32_t next;            /* next index in `arrivals` */
	uint32_t n_counted;       /* tasks that the figures include */
	uint32_t n_ended, n_busy; /* n_busy: tasks ended by busy_ns */
	struct wait_queue *wait_queues;
	uint32_t n_wait_queues;
	/* tasks that return to their wait_queues before the next try_all() */
	struct queue_item *back;
	uint32_t n_back, back_room;
	/*
	 * Arrivals of the tasks that the figures include: the first, where the curves begin, and
	 * the last.
	 */
	uint64_t first_ns, last_ns;
	uint64_t ended_ns; /* end of the last task */
	uint64_t busy_ns;  /* when BUSY_PERCENT of the tasks had ended */
	uint64_t step_ns;
	/*
	 * Nodes where capacity became free since the last complete try_all(). A waiting task did
	 * not fit before, even with preemption, so it can fit now only on these nodes. Above
	 * FREED_MAX every node counts as freed.
	 */
	uint32_t freed[FREED_MAX];
	uint32_t n_freed;
	/*
	 * A started task can help waiting tasks: their affinity labels permit a place beside it, or
	 * they can reclaim devices that it borrowed. `helps`: such a task has started since the
	 * last try_all() began. is_helped is the copy of `helps` for the current try_all().
	 */
	bool helps, is_helped;
	/* by priority: the maximum of place_preempt_free() over the nodes in `freed` */
	uint32_t room[SPEC_PRIORITY_MAX + 1];
	uint64_t defrag_ns; /* time of the next defragmentation */
	/* a task has started, ended or been evicted since the last defragmentation */
	bool may_defrag;
	struct notice *notices; /* in order of time */
	uint32_t n_notices, notices_room;
	struct claim *claims;
	uint32_t n_claims, claims_room;
	/* number of the item that was placed last; its notices and claims have this number */
	uint32_t round;
};

static inline const struct task *task_at(const struct queue *q, uint32_t at)
{
	return &q->run->in->workload->tasks[q->arrivals[at]];
}

static inline const struct place_spec *spec_at(const struct queue *q, uint32_t at)
{
	return &q->run->specs[q->arrivals[at]];
}

/* ---- replay-wait.c; functions return -ENOMEM, else 0 ---- */

struct queue_item queue_item_of(const struct queue *q, uint32_t first, uint32_t n);
int wait_in_queue(struct queue *q, struct queue_item item);
/* Returns how many of the n arrivals from `first` the figures include. */
uint32_t n_counted_of(const struct queue *q, uint32_t first, uint32_t n);
/* Reports for each task of the item that it has no place, with the reason. */
void note_waits(const struct queue *q, const struct queue_item *item);
/* Returns the task to its wait_queue when the current try_all() ends. */
int wait_again(struct queue *q, uint32_t at);
void note_freed(struct queue *q, uint32_t node);
/* Tries all waiting items that may fit now, and repeats until nothing changes. */
int retry(struct queue *q, struct error *err);
bool waits_for_whole(const struct queue *q);

/* ---- replay-gather.c ---- */

/*
 * Finds places for as many tasks of the item as have to start, and for its other tasks where they
 * fit. Adds these tasks to the placement model. Returns -ENOSPC, without changes, if too few fit.
 * Victims are removed from the placement model, or marked as terminating if there is a grace
 * period. Victims stay in q->tasks.
 */
int gather(
	struct queue *q, const struct queue_item *item, struct place_group *ret, struct error *err);

/* ---- replay-terminate.c; functions return -ENOMEM, else 0 ---- */

/* Returns when the next terminating task ends, or CLOCK_NEVER. */
uint64_t terminate_next_ns(const struct queue *q);
/*
 * Evicts a tenant that the placement model has marked as terminating. A running task gets its grace
 * period; a task that has not started loses its reserved place.
 */
int terminate_begin(struct queue *q, uint32_t tenant, uint32_t comer);
/* Returns how many terminating tasks whose notice has that `round` still run. */
uint32_t terminate_awaited(const struct queue *q, uint32_t round);
/*
 * Reserves the member's place until all terminating tasks whose notice has the number q->round have
 * ended. Until then the task counts as waiting.
 */
int terminate_claim(struct queue *q, uint32_t at, const struct place_member *member);
/* Returns the tenant's claim, or NULL. */
struct claim *claim_of(struct queue *q, uint32_t tenant);
/* Removes the notice of a tenant that ended by itself, if it has one. */
int terminate_ended(struct queue *q, uint32_t tenant);
/* Ends the terminating tasks whose grace period is over. */
int terminate_due(struct queue *q);
void terminate_done(struct queue *q);

/* ---- replay-defrag.c ---- */

/*
 * Finds a defragmentation plan with the input's limits and moves all its tasks. The caller frees
 * *ret_done with place_defrag_done() and reports the freed nodes.
 */
int run_defrag(struct queue *q, struct place_defrag *ret_done, struct error *err);

/* ---- replay-queue.c ---- */

/* Starts the task on the devices that the placement model gave it. Returns -ENOMEM, else 0. */
int start_task(struct queue *q, uint32_t task, const struct place_choice *choice, uint32_t tenant);
/*
 * Stops the task and makes it wait again. The placement model has already removed its tenant.
 * Returns -ENOMEM, else 0.
 */
int evict(struct queue *q, uint32_t tenant, uint32_t comer);
/* Reports an event of a victim, with its preemptor `comer`. */
void note_for(const struct queue *q, enum replay_event event, uint32_t task, uint32_t comer);

/* Returns 1 if the item starts now or when its victims have ended; 0 if it does not fit. */
int try_queue_item(struct queue *q, struct queue_item item, struct error *err);

#endif
