/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the objects of a file into the pods that they would create. A table lists the kinds with a
 * pod template and the fields of `spec` that give the number of pods. pods_read_object() reads the
 * items of a List in turn, skips unknown kinds, and fails on an object without `kind`. A pod from a
 * template is a copy with the name and namespace of the object.
 */
#include "kubectl/pods.h"

#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "cmdline/json-member.h"
#include "kube/kube-json.h"
#include "manifest/requested-json.h"

/* Kinds with a pod template, and the fields that give the number of pods. */
static const struct shape {
	const char *kind;
	const char *count[3]; /* fields of spec; of those present the smallest value counts */
} shapes[] = {
	{"Deployment", {"replicas"}},
	{"ReplicaSet", {"replicas"}},
	{"ReplicationController", {"replicas"}},
	{"StatefulSet", {"replicas"}},
	{"Job", {"parallelism", "completions"}},
	{"DaemonSet", {NULL}},
	{"CronJob", {NULL}},
	{"SharePod", {NULL}},
};

struct reading {
	const char *where;
	json_t *list;
	uint64_t n;
};

static int pods_add_pod(
	struct reading *r, const json_t *object, json_t *pod, int64_t count, struct error *err)
{
	char from[400];

	snprintf(from, sizeof(from), "%.80s %.253s", json_text_or_empty(object, "kind"),
		json_text_or_empty(json_object_get(object, "metadata"), "name"));
	r->n += (uint64_t)MAX(count, (int64_t)0);
	if (r->n > PODS_MAX) {
		json_decref(pod);
		return fail(err, E2BIG, "%s: %s: %llu pods; at most %u are allowed", r->where, from,
			(unsigned long long)r->n, PODS_MAX);
	}
	if (count > 0)
		json_array_append_new(r->list,
			json_pack("{s:s, s:I, s:o}", "from", from, "count", (json_int_t)count,
				"pod", pod));
	else
		json_decref(pod);
	return 0;
}

static json_t *pods_make_pod(const json_t *object, const json_t *template)
{
	json_t *metadata = json_deep_copy(json_object_get(template, "metadata"));
	const json_t *its = json_object_get(object, "metadata");
	char name[254];

	if (!json_is_object(metadata)) {
		json_decref(metadata);
		metadata = json_object();
	}
	snprintf(name, sizeof(name), "%.253s", json_text_or_empty(its, "name"));
	json_object_set_new(metadata, "name", json_string(name));
	if (json_text_or_empty(its, "namespace")[0])
		json_object_set_new(
			metadata, "namespace", json_string(json_text_or_empty(its, "namespace")));
	return json_pack("{s:s, s:s, s:o, s:o}", "apiVersion", "v1", "kind", "Pod", "metadata",
		metadata, "spec", json_deep_copy(json_object_get(template, "spec")));
}

/*
 * Converts the fields of a SharePod's spec into the pod's requested keys, as the controller does.
 */
static int pods_set_requested(const json_t *spec, json_t *pod, struct error *err)
{
	_cleanup_json_ json_t *keys = NULL;
	json_t *metadata = json_object_get(pod, "metadata");
	int r = requested_json_read(spec, &keys, err);

	if (r < 0)
		return r;
	if (!json_is_object(json_object_get(metadata, "annotations")))
		json_object_set_new(metadata, "annotations", json_object());
	json_object_update(json_object_get(metadata, "annotations"), keys);
	return 0;
}

static int count_of(
	const struct shape *shape, const json_t *spec, int64_t *ret_count, struct error *err)
{
	int64_t least = INT64_MAX;

	for (size_t i = 0; i < ARRAY_SIZE(shape->count) && shape->count[i]; i++) {
		const json_t *given = json_object_get(spec, shape->count[i]);

		if (!given || json_is_null(given))
			continue;
		if (!json_is_integer(given))
			return fail(
				err, EINVAL, "spec.%s: expected a whole number", shape->count[i]);
		least = MIN(least, (int64_t)json_integer_value(given));
	}
	*ret_count = least == INT64_MAX ? 1 : least;
	return 0;
}

static int pods_read_object(struct reading *r, const json_t *object, struct error *err);

static int pods_read_list(struct reading *r, const json_t *items, struct error *err)
{
	int result = 0;

	for (size_t i = 0; result == 0 && i < json_array_size(items); i++)
		result = pods_read_object(r, json_array_get(items, i), err);
	return result;
}

static int pods_read_object(struct reading *r, const json_t *object, struct error *err)
{
	const char *kind = json_text_or_empty(object, "kind");
	const json_t *spec = json_object_get(object, "spec"), *template;
	int64_t count = 0;
	json_t *pod;
	int result = 0;

	if (!kind[0])
		return fail(
			err, EINVAL, "%s: no field kind; expected Kubernetes objects", r->where);
	if (json_is_array(json_object_get(object, "items")))
		return pods_read_list(r, json_object_get(object, "items"), err);
	if (!strcmp(kind, "Pod"))
		return pods_add_pod(r, object, json_deep_copy(object), 1, err);
	for (size_t i = 0; i < ARRAY_SIZE(shapes); i++) {
		if (strcmp(kind, shapes[i].kind))
			continue;
		if (!strcmp(kind, "CronJob"))
			spec = kube_json_at(spec, "jobTemplate", "spec", NULL);
		template = json_object_get(spec, "template");
		if (!json_is_object(json_object_get(template, "spec")))
			return fail(err, EINVAL, "%s: %s %.100s has no template with a spec",
				r->where, kind,
				json_text_or_empty(json_object_get(object, "metadata"), "name"));
		pod = pods_make_pod(object, template);
		result = count_of(&shapes[i], spec, &count, err);
		if (result == 0 && !strcmp(kind, "SharePod"))
			result = pods_set_requested(spec, pod, err);
		if (result < 0) {
			json_decref(pod);
			return fail_within(err, result, "%s: %s %.100s", r->where, kind,
				json_text_or_empty(json_object_get(object, "metadata"), "name"));
		}
		return pods_add_pod(r, object, pod, count, err);
	}
	return 0;
}

int pods_read(const json_t *documents, const char *where, json_t **ret, struct error *err)
{
	_cleanup_json_ json_t *list = json_array();
	struct reading reading = {.where = where, .list = list};
	int r = pods_read_list(&reading, documents, err);

	if (r < 0)
		return r;
	if (!json_array_size(list))
		return fail(err, EINVAL,
			"%s: creates no pod; expected a Pod, a SharePod, or an object with a pod "
			"template and more than 0 replicas",
			where);
	*ret = TAKE_PTR(list);
	return 0;
}
