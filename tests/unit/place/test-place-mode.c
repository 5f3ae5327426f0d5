/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modes: which mode and which network paths are chosen, compared with all pairs of network devices;
 * and bandwidth.
 */
#include "unit.h"

#include <errno.h>

#include "base/cleanup.h"
#include "base/format.h"
#include "cluster.h"
#include "place/place-bounds.h"
#include "place/place-defrag.h"
#include "place/place-gang.h"
#include "place/place-internal.h"
#include "place/place-mode.h"
#include "place/place-network.h"
#include "place/place-path.h"

static void add_networks(struct rand *rand, struct place *place)
{
	for (uint32_t i = 0; i < 2 * place->n_nodes; i++) {
		const struct place_network_info info = {
			.node = (uint32_t)rand_below(rand, place->n_nodes),
			.kind = (enum place_network_kind)rand_below(rand, PLACE_NETWORK_KINDS),
			.mbit = 1000 * (1 + (uint32_t)rand_below(rand, 4)),
			.latency_us = 5 * (uint32_t)rand_below(rand, 4),
		};
		uint32_t network;

		assert_ok(place_network_add(place, &info, &network, NULL));
		assert_int_equal(network, i + 1);
	}
}

/*
 * Adds random measurements, by one node of a pair or by both. Some lead to a node that does not
 * exist.
 */
static void add_paths(struct rand *rand, struct place *place)
{
	for (uint32_t node = 0; node < place->n_nodes; node++) {
		struct place_path paths[4];
		uint32_t n = (uint32_t)rand_below(rand, ARRAY_SIZE(paths) + 1), to[4];

		for (uint32_t i = 0; i < n; i++) {
			to[i] = (uint32_t)rand_below(rand, place->n_nodes + 1);
			for (uint32_t k = 0; k < i; k++)
				if (to[k] == to[i])
					to[i] = place->n_nodes;
			paths[i] = (struct place_path){.node = to[i] < place->n_nodes
					? place->nodes[to[i]].name->text
					: "nobody",
				.latency_us = (uint32_t)rand_below(rand, 60),
				.mbit = 200 * (uint32_t)rand_below(rand, 8)};
		}
		assert_ok(place_paths_set(place, node, paths, n, NULL));
	}
}

/* The measurement of node `from` to node `to`; NULL: none. */
static const struct path *measured_by(const struct place *place, uint32_t from, uint32_t to)
{
	const char *name = place->nodes[to].name->text;

	if (!place->paths || from >= place->paths->n_of)
		return NULL;
	for (uint32_t i = 0; i < place->paths->of[from].n; i++)
		if (!strcmp(place->paths->of[from].v[i].to->text, name))
			return &place->paths->of[from].v[i];
	return NULL;
}

static const struct path *measured(const struct place *place, uint32_t server, uint32_t client)
{
	const struct path *path = measured_by(place, client, server);

	return path ? path : measured_by(place, server, client);
}

/* How many powers of two are at most n. */
static uint64_t powers(uint64_t n)
{
	uint64_t i = 0;

	while (1ull << i <= n)
		i++;
	return i;
}

struct rank {
	/*
	 * conflicts, network kind, hops, measured latency and bandwidth, load, nodes, network
	 * devices
	 */
	uint64_t value[10];
};

static bool is_less(const struct rank *a, const struct rank *b)
{
	for (size_t i = 0; i < ARRAY_SIZE(a->value); i++)
		if (a->value[i] != b->value[i])
			return a->value[i] < b->value[i];
	return false;
}

/* The rank of a pair of network devices. devices: the spec of the device half. */
static struct rank rank_of(const struct place *place, const struct place_spec *devices,
	uint32_t server, uint32_t client, uint32_t mbit)
{
	const struct network *s = &place->networks->list[server - 1],
			     *c = &place->networks->list[client - 1];
	const char *racks[] = {place->nodes[s->node].rack, place->nodes[c->node].rack};
	uint64_t hops = *racks[0] && !strcmp(racks[0], racks[1]) ? 1 : 2;
	uint64_t load = (s->mbit_taken + mbit) * 1000ull / s->mbit +
		(c->mbit_taken + mbit) * 1000ull / c->mbit;
	const struct path *path = measured(place, s->node, c->node);
	_cleanup_free_ uint32_t *met = cluster_met(place, devices);

	return (struct rank){{cluster_fewest(place, devices, s->node, met), s->kind, hops,
		path ? powers(path->latency_us) : UINT64_MAX,
		path ? 64 - powers(path->mbit) : UINT64_MAX, load, s->node, c->node, server,
		client}};
}

static bool will_do(const struct place *place, const struct place_mode_params *params,
	const struct network *server, const struct network *client)
{
	const struct path *path = measured(place, server->node, client->node);
	const uint32_t latency_us = path ? path->latency_us
					 : server->latency_us + client->latency_us;

	return (!params->most_latency_us || latency_us <= params->most_latency_us) &&
		(!path || !path->mbit || path->mbit >= params->least_mbit);
}

/* Ranks every pair of network devices and sets *ret to the best rank. false: no pair fits. */
static bool best_pair(
	const struct place *place, const struct place_mode_params *params, struct rank *ret)
{
	struct place_spec devices = params->spec, own = params->spec;
	bool is_found = false;

	devices.cpu_milli = 0;
	devices.memory_bytes = 0;
	devices.node = PLACE_NONE;
	own.count = own.share = 0;
	for (uint32_t s = 1; s <= place_network_n(place); s++)
		for (uint32_t c = 1; c <= place_network_n(place); c++) {
			const struct network *a = &place->networks->list[s - 1],
					     *b = &place->networks->list[c - 1];
			struct rank rank;

			if (a->kind != b->kind || a->node == b->node ||
				a->mbit - a->mbit_taken < params->least_mbit ||
				b->mbit - b->mbit_taken < params->least_mbit ||
				!will_do(place, params, a, b) ||
				place_reason_of(place, &devices, a->node) != PLACE_FITS ||
				place_reason_of(place, &own, b->node) != PLACE_FITS)
				continue;
			rank = rank_of(place, &devices, s, c, params->least_mbit);
			if (is_found && !is_less(&rank, ret))
				continue;
			*ret = rank;
			is_found = true;
		}
	return is_found;
}

static void check_networks(const struct place *place)
{
	for (uint32_t i = 1; i <= place_network_n(place); i++) {
		const struct network *net = &place->networks->list[i - 1];
		uint32_t mbit = 0;

		for (uint32_t k = 0; k < place->n_tenants; k++)
			if (place_tenant(place, k))
				for (int e = 0; e < 2; e++)
					if (place->tenants[k].spec.network[e] == i)
						mbit += place->tenants[k].spec.network_mbit;
		assert_int_equal(mbit, net->mbit_taken);
		assert_int_equal(place_network_free_mbit(place, i), net->mbit - mbit);
	}
}

/* Whether both halves of a queued tenant would fit, so that only a network is missing. */
static bool lacks_network_alone(const struct place *place, const struct place_mode_params *params)
{
	struct place_spec devices = params->spec, own = params->spec;
	bool has_server = false, has_client = false;

	if (!params->spec.count || params->mode == SPEC_MODE_LOCAL ||
		params->mode == SPEC_MODE_EXCLUSIVE)
		return false;
	devices.cpu_milli = 0;
	devices.memory_bytes = 0;
	devices.node = PLACE_NONE;
	own.count = own.share = 0;
	for (uint32_t node = 0; node < place->n_nodes; node++) {
		has_server |= place_reason_of(place, &devices, node) == PLACE_FITS;
		has_client |= place_reason_of(place, &own, node) == PLACE_FITS;
	}
	return has_server && has_client;
}

static void one_step(struct rand *rand, struct place *place, uint32_t *n_remote)
{
	struct place_mode_params params = {.spec = cluster_spec(rand, place),
		.mode = (enum spec_mode)rand_below(rand, 4),
		.least_mbit = 100 * (uint32_t)rand_below(rand, 10),
		.most_latency_us = rand_below(rand, 2) ? 0 : 10 + (uint32_t)rand_below(rand, 20)};
	struct place_decision d;
	struct place_choice here;
	struct rank best = {{0}}, rank;
	uint64_t digest = cluster_digest(place);
	uint32_t tenants[2], mark;
	bool fits, is_refused;

	if (rand_below(rand, 4) == 0)
		params.spec.node = (uint32_t)rand_below(rand, place->n_nodes);
	is_refused = params.mode == SPEC_MODE_EXCLUSIVE
		? params.spec.count && !params.spec.is_exclusive
		: params.mode == SPEC_MODE_REMOTE && !params.spec.count;
	if (is_refused) {
		assert_int_equal(place_mode_choose(place, &params, &d, NULL), -EINVAL);
		return;
	}
	assert_ok(place_mode_choose(place, &params, &d, NULL));
	assert_int_equal(cluster_digest(place), digest);
	assert_true(d.why[0]);
	fits = place_find(place, &params.spec, &here, NULL) == 0;
	if (fits) {
		assert_false(d.has_client);
		assert_int_equal(d.outcome,
			params.mode == SPEC_MODE_REMOTE ? PLACE_REMOTE
				: params.mode == SPEC_MODE_LOCAL || !params.spec.is_exclusive
				? PLACE_LOCAL
				: PLACE_EXCLUSIVE);
	} else if ((params.mode == SPEC_MODE_AUTO || params.mode == SPEC_MODE_REMOTE) &&
		params.spec.count && best_pair(place, &params, &best)) {
		assert_int_equal(d.outcome, PLACE_REMOTE);
		rank = rank_of(
			place, &d.spec, d.spec.network[0], d.spec.network[1], params.least_mbit);
		assert_memory_equal(&rank, &best, sizeof(rank));
		assert_int_equal(d.hops, best.value[2]);
		assert_int_equal(d.choice.n_conflicts, best.value[0]);
		assert_int_equal(strstr(d.why, "would keep apart") != NULL, best.value[0] != 0);
		(*n_remote)++;
	} else {
		assert_int_equal(d.outcome, PLACE_QUEUED);
		assert_contains(d.why, "queued");
		assert_int_equal(strstr(d.why, "no network of one kind") != NULL,
			lacks_network_alone(place, &params));
		assert_int_equal(place_mode_add(place, &d, tenants, NULL), -EINVAL);
		return;
	}
	mark = place_savepoint(place);
	assert_ok(place_mode_add(place, &d, tenants, NULL));
	check_networks(place);
	place_rollback(place, mark);
	place_release(place);
	assert_int_equal(cluster_digest(place), digest);
	check_networks(place);
	assert_ok(place_mode_add(place, &d, tenants, NULL));
	assert_int_equal(tenants[1] != PLACE_NONE, d.has_client);
	cluster_check(place);
}

static void the_search_equals_a_search_of_all_pairs(void **state)
{
	uint32_t n_remote = 0;

	for (uint64_t seed = 0; seed < 300; seed++) {
		struct rand rand = rand_seeded(seed);
		_cleanup_place_ struct place *place = cluster_new(
			&rand, &place_best_fit, 2 + (uint32_t)rand_below(&rand, 8), 2);

		/*
		 * About half of the nodes have little CPU, so that devices and CPU are often on
		 * different nodes.
		 */
		for (uint32_t at = 0; at < place->n_nodes; at++)
			if (rand_below(&rand, 2)) {
				place->nodes[at].cpu_all = 500;
				place_node_count(place, at);
				place_bounds_changed(place->bounds, at);
			}
		add_networks(&rand, place);
		if (seed % 4)
			add_paths(&rand, place);
		for (int step = 0; step < 40; step++) {
			uint32_t tenant = (uint32_t)rand_below(&rand, place->n_tenants + 1);

			one_step(&rand, place, &n_remote);
			if (rand_below(&rand, 3) == 0 && place_tenant(place, tenant))
				assert_ok(place_remove(place, tenant));
			check_networks(place);
			if (seed % 4 && rand_below(&rand, 8) == 0)
				add_paths(&rand, place);
		}
	}
	assert_true(n_remote > 300);
}

static void impossible_modes_are_refused(void **state)
{
	struct rand rand = rand_seeded(1);
	_cleanup_place_ struct place *place = cluster_new(&rand, &place_best_fit, 2, 1);
	struct place_network_info info = {.node = 2, .mbit = 100};
	struct place_mode_params params = {.spec = PLACE_SPEC_INIT};
	struct place_decision d;
	struct place_choice choice = {.n = 1};
	struct error err = {0};
	uint32_t network, other, tenant;

	assert_int_equal(place_network_add(place, &info, &network, &err), -EINVAL);
	assert_contains(err.msg, "no node 2");
	info.node = 0;
	info.mbit = 0;
	assert_int_equal(place_network_add(place, &info, &network, &err), -EINVAL);
	assert_contains(err.msg, "bandwidth 0");
	info.mbit = 100;
	info.kind = PLACE_NETWORK_KINDS;
	assert_int_equal(place_network_add(place, &info, &network, &err), -EINVAL);
	assert_contains(err.msg, "kind 3");
	info.kind = PLACE_NETWORK_HOST;
	info.latency_us = PLACE_LATENCY_MAX + 1;
	assert_int_equal(place_network_add(place, &info, &network, &err), -EINVAL);
	assert_contains(err.msg, "latency 1000000001");
	info.latency_us = 10;
	assert_ok(place_network_add(place, &info, &network, &err));
	info.node = 1;
	assert_ok(place_network_add(place, &info, &other, &err));
	params.spec.share = 300;
	params.mode = SPEC_MODE_EXCLUSIVE;
	assert_int_equal(place_mode_choose(place, &params, &d, &err), -EINVAL);
	assert_contains(err.msg, "share 0.3");
	params.mode = (enum spec_mode)9;
	assert_int_equal(place_mode_choose(place, &params, &d, &err), -EINVAL);
	assert_contains(err.msg, "mode 9");
	params.spec.network[0] = network;
	params.spec.network[1] = other;
	params.spec.network_mbit = 101;
	assert_int_equal(place_add(place, &params.spec, &choice, &tenant, &err), -ENOSPC);
	assert_contains(err.msg, "100 Mbit/s are free, 101 are requested");
	params.spec.network_mbit = 60;
	assert_ok(place_add(place, &params.spec, &choice, &tenant, &err));
	assert_int_equal(place_network_free_mbit(place, other), 40);
	assert_int_equal(place_network_remove(place, other, &err), -EBUSY);
	assert_int_equal(place_node_remove(place, 1, &err), -EBUSY);
	assert_contains(err.msg, "use its network");
	assert_ok(place_remove(place, tenant));
	assert_ok(place_node_remove(place, 1, &err));
	assert_int_equal(place_network_remove(place, other, &err), -EINVAL);
	params.spec.network[1] = 7;
	assert_int_equal(place_add(place, &params.spec, &choice, &tenant, &err), -EINVAL);
	assert_contains(err.msg, "network device 7");
}

/*
 * Two nodes with two devices and a network device each, and a third node without a network device.
 */
static struct place *pair_new(void)
{
	const struct place_config config = {.policy = &place_first_fit};
	const struct place_device_info devices[2] = {{.memory_bytes = GIB}, {.memory_bytes = GIB}};
	struct place_node_info info = {.cpu_milli = 1000, .devices = devices};
	static const char *const names[] = {"server", "client", "other"};
	struct place *place = NULL;
	uint32_t node, network;
	uint64_t bit;

	assert_ok(place_new(&config, &place, NULL));
	assert_ok(place_model(place, "A", &bit, NULL));
	for (uint32_t i = 0; i < 3; i++) {
		info.name = names[i];
		info.n_devices = i == 1 ? 0 : 2;
		assert_ok(place_node_add(place, &info, &node, NULL));
		if (i < 2)
			assert_ok(place_network_add(place,
				&(struct place_network_info){.node = node, .mbit = 1000}, &network,
				NULL));
	}
	return place;
}

/* Adds a remote tenant: the device half on node "server", the client half on node "client". */
static void add_pair(struct place *place, uint32_t share, uint32_t budget, uint32_t ret[static 2])
{
	struct place_decision d = {.outcome = PLACE_REMOTE,
		.has_client = true,
		.spec = PLACE_SPEC_INIT,
		.choice = {.n = 1},
		.client_spec = PLACE_SPEC_INIT,
		.client = {.node = 1}};

	d.spec.share = share;
	d.spec.network[0] = 1;
	d.spec.network[1] = 2;
	d.spec.network_mbit = 600;
	d.spec.priority = d.client_spec.priority = 10;
	d.spec.budget = d.client_spec.budget = budget;
	d.spec.is_movable = true;
	d.client_spec.count = 0;
	d.client_spec.cpu_milli = 800;
	assert_ok(place_mode_add(place, &d, ret, NULL));
}

static void a_network_belongs_to_its_node(void **state)
{
	_cleanup_place_ struct place *place = pair_new();
	const struct place_preempt rules = {0};
	_cleanup_(place_plan_done) struct place_plan plan = {0};
	_cleanup_(place_defrag_done) struct place_defrag moves = {0};
	struct place_choice choice;
	struct place_spec spec = PLACE_SPEC_INIT;
	uint32_t pair[2], tenant;
	struct error err = {0};

	add_pair(place, 300, 0, pair);
	/*
	 * A spec with a network device fits only on that device's node, and only while bandwidth is
	 * free.
	 */
	spec.share = 500;
	spec.network[0] = 1;
	spec.network_mbit = 500;
	assert_int_equal(place_find(place, &spec, &choice, &err), -ENOSPC);
	assert_int_equal(place_preempt_find(place, &spec, &rules, &plan, &err), -ENOSPC);
	assert_int_equal(place_reason_of(place, &spec, 0), PLACE_NO_NETWORK);
	assert_int_equal(place_reason_of(place, &spec, 2), PLACE_NO_NETWORK);
	spec.network_mbit = 400;
	assert_int_equal(place_reason_of(place, &spec, 2), PLACE_NO_NETWORK);
	assert_ok(place_find(place, &spec, &choice, &err));
	assert_int_equal(choice.node, 0);
	choice = (struct place_choice){.node = 2, .n = 1, .device = {2}};
	assert_int_equal(place_add(place, &spec, &choice, &tenant, &err), -ENOSPC);
	assert_contains(err.msg, "network device 1 is on another node");
	/* A tenant that uses a network device is not moved. */
	spec = PLACE_SPEC_INIT;
	spec.share = 600;
	choice = (struct place_choice){.node = 2, .n = 1, .device = {2}};
	assert_ok(place_add(place, &spec, &choice, &tenant, &err));
	assert_ok(place_defrag_find(place, 10, NULL, &moves, &err));
	assert_int_equal(moves.n_moves, 0);
	assert_int_equal(
		place_defrag_move(place,
			&(struct place_move){.tenant = pair[0], .from = {.n = 1}, .to = choice},
			&tenant, &err),
		-EINVAL);
	assert_contains(err.msg, "it cannot move");
}

static void halves_are_evicted_together(void **state)
{
	for (uint32_t half = 0; half < 2; half++) {
		_cleanup_place_ struct place *place = pair_new();
		const struct place_preempt rules = {0};
		_cleanup_(place_plan_done) struct place_plan plan = {0}, stale = {0};
		struct place_spec spec = PLACE_SPEC_INIT;
		uint32_t pair[2], tenant, mark;
		struct error err = {0};
		uint64_t digest;

		add_pair(place, 300, 0, pair);
		assert_int_equal(place_peer(place, pair[0]), pair[1]);
		digest = cluster_digest(place);
		spec.node = half;
		spec.count = half ? 0 : 1;
		spec.share = half ? 0 : 1000;
		spec.cpu_milli = half ? 500 : 0;
		if (!half)
			spec.device = 0;
		assert_ok(place_preempt_find(place, &spec, &rules, &plan, &err));
		assert_ok(place_preempt_find(place, &spec, &rules, &stale, &err));
		assert_int_equal(cluster_digest(place), digest);
		assert_int_equal(plan.n_victims, 2);
		mark = place_savepoint(place);
		assert_ok(place_preempt_apply(place, &spec, &plan, &tenant, &err));
		assert_null(place_tenant(place, pair[0]));
		assert_null(place_tenant(place, pair[1]));
		assert_int_equal(place_network_free_mbit(place, 1), 1000);
		place_rollback(place, mark);
		place_release(place);
		assert_int_equal(cluster_digest(place), digest);
		/* After the other half is removed, the plan is out of date. */
		assert_ok(place_remove(place, pair[!half]));
		assert_int_equal(place_peer(place, pair[half]), PLACE_NONE);
		assert_int_equal(place_preempt_apply(place, &spec, &stale, &tenant, &err), -ESTALE);
	}
}

/* Both halves of a victim are evicted for a gang, and count once for their budget. */
static void halves_count_once(void **state)
{
	_cleanup_place_ struct place *place = pair_new();
	struct place_budget budget = {.may_evict = 1};
	const struct place_preempt rules = {.budgets = &budget, .n_budgets = 1};
	struct place_spec members[2] = {PLACE_SPEC_INIT, PLACE_SPEC_INIT};
	struct place_gang gang = {.members = members, .n = 2, .threshold = 1000, .preempt = &rules};
	_cleanup_(place_group_done) struct place_group group = {0};
	uint32_t pairs[2][2];
	uint64_t digest;

	assert_ok(place_label(place, "", "b", &budget.label, NULL));
	place->nodes[1].cpu_all = 1600;
	place_node_count(place, 1);
	place->networks->list[0].mbit = place->networks->list[1].mbit = 2000;
	for (int i = 0; i < 2; i++)
		add_pair(place, 400, budget.label, pairs[i]);
	digest = cluster_digest(place);
	/* Both remote tenants would have to be victims, but the budget allows one. */
	members[0].device = members[1].device = 0;
	members[0].share = members[1].share = 400;
	assert_int_equal(place_gang_add(place, &gang, &group, NULL), -ENOSPC);
	assert_int_equal(cluster_digest(place), digest);
	budget.may_evict = 2;
	assert_ok(place_gang_add(place, &gang, &group, NULL));
	assert_int_equal(group.n_victims, 4);
	assert_int_equal(place_n_tenants(place), 2);
	assert_int_equal(place_network_free_mbit(place, 1), 2000);
}

static void restored_halves_are_joined_again(void **state)
{
	_cleanup_place_ struct place *place = pair_new();
	_cleanup_place_ struct place *fresh = pair_new();
	uint32_t pair[2], again[2];
	struct error err = {0};

	add_pair(place, 300, 0, pair);
	for (int i = 1; i >= 0; i--) {
		const struct place_tenant *t = place_tenant(place, pair[i]);
		struct place_choice choice = {.node = t->node, .n = t->n};

		memcpy(choice.device, t->device, sizeof(choice.device));
		assert_ok(place_restore(fresh, &t->spec, &choice, NULL, &again[i], &err));
	}
	assert_int_equal(place_mode_tie(fresh, again[0], 9, &err), -EINVAL);
	assert_contains(err.msg, "no tenant 9");
	assert_int_equal(place_mode_tie(fresh, again[0], again[0], &err), -EINVAL);
	assert_ok(place_mode_tie(fresh, again[0], again[1], &err));
	assert_int_equal(place_mode_tie(fresh, again[1], again[0], &err), -EINVAL);
	assert_contains(err.msg, "belongs to tenant");
	assert_int_equal(place_peer(fresh, again[1]), again[0]);
	assert_int_equal(place_network_free_mbit(fresh, 2), 400);
}

/*
 * Nodes "first" and "second" have a device. "client" has none, but all three have network devices
 * of one kind. "idle" has neither.
 */
static struct place *three_new(uint32_t latency_us)
{
	const struct place_config config = {.policy = &place_first_fit};
	const struct place_device_info device = {.memory_bytes = GIB};
	struct place_node_info info = {.cpu_milli = 0, .devices = &device, .n_devices = 1};
	static const char *const names[] = {"first", "second", "client", "idle"};
	struct place *place = NULL;
	uint32_t node, network;
	uint64_t bit;

	assert_ok(place_new(&config, &place, NULL));
	assert_ok(place_model(place, "A", &bit, NULL));
	for (uint32_t i = 0; i < 4; i++) {
		info.name = names[i];
		info.cpu_milli = i >= 2 ? 1000 : 0;
		info.n_devices = i < 2;
		assert_ok(place_node_add(place, &info, &node, NULL));
		assert_ok(place_network_add(place,
			&(struct place_network_info){
				.node = node, .mbit = 1000, .latency_us = latency_us},
			&network, NULL));
	}
	return place;
}

struct barred {
	uint32_t server, client; /* nodes; PLACE_NONE: none */
};

static uint64_t bar(void *arg, const struct place_spec *spec, uint32_t node, const uint32_t *gone,
	uint32_t n_gone)
{
	const struct barred *barred = arg;

	if (spec->network[0])
		return node == barred->server ? 0 : UINT64_MAX;
	if (!spec->count)
		return node == barred->client ? 0 : UINT64_MAX;
	return UINT64_MAX;
}

static void both_ends_pass_the_filter(void **state)
{
	_cleanup_place_ struct place *place = three_new(10);
	struct place_mode_params params = {.spec = PLACE_SPEC_INIT, .least_mbit = 100};
	struct barred barred = {PLACE_NONE, PLACE_NONE};
	struct place_decision d;

	params.spec.share = 500;
	params.spec.cpu_milli = 100;
	place_set_filter(place, bar, &barred);
	assert_ok(place_mode_choose(place, &params, &d, NULL));
	assert_int_equal(d.outcome, PLACE_REMOTE);
	assert_int_equal(d.choice.node, 0);
	assert_int_equal(d.client.node, 2);
	barred = (struct barred){.server = 0, .client = 2};
	assert_ok(place_mode_choose(place, &params, &d, NULL));
	assert_int_equal(d.outcome, PLACE_REMOTE);
	assert_int_equal(d.choice.node, 1);
	assert_int_equal(d.client.node, 3);
	place_set_filter(place, NULL, NULL);
}

static void a_latency_limit_needs_a_known_latency(void **state)
{
	_cleanup_place_ struct place *place = three_new(PLACE_LATENCY_UNKNOWN);
	struct place_mode_params params = {.spec = PLACE_SPEC_INIT};
	struct place_decision d;

	params.spec.share = 500;
	params.spec.cpu_milli = 100;
	assert_ok(place_mode_choose(place, &params, &d, NULL));
	assert_string_equal(d.why,
		"remote: runs on client, device on first over RDMA or SR-IOV, 2 hops, load 0%");
	params.most_latency_us = PLACE_LATENCY_MAX;
	assert_ok(place_mode_choose(place, &params, &d, NULL));
	assert_int_equal(d.outcome, PLACE_QUEUED);
}

#define SAID "remote: runs on client, device on %s over RDMA or SR-IOV, 2 hops"

static void assert_device_on(struct place *place, const struct place_mode_params *params,
	const char *server, const char *says)
{
	struct place_decision d;
	char why[PLACE_MODE_WHY];

	assert_ok(place_mode_choose(place, params, &d, NULL));
	snprintf(why, sizeof(why), SAID "%s, load %s", server, says,
		format_percent(2 * params->least_mbit).s);
	assert_string_equal(d.why, why);
}

static void a_measurement_between_two_nodes_decides(void **state)
{
	_cleanup_place_ struct place *place = three_new(PLACE_LATENCY_UNKNOWN);
	struct place_mode_params params = {.spec = PLACE_SPEC_INIT};
	struct place_path paths[] = {{"first", 180, 9000}, {"second", 90, 0}};
	struct place_path found;
	struct place_decision d;

	params.spec.share = 500;
	params.spec.cpu_milli = 100;
	/*
	 * Measured paths come before unmeasured paths, and a shorter round trip before a longer
	 * one.
	 */
	assert_ok(place_paths_set(place, 1, &(struct place_path){"client", 400, 500}, 1, NULL));
	assert_device_on(place, &params, "second", ", 400 us and 500 Mbit/s measured");
	assert_ok(place_paths_set(place, 2, paths, 2, NULL));
	assert_device_on(place, &params, "second", ", 90 us");
	assert_true(place_path_get(place, 2, 1, &found));
	assert_int_equal(found.latency_us, 90);
	/* A measurement counts in both directions. */
	assert_true(place_path_get(place, 0, 2, &found));
	assert_int_equal(found.mbit, 9000);
	assert_false(place_path_get(place, 3, 0, &found));
	params.least_mbit = 500;
	/*
	 * Both round trips are between the same powers of two now, so load and order of nodes
	 * decide.
	 */
	paths[1].latency_us = 130;
	assert_ok(place_paths_set(place, 2, paths, 2, NULL));
	assert_device_on(place, &params, "first", ", 180 us and 9000 Mbit/s measured");
	/*
	 * Now one path has too little bandwidth; further below, the other has too long a round
	 * trip.
	 */
	paths[0].mbit = 499;
	assert_ok(place_paths_set(place, 2, paths, 2, NULL));
	assert_device_on(place, &params, "second", ", 130 us");
	params.most_latency_us = 130;
	assert_device_on(place, &params, "second", ", 130 us");
	params.most_latency_us = 129;
	assert_ok(place_mode_choose(place, &params, &d, NULL));
	assert_int_equal(d.outcome, PLACE_QUEUED);
}

/*
 * A measurement names the other node, so it holds again when that node returns under another
 * number.
 */
static void measurements_follow_their_node(void **state)
{
	_cleanup_place_ struct place *place = three_new(PLACE_LATENCY_UNKNOWN);
	struct place_node_info info = {.name = "other"};
	struct place_path found;
	uint32_t other, second;

	assert_ok(place_paths_set(place, 2, &(struct place_path){"second", 90, 0}, 1, NULL));
	assert_true(place_path_get(place, 2, 1, &found));
	assert_ok(place_node_remove(place, 1, NULL));
	assert_false(place_path_get(place, 2, 1, &found));
	assert_ok(place_node_add(place, &info, &other, NULL));
	assert_false(place_path_get(place, 2, other, &found));
	info.name = "second";
	assert_ok(place_node_add(place, &info, &second, NULL));
	assert_true(place_path_get(place, 2, second, &found));
	/* A removed node loses its own measurements. */
	assert_ok(place_node_remove(place, 2, NULL));
	assert_false(place_path_get(place, second, 2, &found));
	info.name = "client";
	assert_ok(place_node_add(place, &info, &other, NULL));
	assert_false(place_path_get(place, other, second, &found));
}

static void impossible_measurements_are_refused(void **state)
{
	_cleanup_place_ struct place *place = three_new(0);
	struct place_path paths[PLACE_PATHS_MAX + 1], found;
	struct error err = {0};

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		paths[i] = (struct place_path){"first", 1, 1};
	assert_ok(place_paths_set(place, 3, paths, PLACE_PATHS_MAX, &err));
	assert_int_equal(place_paths_set(place, 3, paths, PLACE_PATHS_MAX + 1, &err), -EINVAL);
	assert_contains(err.msg, "65 measurements of a node: up to 64");
	paths[0].latency_us = PLACE_LATENCY_MAX + 1;
	assert_int_equal(place_paths_set(place, 3, paths, 1, &err), -EINVAL);
	assert_contains(err.msg, "latency 1000000001");
	paths[0] = (struct place_path){"first", 1, PLACE_MBIT_MAX + 1};
	assert_int_equal(place_paths_set(place, 3, paths, 1, &err), -EINVAL);
	assert_contains(err.msg, "bandwidth 1000000001");
	assert_int_equal(place_paths_set(place, 9, paths, 0, &err), -EINVAL);
	assert_contains(err.msg, "no node 9");
	/* The refused calls changed nothing. */
	assert_true(place_path_get(place, 3, 0, &found));
	assert_int_equal(found.latency_us, 1);
}

/*
 * The second network device is a function of the first, and has only the bandwidth that is left of
 * the first.
 */
static void a_network_within_another_shares_its_bandwidth(void **state)
{
	_cleanup_place_ struct place *place = three_new(0);
	struct place_network_info info = {
		.node = 0, .kind = PLACE_NETWORK_HOST, .mbit = 800, .within = 1};
	struct place_spec spec = PLACE_SPEC_INIT;
	struct place_choice choice = {.n = 1};
	struct error err = {0};
	uint32_t part, other, tenant;

	assert_ok(place_network_add(place, &info, &part, &err));
	info.within = part;
	assert_int_equal(place_network_add(place, &info, &other, &err), -EINVAL);
	assert_contains(err.msg, "expected one of node 0 that shares no bandwidth");
	info.within = 2;
	assert_int_equal(place_network_add(place, &info, &other, &err), -EINVAL);
	spec.share = 100;
	spec.network[0] = part;
	spec.network_mbit = 700;
	assert_ok(place_add(place, &spec, &choice, &tenant, &err));
	assert_int_equal(place_network_free_mbit(place, 1), 300);
	assert_int_equal(place_network_free_mbit(place, part), 100);
	spec.network[0] = 1;
	spec.network_mbit = 250;
	assert_ok(place_add(place, &spec, &choice, &other, &err));
	assert_int_equal(place_network_free_mbit(place, part), 50);
	spec.network[0] = part;
	spec.network_mbit = 51;
	assert_int_equal(place_add(place, &spec, &choice, &other, &err), -ENOSPC);
	assert_contains(err.msg, "50 Mbit/s are free, 51 are requested");
	assert_ok(place_remove(place, tenant));
	assert_int_equal(place_network_free_mbit(place, part), 750);
	assert_int_equal(place_network_remove(place, 1, &err), -EBUSY);
}

UNIT_MAIN(UNIT(the_search_equals_a_search_of_all_pairs), UNIT(impossible_modes_are_refused),
	UNIT(a_network_belongs_to_its_node), UNIT(halves_are_evicted_together),
	UNIT(halves_count_once), UNIT(restored_halves_are_joined_again),
	UNIT(both_ends_pass_the_filter), UNIT(a_latency_limit_needs_a_known_latency),
	UNIT(a_measurement_between_two_nodes_decides), UNIT(measurements_follow_their_node),
	UNIT(impossible_measurements_are_refused),
	UNIT(a_network_within_another_shares_its_bandwidth))
