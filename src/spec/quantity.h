/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kubernetes' quantities: "1", "0.5", "500m", "4Gi", "1e3", "1E". Integers, never floating point;
 * what is negative or does not fit is refused. Pure; any thread.
 */
#ifndef SPEC_QUANTITY_H
#define SPEC_QUANTITY_H

#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

#define QUANTITY_TEXT_MAX 64u
/* But for zeros in front and behind: more than any amount has that fits, with the finest unit. */
#define QUANTITY_DIGITS_MAX 28

/*
 * The value in 1/per_unit, a power of ten: with 1 a whole number (bytes, devices), with 1000
 * thousandths (CPU, shares). Exact. -EINVAL: no quantity; -ERANGE: negative, finer than that, or
 * beyond INT64_MAX. The sentence names the text.
 */
int quantity_parse(struct str text, uint64_t per_unit, uint64_t *ret_value, struct error *err);

/* The same, rounded up as Kubernetes' scheduler does: never -ERANGE for being fine. */
int quantity_parse_up(struct str text, uint64_t per_unit, int64_t *ret_value, struct error *err);

/*
 * As Kubernetes writes them: the largest unit that leaves a whole number. Thousandths are "350m",
 * "2", "3k"; bytes are "96Mi", "1000001". Returns ret.
 */
#define QUANTITY_SIZE 24u
const char *quantity_format_milli(uint64_t milli, char ret[QUANTITY_SIZE]);
const char *quantity_format_bytes(uint64_t bytes, char ret[QUANTITY_SIZE]);

#endif
