/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Curves of a placement simulation. A point of a curve is the weighted mean of its samples. All
 * points have the same width: 1 % of arrived requests, or a span of time. If a run lasts longer
 * than all points together, metrics_halve() doubles the width. The values are floating point and
 * only for display; no decision depends on them. Pure.
 */
#ifndef REPLAY_REPLAY_METRICS_H
#define REPLAY_REPLAY_METRICS_H

#include <stdint.h>

#define METRICS_POINTS_MAX 256u
#define METRICS_ROWS_MAX 64u

/*
 * The name of each curve and its meaning. Values are fractions of all devices; only `waiting`
 * counts tasks. Under a scheme with limits, free is the part of a device that the scheme has not
 * given away. Without limits, free is the part that no task requested. Fragmentation uses the
 * original requests of the tasks, so that schemes can be compared. The idle reasons use the
 * requests as adapted by the scheme, which can be smaller. So under a scheme without limits, a
 * device can be "open" although its free share is too small for the original request.
 */
#define METRICS_SERIES(X) \
	X(ALLOCATED, "allocated", "requested by tasks that have a place") \
	X(USED, "used", "busy; without times: allocated, at most all of each device") \
	X(IN_USE, "in_use", "with at least one task") \
	X(FRAGMENTED, "fragmentation", "free, but too small for the typical task") \
	X(NO_CPU, "idle_no_cpu", "free, on nodes without CPU or memory for the task") \
	X(TOO_SMALL, "idle_too_small", "free, with a share left that is too small for the task") \
	X(OTHER, "idle_other", "free, for another reason: model, device memory, number") \
	X(OPEN, "idle_open", "free, and the task fits there") \
	X(WAITING, "waiting", "tasks that have arrived and have no place")

#define X(id, name, about) METRICS_##id,
enum metrics_series { METRICS_SERIES(X) METRICS_N };
#undef X

extern const char *const metrics_names[METRICS_N];

struct metrics_now {
	double value[METRICS_N];
	double row[METRICS_ROWS_MAX]; /* load of a part of the cluster, 0 to 1 */
};

struct metrics {
	uint32_t n; /* number of points */
	uint32_t n_rows;
	/* width of a point: percent of arrived requests, or seconds */
	double step;
	double weight[METRICS_POINTS_MAX]; /* 0: the point has no sample */
	double sum[METRICS_N][METRICS_POINTS_MAX];
	double row[METRICS_ROWS_MAX][METRICS_POINTS_MAX];
	/* state after the last task ended, or after the last arrival in a run without time */
	struct metrics_now after;
};

/* Adds a sample to point `at`, which must be below METRICS_POINTS_MAX. */
void metrics_add(struct metrics *m, const struct metrics_now *now, uint32_t at, double weight);
/* Merges each pair of neighbouring points into one point and doubles the step. */
void metrics_halve(struct metrics *m);

/* Returns the first point that has a sample, or n. */
uint32_t metrics_first(const struct metrics *m);
/*
 * Returns the mean at a point. A point without a sample has the value of the nearest earlier point
 * that has a sample, or 0.
 */
double metrics_at(const struct metrics *m, enum metrics_series series, uint32_t at);
double metrics_row_at(const struct metrics *m, uint32_t row, uint32_t at);
/*
 * Returns the mean over the points that lie completely between `from` and `to`, in the units of
 * `step`.
 */
double metrics_mean_between(
	const struct metrics *m, enum metrics_series series, double from, double to);
/* Returns the mean over all points. */
double metrics_mean(const struct metrics *m, enum metrics_series series);

#endif
