/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's functions as host functions: the worker's host function asks the program to call
 * the program's function, and waits. Also the worker's data that graphs need, which end with the
 * graphs.
 */
#include <stdlib.h>
#include <sys/queue.h>

#include "remote/worker.h"

/* ---- data of graphs ---- */

CUgraph graph_captured_by(CUstream stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	CUgraph graph = NULL;

	return !driver.cuStreamGetCaptureInfo_v2(stream, &status, NULL, &graph, NULL, NULL) &&
			status == CU_STREAM_CAPTURE_STATUS_ACTIVE
		? graph
		: NULL;
}

void graph_keep(CUgraph graph, CUhostFn forget, void *p)
{
	CUuserObject object;

	if (!driver.cuUserObjectCreate(&object, p, forget, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC))
		driver.cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE);
}

/* ---- calls ---- */

/*
 * A host function of the program. A stream calls its function once. Graphs that are copies of one
 * another share their host functions. So each function belongs to the family of its node's first
 * function. The family ends with the last graph or executable graph that has its functions. A
 * function may replace a node's function in one executable graph. The worker counts the launches of
 * such a function, because the driver does not report when the last launch has reached it.
 */
struct host_call {
	/* in the list `calls` of the family or of own_calls, latest first */
	struct host_call *next;
	struct family *family; /* NULL: not a function of a graph */
	uint64_t work;
	CUgraphNode node; /* NULL: the family's first function, or a stream's function */
	uint64_t uses;    /* value of graphs.uses when the function was set */
	bool is_own;      /* the function belongs to an executable graph */
	bool is_past;     /* a newer function has replaced this one for new launches */
	/* a graph has captured a launch of the function, so the worker never frees it */
	bool is_kept;
	unsigned due; /* launches that have yet to reach the function */
};

struct family {
	struct host_call *calls;
};

struct own_calls {
	LIST_ENTRY(own_calls) link;
	CUgraphExec exec;
	struct host_call *calls; /* one function for each node */
};

static struct {
	pthread_rwlock_t set_lock; /* taken by graphs_lock() and graphs_share() */
	pthread_mutex_t lock;      /* protects this struct */
	LIST_HEAD(, own_calls) own;
	uint64_t uses; /* number of calls of graphs_used(); under set_lock */
	_Atomic uint64_t execs;
} graphs = {.set_lock = PTHREAD_RWLOCK_INITIALIZER, .lock = PTHREAD_MUTEX_INITIALIZER};

void graphs_lock(void)
{
	pthread_rwlock_wrlock(&graphs.set_lock);
}

void graphs_used(void)
{
	graphs.uses++;
}

bool graphs_are_used(void)
{
	return graphs.uses > 0;
}

/* Readers come first: a reader that waits in the driver delays only threads that change a graph. */
void graphs_share(void)
{
	pthread_rwlock_rdlock(&graphs.set_lock);
}

void graphs_unlock(void)
{
	pthread_rwlock_unlock(&graphs.set_lock);
}

/* Called without the lock: reverse_cancel() may wait until the program makes room in the ring. */
static void forget_calls(struct host_call *h)
{
	for (struct host_call *next; h; h = next) {
		next = h->next;
		reverse_cancel(h->work);
		free(h);
	}
}

static void host_call_move_list(struct host_call **at, struct host_call **to)
{
	struct host_call *h = *at;

	*at = h->next;
	h->next = *to;
	*to = h;
}

static void host_call_run_callback(struct host_call *h, CUresult status)
{
	struct remote_reverse head = {.work = h->work,
		.status = (int32_t)status,
		.is_last = 1,
		.is_free = !h->family && !h->is_own};
	bool is_over = false;

	reverse_ask(REMOTE_CALL, &head, NULL, 0);
	if (head.is_free) {
		free(h);
		return;
	}
	pthread_mutex_lock(&graphs.lock);
	if (h->is_own && h->due) {
		h->due--;
		is_over = h->is_past && !h->due && !h->is_kept;
	}
	pthread_mutex_unlock(&graphs.lock);
	if (is_over)
		forget_calls(h);
}

static void on_host_function(void *argument)
{
	host_call_run_callback(argument, CUDA_SUCCESS);
}

static void on_callback(CUstream stream, CUresult status, void *argument)
{
	host_call_run_callback(argument, status);
}

/* Makes a host function; for a node of a graph also its family, with this function alone. */
static struct host_call *call_new(uint64_t work, bool is_graphs)
{
	struct host_call *h = calloc(1, sizeof(*h));
	struct family *f = h && is_graphs ? calloc(1, sizeof(*f)) : NULL;

	if (!h || (is_graphs && !f)) {
		free(h);
		return NULL;
	}
	h->work = work;
	h->family = f;
	if (f)
		f->calls = h;
	return h;
}

static void family_end(void *argument)
{
	struct family *f = argument;

	forget_calls(f->calls);
	free(f);
}

/* Adds a function to the family, and removes the functions that it replaces. */
static void family_add(struct family *f, struct host_call *h)
{
	struct host_call *unused = NULL;

	pthread_mutex_lock(&graphs.lock);
	h->next = f->calls;
	f->calls = h;
	for (struct host_call **at = &h->next; *at;)
		if ((*at)->node == h->node && (*at)->uses == h->uses)
			host_call_move_list(at, &unused);
		else
			at = &(*at)->next;
	pthread_mutex_unlock(&graphs.lock);
	forget_calls(unused);
}

/* ---- functions of executable graphs ---- */

/* The caller holds the lock. */
static struct own_calls *own_find(CUgraphExec exec)
{
	struct own_calls *e;

	LIST_FOREACH(e, &graphs.own, link)
		if (e->exec == exec)
			return e;
	return NULL;
}

/*
 * The caller holds the lock. A newer function has replaced this one for new launches. Moves the
 * function to the list `over`, which the caller frees, unless a launch still has to reach the
 * function.
 */
static void make_past(struct host_call **at, struct host_call **over)
{
	struct host_call *h = *at;

	h->is_past = true;
	if (h->due || h->is_kept) {
		*at = h->next;
		h->next = NULL;
	} else {
		host_call_move_list(at, over);
	}
}

static bool own_add(CUgraphExec exec, struct host_call *h)
{
	struct host_call *over = NULL;
	struct own_calls *e;

	pthread_mutex_lock(&graphs.lock);
	e = own_find(exec);
	if (!e) {
		e = calloc(1, sizeof(*e));
		if (e) {
			e->exec = exec;
			LIST_INSERT_HEAD(&graphs.own, e, link);
			atomic_fetch_add(&graphs.execs, 1);
		}
	}
	if (e) {
		for (struct host_call **at = &e->calls; *at;)
			if ((*at)->node == h->node)
				make_past(at, &over);
			else
				at = &(*at)->next;
		h->next = e->calls;
		e->calls = h;
	}
	pthread_mutex_unlock(&graphs.lock);
	forget_calls(over);
	return e;
}

/*
 * Removes and returns the functions of an executable graph, so that a later graph with the same
 * handle starts without any. NULL: there are none.
 */
static struct own_calls *own_take(CUgraphExec exec)
{
	struct own_calls *e;

	pthread_mutex_lock(&graphs.lock);
	e = own_find(exec);
	if (e) {
		LIST_REMOVE(e, link);
		atomic_fetch_sub(&graphs.execs, 1);
	}
	pthread_mutex_unlock(&graphs.lock);
	return e;
}

static void own_end(struct own_calls *e)
{
	struct host_call *over = NULL;

	if (!e)
		return;
	pthread_mutex_lock(&graphs.lock);
	while (e->calls)
		make_past(&e->calls, &over);
	pthread_mutex_unlock(&graphs.lock);
	free(e);
	forget_calls(over);
}

static void own_put_back(struct own_calls *e)
{
	if (!e)
		return;
	pthread_mutex_lock(&graphs.lock);
	LIST_INSERT_HEAD(&graphs.own, e, link);
	atomic_fetch_add(&graphs.execs, 1);
	pthread_mutex_unlock(&graphs.lock);
}

/* Counts a launch (n: 1), or takes it back after it failed (n: -1). The caller holds set_lock. */
static void own_launched(CUgraphExec exec, CUstream stream, int n)
{
	struct own_calls *e;

	if (!atomic_load(&graphs.execs))
		return;
	pthread_mutex_lock(&graphs.lock);
	e = own_find(exec);
	for (struct host_call *h = e ? e->calls : NULL; h; h = h->next) {
		/* A captured launch runs as often as the graph that captured it. */
		const bool is_captured = n > 0 && graph_captured_by(stream);
		unsigned is_enabled = 1;

		if (driver.cuGraphNodeGetEnabled(exec, h->node, &is_enabled) || is_enabled) {
			h->due += is_captured ? 0u : (unsigned)n;
			h->is_kept = h->is_kept || is_captured;
		}
	}
	pthread_mutex_unlock(&graphs.lock);
}

CUresult graph_launch(CUgraphExec exec, CUstream stream)
{
	CUresult r;

	graphs_share();
	own_launched(exec, stream, 1);
	r = driver.cuGraphLaunch(exec, stream);
	if (r)
		own_launched(exec, NULL, -1);
	graphs_unlock();
	return r;
}

static CUresult own_settle(struct own_calls *e, CUresult r)
{
	if (r)
		own_put_back(e);
	else
		own_end(e);
	return r;
}

CUresult graph_exec_destroy(CUgraphExec exec)
{
	struct own_calls *e = own_take(exec);

	return own_settle(e, driver.cuGraphExecDestroy(exec));
}

/* After an update the executable graph's nodes have the functions of `graph`. */
CUresult graph_update(
	CUgraphExec exec, CUgraph graph, CUgraphNode *ret_node, CUgraphExecUpdateResult *ret)
{
	struct own_calls *e = own_take(exec);

	return own_settle(e, driver.cuGraphExecUpdate(exec, graph, ret_node, ret));
}

CUresult graph_update_v2(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *ret)
{
	struct own_calls *e = own_take(exec);

	return own_settle(e, driver.cuGraphExecUpdate_v2(exec, graph, ret));
}

/* ---- on a stream ---- */

static CUresult host_call_refuse(uint64_t work, CUresult r)
{
	reverse_cancel(work);
	return r;
}

CUresult serve_host_call(struct serve *s)
{
	const struct remote_host_call call = TAKE_VALUE(s, struct remote_host_call);
	CUstream const stream = (CUstream)(uintptr_t)handle_real(s, KIND_CUstream, call.stream);
	struct host_call *h;
	CUgraph graph;
	CUresult r;

	if (s->error)
		return host_call_refuse(call.work, s->error);
	graphs_share();
	/* The client cannot know whether another thread of the program is capturing the stream. */
	graph = graph_captured_by(stream);
	h = call_new(call.work, graph);
	if (!h) {
		graphs_unlock();
		return host_call_refuse(call.work, CUDA_ERROR_OUT_OF_MEMORY);
	}
	r = call.is_callback ? driver.cuStreamAddCallback(stream, on_callback, h, 0)
			     : driver.cuLaunchHostFunc(stream, on_host_function, h);
	if (graph)
		graph_keep(graph, family_end, h->family);
	graphs_unlock();
	if (!graph && r)
		forget_calls(h);
	return r;
}

/* ---- host nodes ---- */

struct host_node {
	uint64_t work;
	struct remote_node given;
	CUgraphNode *dependencies;
};

static void host_call_read_node(struct serve *s, struct host_node *ret)
{
	ret->work = take_u64(s);
	ret->given = TAKE_VALUE(s, struct remote_node);
	ret->dependencies = TAKE_ARRAY(s, CUgraphNode, ret->given.n);
	if (ret->dependencies)
		handles_real_(s, KIND_CUgraphNode, ret->dependencies, ret->given.n);
}

CUresult serve_cuGraphAddHostNode(struct serve *s)
{
	CUDA_HOST_NODE_PARAMS params = {.fn = on_host_function};
	struct host_node node;
	struct host_call *h;
	CUgraphNode made;
	CUgraph graph;
	uint64_t named;
	CUresult r;

	host_call_read_node(s, &node);
	graph = (CUgraph)(uintptr_t)handle_real(s, KIND_CUgraph, node.given.of);
	h = s->error ? NULL : call_new(node.work, true);
	if (!h)
		return host_call_refuse(node.work, s->error ? s->error : CUDA_ERROR_OUT_OF_MEMORY);
	params.userData = h;
	graphs_lock();
	r = driver.cuGraphAddHostNode(&made, graph, node.dependencies, node.given.n, &params);
	if (!r)
		graph_keep(graph, family_end, h->family);
	graphs_unlock();
	if (r) {
		family_end(h->family);
		return r;
	}
	named = handle_name(s, KIND_CUgraphNode, (uintptr_t)made);
	give(s, &named, sizeof(named));
	return CUDA_SUCCESS;
}

/*
 * Under set_lock. Refuses a node whose function is not the program's: the program may also name the
 * node of a captured copy, whose function is the worker's own.
 */
static CUresult host_call_replace(CUgraphNode node, CUgraphExec exec, struct host_call *h)
{
	CUDA_HOST_NODE_PARAMS had = {0}, params = {on_host_function, h};
	CUresult r = driver.cuGraphHostNodeGetParams(node, &had);

	if (r || had.fn != on_host_function)
		return r ? r : CUDA_ERROR_INVALID_VALUE;
	h->node = node;
	h->is_own = exec;
	if (exec) {
		r = driver.cuGraphExecHostNodeSetParams(exec, node, &params);
		if (!r && !own_add(exec, h))
			h->is_kept = true; /* nothing will report the function's end */
		return r;
	}
	h->uses = graphs.uses;
	h->family = ((struct host_call *)had.userData)->family;
	r = driver.cuGraphHostNodeSetParams(node, &params);
	if (!r)
		family_add(h->family, h);
	return r;
}

CUresult serve_cuGraphHostNodeGetParams(struct serve *s)
{
	CUgraphNode const node = (CUgraphNode)(uintptr_t)handle_real(
		s, KIND_CUgraphNode, take_u64(s));
	CUDA_HOST_NODE_PARAMS had = {0};
	CUresult r = s->error ? s->error : driver.cuGraphHostNodeGetParams(node, &had);

	if (r || had.fn != on_host_function)
		return r ? r : CUDA_ERROR_INVALID_VALUE;
	give(s, &((struct host_call *)had.userData)->work, sizeof(uint64_t));
	return CUDA_SUCCESS;
}

static CUresult set_params(struct serve *s, bool is_exec)
{
	CUgraphExec exec = NULL;
	struct host_node node;
	struct host_call *h;
	CUgraphNode real;
	CUresult r;

	host_call_read_node(s, &node);
	if (is_exec)
		exec = (CUgraphExec)(uintptr_t)handle_real(s, KIND_CUgraphExec, node.given.of);
	real = (CUgraphNode)(uintptr_t)handle_real(s, KIND_CUgraphNode, node.given.node);
	h = s->error ? NULL : call_new(node.work, false);
	if (!h)
		return host_call_refuse(node.work, s->error ? s->error : CUDA_ERROR_OUT_OF_MEMORY);
	graphs_lock();
	r = is_exec && !exec ? CUDA_ERROR_INVALID_VALUE : host_call_replace(real, exec, h);
	graphs_unlock();
	if (r)
		forget_calls(h);
	return r;
}

CUresult serve_cuGraphHostNodeSetParams(struct serve *s)
{
	return set_params(s, false);
}

CUresult serve_cuGraphExecHostNodeSetParams(struct serve *s)
{
	return set_params(s, true);
}
