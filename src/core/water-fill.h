/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entitlements on one device (see arbiter_water_fill in core/arbiter.h). Pure, no allocation. Takes
 * about 20 passes over the shares, for the steps of a binary search.
 */
#ifndef CORE_WATER_FILL_H
#define CORE_WATER_FILL_H

#include <stddef.h>
#include <stdint.h>

#define WATER_ONE 1000000u /* the whole device, in millionths */

struct water_share {
	uint32_t request; /* permille */
	uint32_t limit;   /* permille; a limit below the request counts as the request */
	uint32_t micro;   /* result, millionths */
};

/*
 * Each tenant gets its request. The rest of `capacity` (millionths) goes to the tenants with the
 * smallest totals, until all totals are equal or at their limits. Requests that sum to more than
 * the capacity are scaled down.
 */
void water_fill(struct water_share *shares, size_t n, uint32_t capacity);

#endif
