/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides how many whole devices divvy takes from another device plugin, and which ones it gives
 * back. A placeholder, a pod that requests a device and does nothing, takes the device. The
 * placeholder is created when pods wait for a share (on demand) or in advance (reservation).
 * Tenants then use its device. When the device has become idle, the placeholder is deleted. This is
 * the vGPU life cycle of KubeShare (Yeh, Chen, Chou, HPDC 2020, section 4), with its policies.
 *
 * No I/O, no clock: the caller passes the time, and creates and deletes the pods. One thread.
 */
#ifndef CONTROLLER_POOL_H
#define CONTROLLER_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/str.h"

/* an idle device is given back after this time if no pod waits */
#define POOL_IDLE_NS (10 * NSEC_PER_SEC)
/* an idle device is given back after this time if pods wait, but the device does not help them */
#define POOL_UNUSED_NS (60 * NSEC_PER_SEC)
/* a placeholder that found no device is deleted after this time */
#define POOL_NO_ROOM_NS (60 * NSEC_PER_SEC)
#define POOL_COMING_NS (10 * NSEC_PER_SEC) /* time for a placeholder to start */
/*
 * A failed placeholder is deleted at this age and not earlier: a kubelet may reject each further
 * placeholder at once.
 */
#define POOL_FAILED_NS (10 * NSEC_PER_SEC)
/* a pod that still waits counts as demand again after this time, which doubles each time */
#define POOL_RETRY_NS (20 * NSEC_PER_SEC)
#define POOL_RETRY_MAX_NS (600 * NSEC_PER_SEC)
#define POOL_MAKE_MAX 64u      /* most placeholders that one decision creates */
#define POOL_SOURCES_MAX 1024u /* most waiting pods that one decision considers */

enum pool_policy {
	POOL_ON_DEMAND,   /* idle devices are given back */
	POOL_RESERVATION, /* always `reserve` devices, used or idle */
	POOL_HYBRID,      /* up to `reserve` idle devices stay */
};

/* "" is POOL_ON_DEMAND. -EINVAL: the message lists the possible policies. */
int pool_policy_parse(struct str text, enum pool_policy *ret_policy, struct error *err);

struct pool_node {
	const char *name;
	enum pool_policy policy;
	uint32_t reserve;
};

struct pool_placeholder {
	const char *name;
	const char *node;    /* bound or intended node; "": any node with a device */
	uint64_t age_ns;     /* time since its creation */
	bool is_bound;       /* the placeholder has a node, and thereby a device */
	bool is_used;        /* pods are assigned to the placeholder's device */
	uint32_t free_milli; /* share of the device that the assigned pods leave free */
	bool is_leaving;     /* the placeholder is being deleted */
	bool has_ended; /* the placeholder's pod has failed, so the placeholder holds no device */
	/* the placeholder's device is cordoned or unhealthy, so it accepts no new tenants */
	bool is_useless;
	/* GPUNode.status does not name the placeholder's device, and the node has tenants */
	bool is_unknown;
	/* certainly no pod uses the placeholder's device, even if GPUNode.status is out of date */
	bool may_go;
	bool is_released; /* PLACEHOLDER_RELEASED is set */
};

/* A waiting pod for which no device has capacity. */
struct pool_source {
	const char *uid;
	/*
	 * in 1/1000 of a device: sum over the containers of request times number of devices; whole
	 * devices if the pod needs them
	 */
	uint64_t milli;
};

#define DEVICE_MILLI 1000u

struct vgpu_pool;

int vgpu_pool_new(struct vgpu_pool **ret_pool);
void vgpu_pool_free(struct vgpu_pool *pool);

/* Input of a decision; all pointers are borrowed for the call. */
struct pool_facts {
	const struct pool_node *node;
	size_t n_nodes;
	const struct pool_placeholder *placeholder;
	size_t n_placeholders;
	const struct pool_source *source;
	size_t n_sources;
	uint64_t now_ns;
};

/* Names are borrowed from the facts. */
struct pool_plan {
	const char *make[POOL_MAKE_MAX]; /* node names; "": any node with a device */
	size_t n_make;
	const char *give_back[POOL_MAKE_MAX]; /* names of placeholders to delete */
	size_t n_give_back;
	const char *release[POOL_MAKE_MAX]; /* placeholders to mark with PLACEHOLDER_RELEASED */
	size_t n_release;
	uint64_t again_ns; /* when to decide again without any change; CLOCK_NEVER: never */
};

/*
 * Makes a plan. `pool` keeps for the next call since when each placeholder is idle, and which pods
 * a new device did not help. -ENOMEM: no plan.
 */
int vgpu_pool_decide(
	struct vgpu_pool *pool, const struct pool_facts *facts, struct pool_plan *ret_plan);

#endif
