/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file decides on a request by two questions to the API server: first TokenReview, then
 * SubjectAccessReview. A user from the API server in front needs only the second. A visit is a
 * request that waits for such an answer. The key of a cached answer hashes the kind of proof, the
 * verb, the path, and the token or user. The cache never holds the verdict UNKNOWN, so the next
 * request after an outage asks the API server again. An origin counts each of its visits as a
 * failure in advance, and an allowed visit takes that failure back. Each failure moves clear_ns on
 * by ACCESS_FAILURE_NS, so time alone clears failures and no timer counts them down. The code never
 * reuses an origin that has open visits.
 */
#include "access/access.h"

#include <errno.h>
#include <gnutls/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "kube/kube-json.h"
#include "kube/write.h"

#define REVIEW_NS (10 * NSEC_PER_SEC)
#define HASH_BYTES 32u

enum verdict { UNKNOWN, ALLOWED, NO_TOKEN, NOBODY, FORBIDDEN, TOO_MANY };

/* The kind of proof in a request; part of the key, so that no token can pass for a user. */
enum asker { USER, TOKEN };

/* The verdict about a token or user, a method and a path. */
struct answer {
	uint8_t key[HASH_BYTES];
	enum verdict verdict;
	uint64_t since_ns;
};

/* A client address with visits. */
struct origin {
	struct http_address address;
	uint64_t clear_ns; /* when its last failure expires; each failure adds ACCESS_FAILURE_NS */
	uint32_t n_open;
};

/* A request that waits for the API server. */
struct visit {
	LIST_ENTRY(visit) link;
	struct origin *origin; /* NULL: not limited */
	struct access *access;
	struct http_request *request;
	struct kube_call *call;
	uint8_t key[HASH_BYTES];
};

struct access {
	struct kube_client *client;
	const char *cookie;        /* NULL: none */
	const struct front *front; /* NULL: none */
	LIST_HEAD(visits, visit) visits;
	struct answer answers[ACCESS_ANSWERS_MAX], of_nobody[ACCESS_ANSWERS_MAX];
	struct origin origins[ACCESS_ADDRESSES_MAX];
	uint32_t n_visits; /* visits with an origin, at most ACCESS_VISITS_MAX */
};

/* ---- cached answers ---- */

/* HEAD counts as GET. */
static const char *verb_of(const struct http_request *request)
{
	static const char *const verbs[][2] = {
		{"POST", "post"}, {"PUT", "put"}, {"PATCH", "patch"}, {"DELETE", "delete"}};

	for (size_t i = 0; i < ARRAY_SIZE(verbs) && !http_right(request); i++)
		if (!strcmp(http_method(request), verbs[i][0]))
			return verbs[i][1];
	return "get";
}

static const char *path_of(const struct http_request *request)
{
	return http_right(request) ? http_right(request) : http_path(request);
}

static int access_make_key(
	const struct http_request *request, enum asker asker, struct str who, uint8_t *ret)
{
	const char *verb = verb_of(request), *path = path_of(request);
	const char *const kind = asker == TOKEN ? "token" : "user";
	gnutls_hash_hd_t hash;

	if (gnutls_hash_init(&hash, GNUTLS_DIG_SHA256) < 0)
		return -ENOMEM;
	/* Hashes each text with its final 0, so that no other texts give the same input. */
	gnutls_hash(hash, kind, strlen(kind) + 1);
	gnutls_hash(hash, verb, strlen(verb) + 1);
	gnutls_hash(hash, path, strlen(path) + 1);
	gnutls_hash(hash, who.p, who.n);
	gnutls_hash_deinit(hash, ret);
	return 0;
}

static enum verdict recall_from(const struct answer *answers, const uint8_t *key)
{
	const uint64_t now = clock_now_ns();

	for (size_t i = 0; i < ACCESS_ANSWERS_MAX; i++) {
		const struct answer *a = &answers[i];

		if (a->verdict && clock_since_ns(now, a->since_ns) < ACCESS_AGE_NS &&
			!memcmp(a->key, key, HASH_BYTES))
			return a->verdict;
	}
	return UNKNOWN;
}

static enum verdict access_recall_verdict(const struct access *access, const uint8_t *key)
{
	const enum verdict known = recall_from(access->answers, key);

	return known ? known : recall_from(access->of_nobody, key);
}

static void access_remember_verdict(struct access *access, const uint8_t *key, enum verdict verdict)
{
	struct answer *answers = verdict == NOBODY ? access->of_nobody : access->answers;
	struct answer *oldest = &answers[0];

	for (size_t i = 1; i < ACCESS_ANSWERS_MAX; i++)
		if (answers[i].since_ns < oldest->since_ns)
			oldest = &answers[i];
	oldest->verdict = verdict;
	oldest->since_ns = clock_now_ns();
	memcpy(oldest->key, key, HASH_BYTES);
}

/* ---- limits for addresses ---- */

/*
 * Returns the address's own origin, or else the free origin with the fewest failures. NULL: all
 * origins have open questions.
 */
static struct origin *find_origin(struct access *access, const struct http_address *address)
{
	struct origin *found = NULL;

	for (size_t i = 0; i < ACCESS_ADDRESSES_MAX; i++) {
		struct origin *o = &access->origins[i];

		if ((o->clear_ns || o->n_open) && http_address_is_same(&o->address, address))
			return o;
		if (!o->n_open && (!found || o->clear_ns < found->clear_ns))
			found = o;
	}
	if (found)
		*found = (struct origin){.address = *address};
	return found;
}

/*
 * Counts a failure in advance; a success subtracts it again. False: the address has too many
 * failures or open visits.
 */
static bool begin_visit(struct visit *v)
{
	struct access *access = v->access;
	const struct http_address address = http_address(v->request);
	const uint64_t now = clock_now_ns();
	struct origin *o = access->n_visits < ACCESS_VISITS_MAX ? find_origin(access, &address)
								: NULL;

	if (!o || o->n_open >= ACCESS_OPEN_MAX ||
		clock_since_ns(o->clear_ns, now) >= ACCESS_FAILURES_MAX * ACCESS_FAILURE_NS)
		return false;
	o->clear_ns = MAX(o->clear_ns, now) + ACCESS_FAILURE_NS;
	o->n_open++;
	access->n_visits++;
	v->origin = o;
	return true;
}

static void end_visit(struct visit *v, enum verdict verdict)
{
	struct origin *o = v->origin;

	if (!o)
		return;
	o->n_open--;
	v->access->n_visits--;
	if (verdict == ALLOWED)
		o->clear_ns -= ACCESS_FAILURE_NS;
}

/* ---- questions to the API server ---- */

static void access_answer_request(struct http_request *request, enum verdict verdict)
{
	static const struct {
		unsigned int status;
		const char *text;
	} refusals[] = {
		[UNKNOWN] = {503,
			"the API server does not answer whether this is allowed; try again "
			"later\n"},
		[NO_TOKEN] = {401, "no token; send the header Authorization: Bearer TOKEN\n"},
		[NOBODY] = {401, "the API server does not know this token\n"},
		[FORBIDDEN] = {403, "not allowed; bind a cluster role that allows this path\n"},
		[TOO_MANY] = {429,
			"too many failed or pending tokens from this address; try again later\n"},
	};

	if (verdict == TOO_MANY)
		http_add_header(request, "Retry-After", "1");

	if (verdict == ALLOWED)
		http_pass(request);
	else
		http_answer(request, refusals[verdict].status, HTTP_TEXT,
			str_from(refusals[verdict].text));
}

static void access_end_review(struct visit *v, enum verdict verdict)
{
	struct http_request *request = v->request;

	if (verdict != UNKNOWN)
		access_remember_verdict(v->access, v->key, verdict);
	LIST_REMOVE(v, link);
	end_visit(v, verdict);
	free(v);
	access_answer_request(request, verdict);
}

/* The reason is only logged: it may name hosts, and the peer is not authenticated. */
static void access_fail_review(struct visit *v, const char *why)
{
	log_debug("%s %s: %s", http_method(v->request), http_path(v->request), why);
	access_end_review(v, UNKNOWN);
}

/* Takes over the JSON object `review`. */
static void access_send_review(struct visit *v, const char *group_version, const char *resource,
	json_t *review, kube_done_fn *done)
{
	const struct kube_write write = {
		.target = {.group_version = group_version, .resource = resource},
		.timeout_ns = REVIEW_NS,
		.done = done,
		.data = v,
		.ret_call = &v->call};
	struct error err = {.msg = "out of memory"};

	if (!review || kube_create(v->access->client, &write, review, &err) < 0)
		access_fail_review(v, err.msg);
	json_decref(review);
}

/* The review in the API server's answer; NULL if there is none: the visit has then ended. */
static json_t *review_of(struct visit *v, const struct kube_answer *a)
{
	struct error err = a->error;
	json_t *review;

	v->call = NULL;
	if (a->result >= 0 && kube_json_parse(a->body, &review, &err) >= 0)
		return review;
	access_fail_review(v, err.msg);
	return NULL;
}

static void on_access(void *data, const struct kube_answer *a)
{
	_cleanup_json_ json_t *review = review_of(data, a);

	if (!review)
		return;
	access_end_review(data,
		json_is_true(kube_json_at(review, "status", "allowed", NULL)) ? ALLOWED
									      : FORBIDDEN);
}

/* Parses /apis/GROUP/VERSION[/namespaces/NAMESPACE]/RESOURCE[/NAME]; NULL for other paths. */
static json_t *resource_attributes(const char *verb, struct str path)
{
	struct str group, version, resource, ns = STR_NONE, name = STR_NONE;

	if (!str_skip_prefix(&path, STR("/apis/")) || !str_split(&path, '/', &group) ||
		!str_split(&path, '/', &version) || !str_split(&path, '/', &resource))
		return NULL;
	if (str_is(resource, "namespaces") &&
		(!str_split(&path, '/', &ns) || !str_split(&path, '/', &resource)))
		return NULL;
	str_split(&path, '/', &name);
	if (!group.n || !version.n || !resource.n)
		return NULL;
	if (!strcmp(verb, "get") && !name.n)
		verb = "list";
	return json_pack("{s:s%, s:s%, s:s%, s:s%, s:s%, s:s}", "group", group.p, group.n,
		"version", version.p, version.n, "namespace", ns.p ? ns.p : "", ns.n, "resource",
		resource.p, resource.n, "name", name.p ? name.p : "", name.n, "verb", verb);
}

/* user: in the form of front_user(); taken over. */
static void ask_whether_he_may(struct visit *v, json_t *user)
{
	const char *verb = verb_of(v->request), *path = path_of(v->request);
	json_t *resource = resource_attributes(verb, str_from(path));

	if (resource)
		json_object_set_new(user, "resourceAttributes", resource);
	else
		json_object_set_new(user, "nonResourceAttributes",
			json_pack("{s:s, s:s}", "path", path, "verb", verb));
	access_send_review(v, "authorization.k8s.io/v1", "subjectaccessreviews",
		json_pack("{s:s, s:s, s:o}", "apiVersion", "authorization.k8s.io/v1", "kind",
			"SubjectAccessReview", "spec", user),
		on_access);
}

static void on_token(void *data, const struct kube_answer *a)
{
	_cleanup_json_ json_t *review = review_of(data, a);
	const json_t *user = kube_json_at(review, "status", "user", NULL);
	const char *name = kube_json_text_at(user, "username", NULL);
	struct visit *v = data;

	if (!review)
		return;
	if (!json_is_true(kube_json_at(review, "status", "authenticated", NULL)) || !name) {
		access_end_review(v, NOBODY);
		return;
	}
	ask_whether_he_may(v,
		json_pack("{s:s, s:O*, s:O*, s:O*}", "user", name, "uid",
			json_object_get(user, "uid"), "groups", json_object_get(user, "groups"),
			"extra", json_object_get(user, "extra")));
}

static struct str access_request_token(
	const struct access *access, const struct http_request *request)
{
	const char *header = http_header(request, "Authorization");
	struct str token = str_from(header);

	if (header)
		return str_skip_prefix(&token, STR("Bearer ")) ? token : STR_NONE;
	return str_from(access->cookie ? http_cookie(request, access->cookie) : NULL);
}

/*
 * Begins a visit that needs the API server. NULL: the request was answered from the cache, or
 * refused.
 */
static struct visit *access_begin_review(
	struct access *access, struct http_request *request, enum asker asker, struct str who)
{
	struct visit *v;
	uint8_t key[HASH_BYTES];
	enum verdict known;

	if (access_make_key(request, asker, who, key) < 0) {
		access_answer_request(request, UNKNOWN);
		return NULL;
	}
	known = access_recall_verdict(access, key);
	v = known ? NULL : calloc(1, sizeof(*v));
	if (!v) {
		access_answer_request(request, known);
		return NULL;
	}
	v->access = access;
	v->request = request;
	memcpy(v->key, key, HASH_BYTES);
	if (asker == TOKEN && !begin_visit(v)) {
		free(v);
		access_answer_request(request, TOO_MANY);
		return NULL;
	}
	LIST_INSERT_HEAD(&access->visits, v, link);
	return v;
}

static void guard_user(struct access *access, struct http_request *request, json_t *user)
{
	_cleanup_free_ char *who = kube_json_format(user);
	struct visit *v;

	if (!who) {
		access_answer_request(request, UNKNOWN);
		return;
	}
	v = access_begin_review(access, request, USER, str_from(who));
	if (v)
		ask_whether_he_may(v, json_incref(user));
}

static void guard_token(struct access *access, struct http_request *request)
{
	const struct str token = access_request_token(access, request);
	struct visit *v;

	if (!token.n || token.n > ACCESS_TOKEN_MAX) {
		access_answer_request(request, NO_TOKEN);
		return;
	}
	v = access_begin_review(access, request, TOKEN, token);
	if (v)
		access_send_review(v, "authentication.k8s.io/v1", "tokenreviews",
			json_pack("{s:s, s:s, s:{s:s%}}", "apiVersion", "authentication.k8s.io/v1",
				"kind", "TokenReview", "spec", "token", token.p, token.n),
			on_token);
}

void access_guard(void *data, struct http_request *request)
{
	struct access *access = data;
	_cleanup_json_ json_t *user = access->front ? front_user(access->front, request) : NULL;

	if (user)
		guard_user(access, request, user);
	else
		guard_token(access, request);
}

int access_new(struct kube_client *client, struct access **ret_access, struct error *err)
{
	struct access *access = calloc(1, sizeof(*access));

	if (!access)
		return fail(err, ENOMEM, "out of memory");
	access->client = client;
	LIST_INIT(&access->visits);
	*ret_access = access;
	return 0;
}

void access_accept_cookie(struct access *access, const char *name)
{
	access->cookie = name;
}

void access_set_front(struct access *access, const struct front *front)
{
	access->front = front;
}

void access_free(struct access *access)
{
	struct visit *v;

	if (!access)
		return;
	while ((v = LIST_FIRST(&access->visits))) {
		kube_call_cancel(v->call);
		access_end_review(v, UNKNOWN);
	}
	free(access);
}
