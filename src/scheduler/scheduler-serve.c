/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists the metrics and routes of divvy-scheduler, and fills a sample of the metrics for each
 * request. Handlers run on the service's loop, so serve_on_metrics() reads the counters without a
 * lock. The handlers of the extender are in service-extender.c. Probes may use a second address,
 * which serves only /healthz and /readyz.
 */
#include "scheduler/scheduler-serve.h"

#include "base/prom.h"
#include "scheduler/extender.h"
#include "scheduler/service-internal.h"

#define TEXT_MAX (1u << 20)

/* The values of one answer to /metrics. */
struct sample {
	struct sched_counts sched;
	struct kube_client_counts client;
	struct kube_recorder_counts events;
	struct http_counts http;
	const struct prom_histogram *answer_time, *bind_time, *decide_time;
	uint64_t epoch, n_bound, n_extender_requests, n_extender_failures;
	uint32_t n_binds;
	bool is_leading;
};

#define FIELD(member) PROM_FIELD(struct sample, member)

static const struct prom_metric metrics[] = {
	{"divvy_scheduler_leading", PROM_GAUGE,
		"Whether this scheduler replica leads and places pods: 1 or 0.", FIELD(is_leading)},
	{"divvy_scheduler_epoch", PROM_GAUGE,
		"Epoch of the scheduler: the leaseTransitions of its Lease.", FIELD(epoch)},
	{"divvy_scheduler_pods_active", PROM_GAUGE,
		"Pods and groups ready for a scheduling attempt.", FIELD(sched.pending.n_active)},
	{"divvy_scheduler_pods_backing_off", PROM_GAUGE,
		"Pods and groups that wait before their next scheduling attempt.",
		FIELD(sched.pending.n_backing_off)},
	{"divvy_scheduler_pods_unschedulable", PROM_GAUGE,
		"Pods and groups that fit on no node at present.",
		FIELD(sched.pending.n_unschedulable)},
	{"divvy_scheduler_pods_nominated", PROM_GAUGE,
		"Pods that wait for victims to terminate on their nominated node.",
		FIELD(sched.n_nominated), .old_name = "divvy_scheduler_pods_holding"},
	{"divvy_scheduler_binds_in_flight", PROM_GAUGE,
		"Bindings sent to the API server and not yet answered.", FIELD(n_binds)},
	{"divvy_scheduler_decisions_total", PROM_COUNTER, "Scheduling attempts of pods.",
		FIELD(sched.n_decisions)},
	{"divvy_scheduler_placed_total", PROM_COUNTER,
		"Scheduling attempts that found a node for the pod.", FIELD(sched.n_placed)},
	{"divvy_scheduler_unschedulable_total", PROM_COUNTER,
		"Scheduling attempts that found no node for the pod or group.",
		FIELD(sched.n_nowhere)},
	{"divvy_scheduler_bound_total", PROM_COUNTER,
		"Pods that the scheduler has bound to a node.", FIELD(n_bound)},
	{"divvy_scheduler_bind_failures_total", PROM_COUNTER,
		"Bindings that the API server did not accept.", FIELD(sched.n_bind_failures)},
	{"divvy_scheduler_taint_evictions_total", PROM_COUNTER,
		"Evictions from a tainted device that have begun, as a GPUPolicy required.",
		FIELD(sched.n_taint_evictions)},
	{"divvy_scheduler_evictions_total", PROM_COUNTER, "Pods evicted for other pods.",
		FIELD(sched.n_evictions)},
	{"divvy_scheduler_reclaims_total", PROM_COUNTER,
		"Evictions that reclaimed the guarantee of a queue.", FIELD(sched.n_reclaimed)},
	{"divvy_scheduler_group_timeouts_total", PROM_COUNTER,
		"Pods of groups whose reservation expired.", FIELD(sched.n_timeouts)},
	{"divvy_scheduler_resizes_accepted_total", PROM_COUNTER,
		"Resize requests of running pods that the scheduler accepted.",
		FIELD(sched.n_granted), .old_name = "divvy_scheduler_wishes_granted_total"},
	{"divvy_scheduler_resizes_rejected_total", PROM_COUNTER,
		"Resize requests of running pods that the scheduler rejected.",
		FIELD(sched.n_denied), .old_name = "divvy_scheduler_wishes_denied_total"},
	{"divvy_scheduler_extender_requests_total", PROM_COUNTER,
		"Requests of other schedulers to the extender.", FIELD(n_extender_requests)},
	{"divvy_scheduler_extender_failures_total", PROM_COUNTER,
		"Extender requests that the scheduler could not answer.",
		FIELD(n_extender_failures)},
	{"divvy_scheduler_extender_reservations_expired_total", PROM_COUNTER,
		"Extender reservations that expired before their pod was bound.",
		FIELD(sched.n_expired), .old_name = "divvy_scheduler_extender_forgone_total"},
	{"divvy_scheduler_extender_reservations", PROM_GAUGE,
		"Pods of other schedulers that have an extender reservation.",
		FIELD(sched.n_reserved), .old_name = "divvy_scheduler_pods_offered"},
	{"divvy_scheduler_extender_seconds", PROM_HISTOGRAM,
		"Time to answer an extender request, in seconds.", FIELD(answer_time)},
	{"divvy_scheduler_events_dropped_total", PROM_COUNTER,
		"Events that the scheduler dropped because too many were queued.",
		FIELD(events.n_dropped)},
	{"divvy_scheduler_requests_refused_total", PROM_COUNTER,
		"HTTP requests refused as too large, too slow, too many or without a required "
		"certificate.",
		FIELD(http.n_refused)},
	{"divvy_scheduler_bind_seconds", PROM_HISTOGRAM,
		"Time from sending a Binding to its answer, in seconds.", FIELD(bind_time)},
	{"divvy_scheduler_decide_seconds", PROM_HISTOGRAM,
		"Time to decide the next scheduling action, in seconds.", FIELD(decide_time)},
	{"divvy_scheduler_api_requests_total", PROM_COUNTER,
		"HTTP requests sent to the API server, retries included.", FIELD(client.n_tries)},
	{"divvy_scheduler_api_retries_total", PROM_COUNTER,
		"HTTP requests to the API server that were retried.", FIELD(client.n_retries)},
	{"divvy_scheduler_api_failures_total", PROM_COUNTER,
		"API calls that ended with an error after any retries.", FIELD(client.n_failures)},
};

static void serve_on_metrics(void *data, struct http_request *request)
{
	static const struct prom_table table = {
		metrics, ARRAY_SIZE(metrics), sizeof(struct sample), NULL};
	const struct service *s = data;
	struct sample sample = {
		.client = kube_client_counts(s->client),
		.events = kube_recorder_counts(s->recorder),
		.http = http_server_counts(page_server(s->page)),
		.answer_time = &s->answer_time,
		.bind_time = &s->bind_time,
		.decide_time = &s->decide_time,
		.epoch = s->epoch,
		.n_bound = s->n_bound,
		.n_extender_requests = s->n_extender_requests,
		.n_extender_failures = s->n_extender_failures,
		.n_binds = s->n_binds,
		.is_leading = service_may_write(s),
	};
	_cleanup_buf_ struct buf text = BUF_INIT(TEXT_MAX);

	if (s->sched)
		sample.sched = sched_counts(s->sched);
	prom_add_table(&text, &table, &sample, 1);
	http_answer_buf(request, HTTP_METRICS, &text);
}

static void serve_on_ready(void *data, struct http_request *request)
{
	http_answer_ready(request, service_is_synced(data), "not ready: still reading the cluster");
}

static const struct http_route routes[] = {
	{"GET", "/healthz", http_answer_ok},
	{"GET", "/readyz", serve_on_ready},
	{"GET", "/metrics", serve_on_metrics, .is_guarded = true},
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
	{"GET", "/readyz", serve_on_ready},
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
