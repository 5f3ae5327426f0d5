/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files of libdivvy-nvml.so. Any thread. */
#pragma once

#include "cuda/nvml_proto.h"
#include "hook/link.h"

#define NVML_EXPORT __attribute__((visibility("default")))
#define NVML_DEVICES_MAX 16u

#define NVML_OTHER(type, name, action, device, params, args) \
	NVML(name, action, device, params, args)
#define NVML(name, action, device, params, args) \
	extern PFN_##name *hook_slot_##name __attribute__((visibility("hidden")));
#include "cuda/nvml.def"
#undef NVML
#undef NVML_OTHER

#define REAL(name) (hook_slot_##name)

/* The number of the tenant's devices; -1: everything shows. */
int nvml_tenant_devices(struct link_device ret_devices[static NVML_DEVICES_MAX]);
