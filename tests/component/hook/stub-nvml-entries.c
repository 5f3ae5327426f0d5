/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every entry of NVML as a weak symbol that does nothing and succeeds. The linker prefers the
 * definitions in stub-nvml.c.
 */
#include "cuda/nvml-proto.h"

#define NVML(name, hook, remote, simgpu, params, args) \
	__attribute__((weak, visibility("default"))) nvmlReturn_t name params \
	{ \
		return NVML_SUCCESS; \
	}
#define NVML_OTHER(type, name, hook, remote, simgpu, params, args) \
	__attribute__((weak, visibility("default"))) type name params \
	{ \
		return "a sentence"; \
	}
#include "cuda/nvml.def"
#undef NVML
#undef NVML_OTHER
