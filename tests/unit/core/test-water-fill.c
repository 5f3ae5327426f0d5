/* SPDX-License-Identifier: Apache-2.0 */
/* Entitlements: examples with known answers, and properties of random examples. */
#include "unit.h"

#include "base/cleanup.h"
#include "base/rand.h"
#include "core/arbiter.h"
#include "core/water-fill.h"

#define MOST 64

static const struct {
	size_t n;
	uint32_t request[4], limit[4], micro[4];
} examples[] = {
	{1, {300}, {1000}, {1000000}},
	{1, {300}, {600}, {600000}},
	{2, {300, 400}, {600, 600}, {500000, 500000}},
	{3, {300, 400, 300}, {600, 600, 500}, {300000, 400000, 300000}},
	{2, {400, 600}, {700, 800}, {400000, 600000}},
	{2, {100, 700}, {1000, 1000}, {300000, 700000}},
	{3, {100, 100, 700}, {1000, 150, 1000}, {150000, 150000, 700000}},
	{3, {0, 0, 0}, {1000, 1000, 1000}, {333334, 333333, 333333}},
	{2, {800, 800}, {1000, 1000}, {500000, 500000}},
	{2, {300, 300}, {400, 400}, {400000, 400000}},
	{0, {0}, {0}, {0}},
};

static void examples_have_known_answers(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(examples); i++) {
		uint32_t micro[4] = {0};

		arbiter_water_fill(examples[i].request, examples[i].limit, examples[i].n, micro);
		for (size_t k = 0; k < examples[i].n; k++)
			assert_int_equal(micro[k], examples[i].micro[k]);
	}
}

static void random_entitlements_obey_the_rules(void **state)
{
	for (uint64_t seed = 0; seed < 5000; seed++) {
		struct rand rand = rand_seeded(seed);
		struct water_share share[MOST];
		size_t n = 1 + rand_below(&rand, MOST);
		uint32_t capacity = (uint32_t)rand_below(&rand, WATER_ONE + 1);
		uint64_t sum = 0, requests = 0, limits = 0;
		uint32_t level = 0;

		for (size_t i = 0; i < n; i++) {
			share[i].request = (uint32_t)rand_below(&rand, 2000 / n + 1);
			share[i].limit = share[i].request +
				(uint32_t)rand_below(&rand, 1001 - MIN(share[i].request, 1000u));
			requests += share[i].request * 1000u;
			limits += share[i].limit * 1000u;
		}
		water_fill(share, n, capacity);
		for (size_t i = 0; i < n; i++) {
			sum += share[i].micro;
			if (requests > capacity)
				continue;
			assert_in_range(
				share[i].micro, share[i].request * 1000, share[i].limit * 1000);
			if (share[i].micro > share[i].request * 1000)
				level = MAX(level, share[i].micro);
		}
		assert_int_equal(sum, requests > capacity ? capacity : MIN(capacity, limits));
		if (requests > capacity)
			continue;
		/*
		 * `level` is the most that a tenant above its request gets. Each tenant that gets
		 * less is at its limit.
		 */
		for (size_t i = 0; i < n; i++)
			if (share[i].micro + 1 < level)
				assert_int_equal(share[i].micro, share[i].limit * 1000);
	}
}

UNIT_MAIN(UNIT(examples_have_known_answers), UNIT(random_entitlements_obey_the_rules))
