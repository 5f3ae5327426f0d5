/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file formats the controller's metrics for requests to /metrics, on the loop's thread.
 * add_own() copies the counters of all parts into one struct sample, and each row of the table
 * `metrics` names a field of the sample. controller_metrics_add_pods() adds one line for each pod
 * that requests a share and has not ended.
 */
#include "controller/controller-metrics.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/prom.h"
#include "controller/web-view.h"

/* All values that metrics show. */
struct sample {
	struct queue_counts queue;
	struct web_counts web;
	struct kube_client_counts client;
	struct kube_recorder_counts events;
	uint64_t n_reviews[2], n_certificates[2]; /* index 0: refused, 1: allowed */
	uint64_t n_share_pods, n_gpu_nodes, uptime_ns;
	bool is_leading, is_ready;
};

#define FIELD(member) PROM_FIELD(struct sample, member)

static const struct prom_metric metrics[] = {
	{"divvy_controller_leads", PROM_GAUGE,
		"Whether this controller replica leads and reconciles objects: 1 or 0.",
		FIELD(is_leading)},
	{"divvy_controller_ready", PROM_GAUGE,
		"Whether API servers trust the webhook's certificate: 1 or 0.", FIELD(is_ready)},
	{"divvy_controller_reviews_refused_total", PROM_COUNTER,
		"Admission reviews that the webhook refused.", FIELD(n_reviews[0])},
	{"divvy_controller_reviews_allowed_total", PROM_COUNTER,
		"Admission reviews that the webhook allowed.", FIELD(n_reviews[1])},
	{"divvy_controller_reconciles_total", PROM_COUNTER, "Reconcile attempts of the controller.",
		FIELD(queue.n_taken)},
	{"divvy_controller_reconcile_errors_total", PROM_COUNTER,
		"Reconcile attempts that failed and will be retried.", FIELD(queue.n_failed)},
	{"divvy_controller_reconciles_waiting", PROM_GAUGE,
		"Objects queued for the controller to reconcile.", FIELD(queue.n_waiting)},
	{"divvy_controller_share_pods", PROM_GAUGE, "SharePods in the cluster.",
		FIELD(n_share_pods)},
	{"divvy_controller_gpu_nodes", PROM_GAUGE, "GPUNodes in the cluster.", FIELD(n_gpu_nodes)},
	{"divvy_controller_gpu_nodes_silent", PROM_GAUGE,
		"GPUNodes whose divvyd has not renewed its Lease in time.", FIELD(web.n_silent)},
	{"divvy_controller_pods_waiting", PROM_GAUGE,
		"Pods with a share that wait for a node or for their containers to start.",
		FIELD(web.n_waiting)},
	{"divvy_controller_dashboard_viewers", PROM_GAUGE, "Open dashboard connections.",
		FIELD(web.n_viewers), .old_name = "divvy_controller_page_viewers"},
	{"divvy_controller_certificates_issued_total", PROM_COUNTER,
		"Certificates issued to divvyd of the nodes.", FIELD(n_certificates[1])},
	{"divvy_controller_certificates_refused_total", PROM_COUNTER,
		"Certificate requests that the controller refused.", FIELD(n_certificates[0])},
	{"divvy_controller_api_calls_total", PROM_COUNTER,
		"HTTP requests sent to the API server, retries included.", FIELD(client.n_tries)},
	{"divvy_controller_api_call_errors_total", PROM_COUNTER,
		"API calls that ended with an error after any retries.", FIELD(client.n_failures)},
	{"divvy_controller_events_total", PROM_COUNTER, "Events that the controller has written.",
		FIELD(events.n_written)},
	{"divvy_controller_uptime_seconds", PROM_GAUGE,
		"Time since the controller started, in seconds.", FIELD(uptime_ns), NSEC_PER_SEC},
};

static void add_own(const struct controller *c, struct buf *out)
{
	static const struct prom_table table = {
		metrics, ARRAY_SIZE(metrics), sizeof(struct sample), NULL};
	const struct sample sample = {
		.queue = queue_counts(c->queue),
		.web = web_counts(c->web),
		.client = kube_client_counts(c->client),
		.events = kube_recorder_counts(c->recorder),
		.n_reviews = {c->n_reviews[0], c->n_reviews[1]},
		.n_certificates = {c->n_certificates[0], c->n_certificates[1]},
		.n_share_pods = kube_cache_count(c->watched[CACHE_SHARE_PODS].cache),
		.n_gpu_nodes = kube_cache_count(c->watched[CACHE_GPU_NODES].cache),
		.uptime_ns = clock_since_ns(clock_now_ns(), c->started_ns),
		.is_leading = c->is_leading,
		.is_ready = c->is_ready,
	};

	prom_add_table(out, &table, &sample, 1);
}

/* A pod's request in permille of devices, as written by the webhook. */
struct pod_sample {
	const struct kube_entry *pod;
	uint64_t milli;
};

static const struct prom_metric pod_metrics[] = {
	{"divvy_pod_requested_share", PROM_GAUGE,
		"Requested share of a pod that has not ended, in devices.",
		PROM_FIELD(struct pod_sample, milli), 1000, .old_name = "divvy_pod_asked_share"},
};

static void label_pod(struct buf *out, const void *of)
{
	const struct pod_sample *sample = of;

	prom_label(out, "namespace", sample->pod->namespace_name);
	prom_label(out, "pod", sample->pod->name);
}

static void controller_metrics_add_pods(const struct controller *c, struct buf *out)
{
	static const struct prom_table table = {
		pod_metrics, ARRAY_SIZE(pod_metrics), sizeof(struct pod_sample), label_pod};
	_cleanup_free_ struct pod_sample *samples = NULL;
	const struct kube_entry *e = NULL;
	uint32_t n = 0, room = 0;

	while ((e = controller_next(c, CACHE_PODS, e))) {
		const uint64_t milli = web_view_requested_milli(e->object);

		if (!milli)
			continue;
		if (array_grow(&samples, &room, n + 1ul, sizeof(*samples)) < 0) {
			out->error = -ENOMEM;
			return;
		}
		samples[n++] = (struct pod_sample){e, milli};
	}
	prom_add_table(out, &table, samples, n);
}

int controller_metrics(const struct controller *c, struct buf *out)
{
	add_own(c, out);
	controller_metrics_add_pods(c, out);
	return buf_error(out);
}
