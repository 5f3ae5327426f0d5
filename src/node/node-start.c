/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PreStartContainer: which container has the slot (the kubelet says), what the scheduler has
 * assigned to it (the API server says), and whether the devices have room (this daemon says). Only
 * then the container starts. Each such question is a `start`, which is examined again until it can
 * be answered or its time is over; the kubelet then tries again by itself. A link that asks for a
 * container of another node has the same question, except that its certificate names the container.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/device.h"
#include "agent/agent-state.h"
#include "base/fd.h"
#include "base/format.h"
#include "base/log.h"
#include "kubelet/cdi.h"
#include "node/node-files.h"
#include "node/node-internal.h"
#include "node/node-remote.h"
#include "node/node-serve.h"

#define START_LOOK_NS (50 * NSEC_PER_MSEC)
#define START_WAIT_NS (15 * NSEC_PER_SEC) /* less than the 30 s that the kubelet waits */
#define START_SPACE_NS (5 * NSEC_PER_SEC)
/* Up to this age, the Namespace object that was read for a container serves the next one, too. */
#define START_SPACE_AGE_NS (1 * NSEC_PER_SEC)
#define START_MAX 1024u /* starts at a time */

struct start {
	LIST_ENTRY(start) link;
	struct node *node;
	struct plugin_request *request; /* NULL: a link asks */
	struct slot *slot;
	struct podres_question *question;
	struct kube_call *space_call;
	struct loop_timer timer;
	uint64_t until_ns;
	struct tenant_pod pod; /* "": not known yet */
	/*
	 * The containers that have the slot, as the kubelet says. There may be several, because an
	 * init container's slot passes to a later container.
	 */
	char name[ASSIGNED_CONTAINERS_MAX][sizeof(((struct tenant_pod *)0)->container)];
	size_t n_names;
	bool has_begun; /* a container of the pod has run here */
	/*
	 * The slot's files. files: set while they are written; has_files: they were written, with
	 * the result files_err.
	 */
	struct slot_files *files;
	bool has_files;
	struct error files_err;
	json_t *space; /* the pod's Namespace object, for overcommit_of(); NULL: not known yet */
};

/* ---- the end of a start ---- */

static void start_free(struct start *s)
{
	LIST_REMOVE(s, link);
	podres_forget(s->question);
	slot_files_forget(s->files);
	kube_call_cancel(s->space_call);
	loop_remove_timer(&s->timer);
	json_decref(s->space);
	free(s);
}

void start_free_all(struct node *node)
{
	struct start *s;

	while ((s = LIST_FIRST(&node->starts))) {
		if (s->request)
			plugin_refuse(s->request, GRPC_UNAVAILABLE, "divvyd is shutting down");
		start_free(s);
	}
}

bool start_is_asked(const struct node *node, const char *uid, const char *container)
{
	const struct start *s;

	LIST_FOREACH(s, &node->starts, link)
		if (!s->request && tenant_pod_is(&s->pod, uid, container))
			return true;
	return false;
}

bool start_has_slot(const struct node *node, const struct slot *slot)
{
	const struct start *s;

	LIST_FOREACH(s, &node->starts, link)
		if (s->slot == slot)
			return true;
	return false;
}

static void start_refuse_container(
	struct start *s, enum grpc_status status, const struct error *err)
{
	const struct tenant_pod *pod;

	log_info("slot %s: %s%s%s refused: %s", s->slot->id, s->pod.space,
		s->pod.space[0] ? "/" : "", s->pod.name, err->msg);
	s->node->agent->n_refused_grants++;
	if (!s->request) {
		/* The container's own node reports the refusal. */
		serve_answer_all(s->node, &s->pod, NULL, err);
		start_free(s);
		return;
	}
	/* While the kubelet does not name the container, assume the one that had the slot last. */
	pod = s->pod.uid[0] ? &s->pod : node_slot_pod(s->node, s->slot);
	if (pod)
		node_pod_event(s->node, pod, true, "GrantRefused", "container %s: %s",
			pod->container, err->msg);
	plugin_refuse(s->request, status, "%s", err->msg);
	start_free(s);
}

/* Examines the start again later, or refuses the container if it has waited too long. */
static void wait_or_refuse(struct start *s, const struct error *why)
{
	const uint64_t now = clock_now_ns();

	if (now >= s->until_ns)
		start_refuse_container(s, GRPC_FAILED_PRECONDITION, why);
	else
		loop_set_timer(&s->timer, now + START_LOOK_NS);
}

/* ---- the slot's files ---- */

static void on_files(void *data, int result, const struct error *err)
{
	struct start *s = data;

	s->files = NULL;
	s->has_files = true;
	s->files_err = (struct error){0};
	if (result < 0)
		s->files_err = *err;
	loop_set_timer(&s->timer, 0);
}

/*
 * Makes sure that the files of a container with devices of this node are written. -EAGAIN: they are
 * being written.
 */
static int need_files(struct start *s, struct error *err)
{
	int r = 0;

	if (node_slot_is_served(s->node, s->slot))
		return 0;
	/*
	 * A later Allocate for this slot may have written the remote list over the files of this
	 * start.
	 */
	if (s->has_files && !s->slot->is_list_remote) {
		if (!s->files_err.code)
			return 0;
		return fail(err, s->files_err.code, "%s", s->files_err.msg);
	}
	if (!s->files) {
		s->slot->is_list_remote = false;
		r = node_slot_write_files(s->node, s->slot, on_files, s, &s->files, err);
	}
	return r < 0 ? r : fail(err, EAGAIN, "the slot's files are not on the disk yet");
}

/* ---- granting ---- */

/* Checks that the devices are this node's to grant, to a container here or on another node. */
static int start_check_mode(const struct node *node, const struct slot *slot,
	const struct node_assigned *g, struct error *err)
{
	const bool is_served = node_slot_is_served(node, slot);

	if (is_served != (g->spec.mode == SPEC_MODE_REMOTE))
		return fail(err, EPERM, "divvy.gpu/granted-mode: container %s has devices of %s",
			g->is.name, is_served ? "its own node" : "another node");
	if (is_served && strcmp(g->is.remote_node, node->options.name) != 0)
		return fail(err, EPERM,
			"divvy.gpu/remote-node: container %s has devices of node '%.100s', but "
			"this node is '%.100s'",
			g->is.name, g->is.remote_node, node->options.name);
	return 0;
}

/*
 * PLACE_CHANGE: for a running container. PLACE_NEXT: for a container of a pod that has already run
 * something here. PLACE_NEW: for any other container.
 */
enum place_for { PLACE_CHANGE, PLACE_NEXT, PLACE_NEW };

static int find_places(struct node *node, const struct slot *slot, const struct node_assigned *g,
	struct tenant_place *ret_places, enum place_for what, struct error *err)
{
	const bool is_new = what == PLACE_NEW;
	int r = start_check_mode(node, slot, g, err);

	if (r < 0)
		return r;
	for (uint32_t i = 0; i < g->spec.count; i++) {
		const struct device *d = device_find(node->agent->devices, g->is.device[i]);

		if (!d)
			return fail(err, ENODEV, "divvy.gpu/devices: this node has no device %s",
				g->is.device[i]);
		if (is_new && node_is_cordoned(node, d->info.uuid))
			return fail(err, EPERM, "device %s is cordoned: it gets no new tenants",
				d->info.uuid);
		if (is_new && !kube_cache_is_synced(node->gpunodes))
			return fail(err, EAGAIN,
				"device %s: divvyd does not know yet whether another device "
				"plugin owns it",
				d->info.uuid);
		if (is_new && !node_pool_is_open(node, d))
			return fail(err, EPERM,
				"device %s is owned by another device plugin and no placeholder "
				"holds it",
				d->info.uuid);
		if (what != PLACE_CHANGE && device_is_faulty(d))
			return fail(err, EIO, "device %s %s", d->info.uuid, device_fault_text(d));
		ret_places[i] = (struct tenant_place){d->index, g->is.memory_bytes[i]};
	}
	return 0;
}

/* Whether a container of the pod runs here. Then the pod's other containers belong here too. */
static bool has_started(struct node *node, const struct tenant_pod *pod)
{
	for (uint32_t i = 0; i < node->n_slots; i++) {
		const struct slot *slot = &node->slots[i];
		const struct tenant_pod *its = node_slot_pod(node, slot);

		if (its && !strcmp(its->uid, pod->uid) &&
			!(slot->remote && !remote_is_ready(slot->remote)))
			return true;
	}
	return false;
}

static int check_epoch(const struct start *s, uint64_t epoch, struct error *err)
{
	const struct node *node = s->node;

	if (epoch >= node->epoch || s->has_begun)
		return 0;
	return fail(err, ESTALE,
		"divvy.gpu/epoch %llu is older than %llu, the newest seen: a scheduler that no "
		"longer leads made this decision",
		(unsigned long long)epoch, (unsigned long long)node->epoch);
}

static void set_overcommit(
	struct node *node, const struct tenant_place *places, uint32_t n, uint32_t overcommit)
{
	for (uint32_t i = 0; i < n; i++)
		overcommit_set(node, &node->agent->devices->devices[places[i].device], overcommit);
}

static int start_make_tenant(
	struct start *s, const struct node_assigned *g, struct tenant **ret, struct error *err)
{
	struct node *node = s->node;
	struct tenant_place places[SPEC_DEVICES_MAX];
	char name[TENANT_NAME], origin[256];
	struct tenant_params params = {
		.spec = g->spec,
		.name = name,
		.origin = origin,
		.lifetime = TENANT_KEEP,
		.source = TENANT_POD,
		.pod = &s->pod,
		.places = places,
	};
	int r = check_epoch(s, g->epoch, err);

	s->pod.overcommit = 0;
	if (r >= 0 && g->spec.memory_policy != SPEC_MEMORY_FAIL)
		r = overcommit_of(node, s->space, &s->pod.overcommit, err);
	r = r < 0
		? r
		: find_places(node, s->slot, g, places, s->has_begun ? PLACE_NEXT : PLACE_NEW, err);
	if (r < 0)
		return r;
	set_overcommit(node, places, g->spec.count, s->pod.overcommit);
	s->pod.epoch = g->epoch;
	if (node_slot_is_served(node, s->slot))
		params.uid = serve_user(node, s->slot->number);
	snprintf(name, sizeof(name), "%.*s", (int)sizeof(name) - 1, s->pod.name);
	snprintf(origin, sizeof(origin), "%s/%s", s->pod.uid, s->pod.container);
	r = tenant_new(node->agent, &params, ret, err);
	if (r >= 0)
		node_saw_epoch(node, g->epoch);
	return r;
}

/*
 * Writes what the runtime adds for the slot's CDI name: the granted devices' files and no others,
 * and the dialect's variables. Simulated devices have a folder instead of files. t: NULL if the
 * devices are on another node.
 */
static int write_cdi(struct node *node, struct slot *slot, const struct tenant *t,
	const json_t *pod, struct error *err)
{
	const struct device_set *set = node->agent->devices;
	const struct tenant_pod *of = node_slot_pod(node, slot);
	const uint32_t n = t ? t->n : 0;
	struct node_env more;
	_cleanup_buf_ struct buf list = BUF_INIT(4096);
	int32_t minor[SPEC_DEVICES_MAX];
	struct slot_nodes files = {.n = 0};
	struct slot_sim sim;
	struct cdi_variable env[1 + ARRAY_SIZE(sim.env) + NODE_ENV_MAX];
	struct cdi_slot cdi = {.slot = slot->number, .env = env, .n_env = 1};
	int r;

	if (node->options.is_by_environment)
		return 0;
	for (uint32_t i = 0; i < n; i++)
		buf_addf(&list, "%s%s", i ? "," : "", t->devices[i].device->info.uuid);
	env[0] = (struct cdi_variable){"DIVVY_DEVICES", buf_text(&list)};
	node_env_read(node, pod, of->container, &more);
	for (uint32_t i = 0; i < more.n; i++)
		env[cdi.n_env++] = (struct cdi_variable){more.v[i].name, more.v[i].value};
	if (n && set->is_simulated) {
		slot_sim_fill(set->sim_dir, &sim);
		cdi.mounts = &sim.mount;
		cdi.n_mounts = 1;
		for (size_t i = 0; i < ARRAY_SIZE(sim.env); i++)
			env[cdi.n_env++] = sim.env[i];
	}
	for (uint32_t i = 0; i < n; i++)
		minor[i] = t->devices[i].device->info.minor;
	r = n && !set->is_simulated ? slot_nodes_find(node->options.dev_dir, minor, n, &files, err)
				    : 0;
	cdi.nodes = files.nodes;
	cdi.n_nodes = files.n;
	r = r < 0 ? r : cdi_write(node->options.cdi_dir, &cdi, err);
	slot->is_written = r >= 0;
	return r;
}

static void start_report_granted(struct node *node, const struct tenant *t)
{
	_cleanup_buf_ struct buf list = BUF_INIT(2048);

	for (uint32_t i = 0; i < t->n; i++)
		buf_addf(&list, "%s%s with %s", i ? ", " : "", t->devices[i].device->info.uuid,
			format_bytes(t->devices[i].quota_bytes).s);
	node_log(node, "granted", t);
	log_info("slot %s: %s/%s %s has %s of %s", t->pod->slot, t->pod->space, t->pod->name,
		t->pod->container, format_share(t->spec.request).s, buf_text(&list));
	node_pod_event(node, t->pod, false, "Granted", "container %s: %s of %s", t->pod->container,
		format_share(t->spec.request).s, buf_text(&list));
}

/* The container starts again. Its tenant still exists, with its debt. */
static int go_on(struct start *s, struct tenant *t, const json_t *pod, struct error *err)
{
	int r = s->slot->tenant_socket ? 0 : need_files(s, err);

	if (r < 0)
		return r;
	start_apply(s->node, s->slot, t, pod);
	s->slot->is_over = false;
	return s->slot->tenant_socket ? 0 : node_slot_open(s->node, s->slot, t, err);
}

/* Asks the node of the devices, and gives the container the network path to it. */
static int open_remote(
	struct start *s, const json_t *pod, const struct node_assigned *g, struct error *err)
{
	struct node *node = s->node;
	int r = check_epoch(s, g->epoch, err);

	if (r >= 0 && !s->has_begun)
		r = gang_may_start(node, s->pod.space, &g->group, err);
	s->pod.epoch = g->epoch;
	r = r < 0 ? r : remote_open(node, s->slot, &s->pod, g->is.remote_node, err);
	r = r < 0 ? r : write_cdi(node, s->slot, NULL, pod, err);
	if (r < 0)
		return r;
	node_saw_epoch(node, g->epoch);
	s->slot->is_over = false;
	s->slot->since_ns = clock_now_ns();
	log_info("slot %s: %s/%s %s has %s of node %s", s->slot->id, s->pod.space, s->pod.name,
		s->pod.container, format_share(g->spec.request).s, g->is.remote_node);
	return 0;
}

static int open_local(struct start *s, const json_t *pod, const struct node_assigned *g,
	struct tenant **ret, struct error *err)
{
	struct node *node = s->node;
	struct tenant *t;
	int r = 0;

	/* The gang of another node's container is checked by that node. */
	if (s->request && !s->has_begun)
		r = gang_may_start(node, s->pod.space, &g->group, err);
	r = r < 0 ? r : need_files(s, err);
	r = r < 0 ? r : start_make_tenant(s, g, &t, err);
	if (r < 0)
		return r;
	r = node_slot_open(node, s->slot, t, err);
	if (r >= 0 && s->request)
		r = write_cdi(node, s->slot, t, pod, err);
	if (r < 0 && !s->slot->tenant)
		tenant_kill(t);
	else if (r < 0)
		node_slot_clear(node, s->slot);
	if (r < 0)
		return r;
	start_report_granted(node, t);
	*ret = t;
	return 0;
}

static bool is_its_remote(const struct start *s)
{
	const struct tenant_pod *its = s->slot->remote ? remote_pod(s->slot->remote) : NULL;

	return its && tenant_pod_is(its, s->pod.uid, s->pod.container);
}

static void start_grant_slot(struct start *s, const json_t *pod)
{
	struct node *node = s->node;
	struct tenant *t = node_tenant(node, s->slot);
	struct error err = {0};
	struct node_assigned g;
	int r = 0;

	if (t && tenant_pod_is(t->pod, s->pod.uid, s->pod.container)) {
		r = go_on(s, t, pod, &err);
	} else {
		s->has_begun |= has_started(node, &s->pod) || node_has_prepared(pod);
		/* The kubelet has assigned the slot anew, so its former container has ended. */
		if (!is_its_remote(s))
			node_slot_clear(node, s->slot);
		r = node_assigned(pod, s->pod.container, &g, &err);
		if (r >= 0 && s->request && g.spec.mode == SPEC_MODE_REMOTE)
			r = open_remote(s, pod, &g, &err);
		else if (r >= 0)
			r = open_local(s, pod, &g, &t, &err);
	}
	/*
	 * Waits, because a tenant that ends now may free capacity, and a missing gang member may be
	 * bound soon.
	 */
	if (r == -ENOSPC || r == -EAGAIN) {
		wait_or_refuse(s, &err);
		return;
	}
	node_status_touch(node);
	if (r < 0) {
		start_refuse_container(s, GRPC_FAILED_PRECONDITION, &err);
		return;
	}
	if (s->request)
		plugin_started(s->request);
	else
		serve_answer_all(node, &s->pod, t, NULL);
	start_free(s);
}

/* ---- examining a start ---- */

/*
 * Whether the container still runs in another slot. Then the kubelet means a newer pod with the
 * same name, and the cache has the earlier pod.
 */
static bool start_is_elsewhere(struct start *s)
{
	for (uint32_t i = 0; i < s->node->n_offered; i++) {
		const struct slot *slot = &s->node->slots[i];
		const struct tenant_pod *its = node_slot_pod(s->node, slot);

		if (its && slot != s->slot && !slot->is_over &&
			tenant_pod_is(its, s->pod.uid, s->pod.container))
			return true;
	}
	return false;
}

static bool start_is_listed(const struct start *s, const char *name)
{
	for (size_t i = 0; i < s->n_names; i++)
		if (!strcmp(s->name[i], name))
			return true;
	return false;
}

/*
 * Names of the pod's init containers that have a grant and end before other containers start. Stops
 * at the sidecar that has the slot, because a sidecar does not pass its slot on.
 */
static size_t init_names(
	const struct start *s, const json_t *pod, const char *ret_names[ASSIGNED_CONTAINERS_MAX])
{
	const json_t *all = kube_json_at(pod, "spec", "initContainers", NULL), *one;
	struct node_assigned g;
	size_t i, n = 0;

	json_array_foreach(all, i, one) {
		const char *name = kube_json_text_at(one, "name", NULL);
		const bool is_sidecar = !strcmp(kube_json_text(one, "restartPolicy"), "Always");

		if (is_sidecar && name && start_is_listed(s, name))
			break;
		if (name && n < ASSIGNED_CONTAINERS_MAX && !is_sidecar &&
			node_assigned(pod, name, &g, NULL) != -ENOENT)
			ret_names[n++] = name;
	}
	return n;
}

/*
 * Chooses which container of the slot starts now. For an init container's slot, kubelets name the
 * container that gets the slot next.
 */
static bool choose_name(struct start *s, const struct kube_entry *entry)
{
	const struct tenant_pod *has = node_slot_pod(s->node, s->slot);
	const char *names[2 * ASSIGNED_CONTAINERS_MAX], *name;
	size_t n = init_names(s, entry->object, names), n_init = n;

	for (size_t i = 0; i < s->n_names; i++) {
		bool is_known = false;

		for (size_t k = 0; k < n_init; k++)
			is_known |= !strcmp(names[k], s->name[i]);
		if (!is_known)
			names[n++] = s->name[i];
	}
	name = node_find_starting(entry->object, names, n,
		has && !strcmp(has->uid, entry->uid) ? has->container : NULL);
	return name && str_copy(s->pod.container, sizeof(s->pod.container), str_from(name)) >= 0;
}

/* Finds the pod that has the slot, as the kubelet says. */
static const struct kube_entry *find_own(struct start *s, struct error *err)
{
	const struct kube_entry *entry = kube_cache_find(s->node->pods, s->pod.space, s->pod.name);

	s->pod.uid[0] = '\0';
	snprintf(s->pod.container, sizeof(s->pod.container), "%s", s->name[0]);
	if (!entry) {
		fail(err, ENOENT, "pod %s/%s is not known yet", s->pod.space, s->pod.name);
		return NULL;
	}
	if (!choose_name(s, entry)) {
		fail(err, EAGAIN, "divvyd does not know yet which container of the pod starts");
		return NULL;
	}
	return entry;
}

static const json_t *start_find_pod(struct start *s, struct error *err)
{
	const struct kube_entry *entry = NULL;

	if (s->request)
		entry = find_own(s, err);
	else
		serve_find_pod(s->node, &s->pod, &entry, err);
	if (!entry)
		return NULL;
	if (node_is_over(entry->object, s->pod.container) || node_is_terminating(entry->object)) {
		fail(err, ESTALE, "pod %s/%s is terminating", s->pod.space, s->pod.name);
		return NULL;
	}
	if (str_copy(s->pod.uid, sizeof(s->pod.uid), str_from(entry->uid)) < 0) {
		fail(err, EINVAL, "pod %s/%s: its uid is too long", s->pod.space, s->pod.name);
		return NULL;
	}
	if (s->request && start_is_elsewhere(s)) {
		fail(err, EBUSY, "container %s has another slot", s->pod.container);
		return NULL;
	}
	if (!node_has_assigned(entry->object)) {
		fail(err, ENOENT,
			"the pod has no assigned devices: another scheduler than divvy-scheduler "
			"bound it");
		return NULL;
	}
	return entry->object;
}

static void take_space(struct start *s, json_t *space)
{
	const char *label = kube_json_text_at(
		space, "metadata", "labels", "divvy.gpu/admission", NULL);
	struct error err;

	if (label && !strcmp(label, "ignore")) {
		fail(&err, EPERM,
			"namespace %s has the label divvy.gpu/admission=ignore: its pods get no "
			"slot",
			s->pod.space);
		start_refuse_container(s, GRPC_FAILED_PRECONDITION, &err);
		return;
	}
	json_decref(s->space);
	s->space = json_incref(space);
	loop_set_timer(&s->timer, 0);
}

static void on_space(void *data, const struct kube_answer *answer)
{
	struct start *s = data;
	struct node *node = s->node;
	_cleanup_json_ json_t *space = NULL;
	struct error err = {0};

	s->space_call = NULL;
	if (answer->result < 0 || kube_json_parse(answer->body, &space, &err) < 0) {
		kube_answer_explain(answer, "the pod's namespace cannot be read", &err);
		wait_or_refuse(s, &err);
		return;
	}
	json_decref(node->space_seen);
	node->space_seen = json_incref(space);
	node->space_seen_ns = clock_now_ns();
	take_space(s, space);
}

static int ask_space(struct start *s, struct error *err)
{
	json_t *seen = s->node->space_seen;
	const char *name = kube_json_text_at(seen, "metadata", "name", NULL);
	struct kube_write write = {
		.target = {"v1", "namespaces", NULL, s->pod.space, NULL},
		.timeout_ns = START_SPACE_NS,
		.done = on_space,
		.data = s,
		.ret_call = &s->space_call,
	};

	if (name && !strcmp(name, s->pod.space) &&
		clock_now_ns() < s->node->space_seen_ns + START_SPACE_AGE_NS) {
		take_space(s, seen);
		return 0;
	}
	return kube_read(s->node->client, &write, err);
}

static void start_check_pod(struct start *s)
{
	struct node *node = s->node;
	const struct tenant *t = node_tenant(node, s->slot);
	char text[NODE_CONFLICT_TEXT];
	struct error err = {0};
	const json_t *pod;

	if (node->is_pid_hidden) {
		fail(&err, EPERM,
			"divvyd lacks the host's PID namespace; set hostPID in its DaemonSet");
		start_refuse_container(s, GRPC_FAILED_PRECONDITION, &err);
		return;
	}
	if (node->conflict[0]) {
		fail(&err, EBUSY, "%s", node_conflict_text(node, text));
		start_refuse_container(s, GRPC_FAILED_PRECONDITION, &err);
		return;
	}
	pod = start_find_pod(s, &err);
	if (!pod && err.code == EACCES) {
		start_refuse_container(s, GRPC_FAILED_PRECONDITION, &err);
	} else if (!pod) {
		wait_or_refuse(s, &err);
	} else if (s->space || (t && tenant_pod_is(t->pod, s->pod.uid, s->pod.container)) ||
		is_its_remote(s)) {
		start_grant_slot(s, pod);
	} else if (ask_space(s, &err) < 0) {
		start_refuse_container(s, GRPC_INTERNAL, &err);
	}
}

static void start_on_timer(struct loop_timer *timer, uint64_t now)
{
	start_check_pod(timer->data);
}

static bool start_has_container_slot(const struct podres_container *c, const struct slot *slot)
{
	for (size_t i = 0; i < c->n_devices; i++)
		if (!strcmp(c->devices[i].resource, NODE_RESOURCE) &&
			!strcmp(c->devices[i].id, slot->id))
			return true;
	return false;
}

static int start_take_name(struct start *s, const struct podres_container *c, struct error *err)
{
	if (s->n_names && (strcmp(c->space, s->pod.space) != 0 || strcmp(c->pod, s->pod.name) != 0))
		return fail(err, EEXIST,
			"the kubelet says that two pods have slot %s: %s/%s, %s/%s", s->slot->id,
			s->pod.space, s->pod.name, c->space, c->pod);
	if (s->n_names == ASSIGNED_CONTAINERS_MAX)
		return fail(err, E2BIG, "more than %u containers have slot %s",
			ASSIGNED_CONTAINERS_MAX, s->slot->id);
	if (str_copy(s->pod.space, sizeof(s->pod.space), str_from(c->space)) < 0 ||
		str_copy(s->pod.name, sizeof(s->pod.name), str_from(c->pod)) < 0 ||
		str_copy(s->name[s->n_names], sizeof(s->name[0]), str_from(c->name)) < 0)
		return fail(err, EINVAL, "slot %s: a name that is too long", s->slot->id);
	s->n_names++;
	return 0;
}

/* `ids` is a list, or an object with a list for each NUMA node. */
static bool start_has_id(const json_t *ids, const char *id)
{
	const char *key, *one;
	json_t *some;
	size_t i;

	json_array_foreach(ids, i, some) {
		one = json_string_value(some);
		if (one && !strcmp(one, id))
			return true;
	}
	json_object_foreach((json_t *)ids, key, some)
		if (json_is_array(some) && start_has_id(some, id))
			return true;
	return false;
}

/*
 * Finds an init container whose slot no later container gets. The kubelet's list omits it, but the
 * checkpoint has it.
 */
static int take_written(struct start *s, struct error *err)
{
	_cleanup_json_ json_t *json = node_checkpoint(s->node);
	const json_t *all = kube_json_at(json, "Data", "PodDeviceEntries", NULL), *one;
	size_t i;
	int r = 0;

	json_array_foreach(all, i, one) {
		const char *uid = kube_json_text_at(one, "PodUID", NULL),
			   *name = kube_json_text_at(one, "ContainerName", NULL);
		const struct kube_entry *pod = uid ? kube_cache_find_uid(s->node->pods, uid) : NULL;

		if (!pod || !name || strcmp(kube_json_text(one, "ResourceName"), NODE_RESOURCE) ||
			!start_has_id(json_object_get(one, "DeviceIDs"), s->slot->id) ||
			!node_is_init(pod->object, name))
			continue;
		r = start_take_name(s,
			&(struct podres_container){pod->namespace_name, pod->name, name, NULL, 0},
			err);
		if (r < 0)
			break;
	}
	return r;
}

static void on_podres(void *data, const struct podres_list *list, const struct error *why)
{
	struct start *s = data;
	struct error err = {0};
	int r = 0;

	s->question = NULL;
	if (!list) {
		start_refuse_container(s, GRPC_UNAVAILABLE, why);
		return;
	}
	for (size_t i = 0; r >= 0 && i < list->n_containers; i++)
		if (start_has_container_slot(&list->containers[i], s->slot))
			r = start_take_name(s, &list->containers[i], &err);
	if (r >= 0 && !s->n_names)
		r = take_written(s, &err);
	if (r >= 0 && !s->n_names)
		r = fail(&err, ENOENT, "the kubelet lists no container with slot %s", s->slot->id);
	if (r < 0)
		start_refuse_container(s, GRPC_UNAVAILABLE, &err);
	else
		start_check_pod(s);
}

static uint32_t start_count_starts(const struct node *node)
{
	const struct start *s;
	uint32_t n = 0;

	LIST_FOREACH(s, &node->starts, link)
		n++;
	return n;
}

void start_pre_start(struct plugin_request *request)
{
	struct node *node = plugin_data(request->plugin);
	const struct plugin_ids *ids = &request->containers[0].devices;
	struct slot *slot = ids->n == 1 ? node_slot(node, ids->ids[0]) : NULL;
	struct start *s = slot && start_count_starts(node) < START_MAX ? calloc(1, sizeof(*s))
								       : NULL;

	if (!s) {
		plugin_refuse(request, GRPC_RESOURCE_EXHAUSTED, "%s",
			slot ? "too many containers start at once" : "one slot is needed");
		return;
	}
	s->node = node;
	s->request = request;
	s->slot = slot;
	s->until_ns = clock_now_ns() + START_WAIT_NS;
	s->timer.data = s;
	snprintf(s->pod.slot, sizeof(s->pod.slot), "%s", slot->id);
	LIST_INSERT_HEAD(&node->starts, s, link);
	if (loop_add_timer(node->agent->loop, &s->timer, start_on_timer) < 0 ||
		podres_ask(node->podres, on_podres, s, &s->question) < 0) {
		plugin_refuse(
			request, GRPC_RESOURCE_EXHAUSTED, "too many containers start at once");
		start_free(s);
	}
}

int start_serve(
	struct node *node, struct slot *slot, const struct tenant_pod *pod, struct error *err)
{
	struct start *s = start_count_starts(node) < START_MAX ? calloc(1, sizeof(*s)) : NULL;

	if (!s)
		return fail(err, EAGAIN, "too many containers start at once");
	s->node = node;
	s->slot = slot;
	s->pod = *pod;
	s->until_ns = clock_now_ns() + START_WAIT_NS;
	s->timer.data = s;
	snprintf(s->pod.slot, sizeof(s->pod.slot), "%s", slot->id);
	LIST_INSERT_HEAD(&node->starts, s, link);
	if (loop_add_timer(node->agent->loop, &s->timer, start_on_timer) < 0) {
		start_free(s);
		return fail(err, ENOMEM, "no memory");
	}
	/*
	 * The check runs from the timer, not here: it may answer at once, and the caller must know
	 * of the start before that.
	 */
	loop_set_timer(&s->timer, 0);
	return 0;
}

/* ---- live change ---- */

static int start_apply_resize(struct node *node, const struct slot *slot, struct tenant *t,
	const struct node_assigned *g, struct error *err)
{
	struct tenant_place places[SPEC_DEVICES_MAX];
	uint64_t quota[SPEC_DEVICES_MAX];
	bool is_same = true;
	int r = find_places(node, slot, g, places, PLACE_CHANGE, err);

	if (r < 0)
		return r;
	if (g->spec.count != t->n)
		return fail(err, EBUSY, "%u devices: the container has %u", g->spec.count, t->n);
	for (uint32_t i = 0; i < t->n; i++) {
		if (places[i].device != t->devices[i].device->index)
			return fail(err, EBUSY, "device %s: the container has %s", g->is.device[i],
				t->devices[i].device->info.uuid);
		quota[i] = places[i].quota_bytes;
		is_same &= quota[i] == t->devices[i].quota_bytes;
	}
	if (g->epoch < node->epoch && g->epoch != t->pod->epoch)
		return fail(err, ESTALE, "epoch %llu is older than %llu, the newest seen",
			(unsigned long long)g->epoch, (unsigned long long)node->epoch);
	if (is_same && spec_is_same(&t->spec, &g->spec) && t->pod->epoch == g->epoch)
		return 0;
	set_overcommit(node, places, t->n, t->pod->overcommit);
	r = tenant_change_to(t, &g->spec, quota, err);
	if (r < 0)
		return r;
	t->pod->epoch = g->epoch;
	node_saw_epoch(node, g->epoch);
	node_log(node, "changed", t);
	return state_tenant(t, err);
}

void start_apply(struct node *node, struct slot *slot, struct tenant *t, const json_t *pod)
{
	char before[NODE_NOTE];
	struct error err = {0};
	struct node_assigned g;
	int r;

	r = node_assigned(pod, t->pod->container, &g, &err);
	r = r < 0 ? r : start_apply_resize(node, slot, t, &g, &err);
	memcpy(before, slot->note, sizeof(before));
	snprintf(slot->note, sizeof(slot->note), "%.*s", (int)sizeof(slot->note) - 1,
		r < 0 ? err.msg : "");
	if (r < 0 && strcmp(before, slot->note) != 0)
		node_pod_event(node, t->pod, true, "GrantDiffers", "container %s: %s",
			t->pod->container, slot->note);
	node_status_touch(node);
}
