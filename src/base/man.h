/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Man pages (roff) out of tables: the pieces that every page is made of. No dates in them: the same
 * source, the same page. Pure but for man_write. Any thread.
 */
#ifndef BASE_MAN_H
#define BASE_MAN_H

#include <stddef.h>

#include "base/error.h"
#include "base/str.h"

#define MAN_MAX (256u << 10) /* bytes of a page */

struct man_page {
	const char *name; /* "divvy-run"; the file is name.section */
	int section;
	const char *summary; /* behind the name, no full stop */
	const char *made_by; /* the program that has --dump-man */
};

/* Escaped, as it stands. */
void man_add_text(struct buf *out, const char *text);
/* An empty line in the text begins a paragraph. */
void man_add_paragraphs(struct buf *out, const char *text);

/* Up to and with the heading SYNOPSIS. */
void man_add_head(struct buf *out, const struct man_page *page);
/* One entry of a list: the term in bold, and a sentence that lacks its full stop. */
void man_add_term(struct buf *out, const char *term, const char *text);

/* Into the folder, in one step. */
int man_write(
	const char *folder, const struct man_page *page, const struct buf *text, struct error *err);

#endif
