/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts a pod's JSON to a manifest, translates the manifest with the dialects, and copies the
 * result. A tenancy therefore borrows nothing and outlives the JSON. tenancy_guest_host() finds for
 * an init container, the guest, another container whose devices the guest can use, the host. The
 * two containers never run at the same time, and request devices of the same kind. A host has
 * devices of its own, so `host` never leads to another guest. tenancy_write_back() translates the
 * pod anew, because a tenancy does not keep the dialect's result.
 */
#include "scheduler/tenancy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "kube/kube-json.h"
#include "manifest/manifest-json.h"

/* *ret borrows from *ret_manifest, which borrows from the JSON. */
static int tenancy_translate(const json_t *json, const char *dialects,
	struct manifest_json *ret_manifest, struct dialect_result *ret, struct error *err)
{
	struct dialect_config config;
	int r;

	*ret = (struct dialect_result){0};
	r = manifest_json_read(json_object_get(json, "metadata"), json_object_get(json, "spec"),
		STR(""), ret_manifest, err);
	if (r < 0)
		return r;
	r = dialect_config_parse(str_from(dialects), &config, err);
	if (r < 0)
		return fail_within(err, r, "the namespace's " DIALECT_LIST_KEY);
	return dialect_translate(&ret_manifest->pod, &config, ret, err);
}

/* ---- requests ---- */

/*
 * Returns whether the guest can use the host's devices while the host does not run. Share and
 * memory may differ, because the devices are chosen for the larger of both values.
 */
static bool can_host(const struct spec *host, const struct spec *guest)
{
	return host->count >= guest->count && host->mode == guest->mode &&
		!host->memory_bytes == !guest->memory_bytes &&
		host->has_exclusion == guest->has_exclusion && !strcmp(host->model, guest->model) &&
		!strcmp(host->device, guest->device) && !strcmp(host->affinity, guest->affinity) &&
		!strcmp(host->anti_affinity, guest->anti_affinity) &&
		!strcmp(host->exclusion, guest->exclusion);
}

/*
 * Returns the index of the guest's host: a container that starts after the guest has ended, or else
 * an earlier init container. The guest's own index: no container can be its host.
 */
static uint32_t tenancy_guest_host(const struct tenancy *t, uint32_t guest)
{
	if (t->v[guest].kind != MANIFEST_INIT)
		return guest;
	for (uint32_t i = guest + 1; i < t->n; i++)
		if (t->v[i].kind != MANIFEST_INIT && can_host(&t->v[i].spec, &t->v[guest].spec))
			return i;
	for (uint32_t i = 0; i < guest; i++)
		if (t->v[i].kind == MANIFEST_INIT && t->v[i].host == i &&
			can_host(&t->v[i].spec, &t->v[guest].spec))
			return i;
	return guest;
}

static int take_result(const struct manifest *pod, const struct dialect_result *result,
	struct tenancy *ret, struct error *err)
{
	ret->v = calloc(MAX(result->n_tenants, 1u), sizeof(*ret->v));
	if (!ret->v)
		return fail(err, ENOMEM, "out of memory");
	for (uint32_t i = 0; i < result->n_tenants; i++) {
		const struct dialect_tenant *t = &result->tenant[i];

		str_copy(ret->v[i].name, sizeof(ret->v[i].name), pod->container[t->container].name);
		ret->v[i].kind = pod->container[t->container].kind;
		ret->v[i].spec = t->spec;
	}
	ret->n = result->n_tenants;
	for (uint32_t i = 0; i < ret->n; i++)
		ret->v[i].host = tenancy_guest_host(ret, i);
	str_copy(ret->group, sizeof(ret->group), str_from(result->group));
	str_copy(ret->vgpu, sizeof(ret->vgpu), result->vgpu);
	ret->group_threshold = result->group_threshold;
	ret->group_by = result->group_by;
	str_copy(ret->group_object_name, sizeof(ret->group_object_name), result->group_object_name);
	str_copy(ret->group_part, sizeof(ret->group_part), result->group_part);
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
	_cleanup_manifest_json_ struct manifest_json manifest = {0};
	_cleanup_dialect_ struct dialect_result result;
	int r;

	*ret = (struct tenancy){0};
	r = tenancy_translate(json, dialects, &manifest, &result, err);
	return r < 0 ? r : take_result(&manifest.pod, &result, ret, err);
}

void tenancy_done(struct tenancy *tenancy)
{
	free(tenancy->v);
	*tenancy = (struct tenancy){0};
}

/* ---- assigned keys ---- */

static int tenancy_put_key(void *data, enum dialect_where where, uint32_t container,
	const char *key, const char *value)
{
	if (where != DIALECT_ANNOTATION || container != MANIFEST_NONE)
		return 0;
	return json_object_set_new(data, key, json_string(value)) ? -ENOMEM : 0;
}

int tenancy_write_back(const json_t *json, const char *dialects,
	const struct dialect_assigned *given, json_t *annotations)
{
	_cleanup_manifest_json_ struct manifest_json manifest = {0};
	_cleanup_dialect_ struct dialect_result result;
	int r = tenancy_translate(json, dialects, &manifest, &result, NULL);

	return r < 0
		? r
		: dialect_write_back(&manifest.pod, &result, given, tenancy_put_key, annotations);
}

struct running {
	const json_t *had; /* metadata of the pod */
	json_t *get;
};

static const char *tenancy_list(enum dialect_where where)
{
	return where == DIALECT_LABEL ? "labels" : "annotations";
}

static const char *tenancy_old_value(void *data, enum dialect_where where, const char *key)
{
	const struct running *running = data;

	return kube_json_text_at(running->had, tenancy_list(where), key, NULL);
}

static int put_running(void *data, enum dialect_where where, uint32_t container, const char *key,
	const char *value)
{
	struct running *running = data;
	json_t *list;

	if (!running->get)
		running->get = json_object();
	list = json_object_get(running->get, tenancy_list(where));
	if (!list && json_object_set_new(running->get, tenancy_list(where), list = json_object()))
		return -ENOMEM;
	return json_object_set_new(list, key, json_string(value)) ? -ENOMEM : 0;
}

int tenancy_running(const json_t *json, uint64_t real_ns, json_t **ret)
{
	const char *phase = kube_json_text_at(json, "status", "phase", NULL);
	struct running running = {.had = json_object_get(json, "metadata")};
	int r = 0;

	*ret = NULL;
	if (phase && !strcmp(phase, "Running"))
		r = dialect_write_running(tenancy_old_value, real_ns, put_running, &running);
	if (r < 0)
		json_decref(running.get);
	else
		*ret = running.get;
	return r;
}
