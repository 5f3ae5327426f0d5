/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joins GPUNodes, node Leases and pods into the rows that the commands print. GPUNode.status holds
 * what divvyd has confirmed; an annotation of the node's Lease holds what divvyd measured.
 * report_find_measured() ignores the measured values of a Lease that has expired. The state of a
 * container is the first one in report_add_container() that applies, from Terminating down to
 * Pending.
 */
#include "kubectl/report.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/parse.h"
#include "cmdline/json-member.h"
#include "kube/kube-json.h"
#include "kube/time.h"
#include "manifest/manifest-json.h"
#include "scheduler/tenancy.h"
#include "spec/dialect.h"
#include "spec/measured.h"
#include "spec/spec.h"

#define WHY_MAX 4096u

static const char *report_object_name(const json_t *object)
{
	return json_text_or_empty(json_object_get(object, "metadata"), "name");
}

static void report_copy_member(json_t *to, const char *key, const json_t *from, const char *its_key)
{
	json_t *value = json_object_get(from, its_key);

	if (value)
		json_object_set(to, key, value);
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(
		report_object_name(*(json_t *const *)a), report_object_name(*(json_t *const *)b));
}

/* Returns a list of the same objects, sorted by their names. */
static json_t *report_sort_rows(const json_t *list)
{
	const size_t n = json_array_size(list);
	_cleanup_free_ json_t **all = calloc(n + 1, sizeof(json_t *));
	json_t *made = json_array();

	for (size_t i = 0; all && i < n; i++)
		all[i] = json_array_get(list, i);
	if (all)
		qsort(all, n, sizeof(json_t *), compare_names);
	for (size_t i = 0; all && i < n; i++)
		json_array_append(made, all[i]);
	return made;
}

int report_assigned(const json_t *pod, struct assigned *ret)
{
	_cleanup_manifest_json_ struct manifest_json manifest = {0};
	const int r = manifest_json_read(
		json_object_get(pod, "metadata"), NULL, STR(""), &manifest, NULL);

	*ret = (struct assigned){0};
	return r < 0 ? r : assigned_parse(manifest.pod.annotations, ret, NULL);
}

/*
 * Returns the age of an expired Lease, whose divvyd is silent. Returns 0 for a Lease that has not
 * expired, and for one of unknown age.
 */
static uint64_t silent_ns(const struct report_facts *f, const json_t *lease)
{
	const json_t *spec = json_object_get(lease, "spec");
	const char *renewed = json_text_or_empty(spec, "renewTime");
	const uint64_t most_ns = (uint64_t)json_uint_or_zero(spec, "leaseDurationSeconds") *
		NSEC_PER_SEC;
	uint64_t at_ns, age_ns;

	if (!f->real_ns || !most_ns || kube_time_parse(str_from(renewed), &at_ns) < 0)
		return 0;
	age_ns = clock_since_ns(f->real_ns, at_ns);
	return age_ns > most_ns ? age_ns : 0;
}

static uint64_t silent_at(const struct report_facts *f, const char *node)
{
	for (size_t i = 0; i < json_array_size(f->leases); i++)
		if (!strcmp(report_object_name(json_array_get(f->leases, i)), node))
			return silent_ns(f, json_array_get(f->leases, i));
	return 0;
}

/* Returns the measured values of a container; n is 0 without recent values. */
static struct measured report_find_measured(
	const struct report_facts *f, const char *node, const char *uid, const char *container)
{
	struct measured m;

	for (size_t i = 0; i < json_array_size(f->leases); i++) {
		const json_t *lease = json_array_get(f->leases, i);
		const char *all = kube_json_text_at(
			lease, "metadata", "annotations", MEASURED_KEY, NULL);

		if (!strcmp(report_object_name(lease), node) && !silent_ns(f, lease) &&
			measured_find(str_from(all), str_from(uid), str_from(container), &m) == 0)
			return m;
	}
	return (struct measured){.n = 0};
}

/* ---- devices ---- */

/* Returns the index of the device among the tenant's devices; -1 if absent. */
static int report_device_place(const json_t *tenant, const char *uuid)
{
	const json_t *devices = json_object_get(tenant, "devices");

	for (size_t i = 0; i < json_array_size(devices); i++) {
		const char *one = json_string_value(json_array_get(devices, i));

		if (one && !strcmp(one, uuid))
			return (int)i;
	}
	return -1;
}

static void shares_of(const json_t *tenant, struct spec *ret)
{
	spec_init(ret);
	ret->request = (uint32_t)json_uint_or_zero(tenant, "request");
	ret->limit = (uint32_t)json_uint_or_zero(tenant, "limit");
	ret->count = (uint32_t)json_array_size(json_object_get(tenant, "devices"));
	ret->exclusive = !strcmp(json_text_or_empty(tenant, "mode"), "exclusive");
}

static int64_t report_list_item(const json_t *tenant, const char *key, int at)
{
	return json_integer_value(json_array_get(json_object_get(tenant, key), (size_t)at));
}

static json_t *tenant_on(
	const struct report_facts *f, const char *node, const json_t *tenant, int at)
{
	const struct measured m = report_find_measured(f, node,
		json_text_or_empty(tenant, "podUID"), json_text_or_empty(tenant, "container"));
	json_t *made = json_object();
	char shares[SPEC_SHARES];
	struct spec spec;

	shares_of(tenant, &spec);
	report_copy_member(made, "namespace", tenant, "namespace");
	report_copy_member(made, "pod", tenant, "pod");
	report_copy_member(made, "container", tenant, "container");
	report_copy_member(made, "class", tenant, "class");
	kube_json_set_text(made, "granted", spec_shares_format(&spec, shares));
	report_copy_member(made, "request_permille", tenant, "request");
	report_copy_member(made, "limit_permille", tenant, "limit");
	json_object_set_new(
		made, "memory_bytes", json_integer(report_list_item(tenant, "memoryBytes", at)));
	if (at < (int)m.n) {
		kube_json_set_renamed(made, "used_permille", "got_permille",
			json_integer((json_int_t)m.device[at].share_permille));
		json_object_set_new(
			made, "used_bytes", json_integer((json_int_t)m.device[at].memory_bytes));
	}
	report_copy_member(made, "idle_since", tenant, "idleSince");
	report_copy_member(made, "note", tenant, "note");
	return made;
}

static void add_sum(json_t *device, const char *key, const json_t *tenants, const char *of)
{
	int64_t sum = 0;
	bool is_known = !json_array_size(tenants);

	for (size_t i = 0; i < json_array_size(tenants); i++) {
		is_known |= json_object_get(json_array_get(tenants, i), of) != NULL;
		sum += json_int_or_zero(json_array_get(tenants, i), of);
	}
	if (is_known)
		json_object_set_new(device, key, json_integer(sum));
}

/*
 * Returns whether the condition Ready of the GPUNode is not True, and appends its reason. Without
 * that condition the node counts as ready.
 */
static bool is_not_ready(const json_t *gpunode, struct buf *why)
{
	const json_t *ready = kube_json_condition(gpunode, "Ready");
	const char *message = json_text_or_empty(ready, "message");

	if (!ready || !strcmp(json_text_or_empty(ready, "status"), "True"))
		return false;
	buf_addf(why, "%s%s%s", json_text_or_empty(ready, "reason"), message[0] ? ": " : "",
		message);
	return true;
}

static json_t *report_device_row(
	const struct report_facts *f, const json_t *gpunode, const json_t *device)
{
	const json_t *all = kube_json_at(gpunode, "status", "tenants", NULL);
	const json_t *cordon = kube_json_find(kube_json_at(gpunode, "spec", "cordoned", NULL),
		"uuid", json_text_or_empty(device, "uuid"));
	json_t *made = json_object(), *tenants = json_array();
	_cleanup_buf_ struct buf why = BUF_INIT(WHY_MAX);
	const uint64_t silent = silent_at(f, report_object_name(gpunode));

	kube_json_set_text(made, "node", report_object_name(gpunode));
	report_copy_member(made, "index", device, "index");
	report_copy_member(made, "uuid", device, "uuid");
	report_copy_member(made, "model", device, "model");
	report_copy_member(made, "health", device, "health");
	report_copy_member(made, "reason", device, "reason");
	report_copy_member(made, "taints", device, "taints");
	report_copy_member(made, "owner", device, "owner");
	json_object_set_new(made, "cordoned", json_boolean(cordon != NULL));
	kube_json_set_text(made, "cordon_reason", json_text_or_empty(cordon, "reason"));
	report_copy_member(made, "simulated", device, "simulated");
	report_copy_member(made, "memory_bytes", device, "memoryBytes");
	for (size_t i = 0; i < json_array_size(all); i++) {
		const json_t *tenant = json_array_get(all, i);
		const int at = report_device_place(tenant, json_text_or_empty(device, "uuid"));

		if (at >= 0)
			json_array_append_new(
				tenants, tenant_on(f, report_object_name(gpunode), tenant, at));
	}
	add_sum(made, "granted_permille", tenants, "request_permille");
	add_sum(made, "granted_bytes", tenants, "memory_bytes");
	add_sum(made, "used_permille", tenants, "used_permille");
	report_copy_member(made, "got_permille", made, "used_permille");
	add_sum(made, "used_bytes", tenants, "used_bytes");
	json_object_set_new(made, "tenants", tenants);
	if (silent)
		json_object_set_new(
			made, "silent_seconds", json_integer((json_int_t)(silent / NSEC_PER_SEC)));
	if (is_not_ready(gpunode, &why))
		kube_json_set_text(made, "not_ready", buf_text(&why));
	return made;
}

json_t *report_devices(const struct report_facts *f)
{
	_cleanup_json_ json_t *nodes = report_sort_rows(f->gpunodes);
	json_t *made = json_array();

	for (size_t i = 0; i < json_array_size(nodes); i++) {
		const json_t *node = json_array_get(nodes, i);
		const json_t *devices = kube_json_at(node, "status", "devices", NULL);

		for (size_t d = 0; d < json_array_size(devices); d++)
			json_array_append_new(
				made, report_device_row(f, node, json_array_get(devices, d)));
	}
	return made;
}

json_t *report_bare_nodes(const struct report_facts *f)
{
	_cleanup_json_ json_t *nodes = report_sort_rows(f->gpunodes);
	json_t *made = json_array();

	for (size_t i = 0; i < json_array_size(nodes); i++) {
		const json_t *node = json_array_get(nodes, i);
		const json_t *conditions = kube_json_at(node, "status", "conditions", NULL);
		_cleanup_buf_ struct buf why = BUF_INIT(WHY_MAX);

		if (json_array_size(kube_json_at(node, "status", "devices", NULL)))
			continue;
		if (!is_not_ready(node, &why))
			buf_add_text(&why,
				json_array_size(conditions)
					? json_text_or_empty(
						  kube_json_condition(node, "Ready"), "message")
					: "divvyd has not reported yet");
		json_array_append_new(made,
			json_pack("{s:s, s:s}", "node", report_object_name(node), "why",
				buf_text(&why)));
	}
	return made;
}

int report_find_device(
	const json_t *gpunodes, const char *text, struct report_found *ret, struct error *err)
{
	const struct str all = str_from(text);
	const size_t slash = str_find(all, '/');
	const struct str node = slash < all.n ? (struct str){text, slash} : STR_NONE;
	const char *which = slash < all.n ? text + slash + 1 : text;
	size_t n = 0;
	bool is_node = false;

	for (size_t i = 0; i < json_array_size(gpunodes); i++) {
		const json_t *gpunode = json_array_get(gpunodes, i);
		const json_t *devices = kube_json_at(gpunode, "status", "devices", NULL);

		if (node.p && !str_is(node, report_object_name(gpunode)))
			continue;
		is_node = true;
		for (size_t d = 0; d < json_array_size(devices); d++) {
			const json_t *device = json_array_get(devices, d);
			char index[16];

			snprintf(
				index, sizeof(index), "%d", (int)json_int_or_zero(device, "index"));
			if (strcmp(json_text_or_empty(device, "uuid"), which) &&
				!(node.p && !strcmp(index, which)))
				continue;
			*ret = (struct report_found){
				report_object_name(gpunode), json_text_or_empty(device, "uuid")};
			n++;
		}
	}
	if (n == 1)
		return 0;
	if (n > 1)
		return fail(
			err, ENOTUNIQ, "device '%.80s' is on %zu nodes; use NODE/UUID", text, n);
	if (node.p && !is_node)
		return fail(err, ENOENT,
			"'%.80s': no GPUNode '%.*s'; kubectl get gpunodes lists them", text,
			STR_ARG(node));
	return fail(err, ENOENT,
		"'%.80s': no such device; use NODE/UUID, NODE/INDEX or a UUID from kubectl divvy "
		"top",
		text);
}

/* ---- tenants ---- */

static const json_t *report_find_confirmed(
	const json_t *gpunodes, const char *uid, const char *container, const char **ret_node)
{
	for (size_t i = 0; i < json_array_size(gpunodes); i++) {
		const json_t *node = json_array_get(gpunodes, i);
		const json_t *all = kube_json_at(node, "status", "tenants", NULL);

		for (size_t t = 0; t < json_array_size(all); t++) {
			const json_t *one = json_array_get(all, t);

			if (strcmp(json_text_or_empty(one, "podUID"), uid) ||
				strcmp(json_text_or_empty(one, "container"), container))
				continue;
			*ret_node = report_object_name(node);
			return one;
		}
	}
	return NULL;
}

static void report_add_assigned(json_t *made, const struct assigned_container *g)
{
	struct spec spec;
	char shares[SPEC_SHARES];
	json_t *devices = json_array();
	uint64_t bytes = 0;

	spec_init(&spec);
	spec.request = g->request;
	spec.limit = g->limit;
	spec.count = g->n;
	spec.exclusive = g->mode == SPEC_MODE_EXCLUSIVE;
	for (uint32_t i = 0; i < g->n; i++) {
		json_array_append_new(devices, json_string(g->device[i]));
		bytes += g->memory_bytes[i];
	}
	json_object_set_new(made, "devices", devices);
	json_object_set_new(made, "memory_bytes", json_integer((json_int_t)bytes));
	kube_json_set_text(made, "class", spec_class_name(g->class));
	kube_json_set_text(made, "granted", spec_shares_format(&spec, shares));
}

/*
 * Adds the measured share, as a mean over the tenant's devices, and the measured memory as a sum.
 */
static void report_add_measured(json_t *made, const struct measured *m)
{
	uint64_t share = 0, bytes = 0;

	for (uint32_t i = 0; i < m->n; i++) {
		share += m->device[i].share_permille;
		bytes += m->device[i].memory_bytes;
	}
	if (!m->n)
		return;
	kube_json_set_renamed(
		made, "used_permille", "got_permille", json_integer((json_int_t)(share / m->n)));
	json_object_set_new(made, "used_bytes", json_integer((json_int_t)bytes));
}

static void add_confirmed(json_t *made, const json_t *tenant)
{
	const json_t *memory = json_object_get(tenant, "memoryBytes");
	json_int_t bytes = 0;
	char shares[SPEC_SHARES];
	struct spec spec;

	shares_of(tenant, &spec);
	for (size_t i = 0; i < json_array_size(memory); i++)
		bytes += report_list_item(tenant, "memoryBytes", (int)i);
	report_copy_member(made, "devices", tenant, "devices");
	json_object_set_new(made, "memory_bytes", json_integer(bytes));
	report_copy_member(made, "class", tenant, "class");
	kube_json_set_text(made, "granted", spec_shares_format(&spec, shares));
	report_copy_member(made, "idle_since", tenant, "idleSince");
	report_copy_member(made, "note", tenant, "note");
}

static json_t *report_pod_row(const json_t *pod, const char *container, const char *state)
{
	json_t *made = json_object();

	kube_json_set_text(
		made, "namespace", kube_json_text_at(pod, "metadata", "namespace", NULL));
	kube_json_set_text(made, "pod", report_object_name(pod));
	kube_json_set_text(made, "uid", kube_json_text_at(pod, "metadata", "uid", NULL));
	kube_json_set_text(made, "container", container);
	kube_json_set_text(made, "node", kube_json_text_at(pod, "spec", "nodeName", NULL));
	kube_json_set_text(made, "state", state);
	return made;
}

/*
 * Returns whether the container has terminated and is not restarted, such as a completed init
 * container.
 */
static bool report_has_ended(const json_t *pod, const char *container)
{
	static const char *const lists[] = {"initContainerStatuses", "containerStatuses"};

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		const json_t *status = kube_json_find(
			kube_json_at(pod, "status", lists[i], NULL), "name", container);

		if (kube_json_at(status, "state", "terminated", NULL))
			return true;
	}
	return false;
}

bool report_is_tenant(const json_t *pod)
{
	return kube_json_text_at(pod, "metadata", "labels", DIALECT_TENANT_LABEL, NULL);
}

/*
 * Returns whether the pod has a node although divvy's webhook has not labelled it: the pod runs
 * without its share.
 */
static bool is_past(const json_t *pod)
{
	return kube_json_text_at(pod, "spec", "nodeName", NULL) && !report_is_tenant(pod);
}

static void report_add_container(json_t *rows, const struct report_facts *f, const json_t *pod,
	const struct tenancy_container *asked, const struct assigned *assigned)
{
	const char *uid = kube_json_text_at(pod, "metadata", "uid", NULL), *node = NULL;
	const struct assigned_container *g = assigned_find(assigned, asked->name);
	const json_t *tenant = report_find_confirmed(
		f->gpunodes, uid ? uid : "", asked->name, &node);
	json_t *row = report_pod_row(pod, asked->name,
		kube_json_at(pod, "metadata", "deletionTimestamp", NULL) ? "Terminating"
			: tenant                                         ? "Running"
			: report_has_ended(pod, asked->name)             ? "Ended"
			: g                                              ? "Placed"
			: is_past(pod)                                   ? "No share"
									 : "Pending");
	char shares[SPEC_SHARES];

	kube_json_set_text(row, "requested", spec_shares_format(&asked->spec, shares));
	report_copy_member(row, "asked", row, "requested");
	kube_json_set_text(row, "class", spec_class_name(asked->spec.class));
	if (tenant) {
		const struct measured m = report_find_measured(f, node, uid, asked->name);

		add_confirmed(row, tenant);
		report_add_measured(row, &m);
	} else if (g && strcmp(json_text_or_empty(row, "state"), "Ended")) {
		report_add_assigned(row, g);
	}
	json_array_append_new(rows, row);
}

/* Adds the tenants that divvyd has made of the pod's ResourceClaims, one for each request. */
static void report_add_claims(json_t *rows, const struct report_facts *f, const json_t *pod)
{
	const char *uid = kube_json_text_at(pod, "metadata", "uid", NULL);

	for (size_t i = 0; uid && i < json_array_size(f->gpunodes); i++) {
		const json_t *node = json_array_get(f->gpunodes, i);
		const json_t *tenants = kube_json_at(node, "status", "tenants", NULL);

		for (size_t t = 0; t < json_array_size(tenants); t++) {
			const json_t *tenant = json_array_get(tenants, t);
			const char *request = json_text_or_empty(tenant, "container");
			struct measured m;
			json_t *row;

			if (!*json_text_or_empty(tenant, "claim") ||
				strcmp(json_text_or_empty(tenant, "podUID"), uid) != 0)
				continue;
			m = report_find_measured(f, report_object_name(node), uid, request);
			row = report_pod_row(pod, request,
				kube_json_at(pod, "metadata", "deletionTimestamp", NULL)
					? "Terminating"
					: "Running");
			report_copy_member(row, "claim", tenant, "claim");
			add_confirmed(row, tenant);
			report_copy_member(row, "requested", row, "granted");
			report_add_measured(row, &m);
			json_array_append_new(rows, row);
		}
	}
}

static void report_add_pod(
	json_t *rows, const struct report_facts *f, const json_t *pod, const json_t *dialects)
{
	const char *space = kube_json_text_at(pod, "metadata", "namespace", NULL);
	struct tenancy asked = {.n = 0};
	struct assigned assigned = {.n = 0};
	struct error err = {0};

	if (tenancy_read(pod, json_text_or_empty(dialects, space ? space : ""), &asked, &err) < 0) {
		json_t *row = report_pod_row(pod, "", "Refused");

		kube_json_set_text(row, "note", err.msg);
		json_array_append_new(rows, row);
	} else if (report_assigned(pod, &assigned) == 0) {
		for (uint32_t i = 0; i < asked.n; i++)
			report_add_container(rows, f, pod, &asked.v[i], &assigned);
		report_add_claims(rows, f, pod);
	}
	tenancy_done(&asked);
	assigned_done(&assigned);
}

json_t *report_tenants(const struct report_facts *f, const json_t *pods, const json_t *dialects)
{
	json_t *rows = json_array();

	for (size_t i = 0; i < json_array_size(pods); i++)
		if (!kube_json_is_over(json_array_get(pods, i)))
			report_add_pod(rows, f, json_array_get(pods, i), dialects);
	return rows;
}

/* ---- idle tenants ---- */

static bool is_long_idle(const json_t *tenant, uint64_t idle_ns, uint64_t real_ns)
{
	uint64_t since_ns;

	return kube_time_parse(str_from(json_text_or_empty(tenant, "idle_since")), &since_ns) ==
		0 &&
		real_ns >= since_ns && real_ns - since_ns >= idle_ns;
}

json_t *report_idle(const struct report_facts *f, uint64_t idle_ns, uint64_t real_ns)
{
	_cleanup_json_ json_t *devices = report_devices(f);
	json_t *made = json_array();

	for (size_t i = 0; i < json_array_size(devices); i++) {
		const json_t *device = json_array_get(devices, i);
		const json_t *tenants = json_object_get(device, "tenants");

		/*
		 * A device that another device plugin owns may be in use although divvy knows no
		 * tenant.
		 */
		if (!json_array_size(tenants) &&
			strcmp(json_text_or_empty(device, "owner"), "native"))
			json_array_append_new(made,
				json_pack("{s:O, s:O, s:O, s:s}", "node",
					json_object_get(device, "node"), "uuid",
					json_object_get(device, "uuid"), "model",
					json_object_get(device, "model"), "why",
					json_bool_or_false(device, "cordoned")
						? "no tenant: cordoned"
						: strcmp(json_text_or_empty(device, "health"),
							  "Healthy")
						? "no tenant: unhealthy"
						: "no tenant"));
		for (size_t t = 0; t < json_array_size(tenants); t++) {
			json_t *tenant = json_array_get(tenants, t), *row;

			if (!is_long_idle(tenant, idle_ns, real_ns))
				continue;
			row = json_deep_copy(tenant);
			report_copy_member(row, "node", device, "node");
			report_copy_member(row, "uuid", device, "uuid");
			report_copy_member(row, "model", device, "model");
			kube_json_set_text(row, "why", "reserved but unused");
			json_array_append_new(made, row);
		}
	}
	return made;
}

/* ---- accounts ---- */

static json_t *account_of(json_t *sums, const char *space)
{
	json_t *sum = json_object_get(sums, space);

	if (sum)
		return sum;
	sum = json_pack("{s:s, s:f, s:f, s:f}", "namespace", space, "requested_gpu_seconds", 0.0,
		"granted_gpu_seconds", 0.0, "used_gpu_seconds", 0.0);
	json_object_set_new(sums, space, sum);
	return sum;
}

static void add_to(json_t *sum, const char *key, uint64_t ms)
{
	json_object_set_new(sum, key, json_real(json_real_or_zero(sum, key) + (double)ms / 1000));
}

static int compare_texts(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

json_t *report_usage(const json_t *gpunodes, const char *since_day)
{
	_cleanup_json_ json_t *sums = json_object();
	_cleanup_free_ const char **names = NULL;
	json_t *made = json_array(), *sum;
	const char *name;
	size_t n = 0;

	for (size_t i = 0; i < json_array_size(gpunodes); i++) {
		const json_t *rows = kube_json_at(
			json_array_get(gpunodes, i), "status", "accounts", NULL);

		for (size_t k = 0; k < json_array_size(rows); k++) {
			const json_t *row = json_array_get(rows, k);

			if (strcmp(json_text_or_empty(row, "day"), since_day) < 0)
				continue;
			sum = account_of(sums, json_text_or_empty(row, "namespace"));
			add_to(sum, "requested_gpu_seconds",
				json_uint_renamed(
					row, "requestedMilliseconds", "askedMilliseconds"));
			report_copy_member(sum, "asked_gpu_seconds", sum, "requested_gpu_seconds");
			add_to(sum, "granted_gpu_seconds",
				json_uint_or_zero(row, "grantedMilliseconds"));
			add_to(sum, "used_gpu_seconds", json_uint_or_zero(row, "usedMilliseconds"));
		}
	}
	names = calloc(json_object_size(sums) + 1, sizeof(*names));
	json_object_foreach(sums, name, sum)
		if (names)
			names[n++] = name;
	if (names)
		qsort(names, n, sizeof(*names), compare_texts);
	for (size_t i = 0; i < n; i++)
		json_array_append(made, json_object_get(sums, names[i]));
	return made;
}
