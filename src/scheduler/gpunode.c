/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the JSON of a GPUNode into arrays with a maximum for each list and for each text. A faulty
 * item is left out, and reading continues; the caller gets the first fault, or -ENOMEM instead of a
 * fault. Networks, peers and tenants share read_items(), which finds array and count by offsets.
 * Each device, network and peer is checked against those read before, so UUIDs and names stay
 * unique.
 */
#include "scheduler/gpunode.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "kube/time.h"
#include "manifest/cordon.h"
#include "manifest/policy.h"

static uint64_t number_at(const json_t *json, const char *key, uint64_t most)
{
	const json_int_t n = json_integer_value(json_object_get(json, key));

	return n < 0 ? 0 : MIN((uint64_t)n, most);
}

/* A field's value as text for a message, cut after 71 bytes. */
struct shown {
	char s[72];
};

static struct shown gpunode_show_text(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);
	_cleanup_free_ char *text = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT)
					  : NULL;
	struct shown shown;

	snprintf(shown.s, sizeof(shown.s), "%s", text ? text : "nothing");
	return shown;
}

/*
 * Returns and keeps in `err` the first fault: `before` if there was one, else the fault of item i.
 */
static int left_out(
	int before, int now, const char *list, size_t i, const struct error *why, struct error *err)
{
	if (before < 0 || now == 0)
		return before;
	return fail(err, -now, "status.%s[%zu].%s", list, i, why->msg);
}

static bool gpunode_is_shared(const json_t *device)
{
	const char *owner = kube_json_text(device, "owner");

	return !*owner || !strcmp(owner, "divvy") || !strcmp(owner, "pool");
}

static void show_taint(const json_t *taint, struct gpunode_taint *ret)
{
	const char *value = kube_json_text(taint, "value");

	snprintf(ret->text, sizeof(ret->text), "%s%s%s:%s", kube_json_text(taint, "key"),
		*value ? "=" : "", value, kube_json_text(taint, "effect"));
}

/* Reads the taints. A time that is not valid counts as long ago. -ENOMEM. */
static int read_taints(const json_t *taints, struct gpunode_device *ret)
{
	json_t *one;
	size_t i;

	json_array_foreach(taints, i, one) {
		const char *text = kube_json_text(one, "effect");
		const enum gpunode_effect effect = !strcmp(text, "NoExecute") ? GPUNODE_NO_EXECUTE
			: !strcmp(text, "NoSchedule")                         ? GPUNODE_NO_SCHEDULE
									      : GPUNODE_NO_EFFECT;
		uint64_t ns = 0;

		if (effect && !ret->taint)
			ret->taint = calloc(GPUNODE_EFFECTS, sizeof(*ret->taint));
		if (effect && !ret->taint)
			return -ENOMEM;
		(void)kube_time_parse(str_from(kube_json_text(one, "timeAdded")), &ns);
		for (unsigned e = GPUNODE_NO_SCHEDULE; e <= effect; e++) {
			if (e <= ret->effect && ns >= ret->taint[e].since_ns)
				continue;
			ret->taint[e].since_ns = ns;
			show_taint(one, &ret->taint[e]);
		}
		ret->effect = MAX(ret->effect, effect);
	}
	return 0;
}

static enum gpunode_closed why_closed(
	const json_t *gpu_node, const json_t *device, enum gpunode_effect effect)
{
	const char *owner = kube_json_text(json_object_get(gpu_node, "status"), "owner");

	if (cordon_has(gpu_node, kube_json_text(device, "uuid")))
		return GPUNODE_CORDONED;
	if (strcmp(kube_json_text(device, "health"), "Healthy") != 0 || effect)
		return GPUNODE_UNHEALTHY;
	if (gpunode_is_shared(device) && strcmp(owner, "none") != 0)
		return GPUNODE_OPEN;
	return !strcmp(owner, "pool") ? GPUNODE_NOT_TAKEN : GPUNODE_NOT_OURS;
}

enum gpunode_closed gpunode_closed(const struct gpunode *g)
{
	for (uint32_t d = 1; d < g->n_devices; d++)
		if (g->device[d].closed != g->device[0].closed)
			return GPUNODE_OPEN;
	return g->n_devices ? g->device[0].closed : GPUNODE_OPEN;
}

const char *gpunode_closed_text(enum gpunode_closed closed)
{
	static const char *const texts[] = {
		[GPUNODE_OPEN] = "the node's divvyd does not answer",
		[GPUNODE_CORDONED] = "cordoned",
		[GPUNODE_UNHEALTHY] = "unhealthy",
		[GPUNODE_NOT_TAKEN] = "GPUs still owned by another device plugin",
		[GPUNODE_NOT_OURS] = "GPUs not managed by divvy",
	};

	return texts[closed];
}

static int read_device(const json_t *json, struct gpunode_device *ret, struct error *err)
{
	const char *model = kube_json_text(json, "model");

	if (!*kube_json_text(json, "uuid") ||
		str_copy(ret->uuid, sizeof(ret->uuid), str_from(kube_json_text(json, "uuid"))) < 0)
		return fail(err, EINVAL, "uuid %s: 1 to %zu characters are possible",
			gpunode_show_text(json, "uuid").s, sizeof(ret->uuid) - 1);
	ret->memory_bytes = number_at(json, "memoryBytes", UINT64_MAX);
	if (!json_is_integer(json_object_get(json, "memoryBytes")) ||
		json_integer_value(json_object_get(json, "memoryBytes")) < 0 ||
		ret->memory_bytes > PLACE_DEVICE_BYTES_MAX)
		return fail(err, EINVAL, "memoryBytes %s: 0 to %" PRIu64 " are possible",
			gpunode_show_text(json, "memoryBytes").s, PLACE_DEVICE_BYTES_MAX);
	/* A model name that is too long is cut. */
	snprintf(ret->model, sizeof(ret->model), "%s", *model ? model : "GPU");
	ret->index = (uint32_t)number_at(json, "index", 1023);
	ret->numa = (uint8_t)number_at(json, "numa", 255);
	return 0;
}

/*
 * Gives devices that are connected by links, directly or by other devices, the same number in
 * `link`.
 */
static void gpunode_link_devices(const json_t *devices, struct gpunode *g)
{
	json_t *one, *link;
	size_t i, k;

	for (uint32_t d = 0; d < g->n_devices; d++)
		g->device[d].link = (uint8_t)d;
	json_array_foreach(devices, i, one) {
		const struct gpunode_device *a = gpunode_find(g, kube_json_text(one, "uuid"));

		json_array_foreach(json_object_get(one, "links"), k, link) {
			const struct gpunode_device *b = gpunode_find(
				g, kube_json_text(link, "uuid"));
			uint8_t from, to;

			if (!a || !b || !strcmp(kube_json_text(link, "kind"), "numa"))
				continue;
			from = b->link;
			to = a->link;
			for (uint32_t d = 0; d < g->n_devices; d++)
				if (g->device[d].link == from)
					g->device[d].link = to;
		}
	}
}

static int gpunode_read_devices(const json_t *json, struct gpunode *g, struct error *err)
{
	const json_t *status = json_object_get(json, "status");
	const json_t *devices = json_object_get(status, "devices");
	struct gpunode_device *fitting;
	struct error why;
	json_t *one;
	size_t i;
	int result = 0;

	g->device = calloc(PLACE_NODE_DEVICES_MAX, sizeof(*g->device));
	if (!g->device)
		return fail(err, ENOMEM, "out of memory");
	json_array_foreach(devices, i, one) {
		struct gpunode_device d = {.memory_bytes = 0};
		int r = read_device(one, &d, &why);

		if (r == 0 && gpunode_find(g, d.uuid))
			r = fail(&why, EINVAL, "uuid %s: occurs twice, but must be unique",
				gpunode_show_text(one, "uuid").s);
		else if (r == 0 && g->n_devices == PLACE_NODE_DEVICES_MAX)
			r = fail(&why, EINVAL, "uuid %s: a node has up to %u devices",
				gpunode_show_text(one, "uuid").s, PLACE_NODE_DEVICES_MAX);
		result = left_out(result, r, "devices", i, &why, err);
		if (r < 0)
			continue;
		if (read_taints(json_object_get(one, "taints"), &d) < 0)
			return fail(err, ENOMEM, "out of memory");
		d.closed = why_closed(json, one, d.effect);
		g->device[g->n_devices++] = d;
	}
	gpunode_link_devices(devices, g);
	/* A cluster has thousands of nodes, most of them with few devices. */
	fitting = realloc(g->device, MAX(g->n_devices, 1u) * sizeof(*g->device));
	g->device = fitting ? fitting : g->device;
	return result;
}

static int word_of(const char *text, const char *(*name)(int), int n, int otherwise)
{
	for (int i = 0; i < n; i++)
		if (!strcmp(text, name(i)))
			return i;
	return otherwise;
}

static const char *gpunode_class_name(int i)
{
	return spec_class_name((enum spec_class)i);
}

static const char *gpunode_mode_name(int i)
{
	return spec_mode_name((enum spec_mode)i);
}

static int read_tenant(
	const json_t *json, const struct gpunode *g, void *ret_tenant, struct error *err)
{
	struct gpunode_tenant *ret = ret_tenant;
	const json_t *devices = json_object_get(json, "devices");
	const json_t *memory = json_object_get(json, "memoryBytes");
	struct assigned_container *c = &ret->is;

	*ret = (struct gpunode_tenant){0};
	if (str_copy(ret->uid, sizeof(ret->uid), str_from(kube_json_text(json, "podUID"))) < 0)
		return fail(err, EINVAL, "podUID %s: up to %zu characters are possible",
			gpunode_show_text(json, "podUID").s, sizeof(ret->uid) - 1);
	if (str_copy(c->name, sizeof(c->name), str_from(kube_json_text(json, "container"))) < 0)
		return fail(err, EINVAL, "container %s: up to %zu characters are possible",
			gpunode_show_text(json, "container").s, sizeof(c->name) - 1);
	for (size_t i = 0; i < json_array_size(devices) && c->n < SPEC_DEVICES_MAX; i++) {
		const char *uuid = json_string_value(json_array_get(devices, i));
		const json_int_t bytes = json_integer_value(json_array_get(memory, i));

		if (!uuid || str_copy(c->device[c->n], SPEC_LABEL, str_from(uuid)) < 0)
			continue;
		c->memory_bytes[c->n++] = bytes < 0 ? 0 : (uint64_t)bytes;
	}
	if (!c->n)
		return fail(err, EINVAL, "devices %s: 1 to %u UUIDs are possible",
			gpunode_show_text(json, "devices").s, SPEC_DEVICES_MAX);
	c->request = (uint32_t)MAX(number_at(json, "request", SPEC_SHARE_ONE), UINT64_C(1));
	c->limit = (uint32_t)number_at(json, "limit", SPEC_SHARE_ONE);
	c->priority = (uint32_t)number_at(json, "priority", 100);
	c->class = (enum spec_class)word_of(kube_json_text(json, "class"), gpunode_class_name,
		SPEC_OPPORTUNISTIC + 1, SPEC_STANDARD);
	c->mode = (enum spec_mode)word_of(kube_json_text(json, "mode"), gpunode_mode_name,
		SPEC_MODE_REMOTE + 1, SPEC_MODE_LOCAL);
	/* An exclusive tenant has the whole device, whatever value `request` has. */
	if (c->mode == SPEC_MODE_EXCLUSIVE)
		c->request = SPEC_SHARE_ONE;
	return 0;
}

static int gpunode_read_network(
	const json_t *json, const struct gpunode *g, void *ret_network, struct error *err)
{
	struct gpunode_network *ret = ret_network;
	static const struct {
		const char *name;
		enum place_network_kind kind;
	} kinds[] = {
		{"rdma", PLACE_NETWORK_DIRECT},
		{"sriov", PLACE_NETWORK_DIRECT},
		{"host", PLACE_NETWORK_HOST},
		{"overlay", PLACE_NETWORK_OVERLAY},
	};
	const struct str name = str_from(kube_json_text(json, "name")),
			 link = str_from(kube_json_text(json, "link"));
	size_t kind = 0;

	*ret = (struct gpunode_network){
		.mbit = (uint32_t)number_at(json, "capacityMbps", UINT32_MAX)};
	if (!assigned_is_network(name))
		return fail(err, EINVAL, "name %s: no name of a network device",
			gpunode_show_text(json, "name").s);
	if (!ret->mbit || ret->mbit > PLACE_MBIT_MAX)
		return fail(err, EINVAL, "capacityMbps %s: 1 to %u are possible",
			gpunode_show_text(json, "capacityMbps").s, PLACE_MBIT_MAX);
	if (json_object_get(json, "link") && !assigned_is_network(link))
		return fail(err, EINVAL, "link %s: no name of a network device",
			gpunode_show_text(json, "link").s);
	str_copy(ret->name, sizeof(ret->name), name);
	str_copy(ret->link, sizeof(ret->link), link);
	while (kind < ARRAY_SIZE(kinds) &&
		strcmp(kube_json_text(json, "kind"), kinds[kind].name) != 0)
		kind++;
	if (kind == ARRAY_SIZE(kinds))
		return fail(err, EINVAL, "kind %s: rdma, sriov, host and overlay are possible",
			gpunode_show_text(json, "kind").s);
	ret->kind = kinds[kind].kind;
	return gpunode_find_network(g, ret->name) < g->n_networks
		? fail(err, EINVAL, "name \"%s\": occurs twice, but must be unique", ret->name)
		: 0;
}

static int gpunode_read_peer(
	const json_t *json, const struct gpunode *g, void *ret_peer, struct error *err)
{
	struct gpunode_peer *ret = ret_peer;
	const uint64_t us = number_at(json, "roundTripMicroseconds", UINT64_MAX),
		       bits = number_at(json, "bitsPerSecond", UINT64_MAX);

	*ret = (struct gpunode_peer){.latency_us = (uint32_t)us};
	if (!*kube_json_text(json, "name") ||
		str_copy(ret->name, sizeof(ret->name), str_from(kube_json_text(json, "name"))) < 0)
		return fail(err, EINVAL, "name %s: 1 to %zu characters are possible",
			gpunode_show_text(json, "name").s, sizeof(ret->name) - 1);
	if (!us || us > PLACE_LATENCY_MAX)
		return fail(err, EINVAL, "roundTripMicroseconds %s: 1 to %u are possible",
			gpunode_show_text(json, "roundTripMicroseconds").s, PLACE_LATENCY_MAX);
	if (bits / 1000000 > PLACE_MBIT_MAX)
		return fail(err, EINVAL, "bitsPerSecond %s: up to %u000000 are possible",
			gpunode_show_text(json, "bitsPerSecond").s, PLACE_MBIT_MAX);
	/* A slow path is at least 1 Mbit/s, because 0 means unmeasured. */
	ret->mbit = bits ? (uint32_t)MAX(bits / 1000000, UINT64_C(1)) : 0;
	return gpunode_find_peer(g, ret->name)
		? fail(err, EINVAL, "name \"%.100s\": occurs twice, but must be unique", ret->name)
		: 0;
}

/* How to read a list of the status into struct gpunode. */
struct item_list {
	const char *name;
	bool is_of_network;
	uint32_t max;
	/* bytes of an item; offsets of the array and of its count in struct gpunode */
	size_t size, items, n;
	int (*read)(const json_t *json, const struct gpunode *g, void *ret_item, struct error *err);
};

#define ITEMS(member, n_member, type) \
	sizeof(type), offsetof(struct gpunode, member), offsetof(struct gpunode, n_member)

static const struct item_list item_lists[] = {
	{"network.devices", true, GPUNODE_NETWORKS_MAX,
		ITEMS(network, n_networks, struct gpunode_network), gpunode_read_network},
	{"network.peers", true, GPUNODE_PEERS_MAX, ITEMS(peer, n_peers, struct gpunode_peer),
		gpunode_read_peer},
	{"tenants", false, GPUNODE_TENANTS_MAX, ITEMS(tenant, n_tenants, struct gpunode_tenant),
		read_tenant},
};

static int read_items(
	const json_t *json, const struct item_list *list, struct gpunode *g, struct error *err)
{
	const json_t *status = json_object_get(json, "status");
	const json_t *all = list->is_of_network
		? json_object_get(json_object_get(status, "network"), strchr(list->name, '.') + 1)
		: json_object_get(status, list->name);
	const size_t n = MIN(json_array_size(all), (size_t)list->max);
	uint32_t *n_read = (uint32_t *)((char *)g + list->n);
	char *items = calloc(n + 1, list->size);
	int result = 0;

	if (!items)
		return fail(err, ENOMEM, "out of memory");
	*(void **)((char *)g + list->items) = items;
	for (size_t i = 0; i < n; i++) {
		struct error why;
		int r = list->read(json_array_get(all, i), g, items + *n_read * list->size, &why);

		*n_read += r == 0;
		result = left_out(result, r, list->name, i, &why, err);
	}
	if (result == 0 && json_array_size(all) > n)
		return fail(err, EINVAL, "status.%s: %zu of them, up to %u are possible",
			list->name, json_array_size(all), list->max);
	return result;
}

/* Keeps the first error, but -ENOMEM replaces other errors. */
static int add_result(int before, int now, const struct error *why, struct error *err)
{
	return now < 0 && (before == 0 || now == -ENOMEM) ? fail(err, -now, "%s", why->msg)
							  : before;
}

int gpunode_read(const json_t *json, struct gpunode *ret, struct error *err)
{
	const json_t *status = json_object_get(json, "status");
	struct error later;
	int r;

	*ret = (struct gpunode){.slots_total = (uint32_t)number_at(
					json_object_get(status, "slots"), "total", 65535),
		.epoch = number_at(status, "epoch", INT64_MAX),
		.is_serving = *kube_json_text(json_object_get(status, "remote"), "address"),
		.overcommit_memory = policy_overcommit_memory(json_object_get(json, "spec"))};
	r = gpunode_read_devices(json, ret, err);
	for (size_t i = 0; i < ARRAY_SIZE(item_lists) && r != -ENOMEM; i++)
		r = add_result(r, read_items(json, &item_lists[i], ret, &later), &later, err);
	return r;
}

void gpunode_done(struct gpunode *gpunode)
{
	for (uint32_t i = 0; i < gpunode->n_devices; i++)
		free(gpunode->device[i].taint);
	free(gpunode->device);
	free(gpunode->tenant);
	free(gpunode->network);
	free(gpunode->peer);
	*gpunode = (struct gpunode){0};
}

const struct gpunode_device *gpunode_find(const struct gpunode *gpunode, const char *uuid)
{
	for (uint32_t i = 0; i < gpunode->n_devices; i++)
		if (!strcmp(gpunode->device[i].uuid, uuid))
			return &gpunode->device[i];
	return NULL;
}

uint32_t gpunode_find_network(const struct gpunode *gpunode, const char *name)
{
	uint32_t i = 0;

	while (i < gpunode->n_networks && strcmp(gpunode->network[i].name, name))
		i++;
	return i;
}

const struct gpunode_peer *gpunode_find_peer(const struct gpunode *gpunode, const char *name)
{
	for (uint32_t i = 0; i < gpunode->n_peers; i++)
		if (!strcmp(gpunode->peer[i].name, name))
			return &gpunode->peer[i];
	return NULL;
}
