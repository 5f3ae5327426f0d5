/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides where a pod goes now, or why it goes nowhere. The cluster assumes each decision at once,
 * so that the next decision sees it; cluster_forget() revokes it. Pure; one thread.
 */
#ifndef SCHEDULER_DECIDE_H
#define SCHEDULER_DECIDE_H

#include "scheduler/cluster.h"

#define DECIDE_WHY_MAX 1000u   /* bytes of a message that fits an Event */
#define DECIDE_REASON_MAX 160u /* bytes of a reason about one node */

enum decision {
	/* the pod is CPOD_ASSUMED; cpod_node() and cpod_assigned() give its place */
	DECIDE_BIND,
	/* the pod is CPOD_NOMINATED; the caller evicts the victims, and `why` names the node */
	DECIDE_NOMINATE,
	DECIDE_WAIT, /* the pod waits; `why` gives the reason */
	/*
	 * The pod's claims need volumes first. The pod waits and nothing is assumed; call
	 * decide_pod() again once the volumes exist.
	 */
	DECIDE_CLAIM,
};

/* Persistent volume claims of the pod's namespace, and the node that needs the volumes. */
struct decide_claims {
	char *node;
	char **name;
	uint32_t n;
};

/*
 * Initialise with DECIDE_OUTCOME_INIT. The caller owns the outcome and may take the claims out of
 * it.
 */
struct decide_outcome {
	enum decision decision;
	struct buf why;              /* message about DECIDE_NOMINATE or DECIDE_WAIT; else "" */
	struct decide_claims claims; /* DECIDE_CLAIM: the claims that need volumes; else empty */
	bool has_unused_claims;      /* DECIDE_WAIT: no node fits, and cpod_next_unused_claim() */
};
#define DECIDE_OUTCOME_INIT ((struct decide_outcome){.why = BUF_INIT(DECIDE_WHY_MAX)})

void decide_claims_done(struct decide_claims *claims);
void decide_outcome_done(struct decide_outcome *outcome);

/*
 * Victims of decisions. The caller owns the list, and each decision appends to it. A function that
 * gets NULL instead of a list does not preempt. A pod whose preemptionPolicy is Never does not
 * preempt either.
 */
struct decide_victims {
	struct cpod **v;
	uint32_t n, room;
	bool is_open; /* between decide_begin() and decide_end() or decide_cancel() */
	uint32_t savepoint;
};

/*
 * For the pods of a gang, which are decided together: all of them may use the capacity that the
 * victims free. decide_end() keeps the evictions that are needed and cancels the others.
 * decide_cancel() cancels all evictions, and the members wait again. members: the pods that were
 * passed to decide_pod() in between. -ENOMEM: the same result as decide_cancel().
 */
void decide_begin(struct cluster *cluster, struct decide_victims *victims);
int decide_end(struct cluster *cluster, struct decide_victims *victims, struct cpod *const *members,
	uint32_t n, struct error *err);
void decide_cancel(struct cluster *cluster, struct decide_victims *victims,
	struct cpod *const *members, uint32_t n);

/*
 * Decides where the pod goes, and frees the former content of the outcome first. -ENOMEM, or
 * another -errno for an internal error, described in err.
 */
int decide_pod(struct cluster *cluster, struct cpod *pod, struct decide_victims *victims,
	struct decide_outcome *outcome, struct error *err);

/*
 * Checks a nominated pod; nothing changes. DECIDE_BIND: the pod can be bound. DECIDE_NOMINATE:
 * terminating pods still occupy its place. DECIDE_WAIT: the pod does not fit its place any more.
 */
int decide_nominated(
	struct cluster *cluster, struct cpod *pod, enum decision *ret_decision, struct error *err);

/*
 * decide_release() makes a nominated or reserved pod CPOD_ASSUMED, because its Binding begins now.
 * decide_nominate() makes an assumed pod CPOD_NOMINATED until give_up_ns, because another member of
 * its gang has to wait.
 */
void decide_release(struct cluster *cluster, struct cpod *pod);
void decide_nominate(struct cluster *cluster, struct cpod *pod, uint64_t give_up_ns);

/*
 * decide_has_resize() returns whether the requested keys of a running pod differ from its grant.
 * decide_resize() decides on that resize request. If it is granted, the assigned keys are the new
 * ones; else they stay and `why` gives the reason.
 */
bool decide_has_resize(const struct cluster *cluster, const struct cpod *pod);
int decide_resize(struct cluster *cluster, struct cpod *pod, bool *ret_granted, struct buf *why,
	struct error *err);

/* Why the pod does not fit a node, or one of the node's devices, now. */
struct decide_reason {
	const char *node;
	const char *device, *model; /* "": the reason concerns the whole node */
	uint32_t index;             /* index of the device on its node */
	const char *text;           /* "": the pod fits */
	bool is_unmeasured;         /* the device has no share: the next two fields do not count */
	uint32_t share_free;        /* free share of the device, in permille */
	uint64_t memory_free;       /* free memory of the device, in bytes */
};
typedef void decide_reason_fn(void *data, const struct decide_reason *reason);

/*
 * Calls `tell` for each node, and for each device of nodes whose devices are the obstacle. An
 * obstacle that holds for all nodes is one report without a node. Nothing changes. -ENOMEM.
 */
int decide_reasons(struct cluster *cluster, struct cpod *pod, decide_reason_fn *tell, void *data,
	struct error *err);

/* ---- for extender pods: kube-scheduler has checked everything but devices ---- */

struct decide_candidate {
	const char *node;
	struct cpod *const *evicted; /* pods that count as gone */
	uint32_t n_evicted;
	bool is_fit;
	bool may_help;     /* if not is_fit: evictions might help */
	bool needs_device; /* if not is_fit: a further device might help */
	char why[DECIDE_REASON_MAX];
};

/*
 * Sets for each candidate node whether the pod fits there, or why not. Nothing else changes.
 * -ENOMEM.
 */
int decide_candidates(struct cluster *cluster, struct cpod *pod,
	struct decide_candidate *candidates, uint32_t n, struct error *err);

/*
 * Reserves a place on the best of the candidates that fit. The pod is CPOD_RESERVED until
 * decide_release() or cluster_forget(), at most DECIDE_RESERVE_NS. -ENOSPC: no candidate fits.
 * -ENOMEM.
 */
#define DECIDE_RESERVE_NS (UINT64_C(60) * 1000000000)
int decide_reserve(struct cluster *cluster, struct cpod *pod,
	const struct decide_candidate *candidates, uint32_t n, struct error *err);

/* Annotations for the Binding: assigned keys with that epoch, and the keys of the pod's dialect. */
int decide_annotations(
	struct cluster *cluster, const struct cpod *pod, uint64_t epoch, json_t **ret_annotations);

#endif
