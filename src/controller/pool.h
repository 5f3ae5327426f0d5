/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many whole devices divvy takes from another device plugin, and which it gives back. A device
 * is taken by a placeholder: a pod that asks for one and does nothing. It is made when pods wait
 * for a share (on demand) or to have it ready (reservation), used by tenants, then idle, then given
 * back: the vGPU's life of KubeShare (Yeh, Chen, Chou, HPDC 2020, section 4), with its policies.
 *
 * Decisions alone, in time that is given; the caller makes and deletes pods. One thread.
 */
#ifndef CONTROLLER_POOL_H
#define CONTROLLER_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/str.h"

#define POOL_IDLE_NS (10 * NSEC_PER_SEC)    /* idle for so long, nobody waits: given back */
#define POOL_UNUSED_NS (60 * NSEC_PER_SEC)  /* ... while somebody waits whom it does not help */
#define POOL_NO_ROOM_NS (60 * NSEC_PER_SEC) /* it has found no device for so long: withdrawn */
#define POOL_COMING_NS (10 * NSEC_PER_SEC)  /* a placeholder may take so long to start */
#define POOL_RETRY_NS (20 * NSEC_PER_SEC)   /* a pod that still waits counts again; then doubled */
#define POOL_RETRY_MAX_NS (600 * NSEC_PER_SEC)
#define POOL_MAKE_MAX 64u      /* made at once */
#define POOL_SOURCES_MAX 1024u /* pods that wait, of which a decision knows */

enum pool_policy {
	POOL_ON_DEMAND,   /* what is idle is given back */
	POOL_RESERVATION, /* `reserve` devices are always there, used or idle */
	POOL_HYBRID,      /* up to `reserve` idle ones stay */
};

/* -EINVAL: the sentence lists what would do. "": on demand. */
int pool_policy_parse(struct str text, enum pool_policy *ret_policy, struct error *err);

struct pool_node {
	const char *name;
	enum pool_policy policy;
	uint32_t reserve;
};

struct pool_placeholder {
	const char *name;
	const char *node;    /* that it is bound to or meant for; "": whichever has a device */
	uint64_t age_ns;     /* since it was made */
	bool is_bound;       /* it has a node: its device is its own */
	bool is_used;        /* tenants are on its device, or on their way there */
	uint32_t free_milli; /* ... and the share of it that these leave */
	bool is_leaving;     /* it is being deleted */
	bool is_useless;     /* its device takes no new tenants: cordoned, unhealthy */
	bool is_unknown;     /* nobody says which device it has, and its node has tenants */
	bool may_go;         /* nobody is on its device, whatever its node's daemon said last */
	bool is_released;    /* ... and it has been told */
};

/* A pod that no device has room for. */
struct pool_source {
	const char *uid;
	uint64_t milli; /* request x count of all its containers; whole devices where it needs so */
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

/* Names are the facts'. */
struct pool_plan {
	const char *make[POOL_MAKE_MAX]; /* the node's name; "": whichever has a device */
	size_t n_make;
	const char *give_back[POOL_MAKE_MAX]; /* placeholders */
	size_t n_give_back;
	const char *release[POOL_MAKE_MAX]; /* placeholders that wait for a word of their node's */
	size_t n_release;
	uint64_t again_ns; /* when time alone may change the answer; CLOCK_NEVER: it does not */
};

/* Remembers since when each is idle, and whom a new device did not help. -ENOMEM: no plan. */
int vgpu_pool_decide(
	struct vgpu_pool *pool, const struct pool_facts *facts, struct pool_plan *ret_plan);

#endif
