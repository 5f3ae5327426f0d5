/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file connects the caches, the job queue, the election and the servers. Changes in the caches
 * add keys to the queue, and controller_on_timer() runs a job for each key that is due. Jobs start
 * only while this controller leads and its Lease permits writes. A controller that does not lead
 * drops keys, and on_lead() queues all objects anew. controller_project_object() keeps only those
 * pods in memory that concern divvy. The dashboard gets its changes from the same callbacks,
 * whether the controller leads or not. controller_free() frees the client before the jobs, since
 * calls in flight refer to jobs.
 */
#include "controller/controller.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/rand.h"
#include "controller/claim-template.h"
#include "controller/pool-view.h"
#include "controller/prune.h"
#include "controller/share-pod.h"
#include "identity/identity.h"
#include "kube/kube-config.h"
#include "manifest/placeholder.h"
#include "manifest/policy.h"

#define OWNER_LABEL "divvy.gpu/owner"
#define PATH_MAX_BYTES 1024u
#define POOL_DELAY_NS (50 * NSEC_PER_MSEC)

const json_t *controller_find(
	const struct controller *c, enum controller_cache which, const char *ns, const char *name)
{
	const struct kube_entry *entry = kube_cache_find(
		c->watched[which].cache, ns ? ns : "", name ? name : "");

	return entry ? entry->object : NULL;
}

const json_t *controller_find_uid(
	const struct controller *c, enum controller_cache which, const char *uid)
{
	const struct kube_entry *entry = uid && uid[0]
		? kube_cache_find_uid(c->watched[which].cache, uid)
		: NULL;

	return entry ? entry->object : NULL;
}

bool controller_is_synced(const struct controller *c, enum controller_cache which)
{
	return kube_cache_is_synced(c->watched[which].cache);
}

const struct kube_entry *controller_next(
	const struct controller *c, enum controller_cache which, const struct kube_entry *entry)
{
	return kube_cache_next(c->watched[which].cache, entry);
}

bool controller_may_write(const struct controller *c)
{
	return c->is_leading && (!c->lease || kube_lease_may_write(c->lease));
}

/* ---- namespaces ---- */

int controller_ns_facts(
	const struct controller *c, const char *ns, const json_t *ns_object, struct ns_facts *ret)
{
	const json_t *object = ns_object ? ns_object : controller_find(c, CACHE_NAMESPACES, "", ns);
	const json_t *labels = kube_json_at(object, "metadata", "labels", NULL);
	const json_t *annotations = kube_json_at(object, "metadata", "annotations", NULL);
	const char *list = json_string_value(json_object_get(annotations, DIALECT_LIST_KEY));
	const struct kube_entry *e = NULL;

	memset(ret, 0, sizeof(*ret));
	ret->facts.has_claims = c->options.has_claims;
	ret->dialects = BUF_INIT(64u << 10);
	if (!object)
		return -ENOENT;
	buf_add_text(&ret->dialects, list ? list : "");
	while ((e = controller_next(c, CACHE_POLICIES, e)) &&
		ret->facts.n_policies < POD_TRANSLATE_POLICIES_MAX) {
		const json_t *spec = json_object_get(e->object, "spec");

		if (!policy_selects(spec, ns, labels))
			continue;
		ret->policy[ret->facts.n_policies++] = spec;
		policy_add_dialects(spec, &ret->dialects);
	}
	ret->facts.policy = ret->policy;
	ret->facts.dialects = buf_text(&ret->dialects);
	return 0;
}

void ns_facts_done(struct ns_facts *facts)
{
	buf_done(&facts->dialects);
}

/* ---- events ---- */

void controller_event(struct controller *c, const json_t *object, const char *api_version,
	const char *kind, bool is_warning, const char *reason, const char *message)
{
	const struct kube_event event = {.type = is_warning ? "Warning" : "Normal",
		.reason = reason,
		.message = message,
		.object = {.api_version = api_version,
			.kind = kind,
			.namespace_name = kube_json_text_at(object, "metadata", "namespace", NULL),
			.name = kube_json_text_at(object, "metadata", "name", NULL),
			.uid = kube_json_text_at(object, "metadata", "uid", NULL)}};

	kube_record(c->recorder, &event);
}

/* ---- jobs ---- */

static const struct {
	const char *name; /* for log messages */
	job_fn *run;
} job_kinds[JOB_KINDS] = {
	[JOB_SHARE_POD] = {"share-pod", job_share_pod},
	[JOB_KUBESHARE_POD] = {"kubeshare-pod", job_kubeshare_pod},
	[JOB_NODE] = {"node", job_node},
	[JOB_NAMESPACE] = {"namespace", job_namespace},
	[JOB_CERTIFICATE] = {"certificate", job_certificate},
	[JOB_POOL] = {"pool", job_pool},
	[JOB_AUTHORITY] = {"authority", job_authority},
	[JOB_SIGN] = {"sign", job_sign},
	[JOB_CLAIM_TEMPLATE] = {"claim-template", job_claim_template},
	[JOB_CLAIM_TEMPLATE_END] = {"claim-template-end", job_claim_template_end},
};

/*
 * Time from a template's creation to the first look for pods that wait for it, and between two
 * looks. Later pods need it again, and a removal for each pod would be two writes for each pod.
 */
#define TEMPLATE_STAYS_NS (60 * NSEC_PER_SEC)

/*
 * A leader whose Lease has expired may not write until it renews or loses the Lease. The controller
 * looks again after this time.
 */
#define LEASE_LOOK_NS (100 * NSEC_PER_MSEC)

static void controller_arm_timer(struct controller *c)
{
	uint64_t next = c->is_leading ? queue_next_ns(c->queue) : CLOCK_NEVER;

	if (next != CLOCK_NEVER && !controller_may_write(c))
		next = MAX(next, clock_now_ns() + LEASE_LOOK_NS);
	if (next != CLOCK_NEVER && queue_counts(c->queue).n_running < CONTROLLER_JOBS_MAX)
		loop_set_timer(&c->timer, next);
	else
		loop_cancel_timer(&c->timer);
}

void controller_enqueue(struct controller *c, enum job_kind kind, const char *ns, const char *name)
{
	if (!c->is_leading)
		return; /* when this controller begins to lead, on_lead() queues all objects */
	queue_add(c->queue, (struct queue_key){(int)kind, ns ? ns : "", name ? name : ""});
	controller_arm_timer(c);
}

void controller_end_template_later(struct controller *c, const char *ns, const char *name)
{
	if (!c->is_leading)
		return;
	queue_add_at(c->queue, (struct queue_key){JOB_CLAIM_TEMPLATE_END, ns, name},
		clock_now_ns() + TEMPLATE_STAYS_NS);
	controller_arm_timer(c);
}

/* The job runs after a short delay, so that it handles many changes at once. */
static void touch_pool(struct controller *c)
{
	if (!c->is_leading)
		return;
	queue_add_at(
		c->queue, (struct queue_key){JOB_POOL, "", ""}, clock_now_ns() + POOL_DELAY_NS);
	controller_arm_timer(c);
}

bool job_may_send(void *data)
{
	const struct job *job = data;

	return controller_may_write(job->c);
}

struct kube_write job_write(struct job *job, const struct kube_target *target, kube_done_fn *done)
{
	return (struct kube_write){.target = *target,
		.field_manager = "divvy-controller",
		.may_send = job_may_send,
		.done = done,
		.data = job};
}

int job_patch(struct job *job, const struct kube_write *write, enum kube_patch_kind kind,
	json_t *change, struct error *err)
{
	int r = change ? kube_patch(job->c->client, write, kind, change, err)
		       : fail(err, ENOMEM, "out of memory");

	json_decref(change);
	return r < 0 ? r : 1;
}

void job_end(struct job *job, int r, const char *sentence)
{
	struct controller *c = job->c;

	if (r < 0)
		log_warn("%s/%s/%s: %s", job_kinds[job->key.kind].name, job->ns, job->name,
			sentence);
	queue_done(c->queue, job->key, r < 0, clock_now_ns());
	LIST_REMOVE(job, link);
	json_decref(job->stash);
	free(job);
	controller_arm_timer(c);
}

static void run_job(struct controller *c, struct queue_key key)
{
	struct job *job = calloc(1, sizeof(*job));

	if (!job) {
		queue_done(c->queue, key, true, clock_now_ns());
		return;
	}
	job->c = c;
	LIST_INSERT_HEAD(&c->jobs, job, link);
	/* Namespace and name fit, because the queue refuses longer ones. */
	str_copy(job->ns, sizeof(job->ns), str_from(key.ns));
	str_copy(job->name, sizeof(job->name), str_from(key.name));
	job->key = (struct queue_key){key.kind, job->ns, job->name};
	job_kinds[key.kind].run(job);
}

static void controller_on_timer(struct loop_timer *timer, uint64_t now)
{
	struct controller *c = timer->data;
	const struct queue_key *key;

	while (controller_may_write(c) && queue_counts(c->queue).n_running < CONTROLLER_JOBS_MAX &&
		(key = queue_take(c->queue, now)))
		run_job(c, *key);
	controller_arm_timer(c);
}

static void enqueue_templates(struct controller *c, const char *ns, const json_t *pod)
{
	const char *name;
	size_t at = 0;

	while ((name = claim_template_next(pod, &at)))
		controller_enqueue(c, JOB_CLAIM_TEMPLATE, ns, name);
}

static void enqueue_all_templates(struct controller *c)
{
	const struct kube_entry *e = NULL;

	while ((e = controller_next(c, CACHE_PODS, e)))
		enqueue_templates(c, e->namespace_name, e->object);
	while ((e = controller_next(c, CACHE_CLAIM_TEMPLATES, e)))
		controller_end_template_later(c, e->namespace_name, e->name);
}

void controller_enqueue_all(struct controller *c)
{
	static const struct {
		enum controller_cache which;
		enum job_kind kind;
	} all[] = {
		{CACHE_SHARE_PODS, JOB_SHARE_POD},
		{CACHE_KUBESHARE_PODS, JOB_KUBESHARE_POD},
		{CACHE_NODES, JOB_NODE},
		{CACHE_NAMESPACES, JOB_NAMESPACE},
		{CACHE_REQUESTS, JOB_SIGN},
	};

	controller_enqueue(c, JOB_CERTIFICATE, "", "");
	controller_enqueue(c, JOB_AUTHORITY, "", "");
	touch_pool(c);
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		const struct kube_entry *e = NULL;

		while ((e = controller_next(c, all[i].which, e)))
			controller_enqueue(c, all[i].kind, e->namespace_name, e->name);
	}
	if (c->options.has_claims)
		enqueue_all_templates(c);
}

/* ---- changes in the caches ---- */

/* Returns whether the pod requests a share although the webhook has not labelled it. */
static bool is_untranslated(const struct controller *c, const json_t *pod)
{
	const char *ns = kube_json_text_at(pod, "metadata", "namespace", NULL);
	struct ns_facts facts;
	struct pod_translation translation;
	bool is_so = false;

	if (!ns || kube_json_text_at(pod, "metadata", "labels", DIALECT_TENANT_LABEL, NULL))
		return false;
	if (controller_ns_facts(c, ns, NULL, &facts) == 0) {
		is_so = pod_translate_read(json_object_get(pod, "metadata"),
				json_object_get(pod, "spec"), str_from(ns), &facts.facts,
				&translation, NULL) == 0 &&
			pod_translate_is_tenant(&translation);
		pod_translation_done(&translation);
	}
	ns_facts_done(&facts);
	return is_so;
}

static bool needs_template(const struct controller *c, const json_t *pod)
{
	size_t at = 0;

	return c->options.has_claims && claim_template_next(pod, &at);
}

static enum prune_kind controller_prune_kind(const struct watched *w, const json_t *object)
{
	switch (w->which) {
	case CACHE_NODES: return PRUNE_NODE;
	case CACHE_GPU_NODES: return PRUNE_GPU_NODE;
	case CACHE_LEASES: return PRUNE_LEASE;
	case CACHE_PODS:
		/* controller_on_pod() translates such a pod again, or makes its templates. */
		return is_untranslated(w->c, object) || needs_template(w->c, object)
			? PRUNE_NOTHING
			: prune_kind_of_pod(object, w->c->options.ns);
	default: return PRUNE_NOTHING;
	}
}

static int controller_project_object(
	void *data, const struct kube_object *object, void **ret_own, struct error *err)
{
	const enum prune_kind kind = controller_prune_kind(data, object->json);
	json_t *own;

	if (kind == PRUNE_WHOLE)
		return -ENOENT;
	own = prune_object(object->json, kind);
	if (!own)
		return fail(err, ENOMEM, "out of memory");
	*ret_own = own;
	return 0;
}

static void controller_release_object(void *own)
{
	json_decref(own);
}

static void controller_on_pod(struct controller *c, const json_t *pod, bool is_new)
{
	const json_t *owner = kube_json_controller(pod);
	const char *ns = kube_json_text_at(pod, "metadata", "namespace", NULL);
	const char *from = json_string_value(json_object_get(
		kube_json_at(pod, "metadata", "annotations", NULL), DIALECT_RECORD_KEY));

	if (share_pod_is_owner(owner)) {
		const char *version = json_string_value(json_object_get(owner, "apiVersion"));

		controller_enqueue(c,
			version && !strncmp(version, "kubeshare.nthu/", 15) ? JOB_KUBESHARE_POD
									    : JOB_SHARE_POD,
			ns, json_string_value(json_object_get(owner, "name")));
	}
	if (c->options.has_claims)
		enqueue_templates(c, ns, pod);
	if (!is_new || !c->is_leading || !ns)
		return;
	if (kube_json_text_at(pod, "metadata", "labels", DIALECT_TENANT_LABEL, NULL)) {
		char text[256];

		if (!from || !controller_is_synced(c, CACHE_PODS))
			return;
		snprintf(text, sizeof(text), "translated foreign resources: %.200s", from);
		controller_event(c, pod, "v1", "Pod", false, "Translated", text);
	} else if (is_untranslated(c, pod)) {
		controller_event(c, pod, "v1", "Pod", true, "Untranslated",
			"the pod requests a share of a GPU but was created without divvy's "
			"webhook and gets none; create it again while divvy-controller runs, in a "
			"namespace without the label divvy.gpu/admission=ignore");
	}
}

/*
 * Queues the jobs for the SharePods of the node's tenants, because GPUNode.status.tenants goes into
 * their status.
 */
static void on_tenants(struct controller *c, const json_t *gpu_node)
{
	const json_t *tenants = kube_json_at(gpu_node, "status", "tenants", NULL);

	for (size_t i = 0; i < json_array_size(tenants); i++) {
		const json_t *t = json_array_get(tenants, i);
		const json_t *pod = controller_find(c, CACHE_PODS,
			json_string_value(json_object_get(t, "namespace")),
			json_string_value(json_object_get(t, "pod")));

		if (pod)
			controller_on_pod(c, pod, false);
	}
}

/* A SharePod's status is written for new measured values at most once in this time. */
#define MEASURED_DELAY_NS (20 * NSEC_PER_SEC)

static void on_measured_one(struct controller *c, const struct measured *m)
{
	char uid[64], got[SHARE_POD_GOT_SIZE];
	const struct kube_entry *pod = str_copy(uid, sizeof(uid), m->uid) < 0
		? NULL
		: kube_cache_find_uid(c->watched[CACHE_PODS].cache, uid);
	const json_t *owner = pod ? kube_json_controller(pod->object) : NULL, *share_pod;
	const char *name = json_string_value(json_object_get(owner, "name")), *was;

	if (!share_pod_is_owner(owner))
		return;
	share_pod = controller_find(c, CACHE_SHARE_PODS, pod->namespace_name, name);
	was = share_pod_used(share_pod);
	share_pod_got(was, m, got);
	if (!share_pod || (was && !strcmp(was, got)))
		return;
	queue_add_at(c->queue, (struct queue_key){JOB_SHARE_POD, pod->namespace_name, name},
		clock_now_ns() + MEASURED_DELAY_NS);
}

static void on_measured(struct controller *c, const json_t *lease)
{
	const char *text = kube_json_text_at(lease, "metadata", "annotations", MEASURED_KEY, NULL);
	struct str rest = str_from(text ? text : "");
	struct measured m;
	int r;

	if (!c->is_leading)
		return;
	while ((r = measured_next(&rest, &m, NULL)))
		if (r > 0)
			on_measured_one(c, &m);
	controller_arm_timer(c);
}

/*
 * Queues the jobs of SharePods after policies or dialects changed: in one namespace, or in all if
 * ns is NULL.
 */
static void on_rules(struct controller *c, const char *ns)
{
	static const struct {
		enum controller_cache which;
		enum job_kind kind;
	} both[] = {{CACHE_SHARE_PODS, JOB_SHARE_POD}, {CACHE_KUBESHARE_PODS, JOB_KUBESHARE_POD}};

	for (size_t i = 0; i < ARRAY_SIZE(both); i++) {
		const struct kube_entry *e = NULL;

		while ((e = controller_next(c, both[i].which, e)))
			if (!ns || !strcmp(ns, e->namespace_name))
				controller_enqueue(c, both[i].kind, e->namespace_name, e->name);
	}
}

/*
 * Returns whether the change matters to job_pool(). Without a pool, only objects of a new pool do.
 */
static bool matters_to_pool(const struct watched *w, const struct kube_entry *entry)
{
	const struct controller *c = w->c;
	const json_t *node = w->which == CACHE_NODES
		? entry->object
		: controller_find(c, CACHE_NODES, "", entry->name);
	const json_t *gpu_node = w->which == CACHE_GPU_NODES
		? entry->object
		: controller_find(c, CACHE_GPU_NODES, "", entry->name);

	switch (w->which) {
	case CACHE_PODS: return c->has_pool || placeholder_is_one(entry->object, c->options.ns);
	case CACHE_NODES:
	case CACHE_GPU_NODES:
		return c->has_pool ||
			pool_view_has(kube_json_at(node, "metadata", "labels", NULL), gpu_node);
	default: return false;
	}
}

static void controller_on_change(struct watched *w, const struct kube_entry *entry, bool is_new)
{
	struct controller *c = w->c;

	if (matters_to_pool(w, entry))
		touch_pool(c);
	switch (w->which) {
	case CACHE_PODS: controller_on_pod(c, entry->object, is_new); break;
	case CACHE_NODES:
	case CACHE_GPU_NODES: controller_enqueue(c, JOB_NODE, "", entry->name); break;
	case CACHE_NAMESPACES:
		controller_enqueue(c, JOB_NAMESPACE, "", entry->name);
		controller_enqueue(c, JOB_CERTIFICATE, "", "");
		on_rules(c, entry->name);
		break;
	case CACHE_POLICIES:
		controller_enqueue(c, JOB_CERTIFICATE, "", "");
		on_rules(c, NULL);
		break;
	case CACHE_LEASES: on_measured(c, entry->object); break;
	case CACHE_SHARE_PODS:
		controller_enqueue(c, JOB_SHARE_POD, entry->namespace_name, entry->name);
		break;
	case CACHE_KUBESHARE_PODS:
		controller_enqueue(c, JOB_KUBESHARE_POD, entry->namespace_name, entry->name);
		break;
	case CACHE_SECRET:
	case CACHE_MUTATING:
	case CACHE_VALIDATING:
		controller_look_at_certificate(c);
		controller_enqueue(c, JOB_CERTIFICATE, "", "");
		break;
	case CACHE_AUTHORITY:
	case CACHE_AUTHORITY_MAP: controller_enqueue(c, JOB_AUTHORITY, "", ""); break;
	case CACHE_REQUESTS: controller_enqueue(c, JOB_SIGN, "", entry->name); break;
	case CACHE_API_SERVICE: controller_enqueue(c, JOB_CERTIFICATE, "", ""); break;
	case CACHE_FRONT: external_look_at_front(c); break;
	case CACHE_CLAIM_TEMPLATES:
		controller_end_template_later(c, entry->namespace_name, entry->name);
		break;
	default: break;
	}
	if (w->which == CACHE_GPU_NODES)
		on_tenants(c, entry->object);
}

/* Passes the object to the dashboard; is_there false: the object was deleted. */
static void controller_show_object(
	const struct watched *w, const struct kube_entry *entry, bool is_there)
{
	struct web *web = w->c->web;
	json_t *object = is_there ? entry->object : NULL;

	switch (w->which) {
	case CACHE_PODS: web_set_pod(web, entry->namespace_name, entry->name, object); break;
	case CACHE_GPU_NODES: web_set_gpu_node(web, entry->name, object); break;
	case CACHE_LEASES: web_set_lease(web, entry->name, object); break;
	default: break;
	}
}

static void controller_on_added(void *data, const struct kube_entry *entry)
{
	controller_show_object(data, entry, true);
	controller_on_change(data, entry, true);
}

static void controller_on_updated(void *data, const struct kube_entry *entry, void *old)
{
	const struct watched *w = data;

	if (w->which == CACHE_GPU_NODES)
		/* the old status too, because the new status may lack some of its tenants */
		on_tenants(w->c, old);
	controller_show_object(w, entry, true);
	controller_on_change(data, entry, false);
}

static void controller_on_deleted(void *data, const struct kube_entry *entry)
{
	const struct watched *w = data;

	controller_show_object(data, entry, false);
	/* A pod may have come while the template was removed. */
	if (w->which == CACHE_CLAIM_TEMPLATES)
		enqueue_all_templates(w->c);
	else
		controller_on_change(data, entry, false);
}

static void controller_on_synced(void *data)
{
	struct watched *w = data;

	log_debug("watched %d: %zu objects", (int)w->which, kube_cache_count(w->cache));
	controller_look_at_certificate(w->c);
	controller_enqueue_all(w->c);
	if (controller_is_synced(w->c, CACHE_PODS) && controller_is_synced(w->c, CACHE_GPU_NODES) &&
		controller_is_synced(w->c, CACHE_LEASES))
		web_set_ready(w->c->web);
}

static void controller_on_trouble(void *data, const struct error *err)
{
	const struct watched *w = data;

	/* The cluster may lack KubeShare's object types. */
	if (w->which == CACHE_KUBESHARE_PODS && err->code == ENOENT)
		log_debug("%s", err->msg);
	else
		log_warn("%s", err->msg);
}

static int controller_watch_cache(struct controller *c, enum controller_cache which,
	const char *path, const char *name, struct error *err)
{
	struct watched *w = &c->watched[which];
	const struct kube_cache_handler handler = {.project = controller_project_object,
		.release = controller_release_object,
		.added = controller_on_added,
		.updated = controller_on_updated,
		.deleted = controller_on_deleted,
		.synced = controller_on_synced,
		.trouble = controller_on_trouble,
		.data = w};
	char field[PATH_MAX_BYTES];
	struct kube_reflect_options options = {.path = path};

	w->c = c;
	w->which = which;
	if (name) {
		snprintf(field, sizeof(field), "metadata.name=%s", name);
		options.field_selector = field;
	}
	if (which == CACHE_REQUESTS)
		options.field_selector = "spec.signerName=" IDENTITY_SIGNER;
	if (which == CACHE_CLAIM_TEMPLATES)
		options.label_selector = CLAIM_TEMPLATE_LABEL "=" CLAIM_TEMPLATE_MAKER;
	return kube_cache_new(c->client, &options, &handler, &w->cache, err);
}

static int controller_watch_caches(struct controller *c, struct error *err)
{
	static const char hooks[] = "/apis/admissionregistration.k8s.io/v1/";
	char secret[PATH_MAX_BYTES], maps[PATH_MAX_BYTES], leases[PATH_MAX_BYTES];
	char mutating[128], validating[128];
	const struct {
		enum controller_cache which;
		const char *path, *name;
	} all[CONTROLLER_N_CACHES] = {
		/*
		 * Namespaces and policies come first, because is_untranslated() needs them for each
		 * pod.
		 */
		{CACHE_NAMESPACES, "/api/v1/namespaces", NULL},
		{CACHE_POLICIES, "/apis/divvy.gpu/v1/gpupolicies", NULL},
		{CACHE_SECRET, secret, c->options.tls_secret},
		{CACHE_MUTATING, mutating, c->options.webhook_configuration},
		{CACHE_VALIDATING, validating, c->options.webhook_configuration},
		{CACHE_PODS, "/api/v1/pods", NULL},
		{CACHE_NODES, "/api/v1/nodes", NULL},
		{CACHE_GPU_NODES, "/apis/divvy.gpu/v1/gpunodes", NULL},
		{CACHE_LEASES, leases, NULL},
		{CACHE_SHARE_PODS, "/apis/divvy.gpu/v1/sharepods", NULL},
		{CACHE_KUBESHARE_PODS, "/apis/kubeshare.nthu/v1/sharepods", NULL},
		{CACHE_AUTHORITY, secret, IDENTITY_AUTHORITY},
		{CACHE_AUTHORITY_MAP, maps, IDENTITY_AUTHORITY},
		{CACHE_REQUESTS, "/apis/certificates.k8s.io/v1/certificatesigningrequests", NULL},
		{CACHE_API_SERVICE, "/apis/apiregistration.k8s.io/v1/apiservices",
			CONTROLLER_API_SERVICE},
		{CACHE_FRONT, "/api/v1/namespaces/kube-system/configmaps",
			"extension-apiserver-authentication"},
		{CACHE_CLAIM_TEMPLATES, "/apis/" CLAIM_TEMPLATE_API "/resourceclaimtemplates",
			NULL},
	};
	int r = 0;

	snprintf(secret, sizeof(secret), "/api/v1/namespaces/%.253s/secrets", c->options.ns);
	snprintf(maps, sizeof(maps), "/api/v1/namespaces/%.253s/configmaps", c->options.ns);
	snprintf(leases, sizeof(leases), "/apis/coordination.k8s.io/v1/namespaces/%.253s/leases",
		c->options.lease_ns);
	snprintf(mutating, sizeof(mutating), "%smutatingwebhookconfigurations", hooks);
	snprintf(validating, sizeof(validating), "%svalidatingwebhookconfigurations", hooks);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(all); i++)
		if (all[i].which != CACHE_CLAIM_TEMPLATES || c->options.has_claims)
			r = controller_watch_cache(c, all[i].which, all[i].path, all[i].name, err);
	return r;
}

/* ---- start and stop ---- */

static void on_lead(void *data, bool is_leading, uint64_t epoch)
{
	struct controller *c = data;

	log_info(is_leading ? "leading, epoch %llu" : "lost the lead, epoch %llu",
		(unsigned long long)epoch);
	c->is_leading = is_leading;
	if (is_leading) {
		kube_discovery_refresh(c->discovery);
		controller_enqueue_all(c);
	}
	controller_arm_timer(c);
}

/*
 * After an upgrade the API server may support match conditions, so job_certificate() checks the
 * webhooks again.
 */
static void controller_on_discovered(void *data, int r, const struct error *err)
{
	struct controller *c = data;

	if (r < 0)
		log_warn("discovery of the API server's resources: %s", err->msg);
	controller_enqueue(c, JOB_CERTIFICATE, "", "");
}

static int controller_begin_election(struct controller *c, struct error *err)
{
	const struct kube_lease_options options = {.namespace_name = c->options.ns,
		.name = "divvy-controller",
		.identity = c->options.pod_name,
		.changed = on_lead,
		.data = c};

	if (c->options.is_elected)
		return kube_lease_start(c->client, &options, &c->lease, err);
	c->is_leading = true;
	return 0;
}

static uint64_t api_silence_ns(void *data)
{
	const struct controller *c = data;

	return kube_client_silence_ns(c->client);
}

/*
 * By default an API server has up to 200 mutating requests in flight
 * (--max-mutating-requests-inflight), and each may need a connection to the webhook. The server
 * lets one address use three quarters of its connections.
 */
#define WEBHOOK_CONNECTIONS_MAX 512u

static int controller_serve_http(struct controller *c, struct error *err)
{
	const struct http_options webhook = {.address = c->options.webhook_listen,
		.is_tls = true,
		.max_connections = WEBHOOK_CONNECTIONS_MAX,
		.asks_certificate = true,
		.guard = access_guard,
		.guard_data = c->access,
		.routes = controller_webhook_routes,
		.n_routes = CONTROLLER_WEBHOOK_ROUTES,
		.data = c};
	const struct page_options page = {.address = c->options.listen,
		.cookie = WEB_COOKIE,
		.routes = controller_page_routes,
		.n_routes = CONTROLLER_PAGE_ROUTES,
		.health = c->options.health_listen,
		.health_routes = controller_health_routes,
		.n_health_routes = CONTROLLER_HEALTH_ROUTES,
		.data = c};
	int r = http_server_new(c->loop, &webhook, &c->webhook, err);

	r = r < 0 ? r : web_new(c->loop, &c->web, err);
	if (r < 0)
		return r;
	web_set_silence(c->web, api_silence_ns, c);
	return page_new(c->client, &page, &c->page, err);
}

static int controller_start(struct controller *c, struct error *err)
{
	const struct kube_config_source source = {.files = c->options.kubeconfig};
	uint64_t seed;
	int r = random_bytes(&seed, sizeof(seed));

	r = r < 0 ? r : loop_new(&c->loop);
	r = r < 0 ? r : queue_new(seed, &c->queue);
	r = r < 0 ? r : vgpu_pool_new(&c->pool);
	c->timer.data = c;
	r = r < 0 ? r : loop_add_timer(c->loop, &c->timer, controller_on_timer);
	if (r < 0)
		return fail_errno(err, -r, "starting");
	snprintf(c->host, sizeof(c->host), "%.120s.%.120s.svc", c->options.webhook_service,
		c->options.ns);
	c->rules = (struct admit_rules){.scheduler_name = c->options.scheduler_name,
		.ns = c->options.ns,
		.lease_ns = c->options.lease_ns};
	r = kube_config_load(&source, &c->config, err);
	r = r < 0 ? r : kube_client_new(c->loop, c->config, NULL, &c->client, err);
	r = r < 0 ? r
		  : kube_recorder_new(
			    c->client, "divvy-controller", c->options.pod_name, &c->recorder, err);
	r = r < 0 ? r
		  : kube_discovery_new(c->client, controller_on_discovered, c, &c->discovery, err);
	r = r < 0 ? r : access_new(c->client, &c->access, err);
	r = r < 0 ? r : controller_serve_http(c, err);
	r = r < 0 ? r : controller_watch_caches(c, err);
	return r < 0 ? r : controller_begin_election(c, err);
}

int controller_new(const struct controller_options *options, struct controller **ret_controller,
	struct error *err)
{
	struct controller *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return fail(err, ENOMEM, "out of memory");
	c->options = *options;
	c->started_ns = clock_now_ns();
	r = controller_start(c, err);
	if (r < 0) {
		controller_free(c);
		return r;
	}
	*ret_controller = c;
	return 0;
}

int controller_run(struct controller *c)
{
	return loop_run(c->loop);
}

#define FAREWELL_NS (2 * NSEC_PER_SEC)

/*
 * Releases the Lease before the loop ends, so that the next leader need not wait until the Lease
 * expires.
 */
void controller_stop(struct controller *c)
{
	const uint64_t deadline = clock_now_ns() + FAREWELL_NS;

	c->is_leading = false;
	if (c->lease)
		kube_lease_release(c->lease);
	while (c->lease && !strcmp(kube_lease_holder(c->lease), c->options.pod_name) &&
		clock_now_ns() < deadline)
		loop_run_once(c->loop, clock_now_ns() + 50 * NSEC_PER_MSEC);
}

void controller_free(struct controller *c)
{
	struct job *job;

	if (!c)
		return;
	kube_lease_stop(c->lease);
	for (size_t i = 0; i < CONTROLLER_N_CACHES; i++)
		kube_cache_free(c->watched[i].cache);
	kube_recorder_free(c->recorder);
	page_free(c->page);
	access_free(c->access);
	kube_discovery_free(c->discovery);
	kube_client_free(c->client);
	controller_end_askings(c);
	while ((job = LIST_FIRST(&c->jobs))) {
		LIST_REMOVE(job, link);
		json_decref(job->stash);
		free(job);
	}
	http_server_free(c->webhook);
	front_free(c->front);
	web_free(c->web);
	kube_config_free(c->config);
	loop_remove_timer(&c->timer);
	queue_free(c->queue);
	vgpu_pool_free(c->pool);
	loop_free(c->loop);
	free(c);
}
