/* SPDX-License-Identifier: Apache-2.0 */
/* Inside libdivvy-remote-nvml.so. Any thread. */
#pragma once

#include <stdbool.h>

#include "remote/nvml.h"

#define NVML_EXPORT __attribute__((visibility("default")))

/* Between nvmlInit and nvmlShutdown. */
bool nvml_is_begun(void);
