/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pod_translate_read() translates a pod's manifest to one spec for each container with a share, by
 * the dialects of the namespace. The pod_translate_check_ functions change nothing and report the
 * first fault. pod_translate_check_presets() compares what is in the pod with what divvy would
 * write, so the webhook accepts its own result. The tables `frozen` and `texts` list the fields of
 * a spec that cannot change after the pod has a node. A struct pod_translation borrows the JSON of
 * its pod.
 */
#include "controller/pod-translate.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "controller/claim-template.h"
#include "spec/quantity.h"

#define SHOW "%.*s"
#define SHOWN(s) (int)MIN((s).n, (size_t)63), (s).p ? (s).p : ""
#define MIB (UINT64_C(1) << 20)

/*
 * Returns the name of the container to which the pod's keys apply by default, for the annotation
 * MANIFEST_DEFAULT_KEY. A pod with one main container needs no annotation: the name is empty,
 * unless the pod has the annotation already.
 */
static struct str default_container(const struct pod_translation *w)
{
	const struct manifest *pod = &w->json.pod;
	uint32_t n_main = 0;

	for (uint32_t i = 0; i < pod->n_containers; i++)
		n_main += pod->container[i].kind == MANIFEST_MAIN;
	if (!w->result.has_default ||
		(n_main < 2 && !manifest_find(pod->annotations, STR(MANIFEST_DEFAULT_KEY))))
		return STR_NONE;
	return pod->container[w->result.default_container].name;
}

int pod_translate_read(const json_t *metadata, const json_t *spec, struct str ns,
	const struct pod_translate_facts *facts, struct pod_translation *ret_translation,
	struct error *err)
{
	struct pod_translation *w = ret_translation;
	int r;

	memset(w, 0, sizeof(*w));
	w->metadata = metadata;
	w->spec = spec;
	w->has_claims = facts->has_claims;
	w->record = BUF_INIT(DIALECT_RECORD_MAX);
	w->list = BUF_INIT(POD_TRANSLATE_LIST_MAX);
	if (dialect_config_parse(str_from(facts->dialects), &w->config, &w->config_error) < 0) {
		w->is_config_bad = true;
		dialect_config_parse(STR(""), &w->config, NULL);
	}
	r = manifest_json_read(metadata, spec, ns, &w->json, err);
	r = r < 0 ? r : dialect_translate(&w->json.pod, &w->config, &w->result, err);
	if (r < 0)
		return r;
	/* In a namespace with a faulty list of dialects only pods with a request are refused. */
	if (w->is_config_bad && (pod_translate_is_tenant(w) || w->result.n_notes))
		return fail(err, EINVAL, "namespace '" SHOW "': %.180s", SHOWN(w->json.pod.ns),
			w->config_error.msg);
	if (pod_translate_is_tenant(w))
		w->default_container = default_container(w);
	r = dialect_record_format(&w->json.pod, &w->result, &w->record);
	if (r >= 0 && pod_translate_is_tenant(w))
		r = dialect_config_format(&w->config, &w->list);
	return r < 0 ? fail(err, EINVAL,
			       "the foreign resources of all containers are more than %u "
			       "characters",
			       DIALECT_RECORD_MAX)
		     : 0;
}

void pod_translation_done(struct pod_translation *translation)
{
	manifest_json_done(&translation->json);
	dialect_result_done(&translation->result);
	buf_done(&translation->record);
	buf_done(&translation->list);
}

const struct dialect_tenant *pod_translate_tenant(
	const struct pod_translation *translation, uint32_t container)
{
	for (uint32_t i = 0; i < translation->result.n_tenants; i++)
		if (translation->result.tenant[i].container == container)
			return &translation->result.tenant[i];
	return NULL;
}

uint32_t pod_translate_resources(const struct dialect_tenant *tenant,
	struct pod_translate_resource ret[static POD_TRANSLATE_RESOURCES])
{
	const struct spec *spec = &tenant->spec;
	uint64_t bytes;
	uint32_t n = 0;

	ret[n++] = (struct pod_translate_resource){POD_TRANSLATE_SLOT, 1};
	ret[n++] = (struct pod_translate_resource){
		"divvy.gpu/milli", (uint64_t)spec->request * spec->count};
	if (__builtin_mul_overflow(spec->memory_bytes, spec->count, &bytes))
		bytes = INT64_MAX;
	if (bytes)
		ret[n++] = (struct pod_translate_resource){
			"divvy.gpu/memory-mib", bytes / MIB + (bytes % MIB != 0)};
	return n;
}

bool pod_translate_replaces_scheduler(const struct pod_translation *translation)
{
	static const char *const everyones[] = {"", "default-scheduler"};
	/*
	 * Names of schedulers that controllers of pod groups write into the pods of a group.
	 * divvy-scheduler replaces them too, because only divvy-scheduler can place such pods if
	 * they have shares.
	 */
	static const char *const of_groups[] = {
		"volcano", "scheduler-plugins-scheduler", "koord-scheduler"};
	const struct str name = translation->json.pod.scheduler;
	const char *object = translation->result.group_object;
	/* The Job controller names a PodGroup of Kubernetes whatever the pod's scheduler is. */
	const bool is_theirs = translation->result.group_by ||
		(object && strcmp(object, DIALECT_KUBE_GROUP));

	for (size_t i = 0; i < ARRAY_SIZE(everyones); i++)
		if (str_is(name, everyones[i]))
			return true;
	if (dialect_has_scheduler(&translation->result.config, name))
		return true;
	for (size_t i = 0; is_theirs && i < ARRAY_SIZE(of_groups); i++)
		if (str_is(name, of_groups[i]))
			return true;
	return false;
}

/* ---- fields that only divvy writes ---- */

static int check_annotation(
	const struct pod_translation *w, const char *key, struct str ours, struct error *err)
{
	const struct str *value = manifest_find(w->json.pod.annotations, str_from(key));

	if (!value || (ours.n && str_eq(*value, ours)))
		return 0;
	return fail(err, EINVAL,
		"annotation %s '" SHOW "': divvy writes it; leave it out (it would be '" SHOW "')",
		key, SHOWN(*value), SHOWN(ours));
}

/*
 * Checks the annotation with the default container, which only divvy writes; users write
 * divvy.gpu/container. A pod that divvy has translated has the slot resource, and its annotation is
 * accepted.
 */
static int check_default(const struct pod_translation *w, struct error *err)
{
	const struct manifest *pod = &w->json.pod;
	const struct str *name = manifest_find(pod->annotations, STR(MANIFEST_DEFAULT_KEY));

	if (!name ||
		(w->default_container.n && str_eq(*name, w->default_container) &&
			manifest_has_slot(pod, w->result.default_container)))
		return 0;
	return fail(err, EINVAL,
		"annotation " MANIFEST_DEFAULT_KEY " '" SHOW
		"': divvy writes it; leave it out and name containers in divvy.gpu/container",
		SHOWN(*name));
}

/*
 * Returns whether users may write this resource: devices of the DRA driver, which kube-scheduler
 * allocates. divvy-scheduler places the pods of tenants and has no such resources.
 */
static bool is_users_resource(const struct pod_translation *w, struct str name)
{
	if (pod_translate_is_tenant(w))
		return false;
	return str_is(name, POD_TRANSLATE_WHOLE) ||
		(w->has_claims &&
			(str_is(name, POD_TRANSLATE_SHARE) || str_is(name, POD_TRANSLATE_MEMORY)));
}

/*
 * Returns whether divvy would write this value. For a resource that divvy would not write, 0 is
 * accepted (pod-patch.c writes it).
 */
static bool is_injected(
	const struct pod_translation *w, uint32_t container, struct str name, struct str value)
{
	const struct dialect_tenant *t = pod_translate_tenant(w, container);
	struct pod_translate_resource want[POD_TRANSLATE_RESOURCES];
	const uint32_t n = t ? pod_translate_resources(t, want) : 0;
	uint64_t number;

	for (uint32_t i = 0; i < n; i++)
		if (str_is(name, want[i].name))
			return quantity_parse(value, 1, &number, NULL) == 0 &&
				number == want[i].value;
	return quantity_parse(value, 1, &number, NULL) == 0 && number == 0;
}

static int pod_translate_check_resources(const struct pod_translation *w, uint32_t container,
	enum manifest_resources which, bool is_patched, struct error *err)
{
	const struct manifest_container *c = &w->json.pod.container[container];
	const struct manifest_list list = which == MANIFEST_LIMITS ? c->limits : c->requests;

	for (uint32_t i = 0; i < list.n; i++) {
		const struct manifest_entry *e = &list.entry[i];

		if (!str_has_prefix(e->key, STR(POD_TRANSLATE_RESOURCE_PREFIX)) ||
			is_users_resource(w, e->key) ||
			is_injected(w, container, e->key, e->value) ||
			(!is_patched &&
				manifest_is_limit_rangers(&w->json.pod, container, which, e->key)))
			continue;
		return fail(err, EINVAL,
			"container " SHOW ": resource " SHOW " '" SHOW
			"': divvy writes it; leave it out and use annotations such as "
			"divvy.gpu/request",
			SHOWN(c->name), SHOWN(e->key), SHOWN(e->value));
	}
	return 0;
}

int pod_translate_check_presets(
	const struct pod_translation *translation, bool is_patched, struct error *err)
{
	const struct manifest *pod = &translation->json.pod;
	int r;

	for (uint32_t i = 0; i < pod->annotations.n; i++)
		if (dialect_is_assigned(pod->annotations.entry[i].key))
			return fail(err, EINVAL,
				"annotation " SHOW
				": only divvy's scheduler may write it; leave it "
				"out",
				SHOWN(pod->annotations.entry[i].key));
	r = check_annotation(translation, DIALECT_RECORD_KEY, buf_str(&translation->record), err);
	r = r < 0
		? r
		: check_annotation(translation, DIALECT_LIST_KEY, buf_str(&translation->list), err);
	r = r < 0 ? r : check_default(translation, err);
	for (uint32_t i = 0; r == 0 && i < pod->n_containers; i++) {
		r = pod_translate_check_resources(translation, i, MANIFEST_LIMITS, is_patched, err);
		r = r < 0 ? r
			  : pod_translate_check_resources(
				    translation, i, MANIFEST_REQUESTS, is_patched, err);
	}
	if (r == 0 && pod_translate_is_tenant(translation) && translation->json.node_name.n)
		return fail(err, EINVAL,
			"spec.nodeName '" SHOW
			"': a pod with a share of a GPU is placed by divvy's "
			"scheduler; leave it out, or select the node in spec.nodeSelector",
			SHOWN(translation->json.node_name));
	return r;
}

static bool has_injected(const struct pod_translation *w, uint32_t container,
	struct manifest_list list, const struct pod_translate_resource *want)
{
	const struct str name = str_from(want->name), *value = manifest_find(list, name);

	return value && is_injected(w, container, name, *value);
}

static int check_injected(const struct pod_translation *w, uint32_t container, struct error *err)
{
	const struct manifest_container *c = &w->json.pod.container[container];
	const struct dialect_tenant *t = pod_translate_tenant(w, container);
	struct pod_translate_resource want[POD_TRANSLATE_RESOURCES];
	const uint32_t n = t ? pod_translate_resources(t, want) : 0;

	for (uint32_t i = 0; i < n; i++)
		if (!has_injected(w, container, c->limits, &want[i]) ||
			!has_injected(w, container, c->requests, &want[i]))
			return fail(err, EINVAL,
				"container " SHOW ": resource %s is missing or is not %llu: "
				"another webhook changed the pod after divvy's webhook",
				SHOWN(c->name), want[i].name, (unsigned long long)want[i].value);
	for (uint32_t i = 0; i < w->result.n_foreign; i++) {
		const struct dialect_foreign *f = &w->result.foreign[i];

		if (f->container == container &&
			(manifest_find(c->limits, f->resource) ||
				manifest_find(c->requests, f->resource)))
			return fail(err, EINVAL,
				"container " SHOW ": resource " SHOW
				" is still there: another webhook changed the pod after divvy's "
				"webhook",
				SHOWN(c->name), SHOWN(f->resource));
	}
	return 0;
}

int pod_translate_check_complete(const struct pod_translation *translation, struct error *err)
{
	const struct str *label = manifest_find(
		translation->json.pod.labels, STR(DIALECT_TENANT_LABEL));
	int r = 0;

	if (!pod_translate_is_tenant(translation))
		return 0;
	if (!label || !str_is(*label, "true"))
		return fail(err, EINVAL,
			"label " DIALECT_TENANT_LABEL
			"=true is missing: another webhook changed the pod after divvy's webhook");
	for (uint32_t i = 0; r == 0 && i < translation->json.pod.n_containers; i++)
		r = check_injected(translation, i, err);
	return r;
}

int pod_translate_check_slots(const struct pod_translation *translation, struct error *err)
{
	for (uint32_t t = 0; t < translation->result.n_tenants; t++) {
		const struct manifest *pod = &translation->json.pod;
		const uint32_t i = translation->result.tenant[t].container;

		if (!manifest_has_slot(pod, i))
			return fail(err, EINVAL,
				"container " SHOW
				": cannot request a share after the pod's creation; create a new "
				"pod",
				SHOWN(pod->container[i].name));
	}
	return 0;
}

/* ---- claims ---- */

int pod_translate_check_claims(const struct pod_translation *translation, struct error *err)
{
	const size_t n = json_array_size(json_object_get(translation->spec, "resourceClaims"));
	const struct manifest *pod = &translation->json.pod;
	struct claim_share share;
	bool has_share = false;
	int r = 0;

	for (uint32_t i = 0;
		r >= 0 && pod_translate_has_claims(translation) && i < pod->n_containers; i++) {
		r = claim_share_read(pod, i, &share, err);
		has_share |= r > 0;
	}
	if (r >= 0 && has_share && n > CLAIM_ENTRIES_MAX)
		return fail(err, EINVAL,
			"spec.resourceClaims: %zu entries; a pod with resource " POD_TRANSLATE_SHARE
			" has at most %u; use fewer claims, or several pods",
			n, CLAIM_ENTRIES_MAX);
	return r < 0 ? r : 0;
}

/* ---- modes ---- */

/*
 * Returns whether the container runs together with the other ones, so that it needs devices of its
 * own. An init container uses the devices of another container before that one starts.
 */
static bool pod_translate_has_same_resource(
	const struct pod_translation *w, const struct dialect_tenant *t)
{
	return w->json.pod.container[t->container].kind != MANIFEST_INIT;
}

int pod_translate_check_modes(const struct pod_translation *translation, struct error *err)
{
	const struct dialect_tenant *remote = NULL, *local = NULL, *beside = NULL;
	const struct manifest_container *c = translation->json.pod.container;

	for (uint32_t i = 0; i < translation->result.n_tenants; i++) {
		const struct dialect_tenant *t = &translation->result.tenant[i];

		if (t->spec.mode == SPEC_MODE_REMOTE &&
			(!remote || !pod_translate_has_same_resource(translation, remote)))
			remote = t;
		if (t->spec.mode == SPEC_MODE_LOCAL || t->spec.mode == SPEC_MODE_EXCLUSIVE)
			local = t;
	}
	if (!remote)
		return 0;
	if (local)
		return fail(err, EINVAL,
			"container " SHOW ": mode %s beside mode remote of container " SHOW
			": the devices of a pod are on one node; give both the same mode",
			SHOWN(c[local->container].name), spec_mode_name(local->spec.mode),
			SHOWN(c[remote->container].name));
	for (uint32_t i = 0; i < translation->result.n_tenants; i++) {
		const struct dialect_tenant *t = &translation->result.tenant[i];

		if (t != remote && pod_translate_has_same_resource(translation, t) &&
			pod_translate_has_same_resource(translation, remote))
			beside = t;
	}
	if (beside)
		return fail(err, EINVAL,
			"container " SHOW ": mode remote serves one container of a pod, and "
			"container " SHOW " has a share, too; use two pods, or mode local",
			SHOWN(c[remote->container].name), SHOWN(c[beside->container].name));
	return 0;
}

/* ---- policies ---- */

#define CLASSES_SHOWN 256

static int pod_translate_check_policy(
	const struct spec *spec, const json_t *policy, struct error *err)
{
	const json_t *classes = json_object_get(policy, "classes"),
		     *highest = json_object_get(policy, "highestPriority");
	const char *remote = json_string_value(json_object_get(policy, "remote"));
	const char *class = spec_class_name(spec->class);

	if (json_array_size(classes) && !kube_json_list_has(classes, class)) {
		_cleanup_buf_ struct buf list = BUF_INIT(CLASSES_SHOWN);

		for (size_t i = 0; i < json_array_size(classes); i++)
			buf_addf(&list, "%s%.20s", i ? ", " : "",
				json_string_value(json_array_get(classes, i)));
		return fail(err, EPERM, "class %s: the policy of this namespace allows %s", class,
			buf_text(&list));
	}
	if (json_is_integer(highest) && (json_int_t)spec->priority > json_integer_value(highest))
		return fail(err, EPERM,
			"priority %u: the policy of this namespace allows 0 to %lld",
			spec->priority, (long long)json_integer_value(highest));
	if (remote && !strcmp(remote, "denied") && spec->mode == SPEC_MODE_REMOTE)
		return fail(err, EPERM,
			"mode remote: the policy of this namespace denies devices of other nodes");
	return 0;
}

/*
 * Checks a label "SPACE/NAME": only namespaces whose policies name the label space share its
 * labels.
 */
static int check_space(const char *field, const char *label,
	const struct pod_translate_facts *facts, struct error *err)
{
	const struct str text = str_from(label);
	char space[SPEC_GROUP];
	const size_t n = str_find(text, '/');

	if (n == text.n || str_copy(space, sizeof(space), (struct str){text.p, n}) < 0)
		return 0;
	for (size_t i = 0; i < facts->n_policies; i++)
		if (kube_json_list_has(json_object_get(facts->policy[i], "labelSpaces"), space))
			return 0;
	return fail(err, EPERM,
		"%s '%.63s': no policy of this namespace names the label space '%.31s'", field,
		label, space);
}

int pod_translate_check_spec(
	const struct spec *spec, const struct pod_translate_facts *facts, struct error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < facts->n_policies; i++)
		r = pod_translate_check_policy(spec, facts->policy[i], err);
	r = r < 0 ? r : check_space("affinity", spec->affinity, facts, err);
	r = r < 0 ? r : check_space("anti-affinity", spec->anti_affinity, facts, err);
	r = r < 0
		? r
		: check_space("preferred-anti-affinity", spec->preferred_anti_affinity, facts, err);
	r = r < 0 ? r : check_space("exclusion", spec->exclusion, facts, err);
	return r < 0 ? r : check_space("group", spec->group, facts, err);
}

int pod_translate_check_policies(const struct pod_translation *translation,
	const struct pod_translate_facts *facts, struct error *err)
{
	for (uint32_t t = 0; t < translation->result.n_tenants; t++) {
		const struct dialect_tenant *tenant = &translation->result.tenant[t];
		const int r = pod_translate_check_spec(&tenant->spec, facts, err);

		if (r < 0)
			return fail_within(err, r, "container " SHOW,
				SHOWN(translation->json.pod.container[tenant->container].name));
	}
	return 0;
}

/* ---- edits ---- */

#define FROZEN(name, field) \
	{ \
		name, offsetof(struct spec, field), sizeof(((struct spec *)0)->field) \
	}

static const struct {
	const char *name;
	size_t at, n;
} frozen[] = {
	FROZEN("request (whole devices)", exclusive),
	FROZEN("count", count),
	FROZEN("mode", mode),
	FROZEN("memory-policy", memory_policy),
	FROZEN("network", network_mbit),
	FROZEN("network", network_latency_us),
	FROZEN("exclusion", has_exclusion),
	FROZEN("group-size", group_size),
	FROZEN("group-threshold", group_threshold),
};

static int frozen_field(const char *name, struct error *err)
{
	return fail(err, EINVAL, "%s: cannot be changed on a bound pod; create a new pod", name);
}

static int check_same(const struct spec *a, const struct spec *b, struct error *err)
{
	const struct {
		const char *name, *a, *b;
	} texts[] = {
		{"model", a->model, b->model},
		{"device", a->device, b->device},
		{"affinity", a->affinity, b->affinity},
		{"anti-affinity", a->anti_affinity, b->anti_affinity},
		{"preferred-anti-affinity", a->preferred_anti_affinity, b->preferred_anti_affinity},
		{"exclusion", a->exclusion, b->exclusion},
		{"group", a->group, b->group},
	};

	for (size_t i = 0; i < ARRAY_SIZE(frozen); i++)
		if (memcmp((const char *)a + frozen[i].at, (const char *)b + frozen[i].at,
			    frozen[i].n))
			return frozen_field(frozen[i].name, err);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		if (strcmp(texts[i].a, texts[i].b))
			return frozen_field(texts[i].name, err);
	return 0;
}

int pod_translate_check_frozen(
	const struct pod_translation *old, const struct pod_translation *new, struct error *err)
{
	int r = 0;

	if (old->result.n_tenants != new->result.n_tenants)
		return frozen_field("the containers that have a share", err);
	for (uint32_t i = 0; r == 0 && i < new->result.n_tenants; i++) {
		const struct dialect_tenant *a = &old->result.tenant[i],
					    *b = &new->result.tenant[i];

		if (a->container != b->container)
			return frozen_field("the containers that have a share", err);
		r = check_same(&a->spec, &b->spec, err);
	}
	return r;
}
