/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all objects of the API have, and what of it placing a pod needs. An object is parsed once,
 * from JSON as the API server serves it, into structs that it owns; no JSON is kept.
 *
 * What could not be understood of it stands in `refusal`: an object with one exists, and counts
 * with all that was understood, but no pod is placed by it.
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
	OBJECT_KINDS,
};

struct object {
	struct arena arena; /* all that follows, and what the kind adds */
	enum object_kind kind;
	const char *ns; /* "" of what has none */
	const char *name;
	const char *uid;       /* "" when unknown */
	const char *owner_uid; /* of the controller; "" when there is none */
	struct labels labels;
	bool is_deleting;
	/* Annotations, NULL when not there. */
	const char *selected_node, *class_annotation, *migrated_plugins;
	bool is_bind_completed;
	struct error refusal; /* code 0: none */
};

/* What `kubectl` calls the kind: "pod", "persistentvolumeclaim". */
const char *object_kind_name(enum object_kind kind);

/* -ENOENT for a name that is no kind's. */
int object_kind_parse(const char *name, enum object_kind *ret_kind);

/*
 * An object of that kind, the caller's, for object_free(). -EINVAL when it has no name (its
 * refusal is no failure here), -ENOMEM.
 */
int object_new(enum object_kind kind, json_t *json, struct object **ret_object, struct error *err);
void object_free(struct object *object);
DEFINE_CLEANUP(struct object *, object_free)

/* What a kind adds: its file says how the whole JSON is read into its struct. */
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

#endif
