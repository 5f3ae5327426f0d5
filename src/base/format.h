/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values as people read them. Returned by value: `printf("%s", format_bytes(n).s)`; the text lives
 * to the end of that expression, or in a `struct text` of the caller's. No failure. Any thread.
 */
#ifndef BASE_FORMAT_H
#define BASE_FORMAT_H

#include <stddef.h>
#include <stdint.h>

struct text {
	char s[32];
};

/* Rounded to one digit behind the point, in powers of 1024: "0", "512", "4Gi", "1.5Gi". */
struct text format_bytes(uint64_t bytes);

/* Exact, and read back by parse_bytes(): the largest power of 1024 that divides it: "4608Mi". */
struct text format_bytes_exact(uint64_t bytes);

/* Exact, and read back by parse_share(): "0.3", "1", "0.125". */
struct text format_share(uint32_t permille);

/* "30%", "12.5%". */
struct text format_percent(uint32_t permille);

/* Three digits at most below a minute: "0", "740ns", "1.5ms", "12.3s"; then "2m10s", "3h5m". */
struct text format_duration(uint64_t ns);
/* The same from a second on, but rounded where that cuts off: "4h" for 3h59m40s. */
struct text format_duration_nearest(uint64_t ns);

/* 2 * n lower-case digits; n <= 15. */
struct text format_hex(const uint8_t *bytes, size_t n);

#endif
