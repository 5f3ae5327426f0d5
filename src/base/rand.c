/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file generates seeded random numbers by splitmix64, and reads secrets from the kernel.
 * splitmix64 is by Vigna, in the public domain: it visits every state once in 2^64 steps and passes
 * BigCrush. One thread per struct rand.
 */
#include "base/rand.h"

#include <errno.h>
#include <sys/random.h>
#include <sys/types.h>

uint64_t rand_u64(struct rand *r)
{
	uint64_t z = (r->state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

uint64_t rand_below(struct rand *r, uint64_t n)
{
	uint64_t first, x;

	if (n == 0)
		return 0;
	/* Rejects the first 2^64 mod n numbers, so that all results are equally likely. */
	first = -n % n;
	do
		x = rand_u64(r);
	while (x < first);
	return x % n;
}

double rand_unit(struct rand *r)
{
	return (double)(rand_u64(r) >> 11) * 0x1p-53;
}

int random_bytes(void *p, size_t n)
{
	char *at = p;
	ssize_t got;

	while (n) {
		got = getrandom(at, n, 0);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		at += got;
		n -= (size_t)got;
	}
	return 0;
}
