/* SPDX-License-Identifier: Apache-2.0 */
/* One attempt to place a pod: what its files share. */
#ifndef SCHEDULER_DECIDE_INTERNAL_H
#define SCHEDULER_DECIDE_INTERNAL_H

#include "place/place-mode.h"
#include "scheduler/cluster-internal.h"
#include "scheduler/decide.h"

struct attempt {
	struct cluster *cluster;
	struct cpod *pod;
	struct fit *fit;
	const struct spec *asked; /* of the container under way; NULL: no device */
	bool *avoided;            /* nodes of the place that have been tried in vain */
	uint32_t n_avoided;
	struct place_choice choice[GIVEN_CONTAINERS_MAX];
	uint32_t taken[GIVEN_CONTAINERS_MAX], of[GIVEN_CONTAINERS_MAX]; /* tenants; containers */
	uint32_t n_taken;
	struct decide_victims *victims; /* NULL: nobody has to leave */
	uint32_t n_victims;             /* of them, those who were there before */
	bool is_together; /* others are decided with it: who leaves does so when all have been */
	struct buf *asked_back; /* of whom */
	bool is_budget_kept;    /* somebody might have left for it, but for a disruption budget */
	bool may_be_remote;     /* devices of other nodes will do */
	/* What the engine chose then; with has_client the tenant that it is on its own node. */
	struct place_decision way;
	uint32_t client;
	/* Another scheduler's: it has looked at CPU and all else that is no device. */
	bool is_trial;
	struct cpod *const *left; /* who would have left by then */
	uint32_t n_left;
};

/* For place_set_filter(), with the attempt; without a fit the rules for nodes are not asked. */
uint64_t attempt_filter(void *attempt, const struct place_spec *spec, uint32_t at,
	const uint32_t *gone, uint32_t n_gone);
/* All containers on that node, or (PLACE_NONE) on the first one's best. -ENOSPC: not all taken. */
int attempt_take_hosts(struct attempt *a, uint32_t node, struct error *err);
/* On the best node that is not avoided. */
int attempt_take_all(struct attempt *a, struct error *err);
/* What was taken becomes the pod's. */
int attempt_assume(struct attempt *a, enum cpod_state state, struct error *err);
/* Why that node's devices will not do; whether it might help if somebody left. */
bool attempt_gpu_reason(
	struct attempt *a, const struct cnode *node, char ret[static DECIDE_REASON_MAX]);

/*
 * As take(), but others leave for it: first who has borrowed what its queue is guaranteed, then who
 * is less important. The place is under a mark. -EINPROGRESS: what was lent has been asked back and
 * is not yet taken: cpod_reclaim_at_ns().
 */
int preempt_take(struct attempt *a, const struct place_spec *spec, struct place_choice *ret,
	uint32_t *ret_tenant, struct error *err);

/* What of a node neither the view nor the place knows. */
enum node_why { NODE_FITS, NODE_NO_GPUS, NODE_STALE, NODE_NO_SLOTS, NODE_NOT_SERVING, NODE_WHYS };
enum node_why attempt_node(struct attempt *a, const struct cnode *node);
/* Of the devices that it names enough have as much memory as may be promised of them. */
bool attempt_has_memory(const struct attempt *a, const struct cnode *node);

/* The bits of the node's devices that it may have, as things are. */
uint64_t attempt_devices(const struct attempt *a, const struct cnode *node);
/* The node that it runs on, by what is taken. */
struct cnode *attempt_site(const struct attempt *a);

/* From container i on the first that has devices to itself; asked.n: there is none. */
uint32_t attempt_next_host(const struct cpod *pod, uint32_t i);

/* What keeps it from everywhere, whatever nodes there are; NULL: nothing. */
const char *decide_refusal(const struct cluster *c, const struct cpod *pod);

/* ---- decide-held.c ---- */

/* It was told before, and runs on until it has gone; not one who is sent away just now. */
bool decide_is_leaving(const struct cpod *pod);
bool decide_is_being_left(const struct cnode *node);
/* Those of the node are out of the view, or in it again: for who waits until they have gone. */
void decide_hide_leaving(struct cluster *c, const struct cnode *node, bool is_hidden);
/* 1: by the rules for nodes it may be there, or with can_wait when those have gone; -ENOMEM. */
int decide_fits_where_it_is(struct cluster *c, const struct cpod *pod, bool can_wait);

/* ---- decide-remote.c ---- */

/* It asks for devices of other nodes, or over the network. */
bool remote_is_asked(const struct cpod *pod);
/* Why it cannot have devices of other nodes, whichever there are; NULL: it can. */
const char *remote_refusal(const struct cluster *c, const struct cpod *pod);
/* For attempt_filter(), of an attempt that may be remote. */
uint64_t remote_filter(struct attempt *a, const struct place_spec *spec, uint32_t at);
/* The pod itself: with a daemon that brings it its libraries, and by all rules for pods. */
bool remote_fits_client(struct attempt *a, const struct cnode *node);
/* Its one container, wherever the engine says. -ENOSPC, -ENOMEM. */
int remote_take(
	struct attempt *a, uint32_t container, const struct place_spec *spec, struct error *err);
void remote_give(const struct attempt *a, struct given_container *g);
/* Sums of a node's devices, which it need not know where these are elsewhere: until NULL. */
extern const char *const remote_spared[];

/* ---- decide-path.c ---- */

/* Of a node that serves, the best that was measured from a node where the pod itself fits. */
struct nearest {
	const struct cnode *client;
	const struct gpunode_peer *peer; /* NULL: nothing */
};
/* By the place's node; the caller's. The least latency, if one is asked for; else bandwidth. */
int nearest_find(struct attempt *a, const struct spec *asked, struct nearest **ret);
/* "round trip 180 us to node n1, 50 us wanted". false: that is not the matter. */
bool nearest_text(const struct spec *asked, const struct nearest *nearest, char *ret, size_t size);

/* ---- decide-vgpu.c ---- */

/* Bits of the devices of the node that a pod may have which names that vGPU. */
uint64_t vgpu_devices(const struct cluster *c, const struct cnode *node, const char *name);
void vgpu_name(const struct cnode *node, const char *uuid, char ret[static SPEC_LABEL]);

/* "0/12 nodes: 8 no GPU with 0.5 free, 3 model A100 wanted, 1 cordoned" */
void decide_explain(struct attempt *a, struct buf *why);

#endif
