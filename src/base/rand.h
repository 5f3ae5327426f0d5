/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random numbers. `struct rand` is for tests, simulation and jitter: the same seed gives the same
 * numbers on every machine (splitmix64); one thread per struct. random_bytes() is for secrets.
 */
#ifndef BASE_RAND_H
#define BASE_RAND_H

#include <stddef.h>
#include <stdint.h>

struct rand {
	uint64_t state;
};

/* Any seed is good, also 0. */
static inline struct rand rand_seeded(uint64_t seed)
{
	return (struct rand){seed};
}

uint64_t rand_u64(struct rand *r);

/* 0..n-1, each equally likely; 0 when n is 0. */
uint64_t rand_below(struct rand *r, uint64_t n);

/* 0 <= x < 1, in steps of 2^-53. */
double rand_unit(struct rand *r);

/* Fills p with random bytes of the kernel. Returns 0 or -errno. */
int random_bytes(void *p, size_t n);

#endif
