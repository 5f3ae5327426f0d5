/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pod as decisions see it: what dialects and the scheduler read of it, without JSON. Everything
 * is borrowed from whoever has the object; nothing is copied. Pure; any thread.
 */
#ifndef CORE_POD_H
#define CORE_POD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

#define POD_CONTAINERS_MAX 256u
#define POD_ENTRIES_MAX 1024u /* of each list */
#define POD_NAME_MAX 253u     /* of a pod, a node, a class */
#define POD_CONTAINER_NAME_MAX 63u

/* Of equal keys the first one counts; objects of the API have no others. */
struct pod_entry {
	struct str key, value;
};

struct pod_list {
	const struct pod_entry *entry;
	uint32_t n;
};

enum pod_kind {
	POD_MAIN,
	POD_INIT,    /* runs before, alone among its like */
	POD_SIDECAR, /* an init container that stays */
};

struct pod_container {
	struct str name;
	enum pod_kind kind;
	struct pod_list requests, limits; /* quantities as text */
	struct pod_list env;
};

struct pod {
	struct str ns, name, scheduler, node, priority_class;
	struct str owner_kind, owner_name;
	int32_t priority;
	struct pod_list labels, annotations;
	const struct pod_container *container; /* init containers first, in the order they start */
	uint32_t n_containers;
};

/* Nothing above the limits, containers with names. -EINVAL says what is not so. */
int pod_check(const struct pod *pod, struct error *err);

/* NULL where there is none. */
const struct str *pod_find(struct pod_list list, struct str key);

#define POD_NONE UINT32_MAX
/* Their numbers, or POD_NONE. */
uint32_t pod_container_find(const struct pod *pod, struct str name);
uint32_t pod_main(const struct pod *pod); /* the first main container */

/*
 * What a container asks of a resource that cannot be overcommitted: its limit, or its request where
 * no limit is given. 1: it asks; 0: not. -EINVAL: both are given and differ, or it is no quantity.
 */
int pod_resource(const struct pod *pod, uint32_t container, const char *resource,
	uint64_t *ret_value, struct error *err);

/*
 * How Kubernetes adds up: main containers and sidecars are a sum, init containers a maximum, each
 * beside the sidecars that have started before it. `need` has an entry for each container.
 * Saturates at UINT64_MAX.
 */
uint64_t pod_add_up(const struct pod *pod, const uint64_t *need);

#endif
