/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches, kernel nodes and host functions. A kernel's parameters are packed by the layout that
 * the server's driver reports; the client asks once for each function. Any thread.
 */
#include <stdlib.h>

#include "base/cleanup.h"
#include "remote/client.h"
#include "remote/launch.h"

#define LAYOUTS 1024u

struct layout {
	struct layout *next;
	uint64_t function;
	struct remote_layout given;
};

/*
 * A thread that waits for room in its lane holds the lock for reading, so other threads must be
 * able to read too.
 */
static struct {
	pthread_rwlock_t lock;
	struct layout *bucket[LAYOUTS];
} layouts = {.lock = PTHREAD_RWLOCK_INITIALIZER};

static struct layout **client_launch_layout_bucket(uint64_t function)
{
	return &layouts.bucket[(function ^ function >> 40) % LAYOUTS];
}

/*
 * Called when a module was unloaded, because a later function may get the name of a function that
 * has ended.
 */
void layouts_forget(void)
{
	pthread_rwlock_wrlock(&layouts.lock);
	for (unsigned i = 0; i < LAYOUTS; i++)
		for (struct layout *l; (l = layouts.bucket[i]);) {
			layouts.bucket[i] = l->next;
			free(l);
		}
	pthread_rwlock_unlock(&layouts.lock);
}

static struct layout *find_layout(uint64_t function)
{
	struct layout *l;

	for (l = *client_launch_layout_bucket(function); l; l = l->next)
		if (l->function == function)
			break;
	return l;
}

static bool is_layout(const struct remote_layout *l)
{
	if (l->n > REMOTE_PARAMS || l->bytes > REMOTE_PARAMS_MAX)
		return false;
	for (uint32_t i = 0; i < l->n; i++)
		if (l->param[i].offset + l->param[i].size > l->bytes)
			return false;
	return true;
}

static CUresult ask_layout(uint64_t function, struct remote_layout *ret_layout)
{
	struct call c;
	CUresult r = call_ask(&c, REMOTE_LAYOUT, function);

	if (!r && (!call_take(&c, ret_layout, sizeof(*ret_layout)) || !is_layout(ret_layout)))
		r = CUDA_ERROR_UNKNOWN;
	call_end(&c);
	return r;
}

static CUresult layout_ask(uint64_t function)
{
	struct layout *l = calloc(1, sizeof(*l));
	CUresult r = l ? ask_layout(function, &l->given) : CUDA_ERROR_OUT_OF_MEMORY;

	if (r) {
		free(l);
		return r;
	}
	pthread_rwlock_wrlock(&layouts.lock);
	l->function = function;
	l->next = *client_launch_layout_bucket(function);
	*client_launch_layout_bucket(function) = l;
	pthread_rwlock_unlock(&layouts.lock);
	return CUDA_SUCCESS;
}

/* Returns with the lock held, even after a failure, because the lock protects the layout. */
static CUresult layout_get(uint64_t function, const struct layout **ret_layout)
{
	while (!(*ret_layout = find_layout(function))) {
		CUresult r;

		pthread_rwlock_unlock(&layouts.lock);
		r = layout_ask(function);
		pthread_rwlock_rdlock(&layouts.lock);
		if (r)
			return r;
	}
	return CUDA_SUCCESS;
}

static void client_launch_gather_params(
	const struct remote_layout *layout, void **params, uint8_t *to)
{
	for (uint32_t i = 0; i < layout->n; i++)
		memcpy(to + layout->param[i].offset, params[i], layout->param[i].size);
}

/* Reads the buffer form of parameters, a list of words up to CU_LAUNCH_PARAM_END. */
static CUresult read_extra(void **extra, const void **ret_buffer, size_t *ret_bytes)
{
	*ret_buffer = NULL;
	*ret_bytes = 0;
	for (int i = 0; extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
		if (i > 8)
			return CUDA_ERROR_INVALID_VALUE;
		if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
			*ret_buffer = extra[i + 1];
		else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE)
			*ret_bytes = *(const size_t *)extra[i + 1];
		else
			return CUDA_ERROR_INVALID_VALUE;
	}
	return *ret_bytes > REMOTE_PARAMS_MAX || (*ret_bytes && !*ret_buffer)
		? CUDA_ERROR_INVALID_VALUE
		: CUDA_SUCCESS;
}

/*
 * Ends a request about a node, and takes its answer: *ret_node is the new node, unless ret_node is
 * NULL.
 */
static CUresult client_launch_send_node(
	struct call *c, const struct remote_node *node, uint64_t *ret_node)
{
	CUresult r;

	call_put(c, node, sizeof(*node));
	call_put(c, node->dependencies, node->n * 8);
	r = call_wait(c, 0);
	if (!r && ret_node && !call_take(c, ret_node, sizeof(*ret_node)))
		r = CUDA_ERROR_UNKNOWN;
	call_end(c);
	return r;
}

/* Sends a launch; the caller has filled everything except the parameters. */
static CUresult send_launch(unsigned op, struct remote_launch *launch,
	const CUlaunchAttribute *attrs, void **params, void **extra, const struct remote_node *node,
	uint64_t *ret_node)
{
	const size_t bytes = sizeof(*launch) + FIELD(launch->n_attrs * sizeof(*attrs)) +
		(node ? sizeof(*node) + FIELD(node->n * 8) : 0);
	const struct layout *layout = NULL;
	const void *buffer = NULL;
	size_t n = 0;
	struct call c;
	CUresult r = session_check();

	if (r)
		return r;
	if ((params && extra) || launch->n_attrs > REMOTE_ATTRS_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_rwlock_rdlock(&layouts.lock);
	if (extra)
		r = read_extra(extra, &buffer, &n);
	else
		r = layout_get(launch->function, &layout);
	if (!r && layout) {
		n = layout->given.bytes;
		r = layout->given.n && !params ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
	}
	if (!r)
		r = call_begin(&c, op, bytes + FIELD(n));
	if (!r) {
		launch->bytes = n;
		call_put(&c, launch, sizeof(*launch));
		call_put(&c, attrs, launch->n_attrs * sizeof(*attrs));
		if (layout && params)
			client_launch_gather_params(&layout->given, params, c.at);
		else if (n)
			memcpy(c.at, buffer, n);
		c.at += FIELD(n);
	}
	pthread_rwlock_unlock(&layouts.lock);
	if (r)
		return r;
	return node ? client_launch_send_node(&c, node, ret_node) : call_post(&c);
}

REMOTE_EXPORT CUresult cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
	unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
	unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream, void **kernelParams,
	void **extra)
{
	struct remote_launch launch = {
		.function = (uintptr_t)f,
		.stream = (uintptr_t)hStream,
		.grid = {gridDimX, gridDimY, gridDimZ},
		.block = {blockDimX, blockDimY, blockDimZ},
		.shared = sharedMemBytes,
	};

	return send_launch(
		REMOTE_OP_cuLaunchKernel, &launch, NULL, kernelParams, extra, NULL, NULL);
}

REMOTE_EXPORT CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX,
	unsigned int gridDimY, unsigned int gridDimZ, unsigned int blockDimX,
	unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes,
	CUstream hStream, void **kernelParams)
{
	struct remote_launch launch = {
		.function = (uintptr_t)f,
		.stream = (uintptr_t)hStream,
		.grid = {gridDimX, gridDimY, gridDimZ},
		.block = {blockDimX, blockDimY, blockDimZ},
		.shared = sharedMemBytes,
	};

	return send_launch(
		REMOTE_OP_cuLaunchCooperativeKernel, &launch, NULL, kernelParams, NULL, NULL, NULL);
}

static CUresult read_config(
	const CUlaunchConfig *config, CUfunction f, struct remote_launch *ret_launch)
{
	CUresult r = session_check();

	if (r)
		return r;
	if (!config || (config->numAttrs && !config->attrs))
		return CUDA_ERROR_INVALID_VALUE;
	*ret_launch = (struct remote_launch){.function = (uintptr_t)f,
		.stream = (uintptr_t)config->hStream,
		.shared = config->sharedMemBytes,
		.n_attrs = config->numAttrs};
	memcpy(ret_launch->grid, &config->gridDimX, sizeof(ret_launch->grid));
	memcpy(ret_launch->block, &config->blockDimX, sizeof(ret_launch->block));
	return CUDA_SUCCESS;
}

REMOTE_EXPORT CUresult cuLaunchKernelEx(
	const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra)
{
	struct remote_launch launch;
	const CUresult r = read_config(config, f, &launch);

	return r ? r
		 : send_launch(REMOTE_OP_cuLaunchKernelEx, &launch, config->attrs, kernelParams,
			   extra, NULL, NULL);
}

REMOTE_EXPORT CUresult cuLaunchKernelEx_ptsz(
	const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra)
{
	CUlaunchConfig own;

	if (!config)
		return cuLaunchKernelEx(config, f, kernelParams, extra);
	own = *config;
	own.hStream = own.hStream ? own.hStream : CU_STREAM_PER_THREAD;
	return cuLaunchKernelEx(&own, f, kernelParams, extra);
}

static CUresult ask_clusters(unsigned op, int *ret, CUfunction f, const CUlaunchConfig *config)
{
	struct remote_launch launch;
	size_t bytes;
	struct call c;
	CUresult r = read_config(config, f, &launch);

	if (r)
		return r;
	if (!ret || launch.n_attrs > REMOTE_ATTRS_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	bytes = launch.n_attrs * sizeof(*config->attrs);
	r = call_begin(&c, op, sizeof(launch) + FIELD(bytes));
	if (r)
		return r;
	call_put(&c, &launch, sizeof(launch));
	call_put(&c, config->attrs, bytes);
	r = call_wait(&c, 0);
	if (!r && !call_take(&c, ret, sizeof(*ret)))
		r = CUDA_ERROR_UNKNOWN;
	call_end(&c);
	return r;
}

REMOTE_EXPORT CUresult cuOccupancyMaxActiveClusters(
	int *numClusters, CUfunction func, const CUlaunchConfig *config)
{
	return ask_clusters(REMOTE_OP_cuOccupancyMaxActiveClusters, numClusters, func, config);
}

REMOTE_EXPORT CUresult cuOccupancyMaxPotentialClusterSize(
	int *clusterSize, CUfunction func, const CUlaunchConfig *config)
{
	return ask_clusters(
		REMOTE_OP_cuOccupancyMaxPotentialClusterSize, clusterSize, func, config);
}

/*
 * Defines the three entry points of a kind of nodes: add a node, set its parameters, and set them
 * in an executable graph. `send` sends the request.
 */
#define NODES(add, set, set_exec, send, params) \
	REMOTE_EXPORT CUresult add(CUgraphNode *phGraphNode, CUgraph hGraph, \
		const CUgraphNode *dependencies, size_t numDependencies, const params *nodeParams) \
	{ \
		const struct remote_node node = {.of = (uintptr_t)hGraph, \
			.n = numDependencies, \
			.dependencies = dependencies}; \
		uint64_t handle = 0; \
		CUresult r = phGraphNode ? send(REMOTE_OP_##add, nodeParams, &node, &handle) \
					 : CUDA_ERROR_INVALID_VALUE; \
\
		if (!r) \
			*phGraphNode = (CUgraphNode)(uintptr_t)handle; \
		return r; \
	} \
	REMOTE_EXPORT CUresult set(CUgraphNode hNode, const params *nodeParams) \
	{ \
		const struct remote_node node = {.node = (uintptr_t)hNode}; \
\
		return send(REMOTE_OP_##set, nodeParams, &node, NULL); \
	} \
	REMOTE_EXPORT CUresult set_exec( \
		CUgraphExec hGraphExec, CUgraphNode hNode, const params *nodeParams) \
	{ \
		const struct remote_node node = { \
			.of = (uintptr_t)hGraphExec, .node = (uintptr_t)hNode}; \
\
		return send(REMOTE_OP_##set_exec, nodeParams, &node, NULL); \
	}

/* ---- kernel nodes ---- */

static CUresult client_launch_kernel_node(unsigned op, const CUDA_KERNEL_NODE_PARAMS *p,
	const struct remote_node *node, uint64_t *ret_node)
{
	struct remote_launch launch = {0};
	CUresult r = session_check();

	if (r)
		return r;
	if (!p || (node->n && !node->dependencies))
		return CUDA_ERROR_INVALID_VALUE;
	launch.function = (uintptr_t)(p->func ? (void *)p->func : (void *)p->kern);
	launch.stream = (uintptr_t)p->ctx;
	memcpy(launch.grid, &p->gridDimX, sizeof(launch.grid));
	memcpy(launch.block, &p->blockDimX, sizeof(launch.block));
	launch.shared = p->sharedMemBytes;
	return send_launch(op, &launch, NULL, p->kernelParams, p->extra, node, ret_node);
}

NODES(cuGraphAddKernelNode_v2, cuGraphKernelNodeSetParams_v2, cuGraphExecKernelNodeSetParams_v2,
	client_launch_kernel_node, CUDA_KERNEL_NODE_PARAMS)

/*
 * Parameters that the program has read from a node. The copy lives until the node is destroyed, or
 * until the program reads the parameters again.
 */
struct node_params {
	struct node_params *next;
	uint64_t node;
	size_t bytes;
	void *param[]; /* followed by the values to which they point */
};

static struct {
	pthread_mutex_t lock;
	struct node_params *bucket[LAYOUTS];
} nodes = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The caller holds the lock. */
static struct node_params **params_of(uint64_t node)
{
	struct node_params **at = &nodes.bucket[node % LAYOUTS];

	while (*at && (*at)->node != node)
		at = &(*at)->next;
	return at;
}

void graph_node_destroyed(CUgraphNode node)
{
	struct node_params **at, *p;

	pthread_mutex_lock(&nodes.lock);
	at = params_of((uintptr_t)node);
	p = *at;
	if (p)
		*at = p->next;
	pthread_mutex_unlock(&nodes.lock);
	free(p);
}

/*
 * Reuses the node's memory if it is large enough, because the program may still have pointers to
 * it.
 */
static void **keep_params(uint64_t node, const struct remote_layout *layout, const uint8_t *bytes)
{
	struct node_params **at, *p;
	uint8_t *to;

	pthread_mutex_lock(&nodes.lock);
	at = params_of(node);
	p = *at;
	if (!p || p->bytes < layout->n * sizeof(void *) + layout->bytes) {
		const size_t n = layout->n * sizeof(void *) + layout->bytes;

		p = realloc(p, sizeof(*p) + n);
		if (p) {
			p->next = *at ? p->next : NULL;
			p->node = node;
			p->bytes = n;
			*at = p;
		}
	}
	to = p ? (uint8_t *)&p->param[layout->n] : NULL;
	if (p)
		memcpy(to, bytes, layout->bytes);
	for (uint32_t i = 0; p && i < layout->n; i++)
		p->param[i] = to + layout->param[i].offset;
	pthread_mutex_unlock(&nodes.lock);
	return p ? p->param : NULL;
}

REMOTE_EXPORT CUresult cuGraphKernelNodeGetParams_v2(
	CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
	uint8_t bytes[REMOTE_PARAMS_MAX];
	void **params = NULL;
	struct remote_launch got;
	const struct layout *layout;
	struct call c;
	CUresult r = session_check();

	if (r)
		return r;
	if (!nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	r = call_ask(&c, REMOTE_OP_cuGraphKernelNodeGetParams_v2, (uintptr_t)hNode);
	if (!r &&
		(!call_take(&c, &got, sizeof(got)) || got.bytes > sizeof(bytes) ||
			!call_take(&c, bytes, got.bytes)))
		r = CUDA_ERROR_UNKNOWN;
	call_end(&c);
	if (r)
		return r;
	pthread_rwlock_rdlock(&layouts.lock);
	r = layout_get(got.function, &layout);
	if (!r && got.bytes < layout->given.bytes)
		r = CUDA_ERROR_UNKNOWN;
	if (!r)
		params = keep_params((uintptr_t)hNode, &layout->given, bytes);
	pthread_rwlock_unlock(&layouts.lock);
	if (r || !params)
		return r ? r : CUDA_ERROR_OUT_OF_MEMORY;
	*nodeParams = (CUDA_KERNEL_NODE_PARAMS){.func = (CUfunction)(uintptr_t)got.function,
		.sharedMemBytes = got.shared,
		.kernelParams = params};
	memcpy(&nodeParams->gridDimX, got.grid, sizeof(got.grid));
	memcpy(&nodeParams->blockDimX, got.block, sizeof(got.block));
	return CUDA_SUCCESS;
}

/* ---- functions of the program ---- */

CUresult host_call(struct work *work, CUstream stream, bool is_captured)
{
	struct remote_host_call call = {
		.stream = (uintptr_t)stream, .is_callback = work->kind == WORK_STREAM_CALLBACK};
	struct call c;
	CUresult r;

	call.is_free = work->is_once = !is_captured;
	r = work_new(work, &call.work);
	if (!r)
		r = call_begin(&c, REMOTE_HOST_CALL, sizeof(call));
	if (r)
		return r;
	call_put(&c, &call, sizeof(call));
	return call_post(&c);
}

static CUresult launch_function(struct work *work, CUstream stream, bool is_valid)
{
	const CUresult r = session_check();

	if (r)
		return r;
	return is_valid ? host_call(work, stream, is_captured_on(stream))
			: CUDA_ERROR_INVALID_VALUE;
}

REMOTE_EXPORT CUresult cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData)
{
	struct work work = {.kind = WORK_CALL, .fn = fn, .data = userData};

	return launch_function(&work, hStream, fn);
}

REMOTE_EXPORT CUresult cuLaunchHostFunc_v2(
	CUstream hStream, CUhostFn fn, void *userData, unsigned int syncMode)
{
	return cuLaunchHostFunc(hStream, fn, userData);
}

REMOTE_EXPORT CUresult cuStreamAddCallback(
	CUstream hStream, CUstreamCallback callback, void *userData, unsigned int flags)
{
	struct work work = {.kind = WORK_STREAM_CALLBACK,
		.callback = callback,
		.stream = hStream,
		.data = userData};

	return launch_function(&work, hStream, callback && !flags);
}

static CUresult host_node(unsigned op, const CUDA_HOST_NODE_PARAMS *p,
	const struct remote_node *node, uint64_t *ret_node)
{
	uint64_t name;
	struct call c;
	CUresult r = session_check();

	if (r)
		return r;
	if (!p || !p->fn || (node->n && !node->dependencies))
		return CUDA_ERROR_INVALID_VALUE;
	r = work_new(&(struct work){.kind = WORK_CALL, .fn = p->fn, .data = p->userData}, &name);
	if (!r)
		r = call_begin(&c, op, sizeof(name) + sizeof(*node) + FIELD(node->n * 8));
	if (r)
		return r;
	call_put(&c, &name, sizeof(name));
	return client_launch_send_node(&c, node, ret_node);
}

NODES(cuGraphAddHostNode, cuGraphHostNodeSetParams, cuGraphExecHostNodeSetParams, host_node,
	CUDA_HOST_NODE_PARAMS)

REMOTE_EXPORT CUresult cuGraphHostNodeGetParams(
	CUgraphNode hNode, CUDA_HOST_NODE_PARAMS *nodeParams)
{
	struct work work;
	uint64_t name;
	struct call c;
	CUresult r = session_check();

	if (r)
		return r;
	if (!nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	r = call_ask(&c, REMOTE_OP_cuGraphHostNodeGetParams, (uintptr_t)hNode);
	if (!r && !call_take(&c, &name, sizeof(name)))
		r = CUDA_ERROR_UNKNOWN;
	call_end(&c);
	if (r)
		return r;
	/* The callback of a captured cuStreamAddCallback() is no CUhostFn. */
	if (!work_get(name, &work) || work.kind != WORK_CALL)
		return CUDA_ERROR_NOT_SUPPORTED;
	*nodeParams = (CUDA_HOST_NODE_PARAMS){work.fn, work.data};
	return CUDA_SUCCESS;
}

/* ---- nodes by their general form ---- */

static CUDA_MEMSET_NODE_PARAMS memset_of(const CUgraphNodeParams *p)
{
	return (CUDA_MEMSET_NODE_PARAMS){.dst = p->memset.dst,
		.pitch = p->memset.pitch,
		.value = p->memset.value,
		.elementSize = p->memset.elementSize,
		.width = p->memset.width,
		.height = p->memset.height};
}

static CUresult client_launch_add_node(
	CUgraphNode *ret, CUgraph graph, const CUgraphNode *deps, size_t n, CUgraphNodeParams *p)
{
	switch (p->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL: {
		CUDA_KERNEL_NODE_PARAMS k;

		_Static_assert(sizeof(k) == sizeof(p->kernel), "one layout");
		memcpy(&k, &p->kernel, sizeof(k));
		return cuGraphAddKernelNode_v2(ret, graph, deps, n, &k);
	}
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return cuGraphAddMemcpyNode(
			ret, graph, deps, n, &p->memcpy.copyParams, p->memcpy.copyCtx);
	case CU_GRAPH_NODE_TYPE_MEMSET: {
		const CUDA_MEMSET_NODE_PARAMS m = memset_of(p);

		return cuGraphAddMemsetNode(ret, graph, deps, n, &m, p->memset.ctx);
	}
	case CU_GRAPH_NODE_TYPE_HOST: {
		const CUDA_HOST_NODE_PARAMS h = {p->host.fn, p->host.userData};

		return cuGraphAddHostNode(ret, graph, deps, n, &h);
	}
	case CU_GRAPH_NODE_TYPE_GRAPH:
		return cuGraphAddChildGraphNode(ret, graph, deps, n, p->graph.graph);
	case CU_GRAPH_NODE_TYPE_EMPTY: return cuGraphAddEmptyNode(ret, graph, deps, n);
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
		return cuGraphAddEventWaitNode(ret, graph, deps, n, p->eventWait.event);
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		return cuGraphAddEventRecordNode(ret, graph, deps, n, p->eventRecord.event);
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC: {
		CUDA_MEM_ALLOC_NODE_PARAMS a;
		CUresult r;

		_Static_assert(sizeof(a) == sizeof(p->alloc), "one layout");
		memcpy(&a, &p->alloc, sizeof(a));
		r = cuGraphAddMemAllocNode(ret, graph, deps, n, &a);
		p->alloc.dptr = a.dptr;
		return r;
	}
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		return cuGraphAddMemFreeNode(ret, graph, deps, n, p->free.dptr);
	default: return CUDA_ERROR_NOT_SUPPORTED;
	}
}

REMOTE_EXPORT CUresult cuGraphAddNode(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, size_t numDependencies, CUgraphNodeParams *nodeParams)
{
	const CUresult r = session_check();

	if (r)
		return r;
	return nodeParams ? client_launch_add_node(
				    phGraphNode, hGraph, dependencies, numDependencies, nodeParams)
			  : CUDA_ERROR_INVALID_VALUE;
}

REMOTE_EXPORT CUresult cuGraphAddNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData,
	size_t numDependencies, CUgraphNodeParams *nodeParams)
{
	for (size_t i = 0; dependencyData && i < numDependencies; i++)
		if (dependencyData[i].type || dependencyData[i].from_port ||
			dependencyData[i].to_port)
			return CUDA_ERROR_NOT_SUPPORTED;
	return cuGraphAddNode(phGraphNode, hGraph, dependencies, numDependencies, nodeParams);
}

/*
 * exec NULL: sets the node of the graph itself, for which the driver has no function that sets a
 * child graph.
 */
static CUresult client_launch_set_node(
	CUgraphExec exec, CUgraphNode node, const CUgraphNodeParams *p)
{
	switch (p->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL: {
		CUDA_KERNEL_NODE_PARAMS k;

		memcpy(&k, &p->kernel, sizeof(k));
		return exec ? cuGraphExecKernelNodeSetParams_v2(exec, node, &k)
			    : cuGraphKernelNodeSetParams_v2(node, &k);
	}
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return exec ? cuGraphExecMemcpyNodeSetParams(
				      exec, node, &p->memcpy.copyParams, p->memcpy.copyCtx)
			    : cuGraphMemcpyNodeSetParams(node, &p->memcpy.copyParams);
	case CU_GRAPH_NODE_TYPE_MEMSET: {
		const CUDA_MEMSET_NODE_PARAMS m = memset_of(p);

		return exec ? cuGraphExecMemsetNodeSetParams(exec, node, &m, p->memset.ctx)
			    : cuGraphMemsetNodeSetParams(node, &m);
	}
	case CU_GRAPH_NODE_TYPE_HOST: {
		const CUDA_HOST_NODE_PARAMS h = {p->host.fn, p->host.userData};

		return exec ? cuGraphExecHostNodeSetParams(exec, node, &h)
			    : cuGraphHostNodeSetParams(node, &h);
	}
	case CU_GRAPH_NODE_TYPE_GRAPH:
		return exec ? cuGraphExecChildGraphNodeSetParams(exec, node, p->graph.graph)
			    : CUDA_ERROR_NOT_SUPPORTED;
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
		return exec ? cuGraphExecEventWaitNodeSetEvent(exec, node, p->eventWait.event)
			    : cuGraphEventWaitNodeSetEvent(node, p->eventWait.event);
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		return exec ? cuGraphExecEventRecordNodeSetEvent(exec, node, p->eventRecord.event)
			    : cuGraphEventRecordNodeSetEvent(node, p->eventRecord.event);
	default: return CUDA_ERROR_NOT_SUPPORTED;
	}
}

REMOTE_EXPORT CUresult cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams *nodeParams)
{
	const CUresult r = session_check();

	if (r)
		return r;
	return nodeParams ? client_launch_set_node(NULL, hNode, nodeParams)
			  : CUDA_ERROR_INVALID_VALUE;
}

REMOTE_EXPORT CUresult cuGraphExecNodeSetParams(
	CUgraphExec hGraphExec, CUgraphNode hNode, CUgraphNodeParams *nodeParams)
{
	const CUresult r = session_check();

	if (r)
		return r;
	return hGraphExec && nodeParams ? client_launch_set_node(hGraphExec, hNode, nodeParams)
					: CUDA_ERROR_INVALID_VALUE;
}

REMOTE_EXPORT CUresult cuGraphAddMemAllocNode(CUgraphNode *phGraphNode, CUgraph hGraph,
	const CUgraphNode *dependencies, size_t numDependencies,
	CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams)
{
	const struct remote_node node = {
		.of = (uintptr_t)hGraph, .n = numDependencies, .dependencies = dependencies};
	uint64_t handle = 0, address = 0;
	struct call c;
	CUresult r = session_check();

	if (r)
		return r;
	if (!phGraphNode || !nodeParams || (numDependencies && !dependencies))
		return CUDA_ERROR_INVALID_VALUE;
	if (nodeParams->accessDescCount > 1)
		return CUDA_ERROR_NOT_SUPPORTED;
	r = call_begin(&c, REMOTE_OP_cuGraphAddMemAllocNode,
		sizeof(*nodeParams) + sizeof(node) + FIELD(node.n * 8));
	if (r)
		return r;
	call_put(&c, nodeParams, sizeof(*nodeParams));
	call_put(&c, &node, sizeof(node));
	call_put(&c, dependencies, node.n * 8);
	r = call_wait(&c, 0);
	if (!r && (!call_take(&c, &handle, 8) || !call_take(&c, &address, 8)))
		r = CUDA_ERROR_UNKNOWN;
	call_end(&c);
	if (!r && !device_given(address, nodeParams->bytesize, RANGE_OF_GRAPH))
		r = CUDA_ERROR_OUT_OF_MEMORY;
	if (r)
		return r;
	nodeParams->dptr = address;
	*phGraphNode = (CUgraphNode)(uintptr_t)handle;
	return CUDA_SUCCESS;
}
