/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parameters of graph nodes: the setters check and copy them, and the getters return them. Every
 * typed entry point goes through CUgraphNodeParams, because this form covers all types.
 */
#include "simgpu/cu-graph.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

CUresult cu_node_new(CUgraphNodeType type, struct cu_context *context, struct cu_node **ret)
{
	struct cu_node *node = calloc(1, sizeof(*node));

	CU_CHECK(node, CUDA_ERROR_OUT_OF_MEMORY);
	node->handle = cu_handle_new(CU_KIND_NODE, node);
	if (!node->handle) {
		free(node);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	node->type = type;
	node->params.type = type;
	node->context = context;
	node->context_handle = context ? context->handle : NULL;
	*ret = node;
	return CUDA_SUCCESS;
}

void cu_node_free(struct cu_node *node)
{
	if (!node)
		return;
	if (node->child) {
		node->child->parent = NULL;
		cu_graph_free(node->child);
	}
	if (node->host)
		cu_host_drop(node->host);
	cu_handle_free(node->handle);
	cu_list_remove(&node->link);
	free(node->args);
	free(node->arg_pointers);
	free(node->mem_ops);
	free(node->access);
	free(node->attributes);
	free(node->deps);
	free(node);
}

/* ---- setting ---- */

static CUresult context_of(CUcontext handle, struct cu_context **ret)
{
	if (!handle)
		return cu_current(ret);
	*ret = cu_context_get(handle);
	return *ret ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

static CUresult set_kernel(struct cu_node *node, const CUDA_KERNEL_NODE_PARAMS_v3 *p)
{
	CUfunction handle = p->func ? p->func : (CUfunction)p->kern;
	_cleanup_free_ void **pointers = NULL;
	_cleanup_free_ uint8_t *args = NULL, *owned = NULL;
	struct cu_context *context = node->context;
	struct cu_function *function;
	struct cu_launch l;
	struct cu_op op;
	uint32_t bytes;

	if (p->ctx || !context)
		CU_TRY(context_of(p->ctx, &context));
	/* A function of another context moves the node into that context. */
	function = cu_handle_get(handle, CU_KIND_FUNCTION);
	if (function)
		context = function->module->context;
	CU_TRY(cu_function_get(handle, context, &function));
	l = (struct cu_launch){
		.grid = {p->gridDimX, p->gridDimY, p->gridDimZ},
		.block = {p->blockDimX, p->blockDimY, p->blockDimZ},
		.shared_bytes = p->sharedMemBytes,
		.params = p->kernelParams,
		.extra = p->extra,
	};
	CU_TRY(cu_build_kernel(context, function, &l, &op, &owned));
	args = calloc(1, function->kernel->param_bytes + 1u);
	pointers = calloc(function->kernel->n_params + 1u, sizeof(void *));
	CU_CHECK(args && pointers, CUDA_ERROR_OUT_OF_MEMORY);
	CU_TRY(cu_take_params(function->kernel, &l, args, &bytes));
	for (uint32_t i = 0; i < function->kernel->n_params; i++)
		pointers[i] = args + function->kernel->params[i].offset;
	free(node->args);
	free(node->arg_pointers);
	node->args = TAKE_PTR(args);
	node->arg_pointers = TAKE_PTR(pointers);
	node->context = context;
	node->context_handle = context->handle;
	node->params.kernel = *p;
	node->params.kernel.func = handle;
	node->params.kernel.kern = NULL;
	node->params.kernel.ctx = context->handle;
	node->params.kernel.kernelParams = node->arg_pointers;
	node->params.kernel.extra = NULL;
	return CUDA_SUCCESS;
}

static CUresult set_mem_ops(struct cu_node *node, const CUDA_BATCH_MEM_OP_NODE_PARAMS_v2 *p)
{
	struct cu_context *context = node->context;
	CUstreamBatchMemOpParams *copy;
	struct cu_op op;

	CU_CHECK(p->count != 0 && p->count <= 256 && p->paramArray && p->flags == 0,
		CUDA_ERROR_INVALID_VALUE);
	if (p->ctx || !context)
		CU_TRY(context_of(p->ctx, &context));
	for (unsigned i = 0; i < p->count; i++)
		CU_TRY(cu_build_value(context, &p->paramArray[i], &op));
	copy = malloc(p->count * sizeof(*copy));
	CU_CHECK(copy, CUDA_ERROR_OUT_OF_MEMORY);
	memcpy(copy, p->paramArray, p->count * sizeof(*copy));
	free(node->mem_ops);
	node->mem_ops = copy;
	node->context = context;
	node->context_handle = context->handle;
	node->params.memOp = *p;
	node->params.memOp.ctx = context->handle;
	node->params.memOp.paramArray = copy;
	return CUDA_SUCCESS;
}

static CUresult set_alloc(struct cu_node *node, const CUDA_MEM_ALLOC_NODE_PARAMS_v2 *p)
{
	struct cu_context *context;
	struct cu_device *device;
	uint64_t address;

	/* An allocation keeps its address, so a program sets its parameters only once. */
	CU_CHECK(node->params.alloc.dptr == 0, CUDA_ERROR_NOT_SUPPORTED);
	CU_CHECK(p->bytesize != 0 && p->poolProps.allocType == CU_MEM_ALLOCATION_TYPE_PINNED &&
			p->poolProps.location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
			(p->accessDescCount == 0 || p->accessDescs),
		CUDA_ERROR_INVALID_VALUE);
	CU_CHECK(p->poolProps.handleTypes == CU_MEM_HANDLE_TYPE_NONE, CUDA_ERROR_INVALID_VALUE);
	CU_TRY(cu_device_get(p->poolProps.location.id, &device));
	context = node->context;
	if (!context || context->device != device->engine)
		CU_TRY(cu_current(&context));
	CU_TRY(cu_graph_memory_reserve(context, p->bytesize, &address));
	node->context = context;
	node->context_handle = context->handle;
	node->params.alloc = *p;
	node->params.alloc.dptr = address;
	node->params.alloc.accessDescs = NULL;
	node->params.alloc.accessDescCount = 0;
	return CUDA_SUCCESS;
}

static CUresult graph_node_set_free(struct cu_node *node, CUdeviceptr dptr)
{
	const struct cu_range *range = cu_range_find(&cu.device_memory, dptr);

	CU_CHECK(range && range->base == dptr && range->kind == CU_MEM_GRAPH,
		CUDA_ERROR_INVALID_VALUE);
	node->params.free.dptr = dptr;
	return CUDA_SUCCESS;
}

static CUresult set_child(struct cu_node *node, CUgraph handle)
{
	struct cu_graph *graph = cu_graph_get(handle), *copy;

	CU_CHECK(graph, CUDA_ERROR_INVALID_VALUE);
	CU_CHECK(!cu_graph_has_allocations(graph), CUDA_ERROR_NOT_SUPPORTED);
	CU_TRY(cu_graph_clone(graph, &copy));
	if (node->child) {
		node->child->parent = NULL;
		cu_graph_free(node->child);
	}
	node->child = copy;
	copy->parent = node;
	node->params.graph.graph = copy->handle;
	return CUDA_SUCCESS;
}

CUresult cu_node_set(struct cu_node *node, const CUgraphNodeParams *p)
{
	struct cu_context *context = node->context;
	struct cu_op op;

	CU_CHECK(p->type == node->type, CUDA_ERROR_INVALID_VALUE);
	switch ((int)p->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL: return set_kernel(node, &p->kernel);
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		CU_CHECK(p->memcpy.flags == 0, CUDA_ERROR_INVALID_VALUE);
		if (p->memcpy.copyCtx || !context)
			CU_TRY(context_of(p->memcpy.copyCtx, &context));
		CU_TRY(cu_build_copy(context, &p->memcpy.copyParams, &op));
		node->params.memcpy = p->memcpy;
		node->params.memcpy.copyCtx = context->handle;
		break;
	case CU_GRAPH_NODE_TYPE_MEMSET: {
		CUDA_MEMSET_NODE_PARAMS m = {
			.dst = p->memset.dst,
			.pitch = p->memset.pitch,
			.value = p->memset.value,
			.elementSize = p->memset.elementSize,
			.width = p->memset.width,
			.height = p->memset.height,
		};

		if (p->memset.ctx || !context)
			CU_TRY(context_of(p->memset.ctx, &context));
		CU_TRY(cu_build_memset(context, &m, &op));
		node->params.memset = p->memset;
		node->params.memset.ctx = context->handle;
		break;
	}
	case CU_GRAPH_NODE_TYPE_HOST:
		CU_CHECK(p->host.fn, CUDA_ERROR_INVALID_VALUE);
		node->params.host = p->host;
		return CUDA_SUCCESS;
	case CU_GRAPH_NODE_TYPE_GRAPH: return set_child(node, p->graph.graph);
	case CU_GRAPH_NODE_TYPE_EMPTY: return CUDA_SUCCESS;
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
		CU_CHECK(cu_event_get(p->eventWait.event), CUDA_ERROR_INVALID_VALUE);
		node->params.eventWait = p->eventWait;
		return CUDA_SUCCESS;
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		CU_CHECK(cu_event_get(p->eventRecord.event), CUDA_ERROR_INVALID_VALUE);
		node->params.eventRecord = p->eventRecord;
		return CUDA_SUCCESS;
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC: return set_alloc(node, &p->alloc);
	case CU_GRAPH_NODE_TYPE_MEM_FREE: return graph_node_set_free(node, p->free.dptr);
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: return set_mem_ops(node, &p->memOp);
	default: return CUDA_ERROR_NOT_SUPPORTED;
	}
	node->context = context;
	node->context_handle = context->handle;
	return CUDA_SUCCESS;
}

CUresult cu_node_make(
	const CUgraphNodeParams *params, struct cu_context *context, struct cu_node **ret)
{
	struct cu_node *node;
	CUresult r;

	CU_TRY(cu_node_new(params->type, context, &node));
	r = cu_node_set(node, params);
	if (r == CUDA_SUCCESS)
		*ret = node;
	else
		cu_node_free(node);
	return r;
}

void cu_node_get(const struct cu_node *node, CUgraphNodeParams *ret_params)
{
	*ret_params = node->params;
}

CUresult cu_node_copy(const struct cu_node *node, struct cu_node **ret)
{
	struct cu_node *copy;
	CUresult r;

	CU_TRY(cu_node_new(node->type, node->context, &copy));
	copy->context_handle = node->context_handle;
	copy->origin = node->handle;
	copy->disabled = node->disabled;
	if (node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
		copy->params = node->params;
		r = CUDA_SUCCESS;
	} else {
		r = cu_node_set(copy, &node->params);
	}
	if (r == CUDA_SUCCESS && node->attributes) {
		copy->attributes = malloc(CU_LAUNCH_ATTRIBUTE_MAX * sizeof(*copy->attributes));
		if (copy->attributes)
			memcpy(copy->attributes, node->attributes,
				CU_LAUNCH_ATTRIBUTE_MAX * sizeof(*copy->attributes));
		copy->attributes_set = copy->attributes ? node->attributes_set : 0;
	}
	if (r != CUDA_SUCCESS) {
		cu_node_free(copy);
		return r;
	}
	*ret = copy;
	return CUDA_SUCCESS;
}

/* ---- from captured operations ---- */

static void copy_from_op(const struct simgpu_op_copy *c, CUDA_MEMCPY3D *ret)
{
	*ret = (CUDA_MEMCPY3D){
		.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
		.srcDevice = c->src,
		.srcPitch = c->src_pitch,
		.srcHeight = c->src_pitch ? c->src_slice / c->src_pitch : 0,
		.dstMemoryType = CU_MEMORYTYPE_UNIFIED,
		.dstDevice = c->dst,
		.dstPitch = c->dst_pitch,
		.dstHeight = c->dst_pitch ? c->dst_slice / c->dst_pitch : 0,
		.WidthInBytes = c->width,
		.Height = c->height,
		.Depth = c->depth,
	};
	if (!cu_is_device_address(c->src)) {
		ret->srcMemoryType = CU_MEMORYTYPE_HOST;
		ret->srcHost = (const void *)(uintptr_t)c->src;
	}
	if (!cu_is_device_address(c->dst)) {
		ret->dstMemoryType = CU_MEMORYTYPE_HOST;
		ret->dstHost = (void *)(uintptr_t)c->dst;
	}
}

static const CUstreamBatchMemOpType value_ops[2][2] = {
	{CU_STREAM_MEM_OP_WRITE_VALUE_32, CU_STREAM_MEM_OP_WRITE_VALUE_64},
	{CU_STREAM_MEM_OP_WAIT_VALUE_32, CU_STREAM_MEM_OP_WAIT_VALUE_64},
};

CUresult cu_node_from_op(struct cu_context *context, const struct cu_op *op, struct cu_node **ret)
{
	CUstreamBatchMemOpParams mem_op = {0};
	CUgraphNodeParams p = {0};
	struct cu_host *host;

	switch (op->entry.kind) {
	case SIMGPU_OP_MEMSET:
		p.type = CU_GRAPH_NODE_TYPE_MEMSET;
		p.memset.dst = op->entry.memset.ptr;
		p.memset.pitch = op->entry.memset.pitch;
		p.memset.value = op->entry.memset.value;
		p.memset.elementSize = op->entry.memset.elem_bytes;
		p.memset.width = op->entry.memset.width;
		p.memset.height = op->entry.memset.height;
		break;
	case SIMGPU_OP_COPY:
		p.type = CU_GRAPH_NODE_TYPE_MEMCPY;
		copy_from_op(&op->entry.copy, &p.memcpy.copyParams);
		break;
	case SIMGPU_OP_WRITE_VALUE:
	case SIMGPU_OP_WAIT_VALUE:
		p.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
		mem_op.writeValue.operation = value_ops[op->entry.kind == SIMGPU_OP_WAIT_VALUE]
						       [op->entry.value.bytes == 8];
		mem_op.writeValue.address = op->entry.value.ptr;
		mem_op.writeValue.value64 = op->entry.value.value;
		mem_op.writeValue.flags = op->entry.value.cmp;
		p.memOp.count = 1;
		p.memOp.paramArray = &mem_op;
		break;
	case SIMGPU_OP_HOST_FUNC:
		host = (struct cu_host *)(uintptr_t)op->entry.host.cookie;
		p.type = CU_GRAPH_NODE_TYPE_HOST;
		p.host.fn = host->fn;
		p.host.userData = host->user_data;
		break;
	default: p.type = CU_GRAPH_NODE_TYPE_EMPTY; break;
	}
	return cu_node_make(&p, context, ret);
}

static CUresult set_attribute(
	struct cu_node *node, CUlaunchAttributeID id, const CUlaunchAttributeValue *value)
{
	if (!node->attributes)
		node->attributes = calloc(CU_LAUNCH_ATTRIBUTE_MAX, sizeof(*node->attributes));
	CU_CHECK(node->attributes, CUDA_ERROR_OUT_OF_MEMORY);
	node->attributes[id] = *value;
	node->attributes_set |= 1u << id;
	return CUDA_SUCCESS;
}

CUresult cu_capture_launch(
	struct cu_stream *stream, CUfunction function, const struct cu_launch *launch)
{
	CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
	CUlaunchAttributeValue cooperative = {.cooperative = 1};
	struct cu_node *node;
	CUresult r;

	p.kernel = (CUDA_KERNEL_NODE_PARAMS_v3){
		.func = function,
		.gridDimX = launch->grid[0],
		.gridDimY = launch->grid[1],
		.gridDimZ = launch->grid[2],
		.blockDimX = launch->block[0],
		.blockDimY = launch->block[1],
		.blockDimZ = launch->block[2],
		.sharedMemBytes = launch->shared_bytes,
		.kernelParams = launch->params,
		.extra = launch->extra,
	};
	CU_TRY(cu_node_make(&p, stream->context, &node));
	r = launch->cooperative ? set_attribute(node, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &cooperative)
				: CUDA_SUCCESS;
	if (r != CUDA_SUCCESS) {
		cu_node_free(node);
		return r;
	}
	return cu_capture_node(stream, node);
}

/* ---- adding ---- */

static CUresult graph_node_add(CUgraphNode *phNode, CUgraph hGraph, const CUgraphNode *dependencies,
	size_t n, CUgraphNodeParams *p)
{
	_cleanup_free_ struct cu_node **deps = NULL;
	struct cu_graph *graph;
	struct cu_node *node;
	CUresult r;

	CU_ENTER();
	graph = cu_graph_get(hGraph);
	CU_CHECK(phNode && graph && p, CUDA_ERROR_INVALID_VALUE);
	CU_CHECK(p->type != CU_GRAPH_NODE_TYPE_GRAPH || p->graph.graph != hGraph,
		CUDA_ERROR_INVALID_VALUE);
	CU_TRY(cu_graph_nodes_from(graph, dependencies, n, &deps));
	CU_TRY(cu_node_new(p->type, NULL, &node));
	r = cu_node_set(node, p);
	if (r == CUDA_SUCCESS)
		r = cu_graph_add(graph, node, deps, n);
	if (r != CUDA_SUCCESS) {
		cu_node_free(node);
		return r;
	}
	if (p->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
		p->alloc.dptr = node->params.alloc.dptr;
	*phNode = node->handle;
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuGraphAddNode(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, size_t numDependencies, CUgraphNodeParams *nodeParams)
{
	return graph_node_add(phGraphNode, hGraph, dependencies, numDependencies, nodeParams);
}

CU_EXPORT CUresult cuGraphAddNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData,
	size_t numDependencies, CUgraphNodeParams *nodeParams)
{
	return graph_node_add(phGraphNode, hGraph, dependencies, numDependencies, nodeParams);
}

/*
 * The parameter struct of an older entry point is a prefix of the newer struct in
 * CUgraphNodeParams.
 */
static CUresult params_from(
	CUgraphNodeType type, const void *form, size_t size, CUgraphNodeParams *ret)
{
	CU_CHECK(form, CUDA_ERROR_INVALID_VALUE);
	*ret = (CUgraphNodeParams){.type = type};
	memcpy(ret->reserved1, form, size);
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuGraphAddKernelNode(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, size_t numDependencies,
	const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	CUgraphNodeParams p;

	CU_TRY(params_from(CU_GRAPH_NODE_TYPE_KERNEL, nodeParams, sizeof(*nodeParams), &p));
	return graph_node_add(phGraphNode, hGraph, dependencies, numDependencies, &p);
}

CU_EXPORT CUresult cuGraphAddKernelNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, size_t numDependencies,
	const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
	CUgraphNodeParams p;

	CU_TRY(params_from(CU_GRAPH_NODE_TYPE_KERNEL, nodeParams, sizeof(*nodeParams), &p));
	return graph_node_add(phGraphNode, hGraph, dependencies, numDependencies, &p);
}

CU_EXPORT CUresult cuGraphAddMemcpyNode(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, size_t numDependencies, const CUDA_MEMCPY3D *copyParams,
	CUcontext ctx)
{
	CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_MEMCPY};

	CU_CHECK(copyParams, CUDA_ERROR_INVALID_VALUE);
	p.memcpy.copyCtx = ctx;
	p.memcpy.copyParams = *copyParams;
	return graph_node_add(phGraphNode, hGraph, dependencies, numDependencies, &p);
}

CU_EXPORT CUresult cuGraphAddMemsetNode(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, size_t numDependencies,
	const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx)
{
	CUgraphNodeParams p;

	CU_TRY(params_from(CU_GRAPH_NODE_TYPE_MEMSET, memsetParams, sizeof(*memsetParams), &p));
	p.memset.ctx = ctx;
	return graph_node_add(phGraphNode, hGraph, dependencies, numDependencies, &p);
}

CU_EXPORT CUresult cuGraphAddHostNode(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, size_t numDependencies,
	const CUDA_HOST_NODE_PARAMS *nodeParams)
{
	CUgraphNodeParams p;

	CU_TRY(params_from(CU_GRAPH_NODE_TYPE_HOST, nodeParams, sizeof(*nodeParams), &p));
	return graph_node_add(phGraphNode, hGraph, dependencies, numDependencies, &p);
}

CU_EXPORT CUresult cuGraphAddChildGraphNode(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, size_t numDependencies, CUgraph childGraph)
{
	CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_GRAPH};

	p.graph.graph = childGraph;
	return graph_node_add(phGraphNode, hGraph, dependencies, numDependencies, &p);
}

CU_EXPORT CUresult cuGraphAddEmptyNode(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, size_t numDependencies)
{
	CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_EMPTY};

	return graph_node_add(phGraphNode, hGraph, dependencies, numDependencies, &p);
}

CU_EXPORT CUresult cuGraphAddEventRecordNode(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, size_t numDependencies, CUevent event)
{
	CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD};

	p.eventRecord.event = event;
	return graph_node_add(phGraphNode, hGraph, dependencies, numDependencies, &p);
}

CU_EXPORT CUresult cuGraphAddEventWaitNode(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, size_t numDependencies, CUevent event)
{
	CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT};

	p.eventWait.event = event;
	return graph_node_add(phGraphNode, hGraph, dependencies, numDependencies, &p);
}

CU_EXPORT CUresult cuGraphAddBatchMemOpNode(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, size_t numDependencies,
	const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams)
{
	CUgraphNodeParams p;

	CU_TRY(params_from(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, nodeParams, sizeof(*nodeParams), &p));
	return graph_node_add(phGraphNode, hGraph, dependencies, numDependencies, &p);
}

CU_EXPORT CUresult cuGraphAddMemAllocNode(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, size_t numDependencies,
	CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams)
{
	CUgraphNodeParams p;

	CU_TRY(params_from(CU_GRAPH_NODE_TYPE_MEM_ALLOC, nodeParams, sizeof(*nodeParams), &p));
	p.alloc.dptr = 0;
	CU_TRY(graph_node_add(phGraphNode, hGraph, dependencies, numDependencies, &p));
	nodeParams->dptr = p.alloc.dptr;
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuGraphAddMemFreeNode(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, size_t numDependencies, CUdeviceptr dptr)
{
	CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_MEM_FREE};

	p.free.dptr = dptr;
	return graph_node_add(phGraphNode, hGraph, dependencies, numDependencies, &p);
}

/* ---- reading and changing ---- */

static CUresult node_params(CUgraphNode hNode, CUgraphNodeType type, CUgraphNodeParams *ret)
{
	struct cu_node *node;

	CU_ENTER();
	node = cu_handle_get(hNode, CU_KIND_NODE);
	CU_CHECK(node && node->type == type, CUDA_ERROR_INVALID_VALUE);
	cu_node_get(node, ret);
	return CUDA_SUCCESS;
}

static CUresult change_node(CUgraphNode hNode, const CUgraphNodeParams *p)
{
	struct cu_node *node;

	CU_ENTER();
	node = cu_handle_get(hNode, CU_KIND_NODE);
	CU_CHECK(node && p, CUDA_ERROR_INVALID_VALUE);
	return cu_node_set(node, p);
}

/* Fills the parameter struct of an older entry point. */
static CUresult get_form(CUgraphNode hNode, CUgraphNodeType type, void *ret, size_t size)
{
	CUgraphNodeParams p;

	CU_CHECK(ret, CUDA_ERROR_INVALID_VALUE);
	CU_TRY(node_params(hNode, type, &p));
	memcpy(ret, p.reserved1, size);
	return CUDA_SUCCESS;
}

static CUresult set_form(CUgraphNode hNode, CUgraphNodeType type, const void *form, size_t size)
{
	CUgraphNodeParams p;

	CU_TRY(params_from(type, form, size, &p));
	return change_node(hNode, &p);
}

CU_EXPORT CUresult cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams *nodeParams)
{
	return change_node(hNode, nodeParams);
}

CU_EXPORT CUresult cuGraphKernelNodeGetParams_v2(
	CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
	return get_form(hNode, CU_GRAPH_NODE_TYPE_KERNEL, nodeParams, sizeof(*nodeParams));
}

CU_EXPORT CUresult cuGraphKernelNodeGetParams(
	CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	return get_form(hNode, CU_GRAPH_NODE_TYPE_KERNEL, nodeParams, sizeof(*nodeParams));
}

CU_EXPORT CUresult cuGraphKernelNodeSetParams_v2(
	CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
	return set_form(hNode, CU_GRAPH_NODE_TYPE_KERNEL, nodeParams, sizeof(*nodeParams));
}

CU_EXPORT CUresult cuGraphKernelNodeSetParams(
	CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	return set_form(hNode, CU_GRAPH_NODE_TYPE_KERNEL, nodeParams, sizeof(*nodeParams));
}

CU_EXPORT CUresult cuGraphMemcpyNodeGetParams(CUgraphNode hNode, CUDA_MEMCPY3D *nodeParams)
{
	CUgraphNodeParams p;

	CU_CHECK(nodeParams, CUDA_ERROR_INVALID_VALUE);
	CU_TRY(node_params(hNode, CU_GRAPH_NODE_TYPE_MEMCPY, &p));
	*nodeParams = p.memcpy.copyParams;
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuGraphMemcpyNodeSetParams(CUgraphNode hNode, const CUDA_MEMCPY3D *nodeParams)
{
	CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_MEMCPY};

	CU_CHECK(nodeParams, CUDA_ERROR_INVALID_VALUE);
	p.memcpy.copyParams = *nodeParams;
	return change_node(hNode, &p);
}

CU_EXPORT CUresult cuGraphMemsetNodeGetParams(
	CUgraphNode hNode, CUDA_MEMSET_NODE_PARAMS *nodeParams)
{
	return get_form(hNode, CU_GRAPH_NODE_TYPE_MEMSET, nodeParams, sizeof(*nodeParams));
}

CU_EXPORT CUresult cuGraphMemsetNodeSetParams(
	CUgraphNode hNode, const CUDA_MEMSET_NODE_PARAMS *nodeParams)
{
	return set_form(hNode, CU_GRAPH_NODE_TYPE_MEMSET, nodeParams, sizeof(*nodeParams));
}

CU_EXPORT CUresult cuGraphHostNodeGetParams(CUgraphNode hNode, CUDA_HOST_NODE_PARAMS *nodeParams)
{
	return get_form(hNode, CU_GRAPH_NODE_TYPE_HOST, nodeParams, sizeof(*nodeParams));
}

CU_EXPORT CUresult cuGraphHostNodeSetParams(
	CUgraphNode hNode, const CUDA_HOST_NODE_PARAMS *nodeParams)
{
	return set_form(hNode, CU_GRAPH_NODE_TYPE_HOST, nodeParams, sizeof(*nodeParams));
}

CU_EXPORT CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode hNode, CUgraph *phGraph)
{
	return get_form(hNode, CU_GRAPH_NODE_TYPE_GRAPH, phGraph, sizeof(*phGraph));
}

CU_EXPORT CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode hNode, CUevent *event_out)
{
	return get_form(hNode, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event_out, sizeof(*event_out));
}

CU_EXPORT CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode hNode, CUevent event)
{
	return set_form(hNode, CU_GRAPH_NODE_TYPE_EVENT_RECORD, &event, sizeof(event));
}

CU_EXPORT CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode hNode, CUevent *event_out)
{
	return get_form(hNode, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event_out, sizeof(*event_out));
}

CU_EXPORT CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode hNode, CUevent event)
{
	return set_form(hNode, CU_GRAPH_NODE_TYPE_WAIT_EVENT, &event, sizeof(event));
}

CU_EXPORT CUresult cuGraphBatchMemOpNodeGetParams(
	CUgraphNode hNode, CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams_out)
{
	return get_form(
		hNode, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, nodeParams_out, sizeof(*nodeParams_out));
}

CU_EXPORT CUresult cuGraphBatchMemOpNodeSetParams(
	CUgraphNode hNode, const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams)
{
	return set_form(hNode, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, nodeParams, sizeof(*nodeParams));
}

CU_EXPORT CUresult cuGraphMemAllocNodeGetParams(
	CUgraphNode hNode, CUDA_MEM_ALLOC_NODE_PARAMS *params_out)
{
	return get_form(hNode, CU_GRAPH_NODE_TYPE_MEM_ALLOC, params_out, sizeof(*params_out));
}

CU_EXPORT CUresult cuGraphMemFreeNodeGetParams(CUgraphNode hNode, CUdeviceptr *dptr_out)
{
	return get_form(hNode, CU_GRAPH_NODE_TYPE_MEM_FREE, dptr_out, sizeof(*dptr_out));
}

static CUresult graph_node_kernel(CUgraphNode handle, struct cu_node **ret)
{
	*ret = cu_handle_get(handle, CU_KIND_NODE);
	CU_CHECK(*ret && (*ret)->type == CU_GRAPH_NODE_TYPE_KERNEL, CUDA_ERROR_INVALID_VALUE);
	return CUDA_SUCCESS;
}

CUresult simgpu_cuGraphKernelNodeGetAttribute(
	CUgraphNode hNode, CUkernelNodeAttrID attr, CUkernelNodeAttrValue *value_out)
{
	struct cu_node *node;

	CU_TRY(graph_node_kernel(hNode, &node));
	memset(value_out, 0, sizeof(*value_out));
	if (node->attributes)
		*value_out = node->attributes[attr];
	return CUDA_SUCCESS;
}

CUresult simgpu_cuGraphKernelNodeSetAttribute(
	CUgraphNode hNode, CUkernelNodeAttrID attr, const CUkernelNodeAttrValue *value)
{
	struct cu_node *node;

	CU_TRY(graph_node_kernel(hNode, &node));
	return set_attribute(node, attr, value);
}

CUresult simgpu_cuGraphKernelNodeCopyAttributes(CUgraphNode dst, CUgraphNode src)
{
	struct cu_node *to, *from;

	CU_TRY(graph_node_kernel(dst, &to));
	CU_TRY(graph_node_kernel(src, &from));
	for (int id = 0; id < CU_LAUNCH_ATTRIBUTE_MAX; id++)
		if (from->attributes_set & 1u << id)
			CU_TRY(set_attribute(to, (CUlaunchAttributeID)id, &from->attributes[id]));
	return CUDA_SUCCESS;
}

CUresult simgpu_cuGraphNodeGetParams(struct cu_node *node, CUgraphNodeParams *nodeParams)
{
	cu_node_get(node, nodeParams);
	return CUDA_SUCCESS;
}
