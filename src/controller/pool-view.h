/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cluster as the pool sees it: each node and each pod is looked at once, and from that come the
 * facts of pool.h and what of a single pod is to be put right. Pure; everything is borrowed from
 * the objects, which must stay until the facts have been used. One thread.
 */
#ifndef CONTROLLER_POOL_VIEW_H
#define CONTROLLER_POOL_VIEW_H

#include "controller/pool.h"
#include "kube/json.h"

#define POOL_NODES_MAX 1024u
#define POOL_PLACEHOLDERS_MAX 4096u

struct pool_view;

/* ns: divvy's own; real_ns: since 1970. -ENOMEM. */
int pool_view_new(const char *ns, uint64_t real_ns, struct pool_view **ret_view);
void pool_view_free(struct pool_view *view); /* NULL is fine */

/*
 * Is that node, or was it, one of a pool's? Then its pods matter. labels: the Node's, NULL where it
 * is gone; gpu_node: the GPUNode, NULL where there is none.
 */
bool pool_view_has(const json_t *labels, const json_t *gpu_node);

/*
 * All nodes first; those that pool_view_has() does not know need not be given. lease: of its
 * daemon, NULL where there is none. -EINVAL: the GPUNode's policy is none, the node is left out;
 * -ENOMEM.
 */
int pool_view_add_node(struct pool_view *view, const char *name, const json_t *labels,
	const json_t *gpu_node, const json_t *lease, struct error *err);

/* Then all pods. What is to be done with that one: */
enum pool_pod {
	POOL_POD_STAYS,
	POOL_POD_OVER, /* a placeholder that has ended: it is to be deleted */
	POOL_POD_LOST, /* a tenant's, whose device has gone back to the other plugin: likewise */
};
enum pool_pod pool_view_add_pod(struct pool_view *view, const json_t *pod);

/* Does it wait for a device that a placeholder could take? */
bool pool_view_waits(const json_t *pod);

/*
 * Image of the controller's own pod: that of the container `controller`, or of the first container
 * where none has that name. NULL: pod is NULL or has no image.
 */
const char *pool_view_image(const json_t *pod);

/* now_ns: monotonic. The view's, until it is freed. */
const struct pool_facts *pool_view_facts(struct pool_view *view, uint64_t now_ns);

#endif
