/* SPDX-License-Identifier: Apache-2.0 */
/* The mode with time: who comes, who waits for room, who ends when. */
#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/clock.h"
#include "replay/replay-tasks.h"
#include "replay/stats.h"

#define POINTS_WISHED 160u /* the width begins so that all arrivals make as many */
#define FREED_MAX 64u
#define BUSY_PERCENT 99u /* of the tasks: a few that go on and on would flatten all curves */

/* Tasks that start together: next to one another in `arrivals`. */
struct unit {
	uint32_t first, n;
	uint32_t share;  /* the least that one of them asks of a device */
	uint64_t models; /* on which any of them can be */
};

struct queue {
	struct run *run;
	struct tasks tasks;
	uint32_t *arrivals;       /* tasks by time of arrival */
	uint32_t next;            /* of them */
	uint32_t n_ended, n_busy; /* n_busy: by busy_ns */
	struct unit *waiting;
	uint32_t n_waiting, waiting_room;
	uint64_t first_ns;         /* the first arrival: where curves begin */
	uint64_t busy_ns;          /* when it was no longer busy */
	uint64_t step_ns, sampled; /* sampled: the point of the last sample, +1 */
	bool has_changed;
	/*
	 * Who waits had no room before: it has some now only where somebody has left. Nodes since
	 * the last retry; more than FREED_MAX: anywhere.
	 */
	uint32_t freed[FREED_MAX];
	uint32_t n_freed;
	uint32_t room;        /* the most that is free of one of their devices */
	uint64_t room_models; /* of those with something free */
	uint64_t defrag_ns;   /* when the next plan is due */
	bool may_defrag;      /* something has changed since the last plan */
};

/* ---- start and end ---- */

static bool is_busy(const struct queue *q)
{
	return q->n_ended * 100ull < q->run->result->n_tasks * (uint64_t)BUSY_PERCENT;
}

static int start_task(
	struct queue *q, uint32_t task, const struct place_choice *choice, uint32_t tenant)
{
	const struct task *t = &q->run->in->workload->tasks[task];
	struct replay_result *result = q->run->result;

	result->queued_s[result->n_placed++] = (double)(q->tasks.now_ns - t->arrives_ns) /
		(double)NSEC_PER_SEC;
	q->has_changed = q->may_defrag = true;
	return tasks_start(&q->tasks, task, tasks_work(&q->tasks, task), choice, tenant);
}

static void note_freed(struct queue *q, uint32_t node)
{
	if (q->n_freed < FREED_MAX)
		q->freed[q->n_freed] = node;
	q->n_freed++;
}

static int end_task(struct queue *q, uint32_t slot, struct error *err)
{
	const struct task *tasks = q->run->in->workload->tasks;
	const uint64_t now_ns = q->tasks.now_ns;
	struct running was;
	int r = tasks_stop(&q->tasks, slot, &was);

	r = r < 0 ? r : place_remove(q->run->place, was.tenant);
	if (r < 0)
		return fail(err, -r, "out of memory for a run");
	q->run->result->completion_s[q->n_ended++] = (double)(now_ns - tasks[was.task].arrives_ns) /
		(double)NSEC_PER_SEC;
	if (!is_busy(q) && q->busy_ns == CLOCK_NEVER)
		q->busy_ns = now_ns;
	if (q->busy_ns >= now_ns)
		q->n_busy = q->n_ended;
	q->has_changed = q->may_defrag = true;
	note_freed(q, was.node);
	return 0;
}

/* ---- who waits ---- */

static void measure_room(struct queue *q)
{
	q->room = q->n_freed > FREED_MAX ? SPEC_SHARE_ONE : 0;
	q->room_models = q->n_freed > FREED_MAX ? UINT64_MAX : 0;
	for (uint32_t i = 0; i < q->n_freed && q->n_freed <= FREED_MAX; i++) {
		struct place_device_view d;
		struct place_node_view node;

		if (!place_node_get(q->run->place, q->freed[i], &node))
			continue;
		for (uint32_t k = 0; k < node.n_devices; k++)
			if (place_device_get(q->run->place, node.first_device + k, &d) &&
				d.share_free) {
				q->room = MAX(q->room, d.share_free);
				q->room_models |= 1ull << d.model;
			}
	}
}

/* Whether any of it has room where somebody has left. */
static bool may_fit(const struct queue *q, struct unit unit)
{
	if (unit.share > q->room || (unit.share && !(unit.models & q->room_models)))
		return false;
	if (q->n_freed > FREED_MAX)
		return true;
	for (uint32_t i = 0; i < unit.n; i++) {
		const struct place_spec *spec = &q->run->specs[q->arrivals[unit.first + i]];

		for (uint32_t k = 0; k < q->n_freed; k++)
			if (place_reason_of(q->run->place, spec, q->freed[k]) == PLACE_FITS)
				return true;
	}
	return false;
}

/* 1: it runs; 0: there is no room for all of it. */
static int try_unit(struct queue *q, struct unit unit, struct error *err)
{
	struct run *run = q->run;
	_cleanup_free_ struct place_choice *choices = calloc(unit.n, sizeof(*choices));
	_cleanup_free_ uint32_t *tenants = calloc(unit.n, sizeof(*tenants));
	uint32_t mark, i;
	int r = 0;

	if (!choices || !tenants)
		return fail(err, ENOMEM, "out of memory for a run");
	mark = place_mark(run->place);
	for (i = 0; r == 0 && i < unit.n; i++) {
		const struct place_spec *spec = &run->specs[q->arrivals[unit.first + i]];

		r = place_find(run->place, spec, &choices[i], err);
		r = r < 0 ? r : place_add(run->place, spec, &choices[i], &tenants[i], err);
	}
	if (r < 0)
		place_rollback(run->place, mark);
	place_release(run->place);
	if (r < 0)
		return r == -ENOSPC ? 0 : r;
	for (i = 0; r == 0 && i < unit.n; i++)
		r = start_task(q, q->arrivals[unit.first + i], &choices[i], tenants[i]);
	return r < 0 ? fail(err, -r, "out of memory for a run") : 1;
}

static int wait(struct queue *q, struct unit unit)
{
	const struct task *tasks = q->run->in->workload->tasks;
	const uint32_t priority = tasks[q->arrivals[unit.first]].spec.priority;
	uint32_t at = q->n_waiting;

	if (array_grow(&q->waiting, &q->waiting_room, at + 1, sizeof(*q->waiting)) < 0)
		return -ENOMEM;
	if (q->run->in->queue == REPLAY_PRIORITY)
		while (at && tasks[q->arrivals[q->waiting[at - 1].first]].spec.priority < priority)
			at--;
	memmove(&q->waiting[at + 1], &q->waiting[at], (q->n_waiting - at) * sizeof(*q->waiting));
	q->waiting[at] = unit;
	q->n_waiting++;
	q->run->waiting += unit.n;
	return 0;
}

static int retry(struct queue *q, struct error *err)
{
	uint32_t kept = 0;
	int r = 0;

	measure_room(q);
	for (uint32_t i = 0; i < q->n_waiting; i++) {
		const struct unit unit = q->waiting[i];

		if (r >= 0 && may_fit(q, unit)) {
			r = try_unit(q, unit, err);
			if (r == 1) {
				q->run->waiting -= unit.n;
				measure_room(q);
				continue;
			}
		}
		q->waiting[kept++] = unit;
	}
	q->n_waiting = kept;
	q->n_freed = 0;
	return MIN(r, 0);
}

static int arrive_unit(struct queue *q, struct error *err)
{
	const struct task *tasks = q->run->in->workload->tasks;
	struct unit unit = {.first = q->next, .share = SPEC_SHARE_ONE};
	int r;

	do {
		const struct place_spec *spec = &q->run->specs[q->arrivals[q->next++]];

		place_note_arrival(q->run->place, spec);
		unit.share = MIN(unit.share, spec->share);
		unit.models |= spec->models ? spec->models : UINT64_MAX;
		unit.n++;
	} while (q->next < q->run->in->workload->n && tasks[q->arrivals[unit.first]].gang &&
		tasks[q->arrivals[q->next]].gang == tasks[q->arrivals[unit.first]].gang);
	r = try_unit(q, unit, err);
	if (r == 0 && wait(q, unit) < 0)
		return fail(err, ENOMEM, "out of memory for a run");
	q->has_changed = true;
	return MIN(r, 0);
}

/* ---- defragmentation ---- */

static bool waits_for_whole(const struct queue *q)
{
	for (uint32_t i = 0; i < q->n_waiting; i++)
		for (uint32_t k = 0; k < q->waiting[i].n; k++)
			if (q->run->specs[q->arrivals[q->waiting[i].first + k]].share ==
				SPEC_SHARE_ONE)
				return true;
	return false;
}

static int defragment(struct queue *q, struct error *err)
{
	struct place_defrag done;
	int r = run_defrag(&q->tasks, &done, err);

	q->may_defrag = false;
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < done.n_moves; i++)
		note_freed(q, done.moves[i].from.node);
	q->has_changed |= done.n_moves > 0;
	r = done.n_moves ? retry(q, err) : 0;
	place_defrag_done(&done);
	return r;
}

/* Whether a plan is due before that; if so all before it is done. */
static bool defrag_is_due(struct queue *q, uint64_t before_ns)
{
	const uint64_t period_ns = q->run->in->defrag.period_ns;

	if (!period_ns || q->defrag_ns > before_ns)
		return false;
	if (q->may_defrag && waits_for_whole(q))
		return true;
	/* Until something happens it would be the same each time. */
	q->defrag_ns += ((before_ns - q->defrag_ns) / period_ns + 1) * period_ns;
	return false;
}

/* ---- time ---- */

static void advance(struct queue *q, uint64_t to_ns)
{
	struct run *run = q->run;

	if (!is_busy(q)) {
		q->tasks.now_ns = to_ns;
		return;
	}
	run_update(run);
	while (q->tasks.now_ns < to_ns) {
		uint64_t at = (q->tasks.now_ns - q->first_ns) / q->step_ns, end;

		while (at >= METRICS_POINTS_MAX) {
			metrics_halve(&run->result->curves);
			q->step_ns *= 2;
			at = (q->tasks.now_ns - q->first_ns) / q->step_ns;
		}
		if (q->has_changed && q->sampled != at + 1) {
			run_sample(run);
			q->sampled = at + 1;
			q->has_changed = false;
		}
		end = MIN(to_ns, q->first_ns + (at + 1) * q->step_ns);
		metrics_add(&run->result->curves, &run->now, (uint32_t)at,
			(double)(end - q->tasks.now_ns) / (double)NSEC_PER_SEC);
		q->tasks.now_ns = end;
	}
}

static int by_arrival(const void *a, const void *b, void *context)
{
	const struct task *tasks = context;
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	if (tasks[x].arrives_ns != tasks[y].arrives_ns)
		return tasks[x].arrives_ns < tasks[y].arrives_ns ? -1 : 1;
	return x < y ? -1 : x > y;
}

static int prepare(struct queue *q, struct error *err)
{
	const struct workload *w = q->run->in->workload;
	struct replay_result *result = q->run->result;

	q->arrivals = calloc(w->n, sizeof(*q->arrivals));
	result->queued_s = calloc(w->n, sizeof(double));
	result->completion_s = calloc(w->n, sizeof(double));
	if (tasks_init(&q->tasks, q->run) < 0 || !q->arrivals || !result->queued_s ||
		!result->completion_s)
		return fail(err, ENOMEM, "out of memory for a run");
	for (uint32_t i = 0; i < w->n; i++)
		q->arrivals[i] = i;
	qsort_r(q->arrivals, w->n, sizeof(*q->arrivals), by_arrival, w->tasks);
	q->first_ns = q->tasks.now_ns = w->tasks[q->arrivals[0]].arrives_ns;
	q->step_ns = MAX((w->tasks[q->arrivals[w->n - 1]].arrives_ns - q->first_ns) / POINTS_WISHED,
		NSEC_PER_SEC);
	result->curves.step = (double)q->step_ns / (double)NSEC_PER_SEC;
	result->n_tasks = w->n;
	q->busy_ns = CLOCK_NEVER;
	q->defrag_ns = q->first_ns + q->run->in->defrag.period_ns;
	q->has_changed = true;
	return 0;
}

static void queue_done(struct queue *q)
{
	tasks_done(&q->tasks);
	free(q->arrivals);
	free(q->waiting);
}

/* What happens at that time, the earliest of all; 1: nothing more will. */
static int step(struct queue *q, struct error *err)
{
	const struct workload *w = q->run->in->workload;
	const struct event *end = tasks_next(&q->tasks);
	const uint64_t end_ns = end ? end->at_ns : CLOCK_NEVER;
	const uint64_t arrival_ns = q->next < w->n ? w->tasks[q->arrivals[q->next]].arrives_ns
						   : CLOCK_NEVER;
	int r = 0;

	if (end_ns == CLOCK_NEVER && arrival_ns == CLOCK_NEVER)
		return 1;
	if (defrag_is_due(q, MIN(end_ns, arrival_ns))) {
		advance(q, q->defrag_ns);
		q->defrag_ns += q->run->in->defrag.period_ns;
		return defragment(q, err);
	}
	advance(q, MIN(end_ns, arrival_ns));
	if (arrival_ns < end_ns)
		return arrive_unit(q, err);
	while (r == 0 && (end = tasks_next(&q->tasks)) && end->at_ns == q->tasks.now_ns)
		r = end_task(q, end->slot, err);
	return r < 0 ? r : retry(q, err);
}

static void summarise(const struct queue *q)
{
	const struct workload *w = q->run->in->workload;
	struct replay_result *result = q->run->result;
	const uint64_t now_ns = q->tasks.now_ns, second = NSEC_PER_SEC;
	const uint64_t busy_ns = clock_since_ns(MIN(q->busy_ns, now_ns), q->first_ns);
	const uint64_t last_ns = w->tasks[q->arrivals[w->n - 1]].arrives_ns;

	stats_sort(result->queued_s, result->n_placed);
	stats_sort(result->completion_s, q->n_ended);
	result->arrivals_s = (double)clock_since_ns(last_ns, q->first_ns) / (double)second;
	result->end_s = (double)clock_since_ns(now_ns, q->first_ns) / (double)second;
	result->busy_s = (double)busy_ns / (double)second;
	if (busy_ns)
		result->throughput_per_h = 3600.0 * q->n_busy / result->busy_s;
}

int run_queue(struct run *run, struct error *err)
{
	_cleanup_(queue_done) struct queue q = {.run = run};
	int r = prepare(&q, err);

	while (r == 0)
		r = step(&q, err);
	if (r < 0)
		return r;
	summarise(&q);
	return 0;
}
