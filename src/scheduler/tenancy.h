/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a pod asks of GPUs, in any dialect, and what it is given in that dialect's words. Pure.
 */
#ifndef SCHEDULER_TENANCY_H
#define SCHEDULER_TENANCY_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "spec/dialect.h"

struct tenancy_container {
	char name[64];
	enum manifest_kind kind;
	struct spec spec;
	/*
	 * Of an init container the one whose devices it uses before that starts: its number. Its
	 * own: it has devices to itself.
	 */
	uint32_t host;
};

struct tenancy {
	struct tenancy_container *v; /* in the pod's order; none: no share is asked for */
	uint32_t n;
	char group[SPEC_GROUP];           /* "": none */
	uint32_t group_size, group_least; /* 0 where an object says them */
	char group_object[64];            /* that object's API group; "" */
	char vgpu[SPEC_LABEL];            /* KubeShare's GPUID; "" */
};

/*
 * dialects: the namespace's list, "" none; what the pod carries itself goes before it. -EINVAL with
 * one sentence for the user; -ENOMEM. tenancy_done also after a failure.
 */
int tenancy_read(
	const json_t *pod, const char *dialects, struct tenancy *ret_tenancy, struct error *err);
void tenancy_done(struct tenancy *tenancy);

/*
 * Adds the annotations that users and tools of the pod's dialect read, none of which is a given
 * key. A grant for each container, in the tenancy's order.
 */
int tenancy_write_back(const json_t *pod, const char *dialects, const struct dialect_given *given,
	json_t *annotations);

/*
 * Of a pod that runs: those annotations of its dialect that change then; NULL: none, or none any
 * more. -ENOMEM.
 */
int tenancy_running(const json_t *pod, uint64_t real_ns, json_t **ret_annotations);

#endif
