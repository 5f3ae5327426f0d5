/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network devices over which the node reaches other nodes: GPUNode.status.network. The free
 * bandwidth is the part that the assigned keys granted neither to pods of this node nor to pods
 * with this node's devices. The number is for people only: the scheduler, which assigns bandwidth,
 * counts by itself.
 */
#include <string.h>

#include "base/cleanup.h"
#include "kube/kube-json.h"
#include "node/node-internal.h"
#include "node/node-peers.h"
#include "node/node-serve.h"

#define NETWORK_LOOK_NS (30 * NSEC_PER_SEC)

void node_network_look(struct node *node, uint64_t now)
{
	struct network_set found;

	if (now < node->next_network_ns)
		return;
	node->next_network_ns = now + NETWORK_LOOK_NS;
	memset(&found, 0, sizeof(found));
	network_find(node->options.sys_dir, &found);
	if (!memcmp(&found, &node->networks, sizeof(found)))
		return;
	node->networks = found;
	node_status_touch(node);
}

static const char *node_network_port(const struct network_device *n)
{
	return n->link[0] ? n->link : n->name;
}

static const struct network_device *node_network_find(const struct node *node, const char *name)
{
	for (uint32_t i = 0; i < node->networks.n; i++)
		if (!strcmp(node->networks.v[i].name, name))
			return &node->networks.v[i];
	return NULL;
}

/*
 * Role of this node for a pod: the pod's own node, or the node of its devices. Index of
 * assigned_container.network.
 */
enum network_end { END_OF_POD, END_OF_DEVICES };

/*
 * Sums the bandwidth of this device's port that the assigned keys grant to the pod's containers.
 * end: whether this node is the pod's own node or the node of its devices.
 */
static uint64_t granted_to(const struct node *node, const json_t *pod, enum network_end end,
	const struct network_device *device)
{
	_cleanup_assigned_ struct assigned assigned = {0};
	uint64_t mbit = 0;

	if (kube_json_is_over(pod) || node_assigned_all(pod, &assigned, NULL) < 0)
		return 0;
	for (uint32_t i = 0; i < assigned.n; i++) {
		const struct network_device *its = node_network_find(
			node, assigned.v[i].network[end]);

		if (its && !strcmp(node_network_port(its), node_network_port(device)))
			mbit += assigned.v[i].network_mbit;
	}
	return mbit;
}

/* A pod of another node may have several containers here, but counts once. */
static bool is_first_of_pod(struct node *node, uint32_t at, const struct tenant *t)
{
	for (uint32_t i = node->n_offered; i < at; i++) {
		const struct tenant *other = node_tenant(node, &node->slots[i]);

		if (other && !strcmp(other->pod->uid, t->pod->uid))
			return false;
	}
	return true;
}

static uint64_t granted_of(struct node *node, const struct network_device *device)
{
	const struct kube_entry *e = NULL;
	uint64_t mbit = 0;

	while ((e = kube_cache_next(node->pods, e)))
		mbit += granted_to(node, e->object, END_OF_POD, device);
	for (uint32_t i = node->n_offered; i < node->n_slots; i++) {
		const struct tenant *t = node_tenant(node, &node->slots[i]);
		const json_t *pod = t && is_first_of_pod(node, i, t) ? serve_pod(node, t->pod->uid)
								     : NULL;

		if (pod)
			mbit += granted_to(node, pod, END_OF_DEVICES, device);
	}
	return mbit;
}

json_t *node_network_json(struct node *node)
{
	json_t *all = json_array();

	for (uint32_t i = 0; i < node->networks.n; i++) {
		const struct network_device *n = &node->networks.v[i];
		const uint64_t granted = granted_of(node, n);
		json_t *one;

		one = json_pack("{s:s, s:s, s:I, s:I}", "name", n->name, "kind",
			network_kind_name(n->kind), "capacityMbps", (json_int_t)n->mbit, "freeMbps",
			(json_int_t)(n->mbit - MIN(granted, (uint64_t)n->mbit)));
		if (n->link[0])
			json_object_set_new(one, "link", json_string(n->link));
		json_array_append_new(all, one);
	}
	return json_pack("{s:o, s:o}", "devices", all, "peers", node_peers_json(node));
}
