/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Binary heaps in a growing array, typed by macro: v[0] is the first of the n items.
 *
 *     HEAP_HEAD(deadlines, struct timer *);
 *     HEAP_DEFINE(deadlines, struct timer *, timer_is_before, timer_set_at)
 *
 * HEAP_HEAD declares `struct deadlines`. A zeroed struct is an empty heap, and its owner frees v.
 * HEAP_DEFINE defines the functions below. is_before(a, b) and set_at(item, at) are functions or
 * macros of items. is_before is a strict order; an item's rank may change only with a call of
 * _moved. set_at stores the item's index in v, for _remove and _moved; HEAP_NO_PLACE stores
 * nothing. Nothing blocks or locks.
 *
 * int deadlines_reserve(h, n): makes room for n items. -ENOMEM leaves the heap unchanged.
 *
 * void deadlines_add(h, item): adds an item, for which the caller has reserved room. O(log n).
 *
 * type deadlines_take(h): removes and returns the first of n > 0 items. O(log n).
 *
 * void deadlines_remove(h, at): removes the item v[at]. O(log n).
 *
 * void deadlines_moved(h, at): restores the order after the rank of v[at] has changed. O(log n).
 *
 * void deadlines_order(h): makes a heap of n items that the caller wrote to v. O(n).
 */
#ifndef BASE_HEAP_H
#define BASE_HEAP_H

#include <stddef.h>
#include <stdint.h>

#include "base/array.h"

#define HEAP_HEAD(name, type) \
	struct name { \
		type *v; \
		uint32_t n, room; \
	}

#define HEAP_NO_PLACE(item, at) ((void)0)

#define HEAP_FUNCTION __attribute__((unused)) static inline

/*
 * _up and _down fill the empty slot v[at]: they move other items until the new item's slot is
 * found.
 */
#define HEAP_DEFINE(name, type, is_before, set_at) \
	HEAP_FUNCTION void name##_up(struct name *h, uint32_t at, type item) \
	{ \
		for (; at && is_before(item, h->v[(at - 1) / 2]); at = (at - 1) / 2) { \
			h->v[at] = h->v[(at - 1) / 2]; \
			set_at(h->v[at], at); \
		} \
		h->v[at] = item; \
		set_at(h->v[at], at); \
	} \
\
	HEAP_FUNCTION void name##_down(struct name *h, uint32_t at, type item) \
	{ \
		uint32_t down; \
\
		while ((down = 2 * at + 1) < h->n) { \
			down += down + 1 < h->n && is_before(h->v[down + 1], h->v[down]); \
			if (!is_before(h->v[down], item)) \
				break; \
			h->v[at] = h->v[down]; \
			set_at(h->v[at], at); \
			at = down; \
		} \
		h->v[at] = item; \
		set_at(h->v[at], at); \
	} \
\
	HEAP_FUNCTION void name##_put(struct name *h, uint32_t at, type item) \
	{ \
		if (at && is_before(item, h->v[(at - 1) / 2])) \
			name##_up(h, at, item); \
		else \
			name##_down(h, at, item); \
	} \
\
	HEAP_FUNCTION int name##_reserve(struct name *h, size_t n) \
	{ \
		return n <= h->room ? 0 : array_grow(&h->v, &h->room, n, sizeof(*h->v)); \
	} \
\
	HEAP_FUNCTION void name##_add(struct name *h, type item) \
	{ \
		name##_up(h, h->n++, item); \
	} \
\
	HEAP_FUNCTION void name##_remove(struct name *h, uint32_t at) \
	{ \
		if (at != --h->n) \
			name##_put(h, at, h->v[h->n]); \
	} \
\
	HEAP_FUNCTION type name##_take(struct name *h) \
	{ \
		type first = h->v[0]; \
\
		if (--h->n) \
			name##_down(h, 0, h->v[h->n]); \
		return first; \
	} \
\
	HEAP_FUNCTION void name##_moved(struct name *h, uint32_t at) \
	{ \
		name##_put(h, at, h->v[at]); \
	} \
\
	HEAP_FUNCTION void name##_order(struct name *h) \
	{ \
		for (uint32_t at = h->n; at-- > 0;) \
			name##_down(h, at, h->v[at]); \
	}

#endif
