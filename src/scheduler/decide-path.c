/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the best measured network path from each device node to a node where the pod may run, and
 * explains why that path does not meet the pod's request.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "scheduler/decide-internal.h"

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
