/* SPDX-License-Identifier: Apache-2.0 */
/* Estimates of device time: see estimate.h, which has the method and its terms. */
#include "hook/estimate.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"

/* a submission may pass if the work in flight takes at most this time */
#define LEAD_NS (300 * NSEC_PER_USEC)
/* an in-flight window that is wider than this means that the host delays programs */
#define WINDOW_QUIET_NS (2 * NSEC_PER_MSEC)
#define NAP_NS (500 * NSEC_PER_USEC) /* longest sleep: the gate is checked in between */
/* pause before the next look if several segments are in flight and is_erratic() holds */
#define NAP_SHORT_NS (30 * NSEC_PER_USEC)
/* If two looks are at most this far apart, the end between them counts as exact. */
#define TIGHT_NS (200 * NSEC_PER_USEC)
#define SUBS_ONE 256u /* the unit of sum_subs is 1/256 submission */
/*
 * sum_subs and sum_ns are halved when they exceed this many submissions and LEARN_NS, so that old
 * submissions count less and less.
 */
#define LEARN_SUBS 48u
#define LEARN_NS (4 * NSEC_PER_MSEC)
#define SPREAD_OVER 8 /* a new sample enters spread_ns and rough_ns with weight 1/8 */
#define KIND_OVER 4   /* a new sample enters the time of its kind with weight 1/4 */
#define KIND_WAYS 4u
#define KIND_SHIFT 58
#define LONGEST_OVER 512

void estimate_look(struct estimate *e, uint64_t now)
{
	e->looked_ns = now;
}

_Static_assert(KIND_WAYS << (64 - KIND_SHIFT) == ESTIMATE_KINDS, "one place for each");

/* First index of the key's set: the key may be in any of the KIND_WAYS places from there. */
static uint64_t kind_at(uint64_t key)
{
	return (key * UINT64_C(0x9e3779b97f4a7c15) >> KIND_SHIFT) * KIND_WAYS;
}

uint64_t estimate_kind(const struct estimate *e, uint64_t key)
{
	const struct estimate_kind *kind = &e->kind[kind_at(key)];

	for (size_t i = 0; key && i < KIND_WAYS; i++)
		if (kind[i].key == key)
			return kind[i].ns;
	return 0;
}

uint64_t estimate_time(const struct estimate *e, uint64_t key, uint32_t subs)
{
	uint64_t ns = estimate_kind(e, key);

	return ns ? ns : e->sub_ns * subs;
}

void estimate_began(struct estimate *e, uint64_t at)
{
	e->done_ns = MAX(e->done_ns, at);
}

/* If the key's set is full, a new kind replaces the kind that was learned first. */
static void learn_kind(struct estimate *e, uint64_t key, uint64_t ns, bool is_exact)
{
	struct estimate_kind *kind = &e->kind[kind_at(key)];

	for (size_t i = 0; i < KIND_WAYS; i++) {
		if (kind[i].key != key)
			continue;
		kind[i].ns = MAX(kind[i].ns + ns / KIND_OVER - kind[i].ns / KIND_OVER, UINT64_C(1));
		return;
	}
	if (!is_exact)
		return;
	memmove(kind + 1, kind, (KIND_WAYS - 1) * sizeof(*kind));
	kind[0] = (struct estimate_kind){.key = key, .ns = MAX(ns, UINT64_C(1))};
}

static void estimate_approach_mean(uint64_t *mean, uint64_t ns, uint64_t predicted)
{
	uint64_t off = ns > predicted ? ns - predicted : predicted - ns;

	*mean += (off + SPREAD_OVER - 1) / SPREAD_OVER - *mean / SPREAD_OVER;
}

static void estimate_learn_time(struct estimate *e, uint64_t ns, uint32_t subs, uint64_t predicted)
{
	uint64_t each = ns / subs;

	if (e->sub_ns) {
		estimate_approach_mean(&e->spread_ns, ns, predicted);
		estimate_approach_mean(&e->rough_ns, ns, e->sub_ns * subs);
	}
	e->sum_ns += ns;
	e->sum_subs += (uint64_t)subs * SUBS_ONE;
	e->sub_ns = MAX(e->sum_ns * SUBS_ONE / e->sum_subs, UINT64_C(1));
	while (e->sum_subs > LEARN_SUBS * SUBS_ONE && e->sum_ns > LEARN_NS) {
		e->sum_ns /= 2;
		e->sum_subs /= 2;
	}
	e->longest_ns = MAX(e->longest_ns - e->longest_ns / LONGEST_OVER, each);
}

void estimate_add(const struct estimate *e, struct estimate_end *end, uint64_t issued, uint64_t key,
	uint32_t subs)
{
	uint64_t ns = estimate_time(e, key, subs);

	if (!estimate_kind(e, key)) {
		end->key = end->unknowns++ ? 0 : key;
		end->others_ns = end->predicted_ns;
	} else if (end->unknowns) {
		end->others_ns += ns;
	} else {
		end->key = end->subs ? 0 : key;
	}
	end->issued = end->subs ? MIN(end->issued, issued) : issued;
	end->predicted_ns += ns;
	end->subs += subs;
}

/*
 * Chooses the end within [from, to], given the predicted time. Prefers an early time, because
 * handing over the next work too late leaves the device idle.
 */
static uint64_t estimate_bound_time(uint64_t predicted, uint64_t from, uint64_t to)
{
	uint64_t early = from + (to - from) / 4;

	if (predicted <= from)
		return from;
	if (predicted >= to)
		return to;
	return to - from > 2 * NAP_NS ? predicted : predicted / 2 + early / 2;
}

void estimate_ended(struct estimate *e, const struct estimate_end *end, uint64_t now)
{
	uint64_t last = e->looked_ns;
	uint64_t begun = MIN(MAX(end->issued, e->done_ns), now);
	bool is_exact = !end->is_corun && (clock_since_ns(now, last) < TIGHT_NS || end->has_more);

	e->looked_ns = now;
	e->done_ns = now;
	if (e->is_guess && (is_exact || (now - begun) / end->subs < e->sub_ns))
		e->sub_ns = e->sum_ns = e->sum_subs = e->longest_ns = e->spread_ns = e->rough_ns =
			0;
	if (!e->sub_ns)
		e->is_guess = !is_exact;
	else
		e->done_ns = estimate_bound_time(begun + end->predicted_ns, MAX(last, begun), now);
	if (!end->is_corun || e->is_guess || begun + end->predicted_ns >= now)
		estimate_learn_time(e, e->done_ns - begun, end->subs, end->predicted_ns);
	if (end->key && !end->is_corun)
		learn_kind(
			e, end->key, clock_since_ns(e->done_ns - begun, end->others_ns), is_exact);
}

/* The longest time that a segment may take: its prediction plus the usual error. */
static uint64_t estimate_pessimistic_time(const struct estimate *e, uint32_t every)
{
	return e->sub_ns * every + e->rough_ns;
}

uint32_t estimate_every(const struct estimate *e, uint32_t every, uint64_t window)
{
	if (!e->sub_ns)
		return every;
	if (estimate_pessimistic_time(e, every) < window / 4 && every < ESTIMATE_EVERY_MAX)
		return every * 2;
	if (estimate_pessimistic_time(e, every) > window / 2 && every > 1)
		return every / 2;
	return every;
}

void estimate_queue(const struct estimate *e, struct estimate_queue *queue, uint64_t issued,
	uint64_t key, uint32_t subs, uint64_t now)
{
	uint64_t ns = estimate_time(e, key, subs);
	bool is_reported = estimate_kind(e, key) != 0;

	if (queue->segments++ == 0)
		ns = clock_since_ns(ns, clock_since_ns(now, MAX(issued, e->done_ns)));
	queue->ns += ns;
	queue->spread_ns = MAX(queue->spread_ns, MAX(e->spread_ns, is_reported ? 0 : e->rough_ns));
}

/*
 * Whether the mean error of predicted ends exceeds half the in-flight window. If so, predictions do
 * not decide: estimate_wait() lets a submission pass while at most one segment is in flight.
 */
static bool is_erratic(
	const struct estimate *e, const struct estimate_queue *queue, uint64_t window)
{
	return !e->sub_ns || queue->spread_ns > window / 2;
}

bool estimate_is_full(const struct estimate *e, const struct estimate_queue *queue, uint64_t window)
{
	return queue->ns > window || (is_erratic(e, queue, window) && queue->segments > 1);
}

/*
 * Returns a time: while the predicted work in flight takes at most this time, the next submission
 * may pass, however long it is.
 */
static uint64_t ahead_ns(uint64_t window)
{
	return MAX(MIN(window / 8, LEAD_NS), clock_since_ns(window, WINDOW_QUIET_NS) / 2);
}

uint64_t estimate_wait(const struct estimate *e, const struct estimate_queue *queue, uint32_t every,
	uint64_t window)
{
	uint64_t room = clock_since_ns(window, e->sub_ns * every);

	if (is_erratic(e, queue, window))
		return queue->segments > 1 ? NAP_SHORT_NS : 0;
	return MIN(clock_since_ns(queue->ns, MAX(room, ahead_ns(window))), NAP_NS);
}
