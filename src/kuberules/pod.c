/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a pod from JSON: see pod.h. */
#include "kuberules/pod.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "fields/read.h"
#include "kuberules/declared-features.h"
#include "kuberules/pod-containers.h"

static const char *const toleration_words[] = {
	[TOLERATION_EQUAL] = "Equal",
	[TOLERATION_EXISTS] = "Exists",
	[TOLERATION_ABOVE] = "Gt",
	[TOLERATION_BELOW] = "Lt",
};

static int read_toleration_op(struct arena *arena, json_t *value, void *into, struct error *err)
{
	const char *text = json_string_value(value);

	if (text && !*text)
		return 0;
	return read_word(value, toleration_words, ARRAY_SIZE(toleration_words), into, err);
}

static int read_toleration_effect(struct arena *arena, json_t *value, void *into, struct error *err)
{
	const char *text = json_string_value(value);

	if (text && !*text)
		return 0;
	return read_word(value, taint_effect_words, TAINT_EFFECTS, into, err);
}

static const struct read_field toleration_fields[] = {
	READ_FIELD(struct toleration, key, "key", read_text),
	READ_FIELD(struct toleration, value, "value", read_text),
	READ_FIELD(struct toleration, op, "operator", read_toleration_op),
	READ_FIELD(struct toleration, effect, "effect", read_toleration_effect),
	READ_NOTHING("tolerationSeconds"),
};

static int read_toleration(struct arena *arena, json_t *value, void *into, struct error *err)
{
	struct toleration *toleration = into;

	*toleration = (struct toleration){.key = "", .value = "", .effect = -1};
	return read_fields(
		arena, value, toleration_fields, ARRAY_SIZE(toleration_fields), into, err);
}

READ_LIST(read_tolerations, struct toleration, read_toleration)

static const struct read_field term_fields[] = {
	READ_FIELD(struct pod_term, pods, "labelSelector", selector_read),
	READ_FIELD(struct pod_term, namespaces, "namespaces", read_texts),
	READ_FIELD(struct pod_term, namespace_selector, "namespaceSelector", selector_read),
	READ_FIELD(struct pod_term, topology_key, "topologyKey", read_text),
	READ_FIELD(struct pod_term, match_keys, "matchLabelKeys", read_texts),
	READ_FIELD(struct pod_term, mismatch_keys, "mismatchLabelKeys", read_texts),
};

static int read_term(struct arena *arena, json_t *value, void *into, struct error *err)
{
	struct pod_term *term = into;
	int r = read_fields(arena, value, term_fields, ARRAY_SIZE(term_fields), term, err);

	if (r == 0 && (!term->topology_key || !*term->topology_key))
		r = fail(err, EINVAL, "topologyKey: is empty: it must name a label of nodes");
	if (!term->topology_key)
		term->topology_key = "";
	return r;
}

READ_LIST(read_terms, struct pod_term, read_term)

#define REQUIRED "requiredDuringSchedulingIgnoredDuringExecution"
#define PREFERRED "preferredDuringSchedulingIgnoredDuringExecution"

static const struct read_field pod_terms_fields[] = {
	{REQUIRED, read_terms, 0},
	READ_NOTHING(PREFERRED),
};

READ_OBJECT(read_pod_terms, struct pod_terms, pod_terms_fields)

static int pod_read_anti_affinity(struct arena *arena, json_t *value, void *into, struct error *err)
{
	struct pod *pod = into;
	int r = read_pod_terms(arena, value, &pod->anti_affinity, err);

	pod->is_anti_affinity_unclear = r < 0;
	return r;
}

static const struct read_field node_affinity_fields[] = {
	{REQUIRED, node_terms_read, 0},
	READ_NOTHING(PREFERRED),
};

READ_OBJECT(pod_read_node_affinity, struct node_terms, node_affinity_fields)

static const struct read_field affinity_fields[] = {
	READ_FIELD(struct pod, nodes, "nodeAffinity", pod_read_node_affinity),
	READ_FIELD(struct pod, affinity, "podAffinity", read_pod_terms),
	{"podAntiAffinity", pod_read_anti_affinity, 0},
};

READ_OBJECT(pod_read_affinity, struct pod, affinity_fields)

static const char *const when_words[] = {"DoNotSchedule", "ScheduleAnyway"};
static const char *const policy_words[] = {"Honor", "Ignore"};

READ_WORD(read_when, when_words)

READ_WORD(pod_read_policy, policy_words)

static const struct read_field spread_fields[] = {
	READ_FIELD(struct spread, topology_key, "topologyKey", read_text),
	READ_FIELD(struct spread, pods, "labelSelector", selector_read),
	READ_FIELD(struct spread, match_keys, "matchLabelKeys", read_texts),
	READ_FIELD(struct spread, max_skew, "maxSkew", read_number),
	READ_FIELD(struct spread, min_domains, "minDomains", read_number),
	READ_FIELD(struct spread, when, "whenUnsatisfiable", read_when),
	READ_FIELD(struct spread, affinity_policy, "nodeAffinityPolicy", pod_read_policy),
	READ_FIELD(struct spread, taints_policy, "nodeTaintsPolicy", pod_read_policy),
};

static int read_spread(struct arena *arena, json_t *value, void *into, struct error *err)
{
	struct spread *spread = into;
	int r;

	*spread = (struct spread){.topology_key = "", .min_domains = 1, .taints_policy = 1};
	r = read_fields(arena, value, spread_fields, ARRAY_SIZE(spread_fields), spread, err);
	if (r < 0)
		return r;
	if (!*spread->topology_key)
		return fail(err, EINVAL, "topologyKey: is empty: it must name a label of nodes");
	if (spread->max_skew < 1 || spread->max_skew > INT32_MAX)
		return fail(err, ERANGE, "maxSkew: must be 1 to %d", INT32_MAX);
	if (spread->min_domains < 1 || spread->min_domains > INT32_MAX)
		return fail(err, ERANGE, "minDomains: must be 1 to %d", INT32_MAX);
	return 0;
}

READ_LIST(read_spreads, struct spread, read_spread)

static const struct read_field gate_fields[] = {
	{"name", read_text, 0},
};

static int read_gate(struct arena *arena, json_t *value, void *into, struct error *err)
{
	*(const char **)into = "";
	return read_some(arena, value, gate_fields, ARRAY_SIZE(gate_fields), into, err);
}

READ_LIST(read_gates, const char *, read_gate)

static const struct read_field claim_source_fields[] = {
	{"claimName", read_text, 0},
};

/*
 * Reads a volume: {"name": ..., SOURCE: {...}}. A field that is no known volume source is an error.
 */
static int read_volume(struct arena *arena, json_t *value, void *into, struct error *err)
{
	struct pod_volume *volume = into;
	const char *field;
	json_t *one;
	int r = 0;

	if (!json_is_object(value))
		return fail(err, EINVAL, "is no object");
	json_object_foreach(value, field, one) {
		if (r < 0)
			break;
		if (json_is_null(one) || !strcmp(field, "name")) {
			continue;
		} else if (!strcmp(field, "persistentVolumeClaim")) {
			volume->claim = "";
			r = read_some(arena, one, claim_source_fields,
				ARRAY_SIZE(claim_source_fields), &volume->claim, err);
		} else if (!strcmp(field, "ephemeral")) {
			volume->is_ephemeral = true;
			volume->claim = "";
			r = read_text(arena, json_object_get(value, "name"), &volume->claim, err);
		} else if (is_volume_source(field)) {
			r = disk_read(arena, field, one, &volume->disk, err);
		} else {
			r = fail(err, ENOTSUP, "this scheduler does not know the volume source");
		}
		if (r < 0)
			fail_within(err, r, "%.64s", field);
	}
	return r;
}

READ_LIST(read_volumes, struct pod_volume, read_volume)

static const struct read_field pod_claim_fields[] = {
	READ_FIELD(struct pod_claim, entry, "name", read_text),
	READ_FIELD(struct pod_claim, name, "resourceClaimName", read_text),
	READ_FIELD(struct pod_claim, template_name, "resourceClaimTemplateName", read_text),
};

static int read_pod_claim(struct arena *arena, json_t *value, void *into, struct error *err)
{
	struct pod_claim *claim = into;
	int r;

	claim->entry = "";
	r = read_fields(arena, value, pod_claim_fields, ARRAY_SIZE(pod_claim_fields), claim, err);
	if (r == 0 && !claim->name && !claim->template_name)
		r = fail(err, ENOTSUP, "names neither a claim nor a template");
	return r;
}

READ_LIST(read_pod_claims, struct pod_claim, read_pod_claim)

static int read_preemption(struct arena *arena, json_t *value, void *into, struct error *err)
{
	static const char *const words[] = {"PreemptLowerPriority", "Never"};
	int word = 0;
	int r = read_word(value, words, ARRAY_SIZE(words), &word, err);

	*(bool *)into = word == 1;
	return r;
}

static const struct read_field spec_fields[] = {
	{"affinity", pod_read_affinity, 0},
	READ_FIELD(struct pod, claims, "resourceClaims", read_pod_claims),
	READ_FIELD(struct pod, grace_s, "terminationGracePeriodSeconds", read_number),
	READ_FIELD(struct pod, is_never_preempting, "preemptionPolicy", read_preemption),
	READ_FIELD(struct pod, gates, "schedulingGates", read_gates),
	READ_FIELD(struct pod, node, "nodeName", read_text),
	READ_FIELD(struct pod, node_labels, "nodeSelector", labels_read),
	READ_FIELD(struct pod, priority, "priority", read_number),
	READ_FIELD(struct pod, scheduler, "schedulerName", read_text),
	READ_FIELD(struct pod, spreads, "topologySpreadConstraints", read_spreads),
	READ_FIELD(struct pod, tolerations, "tolerations", read_tolerations),
	READ_FIELD(struct pod, volumes, "volumes", read_volumes),
	/* pod-containers.c reads these four fields. */
	READ_NOTHING("containers"),
	READ_NOTHING("initContainers"),
	READ_NOTHING("overhead"),
	READ_NOTHING("resources"),
	/* declared-features.c reads these three fields. */
	READ_NOTHING("ephemeralContainers"),
	READ_NOTHING("hostNetwork"),
	READ_NOTHING("hostUsers"),
	/* These fields concern only the kubelet or admission, not the choice of a node. */
	READ_NOTHING("activeDeadlineSeconds"),
	READ_NOTHING("automountServiceAccountToken"),
	READ_NOTHING("dnsConfig"),
	READ_NOTHING("dnsPolicy"),
	READ_NOTHING("enableServiceLinks"),
	READ_NOTHING("evictionResponders"),
	READ_NOTHING("hostAliases"),
	READ_NOTHING("hostIPC"),
	READ_NOTHING("hostPID"),
	READ_NOTHING("hostname"),
	READ_NOTHING("hostnameOverride"),
	READ_NOTHING("imagePullSecrets"),
	READ_NOTHING("os"),
	READ_NOTHING("priorityClassName"),
	READ_NOTHING("readinessGates"),
	READ_NOTHING("restartPolicy"),
	READ_NOTHING("runtimeClassName"),
	READ_NOTHING("schedulingGroup"),
	READ_NOTHING("securityContext"),
	READ_NOTHING("serviceAccount"),
	READ_NOTHING("serviceAccountName"),
	READ_NOTHING("setHostnameAsFQDN"),
	READ_NOTHING("shareProcessNamespace"),
	READ_NOTHING("subdomain"),
};

static const struct read_field status_fields[] = {
	READ_FIELD(struct pod, nominated_node, "nominatedNodeName", read_text),
};

/*
 * Adds to the selector a requirement with the pod's own value for each of the keys that is a label
 * of the pod.
 */
static int add_keys(
	struct pod *pod, struct selector *selector, const struct texts *keys, enum selector_op op)
{
	for (uint32_t i = 0; i < keys->n; i++) {
		const char *value = labels_get(&pod->object.labels, keys->v[i]);

		if (value && selector_add(&pod->object.arena, selector, keys->v[i], op, value) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int add_term_keys(struct pod *pod, struct pod_terms *terms)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < terms->n; i++) {
		struct pod_term *term = &terms->v[i];

		r = add_keys(pod, &term->pods, &term->match_keys, SELECTOR_IN);
		if (r == 0)
			r = add_keys(pod, &term->pods, &term->mismatch_keys, SELECTOR_NOT_IN);
	}
	return r;
}

/* Drops ScheduleAnyway constraints, and adds requirements for the matchLabelKeys of the others. */
static int settle_spreads(struct pod *pod)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < pod->spreads.n; i++) {
		struct spread *spread = &pod->spreads.v[i];

		if (spread->when != 0)
			continue;
		if (add_keys(pod, &spread->pods, &spread->match_keys, SELECTOR_IN) < 0)
			return -ENOMEM;
		pod->spreads.v[n++] = *spread;
	}
	pod->spreads.n = n;
	return 0;
}

/* Drops volumes that have no placement rules, and names the claims of ephemeral volumes. */
static int settle_volumes(struct pod *pod)
{
	struct arena *arena = &pod->object.arena;
	uint32_t n = 0;

	for (uint32_t i = 0; i < pod->volumes.n; i++) {
		struct pod_volume *volume = &pod->volumes.v[i];

		if (volume->is_ephemeral) {
			size_t size = strlen(pod->object.name) + strlen(volume->claim) + 2;
			char *name = arena_take(arena, size);

			if (!name)
				return -ENOMEM;
			snprintf(name, size, "%s-%s", pod->object.name, volume->claim);
			volume->claim = name;
		}
		if (volume->claim || volume->disk.kind != DISK_NONE)
			pod->volumes.v[n++] = *volume;
	}
	pod->volumes.n = n;
	return 0;
}

/*
 * Names the claims that Kubernetes has made from templates, and drops those of which the status
 * says that the pod needs none.
 */
static int settle_claims(struct pod *pod, const json_t *status)
{
	const json_t *list = json_object_get(status, "resourceClaimStatuses");
	uint32_t n = 0;

	for (uint32_t i = 0; i < pod->claims.n; i++) {
		struct pod_claim *claim = &pod->claims.v[i];
		bool is_needed = true;

		for (size_t k = 0; claim->template_name && k < json_array_size(list); k++) {
			const json_t *one = json_array_get(list, k);
			const char *entry = json_string_value(json_object_get(one, "name"));
			const char *name = json_string_value(
				json_object_get(one, "resourceClaimName"));

			if (!entry || strcmp(entry, claim->entry) != 0)
				continue;
			is_needed = name;
			claim->name = name ? arena_dup(&pod->object.arena, str_from(name)) : NULL;
			if (name && !claim->name)
				return -ENOMEM;
		}
		if (is_needed)
			pod->claims.v[n++] = *claim;
	}
	pod->claims.n = n;
	return 0;
}

int pod_read(struct object *object, json_t *json, struct error *err)
{
	struct pod *pod = CONTAINER_OF(object, struct pod, object);
	json_t *spec = json_object_get(json, "spec"), *status = json_object_get(json, "status");
	const char *phase = json_string_value(json_object_get(status, "phase"));
	int r, second = 0;

	pod->node = pod->nominated_node = pod->scheduler = "";
	pod->grace_s = 30;
	pod->features = declared_features_used(spec);
	pod->is_done = phase && !strcmp(phase, "Succeeded");
	pod->is_over = pod->is_done || (phase && !strcmp(phase, "Failed"));
	r = json_is_object(spec)
		? read_some(&object->arena, spec, spec_fields, ARRAY_SIZE(spec_fields), pod, err)
		: fail(err, EINVAL, "is not an object");
	if (r == 0 || json_is_object(spec)) {
		second = pod_containers_read(pod, spec, status, r < 0 ? NULL : err);
		if (r == 0)
			r = second;
	}
	if (r < 0)
		fail_within(err, r, "spec");
	if (json_is_object(status)) {
		second = read_some(&object->arena, status, status_fields, ARRAY_SIZE(status_fields),
			pod, r < 0 ? NULL : err);
		if (r == 0 && second < 0)
			r = fail_within(err, second, "status");
	}
	if (add_term_keys(pod, &pod->affinity) < 0 || add_term_keys(pod, &pod->anti_affinity) < 0 ||
		settle_spreads(pod) < 0 || settle_volumes(pod) < 0 ||
		settle_claims(pod, status) < 0)
		return fail(err, ENOMEM, "out of memory");
	return r;
}

/*
 * Returns whether the text is an integer as a person writes it, without a plus sign or leading
 * zeros.
 */
static bool toleration_read_integer(const char *text, int64_t *ret_number)
{
	char canonical[24];

	if (!label_read_integer(text, ret_number))
		return false;
	snprintf(canonical, sizeof(canonical), "%" PRId64, *ret_number);
	return !strcmp(canonical, text);
}

static bool toleration_has_value(const struct toleration *t, const char *value)
{
	int64_t its, wanted;

	if (t->op == TOLERATION_EXISTS)
		return true;
	if (t->op == TOLERATION_EQUAL)
		return !strcmp(t->value, value);
	return toleration_read_integer(value, &its) && toleration_read_integer(t->value, &wanted) &&
		(t->op == TOLERATION_ABOVE ? its > wanted : its < wanted);
}

bool tolerates(const struct tolerations *tolerations, const struct taint *taint)
{
	for (uint32_t i = 0; i < tolerations->n; i++) {
		const struct toleration *t = &tolerations->v[i];

		if ((t->effect < 0 || t->effect == taint->effect) &&
			(!*t->key || !strcmp(t->key, taint->key)) &&
			toleration_has_value(t, taint->value))
			return true;
	}
	return false;
}

bool host_port_conflicts(const struct host_port *a, const struct host_port *b)
{
	return a->port == b->port && a->protocol == b->protocol &&
		(!strcmp(a->ip, b->ip) || !strcmp(a->ip, "0.0.0.0") || !strcmp(b->ip, "0.0.0.0"));
}

bool pod_selects_node(const struct pod *pod, const struct node *node)
{
	return labels_have_all(&node->object.labels, &pod->node_labels) &&
		node_terms_match(&pod->nodes, &node->object.labels, node->object.name);
}

bool pod_term_matches(const struct pod_term *term, const struct pod *owner, const struct pod *other,
	const struct labels *ns_labels)
{
	bool is_namespace = term->namespaces.n || term->namespace_selector.is_given
		? texts_has(&term->namespaces, other->object.ns) ||
			selector_matches(&term->namespace_selector, ns_labels)
		: !strcmp(owner->object.ns, other->object.ns);

	return is_namespace && selector_matches(&term->pods, &other->object.labels);
}
