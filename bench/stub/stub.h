/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver stub, a libcuda.so.1 whose calls return at once: what is measured in front of it is
 * the cost of whoever stands in front. A launch does nothing, a value write stores, an allocation
 * hands out an address. It has one device, with the UUID that STUB_UUID names ("GPU-..." or
 * without). Any thread, except that one thread at a time allocates and frees.
 */
#ifndef BENCH_STUB_STUB_H
#define BENCH_STUB_STUB_H

#include <stdint.h>

#include "cuda/proto.h"

/*
 * What a bench calls when it means the stub itself: by this table, under a name that no interposed
 * dlsym knows. Exported as `stub`.
 */
struct stub {
	PFN_cuLaunchKernel *launch;
	PFN_cuMemAlloc_v2 *alloc;
	PFN_cuMemFree_v2 *free;
	uint64_t (*writes)(void); /* value writes of this process so far */
};

#endif
