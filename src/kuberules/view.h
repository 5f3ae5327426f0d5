/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The known state of a cluster: nodes, their pods, and all other objects that decide where a pod
 * may go. Objects arrive in any order: a pod may precede its node, a claim its volume. One thread.
 * Pure: no I/O, no clock.
 */
#ifndef KUBERULES_VIEW_H
#define KUBERULES_VIEW_H

#include <jansson.h>
#include <stdint.h>

#include "base/error.h"
#include "kuberules/kuberules-node.h"
#include "kuberules/object.h"
#include "kuberules/pod.h"

/* The oldest supported minor version of Kubernetes 1.x. */
#define VIEW_MINOR_OLDEST 20

struct view;

int view_new(unsigned minor, struct view **ret_view, struct error *err);
void view_free(struct view *view);
DEFINE_CLEANUP(struct view *, view_free)

/*
 * Applies the rules of another release, at least VIEW_MINOR_OLDEST. The amounts that a known pod
 * requests follow when the pod is set again.
 */
void view_set_minor(struct view *view, unsigned minor);

/*
 * Adds the object, or replaces the object of that kind and name. The object may have a refusal
 * (object.h). -EINVAL (no name), -ENOMEM: the view is unchanged.
 */
int view_set(struct view *view, enum object_kind kind, json_t *json, struct error *err);

/* Removes an object. ns is ignored for kinds without a namespace. -ENOENT: no such object. */
int view_remove(struct view *view, enum object_kind kind, const char *ns, const char *name);

/* Returns the object, borrowed until it is set again or removed; NULL: no such object. */
const struct object *view_find(
	const struct view *view, enum object_kind kind, const char *ns, const char *name);

/*
 * view_assume() treats a pod as bound to that node ("": to none). view_hide() treats a pod as
 * absent. Both last until they are undone or the pod is set again. -ENOENT, -ENOMEM.
 */
int view_assume(struct view *view, const char *ns, const char *name, const char *node);
int view_hide(struct view *view, const char *ns, const char *name, bool is_hidden);
/* Ignores status.nominatedNodeName until the pod is set again. */
void view_void_nomination(struct view *view, const char *ns, const char *name);

/*
 * Checks which nodes can have the devices of a pod's ResourceClaims, for view_set_claims().
 * `begin` prepares the checks of a pod; an error, with its message in `err`, means that no node can
 * now. `fits` checks a node, and sets *ret_why, which is valid until `end`, if the node cannot.
 */
struct view_claims {
	int (*begin)(void *arg, const struct pod *pod, void **ret_search, struct error *err);
	bool (*fits)(void *search, const struct node *node, const char **ret_why);
	void (*end)(void *search);
	void *arg;
};

/* `claims` is borrowed. Without this call, a pod with ResourceClaims fits no node. */
void view_set_claims(struct view *view, const struct view_claims *claims);

/* Nodes have the numbers 0..n-1. After a node is removed, another node may get its number. */
uint32_t view_n_nodes(const struct view *view);
const struct node *view_node(const struct view *view, uint32_t node);

/* Returns the node's number, or -ENOENT. */
int view_find_node(const struct view *view, const char *name);

/* Returns the sum of the requests of the pods on that node, borrowed until the view changes. */
const struct resources *view_node_used(const struct view *view, uint32_t node);

/* Calls `visit` for each object of that kind, in order of arrival. */
void view_for_each(const struct view *view, enum object_kind kind,
	void (*visit)(void *data, const struct object *object), void *data);

#endif
