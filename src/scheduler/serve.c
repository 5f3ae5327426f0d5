/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/serve.h"

#include "base/prom.h"
#include "scheduler/extender.h"
#include "scheduler/service-internal.h"

#define TEXT_MAX (1u << 20)

static void add_metrics(const struct service *s, struct buf *out)
{
	const struct kube_client_counts client = kube_client_counts(s->client);
	const struct http_counts http = http_server_counts(page_server(s->page));
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
	prom_add(out, "divvy_scheduler_reclaims_total", "counter",
		"Evictions that took back what a queue is guaranteed.", (double)n.n_reclaimed);
	prom_add(out, "divvy_scheduler_group_timeouts_total", "counter",
		"Members of groups that gave back what they held.", (double)n.n_timeouts);
	prom_add(out, "divvy_scheduler_wishes_granted_total", "counter",
		"Live changes that were granted.", (double)n.n_granted);
	prom_add(out, "divvy_scheduler_wishes_denied_total", "counter",
		"Live changes that were refused.", (double)n.n_denied);
	prom_add(out, "divvy_scheduler_extender_requests_total", "counter",
		"What another scheduler has asked the extender.", (double)s->n_asked);
	prom_add(out, "divvy_scheduler_extender_failures_total", "counter",
		"Of those the ones that had no answer.", (double)s->n_asked_in_vain);
	prom_add(out, "divvy_scheduler_extender_forgone_total", "counter",
		"Places kept for pods that were not bound there in time.", (double)n.n_forgone);
	prom_add(out, "divvy_scheduler_pods_offered", "gauge",
		"Pods of another scheduler for which a place is kept.", n.n_offered);
	prom_add_histogram(out, "divvy_scheduler_extender_seconds",
		"How long answers of the extender took.", &s->answer_time);
	prom_add(out, "divvy_scheduler_events_dropped_total", "counter",
		"Events that were too many to be written.",
		(double)kube_recorder_counts(s->recorder).n_dropped);
	prom_add(out, "divvy_scheduler_requests_refused_total", "counter",
		"Requests to it that were too large, too slow, too many, or without the "
		"certificate that they need.",
		(double)http.n_refused);
	prom_add_histogram(
		out, "divvy_scheduler_bind_seconds", "How long Bindings took.", &s->bind_time);
	prom_add_histogram(
		out, "divvy_scheduler_decide_seconds", "How long decisions took.", &s->decide_time);
	prom_add(out, "divvy_scheduler_api_requests_total", "counter",
		"Requests to the API server.", (double)client.n_tries);
	prom_add(out, "divvy_scheduler_api_retries_total", "counter",
		"Requests that were tried again.", (double)client.n_retries);
	prom_add(out, "divvy_scheduler_api_failures_total", "counter", "Requests that failed.",
		(double)client.n_failures);
}

static void on_metrics(void *data, struct http_request *request)
{
	_cleanup_buf_ struct buf text = BUF_INIT(TEXT_MAX);

	add_metrics(data, &text);
	http_answer_buf(request, HTTP_METRICS, &text);
}

static void on_ready(void *data, struct http_request *request)
{
	http_answer_ready(request, service_is_synced(data), "it has not seen the cluster yet");
}

static const struct http_route routes[] = {
	{"GET", "/healthz", http_answer_ok},
	{"GET", "/readyz", on_ready},
	{"GET", "/metrics", on_metrics, .is_guarded = true},
	{"POST", "/extender/filter", service_on_filter, .is_certified = true,
		.max_body = EXTENDER_BODY_MAX},
	{"POST", "/extender/prioritize", service_on_prioritize, .is_certified = true,
		.max_body = EXTENDER_BODY_MAX},
	{"POST", "/extender/preempt", service_on_preempt, .is_certified = true,
		.max_body = EXTENDER_BODY_MAX},
	{"POST", "/extender/bind", service_on_bind, .is_certified = true},
};

static const struct http_route health_routes[] = {
	{"GET", "/healthz", http_answer_ok},
	{"GET", "/readyz", on_ready},
};

int serve_new(struct service *service, struct page **ret_page, struct error *err)
{
	const struct options *o = service->options;
	const struct page_options page = {.address = o->listen,
		.cert_file = o->tls_cert,
		.key_file = o->tls_key,
		.client_ca_file = o->client_ca,
		.name = "divvy-scheduler",
		.host = "divvy-scheduler",
		.routes = routes,
		.n_routes = ARRAY_SIZE(routes),
		.health = o->health_listen,
		.health_routes = health_routes,
		.n_health_routes = ARRAY_SIZE(health_routes),
		.data = service};

	return o->listen ? page_new(service->client, &page, ret_page, err) : 0;
}
