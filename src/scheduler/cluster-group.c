/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PodGroups and other objects of other controllers with the number of members that start together.
 * A pod that names such an object gets its group size from there; without the object the size is
 * unknown. JobSets and RayClusters state the number of each part's pods, by their pod templates: if
 * some templates request a group of that object, only pods of these templates are members.
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
#define PARTS_MAX 1024u               /* further parts of an object have no size */

/* Pods of one pod template: `units` Jobs or hosts' groups of `pods` pods each. */
struct cgroup_part {
	char name[64];
	char group_by[32]; /* the template's value of DIALECT_GROUP_BY_KEY */
	uint64_t units, pods;
};

/* Exists while the API has the object or a pod names it. */
struct cgroup_object {
	UT_hash_handle hh;
	char *key;
	bool is_there;     /* the API has the object */
	struct cpod *pods; /* pods that name the object, linked by cpod.oprev and cpod.onext */
	uint32_t least;    /* of a PodGroup; an object with parts states it by them */
	bool is_basic;
	struct cgroup_part *part;
	uint32_t n_parts;
};

/* `read` takes the parts from the object's spec. -ENOMEM. NULL: a PodGroup, without parts. */
struct cgroup_kind {
	const char *api_group, *name;
	int (*read)(struct cgroup_object *object, const json_t *spec);
};

static int read_job_set(struct cgroup_object *object, const json_t *spec);
static int read_ray_cluster(struct cgroup_object *object, const json_t *spec);

static const struct cgroup_kind kinds[] = {
	{"scheduling.x-k8s.io", "PodGroup", NULL},
	{"scheduling.sigs.k8s.io", "PodGroup", NULL},
	{"scheduling.volcano.sh", "PodGroup", NULL},
	{DIALECT_KUBE_GROUP, "PodGroup", NULL},
	{"jobset.x-k8s.io", "JobSet", read_job_set},
	{"ray.io", "RayCluster", read_ray_cluster},
};
_Static_assert(ARRAY_SIZE(kinds) == CLUSTER_LAST_GROUP - CLUSTER_GROUP + 1, "one of each kind");

const char *cluster_group_kind(const char *api_group)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (!strcmp(kinds[i].api_group, api_group))
			return kinds[i].name;
	return "object";
}

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

	if (cluster_is_claims_kind(kind))
		cluster_note_claims(c, kind);
	if (kind != CLUSTER_KUBE_GROUP || c->has_kube_groups)
		return;
	c->has_kube_groups = true;
	for (pod = c->pods; pod; pod = pod->hh.next)
		if (cpod_is_group_ignored(pod))
			c->is_unsettled = c->has_spaces = true;
}

/* ret_key: "API group/namespace/name". -EINVAL: the names are too long for a pod to name them. */
static int cluster_group_key(
	const char *api_group, const char *ns, const char *name, char ret_key[static KEY_MAX])
{
	return (size_t)snprintf(ret_key, KEY_MAX, "%s/%s/%s", api_group, ns, name) < KEY_MAX
		? 0
		: -EINVAL;
}

static void cgroup_object_free(struct cluster *c, struct cgroup_object *object)
{
	if (object->hh.tbl)
		HASH_DEL(c->group_objects, object);
	free(object->key);
	free(object->part);
	free(object);
}

static void cgroup_object_release(struct cluster *c, struct cgroup_object *object)
{
	if (!object->is_there && !object->pods)
		cgroup_object_free(c, object);
}

/* Creates the object if it is missing. NULL: out of memory. */
static struct cgroup_object *cluster_group_get(struct cluster *c, const char *key)
{
	struct cgroup_object *object = NULL;

	HASH_FIND_STR(c->group_objects, key, object);
	if (object)
		return object;
	object = calloc(1, sizeof(*object));
	if (!object)
		return NULL;
	object->key = str_dup(str_from(key));
	if (object->key)
		HASH_ADD_KEYPTR(hh, c->group_objects, object->key, strlen(object->key), object);
	if (object->hh.tbl)
		return object;
	cgroup_object_free(c, object);
	return NULL;
}

int cpod_join_object(struct cluster *c, struct cpod *pod)
{
	const struct tenancy *requested = &pod->requested;
	char key[KEY_MAX];

	if (!requested->group_object[0] ||
		cluster_group_key(requested->group_object, pod->ns,
			requested->group_by ? requested->group_object_name : requested->group,
			key) < 0)
		return 0;
	pod->object = cluster_group_get(c, key);
	if (!pod->object)
		return -ENOMEM;
	DL_APPEND2(pod->object->pods, pod, oprev, onext);
	return 0;
}

void cpod_leave_object(struct cluster *c, struct cpod *pod)
{
	struct cgroup_object *object = TAKE_PTR(pod->object);

	if (!object)
		return;
	DL_DELETE2(object->pods, pod, oprev, onext);
	cgroup_object_release(c, object);
}

/* Whether a template of the object requests a group of the same kind. */
static bool has_request(const struct cgroup_object *object, const char *group_by)
{
	for (uint32_t i = 0; i < object->n_parts; i++)
		if (!strcmp(object->part[i].group_by, group_by))
			return true;
	return false;
}

/*
 * Number of the object's pods in the group that the pod requests. ret_has_part: whether the object
 * has a part for that group, which may have no pods.
 */
static uint32_t cgroup_object_size(
	const struct cgroup_object *object, const struct tenancy *requested, bool *ret_has_part)
{
	const struct dialect_group_by *by = requested->group_by;
	const bool is_whole = by && !by->part;
	const bool is_by_request = is_whole && has_request(object, by->value);
	uint64_t n = by ? 0 : object->least;

	*ret_has_part = false;
	for (uint32_t i = 0; by && i < object->n_parts; i++) {
		const struct cgroup_part *part = &object->part[i];

		if (is_whole ? is_by_request && strcmp(part->group_by, by->value) != 0
			     : strcmp(part->name, requested->group_part) != 0)
			continue;
		n += part->pods * (by->is_one ? 1 : part->units);
		*ret_has_part = true;
	}
	return (uint32_t)MIN(n, (uint64_t)SPEC_GROUP_SIZE_MAX);
}

void cpod_size_group(struct cpod *pod)
{
	struct tenancy *requested = &pod->requested;
	const struct cgroup_object *object = pod->object && pod->object->is_there ? pod->object
										  : NULL;
	struct spec group = {.group_threshold = requested->group_threshold};

	if (!requested->group_object[0])
		return;
	requested->is_group_empty = false;
	if (object)
		group.group_size = cgroup_object_size(
			object, requested, &requested->is_group_empty);
	requested->is_group_empty &= !group.group_size;
	requested->group_size = group.group_size;
	requested->group_least = group.group_size ? spec_group_least(&group) : 0;
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

static void cgroup_object_size_members(struct cluster *c, const struct cgroup_object *object)
{
	struct cpod *pod;

	DL_FOREACH2(object->pods, pod, onext)
	{
		const bool was_basic = pod->requested.is_group_basic;

		cpod_size_group(pod);
		c->has_other_gangs |= pod->requested.is_group_basic != was_basic;
	}
}

int cluster_remove_group(struct cluster *c, int kind, const char *ns, const char *name)
{
	struct cgroup_object *object = NULL;
	char key[KEY_MAX];

	if (cluster_group_key(kinds[kind - CLUSTER_GROUP].api_group, ns, name, key) == 0)
		HASH_FIND_STR(c->group_objects, key, object);
	if (!object || !object->is_there)
		return -ENOENT;
	object->is_there = false;
	free(TAKE_PTR(object->part));
	object->n_parts = 0;
	cgroup_object_size_members(c, object);
	cgroup_object_release(c, object);
	return 0;
}

/* Call when no pod is left. */
void cluster_free_groups(struct cluster *c)
{
	struct cgroup_object *object, *next;

	HASH_ITER(hh, c->group_objects, object, next)
		cgroup_object_free(c, object);
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

/* ---- objects with parts ---- */

static uint64_t count_at(const json_t *json, const char *key, uint64_t otherwise)
{
	const json_t *value = json_object_get(json, key);

	return json_is_integer(value) ? (uint64_t)MIN(MAX(json_integer_value(value), (json_int_t)0),
						(json_int_t)SPEC_GROUP_SIZE_MAX)
				      : otherwise;
}

static int cgroup_object_grow(struct cgroup_object *object, size_t n)
{
	object->part = calloc(MIN(n, (size_t)PARTS_MAX) + 1, sizeof(*object->part));
	return object->part ? 0 : -ENOMEM;
}

/* pod_template: with the annotations of the part's pods. */
static void cgroup_object_add(struct cgroup_object *object, const char *name,
	const json_t *pod_template, uint64_t units, uint64_t pods)
{
	struct cgroup_part *part = &object->part[object->n_parts];
	const char *by = json_string_value(json_object_get(
		kube_json_at(pod_template, "metadata", "annotations", NULL), DIALECT_GROUP_BY_KEY));

	if (object->n_parts == PARTS_MAX)
		return;
	str_copy(part->name, sizeof(part->name), str_from(name ? name : ""));
	str_copy(part->group_by, sizeof(part->group_by), str_from(by ? by : ""));
	part->units = units;
	part->pods = pods;
	object->n_parts++;
}

/* A Job runs as many pods as its parallelism, and no more than its completions. */
static uint64_t count_job_pods(const json_t *job_spec)
{
	const uint64_t parallelism = count_at(job_spec, "parallelism", 1);

	return MIN(parallelism, count_at(job_spec, "completions", parallelism));
}

static int read_job_set(struct cgroup_object *object, const json_t *spec)
{
	const json_t *jobs = json_object_get(spec, "replicatedJobs"), *job;
	size_t i;

	if (cgroup_object_grow(object, json_array_size(jobs)) < 0)
		return -ENOMEM;
	json_array_foreach(jobs, i, job) {
		const json_t *job_spec = kube_json_at(job, "template", "spec", NULL);

		cgroup_object_add(object, json_string_value(json_object_get(job, "name")),
			json_object_get(job_spec, "template"), count_at(job, "replicas", 1),
			count_job_pods(job_spec));
	}
	return 0;
}

/* Returns 1 if the parts changed, 0 if they are as before, -ENOMEM. */
static int cgroup_object_update(
	struct cgroup_object *object, const struct cgroup_kind *kind, const json_t *json)
{
	struct cgroup_object next = {.n_parts = 0};

	if (kind->read(&next, json_object_get(json, "spec")) < 0)
		return -ENOMEM;
	if (next.n_parts == object->n_parts && object->part &&
		!memcmp(next.part, object->part, next.n_parts * sizeof(*next.part))) {
		free(next.part);
		return 0;
	}
	free(object->part);
	object->part = next.part;
	object->n_parts = next.n_parts;
	return 1;
}

/*
 * KubeRay keeps the number of replicas between minReplicas and maxReplicas. If minReplicas is the
 * larger one, releases before 1.0 take maxReplicas; later ones refuse the object.
 */
static uint64_t count_ray_replicas(const json_t *group)
{
	const uint64_t least = count_at(group, "minReplicas", 0),
		       most = count_at(group, "maxReplicas", SPEC_GROUP_SIZE_MAX);

	if (json_is_true(json_object_get(group, "suspend")))
		return 0;
	return MIN(MAX(count_at(group, "replicas", 0), least), most);
}

/* KubeRay gives the head the label value "headgroup". */
static int read_ray_cluster(struct cgroup_object *object, const json_t *spec)
{
	const json_t *groups = json_object_get(spec, "workerGroupSpecs"), *group;
	size_t i;

	if (cgroup_object_grow(object, json_array_size(groups) + 1) < 0)
		return -ENOMEM;
	cgroup_object_add(
		object, "headgroup", kube_json_at(spec, "headGroupSpec", "template", NULL), 1, 1);
	json_array_foreach(groups, i, group)
		cgroup_object_add(object, json_string_value(json_object_get(group, "groupName")),
			json_object_get(group, "template"), count_ray_replicas(group),
			count_at(group, "numOfHosts", 1));
	return 0;
}

int cluster_set_group(struct cluster *c, int kind, const json_t *json)
{
	const struct cgroup_kind *k = &kinds[kind - CLUSTER_GROUP];
	const json_t *metadata = json_object_get(json, "metadata");
	const char *ns = json_string_value(json_object_get(metadata, "namespace"));
	const char *name = json_string_value(json_object_get(metadata, "name"));
	struct cgroup_object *object;
	char key[KEY_MAX];
	int r = 1;

	if (cluster_group_key(k->api_group, ns ? ns : "", name, key) < 0)
		return -EINVAL;
	object = cluster_group_get(c, key);
	if (!object)
		return -ENOMEM;
	if (k->read)
		r = cgroup_object_update(object, k, json);
	else
		cluster_group_read(object, kind, json);
	if (r >= 0)
		object->is_there = true;
	else
		cgroup_object_release(c, object);
	/* Controllers often write the status of objects with parts, which is no news. */
	if (r <= 0)
		return r;
	c->has_news = true;
	cgroup_object_size_members(c, object);
	return 0;
}
