/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file draws plots on a canvas of fixed size, which the macros below divide into margins and
 * the plot area. plot_x_of() and plot_y_of() map a value to a pixel, and clamp the value to its
 * axis first. All functions append to the caller's buffer, and plot_svg() and plot_heat_svg() check
 * the buffer's error once at the end. A heat map has SHADES colours, and one rectangle covers all
 * neighbours of one colour in a row. add_stack() sums in a static array, so only one thread at a
 * time may draw stacked areas.
 */
#include "cmdline/plot.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

#define WIDTH 960.0
#define HEIGHT 460.0
#define LEFT 78.0
#define RIGHT 216.0
#define TOP 84.0
#define BOTTOM 66.0
#define PLOT_WIDTH (WIDTH - LEFT - RIGHT)
#define PLOT_HEIGHT (HEIGHT - TOP - BOTTOM)
#define LABEL_HEIGHT 19.0
#define MARKS 8.0 /* number of marks across the plot */
#define TICKS 7.0
#define FINE_RATIO 1000.0 /* a logarithmic axis with a lower max / min has room for more ticks */

static double plot_axis_part(const struct plot_axis *axis, double value)
{
	const double clamped = fmin(fmax(value, axis->min), axis->max);

	if (axis->is_log)
		return log(clamped / axis->min) / log(axis->max / axis->min);
	return (clamped - axis->min) / (axis->max - axis->min);
}

static double plot_x_of(const struct plot_axis *axis, double value)
{
	return LEFT + PLOT_WIDTH * plot_axis_part(axis, value);
}

static double plot_y_of(const struct plot_axis *axis, double value)
{
	return TOP + PLOT_HEIGHT * (1 - plot_axis_part(axis, value));
}

/* ---- axes ---- */

/* Returns the step between ticks: 1, 2 or 5 times a power of ten; for seconds a usual step. */
static double step_of(const struct plot_axis *axis)
{
	static const double known[] = {
		15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 21600, 43200, 86400};
	const double raw = (axis->max - axis->min) / TICKS;
	const double power = pow(10, floor(log10(raw)));

	if (axis->unit == PLOT_SECONDS && raw > 10 && raw <= 86400)
		for (size_t i = 0; i < ARRAY_SIZE(known); i++)
			if (known[i] >= raw)
				return known[i];
	if (axis->unit == PLOT_SECONDS && raw > 86400)
		return 86400 * ceil(raw / 86400);
	return power * (raw <= power ? 1 : raw <= 2 * power ? 2 : raw <= 5 * power ? 5 : 10);
}

/* Adding 0 avoids "-0" for a negative value that is rounded to zero. */
static double first_tick(const struct plot_axis *axis, double step)
{
	return ceil(axis->min / step - 1e-6) * step + 0.0;
}

/* fine: the distance between ticks, in the axis' own unit. */
static void plot_add_axis_value(
	const struct plot_axis *axis, double value, double fine, struct buf *out)
{
	static const struct {
		double s;
		const char *name;
	} unit[] = {{86400, "d"}, {3600, "h"}, {60, "min"}};
	const int digits = fine < 0.1 ? 2 : fine < 1 ? 1 : 0;

	if (axis->unit == PLOT_SECONDS && value > 0)
		for (size_t i = 0; i < ARRAY_SIZE(unit); i++)
			if (fine >= unit[i].s && value >= unit[i].s) {
				buf_addf(out, "%g %s", round(value / unit[i].s * 10) / 10,
					unit[i].name);
				return;
			}
	buf_addf(out, "%.*f%s", digits, value,
		axis->unit == PLOT_PERCENT           ? "%"
			: axis->unit == PLOT_SECONDS ? " s"
						     : "");
}

static void add_x_tick(const struct plot_axis *axis, double value, double fine, struct buf *out)
{
	const double x = plot_x_of(axis, value);

	buf_addf(out,
		"<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#9aa5b1\"/>\n"
		"<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">",
		x, HEIGHT - BOTTOM, x, HEIGHT - BOTTOM + 5, x, HEIGHT - BOTTOM + 20);
	plot_add_axis_value(axis, value, fine, out);
	buf_add_text(out, "</text>\n");
}

static void add_x_axis(const struct plot_axis *axis, struct buf *out)
{
	static const double coarse[] = {
		0.001, 0.01, 0.1, 1, 10, 60, 600, 3600, 36000, 86400, 864000, 8640000};
	static const double fine[] = {0.001, 0.01, 0.1, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600,
		1200, 1800, 3600, 7200, 18000, 36000, 86400, 172800, 432000, 864000, 8640000};
	const bool is_fine = axis->is_log && axis->max / axis->min < FINE_RATIO;
	const double *known = is_fine ? fine : coarse;
	const size_t n_known = is_fine ? ARRAY_SIZE(fine) : ARRAY_SIZE(coarse);
	const double step = step_of(axis);

	buf_add_text(out, "<g fill=\"" SVG_PALE "\" font-size=\"12\">\n");
	if (axis->is_log) {
		for (size_t i = 0; i < n_known; i++)
			if (known[i] >= axis->min && known[i] <= axis->max)
				add_x_tick(axis, known[i], known[i], out);
	} else {
		for (double x = first_tick(axis, step); x <= axis->max + step * 1e-6; x += step)
			add_x_tick(axis, x, step, out);
	}
	buf_addf(out,
		"<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" font-size=\"13\" "
		"fill=\"" SVG_INK "\">",
		LEFT + PLOT_WIDTH / 2, HEIGHT - 20);
	svg_add_text(out, axis->label);
	buf_add_text(out, "</text>\n</g>\n");
}

static void add_y_label(const char *label, struct buf *out)
{
	buf_addf(out,
		"<text transform=\"translate(24 %.1f) rotate(-90)\" text-anchor=\"middle\" "
		"fill=\"" SVG_INK "\">",
		TOP + PLOT_HEIGHT / 2);
	svg_add_text(out, label);
	buf_add_text(out, "</text>\n");
}

static void add_y_axis(const struct plot_axis *axis, struct buf *out)
{
	const double step = step_of(axis);

	for (double y = first_tick(axis, step); y <= axis->max + step * 1e-6; y += step) {
		buf_addf(out,
			"<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>\n"
			"<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\" font-size=\"12\" "
			"fill=\"" SVG_PALE "\">",
			LEFT, plot_y_of(axis, y), LEFT + PLOT_WIDTH, plot_y_of(axis, y),
			y <= axis->min + step * 1e-6 ? "#9aa5b1" : SVG_GRID, LEFT - 9,
			plot_y_of(axis, y) + 4);
		plot_add_axis_value(axis, y, step, out);
		buf_add_text(out, "</text>\n");
	}
	add_y_label(axis->label, out);
}

/* ---- curves ---- */

static bool plot_is_shown(const struct plot *p, double x)
{
	return x >= p->x.min && x <= p->x.max;
}

/*
 * Appends the points (x, y + sign * spread) of the series, the last one first if sign < 0. `verb`
 * is the SVG path command before the first point.
 */
static void add_points(const struct plot *p, const struct plot_series *s, double sign,
	const char *verb, struct buf *out)
{
	for (size_t k = 0; k < s->n; k++) {
		const size_t i = sign < 0 ? s->n - 1 - k : k;
		const double spread = s->spread ? s->spread[i] * sign : 0;

		if (!plot_is_shown(p, s->x[i]))
			continue;
		buf_addf(out, "%s%.1f,%.1f", verb, plot_x_of(&p->x, s->x[i]),
			plot_y_of(&p->y, s->y[i] + spread));
		verb = " ";
	}
}

static void add_band(const struct plot *p, size_t at, struct buf *out)
{
	buf_addf(out, "<path fill=\"%s\" fill-opacity=\"0.16\" d=\"", svg_colour(at));
	add_points(p, &p->series[at], 1, "M", out);
	add_points(p, &p->series[at], -1, " ", out);
	buf_add_text(out, "Z\"/>\n");
}

/*
 * Dashes distinguish lines without colours; marks help if there are more lines than dash patterns.
 */
static const char *const dashes[] = {"none", "8 4", "3 3", "10 3 2 3", "14 5", "5 2 1 2 1 2"};
static const char *const marks[] = {"M-4,0A4,4 0 1 1 4,0A4,4 0 1 1 -4,0Z", "M-4,-4H4V4H-4Z",
	"M0,-5L5,4H-5Z", "M0,-6L5,0L0,6L-5,0Z", "M0,5L5,-4H-5Z"};

static bool is_marked(const struct plot *p)
{
	return !p->is_stacked && p->n_series > ARRAY_SIZE(dashes);
}

static void add_mark(size_t series, double x, double y, struct buf *out)
{
	buf_addf(out,
		"<path transform=\"translate(%.1f %.1f)\" fill=\"%s\" stroke=\"#ffffff\" "
		"d=\"%s\"/>\n",
		x, y, svg_colour(series), marks[series % ARRAY_SIZE(marks)]);
}

/* Each line has its marks at other x positions, so that marks of identical lines stay visible. */
static void add_marks(const struct plot *p, size_t series, struct buf *out)
{
	const struct plot_series *s = &p->series[series];
	const double apart = PLOT_WIDTH / MARKS;
	double next = LEFT + apart * ((double)series + 0.5) / (double)p->n_series;

	for (size_t i = 1; i < s->n; i++) {
		const double x[2] = {plot_x_of(&p->x, s->x[i - 1]), plot_x_of(&p->x, s->x[i])};
		const double y[2] = {plot_y_of(&p->y, s->y[i - 1]), plot_y_of(&p->y, s->y[i])};

		if (!plot_is_shown(p, s->x[i - 1]) || !plot_is_shown(p, s->x[i]))
			continue;
		while (next < x[0])
			next += apart;
		for (; next < x[1]; next += apart)
			add_mark(series, next, y[0] + (y[1] - y[0]) * (next - x[0]) / (x[1] - x[0]),
				out);
	}
}

static void plot_add_lines(const struct plot *p, double *ret_y, struct buf *out)
{
	for (size_t i = 0; i < p->n_series; i++)
		if (p->series[i].spread)
			add_band(p, i, out);
	for (size_t i = 0; i < p->n_series; i++) {
		struct plot_series line = p->series[i];
		size_t last = line.n - 1;

		line.spread = NULL;
		buf_addf(out,
			"<path fill=\"none\" stroke=\"%s\" stroke-width=\"2.2\" "
			"stroke-linejoin=\"round\" stroke-dasharray=\"%s\" d=\"",
			svg_colour(i), dashes[i % ARRAY_SIZE(dashes)]);
		add_points(p, &line, 1, "M", out);
		buf_add_text(out, "\"/>\n");
		while (last && !plot_is_shown(p, line.x[last]))
			last--;
		ret_y[i] = plot_y_of(&p->y, line.y[last]);
	}
	for (size_t i = 0; i < p->n_series && is_marked(p); i++)
		add_marks(p, i, out);
}

static void add_stack(const struct plot *p, double *ret_y, struct buf *out)
{
	static double base[PLOT_POINTS_MAX];
	const struct plot_series *first = &p->series[0];

	memset(base, 0, sizeof(base));
	for (size_t i = 0; i < p->n_series; i++) {
		const struct plot_series *s = &p->series[i];
		const char *verb = "M";

		buf_addf(out,
			"<path fill=\"%s\" fill-opacity=\"0.82\" stroke=\"#ffffff\" "
			"stroke-width=\"0.6\" d=\"",
			svg_colour(i));
		for (size_t k = 0; k < first->n; k++) {
			if (!plot_is_shown(p, first->x[k]))
				continue;
			buf_addf(out, "%s%.1f,%.1f", verb, plot_x_of(&p->x, first->x[k]),
				plot_y_of(&p->y, base[k]));
			verb = " ";
		}
		for (size_t k = first->n; k-- > 0;)
			if (plot_is_shown(p, first->x[k]))
				buf_addf(out, " %.1f,%.1f", plot_x_of(&p->x, first->x[k]),
					plot_y_of(&p->y, base[k] + s->y[k]));
		buf_add_text(out, "Z\"/>\n");
		/* Labels keep the order of their areas, also for areas of height 0. */
		ret_y[i] = plot_y_of(&p->y, base[first->n - 1] + s->y[first->n - 1] / 2) -
			(double)i * 1e-6;
		for (size_t k = 0; k < first->n; k++)
			base[k] += s->y[k];
	}
}

static void add_names(const struct plot *p, double *y, struct buf *out)
{
	const double x = LEFT + PLOT_WIDTH + 12;

	svg_place_labels(y, p->n_series, fmin(LABEL_HEIGHT, PLOT_HEIGHT / (double)p->n_series),
		HEIGHT - BOTTOM);
	for (size_t i = 0; i < p->n_series; i++) {
		buf_addf(out,
			"<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" "
			"stroke-width=\"%s\" stroke-dasharray=\"%s\"/>\n",
			x, y[i], x + 24, y[i], svg_colour(i), p->is_stacked ? "11" : "2.4",
			p->is_stacked ? "none" : dashes[i % ARRAY_SIZE(dashes)]);
		if (is_marked(p))
			add_mark(i, x + 12, y[i], out);
		buf_addf(out, "<text x=\"%.1f\" y=\"%.1f\" fill=\"" SVG_INK "\">", x + 31,
			y[i] + 4.5);
		svg_add_text(out, p->series[i].name);
		buf_add_text(out, "</text>\n");
	}
}

static int check_axis(const struct plot_axis *axis, struct error *err)
{
	if (!(axis->max > axis->min) || !isfinite(axis->max - axis->min) ||
		(axis->is_log && !(axis->min > 0)))
		return fail(err, EINVAL, "axis '%s' from %g to %g: the range is empty", axis->label,
			axis->min, axis->max);
	return 0;
}

static void plot_begin_svg(const char *title, const char *subtitle, bool simulated, struct buf *out)
{
	svg_begin(&(struct svg_frame){.title = title,
			  .subtitle = subtitle,
			  .simulated = simulated,
			  .width = WIDTH,
			  .height = HEIGHT,
			  .left = LEFT - 54},
		out);
}

int plot_svg(const struct plot *p, struct buf *out, struct error *err)
{
	double y[PLOT_SERIES_MAX] = {0};
	int r = check_axis(&p->x, err);

	r = r < 0 ? r : check_axis(&p->y, err);
	if (r < 0)
		return r;
	if (!p->n_series)
		return fail(err, EINVAL, "no curve to draw; expected at least one");
	if (p->n_series > PLOT_SERIES_MAX)
		return fail(err, E2BIG,
			"%zu curves are too many for a picture; at most %d are allowed",
			p->n_series, PLOT_SERIES_MAX);
	for (size_t i = 0; i < p->n_series; i++)
		if (!p->series[i].n || p->series[i].n > PLOT_POINTS_MAX ||
			(p->is_stacked && p->series[i].n != p->series[0].n))
			return fail(err, p->series[i].n > PLOT_POINTS_MAX ? E2BIG : EINVAL,
				"a curve has %zu points; expected 1 to %d, and in a stack the "
				"same number in each curve",
				p->series[i].n, PLOT_POINTS_MAX);
	plot_begin_svg(p->title, p->subtitle, p->simulated, out);
	add_y_axis(&p->y, out);
	add_x_axis(&p->x, out);
	if (p->is_stacked)
		add_stack(p, y, out);
	else
		plot_add_lines(p, y, out);
	add_names(p, y, out);
	buf_add_text(out, "</svg>\n");
	return buf_error(out) < 0 ? fail(err, -buf_error(out), "picture") : 0;
}

/* ---- heat map ---- */

#define SHADES 32

/* Viridis, from five of its colours: lightness increases, so grey prints stay readable. */
static void plot_level_colour(size_t level, char ret[static 8])
{
	static const unsigned char stop[5][3] = {
		{68, 1, 84}, {59, 82, 139}, {33, 145, 140}, {94, 201, 98}, {253, 231, 37}};
	const double at = 4.0 * (double)level / (SHADES - 1);
	const size_t below = MIN((size_t)at, (size_t)3);
	int rgb[3];

	for (size_t i = 0; i < 3; i++)
		rgb[i] = (int)lround(stop[below][i] +
			(at - (double)below) * (stop[below + 1][i] - stop[below][i]));
	snprintf(ret, 8, "#%02x%02x%02x", (unsigned int)rgb[0] & 255, (unsigned int)rgb[1] & 255,
		(unsigned int)rgb[2] & 255);
}

static size_t plot_value_level(double value)
{
	return (size_t)lround(fmin(fmax(value, 0), 1) * (SHADES - 1));
}

/* Edges lie on whole pixels, so that neighbours neither overlap nor leave a gap. */
static void plot_add_cell(
	const double x[static 2], const double y[static 2], size_t level, struct buf *out)
{
	char colour[8];

	plot_level_colour(level, colour);
	buf_addf(out, "<rect x=\"%.0f\" y=\"%.0f\" width=\"%.0f\" height=\"%.0f\" fill=\"%s\"/>\n",
		round(x[0]), round(y[0]), round(x[1]) - round(x[0]), round(y[1]) - round(y[0]),
		colour);
}

/* Merges neighbours of one colour in a row. */
static void add_cells(const struct plot_heat *h, struct buf *out)
{
	const double width = PLOT_WIDTH / (double)h->n_columns;
	const double height = PLOT_HEIGHT / (double)h->n_rows;

	buf_add_text(out, "<g shape-rendering=\"crispEdges\">\n");
	for (size_t row = 0; row < h->n_rows; row++)
		for (size_t i = 0, end; i < h->n_columns; i = end) {
			const double *value = h->value + row * h->n_columns;
			const size_t level = plot_value_level(value[i]);

			end = i + 1;
			while (end < h->n_columns && plot_value_level(value[end]) == level)
				end++;
			plot_add_cell((const double[]){LEFT + (double)i * width,
					      LEFT + (double)end * width},
				(const double[]){TOP + (double)row * height,
					TOP + (double)(row + 1) * height},
				level, out);
		}
	buf_add_text(out, "</g>\n");
}

static void add_scale(const struct plot_heat *h, struct buf *out)
{
	const double x = LEFT + PLOT_WIDTH + 28, height = PLOT_HEIGHT / SHADES;

	buf_add_text(out, "<g shape-rendering=\"crispEdges\">\n");
	for (size_t i = 0; i < SHADES; i++)
		plot_add_cell((const double[]){x, x + 18},
			(const double[]){TOP + PLOT_HEIGHT - (double)(i + 1) * height,
				TOP + PLOT_HEIGHT - (double)i * height},
			i, out);
	buf_add_text(out, "</g>\n<g fill=\"" SVG_PALE "\" font-size=\"12\">\n");
	for (int i = 0; i <= 4; i++)
		buf_addf(out, "<text x=\"%.1f\" y=\"%.1f\">%d%%</text>\n", x + 25,
			TOP + PLOT_HEIGHT * (1 - i / 4.0) + 4, i * 25);
	buf_addf(out,
		"</g>\n<text transform=\"translate(%.1f %.1f) rotate(-90)\" "
		"text-anchor=\"middle\" fill=\"" SVG_INK "\">",
		x + 80, TOP + PLOT_HEIGHT / 2);
	svg_add_text(out, h->scale_label);
	buf_add_text(out, "</text>\n");
}

int plot_heat_svg(const struct plot_heat *h, struct buf *out, struct error *err)
{
	int r = check_axis(&h->x, err);

	if (r < 0)
		return r;
	if (!h->n_rows || !h->n_columns)
		return fail(
			err, EINVAL, "no cell to draw; expected at least one row and one column");
	if (h->n_rows > PLOT_POINTS_MAX || h->n_columns > PLOT_POINTS_MAX)
		return fail(err, E2BIG,
			"%zu by %zu cells are too many for a picture; at most %d by row and "
			"column are allowed",
			h->n_rows, h->n_columns, PLOT_POINTS_MAX);
	plot_begin_svg(h->title, h->subtitle, h->simulated, out);
	add_cells(h, out);
	add_x_axis(&h->x, out);
	add_y_label(h->y_label, out);
	add_scale(h, out);
	buf_add_text(out, "</svg>\n");
	return buf_error(out) < 0 ? fail(err, -buf_error(out), "picture") : 0;
}
