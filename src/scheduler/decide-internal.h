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
	/* request of the container that is being placed; NULL: the pod has no devices */
	const struct spec *requested;
	/*
	 * index: node of the placement model; true: one of the pod's containers does not fit there
	 */
	bool *avoided;
	uint32_t n_avoided;
	struct place_choice choice[ASSIGNED_CONTAINERS_MAX];
	/* The tenants that the attempt added, and the container of each. */
	uint32_t taken[ASSIGNED_CONTAINERS_MAX], of[ASSIGNED_CONTAINERS_MAX];
	uint32_t n_taken;
	struct decide_victims *victims; /* NULL: no preemption */
	/* number of victims that earlier attempts put into `victims` */
	uint32_t n_victims;
	/*
	 * The pod is part of a gang. decide_end() marks the victims of all members as terminating.
	 */
	bool is_together;
	/* receives the message that the pod reclaims its queue's guarantee */
	struct buf *asked_back;
	bool is_budget_kept; /* a disruption budget kept a victim from being chosen */
	bool needs_device; /* attempt_gpu_reason() found a node where a further device might help */
	bool may_be_remote; /* devices of other nodes are possible */
	/*
	 * The decision of place/place-mode.h. With placement.has_client, `client` is the tenant of
	 * the client half.
	 */
	struct place_decision placement;
	uint32_t client;
	/* True for an extender pod: kube-scheduler has checked CPU and all rules except devices. */
	bool is_trial;
	struct cpod *const *evicted; /* pods that count as gone */
	uint32_t n_evicted;
};

/*
 * The placement model calls this filter for each node that it would choose (place_set_filter()).
 * Returns the node's devices that the pod may use, as bits. `attempt` is a struct attempt; if its
 * `fit` is NULL, the filter does not check Kubernetes' rules.
 */
uint64_t attempt_filter(void *attempt, const struct place_spec *spec, uint32_t at,
	const uint32_t *gone, uint32_t n_evicted);
/*
 * Places all containers with devices of their own on one node: on `node`, or for PLACE_NONE on the
 * best node for the first container. -ENOSPC: at least one container does not fit there.
 */
int attempt_take_hosts(struct attempt *a, uint32_t node, struct error *err);
/* Places all containers on the best node that fits all of them. -ENOSPC: no node does. */
int attempt_take_all(struct attempt *a, struct error *err);
/* Makes the attempt's places the pod's assigned devices and sets the pod's state. */
int attempt_assume(struct attempt *a, enum cpod_state state, struct error *err);
/*
 * Writes why the node's devices do not suffice, for the first container that does not fit. Returns
 * whether evictions might help.
 */
bool attempt_gpu_reason(
	struct attempt *a, const struct cnode *node, char ret[static DECIDE_REASON_MAX]);

/*
 * Places the container by evicting victims: first tenants that borrowed the guarantee of the pod's
 * queue, else less important tenants. The caller has opened a savepoint of the model. -EINPROGRESS:
 * the pod reclaims the guarantee, and may evict from cpod_reclaim_at_ns() on.
 */
int preempt_take(struct attempt *a, const struct place_spec *spec, struct place_choice *ret,
	uint32_t *ret_tenant, struct error *err);

/*
 * Returns why the node cannot serve the current container, for reasons that neither the view nor
 * the placement model knows.
 */
enum node_why { NODE_FITS, NODE_NO_GPUS, NODE_STALE, NODE_NO_SLOTS, NODE_NOT_SERVING, NODE_WHYS };
enum node_why attempt_node(struct attempt *a, const struct cnode *node);
/*
 * Whether the node has enough devices that the pod accepts and that have the requested memory free,
 * by the overcommit rules of cluster-memory.c.
 */
bool attempt_has_memory(const struct attempt *a, const struct cnode *node);

/* The node's devices that the pod may use now, as bits. */
uint64_t attempt_devices(const struct attempt *a, const struct cnode *node);
/* The node on which the attempt would run the pod; for a remote pod the node of the client half. */
struct cnode *attempt_candidate(const struct attempt *a);

/*
 * Returns the index of the first container, from i on, that has devices of its own; requested.n: no
 * such container.
 */
uint32_t attempt_next_host(const struct cpod *pod, uint32_t i);

/*
 * Why no node can take the pod, for a reason in the pod itself or in the whole cluster; NULL: no
 * such reason.
 */
const char *decide_refusal(const struct cluster *c, const struct cpod *pod);

/* ---- decide-nominated.c ---- */

/*
 * Whether the pod was evicted by an earlier decision and still runs; false for victims of the
 * current decision.
 */
bool decide_is_terminating(const struct cpod *pod);
/*
 * Whether pods of the node, or the claims of ended pods, hold capacity that `pod` can have soon.
 */
bool decide_has_terminating(
	const struct cluster *c, const struct cnode *node, const struct cpod *pod);
/*
 * Hides the node's terminating pods from the view, for a pod that may wait for their end; is_hidden
 * false shows them again.
 */
void decide_hide_terminating(struct cluster *c, const struct cnode *node, bool is_hidden);
/*
 * Returns 1 if the pod fits its present node by Kubernetes' rules, else 0. can_wait: the node's
 * terminating pods count as gone. -ENOMEM.
 */
int decide_fits_where_it_is(struct cluster *c, const struct cpod *pod, bool can_wait);

/* ---- decide-remote.c ---- */

/* Whether the pod requests mode remote. */
bool decide_remote_is_requested(const struct cpod *pod);
/*
 * Why the pod cannot use devices of other nodes, for a reason in the pod itself or in the whole
 * cluster; NULL: no such reason.
 */
const char *remote_refusal(const struct cluster *c, const struct cpod *pod);
/* The part of attempt_filter() for one half of a remote pod. */
uint64_t remote_filter(struct attempt *a, const struct place_spec *spec, uint32_t at);
/*
 * Whether the pod itself may run on the node: its divvyd answers, since the pod needs divvy's
 * libraries, and Kubernetes' rules allow the pod.
 */
bool remote_fits_client(struct attempt *a, const struct cnode *node);
/* Places the pod's only container by its placement mode. -ENOSPC, -ENOMEM. */
int remote_take(
	struct attempt *a, uint32_t container, const struct place_spec *spec, struct error *err);
void remote_give(const struct attempt *a, struct assigned_container *g);
/*
 * Extended resources that count a node's devices. The node of a client half need not have them. The
 * list ends with NULL.
 */
extern const char *const remote_skipped_rules[];

/* measured paths */

/* The best measured path between a node that serves devices and a node that the pod itself fits. */
struct nearest {
	const struct cnode *client;
	const struct gpunode_peer *peer; /* NULL: not measured */
};
/*
 * Finds the best path for each node of the placement model; the index is the node, and the caller
 * frees the array. The best path has the least latency if the request limits latency, else the
 * greatest bandwidth. -ENOMEM.
 */
int nearest_find(struct attempt *a, const struct spec *requested, struct nearest **ret);
/*
 * Writes for example "round trip 180 us to node n1, at most 50 us requested". false: the path meets
 * the request.
 */
bool nearest_text(
	const struct spec *requested, const struct nearest *nearest, char *ret, size_t size);

/* ---- decide-vgpu.c ---- */

/* Returns the bits of the node's devices that a pod with the GPUID `name` may use. */
uint64_t vgpu_devices(const struct cluster *c, const struct cnode *node, const char *name);
void vgpu_name(const struct cnode *node, const char *uuid, char ret[static SPEC_LABEL]);

/*
 * Writes for example "0/12 nodes: 8 no GPU with 0.5 free, 3 with another model than A100, 1
 * cordoned".
 */
void decide_explain(struct attempt *a, struct buf *why);

#endif
