/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory that is promised more than once. On a device the tenants whose memory policy is
 * fail have all of theirs; those of wait and swap together may have as often what is left as the
 * least of their policies' overcommit.memory says, or the GPUNode's where that says something.
 * The place knows one number for all: there they count as little as the greatest of these factors
 * makes possible, and the filter holds each device to its own.
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

/* The least that any policy of the namespace says; without one its memory is promised once. */
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

/* What is promised of a device. */
struct promised {
	const struct cluster *c;
	const char *uuid;
	uint64_t fixed, shared;
	uint32_t factor; /* the least of the shared; 0: there are none */
};

/* What a pod has at most of the one and of the other, its init containers before the others. */
struct promise {
	struct manifest_sum fixed, shared;
};

static void add(struct promise *one, enum manifest_kind kind, enum spec_memory_policy policy,
	uint64_t bytes)
{
	manifest_sum_add(&one->fixed, kind, policy == SPEC_MEMORY_FAIL ? bytes : 0);
	manifest_sum_add(&one->shared, kind, policy == SPEC_MEMORY_FAIL ? 0 : bytes);
}

static void promise(struct promised *p, const char *ns, const struct promise *one)
{
	const uint64_t shared = manifest_sum_value(&one->shared);

	p->fixed += manifest_sum_value(&one->fixed);
	p->shared += shared;
	if (shared) {
		const uint32_t factor = factor_in(p->c, ns);

		p->factor = p->factor ? MIN(p->factor, factor) : factor;
	}
}

static void promise_given(struct promised *p, const struct cpod *pod, const struct given *given)
{
	struct promise one = {0};

	for (uint32_t i = 0; i < given->n; i++) {
		const struct given_container *g = &given->v[i];

		for (uint32_t k = 0; k < g->n; k++)
			if (!strcmp(g->device[k], p->uuid))
				add(&one, cpod_kind(pod, g->name), g->memory_policy,
					g->memory_bytes[k]);
	}
	promise(p, pod->ns, &one);
}

/* Containers that no pod accounts for have what they have. */
static void promise_orphans(struct promised *p, const struct cnode *node)
{
	for (uint32_t i = 0; i < node->gpus.n_tenants; i++) {
		const struct gpunode_tenant *t = &node->gpus.tenant[i];

		for (uint32_t k = 0; k < t->is.n; k++)
			if (!strcmp(t->is.device[k], p->uuid) && !cnode_pod(node, t->uid))
				p->fixed += t->is.memory_bytes[k];
	}
}

static bool is_possible(
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
	const struct gpunode_device *device, const struct memory_wish *wish)
{
	struct promised p = {.c = c, .uuid = device->uuid};
	struct promise one = {0};
	const struct cpod *pod;

	if (c->overcommit <= ONCE)
		return true;
	DL_FOREACH(node->pods, pod)
		if (!pod->is_told && !pod->n_gone && !wish->is_gone(wish->arg, pod))
			promise_given(&p, pod, &pod->given);
	DL_FOREACH2(node->served, pod, snext)
	if (!pod->is_told && !pod->n_gone && !wish->is_gone(wish->arg, pod))
		promise_given(&p, pod, &pod->given);
	promise_orphans(&p, node);
	for (uint32_t i = 0; i < wish->n; i++) {
		const struct spec *spec = &wish->container[i]->spec;

		add(&one, wish->container[i]->kind, spec->memory_policy,
			spec_memory_on(spec, device->memory_bytes));
	}
	promise(&p, wish->ns, &one);
	return is_possible(&p, node, device);
}

bool cluster_has_memory_for(
	const struct cluster *c, const struct cpod *pod, const struct given *then)
{
	const struct cnode *node = cpod_devices_node(pod);
	const struct cpod *other;

	for (uint32_t i = 0; c->overcommit > ONCE && i < node->gpus.n_devices; i++) {
		const struct gpunode_device *device = &node->gpus.device[i];
		struct promised p = {.c = c, .uuid = device->uuid};

		promise_given(&p, pod, then);
		if (!p.fixed && !p.shared)
			continue;
		DL_FOREACH(node->pods, other)
			if (other != pod)
				promise_given(&p, other, &other->given);
		DL_FOREACH2(node->served, other, snext)
		if (other != pod)
			promise_given(&p, other, &other->given);
		promise_orphans(&p, node);
		if (!is_possible(&p, node, device))
			return false;
	}
	return true;
}
