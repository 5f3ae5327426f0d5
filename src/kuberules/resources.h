/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Amounts of resources: requested by a pod, available on a node, or used there. CPU is in 1/1000 of
 * a core, other resources in bytes or pieces. Sums saturate at INT64_MAX.
 */
#ifndef KUBERULES_RESOURCES_H
#define KUBERULES_RESOURCES_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"

/* Most resources of a pod or node besides CPU, memory and ephemeral storage. */
#define RESOURCES_OTHER_MAX 128

struct resource {
	const char *name; /* an extended resource, hugepages-* or attachable-volumes-* */
	int64_t n;
};

struct resources {
	int64_t cpu_milli, memory_bytes, ephemeral_bytes;
	int64_t pods; /* number of pods; used for nodes only */
	struct resource *others;
	uint32_t n_others, room_others;
};

/* Returns the sum, at most INT64_MAX. No node has that much, so a larger sum would not matter. */
static inline int64_t resource_add(int64_t a, int64_t b)
{
	int64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

/*
 * Reads a ResourceList into the arena. An unknown name without a '/' is -ENOTSUP in a pod's list
 * (resources_read()) and skipped in a node's (resources_read_node()).
 */
int resources_read(struct arena *arena, json_t *value, void *into, struct error *err);
int resources_read_node(struct arena *arena, json_t *value, void *into, struct error *err);

/* Returns the amount of the resource with that name; 0 if it is missing. */
int64_t resources_other(const struct resources *r, const char *name);

/*
 * resources_add() adds each amount of b to a. resources_raise() raises each amount of a to at least
 * that of b. A resource with amount 0 in b and missing in a becomes an entry of a only by
 * resources_add(). Names are borrowed; the array grows in the arena. -ENOMEM.
 */
int resources_add(struct arena *arena, struct resources *a, const struct resources *b);
int resources_raise(struct arena *arena, struct resources *a, const struct resources *b);

/* Sets the amount of CPU, memory or another resource. The name is borrowed. -ENOMEM. */
int resources_set(struct arena *arena, struct resources *r, const char *name, int64_t n);

#endif
