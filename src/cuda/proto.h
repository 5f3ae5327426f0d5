/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prototypes of all entries of cuda.def, and a function type PFN_<abi_name> for each
 * (`PFN_cuMemAlloc_v2 *real`). There are only declarations; the compiler checks each definition of
 * an entry against them.
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
