/* SPDX-License-Identifier: Apache-2.0 */
/* Declares the structs of the view, for view.c and the filter (fit*.c). */
#ifndef KUBERULES_VIEW_INTERNAL_H
#define KUBERULES_VIEW_INTERNAL_H

#define HASH_NONFATAL_OOM 1

#include "base/hash.h"
#include "kuberules/view.h"

#define TOPOLOGY_NONE UINT32_MAX

/* With more cached topologies than this, view_trim() frees all of them. */
#define VIEW_TOPOLOGIES_MAX 64

struct pod_list {
	const struct pod **v;
	uint32_t n, room;
	uint32_t n_unclear; /* number of pods with is_anti_affinity_unclear */
};

struct attachment_list {
	const struct attachment **v;
	uint32_t n, room;
};

/* A node, or only the name of a node that pods or attachments name and that is not known yet. */
struct view_node {
	char *name;
	const struct node *node; /* NULL while unknown */
	uint32_t index;          /* index in view->nodes; valid if `node` is known */
	struct pod_list pods, nominated;
	struct attachment_list attachments;
	struct arena used_arena;
	/* sum of the requests of its pods; borrows resource names from them */
	struct resources used;
	UT_hash_handle hh;
};

struct view_entry {
	struct object *object;
	UT_hash_handle hh;
	char key[]; /* "namespace/name" */
};

/*
 * A topology: the nodes with the same value of the label `key` are a domain, and domains are
 * numbered.
 */
struct topology {
	char *key;
	uint32_t *domains; /* index: node; TOPOLOGY_NONE: the node lacks the label */
	uint32_t n_domains;
	uint32_t empty_domain; /* domain of the value ""; TOPOLOGY_NONE: no node has that value */
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
	uint32_t n_fits;                  /* fits in use, which borrow topologies */
	const struct view_claims *claims; /* NULL: none */
};

/*
 * Returns the topology of the label `key`, which is valid until a node changes or view_trim() runs.
 * NULL: out of memory.
 */
const struct topology *view_topology(struct view *view, const char *key);

/* Frees all topologies if there are more than VIEW_TOPOLOGIES_MAX and no fit is in use. */
void view_trim(struct view *view);

#endif
