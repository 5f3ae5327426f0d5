/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/metrics.h"

#include "base/cleanup.h"
#include "base/prom.h"
#include "controller/web-view.h"

static double leads(const struct controller *c)
{
	return c->is_leading;
}
static double ready(const struct controller *c)
{
	return c->is_ready;
}
static double refused(const struct controller *c)
{
	return (double)c->n_reviews[0];
}
static double allowed(const struct controller *c)
{
	return (double)c->n_reviews[1];
}
static double taken(const struct controller *c)
{
	return (double)queue_counts(c->queue).n_taken;
}
static double failed(const struct controller *c)
{
	return (double)queue_counts(c->queue).n_failed;
}
static double waiting(const struct controller *c)
{
	return queue_counts(c->queue).n_waiting;
}
static double share_pods(const struct controller *c)
{
	return (double)kube_cache_count(c->watched[CACHE_SHARE_PODS].cache);
}
static double nodes(const struct controller *c)
{
	return (double)kube_cache_count(c->watched[CACHE_GPU_NODES].cache);
}
static double pods_waiting(const struct controller *c)
{
	return web_counts(c->web).n_waiting;
}
static double nodes_silent(const struct controller *c)
{
	return web_counts(c->web).n_silent;
}
static double viewers(const struct controller *c)
{
	return web_counts(c->web).n_viewers;
}
static double certificates_issued(const struct controller *c)
{
	return (double)c->n_certificates[1];
}
static double certificates_refused(const struct controller *c)
{
	return (double)c->n_certificates[0];
}
static double calls(const struct controller *c)
{
	return (double)kube_client_counts(c->client).n_tries;
}
static double calls_failed(const struct controller *c)
{
	return (double)kube_client_counts(c->client).n_failures;
}
static double events(const struct controller *c)
{
	return (double)kube_recorder_counts(c->recorder).n_written;
}
static double uptime(const struct controller *c)
{
	return (double)clock_since_ns(clock_now_ns(), c->started_ns) / NSEC_PER_SEC;
}

static const struct {
	const char *name, *type, *help;
	double (*get)(const struct controller *c);
} metrics[] = {
	{"divvy_controller_leads", "gauge", "1 where it reconciles.", leads},
	{"divvy_controller_ready", "gauge", "1 where API servers trust its webhook.", ready},
	{"divvy_controller_reviews_refused_total", "counter", "Admission reviews refused.",
		refused},
	{"divvy_controller_reviews_allowed_total", "counter", "Admission reviews allowed.",
		allowed},
	{"divvy_controller_reconciles_total", "counter", "Objects looked at.", taken},
	{"divvy_controller_reconcile_errors_total", "counter", "Those that failed, and come again.",
		failed},
	{"divvy_controller_reconciles_waiting", "gauge", "Objects to be looked at.", waiting},
	{"divvy_controller_share_pods", "gauge", "SharePods there are.", share_pods},
	{"divvy_controller_gpu_nodes", "gauge", "GPUNodes there are.", nodes},
	{"divvy_controller_gpu_nodes_silent", "gauge", "Those whose daemon has not been heard.",
		nodes_silent},
	{"divvy_controller_pods_waiting", "gauge", "Pods that wait for a place or their start.",
		pods_waiting},
	{"divvy_controller_page_viewers", "gauge", "Who looks at the page.", viewers},
	{"divvy_controller_certificates_issued_total", "counter",
		"Certificates given to nodes' daemons.", certificates_issued},
	{"divvy_controller_certificates_refused_total", "counter",
		"Requests for certificates that were refused.", certificates_refused},
	{"divvy_controller_api_calls_total", "counter", "Requests to the API server.", calls},
	{"divvy_controller_api_call_errors_total", "counter", "Those that failed.", calls_failed},
	{"divvy_controller_events_total", "counter", "Events written.", events},
	{"divvy_controller_uptime_seconds", "gauge", "Since it has started.", uptime},
};

/* What pods ask for, in whole devices: what the webhook has put in. */
static void add_asked(const struct controller *c, struct buf *out)
{
	static const char name[] = "divvy_pod_asked_share";
	const struct kube_entry *e = NULL;

	prom_head(out, name, "gauge", "Devices that a pod asks for, of those not ended.");
	while ((e = controller_next(c, CACHE_PODS, e))) {
		const uint64_t milli = web_view_asked_milli(e->object);

		if (!milli)
			continue;
		prom_begin(out, name);
		prom_label(out, "namespace", e->namespace_name);
		prom_label(out, "pod", e->name);
		prom_end(out, (double)milli / 1000.0);
	}
}

int controller_metrics(const struct controller *c, struct buf *out)
{
	for (size_t i = 0; i < ARRAY_SIZE(metrics); i++)
		prom_add(out, metrics[i].name, metrics[i].type, metrics[i].help, metrics[i].get(c));
	add_asked(c, out);
	return buf_error(out);
}
