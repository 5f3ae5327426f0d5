/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A workload against a cluster, in virtual time: one call, one run, on a placement engine of its
 * own. Pure; the same input gives the same result. What it shows is a simulation: a task makes
 * progress by its share of the devices, and nothing else slows it down but, where that is asked
 * for, another of its kind on one of its devices.
 *
 * REPLAY_DROP is the protocol of the OpenB benchmark (Weng et al., USENIX ATC 2023): tasks arrive
 * one by one, none leaves, one that does not fit is gone for good; curves are over the percentage
 * of the cluster that arrived tasks asked for, rounded to the nearest whole one; the last point is
 * of all that is beyond. A gang arrives at
 * once: if less of it fits than its threshold says, all of it is gone. Where the cluster has
 * networks each task gets its devices in the way that place/place-mode.h chooses, over a network
 * too, and the result says which and why.
 *
 * REPLAY_QUEUE has time: tasks arrive when they do, wait while there is no room, run and leave. On
 * each departure those that wait are tried in order, with those who come at that moment, and one
 * that does not fit does not hold up those behind it. Figures are of those that have room at some
 * time: where others never do, all is run once more to the same end, now that they are known. A
 * gang starts together or waits together; with a threshold, enough of it start
 * together, and each of the others when there is room. A device's time is divided as its
 * scheme says: requests are met, what is left over goes to whoever has least, up to the limits; or
 * without limits to all alike. A task on several devices goes at the pace of the slowest.
 *
 * With defragmentation (place/place-defrag.h), whenever a period is over and somebody waits for a
 * whole device, tasks of one device are moved together so that devices become free. A move is done
 * at once and costs the task some of its work.
 *
 * With preemption (place/place-preempt.h) tasks of lower priority are evicted and wait again. The
 * preemptor is a task that arrives, or one that waits when another task has ended.
 *
 * With queues (place/place-queue.h) a task of a queue starts as that admits it, the queue that has
 * least beyond its quota first. What others have borrowed is reclaimed from tasks, which wait
 * again and go on where they were, unless preemption says otherwise. Priorities matter within a
 * queue, and among tasks of no queue.
 *
 * With a time of grace a task that has to go runs on until that is over or it ends; who has come
 * for it has its place, which nobody else gets, and waits until all that have to go for it have
 * gone. It keeps to that place: what becomes free elsewhere meanwhile is for others.
 */
#ifndef REPLAY_REPLAY_H
#define REPLAY_REPLAY_H

#include <stdint.h>

#include "base/error.h"
#include "place/place-defrag.h"
#include "replay/cluster.h"
#include "replay/metrics.h"
#include "replay/scheme.h"
#include "replay/workload.h"

enum replay_mode { REPLAY_DROP, REPLAY_QUEUE };
enum replay_queue { REPLAY_FIFO, REPLAY_PRIORITY }; /* within a priority: as they came */

/* What becomes of a task that has to go for one of higher priority: it waits again. */
enum replay_preempt {
	REPLAY_KEEP,    /* nobody has to go */
	REPLAY_RESTART, /* it begins anew */
	REPLAY_RESUME,  /* it goes on where it was */
};

struct replay_defrag {
	uint64_t period_ns; /* 0: never */
	uint32_t n_moves;   /* each time, at most; up to PLACE_MOVES_MAX */
	uint64_t cost_ns;   /* what a task that has its limit does in that is lost by a move */
};

#define REPLAY_SLOWDOWN_MAX 9000u
#define REPLAY_GRACE_MAX_NS WORKLOAD_TIME_MAX_NS
#define REPLAY_COST_MAX_NS (WORKLOAD_TIME_MAX_NS / 64)
/* No run goes on for longer: 140 years, which what follows the last event leaves a uint64_t. */
#define REPLAY_TIME_MAX_NS (WORKLOAD_TIME_MAX_NS * 256)

int replay_defrag_check(const struct replay_defrag *defrag, struct error *err);

/* So many percent of the tasks have come and gone: called when that has grown. */
typedef void replay_progress_fn(void *arg, uint32_t percent);

/*
 * A task gets devices, has no room yet or is dropped, has been told to go for another and runs on,
 * goes for another, is moved, ends.
 */
enum replay_event {
	REPLAY_PLACED,
	REPLAY_WAITS,
	REPLAY_DROPPED,
	REPLAY_LEAVING,
	REPLAY_EVICTED,
	REPLAY_MOVED,
	REPLAY_ENDED
};

struct replay_note {
	enum replay_event event;
	uint32_t task;    /* its index */
	uint64_t at_ns;   /* virtual; REPLAY_DROP: when the task comes */
	const char *node; /* that it has come to; else NULL; borrowed, as `why` is */
	uint32_t n_devices, devices[PLACE_NODE_DEVICES_MAX]; /* of the node's, from 0 on */
	const char *why; /* why it has no place, or that one, or has to go; NULL: moved, ended */
};

/* In the order in which things happen. Costs a look at every node each time. */
typedef void replay_note_fn(void *arg, const struct replay_note *note);

struct replay_input {
	const struct cluster *cluster;
	const struct workload *workload;
	const uint32_t *ranks; /* as cluster_place() takes them */
	const uint32_t *order; /* REPLAY_DROP: tasks that arrive, each by itself; NULL: all, once */
	uint32_t n_order;
	const struct replay_scheme *scheme;
	enum replay_mode mode;
	enum replay_queue queue;
	struct replay_defrag defrag; /* these two: REPLAY_QUEUE */
	enum replay_preempt preempt;
	uint32_t slowdown_permille; /* so much longer beside one of its kind; 0: as long */
	uint64_t grace_ns;          /* so long who has to go may run on; 0: not at all */
	bool is_brief; /* of the curves nothing about free devices: it takes long on many nodes */
	replay_progress_fn *progress; /* NULL: nobody wants to know */
	void *progress_arg;
	replay_note_fn *note; /* likewise */
	void *note_arg;
};

struct replay_decision {
	enum place_outcome outcome;
	uint32_t network[2]; /* at the devices' end and at the task's, from 1 on; 0: none between */
	char why[PLACE_MODE_WHY];
};

/* Tasks of one priority; means are of those that had a place, and of those that ended. */
struct replay_priority {
	uint32_t priority, n_tasks, n_placed;
	double queued_s, completion_s;
	double busy_s; /* when 99 % of them had ended, or the last that did */
};

struct replay_result {
	struct metrics curves;
	uint32_t n_tasks, n_placed; /* the others were dropped, or never had room */
	/*
	 * REPLAY_QUEUE: in seconds of virtual time, each sorted, n_placed of them; owned. Queued:
	 * in all, also after it had to go.
	 */
	double *queued_s, *completion_s;
	uint32_t *asked_most; /* of each device at once, permille, in the engine's order; owned */
	uint32_t n_devices;
	struct replay_decision *decisions;  /* with networks: of each task; else NULL; owned */
	struct replay_priority *priorities; /* REPLAY_QUEUE: the lowest first; owned */
	uint32_t n_priorities;
	uint32_t n_evicted; /* so often a task had to go */
	uint32_t n_moves;   /* by defragmentation */
	/* Of those that have been placed, as are curves and means. */
	double arrivals_s;       /* the last arrival, since the first */
	double end_s;            /* the last departure, since the first arrival */
	double busy_s;           /* when 99 % of them had ended: curves and means are up to there */
	double throughput_per_h; /* tasks that ended by busy_s */
	double allocated, used, in_use; /* means over time, as parts of all devices */
};

/*
 * -EINVAL: no device, no time where it is needed, or networks with REPLAY_QUEUE, an order or a
 * gang; -ERANGE: it would not end within
 * REPLAY_TIME_MAX_NS; -ENOMEM. free with replay_free().
 */
int replay_run(
	const struct replay_input *input, struct replay_result **ret_result, struct error *err);
void replay_free(struct replay_result *result);

#define REPLAY_WHY (PLACE_WHY + 384)

/*
 * Tasks that would have no room even if nobody else were there: a gang as a whole, with what the
 * labels of its members say of one another, where fewer have room than have to start together.
 */
struct replay_hopeless {
	uint32_t n, first; /* first: its index */
	char why[REPLAY_WHY];
};

/* Of the input's workload on its cluster, by what its scheme counts. -EINVAL, -ENOMEM. */
int replay_find_hopeless(
	const struct replay_input *input, struct replay_hopeless *ret_hopeless, struct error *err);

#endif
