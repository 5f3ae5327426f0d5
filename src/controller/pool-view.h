/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes the facts of pool.h from the objects of nodes and pods, and decides which single pods to
 * delete. Each object is read once. Pure; everything is borrowed from the objects, which must live
 * until the facts have been used. One thread.
 */
#ifndef CONTROLLER_POOL_VIEW_H
#define CONTROLLER_POOL_VIEW_H

#include "controller/pool.h"
#include "kube/kube-json.h"

#define POOL_NODES_MAX 1024u
#define POOL_PLACEHOLDERS_MAX 4096u

struct pool_view;

/* ns: divvy's own namespace; real_ns: time since 1970. -ENOMEM. */
int pool_view_new(const char *ns, uint64_t real_ns, struct pool_view **ret_view);
void pool_view_free(struct pool_view *view); /* NULL is allowed */

/*
 * Whether the node is or was in the pool, so that its pods matter. labels: labels of the Node;
 * NULL: the Node was deleted. gpu_node: its GPUNode; NULL: none.
 */
bool pool_view_has(const json_t *labels, const json_t *gpu_node);

/*
 * Adds a node; add all nodes before the pods. Nodes for which pool_view_has() is false may be left
 * out. lease: Lease of the node's divvyd; NULL: none. -EINVAL: the GPUNode has an unknown pool
 * policy, and the node is left out. -ENOMEM.
 */
int pool_view_add_node(struct pool_view *view, const char *name, const json_t *labels,
	const json_t *gpu_node, const json_t *lease, struct error *err);

/* Adds a pod; add all pods after the nodes. The result is the action for that pod: */
enum pool_pod {
	POOL_POD_STAYS,
	POOL_POD_LOST, /* a tenant whose device the other device plugin has taken back: delete it */
};
enum pool_pod pool_view_add_pod(struct pool_view *view, const json_t *pod);

/* Whether the pod waits for a device that a placeholder could take. */
bool pool_view_waits(const json_t *pod);

/*
 * Returns the image of the container `controller` in the controller's own pod, or of its first
 * container if no container has that name. NULL: `pod` is NULL or has no image.
 */
const char *pool_view_image(const json_t *pod);

/* Returns the facts, borrowed from the view. now_ns: monotonic time. */
const struct pool_facts *pool_view_facts(struct pool_view *view, uint64_t now_ns);

#endif
