/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"

static void growing_keeps_the_items(void **state)
{
	uint32_t *items = NULL, room = 0;

	for (uint32_t n = 0; n < 1000; n++) {
		assert_ok(array_grow(&items, &room, n + 1, sizeof(*items)));
		assert_true(room > n);
		assert_int_equal(items[room - 1], 0);
		items[n] = n + 1;
	}
	for (uint32_t n = 0; n < 1000; n++)
		assert_int_equal(items[n], n + 1);
	free(items);
}

static void a_refused_size_changes_nothing(void **state)
{
	uint64_t *items = NULL, *before;
	uint32_t room = 0;

	assert_ok(array_grow(&items, &room, 1, sizeof(*items)));
	before = items;
	assert_int_equal(array_grow(&items, &room, SIZE_MAX, sizeof(*items)), -ENOMEM);
	assert_ptr_equal(items, before);
	assert_int_equal(room, 16);
	free(items);
}

UNIT_MAIN(UNIT(growing_keeps_the_items), UNIT(a_refused_size_changes_nothing))
