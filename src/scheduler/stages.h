/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes how much of each device a pod needs. Init containers end before the main containers
 * start. So the pod needs the largest amount that its containers use at one time, by Kubernetes'
 * rule for init containers and sidecars (spec/manifest.h). Pure.
 */
#ifndef SCHEDULER_STAGES_H
#define SCHEDULER_STAGES_H

#include "spec/manifest.h"
#include "spec/spec.h"

/* A container of a pod, and its part of each of its devices. */
struct stage {
	enum manifest_kind kind;
	uint32_t share;                   /* share of each device, in permille */
	uint64_t bytes[SPEC_DEVICES_MAX]; /* memory of each device */
	const char (*device)[SPEC_LABEL]; /* UUIDs, borrowed */
	uint32_t n;
	/*
	 * Set by stages_settle(): capacity kept for this container, and for init containers that
	 * use its capacity before it starts.
	 */
	uint32_t kept_share;
	uint64_t kept_bytes[SPEC_DEVICES_MAX];
	bool has_room; /* the container keeps nothing, because it runs in the capacity of others */
};

/*
 * Sets the kept amounts of n containers, which stand in the pod's order. An init container uses the
 * capacity that other containers keep on its devices. If the init container needs more, the first
 * of those containers keeps the difference. The kept share of a container counts on all its
 * devices.
 */
void stages_settle(struct stage *stage, uint32_t n);
/* Bytes that are kept on the device; 0 if the container does not use it. */
uint64_t stage_kept_on(const struct stage *stage, const char *uuid);

#endif
