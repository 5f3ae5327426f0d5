/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the waiting queue items of a replay in one ordered list per queue, and tries them when free
 * capacity appears. try_all() skips a plain item that has failed before unless a node in `freed`
 * may hold one of its tasks. Items of queues or with affinity are tried whenever a node was freed
 * or `helps` was set. With more than FREED_MAX freed nodes every node counts as freed. try_all()
 * compacts each list in place: `at` is the next item, and `kept` counts items that continue to
 * wait. As soon as a task returns to `back`, try_all() ends and retry() begins a new round with
 * that task.
 */
#include <errno.h>
#include <string.h>

#include "base/array.h"
#include "place/place-preempt.h"
#include "place/place-queue.h"
#include "replay/replay-queue.h"

struct unit unit_of(const struct queue *q, uint32_t first, uint32_t n)
{
	struct unit unit = {.first = first,
		.n = n,
		.share = SPEC_SHARE_ONE,
		.threshold = task_at(q, first)->threshold,
		.queue = spec_at(q, first)->queue};

	if (!unit.threshold)
		unit.threshold = 1000;
	for (uint32_t i = first; i < first + n; i++) {
		const struct place_spec *spec = spec_at(q, i);

		unit.share = MIN(unit.share, spec->share);
		unit.is_drawn |= spec->affinity > 0;
	}
	return unit;
}

/* ---- lines ---- */

static bool comes_before(const struct queue *q, const struct unit *a, const struct unit *b)
{
	const uint32_t x = task_at(q, a->first)->spec.priority;
	const uint32_t y = task_at(q, b->first)->spec.priority;

	if (q->run->in->queue == REPLAY_PRIORITY && x != y)
		return x > y;
	return a->first < b->first;
}

int wait_in_line(struct queue *q, struct unit unit)
{
	struct line *line = &q->lines[unit.queue];
	uint32_t at = line->n;

	if (array_grow(&line->units, &line->room, at + 1ull, sizeof(*line->units)) < 0)
		return -ENOMEM;
	while (at && comes_before(q, &unit, &line->units[at - 1]))
		at--;
	memmove(&line->units[at + 1], &line->units[at], (line->n - at) * sizeof(*line->units));
	line->units[at] = unit;
	line->n++;
	q->run->waiting += n_counted_of(q, unit.first, unit.n);
	return 0;
}

uint32_t n_counted_of(const struct queue *q, uint32_t first, uint32_t n)
{
	uint32_t counted = 0;

	for (uint32_t i = first; i < first + n; i++)
		counted += run_counts(q->run, q->arrivals[i]);
	return counted;
}

void note_waits(const struct queue *q, const struct unit *unit)
{
	for (uint32_t i = 0; i < unit->n; i++)
		run_note_refused(q->run, REPLAY_WAITS, q->tasks.now_ns,
			q->arrivals[unit->first + i], unit->n,
			place_gang_least(unit->n, unit->threshold));
}

int wait_again(struct queue *q, uint32_t at)
{
	if (array_grow(&q->back, &q->back_room, q->n_back + 1ull, sizeof(*q->back)) < 0)
		return -ENOMEM;
	q->back[q->n_back] = unit_of(q, at, 1);
	q->back[q->n_back++].is_new = true;
	return 0;
}

bool waits_for_whole(const struct queue *q)
{
	for (uint32_t l = 0; l < q->n_lines; l++)
		for (uint32_t i = 0; i < q->lines[l].n; i++) {
			const struct unit *unit = &q->lines[l].units[i];

			for (uint32_t k = 0; k < unit->n; k++)
				if (spec_at(q, unit->first + k)->share == SPEC_SHARE_ONE)
					return true;
		}
	return false;
}

/* ---- free capacity ---- */

void note_freed(struct queue *q, uint32_t node)
{
	if (q->n_freed < FREED_MAX)
		q->freed[q->n_freed] = node;
	q->n_freed++;
}

/* Removes the first n freed nodes: all items have been tried with them. */
static void forget_freed(struct queue *q, uint32_t n)
{
	if (q->n_freed <= FREED_MAX)
		memmove(q->freed, q->freed + n, (q->n_freed - n) * sizeof(*q->freed));
	if (q->n_freed <= FREED_MAX || q->n_freed == n)
		q->n_freed -= n;
}

static void measure_room(struct queue *q)
{
	const bool is_anywhere = q->n_freed > FREED_MAX;
	uint32_t room[SPEC_PRIORITY_MAX + 1];

	for (uint32_t p = 0; p <= SPEC_PRIORITY_MAX; p++)
		q->room[p] = is_anywhere ? SPEC_SHARE_ONE : 0;
	for (uint32_t i = 0; i < q->n_freed && !is_anywhere; i++) {
		place_preempt_room(q->run->place, q->freed[i], room);
		for (uint32_t p = 0; p <= SPEC_PRIORITY_MAX; p++)
			q->room[p] = MAX(q->room[p], room[p]);
	}
}

/* Returns whether the task may fit on the node, with preemption if the input permits it. */
static bool could_fit(struct queue *q, const struct unit *unit, uint32_t at, uint32_t node)
{
	static const struct place_preempt by_priority = {0};
	struct place_spec spec = *spec_at(q, at);

	if (q->run->in->preempt == REPLAY_KEEP)
		return place_reason_of(q->run->place, &spec, node) == PLACE_FITS;
	spec.priority = spec_at(q, unit->first)->priority;
	return place_preempt_could(q->run->place, &spec, &by_priority, node) != 0;
}

/* Returns whether a task of the item may fit now. */
static bool may_fit(struct queue *q, const struct unit *unit)
{
	if (unit->is_new)
		return true;
	/* A quota or a label on another node can have been the obstacle. */
	if (unit->queue || unit->is_drawn)
		return q->n_freed || q->is_helped;
	if (unit->share >
		q->room[q->run->in->preempt == REPLAY_KEEP ? 0 : spec_at(q, unit->first)->priority])
		return false;
	if (q->n_freed > FREED_MAX)
		return true;
	for (uint32_t i = unit->first; i < unit->first + unit->n; i++)
		for (uint32_t k = 0; k < q->n_freed; k++)
			if (could_fit(q, unit, i, q->freed[k]))
				return true;
	return false;
}

/* ---- trying all ---- */

/* Returns the list of the next item by queue order, or NULL after the last item. */
static struct line *next_line(struct queue *q)
{
	struct line *best = NULL;

	for (uint32_t l = 0; l < q->n_lines; l++) {
		struct line *line = &q->lines[l];

		if (line->at == line->n)
			continue;
		if (!best ||
			(best != q->lines &&
				place_queue_is_before(
					q->run->place, l, (uint32_t)(best - q->lines))))
			best = line;
	}
	return best;
}

/* Equal requests fail equally until another item starts. */
static bool is_like(const struct queue *q, const struct unit *unit, const struct unit *refused)
{
	return unit->n == 1 && refused->n == 1 &&
		!memcmp(spec_at(q, unit->first), spec_at(q, refused->first),
			sizeof(struct place_spec));
}

/*
 * Ends when a task waits again. Such a task can precede items not yet tried, so a new round starts.
 */
static int try_all(struct queue *q, struct error *err)
{
	const uint32_t n_freed = q->n_freed;
	struct unit refused = {0};
	struct line *line = NULL;
	int r = 0;

	measure_room(q);
	for (uint32_t l = 0; l < q->n_lines; l++)
		q->lines[l].at = q->lines[l].kept = 0;
	while (r >= 0 && !q->n_back && (line = next_line(q))) {
		struct unit unit = line->units[line->at++];

		r = 0;
		if (!is_like(q, &unit, &refused) && may_fit(q, &unit)) {
			r = try_unit(q, unit, err);
			refused = unit;
		}
		if (r == 1) {
			refused.n = 0;
			q->run->waiting -= n_counted_of(q, unit.first, unit.n);
			measure_room(q);
			continue;
		}
		if (r == 0 && unit.is_new)
			note_waits(q, &unit);
		unit.is_new = false;
		line->units[line->kept++] = unit;
	}
	for (uint32_t l = 0; l < q->n_lines; l++) {
		struct line *of = &q->lines[l];

		if (of->kept == of->at)
			continue;
		memmove(&of->units[of->kept], &of->units[of->at],
			(of->n - of->at) * sizeof(*of->units));
		of->n -= of->at - of->kept;
	}
	if (!q->n_back)
		forget_freed(q, n_freed);
	return MIN(r, 0);
}

int retry(struct queue *q, struct error *err)
{
	int r;

	do {
		for (uint32_t i = 0; i < q->n_back; i++)
			if (wait_in_line(q, q->back[i]) < 0)
				return fail(err, ENOMEM, "out of memory for a run");
		q->n_back = 0;
		q->is_helped = q->helps;
		q->helps = false;
		r = try_all(q, err);
	} while (r == 0 && (q->n_back || q->n_freed || q->helps));
	return r;
}
