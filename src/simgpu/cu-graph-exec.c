/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executable graphs. An executable graph keeps a private copy of its graph, and each node of the
 * copy knows the handle of its original. A launch after a change first flattens the copy into the
 * engine's form (simgpu-proto.h, struct simgpu_graph_head). In this form every node follows the
 * nodes on which it depends.
 *
 * Graph memory consists of reserved addresses. An allocation node has its address from the
 * beginning. The memory behind the address comes with the first launch and stays until a trim.
 */
#include "simgpu/cu-graph.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"

static struct cu_exec *execs[SIMGPU_MAX_GRAPHS];
static uint64_t slot_graph_records[SIMGPU_MAX_EVENTS];

/* ---- graph memory ---- */

static uint64_t graph_exec_granules(uint64_t bytes)
{
	return (bytes + SIMGPU_GRANULE - 1) & ~(uint64_t)(SIMGPU_GRANULE - 1);
}

static struct cu_device *graph_exec_range_device(const struct cu_range *range)
{
	int number = cu_device_number(range->device);

	return &cu.devices[number < 0 ? 0 : number];
}

CUresult cu_graph_memory_reserve(struct cu_context *context, uint64_t bytes, uint64_t *ret)
{
	struct simgpu_request request = {
		.type = SIMGPU_MSG_VA_RESERVE, .arg = {graph_exec_granules(bytes)}};
	struct simgpu_reply reply;
	struct cu_range *range;

	CU_TRY(cu_call(&request, &reply));
	range = cu_range_add(&cu.device_memory, reply.ptr, bytes);
	CU_CHECK(range, CUDA_ERROR_OUT_OF_MEMORY);
	range->kind = CU_MEM_GRAPH;
	range->context = context;
	range->device = context->device;
	*ret = reply.ptr;
	return CUDA_SUCCESS;
}

CUresult cu_graph_memory_back(struct cu_range *range)
{
	uint64_t bytes = graph_exec_granules(range->size);
	struct simgpu_request request = {
		.type = SIMGPU_MSG_VMM_CREATE, .device = range->device, .arg = {bytes}};
	struct cu_device *device = graph_exec_range_device(range);
	struct simgpu_reply reply;
	CUresult r;

	if (!range->in_graph) {
		CU_TRY(cu_call(&request, &reply));
		range->vmm_id = reply.id;
		request = (struct simgpu_request){.type = SIMGPU_MSG_VMM_MAP,
			.ptr = range->base,
			.id = range->vmm_id,
			.arg = {bytes}};
		r = cu_call(&request, &reply);
		/*
		 * The mapping keeps the memory alive, so the reference from its creation can be
		 * dropped.
		 */
		request = (struct simgpu_request){
			.type = SIMGPU_MSG_VMM_RELEASE, .id = range->vmm_id};
		cu_call(&request, &reply);
		CU_TRY(r);
		request = (struct simgpu_request){.type = SIMGPU_MSG_VMM_ACCESS,
			.ptr = range->base,
			.device = range->device,
			.arg = {bytes, 3}};
		CU_TRY(cu_call(&request, &reply));
		range->in_graph = true;
		device->graph_reserved += bytes;
		if (device->graph_reserved > device->graph_reserved_high)
			device->graph_reserved_high = device->graph_reserved;
	}
	range->freed = false;
	range->opens = 1;
	device->graph_used += bytes;
	if (device->graph_used > device->graph_used_high)
		device->graph_used_high = device->graph_used;
	return CUDA_SUCCESS;
}

void cu_graph_memory_freed(struct cu_range *range)
{
	if (range->opens == 0)
		return;
	range->opens = 0;
	graph_exec_range_device(range)->graph_used -= graph_exec_granules(range->size);
}

static void graph_exec_unback(struct cu_range *range)
{
	uint64_t bytes = graph_exec_granules(range->size);
	struct simgpu_request request = {
		.type = SIMGPU_MSG_VMM_UNMAP, .ptr = range->base, .arg = {bytes}};
	struct simgpu_reply reply;

	if (!range->in_graph)
		return;
	cu_call(&request, &reply);
	range->in_graph = false;
	graph_exec_range_device(range)->graph_reserved -= bytes;
}

CUresult simgpu_cuDeviceGraphMemTrim(struct cu_device *d)
{
	struct cu_range *range;

	for (uint64_t from = 0; (range = cu_range_next(&cu.device_memory, from));) {
		from = range->base + 1;
		if (range->kind == CU_MEM_GRAPH && range->device == d->engine && range->opens == 0)
			graph_exec_unback(range);
	}
	return CUDA_SUCCESS;
}

CUresult simgpu_cuDeviceGetGraphMemAttribute(
	struct cu_device *d, CUgraphMem_attribute attr, void *value)
{
	switch ((int)attr) {
	case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
		*(cuuint64_t *)value = d->graph_used;
		return CUDA_SUCCESS;
	case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
		*(cuuint64_t *)value = d->graph_used_high;
		return CUDA_SUCCESS;
	case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
		*(cuuint64_t *)value = d->graph_reserved;
		return CUDA_SUCCESS;
	case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
		*(cuuint64_t *)value = d->graph_reserved_high;
		return CUDA_SUCCESS;
	default: return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult simgpu_cuDeviceSetGraphMemAttribute(
	CUdevice device, CUgraphMem_attribute attr, void *value)
{
	struct cu_device *d;

	/* CUDA accepts only the value 0, which resets a high-water mark to the current use. */
	CU_CHECK(value && *(cuuint64_t *)value == 0, CUDA_ERROR_INVALID_VALUE);
	CU_TRY(cu_device_get(device, &d));
	if (attr == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH)
		d->graph_used_high = d->graph_used;
	else if (attr == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
		d->graph_reserved_high = d->graph_reserved;
	else
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

/* ---- the order of execution ---- */

/*
 * Orders the nodes so that each follows its dependencies. INVALID_VALUE if the dependencies have a
 * cycle.
 */
static CUresult graph_exec_sort(
	struct cu_graph *graph, struct cu_node ***ret, CUgraphNode *ret_error)
{
	_cleanup_free_ struct cu_node **order = calloc(
		graph->n_nodes + 1, sizeof(struct cu_node *));
	size_t n = 0, before;

	CU_CHECK(order, CUDA_ERROR_OUT_OF_MEMORY);
	CU_LIST_EACH(struct cu_node, link, &graph->nodes, node)
	node->index = UINT32_MAX;
	/* Programs mostly create nodes in order, so one round is usually enough. */
	do {
		before = n;
		CU_LIST_EACH(struct cu_node, link, &graph->nodes, node)
		{
			bool ready = node->index == UINT32_MAX;

			for (size_t i = 0; i < node->n_deps && ready; i++)
				ready = node->deps[i]->index != UINT32_MAX;
			if (!ready)
				continue;
			node->index = (uint32_t)n;
			order[n++] = node;
		}
	} while (n != before && n != graph->n_nodes);
	if (n != graph->n_nodes) {
		CU_LIST_EACH(struct cu_node, link, &graph->nodes, node)
		if (node->index == UINT32_MAX && ret_error)
			*ret_error = node->origin ? node->origin : node->handle;
		return CUDA_ERROR_INVALID_VALUE;
	}
	*ret = TAKE_PTR(order);
	return CUDA_SUCCESS;
}

/* A set of engine node numbers. */
struct numbers {
	uint32_t *p;
	size_t n;
};

struct writer {
	struct buf blob;
	uint32_t nodes;
	bool visible;
};

static void put_bytes(struct writer *w, const void *p, size_t n)
{
	buf_add(&w->blob, (struct str){p, n});
}

static CUresult graph_exec_put_op(
	struct writer *w, const struct cu_op *op, const struct numbers *deps)
{
	struct simgpu_graph_node head = {.ndeps = (uint32_t)deps->n, .trailing = op->trailing};
	static const uint8_t zeros[8];

	CU_CHECK(w->nodes < SIMGPU_MAX_GRAPH_NODES, CUDA_ERROR_OUT_OF_MEMORY);
	put_bytes(w, &head, sizeof(head));
	put_bytes(w, deps->p, deps->n * sizeof(uint32_t));
	put_bytes(w, zeros, deps->n % 2 * sizeof(uint32_t));
	put_bytes(w, &op->entry, sizeof(op->entry));
	put_bytes(w, op->bytes, op->trailing);
	put_bytes(w, zeros, (8 - op->trailing % 8) % 8);
	CU_CHECK(buf_error(&w->blob) == 0, CUDA_ERROR_OUT_OF_MEMORY);
	w->visible = w->visible || (op->entry.flags & SIMGPU_ENTRY_VISIBLE) != 0;
	w->nodes++;
	return CUDA_SUCCESS;
}

static bool attribute_is_set(const struct cu_node *node, CUlaunchAttributeID id)
{
	return (node->attributes_set & 1u << id) != 0;
}

static CUresult put_kernel(struct writer *w, struct cu_node *node, const struct numbers *deps)
{
	const CUDA_KERNEL_NODE_PARAMS_v3 *k = &node->params.kernel;
	_cleanup_free_ uint8_t *owned = NULL;
	struct cu_launch l = {
		.grid = {k->gridDimX, k->gridDimY, k->gridDimZ},
		.block = {k->blockDimX, k->blockDimY, k->blockDimZ},
		.shared_bytes = k->sharedMemBytes,
		.params = k->kernelParams,
	};
	struct cu_function *function;
	struct cu_op op;

	CU_TRY(cu_function_get(k->func, node->context, &function));
	if (attribute_is_set(node, CU_LAUNCH_ATTRIBUTE_COOPERATIVE))
		l.cooperative = node->attributes[CU_LAUNCH_ATTRIBUTE_COOPERATIVE].cooperative;
	CU_TRY(cu_build_kernel(node->context, function, &l, &op, &owned));
	return graph_exec_put_op(w, &op, deps);
}

/*
 * A host node with a changed function gets a new object, because running launches keep the old one.
 */
static CUresult put_host(struct writer *w, struct cu_node *node, const struct numbers *deps)
{
	const CUDA_HOST_NODE_PARAMS_v2 *const p = &node->params.host;
	struct cu_op op;

	if (node->host && (node->host->fn != p->fn || node->host->user_data != p->userData)) {
		cu_host_drop(node->host);
		node->host = NULL;
	}
	if (!node->host)
		node->host = calloc(1, sizeof(*node->host));
	CU_CHECK(node->host, CUDA_ERROR_OUT_OF_MEMORY);
	node->host->fn = p->fn;
	node->host->user_data = p->userData;
	node->host->keep = true;
	CU_TRY(cu_build_host(node->context, node->host, &op));
	return graph_exec_put_op(w, &op, deps);
}

static CUresult put_mem_ops(struct writer *w, struct cu_node *node, const struct numbers *deps)
{
	struct numbers last = *deps;
	uint32_t number;

	for (unsigned i = 0; i < node->params.memOp.count; i++) {
		struct cu_op op;

		CU_TRY(cu_build_value(node->context, &node->mem_ops[i], &op));
		CU_TRY(graph_exec_put_op(w, &op, &last));
		number = w->nodes - 1;
		last = (struct numbers){&number, 1};
	}
	return CUDA_SUCCESS;
}

static CUresult put_node(struct writer *w, struct cu_node *node, const struct numbers *deps)
{
	struct cu_event *event;
	struct cu_op op;

	cu_op_init(&op, SIMGPU_OP_EMPTY, node->context);
	if (node->disabled)
		return graph_exec_put_op(w, &op, deps);
	switch ((int)node->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL: return put_kernel(w, node, deps);
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		CU_TRY(cu_build_copy(node->context, &node->params.memcpy.copyParams, &op));
		return graph_exec_put_op(w, &op, deps);
	case CU_GRAPH_NODE_TYPE_MEMSET: {
		CUDA_MEMSET_NODE_PARAMS m;

		memcpy(&m, &node->params.memset, sizeof(m));
		CU_TRY(cu_build_memset(node->context, &m, &op));
		return graph_exec_put_op(w, &op, deps);
	}
	case CU_GRAPH_NODE_TYPE_HOST: return put_host(w, node, deps);
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: return put_mem_ops(w, node, deps);
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		event = cu_event_get(node->params.eventRecord.event);
		CU_CHECK(event, CUDA_ERROR_INVALID_HANDLE);
		cu_op_init(&op, SIMGPU_OP_EVENT_RECORD, node->context);
		op.entry.event.event = event->slot;
		return graph_exec_put_op(w, &op, deps);
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
		event = cu_event_get(node->params.eventWait.event);
		CU_CHECK(event, CUDA_ERROR_INVALID_HANDLE);
		cu_op_init(&op, SIMGPU_OP_EVENT_WAIT, node->context);
		op.entry.event.event = event->slot;
		return graph_exec_put_op(w, &op, deps);
	default:
		/* Empty nodes have no work, and allocations and frees only concern addresses. */
		return graph_exec_put_op(w, &op, deps);
	}
}

static CUresult add_number(struct numbers *to, uint32_t number)
{
	uint32_t *bigger;

	for (size_t i = 0; i < to->n; i++)
		if (to->p[i] == number)
			return CUDA_SUCCESS;
	bigger = realloc(to->p, (to->n + 1) * sizeof(*bigger));
	CU_CHECK(bigger, CUDA_ERROR_OUT_OF_MEMORY);
	to->p = bigger;
	bigger[to->n++] = number;
	return CUDA_SUCCESS;
}

static CUresult graph_exec_add_numbers(struct numbers *to, const struct numbers *from)
{
	for (size_t i = 0; i < from->n; i++)
		CU_TRY(add_number(to, from->p[i]));
	return CUDA_SUCCESS;
}

/* A node without a context gets the context of the launch. */
static CUresult settle_contexts(struct cu_graph *graph, struct cu_context *context)
{
	CU_LIST_EACH(struct cu_node, link, &graph->nodes, node)
	{
		if (!node->context) {
			node->context = context;
			node->context_handle = context->handle;
		}
		CU_CHECK(cu_context_get(node->context_handle) == node->context,
			CUDA_ERROR_CONTEXT_IS_DESTROYED);
		if (node->child)
			CU_TRY(settle_contexts(node->child, context));
	}
	return CUDA_SUCCESS;
}

/*
 * Writes the nodes of a graph in the engine's form. The graph's roots depend on the nodes @base.
 * @ret_ends receives the graph's last nodes, on which a node after the graph depends.
 */
static CUresult graph_exec_flatten(struct writer *w, struct cu_graph *graph,
	const struct numbers *base, struct numbers *ret_ends)
{
	_cleanup_free_ struct cu_node **order = NULL;
	_cleanup_free_ bool *used = calloc(graph->n_nodes + 1, sizeof(*used));
	struct numbers *ends = calloc(graph->n_nodes + 1, sizeof(*ends));
	CUresult r = used && ends ? graph_exec_sort(graph, &order, NULL) : CUDA_ERROR_OUT_OF_MEMORY;

	for (size_t i = 0; r == CUDA_SUCCESS && i < graph->n_nodes; i++) {
		struct cu_node *node = order[i];
		struct numbers deps = {0};

		if (node->n_deps == 0)
			r = graph_exec_add_numbers(&deps, base);
		for (size_t j = 0; j < node->n_deps && r == CUDA_SUCCESS; j++) {
			used[node->deps[j]->index] = true;
			r = graph_exec_add_numbers(&deps, &ends[node->deps[j]->index]);
		}
		if (r == CUDA_SUCCESS && node->child && node->child->n_nodes != 0)
			r = graph_exec_flatten(w, node->child, &deps, &ends[i]);
		else if (r == CUDA_SUCCESS)
			r = put_node(w, node, &deps);
		if (r == CUDA_SUCCESS && ends[i].n == 0)
			r = add_number(&ends[i], w->nodes - 1);
		free(deps.p);
	}
	for (size_t i = 0; ends && i < graph->n_nodes; i++) {
		if (r == CUDA_SUCCESS && !used[i])
			r = graph_exec_add_numbers(ret_ends, &ends[i]);
		free(ends[i].p);
	}
	free(ends);
	return r;
}

static void destroy_in_engine(struct cu_exec *exec)
{
	struct simgpu_entry *entry;

	if (!exec->created)
		return;
	entry = cu_ring_begin(SIMGPU_OP_GRAPH_DESTROY, 0);
	if (entry) {
		entry->stream = 0;
		entry->context = exec->context->slot;
		entry->seq = 0;
		entry->graph.graph = exec->slot;
		cu_ring_commit(entry, 0, NULL);
	}
	exec->created = false;
}

static CUresult graph_exec_upload(struct cu_exec *exec)
{
	struct simgpu_request request = {.type = SIMGPU_MSG_GRAPH_CREATE, .arg = {exec->slot}};
	struct writer w = {.blob = BUF_INIT(SIZE_MAX / 2)};
	struct numbers none = {0}, ends = {0};
	struct simgpu_graph_head head = {0};
	_cleanup_close_ int fd = -1;
	struct simgpu_reply reply;
	CUresult r;

	if (exec->created && !exec->dirty)
		return CUDA_SUCCESS;
	put_bytes(&w, &head, sizeof(head));
	r = settle_contexts(exec->graph, exec->context);
	if (r == CUDA_SUCCESS)
		r = graph_exec_flatten(&w, exec->graph, &none, &ends);
	free(ends.p);
	if (r == CUDA_SUCCESS) {
		head.nodes = w.nodes;
		memcpy(w.blob.p, &head, sizeof(head));
		fd = memfd_new("divvy-sim-graph", 0);
		if (fd < 0 || fd_write_all(fd, w.blob.p, w.blob.n) < 0)
			r = CUDA_ERROR_OUT_OF_MEMORY;
	}
	buf_done(&w.blob);
	CU_TRY(r);
	destroy_in_engine(exec);
	request.context = exec->context->slot;
	CU_TRY(cu_call_fd(&request, fd, &reply, NULL));
	exec->created = true;
	exec->dirty = false;
	exec->visible = w.visible;
	return CUDA_SUCCESS;
}

/* ---- instantiation ---- */

static struct cu_exec *exec_get(CUgraphExec handle)
{
	return cu_handle_get(handle, CU_KIND_EXEC);
}

static CUresult new_exec(struct cu_graph *graph, struct cu_context *context, uint64_t flags,
	CUgraphNode *ret_error, struct cu_exec **ret)
{
	_cleanup_free_ struct cu_node **order = NULL;
	bool counts = cu_graph_has_allocations(graph);
	struct cu_exec *exec;
	uint32_t slot = 0;
	CUresult r;

	CU_TRY(graph_exec_sort(graph, &order, ret_error));
	CU_CHECK(!counts || graph->instances == 0, CUDA_ERROR_NOT_SUPPORTED);
	while (slot < SIMGPU_MAX_GRAPHS && execs[slot])
		slot++;
	CU_CHECK(slot < SIMGPU_MAX_GRAPHS, CUDA_ERROR_OUT_OF_MEMORY);
	exec = calloc(1, sizeof(*exec));
	CU_CHECK(exec, CUDA_ERROR_OUT_OF_MEMORY);
	exec->handle = cu_handle_new(CU_KIND_EXEC, exec);
	r = exec->handle ? cu_graph_clone(graph, &exec->graph) : CUDA_ERROR_OUT_OF_MEMORY;
	if (r != CUDA_SUCCESS) {
		cu_handle_free(exec->handle);
		free(exec);
		return r;
	}
	exec->slot = slot;
	exec->context = context;
	exec->context_handle = context->handle;
	exec->flags = flags;
	exec->dirty = true;
	exec->source = counts ? graph : NULL;
	exec->source_handle = graph->handle;
	graph->instances += counts;
	execs[slot] = exec;
	*ret = exec;
	return CUDA_SUCCESS;
}

/* ---- running launches ---- */

/* Replaced graphs whose user objects a running launch may still need. */
struct flight {
	struct flight *next;
	struct cu_graph *graph;
	struct cu_stream *stream;
	uint64_t seq;
};
static struct flight *flights;

static bool is_under_way(struct cu_exec *exec)
{
	if (exec->last && cu_stream_done(exec->last, exec->last_seq))
		exec->last = NULL;
	return exec->last || exec->is_lost;
}

/*
 * Frees the graph once the executable's last launch is complete. Launches of one executable run in
 * order, so all earlier launches are complete then too.
 */
static void graph_exec_retire(struct cu_exec *exec, struct cu_graph *graph)
{
	struct flight *f;

	if (!is_under_way(exec)) {
		cu_graph_free(graph);
		return;
	}
	f = exec->is_lost ? NULL : calloc(1, sizeof(*f));
	if (!f)
		return; /* without memory or stream, the graph stays allocated forever */
	*f = (struct flight){flights, graph, exec->last, exec->last_seq};
	flights = f;
}

void cu_exec_land(void)
{
	for (struct flight **at = &flights, *f; (f = *at);) {
		if (!cu_stream_done(f->stream, f->seq)) {
			at = &f->next;
			continue;
		}
		*at = f->next;
		cu_graph_free(f->graph);
		free(f);
	}
}

void cu_exec_stream_destroyed(const struct cu_stream *stream)
{
	cu_exec_land();
	for (struct flight **at = &flights, *f; (f = *at);) {
		if (f->stream == stream) {
			*at = f->next;
			free(f);
		} else {
			at = &f->next;
		}
	}
	for (unsigned i = 0; i < SIMGPU_MAX_GRAPHS; i++) {
		if (!execs[i] || execs[i]->last != stream)
			continue;
		execs[i]->is_lost = is_under_way(execs[i]);
		execs[i]->last = NULL;
	}
}

/*
 * Call before a change of the executable's graph. A running launch may still need the user objects
 * of the unchanged graph, so a copy of that graph holds them until the launch ends.
 */
static CUresult keep_as_it_was(struct cu_exec *exec)
{
	struct cu_graph *before;

	if (!is_under_way(exec))
		return CUDA_SUCCESS;
	CU_TRY(cu_graph_clone(exec->graph, &before));
	graph_exec_retire(exec, before);
	return CUDA_SUCCESS;
}

static void free_exec(struct cu_exec *exec)
{
	if (cu_context_get(exec->context_handle))
		destroy_in_engine(exec);
	if (exec->source && cu_graph_get(exec->source_handle) == exec->source)
		exec->source->instances--;
	execs[exec->slot] = NULL;
	graph_exec_retire(exec, exec->graph);
	cu_handle_free(exec->handle);
	free(exec);
}

static CUresult graph_exec_instantiate(CUgraphExec *phExec, CUgraph hGraph, uint64_t flags,
	CUstream upload_to, CUgraphNode *ret_error)
{
	struct cu_graph *graph;
	struct cu_exec *exec;
	CUresult r;

	CU_ENTER_CONTEXT(ctx);
	graph = cu_graph_get(hGraph);
	CU_CHECK(phExec && graph && !graph->capture && (flags & ~15ull) == 0,
		CUDA_ERROR_INVALID_VALUE);
	CU_CHECK(
		(flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) == 0, CUDA_ERROR_NOT_SUPPORTED);
	CU_TRY(new_exec(graph, ctx, flags, ret_error, &exec));
	r = settle_contexts(exec->graph, ctx);
	if (r == CUDA_SUCCESS)
		r = graph_exec_upload(exec);
	if (r != CUDA_SUCCESS) {
		free_exec(exec);
		return r;
	}
	*phExec = exec->handle;
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuGraphInstantiateWithFlags(
	CUgraphExec *phGraphExec, CUgraph hGraph, unsigned long long flags)
{
	return graph_exec_instantiate(phGraphExec, hGraph, flags, NULL, NULL);
}

CU_EXPORT CUresult cuGraphInstantiate_v2(CUgraphExec *phGraphExec, CUgraph hGraph,
	CUgraphNode *phErrorNode, char *logBuffer, size_t bufferSize)
{
	if (phErrorNode)
		*phErrorNode = NULL;
	if (logBuffer && bufferSize != 0)
		logBuffer[0] = '\0';
	return graph_exec_instantiate(phGraphExec, hGraph, 0, NULL, phErrorNode);
}

CU_EXPORT CUresult cuGraphInstantiateWithParams(
	CUgraphExec *phGraphExec, CUgraph hGraph, CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
	CUDA_GRAPH_INSTANTIATE_PARAMS *p = instantiateParams;
	CUresult r;

	CU_CHECK(p, CUDA_ERROR_INVALID_VALUE);
	p->hErrNode_out = NULL;
	r = graph_exec_instantiate(
		phGraphExec, hGraph, p->flags, p->hUploadStream, &p->hErrNode_out);
	p->result_out = CUDA_GRAPH_INSTANTIATE_ERROR;
	if (r == CUDA_SUCCESS)
		p->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
	else if (p->hErrNode_out)
		p->result_out = CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE;
	else if (r == CUDA_ERROR_NOT_SUPPORTED)
		p->result_out = CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED;
	return r;
}

CUresult simgpu_cuGraphExecDestroy(struct cu_exec *exec)
{
	free_exec(exec);
	return CUDA_SUCCESS;
}

CUresult simgpu_cuGraphExecGetFlags(struct cu_exec *exec, cuuint64_t *flags)
{
	*flags = exec->flags;
	return CUDA_SUCCESS;
}

/* The id is unique in the process; the executable's slot number has no meaning for programs. */
CUresult simgpu_cuGraphExecGetId(struct cu_exec *exec, unsigned int *graphId)
{
	*graphId = exec->graph->id;
	return CUDA_SUCCESS;
}

/* ---- launch ---- */

static CUresult take_memory(struct cu_exec *exec)
{
	bool auto_free = (exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0;

	CU_LIST_EACH(struct cu_node, link, &exec->graph->nodes, node)
	{
		struct cu_range *range;

		if (node->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC)
			continue;
		range = cu_range_find(&cu.device_memory, node->params.alloc.dptr);
		CU_CHECK(range, CUDA_ERROR_INVALID_VALUE);
		/*
		 * A new launch fails while the program has not freed the memory of the last launch.
		 */
		CU_CHECK(range->opens == 0 || auto_free, CUDA_ERROR_INVALID_VALUE);
	}
	CU_LIST_EACH(struct cu_node, link, &exec->graph->nodes, node)
	{
		struct cu_range *range;

		if (node->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC)
			continue;
		range = cu_range_find(&cu.device_memory, node->params.alloc.dptr);
		cu_graph_memory_freed(range);
		CU_TRY(cu_graph_memory_back(range));
	}
	return CUDA_SUCCESS;
}

static void after_launch(struct cu_graph *graph, struct cu_stream *stream)
{
	CU_LIST_EACH(struct cu_node, link, &graph->nodes, node)
	{
		struct cu_event *event;
		struct cu_range *range;

		if (node->child)
			after_launch(node->child, stream);
		if (node->disabled)
			continue;
		if (node->host)
			cu_host_launched(node->host);
		if (node->type == CU_GRAPH_NODE_TYPE_MEM_FREE) {
			range = cu_range_find(&cu.device_memory, node->params.free.dptr);
			if (range)
				cu_graph_memory_freed(range);
		}
		event = node->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD
			? cu_event_get(node->params.eventRecord.event)
			: NULL;
		if (!event)
			continue;
		event->recorded = true;
		event->by_graph = true;
		event->graph_target = ++slot_graph_records[event->slot];
		event->stream = stream;
		event->seq = stream->seq;
		event->capture = NULL;
	}
}

CUresult cu_exec_launch(struct cu_exec *exec, struct cu_stream *stream)
{
	struct cu_op op;

	CU_CHECK(cu_context_get(exec->context_handle) == exec->context,
		CUDA_ERROR_CONTEXT_IS_DESTROYED);
	CU_TRY(take_memory(exec));
	CU_TRY(graph_exec_upload(exec));
	cu_op_init(&op, SIMGPU_OP_GRAPH_LAUNCH, stream->context);
	op.entry.graph.graph = exec->slot;
	/* Only one launch of an executable graph runs at a time. */
	if (is_under_way(exec) && exec->last && exec->last != stream) {
		op.entry.graph.after = exec->last->slot;
		op.entry.graph.after_seq = exec->last_seq;
	}
	if (exec->visible)
		op.entry.flags = SIMGPU_ENTRY_VISIBLE;
	if (stream->legacy)
		CU_TRY(cu_capture_check_legacy(stream->context));
	CU_TRY(cu_submit(stream, &op));
	exec->launched = true;
	exec->last = stream;
	exec->last_seq = stream->seq;
	exec->is_lost = false;
	after_launch(exec->graph, stream);
	return CUDA_SUCCESS;
}

CUresult simgpu_cuGraphLaunch(
	struct cu_context *ctx, struct cu_exec *exec, struct cu_stream *stream)
{
	if (stream->capture) {
		struct cu_node *node;
		CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_GRAPH};
		CUresult r;

		/* A launch during capture adds the graph as a child node. */
		p.graph.graph = exec->graph->handle;
		r = cu_node_make(&p, stream->context, &node);
		return r == CUDA_SUCCESS ? cu_capture_node(stream, node)
					 : cu_capture_refuse(stream, r);
	}
	return cu_exec_launch(exec, stream);
}

CUresult simgpu_cuGraphUpload(
	struct cu_context *ctx, struct cu_exec *exec, struct cu_stream *stream)
{
	if (stream->capture)
		return cu_capture_refuse(stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	CU_LIST_EACH(struct cu_node, link, &exec->graph->nodes, node)
	{
		struct cu_range *range = node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC
			? cu_range_find(&cu.device_memory, node->params.alloc.dptr)
			: NULL;

		/* An upload backs the addresses with memory before the first launch. */
		if (range && !range->in_graph) {
			CU_TRY(cu_graph_memory_back(range));
			cu_graph_memory_freed(range);
		}
	}
	return graph_exec_upload(exec);
}

/* ---- changing executable graphs ---- */

static CUresult exec_node(
	CUgraphExec hExec, CUgraphNode hNode, struct cu_exec **ret_exec, struct cu_node **ret_node)
{
	struct cu_exec *exec = exec_get(hExec);

	CU_CHECK(exec && cu_handle_get(hNode, CU_KIND_NODE), CUDA_ERROR_INVALID_VALUE);
	CU_LIST_EACH(struct cu_node, link, &exec->graph->nodes, node)
	{
		if (node->origin == hNode) {
			*ret_exec = exec;
			*ret_node = node;
			return CUDA_SUCCESS;
		}
	}
	return CUDA_ERROR_INVALID_VALUE;
}

static CUresult graph_exec_change_node(
	CUgraphExec hExec, CUgraphNode hNode, const CUgraphNodeParams *p)
{
	struct cu_context *before;
	struct cu_exec *exec;
	struct cu_node *node;

	CU_ENTER();
	CU_TRY(exec_node(hExec, hNode, &exec, &node));
	CU_CHECK(p && p->type == node->type, CUDA_ERROR_INVALID_VALUE);
	CU_CHECK(node->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC &&
			node->type != CU_GRAPH_NODE_TYPE_MEM_FREE,
		CUDA_ERROR_NOT_SUPPORTED);
	before = node->context;
	if (node->child)
		CU_TRY(keep_as_it_was(exec));
	CU_TRY(cu_node_set(node, p));
	exec->dirty = true;
	/* A node cannot change its context. */
	return node->context == before ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CU_EXPORT CUresult cuGraphExecNodeSetParams(
	CUgraphExec hGraphExec, CUgraphNode hNode, CUgraphNodeParams *nodeParams)
{
	return graph_exec_change_node(hGraphExec, hNode, nodeParams);
}

CU_EXPORT CUresult cuGraphExecKernelNodeSetParams_v2(
	CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
	CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_KERNEL};

	CU_CHECK(nodeParams, CUDA_ERROR_INVALID_VALUE);
	memcpy(&p.kernel, nodeParams, sizeof(*nodeParams));
	return graph_exec_change_node(hGraphExec, hNode, &p);
}

CU_EXPORT CUresult cuGraphExecKernelNodeSetParams(
	CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_KERNEL};

	CU_CHECK(nodeParams, CUDA_ERROR_INVALID_VALUE);
	memcpy(&p.kernel, nodeParams, sizeof(*nodeParams));
	return graph_exec_change_node(hGraphExec, hNode, &p);
}

CU_EXPORT CUresult cuGraphExecMemcpyNodeSetParams(
	CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
	CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_MEMCPY};

	CU_CHECK(copyParams, CUDA_ERROR_INVALID_VALUE);
	p.memcpy.copyCtx = ctx;
	p.memcpy.copyParams = *copyParams;
	return graph_exec_change_node(hGraphExec, hNode, &p);
}

CU_EXPORT CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
	const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx)
{
	CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_MEMSET};

	CU_CHECK(memsetParams, CUDA_ERROR_INVALID_VALUE);
	memcpy(&p.memset, memsetParams, sizeof(*memsetParams));
	p.memset.ctx = ctx;
	return graph_exec_change_node(hGraphExec, hNode, &p);
}

CU_EXPORT CUresult cuGraphExecHostNodeSetParams(
	CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_HOST_NODE_PARAMS *nodeParams)
{
	CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_HOST};

	CU_CHECK(nodeParams, CUDA_ERROR_INVALID_VALUE);
	memcpy(&p.host, nodeParams, sizeof(*nodeParams));
	return graph_exec_change_node(hGraphExec, hNode, &p);
}

CU_EXPORT CUresult cuGraphExecChildGraphNodeSetParams(
	CUgraphExec hGraphExec, CUgraphNode hNode, CUgraph childGraph)
{
	CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_GRAPH};

	p.graph.graph = childGraph;
	return graph_exec_change_node(hGraphExec, hNode, &p);
}

CU_EXPORT CUresult cuGraphExecEventRecordNodeSetEvent(
	CUgraphExec hGraphExec, CUgraphNode hNode, CUevent event)
{
	CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD};

	p.eventRecord.event = event;
	return graph_exec_change_node(hGraphExec, hNode, &p);
}

CU_EXPORT CUresult cuGraphExecEventWaitNodeSetEvent(
	CUgraphExec hGraphExec, CUgraphNode hNode, CUevent event)
{
	CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT};

	p.eventWait.event = event;
	return graph_exec_change_node(hGraphExec, hNode, &p);
}

CU_EXPORT CUresult cuGraphExecBatchMemOpNodeSetParams(
	CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams)
{
	CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP};

	CU_CHECK(nodeParams, CUDA_ERROR_INVALID_VALUE);
	memcpy(&p.memOp, nodeParams, sizeof(*nodeParams));
	return graph_exec_change_node(hGraphExec, hNode, &p);
}

static bool can_disable(const struct cu_node *node)
{
	return node->type == CU_GRAPH_NODE_TYPE_KERNEL || node->type == CU_GRAPH_NODE_TYPE_MEMSET ||
		node->type == CU_GRAPH_NODE_TYPE_MEMCPY;
}

CUresult simgpu_cuGraphNodeSetEnabled(
	CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int isEnabled)
{
	struct cu_exec *exec;
	struct cu_node *node;

	CU_TRY(exec_node(hGraphExec, hNode, &exec, &node));
	CU_CHECK(can_disable(node), CUDA_ERROR_INVALID_VALUE);
	exec->dirty = exec->dirty || node->disabled == (isEnabled != 0);
	node->disabled = !isEnabled;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuGraphNodeGetEnabled(
	CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int *isEnabled)
{
	struct cu_exec *exec;
	struct cu_node *node;

	CU_TRY(exec_node(hGraphExec, hNode, &exec, &node));
	CU_CHECK(can_disable(node), CUDA_ERROR_INVALID_VALUE);
	*isEnabled = !node->disabled;
	return CUDA_SUCCESS;
}

/* ---- update by another graph ---- */

static CUgraphExecUpdateResult graph_exec_compare(
	struct cu_graph *have, struct cu_graph *want, CUgraphNode *ret_error)
{
	struct cu_list *at = have->nodes.next;
	uint32_t n = 0;

	if (have->n_nodes != want->n_nodes)
		return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
	CU_LIST_EACH(struct cu_node, link, &want->nodes, node)
	node->index = n++;
	n = 0;
	CU_LIST_EACH(struct cu_node, link, &have->nodes, node)
	node->index = n++;
	CU_LIST_EACH(struct cu_node, link, &want->nodes, node)
	{
		const struct cu_node *old = CONTAINER_OF(at, struct cu_node, link);

		*ret_error = node->handle;
		at = at->next;
		if (old->type != node->type)
			return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
		if (old->n_deps != node->n_deps)
			return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
		for (size_t i = 0; i < node->n_deps; i++)
			if (old->deps[i]->index != node->deps[i]->index)
				return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
		if (node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
			node->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
			return CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
		if (node->context && old->context && node->context != old->context)
			return node->type == CU_GRAPH_NODE_TYPE_KERNEL
				? CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE
				: CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
		if (node->child) {
			CUgraphExecUpdateResult r = graph_exec_compare(
				old->child, node->child, ret_error);

			if (r != CU_GRAPH_EXEC_UPDATE_SUCCESS)
				return r;
		}
	}
	*ret_error = NULL;
	return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

static CUresult graph_exec_update(CUgraphExec hExec, CUgraph hGraph, CUgraphNode *ret_error,
	CUgraphExecUpdateResult *ret_result)
{
	struct cu_graph *graph;
	struct cu_exec *exec;
	struct cu_list *at;

	CU_ENTER();
	exec = exec_get(hExec);
	graph = cu_graph_get(hGraph);
	CU_CHECK(exec && graph, CUDA_ERROR_INVALID_VALUE);
	*ret_result = graph_exec_compare(exec->graph, graph, ret_error);
	CU_CHECK(*ret_result == CU_GRAPH_EXEC_UPDATE_SUCCESS, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
	CU_TRY(keep_as_it_was(exec));
	at = exec->graph->nodes.next;
	CU_LIST_EACH(struct cu_node, link, &graph->nodes, node)
	{
		struct cu_node *mine = CONTAINER_OF(at, struct cu_node, link);

		at = at->next;
		CU_TRY(cu_node_set(mine, &node->params));
	}
	exec->dirty = true;
	return cu_graph_share_objects(exec->graph, graph);
}

CU_EXPORT CUresult cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph,
	CUgraphNode *hErrorNode_out, CUgraphExecUpdateResult *updateResult_out)
{
	CU_CHECK(updateResult_out && hErrorNode_out, CUDA_ERROR_INVALID_VALUE);
	*hErrorNode_out = NULL;
	*updateResult_out = CU_GRAPH_EXEC_UPDATE_ERROR;
	return graph_exec_update(hGraphExec, hGraph, hErrorNode_out, updateResult_out);
}

CU_EXPORT CUresult cuGraphExecUpdate_v2(
	CUgraphExec hGraphExec, CUgraph hGraph, CUgraphExecUpdateResultInfo *resultInfo)
{
	CU_CHECK(resultInfo, CUDA_ERROR_INVALID_VALUE);
	*resultInfo = (CUgraphExecUpdateResultInfo){.result = CU_GRAPH_EXEC_UPDATE_ERROR};
	return graph_exec_update(hGraphExec, hGraph, &resultInfo->errorNode, &resultInfo->result);
}
