/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Address ranges that do not overlap, each with what its owner notes about it. Sorted; finding
 * costs the logarithm. Any thread.
 */
#ifndef REMOTE_RANGES_H
#define REMOTE_RANGES_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct range {
	uint64_t base, size;
	uint64_t note;
};

struct ranges {
	pthread_mutex_t lock;
	struct range *range;
	size_t n, room;
};

/* Notes about device memory, of both ends. */
enum range_note {
	RANGE_PLAIN,
	RANGE_OF_GRAPH,  /* each launch allocates it again */
	RANGE_RESERVED,  /* addresses alone, of no context: memory is mapped there, and unmapped */
	RANGE_OF_MODULE, /* goes with it */
};

/* Bytes, where what is no number is too many. */
static inline uint64_t reach_times(uint64_t a, uint64_t b)
{
	uint64_t n;

	return __builtin_mul_overflow(a, b, &n) ? UINT64_MAX : n;
}

/* From the first byte to the last one of `n` rows of `width`, which begin `pitch` apart. */
static inline uint64_t reach_rows(uint64_t pitch, uint64_t width, uint64_t n)
{
	uint64_t all;

	if (!n || !width)
		return 0;
	return __builtin_add_overflow(reach_times(pitch, n - 1), width, &all) ? UINT64_MAX : all;
}

/* Where a copy begins in device memory; what is 0 of the last two is as the copy needs it. */
struct copy_place {
	uint64_t address;
	uint64_t x, y, z;
	uint64_t pitch, rows; /* bytes from row to row, rows from slice to slice */
};

#define RANGES_INIT ((struct ranges){.lock = PTHREAD_MUTEX_INITIALIZER})
/* More than any program has; what a peer makes us remember has an end. */
#define RANGES_MAX (1u << 20)

/* What it overlaps is forgotten: its owner has given it away. 0 or -ENOMEM. */
int ranges_add(struct ranges *r, uint64_t base, uint64_t size, uint64_t note);
/* The range that holds the address. */
bool ranges_find(struct ranges *r, uint64_t address, struct range *ret_range);
/* The range that begins there is forgotten. */
bool ranges_remove(struct ranges *r, uint64_t base, struct range *ret_range);
/* The same, but for a range with that note. */
bool ranges_remove_but(struct ranges *r, uint64_t base, uint64_t note, struct range *ret_range);
/* Another note about the range that begins there; false: none does. */
bool ranges_note(struct ranges *r, uint64_t base, uint64_t note);
/* All of it lies in ranges, of which one goes on where another one ends. No bytes always do. */
bool ranges_cover(struct ranges *r, uint64_t base, uint64_t size);
/* The same of a copy, from the place's address to its last byte. */
bool ranges_cover_copy(struct ranges *r, const struct copy_place *p, uint64_t width,
	uint64_t height, uint64_t depth);
/* Forgotten is what `stays` says no to, which may not use the ranges. */
void ranges_sift(struct ranges *r, bool (*stays)(const struct range *, void *), void *argument);
bool ranges_overlap(struct ranges *r, uint64_t base, uint64_t size);

#endif
