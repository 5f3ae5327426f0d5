/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs and nodes: structure, dependencies, copies. Parameters are in cu-graph-node.c, and
 * executable graphs are in cu-graph-exec.c.
 */
#include "simgpu/cu-graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t walk;

struct cu_graph *cu_graph_get(CUgraph handle)
{
	return cu_handle_get(handle, CU_KIND_GRAPH);
}

static struct cu_node *node_get(CUgraphNode handle)
{
	return cu_handle_get(handle, CU_KIND_NODE);
}

struct cu_graph *cu_graph_new(void)
{
	struct cu_graph *graph = calloc(1, sizeof(*graph));

	if (!graph)
		return NULL;
	cu_list_init(&graph->nodes);
	graph->id = (uint32_t)++cu.next_id;
	graph->handle = cu_handle_new(CU_KIND_GRAPH, graph);
	if (!graph->handle) {
		free(graph);
		return NULL;
	}
	return graph;
}

void cu_graph_free(struct cu_graph *graph)
{
	if (!graph)
		return;
	CU_LIST_EACH(struct cu_node, link, &graph->nodes, node)
	cu_node_free(node);
	for (size_t i = 0; i < graph->n_objects; i++)
		cu_user_object_unref(graph->objects[i].object, graph->objects[i].count);
	free(graph->objects);
	cu_handle_free(graph->handle);
	free(graph);
}

CUresult cu_graph_nodes_from(
	struct cu_graph *graph, const CUgraphNode *handles, size_t n, struct cu_node ***ret_nodes)
{
	_cleanup_free_ struct cu_node **nodes = calloc(n + 1, sizeof(struct cu_node *));

	CU_CHECK(n == 0 || handles, CUDA_ERROR_INVALID_VALUE);
	CU_CHECK(nodes, CUDA_ERROR_OUT_OF_MEMORY);
	walk++;
	for (size_t i = 0; i < n; i++) {
		nodes[i] = node_get(handles[i]);
		CU_CHECK(nodes[i] && nodes[i]->graph == graph && nodes[i]->mark != walk,
			CUDA_ERROR_INVALID_VALUE);
		nodes[i]->mark = walk;
	}
	*ret_nodes = TAKE_PTR(nodes);
	return CUDA_SUCCESS;
}

static CUresult add_dep(struct cu_node *node, struct cu_node *dep)
{
	struct cu_node **bigger = realloc(node->deps, (node->n_deps + 1) * sizeof(dep));

	CU_CHECK(bigger, CUDA_ERROR_OUT_OF_MEMORY);
	node->deps = bigger;
	bigger[node->n_deps++] = dep;
	return CUDA_SUCCESS;
}

CUresult cu_graph_add(
	struct cu_graph *graph, struct cu_node *node, struct cu_node *const *deps, size_t n_deps)
{
	CU_CHECK(graph->n_nodes < SIMGPU_MAX_GRAPH_NODES, CUDA_ERROR_OUT_OF_MEMORY);
	for (size_t i = 0; i < n_deps; i++)
		CU_TRY(add_dep(node, deps[i]));
	node->graph = graph;
	node->local_id = graph->next_node++;
	graph->n_nodes++;
	cu_list_add(&graph->nodes, &node->link);
	return CUDA_SUCCESS;
}

bool cu_graph_has_allocations(const struct cu_graph *graph)
{
	CU_LIST_EACH(struct cu_node, link, &graph->nodes, node)
	if (node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || node->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
		return true;
	return false;
}

bool cu_node_reaches(struct cu_node *node, struct cu_node *const *to, size_t n)
{
	_cleanup_free_ struct cu_node **stack = NULL;
	size_t depth = 0;

	stack = calloc(node->graph->n_nodes + n + 1, sizeof(struct cu_node *));
	walk++;
	/* Each node enters the stack once, so the stack is never larger than the graph. */
	for (size_t i = 0; stack && i < n; i++) {
		if (to[i]->mark == walk)
			continue;
		to[i]->mark = walk;
		stack[depth++] = to[i];
	}
	while (depth != 0) {
		struct cu_node *at = stack[--depth];

		if (at == node)
			return true;
		for (size_t i = 0; i < at->n_deps; i++) {
			if (at->deps[i]->mark == walk)
				continue;
			at->deps[i]->mark = walk;
			stack[depth++] = at->deps[i];
		}
	}
	return false;
}

CUresult cu_graph_share_objects(struct cu_graph *to, const struct cu_graph *from)
{
	struct cu_user_ref *objects = NULL;

	if (from->n_objects) {
		objects = calloc(from->n_objects, sizeof(*objects));
		CU_CHECK(objects, CUDA_ERROR_OUT_OF_MEMORY);
	}
	for (size_t i = 0; i < from->n_objects; i++) {
		objects[i] = from->objects[i];
		objects[i].object->refs += objects[i].count;
	}
	for (size_t i = 0; i < to->n_objects; i++)
		cu_user_object_unref(to->objects[i].object, to->objects[i].count);
	free(to->objects);
	to->objects = objects;
	to->n_objects = from->n_objects;
	return CUDA_SUCCESS;
}

CUresult cu_graph_clone(const struct cu_graph *graph, struct cu_graph **ret)
{
	struct cu_graph *clone = cu_graph_new();
	_cleanup_free_ struct cu_node **copies = calloc(
		graph->n_nodes + 1, sizeof(struct cu_node *));
	CUresult r = clone && copies ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	uint32_t n = 0;

	/*
	 * Copies all nodes before their dependencies, because a dependency may point to a later
	 * node.
	 */
	if (r == CUDA_SUCCESS) {
		clone->origin = graph->handle;
		CU_LIST_EACH(struct cu_node, link, &graph->nodes, node)
		{
			r = cu_node_copy(node, &copies[n]);
			if (r != CUDA_SUCCESS)
				break;
			node->index = n;
			cu_graph_add(clone, copies[n++], NULL, 0);
		}
	}
	if (r == CUDA_SUCCESS)
		CU_LIST_EACH(struct cu_node, link, &graph->nodes, node)
	for (size_t i = 0; i < node->n_deps && r == CUDA_SUCCESS; i++)
		r = add_dep(copies[node->index], copies[node->deps[i]->index]);
	if (r == CUDA_SUCCESS)
		r = cu_graph_share_objects(clone, graph);
	if (r != CUDA_SUCCESS) {
		cu_graph_free(clone);
		return r;
	}
	*ret = clone;
	return CUDA_SUCCESS;
}

/* ---- entry points: graphs ---- */

CUresult simgpu_cuGraphCreate(CUgraph *phGraph, unsigned int flags)
{
	struct cu_graph *graph;

	graph = cu_graph_new();
	CU_CHECK(graph, CUDA_ERROR_OUT_OF_MEMORY);
	*phGraph = graph->handle;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuGraphDestroy(struct cu_graph *graph)
{
	CU_CHECK(!graph->parent && !graph->capture, CUDA_ERROR_INVALID_VALUE);
	cu_graph_free(graph);
	return CUDA_SUCCESS;
}

CUresult simgpu_cuGraphClone(CUgraph *phGraphClone, struct cu_graph *graph)
{
	struct cu_graph *clone;

	CU_CHECK(!cu_graph_has_allocations(graph), CUDA_ERROR_NOT_SUPPORTED);
	CU_TRY(cu_graph_clone(graph, &clone));
	*phGraphClone = clone->handle;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuGraphNodeFindInClone(
	CUgraphNode *phNode, CUgraphNode hOriginalNode, struct cu_graph *graph)
{
	CU_CHECK(node_get(hOriginalNode) && graph->origin, CUDA_ERROR_INVALID_VALUE);
	CU_LIST_EACH(struct cu_node, link, &graph->nodes, node)
	{
		if (node->origin == hOriginalNode) {
			*phNode = node->handle;
			return CUDA_SUCCESS;
		}
	}
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult simgpu_cuGraphGetId(struct cu_graph *graph, unsigned int *graphId)
{
	*graphId = graph->id;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuGraphNodeGetContainingGraph(struct cu_node *node, CUgraph *phGraph)
{
	*phGraph = node->graph->handle;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuGraphNodeGetLocalId(struct cu_node *node, unsigned int *nodeId)
{
	*nodeId = node->local_id;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuGraphNodeGetToolsId(struct cu_node *node, unsigned long long *toolsNodeId)
{
	*toolsNodeId = (unsigned long long)node->graph->id << 32 | node->local_id;
	return CUDA_SUCCESS;
}

/* Returns a list as documented: a NULL list asks for the count, and unused entries become NULL. */
static CUresult give_list(struct cu_node *const *nodes, size_t n, CUgraphNode *to, size_t *room)
{
	if (!to) {
		*room = n;
		return CUDA_SUCCESS;
	}
	for (size_t i = 0; i < *room; i++)
		to[i] = i < n ? nodes[i]->handle : NULL;
	if (*room > n)
		*room = n;
	return CUDA_SUCCESS;
}

static CUresult graph_nodes(struct cu_graph *graph, bool roots, CUgraphNode *to, size_t *room)
{
	_cleanup_free_ struct cu_node **nodes = NULL;
	size_t n = 0;

	nodes = calloc(graph->n_nodes + 1, sizeof(struct cu_node *));
	CU_CHECK(nodes, CUDA_ERROR_OUT_OF_MEMORY);
	CU_LIST_EACH(struct cu_node, link, &graph->nodes, node)
	if (!roots || node->n_deps == 0)
		nodes[n++] = node;
	return give_list(nodes, n, to, room);
}

CUresult simgpu_cuGraphGetNodes(struct cu_graph *graph, CUgraphNode *nodes, size_t *numNodes)
{
	return graph_nodes(graph, false, nodes, numNodes);
}

CUresult simgpu_cuGraphGetRootNodes(
	struct cu_graph *graph, CUgraphNode *rootNodes, size_t *numRootNodes)
{
	return graph_nodes(graph, true, rootNodes, numRootNodes);
}

static CUresult graph_edges(struct cu_graph *graph, CUgraphNode *from, CUgraphNode *to,
	CUgraphEdgeData *data, size_t *room)
{
	size_t n = 0;

	CU_LIST_EACH(struct cu_node, link, &graph->nodes, node)
	{
		for (size_t i = 0; i < node->n_deps; i++, n++) {
			if (!from || n >= *room)
				continue;
			from[n] = node->deps[i]->handle;
			to[n] = node->handle;
			if (data)
				data[n] = (CUgraphEdgeData){0};
		}
	}
	for (size_t i = n; from && i < *room; i++)
		from[i] = to[i] = NULL;
	if (!from || *room > n)
		*room = n;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuGraphGetEdges(
	struct cu_graph *graph, CUgraphNode *from, CUgraphNode *to, size_t *numEdges)
{
	return graph_edges(graph, from, to, NULL, numEdges);
}

CUresult simgpu_cuGraphGetEdges_v2(struct cu_graph *graph, CUgraphNode *from, CUgraphNode *to,
	CUgraphEdgeData *edgeData, size_t *numEdges)
{
	return graph_edges(graph, from, to, edgeData, numEdges);
}

static CUresult graph_neighbours(
	struct cu_node *node, bool after, CUgraphNode *to, CUgraphEdgeData *data, size_t *room)
{
	_cleanup_free_ struct cu_node **nodes = NULL;
	size_t n = 0;

	if (data && to)
		memset(data, 0, *room * sizeof(*data));
	if (!after)
		return give_list(node->deps, node->n_deps, to, room);
	nodes = calloc(node->graph->n_nodes + 1, sizeof(struct cu_node *));
	CU_CHECK(nodes, CUDA_ERROR_OUT_OF_MEMORY);
	CU_LIST_EACH(struct cu_node, link, &node->graph->nodes, other)
	for (size_t i = 0; i < other->n_deps; i++)
		if (other->deps[i] == node)
			nodes[n++] = other;
	return give_list(nodes, n, to, room);
}

CUresult simgpu_cuGraphNodeGetDependencies(
	struct cu_node *node, CUgraphNode *dependencies, size_t *numDependencies)
{
	return graph_neighbours(node, false, dependencies, NULL, numDependencies);
}

CUresult simgpu_cuGraphNodeGetDependencies_v2(struct cu_node *node, CUgraphNode *dependencies,
	CUgraphEdgeData *edgeData, size_t *numDependencies)
{
	return graph_neighbours(node, false, dependencies, edgeData, numDependencies);
}

CUresult simgpu_cuGraphNodeGetDependentNodes(
	struct cu_node *node, CUgraphNode *dependentNodes, size_t *numDependentNodes)
{
	return graph_neighbours(node, true, dependentNodes, NULL, numDependentNodes);
}

CUresult simgpu_cuGraphNodeGetDependentNodes_v2(struct cu_node *node, CUgraphNode *dependentNodes,
	CUgraphEdgeData *edgeData, size_t *numDependentNodes)
{
	return graph_neighbours(node, true, dependentNodes, edgeData, numDependentNodes);
}

static size_t find_dep(const struct cu_node *node, const struct cu_node *dep)
{
	size_t i = 0;

	while (i < node->n_deps && node->deps[i] != dep)
		i++;
	return i;
}

static CUresult change_edges(
	struct cu_graph *graph, const CUgraphNode *from, const CUgraphNode *to, size_t n, bool add)
{
	CU_CHECK(n == 0 || (from && to), CUDA_ERROR_INVALID_VALUE);
	for (size_t i = 0; i < n; i++) {
		struct cu_node *dep = node_get(from[i]), *node = node_get(to[i]);

		CU_CHECK(dep && node && dep != node && dep->graph == graph && node->graph == graph,
			CUDA_ERROR_INVALID_VALUE);
		CU_CHECK((find_dep(node, dep) == node->n_deps) == add, CUDA_ERROR_INVALID_VALUE);
		CU_CHECK(add || !cu_graph_has_allocations(graph), CUDA_ERROR_NOT_SUPPORTED);
	}
	for (size_t i = 0; i < n; i++) {
		struct cu_node *dep = node_get(from[i]), *node = node_get(to[i]);
		size_t at = find_dep(node, dep);

		/* A call may name an edge twice; the second one has no effect. */
		if (add && at == node->n_deps)
			CU_TRY(add_dep(node, dep));
		else if (!add && at < node->n_deps)
			node->deps[at] = node->deps[--node->n_deps];
	}
	return CUDA_SUCCESS;
}

CUresult simgpu_cuGraphAddDependencies(struct cu_graph *graph, const CUgraphNode *from,
	const CUgraphNode *to, size_t numDependencies)
{
	return change_edges(graph, from, to, numDependencies, true);
}

CUresult simgpu_cuGraphAddDependencies_v2(struct cu_graph *graph, const CUgraphNode *from,
	const CUgraphNode *to, const CUgraphEdgeData *edgeData, size_t numDependencies)
{
	return change_edges(graph, from, to, numDependencies, true);
}

CUresult simgpu_cuGraphRemoveDependencies(struct cu_graph *graph, const CUgraphNode *from,
	const CUgraphNode *to, size_t numDependencies)
{
	return change_edges(graph, from, to, numDependencies, false);
}

CUresult simgpu_cuGraphRemoveDependencies_v2(struct cu_graph *graph, const CUgraphNode *from,
	const CUgraphNode *to, const CUgraphEdgeData *edgeData, size_t numDependencies)
{
	return change_edges(graph, from, to, numDependencies, false);
}

CUresult simgpu_cuGraphDestroyNode(struct cu_node *node)
{
	struct cu_graph *graph;

	CU_CHECK(node->graph && !node->graph->capture, CUDA_ERROR_INVALID_VALUE);
	graph = node->graph;
	CU_CHECK(!cu_graph_has_allocations(graph), CUDA_ERROR_NOT_SUPPORTED);
	CU_LIST_EACH(struct cu_node, link, &graph->nodes, other)
	{
		size_t at = find_dep(other, node);

		if (at < other->n_deps)
			other->deps[at] = other->deps[--other->n_deps];
	}
	graph->n_nodes--;
	cu_node_free(node);
	return CUDA_SUCCESS;
}

CUresult simgpu_cuGraphNodeGetType(struct cu_node *node, CUgraphNodeType *type)
{
	*type = node->type;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuGraphDebugDotPrint(struct cu_graph *graph, const char *path, unsigned int flags)
{
	static const char *const names[] = {
		"kernel",
		"memcpy",
		"memset",
		"host",
		"graph",
		"empty",
		"event wait",
		"event record",
		"semaphore signal",
		"semaphore wait",
		"alloc",
		"free",
		"mem op",
		"conditional",
	};
	_cleanup_fclose_ FILE *f = NULL;
	uint32_t n = 0;

	f = fopen(path, "we");
	CU_CHECK(f, CUDA_ERROR_OPERATING_SYSTEM);
	fprintf(f, "digraph simulated {\n");
	CU_LIST_EACH(struct cu_node, link, &graph->nodes, node)
	{
		node->index = n++;
		fprintf(f, "\tnode_%u [label=\"%u %s\"];\n", node->index, node->index,
			names[node->type]);
	}
	CU_LIST_EACH(struct cu_node, link, &graph->nodes, node)
	for (size_t i = 0; i < node->n_deps; i++)
		fprintf(f, "\tnode_%u -> node_%u;\n", node->deps[i]->index, node->index);
	fprintf(f, "}\n");
	return ferror(f) ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}

/* ---- user objects ---- */

static struct cu_list due = {&due, &due};
static _Atomic unsigned n_due;

void cu_user_object_unref(struct cu_user_object *object, unsigned count)
{
	object->refs = object->refs > count ? object->refs - count : 0;
	if (object->refs != 0)
		return;
	cu_handle_free(object->handle);
	cu_list_add(&due, &object->link);
	atomic_fetch_add(&n_due, 1);
}

void cu_user_objects_reap(void)
{
	while (__builtin_expect(atomic_load_explicit(&n_due, memory_order_relaxed) != 0, 0)) {
		struct cu_user_object *object = NULL;

		pthread_mutex_lock(&cu.lock);
		if (due.next != &due) {
			object = CONTAINER_OF(due.next, struct cu_user_object, link);
			cu_list_remove(&object->link);
			atomic_fetch_sub(&n_due, 1);
		}
		pthread_mutex_unlock(&cu.lock);
		if (!object)
			return;
		cu_thread.in_callback++;
		object->destroy(object->ptr);
		cu_thread.in_callback--;
		free(object);
	}
}

CUresult simgpu_cuUserObjectCreate(CUuserObject *object_out, void *ptr, CUhostFn destroy,
	unsigned int initialRefcount, unsigned int flags)
{
	struct cu_user_object *object;

	CU_CHECK(initialRefcount != 0 && initialRefcount <= INT32_MAX &&
			flags == CU_USER_OBJECT_NO_DESTRUCTOR_SYNC,
		CUDA_ERROR_INVALID_VALUE);
	object = calloc(1, sizeof(*object));
	CU_CHECK(object, CUDA_ERROR_OUT_OF_MEMORY);
	object->ptr = ptr;
	object->destroy = destroy;
	object->refs = initialRefcount;
	object->handle = cu_handle_new(CU_KIND_USER_OBJECT, object);
	*object_out = object->handle;
	return CUDA_SUCCESS;
}

static CUresult user_object_get(CUuserObject handle, unsigned count, struct cu_user_object **ret)
{
	*ret = cu_handle_get(handle, CU_KIND_USER_OBJECT);
	CU_CHECK(*ret && count != 0 && count <= INT32_MAX, CUDA_ERROR_INVALID_VALUE);
	return CUDA_SUCCESS;
}

CUresult simgpu_cuUserObjectRetain(CUuserObject object, unsigned int count)
{
	struct cu_user_object *o;

	CU_TRY(user_object_get(object, count, &o));
	o->refs += count;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuUserObjectRelease(CUuserObject object, unsigned int count)
{
	struct cu_user_object *o;

	CU_TRY(user_object_get(object, count, &o));
	CU_CHECK(count <= o->refs, CUDA_ERROR_INVALID_VALUE);
	cu_user_object_unref(o, count);
	return CUDA_SUCCESS;
}

CUresult simgpu_cuGraphRetainUserObject(
	struct cu_graph *g, CUuserObject object, unsigned int count, unsigned int flags)
{
	struct cu_user_object *o;
	struct cu_user_ref *bigger;

	CU_TRY(user_object_get(object, count, &o));
	bigger = realloc(g->objects, (g->n_objects + 1) * sizeof(*bigger));
	CU_CHECK(bigger, CUDA_ERROR_OUT_OF_MEMORY);
	g->objects = bigger;
	if ((flags & CU_GRAPH_USER_OBJECT_MOVE) == 0)
		o->refs += count;
	bigger[g->n_objects++] = (struct cu_user_ref){o, count};
	return CUDA_SUCCESS;
}

CUresult simgpu_cuGraphReleaseUserObject(
	struct cu_graph *g, CUuserObject object, unsigned int count)
{
	struct cu_user_object *o;

	CU_TRY(user_object_get(object, count, &o));
	for (size_t i = 0; i < g->n_objects; i++) {
		if (g->objects[i].object != o || g->objects[i].count < count)
			continue;
		g->objects[i].count -= count;
		if (g->objects[i].count == 0)
			g->objects[i] = g->objects[--g->n_objects];
		cu_user_object_unref(o, count);
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_INVALID_VALUE;
}
