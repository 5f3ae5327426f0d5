/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the tenants of pods in the placement model. A bound pod counts by its assigned keys and by
 * the grants that divvyd confirms in the GPUNode: the larger amount counts, on the devices of both.
 * Other pods count by their requests.
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

#define N_LABELS 4

/*
 * A label of a spec. is_there with name NULL: the empty exclusion label, which excludes like any
 * other label.
 */
struct wanted {
	bool is_there;
	const char *name;
};

struct wanted_labels {
	struct wanted v[N_LABELS];
};

static struct wanted cluster_tenant_wanted_label(const char *name)
{
	return (struct wanted){name[0] != '\0', name};
}

static struct wanted_labels cluster_tenant_labels(const struct spec *spec)
{
	return (struct wanted_labels){{cluster_tenant_wanted_label(spec->affinity),
		cluster_tenant_wanted_label(spec->anti_affinity),
		cluster_tenant_wanted_label(spec->preferred_anti_affinity),
		{spec->has_exclusion || spec->exclusion[0],
			spec->exclusion[0] ? spec->exclusion : NULL}}};
}

/*
 * Sets *ret to the placement model's number of the label; 0 without a label. ns NULL: several
 * namespaces share the label.
 */
static int cluster_tenant_label(
	struct cluster *c, const char *ns, struct wanted label, uint32_t *ret)
{
	*ret = 0;
	return label.is_there ? place_label(c->place, ns, label.name, ret, NULL) : 0;
}

/*
 * Returns whether the label has the form "SPACE/NAME". Its scope then depends on whether the
 * namespace is in that space.
 */
static bool has_space(struct wanted label)
{
	return label.is_there && label.name && strchr(label.name, '/');
}

/*
 * Returns the namespace within which the label counts; NULL: all namespaces of a label space share
 * the label.
 */
static const char *scope_of(const struct cluster *c, const char *ns, struct wanted label)
{
	struct str rest, space;

	if (!has_space(label))
		return ns;
	rest = str_from(label.name);
	str_split(&rest, '/', &space);
	return cluster_is_in_space(c, ns, space) ? NULL : ns;
}

static int set_labels(
	struct cluster *c, const struct cpod *pod, const struct spec *spec, struct place_spec *ret)
{
	const struct wanted_labels labels = cluster_tenant_labels(spec);
	uint32_t *const to[N_LABELS] = {&ret->affinity, &ret->anti_affinity,
		&ret->preferred_anti_affinity, &ret->exclusion};
	int r = 0;

	for (int i = 0; r == 0 && i < N_LABELS; i++)
		r = cluster_tenant_label(c, scope_of(c, pod->ns, labels.v[i]), labels.v[i], to[i]);
	return r;
}

/* A label that other pods use stays, because place_label_forget() then returns -EBUSY. */
static void forget_label(struct cluster *c, const char *ns, struct wanted label)
{
	uint32_t id;

	if (cluster_tenant_label(c, ns, label, &id) == 0)
		place_label_forget(c->place, id, NULL);
}

/*
 * Frees the labels of the placement model that only this pod uses. The namespace may have entered
 * or left a label space since the pod was read. So this function frees both the labels of the
 * namespace and those of the space.
 */
void cluster_forget_labels(struct cluster *c, const struct cpod *pod)
{
	for (uint32_t i = 0; i < pod->requested.n; i++) {
		const struct wanted_labels labels = cluster_tenant_labels(
			&pod->requested.v[i].spec);

		for (int k = 0; k < N_LABELS; k++) {
			forget_label(c, pod->ns, labels.v[k]);
			if (has_space(labels.v[k]))
				forget_label(c, NULL, labels.v[k]);
		}
	}
}

/* ---- requests ---- */

static uint32_t number_of(const char *group)
{
	const uint64_t hash = str_hash(str_from(group));

	/*
	 * Two groups may get the same number. That does little harm, because only the locality
	 * bonus uses the number.
	 */
	return group[0] ? (uint32_t)(hash ^ hash >> 32) | 1u : 0;
}

/*
 * Returns the bits of the device models that request and policies accept; 0 if the cluster has none
 * of them.
 */
static uint64_t cluster_tenant_models(
	const struct cluster *c, const char *ns, const struct spec *spec)
{
	uint64_t bits = 0;

	for (uint32_t i = 0; i < PLACE_MODELS_MAX; i++) {
		const char *name = place_model_name(c->place, i);

		/* The number of a forgotten model has an empty name. */
		if (*name && spec_model_fits(spec, name) && cluster_allows_model(c, ns, name))
			bits |= 1ull << i;
	}
	return bits;
}

/* Returns the permille of a device's memory that count for a request without bytes. */
static uint32_t counted_permille(const struct cluster *c, const struct spec *spec)
{
	const uint32_t permille = spec->memory_permille ? spec->memory_permille : spec->request;

	return MAX((uint32_t)cluster_counted_bytes(c, spec->memory_policy, permille), 1u);
}

/*
 * Raises `spec` to the needs of the init containers that use the host container's devices before
 * the host starts.
 */
static void cluster_tenant_add_extender_pods(const struct cluster *c,
	const struct tenancy *requested, uint32_t host, struct place_spec *spec)
{
	for (uint32_t i = 0; i < requested->n; i++) {
		const struct spec *guest = &requested->v[i].spec;
		const uint64_t bytes = cluster_counted_bytes(
			c, guest->memory_policy, guest->memory_bytes);

		if (i == host || requested->v[i].host != host)
			continue;
		spec->is_exclusive |= guest->exclusive || guest->mode == SPEC_MODE_EXCLUSIVE;
		spec->device_bytes = MAX(spec->device_bytes, bytes);
		if (!spec->device_permille)
			spec->device_permille = spec->share;
		spec->device_permille = MAX(spec->device_permille, counted_permille(c, guest));
		spec->share = spec->is_exclusive ? SPEC_SHARE_ONE
						 : MAX(spec->share, guest->request);
	}
}

static int cluster_tenant_common_spec(struct cluster *c, const struct cpod *pod,
	const struct spec *requested, struct place_spec *ret)
{
	*ret = PLACE_SPEC_INIT;
	ret->group = number_of(cpod_group(pod));
	ret->queue = cpod_queue_number(c, pod);
	ret->started = pod->created_ns;
	return requested ? set_labels(c, pod, requested, ret) : 0;
}

int cluster_spec(struct cluster *c, const struct cpod *pod, uint32_t i, struct place_spec *ret)
{
	const struct spec *requested = i == PLACE_NONE ? NULL : &pod->requested.v[i].spec;
	int r = cluster_tenant_common_spec(c, pod, requested, ret);

	if (r < 0)
		return r;
	if (!requested) {
		ret->count = 0;
		return 0;
	}
	ret->is_exclusive = requested->exclusive || requested->mode == SPEC_MODE_EXCLUSIVE;
	ret->share = ret->is_exclusive ? SPEC_SHARE_ONE : requested->request;
	ret->count = requested->count;
	ret->device_bytes = cluster_counted_bytes(
		c, requested->memory_policy, requested->memory_bytes);
	ret->device_permille = requested->memory_permille;
	if (requested->memory_policy != SPEC_MEMORY_FAIL && !ret->device_bytes)
		ret->device_permille = counted_permille(c, requested);
	cluster_tenant_add_extender_pods(c, &pod->requested, i, ret);
	ret->class = requested->class;
	ret->priority = requested->priority;
	if (!requested->model[0] && !c->policies)
		return 0;
	ret->models = cluster_tenant_models(c, pod->ns, requested);
	return ret->models ? 0 : -EAGAIN;
}

/* ---- assigned devices ---- */

/* Returns the grant that the node's divvyd confirms for the container, or NULL. */
static const struct assigned_container *in_force(
	const struct cnode *node, const char *uid, const char *container)
{
	for (uint32_t i = 0; node->has_gpus && i < node->gpus.n_tenants; i++) {
		const struct gpunode_tenant *t = &node->gpus.tenant[i];

		if (!strcmp(t->uid, uid) && !strcmp(t->is.name, container))
			return &t->is;
	}
	return NULL;
}

/*
 * Raises `g` to the amounts that the node confirms in `b`, and adds the devices that only `b` has.
 */
static void cluster_tenant_merge(struct assigned_container *g, const struct assigned_container *b)
{
	g->request = MAX(g->request, b->request);
	for (uint32_t i = 0; i < MIN(b->n, SPEC_DEVICES_MAX); i++) {
		uint32_t at = 0;

		while (at < g->n && strcmp(g->device[at], b->device[i]) != 0)
			at++;
		if (at == SPEC_DEVICES_MAX)
			continue;
		if (at == g->n) {
			memcpy(g->device[g->n++], b->device[i], SPEC_LABEL);
			g->memory_bytes[at] = 0;
		}
		g->memory_bytes[at] = MAX(g->memory_bytes[at], b->memory_bytes[i]);
	}
}

static const struct tenancy_container *cluster_tenant_requested(
	const struct cpod *pod, const char *container)
{
	for (uint32_t i = 0; i < pod->requested.n; i++)
		if (!strcmp(pod->requested.v[i].name, container))
			return &pod->requested.v[i];
	return NULL;
}

enum manifest_kind cpod_kind(const struct cpod *pod, const char *container)
{
	const struct tenancy_container *requested = cluster_tenant_requested(pod, container);

	return requested ? requested->kind : MANIFEST_MAIN;
}

/*
 * Returns a stage with the container's assigned amounts on each device; stages_settle() then sets
 * the kept amounts.
 */
static struct stage stage_of(
	const struct cluster *c, const struct assigned_container *g, enum manifest_kind kind)
{
	struct stage stage = {.kind = kind,
		.share = g->mode == SPEC_MODE_EXCLUSIVE ? SPEC_SHARE_ONE : g->request,
		.device = g->device,
		.n = MIN(g->n, SPEC_DEVICES_MAX)};

	for (uint32_t i = 0; i < stage.n; i++)
		stage.bytes[i] = cluster_counted_bytes(c, g->memory_policy, g->memory_bytes[i]);
	return stage;
}

struct stage *cpod_stages(
	const struct cluster *c, const struct cpod *pod, const struct assigned *assigned)
{
	struct stage *stage = calloc(assigned->n + 1ul, sizeof(*stage));

	for (uint32_t i = 0; stage && i < assigned->n; i++)
		stage[i] = stage_of(c, &assigned->v[i], cpod_kind(pod, assigned->v[i].name));
	if (stage)
		stages_settle(stage, assigned->n);
	return stage;
}

bool cpod_is_whole(const struct cluster *c, const struct cpod *pod)
{
	struct stage *stage = cpod_stages(c, pod, &pod->assigned);
	uint32_t n = 0;

	for (uint32_t i = 0; stage && i < pod->assigned.n; i++)
		n += !stage[i].has_room;
	free(stage);
	return stage && pod->n_tenants >= MAX(n, 1u) + (pod->server != NULL);
}

/* Adds to `choice` the container's assigned devices that the node has. */
static void cluster_tenant_choose_devices(const struct cluster *c, const struct cnode *node,
	const struct assigned_container *g, struct place_choice *choice)
{
	struct place_node_view view;

	if (!place_node_get(c->place, node->at, &view))
		return;
	for (uint32_t i = 0; i < g->n; i++)
		for (uint32_t d = view.first_device; d < view.first_device + view.n_devices; d++) {
			struct place_device_view device;

			place_device_get(c->place, d, &device);
			if (!strcmp(device.uuid, g->device[i]))
				choice->device[choice->n++] = d;
		}
}

/*
 * If a chosen device has tenants whose exclusion label differs from *exclusion, sets *exclusion to
 * their label and returns true.
 */
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

/* Sets ret[i] to the bytes that the stage keeps on device[i]; returns false if all are 0. */
static bool bytes_on(const struct cluster *c, const struct stage *stage, const uint32_t *device,
	uint32_t n, uint64_t *ret)
{
	bool is_any = false;

	for (uint32_t i = 0; i < n; i++) {
		struct place_device_view view;

		place_device_get(c->place, device[i], &view);
		ret[i] = stage_kept_on(stage, view.uuid);
		is_any |= ret[i] != 0;
	}
	return is_any;
}

/*
 * Adds a tenant that has its place already, with the amounts that `stage` keeps on its devices; g
 * NULL: no devices. If the node has none of the devices any more, *ret_tenant is PLACE_NONE. If the
 * amounts do not fit, the tenant counts with a smaller share.
 */
static int tenant_restore(struct cluster *c, struct cnode *node, const struct assigned_container *g,
	const struct stage *stage, struct place_spec *spec, uint32_t *ret_tenant)
{
	struct place_choice choice = {.node = node->at};
	uint64_t room[SPEC_DEVICES_MAX], *bytes = NULL;
	int r;

	*ret_tenant = PLACE_NONE;
	if (g)
		cluster_tenant_choose_devices(c, node, g, &choice);
	if (g && !choice.n)
		return 0;
	spec->count = choice.n;
	if (g) {
		spec->share = stage->kept_share;
		if (bytes_on(c, stage, choice.device, choice.n, room))
			bytes = room;
		for (uint32_t i = 0; bytes && i < choice.n; i++)
			spec->device_bytes = MAX(spec->device_bytes, bytes[i]);
		spec->is_exclusive = g->mode == SPEC_MODE_EXCLUSIVE;
		spec->class = g->class;
		spec->priority = g->priority;
	}
	r = place_restore(c->place, spec, &choice, bytes, ret_tenant, NULL);
	if (r == -ENOSPC && is_among_others(c, &choice, &spec->exclusion))
		/*
		 * The namespace entered or left a label space after the tenant started, so the
		 * tenant's label differs from the label of the other tenants of the device. The
		 * second call counts the tenant with their label.
		 */
		r = place_restore(c->place, spec, &choice, bytes, ret_tenant, NULL);
	if (r == -ENOSPC && spec->is_exclusive) {
		/*
		 * The device of an exclusive tenant has other tenants, so the model refuses the
		 * exclusive tenant. The second call counts the tenant with its share alone.
		 */
		spec->is_exclusive = false;
		r = place_restore(c->place, spec, &choice, bytes, ret_tenant, NULL);
	}
	for (; r == -ENOSPC && spec->share > 1; spec->share = spec->share / 2)
		r = place_restore(c->place, spec, &choice, bytes, ret_tenant, NULL);
	return r == -ENOSPC ? 0 : r;
}

int cpod_add_tenant(struct cluster *c, struct cpod *pod, uint32_t tenant, uint32_t container)
{
	const size_t n = pod->n_tenants + 1ul;

	if (array_grow(&pod->tenants, &pod->tenants_room, n, sizeof(*pod->tenants)) < 0 ||
		array_grow(&pod->containers, &pod->containers_room, n, sizeof(*pod->containers)) <
			0)
		return -ENOMEM;
	pod->containers[pod->n_tenants] = container;
	pod->tenants[pod->n_tenants++] = tenant;
	return cluster_note_tenant(c, tenant, pod);
}

/*
 * Adds the tenant of container i, or with g and stage NULL the tenant without devices on the pod's
 * own node.
 */
static int restore_one(struct cluster *c, struct cpod *pod, uint32_t i,
	const struct assigned_container *g, const struct stage *stage)
{
	const struct tenancy_container *requested = g ? cluster_tenant_requested(pod, g->name)
						      : NULL;
	struct cnode *node = g ? cpod_devices_node(pod) : pod->node;
	struct place_spec spec;
	uint32_t tenant;
	int r = cluster_tenant_common_spec(c, pod, requested ? &requested->spec : NULL, &spec);

	spec.count = 0;
	if (pod->server ? !g : !pod->n_tenants) {
		spec.cpu_milli = pod->cpu_milli;
		spec.memory_bytes = pod->memory_bytes;
	}
	if (pod->server && g && !pod->n_tenants)
		cpod_network(c, pod, g, &spec);
	if (r < 0 || node->at == PLACE_NONE)
		return r;
	r = tenant_restore(c, node, g, stage, &spec, &tenant);
	if (r < 0 || tenant == PLACE_NONE)
		return r;
	r = cpod_add_tenant(c, pod, tenant, i);
	if (r < 0 && (!pod->n_tenants || pod->tenants[pod->n_tenants - 1] != tenant))
		place_remove(c->place, tenant);
	return r;
}

/*
 * Adds a tenant for each container with assigned keys, raised to the grants that the node confirms.
 */
static int cluster_tenant_restore_assigned(struct cluster *c, struct cpod *pod)
{
	_cleanup_assigned_ struct assigned all = {0};
	_cleanup_free_ struct stage *stage = NULL;
	int r = assigned_copy(&pod->assigned, &all);

	for (uint32_t i = 0; r == 0 && i < all.n; i++) {
		const struct assigned_container *b = in_force(
			cpod_devices_node(pod), pod->uid, all.v[i].name);

		if (b)
			cluster_tenant_merge(&all.v[i], b);
	}
	if (r == 0)
		stage = cpod_stages(c, pod, &all);
	if (!stage)
		return -ENOMEM;
	for (uint32_t i = 0; r == 0 && i < all.n; i++)
		if (!stage[i].has_room)
			r = restore_one(c, pod, i, &all.v[i], &stage[i]);
	return r;
}

/* For a remote pod: adds the client half on the pod's own node, and ties it to the device half. */
static int restore_here(struct cluster *c, struct cpod *pod)
{
	const uint32_t n = pod->n_tenants;
	int r = restore_one(c, pod, PLACE_NONE, NULL, NULL);

	return r == 0 && n && pod->n_tenants > n
		? place_mode_tie(c->place, pod->tenants[0], pod->tenants[n], NULL)
		: r;
}

int cpod_restore(struct cluster *c, struct cpod *pod)
{
	int r;

	if (!pod->node || pod->n_tenants || (!pod->server && pod->node->at == PLACE_NONE))
		return 0;
	r = pod->assigned.n ? cluster_tenant_restore_assigned(c, pod) : 0;
	if (r == 0 && pod->server)
		r = restore_here(c, pod);
	/*
	 * A pod of divvy-scheduler without a share also gets a tenant, so that its CPU and memory
	 * count and it can be preempted.
	 */
	if (r == 0 && !pod->n_tenants && pod->is_ours)
		r = restore_one(c, pod, 0, NULL, NULL);
	for (uint32_t i = 0; r == 0 && pod->is_reported && i < pod->n_tenants; i++)
		r = place_mark_terminating(c->place, pod->tenants[i], NULL);
	return r;
}

int cpod_resize(
	struct cluster *c, struct cpod *pod, const struct assigned *assigned, struct buf *why)
{
	_cleanup_free_ struct stage *stage = cpod_stages(c, pod, assigned);
	const uint32_t savepoint = place_savepoint(c->place);
	int r = stage ? 0 : -ENOMEM;

	for (uint32_t i = 0; r == 0 && i < pod->n_tenants; i++) {
		const uint32_t container = pod->containers[i];
		const bool has_devices = container != PLACE_NONE;
		const struct stage *s = has_devices ? &stage[container] : NULL;
		const struct assigned_container *g = has_devices ? &assigned->v[container] : NULL;
		const struct place_tenant *t = place_tenant(c->place, pod->tenants[i]);
		uint64_t bytes[SPEC_DEVICES_MAX];
		struct error err = {0};

		if (!has_devices || s->has_room || g->mode == SPEC_MODE_EXCLUSIVE)
			continue;
		r = t && bytes_on(c, s, t->device, t->n, bytes)
			? place_resize_each(c->place, pod->tenants[i], s->kept_share, bytes, &err)
			: place_resize(c->place, pod->tenants[i], s->kept_share, 0, &err);
		if (r < 0)
			buf_addf(why, "%s: %s; the grant stays unchanged", g->name, err.msg);
	}
	if (r < 0)
		place_rollback(c->place, savepoint);
	place_release(c->place);
	return r;
}

/*
 * Returns whether a known pod has assigned keys for the confirmed tenant. Such a tenant counts with
 * its pod.
 */
static bool cluster_tenant_is_known(const struct cnode *node, const struct gpunode_tenant *t)
{
	const struct cpod *pod = cnode_pod(node, t->uid);

	return pod && assigned_find(&pod->assigned, t->is.name);
}

int orphans_restore(struct cluster *c, struct cnode *node)
{
	int r = array_grow(&node->orphans, &node->orphans_room, node->gpus.n_tenants + 1ul,
		sizeof(*node->orphans));

	for (uint32_t i = 0; r == 0 && node->has_gpus && i < node->gpus.n_tenants; i++) {
		const struct gpunode_tenant *t = &node->gpus.tenant[i];
		struct stage alone = stage_of(c, &t->is, MANIFEST_MAIN);
		struct place_spec spec = PLACE_SPEC_INIT;
		uint32_t tenant;

		if (cluster_tenant_is_known(node, t))
			continue;
		/* An orphan uses capacity, but has no pod that could be evicted. */
		stages_settle(&alone, 1);
		r = tenant_restore(c, node, &t->is, &alone, &spec, &tenant);
		if (r < 0 || tenant == PLACE_NONE)
			continue;
		node->orphans[node->n_orphans++] = tenant;
		r = cluster_note_tenant(c, tenant, NULL);
	}
	return r;
}
