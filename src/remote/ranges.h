/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sorted address ranges that do not overlap, each with a note of its owner. A search takes
 * logarithmic time. Any thread.
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

/* Notes about device memory, at both ends of a session. */
enum range_note {
	RANGE_PLAIN,
	RANGE_OF_GRAPH,  /* memory that each launch of its graph allocates again */
	RANGE_RESERVED,  /* addresses of no context, where memory is mapped and unmapped */
	RANGE_OF_MODULE, /* memory that ends with its module */
};

/* A product in bytes; UINT64_MAX on overflow. */
static inline uint64_t reach_times(uint64_t a, uint64_t b)
{
	uint64_t n;

	return __builtin_mul_overflow(a, b, &n) ? UINT64_MAX : n;
}

/* Bytes from the first to the last of `n` rows of `width`, with distance `pitch`. */
static inline uint64_t reach_rows(uint64_t pitch, uint64_t width, uint64_t n)
{
	uint64_t all;

	if (!n || !width)
		return 0;
	return __builtin_add_overflow(reach_times(pitch, n - 1), width, &all) ? UINT64_MAX : all;
}

/*
 * The side of a copy (source or destination) that is in device memory. pitch or rows 0: the value
 * that the size of the copy requires.
 */
struct copy_place {
	uint64_t address;
	uint64_t x, y, z;
	uint64_t pitch, rows; /* bytes from row to row; rows from slice to slice */
};

#define RANGES_INIT ((struct ranges){.lock = PTHREAD_MUTEX_INITIALIZER})
/* Bounds the memory that a peer can make this process use; no program has that many ranges. */
#define RANGES_MAX (1u << 20)

/*
 * Adds a range, and removes those that it overlaps, because their owner has given them away.
 * -EINVAL: the range is empty or exceeds the address space; -ENOMEM.
 */
int ranges_add(struct ranges *r, uint64_t base, uint64_t size, uint64_t note);
/* Finds the range that contains the address. */
bool ranges_find(struct ranges *r, uint64_t address, struct range *ret_range);
/* Removes the range that begins at `base`. */
bool ranges_remove(struct ranges *r, uint64_t base, struct range *ret_range);
/* Like ranges_remove(), but keeps a range with that note. */
bool ranges_remove_but(struct ranges *r, uint64_t base, uint64_t note, struct range *ret_range);
/* Changes the note of the range that begins at `base`; false: there is none. */
bool ranges_note(struct ranges *r, uint64_t base, uint64_t note);
/* Whether adjacent ranges cover all these bytes. True for no bytes. */
bool ranges_cover(struct ranges *r, uint64_t base, uint64_t size);
/* Like ranges_cover(), for a copy from the place's address to its last byte. */
bool ranges_cover_copy(struct ranges *r, const struct copy_place *p, uint64_t width,
	uint64_t height, uint64_t depth);
/* Removes the ranges for which `stays` returns false. `stays` must not use the ranges. */
void ranges_sift(struct ranges *r, bool (*stays)(const struct range *, void *), void *argument);
/* Whether a range has one of these bytes; the bytes may exceed the address space. */
bool ranges_overlap(struct ranges *r, uint64_t base, uint64_t size);

#endif
