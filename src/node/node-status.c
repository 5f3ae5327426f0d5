/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPUNode.status: the present state of this node, written only when it has changed. One patch is in
 * progress at a time; the next one has later changes. While many containers start, the API server
 * is busy: the longer a patch took, the longer the pause before the next.
 */
#include <errno.h>

#include "agent/audit.h"
#include "agent/device.h"
#include "base/log.h"
#include "kube/time.h"
#include "node/node-internal.h"
#include "node/node-serve.h"
#include "wire/msg.h"

#define STATUS_DELAY_NS (20 * NSEC_PER_MSEC)
#define STATUS_AGAIN_NS (1 * NSEC_PER_SEC)
/* The pause after a patch is this many times the patch's duration, up to STATUS_AGAIN_NS. */
#define STATUS_REST 4u
/* As in the schema, which refuses a longer list. Claims can make more tenants. */
#define STATUS_TENANTS_MAX 2048u

/* Lists the devices whose link to device `of` is as close as one NUMA node, or closer. */
static json_t *links_json(const struct device_set *set, uint32_t of)
{
	static const char *const kind[NVML_LINK_NONE] = {[NVML_LINK_NVLINK] = "nvlink",
		[NVML_LINK_SWITCH] = "switch",
		[NVML_LINK_NUMA] = "numa"};
	json_t *all = json_array();

	for (uint32_t i = 0; i < set->n; i++) {
		const enum nvml_link link = device_link(set, of, i);

		if (link != NVML_LINK_NONE)
			json_array_append_new(all,
				json_pack("{s:s, s:s}", "uuid", set->devices[i].info.uuid, "kind",
					kind[link]));
	}
	return all;
}

static const char *node_status_device_health(const struct device *d)
{
	return d->is_lost ? "Lost" : device_is_faulty(d) ? "Unhealthy" : "Healthy";
}

/*
 * Returns the device's placeholder. Until the kubelet has answered, this is the placeholder that
 * the status had before this start. Without that placeholder the status would name the other plugin
 * as the device's owner, and the controller would act on that.
 */
static const char *placeholder_of(const struct node *node, const struct device *d)
{
	const char *name = node_pool_placeholder(node, d);
	const json_t *told = json_object_get(node->status_seen, "devices");

	if (name || !node->pool.is_on || node->pool.device[d->index].is_known)
		return name;
	return kube_json_text_at(kube_json_find(told, "uuid", d->info.uuid), "placeholder", NULL);
}

/* The taints of a device; NULL: none. */
static json_t *node_status_taints_json(const struct device *d)
{
	json_t *all = NULL;

	for (enum device_fault fault = 0; fault < DEVICE_FAULTS; fault++) {
		struct device_taint taint;
		json_t *one;

		if (!device_taint(d, fault, &taint))
			continue;
		one = json_pack("{s:s, s:s, s:s}", "key", taint.key, "effect",
			taint.is_no_execute ? "NoExecute" : "NoSchedule", "timeAdded",
			kube_time_format(taint.since_ns).s);
		if (taint.value[0])
			json_object_set_new(one, "value", json_string(taint.value));
		all = all ? all : json_array();
		json_array_append_new(all, one);
	}
	return all;
}

static json_t *node_status_devices_json(const struct node *node)
{
	const struct device_set *set = node->agent->devices;
	json_t *all = json_array();

	for (uint32_t i = 0; i < set->n; i++) {
		const struct device *d = &set->devices[i];
		json_t *one = json_pack("{s:s, s:i, s:s, s:I, s:b, s:s, s:s}", "uuid", d->info.uuid,
			"index", (int)d->index, "model", d->info.model, "memoryBytes",
			(json_int_t)d->info.usable_bytes, "simulated", (int)set->is_simulated,
			"health", node_status_device_health(d), "owner",
			node->conflict[0] || !node_pool_is_open(node, d) ? "native"
				: node->dra                              ? "dra"
				: node->pool.is_on                       ? "pool"
									 : "divvy");
		const char *placeholder = placeholder_of(node, d);
		json_t *links = links_json(set, i), *taints = node_status_taints_json(d);

		if (placeholder)
			json_object_set_new(one, "placeholder", json_string(placeholder));
		if (d->info.numa >= 0)
			json_object_set_new(one, "numa", json_integer(d->info.numa));
		if (json_array_size(links))
			json_object_set(one, "links", links);
		json_decref(links);
		if (device_note(d)[0])
			json_object_set_new(one, "reason", json_string(device_note(d)));
		if (taints)
			json_object_set_new(one, "taints", taints);
		if (d->info.is_mig && d->info.parent[0])
			json_object_set_new(one, "parent", json_string(d->info.parent));
		json_array_append_new(all, one);
	}
	return all;
}

static json_t *node_status_tenant_json(
	const struct node *node, const struct slot *slot, const struct tenant *t)
{
	json_t *devices = json_array(), *memory = json_array(), *one;

	for (uint32_t i = 0; i < t->n; i++) {
		json_array_append_new(devices, json_string(t->devices[i].device->info.uuid));
		json_array_append_new(memory, json_integer((json_int_t)t->devices[i].quota_bytes));
	}
	one = json_pack("{s:s, s:s, s:s, s:s, s:s, s:o, s:i, s:i, s:o, s:s, s:s, s:i, s:s, s:I}",
		"podUID", t->pod->uid, "namespace", t->pod->space, "pod", t->pod->name, "container",
		t->pod->container, "slot", slot->id, "devices", devices, "request",
		(int)t->spec.request, "limit", (int)t->spec.limit, "memoryBytes", memory,
		"memoryPolicy", spec_memory_policy_name(t->spec.memory_policy), "class",
		spec_class_name(t->spec.class), "priority", (int)t->spec.priority, "mode",
		node_slot_is_served(node, slot) ? "remote"
			: t->spec.exclusive     ? "exclusive"
						: "local",
		"epoch", (json_int_t)t->pod->epoch);
	if (slot->note[0])
		json_object_set_new(one, "note", json_string(slot->note));
	kube_json_set_text(one, "claim", t->pod->claim);
	node_usage_describe(slot, one);
	return one;
}

static json_t *node_status_tenants_json(struct node *node, uint32_t *ret_used)
{
	json_t *all = json_array();

	*ret_used = 0;
	for (uint32_t i = 0; i < node->n_slots; i++) {
		const struct tenant *t = node_tenant(node, &node->slots[i]);

		/*
		 * Counts the slots that the kubelet has given to containers, also those of pods
		 * whose devices, and thereby tenants, are on another node.
		 */
		*ret_used += i < node->n_offered && !node->slots[i].is_claimed &&
			(t || node->slots[i].remote);
		if (t && json_array_size(all) < STATUS_TENANTS_MAX)
			json_array_append_new(
				all, node_status_tenant_json(node, &node->slots[i], t));
	}
	return all;
}

/* ---- conditions ---- */

struct condition {
	const char *type;
	bool is_true;
	const char *reason, *message;
};

/* Adds a condition. Its transition time stays while its status is the same. */
static void node_status_add_condition(
	const struct node *node, json_t *all, const struct condition *c)
{
	const json_t *before = kube_json_find(
		json_object_get(node->status_seen, "conditions"), "type", c->type);
	const char *was = kube_json_text_at(before, "status", NULL),
		   *since = kube_json_text_at(before, "lastTransitionTime", NULL),
		   *is = c->is_true ? "True" : "False";
	struct kube_time now = kube_time_format(clock_real_ns());

	json_array_append_new(all,
		json_pack("{s:s, s:s, s:s, s:s*, s:s}", "type", c->type, "status", is, "reason",
			c->reason, "message", c->message[0] ? c->message : NULL,
			"lastTransitionTime", was && since && !strcmp(was, is) ? since : now.s));
}

/* Also true without devices, because pods there may use devices of other nodes. */
static bool has_healthy_device(const struct device_set *set)
{
	bool has = !set->n;

	for (uint32_t i = 0; i < set->n; i++)
		has |= !device_is_faulty(&set->devices[i]);
	return has;
}

static struct condition ready_condition(const struct node *node)
{
	if (node->is_pid_hidden)
		return (struct condition){"Ready", false, "Starting",
			"divvyd lacks the host's PID namespace; set hostPID in its DaemonSet"};
	if (node->conflict[0])
		return (struct condition){"Ready", false, "OwnerConflict",
			node->is_conflict_dra
				? "another DRA driver hands out the node's GPUs"
				: "another device plugin has registered the node's GPUs"};
	if (node->dra ? node_dra_reason(node) != NULL : !plugin_is_known(node->plugin))
		return (struct condition){"Ready", false, "KubeletUnreachable",
			node->dra ? node_dra_reason(node) : node->plugin_reason};
	if (!kube_cache_is_synced(node->pods))
		return (struct condition){
			"Ready", false, "Starting", "divvyd has not read the node's pods yet"};
	if (node->driver_note[0])
		return (struct condition){"Ready", false, "DriverUnreachable", node->driver_note};
	if (!node->agent->devices->n && node->missing_note[0])
		return (struct condition){"Ready", false, "DevicesMissing", node->missing_note};
	if (!has_healthy_device(node->agent->devices))
		return (struct condition){"Ready", false, "DevicesUnhealthy",
			"none of the node's devices is healthy"};
	return (struct condition){"Ready", true, "Serving",
		node->agent->devices->n
			? ""
			: "the node has no device; its pods get devices of other nodes over the "
			  "network"};
}

static struct condition audited_condition(const struct node *node, char *message, size_t size)
{
	const uint32_t n = audit_n_unmanaged(node->agent), m = audit_excesses(node->agent);

	message[0] = '\0';
	if (n)
		snprintf(message, size, "%u unmanaged process%s on the devices", n,
			n == 1 ? "" : "es");
	else if (m)
		snprintf(message, size, "%u tenant%s more device memory than divvy counted", m,
			m == 1 ? " uses" : "s use");
	return (struct condition){"Audited", !n && !m,
		n           ? "UnmanagedProcesses"
			: m ? "Excess"
			    : "Clean",
		message};
}

static struct condition host_access_condition(const struct node *node, char *message, size_t size)
{
	const struct device_set *set = node->agent->devices;
	const char *how = NULL;
	uint32_t n = 0;

	for (uint32_t i = 0; i < set->n; i++) {
		const char *its = device_host_access(&set->devices[i]);

		n += its != NULL;
		how = its ? its : how;
	}
	message[0] = '\0';
	if (how)
		snprintf(message, size,
			"kernels reach their process's host memory on %u of %u devices: pods of "
			"other nodes %s",
			n, set->n,
			node->options.is_host_access_allowed
				? "get these devices because of --remote-host-access"
				: "do not get these devices without --remote-host-access");
	return (struct condition){"HostMemoryReachable", how != NULL, how ? how : "None", message};
}

static json_t *conditions_json(const struct node *node)
{
	char reach[192];
	const struct condition host_access = host_access_condition(node, reach, sizeof(reach));
	const struct condition ready = ready_condition(node);
	char message[256] = "", findings[128];
	const struct condition audited = audited_condition(node, findings, sizeof(findings));
	json_t *all = json_array();

	if (node->conflict[0] && node->is_conflict_dra)
		snprintf(message, sizeof(message),
			"the DRA driver %s hands out this node's GPUs; to let divvy hand them out, "
			"remove the driver from the node",
			node->conflict);
	else if (node->conflict[0])
		snprintf(message, sizeof(message),
			"another device plugin serves %s; to share its GPUs, set the node label "
			"divvy.gpu/owner=pool and spec.pool of the GPUNode",
			node->conflict);
	node_status_add_condition(node, all, &ready);
	node_status_add_condition(node, all,
		&(struct condition){"OwnerConflict", node->conflict[0],
			node->is_conflict_dra       ? "OtherDriver"
				: node->conflict[0] ? "OtherPlugin"
						    : "None",
			message});
	node_status_add_condition(node, all,
		node->is_pid_hidden ? &(struct condition){"HostNamespaces", false, "HostPIDMissing",
					      "nothing is granted"}
			: node->agent->is_cgroup_hidden
			? &(struct condition){"HostNamespaces", false, "CgroupNamespacePrivate",
				  "divvyd has a private cgroup namespace and cannot check "
				  "processes against pods' cgroups"}
			: &(struct condition){"HostNamespaces", true, "Shared", ""});
	node_status_add_condition(node, all, &audited);
	node_status_add_condition(node, all, &host_access);
	node_status_add_condition(node, all,
		&(struct condition){"DevicesMissing", node->missing_note[0],
			node->missing_note[0] ? "DevicesMissing" : "None", node->missing_note});
	node_status_add_condition(node, all,
		node->is_insecure ? &(struct condition){"RuntimeInsecure", true,
					    "VisibleDevicesHonoured", NODE_INSECURE}
				  : &(struct condition){"RuntimeInsecure", false, "None", ""});
	return all;
}

static json_t *serve_json(const struct node *node)
{
	const char *address = serve_address(node);

	return address ? json_pack("{s:s}", "address", address) : json_null();
}

static json_t *status_json(struct node *node)
{
	const struct device_set *set = node->agent->devices;
	const json_t *generation = kube_json_at(node_gpunode(node), "metadata", "generation", NULL);
	const char *driver = set->nvml ? nvml_driver_version(set->nvml) : NULL;
	uint32_t used = 0;
	json_t *tenants = node_status_tenants_json(node, &used), *status;

	status = json_pack("{s:I, s:I, s:s, s:i, s:o, s:{s:i, s:i}, s:o, s:{s:s, s:i}, s:o}",
		"observedGeneration", json_integer_value(generation), "epoch",
		(json_int_t)node->epoch, "owner",
		node->conflict[0]          ? "none"
			: node->dra        ? "dra"
			: node->pool.is_on ? "pool"
					   : "divvy",
		"deviceCount", (int)set->n, "devices", node_status_devices_json(node), "slots",
		"total", (int)node_slots_total(node), "used", (int)used, "tenants", tenants,
		"versions", "divvyd", DIVVY_VERSION, "wire", (int)msg_newest(), "conditions",
		conditions_json(node));
	if (status)
		json_object_set_new(status, "network", node_network_json(node));
	/* In the patch, null removes the member. */
	if (status)
		json_object_set_new(status, "remote", serve_json(node));
	if (status)
		json_object_set_new(status, "missingDevices", faults_missing_json(node));
	if (status && node->accounts_reported)
		json_object_set(status, "accounts", node->accounts_reported);
	if (status && driver)
		json_object_set_new(
			json_object_get(status, "versions"), "driver", json_string(driver));
	return status;
}

/* ---- writing ---- */

/* Whether `theirs` agrees with `ours`, except for fields that this daemon does not write. */
static bool is_as(const json_t *theirs, const json_t *ours)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)ours, key, value)
		if (!json_equal(value, json_object_get(theirs, key)) &&
			!(json_is_null(value) && !json_object_get(theirs, key)))
			return false;
	return true;
}

static void node_status_on_done(void *data, const struct kube_answer *answer)
{
	struct node *node = data;

	node->status_call = NULL;
	if (answer->result < 0) {
		/*
		 * Without a GPUNode there is nothing to write. When a GPUNode appears, the watch
		 * reports it.
		 */
		if (answer->result != -ENOENT)
			log_warn("GPUNode: %s", answer->error.msg);
		json_decref(TAKE_PTR(node->status_sent));
		if (answer->result != -ENOENT)
			loop_set_timer(&node->status_timer, clock_now_ns() + STATUS_AGAIN_NS);
		return;
	}
	json_decref(node->status_seen);
	node->status_seen = TAKE_PTR(node->status_sent);
	node->status_rest_ns = clock_now_ns() +
		MIN(STATUS_REST * clock_since_ns(clock_now_ns(), node->status_began_ns),
			STATUS_AGAIN_NS);
	node_status_touch(node);
}

static void node_status_on_timer(struct loop_timer *timer, uint64_t now)
{
	struct node *node = timer->data;
	struct kube_write write = {
		.target = {"divvy.gpu/v1", "gpunodes", NULL, node->options.name, "status"},
		.field_manager = NODE_FIELD_MANAGER,
		.done = node_status_on_done,
		.data = node,
		.ret_call = &node->status_call,
	};
	_cleanup_json_ json_t *patch = NULL;
	json_t *status;
	struct error err;

	if (node->status_call || !node_gpunode(node))
		return;
	status = status_json(node);
	if (!status || is_as(node->status_seen, status)) {
		json_decref(status);
		return;
	}
	node->status_sent = status;
	node->status_began_ns = now;
	patch = json_pack("{s:O}", "status", status);
	if (!patch || kube_patch(node->client, &write, KUBE_PATCH_MERGE, patch, &err) < 0) {
		json_decref(TAKE_PTR(node->status_sent));
		loop_set_timer(timer, now + STATUS_AGAIN_NS);
	}
}

void node_status_touch(struct node *node)
{
	if (!loop_timer_is_armed(&node->status_timer))
		loop_set_timer(&node->status_timer,
			MAX(clock_now_ns() + STATUS_DELAY_NS, node->status_rest_ns));
}

void node_status_seen(struct node *node, const json_t *object)
{
	json_t *status = json_object_get(object, "status");

	json_decref(node->status_seen);
	node->status_seen = json_is_object(status) ? json_incref(status) : NULL;
	node_usage_seen(node, status);
	faults_seen(node, status);
	node_status_touch(node);
}

int node_status_new(struct node *node)
{
	node->status_timer.data = node;
	return loop_add_timer(node->agent->loop, &node->status_timer, node_status_on_timer);
}

void node_status_free(struct node *node)
{
	kube_call_cancel(node->status_call);
	loop_remove_timer(&node->status_timer);
	json_decref(node->status_sent);
	json_decref(node->status_seen);
}
