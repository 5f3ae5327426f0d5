/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file reads values of a pod for the dialects, and adds tenants, gangs and notes to the
 * result: see dialect-internal.h. An error message quotes at most 48 bytes of a value. Two specs
 * for one container have to be equal. Pure; any thread.
 */
#include "spec/dialect-internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/format.h"
#include "spec/quantity.h"

#define SHOW "%.*s"
#define SHOWN(s) (int)MIN((s).n, (size_t)48), (s).p ? (s).p : ""
#define CONTAINER_KEY "divvy.gpu/container"

const struct str *draft_annotation(const struct dialect_draft *draft, const char *key)
{
	return manifest_find(draft->pod->annotations, str_from(key));
}

const struct str *draft_label(const struct dialect_draft *draft, const char *key)
{
	return manifest_find(draft->pod->labels, str_from(key));
}

int draft_text(
	const char *key, struct str value, char ret[static DIALECT_VALUE_MAX], struct error *err)
{
	if (value.n >= DIALECT_VALUE_MAX)
		return fail(err, EINVAL, "%s: the value has %zu characters; at most %u are allowed",
			key, value.n, DIALECT_VALUE_MAX - 1);
	if (str_find(value, '\0') != value.n)
		return fail(err, EINVAL, "%s: the value has a zero byte", key);
	return str_copy(ret, DIALECT_VALUE_MAX, value);
}

/* ---- resources ---- */

/*
 * Finds the value of a resource in draft->record, the pod's record of removed resources: for
 * container main and nvidia.com/gpu, "1" in "main/nvidia.com/gpu=1,...". false: the record does not
 * have it.
 */
static bool find_record(
	const struct dialect_draft *draft, uint32_t container, struct str resource, struct str *ret)
{
	struct str rest = draft->record, item;

	while (str_split(&rest, ',', &item)) {
		item = str_trim(item);
		if (str_skip_prefix(&item, draft->pod->container[container].name) &&
			str_skip_prefix(&item, STR("/")) && str_skip_prefix(&item, resource) &&
			str_skip_prefix(&item, STR("="))) {
			*ret = item;
			return true;
		}
	}
	return false;
}

bool draft_has_resource(const struct dialect_draft *draft, uint32_t container, const char *resource)
{
	const struct manifest_container *c = &draft->pod->container[container];
	struct str value;

	return manifest_find(c->limits, str_from(resource)) ||
		manifest_find(c->requests, str_from(resource)) ||
		find_record(draft, container, str_from(resource), &value);
}

static bool is_beginning(struct str name, const char *beginning)
{
	return str_has_prefix(name, str_from(beginning)) && name.n > strlen(beginning);
}

bool draft_next_resource(const struct dialect_draft *draft, uint32_t container,
	const char *beginning, struct draft_cursor *cursor, struct str *ret_name)
{
	const struct manifest_container *c = &draft->pod->container[container];
	struct str item;

	while (cursor->at < c->limits.n + c->requests.n) {
		const uint32_t i = cursor->at++;

		*ret_name = i < c->limits.n ? c->limits.entry[i].key
					    : c->requests.entry[i - c->limits.n].key;
		if (is_beginning(*ret_name, beginning))
			return true;
	}
	if (!cursor->is_in_record)
		cursor->rest = draft->record;
	cursor->is_in_record = true;
	while (str_split(&cursor->rest, ',', &item)) {
		item = str_trim(item);
		if (!str_skip_prefix(&item, c->name) || !str_skip_prefix(&item, STR("/")))
			continue;
		*ret_name = (struct str){item.p, str_find(item, '=')};
		if (is_beginning(*ret_name, beginning))
			return true;
	}
	return false;
}

static int add_foreign(struct dialect_result *result, uint32_t container, struct str resource,
	uint64_t value, struct error *err)
{
	for (uint32_t i = 0; i < result->n_foreign; i++)
		if (result->foreign[i].container == container &&
			str_eq(result->foreign[i].resource, resource))
			return 0;
	if (array_grow(&result->foreign, &result->foreign_room, result->n_foreign + 1ull,
		    sizeof(*result->foreign)) < 0)
		return fail(err, ENOMEM, "out of memory");
	result->foreign[result->n_foreign++] = (struct dialect_foreign){container, resource, value};
	return 0;
}

int draft_resource(struct dialect_draft *draft, uint32_t container, const char *resource,
	uint64_t max, uint64_t *ret_value, struct error *err)
{
	return draft_resource_named(draft, container, str_from(resource), max, ret_value, err);
}

int draft_resource_named(struct dialect_draft *draft, uint32_t container, struct str named,
	uint64_t max, uint64_t *ret_value, struct error *err)
{
	const struct str name = draft->pod->container[container].name;
	char resource[DIALECT_VALUE_MAX];
	uint64_t value = 0, recorded = 0;
	struct str text;
	int r = draft_text("a resource's name", named, resource, err);

	if (r >= 0)
		r = manifest_resource(draft->pod, container, resource, &value, err);
	if (r < 0)
		return fail_within(err, r, "container " SHOW, SHOWN(name));
	if (find_record(draft, container, named, &text)) {
		if (quantity_parse(text, 1, &recorded, err) < 0)
			return fail_within(err, -EINVAL, DIALECT_RECORD_KEY);
		if (r > 0 && value != recorded)
			return fail(err, EINVAL,
				"container " SHOW
				": %s %llu: the pod was created with %llu, which cannot "
				"change; create another pod",
				SHOWN(name), resource, (unsigned long long)value,
				(unsigned long long)recorded);
		value = recorded;
		r = 1;
	}
	if (r == 0)
		return 0;
	if (value > max)
		return fail(err, EINVAL, "container " SHOW ": %s %llu: expected 0 to %llu",
			SHOWN(name), resource, (unsigned long long)value, (unsigned long long)max);
	r = add_foreign(draft->result, container, named, value, err);
	if (r < 0)
		return r;
	*ret_value = value;
	return 1;
}

/* ---- values ---- */

/* Whether the text ends in a digit or a point, and thus has no unit. */
static bool draft_is_plain(struct str value)
{
	return value.n &&
		(value.p[value.n - 1] == '.' ||
			(value.p[value.n - 1] >= '0' && value.p[value.n - 1] <= '9'));
}

int draft_share(
	const char *key, struct str value, uint32_t max, uint32_t *ret_permille, struct error *err)
{
	uint64_t permille = 0;
	int r = draft_is_plain(value) ? quantity_parse(value, SPEC_SHARE_ONE, &permille, NULL)
				      : -EINVAL;

	if (r < 0 || permille > max)
		return fail(err, EINVAL, "%s '" SHOW "': expected 0 to %u in steps of 0.001", key,
			SHOWN(value), max / SPEC_SHARE_ONE);
	*ret_permille = (uint32_t)permille;
	return 0;
}

int draft_bytes(
	const char *key, struct str value, bool may_be_zero, uint64_t *ret_bytes, struct error *err)
{
	uint64_t bytes = 0;

	if (quantity_parse(value, 1, &bytes, NULL) < 0 || (!bytes && !may_be_zero))
		return fail(err, EINVAL,
			"%s '" SHOW
			"': expected a whole number of bytes%s, such as 1073741824 or 1Gi",
			key, SHOWN(value), may_be_zero ? "" : " above 0");
	*ret_bytes = bytes;
	return 0;
}

int draft_spec_label(const struct dialect_draft *draft, const char *key,
	char ret[static SPEC_LABEL], struct error *err)
{
	const struct str *value = draft_annotation(draft, key);
	char text[DIALECT_VALUE_MAX];
	struct spec scratch;
	int r;

	if (!value || !value->n)
		return 0;
	r = draft_text(key, *value, text, err);
	if (r < 0)
		return r;
	spec_init(&scratch);
	if (spec_set_cluster(&scratch, "affinity", text, NULL) < 0)
		return fail(err, EINVAL,
			"%s: the value has %zu characters; expected 1 to %u printable ASCII "
			"characters",
			key, value->n, SPEC_LABEL - 1);
	memcpy(ret, scratch.affinity, SPEC_LABEL);
	return 0;
}

int draft_vgpu(struct dialect_draft *draft, const char *key, struct error *err)
{
	const struct str *id = draft_annotation(draft, key);
	char name[SPEC_LABEL];
	int r;

	if (!id || !id->n)
		return 0;
	r = draft_spec_label(draft, key, name, err);
	if (r < 0)
		return r;
	if (!draft->pod->node.n)
		return fail(err, EINVAL,
			"%s '%s': spec.nodeName is missing; set it to the node of the vGPU", key,
			name);
	if (draft->result->vgpu.n && !str_eq(draft->result->vgpu, *id))
		return fail(err, EINVAL, "%s '%s': the pod names vGPU '" SHOW "' already; keep one",
			key, name, SHOWN(draft->result->vgpu));
	draft->result->vgpu = *id;
	return 0;
}

static int draft_fail_missing(
	const char *key, const char *other, const char *allowed, struct error *err)
{
	return fail(err, EINVAL, "%s is missing; %s requires %s", key, other, allowed);
}

int draft_fraction(const struct dialect_draft *draft, const struct dialect_fraction *keys,
	struct spec *ret_spec, struct error *err)
{
	const struct str *request = draft_annotation(draft, keys->request),
			 *limit = draft_annotation(draft, keys->limit),
			 *memory = draft_annotation(draft, keys->memory);
	const char *any = request ? keys->request : limit ? keys->limit : keys->memory;
	int r;

	if (!request)
		return draft_fail_missing(keys->request, any, "a share from 0 to 1", err);
	if (!limit)
		return draft_fail_missing(keys->limit, any, "a share from the request to 1", err);
	if (!memory)
		return draft_fail_missing(keys->memory, any, "a number of bytes", err);
	spec_init(ret_spec);
	r = draft_share(keys->request, *request, SPEC_SHARE_ONE, &ret_spec->request, err);
	r = r < 0 ? r : draft_share(keys->limit, *limit, SPEC_SHARE_ONE, &ret_spec->limit, err);
	r = r < 0 ? r : draft_bytes(keys->memory, *memory, false, &ret_spec->memory_bytes, err);
	if (r < 0)
		return r;
	if (ret_spec->limit == 0)
		return fail(err, EINVAL, "%s '" SHOW "': expected 0.001 to 1", keys->limit,
			SHOWN(*limit));
	if (ret_spec->limit < ret_spec->request)
		return fail(err, EINVAL,
			"%s '" SHOW "': below %s '" SHOW "'; expected " SHOW " to 1", keys->limit,
			SHOWN(*limit), keys->request, SHOWN(*request), SHOWN(*request));
	if (ret_spec->request == 0) {
		ret_spec->request = 1;
		ret_spec->class = SPEC_OPPORTUNISTIC;
	}
	return 0;
}

/* ---- result ---- */

void draft_note(struct dialect_draft *draft, const char *fmt, ...)
{
	struct dialect_result *result = draft->result;
	va_list ap;

	if (result->n_notes == DIALECT_NOTES_MAX)
		return;
	va_start(ap, fmt);
	vsnprintf(result->note[result->n_notes], sizeof(result->note[0]), fmt, ap);
	va_end(ap);
	for (uint32_t i = 0; i < result->n_notes; i++)
		if (!strcmp(result->note[i], result->note[result->n_notes]))
			return;
	result->n_notes++;
}

#define SPEC_SHOWN 96u

/*
 * Formats the spec for the message about two different specs of one container. Only fields that
 * usually differ are shown.
 */
static char *draft_show_spec(const struct spec *spec, char ret[static SPEC_SHOWN])
{
	char memory[40] = "";

	if (spec->memory_bytes)
		snprintf(memory, sizeof(memory), " memory %s",
			format_bytes_exact(spec->memory_bytes).s);
	if (spec->memory_permille)
		snprintf(memory, sizeof(memory), " memory %s",
			format_percent(spec->memory_permille).s);
	snprintf(ret, SPEC_SHOWN, "%u x %s limit %s%s %s priority %u", spec->count,
		format_share(spec->request).s, format_share(spec->limit).s, memory,
		spec_class_name(spec->class), spec->priority);
	return ret;
}

int draft_add(struct dialect_draft *draft, uint32_t container, struct spec *spec, struct error *err)
{
	struct dialect_result *result = draft->result;
	const struct str name = draft->pod->container[container].name;
	char one[SPEC_SHOWN], other[SPEC_SHOWN];
	int r = spec_finish(spec, err);

	if (r < 0)
		return fail_within(err, r, "container " SHOW, SHOWN(name));
	for (uint32_t i = 0; i < result->n_tenants; i++) {
		const struct dialect_tenant *t = &result->tenant[i];

		if (t->container != container || spec_is_same(&t->spec, spec))
			continue;
		return fail(err, EINVAL,
			"container %.*s: %s says %s, %s says %s; keep one of the two",
			(int)MIN(name.n, (size_t)24), name.p, t->dialect->name,
			draft_show_spec(&t->spec, one), draft->dialect->name,
			draft_show_spec(spec, other));
	}
	for (uint32_t i = 0; i < result->n_tenants; i++)
		if (result->tenant[i].container == container)
			return 0;
	if (result->n_tenants == DIALECT_TENANTS_MAX)
		return fail(err, EINVAL,
			"the pod has more than %u containers with a share of a GPU",
			DIALECT_TENANTS_MAX);
	if (array_grow(&result->tenant, &result->tenants_room, result->n_tenants + 1ull,
		    sizeof(*result->tenant)) < 0)
		return fail(err, ENOMEM, "out of memory");
	result->tenant[result->n_tenants++] = (struct dialect_tenant){
		container, draft->dialect, *spec};
	return 0;
}

int draft_container(
	const struct dialect_draft *draft, uint32_t i, uint32_t *ret_container, struct error *err)
{
	const struct str *names = draft_annotation(draft, CONTAINER_KEY);
	struct str rest = names ? *names : STR_NONE, name = STR_NONE;
	uint32_t container = manifest_main(draft->pod);

	if (!names) {
		if (container == MANIFEST_NONE)
			return fail(err, EINVAL, "the pod has no container that can get a GPU");
		draft->result->has_default = true;
		draft->result->default_container = container;
		*ret_container = container;
		return i == 0;
	}
	if (!rest.p)
		rest = STR("");
	for (uint32_t k = 0; k <= i; k++)
		if (!str_split(&rest, ',', &name))
			return 0;
	if (i == MANIFEST_CONTAINERS_MAX)
		return fail(err, EINVAL, CONTAINER_KEY ": the list has more than %u names",
			MANIFEST_CONTAINERS_MAX);
	name = str_trim(name);
	container = manifest_container_find(draft->pod, name);
	if (container == MANIFEST_NONE)
		return fail(err, EINVAL,
			CONTAINER_KEY " '" SHOW "': the pod has no container of that name",
			SHOWN(name));
	*ret_container = container;
	return 1;
}

void draft_note_default(struct dialect_draft *draft)
{
	const struct manifest *pod = draft->pod;
	uint32_t n_main = 0;

	for (uint32_t i = 0; i < pod->n_containers; i++)
		n_main += pod->container[i].kind == MANIFEST_MAIN;
	if (n_main > 1 && !draft_annotation(draft, CONTAINER_KEY))
		draft_note(draft,
			"only container " SHOW " gets a share of a GPU; " CONTAINER_KEY
			" names more containers",
			SHOWN(pod->container[manifest_main(pod)].name));
}

int draft_add_pod(struct dialect_draft *draft, struct spec *spec, struct error *err)
{
	uint32_t container;
	int r;

	for (uint32_t i = 0; (r = draft_container(draft, i, &container, err)) > 0; i++) {
		struct spec copy = *spec;

		r = draft_add(draft, container, &copy, err);
		if (r < 0)
			return r;
	}
	if (r == 0)
		draft_note_default(draft);
	return r;
}

int draft_group(struct dialect_draft *draft, const char *key, struct str name, uint32_t size,
	uint32_t threshold, const char *object, struct error *err)
{
	struct dialect_result *result = draft->result;
	char text[DIALECT_VALUE_MAX];
	struct spec scratch;
	int r = draft_text(key, name, text, err);

	if (r < 0)
		return r;
	spec_init(&scratch);
	r = spec_set_cluster(&scratch, "group", text, err);
	if (r < 0)
		return fail_within(err, r, "%s", key);
	if (result->group[0] && strcmp(result->group, scratch.group))
		return fail(err, EINVAL,
			"%s '%.48s': the pod is in group '%.48s' already; keep one", key,
			scratch.group, result->group);
	if (result->group_size && size &&
		(result->group_size != size || result->group_threshold != threshold))
		return fail(err, EINVAL,
			"%s '%.48s': the pod has %u members with threshold %s, and %u with %s; "
			"keep one",
			key, scratch.group, result->group_size,
			format_percent(result->group_threshold).s, size,
			format_percent(threshold).s);
	memcpy(result->group, scratch.group, sizeof(result->group));
	if (size) {
		result->group_size = size;
		result->group_object = NULL;
	} else if (!result->group_size && object) {
		result->group_object = object;
	}
	if (size || !result->group_threshold)
		result->group_threshold = threshold;
	return 0;
}
