/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kubernetes quantities ("500m", "1.5Gi", "2e3") as integers, rounded up as the scheduler of
 * Kubernetes rounds them: CPU counts in 1/1000, all else in whole units. Never floating point.
 */
#ifndef SCHEDULER_QUANTITY_H
#define SCHEDULER_QUANTITY_H

#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

/* More digits than any amount has that fits 63 bits with the finest suffix. */
#define QUANTITY_DIGITS_MAX 28

enum quantity_unit { QUANTITY_WHOLE, QUANTITY_MILLI };

/*
 * -EINVAL when the text is no quantity, -ERANGE when it is negative or above INT64_MAX units. The
 * sentence names the text.
 */
int quantity_count(struct str text, enum quantity_unit unit, int64_t *ret_units, struct error *err);

/* The sum, at most INT64_MAX: what is above that fits nowhere, as before. */
int64_t quantity_add(int64_t a, int64_t b);

#endif
