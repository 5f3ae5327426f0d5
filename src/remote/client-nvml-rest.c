/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every entry of nvml.def that is not carried: NVML_ERROR_UNINITIALIZED first, then NOT_SUPPORTED.
 * The definitions here are weak; those of client-nvml.c and client-nvml-list.c take their places at
 * link time.
 */
#include "cuda/nvml_proto.h"
#include "remote/client-nvml.h"

#define NVML(abi, action, device, params, args) \
	__attribute__((weak)) NVML_EXPORT nvmlReturn_t abi params \
	{ \
		return nvml_is_begun() ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_UNINITIALIZED; \
	}
#define NVML_OTHER(type, abi, action, device, params, args)
#include "cuda/nvml.def"
