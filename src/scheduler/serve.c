/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/serve.h"

#include "scheduler/service-internal.h"

#define TEXT_MAX (1u << 20)

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

int serve_new(struct service *service, struct page **ret_page, struct error *err)
{
	const struct options *o = service->options;
	const struct page_options page = {.address = o->listen,
		.cert_file = o->tls_cert,
		.key_file = o->tls_key,
		.name = "divvy-scheduler",
		.host = "divvy-scheduler",
		.routes = routes,
		.n_routes = ARRAY_SIZE(routes),
		.data = service};

	return o->listen ? page_new(service->client, &page, ret_page, err) : 0;
}
