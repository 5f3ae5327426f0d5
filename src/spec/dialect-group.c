/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the gang of a pod by the keys of other schedulers, which are listed in one table. A row
 * says where the size of the gang comes from: a second key, or a PodGroup of the named API group. A
 * pod may carry several of these keys if all name one gang, because draft_group() refuses a second
 * gang. The field of Kubernetes is the last row and counts only in pods without another gang: the
 * Job controller writes that field, and users write the keys. The table is constant and the
 * functions keep no state, so any thread may call them with its own draft.
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
