/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts: creation and destruction, primary contexts with their reference counts, the stack of
 * each thread, limits and settings.
 */
#include "simgpu/cu.h"

#include <stdlib.h>

#include "base/clock.h"

/*
 * Initial and greatest values of a context's limits. The memory that the engine charges for a
 * context covers the initial values.
 */
static const struct {
	uint64_t initial;
	uint64_t greatest;
} limits[] = {
	[CU_LIMIT_STACK_SIZE] = {1024, 512 * 1024},
	[CU_LIMIT_PRINTF_FIFO_SIZE] = {7 << 20, 1ull << 40},
	[CU_LIMIT_MALLOC_HEAP_SIZE] = {8 << 20, 1ull << 42},
	[CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = {2, 24},
	[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = {2048, 1u << 24},
	[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = {64, 128},
	[CU_LIMIT_PERSISTING_L2_CACHE_SIZE] = {0, 1u << 30},
};

enum {
	FLAGS_KNOWN = CU_CTX_SCHED_MASK | CU_CTX_MAP_HOST | CU_CTX_LMEM_RESIZE_TO_MAX |
		CU_CTX_COREDUMP_ENABLE | CU_CTX_USER_COREDUMP_ENABLE | CU_CTX_SYNC_MEMOPS
};

static bool flags_are_valid(unsigned flags)
{
	unsigned sched = flags & CU_CTX_SCHED_MASK;

	return (flags & ~(unsigned)FLAGS_KNOWN) == 0 && (sched & (sched - 1)) == 0;
}

/* Sleeps, without the lock, for the time that creating a context takes on hardware. */
static void cu_context_spend_time(uint64_t ns)
{
	uint64_t until = clock_now_ns() + ns;

	if (ns == 0)
		return;
	pthread_mutex_unlock(&cu.lock);
	clock_sleep_until_ns(until);
	pthread_mutex_lock(&cu.lock);
}

CUresult cu_context_create(
	int engine, unsigned flags, bool primary, struct cu_context **ret_context)
{
	struct simgpu_request request = {.type = SIMGPU_MSG_CTX_CREATE, .device = engine};
	struct cu_context *context;
	struct simgpu_reply reply;
	uint32_t slot = 0;
	CUresult r;

	while (slot < SIMGPU_MAX_CONTEXTS && cu.contexts[slot])
		slot++;
	CU_CHECK(slot < SIMGPU_MAX_CONTEXTS, CUDA_ERROR_OUT_OF_MEMORY);
	context = calloc(1, sizeof(*context));
	CU_CHECK(context, CUDA_ERROR_OUT_OF_MEMORY);
	context->handle = cu_handle_new(CU_KIND_CONTEXT, context);
	request.context = slot;
	request.arg[0] = flags;
	r = context->handle ? cu_call(&request, &reply) : CUDA_ERROR_OUT_OF_MEMORY;
	if (r != CUDA_SUCCESS) {
		cu_handle_free(context->handle);
		free(context);
		return r;
	}
	context->id = ++cu.next_id;
	context->device = engine;
	context->slot = slot;
	context->primary = primary;
	context->flags = flags;
	context->api_version = 3020;
	context->cache_config = CU_FUNC_CACHE_PREFER_NONE;
	cu_list_init(&context->streams);
	cu_list_init(&context->events);
	cu_list_init(&context->modules);
	cu_list_init(&context->arrays);
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
		context->limits[i] = limits[i].initial;
	cu.contexts[slot] = context;
	cu_context_spend_time(cu.state->context_create_ns);
	*ret_context = context;
	return CUDA_SUCCESS;
}

CUresult cu_context_destroy(struct cu_context *context)
{
	struct simgpu_request request = {.type = SIMGPU_MSG_CTX_DESTROY, .context = context->slot};
	CUcontext handle = context->handle;
	struct simgpu_reply reply;

	if (cu_context_error(context) == CUDA_SUCCESS)
		cu_wait_context(context);
	/* Another thread may have destroyed the context during the wait. */
	CU_CHECK(cu_context_get(handle) == context, CUDA_ERROR_CONTEXT_IS_DESTROYED);
	CU_LIST_EACH(struct cu_stream, link, &context->streams, stream)
	cu_stream_free(stream);
	CU_LIST_EACH(struct cu_event, link, &context->events, event)
	cu_event_free(event);
	CU_LIST_EACH(struct cu_module, link, &context->modules, module)
	cu_module_free(module);
	CU_LIST_EACH(struct cu_array, link, &context->arrays, array)
	cu_array_free(array);
	cu_memory_forget_context(context);
	cu_call(&request, &reply);
	cu_handle_free(handle);
	cu.contexts[context->slot] = NULL;
	free(context);
	return CUDA_SUCCESS;
}

static CUresult cu_context_push(CUcontext handle)
{
	CU_CHECK(cu_thread.depth < CU_MAX_DEPTH, CUDA_ERROR_OUT_OF_MEMORY);
	cu_thread.stack[cu_thread.depth++] = handle;
	return CUDA_SUCCESS;
}

static CUresult cu_context_create_handle(CUcontext *pctx, unsigned flags, CUdevice dev)
{
	struct cu_context *context;
	struct cu_device *device;

	CU_ENTER();
	CU_CHECK(pctx && flags_are_valid(flags), CUDA_ERROR_INVALID_VALUE);
	CU_TRY(cu_device_get(dev, &device));
	CU_TRY(cu_capture_check_unsafe());
	CU_CHECK(cu_thread.depth < CU_MAX_DEPTH, CUDA_ERROR_OUT_OF_MEMORY);
	CU_TRY(cu_context_create(device->engine, flags, false, &context));
	*pctx = context->handle;
	return cu_context_push(context->handle);
}

CU_EXPORT CUresult cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
	return cu_context_create_handle(pctx, flags, dev);
}

CU_EXPORT CUresult cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *paramsArray, int numParams,
	unsigned int flags, CUdevice dev)
{
	/* Only MPS offers execution affinity. */
	if (numParams != 0 || paramsArray)
		return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
	return cu_context_create_handle(pctx, flags, dev);
}

CU_EXPORT CUresult cuCtxCreate_v4(
	CUcontext *pctx, CUctxCreateParams *ctxCreateParams, unsigned int flags, CUdevice dev)
{
	if (ctxCreateParams &&
		(ctxCreateParams->numExecAffinityParams != 0 ||
			ctxCreateParams->execAffinityParams))
		return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
	return cu_context_create_handle(pctx, flags, dev);
}

CUresult simgpu_cuCtxDestroy_v2(CUcontext ctx)
{
	struct cu_context *context;

	CU_CHECK(ctx, CUDA_ERROR_INVALID_VALUE);
	context = cu_context_get(ctx);
	CU_CHECK(context && !context->primary, CUDA_ERROR_INVALID_CONTEXT);
	CU_TRY(cu_capture_check_unsafe());
	CU_TRY(cu_context_destroy(context));
	if (cu_thread.depth != 0 && cu_thread.stack[cu_thread.depth - 1] == ctx)
		cu_thread.depth--;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuCtxAttach(struct cu_context *ctx, CUcontext *pctx, unsigned int flags)
{
	*pctx = ctx->handle;
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuCtxDetach(CUcontext ctx)
{
	return cuCtxDestroy_v2(ctx);
}

CUresult simgpu_cuCtxPushCurrent_v2(CUcontext ctx)
{
	CU_CHECK(ctx, CUDA_ERROR_INVALID_CONTEXT);
	CU_CHECK(cu_context_get(ctx), CUDA_ERROR_INVALID_CONTEXT);
	return cu_context_push(ctx);
}

CUresult simgpu_cuCtxPopCurrent_v2(CUcontext *pctx)
{
	CU_CHECK(cu_thread.depth != 0, CUDA_ERROR_INVALID_CONTEXT);
	cu_thread.depth--;
	if (pctx)
		*pctx = cu_thread.stack[cu_thread.depth];
	return CUDA_SUCCESS;
}

CUresult simgpu_cuCtxSetCurrent(CUcontext ctx)
{
	if (!ctx) {
		if (cu_thread.depth != 0)
			cu_thread.depth--;
		return CUDA_SUCCESS;
	}
	CU_CHECK(cu_context_get(ctx), CUDA_ERROR_INVALID_CONTEXT);
	if (cu_thread.depth == 0)
		return cu_context_push(ctx);
	cu_thread.stack[cu_thread.depth - 1] = ctx;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuCtxGetCurrent(CUcontext *pctx)
{
	*pctx = cu_thread.depth == 0 ? NULL : cu_thread.stack[cu_thread.depth - 1];
	return CUDA_SUCCESS;
}

CUresult simgpu_cuCtxGetDevice(struct cu_context *ctx, CUdevice *device)
{
	*device = cu_device_number(ctx->device);
	return CUDA_SUCCESS;
}

/* Returns the context of the handle, or the current context for NULL. */
static CUresult given_or_current(CUcontext handle, struct cu_context **ret)
{
	if (!handle)
		return cu_current_any(ret);
	*ret = cu_context_get(handle);
	return *ret ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult simgpu_cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx)
{
	struct cu_context *context;

	CU_TRY(given_or_current(ctx, &context));
	*device = cu_device_number(context->device);
	return CUDA_SUCCESS;
}

CUresult simgpu_cuCtxGetFlags(struct cu_context *ctx, unsigned int *flags)
{
	*flags = ctx->flags;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuCtxSetFlags(struct cu_context *ctx, unsigned int flags)
{
	CU_CHECK(flags_are_valid(flags), CUDA_ERROR_INVALID_VALUE);
	ctx->flags = flags;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuCtxGetId(CUcontext ctx, unsigned long long *ctxId)
{
	struct cu_context *context;

	CU_TRY(given_or_current(ctx, &context));
	*ctxId = context->id;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuCtxGetApiVersion(CUcontext ctx, unsigned int *version)
{
	struct cu_context *context;

	CU_TRY(given_or_current(ctx, &context));
	*version = context->api_version;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuCtxSynchronize(struct cu_context *ctx)
{
	if (ctx->captures != 0)
		return cu_capture_refuse(NULL, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	CU_TRY(cu_capture_check_unsafe());
	CU_TRY(cu_wait_context(ctx));
	cu_pools_trim(false);
	return CUDA_SUCCESS;
}

CUresult simgpu_cuCtxSynchronize_v2(CUcontext ctx)
{
	struct cu_context *context;

	CU_TRY(given_or_current(ctx, &context));
	CU_TRY(cu_context_error(context));
	if (context->captures != 0)
		return cu_capture_refuse(NULL, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	CU_TRY(cu_capture_check_unsafe());
	CU_TRY(cu_wait_context(context));
	cu_pools_trim(false);
	return CUDA_SUCCESS;
}

/* Returns the bytes of device memory that limits above their initial values need. */
static uint64_t cu_context_limit_bytes(const struct cu_context *context)
{
	const struct simgpu_state_device *d = cu_device_state(context->device);
	uint64_t threads = (uint64_t)d->sm_count * cu_arch_of(d)->threads;
	uint64_t stack = context->limits[CU_LIMIT_STACK_SIZE];
	uint64_t heap = context->limits[CU_LIMIT_MALLOC_HEAP_SIZE];
	uint64_t fifo = context->limits[CU_LIMIT_PRINTF_FIFO_SIZE];
	uint64_t bytes = 0;

	if (stack > limits[CU_LIMIT_STACK_SIZE].initial)
		bytes += (stack - limits[CU_LIMIT_STACK_SIZE].initial) * threads;
	if (heap > limits[CU_LIMIT_MALLOC_HEAP_SIZE].initial)
		bytes += heap - limits[CU_LIMIT_MALLOC_HEAP_SIZE].initial;
	if (fifo > limits[CU_LIMIT_PRINTF_FIFO_SIZE].initial)
		bytes += fifo - limits[CU_LIMIT_PRINTF_FIFO_SIZE].initial;
	return bytes;
}

CUresult simgpu_cuCtxSetLimit(struct cu_context *ctx, CUlimit limit, size_t value)
{
	struct simgpu_request request = {.type = SIMGPU_MSG_CTX_RESERVE};
	struct simgpu_reply reply;
	uint64_t before;
	CUresult r;

	CU_CHECK((size_t)limit < ARRAY_SIZE(limits), CUDA_ERROR_UNSUPPORTED_LIMIT);
	/* Compute capability 9.0 removed this limit. */
	CU_CHECK(limit != CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH ||
			cu_device_state(ctx->device)->cc_major < 9,
		CUDA_ERROR_UNSUPPORTED_LIMIT);
	CU_CHECK(value <= limits[limit].greatest, CUDA_ERROR_INVALID_VALUE);
	before = ctx->limits[limit];
	ctx->limits[limit] = value;
	if (limit == CU_LIMIT_STACK_SIZE)
		ctx->limits[limit] = (value + 15) & ~(size_t)15;
	request.context = ctx->slot;
	request.arg[0] = cu_context_limit_bytes(ctx);
	r = cu_call(&request, &reply);
	if (r != CUDA_SUCCESS)
		ctx->limits[limit] = before;
	return r;
}

CUresult simgpu_cuCtxGetLimit(struct cu_context *ctx, size_t *pvalue, CUlimit limit)
{
	CU_CHECK((size_t)limit < ARRAY_SIZE(limits), CUDA_ERROR_UNSUPPORTED_LIMIT);
	CU_CHECK(limit != CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH ||
			cu_device_state(ctx->device)->cc_major < 9,
		CUDA_ERROR_UNSUPPORTED_LIMIT);
	*pvalue = ctx->limits[limit];
	return CUDA_SUCCESS;
}

CUresult simgpu_cuCtxGetCacheConfig(struct cu_context *ctx, CUfunc_cache *pconfig)
{
	*pconfig = ctx->cache_config;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuCtxSetCacheConfig(struct cu_context *ctx, CUfunc_cache config)
{
	ctx->cache_config = config;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuCtxGetSharedMemConfig(struct cu_context *ctx, CUsharedconfig *pConfig)
{
	*pConfig = ctx->shared_config;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuCtxSetSharedMemConfig(struct cu_context *ctx, CUsharedconfig config)
{
	ctx->shared_config = config;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuCtxGetStreamPriorityRange(
	struct cu_context *ctx, int *leastPriority, int *greatestPriority)
{
	if (leastPriority)
		*leastPriority = 0;
	if (greatestPriority)
		*greatestPriority = -5;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuCtxResetPersistingL2Cache(struct cu_context *ctx)
{
	return CUDA_SUCCESS;
}

CUresult simgpu_cuCtxGetExecAffinity(
	struct cu_context *ctx, CUexecAffinityParam *pExecAffinity, CUexecAffinityType type)
{
	pExecAffinity->type = type;
	pExecAffinity->param.smCount.val = cu_device_state(ctx->device)->sm_count;
	return CUDA_SUCCESS;
}

/* ---- primary contexts ---- */

CUresult cu_device_primary(struct cu_device *device, struct cu_context **ret_context)
{
	if (!device->primary)
		CU_TRY(cu_context_create(
			device->engine, device->primary_flags, true, &device->primary));
	*ret_context = device->primary;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuDevicePrimaryCtxRetain(CUcontext *pctx, struct cu_device *device)
{
	struct cu_context *context;

	CU_TRY(cu_device_primary(device, &context));
	device->retained++;
	*pctx = context->handle;
	return CUDA_SUCCESS;
}

static CUresult drop_primary(struct cu_device *device)
{
	struct cu_context *context = TAKE_PTR(device->primary);

	device->retained = 0;
	return context ? cu_context_destroy(context) : CUDA_SUCCESS;
}

CUresult simgpu_cuDevicePrimaryCtxRelease_v2(struct cu_device *device)
{
	CU_CHECK(device->retained != 0, CUDA_ERROR_INVALID_CONTEXT);
	CU_TRY(cu_capture_check_unsafe());
	if (--device->retained != 0)
		return CUDA_SUCCESS;
	return drop_primary(device);
}

CUresult simgpu_cuDevicePrimaryCtxReset_v2(struct cu_device *device)
{
	return drop_primary(device);
}

CUresult simgpu_cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags)
{
	struct cu_device *device;

	CU_CHECK(flags_are_valid(flags), CUDA_ERROR_INVALID_VALUE);
	CU_TRY(cu_device_get(dev, &device));
	device->primary_flags = flags;
	if (device->primary)
		device->primary->flags = flags;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuDevicePrimaryCtxGetState(
	struct cu_device *device, unsigned int *flags, int *active)
{
	*flags = device->primary_flags;
	*active = device->primary != NULL;
	return CUDA_SUCCESS;
}
