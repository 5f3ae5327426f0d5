/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the parts of a pod's object that its node needs, and records Events about pods. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kube/kube-json.h"
#include "manifest/manifest-json.h"
#include "node/node-internal.h"

int node_assigned(const json_t *pod, const char *container, struct node_assigned *ret_assigned,
	struct error *err)
{
	_cleanup_assigned_ struct assigned assigned = {0};
	const struct assigned_container *is;
	int r = node_assigned_all(pod, &assigned, err);

	if (r < 0)
		return r;
	is = assigned_find(&assigned, container);
	if (!is)
		return fail(err, ENOENT,
			ASSIGNED_DEVICES_KEY ": container '%.63s' has no assigned devices",
			container);
	r = assigned_spec(is, &ret_assigned->spec, err);
	if (r < 0)
		return r;
	ret_assigned->is = *is;
	ret_assigned->group = assigned.group;
	ret_assigned->epoch = assigned.epoch;
	return 0;
}

int node_assigned_all(const json_t *pod, struct assigned *ret_assigned, struct error *err)
{
	_cleanup_manifest_json_ struct manifest_json manifest = {0};
	int r = manifest_json_read(json_object_get(pod, "metadata"), NULL, STR(""), &manifest, err);

	return r < 0 ? r : assigned_parse(manifest.pod.annotations, ret_assigned, err);
}

int node_assigned_group(const json_t *pod, struct assigned_group *ret_group, struct error *err)
{
	_cleanup_manifest_json_ struct manifest_json manifest = {0};
	int r = manifest_json_read(json_object_get(pod, "metadata"), NULL, STR(""), &manifest, err);

	return r < 0 ? r : assigned_parse_group(manifest.pod.annotations, ret_group, err);
}

bool node_has_assigned(const json_t *pod)
{
	return kube_json_text_at(pod, "metadata", "annotations", ASSIGNED_DEVICES_KEY, NULL) !=
		NULL;
}

static const json_t *node_pod_container_status(
	const json_t *pod, const char *list, const char *container)
{
	return kube_json_find(kube_json_at(pod, "status", list, NULL), "name", container);
}

/* Finds the container of that name in the list spec.LIST of the pod; NULL: none. */
static const json_t *node_pod_container(const json_t *pod, const char *list, const char *name)
{
	return kube_json_find(kube_json_at(pod, "spec", list, NULL), "name", name);
}

static bool restart_rule_matches(const json_t *rule, json_int_t exit_code)
{
	const json_t *values = kube_json_at(rule, "exitCodes", "values", NULL), *value;
	const char *op = kube_json_text_at(rule, "exitCodes", "operator", NULL);
	bool is_listed = false;
	size_t i;

	json_array_foreach(values, i, value)
		is_listed |= json_integer_value(value) == exit_code;
	return op && (is_listed ? !strcmp(op, "In") : !strcmp(op, "NotIn"));
}

/*
 * Does the kubelet start the container again after that exit code? As ContainerShouldRestart() in
 * Kubernetes: a matching rule of the container comes before its policy, and that before the pod's.
 */
static bool node_pod_restarts(const json_t *pod, const char *name, json_int_t exit_code)
{
	const json_t *container = node_pod_container(pod, "containers", name), *rule;
	const char *policy = kube_json_text_at(container, "restartPolicy", NULL);
	size_t i;

	json_array_foreach(json_object_get(container, "restartPolicyRules"), i, rule) {
		if (policy && restart_rule_matches(rule, exit_code))
			return true;
	}
	if (!policy)
		policy = kube_json_text_at(pod, "spec", "restartPolicy", NULL);
	return !policy || !strcmp(policy, "Always") ||
		(!strcmp(policy, "OnFailure") && exit_code != 0);
}

/* A restartPolicyRule of one container may restart all containers, also those that have ended. */
static bool node_pod_may_restart_all(const json_t *pod)
{
	static const char *const lists[] = {"containers", "initContainers"};

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		const json_t *container, *rule;
		size_t j, k;

		json_array_foreach(kube_json_at(pod, "spec", lists[i], NULL), j, container) {
			json_array_foreach(
				json_object_get(container, "restartPolicyRules"), k, rule) {
				const char *action = kube_json_text_at(rule, "action", NULL);

				if (action && !strcmp(action, "RestartAllContainers"))
					return true;
			}
		}
	}
	return false;
}

bool node_is_over(const json_t *pod, const char *container)
{
	const json_t *status, *ended;

	if (kube_json_is_over(pod))
		return true;
	if (node_pod_may_restart_all(pod))
		return false;
	status = node_pod_container_status(pod, "containerStatuses", container);
	ended = kube_json_at(status, "state", "terminated", NULL);
	if (ended &&
		!node_pod_restarts(
			pod, container, json_integer_value(json_object_get(ended, "exitCode"))))
		return true;
	/*
	 * An init container that has finished its work is ready. A sidecar that exits is not ready,
	 * and starts again.
	 */
	status = node_pod_container_status(pod, "initContainerStatuses", container);
	ended = kube_json_at(status, "state", "terminated", NULL);
	return ended && json_integer_value(json_object_get(ended, "exitCode")) == 0 &&
		json_is_true(json_object_get(status, "ready"));
}

bool node_is_terminating(const json_t *pod)
{
	return kube_json_text_at(pod, "metadata", "deletionTimestamp", NULL) != NULL;
}

bool node_is_init(const json_t *pod, const char *container)
{
	return node_pod_container(pod, "initContainers", container);
}

bool node_has_prepared(const json_t *pod)
{
	const json_t *all = kube_json_at(pod, "status", "initContainerStatuses", NULL), *one;
	size_t i;

	json_array_foreach(all, i, one) {
		if (kube_json_at(one, "state", "terminated", NULL))
			return true;
	}
	return false;
}

const char *node_find_starting(
	const json_t *pod, const char *const *names, size_t n, const char *has_tenant)
{
	const char *last = NULL;

	for (size_t i = 0; i < n; i++) {
		const json_t *status = node_pod_container_status(
				     pod, "initContainerStatuses", names[i]),
			     *ended = kube_json_at(status, "state", "terminated", NULL);
		/*
		 * The container has ended and waits to start again, so this status is newer than
		 * its last start.
		 */
		const bool is_again = kube_json_at(status, "state", "waiting", NULL) &&
			kube_json_at(status, "lastState", "terminated", NULL);

		last = names[i];
		if (!node_is_init(pod, names[i]))
			break;
		if (!ended && !is_again && has_tenant && !strcmp(has_tenant, names[i]))
			return NULL;
		if (!ended || json_integer_value(json_object_get(ended, "exitCode")) != 0)
			return names[i];
	}
	return last;
}

const json_t *node_gpunode(const struct node *node)
{
	const struct kube_entry *entry = kube_cache_find(node->gpunodes, NULL, node->options.name);

	return entry ? entry->object : NULL;
}

static void node_pod_send_event(
	struct node *node, struct kube_event *event, const char *fmt, va_list ap)
{
	char message[EVENT_MESSAGE_MAX];

	vsnprintf(message, sizeof(message), fmt, ap);
	event->message = message;
	kube_record(node->recorder, event);
}

void node_pod_event(struct node *node, const struct tenant_pod *pod, bool is_warning,
	const char *reason, const char *fmt, ...)
{
	struct kube_event event = {
		.type = is_warning ? "Warning" : "Normal",
		.reason = reason,
		.object = {"v1", "Pod", pod->space, pod->name, pod->uid},
	};
	va_list ap;

	va_start(ap, fmt);
	node_pod_send_event(node, &event, fmt, ap);
	va_end(ap);
}

void node_event(struct node *node, bool is_warning, const char *reason, const char *fmt, ...)
{
	struct kube_event event = {
		.type = is_warning ? "Warning" : "Normal",
		.reason = reason,
		.object = {"divvy.gpu/v1", "GPUNode", NULL, node->options.name,
			kube_json_text_at(node_gpunode(node), "metadata", "uid", NULL)},
	};
	va_list ap;

	va_start(ap, fmt);
	node_pod_send_event(node, &event, fmt, ap);
	va_end(ap);
}
