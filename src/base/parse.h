/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strict parsers for text from people and peers. The whole text must be one value, without white
 * space, sign or trailing characters. Values are exact integers, never floating point; a value that
 * would need rounding is refused. Functions return 0, -EINVAL (not such a value) or -ERANGE (too
 * large or too fine). The error message quotes the value and says what is possible; the caller puts
 * the field's name before it: `return fail_within(err, r, "limit");`. No allocation. Any thread.
 */
#ifndef BASE_PARSE_H
#define BASE_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

#define SHARE_ONE 1000 /* one whole GPU, in 1/1000 */
#define SHARE_MAX 1000000

/* "42": decimal digits, within min..max. */
int parse_uint(struct str text, uint64_t min, uint64_t max, uint64_t *ret_value, struct error *err);

/*
 * "0.3" -> 300, "1" -> 1000, "1.5" -> 1500; the caller checks whether more than 1 makes sense. A
 * share finer than 0.001 is -ERANGE, but trailing zeros are accepted: "0.500000". At most
 * SHARE_MAX.
 */
int parse_share(struct str text, uint32_t *ret_permille, struct error *err);

/* "50%" -> 500, "12.5%" -> 125; at most 100%. */
int parse_percent(struct str text, uint32_t *ret_permille, struct error *err);

/*
 * "1024", "500M", "4Gi", "1.5Gi", "141GiB": units are powers of 1000 (k M G T P) or 1024 (Ki Mi Gi
 * Ti Pi), and a final B may follow. The value must be a whole number of bytes.
 */
int parse_bytes(struct str text, uint64_t *ret_bytes, struct error *err);

/*
 * "500ms", "10s", "1.5h": ns, us, ms, s, m, h, d. Only "0" needs no unit. The value must be a whole
 * number of nanoseconds.
 */
int parse_duration(struct str text, uint64_t *ret_ns, struct error *err);
/* As parse_duration(); a duration above most_ns is -ERANGE. */
int parse_duration_up_to(struct str text, uint64_t most_ns, uint64_t *ret_ns, struct error *err);

/* yes, true, on, 1; no, false, off, 0. */
int parse_bool(struct str text, bool *ret_value, struct error *err);

/*
 * Exactly 2 * n hexadecimal digits to n bytes; ret_bytes is untouched on failure. The error message
 * does not quote the value.
 */
int parse_hex(struct str text, uint8_t *ret_bytes, size_t n, struct error *err);

#endif
