/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The given keys: what the scheduler has written into a pod with its Binding, read by who grants
 * it. "train=0.3 side=0.125": containers with one space between, always by name. Pure; any thread.
 */
#ifndef CORE_GIVEN_H
#define CORE_GIVEN_H

#include <stdint.h>

#include "base/error.h"
#include "core/pod.h"
#include "core/spec.h"

#define GIVEN_TEXT_MAX (16u << 10) /* bytes of one key's value */
#define GIVEN_UUID 64u             /* of a device, and the byte behind it */

/* Of one container. The spec is finished; its count is the number of devices. */
struct given {
	char device[SPEC_DEVICES_MAX][GIVEN_UUID]; /* as the driver writes them */
	uint64_t memory_bytes[SPEC_DEVICES_MAX];   /* on each of them */
	struct spec spec;
	uint64_t epoch;
};

/*
 * -ENOENT: nothing was given to that container; -EINVAL: what was given cannot be. Both with a
 * sentence that names key and value.
 */
int given_read(struct pod_list annotations, struct str container, struct given *ret_given,
	struct error *err);

/* The group that the pod is a member of, and how many of it have to be bound before one starts. */
struct given_group {
	char name[SPEC_GROUP];
	uint32_t least;
};

/* "train=3". -ENOENT: the pod belongs to none; -EINVAL with a sentence. */
int given_read_group(struct pod_list annotations, struct given_group *ret_group, struct error *err);

#endif
