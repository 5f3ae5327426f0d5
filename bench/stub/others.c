/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every entry of the driver API that driver.c does not define: succeeds and does nothing.
 */
#include "cuda/proto.h"

#define CU(name, since, variant, action, stream, params, args, ...) \
	__attribute__((weak, visibility("default"))) CUresult name params \
	{ \
		return CUDA_SUCCESS; \
	}
#include "cuda/cuda.def"
#undef CU
