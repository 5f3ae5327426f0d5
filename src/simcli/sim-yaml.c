/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nodes:
 *   - {name: a, copies: 8, devices: 4, model: V100, memory: 16Gi, cpu: 36, host-memory: 244Gi}
 *   - {name: b, devices: A100:3:40Gi|A100-1g.5gb:7:4864Mi, cpu: 64}
 * tasks:
 *   - {request: 0.4, limit: 0.5, memory: 4Gi, copies: 10, every: 30s, duration: 10m}
 * queues:
 *   - {name: team, quota: 4, limit: 8, weight: 2}
 * networks:
 *   - {node: a-0, kind: host, bandwidth: 9Gbps, latency: 50us}
 *
 * A task's fields are those of a spec (spec/spec.h), and when it comes, how long it takes when it
 * has its limit, and what it takes of its node. Aliases and tags have no meaning here and are
 * refused, so that a short text cannot stand for a huge one.
 */
#include <errno.h>
#include <inttypes.h>
#include <libfyaml.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/parse.h"
#include "fields/yaml.h"
#include "place/place-gang.h"
#include "place/place-queue.h"
#include "simcli/sim.h"

#define VALUE_MAX 128
#define COPIES_MAX 100000u

DEFINE_CLEANUP(struct fy_document *, fy_document_destroy)
DEFINE_CLEANUP(struct fy_diag *, fy_diag_destroy)
DEFINE_CLEANUP(struct fy_parser *, fy_parser_destroy)

struct reader {
	struct cluster *cluster;
	struct workload *workload;
	uint32_t gangs;
	uint32_t labels_room; /* of the workload's */
};

const char *const sim_network_kinds[PLACE_NETWORK_KINDS] = {
	[PLACE_NETWORK_DIRECT] = "direct",
	[PLACE_NETWORK_HOST] = "host",
	[PLACE_NETWORK_OVERLAY] = "overlay",
};

enum list { NODES, QUEUES, NETWORKS, TASKS, LISTS };

static const char *const list_names[LISTS] = {
	[NODES] = "nodes", [QUEUES] = "queues", [NETWORKS] = "networks", [TASKS] = "tasks"};

/* One entry of a list while its fields are read. */
struct node_entry {
	struct cluster_node node;
	uint64_t copies;
	bool has_kinds, has_model, has_memory;
};

struct task_entry {
	struct spec spec;
	uint64_t copies, at_ns, every_ns, duration_ns;
	uint32_t line, cpu_milli;
	uint64_t memory_bytes;
	bool is_gang, has_every;
	uint32_t threshold, queue, affinity, anti_affinity, preferred_anti_affinity, exclusion;
};

static int line_of(struct fy_node *node)
{
	const struct fy_mark *mark = NULL;

	if (fy_node_is_scalar(node) && fy_node_get_scalar_token(node))
		mark = fy_token_start_mark(fy_node_get_scalar_token(node));
	return mark ? mark->line + 1 : 0;
}

/* Of a list or a mapping: the first scalar in it. */
static int first_line_of(struct fy_node *node)
{
	for (int depth = 0; node && depth < 8; depth++) {
		void *at = NULL;

		if (fy_node_is_scalar(node))
			return line_of(node);
		if (fy_node_is_sequence(node))
			node = fy_node_sequence_iterate(node, &at);
		else
			node = fy_node_pair_key(fy_node_mapping_iterate(node, &at));
	}
	return 0;
}

/* The text of a plain value, terminated. */
static int scalar(
	struct fy_node *node, const char *what, char ret[static VALUE_MAX], struct error *err)
{
	size_t n = 0;
	const char *text;

	if (!node || !fy_node_is_scalar(node) || fy_node_is_alias(node) ||
		fy_node_get_tag(node, &n))
		return fail(err, EINVAL, "%s: a plain value is expected", what);
	text = fy_node_get_scalar(node, &n);
	if (!text || memchr(text, 0, n) || str_copy(ret, VALUE_MAX, (struct str){text, n}) < 0)
		return fail(err, EINVAL, "%s: a text of up to %d characters is expected", what,
			VALUE_MAX - 1);
	return 0;
}

/* "36" or "0.5" cores. */
static int parse_cores(const char *value, uint32_t *ret_milli, struct error *err)
{
	int r = parse_share(str_from(value), ret_milli, NULL);

	return r < 0 ? fail(err, -r, "'%s': cores such as 36 or 0.5 are expected, up to %d", value,
			       SHARE_MAX / SHARE_ONE)
		     : 0;
}

static int parse_name(const char *value, char ret[static SPEC_LABEL], struct error *err)
{
	if (!value[0] || str_copy(ret, SPEC_LABEL, str_from(value)) < 0)
		return fail(err, EINVAL, "'%s': 1 to %u characters are expected", value,
			SPEC_LABEL - 1);
	return 0;
}

static int parse_device_bytes(struct str text, uint64_t *ret_bytes, struct error *err)
{
	uint64_t bytes = 0;
	int r = parse_bytes(text, &bytes, err);

	if (r == -ERANGE || bytes > PLACE_DEVICE_BYTES_MAX)
		return fail(err, ERANGE,
			"'%" STR_FMT "': a whole number of bytes, up to 279Ti, is possible",
			STR_ARG(text));
	*ret_bytes = bytes;
	return r;
}

/* Of "MODEL:FIRST:REST": all that stands behind FIRST, and no p where nothing does. */
static int split_model(struct reader *reader, struct str text, const char *form,
	uint32_t *ret_model, struct str *ret_first, struct str *ret_rest, struct error *err)
{
	struct str name;

	str_split(&text, ':', &name);
	if (!name.n || !text.p)
		return fail(err, EINVAL, "%s, with '|' between several", form);
	str_split(&text, ':', ret_first);
	*ret_rest = text;
	return cluster_model(reader->cluster, name, ret_model, err);
}

/* "V100:2:16Gi|T4:4": so many of a model, each with that memory. */
static int set_kinds(
	struct reader *reader, struct cluster_node *node, struct str text, struct error *err)
{
	struct str one;

	for (node->n_kinds = 0; text.p && str_split(&text, '|', &one); node->n_kinds++) {
		struct cluster_kind *kind = &node->kinds[node->n_kinds];
		struct str count, memory;
		uint64_t n;
		int r;

		if (node->n_kinds == CLUSTER_KINDS)
			return fail(err, ENOSPC, "up to %u kinds are possible", CLUSTER_KINDS);
		r = split_model(reader, one, "MODEL:COUNT:MEMORY is expected, such as V100:2:16Gi",
			&kind->model, &count, &memory, err);
		r = r < 0 ? r : parse_uint(count, 0, PLACE_NODE_DEVICES_MAX, &n, err);
		if (r < 0)
			return r;
		kind->n_devices = (uint32_t)n;
		r = memory.p ? parse_device_bytes(memory, &kind->device_bytes, err) : 0;
		if (r < 0)
			return r;
	}
	return 0;
}

static int set_node(
	struct reader *reader, void *entry, const char *field, const char *value, struct error *err)
{
	struct node_entry *e = entry;
	struct str text = str_from(value);
	uint64_t n;
	int r;

	if (!strcmp(field, "name")) {
		if (!text.n || str_copy(e->node.name, SPEC_LABEL / 2, text) < 0)
			return fail(err, EINVAL, "'%s': 1 to %u characters are expected", value,
				SPEC_LABEL / 2 - 1);
		return 0;
	}
	if (!strcmp(field, "rack"))
		return parse_name(value, e->node.rack, err);
	if (!strcmp(field, "model")) {
		e->has_model = true;
		return cluster_model(reader->cluster, text, &e->node.kinds[0].model, err);
	}
	if (!strcmp(field, "memory")) {
		e->has_memory = true;
		return parse_device_bytes(text, &e->node.kinds[0].device_bytes, err);
	}
	if (!strcmp(field, "host-memory"))
		return parse_bytes(text, &e->node.memory_bytes, err);
	if (!strcmp(field, "cpu"))
		return parse_cores(value, &e->node.cpu_milli, err);
	if (!strcmp(field, "copies"))
		return parse_uint(text, 1, COPIES_MAX, &e->copies, err);
	if (strcmp(field, "devices"))
		return -ENOENT;
	if (str_find(text, ':') < text.n) {
		e->has_kinds = true;
		return set_kinds(reader, &e->node, text, err);
	}
	r = parse_uint(text, 0, PLACE_NODE_DEVICES_MAX, &n, err);
	e->node.kinds[0].n_devices = r < 0 ? 0 : (uint32_t)n;
	return r;
}

/* "4" or "1.5" devices. */
static int parse_devices(struct str text, uint64_t *ret_permille, struct error *err)
{
	const size_t point = str_find(text, '.');
	char fraction[VALUE_MAX + 1];
	uint32_t permille = 0;
	uint64_t whole;

	snprintf(fraction, sizeof(fraction), "0%.*s", (int)(text.n - point), text.p + point);
	if (parse_uint((struct str){text.p, point}, 0, UINT32_MAX, &whole, NULL) < 0 ||
		parse_share(str_from(fraction), &permille, NULL) < 0)
		return fail(err, EINVAL,
			"'%" STR_FMT "': devices such as 4 or 1.5 are expected, 0 to %u in steps "
			"of 0.001",
			STR_ARG(text), UINT32_MAX);
	*ret_permille = whole * SPEC_SHARE_ONE + permille;
	return 0;
}

/* "V100:1.5:4|T4:2": of that model, quota and limit; without a limit there is none. */
static int set_queue_models(
	struct reader *reader, struct cluster_queue *q, struct str text, struct error *err)
{
	struct str one;

	for (q->n_models = 0; text.p && str_split(&text, '|', &one); q->n_models++) {
		struct str quota, limit;
		uint32_t at = q->n_models;
		int r;

		if (at == CLUSTER_QUEUE_MODELS)
			return fail(
				err, ENOSPC, "up to %u models are possible", CLUSTER_QUEUE_MODELS);
		q->models[at].limit = PLACE_UNLIMITED;
		r = split_model(reader, one, "MODEL:QUOTA:LIMIT is expected, such as V100:1.5:4",
			&q->models[at].model, &quota, &limit, err);
		r = r < 0 ? r : parse_devices(quota, &q->models[at].quota, err);
		if (r == 0 && limit.p)
			r = parse_devices(limit, &q->models[at].limit, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int set_queue(
	struct reader *reader, void *entry, const char *field, const char *value, struct error *err)
{
	struct cluster_queue *q = entry;
	struct str text = str_from(value);
	uint64_t weight;
	int r;

	if (!strcmp(field, "name"))
		return parse_name(value, q->name, err);
	if (!strcmp(field, "parent"))
		return parse_name(value, q->parent, err);
	if (!strcmp(field, "quota"))
		return parse_devices(text, &q->quota, err);
	if (!strcmp(field, "limit"))
		return parse_devices(text, &q->limit, err);
	if (!strcmp(field, "models"))
		return set_queue_models(reader, q, text, err);
	if (strcmp(field, "weight"))
		return -ENOENT;
	r = parse_uint(text, 1, PLACE_QUEUE_WEIGHT_MAX, &weight, err);
	q->weight = r < 0 ? 0 : (uint32_t)weight;
	return r;
}

static int set_network_node(
	struct reader *reader, const char *value, uint32_t *ret_node, struct error *err)
{
	for (uint32_t i = 0; i < reader->cluster->n; i++)
		if (!strcmp(reader->cluster->nodes[i].name, value)) {
			*ret_node = i;
			return 0;
		}
	return fail(err, EINVAL, "'%s': there is no node of that name under 'nodes:'", value);
}

static int set_network_kind(const char *value, enum place_network_kind *ret_kind, struct error *err)
{
	for (size_t i = 0; i < PLACE_NETWORK_KINDS; i++)
		if (!strcmp(sim_network_kinds[i], value)) {
			*ret_kind = (enum place_network_kind)i;
			return 0;
		}
	return fail(err, EINVAL, "'%s': direct, host or overlay is expected", value);
}

static int set_network(
	struct reader *reader, void *entry, const char *field, const char *value, struct error *err)
{
	struct cluster_network *network = entry;
	struct spec spec;
	int r;

	if (!strcmp(field, "node"))
		return set_network_node(reader, value, &network->node, err);
	if (!strcmp(field, "kind"))
		return set_network_kind(value, &network->kind, err);
	if (strcmp(field, "bandwidth") != 0 && strcmp(field, "latency") != 0)
		return -ENOENT;
	/* Each alone, in the words of a task's `network`. */
	spec_init(&spec);
	r = spec_set_cluster(&spec, "network", value, err);
	if (r < 0)
		return r;
	if (!strcmp(field, "bandwidth") ? !spec.network_mbit || spec.network_latency_us
					: spec.network_mbit || !spec.network_latency_us)
		return fail(err, EINVAL, "'%s': a %s such as %s is expected", value, field,
			field[0] == 'b' ? "9Gbps" : "50us");
	if (spec.network_mbit)
		network->mbit = spec.network_mbit;
	else
		network->latency_us = spec.network_latency_us;
	return 0;
}

static int read_network(
	struct reader *reader, const struct cluster_network *network, struct error *err)
{
	if (network->node == PLACE_NONE || network->kind == PLACE_NETWORK_KINDS || !network->mbit ||
		!network->latency_us)
		return fail(err, EINVAL, "a network needs node, kind, bandwidth and latency");
	return cluster_network_add(reader->cluster, network, err);
}

/* The label's number; the same text has the same. The empty one is a label of exclusion only. */
static int label_of(struct reader *reader, const char *value, bool may_be_empty,
	uint32_t *ret_label, struct error *err)
{
	struct workload *w = reader->workload;
	char name[SPEC_LABEL] = "";
	int r = may_be_empty && !value[0] ? 0 : parse_name(value, name, err);

	for (uint32_t i = 0; r == 0 && i < w->n_labels; i++)
		if (!strcmp(w->labels[i], name)) {
			*ret_label = i + 1;
			return 0;
		}
	if (r < 0)
		return r;
	if (w->n_labels == WORKLOAD_LABELS_MAX)
		return fail(
			err, ENOSPC, "'%s' is one label more than %u", value, WORKLOAD_LABELS_MAX);
	if (array_grow(&w->labels, &reader->labels_room, w->n_labels + 1ull, sizeof(*w->labels)) <
		0)
		return fail(err, ENOMEM, "out of memory for labels");
	memcpy(w->labels[w->n_labels], name, sizeof(name));
	*ret_label = ++w->n_labels;
	return 0;
}

static int set_task_queue(
	struct reader *reader, const char *value, uint32_t *ret_queue, struct error *err)
{
	*ret_queue = cluster_queue_find(reader->cluster, str_from(value));
	if (!*ret_queue)
		return fail(
			err, EINVAL, "'%s': there is no queue of that name under 'queues:'", value);
	for (uint32_t i = 0; i < reader->cluster->n_queues; i++)
		if (!strcmp(reader->cluster->queues[i].parent, value))
			return fail(err, EINVAL,
				"'%s': it has queues below it, such as '%s': tasks belong to those",
				value, reader->cluster->queues[i].name);
	return 0;
}

static int set_threshold(const char *value, uint32_t *ret_permille, struct error *err)
{
	uint32_t permille = 0;
	int r = parse_share(str_from(value), &permille, err);

	if (r == 0 && (!permille || permille > 1000))
		r = fail(
			err, EINVAL, "'%s': a part of the gang from 0.001 to 1 is expected", value);
	*ret_permille = permille;
	return r;
}

/* What a task says of others; -ENOENT: it is no such field. */
static int set_relation(struct reader *reader, struct task_entry *e, const char *field,
	const char *value, struct error *err)
{
	if (!strcmp(field, "affinity"))
		return label_of(reader, value, false, &e->affinity, err);
	if (!strcmp(field, "anti-affinity"))
		return label_of(reader, value, false, &e->anti_affinity, err);
	if (!strcmp(field, "preferred-anti-affinity"))
		return label_of(reader, value, false, &e->preferred_anti_affinity, err);
	if (!strcmp(field, "exclusion"))
		return label_of(reader, value, true, &e->exclusion, err);
	if (!strcmp(field, "queue"))
		return set_task_queue(reader, value, &e->queue, err);
	if (!strcmp(field, "threshold"))
		return set_threshold(value, &e->threshold, err);
	return -ENOENT;
}

static int set_task(
	struct reader *reader, void *entry, const char *field, const char *value, struct error *err)
{
	struct task_entry *e = entry;
	struct str text = str_from(value);
	struct error inner = {0};
	const char *why = inner.msg;
	int r;

	if (!strcmp(field, "copies"))
		return parse_uint(text, 1, COPIES_MAX, &e->copies, err);
	if (!strcmp(field, "at"))
		return parse_duration_up_to(text, WORKLOAD_TIME_MAX_NS, &e->at_ns, err);
	if (!strcmp(field, "every")) {
		e->has_every = true;
		return parse_duration_up_to(text, WORKLOAD_TIME_MAX_NS, &e->every_ns, err);
	}
	if (!strcmp(field, "duration"))
		return parse_duration_up_to(text, WORKLOAD_TIME_MAX_NS, &e->duration_ns, err);
	if (!strcmp(field, "cpu"))
		return parse_cores(value, &e->cpu_milli, err);
	if (!strcmp(field, "host-memory"))
		return parse_bytes(text, &e->memory_bytes, err);
	if (!strcmp(field, "gang"))
		return parse_bool(text, &e->is_gang, err);
	r = set_relation(reader, e, field, value, err);
	if (r != -ENOENT)
		return r;
	r = !strcmp(field, "network") ? spec_set_cluster(&e->spec, field, value, &inner)
				      : spec_set(&e->spec, field, value, &inner);
	if (r == 0 || r == -ENOENT)
		return r;
	/* It names the field, as is done of all of them here. */
	if (!strncmp(why, field, strlen(field)) && why[strlen(field)] == ' ')
		why += strlen(field) + 1;
	return fail(err, -r, "%s", why);
}

static int add_nodes(struct reader *reader, const struct node_entry *e, struct error *err)
{
	int r = 0;

	for (uint64_t i = 0; r == 0 && i < e->copies; i++) {
		struct cluster_node node = e->node;

		if (e->copies > 1)
			snprintf(node.name, sizeof(node.name), "%.40s-%u", e->node.name,
				(uint32_t)i);
		r = cluster_add(reader->cluster, &node, err);
	}
	return r;
}

static int read_node(struct reader *reader, void *entry, struct error *err)
{
	struct node_entry *e = entry;

	if (!e->node.name[0])
		snprintf(e->node.name, sizeof(e->node.name), "node%u", reader->cluster->n);
	if (e->has_kinds && (e->has_model || e->has_memory))
		return fail(err, EINVAL,
			"%s: 'devices' names it already, as V100:2:16Gi does; the node's own "
			"memory is host-memory",
			e->has_model ? "model" : "memory");
	if (!e->has_kinds && !e->has_model &&
		cluster_model(reader->cluster, STR("any"), &e->node.kinds[0].model, err) < 0)
		return -ENOSPC;
	return add_nodes(reader, e, err);
}

static int read_queue(struct reader *reader, const struct cluster_queue *queue, struct error *err)
{
	if (!queue->name[0])
		return fail(err, EINVAL, "a queue needs a name");
	return cluster_queue_add(reader->cluster, queue, err);
}

/* What a spec may say, and a simulation of whole nodes has not. */
static int check_simulated(
	const struct spec *spec, const struct cluster *cluster, struct error *err)
{
	if (spec->mode == SPEC_MODE_REMOTE && !cluster->n_networks)
		return fail(err, EINVAL,
			"mode remote: without 'networks:' tasks are on the node of their devices: "
			"auto, local or exclusive is possible");
	if ((spec->network_mbit || spec->network_latency_us) && !cluster->n_networks)
		return fail(err, EINVAL, "network: it is for where there are 'networks:'");
	if (spec->memory_policy == SPEC_MEMORY_SWAP)
		return fail(err, EINVAL,
			"memory-policy swap: no device has more memory than it has here: fail or "
			"wait is possible");
	return 0;
}

static int read_task(struct reader *reader, void *entry, struct error *err)
{
	struct task_entry *e = entry;
	struct task task = {.spec = PLACE_SPEC_INIT};
	int r = spec_finish(&e->spec, err);

	r = r < 0 ? r : check_simulated(&e->spec, reader->cluster, err);
	if (r < 0)
		return r;
	if (e->every_ns > WORKLOAD_TIME_MAX_NS / e->copies)
		return fail(err, EINVAL, "the last of them comes after more than 200d");
	if (e->spec.device[0])
		return fail(err, EINVAL, "device '%s': devices have no names here", e->spec.device);
	if (e->is_gang && reader->cluster->n_networks)
		return fail(err, EINVAL, "gang: with 'networks:' each has its place by itself");
	if (e->is_gang && e->copies > PLACE_GANG_MAX)
		return fail(err, EINVAL, "copies %" PRIu64 ": up to %u start together", e->copies,
			PLACE_GANG_MAX);
	if (e->has_every && e->copies == 1)
		return fail(err, EINVAL,
			"every: it is the time from one copy to the next, and there is one: "
			"'copies' of 2 or more is expected, or 'at' for when it comes");
	if (e->has_every && e->is_gang)
		return fail(err, EINVAL, "every: those of a gang come together, by 'at'");
	if (e->threshold && !e->is_gang)
		return fail(err, EINVAL, "threshold: it is for a gang, with 'gang: yes'");
	task.line = e->line;
	task.spec.share = e->spec.request;
	task.spec.count = e->spec.count;
	task.spec.is_exclusive = e->spec.exclusive;
	task.spec.device_bytes = e->spec.memory_bytes;
	task.spec.device_permille = e->spec.memory_permille;
	task.spec.class = e->spec.class;
	task.spec.priority = e->spec.priority;
	task.spec.cpu_milli = e->cpu_milli;
	task.spec.memory_bytes = e->memory_bytes;
	task.mode = e->spec.mode;
	task.least_mbit = e->spec.network_mbit;
	task.most_latency_us = e->spec.network_latency_us;
	task.limit = e->spec.limit;
	task.work_ns = e->duration_ns;
	reader->workload->has_times &= e->duration_ns > 0;
	task.gang = e->is_gang ? ++reader->gangs : 0;
	task.threshold = e->threshold;
	task.spec.affinity = e->affinity;
	task.spec.anti_affinity = e->anti_affinity;
	task.spec.preferred_anti_affinity = e->preferred_anti_affinity;
	task.spec.exclusion = e->exclusion;
	task.spec.queue = e->queue;
	r = cluster_models(reader->cluster, str_from(e->spec.model), &task.spec.models, err);
	for (uint64_t i = 0; r == 0 && i < e->copies; i++) {
		task.arrives_ns = e->at_ns + (e->is_gang ? 0 : i * e->every_ns);
		r = workload_add(reader->workload, &task, err);
	}
	return r;
}

typedef int (*set_fn)(struct reader *, void *, const char *, const char *, struct error *);

/* ---- fields ---- */

#define OWN_FIELDS_MAX 16
#define PLUS_ONE(name, help) +1
#define SPEC_FIELDS_N (0 SPEC_FIELDS(PLUS_ONE))

static const char *const own_fields[LISTS][OWN_FIELDS_MAX] = {
	[NODES] = {"name", "rack", "copies", "devices", "model", "memory", "cpu", "host-memory"},
	[QUEUES] = {"name", "parent", "quota", "limit", "models", "weight"},
	[NETWORKS] = {"node", "kind", "bandwidth", "latency"},
	[TASKS] = {"copies", "at", "every", "duration", "cpu", "host-memory", "gang", "threshold",
		"affinity", "anti-affinity", "preferred-anti-affinity", "exclusion", "queue",
		"network"},
};

/* Of a list's entries; NULL behind the last. */
struct known_fields {
	const char *name[OWN_FIELDS_MAX + SPEC_FIELDS_N + 1];
	char of_spec[SPEC_FIELDS_N][SPEC_FIELD];
};

static const char *next_field(const void *known, size_t i)
{
	return ((const struct known_fields *)known)->name[i];
}

static bool is_own(enum list list, const char *field)
{
	size_t n = 0;

	while (own_fields[list][n] && strcmp(own_fields[list][n], field) != 0)
		n++;
	return own_fields[list][n];
}

static int unknown_field(enum list list, const char *field, struct error *err)
{
	_cleanup_buf_ struct buf names = BUF_INIT(sizeof(struct known_fields));
	struct known_fields known = {0};
	const char *near;
	size_t n = 0;

	for (; own_fields[list][n]; n++)
		known.name[n] = own_fields[list][n];
	for (size_t i = 0; list == TASKS && i < SPEC_FIELDS_N; i++) {
		const char *name = spec_field_name(i, known.of_spec[i]);

		/* Devices have no names here. */
		if (strcmp(name, "device") != 0 && !is_own(list, name))
			known.name[n++] = name;
	}
	near = cli_suggest(field, next_field, &known);
	if (near)
		return fail(err, EINVAL, "there is no such field; did you mean '%s'?", near);
	for (size_t i = 0; i < n; i++)
		buf_addf(&names, "%s%s", i == 0 ? "" : i + 1 < n ? ", " : " and ", known.name[i]);
	return fail(err, EINVAL, "there are %s", buf_text(&names));
}

/* Of a key, with '-' for '_' as the fields of a spec may have it. */
static int field_name(struct fy_node *key, char ret[static VALUE_MAX], struct error *err)
{
	int r = scalar(key, "a field's name", ret, err);

	for (char *p = ret; r == 0 && *p; p++)
		*p = *p == '_' ? '-' : *p;
	return r;
}

/* Before that pair; there are only as many as there are different fields. */
static bool was_there(struct fy_node *item, const struct fy_node_pair *pair, const char *field)
{
	struct fy_node_pair *other;
	char name[VALUE_MAX];
	void *at = NULL;

	while ((other = fy_node_mapping_iterate(item, &at)) && other != pair)
		if (field_name(fy_node_pair_key(other), name, NULL) == 0 && !strcmp(name, field))
			return true;
	return false;
}

/* The entry's line, or its number where nothing in it has one. */
static int fail_in_entry(
	struct fy_node *item, enum list list, uint32_t number, int r, struct error *err)
{
	const int line = first_line_of(item);

	return line ? fail_within(err, r, "line %d", line)
		    : fail_within(err, r, "%s: entry %u", list_names[list], number);
}

static int read_fields(
	struct reader *reader, struct fy_node *item, void *entry, enum list list, struct error *err)
{
	static const set_fn setters[LISTS] = {[NODES] = set_node,
		[QUEUES] = set_queue,
		[NETWORKS] = set_network,
		[TASKS] = set_task};
	struct fy_node_pair *pair;
	void *at = NULL;

	while ((pair = fy_node_mapping_iterate(item, &at))) {
		char field[VALUE_MAX], value[VALUE_MAX];
		int r = field_name(fy_node_pair_key(pair), field, err);

		if (r == 0)
			r = scalar(fy_node_pair_value(pair), field, value, err);
		if (r < 0)
			return fail_within(err, r, "line %d", first_line_of(item));
		r = was_there(item, pair, field) ? fail(err, EEXIST, "it is there twice")
						 : setters[list](reader, entry, field, value, err);
		if (r == -ENOENT)
			r = unknown_field(list, field, err);
		if (r < 0)
			return fail_within(err, r == -ENOMEM ? r : -EINVAL, "line %d: %s",
				line_of(fy_node_pair_key(pair)), field);
	}
	return 0;
}

static int read_entry(struct reader *reader, struct fy_node *item, enum list list, uint32_t number,
	struct error *err)
{
	struct node_entry node = {.copies = 1, .node.n_kinds = 1};
	struct task_entry task = {.copies = 1, .line = (uint32_t)first_line_of(item)};
	struct cluster_queue queue = {.limit = PLACE_UNLIMITED, .weight = 1, .line = task.line};
	struct cluster_network network = {.node = PLACE_NONE, .kind = PLACE_NETWORK_KINDS};
	void *const entries[LISTS] = {
		[NODES] = &node, [QUEUES] = &queue, [NETWORKS] = &network, [TASKS] = &task};
	int r;

	if (!fy_node_is_mapping(item))
		return fail_in_entry(item, list, number,
			fail(err, EINVAL, "fields are expected, such as {copies: 2}"), err);
	spec_init(&task.spec);
	node.node.line = task.line;
	r = read_fields(reader, item, entries[list], list, err);
	if (r < 0)
		return r;
	switch (list) {
	case NODES: r = read_node(reader, &node, err); break;
	case QUEUES: r = read_queue(reader, &queue, err); break;
	case NETWORKS: r = read_network(reader, &network, err); break;
	default: r = read_task(reader, &task, err);
	}
	return r < 0 ? fail_in_entry(item, list, number, r == -ENOMEM ? r : -EINVAL, err) : 0;
}

static int read_list(struct reader *reader, struct fy_node *node, enum list list, struct error *err)
{
	struct fy_node *item;
	uint32_t number = 0;
	void *at = NULL;
	int r = 0;

	if (!node && (list == QUEUES || list == NETWORKS))
		return 0;
	if (!node || !fy_node_is_sequence(node))
		return fail(err, EINVAL, "a list of %s is expected: '%s:' and entries with '-'",
			list_names[list], list_names[list]);
	while (r == 0 && (item = fy_node_sequence_iterate(node, &at)))
		r = read_entry(reader, item, list, ++number, err);
	return r;
}

static int find_lists(
	struct fy_node *root, struct fy_node *ret_lists[static LISTS], struct error *err)
{
	struct fy_node_pair *pair;
	void *at = NULL;

	if (!root || !fy_node_is_mapping(root))
		return fail(err, EINVAL, "'nodes:' and 'tasks:' are expected");
	while ((pair = fy_node_mapping_iterate(root, &at))) {
		char key[VALUE_MAX];
		int list = 0, r = scalar(fy_node_pair_key(pair), "a list's name", key, err);

		if (r < 0)
			return r;
		while (list < LISTS && strcmp(key, list_names[list]) != 0)
			list++;
		if (list == LISTS)
			return fail(err, EINVAL,
				"line %d: '%s': there are nodes, queues, networks and tasks",
				line_of(fy_node_pair_key(pair)), key);
		if (ret_lists[list])
			return fail(err, EINVAL, "line %d: %s: it is there twice",
				line_of(fy_node_pair_key(pair)), key);
		ret_lists[list] = fy_node_pair_value(pair);
	}
	return 0;
}

/* Tasks name queues, and networks nodes, which are read before them wherever they stand. */
static int read_root(struct reader *reader, struct fy_node *root, struct error *err)
{
	struct fy_node *lists[LISTS] = {NULL};
	int r = find_lists(root, lists, err);

	for (int list = 0; r == 0 && list < LISTS; list++) {
		r = read_list(reader, lists[list], (enum list)list, err);
		if (r == 0 && list == QUEUES)
			r = cluster_queues_check(reader->cluster, err);
	}
	return r < 0 ? r : cluster_check_names(reader->cluster, err);
}

/* The one document of the text. */
static int load(struct fy_parser *parser, struct str text, struct fy_diag *diag,
	struct fy_document **ret_document, struct error *err)
{
	_cleanup_(fy_document_destroy_p) struct fy_document *document = NULL, *next = NULL;

	if (fy_parser_set_string(parser, text.n ? text.p : "", text.n) < 0)
		return fail(err, ENOMEM, "out of memory for YAML");
	document = fy_parse_load_document(parser);
	if (document)
		next = fy_parse_load_document(parser);
	if (!document && !fy_parser_get_stream_error(parser))
		return fail(err, EINVAL, "the file is empty: 'nodes:' and 'tasks:' are expected");
	if (!document || (!next && fy_parser_get_stream_error(parser)))
		return yaml_fail(diag, err);
	if (next) {
		const struct fy_mark *mark = fy_document_state_start_mark(
			fy_document_get_document_state(next));

		return fail(err, EINVAL, "line %d: a second document begins: there can be one only",
			mark ? mark->line + 1 : 0);
	}
	*ret_document = TAKE_PTR(document);
	return 0;
}

int sim_yaml(struct str text, struct cluster *cluster, struct workload *workload, struct error *err)
{
	struct fy_diag_cfg diag_config = {.level = FYET_ERROR, .module_mask = UINT32_MAX};
	_cleanup_(fy_diag_destroy_p) struct fy_diag *diag = fy_diag_create(&diag_config);
	/* Its own look for keys that are there twice takes minutes where there are many. */
	struct fy_parse_cfg config = {
		.flags = FYPCF_QUIET | FYPCF_ALLOW_DUPLICATE_KEYS, .diag = diag};
	_cleanup_(fy_parser_destroy_p) struct fy_parser *parser = NULL;
	_cleanup_(fy_document_destroy_p) struct fy_document *document = NULL;
	struct reader reader = {.cluster = cluster, .workload = workload};
	int r;

	if (!diag)
		return fail(err, ENOMEM, "out of memory for YAML");
	if (yaml_check_text(text, err) < 0)
		return -EINVAL;
	fy_diag_set_collect_errors(diag, true);
	parser = fy_parser_create(&config);
	if (!parser)
		return fail(err, ENOMEM, "out of memory for YAML");
	r = load(parser, text, diag, &document, err);
	if (r < 0)
		return r;
	workload->has_times = true;
	return read_root(&reader, fy_document_root(document), err);
}
