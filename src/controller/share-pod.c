/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file builds the pod of a SharePod. For divvy's SharePods, the template gets the spec's
 * requested keys as annotations. For KubeShare's, the SharePod's own metadata and spec become the
 * pod's. Every function copies the JSON that it changes, so cached objects stay as they are.
 * share_pod_other_name() hashes the UID, so a controller that restarts finds the same name.
 * share_pod_carry() leaves assigned and recorded keys as they are.
 */
#include "controller/share-pod.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "manifest/requested-json.h"
#include "spec/dialect.h"

#define PREFIX "divvy.gpu/"
#define LAST_APPLIED "kubectl.kubernetes.io/last-applied-configuration"
#define GPU_ID "kubeshare/GPUID"
#define HOSTNAME "kubernetes.io/hostname"

const char *share_pod_api_version(enum share_pod_kind kind)
{
	return kind == SHARE_POD_OURS ? "divvy.gpu/v1" : "kubeshare.nthu/v1";
}

bool share_pod_is_kubeshare_on(const char *dialects)
{
	struct dialect_config config;

	if (dialect_config_parse(str_from(dialects), &config, NULL) < 0)
		return false;
	for (size_t i = 0; dialect_at(i); i++)
		if (!strcmp(dialect_at(i)->name, "kubeshare"))
			return config.enabled >> i & 1;
	return false;
}

/* ---- requested keys ---- */

static bool is_key_of_pod(const char *key)
{
	return !strncmp(key, PREFIX, sizeof(PREFIX) - 1);
}

/* Checks the template's keys of divvy: each must repeat a key of the spec with an equal value. */
static int check_template(const json_t *annotations, const json_t *asked, struct error *err)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)annotations, key, value) {
		const json_t *ours = json_object_get(asked, key);

		if (!is_key_of_pod(key) || dialect_is_assigned(str_from(key)) ||
			dialect_is_recorded(str_from(key)) || (ours && json_equal(ours, value)))
			continue;
		if (!ours)
			return fail(err, EEXIST,
				"spec.template.metadata.annotations: %.100s: set it in the "
				"SharePod's spec",
				key);
		return fail(err, EEXIST,
			"spec.template.metadata.annotations: %.60s is '%.40s', but the spec says "
			"'%.40s'; leave it out of the template",
			key, json_is_string(value) ? json_string_value(value) : "?",
			json_string_value(ours));
	}
	return 0;
}

/* ---- the pod ---- */

static json_t *owner_of(const json_t *share_pod, enum share_pod_kind kind)
{
	const char *name = kube_json_text_at(share_pod, "metadata", "name", NULL),
		   *uid = kube_json_text_at(share_pod, "metadata", "uid", NULL);

	return json_pack("[{s:s, s:s, s:s, s:s, s:b, s:b}]", "apiVersion",
		share_pod_api_version(kind), "kind", "SharePod", "name", name ? name : "", "uid",
		uid ? uid : "", "controller", 1, "blockOwnerDeletion", 1);
}

static json_t *copy_or_new(const json_t *object)
{
	return json_is_object(object) ? json_deep_copy(object) : json_object();
}

static int share_pod_finish_pod(const json_t *share_pod, enum share_pod_kind kind, json_t *labels,
	json_t *annotations, json_t *spec, json_t **ret_pod, struct error *err)
{
	const char *name = kube_json_text_at(share_pod, "metadata", "name", NULL),
		   *ns = kube_json_text_at(share_pod, "metadata", "namespace", NULL);
	json_t *pod = json_pack("{s:s, s:s, s:{s:s, s:s*, s:o, s:o, s:o}, s:o}", "apiVersion", "v1",
		"kind", "Pod", "metadata", "name", name ? name : "", "namespace", ns, "labels",
		labels, "annotations", annotations, "ownerReferences", owner_of(share_pod, kind),
		"spec", spec);

	if (!pod)
		return fail(err, ENOMEM, "out of memory");
	*ret_pod = pod;
	return 0;
}

static int make_ours(const json_t *share_pod, json_t **ret_pod, struct error *err)
{
	const json_t *spec = json_object_get(share_pod, "spec"),
		     *template = json_object_get(spec, "template"),
		     *metadata = json_object_get(template, "metadata");
	_cleanup_json_ json_t *asked = NULL, *annotations = NULL;
	int r = requested_json_read(spec, &asked, err);

	if (r < 0)
		return r;
	annotations = copy_or_new(json_object_get(metadata, "annotations"));
	r = check_template(annotations, asked, err);
	if (r < 0)
		return r;
	json_object_update(annotations, asked);
	return share_pod_finish_pod(share_pod, SHARE_POD_OURS,
		copy_or_new(json_object_get(metadata, "labels")), TAKE_PTR(annotations),
		copy_or_new(json_object_get(template, "spec")), ret_pod, err);
}

/*
 * A KubeShare SharePod may name the node of its vGPU in nodeName, which would bypass the scheduler.
 * Turns nodeName into a node selector.
 */
static void select_node(json_t *spec, const json_t *annotations)
{
	const char *node = json_string_value(json_object_get(spec, "nodeName"));
	json_t *selector;

	if (!node || !json_object_get(annotations, GPU_ID))
		return;
	selector = copy_or_new(json_object_get(spec, "nodeSelector"));
	json_object_set_new(selector, HOSTNAME, json_string(node));
	json_object_set_new(spec, "nodeSelector", selector);
	json_object_del(spec, "nodeName");
}

static int make_kubeshare(const json_t *share_pod, json_t **ret_pod, struct error *err)
{
	const json_t *metadata = json_object_get(share_pod, "metadata");
	json_t *annotations = copy_or_new(json_object_get(metadata, "annotations"));
	json_t *spec = copy_or_new(json_object_get(share_pod, "spec"));

	json_object_del(annotations, LAST_APPLIED);
	select_node(spec, annotations);
	return share_pod_finish_pod(share_pod, SHARE_POD_KUBESHARE,
		copy_or_new(json_object_get(metadata, "labels")), annotations, spec, ret_pod, err);
}

int share_pod_make(
	const json_t *share_pod, enum share_pod_kind kind, json_t **ret_pod, struct error *err)
{
	return kind == SHARE_POD_OURS ? make_ours(share_pod, ret_pod, err)
				      : make_kubeshare(share_pod, ret_pod, err);
}

int share_pod_other_name(const json_t *share_pod, char ret[static SHARE_POD_NAME_MAX + 1])
{
	static const char letters[] = "bcdfghjklmnpqrstvwxz2456789";
	const char *name = kube_json_text_at(share_pod, "metadata", "name", NULL),
		   *uid = kube_json_text_at(share_pod, "metadata", "uid", NULL);
	uint64_t hash = str_hash(str_from(uid));
	char tail[7] = "-";
	size_t n = name ? strlen(name) : 0;

	if (!n || !uid)
		return -EINVAL;
	for (size_t i = 1; i < 6; i++, hash /= sizeof(letters) - 1)
		tail[i] = letters[hash % (sizeof(letters) - 1)];
	n = MIN(n, (size_t)SHARE_POD_NAME_MAX - 6);
	memcpy(ret, name, n);
	memcpy(ret + n, tail, sizeof(tail));
	return 0;
}

bool share_pod_is_owner(const json_t *owner)
{
	return !strcmp(kube_json_text(owner, "kind"), "SharePod");
}

bool share_pod_owns(const json_t *share_pod, const json_t *pod)
{
	const char *uid = kube_json_text_at(share_pod, "metadata", "uid", NULL),
		   *owner = kube_json_text_at(kube_json_controller(pod), "uid", NULL);

	return uid && owner && !strcmp(owner, uid);
}

/*
 * Considers only keys that apply to the whole pod; keys of single containers belong to the
 * template.
 */
int share_pod_carry(
	const json_t *share_pod, enum share_pod_kind kind, const json_t *pod, json_t **ret_patch)
{
	const json_t *now = kube_json_at(pod, "metadata", "annotations", NULL);
	_cleanup_json_ json_t *asked = NULL, *change = json_object();
	const char *key;
	json_t *value;

	*ret_patch = NULL;
	if (kind != SHARE_POD_OURS)
		return 0;
	if (!change || requested_json_read(json_object_get(share_pod, "spec"), &asked, NULL) < 0)
		return -ENOMEM;
	json_object_foreach(asked, key, value) {
		const json_t *has = json_object_get(now, key);

		if (!has || !json_equal(has, value))
			json_object_set(change, key, value);
	}
	json_object_foreach((json_t *)now, key, value) {
		if (is_key_of_pod(key) && !dialect_is_assigned(str_from(key)) &&
			!dialect_is_recorded(str_from(key)) && !json_object_get(asked, key))
			json_object_set_new(change, key, json_null());
	}
	if (!json_object_size(change))
		return 0;
	*ret_patch = json_pack("{s:{s:O}}", "metadata", "annotations", change);
	return *ret_patch ? 0 : -ENOMEM;
}
