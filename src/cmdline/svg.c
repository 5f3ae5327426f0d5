/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file holds the parts that all SVG pictures share: the frame, the palette, escaped text and
 * the positions of labels. svg_place_labels() sorts indices and leaves the order of the caller's
 * array as it is. The first pass puts each label at least one height below its predecessor. The
 * second pass starts at the last label and moves labels back up that would end beyond the bottom.
 */
#include "cmdline/svg.h"

#define FONT "font-family=\"Inter, 'Segoe UI', 'DejaVu Sans', Helvetica, Arial, sans-serif\""

/*
 * Okabe and Ito's colours, which colour-blind people can distinguish; some are darkened for white
 * paper.
 */
static const char *const palette[] = {
	"#0072b2", "#d55e00", "#009e73", "#b14a8b", "#3a9bd9", "#c28a00", "#5b4fa2", "#7a7a7a"};

const char *svg_colour(size_t i)
{
	return palette[i % ARRAY_SIZE(palette)];
}

void svg_add_text(struct buf *out, const char *text)
{
	for (; *text; text++) {
		switch (*text) {
		case '&': buf_add_text(out, "&amp;"); break;
		case '<': buf_add_text(out, "&lt;"); break;
		case '>': buf_add_text(out, "&gt;"); break;
		case '"': buf_add_text(out, "&quot;"); break;
		default:
			/* XML cannot represent most control characters. */
			buf_add_byte(out, (unsigned char)*text < 0x20 ? ' ' : *text);
		}
	}
}

void svg_begin(const struct svg_frame *f, struct buf *out)
{
	buf_addf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" "
		"width=\"%.0f\" "
		"height=\"%.0f\" " FONT " font-size=\"13\" role=\"img\">\n<title>",
		f->width, f->height, f->width, f->height);
	svg_add_text(out, f->title);
	buf_add_text(out, f->simulated ? " (simulated)</title>\n" : "</title>\n");
	buf_addf(out,
		"<rect x=\"0.5\" y=\"0.5\" width=\"%.0f\" height=\"%.0f\" rx=\"10\" "
		"fill=\"#ffffff\" "
		"stroke=\"" SVG_GRID "\"/>\n",
		f->width - 1, f->height - 1);
	buf_addf(out,
		"<text x=\"%.0f\" y=\"36\" font-size=\"19\" font-weight=\"600\" fill=\"" SVG_INK
		"\">",
		f->left);
	svg_add_text(out, f->title);
	if (f->simulated)
		buf_add_text(out,
			"<tspan dx=\"7\" fill=\"#b45309\" font-weight=\"400\">(simulated)</tspan>");
	buf_addf(out, "</text>\n<text x=\"%.0f\" y=\"58\" fill=\"" SVG_PALE "\">", f->left);
	svg_add_text(out, f->subtitle ? f->subtitle : "");
	buf_add_text(out, "</text>\n");
}

void svg_place_labels(double *y, size_t n, double height, double bottom)
{
	size_t order[SVG_LABELS_MAX] = {0};

	for (size_t i = 0; i < n; i++) {
		size_t j = i;

		for (; j > 0 && y[order[j - 1]] > y[i]; j--)
			order[j] = order[j - 1];
		order[j] = i;
	}
	for (size_t i = 1; i < n; i++)
		if (y[order[i]] < y[order[i - 1]] + height)
			y[order[i]] = y[order[i - 1]] + height;
	for (size_t i = n; i-- > 0;) {
		if (y[order[i]] > bottom)
			y[order[i]] = bottom;
		bottom = y[order[i]] - height;
	}
}
