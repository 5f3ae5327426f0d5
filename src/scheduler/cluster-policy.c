/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Applies GPUPolicies: which requests a namespace may make, and the limits of its total use. All
 * policies that select a namespace apply together. cluster-queue.c handles the queues of policies.
 */
#include "scheduler/cluster-internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/format.h"
#include "base/parse.h"
#include "fields/read.h"

#define UNLIMITED UINT64_MAX

static void policy_free(struct cpolicy *p)
{
	arena_done(&p->arena);
	free(p->name);
	json_decref(p->spec);
	json_decref(p->status);
	free(p);
}

/*
 * Changes of a queue, a memory factor or a label space affect all pods, so the cluster has to be
 * settled again.
 */
static void cpolicy_note_change(struct cluster *c, const struct cpolicy *p)
{
	c->is_unsettled |= p->has_queue ||
		json_object_get(json_object_get(p->spec, "overcommit"), "memory");
	if (p->spaces.n)
		c->is_unsettled = c->has_spaces = true;
}

void cluster_note_namespace(struct cluster *c)
{
	const struct cpolicy *p;

	for (p = c->policies; p; p = p->hh.next)
		if (p->is_selecting)
			cpolicy_note_change(c, p);
}

int cluster_remove_policy(struct cluster *c, const char *name)
{
	struct cpolicy *p;

	HASH_FIND_STR(c->policies, name, p);
	if (!p)
		return -ENOENT;
	cpolicy_note_change(c, p);
	HASH_DEL(c->policies, p);
	policy_free(p);
	return 0;
}

void cluster_free_policies(struct cluster *c)
{
	struct cpolicy *p, *next;

	HASH_ITER(hh, c->policies, p, next) {
		HASH_DEL(c->policies, p);
		policy_free(p);
	}
}

/*
 * Converts a number or its text, such as 2.5 or "2.5", to thousandths; negative numbers become 0.
 */
uint64_t cpolicy_milli(const json_t *value)
{
	const double number = json_number_value(value) * 1000 + 0.5;
	uint32_t milli;

	if (json_is_number(value))
		return number < 1 ? 0 : number < 1e15 ? (uint64_t)number : UNLIMITED;
	return json_is_string(value) &&
			parse_share(str_from(json_string_value(value)), &milli, NULL) == 0
		? milli
		: UNLIMITED;
}

static int read_milli(struct arena *arena, json_t *value, void *into, struct error *err)
{
	*(uint64_t *)into = cpolicy_milli(value);
	return 0;
}

static int cpolicy_read_bytes(struct arena *arena, json_t *value, void *into, struct error *err)
{
	uint64_t *bytes = into;

	if (json_is_integer(value))
		*bytes = (uint64_t)json_integer_value(value);
	return json_is_string(value) ? parse_bytes(str_from(json_string_value(value)), bytes, err)
				     : 0;
}

static int read_overcommit(struct arena *arena, json_t *value, void *into, struct error *err)
{
	const uint64_t milli = cpolicy_milli(json_object_get(value, "share"));

	if (milli != UNLIMITED)
		*(uint32_t *)into = (uint32_t)MIN(MAX(milli, 1000u), 16000u);
	return 0;
}

static int read_remote(struct arena *arena, json_t *value, void *into, struct error *err)
{
	const char *text = json_string_value(value);

	*(bool *)into = text && !strcmp(text, "denied");
	return 0;
}

static int read_device_taints(struct arena *arena, json_t *value, void *into, struct error *err)
{
	struct cpolicy *p = into;
	const char *eviction = json_string_value(json_object_get(value, "eviction"));
	const json_int_t grace = json_integer_value(json_object_get(value, "graceSeconds"));

	if (eviction && !strcmp(eviction, "NoExecute"))
		p->evicts = GPUNODE_NO_EXECUTE;
	else if (eviction && !strcmp(eviction, "Any"))
		p->evicts = GPUNODE_NO_SCHEDULE;
	if (grace > 0)
		p->evict_grace_ns = (uint64_t)MIN(grace, 86400) * UINT64_C(1000000000);
	return 0;
}

static int read_selector(struct arena *arena, json_t *value, void *into, struct error *err)
{
	struct cpolicy *p = into;

	p->is_selecting = true;
	return selector_read(arena, value, &p->selector, &p->refusal);
}

static int read_queue(struct arena *arena, json_t *value, void *into, struct error *err)
{
	struct cpolicy *p = into;
	const char *name = json_string_value(json_object_get(value, "name"));
	json_t *pods = json_object_get(value, "podSelector");

	p->has_queue = true;
	p->is_of_pods = pods != NULL;
	str_copy(p->queue, sizeof(p->queue), str_from(name ? name : ""));
	cqueue_terms_read(value, &p->terms);
	return pods && !p->refusal.code ? selector_read(arena, pods, &p->pods, &p->refusal) : 0;
}

/* The API server refuses invalid fields, so an invalid field counts as absent here. */
static const struct read_field policy_fields[] = {
	READ_FIELD(struct cpolicy, namespaces, "namespaces", read_texts),
	READ_WHOLE("namespaceSelector", read_selector),
	READ_WHOLE("queue", read_queue),
	READ_FIELD(struct cpolicy, spaces, "labelSpaces", read_texts),
	READ_FIELD(struct cpolicy, classes, "classes", read_texts),
	READ_FIELD(struct cpolicy, models, "models", read_texts),
	READ_FIELD(struct cpolicy, highest_priority, "highestPriority", read_number),
	READ_FIELD(struct cpolicy, is_remote_denied, "remote", read_remote),
	READ_FIELD(struct cpolicy, total_milli, "totalShare", read_milli),
	READ_FIELD(struct cpolicy, total_bytes, "totalMemory", cpolicy_read_bytes),
	READ_FIELD(struct cpolicy, overcommit, "overcommit", read_overcommit),
	READ_WHOLE("deviceTaints", read_device_taints),
};

static int cpolicy_compare_name(const struct cpolicy *a, const struct cpolicy *b)
{
	return strcmp(a->name, b->name);
}

int cluster_set_policy(struct cluster *c, json_t *json)
{
	json_t *metadata = json_object_get(json, "metadata");
	const char *name = json_string_value(json_object_get(metadata, "name"));
	struct cpolicy *p = calloc(1, sizeof(*p)), *was;

	if (!p)
		return -ENOMEM;
	p->name = str_dup(str_from(name));
	p->spec = json_incref(json_object_get(json, "spec"));
	p->status = json_incref(json_object_get(json, "status"));
	p->generation = json_integer_value(json_object_get(metadata, "generation"));
	p->total_milli = p->total_bytes = UNLIMITED;
	p->overcommit = 1000;
	p->highest_priority = INT64_MAX;
	cqueue_terms_read(NULL, &p->terms);
	read_some(&p->arena, p->spec, policy_fields, ARRAY_SIZE(policy_fields), p, NULL);
	HASH_FIND_STR(c->policies, name, was);
	if (was && json_equal(was->spec, p->spec)) {
		/* Usually only the status has changed, which divvy-scheduler writes itself. */
		json_decref(was->status);
		was->status = TAKE_PTR(p->status);
		was->generation = p->generation;
		policy_free(p);
		return 0;
	}
	cluster_remove_policy(c, name);
	if (p->name)
		HASH_ADD_KEYPTR(hh, c->policies, p->name, strlen(p->name), p);
	if (!p->hh.tbl) {
		policy_free(p);
		return -ENOMEM;
	}
	HASH_SORT(c->policies, cpolicy_compare_name);
	cpolicy_note_change(c, p);
	c->has_news = true;
	return 0;
}

bool cpolicy_selects(const struct cluster *c, const struct cpolicy *p, const char *ns)
{
	const struct object *object = view_find(c->view, OBJECT_NAMESPACE, "", ns);

	if (!json_object_get(p->spec, "namespaces") && !p->is_selecting)
		return true;
	return texts_has(&p->namespaces, ns) ||
		(p->is_selecting && object && selector_matches(&p->selector, &object->labels));
}

bool cluster_is_in_space(const struct cluster *c, const char *ns, struct str space)
{
	_cleanup_free_ char *name = str_dup(space);
	const struct cpolicy *p;

	for (p = c->policies; name && p; p = p->hh.next)
		if (texts_has(&p->spaces, name) && cpolicy_selects(c, p, ns))
			return true;
	return false;
}

/* ---- permitted requests ---- */

static bool cpolicy_allows_spec(
	const struct cpolicy *p, const struct spec *spec, const char *container, struct buf *why)
{
	if (p->classes.n && !texts_has(&p->classes, spec_class_name(spec->class))) {
		buf_addf(why, "policy %s: %s: class %s is not allowed", p->name, container,
			spec_class_name(spec->class));
		return false;
	}
	if (spec->priority > p->highest_priority) {
		buf_addf(why, "policy %s: %s: priority %u: at most %d is allowed", p->name,
			container, spec->priority, (int)p->highest_priority);
		return false;
	}
	return true;
}

bool cluster_allows_model(const struct cluster *c, const char *ns, const char *model)
{
	const struct cpolicy *p;

	for (p = c->policies; p; p = p->hh.next) {
		bool fits = !p->models.n;
		struct spec spec = {0};

		if (fits || !cpolicy_selects(c, p, ns))
			continue;
		for (uint32_t i = 0; i < p->models.n; i++) {
			str_copy(spec.model, sizeof(spec.model), str_from(p->models.v[i]));
			fits |= spec.model[0] && spec_model_fits(&spec, model);
		}
		if (!fits)
			return false;
	}
	return true;
}

bool cluster_allows_remote(const struct cluster *c, const char *ns)
{
	const struct cpolicy *p;

	for (p = c->policies; p; p = p->hh.next)
		if (p->is_remote_denied && cpolicy_selects(c, p, ns))
			return false;
	return true;
}

/* ---- totals ---- */

struct usage cpod_usage(const struct cpod *pod, const struct assigned *assigned)
{
	struct manifest_sum milli = {0}, firm = {0}, bytes = {0};

	for (uint32_t i = 0; i < assigned->n; i++) {
		const struct assigned_container *g = &assigned->v[i];
		const enum manifest_kind kind = cpod_kind(pod, g->name);
		const uint64_t share = (uint64_t)g->request * g->n;
		uint64_t all = 0;

		for (uint32_t k = 0; k < g->n; k++)
			all += g->memory_bytes[k];
		manifest_sum_add(&milli, kind, share);
		manifest_sum_add(&firm, kind, g->class == SPEC_OPPORTUNISTIC ? 0 : share);
		manifest_sum_add(&bytes, kind, all);
	}
	return (struct usage){.milli = manifest_sum_value(&milli),
		.firm = manifest_sum_value(&firm),
		.bytes = manifest_sum_value(&bytes)};
}

struct usage cluster_usage(struct cluster *c, const char *ns)
{
	const void *at = NULL;
	const char *space;
	struct usage u = {0}, one;
	const struct cpod *pod;

	for (pod = c->pods; pod; pod = pod->hh.next)
		if (pod->assigned.n && !strcmp(pod->ns, ns)) {
			const struct usage its = cpod_usage(pod, &pod->assigned);

			u.milli += its.milli;
			u.firm += its.firm;
			u.bytes += its.bytes;
		}
	while (cluster_next_claim_usage(c, &at, &space, &one))
		if (!strcmp(space, ns)) {
			u.milli += one.milli;
			u.firm += one.firm;
			u.bytes += one.bytes;
		}
	return u;
}

/*
 * A request for a fraction of a device's memory counts as 0 bytes here, because the device is not
 * chosen yet.
 */
static struct usage cpolicy_pod_usage(const struct cpod *pod)
{
	struct manifest_sum milli = {0}, firm = {0}, bytes = {0};

	for (uint32_t i = 0; i < pod->requested.n; i++) {
		const struct tenancy_container *one = &pod->requested.v[i];
		const struct spec *spec = &one->spec;
		const uint64_t share = (uint64_t)spec->request * spec->count;

		manifest_sum_add(&milli, one->kind, share);
		manifest_sum_add(&firm, one->kind, spec->class == SPEC_OPPORTUNISTIC ? 0 : share);
		manifest_sum_add(&bytes, one->kind, spec->memory_bytes * spec->count);
	}
	return (struct usage){.milli = manifest_sum_value(&milli),
		.firm = manifest_sum_value(&firm),
		.bytes = manifest_sum_value(&bytes)};
}

/* Opportunistic tenants may exceed the total share, because they take nothing from others. */
static bool is_within_share(const struct cpolicy *p, const struct usage *all)
{
	return all->firm <= p->total_milli && all->milli <= p->total_milli * p->overcommit / 1000;
}

static bool cpolicy_has_total(const struct cpolicy *p)
{
	return p->total_milli != UNLIMITED || p->total_bytes != UNLIMITED;
}

bool cluster_has_total(const struct cluster *c, const char *ns)
{
	const struct cpolicy *p;

	for (p = c->policies; p; p = p->hh.next)
		if (cpolicy_has_total(p) && cpolicy_selects(c, p, ns))
			return true;
	return false;
}

static bool cpolicy_has_room(
	const struct cpolicy *p, const struct usage *has, const struct usage *more, struct buf *why)
{
	const struct usage used = *has, asked = *more;
	const struct usage then = {
		.milli = used.milli + asked.milli, .firm = used.firm + asked.firm};

	if (p->total_milli != UNLIMITED && !is_within_share(p, &then)) {
		buf_addf(why, "policy %s: the namespace has %s of %s GPUs, %s requested", p->name,
			format_share((uint32_t)used.milli).s,
			format_share((uint32_t)p->total_milli).s,
			format_share((uint32_t)asked.milli).s);
		return false;
	}
	if (p->total_bytes != UNLIMITED && used.bytes + asked.bytes > p->total_bytes) {
		buf_addf(why,
			"policy %s: the namespace has %s of %s of device memory, %s requested",
			p->name, format_bytes(used.bytes).s, format_bytes(p->total_bytes).s,
			format_bytes(asked.bytes).s);
		return false;
	}
	return true;
}

bool cluster_has_room(const struct cluster *c, const char *ns, const struct usage *used,
	const struct usage *asked, struct buf *why)
{
	const struct cpolicy *p;

	for (p = c->policies; p; p = p->hh.next)
		if (cpolicy_has_total(p) && cpolicy_selects(c, p, ns) &&
			!cpolicy_has_room(p, used, asked, why))
			return false;
	return true;
}

bool cluster_allows(struct cluster *c, const struct cpod *pod, struct buf *why)
{
	const struct usage asked = cpolicy_pod_usage(pod);
	struct usage used = {0};
	const struct cpolicy *p;

	if (!pod->requested.n)
		return true;
	if (cluster_has_total(c, pod->ns))
		used = cluster_usage(c, pod->ns);
	for (p = c->policies; p; p = p->hh.next) {
		if (!cpolicy_selects(c, p, pod->ns))
			continue;
		for (uint32_t i = 0; i < pod->requested.n; i++)
			if (!cpolicy_allows_spec(
				    p, &pod->requested.v[i].spec, pod->requested.v[i].name, why))
				return false;
		if (cpolicy_has_total(p) && !cpolicy_has_room(p, &used, &asked, why))
			return false;
	}
	return true;
}

bool cluster_has_room_for(
	struct cluster *c, const struct cpod *pod, const struct assigned *assigned, struct buf *why)
{
	const struct cpolicy *p;
	const struct usage all = cluster_usage(c, pod->ns), now = cpod_usage(pod, &pod->assigned),
			   then = cpod_usage(pod, assigned);
	const struct usage with = {.milli = all.milli - now.milli + then.milli,
		.firm = all.firm - now.firm + then.firm};
	const uint64_t bytes = all.bytes - now.bytes + then.bytes;

	for (p = c->policies; p; p = p->hh.next) {
		if (!cpolicy_selects(c, p, pod->ns))
			continue;
		if ((then.milli > now.milli || then.firm > now.firm) &&
			p->total_milli != UNLIMITED && !is_within_share(p, &with)) {
			buf_addf(why, "policy %s: the namespace would have %s of %s GPUs", p->name,
				format_share((uint32_t)with.milli).s,
				format_share((uint32_t)p->total_milli).s);
			return false;
		}
		if (then.bytes > now.bytes && p->total_bytes != UNLIMITED &&
			bytes > p->total_bytes) {
			buf_addf(why,
				"policy %s: the namespace would have %s of %s of device memory",
				p->name, format_bytes(bytes).s, format_bytes(p->total_bytes).s);
			return false;
		}
		for (uint32_t i = 0; i < pod->requested.n; i++)
			if (!cpolicy_allows_spec(
				    p, &pod->requested.v[i].spec, pod->requested.v[i].name, why))
				return false;
	}
	return true;
}
