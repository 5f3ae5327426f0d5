/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Common fields of all API objects that placement needs. An object is parsed once, from JSON as the
 * API server serves it, into structs that it owns; no JSON is kept.
 *
 * `refusal` names a part of the object that was not understood. The object still counts with the
 * other parts: a bound pod uses its resources, for example. But a pod with a refusal, or one that
 * needs an object with a refusal, is not placed.
 */
#ifndef KUBERULES_OBJECT_H
#define KUBERULES_OBJECT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "kuberules/labels.h"

enum object_kind {
	OBJECT_POD,
	OBJECT_NODE,
	OBJECT_NAMESPACE,
	OBJECT_VOLUME,
	OBJECT_CLAIM,
	OBJECT_CLASS,
	OBJECT_CSI_NODE,
	OBJECT_CSI_DRIVER,
	OBJECT_CSI_CAPACITY,
	OBJECT_ATTACHMENT,
	OBJECT_KINDS,
};

struct object {
	struct arena arena; /* memory of all texts and arrays of the object */
	enum object_kind kind;
	unsigned minor; /* release 1.x of Kubernetes whose rules apply */
	const char *ns; /* "" for a kind without a namespace */
	const char *name;
	const char *uid;       /* "" if unknown */
	const char *owner_uid; /* uid of the object's controller; "": none */
	struct labels labels;
	bool is_deleting;
	/* Annotations, NULL if absent. */
	const char *selected_node, *class_annotation, *migrated_plugins;
	bool is_bind_completed;
	struct error refusal; /* code 0: none */
};

/* The kind's name as in kubectl, such as "pod" or "persistentvolumeclaim". */
const char *object_kind_name(enum object_kind kind);

/* -ENOENT: no kind has that name. */
int object_kind_parse(const char *name, enum object_kind *ret_kind);

/*
 * Creates an object as Kubernetes 1.`minor` counts it; the caller frees it by object_free().
 * -EINVAL: the JSON has no name; -ENOMEM. Returns 0 also for an object with a refusal.
 */
int object_new(enum object_kind kind, unsigned minor, json_t *json, struct object **ret_object,
	struct error *err);
void object_free(struct object *object);
DEFINE_CLEANUP(struct object *, object_free)

/*
 * A kind of object: `read` reads the fields that only this kind has, into a struct of `size` bytes
 * that begins with struct object.
 */
struct object_type {
	const char *name;
	size_t size;
	int (*read)(struct object *object, json_t *json, struct error *err);
	bool is_namespaced;
};

extern const struct object_type object_types[OBJECT_KINDS];
int pod_read(struct object *object, json_t *json, struct error *err);
int node_read(struct object *object, json_t *json, struct error *err);
int volume_read(struct object *object, json_t *json, struct error *err);
int claim_read(struct object *object, json_t *json, struct error *err);
int class_read(struct object *object, json_t *json, struct error *err);
int csi_node_read(struct object *object, json_t *json, struct error *err);
int csi_driver_read(struct object *object, json_t *json, struct error *err);
int csi_capacity_read(struct object *object, json_t *json, struct error *err);
int attachment_read(struct object *object, json_t *json, struct error *err);

#endif
