/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams that are named by numbers: 0, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD. Each context has
 * its own streams of these numbers. CU_STREAM_PER_THREAD is also a different stream in each thread.
 * Both ends of a session distinguish all these streams.
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

/*
 * The calling thread's number if each thread has its own stream of this handle; 0 otherwise.
 * Numbers are never reused.
 */
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
