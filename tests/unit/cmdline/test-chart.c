/* SPDX-License-Identifier: Apache-2.0 */
/* The SVG writer: the picture's texts, and well-formed XML for every tenant name. */
#include "../unit.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cmdline/chart.h"

#define POINTS 50

static double share[3][POINTS];

static struct chart example(struct chart_series *series)
{
	static const char *const name[] = {"a", "<b&\"", "c"};
	static const uint32_t asked[] = {500, 300, 200};

	for (size_t i = 0; i < 3; i++) {
		for (size_t j = 0; j < POINTS; j++)
			share[i][j] = asked[i] / 1000.0;
		series[i] = (struct chart_series){.name = name[i],
			.requested_permille = asked[i],
			.share = share[i],
			.got = -1};
	}
	return (struct chart){.title = "Shares",
		.subtitle = "x",
		.step_s = 0.1,
		.n_points = POINTS,
		.series = series,
		.n_series = 3};
}

/* Each '<name' has its '/>' or '</name>', and each '<' and '&' is escaped. */
static void assert_well_formed(const char *svg)
{
	char open[32][16];
	size_t depth = 0;

	for (const char *p = strchr(svg, '<'); p; p = strchr(p, '<')) {
		const char *end = strchr(p, '>');
		size_t n = strcspn(p + 1, " />");

		assert_non_null(end);
		if (p[1] == '/') {
			n = (size_t)(end - p - 2);
			assert_true(depth > 0);
			assert_int_equal(strlen(open[depth - 1]), n);
			assert_memory_equal(open[--depth], p + 2, n);
		} else if (end[-1] != '/') {
			assert_true(depth < 32 && n < sizeof(open[0]));
			snprintf(open[depth++], sizeof(open[0]), "%.*s", (int)n, p + 1);
		}
		p = end;
	}
	assert_int_equal(depth, 0);
	for (const char *p = strchr(svg, '&'); p; p = strchr(p + 1, '&'))
		assert_true(!strncmp(p, "&amp;", 5) || !strncmp(p, "&lt;", 4) ||
			!strncmp(p, "&gt;", 4) || !strncmp(p, "&quot;", 6));
	assert_null(strstr(svg, "nan"));
	assert_null(strstr(svg, "inf"));
}

static void draws_lines(void **state)
{
	_cleanup_buf_ struct buf svg = BUF_INIT(CHART_MAX_BYTES);
	struct chart_series series[3];
	struct chart c = example(series);

	assert_ok(chart_svg(&c, &svg, NULL));
	assert_well_formed(buf_text(&svg));
	assert_int_equal(unit_count(buf_text(&svg), "stroke-dasharray"), 3);
	assert_int_equal(unit_count(buf_text(&svg), "fill=\"none\" stroke="), 3);
	assert_contains(buf_text(&svg), "used 50.0%, requested 50%");
	assert_contains(buf_text(&svg), "&lt;b&amp;&quot;");
	assert_null(strstr(buf_text(&svg), "simulated"));
}

static void the_title_shows_that_devices_are_simulated(void **state)
{
	_cleanup_buf_ struct buf svg = BUF_INIT(CHART_MAX_BYTES);
	struct chart_series series[3];
	struct chart c = example(series);

	c.simulated = true;
	c.style = CHART_STACKED;
	assert_ok(chart_svg(&c, &svg, NULL));
	assert_well_formed(buf_text(&svg));
	assert_contains(buf_text(&svg), "<title>Shares (simulated)</title>");
}

/* A tenant that ends and starts again has a line in pieces, and its mean counts only the pieces. */
static void absent_tenants_leave_gaps(void **state)
{
	_cleanup_buf_ struct buf svg = BUF_INIT(CHART_MAX_BYTES);
	struct chart_series series[3];
	struct chart c = example(series);

	for (size_t j = 20; j < 30; j++)
		share[0][j] = -1;
	for (size_t j = 0; j < POINTS; j++)
		share[2][j] = -1;
	assert_ok(chart_svg(&c, &svg, NULL));
	assert_well_formed(buf_text(&svg));
	assert_int_equal(unit_count(buf_text(&svg), "fill=\"none\" stroke="), 3);
	assert_contains(buf_text(&svg), "used 50.0%, requested 50%");
}

static void draws_one_point_and_a_long_time(void **state)
{
	_cleanup_buf_ struct buf svg = BUF_INIT(CHART_MAX_BYTES);
	struct chart_series series[3];
	struct chart c = example(series);

	c.n_points = 1;
	assert_ok(chart_svg(&c, &svg, NULL));
	assert_well_formed(buf_text(&svg));
	buf_clear(&svg);
	c.n_points = POINTS;
	c.step_s = 3600;
	c.start_s = -3600.0 * POINTS;
	assert_ok(chart_svg(&c, &svg, NULL));
	assert_well_formed(buf_text(&svg));
	assert_contains(buf_text(&svg), " min<");
}

static void refuses_impossible_charts(void **state)
{
	_cleanup_buf_ struct buf svg = BUF_INIT(CHART_MAX_BYTES);
	struct chart_series series[3];
	struct chart c = example(series);
	struct error err = {0};

	c.n_points = 0;
	assert_int_equal(chart_svg(&c, &svg, &err), -EINVAL);
	c.n_points = CHART_POINTS_MAX + 1;
	assert_int_equal(chart_svg(&c, &svg, &err), -E2BIG);
	assert_contains(err.msg, "20000");
	c.n_points = POINTS;
	c.step_s = 0;
	assert_int_equal(chart_svg(&c, &svg, &err), -EINVAL);
}

UNIT_MAIN(UNIT(draws_lines), UNIT(the_title_shows_that_devices_are_simulated),
	UNIT(absent_tenants_leave_gaps), UNIT(draws_one_point_and_a_long_time),
	UNIT(refuses_impossible_charts))
