/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds the JSON Patch of the webhook; correct fields are not written again. A pod without a share
 * gets a patch only if LimitRanger added resources of divvy to it.
 */
#include <string.h>

#include "controller/claim-template.h"
#include "controller/pod-translate.h"
#include "spec/quantity.h"

#define PATH_MAX_BYTES 1024u
#define FOREIGN_MAX 16u /* foreign resources in one container */

static int pod_patch_add_operation(json_t *patch, const char *op, const char *path, json_t *value)
{
	json_t *o = value ? json_pack("{s:s, s:s, s:o}", "op", op, "path", path, "value", value)
			  : json_pack("{s:s, s:s}", "op", op, "path", path);

	return o ? json_array_append_new(patch, o) : -1;
}

/* Appends a key such as "divvy.gpu/slot" as a step of a JSON Pointer. */
static void add_step(struct buf *path, struct str key)
{
	buf_add_byte(path, '/');
	for (size_t i = 0; i < key.n; i++) {
		if (key.p[i] == '~')
			buf_add_text(path, "~0");
		else if (key.p[i] == '/')
			buf_add_text(path, "~1");
		else
			buf_add_byte(path, key.p[i]);
	}
}

struct pair {
	struct str key;
	const char *value; /* NULL: the patch removes the key */
};

/* Changes the object at `path` member by member, or creates it if it is missing. */
static int change_object(
	json_t *patch, const char *path, const json_t *object, const struct pair *pairs, size_t n)
{
	json_t *whole = NULL;
	int r = 0;

	if (!json_is_object(object)) {
		whole = json_object();
		for (size_t i = 0; i < n && whole; i++)
			if (pairs[i].value)
				json_object_setn_new_nocheck(whole, pairs[i].key.p, pairs[i].key.n,
					json_string(pairs[i].value));
		if (json_object_size(whole))
			return pod_patch_add_operation(patch, "add", path, whole);
		json_decref(whole);
		return 0;
	}
	for (size_t i = 0; r >= 0 && i < n; i++) {
		_cleanup_buf_ struct buf step = BUF_INIT(PATH_MAX_BYTES);
		const json_t *now = json_object_getn(object, pairs[i].key.p, pairs[i].key.n);

		buf_add_text(&step, path);
		add_step(&step, pairs[i].key);
		if (buf_error(&step) < 0)
			return -1;
		if (!pairs[i].value) {
			if (now)
				r = pod_patch_add_operation(patch, "remove", buf_text(&step), NULL);
		} else if (!json_is_string(now) || strcmp(json_string_value(now), pairs[i].value)) {
			r = pod_patch_add_operation(patch, now ? "replace" : "add", buf_text(&step),
				json_string(pairs[i].value));
		}
	}
	return r;
}

#define RANGED_MAX 16u /* most resources of divvy that LimitRanger added to a container */

/*
 * Adds pairs that set resources of LimitRanger to 0. They cannot be removed: LimitRanger refuses a
 * pod that lacks a resource for which a LimitRange has a maximum.
 */
static size_t add_ranged(const struct pod_translation *translation, uint32_t container,
	enum manifest_resources which, const json_t *list, struct pair pairs[static RANGED_MAX])
{
	size_t n = 0;
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)list, key, value) {
		const struct str name = str_from(key);

		if (n < RANGED_MAX && str_has_prefix(name, STR(POD_TRANSLATE_RESOURCE_PREFIX)) &&
			manifest_is_limit_rangers(&translation->json.pod, container, which, name))
			pairs[n++] = (struct pair){name, "0"};
	}
	return n;
}

static bool has_pair(const struct pair *pairs, size_t n, struct str key)
{
	for (size_t i = 0; i < n; i++)
		if (str_eq(pairs[i].key, key))
			return true;
	return false;
}

static int patch_list(json_t *patch, const struct pod_translation *translation, uint32_t container,
	enum manifest_resources which, const json_t *resources)
{
	const struct dialect_tenant *t = pod_translate_tenant(translation, container);
	struct pair pairs[POD_TRANSLATE_RESOURCES + FOREIGN_MAX + RANGED_MAX], ranged[RANGED_MAX];
	char numbers[POD_TRANSLATE_RESOURCES][24];
	struct pod_translate_resource want[POD_TRANSLATE_RESOURCES];
	_cleanup_buf_ struct buf path = BUF_INIT(PATH_MAX_BYTES);
	const uint32_t n_want = t ? pod_translate_resources(t, want) : 0;
	const char *field = which == MANIFEST_LIMITS ? "limits" : "requests";
	const json_t *list = json_object_get(resources, field);
	size_t n = 0, n_ranged;

	for (uint32_t i = 0; i < translation->result.n_foreign && n < FOREIGN_MAX; i++)
		if (translation->result.foreign[i].container == container)
			pairs[n++] = (struct pair){translation->result.foreign[i].resource, NULL};
	for (uint32_t i = 0; i < n_want; i++) {
		const struct str name = str_from(want[i].name);
		const char *now = json_string_value(json_object_get(list, want[i].name));
		uint64_t number;

		snprintf(numbers[i], sizeof(numbers[i]), "%llu", (unsigned long long)want[i].value);
		/* The same number in another format, such as 1k for 1000, stays. */
		if (now && quantity_parse(str_from(now), 1, &number, NULL) == 0 &&
			number == want[i].value)
			pairs[n++] = (struct pair){name, now};
		else
			pairs[n++] = (struct pair){name, numbers[i]};
	}
	n_ranged = add_ranged(translation, container, which, list, ranged);
	for (size_t i = 0; i < n_ranged; i++)
		if (!has_pair(pairs, n, ranged[i].key))
			pairs[n++] = ranged[i];
	manifest_json_path(&translation->json, container, &path);
	buf_addf(&path, "/resources/%s", field);
	return change_object(patch, buf_text(&path), list, pairs, n);
}

static int patch_container(
	json_t *patch, const struct pod_translation *translation, uint32_t container)
{
	const json_t *c = manifest_json_container(&translation->json, translation->spec, container),
		     *resources = json_object_get(c, "resources");
	bool is_touched = pod_translate_tenant(translation, container) || json_is_object(resources);
	int r = 0;

	for (uint32_t i = 0; i < translation->result.n_foreign; i++)
		is_touched |= translation->result.foreign[i].container == container;
	if (!is_touched)
		return 0;
	if (!json_is_object(resources)) {
		_cleanup_buf_ struct buf path = BUF_INIT(PATH_MAX_BYTES);

		manifest_json_path(&translation->json, container, &path);
		buf_add_text(&path, "/resources");
		r = pod_patch_add_operation(patch, "add", buf_text(&path), json_object());
	}
	r = r < 0 ? r : patch_list(patch, translation, container, MANIFEST_LIMITS, resources);
	return r < 0 ? r : patch_list(patch, translation, container, MANIFEST_REQUESTS, resources);
}

static int patch_metadata(json_t *patch, const struct pod_translation *translation)
{
	const struct pair label = {STR(DIALECT_TENANT_LABEL), "true"};
	char name[MANIFEST_CONTAINER_NAME_MAX + 1];
	struct pair annotations[3];
	size_t n = 0;
	int r;

	if (translation->record.n)
		annotations[n++] = (struct pair){
			STR(DIALECT_RECORD_KEY), buf_text(&translation->record)};
	if (translation->list.n)
		annotations[n++] = (struct pair){
			STR(DIALECT_LIST_KEY), buf_text(&translation->list)};
	if (translation->default_container.n &&
		str_copy(name, sizeof(name), translation->default_container) == 0)
		annotations[n++] = (struct pair){STR(MANIFEST_DEFAULT_KEY), name};
	r = change_object(patch, "/metadata/labels",
		json_object_get(translation->metadata, "labels"), &label, 1);
	return r < 0
		? r
		: change_object(patch, "/metadata/annotations",
			  json_object_get(translation->metadata, "annotations"), annotations, n);
}

/* ---- claims ---- */

#define CLAIM_NAME 32u

/* Appends a value to the list at `path`, which the operation creates if `list` is no list. */
static int append_to(json_t *patch, struct buf *path, const json_t *list, json_t *value)
{
	const bool has_list = json_is_array(list);

	if (has_list)
		buf_add_text(path, "/-");
	return pod_patch_add_operation(
		patch, "add", buf_text(path), has_list || !value ? value : json_pack("[o]", value));
}

static int remove_resources(
	json_t *patch, const char *container, const json_t *resources, bool is_whole)
{
	static const char *const lists[] = {"limits", "requests"};
	static const struct pair whole[] = {{STR(POD_TRANSLATE_WHOLE), NULL}};
	static const struct pair share[] = {
		{STR(POD_TRANSLATE_SHARE), NULL}, {STR(POD_TRANSLATE_MEMORY), NULL}};
	int r = 0;

	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(lists); i++) {
		_cleanup_buf_ struct buf path = BUF_INIT(PATH_MAX_BYTES);

		buf_addf(&path, "%s/resources/%s", container, lists[i]);
		r = change_object(patch, buf_text(&path), json_object_get(resources, lists[i]),
			is_whole ? whole : share, is_whole ? ARRAY_SIZE(whole) : ARRAY_SIZE(share));
	}
	return r;
}

/* Names of claims in the pod must differ: "divvy-share-0", or the next number that is free. */
static void name_claim(const json_t *claims, size_t *number, char ret[static CLAIM_NAME])
{
	do
		snprintf(ret, CLAIM_NAME, CLAIM_TEMPLATE_PREFIX "%zu", (*number)++);
	while (kube_json_find(claims, "name", ret));
}

/* The claims of a pod that is being changed. */
struct pod_claims {
	json_t *list;  /* spec.resourceClaims, with the added ones, so that names differ */
	size_t number; /* of the next name */
	bool is_ours;  /* the pod's scheduler is divvy-scheduler */
};

/* Replaces a container's share by a claim, or its whole devices in a pod of divvy-scheduler. */
static int patch_claim(json_t *patch, const struct pod_translation *translation, uint32_t container,
	struct pod_claims *pod)
{
	json_t **claims = &pod->list;
	const json_t *c = manifest_json_container(&translation->json, translation->spec, container),
		     *resources = json_object_get(c, "resources");
	_cleanup_buf_ struct buf at = BUF_INIT(PATH_MAX_BYTES), path = BUF_INIT(PATH_MAX_BYTES),
				 spec = BUF_INIT(PATH_MAX_BYTES);
	char name[CLAIM_NAME], template[CLAIM_TEMPLATE_NAME];
	struct claim_share share;
	json_t *claim;
	int r = claim_share_read(&translation->json.pod, container, &share, NULL);

	if (r == 0 && pod->is_ours)
		r = claim_devices_read(&translation->json.pod, container, &share, NULL);
	if (r <= 0)
		return r;
	name_claim(*claims, &pod->number, name);
	manifest_json_path(&translation->json, container, &at);
	buf_addf(&path, "%s/resources/claims", buf_text(&at));
	buf_add_text(&spec, "/spec/resourceClaims");
	claim = json_pack("{s:s, s:s}", "name", name, "resourceClaimTemplateName",
		claim_template_name(&share, template));
	r = remove_resources(patch, buf_text(&at), resources, share.n_devices > 0);
	r = r < 0 ? r
		  : append_to(patch, &path, json_object_get(resources, "claims"),
			    json_pack("{s:s}", "name", name));
	r = r < 0 ? r : append_to(patch, &spec, *claims, json_incref(claim));
	if (!json_is_array(*claims)) {
		json_decref(*claims);
		*claims = json_array();
	}
	if (json_array_append_new(*claims, claim) < 0)
		r = -1;
	return r;
}

static int patch_claims(
	json_t *patch, const struct pod_translation *translation, const char *scheduler_name)
{
	const char *scheduler = json_string_value(
		json_object_get(translation->spec, "schedulerName"));
	struct pod_claims claims = {
		.list = json_deep_copy(json_object_get(translation->spec, "resourceClaims")),
		.is_ours = scheduler && !strcmp(scheduler, scheduler_name)};
	int r = 0;

	for (uint32_t i = 0; r >= 0 && i < translation->json.pod.n_containers; i++)
		r = patch_claim(patch, translation, i, &claims);
	json_decref(claims.list);
	return r;
}

json_t *pod_patch(const struct pod_translation *translation, const char *scheduler_name)
{
	json_t *patch = json_array();
	int r = patch ? 0 : -1;

	if (r >= 0 && pod_translate_is_tenant(translation)) {
		r = patch_metadata(patch, translation);
		if (r >= 0 && pod_translate_replaces_scheduler(translation))
			r = pod_patch_add_operation(
				patch, "add", "/spec/schedulerName", json_string(scheduler_name));
	}
	for (uint32_t i = 0; r >= 0 && i < translation->json.pod.n_containers; i++)
		r = patch_container(patch, translation, i);
	if (r >= 0 && pod_translate_has_claims(translation))
		r = patch_claims(patch, translation, scheduler_name);
	if (r < 0) {
		json_decref(patch);
		return NULL;
	}
	return patch;
}
