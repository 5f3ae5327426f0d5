/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file scans a command line, and makes help lines and man page entries from the same rows.
 * option_next() returns one event for each option, operand or fault; struct option_scan holds the
 * position. A word such as -qf stays in `letters` until the scanner has returned all its letters.
 * An exact name wins over an abbreviation, and an abbreviation counts only if it fits one row. All
 * functions walk the rows by option_at(): the program's own rows first, then the common rows.
 */
#include "base/option.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/man.h"

#define LEFT_BYTES 80
#define HELP_BYTES 512

const struct option_row *option_at(const struct option_table *table, size_t i)
{
	for (const struct option_row *row = table->own; row && row->name; row++)
		if (i-- == 0)
			return row;
	for (const struct option_row *row = table->common; row && row->name; row++)
		if (i-- == 0)
			return row;
	return NULL;
}

/* ---- the parser ---- */

static const struct option_row *option_find(const struct option_scan *s)
{
	const struct option_row *row, *cut = NULL;
	size_t n_cut = 0;

	for (size_t i = 0; (row = option_at(&s->table, i)); i++) {
		if (str_is(s->name, row->name) || (row->old_name && str_is(s->name, row->old_name)))
			return row;
		if (s->is_cut_accepted && s->name.n &&
			str_has_prefix(str_from(row->name), s->name)) {
			cut = row;
			n_cut++;
		}
	}
	return n_cut == 1 ? cut : NULL;
}

static const struct option_row *option_find_letter(const struct option_scan *s)
{
	const struct option_row *row;
	size_t i = 0;

	while ((row = option_at(&s->table, i)) && row->letter != s->name.p[0])
		i++;
	return row;
}

/* For an option that needs a value: the text after '=' or the letter, else the next word. */
static enum option_event option_take_value(struct option_scan *s, const char *behind)
{
	s->value = behind ? behind : s->at < s->argc ? s->argv[s->at++] : NULL;
	if (!s->value)
		return OPTION_NO_VALUE;
	return s->value[0] ? OPTION_GIVEN : OPTION_EMPTY_VALUE;
}

static enum option_event option_take_long(struct option_scan *s)
{
	const struct str word = str_from(s->word + 2);
	const size_t n = str_find(word, '=');
	const char *behind = n < word.n ? word.p + n + 1 : NULL;

	s->is_letter = false;
	s->name = (struct str){word.p, n};
	s->value = behind;
	s->row = option_find(s);
	if (!s->row)
		return OPTION_UNKNOWN;
	if (!s->row->value)
		return behind ? OPTION_EXTRA_VALUE : OPTION_GIVEN;
	if (behind || option_needs_value(s->row))
		return option_take_value(s, behind);
	return OPTION_GIVEN;
}

static enum option_event option_take_letter(struct option_scan *s)
{
	const char *behind = s->letters[1] ? s->letters + 1 : NULL;

	s->is_letter = true;
	s->name = (struct str){s->letters, 1};
	s->value = NULL;
	s->letters = behind;
	s->row = option_find_letter(s);
	if (!s->row)
		return OPTION_UNKNOWN;
	if (!option_needs_value(s->row))
		return OPTION_GIVEN;
	s->letters = NULL;
	return option_take_value(s, behind);
}

enum option_event option_next(struct option_scan *scan)
{
	if (scan->letters)
		return option_take_letter(scan);
	if (!scan->is_over && scan->at < scan->argc && !strcmp(scan->argv[scan->at], "--")) {
		scan->is_over = true;
		scan->at++;
	}
	if (scan->at >= scan->argc)
		return OPTION_END;
	scan->word = scan->argv[scan->at++];
	if (scan->is_over || scan->word[0] != '-' || !scan->word[1])
		return OPTION_OPERAND;
	if (scan->word[1] == '-')
		return option_take_long(scan);
	scan->letters = scan->word + 1;
	return option_take_letter(scan);
}

/* Whether the value is one of `choices`: words with blanks between them; NULL: no value is. */
static bool option_is_among(const char *choices, const char *value)
{
	struct str rest = str_from(choices), word;

	while (str_word(&rest, &word))
		if (str_is(word, value))
			return true;
	return false;
}

int option_check(const struct option_row *row, const char *value, struct error *err)
{
	int r;

	if (option_is_among(row->choices, value) || option_is_among(row->old_choices, value))
		return 0;
	if (row->choices)
		return fail(err, EINVAL, "--%s '%s': expected one of: %s", row->name, value,
			row->choices);
	r = row->check ? row->check(value, err) : 0;
	return r < 0 ? fail_within(err, r, "--%s", row->name) : 0;
}

/* ---- output from the tables ---- */

static const char *format_help(const struct option_row *row, char ret[static HELP_BYTES])
{
	if (!row->needs)
		return row->help;
	snprintf(ret, HELP_BYTES, "with --%s: %s", row->needs, row->help);
	return ret;
}

static int format_left(
	const struct option_row *row, bool has_letters, char between, char ret[static LEFT_BYTES])
{
	const char equals[] = {between, '\0'};
	char letter[] = "-x, ";

	letter[1] = row->letter;
	return snprintf(ret, LEFT_BYTES, "  %s--%s%s%s%s",
		!has_letters          ? ""
			: row->letter ? letter
				      : "    ",
		row->name,
		!row->value             ? ""
			: row->is_maybe ? "[="
					: equals,
		row->value ? row->value : "", row->is_maybe ? "]" : "");
}

void option_add_wrapped(struct buf *out, struct str text, int indent, int width)
{
	struct str word;
	int column = indent;

	while (str_word(&text, &word)) {
		if (column > indent && column + 1 + (int)word.n > width) {
			buf_addf(out, "\n%*s", indent, "");
			column = indent;
		} else if (column > indent) {
			buf_add_byte(out, ' ');
			column++;
		}
		buf_add(out, word);
		column += (int)word.n;
	}
	buf_add_byte(out, '\n');
}

void option_add_help(
	struct buf *out, const struct option_table *table, const struct option_layout *layout)
{
	const struct option_row *row;
	char left[LEFT_BYTES], help[HELP_BYTES];
	bool has_letters = false;
	int column = layout->column;

	for (size_t i = 0; (row = option_at(table, i)); i++)
		has_letters = has_letters || row->letter;
	for (size_t i = 0; layout->column == OPTION_COLUMN_LONGEST && (row = option_at(table, i));
		i++)
		column = MAX(column, format_left(row, has_letters, layout->between, left) + 1);
	for (size_t i = 0; (row = option_at(table, i)); i++) {
		const int n = format_left(row, has_letters, layout->between, left);

		buf_add_text(out, left);
		if (n >= column)
			buf_addf(out, "\n%*s", column, "");
		else
			buf_addf(out, "%*s", column - n, "");
		option_add_wrapped(out, str_from(format_help(row, help)), column, layout->width);
	}
}

static void add_man_row(struct buf *out, const struct option_row *row)
{
	char help[HELP_BYTES];

	buf_add_text(out, ".TP\n");
	if (row->letter)
		buf_addf(out, "\\fB\\-%c\\fR, ", row->letter);
	buf_add_text(out, "\\fB\\-\\-");
	man_add_text(out, row->name);
	buf_add_text(out, "\\fR");
	if (row->value) {
		buf_addf(out, "%s=\\fI", row->is_maybe ? "[" : "");
		man_add_text(out, row->value);
		buf_addf(out, "\\fR%s", row->is_maybe ? "]" : "");
	}
	buf_add_byte(out, '\n');
	man_add_text(out, format_help(row, help));
	buf_add_text(out, ".\n");
}

void option_add_man(struct buf *out, const struct option_table *table)
{
	const struct option_row *row;

	for (size_t i = 0; (row = option_at(table, i)); i++)
		add_man_row(out, row);
}
