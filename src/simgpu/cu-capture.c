/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file implements stream capture, which records a stream's operations as nodes of a graph.
 *
 * A capture has an origin stream, and joins another stream when that stream waits for an event
 * recorded in the capture. Each capturing stream holds the nodes on which its next node depends,
 * and a recorded event keeps a copy of this list. If the program makes a call that capture forbids,
 * the call fails and invalidates the capture. The capture then only waits for its end. The client's
 * lock protects everything.
 */
#include "simgpu/cu-graph.h"

#include <stdlib.h>
#include <string.h>

struct cu_capture {
	struct cu_list link;
	struct cu_graph *graph;
	bool owns_graph; /* cuStreamBeginCapture() has created the graph */
	struct cu_stream *origin;
	CUstreamCaptureMode mode;
	uint64_t id;
	uint64_t thread;
	bool invalid;
};

static uint64_t this_thread(void)
{
	static uint64_t next;

	if (cu_thread.capture_thread == 0)
		cu_thread.capture_thread = ++next;
	return cu_thread.capture_thread;
}

static CUresult capture_invalidate(struct cu_capture *capture, CUresult code)
{
	if (capture)
		capture->invalid = true;
	return code;
}

CUresult cu_capture_refuse(struct cu_stream *stream, CUresult code)
{
	if (stream && stream->capture) {
		CUresult now = stream->capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
							: code;

		stream->capture->invalid = true;
		return now;
	}
	/*
	 * Some forbidden calls concern the whole context and no particular stream. Such a call
	 * invalidates all captures that this thread began, and every capture in global mode.
	 */
	if (code == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
		CU_LIST_EACH(struct cu_capture, link, &cu.captures, capture)
	if (capture->thread == this_thread() || capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL)
		capture->invalid = true;
	return code;
}

CUresult cu_capture_check_unsafe(void)
{
	bool hit = false;

	if (__builtin_expect(cu.captures.next == &cu.captures, 1) ||
		cu_thread.capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_SUCCESS;
	CU_LIST_EACH(struct cu_capture, link, &cu.captures, capture)
	{
		bool own = capture->thread == this_thread() &&
			capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
		bool other = cu_thread.capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
			capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;

		if (own || other) {
			capture->invalid = true;
			hit = true;
		}
	}
	return hit ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

CUresult cu_capture_check_legacy(struct cu_context *context)
{
	bool hit = false;

	if (__builtin_expect(context->captures == 0, 1))
		return CUDA_SUCCESS;
	/*
	 * Work in the legacy stream waits for all blocking streams. A capturing stream runs
	 * nothing, so the call instead invalidates the captures of blocking streams.
	 */
	CU_LIST_EACH(struct cu_stream, link, &context->streams, stream)
	{
		if (!stream->capture || (stream->flags & CU_STREAM_NON_BLOCKING) != 0)
			continue;
		stream->capture->invalid = true;
		hit = true;
	}
	return hit ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS;
}

static CUresult set_deps(struct cu_stream *stream, struct cu_node *const *deps, size_t n)
{
	struct cu_node **copy = n ? malloc(n * sizeof(struct cu_node *)) : NULL;

	CU_CHECK(n == 0 || copy, CUDA_ERROR_OUT_OF_MEMORY);
	if (n != 0)
		memcpy(copy, deps, n * sizeof(struct cu_node *));
	free(stream->deps);
	stream->deps = copy;
	stream->n_deps = n;
	return CUDA_SUCCESS;
}

/* Adds those of `deps` that the stream's list does not contain. */
static CUresult join_deps(struct cu_stream *stream, struct cu_node *const *deps, size_t n)
{
	struct cu_node **bigger = realloc(
		stream->deps, (stream->n_deps + n + 1) * sizeof(struct cu_node *));

	CU_CHECK(bigger, CUDA_ERROR_OUT_OF_MEMORY);
	stream->deps = bigger;
	for (size_t i = 0; i < n; i++) {
		bool known = false;

		for (size_t j = 0; j < stream->n_deps && !known; j++)
			known = stream->deps[j] == deps[i];
		if (!known)
			stream->deps[stream->n_deps++] = deps[i];
	}
	return CUDA_SUCCESS;
}

CUresult cu_capture_node(struct cu_stream *stream, struct cu_node *node)
{
	CUresult r;

	if (stream->capture->invalid) {
		cu_node_free(node);
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	}
	r = cu_graph_add(stream->capture->graph, node, stream->deps, stream->n_deps);
	if (r != CUDA_SUCCESS) {
		cu_node_free(node);
		return capture_invalidate(stream->capture, r);
	}
	return set_deps(stream, &node, 1);
}

CUresult cu_capture_op(struct cu_stream *stream, struct cu_op *op)
{
	struct cu_node *node;

	CU_CHECK(!stream->capture->invalid, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	CU_TRY(cu_node_from_op(stream->context, op, &node));
	return cu_capture_node(stream, node);
}

CUresult cu_capture_event_record(struct cu_stream *stream, struct cu_event *event, unsigned flags)
{
	struct cu_node **copy;
	struct cu_node *node;

	CU_CHECK(!stream->capture->invalid, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	if (flags & CU_EVENT_RECORD_EXTERNAL) {
		CU_TRY(cu_node_new(CU_GRAPH_NODE_TYPE_EVENT_RECORD, stream->context, &node));
		node->params.eventRecord.event = event->handle;
		return cu_capture_node(stream, node);
	}
	copy = malloc((stream->n_deps + 1) * sizeof(struct cu_node *));
	CU_CHECK(copy, CUDA_ERROR_OUT_OF_MEMORY);
	if (stream->n_deps != 0)
		memcpy(copy, stream->deps, stream->n_deps * sizeof(struct cu_node *));
	free(event->deps);
	event->deps = copy;
	event->n_deps = stream->n_deps;
	event->capture = stream->capture;
	return CUDA_SUCCESS;
}

static void join_capture(struct cu_stream *stream, struct cu_capture *capture)
{
	stream->capture = capture;
	stream->context->captures++;
}

CUresult cu_capture_event_wait(struct cu_stream *stream, struct cu_event *event, unsigned flags)
{
	struct cu_node *node;

	if (stream->capture && (flags & CU_EVENT_WAIT_EXTERNAL)) {
		CU_CHECK(!stream->capture->invalid, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
		CU_TRY(cu_node_new(CU_GRAPH_NODE_TYPE_WAIT_EVENT, stream->context, &node));
		node->params.eventWait.event = event->handle;
		return cu_capture_node(stream, node);
	}
	/*
	 * A capture must not wait for an event from outside. Waiting for an event that was never
	 * recorded does nothing.
	 */
	if (!event->capture && !event->recorded)
		return CUDA_SUCCESS;
	if (!event->capture)
		return cu_capture_refuse(stream, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
	if (event->capture->invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (!stream->capture) {
		if (stream->legacy) {
			event->capture->invalid = true;
			return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
		}
		join_capture(stream, event->capture);
		return set_deps(stream, event->deps, event->n_deps);
	}
	if (stream->capture != event->capture) {
		event->capture->invalid = true;
		return cu_capture_refuse(stream, CUDA_ERROR_STREAM_CAPTURE_MERGE);
	}
	return join_deps(stream, event->deps, event->n_deps);
}

/* Turns the capture's streams and events into ordinary ones, and frees the capture. */
static void capture_finish(struct cu_capture *capture)
{
	for (uint32_t i = 0; i < SIMGPU_MAX_CONTEXTS; i++) {
		if (!cu.contexts[i])
			continue;
		CU_LIST_EACH(struct cu_stream, link, &cu.contexts[i]->streams, stream)
		{
			if (stream->capture != capture)
				continue;
			stream->capture = NULL;
			set_deps(stream, NULL, 0);
			stream->context->captures--;
		}
		CU_LIST_EACH(struct cu_event, link, &cu.contexts[i]->events, event)
		if (event->capture == capture)
			event->capture = NULL;
	}
	if (capture->graph) {
		capture->graph->capture = NULL;
		if (capture->owns_graph)
			cu_graph_free(capture->graph);
	}
	cu_list_remove(&capture->link);
	free(capture);
}

void cu_capture_forget_stream(struct cu_stream *stream)
{
	struct cu_capture *capture = stream->capture;

	if (!capture)
		return;
	stream->capture = NULL;
	stream->context->captures--;
	capture->invalid = true;
	if (capture->origin == stream)
		capture_finish(capture);
}

static CUresult capture_begin(struct cu_stream *stream, CUstreamCaptureMode mode,
	struct cu_graph *graph, struct cu_node **deps, size_t n_deps)
{
	struct cu_capture *capture;

	CU_CHECK((unsigned)mode <= CU_STREAM_CAPTURE_MODE_RELAXED, CUDA_ERROR_INVALID_VALUE);
	CU_CHECK(!stream->legacy, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	CU_CHECK(!stream->capture, CUDA_ERROR_ILLEGAL_STATE);
	capture = calloc(1, sizeof(*capture));
	CU_CHECK(capture, CUDA_ERROR_OUT_OF_MEMORY);
	capture->owns_graph = !graph;
	capture->graph = graph ? graph : cu_graph_new();
	if (!capture->graph) {
		free(capture);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	capture->graph->capture = capture;
	capture->origin = stream;
	capture->mode = mode;
	capture->id = ++cu.next_id;
	capture->thread = this_thread();
	cu_list_add(&cu.captures, &capture->link);
	join_capture(stream, capture);
	return set_deps(stream, deps, n_deps);
}

CUresult simgpu_cuStreamBeginCapture_v2(
	struct cu_context *ctx, struct cu_stream *stream, CUstreamCaptureMode mode)
{
	return capture_begin(stream, mode, NULL, NULL, 0);
}

CU_EXPORT CUresult cuStreamBeginCapture(CUstream hStream)
{
	return cuStreamBeginCapture_v2(hStream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult simgpu_cuStreamBeginCaptureToGraph(struct cu_context *ctx, struct cu_stream *stream,
	struct cu_graph *graph, const CUgraphNode *dependencies,
	const CUgraphEdgeData *dependencyData, size_t numDependencies, CUstreamCaptureMode mode)
{
	_cleanup_free_ struct cu_node **deps = NULL;

	CU_CHECK(!graph->capture, CUDA_ERROR_ILLEGAL_STATE);
	CU_TRY(cu_graph_nodes_from(graph, dependencies, numDependencies, &deps));
	return capture_begin(stream, mode, graph, deps, numDependencies);
}

/* Returns whether the origin's last node depends on every node that another stream has added. */
static bool is_joined(const struct cu_capture *capture)
{
	for (uint32_t i = 0; i < SIMGPU_MAX_CONTEXTS; i++) {
		if (!cu.contexts[i])
			continue;
		CU_LIST_EACH(struct cu_stream, link, &cu.contexts[i]->streams, stream)
		{
			if (stream->capture != capture || stream == capture->origin)
				continue;
			for (size_t j = 0; j < stream->n_deps; j++)
				if (!cu_node_reaches(stream->deps[j], capture->origin->deps,
					    capture->origin->n_deps))
					return false;
		}
	}
	return true;
}

CUresult simgpu_cuStreamEndCapture(struct cu_context *ctx, CUstream hStream, CUgraph *phGraph)
{
	struct cu_capture *capture;
	struct cu_stream *stream;
	CUresult r = CUDA_SUCCESS;

	*phGraph = NULL;
	CU_TRY(cu_stream_get(hStream, ctx, &stream));
	capture = stream->capture;
	CU_CHECK(capture, CUDA_ERROR_ILLEGAL_STATE);
	/* The mode at the beginning decides which threads may end the capture. */
	if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != this_thread())
		return capture_invalidate(capture, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
	if (capture->origin != stream)
		return capture_invalidate(capture, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
	if (capture->invalid)
		r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	else if (!is_joined(capture))
		r = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
	if (r == CUDA_SUCCESS) {
		*phGraph = capture->graph->handle;
		capture->owns_graph = false;
	}
	capture_finish(capture);
	return r;
}

static CUstreamCaptureStatus capture_stream_status(const struct cu_stream *stream)
{
	if (!stream->capture)
		return CU_STREAM_CAPTURE_STATUS_NONE;
	return stream->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
					: CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

CUresult simgpu_cuStreamIsCapturing(
	struct cu_context *ctx, struct cu_stream *stream, CUstreamCaptureStatus *captureStatus)
{
	if (stream->legacy) {
		/*
		 * The query itself counts as implicit use of the legacy stream, but does not
		 * invalidate the capture.
		 */
		CU_LIST_EACH(struct cu_stream, link, &stream->context->streams, other)
		if (other->capture && (other->flags & CU_STREAM_NON_BLOCKING) == 0)
			return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	}
	*captureStatus = capture_stream_status(stream);
	return CUDA_SUCCESS;
}

static CUresult capture_info(struct cu_stream *stream, CUstreamCaptureStatus *status,
	cuuint64_t *id, CUgraph *graph, const CUgraphNode **deps, const CUgraphEdgeData **edges,
	size_t *n)
{
	static _Thread_local CUgraphNode *handles;

	if (stream->legacy)
		CU_LIST_EACH(struct cu_stream, link, &stream->context->streams, other)
	if (other->capture && (other->flags & CU_STREAM_NON_BLOCKING) == 0)
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	*status = capture_stream_status(stream);
	if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
		return CUDA_SUCCESS;
	if (id)
		*id = stream->capture->id;
	if (graph)
		*graph = stream->capture->graph->handle;
	if (edges)
		*edges = NULL;
	if (n)
		*n = stream->n_deps;
	if (deps) {
		/*
		 * This array stays valid until the thread's next call of this function, and
		 * programs rely on that.
		 */
		CUgraphNode *bigger = realloc(handles, (stream->n_deps + 1) * sizeof(*handles));

		CU_CHECK(bigger, CUDA_ERROR_OUT_OF_MEMORY);
		handles = bigger;
		for (size_t i = 0; i < stream->n_deps; i++)
			handles[i] = stream->deps[i]->handle;
		*deps = handles;
	}
	return CUDA_SUCCESS;
}

CUresult simgpu_cuStreamGetCaptureInfo(struct cu_context *ctx, struct cu_stream *stream,
	CUstreamCaptureStatus *captureStatus, cuuint64_t *id)
{
	return capture_info(stream, captureStatus, id, NULL, NULL, NULL, NULL);
}

CUresult simgpu_cuStreamGetCaptureInfo_v2(struct cu_context *ctx, struct cu_stream *stream,
	CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out, CUgraph *graph_out,
	const CUgraphNode **dependencies_out, size_t *numDependencies_out)
{
	return capture_info(stream, captureStatus_out, id_out, graph_out, dependencies_out, NULL,
		numDependencies_out);
}

CUresult simgpu_cuStreamGetCaptureInfo_v3(struct cu_context *ctx, struct cu_stream *stream,
	CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out, CUgraph *graph_out,
	const CUgraphNode **dependencies_out, const CUgraphEdgeData **edgeData_out,
	size_t *numDependencies_out)
{
	return capture_info(stream, captureStatus_out, id_out, graph_out, dependencies_out,
		edgeData_out, numDependencies_out);
}

static CUresult update_deps(
	struct cu_stream *stream, CUgraphNode *dependencies, size_t n, unsigned flags)
{
	_cleanup_free_ struct cu_node **deps = NULL;

	CU_CHECK(stream->capture, CUDA_ERROR_ILLEGAL_STATE);
	CU_CHECK(!stream->capture->invalid, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	CU_TRY(cu_graph_nodes_from(stream->capture->graph, dependencies, n, &deps));
	if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES)
		return set_deps(stream, deps, n);
	return join_deps(stream, deps, n);
}

CUresult simgpu_cuStreamUpdateCaptureDependencies(struct cu_context *ctx, struct cu_stream *stream,
	CUgraphNode *dependencies, size_t numDependencies, unsigned int flags)
{
	return update_deps(stream, dependencies, numDependencies, flags);
}

CUresult simgpu_cuStreamUpdateCaptureDependencies_v2(struct cu_context *ctx,
	struct cu_stream *stream, CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData,
	size_t numDependencies, unsigned int flags)
{
	return update_deps(stream, dependencies, numDependencies, flags);
}

CUresult simgpu_cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	CUstreamCaptureMode before;

	before = cu_thread.capture_mode;
	cu_thread.capture_mode = *mode;
	*mode = before;
	return CUDA_SUCCESS;
}
