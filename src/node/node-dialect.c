/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The variables that a dialect's own device plugin sets and its users' programs read. The variables
 * only inform. With CDI a container gets them when it starts. The answer to Allocate also has them,
 * if the slot's container is known by then.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/device.h"
#include "base/log.h"
#include "manifest/manifest-json.h"
#include "node/node-internal.h"
#include "spec/dialect.h"

/*
 * The grants of the pod on this node: one for each tenant of the translation, in the order of its
 * tenants.
 */
struct granted {
	struct dialect_grant *grant;
	struct dialect_device *device;
};

static void granted_done(struct granted *g)
{
	free(g->grant);
	free(g->device);
}

static int fill_grant(const struct device_set *set, const struct assigned_container *is,
	struct dialect_device *device, struct dialect_grant *ret)
{
	for (uint32_t i = 0; i < is->n; i++) {
		const struct device *d = device_find(set, is->device[i]);

		if (!d)
			return -ENODEV;
		device[i] = (struct dialect_device){.index = d->index,
			.uuid = d->info.uuid,
			.model = d->info.model,
			.memory_bytes = d->info.usable_bytes,
			.granted_bytes = is->memory_bytes[i]};
	}
	*ret = (struct dialect_grant){device, is->n, is->request, is->limit};
	return 0;
}

static int node_dialect_fill_result(const struct device_set *set, const struct manifest *pod,
	const struct dialect_result *result, const struct assigned *assigned, struct granted *ret)
{
	int r = 0;

	ret->grant = calloc(result->n_tenants + 1, sizeof(*ret->grant));
	ret->device = calloc(
		(size_t)result->n_tenants * SPEC_DEVICES_MAX + 1, sizeof(*ret->device));
	if (!ret->grant || !ret->device)
		return -ENOMEM;
	for (uint32_t i = 0; r == 0 && i < result->n_tenants; i++) {
		char name[ASSIGNED_NAME];
		const struct assigned_container *is =
			str_copy(name, sizeof(name),
				pod->container[result->tenant[i].container].name) < 0
			? NULL
			: assigned_find(assigned, name);

		r = is ? fill_grant(set, is, &ret->device[i * SPEC_DEVICES_MAX], &ret->grant[i])
		       : -ENOENT;
	}
	return r;
}

struct taking {
	const struct manifest *pod;
	const char *container;
	struct node_env *env;
};

static int node_dialect_take_variable(void *data, enum dialect_where where, uint32_t container,
	const char *key, const char *value)
{
	const struct taking *t = data;
	struct node_env *env = t->env;

	if (where != DIALECT_ENV || container >= t->pod->n_containers ||
		!str_is(t->pod->container[container].name, t->container))
		return 0;
	if (env->n == NODE_ENV_MAX ||
		str_copy(env->v[env->n].name, NODE_ENV_NAME, str_from(key)) < 0 ||
		str_copy(env->v[env->n].value, NODE_ENV_VALUE, str_from(value)) < 0)
		return -E2BIG;
	env->n++;
	return 0;
}

void node_env_read(
	const struct node *node, const json_t *pod, const char *container, struct node_env *ret_env)
{
	const struct dialect_config config = {0}; /* the pod's own list selects the dialects */
	_cleanup_manifest_json_ struct manifest_json manifest = {0};
	_cleanup_dialect_ struct dialect_result result = {0};
	_cleanup_assigned_ struct assigned assigned = {0};
	_cleanup_(granted_done) struct granted granted = {0};
	struct dialect_assigned back = {.node = node->options.name};
	struct taking taking = {&manifest.pod, container, ret_env};
	struct error err = {0};
	int r;

	ret_env->n = 0;
	r = manifest_json_read(json_object_get(pod, "metadata"), json_object_get(pod, "spec"),
		STR(""), &manifest, &err);
	r = r < 0 ? r : dialect_translate(&manifest.pod, &config, &result, &err);
	r = r < 0 ? r : assigned_parse(manifest.pod.annotations, &assigned, &err);
	r = r < 0 ? r
		  : node_dialect_fill_result(
			    node->agent->devices, &manifest.pod, &result, &assigned, &granted);
	back.grant = granted.grant;
	r = r < 0 ? r
		  : dialect_write_back(
			    &manifest.pod, &result, &back, node_dialect_take_variable, &taking);
	if (r >= 0)
		return;
	log_debug("pod %s: no variables of its dialect: %s",
		kube_json_text_at(pod, "metadata", "name", NULL),
		err.msg[0] ? err.msg : strerror(-r));
	ret_env->n = 0;
}
