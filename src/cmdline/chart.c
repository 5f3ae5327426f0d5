/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file draws a chart from back to front: titles, axes, areas, lines, and the labels beside the
 * last points. All constants at the top are in units of the SVG picture, and chart_y_of() limits a
 * share to 0..1. A negative share splits the line or area of a tenant into separate paths. The
 * stacked style sums the lower series up in a static array, so only one thread may draw at a time.
 */
#include "cmdline/chart.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

#include "base/format.h"
#include "cmdline/svg.h"

#define WIDTH 960.0
#define HEIGHT 440.0
#define LEFT 62.0
#define RIGHT 214.0
#define TOP 84.0
#define BOTTOM 56.0
#define PLOT_WIDTH (WIDTH - LEFT - RIGHT)
#define PLOT_HEIGHT (HEIGHT - TOP - BOTTOM)
#define LABEL_HEIGHT 38.0

static double chart_x_of(const struct chart *c, size_t i)
{
	return LEFT + PLOT_WIDTH * (c->n_points > 1 ? (double)i / (double)(c->n_points - 1) : 0.5);
}

static double chart_y_of(double share)
{
	const double clamped = share < 0 ? 0 : share > 1 ? 1 : share;

	return TOP + PLOT_HEIGHT * (1 - clamped);
}

static double chart_mean_share(const struct chart *c, const struct chart_series *s)
{
	double sum = 0;
	size_t n = 0;

	for (size_t i = 0; i < c->n_points; i++) {
		if (s->share[i] < 0)
			continue;
		sum += s->share[i];
		n++;
	}
	return n ? sum / (double)n : 0;
}

/*
 * Returns the step for about `wanted` ticks: 1, 2 or 5 times a power of ten. Above 10 s the step is
 * a usual time such as 30 s.
 */
static double nice_step(double span, double wanted)
{
	static const double minute[] = {15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400};
	const double raw = span / wanted;
	const double power = pow(10, floor(log10(raw)));

	if (raw > 10)
		for (size_t i = 0; i < ARRAY_SIZE(minute); i++)
			if (minute[i] >= raw)
				return minute[i];
	return raw <= power        ? power
		: raw <= 2 * power ? 2 * power
		: raw <= 5 * power ? 5 * power
				   : 10 * power;
}

static void add_x_label(double t, double step, struct buf *out)
{
	const char *sign = t < 0 ? "\xe2\x88\x92" : "";

	t = fabs(t);
	if (step >= 60)
		buf_addf(out, "%s%.0f min", sign, t / 60);
	else
		buf_addf(out, "%s%.*f s", sign, step < 1 ? 1 : 0, t);
}

static void add_axes(const struct chart *c, struct buf *out)
{
	const double span = c->step_s * (double)(c->n_points > 1 ? c->n_points - 1 : 1);
	const double step = nice_step(span, 8);
	const double end = c->start_s + span + step * 1e-6;

	buf_add_text(out, "<g stroke=\"" SVG_GRID "\">\n");
	for (int i = 0; i <= 4; i++)
		buf_addf(out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"%s/>\n", LEFT,
			chart_y_of(i * 0.25), LEFT + PLOT_WIDTH, chart_y_of(i * 0.25),
			i ? "" : " stroke=\"#9aa5b1\"");
	buf_add_text(out, "</g>\n<g fill=\"" SVG_PALE "\" font-size=\"12\">\n");
	for (int i = 0; i <= 4; i++)
		buf_addf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%d%%</text>\n",
			LEFT - 9, chart_y_of(i * 0.25) + 4, i * 25);
	for (double t = ceil(c->start_s / step - 1e-6) * step; t <= end; t += step) {
		const double x = LEFT + PLOT_WIDTH * (t - c->start_s) / span;

		buf_addf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">", x,
			HEIGHT - BOTTOM + 20);
		add_x_label(t, step, out);
		buf_add_text(out, "</text>\n");
	}
	buf_add_text(out, "</g>\n");
}

/* Adds points from i on while the tenant is present; returns the index after the last. */
static size_t add_run(const struct chart *c, const struct chart_series *s, const double *base,
	size_t i, struct buf *out)
{
	const char *verb = "M";

	for (; i < c->n_points && s->share[i] >= 0; i++) {
		buf_addf(out, "%s%.1f,%.1f", verb, chart_x_of(c, i),
			chart_y_of(s->share[i] + (base ? base[i] : 0)));
		verb = " ";
	}
	return i;
}

static void add_area(const struct chart *c, const struct chart_series *s, const double *base,
	const char *attributes, struct buf *out)
{
	for (size_t i = 0; i < c->n_points;) {
		size_t end;

		if (s->share[i] < 0) {
			i++;
			continue;
		}
		buf_addf(out, "<path %s d=\"", attributes);
		end = add_run(c, s, base, i, out);
		for (size_t j = end; j > i; j--)
			buf_addf(out, " %.1f,%.1f", chart_x_of(c, j - 1),
				chart_y_of(base ? base[j - 1] : 0));
		buf_add_text(out, "Z\"/>\n");
		i = end;
	}
}

static void chart_add_line(
	const struct chart *c, const struct chart_series *s, const char *colour, struct buf *out)
{
	for (size_t i = 0; i < c->n_points;) {
		if (s->share[i] < 0) {
			i++;
			continue;
		}
		buf_addf(out,
			"<path fill=\"none\" stroke=\"%s\" stroke-width=\"2.2\" "
			"stroke-linejoin=\"round\" d=\"",
			colour);
		i = add_run(c, s, NULL, i, out);
		buf_add_text(out, "\"/>\n");
	}
}

static void chart_add_requested(const struct chart *c, const struct chart_series *s, double share,
	const char *colour, struct buf *out)
{
	size_t first = 0, last = c->n_points;

	while (first < last && s->share[first] < 0)
		first++;
	while (last > first && s->share[last - 1] < 0)
		last--;
	if (first == last)
		return;
	buf_addf(out,
		"<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" "
		"stroke-width=\"1.3\" stroke-dasharray=\"6 4\"/>\n",
		chart_x_of(c, first), chart_y_of(share), chart_x_of(c, last - 1), chart_y_of(share),
		colour);
}

static void add_labels(const struct chart *c, double *y, struct buf *out)
{
	const double x = LEFT + PLOT_WIDTH + 16;

	svg_place_labels(y, c->n_series, LABEL_HEIGHT, HEIGHT - BOTTOM);
	for (size_t i = 0; i < c->n_series; i++) {
		const struct chart_series *s = &c->series[i];
		const double got = s->got >= 0 ? s->got : chart_mean_share(c, s);

		buf_addf(out,
			"<rect x=\"%.1f\" y=\"%.1f\" width=\"4\" height=\"30\" rx=\"2\" "
			"fill=\"%s\"/>\n",
			x, y[i] - 15, svg_colour(i));
		buf_addf(out, "<text x=\"%.1f\" y=\"%.1f\" font-weight=\"600\" fill=\"%s\">",
			x + 12, y[i] - 2, svg_colour(i));
		svg_add_text(out, s->name);
		buf_addf(out,
			"</text>\n<text x=\"%.1f\" y=\"%.1f\" font-size=\"12\" fill=\"" SVG_PALE
			"\">used %.1f%%, requested %s</text>\n",
			x + 12, y[i] + 14, got * 100, format_percent(s->requested_permille).s);
	}
}

static void chart_add_lines(const struct chart *c, double *ret_y, struct buf *out)
{
	char attributes[80];

	for (size_t i = 0; i < c->n_series; i++) {
		snprintf(attributes, sizeof(attributes), "fill=\"%s\" fill-opacity=\"0.07\"",
			svg_colour(i));
		add_area(c, &c->series[i], NULL, attributes, out);
	}
	for (size_t i = 0; i < c->n_series; i++) {
		const struct chart_series *s = &c->series[i];
		size_t last = c->n_points - 1;

		chart_add_requested(c, s, s->requested_permille / 1000.0, svg_colour(i), out);
		chart_add_line(c, s, svg_colour(i), out);
		while (last > 0 && s->share[last] < 0)
			last--;
		ret_y[i] = chart_y_of(s->share[last]);
	}
}

static void add_stacked(const struct chart *c, double *ret_y, struct buf *out)
{
	static double base[CHART_POINTS_MAX];
	uint32_t asked = 0;
	char attributes[120];

	memset(base, 0, sizeof(base));
	for (size_t i = 0; i < c->n_series; i++) {
		const struct chart_series *s = &c->series[i];
		size_t last = c->n_points - 1;

		snprintf(attributes, sizeof(attributes),
			"fill=\"%s\" fill-opacity=\"0.82\" stroke=\"#ffffff\" stroke-width=\"0.8\"",
			svg_colour(i));
		add_area(c, s, base, attributes, out);
		while (last > 0 && s->share[last] < 0)
			last--;
		ret_y[i] = chart_y_of(base[last] + s->share[last] / 2);
		for (size_t j = 0; j < c->n_points; j++)
			base[j] += s->share[j] < 0 ? 0 : s->share[j];
	}
	for (size_t i = 0; i + 1 < c->n_series; i++) {
		asked += c->series[i].requested_permille;
		chart_add_requested(c, &c->series[i], asked / 1000.0, SVG_INK, out);
	}
}

int chart_svg(const struct chart *c, struct buf *out, struct error *err)
{
	double y[CHART_SERIES_MAX] = {0};

	if (!c->n_points || !c->n_series || !(c->step_s > 0))
		return fail(err, EINVAL,
			"no tenant or no point in time to draw; expected at least one "
			"of each");
	if (c->n_points > CHART_POINTS_MAX || c->n_series > CHART_SERIES_MAX)
		return fail(err, E2BIG,
			"%zu tenants and %zu points are too many for a picture; at most %d and "
			"%d are allowed",
			c->n_series, c->n_points, CHART_SERIES_MAX, CHART_POINTS_MAX);
	svg_begin(&(struct svg_frame){.title = c->title,
			  .subtitle = c->subtitle,
			  .simulated = c->simulated,
			  .width = WIDTH,
			  .height = HEIGHT,
			  .left = LEFT},
		out);
	add_axes(c, out);
	if (c->style == CHART_STACKED)
		add_stacked(c, y, out);
	else
		chart_add_lines(c, y, out);
	add_labels(c, y, out);
	buf_addf(out,
		"<text x=\"%.1f\" y=\"%.1f\" font-size=\"11.5\" fill=\"" SVG_PALE
		"\">dashed: requested</text>\n",
		LEFT + PLOT_WIDTH + 16, HEIGHT - 16);
	buf_add_text(out, "</svg>\n");
	return buf_error(out) < 0 ? fail(err, -buf_error(out), "picture") : 0;
}
