/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans which pods to move so that more devices have no tenants. The placement model plans
 * (place/place-defrag.h). A movable pod has exactly one tenant, a disruption budget that allows the
 * eviction, and a controller that creates it again. Each target node passes all rules for the pod.
 * Nothing changes. Pure; one thread.
 */
#ifndef SCHEDULER_CLUSTER_MOVE_H
#define SCHEDULER_CLUSTER_MOVE_H

#include "scheduler/cluster.h"

struct cluster_move {
	const struct cpod *pod;
	const char *node, *device;       /* present location */
	const char *to_node, *to_device; /* location with free capacity */
};

struct cluster_moves {
	struct cluster_move *v; /* in order: each fits once those before it are done */
	uint32_t n;
	uint32_t whole_before, whole_after; /* open devices without tenants */
};

/* Names and pods in the list are valid until the next change of the cluster. -ENOMEM, -EINVAL. */
int cluster_find_moves(struct cluster *cluster, struct cluster_moves *ret_moves, struct error *err);
void cluster_moves_done(struct cluster_moves *moves);

#endif
