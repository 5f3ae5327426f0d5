/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Physical memory by handle, which is charged at cuMemCreate. The charge ends when the last
 * reference to the handle and the last mapping have ended, in any order. Exported or imported
 * memory is shared memory (hook-share.h), and each handle is one hold on it. A descriptor that no
 * library of divvy exported does not show its size, so the importer is charged for the parts that
 * it maps. A dma-buf holds the memory of its range like an exported descriptor, whatever kind the
 * memory is. Any thread.
 */
#include "hook/hook.h"
#include "hook/hook-memory.h"
#include "hook/relax.h"
#include "hook/hook-share.h"

/*
 * Fabric memory is refused, because other nodes could hold it without the knowledge of this node's
 * daemon.
 */
static bool is_fabric(unsigned long long types)
{
	return types & CU_MEM_HANDLE_TYPE_FABRIC && hook_registered();
}

EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
	const CUmemAllocationProp *prop, unsigned long long flags)
{
	struct memory_record record = {.kind = MEMORY_HANDLE, .refs = 1};
	struct device *d = NULL;
	CUresult r;

	if (prop && prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
		d = device_of(prop->location.id);
	if (!d)
		return REAL(cuMemCreate)(handle, size, prop, flags);
	if (is_fabric(prop->requestedHandleTypes))
		return CUDA_ERROR_NOT_SUPPORTED;
	record.pages = memory_pages(size);
	record.device = (uint8_t)d->index;
	if (memory_charge(d, record.pages))
		return memory_refusal();
	r = REAL(cuMemCreate)(handle, size, prop, flags);
	if (r != CUDA_SUCCESS) {
		memory_uncharge(d, record.pages);
		return r;
	}
	record.key = *handle;
	/* if the table cannot grow, the charge stays: a charge is never too low */
	memory_put(&record);
	return r;
}

static void give_back_unused(uint64_t handle)
{
	struct memory_record record;

	if (memory_get(MEMORY_HANDLE, handle, &record) && !record.refs && !record.aux &&
		memory_take(MEMORY_HANDLE, handle, &record))
		memory_record_uncharge(&record);
}

EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	struct memory_record record;
	bool known = memory_get(MEMORY_HANDLE, handle, &record);
	/*
	 * remove the record before the call, because the driver may then give the handle to another
	 * thread
	 */
	bool last = known && record.refs == 1 && !record.aux &&
		memory_take(MEMORY_HANDLE, handle, &record);
	CUresult r = REAL(cuMemRelease)(handle);

	if (last)
		memory_ended(r, true, &record);
	else if (known && r == CUDA_SUCCESS &&
		memory_change(MEMORY_HANDLE, handle, -1, 0, 0, &record))
		give_back_unused(handle);
	if (known && record.share)
		share_settle();
	return r;
}

EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
	CUresult r = REAL(cuMemRetainAllocationHandle)(handle, addr);
	struct memory_record record;

	if (r == CUDA_SUCCESS)
		memory_change(MEMORY_HANDLE, *handle, 1, 0, 0, &record);
	return r;
}

/*
 * Makes the descriptor a hold on the record's memory. False: the record has no charge of its own.
 */
static bool export_record(enum memory_kind kind, uint64_t key, int fd)
{
	struct memory_record record;
	struct device *d;
	uint64_t id, pages;

	if (!memory_get(kind, key, &record) || record.flags & MEMORY_OF_POOL)
		return false;
	d = &hook_registered()->device[record.device];
	id = record.share ? record.share : share_id_new();
	pages = record.share ? share_size(id) : record.pages;
	if (!record.share && pages) {
		share_hold(d, id, pages, SHARE_CHARGED);
		if (!memory_set_share(kind, key, id)) {
			/* another thread was faster and moved the charge */
			memory_charge_anyway(d, pages);
			share_drop(d, id);
			if (!memory_get(kind, key, &record) || !record.share)
				return true;
			id = record.share;
		}
	}
	if (pages)
		share_export(d, id, pages, fd);
	return pages > 0;
}

EXPORT CUresult cuMemExportToShareableHandle(void *shareableHandle,
	CUmemGenericAllocationHandle handle, CUmemAllocationHandleType handleType,
	unsigned long long flags)
{
	CUresult r;

	if (is_fabric(handleType))
		return CUDA_ERROR_NOT_SUPPORTED;
	r = REAL(cuMemExportToShareableHandle)(shareableHandle, handle, handleType, flags);
	if (r == CUDA_SUCCESS && handleType == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		export_record(MEMORY_HANDLE, handle, *(int *)shareableHandle);
	return r;
}

/*
 * Charges the exported part of a small allocation or of a pool's pointer again. Small allocations
 * share blocks with other allocations, and a pool is charged as a whole.
 */
static void export_part(uint64_t key, size_t size, int fd)
{
	struct memory_record record;
	struct device *d;
	uint64_t id = share_id_new();

	if (!memory_get(MEMORY_POINTER, key, &record))
		return;
	d = &hook_registered()->device[record.device];
	share_hold(d, id, memory_pages(size), SHARE_ANYWAY);
	share_export(d, id, memory_pages(size), fd);
	share_drop(d, id);
}

EXPORT CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr dptr, size_t size,
	CUmemRangeHandleType handleType, unsigned long long flags)
{
	CUresult r = REAL(cuMemGetHandleForAddressRange)(handle, dptr, size, handleType, flags);
	const int fd = r == CUDA_SUCCESS ? *(int *)handle : -1;
	struct relaxed relaxed;
	struct memory_record mapping;
	CUdeviceptr base = dptr;
	uint64_t at;
	size_t bytes;

	if (fd < 0 || handleType != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || !hook_registered())
		return r;
	relaxed = relax_begin();
	if (REAL(cuMemGetAddressRange_v2)(&base, &bytes, dptr) != CUDA_SUCCESS)
		base = dptr;
	relax_end(relaxed);
	if (!memory_get(MEMORY_MAPPING, base, &mapping)) {
		if (!export_record(MEMORY_POINTER, base, fd))
			export_part(base, size, fd);
		return r;
	}
	/* the range may cover several adjacent mappings */
	for (at = base;
		at < dptr + size && memory_get(MEMORY_MAPPING, at, &mapping) && mapping.bytes;
		at += mapping.bytes)
		export_record(MEMORY_HANDLE, mapping.aux, fd);
	return r;
}

static struct device *device_of_handle(CUmemGenericAllocationHandle handle)
{
	CUmemAllocationProp prop = {0};
	struct relaxed relaxed = relax_begin();
	CUresult r = REAL(cuMemGetAllocationPropertiesFromHandle)(&prop, handle);

	relax_end(relaxed);
	return r == CUDA_SUCCESS && prop.location.type == CU_MEM_LOCATION_TYPE_DEVICE
		? device_of(prop.location.id)
		: NULL;
}

EXPORT CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *osHandle,
	CUmemAllocationHandleType shHandleType)
{
	struct memory_record record = {.kind = MEMORY_HANDLE, .refs = 1}, known;
	struct device *d;
	uint64_t pages = 0;
	CUresult r;

	if (is_fabric(shHandleType))
		return CUDA_ERROR_NOT_SUPPORTED;
	r = REAL(cuMemImportFromShareableHandle)(handle, osHandle, shHandleType);
	if (r != CUDA_SUCCESS || !hook_registered())
		return r;
	/*
	 * if this process exported the memory, the import may have returned a further reference to
	 * the same handle
	 */
	if (memory_change(MEMORY_HANDLE, *handle, 1, 0, 0, &known))
		return r;
	d = device_of_handle(*handle);
	if (!d)
		return r;
	record.key = *handle;
	record.device = (uint8_t)d->index;
	if (!share_read((int)(intptr_t)osHandle, &record.share, &pages))
		record.flags = MEMORY_UNSIZED;
	if (pages && share_hold(d, record.share, pages, SHARE_NEW)) {
		REAL(cuMemRelease)(*handle);
		return memory_refusal();
	}
	memory_put(&record);
	return r;
}

/* Charges a new mapping of an unsized handle, whose charge grows with its mappings. */
static bool charge_mapped(CUmemGenericAllocationHandle handle, uint64_t offset, uint64_t size)
{
	struct hook *h = hook_registered();
	struct memory_record record;
	uint64_t end, more;

	if (!memory_get(MEMORY_HANDLE, handle, &record) || !(record.flags & MEMORY_UNSIZED) ||
		__builtin_add_overflow(offset, size, &end) || memory_pages(end) <= record.pages)
		return true;
	more = memory_pages(end) - record.pages;
	if (memory_charge(&h->device[record.device], more))
		return false;
	memory_change(MEMORY_HANDLE, handle, 0, 0, (int64_t)more, &record);
	return true;
}

EXPORT CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset,
	CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	struct memory_record mapping = {
		.kind = MEMORY_MAPPING,
		.key = ptr,
		.bytes = size,
		.aux = handle,
	};
	struct memory_record record;
	CUresult r;

	if (!charge_mapped(handle, offset, size))
		return memory_refusal();
	r = REAL(cuMemMap)(ptr, size, offset, handle, flags);
	if (r == CUDA_SUCCESS && memory_change(MEMORY_HANDLE, handle, 0, 1, 0, &record))
		memory_put(&mapping);
	return r;
}

/* The range to unmap consists of whole adjacent mappings. */
EXPORT CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
	CUresult r = REAL(cuMemUnmap)(ptr, size);
	struct memory_record mapping, record;
	uint64_t at = ptr;

	while (r == CUDA_SUCCESS && at - ptr < size && memory_take(MEMORY_MAPPING, at, &mapping) &&
		mapping.bytes) {
		if (memory_change(MEMORY_HANDLE, mapping.aux, 0, -1, 0, &record))
			give_back_unused(mapping.aux);
		at += mapping.bytes;
	}
	return r;
}
