/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The estimate of a program's submissions, in virtual time. A device runs the submissions in order,
 * a program submits the next when the estimate permits, and looks come late or early.
 */
#include "hook/estimate.h"

#include <stdbool.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "unit.h"

#define US NSEC_PER_USEC
#define MS NSEC_PER_MSEC
#define WINDOW (2 * MS)

struct flight {
	uint64_t issued, ends, key;
};

/* A device with one marker behind each submission. */
struct device {
	struct estimate estimate;
	struct flight flight[256];
	uint32_t n;
	uint64_t now, free_at, busy, begun;
	int long_drains; /* submissions that found more than two windows of work in flight */
	uint64_t random;
	bool is_keyed; /* each length has a key of its own */
};

static uint64_t random_below(struct device *d, uint64_t n)
{
	d->random = d->random * 6364136223846793005u + 1442695040888963407u;
	return (d->random >> 33) % n;
}

static void look(struct device *d)
{
	struct estimate_end end = {0};
	struct flight *f;

	while (end.subs < d->n && (f = &d->flight[end.subs])->ends <= d->now)
		estimate_add(&d->estimate, &end, f->issued, f->key, 1);
	if (!end.subs) {
		estimate_look(&d->estimate, d->now);
		return;
	}
	end.has_more = end.subs < d->n;
	estimate_ended(&d->estimate, &end, d->now);
	d->n -= end.subs;
	memmove(d->flight, d->flight + end.subs, d->n * sizeof(*d->flight));
}

static struct estimate_queue queued(const struct device *d)
{
	struct estimate_queue queue = {0};

	for (const struct flight *f = d->flight; f < d->flight + d->n; f++)
		estimate_queue(&d->estimate, &queue, f->issued, f->key, 1, d->now);
	return queue;
}

static uint64_t key_of(uint64_t ns)
{
	return ns << 40 | 1; /* keys differ in few bits */
}

static void submit(struct device *d, uint64_t ns)
{
	assert_true(d->n < ARRAY_SIZE(d->flight));
	d->long_drains += clock_since_ns(d->free_at, d->now) > 2 * WINDOW;
	d->free_at = MAX(d->free_at, d->now + 10 * US) + ns;
	d->flight[d->n++] = (struct flight){d->now, d->free_at, d->is_keyed ? key_of(ns) : 0};
	d->busy += ns;
}

/* Holds the program back as marker.c does. Each sleep takes up to 80 us longer than requested. */
static void hold_back(struct device *d)
{
	for (;;) {
		struct estimate_queue queue;
		uint64_t nap;

		look(d);
		queue = queued(d);
		nap = estimate_wait(&d->estimate, &queue, 1, WINDOW);
		if (!nap)
			return;
		d->now += nap + random_below(d, 80 * US);
	}
}

/*
 * Runs that many submissions of random lengths. After the first 100, at most one in 20 may find
 * `deepest` or more in flight. Returns the part of the time in which the device was busy.
 */
static double busy_fraction(
	struct device *d, const uint64_t *lengths, uint64_t n, int submissions, uint32_t deepest)
{
	struct estimate_queue queue;
	int deep = 0;

	for (int i = 0; i < submissions; i++) {
		look(d);
		queue = queued(d);
		if (estimate_is_full(&d->estimate, &queue, WINDOW))
			hold_back(d);
		deep += i >= 100 && d->n >= deepest;
		submit(d, lengths[random_below(d, n)]);
		d->now += 5 * US;
	}
	assert_true(deep <= submissions / 20);
	return (double)d->busy / (double)(d->free_at - d->begun);
}

static struct device device_new(uint64_t seed)
{
	return (struct device){.now = NSEC_PER_SEC, .begun = NSEC_PER_SEC, .random = seed};
}

static void even_lengths_are_found(void **state)
{
	static const uint64_t each[] = {600 * US, MS, 2 * MS, 5 * MS, 20 * MS, 40 * MS};

	for (size_t i = 0; i < ARRAY_SIZE(each); i++) {
		struct device d = device_new(i + 1);
		double busy = busy_fraction(&d, &each[i], 1, 400, 2 + (uint32_t)(WINDOW / each[i]));

		if (busy < 0.99)
			fail_msg("%d us: busy %.4f", (int)(each[i] / US), busy);
		assert_true(d.estimate.sub_ns > each[i] * 95 / 100);
		assert_true(d.estimate.sub_ns < each[i] * 105 / 100);
		assert_true(d.estimate.longest_ns >= each[i] * 95 / 100);
		assert_true(d.estimate.spread_ns < 300 * US);
	}
}

static const uint64_t mix[] = {20 * US, 20 * US, 20 * US, 50 * US, 100 * US, 200 * US, 500 * US, MS,
	MS, 2 * MS, 5 * MS, 20 * MS};

static void mixed_lengths_keep_the_device_busy(void **state)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct device d = device_new(seed);
		double busy = busy_fraction(&d, mix, ARRAY_SIZE(mix), 1000, 2);

		if (busy < 0.97)
			fail_msg("seed %d: busy %.4f", (int)seed, busy);
		assert_true(d.estimate.longest_ns > 10 * MS);
		/* The estimate knows that the mean is inexact. */
		assert_true(d.estimate.spread_ns > MS);
	}
}

/* Each of the lengths has a kernel of its own, so work in flight stays below the window. */
static void kernels_are_estimated_separately(void **state)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct device alike = device_new(seed), keyed = device_new(seed);
		double busy;

		keyed.is_keyed = true;
		busy_fraction(&alike, mix, ARRAY_SIZE(mix), 1000, 2);
		busy = busy_fraction(&keyed, mix, ARRAY_SIZE(mix), 1000, UINT32_MAX);
		if (busy < 0.98)
			fail_msg("seed %d: busy %.4f", (int)seed, busy);
		for (size_t i = 0; i < ARRAY_SIZE(mix); i++) {
			uint64_t ns = estimate_time(&keyed.estimate, key_of(mix[i]), 1);
			uint64_t off = ns > mix[i] ? ns - mix[i] : mix[i] - ns;

			if (off > mix[i] / 8 + 800 * US)
				fail_msg("seed %d: %d us for %d", (int)seed, (int)(ns / US),
					(int)(mix[i] / US));
		}
		assert_true(keyed.estimate.spread_ns < WINDOW / 2);
		assert_true(alike.long_drains > 100);
		assert_true(keyed.long_drains < alike.long_drains / 2);
	}
}

static void ended(struct estimate *e, uint64_t issued, uint32_t subs, bool has_more, bool is_beside,
	uint64_t now)
{
	struct estimate_end end = {.has_more = has_more, .is_corun = is_beside};

	estimate_add(e, &end, issued, 0, subs);
	estimate_ended(e, &end, now);
}

static void late_looks_do_not_lengthen_the_estimate(void **state)
{
	struct estimate e = {0};
	uint64_t now = NSEC_PER_SEC;

	/* submissions of 1 ms, back to back, two always in flight, a look every 0.7 ms */
	for (uint64_t i = 1, k = 0; i < 2000; i++) {
		uint64_t at = now + i * 700 * US;
		uint64_t n = (at - now) / MS;

		if (n == k) {
			estimate_look(&e, at);
			continue;
		}
		ended(&e, now + (k ? k - 1 : 0) * MS, (uint32_t)(n - k), true, false, at);
		k = n;
	}
	assert_true(e.sub_ns > 980 * US && e.sub_ns < 1020 * US);
}

/* One kernel, then the program computes: no look saw the kernel's end. */
static void an_unseen_end_gives_only_a_guess(void **state)
{
	struct estimate e = {0};
	uint64_t now = NSEC_PER_SEC;

	estimate_look(&e, now);
	ended(&e, now, 1, false, false, now + 80 * MS);
	assert_true(e.is_guess && e.sub_ns == 80 * MS);
	now += NSEC_PER_SEC;
	ended(&e, now, 1, false, false, now + 5 * MS);
	assert_true(e.is_guess && e.sub_ns == 5 * MS && e.longest_ns == 5 * MS);
	/* now a second submission follows: the device has not idled in between */
	now += NSEC_PER_SEC;
	ended(&e, now, 2, true, false, now + 12 * MS);
	assert_true(!e.is_guess && e.sub_ns == 6 * MS);
	/* after an exact value, a late look gives only an upper bound */
	now += NSEC_PER_SEC;
	ended(&e, now, 1, false, false, now + 80 * MS);
	assert_true(e.sub_ns == 6 * MS && e.longest_ns < 7 * MS);
}

/* The first submission of a turn waits for the end of the other tenant's work. */
static void work_of_other_tenants_does_not_count(void **state)
{
	struct estimate e = {0};
	uint64_t now = NSEC_PER_SEC;

	ended(&e, now, 1, true, true, now + 30 * MS);
	assert_true(e.is_guess && e.sub_ns == 30 * MS);
	ended(&e, now, 1, true, false, now + 31 * MS);
	assert_true(!e.is_guess && e.sub_ns == MS);
	for (int i = 0; i < 100; i++) {
		now += NSEC_PER_SEC;
		ended(&e, now, 1, true, true, now + 4 * MS);
	}
	assert_true(e.sub_ns == MS && e.longest_ns <= MS && e.spread_ns < 50 * US);
}

/*
 * In each turn of one kernel, the gate opens before other tenants' work has ended: errors do not
 * add up.
 */
static void a_turn_begins_when_the_work_of_others_ends(void **state)
{
	struct estimate e = {0};
	uint64_t now = NSEC_PER_SEC;

	ended(&e, now, 1, true, false, now + 20 * MS);
	for (int turn = 0; turn < 100; turn++) {
		struct estimate_queue queue = {0};
		uint64_t issued = now + 40 * MS, began = issued + 400 * US;

		now = began + 20 * MS;
		estimate_began(&e, began);
		estimate_began(&e, 0);
		estimate_queue(&e, &queue, issued, 0, 1, began + 5 * MS);
		assert_true(queue.ns > 14900 * US && queue.ns < 15100 * US);
		estimate_look(&e, now - 50 * US);
		ended(&e, issued, 1, false, false, now);
	}
	assert_true(e.sub_ns > 19900 * US && e.sub_ns < 20100 * US && e.spread_ns < 100 * US);
}

static void the_distance_of_markers_follows_the_lengths(void **state)
{
	struct estimate e = {.sub_ns = 20 * US};
	uint32_t every = 1;

	assert_int_equal(estimate_every(&(struct estimate){0}, 7, WINDOW), 7);
	for (int i = 0; i < 20; i++)
		every = estimate_every(&e, every, WINDOW);
	assert_true(every * 20 * US >= WINDOW / 4 && every * 20 * US <= WINDOW / 2);
	e.sub_ns = 5 * MS;
	for (int i = 0; i < 20; i++)
		every = estimate_every(&e, every, WINDOW);
	assert_int_equal(every, 1);
	/* short on average, but with a large error */
	e = (struct estimate){.sub_ns = 20 * US, .rough_ns = 3 * MS};
	assert_int_equal(estimate_every(&e, 64, WINDOW), 32);
	e = (struct estimate){.sub_ns = 1};
	for (int i = 0; i < 20; i++)
		every = estimate_every(&e, every, WINDOW);
	assert_int_equal(every, 4096);
}

UNIT_MAIN(UNIT(even_lengths_are_found), UNIT(mixed_lengths_keep_the_device_busy),
	UNIT(kernels_are_estimated_separately), UNIT(late_looks_do_not_lengthen_the_estimate),
	UNIT(an_unseen_end_gives_only_a_guess), UNIT(work_of_other_tenants_does_not_count),
	UNIT(a_turn_begins_when_the_work_of_others_ends),
	UNIT(the_distance_of_markers_follows_the_lengths))
