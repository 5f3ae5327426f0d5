/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every entry of the driver as a weak symbol that succeeds at once: the bare cost of a call. The
 * linker prefers the definitions in stub-driver.c.
 */
#include "cuda/proto.h"

#define CU(name, since, variant, action, stream, params, args, ...) \
	__attribute__((weak, visibility("default"))) CUresult name params \
	{ \
		return CUDA_SUCCESS; \
	}
#include "cuda/cuda.def"
#undef CU
