/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts that all pictures share: the frame with its titles, the colours, and escaped text. A
 * picture is one self-contained file for browsers, README pages and rsvg-convert. Pure.
 */
#ifndef CMDLINE_SVG_H
#define CMDLINE_SVG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

#define SVG_INK "#1f2933"
#define SVG_PALE "#616e7c"
#define SVG_GRID "#e4e7eb"

struct svg_frame {
	const char *title, *subtitle; /* subtitle may be NULL */
	bool simulated;               /* appends "(simulated)" to the title */
	double width, height, left;   /* left: x of the titles */
};

void svg_begin(const struct svg_frame *frame, struct buf *out);
void svg_add_text(struct buf *out, const char *text);

/* The colour of series i, "#rrggbb", the same in all pictures. */
const char *svg_colour(size_t i);

/*
 * Places n labels beside their curves: moves the heights y apart to at least `height` and keeps
 * their order. No label ends beyond `bottom`. n is at most SVG_LABELS_MAX.
 */
#define SVG_LABELS_MAX 32
void svg_place_labels(double *y, size_t n, double height, double bottom);

#endif
