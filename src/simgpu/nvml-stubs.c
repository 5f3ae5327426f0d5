/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every entry that is not simulated by its column `simgpu` in nvml.def: UNINITIALIZED first, then
 * NOT_SUPPORTED. Any thread.
 */
#include "cuda/nvml-answer.h"

#define NVML(abi, hook, remote, simgpu, params, args) NVML_STUB_##simgpu(abi, params)
#include "cuda/nvml.def"
