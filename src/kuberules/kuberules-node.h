/* SPDX-License-Identifier: Apache-2.0 */
/* A Node object: the fields that decide where pods may go. */
#ifndef KUBERULES_KUBERULES_NODE_H
#define KUBERULES_KUBERULES_NODE_H

#include "kuberules/object.h"
#include "kuberules/resources.h"

enum taint_effect { TAINT_NO_SCHEDULE, TAINT_PREFER, TAINT_NO_EXECUTE, TAINT_EFFECTS };

/* Kubernetes' names of the taint effects, in the order of the enum. */
extern const char *const taint_effect_words[TAINT_EFFECTS];

struct taint {
	const char *key, *value;
	int effect;
};

struct taints {
	struct taint *v;
	uint32_t n;
};

struct node {
	struct object object;
	struct taints taints;
	struct resources allocatable;
	uint32_t features; /* declared-features.h */
	bool is_unschedulable;
};

#endif
