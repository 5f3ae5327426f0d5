/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Draws the results of `divvy sim` as SVG pictures. Curves show means over the seeds with
 * confidence intervals. The map of a cluster has no mean, so it shows the first seed.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/fd.h"
#include "cmdline/plot.h"
#include "replay/stats.h"
#include "simcli/sim.h"

#define GRID 201 /* points of a curve over time */
#define HUNDREDTHS 101
#define BANDS_MAX 6
#define LAST_PERCENT 130.0
#define FULL_PERCENT 80.0 /* policies differ only above this load */
#define LEAST_S 1.0       /* start of the time axis */

/* One curve of a scheme, with its storage. */
struct curve {
	double x[GRID], y[GRID], spread[GRID];
	size_t n;
};

struct picture {
	const struct sim *sim;
	const char *folder;
	struct curve curve[SIM_SCHEMES_MAX];
	struct plot_series series[PLOT_SERIES_MAX];
	char subtitle[200];
	double end; /* end of the x axis, percent or seconds */
};

static int sim_pictures_save(const struct picture *p, const char *name, const char *scheme,
	const struct buf *svg, struct error *err)
{
	char path[4096];

	if (snprintf(path, sizeof(path), "%s/%s%s%s.svg", p->folder, name, scheme ? "-" : "",
		    scheme ? scheme : "") >= (int)sizeof(path))
		return fail(err, ENAMETOOLONG, "'%s'", p->folder);
	return file_replace(path, buf_str(svg), 0644, err);
}

static bool is_drop(const struct picture *p)
{
	return p->sim->mode == REPLAY_DROP;
}

static struct plot_axis x_axis(const struct picture *p)
{
	return is_drop(p) ? (struct plot_axis){"arrived: requested devices, % of the cluster's",
				    PLOT_PERCENT, 0, p->end, false}
			  : (struct plot_axis){
				    "time since the first arrival", PLOT_SECONDS, 0, p->end, false};
}

/*
 * Begins the x axis at FULL_PERCENT of the cluster's devices: policies differ only at higher loads.
 */
static struct plot_axis x_axis_full(const struct picture *p)
{
	struct plot_axis axis = x_axis(p);

	if (is_drop(p) && p->end > FULL_PERCENT)
		axis.min = FULL_PERCENT;
	return axis;
}

static void set_subtitle(struct picture *p, const char *what)
{
	snprintf(p->subtitle, sizeof(p->subtitle), "%s; %s", p->sim->title,
		p->sim->n_seeds > 1 ? what : "one run");
}

/*
 * Returns the index of the point for x. With a step of 1 (percent), x is rounded to the nearest
 * point. A longer step (time) covers the span that begins at its point.
 */
static uint32_t point_of(const struct metrics *m, double x)
{
	return (uint32_t)(m->step == 1 ? x + 0.5 : x / m->step);
}

/*
 * With REPLAY_QUEUE, a curve continues with the state after the run's end. With REPLAY_DROP, a
 * curve ends at the last arrival.
 */
static void make_curve(struct picture *p, uint32_t scheme, enum metrics_series series, double scale)
{
	const struct sim *sim = p->sim;
	struct curve *c = &p->curve[scheme];
	const size_t n_points = is_drop(p) ? (size_t)p->end + 1 : GRID;
	double x[SIM_SEEDS_MAX];

	c->n = 0;
	for (size_t i = 0; i < n_points; i++) {
		const double x_of = p->end * (double)i / (double)(n_points - 1);
		size_t n = 0;

		for (uint32_t k = 0; k < sim->n_seeds; k++) {
			const struct metrics *m = &sim_result(sim, scheme, k)->curves;
			const uint32_t at = point_of(m, x_of);

			/* there is no sample before the first arrival */
			if (is_drop(p) && at < metrics_first(m))
				continue;
			if (at < m->n)
				x[n++] = scale * metrics_at(m, series, at);
			else if (!is_drop(p))
				x[n++] = scale * m->after.value[series];
		}
		if (!n && c->n)
			return;
		if (!n)
			continue;
		c->x[c->n] = x_of;
		c->y[c->n] = stats_mean(x, n);
		c->spread[c->n++] = stats_interval(x, n);
	}
}

/* Returns the greatest value that the series can have, in the picture's unit. */
static double y_limit(const struct picture *p, enum metrics_series series)
{
	switch (series) {
	case METRICS_IN_USE: return p->sim->cluster.n_devices;
	case METRICS_WAITING: return p->sim->results[0]->n_tasks;
	default: return 100;
	}
}

/* Draws one curve for each scheme. With y.max 0 the axis ends at the highest value. */
static int draw_series(struct picture *p, enum metrics_series series, const char *file,
	const char *title, struct plot_axis y, struct error *err)
{
	_cleanup_buf_ struct buf svg = BUF_INIT(PLOT_MAX_BYTES);
	const struct plot_axis x = series == METRICS_ALLOCATED ? x_axis_full(p) : x_axis(p);
	const double scale = y.unit == PLOT_PERCENT ? 100
		: series == METRICS_WAITING         ? 1
						    : p->sim->cluster.n_devices;
	/* Too many overlapping bands would only leave a grey area. */
	const bool has_bands = p->sim->n_seeds > 1 && p->sim->n_schemes <= BANDS_MAX;
	double least = INFINITY, most = 0, most_of_bands = 0;
	int r;

	for (uint32_t s = 0; s < p->sim->n_schemes; s++) {
		const struct curve *c = &p->curve[s];

		make_curve(p, s, series, scale);
		for (size_t i = 0; i < c->n; i++) {
			const double band = has_bands ? c->spread[i] : 0;

			if (c->x[i] < x.min)
				continue;
			least = fmin(least, fmax(c->y[i] - band, 0));
			most = fmax(most, c->y[i]);
			most_of_bands = fmax(most_of_bands, c->y[i] + band);
		}
		p->series[s] = (struct plot_series){.name = p->sim->schemes[s].name,
			.x = c->x,
			.y = c->y,
			.spread = has_bands ? c->spread : NULL,
			.n = c->n};
	}
	if (x.min > 0)
		y.min = floor(fmin(least, 95) / 5) * 5;
	/* Schemes that ignore limits can place requests for more than the cluster's devices. */
	if (most > y.max && y.max > 0)
		y.max = ceil(most / 10) * 10;
	if (y.max <= 0)
		y.max = most > 0 ? fmax(fmin(most_of_bands * 1.15, y_limit(p, series)), most) : 1;
	set_subtitle(p,
		has_bands ? "mean over runs, band: 95% interval"
			  : "mean over runs, without bands for so many policies");
	r = plot_svg(&(struct plot){.title = title,
			     .subtitle = p->subtitle,
			     .simulated = true,
			     .x = x,
			     .y = y,
			     .series = p->series,
			     .n_series = p->sim->n_schemes},
		&svg, err);
	return r < 0 ? r : sim_pictures_save(p, file, NULL, &svg, err);
}

/* Draws the idle devices by reason. */
static int draw_idle(struct picture *p, uint32_t scheme, struct error *err)
{
	static const struct {
		enum metrics_series series;
		const char *name;
	} reason[] = {{METRICS_NO_CPU, "no CPU free"}, {METRICS_TOO_SMALL, "free share too small"},
		{METRICS_OTHER, "other reasons"}, {METRICS_OPEN, "open to tasks"}};
	_cleanup_buf_ struct buf svg = BUF_INIT(PLOT_MAX_BYTES);
	const struct plot_axis x = x_axis_full(p);
	_cleanup_free_ struct curve *curves = calloc(ARRAY_SIZE(reason), sizeof(*curves));
	double sum[GRID] = {0}, most = 1;
	char title[120];
	int r;

	if (!curves)
		return fail(err, ENOMEM, "out of memory for the picture");
	for (size_t i = 0; i < ARRAY_SIZE(reason); i++) {
		make_curve(p, scheme, reason[i].series, 100);
		curves[i] = p->curve[scheme];
		p->series[i] = (struct plot_series){.name = reason[i].name,
			.x = curves[i].x,
			.y = curves[i].y,
			.n = curves[i].n};
		for (size_t k = 0; k < curves[i].n; k++)
			sum[k] += curves[i].y[k];
	}
	for (size_t k = 0; k < curves[0].n; k++)
		if (curves[0].x[k] >= x.min)
			most = fmax(most, sum[k]);
	set_subtitle(p, "mean over runs");
	snprintf(title, sizeof(title), "Idle devices by reason: %s", p->sim->schemes[scheme].name);
	r = plot_svg(&(struct plot){.title = title,
			     .subtitle = p->subtitle,
			     .simulated = true,
			     .is_stacked = true,
			     .x = x,
			     .y = {"idle devices, % of the cluster's", PLOT_PERCENT, 0,
				     fmin(most * 1.05, 100), false},
			     .series = p->series,
			     .n_series = ARRAY_SIZE(reason)},
		&svg, err);
	return r < 0 ? r : sim_pictures_save(p, "idle", p->sim->schemes[scheme].name, &svg, err);
}

static int draw_cluster(struct picture *p, uint32_t scheme, struct error *err)
{
	const struct metrics *m = &sim_result(p->sim, scheme, 0)->curves;
	const size_t n = is_drop(p) ? (size_t)p->end + 1 : GRID;
	_cleanup_buf_ struct buf svg = BUF_INIT(PLOT_MAX_BYTES);
	_cleanup_free_ double *value = calloc(m->n_rows * n, sizeof(*value));
	char title[120], label[80];
	int r;

	if (!value)
		return fail(err, ENOMEM, "out of memory for the picture");
	for (uint32_t row = 0; row < m->n_rows; row++)
		for (size_t i = 0; i < n; i++) {
			const double x = p->end * (double)i / (double)(n - 1);
			const uint32_t at = (uint32_t)(is_drop(p) ? x : x / m->step);

			value[row * n + i] = at < m->n ? metrics_row_at(m, row, at) : 0;
		}
	set_subtitle(p, "the first run");
	snprintf(title, sizeof(title), "The cluster: %s", p->sim->schemes[scheme].name);
	if (m->n_rows == p->sim->cluster.n_devices)
		snprintf(label, sizeof(label), "devices");
	else
		snprintf(label, sizeof(label), "devices, %.0f in a row",
			(double)p->sim->cluster.n_devices / m->n_rows);
	r = plot_heat_svg(&(struct plot_heat){.title = title,
				  .subtitle = p->subtitle,
				  .simulated = true,
				  .x = x_axis(p),
				  .y_label = label,
				  .scale_label = is_drop(p) ? "allocated" : "busy",
				  .value = value,
				  .n_rows = m->n_rows,
				  .n_columns = n},
		&svg, err);
	return r < 0 ? r : sim_pictures_save(p, "cluster", p->sim->schemes[scheme].name, &svg, err);
}

/* Fraction of the tasks that got a place. */
static double placed_part(const struct sim *sim, uint32_t scheme)
{
	double sum = 0;

	for (uint32_t k = 0; k < sim->n_seeds; k++) {
		const struct replay_result *result = sim_result(sim, scheme, k);

		sum += (double)result->n_placed / result->n_tasks;
	}
	return sum / sim->n_seeds;
}

/*
 * Draws the fraction of tasks that waited (or took) at most a given time: quantiles of each seed,
 * averaged over the seeds.
 */
static int draw_distribution(
	struct picture *p, bool is_queued, const char *file, const char *title, struct error *err)
{
	_cleanup_buf_ struct buf svg = BUF_INIT(PLOT_MAX_BYTES);
	const struct sim *sim = p->sim;
	double least = INFINITY, most = LEAST_S * 10, placed = 0;
	int r;

	for (uint32_t s = 0; s < sim->n_schemes; s++) {
		struct curve *c = &p->curve[s];
		const double part = placed_part(sim, s);

		for (int i = 0; i < HUNDREDTHS; i++) {
			double x[SIM_SEEDS_MAX];
			size_t n = 0;

			for (uint32_t k = 0; k < sim->n_seeds; k++) {
				const struct replay_result *result = sim_result(sim, s, k);

				if (!result->n_placed)
					continue;
				x[n++] = stats_quantile(
					is_queued ? result->queued_s : result->completion_s,
					result->n_placed, i / 100.0);
			}
			c->x[i] = n ? fmax(stats_mean(x, n), LEAST_S) : LEAST_S;
			c->y[i] = i * part;
		}
		placed += part;
		c->n = HUNDREDTHS + 1;
		c->y[HUNDREDTHS] = c->y[HUNDREDTHS - 1];
		least = fmin(least, c->x[0]);
		most = fmax(most, c->x[HUNDREDTHS - 1]);
		p->series[s] = (struct plot_series){
			.name = sim->schemes[s].name, .x = c->x, .y = c->y, .n = c->n};
	}
	/* Every curve continues horizontally to the right edge, because no task takes longer. */
	for (uint32_t s = 0; s < sim->n_schemes; s++)
		p->curve[s].x[HUNDREDTHS] = most * 1.1;
	set_subtitle(p, "quantiles, mean over runs");
	if (placed <= 0)
		snprintf(p->subtitle, sizeof(p->subtitle), "%s; no task got a place", sim->title);
	r = plot_svg(&(struct plot){.title = title,
			     .subtitle = p->subtitle,
			     .simulated = true,
			     .x = {is_queued ? "time between arrival and start, at most (left "
					       "edge: 1 s or less)"
					     : "time between arrival and end, at most",
				     PLOT_SECONDS, least, most * 1.1, true},
			     .y = {"tasks", PLOT_PERCENT, 0, 100, false},
			     .series = p->series,
			     .n_series = sim->n_schemes},
		&svg, err);
	return r < 0 ? r : sim_pictures_save(p, file, NULL, &svg, err);
}

static double sim_pictures_end(const struct sim *sim)
{
	double end = 0;

	for (uint32_t i = 0; i < sim->n_schemes * sim->n_seeds; i++) {
		const struct metrics *m = &sim->results[i]->curves;

		end = fmax(end,
			sim->mode == REPLAY_DROP ? (double)(m->n - 1) : sim->results[i]->busy_s);
	}
	/* The last point varies with the last arrivals, so the axis ends at a fixed percentage. */
	return sim->mode == REPLAY_DROP ? fmin(fmax(end, 1), LAST_PERCENT) : fmax(end, 1);
}

static int draw_times(struct picture *p, struct error *err)
{
	const struct plot_axis share = {"devices, % of the cluster's", PLOT_PERCENT, 0, 100, false};
	int r = draw_series(
		p, METRICS_USED, "utilisation", "Utilisation: busy devices", share, err);

	r = r < 0
		? r
		: draw_series(p, METRICS_IN_USE, "in-use", "Devices in use",
			  (struct plot_axis){"devices with a task", PLOT_NUMBER, 0, 0, false}, err);
	r = r < 0 ? r
		  : draw_series(p, METRICS_WAITING, "waiting", "Tasks that wait",
			    (struct plot_axis){"tasks", PLOT_NUMBER, 0, 0, false}, err);
	r = r < 0 ? r : draw_distribution(p, true, "queueing-time", "Queueing time", err);
	return r < 0 ? r : draw_distribution(p, false, "completion-time", "Completion time", err);
}

int sim_draw(const struct sim *sim, const char *folder, struct error *err)
{
	_cleanup_free_ struct picture *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return fail(err, ENOMEM, "out of memory for the picture");
	*p = (struct picture){.sim = sim, .folder = folder, .end = sim_pictures_end(sim)};
	r = draw_series(p, METRICS_ALLOCATED, "allocated",
		is_drop(p) ? "Allocated against arrived" : "Allocated devices",
		(struct plot_axis){
			"requested by placed tasks, % of all devices", PLOT_PERCENT, 0, 100, false},
		err);
	r = r < 0 ? r
		  : draw_series(p, METRICS_FRAGMENTED, "fragmentation",
			    "Fragmentation: free, but too small for the typical task",
			    (struct plot_axis){
				    "devices, % of the cluster's", PLOT_PERCENT, 0, 0, false},
			    err);
	if (r == 0 && !is_drop(p))
		r = draw_times(p, err);
	for (uint32_t s = 0; r == 0 && s < sim->n_schemes; s++) {
		r = draw_idle(p, s, err);
		r = r < 0 ? r : draw_cluster(p, s, err);
	}
	return r;
}
