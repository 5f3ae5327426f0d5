/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Amounts of resources: what a pod asks for, what a node has and what is taken of it. CPU in
 * 1/1000, the rest in bytes or pieces. Sums stop at INT64_MAX.
 */
#ifndef KUBERULES_RESOURCES_H
#define KUBERULES_RESOURCES_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"

/* Of one pod or node, beside CPU, memory and ephemeral storage. */
#define RESOURCES_OTHER_MAX 128

struct resource {
	const char *name; /* extended, hugepages-*, attachable-volumes-* */
	int64_t n;
};

struct resources {
	int64_t cpu_milli, memory_bytes, ephemeral_bytes;
	int64_t pods; /* of a node only */
	struct resource *others;
	uint32_t n_others, room_others;
};

/* The sum, at most INT64_MAX: what is above that fits nowhere, as before. */
static inline int64_t resource_add(int64_t a, int64_t b)
{
	int64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

/*
 * A ResourceList, in the arena. An unknown name without a '/' is -ENOTSUP in a pod's list
 * (resources_read) and left out of a node's (resources_read_node).
 */
int resources_read(struct arena *arena, json_t *value, void *into, struct error *err);
int resources_read_node(struct arena *arena, json_t *value, void *into, struct error *err);

/* 0 when there is none. */
int64_t resources_other(const struct resources *r, const char *name);

/*
 * Adds each amount of b to a; or makes each amount of a at least b's. Nothing of a resource is an
 * amount when added, none when raised to. The names are borrowed. The array grows in the arena.
 * -ENOMEM.
 */
int resources_add(struct arena *arena, struct resources *a, const struct resources *b);
int resources_raise(struct arena *arena, struct resources *a, const struct resources *b);

/* This amount of CPU, memory or another, in place of what was there. The name is borrowed. */
int resources_set(struct arena *arena, struct resources *r, const char *name, int64_t n);

#endif
