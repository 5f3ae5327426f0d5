/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file builds the placeholder pod, and runs the program in the pod. The program has one loop,
 * one timer and at most one call in flight. After the start, the program reads its own pod until
 * the API server answers. After a signal or a deletion, the program reads its GPUNode and then its
 * own pod about once a second. A failed call never ends the program. The program ends if its pod no
 * longer exists or has PLACEHOLDER_RELEASED. After a signal or a deletion, the program also ends if
 * its device has no tenant.
 */
#include "controller/controller-placeholder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "kube/kube-config.h"

#define LIKE_DAEMON "cluster-autoscaler.kubernetes.io/daemonset-pod"
#define LOOK_NS NSEC_PER_SEC
/* timeout of a call: the container's small CPU limit makes a TLS handshake slow */
#define LOOK_TIMEOUT_NS (30 * NSEC_PER_SEC)
#define TOKEN_S 3607

/* ---- the pod ---- */

static json_t *placeholder_affinity_json(const char *node)
{
	json_t *match = node
		? json_pack("{s:[{s:s, s:s, s:[s]}], s:[{s:s, s:s, s:[s]}]}", "matchExpressions",
			  "key", "divvy.gpu/owner", "operator", "In", "values", "pool",
			  "matchFields", "key", "metadata.name", "operator", "In", "values", node)
		: json_pack("{s:[{s:s, s:s, s:[s]}]}", "matchExpressions", "key", "divvy.gpu/owner",
			  "operator", "In", "values", "pool");

	return json_pack("{s:{s:{s:[o]}}}", "nodeAffinity",
		"requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms", match);
}

/*
 * Makes the volume with the token for the API server. The token's service account may only read
 * GPUNodes and pods.
 */
static json_t *api_volume(void)
{
	return json_pack("{s:s, s:{s:i, s:[{s:{s:s, s:i}}, {s:{s:s, s:[{s:s, s:s}]}}, "
			 "{s:{s:[{s:s, s:{s:s}}]}}]}}",
		"name", "api", "projected", "defaultMode", 0440, "sources", "serviceAccountToken",
		"path", "token", "expirationSeconds", TOKEN_S, "configMap", "name",
		"kube-root-ca.crt", "items", "key", "ca.crt", "path", "ca.crt", "downwardAPI",
		"items", "path", "namespace", "fieldRef", "fieldPath", "metadata.namespace");
}

static json_t *placeholder_container_json(const char *image)
{
	json_t *resources = json_pack(
		"{s:s, s:s, s:s}", "cpu", "50m", "memory", "64Mi", PLACEHOLDER_RESOURCE, "1");

	return json_pack("{s:s, s:s, s:s, s:[s], s:[{s:s, s:{s:{s:s}}}, {s:s, s:{s:{s:s}}}], "
			 "s:{s:O, s:o}, s:{s:b, s:b, s:{s:[s]}}, s:[{s:s, s:s, s:b}]}",
		"name", "placeholder", "image", image, "imagePullPolicy", "IfNotPresent", "args",
		"--placeholder", "env", "name", "POD_NAME", "valueFrom", "fieldRef", "fieldPath",
		"metadata.name", "name", "NODE_NAME", "valueFrom", "fieldRef", "fieldPath",
		"spec.nodeName", "resources", "limits", resources, "requests", resources,
		"securityContext", "allowPrivilegeEscalation", 0, "readOnlyRootFilesystem", 1,
		"capabilities", "drop", "ALL", "volumeMounts", "name", "api", "mountPath",
		"/var/run/secrets/kubernetes.io/serviceaccount", "readOnly", 1);
}

json_t *placeholder_pod(const char *name, const char *image, const char *node)
{
	json_t *spec = json_pack(
		"{s:s, s:s, s:b, s:b, s:i, s:s, s:o, s:[{s:s, s:s}], s:[o], s:[o], "
		"s:{s:b, s:i, s:i, s:i, s:{s:s}}}",
		"serviceAccountName", PLACEHOLDER_NAME, "priorityClassName", PLACEHOLDER_NAME,
		"automountServiceAccountToken", 0, "enableServiceLinks", 0,
		"terminationGracePeriodSeconds", PLACEHOLDER_GRACE_S, "restartPolicy", "Always",
		"affinity", placeholder_affinity_json(node), "tolerations", "key",
		PLACEHOLDER_RESOURCE, "operator", "Exists", "containers",
		placeholder_container_json(image), "volumes", api_volume(), "securityContext",
		"runAsNonRoot", 1, "runAsUser", 65532, "runAsGroup", 65532, "fsGroup", 65532,
		"seccompProfile", "type", "RuntimeDefault");

	/*
	 * An autoscaler never removes the node of a pod without an owner, except with this
	 * annotation.
	 */
	return json_pack("{s:s, s:s, s:{s:s, s:{s:s}, s:{s:s, s:s*}}, s:o}", "apiVersion", "v1",
		"kind", "Pod", "metadata", "name", name, "labels", PLACEHOLDER_LABEL,
		PLACEHOLDER_NAME, "annotations", "cluster-autoscaler.kubernetes.io/safe-to-evict",
		"true", PLACEHOLDER_NODE, node, "spec", spec);
}

/*
 * An autoscaler that removes a node looks for another place for its pods, and a placeholder seldom
 * has one. cluster-autoscaler leaves out pods of DaemonSets and pods with this annotation, and
 * Karpenter leaves out pods that a Node owns. A placeholder without a node has neither, because it
 * stands for a missing node.
 */
json_t *placeholder_bound_patch(const json_t *pod, const json_t *node)
{
	const char *name = kube_json_text_at(pod, "spec", "nodeName", NULL),
		   *uid = kube_json_text_at(node, "metadata", "uid", NULL);
	const json_t *metadata = json_object_get(pod, "metadata");

	if (!name || !uid || kube_json_text_at(metadata, "annotations", LIKE_DAEMON, NULL) ||
		json_object_get(metadata, "deletionTimestamp"))
		return NULL;
	return json_pack("{s:{s:s, s:{s:s}, s:[{s:s, s:s, s:s, s:s}]}}", "metadata", "uid",
		kube_json_text(metadata, "uid"), "annotations", LIKE_DAEMON, "true",
		"ownerReferences", "apiVersion", "v1", "kind", "Node", "name", name, "uid", uid);
}

/* ---- the program ---- */

struct holder {
	struct loop *loop;
	struct loop_timer timer;
	struct kube_config *config;
	struct kube_client *client;
	struct kube_call *call;
	const char *name, *node, *space;
	bool is_reported; /* a signal has arrived, or the pod is being deleted */
	bool is_unheard;  /* no answer of the API server yet; the pod may be deleted already */
};

bool placeholder_is_unused(const json_t *gpu_node, const char *name)
{
	const json_t *devices = kube_json_at(gpu_node, "status", "devices", NULL),
		     *tenants = kube_json_at(gpu_node, "status", "tenants", NULL);
	bool is_known = false;

	for (size_t i = 0; i < json_array_size(devices); i++) {
		const json_t *d = json_array_get(devices, i);
		const char *uuid = kube_json_text_at(d, "uuid", NULL),
			   *its = kube_json_text_at(d, "placeholder", NULL);

		if (!uuid || !its || strcmp(its, name) != 0)
			continue;
		is_known = true;
		for (size_t k = 0; k < json_array_size(tenants); k++)
			if (kube_json_list_has(
				    json_object_get(json_array_get(tenants, k), "devices"), uuid))
				return false;
	}
	return is_known;
}

static void placeholder_retry_later(struct holder *p)
{
	loop_set_timer(&p->timer, clock_now_ns() + LOOK_NS);
}

static void placeholder_read_object(
	struct holder *p, const struct kube_target *target, kube_done_fn *done)
{
	const struct kube_write read = {.target = *target,
		.timeout_ns = LOOK_TIMEOUT_NS,
		.done = done,
		.data = p,
		.ret_call = &p->call};
	struct error err;

	if (kube_read(p->client, &read, &err) < 0) {
		log_warn("%s", err.msg);
		placeholder_retry_later(p);
	}
}

/* Returns the object of an answer, or NULL after an error, which is logged. */
static json_t *placeholder_read_answer(
	struct holder *p, const struct kube_answer *answer, const char *what)
{
	struct error err = answer->error;
	json_t *json = NULL;
	int r = answer->result;

	p->call = NULL;
	if (r >= 0)
		r = kube_json_parse(answer->body, &json, &err);
	if (r < 0 && r != -ENOENT)
		log_warn("%s: %s", what, err.msg);
	return r < 0 ? NULL : json;
}

static void placeholder_watch_pod(struct holder *p)
{
	if (!p->is_reported)
		log_info("asked to exit; waiting until no tenant is left");
	p->is_reported = true;
}

static void on_own_pod(void *data, const struct kube_answer *answer)
{
	struct holder *p = data;
	_cleanup_json_ json_t *pod = placeholder_read_answer(p, answer, p->name);

	if (answer->result == -ENOENT ||
		kube_json_text_at(pod, "metadata", "annotations", PLACEHOLDER_RELEASED, NULL)) {
		log_info("released; exiting");
		loop_stop(p->loop, 0);
		return;
	}
	p->is_unheard = p->is_unheard && !pod;
	if (kube_json_text_at(pod, "metadata", "deletionTimestamp", NULL))
		placeholder_watch_pod(p);
	if (p->is_reported || p->is_unheard)
		placeholder_retry_later(p);
}

static void look_at_own_pod(struct holder *p)
{
	placeholder_read_object(p,
		&(struct kube_target){.group_version = "v1",
			.resource = "pods",
			.namespace_name = p->space,
			.name = p->name},
		on_own_pod);
}

/*
 * Ends the program if no tenant uses the device. After a failed call the use is unknown, so the
 * program goes on.
 */
static void on_gpu_node(void *data, const struct kube_answer *answer)
{
	struct holder *p = data;
	_cleanup_json_ json_t *gpu_node = placeholder_read_answer(p, answer, p->node);

	if (placeholder_is_unused(gpu_node, p->name)) {
		log_info("no tenant is left; exiting");
		loop_stop(p->loop, 0);
		return;
	}
	look_at_own_pod(p);
}

static void placeholder_on_timer(struct loop_timer *timer, uint64_t now)
{
	struct holder *p = timer->data;

	if (p->call)
		return; /* the answer of the call in flight sets the timer again */
	if (!p->is_reported) {
		look_at_own_pod(p);
		return;
	}
	placeholder_read_object(p,
		&(struct kube_target){
			.group_version = "divvy.gpu/v1", .resource = "gpunodes", .name = p->node},
		on_gpu_node);
}

static void placeholder_on_signal(void *data, bool is_reload)
{
	struct holder *p = data;

	placeholder_watch_pod(p);
	loop_set_timer(&p->timer, 0);
}

static int placeholder_start_holder(struct holder *p, const char *kubeconfig,
	struct program_signals *signals, struct error *err)
{
	const struct kube_config_source source = {.files = kubeconfig};
	int r = loop_new(&p->loop);

	p->timer.data = p;
	r = r < 0 ? r : loop_add_timer(p->loop, &p->timer, placeholder_on_timer);
	r = r < 0 ? r : program_watch(signals, p->loop, placeholder_on_signal, p);
	if (r < 0)
		return fail_errno(err, -r, "starting");
	r = kube_config_load(&source, &p->config, err);
	return r < 0 ? r : kube_client_new(p->loop, p->config, NULL, &p->client, err);
}

int placeholder_run(const struct controller_options *options, struct program_signals *signals,
	struct error *err)
{
	struct holder p = {.name = options->pod_name,
		.node = getenv("NODE_NAME"),
		.space = options->ns,
		.is_unheard = true};
	int r;

	if (!p.node || !p.node[0])
		return fail(err, EINVAL, "--placeholder: NODE_NAME is not set; it names the node");
	r = placeholder_start_holder(&p, options->kubeconfig, signals, err);
	if (r >= 0) {
		log_info("%s holds a device of %s", p.name, p.node);
		/*
		 * As PID 1 the program does not end by a signal that came before its handler was
		 * set. So it first reads its own pod, which shows whether it is being deleted.
		 */
		loop_set_timer(&p.timer, 0);
		r = loop_run(p.loop);
		if (r < 0)
			fail_errno(err, -r, "event loop");
	}
	program_unwatch(signals);
	kube_call_cancel(p.call);
	kube_client_free(p.client);
	kube_config_free(p.config);
	loop_free(p.loop);
	return r;
}
