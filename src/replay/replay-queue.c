/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the simulation with time: arrivals, ends, defragmentation, curves and final figures. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/clock.h"
#include "place/place-queue.h"
#include "replay/replay-queue.h"
#include "replay/stats.h"

/* initial number of points of a curve from the first arrival to the last */
#define POINTS_WISHED 160u
/*
 * The curves end when this percentage of the tasks has ended: a few very long tasks would flatten
 * them.
 */
#define BUSY_PERCENT 99u

/* ---- start and end ---- */

static bool replay_queue_is_busy(const struct queue *q)
{
	return q->n_ended * 100ull < q->n_counted * (uint64_t)BUSY_PERCENT;
}

static double replay_queue_seconds(uint64_t ns)
{
	return (double)ns / (double)NSEC_PER_SEC;
}

int start_task(struct queue *q, uint32_t task, const struct place_choice *choice, uint32_t tenant)
{
	struct replay_result *result = q->run->result;
	struct progress *p = &q->progress[task];
	const double queued_s = replay_queue_seconds(q->tasks.now_ns - p->since_ns);

	if (p->queued == PLACE_NONE) {
		p->queued = result->n_placed++;
		result->queued_s[p->queued] = queued_s;
	} else {
		result->queued_s[p->queued] += queued_s;
	}
	q->may_defrag = q->run->has_place[task] = true;
	run_note_placed(q->run, q->tasks.now_ns, task, choice, tenant);
	return tasks_start(&q->tasks, task, p->left, choice, tenant);
}

void note_for(const struct queue *q, enum replay_event event, uint32_t task, uint32_t comer)
{
	const struct place_spec *goes = &q->run->specs[task], *comes = &q->run->specs[comer];
	char why[REPLAY_WHY], within[64] = "";

	if (!q->run->in->note)
		return;
	if (event == REPLAY_TERMINATING)
		snprintf(within, sizeof(within), "within %.6g s ",
			replay_queue_seconds(q->run->in->grace_ns));
	if (goes->queue && comes->queue && goes->queue != comes->queue)
		snprintf(why, sizeof(why), "%sfor task %u, whose queue reclaims its quota", within,
			comer + 1);
	else
		snprintf(why, sizeof(why), "%sfor task %u of priority %u", within, comer + 1,
			comes->priority);
	run_note(q->run, event, q->tasks.now_ns, task, NULL, why);
}

int evict(struct queue *q, uint32_t tenant, uint32_t comer)
{
	struct running was;
	struct progress *p;
	int r = tasks_stop(&q->tasks, q->tasks.slot_of[tenant], &was);

	if (r < 0)
		return r;
	note_for(q, REPLAY_EVICTED, was.task, comer);
	p = &q->progress[was.task];
	p->since_ns = q->tasks.now_ns;
	if (q->run->in->preempt != REPLAY_RESTART)
		p->left = was.left;
	q->run->result->n_evicted++;
	note_freed(q, was.node);
	return wait_again(q, p->at);
}

/*
 * Reserves the member's place until n_going victims have ended. A member without a place gets a
 * claim too: it waits again when its gang starts.
 */
static int replay_queue_claim(
	struct queue *q, uint32_t at, const struct place_member *member, uint32_t n_going)
{
	struct place_node_view node;
	char why[REPLAY_WHY];

	if (q->run->in->note) {
		const bool has_place = member->tenant != PLACE_NONE &&
			place_node_get(q->run->place, member->choice.node, &node);

		snprintf(why, sizeof(why), "%s%s %s reserved until %u %s terminated",
			has_place ? "the place on " : "the places of the gang",
			has_place ? node.name : "", has_place ? "is" : "are", n_going,
			n_going == 1 ? "task has" : "tasks have");
		run_note(q->run, REPLAY_WAITS, q->tasks.now_ns, q->arrivals[at], NULL, why);
	}
	return terminate_claim(q, at, member);
}

int try_queue_item(struct queue *q, struct queue_item item, struct error *err)
{
	const uint32_t comer = q->arrivals[item.first];
	struct place_group group;
	uint32_t n_going;
	int r = gather(q, &item, &group, err);

	if (r < 0)
		return r == -ENOSPC ? 0 : r;
	q->round++;
	q->helps |= item.has_locality;
	/*
	 * Stop the victims before any member starts. Without a grace period, placement has removed
	 * the victims, and a member may have got the tenant number of a victim. The member's start
	 * then overwrites tasks.slot_of[number], by which evict() finds the victim's task.
	 */
	for (uint32_t i = 0; r == 0 && i < group.n_victims; i++)
		r = q->run->in->grace_ns ? terminate_begin(q, group.victims[i], comer)
					 : evict(q, group.victims[i], comer);
	n_going = terminate_awaited(q, q->round);
	for (uint32_t i = 0; r == 0 && i < item.n; i++) {
		const struct place_member *m = &group.members[i];

		if (n_going)
			r = replay_queue_claim(q, item.first + i, m, n_going);
		else if (m->tenant == PLACE_NONE)
			r = wait_again(q, item.first + i);
		else
			r = start_task(q, q->arrivals[item.first + i], &m->choice, m->tenant);
	}
	place_group_done(&group);
	return r < 0 ? fail(err, -r, "out of memory for a run") : 1;
}

static int end_task(struct queue *q, uint32_t slot)
{
	const struct task *tasks = q->run->in->workload->tasks;
	const uint64_t now_ns = q->tasks.now_ns;
	struct running was;
	int r = tasks_stop(&q->tasks, slot, &was);

	r = r < 0 ? r : place_remove(q->run->place, was.tenant);
	if (r < 0)
		return r;
	run_note(q->run, REPLAY_ENDED, now_ns, was.task, NULL, NULL);
	q->progress[was.task].ended_ns = q->ended_ns = now_ns;
	q->run->result->completion_s[q->n_ended++] = replay_queue_seconds(
		now_ns - tasks[was.task].arrives_ns);
	if (!replay_queue_is_busy(q) && q->busy_ns == CLOCK_NEVER)
		q->busy_ns = now_ns;
	if (q->busy_ns >= now_ns)
		q->n_busy = q->n_ended;
	q->may_defrag = true;
	note_freed(q, was.node);
	return terminate_ended(q, was.tenant);
}

static uint64_t next_arrival_ns(const struct queue *q)
{
	return q->next < q->run->in->workload->n ? task_at(q, q->next)->arrives_ns : CLOCK_NEVER;
}

static struct queue_item replay_queue_next_item(struct queue *q)
{
	const uint32_t first = q->next;
	struct queue_item item;

	do
		place_note_arrival(q->run->place, spec_at(q, q->next++));
	while (q->next < q->run->in->workload->n && task_at(q, first)->gang &&
		task_at(q, q->next)->gang == task_at(q, first)->gang);
	item = queue_item_of(q, first, q->next - first);
	item.is_new = true;
	return item;
}

static int arrive_alone(struct queue *q, struct queue_item item, struct error *err)
{
	int r = try_queue_item(q, item, err);

	if (r == 0)
		note_waits(q, &item);
	item.is_new = false;
	if (r == 0 && wait_in_queue(q, item) < 0)
		return fail(err, ENOMEM, "out of memory for a run");
	/*
	 * Tasks that this start evicted must be tried again, and waiting tasks may fit beside the
	 * started tasks.
	 */
	return r == 1 && (q->n_back || q->helps) ? retry(q, err) : MIN(r, 0);
}

/* ---- defragmentation ---- */

static int replay_queue_defragment(struct queue *q, struct error *err)
{
	struct place_defrag done;
	int r = run_defrag(q, &done, err);

	q->may_defrag = false;
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < done.n_moves; i++)
		note_freed(q, done.moves[i].from.node);
	r = done.n_moves ? retry(q, err) : 0;
	place_defrag_done(&done);
	return r;
}

/*
 * Returns whether a defragmentation is due by before_ns and could help. If one is due but could not
 * help, skips all periods up to before_ns.
 */
static bool defrag_is_due(struct queue *q, uint64_t before_ns)
{
	const uint64_t period_ns = q->run->in->defrag.period_ns;

	if (!period_ns || q->defrag_ns > before_ns)
		return false;
	if (q->may_defrag && waits_for_whole(q))
		return true;
	/* Until the next event every plan would have the same result. */
	q->defrag_ns += ((before_ns - q->defrag_ns) / period_ns + 1) * period_ns;
	return false;
}

/* ---- time ---- */

static void replay_queue_advance(struct queue *q, uint64_t to_ns)
{
	struct run *run = q->run;

	if (!replay_queue_is_busy(q)) {
		q->tasks.now_ns = to_ns;
		return;
	}
	/* The figures begin at first_ns, with the first task that they include. */
	q->tasks.now_ns = MAX(q->tasks.now_ns, MIN(q->first_ns, to_ns));
	run_update(run);
	while (q->tasks.now_ns < to_ns) {
		uint64_t at = (q->tasks.now_ns - q->first_ns) / q->step_ns, end;

		while (at >= METRICS_POINTS_MAX) {
			metrics_halve(&run->result->curves);
			q->step_ns *= 2;
			at = (q->tasks.now_ns - q->first_ns) / q->step_ns;
		}
		idle_look(run, (uint32_t)at);
		end = MIN(to_ns, q->first_ns + (at + 1) * q->step_ns);
		metrics_add(&run->result->curves, &run->now, (uint32_t)at,
			(double)(end - q->tasks.now_ns) / (double)NSEC_PER_SEC);
		q->tasks.now_ns = end;
	}
}

static int replay_queue_compare_arrival(const void *a, const void *b, void *context)
{
	const struct task *tasks = context;
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	if (tasks[x].arrives_ns != tasks[y].arrives_ns)
		return tasks[x].arrives_ns < tasks[y].arrives_ns ? -1 : 1;
	return x < y ? -1 : x > y;
}

static int replay_queue_prepare(struct queue *q, struct error *err)
{
	const struct workload *w = q->run->in->workload;
	struct replay_result *result = q->run->result;

	q->arrivals = calloc(w->n, sizeof(*q->arrivals));
	q->progress = calloc(w->n, sizeof(*q->progress));
	q->run->has_place = calloc(w->n, sizeof(*q->run->has_place));
	q->n_wait_queues = place_queue_n(q->run->place) + 1;
	q->wait_queues = calloc(q->n_wait_queues, sizeof(*q->wait_queues));
	result->queued_s = calloc(w->n, sizeof(double));
	result->completion_s = calloc(w->n, sizeof(double));
	if (tasks_init(&q->tasks, q->run) < 0 || !q->arrivals || !q->progress ||
		!q->run->has_place || !q->wait_queues || !result->queued_s || !result->completion_s)
		return fail(err, ENOMEM, "out of memory for a run");
	for (uint32_t i = 0; i < w->n; i++)
		q->arrivals[i] = i;
	qsort_r(q->arrivals, w->n, sizeof(*q->arrivals), replay_queue_compare_arrival, w->tasks);
	for (uint32_t i = 0; i < w->n; i++) {
		const uint32_t task = q->arrivals[i];

		q->progress[task] = (struct progress){.left = tasks_work(&q->tasks, task),
			.since_ns = w->tasks[task].arrives_ns,
			.ended_ns = CLOCK_NEVER,
			.at = i,
			.queued = PLACE_NONE};
		if (!run_counts(q->run, task))
			continue;
		if (!q->n_counted++)
			q->first_ns = w->tasks[task].arrives_ns;
		q->last_ns = w->tasks[task].arrives_ns;
	}
	q->ended_ns = q->first_ns;
	q->tasks.now_ns = w->tasks[q->arrivals[0]].arrives_ns;
	q->step_ns = MAX((q->last_ns - q->first_ns) / POINTS_WISHED, NSEC_PER_SEC);
	result->curves.step = (double)q->step_ns / (double)NSEC_PER_SEC;
	result->n_tasks = w->n;
	q->busy_ns = CLOCK_NEVER;
	q->defrag_ns = q->tasks.now_ns + q->run->in->defrag.period_ns;
	return 0;
}

static void queue_done(struct queue *q)
{
	tasks_done(&q->tasks);
	free(q->arrivals);
	free(q->progress);
	for (uint32_t l = 0; q->wait_queues && l < q->n_wait_queues; l++)
		free(q->wait_queues[l].items);
	free(q->wait_queues);
	free(q->back);
	terminate_done(q);
}

/* Processes the next event; returns 1 after the last event. */
static int replay_queue_step(struct queue *q, struct error *err)
{
	const struct workload *w = q->run->in->workload;
	const struct event *end = tasks_next(&q->tasks);
	const uint64_t end_ns = MIN(end ? end->at_ns : CLOCK_NEVER, terminate_next_ns(q));
	const uint64_t arrival_ns = next_arrival_ns(q);
	struct queue_item item;
	int r = 0;

	if (!end && arrival_ns == CLOCK_NEVER)
		return 1;
	if (MIN(end_ns, arrival_ns) > REPLAY_TIME_MAX_NS)
		return fail(err, ERANGE,
			"after %u of %u tasks the next one ends in more than %" PRIu64
			" days; use more devices, or fewer or shorter tasks",
			q->n_ended, w->n, REPLAY_TIME_MAX_NS / (86400 * NSEC_PER_SEC));
	if (defrag_is_due(q, MIN(end_ns, arrival_ns))) {
		replay_queue_advance(q, q->defrag_ns);
		q->defrag_ns += q->run->in->defrag.period_ns;
		return replay_queue_defragment(q, err);
	}
	replay_queue_advance(q, MIN(end_ns, arrival_ns));
	run_report_progress(q->run, q->next + (uint64_t)q->n_ended, 2 * (uint64_t)w->n);
	if (arrival_ns < end_ns) {
		item = replay_queue_next_item(q);
		if (next_arrival_ns(q) > arrival_ns)
			return arrive_alone(q, item, err);
		r = wait_in_queue(q, item);
	}
	while (r == 0 && (end = tasks_next(&q->tasks)) && end->at_ns == q->tasks.now_ns)
		r = end_task(q, end->slot);
	r = r < 0 ? r : terminate_due(q);
	/* Arriving tasks are tried in order with the waiting tasks. */
	while (r == 0 && next_arrival_ns(q) == q->tasks.now_ns)
		r = wait_in_queue(q, replay_queue_next_item(q));
	return r < 0 ? fail(err, ENOMEM, "out of memory for a run") : retry(q, err);
}

static int by_priority(const void *a, const void *b, void *context)
{
	const struct task *tasks = context;
	const uint32_t x = tasks[*(const uint32_t *)a].spec.priority;
	const uint32_t y = tasks[*(const uint32_t *)b].spec.priority;

	return x < y ? -1 : x > y;
}

/* Figures of n tasks of equal priority; `ends` is scratch space for n values. */
static struct replay_priority of_priority(
	const struct queue *q, const uint32_t *tasks, uint32_t n, double *ends)
{
	const struct workload *w = q->run->in->workload;
	struct replay_priority p = {.priority = w->tasks[tasks[0]].spec.priority, .n_tasks = n};
	uint32_t n_ended = 0;

	for (uint32_t i = 0; i < n; i++) {
		const struct progress *of = &q->progress[tasks[i]];

		if (of->queued != PLACE_NONE) {
			p.queued_s += q->run->result->queued_s[of->queued];
			p.n_placed++;
		}
		if (of->ended_ns == CLOCK_NEVER)
			continue;
		p.completion_s += replay_queue_seconds(
			of->ended_ns - w->tasks[tasks[i]].arrives_ns);
		ends[n_ended++] = replay_queue_seconds(of->ended_ns - q->first_ns);
	}
	stats_sort(ends, n_ended);
	p.queued_s /= MAX(p.n_placed, 1u);
	p.completion_s /= MAX(n_ended, 1u);
	if (n_ended)
		p.busy_s = ends[MIN(n_ended, (p.n_placed * BUSY_PERCENT + 99) / 100) - 1];
	return p;
}

/* Must run before the result's arrays are sorted. Returns -ENOMEM, else 0. */
static int summarise_priorities(const struct queue *q)
{
	const struct workload *w = q->run->in->workload;
	struct replay_result *result = q->run->result;
	_cleanup_free_ uint32_t *order = calloc(w->n, sizeof(*order));
	_cleanup_free_ double *ends = calloc(w->n, sizeof(*ends));
	uint32_t room = 0, n;

	if (!order || !ends)
		return -ENOMEM;
	for (uint32_t i = 0; i < w->n; i++)
		order[i] = i;
	qsort_r(order, w->n, sizeof(*order), by_priority, w->tasks);
	for (uint32_t at = 0; at < w->n; at += n) {
		n = 1;
		while (at + n < w->n && by_priority(&order[at], &order[at + n], w->tasks) == 0)
			n++;
		if (array_grow(&result->priorities, &room, result->n_priorities + 1ull,
			    sizeof(*result->priorities)) < 0)
			return -ENOMEM;
		result->priorities[result->n_priorities++] = of_priority(q, &order[at], n, ends);
	}
	return 0;
}

static int replay_queue_summarise(const struct queue *q)
{
	struct replay_result *result = q->run->result;
	const uint64_t busy_ns = clock_since_ns(MIN(q->busy_ns, q->tasks.now_ns), q->first_ns);

	if (summarise_priorities(q) < 0)
		return -ENOMEM;
	stats_sort(result->queued_s, result->n_placed);
	stats_sort(result->completion_s, q->n_ended);
	result->arrivals_s = replay_queue_seconds(clock_since_ns(q->last_ns, q->first_ns));
	result->end_s = replay_queue_seconds(clock_since_ns(q->ended_ns, q->first_ns));
	result->busy_s = replay_queue_seconds(busy_ns);
	if (busy_ns)
		result->throughput_per_h = 3600.0 * q->n_busy / result->busy_s;
	return 0;
}

int run_queue(struct run *run, struct error *err)
{
	_cleanup_(queue_done) struct queue q = {.run = run};
	int r = replay_queue_prepare(&q, err);

	while (r == 0)
		r = replay_queue_step(&q, err);
	if (r < 0)
		return r;
	run_update(run);
	idle_look(run, UINT32_MAX - 1);
	run->result->curves.after = run->now;
	return replay_queue_summarise(&q) < 0 ? fail(err, ENOMEM, "out of memory for figures") : 0;
}
