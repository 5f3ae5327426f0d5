/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/hash.h"

#include <stdatomic.h>

#include "base/rand.h"

/* FNV-1a from a random beginning, and mixed at the end. */
uint32_t kube_hash(const void *p, size_t n)
{
	static _Atomic uint64_t seed; /* clients may have threads */
	const unsigned char *bytes = p;
	uint64_t h = seed, none = 0;

	if (!h) {
		if (random_bytes(&h, sizeof(h)) < 0 || !h)
			h = (uintptr_t)&seed;
		if (!atomic_compare_exchange_strong(&seed, &none, h))
			h = none;
	}
	for (size_t i = 0; i < n; i++)
		h = (h ^ bytes[i]) * UINT64_C(0x100000001b3);
	h ^= h >> 29;
	return (uint32_t)((h * UINT64_C(0xbf58476d1ce4e5b9)) >> 32);
}
