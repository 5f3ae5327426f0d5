/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A label belongs to divvy if the record holds its present value. divvy writes labels that are
 * absent, and changes and removes its own. A label that another program or an administrator has
 * written stays, and so does a label of divvy's whose value somebody has changed. Labels that
 * node-feature-discovery lists as its own, among them those of gpu-feature-discovery, are not
 * divvy's even if the value is the same. Only keys of the table below are ever written or removed:
 * a node's own account may write the record, but not labels of node-restriction.kubernetes.io.
 */
#include "controller/node-labels.h"

#include <ctype.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "kube/kube-json.h"

#define MIB (1 << 20)
#define VALUE_MAX 63u /* characters of a label's value */
#define RECORD_MAX 4096u
#define NFD_RECORD "nfd.node.kubernetes.io/feature-labels"

/* "" stands for no label. */
struct node_facts {
	char model[VALUE_MAX + 1], memory[VALUE_MAX + 1], count[VALUE_MAX + 1];
	char driver[VALUE_MAX + 1], major[VALUE_MAX + 1], minor[VALUE_MAX + 1],
		revision[VALUE_MAX + 1];
};

static const struct {
	const char *key;
	size_t fact;
} node_labels[] = {
#define ROW(key, fact) \
	{ \
		key, offsetof(struct node_facts, fact) \
	}
	ROW("divvy.gpu/device-model", model),
	ROW("divvy.gpu/device-memory-mib", memory),
	ROW("divvy.gpu/device-count", count),
	ROW("divvy.gpu/driver-version", driver),
	/* gpu-feature-discovery */
	ROW("nvidia.com/gpu.product", model),
	ROW("nvidia.com/gpu.memory", memory),
	ROW("nvidia.com/gpu.count", count),
	ROW("nvidia.com/cuda.driver-version.full", driver),
	ROW("nvidia.com/cuda.driver-version.major", major),
	ROW("nvidia.com/cuda.driver-version.minor", minor),
	ROW("nvidia.com/cuda.driver-version.revision", revision),
	/* older names of the last three */
	ROW("nvidia.com/cuda.driver.major", major),
	ROW("nvidia.com/cuda.driver.minor", minor),
	ROW("nvidia.com/cuda.driver.rev", revision),
#undef ROW
};

/*
 * Makes a label's value: runs of other characters become one "-", as gpu-feature-discovery writes
 * models. Begin and end are letters or digits.
 */
static void write_value(char ret[static VALUE_MAX + 1], const char *text)
{
	size_t n = 0;

	for (; *text && n < VALUE_MAX; text++) {
		const bool is_plain = isalnum((unsigned char)*text),
			   is_inner = is_plain || *text == '.' || *text == '_';

		if (is_plain || (n && is_inner))
			ret[n++] = *text;
		else if (n && ret[n - 1] != '-')
			ret[n++] = '-';
	}
	while (n && !isalnum((unsigned char)ret[n - 1]))
		n--;
	ret[n] = '\0';
}

/* Models and memory of several devices make a label only if all devices have the same. */
static void read_devices(const json_t *devices, struct node_facts *facts)
{
	const json_t *first = json_array_get(devices, 0);
	bool is_one_model = true, is_one_memory = true;

	if (!first)
		return;
	for (size_t i = 1; i < json_array_size(devices); i++) {
		const json_t *d = json_array_get(devices, i);

		is_one_model &= json_equal(
			json_object_get(first, "model"), json_object_get(d, "model"));
		is_one_memory &= json_equal(
			json_object_get(first, "memoryBytes"), json_object_get(d, "memoryBytes"));
	}
	if (is_one_model)
		write_value(facts->model, kube_json_text(first, "model"));
	if (is_one_memory)
		snprintf(facts->memory, sizeof(facts->memory), "%" JSON_INTEGER_FORMAT,
			json_integer_value(json_object_get(first, "memoryBytes")) / MIB);
	snprintf(facts->count, sizeof(facts->count), "%zu", json_array_size(devices));
}

/* "580.65.06"; a part that is no number ends the parts. */
static void read_driver(const char *version, struct node_facts *facts)
{
	char(*const parts[])[VALUE_MAX + 1] = {&facts->major, &facts->minor, &facts->revision};

	write_value(facts->driver, version);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		const size_t n = strspn(version, "0123456789");

		if (!n || n > VALUE_MAX || (version[n] && version[n] != '.'))
			return;
		str_copy(*parts[i], sizeof(*parts[i]), (struct str){version, n});
		version += n + (version[n] == '.');
	}
}

static void facts_of(const json_t *gpu_node, struct node_facts *ret)
{
	const json_t *status = json_object_get(gpu_node, "status"),
		     *devices = json_object_get(status, "devices");
	const char *driver = kube_json_text(json_object_get(status, "versions"), "driver");

	*ret = (struct node_facts){0};
	if (!json_array_size(devices))
		return;
	read_devices(devices, ret);
	read_driver(driver, ret);
}

/*
 * Returns whether the list, with commas between entries, has the entry KEY=VALUE, or KEY if value
 * is NULL.
 */
static bool is_listed(const char *list, const char *key, const char *value)
{
	struct str rest = str_from(list), entry;

	while (str_split(&rest, ',', &entry)) {
		if (!str_skip_prefix(&entry, str_from(key)))
			continue;
		if (value ? str_skip_prefix(&entry, STR("=")) && str_is(entry, value) : !entry.n)
			return true;
	}
	return false;
}

json_t *node_labels_patch(const json_t *node, const json_t *gpu_node)
{
	const json_t *metadata = json_object_get(node, "metadata"),
		     *labels = json_object_get(metadata, "labels"),
		     *annotations = json_object_get(metadata, "annotations");
	const char *old = kube_json_text(annotations, NODE_LABELS_RECORD),
		   *nfd = kube_json_text(annotations, NFD_RECORD);
	_cleanup_buf_ struct buf record = BUF_INIT(RECORD_MAX);
	_cleanup_json_ json_t *change = json_object();
	struct node_facts facts;

	/* divvyd has not reported yet, so the devices are unknown, and the labels may be right. */
	if (gpu_node && !json_is_array(kube_json_at(gpu_node, "status", "devices", NULL)))
		return NULL;
	facts_of(gpu_node, &facts);
	for (size_t i = 0; i < ARRAY_SIZE(node_labels); i++) {
		const char *key = node_labels[i].key, *want = (char *)&facts + node_labels[i].fact,
			   *have = json_string_value(json_object_get(labels, key));

		if ((have && !is_listed(old, key, have)) || is_listed(nfd, key, NULL))
			continue;
		if (want[0])
			buf_addf(&record, "%s%s=%s", record.n ? "," : "", key, want);
		if (want[0] && (!have || strcmp(have, want) != 0))
			json_object_set_new(change, key, json_string(want));
		else if (!want[0] && have)
			json_object_set_new(change, key, json_null());
	}
	if (buf_error(&record) || !change ||
		(!json_object_size(change) && !strcmp(buf_text(&record), old)))
		return NULL;
	return json_pack("{s:{s:s, s:O, s:{s:o}}}", "metadata", "resourceVersion",
		kube_json_text(metadata, "resourceVersion"), "labels", change, "annotations",
		NODE_LABELS_RECORD, record.n ? json_string(buf_text(&record)) : json_null());
}
