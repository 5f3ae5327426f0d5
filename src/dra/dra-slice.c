/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds ResourceSlices: see dra-slice.h. The API allows counter sets and devices only in different
 * slices, and a few of each in one. All slices have the same order at each build, so an unchanged
 * node gives equal slices. jansson's functions pass a NULL on, and the last one fails.
 */
#include "dra/dra-slice.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/str.h"
#include "dra/dra-claim.h"
#include "kube/kube-json.h"
#include "kube/time.h"
#include "spec/quantity.h"

#define COUNTER "device"
#define TEXT_MAX 64u /* characters of an attribute's value, as in the API */

/* ---- attributes ---- */

static void add_text(json_t *attributes, const char *name, const char *text)
{
	if (text && *text && strlen(text) <= TEXT_MAX)
		json_object_set_new(attributes, name, json_pack("{s:s}", "string", text));
}

/* NVML writes the address with capitals, and sysfs and the helpers of Kubernetes without. */
static void add_pci(json_t *attributes, const char *pci)
{
	char text[TEXT_MAX + 1] = "";
	size_t n = 0;

	for (; pci && pci[n] && n < TEXT_MAX; n++)
		text[n] = (char)tolower((unsigned char)pci[n]);
	add_text(attributes, "resource.kubernetes.io/pciBusID", text);
}

static void add_int(json_t *attributes, const char *name, int64_t value)
{
	json_object_set_new(attributes, name, json_pack("{s:I}", "int", (json_int_t)value));
}

static void add_version(
	json_t *attributes, const char *name, uint64_t major, uint64_t minor, uint64_t patch)
{
	char text[72];

	snprintf(text, sizeof(text), "%" PRIu64 ".%" PRIu64 ".%" PRIu64, major, minor, patch);
	json_object_set_new(attributes, name, json_pack("{s:s}", "version", text));
}

/* A driver's version such as "535.104.05" has leading zeros, which a semantic version may not. */
static void add_driver(json_t *attributes, const char *version)
{
	uint64_t part[3] = {0};
	struct str rest = str_from(version ? version : "");
	size_t n = 0;

	while (n < ARRAY_SIZE(part) && rest.n) {
		const char *dot = memchr(rest.p, '.', rest.n);
		const struct str word = {rest.p, dot ? (size_t)(dot - rest.p) : rest.n};

		if (parse_uint(word, 0, UINT32_MAX, &part[n++], NULL) < 0)
			return;
		rest.p += word.n + (dot != NULL);
		rest.n -= word.n + (dot != NULL);
	}
	if (n)
		add_version(attributes, "driverVersion", part[0], part[1], part[2]);
}

static json_t *attributes_of(
	const struct slice_node *node, const struct slice_device *d, enum dra_kind kind)
{
	json_t *all = json_object();

	add_text(all, "type", kind == DRA_WHOLE ? "gpu" : "share");
	add_text(all, "uuid", d->uuid);
	add_text(all, "model", d->model);
	add_text(all, "architecture", d->architecture);
	add_text(all, "parent", d->parent);
	add_pci(all, d->pci);
	json_object_set_new(all, "simulated", json_pack("{s:b}", "bool", (int)node->is_simulated));
	json_object_set_new(
		all, "mig", json_pack("{s:b}", "bool", (int)!strncmp(d->uuid, "MIG-", 4)));
	if (d->numa >= 0)
		add_int(all, "resource.kubernetes.io/numaNode", d->numa);
	if (d->nvlink_group >= 0)
		add_int(all, "nvlinkGroup", d->nvlink_group);
	if (d->compute_major)
		add_version(all, "cudaComputeCapability", d->compute_major, d->compute_minor, 0);
	if (node->cuda_version)
		add_version(all, "cudaVersion", node->cuda_version / 1000,
			node->cuda_version % 1000 / 10, 0);
	add_driver(all, node->driver);
	return all;
}

/* ---- capacities, counters and taints ---- */

/*
 * A claim that names no amount consumes all. The memory is whole blocks, because the policy admits
 * only these.
 */
static json_t *capacities_of(
	const struct slice_node *node, const struct slice_device *d, enum dra_kind kind)
{
	char memory[QUANTITY_SIZE], block[QUANTITY_SIZE], share[16];

	snprintf(share, sizeof(share), "%u", slice_share_min(node));
	quantity_format_bytes(spec_memory_whole(d->usable_bytes), memory);
	quantity_format_bytes(SPEC_MEMORY_BLOCK, block);
	if (kind == DRA_WHOLE)
		return json_pack("{s:{s:s}}", "memory", "value", memory);
	return json_pack("{s:{s:s, s:{s:s, s:{s:s, s:s}}}, s:{s:s, s:{s:s, s:{s:s, s:s}}}}",
		"share", "value", "1k", "requestPolicy", "default", "1k", "validRange", "min",
		share, "step", "1", "memory", "value", memory, "requestPolicy", "default", memory,
		"validRange", "min", block, "step", block);
}

/* The server adds the time of a taint without one. */
static json_t *slice_taints(const struct slice_device *d)
{
	json_t *all = json_array();

	for (uint32_t i = 0; i < d->n_taints; i++) {
		const struct slice_taint *t = &d->taints[i];
		json_t *one = json_pack("{s:s, s:s}", "key", t->key, "effect",
			t->is_no_execute ? "NoExecute" : "NoSchedule");

		kube_json_set_text(one, "value", t->value);
		if (t->since_ns)
			kube_json_set_text(one, "timeAdded", kube_time_format(t->since_ns).s);
		json_array_append_new(all, one);
	}
	return all;
}

static json_t *device_of(
	const struct slice_node *node, const struct slice_device *d, enum dra_kind kind)
{
	char name[DRA_DEVICE], set[DRA_DEVICE];
	json_t *device;

	dra_device_name(kind, d->uuid, name);
	dra_device_name(DRA_WHOLE, d->uuid, set); /* names the counter set, too */
	device = json_pack("{s:s, s:o, s:o, s:[{s:s, s:{s:{s:s}}}]}", "name", name, "attributes",
		attributes_of(node, d, kind), "capacity", capacities_of(node, d, kind),
		"consumesCounters", "counterSet", set, "counters", COUNTER, "value", "1");
	if (kind == DRA_SHARED)
		json_object_set_new(device, "allowMultipleAllocations", json_true());
	if (d->n_taints)
		json_object_set_new(device, "taints", slice_taints(d));
	return device;
}

static json_t *counter_set_of(const struct slice_device *d)
{
	char set[DRA_DEVICE];

	dra_device_name(DRA_WHOLE, d->uuid, set);
	return json_pack("{s:s, s:{s:{s:s}}}", "name", set, "counters", COUNTER, "value", "1");
}

/* ---- slices ---- */

struct builder {
	const struct slice_node *node;
	int64_t generation;
	json_t *slices;
	json_t *list; /* of the slice that is being filled; borrowed */
	size_t max;
	const char *member;
	bool has_failed;
};

const char *slice_prefix(const char *node, char ret[static SLICE_NAME])
{
	/* A long node name is cut; the names of the slices only need to differ within the node. */
	snprintf(ret, SLICE_NAME, "%.230s-" CLAIM_DRIVER "-", node);
	return ret;
}

static json_t *slice_new(const struct builder *b, size_t index, json_t *list)
{
	const struct slice_node *node = b->node;
	char prefix[SLICE_NAME], name[SLICE_NAME + 24];

	snprintf(name, sizeof(name), "%s%zu", slice_prefix(node->name, prefix), index);
	return json_pack(
		"{s:s, s:s, s:{s:s, s:[{s:s, s:s, s:s, s:s}]}, s:{s:s, s:s, s:{s:s, s:I, s:I}, s:O}}",
		"apiVersion", SLICE_API, "kind", "ResourceSlice", "metadata", "name", name,
		"ownerReferences", "apiVersion", "v1", "kind", "Node", "name", node->name, "uid",
		node->uid, "spec", "driver", CLAIM_DRIVER, "nodeName", node->name, "pool", "name",
		node->name, "generation", (json_int_t)b->generation, "resourceSliceCount",
		(json_int_t)0, b->member, list);
}

static void slice_add(struct builder *b, json_t *one)
{
	if (!one)
		b->has_failed = true;
	if (!b->list || json_array_size(b->list) == b->max) {
		json_t *list = json_array(),
		       *slice = slice_new(b, json_array_size(b->slices), list);

		b->has_failed |= !slice || json_array_append_new(b->slices, slice) < 0;
		b->list = list;
		json_decref(list); /* the slice has it */
	}
	if (!b->has_failed)
		b->has_failed = json_array_append_new(b->list, one) < 0;
	else
		json_decref(one);
}

bool slice_admits(const struct slice_device *d, const char **ret_why)
{
	char name[DRA_DEVICE];
	const char *why = NULL;

	/* The policy's smallest amount and its step are blocks, and the capacity has both. */
	if (!dra_device_name(DRA_SHARED, d->uuid, name))
		why = "its UUID makes no name of a device: expected letters, digits and '-'";
	else if (d->usable_bytes < 2 * SPEC_MEMORY_BLOCK)
		why = "it has less than 4 MiB of memory for tenants";
	else if (d->usable_bytes > INT64_MAX)
		why = "it has more memory than a quantity of the API can state";
	if (why && ret_why)
		*ret_why = why;
	return !why;
}

uint32_t slice_share_min(const struct slice_node *node)
{
	const size_t each = node->tenants_max && node->n_devices
		? MAX(node->tenants_max / node->n_devices, (size_t)1)
		: SPEC_SHARE_ONE;

	return (uint32_t)((SPEC_SHARE_ONE + each - 1) / each);
}

static void set_counts(json_t *slices)
{
	json_t *slice;
	size_t i;

	json_array_foreach(slices, i, slice)
		json_object_set_new(kube_json_at(slice, "spec", "pool", NULL), "resourceSliceCount",
			json_integer((json_int_t)json_array_size(slices)));
}

json_t *slice_build(const struct slice_node *node, int64_t generation)
{
	struct builder b = {.node = node,
		.generation = generation,
		.slices = json_array(),
		.max = SLICE_COUNTER_SETS_MAX,
		.member = "sharedCounters"};

	for (size_t i = 0; i < node->n_devices; i++)
		if (slice_admits(&node->devices[i], NULL))
			slice_add(&b, counter_set_of(&node->devices[i]));
	b.list = NULL;
	b.max = SLICE_DEVICES_MAX;
	b.member = "devices";
	for (size_t i = 0; i < node->n_devices; i++) {
		if (!slice_admits(&node->devices[i], NULL))
			continue;
		slice_add(&b, device_of(node, &node->devices[i], DRA_SHARED));
		slice_add(&b, device_of(node, &node->devices[i], DRA_WHOLE));
	}
	if (b.has_failed) {
		json_decref(b.slices);
		return NULL;
	}
	set_counts(b.slices);
	return b.slices;
}

/* ---- comparing ---- */

/* Whether `theirs` has all that `ours` has. Lists are equal in length and order. */
static bool has_all(const json_t *theirs, const json_t *ours)
{
	const char *key;
	json_t *value;
	size_t i;

	if (json_is_object(ours)) {
		json_object_foreach((json_t *)ours, key, value)
			if (strcmp(key, "generation") &&
				!has_all(json_object_get(theirs, key), value))
				return false;
		return json_is_object(theirs);
	}
	if (json_is_array(ours)) {
		json_array_foreach((json_t *)ours, i, value)
			if (!has_all(json_array_get(theirs, i), value))
				return false;
		return json_is_array(theirs) && json_array_size(theirs) == json_array_size(ours);
	}
	return json_equal(theirs, ours);
}

/* Taints that were removed must go, though `ours` does not have them. */
static bool has_same_taints(const json_t *theirs, const json_t *ours)
{
	const json_t *all = kube_json_at(ours, "spec", "devices", NULL),
		     *found = kube_json_at(theirs, "spec", "devices", NULL);

	for (size_t i = 0; i < json_array_size(all); i++)
		if (json_array_size(json_object_get(json_array_get(all, i), "taints")) !=
			json_array_size(json_object_get(json_array_get(found, i), "taints")))
			return false;
	return true;
}

bool slice_is_as(const json_t *theirs, const json_t *slice)
{
	return has_all(json_object_get(theirs, "spec"), json_object_get(slice, "spec")) &&
		has_all(kube_json_at(theirs, "metadata", "ownerReferences", NULL),
			kube_json_at(slice, "metadata", "ownerReferences", NULL)) &&
		has_same_taints(theirs, slice);
}

int64_t slice_generation(const json_t *object)
{
	return json_integer_value(kube_json_at(object, "spec", "pool", "generation", NULL));
}
