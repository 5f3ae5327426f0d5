/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which pods leave a tainted device: those whose namespace has a GPUPolicy that requires
 * it. divvyd writes the taints. The scheduler places no pod on a tainted device, whatever the
 * policies say.
 */
#include "scheduler/cluster-internal.h"

#define EVICT_AGAIN_NS (UINT64_C(5) * 1000000000)

/* The policy that evicts the namespace's pods first; NULL: none evicts them. */
static const struct cpolicy *cluster_taint_policy(
	const struct cluster *c, const char *ns, const struct gpunode_device *device)
{
	const struct cpolicy *first = NULL, *p;

	for (p = c->policies; p; p = p->hh.next)
		if (p->evicts && device->effect >= p->evicts && cpolicy_selects(c, p, ns) &&
			(!first || p->evict_grace_ns < first->evict_grace_ns))
			first = p;
	return first;
}

static bool cpod_is_on(const struct cpod *pod, const char *uuid)
{
	for (uint32_t i = 0; i < pod->assigned.n; i++)
		for (uint32_t k = 0; k < pod->assigned.v[i].n; k++)
			if (!strcmp(pod->assigned.v[i].device[k], uuid))
				return true;
	return false;
}

bool cluster_has_taints(const struct cluster *c)
{
	return c->n_tainted > 0;
}

bool cpod_leaves_taint(const struct cluster *c, const struct cpod *pod, struct buf *why)
{
	const struct cnode *node = pod->server ? pod->server : pod->node;

	if (pod->state != CPOD_BOUND || pod->is_deleting || pod->is_done || !node ||
		!node->is_tainted)
		return false;
	for (uint32_t i = 0; i < node->gpus.n_devices; i++) {
		const struct gpunode_device *d = &node->gpus.device[i];
		const struct cpolicy *p = d->effect && cpod_is_on(pod, d->uuid)
			? cluster_taint_policy(c, pod->ns, d)
			: NULL;

		if (!p || c->real_ns < d->tainted_ns + p->evict_grace_ns)
			continue;
		buf_addf(why,
			"device %s of node %s has the taint %s; policy %s requires the "
			"eviction",
			d->uuid, node->name, d->taint, p->name);
		return true;
	}
	return false;
}

bool cpod_note_taint_eviction(const struct cluster *c, struct cpod *pod, bool *ret_is_first)
{
	if (pod->taint_evicted_ns && c->now_ns < pod->taint_evicted_ns + EVICT_AGAIN_NS)
		return false;
	*ret_is_first = !pod->taint_evicted_ns;
	pod->taint_evicted_ns = MAX(c->now_ns, UINT64_C(1));
	return true;
}
