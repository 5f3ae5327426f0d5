/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Water-filling: each tenant starts at its request; a common level rises until the device is full,
 * and no tenant rises above its limit. A binary search finds the level. Results are in millionths,
 * exact to one millionth. Pure; any thread.
 */
#include "core/water-fill.h"

#include "base/cleanup.h"
#include "core/arbiter.h"

#define MICRO 1000u /* permille to millionths */

static uint32_t water_share_level(const struct water_share *share, uint32_t level)
{
	uint32_t floor = share->request * MICRO, ceiling = share->limit * MICRO;

	return MIN(MAX(floor, level), MAX(floor, ceiling));
}

static uint64_t water_poured_at(const struct water_share *shares, size_t n, uint32_t level)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += water_share_level(&shares[i], level);
	return sum;
}

/* The requests exceed the capacity: each tenant gets the same fraction of its request. */
static void water_scale_shares(
	struct water_share *shares, size_t n, uint64_t requested, uint32_t capacity)
{
	uint64_t sum = 0, given = 0;

	for (size_t i = 0; i < n; i++) {
		uint64_t until;

		sum += (uint64_t)shares[i].request * MICRO;
		/* differences of running totals, so that the sum is exact */
		until = sum * capacity / requested;
		shares[i].micro = (uint32_t)(until - given);
		given = until;
	}
}

void water_fill(struct water_share *shares, size_t n, uint32_t capacity)
{
	uint32_t low = 0, high = WATER_ONE;
	uint64_t requested = water_poured_at(shares, n, 0);
	uint64_t left;

	if (requested > capacity) {
		water_scale_shares(shares, n, requested, capacity);
		return;
	}
	while (low < high) { /* the highest level that does not exceed the capacity */
		uint32_t level = low + (high - low + 1) / 2;

		if (water_poured_at(shares, n, level) <= capacity)
			low = level;
		else
			high = level - 1;
	}
	left = capacity - water_poured_at(shares, n, low);
	for (size_t i = 0; i < n; i++) {
		shares[i].micro = water_share_level(&shares[i], low);
		if (left && water_share_level(&shares[i], low + 1) > shares[i].micro) {
			shares[i].micro++;
			left--;
		}
	}
}

void arbiter_water_fill(
	const uint32_t *request, const uint32_t *limit, size_t n, uint32_t *ret_micro)
{
	struct water_share shares[ARBITER_FILL_MAX];

	if (n > ARBITER_FILL_MAX)
		n = ARBITER_FILL_MAX;
	for (size_t i = 0; i < n; i++)
		shares[i] = (struct water_share){.request = request[i], .limit = limit[i]};
	water_fill(shares, n, WATER_ONE);
	for (size_t i = 0; i < n; i++)
		ret_micro[i] = shares[i].micro;
}
