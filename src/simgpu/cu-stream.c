/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams and events as programs see them. The first use of a default stream creates it: the legacy
 * stream once for each context, the per-thread stream once for each context and thread.
 */
#include "simgpu/cu.h"

#include <stdlib.h>
#include <string.h>

static pthread_key_t thread_key;
static pthread_once_t thread_once = PTHREAD_ONCE_INIT;
static uint64_t thread_serials;

/* Frees a thread's per-thread streams when the thread ends. */
static void thread_ends(void *serial)
{
	pthread_mutex_lock(&cu.lock);
	for (uint32_t i = 0; cu.initialised && i < SIMGPU_MAX_CONTEXTS; i++) {
		if (!cu.contexts[i])
			continue;
		CU_LIST_EACH(struct cu_stream, link, &cu.contexts[i]->streams, stream)
		if (stream->per_thread && stream->id == (uint64_t)(uintptr_t)serial)
			cu_stream_free(stream);
	}
	pthread_mutex_unlock(&cu.lock);
}

static void make_thread_key(void)
{
	pthread_key_create(&thread_key, thread_ends);
}

static CUresult per_thread_stream(struct cu_context *context, struct cu_stream **ret)
{
	struct cu_stream *stream;

	if (cu_thread.serial == 0) {
		/* Serials of threads start at 2^62, above the ids of all other streams. */
		cu_thread.serial = ++thread_serials + (1ull << 62);
		pthread_once(&thread_once, make_thread_key);
		pthread_setspecific(thread_key, (void *)(uintptr_t)cu_thread.serial);
	}
	CU_LIST_EACH(struct cu_stream, link, &context->streams, other)
	{
		if (other->per_thread && other->id == cu_thread.serial) {
			*ret = other;
			return CUDA_SUCCESS;
		}
	}
	CU_TRY(cu_stream_new(context, CU_STREAM_DEFAULT, 0, false, &stream));
	cu_handle_free(stream->handle);
	stream->handle = NULL;
	stream->per_thread = true;
	stream->id = cu_thread.serial;
	*ret = stream;
	return CUDA_SUCCESS;
}

CUresult cu_stream_get(CUstream handle, struct cu_context *context, struct cu_stream **ret)
{
	if (__builtin_expect((uintptr_t)handle > 2, 1)) {
		*ret = cu_handle_get(handle, CU_KIND_STREAM);
		return *ret ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
	}
	if (handle == CU_STREAM_PER_THREAD || (!handle && cu_thread.per_thread != 0))
		return per_thread_stream(context, ret);
	if (!context->legacy)
		CU_TRY(cu_stream_new(context, CU_STREAM_DEFAULT, 0, true, &context->legacy));
	*ret = context->legacy;
	return CUDA_SUCCESS;
}

CUresult cu_stream_get_own(CUstream handle, struct cu_context *context, struct cu_stream **ret)
{
	CU_TRY(cu_stream_get(handle, context, ret));
	return (*ret)->context == context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult cu_stream_create(
	struct cu_context *ctx, CUstream *phStream, unsigned flags, int priority)
{
	struct cu_stream *stream;

	/* As documented, a priority outside the range is clamped. */
	priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
	CU_TRY(cu_stream_new(ctx, flags, priority, false, &stream));
	*phStream = stream->handle;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuStreamCreate(struct cu_context *ctx, CUstream *phStream, unsigned int Flags)
{
	return cu_stream_create(ctx, phStream, Flags, 0);
}

CUresult simgpu_cuStreamCreateWithPriority(
	struct cu_context *ctx, CUstream *phStream, unsigned int flags, int priority)
{
	return cu_stream_create(ctx, phStream, flags, priority);
}

CUresult simgpu_cuStreamDestroy_v2(CUstream hStream)
{
	struct cu_stream *stream;

	CU_CHECK((uintptr_t)hStream > 2, CUDA_ERROR_INVALID_HANDLE);
	stream = cu_handle_get(hStream, CU_KIND_STREAM);
	CU_CHECK(stream, CUDA_ERROR_INVALID_HANDLE);
	cu_stream_free(stream);
	return CUDA_SUCCESS;
}

CUresult simgpu_cuStreamGetPriority(struct cu_context *ctx, struct cu_stream *stream, int *priority)
{
	*priority = stream->priority;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuStreamGetFlags(
	struct cu_context *ctx, struct cu_stream *stream, unsigned int *flags)
{
	*flags = stream->flags;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuStreamGetId(
	struct cu_context *ctx, struct cu_stream *stream, unsigned long long *streamId)
{
	*streamId = stream->id;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuStreamGetCtx(struct cu_context *ctx, struct cu_stream *stream, CUcontext *pctx)
{
	*pctx = stream->context->handle;
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuStreamGetCtx_v2(CUstream hStream, CUcontext *pCtx, CUgreenCtx *pGreenCtx)
{
	CU_TRY(cuStreamGetCtx(hStream, pCtx));
	if (pGreenCtx)
		*pGreenCtx = NULL;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuStreamGetDevice(
	struct cu_context *ctx, struct cu_stream *stream, CUdevice *device)
{
	*device = cu_device_number(stream->context->device);
	return CUDA_SUCCESS;
}

CUresult simgpu_cuStreamCopyAttributes(
	struct cu_context *ctx, struct cu_stream *to, struct cu_stream *from)
{
	CU_CHECK(to->context == from->context, CUDA_ERROR_INVALID_VALUE);
	to->sync_policy = from->sync_policy;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuStreamGetAttribute(struct cu_context *ctx, struct cu_stream *stream,
	CUstreamAttrID attr, CUstreamAttrValue *value_out)
{
	memset(value_out, 0, sizeof(*value_out));
	switch ((int)attr) {
	case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
		value_out->syncPolicy = stream->sync_policy ? stream->sync_policy
							    : CU_SYNC_POLICY_AUTO;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_PRIORITY:
		value_out->priority = stream->priority;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN: return CUDA_SUCCESS;
	default: return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult simgpu_cuStreamSetAttribute(struct cu_context *ctx, struct cu_stream *stream,
	CUstreamAttrID attr, const CUstreamAttrValue *value)
{
	switch ((int)attr) {
	case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
		CU_CHECK((unsigned)value->syncPolicy >= CU_SYNC_POLICY_AUTO &&
				(unsigned)value->syncPolicy <= CU_SYNC_POLICY_BLOCKING_SYNC,
			CUDA_ERROR_INVALID_VALUE);
		stream->sync_policy = value->syncPolicy;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_PRIORITY:
		stream->priority = value->priority > 0 ? 0
			: value->priority < -5         ? -5
						       : value->priority;
		return CUDA_SUCCESS;
	case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN: return CUDA_SUCCESS;
	default: return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult simgpu_cuStreamAttachMemAsync(struct cu_context *ctx, struct cu_stream *stream,
	CUdeviceptr dptr, size_t length, unsigned int flags)
{
	struct cu_range *range;
	struct cu_op op;

	CU_CHECK(flags != CU_MEM_ATTACH_SINGLE || !stream->legacy, CUDA_ERROR_INVALID_VALUE);
	range = cu_range_find(&cu.device_memory, dptr);
	CU_CHECK(range && range->kind == CU_MEM_MANAGED && range->base == dptr &&
			(length == 0 || length == range->size),
		CUDA_ERROR_INVALID_VALUE);
	cu_op_init(&op, SIMGPU_OP_EMPTY, stream->context);
	return cu_stream_do(stream, &op);
}

/* ---- host functions ---- */

static CUresult submit_host(struct cu_stream *stream, struct cu_host *host)
{
	bool captured = stream->capture != NULL;
	struct cu_op op;
	CUresult r;

	host->running = 1;
	r = cu_build_host(stream->context, host, &op);
	if (r == CUDA_SUCCESS)
		r = cu_stream_do(stream, &op);
	/*
	 * A graph's node has copied `host`. Without a graph, the callback thread frees `host` after
	 * the call.
	 */
	if (r != CUDA_SUCCESS || captured)
		free(host);
	return r;
}

CUresult simgpu_cuLaunchHostFunc(
	struct cu_context *ctx, struct cu_stream *stream, CUhostFn fn, void *userData)
{
	struct cu_host *host;

	host = calloc(1, sizeof(*host));
	CU_CHECK(host, CUDA_ERROR_OUT_OF_MEMORY);
	host->fn = fn;
	host->user_data = userData;
	return submit_host(stream, host);
}

CU_EXPORT CUresult cuLaunchHostFunc_v2(
	CUstream hStream, CUhostFn fn, void *userData, unsigned int syncMode)
{
	/*
	 * syncMode selects how the device waits for the host; the simulated device has only one way
	 * to wait.
	 */
	CU_CHECK(syncMode <= 1, CUDA_ERROR_INVALID_VALUE);
	return cuLaunchHostFunc(hStream, fn, userData);
}

CUresult simgpu_cuStreamAddCallback(struct cu_context *ctx, CUstream hStream,
	CUstreamCallback callback, void *userData, unsigned int flags)
{
	struct cu_stream *stream;
	struct cu_host *host;

	CU_TRY(cu_stream_get(hStream, ctx, &stream));
	if (stream->capture)
		return cu_capture_refuse(stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	host = calloc(1, sizeof(*host));
	CU_CHECK(host, CUDA_ERROR_OUT_OF_MEMORY);
	host->callback = callback;
	host->stream = hStream;
	host->user_data = userData;
	return submit_host(stream, host);
}

/* ---- value operations ---- */

static CUresult do_value(struct cu_stream *stream, const CUstreamBatchMemOpParams *params)
{
	struct cu_op op;

	CU_TRY(cu_build_value(stream->context, params, &op));
	return cu_stream_do(stream, &op);
}

static CUresult single_value(struct cu_stream *stream, CUstreamBatchMemOpType type,
	CUdeviceptr addr, uint64_t value, unsigned flags)
{
	CUstreamBatchMemOpParams params = {.operation = type};

	/* All members of the union begin with operation, address, value and flags. */
	params.writeValue.operation = type;
	params.writeValue.address = addr;
	params.writeValue.value64 = value;
	params.writeValue.flags = flags;
	return do_value(stream, &params);
}

CUresult simgpu_cuStreamWriteValue32_v2(struct cu_context *ctx, struct cu_stream *stream,
	CUdeviceptr addr, cuuint32_t value, unsigned int flags)
{
	return single_value(stream, CU_STREAM_MEM_OP_WRITE_VALUE_32, addr, value, flags);
}

CUresult simgpu_cuStreamWriteValue64_v2(struct cu_context *ctx, struct cu_stream *stream,
	CUdeviceptr addr, cuuint64_t value, unsigned int flags)
{
	return single_value(stream, CU_STREAM_MEM_OP_WRITE_VALUE_64, addr, value, flags);
}

CUresult simgpu_cuStreamWaitValue32_v2(struct cu_context *ctx, struct cu_stream *stream,
	CUdeviceptr addr, cuuint32_t value, unsigned int flags)
{
	return single_value(stream, CU_STREAM_MEM_OP_WAIT_VALUE_32, addr, value, flags);
}

CUresult simgpu_cuStreamWaitValue64_v2(struct cu_context *ctx, struct cu_stream *stream,
	CUdeviceptr addr, cuuint64_t value, unsigned int flags)
{
	return single_value(stream, CU_STREAM_MEM_OP_WAIT_VALUE_64, addr, value, flags);
}

CUresult simgpu_cuStreamBatchMemOp_v2(struct cu_context *ctx, CUstream hStream, unsigned int count,
	CUstreamBatchMemOpParams *paramArray, unsigned int flags)
{
	struct cu_stream *stream;
	struct cu_op op;

	CU_CHECK(count != 0 && count <= 256 && flags == 0, CUDA_ERROR_INVALID_VALUE);
	CU_TRY(cu_stream_get(hStream, ctx, &stream));
	for (unsigned i = 0; i < count; i++)
		CU_TRY(cu_build_value(stream->context, &paramArray[i], &op));
	for (unsigned i = 0; i < count; i++)
		CU_TRY(do_value(stream, &paramArray[i]));
	return CUDA_SUCCESS;
}

CUresult cu_build_value(
	struct cu_context *context, const CUstreamBatchMemOpParams *params, struct cu_op *op)
{
	bool is_wait = params->operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 ||
		params->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
	uint32_t bytes = params->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 ||
			params->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64
		? 8
		: 4;
	uint64_t address = params->writeValue.address;
	unsigned flags = params->writeValue.flags;

	if (params->operation == CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (params->operation == CU_STREAM_MEM_OP_BARRIER) {
		cu_op_init(op, SIMGPU_OP_EMPTY, context);
		return CUDA_SUCCESS;
	}
	CU_CHECK(is_wait || params->operation == CU_STREAM_MEM_OP_WRITE_VALUE_32 ||
			params->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64,
		CUDA_ERROR_INVALID_VALUE);
	CU_CHECK(address != 0 && address % bytes == 0, CUDA_ERROR_INVALID_VALUE);
	if (is_wait)
		CU_CHECK((flags & ~3u) == 0,
			(flags & ~3u) == CU_STREAM_WAIT_VALUE_FLUSH ? CUDA_ERROR_NOT_SUPPORTED
								    : CUDA_ERROR_INVALID_VALUE);
	else
		CU_CHECK((flags & ~1u) == 0, CUDA_ERROR_INVALID_VALUE);
	if (!cu_is_device_address(address))
		CU_CHECK(cu_range_find(&cu.host_memory, address), CUDA_ERROR_INVALID_VALUE);
	else
		CU_TRY(cu_check_device_range(address, bytes));
	cu_op_init(op, is_wait ? SIMGPU_OP_WAIT_VALUE : SIMGPU_OP_WRITE_VALUE, context);
	op->entry.value.ptr = address;
	op->entry.value.value = bytes == 8 ? params->writeValue.value64 : params->writeValue.value;
	op->entry.value.bytes = bytes;
	op->entry.value.cmp = is_wait ? flags & 3u : 0;
	if (!is_wait && !cu_is_device_address(address))
		op->entry.flags = SIMGPU_ENTRY_VISIBLE;
	return CUDA_SUCCESS;
}
