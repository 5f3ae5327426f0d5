/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every entry of nvml.def that is not simulated: UNINITIALIZED first, then NOT_SUPPORTED. The
 * definitions here are weak; a simulated one in another file takes their place at link time.
 */
#include "simgpu/nvml.h"

#define NVML(abi, action, device, params, args) \
	__attribute__((weak)) NVML_EXPORT nvmlReturn_t abi params \
	{ \
		return nvml_state() ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_UNINITIALIZED; \
	}
#define NVML_OTHER(type, abi, action, device, params, args)
#include "cuda/nvml.def"
