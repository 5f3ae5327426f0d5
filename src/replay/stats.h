/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics of a sample, in floating point and only for display. Pure. */
#ifndef REPLAY_STATS_H
#define REPLAY_STATS_H

#include <stddef.h>

double stats_mean(const double *x, size_t n); /* 0 if n is 0 */

/*
 * Returns half the width of the 95 % confidence interval of the mean, by Student's t with n - 1
 * degrees of freedom. Returns 0 if n is below 2.
 */
double stats_interval(const double *x, size_t n);

void stats_sort(double *x, size_t n);
/* Returns the q-quantile of a sorted sample, 0 <= q <= 1, by linear interpolation; 0 if n is 0. */
double stats_quantile(const double *sorted, size_t n, double q);

#endif
