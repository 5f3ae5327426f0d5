/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts that HAMi and Volcano's vGPU plugin have in common: Volcano's plugin is HAMi's with
 * other names, and both limit programs by HAMi-core. Pure; any thread.
 */
#ifndef SPEC_DIALECT_HAMI_H
#define SPEC_DIALECT_HAMI_H

#include "spec/dialect-internal.h"

#define HAMI_NONE UINT64_MAX

/* Names of the resources; priority NULL: there is no such resource. */
struct hami_names {
	const char *count, *memory, *percentage, *cores, *priority;
};

struct hami_requested {
	uint64_t count, memory, percentage, cores, priority; /* HAMI_NONE: absent */
};

/* Whether the container has a resource that only this system knows: all but the count. */
bool hami_has_own(
	const struct dialect_draft *draft, uint32_t container, const struct hami_names *names);

/*
 * Reads the container's resources; memory is in units of unit_mib. Returns 1 if the container
 * requests devices, 0 if its count is 0, or -EINVAL.
 */
int hami_read(struct dialect_draft *draft, uint32_t container, const struct hami_names *names,
	uint32_t unit_mib, struct hami_requested *ret, struct error *err);

/* Fills the spec; with is_unlimited `cores` is the request only. -EINVAL. */
int hami_set(struct spec *spec, const struct hami_requested *a, const struct hami_names *names,
	bool is_unlimited, struct error *err);

/* Reads the annotations nvidia.com/use-gputype and nouse-gputype into spec->model. -EINVAL. */
int hami_read_models(const struct dialect_draft *draft, struct spec *spec, struct error *err);

/* Refuses a sharing mode other than hami-core in the annotation `key`. -EINVAL. */
int hami_check_mode(const struct dialect_draft *draft, const char *key, struct error *err);

/* Appends "UUID,NVIDIA,MiB,cores:" for each device of tenant i. */
void hami_format_tenant(const struct dialect_writer *w, uint32_t i, struct buf *out);

/* Writes the variables that HAMi-core reads for tenant i. */
int hami_write_env(const struct dialect_writer *w, uint32_t i);

#endif
