/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Draws plots as SVG: curves with intervals, stacked areas, and heat maps; axes with units, and
 * names beside the curves. No I/O. Floating point is only for drawing. One thread at a time.
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
	double min, max;     /* visible range; values outside are not drawn */
	bool is_log;         /* logarithmic; for seconds only, min > 0 */
};

struct plot_series {
	const char *name;
	const double *x, *y;  /* n points; x rises */
	const double *spread; /* half the height of the interval around y; NULL: no interval */
	size_t n;
};

struct plot {
	const char *title, *subtitle;
	bool simulated;
	bool is_stacked; /* stacked areas over the x of the first series */
	struct plot_axis x, y;
	const struct plot_series *series;
	size_t n_series;
};

/*
 * Appends the picture. -EINVAL without series or points, for an empty axis, or for stacked series
 * of different lengths; -E2BIG above the maxima.
 */
int plot_svg(const struct plot *plot, struct buf *out, struct error *err);

struct plot_heat {
	const char *title, *subtitle;
	bool simulated;
	struct plot_axis x;
	const char *y_label, *scale_label;
	const double *value; /* 0..1; row by row from the top */
	size_t n_rows, n_columns;
};

/* As plot_svg(). */
int plot_heat_svg(const struct plot_heat *heat, struct buf *out, struct error *err);

#endif
