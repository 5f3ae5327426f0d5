/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plots as SVG: curves with their intervals, stacked areas, and a heat map; axes with units, names
 * beside what they name. Pure: numbers in, text out. Floating point is for drawing only.
 */
#ifndef CMDLINE_PLOT_H
#define CMDLINE_PLOT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/str.h"
#include "cmdline/svg.h"

#define PLOT_SERIES_MAX 24
#define PLOT_POINTS_MAX 4096
#define PLOT_MAX_BYTES (16u << 20)

enum plot_unit { PLOT_NUMBER, PLOT_PERCENT, PLOT_SECONDS };

struct plot_axis {
	const char *label;
	enum plot_unit unit; /* percent: values are 0..100 */
	double min, max;     /* of what is shown; values beyond are cut */
	bool is_log;         /* seconds only, min above 0 */
};

struct plot_series {
	const char *name;
	const double *x, *y;  /* n points; x rises */
	const double *spread; /* half the interval around y; NULL: none is drawn */
	size_t n;
};

struct plot {
	const char *title, *subtitle;
	bool simulated;
	bool is_stacked; /* areas on one another, over the x of the first */
	struct plot_axis x, y;
	const struct plot_series *series;
	size_t n_series;
};

/* -EINVAL without points or with an empty axis; -E2BIG above the maxima. */
int plot_svg(const struct plot *plot, struct buf *out, struct error *err);

struct plot_heat {
	const char *title, *subtitle;
	bool simulated;
	struct plot_axis x;
	const char *y_label, *scale_label;
	const double *value; /* 0..1; row by row, the first at the top */
	size_t n_rows, n_columns;
};

/* As plot_svg(). */
int plot_heat_svg(const struct plot_heat *heat, struct buf *out, struct error *err);

#endif
