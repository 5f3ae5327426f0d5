/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Overcommitted device memory. On each device, tenants with the memory policy fail get all of their
 * memory. Tenants with wait or swap share the rest, multiplied by a factor. The factor is the
 * smallest overcommit.memory of their policies, or the GPUNode's value if it has one. The placement
 * model knows only one factor. It therefore counts these tenants by the largest factor of the
 * cluster, and the filter applies the true factor to each device.
 */
#include <string.h>

#include <utlist.h>

#include "manifest/policy.h"
#include "scheduler/cluster-internal.h"

#define ONCE POLICY_OVERCOMMIT_ONCE

uint32_t cluster_greatest_overcommit(const struct cluster *c)
{
	const struct cpolicy *p;
	const struct cnode *node;
	uint32_t greatest = ONCE;

	for (p = c->policies; p; p = p->hh.next)
		greatest = MAX(greatest, policy_overcommit_memory(p->spec));
	for (node = c->nodes; node; node = node->hh.next)
		greatest = MAX(greatest, node->gpus.overcommit_memory);
	return greatest;
}

/* Returns the smallest factor of the namespace's policies, or ONCE if no policy has a factor. */
static uint32_t factor_in(const struct cluster *c, const char *ns)
{
	const struct cpolicy *p;
	uint32_t least = 0;

	for (p = c->policies; p; p = p->hh.next) {
		const uint32_t factor = policy_overcommit_memory(p->spec);

		if (factor && (!least || factor < least) && cpolicy_selects(c, p, ns))
			least = factor;
	}
	return least ? least : ONCE;
}

uint64_t cluster_counted_bytes(
	const struct cluster *c, enum spec_memory_policy policy, uint64_t bytes)
{
	if (policy == SPEC_MEMORY_FAIL || c->overcommit <= ONCE)
		return bytes;
	return bytes / c->overcommit * ONCE + bytes % c->overcommit * ONCE / c->overcommit;
}

/* Memory of a device that tenants may use by their grants or requests. */
struct promised {
	const struct cluster *c;
	const char *uuid;
	uint64_t fixed, shared;
	/* smallest overcommit factor of the tenants in `shared`; 0: no such tenant */
	uint32_t factor;
};

/*
 * The most memory that a pod needs at one time, for containers with the memory policy fail (fixed)
 * and for the others (shared). Init containers end before the other containers start.
 */
struct promise {
	struct manifest_sum fixed, shared;
};

static void cluster_memory_add(struct promise *one, enum manifest_kind kind,
	enum spec_memory_policy policy, uint64_t bytes)
{
	manifest_sum_add(&one->fixed, kind, policy == SPEC_MEMORY_FAIL ? bytes : 0);
	manifest_sum_add(&one->shared, kind, policy == SPEC_MEMORY_FAIL ? 0 : bytes);
}

static void cluster_memory_promise(struct promised *p, const char *ns, const struct promise *one)
{
	const uint64_t shared = manifest_sum_value(&one->shared);

	p->fixed += manifest_sum_value(&one->fixed);
	p->shared += shared;
	if (shared) {
		const uint32_t factor = factor_in(p->c, ns);

		p->factor = p->factor ? MIN(p->factor, factor) : factor;
	}
}

static void cluster_memory_promise_assigned(
	struct promised *p, const struct cpod *pod, const struct assigned *assigned)
{
	struct promise one = {0};

	for (uint32_t i = 0; i < assigned->n; i++) {
		const struct assigned_container *g = &assigned->v[i];

		for (uint32_t k = 0; k < g->n; k++)
			if (!strcmp(g->device[k], p->uuid))
				cluster_memory_add(&one, cpod_kind(pod, g->name), g->memory_policy,
					g->memory_bytes[k]);
	}
	cluster_memory_promise(p, pod->ns, &one);
}

/*
 * Tenants that divvyd confirms and that belong to no known pod count with their confirmed memory.
 */
static void promise_orphans(struct promised *p, const struct cnode *node)
{
	for (uint32_t i = 0; i < node->gpus.n_tenants; i++) {
		const struct gpunode_tenant *t = &node->gpus.tenant[i];

		for (uint32_t k = 0; k < t->is.n; k++)
			if (!strcmp(t->is.device[k], p->uuid) && !cnode_pod(node, t->uid))
				p->fixed += t->is.memory_bytes[k];
	}
}

static bool cluster_memory_is_possible(
	const struct promised *p, const struct cnode *node, const struct gpunode_device *device)
{
	const uint32_t factor = node->gpus.overcommit_memory ? node->gpus.overcommit_memory
							     : p->factor;
	const uint64_t room = device->memory_bytes - MIN(p->fixed, device->memory_bytes);

	if (p->fixed > device->memory_bytes)
		return false;
	return !p->shared || p->shared <= room / ONCE * factor + room % ONCE * factor / ONCE;
}

bool cluster_has_memory(const struct cluster *c, const struct cnode *node,
	const struct gpunode_device *device, const struct memory_params *params)
{
	struct promised p = {.c = c, .uuid = device->uuid};
	struct promise one = {0};
	const struct cpod *pod;

	if (c->overcommit <= ONCE)
		return true;
	DL_FOREACH(node->pods, pod)
		if (!pod->is_reported && !pod->n_evicted && !params->is_evicted(params->arg, pod))
			cluster_memory_promise_assigned(&p, pod, &pod->assigned);
	DL_FOREACH2(node->served, pod, snext)
	if (!pod->is_reported && !pod->n_evicted && !params->is_evicted(params->arg, pod))
		cluster_memory_promise_assigned(&p, pod, &pod->assigned);
	promise_orphans(&p, node);
	for (uint32_t i = 0; i < params->n; i++) {
		const struct spec *spec = &params->container[i]->spec;

		cluster_memory_add(&one, params->container[i]->kind, spec->memory_policy,
			spec_memory_on(spec, device->memory_bytes));
	}
	cluster_memory_promise(&p, params->ns, &one);
	return cluster_memory_is_possible(&p, node, device);
}

bool cluster_has_memory_for(
	const struct cluster *c, const struct cpod *pod, const struct assigned *then)
{
	const struct cnode *node = cpod_devices_node(pod);
	const struct cpod *other;

	for (uint32_t i = 0; c->overcommit > ONCE && i < node->gpus.n_devices; i++) {
		const struct gpunode_device *device = &node->gpus.device[i];
		struct promised p = {.c = c, .uuid = device->uuid};

		cluster_memory_promise_assigned(&p, pod, then);
		if (!p.fixed && !p.shared)
			continue;
		DL_FOREACH(node->pods, other)
			if (other != pod)
				cluster_memory_promise_assigned(&p, other, &other->assigned);
		DL_FOREACH2(node->served, other, snext)
		if (other != pod)
			cluster_memory_promise_assigned(&p, other, &other->assigned);
		promise_orphans(&p, node);
		if (!cluster_memory_is_possible(&p, node, device))
			return false;
	}
	return true;
}
