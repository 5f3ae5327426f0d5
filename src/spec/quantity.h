/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kubernetes quantities: "1", "0.5", "500m", "4Gi", "1e3", "1E". Exact integers, never floating
 * point; negative values and values that do not fit are refused. Pure; any thread.
 */
#ifndef SPEC_QUANTITY_H
#define SPEC_QUANTITY_H

#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

#define QUANTITY_TEXT_MAX 64u
/*
 * Most digits, without leading and trailing zeros. No number that fits in the result needs more
 * digits.
 */
#define QUANTITY_DIGITS_MAX 28

/*
 * The value in units of 1/per_unit, where per_unit is a power of ten: 1 for whole numbers (bytes,
 * devices), 1000 for thousandths (CPU, shares). Exact. -EINVAL: no quantity; -ERANGE: negative, too
 * fine, or beyond INT64_MAX. The message quotes the text.
 */
int quantity_parse(struct str text, uint64_t per_unit, uint64_t *ret_value, struct error *err);

/*
 * As quantity_parse(), but rounds up, as Kubernetes' scheduler does, instead of refusing fine
 * values.
 */
int quantity_parse_up(struct str text, uint64_t per_unit, int64_t *ret_value, struct error *err);

/*
 * The unit of a quantity, which is what follows its digits: "", "Mi", "k", "e3". The digits count
 * times 10^ret_exponent (within +-1000) and 2^ret_shift. Returns 0, or -EINVAL: no unit.
 */
int quantity_read_unit(struct str text, int *ret_exponent, int *ret_shift);

/*
 * Formats like Kubernetes, in the largest unit that leaves a whole number. Thousandths: "350m",
 * "2", "3k"; bytes: "96Mi", "1000001". Returns ret.
 */
#define QUANTITY_SIZE 24u
const char *quantity_format_milli(uint64_t milli, char ret[QUANTITY_SIZE]);
const char *quantity_format_bytes(uint64_t bytes, char ret[QUANTITY_SIZE]);

#endif
