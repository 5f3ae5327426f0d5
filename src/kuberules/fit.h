/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which nodes a pod may go to, by every rule that kube-scheduler's filters have, and for each other
 * node why not. Scores are no business of this.
 *
 * What the pod needs to know of the whole cluster is counted once (fit_new); a node is then checked
 * in time that depends on what is on it alone. Pods that are nominated to a node and no less
 * important count there: a node fits if it does with them and without.
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
	const char *what; /* of the view or the fit; NULL when the phrase names nothing */
};

struct fit;

/*
 * Prepares the check of a pod, of the view or of object_new(). View and pod must not change while
 * the fit is in use. -ENOMEM; else the pod can go nowhere as things are, and the sentence says why:
 * -ENOTSUP or -EINVAL (its object is not understood), -EAGAIN (it waits for something: a gate, a
 * claim), -ENOENT (a claim or volume is missing).
 */
int fit_new(struct view *view, const struct pod *pod, struct fit **ret_fit, struct error *err);
void fit_free(struct fit *fit);
DEFINE_CLEANUP(struct fit *, fit_free)

struct fit_answer fit_node(struct fit *fit, uint32_t node);

/*
 * The same, but of these resources a node that does not know one at all is not asked for it, as the
 * kubelet does not ask it. names: a list that ends with NULL.
 */
struct fit_answer fit_node_without(struct fit *fit, uint32_t node, const char *const *names);

/* All nodes: answers is of view_n_nodes(). The number of nodes that fit. */
uint32_t fit_nodes(struct fit *fit, struct fit_answer *answers);

/*
 * Claims of the pod that wait for their first consumer, and the name of each (borrowed from the
 * view). is_provisioned: every one of them gets a new volume, since its class has a provisioner and
 * no volume of the view would do.
 */
uint32_t fit_n_claims(const struct fit *fit);
const char *fit_claim_name(const struct fit *fit, uint32_t claim);
bool fit_is_provisioned(const struct fit *fit);

/* "too little cpu"; "fits". */
void fit_format(struct fit_answer answer, struct buf *out);

/* "0/12 nodes: 8 too little cpu, 3 cordoned, 1 taint a=b:NoSchedule not tolerated" */
#define FIT_SUMMARY_REASONS_MAX 8 /* kinds of reasons that are named; the rest is counted */
void fit_summarize(const struct fit_answer *answers, uint32_t n, struct buf *out);

#endif
