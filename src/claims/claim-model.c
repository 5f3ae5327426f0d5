/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the model in step with slices, nodes and claims: the units of a node change with the
 * version of the slices, tenants with the claims that src/claims reports as changed, and capacities
 * with each choice. A node's CPU and memory in the model are what is allocatable, less the use of
 * pods that have no tenant there.
 */
#include "claims/claim-model.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/hash.h"
#include "claims/claims.h"
#include "kuberules/pod.h"
#include "kuberules/view.h"
#include "place/place-policy.h"
#include "place/place.h"

struct model_node {
	UT_hash_handle hh;
	char *name;
	uint32_t at; /* in the model; PLACE_NONE: the node has no units */
	struct place_device_info *devices;
	uint32_t n_devices;
	/* capacities in the model, and the part that the node's tenants use */
	uint32_t cpu_milli, tenants_cpu;
	uint64_t memory_bytes, tenants_memory;
	bool is_seen;
	uint32_t view_at; /* in the view; valid while is_seen */
};

struct model_tenant {
	UT_hash_handle hh;
	char *key; /* of the claim */
	struct claims_held_units held;
	char *node, *units[SPEC_DEVICES_MAX];
	uint32_t tenant; /* PLACE_NONE: the node does not have the units now */
	uint32_t cpu_milli;
	uint64_t memory_bytes;
};

struct claim_model {
	struct place *place;
	/* borrowed, and set with each choice */
	struct claims *claims;
	const struct view *view;
	struct model_node *nodes, **by_at;
	uint32_t by_at_room;
	struct model_tenant *tenants;
	uint64_t slices_version;
	uint32_t n_units; /* of all nodes */
	bool is_watching;
};

int claim_model_new(const struct place_policy *policy, struct claim_model **ret, struct error *err)
{
	struct claim_model *model = calloc(1, sizeof(*model));
	int r;

	if (!model)
		return fail(err, ENOMEM, "out of memory");
	r = place_new(&(struct place_config){.policy = policy}, &model->place, err);
	if (r < 0) {
		free(model);
		return r;
	}
	model->slices_version = UINT64_MAX;
	*ret = model;
	return 0;
}

static void model_tenant_free(struct model_tenant *tenant)
{
	for (uint32_t i = 0; i < ARRAY_SIZE(tenant->units); i++)
		free(tenant->units[i]);
	free(tenant->node);
	free(tenant->key);
	free(tenant);
}

static void model_node_free(struct model_node *node)
{
	free(node->devices);
	free(node->name);
	free(node);
}

void claim_model_free(struct claim_model *model)
{
	struct model_tenant *tenant, *next_tenant;
	struct model_node *node, *next_node;

	if (!model)
		return;
	HASH_ITER(hh, model->tenants, tenant, next_tenant) {
		HASH_DEL(model->tenants, tenant);
		model_tenant_free(tenant);
	}
	HASH_ITER(hh, model->nodes, node, next_node) {
		HASH_DEL(model->nodes, node);
		model_node_free(node);
	}
	place_free(model->place);
	free(model->by_at);
	free(model);
}

static struct model_node *model_find(struct claim_model *model, const char *name)
{
	struct model_node *node = NULL;

	if (name)
		HASH_FIND_STR(model->nodes, name, node);
	return node;
}

/* ---- tenants ---- */

static void model_remove_tenant(struct claim_model *model, struct model_tenant *tenant)
{
	struct model_node *node = model_find(model, tenant->node);

	if (tenant->tenant == PLACE_NONE)
		return;
	place_remove(model->place, tenant->tenant);
	tenant->tenant = PLACE_NONE;
	if (node) {
		node->tenants_cpu -= tenant->cpu_milli;
		node->tenants_memory -= tenant->memory_bytes;
	}
}

static uint32_t model_device(const struct claim_model *model, uint32_t at, const char *unit)
{
	struct place_node_view view;
	struct place_device_view device;

	if (!place_node_get(model->place, at, &view))
		return PLACE_NONE;
	for (uint32_t i = view.first_device; i < view.first_device + view.n_devices; i++) {
		place_device_get(model->place, i, &device);
		if (!strcmp(device.uuid, unit))
			return i;
	}
	return PLACE_NONE;
}

/* Adds the tenant if its node has all units. */
static int model_add_tenant(struct claim_model *model, struct model_tenant *tenant)
{
	struct model_node *node = model_find(model, tenant->node);
	struct place_spec spec = PLACE_SPEC_INIT;
	struct place_choice choice = {.n = tenant->held.n};
	int r;

	if (!node || node->at == PLACE_NONE)
		return 0;
	choice.node = node->at;
	for (uint32_t i = 0; i < choice.n; i++) {
		choice.device[i] = model_device(model, node->at, tenant->units[i]);
		if (choice.device[i] == PLACE_NONE)
			return 0;
	}
	spec.count = choice.n;
	spec.is_exclusive = tenant->held.is_whole;
	spec.share = spec.is_exclusive || !tenant->held.share
		? SPEC_SHARE_ONE
		: (uint32_t)MIN(tenant->held.share, (uint64_t)SPEC_SHARE_ONE);
	spec.device_bytes = spec.is_exclusive ? 0 : tenant->held.bytes;
	spec.cpu_milli = tenant->cpu_milli;
	spec.memory_bytes = tenant->memory_bytes;
	r = place_restore(model->place, &spec, &choice, NULL, &tenant->tenant, NULL);
	if (r == -ENOMEM)
		return r;
	/* A claim that contradicts another one, such as a victim's, does not count. */
	if (r < 0) {
		tenant->tenant = PLACE_NONE;
		return 0;
	}
	node->tenants_cpu += tenant->cpu_milli;
	node->tenants_memory += tenant->memory_bytes;
	return 0;
}

static int model_keep_claim(struct claim_model *model, const struct claims_held_units *held)
{
	const struct object *object = held->user
		? view_find(model->view, OBJECT_POD, held->ns, held->user)
		: NULL;
	const struct pod *pod = object ? pod_from_object(object) : NULL;
	struct model_tenant *tenant;
	int r = 0;

	HASH_FIND_STR(model->tenants, held->key, tenant);
	if (tenant) {
		model_remove_tenant(model, tenant);
		HASH_DEL(model->tenants, tenant);
		model_tenant_free(tenant);
	}
	if (!held->n || held->n > SPEC_DEVICES_MAX || !held->node)
		return 0;
	tenant = calloc(1, sizeof(*tenant));
	if (!tenant)
		return -ENOMEM;
	tenant->held = *held;
	tenant->tenant = PLACE_NONE;
	tenant->key = str_dup(str_from(held->key));
	tenant->node = str_dup(str_from(held->node));
	r = tenant->key && tenant->node ? 0 : -ENOMEM;
	for (uint32_t i = 0; r == 0 && i < held->n; i++) {
		tenant->units[i] = str_dup(str_from(held->units[i]));
		r = tenant->units[i] ? 0 : -ENOMEM;
	}
	/* The pod's CPU and memory count with its only claim. */
	if (pod && pod->claims.n == 1) {
		tenant->cpu_milli = (uint32_t)MIN(
			MAX(pod->request.cpu_milli, INT64_C(0)), (int64_t)INT32_MAX);
		tenant->memory_bytes = (uint64_t)MAX(pod->request.memory_bytes, INT64_C(0));
	}
	if (r == 0)
		HASH_ADD_KEYPTR(hh, model->tenants, tenant->key, strlen(tenant->key), tenant);
	if (r < 0 || !tenant->hh.tbl) {
		model_tenant_free(tenant);
		return -ENOMEM;
	}
	return model_add_tenant(model, tenant);
}

/* ---- nodes ---- */

/* Allocatable less the use of pods without a tenant. */
static void model_read_capacities(const struct view *view, const struct model_node *node,
	uint32_t at, uint32_t *ret_cpu, uint64_t *ret_memory)
{
	const struct resources *all = &view_node(view, at)->allocatable;
	const struct resources *used = view_node_used(view, at);
	const int64_t cpu = all->cpu_milli - used->cpu_milli + node->tenants_cpu;
	const int64_t memory = all->memory_bytes - used->memory_bytes +
		(int64_t)node->tenants_memory;

	*ret_cpu = (uint32_t)MIN(MAX(cpu, INT64_C(0)), (int64_t)INT32_MAX);
	*ret_memory = (uint64_t)MIN(MAX(memory, INT64_C(0)), INT64_MAX / 4);
}

static struct place_node_info model_info(const struct model_node *node)
{
	return (struct place_node_info){.name = node->name,
		.rack = "",
		.cpu_milli = node->cpu_milli,
		.memory_bytes = node->memory_bytes,
		.n_devices = node->n_devices,
		.devices = node->devices};
}

/* Returns the number of devices, or -errno. */
static int model_read_devices(struct claim_model *model, const char *name,
	struct place_device_info devices[static CLAIMS_UNITS_MAX])
{
	struct claims_unit units[CLAIMS_UNITS_MAX];
	const int at = view_find_node(model->view, name);
	const struct claims_node node = {
		name, at < 0 ? NULL : &view_node(model->view, (uint32_t)at)->object.labels};
	const uint32_t n = at < 0 ? 0 : claims_units(model->claims, NULL, &node, units);

	for (uint32_t i = 0; i < n; i++) {
		uint64_t bit;
		int r = place_model(
			model->place, *units[i].model ? units[i].model : "GPU", &bit, NULL);

		if (r < 0)
			return r;
		devices[i] = (struct place_device_info){.model = (uint32_t)__builtin_ctzll(bit),
			.memory_bytes = units[i].bytes,
			.link = (uint8_t)(units[i].group + 1)};
		if (str_copy(devices[i].uuid, sizeof(devices[i].uuid), str_from(units[i].name)) < 0)
			return -EINVAL;
	}
	return (int)n;
}

static void model_leave(struct claim_model *model, struct model_node *node)
{
	struct model_tenant *tenant;

	for (tenant = model->tenants; tenant; tenant = tenant->hh.next)
		if (!strcmp(tenant->node, node->name))
			model_remove_tenant(model, tenant);
	if (node->at == PLACE_NONE)
		return;
	model->by_at[node->at] = NULL;
	model->n_units -= node->n_devices;
	place_node_remove(model->place, node->at, NULL);
	node->at = PLACE_NONE;
}

/* Adds the node with its new devices and its tenants. A node that is refused has no devices. */
static int model_enter(struct claim_model *model, struct model_node *node,
	const struct place_device_info *devices, uint32_t n)
{
	const int at = view_find_node(model->view, node->name);
	struct model_tenant *tenant;
	struct place_node_info info;
	int r;

	free(node->devices);
	node->n_devices = 0;
	node->devices = calloc(n + 1ul, sizeof(*node->devices));
	if (!node->devices)
		return -ENOMEM;
	node->n_devices = n;
	if (at < 0)
		return 0;
	memcpy(node->devices, devices, n * sizeof(*devices));
	model_read_capacities(
		model->view, node, (uint32_t)at, &node->cpu_milli, &node->memory_bytes);
	info = model_info(node);
	r = place_node_add(model->place, &info, &node->at, NULL);
	if (r < 0) {
		node->at = PLACE_NONE;
		return r == -ENOMEM ? r : 0;
	}
	r = array_grow(&model->by_at, &model->by_at_room, node->at + 1ul, sizeof(*model->by_at));
	if (r < 0)
		return r;
	model->by_at[node->at] = node;
	model->n_units += n;
	for (tenant = model->tenants; r == 0 && tenant; tenant = tenant->hh.next)
		if (tenant->tenant == PLACE_NONE && !strcmp(tenant->node, node->name))
			r = model_add_tenant(model, tenant);
	return r;
}

static bool model_is_same(
	const struct model_node *node, const struct place_device_info *devices, uint32_t n)
{
	if (!node->devices || node->n_devices != n)
		return false;
	for (uint32_t i = 0; i < n; i++)
		if (strcmp(node->devices[i].uuid, devices[i].uuid) != 0 ||
			node->devices[i].model != devices[i].model ||
			node->devices[i].memory_bytes != devices[i].memory_bytes ||
			node->devices[i].link != devices[i].link)
			return false;
	return true;
}

static int model_sync_units(struct claim_model *model, struct model_node *node)
{
	struct place_device_info devices[CLAIMS_UNITS_MAX];
	int n;

	n = model_read_devices(model, node->name, devices);
	if (n == -ENOMEM)
		return n;
	n = MAX(n, 0);
	if (model_is_same(node, devices, (uint32_t)n))
		return 0;
	model_leave(model, node);
	return model_enter(model, node, devices, (uint32_t)n);
}

static struct model_node *model_get(struct claim_model *model, const char *name)
{
	struct model_node *node = model_find(model, name);

	if (node)
		return node;
	node = calloc(1, sizeof(*node));
	if (!node)
		return NULL;
	node->at = PLACE_NONE;
	node->name = str_dup(str_from(name));
	if (node->name)
		HASH_ADD_KEYPTR(hh, model->nodes, node->name, strlen(node->name), node);
	if (node->hh.tbl)
		return node;
	model_node_free(node);
	return NULL;
}

/* Updates the units of the node if they are unknown or may have changed. */
static int model_sync_node(struct claim_model *model, uint32_t at, bool has_new_slices)
{
	struct model_node *node = model_get(model, view_node(model->view, at)->object.name);

	if (!node)
		return -ENOMEM;
	node->is_seen = true;
	node->view_at = at;
	return has_new_slices || !node->devices ? model_sync_units(model, node) : 0;
}

static int model_sync_capacities(struct claim_model *model, struct model_node *node)
{
	struct place_node_info info;
	uint64_t memory;
	uint32_t cpu;

	if (!node->is_seen || node->at == PLACE_NONE)
		return 0;
	model_read_capacities(model->view, node, node->view_at, &cpu, &memory);
	if (cpu == node->cpu_milli && memory == node->memory_bytes)
		return 0;
	node->cpu_milli = cpu;
	node->memory_bytes = memory;
	info = model_info(node);
	return place_node_update(model->place, node->at, &info, NULL) == -ENOMEM ? -ENOMEM : 0;
}

/*
 * Nodes come before claims, since a node that gets units looks for its tenants among all. The
 * capacities come last: they depend on the tenants.
 */
static int model_sync(struct claim_model *model)
{
	const uint64_t version = claims_slices_version(model->claims);
	const bool has_new_slices = version != model->slices_version;
	struct model_node *node, *next;
	struct claims_held_units held;
	int r = 0;

	if (!model->is_watching && claims_watch(model->claims) < 0)
		return -ENOMEM;
	model->is_watching = true;
	for (node = model->nodes; node; node = node->hh.next)
		node->is_seen = false;
	for (uint32_t i = 0; r == 0 && i < view_n_nodes(model->view); i++)
		r = model_sync_node(model, i, has_new_slices);
	while (r == 0 && claims_next_changed(model->claims, &held))
		r = model_keep_claim(model, &held);
	for (node = model->nodes; r == 0 && node; node = node->hh.next)
		r = model_sync_capacities(model, node);
	if (r < 0)
		return r;
	HASH_ITER(hh, model->nodes, node, next) {
		if (node->is_seen)
			continue;
		model_leave(model, node);
		HASH_DEL(model->nodes, node);
		model_node_free(node);
	}
	model->slices_version = version;
	return 0;
}

/* ---- the choice ---- */

struct model_quest {
	struct claim_model *model;
	const struct claim_model_params *params;
	bool is_one_group; /* only nodes where all devices are of one group */
};

static uint64_t model_mask(struct model_quest *quest, const struct model_node *node)
{
	struct claim_model *model = quest->model;
	const int at = view_find_node(model->view, node->name);
	struct claims_unit units[CLAIMS_UNITS_MAX];
	uint64_t mask = 0;
	struct claims_node seen;
	uint32_t n;

	if (at < 0)
		return 0;
	seen = (struct claims_node){
		node->name, &view_node(model->view, (uint32_t)at)->object.labels};
	n = claims_units(model->claims, quest->params->search, &seen, units);
	for (uint32_t i = 0; i < n && i < node->n_devices; i++)
		if (units[i].suits && !strcmp(units[i].name, node->devices[i].uuid))
			mask |= UINT64_C(1) << i;
	return mask;
}

/* Whether the devices that the claims would get there are of one group; may_use() has searched. */
static bool model_has_one_group(const struct model_quest *quest, const struct model_node *node)
{
	const struct claims_node seen = {.name = node->name};

	return !claims_search_score(quest->params->search, &seen).v[CLAIMS_GROUPS];
}

static uint64_t model_filter(void *arg, const struct place_spec *spec, uint32_t at,
	const uint32_t *evicted, uint32_t n_evicted)
{
	struct model_quest *quest = arg;
	const struct model_node *node = quest->model->by_at[at];

	(void)spec;
	(void)evicted;
	(void)n_evicted;
	if (!node || !quest->params->may_use(quest->params->arg, node->name))
		return 0;
	if (!quest->params->search)
		return UINT64_MAX;
	if (quest->is_one_group && !model_has_one_group(quest, node))
		return 0;
	return model_mask(quest, node);
}

/*
 * The models of which the request may have devices, judged by the first node of each model. A
 * request that needs another property of a device finds none there and is not understood.
 */
static uint64_t model_models(struct model_quest *quest)
{
	const struct model_node *node;
	uint64_t judged = 0, models = 0;

	for (node = quest->model->nodes; node; node = node->hh.next) {
		uint64_t mask = 0;
		bool is_new = false;

		for (uint32_t i = 0; i < node->n_devices; i++)
			is_new |= !(judged >> node->devices[i].model & 1);
		if (!is_new)
			continue;
		mask = model_mask(quest, node);
		for (uint32_t i = 0; i < node->n_devices; i++) {
			judged |= UINT64_C(1) << node->devices[i].model;
			if (mask >> i & 1)
				models |= UINT64_C(1) << node->devices[i].model;
		}
	}
	return models;
}

static int model_spec(struct model_quest *quest, struct place_spec *ret)
{
	struct place_spec spec = PLACE_SPEC_INIT;
	struct claims_simple simple;

	spec.cpu_milli = quest->params->cpu_milli;
	spec.memory_bytes = quest->params->memory_bytes;
	if (!quest->params->search) {
		spec.count = 0;
		*ret = spec;
		return quest->model->n_units ? 0 : -EOPNOTSUPP;
	}
	if (!claims_search_simple(quest->params->search, &simple) ||
		simple.count > SPEC_DEVICES_MAX)
		return -EOPNOTSUPP;
	spec.count = simple.count;
	spec.is_exclusive = !simple.share;
	spec.share = simple.share ? (uint32_t)simple.share : SPEC_SHARE_ONE;
	spec.device_bytes = simple.share ? simple.bytes : 0;
	spec.models = model_models(quest);
	if (!spec.models || place_spec_check(&spec, NULL) < 0)
		return -EOPNOTSUPP;
	*ret = spec;
	return 0;
}

/* The free devices of the node with the model of `like` and one group; PLACE_NONE: any group. */
static uint32_t model_count_unused(const struct claim_model *model, uint32_t like, uint32_t link)
{
	struct place_device_view first, device;
	struct place_node_view node;
	uint32_t n = 0;

	place_device_get(model->place, like, &first);
	if (!place_node_get(model->place, first.node, &node))
		return 0;
	for (uint32_t i = node.first_device; i < node.first_device + node.n_devices; i++) {
		place_device_get(model->place, i, &device);
		n += device.model == first.model && device.link == link && !device.n_tenants;
	}
	return n;
}

/*
 * A policy knows no groups. If it has chosen an unused device, returns the unused one of the same
 * model whose group has the fewest unused ones.
 */
static uint32_t model_spare_groups(
	struct model_quest *quest, const struct model_node *node, uint32_t chosen)
{
	const struct place *place = quest->model->place;
	const uint64_t mask = model_mask(quest, node);
	uint32_t best = chosen, least = UINT32_MAX;
	struct place_device_view first, device;
	struct place_node_view view;

	place_device_get(place, chosen, &first);
	if (first.n_tenants || !place_node_get(place, node->at, &view))
		return chosen;
	for (uint32_t i = 0; i < view.n_devices; i++) {
		uint32_t n;

		place_device_get(place, view.first_device + i, &device);
		if (device.n_tenants || device.model != first.model || !(mask >> i & 1))
			continue;
		n = model_count_unused(quest->model, chosen, device.link);
		if (n < least)
			best = view.first_device + i;
		least = MIN(least, n);
	}
	return best;
}

/* For several devices, prefers the nodes where they are of one group. */
static int model_ask(
	struct model_quest *quest, const struct place_spec *spec, struct place_choice *ret)
{
	struct place *place = quest->model->place;
	int r = -ENOSPC;

	place_set_filter(place, model_filter, quest);
	quest->is_one_group = spec->count > 1;
	if (quest->is_one_group)
		r = place_find(place, spec, ret, NULL);
	quest->is_one_group = false;
	if (r == -ENOSPC)
		r = place_find(place, spec, ret, NULL);
	place_set_filter(place, NULL, NULL);
	return r;
}

int claim_model_find(struct claim_model *model, const struct claim_model_params *params,
	struct claim_model_choice *ret)
{
	struct model_quest quest = {model, params, false};
	struct claim_model_choice made = {.unit = ""};
	struct place_device_view device;
	struct place_choice choice;
	struct place_spec spec;
	int r;

	/* Pods of clusters without such devices pay nothing. */
	model->claims = params->claims;
	model->view = params->view;
	if (!claims_has_units(model->claims))
		return -EOPNOTSUPP;
	r = model_sync(model);
	r = r < 0 ? r : model_spec(&quest, &spec);
	if (r < 0)
		return r;
	if (params->is_new)
		place_note_arrival(model->place, &spec);
	r = model_ask(&quest, &spec, &choice);
	if (r < 0)
		return r;
	made.node = model->by_at[choice.node]->name;
	/* Free devices of one model differ only in their groups, which src/claims compares. */
	if (choice.n == 1 && !spec.is_exclusive) {
		place_device_get(model->place,
			model_spare_groups(&quest, model->by_at[choice.node], choice.device[0]),
			&device);
		str_copy(made.unit, sizeof(made.unit), str_from(device.uuid));
	}
	*ret = made;
	return 0;
}
