/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The entries that column `simgpu` of nvml.def does not mark as simulated. These stubs return
 * UNINITIALIZED before initialisation, and then NOT_SUPPORTED. Any thread.
 */
#include "cuda/nvml-answer.h"

#define NVML(abi, hook, remote, simgpu, params, args) NVML_STUB_##simgpu(abi, params)
#include "cuda/nvml.def"
