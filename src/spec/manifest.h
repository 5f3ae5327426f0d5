/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pod without JSON, as dialects and readers of the assigned keys see it. All texts are borrowed
 * from the owner of the object. Pure; any thread.
 */
#ifndef SPEC_MANIFEST_H
#define SPEC_MANIFEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

#define MANIFEST_CONTAINERS_MAX 256u
#define MANIFEST_ENTRIES_MAX 1024u /* most entries in each list */
#define MANIFEST_NAME_MAX 253u     /* bytes of a pod's, node's or class's name */
#define MANIFEST_CONTAINER_NAME_MAX 63u

/*
 * Annotation that the webhook writes when it admits a pod: the container that keys without a
 * container's name apply to. The annotation preserves the choice of a container when other webhooks
 * add containers.
 */
#define MANIFEST_DEFAULT_KEY "divvy.gpu/default-container"
/* The webhook gives this resource to each container with a share. */
#define MANIFEST_SLOT "divvy.gpu/slot"

/* The first of equal keys counts; objects of the API server have no equal keys. */
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
	MANIFEST_INIT,    /* runs before the main containers, one at a time */
	MANIFEST_SIDECAR, /* an init container that keeps running */
};

struct manifest_container {
	struct str name;
	enum manifest_kind kind;
	struct manifest_list requests, limits; /* quantities as text */
	struct manifest_list env;
	/* metadata.managedFields names the container, so no webhook has added it */
	bool is_managed;
};

struct manifest {
	struct str ns, name, scheduler, node, priority_class;
	struct str owner_kind, owner_name;
	struct str scheduling_group; /* spec.schedulingGroup.podGroupName */
	int32_t priority;
	struct manifest_list labels, annotations;
	const struct manifest_container
		*container; /* init containers first, in the order of their start */
	uint32_t n_containers;
};

/* Checks the limits above, and that containers have names. Returns 0 or -EINVAL. */
int manifest_check(const struct manifest *pod, struct error *err);

/* The value of the key; NULL if the list has no such key. */
const struct str *manifest_find(struct manifest_list list, struct str key);

#define MANIFEST_NONE UINT32_MAX
/* The index of the container, or MANIFEST_NONE. */
uint32_t manifest_container_find(const struct manifest *pod, struct str name);
bool manifest_has_slot(const struct manifest *pod, uint32_t container);

/*
 * Whether Kubernetes' LimitRanger, by its annotation, wrote that resource into that list of the
 * container. A LimitRange with a `max` for a resource also makes that amount the default of every
 * container.
 */
bool manifest_is_limit_rangers(const struct manifest *pod, uint32_t container,
	enum manifest_resources list, struct str resource);

/*
 * The main container that keys without a container's name apply to. These rules are tried in order
 * until one finds a container: MANIFEST_DEFAULT_KEY names it; it has a slot that LimitRanger did
 * not write; kubectl.kubernetes.io/default-container (or default-logs-container) names it;
 * managedFields name it; it is the first main container.
 */
uint32_t manifest_main(const struct manifest *pod);

/*
 * A container's amount of a resource that cannot be overcommitted: its limit, or its request if it
 * has no limit. Returns 1; 0 if the container has neither; -EINVAL if limit and request differ, or
 * if a value is no quantity.
 */
int manifest_resource(const struct manifest *pod, uint32_t container, const char *resource,
	uint64_t *ret_value, struct error *err);

/*
 * Adds up containers as Kubernetes does: main containers and sidecars are summed; of init
 * containers the largest counts, together with the sidecars started before it. Add containers in
 * the manifest's order to a zeroed struct. Saturates at UINT64_MAX.
 */
struct manifest_sum {
	uint64_t sidecars, main, most;
};
void manifest_sum_add(struct manifest_sum *sum, enum manifest_kind kind, uint64_t need);
uint64_t manifest_sum_value(const struct manifest_sum *sum);

/* The total of a whole pod; `need` has an entry for each container. */
uint64_t manifest_add_up(const struct manifest *pod, const uint64_t *need);

#endif
