/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tenants of the place: what pods were given, what nodes say is in force, and what is asked. Of a
 * container's given keys and its node's word the larger counts, on all devices that either names.
 */
#include "scheduler/cluster-internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "base/array.h"
#include "base/cleanup.h"

int cluster_note_tenant(struct cluster *c, uint32_t tenant, struct cpod *pod)
{
	int r = array_grow(&c->by_tenant, &c->by_tenant_room, tenant + 1ul, sizeof(*c->by_tenant));

	if (r == 0)
		c->by_tenant[tenant] = pod;
	return r;
}

void cluster_drop(struct cluster *c, uint32_t tenant)
{
	place_remove(c->place, tenant);
	if (tenant < c->by_tenant_room)
		c->by_tenant[tenant] = NULL;
}

void cpod_drop(struct cluster *c, struct cpod *pod)
{
	while (pod->n_tenants)
		cluster_drop(c, pod->tenants[--pod->n_tenants]);
}

void orphans_drop(struct cluster *c, struct cnode *node)
{
	while (node->n_orphans)
		cluster_drop(c, node->orphans[--node->n_orphans]);
}

/* ---- labels ---- */

#define COMMON "/" /* in the place of a namespace, none of which has such a name */

static int label_of(struct cluster *c, const char *ns, const char *name, uint32_t *ret)
{
	*ret = 0;
	return name[0] ? place_label(c->place, ns, name, ret, NULL) : 0;
}

/* The namespace's own, or common to all that share the space. */
static const char *space_of(const struct cluster *c, const char *ns, const char *name)
{
	struct str rest = str_from(name), space;

	if (!strchr(name, '/') || !str_split(&rest, '/', &space))
		return ns;
	return cluster_is_in_space(c, ns, space) ? COMMON : ns;
}

struct named {
	const char *v[3];
};

static struct named labels_of(const struct spec *spec)
{
	/* The empty exclusion label is one too: a name that no user can write. */
	return (struct named){{spec->affinity, spec->anti_affinity,
		spec->exclusion[0]            ? spec->exclusion
			: spec->has_exclusion ? " "
					      : ""}};
}

static int set_labels(
	struct cluster *c, const struct cpod *pod, const struct spec *spec, struct place_spec *ret)
{
	const struct named names = labels_of(spec);
	uint32_t *const labels[] = {&ret->affinity, &ret->anti_affinity, &ret->exclusion};
	int r = 0;

	for (int i = 0; r == 0 && i < 3; i++)
		r = label_of(c, space_of(c, pod->ns, names.v[i]), names.v[i], labels[i]);
	return r;
}

/* Of its own namespace or common: it may have been the other until now. */
void cluster_forget_labels(struct cluster *c, const struct cpod *pod)
{
	for (uint32_t i = 0; i < pod->asked.n; i++) {
		const struct named names = labels_of(&pod->asked.v[i].spec);

		for (int k = 0; k < 6; k++) {
			const char *name = names.v[k / 2];
			uint32_t label;

			if (k % 2 && !strchr(name, '/'))
				continue;
			/* Those that others have as well stay: -EBUSY. */
			if (label_of(c, k % 2 ? COMMON : pod->ns, name, &label) == 0)
				place_label_forget(c->place, label, NULL);
		}
	}
}

/* ---- what is asked ---- */

static uint32_t number_of(const char *group)
{
	const uint64_t hash = str_hash(str_from(group));

	/* Two groups with one number are as if they were one where near ones are preferred. */
	return group[0] ? (uint32_t)(hash ^ hash >> 32) | 1u : 0;
}

/* The bits of the models that will do; 0: none that is known. */
static uint64_t models_of(const struct cluster *c, const char *ns, const struct spec *spec)
{
	uint64_t bits = 0;

	for (uint32_t i = 0; i < PLACE_MODELS_MAX; i++) {
		const char *name = place_model_name(c->place, i);

		if (!name || !*name)
			break;
		if (spec_model_fits(spec, name) && cluster_allows_model(c, ns, name))
			bits |= 1ull << i;
	}
	return bits;
}

static int common(
	struct cluster *c, const struct cpod *pod, const struct spec *asked, struct place_spec *ret)
{
	*ret = PLACE_SPEC_INIT;
	ret->group = number_of(pod->group);
	ret->queue = cpod_queue_number(c, pod);
	ret->started = pod->created_ns;
	return asked ? set_labels(c, pod, asked, ret) : 0;
}

int cluster_spec(struct cluster *c, const struct cpod *pod, uint32_t i, struct place_spec *ret)
{
	const struct spec *asked = i == PLACE_NONE ? NULL : &pod->asked.v[i].spec;
	int r = common(c, pod, asked, ret);

	if (r < 0)
		return r;
	if (!asked) {
		ret->count = 0;
		return 0;
	}
	ret->is_exclusive = asked->exclusive || asked->mode == SPEC_MODE_EXCLUSIVE;
	ret->share = ret->is_exclusive ? SPEC_SHARE_ONE : asked->request;
	ret->count = asked->count;
	ret->device_bytes = cluster_counted_bytes(c, asked->memory_policy, asked->memory_bytes);
	ret->device_permille = asked->memory_permille;
	if (asked->memory_policy != SPEC_MEMORY_FAIL && !ret->device_bytes)
		ret->device_permille = (uint32_t)MAX(
			cluster_counted_bytes(c, asked->memory_policy,
				asked->memory_permille ? asked->memory_permille : asked->request),
			UINT64_C(1));
	ret->class = asked->class;
	ret->priority = asked->priority;
	if (!asked->model[0] && !c->policies)
		return 0;
	ret->models = models_of(c, pod->ns, asked);
	return ret->models ? 0 : -EAGAIN;
}

/* ---- what is given ---- */

/* The containers of that pod that its node says more of, or less. */
static const struct given_container *in_force(
	const struct cnode *node, const char *uid, const char *container)
{
	for (uint32_t i = 0; node->has_gpus && i < node->gpus.n_tenants; i++) {
		const struct gpunode_tenant *t = &node->gpus.tenant[i];

		if (!strcmp(t->uid, uid) && !strcmp(t->is.name, container))
			return &t->is;
	}
	return NULL;
}

static uint64_t most_bytes(const struct given_container *g)
{
	uint64_t most = 0;

	for (uint32_t i = 0; g && i < g->n; i++)
		most = MAX(most, g->memory_bytes[i]);
	return most;
}

/* Those of the node that it names and that are not there yet. */
static void add_devices(const struct cluster *c, const struct cnode *node,
	const struct given_container *g, struct place_choice *choice)
{
	struct place_node_view view;

	if (!g || !place_node_get(c->place, node->at, &view))
		return;
	for (uint32_t i = 0; i < g->n; i++) {
		for (uint32_t d = view.first_device; d < view.first_device + view.n_devices; d++) {
			struct place_device_view device;
			bool is_there = false;

			place_device_get(c->place, d, &device);
			if (strcmp(device.uuid, g->device[i]))
				continue;
			for (uint32_t k = 0; k < choice->n; k++)
				is_there |= choice->device[k] == d;
			if (!is_there && choice->n < SPEC_DEVICES_MAX)
				choice->device[choice->n++] = d;
		}
	}
}

/* Whoever is on one of these devices has another exclusion label: that one. */
static bool is_among_others(
	const struct cluster *c, const struct place_choice *choice, uint32_t *exclusion)
{
	for (uint32_t i = 0; i < choice->n; i++) {
		struct place_device_view device;

		place_device_get(c->place, choice->device[i], &device);
		if (!device.n_tenants || device.exclusion == *exclusion)
			continue;
		*exclusion = device.exclusion;
		return true;
	}
	return false;
}

/* a, b: given and in force; either may be NULL. 0 also where none of its devices is there. */
static int restore(struct cluster *c, struct cnode *node, const struct given_container *a,
	const struct given_container *b, struct place_spec *spec, uint32_t *ret_tenant)
{
	struct place_choice choice = {.node = node->at};
	int r;

	*ret_tenant = PLACE_NONE;
	add_devices(c, node, a, &choice);
	add_devices(c, node, b, &choice);
	if ((a || b) && !choice.n)
		return 0;
	spec->count = choice.n;
	if (a || b) {
		const struct given_container *one = a ? a : b;

		spec->share = MAX(a ? a->request : 0, b ? b->request : 0);
		spec->is_exclusive = one->mode == SPEC_MODE_EXCLUSIVE;
		if (spec->is_exclusive)
			spec->share = SPEC_SHARE_ONE;
		spec->device_bytes = cluster_counted_bytes(
			c, one->memory_policy, MAX(most_bytes(a), most_bytes(b)));
		spec->class = one->class;
		spec->priority = one->priority;
	}
	r = place_restore(c->place, spec, &choice, ret_tenant, NULL);
	if (r == -ENOSPC && is_among_others(c, &choice, &spec->exclusion))
		/* Labels have got another meaning since it came. */
		r = place_restore(c->place, spec, &choice, ret_tenant, NULL);
	if (r == -ENOSPC && spec->is_exclusive) {
		/* Somebody is on it all the same: it has at least what nobody else may have. */
		spec->is_exclusive = false;
		r = place_restore(c->place, spec, &choice, ret_tenant, NULL);
	}
	for (; r == -ENOSPC && spec->share > 1; spec->share = spec->share / 2)
		r = place_restore(c->place, spec, &choice, ret_tenant, NULL);
	return r == -ENOSPC ? 0 : r;
}

static const struct spec *asked_by(const struct cpod *pod, const char *container)
{
	for (uint32_t i = 0; i < pod->asked.n; i++)
		if (!strcmp(pod->asked.v[i].name, container))
			return &pod->asked.v[i].spec;
	return NULL;
}

static int restore_one(struct cluster *c, struct cpod *pod, const struct given_container *g)
{
	struct cnode *node = pod->node;
	struct place_spec spec;
	uint32_t tenant;
	int r;

	r = common(c, pod, g ? asked_by(pod, g->name) : NULL, &spec);
	spec.count = 0;
	if (!pod->n_tenants) {
		spec.cpu_milli = pod->cpu_milli;
		spec.memory_bytes = pod->memory_bytes;
	}
	r = r < 0
		? r
		: restore(c, node, g, g ? in_force(node, pod->uid, g->name) : NULL, &spec, &tenant);
	if (r < 0 || tenant == PLACE_NONE)
		return r;
	pod->tenants[pod->n_tenants++] = tenant;
	return cluster_note_tenant(c, tenant, pod);
}

int cpod_restore(struct cluster *c, struct cpod *pod)
{
	int r = 0;

	if (!pod->node || pod->node->at == PLACE_NONE || pod->n_tenants)
		return 0;
	for (uint32_t i = 0; r == 0 && i < pod->given.n; i++)
		r = restore_one(c, pod, &pod->given.v[i]);
	/* Of ours without a share its CPU and memory count, and it may be asked to leave. */
	if (r == 0 && !pod->n_tenants && pod->is_ours)
		r = restore_one(c, pod, NULL);
	for (uint32_t i = 0; r == 0 && pod->is_told && i < pod->n_tenants; i++)
		r = place_leave(c->place, pod->tenants[i], NULL);
	return r;
}

/* Whether a pod that is on that node accounts for it. */
static bool is_known(const struct cnode *node, const struct gpunode_tenant *t)
{
	const struct cpod *pod;

	DL_FOREACH(node->pods, pod)
		if (!strcmp(pod->uid, t->uid) && given_find(&pod->given, t->is.name))
			return true;
	return false;
}

int orphans_restore(struct cluster *c, struct cnode *node)
{
	int r = array_grow(&node->orphans, &node->orphans_room, node->gpus.n_tenants + 1ul,
		sizeof(*node->orphans));

	for (uint32_t i = 0; r == 0 && node->has_gpus && i < node->gpus.n_tenants; i++) {
		const struct gpunode_tenant *t = &node->gpus.tenant[i];
		struct place_spec spec = PLACE_SPEC_INIT;
		uint32_t tenant;

		if (is_known(node, t))
			continue;
		/* Nobody makes it leave. */
		r = restore(c, node, NULL, &t->is, &spec, &tenant);
		if (r < 0 || tenant == PLACE_NONE)
			continue;
		node->orphans[node->n_orphans++] = tenant;
		r = cluster_note_tenant(c, tenant, NULL);
	}
	return r;
}
