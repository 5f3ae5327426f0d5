/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels of ptx.c in OpenCL, on PoCL: Debian's package pocl-opencl-icd, which computes on the
 * processor. The library is opened at run time, and without it nothing is measured. One thread.
 */
#ifndef BENCH_OPENCL_H
#define BENCH_OPENCL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Opens a device with one processor, and builds the kernels. False: there is no PoCL. */
bool opencl_open(void);
/* Version of the platform. */
const char *opencl_version(void);
/*
 * Runs a kernel over c, a and b, three arrays of `bytes` bytes, once and then in `rounds` more, and
 * copies c back. Returns the least processor time of the rounds in seconds, without copies (0: no
 * rounds), or -1 if the kernel failed.
 */
double opencl_run(const char *kernel, uint32_t blocks, uint32_t threads, uint32_t n, void *c,
	const void *a, const void *b, size_t bytes, int rounds);

#endif
