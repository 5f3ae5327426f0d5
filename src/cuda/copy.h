/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDA_COPY_H
#define CUDA_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/types.h"

/*
 * Index of the attributes that apply to copy `i` of a batch. first[k] is the index of the first
 * copy to which attributes k apply; there are n of them. The search starts at index `a`.
 */
static inline size_t memcpy_attributes_of(const size_t *first, size_t n, size_t a, size_t i)
{
	while (a + 1 < n && first[a + 1] <= i)
		a++;
	return a;
}

/* Returns whether the caller may reuse the source when the call returns. */
static inline bool memcpy_is_taken(const CUmemcpyAttributes *attributes)
{
	return attributes->srcAccessOrder == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
}

/* Returns the copy `c` as a 3D copy with depth 1. c is not NULL. */
static inline CUDA_MEMCPY3D memcpy_3d_of(const CUDA_MEMCPY2D *c)
{
	return (CUDA_MEMCPY3D){
		.srcXInBytes = c->srcXInBytes,
		.srcY = c->srcY,
		.srcMemoryType = c->srcMemoryType,
		.srcHost = c->srcHost,
		.srcDevice = c->srcDevice,
		.srcArray = c->srcArray,
		.srcPitch = c->srcPitch,
		.dstXInBytes = c->dstXInBytes,
		.dstY = c->dstY,
		.dstMemoryType = c->dstMemoryType,
		.dstHost = c->dstHost,
		.dstDevice = c->dstDevice,
		.dstArray = c->dstArray,
		.dstPitch = c->dstPitch,
		.WidthInBytes = c->WidthInBytes,
		.Height = c->Height,
		.Depth = 1,
	};
}

/* Returns the copy with source and destination exchanged. */
static inline CUDA_MEMCPY3D memcpy_3d_turned(const CUDA_MEMCPY3D *c)
{
	return (CUDA_MEMCPY3D){
		.srcXInBytes = c->dstXInBytes,
		.srcY = c->dstY,
		.srcZ = c->dstZ,
		.srcLOD = c->dstLOD,
		.srcMemoryType = c->dstMemoryType,
		.srcHost = c->dstHost,
		.srcDevice = c->dstDevice,
		.srcArray = c->dstArray,
		.srcPitch = c->dstPitch,
		.srcHeight = c->dstHeight,
		.dstXInBytes = c->srcXInBytes,
		.dstY = c->srcY,
		.dstZ = c->srcZ,
		.dstLOD = c->srcLOD,
		.dstMemoryType = c->srcMemoryType,
		.dstHost = (void *)(uintptr_t)c->srcHost,
		.dstDevice = c->srcDevice,
		.dstArray = c->srcArray,
		.dstPitch = c->srcPitch,
		.dstHeight = c->srcHeight,
		.WidthInBytes = c->WidthInBytes,
		.Height = c->Height,
		.Depth = c->Depth,
	};
}

#endif
