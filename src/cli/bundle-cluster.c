/* SPDX-License-Identifier: Apache-2.0 */
/* The cluster's objects for a bundle, as far as the kubeconfig at hand may see them. */
#include "cli/bundle.h"

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "kube/ask.h"

#define EACH_NS (10 * NSEC_PER_SEC)

static const struct wanted {
	const char *name; /* of the file */
	struct kube_target target;
	const char *query;
	bool is_pods;
} wanted[] = {
	{"nodes", {"v1", "nodes"}},
	{"gpunodes", {"divvy.gpu/v1", "gpunodes"}},
	{"gpupolicies", {"divvy.gpu/v1", "gpupolicies"}},
	{"sharepods", {"divvy.gpu/v1", "sharepods"}, NULL, true},
	{"leases", {"coordination.k8s.io/v1", "leases", "divvy-node-lease"}},
	{"parts", {"v1", "pods", "divvy-system"}, NULL, true},
	{"part-events", {"v1", "events", "divvy-system"}},
	{"tenants", {"v1", "pods"}, "labelSelector=divvy.gpu%2Ftenant%3Dtrue", true},
	{"events", {"v1", "events"}, "fieldSelector=involvedObject.kind%3DGPUNode"},
};

/* A SharePod's template is a pod, too. */
static void redact(json_t *item, bool is_pods)
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

static int add(struct bundle *b, struct kube_client *client, const struct wanted *w)
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
		redact(item, w->is_pods);
	bundle_add_json(b, name, ask.json);
	json_decref(ask.json);
	return 0;
}

/* A server that is away is not asked again and again. */
static bool is_away(int r)
{
	return r == -ETIMEDOUT || r == -ECONNREFUSED || r == -EHOSTUNREACH || r == -ECONNRESET ||
		r == -EKEYREJECTED || r == -EPROTO || r == -EACCES;
}

static void add_all(struct bundle *b, struct kube_client *client)
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
		if (is_away(add(b, client, &wanted[i])))
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
		bundle_miss(b, "cluster", "the client could not be started");
		return;
	}
	add_all(b, client);
	kube_client_free(client);
}
