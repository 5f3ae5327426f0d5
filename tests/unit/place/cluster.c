/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cluster.h"
#include "place/place-held.h"
#include "place/place-internal.h"
#include "place/place-mode.h"
#include "place/place-queue.h"

static uint32_t below(struct rand *rand, uint32_t n)
{
	return (uint32_t)rand_below(rand, n);
}

struct place *cluster_new(
	struct rand *rand, const struct place_policy *policy, uint32_t n, uint32_t n_devices_max)
{
	const struct place_config config = {.policy = policy};
	static const char *const racks[] = {"r0", "r1", "r2", ""};
	struct place *place = NULL;
	uint64_t bit;

	assert_ok(place_new(&config, &place, NULL));
	assert_ok(place_model(place, "A", &bit, NULL));
	assert_ok(place_model(place, "B", &bit, NULL));
	for (uint32_t i = 0; i < n; i++) {
		struct place_device_info devices[PLACE_NODE_DEVICES_MAX] = {0};
		char name[16];
		struct place_node_info info = {.name = name,
			.rack = racks[below(rand, 4)],
			.cpu_milli = 4000 + 4000 * below(rand, 4),
			.memory_bytes = (16 + 16 * below(rand, 4)) * GIB,
			.n_tenants_max = below(rand, 4) ? 0 : 4 + below(rand, 6),
			.n_devices = 1 + below(rand, n_devices_max),
			.devices = devices};
		uint32_t model = below(rand, 2), node;

		for (uint32_t d = 0; d < info.n_devices; d++)
			devices[d] = (struct place_device_info){
				.model = model, .memory_bytes = 16 * GIB, .numa = (uint8_t)(d / 2)};
		snprintf(name, sizeof(name), "n%u", i);
		assert_ok(place_node_add(place, &info, &node, NULL));
	}
	return place;
}

struct place *cluster_by_hand(const struct place_policy *policy, const struct place_cells *cells)
{
	const struct place_config config = {.policy = policy, .cells = cells};
	struct place *place = NULL;
	uint64_t bit;

	assert_ok(place_new(&config, &place, NULL));
	assert_ok(place_model(place, "V100", &bit, NULL));
	return place;
}

uint32_t cluster_add_node(
	struct place *place, const char *name, const char *rack, const char *numa, const char *link)
{
	struct place_device_info devices[8] = {0};
	const struct place_node_info info = {.name = name,
		.rack = rack,
		.cpu_milli = 32000,
		.memory_bytes = 64 * GIB,
		.n_devices = (uint32_t)strlen(link),
		.devices = devices};
	uint32_t node;

	for (uint32_t i = 0; i < info.n_devices; i++)
		devices[i] = (struct place_device_info){.memory_bytes = 16 * GIB,
			.numa = (uint8_t)(numa ? numa[i] - '0' : (int)(i * 2 / info.n_devices)),
			.link = (uint8_t)(link[i] - '0')};
	assert_ok(place_node_add(place, &info, &node, NULL));
	return place->nodes[node].first_device;
}

uint32_t cluster_put(struct place *place, struct place_spec spec, uint32_t device)
{
	const struct place_choice choice = {
		.node = place->devices[device].node, .n = 1, .device = {device}};
	uint32_t tenant;

	assert_ok(place_add(place, &spec, &choice, &tenant, NULL));
	return tenant;
}

/*
 * Counts how many of b's anti-affinity labels conflict with a's; at least one of the two labels
 * must be a preferred one.
 */
static uint32_t is_apart(const struct place_spec *a, const struct place_spec *b)
{
	const uint32_t wish = b->preferred_anti_affinity == b->anti_affinity
		? 0
		: b->preferred_anti_affinity;
	uint32_t n = 0;

	n += wish && (wish == a->preferred_anti_affinity || wish == a->anti_affinity);
	n += b->anti_affinity && b->anti_affinity == a->preferred_anti_affinity;
	return n;
}

uint32_t *cluster_met(const struct place *place, const struct place_spec *spec)
{
	uint32_t *met = calloc(place->n_devices + 1ul, sizeof(*met));

	assert_non_null(met);
	for (uint32_t i = 0; i < place->n_tenants; i++) {
		const struct place_tenant *t = place_tenant(place, i);

		for (uint32_t k = 0; t && !t->is_terminating && k < t->n; k++)
			met[t->device[k]] += is_apart(spec, &t->spec);
	}
	return met;
}

uint32_t cluster_fewest(const struct place *place, const struct place_spec *spec, uint32_t node,
	const uint32_t *met)
{
	uint64_t mask = place_eligible(place, spec, node);
	uint32_t sum = 0;

	for (uint32_t k = 0; k < spec->count; k++) {
		uint32_t least = UINT32_MAX;
		int at = 0;

		assert_true(mask != 0);
		for (uint64_t left = mask; left; left &= left - 1) {
			const int i = __builtin_ctzll(left);
			const uint32_t n = met[place->nodes[node].first_device + (uint32_t)i];

			at = n < least ? i : at;
			least = n < least ? n : least;
		}
		sum += least;
		mask &= ~(1ull << at);
	}
	return sum;
}

uint32_t cluster_device_for(struct place *place, struct place_spec spec)
{
	struct place_choice choice;
	const int r = place_find(place, &spec, &choice, NULL);

	if (r == -ENOSPC)
		return PLACE_NONE;
	assert_ok(r);
	return choice.device[0];
}

struct place_spec cluster_spec(struct rand *rand, struct place *place)
{
	struct place_spec spec = PLACE_SPEC_INIT;
	uint32_t label[3] = {0};

	assert_ok(place_label(place, "", "a", &label[1], NULL));
	assert_ok(place_label(place, "", "b", &label[2], NULL));
	spec.share = 100 * (1 + below(rand, 10));
	spec.count = below(rand, 4) ? 1 : below(rand, 4);
	if (!spec.count)
		spec.share = 0;
	spec.is_exclusive = spec.share == 1000 && below(rand, 2);
	spec.device_bytes = spec.count && below(rand, 2) ? (1 + below(rand, 8)) * GIB : 0;
	spec.cpu_milli = 500 * below(rand, 5);
	spec.memory_bytes = below(rand, 4) * GIB;
	spec.models = below(rand, 3) ? 0 : 1 + below(rand, 2);
	if (spec.count) {
		spec.affinity = label[below(rand, 8) ? 0 : 1 + below(rand, 2)];
		spec.anti_affinity = label[below(rand, 8) ? 0 : 1 + below(rand, 2)];
		spec.exclusion = label[below(rand, 8) ? 0 : 1 + below(rand, 2)];
	}
	spec.priority = 10 * below(rand, 6);
	spec.started = below(rand, 1000);
	/*
	 * `started` decides, so that no further random number is drawn: a fifth of the specs have
	 * preferred anti-affinity, half of them for the label "a".
	 */
	if (spec.count && spec.started % 10 < 2)
		spec.preferred_anti_affinity = label[1 + spec.started % 10];
	spec.is_movable = below(rand, 4) != 0;
	return spec;
}

void cluster_fill(struct rand *rand, struct place *place, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		struct place_spec spec = cluster_spec(rand, place);
		struct place_choice choice;
		uint32_t tenant;

		if (place_find(place, &spec, &choice, NULL) == 0)
			assert_ok(place_add(place, &spec, &choice, &tenant, NULL));
	}
}

static uint64_t mix(uint64_t digest, const void *p, size_t n)
{
	const unsigned char *bytes = p;

	for (size_t i = 0; i < n; i++)
		digest = (digest ^ bytes[i]) * 0x100000001b3u;
	return digest;
}

#define MIX(value) (digest = mix(digest, &(value), sizeof(value)))

uint64_t cluster_digest(const struct place *place)
{
	uint64_t digest = 0xcbf29ce484222325u;

	MIX(place->n_placed);
	for (uint32_t at = 0; at < place->n_nodes; at++) {
		MIX(place->cpu_free[at]);
		MIX(place->memory_free[at]);
		MIX(place->nodes[at].n_tenants);
		MIX(place->nodes[at].n_terminating);
		for (uint32_t i = 0; i < place->held[at].n; i++) {
			MIX(place->held[at].list[i].tenant);
			MIX(place->held[at].list[i].devices);
			MIX(place->held[at].list[i].share);
		}
	}
	for (uint32_t at = 0; at < place->n_devices; at++) {
		const struct device *d = &place->devices[at];
		uint64_t tags = 0;

		MIX(place->share_free[at]);
		MIX(place->share_open[at]);
		MIX(d->memory_free);
		MIX(d->n_tenants);
		MIX(d->n_terminating);
		/* the sum does not depend on the order of tags */
		for (uint32_t i = 0; i < d->n_tags; i++)
			tags += mix(7, &d->tags[i], sizeof(d->tags[i]));
		MIX(tags);
	}
	for (uint32_t i = 0; i < place->n_tenants; i++) {
		const struct place_tenant *t = &place->tenants[i];
		uint32_t peer;

		if (t->node == PLACE_NONE)
			continue; /* the number of free slots may differ */
		MIX(i);
		MIX(t->node);
		MIX(t->device);
		MIX(t->is_terminating);
		MIX(t->spec.share);
		MIX(t->bytes);
		MIX(t->spec.cpu_milli);
		MIX(t->spec.memory_bytes);
		MIX(t->spec.priority);
		MIX(t->spec.budget);
		MIX(t->spec.preferred_anti_affinity);
		MIX(t->spec.queue);
		MIX(t->spec.network);
		peer = place_peer(place, i);
		MIX(peer);
	}
	for (uint32_t q = 1; q <= place_queue_n(place); q++) {
		uint64_t used = place_queue_used(place, q, PLACE_NONE);

		MIX(used);
	}
	for (uint32_t i = 1; i <= place_network_n(place); i++) {
		uint32_t mbit = place_network_free_mbit(place, i);

		MIX(mbit);
	}
	return digest;
}

void cluster_check(const struct place *place)
{
	int64_t idle[PLACE_MODELS_MAX] = {0};

	for (uint32_t at = 0; at < place->n_nodes; at++) {
		const struct node *node = &place->nodes[at];
		uint32_t share[PLACE_NODE_DEVICES_MAX] = {0}, n = 0, n_leaving = 0, cpu = 0;
		uint64_t memory[PLACE_NODE_DEVICES_MAX] = {0}, host = 0;

		for (uint32_t i = 0; i < place->n_tenants; i++) {
			const struct place_tenant *t = &place->tenants[i];

			if (t->node != at)
				continue;
			for (uint32_t k = 0; k < t->n && !t->is_terminating; k++) {
				share[t->device[k] - node->first_device] += t->spec.share;
				memory[t->device[k] - node->first_device] += t->bytes[k];
			}
			n++;
			n_leaving += t->is_terminating;
			cpu += t->spec.cpu_milli;
			host += t->spec.memory_bytes;
		}
		assert_int_equal(n - n_leaving, place->held[at].n);
		assert_int_equal(n_leaving, node->n_terminating);
		assert_int_equal(cpu, node->cpu_taken);
		assert_int_equal(host, node->memory_taken);
		assert_true(n_leaving || (cpu <= node->cpu_all && host <= node->memory_all));
		for (uint32_t d = 0; d < node->n_devices; d++) {
			assert_true(share[d] <= 1000);
			assert_int_equal(
				1000 - share[d], place->share_free[node->first_device + d]);
			assert_int_equal(
				place->devices[node->first_device + d].memory_all - memory[d],
				place->devices[node->first_device + d].memory_free);
			if (node->is_used && !node->is_closed &&
				!place->devices[node->first_device + d].is_closed)
				idle[place->devices[node->first_device + d].model] += 1000 -
					share[d];
		}
	}
	for (uint32_t m = 0; m < PLACE_MODELS_MAX; m++)
		assert_int_equal(idle[m], place->idle[m]);
}
