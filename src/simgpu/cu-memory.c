/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linear memory: device, managed, host and registered memory; and queries about addresses.
 *
 * The engine owns device memory. The client keeps its allocations in trees ordered by address, so
 * it refuses a wrong, freed or interior pointer without a call to the engine.
 */
#include "simgpu/cu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"

static uint64_t page_round(uint64_t n)
{
	return (n + 4095) & ~(uint64_t)4095;
}

CUresult cu_memory_alloc(struct cu_context *context, enum simgpu_mem_kind kind, uint64_t bytes,
	uint64_t *ret_address)
{
	struct simgpu_request request = {
		.type = SIMGPU_MSG_MEM_ALLOC,
		.context = context->slot,
		.kind = kind,
		.arg = {bytes},
	};
	struct simgpu_reply reply;
	CUresult r = cu_call(&request, &reply);

	if (r == CUDA_ERROR_OUT_OF_MEMORY && cu_pools_trim(true))
		r = cu_call(&request, &reply);
	CU_TRY(r);
	*ret_address = reply.ptr;
	return CUDA_SUCCESS;
}

static CUresult free_address(uint64_t address)
{
	struct simgpu_request request = {.type = SIMGPU_MSG_MEM_FREE, .ptr = address};
	struct simgpu_reply reply;

	return cu_call(&request, &reply);
}

static CUresult add_range(struct cu_context *context, enum cu_mem_kind kind, uint64_t address,
	uint64_t bytes, struct cu_range **ret)
{
	*ret = cu_range_add(&cu.device_memory, address, bytes);
	if (!*ret) {
		free_address(address);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	(*ret)->kind = kind;
	(*ret)->context = context;
	(*ret)->device = context->device;
	return CUDA_SUCCESS;
}

CUresult cu_check_device_range(uint64_t address, uint64_t bytes)
{
	while (bytes != 0) {
		const struct cu_range *range = cu_range_find(&cu.device_memory, address);
		uint64_t left;

		CU_CHECK(range && !range->freed, CUDA_ERROR_INVALID_VALUE);
		left = range->base + range->size - address;
		if (left >= bytes)
			return CUDA_SUCCESS;
		/* The bytes may extend over several ranges only if these are mappings. */
		CU_CHECK(range->kind == CU_MEM_MAPPED, CUDA_ERROR_INVALID_VALUE);
		address += left;
		bytes -= left;
	}
	return CUDA_SUCCESS;
}

static CUresult cu_memory_alloc_linear(struct cu_context *ctx, CUdeviceptr *dptr, size_t bytes)
{
	struct cu_range *range;
	uint64_t address;

	CU_TRY(cu_capture_check_unsafe());
	CU_TRY(cu_memory_alloc(ctx, SIMGPU_MEM_LINEAR, bytes, &address));
	CU_TRY(add_range(ctx, CU_MEM_DEVICE, address, bytes, &range));
	*dptr = address;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuMemAlloc_v2(struct cu_context *ctx, CUdeviceptr *dptr, size_t bytesize)
{
	return cu_memory_alloc_linear(ctx, dptr, bytesize);
}

CUresult simgpu_cuMemAllocPitch_v2(struct cu_context *ctx, CUdeviceptr *dptr, size_t *pPitch,
	size_t WidthInBytes, size_t Height, unsigned int ElementSizeBytes)
{
	size_t pitch = (WidthInBytes + CU_PITCH_ALIGN - 1) & ~(size_t)(CU_PITCH_ALIGN - 1);

	CU_CHECK(WidthInBytes <= 2147483647u, CUDA_ERROR_INVALID_VALUE);
	CU_CHECK(Height <= SIZE_MAX / pitch, CUDA_ERROR_OUT_OF_MEMORY);
	CU_TRY(cu_memory_alloc_linear(ctx, dptr, pitch * Height));
	*pPitch = pitch;
	return CUDA_SUCCESS;
}

CUresult cu_memory_alloc_managed(
	struct cu_context *context, uint64_t bytes, unsigned int flags, uint64_t *ret_address)
{
	struct simgpu_request request = {.type = SIMGPU_MSG_MEM_ALLOC, .kind = SIMGPU_MEM_MANAGED};
	_cleanup_close_ int fd = -1;
	struct simgpu_reply reply;
	struct cu_range *range;
	void *at;

	request.context = context->slot;
	request.arg[0] = bytes;
	CU_TRY(cu_call_fd(&request, -1, &reply, &fd));
	at = mmap((void *)(uintptr_t)reply.ptr, page_round(bytes), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0);
	if (at != (void *)(uintptr_t)reply.ptr) {
		/* The program already uses this address. */
		if (at != MAP_FAILED)
			munmap(at, page_round(bytes));
		free_address(reply.ptr);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	CU_TRY(add_range(context, CU_MEM_MANAGED, reply.ptr, bytes, &range));
	range->flags = flags;
	*ret_address = reply.ptr;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuMemAllocManaged(
	struct cu_context *ctx, CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
	uint64_t address;

	CU_TRY(cu_memory_alloc_managed(ctx, bytesize, flags, &address));
	*dptr = address;
	return CUDA_SUCCESS;
}

static void drop_range(struct cu_range *range)
{
	if (range->kind == CU_MEM_MANAGED)
		munmap((void *)(uintptr_t)range->base, page_round(range->size));
	if (range->pool) {
		range->pool->live--;
		range->pool->freed = true;
	}
	cu_range_remove(&cu.device_memory, range);
}

void cu_memory_free_managed(struct cu_context *context, uint64_t address)
{
	struct cu_range *range = cu_range_find(&cu.device_memory, address);

	if (range && range->base == address && range->kind == CU_MEM_MANAGED &&
		range->context == context && free_address(address) == CUDA_SUCCESS)
		drop_range(range);
}

CUresult simgpu_cuMemFree_v2(struct cu_context *ctx, CUdeviceptr dptr)
{
	struct cu_range *range;
	CUresult r;

	if (dptr == 0)
		return CUDA_SUCCESS;
	range = cu_range_find(&cu.device_memory, dptr);
	CU_CHECK(range && range->base == dptr && !range->freed, CUDA_ERROR_INVALID_VALUE);
	CU_CHECK(range->kind == CU_MEM_DEVICE || range->kind == CU_MEM_MANAGED ||
			range->kind == CU_MEM_ASYNC || range->kind == CU_MEM_GRAPH,
		CUDA_ERROR_INVALID_VALUE);
	CU_TRY(cu_capture_check_unsafe());
	/* A free waits for the work that may use the memory. */
	CU_TRY(cu_wait_context(range->context ? range->context : ctx));
	range = cu_range_find(&cu.device_memory, dptr);
	CU_CHECK(range && range->base == dptr && !range->freed, CUDA_ERROR_INVALID_VALUE);
	if (range->kind == CU_MEM_GRAPH) {
		struct cu_stream *stream;

		CU_TRY(cu_stream_get(NULL, ctx, &stream));
		return cu_free_async(stream, range);
	}
	r = free_address(dptr);
	if (r == CUDA_SUCCESS)
		drop_range(range);
	return r;
}

CUresult simgpu_cuMemGetInfo_v2(struct cu_context *ctx, size_t *free, size_t *total)
{
	struct simgpu_request request = {.type = SIMGPU_MSG_MEM_INFO};
	struct simgpu_reply reply;

	request.device = ctx->device;
	CU_TRY(cu_call(&request, &reply));
	*free = reply.arg[0];
	*total = reply.arg[1];
	return CUDA_SUCCESS;
}

CUresult simgpu_cuMemGetAddressRange_v2(
	struct cu_context *ctx, CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
	struct cu_range *range;

	range = cu_range_find(&cu.device_memory, dptr);
	if (!range)
		range = cu_range_find(&cu.host_memory, dptr);
	CU_CHECK(range && !range->freed, CUDA_ERROR_NOT_FOUND);
	if (pbase)
		*pbase = range->base;
	if (psize)
		*psize = range->size;
	return CUDA_SUCCESS;
}

void cu_memory_forget_context(struct cu_context *context)
{
	uint64_t from = 0;
	struct cu_range *range;

	while ((range = cu_range_next(&cu.device_memory, from))) {
		from = range->base + 1;
		if (range->context != context)
			continue;
		if (range->kind == CU_MEM_ASYNC || range->kind == CU_MEM_GRAPH ||
			range->kind == CU_MEM_MAPPED)
			range->context = NULL;
		else
			drop_range(range);
	}
	for (from = 0; (range = cu_range_next(&cu.host_memory, from));) {
		from = range->base + 1;
		if (range->context != context)
			continue;
		if (range->kind == CU_MEM_HOST)
			munmap((void *)(uintptr_t)range->base, page_round(range->size));
		cu_range_remove(&cu.host_memory, range);
	}
}

/* ---- host memory ---- */

CUresult simgpu_cuMemHostAlloc(
	struct cu_context *ctx, void **pp, size_t bytesize, unsigned int Flags)
{
	struct cu_range *range;
	void *p;

	CU_CHECK(bytesize < 1ull << 46, CUDA_ERROR_OUT_OF_MEMORY);
	CU_TRY(cu_capture_check_unsafe());
	p = mmap(NULL, page_round(bytesize), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		-1, 0);
	CU_CHECK(p != MAP_FAILED, CUDA_ERROR_OUT_OF_MEMORY);
	range = cu_range_add(&cu.host_memory, (uintptr_t)p, bytesize);
	if (!range) {
		munmap(p, page_round(bytesize));
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	range->kind = CU_MEM_HOST;
	range->context = ctx;
	range->device = ctx->device;
	range->flags = Flags;
	*pp = p;
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuMemAllocHost_v2(void **pp, size_t bytesize)
{
	return cuMemHostAlloc(pp, bytesize, 0);
}

static CUresult host_range(
	const void *p, enum cu_mem_kind kind, CUresult missing, struct cu_range **ret)
{
	struct cu_range *range = cu_range_find(&cu.host_memory, (uintptr_t)p);

	CU_CHECK(range && range->base == (uintptr_t)p && range->kind == kind, missing);
	*ret = range;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuMemFreeHost(struct cu_context *ctx, void *p)
{
	struct cu_range *range;

	if (!p)
		return CUDA_SUCCESS;
	CU_TRY(host_range(p, CU_MEM_HOST, CUDA_ERROR_INVALID_VALUE, &range));
	CU_TRY(cu_capture_check_unsafe());
	CU_TRY(cu_wait_context(range->context ? range->context : ctx));
	CU_TRY(host_range(p, CU_MEM_HOST, CUDA_ERROR_INVALID_VALUE, &range));
	munmap(p, page_round(range->size));
	cu_range_remove(&cu.host_memory, range);
	return CUDA_SUCCESS;
}

CUresult simgpu_cuMemHostRegister_v2(
	struct cu_context *ctx, void *p, size_t bytesize, unsigned int Flags)
{
	uint64_t base = (uintptr_t)p;
	struct cu_range *range;

	CU_CHECK(bytesize < 1ull << 47 && base < 1ull << 47, CUDA_ERROR_INVALID_VALUE);
	CU_CHECK((Flags & CU_MEMHOSTREGISTER_IOMEMORY) == 0, CUDA_ERROR_NOT_SUPPORTED);
	CU_TRY(cu_capture_check_unsafe());
	CU_CHECK(!cu_range_find(&cu.host_memory, base), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	range = cu_range_next(&cu.host_memory, base);
	CU_CHECK(!range || range->base >= base + bytesize,
		CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	range = cu_range_add(&cu.host_memory, base, bytesize);
	CU_CHECK(range, CUDA_ERROR_OUT_OF_MEMORY);
	range->kind = CU_MEM_REGISTERED;
	range->context = ctx;
	range->device = ctx->device;
	range->flags = Flags;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuMemHostUnregister(struct cu_context *ctx, void *p)
{
	struct cu_range *range;

	CU_TRY(host_range(p, CU_MEM_REGISTERED, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, &range));
	CU_TRY(cu_capture_check_unsafe());
	CU_TRY(cu_wait_context(range->context ? range->context : ctx));
	CU_TRY(host_range(p, CU_MEM_REGISTERED, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, &range));
	cu_range_remove(&cu.host_memory, range);
	return CUDA_SUCCESS;
}

CUresult simgpu_cuMemHostGetDevicePointer_v2(
	struct cu_context *ctx, CUdeviceptr *pdptr, void *p, unsigned int Flags)
{
	CU_CHECK(cu_range_find(&cu.host_memory, (uintptr_t)p), CUDA_ERROR_INVALID_VALUE);
	*pdptr = (uintptr_t)p;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuMemHostGetFlags(struct cu_context *ctx, unsigned int *pFlags, void *p)
{
	struct cu_range *range;

	range = cu_range_find(&cu.host_memory, (uintptr_t)p);
	CU_CHECK(range && range->kind == CU_MEM_HOST, CUDA_ERROR_INVALID_VALUE);
	/* With unified addressing, all host memory is mapped for the device. */
	*pFlags = range->flags | CU_MEMHOSTALLOC_DEVICEMAP;
	return CUDA_SUCCESS;
}

/* ---- managed memory ---- */

static CUresult managed_range(CUdeviceptr at, size_t count)
{
	const struct cu_range *range = cu_range_find(&cu.device_memory, at);

	CU_CHECK(range && range->kind == CU_MEM_MANAGED && count != 0 &&
			count <= range->base + range->size - at,
		CUDA_ERROR_INVALID_VALUE);
	return CUDA_SUCCESS;
}

static CUresult cu_memory_location_device(CUmemLocation location, int *ret_engine)
{
	struct cu_device *device;

	*ret_engine = -1;
	switch ((int)location.type) {
	case CU_MEM_LOCATION_TYPE_DEVICE:
		CU_TRY(cu_device_get(location.id, &device));
		*ret_engine = device->engine;
		return CUDA_SUCCESS;
	case CU_MEM_LOCATION_TYPE_HOST:
	case CU_MEM_LOCATION_TYPE_HOST_NUMA:
	case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT: return CUDA_SUCCESS;
	default: return CUDA_ERROR_INVALID_VALUE;
	}
}

/* Keeps the advice for cuMemRangeGetAttribute(), once for the whole allocation. */
static void note_advice(
	struct cu_range *range, CUmem_advise advice, CUmemLocation location, int engine)
{
	uint32_t bit = 1u << (engine < 0 ? 31 : engine);

	switch ((int)advice) {
	case CU_MEM_ADVISE_SET_READ_MOSTLY:
	case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
		range->read_mostly = advice == CU_MEM_ADVISE_SET_READ_MOSTLY;
		return;
	case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
		range->has_preferred = true;
		range->preferred = location;
		return;
	case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION: range->has_preferred = false; return;
	case CU_MEM_ADVISE_SET_ACCESSED_BY: range->accessed_by |= bit; return;
	default: range->accessed_by &= ~bit;
	}
}

static CUresult cu_memory_advise(
	CUdeviceptr at, size_t count, CUmem_advise advice, CUmemLocation location)
{
	struct simgpu_request request = {.type = SIMGPU_MSG_MEM_ADVISE, .ptr = at};
	struct simgpu_reply reply;
	int engine = -1;

	CU_ENTER_CONTEXT(ctx);
	CU_CHECK((unsigned)advice >= CU_MEM_ADVISE_SET_READ_MOSTLY &&
			(unsigned)advice <= CU_MEM_ADVISE_UNSET_ACCESSED_BY,
		CUDA_ERROR_INVALID_VALUE);
	CU_TRY(managed_range(at, count));
	/*
	 * Read-mostly advice has no location, and the call that unsets the preferred location
	 * ignores it.
	 */
	if (advice != CU_MEM_ADVISE_SET_READ_MOSTLY && advice != CU_MEM_ADVISE_UNSET_READ_MOSTLY &&
		advice != CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION)
		CU_TRY(cu_memory_location_device(location, &engine));
	request.context = ctx->slot;
	request.device = engine;
	request.arg[0] = count;
	request.arg[1] = advice;
	CU_TRY(cu_call(&request, &reply));
	note_advice(cu_range_find(&cu.device_memory, at), advice, location, engine);
	return CUDA_SUCCESS;
}

static CUmemLocation location_of(CUdevice device)
{
	CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};

	if (device == CU_DEVICE_CPU)
		location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST};
	return location;
}

CU_EXPORT CUresult cuMemAdvise(
	CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device)
{
	return cu_memory_advise(devPtr, count, advice, location_of(device));
}

CU_EXPORT CUresult cuMemAdvise_v2(
	CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUmemLocation location)
{
	return cu_memory_advise(devPtr, count, advice, location);
}

static CUresult cu_memory_prefetch(
	CUdeviceptr at, size_t count, CUmemLocation location, CUstream hStream)
{
	struct cu_stream *stream;
	struct cu_range *range;
	struct cu_op op;
	int engine;

	CU_ENTER_CONTEXT(ctx);
	CU_TRY(cu_stream_get(hStream, ctx, &stream));
	CU_TRY(managed_range(at, count));
	CU_TRY(cu_memory_location_device(location, &engine));
	if (stream->capture)
		return cu_capture_refuse(stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	cu_op_init(&op, SIMGPU_OP_PREFETCH, stream->context);
	op.entry.mem.ptr = at;
	op.entry.mem.bytes = count;
	op.entry.mem.device = engine;
	range = cu_range_find(&cu.device_memory, at);
	range->has_prefetched = true;
	range->prefetched = location;
	return cu_stream_do(stream, &op);
}

CU_EXPORT CUresult cuMemPrefetchAsync(
	CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream)
{
	return cu_memory_prefetch(devPtr, count, location_of(dstDevice), hStream);
}

CU_EXPORT CUresult cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location,
	unsigned int flags, CUstream hStream)
{
	CU_CHECK(flags == 0, CUDA_ERROR_INVALID_VALUE);
	return cu_memory_prefetch(devPtr, count, location, hStream);
}

CU_EXPORT CUresult cuMemPrefetchBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count,
	CUmemLocation *prefetchLocs, size_t *prefetchLocIdxs, size_t numPrefetchLocs,
	unsigned long long flags, CUstream hStream)
{
	size_t at = 0;

	CU_CHECK(dptrs && sizes && count != 0 && prefetchLocs && prefetchLocIdxs && flags == 0 &&
			numPrefetchLocs != 0 && numPrefetchLocs <= count && prefetchLocIdxs[0] == 0,
		CUDA_ERROR_INVALID_VALUE);
	/*
	 * prefetchLocs[i] applies to the ranges from number prefetchLocIdxs[i] up to the range
	 * before prefetchLocIdxs[i + 1].
	 */
	for (size_t i = 0; i < count; i++) {
		while (at + 1 < numPrefetchLocs && prefetchLocIdxs[at + 1] <= i)
			at++;
		CU_TRY(cu_memory_prefetch(dptrs[i], sizes[i], prefetchLocs[at], hStream));
	}
	return CUDA_SUCCESS;
}

static int location_number(bool known, CUmemLocation location)
{
	if (!known)
		return CU_DEVICE_INVALID;
	return location.type == CU_MEM_LOCATION_TYPE_DEVICE ? location.id : CU_DEVICE_CPU;
}

static CUresult range_attribute(
	int *data, size_t size, CUmem_range_attribute attribute, const struct cu_range *range)
{
	size_t n = 0;

	CU_CHECK(data && size >= 4 && size % 4 == 0, CUDA_ERROR_INVALID_VALUE);
	switch ((int)attribute) {
	case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY: *data = range->read_mostly; return CUDA_SUCCESS;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
		*data = location_number(range->has_preferred, range->preferred);
		return CUDA_SUCCESS;
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
		*data = location_number(range->has_prefetched, range->prefetched);
		return CUDA_SUCCESS;
	case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
		for (int i = 0; i < cu.n_devices && n < size / 4; i++)
			if (range->accessed_by & 1u << cu.devices[i].engine)
				data[n++] = i;
		if ((range->accessed_by & 1u << 31) && n < size / 4)
			data[n++] = CU_DEVICE_CPU;
		while (n < size / 4)
			data[n++] = CU_DEVICE_INVALID;
		return CUDA_SUCCESS;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
		*data = (int)(range->has_preferred ? range->preferred.type
						   : CU_MEM_LOCATION_TYPE_INVALID);
		return CUDA_SUCCESS;
	case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
		*data = range->preferred.id;
		return CUDA_SUCCESS;
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
		*data = (int)(range->has_prefetched ? range->prefetched.type
						    : CU_MEM_LOCATION_TYPE_INVALID);
		return CUDA_SUCCESS;
	case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
		*data = range->prefetched.id;
		return CUDA_SUCCESS;
	default: return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult simgpu_cuMemRangeGetAttributes(void **data, size_t *dataSizes,
	CUmem_range_attribute *attributes, size_t numAttributes, CUdeviceptr devPtr, size_t count)
{
	CU_TRY(managed_range(devPtr, count));
	for (size_t i = 0; i < numAttributes; i++)
		CU_TRY(range_attribute(data[i], dataSizes[i], attributes[i],
			cu_range_find(&cu.device_memory, devPtr)));
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuMemRangeGetAttribute(void *data, size_t dataSize,
	CUmem_range_attribute attribute, CUdeviceptr devPtr, size_t count)
{
	return cuMemRangeGetAttributes(&data, &dataSize, &attribute, 1, devPtr, count);
}

/* ---- queries about addresses ---- */

static CUresult cu_memory_pointer_attribute(
	void *data, CUpointer_attribute attribute, const struct cu_range *range, uint64_t address)
{
	bool host = range->kind == CU_MEM_HOST || range->kind == CU_MEM_REGISTERED;

	switch ((int)attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*(CUcontext *)data = range->context ? range->context->handle : NULL;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*(unsigned *)data = host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		*(CUdeviceptr *)data = address;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		if (!host && range->kind != CU_MEM_MANAGED)
			return CUDA_ERROR_INVALID_VALUE;
		*(void **)data = (void *)(uintptr_t)address;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		*(unsigned *)data = range->sync_memops;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
		*(unsigned long long *)data = range->buffer_id;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		*(unsigned *)data = range->kind == CU_MEM_MANAGED;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*(int *)data = cu_device_number(range->device);
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		*(unsigned *)data = range->kind == CU_MEM_DEVICE;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		*(CUdeviceptr *)data = range->base;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE: *(size_t *)data = range->size; return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MAPPED: *(unsigned *)data = 1; return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		*(unsigned long long *)data = range->kind == CU_MEM_MAPPED
			? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
			: 0;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		*(unsigned *)data = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		*(CUmemoryPool *)data = range->pool ? range->pool->handle : NULL;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE: *(size_t *)data = range->size; return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		*(void **)data = (void *)(uintptr_t)range->base;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		*(unsigned long long *)data = range->buffer_id;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
	case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
		*(unsigned *)data = 0;
		return CUDA_SUCCESS;
	default: return CUDA_ERROR_INVALID_VALUE;
	}
}

static const struct cu_range *known_range(uint64_t address)
{
	const struct cu_range *range = cu_range_find(&cu.device_memory, address);

	if (!range)
		range = cu_range_find(&cu.host_memory, address);
	return range && !range->freed && range->kind != CU_MEM_ARRAY ? range : NULL;
}

CUresult simgpu_cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	const struct cu_range *range;

	range = known_range(ptr);
	CU_CHECK(range, CUDA_ERROR_INVALID_VALUE);
	return cu_memory_pointer_attribute(data, attribute, range, ptr);
}

/* Returns the size of an attribute's value. */
static size_t attribute_size(CUpointer_attribute attribute)
{
	switch ((int)attribute) {
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
	case CU_POINTER_ATTRIBUTE_MAPPED:
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
	case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE: return 4;
	case CU_POINTER_ATTRIBUTE_P2P_TOKENS: return sizeof(CUDA_POINTER_ATTRIBUTE_P2P_TOKENS);
	default: return 8;
	}
}

CUresult simgpu_cuPointerGetAttributes(
	unsigned int numAttributes, CUpointer_attribute *attributes, void **data, CUdeviceptr ptr)
{
	const struct cu_range *range;

	range = known_range(ptr);
	for (unsigned i = 0; i < numAttributes; i++) {
		CU_CHECK(attributes[i] >= CU_POINTER_ATTRIBUTE_CONTEXT &&
				attributes[i] <= CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE &&
				data[i],
			CUDA_ERROR_INVALID_VALUE);
		/*
		 * An attribute that the address does not have is no error in this call, and reads
		 * as zero.
		 */
		memset(data[i], 0, attribute_size(attributes[i]));
		if (range)
			cu_memory_pointer_attribute(data[i], attributes[i], range, ptr);
		else if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
			*(int *)data[i] = -2;
	}
	return CUDA_SUCCESS;
}

CUresult simgpu_cuPointerSetAttribute(
	const void *value, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	struct cu_range *range;

	range = cu_range_find(&cu.device_memory, ptr);
	CU_CHECK(range && !range->freed, CUDA_ERROR_INVALID_VALUE);
	range->sync_memops = *(const unsigned *)value != 0;
	return CUDA_SUCCESS;
}

/* ---- between processes ---- */

CUresult simgpu_cuIpcGetMemHandle(struct cu_context *ctx, CUipcMemHandle *pHandle, CUdeviceptr dptr)
{
	struct simgpu_request request = {.type = SIMGPU_MSG_IPC_GET_MEM, .ptr = dptr};
	struct simgpu_reply reply;
	struct cu_range *range;

	range = cu_range_find(&cu.device_memory, dptr);
	CU_CHECK(range && range->kind == CU_MEM_DEVICE, CUDA_ERROR_INVALID_VALUE);
	request.ptr = range->base;
	CU_TRY(cu_call(&request, &reply));
	memset(pHandle, 0, sizeof(*pHandle));
	memcpy(pHandle, &reply.arg[0], sizeof(reply.arg[0]));
	return CUDA_SUCCESS;
}

CUresult simgpu_cuIpcOpenMemHandle_v2(
	struct cu_context *ctx, CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)
{
	struct simgpu_request request = {.type = SIMGPU_MSG_IPC_OPEN_MEM};
	struct simgpu_reply reply;
	struct cu_range *range;

	memcpy(&request.arg[0], &handle, sizeof(request.arg[0]));
	request.context = ctx->slot;
	CU_TRY(cu_call(&request, &reply));
	range = cu_range_find(&cu.device_memory, reply.ptr);
	if (range && range->base == reply.ptr && range->kind == CU_MEM_IPC) {
		range->opens++;
	} else {
		range = cu_range_add(&cu.device_memory, reply.ptr, reply.arg[0]);
		CU_CHECK(range, CUDA_ERROR_OUT_OF_MEMORY);
		range->kind = CU_MEM_IPC;
		range->context = ctx;
		range->device = ctx->device;
		range->opens = 1;
	}
	*pdptr = reply.ptr;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuIpcCloseMemHandle(struct cu_context *ctx, CUdeviceptr dptr)
{
	struct simgpu_request request = {.type = SIMGPU_MSG_IPC_CLOSE_MEM, .ptr = dptr};
	struct simgpu_reply reply;
	struct cu_range *range;

	range = cu_range_find(&cu.device_memory, dptr);
	CU_CHECK(range && range->base == dptr && range->kind == CU_MEM_IPC,
		CUDA_ERROR_INVALID_VALUE);
	CU_TRY(cu_wait_context(ctx));
	CU_TRY(cu_call(&request, &reply));
	range = cu_range_find(&cu.device_memory, dptr);
	if (range && --range->opens == 0)
		cu_range_remove(&cu.device_memory, range);
	return CUDA_SUCCESS;
}
