/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices of other nodes. The placement model chooses one node for pod and devices if possible,
 * else two nodes (place/place-mode.h). This file adds the conditions that the model does not know:
 * which nodes serve their devices to others, which nodes suit the pod itself, and which pods may
 * not be remote. It also finds the best measured path from each device node to a node where the pod
 * may run, and explains why that path does not meet the pod's request.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "kuberules/fit.h"
#include "scheduler/decide-internal.h"

/* These resources count devices, so the node of the client half need not have them. */
const char *const remote_skipped_rules[] = {"divvy.gpu/milli", "divvy.gpu/memory-mib", NULL};

bool decide_remote_is_requested(const struct cpod *pod)
{
	for (uint32_t i = 0; i < pod->requested.n; i++)
		if (pod->requested.v[i].spec.mode == SPEC_MODE_REMOTE)
			return true;
	return false;
}

const char *remote_refusal(const struct cluster *c, const struct cpod *pod)
{
	const uint32_t host = attempt_next_host(pod, 0);
	const enum spec_mode mode = host < pod->requested.n ? pod->requested.v[host].spec.mode
							    : SPEC_MODE_LOCAL;

	if (mode != SPEC_MODE_AUTO && mode != SPEC_MODE_REMOTE)
		return "mode remote: another container of the pod requests devices of its own node";
	if (attempt_next_host(pod, host + 1) < pod->requested.n)
		return "mode remote: only one container of the pod may request devices";
	if (!c->n_serving)
		return "mode remote: no node serves its devices over the network";
	if (!pod->is_ours)
		return "mode remote: only pods with divvy's schedulerName get devices of other "
		       "nodes";
	if (pod->requested.vgpu[0])
		return "mode remote: the pod names a vGPU, which must be on its own node";
	if (!cluster_allows_remote(c, pod->ns))
		return "mode remote: a policy of the namespace denies devices of other nodes";
	return NULL;
}

bool remote_fits_client(struct attempt *a, const struct cnode *node)
{
	const int seen = view_find_node(a->cluster->view, node->name);

	return seen >= 0 && node->has_gpus && !node->is_stale && node->gpus.slots_total &&
		fit_node_without(a->fit, (uint32_t)seen, remote_skipped_rules).why == FIT_OK;
}

uint64_t remote_filter(struct attempt *a, const struct place_spec *spec, uint32_t at)
{
	const struct cnode *node = a->cluster->by_place[at];

	if (!spec->count)
		return remote_fits_client(a, node) ? UINT64_MAX : 0;
	if (!node->gpus.is_serving || attempt_node(a, node) != NODE_FITS)
		return 0;
	return attempt_devices(a, node);
}

int remote_take(
	struct attempt *a, uint32_t container, const struct place_spec *spec, struct error *err)
{
	struct place *place = a->cluster->place;
	const struct place_mode_params params = {.spec = *spec,
		.mode = a->requested->mode,
		.least_mbit = a->requested->network_mbit,
		.most_latency_us = a->requested->network_latency_us};
	uint32_t tenants[2];
	int r = place_mode_choose(place, &params, &a->placement, err);

	if (r == 0 && a->placement.outcome == PLACE_QUEUED)
		return -ENOSPC;
	r = r < 0 ? r : place_mode_add(place, &a->placement, tenants, err);
	if (r < 0)
		return r;
	a->of[a->n_taken] = container;
	a->taken[a->n_taken] = tenants[0];
	a->choice[a->n_taken++] = a->placement.choice;
	a->client = tenants[1];
	return 0;
}

static const char *decide_remote_network_name(const struct cnode *node, uint32_t network)
{
	for (uint32_t i = 0; i < node->gpus.n_networks; i++)
		if (node->network[i] == network)
			return node->gpus.network[i].name;
	return "";
}

void remote_give(const struct attempt *a, struct assigned_container *g)
{
	const struct place_decision *placement = &a->placement;
	const struct cnode *server = a->cluster->by_place[placement->choice.node];

	g->mode = SPEC_MODE_REMOTE;
	str_copy(g->remote_node, sizeof(g->remote_node), str_from(server->name));
	if (!placement->has_client)
		return;
	str_copy(g->network[0], ASSIGNED_NETWORK,
		str_from(decide_remote_network_name(
			attempt_candidate(a), placement->spec.network[1])));
	str_copy(g->network[1], ASSIGNED_NETWORK,
		str_from(decide_remote_network_name(server, placement->spec.network[0])));
	g->network_mbit = placement->spec.network_mbit;
}

/* ---- measured paths ---- */

static bool decide_path_is_better(
	const struct spec *requested, const struct gpunode_peer *a, const struct gpunode_peer *b)
{
	if (!b)
		return true;
	return requested->network_latency_us ? a->latency_us < b->latency_us : a->mbit > b->mbit;
}

static void decide_path_offer(const struct spec *requested, struct nearest *to,
	const struct cnode *client, const struct gpunode_peer *peer)
{
	if (!decide_path_is_better(requested, peer, to->peer))
		return;
	to->client = client;
	to->peer = peer;
}

static bool is_serving(const struct cnode *node)
{
	return node && node->at != PLACE_NONE && node->gpus.is_serving;
}

int nearest_find(struct attempt *a, const struct spec *requested, struct nearest **ret)
{
	const struct cluster *c = a->cluster;
	const uint32_t n = place_n_nodes(c->place);
	_cleanup_free_ struct nearest *all = calloc(n + 1ull, sizeof(*all));
	_cleanup_free_ bool *is_client = calloc(n + 1ull, sizeof(*is_client));
	struct cnode *node;

	if (!all || !is_client)
		return -ENOMEM;
	for (node = c->nodes; node; node = node->hh.next) {
		if (node->at == PLACE_NONE || !remote_fits_client(a, node))
			continue;
		is_client[node->at] = true;
		for (uint32_t i = 0; i < node->gpus.n_peers; i++) {
			const struct gpunode_peer *peer = &node->gpus.peer[i];
			const struct cnode *server = cnode_find(a->cluster, peer->name);

			if (server != node && is_serving(server))
				decide_path_offer(requested, &all[server->at], node, peer);
		}
	}
	/* A path that the client's node has not measured counts as the device node measured it. */
	for (node = c->nodes; node; node = node->hh.next)
		for (uint32_t i = 0; is_serving(node) && i < node->gpus.n_peers; i++) {
			const struct gpunode_peer *peer = &node->gpus.peer[i];
			const struct cnode *client = cnode_find(a->cluster, peer->name);

			if (client && client != node && client->at != PLACE_NONE &&
				is_client[client->at] &&
				!gpunode_find_peer(&client->gpus, node->name))
				decide_path_offer(requested, &all[node->at], client, peer);
		}
	*ret = TAKE_PTR(all);
	return 0;
}

bool nearest_text(
	const struct spec *requested, const struct nearest *nearest, char *ret, size_t size)
{
	const struct gpunode_peer *peer = nearest->peer;
	struct spec latency = {.network_latency_us = requested->network_latency_us},
		    bandwidth = {.network_mbit = requested->network_mbit},
		    found = {.network_mbit = peer ? peer->mbit : 0};
	char wanted[SPEC_NETWORK], measured[SPEC_NETWORK];

	if (requested->network_latency_us && !peer)
		snprintf(ret, size,
			"no round trip measured to a node for the pod, at most %s requested",
			spec_network_format(&latency, wanted));
	else if (requested->network_latency_us && peer->latency_us > requested->network_latency_us)
		snprintf(ret, size, "round trip %u us to node %.100s, at most %u us requested",
			peer->latency_us, nearest->client->name, requested->network_latency_us);
	else if (peer && peer->mbit && peer->mbit < requested->network_mbit)
		snprintf(ret, size, "bandwidth %s to node %.100s, at least %s requested",
			spec_network_format(&found, measured), nearest->client->name,
			spec_network_format(&bandwidth, wanted));
	else
		return false;
	return true;
}
