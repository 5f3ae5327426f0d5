/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Formats values for people. The text is returned by value: `printf("%s", format_bytes(n).s)`. It
 * lives until the end of that expression, or in the caller's `struct text`. Cannot fail. Any
 * thread.
 */
#ifndef BASE_FORMAT_H
#define BASE_FORMAT_H

#include <stddef.h>
#include <stdint.h>

struct text {
	char s[32];
};

/* Rounded to one decimal, in powers of 1024: "0", "512", "4Gi", "1.5Gi". */
struct text format_bytes(uint64_t bytes);

/*
 * Exact, for parse_bytes(): in the largest power of 1024 that divides the value, such as "4608Mi".
 */
struct text format_bytes_exact(uint64_t bytes);

/* Exact, for parse_share(): "0.3", "1", "0.125". */
struct text format_share(uint32_t permille);

/* "30%", "12.5%". */
struct text format_percent(uint32_t permille);

/* At most three digits below a minute: "0", "740ns", "1.5ms", "12.3s"; then "2m10s", "3h5m". */
struct text format_duration(uint64_t ns);
/* As format_duration(), but from a minute on rounded instead of truncated: "4h" for 3h59m40s. */
struct text format_duration_nearest(uint64_t ns);

/*
 * A number of JSON or YAML, for parsers of amounts: a whole number exactly, another one with nine
 * digits, which hide the error of binary fractions.
 */
struct text format_real(double value);

/* 2 * n lower-case hexadecimal digits; n <= 15. */
struct text format_hex(const uint8_t *bytes, size_t n);

#endif
