/* SPDX-License-Identifier: Apache-2.0 */
/* What both modes of a run share. See replay.h. */
#ifndef REPLAY_REPLAY_INTERNAL_H
#define REPLAY_REPLAY_INTERNAL_H

#include "replay/replay.h"

struct run_device {
	uint32_t load; /* permille that is worked on; above 1000 where too much was given away */
	uint32_t n_tasks;
	uint32_t asked; /* permille, by all of them */
	uint32_t given; /* permille: with limits what the scheme counts, else what is asked */
	uint32_t node, row;
};

struct idle;

struct run {
	const struct replay_input *in;
	/*
	 * By task: it has had a place. With times; kept also of a first run, after which a second
	 * one has as `counts` whom the figures are of.
	 */
	bool *has_place;
	const bool *counts; /* NULL: all of them */
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
	uint64_t row_used[METRICS_ROWS_MAX], row_size[METRICS_ROWS_MAX];
	uint32_t percent;  /* as the last progress has told */
	struct idle *idle; /* NULL: nobody wants to know */
};

static inline bool run_counts(const struct run *run, uint32_t task)
{
	return !run->counts || run->counts[task];
}

/* A permille that the device is more or less loaded with. */
void run_load(struct run *run, uint32_t device, int32_t more);
/* The task comes to the chosen devices, or leaves them. */
void run_enter(struct run *run, uint32_t task, const uint32_t *devices, uint32_t n);
void run_leave(struct run *run, uint32_t task, const uint32_t *devices, uint32_t n);

/* Brings run->now up to date, but for what idle_look() sees. */
void run_update(struct run *run);

/* So many of so many steps are done. */
void run_tell(struct run *run, uint64_t done, uint64_t all);

/* ---- replay-note.c ---- */

/* Where somebody wants to know; choice, why: or NULL. */
void run_note(const struct run *run, enum replay_event event, uint64_t at_ns, uint32_t task,
	const struct place_choice *choice, const char *why);
/* The tenant has come: the task is there, with why. */
void run_note_placed(const struct run *run, uint64_t at_ns, uint32_t task,
	const struct place_choice *choice, uint32_t tenant);
/* The task has no place as things are, with why; one of a gang of n, `least` of which need one. */
void run_note_refused(const struct run *run, enum replay_event event, uint64_t at_ns, uint32_t task,
	uint32_t n, uint32_t least);
/* Which limit it is that keeps it from devices, of all those the first: "; ...", or nothing. */
void explain_limit(const struct run *run, const struct place_spec *spec, char *ret, size_t size);

/* ---- replay-idle.c ---- */

int idle_start(struct run *run); /* -ENOMEM; to be stopped also then */
void idle_stop(struct run *run);
/* The device's node is to be counted again: for what the engine does not know. */
void idle_forget(struct run *run, uint32_t device);
/* Brings what run->now says of free devices up to date, for a point of the curves. */
void idle_look(struct run *run, uint32_t point);

int run_queue(struct run *run, struct error *err);

#endif
