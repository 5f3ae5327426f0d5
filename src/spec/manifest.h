/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pod's own words, without JSON: what dialects, and who reads given keys, see of it. Everything
 * is borrowed from whoever has the object; nothing is copied. Pure; any thread.
 */
#ifndef SPEC_MANIFEST_H
#define SPEC_MANIFEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

#define MANIFEST_CONTAINERS_MAX 256u
#define MANIFEST_ENTRIES_MAX 1024u /* of each list */
#define MANIFEST_NAME_MAX 253u     /* of a pod, a node, a class */
#define MANIFEST_CONTAINER_NAME_MAX 63u

/*
 * The webhook writes this annotation when it admits a pod: the container of the keys that name
 * none. The annotation keeps that choice when other webhooks add containers.
 */
#define MANIFEST_DEFAULT_KEY "divvy.gpu/default-container"
/* A container with this resource has a share; the webhook writes it. */
#define MANIFEST_SLOT "divvy.gpu/slot"

/* Of equal keys the first one counts; objects of the API have no others. */
struct manifest_entry {
	struct str key, value;
};

struct manifest_list {
	const struct manifest_entry *entry;
	uint32_t n;
};

/* The lists of a container's resources. */
enum manifest_resources { MANIFEST_LIMITS, MANIFEST_REQUESTS };

enum manifest_kind {
	MANIFEST_MAIN,
	MANIFEST_INIT,    /* runs before, alone among its like */
	MANIFEST_SIDECAR, /* an init container that stays */
};

struct manifest_container {
	struct str name;
	enum manifest_kind kind;
	struct manifest_list requests, limits; /* quantities as text */
	struct manifest_list env;
	bool is_managed; /* metadata.managedFields names it: no webhook added it unseen */
};

struct manifest {
	struct str ns, name, scheduler, node, priority_class;
	struct str owner_kind, owner_name;
	int32_t priority;
	struct manifest_list labels, annotations;
	const struct manifest_container
		*container; /* init containers first, in the order they start */
	uint32_t n_containers;
};

/* Nothing above the limits, containers with names. -EINVAL says what is not so. */
int manifest_check(const struct manifest *pod, struct error *err);

/* NULL where there is none. */
const struct str *manifest_find(struct manifest_list list, struct str key);

#define MANIFEST_NONE UINT32_MAX
/* Their numbers, or MANIFEST_NONE. */
uint32_t manifest_container_find(const struct manifest *pod, struct str name);
bool manifest_has_slot(const struct manifest *pod, uint32_t container);

/*
 * Kubernetes' LimitRanger wrote that resource into that list of the container, as its annotation
 * says. A LimitRange with a `max` makes it the default of every container.
 */
bool manifest_is_limit_rangers(const struct manifest *pod, uint32_t container,
	enum manifest_resources list, struct str resource);

/*
 * The main container that keys without a container's name speak of. The first of these rules that
 * finds a main container decides: MANIFEST_DEFAULT_KEY names it; it has a slot of the webhook's;
 * kubectl.kubernetes.io/default-container (or default-logs-container) names it; managedFields
 * name it; it is the first.
 */
uint32_t manifest_main(const struct manifest *pod);

/*
 * What a container asks of a resource that cannot be overcommitted: its limit, or its request where
 * no limit is given. 1: it asks; 0: not. -EINVAL: both are given and differ, or it is no quantity.
 */
int manifest_resource(const struct manifest *pod, uint32_t container, const char *resource,
	uint64_t *ret_value, struct error *err);

/*
 * How Kubernetes adds up: main containers and sidecars are a sum, init containers a maximum, each
 * beside the sidecars that have started before it. Containers come in the manifest's order; starts
 * zeroed. Saturates at UINT64_MAX.
 */
struct manifest_sum {
	uint64_t sidecars, main, most;
};
void manifest_sum_add(struct manifest_sum *sum, enum manifest_kind kind, uint64_t need);
uint64_t manifest_sum_value(const struct manifest_sum *sum);

/* The same of a whole pod: `need` has an entry for each container. */
uint64_t manifest_add_up(const struct manifest *pod, const uint64_t *need);

#endif
