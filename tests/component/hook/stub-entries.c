/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every entry of the driver, doing nothing and saying so at once: the bare cost of a call. Those
 * that stub-driver.c defines win at link time.
 */
#include "cuda/proto.h"

#define CU(name, since, variant, action, stream, params, args, ...) \
	__attribute__((weak, visibility("default"))) CUresult name params \
	{ \
		return CUDA_SUCCESS; \
	}
#include "cuda/cuda.def"
#undef CU
