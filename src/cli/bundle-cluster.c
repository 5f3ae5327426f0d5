/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file adds objects of the cluster to a bundle, as far as the kubeconfig's user may read them.
 */
#include "cli/bundle.h"

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "kube/ask.h"

#define EACH_NS (10 * NSEC_PER_SEC)
#define LOGS_MAX \
	40u /* most logs that the bundle reads; a large cluster has a pod of divvyd on each node */
#define LOG_QUERY "tailLines=20000&limitBytes=4194304"

static const struct wanted {
	const char *name; /* name of the file in the archive */
	struct kube_target target;
	const char *query;
	bool is_pods, has_logs;
} wanted[] = {
	{"nodes", {"v1", "nodes"}},
	{"gpunodes", {"divvy.gpu/v1", "gpunodes"}},
	{"gpupolicies", {"divvy.gpu/v1", "gpupolicies"}},
	{"sharepods", {"divvy.gpu/v1", "sharepods"}, NULL, true},
	{"leases", {"coordination.k8s.io/v1", "leases", "divvy-node-lease"}},
	{"parts", {"v1", "pods", "divvy-system"}, NULL, true, true},
	{"part-events", {"v1", "events", "divvy-system"}},
	{"tenants", {"v1", "pods"}, "labelSelector=divvy.gpu%2Ftenant%3Dtrue", true},
	{"events", {"v1", "events"}, "fieldSelector=involvedObject.kind%3DGPUNode"},
};

/* Redacts one object. is_pods: the object is a pod, or has a pod in spec.template (SharePod). */
static void bundle_cluster_redact_item(json_t *item, bool is_pods)
{
	json_t *metadata = json_object_get(item, "metadata");

	json_object_del(metadata, "managedFields");
	json_object_del(json_object_get(metadata, "annotations"),
		"kubectl.kubernetes.io/last-applied-configuration");
	if (is_pods) {
		bundle_redact_pod(item);
		bundle_redact_pod(json_object_get(json_object_get(item, "spec"), "template"));
	}
	bundle_redact(item);
}

/* ---- logs of divvy's own pods ---- */

struct log_ask {
	struct bundle *b;
	const char *name; /* name of the file in the archive */
	bool is_done;
	int result;
};

static void on_log(void *data, const struct kube_answer *answer)
{
	struct log_ask *ask = data;

	ask->is_done = true;
	ask->result = answer->result;
	if (answer->result < 0)
		bundle_miss(ask->b, ask->name, answer->error.msg);
	else
		bundle_add(ask->b, ask->name, answer->body);
}

/* is_previous: reads the log of the pod's previous container. */
static int add_log(
	struct bundle *b, struct kube_client *client, const json_t *pod, bool is_previous)
{
	const struct kube_target target = {.group_version = "v1",
		.resource = "pods",
		.namespace_name = kube_json_text_at(pod, "metadata", "namespace", NULL),
		.name = kube_json_text_at(pod, "metadata", "name", NULL),
		.subresource = "log"};
	_cleanup_buf_ struct buf path = BUF_INIT(KUBE_URL_MAX), name = BUF_INIT(KUBE_URL_MAX);
	struct log_ask ask = {.b = b};
	struct kube_request request = {
		.query = is_previous ? LOG_QUERY "&previous=true" : LOG_QUERY,
		.timeout_ns = EACH_NS,
		.retry = RETRY_IDEMPOTENT,
		.done = on_log,
		.data = &ask};
	struct error err;
	int r;

	if (!target.name || !target.namespace_name)
		return 0;
	buf_addf(&name, "cluster/logs/%s%s.log", target.name, is_previous ? "-before" : "");
	ask.name = buf_text(&name);
	r = kube_path(&path, &target, &err);
	request.path = buf_text(&path);
	r = r < 0 ? r : kube_call_start(client, &request, NULL, &err);
	if (r < 0) {
		bundle_miss(b, ask.name, err.msg);
		return r;
	}
	while (!ask.is_done)
		loop_run_once(kube_client_loop(client), CLOCK_NEVER);
	return ask.result;
}

static bool has_restarted(const json_t *pod)
{
	const json_t *list = kube_json_at(pod, "status", "containerStatuses", NULL);

	return json_integer_value(json_object_get(json_array_get(list, 0), "restartCount")) > 0;
}

/*
 * A pod that does not run has no log or an old log, so a failure does not stop the loop. Only
 * -EPERM does, because all other requests would fail with -EPERM as well.
 */
static void bundle_cluster_add_logs(
	struct bundle *b, struct kube_client *client, const json_t *pods)
{
	uint32_t n = 0;
	size_t i;
	json_t *pod;

	json_array_foreach(pods, i, pod) {
		if (n++ == LOGS_MAX) {
			bundle_miss(b, "cluster/logs",
				"the cluster has more pods; their logs are not in the archive");
			return;
		}
		if (add_log(b, client, pod, false) == -EPERM)
			return;
		if (has_restarted(pod))
			add_log(b, client, pod, true);
	}
}

static int bundle_cluster_add_list(
	struct bundle *b, struct kube_client *client, const struct wanted *w)
{
	const struct kube_question question = {.query = w->query, .timeout_ns = EACH_NS};
	struct kube_ask ask;
	char name[64];
	size_t i;
	json_t *item;
	int r;

	snprintf(name, sizeof(name), "cluster/%s.json", w->name);
	r = kube_ask_list(client, &w->target, &question, &ask);
	if (r < 0) {
		bundle_miss(b, name, ask.error.msg);
		return r;
	}
	json_array_foreach(ask.json, i, item)
		bundle_cluster_redact_item(item, w->is_pods);
	bundle_add_json(b, name, ask.json);
	if (w->has_logs)
		bundle_cluster_add_logs(b, client, ask.json);
	json_decref(ask.json);
	return 0;
}

/* The bundle sends no further requests to a server that does not answer. */
static bool is_away(int r)
{
	return r == -ETIMEDOUT || r == -ECONNREFUSED || r == -EHOSTUNREACH || r == -ECONNRESET ||
		r == -EKEYREJECTED || r == -EPROTO || r == -EACCES;
}

static void bundle_cluster_add_all(struct bundle *b, struct kube_client *client)
{
	const struct kube_question question = {.timeout_ns = EACH_NS};
	struct kube_ask ask;

	if (kube_ask_get(client, "/version", &question, &ask) < 0) {
		bundle_miss(b, "cluster", ask.error.msg);
		return;
	}
	bundle_add_json(b, "cluster/version.json", ask.json);
	json_decref(ask.json);
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
		if (is_away(bundle_cluster_add_list(b, client, &wanted[i])))
			return;
}

void bundle_cluster(struct bundle *b, const char *kubeconfig)
{
	const struct kube_config_source source = {.files = kubeconfig, .is_insecure_allowed = true};
	_cleanup_kube_config_ struct kube_config *config = NULL;
	_cleanup_loop_ struct loop *loop = NULL;
	struct kube_client *client = NULL;
	struct error err;

	if (kube_config_load(&source, &config, &err) < 0) {
		bundle_miss(b, "cluster", err.msg);
		return;
	}
	if (loop_new(&loop) < 0 || kube_client_new(loop, config, NULL, &client, &err) < 0) {
		bundle_miss(b, "cluster", "cannot start the client of the API server");
		return;
	}
	bundle_cluster_add_all(b, client);
	kube_client_free(client);
}
