/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans which pods to move so that more devices have no tenants. The placement model plans
 * (place/place-defrag.h). A pod is movable if it has exactly one tenant, its disruption budgets
 * allow the eviction, and a controller creates a successor. Each target node passes all rules for
 * the pod. Nothing changes. Pure; one thread.
 */
#ifndef SCHEDULER_CLUSTER_MOVE_H
#define SCHEDULER_CLUSTER_MOVE_H

#include "scheduler/cluster.h"

struct cluster_move {
	const struct cpod *pod;
	const char *node, *device;       /* present location */
	const char *to_node, *to_device; /* target of the move */
};

struct cluster_moves {
	struct cluster_move *v; /* in order: a move may need the capacity that earlier moves free */
	uint32_t n;
	/* number of open devices without tenants, before and after the moves */
	uint32_t whole_before, whole_after;
};

/*
 * The list's names and pods are borrowed and valid until the next change of the cluster. -ENOMEM,
 * -EINVAL.
 */
int cluster_find_moves(struct cluster *cluster, struct cluster_moves *ret_moves, struct error *err);
void cluster_moves_done(struct cluster_moves *moves);

#endif
