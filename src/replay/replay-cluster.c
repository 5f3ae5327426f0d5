/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collects the nodes, models, queues and networks of a placement simulation, and builds a placement
 * model from them for each run. Entries are only appended before cluster_done(), so their numbers
 * stay valid. Numbers of queues begin at 1, because 0 stands for no queue. cluster_place() adds all
 * models first and in the cluster's order, so the placement model gives them the same numbers. If
 * the caller gives ranks, cluster_place() adds nodes in the order of ranks, and translates the node
 * numbers of networks. cluster_queues_check() builds a placement model without nodes that judges
 * the queues.
 */
#include "replay/replay-cluster.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/format.h"
#include "base/parse.h"
#include "place/place-cell.h"
#include "place/place-policy.h"
#include "place/place-queue.h"
#include "replay/openb.h"

/* cluster_like() gives a node this capacity for each of its devices */
#define LIKE_CPU_MILLI 16000u
#define LIKE_MEMORY_BYTES (64ull << 30)
#define LIKE_DEVICE_BYTES (16ull << 30)

void cluster_done(struct cluster *c)
{
	free(c->nodes);
	free(c->queues);
	free(c->networks);
	place_cells_free(c->cells);
	*c = (struct cluster){0};
}

int cluster_add(struct cluster *c, const struct cluster_node *node, struct error *err)
{
	uint64_t n_devices = 0;

	for (uint32_t i = 0; i < node->n_kinds; i++)
		n_devices += node->kinds[i].n_devices;
	if (n_devices > PLACE_NODE_DEVICES_MAX)
		return fail(err, EINVAL,
			"node '%s' with %" PRIu64 " devices: at most %u are allowed", node->name,
			n_devices, PLACE_NODE_DEVICES_MAX);
	if (c->n == PLACE_NODES_MAX)
		return fail(err, ENOSPC, "the cluster has more than %u nodes", PLACE_NODES_MAX);
	if (n_devices > CLUSTER_DEVICES_MAX - c->n_devices)
		return fail(err, ENOSPC, "node '%s': the cluster has more than %u devices",
			node->name, CLUSTER_DEVICES_MAX);
	if (array_grow(&c->nodes, &c->room, c->n + 1, sizeof(*c->nodes)) < 0)
		return fail(err, ENOMEM, "out of memory for %u nodes", c->n + 1);
	c->nodes[c->n] = *node;
	c->nodes[c->n++].n_devices = (uint32_t)n_devices;
	c->n_devices += (uint32_t)n_devices;
	for (uint32_t i = 0; i < node->n_kinds; i++)
		if (node->kinds[i].n_devices)
			c->device_bytes_max = MAX(c->device_bytes_max, node->kinds[i].device_bytes);
	return 0;
}

static int cluster_compare_name(const void *a, const void *b, void *context)
{
	const struct cluster_node *nodes = context;
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	const int order = strcmp(nodes[x].name, nodes[y].name);

	return order ? order : x < y ? -1 : x > y;
}

int cluster_check_names(const struct cluster *c, struct error *err)
{
	_cleanup_free_ uint32_t *order = calloc(c->n + 1ull, sizeof(*order));

	if (!order)
		return fail(err, ENOMEM, "out of memory for %u nodes", c->n);
	for (uint32_t i = 0; i < c->n; i++)
		order[i] = i;
	if (c->n)
		qsort_r(order, c->n, sizeof(*order), cluster_compare_name, c->nodes);
	for (uint32_t i = 1; i < c->n; i++) {
		const struct cluster_node *node = &c->nodes[order[i]];

		if (!strcmp(c->nodes[order[i - 1]].name, node->name))
			return fail(err, EINVAL, "line %u: two nodes have the name '%s'",
				node->line, node->name);
	}
	return 0;
}

int cluster_model(struct cluster *c, struct str name, uint32_t *ret_model, struct error *err)
{
	for (uint32_t i = 0; i < c->n_models; i++)
		if (str_is(name, c->models[i])) {
			*ret_model = i;
			return 0;
		}
	if (!name.n)
		return fail(err, EINVAL, "model '': expected a name of 1 to %u characters",
			SPEC_LABEL - 1);
	/*
	 * '|' separates alternative models in a request, so no task could request a model whose
	 * name contains '|'.
	 */
	if (str_find(name, '|') < name.n)
		return fail(err, EINVAL, "model '%" STR_FMT "': expected one model, without '|'",
			STR_ARG(name));
	if (c->n_models == PLACE_MODELS_MAX)
		return fail(err, ENOSPC,
			"model '%" STR_FMT "': the cluster has more than %u models", STR_ARG(name),
			PLACE_MODELS_MAX);
	if (str_copy(c->models[c->n_models], SPEC_LABEL, name) < 0)
		return fail(err, EINVAL, "model '%.*s...': the name has more than %u characters",
			32, name.p, SPEC_LABEL - 1);
	*ret_model = c->n_models++;
	return 0;
}

int cluster_models(struct cluster *c, struct str names, uint64_t *ret_bits, struct error *err)
{
	struct str name;
	uint64_t bits = 0;

	if (!names.n)
		names = STR_NONE;
	while (names.p && str_split(&names, '|', &name)) {
		uint32_t model;
		int r = cluster_model(c, str_trim(name), &model, err);

		if (r < 0)
			return r;
		bits |= 1ull << model;
	}
	*ret_bits = bits;
	return 0;
}

int cluster_read_openb(struct cluster *c, struct str text, struct error *err)
{
	_cleanup_free_ struct openb_node *rows = NULL;
	int n = openb_nodes(text, &rows, err), r = 0;

	for (int i = 0; i < n; i++) {
		struct cluster_node node = {.n_kinds = 1,
			.kinds = {{.n_devices = rows[i].n_devices}},
			.cpu_milli = rows[i].cpu_milli,
			.memory_bytes = rows[i].memory_bytes,
			.line = rows[i].line};
		const struct str model = rows[i].model.n ? rows[i].model : STR("any");

		r = str_copy(node.name, sizeof(node.name), rows[i].name);
		if (rows[i].n_devices)
			r = r < 0 ? r : cluster_model(c, model, &node.kinds[0].model, err);
		r = r < 0 ? r : cluster_add(c, &node, err);
		if (r < 0)
			return fail_within(err, r, "line %u", node.line);
	}
	return n < 0 ? n : cluster_check_names(c, err);
}

int cluster_like(struct cluster *c, struct str text, struct error *err)
{
	const size_t at = str_find(text, 'x');
	const struct str behind = {text.p + at + 1, at < text.n ? text.n - at - 1 : 0};
	struct cluster_node node = {.n_kinds = 1};
	struct cluster_kind *kind = &node.kinds[0];
	uint64_t nodes, devices;
	int r;

	if (parse_uint((struct str){text.p, at}, 1, PLACE_NODES_MAX, &nodes, NULL) < 0 ||
		parse_uint(behind, 1, PLACE_NODE_DEVICES_MAX, &devices, NULL) < 0)
		return fail(err, EINVAL,
			"'%" STR_FMT "': expected NODESxDEVICES such as 8x4, up to %ux%u",
			STR_ARG(text), PLACE_NODES_MAX, PLACE_NODE_DEVICES_MAX);
	if (nodes * devices > CLUSTER_DEVICES_MAX)
		return fail(err, EINVAL,
			"'%" STR_FMT "': %" PRIu64
			" devices need more than %s of memory; at most %u are allowed",
			STR_ARG(text), nodes * devices,
			format_bytes(nodes * devices * CLUSTER_DEVICE_COST).s, CLUSTER_DEVICES_MAX);
	r = cluster_model(c, STR("any"), &kind->model, err);
	kind->n_devices = (uint32_t)devices;
	kind->device_bytes = LIKE_DEVICE_BYTES;
	node.cpu_milli = LIKE_CPU_MILLI * kind->n_devices;
	node.memory_bytes = LIKE_MEMORY_BYTES * devices;
	for (uint64_t i = 0; r == 0 && i < nodes; i++) {
		snprintf(node.name, sizeof(node.name), "node-%04u", (unsigned int)i);
		r = cluster_add(c, &node, err);
	}
	return r;
}

/* ---- queues ---- */

int cluster_queue_add(struct cluster *c, const struct cluster_queue *queue, struct error *err)
{
	if (cluster_queue_find(c, str_from(queue->name)))
		return fail(err, EEXIST, "two queues have the name '%s'", queue->name);
	if (c->n_queues == PLACE_QUEUES_MAX)
		return fail(err, ENOSPC, "the cluster has more than %u queues", PLACE_QUEUES_MAX);
	if (array_grow(&c->queues, &c->queues_room, c->n_queues + 1ull, sizeof(*queue)) < 0)
		return fail(err, ENOMEM, "out of memory for %u queues", c->n_queues + 1);
	c->queues[c->n_queues++] = *queue;
	return 0;
}

uint32_t cluster_queue_find(const struct cluster *c, struct str name)
{
	for (uint32_t i = 0; i < c->n_queues; i++)
		if (str_is(name, c->queues[i].name))
			return i + 1;
	return 0;
}

int cluster_network_add(struct cluster *c, const struct cluster_network *network, struct error *err)
{
	if (network->node >= c->n)
		return fail(err, EINVAL, "network of node %u: the cluster has %u nodes",
			network->node, c->n);
	if (c->n_networks == PLACE_NETWORKS_MAX)
		return fail(
			err, ENOSPC, "the cluster has more than %u networks", PLACE_NETWORKS_MAX);
	if (array_grow(&c->networks, &c->networks_room, c->n_networks + 1ull,
		    sizeof(*c->networks)) < 0)
		return fail(err, ENOMEM, "out of memory for %u networks", c->n_networks + 1);
	c->networks[c->n_networks++] = *network;
	return 0;
}

struct queue_models {
	struct place_queue_model of[CLUSTER_QUEUE_MODELS];
};

static int cluster_set_queues(const struct cluster *c, struct place *place, struct error *err)
{
	_cleanup_free_ struct place_queue_info *infos = calloc(c->n_queues + 1ull, sizeof(*infos));
	_cleanup_free_ struct queue_models *models = calloc(c->n_queues + 1ull, sizeof(*models));
	uint32_t at;
	int r;

	if (!infos || !models)
		return fail(err, ENOMEM, "out of memory for queues");
	for (uint32_t i = 0; i < c->n_queues; i++) {
		const struct cluster_queue *q = &c->queues[i];

		infos[i] = (struct place_queue_info){.name = q->name,
			.parent = q->parent,
			.quota = q->quota,
			.limit = q->limit,
			.weight = q->weight,
			.models = models[i].of,
			.n_models = q->n_models};
		for (uint32_t m = 0; m < q->n_models; m++)
			models[i].of[m] = (struct place_queue_model){c->models[q->models[m].model],
				q->models[m].quota, q->models[m].limit};
	}
	r = place_queue_set(place, infos, c->n_queues, &at, err);
	return r < 0 && at < c->n_queues && c->queues[at].line
		? fail_within(err, r, "line %u", c->queues[at].line)
		: r;
}

int cluster_queues_check(const struct cluster *c, struct error *err)
{
	const struct place_config config = {.policy = &place_first_fit};
	struct place *place;
	int r = place_new(&config, &place, err);

	if (r < 0)
		return r;
	r = cluster_set_queues(c, place, err);
	place_free(place);
	return r;
}

/* ---- placement model ---- */

static int cluster_place_node(
	struct place *place, const struct cluster_node *node, struct error *err)
{
	struct place_device_info devices[PLACE_NODE_DEVICES_MAX] = {0};
	struct place_node_info info = {.name = node->name,
		.rack = node->rack,
		.cpu_milli = node->cpu_milli,
		.memory_bytes = node->memory_bytes,
		.n_devices = node->n_devices,
		.devices = devices};
	uint32_t id, at = 0;

	for (uint32_t kind = 0; kind < node->n_kinds; kind++)
		for (uint32_t i = 0; i < node->kinds[kind].n_devices; i++) {
			devices[at].model = node->kinds[kind].model;
			devices[at++].memory_bytes = node->kinds[kind].device_bytes;
		}
	return place_node_add(place, &info, &id, err);
}

static int add_networks(
	const struct cluster *c, const uint32_t *ranks, struct place *place, struct error *err)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < c->n_networks; i++) {
		const struct cluster_network *n = &c->networks[i];
		const struct place_network_info info = {.node = ranks ? ranks[n->node] : n->node,
			.kind = n->kind,
			.mbit = n->mbit,
			.latency_us = n->latency_us};
		uint32_t number;

		r = place_network_add(place, &info, &number, err);
	}
	return r;
}

int cluster_place(const struct cluster *c, const uint32_t *ranks, const struct place_policy *policy,
	struct place **ret_place, uint32_t *ret_index, struct error *err)
{
	const struct place_config config = {.policy = policy, .cells = c->cells};
	struct place *place;
	uint64_t bit;
	int r = place_new(&config, &place, err);

	if (r < 0)
		return r;
	for (uint32_t i = 0; i < c->n; i++)
		ret_index[ranks ? ranks[i] : i] = i;
	for (uint32_t i = 0; r == 0 && i < c->n_models; i++)
		r = place_model(place, c->models[i], &bit, err);
	for (uint32_t i = 0; r == 0 && i < c->n; i++)
		r = cluster_place_node(place, &c->nodes[ret_index[i]], err);
	r = r < 0 ? r : add_networks(c, ranks, place, err);
	if (r == 0 && c->n_queues)
		r = cluster_set_queues(c, place, err);
	if (r < 0) {
		place_free(place);
		return r;
	}
	*ret_place = place;
	return 0;
}
