/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What our pictures share: the frame with its titles, colours, text made safe for XML. A picture is
 * one self-contained file that browsers, README pages and rsvg-convert show alike. Pure.
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
	bool simulated;               /* said in the title, whatever that is */
	double width, height, left;   /* left: where titles begin */
};

void svg_begin(const struct svg_frame *frame, struct buf *out);
void svg_add_text(struct buf *out, const char *text);

/* The colour of the i-th thing shown, "#rrggbb", the same in all pictures. */
const char *svg_colour(size_t i);

/*
 * Names beside what they name: moves the n heights apart so that each has `height`, none below
 * `bottom`, keeping their order. n is at most SVG_LABELS_MAX.
 */
#define SVG_LABELS_MAX 32
void svg_place_labels(double *y, size_t n, double height, double bottom);

#endif
