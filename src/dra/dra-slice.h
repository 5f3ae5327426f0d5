/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ResourceSlices of a node: its devices as kube-scheduler sees them. A device is in the pool
 * twice, whole and shared, and both consume the one counter of the device, so claims of the whole
 * device and of shares never meet. Pure; any thread.
 */
#ifndef DRA_DRA_SLICE_H
#define DRA_DRA_SLICE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define SLICE_API "resource.k8s.io/v1"
#define SLICE_COUNTER_SETS_MAX 8u /* of a slice, as in the API */
#define SLICE_DEVICES_MAX 64u     /* of a slice whose devices consume counters, as in the API */
#define SLICE_TAINTS_MAX 8u       /* of a device */

struct slice_taint {
	const char *key, *value; /* value "": none */
	bool is_no_execute;
	uint64_t since_ns; /* CLOCK_REALTIME; 0: not known */
};

/* Texts may be NULL or "", and versions 0, for what the driver does not say. */
struct slice_device {
	const char *uuid, *model, *architecture, *pci, *parent;
	uint64_t usable_bytes;
	uint32_t compute_major, compute_minor;
	int32_t numa;         /* -1: not known */
	int32_t nvlink_group; /* devices with the same number are connected by NVLink; -1: none */
	struct slice_taint taints[SLICE_TAINTS_MAX];
	uint32_t n_taints;
};

struct slice_node {
	const char *name, *uid; /* of the Node object */
	const char *driver;     /* version of the GPU driver, such as "570.86.15" */
	uint32_t cuda_version;  /* as CUDA counts: 12080 is 12.8 */
	bool is_simulated;
	uint32_t tenants_max; /* that the node can have; 0: any number */
	const struct slice_device *devices;
	size_t n_devices;
};

/*
 * Whether a device can be in a slice. If not, *ret_why says why: its UUID makes no name, or its
 * memory is outside of what the API and the policy of claims can state. ret_why: may be NULL.
 */
bool slice_admits(const struct slice_device *device, const char **ret_why);

/*
 * The smallest share of a device that the slices offer, in 1/1000. A claim that requests less gets
 * and consumes this share, so that the claims on all devices are at most tenants_max.
 */
uint32_t slice_share_min(const struct slice_node *node);

/*
 * The slices, complete objects for server-side apply, whose pool has this generation. An empty list
 * for a node without devices. The caller owns the result; NULL: out of memory. Devices that
 * slice_admits() refuses are left out.
 */
json_t *slice_build(const struct slice_node *node, int64_t generation);

/* Names of the slices of a node begin so. Returns ret. */
#define SLICE_NAME 254u
const char *slice_prefix(const char *node, char ret[static SLICE_NAME]);

/*
 * Whether the API server's object has everything that the slice says, except for the pool's
 * generation.
 */
bool slice_is_as(const json_t *theirs, const json_t *slice);

/* spec.pool.generation of an object; 0 if it has none. */
int64_t slice_generation(const json_t *object);

#endif
