/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the authority that signs certificates between nodes (authority.h). The leader writes that
 * authority into a Secret and the certificates of trusted authorities into a ConfigMap, and answers
 * certificate requests. An authority signs only after it is stored and the nodes have had time to
 * read it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "controller/authority.h"
#include "controller/controller.h"
#include "controller/secret.h"
#include "controller/sign.h"
#include "identity/identity.h"

#define STEPS_MAX 3
#define LOOK_NS (AUTHORITY_OVERLAP_NS / 4)
#define AGAIN_NS NSEC_PER_SEC
#define BUNDLE_KEY "ca.crt" /* key in the ConfigMap */
#define GROUP "certificates.k8s.io/v1"

static const struct secret_field fields[] = {
	{"ca.crt", offsetof(struct authority_store, ca_crt)},
	{"ca.key", offsetof(struct authority_store, ca_key)},
	{"old.crt", offsetof(struct authority_store, old_crt)},
	{"old.key", offsetof(struct authority_store, old_key)},
	{NULL, 0},
};

static const json_t *job_remote_find_secret(const struct controller *c, enum controller_cache which)
{
	return controller_find(c, which, c->options.ns, IDENTITY_AUTHORITY);
}

static void job_remote_count_answer(struct job *job)
{
	switch ((enum sign_act)job->kind) {
	case SIGN_ISSUE: job->c->n_certificates[1]++; break;
	case SIGN_DENY:
	case SIGN_FAIL: job->c->n_certificates[0]++; break;
	default: break;
	}
}

static void job_remote_on_written(void *data, const struct kube_answer *answer)
{
	struct job *job = data;

	if (answer->result == 0)
		job_remote_count_answer(job);
	/*
	 * Another writer has changed (-EBUSY) or deleted (-ENOENT) the object; the watch brings the
	 * new state and starts the job again.
	 */
	job_end(job, answer->result == -EBUSY || answer->result == -ENOENT ? 0 : answer->result,
		answer->error.msg);
}

/* As job_patch(). */
static int job_remote_send_patch(
	struct job *job, const struct kube_target *target, json_t *change, struct error *err)
{
	const struct kube_write write = job_write(job, target, job_remote_on_written);

	return job_patch(job, &write, KUBE_PATCH_MERGE, change, err);
}

static void job_remote_finish(struct job *job, int r, const struct error *err)
{
	if (r <= 0)
		job_end(job, r, err->msg);
}

/* ---- the authority ---- */

static int job_remote_write_secret(
	struct job *job, struct authority_store *store, struct error *err)
{
	const struct kube_target target = {.group_version = "v1",
		.resource = "secrets",
		.namespace_name = job->c->options.ns,
		.name = IDENTITY_AUTHORITY};

	log_info("storing a changed authority between nodes");
	return job_remote_send_patch(job, &target,
		secret_patch(job_remote_find_secret(job->c, CACHE_AUTHORITY), fields, store), err);
}

static bool is_published(const struct controller *c, const char *bundle)
{
	const char *now = kube_json_text_at(
		job_remote_find_secret(c, CACHE_AUTHORITY_MAP), "data", BUNDLE_KEY, NULL);

	return now && bundle && !strcmp(now, bundle);
}

static int write_map(struct job *job, const char *bundle, struct error *err)
{
	const struct kube_target target = {.group_version = "v1",
		.resource = "configmaps",
		.namespace_name = job->c->options.ns,
		.name = IDENTITY_AUTHORITY};

	return job_remote_send_patch(job, &target,
		secret_patch_data(job_remote_find_secret(job->c, CACHE_AUTHORITY_MAP),
			json_pack("{s:s}", BUNDLE_KEY, bundle)),
		err);
}

static int job_remote_check(struct job *job, struct error *err)
{
	struct controller *c = job->c;
	_cleanup_authority_store_ struct authority_store store = {0};
	_cleanup_free_ char *bundle = NULL;
	bool is_changed = false;
	int r = 1;

	if (!controller_is_synced(c, CACHE_AUTHORITY) ||
		!controller_is_synced(c, CACHE_AUTHORITY_MAP))
		return 0;
	if (!job_remote_find_secret(c, CACHE_AUTHORITY) ||
		!job_remote_find_secret(c, CACHE_AUTHORITY_MAP))
		return fail(err, ENOENT, "%s %s/%s is missing: it comes with the manifests",
			job_remote_find_secret(c, CACHE_AUTHORITY) ? "ConfigMap" : "Secret",
			c->options.ns, IDENTITY_AUTHORITY);
	secret_read(job_remote_find_secret(c, CACHE_AUTHORITY), fields, &store);
	for (int i = 0; i < STEPS_MAX && r > 0; i++) {
		r = authority_step(&store, clock_real_ns(), err);
		is_changed |= r > 0;
	}
	if (r < 0)
		return r;
	if (is_changed)
		return job_remote_write_secret(job, &store, err);
	bundle = authority_bundle(&store, clock_real_ns());
	if (!bundle)
		return fail(err, ENOMEM, "out of memory");
	return is_published(c, bundle) ? 0 : write_map(job, bundle, err);
}

void job_authority(struct job *job)
{
	struct error err = {0};

	queue_add_at(job->c->queue, job->key, clock_now_ns() + LOOK_NS);
	job_remote_finish(job, job_remote_check(job, &err), &err);
}

/* ---- requests ---- */

static int change_request(
	struct job *job, const char *subresource, json_t *change, struct error *err)
{
	const struct kube_target target = {.group_version = GROUP,
		.resource = "certificatesigningrequests",
		.name = job->name,
		.subresource = subresource};

	return job_remote_send_patch(job, &target, change, err);
}

static int delete_request(struct job *job, const json_t *object, struct error *err)
{
	const struct kube_write write = {.target = {.group_version = GROUP,
						 .resource = "certificatesigningrequests",
						 .name = job->name},
		.may_send = job_may_send,
		.done = job_remote_on_written,
		.data = job};
	const struct kube_delete what = {
		.uid = kube_json_text_at(object, "metadata", "uid", NULL), .grace_s = -1};
	int r = kube_delete(job->c->client, &write, &what, err);

	return r < 0 ? r : 1;
}

static int job_remote_issue_certificate(
	struct job *job, const json_t *object, const struct sign_ask *ask, struct error *err)
{
	_cleanup_authority_store_ struct authority_store store = {0};
	_cleanup_free_ char *bundle = NULL, *crt = NULL;
	char uri[IDENTITY_URI];
	int r;

	secret_read(job_remote_find_secret(job->c, CACHE_AUTHORITY), fields, &store);
	bundle = authority_bundle(&store, clock_real_ns());
	if (!is_published(job->c, bundle)) {
		queue_add_at(job->c->queue, job->key, clock_now_ns() + AGAIN_NS);
		return 0;
	}
	r = authority_sign(&store, &ask->request, clock_real_ns(), &crt, err);
	if (r < 0)
		return r;
	if (identity_name_format(&ask->request.name, uri) == 0)
		log_info(
			"request %s: a certificate of %s for %s", job->name, uri, ask->by.pod_name);
	return change_request(job, "status",
		json_pack("{s:{s:s*}, s:{s:o}}", "metadata", "resourceVersion",
			kube_json_text_at(object, "metadata", "resourceVersion", NULL), "status",
			"certificate", secret_encode(crt)),
		err);
}

static int job_remote_answer_request(struct job *job, const json_t *object, struct error *err)
{
	struct controller *c = job->c;
	_cleanup_sign_ask_ struct sign_ask ask = {0};
	struct sign_facts facts = {.ns = c->options.ns, .real_ns = clock_real_ns()};
	uint64_t again;
	struct error why = {0};
	enum sign_act act;

	sign_ask_read(object, &ask);
	facts.asker = own_pod_of(controller_find(c, CACHE_PODS, c->options.ns, ask.by.pod_name));
	facts.tenant = controller_find_uid(c, CACHE_PODS, ask.request.name.uid);
	act = sign_decide(&ask, &facts, &again, &why);
	job->kind = (int)act;
	if (act == SIGN_DENY || act == SIGN_FAIL)
		log_warn("request %s: refused: %s", job->name, why.msg);
	switch (act) {
	case SIGN_APPROVE:
		return change_request(job, "approval",
			sign_condition(object, "Approved",
				"asked for by divvyd of the node, of which that is so"),
			err);
	case SIGN_DENY:
		return change_request(
			job, "approval", sign_condition(object, "Denied", why.msg), err);
	case SIGN_FAIL:
		return change_request(
			job, "status", sign_condition(object, "Failed", why.msg), err);
	case SIGN_ISSUE: return job_remote_issue_certificate(job, object, &ask, err);
	case SIGN_DELETE: return delete_request(job, object, err);
	default: break;
	}
	if (again)
		queue_add_at(
			c->queue, job->key, clock_now_ns() + clock_since_ns(again, facts.real_ns));
	return 0;
}

void job_sign(struct job *job)
{
	const json_t *object = controller_find(job->c, CACHE_REQUESTS, "", job->name);
	struct error err = {0};
	int r = 0;

	/*
	 * Before the cache of pods is complete, a pod that the cache lacks may exist, so no request
	 * is answered.
	 */
	if (object && controller_is_synced(job->c, CACHE_PODS))
		r = job_remote_answer_request(job, object, &err);
	job_remote_finish(job, r, &err);
}
