/* SPDX-License-Identifier: Apache-2.0 */
/* GPUPolicies: what namespaces may ask for, and how much they may have. All that select it hold. */
#include "scheduler/cluster-internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/format.h"
#include "base/parse.h"

#define UNLIMITED UINT64_MAX

static void policy_free(struct cpolicy *p)
{
	arena_done(&p->arena);
	free(p->name);
	json_decref(p->spec);
	free(p);
}

int cluster_remove_policy(struct cluster *c, const char *name)
{
	struct cpolicy *p;

	HASH_FIND_STR(c->policies, name, p);
	if (!p)
		return -ENOENT;
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

/* A number or a text, as people write them: 2.5, "2.5"; in 1/1000. */
static uint64_t milli_of(const json_t *value)
{
	uint32_t milli;

	if (json_is_number(value))
		return (uint64_t)(json_number_value(value) * 1000 + 0.5);
	return json_is_string(value) &&
			parse_share(str_from(json_string_value(value)), &milli, NULL) == 0
		? milli
		: UNLIMITED;
}

static uint64_t bytes_of(const json_t *value)
{
	uint64_t bytes;

	if (json_is_integer(value))
		return (uint64_t)json_integer_value(value);
	return json_is_string(value) &&
			parse_bytes(str_from(json_string_value(value)), &bytes, NULL) == 0
		? bytes
		: UNLIMITED;
}

int cluster_set_policy(struct cluster *c, json_t *json)
{
	const char *name = json_string_value(
		json_object_get(json_object_get(json, "metadata"), "name"));
	json_t *spec = json_object_get(json, "spec"), *selector;
	struct cpolicy *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	p->name = str_dup(str_from(name));
	p->spec = json_incref(spec);
	selector = json_object_get(spec, "namespaceSelector");
	if (selector)
		selector_read(&p->arena, selector, &p->selector, NULL);
	p->is_selecting = selector != NULL;
	p->total_milli = milli_of(json_object_get(spec, "totalShare"));
	p->total_bytes = bytes_of(json_object_get(spec, "totalMemory"));
	cluster_remove_policy(c, name);
	if (p->name)
		HASH_ADD_KEYPTR(hh, c->policies, p->name, strlen(p->name), p);
	if (p->hh.tbl)
		return 0;
	policy_free(p);
	return -ENOMEM;
}

static bool is_listed(const json_t *list, const char *text)
{
	json_t *one;
	size_t i;

	json_array_foreach(list, i, one) {
		if (json_is_string(one) && !strcmp(json_string_value(one), text))
			return true;
	}
	return false;
}

static bool selects(const struct cluster *c, const struct cpolicy *p, const char *ns)
{
	const json_t *list = json_object_get(p->spec, "namespaces");
	const struct object *object = view_find(c->view, OBJECT_NAMESPACE, "", ns);

	if (!list && !p->is_selecting)
		return true;
	return is_listed(list, ns) ||
		(p->is_selecting && object && selector_matches(&p->selector, &object->labels));
}

/* ---- what may be asked for ---- */

static bool allows(
	const struct cpolicy *p, const struct spec *spec, const char *container, struct buf *why)
{
	const json_t *classes = json_object_get(p->spec, "classes");
	const json_t *highest = json_object_get(p->spec, "highestPriority");

	if (json_array_size(classes) && !is_listed(classes, spec_class_name(spec->class))) {
		buf_addf(why, "policy %s: %s: class %s is not allowed", p->name, container,
			spec_class_name(spec->class));
		return false;
	}
	if (json_is_integer(highest) && spec->priority > json_integer_value(highest)) {
		buf_addf(why, "policy %s: %s: priority %u: at most %d is allowed", p->name,
			container, spec->priority, (int)json_integer_value(highest));
		return false;
	}
	return true;
}

bool cluster_allows_model(const struct cluster *c, const char *ns, const char *model)
{
	const struct cpolicy *p;

	for (p = c->policies; p; p = p->hh.next) {
		const json_t *models = json_object_get(p->spec, "models");
		bool fits = !json_array_size(models);
		struct spec spec = {0};
		json_t *one;
		size_t i;

		if (fits || !selects(c, p, ns))
			continue;
		json_array_foreach(models, i, one) {
			str_copy(spec.model, sizeof(spec.model), str_from(json_string_value(one)));
			fits |= spec.model[0] && spec_model_fits(&spec, model);
		}
		if (!fits)
			return false;
	}
	return true;
}

/* ---- how much ---- */

struct usage {
	uint64_t milli, bytes;
};

static struct usage usage_of_given(const struct cpod *pod, const struct given *given)
{
	struct manifest_sum milli = {0}, bytes = {0};

	for (uint32_t i = 0; i < given->n; i++) {
		const struct given_container *g = &given->v[i];
		const enum manifest_kind kind = cpod_kind(pod, g->name);
		uint64_t all = 0;

		for (uint32_t k = 0; k < g->n; k++)
			all += g->memory_bytes[k];
		manifest_sum_add(&milli, kind, (uint64_t)g->request * g->n);
		manifest_sum_add(&bytes, kind, all);
	}
	return (struct usage){manifest_sum_value(&milli), manifest_sum_value(&bytes)};
}

static struct usage usage_of(const struct cluster *c, const char *ns)
{
	struct usage u = {0};
	const struct cpod *pod;

	for (pod = c->pods; pod; pod = pod->hh.next)
		if (pod->given.n && !strcmp(pod->ns, ns)) {
			const struct usage its = usage_of_given(pod, &pod->given);

			u.milli += its.milli;
			u.bytes += its.bytes;
		}
	return u;
}

/* Before a device is chosen bytes are known where bytes were asked for. */
static struct usage asked_by(const struct cpod *pod)
{
	struct manifest_sum milli = {0}, bytes = {0};

	for (uint32_t i = 0; i < pod->asked.n; i++) {
		const struct tenancy_container *one = &pod->asked.v[i];
		const struct spec *spec = &one->spec;

		manifest_sum_add(&milli, one->kind, (uint64_t)spec->request * spec->count);
		manifest_sum_add(&bytes, one->kind, spec->memory_bytes * spec->count);
	}
	return (struct usage){manifest_sum_value(&milli), manifest_sum_value(&bytes)};
}

static bool has_room(
	const struct cluster *c, const struct cpolicy *p, const struct cpod *pod, struct buf *why)
{
	const struct usage asked = asked_by(pod);
	struct usage used;

	if (p->total_milli == UNLIMITED && p->total_bytes == UNLIMITED)
		return true;
	used = usage_of(c, pod->ns);
	if (p->total_milli != UNLIMITED && used.milli + asked.milli > p->total_milli) {
		buf_addf(why, "policy %s: the namespace has %s of %s GPUs, %s asked", p->name,
			format_share((uint32_t)used.milli).s,
			format_share((uint32_t)p->total_milli).s,
			format_share((uint32_t)asked.milli).s);
		return false;
	}
	if (p->total_bytes != UNLIMITED && used.bytes + asked.bytes > p->total_bytes) {
		buf_addf(why, "policy %s: the namespace has %s of %s of device memory, %s asked",
			p->name, format_bytes(used.bytes).s, format_bytes(p->total_bytes).s,
			format_bytes(asked.bytes).s);
		return false;
	}
	return true;
}

bool cluster_allows(struct cluster *c, const struct cpod *pod, struct buf *why)
{
	const struct cpolicy *p;

	if (!pod->asked.n)
		return true;
	for (p = c->policies; p; p = p->hh.next) {
		if (!selects(c, p, pod->ns))
			continue;
		for (uint32_t i = 0; i < pod->asked.n; i++)
			if (!allows(p, &pod->asked.v[i].spec, pod->asked.v[i].name, why))
				return false;
		if (!has_room(c, p, pod, why))
			return false;
	}
	return true;
}

bool cluster_has_room_for(
	struct cluster *c, const struct cpod *pod, const struct given *given, struct buf *why)
{
	const struct cpolicy *p;
	const struct usage all = usage_of(c, pod->ns), now = usage_of_given(pod, &pod->given),
			   then = usage_of_given(pod, given);

	for (p = c->policies; p; p = p->hh.next) {
		if (!selects(c, p, pod->ns))
			continue;
		if ((then.milli > now.milli && p->total_milli != UNLIMITED &&
			    all.milli - now.milli + then.milli > p->total_milli) ||
			(then.bytes > now.bytes && p->total_bytes != UNLIMITED &&
				all.bytes - now.bytes + then.bytes > p->total_bytes)) {
			buf_addf(why, "policy %s: more than the namespace may have", p->name);
			return false;
		}
		for (uint32_t i = 0; i < pod->asked.n; i++)
			if (!allows(p, &pod->asked.v[i].spec, pod->asked.v[i].name, why))
				return false;
	}
	return true;
}
