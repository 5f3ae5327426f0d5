/* SPDX-License-Identifier: Apache-2.0 */
/* One attempt to place a pod, for the files decide*.c. */
#ifndef SCHEDULER_DECIDE_INTERNAL_H
#define SCHEDULER_DECIDE_INTERNAL_H

#include "place/place-mode.h"
#include "scheduler/cluster-internal.h"
#include "scheduler/decide.h"

struct attempt {
	struct cluster *cluster;
	struct cpod *pod;
	struct fit *fit;
	const struct spec *requested; /* of the container under decision; NULL: no device */
	/* nodes of the placement model that a container of the pod does not fit */
	bool *avoided;
	uint32_t n_avoided;
	struct place_choice choice[ASSIGNED_CONTAINERS_MAX];
	uint32_t taken[ASSIGNED_CONTAINERS_MAX],
		of[ASSIGNED_CONTAINERS_MAX]; /* tenants; containers */
	uint32_t n_taken;
	struct decide_victims *victims; /* NULL: no preemption */
	uint32_t n_victims;             /* victims of earlier attempts */
	/* part of a gang: victims become terminating at the end, for all members */
	bool is_together;
	struct buf *asked_back; /* for the message about reclaiming */
	bool is_budget_kept;    /* a disruption budget kept a victim from being chosen */
	bool may_be_remote;     /* devices of other nodes are possible */
	/* The placement mode's decision; with has_client, `client` is the client half. */
	struct place_decision placement;
	uint32_t client;
	/* An extender pod: kube-scheduler has checked CPU and all rules but devices. */
	bool is_trial;
	struct cpod *const *evicted; /* pods that count as gone */
	uint32_t n_evicted;
};

/*
 * The filter for place_set_filter(), with an attempt. Without `fit`, Kubernetes' rules are skipped.
 */
uint64_t attempt_filter(void *attempt, const struct place_spec *spec, uint32_t at,
	const uint32_t *gone, uint32_t n_evicted);
/*
 * Places all containers on that node; PLACE_NONE: on the best node for the first container.
 * -ENOSPC: at least one container does not fit.
 */
int attempt_take_hosts(struct attempt *a, uint32_t node, struct error *err);
/* As attempt_take_hosts(), on the best node that is not avoided. */
int attempt_take_all(struct attempt *a, struct error *err);
/* Assigns what the attempt has taken to the pod. */
int attempt_assume(struct attempt *a, enum cpod_state state, struct error *err);
/* Writes why the node's devices do not suffice. Returns whether evictions might help. */
bool attempt_gpu_reason(
	struct attempt *a, const struct cnode *node, char ret[static DECIDE_REASON_MAX]);

/*
 * Places the container with victims. It first evicts tenants that borrowed the queue's guarantee,
 * then less important tenants. The model has an open savepoint. -EINPROGRESS: reclaiming has begun
 * and evicts at cpod_reclaim_at_ns().
 */
int preempt_take(struct attempt *a, const struct place_spec *spec, struct place_choice *ret,
	uint32_t *ret_tenant, struct error *err);

/* Obstacles that neither the view nor the placement model knows. */
enum node_why { NODE_FITS, NODE_NO_GPUS, NODE_STALE, NODE_NO_SLOTS, NODE_NOT_SERVING, NODE_WHYS };
enum node_why attempt_node(struct attempt *a, const struct cnode *node);
/* Whether enough of the devices that the pod names can still promise the requested memory. */
bool attempt_has_memory(const struct attempt *a, const struct cnode *node);

/* The node's devices that the pod may use now, as bits. */
uint64_t attempt_devices(const struct attempt *a, const struct cnode *node);
/* The node on which the attempt would run the pod. */
struct cnode *attempt_candidate(const struct attempt *a);

/* The first container from index i on with devices of its own; requested.n: there is none. */
uint32_t attempt_next_host(const struct cpod *pod, uint32_t i);

/* Why no node can take the pod, independent of the nodes; NULL: no such reason. */
const char *decide_refusal(const struct cluster *c, const struct cpod *pod);

/* ---- decide-nominated.c ---- */

/*
 * Whether the pod was evicted by an earlier decision and still runs; false for victims of this one.
 */
bool decide_is_terminating(const struct cpod *pod);
bool decide_has_terminating(const struct cnode *node);
/* Hides the node's terminating pods from the view, or shows them, for a pod that may wait. */
void decide_hide_terminating(struct cluster *c, const struct cnode *node, bool is_hidden);
/*
 * 1: the pod fits its node by the rules for nodes; with can_wait once terminating pods are gone. 0:
 * it does not. -ENOMEM.
 */
int decide_fits_where_it_is(struct cluster *c, const struct cpod *pod, bool can_wait);

/* ---- decide-remote.c ---- */

/* Whether the pod requests mode remote. */
bool decide_remote_is_requested(const struct cpod *pod);
/* Why the pod cannot use devices of other nodes, whatever the nodes; NULL: it can. */
const char *remote_refusal(const struct cluster *c, const struct cpod *pod);
/* For attempt_filter(), in an attempt that may be remote. */
uint64_t remote_filter(struct attempt *a, const struct place_spec *spec, uint32_t at);
/* Whether the pod itself may run there: a live divvyd for its libraries, and all rules for pods. */
bool remote_fits_client(struct attempt *a, const struct cnode *node);
/* Places the pod's only container by its placement mode. -ENOSPC, -ENOMEM. */
int remote_take(
	struct attempt *a, uint32_t container, const struct place_spec *spec, struct error *err);
void remote_give(const struct attempt *a, struct assigned_container *g);
/*
 * Extended resources that count a node's devices; a client half's node need not have them. Ends
 * with NULL.
 */
extern const char *const remote_skipped_rules[];

/* ---- decide-path.c ---- */

/* For a serving node, the best measured path from a node that the pod itself fits. */
struct nearest {
	const struct cnode *client;
	const struct gpunode_peer *peer; /* NULL: not measured */
};
/*
 * Finds the best path for each node of the placement model; the caller frees the array. The best
 * path has the least latency if the request limits latency, else the greatest bandwidth. -ENOMEM.
 */
int nearest_find(struct attempt *a, const struct spec *requested, struct nearest **ret);
/* "round trip 180 us to node n1, 50 us wanted". false: the path is not the obstacle. */
bool nearest_text(
	const struct spec *requested, const struct nearest *nearest, char *ret, size_t size);

/* ---- decide-vgpu.c ---- */

/* Bits of the node's devices for a pod that names that vGPU. */
uint64_t vgpu_devices(const struct cluster *c, const struct cnode *node, const char *name);
void vgpu_name(const struct cnode *node, const char *uuid, char ret[static SPEC_LABEL]);

/* "0/12 nodes: 8 no GPU with 0.5 free, 3 with another model than A100, 1 cordoned" */
void decide_explain(struct attempt *a, struct buf *why);

#endif
