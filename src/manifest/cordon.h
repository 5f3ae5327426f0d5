/* SPDX-License-Identifier: Apache-2.0 */
/* GPUNode.spec.cordoned: devices that take no new tenants. Pure; any thread. */
#ifndef MANIFEST_CORDON_H
#define MANIFEST_CORDON_H

#include <stdbool.h>

#include "kube/kube-json.h"

/* Whether the list names that device ("GPU-..."). gpu_node may be NULL. */
bool cordon_has(const json_t *gpu_node, const char *uuid);

#endif
