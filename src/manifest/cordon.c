/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file searches the list of cordoned devices in a GPUNode for a device's UUID. An entry
 * without a UUID matches no device.
 */
#include "manifest/cordon.h"

bool cordon_has(const json_t *gpu_node, const char *uuid)
{
	return kube_json_find(kube_json_at(gpu_node, "spec", "cordoned", NULL), "uuid", uuid);
}
