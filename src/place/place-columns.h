/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table of bounds: one row per node of a pool, one column per class. The rows are level 0. Each
 * entry of a higher level is the maximum of 16 entries of the level below. A line is 16 adjacent
 * entries of one column, and the top level has one line. The lines of all columns for the same 16
 * rows are adjacent. The first columns hold free capacities, which all classes share.
 *
 * A bound may be a guess, which a separate bit records. Bounds that are grades take one byte each
 * instead of four, to save cache space. The table knows neither nodes nor policies; place-bounds.c
 * fills it. Threads: as place.h.
 */
#ifndef PLACE_PLACE_COLUMNS_H
#define PLACE_PLACE_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "place/place-policy.h"

#define FAN 16u
#define FAN_BITS 4u
#define LEVELS 6u /* 16^5 nodes are PLACE_NODES_MAX */
#define COLUMNS_MAX 1024u

/* The first columns of a table: free capacities. Memory is in MiB. */
enum {
	COLUMN_CPU,
	COLUMN_MEMORY,
	COLUMN_DEVICE_MEMORY,
	COLUMN_OPPORTUNISTIC, /* 1 for a node with an opportunistic tenant, else 0 */
	COLUMN_CLASSES
};

struct column {
	struct place_class class;
	uint64_t used; /* n_changes of the pool at the last use; never decreases */
};

/* A node fits the class if open.above[shape] of the node (place-bounds.c) is above `share`. */
struct column_need {
	uint16_t share;
	uint16_t shape; /* COLUMN_SHAPE of the class; COLUMN_UNBUILT: not kept up to date */
};

/*
 * Built columns are sorted by shape, and within a shape by share. So within a shape the columns
 * whose classes fit a node come first.
 */
struct column_order {
	uint16_t share, column;
};

#define COLUMN_SHAPE(is_idle, count) ((is_idle) ? SPEC_DEVICES_MAX + 1 + (count) : (count))
#define COLUMN_UNBUILT (2 * (SPEC_DEVICES_MAX + 1))

struct columns {
	bool has_grades; /* bounds are PLACE_NEVER or 0 to PLACE_GRADE_MAX */
	uint32_t n_levels;
	uint32_t n_at[LEVELS]; /* rows with padding, then the entries of each higher level */
	/*
	 * For every FAN entries of a level, each column has one line of FAN values: `free` has the
	 * free capacities, `bound` the bounds.
	 */
	int32_t *free[LEVELS];
	/*
	 * Elements are int32_t. With has_grades they are bytes: the grade plus 1, or 0 for
	 * PLACE_NEVER.
	 */
	void *bound[LEVELS];
	uint64_t *guessed; /* for each row one bit per column: the bound may be a guess */
	struct column *column;
	struct column_need *need;   /* COLUMNS_MAX elements */
	struct column_order *order; /* COLUMNS_MAX elements; shape i begins at ordered[i] */
	uint16_t ordered[COLUMN_UNBUILT + 1];
	bool is_ordered; /* false: call columns_put_in_order() first */
	uint32_t n, size;
	uint16_t *slot; /* hash table of columns; 0 is empty */
};

/* Makes a table without rows. `has_grades`: see struct columns. */
void columns_init(struct columns *columns, bool has_grades);
/*
 * Gives the table `n_rows` rows, a multiple of FAN, all empty, with no column built. -ENOMEM:
 * unchanged.
 */
int columns_resize(struct columns *columns, uint32_t n_rows);
void columns_done(struct columns *columns);

/* Empties all rows and marks all columns as not built. */
void columns_clear(struct columns *columns);

/* The class's column, or 0. */
uint32_t columns_find(const struct columns *columns, const struct place_class *class);
/*
 * Adds a column that is not built. `now`, the present n_changes of the pool, becomes its `used`.
 * Returns 0 when out of memory.
 */
uint32_t columns_add(struct columns *columns, const struct place_class *class, uint64_t now);
/*
 * Drops the columns whose `used` is below `since`, and columns that are not built. The remaining
 * columns get new numbers.
 */
void columns_drop(struct columns *columns, uint64_t since);

/* Returns n, or INT32_MAX if n is larger. */
static inline int32_t columns_number(uint64_t n)
{
	return n < INT32_MAX ? (int32_t)n : INT32_MAX;
}

static inline bool columns_are_bytes(const struct columns *columns, uint32_t column)
{
	return columns->has_grades && column >= COLUMN_CLASSES;
}

/* A line of FAN entries: int32_t, or bytes if columns_are_bytes(). */
static inline void *columns_line(
	const struct columns *columns, uint32_t level, uint32_t up, uint32_t column)
{
	const size_t item = columns->has_grades ? 1 : sizeof(int32_t);

	if (column < COLUMN_CLASSES)
		return &columns->free[level][((size_t)up * COLUMN_CLASSES + column) * FAN];
	return (char *)columns->bound[level] + ((size_t)up * columns->size + column) * FAN * item;
}

static inline int32_t columns_bound_of(uint8_t byte)
{
	return byte ? byte - 1 : PLACE_NEVER;
}

static inline int32_t columns_get(const struct columns *columns, uint32_t row, uint32_t column)
{
	const void *line = columns_line(columns, 0, row / FAN, column);

	return columns_are_bytes(columns, column)
		? columns_bound_of(((const uint8_t *)line)[row % FAN])
		: ((const int32_t *)line)[row % FAN];
}

/* Stores a bound without updating the levels above. */
static inline void columns_put(
	const struct columns *columns, uint32_t row, uint32_t column, int32_t value)
{
	void *line = columns_line(columns, 0, row / FAN, column);

	if (columns->has_grades)
		((uint8_t *)line)[row % FAN] = (uint8_t)(value == PLACE_NEVER ? 0 : value + 1);
	else
		((int32_t *)line)[row % FAN] = value;
}

/* Copies the bounds of a line. */
void columns_read(const struct columns *columns, uint32_t level, uint32_t up, uint32_t column,
	int32_t ret[static FAN]);

static inline bool columns_is_built(const struct columns *columns, uint32_t column)
{
	return columns->need[column].shape != COLUMN_UNBUILT;
}

/* Marks the column as kept up to date, or as no longer kept up to date. */
void columns_set_built(struct columns *columns, uint32_t column, bool is_built);

/* Makes `order` valid until a column is built, no longer kept up to date, or dropped. */
void columns_put_in_order(struct columns *columns);

/* Sets a bound and the maxima above it, in levels below `levels`. */
void columns_change(const struct columns *columns, uint32_t row, uint32_t column, int32_t value,
	uint32_t levels);

static inline void columns_set(const struct columns *columns, uint32_t row, uint32_t column,
	int32_t value, uint32_t levels)
{
	if (columns_get(columns, row, column) != value)
		columns_change(columns, row, column, value, levels);
}

/* Sets n bounds of one row. */
void columns_set_many(const struct columns *columns, uint32_t row, const uint16_t *column,
	const int32_t *value, uint32_t n, uint32_t levels);

/* Computes all levels above the column's rows. */
void columns_set_levels(const struct columns *columns, uint32_t column);

/* Marks n bounds as guesses, or as exact. */
void columns_note_guesses(const struct columns *columns, uint32_t row, const uint16_t *column,
	uint32_t n, bool is_guess);
bool columns_is_guess(const struct columns *columns, uint32_t row, uint32_t column);

#endif
