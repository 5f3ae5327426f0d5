/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running tasks on their devices, in the mode with time: each task's pace, and which task ends
 * next. Work is counted in permille of a device times nanoseconds. So all results are exact, except
 * that shares are rounded to permille. The caller chooses the devices and updates the placement
 * model.
 */
#ifndef REPLAY_REPLAY_TASKS_H
#define REPLAY_REPLAY_TASKS_H

#include "base/heap.h"
#include "replay/replay-internal.h"

struct running {
	uint64_t left; /* remaining work, permille x ns */
	uint64_t since_ns;
	uint32_t task, tenant, node, n;
	uint32_t got; /* share that the task has on each of its devices, in permille */
	/*
	 * permille by which work takes longer while a task of the same kind runs on one of its
	 * devices
	 */
	uint32_t longer;
	uint32_t version; /* changes with each new entry in `departures` */
	uint32_t device[SPEC_DEVICES_MAX];
	uint32_t due[SPEC_DEVICES_MAX]; /* share that each device would give */
};

struct event {
	uint64_t at_ns; /* CLOCK_NEVER: the task does not end */
	uint32_t slot, version;
};

HEAP_HEAD(departures, struct event);

/* Slots of the tasks on a device. */
struct crowd {
	uint32_t *slot;
	uint32_t n, room;
};

struct tasks {
	struct run *run;
	uint64_t now_ns; /* set by the caller */
	struct running *slots;
	uint32_t n_slots, slots_room;
	uint32_t *free_slots;
	uint32_t n_free, free_room;
	uint32_t *slot_of; /* slot by tenant */
	uint32_t slot_of_room;
	struct departures departures; /* a heap; an outdated entry has another version */
	struct crowd *crowds;         /* by device */
	struct water_share *water;
	uint32_t water_room;
};

/* run->place must be set. These functions return -ENOMEM, else 0. */
int tasks_init(struct tasks *t, struct run *run);
void tasks_done(struct tasks *t);

/* Returns the total work of a task. */
uint64_t tasks_work(const struct tasks *t, uint32_t task);
/*
 * Starts or resumes the task, with `left` as its remaining work, on the devices that the placement
 * model gave to `tenant`.
 */
int tasks_start(struct tasks *t, uint32_t task, uint64_t left, const struct place_choice *choice,
	uint32_t tenant);
/*
 * Takes the task off its devices; the placement model keeps the tenant. *ret receives the task's
 * last state, with its remaining work.
 */
int tasks_stop(struct tasks *t, uint32_t slot, struct running *ret);
/* Returns the event of the task that ends next, or NULL. */
const struct event *tasks_next(struct tasks *t);

#endif
