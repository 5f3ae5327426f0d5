/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256: see sha256.h. */
#include "remote/sha256.h"

#include <string.h>

static const uint32_t k[64] = {0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b,
	0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
	0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6,
	0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d,
	0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
	0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
	0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585,
	0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
	0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa,
	0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t sha256_rotate(uint32_t x, unsigned n)
{
	return x >> n | x << (32 - n);
}

static void sha256_add_block(uint32_t state[8], const uint8_t *p)
{
	uint32_t w[64], s[8];

	for (unsigned i = 0; i < 16; i++)
		w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 |
			(uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
	for (unsigned i = 16; i < 64; i++)
		w[i] = w[i - 16] + w[i - 7] +
			(sha256_rotate(w[i - 15], 7) ^ sha256_rotate(w[i - 15], 18) ^
				w[i - 15] >> 3) +
			(sha256_rotate(w[i - 2], 17) ^ sha256_rotate(w[i - 2], 19) ^
				w[i - 2] >> 10);
	memcpy(s, state, sizeof(s));
	for (unsigned i = 0; i < 64; i++) {
		const uint32_t a = s[0], e = s[4];
		const uint32_t one = s[7] +
			(sha256_rotate(e, 6) ^ sha256_rotate(e, 11) ^ sha256_rotate(e, 25)) +
			((e & s[5]) ^ (~e & s[6])) + k[i] + w[i];
		const uint32_t two = (sha256_rotate(a, 2) ^ sha256_rotate(a, 13) ^
					     sha256_rotate(a, 22)) +
			((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));

		memmove(s + 1, s, 7 * sizeof(*s));
		s[4] += one;
		s[0] = one + two;
	}
	for (unsigned i = 0; i < 8; i++)
		state[i] += s[i];
}

void sha256(const void *p, size_t n, uint8_t ret_hash[SHA256_BYTES])
{
	uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c,
		0x1f83d9ab, 0x5be0cd19};
	const uint64_t bits = (uint64_t)n * 8;
	const uint8_t *at = p;
	uint8_t last[128] = {0};
	size_t left = n, end;

	for (; left >= 64; left -= 64, at += 64)
		sha256_add_block(state, at);
	if (left)
		memcpy(last, at, left);
	last[left] = 0x80;
	end = left < 56 ? 64 : 128;
	for (unsigned i = 0; i < 8; i++)
		last[end - 1 - i] = (uint8_t)(bits >> 8 * i);
	for (size_t i = 0; i < end; i += 64)
		sha256_add_block(state, last + i);
	for (unsigned i = 0; i < 32; i++)
		ret_hash[i] = (uint8_t)(state[i / 4] >> (24 - i % 4 * 8));
}
