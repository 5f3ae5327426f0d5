/* SPDX-License-Identifier: Apache-2.0 */
#include "core/place-columns.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "core/place-internal.h"

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

/* Which they are is not known any more: that some are not is found when it is their turn. */
static void forget_guesses(const struct columns *c)
{
	memset(c->guessed, 0xff, c->n_at[0] * sizeof(uint64_t) * guess_words(c));
}

/* ---- room ---- */

static void set_shape(struct columns *c, uint32_t n_rows)
{
	uint32_t n = n_rows;

	for (c->n_levels = 0;; n = (n + FAN - 1) / FAN) {
		c->n_at[c->n_levels++] = (n + FAN - 1) / FAN * FAN;
		if (n <= FAN)
			return;
	}
}

/* Of its shape and size: all empty. */
static int lay_out(struct columns *c)
{
	size_t n = 0;
	int32_t *items;

	for (uint32_t l = 0; l < c->n_levels; l++)
		n += (size_t)c->n_at[l] * c->size;
	c->guessed = calloc(c->n_at[0], sizeof(*c->guessed) * guess_words(c));
	items = malloc(n * sizeof(*items));
	if (!items || !c->guessed) {
		free(items);
		free(c->guessed);
		return -ENOMEM;
	}
	for (size_t i = 0; i < n; i++)
		items[i] = PLACE_NEVER;
	forget_guesses(c);
	for (uint32_t l = 0; l < c->n_levels; l++) {
		c->level[l] = items;
		items += (size_t)c->n_at[l] * c->size;
	}
	return 0;
}

static int start(struct columns *c)
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
	int r = c->column ? 0 : start(c);

	if (r < 0)
		return r;
	next = *c;
	set_shape(&next, n_rows);
	r = lay_out(&next);
	if (r < 0)
		return r;
	free(c->level[0]);
	free(c->guessed);
	*c = next;
	columns_clear(c);
	return 0;
}

void columns_done(struct columns *c)
{
	free(c->level[0]);
	free(c->guessed);
	free(c->column);
	free(c->need);
	free(c->order);
	free(c->slot);
	*c = (struct columns){0};
}

void columns_clear(struct columns *c)
{
	for (uint32_t l = 0; l < c->n_levels; l++)
		for (size_t i = 0; i < (size_t)c->n_at[l] * c->size; i++)
			c->level[l][i] = PLACE_NEVER;
	for (uint32_t i = COLUMN_CLASSES; i < c->n; i++)
		columns_set_built(c, i, false);
}

/* Those that there are keep what they hold. */
static int widen(struct columns *c, uint32_t size)
{
	struct columns was = *c;
	struct column *columns = realloc(c->column, size * sizeof(*columns));
	int r;

	if (!columns)
		return -ENOMEM;
	was.column = c->column = columns;
	c->size = size;
	r = lay_out(c);
	if (r < 0) {
		*c = was;
		return r;
	}
	for (uint32_t l = 0; l < c->n_levels; l++)
		for (uint32_t up = 0; up < c->n_at[l] / FAN; up++)
			memcpy(columns_line(c, l, up, 0), columns_line(&was, l, up, 0),
				c->n * FAN * sizeof(int32_t));
	free(was.level[0]);
	free(was.guessed);
	return 0;
}

/* ---- which there are ---- */

static uint32_t hash(const struct place_class *c)
{
	uint64_t h = (uint64_t)c->share << 32 ^ (uint64_t)c->share_most << 18 ^
		(uint64_t)c->count << 8 ^ (uint64_t)c->is_idle << 7 ^ (uint64_t)c->kind << 44 ^
		c->models * 0x9e3779b97f4a7c15u;

	h *= 0xff51afd7ed558ccdu;
	return (uint32_t)(h >> 40) & (SLOTS - 1);
}

static bool is_same(const struct place_class *a, const struct place_class *b)
{
	return a->models == b->models && a->share == b->share && a->share_most == b->share_most &&
		a->count == b->count && a->is_idle == b->is_idle && a->kind == b->kind;
}

/* Where the class's column is noted, or is to be. */
static uint16_t *slot_of(const struct columns *c, const struct place_class *class)
{
	uint32_t h = hash(class);

	while (c->slot[h] && !is_same(&c->column[c->slot[h]].class, class))
		h = (h + 1) & (SLOTS - 1);
	return &c->slot[h];
}

uint32_t columns_find(const struct columns *c, const struct place_class *class)
{
	return *slot_of(c, class);
}

/* Those that are not built go as well. */
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
					FAN * sizeof(int32_t));
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

/* Room for one more. */
static int reserve(struct columns *c, uint64_t now)
{
	const uint32_t size = MIN(2 * c->size, COLUMNS_MAX);
	uint64_t least = UINT64_MAX;

	if (c->n < c->size)
		return 0;
	columns_drop(c, 0);
	if (c->n <= c->size / 4 * 3)
		return 0;
	if (size > c->size)
		return widen(c, size);
	/* Half of the time since: so that this is rare. */
	for (uint32_t i = COLUMN_CLASSES; i < c->n; i++)
		least = MIN(least, c->column[i].used);
	columns_drop(c, least + (now - least) / 2 + 1);
	return 0;
}

uint32_t columns_add(struct columns *c, const struct place_class *class, uint64_t now)
{
	if (reserve(c, now) < 0)
		return 0;
	c->column[c->n] = (struct column){.class = *class, .used = now};
	columns_set_built(c, c->n, false);
	*slot_of(c, class) = (uint16_t)c->n;
	return c->n++;
}

/* ---- bounds ---- */

/* In fours: the compiler makes vectors of them. */
static inline int32_t most(const int32_t *p)
{
	int32_t four[4] = {p[0], p[1], p[2], p[3]};

	for (uint32_t at = 4; at < FAN; at += 4)
		for (uint32_t i = 0; i < 4; i++)
			four[i] = four[i] > p[at + i] ? four[i] : p[at + i];
	return MAX(MAX(four[0], four[1]), MAX(four[2], four[3]));
}

PLACE_VECTORS void columns_change(
	const struct columns *c, uint32_t row, uint32_t column, int32_t value, uint32_t levels)
{
	int32_t *p = columns_at(c, row, column), was = *p;
	uint32_t at = row;

	for (uint32_t l = 1; was != value; l++) {
		int32_t *up;

		*p = value;
		if (l == levels)
			return;
		at /= FAN;
		up = &columns_line(c, l, at / FAN, column)[at % FAN];
		if (value < *up) {
			if (was < *up)
				return;
			value = most(columns_line(c, l - 1, at, column));
		}
		was = *up;
		p = up;
	}
}

PLACE_VECTORS void columns_set_levels(const struct columns *c, uint32_t column)
{
	for (uint32_t l = 1; l < c->n_levels; l++)
		for (uint32_t at = 0; at < c->n_at[l - 1] / FAN; at++)
			columns_line(c, l, at / FAN, column)[at % FAN] = most(
				columns_line(c, l - 1, at, column));
}
