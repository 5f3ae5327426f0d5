/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Simulates a workload on a cluster in virtual time. One call is one run with its own placement
 * model. Pure: the same input gives the same result. A task progresses by its share of its devices.
 * Nothing else slows a task down, except, if requested, a task of the same kind on one of its
 * devices.
 *
 * REPLAY_DROP follows the OpenB benchmark (Weng et al., USENIX ATC 2023). Tasks arrive one by one
 * and none leaves; a task that does not fit is dropped. The x-axis of curves is the sum of arrived
 * requests as a percentage of the cluster, rounded to the nearest integer. The last point includes
 * all later arrivals. A gang arrives at once: if fewer tasks fit than its threshold requires, the
 * whole gang is dropped. In a cluster with networks, place_mode_choose() of place/place-mode.h
 * chooses each task's mode, which may be remote. The result has that choice and its reason.
 *
 * REPLAY_QUEUE has time: tasks arrive at their times, wait if they do not fit, run and leave. At
 * each departure the run tries all waiting tasks in order, together with the tasks that arrive at
 * that moment. A task that does not fit does not block the tasks behind it. The figures include
 * only tasks that get a place. If some tasks never do, a second run repeats all decisions and
 * leaves those tasks out of the figures. A gang starts or waits together. With a threshold, enough
 * of its tasks start together, and every further task starts when it fits. The scheme divides a
 * device's time. Under a scheme with limits, tasks get their requests, and the rest goes to the
 * tasks with the smallest shares, up to their limits. Under a scheme without limits, all tasks get
 * equal shares. A task on several devices runs at the pace of the slowest device.
 *
 * Defragmentation (place/place-defrag.h) takes place at the end of a period if a task waits for a
 * whole device. A plan moves all tasks away from a device, so that the device becomes free. A move
 * takes no time, but costs the task some of its work.
 *
 * Preemption (place/place-preempt.h) evicts tasks of lower priority, which wait again. The
 * preemptor is a task that arrives, or a task that waits when another task ends.
 *
 * Queues (place/place-queue.h) admit their tasks; the queue with the least use beyond its quota
 * goes first. A queue can reclaim devices that other queues borrowed. The evicted tasks wait again
 * and later resume, or start from the beginning with REPLAY_RESTART. Priorities matter only within
 * a queue, and among tasks of no queue.
 *
 * With a grace period an evicted task continues until that period or its work ends. The preemptor
 * has its place reserved and starts when all its victims have ended. The preemptor keeps this
 * place, even if capacity elsewhere becomes free earlier; other tasks can take that capacity.
 */
#ifndef REPLAY_REPLAY_H
#define REPLAY_REPLAY_H

#include <stdint.h>

#include "base/error.h"
#include "place/place-defrag.h"
#include "replay/replay-cluster.h"
#include "replay/replay-metrics.h"
#include "replay/scheme.h"
#include "replay/workload.h"

enum replay_mode { REPLAY_DROP, REPLAY_QUEUE };
/* order of waiting tasks; REPLAY_PRIORITY: tasks of equal priority in order of arrival */
enum replay_queue { REPLAY_FIFO, REPLAY_PRIORITY };

/* The fate of an evicted task, which always waits again. */
enum replay_preempt {
	REPLAY_KEEP,    /* no task is evicted */
	REPLAY_RESTART, /* the task starts from the beginning */
	REPLAY_RESUME,  /* the task continues with its remaining work */
};

struct replay_defrag {
	uint64_t period_ns; /* 0: never */
	uint32_t n_moves;   /* most moves each time; up to PLACE_MOVES_MAX */
	uint64_t cost_ns;   /* a move costs the work that the task does at its limit in this time */
};

#define REPLAY_SLOWDOWN_MAX 9000u
#define REPLAY_GRACE_MAX_NS WORKLOAD_TIME_MAX_NS
#define REPLAY_COST_MAX_NS (WORKLOAD_TIME_MAX_NS / 64)
/*
 * A run ends before this time. The limit is 140 years, so that a uint64_t still holds the times
 * after the last event.
 */
#define REPLAY_TIME_MAX_NS (WORKLOAD_TIME_MAX_NS * 256)

int replay_defrag_check(const struct replay_defrag *defrag, struct error *err);

/* Called when the percentage of task arrivals and ends has grown. */
typedef void replay_progress_fn(void *arg, uint32_t percent);

/*
 * Events of a task. REPLAY_WAITS: the task does not fit yet. REPLAY_TERMINATING: the task is
 * evicted and in its grace period. REPLAY_EVICTED: the task is evicted and stopped.
 */
enum replay_event {
	REPLAY_PLACED,
	REPLAY_WAITS,
	REPLAY_DROPPED,
	REPLAY_TERMINATING,
	REPLAY_EVICTED,
	REPLAY_MOVED,
	REPLAY_ENDED
};

struct replay_note {
	enum replay_event event;
	uint32_t task;    /* index */
	uint64_t at_ns;   /* virtual time; in the mode REPLAY_DROP the time when the task arrives */
	const char *node; /* the node of its new place, else NULL; borrowed, like `why` */
	/* indexes of the node's devices, from 0 */
	uint32_t n_devices, devices[PLACE_NODE_DEVICES_MAX];
	/* reason for the place, the refusal or the eviction; NULL: moved or ended */
	const char *why;
};

/* Called in the order of events. Each call costs a pass over all nodes. */
typedef void replay_note_fn(void *arg, const struct replay_note *note);

struct replay_input {
	const struct cluster *cluster;
	const struct workload *workload;
	const uint32_t *ranks; /* see cluster_place() */
	/* REPLAY_DROP: indexes of the tasks that arrive, each alone; NULL: all tasks once */
	const uint32_t *order;
	uint32_t n_order;
	const struct replay_scheme *scheme;
	enum replay_mode mode;
	enum replay_queue queue;
	struct replay_defrag defrag; /* defrag and preempt: only REPLAY_QUEUE */
	enum replay_preempt preempt;
	/* by how much a task takes longer beside a task of the same kind */
	uint32_t slowdown_permille;
	uint64_t grace_ns; /* grace period of evicted tasks; 0: none */
	bool is_brief; /* leaves out the curves of free devices, which take long with many nodes */
	replay_progress_fn *progress; /* may be NULL */
	void *progress_arg;
	replay_note_fn *note; /* may be NULL */
	void *note_arg;
};

struct replay_decision {
	enum place_outcome outcome;
	/*
	 * numbers of the network devices, from 1: of the device half, of the client half; 0: no
	 * network
	 */
	uint32_t network[2];
	char why[PLACE_MODE_WHY];
};

/*
 * Tasks of one priority. queued_s is the mean of the placed tasks, completion_s the mean of the
 * ended tasks.
 */
struct replay_priority {
	uint32_t priority, n_tasks, n_placed;
	double queued_s, completion_s;
	double busy_s; /* when 99 % of the placed tasks had ended, or at the last end */
};

struct replay_result {
	struct metrics curves;
	uint32_t n_tasks, n_placed; /* the other tasks were dropped or never fitted */
	/*
	 * REPLAY_QUEUE: seconds of virtual time, sorted, n_placed entries; owned. queued_s is the
	 * sum of all waits, including waits after an eviction.
	 */
	double *queued_s, *completion_s;
	/*
	 * by device number of the placement model: largest sum of requests at one time, permille;
	 * owned
	 */
	uint32_t *requested_most;
	uint32_t n_devices;
	/* decision about each task, in a cluster with networks; else NULL; owned */
	struct replay_decision *decisions;
	struct replay_priority *priorities; /* REPLAY_QUEUE: in ascending order; owned */
	uint32_t n_priorities;
	uint32_t n_evicted; /* number of evictions */
	uint32_t n_moves;   /* number of moves by defragmentation */
	/* Figures of the placed tasks, like the curves and means. */
	double arrivals_s; /* time from the first arrival to the last */
	double end_s;      /* time from the first arrival to the last departure */
	double busy_s;     /* time until 99 % of the tasks had ended; curves and means end here */
	double throughput_per_h;        /* tasks that ended by busy_s, per hour of busy_s */
	double allocated, used, in_use; /* means over time, as fractions of all devices */
};

/*
 * The caller frees *ret_result with replay_free(). Errors: -EINVAL for a cluster without devices,
 * tasks without times in REPLAY_QUEUE, or a value out of range. -EINVAL also for networks together
 * with REPLAY_QUEUE, an order or a gang. -ERANGE if the run would not end within
 * REPLAY_TIME_MAX_NS. -ENOMEM.
 */
int replay_run(
	const struct replay_input *input, struct replay_result **ret_result, struct error *err);
void replay_free(struct replay_result *result);

#define REPLAY_WHY (PLACE_WHY + 384)

/*
 * The tasks that do not fit even on an empty cluster: their number, the first task, and why it does
 * not fit. If too few tasks of a gang fit, all its tasks count, and the reason takes the members'
 * labels into account.
 */
struct replay_hopeless {
	uint32_t n, first; /* first: index of the first of these tasks */
	char why[REPLAY_WHY];
};

/*
 * Searches the input's workload for tasks that do not fit even on an empty cluster. Requests count
 * as adapted by the scheme. Errors: -EINVAL, -ENOMEM.
 */
int replay_find_hopeless(
	const struct replay_input *input, struct replay_hopeless *ret_hopeless, struct error *err);

#endif
