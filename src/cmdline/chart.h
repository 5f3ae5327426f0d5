/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A picture of shares over time, as SVG: one self-contained file that browsers, README pages and
 * rsvg-convert show alike. Pure: numbers in, text out. Floating point is for drawing only.
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
	CHART_LINES,   /* a line for each tenant, its asked share dashed */
	CHART_STACKED, /* areas on one another: together what the device did */
};

struct chart_series {
	const char *name;
	uint32_t asked_permille;
	const double *share; /* n points of 0..1; negative: not there at that time */
	double got; /* over the whole picture, for the legend; negative: the mean of the points */
};

struct chart {
	const char *title;
	const char *subtitle;
	bool simulated; /* said in the title, whatever that is */
	enum chart_style style;
	double start_s, step_s; /* time of the first point, and between points */
	size_t n_points;
	const struct chart_series *series;
	size_t n_series;
};

/* -EINVAL without points or with a step that is not above 0; -E2BIG above the maxima. */
int chart_svg(const struct chart *chart, struct buf *out, struct error *err);

#endif
