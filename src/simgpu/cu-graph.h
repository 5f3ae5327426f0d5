/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs inside the simulated libcuda.so.1: nodes, their parameters in the program's own terms
 * (so that they can be read back), and executable graphs, which keep a private copy and turn it
 * into the engine's form when they are launched after a change.
 *
 * Expects the client's lock. A node belongs to one graph, or to none before cu_graph_add.
 */
#ifndef SIMGPU_CU_GRAPH_H
#define SIMGPU_CU_GRAPH_H

#include "simgpu/cu.h"

struct cu_node {
	CUgraphNode handle;
	struct cu_list link; /* in the graph, in order of creation */
	struct cu_graph *graph;
	CUgraphNodeType type;
	struct cu_context *context;
	CUcontext context_handle; /* to notice that the context has gone */
	CUgraphNodeParams params; /* kernelParams point into args */
	uint8_t *args;
	void **arg_pointers;
	struct cu_graph *child;
	CUstreamBatchMemOpParams *mem_ops;
	CUmemAccessDesc *access;
	CUlaunchAttributeValue *attributes; /* by id, NULL while none is set */
	uint32_t attributes_set;
	struct cu_node **deps;
	size_t n_deps;
	CUgraphNode origin; /* the node this one was copied from */
	bool disabled;
	struct cu_host *host; /* executable graphs: what the engine calls back */
	uint32_t local_id;
	uint32_t index; /* scratch: position in an order */
	uint32_t mark;  /* scratch: visited in walk number mark */
};

struct cu_user_object {
	CUuserObject handle;
	void *ptr;
	CUhostFn destroy;
	unsigned refs;
	struct cu_list link; /* while its destroy is due */
};

struct cu_user_ref {
	struct cu_user_object *object;
	unsigned count;
};

struct cu_graph {
	CUgraph handle; /* NULL for the private copy of an executable graph */
	struct cu_list nodes;
	size_t n_nodes;
	uint32_t id;
	uint32_t next_node;         /* local numbers of nodes */
	struct cu_capture *capture; /* being captured into, or NULL */
	struct cu_node *parent;     /* child graph node that owns it, or NULL */
	CUgraph origin;
	unsigned instances; /* executable graphs alive (matters with allocations) */
	struct cu_user_ref *objects;
	size_t n_objects;
};

struct cu_exec {
	CUgraphExec handle;
	struct cu_graph *graph;
	struct cu_graph *source; /* graph with allocations that counts this instance */
	CUgraph source_handle;
	struct cu_context *context;
	CUcontext context_handle;
	uint64_t flags;
	uint32_t slot;
	bool created; /* the engine has it */
	bool dirty;   /* changed since */
	bool visible; /* the host may notice what it does */
	bool launched;
	struct cu_stream *last; /* of the last launch, and where in it; NULL: over, or gone */
	uint64_t last_seq;
	bool is_lost; /* gone before that was over */
};

struct cu_graph *cu_graph_new(void);
void cu_graph_free(struct cu_graph *graph);
CUresult cu_graph_clone(const struct cu_graph *graph, struct cu_graph **ret);
/* User objects: references to those of the other one in place of its own. */
CUresult cu_graph_share_objects(struct cu_graph *to, const struct cu_graph *from);
struct cu_graph *cu_graph_get(CUgraph handle);
/* Handles to nodes of that graph: INVALID_VALUE for anything else or for doubles. */
CUresult cu_graph_nodes_from(
	struct cu_graph *graph, const CUgraphNode *handles, size_t n, struct cu_node ***ret_nodes);
/* Gives the node to the graph; on failure it stays the caller's. */
CUresult cu_graph_add(
	struct cu_graph *graph, struct cu_node *node, struct cu_node *const *deps, size_t n_deps);
bool cu_graph_has_allocations(const struct cu_graph *graph);

CUresult cu_node_new(CUgraphNodeType type, struct cu_context *context, struct cu_node **ret);
CUresult cu_node_from_op(struct cu_context *context, const struct cu_op *op, struct cu_node **ret);
/* Checks and copies parameters; the node keeps its old ones on failure. */
CUresult cu_node_set(struct cu_node *node, const CUgraphNodeParams *params);
/* A new one with these. */
CUresult cu_node_make(
	const CUgraphNodeParams *params, struct cu_context *context, struct cu_node **ret);
/* Fills what reading the parameters back gives. */
void cu_node_get(const struct cu_node *node, CUgraphNodeParams *ret_params);
CUresult cu_node_copy(const struct cu_node *node, struct cu_node **ret);
void cu_node_free(struct cu_node *node);
/* Whether one of the nodes depends, however indirectly, on this one, or is it. */
bool cu_node_reaches(struct cu_node *node, struct cu_node *const *to, size_t n);

/* Backing of graph memory: allocation nodes get theirs at launch, trimming takes it away. */
CUresult cu_graph_memory_reserve(struct cu_context *context, uint64_t bytes, uint64_t *ret);
CUresult cu_graph_memory_back(struct cu_range *range);
void cu_graph_memory_freed(struct cu_range *range);

/* What was an executable's while it was under way, and is over, is freed; with the lock. */
void cu_exec_land(void);
/* That stream is about to be freed. */
void cu_exec_stream_gone(const struct cu_stream *stream);

void cu_user_object_unref(struct cu_user_object *object, unsigned count);
/* Runs the destructors that are due; without the lock. */
void cu_user_objects_reap(void);

CUresult cu_exec_launch(struct cu_exec *exec, struct cu_stream *stream);

#endif
