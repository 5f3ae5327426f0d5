/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver stub, a libcuda.so.1 whose calls return at once: a measurement through a hook shows
 * the cost of the hook alone. A launch does nothing, a value write stores its value at once, an
 * allocation returns an address. The stub has one device, with the UUID that STUB_UUID names
 * ("GPU-..." or without). Any thread may make calls, but only one thread at a time may allocate or
 * free.
 */
#ifndef BENCH_STUB_STUB_H
#define BENCH_STUB_STUB_H

#include <stdint.h>

#include "cuda/proto.h"

/*
 * For a bench that calls the stub without a hook. A hook's dlsym replaces the names of driver
 * functions, but it does not know the name `stub`, by which this table is exported.
 */
struct stub {
	PFN_cuLaunchKernel *launch;
	PFN_cuMemAlloc_v2 *alloc;
	PFN_cuMemFree_v2 *free;
	uint64_t (*writes)(void); /* value writes of this process so far */
};

#endif
