/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which pods leave a tainted device: those whose namespace has a GPUPolicy that requires
 * it. divvyd writes the taints. The scheduler places no pod on a tainted device, whatever the
 * policies say. Only a change of a GPUNode, policy, namespace or pod, or time, makes a pod leave;
 * cluster_must_check_taints() knows the next such time. Then only the pods on tainted nodes are
 * visited.
 */
#include "scheduler/cluster-internal.h"

#include <utlist.h>

/* When the policy evicts pods from the tainted device, as real time. */
static uint64_t cpolicy_evicts_ns(const struct cpolicy *policy, const struct gpunode_device *device)
{
	return device->taint[policy->evicts].since_ns + policy->evict_grace_ns;
}

/* The policy that evicts the namespace's pods first; NULL: none evicts them. */
static const struct cpolicy *cluster_taint_policy(
	const struct cluster *c, const char *ns, const struct gpunode_device *device)
{
	const struct cpolicy *first = NULL, *p;

	for (p = c->policies; p; p = p->hh.next)
		if (p->evicts && device->effect >= p->evicts && cpolicy_selects(c, p, ns) &&
			(!first || cpolicy_evicts_ns(p, device) < cpolicy_evicts_ns(first, device)))
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

/* Pods of the node with devices of another node are skipped, because they are not served here. */
static struct cpod *cnode_next_with_devices(const struct cnode *node, const struct cpod *pod)
{
	struct cpod *next;

	if (pod && pod->server)
		return pod->snext;
	next = pod ? pod->next : node->pods;
	while (next && next->server)
		next = next->next;
	return next ? next : node->served;
}

/* Whether a device of the pod, which is a device of the node, has a taint. */
static bool cpod_has_taint(const struct cpod *pod, const struct cnode *node)
{
	for (uint32_t i = 0; i < node->gpus.n_devices; i++)
		if (node->gpus.device[i].effect && cpod_is_on(pod, node->gpus.device[i].uuid))
			return true;
	return false;
}

void cnode_note_taints(struct cluster *c, struct cnode *node)
{
	const bool was_tainted = node->is_tainted;
	struct cpod *pod = NULL;

	node->is_tainted = false;
	for (uint32_t i = 0; i < node->gpus.n_devices; i++)
		node->is_tainted |= node->gpus.device[i].effect != GPUNODE_NO_EFFECT;
	if (node->is_tainted && !was_tainted)
		DL_APPEND2(c->tainted, node, t_prev, t_next);
	else if (!node->is_tainted && was_tainted)
		DL_DELETE2(c->tainted, node, t_prev, t_next);
	/* An eviction for a later taint is a new one. */
	while (was_tainted && (pod = cnode_next_with_devices(node, pod)))
		if (!cpod_has_taint(pod, node))
			pod->taint_evicted_ns = 0;
}

void cluster_note_taint_news(struct cluster *c)
{
	c->has_taint_news = true;
}

bool cluster_must_check_taints(struct cluster *c)
{
	const struct cpolicy *p;

	if (!c->has_taint_news && c->real_ns < c->grace_ends_ns && c->now_ns < c->evict_again_ns)
		return false;
	c->has_taint_news = false;
	c->grace_ends_ns = c->evict_again_ns = UINT64_MAX;
	for (p = c->policies; p && !p->evicts;)
		p = p->hh.next;
	return p && c->tainted;
}

struct cpod *cluster_next_tainted(struct cluster *c, struct cpod *pod)
{
	struct cnode *node = pod ? cpod_devices_node(pod) : c->tainted;
	struct cpod *next = NULL;

	for (; node; node = node->t_next, pod = NULL) {
		next = cnode_next_with_devices(node, pod);
		if (next)
			break;
	}
	return next;
}

bool cpod_leaves_taint(struct cluster *c, const struct cpod *pod, struct buf *why)
{
	const struct cnode *node = cpod_devices_node(pod);

	if (pod->state != CPOD_BOUND || pod->is_deleting || pod->is_done || !node ||
		!node->is_tainted)
		return false;
	for (uint32_t i = 0; i < node->gpus.n_devices; i++) {
		const struct gpunode_device *d = &node->gpus.device[i];
		const struct cpolicy *p = d->effect && cpod_is_on(pod, d->uuid)
			? cluster_taint_policy(c, pod->ns, d)
			: NULL;
		uint64_t ends_ns;

		if (!p)
			continue;
		ends_ns = cpolicy_evicts_ns(p, d);
		if (c->real_ns < ends_ns) {
			c->grace_ends_ns = MIN(c->grace_ends_ns, ends_ns);
			continue;
		}
		buf_addf(why,
			"device %s of node %s has the taint %s; policy %s requires the "
			"eviction",
			d->uuid, node->name, d->taint[p->evicts].text, p->name);
		return true;
	}
	return false;
}

bool cpod_note_taint_eviction(struct cluster *c, struct cpod *pod, bool *ret_is_first)
{
	const uint64_t last_ns = pod->taint_evicted_ns;
	const bool is_soon = last_ns && c->now_ns < last_ns + CLUSTER_EVICT_AGAIN_NS;

	if (!is_soon) {
		*ret_is_first = !last_ns;
		pod->taint_evicted_ns = MAX(c->now_ns, UINT64_C(1));
	}
	c->evict_again_ns = MIN(c->evict_again_ns, pod->taint_evicted_ns + CLUSTER_EVICT_AGAIN_NS);
	return !is_soon;
}
