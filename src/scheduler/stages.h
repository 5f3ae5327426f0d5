/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Init containers run before the other containers and end before these start. So a pod's need of a
 * device is its largest use at any one time, by Kubernetes' rule (spec/manifest.h). Pure.
 */
#ifndef SCHEDULER_STAGES_H
#define SCHEDULER_STAGES_H

#include "spec/manifest.h"
#include "spec/spec.h"

/* A container of a pod, and its part of each of its devices. */
struct stage {
	enum manifest_kind kind;
	uint32_t share;                   /* permille, of each device */
	uint64_t bytes[SPEC_DEVICES_MAX]; /* of each device */
	const char (*device)[SPEC_LABEL]; /* UUIDs, borrowed */
	uint32_t n;
	/* Set by stages_settle(): capacity kept for this container and those that use it before. */
	uint32_t kept_share;
	uint64_t kept_bytes[SPEC_DEVICES_MAX];
	bool has_room; /* keeps nothing, because it runs in other containers' capacity */
};

/*
 * Distributes the pod's greatest use of each device over its containers, in the pod's order. An
 * init container uses the capacity of others on its devices. If it needs more, the first of those
 * containers keeps the rest. A kept share counts on all of that container's devices.
 */
void stages_settle(struct stage *stage, uint32_t n);
/* Bytes that are kept on the device; 0 if the container does not use it. */
uint64_t stage_kept_on(const struct stage *stage, const char *uuid);

#endif
