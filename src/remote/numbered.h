/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams that have numbers (0, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD): another one in each
 * context, and the last in each thread besides. Both ends tell them apart.
 */
#ifndef REMOTE_NUMBERED_H
#define REMOTE_NUMBERED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "cuda/types.h"

static inline bool stream_has_number(CUstream handle)
{
	return (uintptr_t)handle <= (uintptr_t)CU_STREAM_PER_THREAD;
}

/* Of the calling thread. Never again, not even after its end. */
static inline uint64_t stream_thread(CUstream handle)
{
	static _Atomic uint64_t threads;
	static __thread uint64_t own;

	if (handle != CU_STREAM_PER_THREAD)
		return 0;
	if (!own)
		own = atomic_fetch_add(&threads, 1) + 1;
	return own;
}

#endif
