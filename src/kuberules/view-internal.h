/* SPDX-License-Identifier: Apache-2.0 */
/* The view's own structs, for view.c and the filters (fit*.c). */
#ifndef KUBERULES_VIEW_INTERNAL_H
#define KUBERULES_VIEW_INTERNAL_H

#define HASH_NONFATAL_OOM 1

#include "base/hash.h"
#include "kuberules/view.h"

#define TOPOLOGY_NONE UINT32_MAX

/* Topologies that are kept from one pod to the next; what does not fit is made again. */
#define VIEW_TOPOLOGIES_MAX 64

struct pod_list {
	const struct pod **v;
	uint32_t n, room;
};

/* A node, or the name of one that pods are on and that has not been seen. */
struct view_node {
	char *name;
	const struct node *node; /* NULL while not seen */
	uint32_t index;          /* in view->nodes, once seen */
	struct pod_list pods, nominated;
	struct arena used_arena;
	struct resources used; /* of the pods; the names are theirs */
	UT_hash_handle hh;
};

struct view_entry {
	struct object *object;
	UT_hash_handle hh;
	char key[]; /* "namespace/name" */
};

/* Which nodes have the same value of a label: numbered domains. */
struct topology {
	char *key;
	uint32_t *domains; /* of each node; TOPOLOGY_NONE without the label */
	uint32_t n_domains;
	uint32_t empty_domain; /* that of the value ""; TOPOLOGY_NONE: no node has it */
	UT_hash_handle hh;
};

struct view {
	unsigned minor;
	struct view_entry *tables[OBJECT_KINDS];
	struct view_node *by_name;
	struct view_node **nodes; /* those that were seen */
	uint32_t n_nodes, room_nodes;
	struct pod_list repelling; /* bound pods with anti-affinity */
	struct topology *topologies;
	uint32_t n_fits; /* that use them */
};

/* NULL when out of memory. Good until a node changes, or view_trim() runs. */
const struct topology *view_topology(struct view *view, const char *key);

/* Forgets topologies when there are more than are kept and nobody uses them. */
void view_trim(struct view *view);

#endif
