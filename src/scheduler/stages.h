/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Init containers run before the others and have gone when those start: of a device a pod holds at
 * most what runs at once, by Kubernetes' rule (spec/manifest.h). Pure.
 */
#ifndef SCHEDULER_STAGES_H
#define SCHEDULER_STAGES_H

#include "spec/manifest.h"
#include "spec/spec.h"

/* A container of a pod, and its part of each of its devices. */
struct stage {
	enum manifest_kind kind;
	uint32_t share;                   /* permille, of each */
	uint64_t bytes[SPEC_DEVICES_MAX]; /* of each */
	const char (*device)[SPEC_LABEL]; /* UUIDs, borrowed */
	uint32_t n;
	/* By stages_settle: what is kept for it. Of those that it makes room for as well. */
	uint32_t kept_share;
	uint64_t kept_bytes[SPEC_DEVICES_MAX];
	bool has_room; /* nothing is kept: it runs in what is kept for others */
};

/*
 * What is kept for all of them together is, on each device, what the pod holds of it at most:
 * an init container runs in what is kept for the others that are on its devices, and what it needs
 * beyond that is kept with the first of them, its share on all of that one's devices. In the pod's
 * order.
 */
void stages_settle(struct stage *stage, uint32_t n);
/* What is kept of the device's memory; 0 where it has none of it. */
uint64_t stage_kept_on(const struct stage *stage, const char *uuid);

#endif
