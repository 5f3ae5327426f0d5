/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Implements KubeShare's GPUIDs, which name the devices of a node. A pod with a GPUID in use gets
 * the device of that name; a pod with a new GPUID gets an empty device. The names are stored only
 * in pods. A device has the name that a pod on the device received or requested, else a name made
 * from the device's UUID.
 */
#include "scheduler/decide-internal.h"

#include <string.h>

#include <utlist.h>

#define LETTERS 5 /* length of a name, as in KubeShare's scheduler */

static bool is_on_device(const struct cpod *pod, const char *uuid)
{
	for (uint32_t i = 0; i < pod->assigned.n; i++)
		for (uint32_t k = 0; k < pod->assigned.v[i].n; k++)
			if (!strcmp(pod->assigned.v[i].device[k], uuid))
				return true;
	return false;
}

void vgpu_name(const struct cnode *node, const char *uuid, char ret[static SPEC_LABEL])
{
	uint64_t hash = str_hash(str_from(uuid));
	const struct cpod *pod;

	DL_FOREACH(node->pods, pod)
		if (pod->requested.vgpu[0] && is_on_device(pod, uuid)) {
			str_copy(ret, SPEC_LABEL, str_from(pod->requested.vgpu));
			return;
		}
	for (int i = 0; i < LETTERS; i++, hash /= 26)
		ret[i] = (char)('a' + hash % 26);
	ret[LETTERS] = '\0';
}

uint64_t vgpu_devices(const struct cluster *c, const struct cnode *node, const char *name)
{
	uint64_t named = 0, idle = 0;
	struct place_node_view view;

	if (!place_node_get(c->place, node->at, &view))
		return 0;
	for (uint32_t i = 0; i < node->gpus.n_devices; i++) {
		char its[SPEC_LABEL];
		struct place_device_view device;

		vgpu_name(node, node->gpus.device[i].uuid, its);
		if (!strcmp(its, name))
			named |= 1ull << i;
		if (place_device_get(c->place, view.first_device + i, &device) &&
			!device.n_tenants && !device.n_terminating)
			idle |= 1ull << i;
	}
	return named ? named : idle;
}
