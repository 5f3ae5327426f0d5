/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One picture of `divvy top`, as text. Pure: the daemon's answers go in; lines with style marks
 * come out, which frame_plain and frame_ansi (and the ncurses of cmd-top.c) show. A mark is the
 * byte FRAME_MARK and 'A' + enum frame_style; names from outside never contain one.
 */
#ifndef CLI_FRAME_H
#define CLI_FRAME_H

#include <jansson.h>
#include <stdbool.h>

#include "base/str.h"

#define FRAME_MARK '\x01'
#define FRAME_COLOURS 6

enum frame_style {
	FRAME_NORMAL,
	FRAME_BOLD,
	FRAME_DIM,
	FRAME_WARN,
	FRAME_COLOUR, /* and FRAME_COLOURS of them, one tenant after the other */
};

enum frame_sort { FRAME_BY_ID, FRAME_BY_GOT, FRAME_BY_ASKED, FRAME_BY_MEMORY, FRAME_SORTS };

struct frame {
	const json_t *ping, *devices, *list, *usage; /* answers; usage may be NULL */
	int width;                                   /* columns; below 40 the lines of 40 are cut */
	int height;                                  /* lines; 0: no bound */
	enum frame_sort sort;
	bool paused;
	bool keys;  /* show the line of keys */
	bool ascii; /* the terminal has no UTF-8 */
};

/*
 * No line is wider than `width`. What does not fit is left out by its weight: of a tenant name, GOT
 * and ASKED stay longest.
 */
void frame_draw(const struct frame *frame, struct buf *out);

const char *frame_sort_name(enum frame_sort sort);

/* Without the marks; with them as ANSI sequences, each line ended by erase-to-end-of-line. */
void frame_plain(const struct buf *drawn, struct buf *out);
void frame_ansi(const struct buf *drawn, struct buf *out, int *ret_lines);

#endif
