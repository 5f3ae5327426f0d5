/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of API objects for the caches, with only those members that the controller reads. In a
 * cluster of thousands of nodes the other members, such as the images of a node or the status of a
 * running pod, are most of the objects' size. Pure; any thread.
 */
#ifndef CONTROLLER_PRUNE_H
#define CONTROLLER_PRUNE_H

#include <jansson.h>

enum prune_kind {
	PRUNE_NOTHING,
	PRUNE_WHOLE, /* the controller reads nothing of the object */
	PRUNE_NODE,
	PRUNE_GPU_NODE,
	PRUNE_LEASE,     /* the Lease of a node's divvyd */
	PRUNE_SHARE_POD, /* a pod that a SharePod owns */
	PRUNE_WAITING,   /* another pod that the webhook has translated, until its containers run */
	PRUNE_TENANT,    /* the same pod later */
	PRUNE_OWN,       /* another pod of divvy's namespace */
	PRUNE_KINDS
};

/* ns: divvy's namespace. PRUNE_WHOLE: a pod without a SharePod and without the webhook's label. */
enum prune_kind prune_kind_of_pod(const json_t *pod, const char *ns);

/*
 * Returns a new reference, to a copy that may share values with the object; NULL: no memory, or
 * PRUNE_WHOLE.
 */
json_t *prune_object(json_t *object, enum prune_kind kind);

#endif
