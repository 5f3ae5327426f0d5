/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/tenancy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "core/dialect.h"

/* ---- JSON -> what dialects see of a pod ---- */

static struct str text_of(const json_t *value)
{
	return value && json_is_string(value)
		? (struct str){json_string_value(value), json_string_length(value)}
		: STR_NONE;
}

static struct str text_at(const json_t *object, const char *key)
{
	return text_of(json_object_get(object, key));
}

/* What has been granted is nothing that is asked. */
static bool is_granted(struct str key)
{
	return str_skip_prefix(&key, STR("divvy.gpu/")) &&
		(str_has_prefix(key, STR("granted-")) || str_is(key, "devices") ||
			str_is(key, "remote-node") || str_is(key, "epoch"));
}

/* Members that are texts, of an object. */
static int read_map(struct arena *arena, const json_t *map, struct pod_list *ret)
{
	struct pod_entry *entry = arena_take_array(
		arena, json_object_size(map) + 1, sizeof(*entry));
	const char *key;
	json_t *value;
	uint32_t n = 0;

	if (!entry)
		return -ENOMEM;
	json_object_foreach((json_t *)map, key, value) {
		if (json_is_string(value) && !is_granted(str_from(key)))
			entry[n++] = (struct pod_entry){str_from(key), text_of(value)};
	}
	*ret = (struct pod_list){entry, n};
	return 0;
}

/* [{name, value}]; one that is taken from elsewhere has no value here. */
static int read_env(struct arena *arena, const json_t *list, struct pod_list *ret)
{
	struct pod_entry *entry = arena_take_array(
		arena, json_array_size(list) + 1, sizeof(*entry));
	json_t *one;
	size_t i;
	uint32_t n = 0;

	if (!entry)
		return -ENOMEM;
	json_array_foreach(list, i, one) {
		const struct str name = text_at(one, "name"), value = text_at(one, "value");

		if (name.n && value.p)
			entry[n++] = (struct pod_entry){name, value};
	}
	*ret = (struct pod_list){entry, n};
	return 0;
}

static int read_container(
	struct arena *arena, const json_t *json, bool is_init, struct pod_container *ret)
{
	const json_t *resources = json_object_get(json, "resources");
	const bool is_sidecar = is_init && str_is(text_at(json, "restartPolicy"), "Always");
	int r;

	ret->name = text_at(json, "name");
	ret->kind = is_sidecar ? POD_SIDECAR : is_init ? POD_INIT : POD_MAIN;
	r = read_map(arena, json_object_get(resources, "requests"), &ret->requests);
	r = r < 0 ? r : read_map(arena, json_object_get(resources, "limits"), &ret->limits);
	return r < 0 ? r : read_env(arena, json_object_get(json, "env"), &ret->env);
}

static int read_containers(struct arena *arena, const json_t *spec, struct pod *pod)
{
	static const char *const lists[] = {"initContainers", "containers"};
	struct pod_container *container;
	size_t n = 0;
	int r = 0;

	for (size_t l = 0; l < ARRAY_SIZE(lists); l++)
		n += json_array_size(json_object_get(spec, lists[l]));
	container = arena_take_array(arena, n + 1, sizeof(*container));
	if (!container)
		return -ENOMEM;
	for (size_t l = 0; l < ARRAY_SIZE(lists); l++) {
		json_t *one;
		size_t i;

		json_array_foreach(json_object_get(spec, lists[l]), i, one) {
			r = r < 0 ? r
				  : read_container(
					    arena, one, l == 0, &container[pod->n_containers++]);
		}
	}
	pod->container = container;
	return r;
}

static void read_owner(const json_t *metadata, struct pod *pod)
{
	json_t *one;
	size_t i;

	json_array_foreach(json_object_get(metadata, "ownerReferences"), i, one) {
		if (!json_is_true(json_object_get(one, "controller")))
			continue;
		pod->owner_kind = text_at(one, "kind");
		pod->owner_name = text_at(one, "name");
	}
}

static int read_pod(struct arena *arena, const json_t *json, struct pod *pod)
{
	const json_t *metadata = json_object_get(json, "metadata");
	const json_t *spec = json_object_get(json, "spec");
	int r;

	*pod = (struct pod){
		.ns = text_at(metadata, "namespace"),
		.name = text_at(metadata, "name"),
		.scheduler = text_at(spec, "schedulerName"),
		/* A bound pod is read again as it was when it was not. */
		.node = STR(""),
		.priority_class = text_at(spec, "priorityClassName"),
		.priority = (int32_t)json_integer_value(json_object_get(spec, "priority")),
	};
	read_owner(metadata, pod);
	r = read_map(arena, json_object_get(metadata, "labels"), &pod->labels);
	r = r < 0 ? r
		  : read_map(arena, json_object_get(metadata, "annotations"), &pod->annotations);
	return r < 0 ? r : read_containers(arena, spec, pod);
}

/* The pod's and the result's memory is the arena's and the result's. */
static int translate(struct arena *arena, const json_t *json, const char *dialects, struct pod *pod,
	struct dialect_result *ret, struct error *err)
{
	struct dialect_config config;
	int r;

	*ret = (struct dialect_result){0};
	r = read_pod(arena, json, pod);
	if (r < 0)
		return fail(err, -r, "out of memory");
	r = dialect_config_parse(str_from(dialects), &config, err);
	if (r < 0)
		return fail_within(err, r, "the namespace's " TENANCY_DIALECTS_KEY);
	return dialect_translate(pod, &config, ret, err);
}

/* ---- what is asked ---- */

static int take_result(const struct pod *pod, const struct dialect_result *result,
	struct tenancy *ret, struct error *err)
{
	ret->v = calloc(MAX(result->n_tenants, 1u), sizeof(*ret->v));
	if (!ret->v)
		return fail(err, ENOMEM, "out of memory");
	for (uint32_t i = 0; i < result->n_tenants; i++) {
		const struct dialect_tenant *t = &result->tenant[i];

		str_copy(ret->v[i].name, sizeof(ret->v[i].name), pod->container[t->container].name);
		ret->v[i].spec = t->spec;
	}
	ret->n = result->n_tenants;
	str_copy(ret->group, sizeof(ret->group), str_from(result->group));
	if (result->group[0] && result->group_size) {
		const struct spec group = {.group_size = result->group_size,
			.group_threshold = result->group_threshold};

		ret->group_size = result->group_size;
		ret->group_least = spec_group_least(&group);
	}
	if (result->group_object && !result->group_size)
		str_copy(ret->group_object, sizeof(ret->group_object),
			str_from(result->group_object));
	return 0;
}

int tenancy_read(const json_t *json, const char *dialects, struct tenancy *ret, struct error *err)
{
	_cleanup_(arena_done) struct arena arena = {0};
	_cleanup_dialect_ struct dialect_result result;
	struct pod pod;
	int r;

	*ret = (struct tenancy){0};
	r = translate(&arena, json, dialects, &pod, &result, err);
	return r < 0 ? r : take_result(&pod, &result, ret, err);
}

void tenancy_done(struct tenancy *tenancy)
{
	free(tenancy->v);
	*tenancy = (struct tenancy){0};
}

/* ---- what is given ---- */

static int put(void *data, enum dialect_where where, uint32_t container, const char *key,
	const char *value)
{
	if (where != DIALECT_ANNOTATION || container != POD_NONE || dialect_is_given(str_from(key)))
		return 0;
	return json_object_set_new(data, key, json_string(value)) ? -ENOMEM : 0;
}

static int fill_grants(struct arena *arena, const struct tenancy_grant *from, uint32_t n,
	struct dialect_grant **ret)
{
	struct dialect_grant *grant = arena_take_array(arena, n + 1ul, sizeof(*grant));

	for (uint32_t i = 0; grant && i < n; i++) {
		struct dialect_device *device = arena_take_array(
			arena, from[i].n + 1ul, sizeof(*device));

		if (!device)
			return -ENOMEM;
		for (uint32_t k = 0; k < from[i].n; k++)
			device[k] = (struct dialect_device){.index = from[i].device[k].index,
				.uuid = from[i].device[k].uuid,
				.model = from[i].device[k].model,
				.memory_bytes = from[i].device[k].memory_bytes,
				.granted_bytes = from[i].device[k].granted_bytes};
		grant[i] = (struct dialect_grant){
			device, from[i].n, from[i].request, from[i].limit};
	}
	*ret = grant;
	return grant ? 0 : -ENOMEM;
}

int tenancy_write_back(const json_t *json, const char *dialects, const struct tenancy_grant *grants,
	const char *node, uint64_t real_ns, json_t *annotations)
{
	_cleanup_(arena_done) struct arena arena = {0};
	_cleanup_dialect_ struct dialect_result result;
	struct dialect_given given = {.node = node, .time_ns = real_ns};
	struct dialect_grant *grant;
	struct pod pod;
	int r;

	r = translate(&arena, json, dialects, &pod, &result, NULL);
	r = r < 0 ? r : fill_grants(&arena, grants, result.n_tenants, &grant);
	if (r < 0)
		return r;
	given.grant = grant;
	return dialect_write_back(&pod, &result, &given, put, annotations);
}
