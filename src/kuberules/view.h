/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of a cluster: its nodes, the pods on them, and all else that decides where a pod
 * may go. Built from objects as a watch brings them, in any order: a pod may come before its node,
 * a claim before its volume. One thread. Pure: no I/O, no clock.
 */
#ifndef KUBERULES_VIEW_H
#define KUBERULES_VIEW_H

#include <jansson.h>
#include <stdint.h>

#include "base/error.h"
#include "kuberules/node.h"
#include "kuberules/object.h"
#include "kuberules/pod.h"

/* Kubernetes 1.x whose rules hold; the oldest whose rules are known. */
#define VIEW_MINOR_OLDEST 20

struct view;

int view_new(unsigned minor, struct view **ret_view, struct error *err);
void view_free(struct view *view);
DEFINE_CLEANUP(struct view *, view_free)

/*
 * Adds the object, or puts it in place of the one of that kind and name. What was read of it may
 * be a refusal: see object.h. -EINVAL when it has no name, -ENOMEM; the view is as before then.
 */
int view_set(struct view *view, enum object_kind kind, json_t *json, struct error *err);

/* -ENOENT when there is none. ns is of no meaning for what is in no namespace. */
int view_remove(struct view *view, enum object_kind kind, const char *ns, const char *name);

/* Borrowed until it is set again or removed; NULL when there is none. */
const struct object *view_find(
	const struct view *view, enum object_kind kind, const char *ns, const char *name);

/*
 * A pod as if it were bound to that node ("": to none), or as if it were not there: until that is
 * taken back or the pod is set again. -ENOENT, -ENOMEM.
 */
int view_assume(struct view *view, const char *ns, const char *name, const char *node);
int view_hide(struct view *view, const char *ns, const char *name, bool is_hidden);
/* Its status.nominatedNodeName reserves nothing any more, until the pod is set again. */
void view_void_nomination(struct view *view, const char *ns, const char *name);

/* Nodes are 0..n-1; removing one may give its number to another. */
uint32_t view_n_nodes(const struct view *view);
const struct node *view_node(const struct view *view, uint32_t node);

/* -ENOENT, or the number. */
int view_find_node(const struct view *view, const char *name);

/* The sum of what the pods on that node request. Borrowed until the view changes. */
const struct resources *view_node_used(const struct view *view, uint32_t node);

/* Calls visit for each object of that kind, in the order in which they came. */
void view_for_each(const struct view *view, enum object_kind kind,
	void (*visit)(void *data, const struct object *object), void *data);

#endif
