/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pods into specs: what a pod asks of GPUs in divvy's own annotations or in those, the labels and
 * the resources of another system, and back into what that system's users and tools expect to read.
 * Each dialect is one file and one entry of the table; docs/dialects.md is made from it.
 *
 * Pure: no I/O, no clock. A translation is a function of the pod and of the namespace's list of
 * dialects; that of a pod which dialect_record_format has been written into, and whose foreign
 * resources are gone, is the same again. Any thread.
 */
#ifndef SPEC_DIALECT_H
#define SPEC_DIALECT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "spec/manifest.h"
#include "spec/spec.h"

#define DIALECT_TENANTS_MAX 64u /* containers of one pod that have a share */
#define DIALECT_VALUE_MAX 512u  /* bytes of one value that is read */
#define DIALECT_RECORD_MAX (16u << 10)
#define DIALECT_NOTES_MAX 8u

/* Of a pod: the dialects it was translated with, and its foreign resources; divvy writes them. */
#define DIALECT_LIST_KEY "divvy.gpu/dialects" /* of a namespace: which are switched on */
#define DIALECT_RECORD_KEY "divvy.gpu/translated-from"
/* Label of a pod, "true": the webhook has seen that it asks. Nobody sets or removes it later. */
#define DIALECT_TENANT_LABEL "divvy.gpu/tenant"
/* Label of a namespace, "ignore": the webhook sees nothing of it. */
#define DIALECT_ADMISSION_LABEL "divvy.gpu/admission"

struct dialect;
struct dialect_draft; /* dialect-internal.h */
struct dialect_writer;

/* ---- which are on ---- */

struct dialect_config {
	uint32_t enabled;               /* bits, by place in the table; divvy's own is always on */
	bool gpushare_is_mib;           /* gpu-mem counts MiB, not GiB */
	uint32_t deepomatic_per_device; /* containers on one device */
};

/*
 * "hami, gpushare=MiB, deepomatic=4" as the namespace's annotation has it; "": divvy's own alone.
 * -EINVAL with a sentence.
 */
int dialect_config_parse(struct str list, struct dialect_config *ret_config, struct error *err);

/* The same as text that gives it again. -EMSGSIZE: out's maximum. */
int dialect_config_format(const struct dialect_config *config, struct buf *out);

/* ---- pod -> specs ---- */

struct dialect_tenant {
	uint32_t container;
	const struct dialect *dialect; /* that asked, the first in the table of several */
	struct spec spec;              /* finished */
};

/* A resource of another system's that is taken out of the container. */
struct dialect_foreign {
	uint32_t container;
	struct str resource; /* of the pod, or of the dialect's table */
	uint64_t value;
};

struct dialect_result {
	struct dialect_tenant *tenant; /* by container; none: no pod of ours */
	uint32_t n_tenants, tenants_room;
	struct dialect_foreign *foreign;
	uint32_t n_foreign, foreign_room;
	bool has_default; /* keys that name no container are of this one */
	uint32_t default_container;
	struct dialect_config config; /* what it was translated with: the pod's own list, if any */
	struct str vgpu; /* KubeShare's GPUID: with the node's name, the same means one device */
	/* Of pods without a share too. "" none; every tenant's spec has it. */
	char group[SPEC_GROUP];
	uint32_t group_size, group_threshold;
	/* The API group whose PodGroup of that name says the size (spec.minMember); NULL: known. */
	const char *group_object;
	/* What the user should hear although nothing is refused. */
	char note[DIALECT_NOTES_MAX][sizeof(((struct error *)0)->msg)];
	uint32_t n_notes;
};

/*
 * -EINVAL with one sentence that names field, value and what is possible; -ENOMEM. Borrows from
 * the pod. dialect_result_done also after a failure.
 */
int dialect_translate(const struct manifest *pod, const struct dialect_config *config,
	struct dialect_result *ret_result, struct error *err);
void dialect_result_done(struct dialect_result *result);
#define _cleanup_dialect_ __attribute__((cleanup(dialect_result_done)))

/*
 * The foreign resources as text for DIALECT_RECORD_KEY: "main/nvidia.com/gpu=1,...". -EMSGSIZE:
 * out's maximum.
 */
int dialect_record_format(
	const struct manifest *pod, const struct dialect_result *result, struct buf *out);

/*
 * What a pod adds up to for quotas, by Kubernetes' rule (manifest_add_up): slots, permille of
 * devices, and bytes as far as they are known before placement.
 */
struct dialect_need {
	uint64_t slots, milli, memory_bytes;
};

int dialect_need(const struct manifest *pod, const struct dialect_result *result,
	struct dialect_need *ret_need, struct error *err);

/* ---- back ---- */

struct dialect_device {
	uint32_t index; /* on its node */
	const char *uuid, *model;
	const char *cell; /* place in the cell tree, "1/2/0"; NULL: not known */
	uint64_t memory_bytes, granted_bytes;
};

struct dialect_grant {
	const struct dialect_device *device;
	uint32_t n_devices;
	uint32_t request, limit; /* permille, as granted */
};

struct dialect_given {
	const char *node;
	const char *vgpu;                  /* name of the vGPU (GPUID); NULL: none */
	uint64_t time_ns;                  /* since 1970 */
	const struct dialect_grant *grant; /* one for each tenant of the result */
};

enum dialect_where {
	DIALECT_ANNOTATION,
	DIALECT_LABEL,
	DIALECT_RESOURCE,
	DIALECT_ENV,    /* of a container, by the device plugin: never in the pod's spec */
	DIALECT_STATUS, /* of the other system's own object */
	DIALECT_N_WHERES
};

/* The container is MANIFEST_NONE where it is the pod's. A negative return ends the writing. */
typedef int (*dialect_put_fn)(void *data, enum dialect_where where, uint32_t container,
	const char *key, const char *value);

/* What each dialect's users expect, beside the given keys. The first negative of `put`. */
int dialect_write_back(const struct manifest *pod, const struct dialect_result *result,
	const struct dialect_given *given, dialect_put_fn put, void *data);

/*
 * Of a pod whose containers run since time_ns (since 1970): what its dialect's users expect to
 * change then. Nothing where it has been changed, or nothing of that kind was written. get: the
 * pod's annotation, or NULL. The first negative of `put`.
 */
int dialect_write_running(const char *(*get)(void *data, const char *key), uint64_t time_ns,
	dialect_put_fn put, void *data);

/* Is that annotation the scheduler's alone to set? */
bool dialect_is_given(struct str key);
/* Is it the webhook's: the record, the list, or the default container? */
bool dialect_is_recorded(struct str key);

/* ---- the table ---- */

enum dialect_use {
	DIALECT_ASKS, /* makes the pod one of this dialect's */
	DIALECT_READS,
	DIALECT_GIVES,
	DIALECT_IGNORES, /* with a note */
};

struct dialect_key {
	const char *key;
	enum dialect_where where;
	enum dialect_use use;
	const char *about;
};

/* An annotation that changes when the pod's containers run. */
struct dialect_step {
	const char *key;
	const char *before; /* as write_back has it; NULL: it is not there */
	const char *after;  /* NULL: since when, ns since 1970 */
};

struct dialect {
	const char *name;   /* in the list of a namespace */
	const char *title;  /* how its users call it */
	const char *coming; /* for who comes from there: what to do */
	const char *prefix; /* of keys that are all its own; NULL: it shares its prefix */
	const struct dialect_key *keys; /* ends with key NULL */
	/* What is not as in the original, and why; ends with NULL. */
	const char *const *differs;
	int (*translate)(struct dialect_draft *draft, struct error *err);
	int (*write_back)(struct dialect_writer *writer); /* NULL: nothing is read back */
	/* The first has a `before`: where the pod has that, all are due; ends with key NULL. */
	const struct dialect_step *running; /* NULL: nothing changes */
};

/* NULL behind the last; 0 is divvy's own. */
const struct dialect *dialect_at(size_t i);

#endif
