/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The node as one object: see node.h. The agent's state stores each tenant with the number of its
 * slot, so that the next daemon gives each tenant its slot again.
 */
#include "node/node.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/device.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/parse.h"
#include "kube/kube-json.h"
#include "kubelet/dra-plugin.h"
#include "kubelet/cdi.h"
#include "kubelet/cgroup.h"
#include "node/node-identity.h"
#include "node/node-internal.h"
#include "node/node-peers.h"
#include "node/node-remote.h"
#include "node/node-serve.h"
#include "simgpu/simgpu-proto.h"

#define TICK_NS NSEC_PER_SEC
#define SWEEP_NS (10 * NSEC_PER_SEC)
#define LOOK_NS (5 * NSEC_PER_SEC)
#define CHECKPOINT "kubelet_internal_checkpoint"
#define CHECKPOINT_MAX (16u << 20)

/* ---- the newest epoch ---- */

static void epoch_path(const struct node *node, char *ret, size_t size)
{
	snprintf(ret, size, "%s/epoch", node->agent->runtime_dir);
}

void node_saw_epoch(struct node *node, uint64_t epoch)
{
	char path[PATH_MAX], text[32];
	struct error err;

	if (epoch <= node->epoch)
		return;
	node->epoch = epoch;
	epoch_path(node, path, sizeof(path));
	snprintf(text, sizeof(text), "%llu\n", (unsigned long long)epoch);
	if (file_replace(path, str_from(text), 0600, &err) < 0)
		log_warn("%s", err.msg);
	node_status_touch(node);
}

static void load_epoch(struct node *node)
{
	_cleanup_buf_ struct buf text = BUF_INIT(64);
	char path[PATH_MAX];
	uint64_t epoch;

	epoch_path(node, path, sizeof(path));
	if (file_read(path, &text, NULL) >= 0 &&
		parse_uint(str_trim(buf_str(&text)), 0, INT64_MAX, &epoch, NULL) >= 0)
		node->epoch = MAX(node->epoch, epoch);
}

/* ---- pods ---- */

static int node_project_object(
	void *data, const struct kube_object *object, void **ret, struct error *err)
{
	*ret = json_incref(object->json);
	return 0;
}

static void node_release_object(void *own)
{
	json_decref(own);
}

/* Each pod is watched as a pod of this node or as a served pod, never as both. */
static bool is_watched_as(const struct node *node, const struct slot *slot, bool is_served)
{
	return node_slot_is_served(node, slot) == is_served;
}

static void pod_changed(struct node *node, const struct kube_entry *entry, bool is_served)
{
	for (uint32_t i = 0; i < node->n_slots; i++) {
		struct slot *slot = &node->slots[i];
		struct tenant *t = node_tenant(node, slot);
		const struct tenant_pod *pod = node_slot_pod(node, slot);

		if (!pod || strcmp(pod->uid, entry->uid) != 0 || slot->is_claimed ||
			!is_watched_as(node, slot, is_served))
			continue;
		if (node_is_over(entry->object, pod->container))
			node_slot_end(node, slot);
		else if (t)
			start_apply(node, slot, t, entry->object);
	}
}

static void node_pod_removed(struct node *node, const char *uid, bool is_served)
{
	for (uint32_t i = 0; i < node->n_slots; i++) {
		const struct tenant_pod *pod = node_slot_pod(node, &node->slots[i]);

		if (!pod || strcmp(pod->uid, uid) != 0 ||
			!is_watched_as(node, &node->slots[i], is_served))
			continue;
		if (node->slots[i].is_claimed)
			node_dra_pod_removed(node, &node->slots[i]);
		else
			node_slot_end(node, &node->slots[i]);
	}
}

void node_served_changed(struct node *node, const struct kube_entry *entry)
{
	pod_changed(node, entry, true);
}

void node_served_removed(struct node *node, const char *uid)
{
	node_pod_removed(node, uid, true);
}

static void node_on_pod(struct node *node, const struct kube_entry *entry)
{
	pod_changed(node, entry, false);
	node_pool_pod_changed(node);
}

static void on_pod_added(void *data, const struct kube_entry *entry)
{
	node_on_pod(data, entry);
}

static void on_pod_updated(void *data, const struct kube_entry *entry, void *old)
{
	node_on_pod(data, entry);
}

static void on_pod_deleted(void *data, const struct kube_entry *entry)
{
	struct node *node = data;

	node_pod_removed(node, entry->uid, false);
	node_pool_pod_changed(node);
}

/* Pods that were deleted while this daemon was away appear in no list. */
static void on_pods_synced(void *data)
{
	struct node *node = data;

	for (uint32_t i = 0; i < node->n_offered; i++) {
		const struct tenant_pod *pod = node_slot_pod(node, &node->slots[i]);

		if (pod && !node->slots[i].is_claimed && !kube_cache_find_uid(node->pods, pod->uid))
			node_slot_end(node, &node->slots[i]);
	}
	node->next_sweep_ns = 0;
	node_pool_pod_changed(node);
	node_status_touch(node);
}

static void node_on_trouble(void *data, const struct error *err)
{
	log_warn("%s", err->msg);
}

/* ---- the owner of the devices ---- */

json_t *node_checkpoint(const struct node *node)
{
	_cleanup_buf_ struct buf text = BUF_INIT(CHECKPOINT_MAX);
	char path[PATH_MAX + 64];
	json_t *json = NULL;

	snprintf(path, sizeof(path), "%s/" CHECKPOINT, node->plugin_folder);
	return file_read(path, &text, NULL) >= 0 &&
			kube_json_parse(buf_str(&text), &json, NULL) >= 0
		? json
		: NULL;
}

const char *node_conflict_text(const struct node *node, char ret[static NODE_CONFLICT_TEXT])
{
	if (node->is_conflict_dra)
		snprintf(ret, NODE_CONFLICT_TEXT, "the DRA driver %s hands out this node's GPUs",
			node->conflict);
	else
		snprintf(ret, NODE_CONFLICT_TEXT, "another device plugin serves %s on this node",
			node->conflict);
	return ret;
}

/*
 * Finds GPUs of another device plugin in the kubelet's checkpoint of registered devices, or of
 * another DRA driver (node-rival.c).
 */
void node_look_for_others(struct node *node)
{
	_cleanup_json_ json_t *json = NULL;
	char found[sizeof(node->conflict)] = "", text[NODE_CONFLICT_TEXT];
	bool is_dra;
	const char *resource;
	json_t *ids;

	/*
	 * Before it has read the GPUNode, divvyd does not know whether the node belongs to the
	 * pool.
	 */
	if (!kube_cache_is_synced(node->gpunodes))
		return;
	/* An unreadable checkpoint says nothing about device plugins. */
	if (!node->pool.is_on && !(json = node_checkpoint(node)) && !node->rival[0] &&
		!node->is_conflict_dra)
		return;
	json_object_foreach(kube_json_at(json, "Data", "RegisteredDevices", NULL), resource, ids)
		if (node_is_gpu(resource) && json_array_size(ids))
			snprintf(found, sizeof(found), "%s", resource);
	is_dra = !found[0] && node->rival[0];
	if (is_dra)
		snprintf(found, sizeof(found), "%s", node->rival);
	if (!strcmp(found, node->conflict) && is_dra == node->is_conflict_dra)
		return;
	memcpy(node->conflict, found, sizeof(found));
	node->is_conflict_dra = is_dra;
	if (found[0])
		node_event(node, true, "OwnerConflict", "%s, so divvy offers nothing here",
			node_conflict_text(node, text));
	node_offer(node);
}

/* ---- GPUNode ---- */

/* A cordon with a wrong UUID has no effect, so its author should hear of it. */
static void look_at_cordons(struct node *node, const json_t *gpu_node)
{
	const char *unknown = "";
	json_t *one;
	size_t i;

	json_array_foreach(kube_json_at(gpu_node, "spec", "cordoned", NULL), i, one) {
		const char *uuid = kube_json_text_at(one, "uuid", NULL);

		if (uuid && !device_find(node->agent->devices, uuid) &&
			!faults_is_missing(node, uuid)) {
			unknown = uuid;
			break;
		}
	}
	if (!strncmp(unknown, node->no_cordon, sizeof(node->no_cordon) - 1))
		return;
	snprintf(node->no_cordon, sizeof(node->no_cordon), "%s", unknown);
	if (unknown[0])
		node_event(node, true, "CordonUnknown",
			"spec.cordoned names device %s, which this node does not have; "
			"status.devices lists its devices",
			unknown);
}

static void node_on_gpunode(struct node *node, const struct kube_entry *entry, bool is_new)
{
	const json_t *epoch = kube_json_at(entry->object, "status", "epoch", NULL);
	const char *simulate = kube_json_text_at(entry->object, "spec", "simulate", NULL),
		   *now = node->agent->options.simulate;

	if (is_new)
		node_status_seen(node, entry->object);
	if (json_integer_value(epoch) > 0)
		node_saw_epoch(node, (uint64_t)json_integer_value(epoch));
	look_at_cordons(node, entry->object);
	faults_clear(node, entry->object);
	node_pool_look(node, clock_now_ns());
	node_offer(node);
	/* The daemon chooses devices only at its start: it ends, and the kubelet restarts it. */
	if (!node->options.is_simulate_fixed && strcmp(simulate ? simulate : "", now ? now : "")) {
		if (!node->agent->n_tenants) {
			log_info("GPUNode.spec.simulate changed: restarting");
			agent_leave(node->agent);
		} else {
			log_warn("GPUNode.spec.simulate changed: it takes effect when no tenant "
				 "is left and divvyd has restarted");
		}
	}
}

static void node_on_gpunode_added(void *data, const struct kube_entry *entry)
{
	node_on_gpunode(data, entry, true);
}

static void node_on_gpunode_updated(void *data, const struct kube_entry *entry, void *old)
{
	node_on_gpunode(data, entry, false);
}

static void node_on_gpunode_deleted(void *data, const struct kube_entry *entry)
{
	struct node *node = data;

	json_decref(TAKE_PTR(node->status_seen));
	faults_forget(node);
}

/* Runs before the first grant, when the owner of the devices is known. */
static void node_on_gpunodes_synced(void *data)
{
	node_look_for_others(data);
}

/* ---- watching ---- */

/* Watches the objects at `path` whose `field` has the node's name. */
static int node_watch_objects(struct node *node, const char *path, const char *field,
	const struct kube_cache_handler *handler, struct kube_cache **ret, struct error *err)
{
	char selector[320];
	const struct kube_reflect_options options = {
		.path = path, .field_selector = selector, .max_pause_ns = 5 * NSEC_PER_SEC};

	snprintf(selector, sizeof(selector), "%s=%s", field, node->options.name);
	return kube_cache_new(node->client, &options, handler, ret, err);
}

static int node_watch_all_objects(struct node *node, struct error *err)
{
	const struct kube_cache_handler gpunodes = {
		.project = node_project_object,
		.release = node_release_object,
		.added = node_on_gpunode_added,
		.updated = node_on_gpunode_updated,
		.deleted = node_on_gpunode_deleted,
		.synced = node_on_gpunodes_synced,
		.trouble = node_on_trouble,
		.data = node,
	};
	const struct kube_cache_handler pods = {
		.project = node_project_object,
		.release = node_release_object,
		.added = on_pod_added,
		.updated = on_pod_updated,
		.deleted = on_pod_deleted,
		.synced = on_pods_synced,
		.trouble = node_on_trouble,
		.data = node,
	};
	const struct kube_cache_handler policies = {.project = node_project_object,
		.release = node_release_object,
		.trouble = node_on_trouble};
	const struct kube_reflect_options all = {
		.path = "/apis/divvy.gpu/v1/gpupolicies", .max_pause_ns = 5 * NSEC_PER_SEC};
	int r = node_watch_objects(node, "/apis/divvy.gpu/v1/gpunodes", "metadata.name", &gpunodes,
		&node->gpunodes, err);

	r = r < 0 ? r : kube_cache_new(node->client, &all, &policies, &node->policies, err);
	return r < 0 ? r
		     : node_watch_objects(
			       node, "/api/v1/pods", "spec.nodeName", &pods, &node->pods, err);
}

/* ---- the kubelet ---- */

static void on_known(struct plugin *plugin, bool is_known, const char *reason)
{
	struct node *node = plugin_data(plugin);

	log_info("device plugin: %s", is_known ? "registered" : reason);
	snprintf(
		node->plugin_reason, sizeof(node->plugin_reason), "%.120s", is_known ? "" : reason);
	/* The kubelet that has registered the plugin may be a new one, in another pid namespace. */
	node->is_kubelet_new = is_known;
	node_status_touch(node);
}

static const struct plugin_ops plugin_ops = {
	.allocate = allocate_slots,
	.pre_start = start_pre_start,
	.changed = on_known,
	.unknown = unknown_slot,
};

static int start_plugin(struct node *node, struct error *err)
{
	struct plugin_options options = {
		.resource = NODE_RESOURCE,
		.folder = node->plugin_folder,
		.name = "divvy",
		.ops = &plugin_ops,
		.data = node,
	};
	int r = podres_new(node->agent->loop, node->podres_socket, 0, &node->podres);

	if (r < 0)
		return fail_errno(err, -r, "pod-resources");
	snprintf(node->plugin_reason, sizeof(node->plugin_reason), "not registered yet");
	return node->options.is_dra ? node_dra_new(node, err)
				    : plugin_new(node->agent->loop, &options, &node->plugin, err);
}

/*
 * Returns the pid of the process that listens on the kubelet's socket, in this pid namespace. 0:
 * that process is in another namespace. -errno on errors.
 */
static pid_t kubelet_pid(const struct node *node)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct ucred cred = {0};
	socklen_t n = sizeof(cred);
	int r = snprintf(
		address.sun_path, sizeof(address.sun_path), "%s/kubelet.sock", node->plugin_folder);

	if (fd < 0 || r < 0 || (size_t)r >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
		getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &n) < 0)
		return -errno;
	return cred.pid;
}

static void look_at_namespaces(struct node *node)
{
	const pid_t pid = kubelet_pid(node);

	if (pid >= 0) /* otherwise unchanged: the kubelet is away */
		node->is_pid_hidden = pid == 0;
}

/* ---- periodic checks ---- */

/*
 * Whether the kubelet's entry c stands for this pod's container. Kubelets list an init container's
 * slot under the container that gets the slot next.
 */
static bool is_listed_as(
	const struct node *node, const struct tenant_pod *pod, const struct podres_container *c)
{
	const struct kube_entry *entry = kube_cache_find_uid(node->pods, pod->uid);

	return !strcmp(c->space, pod->space) && !strcmp(c->pod, pod->name) &&
		(!strcmp(c->name, pod->container) ||
			(entry && node_is_init(entry->object, pod->container)));
}

/*
 * Whether the kubelet never lists the slot: it belongs to an init container, and no later container
 * gets it. The pod's status shows whether it is still in use.
 */
static bool is_listed_never(const struct node *node, const struct tenant_pod *pod)
{
	const struct kube_entry *entry = kube_cache_find_uid(node->pods, pod->uid);

	return entry && node_is_init(entry->object, pod->container) &&
		!node_is_over(entry->object, pod->container);
}

/* A container that the kubelet no longer lists has ended, whatever the pod's object says. */
static void node_on_sweep(void *data, const struct podres_list *list, const struct error *err)
{
	struct node *node = data;

	node->sweep = NULL;
	if (!list)
		return;
	for (uint32_t i = 0; i < node->n_offered; i++) {
		struct slot *slot = &node->slots[i];
		const struct tenant_pod *pod = node_slot_pod(node, slot);
		const struct podres_container *c = NULL;

		if (!pod || slot->is_claimed || slot->since_ns >= node->sweep_asked_ns ||
			start_has_slot(node, slot))
			continue;
		if (podres_find(list, STR(NODE_RESOURCE), str_from(slot->id), &c) == -EEXIST)
			continue;
		if (c ? !is_listed_as(node, pod, c) : !is_listed_never(node, pod))
			node_slot_end(node, slot);
	}
	if (!node->has_resumed && kube_cache_is_synced(node->pods)) {
		node->has_resumed = true;
		remote_resume(node, list);
	}
	node_sweep_libraries(node, list);
	node_drop_kept(node, list);
}

static void node_sweep_slots(struct node *node, uint64_t now)
{
	bool is_used = node->has_old_libraries || !node->has_resumed || node_has_kept_slots(node);

	for (uint32_t i = 0; i < node->n_offered; i++)
		is_used |= node->slots[i].tenant != 0 || node->slots[i].remote;
	if (!is_used || node->sweep || now < node->next_sweep_ns)
		return;
	node->next_sweep_ns = now + SWEEP_NS;
	node->sweep_asked_ns = clock_now_ns();
	if (podres_ask(node->podres, node_on_sweep, node, &node->sweep) < 0)
		node->sweep = NULL;
}

static void node_on_tick(struct loop_timer *timer, uint64_t now)
{
	struct node *node = timer->data;

	if (node->is_kubelet_new) {
		node->is_kubelet_new = false;
		look_at_namespaces(node);
		node_offer(node);
	}
	if (node->dra)
		node_dra_tick(node);
	for (uint32_t i = 0; i < node->n_slots; i++) {
		struct slot *slot = &node->slots[i];
		const struct tenant *t = node_tenant(node, slot);

		/* An administrator has removed the tenant, or its last process has ended. */
		if (slot->tenant && (!t || (slot->is_over && !t->n_processes)))
			node_slot_clear(node, slot);
		if (slot->remote)
			remote_tick(slot->remote, now);
	}
	serve_tick(node, now);
	watch_tick(node);
	node_pool_look(node, now);
	node_network_look(node, now);
	node_peers_tick(node, now);
	if (now >= node->next_look_ns) {
		node->next_look_ns = now + LOOK_NS;
		node_look_for_others(node);
		watch_look(node);
		faults_look(node);
		if (node->dra)
			node_dra_changed(node);
		node_status_touch(node);
	}
	rival_look(node, now);
	node_sweep_slots(node, now);
	node_usage_tick(node, now);
	node_lease_look(node, now);
	gang_tick(node, now);
	loop_set_timer(timer, clock_now_ns() + TICK_NS);
}

/* ---- start and end ---- */

static int find_cgroups(struct node *node)
{
	_cleanup_buf_ struct buf text = BUF_INIT(CGROUP_FILE_MAX);

	node->agent->has_pods = true;
	if (node->options.cgroup_root) {
		node->agent->pod_cgroups = node->options.cgroup_root;
		return 0;
	}
	if (file_read("/proc/self/cgroup", &text, NULL) >= 0 &&
		cgroup_parse_root(buf_str(&text), node->cgroup_root) >= 0)
		node->agent->pod_cgroups = node->cgroup_root;
	return 0;
}

static int connect_api(struct node *node, struct error *err)
{
	const struct kube_config_source source = {.files = node->options.kubeconfig};
	int r = kube_config_load(node->options.kubeconfig ? &source : NULL, &node->config, err);

	r = r < 0 ? r : kube_client_new(node->agent->loop, node->config, NULL, &node->client, err);
	return r < 0 ? r
		     : kube_recorder_new(
			       node->client, "divvyd", node->options.name, &node->recorder, err);
}

/*
 * By default only one user can open the socket of a simulated machine. Tenants of a cluster may
 * have any user id, so this function lets all users open the socket.
 */
static int open_simulation(const struct device_set *set, struct error *err)
{
	char path[PATH_SIZE_MAX + 32];

	if (!set->is_simulated)
		return 0;
	snprintf(path, sizeof(path), "%s/" SIMGPU_FILE_SOCKET, set->sim_dir);
	return chmod(path, 0666) < 0 ? fail_errno(err, errno, "chmod '%s'", path) : 0;
}

/* The certificate that this node shows to others. */
static void on_own_identity(void *data, struct held_identity *held)
{
	struct node *node = data;
	const struct identity *identity = held_identity_get(held);
	int fd = identity ? identity_to_fd(identity) : -1;

	if (fd >= 0)
		serve_identity(node, fd);
	else if (held_identity_why(held)[0])
		log_warn("no certificate for other nodes: %s", held_identity_why(held));
}

int node_need_identities(struct node *node, struct error *err)
{
	return node->identities
		? 0
		: identities_new(node->client, node->options.space, &node->identities, err);
}

int node_need_own_identity(struct node *node, struct error *err)
{
	struct identity_name name = {.kind = IDENTITY_OF_NODE};
	int r = node_need_identities(node, err);

	if (r >= 0 && str_copy(name.node, sizeof(name.node), str_from(node->options.name)) < 0)
		r = fail(err, EINVAL, "node name '%s' is too long", node->options.name);
	return r < 0 ? r
		     : identity_hold(node->identities, &name, on_own_identity, node,
			       &node->identity, err);
}

static int start_serving(struct node *node, struct error *err)
{
	int r = serve_new(node, err);

	return r < 0 || !node->serve ? r : node_need_own_identity(node, err);
}

static int node_start(struct node *node, struct error *err)
{
	const struct device_set *set = node->agent->devices;
	int r = library_install(node->options.state_dir, set->is_simulated ? set->sim_libs : NULL,
		node->library, err);

	if (r >= 0 &&
		((size_t)snprintf(node->plugin_folder, sizeof(node->plugin_folder),
			 "%s/device-plugins",
			 node->options.kubelet_dir) >= sizeof(node->plugin_folder) ||
			(size_t)snprintf(node->podres_socket, sizeof(node->podres_socket),
				"%s/pod-resources/kubelet.sock",
				node->options.kubelet_dir) >= sizeof(node->podres_socket)))
		r = fail(err, ENAMETOOLONG, "--kubelet-dir is too long");
	r = r < 0 ? r : open_simulation(set, err);
	r = r < 0 ? r : find_cgroups(node);
	r = r < 0 ? r : connect_api(node, err);
	node->has_old_libraries = true; /* until the first sweep */
	watch_start(node);
	load_epoch(node);
	r = r < 0 ? r : node_slots_new(node, err);
	node->tick.data = node;
	if (r >= 0 &&
		(loop_add_timer(node->agent->loop, &node->tick, node_on_tick) < 0 ||
			node_status_new(node) < 0 || node_pool_new(node) < 0 ||
			node_lease_new(node) < 0))
		r = fail(err, ENOMEM, "no memory");
	if (r >= 0)
		node_usage_load(node);
	r = r < 0 ? r : node_watch_all_objects(node, err);
	r = r < 0 ? r : start_serving(node, err);
	r = r < 0 ? r : node_peers_new(node, err);
	if (r >= 0)
		look_at_namespaces(node);
	r = r < 0 ? r : start_plugin(node, err);
	if (r >= 0 && node->options.listen)
		r = node_page_new(node, err);
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < set->n; i++)
		overcommit_set(node, &set->devices[i], 0);
	node_offer(node);
	node_look_for_others(node);
	loop_set_timer(&node->tick, clock_now_ns() + TICK_NS);
	return 0;
}

int node_new(struct agent *agent, const struct node_options *options, struct node **ret_node,
	struct error *err)
{
	struct node *node = calloc(1, sizeof(*node));
	int r;

	if (!node)
		return fail(err, ENOMEM, "no memory");
	node->agent = agent;
	node->options = *options;
	LIST_INIT(&node->allocations);
	LIST_INIT(&node->unknown_slots);
	LIST_INIT(&node->starts);
	LIST_INIT(&node->gangs);
	r = node_start(node, err);
	if (r < 0) {
		node_free(node);
		return fail_within(err, r, "cluster");
	}
	*ret_node = node;
	return 0;
}

void node_free(struct node *node)
{
	if (!node)
		return;
	node_dra_drain(node);
	node_page_free(node);
	allocate_free_all(node);
	unknown_free_all(node);
	start_free_all(node);
	gang_free_all(node);
	for (uint32_t i = 0; node->slots && i < node->n_slots; i++)
		remote_leave(TAKE_PTR(node->slots[i].remote));
	node_peers_free(node);
	serve_free(node);
	identity_release(node->identity);
	identities_free(node->identities);
	kube_call_cancel(node->rival_call);
	node_dra_free(node);
	dra_plugin_free(TAKE_PTR(node->options.dra_plugin));
	plugin_free(node->plugin);
	podres_free(node->podres);
	node_usage_free(node);
	node_sweep_free(node);
	node_pool_free(node);
	node_status_free(node);
	node_lease_free(node);
	loop_remove_timer(&node->tick);
	kube_cache_free(node->pods);
	kube_cache_free(node->gpunodes);
	kube_cache_free(node->policies);
	kube_recorder_free(node->recorder);
	json_decref(node->space_seen);
	kube_client_free(node->client);
	kube_config_free(node->config);
	for (uint32_t i = 0; node->slots && i < node->n_slots; i++)
		tenant_socket_leave(node->slots[i].tenant_socket);
	free(node->slots);
	node->agent->has_pods = false;
	node->agent->pod_cgroups = NULL;
	free(node);
}

/* ---- before the start ---- */

#define READ_WAIT_NS (8 * NSEC_PER_SEC)

struct reading {
	struct loop *loop;
	char *text;
	int result;
	struct error err;
};

static void node_on_read(void *data, const struct kube_answer *answer)
{
	struct reading *reading = data;
	_cleanup_json_ json_t *json = NULL;
	const char *text;

	reading->result = answer->result;
	reading->err = answer->error;
	if (answer->result >= 0)
		reading->result = kube_json_parse(answer->body, &json, &reading->err);
	if (reading->result >= 0 || reading->result == -ENOENT) {
		text = kube_json_text_at(json, "spec", "simulate", NULL);
		reading->text = str_dup(str_from(text ? text : ""));
	}
	loop_stop(reading->loop, 1);
}

static int node_read_api_node(
	const struct node_options *options, struct reading *reading, struct error *err)
{
	const struct kube_config_source source = {.files = options->kubeconfig};
	_cleanup_kube_config_ struct kube_config *config = NULL;
	struct kube_client *client = NULL;
	const struct kube_write write = {
		.target = {"divvy.gpu/v1", "gpunodes", NULL, options->name, NULL},
		.timeout_ns = READ_WAIT_NS,
		.done = node_on_read,
		.data = reading,
	};
	int r = kube_config_load(options->kubeconfig ? &source : NULL, &config, err);

	r = r < 0 ? r : kube_client_new(reading->loop, config, NULL, &client, err);
	r = r < 0 ? r : kube_read(client, &write, err);
	if (r >= 0)
		loop_run(reading->loop);
	kube_client_free(client);
	return r;
}

int node_read_simulate(const struct node_options *options, char **ret, struct error *err)
{
	_cleanup_loop_ struct loop *loop = NULL;
	_cleanup_buf_ struct buf kept = BUF_INIT(4096);
	struct reading reading = {0};
	char path[PATH_MAX];
	int r = loop_new(&loop);

	if (r < 0)
		return fail_errno(err, -r, "event loop");
	reading.loop = loop;
	r = node_read_api_node(options, &reading, err);
	if (r < 0)
		return r;
	r = folder_make(options->state_dir, 0755, err);
	if (r < 0) {
		free(reading.text);
		return r;
	}
	snprintf(path, sizeof(path), "%s/simulate", options->state_dir);
	if (reading.text) {
		r = file_replace(path, str_from(reading.text), 0644, err);
		*ret = reading.text;
		return r;
	}
	log_warn("%s; using the last known GPUNode.spec.simulate", reading.err.msg);
	if (file_read(path, &kept, NULL) < 0)
		buf_clear(&kept);
	*ret = str_dup(buf_str(&kept));
	return *ret ? 0 : fail(err, ENOMEM, "no memory");
}
