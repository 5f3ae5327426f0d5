/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes, devices, labels and their use: see place.h. Every function that changes free capacity then
 * calls place_device_changed() or place_bounds_changed(), so that the search updates its bounds.
 */
#include "place/place.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "place/place-bounds.h"
#include "place/place-cell.h"
#include "place/place-held.h"
#include "place/place-internal.h"
#include "place/workload-mix.h"
#include "place/place-mode.h"
#include "place/place-policy.h"
#include "place/place-queue.h"
#include "place/place-search.h"

#define FACTOR_MIN 1000u
#define FACTOR_MAX 60000u /* SPEC_SHARE_ONE times a factor fits in the 16 bits of a share */
_Static_assert(PLACE_DEVICE_BYTES_MAX <= UINT64_MAX / FACTOR_MAX, "a product has 64 bits");

int place_new(const struct place_config *config, struct place **ret_place, struct error *err)
{
	struct place *place;
	int r;

	if ((config->share_factor && config->share_factor < FACTOR_MIN) ||
		config->share_factor > FACTOR_MAX)
		return fail(err, EINVAL, "share factor %u: 1000 to %u, in permille, is possible",
			config->share_factor, FACTOR_MAX);
	if ((config->memory_factor && config->memory_factor < FACTOR_MIN) ||
		config->memory_factor > FACTOR_MAX)
		return fail(err, EINVAL, "memory factor %u: 1000 to %u, in permille, is possible",
			config->memory_factor, FACTOR_MAX);
	place = calloc(1, sizeof(*place));
	if (!place)
		return fail(err, ENOMEM, "out of memory for a cluster");
	place->config = *config;
	place->tenant_free = PLACE_NONE;
	if (!place->config.share_factor)
		place->config.share_factor = FACTOR_MIN;
	if (!place->config.memory_factor)
		place->config.memory_factor = FACTOR_MIN;
	r = workload_mix_new(&place->mix);
	if (r == 0)
		r = place_bounds_new(place, &place->bounds);
	if (r == 0)
		r = place_search_new(&place->search);
	if (r == 0 && config->policy->start)
		r = config->policy->start(place);
	if (r < 0) {
		place_free(place);
		return fail(err, -r, "out of memory for a cluster");
	}
	*ret_place = place;
	return 0;
}

static void label_free(struct label *label)
{
	if (!label)
		return;
	for (int role = 0; role < N_ROLES; role++)
		free(label->devices[role]);
	free(label);
}

static void labels_leave(struct place *place, struct node *node)
{
	for (uint32_t i = 0; i < node->n_labels; i++)
		place->label_of[node->labels[i]]->n_uses--;
	free(node->labels);
}

static void node_done(struct place *place, struct node *node)
{
	labels_leave(place, node);
	free(node->name);
	free(node->rack);
	memset(node, 0, sizeof(*node));
}

void place_set_filter(struct place *place, place_filter_fn *filter, void *arg)
{
	place->filter = filter;
	place->filter_arg = arg;
}

void place_free(struct place *place)
{
	if (!place)
		return;
	if (place->config.policy->stop)
		place->config.policy->stop(place);
	place_bounds_free(place->bounds);
	place_search_free(place->search);
	workload_mix_free(place->mix);
	place_queue_free(place->queues);
	place_network_free(place->networks);
	place_paths_free(place->paths);
	HASH_CLEAR(hh, place->by_name);
	for (uint32_t i = 0; i < place->n_nodes; i++) {
		node_done(place, &place->nodes[i]);
		free(place->held[i].list);
	}
	HASH_CLEAR(hh, place->labels);
	for (uint32_t i = 1; i <= place->n_labels; i++)
		label_free(place->label_of[i]);
	free(place->held);
	for (uint32_t i = 0; i < place->n_devices; i++)
		free(place->devices[i].tags);
	place_groups_free(place);
	place_locality_done(place);
	free(place->label_of);
	free(place->label_gaps);
	free(place->nodes);
	free(place->cpu_free);
	free(place->memory_free);
	free(place->versions);
	free(place->devices);
	free(place->share_free);
	free(place->share_open);
	free(place->tenants);
	free(place->undo);
	free(place);
}

/* ---- names ---- */

/* Returns the index of the name, which is added if it is new. An empty name marks a free index. */
static int place_intern_name(char (*names)[SPEC_LABEL], uint32_t *n, uint32_t max, struct str name)
{
	uint32_t at = *n;

	for (uint32_t i = 0; i < *n; i++)
		if (str_eq(name, str_from(names[i])))
			return (int)i;
	for (uint32_t i = 0; i < *n && at == *n; i++)
		if (!names[i][0])
			at = i;
	if (at == max)
		return -ENOSPC;
	memcpy(names[at], name.p, name.n);
	names[at][name.n] = '\0';
	*n += at == *n;
	return (int)at;
}

static int name_check(struct str name, const char *what, struct error *err)
{
	if (name.n == 0 || name.n >= SPEC_LABEL)
		return fail(err, EINVAL, "%s '%" STR_FMT "': 1 to %u characters are possible", what,
			STR_ARG(name), SPEC_LABEL - 1);
	return 0;
}

int place_model(struct place *place, const char *name, uint64_t *ret_bit, struct error *err)
{
	int r = name_check(str_from(name), "model", err);

	if (r < 0)
		return r;
	r = place_intern_name(place->models, &place->n_models, PLACE_MODELS_MAX, str_from(name));
	if (r < 0)
		return fail(err, ENOSPC, "model '%s': %u models are known already", name,
			PLACE_MODELS_MAX);
	*ret_bit = 1ull << r;
	return 0;
}

const char *place_model_name(const struct place *place, uint32_t model)
{
	return model < place->n_models ? place->models[model] : "";
}

int place_taint(struct place *place, const char *name, uint64_t *ret_bit, struct error *err)
{
	int r = name_check(str_from(name), "taint", err);

	if (r < 0)
		return r;
	r = place_intern_name(place->taints, &place->n_taints, PLACE_TAINTS_MAX, str_from(name));
	if (r < 0)
		return fail(err, ENOSPC, "taint '%s': %u taints are known already", name,
			PLACE_TAINTS_MAX);
	*ret_bit = 1ull << r;
	return 0;
}

#define LABEL_NO_NS 1
#define LABEL_NO_NAME 2
#define LABEL_TEXT_MAX (1 + 2 * SPEC_LABEL)

/*
 * Writes the key of the label's hash table: a byte of flags for missing parts, the namespace, 0,
 * the name, 0. Returns the number of bytes.
 */
static size_t pack_label(const char *ns, const char *name, char ret[static LABEL_TEXT_MAX])
{
	const size_t n_ns = ns ? strlen(ns) : 0, n = name ? strlen(name) : 0;

	memset(ret, 0, n_ns + n + 3);
	ret[0] = (char)((ns ? 0 : LABEL_NO_NS) | (name ? 0 : LABEL_NO_NAME));
	memcpy(ret + 1, ns ? ns : "", n_ns);
	memcpy(ret + 1 + n_ns + 1, name ? name : "", n);
	return n_ns + n + 3;
}

static int label_new(struct place *place, const char *text, size_t n, struct label **ret)
{
	struct label *label;
	uint32_t size = place->labels_size;
	int r;

	/* All numbers can become free, so label_gaps needs an element for each. */
	r = array_grow(&place->label_gaps, &size, place->n_labels + 2, sizeof(*place->label_gaps));
	if (r == 0)
		r = array_grow(&place->label_of, &place->labels_size, place->n_labels + 2,
			sizeof(*place->label_of));
	if (r < 0)
		return r;
	label = calloc(1, sizeof(*label) + n);
	if (!label)
		return -ENOMEM;
	memcpy(label->text, text, n);
	label->n = n;
	label->name = label->text + 1 + strlen(text + 1) + 1;
	HASH_ADD_KEYPTR(hh, place->labels, label->text, n, label);
	if (!label->hh.tbl) {
		free(label);
		return -ENOMEM;
	}
	label->id = place->n_gaps ? place->label_gaps[--place->n_gaps] : ++place->n_labels;
	place->label_of[label->id] = label;
	*ret = label;
	return 0;
}

int place_label(struct place *place, const char *ns, const char *name, uint32_t *ret_label,
	struct error *err)
{
	char text[LABEL_TEXT_MAX];
	struct label *label;
	size_t n;
	int r;

	if ((name && strlen(name) >= SPEC_LABEL) || (ns && strlen(ns) >= SPEC_LABEL))
		return fail(err, EINVAL, "label '%.70s': up to %u characters are possible",
			name && strlen(name) >= SPEC_LABEL ? name : ns, SPEC_LABEL - 1);
	n = pack_label(ns, name, text);
	HASH_FIND(hh, place->labels, text, n, label);
	if (!label) {
		if (place->n_labels == PLACE_LABELS_MAX && !place->n_gaps)
			return fail(err, ENOSPC, "label '%s': %u labels are known already",
				name ? name : "", PLACE_LABELS_MAX);
		r = label_new(place, text, n, &label);
		if (r < 0)
			return fail(err, -r, "out of memory for the label '%s'", name ? name : "");
	}
	*ret_label = label->id;
	return 0;
}

int place_label_forget(struct place *place, uint32_t id, struct error *err)
{
	struct label *label = id && id <= place->n_labels ? place->label_of[id] : NULL;

	if (!label)
		return fail(err, EINVAL, "there is no label %u", id);
	if (label->n_uses)
		return fail(err, EBUSY, "label %s: %u tenants and nodes have it", label->name,
			label->n_uses);
	if (place->n_savepoints)
		return fail(err, EBUSY, "label %s: a decision is in progress", label->name);
	HASH_DEL(place->labels, label);
	label_free(label);
	place->label_of[id] = NULL;
	place->label_gaps[place->n_gaps++] = id;
	return 0;
}

int place_taint_forget(struct place *place, uint64_t bit, struct error *err)
{
	const uint32_t at = bit ? (uint32_t)__builtin_ctzll(bit) : PLACE_TAINTS_MAX;
	uint32_t n = 0;

	if (bit != 1ull << (at & 63) || at >= place->n_taints || !place->taints[at][0])
		return fail(err, EINVAL, "there is no taint %#" PRIx64, bit);
	for (uint32_t i = 0; i < place->n_nodes; i++)
		n += place->nodes[i].is_used && (place->nodes[i].taints & bit);
	for (uint32_t i = 0; i < place->n_tenants; i++)
		n += place_tenant(place, i) && (place->tenants[i].spec.tolerations & bit);
	if (n)
		return fail(
			err, EBUSY, "taint %s: %u tenants and nodes have it", place->taints[at], n);
	if (place->n_savepoints)
		return fail(err, EBUSY, "taint %s: a decision is in progress", place->taints[at]);
	place->taints[at][0] = '\0';
	return 0;
}

int place_model_forget(struct place *place, uint64_t bit, struct error *err)
{
	const uint32_t at = bit ? (uint32_t)__builtin_ctzll(bit) : PLACE_MODELS_MAX;

	if (bit != 1ull << (at & 63) || at >= place->n_models || !place->models[at][0])
		return fail(err, EINVAL, "there is no model %#" PRIx64, bit);
	for (uint32_t i = 0; i < place->n_nodes; i++)
		if (place->nodes[i].is_used && (place->nodes[i].models & bit))
			return fail(err, EBUSY, "model %s: node %s has it", place->models[at],
				place->nodes[i].name->text);
	for (uint32_t i = 0; i < place->n_tenants; i++)
		if (place_tenant(place, i) && (place->tenants[i].spec.models & bit))
			return fail(err, EBUSY, "model %s: tenant %u asks for it",
				place->models[at], i);
	if (place_queues_name(place) & bit)
		return fail(err, EBUSY, "model %s: a queue has a quota or limit of it",
			place->models[at]);
	if (place->n_savepoints)
		return fail(err, EBUSY, "model %s: a decision is in progress", place->models[at]);
	place->models[at][0] = '\0';
	place->model_memory[at] = 0;
	workload_mix_forget(place->mix, bit);
	return 0;
}

const char *place_label_name(const struct place *place, uint32_t label)
{
	const struct label *found = place_label_at(place, label);

	return found ? found->name : "";
}

/* ---- nodes ---- */

static int node_check(
	const struct place *place, const struct place_node_info *info, struct error *err)
{
	int r = name_check(str_from(info->name), "node", err);

	if (r < 0)
		return r;
	if (info->n_devices > PLACE_NODE_DEVICES_MAX)
		return fail(err, EINVAL, "node %s: %u devices, up to %u are possible", info->name,
			info->n_devices, PLACE_NODE_DEVICES_MAX);
	if (info->cpu_milli > INT32_MAX)
		return fail(err, EINVAL, "node %s: cpu %u: more than any machine has", info->name,
			info->cpu_milli);
	if (info->memory_bytes > UINT64_MAX / 2)
		return fail(err, EINVAL, "node %s: memory %" PRIu64 ": more than any machine has",
			info->name, info->memory_bytes);
	for (uint32_t i = 0; i < info->n_devices; i++) {
		const struct place_device_info *d = &info->devices[i];

		if (d->model >= place->n_models)
			return fail(err, EINVAL, "node %s, device %u: model %u, %u are known",
				info->name, i, d->model, place->n_models);
		if (d->memory_bytes > PLACE_DEVICE_BYTES_MAX)
			return fail(err, EINVAL,
				"node %s, device %u: %" PRIu64 " bytes of memory, up to %" PRIu64
				" are possible",
				info->name, i, d->memory_bytes, PLACE_DEVICE_BYTES_MAX);
	}
	for (uint32_t i = 0; i < info->n_labels; i++)
		if (!place_label_at(place, info->labels[i]))
			return fail(err, EINVAL, "node %s: label %u is unknown", info->name,
				info->labels[i]);
	return 0;
}

/*
 * Writes the UUID of info's i-th device. If info has none, writes the UUID of the present device if
 * that has the same model, otherwise a name made of node and index. slot: the node's first present
 * device, or PLACE_NONE.
 */
static void place_read_uuid(const struct place *place, uint32_t slot,
	const struct place_node_info *info, uint32_t i, char ret[static SPEC_LABEL])
{
	const struct place_device_info *is = &info->devices[i];
	const struct device *was = slot == PLACE_NONE ? NULL : &place->devices[slot + i];

	if (is->uuid[0])
		memmove(ret, is->uuid, strlen(is->uuid) + 1);
	else if (was && was->uuid[0] && was->model == is->model)
		memmove(ret, was->uuid, sizeof(was->uuid));
	else
		snprintf(ret, SPEC_LABEL, "%.*s-gpu%u", SPEC_LABEL - 16, info->name, i);
}

/* first: the node's first present device, or PLACE_NONE */
static int uuids_check(const struct place *place, uint32_t first,
	const struct place_node_info *info, struct error *err)
{
	char uuid[PLACE_NODE_DEVICES_MAX][SPEC_LABEL];

	for (uint32_t i = 0; i < info->n_devices; i++) {
		if (strnlen(info->devices[i].uuid, SPEC_LABEL) == SPEC_LABEL)
			return fail(err, EINVAL,
				"node %s, device %u: a UUID has up to %u characters", info->name, i,
				SPEC_LABEL - 1);
		place_read_uuid(place, first, info, i, uuid[i]);
		for (uint32_t k = 0; k < i; k++)
			if (!strcmp(uuid[k], uuid[i]))
				return fail(err, EINVAL, "node %s: devices %u and %u are both %s",
					info->name, k, i, uuid[i]);
	}
	return 0;
}

static int grow_nodes(struct place *place, uint32_t n)
{
	uint32_t size = place->nodes_size;
	int r;

	r = array_grow(&place->cpu_free, &size, n, sizeof(*place->cpu_free));
	size = place->nodes_size;
	if (r == 0)
		r = array_grow(&place->memory_free, &size, n, sizeof(*place->memory_free));
	size = place->nodes_size;
	if (r == 0)
		r = array_grow(&place->held, &size, n, sizeof(*place->held));
	size = place->nodes_size;
	if (r == 0)
		r = place_locality_reserve(place, size, n);
	if (r == 0)
		r = array_grow(&place->versions, &size, n, sizeof(*place->versions));
	if (r == 0)
		r = array_grow(&place->nodes, &place->nodes_size, n, sizeof(*place->nodes));
	return r;
}

static int grow_devices(struct place *place, uint32_t n)
{
	uint32_t size = place->devices_size;
	int r;

	r = array_grow(&place->share_free, &size, n, sizeof(*place->share_free));
	size = place->devices_size;
	if (r == 0)
		r = array_grow(&place->share_open, &size, n, sizeof(*place->share_open));
	if (r == 0)
		r = array_grow(&place->devices, &place->devices_size, n, sizeof(*place->devices));
	return r;
}

/* Returns the index of a removed node that had n_devices devices, or n_nodes for a new one. */
static uint32_t node_slot(const struct place *place, uint32_t n_devices)
{
	for (uint32_t i = 0; place->used_nodes < place->n_nodes && i < place->n_nodes; i++)
		if (!place->nodes[i].is_used && place->nodes[i].n_devices == n_devices)
			return i;
	return place->n_nodes;
}

void place_device_changed(struct place *place, uint32_t at)
{
	const struct device *d = &place->devices[at];
	bool is_open = device_is_open(d) && !(d->n_tenants && d->exclusion);

	place->share_open[at] = is_open ? place->share_free[at] : 0;
	place_bounds_changed(place->bounds, d->node);
}

static void place_fill_device(
	struct place *place, uint32_t first, const struct place_node_info *node, uint32_t i)
{
	const struct place_device_info *info = &node->devices[i];
	struct device *d = &place->devices[first + i];
	uint64_t memory = info->memory_bytes / 1000 * place->config.memory_factor;

	place_read_uuid(place, first, node, i, d->uuid);
	d->model = info->model;
	d->numa = info->numa;
	d->link = info->link;
	d->is_closed = info->is_closed;
	if (place->config.memory_factor == FACTOR_MIN)
		memory = info->memory_bytes;
	d->memory_all = memory;
	d->memory_size = info->memory_bytes;
	d->memory_free = memory > d->memory_taken ? memory - d->memory_taken : 0;
	place->model_memory[d->model] = MAX(place->model_memory[d->model], memory);
}

void place_node_count(struct place *place, uint32_t at)
{
	const struct node *node = &place->nodes[at];
	const struct taken taken = node_taken(node, node->is_terminating_free);

	place->cpu_free[at] = node->cpu_all > taken.cpu ? node->cpu_all - taken.cpu : 0;
	place->memory_free[at] = node->memory_all > taken.memory ? node->memory_all - taken.memory
								 : 0;
}

void place_count_terminating_free(struct place *place, uint32_t at, bool is_terminating_free)
{
	const uint32_t end = at == PLACE_NONE ? place->n_nodes : at + 1;

	for (uint32_t i = at == PLACE_NONE ? 0 : at; i < end; i++) {
		if (!place->nodes[i].n_terminating)
			continue;
		place->nodes[i].is_terminating_free = is_terminating_free;
		place_node_count(place, i);
		place_bounds_changed(place->bounds, i);
	}
}

static uint64_t place_node_models(const struct place_node_info *info)
{
	uint64_t models = 0;

	for (uint32_t i = 0; i < info->n_devices; i++)
		models |= 1ull << info->devices[i].model;
	return models;
}

/*
 * Assigns a cell (place-cell.h) to a device. The node's n-th device of a model gets the node's n-th
 * leaf cell of that model, in the order of the cell file.
 */
static void set_cell(struct place *place, const struct node *node, uint32_t i)
{
	struct device *d = &place->devices[node->first_device];
	uint32_t nth = 0;

	d[i].cell = PLACE_NONE;
	for (uint32_t k = 0; k < i; k++)
		nth += d[k].model == d[i].model;
	if (place->config.cells)
		d[i].cell = place_cells_leaf(
			place->config.cells, node->name->text, place->models[d[i].model], nth);
}

/* sign 1: the node was added or has changed; -1: it is about to be removed or to change */
static void count_capacity(struct place *place, uint32_t at, int sign)
{
	const struct node *node = &place->nodes[at];

	for (uint32_t i = node->first_device; i < node->first_device + node->n_devices; i++) {
		const struct device *d = &place->devices[i];

		if (!device_counts(place, i))
			continue;
		place->capacity[d->model] += (uint64_t)(int64_t)(sign * (int)d->share_all);
		place->idle[d->model] += sign * (int)place->share_free[i];
	}
}

static void place_fill_node(struct place *place, uint32_t at, const struct place_node_info *info)
{
	struct node *node = &place->nodes[at];

	node->n_tenants_max = info->n_tenants_max;
	node->cpu_all = info->cpu_milli;
	node->memory_all = info->memory_bytes;
	node->taints = info->taints;
	node->is_closed = info->is_closed;
	place_node_count(place, at);
	node->models = place_node_models(info);
	for (uint32_t i = 0; i < node->n_devices; i++) {
		place_fill_device(place, node->first_device, info, i);
		set_cell(place, node, i);
	}
	count_capacity(place, at, 1);
	place_locality_forget(place, 0);
}

/* Copies rack and labels into *ret; node_done() frees the copies. */
static int copy_texts(struct place *place, const struct place_node_info *info, struct node *ret)
{
	uint32_t *labels = calloc(info->n_labels + 1, sizeof(*labels));
	char *rack = strdup(info->rack ? info->rack : "");

	if (!labels || !rack) {
		free(labels);
		free(rack);
		return -ENOMEM;
	}
	if (info->n_labels)
		memcpy(labels, info->labels, info->n_labels * sizeof(*labels));
	for (uint32_t i = 0; i < info->n_labels; i++)
		place->label_of[labels[i]]->n_uses++;
	ret->labels = labels;
	ret->n_labels = info->n_labels;
	ret->rack = rack;
	return 0;
}

static int note_name(struct place *place, struct node_name *name, const char *text, uint32_t node)
{
	name->node = node;
	memcpy(name->text, text, strlen(text) + 1);
	HASH_ADD_STR(place->by_name, text, name);
	return name->hh.tbl ? 0 : -ENOMEM;
}

int place_node_add(struct place *place, const struct place_node_info *info, uint32_t *ret_node,
	struct error *err)
{
	struct node fresh = {.n_devices = info->n_devices, .is_used = true}, *node;
	uint32_t at;
	int r;

	r = node_check(place, info, err);
	if (r == 0)
		r = uuids_check(place, PLACE_NONE, info, err);
	if (r < 0)
		return r;
	if (place_node_find(place, info->name) != PLACE_NONE)
		return fail(err, EEXIST, "node %s exists already", info->name);
	at = node_slot(place, info->n_devices);
	if (at == PLACE_NODES_MAX)
		return fail(err, ENOSPC, "node %s: %u nodes are there already", info->name, at);
	fresh.first_device = at < place->n_nodes ? place->nodes[at].first_device : place->n_devices;
	fresh.name = calloc(1, sizeof(*fresh.name) + strlen(info->name) + 1);
	r = fresh.name ? copy_texts(place, info, &fresh) : -ENOMEM;
	if (r == 0)
		r = grow_nodes(place, at + 1);
	if (r == 0)
		r = grow_devices(place, fresh.first_device + info->n_devices);
	if (r == 0)
		r = place_bounds_reserve(
			place->bounds, at + 1, place_node_models(info), info->n_devices);
	if (r == 0)
		r = note_name(place, fresh.name, info->name, at);
	if (r < 0) {
		node_done(place, &fresh);
		return fail(err, ENOMEM, "out of memory for node %s", info->name);
	}
	if (at == place->n_nodes) {
		place->n_nodes++;
		place->n_devices += info->n_devices;
	}
	node = &place->nodes[at];
	*node = fresh;
	place_paths_enter(place, at);
	for (uint32_t i = 0; i < node->n_devices; i++) {
		uint32_t d = node->first_device + i;
		struct tag *tags = place->devices[d].tags;
		uint32_t size = place->devices[d].tags_size;

		place->devices[d] = (struct device){
			.node = at, .is_used = true, .tags = tags, .tags_size = size};
		place->devices[d].share_all = place->config.share_factor;
		place->share_free[d] = (uint16_t)place->config.share_factor;
	}
	place_fill_node(place, at, info);
	place_bounds_enter(place->bounds, at);
	place->used_nodes++;
	for (uint32_t i = 0; i < node->n_devices; i++)
		place_device_changed(place, node->first_device + i);
	place_bounds_changed(place->bounds, at);
	*ret_node = at;
	return 0;
}

static int keeps_devices(const struct place *place, uint32_t at, const struct place_node_info *info,
	struct error *err)
{
	const struct node *node = &place->nodes[at];

	if (info->n_devices != node->n_devices)
		return fail(err, EBUSY, "node %s: %u devices instead of %u: remove it first",
			info->name, info->n_devices, node->n_devices);
	for (uint32_t i = 0; i < node->n_devices; i++) {
		const struct device *d = &place->devices[node->first_device + i];
		bool is_same = info->devices[i].model == d->model &&
			(!info->devices[i].uuid[0] || !strcmp(info->devices[i].uuid, d->uuid));

		if (d->n_tenants + d->n_terminating && !is_same)
			return fail(err, EBUSY,
				"node %s, device %u: expected the present device, because %u "
				"tenants are on %s",
				info->name, i, d->n_tenants + d->n_terminating, d->uuid);
	}
	return 0;
}

int place_node_update(
	struct place *place, uint32_t at, const struct place_node_info *info, struct error *err)
{
	struct node *node, texts = {0};
	int r;

	if (at >= place->n_nodes || !place->nodes[at].is_used)
		return fail(err, EINVAL, "there is no node %u", at);
	node = &place->nodes[at];
	r = node_check(place, info, err);
	if (r < 0)
		return r;
	if (strcmp(info->name, node->name->text))
		return fail(err, EINVAL, "node %s cannot become %s", node->name->text, info->name);
	r = keeps_devices(place, at, info, err);
	if (r == 0)
		r = uuids_check(place, node->first_device, info, err);
	if (r < 0)
		return r;
	r = place_bounds_reserve(place->bounds, at + 1, place_node_models(info), info->n_devices);
	if (r == 0)
		r = copy_texts(place, info, &texts);
	if (r < 0)
		return fail(err, -r, "out of memory for node %s", info->name);
	labels_leave(place, node);
	free(node->rack);
	node->labels = texts.labels;
	node->n_labels = texts.n_labels;
	node->rack = texts.rack;
	count_capacity(place, at, -1);
	place_fill_node(place, at, info);
	place_bounds_enter(place->bounds, at);
	for (uint32_t i = 0; i < node->n_devices; i++)
		place_device_changed(place, node->first_device + i);
	place_bounds_changed(place->bounds, at);
	return 0;
}

int place_node_remove(struct place *place, uint32_t at, struct error *err)
{
	struct node *node;
	uint32_t first, n;

	if (at >= place->n_nodes || !place->nodes[at].is_used)
		return fail(err, EINVAL, "there is no node %u", at);
	node = &place->nodes[at];
	if (node->n_tenants)
		return fail(err, EBUSY, "node %s: %u tenants are on it", node->name->text,
			node->n_tenants);
	if (place->n_savepoints)
		return fail(err, EBUSY, "node %s: a decision is in progress", node->name->text);
	if (place_network_is_taken(place, at))
		return fail(
			err, EBUSY, "node %s: tenants elsewhere use its network", node->name->text);
	place_network_drop(place, at);
	place_paths_drop(place, at);
	count_capacity(place, at, -1);
	HASH_DEL(place->by_name, node->name);
	first = node->first_device;
	n = node->n_devices;
	node_done(place, node);
	/*
	 * this node's index keeps the slots of its devices, for a later node with n_devices devices
	 */
	node->first_device = first;
	node->n_devices = n;
	place->cpu_free[at] = 0;
	place->memory_free[at] = 0;
	for (uint32_t i = first; i < first + n; i++) {
		place->share_free[i] = place->share_open[i] = 0;
		place->devices[i].is_used = false;
	}
	place->used_nodes--;
	place_bounds_changed(place->bounds, at);
	return 0;
}

uint32_t place_node_find(const struct place *place, const char *name)
{
	const struct node_name *found;

	HASH_FIND_STR(place->by_name, name, found);
	return found ? found->node : PLACE_NONE;
}

/* ---- what the model contains ---- */

uint32_t place_n_nodes(const struct place *place)
{
	return place->n_nodes;
}

uint32_t place_n_devices(const struct place *place)
{
	return place->n_devices;
}

uint32_t place_n_tenants(const struct place *place)
{
	return place->n_placed;
}

uint64_t place_node_version(const struct place *place, uint32_t node)
{
	return place->versions[node];
}

bool place_node_get(const struct place *place, uint32_t at, struct place_node_view *ret)
{
	const struct node *node = at < place->n_nodes ? &place->nodes[at] : NULL;

	if (!node || !node->is_used)
		return false;
	*ret = (struct place_node_view){
		.name = node->name->text,
		.rack = node->rack,
		.first_device = node->first_device,
		.n_devices = node->n_devices,
		.n_tenants = node->n_tenants,
		.cpu_free = place->cpu_free[at],
		.cpu_all = node->cpu_all,
		.memory_free = place->memory_free[at],
		.memory_all = node->memory_all,
		.is_closed = node->is_closed,
	};
	return true;
}

bool place_device_get(const struct place *place, uint32_t at, struct place_device_view *ret)
{
	const struct device *d = at < place->n_devices ? &place->devices[at] : NULL;

	if (!d || !d->is_used)
		return false;
	*ret = (struct place_device_view){
		.uuid = d->uuid,
		.node = d->node,
		.model = d->model,
		.n_tenants = d->n_tenants,
		.n_terminating = d->n_terminating,
		.share_free = place->share_free[at],
		.share_all = d->share_all,
		.memory_free = d->memory_free,
		.memory_all = d->memory_all,
		.exclusion = d->n_tenants ? d->exclusion : 0,
		.numa = d->numa,
		.link = d->link,
		.is_closed = d->is_closed,
	};
	return true;
}
