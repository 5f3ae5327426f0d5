/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The given keys: what the scheduler grants a pod, as the annotations of its Binding say it
 * (docs/cluster-objects.md): "train=0.3 side=0.125", containers with one space between, always by
 * name. Read back they are the scheduler's whole memory of the pod, and all that its node grants.
 * Pure; any thread.
 */
#ifndef SPEC_GIVEN_H
#define SPEC_GIVEN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "spec/manifest.h"
#include "spec/spec.h"

#define GIVEN_PREFIX "divvy.gpu/"
#define GIVEN_DEVICES_KEY GIVEN_PREFIX "devices" /* no container has others without it */
/* Of the pod; the others are of containers. */
#define GIVEN_GROUP_KEY GIVEN_PREFIX "granted-group"
#define GIVEN_EPOCH_KEY GIVEN_PREFIX "epoch"

#define GIVEN_CONTAINERS_MAX 64u
#define GIVEN_NAME 64u             /* of a container, and the byte behind it */
#define GIVEN_NODE 254u            /* of a node, likewise */
#define GIVEN_NETWORK 64u          /* of a network device, likewise */
#define GIVEN_TEXT_MAX (64u << 10) /* bytes of one key's value */

/* Made zeroed: whole structs are compared. */
struct given_container {
	char name[GIVEN_NAME];
	uint32_t n;                                /* devices */
	char device[SPEC_DEVICES_MAX][SPEC_LABEL]; /* UUIDs, as the driver writes them */
	uint64_t memory_bytes[SPEC_DEVICES_MAX];   /* on each of them */
	uint32_t request, limit;                   /* permille of each device */
	enum spec_memory_policy memory_policy;
	enum spec_class class;
	uint32_t priority;
	enum spec_mode mode;          /* not AUTO */
	char remote_node[GIVEN_NODE]; /* "": not remote */
	/* Of devices elsewhere: the network devices of its own node and of theirs; "": none. */
	char network[2][GIVEN_NETWORK];
	uint32_t network_mbit; /* of both; 0: no bandwidth is kept */
};

/* That the pod is a member of, and how many of it have to be bound before one starts. */
struct given_group {
	char name[SPEC_GROUP]; /* "": the pod belongs to none */
	uint32_t least;
};

struct given {
	struct given_container *v; /* in the pod's order */
	uint32_t n;
	struct given_group group;
	uint64_t epoch;
};

/*
 * 0, also where nothing was given (n is 0); -EINVAL with a sentence that names the key and what is
 * wrong with it: then nobody of us has written it. What is the default may be missing. -ENOMEM.
 * given_done also after a failure.
 */
int given_parse(struct manifest_list annotations, struct given *ret_given, struct error *err);
void given_done(struct given *given);
#define _cleanup_given_ __attribute__((cleanup(given_done)))

/* The group alone, also where nothing else was given. 0, also for none; -EINVAL likewise. */
int given_parse_group(
	struct manifest_list annotations, struct given_group *ret_group, struct error *err);

/* Each key with its value, in the order of given.def. The first negative of `put`. */
typedef int (*given_put_fn)(void *data, const char *key, const char *value);
int given_format(const struct given *given, given_put_fn put, void *data);

/* NULL when there is none. */
const struct given_container *given_find(const struct given *given, const char *container);

/* The name of a network device, as the keys have it. */
bool given_is_network(struct str name);

/* The same as a finished spec, the memory that of the first device. -EINVAL: it cannot be. */
int given_spec(const struct given_container *container, struct spec *ret_spec, struct error *err);

/* All of the containers. */
bool given_is_same(const struct given *a, const struct given *b);

/* With what is the pod's. -ENOMEM. */
int given_copy(const struct given *given, struct given *ret_given);

/*
 * "granted-request", what stands behind the prefix: the scheduler alone may write it. So are those
 * that begin like that and that nobody knows yet.
 */
bool given_is_field(struct str field);

#endif
