/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which pods to move so that more devices are left to nobody: the engine's plan
 * (place/place-defrag.h) for those that may be moved, which are pods that somebody makes again
 * (they have a controller), have one tenant, and whose disruption budgets let one go; each to a
 * node that it fits by all rules. Nothing is changed. Pure; one thread.
 */
#ifndef SCHEDULER_CLUSTER_MOVE_H
#define SCHEDULER_CLUSTER_MOVE_H

#include "scheduler/cluster.h"

struct cluster_move {
	const struct cpod *pod;
	const char *node, *device;       /* where it is */
	const char *to_node, *to_device; /* where there is room for it */
};

struct cluster_moves {
	struct cluster_move *v; /* in order: each fits when those before it are done */
	uint32_t n;
	uint32_t whole_before, whole_after; /* open devices that nobody is on */
};

/* What the list names is valid until the next change of the cluster. -ENOMEM, -EINVAL. */
int cluster_find_moves(struct cluster *cluster, struct cluster_moves *ret_moves, struct error *err);
void cluster_moves_done(struct cluster_moves *moves);

#endif
