/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <string.h>

#include "base/arena.h"
#include "unit.h"

static void pieces_are_zero_aligned_and_apart(void **state)
{
	struct arena a = {0};
	unsigned char *last = NULL;

	for (size_t n = 0; n < 5000; n += 7) {
		unsigned char *p = arena_take(&a, n);

		assert_non_null(p);
		assert_int_equal((uintptr_t)p % _Alignof(max_align_t), 0);
		assert_ptr_not_equal(p, last);
		for (size_t i = 0; i < n; i++)
			assert_int_equal(p[i], 0);
		memset(p, 0xff, n);
		last = p;
	}
	arena_done(&a);
	assert_null(a.blocks);
	arena_done(&a);
}

static void impossible_sizes_are_refused(void **state)
{
	struct arena a = {0};

	assert_null(arena_take(&a, SIZE_MAX));
	assert_null(arena_take(&a, SIZE_MAX - 8));
	assert_null(arena_take_array(&a, SIZE_MAX / 2, 4));
	assert_non_null(arena_take_array(&a, 0, 4));
	assert_non_null(arena_take(&a, 1 << 20));
	arena_done(&a);
}

static void texts_are_terminated(void **state)
{
	struct arena a = {0};

	assert_string_equal(arena_dup(&a, STR("abc")), "abc");
	assert_string_equal(arena_dup(&a, (struct str){"abc", 2}), "ab");
	assert_string_equal(arena_dup(&a, STR_NONE), "");
	arena_done(&a);
}

UNIT_MAIN(UNIT(pieces_are_zero_aligned_and_apart), UNIT(impossible_sizes_are_refused),
	UNIT(texts_are_terminated))
