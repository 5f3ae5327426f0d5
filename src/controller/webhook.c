/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers admission reviews and the dashboard's requests from the caches. If the caches do not have
 * a namespace or a daemon's pod yet, this file first reads it from the API server.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "controller/controller.h"
#include "controller/external-metric.h"
#include "controller/controller-metrics.h"

/*
 * timeout of a read from the API server; shorter than 2 s, the shortest time that the API server
 * waits for one of the webhooks
 */
#define ASK_NS (UINT64_C(1500) * 1000000)
#define TEXT_MAX (4u << 20)

/* A request that waits for the API server. */
struct asking {
	LIST_ENTRY(asking) link;
	struct controller *c;
	struct http_request *request;
	struct kube_call *call;
	const struct admit_path *path;
	json_t *review;
	struct admit_request what; /* borrows from `review` */
};

static void webhook_answer_text(struct http_request *request, unsigned int status, const char *text)
{
	http_answer(request, status, HTTP_TEXT, str_from(text));
}

static void asking_free(struct asking *a)
{
	LIST_REMOVE(a, link);
	json_decref(a->review);
	free(a);
}

static struct asking *asking_new(struct controller *c, struct http_request *request)
{
	struct asking *a = calloc(1, sizeof(*a));

	if (!a) {
		webhook_answer_text(request, 503, "out of memory\n");
		return NULL;
	}
	a->c = c;
	a->request = request;
	LIST_INSERT_HEAD(&c->askings, a, link);
	return a;
}

static void end_text(struct asking *a, unsigned int status, const char *text)
{
	webhook_answer_text(a->request, status, text);
	asking_free(a);
}

void controller_end_askings(struct controller *c)
{
	struct asking *a;

	while ((a = LIST_FIRST(&c->askings)))
		end_text(a, 503, "divvy-controller is shutting down\n");
}

/* ---- reviews ---- */

static void webhook_conclude_review(struct asking *a, const struct admit_facts *facts)
{
	_cleanup_json_ json_t *out = admit_answer(a->path, &a->c->rules, &a->what, facts);
	_cleanup_free_ char *text = out ? kube_json_format(out) : NULL;
	const bool is_allowed = json_is_true(kube_json_at(out, "response", "allowed", NULL));

	if (!text) {
		end_text(a, 503, "out of memory\n");
		return;
	}
	a->c->n_reviews[is_allowed]++;
	log_debug("%s %s %s/%s by %s: %s", a->what.operation, a->what.resource, a->what.ns,
		a->what.name, a->what.user, is_allowed ? "allowed" : "refused");
	http_answer(a->request, 200, "application/json", str_from(text));
	asking_free(a);
}

static void conclude_for_namespace(struct asking *a, const json_t *ns)
{
	struct admit_facts facts = {0};
	struct ns_facts known;

	if (controller_ns_facts(a->c, a->what.ns, ns, &known) == 0)
		facts.ns = known.facts;
	webhook_conclude_review(a, &facts);
	ns_facts_done(&known);
}

static void conclude_for_pod(struct asking *a, const json_t *pod)
{
	const struct admit_facts facts = {.author = own_pod_of(pod)};

	webhook_conclude_review(a, &facts);
}

static void webhook_on_object(void *data, const struct kube_answer *answer)
{
	struct asking *a = data;
	_cleanup_json_ json_t *object = NULL;

	/* The read failed for another reason than a missing object, so the request is refused. */
	if (answer->result < 0 && answer->result != -ENOENT) {
		end_text(a, 503, answer->error.msg);
		return;
	}
	if (answer->result == 0 && kube_json_parse(answer->body, &object, NULL) < 0) {
		end_text(a, 503, "the API server's answer is not JSON\n");
		return;
	}
	if (admit_needs(a->path, &a->c->rules, &a->what) == ADMIT_NEEDS_POD)
		conclude_for_pod(a, object);
	else
		conclude_for_namespace(a, object);
}

static void webhook_request_object(
	struct asking *a, const char *resource, const char *ns, const char *name)
{
	const struct kube_write read = {.target = {.group_version = "v1",
						.resource = resource,
						.namespace_name = ns,
						.name = name},
		.timeout_ns = ASK_NS,
		.done = webhook_on_object,
		.data = a};
	struct error err;

	if (kube_read(a->c->client, &read, &err) < 0)
		end_text(a, 400, err.msg);
}

/*
 * Uses the cached pod that the author's token names, if the pod has the UID in the token and a
 * node. Otherwise reads the pod from the API server.
 */
static void review_own(struct asking *a)
{
	const json_t *pod = controller_find(a->c, CACHE_PODS, a->c->options.ns, a->what.pod_name);
	const struct own_pod own = own_pod_of(pod);

	if (own.uid && own.node && !strcmp(own.uid, a->what.pod_uid))
		conclude_for_pod(a, pod);
	else
		webhook_request_object(a, "pods", a->c->options.ns, a->what.pod_name);
}

static void webhook_begin_review(
	struct controller *c, struct http_request *request, const struct admit_path *path)
{
	struct asking *a = asking_new(c, request);
	const struct admit_facts none = {0};
	struct error err;

	if (!a)
		return;
	a->path = path;
	if (kube_json_parse(http_body(request), &a->review, &err) < 0 ||
		admit_parse(a->review, &a->what, &err) < 0) {
		end_text(a, 400, err.msg);
		return;
	}
	switch (admit_needs(path, &c->rules, &a->what)) {
	case ADMIT_NEEDS_POD: review_own(a); break;
	case ADMIT_NEEDS_NAMESPACE:
		if (controller_find(c, CACHE_NAMESPACES, "", a->what.ns))
			conclude_for_namespace(a, NULL);
		else
			webhook_request_object(a, "namespaces", NULL, a->what.ns);
		break;
	default: webhook_conclude_review(a, &none); break;
	}
}

static void on_review(void *data, struct http_request *request)
{
	struct controller *c = data;
	const struct admit_path *path = admit_path_find(http_path(request));

	if (!path)
		webhook_answer_text(request, 404, "no such path\n");
	else if (!controller_is_synced(c, CACHE_NAMESPACES) ||
		!controller_is_synced(c, CACHE_POLICIES))
		webhook_answer_text(
			request, 503, "not ready: still reading namespaces and policies\n");
	else
		webhook_begin_review(c, request, path);
}

static void webhook_on_ready(void *data, struct http_request *request)
{
	const struct controller *c = data;

	webhook_answer_text(request, c->is_ready ? 200 : 503,
		c->is_ready ? "ok\n"
			    : "not ready: API servers do not trust the webhook's "
			      "certificate yet\n");
}

const struct http_route controller_webhook_routes[CONTROLLER_WEBHOOK_ROUTES] = {
	{"GET", "/healthz", webhook_on_ready},
	{"GET", "/apis", external_on_groups},
	{"GET", "/apis/" EXTERNAL_METRIC_API, external_on_group},
	{"GET", "/apis/" EXTERNAL_METRIC_GROUP, external_on_resources},
	{"GET", "/apis/" EXTERNAL_METRIC_GROUP "/*", external_on_metric, .is_guarded = true},
	{"GET", "/openapi/*", external_on_nothing},
	{"POST", "*", on_review},
};

const struct http_route controller_health_routes[CONTROLLER_HEALTH_ROUTES] = {
	{"GET", "/healthz", http_answer_ok},
	{"GET", "/readyz", webhook_on_ready},
};

/* ---- dashboard and metrics ---- */

static void webhook_on_metrics(void *data, struct http_request *request)
{
	_cleanup_buf_ struct buf text = BUF_INIT(TEXT_MAX);

	controller_metrics(data, &text);
	http_answer_buf(request, HTTP_METRICS, &text);
}

static void on_page(void *data, struct http_request *request)
{
	const struct controller *c = data;

	web_serve(c->web, request);
}

const struct http_route controller_page_routes[CONTROLLER_PAGE_ROUTES] = {
	{"GET", "/healthz", http_answer_ok},
	{"GET", "/metrics", webhook_on_metrics, .is_guarded = true},
	WEB_ROUTES(on_page),
};
