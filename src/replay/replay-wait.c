/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the waiting queue items of a replay in one ordered list per queue, and tries them when free
 * capacity appears. An item without queue and affinity that has failed before is tried only if a
 * node in `freed` may hold one of its tasks. An item of a queue or with affinity is tried whenever
 * a node was freed or `helps` was set. With more than FREED_MAX freed nodes every node counts as
 * freed. try_all() compacts each list in place: `at` is the next item, and `kept` counts items that
 * continue to wait. As soon as a task returns to `back`, try_all() ends, and retry() calls it again
 * with that task in its list.
 */
#include <errno.h>
#include <string.h>

#include "base/array.h"
#include "place/place-preempt.h"
#include "place/place-queue.h"
#include "replay/replay-queue.h"

struct queue_item queue_item_of(const struct queue *q, uint32_t first, uint32_t n)
{
	struct queue_item item = {.first = first,
		.n = n,
		.share = SPEC_SHARE_ONE,
		.threshold = task_at(q, first)->threshold,
		.queue = spec_at(q, first)->queue};

	if (!item.threshold)
		item.threshold = 1000;
	for (uint32_t i = first; i < first + n; i++) {
		const struct place_spec *spec = spec_at(q, i);

		item.share = MIN(item.share, spec->share);
		item.has_locality |= spec->affinity > 0;
	}
	return item;
}

/* ---- wait queues ---- */

static bool comes_before(
	const struct queue *q, const struct queue_item *a, const struct queue_item *b)
{
	const uint32_t x = task_at(q, a->first)->spec.priority;
	const uint32_t y = task_at(q, b->first)->spec.priority;

	if (q->run->in->queue == REPLAY_PRIORITY && x != y)
		return x > y;
	return a->first < b->first;
}

int wait_in_queue(struct queue *q, struct queue_item item)
{
	struct wait_queue *wait_queue = &q->wait_queues[item.queue];
	uint32_t at = wait_queue->n;

	if (array_grow(&wait_queue->items, &wait_queue->room, at + 1ull,
		    sizeof(*wait_queue->items)) < 0)
		return -ENOMEM;
	while (at && comes_before(q, &item, &wait_queue->items[at - 1]))
		at--;
	memmove(&wait_queue->items[at + 1], &wait_queue->items[at],
		(wait_queue->n - at) * sizeof(*wait_queue->items));
	wait_queue->items[at] = item;
	wait_queue->n++;
	q->run->waiting += n_counted_of(q, item.first, item.n);
	return 0;
}

uint32_t n_counted_of(const struct queue *q, uint32_t first, uint32_t n)
{
	uint32_t counted = 0;

	for (uint32_t i = first; i < first + n; i++)
		counted += run_counts(q->run, q->arrivals[i]);
	return counted;
}

void note_waits(const struct queue *q, const struct queue_item *item)
{
	for (uint32_t i = 0; i < item->n; i++)
		run_note_refused(q->run, REPLAY_WAITS, q->tasks.now_ns,
			q->arrivals[item->first + i], item->n,
			place_gang_least(item->n, item->threshold));
}

int wait_again(struct queue *q, uint32_t at)
{
	if (array_grow(&q->back, &q->back_room, q->n_back + 1ull, sizeof(*q->back)) < 0)
		return -ENOMEM;
	q->back[q->n_back] = queue_item_of(q, at, 1);
	q->back[q->n_back++].is_new = true;
	return 0;
}

bool waits_for_whole(const struct queue *q)
{
	for (uint32_t l = 0; l < q->n_wait_queues; l++)
		for (uint32_t i = 0; i < q->wait_queues[l].n; i++) {
			const struct queue_item *item = &q->wait_queues[l].items[i];

			for (uint32_t k = 0; k < item->n; k++)
				if (spec_at(q, item->first + k)->share == SPEC_SHARE_ONE)
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
		place_preempt_free(q->run->place, q->freed[i], room);
		for (uint32_t p = 0; p <= SPEC_PRIORITY_MAX; p++)
			q->room[p] = MAX(q->room[p], room[p]);
	}
}

/* Returns whether the task may fit on the node, with preemption if the input permits it. */
static bool wait_could_fit(
	struct queue *q, const struct queue_item *item, uint32_t at, uint32_t node)
{
	static const struct place_preempt by_priority = {0};
	struct place_spec spec = *spec_at(q, at);

	if (q->run->in->preempt == REPLAY_KEEP)
		return place_reason_of(q->run->place, &spec, node) == PLACE_FITS;
	spec.priority = spec_at(q, item->first)->priority;
	return place_preempt_could(q->run->place, &spec, &by_priority, node) != 0;
}

/* Returns whether a task of the item may fit now. */
static bool may_fit(struct queue *q, const struct queue_item *item)
{
	if (item->is_new)
		return true;
	/*
	 * A quota, or a label on another node, can have kept the item waiting, so every freed node
	 * counts.
	 */
	if (item->queue || item->has_locality)
		return q->n_freed || q->is_helped;
	if (item->share >
		q->room[q->run->in->preempt == REPLAY_KEEP ? 0 : spec_at(q, item->first)->priority])
		return false;
	if (q->n_freed > FREED_MAX)
		return true;
	for (uint32_t i = item->first; i < item->first + item->n; i++)
		for (uint32_t k = 0; k < q->n_freed; k++)
			if (wait_could_fit(q, item, i, q->freed[k]))
				return true;
	return false;
}

/* ---- trying all waiting items ---- */

/* Returns the list of the next item by queue order, or NULL after the last item. */
static struct wait_queue *wait_next_line(struct queue *q)
{
	struct wait_queue *best = NULL;

	for (uint32_t l = 0; l < q->n_wait_queues; l++) {
		struct wait_queue *wait_queue = &q->wait_queues[l];

		if (wait_queue->at == wait_queue->n)
			continue;
		if (!best ||
			(best != q->wait_queues &&
				place_queue_is_before(
					q->run->place, l, (uint32_t)(best - q->wait_queues))))
			best = wait_queue;
	}
	return best;
}

/*
 * Returns whether the item has the same request as `refused`: then it fails too, until another item
 * starts.
 */
static bool wait_is_item_like(
	const struct queue *q, const struct queue_item *item, const struct queue_item *refused)
{
	return item->n == 1 && refused->n == 1 &&
		!memcmp(spec_at(q, item->first), spec_at(q, refused->first),
			sizeof(struct place_spec));
}

/*
 * Tries the waiting items in order. Ends early when a task waits again: that task may come before
 * items not yet tried, so retry() calls try_all() again.
 */
static int try_all(struct queue *q, struct error *err)
{
	const uint32_t n_freed = q->n_freed;
	struct queue_item refused = {0};
	struct wait_queue *wait_queue = NULL;
	int r = 0;

	measure_room(q);
	for (uint32_t l = 0; l < q->n_wait_queues; l++)
		q->wait_queues[l].at = q->wait_queues[l].kept = 0;
	while (r >= 0 && !q->n_back && (wait_queue = wait_next_line(q))) {
		struct queue_item item = wait_queue->items[wait_queue->at++];

		r = 0;
		if (!wait_is_item_like(q, &item, &refused) && may_fit(q, &item)) {
			r = try_queue_item(q, item, err);
			refused = item;
		}
		if (r == 1) {
			refused.n = 0;
			q->run->waiting -= n_counted_of(q, item.first, item.n);
			measure_room(q);
			continue;
		}
		if (r == 0 && item.is_new)
			note_waits(q, &item);
		item.is_new = false;
		wait_queue->items[wait_queue->kept++] = item;
	}
	for (uint32_t l = 0; l < q->n_wait_queues; l++) {
		struct wait_queue *of = &q->wait_queues[l];

		if (of->kept == of->at)
			continue;
		memmove(&of->items[of->kept], &of->items[of->at],
			(of->n - of->at) * sizeof(*of->items));
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
			if (wait_in_queue(q, q->back[i]) < 0)
				return fail(err, ENOMEM, "out of memory for a run");
		q->n_back = 0;
		q->is_helped = q->helps;
		q->helps = false;
		r = try_all(q, err);
	} while (r == 0 && (q->n_back || q->n_freed || q->helps));
	return r;
}
