/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes mean, confidence interval and quantiles of a sample in double precision. The table of
 * Student's t covers 1 to 30 degrees of freedom; beyond them an approximation takes its place.
 * Quantiles interpolate linearly between the two nearest values of a sorted sample.
 */
#include "replay/stats.h"

#include <math.h>
#include <stdlib.h>

#include "base/cleanup.h"

/* Student's t, two-sided 95 %, by degrees of freedom from 1. */
static const double student[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262,
	2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074,
	2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042};

double stats_mean(const double *x, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += x[i];
	return n ? sum / (double)n : 0;
}

double stats_interval(const double *x, size_t n)
{
	const double mean = stats_mean(x, n);
	double sum = 0, t;

	if (n < 2)
		return 0;
	for (size_t i = 0; i < n; i++)
		sum += (x[i] - mean) * (x[i] - mean);
	/* Beyond the table: the normal quantile and the first correction term of Student's t. */
	t = n - 2 < ARRAY_SIZE(student) ? student[n - 2] : 1.96 + 2.4 / (double)(n - 1);
	return t * sqrt(sum / (double)(n - 1) / (double)n);
}

static int stats_compare(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

void stats_sort(double *x, size_t n)
{
	if (n)
		qsort(x, n, sizeof(*x), stats_compare);
}

double stats_quantile(const double *sorted, size_t n, double q)
{
	const double at = q * (double)(n ? n - 1 : 0);
	const size_t below = (size_t)at;

	if (!n)
		return 0;
	if (below + 1 >= n)
		return sorted[n - 1];
	return sorted[below] + (at - (double)below) * (sorted[below + 1] - sorted[below]);
}
