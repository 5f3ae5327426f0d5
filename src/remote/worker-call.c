/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of the program: host functions of ours, which ask the program to call its own and wait;
 * and what graphs have of us, which ends with them.
 */
#include <stdlib.h>
#include <sys/queue.h>

#include "remote/worker.h"

/* ---- what graphs need ---- */

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
 * For a stream, or for a host node. What a node is given in place of its first call is of the
 * family of that one, which ends with the last graph, or executable, that has it; each ends before
 * where nothing can come to it any more.
 */
struct host_call {
	struct host_call *next; /* of its family, the latest first */
	struct family *family;  /* NULL: a stream's, called once */
	uint64_t work;
	CUgraphNode node; /* NULL: its first one */
	CUgraphExec exec; /* alone; NULL: of the graph, and of all that is made of it */
	uint64_t uses;    /* of graphs, when it was set */
};

/* Of one that is gone no call is replaced any more: it may still be under way. */
#define EXEC_GONE ((CUgraphExec)-1)

struct family {
	LIST_ENTRY(family) link;
	struct host_call *calls;
};

static struct {
	/* set_lock: for who replaces calls, and is held meanwhile; lock: of the lists */
	pthread_mutex_t set_lock, lock;
	LIST_HEAD(, family) families;
	_Atomic uint64_t uses;
} graphs = {.set_lock = PTHREAD_MUTEX_INITIALIZER, .lock = PTHREAD_MUTEX_INITIALIZER};

void graph_is_used(void)
{
	atomic_fetch_add(&graphs.uses, 1);
}

/* The lock is not held: the program may have to make room first. */
static void forget_calls(struct host_call *h)
{
	for (struct host_call *next; h; h = next) {
		next = h->next;
		reverse_cancel(h->work);
		free(h);
	}
}

/* With the lock held: of those after h, which its node had before, in that executable. */
static struct host_call *take_older(struct host_call *h, bool is_unused)
{
	struct host_call *taken = NULL;

	for (struct host_call **at = &h->next, *old; (old = *at);) {
		if (old->node != h->node || old->exec != h->exec ||
			(is_unused && old->uses != atomic_load(&graphs.uses))) {
			at = &old->next;
			continue;
		}
		*at = old->next;
		old->next = taken;
		taken = old;
	}
	return taken;
}

static void call_back(struct host_call *h, CUresult status)
{
	struct remote_reverse head = {
		.work = h->work, .status = (int32_t)status, .is_last = 1, .is_free = !h->family};
	struct host_call *older = NULL;

	reverse_ask(REMOTE_CALL, &head, NULL, 0);
	if (!h->family) {
		free(h);
		return;
	}
	/* An executable runs once at a time: what it had before has come to its end. */
	pthread_mutex_lock(&graphs.lock);
	if (h->exec && h->exec != EXEC_GONE)
		older = take_older(h, false);
	pthread_mutex_unlock(&graphs.lock);
	forget_calls(older);
}

static void on_host_function(void *argument)
{
	call_back(argument, CUDA_SUCCESS);
}

static void on_callback(CUstream stream, CUresult status, void *argument)
{
	call_back(argument, status);
}

/* Of a graph's, in a family of its own. */
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
	if (f) {
		f->calls = h;
		pthread_mutex_lock(&graphs.lock);
		LIST_INSERT_HEAD(&graphs.families, f, link);
		pthread_mutex_unlock(&graphs.lock);
	}
	return h;
}

/* What an executable that has been updated from another graph may still have stays. */
static void family_end(void *argument)
{
	struct family *f = argument;
	struct host_call *taken = NULL;

	pthread_mutex_lock(&graphs.lock);
	for (struct host_call **at = &f->calls, *h; (h = *at);) {
		if (h->exec && h->exec != EXEC_GONE) {
			at = &h->next;
			continue;
		}
		*at = h->next;
		h->next = taken;
		taken = h;
	}
	if (!f->calls) {
		LIST_REMOVE(f, link);
		free(f);
	}
	pthread_mutex_unlock(&graphs.lock);
	forget_calls(taken);
}

void graph_exec_gone(CUgraphExec exec)
{
	struct family *f;

	pthread_mutex_lock(&graphs.lock);
	LIST_FOREACH(f, &graphs.families, link)
		for (struct host_call *h = f->calls; h; h = h->next)
			if (h->exec == exec)
				h->exec = EXEC_GONE;
	pthread_mutex_unlock(&graphs.lock);
}

/* ---- on a stream ---- */

static CUresult refuse(uint64_t work, CUresult r)
{
	reverse_cancel(work);
	return r;
}

CUresult serve_host_call(struct serve *s)
{
	const struct remote_host_call call = TAKE_VALUE(s, struct remote_host_call);
	CUstream const stream = (CUstream)(uintptr_t)handle_real(s, KIND_CUstream, call.stream);
	CUgraph const graph = s->error || call.is_free ? NULL : graph_captured_by(stream);
	struct host_call *h = s->error ? NULL : call_new(call.work, graph);
	CUresult r;

	if (!h)
		return refuse(call.work, s->error ? s->error : CUDA_ERROR_OUT_OF_MEMORY);
	r = call.is_callback ? driver.cuStreamAddCallback(stream, on_callback, h, 0)
			     : driver.cuLaunchHostFunc(stream, on_host_function, h);
	if (graph)
		graph_keep(graph, family_end, h->family);
	else if (r)
		forget_calls(h);
	return r;
}

/* ---- host nodes ---- */

struct host_node {
	uint64_t work;
	struct remote_node given;
	CUgraphNode *dependencies;
};

static void read_node(struct serve *s, struct host_node *ret)
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

	read_node(s, &node);
	graph = (CUgraph)(uintptr_t)handle_real(s, KIND_CUgraph, node.given.of);
	h = s->error ? NULL : call_new(node.work, true);
	if (!h)
		return refuse(node.work, s->error ? s->error : CUDA_ERROR_OUT_OF_MEMORY);
	params.userData = h;
	r = driver.cuGraphAddHostNode(&made, graph, node.dependencies, node.given.n, &params);
	if (r) {
		family_end(h->family);
		return r;
	}
	graph_keep(graph, family_end, h->family);
	named = handle_name(s, KIND_CUgraphNode, (uintptr_t)made);
	give(s, &named, sizeof(named));
	return CUDA_SUCCESS;
}

/* With set_lock held. The program may know nodes that it has not made: those of captured copies. */
static CUresult replace(CUgraphNode node, CUgraphExec exec, struct host_call *h)
{
	CUDA_HOST_NODE_PARAMS had, params = {on_host_function, h};
	struct host_call *older;
	CUresult r = driver.cuGraphHostNodeGetParams(node, &had);

	if (r || had.fn != on_host_function)
		return r ? r : CUDA_ERROR_INVALID_VALUE;
	h->family = ((struct host_call *)had.userData)->family;
	h->node = node;
	h->exec = exec;
	h->uses = atomic_load(&graphs.uses);
	r = exec ? driver.cuGraphExecHostNodeSetParams(exec, node, &params)
		 : driver.cuGraphHostNodeSetParams(node, &params);
	if (r)
		return r;
	pthread_mutex_lock(&graphs.lock);
	h->next = h->family->calls;
	h->family->calls = h;
	older = take_older(h, true);
	pthread_mutex_unlock(&graphs.lock);
	forget_calls(older);
	return CUDA_SUCCESS;
}

CUresult serve_cuGraphHostNodeGetParams(struct serve *s)
{
	CUgraphNode const node = (CUgraphNode)(uintptr_t)handle_real(
		s, KIND_CUgraphNode, take_u64(s));
	CUDA_HOST_NODE_PARAMS had;
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

	read_node(s, &node);
	if (is_exec)
		exec = (CUgraphExec)(uintptr_t)handle_real(s, KIND_CUgraphExec, node.given.of);
	real = (CUgraphNode)(uintptr_t)handle_real(s, KIND_CUgraphNode, node.given.node);
	h = s->error ? NULL : call_new(node.work, false);
	if (!h)
		return refuse(node.work, s->error ? s->error : CUDA_ERROR_OUT_OF_MEMORY);
	pthread_mutex_lock(&graphs.set_lock);
	r = is_exec && !exec ? CUDA_ERROR_INVALID_VALUE : replace(real, exec, h);
	pthread_mutex_unlock(&graphs.set_lock);
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
