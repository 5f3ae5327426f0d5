/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides by the pod alone whether another pod follows. Containers fail a pod with restartPolicy
 * Always only if they have a restartPolicy of their own (Kubernetes 1.35 and later). The kubelet
 * then gives no reason; for all other failures the kubelet gives a reason, or the condition
 * DisruptionTarget is True. Since 1.27 a kubelet ends a deleted pod as Succeeded or Failed.
 */
#include "controller/share-pod-replace.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "kube/time.h"
#include "spec/dialect.h"

/* Bytes of a kubelet's message; a condition's message has SHARE_POD_MESSAGE_MAX in all. */
#define CAUSE_MAX 160u

static bool has_own_policy(const json_t *containers)
{
	for (size_t i = 0; i < json_array_size(containers); i++) {
		const char *policy = kube_json_text(json_array_get(containers, i), "restartPolicy");

		if (policy[0] && strcmp(policy, "Always"))
			return true;
	}
	return false;
}

/* Returns the condition by which the API server's clients mark a disrupted pod, or NULL. */
static const json_t *find_disruption(const json_t *pod)
{
	const json_t *condition = kube_json_condition(pod, "DisruptionTarget");

	return !strcmp(kube_json_text(condition, "status"), "True") ? condition : NULL;
}

bool share_pod_is_replaced(const json_t *pod)
{
	const json_t *spec = json_object_get(pod, "spec"), *status = json_object_get(pod, "status");
	const char *policy = kube_json_text(spec, "restartPolicy"),
		   *phase = kube_json_text(status, "phase"),
		   *reason = kube_json_text(status, "reason");
	const bool has_failed = !strcmp(phase, "Failed");

	if ((!has_failed && strcmp(phase, "Succeeded") != 0) ||
		(policy[0] && strcmp(policy, "Always") != 0) || !strcmp(reason, "DeadlineExceeded"))
		return false;
	if (kube_json_text_at(pod, "metadata", "deletionTimestamp", NULL))
		return true;
	return has_failed &&
		(reason[0] || find_disruption(pod) ||
			!(has_own_policy(json_object_get(spec, "containers")) ||
				has_own_policy(json_object_get(spec, "initContainers"))));
}

/* ---- the delay ---- */

static bool read_created_ns(const json_t *pod, uint64_t *ret_ns)
{
	const char *text = kube_json_text_at(pod, "metadata", "creationTimestamp", NULL);

	return text && kube_time_parse(str_from(text), ret_ns) == 0;
}

static uint64_t read_count(const json_t *pod)
{
	const char *text = kube_json_text_at(
		pod, "metadata", "annotations", DIALECT_REPLACED_KEY, NULL);
	uint64_t count = 0;

	if (text)
		parse_uint(str_from(text), 0, SHARE_POD_REPLACE_COUNT_MAX, &count, NULL);
	return count;
}

uint64_t share_pod_replace_due_ns(const json_t *pod)
{
	uint64_t delay_ns = SHARE_POD_REPLACE_NS, created_ns;

	if (!read_created_ns(pod, &created_ns))
		return 0;
	for (uint64_t n = read_count(pod); n > 0 && delay_ns < SHARE_POD_REPLACE_MAX_NS; n--)
		delay_ns *= 2;
	return clock_add_ns(created_ns, MIN(delay_ns, SHARE_POD_REPLACE_MAX_NS));
}

int share_pod_replace_count(const json_t *pod, uint64_t real_ns, json_t *next)
{
	json_t *metadata = json_object_get(next, "metadata"),
	       *annotations = json_object_get(metadata, "annotations");
	uint64_t created_ns, count = 1;
	char text[24];

	if (read_created_ns(pod, &created_ns) &&
		clock_since_ns(real_ns, created_ns) < SHARE_POD_REPLACE_RESET_NS)
		count = MIN(read_count(pod) + 1, SHARE_POD_REPLACE_COUNT_MAX);
	if (!annotations) {
		annotations = json_object();
		if (json_object_set_new(metadata, "annotations", annotations) < 0)
			return -ENOMEM;
	}
	snprintf(text, sizeof(text), "%llu", (unsigned long long)count);
	return json_object_set_new(annotations, DIALECT_REPLACED_KEY, json_string(text)) < 0
		? -ENOMEM
		: 0;
}

/* ---- the cause ---- */

/* Copies whole UTF-8 characters, because JSON takes no others. */
static void replace_copy_text(const char *text, char ret[static CAUSE_MAX])
{
	struct str rest = str_from(text);
	size_t n = 0, length;

	while ((length = str_utf8(rest)) && n + length < CAUSE_MAX) {
		memcpy(ret + n, rest.p, length);
		n += length;
		rest = (struct str){rest.p + length, rest.n - length};
	}
	ret[n] = '\0';
}

void share_pod_replace_cause(const json_t *pod, char ret[static SHARE_POD_REPLACE_TEXT])
{
	const char *name = kube_json_text_at(pod, "metadata", "name", NULL),
		   *node = kube_json_text_at(pod, "spec", "nodeName", NULL);
	const json_t *said = json_object_get(pod, "status");
	const char *reason = kube_json_text(said, "reason");
	char message[CAUSE_MAX];

	if (!reason[0]) {
		said = find_disruption(pod);
		reason = kube_json_text(said, "reason");
	}
	replace_copy_text(kube_json_text(said, "message"), message);
	snprintf(ret, SHARE_POD_REPLACE_TEXT, "pod %.253s failed%s%.63s%s%.60s%s%s",
		name ? name : "", node ? " on node " : "", node ? node : "", reason[0] ? ", " : "",
		reason, message[0] ? ": " : "", message);
}
