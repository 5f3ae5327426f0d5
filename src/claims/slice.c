/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads ResourceSlices. A reader that finds a value of a wrong type sets slice->is_unclear and goes
 * on. Each device also becomes a value of CEL once, because many selectors look at it.
 */
#include "claims/slice.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

struct slice_reader {
	struct slice *slice;
	struct arena *arena;
	bool is_out_of_memory;
};

static void *slice_take(struct slice_reader *reader, size_t n, size_t item)
{
	void *p = arena_take_array(reader->arena, n + 1, item);

	reader->is_out_of_memory |= !p;
	return p;
}

static struct str json_str(const json_t *json)
{
	const char *text = json_string_value(json);

	return text ? (struct str){text, json_string_length(json)} : STR_NONE;
}

int amount_read_json(const json_t *json, struct amount *ret)
{
	char text[32];

	if (json_is_integer(json)) {
		snprintf(text, sizeof(text), "%" PRId64, (int64_t)json_integer_value(json));
		return amount_parse(str_from(text), ret);
	}
	return json_is_string(json) ? amount_parse(json_str(json), ret) : -EINVAL;
}

static struct amount slice_amount(struct slice_reader *reader, const json_t *json)
{
	struct amount amount = {0};

	reader->slice->is_unclear |= amount_read_json(json, &amount) < 0;
	return amount;
}

static const char *slice_text(struct slice_reader *reader, const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	reader->slice->is_unclear |= !text;
	return text ? text : "";
}

/* ---- attributes ---- */

static struct attribute slice_read_attribute(const char *name, const json_t *json)
{
	static const char *const lists[] = {"ints", "bools", "strings", "versions"};
	const json_t *value = json_object_get(json, "int");

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		if (json_is_array(json_object_get(json, lists[i])))
			return (struct attribute){name, ATTRIBUTE_LIST, 0, STR_NONE};
	if (json_is_integer(value))
		return (struct attribute){
			name, ATTRIBUTE_INT, (int64_t)json_integer_value(value), STR_NONE};
	value = json_object_get(json, "bool");
	if (json_is_boolean(value))
		return (struct attribute){name, ATTRIBUTE_BOOL, json_is_true(value), STR_NONE};
	value = json_object_get(json, "string");
	if (json_is_string(value))
		return (struct attribute){name, ATTRIBUTE_STRING, 0, json_str(value)};
	value = json_object_get(json, "version");
	if (json_is_string(value))
		return (struct attribute){name, ATTRIBUTE_VERSION, 0, json_str(value)};
	return (struct attribute){name, ATTRIBUTE_NONE, 0, STR_NONE};
}

static void slice_read_attributes(struct slice_reader *reader, struct device *device, json_t *json)
{
	struct attribute *v = slice_take(reader, json_object_size(json), sizeof(*v));
	const char *name;
	json_t *value;

	device->attributes = v;
	if (!v)
		return;
	json_object_foreach(json, name, value)
		v[device->n_attributes++] = slice_read_attribute(name, value);
}

const struct attribute *device_attribute(const struct device *device, const char *full_name)
{
	const char *slash = strchr(full_name, '/');

	for (uint32_t i = 0; i < device->n_attributes; i++)
		if (!strcmp(device->attributes[i].name, full_name))
			return &device->attributes[i];
	if (!slash || strlen(device->slice->driver) != (size_t)(slash - full_name) ||
		memcmp(device->slice->driver, full_name, (size_t)(slash - full_name)) != 0)
		return NULL;
	for (uint32_t i = 0; i < device->n_attributes; i++)
		if (!strcmp(device->attributes[i].name, slash + 1))
			return &device->attributes[i];
	return NULL;
}

/* ---- capacity and counters ---- */

static void slice_read_policy(
	struct slice_reader *reader, struct capacity *capacity, const json_t *policy)
{
	const json_t *range = json_object_get(policy, "validRange");
	const json_t *values = json_object_get(policy, "validValues"), *one;
	struct amount *v = slice_take(reader, json_array_size(values), sizeof(*v));

	capacity->has_policy = json_is_object(policy);
	one = json_object_get(policy, "default");
	capacity->has_preset = one && !json_is_null(one);
	if (capacity->has_preset)
		capacity->preset = slice_amount(reader, one);
	for (size_t i = 0; v && i < json_array_size(values); i++)
		v[i] = slice_amount(reader, json_array_get(values, i));
	capacity->values = v;
	capacity->n_values = (uint32_t)json_array_size(values);
	capacity->has_range = json_is_object(range);
	if ((one = json_object_get(range, "min")))
		capacity->range.min = slice_amount(reader, one);
	capacity->range.has_min = one;
	if ((one = json_object_get(range, "max")))
		capacity->range.max = slice_amount(reader, one);
	capacity->range.has_max = one;
	if ((one = json_object_get(range, "step")))
		capacity->range.step = slice_amount(reader, one);
	capacity->range.has_step = one;
}

static void slice_read_capacities(struct slice_reader *reader, struct device *device, json_t *json)
{
	struct capacity *v = slice_take(reader, json_object_size(json), sizeof(*v));
	const char *name;
	json_t *value;

	device->capacities = v;
	if (!v)
		return;
	json_object_foreach(json, name, value) {
		struct capacity *capacity = &v[device->n_capacities++];

		capacity->name = name;
		capacity->value = slice_amount(reader, json_object_get(value, "value"));
		slice_read_policy(reader, capacity, json_object_get(value, "requestPolicy"));
	}
}

const struct capacity *device_capacity(const struct device *device, const char *name)
{
	for (uint32_t i = 0; i < device->n_capacities; i++)
		if (!strcmp(device->capacities[i].name, name))
			return &device->capacities[i];
	return NULL;
}

/* Reads sets of counters; `key` is the field with the name of the set. */
static const struct counter *slice_read_counters(
	struct slice_reader *reader, const json_t *sets, const char *key, uint32_t *ret_n)
{
	struct counter *v;
	size_t n = 0;

	for (size_t i = 0; i < json_array_size(sets); i++)
		n += json_object_size(json_object_get(json_array_get(sets, i), "counters"));
	v = slice_take(reader, n, sizeof(*v));
	*ret_n = 0;
	for (size_t i = 0; v && i < json_array_size(sets); i++) {
		const json_t *set = json_array_get(sets, i);
		const char *set_name = slice_text(reader, set, key), *name;
		json_t *value;

		json_object_foreach(json_object_get(set, "counters"), name, value)
			v[(*ret_n)++] = (struct counter){set_name, name,
				slice_amount(reader, json_object_get(value, "value"))};
	}
	return v;
}

/* ---- values of CEL ---- */

static void slice_new_amount(
	struct slice_reader *reader, struct amount amount, struct cel_value *ret)
{
	struct amount *copy = slice_take(reader, 1, sizeof(*copy));

	if (!copy)
		return;
	*copy = amount;
	*ret = (struct cel_value){.type = CEL_QUANTITY, .amount = copy};
}

static bool slice_new_version(struct slice_reader *reader, struct str text, struct cel_value *ret)
{
	struct semver *version = slice_take(reader, 1, sizeof(*version));

	if (!version || semver_parse(text, version) < 0)
		return false;
	*ret = (struct cel_value){.type = CEL_SEMVER, .version = version};
	return true;
}

/* A list of values; the API server serves such attributes only with a feature that is alpha. */
static bool slice_new_list(struct slice_reader *reader, const json_t *json, struct cel_value *ret)
{
	static const char *const keys[] = {"ints", "bools", "strings", "versions"};
	const json_t *list = NULL;
	struct cel_value *v;
	size_t kind = 0, n;

	for (; kind < ARRAY_SIZE(keys) && !json_is_array(list); kind++)
		list = json_object_get(json, keys[kind]);
	n = json_array_size(list);
	v = slice_take(reader, n, sizeof(*v));
	for (size_t i = 0; v && i < n; i++) {
		const json_t *one = json_array_get(list, i);

		if (json_is_integer(one))
			v[i] = cel_int((int64_t)json_integer_value(one));
		else if (json_is_boolean(one))
			v[i] = cel_bool(json_is_true(one));
		else if (kind < ARRAY_SIZE(keys))
			v[i] = cel_text(json_str(one));
		else if (!slice_new_version(reader, json_str(one), &v[i]))
			return false;
	}
	*ret = (struct cel_value){.type = CEL_LIST, .list = {v, (uint32_t)n}};
	return v;
}

/* Writes the attribute's value. Returns why there is none, or NULL. */
static const char *slice_attribute_value(struct slice_reader *reader,
	const struct attribute *attribute, const json_t *json, struct cel_value *ret)
{
	switch (attribute->kind) {
	case ATTRIBUTE_INT: *ret = cel_int(attribute->number); return NULL;
	case ATTRIBUTE_BOOL: *ret = cel_bool(attribute->number); return NULL;
	case ATTRIBUTE_STRING: *ret = cel_text(attribute->text); return NULL;
	case ATTRIBUTE_VERSION:
		return slice_new_version(reader, attribute->text, ret)
			? NULL
			: "an attribute of the device has a wrong version";
	case ATTRIBUTE_LIST:
		return slice_new_list(reader, json, ret)
			? NULL
			: "an attribute of the device has a wrong list";
	default: return "an attribute of the device has no value that divvy knows";
	}
}

/* Two levels of maps: domain, then name. */
struct domains {
	struct cel_pair *v;
	uint32_t n;
	size_t most; /* room of each map */
};

static void slice_put(struct slice_reader *reader, struct domains *domains, const char *name,
	struct cel_value value)
{
	const char *slash = strchr(name, '/');
	struct str domain = str_from(reader->slice->driver), id = str_from(name);
	struct cel_pair *pairs;
	uint32_t i = 0;

	if (slash) {
		domain = (struct str){name, (size_t)(slash - name)};
		id = str_from(slash + 1);
	}
	while (i < domains->n && !str_eq(domains->v[i].key.text, domain))
		i++;
	if (i == domains->n) {
		pairs = slice_take(reader, domains->most, sizeof(*pairs));
		if (!pairs)
			return;
		domains->v[domains->n++] = (struct cel_pair){
			cel_text(domain), {.type = CEL_MAP, .map = {pairs, 0}}};
	}
	pairs = (struct cel_pair *)domains->v[i].value.map.v;
	pairs[domains->v[i].value.map.n++] = (struct cel_pair){cel_text(id), value};
}

static struct cel_value domains_value(const struct domains *domains)
{
	return (struct cel_value){
		.type = CEL_MAP, .is_default_empty = true, .map = {domains->v, domains->n}};
}

static void slice_make_cel(struct slice_reader *reader, struct device *device, const json_t *json)
{
	const json_t *attributes = json_object_get(json, "attributes");
	struct domains of[2] = {{.most = device->n_attributes}, {.most = device->n_capacities}};
	struct cel_pair *fields = slice_take(reader, 4, sizeof(*fields));
	struct cel_value value = {0};

	for (size_t i = 0; i < 2; i++)
		of[i].v = slice_take(reader, of[i].most, sizeof(*of[i].v));
	if (reader->is_out_of_memory)
		return;
	for (uint32_t i = 0; i < device->n_attributes; i++) {
		const struct attribute *attribute = &device->attributes[i];

		device->cel_fault = slice_attribute_value(
			reader, attribute, json_object_get(attributes, attribute->name), &value);
		if (device->cel_fault)
			return;
		slice_put(reader, &of[0], attribute->name, value);
	}
	for (uint32_t i = 0; i < device->n_capacities; i++) {
		slice_new_amount(reader, device->capacities[i].value, &value);
		slice_put(reader, &of[1], device->capacities[i].name, value);
	}
	fields[0] = (struct cel_pair){
		cel_text(STR("driver")), cel_text(str_from(reader->slice->driver))};
	fields[1] = (struct cel_pair){
		cel_text(STR("allowMultipleAllocations")), cel_bool(device->is_shared)};
	fields[2] = (struct cel_pair){cel_text(STR("attributes")), domains_value(&of[0])};
	fields[3] = (struct cel_pair){cel_text(STR("capacity")), domains_value(&of[1])};
	device->cel = (struct cel_value){.type = CEL_MAP, .map = {fields, 4}};
}

/* ---- slices ---- */

static void slice_read_nodes(
	struct slice_reader *reader, const json_t *json, struct node_choice *nodes)
{
	json_t *selector = json_object_get(json, "nodeSelector");

	nodes->name = json_string_value(json_object_get(json, "nodeName"));
	nodes->is_all = json_is_true(json_object_get(json, "allNodes"));
	if (!json_is_object(selector))
		return;
	nodes->has_terms = true;
	nodes->json = selector;
	if (node_terms_read(reader->arena, selector, &nodes->terms, NULL) < 0)
		reader->slice->is_unclear = true;
}

bool node_choice_has(
	const struct node_choice *choice, const char *node, const struct labels *labels)
{
	if (choice->name && *choice->name)
		return !strcmp(choice->name, node);
	if (choice->is_all)
		return true;
	return choice->has_terms && node_terms_match(&choice->terms, labels, node);
}

static bool slice_names_groups(const json_t *consumptions)
{
	for (size_t i = 0; i < json_array_size(consumptions); i++)
		if (json_array_size(json_object_get(
			    json_array_get(consumptions, i), "compatibilityGroups")))
			return true;
	return false;
}

static void slice_read_device(struct slice_reader *reader, struct device *device, json_t *json)
{
	const struct slice *slice = reader->slice;
	const json_t *consumptions = json_object_get(json, "consumesCounters");
	size_t size;
	char *id;

	device->slice = slice;
	device->name = slice_text(reader, json, "name");
	size = strlen(slice->driver) + strlen(slice->pool) + strlen(device->name) + 3;
	id = slice_take(reader, size, 1);
	if (!id)
		return;
	snprintf(id, size, "%s/%s/%s", slice->driver, slice->pool, device->name);
	device->id = id;
	device->matches = slice_take(reader, CLASS_MATCHES, sizeof(*device->matches));
	device->is_shared = json_is_true(json_object_get(json, "allowMultipleAllocations"));
	device->is_bound_to_node = json_is_true(json_object_get(json, "bindsToNode"));
	device->binding_conditions = json_object_get(json, "bindingConditions");
	device->binding_failures = json_object_get(json, "bindingFailureConditions");
	device->has_binding_conditions = json_array_size(device->binding_conditions);
	device->has_groups = slice_names_groups(consumptions);
	slice_read_attributes(reader, device, json_object_get(json, "attributes"));
	slice_read_capacities(reader, device, json_object_get(json, "capacity"));
	device->counters = slice_read_counters(
		reader, consumptions, "counterSet", &device->n_counters);
	slice_read_nodes(reader, json, &device->nodes);
	if (device_taints_read(reader->arena, json_object_get(json, "taints"), &device->taints) < 0)
		reader->is_out_of_memory = true;
	slice_make_cel(reader, device, json);
	reader->slice->is_unclear |= device->has_groups;
}

static void slice_read(struct slice_reader *reader, const json_t *spec)
{
	struct slice *slice = reader->slice;
	const json_t *pool = json_object_get(spec, "pool"), *devices;

	slice->driver = slice_text(reader, spec, "driver");
	slice->pool = slice_text(reader, pool, "name");
	slice->generation = (int64_t)json_integer_value(json_object_get(pool, "generation"));
	slice->n_slices = (int64_t)json_integer_value(json_object_get(pool, "resourceSliceCount"));
	slice->is_per_device = json_is_true(json_object_get(spec, "perDeviceNodeSelection"));
	slice->has_counters = json_array_size(json_object_get(spec, "sharedCounters"));
	slice_read_nodes(reader, spec, &slice->nodes);
	slice->counters = slice_read_counters(
		reader, json_object_get(spec, "sharedCounters"), "name", &slice->n_counters);
	devices = json_object_get(spec, "devices");
	slice->devices = slice_take(reader, json_array_size(devices), sizeof(*slice->devices));
	for (size_t i = 0; slice->devices && i < json_array_size(devices); i++)
		slice_read_device(
			reader, &slice->devices[slice->n_devices++], json_array_get(devices, i));
}

int slice_new(json_t *json, struct slice **ret, struct error *err)
{
	_cleanup_(slice_free_p) struct slice *slice = calloc(1, sizeof(*slice));
	struct slice_reader reader = {.slice = slice};

	if (!slice)
		return fail(err, ENOMEM, "out of memory");
	slice->json = json_incref(json);
	slice->name = json_string_value(json_object_get(json_object_get(json, "metadata"), "name"));
	if (!slice->name)
		return fail(err, EINVAL, "a ResourceSlice without a name");
	reader.arena = &slice->arena;
	slice_read(&reader, json_object_get(json, "spec"));
	if (reader.is_out_of_memory)
		return fail(err, ENOMEM, "out of memory");
	*ret = TAKE_PTR(slice);
	return 0;
}

void slice_free(struct slice *slice)
{
	if (!slice)
		return;
	arena_done(&slice->arena);
	json_decref(slice->json);
	free(slice);
}
