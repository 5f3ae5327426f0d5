/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds a device to GPUNode.spec.cordoned or removes it. cordon_set() reads the GPUNode and sends a
 * merge patch, which replaces the whole list and therefore carries the resourceVersion that was
 * read. After a concurrent change of the GPUNode the patch fails with -EBUSY, and cordon_set()
 * reads again, for at most TRIES tries.
 */
#include "kubectl/cordon-patch.h"

#include <errno.h>

#include "cmdline/json-member.h"

#define TRIES 8

/* Returns the changed spec of the GPUNode; NULL: the list needs no change. */
static json_t *cordon_changed_spec(
	const json_t *gpunode, const char *uuid, bool is_cordoned, const char *reason)
{
	const json_t *old = kube_json_at(gpunode, "spec", "cordoned", NULL);
	json_t *list = json_array(), *one;
	bool was = false;

	for (size_t i = 0; i < json_array_size(old); i++) {
		if (strcmp(json_text_or_empty(json_array_get(old, i), "uuid"), uuid))
			json_array_append(list, json_array_get(old, i));
		else
			was = true;
	}
	if (was == is_cordoned) {
		json_decref(list);
		return NULL;
	}
	if (is_cordoned) {
		one = json_pack("{s:s}", "uuid", uuid);
		if (reason[0])
			json_object_set_new(one, "reason", json_string(reason));
		json_array_append_new(list, one);
	}
	return list;
}

static int try_once(
	struct access *a, const char *node, json_t *list, const char *version, struct error *err)
{
	_cleanup_json_ json_t *patch = json_pack("{s:{s:s}, s:{s:o}}", "metadata",
		"resourceVersion", version, "spec", "cordoned", list);
	struct kube_ask answer = {.is_done = false};
	const struct kube_write write = {.target = {"divvy.gpu/v1", "gpunodes", NULL, node, NULL},
		.field_manager = "kubectl-divvy",
		.done = kube_ask_done,
		.data = &answer};
	const int r = kube_patch(a->client, &write, KUBE_PATCH_MERGE, patch, err);

	return r < 0 ? r : access_await(a, &answer, NULL, err);
}

int cordon_set(struct access *a, const char *node, const char *uuid, bool is_cordoned,
	const char *reason, struct error *err)
{
	_cleanup_buf_ struct buf path = BUF_INIT(KUBE_URL_MAX);
	int r = kube_path(
		&path, &(struct kube_target){"divvy.gpu/v1", "gpunodes", NULL, node, NULL}, err);

	for (int i = 0; r >= 0 && i < TRIES; i++) {
		_cleanup_json_ json_t *gpunode = NULL;
		json_t *list;

		r = access_get(a, buf_text(&path), NULL, &gpunode, err);
		if (r < 0)
			return r;
		list = cordon_changed_spec(gpunode, uuid, is_cordoned, reason);
		if (!list)
			return 0;
		r = try_once(a, node, list,
			kube_json_text_at(gpunode, "metadata", "resourceVersion", NULL), err);
		if (r == 0)
			return 1;
		if (r != -EBUSY)
			return r;
		r = 0;
	}
	return r < 0
		? r
		: fail(err, EBUSY, "GPUNode %.100s: too many concurrent changes; try again", node);
}
