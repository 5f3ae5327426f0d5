/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Amounts of devices' capacity and counters: Kubernetes quantities of any sign, exact to 10^-9. As
 * in the API server, a finer value is rounded away from zero, and a larger one becomes the largest
 * amount. Pure; any thread.
 */
#ifndef CLAIMS_AMOUNT_H
#define CLAIMS_AMOUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

#define AMOUNT_TEXT_MAX 512u /* longest text of a quantity */
#define AMOUNT_SIZE 48u      /* bytes of a formatted amount, with the terminating 0 */

struct amount {
	__int128 nano;
	bool is_binary; /* was written with a unit of powers of 1024 */
};

/* -EINVAL: the text is no quantity. */
int amount_parse(struct str text, struct amount *ret_amount);

/* Writes the shortest text of the value. Returns ret. */
const char *amount_format(struct amount amount, char ret[static AMOUNT_SIZE]);

struct amount amount_from_int(int64_t value);

/* -1, 0 or 1. */
static inline int amount_compare(struct amount a, struct amount b)
{
	return a.nano < b.nano ? -1 : a.nano > b.nano;
}

/* Whether the value is a whole number of units that an int64_t holds. */
bool amount_read_int(struct amount amount, int64_t *ret_value);
/* The same for thousandths of a unit. */
bool amount_read_milli(struct amount amount, int64_t *ret_milli);
/* The value in units, rounded away from zero; wrong if an int64_t cannot hold it. */
int64_t amount_units(struct amount amount);

#endif
