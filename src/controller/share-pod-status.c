/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds the status of a SharePod from its pod and from the grants and measurements of the pod's
 * node.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/format.h"
#include "base/parse.h"
#include "controller/share-pod-replace.h"
#include "controller/share-pod.h"
#include "controller/pod-translate.h"
#include "kube/time.h"
#include "manifest/pod-condition.h"

#define DEVICE_MAX 1024u
#define TEXT_MAX 64u

/* Adds a condition. Its lastTransitionTime stays while its status is the same. */
static int share_pod_status_add_condition(json_t *list, const json_t *share_pod, uint64_t real_ns,
	const char *type, bool is_true, const char *reason, const char *message)
{
	const json_t *old = kube_json_condition(share_pod, type);
	const char *status = is_true ? "True" : "False";
	const char *since = kube_json_text(old, "lastTransitionTime");
	struct kube_time now = kube_time_format(real_ns);
	char cut[SHARE_POD_MESSAGE_MAX];
	json_t *c;

	if (!since[0] || strcmp(kube_json_text(old, "status"), status))
		since = now.s;
	snprintf(cut, sizeof(cut), "%s", message ? message : "");
	c = json_pack("{s:s, s:s, s:s, s:s}", "type", type, "status", status, "reason", reason,
		"lastTransitionTime", since);
	if (!c)
		return -1;
	if (cut[0] && json_object_set_new(c, "message", json_string(cut)) < 0)
		json_object_set_new(c, "message", json_string("?"));
	return json_array_append_new(list, c);
}

/*
 * Returns the entry of GPUNode.status.tenants for the container; container NULL: for the pod's
 * first container with an entry. NULL: none.
 */
static const json_t *find_tenant(const struct share_pod_facts *f, const char *container)
{
	const char *uid = kube_json_text_at(f->pod, "metadata", "uid", NULL);

	for (size_t i = 0; uid && i < json_array_size(f->tenants); i++) {
		const json_t *t = json_array_get(f->tenants, i);

		if (!strcmp(kube_json_text(t, "podUID"), uid) &&
			(!container || !strcmp(kube_json_text(t, "container"), container)))
			return t;
	}
	return NULL;
}

/*
 * Returns the device UUIDs of the first container, for example of `train` in "train=GPU-a,GPU-b
 * side=GPU-c".
 */
static json_t *placed_devices(const json_t *pod)
{
	struct str all = str_from(kube_json_text(kube_json_at(pod, "metadata", "annotations", NULL),
			   "divvy.gpu/devices")),
		   word, uuid;
	json_t *list = json_array();
	size_t n;

	if (!str_word(&all, &word))
		return list;
	n = str_find(word, '=');
	if (n == word.n)
		return list;
	word = (struct str){word.p + n + 1, word.n - n - 1};
	while (str_split(&word, ',', &uuid) && json_array_size(list) < SPEC_DEVICES_MAX)
		if (uuid.n && uuid.n < 64)
			json_array_append_new(list, json_stringn(uuid.p, uuid.n));
	return list;
}

static int share_pod_status_set_devices(json_t *status, const json_t *tenant, const json_t *pod)
{
	_cleanup_json_ json_t *devices = json_is_array(json_object_get(tenant, "devices"))
		? json_deep_copy(json_object_get(tenant, "devices"))
		: placed_devices(pod);
	_cleanup_buf_ struct buf text = BUF_INIT(DEVICE_MAX);

	if (!json_array_size(devices))
		return 0;
	for (size_t i = 0; i < json_array_size(devices); i++) {
		const char *uuid = json_string_value(json_array_get(devices, i));

		buf_addf(&text, "%s%s", i ? "," : "", uuid ? uuid : "?");
	}
	kube_json_set_text(status, "device", buf_text(&text));
	return json_object_set(status, "devices", devices);
}

static int set_granted(json_t *status, const json_t *tenant, const struct spec *asked)
{
	const json_t *memory = json_array_get(json_object_get(tenant, "memoryBytes"), 0);
	const json_int_t request = json_integer_value(json_object_get(tenant, "request")),
			 limit = json_integer_value(json_object_get(tenant, "limit")),
			 bytes = json_integer_value(memory);
	struct spec given = *asked;
	char share[SPEC_SHARES];
	json_t *granted;

	if (request < 1 || request > SPEC_SHARE_ONE || limit < request || limit > SPEC_SHARE_ONE)
		return 0;
	given.request = (uint32_t)request;
	given.limit = (uint32_t)limit;
	given.count = (uint32_t)json_array_size(json_object_get(tenant, "devices"));
	spec_shares_format(&given, share);
	granted = json_pack("{s:s, s:I, s:I}", "share", share, "request", request, "limit", limit);
	if (granted && json_is_integer(memory) && bytes >= 0) {
		json_object_set_new(granted, "memoryBytes", json_integer(bytes));
		kube_json_set_text(granted, "memory", format_bytes((uint64_t)bytes).s);
	}
	return json_object_set_new(status, "granted", granted);
}

static const char *const verdict_names[SHARE_POD_VERDICTS] = {
	[SHARE_POD_ACCEPTED] = "Accepted",
	[SHARE_POD_INVALID_SPEC] = "InvalidSpec",
	[SHARE_POD_TEMPLATE_CONFLICT] = "TemplateConflict",
	[SHARE_POD_POLICY_DENIED] = "PolicyDenied",
};

const char *share_pod_verdict_name(enum share_pod_verdict verdict)
{
	return verdict_names[verdict];
}

static int add_conditions(json_t *list, const json_t *share_pod, const struct share_pod_facts *f,
	const json_t *tenant)
{
	const json_t *said = kube_json_condition(f->pod, POD_CONDITION_GRANTED);
	const bool is_denied = said && !strcmp(kube_json_text(said, "status"), "False");
	const bool is_accepted = f->verdict == SHARE_POD_ACCEPTED;
	int r = share_pod_status_add_condition(list, share_pod, f->real_ns, "Accepted", is_accepted,
		share_pod_verdict_name(f->verdict), is_accepted ? NULL : f->message);

	if (f->pod)
		r |= share_pod_status_add_condition(list, share_pod, f->real_ns, "PodCreated", true,
			f->was_adopted ? "Adopted" : "Created", NULL);
	else if (f->trouble)
		r |= share_pod_status_add_condition(
			list, share_pod, f->real_ns, "PodCreated", false, f->trouble, f->message);
	if (f->resize_text || is_denied)
		r |= share_pod_status_add_condition(list, share_pod, f->real_ns, "Granted", false,
			"ResizeRejected",
			f->resize_text ? f->resize_text : kube_json_text(said, "message"));
	else if (tenant)
		r |= share_pod_status_add_condition(
			list, share_pod, f->real_ns, "Granted", true, "Granted", NULL);
	else if (f->pod)
		r |= share_pod_status_add_condition(list, share_pod, f->real_ns, "Granted", false,
			"Waiting",
			kube_json_text(kube_json_condition(f->pod, "PodScheduled"), "message"));
	return r;
}

static const char *phase_of(const struct share_pod_facts *f)
{
	static const char *const phases[] = {
		"Pending", "Running", "Succeeded", "Failed", "Unknown"};
	const char *phase = f->pod ? kube_json_text_at(f->pod, "status", "phase", NULL) : NULL;

	if (f->verdict != SHARE_POD_ACCEPTED && !f->pod)
		return "Refused";
	for (size_t i = 0; phase && i < ARRAY_SIZE(phases); i++)
		if (!strcmp(phase, phases[i]))
			return phases[i];
	return "Pending";
}

/* Reads the request by translating the pod that the SharePod would make. */
static void share_pod_status_read_requested(const json_t *share_pod,
	const struct share_pod_facts *f, struct spec *spec, char container[static TEXT_MAX],
	char share[static SPEC_SHARES])
{
	const struct pod_translate_facts facts = {.dialects = f->dialects};
	_cleanup_json_ json_t *made = NULL;
	struct pod_translation translation;

	share[0] = container[0] = '\0';
	spec_init(spec);
	if (share_pod_make(share_pod, SHARE_POD_OURS, &made, NULL) < 0)
		return;
	if (pod_translate_read(json_object_get(made, "metadata"), json_object_get(made, "spec"),
		    STR(""), &facts, &translation, NULL) == 0 &&
		pod_translate_is_tenant(&translation)) {
		const struct dialect_tenant *t = &translation.result.tenant[0];

		*spec = t->spec;
		spec_shares_format(spec, share);
		str_copy(container, TEXT_MAX, translation.json.pod.container[t->container].name);
	}
	pod_translation_done(&translation);
}

/* Parses a used share of n devices, "0.31" or for n = 2 "2x0.31"; false for other text. */
static bool parse_got(struct str text, uint32_t n, uint32_t *ret_permille)
{
	uint64_t its = 1;
	struct str rest = text, count;

	if (str_find(text, 'x') < text.n) {
		str_split(&rest, 'x', &count);
		if (parse_uint(count, 2, SPEC_DEVICES_MAX, &its, NULL) < 0)
			return false;
	}
	return its == n && parse_share(rest, ret_permille, NULL) == 0;
}

const char *share_pod_used(const json_t *share_pod)
{
	const char *used = kube_json_text_at(share_pod, "status", "used", NULL);

	return used ? used : kube_json_text_at(share_pod, "status", "got", NULL);
}

void share_pod_got(const char *was, const struct measured *m, char ret[static SHARE_POD_GOT_SIZE])
{
	uint32_t sum = 0, mean, before;
	char count[12] = "";

	for (uint32_t i = 0; i < m->n; i++)
		sum += m->device[i].share_permille;
	mean = sum / MAX(m->n, 1u);
	if (was && parse_got(str_from(was), m->n, &before) &&
		(mean > before ? mean - before : before - mean) < SHARE_POD_GOT_STEP)
		mean = before;
	if (m->n > 1)
		snprintf(count, sizeof(count), "%ux", m->n);
	snprintf(ret, SHARE_POD_GOT_SIZE, "%.5s%.8s", count, format_share(mean).s);
}

/*
 * Sets the used share. Without a new measurement the old value stays; without a tenant the status
 * has no value.
 */
static void set_got(json_t *status, const json_t *share_pod, const struct share_pod_facts *f,
	const json_t *tenant)
{
	const char *used = share_pod_used(share_pod);
	char got[SHARE_POD_GOT_SIZE];
	struct measured m;

	if (!tenant)
		return;
	if (f->measured &&
		measured_find(str_from(f->measured), str_from(kube_json_text(tenant, "podUID")),
			str_from(kube_json_text(tenant, "container")), &m) >= 0) {
		share_pod_got(used, &m, got);
		used = got;
	}
	kube_json_set_renamed(status, "used", "got", used && used[0] ? json_string(used) : NULL);
}

/* A pod that another pod replaces is left out: the phase Failed would end the SharePod. */
static json_t *our_status(const json_t *share_pod, const struct share_pod_facts *all)
{
	const json_t *generation = kube_json_at(share_pod, "metadata", "generation", NULL);
	json_t *status = json_object(), *conditions = json_array();
	char container[TEXT_MAX], share[SPEC_SHARES];
	struct share_pod_facts present = *all, *f = &present;
	const json_t *tenant;
	struct spec spec;
	int r = status && conditions ? 0 : -1;

	if (f->pod && share_pod_is_replaced(f->pod))
		f->pod = NULL;
	share_pod_status_read_requested(share_pod, f, &spec, container, share);
	tenant = find_tenant(f, container[0] ? container : NULL);
	if (json_is_integer(generation))
		json_object_set_new(
			status, "observedGeneration", json_integer(json_integer_value(generation)));
	kube_json_set_text(status, "phase", phase_of(f));
	kube_json_set_renamed(status, "requested", "asked", share[0] ? json_string(share) : NULL);
	set_got(status, share_pod, f, tenant);
	if (f->pod) {
		kube_json_set_text(
			status, "podName", kube_json_text_at(f->pod, "metadata", "name", NULL));
		kube_json_set_text(
			status, "podUID", kube_json_text_at(f->pod, "metadata", "uid", NULL));
		kube_json_set_text(
			status, "nodeName", kube_json_text_at(f->pod, "spec", "nodeName", NULL));
		r |= share_pod_status_set_devices(status, tenant, f->pod);
	}
	if (tenant)
		r |= set_granted(status, tenant, &spec);
	r |= add_conditions(conditions, share_pod, f, tenant);
	r |= json_object_set(status, "conditions", conditions);
	json_decref(conditions);
	if (r < 0) {
		json_decref(status);
		return NULL;
	}
	return status;
}

/*
 * Builds the status of KubeShare's SharePods, whose fields KubeShare's tools read: the pod's status
 * and the device.
 */
static json_t *kubeshare_status(const json_t *share_pod, const struct share_pod_facts *f)
{
	const json_t *tenant = find_tenant(f, NULL);
	_cleanup_json_ json_t *devices = NULL;
	json_t *status = json_pack("{s:i}", "PodManagerPort", 0), *meta;
	const json_t *first;

	if (!status || !f->pod)
		return status;
	devices = json_is_array(json_object_get(tenant, "devices"))
		? json_deep_copy(json_object_get(tenant, "devices"))
		: placed_devices(f->pod);
	first = json_array_get(devices, 0);
	json_object_set_new(status, "PodStatus",
		json_is_object(json_object_get(f->pod, "status"))
			? json_deep_copy(json_object_get(f->pod, "status"))
			: json_object());
	meta = json_deep_copy(json_object_get(f->pod, "metadata"));
	json_object_del(meta, "managedFields");
	json_object_set_new(status, "PodObjectMeta", meta);
	kube_json_set_text(status, "BoundDeviceID", json_string_value(first));
	return status;
}

json_t *share_pod_status(
	const json_t *share_pod, enum share_pod_kind kind, const struct share_pod_facts *facts)
{
	return kind == SHARE_POD_OURS ? our_status(share_pod, facts)
				      : kubeshare_status(share_pod, facts);
}

/*
 * Returns a merge patch that turns `old` into `new`; null in the patch removes a member, at any
 * depth.
 */
static json_t *share_pod_status_difference(const json_t *old, const json_t *new)
{
	json_t *change = json_object(), *value;
	const char *key;

	json_object_foreach((json_t *)new, key, value) {
		const json_t *was = json_object_get(old, key);

		if (was && json_equal(was, value))
			continue;
		if (json_is_object(was) && json_is_object(value))
			json_object_set_new(change, key, share_pod_status_difference(was, value));
		else
			json_object_set(change, key, value);
	}
	json_object_foreach((json_t *)old, key, value) {
		if (!json_object_get(new, key))
			json_object_set_new(change, key, json_null());
	}
	return change;
}

json_t *share_pod_status_patch(const json_t *share_pod, const json_t *status)
{
	_cleanup_json_ json_t *change = share_pod_status_difference(
		json_object_get(share_pod, "status"), status);

	if (!json_object_size(change))
		return NULL;
	return json_pack("{s:O}", "status", change);
}
