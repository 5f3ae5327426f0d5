/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a pod goes now, or why nowhere. What is decided is assumed in the cluster at once, so that
 * the next decision knows of it: cluster_forget() takes it back. Pure; one thread.
 */
#ifndef SCHEDULER_DECIDE_H
#define SCHEDULER_DECIDE_H

#include "scheduler/cluster.h"

#define DECIDE_WHY_MAX 1000u /* bytes of a sentence: an Event has room for it */

enum decision {
	DECIDE_BIND, /* it is CPOD_ASSUMED: cpod_node() and cpod_given() say where */
	DECIDE_WAIT, /* the sentence says why */
};

/* A negative errno: -ENOMEM, or a mistake of ours, in err. why is cleared first. */
int decide_pod(struct cluster *cluster, struct cpod *pod, enum decision *ret_decision,
	struct buf *why, struct error *err);

/* Annotations for the Binding: given keys with that epoch, and what the pod's dialect gives. */
int decide_annotations(
	struct cluster *cluster, const struct cpod *pod, uint64_t epoch, json_t **ret_annotations);

#endif
