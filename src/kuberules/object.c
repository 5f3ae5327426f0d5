/* SPDX-License-Identifier: Apache-2.0 */
/* Fields that all objects share: see object.h. */
#include "kuberules/object.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "fields/read.h"
#include "kuberules/kuberules-node.h"
#include "kuberules/pod.h"
#include "kuberules/storage.h"

/* Of a namespace the rules need only the labels, which object_new() reads. */
static int namespace_read(struct object *object, json_t *json, struct error *err)
{
	return 0;
}

const struct object_type object_types[OBJECT_KINDS] = {
	[OBJECT_POD] = {"pod", sizeof(struct pod), pod_read, true},
	[OBJECT_NODE] = {"node", sizeof(struct node), node_read},
	[OBJECT_NAMESPACE] = {"namespace", sizeof(struct object), namespace_read},
	[OBJECT_VOLUME] = {"persistentvolume", sizeof(struct volume), volume_read},
	[OBJECT_CLAIM] = {"persistentvolumeclaim", sizeof(struct claim), claim_read, true},
	[OBJECT_CLASS] = {"storageclass", sizeof(struct storage_class), class_read},
	[OBJECT_CSI_NODE] = {"csinode", sizeof(struct csi_node), csi_node_read},
	[OBJECT_CSI_DRIVER] = {"csidriver", sizeof(struct csi_driver), csi_driver_read},
	[OBJECT_CSI_CAPACITY] = {"csistoragecapacity", sizeof(struct csi_capacity),
		csi_capacity_read, true},
	[OBJECT_ATTACHMENT] = {"volumeattachment", sizeof(struct attachment), attachment_read},
};

const char *object_kind_name(enum object_kind kind)
{
	return object_types[kind].name;
}

int object_kind_parse(const char *name, enum object_kind *ret_kind)
{
	for (int i = 0; i < OBJECT_KINDS; i++)
		if (!strcmp(object_types[i].name, name)) {
			*ret_kind = (enum object_kind)i;
			return 0;
		}
	return -ENOENT;
}

static const struct read_field annotation_fields[] = {
	READ_FIELD(struct object, selected_node, "volume.kubernetes.io/selected-node", read_text),
	READ_FIELD(struct object, class_annotation, "volume.beta.kubernetes.io/storage-class",
		read_text),
	READ_FIELD(struct object, migrated_plugins, "storage.alpha.kubernetes.io/migrated-plugins",
		read_text),
	READ_FIELD(struct object, is_bind_completed, "pv.kubernetes.io/bind-completed", read_true),
};

READ_SOME(read_annotations, struct object, annotation_fields)

struct owner {
	const char *uid;
	bool is_controller;
};

static const struct read_field owner_fields[] = {
	READ_FIELD(struct owner, uid, "uid", read_text),
	READ_FIELD(struct owner, is_controller, "controller", read_bool),
};

static int read_owners(struct arena *arena, json_t *value, void *into, struct error *err)
{
	struct object *object = into;
	json_t *one;
	size_t i;

	json_array_foreach(value, i, one) {
		struct owner owner = {0};
		int r = read_some(arena, one, owner_fields, ARRAY_SIZE(owner_fields), &owner, err);

		if (r < 0)
			return r;
		if (owner.is_controller && owner.uid)
			object->owner_uid = owner.uid;
	}
	return 0;
}

static const struct read_field metadata_fields[] = {
	READ_FIELD(struct object, ns, "namespace", read_text),
	READ_FIELD(struct object, name, "name", read_text),
	READ_FIELD(struct object, uid, "uid", read_text),
	READ_FIELD(struct object, labels, "labels", labels_read),
	READ_FIELD(struct object, is_deleting, "deletionTimestamp", read_true),
	{"annotations", read_annotations, 0},
	{"ownerReferences", read_owners, 0},
};

int object_new(enum object_kind kind, unsigned minor, json_t *json, struct object **ret_object,
	struct error *err)
{
	const struct object_type *type = &object_types[kind];
	_cleanup_(object_free_p) struct object *object = calloc(1, type->size);
	int r;

	if (!object)
		return fail(err, ENOMEM, "out of memory");
	object->kind = kind;
	object->minor = minor;
	object->ns = object->uid = object->owner_uid = "";
	r = read_some(&object->arena, json_object_get(json, "metadata"), metadata_fields,
		ARRAY_SIZE(metadata_fields), object, err);
	if (r < 0)
		return fail_within(err, r, "%s: metadata", type->name);
	if (!object->name || !*object->name)
		return fail(err, EINVAL, "%s: metadata: has no name", type->name);
	if (!type->is_namespaced)
		object->ns = "";
	r = type->read(object, json, &object->refusal);
	if (r == -ENOMEM)
		return fail(err, ENOMEM, "%s %s: out of memory", type->name, object->name);
	*ret_object = TAKE_PTR(object);
	return 0;
}

void object_free(struct object *object)
{
	struct arena arena;

	if (!object)
		return;
	arena = object->arena;
	free(object);
	arena_done(&arena);
}
