/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each held identity passes through phases: RETRY until its renewal or next attempt, CREATING the
 * request, and ASKING for the answer. ASKING reads the request by name repeatedly: a right to watch
 * would show this node the requests of all nodes. ASKING ends with the certificate, or after
 * PATIENCE_NS. The present certificate stays in use meanwhile. All functions run in the loop's
 * thread.
 */
#include "node/node-identity.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/rand.h"
#include "identity/crt.h"
#include "identity/request.h"
#include "kube/cache.h"
#include "kube/write.h"

#define GROUP "certificates.k8s.io/v1"
#define RESOURCE "certificatesigningrequests"
#define BUNDLE_KEY "ca.crt"
#define MANAGER "divvyd"
#define CALL_NS (10 * NSEC_PER_SEC)
#define PATIENCE_NS (120 * NSEC_PER_SEC)
#define ASK_FIRST_NS (50 * NSEC_PER_MSEC)
#define ASK_MOST_NS (5 * NSEC_PER_SEC)
#define AGAIN_FIRST_NS (2 * NSEC_PER_SEC)
#define AGAIN_MOST_NS (600 * NSEC_PER_SEC)
/* Wall clocks may be set, so no wait for a wall-clock time is longer than this. */
#define LOOK_NS (600 * NSEC_PER_SEC)
#define RANDOM_BYTES 16

enum phase { PHASE_RETRY, PHASE_CREATING, PHASE_ASKING };

struct held_identity {
	LIST_ENTRY(held_identity) link;
	struct identities *all;
	struct identity_name name;
	char uri[IDENTITY_URI];
	held_identity_fn *changed;
	void *data;
	enum phase phase;
	struct loop_timer timer; /* timer of the phase */
	struct kube_call *call;
	struct backoff again, ask;
	struct identity now; /* the certificate in use; crt NULL: none */
	struct identity_facts facts;
	char why[256];
	bool is_reported; /* the owner knows the present state */
	/* The request in progress. */
	char *key;
	char request[64]; /* name of the request's object */
	uint64_t until_ns;
};

struct identities {
	struct kube_client *client;
	struct kube_cache *maps;
	char space[254];
	char *bundle; /* NULL: not known yet, or invalid */
	LIST_HEAD(, held_identity) held;
};

static void identity_retry_later(struct held_identity *h, uint64_t delay_ns)
{
	h->phase = PHASE_RETRY;
	str_wipe(&h->key);
	loop_set_timer(&h->timer, clock_now_ns() + delay_ns);
}

static struct rand *its_rand(const struct held_identity *h)
{
	return kube_client_rand(h->all->client);
}

/*
 * Calls the owner's callback if the owner does not know the present state. Callers do this last,
 * because the callback may release the identity.
 */
static void identity_report(struct held_identity *h)
{
	if (!h->is_reported) {
		h->is_reported = true;
		h->changed(h->data, h);
	}
}

static void set_why(struct held_identity *h, const char *why)
{
	if (!strcmp(h->why, why))
		return;
	snprintf(h->why, sizeof(h->why), "%s", why);
	h->is_reported = false;
	if (why[0])
		log_warn("%s: %s", h->uri, why);
}

static void identity_fail_and_retry(struct held_identity *h, const char *why)
{
	identity_retry_later(h, backoff_next_ns(&h->again, its_rand(h)));
	set_why(h, why);
	identity_report(h);
}

static void identity_drop(struct held_identity *h)
{
	if (!h->now.crt)
		return;
	identity_done(&h->now);
	h->is_reported = false;
}

/* ---- the certificate ---- */

/* Nanoseconds until the renewal at two thirds of the certificate's life; 0: now. */
static uint64_t renew_in_ns(const struct held_identity *h, uint64_t real_ns)
{
	const uint64_t length = clock_since_ns(h->facts.to_ns, h->facts.from_ns);

	return clock_since_ns(h->facts.from_ns + length / 3 * 2, real_ns);
}

/* Checks the certificate against the present authorities, and keeps it if it passes. */
static int identity_take_certificate(
	struct held_identity *h, const char *crt, const char *key, struct error *err)
{
	const struct identity shown = {(char *)crt, (char *)key, h->all->bundle};
	struct identity_facts facts;
	struct identity copy;
	int r;

	if (!h->all->bundle)
		return fail(err, EKEYREJECTED,
			"ConfigMap %s/" IDENTITY_AUTHORITY " has no " BUNDLE_KEY, h->all->space);
	r = identity_check(&shown, clock_real_ns(), &facts, err);
	if (r < 0)
		return r;
	if (!identity_name_is_same(&facts.name, &h->name))
		return fail(err, EINVAL, "the certificate has another name");
	if (identity_copy(&shown, &copy) < 0)
		return fail(err, ENOMEM, "out of memory");
	identity_done(&h->now);
	h->now = copy;
	h->facts = facts;
	h->is_reported = false;
	return 0;
}

/* ---- a request ---- */

static void ask_in(struct held_identity *h, uint64_t delay_ns)
{
	h->phase = PHASE_ASKING;
	loop_set_timer(&h->timer, clock_now_ns() + delay_ns);
}

static void identity_on_refused(struct held_identity *h, const char *how, const json_t *condition)
{
	const char *message = kube_json_text_at(condition, "message", NULL);
	struct error err;

	fail(&err, EACCES, "the certificate was %s: %s", how,
		message ? message : "without a reason");
	identity_fail_and_retry(h, err.msg);
}

/* The signing authority may become known only a moment later, so -EKEYREJECTED is retried. */
static void on_signed(struct held_identity *h, const char *encoded)
{
	_cleanup_buf_ struct buf crt = BUF_INIT(CRT_PEM_MAX);
	struct error err;
	int r = base64_decode(str_from(encoded), &crt) < 0
		? fail(&err, EINVAL, "the certificate is not in base64")
		: identity_take_certificate(h, buf_text(&crt), h->key, &err);

	if (r == -EKEYREJECTED && clock_now_ns() < h->until_ns) {
		ask_in(h, backoff_next_ns(&h->ask, its_rand(h)));
		return;
	}
	if (r < 0) {
		identity_fail_and_retry(h, err.msg);
		return;
	}
	log_info("%s: got a certificate that is valid for %llu minutes", h->uri,
		(unsigned long long)(clock_since_ns(h->facts.to_ns, clock_real_ns()) /
			(60 * NSEC_PER_SEC)));
	backoff_reset(&h->again);
	identity_retry_later(h, MIN(renew_in_ns(h, clock_real_ns()), LOOK_NS));
	set_why(h, "");
	identity_report(h);
}

static void identity_on_request_read(void *data, const struct kube_answer *answer)
{
	struct held_identity *h = data;
	_cleanup_json_ json_t *object = NULL;
	const json_t *denied, *failed;
	struct error err;
	const char *crt;

	h->call = NULL;
	if (answer->result < 0) {
		kube_answer_explain(answer, "the request for a certificate cannot be read", &err);
		identity_fail_and_retry(h, err.msg);
		return;
	}
	if (kube_json_parse(answer->body, &object, NULL) < 0) {
		identity_fail_and_retry(h, "the API server's answer is not JSON");
		return;
	}
	denied = kube_json_condition(object, "Denied");
	failed = kube_json_condition(object, "Failed");
	crt = kube_json_text_at(object, "status", "certificate", NULL);
	if (denied || failed)
		identity_on_refused(h, denied ? "denied" : "not made", denied ? denied : failed);
	else if (crt && crt[0])
		on_signed(h, crt);
	else if (clock_now_ns() < h->until_ns)
		ask_in(h, backoff_next_ns(&h->ask, its_rand(h)));
	else
		identity_fail_and_retry(
			h, "no one signs certificates; check that divvy-controller runs");
}

static void identity_read_request(struct held_identity *h)
{
	const struct kube_write read = {
		.target = {.group_version = GROUP, .resource = RESOURCE, .name = h->request},
		.timeout_ns = CALL_NS,
		.done = identity_on_request_read,
		.data = h,
		.ret_call = &h->call};
	struct error err;

	if (kube_read(h->all->client, &read, &err) < 0)
		identity_fail_and_retry(h, err.msg);
}

static void identity_on_created(void *data, const struct kube_answer *answer)
{
	struct held_identity *h = data;
	struct error err;

	h->call = NULL;
	if (kube_answer_explain(answer, "no certificate can be requested", &err) < 0)
		identity_fail_and_retry(h, err.msg);
	else
		ask_in(h, backoff_next_ns(&h->ask, its_rand(h)));
}

static json_t *request_object(const struct held_identity *h, const char *request)
{
	_cleanup_buf_ struct buf encoded = BUF_INIT(2 * REQUEST_PEM_MAX);
	json_t *usages = json_pack("[s, s, s*]", "digital signature", "client auth",
		h->name.kind == IDENTITY_OF_NODE ? "server auth" : NULL);

	if (base64_encode(str_from(request), &encoded) < 0) {
		json_decref(usages);
		return NULL;
	}
	return json_pack("{s:s, s:s, s:{s:s}, s:{s:s, s:s, s:o}}", "apiVersion", GROUP, "kind",
		"CertificateSigningRequest", "metadata", "name", h->request, "spec", "request",
		buf_text(&encoded), "signerName", IDENTITY_SIGNER, "usages", usages);
}

static int identity_create_request(struct held_identity *h, struct error *err)
{
	const struct kube_write write = {.target = {.group_version = GROUP, .resource = RESOURCE},
		.field_manager = MANAGER,
		.timeout_ns = CALL_NS,
		.done = identity_on_created,
		.data = h,
		.ret_call = &h->call};
	_cleanup_json_ json_t *object = NULL;
	_cleanup_free_ char *request = NULL;
	uint8_t bytes[RANDOM_BYTES];
	int r, n;

	str_wipe(&h->key);
	r = request_make(&h->name, &request, &h->key, err);
	if (r < 0)
		return r;
	r = random_bytes(bytes, sizeof(bytes));
	if (r < 0)
		return fail_errno(err, -r, "random numbers");
	n = snprintf(h->request, sizeof(h->request), "divvy-remote-");
	for (size_t i = 0; i < sizeof(bytes); i++)
		n += snprintf(h->request + n, sizeof(h->request) - (size_t)n, "%02x", bytes[i]);
	object = request_object(h, request);
	return object ? kube_create(h->all->client, &write, object, err)
		      : fail(err, ENOMEM, "out of memory");
}

static void identity_begin_request(struct held_identity *h)
{
	struct error err;
	int r;

	h->phase = PHASE_CREATING;
	h->until_ns = clock_now_ns() + PATIENCE_NS;
	h->ask = (struct backoff){.base_ns = ASK_FIRST_NS, .max_ns = ASK_MOST_NS};
	r = identity_create_request(h, &err);
	if (r < 0)
		identity_fail_and_retry(h, err.msg);
	else
		identity_report(h);
}

static void identity_on_timer(struct loop_timer *timer, uint64_t now)
{
	struct held_identity *h = timer->data;
	const uint64_t real = clock_real_ns();

	if (h->call)
		return;
	if (h->phase == PHASE_ASKING) {
		identity_read_request(h);
		return;
	}
	if (h->now.crt && real >= h->facts.to_ns) {
		identity_drop(h);
		set_why(h, "its certificate has expired and was not renewed");
	}
	/*
	 * A certificate whose start lies in the future, because this clock is slow, stays in use as
	 * well.
	 */
	if (h->now.crt && renew_in_ns(h, real)) {
		identity_retry_later(h, MIN(renew_in_ns(h, real), LOOK_NS));
		identity_report(h);
	} else {
		identity_begin_request(h);
	}
}

/* ---- the trusted authorities ---- */

static int identity_keep_object(
	void *data, const struct kube_object *object, void **ret_own, struct error *err)
{
	const char *bundle = kube_json_text_at(object->json, "data", BUNDLE_KEY, NULL);
	gnutls_x509_crt_t list[CRT_LIST_MAX];
	unsigned int n = crt_list_read(bundle, list);
	char *copy;

	crt_list_done(list, n);
	if (!n)
		return bundle ? fail(err, EINVAL,
					"ConfigMap " IDENTITY_AUTHORITY ": " BUNDLE_KEY
					" has no certificates, or more than %u",
					CRT_LIST_MAX)
			      : -ENOENT;
	copy = str_dup(str_from(bundle));
	if (!copy)
		return fail(err, ENOMEM, "out of memory");
	*ret_own = copy;
	return 0;
}

/*
 * Checks all held certificates against the new bundle. Requests a certificate anew if no authority
 * in the bundle has signed it.
 */
static void on_bundle(struct identities *all, const char *bundle)
{
	struct held_identity *h;

	free(all->bundle);
	all->bundle = bundle ? str_dup(str_from(bundle)) : NULL;
	LIST_FOREACH(h, &all->held, link) {
		struct error err;
		struct identity had = h->now;

		if (had.crt) {
			h->now = (struct identity){0};
			h->is_reported = false;
			if (identity_take_certificate(h, had.crt, had.key, &err) < 0)
				log_info("%s: requesting a new certificate: %s", h->uri, err.msg);
			identity_done(&had);
		}
		if (h->phase == PHASE_RETRY && !h->now.crt) {
			backoff_reset(&h->again);
			loop_set_timer(&h->timer, 0);
		}
	}
	/* Starts over after each callback, because a callback may hold and release any identity. */
	for (h = LIST_FIRST(&all->held); h;) {
		if (h->is_reported) {
			h = LIST_NEXT(h, link);
		} else {
			identity_report(h);
			h = LIST_FIRST(&all->held);
		}
	}
}

static void bundle_is(void *data, const struct kube_entry *entry)
{
	on_bundle(data, entry->object);
}

static void bundle_becomes(void *data, const struct kube_entry *entry, void *old)
{
	const struct identities *all = data;

	if (!all->bundle || strcmp(all->bundle, entry->object))
		on_bundle(data, entry->object);
}

/* A deletion does not revoke the former authorities, so held certificates stay. */
static void bundle_is_gone(void *data, const struct kube_entry *entry)
{
	log_warn(
		"ConfigMap " IDENTITY_AUTHORITY " was deleted; apply the manifests of divvy again");
}

static void identity_on_trouble(void *data, const struct error *err)
{
	log_warn("%s", err->msg);
}

int identities_new(struct kube_client *client, const char *space, struct identities **ret_all,
	struct error *err)
{
	struct identities *all = calloc(1, sizeof(*all));
	const struct kube_cache_handler handler = {.project = identity_keep_object,
		.release = free,
		.added = bundle_is,
		.updated = bundle_becomes,
		.deleted = bundle_is_gone,
		.trouble = identity_on_trouble,
		.data = all};
	char path[320];
	const struct kube_reflect_options options = {
		.path = path, .field_selector = "metadata.name=" IDENTITY_AUTHORITY};
	int r;

	if (!all)
		return fail(err, ENOMEM, "out of memory");
	all->client = client;
	snprintf(all->space, sizeof(all->space), "%s", space);
	snprintf(path, sizeof(path), "/api/v1/namespaces/%s/configmaps", all->space);
	r = kube_cache_new(client, &options, &handler, &all->maps, err);
	if (r < 0) {
		free(all);
		return r;
	}
	*ret_all = all;
	return 0;
}

void identities_free(struct identities *all)
{
	struct held_identity *h;

	if (!all)
		return;
	while ((h = LIST_FIRST(&all->held)))
		identity_release(h);
	kube_cache_free(all->maps);
	free(all->bundle);
	free(all);
}

int identity_hold(struct identities *all, const struct identity_name *name,
	held_identity_fn *changed, void *data, struct held_identity **ret_held, struct error *err)
{
	struct held_identity *h = calloc(1, sizeof(*h));
	int r;

	if (!h)
		return fail(err, ENOMEM, "out of memory");
	h->all = all;
	h->name = *name;
	h->changed = changed;
	h->data = data;
	h->is_reported = true;
	h->timer.data = h;
	h->again = (struct backoff){.base_ns = AGAIN_FIRST_NS, .max_ns = AGAIN_MOST_NS};
	r = identity_name_format(name, h->uri) < 0
		? fail(err, EINVAL, "no node, pod or container can have that name")
		: loop_add_timer(kube_client_loop(all->client), &h->timer, identity_on_timer);
	if (r < 0) {
		free(h);
		return r == -ENOMEM ? fail(err, ENOMEM, "out of memory") : r;
	}
	snprintf(h->why, sizeof(h->why), "requested and not issued yet");
	LIST_INSERT_HEAD(&all->held, h, link);
	loop_set_timer(&h->timer, 0);
	*ret_held = h;
	return 0;
}

void identity_release(struct held_identity *held)
{
	if (!held)
		return;
	LIST_REMOVE(held, link);
	kube_call_cancel(held->call);
	loop_remove_timer(&held->timer);
	identity_done(&held->now);
	str_wipe(&held->key);
	free(held);
}

const struct identity *held_identity_get(const struct held_identity *held)
{
	return held->now.crt && clock_real_ns() < held->facts.to_ns ? &held->now : NULL;
}

const char *held_identity_why(const struct held_identity *held)
{
	return held->why;
}

const struct identity_name *held_identity_name(const struct held_identity *held)
{
	return &held->name;
}
