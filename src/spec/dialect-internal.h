/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that the dialects' files share: read a pod, add a tenant, write back. Pure; any thread.
 */
#ifndef SPEC_DIALECT_INTERNAL_H
#define SPEC_DIALECT_INTERNAL_H

#include "spec/dialect.h"

#define DIALECT_MIB (UINT64_C(1) << 20)

/* State of one translation; `dialect` is the dialect whose `translate` is running. */
struct dialect_draft {
	const struct manifest *pod;
	struct dialect_config config;
	const struct dialect *dialect;
	struct str record; /* foreign resources that the webhook has removed from the containers */
	struct dialect_result *result;
};

extern const struct dialect dialect_divvy, dialect_kubeshare, dialect_kubeshare2, dialect_gemini,
	dialect_gpushare, dialect_gaiagpu, dialect_deepomatic, dialect_hami, dialect_wang,
	dialect_nvidia, dialect_kai, dialect_volcano, dialect_koordinator, dialect_timeslicing,
	dialect_mig;

bool dialect_is_on(const struct dialect_config *config, const struct dialect *dialect);

/* ---- reading ---- */

const struct str *draft_annotation(const struct dialect_draft *draft, const char *key);
const struct str *draft_label(const struct dialect_draft *draft, const char *key);

/*
 * Copies the value and terminates the copy. -EINVAL, with the key in the message, if the value is
 * too long or has a 0 byte.
 */
int draft_text(
	const char *key, struct str value, char ret[static DIALECT_VALUE_MAX], struct error *err);

/*
 * Reads the resource of the container from the pod, or from draft->record if the webhook has
 * removed it from the pod. Returns 1 with the value, and adds the resource to the result's foreign
 * resources. Returns 0 if the container has no such resource. -EINVAL, with resource, value and
 * range in the message.
 */
int draft_resource(struct dialect_draft *draft, uint32_t container, const char *resource,
	uint64_t max, uint64_t *ret_value, struct error *err);
/* As draft_resource(), for a name that the result borrows from the pod. */
int draft_resource_named(struct dialect_draft *draft, uint32_t container, struct str resource,
	uint64_t max, uint64_t *ret_value, struct error *err);
bool draft_has_resource(
	const struct dialect_draft *draft, uint32_t container, const char *resource);

/* A place among the resources of a container; starts zeroed. */
struct draft_cursor {
	uint32_t at;
	bool is_in_record;
	struct str rest;
};

/*
 * Returns true with the name of the container's next resource that begins with `beginning`. A name
 * may come twice: as limit, as request, or in draft->record. false: there is no further one.
 */
bool draft_next_resource(const struct dialect_draft *draft, uint32_t container,
	const char *beginning, struct draft_cursor *cursor, struct str *ret_name);

/*
 * Parses a share in the forms of floating point: "0.5", "1.0", ".5", "5e-1"; at most `max`.
 * -EINVAL.
 */
int draft_share(
	const char *key, struct str value, uint32_t max, uint32_t *ret_permille, struct error *err);
/* Parses a whole number of bytes, above 0 unless may_be_zero. -EINVAL. */
int draft_bytes(const char *key, struct str value, bool may_be_zero, uint64_t *ret_bytes,
	struct error *err);

/* The keys of KubeShare 1.0, and of dialects with the same form. All three are required. */
struct dialect_fraction {
	const char *request, *limit, *memory;
};

/*
 * Reads the three annotations into an unfinished spec. Request 0 means class opportunistic.
 * -EINVAL.
 */
int draft_fraction(const struct dialect_draft *draft, const struct dialect_fraction *keys,
	struct spec *ret_spec, struct error *err);
/* Reads a label of another system; an empty or absent label leaves ret unchanged. -EINVAL. */
int draft_spec_label(const struct dialect_draft *draft, const char *key,
	char ret[static SPEC_LABEL], struct error *err);

/*
 * Stores the vGPU's name in the result. -EINVAL if the pod names no node, or if another key has
 * named another vGPU.
 */
int draft_vgpu(struct dialect_draft *draft, const char *key, struct error *err);

/* ---- result ---- */

/*
 * Finishes the spec and adds a tenant. -EINVAL if the spec is faulty, or if another dialect has
 * added a different spec for that container.
 */
int draft_add(
	struct dialect_draft *draft, uint32_t container, struct spec *spec, struct error *err);
/*
 * As draft_add(), for keys of the whole pod: adds the containers that divvy.gpu/container names, or
 * manifest_main().
 */
int draft_add_pod(struct dialect_draft *draft, struct spec *spec, struct error *err);
/* Adds the note that only the default container gets a share, if the pod has several containers. */
void draft_note_default(struct dialect_draft *draft);

/*
 * Container i, from 0, among the containers that the pod's keys apply to. Returns 1, 0 after the
 * last, or -EINVAL.
 */
int draft_container(
	const struct dialect_draft *draft, uint32_t i, uint32_t *ret_container, struct error *err);

/*
 * Sets the pod's gang. size 0: a PodGroup (`object`) gives the size. -EINVAL if the pod is already
 * in another gang.
 */
int draft_group(struct dialect_draft *draft, const char *key, struct str name, uint32_t size,
	uint32_t threshold, const char *object, struct error *err);

void draft_note(struct dialect_draft *draft, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* ---- writing back ---- */

struct dialect_writer {
	const struct manifest *pod;
	const struct dialect_config *config;
	const struct dialect *dialect;
	const struct dialect_result *result;
	const struct dialect_assigned *given;
	dialect_put_fn put;
	void *data;
};

/* The first tenant of the writer's dialect from index `from` on, or n_tenants. */
uint32_t writer_next(const struct dialect_writer *w, uint32_t from);

int writer_put(const struct dialect_writer *w, enum dialect_where where, uint32_t container,
	const char *key, const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* Writes the UUIDs or indexes of the grant's devices, separated by commas. */
enum writer_list { WRITER_UUIDS, WRITER_INDEXES };
int writer_put_list(const struct dialect_writer *w, uint32_t tenant, enum writer_list list,
	enum dialect_where where, uint32_t container, const char *key);

/*
 * For KubeShare 1.0 and dialects of its form: writes the vGPU's name, and the UUID and port as
 * status.
 */
int writer_put_vgpu(
	const struct dialect_writer *w, const char *name, const char *uuid, const char *port);

#endif
