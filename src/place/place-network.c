/* SPDX-License-Identifier: Apache-2.0 */
/* Network devices, with their capacity and use. See place-mode.h. */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "place/place-internal.h"
#include "place/place-mode.h"
#include "place/place-network.h"

void place_network_free(struct place_networks *networks)
{
	if (networks)
		free(networks->list);
	free(networks);
}

uint32_t place_network_n(const struct place *place)
{
	return place->networks ? place->networks->n : 0;
}

static struct network *network_at(const struct place *place, uint32_t network)
{
	if (!network || network > place_network_n(place))
		return NULL;
	return &place->networks->list[network - 1];
}

uint32_t network_free(const struct place_networks *networks, const struct network *n)
{
	const struct network *of = n->within ? &networks->list[n->within - 1] : NULL;
	const uint32_t left = n->mbit - n->mbit_taken;

	return of ? MIN(left, of->mbit - of->mbit_taken) : left;
}

/* Returns the index of an unused element, or of a new one. */
static int place_network_take_slot(struct place *place, uint32_t *ret)
{
	int r;

	if (!place->networks) {
		place->networks = calloc(1, sizeof(*place->networks));
		if (!place->networks)
			return -ENOMEM;
	}
	for (uint32_t i = 0; place->networks->n_used < place->networks->n && i < place->networks->n;
		i++)
		if (!place->networks->list[i].is_used) {
			*ret = i;
			return 0;
		}
	r = array_grow(&place->networks->list, &place->networks->size, place->networks->n + 1,
		sizeof(*place->networks->list));
	if (r == 0)
		*ret = place->networks->n++;
	return r;
}

int place_network_add(struct place *place, const struct place_network_info *info,
	uint32_t *ret_network, struct error *err)
{
	const struct network *within;
	uint32_t at = 0;
	int r;

	if (info->node >= place->n_nodes || !place->nodes[info->node].is_used)
		return fail(err, EINVAL, "there is no node %u", info->node);
	if (info->kind >= PLACE_NETWORK_KINDS)
		return fail(err, EINVAL, "network kind %u: 0 to %u are possible", info->kind,
			PLACE_NETWORK_KINDS - 1);
	if (info->mbit == 0 || info->mbit > PLACE_MBIT_MAX)
		return fail(err, EINVAL, "bandwidth %u: 1 to %u Mbit/s are possible", info->mbit,
			PLACE_MBIT_MAX);
	if (info->latency_us > PLACE_LATENCY_MAX && info->latency_us != PLACE_LATENCY_UNKNOWN)
		return fail(err, EINVAL, "latency %u: up to %u us are possible", info->latency_us,
			PLACE_LATENCY_MAX);
	within = network_at(place, info->within);
	if (info->within &&
		(!within || !within->is_used || within->node != info->node || within->within))
		return fail(err, EINVAL,
			"network device %u: expected one of node %u that shares no "
			"bandwidth",
			info->within, info->node);
	if (place_network_n(place) == PLACE_NETWORKS_MAX)
		return fail(err, ENOSPC, "%u network devices exist, which is the maximum",
			PLACE_NETWORKS_MAX);
	r = place_network_take_slot(place, &at);
	if (r < 0)
		return fail(err, -r, "out of memory for a network device");
	place->networks->list[at] = (struct network){.node = info->node,
		.kind = info->kind,
		.mbit = info->mbit,
		.latency_us = info->latency_us,
		.within = info->within,
		.is_used = true};
	place->networks->n_used++;
	*ret_network = at + 1;
	return 0;
}

int place_network_remove(struct place *place, uint32_t network, struct error *err)
{
	struct network *n = network_at(place, network);

	if (!n || !n->is_used)
		return fail(err, EINVAL, "there is no network device %u", network);
	if (n->n_tenants)
		return fail(
			err, EBUSY, "network device %u: %u tenants use it", network, n->n_tenants);
	for (uint32_t i = 0; i < place_network_n(place); i++)
		if (place->networks->list[i].is_used && place->networks->list[i].within == network)
			return fail(err, EBUSY,
				"network device %u: network device %u shares its bandwidth",
				network, i + 1);
	if (place->n_savepoints)
		return fail(err, EBUSY, "network device %u: a decision is in progress", network);
	n->is_used = false;
	place->networks->n_used--;
	return 0;
}

uint32_t place_network_free_mbit(const struct place *place, uint32_t network)
{
	const struct network *n = network_at(place, network);

	return n && n->is_used ? network_free(place->networks, n) : 0;
}

uint32_t place_network_node(const struct place *place, uint32_t network)
{
	const struct network *n = network_at(place, network);

	return n && n->is_used ? n->node : PLACE_NONE;
}

int place_network_fits(
	const struct place *place, const struct place_spec *spec, uint32_t node, struct error *err)
{
	for (int i = 0; i < 2; i++) {
		const struct network *n = network_at(place, spec->network[i]);

		if (!spec->network[i])
			continue;
		if (!n || !n->is_used)
			return fail(err, EINVAL, "there is no network device %u", spec->network[i]);
		if (i == 0 && n->node != node)
			return fail(err, ENOSPC, "network device %u is on another node",
				spec->network[i]);
		if (i && spec->network[0] == spec->network[1])
			return fail(
				err, EINVAL, "network device %u at both ends", spec->network[i]);
		if (network_free(place->networks, n) < spec->network_mbit)
			return fail(err, ENOSPC,
				"network device %u: %u Mbit/s are free, %u are requested",
				spec->network[i], network_free(place->networks, n),
				spec->network_mbit);
	}
	return 0;
}

void place_network_count(struct place *place, const struct place_tenant *t, int sign)
{
	for (int i = 0; i < 2; i++) {
		struct network *n = network_at(place, t->spec.network[i]);
		struct network *of = n ? network_at(place, n->within) : NULL;

		if (!n)
			continue;
		if (!t->is_terminating)
			n->mbit_taken += (uint32_t)sign * t->spec.network_mbit;
		if (!t->is_terminating && of)
			of->mbit_taken += (uint32_t)sign * t->spec.network_mbit;
		n->n_tenants += (uint32_t)sign;
	}
}

bool place_network_is_taken(const struct place *place, uint32_t node)
{
	for (uint32_t i = 0; i < place_network_n(place); i++)
		if (place->networks->list[i].is_used && place->networks->list[i].node == node &&
			place->networks->list[i].n_tenants)
			return true;
	return false;
}

void place_network_drop(struct place *place, uint32_t node)
{
	for (uint32_t i = 0; i < place_network_n(place); i++) {
		struct network *n = &place->networks->list[i];

		if (!n->is_used || n->node != node)
			continue;
		n->is_used = false;
		place->networks->n_used--;
	}
}
