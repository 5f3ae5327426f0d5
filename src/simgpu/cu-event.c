/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events. Record numbers belong to the slot and continue when another event takes the slot, so a
 * late completion never matches the new event. If other processes may record an event too, a stream
 * made for that purpose waits for the event on the device.
 */
#include "simgpu/cu.h"

#include <stdlib.h>
#include <string.h>

static uint64_t slot_records[SIMGPU_MAX_EVENTS];
static uint32_t freed[SIMGPU_MAX_EVENTS];
static uint32_t n_freed, n_used;

enum { FLAGS_KNOWN = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS };

static CUresult new_event(struct cu_context *context, unsigned flags, struct cu_event **ret)
{
	struct cu_event *event = calloc(1, sizeof(*event));

	if (!event || (n_freed == 0 && n_used == SIMGPU_MAX_EVENTS)) {
		free(event);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	event->handle = cu_handle_new(CU_KIND_EVENT, event);
	if (!event->handle) {
		free(event);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	event->slot = n_freed != 0 ? freed[--n_freed] : n_used++;
	event->context = context;
	event->flags = flags;
	event->records = slot_records[event->slot];
	cu_list_add(&context->events, &event->link);
	*ret = event;
	return CUDA_SUCCESS;
}

void cu_event_free(struct cu_event *event)
{
	struct simgpu_entry *entry = cu_ring_begin(SIMGPU_OP_EVENT_DESTROY, 0);

	if (entry) {
		entry->stream = 0;
		entry->context = event->context->slot;
		entry->seq = 0;
		entry->event.event = event->slot;
		cu_ring_commit(entry, 0, NULL);
	}
	freed[n_freed++] = event->slot;
	cu_handle_free(event->handle);
	cu_list_remove(&event->link);
	free(event->deps);
	free(event);
}

struct cu_event *cu_event_get(CUevent handle)
{
	return cu_handle_get(handle, CU_KIND_EVENT);
}

CUresult simgpu_cuEventCreate(struct cu_context *ctx, CUevent *phEvent, unsigned int Flags)
{
	struct cu_event *event;

	CU_CHECK((Flags & ~(unsigned)FLAGS_KNOWN) == 0, CUDA_ERROR_INVALID_VALUE);
	CU_CHECK((Flags & CU_EVENT_INTERPROCESS) == 0 || (Flags & CU_EVENT_DISABLE_TIMING) != 0,
		CUDA_ERROR_INVALID_VALUE);
	CU_TRY(new_event(ctx, Flags, &event));
	*phEvent = event->handle;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuEventDestroy_v2(struct cu_event *event)
{
	cu_event_free(event);
	return CUDA_SUCCESS;
}

CUresult cu_event_record_on(struct cu_stream *stream, struct cu_event *event)
{
	struct cu_op op;

	cu_op_init(&op, SIMGPU_OP_EVENT_RECORD, stream->context);
	if ((event->flags & CU_EVENT_DISABLE_TIMING) == 0)
		op.entry.flags = SIMGPU_ENTRY_TIMING;
	op.entry.event.event = event->slot;
	op.entry.event.record = slot_records[event->slot] + 1;
	CU_TRY(cu_submit(stream, &op));
	event->records = ++slot_records[event->slot];
	event->recorded = true;
	event->by_graph = false;
	event->stream = stream;
	event->seq = stream->seq;
	event->capture = NULL;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuEventRecordWithFlags(struct cu_context *ctx, struct cu_event *event,
	struct cu_stream *stream, unsigned int flags)
{
	CU_CHECK(event->context == stream->context, CUDA_ERROR_INVALID_HANDLE);
	if (stream->capture)
		return cu_capture_event_record(stream, event, flags);
	if (stream->legacy)
		CU_TRY(cu_capture_check_legacy(stream->context));
	return cu_event_record_on(stream, event);
}

CU_EXPORT CUresult cuEventRecord(CUevent hEvent, CUstream hStream)
{
	return cuEventRecordWithFlags(hEvent, hStream, CU_EVENT_RECORD_DEFAULT);
}

CUresult cu_event_wait_on(struct cu_stream *stream, struct cu_event *event)
{
	struct cu_op op;

	if (!event->recorded)
		return CUDA_SUCCESS;
	cu_op_init(&op, SIMGPU_OP_EVENT_WAIT, stream->context);
	op.entry.event.event = event->slot;
	return cu_submit(stream, &op);
}

CUresult simgpu_cuStreamWaitEvent(struct cu_context *ctx, struct cu_stream *stream,
	struct cu_event *event, unsigned int Flags)
{
	if (stream->capture || event->capture)
		return cu_capture_event_wait(stream, event, Flags);
	if (stream->legacy)
		CU_TRY(cu_capture_check_legacy(stream->context));
	return cu_event_wait_on(stream, event);
}

CUresult simgpu_cuCtxRecordEvent(struct cu_context *context, struct cu_event *event)
{
	struct cu_stream *stream;

	CU_CHECK(event->context == context, CUDA_ERROR_INVALID_HANDLE);
	if (context->captures != 0)
		return cu_capture_refuse(NULL, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	/*
	 * The event must cover all work of the context. So the legacy stream first waits for the
	 * non-blocking streams (it waits for blocking streams anyway), and then records the event.
	 */
	CU_TRY(cu_stream_get(CU_STREAM_LEGACY, context, &stream));
	CU_LIST_EACH(struct cu_stream, link, &context->streams, other)
	{
		struct cu_event *mark;

		if ((other->flags & CU_STREAM_NON_BLOCKING) == 0 || other == stream)
			continue;
		CU_TRY(new_event(context, CU_EVENT_DISABLE_TIMING, &mark));
		cu_event_record_on(other, mark);
		cu_event_wait_on(stream, mark);
		cu_event_free(mark);
	}
	return cu_event_record_on(stream, event);
}

CUresult simgpu_cuCtxWaitEvent(struct cu_context *context, struct cu_event *event)
{
	if (context->captures != 0)
		return cu_capture_refuse(NULL, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	CU_LIST_EACH(struct cu_stream, link, &context->streams, stream)
	CU_TRY(cu_event_wait_on(stream, event));
	return CUDA_SUCCESS;
}

/* Waits on the device for an event that other processes share. */
static CUresult shared_event(struct cu_event *event, bool wait)
{
	struct cu_context *context = event->context;
	struct cu_stream *stream;
	CUstream handle;
	CUresult r;

	CU_TRY(cu_stream_new(context, CU_STREAM_NON_BLOCKING, 0, false, &stream));
	handle = stream->handle;
	r = cu_event_wait_on(stream, event);
	if (r == CUDA_SUCCESS && wait) {
		r = cu_wait_stream(stream, stream->seq);
	} else if (r == CUDA_SUCCESS) {
		cu_sync_engine();
		if (!cu_stream_done(stream, stream->seq))
			r = CUDA_ERROR_NOT_READY;
	}
	if (cu_handle_get(handle, CU_KIND_STREAM) == stream)
		cu_stream_free(stream);
	return r;
}

static CUresult event_for_host(CUevent handle, struct cu_event **ret)
{
	*ret = cu_event_get(handle);
	CU_CHECK(*ret, CUDA_ERROR_INVALID_HANDLE);
	if ((*ret)->capture)
		return cu_capture_refuse(NULL, CUDA_ERROR_CAPTURED_EVENT);
	CU_TRY(cu_capture_check_unsafe());
	return cu_context_error((*ret)->context);
}

CUresult simgpu_cuEventQuery(CUevent hEvent)
{
	struct cu_event *event;

	CU_TRY(event_for_host(hEvent, &event));
	if (event->imported || event->exported)
		return shared_event(event, false);
	CU_TRY(cu_event_query(event));
	return cu_context_error(event->context);
}

CUresult simgpu_cuEventSynchronize(CUevent hEvent)
{
	struct cu_event *event;

	CU_TRY(event_for_host(hEvent, &event));
	if (event->imported || event->exported)
		return shared_event(event, true);
	CU_TRY(cu_wait_event(event));
	cu_pools_trim(false);
	return CUDA_SUCCESS;
}

CUresult simgpu_cuEventElapsedTime(
	float *pMilliseconds, struct cu_event *start, struct cu_event *end)
{
	uint64_t from, to;

	CU_CHECK(start->recorded && end->recorded, CUDA_ERROR_INVALID_HANDLE);
	CU_CHECK(((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING) == 0,
		CUDA_ERROR_INVALID_HANDLE);
	CU_CHECK(start->context == end->context, CUDA_ERROR_INVALID_HANDLE);
	CU_CHECK(!start->capture && !end->capture, CUDA_ERROR_CAPTURED_EVENT);
	CU_TRY(cu_event_query(start));
	CU_TRY(cu_event_query(end));
	from = atomic_load(&cu.link.shm->events[start->slot].time_ns);
	to = atomic_load(&cu.link.shm->events[end->slot].time_ns);
	*pMilliseconds = (float)((double)(int64_t)(to - from) / 1e6);
	return CUDA_SUCCESS;
}

/* ---- between processes ---- */

CUresult simgpu_cuIpcGetEventHandle(CUipcEventHandle *pHandle, struct cu_event *e)
{
	struct simgpu_request request = {.type = SIMGPU_MSG_IPC_GET_EVENT};
	struct simgpu_reply reply;

	CU_CHECK((e->flags & CU_EVENT_INTERPROCESS) != 0, CUDA_ERROR_INVALID_HANDLE);
	request.context = e->context->slot;
	request.arg[0] = e->slot;
	CU_TRY(cu_call(&request, &reply));
	e->exported = true;
	memset(pHandle, 0, sizeof(*pHandle));
	memcpy(pHandle, &reply.arg[0], sizeof(reply.arg[0]));
	return CUDA_SUCCESS;
}

CUresult simgpu_cuIpcOpenEventHandle(
	struct cu_context *ctx, CUevent *phEvent, CUipcEventHandle handle)
{
	struct simgpu_request request = {.type = SIMGPU_MSG_IPC_OPEN_EVENT};
	struct simgpu_reply reply;
	struct cu_event *event;
	CUresult r;

	CU_TRY(new_event(ctx, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS, &event));
	memcpy(&request.arg[0], &handle, sizeof(request.arg[0]));
	request.context = ctx->slot;
	request.arg[1] = event->slot;
	r = cu_call(&request, &reply);
	if (r != CUDA_SUCCESS) {
		cu_event_free(event);
		return r;
	}
	event->imported = true;
	event->recorded = true;
	*phEvent = event->handle;
	return CUDA_SUCCESS;
}
