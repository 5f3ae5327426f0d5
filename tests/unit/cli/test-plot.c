/* SPDX-License-Identifier: Apache-2.0 */
/* Plots: what must be in the text, and what cannot be drawn. */
#include "../unit.h"

#include <errno.h>
#include <math.h>

#include "cli/plot.h"

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

/* What lies beyond the axis is not drawn. */
static void shows_a_part(void **state)
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

static void names_times_as_people_do(void **state)
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
	/* Five cells, as two are one; the scale's 32; the frame. */
	assert_int_equal(unit_count(buf_text(&svg), "<rect"), 5 + 32 + 1);
	assert_contains(buf_text(&svg), "#440154");
	assert_contains(buf_text(&svg), "#fde725");
	h.n_rows = 0;
	assert_int_equal(plot_heat_svg(&h, &svg, NULL), -EINVAL);
}

static void refuses_what_it_cannot_draw(void **state)
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

UNIT_MAIN(UNIT(draws_curves_with_intervals), UNIT(shows_a_part), UNIT(names_times_as_people_do),
	UNIT(draws_a_heat_map), UNIT(refuses_what_it_cannot_draw))
