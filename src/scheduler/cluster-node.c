/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps each Node as a node of the placement model, with the devices of its GPUNode. If the devices
 * change, this file removes the node from the model with all tenants, and adds it again.
 */
#include "scheduler/cluster-internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "kube/time.h"

struct cnode *cnode_find(struct cluster *c, const char *name)
{
	struct cnode *node;

	HASH_FIND_STR(c->nodes, name, node);
	return node;
}

struct cpod *cnode_pod(const struct cnode *node, const char *uid)
{
	struct cpod *pod;

	DL_FOREACH(node->pods, pod)
		if (!strcmp(pod->uid, uid))
			return pod;
	DL_FOREACH2(node->served, pod, snext)
	if (!strcmp(pod->uid, uid))
		return pod;
	return NULL;
}

struct cnode *cnode_get(struct cluster *c, const char *name)
{
	struct cnode *node = cnode_find(c, name);

	if (node)
		return node;
	node = calloc(1, sizeof(*node));
	if (!node)
		return NULL;
	node->at = PLACE_NONE;
	node->is_stale = true;
	node->name = str_dup(str_from(name));
	if (node->name)
		HASH_ADD_KEYPTR(hh, c->nodes, node->name, strlen(node->name), node);
	if (node->hh.tbl)
		return node;
	free(node->name);
	free(node);
	return NULL;
}

/*
 * Returns the bits of the device models of the node; 0 if the node is not in the placement model.
 */
static uint64_t cnode_models(const struct cluster *c, const struct cnode *node)
{
	struct place_node_view view;
	uint64_t models = 0;

	if (node->at == PLACE_NONE || !place_node_get(c->place, node->at, &view))
		return 0;
	for (uint32_t d = view.first_device; d < view.first_device + view.n_devices; d++) {
		struct place_device_view device;

		if (place_device_get(c->place, d, &device))
			models |= 1ull << device.model;
	}
	return models;
}

/* Models that other nodes still have stay, because place_model_forget() then returns -EBUSY. */
static void forget_models(struct cluster *c, uint64_t models)
{
	for (; models; models &= models - 1)
		place_model_forget(c->place, models & -models, NULL);
}

void cnode_uncount(struct cluster *c, struct cnode *node)
{
	struct cpod *pod;

	DL_FOREACH(node->pods, pod)
		cpod_drop(c, pod);
	DL_FOREACH2(node->served, pod, snext)
	cpod_drop(c, pod);
	orphans_drop(c, node);
}

int cnode_count(struct cluster *c, struct cnode *node)
{
	struct cpod *pod;
	int r = 0;

	/*
	 * Terminating pods come first, as place_restore() requires, because places reserved for
	 * other pods may overlap theirs.
	 */
	for (int is_reported = 1; is_reported >= 0; is_reported--) {
		DL_FOREACH(node->pods, pod)
			r = r < 0 || pod->is_reported != is_reported ? r : cpod_restore(c, pod);
		DL_FOREACH2(node->served, pod, snext)
		r = r < 0 || pod->is_reported != is_reported ? r : cpod_restore(c, pod);
	}
	if (r < 0 || node->at == PLACE_NONE)
		return r;
	r = orphans_restore(c, node);
	return r < 0 ? r : cnode_refresh(c, node);
}

static void forget_place(struct cluster *c, struct cnode *node)
{
	cnode_uncount(c, node);
	if (node->at == PLACE_NONE)
		return;
	c->by_place[node->at] = NULL;
	place_node_remove(c->place, node->at, NULL);
	node->at = PLACE_NONE;
}

void cnode_free(struct cluster *c, struct cnode *node)
{
	const uint64_t models = cnode_models(c, node);

	forget_place(c, node);
	forget_models(c, models);
	HASH_DEL(c->nodes, node);
	c->n_serving -= node->gpus.is_serving;
	gpunode_done(&node->gpus);
	cnode_note_taints(c, node);
	free(node->orphans);
	free(node->name);
	free(node);
}

void cnode_release(struct cluster *c, struct cnode *node)
{
	if (!node->is_there && !node->has_gpus && !node->has_lease && !node->pods && !node->served)
		cnode_free(c, node);
}

/*
 * Computes the CPU and memory that the node has for pods with tenants in the placement model: what
 * is allocatable, less the usage of all other pods.
 */
static void cnode_read_capacities(
	struct cluster *c, struct cnode *node, uint32_t *ret_cpu, uint64_t *ret_memory)
{
	const int at = view_find_node(c->view, node->name);
	const struct resources *allocatable, *used;
	int64_t cpu = 0, memory = 0;
	const struct cpod *pod;

	*ret_cpu = 0;
	*ret_memory = 0;
	if (at < 0)
		return;
	allocatable = &view_node(c->view, (uint32_t)at)->allocatable;
	used = view_node_used(c->view, (uint32_t)at);
	cpu = allocatable->cpu_milli - used->cpu_milli;
	memory = allocatable->memory_bytes - used->memory_bytes;
	DL_FOREACH(node->pods, pod) {
		if (pod->n_tenants) {
			cpu += pod->cpu_milli;
			memory += (int64_t)MIN(pod->memory_bytes, (uint64_t)INT64_MAX / 2);
		}
	}
	*ret_cpu = (uint32_t)MIN(MAX(cpu, INT64_C(0)), (int64_t)INT32_MAX);
	*ret_memory = (uint64_t)MIN(MAX(memory, INT64_C(0)), INT64_MAX / 4);
}

struct node_info {
	struct place_node_info info;
	struct place_device_info device[PLACE_NODE_DEVICES_MAX];
};

static uint64_t stale_at_ns(const struct cnode *node)
{
	return node->lease_seen_ns + node->lease_duration_ns;
}

bool cnode_is_stale(const struct cluster *c, const struct cnode *node)
{
	return !node->has_lease || c->now_ns > stale_at_ns(node);
}

void cnode_note_lease(struct cluster *c, const struct cnode *node)
{
	if (!cnode_is_stale(c, node))
		c->stale_at_ns = MIN(c->stale_at_ns, stale_at_ns(node));
}

/* Returns the node's rack; "" if unknown. */
static const char *rack_of(const struct cluster *c, const struct cnode *node)
{
	const struct object *seen = view_find(c->view, OBJECT_NODE, "", node->name);
	const char *label = c->config.rack_label ? c->config.rack_label : CLUSTER_RACK_LABEL;
	const char *rack = seen ? labels_get(&seen->labels, label) : NULL;

	return rack ? rack : "";
}

static int cnode_describe_node(
	struct cluster *c, struct cnode *node, struct node_info *ret, struct error *err)
{
	node->is_stale = cnode_is_stale(c, node);
	cnode_read_capacities(c, node, &node->cpu_all, &node->memory_all);
	ret->info = (struct place_node_info){.name = node->name,
		.rack = rack_of(c, node),
		.cpu_milli = node->cpu_all,
		.memory_bytes = node->memory_all,
		.devices = ret->device};
	for (uint32_t i = 0; node->has_gpus && i < node->gpus.n_devices; i++) {
		const struct gpunode_device *from = &node->gpus.device[i];
		struct place_device_info *to = &ret->device[ret->info.n_devices++];
		uint64_t bit;
		int r = place_model(c->place, from->model, &bit, err);

		if (r < 0)
			return r;
		*to = (struct place_device_info){.model = (uint32_t)__builtin_ctzll(bit),
			.memory_bytes = from->memory_bytes,
			.numa = from->numa,
			.link = from->link,
			.is_closed = from->closed || node->is_stale || !node->gpus.slots_total};
		memcpy(to->uuid, from->uuid, sizeof(to->uuid));
	}
	return 0;
}

/* Adds the node in its present state to the placement model, with the tenants of its pods. */
static int enter_place(struct cluster *c, struct cnode *node, struct error *err)
{
	struct node_info new;
	int r = cnode_describe_node(c, node, &new, err);

	r = r < 0 ? r : place_node_add(c->place, &new.info, &node->at, err);
	if (r < 0)
		return r;
	r = array_grow(&c->by_place, &c->by_place_room, node->at + 1ul, sizeof(*c->by_place));
	if (r < 0)
		return fail(err, -r, "out of memory");
	c->by_place[node->at] = node;
	r = node->has_gpus ? cnode_add_networks(c, node) : 0;
	r = r < 0 ? r : cnode_count(c, node);
	return r < 0 ? fail(err, -r, "node %s: its tenants cannot be counted: %s", node->name,
			       strerror(-r))
		     : 0;
}

int cnode_rebuild(struct cluster *c, struct cnode *node, struct error *err)
{
	const uint64_t models = cnode_models(c, node);
	int r;

	forget_place(c, node);
	c->has_news = true;
	/*
	 * Without the Node object the node is not in the model, but its pods can have devices on
	 * other nodes, where they still count.
	 */
	r = node->is_there ? enter_place(c, node, err) : cnode_count(c, node);
	forget_models(c, models);
	return r;
}

int cnode_refresh(struct cluster *c, struct cnode *node)
{
	struct place_node_view view;
	struct node_info new;
	uint32_t cpu;
	uint64_t memory;
	int r;

	if (node->at == PLACE_NONE || !place_node_get(c->place, node->at, &view))
		return 0;
	cnode_read_capacities(c, node, &cpu, &memory);
	if (cpu == node->cpu_all && memory == node->memory_all &&
		!strcmp(view.rack, rack_of(c, node)))
		return 0;
	r = cnode_describe_node(c, node, &new, NULL);
	return r < 0 ? r : place_node_update(c->place, node->at, &new.info, NULL);
}

/* ---- GPUNode ---- */

/* Returns the number of devices that accept tenants now and did not before. */
static uint32_t count_opened(const struct gpunode *was, const struct gpunode *now)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < now->n_devices; i++) {
		const struct gpunode_device *before = gpunode_find(was, now->device[i].uuid);

		n += !now->device[i].closed && (!before || before->closed);
	}
	return n;
}

int cluster_set_gpus(struct cluster *c, json_t *json, struct error *err)
{
	const char *name = json_string_value(
		json_object_get(json_object_get(json, "metadata"), "name"));
	struct cnode *node = cnode_get(c, name);
	struct gpunode gpus;
	int left_out, r;

	if (!node)
		return fail(err, ENOMEM, "out of memory");
	left_out = gpunode_read(json, &gpus, err);
	if (left_out == -ENOMEM) {
		gpunode_done(&gpus);
		return left_out;
	}
	c->is_unsettled |= gpus.overcommit_memory != node->gpus.overcommit_memory;
	c->n_serving = c->n_serving - node->gpus.is_serving + gpus.is_serving;
	c->n_opened += count_opened(&node->gpus, &gpus);
	gpunode_done(&node->gpus);
	node->gpus = gpus;
	node->has_gpus = true;
	cnode_note_taints(c, node);
	c->epoch = MAX(c->epoch, gpus.epoch);
	r = cnode_rebuild(c, node, left_out < 0 ? NULL : err);
	return left_out < 0 ? left_out : r;
}

void cnode_remove_gpus(struct cluster *c, struct cnode *node)
{
	node->has_gpus = false;
	c->n_serving -= node->gpus.is_serving;
	gpunode_done(&node->gpus);
	cnode_note_taints(c, node);
}

/* ---- Lease ---- */

int cluster_set_lease(struct cluster *c, json_t *json)
{
	const json_t *metadata = json_object_get(json, "metadata");
	const json_t *spec = json_object_get(json, "spec");
	struct cnode *node = cnode_get(c, json_string_value(json_object_get(metadata, "name")));
	const char *renewed = json_string_value(json_object_get(spec, "renewTime"));
	const json_int_t seconds = json_integer_value(
		json_object_get(spec, "leaseDurationSeconds"));
	const bool was_stale = node && node->is_stale;
	uint64_t age_ns = 0, real_ns;

	if (!node)
		return -ENOMEM;
	renewed = renewed ? renewed : "";
	/*
	 * When the Lease is seen for the first time, its age is known only by the time that divvyd
	 * wrote.
	 */
	if (!node->has_lease && kube_time_parse(str_from(renewed), &real_ns) == 0 &&
		c->real_ns > real_ns)
		age_ns = c->real_ns - real_ns;
	if (!node->has_lease || strcmp(renewed, node->renewed))
		node->lease_seen_ns = c->now_ns > age_ns ? c->now_ns - age_ns : 0;
	if (age_ns > c->now_ns)
		node->lease_duration_ns = 0;
	else
		node->lease_duration_ns = seconds > 0 && seconds < 86400
			? (uint64_t)seconds * 1000000000
			: LEASE_DURATION_DEFAULT_NS;
	node->has_lease = *renewed != '\0';
	str_copy(node->renewed, sizeof(node->renewed), str_from(renewed));
	cnode_note_lease(c, node);
	return node->at != PLACE_NONE && cnode_is_stale(c, node) != was_stale
		? cnode_rebuild(c, node, NULL)
		: 0;
}
