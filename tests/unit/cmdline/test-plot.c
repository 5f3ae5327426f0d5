/* SPDX-License-Identifier: Apache-2.0 */
/* Plots: the pictures' texts, and input that cannot be drawn. */
#include "../unit.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

#include "cmdline/plot.h"

#define N 11

static double x[N], y[2][N], spread[N];

static struct plot example(struct plot_series *series)
{
	for (int i = 0; i < N; i++) {
		x[i] = i * 10;
		y[0][i] = i * 9;
		y[1][i] = 5;
		spread[i] = 2;
	}
	series[0] = (struct plot_series){"a<b", x, y[0], spread, N};
	series[1] = (struct plot_series){"c", x, y[1], NULL, N};
	return (struct plot){.title = "Allocated",
		.subtitle = "of \"it\"",
		.simulated = true,
		.x = {"arrived", PLOT_PERCENT, 0, 100, false},
		.y = {"allocated", PLOT_PERCENT, 0, 100, false},
		.series = series,
		.n_series = 2};
}

static void draws_curves_with_intervals(void **state)
{
	_cleanup_buf_ struct buf svg = BUF_INIT(PLOT_MAX_BYTES);
	struct plot_series series[2];
	struct plot p = example(series);
	const char *text;

	assert_ok(plot_svg(&p, &svg, NULL));
	text = buf_text(&svg);
	assert_contains(text, "<title>Allocated (simulated)</title>");
	assert_contains(text, "a&lt;b");
	assert_contains(text, ">arrived</text>");
	assert_contains(text, ">allocated</text>");
	assert_contains(text, ">100%</text>");
	assert_int_equal(unit_count(text, "fill=\"none\" stroke="), 2);
	assert_int_equal(unit_count(text, "fill-opacity=\"0.16\""), 1);
	assert_null(strstr(text, "nan"));
	assert_null(strstr(text, ">-0"));
	assert_int_equal(unit_count(text, "<svg"), unit_count(text, "</svg>"));
}

/* A plot draws nothing beyond its axes. */
static void clips_at_the_axes(void **state)
{
	_cleanup_buf_ struct buf whole = BUF_INIT(PLOT_MAX_BYTES), part = BUF_INIT(PLOT_MAX_BYTES);
	struct plot_series series[2];
	struct plot p = example(series);

	p.is_stacked = true;
	assert_ok(plot_svg(&p, &whole, NULL));
	p.x.min = 80;
	assert_ok(plot_svg(&p, &part, NULL));
	assert_true(part.n < whole.n);
	assert_int_equal(unit_count(buf_text(&whole), ">60%<"), 2);
	assert_int_equal(unit_count(buf_text(&part), ">60%<"), 1);
}

static double height_of(const char *text, const char *name)
{
	const char *at = strstr(text, name);
	double height;

	assert_non_null(at);
	while (strncmp(at, "y=\"", 3) != 0)
		at--;
	assert_int_equal(sscanf(at, "y=\"%lf\"", &height), 1);
	return height;
}

/*
 * The names are in the order of the areas, from the top, even for areas of height 0 at the right
 * edge.
 */
static void area_names_are_in_the_order_of_areas(void **state)
{
	static double nothing[N], all[N];
	static const double *const heights[][3] = {{nothing, nothing, nothing},
		{all, nothing, nothing}, {nothing, all, nothing}, {nothing, nothing, all}};

	for (size_t i = 0; i < ARRAY_SIZE(heights); i++) {
		_cleanup_buf_ struct buf svg = BUF_INIT(PLOT_MAX_BYTES);
		struct plot_series series[3];
		struct plot p = example(series);

		for (int k = 0; k < N; k++)
			all[k] = 60;
		p.is_stacked = true;
		p.n_series = 3;
		for (int k = 0; k < 3; k++)
			series[k] = (struct plot_series){(const char *[]){"low", "mid", "top"}[k],
				x, heights[i][k], NULL, N};
		assert_ok(plot_svg(&p, &svg, NULL));
		assert_true(height_of(buf_text(&svg), ">top<") + 10 <
			height_of(buf_text(&svg), ">mid<"));
		assert_true(height_of(buf_text(&svg), ">mid<") + 10 <
			height_of(buf_text(&svg), ">low<"));
	}
}

/*
 * Each line and its name have a colour, dashes and a mark. Where lines coincide, the marks of each
 * one stay visible.
 */
static void many_curves_look_different(void **state)
{
	_cleanup_buf_ struct buf svg = BUF_INIT(PLOT_MAX_BYTES);
	struct plot_series series[PLOT_SERIES_MAX];
	char looks[PLOT_SERIES_MAX][200], names[PLOT_SERIES_MAX][12];
	struct plot p = example(series);
	const char *at;

	for (int i = 0; i < PLOT_SERIES_MAX; i++) {
		snprintf(names[i], sizeof(names[i]), "n%d", i);
		series[i] = (struct plot_series){names[i], x, y[0], NULL, N};
	}
	p.n_series = PLOT_SERIES_MAX;
	assert_ok(plot_svg(&p, &svg, NULL));
	at = strstr(buf_text(&svg), "stroke-width=\"2.4\"");
	for (int i = 0; i < PLOT_SERIES_MAX; i++) {
		char colour[8], dashes[32], mark[64];

		assert_non_null(at);
		assert_int_equal(
			sscanf(at,
				"stroke-width=\"2.4\" stroke-dasharray=\"%31[^\"]\"/>\n<path "
				"transform=\"%*[^\"]\" fill=\"%7[^\"]\" stroke=\"#ffffff\" "
				"d=\"%63[^\"]\"",
				dashes, colour, mark),
			3);
		snprintf(looks[i], sizeof(looks[i]), "%s %s %s", colour, dashes, mark);
		for (int k = 0; k < i; k++) {
			assert_string_not_equal(looks[i], looks[k]);
			/* Two lines of the same colour differ in dashes and mark. */
			if (!strncmp(looks[i], looks[k], 7)) {
				assert_null(strstr(looks[k], mark));
				assert_null(strstr(looks[k] + 7, dashes));
			}
		}
		at = strstr(at + 1, "stroke-width=\"2.4\"");
	}
	assert_null(at);
	/*
	 * Each line has eight marks, and one beside its name. There are no marks if dashes suffice.
	 */
	assert_int_equal(unit_count(buf_text(&svg), "translate("), 9 * PLOT_SERIES_MAX + 1);
	for (int i = 0; i < PLOT_SERIES_MAX; i++) {
		char name[16];

		snprintf(name, sizeof(name), ">n%d<", i);
		assert_true(height_of(buf_text(&svg), name) > 84); /* below the titles */
	}
	buf_clear(&svg);
	p.n_series = 6;
	assert_ok(plot_svg(&p, &svg, NULL));
	assert_int_equal(unit_count(buf_text(&svg), "translate("), 1);
}

static void times_have_readable_units(void **state)
{
	_cleanup_buf_ struct buf svg = BUF_INIT(PLOT_MAX_BYTES);
	struct plot_series series[2];
	struct plot p = example(series);

	p.x = (struct plot_axis){"time", PLOT_SECONDS, 1, 100000, true};
	assert_ok(plot_svg(&p, &svg, NULL));
	assert_contains(buf_text(&svg), ">10 s</text>");
	assert_contains(buf_text(&svg), ">10 min</text>");
	assert_contains(buf_text(&svg), ">1 d</text>");
	buf_clear(&svg);
	p.x = (struct plot_axis){"time", PLOT_SECONDS, 0, 10 * 86400, false};
	assert_ok(plot_svg(&p, &svg, NULL));
	assert_contains(buf_text(&svg), ">2 d</text>");
}

static void draws_a_heat_map(void **state)
{
	_cleanup_buf_ struct buf svg = BUF_INIT(PLOT_MAX_BYTES);
	const double value[6] = {0, 0, 1, 0.5, 2, -1};
	struct plot_heat h = {.title = "The cluster",
		.x = {"time", PLOT_SECONDS, 0, 60, false},
		.y_label = "devices",
		.scale_label = "worked on",
		.value = value,
		.n_rows = 2,
		.n_columns = 3};

	assert_ok(plot_heat_svg(&h, &svg, NULL));
	/*
	 * Two equal neighbours are one cell, so there are five cells; the scale has 32 rectangles,
	 * and the frame one.
	 */
	assert_int_equal(unit_count(buf_text(&svg), "<rect"), 5 + 32 + 1);
	assert_contains(buf_text(&svg), "#440154");
	assert_contains(buf_text(&svg), "#fde725");
	h.n_rows = 0;
	assert_int_equal(plot_heat_svg(&h, &svg, NULL), -EINVAL);
}

static void refuses_impossible_plots(void **state)
{
	_cleanup_buf_ struct buf svg = BUF_INIT(PLOT_MAX_BYTES);
	struct plot_series series[2];
	struct plot p = example(series);
	struct error err = {0};

	p.x.max = 0;
	assert_int_equal(plot_svg(&p, &svg, &err), -EINVAL);
	assert_contains(err.msg, "arrived");
	p = example(series);
	p.y.max = (double)NAN;
	assert_int_equal(plot_svg(&p, &svg, &err), -EINVAL);
	p = example(series);
	p.x.is_log = true;
	assert_int_equal(plot_svg(&p, &svg, &err), -EINVAL);
	p = example(series);
	series[1].n = 3;
	p.is_stacked = true;
	assert_int_equal(plot_svg(&p, &svg, &err), -EINVAL);
	p.n_series = 0;
	assert_int_equal(plot_svg(&p, &svg, &err), -EINVAL);
	p.n_series = PLOT_SERIES_MAX + 1;
	assert_int_equal(plot_svg(&p, &svg, &err), -E2BIG);
	assert_int_equal(svg.n, 0);
}

UNIT_MAIN(UNIT(draws_curves_with_intervals), UNIT(clips_at_the_axes),
	UNIT(area_names_are_in_the_order_of_areas), UNIT(many_curves_look_different),
	UNIT(times_have_readable_units), UNIT(draws_a_heat_map), UNIT(refuses_impossible_plots))
