/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds up weighted values for each point of a curve, and divides by the weight only when a caller
 * reads a mean. A point of weight 0 has no sample, and means over several points leave it out.
 * metrics_halve() adds neighbouring points, so the mean over all points stays the same. All state
 * is in struct metrics, and each run has its own.
 */
#include "replay/replay-metrics.h"

#include "base/cleanup.h"

#define X(id, name, about) name,
const char *const metrics_names[METRICS_N] = {METRICS_SERIES(X)};
#undef X

void metrics_add(struct metrics *m, const struct metrics_now *now, uint32_t at, double weight)
{
	m->n = MAX(m->n, at + 1);
	m->weight[at] += weight;
	for (int i = 0; i < METRICS_N; i++)
		m->sum[i][at] += now->value[i] * weight;
	for (uint32_t i = 0; i < m->n_rows; i++)
		m->row[i][at] += now->row[i] * weight;
}

static void metrics_halve_curve(double *x)
{
	for (uint32_t i = 0; i < METRICS_POINTS_MAX / 2; i++)
		x[i] = x[2 * i] + x[2 * i + 1];
	for (uint32_t i = METRICS_POINTS_MAX / 2; i < METRICS_POINTS_MAX; i++)
		x[i] = 0;
}

void metrics_halve(struct metrics *m)
{
	metrics_halve_curve(m->weight);
	for (int i = 0; i < METRICS_N; i++)
		metrics_halve_curve(m->sum[i]);
	for (uint32_t i = 0; i < m->n_rows; i++)
		metrics_halve_curve(m->row[i]);
	m->n = (m->n + 1) / 2;
	m->step *= 2;
}

static double at_point(const struct metrics *m, const double *sum, uint32_t at)
{
	at = MIN(at, METRICS_POINTS_MAX - 1);
	while (at && m->weight[at] <= 0)
		at--;
	return m->weight[at] > 0 ? sum[at] / m->weight[at] : 0;
}

uint32_t metrics_first(const struct metrics *m)
{
	uint32_t at = 0;

	while (at < m->n && m->weight[at] <= 0)
		at++;
	return at;
}

double metrics_at(const struct metrics *m, enum metrics_series series, uint32_t at)
{
	return at_point(m, m->sum[series], at);
}

double metrics_row_at(const struct metrics *m, uint32_t row, uint32_t at)
{
	return at_point(m, m->row[row], at);
}

static double mean_of(
	const struct metrics *m, enum metrics_series series, uint32_t first, uint32_t end)
{
	double sum = 0, weight = 0;

	for (uint32_t i = first; i < MIN(end, m->n); i++) {
		sum += m->sum[series][i];
		weight += m->weight[i];
	}
	return weight > 0 ? sum / weight : 0;
}

double metrics_mean_between(
	const struct metrics *m, enum metrics_series series, double from, double to)
{
	uint32_t first = 0, end;

	while (first < m->n && first * m->step < from)
		first++;
	for (end = first; end < m->n && (end + 1) * m->step <= to;)
		end++;
	return mean_of(m, series, first, end);
}

double metrics_mean(const struct metrics *m, enum metrics_series series)
{
	return mean_of(m, series, 0, m->n);
}
