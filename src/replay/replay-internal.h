/* SPDX-License-Identifier: Apache-2.0 */
/* State and functions for both modes of a run, with and without time. See replay.h. */
#ifndef REPLAY_REPLAY_INTERNAL_H
#define REPLAY_REPLAY_INTERNAL_H

#include "replay/replay.h"

struct run_device {
	uint32_t load; /* permille in use; above 1000 if the scheme overcommits the device */
	uint32_t n_tasks;
	uint32_t requested; /* permille, sum of the original requests */
	/*
	 * permille, sum of the requests as the scheme counts them; for a scheme without limits, sum
	 * of the original requests
	 */
	uint32_t given;
	uint32_t node, row;
};

struct idle;

struct run {
	const struct replay_input *in;
	/*
	 * By task: the task has had a place; REPLAY_QUEUE only. A second run gets the first run's
	 * array as `counts`, which selects the tasks that its figures include.
	 */
	bool *has_place;
	const bool *counts; /* NULL: the figures include all tasks */
	struct replay_result *result;
	struct place *place;
	struct place_spec *specs; /* specs[task]: the task's request as adapted by the scheme */
	/* mix of the original requests; for every scheme, fragmentation is measured by this mix */
	struct workload_mix *mix;
	struct run_device *devices;
	double all; /* capacity of all devices together: 1000 for each device */
	struct metrics_now now;
	/* Sums for the curves, updated at each change; permille. */
	uint64_t allocated, used;
	uint32_t in_use, waiting;
	uint64_t row_used[METRICS_ROWS_MAX], row_size[METRICS_ROWS_MAX];
	uint32_t percent;  /* last percentage given to the progress callback */
	struct idle *idle; /* NULL: no figures of free devices */
};

static inline bool run_counts(const struct run *run, uint32_t task)
{
	return !run->counts || run->counts[task];
}

/* Changes the load of a device by `more` permille. */
void run_load(struct run *run, uint32_t device, int32_t more);
/* run_enter() adds the task to the chosen devices; run_leave() removes the task from them. */
void run_enter(struct run *run, uint32_t task, const uint32_t *devices, uint32_t n);
void run_leave(struct run *run, uint32_t task, const uint32_t *devices, uint32_t n);

/* Updates run->now, except for the values that idle_look() sets. */
void run_update(struct run *run);

/* Calls the progress callback if the percentage done / all has changed. */
void run_report_progress(struct run *run, uint64_t done, uint64_t all);

/* ---- replay-note.c ---- */

/* Calls the note callback, if there is one. choice and why may be NULL. */
void run_note(const struct run *run, enum replay_event event, uint64_t at_ns, uint32_t task,
	const struct place_choice *choice, const char *why);
/*
 * Reports the placement of a task, with the reason for the choice. The placement model already has
 * the tenant.
 */
void run_note_placed(const struct run *run, uint64_t at_ns, uint32_t task,
	const struct place_choice *choice, uint32_t tenant);
/*
 * Reports that a task has no place now, with the reason. For a gang, n is its size and `least` the
 * number of its tasks that have to start together.
 */
void run_note_refused(const struct run *run, enum replay_event event, uint64_t at_ns, uint32_t task,
	uint32_t n, uint32_t least);
/*
 * Writes "; " and the queue's limit that keeps the task from a device, for the first such device.
 * Leaves `ret` unchanged if no limit keeps the task from a device.
 */
void explain_limit(const struct run *run, const struct place_spec *spec, char *ret, size_t size);

/* ---- replay-idle.c ---- */

/* Returns -ENOMEM, else 0. The caller calls idle_stop() also after an error. */
int idle_start(struct run *run);
void idle_stop(struct run *run);
/*
 * Marks the device's node for a new count. Call after a change that does not change the node's
 * version in the placement model.
 */
void idle_forget(struct run *run, uint32_t device);
/* Updates the values of run->now about free devices, for `point` of the curves. */
void idle_look(struct run *run, uint32_t point);

int run_queue(struct run *run, struct error *err);

#endif
