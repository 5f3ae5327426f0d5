/* SPDX-License-Identifier: Apache-2.0 */
/* The view's structs, for view.c and the filter (fit*.c). */
#ifndef KUBERULES_VIEW_INTERNAL_H
#define KUBERULES_VIEW_INTERNAL_H

#define HASH_NONFATAL_OOM 1

#include "base/hash.h"
#include "kuberules/view.h"

#define TOPOLOGY_NONE UINT32_MAX

/* Topologies that are cached from one pod to the next. */
#define VIEW_TOPOLOGIES_MAX 64

struct pod_list {
	const struct pod **v;
	uint32_t n, room;
};

/* A node; or only its name, if pods are on it and the Node is not known yet. */
struct view_node {
	char *name;
	const struct node *node; /* NULL while unknown */
	uint32_t index;          /* in view->nodes, once known */
	struct pod_list pods, nominated;
	struct arena used_arena;
	struct resources used; /* sum over its pods; names are theirs */
	UT_hash_handle hh;
};

struct view_entry {
	struct object *object;
	UT_hash_handle hh;
	char key[]; /* "namespace/name" */
};

/* Nodes by the value of one label: each value is a numbered domain. */
struct topology {
	char *key;
	uint32_t *domains; /* by node; TOPOLOGY_NONE without the label */
	uint32_t n_domains;
	uint32_t empty_domain; /* domain of the value ""; TOPOLOGY_NONE: no node has it */
	UT_hash_handle hh;
};

struct view {
	unsigned minor;
	struct view_entry *tables[OBJECT_KINDS];
	struct view_node *by_name;
	struct view_node **nodes; /* known nodes */
	uint32_t n_nodes, room_nodes;
	struct pod_list repelling; /* bound pods with anti-affinity */
	struct topology *topologies;
	uint32_t n_fits; /* fits in use, which borrow topologies */
};

/* NULL: out of memory. Valid until a node changes or view_trim() runs. */
const struct topology *view_topology(struct view *view, const char *key);

/* Frees all topologies if there are more than VIEW_TOPOLOGIES_MAX and no fit is in use. */
void view_trim(struct view *view);

#endif
