/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One picture of `divvy top` as text. Pure: the daemon's answers go in, and lines with style marks
 * come out. frame_plain(), frame_ansi() and the ncurses code of cmd-top.c show these lines. A mark
 * is the byte FRAME_MARK and 'A' + enum frame_style; names from outside never contain a mark.
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
	FRAME_COLOUR, /* the first of FRAME_COLOURS colours, which tenants use in turn */
};

enum frame_sort { FRAME_BY_ID, FRAME_BY_USED, FRAME_BY_REQUESTED, FRAME_BY_MEMORY, FRAME_SORTS };

struct frame {
	const json_t *ping, *devices, *list, *usage; /* the daemon's answers; usage may be NULL */
	int width;  /* columns; for fewer than 40, draws lines of 40 and cuts them */
	int height; /* lines; 0: no limit */
	enum frame_sort sort;
	bool paused;
	bool keys;  /* show the line of keys */
	bool ascii; /* the terminal has no UTF-8 */
};

/*
 * Draws lines of at most `width` columns. Leaves out less important parts that do not fit; of a
 * tenant's line, the name, USED and REQUESTED stay longest.
 */
void frame_draw(const struct frame *frame, struct buf *out);

const char *frame_sort_name(enum frame_sort sort);
/* Accepts old names, too. FRAME_BY_ID if the name is NULL or unknown. */
enum frame_sort frame_sort_find(const char *name);

/*
 * frame_plain() removes the marks. frame_ansi() replaces them by ANSI sequences, and ends each line
 * with erase-to-end-of-line.
 */
void frame_plain(const struct buf *drawn, struct buf *out);
void frame_ansi(const struct buf *drawn, struct buf *out, int *ret_lines);

#endif
