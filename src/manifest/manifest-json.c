/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file builds a `struct manifest` whose texts borrow from the JSON of the pod.
 * manifest_json_allocate() counts all entries first and allocates their array once: lists point
 * into the array, so it must not move. So the limit for counting a list and for reading it must be
 * the same. That limit is one above the allowed number, so that manifest_check() sees and refuses a
 * list that is too long. Numbers become texts that live in `texts`. Init containers come first in
 * the array of containers.
 */
#include "manifest/manifest-json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "spec/quantity.h"

#define HOSTNAME "kubernetes.io/hostname"

/* One entry more than allowed is read, so that manifest_check() reports a list that is too long. */
#define LIST_KEPT (MANIFEST_ENTRIES_MAX + 1u)

static struct str manifest_json_text(const json_t *value)
{
	return (struct str){json_string_value(value), json_string_length(value)};
}

static struct str manifest_json_text_at(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	return json_is_string(value) ? manifest_json_text(value) : STR_NONE;
}

static size_t list_size(const json_t *object)
{
	return MIN(json_object_size(object), (size_t)LIST_KEPT);
}

static size_t containers_size(const json_t *list)
{
	return MIN(json_array_size(list), (size_t)MANIFEST_CONTAINERS_MAX + 1);
}

static size_t count_entries(const json_t *containers)
{
	size_t n = 0;

	for (size_t i = 0; i < containers_size(containers); i++) {
		const json_t *c = json_array_get(containers, i);

		n += list_size(kube_json_at(c, "resources", "limits", NULL)) +
			list_size(kube_json_at(c, "resources", "requests", NULL)) +
			MIN(json_array_size(json_object_get(c, "env")), (size_t)LIST_KEPT);
	}
	return n;
}

/* The number as text, which lives as long as the pod. */
static struct str number_text(struct manifest_json *p, const json_t *value)
{
	struct text text = {""};
	json_t *copy;

	if (json_is_integer(value))
		snprintf(text.s, sizeof(text.s), "%lld", (long long)json_integer_value(value));
	else
		text = format_real(json_real_value(value));
	copy = json_string(text.s);
	if (!copy || json_array_append_new(p->texts, copy) < 0)
		return STR("");
	return manifest_json_text(copy);
}

static struct manifest_list manifest_json_read_list(struct manifest_json *p, const json_t *object)
{
	struct manifest_list list = {p->entry + p->n_entries, 0};
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)object, key, value) {
		struct str text = STR_NONE;

		if (list.n == LIST_KEPT)
			break;
		if (json_is_string(value))
			text = manifest_json_text(value);
		else if (json_is_number(value))
			text = number_text(p, value);
		else
			continue;
		p->entry[p->n_entries++] = (struct manifest_entry){str_from(key), text};
		list.n++;
	}
	return list;
}

static struct manifest_list read_env(struct manifest_json *p, const json_t *env)
{
	struct manifest_list list = {p->entry + p->n_entries, 0};

	for (size_t i = 0; i < MIN(json_array_size(env), (size_t)LIST_KEPT); i++) {
		const json_t *e = json_array_get(env, i);

		if (!json_is_string(json_object_get(e, "name")))
			continue;
		p->entry[p->n_entries++] = (struct manifest_entry){
			manifest_json_text_at(e, "name"), manifest_json_text_at(e, "value")};
		list.n++;
	}
	return list;
}

static void manifest_json_read_containers(struct manifest_json *p, const json_t *list, bool is_init)
{
	for (size_t i = 0; i < containers_size(list); i++) {
		const json_t *c = json_array_get(list, i);
		struct manifest_container *to = &p->container[p->pod.n_containers++];

		to->name = manifest_json_text_at(c, "name");
		to->kind = !is_init ? MANIFEST_MAIN
			: str_is(manifest_json_text_at(c, "restartPolicy"), "Always")
			? MANIFEST_SIDECAR
			: MANIFEST_INIT;
		to->limits = manifest_json_read_list(
			p, kube_json_at(c, "resources", "limits", NULL));
		to->requests = manifest_json_read_list(
			p, kube_json_at(c, "resources", "requests", NULL));
		to->env = read_env(p, json_object_get(c, "env"));
	}
}

static void mark_managed(struct manifest_json *p, struct str name)
{
	const uint32_t i = manifest_container_find(&p->pod, name);

	if (i != MANIFEST_NONE)
		p->container[i].is_managed = true;
}

/*
 * API servers write managedFields from the request before webhooks change the object. So the
 * managedFields of a new pod name the containers of its author, as `k:{"name":"train"}`, and no
 * injected container.
 */
static void read_managed(struct manifest_json *p, const json_t *managed)
{
	for (size_t i = 0; i < MIN(json_array_size(managed), (size_t)LIST_KEPT); i++) {
		const json_t *fields = kube_json_at(
			json_array_get(managed, i), "fieldsV1", "f:spec", "f:containers", NULL);
		const char *key;
		json_t *value;

		json_object_foreach((json_t *)fields, key, value) {
			struct str name = str_from(key);

			if (str_skip_prefix(&name, STR("k:{\"name\":\"")) &&
				str_skip_suffix(&name, STR("\"}")))
				mark_managed(p, name);
		}
	}
}

static int manifest_json_allocate(
	struct manifest_json *p, const json_t *metadata, const json_t *spec)
{
	const json_t *init = json_object_get(spec, "initContainers"),
		     *main = json_object_get(spec, "containers");
	const size_t n = list_size(json_object_get(metadata, "labels")) +
		list_size(json_object_get(metadata, "annotations")) + count_entries(init) +
		count_entries(main);

	p->entry = calloc(n + 1, sizeof(*p->entry));
	p->container = calloc(
		containers_size(init) + containers_size(main) + 1, sizeof(*p->container));
	p->texts = json_array();
	return p->entry && p->container && p->texts ? 0 : -ENOMEM;
}

static void read_owner(struct manifest *pod, const json_t *metadata)
{
	const json_t *owners = json_object_get(metadata, "ownerReferences");

	for (size_t i = 0; i < json_array_size(owners); i++) {
		const json_t *o = json_array_get(owners, i);

		if (!json_is_true(json_object_get(o, "controller")))
			continue;
		pod->owner_kind = manifest_json_text_at(o, "kind");
		pod->owner_name = manifest_json_text_at(o, "name");
	}
}

int manifest_json_read(const json_t *metadata, const json_t *spec, struct str ns,
	struct manifest_json *ret_pod, struct error *err)
{
	struct manifest_json *p = ret_pod;
	const json_t *priority = json_object_get(spec, "priority");

	memset(p, 0, sizeof(*p));
	if (manifest_json_allocate(p, metadata, spec) < 0)
		return fail(err, ENOMEM, "out of memory");
	p->pod.ns = manifest_json_text_at(metadata, "namespace");
	if (!p->pod.ns.n)
		p->pod.ns = ns;
	p->pod.name = manifest_json_text_at(metadata, "name");
	p->pod.scheduler = manifest_json_text_at(spec, "schedulerName");
	p->node_name = p->pod.node = manifest_json_text_at(spec, "nodeName");
	if (!p->pod.node.n)
		p->pod.node = manifest_json_text_at(
			json_object_get(spec, "nodeSelector"), HOSTNAME);
	p->pod.priority_class = manifest_json_text_at(spec, "priorityClassName");
	p->pod.scheduling_group = manifest_json_text_at(
		json_object_get(spec, "schedulingGroup"), "podGroupName");
	if (json_is_integer(priority))
		p->pod.priority = (int32_t)MAX(
			MIN(json_integer_value(priority), (json_int_t)INT32_MAX),
			(json_int_t)INT32_MIN);
	read_owner(&p->pod, metadata);
	p->pod.labels = manifest_json_read_list(p, json_object_get(metadata, "labels"));
	p->pod.annotations = manifest_json_read_list(p, json_object_get(metadata, "annotations"));
	p->pod.container = p->container;
	manifest_json_read_containers(p, json_object_get(spec, "initContainers"), true);
	p->n_init = p->pod.n_containers;
	manifest_json_read_containers(p, json_object_get(spec, "containers"), false);
	read_managed(p, json_object_get(metadata, "managedFields"));
	return manifest_check(&p->pod, err);
}

void manifest_json_done(struct manifest_json *pod)
{
	free(pod->entry);
	free(pod->container);
	json_decref(pod->texts);
	memset(pod, 0, sizeof(*pod));
}

int manifest_json_path(const struct manifest_json *pod, uint32_t container, struct buf *out)
{
	if (container >= pod->pod.n_containers)
		return -ENOENT;
	if (container < pod->n_init)
		return buf_addf(out, "/spec/initContainers/%u", container);
	return buf_addf(out, "/spec/containers/%u", container - pod->n_init);
}

const json_t *manifest_json_container(
	const struct manifest_json *pod, const json_t *spec, uint32_t container)
{
	if (container < pod->n_init)
		return json_array_get(json_object_get(spec, "initContainers"), container);
	return json_array_get(json_object_get(spec, "containers"), container - pod->n_init);
}

static uint64_t amount_of(const json_t *container, const char *field, const char *resource)
{
	const char *text = json_string_value(
		json_object_get(kube_json_at(container, "resources", field, NULL), resource));
	uint64_t amount;

	if (!text || quantity_parse(str_from(text), 1, &amount, NULL) < 0)
		return 0;
	return MIN(amount, MANIFEST_JSON_AMOUNT_MAX);
}

uint64_t manifest_json_amount(const json_t *pod, const char *field, const char *resource)
{
	const json_t *spec = json_object_get(pod, "spec"),
		     *init = json_object_get(spec, "initContainers"),
		     *main = json_object_get(spec, "containers");
	uint64_t sum = 0, sidecars = 0, most = 0;

	for (size_t i = 0; i < json_array_size(init); i++) {
		const json_t *c = json_array_get(init, i);
		const uint64_t amount = amount_of(c, field, resource);

		most = MAX(most, sidecars + amount);
		if (str_is(manifest_json_text_at(c, "restartPolicy"), "Always"))
			sidecars += amount;
	}
	for (size_t i = 0; i < json_array_size(main); i++)
		sum += amount_of(json_array_get(main, i), field, resource);
	return MAX(most, sidecars + sum);
}
