/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Aligned text tables for the terminal: titles, then rows. Each column is as wide as its widest
 * cell, with two spaces between columns and none at the end of a line. Width counts UTF-8
 * characters. An empty cell shows as "-". The table owns its texts and, like struct buf, keeps its
 * first failure.
 */
#ifndef BASE_TABLE_H
#define BASE_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

#define TABLE_COLUMNS_MAX 24
#define TABLE_MAX_BYTES (4u << 20)

struct table_column {
	const char *title;
	bool is_right; /* aligned to the right, for numbers */
};

struct table {
	const struct table_column *columns; /* borrowed */
	size_t n_columns;
	size_t n_cells;
	struct buf cells; /* terminated texts in sequence, row by row */
};

/* n_columns: 1..TABLE_COLUMNS_MAX. */
void table_init(struct table *t, const struct table_column *columns, size_t n_columns);
void table_done(struct table *t);
#define _cleanup_table_ __attribute__((cleanup(table_done)))

/* Adds the next cell, left to right; the number of columns determines the rows. */
int table_add(struct table *t, const char *text);
int table_addf(struct table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Appends the table; missing cells of the last row show as "-". Returns 0 or the first failure. */
int table_format(const struct table *t, bool has_titles, struct buf *out);

#endif
