/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs inside the simulated libcuda.so.1. Nodes keep their parameters in the program's own form,
 * so that the program can read them back. An executable graph keeps a private copy, and is
 * translated to the engine's form at its first launch after a change.
 *
 * Callers hold the client's lock. A node belongs to one graph, or to none before cu_graph_add().
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
	CUcontext context_handle; /* this handle no longer resolves once the context is destroyed */
	CUgraphNodeParams params; /* kernelParams point into args */
	uint8_t *args;
	void **arg_pointers;
	struct cu_graph *child;
	CUstreamBatchMemOpParams *mem_ops;
	CUmemAccessDesc *access;
	CUlaunchAttributeValue *attributes; /* indexed by id; NULL while none is set */
	uint32_t attributes_set;
	struct cu_node **deps;
	size_t n_deps;
	CUgraphNode origin; /* the node from which this one was copied */
	bool disabled;
	struct cu_host *host; /* executable graphs only: the engine's entry refers to it */
	uint32_t local_id;
	uint32_t index; /* scratch: position in the sorted order */
	uint32_t mark;  /* scratch: number of the last walk that visited the node */
};

struct cu_user_object {
	CUuserObject handle;
	void *ptr;
	CUhostFn destroy;
	unsigned refs;
	struct cu_list link; /* in the list of objects whose destructor must run */
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
	uint32_t next_node;         /* local_id of the next node */
	struct cu_capture *capture; /* the capture into this graph, or NULL */
	struct cu_node *parent;     /* child graph node that owns this graph, or NULL */
	CUgraph origin;
	/* number of executable graphs made from this graph, if the graph has allocations */
	unsigned instances;
	struct cu_user_ref *objects;
	size_t n_objects;
};

struct cu_exec {
	CUgraphExec handle;
	struct cu_graph *graph;
	/* the graph that counts this executable graph in `instances`, or NULL */
	struct cu_graph *source;
	CUgraph source_handle;
	struct cu_context *context;
	CUcontext context_handle;
	uint64_t flags;
	uint32_t slot;
	bool created; /* the engine has its own form of this graph */
	bool dirty;   /* changed since the engine got its form of the graph */
	bool visible; /* a node writes memory that the host can see, or calls the host */
	bool launched;
	/*
	 * Stream of the last launch, where the launch has number last_seq. NULL: the launch is
	 * complete, or the stream was destroyed.
	 */
	struct cu_stream *last;
	uint64_t last_seq;
	bool is_lost; /* the stream was destroyed before the last launch was complete */
};

struct cu_graph *cu_graph_new(void);
void cu_graph_free(struct cu_graph *graph);
CUresult cu_graph_clone(const struct cu_graph *graph, struct cu_graph **ret);
/* Replaces the references to user objects in `to` by those of `from`. */
CUresult cu_graph_share_objects(struct cu_graph *to, const struct cu_graph *from);
struct cu_graph *cu_graph_get(CUgraph handle);
/* Resolves handles of nodes. INVALID_VALUE: a handle names no node of @graph, or occurs twice. */
CUresult cu_graph_nodes_from(
	struct cu_graph *graph, const CUgraphNode *handles, size_t n, struct cu_node ***ret_nodes);
/*
 * Adds the node to the graph, which then owns the node. On failure the caller still owns the node.
 */
CUresult cu_graph_add(
	struct cu_graph *graph, struct cu_node *node, struct cu_node *const *deps, size_t n_deps);
bool cu_graph_has_allocations(const struct cu_graph *graph);

CUresult cu_node_new(CUgraphNodeType type, struct cu_context *context, struct cu_node **ret);
CUresult cu_node_from_op(struct cu_context *context, const struct cu_op *op, struct cu_node **ret);
/* Checks and copies parameters. On failure the node keeps its old parameters. */
CUresult cu_node_set(struct cu_node *node, const CUgraphNodeParams *params);
/* Makes a node with these parameters. */
CUresult cu_node_make(
	const CUgraphNodeParams *params, struct cu_context *context, struct cu_node **ret);
/* Fills the parameters that a program reads back. */
void cu_node_get(const struct cu_node *node, CUgraphNodeParams *ret_params);
CUresult cu_node_copy(const struct cu_node *node, struct cu_node **ret);
void cu_node_free(struct cu_node *node);
/* Returns whether this node is in `to`, or a node in `to` depends on it, directly or not. */
bool cu_node_reaches(struct cu_node *node, struct cu_node *const *to, size_t n);

/*
 * Memory behind the addresses of graph allocations. A launch backs the addresses of its allocation
 * nodes with memory, and a trim takes unused memory away.
 */
CUresult cu_graph_memory_reserve(struct cu_context *context, uint64_t bytes, uint64_t *ret);
CUresult cu_graph_memory_back(struct cu_range *range);
void cu_graph_memory_freed(struct cu_range *range);

/*
 * Frees memory of executable graphs that were destroyed in flight and are now complete. Needs the
 * lock.
 */
void cu_exec_land(void);
/* Call before the stream is freed. */
void cu_exec_stream_destroyed(const struct cu_stream *stream);

void cu_user_object_unref(struct cu_user_object *object, unsigned count);
/* Runs the destructors that are due. Call without the lock. */
void cu_user_objects_reap(void);

CUresult cu_exec_launch(struct cu_exec *exec, struct cu_stream *stream);

#endif
