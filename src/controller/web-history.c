/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash table has one series for each tenant, and each series has two rings in the same
 * allocation. The value of a step is at the step's number modulo the ring's length. ring_put() sets
 * skipped steps to NOTHING, so a ring never shows values of steps before those that it covers. The
 * coarse value is the mean of all values that came in its step so far.
 */
#include "controller/web-history.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/hash.h"

/* marks a step without a measurement; no share is that large, even summed over 16 devices */
#define NOTHING UINT16_MAX
#define MIB (1u << 20)

/* A ring of measured values; the value of step s is at index s % n. */
struct ring {
	uint16_t *share;
	uint32_t *mib;
	uint32_t n, step_s;
	uint64_t last; /* newest step */
};

struct series {
	UT_hash_handle hh;
	struct ring fine, coarse;
	uint16_t fine_share[WEB_FINE_N], coarse_share[WEB_COARSE_N];
	uint32_t fine_mib[WEB_FINE_N], coarse_mib[WEB_COARSE_N];
	/* Sums of the values in the current coarse step, for its mean. */
	uint64_t sum_share, sum_mib;
	uint32_t n_summed;
	char key[];
};

struct web_history {
	struct series *series;
	uint32_t n, max;
};

int web_history_new(uint32_t max_tenants, struct web_history **ret_history)
{
	struct web_history *history = calloc(1, sizeof(*history));

	if (!history)
		return -ENOMEM;
	history->max = max_tenants;
	*ret_history = history;
	return 0;
}

static struct series *web_history_find_series(const struct web_history *history, const char *key)
{
	struct series *series;

	HASH_FIND_STR(history->series, key, series);
	return series;
}

static void series_free(struct web_history *history, struct series *series)
{
	HASH_DEL(history->series, series);
	free(series);
	history->n--;
}

void web_history_forget(struct web_history *history, const char *key)
{
	struct series *series = web_history_find_series(history, key);

	if (series)
		series_free(history, series);
}

void web_history_free(struct web_history *history)
{
	struct series *series, *next;

	if (!history)
		return;
	HASH_ITER(hh, history->series, series, next)
		series_free(history, series);
	free(history);
}

uint32_t web_history_count(const struct web_history *history)
{
	return history->n;
}

static void ring_init(
	struct ring *ring, uint16_t *share, uint32_t *mib, uint32_t n, uint32_t step_s)
{
	*ring = (struct ring){share, mib, n, step_s, 0};
	for (uint32_t i = 0; i < n; i++)
		share[i] = NOTHING;
}

static void ring_put(struct ring *ring, uint64_t step, uint16_t share, uint32_t mib)
{
	const uint64_t passed = step > ring->last ? step - ring->last : 0;

	for (uint64_t i = 1; i < passed && i <= ring->n; i++)
		ring->share[(ring->last + i) % ring->n] = NOTHING;
	ring->last = MAX(ring->last, step);
	ring->share[step % ring->n] = share;
	ring->mib[step % ring->n] = mib;
}

static struct series *web_history_series_new(struct web_history *history, const char *key)
{
	const size_t n = strlen(key);
	struct series *series = calloc(1, sizeof(*series) + n + 1);

	if (!series)
		return NULL;
	memcpy(series->key, key, n + 1);
	ring_init(&series->fine, series->fine_share, series->fine_mib, WEB_FINE_N, WEB_FINE_S);
	ring_init(&series->coarse, series->coarse_share, series->coarse_mib, WEB_COARSE_N,
		WEB_COARSE_S);
	HASH_ADD_KEYPTR(hh, history->series, series->key, n, series);
	history->n++;
	return series;
}

int web_history_add(struct web_history *history, const char *key, uint32_t share_permille,
	uint64_t memory_bytes, uint64_t now_s)
{
	const uint64_t coarse = now_s / WEB_COARSE_S;
	const uint16_t share = (uint16_t)MIN(share_permille, NOTHING - 1u);
	const uint32_t mib = (uint32_t)MIN(memory_bytes / MIB, (uint64_t)UINT32_MAX);
	struct series *series = web_history_find_series(history, key);

	if (!series && history->n >= history->max)
		return -ENOSPC;
	if (!series && !(series = web_history_series_new(history, key)))
		return -ENOMEM;
	if (coarse != series->coarse.last)
		series->sum_share = series->sum_mib = series->n_summed = 0;
	series->sum_share += share;
	series->sum_mib += mib;
	series->n_summed++;
	ring_put(&series->fine, now_s / WEB_FINE_S, share, mib);
	ring_put(&series->coarse, coarse, (uint16_t)(series->sum_share / series->n_summed),
		(uint32_t)(series->sum_mib / series->n_summed));
	return 0;
}

/* Formats the values of the steps from `from` to `to`. A step after the newest value is null. */
static void format_values(
	const struct ring *ring, uint64_t from, uint64_t to, bool is_share, struct buf *out)
{
	for (uint64_t step = from; step <= to; step++) {
		const uint32_t at = (uint32_t)(step % ring->n);

		if (step > from)
			buf_add_byte(out, ',');
		if (step > ring->last || ring->share[at] == NOTHING)
			buf_add_text(out, "null");
		else
			buf_addf(out, "%" PRIu32, is_share ? ring->share[at] : ring->mib[at]);
	}
}

static void format_ring(const struct ring *ring, uint64_t now_s, struct buf *out)
{
	const uint64_t to = MAX(now_s / ring->step_s, ring->last);
	uint64_t from = to >= ring->n ? to - ring->n + 1 : 0;

	while (from <= ring->last && ring->share[from % ring->n] == NOTHING)
		from++;
	buf_addf(out, "{\"step\":%" PRIu32 ",\"ago\":%" PRIu64 ",\"share\":[", ring->step_s,
		now_s > to * ring->step_s ? now_s - to * ring->step_s : 0);
	format_values(ring, from, to, true, out);
	buf_add_text(out, "],\"mib\":[");
	format_values(ring, from, to, false, out);
	buf_add_text(out, "]}");
}

int web_history_format(
	const struct web_history *history, const char *key, uint64_t now_s, struct buf *out)
{
	const struct series *series = web_history_find_series(history, key);

	if (!series)
		return -ENOENT;
	buf_add_text(out, "{\"fine\":");
	format_ring(&series->fine, now_s, out);
	buf_add_text(out, ",\"coarse\":");
	format_ring(&series->coarse, now_s, out);
	return buf_add_byte(out, '}');
}
