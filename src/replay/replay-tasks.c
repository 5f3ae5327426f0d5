/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the running tasks in slots, the slots of each device in a list, and the ends of tasks in a
 * heap. Each start or stop divides the affected devices by water filling, and sets the pace of
 * every task on them. A task runs at the smallest share that one of its devices gives, up to its
 * limit. A change of pace raises the version of the slot and adds a heap entry. tasks_next() drops
 * entries of older versions, so no entry is ever searched in the heap. Each run has its own struct
 * tasks.
 */
#include "replay/replay-tasks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "core/water-fill.h"

/* ---- heap of the ends of tasks ---- */

static bool tasks_is_event_before(struct event a, struct event b)
{
	return a.at_ns != b.at_ns ? a.at_ns < b.at_ns : a.slot < b.slot;
}

HEAP_DEFINE(departures, struct event, tasks_is_event_before, HEAP_NO_PLACE)

static int tasks_push_event(struct tasks *t, struct event event)
{
	if (departures_reserve(&t->departures, t->departures.n + 1ul) < 0)
		return -ENOMEM;
	departures_add(&t->departures, event);
	return 0;
}

const struct event *tasks_next(struct tasks *t)
{
	struct departures *d = &t->departures;

	while (d->n && t->slots[d->v[0].slot].version != d->v[0].version)
		departures_take(d);
	return d->n ? &d->v[0] : NULL;
}

/* ---- shares ---- */

/* Work done since the last change of pace, in permille x ns. */
static uint64_t done_by_now(const struct tasks *t, const struct running *r)
{
	const uint64_t got = (t->now_ns - r->since_ns) * r->got;

	return (uint64_t)((unsigned __int128)got * 1000 / (1000 + r->longer));
}

static uint64_t time_left(const struct running *r)
{
	const unsigned __int128 left = (unsigned __int128)r->left * (1000 + r->longer);
	const uint64_t pace = r->got * UINT64_C(1000);

	return (uint64_t)MIN((left + pace - 1) / pace, (unsigned __int128)CLOCK_NEVER);
}

static bool has_like(const struct tasks *t, const struct running *r, uint32_t kind)
{
	for (uint32_t i = 0; i < r->n; i++) {
		const struct crowd *crowd = &t->crowds[r->device[i]];

		for (uint32_t k = 0; k < crowd->n; k++) {
			const struct running *other = &t->slots[crowd->slot[k]];

			if (other != r && t->run->in->workload->tasks[other->task].kind == kind)
				return true;
		}
	}
	return false;
}

static uint32_t longer_of(const struct tasks *t, const struct running *r)
{
	const uint32_t kind = t->run->in->workload->tasks[r->task].kind;

	return kind && has_like(t, r, kind) ? t->run->in->slowdown_permille : 0;
}

/*
 * Subtracts the work done at the old pace, and sets the new pace: the smallest share that a device
 * gives.
 */
static int set_pace(struct tasks *t, uint32_t slot)
{
	struct running *r = &t->slots[slot];
	const uint64_t done = done_by_now(t, r);
	const uint32_t longer = longer_of(t, r);
	uint32_t got = t->run->in->workload->tasks[r->task].limit;

	r->left -= MIN(done, r->left);
	r->since_ns = t->now_ns;
	for (uint32_t i = 0; i < r->n; i++)
		got = MIN(got, r->due[i]);
	/* A task without devices runs at full pace. */
	got = r->n ? got : SPEC_SHARE_ONE;
	if (got == r->got && longer == r->longer)
		return 0;
	for (uint32_t i = 0; i < r->n; i++)
		run_load(t->run, r->device[i], (int32_t)got - (int32_t)r->got);
	r->got = got;
	r->longer = longer;
	r->version++;
	return tasks_push_event(
		t, (struct event){clock_add_ns(t->now_ns, time_left(r)), slot, r->version});
}

static int tasks_divide_device(struct tasks *t, uint32_t device)
{
	const struct crowd *crowd = &t->crowds[device];
	int r = array_grow(&t->water, &t->water_room, crowd->n, sizeof(*t->water));

	for (uint32_t i = 0; r == 0 && i < crowd->n; i++) {
		const struct task *task =
			&t->run->in->workload->tasks[t->slots[crowd->slot[i]].task];

		t->water[i] = (struct water_share){
			.request = t->run->in->scheme->has_limits ? task->spec.share : 0,
			.limit = task->limit};
	}
	if (r == 0)
		water_fill(t->water, crowd->n, WATER_ONE);
	for (uint32_t i = 0; r == 0 && i < crowd->n; i++) {
		struct running *running = &t->slots[crowd->slot[i]];

		for (uint32_t k = 0; k < running->n; k++)
			if (running->device[k] == device)
				running->due[k] = MAX(
					t->water[i].micro / (WATER_ONE / SPEC_SHARE_ONE), 1u);
		r = set_pace(t, crowd->slot[i]);
	}
	return r;
}

/* ---- start and stop ---- */

int tasks_init(struct tasks *t, struct run *run)
{
	*t = (struct tasks){.run = run};
	t->crowds = calloc(place_n_devices(run->place), sizeof(*t->crowds));
	return t->crowds ? 0 : -ENOMEM;
}

void tasks_done(struct tasks *t)
{
	for (uint32_t i = 0; t->crowds && i < place_n_devices(t->run->place); i++)
		free(t->crowds[i].slot);
	free(t->crowds);
	free(t->slots);
	free(t->free_slots);
	free(t->slot_of);
	free(t->departures.v);
	free(t->water);
}

uint64_t tasks_work(const struct tasks *t, uint32_t task)
{
	const struct task *of = &t->run->in->workload->tasks[task];

	return of->work_ns * (of->spec.count ? of->limit : SPEC_SHARE_ONE);
}

static int tasks_take_slot(struct tasks *t, uint32_t *ret_slot)
{
	if (t->n_free) {
		*ret_slot = t->free_slots[--t->n_free];
		return 0;
	}
	if (array_grow(&t->slots, &t->slots_room, t->n_slots + 1, sizeof(*t->slots)) < 0 ||
		array_grow(&t->free_slots, &t->free_room, t->n_slots + 1, sizeof(uint32_t)) < 0)
		return -ENOMEM;
	t->slots[t->n_slots] = (struct running){0};
	*ret_slot = t->n_slots++;
	return 0;
}

static int tasks_join_device(struct tasks *t, uint32_t device, uint32_t slot)
{
	struct crowd *crowd = &t->crowds[device];
	int r = array_grow(&crowd->slot, &crowd->room, crowd->n + 1, sizeof(*crowd->slot));

	if (r == 0)
		crowd->slot[crowd->n++] = slot;
	return r;
}

int tasks_start(struct tasks *t, uint32_t task, uint64_t left, const struct place_choice *choice,
	uint32_t tenant)
{
	struct running *running;
	uint32_t slot;
	int r = array_grow(&t->slot_of, &t->slot_of_room, tenant + 1ull, sizeof(*t->slot_of));

	r = r < 0 ? r : tasks_take_slot(t, &slot);
	if (r < 0)
		return r;
	t->slot_of[tenant] = slot;
	running = &t->slots[slot];
	*running = (struct running){.left = left,
		.since_ns = t->now_ns,
		.task = task,
		.tenant = tenant,
		.node = choice->node,
		.n = choice->n,
		.version = running->version + 1};
	for (uint32_t i = 0; r == 0 && i < choice->n; i++) {
		running->device[i] = choice->device[i];
		running->due[i] = SPEC_SHARE_ONE;
		r = tasks_join_device(t, choice->device[i], slot);
	}
	run_enter(t->run, task, choice->device, choice->n);
	for (uint32_t i = 0; r == 0 && i < choice->n; i++)
		r = tasks_divide_device(t, choice->device[i]);
	return r == 0 && !choice->n ? set_pace(t, slot) : r;
}

/*
 * Removes the slot and keeps the order of the other slots, because the order decides how shares are
 * rounded.
 */
static void tasks_leave_crowd(struct crowd *crowd, uint32_t slot)
{
	uint32_t k = 0;

	while (crowd->slot[k] != slot)
		k++;
	crowd->n--;
	memmove(&crowd->slot[k], &crowd->slot[k + 1], (crowd->n - k) * sizeof(*crowd->slot));
}

int tasks_stop(struct tasks *t, uint32_t slot, struct running *ret)
{
	struct running *running = &t->slots[slot];
	const uint64_t done = done_by_now(t, running);
	int r = 0;

	running->left -= MIN(done, running->left);
	for (uint32_t i = 0; i < running->n; i++) {
		tasks_leave_crowd(&t->crowds[running->device[i]], slot);
		run_load(t->run, running->device[i], -(int32_t)running->got);
	}
	run_leave(t->run, running->task, running->device, running->n);
	for (uint32_t i = 0; r == 0 && i < running->n; i++)
		r = tasks_divide_device(t, running->device[i]);
	running->version++;
	t->free_slots[t->n_free++] = slot;
	*ret = *running;
	return r;
}
