/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every entry that is not carried by its column `remote` in nvml.def: NVML_ERROR_UNINITIALIZED
 * first, then NOT_SUPPORTED. Any thread.
 */
#include "cuda/nvml-answer.h"

#define NVML(abi, hook, remote, simgpu, params, args) NVML_STUB_##remote(abi, params)
#include "cuda/nvml.def"
