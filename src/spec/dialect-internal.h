/* SPDX-License-Identifier: Apache-2.0 */
/* What the dialects' files share: reading a pod, adding a tenant, writing back. */
#ifndef SPEC_DIALECT_INTERNAL_H
#define SPEC_DIALECT_INTERNAL_H

#include "spec/dialect.h"

#define DIALECT_MIB (UINT64_C(1) << 20)

/* One translation, as the dialect whose turn it is sees it. */
struct dialect_draft {
	const struct manifest *pod;
	struct dialect_config config;
	const struct dialect *dialect;
	struct str record; /* foreign resources that are not in the containers any more */
	struct dialect_result *result;
};

extern const struct dialect dialect_divvy, dialect_kubeshare, dialect_kubeshare2, dialect_gemini,
	dialect_gpushare, dialect_gaiagpu, dialect_deepomatic, dialect_hami, dialect_wang,
	dialect_nvidia;

bool dialect_is_on(const struct dialect_config *config, const struct dialect *dialect);

/* ---- reading ---- */

const struct str *draft_annotation(const struct dialect_draft *draft, const char *key);
const struct str *draft_label(const struct dialect_draft *draft, const char *key);

/* A terminated copy for functions that want one. -EINVAL names the key. */
int draft_text(
	const char *key, struct str value, char ret[static DIALECT_VALUE_MAX], struct error *err);

/*
 * What the container asks of that resource, from the pod or the record: 1 and the value, and it is
 * noted as foreign; 0: nothing. -EINVAL names resource, value and range.
 */
int draft_resource(struct dialect_draft *draft, uint32_t container, const char *resource,
	uint64_t max, uint64_t *ret_value, struct error *err);
bool draft_has_resource(
	const struct dialect_draft *draft, uint32_t container, const char *resource);

/* A share as users of floating point write it: "0.5", "1.0", ".5", "5e-1"; at most `max`. */
int draft_share(
	const char *key, struct str value, uint32_t max, uint32_t *ret_permille, struct error *err);
/* Bytes, a whole number, above 0 unless may_be_zero. */
int draft_bytes(const char *key, struct str value, bool may_be_zero, uint64_t *ret_bytes,
	struct error *err);

/* request, limit and memory, all three: of KubeShare 1.0 and those that took over its form. */
struct dialect_fraction {
	const char *request, *limit, *memory;
};

/* Annotations into a spec that is not finished. Request 0: the class opportunistic. */
int draft_fraction(const struct dialect_draft *draft, const struct dialect_fraction *keys,
	struct spec *ret_spec, struct error *err);
/* A label of another's, "" is none. */
int draft_spec_label(const struct dialect_draft *draft, const char *key,
	char ret[static SPEC_LABEL], struct error *err);

/* The name of a vGPU into the result: of one on the node that the pod names. */
int draft_vgpu(struct dialect_draft *draft, const char *key, struct error *err);

/* ---- result ---- */

/* Finishes the spec. -EINVAL where another dialect asks something else for that container. */
int draft_add(
	struct dialect_draft *draft, uint32_t container, struct spec *spec, struct error *err);
/* The same for what speaks of the pod: manifest_main(), or those of divvy.gpu/container. */
int draft_add_pod(struct dialect_draft *draft, struct spec *spec, struct error *err);

/* One container that the pod's fields speak of, in turn, from 0; 1, or 0 behind the last. */
int draft_container(
	const struct dialect_draft *draft, uint32_t i, uint32_t *ret_container, struct error *err);

/* size 0: the object says. -EINVAL where the pod is in another group already. */
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
	const struct dialect_given *given;
	dialect_put_fn put;
	void *data;
};

/* The first tenant of the writer's dialect from number `from` on, or n_tenants. */
uint32_t writer_next(const struct dialect_writer *w, uint32_t from);

int writer_put(const struct dialect_writer *w, enum dialect_where where, uint32_t container,
	const char *key, const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* Of each device of the grant, with commas between. */
enum writer_list { WRITER_UUIDS, WRITER_INDEXES };
int writer_put_list(const struct dialect_writer *w, uint32_t tenant, enum writer_list list,
	enum dialect_where where, uint32_t container, const char *key);

/* KubeShare 1.0's, and of who took over its form: the vGPU's name, and UUID and port as status. */
int writer_put_vgpu(
	const struct dialect_writer *w, const char *name, const char *uuid, const char *port);

#endif
