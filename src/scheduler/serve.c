/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/serve.h"

#include <errno.h>
#include <stdlib.h>

#include "access/access.h"
#include "base/prom.h"
#include "http/issue.h"
#include "scheduler/service-internal.h"

#define CONNECTIONS_MAX 64u
#define BODY_MAX (64u << 10)
#define TEXT_MAX (1u << 20)

struct serve {
	struct http_server *server;
	struct access *access;
};

static void add_metrics(const struct service *s, struct buf *out)
{
	const struct kube_client_counts client = kube_client_counts(s->client);
	struct sched_counts n = {0};

	if (s->sched)
		n = sched_counts(s->sched);
	prom_add(out, "divvy_scheduler_leading", "gauge", "1 while it decides.",
		service_may_write(s));
	prom_add(out, "divvy_scheduler_epoch", "gauge", "Transitions of the Lease.",
		(double)s->epoch);
	prom_add(out, "divvy_scheduler_pods_active", "gauge", "Pods and groups whose turn it is.",
		n.pending.n_active);
	prom_add(out, "divvy_scheduler_pods_backing_off", "gauge",
		"Pods and groups that pause after a try.", n.pending.n_backing_off);
	prom_add(out, "divvy_scheduler_pods_unschedulable", "gauge",
		"Pods and groups that fit nowhere now.", n.pending.n_resting);
	prom_add(out, "divvy_scheduler_pods_holding", "gauge",
		"Pods that wait for others to leave their place.", n.n_holding);
	prom_add(
		out, "divvy_scheduler_binds_in_flight", "gauge", "Bindings under way.", s->n_binds);
	prom_add(out, "divvy_scheduler_decisions_total", "counter", "Pods looked at.",
		(double)n.n_decisions);
	prom_add(out, "divvy_scheduler_placed_total", "counter", "Decisions that found a place.",
		(double)n.n_placed);
	prom_add(out, "divvy_scheduler_unschedulable_total", "counter",
		"Decisions that found none.", (double)n.n_nowhere);
	prom_add(out, "divvy_scheduler_bound_total", "counter", "Bindings that were made.",
		(double)s->n_bound);
	prom_add(out, "divvy_scheduler_bind_failures_total", "counter", "Bindings that failed.",
		(double)n.n_bind_failures);
	prom_add(out, "divvy_scheduler_evictions_total", "counter",
		"Pods told to leave for others.", (double)n.n_evictions);
	prom_add_histogram(
		out, "divvy_scheduler_bind_seconds", "How long Bindings took.", &s->bind_time);
	prom_add_histogram(
		out, "divvy_scheduler_decide_seconds", "How long decisions took.", &s->decide_time);
	prom_add(out, "divvy_scheduler_api_requests_total", "counter",
		"Requests to the API server.", (double)client.n_tries);
	prom_add(out, "divvy_scheduler_api_failures_total", "counter", "Requests that failed.",
		(double)client.n_failures);
}

static void on_metrics(void *data, struct http_request *request)
{
	_cleanup_buf_ struct buf text = BUF_INIT(TEXT_MAX);

	add_metrics(data, &text);
	http_answer_buf(request, HTTP_METRICS, &text);
}

static const struct http_route routes[] = {
	{"GET", "/healthz", http_answer_ok},
	{"GET", "/metrics", on_metrics, .is_guarded = true},
};

static int start(struct serve *serve, struct service *service, struct error *err)
{
	const struct options *o = service->options;
	struct http_options http = {.address = o->listen,
		.is_tls = true,
		.max_connections = CONNECTIONS_MAX,
		.max_body = BODY_MAX,
		.routes = routes,
		.n_routes = ARRAY_SIZE(routes),
		.data = service,
		.guard = access_guard};
	int r = access_new(service->client, &serve->access, err);

	http.guard_data = serve->access;
	r = r < 0 ? r : http_server_new(service->loop, &http, &serve->server, err);
	if (r < 0)
		return fail_within(err, r, "--listen");
	return o->tls_cert
		? http_server_read(serve->server, o->tls_cert, o->tls_key, err)
		: http_server_issue(serve->server, "divvy-scheduler", "divvy-scheduler", err);
}

int serve_new(struct service *service, struct serve **ret_serve, struct error *err)
{
	struct serve *serve;
	int r;

	*ret_serve = NULL;
	if (!service->options->listen)
		return 0;
	serve = calloc(1, sizeof(*serve));
	if (!serve)
		return fail(err, ENOMEM, "out of memory");
	r = start(serve, service, err);
	if (r < 0) {
		serve_free(serve);
		return r;
	}
	*ret_serve = serve;
	return 0;
}

void serve_free(struct serve *serve)
{
	if (!serve)
		return;
	access_free(serve->access);
	http_server_free(serve->server);
	free(serve);
}
