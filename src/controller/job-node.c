/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles nodes. Each node with divvy's label gets a GPUNode. The controller writes the capacity
 * for quotas and autoscalers, and the labels that describe the devices, and removes the startup
 * taints. The controller also labels the system's namespaces, so that the webhook ignores them. A
 * run of a node's job starts at most one write, and the answer ends the run.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "controller/controller.h"
#include "controller/node-labels.h"
#include "manifest/cordon.h"
#include "spec/dialect.h"
#include "spec/quantity.h"

#define OWNER "divvy.gpu/owner"
#define MILLI "divvy.gpu/milli"
#define MEMORY "divvy.gpu/memory-mib"
#define HELD "divvy.gpu/held"
#define MIB (UINT64_C(1) << 20)

static const char *const left_alone[] = {"kube-system", "kube-public", "kube-node-lease"};

static void job_node_on_written(void *data, const struct kube_answer *answer)
{
	struct job *job = data;

	job_end(job, answer->result == -EEXIST ? 0 : answer->result, answer->error.msg);
}

/* ---- namespaces ---- */

static bool job_node_is_left_alone(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(left_alone); i++)
		if (!strcmp(left_alone[i], name))
			return true;
	return false;
}

static bool has_label(const json_t *ns)
{
	const char *value = kube_json_text_at(
		ns, "metadata", "labels", DIALECT_ADMISSION_LABEL, NULL);

	return value && !strcmp(value, "ignore");
}

bool controller_has_labelled(const struct controller *c)
{
	for (size_t i = 0; i < ARRAY_SIZE(left_alone); i++) {
		const json_t *ns = controller_find(c, CACHE_NAMESPACES, "", left_alone[i]);

		if (ns && !has_label(ns))
			return false;
	}
	return true;
}

void job_namespace(struct job *job)
{
	const json_t *ns = controller_find(job->c, CACHE_NAMESPACES, "", job->name);
	const struct kube_write write = job_write(job,
		&(struct kube_target){
			.group_version = "v1", .resource = "namespaces", .name = job->name},
		job_node_on_written);
	struct error err = {0};
	int r;

	if (!ns || !job_node_is_left_alone(job->name) || has_label(ns)) {
		job_end(job, 0, "");
		return;
	}
	r = job_patch(job, &write, KUBE_PATCH_MERGE,
		json_pack("{s:{s:{s:s}}}", "metadata", "labels", DIALECT_ADMISSION_LABEL, "ignore"),
		&err);
	if (r < 0)
		job_end(job, r, err.msg);
}

/* ---- capacity ---- */

struct capacity {
	uint64_t milli, bytes;
	bool is_pool;
	uint64_t held; /* for nodes of the pool: number of devices that a placeholder has taken */
};

/* Whether the node hands out its devices by dynamic resource allocation. */
static bool is_dra(const json_t *gpu_node)
{
	return !strcmp(kube_json_text(json_object_get(gpu_node, "status"), "owner"), "dra");
}

/*
 * Returns the capacity for tenants, at least the sum of all grants. On a node of the pool the
 * devices that another device plugin owns count too, because divvy can take them. Without them no
 * waiting pod could cause divvy to take a device. Nor may the capacity grow only when divvy takes a
 * device: a kubelet that has not yet seen the growth refuses the pod for good. The resource HELD
 * counts the devices that divvy has taken. No pod requests HELD, but its change makes
 * kube-scheduler consider waiting pods again.
 */
static struct capacity capacity_of(const json_t *gpu_node)
{
	const json_t *status = json_object_get(gpu_node, "status"),
		     *devices = json_object_get(status, "devices"),
		     *tenants = json_object_get(status, "tenants");
	const bool is_pool = !strcmp(kube_json_text(status, "owner"), "pool");
	struct capacity room = {0}, granted = {0};

	/* ResourceSlices have the node's capacity, and claims consume it. */
	if (is_dra(gpu_node))
		return room;
	for (size_t i = 0; i < json_array_size(devices); i++) {
		const json_t *d = json_array_get(devices, i);
		const char *uuid = json_string_value(json_object_get(d, "uuid"));
		const json_int_t bytes = json_integer_value(json_object_get(d, "memoryBytes"));

		if (!uuid || bytes < 0 || strcmp(kube_json_text(d, "health"), "Healthy") ||
			cordon_has(gpu_node, uuid) ||
			(!strcmp(kube_json_text(d, "owner"), "native") && !is_pool) ||
			!strcmp(kube_json_text(d, "owner"), "user"))
			continue;
		room.milli += SPEC_SHARE_ONE;
		room.bytes += (uint64_t)bytes;
		room.held += !strcmp(kube_json_text(d, "owner"), "pool");
	}
	for (size_t i = 0; i < json_array_size(tenants); i++) {
		const json_t *t = json_array_get(tenants, i),
			     *bytes = json_object_get(t, "memoryBytes");
		const json_int_t request = json_integer_value(json_object_get(t, "request"));

		granted.milli += (uint64_t)MAX(request, (json_int_t)0) *
			json_array_size(json_object_get(t, "devices"));
		for (size_t k = 0; k < json_array_size(bytes); k++)
			granted.bytes += (uint64_t)MAX(
				json_integer_value(json_array_get(bytes, k)), (json_int_t)0);
	}
	return (struct capacity){.milli = MAX(room.milli, granted.milli),
		.bytes = MAX(room.bytes, granted.bytes),
		.is_pool = is_pool,
		.held = room.held};
}

static bool is_value(const json_t *list, const char *name, uint64_t value)
{
	const char *text = json_string_value(json_object_get(list, name));
	uint64_t now;

	return text && quantity_parse(str_from(text), 1, &now, NULL) == 0 && now == value;
}

static bool is_written(const json_t *node, const char *list, const struct capacity *want)
{
	const json_t *now = kube_json_at(node, "status", list, NULL);

	return is_value(now, MILLI, want->milli) && is_value(now, MEMORY, want->bytes / MIB) &&
		(want->is_pool ? is_value(now, HELD, want->held) : !json_object_get(now, HELD));
}

/*
 * A node without devices gets no capacity at all: its pods use devices of other nodes, and the
 * kubelet would refuse them for a capacity of 0.
 */
static bool has_devices(const json_t *gpu_node)
{
	return !is_dra(gpu_node) &&
		json_array_size(kube_json_at(gpu_node, "status", "devices", NULL)) > 0;
}

static bool is_unknown(const json_t *node, const char *list)
{
	const json_t *now = kube_json_at(node, "status", list, NULL);

	return !json_object_get(now, MILLI) && !json_object_get(now, MEMORY) &&
		!json_object_get(now, HELD);
}

/* Returns the amount as text; is_there false: JSON null, which removes the resource. */
static json_t *job_node_amount_json(bool is_there, uint64_t n)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)n);
	return is_there ? json_string(text) : json_null();
}

/* A write to the status of the job's node. */
static struct kube_write status_write(struct job *job)
{
	return job_write(job,
		&(struct kube_target){.group_version = "v1",
			.resource = "nodes",
			.name = job->name,
			.subresource = "status"},
		job_node_on_written);
}

/*
 * Writes the capacity if it differs; returns 1 if a write has started. gpu_node NULL: the node has
 * no devices.
 */
static int write_capacity(
	struct job *job, const json_t *node, const json_t *gpu_node, struct error *err)
{
	const struct capacity want = capacity_of(gpu_node);
	const bool has_any = want.milli || has_devices(gpu_node);
	const struct kube_write write = status_write(job);
	_cleanup_json_ json_t *list = NULL;

	if (has_any ? is_written(node, "capacity", &want) && is_written(node, "allocatable", &want)
		    : is_unknown(node, "capacity") && is_unknown(node, "allocatable"))
		return 0;
	list = json_pack("{s:o, s:o, s:o}", MILLI, job_node_amount_json(has_any, want.milli),
		MEMORY, job_node_amount_json(has_any, want.bytes / MIB), HELD,
		job_node_amount_json(has_any && want.is_pool, want.held));
	return job_patch(job, &write, KUBE_PATCH_STRATEGIC,
		json_pack("{s:{s:O, s:O}}", "status", "capacity", list, "allocatable", list), err);
}

/* ---- labels ---- */

/*
 * Returns 1 if a write has started. The controller may patch nodes/status alone. The API server
 * accepts labels and annotations there, as kubelets write theirs. gpu_node NULL: divvy has left the
 * node.
 */
static int write_labels(
	struct job *job, const json_t *node, const json_t *gpu_node, struct error *err)
{
	const struct kube_write write = status_write(job);
	json_t *change = node_labels_patch(node, gpu_node);

	return change ? job_patch(job, &write, KUBE_PATCH_MERGE, change, err) : 0;
}

/* ---- startup taint of nodes from an autoscaler ---- */

/*
 * Before a new node has divvy's resources, waiting pods do not seem to fit there, and an autoscaler
 * adds a further node. By these taints the autoscaler knows that the node is still starting.
 */
static const char *const startup_taints[] = {
	"startup-taint.cluster-autoscaler.kubernetes.io/divvy",
	/* name before cluster-autoscaler 1.28 */
	"ignore-taint.cluster-autoscaler.kubernetes.io/divvy",
};

static bool is_startup_taint(const json_t *taint)
{
	for (size_t i = 0; i < ARRAY_SIZE(startup_taints); i++)
		if (!strcmp(kube_json_text(taint, "key"), startup_taints[i]))
			return true;
	return false;
}

bool controller_has_started(const json_t *node, const json_t *gpu_node)
{
	const json_t *ready = kube_json_condition(gpu_node, "Ready"),
		     *now = kube_json_at(node, "status", "allocatable", NULL);
	const char *slots = json_string_value(json_object_get(now, "divvy.gpu/slot"));
	uint64_t n;

	/* A node without devices has no capacity of shares: its pods use devices of other nodes. */
	if (has_devices(gpu_node) && !json_object_get(now, MILLI))
		return false;
	return !strcmp(kube_json_text(ready, "status"), "True") && slots &&
		quantity_parse(str_from(slots), 1, &n, NULL) == 0 && n;
}

/*
 * Removes the startup taints. The patch replaces the whole list of taints and carries the
 * resourceVersion, so the API server refuses the patch after a concurrent change.
 */
static int end_startup(
	struct job *job, const json_t *node, const json_t *gpu_node, struct error *err)
{
	const json_t *taints = kube_json_at(node, "spec", "taints", NULL);
	const struct kube_write write = job_write(job,
		&(struct kube_target){
			.group_version = "v1", .resource = "nodes", .name = job->name},
		job_node_on_written);
	json_t *rest, *taint;
	size_t i;

	if (!json_array_size(taints) || !controller_has_started(node, gpu_node))
		return 0;
	rest = json_array();
	json_array_foreach((json_t *)taints, i, taint)
		if (!is_startup_taint(taint))
			json_array_append(rest, taint);
	if (json_array_size(rest) == json_array_size(taints)) {
		json_decref(rest);
		return 0;
	}
	return job_patch(job, &write, KUBE_PATCH_MERGE,
		json_pack("{s:{s:s}, s:{s:o}}", "metadata", "resourceVersion",
			kube_json_text_at(node, "metadata", "resourceVersion", NULL), "spec",
			"taints", rest),
		err);
}

static int make_gpu_node(struct job *job, const json_t *node, struct error *err)
{
	const struct kube_write write = job_write(job,
		&(struct kube_target){.group_version = "divvy.gpu/v1", .resource = "gpunodes"},
		job_node_on_written);
	const char *owner = kube_json_text_at(node, "metadata", "labels", OWNER, NULL);
	json_t *spec = owner && !strcmp(owner, "pool")
		? json_pack("{s:{s:s}}", "pool", "policy", "onDemand")
		: json_object();
	_cleanup_json_ json_t *object = json_pack(
		"{s:s, s:s, s:{s:s, s:[{s:s, s:s, s:s, s:s, s:b}]}, s:o}", "apiVersion",
		"divvy.gpu/v1", "kind", "GPUNode", "metadata", "name", job->name, "ownerReferences",
		"apiVersion", "v1", "kind", "Node", "name", job->name, "uid",
		kube_json_text_at(node, "metadata", "uid", NULL), "blockOwnerDeletion", 0, "spec",
		spec);
	int r = object ? kube_create(job->c->client, &write, object, err)
		       : fail(err, ENOMEM, "out of memory");

	return r < 0 ? r : 1;
}

/*
 * A pool needs both: the label divvy.gpu/owner=pool on the node, which permits placeholders, and
 * spec.pool in the GPUNode, which makes divvyd wait for them. Warns if only one of them is set.
 */
static void look_at_pool(struct controller *c, const char *owner, const json_t *gpu_node)
{
	const bool is_pool = owner && !strcmp(owner, "pool"),
		   has_pool = kube_json_at(gpu_node, "spec", "pool", NULL);
	char text[256];

	if (!gpu_node || is_pool == has_pool)
		return;
	snprintf(text, sizeof(text), "The node's label is " OWNER "=%.63s, and spec.pool is %s: %s",
		owner ? owner : "", has_pool ? "set" : "not",
		has_pool ? "no placeholder is created; set the label to pool or remove spec.pool"
			 : "divvy takes no device from another device plugin; set "
			   "spec.pool.policy or set the label to divvy");
	controller_event(c, gpu_node, "divvy.gpu/v1", "GPUNode", true, "PoolMismatch", text);
}

/* Warns about an unknown value of the label, because divvyd does not run on that node. */
static bool is_owner_known(struct controller *c, const json_t *node, const char *owner)
{
	char text[256];

	if (owner && (!strcmp(owner, "divvy") || !strcmp(owner, "pool") || !strcmp(owner, "dra")))
		return true;
	snprintf(text, sizeof(text),
		"The label " OWNER "=%.63s is unknown, so no divvyd runs here; set it to divvy, "
		"pool or dra",
		owner ? owner : "");
	controller_event(c, node, "v1", "Node", true, "OwnerUnknown", text);
	return false;
}

void job_node(struct job *job)
{
	struct controller *c = job->c;
	const json_t *node = controller_find(c, CACHE_NODES, "", job->name),
		     *gpu_node = controller_find(c, CACHE_GPU_NODES, "", job->name);
	const json_t *owner = json_object_get(
		kube_json_at(node, "metadata", "labels", NULL), OWNER);
	const bool is_ours = owner && is_owner_known(c, node, json_string_value(owner));
	struct error err = {0};
	int r = 0;

	if (is_ours)
		look_at_pool(c, json_string_value(owner), gpu_node);
	if (node && !is_ours) /* the node lacks divvy's label, or has lost it */
		r = write_capacity(job, node, NULL, &err);
	else if (node && controller_is_synced(c, CACHE_GPU_NODES))
		r = gpu_node ? write_capacity(job, node, gpu_node, &err)
			     : make_gpu_node(job, node, &err);
	if (r == 0 && node && (!is_ours || gpu_node))
		r = write_labels(job, node, is_ours ? gpu_node : NULL, &err);
	if (r == 0 && is_ours && gpu_node)
		r = end_startup(job, node, gpu_node, &err);
	if (r <= 0)
		job_end(job, r, err.msg);
}
