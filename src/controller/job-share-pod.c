/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles a SharePod. Each run of the job makes the one write that the present state requires: it
 * creates the pod, changes the pod's requested keys, or writes the SharePod's status. The watch
 * sees the write and queues the job again.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "controller/controller.h"
#include "controller/share-pod-replace.h"
#include "controller/share-pod.h"
#include "kube/time.h"
#include "manifest/manifest-json.h"
#include "spec/dialect.h"
#include "spec/assigned.h"

#define EVENT_MAX 320u
#define OTHERS_NS (5 * NSEC_PER_SEC) /* time for KubeShare's own controller to write a status */

static enum controller_cache cache_of(const struct job *job)
{
	return job->kind == SHARE_POD_OURS ? CACHE_SHARE_PODS : CACHE_KUBESHARE_PODS;
}

static const json_t *share_pod_of(const struct job *job)
{
	return controller_find(job->c, cache_of(job), job->ns, job->name);
}

static void job_share_pod_send_event(struct job *job, const json_t *share_pod, bool is_warning,
	const char *reason, const char *text)
{
	controller_event(job->c, share_pod, share_pod_api_version((enum share_pod_kind)job->kind),
		"SharePod", is_warning, reason, text);
}

static const json_t *own_pod(const struct job *job, const json_t *share_pod)
{
	char other[SHARE_POD_NAME_MAX + 1];
	const json_t *pod = controller_find(job->c, CACHE_PODS, job->ns, job->name);

	if (pod && share_pod_owns(share_pod, pod))
		return pod;
	if (share_pod_other_name(share_pod, other) < 0)
		return NULL;
	pod = controller_find(job->c, CACHE_PODS, job->ns, other);
	return pod && share_pod_owns(share_pod, pod) ? pod : NULL;
}

/* ---- status ---- */

static void on_status(void *data, const struct kube_answer *answer);

static void write_status(struct job *job, json_t *change)
{
	const bool is_ours = job->kind == SHARE_POD_OURS;
	const struct kube_write write = job_write(job,
		&(struct kube_target){
			.group_version = share_pod_api_version((enum share_pod_kind)job->kind),
			.resource = "sharepods",
			.namespace_name = job->ns,
			.name = job->name,
			.subresource = is_ours || !job->c->has_no_status ? "status" : NULL},
		on_status);
	struct error err;
	int r = kube_patch(job->c->client, &write, KUBE_PATCH_MERGE, change, &err);

	json_decref(job->stash);
	job->stash = change;
	if (r < 0)
		job_end(job, r, err.msg);
}

/*
 * KubeShare's SharePods may be installed without a status subresource, and then this write fails
 * with -ENOENT. The status is then written again as part of the object.
 */
static void on_status(void *data, const struct kube_answer *answer)
{
	struct job *job = data;

	if (answer->result == -ENOENT && job->kind == SHARE_POD_KUBESHARE &&
		!job->c->has_no_status && share_pod_of(job)) {
		job->c->has_no_status = true;
		write_status(job, json_incref(job->stash));
		return;
	}
	job_end(job, answer->result == -ENOENT ? 0 : answer->result, answer->error.msg);
}

/*
 * Returns the node of the pod's devices, whose divvyd confirms the shares; NULL: the pod has no
 * node yet.
 */
static const char *devices_node(const json_t *pod, char remote[static ASSIGNED_NODE])
{
	_cleanup_manifest_json_ struct manifest_json manifest = {0};
	_cleanup_assigned_ struct assigned assigned = {0};
	const char *node = kube_json_text_at(pod, "spec", "nodeName", NULL);

	if (!node ||
		manifest_json_read(
			json_object_get(pod, "metadata"), NULL, STR(""), &manifest, NULL) < 0 ||
		assigned_parse(manifest.pod.annotations, &assigned, NULL) < 0 || !assigned.n ||
		assigned.v[0].mode != SPEC_MODE_REMOTE)
		return node;
	snprintf(remote, ASSIGNED_NODE, "%s", assigned.v[0].remote_node);
	return remote;
}

/*
 * Ends the job: writes the status if it differs, else calls job_end(). r < 0: the job runs again,
 * because of this error.
 */
static void job_share_pod_write_status(
	struct job *job, struct share_pod_facts *facts, int r, const char *sentence)
{
	const json_t *share_pod = share_pod_of(job);
	char remote[ASSIGNED_NODE];
	const char *node = devices_node(facts->pod, remote);
	_cleanup_json_ json_t *status = NULL;
	json_t *change;
	struct ns_facts ns;

	if (!share_pod) {
		job_end(job, 0, "");
		return;
	}
	if (node) {
		facts->tenants = kube_json_at(controller_find(job->c, CACHE_GPU_NODES, "", node),
			"status", "tenants", NULL);
		facts->measured = kube_json_text_at(
			controller_find(job->c, CACHE_LEASES, job->c->options.lease_ns, node),
			"metadata", "annotations", MEASURED_KEY, NULL);
	}
	facts->real_ns = clock_real_ns();
	if (controller_ns_facts(job->c, job->ns, NULL, &ns) == 0)
		facts->dialects = ns.facts.dialects;
	status = share_pod_status(share_pod, (enum share_pod_kind)job->kind, facts);
	ns_facts_done(&ns);
	change = status ? share_pod_status_patch(share_pod, status) : NULL;
	if (!change || !controller_may_write(job->c)) {
		json_decref(change);
		job_end(job, r, sentence);
		return;
	}
	/* the job runs again after the watch reports this status write, or after this time */
	if (r < 0)
		queue_add_at(job->c->queue, job->key, clock_now_ns() + 2 * NSEC_PER_SEC);
	write_status(job, change);
}

/* ---- a pod ---- */

static void job_share_pod_on_created(void *data, const struct kube_answer *answer);

static int job_share_pod_create_pod(struct job *job, json_t *pod, struct error *err)
{
	const struct kube_write write = job_write(job,
		&(struct kube_target){
			.group_version = "v1", .resource = "pods", .namespace_name = job->ns},
		job_share_pod_on_created);

	json_decref(job->stash);
	job->stash = pod;
	if (!controller_may_write(job->c))
		return fail(err, EAGAIN, "another replica leads now");
	return kube_create(job->c->client, &write, pod, err);
}

static void fail_to_create(struct job *job, const char *reason, const char *message, int r)
{
	struct share_pod_facts facts = {.trouble = reason, .message = message};
	const json_t *share_pod = share_pod_of(job);

	if (share_pod)
		job_share_pod_send_event(job, share_pod, true, "PodFailed", message);
	job_share_pod_write_status(job, &facts, r, message);
}

/*
 * Creating the pod failed because a pod has its name. If the SharePod does not own that pod, tries
 * share_pod_other_name().
 */
static void on_taken(void *data, const struct kube_answer *answer)
{
	struct job *job = data;
	const json_t *share_pod = share_pod_of(job);
	const char *name = kube_json_text_at(job->stash, "metadata", "name", NULL);
	_cleanup_json_ json_t *pod = NULL;
	char other[SHARE_POD_NAME_MAX + 1], text[SHARE_POD_NAME_MAX + 128];
	struct error err = {0};
	json_t *again;

	if (answer->result < 0 || !share_pod || !name ||
		kube_json_parse(answer->body, &pod, NULL) < 0) {
		job_end(job, answer->result == -ENOENT || !share_pod ? 0 : -EIO,
			"the pod that has the SharePod's name cannot be read");
		return;
	}
	if (share_pod_owns(share_pod, pod)) {
		/* the SharePod owns the pod, which the watch will report soon */
		job_end(job, 0, "");
		return;
	}
	if (share_pod_other_name(share_pod, other) < 0 || !strcmp(name, other)) {
		snprintf(text, sizeof(text),
			"pod '%.253s' exists and has another owner; delete it or rename the "
			"SharePod",
			name);
		fail_to_create(job, "NameTaken", text, -EEXIST);
		return;
	}
	/*
	 * The pod is being deleted, probably with an earlier SharePod of this name, and frees the
	 * name soon.
	 */
	if (kube_json_text_at(pod, "metadata", "deletionTimestamp", NULL)) {
		job_end(job, -EBUSY,
			"the pod of an earlier SharePod of this name is still terminating");
		return;
	}
	again = json_deep_copy(job->stash);
	json_object_set_new(kube_json_at(again, "metadata", NULL), "name", json_string(other));
	if (job_share_pod_create_pod(job, again, &err) < 0)
		job_end(job, -EINVAL, err.msg);
}

static void job_share_pod_on_created(void *data, const struct kube_answer *answer)
{
	struct job *job = data;
	const json_t *share_pod = share_pod_of(job);
	const char *name = kube_json_text_at(job->stash, "metadata", "name", NULL);
	char text[SHARE_POD_NAME_MAX + 64];

	if (answer->result == -EEXIST) {
		const struct kube_write read = {.target = {.group_version = "v1",
							.resource = "pods",
							.namespace_name = job->ns,
							.name = name},
			.done = on_taken,
			.data = job};
		struct error err;

		if (kube_read(job->c->client, &read, &err) < 0)
			job_end(job, -EINVAL, err.msg);
		return;
	}
	if (answer->result < 0) {
		struct error room;

		fail_to_create(
			job, "CreateFailed", kube_answer_sentence(answer, &room), answer->result);
		return;
	}
	if (share_pod) {
		snprintf(text, sizeof(text), "created pod %.253s", name ? name : "");
		job_share_pod_send_event(job, share_pod, false, "PodCreated", text);
	}
	job_end(job, 0, "");
}

/* ---- the pod after a failed pod ---- */

/* The deletion of the failed pod, which job->stash has, is answered. */
static void job_share_pod_on_deleted(void *data, const struct kube_answer *answer)
{
	struct job *job = data;
	const json_t *share_pod = share_pod_of(job);
	char cause[SHARE_POD_REPLACE_TEXT], text[SHARE_POD_REPLACE_TEXT + 32];
	_cleanup_json_ json_t *next = NULL;
	struct error err = {0};
	int r;

	/* -EBUSY: another pod has the name already, and the watch will report it soon. */
	if (answer->result == -EBUSY || !share_pod ||
		kube_json_text_at(share_pod, "metadata", "deletionTimestamp", NULL)) {
		job_end(job, 0, "");
		return;
	}
	if (answer->result < 0 && answer->result != -ENOENT) {
		job_end(job, answer->result, answer->error.msg);
		return;
	}
	if (answer->result == 0) {
		share_pod_replace_cause(job->stash, cause);
		snprintf(text, sizeof(text), "%s; another pod follows", cause);
		job_share_pod_send_event(job, share_pod, true, "PodReplaced", text);
	}
	r = share_pod_make(share_pod, (enum share_pod_kind)job->kind, &next, &err);
	if (r == 0)
		r = share_pod_replace_count(job->stash, clock_real_ns(), next);
	if (r == 0)
		r = job_share_pod_create_pod(job, TAKE_PTR(next), &err);
	if (r < 0)
		job_end(job, r, err.msg);
}

static int job_share_pod_delete_pod(struct job *job, const json_t *pod, struct error *err)
{
	const struct kube_write write = job_write(job,
		&(struct kube_target){.group_version = "v1",
			.resource = "pods",
			.namespace_name = job->ns,
			.name = kube_json_text_at(pod, "metadata", "name", NULL)},
		job_share_pod_on_deleted);
	const struct kube_delete what = {
		.uid = kube_json_text_at(pod, "metadata", "uid", NULL), .grace_s = -1};

	json_decref(job->stash);
	job->stash = json_deep_copy(pod);
	if (!job->stash)
		return fail(err, ENOMEM, "out of memory");
	if (!controller_may_write(job->c))
		return fail(err, EAGAIN, "another replica leads now");
	return kube_delete(job->c->client, &write, &what, err);
}

/*
 * Deletes the failed pod and then makes the next one. Before that, the status must not say that the
 * SharePod has ended: without its pod, that status would be final.
 */
static void job_share_pod_replace(
	struct job *job, const json_t *share_pod, const json_t *pod, struct share_pod_facts *facts)
{
	const uint64_t now_ns = clock_real_ns(), due_ns = share_pod_replace_due_ns(pod);
	char cause[SHARE_POD_REPLACE_TEXT], text[SHARE_POD_REPLACE_TEXT + 64];
	struct error err = {0};
	int r;

	if (kube_json_text_at(pod, "metadata", "deletionTimestamp", NULL)) {
		facts->trouble = "Terminating";
		facts->message = "the pod is terminating; another pod follows";
	} else if (due_ns <= now_ns && !kube_json_is_over(share_pod)) {
		r = job_share_pod_delete_pod(job, pod, &err);
		if (r < 0)
			job_end(job, r, err.msg);
		return;
	} else {
		share_pod_replace_cause(pod, cause);
		snprintf(text, sizeof(text), "%s; another pod follows at %s", cause,
			kube_time_format(due_ns).s);
		facts->trouble = "BackOff";
		facts->message = text;
		queue_add_at(job->c->queue, job->key,
			clock_now_ns() + MAX(clock_since_ns(due_ns, now_ns), NSEC_PER_SEC));
	}
	job_share_pod_write_status(job, facts, 0, "");
}

/* ---- changes of the pod ---- */

static void on_carried(void *data, const struct kube_answer *answer)
{
	struct job *job = data;
	const json_t *share_pod = share_pod_of(job);
	struct error room;
	struct share_pod_facts facts = {.resize_text = kube_answer_sentence(answer, &room)};

	if (answer->result == 0 || !share_pod || answer->result == -ENOENT) {
		job_end(job, 0, "");
		return;
	}
	facts.pod = own_pod(job, share_pod);
	if (!facts.pod)
		facts.resize_text = NULL;
	/*
	 * -EPERM, -EINVAL: the change was refused, and is tried again only after the SharePod
	 * changes.
	 */
	job_share_pod_write_status(job, &facts,
		answer->result == -EPERM || answer->result == -EINVAL ? 0 : answer->result,
		answer->error.msg);
}

static bool job_share_pod_carry_resize(struct job *job, const json_t *share_pod, const json_t *pod)
{
	const struct kube_write write = job_write(job,
		&(struct kube_target){.group_version = "v1",
			.resource = "pods",
			.namespace_name = job->ns,
			.name = kube_json_text_at(pod, "metadata", "name", NULL)},
		on_carried);
	_cleanup_json_ json_t *change = NULL;
	struct error err;

	if (kube_json_is_over(pod) ||
		kube_json_text_at(pod, "metadata", "deletionTimestamp", NULL) ||
		share_pod_carry(share_pod, (enum share_pod_kind)job->kind, pod, &change) < 0 ||
		!change)
		return false;
	return kube_patch(job->c->client, &write, KUBE_PATCH_MERGE, change, &err) == 0;
}

/* ---- the whole job ---- */

static enum share_pod_verdict job_share_pod_judge(
	struct job *job, const json_t *share_pod, json_t **ret_pod, struct error *err)
{
	enum share_pod_verdict verdict = SHARE_POD_ACCEPTED;
	struct ns_facts ns;
	struct pod_translation translation = {0};
	int r = share_pod_make(share_pod, (enum share_pod_kind)job->kind, ret_pod, err);

	if (r < 0)
		return r == -EEXIST ? SHARE_POD_TEMPLATE_CONFLICT : SHARE_POD_INVALID_SPEC;
	if (controller_ns_facts(job->c, job->ns, NULL, &ns) == 0) {
		r = pod_translate_read(json_object_get(*ret_pod, "metadata"),
			json_object_get(*ret_pod, "spec"), str_from(job->ns), &ns.facts,
			&translation, err);
		r = r < 0 ? r : pod_translate_check_presets(&translation, true, err);
		r = r < 0 ? r : pod_translate_check_modes(&translation, err);
		if (r < 0)
			verdict = SHARE_POD_INVALID_SPEC;
		else if (pod_translate_check_policies(&translation, &ns.facts, err) < 0)
			verdict = SHARE_POD_POLICY_DENIED;
		pod_translation_done(&translation);
	}
	ns_facts_done(&ns);
	return verdict;
}

/* Returns whether the status already reports the verdict. */
static bool was_judged(const json_t *share_pod, enum share_pod_verdict verdict)
{
	return kube_json_find(kube_json_at(share_pod, "status", "conditions", NULL), "reason",
		share_pod_verdict_name(verdict));
}

/*
 * The namespace does not enable KubeShare's dialect. If KubeShare itself runs, it writes a status
 * within OTHERS_NS. Without that status, an Event informs the user that divvy ignores the SharePod.
 */
static void tell_off(struct job *job, const json_t *share_pod, const char *dialects)
{
	const char *made = kube_json_text_at(share_pod, "metadata", "creationTimestamp", NULL);
	uint64_t made_ns, age_ns;
	char text[EVENT_MAX];

	if (json_object_size(json_object_get(share_pod, "status")) || !made ||
		kube_time_parse(str_from(made), &made_ns) < 0)
		return;
	age_ns = clock_since_ns(clock_real_ns(), made_ns);
	if (age_ns < OTHERS_NS) {
		queue_add_at(job->c->queue, job->key, clock_now_ns() + OTHERS_NS - age_ns);
		return;
	}
	snprintf(text, sizeof(text),
		"divvy ignores this SharePod: annotation " DIALECT_LIST_KEY
		" of the namespace is '%.100s', without kubeshare, the dialect of SharePods.",
		dialects);
	job_share_pod_send_event(job, share_pod, false, "DialectOff", text);
}

/*
 * Returns whether the namespace enables KubeShare's dialect. If it does not, or its list of
 * dialects is faulty, an Event may inform the user.
 */
static bool is_kubeshare(struct job *job, const json_t *share_pod)
{
	struct dialect_config config;
	struct error err = {0};
	struct ns_facts ns;
	bool is_on;

	if (controller_ns_facts(job->c, job->ns, NULL, &ns) < 0)
		return false;
	is_on = share_pod_is_kubeshare_on(ns.facts.dialects);
	if (!is_on && dialect_config_parse(str_from(ns.facts.dialects), &config, &err) < 0)
		job_share_pod_send_event(job, share_pod, true, "UnknownDialect", err.msg);
	else if (!is_on)
		tell_off(job, share_pod, ns.facts.dialects);
	ns_facts_done(&ns);
	return is_on;
}

static bool job_share_pod_is_ready(struct job *job, const json_t *share_pod)
{
	if (!controller_is_synced(job->c, CACHE_PODS) ||
		!controller_is_synced(job->c, CACHE_NAMESPACES) ||
		!controller_is_synced(job->c, CACHE_POLICIES))
		return false;
	return job->kind == SHARE_POD_OURS || is_kubeshare(job, share_pod);
}

static void job_share_pod_run(struct job *job)
{
	const json_t *share_pod = share_pod_of(job);
	struct share_pod_facts facts = {0};
	_cleanup_json_ json_t *pod = NULL;
	struct error err = {0};

	if (!share_pod || kube_json_text_at(share_pod, "metadata", "deletionTimestamp", NULL) ||
		!job_share_pod_is_ready(job, share_pod)) {
		job_end(job, 0, "");
		return;
	}
	facts.pod = own_pod(job, share_pod);
	facts.verdict = job_share_pod_judge(job, share_pod, &pod, &err);
	facts.message = err.msg;
	if (facts.verdict != SHARE_POD_ACCEPTED) {
		if (facts.verdict == SHARE_POD_POLICY_DENIED &&
			!was_judged(share_pod, facts.verdict))
			job_share_pod_send_event(job, share_pod, true,
				share_pod_verdict_name(facts.verdict), err.msg);
		job_share_pod_write_status(job, &facts, 0, "");
		return;
	}
	if (!facts.pod && kube_json_is_over(share_pod)) {
		job_end(job, 0, "");
		return;
	}
	if (!facts.pod) {
		if (job_share_pod_create_pod(job, TAKE_PTR(pod), &err) < 0)
			job_end(job, -EINVAL, err.msg);
		return;
	}
	if (share_pod_is_replaced(facts.pod)) {
		job_share_pod_replace(job, share_pod, facts.pod, &facts);
		return;
	}
	if (job_share_pod_carry_resize(job, share_pod, facts.pod))
		return;
	job_share_pod_write_status(job, &facts, 0, "");
}

void job_share_pod(struct job *job)
{
	job->kind = SHARE_POD_OURS;
	job_share_pod_run(job);
}

void job_kubeshare_pod(struct job *job)
{
	job->kind = SHARE_POD_KUBESHARE;
	job_share_pod_run(job);
}
