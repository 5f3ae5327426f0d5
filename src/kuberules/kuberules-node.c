/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a node from JSON: see kuberules-node.h. */
#include "kuberules/kuberules-node.h"

#include <errno.h>

#include "base/cleanup.h"
#include "fields/read.h"
#include "kuberules/declared-features.h"

const char *const taint_effect_words[TAINT_EFFECTS] = {
	[TAINT_NO_SCHEDULE] = "NoSchedule",
	[TAINT_PREFER] = "PreferNoSchedule",
	[TAINT_NO_EXECUTE] = "NoExecute",
};

READ_WORD(read_effect, taint_effect_words)

static const struct read_field taint_fields[] = {
	READ_FIELD(struct taint, key, "key", read_text),
	READ_FIELD(struct taint, value, "value", read_text),
	READ_FIELD(struct taint, effect, "effect", read_effect),
	READ_NOTHING("timeAdded"),
};

static int read_taint(struct arena *arena, json_t *value, void *into, struct error *err)
{
	struct taint *taint = into;
	int r;

	taint->effect = -1;
	r = read_fields(arena, value, taint_fields, ARRAY_SIZE(taint_fields), taint, err);
	if (!taint->key)
		taint->key = "";
	if (!taint->value)
		taint->value = "";
	if (r == 0 && taint->effect < 0)
		r = fail(err, EINVAL, "has no effect");
	return r;
}

READ_LIST(read_taints, struct taint, read_taint)

static const struct read_field spec_fields[] = {
	READ_FIELD(struct node, taints, "taints", read_taints),
	READ_FIELD(struct node, is_unschedulable, "unschedulable", read_bool),
};

static const struct read_field status_fields[] = {
	READ_FIELD(struct node, allocatable, "allocatable", resources_read_node),
	READ_FIELD(struct node, features, "declaredFeatures", declared_features_read),
};

READ_SOME(node_read_spec, struct node, spec_fields)

READ_SOME(node_read_status, struct node, status_fields)

static const struct read_field node_fields[] = {
	{"spec", node_read_spec, 0},
	{"status", node_read_status, 0},
};

int node_read(struct object *object, json_t *json, struct error *err)
{
	return read_some(&object->arena, json, node_fields, ARRAY_SIZE(node_fields), object, err);
}
