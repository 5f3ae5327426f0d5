/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file searches the list of cordoned devices in a GPUNode for a device's UUID. An entry
 * without a UUID matches no device.
 */
#include "manifest/cordon.h"

#include <string.h>

bool cordon_has(const json_t *gpu_node, const char *uuid)
{
	const json_t *one;
	size_t i;

	json_array_foreach(kube_json_at(gpu_node, "spec", "cordoned", NULL), i, one) {
		const char *named = kube_json_text_at(one, "uuid", NULL);

		if (named && !strcmp(named, uuid))
			return true;
	}
	return false;
}
