/* SPDX-License-Identifier: Apache-2.0 */
/* What both modes of a run share. See replay.h. */
#ifndef REPLAY_REPLAY_INTERNAL_H
#define REPLAY_REPLAY_INTERNAL_H

#include "replay/replay.h"

#define RUN_KINDS 32u /* tasks that stand for all when free devices are asked why */

struct run_device {
	uint32_t load; /* permille that is worked on; above 1000 where too much was given away */
	uint32_t n_tasks;
	uint32_t asked; /* permille, by all of them */
	uint32_t row;
};

struct run {
	const struct replay_input *in;
	struct replay_result *result;
	struct place *place;
	struct place_spec *specs; /* by task, as the scheme asks for it */
	struct place_mix *mix;    /* of all tasks, as they are: all are judged by it */
	struct run_device *devices;
	double all; /* permille of all devices */
	struct metrics_now now;
	/* What curves need at each step, kept as it changes; permille. */
	uint64_t allocated, used;
	uint32_t in_use, waiting;
	double row_size[METRICS_ROWS_MAX];
	uint32_t kinds[RUN_KINDS]; /* tasks */
	uint32_t n_kinds;
};

/* A permille that the device is more or less loaded with. */
void run_load(struct run *run, uint32_t device, int32_t more);
/* The task comes to the chosen devices, or leaves them. */
void run_enter(struct run *run, uint32_t task, const uint32_t *devices, uint32_t n);
void run_leave(struct run *run, uint32_t task, const uint32_t *devices, uint32_t n);

/* Looks at the whole cluster for the curves: costly, so once for each point. */
void run_sample(struct run *run);
/* Brings the cheap figures of run->now up to date. */
void run_update(struct run *run);

int run_queue(struct run *run, struct error *err);

#endif
