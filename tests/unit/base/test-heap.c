/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/heap.h"
#include "base/rand.h"

#define N 300u

struct task {
	uint32_t rank, at;
};

static bool task_is_before(const struct task *a, const struct task *b)
{
	return a->rank < b->rank;
}

static void task_set_at(struct task *task, uint32_t at)
{
	task->at = at;
}

HEAP_HEAD(tasks, struct task *);
HEAP_DEFINE(tasks, struct task *, task_is_before, task_set_at)

#define IS_GREATER(a, b) ((a) > (b))
HEAP_HEAD(numbers, uint64_t);
HEAP_DEFINE(numbers, uint64_t, IS_GREATER, HEAP_NO_PLACE)

static void assert_is_heap(const struct tasks *h)
{
	for (uint32_t i = 0; i < h->n; i++) {
		assert_int_equal(h->v[i]->at, i);
		assert_false(i && task_is_before(h->v[i], h->v[(i - 1) / 2]));
	}
}

static void items_come_out_in_order(void **state)
{
	struct rand rand = rand_seeded(1);
	struct numbers h = {0};
	uint64_t last = UINT64_MAX;

	for (uint32_t i = 0; i < N; i++) {
		assert_ok(numbers_reserve(&h, h.n + 1ul));
		numbers_add(&h, rand_below(&rand, N / 2));
	}
	for (uint32_t i = 0; i < N; i++) {
		const uint64_t first = numbers_take(&h);

		assert_true(first <= last);
		last = first;
	}
	assert_int_equal(h.n, 0);
	free(h.v);
}

static void numbers_order_makes_a_heap(void **state)
{
	struct rand rand = rand_seeded(2);
	struct numbers h = {0};

	assert_ok(numbers_reserve(&h, N));
	for (uint32_t i = 0; i < N; i++)
		h.v[h.n++] = rand_u64(&rand);
	numbers_order(&h);
	for (uint32_t i = 1; i < N; i++)
		assert_true(h.v[i] <= h.v[(i - 1) / 2]);
	free(h.v);
}

static void items_anywhere_can_move_and_leave(void **state)
{
	struct rand rand = rand_seeded(3);
	struct task task[N] = {{0}};
	struct tasks h = {0};
	uint32_t n_left = N;

	assert_ok(tasks_reserve(&h, N));
	for (uint32_t i = 0; i < N; i++) {
		task[i].rank = (uint32_t)rand_below(&rand, N / 2);
		tasks_add(&h, &task[i]);
		assert_is_heap(&h);
	}
	for (uint32_t i = 0; i < N; i++) {
		task[i].rank = (uint32_t)rand_below(&rand, N / 2);
		tasks_moved(&h, task[i].at);
		assert_is_heap(&h);
	}
	for (uint32_t i = 0; i < N; i++) {
		tasks_remove(&h, task[i].at);
		assert_int_equal(h.n, --n_left);
		assert_is_heap(&h);
		for (uint32_t k = 0; k < h.n; k++)
			assert_true(h.v[k] > &task[i]);
	}
	free(h.v);
}

static void the_number_of_items_is_limited(void **state)
{
	struct numbers h = {0};

	assert_int_equal(numbers_reserve(&h, (size_t)UINT32_MAX), -ENOMEM);
	assert_null(h.v);
	assert_int_equal(h.room, 0);
}

UNIT_MAIN(UNIT(items_come_out_in_order), UNIT(numbers_order_makes_a_heap),
	UNIT(items_anywhere_can_move_and_leave), UNIT(the_number_of_items_is_limited))
