/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/serve.h"

#include <errno.h>
#include <stdlib.h>

#include "access/access.h"
#include "http/issue.h"
#include "scheduler/service-internal.h"

#define CONNECTIONS_MAX 64u
#define BODY_MAX (64u << 10)
#define TEXT_MAX (1u << 20)

struct serve {
	struct http_server *server;
	struct access *access;
};

static void add(struct buf *out, const char *name, const char *type, const char *help, double value)
{
	buf_addf(out,
		"# HELP divvy_scheduler_%s %s\n# TYPE divvy_scheduler_%s %s\n"
		"divvy_scheduler_%s %.17g\n",
		name, help, name, type, name, value);
}

static void add_metrics(const struct service *s, struct buf *out)
{
	const struct kube_client_counts client = kube_client_counts(s->client);
	struct sched_counts n = {0};

	if (s->sched)
		n = sched_counts(s->sched);
	add(out, "leading", "gauge", "1 while it decides.", service_may_write(s));
	add(out, "epoch", "gauge", "Transitions of the Lease.", (double)s->epoch);
	add(out, "pods_active", "gauge", "Pods and groups whose turn it is.", n.pending.n_active);
	add(out, "pods_backing_off", "gauge", "Pods and groups that pause after a try.",
		n.pending.n_backing_off);
	add(out, "pods_unschedulable", "gauge", "Pods and groups that fit nowhere now.",
		n.pending.n_resting);
	add(out, "pods_holding", "gauge", "Pods that wait for others to leave their place.",
		n.n_holding);
	add(out, "binds_in_flight", "gauge", "Bindings under way.", s->n_binds);
	add(out, "decisions_total", "counter", "Pods looked at.", (double)n.n_decisions);
	add(out, "placed_total", "counter", "Decisions that found a place.", (double)n.n_placed);
	add(out, "unschedulable_total", "counter", "Decisions that found none.",
		(double)n.n_nowhere);
	add(out, "bound_total", "counter", "Bindings that were made.", (double)s->n_bound);
	add(out, "bind_failures_total", "counter", "Bindings that failed.",
		(double)n.n_bind_failures);
	add(out, "evictions_total", "counter", "Pods told to leave for others.",
		(double)n.n_evictions);
	add(out, "bind_seconds_sum", "counter", "Time that Bindings took, together.",
		(double)s->bind_ns / NSEC_PER_SEC);
	add(out, "decide_seconds_sum", "counter", "Time that decisions took, together.",
		(double)s->decide_ns / NSEC_PER_SEC);
	add(out, "api_requests_total", "counter", "Requests to the API server.",
		(double)client.n_tries);
	add(out, "api_failures_total", "counter", "Requests that failed.",
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
