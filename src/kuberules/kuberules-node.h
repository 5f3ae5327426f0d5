/* SPDX-License-Identifier: Apache-2.0 */
/* A node: the fields that placement needs. */
#ifndef KUBERULES_KUBERULES_NODE_H
#define KUBERULES_KUBERULES_NODE_H

#include "kuberules/object.h"
#include "kuberules/resources.h"

enum taint_effect { TAINT_NO_SCHEDULE, TAINT_PREFER, TAINT_NO_EXECUTE, TAINT_EFFECTS };

/* Names of the effects, in their order. */
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
	bool is_unschedulable;
};

#endif
