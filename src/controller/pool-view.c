/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file collects the facts of one decision. A hash table has one seen_node for each node name,
 * with the capacity that pods use on each device. pool_view_facts() then finds the device behind
 * each placeholder, which divvyd reports in GPUNode.status. Only the first DEVICES_MAX devices of a
 * node count. If memory runs out, is_short is set. A tenant could then be missing among the facts,
 * so no placeholder gets may_go.
 */
#include "controller/pool-view.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/parse.h"
#include "controller/controller-placeholder.h"
#include "kube/time.h"
#include "manifest/cordon.h"
#include "manifest/manifest-json.h"
#include "manifest/pod-condition.h"
#include "spec/assigned.h"

/* name of the controller's container in deploy/base/controller.yaml */
#define OWN_CONTAINER "controller"
#define OWNER_LABEL "divvy.gpu/owner"
#define MILLI "divvy.gpu/milli"
#define COUNT "divvy.gpu/count"
#define SILENT_NS (120 * NSEC_PER_SEC)
#define DEVICES_MAX 64u /* most devices of a node that are considered; `used` has a bit for each */

/* A node with a GPUNode or with tenants. */
struct seen_node {
	const char *name;
	const json_t *devices;  /* the list in GPUNode.status */
	const json_t *gpu_node; /* may be NULL */
	bool is_pool;           /* GPUNode.status confirms that the node is in the pool */
	bool is_silent;         /* divvyd has not renewed its Lease for SILENT_NS */
	bool has_tenants;       /* some pod with assigned devices on this node has not ended yet */
	/* bit i: device i of `devices` is assigned to a pod that has or will have this node */
	uint64_t used;
	/* milli[i]: sum of the shares of device i that those pods use */
	uint64_t milli[DEVICES_MAX];
	UT_hash_handle hh;
};

struct pool_view {
	const char *ns;
	uint64_t real_ns;
	bool is_short; /* memory ran out, so facts are missing */
	struct seen_node *nodes;
	struct pool_node node[POOL_NODES_MAX];
	struct pool_placeholder placeholder[POOL_PLACEHOLDERS_MAX];
	struct pool_source source[POOL_SOURCES_MAX];
	struct pool_facts facts;
};

static bool pool_view_is_text(const char *text, const char *want)
{
	return text && !strcmp(text, want);
}

int pool_view_new(const char *ns, uint64_t real_ns, struct pool_view **ret_view)
{
	struct pool_view *v = calloc(1, sizeof(*v));

	if (!v)
		return -ENOMEM;
	v->ns = ns;
	v->real_ns = real_ns;
	v->facts = (struct pool_facts){
		.node = v->node, .placeholder = v->placeholder, .source = v->source};
	*ret_view = v;
	return 0;
}

void pool_view_free(struct pool_view *v)
{
	struct seen_node *n, *next;

	if (!v)
		return;
	HASH_ITER(hh, v->nodes, n, next) {
		HASH_DEL(v->nodes, n);
		free(n);
	}
	free(v);
}

/* ---- nodes ---- */

static bool is_pool_node(const json_t *labels, const json_t *gpu_node)
{
	return pool_view_is_text(kube_json_text_at(labels, OWNER_LABEL, NULL), "pool") &&
		kube_json_at(gpu_node, "spec", "pool", NULL);
}

bool pool_view_has(const json_t *labels, const json_t *gpu_node)
{
	return is_pool_node(labels, gpu_node) ||
		pool_view_is_text(kube_json_text_at(gpu_node, "status", "owner", NULL), "pool");
}

static struct seen_node *pool_view_see_node(
	struct pool_view *v, const char *name, const json_t *gpu_node)
{
	struct seen_node *n = calloc(1, sizeof(*n));

	if (!n) {
		v->is_short = true;
		return NULL;
	}
	*n = (struct seen_node){.name = name,
		.gpu_node = gpu_node,
		.is_silent = true,
		.devices = kube_json_at(gpu_node, "status", "devices", NULL),
		.is_pool = pool_view_is_text(
			kube_json_text_at(gpu_node, "status", "owner", NULL), "pool")};
	HASH_ADD_KEYPTR(hh, v->nodes, n->name, strlen(n->name), n);
	return n;
}

/*
 * Returns whether divvyd is silent. SILENT_NS is far above the Lease's duration, because the clocks
 * of two machines can differ.
 */
static bool pool_view_is_silent(const struct pool_view *v, const json_t *lease)
{
	const char *renewed = kube_json_text_at(lease, "spec", "renewTime", NULL);
	uint64_t at_ns;

	return !renewed || kube_time_parse(str_from(renewed), &at_ns) < 0 ||
		clock_since_ns(v->real_ns, at_ns) > SILENT_NS;
}

/*
 * Returns how many idle devices the pool keeps (spec.pool.reserve), at most the node's number of
 * devices. Further placeholders would stay Pending, or make an autoscaler add nodes.
 */
static uint32_t reserve_of(const json_t *gpu_node)
{
	const json_int_t wanted = json_integer_value(
				 kube_json_at(gpu_node, "spec", "pool", "reserve", NULL)),
			 has = json_integer_value(
				 kube_json_at(gpu_node, "status", "deviceCount", NULL));

	if (wanted <= 0)
		return 0;
	return (uint32_t)(has > 0 ? MIN(wanted, has) : wanted);
}

int pool_view_add_node(struct pool_view *v, const char *name, const json_t *labels,
	const json_t *gpu_node, const json_t *lease, struct error *err)
{
	const json_t *pool = kube_json_at(gpu_node, "spec", "pool", NULL);
	const char *policy = kube_json_text_at(pool, "policy", NULL);
	struct pool_node node = {.name = name, .reserve = reserve_of(gpu_node)};
	struct seen_node *n = pool_view_see_node(v, name, gpu_node);
	int r;

	if (!n)
		return fail(err, ENOMEM, "out of memory");
	n->is_silent = pool_view_is_silent(v, lease);
	if (!is_pool_node(labels, gpu_node) || v->facts.n_nodes == POOL_NODES_MAX)
		return 0;
	r = pool_policy_parse(str_from(policy ? policy : ""), &node.policy, err);
	if (r < 0)
		return fail_within(err, r, "GPUNode %.253s", name);
	v->node[v->facts.n_nodes++] = node;
	return 0;
}

/* ---- pods ---- */

static bool is_leaving(const json_t *pod)
{
	return kube_json_text_at(pod, "metadata", "deletionTimestamp", NULL);
}

static struct seen_node *pool_view_node(const struct pool_view *v, const char *name)
{
	struct seen_node *n = NULL;

	if (name)
		HASH_FIND_STR(v->nodes, name, n);
	return n;
}

/* The node whose device the placeholder is to take; NULL: any. */
static const char *placeholder_node(const json_t *pod)
{
	const char *node = kube_json_text_at(
		pod, "metadata", "annotations", PLACEHOLDER_NODE, NULL);

	return node ? node : kube_json_text_at(pod, "metadata", "labels", PLACEHOLDER_NODE, NULL);
}

static enum pool_pod add_placeholder(struct pool_view *v, const json_t *pod)
{
	const char *node = kube_json_text_at(pod, "spec", "nodeName", NULL),
		   *meant = placeholder_node(pod),
		   *made = kube_json_text_at(pod, "metadata", "creationTimestamp", NULL);
	uint64_t made_ns = 0;

	if ((kube_json_is_over(pod) && is_leaving(pod)) ||
		v->facts.n_placeholders == POOL_PLACEHOLDERS_MAX)
		return POOL_POD_STAYS;
	if (made)
		kube_time_parse(str_from(made), &made_ns);
	v->placeholder[v->facts.n_placeholders++] = (struct pool_placeholder){
		.name = kube_json_text_at(pod, "metadata", "name", NULL),
		.node = node    ? node
			: meant ? meant
				: "",
		.age_ns = v->real_ns > made_ns ? v->real_ns - made_ns : 0,
		.is_bound = node,
		.is_leaving = is_leaving(pod),
		.has_ended = kube_json_is_over(pod),
		.is_released = kube_json_text_at(
			pod, "metadata", "annotations", PLACEHOLDER_RELEASED, NULL)};
	return POOL_POD_STAYS;
}

/* Returns whether the other device plugin has taken the device back. */
static bool pool_view_is_device_lost(const struct seen_node *n, const json_t *device)
{
	return n->is_pool &&
		pool_view_is_text(kube_json_text_at(device, "owner", NULL), "native") &&
		!kube_json_text_at(device, "placeholder", NULL);
}

static uint64_t pool_view_pod_milli(const json_t *pod)
{
	return manifest_json_amount(pod, "requests", MILLI);
}

/* Returns whether the text "main=UUID,UUID side=UUID" has that UUID. */
static bool is_assigned(struct str devices, const char *uuid)
{
	struct str word, name, one;

	while (str_word(&devices, &word)) {
		str_split(&word, '=', &name);
		while (str_split(&word, ',', &one))
			if (str_is(one, uuid))
				return true;
	}
	return false;
}

static enum pool_pod pool_view_add_tenant(struct pool_view *v, const char *node, const json_t *pod)
{
	const char *given = kube_json_text_at(
		pod, "metadata", "annotations", ASSIGNED_DEVICES_KEY, NULL);
	struct seen_node *n = pool_view_node(v, node);
	bool is_lost = false;
	uint64_t got = 0;

	if (!given || kube_json_is_over(pod))
		return POOL_POD_STAYS;
	n = n ? n : pool_view_see_node(v, node, NULL);
	if (!n)
		return POOL_POD_STAYS;
	n->has_tenants = true;
	for (size_t i = 0; i < json_array_size(n->devices) && i < DEVICES_MAX; i++) {
		const json_t *d = json_array_get(n->devices, i);
		const char *uuid = kube_json_text_at(d, "uuid", NULL);

		if (!uuid || !is_assigned(str_from(given), uuid))
			continue;
		got |= 1ull << i;
		is_lost |= pool_view_is_device_lost(n, d);
	}
	n->used |= got;
	for (size_t i = 0; got >> i && i < DEVICES_MAX; i++)
		if (got >> i & 1)
			n->milli[i] += pool_view_pod_milli(pod) /
				(unsigned int)__builtin_popcountll(got);
	return is_lost && !is_leaving(pod) ? POOL_POD_LOST : POOL_POD_STAYS;
}

const char *pool_view_image(const json_t *pod)
{
	const json_t *containers = kube_json_at(pod, "spec", "containers", NULL),
		     *own = kube_json_find(containers, "name", OWN_CONTAINER);

	/* The first container may be one that another webhook added. */
	return kube_json_text_at(own ? own : json_array_get(containers, 0), "image", NULL);
}

/*
 * Returns the share of devices that the pod needs if it gets them alone. A request for several
 * devices counts as whole devices. So does a share above half a device, because no two such shares
 * fit on one device.
 */
static uint64_t whole_milli_of(const json_t *pod)
{
	const char *text = kube_json_text_at(pod, "metadata", "annotations", COUNT, NULL);
	const uint64_t milli = pool_view_pod_milli(pod);
	uint64_t count = 1;

	if (text && parse_uint(str_from(text), 1, DEVICES_MAX, &count, NULL) < 0)
		count = 1;
	if (count > 1 || milli > DEVICE_MILLI / 2)
		return MAX(milli, count * DEVICE_MILLI);
	return milli;
}

/*
 * Returns whether the scheduler found that the pod waits for a device. A further device does not
 * help against a policy, a queue's quota or a volume.
 */
static bool is_short_of_devices(const json_t *pod)
{
	const json_t *scheduled = kube_json_condition(pod, "PodScheduled"),
		     *needs = kube_json_condition(pod, POD_CONDITION_NEEDS_DEVICE);

	return pool_view_is_text(kube_json_text_at(scheduled, "reason", NULL), "Unschedulable") &&
		pool_view_is_text(kube_json_text_at(needs, "status", NULL), "True");
}

bool pool_view_waits(const json_t *pod)
{
	return !kube_json_text_at(pod, "spec", "nodeName", NULL) && pool_view_pod_milli(pod) > 0 &&
		!kube_json_is_over(pod) && !is_leaving(pod) && is_short_of_devices(pod);
}

static void add_waiting(struct pool_view *v, const json_t *pod)
{
	const uint64_t milli = whole_milli_of(pod);

	if (v->facts.n_nodes && v->facts.n_sources < POOL_SOURCES_MAX && pool_view_waits(pod))
		v->source[v->facts.n_sources++] = (struct pool_source){
			kube_json_text_at(pod, "metadata", "uid", NULL), milli};
}

enum pool_pod pool_view_add_pod(struct pool_view *v, const json_t *pod)
{
	const char *node = kube_json_text_at(pod, "spec", "nodeName", NULL);

	if (placeholder_is_one(pod, v->ns))
		return add_placeholder(v, pod);
	if (node)
		return pool_view_add_tenant(v, node, pod);
	add_waiting(v, pod);
	return POOL_POD_STAYS;
}

/* ---- the facts ---- */

/* Finds the placeholder's device in GPUNode.status and adds its state. */
static void look_behind(const struct pool_view *v, struct pool_placeholder *p)
{
	const struct seen_node *n = p->is_bound ? pool_view_node(v, p->node) : NULL;
	const bool has_tenants = v->is_short || (n && n->has_tenants);

	if (p->has_ended)
		return;
	for (size_t i = 0; n && i < json_array_size(n->devices) && i < DEVICES_MAX; i++) {
		const json_t *d = json_array_get(n->devices, i);
		const char *uuid = kube_json_text_at(d, "uuid", NULL);

		if (!uuid || !pool_view_is_text(kube_json_text_at(d, "placeholder", NULL), p->name))
			continue;
		p->is_used = n->used & 1ull << i;
		p->free_milli = DEVICE_MILLI - (uint32_t)MIN(n->milli[i], DEVICE_MILLI);
		p->is_useless = cordon_has(n->gpu_node, uuid) ||
			!pool_view_is_text(kube_json_text_at(d, "health", NULL), "Healthy");
		p->may_go = n->is_silent && !p->is_used && !v->is_short;
		return;
	}
	/*
	 * GPUNode.status does not name the placeholder's device, so each tenant of the node may use
	 * that device.
	 */
	p->is_unknown = p->is_bound && has_tenants;
	p->may_go = p->is_bound && !has_tenants;
}

const struct pool_facts *pool_view_facts(struct pool_view *v, uint64_t now_ns)
{
	for (size_t i = 0; i < v->facts.n_placeholders; i++)
		look_behind(v, &v->placeholder[i]);
	v->facts.now_ns = now_ns;
	return &v->facts;
}
