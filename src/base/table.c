/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file stores the cells of a table as terminated texts in one buffer, and computes column
 * widths when it formats the table. A cell's index gives its column. One thread per table.
 */
#include "base/table.h"

#include <stdarg.h>

void table_init(struct table *t, const struct table_column *columns, size_t n_columns)
{
	*t = (struct table){
		.columns = columns,
		.n_columns = MIN(n_columns, (size_t)TABLE_COLUMNS_MAX),
		.cells = BUF_INIT(TABLE_MAX_BYTES),
	};
}

void table_done(struct table *t)
{
	buf_done(&t->cells);
	t->n_cells = 0;
}

int table_add(struct table *t, const char *text)
{
	return table_addf(t, "%s", text ? text : "");
}

int table_addf(struct table *t, const char *fmt, ...)
{
	size_t before = t->cells.n;
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = buf_addv(&t->cells, fmt, ap);
	va_end(ap);
	if (r == 0 && t->cells.n == before)
		r = buf_add_byte(&t->cells, '-');
	if (r == 0)
		r = buf_add_byte(&t->cells, 0);
	if (r == 0)
		t->n_cells++;
	return r;
}

/* Counts characters: bytes that do not continue a UTF-8 sequence. */
static size_t width_of(const char *text)
{
	size_t n = 0;

	for (; *text; text++)
		n += ((unsigned char)*text & 0xc0) != 0x80;
	return n;
}

static void add_spaces(struct buf *out, size_t n)
{
	while (n--)
		buf_add_byte(out, ' ');
}

static void table_add_cell(
	const struct table *t, size_t column, size_t width, const char *text, struct buf *out)
{
	size_t gap = width - width_of(text);
	bool is_last = column + 1 == t->n_columns;

	if (t->columns[column].is_right)
		add_spaces(out, gap);
	buf_add_text(out, text);
	if (!t->columns[column].is_right && !is_last)
		add_spaces(out, gap);
	buf_add_text(out, is_last ? "\n" : "  ");
}

int table_format(const struct table *t, bool has_titles, struct buf *out)
{
	size_t width[TABLE_COLUMNS_MAX] = {0};
	const char *cell = buf_text(&t->cells);
	size_t i, column;

	if (buf_error(&t->cells))
		return buf_error(&t->cells);
	for (i = 0; has_titles && i < t->n_columns; i++)
		width[i] = width_of(t->columns[i].title);
	for (i = 0; i < t->n_cells; i++, cell += strlen(cell) + 1)
		width[i % t->n_columns] = MAX(width[i % t->n_columns], width_of(cell));

	for (i = 0; has_titles && i < t->n_columns; i++)
		table_add_cell(t, i, width[i], t->columns[i].title, out);
	cell = buf_text(&t->cells);
	for (i = 0; i < t->n_cells; i++, cell += strlen(cell) + 1)
		table_add_cell(t, i % t->n_columns, width[i % t->n_columns], cell, out);
	for (column = i % t->n_columns; column && column < t->n_columns; column++)
		table_add_cell(t, column, MAX(width[column], (size_t)1), "-", out);
	return buf_error(out);
}
