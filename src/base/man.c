/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file writes the roff macros of man pages into a buffer. Every sentence and term passes
 * add_escaped(), so no text of a table can begin a macro or an escape. The name in .TH gets its
 * upper case by ASCII arithmetic, so the locale does not change a page. The buffer keeps the first
 * failure, and man_write() returns it instead of writing a partial page.
 */
#include "base/man.h"

#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/fd.h"

#define PATH_BYTES 4096

/* Escapes backslashes, '-', and '.' or ' at the start of a line, which roff interprets. */
static void add_escaped(struct buf *out, struct str text)
{
	bool is_start = true;

	for (size_t i = 0; i < text.n; i++) {
		const char c = text.p[i];

		if (is_start && (c == '.' || c == '\''))
			buf_add_text(out, "\\&");
		if (c == '\\')
			buf_add_text(out, "\\e");
		else if (c == '-')
			buf_add_text(out, "\\-");
		else
			buf_add_byte(out, c);
		is_start = c == '\n';
	}
}

void man_add_text(struct buf *out, const char *text)
{
	add_escaped(out, str_from(text));
}

void man_add_paragraphs(struct buf *out, const char *text)
{
	struct str rest = str_from(text), line;
	bool is_inside = false;

	while (str_split(&rest, '\n', &line)) {
		if (line.n && is_inside)
			buf_add_text(out, ".br\n");
		is_inside = line.n > 0;
		if (line.n) {
			add_escaped(out, line);
			buf_add_byte(out, '\n');
		} else {
			buf_add_text(out, ".PP\n");
		}
	}
}

void man_add_head(struct buf *out, const struct man_page *page)
{
	buf_addf(out, ".\\\" Made by %s --dump-man: change the command's table, not this file.\n",
		page->made_by);
	buf_add_text(out, ".TH ");
	for (const char *p = page->name; *p; p++) {
		if (*p == '-')
			buf_add_text(out, "\\-");
		else
			buf_add_byte(out, *p >= 'a' && *p <= 'z' ? (char)(*p - 'a' + 'A') : *p);
	}
	buf_addf(out, " %d \"\" \"divvy " DIVVY_VERSION "\" \"divvy\"\n.SH NAME\n", page->section);
	man_add_text(out, page->name);
	buf_add_text(out, " \\- ");
	man_add_text(out, page->summary);
	buf_add_text(out, "\n.SH SYNOPSIS\n");
}

void man_add_term(struct buf *out, const char *term, const char *text)
{
	buf_add_text(out, ".TP\n.B ");
	man_add_text(out, term);
	buf_add_byte(out, '\n');
	man_add_text(out, text);
	buf_add_text(out, ".\n");
}

int man_write(
	const char *folder, const struct man_page *page, const struct buf *text, struct error *err)
{
	char path[PATH_BYTES];

	if (snprintf(path, sizeof(path), "%s/%s.%d", folder, page->name, page->section) >=
		(int)sizeof(path))
		return fail(err, ENAMETOOLONG, "folder '%.60s...'", folder);
	if (buf_error(text) < 0)
		return fail(err, -buf_error(text), "man page of '%s'", page->name);
	return file_replace(path, buf_str(text), 0644, err);
}
