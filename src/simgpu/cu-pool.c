/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory pools and stream-ordered allocation. The engine keeps the pools, because it knows the
 * order of frees in a stream and each pool's reserved memory. The client keeps the handles, and
 * refuses freed memory.
 */
#include "simgpu/cu.h"

#include <stdlib.h>
#include <string.h>

#include "simgpu/cu-graph.h"

/*
 * Makes the engine keep all freed memory of the pool: the client itself decides when to trim a
 * pool.
 */
static void keep_everything(const struct cu_pool *pool)
{
	struct simgpu_request request = {.type = SIMGPU_MSG_POOL_SET,
		.id = pool->engine_id,
		.arg = {SIMGPU_POOL_RELEASE_THRESHOLD, UINT64_MAX}};
	struct simgpu_reply reply;

	cu_call(&request, &reply);
}

bool cu_pools_trim(bool all)
{
	bool trimmed = false;

	CU_LIST_EACH(struct cu_pool, link, &cu.pools, pool)
	{
		struct simgpu_request request = {.type = SIMGPU_MSG_POOL_TRIM,
			.id = pool->engine_id,
			.arg = {all ? 0 : pool->threshold}};
		struct simgpu_reply reply;

		if (!all && !pool->freed)
			continue;
		/* A free that has not run yet needs another trim afterwards. */
		if (cu_call(&request, &reply) == CUDA_SUCCESS)
			pool->freed = reply.arg[0];
		trimmed = true;
	}
	return trimmed;
}

static CUresult new_pool(uint32_t engine_id, int device, struct cu_pool **ret)
{
	struct cu_pool *pool = calloc(1, sizeof(*pool));

	CU_CHECK(pool, CUDA_ERROR_OUT_OF_MEMORY);
	pool->handle = cu_handle_new(CU_KIND_POOL, pool);
	if (!pool->handle) {
		free(pool);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	pool->engine_id = engine_id;
	pool->device = device;
	pool->access[device] = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	for (size_t i = 0; i < ARRAY_SIZE(pool->reuse); i++)
		pool->reuse[i] = 1;
	cu_list_add(&cu.pools, &pool->link);
	keep_everything(pool);
	*ret = pool;
	return CUDA_SUCCESS;
}

CUresult cu_pool_default(struct cu_device *device, struct cu_pool **ret_pool)
{
	if (!device->default_pool) {
		CU_TRY(new_pool(SIMGPU_POOL_DEFAULT(device->engine), device->engine,
			&device->default_pool));
		device->default_pool->is_default = true;
	}
	if (!device->pool)
		device->pool = device->default_pool;
	*ret_pool = device->default_pool;
	return CUDA_SUCCESS;
}

void cu_pool_free(struct cu_pool *pool)
{
	struct cu_range *range;

	/* Allocations from the pool stay valid without a pool. */
	for (uint64_t from = 0; (range = cu_range_next(&cu.device_memory, from));) {
		from = range->base + 1;
		if (range->pool == pool)
			range->pool = NULL;
	}
	for (int i = 0; i < cu.n_devices; i++)
		if (cu.devices[i].pool == pool)
			cu.devices[i].pool = cu.devices[i].default_pool;
	cu_handle_free(pool->handle);
	cu_list_remove(&pool->link);
	free(pool);
}

static CUresult cu_pool_location_device(const CUmemLocation *location, struct cu_device **ret)
{
	CU_CHECK(location && location->type == CU_MEM_LOCATION_TYPE_DEVICE,
		CUDA_ERROR_INVALID_VALUE);
	CU_CHECK(cu_device_get(location->id, ret) == CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE);
	return CUDA_SUCCESS;
}

CUresult simgpu_cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps)
{
	struct simgpu_request request = {.type = SIMGPU_MSG_POOL_CREATE};
	struct cu_device *device;
	struct simgpu_reply reply;
	struct cu_pool *p;

	CU_CHECK(poolProps->allocType == CU_MEM_ALLOCATION_TYPE_PINNED, CUDA_ERROR_INVALID_VALUE);
	CU_TRY(cu_pool_location_device(&poolProps->location, &device));
	CU_CHECK(poolProps->handleTypes == CU_MEM_HANDLE_TYPE_NONE, CUDA_ERROR_NOT_SUPPORTED);
	request.device = device->engine;
	request.arg[0] = poolProps->maxSize;
	CU_TRY(cu_call(&request, &reply));
	CU_TRY(new_pool((uint32_t)reply.id, device->engine, &p));
	*pool = p->handle;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuMemPoolDestroy(struct cu_pool *p)
{
	struct simgpu_request request = {.type = SIMGPU_MSG_POOL_DESTROY};
	struct simgpu_reply reply;

	CU_CHECK(!p->is_default, CUDA_ERROR_INVALID_VALUE);
	request.id = p->engine_id;
	CU_TRY(cu_call(&request, &reply));
	cu_pool_free(p);
	return CUDA_SUCCESS;
}

CUresult simgpu_cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, struct cu_device *device)
{
	struct cu_pool *pool;

	CU_TRY(cu_pool_default(device, &pool));
	*pool_out = pool->handle;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuDeviceGetMemPool(CUmemoryPool *pool, struct cu_device *device)
{
	struct cu_pool *p;

	CU_TRY(cu_pool_default(device, &p));
	*pool = device->pool->handle;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuDeviceSetMemPool(struct cu_device *device, struct cu_pool *p)
{
	CU_CHECK(p->device == device->engine, CUDA_ERROR_INVALID_VALUE);
	device->pool = p;
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuMemGetDefaultMemPool(
	CUmemoryPool *pool_out, CUmemLocation *location, CUmemAllocationType type)
{
	CU_CHECK(location && type == CU_MEM_ALLOCATION_TYPE_PINNED, CUDA_ERROR_INVALID_VALUE);
	CU_CHECK(location->type == CU_MEM_LOCATION_TYPE_DEVICE, CUDA_ERROR_NOT_SUPPORTED);
	return cuDeviceGetDefaultMemPool(pool_out, location->id);
}

CU_EXPORT CUresult cuMemGetMemPool(
	CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
	CU_CHECK(location && type == CU_MEM_ALLOCATION_TYPE_PINNED, CUDA_ERROR_INVALID_VALUE);
	CU_CHECK(location->type == CU_MEM_LOCATION_TYPE_DEVICE, CUDA_ERROR_NOT_SUPPORTED);
	return cuDeviceGetMemPool(pool, location->id);
}

CU_EXPORT CUresult cuMemSetMemPool(
	CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
	CU_CHECK(location && type == CU_MEM_ALLOCATION_TYPE_PINNED, CUDA_ERROR_INVALID_VALUE);
	CU_CHECK(location->type == CU_MEM_LOCATION_TYPE_DEVICE, CUDA_ERROR_NOT_SUPPORTED);
	return cuDeviceSetMemPool(location->id, pool);
}

CUresult simgpu_cuMemPoolTrimTo(struct cu_pool *p, size_t minBytesToKeep)
{
	struct simgpu_request request = {.type = SIMGPU_MSG_POOL_TRIM, .arg = {minBytesToKeep}};
	struct simgpu_reply reply;

	request.id = p->engine_id;
	return cu_call(&request, &reply);
}

CUresult simgpu_cuMemPoolSetAttribute(struct cu_pool *p, CUmemPool_attribute attr, void *value)
{
	struct simgpu_request request = {.type = SIMGPU_MSG_POOL_SET};
	struct simgpu_reply reply;

	request.id = p->engine_id;
	request.arg[0] = attr;
	switch ((int)attr) {
	case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
		p->reuse[attr - 1] = *(int *)value != 0;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		p->threshold = *(cuuint64_t *)value;
		p->freed = true;
		return CUDA_SUCCESS;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		CU_CHECK(*(cuuint64_t *)value == 0, CUDA_ERROR_INVALID_VALUE);
		return cu_call(&request, &reply);
	default: return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult simgpu_cuMemPoolGetAttribute(struct cu_pool *p, CUmemPool_attribute attr, void *value)
{
	struct simgpu_request request = {.type = SIMGPU_MSG_POOL_GET};
	struct simgpu_reply reply;

	if (attr >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
		attr <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES) {
		*(int *)value = (int)p->reuse[attr - 1];
		return CUDA_SUCCESS;
	}
	CU_CHECK(attr >= CU_MEMPOOL_ATTR_RELEASE_THRESHOLD && attr <= CU_MEMPOOL_ATTR_USED_MEM_HIGH,
		CUDA_ERROR_INVALID_VALUE);
	if (attr == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) {
		*(cuuint64_t *)value = p->threshold;
		return CUDA_SUCCESS;
	}
	request.id = p->engine_id;
	request.arg[0] = attr;
	CU_TRY(cu_call(&request, &reply));
	*(cuuint64_t *)value = reply.arg[0];
	return CUDA_SUCCESS;
}

CUresult simgpu_cuMemPoolSetAccess(struct cu_pool *p, const CUmemAccessDesc *map, size_t count)
{
	struct cu_device *device;

	for (size_t i = 0; i < count; i++) {
		CU_TRY(cu_pool_location_device(&map[i].location, &device));
		/* The device that owns the memory cannot lose access to the pool. */
		CU_CHECK(device->engine != p->device ||
				map[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
			CUDA_ERROR_INVALID_VALUE);
		CU_CHECK(map[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE ||
				map[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
			CUDA_ERROR_INVALID_VALUE);
	}
	for (size_t i = 0; i < count; i++) {
		cu_pool_location_device(&map[i].location, &device);
		p->access[device->engine] = (uint8_t)map[i].flags;
	}
	return CUDA_SUCCESS;
}

CUresult simgpu_cuMemPoolGetAccess(
	CUmemAccess_flags *flags, struct cu_pool *p, CUmemLocation *location)
{
	struct cu_device *device;

	CU_TRY(cu_pool_location_device(location, &device));
	*flags = (CUmemAccess_flags)p->access[device->engine];
	return CUDA_SUCCESS;
}

/* ---- allocation in stream order ---- */

static CUresult capture_alloc(
	struct cu_stream *stream, struct cu_pool *pool, size_t bytes, CUdeviceptr *dptr)
{
	CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};
	struct cu_node *node;
	CUdeviceptr address;

	p.alloc.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	p.alloc.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	p.alloc.poolProps.location.id = cu_device_number(pool->device);
	p.alloc.bytesize = bytes;
	CU_TRY(cu_node_make(&p, stream->context, &node));
	address = node->params.alloc.dptr;
	CU_TRY(cu_capture_node(stream, node));
	*dptr = address;
	return CUDA_SUCCESS;
}

static CUresult alloc_from(
	struct cu_stream *stream, struct cu_pool *pool, size_t bytes, CUdeviceptr *dptr)
{
	struct simgpu_request request = {.type = SIMGPU_MSG_POOL_ALLOC,
		.id = pool->engine_id,
		.context = stream->context->slot,
		.stream = stream->slot,
		.arg = {bytes}};
	struct simgpu_reply reply;
	struct cu_range *range;
	CUresult r;

	if (stream->capture)
		return capture_alloc(stream, pool, bytes, dptr);
	if (stream->legacy)
		CU_TRY(cu_capture_check_legacy(stream->context));
	r = cu_call(&request, &reply);
	if (r == CUDA_ERROR_OUT_OF_MEMORY && cu_pools_trim(true))
		r = cu_call(&request, &reply);
	CU_TRY(r);
	range = cu_range_add(&cu.device_memory, reply.ptr, bytes);
	CU_CHECK(range, CUDA_ERROR_OUT_OF_MEMORY);
	range->kind = CU_MEM_ASYNC;
	range->context = stream->context;
	range->device = pool->device;
	range->pool = pool;
	pool->live++;
	*dptr = reply.ptr;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuMemAllocAsync(
	struct cu_context *ctx, CUdeviceptr *dptr, size_t bytesize, struct cu_stream *stream)
{
	struct cu_device *device;
	struct cu_pool *pool;

	device = &cu.devices[cu_device_number(stream->context->device)];
	CU_TRY(cu_pool_default(device, &pool));
	return alloc_from(stream, device->pool, bytesize, dptr);
}

CUresult simgpu_cuMemAllocFromPoolAsync(struct cu_context *ctx, CUdeviceptr *dptr, size_t bytesize,
	struct cu_pool *p, struct cu_stream *stream)
{
	return alloc_from(stream, p, bytesize, dptr);
}

static CUresult capture_free(struct cu_stream *stream, CUdeviceptr dptr)
{
	CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_MEM_FREE};
	struct cu_node *node;
	CUresult r;

	p.free.dptr = dptr;
	r = cu_node_make(&p, stream->context, &node);
	/* A graph cannot free memory from outside the graph. */
	return r == CUDA_SUCCESS ? cu_capture_node(stream, node) : cu_capture_refuse(stream, r);
}

CUresult cu_free_async(struct cu_stream *stream, struct cu_range *range)
{
	struct cu_op op;

	if (range->kind == CU_MEM_GRAPH) {
		CU_CHECK(range->opens != 0, CUDA_ERROR_INVALID_VALUE);
		cu_graph_memory_freed(range);
		return CUDA_SUCCESS;
	}
	cu_op_init(&op, SIMGPU_OP_FREE_ASYNC, stream->context);
	op.entry.mem.ptr = range->base;
	op.entry.mem.bytes = range->size;
	op.entry.mem.device = range->device;
	CU_TRY(cu_stream_do(stream, &op));
	if (range->pool) {
		range->pool->live--;
		range->pool->freed = true;
	}
	cu_range_remove(&cu.device_memory, range);
	return CUDA_SUCCESS;
}

CUresult simgpu_cuMemFreeAsync(struct cu_context *ctx, CUdeviceptr dptr, struct cu_stream *stream)
{
	struct cu_range *range;

	range = cu_range_find(&cu.device_memory, dptr);
	CU_CHECK(range && range->base == dptr && !range->freed, CUDA_ERROR_INVALID_VALUE);
	CU_CHECK(range->kind == CU_MEM_ASYNC || range->kind == CU_MEM_DEVICE ||
			range->kind == CU_MEM_GRAPH,
		CUDA_ERROR_INVALID_VALUE);
	if (stream->capture)
		return capture_free(stream, dptr);
	return cu_free_async(stream, range);
}
