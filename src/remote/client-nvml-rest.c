/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stubs for every entry that its column `remote` in nvml.def does not carry:
 * NVML_ERROR_UNINITIALIZED first, then NOT_SUPPORTED. Any thread.
 */
#include "cuda/nvml-answer.h"

#define NVML(abi, hook, remote, simgpu, params, args) NVML_STUB_##remote(abi, params)
#include "cuda/nvml.def"
