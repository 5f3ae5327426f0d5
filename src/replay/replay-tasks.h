/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tasks on their devices in the mode with time: at what pace each goes, and who ends next. Work
 * left is counted in permille of a device times nanoseconds, so that all is exact but the rounding
 * of shares to permille. Where tasks go is said by the caller, who tells the engine as well.
 */
#ifndef REPLAY_REPLAY_TASKS_H
#define REPLAY_REPLAY_TASKS_H

#include "base/heap.h"
#include "replay/replay-internal.h"

struct running {
	uint64_t left; /* permille x ns */
	uint64_t since_ns;
	uint32_t task, tenant, node, n;
	uint32_t got;     /* permille of each of its devices */
	uint32_t longer;  /* permille: so much longer all takes while another of its kind is near */
	uint32_t version; /* of its entry in departures */
	uint32_t device[SPEC_DEVICES_MAX];
	uint32_t due[SPEC_DEVICES_MAX]; /* what each device would give */
};

struct event {
	uint64_t at_ns; /* CLOCK_NEVER: beyond all time there is */
	uint32_t slot, version;
};

HEAP_HEAD(departures, struct event);

/* Those on a device: slots. */
struct crowd {
	uint32_t *slot;
	uint32_t n, room;
};

struct tasks {
	struct run *run;
	uint64_t now_ns; /* the caller's to set */
	struct running *slots;
	uint32_t n_slots, slots_room;
	uint32_t *free_slots;
	uint32_t n_free, free_room;
	uint32_t *slot_of; /* by tenant */
	uint32_t slot_of_room;
	struct departures departures; /* with entries of versions that are over */
	struct crowd *crowds;         /* by device */
	struct water_share *water;
	uint32_t water_room;
};

/* The run has its place. -ENOMEM, as all below. */
int tasks_init(struct tasks *t, struct run *run);
void tasks_done(struct tasks *t);

/* What the whole of it is. */
uint64_t tasks_work(const struct tasks *t, uint32_t task);
/* The tenant that is placed there begins, or goes on, with so much work left. */
int tasks_start(struct tasks *t, uint32_t task, uint64_t left, const struct place_choice *choice,
	uint32_t tenant);
/* It is on its devices no more; the engine still has the tenant. ret: what it was, and is left. */
int tasks_stop(struct tasks *t, uint32_t slot, struct running *ret);
/* The next to end, or NULL. */
const struct event *tasks_next(struct tasks *t);

#endif
