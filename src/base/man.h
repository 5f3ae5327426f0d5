/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Man pages (roff) from tables: the pieces of every page. Pages have no date, so the same source
 * makes the same page. Only man_write() does I/O. Any thread.
 */
#ifndef BASE_MAN_H
#define BASE_MAN_H

#include <stddef.h>

#include "base/error.h"
#include "base/str.h"

#define MAN_MAX (256u << 10) /* most bytes of a page */

struct man_page {
	const char *name; /* "divvy-run"; the file is name.section */
	int section;
	const char *summary; /* follows the name; no full stop */
	const char *made_by; /* the program whose --dump-man writes the page */
};

/* Appends the text, escaped. */
void man_add_text(struct buf *out, const char *text);
/* As man_add_text(); an empty line in the text begins a paragraph. */
void man_add_paragraphs(struct buf *out, const char *text);

/* Appends the page's head up to and with the heading SYNOPSIS. */
void man_add_head(struct buf *out, const struct man_page *page);
/* Appends one list entry: the term in bold, then the text, then a full stop. */
void man_add_term(struct buf *out, const char *term, const char *text);

/* Writes the page into the folder, by file_replace(). Returns 0 or -errno. */
int man_write(
	const char *folder, const struct man_page *page, const struct buf *text, struct error *err);

#endif
