/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the webhook's certificate. The leader writes the Secret, completes the webhooks'
 * configurations (webhook-config.h), and writes the authority into the APIService of external
 * metrics. Every controller serves the certificate in the Secret, and becomes ready once the
 * webhooks trust it. Match conditions come last: an API server without that feature drops them,
 * which must not delay the other steps.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "controller/controller.h"
#include "controller/webhook-config.h"
#include "controller/secret.h"
#include "manifest/policy.h"

#define STEPS_MAX 4
#define LOOK_NS (CERTIFICATE_OVERLAP_NS / 4)
/*
 * After the API server dropped match conditions, they are not written for this time. A later check
 * tries again, because an administrator can enable the feature.
 */
#define CONDITIONS_PAUSE_NS (LOOK_NS + LOOK_NS / 2)
#define LIST_MAX (64u << 10)

static const struct secret_field fields[] = {
	{"ca.crt", offsetof(struct certificate_store, ca_crt)},
	{"ca.key", offsetof(struct certificate_store, ca_key)},
	{"tls.crt", offsetof(struct certificate_store, tls_crt)},
	{"tls.key", offsetof(struct certificate_store, tls_key)},
	{NULL, 0},
};

static const json_t *secret_of(const struct controller *c)
{
	return controller_find(c, CACHE_SECRET, c->options.ns, c->options.tls_secret);
}

static const json_t *job_certificate_configuration(const struct controller *c, size_t i)
{
	return controller_find(
		c, i ? CACHE_VALIDATING : CACHE_MUTATING, "", c->options.webhook_configuration);
}

static bool is_trusted_by(
	const struct controller *c, const struct certificate_store *store, const json_t *object)
{
	const json_t *hooks = json_object_get(object, "webhooks");

	for (size_t i = 0; i < json_array_size(hooks); i++) {
		_cleanup_free_ char *bundle = secret_decode(kube_json_text_at(
			json_array_get(hooks, i), "clientConfig", "caBundle", NULL));

		if (!bundle || !certificate_is_trusted(store, bundle, c->host, clock_real_ns()))
			return false;
	}
	return true;
}

void controller_look_at_certificate(struct controller *c)
{
	_cleanup_certificate_store_ struct certificate_store store = {0};
	const bool was_ready = c->is_ready;
	bool is_ready;
	struct error err;

	secret_read(secret_of(c), fields, &store);
	if (store.tls_crt && store.tls_key) {
		if (http_server_set_certificate(c->webhook, store.tls_crt, store.tls_key, &err) <
				0 ||
			http_server_set_certificate(
				page_server(c->page), store.tls_crt, store.tls_key, &err) < 0)
			log_warn("Secret %s: %s", c->options.tls_secret, err.msg);
		else
			c->has_certificate = true;
	}
	is_ready = c->has_certificate && controller_is_synced(c, CACHE_MUTATING) &&
		controller_is_synced(c, CACHE_VALIDATING) &&
		controller_is_synced(c, CACHE_NAMESPACES) &&
		controller_is_synced(c, CACHE_POLICIES);
	for (size_t i = 0; i < 2; i++)
		is_ready = is_ready &&
			is_trusted_by(c, &store, job_certificate_configuration(c, i));
	c->is_ready = is_ready;
	if (is_ready != was_ready)
		log_info(is_ready ? "ready: API servers trust the webhook's certificate"
				  : "not ready: API servers do not trust the certificate");
}

/* ---- writes of the leader ---- */

static void job_certificate_on_written(void *data, const struct kube_answer *answer)
{
	struct job *job = data;

	/*
	 * -EBUSY: another writer has changed the object; the watch brings that version and starts
	 * the job again.
	 */
	job_end(job, answer->result == -EBUSY ? 0 : answer->result, answer->error.msg);
}

static int job_certificate_write_secret(
	struct job *job, struct certificate_store *store, const json_t *secret, struct error *err)
{
	const struct kube_write write = job_write(job,
		&(struct kube_target){.group_version = "v1",
			.resource = "secrets",
			.namespace_name = job->c->options.ns,
			.name = job->c->options.tls_secret},
		job_certificate_on_written);

	return job_patch(job, &write, KUBE_PATCH_MERGE, secret_patch(secret, fields, store), err);
}

static void list_dialects(struct dialect_config *all, const char *list)
{
	struct dialect_config one;

	/* With a faulty list no pod of the namespace is translated, so the list adds no dialect. */
	if (list && dialect_config_parse(str_from(list), &one, NULL) == 0)
		all->enabled |= one.enabled;
}

/* Collects the dialects that any namespace or policy enables. */
static void all_dialects(const struct controller *c, struct dialect_config *ret_all)
{
	const struct kube_entry *e = NULL;

	dialect_config_parse(STR(""), ret_all, NULL);
	while ((e = controller_next(c, CACHE_NAMESPACES, e)))
		list_dialects(ret_all,
			kube_json_text_at(
				e->object, "metadata", "annotations", DIALECT_LIST_KEY, NULL));
	while ((e = controller_next(c, CACHE_POLICIES, e))) {
		_cleanup_buf_ struct buf list = BUF_INIT(LIST_MAX);

		policy_add_dialects(json_object_get(e->object, "spec"), &list);
		list_dialects(ret_all, buf_text(&list));
	}
}

static bool knows_conditions(const struct controller *c)
{
	return kube_discovery_has_field(c->discovery, KUBE_FIELD_WEBHOOK_MATCH_CONDITIONS) &&
		clock_now_ns() >= c->conditions_from_ns;
}

/*
 * Checks the answer for the conditions: if the API server dropped them, the patch changed nothing,
 * and the watch reports nothing.
 */
static void job_certificate_on_completed(void *data, const struct kube_answer *answer)
{
	struct job *job = data;
	_cleanup_json_ json_t *object = NULL;

	if (answer->result == 0 && kube_json_parse(answer->body, &object, NULL) == 0 &&
		hook_has_lost_conditions(json_object_get(object, "webhooks"))) {
		log_info("API servers drop matchConditions: all new pods need the webhook");
		job->c->conditions_from_ns = clock_add_ns(clock_now_ns(), CONDITIONS_PAUSE_NS);
	}
	job_certificate_on_written(data, answer);
}

/* Returns 1 if a write has started, 0 if the configurations are complete. */
static int complete_hooks(struct job *job, const struct certificate_store *store,
	bool has_conditions, struct error *err)
{
	const struct controller *c = job->c;
	const json_t *const hooks[] = {
		json_object_get(job_certificate_configuration(c, 0), "webhooks"),
		json_object_get(job_certificate_configuration(c, 1), "webhooks")};
	_cleanup_json_ json_t *encoded = secret_encode(store->ca_crt), *list = NULL;
	struct dialect_config dialects = {0};
	const struct hook_want want = {.bundle = json_string_value(encoded),
		.service = c->options.webhook_service,
		.ns = c->options.ns,
		.dialects = has_conditions ? &dialects : NULL};

	if (!want.bundle)
		return 0;
	all_dialects(c, &dialects);
	for (size_t i = 0; i < ARRAY_SIZE(hooks); i++) {
		const struct kube_write write = job_write(job,
			&(struct kube_target){.group_version = "admissionregistration.k8s.io/v1",
				.resource = i ? "validatingwebhookconfigurations"
					      : "mutatingwebhookconfigurations",
				.name = c->options.webhook_configuration},
			has_conditions ? job_certificate_on_completed : job_certificate_on_written);

		if (hook_patch_all(hooks[i], &want, &list) < 0)
			return fail(err, ENOMEM, "out of memory");
		if (list)
			return job_patch(job, &write, KUBE_PATCH_STRATEGIC,
				json_pack("{s:O}", "webhooks", list), err);
	}
	return 0;
}

/*
 * Writes the trusted authorities of the store as caBundle into the APIService of external metrics.
 * Returns 1 if a write has started, 0 if nothing has to be written.
 */
static int write_service_bundle(
	struct job *job, const struct certificate_store *store, struct error *err)
{
	const struct controller *c = job->c;
	const struct kube_write write = job_write(job,
		&(struct kube_target){.group_version = "apiregistration.k8s.io/v1",
			.resource = "apiservices",
			.name = CONTROLLER_API_SERVICE},
		job_certificate_on_written);
	const json_t *spec = json_object_get(
		controller_find(c, CACHE_API_SERVICE, "", CONTROLLER_API_SERVICE), "spec");
	const char *ns = kube_json_text_at(spec, "service", "namespace", NULL),
		   *name = kube_json_text_at(spec, "service", "name", NULL),
		   *now = kube_json_text_at(spec, "caBundle", NULL);
	_cleanup_json_ json_t *encoded = secret_encode(store->ca_crt);
	const char *bundle = json_string_value(encoded);

	/* The APIService belongs to another provider of metrics. */
	if (!ns || !name || strcmp(ns, c->options.ns) || strcmp(name, c->options.webhook_service))
		return 0;
	if (!bundle || (now && !strcmp(now, bundle)))
		return 0;
	return job_patch(job, &write, KUBE_PATCH_MERGE,
		json_pack("{s:{s:s}}", "spec", "caBundle", bundle), err);
}

static int job_certificate_check(struct job *job, struct error *err)
{
	struct controller *c = job->c;
	_cleanup_certificate_store_ struct certificate_store store = {0};
	const json_t *secret = secret_of(c);
	bool is_changed = false;
	int r = 1;

	if (!controller_is_synced(c, CACHE_SECRET) || !controller_is_synced(c, CACHE_MUTATING) ||
		!controller_is_synced(c, CACHE_VALIDATING) ||
		!controller_is_synced(c, CACHE_NAMESPACES) ||
		!controller_is_synced(c, CACHE_POLICIES))
		return 0;
	if (!secret)
		return fail(err, ENOENT, "Secret %s/%s is missing: it comes with the manifests",
			c->options.ns, c->options.tls_secret);
	secret_read(secret, fields, &store);
	for (int i = 0; i < STEPS_MAX && r > 0; i++) {
		r = certificate_step(&store, c->host, clock_real_ns(), err);
		is_changed |= r > 0;
	}
	if (r < 0)
		return r;
	if (is_changed) {
		log_info("a new certificate for %s", c->host);
		return job_certificate_write_secret(job, &store, secret, err);
	}
	/*
	 * API servers call the webhooks once the configurations name the authority. Before that,
	 * the system's namespaces must have the label that excludes them.
	 */
	if (!controller_has_labelled(c))
		return 0;
	r = complete_hooks(job, &store, false, err);
	if (r == 0)
		r = write_service_bundle(job, &store, err);
	return r || !knows_conditions(c) ? r : complete_hooks(job, &store, true, err);
}

void job_certificate(struct job *job)
{
	struct error err = {0};
	int r;

	queue_add_at(job->c->queue, job->key, clock_now_ns() + LOOK_NS);
	r = job_certificate_check(job, &err);
	if (r <= 0)
		job_end(job, r, err.msg);
}
