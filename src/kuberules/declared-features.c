/* SPDX-License-Identifier: Apache-2.0 */
/* Features that kubelets declare: see declared-features.h. */
#include "kuberules/declared-features.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"

static bool has_action(json_t *container)
{
	json_t *rule;
	size_t i;

	json_array_foreach(json_object_get(container, "restartPolicyRules"), i, rule) {
		const char *action = json_string_value(json_object_get(rule, "action"));

		if (action && !strcmp(action, "RestartAllContainers"))
			return true;
	}
	return false;
}

static bool has_mount_options(json_t *container)
{
	json_t *mount;
	size_t i;

	json_array_foreach(json_object_get(container, "volumeMounts"), i, mount)
		if (json_array_size(json_object_get(mount, "bindMountOptions")))
			return true;
	return false;
}

static bool has_container(json_t *containers, bool (*has)(json_t *container))
{
	json_t *one;
	size_t i;

	json_array_foreach(containers, i, one)
		if (has(one))
			return true;
	return false;
}

static bool is_restarting_all(json_t *spec)
{
	return has_container(json_object_get(spec, "containers"), has_action) ||
		has_container(json_object_get(spec, "initContainers"), has_action);
}

static bool is_mapping_host_users(json_t *spec)
{
	return json_is_true(json_object_get(spec, "hostNetwork")) &&
		json_is_false(json_object_get(spec, "hostUsers"));
}

static bool is_mounting_with_options(json_t *spec)
{
	return has_container(json_object_get(spec, "containers"), has_mount_options) ||
		has_container(json_object_get(spec, "initContainers"), has_mount_options) ||
		has_container(json_object_get(spec, "ephemeralContainers"), has_mount_options);
}

/* The bit of a feature in a set is its place in this table. */
static const struct declared_feature {
	const char *name;
	unsigned minor; /* first release whose kube-scheduler obeys it by default */
	bool (*is_used)(json_t *spec);
} features[] = {
	{"RestartAllContainersOnContainerExits", 36, is_restarting_all},
	{"UserNamespacesHostNetworkSupport", 36, is_mapping_host_users},
	{"VolumeBindMountOptions", 37, is_mounting_with_options},
};

uint32_t declared_features_used(json_t *spec)
{
	uint32_t used = 0;

	for (size_t i = 0; i < ARRAY_SIZE(features); i++)
		if (features[i].is_used(spec))
			used |= 1u << i;
	return used;
}

int declared_features_read(struct arena *arena, json_t *value, void *into, struct error *err)
{
	uint32_t declared = 0;
	json_t *one;
	size_t k;

	if (!json_is_array(value))
		return fail(err, EINVAL, "is no list");
	json_array_foreach(value, k, one) {
		const char *name = json_string_value(one);

		for (size_t i = 0; name && i < ARRAY_SIZE(features); i++)
			if (!strcmp(features[i].name, name))
				declared |= 1u << i;
	}
	*(uint32_t *)into = declared;
	return 0;
}

const char *declared_features_missing(uint32_t used, uint32_t declared, unsigned minor)
{
	for (size_t i = 0; i < ARRAY_SIZE(features); i++)
		if ((used & ~declared & 1u << i) && minor >= features[i].minor)
			return features[i].name;
	return NULL;
}
