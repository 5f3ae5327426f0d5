/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The assigned keys: what the scheduler grants a pod, in the annotations of its Binding
 * (docs/cluster-objects.md). A value is "train=0.3 side=0.125": containers by name, one space
 * apart. After a restart the scheduler knows a pod only by these keys, and the node grants only
 * what they say. Pure; any thread.
 */
#ifndef SPEC_ASSIGNED_H
#define SPEC_ASSIGNED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "spec/manifest.h"
#include "spec/spec.h"

#define ASSIGNED_PREFIX "divvy.gpu/"
#define ASSIGNED_DEVICES_KEY ASSIGNED_PREFIX "devices" /* lists all containers with devices */
/* Keys with one value for the pod; all other keys have a value for each container. */
#define ASSIGNED_GROUP_KEY ASSIGNED_PREFIX "granted-group"
#define ASSIGNED_EPOCH_KEY ASSIGNED_PREFIX "epoch"

#define ASSIGNED_CONTAINERS_MAX 64u
#define ASSIGNED_NAME 64u             /* bytes of a container's name, with the final 0 */
#define ASSIGNED_NODE 254u            /* bytes of a node's name, with the final 0 */
#define ASSIGNED_NETWORK 64u          /* bytes of a network device's name, with the final 0 */
#define ASSIGNED_TEXT_MAX (64u << 10) /* bytes of one key's value */

/* Zero the struct before you fill it, because whole structs are compared. */
struct assigned_container {
	char name[ASSIGNED_NAME];
	uint32_t n;                                /* devices */
	char device[SPEC_DEVICES_MAX][SPEC_LABEL]; /* UUIDs in the driver's form */
	uint64_t memory_bytes[SPEC_DEVICES_MAX];   /* memory on each device */
	uint32_t request, limit;                   /* permille of each device */
	enum spec_memory_policy memory_policy;
	enum spec_class class;
	uint32_t priority;
	enum spec_mode mode; /* never AUTO */
	/* node of remote devices; "": the devices are not remote */
	char remote_node[ASSIGNED_NODE];
	/*
	 * For remote devices: the network devices of the pod's node and of the device's node; "":
	 * none.
	 */
	char network[2][ASSIGNED_NETWORK];
	uint32_t network_mbit; /* bandwidth reserved on both network devices; 0: none */
};

/* The pod's gang, and how many members must be bound before any member starts. */
struct assigned_group {
	char name[SPEC_GROUP]; /* "": no gang */
	uint32_t least;
};

struct assigned {
	struct assigned_container *v; /* containers in the pod's order */
	uint32_t n;
	struct assigned_group group;
	uint64_t epoch;
};

/*
 * Returns 0, also if nothing is assigned (n is 0). -EINVAL, with key and fault in the message, for
 * a value that divvy never writes. -ENOMEM. Keys with a default value may be absent. Call
 * assigned_done also after a failure.
 */
int assigned_parse(
	struct manifest_list annotations, struct assigned *ret_assigned, struct error *err);
void assigned_done(struct assigned *assigned);
#define _cleanup_assigned_ __attribute__((cleanup(assigned_done)))

/*
 * Parses only the gang, also of a pod without other assigned keys. Returns 0, also for a pod
 * without a gang, or -EINVAL.
 */
int assigned_parse_group(
	struct manifest_list annotations, struct assigned_group *ret_group, struct error *err);

/*
 * Passes each key with its value to `put`, in the order of assigned.def. Returns 0 or the first
 * negative result.
 */
typedef int (*assigned_put_fn)(void *data, const char *key, const char *value);
int assigned_format(const struct assigned *assigned, assigned_put_fn put, void *data);

/* NULL if the container has no assigned devices. */
const struct assigned_container *assigned_find(
	const struct assigned *assigned, const char *container);

/* Whether `name` is a valid name of a network device. */
bool assigned_is_network(struct str name);

/*
 * The assigned values as a finished spec, with the first device's memory. -EINVAL for values that
 * contradict each other.
 */
int assigned_spec(
	const struct assigned_container *container, struct spec *ret_spec, struct error *err);

/* Compares all containers, but not gang and epoch. */
bool assigned_is_same(const struct assigned *a, const struct assigned *b);

/* Copies everything, gang and epoch included. -ENOMEM. */
int assigned_copy(const struct assigned *assigned, struct assigned *ret_assigned);

/*
 * Whether only the scheduler may write the field, such as "granted-request" (the part after the
 * prefix). True also for unknown fields with the prefix "granted-".
 */
bool assigned_is_field(struct str field);

#endif
