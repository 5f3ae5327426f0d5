/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Curves of a replay: means of figures over points of equal width (1 % arrived, or a span of time),
 * and how loaded each part of the cluster was. Time that outgrows the points doubles their width.
 * Floating point, for people to look at: nothing decides by it. Pure.
 */
#ifndef REPLAY_METRICS_H
#define REPLAY_METRICS_H

#include <stdint.h>

#define METRICS_POINTS_MAX 256u
#define METRICS_ROWS_MAX 64u

/*
 * Name, what it is. All but `waiting` (tasks) are devices, as parts of all devices. Free is what
 * nobody has been given, or, where there are no limits, what nobody has asked for. Fragmentation is
 * by what tasks ask, so that schemes can be compared; why devices are idle by what the scheme lets
 * them have, which may be less than they ask: what is open without limits may be too little.
 */
#define METRICS_SERIES(X) \
	X(ALLOCATED, "allocated", "asked for by those that have a place") \
	X(USED, "used", "worked on; without time: allocated, at most all of each device") \
	X(IN_USE, "in_use", "with somebody on them") \
	X(FRAGMENTED, "fragmentation", "free, and too little for what the typical task asks") \
	X(NO_CPU, "idle_no_cpu", "free, on nodes without CPU or memory for the task") \
	X(TOO_SMALL, "idle_too_small", "free, with a share left that is too small for the task") \
	X(OTHER, "idle_other", "free, and it is for another reason: model, device memory, number") \
	X(OPEN, "idle_open", "free, and the task could have them") \
	X(WAITING, "waiting", "tasks that have come and have no place")

#define X(id, name, about) METRICS_##id,
enum metrics_series { METRICS_SERIES(X) METRICS_N };
#undef X

extern const char *const metrics_names[METRICS_N];

struct metrics_now {
	double value[METRICS_N];
	double row[METRICS_ROWS_MAX]; /* 0..1: the load of a part of the cluster */
};

struct metrics {
	uint32_t n; /* points */
	uint32_t n_rows;
	double step;                       /* of a point: percent arrived, or seconds */
	double weight[METRICS_POINTS_MAX]; /* 0: nothing was seen there */
	double sum[METRICS_N][METRICS_POINTS_MAX];
	double row[METRICS_ROWS_MAX][METRICS_POINTS_MAX];
	struct metrics_now after; /* when all have ended, or without times have come */
};

/* at: below METRICS_POINTS_MAX. */
void metrics_add(struct metrics *m, const struct metrics_now *now, uint32_t at, double weight);
/* Two points become one; the step doubles. */
void metrics_halve(struct metrics *m);

/* The first point at which anything was seen; n: there is none. */
uint32_t metrics_first(const struct metrics *m);
/* The mean at a point; where nothing was seen that of the nearest before it, or 0. */
double metrics_at(const struct metrics *m, enum metrics_series series, uint32_t at);
double metrics_row_at(const struct metrics *m, uint32_t row, uint32_t at);
/* Over the points that are altogether between the two, in units of the step. */
double metrics_mean_between(
	const struct metrics *m, enum metrics_series series, double from, double to);
/* Over all points. */
double metrics_mean(const struct metrics *m, enum metrics_series series);

#endif
