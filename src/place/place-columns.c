/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file implements the table of bounds: memory, columns by class, maxima and guesses. One
 * allocation, which starts at free[0], holds the lines of all levels. `guessed` has an allocation
 * of its own. A grade is stored as grade + 1, so that 0 is PLACE_NEVER and bytes compare as bounds
 * do. columns_change_item() goes up level by level until a maximum stays the same. The function
 * reads all items of a line only if the line's greatest item has fallen. `slot` is a hash table
 * with twice as many slots as columns, so probing always ends. columns_drop() renumbers columns,
 * rebuilds that hash table and marks every bound as a guess.
 */
#include "place/place-columns.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "place/place-internal.h"

#define COLUMNS_MIN 16u
#define SLOTS (2 * COLUMNS_MAX) /* a power of two */

/* ---- guesses ---- */

static size_t guess_words(const struct columns *c)
{
	return (c->size + 63) / 64;
}

void columns_note_guesses(
	const struct columns *c, uint32_t row, const uint16_t *column, uint32_t n, bool is_guess)
{
	uint64_t *words = &c->guessed[row * guess_words(c)];

	for (uint32_t i = 0; i < n;) {
		const uint32_t word = column[i] / 64;
		uint64_t bits = 0;

		for (; i < n && column[i] / 64 == word; i++)
			bits |= 1ull << column[i] % 64;
		words[word] = is_guess ? words[word] | bits : words[word] & ~bits;
	}
}

bool columns_is_guess(const struct columns *c, uint32_t row, uint32_t column)
{
	return c->guessed[row * guess_words(c) + column / 64] >> column % 64 & 1;
}

/*
 * Marks every bound as a possible guess. For an exact bound the search then asks the policy once
 * more when it reaches the node.
 */
static void forget_guesses(const struct columns *c)
{
	memset(c->guessed, 0xff, c->n_at[0] * sizeof(uint64_t) * guess_words(c));
}

/* ---- memory ---- */

static void set_shape(struct columns *c, uint32_t n_rows)
{
	uint32_t n = n_rows;

	for (c->n_levels = 0;; n = (n + FAN - 1) / FAN) {
		c->n_at[c->n_levels++] = (n + FAN - 1) / FAN * FAN;
		if (n <= FAN)
			return;
	}
}

static size_t line_bytes(const struct columns *c)
{
	return FAN * (c->has_grades ? 1 : sizeof(int32_t));
}

static size_t bound_bytes(const struct columns *c, uint32_t level)
{
	return c->n_at[level] / FAN * c->size * line_bytes(c);
}

static size_t free_items(const struct columns *c, uint32_t level)
{
	return (size_t)c->n_at[level] * COLUMN_CLASSES;
}

static void columns_fill_items(int32_t *items, size_t n, int32_t value)
{
	for (size_t i = 0; i < n; i++)
		items[i] = value;
}

/* Sets all free capacities and all bounds to PLACE_NEVER. */
static void make_empty(const struct columns *c)
{
	for (uint32_t l = 0; l < c->n_levels; l++) {
		columns_fill_items(c->free[l], free_items(c, l), PLACE_NEVER);
		if (c->has_grades)
			memset(c->bound[l], 0, bound_bytes(c, l));
		else
			columns_fill_items(
				c->bound[l], bound_bytes(c, l) / sizeof(int32_t), PLACE_NEVER);
	}
}

/* Allocates the table by its shape and size, all empty. */
static int columns_lay_out(struct columns *c)
{
	size_t n = 0;
	char *at;

	for (uint32_t l = 0; l < c->n_levels; l++)
		n += free_items(c, l) * sizeof(int32_t) + bound_bytes(c, l);
	c->guessed = calloc(c->n_at[0], sizeof(*c->guessed) * guess_words(c));
	at = malloc(n);
	if (!at || !c->guessed) {
		free(at);
		free(c->guessed);
		return -ENOMEM;
	}
	for (uint32_t l = 0; l < c->n_levels; l++) {
		c->free[l] = (int32_t *)(void *)at;
		at += free_items(c, l) * sizeof(int32_t);
		c->bound[l] = at;
		at += bound_bytes(c, l);
	}
	make_empty(c);
	forget_guesses(c);
	return 0;
}

void columns_init(struct columns *c, bool has_grades)
{
	*c = (struct columns){.has_grades = has_grades};
}

static int columns_allocate(struct columns *c)
{
	c->column = calloc(COLUMNS_MIN, sizeof(*c->column));
	c->need = calloc(COLUMNS_MAX, sizeof(*c->need));
	c->order = calloc(COLUMNS_MAX, sizeof(*c->order));
	c->slot = calloc(SLOTS, sizeof(*c->slot));
	if (!c->column || !c->need || !c->order || !c->slot) {
		columns_done(c);
		return -ENOMEM;
	}
	c->size = COLUMNS_MIN;
	c->n = COLUMN_CLASSES;
	return 0;
}

int columns_resize(struct columns *c, uint32_t n_rows)
{
	struct columns next;
	int r = c->column ? 0 : columns_allocate(c);

	if (r < 0)
		return r;
	next = *c;
	set_shape(&next, n_rows);
	r = columns_lay_out(&next);
	if (r < 0)
		return r;
	free(c->free[0]);
	free(c->guessed);
	*c = next;
	columns_clear(c);
	return 0;
}

void columns_done(struct columns *c)
{
	free(c->free[0]);
	free(c->guessed);
	free(c->column);
	free(c->need);
	free(c->order);
	free(c->slot);
	columns_init(c, c->has_grades);
}

void columns_clear(struct columns *c)
{
	make_empty(c);
	for (uint32_t i = COLUMN_CLASSES; i < c->n; i++)
		columns_set_built(c, i, false);
}

static void copy_lines(
	const struct columns *c, uint32_t level, uint32_t up, const struct columns *from)
{
	const uint32_t first = COLUMN_CLASSES;

	memcpy(columns_line(c, level, up, 0), columns_line(from, level, up, 0),
		first * FAN * sizeof(int32_t));
	memcpy(columns_line(c, level, up, first), columns_line(from, level, up, first),
		(c->n - first) * line_bytes(c));
}

/* Existing columns keep their values. */
static int columns_widen(struct columns *c, uint32_t size)
{
	struct columns was = *c;
	struct column *columns = realloc(c->column, size * sizeof(*columns));
	int r;

	if (!columns)
		return -ENOMEM;
	was.column = c->column = columns;
	c->size = size;
	r = columns_lay_out(c);
	if (r < 0) {
		*c = was;
		return r;
	}
	for (uint32_t l = 0; l < c->n_levels; l++)
		for (uint32_t up = 0; up < c->n_at[l] / FAN; up++)
			copy_lines(c, l, up, &was);
	free(was.free[0]);
	free(was.guessed);
	return 0;
}

/* ---- columns by class ---- */

static uint32_t columns_hash_class(const struct place_class *c)
{
	uint64_t h = (uint64_t)c->share << 32 ^ (uint64_t)c->share_most << 18 ^
		(uint64_t)c->count << 8 ^ (uint64_t)c->is_idle << 7 ^ (uint64_t)c->kind << 44 ^
		c->models * 0x9e3779b97f4a7c15u;

	h *= 0xff51afd7ed558ccdu;
	return (uint32_t)(h >> 40) & (SLOTS - 1);
}

static bool columns_is_same_class(const struct place_class *a, const struct place_class *b)
{
	return a->models == b->models && a->share == b->share && a->share_most == b->share_most &&
		a->count == b->count && a->is_idle == b->is_idle && a->kind == b->kind;
}

/* Returns the slot of the class, or the slot where it belongs. */
static uint16_t *slot_of(const struct columns *c, const struct place_class *class)
{
	uint32_t h = columns_hash_class(class);

	while (c->slot[h] && !columns_is_same_class(&c->column[c->slot[h]].class, class))
		h = (h + 1) & (SLOTS - 1);
	return &c->slot[h];
}

uint32_t columns_find(const struct columns *c, const struct place_class *class)
{
	return *slot_of(c, class);
}

/* Also drops columns that are not built, whatever their last use. */
void columns_drop(struct columns *c, uint64_t since)
{
	uint32_t n = COLUMN_CLASSES;

	memset(c->slot, 0, SLOTS * sizeof(*c->slot));
	for (uint32_t i = n; i < c->n; i++) {
		if (!columns_is_built(c, i) || c->column[i].used < since)
			continue;
		for (uint32_t l = 0; l < c->n_levels && i != n; l++)
			for (uint32_t up = 0; up < c->n_at[l] / FAN; up++)
				memcpy(columns_line(c, l, up, n), columns_line(c, l, up, i),
					line_bytes(c));
		c->column[n] = c->column[i];
		c->need[n] = c->need[i];
		*slot_of(c, &c->column[n].class) = (uint16_t)n;
		n++;
	}
	c->n = n;
	c->is_ordered = false;
	forget_guesses(c);
}

void columns_set_built(struct columns *c, uint32_t column, bool is_built)
{
	const struct place_class *class = &c->column[column].class;

	c->need[column] = (struct column_need){.share = (uint16_t) class->share,
		.shape = (uint16_t)(is_built ? COLUMN_SHAPE(class->is_idle, class->count)
					     : COLUMN_UNBUILT)};
	c->is_ordered = false;
}

static int compare_order(const void *pa, const void *pb)
{
	const struct column_order *a = pa, *b = pb;

	return a->share != b->share ? (a->share > b->share) - (a->share < b->share)
				    : (a->column > b->column) - (a->column < b->column);
}

void columns_put_in_order(struct columns *c)
{
	uint16_t n[COLUMN_UNBUILT] = {0};

	if (c->is_ordered)
		return;
	for (uint32_t i = COLUMN_CLASSES; i < c->n; i++)
		if (columns_is_built(c, i))
			n[c->need[i].shape]++;
	for (uint32_t shape = 0; shape < COLUMN_UNBUILT; shape++) {
		c->ordered[shape + 1] = (uint16_t)(c->ordered[shape] + n[shape]);
		n[shape] = c->ordered[shape];
	}
	for (uint32_t i = COLUMN_CLASSES; i < c->n; i++)
		if (columns_is_built(c, i))
			c->order[n[c->need[i].shape]++] = (struct column_order){
				.share = c->need[i].share, .column = (uint16_t)i};
	for (uint32_t shape = 0; shape < COLUMN_UNBUILT; shape++)
		qsort(&c->order[c->ordered[shape]], c->ordered[shape + 1] - c->ordered[shape],
			sizeof(*c->order), compare_order);
	c->is_ordered = true;
}

/* Reserves space for one more column. */
static int columns_reserve_class(struct columns *c, uint64_t now)
{
	const uint32_t size = MIN(2 * c->size, COLUMNS_MAX);
	uint64_t least = UINT64_MAX;

	if (c->n < c->size)
		return 0;
	columns_drop(c, 0);
	if (c->n <= c->size / 4 * 3)
		return 0;
	if (size > c->size)
		return columns_widen(c, size);
	/*
	 * The table has its maximum size. Drop the columns whose last use is in the older half of
	 * the time since the oldest last use: so many columns go at once that drops are rare.
	 */
	for (uint32_t i = COLUMN_CLASSES; i < c->n; i++)
		least = MIN(least, c->column[i].used);
	columns_drop(c, least + (now - least) / 2 + 1);
	return 0;
}

uint32_t columns_add(struct columns *c, const struct place_class *class, uint64_t now)
{
	if (columns_reserve_class(c, now) < 0)
		return 0;
	c->column[c->n] = (struct column){.class = *class, .used = now};
	columns_set_built(c, c->n, false);
	*slot_of(c, class) = (uint16_t)c->n;
	return c->n++;
}

/* ---- bounds ---- */

/*
 * The functions below take bytes or int32_t. Inlined, each call has a constant `are_bytes` and no
 * branch on it.
 */
#define INLINE static inline __attribute__((always_inline))

/* Returns the maximum of a line's stored values. The compiler vectorizes this function's loop. */
INLINE int32_t columns_most(const void *line, bool are_bytes)
{
	const int32_t *p = line;
	const uint8_t *bytes = line;
	uint8_t most_byte = 0;
	int32_t four[4];

	for (uint32_t i = 0; i < FAN && are_bytes; i++)
		most_byte = most_byte > bytes[i] ? most_byte : bytes[i];
	if (are_bytes)
		return most_byte;
	memcpy(four, p, sizeof(four));
	for (uint32_t at = 4; at < FAN; at += 4)
		for (uint32_t i = 0; i < 4; i++)
			four[i] = four[i] > p[at + i] ? four[i] : p[at + i];
	return MAX(MAX(four[0], four[1]), MAX(four[2], four[3]));
}

INLINE int32_t columns_item(const void *line, uint32_t i, bool are_bytes)
{
	return are_bytes ? ((const uint8_t *)line)[i] : ((const int32_t *)line)[i];
}

INLINE void set_item(void *line, uint32_t i, int32_t value, bool are_bytes)
{
	if (are_bytes)
		((uint8_t *)line)[i] = (uint8_t)value;
	else
		((int32_t *)line)[i] = value;
}

INLINE void columns_change_item(const struct columns *c, uint32_t row, uint32_t column,
	int32_t value, uint32_t levels, bool are_bytes)
{
	void *line = columns_line(c, 0, row / FAN, column);
	uint32_t at = row;
	int32_t was = columns_item(line, row % FAN, are_bytes);

	if (are_bytes)
		value = value == PLACE_NEVER ? 0 : value + 1;
	for (uint32_t l = 1; was != value; l++) {
		const void *below = line;
		int32_t up;

		set_item(line, at % FAN, value, are_bytes);
		if (l == levels)
			return;
		at /= FAN;
		line = columns_line(c, l, at / FAN, column);
		up = columns_item(line, at % FAN, are_bytes);
		if (value < up) {
			if (was < up)
				return;
			value = columns_most(below, are_bytes);
		}
		was = up;
	}
}

PLACE_VECTORS void columns_set_many(const struct columns *c, uint32_t row, const uint16_t *column,
	const int32_t *value, uint32_t n, uint32_t levels)
{
	if (n && columns_are_bytes(c, column[0]))
		for (uint32_t i = 0; i < n; i++)
			columns_change_item(c, row, column[i], value[i], levels, true);
	else
		for (uint32_t i = 0; i < n; i++)
			columns_change_item(c, row, column[i], value[i], levels, false);
}

PLACE_VECTORS void columns_change(
	const struct columns *c, uint32_t row, uint32_t column, int32_t value, uint32_t levels)
{
	if (columns_are_bytes(c, column))
		columns_change_item(c, row, column, value, levels, true);
	else
		columns_change_item(c, row, column, value, levels, false);
}

PLACE_VECTORS void columns_read(const struct columns *c, uint32_t level, uint32_t up,
	uint32_t column, int32_t ret[static FAN])
{
	const void *line = columns_line(c, level, up, column);
	const uint8_t *bytes = line;

	if (!c->has_grades)
		memcpy(ret, line, FAN * sizeof(*ret));
	for (uint32_t i = 0; i < FAN && c->has_grades; i++)
		ret[i] = bytes[i] ? bytes[i] - 1 : PLACE_NEVER;
}

PLACE_VECTORS void columns_set_levels(const struct columns *c, uint32_t column)
{
	const bool are_bytes = columns_are_bytes(c, column);

	for (uint32_t l = 1; l < c->n_levels; l++)
		for (uint32_t at = 0; at < c->n_at[l - 1] / FAN; at++) {
			const void *below = columns_line(c, l - 1, at, column);

			set_item(columns_line(c, l, at / FAN, column), at % FAN,
				are_bytes ? columns_most(below, true) : columns_most(below, false),
				are_bytes);
		}
}
