/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDA_COPY_H
#define CUDA_COPY_H

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

#endif
