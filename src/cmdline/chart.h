/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Draws shares over time as SVG: one self-contained file for browsers, README pages and
 * rsvg-convert. No I/O. Floating point is only for drawing. One thread at a time.
 */
#ifndef CMDLINE_CHART_H
#define CMDLINE_CHART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "cmdline/svg.h"

#define CHART_SERIES_MAX SVG_LABELS_MAX
#define CHART_POINTS_MAX 20000
#define CHART_MAX_BYTES (16u << 20)

enum chart_style {
	CHART_LINES,   /* a line for each tenant; its requested share is dashed */
	CHART_STACKED, /* stacked areas; together they show the use of the device */
};

struct chart_series {
	const char *name;
	uint32_t requested_permille;
	const double *share; /* n_points values of 0..1; negative: the tenant was absent then */
	double got;          /* used share for the legend, 0..1; negative: the mean of the points */
};

struct chart {
	const char *title;
	const char *subtitle;
	bool simulated; /* appends "(simulated)" to the title */
	enum chart_style style;
	double start_s, step_s; /* time of the first point, and between points */
	size_t n_points;
	const struct chart_series *series;
	size_t n_series;
};

/*
 * Appends the picture. -EINVAL without points or series, or if step_s is not above 0; -E2BIG above
 * the maxima.
 */
int chart_svg(const struct chart *chart, struct buf *out, struct error *err);

#endif
