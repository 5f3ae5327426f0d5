/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables say which members of an object stay. A list in the object stands for each of its items. A
 * member that another file of the controller begins to read must enter the table of its kind. The
 * copies get new hash tables, because jansson never shrinks those of an object that loses members.
 * Pure; any thread.
 */
#include "controller/prune.h"

#include <string.h>

#include "base/cleanup.h"
#include "controller/share-pod.h"
#include "spec/dialect.h"

/* A member that stays: whole, or with some members only. An empty entry ends a table. */
struct keep {
	const char *key;
	const struct keep *in; /* NULL: the whole member */
	bool is_prefix;        /* all members whose keys begin with `key` stay */
};

#define WHOLE(text) \
	{ \
		.key = (text) \
	}
#define PART(text, table) \
	{ \
		.key = (text), .in = (table) \
	}
#define PREFIX(text) \
	{ \
		.key = (text), .is_prefix = true \
	}
#define END \
	{ \
		.key = NULL \
	}

/* ---- shared by several kinds ---- */

static const struct keep ours[] = {PREFIX("divvy.gpu/"), END};

static const struct keep condition[] = {
	WHOLE("type"), WHOLE("status"), WHOLE("reason"), WHOLE("message"), END};

/* ---- nodes ---- */

static const struct keep node_labels[] = {PREFIX("divvy.gpu/"), PREFIX("nvidia.com/"), END};
static const struct keep node_annotations[] = {
	PREFIX("divvy.gpu/"), WHOLE("nfd.node.kubernetes.io/feature-labels"), END};
static const struct keep node_metadata[] = {WHOLE("name"), WHOLE("uid"), WHOLE("resourceVersion"),
	PART("labels", node_labels), PART("annotations", node_annotations), END};
static const struct keep node_spec[] = {WHOLE("taints"), END};
static const struct keep node_status[] = {PART("capacity", ours), PART("allocatable", ours), END};
static const struct keep node[] = {
	PART("metadata", node_metadata), PART("spec", node_spec), PART("status", node_status), END};

static const struct keep gpu_node_metadata[] = {WHOLE("name"), WHOLE("uid"), END};
static const struct keep gpu_node_device[] = {WHOLE("uuid"), WHOLE("index"), WHOLE("model"),
	WHOLE("memoryBytes"), WHOLE("simulated"), WHOLE("health"), WHOLE("reason"), WHOLE("owner"),
	WHOLE("placeholder"), END};
static const struct keep gpu_node_tenant[] = {WHOLE("podUID"), WHOLE("namespace"), WHOLE("pod"),
	WHOLE("container"), WHOLE("devices"), WHOLE("request"), WHOLE("limit"),
	WHOLE("memoryBytes"), WHOLE("class"), WHOLE("priority"), WHOLE("mode"), WHOLE("note"), END};
static const struct keep gpu_node_status[] = {WHOLE("owner"), WHOLE("deviceCount"),
	PART("devices", gpu_node_device), PART("tenants", gpu_node_tenant), WHOLE("versions"),
	PART("conditions", condition), END};
static const struct keep gpu_node[] = {
	PART("metadata", gpu_node_metadata), WHOLE("spec"), PART("status", gpu_node_status), END};

static const struct keep lease_metadata[] = {WHOLE("name"), PART("annotations", ours), END};
static const struct keep lease_spec[] = {WHOLE("leaseDurationSeconds"), WHOLE("renewTime"), END};
static const struct keep lease[] = {
	PART("metadata", lease_metadata), PART("spec", lease_spec), END};

/* ---- pods ---- */

static const struct keep pod_resources[] = {PART("limits", ours), PART("requests", ours), END};
static const struct keep pod_container[] = {
	WHOLE("restartPolicy"), PART("resources", pod_resources), END};

/* A KubeShare SharePod's status has the metadata and status of the pod. */
static const struct keep share_pod_spec[] = {WHOLE("nodeName"), WHOLE("restartPolicy"),
	PART("initContainers", pod_container), PART("containers", pod_container), END};
static const struct keep share_pod[] = {
	WHOLE("metadata"), PART("spec", share_pod_spec), WHOLE("status"), END};

static const struct keep tenant_metadata[] = {WHOLE("name"), WHOLE("namespace"), WHOLE("uid"),
	WHOLE("creationTimestamp"), WHOLE("deletionTimestamp"), WHOLE("labels"),
	PART("annotations", ours), END};
static const struct keep tenant_spec[] = {WHOLE("nodeName"), PART("initContainers", pod_container),
	PART("containers", pod_container), END};
static const struct keep phase[] = {WHOLE("phase"), END};
static const struct keep tenant[] = {
	PART("metadata", tenant_metadata), PART("spec", tenant_spec), PART("status", phase), END};

static const struct keep waiting_reason[] = {WHOLE("reason"), WHOLE("message"), END};
static const struct keep waiting_state[] = {PART("waiting", waiting_reason), END};
static const struct keep waiting_container[] = {PART("state", waiting_state), END};
static const struct keep waiting_status[] = {WHOLE("phase"), PART("conditions", condition),
	PART("initContainerStatuses", waiting_container),
	PART("containerStatuses", waiting_container), END};
static const struct keep waiting[] = {PART("metadata", tenant_metadata), PART("spec", tenant_spec),
	PART("status", waiting_status), END};

static const struct keep own_container[] = {WHOLE("name"), WHOLE("image"), END};
static const struct keep own_spec[] = {WHOLE("nodeName"), PART("containers", own_container), END};
static const struct keep own[] = {
	WHOLE("metadata"), PART("spec", own_spec), PART("status", phase), END};

static const struct keep *const kinds[PRUNE_KINDS] = {
	[PRUNE_NODE] = node,
	[PRUNE_GPU_NODE] = gpu_node,
	[PRUNE_LEASE] = lease,
	[PRUNE_SHARE_POD] = share_pod,
	[PRUNE_WAITING] = waiting,
	[PRUNE_TENANT] = tenant,
	[PRUNE_OWN] = own,
};

/* ---- copies ---- */

static json_t *prune_copy(json_t *value, const struct keep *table);

static int prune_copy_prefixed(json_t *to, json_t *from, const char *prefix)
{
	const char *key;
	json_t *value;
	int r = 0;

	json_object_foreach(from, key, value)
		if (!strncmp(key, prefix, strlen(prefix)))
			r |= json_object_set(to, key, value);
	return r;
}

static json_t *prune_copy_members(json_t *from, const struct keep *table)
{
	_cleanup_json_ json_t *to = json_object();
	int r = to ? 0 : -1;

	for (; r == 0 && table->key; table++) {
		json_t *value = json_object_get(from, table->key);

		if (table->is_prefix)
			r = prune_copy_prefixed(to, from, table->key);
		else if (value)
			r = json_object_set_new(to, table->key, prune_copy(value, table->in));
	}
	return r == 0 ? TAKE_PTR(to) : NULL;
}

static json_t *prune_copy_items(json_t *from, const struct keep *table)
{
	_cleanup_json_ json_t *to = json_array();
	int r = to ? 0 : -1;

	for (size_t i = 0; r == 0 && i < json_array_size(from); i++)
		r = json_array_append_new(to, prune_copy(json_array_get(from, i), table));
	return r == 0 ? TAKE_PTR(to) : NULL;
}

/* The tables end the recursion. Values of another form than that of the table stay whole. */
static json_t *prune_copy(json_t *value, const struct keep *table)
{
	if (table && json_is_object(value))
		return prune_copy_members(value, table);
	if (table && json_is_array(value))
		return prune_copy_items(value, table);
	return json_incref(value);
}

json_t *prune_object(json_t *object, enum prune_kind kind)
{
	return kind == PRUNE_WHOLE ? NULL : prune_copy(object, kinds[kind]);
}

enum prune_kind prune_kind_of_pod(const json_t *pod, const char *ns)
{
	const char *its = kube_json_text_at(pod, "metadata", "namespace", NULL);

	if (share_pod_is_owner(kube_json_controller(pod)))
		return PRUNE_SHARE_POD;
	if (kube_json_text_at(pod, "metadata", "labels", DIALECT_TENANT_LABEL, NULL))
		return !strcmp(kube_json_text(json_object_get(pod, "status"), "phase"), "Pending")
			? PRUNE_WAITING
			: PRUNE_TENANT;
	return its && !strcmp(its, ns) ? PRUNE_OWN : PRUNE_WHOLE;
}
