/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stubs for every entry that has NONE in the column `remote` of nvml.def. The stubs return
 * NVML_ERROR_UNINITIALIZED before initialisation, and then NOT_SUPPORTED. Any thread.
 */
#include "cuda/nvml-answer.h"

#define NVML(abi, hook, remote, simgpu, params, args) NVML_STUB_##remote(abi, params)
#include "cuda/nvml.def"
