/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prototypes of all entries of nvml.def, and a function type PFN_<abi_name> for each
 * (`PFN_nvmlInit_v2 *real`).
 */
#ifndef CUDA_NVML_PROTO_H
#define CUDA_NVML_PROTO_H

#include "cuda/nvml-types.h"

#define NVML(abi, hook, remote, simgpu, params, args) \
	nvmlReturn_t abi params; \
	typedef nvmlReturn_t PFN_##abi params;
#define NVML_OTHER(type, abi, hook, remote, simgpu, params, args) \
	type abi params; \
	typedef type PFN_##abi params;
#include "cuda/nvml.def"
#undef NVML
#undef NVML_OTHER

#endif
