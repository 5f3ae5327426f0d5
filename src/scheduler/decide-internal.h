/* SPDX-License-Identifier: Apache-2.0 */
/* One attempt to place a pod: what its files share. */
#ifndef SCHEDULER_DECIDE_INTERNAL_H
#define SCHEDULER_DECIDE_INTERNAL_H

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
};

/* As take(), but others leave for it. The place is under a mark. */
int preempt_take(struct attempt *a, const struct place_spec *spec, struct place_choice *ret,
	uint32_t *ret_tenant, struct error *err);

/* What of a node neither the view nor the place knows. */
enum node_why { NODE_FITS, NODE_NO_GPUS, NODE_STALE, NODE_NO_SLOTS, NODE_WHYS };
enum node_why attempt_node(struct attempt *a, const struct cnode *node);

/* "0/12 nodes: 8 no GPU with 0.5 free, 3 model A100 wanted, 1 cordoned" */
void decide_explain(struct attempt *a, struct buf *why);

#endif
