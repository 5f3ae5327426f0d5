/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps network devices of nodes in the placement model, and pods whose devices are on another
 * node. A remote pod is in the lists of two nodes: cnode.pods of its own node, and cnode.served of
 * its device node. It has two tenants in the placement model, which are added and removed together,
 * whichever of the two nodes is rebuilt.
 */
#include "scheduler/cluster-internal.h"

#include <errno.h>
#include <string.h>

#include <utlist.h>

#include "base/cleanup.h"
#include "place/place-mode.h"

/* ---- network devices ---- */

static const char *cluster_remote_network_port(const struct gpunode_network *n)
{
	return n->link[0] ? n->link : n->name;
}

/*
 * Returns the index of the network device that stands for the whole port: the device with the
 * port's name, or else the first device of the port.
 */
static uint32_t whole_of(const struct gpunode *g, uint32_t network)
{
	const char *port = cluster_remote_network_port(&g->network[network]);
	uint32_t i = gpunode_find_network(g, port);

	if (i < g->n_networks && !strcmp(cluster_remote_network_port(&g->network[i]), port))
		return i;
	for (i = 0; strcmp(cluster_remote_network_port(&g->network[i]), port); i++)
		;
	return i;
}

/*
 * Adds the paths from this node to other nodes as divvyd measured them, including nodes that the
 * cluster does not know yet.
 */
static int add_paths(struct cluster *c, const struct cnode *node)
{
	struct place_path paths[GPUNODE_PEERS_MAX];
	const struct gpunode *g = &node->gpus;

	for (uint32_t i = 0; i < g->n_peers; i++)
		paths[i] = (struct place_path){
			g->peer[i].name, g->peer[i].latency_us, g->peer[i].mbit};
	return g->n_peers ? place_paths_set(c->place, node->at, paths, g->n_peers, NULL) : 0;
}

int cnode_add_networks(struct cluster *c, struct cnode *node)
{
	const struct gpunode *g = &node->gpus;
	int r = 0;

	memset(node->network, 0, sizeof(node->network));
	/* The first pass adds whole ports, because the parts in the second pass refer to them. */
	for (int are_parts = 0; are_parts < 2; are_parts++)
		for (uint32_t i = 0; r == 0 && i < g->n_networks; i++) {
			const uint32_t whole = whole_of(g, i);
			const struct place_network_info info = {.node = node->at,
				.kind = g->network[i].kind,
				.mbit = g->network[i].mbit,
				.latency_us = PLACE_LATENCY_UNKNOWN,
				.within = whole == i ? 0 : node->network[whole]};

			if ((whole != i) == are_parts)
				r = place_network_add(c->place, &info, &node->network[i], NULL);
		}
	/* Network devices beyond the limit stay unused. */
	r = r == -ENOSPC ? 0 : r;
	return r < 0 ? r : add_paths(c, node);
}

/* Returns the number of the named network device in the placement model, or 0. */
static uint32_t network_of(const struct cnode *node, const char *name)
{
	const uint32_t i = gpunode_find_network(&node->gpus, name);

	return node->at != PLACE_NONE && i < node->gpus.n_networks ? node->network[i] : 0;
}

void cpod_network(const struct cluster *c, const struct cpod *pod,
	const struct assigned_container *g, struct place_spec *spec)
{
	spec->network_mbit = g->network_mbit;
	spec->network[0] = network_of(pod->server, g->network[1]);
	spec->network[1] = network_of(pod->node, g->network[0]);
	/*
	 * The pod already has this bandwidth, so if less is free now, only the free bandwidth
	 * counts.
	 */
	for (int i = 0; i < 2; i++)
		if (spec->network[i])
			spec->network_mbit = MIN(spec->network_mbit,
				place_network_free_mbit(c->place, spec->network[i]));
}

/* ---- device nodes ---- */

struct cnode *cpod_devices_node(const struct cpod *pod)
{
	return pod->server ? pod->server : pod->node;
}

/* Returns the name of the node of the pod's devices; NULL: the pod's own node. */
static const char *server_name(const struct cpod *pod)
{
	const struct assigned_container *g = pod->assigned.n ? &pod->assigned.v[0] : NULL;

	return g && pod->node && g->mode == SPEC_MODE_REMOTE && g->remote_node[0] &&
			strcmp(g->remote_node, pod->node->name)
		? g->remote_node
		: NULL;
}

void cpod_leave_server(struct cluster *c, struct cpod *pod)
{
	struct cnode *old = TAKE_PTR(pod->server);

	if (!old)
		return;
	DL_DELETE2(old->served, pod, sprev, snext);
	cnode_release(c, old);
}

int cpod_find_server(struct cluster *c, struct cpod *pod)
{
	const char *name = server_name(pod);
	struct cnode *node = name ? cnode_get(c, name) : NULL;

	if (name && !node)
		return -ENOMEM;
	if (node == pod->server)
		return 0;
	cpod_leave_server(c, pod);
	pod->server = node;
	if (node)
		DL_APPEND2(node->served, pod, sprev, snext);
	return 0;
}
