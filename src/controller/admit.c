/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table `paths` has one function for each path of the webhook. The function may put warnings
 * and a patch into a verdict, and a negative result refuses the request. An update that does not
 * change a template, a SharePod or a pod's requested keys is not checked against the policies
 * again. So a policy that was made later does not block scaling or status writes. Validation
 * repeats the checks of mutation, since other webhooks may change the pod in between.
 */
#include "controller/admit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "controller/controller-placeholder.h"
#include "controller/share-pod.h"
#include "manifest/claim-config.h"

#define PATCH_MAX (4u << 20)

/* The parts of an answer that the function of a path makes. */
struct verdict {
	json_t *patch;    /* may be NULL */
	json_t *warnings; /* a list of texts */
	struct error err;
};

typedef int admit_fn(const struct admit_rules *rules, const struct admit_request *request,
	const struct admit_facts *facts, struct verdict *verdict);

static bool is_update(const struct admit_request *request)
{
	return !strcmp(request->operation, "UPDATE");
}

static void admit_add_warning(struct verdict *verdict, const char *text)
{
	char cut[ADMIT_WARNING_MAX];

	snprintf(cut, sizeof(cut), "divvy: %.220s", text);
	json_array_append_new(verdict->warnings, json_string(cut));
}

static void warn_notes(struct verdict *verdict, const struct pod_translation *translation)
{
	for (uint32_t i = 0; i < translation->result.n_notes; i++)
		admit_add_warning(verdict, translation->result.note[i]);
	if (translation->is_config_bad)
		admit_add_warning(verdict, translation->config_error.msg);
}

static int admit_read_translation(const struct admit_request *request, const json_t *object,
	const struct admit_facts *facts, struct pod_translation *ret, struct error *err)
{
	return pod_translate_read(json_object_get(object, "metadata"),
		json_object_get(object, "spec"), str_from(request->ns), &facts->ns, ret, err);
}

/*
 * Translates the pod or template `object`, and checks what does not depend on the user or on the
 * operation.
 */
static int admit_read_valid(const struct admit_request *request, const json_t *object,
	const struct admit_facts *facts, bool is_patched, struct pod_translation *ret,
	struct error *err)
{
	int r = admit_read_translation(request, object, facts, ret, err);

	r = r < 0 ? r : pod_translate_check_presets(ret, is_patched, err);
	r = r < 0 ? r : pod_translate_check_claims(ret, err);
	r = r < 0 ? r : pod_translate_check_modes(ret, err);
	return r < 0 ? r : pod_translate_check_policies(ret, &facts->ns, err);
}

/* ---- pods ---- */

/*
 * Refuses the priority class of placeholders, which is higher than any class of a user.
 * Placeholders themselves are in divvy's own namespace, whose pods the webhook does not see.
 */
static int check_class(const json_t *spec, struct error *err)
{
	const char *class = kube_json_text_at(spec, "priorityClassName", NULL);

	return class && !strcmp(class, PLACEHOLDER_NAME)
		? fail(err, EPERM,
			  "spec.priorityClassName " PLACEHOLDER_NAME
			  ": reserved for divvy's placeholder pods; choose another class")
		: 0;
}

static int mutate_pod(const struct admit_rules *rules, const struct admit_request *request,
	const struct admit_facts *facts, struct verdict *v)
{
	_cleanup_pod_translation_ struct pod_translation translation;
	int r = admit_read_valid(request, request->object, facts, false, &translation, &v->err);

	r = r < 0 ? r : check_class(json_object_get(request->object, "spec"), &v->err);
	if (r < 0)
		return r;
	warn_notes(v, &translation);
	v->patch = pod_patch(&translation, rules->scheduler_name);
	return v->patch ? 0 : fail(&v->err, ENOMEM, "out of memory");
}

static int validate_new_pod(const struct admit_rules *rules, const struct admit_request *request,
	const struct admit_facts *facts, struct verdict *v)
{
	_cleanup_pod_translation_ struct pod_translation translation;
	int r = admit_read_valid(request, request->object, facts, true, &translation, &v->err);

	r = r < 0 ? r : check_class(json_object_get(request->object, "spec"), &v->err);
	return r < 0 ? r : pod_translate_check_complete(&translation, &v->err);
}

static const json_t *annotations_of(const json_t *object)
{
	return kube_json_at(object, "metadata", "annotations", NULL);
}

static bool is_same_text(const json_t *a, const json_t *b)
{
	return a == b || (a && b && json_equal(a, b));
}

/*
 * Checks whether the user may change or remove each annotation of `from` that differs or is missing
 * in `to`.
 */
static int check_kept(const json_t *from, const json_t *to, bool is_scheduler, struct error *err)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)from, key, value) {
		const struct str name = str_from(key);

		if (is_same_text(value, json_object_get(to, key)))
			continue;
		if (dialect_is_assigned(name) && !is_scheduler)
			return fail(err, EPERM,
				"annotation %.100s: only divvy's scheduler may write it; leave it "
				"unchanged",
				key);
		if (dialect_is_recorded(name))
			return fail(err, EPERM,
				"annotation %.100s: records the pod's creation; leave it unchanged",
				key);
	}
	return 0;
}

static int check_label(const struct admit_request *request, struct error *err)
{
	const json_t *old = kube_json_at(request->old, "metadata", "labels", NULL),
		     *new = kube_json_at(request->object, "metadata", "labels", NULL);

	if (is_same_text(json_object_get(old, DIALECT_TENANT_LABEL),
		    json_object_get(new, DIALECT_TENANT_LABEL)))
		return 0;
	return fail(err, EPERM,
		"label " DIALECT_TENANT_LABEL ": cannot be changed after the pod's creation; "
		"leave it as it was");
}

static bool admit_is_own_key(const char *name)
{
	return !strncmp(
		name, POD_TRANSLATE_RESOURCE_PREFIX, sizeof(POD_TRANSLATE_RESOURCE_PREFIX) - 1);
}

static int check_list_kept(
	const json_t *a, const json_t *b, const char *container, struct error *err)
{
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)a, name, value)
		if (admit_is_own_key(name) && !is_same_text(value, json_object_get(b, name)))
			return fail(err, EPERM,
				"container %.63s: resource %.63s: divvy writes it; change the "
				"annotations instead, such as divvy.gpu/request",
				container, name);
	return 0;
}

/*
 * Refuses a change of the resources that the webhook added. A user could otherwise remove them by
 * resizing the pod in place, although divvy counts them.
 */
static int check_resources_kept(const json_t *old, const json_t *new, struct error *err)
{
	static const char *const lists[] = {"initContainers", "containers"},
				 *const fields[] = {"limits", "requests"};
	int r = 0;

	for (size_t l = 0; l < ARRAY_SIZE(lists); l++) {
		const json_t *a = json_object_get(old, lists[l]),
			     *b = json_object_get(new, lists[l]);

		for (size_t i = 0; i < MIN(json_array_size(a), (size_t)MANIFEST_CONTAINERS_MAX);
			i++)
			for (size_t f = 0; r == 0 && f < ARRAY_SIZE(fields); f++) {
				const json_t *x = json_array_get(a, i), *y = json_array_get(b, i);
				const json_t *was = kube_json_at(x, "resources", fields[f], NULL),
					     *is = kube_json_at(y, "resources", fields[f], NULL);

				r = check_list_kept(was, is, kube_json_text(x, "name"), err);
				r = r < 0
					? r
					: check_list_kept(is, was, kube_json_text(x, "name"), err);
			}
	}
	return r;
}

static bool admit_is_requested_key(const char *key)
{
	return strstr(key, "divvy.gpu/") != NULL;
}

static bool has_asked_change(const json_t *from, const json_t *to)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)from, key, value)
		if (admit_is_requested_key(key) && !dialect_is_assigned(str_from(key)) &&
			!is_same_text(value, json_object_get(to, key)))
			return true;
	return false;
}

/*
 * Checks changed requested keys: they must be valid, and must not change the devices of a pod with
 * a node.
 */
static int check_edit(
	const struct admit_request *request, const struct admit_facts *facts, struct verdict *v)
{
	_cleanup_pod_translation_ struct pod_translation old, new;
	struct admit_facts then = *facts;
	bool is_old_good;
	int r;

	/*
	 * The pod records the dialects by which it was translated. A pod without this record had
	 * none, so the present list of the namespace must not apply to it.
	 */
	then.ns.dialects = NULL;
	is_old_good = admit_read_translation(request, request->old, &then, &old, NULL) == 0;
	r = admit_read_translation(request, request->object, &then, &new, &v->err);

	r = r < 0 ? r : pod_translate_check_modes(&new, &v->err);
	r = r < 0 ? r : pod_translate_check_policies(&new, &facts->ns, &v->err);
	if (r < 0)
		return r;
	warn_notes(v, &new);
	if (is_old_good && old.result.n_tenants && !new.result.n_tenants)
		return fail(&v->err, EINVAL,
			"divvy.gpu/request: cannot be removed from an existing pod; delete the "
			"pod instead");
	r = pod_translate_check_slots(&new, &v->err);
	if (r < 0)
		return r;
	if (!is_old_good || !new.json.node_name.n)
		return 0;
	return pod_translate_check_frozen(&old, &new, &v->err);
}

static int validate_pod(const struct admit_rules *rules, const struct admit_request *request,
	const struct admit_facts *facts, struct verdict *v)
{
	const bool is_scheduler = own_is_account(rules->ns, request->user, "divvy-scheduler");
	const json_t *old = annotations_of(request->old), *new = annotations_of(request->object);
	int r;

	if (!is_update(request))
		return validate_new_pod(rules, request, facts, v);
	r = check_kept(old, new, is_scheduler, &v->err);
	r = r < 0 ? r : check_kept(new, old, is_scheduler, &v->err);
	r = r < 0 ? r : check_label(request, &v->err);
	/*
	 * A write of the subresource `status` can change annotations too. Such a write is checked
	 * only if it changes requested keys.
	 */
	if (r == 0 && !strcmp(request->subresource, "status"))
		return has_asked_change(old, new) || has_asked_change(new, old)
			? check_edit(request, facts, v)
			: 0;
	r = r < 0 ? r
		  : check_resources_kept(json_object_get(request->old, "spec"),
			    json_object_get(request->object, "spec"), &v->err);
	if (r < 0 || (!has_asked_change(old, new) && !has_asked_change(new, old)))
		return r;
	return check_edit(request, facts, v);
}

/* ---- templates ---- */

static const json_t *template_of(const json_t *object, const char *resource)
{
	if (!strcmp(resource, "cronjobs"))
		return kube_json_at(object, "spec", "jobTemplate", "spec", "template", NULL);
	return kube_json_at(object, "spec", "template", NULL);
}

/*
 * Returns whether the annotations of the object itself, not of its template, request a share.
 * Kubernetes does not copy them to the pods.
 */
static bool asks_beside(const struct admit_request *request, const json_t *template,
	const struct admit_facts *facts)
{
	_cleanup_json_ json_t *beside = json_pack("{s:O?, s:O?}", "metadata",
		json_object_get(request->object, "metadata"), "spec",
		json_object_get(template, "spec"));
	_cleanup_pod_translation_ struct pod_translation translation = {0};

	return beside && admit_read_translation(request, beside, facts, &translation, NULL) == 0 &&
		pod_translate_is_tenant(&translation);
}

static int validate_template(const struct admit_rules *rules, const struct admit_request *request,
	const struct admit_facts *facts, struct verdict *v)
{
	const json_t *template = template_of(request->object, request->resource);
	_cleanup_pod_translation_ struct pod_translation translation;
	int r;

	/*
	 * An update with an unchanged template always passes, so that policies do not block scaling
	 * or deletion.
	 */
	if (is_update(request) &&
		is_same_text(template, template_of(request->old, request->resource)))
		return memset(&translation, 0, sizeof(translation)), 0;
	r = admit_read_valid(request, template, facts, true, &translation, &v->err);
	r = r < 0 ? r : check_class(json_object_get(template, "spec"), &v->err);
	if (r < 0)
		return fail_within(&v->err, r, "template");
	warn_notes(v, &translation);
	if (!pod_translate_is_tenant(&translation) && asks_beside(request, template, facts))
		admit_add_warning(v,
			"its annotations request a share, but its pods do not; move them to "
			"spec.template.metadata.annotations");
	return 0;
}

/* ---- divvy's objects ---- */

static int check_share_pod(const struct admit_request *request, const struct admit_facts *facts,
	enum share_pod_kind kind, struct verdict *v)
{
	json_t *pod = NULL;
	struct pod_translation translation = {0};
	int r = share_pod_make(request->object, kind, &pod, &v->err);

	if (r == 0) {
		r = admit_read_valid(request, pod, facts, true, &translation, &v->err);
		if (r == 0)
			warn_notes(v, &translation);
		pod_translation_done(&translation);
	}
	json_decref(pod);
	return r;
}

static int validate_object(const struct admit_rules *rules, const struct admit_request *request,
	const struct admit_facts *facts, struct verdict *v)
{
	const bool is_kubeshare = !strcmp(request->group, "kubeshare.nthu");

	if (strcmp(request->resource, "sharepods"))
		return 0; /* for objects of other kinds, their schemas make all checks */
	if (is_kubeshare && !share_pod_is_kubeshare_on(facts->ns.dialects))
		return 0;
	if (is_update(request) &&
		is_same_text(json_object_get(request->object, "spec"),
			json_object_get(request->old, "spec")) &&
		is_same_text(annotations_of(request->object), annotations_of(request->old)))
		return 0;
	return check_share_pod(
		request, facts, is_kubeshare ? SHARE_POD_KUBESHARE : SHARE_POD_OURS, v);
}

/* ---- claims of dynamic resource allocation ---- */

struct claim_check {
	const struct admit_facts *facts;
	struct verdict *verdict;
};

static int check_claim_request(void *data, const struct claim_request *q, struct error *err)
{
	const struct claim_check *check = data;
	const bool has_share = q->capacity.share_permille, has_memory = q->capacity.memory_bytes;
	char text[2 * ADMIT_WARNING_MAX];

	if (!strcmp(q->device_class, CLAIM_SHARE_CLASS) && (!has_share || !has_memory)) {
		snprintf(text, sizeof(text),
			"request '%.63s%s%.63s' states no capacity %s, and takes all of its device",
			q->name, q->subrequest[0] ? "/" : "", q->subrequest,
			has_share ? CLAIM_CAPACITY_MEMORY : CLAIM_CAPACITY_SHARE);
		admit_add_warning(check->verdict, text);
	}
	if (has_share && q->count > 1 && !q->has_distinct) {
		snprintf(text, sizeof(text),
			"request '%.63s%s%.63s': parts may be of one device; to get different "
			"devices, add a constraint with distinctAttribute: " CLAIM_UUID,
			q->name, q->subrequest[0] ? "/" : "", q->subrequest);
		admit_add_warning(check->verdict, text);
	}
	return pod_translate_check_spec(&q->spec, &check->facts->ns, err);
}

static int validate_claim(const struct admit_rules *rules, const struct admit_request *request,
	const struct admit_facts *facts, struct verdict *v)
{
	const bool is_template = !strcmp(request->resource, "resourceclaimtemplates");
	const json_t *spec = json_object_get(request->object, "spec"),
		     *old = json_object_get(request->old, "spec");
	const json_t *annotations = annotations_of(request->object);
	struct claim_check check = {facts, v};
	int r;

	/* claims of allocated devices must stay removable, whatever a later policy says */
	if (is_update(request) && is_same_text(spec, old) &&
		(is_template || is_same_text(annotations, annotations_of(request->old))))
		return 0;
	if (is_template) {
		annotations = kube_json_at(spec, "metadata", "annotations", NULL);
		spec = json_object_get(spec, "spec");
	}
	r = claim_config_check_claim(json_object_get(spec, "devices"), annotations,
		check_claim_request, &check, &v->err);
	return r < 0 ? fail_within(&v->err, r, "spec.%sdevices", is_template ? "spec." : "") : 0;
}

/* divvyd watches claims with this label alone, since a node sees no other selection of claims. */
static int mutate_claim(const struct admit_rules *rules, const struct admit_request *request,
	const struct admit_facts *facts, struct verdict *v)
{
	const json_t *meta = json_object_get(request->object, "metadata"),
		     *labels = json_object_get(meta, "labels");

	if (!claim_has_annotations(annotations_of(request->object)) ||
		json_object_get(labels, CLAIM_LIVE_LABEL))
		return 0;
	if (json_is_object(labels))
		v->patch = json_pack("[{s:s, s:s, s:s}]", "op", "add", "path",
			"/metadata/labels/divvy.gpu~1live", "value", "true");
	else
		v->patch = json_pack("[{s:s, s:s, s:{s:s}}]", "op", "add", "path",
			"/metadata/labels", "value", CLAIM_LIVE_LABEL, "true");
	return v->patch ? 0 : fail(&v->err, ENOMEM, "out of memory");
}

static int validate_device_class(const struct admit_rules *rules,
	const struct admit_request *request, const struct admit_facts *facts, struct verdict *v)
{
	int r = claim_config_check_class(json_object_get(request->object, "spec"), &v->err);

	return r < 0 ? fail_within(&v->err, r, "spec") : 0;
}

/* ---- objects that divvyd writes ---- */

static int validate_own(const struct admit_rules *rules, const struct admit_request *request,
	const struct admit_facts *facts, struct verdict *v)
{
	const struct own_token token = {
		request->user, request->pod_name, request->pod_uid, request->node_name};
	const char *name = kube_json_text_at(request->object, "metadata", "name", NULL), *node;
	int r;

	if (!own_is_account(rules->ns, request->user, "divvyd"))
		return 0; /* RBAC limits the writes of other users */
	if (!name)
		name = request->name;
	r = own_node(&token, &facts->author, &node, &v->err);
	if (r < 0)
		return r;
	if (strcmp(node, name))
		return fail(&v->err, EPERM,
			"'%.80s': pod '%.80s' runs on node '%.60s' and may write objects of that "
			"node only",
			name, request->pod_name, node);
	return 0;
}

/* ---- all paths ---- */

static const struct admit_path {
	const char *path;
	enum admit_need need;
	admit_fn *answer;
} paths[] = {
	{"/mutate/pods", ADMIT_NEEDS_NAMESPACE, mutate_pod},
	{"/validate/pods", ADMIT_NEEDS_NAMESPACE, validate_pod},
	{"/validate/templates", ADMIT_NEEDS_NAMESPACE, validate_template},
	{"/validate/objects", ADMIT_NEEDS_NAMESPACE, validate_object},
	{"/mutate/claims", ADMIT_NEEDS_NOTHING, mutate_claim},
	{"/validate/claims", ADMIT_NEEDS_NAMESPACE, validate_claim},
	{"/validate/deviceclasses", ADMIT_NEEDS_NOTHING, validate_device_class},
	{"/validate/gpunodes", ADMIT_NEEDS_POD, validate_own},
	{"/validate/leases", ADMIT_NEEDS_POD, validate_own},
};

const struct admit_path *admit_path_find(const char *path)
{
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		if (!strcmp(path, paths[i].path))
			return &paths[i];
	return NULL;
}

int admit_parse(const json_t *review, struct admit_request *ret_request, struct error *err)
{
	const json_t *r = json_object_get(review, "request"), *object, *old;
	const json_t *extra = kube_json_at(r, "userInfo", "extra", NULL);
	const char *version = kube_json_text(review, "apiVersion");

	if (strcmp(kube_json_text(review, "kind"), "AdmissionReview") || !json_is_object(r))
		return fail(err, EBADMSG, "expected an AdmissionReview with a request");
	if (strcmp(version, "admission.k8s.io/v1"))
		return fail(err, EBADMSG, "version '%.63s': only admission.k8s.io/v1 is supported",
			version);
	if (!kube_json_text(r, "uid")[0] || strlen(kube_json_text(r, "uid")) > ADMIT_UID_MAX)
		return fail(
			err, EBADMSG, "request.uid: expected 1 to %u characters", ADMIT_UID_MAX);
	object = json_object_get(r, "object");
	old = json_object_get(r, "oldObject");
	*ret_request = (struct admit_request){.uid = kube_json_text(r, "uid"),
		.operation = kube_json_text(r, "operation"),
		.user = kube_json_text(json_object_get(r, "userInfo"), "username"),
		.group = kube_json_text(json_object_get(r, "resource"), "group"),
		.resource = kube_json_text(json_object_get(r, "resource"), "resource"),
		.subresource = kube_json_text(r, "subResource"),
		.ns = kube_json_text(r, "namespace"),
		.name = kube_json_text(r, "name"),
		.pod_name = own_extra(extra, OWN_POD_NAME),
		.pod_uid = own_extra(extra, OWN_POD_UID),
		.node_name = own_extra(extra, OWN_NODE_NAME),
		.object = json_is_object(object) ? object : NULL,
		.old = json_is_object(old) ? old : NULL};
	return 0;
}

enum admit_need admit_needs(const struct admit_path *path, const struct admit_rules *rules,
	const struct admit_request *request)
{
	if (path->need == ADMIT_NEEDS_POD)
		return own_is_account(rules->ns, request->user, "divvyd") && request->pod_name[0]
			? ADMIT_NEEDS_POD
			: ADMIT_NEEDS_NOTHING;
	/* An object without a namespace needs no facts about a namespace. */
	return request->ns[0] ? path->need : ADMIT_NEEDS_NOTHING;
}

static int add_patch(json_t *response, const json_t *patch)
{
	_cleanup_buf_ struct buf encoded = BUF_INIT(PATCH_MAX);
	_cleanup_free_ char *text = NULL;

	if (!json_array_size(patch))
		return 0;
	text = kube_json_format(patch);
	if (!text || base64_encode(str_from(text), &encoded) < 0)
		return -1;
	if (json_object_set_new(response, "patchType", json_string("JSONPatch")) < 0)
		return -1;
	return json_object_set_new(response, "patch", json_string(buf_text(&encoded)));
}

json_t *admit_answer(const struct admit_path *path, const struct admit_rules *rules,
	const struct admit_request *request, const struct admit_facts *facts)
{
	struct verdict v = {.warnings = json_array()};
	json_t *response, *answer = NULL;
	int r = 0;

	if (!v.warnings)
		return NULL;
	if (!request->object && strcmp(request->operation, "DELETE"))
		r = fail(&v.err, EINVAL, "the request has no object");
	else if (request->object)
		r = path->answer(rules, request, facts, &v);
	response = json_pack("{s:s, s:b}", "uid", request->uid, "allowed", r == 0);
	/*
	 * The reason is not "Invalid", because kubectl does not print the message of that reason.
	 */
	if (response && r < 0)
		r = json_object_set_new(response, "status",
			json_pack("{s:s, s:i, s:s, s:o}", "status", "Failure", "code",
				r == -EPERM ? 403 : 400, "reason",
				r == -EPERM ? "Forbidden" : "BadRequest", "message",
				kube_json_sentence(v.err.msg)));
	else if (response)
		r = add_patch(response, v.patch);
	if (response && r == 0 && json_array_size(v.warnings))
		r = json_object_set(response, "warnings", v.warnings);
	if (response && r == 0)
		answer = json_pack("{s:s, s:s, s:O}", "apiVersion", "admission.k8s.io/v1", "kind",
			"AdmissionReview", "response", response);
	json_decref(response);
	json_decref(v.warnings);
	json_decref(v.patch);
	return answer;
}
