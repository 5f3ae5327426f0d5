/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file makes the seed of this process at the first call, and hashes every key with it. Several
 * threads may race for the first call: the first exchange keeps its seed, and the other threads
 * use that seed too. The seed never changes afterwards and is never 0. If the kernel gives no
 * random bytes, the address of the variable is the seed.
 */
#include "base/hash.h"

#include <stdatomic.h>

#include "base/rand.h"
#include "base/str.h"

/* FNV-1a with a random start value, mixed at the end. */
uint32_t hash_seeded(const void *p, size_t n)
{
	static _Atomic uint64_t seed;
	uint64_t h = seed, none = 0;

	if (!h) {
		if (random_bytes(&h, sizeof(h)) < 0 || !h)
			h = (uintptr_t)&seed;
		if (!atomic_compare_exchange_strong(&seed, &none, h))
			h = none;
	}
	h = str_hash_append(h, (struct str){p, n});
	h ^= h >> 29;
	return (uint32_t)((h * UINT64_C(0xbf58476d1ce4e5b9)) >> 32);
}
