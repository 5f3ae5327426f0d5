/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics of samples, compared with values computed by hand. */
#include "../unit.h"

#include "replay/stats.h"

static void is_near(double x, double expected)
{
	assert_true(x > expected - 1e-3 && x < expected + 1e-3);
}

static void means_and_intervals(void **state)
{
	const double x[] = {1, 2, 3, 4, 5};

	is_near(stats_mean(x, 5), 3);
	/*
	 * The standard deviation is sqrt(2.5), and Student's t for 4 degrees of freedom 2.776:
	 * 2.776 * sqrt(2.5 / 5).
	 */
	is_near(stats_interval(x, 5), 1.963);
	is_near(stats_interval(x, 2), 6.353); /* 12.706 * sqrt(0.5 / 2) */
	is_near(stats_interval(x, 1), 0);
	is_near(stats_mean(x, 0), 0);
}

static void large_samples_come_near_to_the_normal(void **state)
{
	double x[100];

	for (int i = 0; i < 100; i++)
		x[i] = i % 2;
	/*
	 * Student's t for 99 degrees of freedom is 1.984; the standard deviation is sqrt(25 / 99).
	 */
	is_near(stats_interval(x, 100), 1.984 * 0.050252);
}

static void quantiles_are_between_neighbours(void **state)
{
	double x[] = {30, 10, 20};

	stats_sort(x, 3);
	is_near(x[0], 10);
	is_near(stats_quantile(x, 3, 0), 10);
	is_near(stats_quantile(x, 3, 0.25), 15);
	is_near(stats_quantile(x, 3, 0.5), 20);
	is_near(stats_quantile(x, 3, 1), 30);
	is_near(stats_quantile(x, 1, 0.99), 10);
	is_near(stats_quantile(x, 0, 0.5), 0);
}

UNIT_MAIN(UNIT(means_and_intervals), UNIT(large_samples_come_near_to_the_normal),
	UNIT(quantiles_are_between_neighbours))
