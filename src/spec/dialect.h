/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Translates a pod into specs: from divvy's own annotations, or from annotations, labels and
 * resources of another system. Also writes back the keys that users and tools of that system read.
 * Each dialect is one file and one entry of the table, from which docs/dialects.md is made.
 *
 * Pure: no I/O, no clock. The result depends only on the pod and on the namespace's list of
 * dialects. The webhook writes the record (dialect_record_format) into the pod and removes the
 * pod's foreign resources; a later translation gives the same result. Any thread.
 */
#ifndef SPEC_DIALECT_H
#define SPEC_DIALECT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "spec/manifest.h"
#include "spec/spec.h"

#define DIALECT_TENANTS_MAX 64u /* most containers with a share in one pod */
#define DIALECT_VALUE_MAX 512u  /* buffer for a value and its NUL; longer ones are refused */
#define DIALECT_RECORD_MAX (16u << 10)
#define DIALECT_NOTES_MAX 8u

/*
 * Annotations that the webhook writes into a pod. DIALECT_LIST_KEY: the dialects that were on when
 * the pod was translated. DIALECT_RECORD_KEY: the pod's foreign resources.
 */
#define DIALECT_LIST_KEY "divvy.gpu/dialects" /* also on a namespace: the dialects that are on */
#define DIALECT_RECORD_KEY "divvy.gpu/translated-from"
/* on a SharePod's pod: number of pods in a row that failed before it */
#define DIALECT_REPLACED_KEY "divvy.gpu/replaced-pods"
/*
 * Label "true" of a pod: the webhook found a request for a GPU. No program changes the label later.
 */
#define DIALECT_TENANT_LABEL "divvy.gpu/tenant"
/* Label "ignore" of a namespace: the webhook skips its pods. */
#define DIALECT_ADMISSION_LABEL "divvy.gpu/admission"
/* Annotation of a user: the pods of one object of another system are a gang. */
#define DIALECT_GROUP_BY_KEY "divvy.gpu/group-by"
/* The API group of Kubernetes' own PodGroups, which spec.schedulingGroup names. */
#define DIALECT_KUBE_GROUP "scheduling.k8s.io"

struct dialect;
struct dialect_draft; /* dialect-internal.h */
struct dialect_writer;

/* ---- which dialects are on ---- */

struct dialect_config {
	/* bits by index in the table; divvy's own dialect is always on */
	uint32_t enabled;
	bool gpushare_is_mib;           /* gpu-mem counts MiB, not GiB */
	uint32_t deepomatic_per_device; /* number of containers that share one device */
	uint32_t volcano_mib;           /* MiB in a unit of vgpu-memory */
	uint32_t timeslicing_replicas;  /* replicas of each device; 0: the dialect is off */
};

/*
 * Parses the namespace's annotation, such as "hami, gpushare=MiB, deepomatic=4"; "": only divvy's
 * own dialect. Returns 0 or -EINVAL.
 */
int dialect_config_parse(struct str list, struct dialect_config *ret_config, struct error *err);

/* The inverse of dialect_config_parse(). -EMSGSIZE if out is full. */
int dialect_config_format(const struct dialect_config *config, struct buf *out);

/* Whether a dialect that is on belongs to the scheduler of that name (spec.schedulerName). */
bool dialect_has_scheduler(const struct dialect_config *config, struct str name);

/* ---- pod -> specs ---- */

#define DIALECT_GROUP_BY_NAMES 3u /* most labels that name one group */

/* A value of divvy.gpu/group-by: pods of one object of another system that start together. */
struct dialect_group_by {
	const char *value;
	const char *name[DIALECT_GROUP_BY_NAMES]; /* labels that together name one group */
	/* annotation with the number of members; NULL: the object states it */
	const char *least;
	const char *object;      /* API group of the object; NULL: `least` states the number */
	const char *object_name; /* label with the object's name */
	const char *part;        /* label with the part of the object; NULL: the whole object */
	bool is_one;             /* the group is one of the part's equal units, such as one Job */
	const char *about;
};

struct dialect_tenant {
	uint32_t container;
	/* the first dialect in the table that requested a GPU for this container */
	const struct dialect *dialect;
	struct spec spec; /* finished */
};

/* A resource of another system, which the webhook removes from the container. */
struct dialect_foreign {
	uint32_t container;
	struct str resource; /* borrowed from the pod or the dialect's table */
	uint64_t value;
};

struct dialect_result {
	/* ordered by container; n_tenants 0: the pod requests no GPU */
	struct dialect_tenant *tenant;
	uint32_t n_tenants, tenants_room;
	struct dialect_foreign *foreign;
	uint32_t n_foreign, foreign_room;
	bool has_default; /* keys without a container's name apply to default_container */
	uint32_t default_container;
	/* dialects that are on for this pod, by the pod's own list if it has one */
	struct dialect_config config;
	struct str vgpu; /* KubeShare's GPUID: with the node's name it identifies one device */
	/* The gang, also of pods without a share, and copied into each tenant's spec; "": none. */
	char group[SPEC_GROUP];
	uint32_t group_size, group_threshold;
	/* API group of the object that gives the size; NULL: the size is known. */
	const char *group_object;
	/* The object's name, and its part with this pod; empty: the group's name, and no part. */
	struct str group_object_name, group_part;
	const struct dialect_group_by *group_by; /* row of DIALECT_GROUP_BY_KEY; NULL: none */
	/* Notes for the user about a pod that is not refused. */
	char note[DIALECT_NOTES_MAX][sizeof(((struct error *)0)->msg)];
	uint32_t n_notes;
};

/*
 * Translates a pod. Returns 0; -EINVAL, with field, value and allowed range in the message;
 * -ENOMEM. The result borrows from the pod. Call dialect_result_done also after a failure.
 */
int dialect_translate(const struct manifest *pod, const struct dialect_config *config,
	struct dialect_result *ret_result, struct error *err);
void dialect_result_done(struct dialect_result *result);
#define _cleanup_dialect_ __attribute__((cleanup(dialect_result_done)))

/*
 * Writes the foreign resources for DIALECT_RECORD_KEY: "main/nvidia.com/gpu=1,...". -EMSGSIZE if
 * out is full.
 */
int dialect_record_format(
	const struct manifest *pod, const struct dialect_result *result, struct buf *out);

/*
 * Totals of a pod for quotas, by Kubernetes' rule (manifest_add_up): slots, permille of devices,
 * and bytes, as far as known before placement.
 */
struct dialect_need {
	uint64_t slots, milli, memory_bytes;
};

int dialect_need(const struct manifest *pod, const struct dialect_result *result,
	struct dialect_need *ret_need, struct error *err);

/* ---- writing back ---- */

struct dialect_device {
	uint32_t index; /* index of the device on its node */
	const char *uuid, *model;
	const char *cell; /* place in the cell tree, "1/2/0"; NULL: unknown */
	uint64_t memory_bytes, granted_bytes;
};

struct dialect_grant {
	const struct dialect_device *device;
	uint32_t n_devices;
	uint32_t request, limit; /* permille, as granted */
};

struct dialect_assigned {
	const char *node;
	const char *vgpu;                  /* name of the vGPU (GPUID); NULL: none */
	uint64_t time_ns;                  /* since 1970 */
	const struct dialect_grant *grant; /* one for each tenant of the result */
};

enum dialect_where {
	DIALECT_ANNOTATION,
	DIALECT_LABEL,
	DIALECT_RESOURCE,
	DIALECT_ENV, /* environment variable that the device plugin sets: never in the pod's spec */
	DIALECT_STATUS, /* status of the other system's own object */
	DIALECT_FIELD,  /* a field of the pod's spec; dialect-group.c reads the only one */
	DIALECT_N_WHERES
};

/*
 * Receives one value; container is MANIFEST_NONE for a value of the pod. A negative result ends the
 * writing.
 */
typedef int (*dialect_put_fn)(void *data, enum dialect_where where, uint32_t container,
	const char *key, const char *value);

/*
 * Writes the keys that users and tools of each dialect expect, in addition to the assigned keys.
 * Returns 0 or the first negative result of `put`.
 */
int dialect_write_back(const struct manifest *pod, const struct dialect_result *result,
	const struct dialect_assigned *given, dialect_put_fn put, void *data);

/* Returns an annotation or a label of the pod, or NULL. */
typedef const char *(*dialect_get_fn)(void *data, enum dialect_where where, const char *key);

/*
 * Writes the annotations and labels that a dialect's users expect when the pod's containers have
 * started, at time_ns since 1970. Writes nothing for a dialect whose annotation the pod does not
 * have, and nothing that the pod has already. Returns 0 or the first negative result of `put`.
 */
int dialect_write_running(dialect_get_fn get, uint64_t time_ns, dialect_put_fn put, void *data);

/* Whether only the scheduler may set that annotation. */
bool dialect_is_assigned(struct str key);
/*
 * Whether the annotation is written when the pod is created and must not change later: the record
 * of foreign resources, the list of dialects, the default container, or the count of replaced pods.
 */
bool dialect_is_recorded(struct str key);

/* ---- the table ---- */

enum dialect_use {
	DIALECT_REQUESTS, /* the key requests a GPU in this dialect */
	DIALECT_READS,
	DIALECT_GIVES,
	DIALECT_IGNORES, /* ignored, with a note */
};

struct dialect_key {
	/* A key that ends in '-', '_' or '.' is the beginning of names: "nvidia.com/mig-". */
	const char *key;
	enum dialect_where where;
	enum dialect_use use;
	const char *about;
};

/* An annotation that changes when the pod's containers have started. */
struct dialect_step {
	const char *key;
	const char *before; /* value from write_back; NULL: absent before */
	const char *after;  /* NULL: the start time, ns since 1970 */
};

/* A label of running pods that have the annotation: the UUID of the pod's first device. */
struct dialect_label {
	const char *key, *annotation;
};

struct dialect {
	const char *name;   /* name in a namespace's list of dialects */
	const char *title;  /* name of the other system */
	const char *coming; /* instructions for migration */
	/* The other system's names for spec.schedulerName; ends with NULL. NULL: none. */
	const char *const *schedulers;
	/* The keys have a meaning without divvy: no note in pods if the dialect is off. */
	bool is_native;
	/* prefix of keys that all belong to the dialect; NULL: other systems use the prefix too */
	const char *prefix;
	const struct dialect_key *keys; /* ends with key NULL */
	/* Differences from the other system, with their reasons; ends with NULL. */
	const char *const *differs;
	int (*translate)(struct dialect_draft *draft, struct error *err);
	int (*write_back)(struct dialect_writer *writer); /* NULL: users read nothing back */
	/*
	 * Annotations that change when the pod's containers have started. The first step has a
	 * `before`: if the pod's annotation has this value, all steps are carried out. Ends with
	 * key NULL.
	 */
	const struct dialect_step *running; /* NULL: nothing changes */
	struct dialect_label label;         /* key NULL: none */
};

/* Dialect i; 0 is divvy's own; NULL after the last. */
const struct dialect *dialect_at(size_t i);

#endif
