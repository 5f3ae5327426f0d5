/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes a list of GPUNode.spec that has one entry for each device. change_list() reads the
 * GPUNode and sends a merge patch, which replaces the whole list and therefore carries the
 * resourceVersion that was read. After a concurrent change of the GPUNode the patch fails with
 * -EBUSY, and change_list() reads again, for at most TRIES tries.
 */
#include "kubectl/cordon-patch.h"

#include <errno.h>

#include "cmdline/json-member.h"

#define TRIES 8

/* A wanted entry of a list; `entry` NULL: the list has no entry for the device. */
struct list_change {
	const char *member, *uuid;
	const json_t *entry;
	bool does_replace; /* an entry that differs is replaced; otherwise it stays */
};

/* Returns the changed list; NULL: the list needs no change. */
static json_t *changed_list(const json_t *gpunode, const struct list_change *change)
{
	const json_t *old = kube_json_at(gpunode, "spec", change->member, NULL);
	const json_t *was = kube_json_find(old, "uuid", change->uuid);
	json_t *list;

	if (!was == !change->entry &&
		!(was && change->does_replace &&
			!json_equal((json_t *)was, (json_t *)change->entry)))
		return NULL;
	list = json_array();
	for (size_t i = 0; i < json_array_size(old); i++)
		if (json_array_get(old, i) != was)
			json_array_append(list, json_array_get(old, i));
	if (change->entry)
		json_array_append(list, (json_t *)change->entry);
	return list;
}

static int try_once(struct access *a, const char *node, const char *member, json_t *list,
	const char *version, struct error *err)
{
	_cleanup_json_ json_t *patch = json_pack(
		"{s:{s:s}, s:{s:o}}", "metadata", "resourceVersion", version, "spec", member, list);
	struct kube_ask answer = {.is_done = false};
	const struct kube_write write = {.target = {"divvy.gpu/v1", "gpunodes", NULL, node, NULL},
		.field_manager = "kubectl-divvy",
		.done = kube_ask_done,
		.data = &answer};
	const int r = kube_patch(a->client, &write, KUBE_PATCH_MERGE, patch, err);

	return r < 0 ? r : access_await(a, &answer, NULL, err);
}

static int change_list(
	struct access *a, const char *node, const struct list_change *change, struct error *err)
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
		list = changed_list(gpunode, change);
		if (!list)
			return 0;
		r = try_once(a, node, change->member, list,
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

int cordon_set(struct access *a, const char *node, const char *uuid, bool is_cordoned,
	const char *reason, struct error *err)
{
	_cleanup_json_ json_t *entry = json_pack("{s:s}", "uuid", uuid);

	if (reason[0])
		json_object_set_new(entry, "reason", json_string(reason));
	return change_list(a, node,
		&(struct list_change){
			.member = "cordoned", .uuid = uuid, .entry = is_cordoned ? entry : NULL},
		err);
}

int clear_set(
	struct access *a, const char *node, const char *uuid, const char *time, struct error *err)
{
	_cleanup_json_ json_t *entry = json_pack("{s:s, s:s}", "uuid", uuid, "timeAdded", time);

	return change_list(a, node,
		&(struct list_change){
			.member = "cleared", .uuid = uuid, .entry = entry, .does_replace = true},
		err);
}
