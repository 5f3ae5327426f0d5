/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the nodes that pass every filter of kube-scheduler for a pod, and says why each other node
 * does not fit. kube-scheduler's scores are not computed.
 *
 * fit_new() counts the pods of the whole cluster once. A check of a node then takes time that
 * depends on that node only. A pod that is nominated to a node counts there if its priority is at
 * least that of the new pod. The new pod must fit with and without these nominated pods.
 */
#ifndef KUBERULES_FIT_H
#define KUBERULES_FIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "kuberules/view.h"

enum fit_why {
	FIT_OK,
#define WHY(name, phrase) FIT_##name,
#include "kuberules/fit-why.def"
#undef WHY
	FIT_WHYS,
};

struct fit_answer {
	enum fit_why why;
	/*
	 * text for the %s of the phrase (fit-why.def); borrowed from the view or the fit; NULL: no
	 * %s
	 */
	const char *what;
};

struct fit;

/*
 * Prepares the checks of a pod, which is in the view or from object_new(). View and pod must not
 * change while the fit is in use. -ENOMEM. Other errors mean that the pod fits no node now, and
 * `err` has the reason. -ENOTSUP, -EINVAL: a part of the pod's object was not understood. -EAGAIN:
 * the pod waits for a scheduling gate or a claim. -ENOENT: a claim or volume is missing.
 */
int fit_new(struct view *view, const struct pod *pod, struct fit **ret_fit, struct error *err);
void fit_free(struct fit *fit);
DEFINE_CLEANUP(struct fit *, fit_free)

struct fit_answer fit_node(struct fit *fit, uint32_t node);

/*
 * Like fit_node(), but skips a resource in `names` (ends with NULL) if the node has none of it. The
 * kubelet does not check such a resource either.
 */
struct fit_answer fit_node_without(struct fit *fit, uint32_t node, const char *const *names);

/* Checks all nodes; `answers` has view_n_nodes() elements. Returns the number of nodes that fit. */
uint32_t fit_nodes(struct fit *fit, struct fit_answer *answers);

/*
 * The pod's claims that wait for their first consumer: their number, and their names, borrowed from
 * the view. fit_is_provisioned() returns whether each of these claims gets a new volume: its class
 * has a provisioner, and no volume of the view fits.
 */
uint32_t fit_n_claims(const struct fit *fit);
const char *fit_claim_name(const struct fit *fit, uint32_t claim);
bool fit_is_provisioned(const struct fit *fit);

/* The search of view_claims for the pod's ResourceClaims, borrowed; NULL: the pod has none. */
void *fit_claims_search(const struct fit *fit);

/* Writes the reason, such as "too little cpu", or "fits". */
void fit_format(struct fit_answer answer, struct buf *out);

/*
 * Writes for example "0/12 nodes: 8 too little cpu, 3 cordoned, 1 taint a=b:NoSchedule not
 * tolerated".
 */
/* most reasons that the text names; further ones are counted as others */
#define FIT_SUMMARY_REASONS_MAX 8
void fit_summarize(const struct fit_answer *answers, uint32_t n, struct buf *out);

#endif
