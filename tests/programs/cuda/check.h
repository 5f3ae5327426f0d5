// SPDX-License-Identifier: Apache-2.0
// Macros of the programs of this folder. A program prints its name and "right", or the first fault.
#ifndef TESTS_PROGRAMS_CUDA_CHECK_H
#define TESTS_PROGRAMS_CUDA_CHECK_H

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

#define DO(call) \
	do { \
		const cudaError_t e_ = (call); \
		if (e_ != cudaSuccess) { \
			printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call, \
				cudaGetErrorName(e_)); \
			exit(1); \
		} \
	} while (0)
#define MUST(condition) \
	do { \
		if (!(condition)) { \
			printf("%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
			exit(1); \
		} \
	} while (0)

static inline bool near(double a, double b, double within = 1e-5)
{
	return std::fabs(a - b) <= within * std::fmax(1.0, std::fmax(std::fabs(a), std::fabs(b)));
}

static inline int right(const char *name)
{
	printf("%s: right\n", name);
	return 0;
}

// A number that looks random, the same in every run.
static inline unsigned scramble(unsigned i)
{
	i = (i ^ 61u ^ (i >> 16)) * 9u;
	i = (i ^ (i >> 4)) * 0x27d4eb2du;
	return i ^ (i >> 15);
}

#endif
