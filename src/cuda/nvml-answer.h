/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serves the libraries that are a libnvidia-ml.so.1 of ours: exports, and the functions of nvml.def
 * that a library does not have. Any thread.
 */
#ifndef CUDA_NVML_ANSWER_H
#define CUDA_NVML_ANSWER_H

#include <stdbool.h>

#include "cuda/nvml_proto.h"

#define NVML_EXPORT __attribute__((visibility("default")))

/* Each library with stubs defines it: true between nvmlInit and nvmlShutdown. */
bool nvml_is_begun(void);

/* NVML_STUB_<column of nvml.def>(abi, params) defines what no other file of the library does. */
#define NVML_STUB_DEVICE(abi, params)
#define NVML_STUB_OWN(abi, params)
#define NVML_STUB_NONE(abi, params) \
	NVML_EXPORT nvmlReturn_t abi params \
	{ \
		return nvml_is_begun() ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_UNINITIALIZED; \
	}

#endif
