/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Passes each object of the API to the view, and updates pods (struct cpod) and the placement model
 * by the object. The files cluster-*.c handle the kinds of objects that the view does not know.
 * Only cpod_set_state() changes a pod's state, because it also counts nominated pods and
 * reservations. A pod whose place is not in the API yet keeps that place until the API shows a
 * node, the pod ends, or cluster_forget() runs. A pod with a known name and another uid is a new
 * pod, so cluster_set_pod() first frees the old one.
 */
#include "scheduler/cluster-internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "claims/claim-model.h"
#include "kube/time.h"
#include "manifest/manifest-json.h"
#include "manifest/pod-condition.h"
#include "spec/dialect.h"

static void leave_group(struct cluster *c, struct cpod *pod);

static void pod_free(struct cluster *c, struct cpod *pod)
{
	leave_group(c, pod);
	cpod_leave_object(c, pod);
	cpod_set_state(c, pod, CPOD_OTHER);
	cpod_drop(c, pod);
	cpod_leave_server(c, pod);
	cpod_move(c, pod, NULL);
	cluster_forget_labels(c, pod);
	json_decref(pod->running);
	json_decref(pod->json);
	assigned_done(&pod->assigned);
	tenancy_done(&pod->requested);
	free(pod->refusal);
	free(pod->tenants);
	free(pod->containers);
	free(pod->why);
	free(pod->claim_node);
	free(pod->claim_unit);
	free(pod->key);
	free(pod->ns);
	free(pod->name);
	free(pod->uid);
	cpod_free_refusal(pod);
	free(pod);
}

void cpod_set_state(struct cluster *c, struct cpod *pod, enum cpod_state state)
{
	if (pod->state == CPOD_NOMINATED && state != CPOD_NOMINATED)
		DL_DELETE2(c->nominated, pod, n_prev, n_next);
	else if (pod->state != CPOD_NOMINATED && state == CPOD_NOMINATED)
		DL_APPEND2(c->nominated, pod, n_prev, n_next);
	c->n_nominated -= pod->state == CPOD_NOMINATED;
	c->n_nominated += state == CPOD_NOMINATED;
	c->n_reserved -= pod->state == CPOD_RESERVED;
	c->n_reserved += state == CPOD_RESERVED;
	pod->state = state;
	if (state == CPOD_OTHER || state == CPOD_PENDING || state == CPOD_EXTENDER)
		cpod_release_claims(c, pod);
}

/* Sets the state of a pod that waits and has no place. */
static void cluster_set_waiting(struct cluster *c, struct cpod *pod)
{
	const bool is_asking = pod->requested.n || pod->refusal;

	cpod_set_state(c, pod,
		pod->is_ours        ? CPOD_PENDING
			: is_asking ? CPOD_EXTENDER
				    : CPOD_OTHER);
}

static bool has_place(const struct cpod *pod)
{
	return pod->state == CPOD_NOMINATED || pod->state == CPOD_ASSUMED ||
		pod->state == CPOD_RESERVED;
}

uint64_t cluster_epoch(const struct cluster *c)
{
	return c->epoch;
}

uint32_t cluster_n_nominated(const struct cluster *c)
{
	return c->n_nominated;
}

void cluster_nominated(const struct cluster *c, struct cpod **ret)
{
	struct cpod *pod;

	DL_FOREACH2(c->nominated, pod, n_next)
	*ret++ = pod;
}

uint32_t cluster_n_reserved(const struct cluster *c)
{
	return c->n_reserved;
}

struct cpod *cluster_next_pod(struct cluster *c, struct cpod *pod)
{
	return pod ? pod->hh.next : c->pods;
}

int cpod_set_reported(struct cluster *c, struct cpod *pod, bool is_reported)
{
	int r;

	if (pod->is_reported == is_reported)
		return 0;
	pod->is_reported = is_reported;
	pod->is_reclaimed &= is_reported;
	cpod_drop(c, pod);
	r = cpod_restore(c, pod);
	return r < 0 || !pod->node ? r : cnode_refresh(c, pod->node);
}

int cluster_new(const struct cluster_config *config, struct cluster **ret, struct error *err)
{
	const struct place_config place = {.policy = config->policy};
	_cleanup_(cluster_free_p) struct cluster *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return fail(err, ENOMEM, "out of memory");
	c->config = *config;
	r = view_new(config->minor, &c->view, err);
	r = r < 0 ? r : place_new(&place, &c->place, err);
	r = r < 0 ? r : cluster_new_claims(c, err);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(c);
	return 0;
}

void cluster_free(struct cluster *c)
{
	struct cpod *pod, *next_pod;
	struct cnode *node, *next_node;
	struct ctext *text, *next_text;

	if (!c)
		return;
	HASH_ITER(hh, c->pods, pod, next_pod) {
		HASH_DEL(c->pods, pod);
		pod_free(c, pod);
	}
	HASH_ITER(hh, c->nodes, node, next_node)
		cnode_free(c, node);
	HASH_ITER(hh, c->dialects, text, next_text) {
		HASH_DEL(c->dialects, text);
		free(text->key);
		free(text->value);
		free(text);
	}
	cluster_free_budgets(c);
	cluster_free_groups(c);
	cluster_free_policies(c);
	free(c->queues);
	free(c->by_queue);
	free(c->by_place);
	free(c->by_tenant);
	place_free(c->place);
	view_free(c->view);
	claim_model_free(c->claim_model);
	claims_free(c->claims);
	free(c->claims_by_queue);
	free(c->usage_ns);
	free(c);
}

void cluster_set_time(struct cluster *c, uint64_t now_ns, uint64_t real_ns)
{
	struct cnode *node, *next;

	c->now_ns = now_ns;
	c->real_ns = real_ns;
	/* This function is called for each change of an object, so it must not visit all nodes. */
	if (now_ns <= c->stale_at_ns)
		return;
	c->stale_at_ns = UINT64_MAX;
	HASH_ITER(hh, c->nodes, node, next) {
		cnode_note_lease(c, node);
		if (cnode_is_stale(c, node) != node->is_stale && node->is_there && node->has_gpus)
			cnode_rebuild(c, node, NULL);
	}
}

bool cluster_take_news(struct cluster *c)
{
	const bool has_news = c->has_news;

	c->has_news = false;
	return has_news;
}

uint32_t cluster_take_opened(struct cluster *c)
{
	const uint32_t n = c->n_opened;

	c->n_opened = 0;
	return n;
}

/* ---- dialects of namespaces ---- */

const char *cluster_dialects(const struct cluster *c, const char *ns)
{
	struct ctext *text;

	HASH_FIND_STR(c->dialects, ns, text);
	return text ? text->value : "";
}

static int set_dialects(struct cluster *c, const char *ns, const char *value)
{
	struct ctext *text;
	char *copy;

	HASH_FIND_STR(c->dialects, ns, text);
	if (!text && (!value || !*value))
		return 0;
	copy = str_dup(str_from(value));
	if (!copy)
		return -ENOMEM;
	if (!text) {
		text = calloc(1, sizeof(*text));
		if (text)
			text->key = str_dup(str_from(ns));
		if (text && text->key)
			HASH_ADD_KEYPTR(hh, c->dialects, text->key, strlen(text->key), text);
		if (!text || !text->key || !text->hh.tbl) {
			if (text)
				free(text->key);
			free(text);
			free(copy);
			return -ENOMEM;
		}
	}
	free(text->value);
	text->value = copy;
	return 0;
}

/* ---- pods ---- */

struct cpod *cluster_pod_by_key(struct cluster *c, const char *key)
{
	struct cpod *pod = NULL;

	HASH_FIND_STR(c->pods, key, pod);
	return pod;
}

struct cpod *cluster_pod(struct cluster *c, const char *ns, const char *name)
{
	char key[SPEC_GROUP * 2 + 2];

	return (size_t)snprintf(key, sizeof(key), "%s/%s", ns, name) < sizeof(key)
		? cluster_pod_by_key(c, key)
		: NULL;
}

const struct pod *cpod_view(const struct cluster *c, const struct cpod *pod)
{
	const struct object *object = view_find(c->view, OBJECT_POD, pod->ns, pod->name);

	return object ? pod_from_object(object) : NULL;
}

void cpod_move(struct cluster *c, struct cpod *pod, struct cnode *node)
{
	struct cnode *old = pod->node;

	if (old == node)
		return;
	if (old)
		DL_DELETE(old->pods, pod);
	pod->node = node;
	if (node)
		DL_APPEND(node->pods, pod);
	if (old)
		cnode_release(c, old);
}

static struct cpod *pod_new(struct cluster *c, const char *ns, const char *name, const char *uid)
{
	struct cpod *pod = calloc(1, sizeof(*pod));
	char key[SPEC_GROUP * 2 + 2];

	if (!pod || (size_t)snprintf(key, sizeof(key), "%s/%s", ns, name) >= sizeof(key)) {
		free(pod);
		return NULL;
	}
	pod->key = str_dup(str_from(key));
	pod->ns = str_dup(str_from(ns));
	pod->name = str_dup(str_from(name));
	pod->uid = str_dup(str_from(uid));
	if (pod->key && pod->ns && pod->name && pod->uid)
		HASH_ADD_KEYPTR(hh, c->pods, pod->key, strlen(pod->key), pod);
	if (pod->hh.tbl)
		return pod;
	pod_free(c, pod);
	return NULL;
}

static void leave_group(struct cluster *c, struct cpod *pod)
{
	struct cgroup *group = pod->in;

	if (!group)
		return;
	DL_DELETE2(group->pods, pod, gprev, gnext);
	pod->in = NULL;
	if (group->pods)
		return;
	HASH_DEL(c->groups, group);
	free(group->key);
	free(group);
}

static struct cgroup *find_group(const struct cluster *c, const char *key)
{
	struct cgroup *group;

	HASH_FIND_STR(c->groups, key, group);
	return group;
}

static int join_group(struct cluster *c, struct cpod *pod)
{
	struct cgroup *group = find_group(c, pod->group);

	if (!group) {
		group = calloc(1, sizeof(*group));
		if (!group)
			return -ENOMEM;
		group->key = str_dup(str_from(pod->group));
		if (group->key)
			HASH_ADD_KEYPTR(hh, c->groups, group->key, strlen(group->key), group);
		if (!group->hh.tbl) {
			free(group->key);
			free(group);
			return -ENOMEM;
		}
	}
	DL_APPEND2(group->pods, pod, gprev, gnext);
	pod->in = group;
	return 0;
}

/*
 * Makes the group's name unique in the cluster: "NAMESPACE/NAME", or "/SPACE/NAME" for a group in a
 * label space. No namespace has an empty name.
 */
static void cluster_join_group(const struct cluster *c, struct cpod *pod)
{
	struct str rest = str_from(pod->requested.group), space;
	const char *ns = pod->ns;

	pod->group[0] = '\0';
	if (!pod->requested.group[0] || (cpod_is_group_ignored(pod) && !c->has_kube_groups))
		return;
	if (strchr(pod->requested.group, '/') && str_split(&rest, '/', &space) &&
		cluster_is_in_space(c, ns, space))
		ns = "";
	snprintf(pod->group, sizeof(pod->group), "%s/%s", ns, pod->requested.group);
}

/* A pod that has ended remains a member if it has completed. */
static bool cluster_is_member(const struct cpod *pod, const struct pod *seen)
{
	return seen && (!seen->is_over || pod->is_done);
}

int cpod_find_group(struct cluster *c, struct cpod *pod)
{
	const struct pod *seen = cpod_view(c, pod);

	leave_group(c, pod);
	cluster_join_group(c, pod);
	cpod_size_group(pod);
	return pod->group[0] && cluster_is_member(pod, seen) ? join_group(c, pod) : 0;
}

uint32_t cluster_members(struct cluster *c, const char *key, struct cpod **ret, uint32_t most)
{
	struct cgroup *group = find_group(c, key);
	struct cpod *pod;
	uint32_t n = 0;

	if (!group)
		return 0;
	DL_FOREACH2(group->pods, pod, gnext)
	{
		if (n < most)
			ret[n] = pod;
		n++;
	}
	return n;
}

/*
 * Returns whether the pod has the label of tenants. Without this label the webhook does not check
 * later edits by the user, so neither requested nor assigned keys count.
 */
static bool is_tenant(const struct cluster *c, const struct cpod *pod)
{
	const char *label = labels_get(&cpod_view(c, pod)->object.labels, DIALECT_TENANT_LABEL);

	return label && !strcmp(label, "true");
}

static int refuse_untold(struct cluster *c, struct cpod *pod, struct error *err)
{
	return !pod->requested.n || is_tenant(c, pod)
		? 0
		: fail(err, EPERM,
			  "label " DIALECT_TENANT_LABEL "=true is missing: the pod requests a "
			  "share but was created without divvy's webhook; create it again");
}

static uint32_t greatest_priority(const struct tenancy *requested)
{
	uint32_t most = 0;

	for (uint32_t i = 0; i < requested->n; i++)
		most = MAX(most, requested->v[i].spec.priority);
	return requested->n ? most : 50;
}

static int cluster_read_requested(struct cluster *c, struct cpod *pod, json_t *json)
{
	struct error err = {0};

	cluster_forget_labels(c, pod);
	cpod_leave_object(c, pod);
	tenancy_done(&pod->requested);
	free(TAKE_PTR(pod->refusal));
	if (tenancy_read(json, cluster_dialects(c, pod->ns), &pod->requested, &err) < 0 ||
		refuse_untold(c, pod, &err) < 0) {
		tenancy_done(&pod->requested);
		pod->refusal = str_dup(str_from(err.msg));
		if (!pod->refusal)
			return -ENOMEM;
	}
	pod->gpu_priority = greatest_priority(&pod->requested);
	cluster_join_group(c, pod);
	if (cpod_join_object(c, pod) < 0)
		return -ENOMEM;
	cpod_size_group(pod);
	return 0;
}

/*
 * Reads the assigned keys. If they are faulty, the pod counts as a pod without assigned keys, as in
 * divvyd.
 */
static int cluster_read_assigned(
	struct cluster *c, struct cpod *pod, json_t *json, bool *ret_changed)
{
	_cleanup_manifest_json_ struct manifest_json manifest = {0};
	struct assigned assigned = {0};
	int r = manifest_json_read(
		json_object_get(json, "metadata"), NULL, STR(""), &manifest, NULL);

	if (r >= 0 && is_tenant(c, pod))
		r = assigned_parse(manifest.pod.annotations, &assigned, NULL);
	if (r < 0)
		assigned_done(&assigned);
	if (r == -ENOMEM)
		return r;
	*ret_changed = !assigned_is_same(&assigned, &pod->assigned);
	assigned_done(&pod->assigned);
	pod->assigned = assigned;
	return 0;
}

static bool cluster_is_ready(const json_t *json)
{
	const char *status = kube_json_text_at(kube_json_condition(json, "Ready"), "status", NULL);

	return status && !strcmp(status, "True");
}

static void read_times(struct cpod *pod, json_t *json)
{
	const json_t *metadata = json_object_get(json, "metadata");
	const char *created = json_string_value(json_object_get(metadata, "creationTimestamp"));
	uint64_t real_ns;

	if (created && kube_time_parse(str_from(created), &real_ns) == 0)
		pod->created_ns = real_ns;
}

static uint32_t cluster_milli_share(int64_t milli)
{
	return (uint32_t)MIN(MAX(milli, INT64_C(0)), (int64_t)INT32_MAX);
}

/* Handles a pod with a node. */
static int set_bound(struct cluster *c, struct cpod *pod, const char *name, json_t *json)
{
	struct cnode *node = cnode_get(c, name);
	bool has_changed = false;
	int r;

	if (!node)
		return -ENOMEM;
	r = cluster_read_assigned(c, pod, json, &has_changed);
	if (r < 0)
		return r;
	has_changed |= cpod_find_queue(c, pod);
	has_changed |= pod->node != node || pod->state != CPOD_BOUND;
	pod->reclaims_ns = 0;
	cpod_forgive(pod);
	if (has_changed) {
		cpod_drop(c, pod);
		cpod_move(c, pod, node);
		cpod_set_state(c, pod, CPOD_BOUND);
		r = cpod_find_server(c, pod);
		r = r < 0 ? r : cpod_restore(c, pod);
		/*
		 * The node may have counted the pod's tenant as an orphan until now. Or the changed
		 * keys may have made an orphan of a tenant that divvyd confirms.
		 */
		if (r == 0 && cpod_devices_node(pod)->n_orphans)
			r = cnode_rebuild(c, cpod_devices_node(pod), NULL);
	}
	return r < 0 ? r : cnode_refresh(c, node);
}

/* Handles a pod that waits, is not ours, or has ended. */
static int set_unbound(struct cluster *c, struct cpod *pod, bool is_waiting)
{
	struct cnode *node = pod->node, *server = pod->server;

	if (is_waiting)
		cpod_find_queue(c, pod);
	if (is_waiting && has_place(pod))
		return view_assume(c->view, pod->ns, pod->name, node->name);
	if (node)
		c->has_news = true;
	cpod_drop(c, pod);
	if (server) {
		DL_DELETE2(server->served, pod, sprev, snext);
		pod->server = NULL;
		/*
		 * While the device node still confirms the pod's tenant, the tenant counts as an
		 * orphan.
		 */
		cnode_rebuild(c, server, NULL);
		cnode_release(c, server);
	}
	if (node) {
		DL_DELETE(node->pods, pod);
		pod->node = NULL;
		/*
		 * While the node still confirms the pod's tenant, the tenant counts as an
		 * orphan.
		 */
		if (node->has_gpus && pod->assigned.n)
			cnode_rebuild(c, node, NULL);
		else
			cnode_refresh(c, node);
		cnode_release(c, node);
	}
	assigned_done(&pod->assigned);
	pod->is_reported = pod->is_reclaimed = false;
	if (is_waiting)
		cluster_set_waiting(c, pod);
	else
		cpod_set_state(c, pod, CPOD_OTHER);
	return 0;
}

/* The placement policy learns from requests which tenants are typical. */
static void note_arrival(struct cluster *c, const struct cpod *pod)
{
	struct place_spec spec;

	for (uint32_t i = 0; i < pod->requested.n; i++)
		if (pod->requested.v[i].host == i && cluster_spec(c, pod, i, &spec) == 0)
			place_note_arrival(c->place, &spec);
}

static int cluster_set_pod(struct cluster *c, json_t *json, struct error *err)
{
	const json_t *metadata = json_object_get(json, "metadata");
	const char *ns = json_string_value(json_object_get(metadata, "namespace"));
	const char *name = json_string_value(json_object_get(metadata, "name"));
	const char *uid = json_string_value(json_object_get(metadata, "uid"));
	const struct pod *seen;
	struct cpod *pod;
	bool is_new, is_waiting;
	int r;

	r = view_set(c->view, OBJECT_POD, json, err);
	if (r < 0)
		return r;
	pod = cluster_pod(c, ns ? ns : "", name);
	if (pod && strcmp(pod->uid, uid ? uid : "")) {
		/*
		 * This is another pod with the same name: the earlier pod leaves its node as if it
		 * had been removed.
		 */
		set_unbound(c, pod, false);
		HASH_DEL(c->pods, pod);
		pod_free(c, pod);
		pod = NULL;
	}
	is_new = !pod;
	if (is_new) {
		pod = pod_new(c, ns ? ns : "", name, uid);
		if (!pod)
			return fail(err, ENOMEM, "out of memory");
	}
	if (pod->is_nomination_void)
		view_void_nomination(c->view, pod->ns, pod->name);
	seen = cpod_view(c, pod);
	pod->is_ours = seen->scheduler && !strcmp(seen->scheduler, c->config.scheduler_name);
	pod->is_deleting = seen->object.is_deleting;
	pod->priority = seen->priority;
	pod->cpu_milli = cluster_milli_share(seen->request.cpu_milli);
	pod->memory_bytes = (uint64_t)MAX(seen->request.memory_bytes, INT64_C(0));
	read_times(pod, json);
	r = cluster_read_requested(c, pod, json);
	leave_group(c, pod);
	pod->is_done = seen->is_done && *seen->node;
	pod->is_ready = cluster_is_ready(json);
	if (r < 0 || (pod->group[0] && cluster_is_member(pod, seen) && join_group(c, pod) < 0))
		return fail(err, ENOMEM, "out of memory");
	is_waiting = (pod->is_ours || pod->requested.n || pod->refusal) && !seen->is_over &&
		!*seen->node && !pod->is_deleting;
	if (is_new && !seen->is_over)
		note_arrival(c, pod);
	json_decref(pod->running);
	pod->running = NULL;
	json_decref(pod->json);
	pod->json = is_waiting ? json_incref(json) : NULL;
	if (!seen->is_over && *seen->node)
		r = set_bound(c, pod, seen->node, json);
	else
		r = set_unbound(c, pod, is_waiting);
	if (r == 0 && pod->assigned.n && !seen->is_over && *seen->node)
		r = tenancy_running(json, c->real_ns, &pod->running);
	return r < 0 ? fail(err, -r, "pod %s: %s", name, strerror(-r)) : 0;
}

static int remove_pod(struct cluster *c, const char *ns, const char *name)
{
	struct cpod *pod = cluster_pod(c, ns, name);

	if (!pod)
		return view_remove(c->view, OBJECT_POD, ns, name);
	cpod_note_ending_claims(c, pod);
	view_remove(c->view, OBJECT_POD, ns, name);
	set_unbound(c, pod, false);
	HASH_DEL(c->pods, pod);
	pod_free(c, pod);
	return 0;
}

void cluster_forget(struct cluster *c, struct cpod *pod)
{
	struct cnode *node = pod->node;

	if (!has_place(pod))
		return;
	view_assume(c->view, pod->ns, pod->name, "");
	/*
	 * The API shows the nomination until service-condition.c writes the pod's next condition,
	 * so the view must ignore the nomination until then.
	 */
	pod->is_nomination_void = pod->is_ours;
	if (pod->is_nomination_void)
		view_void_nomination(c->view, pod->ns, pod->name);
	cpod_drop(c, pod);
	cpod_leave_server(c, pod);
	assigned_done(&pod->assigned);
	cluster_set_waiting(c, pod);
	if (node)
		cnode_refresh(c, node);
	cpod_move(c, pod, NULL);
	c->has_news = true;
}

/* ---- all kinds of objects ---- */

static const char *cluster_object_name(const json_t *json)
{
	return json_string_value(json_object_get(json_object_get(json, "metadata"), "name"));
}

static int cluster_set_node(struct cluster *c, json_t *json, struct error *err)
{
	struct cnode *node;
	int r = view_set(c->view, OBJECT_NODE, json, err);

	if (r < 0)
		return r;
	node = cnode_get(c, cluster_object_name(json));
	if (!node)
		return fail(err, ENOMEM, "out of memory");
	if (!node->is_there) {
		node->is_there = true;
		return cnode_rebuild(c, node, err);
	}
	r = cnode_refresh(c, node);
	return r < 0 ? fail(err, -r, "node %s: %s", node->name, strerror(-r)) : r;
}

static int set_namespace(struct cluster *c, json_t *json, struct error *err)
{
	const json_t *metadata = json_object_get(json, "metadata");
	int r = view_set(c->view, OBJECT_NAMESPACE, json, err);

	cluster_note_namespace(c);
	return r < 0
		? r
		: set_dialects(c, cluster_object_name(json),
			  json_string_value(json_object_get(
				  json_object_get(metadata, "annotations"), DIALECT_LIST_KEY)));
}

static int set_own(struct cluster *c, int kind, json_t *json)
{
	switch (kind) {
	case CLUSTER_LEASE: return cluster_set_lease(c, json);
	case CLUSTER_POLICY: return cluster_set_policy(c, json);
	case CLUSTER_BUDGET: return cluster_set_budget(c, json);
	default: return cluster_set_group(c, kind, json);
	}
}

void cluster_set_minor(struct cluster *c, unsigned minor)
{
	view_set_minor(c->view, minor);
	c->has_news = true;
}

static bool can_change_taints(int kind)
{
	return kind == OBJECT_POD || kind == OBJECT_NAMESPACE || kind == CLUSTER_GPU_NODE ||
		kind == CLUSTER_POLICY;
}

int cluster_set(struct cluster *c, int kind, json_t *json, struct error *err)
{
	int r;

	c->has_taint_news |= can_change_taints(kind);
	if (!cluster_object_name(json) || !*cluster_object_name(json))
		return fail(err, EINVAL, "an object without a name");
	/*
	 * A change of any object but a Lease may help a waiting pod. Pods, policies, JobSets and
	 * RayClusters change often, so the code for these kinds sets has_news itself, and only
	 * after a change that may help. Of a VolumeAttachment only the removal helps.
	 */
	c->has_news |= kind != OBJECT_POD && kind != CLUSTER_LEASE && kind != CLUSTER_POLICY &&
		kind != CLUSTER_JOB_SET && kind != CLUSTER_RAY_CLUSTER && kind != OBJECT_ATTACHMENT;
	if (kind == CLUSTER_GPU_NODE)
		return cluster_set_gpus(c, json, err);
	if (cluster_is_claims_kind(kind))
		return cluster_set_claims(c, kind, json, err);
	if (kind >= OBJECT_KINDS) {
		r = set_own(c, kind, json);
		return r < 0 ? fail(err, -r, "%s: %s", cluster_object_name(json), strerror(-r)) : r;
	}
	switch (kind) {
	case OBJECT_POD: return cluster_set_pod(c, json, err);
	case OBJECT_NODE: return cluster_set_node(c, json, err);
	case OBJECT_NAMESPACE: return set_namespace(c, json, err);
	default: return view_set(c->view, (enum object_kind)kind, json, err);
	}
}

int cluster_remove(struct cluster *c, int kind, const char *ns, const char *name)
{
	struct cnode *node;

	c->has_taint_news |= can_change_taints(kind);
	c->has_news |= kind != CLUSTER_LEASE;
	if (cluster_is_claims_kind(kind))
		return cluster_remove_claims(c, kind, ns, name);
	switch (kind) {
	case OBJECT_POD: return remove_pod(c, ns, name);
	case OBJECT_NODE:
	case CLUSTER_GPU_NODE:
	case CLUSTER_LEASE:
		node = cnode_find(c, name);
		if (!node)
			return -ENOENT;
		if (kind == OBJECT_NODE) {
			view_remove(c->view, OBJECT_NODE, "", name);
			node->is_there = false;
		} else if (kind == CLUSTER_GPU_NODE) {
			cnode_remove_gpus(c, node);
		} else {
			node->has_lease = false;
		}
		cnode_rebuild(c, node, NULL);
		cnode_release(c, node);
		return 0;
	case CLUSTER_POLICY: return cluster_remove_policy(c, name);
	case CLUSTER_BUDGET: return cluster_remove_budget(c, ns, name);
	case CLUSTER_GROUP:
	case CLUSTER_SIGS_GROUP:
	case CLUSTER_VOLCANO_GROUP:
	case CLUSTER_KUBE_GROUP:
	case CLUSTER_JOB_SET:
	case CLUSTER_RAY_CLUSTER: return cluster_remove_group(c, kind, ns, name);
	case OBJECT_NAMESPACE:
		set_dialects(c, name, "");
		cluster_note_namespace(c);
		break;
	default: break;
	}
	return view_remove(c->view, (enum object_kind)kind, ns, name);
}

/* ---- access to pods ---- */

struct cpod *cluster_pod_on(struct cluster *c, const char *name, const char *uid)
{
	const struct cnode *node = cnode_find(c, name);

	return node ? cnode_pod(node, uid) : NULL;
}

enum cpod_state cpod_state(const struct cpod *pod)
{
	return pod->state;
}

const char *cpod_key(const struct cpod *pod)
{
	return pod->key;
}

const char *cpod_ns(const struct cpod *pod)
{
	return pod->ns;
}

const char *cpod_name(const struct cpod *pod)
{
	return pod->name;
}

const char *cpod_uid(const struct cpod *pod)
{
	return pod->uid;
}

const char *cpod_node(const struct cpod *pod)
{
	return pod->node ? pod->node->name : "";
}

bool cpod_is_gated(const struct cpod *pod)
{
	return json_array_size(kube_json_at(pod->json, "spec", "schedulingGates", NULL)) > 0;
}

const char *cpod_why(const struct cpod *pod)
{
	return pod->why ? pod->why : "";
}

json_t *cpod_json(const struct cpod *pod)
{
	return pod->json;
}

const struct assigned *cpod_assigned(const struct cpod *pod)
{
	return &pod->assigned;
}

const struct tenancy *cpod_requested(const struct cpod *pod)
{
	return &pod->requested;
}

int64_t cpod_priority(const struct cpod *pod)
{
	return pod->priority;
}

uint32_t cpod_gpu_priority(const struct cpod *pod)
{
	return pod->gpu_priority;
}

uint64_t cpod_created_ns(const struct cpod *pod)
{
	return pod->created_ns;
}

void cpod_accept(struct cpod *pod)
{
	pod->is_accepted = true;
}

bool cpod_is_older(const struct cpod *pod, uint64_t epoch)
{
	return pod->is_accepted && pod->state == CPOD_BOUND && pod->assigned.n &&
		pod->assigned.epoch < epoch && !pod->is_ready && !pod->is_deleting;
}

bool cpod_is_deleting(const struct cpod *pod)
{
	return pod->is_deleting;
}

bool cpod_is_done(const struct cpod *pod)
{
	return pod->is_done;
}

bool cpod_is_reclaimed(const struct cpod *pod)
{
	return pod->is_reclaimed;
}

uint64_t cpod_reclaim_at_ns(const struct cpod *pod)
{
	return pod->reclaim_at_ns;
}

uint64_t cpod_give_up_ns(const struct cpod *pod)
{
	return pod->give_up_ns;
}

uint64_t cpod_reported_ns(const struct cpod *pod)
{
	return pod->is_reported && !pod->is_deleting ? MAX(pod->reported_ns, UINT64_C(1)) : 0;
}

void cpod_set_reported_ns(struct cpod *pod, uint64_t now_ns)
{
	pod->reported_ns = now_ns;
}

json_t *cpod_running(const struct cpod *pod)
{
	return pod->running;
}

bool cpod_take_resize(struct cpod *pod)
{
	const bool has_resize = pod->has_resize;

	pod->has_resize = false;
	return has_resize;
}

void cpod_note_resize(struct cpod *pod)
{
	pod->has_resize = true;
}

bool cpod_deny(struct cpod *pod, struct str sentence)
{
	const uint64_t hash = sentence.n ? str_hash(sentence) | 1 : 0;
	const bool is_new = pod->denied != hash;

	pod->denied = hash;
	return is_new;
}

bool cpod_is_denied(const struct cpod *pod)
{
	return pod->denied;
}

int cluster_readd(struct cluster *c, struct cpod *pod)
{
	return cpod_set_reported(c, pod, false);
}

bool cpod_is_ours(const struct cpod *pod)
{
	return pod->is_ours;
}

bool cpod_needs_device(const struct cpod *pod)
{
	return pod->needs_device;
}

void cpod_set_needs_device(struct cpod *pod, bool needs_device)
{
	pod->needs_device = needs_device;
}

bool cpod_is_need_reported(const struct cpod *pod)
{
	const json_t *condition = kube_json_condition(pod->json, POD_CONDITION_NEEDS_DEVICE);
	const char *status = kube_json_text_at(condition, "status", NULL);

	return (status && !strcmp(status, "True")) == pod->needs_device;
}

bool cpod_is_reported(const struct cpod *pod, enum reason reason, const char *sentence)
{
	const json_t *condition = kube_json_condition(pod->json, "PodScheduled");
	const char *its = kube_json_text_at(condition, "reason", NULL),
		   *message = kube_json_text_at(condition, "message", NULL);

	return its && !strcmp(its, reason_name(reason)) && message && !strcmp(message, sentence);
}

void cluster_print(const struct cluster *c, struct buf *out)
{
	struct place_node_view node;

	for (uint32_t at = 0; at < place_n_nodes(c->place); at++) {
		if (!place_node_get(c->place, at, &node))
			continue;
		buf_addf(out, "%s:", node.name);
		for (uint32_t i = 0; i < node.n_devices; i++) {
			struct place_device_view d;

			place_device_get(c->place, node.first_device + i, &d);
			buf_addf(out, " %s %u/%u %u%s", d.uuid, d.share_free, d.share_all,
				d.n_tenants, d.is_closed ? " closed" : "");
		}
		buf_add_byte(out, '\n');
	}
}
