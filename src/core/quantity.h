/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kubernetes' quantities: "1", "0.5", "500m", "4Gi", "1e3", "1E". Exact: what would have to be
 * rounded is refused, as is what is negative or does not fit. Pure; any thread.
 */
#ifndef CORE_QUANTITY_H
#define CORE_QUANTITY_H

#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

#define QUANTITY_TEXT_MAX 64u /* of a text: more digits than any number that fits */

/*
 * The value in 1/per_unit: with 1 a whole number (bytes, devices), with 1000 thousandths (CPU,
 * shares). -EINVAL: no quantity; -ERANGE: negative, finer than that, or beyond INT64_MAX.
 */
int quantity_parse(struct str text, uint64_t per_unit, uint64_t *ret_value, struct error *err);

#endif
