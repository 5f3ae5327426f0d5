/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides resize requests: a user has changed the requested keys of a running pod. The request is
 * granted on the pod's present devices if capacity and policies permit; otherwise nothing changes.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "scheduler/decide-internal.h"

/*
 * Computes the assigned keys that the pod would get for its requested keys on its present devices.
 */
static int decide_resize_requested(
	const struct cluster *c, const struct cpod *pod, struct assigned *ret)
{
	int r = assigned_copy(&pod->assigned, ret);

	for (uint32_t i = 0; r == 0 && i < ret->n; i++) {
		struct assigned_container *g = &ret->v[i];

		for (uint32_t k = 0; k < pod->requested.n; k++) {
			const struct spec *spec = &pod->requested.v[k].spec;
			const bool is_exclusive = g->mode == SPEC_MODE_EXCLUSIVE;

			if (strcmp(pod->requested.v[k].name, g->name))
				continue;
			g->request = is_exclusive ? SPEC_SHARE_ONE : spec->request;
			g->limit = is_exclusive ? SPEC_SHARE_ONE : spec->limit;
			g->memory_policy = spec->memory_policy;
			g->class = spec->class;
			g->priority = spec->priority;
			for (uint32_t d = 0; d < g->n; d++) {
				const struct gpunode_device *device = gpunode_find(
					&cpod_devices_node(pod)->gpus, g->device[d]);

				if (device)
					g->memory_bytes[d] = spec_memory_on(
						spec, device->memory_bytes);
			}
		}
	}
	return r;
}

bool decide_has_resize(const struct cluster *c, const struct cpod *pod)
{
	struct assigned requested = {0};
	bool is_other;

	if (pod->state != CPOD_BOUND || !pod->assigned.n || !cpod_devices_node(pod)->has_gpus ||
		pod->is_deleting)
		return false;
	/*
	 * Faulty requested keys count as a resize request, so that decide_resize() rejects them
	 * with the reason.
	 */
	if (pod->refusal)
		return true;
	is_other = decide_resize_requested(c, pod, &requested) == 0 &&
		!assigned_is_same(&requested, &pod->assigned);
	assigned_done(&requested);
	return is_other;
}

int decide_resize(
	struct cluster *c, struct cpod *pod, bool *ret_granted, struct buf *why, struct error *err)
{
	struct assigned requested = {0};
	int r;

	*ret_granted = false;
	buf_clear(why);
	if (pod->refusal) {
		buf_addf(why, "%s; the grant stays unchanged", pod->refusal);
		return 0;
	}
	r = decide_resize_requested(c, pod, &requested);
	if (r == 0 && !cluster_has_room_for(c, pod, &requested, why))
		r = -ENOSPC;
	if (r == 0 && !cluster_has_memory_for(c, pod, &requested)) {
		buf_add_text(why, "not enough free device memory; the grant stays unchanged");
		r = -ENOSPC;
	}
	r = r < 0 ? r : cpod_resize(c, pod, &requested, why);
	if (r < 0) {
		assigned_done(&requested);
		return r == -ENOMEM ? fail(err, ENOMEM, "out of memory") : 0;
	}
	assigned_done(&pod->assigned);
	pod->assigned = requested;
	cpod_drop(c, pod);
	r = cpod_restore(c, pod);
	c->has_news = true;
	*ret_granted = r == 0;
	buf_add_text(why, "resize accepted as requested");
	return r < 0 ? fail(err, -r, "out of memory") : cnode_refresh(c, pod->node);
}
