/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of libdivvy-nvml.so. Any thread. */
#ifndef HOOK_HOOK_NVML_H
#define HOOK_HOOK_NVML_H

#include "cuda/nvml-answer.h"
#include "hook/hook-link.h"

#define NVML_DEVICES_MAX 16u

#define NVML_OTHER(type, ...) NVML(__VA_ARGS__)
#define NVML(name, ...) extern PFN_##name *hook_slot_##name __attribute__((visibility("hidden")));
#include "cuda/nvml.def"
#undef NVML
#undef NVML_OTHER

#define REAL(name) (hook_slot_##name)

/* Returns the number of the tenant's devices; -1: all devices are visible. */
int nvml_tenant_devices(struct link_device ret_devices[static NVML_DEVICES_MAX]);

/* Returns a function of the real NVML; NULL: NVML is missing or lacks the function. */
void *nvml_real_symbol(const char *name);

#endif
