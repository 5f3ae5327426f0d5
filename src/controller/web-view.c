/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file copies from the cluster's objects what the dashboard shows. Optional members of
 * json_pack() leave out each field that an object lacks. Devices of a tenant become indices into
 * the devices of the node. The table `conditions` names the good status of each condition that the
 * dashboard knows. next_use() starts its search at the last match, since tenants and measurements
 * have almost the same order.
 */
#include "controller/web-view.h"

#include <string.h>

#include "base/cleanup.h"
#include "controller/pod-translate.h"
#include "kube/time.h"
#include "manifest/manifest-json.h"
#include "spec/measured.h"

#define KEY_SIZE 256u /* bytes of "UID/CONTAINER" */

static const char *web_view_text(const json_t *object, const char *key)
{
	const char *value = kube_json_text_at(object, key, NULL);

	return value && value[0] ? value : NULL;
}

static json_t *web_view_number(const json_t *object, const char *key)
{
	json_t *value = json_object_get(object, key);

	return json_is_integer(value) ? json_incref(value) : NULL;
}

static char *web_view_dump_text(json_t *object)
{
	char *formatted = object ? kube_json_format(object) : NULL;

	json_decref(object);
	return formatted;
}

static const json_t *tenants_of(const json_t *gpu_node)
{
	return kube_json_at(gpu_node, "status", "tenants", NULL);
}

/* ---- devices ---- */

/* Returns the reason of the cordon, which may be empty; NULL if the device is not cordoned. */
static const char *why_cordoned(const json_t *gpu_node, const char *uuid)
{
	const json_t *cordon = kube_json_find(
		kube_json_at(gpu_node, "spec", "cordoned", NULL), "uuid", uuid ? uuid : "");

	return uuid && cordon ? kube_json_text(cordon, "reason") : NULL;
}

static json_t *web_view_devices_json(const json_t *gpu_node)
{
	const json_t *all = kube_json_at(gpu_node, "status", "devices", NULL), *d;
	json_t *out = json_array();
	size_t i;

	json_array_foreach(all, i, d)
		json_array_append_new(out,
			json_pack("{s:s*, s:o*, s:s*, s:o*, s:s*, s:s*, s:s*, s:s*}", "uuid",
				web_view_text(d, "uuid"), "index", web_view_number(d, "index"),
				"model", web_view_text(d, "model"), "bytes",
				web_view_number(d, "memoryBytes"), "health",
				web_view_text(d, "health"), "why", web_view_text(d, "reason"),
				"owner", web_view_text(d, "owner"), "cordoned",
				why_cordoned(gpu_node, web_view_text(d, "uuid"))));
	return out;
}

/* Returns the device's index among the node's devices; -1 if absent. */
static int web_view_device_place(const json_t *devices, const json_t *uuid)
{
	const char *wanted = json_string_value(uuid);
	size_t i;
	json_t *d;

	json_array_foreach(devices, i, d) {
		const char *has = web_view_text(d, "uuid");

		if (wanted && has && !strcmp(wanted, has))
			return (int)i;
	}
	return -1;
}

static json_t *places_json(const json_t *gpu_node, const json_t *tenant)
{
	const json_t *devices = kube_json_at(gpu_node, "status", "devices", NULL), *uuid;
	json_t *out = json_array();
	size_t i;

	json_array_foreach(json_object_get(tenant, "devices"), i, uuid)
		json_array_append_new(out, json_integer(web_view_device_place(devices, uuid)));
	return out;
}

static json_t *web_view_tenants_json(const json_t *gpu_node)
{
	const json_t *t;
	json_t *out = json_array();
	size_t i;

	json_array_foreach(tenants_of(gpu_node), i, t) {
		json_t *bytes = json_object_get(t, "memoryBytes");

		json_array_append_new(out,
			json_pack("{s:s*, s:s*, s:s*, s:s*, s:o, s:o*, s:o*, s:O*, s:s*, s:o*, "
				  "s:s*, s:s*}",
				"uid", web_view_text(t, "podUID"), "namespace",
				web_view_text(t, "namespace"), "pod", web_view_text(t, "pod"),
				"container", web_view_text(t, "container"), "devices",
				places_json(gpu_node, t), "request", web_view_number(t, "request"),
				"limit", web_view_number(t, "limit"), "bytes", bytes, "class",
				web_view_text(t, "class"), "priority",
				web_view_number(t, "priority"), "mode", web_view_text(t, "mode"),
				"note", web_view_text(t, "note")));
	}
	return out;
}

/* ---- the node ---- */

static const struct {
	const char *type, *good;
} conditions[] = {
	{"Ready", "True"},
	{"OwnerConflict", "False"},
	{"RuntimeInsecure", "False"},
	{"HostNamespaces", "True"},
	{"Audited", "True"},
};

static json_t *trouble_json(const json_t *gpu_node)
{
	const json_t *all = kube_json_at(gpu_node, "status", "conditions", NULL), *c;
	json_t *out = json_array();
	size_t i;

	json_array_foreach(all, i, c) {
		const char *type = web_view_text(c, "type"), *status = web_view_text(c, "status");

		for (size_t k = 0; type && status && k < ARRAY_SIZE(conditions); k++)
			if (!strcmp(type, conditions[k].type) && strcmp(status, conditions[k].good))
				json_array_append_new(out,
					json_pack("{s:s, s:s*, s:s*}", "what", type, "reason",
						web_view_text(c, "reason"), "message",
						web_view_text(c, "message")));
	}
	return out;
}

static bool is_simulated(const json_t *gpu_node)
{
	const json_t *all = kube_json_at(gpu_node, "status", "devices", NULL);

	return json_is_true(json_object_get(json_array_get(all, 0), "simulated"));
}

char *web_view_node(const json_t *gpu_node, uint64_t silent_since_s)
{
	return web_view_dump_text(
		json_pack("{s:b, s:o*, s:b, s:s*, s:o, s:o, s:o}", "alive", !silent_since_s,
			"since", silent_since_s ? json_integer((json_int_t)silent_since_s) : NULL,
			"simulated", (int)is_simulated(gpu_node), "version",
			kube_json_text_at(gpu_node, "status", "versions", "divvyd", NULL),
			"devices", web_view_devices_json(gpu_node), "tenants",
			web_view_tenants_json(gpu_node), "trouble", trouble_json(gpu_node)));
}

/* ---- the summary of a node ---- */

size_t web_view_count_devices(const json_t *gpu_node)
{
	return json_array_size(kube_json_at(gpu_node, "status", "devices", NULL));
}

static bool is_faulty(const json_t *device)
{
	const char *health = web_view_text(device, "health");

	return health && strcmp(health, "Healthy") != 0;
}

/* As whyClosed() of web.js. */
static bool is_closed(const json_t *gpu_node, const json_t *device)
{
	const char *owner = web_view_text(device, "owner");

	return is_faulty(device) || why_cordoned(gpu_node, web_view_text(device, "uuid")) ||
		(owner && (!strcmp(owner, "native") || !strcmp(owner, "user")));
}

/* Amounts are divvyd's and may be wrong, so sums stop at the greatest number. */
static json_int_t web_view_sum(json_int_t a, json_int_t b)
{
	json_int_t sum;

	if (__builtin_add_overflow(a, b, &sum))
		return a < 0 ? INT64_MIN : INT64_MAX;
	return sum;
}

static void web_view_add(json_t *summary, const char *key, json_int_t n)
{
	const json_int_t before = json_integer_value(json_object_get(summary, key));

	json_object_set_new(summary, key, json_integer(web_view_sum(before, n)));
}

/* Adds the tenant's amounts to the sums, and its request to its devices. */
static void add_tenant(
	const json_t *gpu_node, const json_t *t, json_int_t *granted_of, json_t *summary)
{
	const json_t *devices = kube_json_at(gpu_node, "status", "devices", NULL), *uuid;
	const json_int_t request = json_integer_value(json_object_get(t, "request"));
	json_int_t given = 0, granted = 0;
	size_t i;

	json_array_foreach(json_object_get(t, "devices"), i, uuid) {
		const int place = web_view_device_place(devices, uuid);

		if (place >= 0)
			granted_of[place] = web_view_sum(granted_of[place], request);
		granted = web_view_sum(granted, request);
		given = web_view_sum(given,
			json_integer_value(json_array_get(json_object_get(t, "memoryBytes"), i)));
	}
	web_view_add(summary, "granted", granted);
	web_view_add(summary, "given", given);
}

static void add_use(void *data, const char *key, uint32_t share_permille, uint64_t bytes)
{
	web_view_add(data, "used", share_permille);
}

/* Counts the devices; granted_of[i]: sum of the requests on the i-th device. */
static void count_devices(const json_t *gpu_node, const json_int_t *granted_of, json_t *summary)
{
	const json_t *devices = kube_json_at(gpu_node, "status", "devices", NULL), *d;
	const char *model = web_view_text(json_array_get(devices, 0), "model");
	const bool is_shut = !json_is_true(json_object_get(summary, "alive")) ||
		kube_json_find(json_object_get(summary, "trouble"), "what", "Ready");
	json_int_t closed = 0, idle = 0, room = 0, bad = 0, bytes = 0;
	size_t i;

	json_array_foreach(devices, i, d) {
		const char *its = web_view_text(d, "model");
		const bool is_shut_here = is_shut || is_closed(gpu_node, d);

		closed += is_shut_here;
		idle += !granted_of[i];
		room += !is_shut_here && granted_of[i] < 1000;
		bad += is_faulty(d);
		bytes = web_view_sum(bytes, json_integer_value(json_object_get(d, "memoryBytes")));
		if (!model || !its || strcmp(model, its) != 0)
			model = NULL;
	}
	json_object_update_new(summary,
		json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:s*}", "n", (json_int_t)i, "closed",
			closed, "idle", idle, "room", room, "bad", bad, "bytes", bytes, "model",
			model));
}

char *web_view_summary(const json_t *gpu_node, uint64_t silent_since_s, struct str measured)
{
	const json_t *tenants = tenants_of(gpu_node), *t;
	_cleanup_free_ json_int_t *granted_of = calloc(
		web_view_count_devices(gpu_node) + 1, sizeof(*granted_of));
	json_t *summary = json_pack("{s:b, s:o*, s:b, s:I, s:o}", "alive", !silent_since_s, "since",
		silent_since_s ? json_integer((json_int_t)silent_since_s) : NULL, "simulated",
		(int)is_simulated(gpu_node), "tenants", (json_int_t)json_array_size(tenants),
		"trouble", trouble_json(gpu_node));
	size_t i;

	if (!granted_of || !summary) {
		json_decref(summary);
		return NULL;
	}
	json_array_foreach(tenants, i, t)
		add_tenant(gpu_node, t, granted_of, summary);
	count_devices(gpu_node, granted_of, summary);
	web_view_each_use(gpu_node, measured, add_use, summary);
	return web_view_dump_text(summary);
}

/* ---- measured use ---- */

static bool web_view_is_measured_of(const json_t *tenant, const struct measured *m)
{
	return str_is(m->uid, json_string_value(json_object_get(tenant, "podUID"))) &&
		str_is(m->container, json_string_value(json_object_get(tenant, "container")));
}

/*
 * Finds the next measurement that belongs to a tenant of the node. Both lists have almost the same
 * order, so the search starts at the last match.
 */
static bool next_use(
	const json_t *tenants, struct str *rest, size_t *at, struct measured *ret_measured)
{
	const size_t n = json_array_size(tenants);
	int r;

	while ((r = measured_next(rest, ret_measured, NULL)) != 0)
		for (size_t i = 0; r > 0 && i < n; i++)
			if (web_view_is_measured_of(
				    json_array_get(tenants, (*at + i) % n), ret_measured)) {
				*at = (*at + i) % n;
				return true;
			}
	return false;
}

char *web_view_use(const json_t *gpu_node, struct str measured)
{
	const json_t *tenants = tenants_of(gpu_node);
	json_t *out = json_array();
	struct measured m;
	size_t at = 0;

	for (size_t i = 0; i < json_array_size(tenants); i++)
		json_array_append_new(out, json_null());
	while (next_use(tenants, &measured, &at, &m)) {
		json_t *pairs = json_array();

		for (uint32_t i = 0; i < m.n; i++) {
			json_array_append_new(pairs, json_integer(m.device[i].share_permille));
			json_array_append_new(
				pairs, json_integer((json_int_t)m.device[i].memory_bytes));
		}
		json_array_set_new(out, at, pairs);
	}
	return web_view_dump_text(out);
}

void web_view_each_use(const json_t *gpu_node, struct str measured, web_use_fn *fn, void *data)
{
	const json_t *tenants = tenants_of(gpu_node);
	struct measured m;
	char key[KEY_SIZE];
	size_t at = 0;

	while (next_use(tenants, &measured, &at, &m)) {
		uint64_t bytes = 0;
		uint32_t share = 0;

		for (uint32_t i = 0; i < m.n; i++) {
			share += m.device[i].share_permille;
			bytes += m.device[i].memory_bytes;
		}
		snprintf(key, sizeof(key), "%" STR_FMT "/%" STR_FMT, STR_ARG(m.uid),
			STR_ARG(m.container));
		fn(data, key, share, bytes);
	}
}

void web_view_each_removed(const json_t *before, const json_t *now, web_removed_fn *fn, void *data)
{
	const json_t *left = tenants_of(now), *t;
	char key[KEY_SIZE];
	size_t i;

	json_array_foreach(tenants_of(before), i, t) {
		const struct measured m = {.uid = str_from(web_view_text(t, "podUID")),
			.container = str_from(web_view_text(t, "container"))};
		bool is_left = false;

		/*
		 * The search begins at the tenant's old index, because most tenants keep it or move
		 * towards the front.
		 */
		for (size_t k = i + 1; k-- > 0 && !is_left;)
			is_left = web_view_is_measured_of(json_array_get(left, k), &m);
		for (size_t k = i + 1; k < json_array_size(left) && !is_left; k++)
			is_left = web_view_is_measured_of(json_array_get(left, k), &m);
		if (is_left)
			continue;
		snprintf(key, sizeof(key), "%" STR_FMT "/%" STR_FMT, STR_ARG(m.uid),
			STR_ARG(m.container));
		fn(data, key);
	}
}

/* ---- waiting pods ---- */

bool web_view_is_waiting(const json_t *pod)
{
	const char *tenant = kube_json_text_at(
		pod, "metadata", "labels", DIALECT_TENANT_LABEL, NULL);
	const char *phase = kube_json_text_at(pod, "status", "phase", NULL);

	return tenant && !strcmp(tenant, "true") && phase && !strcmp(phase, "Pending") &&
		!kube_json_at(pod, "metadata", "deletionTimestamp", NULL);
}

/* The pod's amount of a resource that the webhook added. */
static json_int_t web_view_sum_resource(const json_t *pod, const char *resource)
{
	return (json_int_t)manifest_json_amount(pod, "limits", resource);
}

uint64_t web_view_requested_milli(const json_t *pod)
{
	return kube_json_is_over(pod) ? 0 : (uint64_t)web_view_sum_resource(pod, "divvy.gpu/milli");
}

static const json_t *not_scheduled(const json_t *pod)
{
	const json_t *c = kube_json_condition(pod, "PodScheduled");
	const char *status = web_view_text(c, "status");

	return status && strcmp(status, "True") ? c : NULL;
}

/*
 * Returns the state `waiting` of a container that has not started, with its reason, such as
 * ImagePullBackOff; NULL: none.
 */
static const json_t *not_started(const json_t *pod)
{
	static const char *const lists[] = {"initContainerStatuses", "containerStatuses"};

	for (size_t k = 0; k < ARRAY_SIZE(lists); k++) {
		const json_t *all = kube_json_at(pod, "status", lists[k], NULL), *c;
		size_t i;

		json_array_foreach(all, i, c) {
			const json_t *waiting = kube_json_at(c, "state", "waiting", NULL);

			if (web_view_text(waiting, "reason"))
				return waiting;
		}
	}
	return NULL;
}

char *web_view_waiting(const json_t *pod)
{
	const char *node = kube_json_text_at(pod, "spec", "nodeName", NULL);
	const char *created = kube_json_text_at(pod, "metadata", "creationTimestamp", NULL);
	const json_t *why = node ? not_started(pod) : not_scheduled(pod);
	uint64_t since_ns = 0;

	kube_time_parse(str_from(created), &since_ns);
	return web_view_dump_text(json_pack("{s:I, s:I, s:I, s:s*, s:s*, s:s*}", "since",
		(json_int_t)(since_ns / 1000000000u), "milli",
		web_view_sum_resource(pod, "divvy.gpu/milli"), "mib",
		web_view_sum_resource(pod, "divvy.gpu/memory-mib"), "node", node, "reason",
		web_view_text(why, "reason"), "why", web_view_text(why, "message")));
}
