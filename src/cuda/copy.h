/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDA_COPY_H
#define CUDA_COPY_H

#include <stdint.h>

#include "cuda/types.h"

/* The same copy with a depth of one. c is not NULL. */
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

/* The same copy the other way. */
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
