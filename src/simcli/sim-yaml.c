/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the YAML of `divvy sim --spec`:
 *
 *   nodes:
 *     - {name: a, copies: 8, devices: 4, model: V100, memory: 16Gi, cpu: 36, host-memory: 244Gi}
 *     - {name: b, devices: A100:3:40Gi|A100-1g.5gb:7:4864Mi, cpu: 64}
 *   tasks:
 *     - {request: 0.4, limit: 0.5, memory: 4Gi, copies: 10, every: 30s, duration: 10m}
 *   queues:
 *     - {name: team, quota: 4, limit: 8, weight: 2}
 *   networks:
 *     - {node: a-0, kind: host, bandwidth: 9Gbps, latency: 50us}
 *
 * A task has the fields of a spec (spec/spec.h), its arrival, its duration at its limit, and its
 * CPU and memory on the node. Aliases and tags are errors, so a short text cannot stand for a huge
 * one.
 */
#include <errno.h>
#include <inttypes.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/parse.h"
#include "fields/read.h"
#include "fields/yaml.h"
#include "place/place-gang.h"
#include "place/place-queue.h"
#include "simcli/sim.h"

#define VALUE_MAX 128
#define COPIES_MAX 100000u

struct reader {
	const struct yaml_file *file;
	struct cluster *cluster;
	struct workload *workload;
	uint32_t gangs;
	uint32_t labels_room; /* number of labels for which the workload has room */
};

const char *const sim_network_kinds[PLACE_NETWORK_KINDS] = {
	[PLACE_NETWORK_DIRECT] = "direct",
	[PLACE_NETWORK_HOST] = "host",
	[PLACE_NETWORK_OVERLAY] = "overlay",
};

enum list { NODES, QUEUES, NETWORKS, TASKS, LISTS };

/* One entry of a list while the reader fills its fields. */
struct node_entry {
	struct reader *reader;
	struct cluster_node node;
	uint64_t copies;
	bool has_kinds, has_model, has_memory;
};

struct queue_entry {
	struct reader *reader;
	struct cluster_queue queue;
};

struct network_entry {
	struct reader *reader;
	struct cluster_network network;
};

struct task_entry {
	struct reader *reader;
	struct spec spec;
	uint64_t copies, at_ns, every_ns, duration_ns;
	uint32_t line, cpu_milli;
	uint64_t memory_bytes;
	bool is_gang, has_every;
	uint32_t threshold, queue, affinity, anti_affinity, preferred_anti_affinity, exclusion;
};

/* Text of a plain value, with a terminating 0; a null value is an empty text. */
static int sim_yaml_plain_text(json_t *value, struct str *ret_text, struct error *err)
{
	const struct str text = json_is_null(value)
		? STR("")
		: (struct str){json_string_value(value), json_string_length(value)};

	if (!text.p)
		return fail(err, EINVAL, "expected a plain value");
	if (text.n >= VALUE_MAX || str_find(text, '\0') < text.n)
		return fail(err, EINVAL, "expected a text of up to %d characters", VALUE_MAX - 1);
	*ret_text = text;
	return 0;
}

/* ---- values ---- */

/* Parses cores such as "36" or "0.5". */
static int parse_cores(struct str text, uint32_t *ret_milli, struct error *err)
{
	int r = parse_share(text, ret_milli, NULL);

	return r < 0 ? fail(err, -r, "'%s': expected cores such as 36 or 0.5, up to %d", text.p,
			       SHARE_MAX / SHARE_ONE)
		     : 0;
}

static int parse_name_up_to(struct str text, char *ret, size_t size, struct error *err)
{
	if (!text.n || str_copy(ret, size, text) < 0)
		return fail(err, EINVAL, "'%s': expected 1 to %zu characters", text.p, size - 1);
	return 0;
}

static int sim_yaml_parse_name(struct str text, char *ret, struct error *err)
{
	return parse_name_up_to(text, ret, SPEC_LABEL, err);
}

/* Parses a node's name; half the length stays free for the number of a copy. */
static int parse_node_name(struct str text, char *ret, struct error *err)
{
	return parse_name_up_to(text, ret, SPEC_LABEL / 2, err);
}

static int parse_copies(struct str text, uint64_t *ret_copies, struct error *err)
{
	return parse_uint(text, 1, COPIES_MAX, ret_copies, err);
}

static int parse_time(struct str text, uint64_t *ret_ns, struct error *err)
{
	return parse_duration_up_to(text, WORKLOAD_TIME_MAX_NS, ret_ns, err);
}

static int parse_device_bytes(struct str text, uint64_t *ret_bytes, struct error *err)
{
	uint64_t bytes = 0;
	int r = parse_bytes(text, &bytes, err);

	if (r == -ERANGE || bytes > PLACE_DEVICE_BYTES_MAX)
		return fail(err, ERANGE,
			"'%" STR_FMT "': expected a whole number of bytes, up to 279Ti",
			STR_ARG(text));
	*ret_bytes = bytes;
	return r;
}

/*
 * Splits "MODEL:FIRST:REST". *ret_rest is all text after FIRST, and has p NULL if nothing follows.
 */
static int split_model(struct reader *reader, struct str text, const char *form,
	uint32_t *ret_model, struct str *ret_first, struct str *ret_rest, struct error *err)
{
	struct str name;

	str_split(&text, ':', &name);
	if (!name.n || !text.p)
		return fail(err, EINVAL, "expected %s, with '|' between several", form);
	str_split(&text, ':', ret_first);
	*ret_rest = text;
	return cluster_model(reader->cluster, name, ret_model, err);
}

/* Parses "V100:2:16Gi|T4:4": the number of devices of a model, and the memory of each. */
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
			return fail(err, ENOSPC, "the node has more than %u kinds of devices",
				CLUSTER_KINDS);
		r = split_model(reader, one, "MODEL:COUNT:MEMORY, such as V100:2:16Gi",
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

static int sim_yaml_set_model(struct str text, struct node_entry *e, struct error *err)
{
	e->has_model = true;
	return cluster_model(e->reader->cluster, text, &e->node.kinds[0].model, err);
}

static int sim_yaml_set_memory(struct str text, struct node_entry *e, struct error *err)
{
	e->has_memory = true;
	return parse_device_bytes(text, &e->node.kinds[0].device_bytes, err);
}

static int sim_yaml_set_devices(struct str text, struct node_entry *e, struct error *err)
{
	uint64_t n = 0;
	int r;

	if (str_find(text, ':') < text.n) {
		e->has_kinds = true;
		return set_kinds(e->reader, &e->node, text, err);
	}
	r = parse_uint(text, 0, PLACE_NODE_DEVICES_MAX, &n, err);
	e->node.kinds[0].n_devices = (uint32_t)n;
	return r;
}

/* Parses a number of devices such as "4" or "1.5". */
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
			"'%" STR_FMT
			"': expected devices such as 4 or 1.5, 0 to %u in steps of 0.001",
			STR_ARG(text), UINT32_MAX);
	*ret_permille = whole * SPEC_SHARE_ONE + permille;
	return 0;
}

/* Parses "V100:1.5:4|T4:2": a model's quota and limit; without a third part there is no limit. */
static int set_queue_models(struct str text, struct queue_entry *e, struct error *err)
{
	struct cluster_queue *q = &e->queue;
	struct str one;

	for (q->n_models = 0; text.p && str_split(&text, '|', &one); q->n_models++) {
		struct str quota, limit;
		uint32_t at = q->n_models;
		int r;

		if (at == CLUSTER_QUEUE_MODELS)
			return fail(err, ENOSPC, "the queue has more than %u models",
				CLUSTER_QUEUE_MODELS);
		q->models[at].limit = PLACE_UNLIMITED;
		r = split_model(e->reader, one, "MODEL:QUOTA:LIMIT, such as V100:1.5:4",
			&q->models[at].model, &quota, &limit, err);
		r = r < 0 ? r : parse_devices(quota, &q->models[at].quota, err);
		if (r == 0 && limit.p)
			r = parse_devices(limit, &q->models[at].limit, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int parse_weight(struct str text, uint32_t *ret_weight, struct error *err)
{
	uint64_t weight = 0;
	int r = parse_uint(text, 1, PLACE_QUEUE_WEIGHT_MAX, &weight, err);

	*ret_weight = (uint32_t)weight;
	return r;
}

static int set_network_node(struct str text, struct network_entry *e, struct error *err)
{
	const struct cluster *cluster = e->reader->cluster;

	for (uint32_t i = 0; i < cluster->n; i++)
		if (str_is(text, cluster->nodes[i].name)) {
			e->network.node = i;
			return 0;
		}
	return fail(err, EINVAL, "'%s': 'nodes:' has no node of that name", text.p);
}

static int parse_network_kind(struct str text, enum place_network_kind *ret_kind, struct error *err)
{
	for (size_t i = 0; i < PLACE_NETWORK_KINDS; i++)
		if (str_is(text, sim_network_kinds[i])) {
			*ret_kind = (enum place_network_kind)i;
			return 0;
		}
	return fail(err, EINVAL, "'%s': expected direct, host or overlay", text.p);
}

/* Parses a bandwidth or a latency, but not both, with the parser of the spec's `network`. */
static int parse_network(struct str text, bool is_latency, uint32_t *ret, struct error *err)
{
	struct spec spec;
	uint32_t wanted, other;
	int r;

	spec_init(&spec);
	r = spec_set_cluster(&spec, "network", text.p, err);
	if (r < 0)
		return r;
	wanted = is_latency ? spec.network_latency_us : spec.network_mbit;
	other = is_latency ? spec.network_mbit : spec.network_latency_us;
	if (!wanted || other)
		return fail(err, EINVAL, "'%s': expected a %s", text.p,
			is_latency ? "latency such as 50us" : "bandwidth such as 9Gbps");
	*ret = wanted;
	return 0;
}

static int parse_bandwidth(struct str text, uint32_t *ret_mbit, struct error *err)
{
	return parse_network(text, false, ret_mbit, err);
}

static int sim_yaml_parse_latency(struct str text, uint32_t *ret_us, struct error *err)
{
	return parse_network(text, true, ret_us, err);
}

/* Returns the label's number; equal names share a number. Only exclusion permits an empty name. */
static int sim_yaml_read_label(struct reader *reader, struct str text, bool may_be_empty,
	uint32_t *ret_label, struct error *err)
{
	struct workload *w = reader->workload;
	char name[SPEC_LABEL] = "";
	int r = may_be_empty && !text.n ? 0 : sim_yaml_parse_name(text, name, err);

	for (uint32_t i = 0; r == 0 && i < w->n_labels; i++)
		if (!strcmp(w->labels[i], name)) {
			*ret_label = i + 1;
			return 0;
		}
	if (r < 0)
		return r;
	if (w->n_labels == WORKLOAD_LABELS_MAX)
		return fail(err, ENOSPC, "'%s': the file has more than %u labels", text.p,
			WORKLOAD_LABELS_MAX);
	if (array_grow(&w->labels, &reader->labels_room, w->n_labels + 1ull, sizeof(*w->labels)) <
		0)
		return fail(err, ENOMEM, "out of memory for labels");
	memcpy(w->labels[w->n_labels], name, sizeof(name));
	*ret_label = ++w->n_labels;
	return 0;
}

static int sim_yaml_set_affinity(struct str text, struct task_entry *e, struct error *err)
{
	return sim_yaml_read_label(e->reader, text, false, &e->affinity, err);
}

static int sim_yaml_set_anti_affinity(struct str text, struct task_entry *e, struct error *err)
{
	return sim_yaml_read_label(e->reader, text, false, &e->anti_affinity, err);
}

static int sim_yaml_set_preferred_anti_affinity(
	struct str text, struct task_entry *e, struct error *err)
{
	return sim_yaml_read_label(e->reader, text, false, &e->preferred_anti_affinity, err);
}

static int sim_yaml_set_exclusion(struct str text, struct task_entry *e, struct error *err)
{
	return sim_yaml_read_label(e->reader, text, true, &e->exclusion, err);
}

static int set_task_queue(struct str text, struct task_entry *e, struct error *err)
{
	const struct cluster *cluster = e->reader->cluster;

	e->queue = cluster_queue_find(cluster, text);
	if (!e->queue)
		return fail(err, EINVAL, "'%s': 'queues:' has no queue of that name", text.p);
	for (uint32_t i = 0; i < cluster->n_queues; i++)
		if (str_is(text, cluster->queues[i].parent))
			return fail(err, EINVAL,
				"'%s': the queue has child queues, such as '%s'; put the task "
				"into one of them",
				text.p, cluster->queues[i].name);
	return 0;
}

static int parse_threshold(struct str text, uint32_t *ret_permille, struct error *err)
{
	uint32_t permille = 0;
	int r = parse_share(text, &permille, err);

	if (r == 0 && (!permille || permille > 1000))
		r = fail(err, EINVAL, "'%s': expected a part of the gang, 0.001 to 1", text.p);
	*ret_permille = permille;
	return r;
}

static int set_every(struct str text, struct task_entry *e, struct error *err)
{
	e->has_every = true;
	return parse_time(text, &e->every_ns, err);
}

static int sim_yaml_set_network(struct str text, struct task_entry *e, struct error *err)
{
	return spec_set_value(&e->spec, "network", text.p, true, err);
}

/* ---- entries ---- */

static int add_network(void *entry, struct error *err)
{
	const struct network_entry *e = entry;
	const struct cluster_network *network = &e->network;

	if (network->node == PLACE_NONE || network->kind == PLACE_NETWORK_KINDS || !network->mbit ||
		!network->latency_us)
		return fail(err, EINVAL,
			"the network is incomplete; expected node, kind, bandwidth and latency");
	return cluster_network_add(e->reader->cluster, network, err);
}

static int add_copies(const struct node_entry *e, struct error *err)
{
	int r = 0;

	for (uint64_t i = 0; r == 0 && i < e->copies; i++) {
		struct cluster_node node = e->node;

		if (e->copies > 1)
			snprintf(node.name, sizeof(node.name), "%.40s-%u", e->node.name,
				(uint32_t)i);
		r = cluster_add(e->reader->cluster, &node, err);
	}
	return r;
}

static int sim_yaml_add_node(void *entry, struct error *err)
{
	struct node_entry *e = entry;
	struct cluster *cluster = e->reader->cluster;

	if (!e->node.name[0])
		snprintf(e->node.name, sizeof(e->node.name), "node%u", cluster->n);
	if (e->has_kinds && (e->has_model || e->has_memory))
		return fail(err, EINVAL,
			"%s: 'devices' gives it already, as in V100:2:16Gi; host-memory is the "
			"memory of the node",
			e->has_model ? "model" : "memory");
	if (!e->has_kinds && !e->has_model &&
		cluster_model(cluster, STR("any"), &e->node.kinds[0].model, err) < 0)
		return -ENOSPC;
	return add_copies(e, err);
}

static int add_queue(void *entry, struct error *err)
{
	const struct queue_entry *e = entry;

	if (!e->queue.name[0])
		return fail(err, EINVAL, "the queue has no name");
	return cluster_queue_add(e->reader->cluster, &e->queue, err);
}

/* Refuses fields of a spec that the simulation does not support. */
static int sim_yaml_check_simulated(
	const struct spec *spec, const struct cluster *cluster, struct error *err)
{
	if (spec->mode == SPEC_MODE_REMOTE && !cluster->n_networks)
		return fail(err, EINVAL,
			"mode remote: the file has no 'networks:'; expected auto, local or "
			"exclusive");
	if ((spec->network_mbit || spec->network_latency_us) && !cluster->n_networks)
		return fail(err, EINVAL,
			"network: the file has no 'networks:'; add them, or leave network out");
	if (spec->memory_policy == SPEC_MEMORY_SWAP)
		return fail(err, EINVAL,
			"memory-policy swap: the simulation has no swap; expected fail or wait");
	return 0;
}

static int add_task(void *entry, struct error *err)
{
	struct task_entry *e = entry;
	struct reader *reader = e->reader;
	struct task task = {.spec = PLACE_SPEC_INIT};
	int r = spec_finish(&e->spec, err);

	r = r < 0 ? r : sim_yaml_check_simulated(&e->spec, reader->cluster, err);
	if (r < 0)
		return r;
	if (e->every_ns > WORKLOAD_TIME_MAX_NS / e->copies)
		return fail(err, EINVAL,
			"the last copy arrives after more than 200d; expected fewer copies or "
			"a shorter 'every'");
	if (e->spec.device[0])
		return fail(err, EINVAL, "device '%s': simulated devices have no names; use model",
			e->spec.device);
	if (e->is_gang && reader->cluster->n_networks)
		return fail(err, EINVAL,
			"gang: a simulation with 'networks:' places each task by itself; leave "
			"gang out");
	if (e->is_gang && e->copies > PLACE_GANG_MAX)
		return fail(err, EINVAL, "copies %" PRIu64 ": a gang has at most %u tasks",
			e->copies, PLACE_GANG_MAX);
	if (e->has_every && e->copies == 1)
		return fail(err, EINVAL,
			"every: the time between copies, but the task has one copy; set copies "
			"to 2 or more, or use 'at'");
	if (e->has_every && e->is_gang)
		return fail(err, EINVAL, "every: the tasks of a gang arrive together; use 'at'");
	if (e->threshold && !e->is_gang)
		return fail(err, EINVAL, "threshold: the task has no gang; set 'gang: yes'");
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

/* ---- fields ---- */

READ_PARSED(read_bool_plain, sim_yaml_plain_text, bool, parse_bool)
READ_PARSED(sim_yaml_read_bytes, sim_yaml_plain_text, uint64_t, parse_bytes)
READ_PARSED(read_copies, sim_yaml_plain_text, uint64_t, parse_copies)
READ_PARSED(read_cores, sim_yaml_plain_text, uint32_t, parse_cores)
READ_PARSED(read_time, sim_yaml_plain_text, uint64_t, parse_time)
READ_PARSED(sim_yaml_read_name, sim_yaml_plain_text, char, sim_yaml_parse_name)
READ_PARSED(read_node_name, sim_yaml_plain_text, char, parse_node_name)
READ_PARSED(sim_yaml_read_devices, sim_yaml_plain_text, struct node_entry, sim_yaml_set_devices)
READ_PARSED(sim_yaml_read_model, sim_yaml_plain_text, struct node_entry, sim_yaml_set_model)
READ_PARSED(sim_yaml_read_memory, sim_yaml_plain_text, struct node_entry, sim_yaml_set_memory)
READ_PARSED(read_quota, sim_yaml_plain_text, uint64_t, parse_devices)
READ_PARSED(read_queue_models, sim_yaml_plain_text, struct queue_entry, set_queue_models)
READ_PARSED(read_weight, sim_yaml_plain_text, uint32_t, parse_weight)
READ_PARSED(read_network_node, sim_yaml_plain_text, struct network_entry, set_network_node)
READ_PARSED(read_network_kind, sim_yaml_plain_text, enum place_network_kind, parse_network_kind)
READ_PARSED(read_bandwidth, sim_yaml_plain_text, uint32_t, parse_bandwidth)
READ_PARSED(read_latency, sim_yaml_plain_text, uint32_t, sim_yaml_parse_latency)
READ_PARSED(read_every, sim_yaml_plain_text, struct task_entry, set_every)
READ_PARSED(read_threshold, sim_yaml_plain_text, uint32_t, parse_threshold)
READ_PARSED(sim_yaml_read_affinity, sim_yaml_plain_text, struct task_entry, sim_yaml_set_affinity)
READ_PARSED(sim_yaml_read_anti_affinity, sim_yaml_plain_text, struct task_entry,
	sim_yaml_set_anti_affinity)
READ_PARSED(read_preferred_anti_affinity, sim_yaml_plain_text, struct task_entry,
	sim_yaml_set_preferred_anti_affinity)
READ_PARSED(read_exclusion, sim_yaml_plain_text, struct task_entry, sim_yaml_set_exclusion)
READ_PARSED(read_task_queue, sim_yaml_plain_text, struct task_entry, set_task_queue)
READ_PARSED(sim_yaml_read_network, sim_yaml_plain_text, struct task_entry, sim_yaml_set_network)

static const struct read_field node_fields[] = {
	READ_FIELD(struct node_entry, node.name, "name", read_node_name),
	READ_FIELD(struct node_entry, node.rack, "rack", sim_yaml_read_name),
	READ_FIELD(struct node_entry, copies, "copies", read_copies),
	READ_WHOLE("devices", sim_yaml_read_devices),
	READ_WHOLE("model", sim_yaml_read_model),
	READ_WHOLE("memory", sim_yaml_read_memory),
	READ_FIELD(struct node_entry, node.cpu_milli, "cpu", read_cores),
	READ_FIELD(struct node_entry, node.memory_bytes, "host-memory", sim_yaml_read_bytes),
};

static const struct read_field queue_fields[] = {
	READ_FIELD(struct queue_entry, queue.name, "name", sim_yaml_read_name),
	READ_FIELD(struct queue_entry, queue.parent, "parent", sim_yaml_read_name),
	READ_FIELD(struct queue_entry, queue.quota, "quota", read_quota),
	READ_FIELD(struct queue_entry, queue.limit, "limit", read_quota),
	READ_WHOLE("models", read_queue_models),
	READ_FIELD(struct queue_entry, queue.weight, "weight", read_weight),
};

static const struct read_field network_fields[] = {
	READ_WHOLE("node", read_network_node),
	READ_FIELD(struct network_entry, network.kind, "kind", read_network_kind),
	READ_FIELD(struct network_entry, network.mbit, "bandwidth", read_bandwidth),
	READ_FIELD(struct network_entry, network.latency_us, "latency", read_latency),
};

static const struct read_field task_fields[] = {
	READ_FIELD(struct task_entry, copies, "copies", read_copies),
	READ_FIELD(struct task_entry, at_ns, "at", read_time),
	READ_WHOLE("every", read_every),
	READ_FIELD(struct task_entry, duration_ns, "duration", read_time),
	READ_FIELD(struct task_entry, cpu_milli, "cpu", read_cores),
	READ_FIELD(struct task_entry, memory_bytes, "host-memory", sim_yaml_read_bytes),
	READ_FIELD(struct task_entry, is_gang, "gang", read_bool_plain),
	READ_FIELD(struct task_entry, threshold, "threshold", read_threshold),
	READ_WHOLE("affinity", sim_yaml_read_affinity),
	READ_WHOLE("anti-affinity", sim_yaml_read_anti_affinity),
	READ_FIELD(
		struct task_entry, reader, "preferred-anti-affinity", read_preferred_anti_affinity),
	READ_WHOLE("exclusion", read_exclusion),
	READ_WHOLE("queue", read_task_queue),
	READ_WHOLE("network", sim_yaml_read_network),
};

#define PLUS_ONE(name, help) +1
#define SPEC_FIELDS_N (0 SPEC_FIELDS(PLUS_ONE))

/* Names of the fields of a list's entries; NULL after the last. */
struct known_fields {
	const char *name[ARRAY_SIZE(task_fields) + SPEC_FIELDS_N + 1];
	char of_spec[SPEC_FIELDS_N][SPEC_FIELD];
};

static const char *next_field(const void *known, size_t i)
{
	return ((const struct known_fields *)known)->name[i];
}

static int fail_unknown(const struct known_fields *known, const char *field, struct error *err)
{
	_cleanup_buf_ struct buf names = BUF_INIT(sizeof(*known));
	const char *near = cli_suggest(field, next_field, known);

	if (near)
		return fail(err, EINVAL, "unknown field; did you mean '%s'?", near);
	for (size_t i = 0; known->name[i]; i++)
		buf_addf(&names, "%s%s",
			i == 0                       ? ""
				: known->name[i + 1] ? ", "
						     : " and ",
			known->name[i]);
	return fail(err, EINVAL, "expected %s", buf_text(&names));
}

static size_t add_own_fields(const struct read_table *table, struct known_fields *known)
{
	for (size_t i = 0; i < table->n; i++)
		known->name[i] = table->fields[i].name;
	return table->n;
}

static int sim_yaml_other_field(const struct read_table *table, const char *name, json_t *value,
	void *entry, struct error *err)
{
	struct known_fields known = {0};

	add_own_fields(table, &known);
	return fail_unknown(&known, name, err);
}

static int other_of_task(const struct read_table *table, const char *name, json_t *value,
	void *entry, struct error *err)
{
	struct task_entry *e = entry;
	struct known_fields known = {0};
	struct str text;
	size_t n;
	int r = sim_yaml_plain_text(value, &text, err);

	if (r == 0)
		r = spec_set_value(&e->spec, name, text.p, false, err);
	if (r != -ENOENT)
		return r;
	n = add_own_fields(table, &known);
	for (size_t i = 0; i < SPEC_FIELDS_N; i++) {
		const char *of_spec = spec_field_name(i, known.of_spec[i]);
		bool is_own = false;

		for (size_t k = 0; k < table->n; k++)
			is_own |= !strcmp(table->fields[k].name, of_spec);
		/* devices have no names in a simulation */
		if (strcmp(of_spec, "device") != 0 && !is_own)
			known.name[n++] = of_spec;
	}
	return fail_unknown(&known, name, err);
}

/* ---- lists ---- */

static const struct {
	const char *name;
	struct read_table table;
	int (*add)(void *entry, struct error *err);
} lists[LISTS] = {
	[NODES] = {"nodes", {node_fields, ARRAY_SIZE(node_fields), "", true, sim_yaml_other_field},
		sim_yaml_add_node},
	[QUEUES] = {"queues",
		{queue_fields, ARRAY_SIZE(queue_fields), "", true, sim_yaml_other_field},
		add_queue},
	[NETWORKS] = {"networks",
		{network_fields, ARRAY_SIZE(network_fields), "", true, sim_yaml_other_field},
		add_network},
	[TASKS] = {"tasks", {task_fields, ARRAY_SIZE(task_fields), "", true, other_of_task},
		add_task},
};

/* Adds the entry's line to the error, or the entry's number if no line is known. */
static int fail_in_entry(
	unsigned int line, enum list list, uint32_t number, int r, struct error *err)
{
	return line ? fail_within(err, r, "line %u", line)
		    : fail_within(err, r, "%s: entry %u", lists[list].name, number);
}

static int read_entry(
	struct reader *reader, json_t *item, enum list list, uint32_t number, struct error *err)
{
	const unsigned int line = yaml_line(reader->file, item);
	struct node_entry node = {
		.reader = reader, .copies = 1, .node.n_kinds = 1, .node.line = line};
	struct task_entry task = {.reader = reader, .copies = 1, .line = line};
	struct queue_entry queue = {
		.reader = reader, .queue = {.limit = PLACE_UNLIMITED, .weight = 1, .line = line}};
	struct network_entry network = {
		.reader = reader, .network = {.node = PLACE_NONE, .kind = PLACE_NETWORK_KINDS}};
	void *const entries[LISTS] = {
		[NODES] = &node, [QUEUES] = &queue, [NETWORKS] = &network, [TASKS] = &task};
	int r;

	if (!json_is_object(item))
		return fail_in_entry(line, list, number,
			fail(err, EINVAL, "expected fields, such as {copies: 2}"), err);
	spec_init(&task.spec);
	r = read_lined(reader->file, item, &lists[list].table, entries[list], err);
	if (r == 0) {
		r = lists[list].add(entries[list], err);
		if (r < 0)
			fail_in_entry(line, list, number, r, err);
	}
	return r == 0 || r == -ENOMEM ? r : -EINVAL;
}

static int sim_yaml_read_list_of(
	struct reader *reader, json_t *value, enum list list, struct error *err)
{
	json_t *item;
	size_t i;
	int r;

	if (!value && (list == QUEUES || list == NETWORKS))
		return 0;
	if (!json_is_array(value))
		return fail(err, EINVAL, "expected a list of %s: '%s:' and entries with '-'",
			lists[list].name, lists[list].name);
	json_array_foreach(value, i, item) {
		r = read_entry(reader, item, list, (uint32_t)i + 1, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int check_lists(const struct yaml_file *file, struct error *err)
{
	const char *key;
	json_t *value;

	if (!json_is_object(file->root))
		return fail(err, EINVAL, "expected 'nodes:' and 'tasks:'");
	json_object_foreach(file->root, key, value) {
		int list = 0;

		while (list < LISTS && strcmp(key, lists[list].name) != 0)
			list++;
		if (list == LISTS)
			return fail(err, EINVAL,
				"line %u: '%s': unknown list; expected nodes, queues, networks "
				"or tasks",
				yaml_line(file, key), key);
		if (yaml_line_twice(file, key))
			return fail(err, EINVAL, "line %u: '%s' occurs twice",
				yaml_line_twice(file, key), key);
	}
	return 0;
}

/*
 * Reads the lists in dependency order, because tasks refer to queues and networks refer to nodes.
 */
static int sim_yaml_read_root(struct reader *reader, struct error *err)
{
	int r = check_lists(reader->file, err);

	for (int list = 0; r == 0 && list < LISTS; list++) {
		r = sim_yaml_read_list_of(reader,
			json_object_get(reader->file->root, lists[list].name), (enum list)list,
			err);
		if (r == 0 && list == QUEUES)
			r = cluster_queues_check(reader->cluster, err);
	}
	return r < 0 ? r : cluster_check_names(reader->cluster, err);
}

int sim_yaml(struct str text, struct cluster *cluster, struct workload *workload, struct error *err)
{
	const struct yaml_file_params params = {.max_bytes = SIM_FILE_MAX, .is_alone = true};
	_cleanup_(yaml_file_done) struct yaml_file file = {.root = NULL};
	struct reader reader = {.file = &file, .cluster = cluster, .workload = workload};
	int r = yaml_file_parse(text, &params, &file, err);

	if (r == 0 && !file.root)
		r = fail(err, EINVAL, "the file is empty; expected 'nodes:' and 'tasks:'");
	workload->has_times = true;
	if (r == 0)
		r = sim_yaml_read_root(&reader, err);
	return r == -EMSGSIZE ? -EINVAL : r;
}
