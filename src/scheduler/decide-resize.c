/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Live changes: requested keys of a running pod are a resize request. The request is granted on the
 * pod's own devices if capacity and policies permit it; otherwise nothing changes.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "scheduler/decide-internal.h"

/* Computes the assigned keys that the request would give on the pod's devices. */
static int wished(const struct cluster *c, const struct cpod *pod, struct given *ret)
{
	int r = given_copy(&pod->given, ret);

	for (uint32_t i = 0; r == 0 && i < ret->n; i++) {
		struct given_container *g = &ret->v[i];

		for (uint32_t k = 0; k < pod->asked.n; k++) {
			const struct spec *spec = &pod->asked.v[k].spec;
			const bool is_exclusive = g->mode == SPEC_MODE_EXCLUSIVE;

			if (strcmp(pod->asked.v[k].name, g->name))
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

bool decide_has_wish(const struct cluster *c, const struct cpod *pod)
{
	struct given wish = {0};
	bool is_other;

	if (pod->state != CPOD_BOUND || !pod->given.n || !cpod_devices_node(pod)->has_gpus ||
		pod->is_deleting)
		return false;
	/* An unreadable request is one that cannot be granted. */
	if (pod->refusal.code)
		return true;
	is_other = wished(c, pod, &wish) == 0 && !given_is_same(&wish, &pod->given);
	given_done(&wish);
	return is_other;
}

int decide_wish(
	struct cluster *c, struct cpod *pod, bool *ret_granted, struct buf *why, struct error *err)
{
	struct given wish = {0};
	int r;

	*ret_granted = false;
	buf_clear(why);
	if (pod->refusal.code) {
		buf_addf(why, "%s; the grant stays unchanged", pod->refusal.msg);
		return 0;
	}
	r = wished(c, pod, &wish);
	if (r == 0 && !cluster_has_room_for(c, pod, &wish, why))
		r = -ENOSPC;
	if (r == 0 && !cluster_has_memory_for(c, pod, &wish)) {
		buf_add_text(why, "not enough free device memory; the grant stays unchanged");
		r = -ENOSPC;
	}
	r = r < 0 ? r : cpod_resize(c, pod, &wish, why);
	if (r < 0) {
		given_done(&wish);
		return r == -ENOMEM ? fail(err, ENOMEM, "out of memory") : 0;
	}
	given_done(&pod->given);
	pod->given = wish;
	cpod_drop(c, pod);
	r = cpod_restore(c, pod);
	c->has_news = true;
	*ret_granted = r == 0;
	buf_add_text(why, "resize accepted as requested");
	return r < 0 ? fail(err, -r, "out of memory") : cnode_refresh(c, pod->node);
}
