/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joins a pod with its ResourceClaims, the slices, the GPUNodes and Events. The kubelet says in an
 * Event why a driver has not prepared a claim. divvyd lists a tenant for each request of a claim of
 * its driver in the GPUNode. Any thread.
 */
#include "kubectl/claim-report.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "cmdline/json-member.h"
#include "kube/kube-json.h"
#include "manifest/claim-config.h"

#define NOT_PREPARED "FailedPrepareDynamicResources" /* the kubelet's reason of Events */
#define USERS_TEXT_MAX 300u

static const char *claim_name(const json_t *object)
{
	return json_text_or_empty(json_object_get(object, "metadata"), "name");
}

bool claim_report_has_claims(const json_t *pod)
{
	return json_array_size(kube_json_at(pod, "spec", "resourceClaims", NULL)) > 0;
}

/* The name of the ResourceClaim of the pod's entry; NULL: Kubernetes has not made it yet. */
static const char *entry_claim(const json_t *pod, const json_t *entry)
{
	const json_t *made = kube_json_find(
		kube_json_at(pod, "status", "resourceClaimStatuses", NULL), "name",
		json_text_or_empty(entry, "name"));
	const char *name = json_string_value(json_object_get(entry, "resourceClaimName"));

	return name ? name : json_string_value(json_object_get(made, "resourceClaimName"));
}

bool claim_report_is_user(const json_t *pod, const char *claim)
{
	const json_t *entries = kube_json_at(pod, "spec", "resourceClaims", NULL);

	for (size_t i = 0; i < json_array_size(entries); i++) {
		const char *name = entry_claim(pod, json_array_get(entries, i));

		if (name && !strcmp(name, claim))
			return true;
	}
	return false;
}

static const json_t *claim_find(const struct claim_facts *f, const char *name)
{
	for (size_t i = 0; i < json_array_size(f->claims); i++)
		if (!strcmp(claim_name(json_array_get(f->claims, i)), name))
			return json_array_get(f->claims, i);
	return NULL;
}

/* ---- devices ---- */

/* The node of the pool; "": several nodes, or not known. */
static const char *pool_node(const struct claim_facts *f, const char *driver, const char *pool)
{
	for (size_t i = 0; i < json_array_size(f->slices); i++) {
		const json_t *spec = json_object_get(json_array_get(f->slices, i), "spec");

		if (!strcmp(json_text_or_empty(spec, "driver"), driver) &&
			!strcmp(json_text_or_empty(json_object_get(spec, "pool"), "name"), pool))
			return json_text_or_empty(spec, "nodeName");
	}
	return "";
}

static json_t *claim_devices(const struct claim_facts *f, const json_t *claim)
{
	const json_t *results = kube_json_at(
		claim, "status", "allocation", "devices", "results", NULL);
	json_t *made = json_array();

	for (size_t i = 0; i < json_array_size(results); i++) {
		const json_t *result = json_array_get(results, i);
		const char *driver = json_text_or_empty(result, "driver");
		json_t *one = json_pack("{s:s, s:s, s:s}", "device",
			json_text_or_empty(result, "device"), "driver", driver, "node",
			pool_node(f, driver, json_text_or_empty(result, "pool")));

		if (json_object_get(result, "consumedCapacity"))
			json_object_set(
				one, "consumed", json_object_get(result, "consumedCapacity"));
		json_array_append_new(made, one);
	}
	return made;
}

/* ---- claims of pods with a node ---- */

static bool node_has_driver(const struct claim_facts *f, const char *node, const char *driver)
{
	for (size_t i = 0; i < json_array_size(f->slices); i++) {
		const json_t *spec = json_object_get(json_array_get(f->slices, i), "spec");

		if (!strcmp(json_text_or_empty(spec, "driver"), driver) &&
			(!*json_text_or_empty(spec, "nodeName") ||
				!strcmp(json_text_or_empty(spec, "nodeName"), node)))
			return true;
	}
	return !f->slices;
}

/* Whether divvyd has made a tenant of the claim. */
static bool claim_has_tenant(const struct claim_facts *f, const char *ns, const char *claim)
{
	for (size_t i = 0; i < json_array_size(f->gpunodes); i++) {
		const json_t *tenants = kube_json_at(
			json_array_get(f->gpunodes, i), "status", "tenants", NULL);

		for (size_t k = 0; k < json_array_size(tenants); k++) {
			const json_t *one = json_array_get(tenants, k);

			if (!strcmp(json_text_or_empty(one, "claim"), claim) &&
				!strcmp(json_text_or_empty(one, "namespace"), ns))
				return true;
		}
	}
	return false;
}

/* The kubelet's last message about a claim that a driver has not prepared; "": none. */
static const char *claim_prepare_fault(const struct claim_facts *f, const json_t *pod)
{
	const char *uid = kube_json_text_at(pod, "metadata", "uid", NULL), *message = "",
		   *last = "";

	for (size_t i = 0; i < json_array_size(f->events); i++) {
		const json_t *event = json_array_get(f->events, i);
		const char *time = json_text_or_empty(event, "lastTimestamp");

		if (strcmp(json_text_or_empty(event, "reason"), NOT_PREPARED) != 0 || !uid ||
			strcmp(json_text_or_empty(json_object_get(event, "involvedObject"), "uid"),
				uid) != 0 ||
			strcmp(time, last) < 0)
			continue;
		last = time;
		message = json_text_or_empty(event, "message");
	}
	return message;
}

/* Fills state and sentence of a claim with devices, whose pod has a node. */
static void claim_explain_start(
	const struct claim_facts *f, const json_t *pod, const json_t *claim, json_t *row)
{
	const char *node = kube_json_text_at(pod, "spec", "nodeName", NULL);
	const char *ns = kube_json_text_at(claim, "metadata", "namespace", NULL);
	const json_t *devices = json_object_get(row, "devices");
	const char *fault = claim_prepare_fault(f, pod);

	if (claim_has_tenant(f, ns ? ns : "", claim_name(claim))) {
		json_object_set_new(row, "state", json_string("Running"));
		return;
	}
	for (size_t i = 0; i < json_array_size(devices); i++) {
		const char *driver = json_text_or_empty(json_array_get(devices, i), "driver");

		if (!node_has_driver(f, node, driver)) {
			json_object_set_new(row, "sentence",
				json_sprintf("node %s has no ResourceSlice of driver %s: the "
					     "driver does not run there, or has not registered "
					     "with the kubelet",
					node, driver));
			return;
		}
	}
	if (*fault)
		json_object_set_new(row, "sentence",
			json_sprintf("node %s has not prepared the claim: %.400s", node, fault));
	else if (f->gpunodes && json_array_size(devices) &&
		!strcmp(json_text_or_empty(json_array_get(devices, 0), "driver"), CLAIM_DRIVER))
		json_object_set_new(row, "sentence",
			json_sprintf("divvyd of node %s has not prepared the claim yet", node));
}

/* Writes the pods that use the claim, such as "pods a and b". */
static void claim_add_users(const json_t *claim, struct buf *text)
{
	const json_t *users = kube_json_at(claim, "status", "reservedFor", NULL);
	const size_t n = json_array_size(users);

	for (size_t i = 0; i < n; i++)
		buf_addf(text, "%s%s",
			!i                   ? n > 1 ? "pods " : "pod "
				: i + 1 == n ? " and "
					     : ", ",
			json_text_or_empty(json_array_get(users, i), "name"));
}

json_t *claim_report_one(const struct claim_facts *f, const json_t *pod, const json_t *claim)
{
	_cleanup_buf_ struct buf users = BUF_INIT(USERS_TEXT_MAX);
	json_t *row = json_pack(
		"{s:s, s:o}", "claim", claim_name(claim), "devices", claim_devices(f, claim));

	claim_add_users(claim, &users);
	if (kube_json_at(claim, "metadata", "deletionTimestamp", NULL)) {
		json_object_set_new(row, "state", json_string("Deleting"));
		json_object_set_new(row, "sentence",
			json_sprintf("the claim is being deleted%s%s",
				users.n ? ", and ends with " : "", buf_text(&users)));
	} else if (!kube_json_at(claim, "status", "allocation", NULL)) {
		json_object_set_new(row, "state", json_string("Pending"));
		if (!pod)
			json_object_set_new(row, "sentence",
				json_string("no pod uses the claim; a scheduler chooses its "
					    "devices together with the node of a pod"));
	} else {
		json_object_set_new(row, "state", json_string("Allocated"));
		if (pod && kube_json_text_at(pod, "spec", "nodeName", NULL))
			claim_explain_start(f, pod, claim, row);
		else if (users.n)
			json_object_set_new(row, "sentence",
				json_sprintf("%s use%s the claim", buf_text(&users),
					json_array_size(kube_json_at(
						claim, "status", "reservedFor", NULL)) == 1
						? "s"
						: ""));
	}
	return row;
}

json_t *claim_report(const struct claim_facts *f, const json_t *pod)
{
	const json_t *entries = kube_json_at(pod, "spec", "resourceClaims", NULL);
	json_t *rows = json_array();

	for (size_t i = 0; i < json_array_size(entries); i++) {
		const json_t *entry = json_array_get(entries, i);
		const char *name = entry_claim(pod, entry);
		const json_t *claim = name ? claim_find(f, name) : NULL;
		json_t *row = claim ? claim_report_one(f, pod, claim)
				    : json_pack("{s:s, s:s, s:[]}", "claim", name ? name : "",
					      "state", "Missing", "devices");

		json_object_set(row, "entry", json_object_get(entry, "name"));
		if (!claim && f->claims && name)
			json_object_set_new(row, "sentence",
				json_sprintf("ResourceClaim %s does not exist", name));
		else if (!claim && f->claims)
			json_object_set_new(row, "sentence",
				json_sprintf("Kubernetes has not made the claim from "
					     "ResourceClaimTemplate %s yet",
					json_text_or_empty(entry, "resourceClaimTemplateName")));
		json_array_append_new(rows, row);
	}
	return rows;
}
