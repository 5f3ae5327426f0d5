/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A graph's memory is the sum of its allocation nodes. The device reserves at most that sum, and
 * after a launch it reports how much it has reserved for all graphs. This code then returns the
 * difference between charge and reserved memory. Any thread.
 */
#include "hook/graph.h"

#include <errno.h>
#include <stdlib.h>

#include "core/ledger-counter.h"
#include "hook/hook-memory.h"
#include "hook/relax.h"

#define DEPTH 8 /* most levels of nested graphs that sum_graph() follows */

_Atomic uint32_t graph_memory_execs;

struct sum {
	uint64_t pages;
	CUdevice ordinal;
};

static void sum_graph(CUgraph graph, struct sum *sum, int depth)
{
	CUgraphNode *nodes = NULL;
	size_t n = 0;

	if (REAL(cuGraphGetNodes)(graph, NULL, &n) != CUDA_SUCCESS || !n ||
		n > SIZE_MAX / sizeof *nodes)
		return;
	nodes = calloc(n, sizeof *nodes);
	if (!nodes || REAL(cuGraphGetNodes)(graph, nodes, &n) != CUDA_SUCCESS)
		n = 0;
	for (size_t i = 0; i < n; i++) {
		CUDA_MEM_ALLOC_NODE_PARAMS alloc;
		CUgraphNodeType type;
		CUgraph child;

		if (REAL(cuGraphNodeGetType)(nodes[i], &type) != CUDA_SUCCESS)
			continue;
		if (type == CU_GRAPH_NODE_TYPE_GRAPH && depth < DEPTH &&
			REAL(cuGraphChildGraphNodeGetGraph)(nodes[i], &child) == CUDA_SUCCESS)
			sum_graph(child, sum, depth + 1);
		if (type != CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
			REAL(cuGraphMemAllocNodeGetParams)(nodes[i], &alloc) != CUDA_SUCCESS)
			continue;
		sum->pages += memory_pages(alloc.bytesize);
		sum->ordinal = alloc.poolProps.location.id;
	}
	free(nodes);
}

CUresult graph_instantiated(CUresult r, const CUgraphExec *exec, CUgraph graph)
{
	struct memory_record record = {.kind = MEMORY_GRAPH};
	struct sum sum = {.ordinal = -1};
	int saved = errno;
	struct device *d;

	if (r != CUDA_SUCCESS || !exec || !hook_registered())
		return r;
	sum_graph(graph, &sum, 0);
	errno = saved;
	d = device_of(sum.ordinal);
	if (!sum.pages || !d)
		return r;
	record.key = (uintptr_t)*exec;
	record.bytes = sum.pages; /* pages of all nodes; `pages` counts only charged pages */
	record.device = (uint8_t)d->index;
	if (memory_put(&record))
		atomic_fetch_add(&graph_memory_execs, 1);
	return r;
}

/*
 * Changes the charge for memory of graphs, which is graph_pages plus `more`, to the memory that the
 * device has reserved for graphs. The caller holds the graph lock.
 */
static void graph_settle_memory(struct device *d, uint64_t more)
{
	uint64_t charged = d->graph_pages + more;
	cuuint64_t reserved = 0;

	if (REAL(cuDeviceGetGraphMemAttribute)(d->ordinal, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT,
		    &reserved) != CUDA_SUCCESS) {
		d->graph_pages = charged;
		return;
	}
	d->graph_pages = memory_pages(reserved);
	if (d->graph_pages > charged)
		memory_charge_anyway(d, d->graph_pages - charged);
	else
		memory_uncharge(d, charged - d->graph_pages);
}

CUresult graph_launch_begin(struct graph_launch *launch, CUgraphExec exec, uintptr_t stream)
{
	struct hook *h = hook_registered();
	struct memory_record record;

	*launch = (struct graph_launch){.exec = exec};
	if (!h || !memory_get(MEMORY_GRAPH, (uintptr_t)exec, &record) ||
		(record.aux && record.aux == h->device[record.device].graph_epoch))
		return CUDA_SUCCESS;
	launch->pages = record.bytes;
	if (memory_charge(&h->device[record.device], launch->pages))
		return memory_refusal();
	launch->device = &h->device[record.device];
	return CUDA_SUCCESS;
}

CUresult graph_launch_end(struct graph_launch *launch, CUresult r)
{
	struct device *d = launch->device;
	struct memory_record record;

	if (!d)
		return r;
	lock_take(&d->graph_lock);
	if (!d->graph_epoch)
		d->graph_epoch = 1;
	graph_settle_memory(d, launch->pages);
	/* the device keeps the graph's memory until the next trim */
	if (r == CUDA_SUCCESS && memory_take(MEMORY_GRAPH, (uintptr_t)launch->exec, &record)) {
		record.aux = d->graph_epoch;
		memory_put(&record);
	}
	lock_drop(&d->graph_lock);
	return r;
}

/* ---- exports ---- */

EXPORT CUresult cuGraphInstantiate(CUgraphExec *phGraphExec, CUgraph hGraph,
	CUgraphNode *phErrorNode, char *logBuffer, size_t bufferSize)
{
	CUresult r = REAL(cuGraphInstantiate)(
		phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize);

	return graph_instantiated(r, phGraphExec, hGraph);
}

EXPORT CUresult cuGraphInstantiate_v2(CUgraphExec *phGraphExec, CUgraph hGraph,
	CUgraphNode *phErrorNode, char *logBuffer, size_t bufferSize)
{
	CUresult r = REAL(cuGraphInstantiate_v2)(
		phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize);

	return graph_instantiated(r, phGraphExec, hGraph);
}

EXPORT CUresult cuGraphInstantiateWithFlags(
	CUgraphExec *phGraphExec, CUgraph hGraph, unsigned long long flags)
{
	CUresult r = REAL(cuGraphInstantiateWithFlags)(phGraphExec, hGraph, flags);

	return graph_instantiated(r, phGraphExec, hGraph);
}

EXPORT CUresult cuGraphInstantiateWithParams(
	CUgraphExec *phGraphExec, CUgraph hGraph, CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
	CUresult r = REAL(cuGraphInstantiateWithParams)(phGraphExec, hGraph, instantiateParams);

	return graph_instantiated(r, phGraphExec, hGraph);
}

EXPORT CUresult cuGraphInstantiateWithParams_ptsz(
	CUgraphExec *phGraphExec, CUgraph hGraph, CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
	CUresult r = REAL(cuGraphInstantiateWithParams_ptsz)(
		phGraphExec, hGraph, instantiateParams);

	return graph_instantiated(r, phGraphExec, hGraph);
}

EXPORT CUresult cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph,
	CUgraphNode *hErrorNode_out, CUgraphExecUpdateResult *updateResult_out)
{
	CUresult r = REAL(cuGraphExecUpdate)(hGraphExec, hGraph, hErrorNode_out, updateResult_out);

	return graph_memory_used() ? graph_instantiated(r, &hGraphExec, hGraph) : r;
}

EXPORT CUresult cuGraphExecUpdate_v2(
	CUgraphExec hGraphExec, CUgraph hGraph, CUgraphExecUpdateResultInfo *resultInfo)
{
	CUresult r = REAL(cuGraphExecUpdate_v2)(hGraphExec, hGraph, resultInfo);

	return graph_memory_used() ? graph_instantiated(r, &hGraphExec, hGraph) : r;
}

EXPORT CUresult cuGraphExecDestroy(CUgraphExec hGraphExec)
{
	struct memory_record record;
	bool known = memory_take(MEMORY_GRAPH, (uintptr_t)hGraphExec, &record);
	CUresult r = REAL(cuGraphExecDestroy)(hGraphExec);

	if (known && r != CUDA_SUCCESS)
		memory_put(&record);
	return r;
}

EXPORT CUresult cuGraphUpload(CUgraphExec hGraph, CUstream hStream)
{
	struct graph_launch launch;
	CUresult r;

	if (!graph_memory_used())
		return REAL(cuGraphUpload)(hGraph, hStream);
	r = graph_launch_begin(&launch, hGraph, (uintptr_t)hStream);
	return r == CUDA_SUCCESS ? graph_launch_end(&launch, REAL(cuGraphUpload)(hGraph, hStream))
				 : r;
}

EXPORT CUresult cuGraphUpload_ptsz(CUgraphExec hGraphExec, CUstream hStream)
{
	struct graph_launch launch;
	CUresult r;

	if (!graph_memory_used())
		return REAL(cuGraphUpload_ptsz)(hGraphExec, hStream);
	r = graph_launch_begin(&launch, hGraphExec, (uintptr_t)hStream);
	return r == CUDA_SUCCESS
		? graph_launch_end(&launch, REAL(cuGraphUpload_ptsz)(hGraphExec, hStream))
		: r;
}

EXPORT CUresult cuDeviceGraphMemTrim(CUdevice device)
{
	CUresult r = REAL(cuDeviceGraphMemTrim)(device);
	struct device *d = device_of(device);

	if (r != CUDA_SUCCESS || !d)
		return r;
	lock_take(&d->graph_lock);
	d->graph_epoch++;
	graph_settle_memory(d, 0);
	lock_drop(&d->graph_lock);
	return r;
}
