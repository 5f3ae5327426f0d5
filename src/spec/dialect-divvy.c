/* SPDX-License-Identifier: Apache-2.0 */
/*
 * divvy's own dialect. `divvy.gpu/<field>` applies to manifest_main() of the pod, or to the
 * containers that `divvy.gpu/container` names. `<container>.divvy.gpu/<field>` applies to one
 * container and overrides the pod's field. The gang is always the pod's. Pure; any thread.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "spec/dialect-group.h"
#include "spec/dialect-internal.h"
#include "spec/assigned.h"

#define PREFIX "divvy.gpu/"
#define GROUP_BY "group-by"
#define SHOW "%.*s"
#define SHOWN(s) (int)MIN((s).n, (size_t)63), (s).p ? (s).p : ""
#define KEY_MAX 128u

static bool is_recorded(struct str field)
{
	return str_is(field, "translated-from") || str_is(field, "dialects") ||
		str_is(field, "default-container") || str_is(field, "replaced-pods");
}

/* Whether the field is written by divvy and requests nothing. */
static bool divvy_is_own_field(struct str field)
{
	return assigned_is_field(field) || is_recorded(field);
}

/*
 * "main.divvy.gpu/limit" -> "main" and "limit"; the container is "" for a key of the pod. False:
 * not a key of this dialect.
 */
static bool divvy_split_key(struct str key, struct str *ret_container, struct str *ret_field)
{
	const size_t slash = str_find(key, '/');
	struct str domain = {key.p, slash};

	if (slash == key.n || !str_skip_suffix(&domain, STR("divvy.gpu")))
		return false;
	if (domain.n && !str_skip_suffix(&domain, STR(".")))
		return false;
	*ret_container = domain;
	*ret_field = (struct str){key.p + slash + 1, key.n - slash - 1};
	return true;
}

bool dialect_is_assigned(struct str key)
{
	struct str container, field;

	return divvy_split_key(key, &container, &field) && assigned_is_field(field);
}

bool dialect_is_recorded(struct str key)
{
	struct str container, field;

	return divvy_split_key(key, &container, &field) && is_recorded(field);
}

static bool is_group(struct str field)
{
	return str_is(field, "group") || str_is(field, "group-size") ||
		str_is(field, "group-threshold") || str_is(field, GROUP_BY);
}

static int refuse_unknown(struct str key, struct str field, struct error *err)
{
	static const char *const others[] = {"container", GROUP_BY};
	char name[SPEC_FIELD], best[SPEC_FIELD] = "";
	size_t nearest = 3;

	for (size_t i = 0; spec_field_name(i, name); i++) {
		const size_t d = str_distance(field, str_from(name));

		if (d < nearest) {
			nearest = d;
			memcpy(best, name, sizeof(best));
		}
	}
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		const size_t d = str_distance(field, str_from(others[i]));

		if (d < nearest) {
			nearest = d;
			str_copy(best, sizeof(best), str_from(others[i]));
		}
	}
	if (best[0])
		return fail(err, EINVAL, "'" SHOW "': unknown field; did you mean %s?", SHOWN(key),
			best);
	return fail(err, EINVAL,
		"'" SHOW "': unknown field; expected request, limit, count, memory, "
		"memory-policy, class, priority, mode, model, device, "
		"preferred-anti-affinity, affinity, anti-affinity, exclusion, group, "
		"group-by, group-size, group-threshold or network",
		SHOWN(key));
}

static int divvy_set_field(
	struct spec *spec, const struct manifest_entry *e, struct str field, struct error *err)
{
	char name[SPEC_FIELD], key[KEY_MAX], value[DIALECT_VALUE_MAX];
	int r;

	/*
	 * spec_set() accepts '_' for '-', as in options. An annotation has one spelling, so '_' is
	 * refused.
	 */
	if (str_copy(name, sizeof(name), field) < 0 || str_find(field, '_') != field.n ||
		str_find(field, '\0') != field.n)
		return refuse_unknown(e->key, field, err);
	str_copy(key, sizeof(key), (struct str){e->key.p, MIN(e->key.n, (size_t)KEY_MAX - 1)});
	r = draft_text(key, e->value, value, err);
	if (r < 0)
		return r;
	r = spec_set_cluster(spec, name, value, err);
	if (r == -ENOENT)
		return refuse_unknown(e->key, field, err);
	return r < 0 ? fail_within(err, r, "%s", key) : 0;
}

/*
 * Sets the spec's fields from the keys of `owner`: a container's name, or "" for the pod's keys.
 * *ret_any: whether there is such a key.
 */
static int divvy_read_fields(const struct dialect_draft *draft, struct str owner, struct spec *spec,
	bool *ret_any, struct error *err)
{
	const struct manifest_list list = draft->pod->annotations;

	for (uint32_t i = 0; i < list.n; i++) {
		struct str container, field;
		int r;

		if (!divvy_split_key(list.entry[i].key, &container, &field) ||
			!str_eq(container, owner) || divvy_is_own_field(field) || is_group(field) ||
			(!owner.n && str_is(field, "container")))
			continue;
		r = divvy_set_field(spec, &list.entry[i], field, err);
		if (r < 0)
			return r;
		*ret_any = true;
	}
	return 0;
}

static int divvy_read_group(struct dialect_draft *draft, struct error *err)
{
	static const char *const keys[] = {
		PREFIX "group", PREFIX "group-size", PREFIX "group-threshold"};
	const struct str *by = draft_annotation(draft, DIALECT_GROUP_BY_KEY);
	struct spec group;
	bool is_there = false;

	spec_init(&group);
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		const struct str *value = draft_annotation(draft, keys[i]);
		const struct manifest_entry e = {str_from(keys[i]), value ? *value : STR_NONE};
		int r = value ? divvy_set_field(&group, &e, str_from(keys[i] + strlen(PREFIX)), err)
			      : 0;

		if (r < 0)
			return r;
		is_there |= value != NULL;
	}
	if (by && (group.group[0] || group.group_size))
		return fail(err, EINVAL,
			DIALECT_GROUP_BY_KEY " '" SHOW
					     "' beside divvy.gpu/group%s: the system that "
					     "makes the pods states the group; keep one of the two",
			SHOWN(*by), group.group[0] ? "" : "-size");
	if (by)
		return dialect_read_group_by(draft, *by,
			group.group_threshold ? group.group_threshold : SPEC_SHARE_ONE, err);
	if (is_there && !group.group[0])
		return fail(err, EINVAL,
			"divvy.gpu/group-size or group-threshold: the group has no name; set "
			"divvy.gpu/group");
	if (!is_there)
		return 0;
	return draft_group(draft, PREFIX "group", str_from(group.group), group.group_size,
		group.group_threshold ? group.group_threshold : SPEC_SHARE_ONE, NULL, err);
}

/*
 * In a key NAME.divvy.gpu/FIELD the NAME must be that of a container, and a container has no gang
 * of its own.
 */
static int check_owners(const struct dialect_draft *draft, struct error *err)
{
	const struct manifest_list list = draft->pod->annotations;

	for (uint32_t i = 0; i < list.n; i++) {
		const struct str key = list.entry[i].key;
		struct str container, field;

		if (!divvy_split_key(key, &container, &field) || !container.n ||
			divvy_is_own_field(field))
			continue;
		if (manifest_container_find(draft->pod, container) == MANIFEST_NONE)
			return fail(err, EINVAL, "'" SHOW "': the pod has no container '" SHOW "'",
				SHOWN(key), SHOWN(container));
		if (is_group(field))
			return fail(err, EINVAL,
				"'" SHOW
				"': a group applies to the whole pod; write divvy.gpu/" SHOW,
				SHOWN(key), SHOWN(field));
	}
	return 0;
}

/*
 * Adds a note for each label that has the name of a field. Users set such labels by mistake: divvy
 * reads annotations only, and the pod gets no GPU.
 */
static void note_labels(struct dialect_draft *draft)
{
	const struct manifest_list list = draft->pod->labels;

	for (uint32_t i = 0; i < list.n; i++) {
		struct str container, field;
		char name[SPEC_FIELD];

		if (!divvy_split_key(list.entry[i].key, &container, &field))
			continue;
		for (size_t k = 0; spec_field_name(k, name); k++)
			if (str_is(field, name))
				draft_note(draft, SHOW " is read as an annotation only",
					SHOWN(list.entry[i].key));
	}
}

/* Applies the pod's fields first, then the container's own. */
static int divvy_add_container(
	struct dialect_draft *draft, uint32_t container, const struct spec *pods, struct error *err)
{
	const struct str name = draft->pod->container[container].name;
	struct spec spec;
	bool has_own = false;
	int r;

	if (pods)
		spec = *pods;
	else
		spec_init(&spec);
	r = divvy_read_fields(draft, name, &spec, &has_own, err);
	if (r < 0 || (!pods && !has_own))
		return r;
	return draft_add(draft, container, &spec, err);
}

static int divvy_translate(struct dialect_draft *draft, struct error *err)
{
	bool is_spoken_of[MANIFEST_CONTAINERS_MAX] = {false}, is_pods = false;
	struct spec pods;
	uint32_t container;
	int r = check_owners(draft, err);

	note_labels(draft);
	spec_init(&pods);
	r = r < 0 ? r : divvy_read_group(draft, err);
	r = r < 0 ? r : divvy_read_fields(draft, STR(""), &pods, &is_pods, err);
	/* Without fields of this dialect, divvy.gpu/container belongs to another dialect. */
	for (uint32_t i = 0; r == 0 && is_pods; i++) {
		r = draft_container(draft, i, &container, err);
		if (r <= 0)
			break;
		is_spoken_of[container] = true;
		r = 0;
	}
	for (uint32_t i = 0; r == 0 && i < draft->pod->n_containers; i++)
		r = divvy_add_container(draft, i, is_spoken_of[i] ? &pods : NULL, err);
	return r;
}

static const struct dialect_key keys[] = {
	{PREFIX "container", DIALECT_ANNOTATION, DIALECT_READS,
		"containers to which the pod's fields apply, with commas; else the default "
		"container"},
	{DIALECT_GROUP_BY_KEY, DIALECT_ANNOTATION, DIALECT_READS,
		"object of another system whose pods start together"},
#define ASSIGNED_KEY(name, of, is_needed, about) \
	{ASSIGNED_PREFIX name, DIALECT_ANNOTATION, DIALECT_GIVES, about},
#include "spec/assigned.def"
#undef ASSIGNED_KEY
	{ASSIGNED_GROUP_KEY, DIALECT_ANNOTATION, DIALECT_GIVES,
		"`GROUP=N`: no member starts before N are bound"},
	{ASSIGNED_EPOCH_KEY, DIALECT_ANNOTATION, DIALECT_GIVES,
		"epoch of the scheduler that decided"},
	{DIALECT_RECORD_KEY, DIALECT_ANNOTATION, DIALECT_GIVES,
		"foreign resources that the webhook removed from the containers"},
	{DIALECT_LIST_KEY, DIALECT_ANNOTATION, DIALECT_GIVES,
		"the active dialects at the pod's creation"},
	{MANIFEST_DEFAULT_KEY, DIALECT_ANNOTATION, DIALECT_GIVES,
		"the default container of a pod with several containers"},
	{DIALECT_REPLACED_KEY, DIALECT_ANNOTATION, DIALECT_GIVES,
		"how many pods of the SharePod failed one after the other before this pod"},
	{NULL},
};

static const char *const differs[] = {NULL};

const struct dialect dialect_divvy = {
	.name = "divvy",
	.title = "divvy's own",
	.coming = "Write these annotations into the pod, or into the template of a Job, "
		  "Deployment, StatefulSet or CronJob. `<container>.divvy.gpu/<field>` is for one"
		  " container and overrides the pod's field. [Requested "
		  "keys](reference/requested-keys.md) and [assigned "
		  "keys](reference/assigned-keys.md) have ranges and defaults.",
	.prefix = NULL, /* no common check: divvy_translate() refuses unknown keys */
	.keys = keys,
	.differs = differs,
	.translate = divvy_translate,
};
