/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file decodes and encodes Base64 with one accumulator of 32 bits: six bits a digit, three
 * bytes a group. The decoder counts digits and padding; their sum must be a multiple of four, and
 * at most two are padding. After the first padding only padding and white space may follow. The
 * decoder ignores bits of the last digit that complete no byte. After -EINVAL the buffer still
 * holds the bytes before the fault.
 */
#include "base/base64.h"

#include <errno.h>

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static int base64_digit_value(char c)
{
	const char *found = c ? strchr(digits, c) : NULL;

	return found ? (int)(found - digits) : -1;
}

int base64_decode(struct str text, struct buf *out)
{
	uint32_t bits = 0;
	unsigned int n = 0, padding = 0;

	for (size_t i = 0; i < text.n; i++) {
		const char c = text.p[i];
		const int value = base64_digit_value(c);

		if (c == ' ' || c == '\n' || c == '\r' || c == '\t')
			continue;
		if (c == '=' && ++padding <= 2)
			continue;
		if (value < 0 || padding)
			return -EINVAL;
		bits = bits << 6 | (uint32_t)value;
		/* The second, third and fourth of four digits each complete a byte. */
		if (n % 4)
			buf_add_byte(out, (char)(bits >> (6 - 2 * (n % 4))));
		n++;
	}
	return (n + padding) % 4 ? -EINVAL : buf_error(out);
}

int base64_encode(struct str bytes, struct buf *out)
{
	for (size_t i = 0; i < bytes.n; i += 3) {
		const size_t left = bytes.n - i;
		uint32_t bits = 0;

		for (size_t k = 0; k < 3; k++)
			bits = bits << 8 | (k < left ? (uint8_t)bytes.p[i + k] : 0);
		for (size_t k = 0; k < 4; k++)
			buf_add_byte(out, k <= left ? digits[bits >> (18 - 6 * k) & 63] : '=');
	}
	return buf_error(out);
}
