/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Given keys: what the scheduler has granted a pod, as the annotations of its Binding say it
 * (docs/cluster-objects.md). Read back they are the scheduler's whole memory of the pod. Pure.
 */
#ifndef SCHEDULER_GIVEN_H
#define SCHEDULER_GIVEN_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "core/spec.h"

#define GIVEN_CONTAINERS_MAX 64u
#define GIVEN_NAME 64u             /* of a container, and the byte behind it */
#define GIVEN_NODE 254u            /* of a node, likewise */
#define GIVEN_TEXT_MAX (64u << 10) /* bytes of one annotation */

struct given_container {
	char name[GIVEN_NAME];
	uint32_t n; /* devices */
	char device[SPEC_DEVICES_MAX][SPEC_LABEL];
	uint64_t memory_bytes[SPEC_DEVICES_MAX];
	uint32_t request, limit; /* permille of each device */
	enum spec_memory_policy memory_policy;
	enum spec_class class;
	uint32_t priority;
	enum spec_mode mode;
	char remote_node[GIVEN_NODE]; /* "": not remote */
};

struct given {
	struct given_container *v; /* in the pod's order */
	uint32_t n;
	uint64_t epoch;
};

/*
 * 0, also where there is none (n is 0); -EINVAL with the key and what is wrong with it: then nobody
 * of us has written it. -ENOMEM. annotations may be NULL. given_done also after a failure.
 */
int given_parse(const json_t *annotations, struct given *ret_given, struct error *err);
void given_done(struct given *given);

/* Adds the keys to an object of texts. -ENOMEM. */
int given_format(const struct given *given, json_t *annotations);

/* NULL when there is none. */
const struct given_container *given_find(const struct given *given, const char *container);

/* All but the epoch. */
bool given_is_same(const struct given *a, const struct given *b);

/* The epoch is of who has written it, and counts too: -ENOMEM; the caller's copy. */
int given_copy(const struct given *given, struct given *ret_given);

#endif
