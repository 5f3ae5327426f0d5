/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a pod goes now, or why nowhere. What is decided is assumed in the cluster at once, so that
 * the next decision knows of it: cluster_forget() takes it back. Pure; one thread.
 */
#ifndef SCHEDULER_DECIDE_H
#define SCHEDULER_DECIDE_H

#include "scheduler/cluster.h"

#define DECIDE_WHY_MAX 1000u   /* bytes of a sentence: an Event has room for it */
#define DECIDE_REASON_MAX 160u /* of one that is about a node */

enum decision {
	DECIDE_BIND, /* it is CPOD_ASSUMED: cpod_node() and cpod_given() say where */
	DECIDE_HOLD, /* it is CPOD_HOLDING: others were told to leave, the sentence says where */
	DECIDE_WAIT, /* the sentence says why */
	/*
	 * Its claims need volumes first. It waits, and nothing is assumed; with the volumes it will
	 * be decided anew.
	 */
	DECIDE_CLAIM,
};

/* Persistent volume claims of the pod's namespace, and the node where they need volumes. */
struct decide_claims {
	char *node;
	char **name;
	uint32_t n;
};

/* Begins as DECIDE_OUTCOME_INIT; the caller's, who may take the claims out. */
struct decide_outcome {
	enum decision decision;
	struct buf why;              /* of DECIDE_HOLD and DECIDE_WAIT; else "" */
	struct decide_claims claims; /* of DECIDE_CLAIM; else empty */
};
#define DECIDE_OUTCOME_INIT ((struct decide_outcome){.why = BUF_INIT(DECIDE_WHY_MAX)})

void decide_claims_done(struct decide_claims *claims);
void decide_outcome_done(struct decide_outcome *outcome);

/*
 * Who was told to leave is added to the list, which grows and is the caller's; NULL: nobody has to.
 * may_preempt is up to the caller; else the pod's own policy counts.
 */
struct decide_victims {
	struct cpod **v;
	uint32_t n, room;
	bool is_open; /* between decide_begin() and the end */
	uint32_t mark;
};

/*
 * For pods that are decided together: what those of the list leave is for all of them. They are
 * told in the end, all of them but those beside whom everybody has room all the same; or they stay,
 * and the pods wait again. members: those that were tried. -ENOMEM: they stay.
 */
void decide_begin(struct cluster *cluster, struct decide_victims *victims);
int decide_end(struct cluster *cluster, struct decide_victims *victims, struct cpod *const *members,
	uint32_t n, struct error *err);
void decide_cancel(struct cluster *cluster, struct decide_victims *victims,
	struct cpod *const *members, uint32_t n);

/* A negative errno: -ENOMEM, or a mistake of ours, in err. What the outcome has is freed first. */
int decide_pod(struct cluster *cluster, struct cpod *pod, struct decide_victims *victims,
	struct decide_outcome *outcome, struct error *err);

/*
 * Of a pod that holds its place. DECIDE_BIND: nobody is in its way any more; DECIDE_HOLD: not yet;
 * DECIDE_WAIT: it fits there no longer. Nothing is changed.
 */
int decide_held(
	struct cluster *cluster, struct cpod *pod, enum decision *ret_decision, struct error *err);

/* Its Binding begins now; or it holds its place until then, for others of its group. */
void decide_release(struct cluster *cluster, struct cpod *pod);
void decide_hold(struct cluster *cluster, struct cpod *pod, uint64_t give_up_ns);

/*
 * Asked keys of a pod that runs say something else than what it was given. Granted, its given keys
 * are the new ones; else they stay, and the sentence says why.
 */
bool decide_has_wish(const struct cluster *cluster, const struct cpod *pod);
int decide_wish(struct cluster *cluster, struct cpod *pod, bool *ret_granted, struct buf *why,
	struct error *err);

/* Of one node, or of one of its devices: why the pod does not fit there as things are. */
struct decide_reason {
	const char *node;
	const char *device, *model; /* "": the node as a whole */
	uint32_t index;             /* of the device, on its node */
	const char *text;           /* "": it fits */
	uint32_t share_free;        /* of the device, in permille */
	uint64_t memory_free;       /* of the device, in bytes */
};
typedef void decide_reason_fn(void *data, const struct decide_reason *reason);

/*
 * Each node in turn, and each of its devices where it is those that matter: for people who ask why.
 * What keeps it from all nodes alike is one sentence with no node. Nothing is changed. -ENOMEM.
 */
int decide_reasons(struct cluster *cluster, struct cpod *pod, decide_reason_fn *tell, void *data,
	struct error *err);

/* ---- for another scheduler, whose pod it is, and who has looked at all but devices ---- */

struct decide_site {
	const char *node;
	struct cpod *const *left; /* who would have left by then */
	uint32_t n_left;
	bool is_fit;
	bool may_help; /* it is not, and might be if somebody left */
	char why[DECIDE_REASON_MAX];
};

/* Of each whether the pod may go there, or why not. Nothing is changed. -ENOMEM. */
int decide_sites(struct cluster *cluster, struct cpod *pod, struct decide_site *sites, uint32_t n,
	struct error *err);

/*
 * A place on the best of those that fit is kept for it, for DECIDE_OFFER_NS: it is CPOD_OFFERED,
 * until decide_release() and cluster_forget(). -ENOSPC: on none. -ENOMEM.
 */
#define DECIDE_OFFER_NS (UINT64_C(60) * 1000000000)
int decide_offer(struct cluster *cluster, struct cpod *pod, const struct decide_site *sites,
	uint32_t n, struct error *err);

/* Annotations for the Binding: given keys with that epoch, and what the pod's dialect gives. */
int decide_annotations(
	struct cluster *cluster, const struct cpod *pod, uint64_t epoch, json_t **ret_annotations);

#endif
