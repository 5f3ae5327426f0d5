/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file tries a tenant as a whole, then, if the mode allows, as client half and device half on
 * two nodes. place_mode_find_route() tries the kinds of network from the best, and lists the usable
 * ends of each kind. Within one kind, measured pairs come first, then pairs within a rack, then all
 * pairs. try_pairs() gets both lists sorted by load, so the first client that a server can reach is
 * the best for that server. A worse kind is tried while no path is found, or while the device half
 * has preference conflicts. place_mode_add() uses a savepoint, so both halves are added or none.
 */
#include "place/place-mode.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/format.h"
#include "place/place-conflicts.h"
#include "place/place-internal.h"
#include "place/place-network.h"
#include "place/place-path.h"

static const char *const kind_names[PLACE_NETWORK_KINDS] = {
	[PLACE_NETWORK_DIRECT] = "RDMA or SR-IOV",
	[PLACE_NETWORK_HOST] = "the host's network",
	[PLACE_NETWORK_OVERLAY] = "an overlay network",
};

#define SAY(decision, ...) snprintf((decision)->why, sizeof((decision)->why), __VA_ARGS__)

static const char *place_mode_node_name(const struct place *place, uint32_t node)
{
	return place->nodes[node].name->text;
}

/* ---- pairs of nodes ---- */

/* One end of a network path. */
struct end {
	const char *rack;
	uint32_t network, node, latency_us;
	uint32_t load; /* permille of the bandwidth that is reserved, with this tenant's part */
	uint32_t n_conflicts; /* 0 at the end of the client half; see struct place_choice */
};

struct place_route {
	uint32_t hops, load;
	/*
	 * slow: class_of() of the measured latency. thin: 32 minus class_of() of the measured
	 * bandwidth. A smaller value is better.
	 */
	uint32_t slow, thin;
	uint32_t latency_us, mbit; /* not measured: PLACE_LATENCY_UNKNOWN and 0 */
	struct end server, client;
	bool is_found;
};

struct ends {
	struct end *v;
	uint32_t n;
	/* while `v` is sorted by node: index of the first end on each node, or PLACE_NONE */
	uint32_t *at;
};

/* The ends of one kind, and the best path between two of them so far. */
struct search {
	const struct place *place;
	const struct place_mode_params *params;
	struct ends servers, clients;
	struct place_route best;
};

static int compare_ends(const void *pa, const void *pb)
{
	const struct end *a = pa, *b = pb;

	if (a->load != b->load)
		return a->load < b->load ? -1 : 1;
	if (a->node != b->node)
		return a->node < b->node ? -1 : 1;
	return a->network < b->network ? -1 : a->network > b->network;
}

static int place_mode_compare_by_rack(const void *pa, const void *pb)
{
	const struct end *a = pa, *b = pb;
	int order = strcmp(a->rack, b->rack);

	return order ? order : compare_ends(pa, pb);
}

static int compare_by_node(const void *pa, const void *pb)
{
	const struct end *a = pa, *b = pb;

	return a->node < b->node ? -1 : a->node > b->node;
}

/*
 * Compares by preference conflicts, hops, measured classes, load, and the numbers of nodes and
 * network devices.
 */
static bool place_mode_is_better_option(const struct place_route *a, const struct place_route *b)
{
	if (!b->is_found)
		return true;
#define BY(field) \
	if (a->field != b->field) \
	return a->field < b->field
	BY(server.n_conflicts);
	BY(hops);
	BY(slow);
	BY(thin);
	BY(load);
	BY(server.node);
	BY(client.node);
	BY(server.network);
	BY(client.network);
#undef BY
	return false;
}

static uint32_t hops_between(const struct end *a, const struct end *b)
{
	return a->rack[0] && !strcmp(a->rack, b->rack) ? 1 : 2;
}

/* ---- measured pairs ---- */

/*
 * Values between the same powers of two are in one class, so that load decides between similar
 * values.
 */
static uint32_t class_of(uint32_t n)
{
	return n ? 32 - (uint32_t)__builtin_clz(n) : 0;
}

static void try_measured(struct search *s, const struct end *server, const struct end *client,
	const struct path *path)
{
	const struct place_route route = {.hops = hops_between(server, client),
		.slow = class_of(path->latency_us),
		.thin = 32 - class_of(path->mbit),
		.load = server->load + client->load,
		.latency_us = path->latency_us,
		.mbit = path->mbit,
		.server = *server,
		.client = *client,
		.is_found = true};

	if (place_mode_is_better_option(&route, &s->best))
		s->best = route;
}

static bool place_mode_is_path_enough(
	const struct place_mode_params *params, const struct path *path)
{
	return (!params->most_latency_us || path->latency_us <= params->most_latency_us) &&
		(!path->mbit || path->mbit >= params->least_mbit);
}

/* Tries the measured paths of this end's node: each to all ends on the path's other node. */
static void try_paths(struct search *s, const struct end *end, bool is_client)
{
	const struct path_list list = paths_of(s->place, end->node);
	const struct ends *others = is_client ? &s->servers : &s->clients;

	for (uint32_t i = 0; i < list.n; i++) {
		const struct path *path = &list.v[i];
		const uint32_t node = path->to->node;

		if (node == PLACE_NONE || node == end->node || others->at[node] == PLACE_NONE ||
			!place_mode_is_path_enough(s->params, path))
			continue;
		/* The client's own measurement takes precedence. */
		if (!is_client && path_between(s->place, node, end->node) != path)
			continue;
		for (uint32_t k = others->at[node]; k < others->n && others->v[k].node == node; k++)
			try_measured(s, is_client ? &others->v[k] : end,
				is_client ? end : &others->v[k], path);
	}
}

static void order_by_node(const struct place *place, struct ends *ends)
{
	qsort(ends->v, ends->n, sizeof(*ends->v), compare_by_node);
	/* all bytes set: PLACE_NONE */
	memset(ends->at, 0xff, place_n_nodes(place) * sizeof(*ends->at));
	for (uint32_t i = ends->n; i-- > 0;)
		ends->at[ends->v[i].node] = i;
}

static void try_all_measured(struct search *s)
{
	if (!s->place->paths)
		return;
	order_by_node(s->place, &s->servers);
	order_by_node(s->place, &s->clients);
	for (uint32_t i = 0; i < s->clients.n; i++)
		try_paths(s, &s->clients.v[i], true);
	for (uint32_t i = 0; i < s->servers.n; i++)
		try_paths(s, &s->servers.v[i], false);
}

/* ---- other pairs ---- */

static bool place_mode_is_route(
	const struct search *s, const struct end *server, const struct end *client)
{
	if (server->node == client->node || path_between(s->place, client->node, server->node))
		return false;
	return !s->params->most_latency_us ||
		(uint64_t)server->latency_us + client->latency_us <= s->params->most_latency_us;
}

/* `clients` is sorted by load, so the first client that the server can reach is the best. */
static void try_pairs(struct search *s, struct ends servers, struct ends clients, uint32_t hops)
{
	const uint32_t most_us = s->params->most_latency_us;

	for (uint32_t i = 0; i < servers.n; i++) {
		const struct end *server = &servers.v[i];

		if (most_us && server->latency_us > most_us)
			continue;
		for (uint32_t c = 0; c < clients.n; c++) {
			const struct end *client = &clients.v[c];
			const struct place_route route = {.hops = hops,
				.slow = PLACE_NONE,
				.thin = PLACE_NONE,
				.load = server->load + client->load,
				.latency_us = PLACE_LATENCY_UNKNOWN,
				.server = *server,
				.client = *client,
				.is_found = true};

			if (!place_mode_is_better_option(&route, &s->best))
				break;
			if (place_mode_is_route(s, server, client)) {
				s->best = route;
				break;
			}
		}
	}
}

static struct ends place_mode_ends_part(const struct ends *ends, uint32_t first, uint32_t end)
{
	return (struct ends){.v = &ends->v[first], .n = end - first};
}

/* Tries pairs within each rack. Nodes without a rack are skipped. */
static void try_racks(struct search *search)
{
	const struct ends *servers = &search->servers, *clients = &search->clients;
	uint32_t s = 0, c = 0;

	qsort(servers->v, servers->n, sizeof(*servers->v), place_mode_compare_by_rack);
	qsort(clients->v, clients->n, sizeof(*clients->v), place_mode_compare_by_rack);
	while (s < servers->n && c < clients->n) {
		const char *rack = servers->v[s].rack, *other = clients->v[c].rack;
		const int order = strcmp(rack, other);
		uint32_t s_end = s, c_end = c;

		while (s_end < servers->n && !strcmp(servers->v[s_end].rack, rack))
			s_end++;
		while (c_end < clients->n && !strcmp(clients->v[c_end].rack, other))
			c_end++;
		if (order == 0 && rack[0])
			try_pairs(search, place_mode_ends_part(servers, s, s_end),
				place_mode_ends_part(clients, c, c_end), 1);
		if (order <= 0)
			s = s_end;
		if (order >= 0)
			c = c_end;
	}
}

/* Returns the load of the whole network device, even if `net` is only a part of that device. */
static uint32_t load_of(
	const struct place_networks *networks, const struct network *net, uint32_t mbit)
{
	const struct network *whole = net->within ? &networks->list[net->within - 1] : net;

	return (uint32_t)(((uint64_t)whole->mbit_taken + mbit) * 1000 / whole->mbit);
}

/*
 * Chooses devices on the node of the network device, by place_find(), which also asks the filter.
 */
static int choose_at(struct place *place, const struct place_spec *part, uint32_t network,
	uint32_t mbit, struct place_choice *ret, struct error *err)
{
	struct place_spec pinned = *part;

	pinned.node = place_network_node(place, network);
	pinned.network[0] = network;
	pinned.network_mbit = mbit;
	return place_find(place, &pinned, ret, err);
}

/* ret_met: preference conflicts on the devices; 0 for the client half */
static bool fits_at(struct place *place, const struct place_mode_params *params,
	const struct place_spec *part, uint32_t network, uint32_t *ret_met)
{
	const uint32_t node = place_network_node(place, network);
	struct place_choice choice = {.n_conflicts = 0};
	bool fits = place_reason_of(place, part, node) == PLACE_FITS;

	if (fits && part->count && (place->filter || place_has_conflicts(place, part)))
		fits = choose_at(place, part, network, params->least_mbit, &choice, NULL) == 0;
	else if (fits && place->filter)
		fits = place_filtered(place, part, node, place->evicted, place->n_evicted) != 0;
	*ret_met = choice.n_conflicts;
	return fits;
}

/*
 * Lists the network devices of a kind that have enough free bandwidth, on nodes where this half of
 * the tenant fits.
 */
static uint32_t list_ends(struct place *place, const struct place_mode_params *params,
	const struct place_spec *part, enum place_network_kind kind, struct end *ret)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < place_network_n(place); i++) {
		const struct network *net = &place->networks->list[i];
		uint32_t n_conflicts;

		if (!net->is_used || net->kind != kind ||
			network_free(place->networks, net) < params->least_mbit)
			continue;
		if (!fits_at(place, params, part, i + 1, &n_conflicts))
			continue;
		ret[n++] = (struct end){
			.rack = place->nodes[net->node].rack,
			.network = i + 1,
			.node = net->node,
			.latency_us = net->latency_us,
			.load = load_of(place->networks, net, params->least_mbit),
			.n_conflicts = n_conflicts,
		};
	}
	return n;
}

/*
 * A path with preference conflicts is improvable too: a worse network may lead to fewer conflicts.
 */
static bool is_improvable(const struct place_route *route)
{
	return !route->is_found || route->server.n_conflicts;
}

static void place_mode_find_route_of_kind(struct search *s)
{
	try_all_measured(s);
	try_racks(s);
	qsort(s->servers.v, s->servers.n, sizeof(*s->servers.v), compare_ends);
	qsort(s->clients.v, s->clients.n, sizeof(*s->clients.v), compare_ends);
	if (is_improvable(&s->best))
		try_pairs(s, s->servers, s->clients, 2);
}

static int place_mode_find_route(struct place *place, const struct place_mode_params *params,
	const struct place_decision *parts, struct place_route *ret,
	enum place_network_kind *ret_kind)
{
	const uint32_t n = place_network_n(place);
	_cleanup_free_ struct end *servers = calloc(n + 1ull, sizeof(*servers));
	_cleanup_free_ struct end *clients = calloc(n + 1ull, sizeof(*clients));
	_cleanup_free_ uint32_t *at = calloc(2ull * place_n_nodes(place) + 1, sizeof(*at));
	struct place_route best = {.is_found = false};

	if (!servers || !clients || !at)
		return -ENOMEM;
	for (int i = 0; i < PLACE_NETWORK_KINDS && is_improvable(&best); i++) {
		const enum place_network_kind kind = (enum place_network_kind)i;
		struct search s = {.place = place,
			.params = params,
			.servers = {.v = servers, .at = at},
			.clients = {.v = clients, .at = &at[place_n_nodes(place)]}};

		s.servers.n = list_ends(place, params, &parts->spec, kind, servers);
		s.clients.n = list_ends(place, params, &parts->client_spec, kind, clients);
		place_mode_find_route_of_kind(&s);
		if (!s.best.is_found ||
			(best.is_found && s.best.server.n_conflicts >= best.server.n_conflicts))
			continue;
		best = s.best;
		*ret_kind = kind;
	}
	*ret = best;
	return best.is_found ? 0 : -ENOSPC;
}

/* ---- remote ---- */

static void place_mode_say_conflicts(const struct place *place, struct place_decision *d)
{
	const size_t n = strlen(d->why);
	char met[SPEC_CONFLICTS];

	if (d->choice.n_conflicts)
		snprintf(d->why + n, sizeof(d->why) - n, ", %s",
			place_choice_conflicts(place, &d->spec, &d->choice, met));
}

/* Splits the spec into the client half and the device half. */
static void place_mode_split_spec(const struct place_spec *spec, struct place_decision *ret)
{
	ret->spec = *spec;
	ret->spec.cpu_milli = 0;
	ret->spec.memory_bytes = 0;
	ret->spec.near = 0;
	ret->spec.node = PLACE_NONE;
	ret->client_spec = *spec;
	ret->client_spec.count = 0;
	ret->client_spec.share = 0;
	ret->client_spec.is_exclusive = false;
	ret->client_spec.device_bytes = 0;
	ret->client_spec.device_permille = 0;
	ret->client_spec.models = 0;
	ret->client_spec.device = PLACE_NONE;
	ret->client_spec.affinity = ret->client_spec.anti_affinity = 0;
	ret->client_spec.preferred_anti_affinity = ret->client_spec.exclusion = 0;
}

static uint32_t latency_of(const struct place_route *route)
{
	if (route->slow != PLACE_NONE)
		return route->latency_us;
	return MAX(route->server.latency_us, route->client.latency_us) <= PLACE_LATENCY_MAX
		? route->server.latency_us + route->client.latency_us
		: PLACE_LATENCY_UNKNOWN;
}

static void place_mode_format_measured(const struct place_route *route, char *ret, size_t size)
{
	const uint32_t us = latency_of(route);

	*ret = '\0';
	if (us != PLACE_LATENCY_UNKNOWN && route->mbit)
		snprintf(ret, size, ", %u us and %u Mbit/s measured", us, route->mbit);
	else if (us != PLACE_LATENCY_UNKNOWN)
		snprintf(ret, size, ", %u us", us);
}

static int over_network(struct place *place, const struct place_mode_params *params,
	struct place_decision *ret, struct error *err)
{
	struct place_decision d = {.outcome = PLACE_REMOTE, .has_client = true};
	struct place_route route;
	char measured[64];
	int r;

	place_mode_split_spec(&params->spec, &d);
	r = place_mode_find_route(place, params, &d, &route, &d.kind);
	if (r < 0)
		return r == -ENOMEM ? fail(err, ENOMEM, "out of memory for a decision") : r;
	r = choose_at(place, &d.spec, route.server.network, params->least_mbit, &d.choice, err);
	if (r < 0)
		return r;
	d.spec.network[0] = route.server.network;
	d.spec.network[1] = route.client.network;
	d.spec.network_mbit = params->least_mbit;
	d.client = (struct place_choice){.node = route.client.node};
	d.hops = route.hops;
	d.latency_us = latency_of(&route);
	place_mode_format_measured(&route, measured, sizeof(measured));
	SAY(&d, "remote: runs on %s, device on %s over %s, %u hop%s%s, load %s",
		place_mode_node_name(place, route.client.node),
		place_mode_node_name(place, route.server.node), kind_names[d.kind], d.hops,
		d.hops == 1 ? "" : "s", measured, format_percent(route.load).s);
	place_mode_say_conflicts(place, &d);
	*ret = d;
	return 0;
}

/* ---- the choice ---- */

static int place_mode_check_params(
	const struct place *place, const struct place_mode_params *params, struct error *err)
{
	int r = place_spec_check(&params->spec, err);

	if (r == 0)
		r = place_spec_known(place, &params->spec, err);
	if (r < 0)
		return r;
	switch (params->mode) {
	case SPEC_MODE_AUTO:
	case SPEC_MODE_LOCAL: break;
	case SPEC_MODE_EXCLUSIVE:
		if (params->spec.count && !params->spec.is_exclusive)
			return fail(err, EINVAL, "mode exclusive: share %s; request whole devices",
				format_share(params->spec.share).s);
		break;
	case SPEC_MODE_REMOTE:
		if (!params->spec.count)
			return fail(err, EINVAL,
				"mode remote: no device is requested; request a share");
		break;
	default: return fail(err, EINVAL, "mode %u: 0 to 3 are possible", params->mode);
	}
	if (params->least_mbit > PLACE_MBIT_MAX)
		return fail(err, EINVAL, "network %u Mbit/s: up to %u are possible",
			params->least_mbit, PLACE_MBIT_MAX);
	if (params->spec.network[0] || params->spec.network[1])
		return fail(err, EINVAL,
			"network device %u: expected 0, because the mode chooses it",
			params->spec.network[params->spec.network[0] == 0]);
	return 0;
}

static void place_mode_format_here(
	const struct place *place, const struct place_mode_params *params, struct place_decision *d)
{
	const char *node = place_mode_node_name(place, d->choice.node);
	char share[8];

	spec_share_format(params->spec.share, share);
	if (d->outcome == PLACE_REMOTE)
		SAY(d, "remote, as asked: devices and tenant are on %s, through shared memory",
			node);
	else if (d->outcome == PLACE_EXCLUSIVE)
		SAY(d, "exclusive: %u whole device%s on %s", params->spec.count,
			params->spec.count == 1 ? "" : "s", node);
	else if (params->spec.count)
		SAY(d, "local: %s of %u device%s on %s%s", share, params->spec.count,
			params->spec.count == 1 ? "" : "s", node,
			params->mode == SPEC_MODE_LOCAL ? ", as asked" : "");
	else
		SAY(d, "local: no device is asked, on %s", node);
	place_mode_say_conflicts(place, d);
}

static bool fits_somewhere(const struct place *place, const struct place_spec *part)
{
	for (uint32_t node = 0; node < place_n_nodes(place); node++)
		if (place_reason_of(place, part, node) == PLACE_FITS)
			return true;
	return false;
}

/* If both halves fit and only a network is missing, writes that reason; otherwise writes "". */
static void place_mode_say_route(
	const struct place *place, const struct place_mode_params *params, char *ret, size_t size)
{
	char mbit[32] = "", latency[32] = "";
	struct place_decision parts;

	*ret = '\0';
	if (!params->spec.count ||
		(params->mode != SPEC_MODE_AUTO && params->mode != SPEC_MODE_REMOTE))
		return;
	place_mode_split_spec(&params->spec, &parts);
	if (!fits_somewhere(place, &parts.spec) || !fits_somewhere(place, &parts.client_spec))
		return;
	if (params->least_mbit)
		snprintf(mbit, sizeof(mbit), ", %u Mbit/s", params->least_mbit);
	if (params->most_latency_us)
		snprintf(latency, sizeof(latency), ", %u us", params->most_latency_us);
	snprintf(ret, size, " (no network of one kind at both ends%s%s)", mbit, latency);
}

static void place_mode_format_queued(
	const struct place *place, const struct place_mode_params *params, struct place_decision *d)
{
	static const char *const tried[] = {
		[SPEC_MODE_AUTO] = "neither together nor over the network",
		[SPEC_MODE_EXCLUSIVE] = "exclusive was asked",
		[SPEC_MODE_LOCAL] = "local was asked",
		[SPEC_MODE_REMOTE] = "remote was asked",
	};
	char why[PLACE_WHY], route[112];
	struct place_why reasons;

	place_explain(place, &params->spec, &reasons);
	place_mode_say_route(place, params, route, sizeof(route));
	SAY(d, "queued, %s%s: %.200s", tried[params->mode], route,
		place_why_format(&reasons, &params->spec, why));
}

int place_mode_choose(struct place *place, const struct place_mode_params *params,
	struct place_decision *ret, struct error *err)
{
	struct place_decision d = {.spec = params->spec};
	int r = place_mode_check_params(place, params, err);

	if (r < 0)
		return r;
	r = place_find(place, &params->spec, &d.choice, err);
	if (r == 0) {
		d.outcome = params->mode == SPEC_MODE_REMOTE ? PLACE_REMOTE
			: params->spec.is_exclusive && params->mode != SPEC_MODE_LOCAL
			? PLACE_EXCLUSIVE
			: PLACE_LOCAL;
		place_mode_format_here(place, params, &d);
	} else if (r == -ENOSPC && params->spec.count &&
		(params->mode == SPEC_MODE_AUTO || params->mode == SPEC_MODE_REMOTE)) {
		r = over_network(place, params, &d, err);
	}
	if (r == -ENOSPC) {
		d.outcome = PLACE_QUEUED;
		place_mode_format_queued(place, params, &d);
		r = 0;
	}
	if (r == 0)
		*ret = d;
	return r;
}

int place_mode_tie(struct place *place, uint32_t server, uint32_t client, struct error *err)
{
	const uint32_t tenants[2] = {server, client};
	int r;

	for (int i = 0; i < 2; i++)
		if (!place_tenant(place, tenants[i]))
			return fail(err, EINVAL, "there is no tenant %u", tenants[i]);
		else if (place_peer(place, tenants[i]) != PLACE_NONE)
			return fail(err, EINVAL, "tenant %u belongs to tenant %u already",
				tenants[i], place_peer(place, tenants[i]));
	if (server == client)
		return fail(err, EINVAL, "tenant %u: a tenant cannot be both halves", server);
	r = place_tie(place, server, client);
	return r < 0 ? fail(err, -r, "out of memory for a tenant") : 0;
}

int place_mode_add(struct place *place, const struct place_decision *decision,
	uint32_t ret_tenants[static 2], struct error *err)
{
	uint32_t savepoint, tenants[2] = {PLACE_NONE, PLACE_NONE};
	int r;

	if (decision->outcome == PLACE_QUEUED)
		return fail(
			err, EINVAL, "the decision is to queue the tenant, which has no place yet");
	savepoint = place_savepoint(place);
	r = place_add(place, &decision->spec, &decision->choice, &tenants[0], err);
	if (r == 0 && decision->has_client)
		r = place_add(place, &decision->client_spec, &decision->client, &tenants[1], err);
	if (r == 0 && decision->has_client)
		r = place_mode_tie(place, tenants[0], tenants[1], err);
	if (r < 0)
		place_rollback(place, savepoint);
	place_release(place);
	if (r < 0)
		return r;
	ret_tenants[0] = tenants[0];
	ret_tenants[1] = tenants[1];
	return 0;
}
