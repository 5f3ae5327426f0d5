/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strict parsers for what people and peers write. The whole text must be a value: no white space,
 * no sign, nothing behind it. Exact integers, never floating point: what would have to be rounded
 * is refused. Return 0, -EINVAL (not such a value) or -ERANGE (such a value, but too large or too
 * fine), with a sentence that names the value and what would be right; the caller puts the field's
 * name before it: `return fail_within(err, r, "limit");`. No allocation. Any thread.
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
 * "0.3" -> 300, "1" -> 1000, "1.5" -> 1500 (whether that makes sense is the caller's question).
 * Finer than 0.001 is -ERANGE; zeros at the end are fine: "0.500000". At most SHARE_MAX.
 */
int parse_share(struct str text, uint32_t *ret_permille, struct error *err);

/* "50%" -> 500, "12.5%" -> 125; at most 100%. */
int parse_percent(struct str text, uint32_t *ret_permille, struct error *err);

/*
 * "1024", "500M", "4Gi", "1.5Gi", "141GiB": powers of 1000 (k M G T P) or 1024 (Ki Mi Gi Ti Pi), a
 * final B may follow. A fraction must come to whole bytes.
 */
int parse_bytes(struct str text, uint64_t *ret_bytes, struct error *err);

/*
 * "500ms", "10s", "1.5h": ns, us, ms, s, m, h, d. A unit is required except for "0". A fraction
 * must come to whole nanoseconds.
 */
int parse_duration(struct str text, uint64_t *ret_ns, struct error *err);
/* One that is longer is refused with what is possible. */
int parse_duration_up_to(struct str text, uint64_t most_ns, uint64_t *ret_ns, struct error *err);

/* yes, true, on, 1; no, false, off, 0. */
int parse_bool(struct str text, bool *ret_value, struct error *err);

/* Exactly 2 * n hexadecimal digits into n bytes; ret_bytes is untouched on failure. */
int parse_hex(struct str text, uint8_t *ret_bytes, size_t n, struct error *err);

#endif
