/* SPDX-License-Identifier: Apache-2.0 */
/* Figures of a sample. Floating point, for people to read: nothing decides by them. Pure. */
#ifndef REPLAY_STATS_H
#define REPLAY_STATS_H

#include <stddef.h>

double stats_mean(const double *x, size_t n); /* 0 of none */

/*
 * Half the width of the 95 % confidence interval of the mean, by Student's t with n - 1 degrees of
 * freedom; 0 where n is below 2.
 */
double stats_interval(const double *x, size_t n);

void stats_sort(double *x, size_t n);
/* Of a sorted sample, 0 <= q <= 1, between neighbours by their distance; 0 of none. */
double stats_quantile(const double *sorted, size_t n, double q);

#endif
