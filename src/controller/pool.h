/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides how many whole devices divvy takes from another device plugin, and which it gives back. A
 * placeholder takes a device: a pod that requests one and does nothing. It is made when pods wait
 * for a share (on demand) or in advance (reservation), is used by tenants, becomes idle, and is
 * given back. This is the vGPU life cycle of KubeShare (Yeh, Chen, Chou, HPDC 2020, section 4),
 * with its policies.
 *
 * Decisions only, with the time as input; the caller creates and deletes pods. One thread.
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
/* the same if pods wait that the device does not help */
#define POOL_UNUSED_NS (60 * NSEC_PER_SEC)
/* a placeholder without a device is withdrawn after this time */
#define POOL_NO_ROOM_NS (60 * NSEC_PER_SEC)
#define POOL_COMING_NS (10 * NSEC_PER_SEC) /* time for a placeholder to start */
/* a pod that still waits counts again; doubled each time */
#define POOL_RETRY_NS (20 * NSEC_PER_SEC)
#define POOL_RETRY_MAX_NS (600 * NSEC_PER_SEC)
#define POOL_MAKE_MAX 64u      /* placeholders made at once */
#define POOL_SOURCES_MAX 1024u /* waiting pods that one decision considers */

enum pool_policy {
	POOL_ON_DEMAND,   /* idle devices are given back */
	POOL_RESERVATION, /* always `reserve` devices, used or idle */
	POOL_HYBRID,      /* up to `reserve` idle devices stay */
};

/* -EINVAL: the message lists the possible policies. "": on demand. */
int pool_policy_parse(struct str text, enum pool_policy *ret_policy, struct error *err);

struct pool_node {
	const char *name;
	enum pool_policy policy;
	uint32_t reserve;
};

struct pool_placeholder {
	const char *name;
	const char *node;    /* bound or intended node; "": any node with a device */
	uint64_t age_ns;     /* since its creation */
	bool is_bound;       /* it has a node and so a device */
	bool is_used;        /* tenants use its device, or are bound to it */
	uint32_t free_milli; /* share of the device that these tenants leave free */
	bool is_leaving;     /* being deleted */
	bool is_useless;     /* its device accepts no new tenants: cordoned, unhealthy */
	bool is_unknown;     /* its device is unknown, and its node has tenants */
	bool may_go;         /* no pod uses its device, whatever the node's daemon reported last */
	bool is_released;    /* PLACEHOLDER_RELEASED is set */
};

/* A waiting pod that no device has capacity for. */
struct pool_source {
	const char *uid;
	/* request x count over all its containers; whole devices if it needs them */
	uint64_t milli;
};

#define DEVICE_MILLI 1000u

struct vgpu_pool;

int vgpu_pool_new(struct vgpu_pool **ret_pool);
void vgpu_pool_free(struct vgpu_pool *pool);

/* Borrowed for the call. */
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
	const char *give_back[POOL_MAKE_MAX]; /* placeholders */
	size_t n_give_back;
	const char *release[POOL_MAKE_MAX]; /* placeholders to mark with PLACEHOLDER_RELEASED */
	size_t n_release;
	uint64_t again_ns; /* when time alone may change the plan; CLOCK_NEVER: it does not */
};

/*
 * Plans, and remembers since when each placeholder is idle and which pods a new device did not
 * help. -ENOMEM: no plan.
 */
int vgpu_pool_decide(
	struct vgpu_pool *pool, const struct pool_facts *facts, struct pool_plan *ret_plan);

#endif
