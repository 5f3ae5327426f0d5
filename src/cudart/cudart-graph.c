/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes of graphs whose parameters name kernels by host address, variables by host address, or
 * memory by the runtime's structs. All other functions of graphs are the driver's.
 */
#include <string.h>

#include "cudart/cudart.h"
#include "cudart/cudart-entries.h"

/* ---- kernels ---- */

static cudaError_t kernel_params(const struct cudaKernelNodeParams *p, CUDA_KERNEL_NODE_PARAMS *ret)
{
	CUkernel kernel;

	RT_CHECK(p, cudaErrorInvalidValue);
	RT_TRY(rt_kernel(p->func, &kernel));
	*ret = (CUDA_KERNEL_NODE_PARAMS){
		.kern = kernel,
		.ctx = rt_context(),
		.gridDimX = p->gridDim.x,
		.gridDimY = p->gridDim.y,
		.gridDimZ = p->gridDim.z,
		.blockDimX = p->blockDim.x,
		.blockDimY = p->blockDim.y,
		.blockDimZ = p->blockDim.z,
		.sharedMemBytes = p->sharedMemBytes,
		.kernelParams = p->kernelParams,
		.extra = p->extra,
	};
	return cudaSuccess;
}

cudaError_t rt_cudaGraphAddKernelNode(CUgraphNode *pGraphNode, CUgraph graph,
	const CUgraphNode *pDependencies, size_t numDependencies,
	const struct cudaKernelNodeParams *pNodeParams)
{
	CUDA_KERNEL_NODE_PARAMS params;

	RT_TRY(kernel_params(pNodeParams, &params));
	RT_DRIVE(cuGraphAddKernelNode_v2(
		pGraphNode, graph, pDependencies, numDependencies, &params));
	return cudaSuccess;
}

cudaError_t rt_cudaGraphKernelNodeSetParams(
	CUgraphNode node, const struct cudaKernelNodeParams *pNodeParams)
{
	CUDA_KERNEL_NODE_PARAMS params;

	RT_TRY(kernel_params(pNodeParams, &params));
	RT_DRIVE(cuGraphKernelNodeSetParams_v2(node, &params));
	return cudaSuccess;
}

cudaError_t rt_cudaGraphExecKernelNodeSetParams(
	CUgraphExec hGraphExec, CUgraphNode node, const struct cudaKernelNodeParams *pNodeParams)
{
	CUDA_KERNEL_NODE_PARAMS params;

	RT_TRY(kernel_params(pNodeParams, &params));
	RT_DRIVE(cuGraphExecKernelNodeSetParams_v2(hGraphExec, node, &params));
	return cudaSuccess;
}

cudaError_t rt_cudaGraphKernelNodeGetParams(
	CUgraphNode node, struct cudaKernelNodeParams *pNodeParams)
{
	CUDA_KERNEL_NODE_PARAMS p;

	RT_CHECK(pNodeParams, cudaErrorInvalidValue);
	RT_DRIVE(cuGraphKernelNodeGetParams_v2(node, &p));
	*pNodeParams = (struct cudaKernelNodeParams){
		.func = rt_kernel_host(p.kern, p.func),
		.gridDim = {p.gridDimX, p.gridDimY, p.gridDimZ},
		.blockDim = {p.blockDimX, p.blockDimY, p.blockDimZ},
		.sharedMemBytes = p.sharedMemBytes,
		.kernelParams = p.kernelParams,
		.extra = p.extra,
	};
	return cudaSuccess;
}

/* ---- copies ---- */

static cudaError_t add_copy(CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *after,
	size_t n_after, const CUDA_MEMCPY3D *copy)
{
	RT_DRIVE(cuGraphAddMemcpyNode(ret_node, graph, after, n_after, copy, rt_context()));
	return cudaSuccess;
}

cudaError_t rt_cudaGraphAddMemcpyNode(CUgraphNode *pGraphNode, CUgraph graph,
	const CUgraphNode *pDependencies, size_t numDependencies,
	const struct cudaMemcpy3DParms *pCopyParams)
{
	CUDA_MEMCPY3D copy;

	RT_CHECK(pCopyParams, cudaErrorInvalidValue);
	RT_TRY(rt_copy_params(pCopyParams, &copy));
	return add_copy(pGraphNode, graph, pDependencies, numDependencies, &copy);
}

cudaError_t rt_cudaGraphAddMemcpyNode1D(CUgraphNode *pGraphNode, CUgraph graph,
	const CUgraphNode *pDependencies, size_t numDependencies, void *dst, const void *src,
	size_t count, enum cudaMemcpyKind kind)
{
	CUDA_MEMCPY3D copy;

	rt_copy_params_1d(dst, src, count, kind, &copy);
	return add_copy(pGraphNode, graph, pDependencies, numDependencies, &copy);
}

cudaError_t rt_cudaGraphAddMemcpyNodeToSymbol(CUgraphNode *pGraphNode, CUgraph graph,
	const CUgraphNode *pDependencies, size_t numDependencies, const void *symbol,
	const void *src, size_t count, size_t offset, enum cudaMemcpyKind kind)
{
	void *at;

	RT_TRY(rt_symbol_range(symbol, count, offset, &at));
	return rt_cudaGraphAddMemcpyNode1D(
		pGraphNode, graph, pDependencies, numDependencies, at, src, count, kind);
}

cudaError_t rt_cudaGraphAddMemcpyNodeFromSymbol(CUgraphNode *pGraphNode, CUgraph graph,
	const CUgraphNode *pDependencies, size_t numDependencies, void *dst, const void *symbol,
	size_t count, size_t offset, enum cudaMemcpyKind kind)
{
	void *at;

	RT_TRY(rt_symbol_range(symbol, count, offset, &at));
	return rt_cudaGraphAddMemcpyNode1D(
		pGraphNode, graph, pDependencies, numDependencies, dst, at, count, kind);
}

cudaError_t rt_cudaGraphMemcpyNodeGetParams(CUgraphNode node, struct cudaMemcpy3DParms *pNodeParams)
{
	CUDA_MEMCPY3D copy;

	RT_CHECK(pNodeParams, cudaErrorInvalidValue);
	RT_DRIVE(cuGraphMemcpyNodeGetParams(node, &copy));
	return rt_copy_params_back(&copy, pNodeParams);
}

cudaError_t rt_cudaGraphMemcpyNodeSetParams(
	CUgraphNode node, const struct cudaMemcpy3DParms *pNodeParams)
{
	CUDA_MEMCPY3D copy;

	RT_CHECK(pNodeParams, cudaErrorInvalidValue);
	RT_TRY(rt_copy_params(pNodeParams, &copy));
	RT_DRIVE(cuGraphMemcpyNodeSetParams(node, &copy));
	return cudaSuccess;
}

cudaError_t rt_cudaGraphMemcpyNodeSetParams1D(
	CUgraphNode node, void *dst, const void *src, size_t count, enum cudaMemcpyKind kind)
{
	CUDA_MEMCPY3D copy;

	rt_copy_params_1d(dst, src, count, kind, &copy);
	RT_DRIVE(cuGraphMemcpyNodeSetParams(node, &copy));
	return cudaSuccess;
}

cudaError_t rt_cudaGraphMemcpyNodeSetParamsToSymbol(CUgraphNode node, const void *symbol,
	const void *src, size_t count, size_t offset, enum cudaMemcpyKind kind)
{
	void *at;

	RT_TRY(rt_symbol_range(symbol, count, offset, &at));
	return rt_cudaGraphMemcpyNodeSetParams1D(node, at, src, count, kind);
}

cudaError_t rt_cudaGraphMemcpyNodeSetParamsFromSymbol(CUgraphNode node, void *dst,
	const void *symbol, size_t count, size_t offset, enum cudaMemcpyKind kind)
{
	void *at;

	RT_TRY(rt_symbol_range(symbol, count, offset, &at));
	return rt_cudaGraphMemcpyNodeSetParams1D(node, dst, at, count, kind);
}

static cudaError_t set_copy(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *copy)
{
	RT_DRIVE(cuGraphExecMemcpyNodeSetParams(exec, node, copy, rt_context()));
	return cudaSuccess;
}

cudaError_t rt_cudaGraphExecMemcpyNodeSetParams(
	CUgraphExec hGraphExec, CUgraphNode node, const struct cudaMemcpy3DParms *pNodeParams)
{
	CUDA_MEMCPY3D copy;

	RT_CHECK(pNodeParams, cudaErrorInvalidValue);
	RT_TRY(rt_copy_params(pNodeParams, &copy));
	return set_copy(hGraphExec, node, &copy);
}

cudaError_t rt_cudaGraphExecMemcpyNodeSetParams1D(CUgraphExec hGraphExec, CUgraphNode node,
	void *dst, const void *src, size_t count, enum cudaMemcpyKind kind)
{
	CUDA_MEMCPY3D copy;

	rt_copy_params_1d(dst, src, count, kind, &copy);
	return set_copy(hGraphExec, node, &copy);
}

cudaError_t rt_cudaGraphExecMemcpyNodeSetParamsToSymbol(CUgraphExec hGraphExec, CUgraphNode node,
	const void *symbol, const void *src, size_t count, size_t offset, enum cudaMemcpyKind kind)
{
	void *at;

	RT_TRY(rt_symbol_range(symbol, count, offset, &at));
	return rt_cudaGraphExecMemcpyNodeSetParams1D(hGraphExec, node, at, src, count, kind);
}

cudaError_t rt_cudaGraphExecMemcpyNodeSetParamsFromSymbol(CUgraphExec hGraphExec, CUgraphNode node,
	void *dst, const void *symbol, size_t count, size_t offset, enum cudaMemcpyKind kind)
{
	void *at;

	RT_TRY(rt_symbol_range(symbol, count, offset, &at));
	return rt_cudaGraphExecMemcpyNodeSetParams1D(hGraphExec, node, dst, at, count, kind);
}

/* ---- memsets ---- */

cudaError_t rt_cudaGraphAddMemsetNode(CUgraphNode *pGraphNode, CUgraph graph,
	const CUgraphNode *pDependencies, size_t numDependencies,
	const CUDA_MEMSET_NODE_PARAMS *pMemsetParams)
{
	RT_DRIVE(cuGraphAddMemsetNode(
		pGraphNode, graph, pDependencies, numDependencies, pMemsetParams, rt_context()));
	return cudaSuccess;
}

cudaError_t rt_cudaGraphExecMemsetNodeSetParams(
	CUgraphExec hGraphExec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *pNodeParams)
{
	RT_DRIVE(cuGraphExecMemsetNodeSetParams(hGraphExec, node, pNodeParams, rt_context()));
	return cudaSuccess;
}

/* ---- nodes of any type ---- */

static cudaError_t any_params(const struct cudaGraphNodeParams *p, CUgraphNodeParams *ret)
{
	CUDA_KERNEL_NODE_PARAMS kernel;

	RT_CHECK(p, cudaErrorInvalidValue);
	memset(ret, 0, sizeof(*ret));
	ret->type = p->type;
	switch ((int)p->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		RT_TRY(kernel_params(&p->kernel, &kernel));
		_Static_assert(sizeof(kernel) == sizeof(ret->kernel), "same fields");
		memcpy(&ret->kernel, &kernel, sizeof(kernel));
		return cudaSuccess;
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		ret->memcpy.copyCtx = rt_context();
		return rt_copy_params(&p->memcpy.copyParams, &ret->memcpy.copyParams);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		memcpy(&ret->memset, &p->memset, sizeof(p->memset));
		ret->memset.ctx = rt_context();
		return cudaSuccess;
	case CU_GRAPH_NODE_TYPE_CONDITIONAL:
		memcpy(&ret->conditional, &p->conditional, sizeof(p->conditional));
		ret->conditional.ctx = rt_context();
		return cudaSuccess;
	case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
	case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT: return cudaErrorNotSupported;
	default:
		/* The other types have the same fields in both APIs. */
		memcpy(&ret->reserved1, &p->reserved1, sizeof(ret->reserved1));
		return cudaSuccess;
	}
}

/* Copies what the driver has set: the address of an allocation, the graphs of a condition. */
static void any_results(const CUgraphNodeParams *params, struct cudaGraphNodeParams *ret)
{
	if (params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
		ret->alloc.dptr = params->alloc.dptr;
	else if (params->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
		ret->conditional.phGraph_out = params->conditional.phGraph_out;
}

static cudaError_t add_any(CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *after,
	const CUgraphEdgeData *edges, size_t n_after, struct cudaGraphNodeParams *p)
{
	CUgraphNodeParams params;

	RT_TRY(any_params(p, &params));
	RT_DRIVE(cuGraphAddNode_v2(ret_node, graph, after, edges, n_after, &params));
	any_results(&params, p);
	return cudaSuccess;
}

#if CUDART_MAJOR == 12
cudaError_t rt_cudaGraphAddNode(CUgraphNode *pGraphNode, CUgraph graph,
	const CUgraphNode *pDependencies, size_t numDependencies,
	struct cudaGraphNodeParams *nodeParams)
{
	return add_any(pGraphNode, graph, pDependencies, NULL, numDependencies, nodeParams);
}

cudaError_t rt_cudaGraphAddNode_v2(CUgraphNode *pGraphNode, CUgraph graph,
	const CUgraphNode *pDependencies, const CUgraphEdgeData *dependencyData,
	size_t numDependencies, struct cudaGraphNodeParams *nodeParams)
{
	return add_any(
		pGraphNode, graph, pDependencies, dependencyData, numDependencies, nodeParams);
}
#else
cudaError_t rt_cudaGraphAddNode(CUgraphNode *pGraphNode, CUgraph graph,
	const CUgraphNode *pDependencies, const CUgraphEdgeData *dependencyData,
	size_t numDependencies, struct cudaGraphNodeParams *nodeParams)
{
	return add_any(
		pGraphNode, graph, pDependencies, dependencyData, numDependencies, nodeParams);
}
#endif

cudaError_t rt_cudaGraphNodeSetParams(CUgraphNode node, struct cudaGraphNodeParams *nodeParams)
{
	CUgraphNodeParams params;

	RT_TRY(any_params(nodeParams, &params));
	RT_DRIVE(cuGraphNodeSetParams(node, &params));
	return cudaSuccess;
}

cudaError_t rt_cudaGraphExecNodeSetParams(
	CUgraphExec graphExec, CUgraphNode node, struct cudaGraphNodeParams *nodeParams)
{
	CUgraphNodeParams params;

	RT_TRY(any_params(nodeParams, &params));
	RT_DRIVE(cuGraphExecNodeSetParams(graphExec, node, &params));
	return cudaSuccess;
}
