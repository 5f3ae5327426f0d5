/* SPDX-License-Identifier: Apache-2.0 */
/* See estimate.h. */
#include "hook/estimate.h"

#include "base/cleanup.h"
#include "base/clock.h"

#define LEAD_NS (300 * NSEC_PER_USEC)     /* the next long kernel is let through this early */
#define NAP_NS (500 * NSEC_PER_USEC)      /* longest sleep: the gate is looked at in between */
#define NAP_SHORT_NS (30 * NSEC_PER_USEC) /* where any end may be the last but one */
#define TIGHT_NS (200 * NSEC_PER_USEC)    /* looks this close together see the time of an end */
#define SUBS_ONE 256u                     /* submissions are summed in 1/256 */
#define LEARN_SUBS 48u                    /* the mean remembers as many, */
#define LEARN_NS (4 * NSEC_PER_MSEC)      /* or those of that time */
#define SPREAD_OVER 8                     /* samples */
#define LONGEST_OVER 512

void estimate_look(struct estimate *e, uint64_t now)
{
	e->looked_ns = now;
}

static void learn(struct estimate *e, uint64_t ns, uint32_t subs)
{
	uint64_t predicted = e->sub_ns * subs;
	uint64_t off = ns > predicted ? ns - predicted : predicted - ns;
	uint64_t each = ns / subs;

	if (e->sub_ns)
		e->spread_ns += (off + SPREAD_OVER - 1) / SPREAD_OVER - e->spread_ns / SPREAD_OVER;
	e->sum_ns += ns;
	e->sum_subs += (uint64_t)subs * SUBS_ONE;
	e->sub_ns = MAX(e->sum_ns * SUBS_ONE / e->sum_subs, UINT64_C(1));
	while (e->sum_subs > LEARN_SUBS * SUBS_ONE && e->sum_ns > LEARN_NS) {
		e->sum_ns /= 2;
		e->sum_subs /= 2;
	}
	e->longest_ns = MAX(e->longest_ns - e->longest_ns / LONGEST_OVER, each);
}

/*
 * The end that lies in [from, to], where `predicted` was. Rather too early than too late: who hands over
 * the next one too late lets the device idle.
 */
static uint64_t believe(uint64_t predicted, uint64_t from, uint64_t to)
{
	uint64_t early = from + (to - from) / 4;

	if (predicted <= from)
		return from;
	if (predicted >= to)
		return to;
	return to - from > 2 * NAP_NS ? predicted : predicted / 2 + early / 2;
}

void estimate_ended(struct estimate *e, uint64_t issued, uint32_t subs, bool has_more,
	bool is_beside, uint64_t now)
{
	uint64_t last = e->looked_ns;
	uint64_t begun = MIN(MAX(issued, e->done_ns), now);
	uint64_t predicted = begun + subs * e->sub_ns;
	bool is_exact = !is_beside && (clock_since_ns(now, last) < TIGHT_NS || has_more);

	e->looked_ns = now;
	e->done_ns = now;
	if (e->is_guess && (is_exact || (now - begun) / subs < e->sub_ns))
		e->sub_ns = e->sum_ns = e->sum_subs = e->longest_ns = e->spread_ns = 0;
	if (!e->sub_ns)
		e->is_guess = !is_exact;
	else
		e->done_ns = believe(predicted, MAX(last, begun), now);
	if (!is_beside || e->is_guess || predicted >= now)
		learn(e, e->done_ns - begun, subs);
}

/* The first segment's end may be that far from what is predicted. */
static uint64_t pessimist(const struct estimate *e, uint32_t every)
{
	return e->sub_ns * every + e->spread_ns;
}

uint32_t estimate_every(const struct estimate *e, uint32_t every, uint64_t window)
{
	if (!e->sub_ns)
		return every;
	if (pessimist(e, every) < window / 4 && every < ESTIMATE_EVERY_MAX)
		return every * 2;
	if (pessimist(e, every) > window / 2 && every > 1)
		return every / 2;
	return every;
}

/* Where ends are not known (to half a window), one more than runs is queued, whatever it takes. */
static bool is_erratic(const struct estimate *e, uint64_t window)
{
	return !e->sub_ns || e->spread_ns > window / 2;
}

bool estimate_is_full(
	const struct estimate *e, uint64_t queued_ns, uint32_t segments, uint64_t window)
{
	return queued_ns > window || (is_erratic(e, window) && segments > 1);
}

uint64_t estimate_wait(const struct estimate *e, uint64_t queued_ns, uint32_t segments,
	uint32_t every, uint64_t window)
{
	uint64_t room = clock_since_ns(window, e->sub_ns * every);

	if (is_erratic(e, window))
		return segments > 1 ? NAP_SHORT_NS : 0;
	return MIN(clock_since_ns(queued_ns, MAX(room, MIN(window / 8, LEAD_NS))), NAP_NS);
}
