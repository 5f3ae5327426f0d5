/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PodGroups: objects of other controllers with the number of members that start together. A pod
 * that names such an object gets its group size from there; without the object the size is unknown.
 * Kubernetes' own PodGroups are off in most clusters. Pods that name one are in no gang until
 * cluster_note_served(), since no object could ever give the size. Members of a PodGroup with the
 * policy `basic` are in the group and in no gang: the Job controller makes these for most Jobs.
 */
#include "scheduler/cluster-internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "kube/kube-json.h"

#define KEY_MAX (SPEC_GROUP * 2 + 80) /* "API group/namespace/name" */

struct cgroup_object {
	UT_hash_handle hh;
	char *key;
	uint32_t least;
	bool is_basic;
};

static const char *const api_groups[] = {
	"scheduling.x-k8s.io",
	"scheduling.sigs.k8s.io",
	"scheduling.volcano.sh",
	DIALECT_KUBE_GROUP,
};
_Static_assert(
	ARRAY_SIZE(api_groups) == CLUSTER_LAST_GROUP - CLUSTER_GROUP + 1, "one of each kind");

static bool cpod_names_kube_group(const struct cpod *pod)
{
	return !strcmp(pod->requested.group_object, DIALECT_KUBE_GROUP);
}

bool cpod_is_in_kube_group(const struct cpod *pod)
{
	return pod->group[0] && cpod_names_kube_group(pod);
}

bool cpod_is_group_ignored(const struct cpod *pod)
{
	return !pod->group[0] && cpod_names_kube_group(pod);
}

void cluster_note_served(struct cluster *c, int kind)
{
	const struct cpod *pod;

	if (kind != CLUSTER_KUBE_GROUP || c->has_kube_groups)
		return;
	c->has_kube_groups = true;
	for (pod = c->pods; pod; pod = pod->hh.next)
		if (cpod_is_group_ignored(pod))
			c->is_unsettled = c->has_spaces = true;
}

static struct cgroup_object *cluster_group_find(
	const struct cluster *c, const char *api_group, const char *ns, const char *name)
{
	struct cgroup_object *object = NULL;
	char key[KEY_MAX];

	if ((size_t)snprintf(key, sizeof(key), "%s/%s/%s", api_group, ns, name) < sizeof(key))
		HASH_FIND_STR(c->group_objects, key, object);
	return object;
}

void cpod_size_group(const struct cluster *c, struct cpod *pod)
{
	struct tenancy *requested = &pod->requested;
	const struct cgroup_object *object;

	if (!requested->group_object[0])
		return;
	object = cluster_group_find(c, requested->group_object, pod->ns, requested->group);
	requested->group_size = requested->group_least = object ? object->least : 0;
	requested->is_group_basic = object && object->is_basic;
}

const char *cpod_group(const struct cpod *pod)
{
	return pod->requested.is_group_basic ? "" : pod->group;
}

const struct cgroup *cpod_gang(const struct cpod *pod)
{
	return pod->requested.is_group_basic ? NULL : pod->in;
}

static void size_members(struct cluster *c, const char *ns, const char *name)
{
	struct cgroup *group = NULL;
	char key[KEY_MAX];
	struct cpod *pod;

	snprintf(key, sizeof(key), "%s/%s", ns, name);
	HASH_FIND_STR(c->groups, key, group);
	if (!group)
		return;
	DL_FOREACH2(group->pods, pod, gnext)
	{
		const bool was_basic = pod->requested.is_group_basic;

		cpod_size_group(c, pod);
		c->has_other_gangs |= pod->requested.is_group_basic != was_basic;
	}
}

static void cluster_group_forget(struct cluster *c, struct cgroup_object *object)
{
	if (object->hh.tbl)
		HASH_DEL(c->group_objects, object);
	free(object->key);
	free(object);
}

int cluster_remove_group(struct cluster *c, int kind, const char *ns, const char *name)
{
	struct cgroup_object *object = cluster_group_find(
		c, api_groups[kind - CLUSTER_GROUP], ns, name);

	if (!object)
		return -ENOENT;
	cluster_group_forget(c, object);
	size_members(c, ns, name);
	return 0;
}

void cluster_free_groups(struct cluster *c)
{
	struct cgroup_object *object, *next;

	HASH_ITER(hh, c->group_objects, object, next)
		cluster_group_forget(c, object);
}

static struct cgroup_object *cluster_group_make(
	struct cluster *c, const char *api_group, const char *ns, const char *name)
{
	struct cgroup_object *object = calloc(1, sizeof(*object));
	char key[KEY_MAX];

	if (!object)
		return NULL;
	if ((size_t)snprintf(key, sizeof(key), "%s/%s/%s", api_group, ns, name) < sizeof(key))
		object->key = str_dup(str_from(key));
	if (object->key)
		HASH_ADD_KEYPTR(hh, c->group_objects, object->key, strlen(object->key), object);
	if (object->hh.tbl)
		return object;
	cluster_group_forget(c, object);
	return NULL;
}

static void cluster_group_read(struct cgroup_object *object, int kind, const json_t *json)
{
	const bool is_kube = kind == CLUSTER_KUBE_GROUP;
	const json_t *gang = kube_json_at(json, "spec", "schedulingPolicy", "gang", NULL);
	const json_int_t least = json_integer_value(is_kube
			? json_object_get(gang, "minCount")
			: kube_json_at(json, "spec", "minMember", NULL));

	/* A missing number, or 0, means that no member waits for others. */
	object->least = (uint32_t)MIN(MAX(least, (json_int_t)1), (json_int_t)SPEC_GROUP_SIZE_MAX);
	object->is_basic = is_kube && !json_is_object(gang);
}

int cluster_set_group(struct cluster *c, int kind, const json_t *json)
{
	const char *api_group = api_groups[kind - CLUSTER_GROUP];
	const json_t *metadata = json_object_get(json, "metadata");
	const char *ns = json_string_value(json_object_get(metadata, "namespace"));
	const char *name = json_string_value(json_object_get(metadata, "name"));
	struct cgroup_object *object;

	ns = ns ? ns : "";
	object = cluster_group_find(c, api_group, ns, name);
	if (!object)
		object = cluster_group_make(c, api_group, ns, name);
	if (!object)
		return -ENOMEM;
	cluster_group_read(object, kind, json);
	size_members(c, ns, name);
	return 0;
}
