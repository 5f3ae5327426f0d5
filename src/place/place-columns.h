/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table of bounds: a row for each node of a pool, a column for each class, and above the rows the
 * greatest of each 16, and of each 16 of those, up to one line. Each 16 rows have their lines of
 * all columns next to each other. What all classes share is in the first columns: the most that is
 * free. A bound may be a guess, which is noted beside it. Bounds that are grades take a byte each:
 * a quarter of the caches' room.
 *
 * Knows no node and no policy: who fills it in is place-bounds.c. Threads: as place.h.
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

/* Bytes are in MiB. */
enum {
	COLUMN_CPU,
	COLUMN_MEMORY,
	COLUMN_DEVICE_MEMORY,
	COLUMN_OPPORTUNISTIC, /* 1: somebody is there who is */
	COLUMN_CLASSES
};

struct column {
	struct place_class class;
	uint64_t used; /* any number that grows: when it was asked for */
};

/* What a node has to have open for a class: more than that share, on as many devices. */
struct column_need {
	uint16_t share;
	uint16_t shape; /* COLUMN_SHAPE of the class; COLUMN_UNBUILT: it is not kept up to date */
};

/* The built ones by shape, each shape's by share: those that a node has room for come first. */
struct column_order {
	uint16_t share, column;
};

#define COLUMN_SHAPE(is_idle, count) ((is_idle) ? SPEC_DEVICES_MAX + 1 + (count) : (count))
#define COLUMN_UNBUILT (2 * (SPEC_DEVICES_MAX + 1))

struct columns {
	bool has_grades; /* bounds are PLACE_NEVER or from 0 to PLACE_GRADE_MAX */
	uint32_t n_levels;
	uint32_t n_at[LEVELS]; /* rows, with padding; and so on up */
	/* For each FAN of its n_at[], a line of FAN for each column: of what is free, of bounds. */
	int32_t *free[LEVELS];
	void *bound[LEVELS]; /* int32_t; of grades a byte, one more than it is, 0 for PLACE_NEVER */
	uint64_t *guessed;   /* for each of n_at[0], a bit for each column: it may be a guess */
	struct column *column;
	struct column_need *need;   /* COLUMNS_MAX of them */
	struct column_order *order; /* COLUMNS_MAX of them; of shape i from ordered[i] on */
	uint16_t ordered[COLUMN_UNBUILT + 1];
	bool is_ordered; /* or columns_put_in_order() has to be called */
	uint32_t n, size;
	uint16_t *slot; /* of a hash table: column, or 0 */
};

/* Of no rows. has_grades: see there. */
void columns_init(struct columns *columns, bool has_grades);
/* Room for that many rows, a multiple of FAN, all empty and no column built. -ENOMEM: unchanged. */
int columns_resize(struct columns *columns, uint32_t n_rows);
void columns_done(struct columns *columns);

/* No bound is known any more. */
void columns_clear(struct columns *columns);

/* The class's, or 0. */
uint32_t columns_find(const struct columns *columns, const struct place_class *class);
/* A new one, that is not built; now: its `used`, no less than any before. 0: out of memory. */
uint32_t columns_add(struct columns *columns, const struct place_class *class, uint64_t now);
/* All but those that were used since then; the others have other numbers. */
void columns_drop(struct columns *columns, uint64_t since);

/* What is more than a bound can be counts as the most that it can. */
static inline int32_t columns_number(uint64_t n)
{
	return n < INT32_MAX ? (int32_t)n : INT32_MAX;
}

static inline bool columns_are_bytes(const struct columns *columns, uint32_t column)
{
	return columns->has_grades && column >= COLUMN_CLASSES;
}

/* int32_t, or bytes if columns_are_bytes(). */
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

/* A bound, and nothing of what is above it. */
static inline void columns_put(
	const struct columns *columns, uint32_t row, uint32_t column, int32_t value)
{
	void *line = columns_line(columns, 0, row / FAN, column);

	if (columns->has_grades)
		((uint8_t *)line)[row % FAN] = (uint8_t)(value == PLACE_NEVER ? 0 : value + 1);
	else
		((int32_t *)line)[row % FAN] = value;
}

/* The bounds of a line. */
void columns_read(const struct columns *columns, uint32_t level, uint32_t up, uint32_t column,
	int32_t ret[static FAN]);

static inline bool columns_is_built(const struct columns *columns, uint32_t column)
{
	return columns->need[column].shape != COLUMN_UNBUILT;
}

/* From now on it is kept up to date, or no longer. */
void columns_set_built(struct columns *columns, uint32_t column, bool is_built);

/* `order` is right then, until a column is built, given up or dropped. */
void columns_put_in_order(struct columns *columns);

/* And what is above it, up to that level. */
void columns_change(const struct columns *columns, uint32_t row, uint32_t column, int32_t value,
	uint32_t levels);

static inline void columns_set(const struct columns *columns, uint32_t row, uint32_t column,
	int32_t value, uint32_t levels)
{
	if (columns_get(columns, row, column) != value)
		columns_change(columns, row, column, value, levels);
}

/* n bounds. */
void columns_set_many(const struct columns *columns, uint32_t row, const uint16_t *column,
	const int32_t *value, uint32_t n, uint32_t levels);

/* What is above the rows, all of it. */
void columns_set_levels(const struct columns *columns, uint32_t column);

/* n of them; neighbours that follow each other are noted at once. */
void columns_note_guesses(const struct columns *columns, uint32_t row, const uint16_t *column,
	uint32_t n, bool is_guess);
bool columns_is_guess(const struct columns *columns, uint32_t row, uint32_t column);

#endif
