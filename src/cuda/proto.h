/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prototypes of every entry of cuda.def, and a function type for each: PFN_<abi_name> is what a
 * pointer to that entry points to (`PFN_cuMemAlloc_v2 *real`). Declarations only: who defines an
 * entry is checked against them by the compiler.
 */
#ifndef CUDA_PROTO_H
#define CUDA_PROTO_H

#include "cuda/types.h"

#define CU(abi, since, variant, action, stream, params, args, ...) \
	CUresult abi params; \
	typedef CUresult PFN_##abi params;
#include "cuda/cuda.def"
#undef CU

#endif
