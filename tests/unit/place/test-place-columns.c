/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of bounds: each entry of a higher level is the maximum of 16 entries below it, in
 * whatever order bounds were set. A table with one byte for each bound holds the same bounds as a
 * table of int32_t.
 */
#include "unit.h"

#include "base/cleanup.h"
#include "base/rand.h"
#include "place/place-columns.h"
#include "place/place-internal.h"

#define ROWS (3 * FAN * FAN)
#define CLASSES 40u /* more than COLUMNS_MIN of place-columns.c, so the table is widened */

static struct columns table_of(bool has_grades)
{
	struct columns c;

	columns_init(&c, has_grades);
	assert_ok(columns_resize(&c, ROWS));
	return c;
}

static uint32_t add(struct columns *c, uint32_t share)
{
	const struct place_class class = {.share = share, .share_most = share, .count = 1};
	const uint32_t column = columns_add(c, &class, share);

	assert_int_not_equal(column, 0);
	columns_set_built(c, column, true);
	return column;
}

static int32_t at(const struct columns *c, uint32_t level, uint32_t i, uint32_t column)
{
	int32_t line[FAN];

	columns_read(c, level, i / FAN, column, line);
	return line[i % FAN];
}

static void assert_greatest(const struct columns *c, uint32_t column)
{
	assert_int_equal(c->n_levels, 3);
	for (uint32_t level = 1; level < c->n_levels; level++)
		for (uint32_t i = 0; i < c->n_at[level - 1] / FAN; i++) {
			int32_t most = PLACE_NEVER;

			for (uint32_t k = 0; k < FAN; k++)
				most = MAX(most, at(c, level - 1, i * FAN + k, column));
			assert_int_equal(at(c, level, i, column), most);
		}
}

static int32_t draw(struct rand *r)
{
	static const int32_t ends[] = {PLACE_NEVER, 0, PLACE_GRADE_MAX};
	const uint64_t i = rand_below(r, 8);

	return i < ARRAY_SIZE(ends) ? ends[i] : (int32_t)rand_below(r, PLACE_GRADE_MAX + 1);
}

static void an_upper_level_has_the_greatest_value_below(void **state)
{
	struct columns bytes = table_of(true), numbers = table_of(false);
	struct rand r = rand_seeded(1);
	uint16_t column[CLASSES];
	int32_t value[CLASSES];

	for (uint32_t n = 1; n <= CLASSES; n++) {
		column[n - 1] = (uint16_t)add(&bytes, n);
		assert_int_equal(add(&numbers, n), column[n - 1]);
		for (uint32_t k = 0; k < 200; k++) {
			const uint32_t row = (uint32_t)rand_below(&r, ROWS);

			for (uint32_t i = 0; i < n; i++)
				value[i] = draw(&r);
			columns_set_many(&bytes, row, column, value, n, bytes.n_levels);
			for (uint32_t i = 0; i < n; i++)
				columns_set(&numbers, row, column[i], value[i], numbers.n_levels);
		}
		assert_greatest(&bytes, column[n - 1]);
		assert_greatest(&numbers, column[n - 1]);
	}
	for (uint32_t i = 0; i < CLASSES; i++)
		for (uint32_t row = 0; row < ROWS; row++)
			assert_int_equal(columns_get(&bytes, row, column[i]),
				columns_get(&numbers, row, column[i]));
	columns_done(&bytes);
	columns_done(&numbers);
}

static void all_levels_can_be_computed_at_once(void **state)
{
	struct columns c = table_of(true);
	const uint32_t column = add(&c, 1);
	struct rand r = rand_seeded(2);

	for (uint32_t row = 0; row < ROWS; row++)
		columns_set(&c, row, column, draw(&r), 1);
	columns_set_levels(&c, column);
	assert_greatest(&c, column);
	columns_done(&c);
}

/*
 * In a table whose bounds are grades of one byte, the columns of free capacity still hold int32_t.
 * A column that moves to another index keeps its bounds.
 */
static void free_capacity_is_stored_as_numbers(void **state)
{
	struct columns c = table_of(true);
	uint32_t column;

	add(&c, 1);
	column = add(&c, 2);
	columns_set(&c, 5, COLUMN_CPU, 96000, c.n_levels);
	columns_set(&c, 5, column, 7, c.n_levels);
	columns_drop(&c, 2);
	column = columns_find(&c, &(struct place_class){.share = 2, .share_most = 2, .count = 1});
	assert_int_equal(column, COLUMN_CLASSES);
	assert_int_equal(columns_get(&c, 5, column), 7);
	assert_int_equal(columns_get(&c, 4, column), PLACE_NEVER);
	assert_int_equal(columns_get(&c, 5, COLUMN_CPU), 96000);
	assert_int_equal(
		((const int32_t *)columns_line(&c, c.n_levels - 1, 0, COLUMN_CPU))[0], 96000);
	columns_clear(&c);
	assert_int_equal(columns_get(&c, 5, column), PLACE_NEVER);
	columns_done(&c);
}

UNIT_MAIN(UNIT(an_upper_level_has_the_greatest_value_below),
	UNIT(all_levels_can_be_computed_at_once), UNIT(free_capacity_is_stored_as_numbers))
