/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the ranges in one array, sorted by address, and finds a range by binary search. Ranges
 * never overlap: ranges_add() first removes every range that the new range overlaps. That removal
 * stays when the array cannot grow afterwards. The array doubles from 64 to RANGES_MAX entries and
 * never shrinks. Each public function holds the lock while it reads or changes the array, so any
 * thread may call them. Callers of ranges_find_at(), ranges_cut_out() and ranges_grow_table() hold
 * the lock.
 */
#include "remote/ranges.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The first range that ends after the address. */
static size_t ranges_find_at(const struct ranges *r, uint64_t address)
{
	size_t low = 0, high = r->n;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;

		if (r->range[middle].base + r->range[middle].size <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void ranges_cut_out(struct ranges *r, size_t from, size_t to)
{
	if (from == to)
		return;
	memmove(r->range + from, r->range + to, (r->n - to) * sizeof(r->range[0]));
	r->n -= to - from;
}

static int ranges_grow_table(struct ranges *r)
{
	const size_t n = r->room ? 2 * r->room : 64;
	struct range *more;

	if (r->n < r->room)
		return 0;
	if (n > RANGES_MAX)
		return -ENOMEM;
	more = realloc(r->range, n * sizeof(*more));
	if (!more)
		return -ENOMEM;
	r->range = more;
	r->room = n;
	return 0;
}

int ranges_add(struct ranges *r, uint64_t base, uint64_t size, uint64_t note)
{
	size_t at, last;
	int error;

	if (!size || size > UINT64_MAX - base)
		return -EINVAL;
	pthread_mutex_lock(&r->lock);
	at = last = ranges_find_at(r, base);
	while (last < r->n && r->range[last].base < base + size)
		last++;
	ranges_cut_out(r, at, last);
	error = ranges_grow_table(r);
	if (error == 0) {
		memmove(r->range + at + 1, r->range + at, (r->n - at) * sizeof(r->range[0]));
		r->range[at] = (struct range){base, size, note};
		r->n++;
	}
	pthread_mutex_unlock(&r->lock);
	return error;
}

bool ranges_find(struct ranges *r, uint64_t address, struct range *ret_range)
{
	bool is_in;
	size_t at;

	pthread_mutex_lock(&r->lock);
	at = ranges_find_at(r, address);
	is_in = at < r->n && r->range[at].base <= address;
	if (is_in && ret_range)
		*ret_range = r->range[at];
	pthread_mutex_unlock(&r->lock);
	return is_in;
}

static bool ranges_take_out(
	struct ranges *r, uint64_t base, const uint64_t *but, struct range *ret_range)
{
	bool is_there;
	size_t at;

	pthread_mutex_lock(&r->lock);
	at = ranges_find_at(r, base);
	is_there = at < r->n && r->range[at].base == base && !(but && r->range[at].note == *but);
	if (is_there) {
		if (ret_range)
			*ret_range = r->range[at];
		ranges_cut_out(r, at, at + 1);
	}
	pthread_mutex_unlock(&r->lock);
	return is_there;
}

bool ranges_remove(struct ranges *r, uint64_t base, struct range *ret_range)
{
	return ranges_take_out(r, base, NULL, ret_range);
}

bool ranges_remove_but(struct ranges *r, uint64_t base, uint64_t note, struct range *ret_range)
{
	return ranges_take_out(r, base, &note, ret_range);
}

bool ranges_note(struct ranges *r, uint64_t base, uint64_t note)
{
	bool is_there;
	size_t at;

	pthread_mutex_lock(&r->lock);
	at = ranges_find_at(r, base);
	is_there = at < r->n && r->range[at].base == base;
	if (is_there)
		r->range[at].note = note;
	pthread_mutex_unlock(&r->lock);
	return is_there;
}

bool ranges_cover(struct ranges *r, uint64_t base, uint64_t size)
{
	uint64_t at = base;

	if (!size)
		return true;
	if (size > UINT64_MAX - base)
		return false;
	pthread_mutex_lock(&r->lock);
	for (size_t i = ranges_find_at(r, base);
		i < r->n && r->range[i].base <= at && at < base + size; i++)
		at = r->range[i].base + r->range[i].size;
	pthread_mutex_unlock(&r->lock);
	return at >= base + size;
}

bool ranges_cover_copy(struct ranges *r, const struct copy_place *p, uint64_t width,
	uint64_t height, uint64_t depth)
{
	uint64_t x, y, z, pitch;

	if (!width || !height || !depth)
		return true;
	if (__builtin_add_overflow(p->x, width, &x) || __builtin_add_overflow(p->y, height, &y) ||
		__builtin_add_overflow(p->z, depth, &z))
		return false;
	pitch = p->pitch ? p->pitch : x;
	return ranges_cover(r, p->address,
		reach_rows(reach_times(pitch, p->rows ? p->rows : y), reach_rows(pitch, x, y), z));
}

void ranges_sift(struct ranges *r, bool (*stays)(const struct range *, void *), void *argument)
{
	size_t n = 0;

	pthread_mutex_lock(&r->lock);
	for (size_t i = 0; i < r->n; i++)
		if (stays(&r->range[i], argument))
			r->range[n++] = r->range[i];
	r->n = n;
	pthread_mutex_unlock(&r->lock);
}

bool ranges_overlap(struct ranges *r, uint64_t base, uint64_t size)
{
	bool does;
	size_t at;

	pthread_mutex_lock(&r->lock);
	at = ranges_find_at(r, base);
	does = at < r->n && (r->range[at].base < base || r->range[at].base - base < size);
	pthread_mutex_unlock(&r->lock);
	return does;
}
