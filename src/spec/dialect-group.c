/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the gang of a pod by the keys of other schedulers, which are listed in one table. A row
 * says where the size of the gang comes from: a second key, or a PodGroup of the named API group. A
 * pod may carry several of these keys if all name one gang, because draft_group() refuses a second
 * gang. The field of Kubernetes is the last row and counts only in pods without another gang: the
 * Job controller writes that field, and users write the keys. A second table has the values of
 * divvy.gpu/group-by: the labels by which each system marks pods of one object, and where the
 * number of these pods is. The tables are constant and the functions keep no state, so any thread
 * may call them with its own draft.
 */
#include "spec/dialect-group.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/parse.h"

#define SHOW "%.*s"
#define SHOWN(s) (int)MIN((s).n, (size_t)63), (s).p ? (s).p : ""

static const struct dialect_group_key keys[] = {
	{"scheduling.x-k8s.io/pod-group", DIALECT_LABEL, NULL, "scheduling.x-k8s.io",
		"the scheduler-plugins' coscheduling: name of a PodGroup"},
	{"pod-group.scheduling.sigs.k8s.io", DIALECT_LABEL, NULL, "scheduling.sigs.k8s.io",
		"the same in its older form, and Koordinator's"},
	{"pod-group.scheduling.sigs.k8s.io/name", DIALECT_LABEL,
		"pod-group.scheduling.sigs.k8s.io/min-available", NULL,
		"lightweight coscheduling: the name, and how many have to be there"},
	{"scheduling.k8s.io/group-name", DIALECT_ANNOTATION, NULL, "scheduling.volcano.sh",
		"Volcano, and what is run with it: name of a PodGroup"},
	{"scheduling.volcano.sh/group-name", DIALECT_ANNOTATION, NULL, "scheduling.volcano.sh",
		"the same in Volcano's own domain"},
	{"spec.schedulingGroup.podGroupName", DIALECT_FIELD, NULL, DIALECT_KUBE_GROUP,
		"Kubernetes' own PodGroup; without effect beside any other group"},
};

const struct dialect_group_key *dialect_group_key_at(size_t i)
{
	return i < ARRAY_SIZE(keys) ? &keys[i] : NULL;
}

static const struct str *dialect_group_find_key(
	const struct dialect_draft *draft, const struct dialect_group_key *k, const char *key)
{
	if (k->where == DIALECT_FIELD)
		return draft->result->group[0] ? NULL : &draft->pod->scheduling_group;
	return k->where == DIALECT_LABEL ? draft_label(draft, key) : draft_annotation(draft, key);
}

static int dialect_group_read_key(
	struct dialect_draft *draft, const struct dialect_group_key *k, struct error *err)
{
	const struct str *name = dialect_group_find_key(draft, k, k->key);
	const struct str *least = k->least ? dialect_group_find_key(draft, k, k->least) : NULL;
	uint64_t n = 0;

	if (!name || !name->n)
		return 0;
	if (k->least && !least) {
		draft_note(draft, "%s has no effect without %s; set both for a group", k->key,
			k->least);
		return 0;
	}
	if (least && parse_uint(*least, 1, SPEC_GROUP_SIZE_MAX, &n, NULL) < 0)
		return fail(err, EINVAL, "%s '" SHOW "': expected 1 to %u members", k->least,
			SHOWN(*least), SPEC_GROUP_SIZE_MAX);
	return draft_group(draft, k->key, *name, (uint32_t)n, SPEC_SHARE_ONE, k->object, err);
}

int dialect_read_groups(struct dialect_draft *draft, struct error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(keys); i++)
		r = dialect_group_read_key(draft, &keys[i], err);
	return r;
}

/* ---- groups by the objects of other systems ---- */

#define JOB_SET_NAME "jobset.sigs.k8s.io/jobset-name"
#define JOB_SET_PART "jobset.sigs.k8s.io/replicatedjob-name"
/* The pods of a restarted JobSet are a new group, because those of the attempt before terminate. */
#define JOB_SET_ATTEMPT "jobset.sigs.k8s.io/restart-attempt"
#define RAY_CLUSTER "ray.io/cluster"
#define RAY_GROUP "ray.io/group"

static const struct dialect_group_by group_by[] = {
	{"jobset", {JOB_SET_NAME, JOB_SET_ATTEMPT}, NULL, "jobset.x-k8s.io", JOB_SET_NAME, NULL,
		false, "all pods of a JobSet"},
	{"replicatedjob", {JOB_SET_NAME, JOB_SET_PART, JOB_SET_ATTEMPT}, NULL, "jobset.x-k8s.io",
		JOB_SET_NAME, JOB_SET_PART, false, "all pods of one replicated job of a JobSet"},
	{"jobset-job", {JOB_SET_NAME, "batch.kubernetes.io/job-name", JOB_SET_ATTEMPT}, NULL,
		"jobset.x-k8s.io", JOB_SET_NAME, JOB_SET_PART, true,
		"the pods of each Job of a JobSet"},
	{"leaderworkerset", {"leaderworkerset.sigs.k8s.io/group-key"},
		"leaderworkerset.sigs.k8s.io/size", NULL, NULL, NULL, false,
		"a leader and its workers"},
	{"raycluster", {RAY_CLUSTER}, NULL, "ray.io", RAY_CLUSTER, NULL, false,
		"head and workers of a RayCluster"},
	{"raygroup", {RAY_CLUSTER, RAY_GROUP}, NULL, "ray.io", RAY_CLUSTER, RAY_GROUP, false,
		"all workers of one worker group of a RayCluster"},
};

const struct dialect_group_by *dialect_group_by_at(size_t i)
{
	return i < ARRAY_SIZE(group_by) ? &group_by[i] : NULL;
}

static int dialect_group_by_find(
	struct str value, const struct dialect_group_by **ret, struct error *err)
{
	_cleanup_buf_ struct buf list = BUF_INIT(DIALECT_VALUE_MAX);

	for (size_t i = 0; i < ARRAY_SIZE(group_by); i++) {
		if (str_is(value, group_by[i].value)) {
			*ret = &group_by[i];
			return 0;
		}
		buf_addf(&list, "%s%s",
			i == 0                                 ? ""
				: i + 1 < ARRAY_SIZE(group_by) ? ", "
							       : " or ",
			group_by[i].value);
	}
	return fail(err, EINVAL, DIALECT_GROUP_BY_KEY " '" SHOW "': expected %s", SHOWN(value),
		buf_text(&list));
}

/* Returns whether the pod lacks the label, or the label is empty. */
static bool dialect_group_by_lacks(const struct dialect_draft *draft, const char *key)
{
	const struct str *value = draft_label(draft, key);

	return !value || !value->n;
}

/*
 * Appends the group's name, "VALUE:NAME:...". Returns 0; 1 if a label is missing that another
 * webhook may still write; -EINVAL if the pod has none of the labels. After 0, the pod has the
 * labels by->name and by->part.
 */
static int dialect_group_by_name(const struct dialect_draft *draft,
	const struct dialect_group_by *by, struct buf *name, struct error *err)
{
	const char *missing = NULL;
	uint32_t n = 0;

	buf_add_text(name, by->value);
	for (size_t i = 0; i < DIALECT_GROUP_BY_NAMES && by->name[i]; i++) {
		if (dialect_group_by_lacks(draft, by->name[i])) {
			missing = by->name[i];
			continue;
		}
		buf_addf(name, ":%" STR_FMT, STR_ARG(*draft_label(draft, by->name[i])));
		n++;
	}
	/* The name need not contain the part: a Job's name is unique without it. */
	if (by->part && dialect_group_by_lacks(draft, by->part))
		missing = by->part;
	if (missing && !n && !(by->least && draft_annotation(draft, by->least)))
		return fail(err, EINVAL,
			DIALECT_GROUP_BY_KEY
			" '%s': the pod has no label %s; write the key into "
			"the pod template of an object of that kind, or set divvy.gpu/group and "
			"divvy.gpu/group-size",
			by->value, missing);
	return buf_error(name) < 0
		? fail(err, EINVAL, DIALECT_GROUP_BY_KEY " '%s': labels too long", by->value)
		: missing != NULL;
}

static int dialect_group_by_least(const struct dialect_draft *draft,
	const struct dialect_group_by *by, uint32_t *ret_least, struct error *err)
{
	const struct str *least = by->least ? draft_annotation(draft, by->least) : NULL;
	uint64_t n = 0;

	if (by->least && !least)
		return fail(err, EINVAL,
			DIALECT_GROUP_BY_KEY " '%s': the pod has no annotation %s, which states "
					     "the number of members",
			by->value, by->least);
	if (least && parse_uint(*least, 1, SPEC_GROUP_SIZE_MAX, &n, NULL) < 0)
		return fail(err, EINVAL, "%s '" SHOW "': expected 1 to %u members", by->least,
			SHOWN(*least), SPEC_GROUP_SIZE_MAX);
	*ret_least = (uint32_t)n;
	return 0;
}

int dialect_read_group_by(
	struct dialect_draft *draft, struct str value, uint32_t threshold, struct error *err)
{
	_cleanup_buf_ struct buf name = BUF_INIT(DIALECT_VALUE_MAX);
	const struct dialect_group_by *by = NULL;
	uint32_t least = 0;
	int r = dialect_group_by_find(value, &by, err);

	if (r < 0)
		return r;
	draft->result->group_by = by;
	r = dialect_group_by_name(draft, by, &name, err);
	if (r != 0)
		return MIN(r, 0);
	r = dialect_group_by_least(draft, by, &least, err);
	if (r < 0)
		return r;
	r = draft_group(
		draft, DIALECT_GROUP_BY_KEY, buf_str(&name), least, threshold, by->object, err);
	if (r == 0 && by->object)
		draft->result->group_object_name = *draft_label(draft, by->object_name);
	if (r == 0 && by->part)
		draft->result->group_part = *draft_label(draft, by->part);
	return r;
}
