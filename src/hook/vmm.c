/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Physical memory by handle: charged at cuMemCreate, given back when the last reference to the
 * handle and the last mapping of it are gone, in whichever order. Imports are not charged here: who
 * exported the memory, in this tenant or another, has been charged for it.
 */
#include "hook/hook.h"
#include "hook/memory.h"

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
	record.pages = memory_pages(size);
	record.device = (uint8_t)d->index;
	if (memory_charge(d, record.pages))
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = REAL(cuMemCreate)(handle, size, prop, flags);
	if (r != CUDA_SUCCESS) {
		memory_uncharge(d, record.pages);
		return r;
	}
	record.key = *handle;
	memory_put(&record); /* a table that cannot grow leaves it charged: never too little */
	return r;
}

static void give_back_unused(uint64_t handle)
{
	struct hook *h = hook_registered();
	struct memory_record record;

	if (memory_get(MEMORY_HANDLE, handle, &record) && !record.refs && !record.aux &&
		memory_take(MEMORY_HANDLE, handle, &record))
		memory_uncharge(&h->device[record.device], record.pages);
}

EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	struct hook *h = hook_registered();
	struct memory_record record;
	bool known = memory_get(MEMORY_HANDLE, handle, &record);
	/* before the driver may give the same handle to another thread */
	bool last = known && record.refs == 1 && !record.aux &&
		memory_take(MEMORY_HANDLE, handle, &record);
	CUresult r = REAL(cuMemRelease)(handle);

	if (last && r == CUDA_SUCCESS)
		memory_uncharge(&h->device[record.device], record.pages);
	else if (last)
		memory_put(&record);
	else if (known && r == CUDA_SUCCESS &&
		memory_change(MEMORY_HANDLE, handle, -1, 0, 0, &record))
		give_back_unused(handle);
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

EXPORT CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *osHandle,
	CUmemAllocationHandleType shHandleType)
{
	CUresult r = REAL(cuMemImportFromShareableHandle)(handle, osHandle, shHandleType);
	struct memory_record record;

	/* exported by this very process, it is one more reference to what is charged already */
	if (r == CUDA_SUCCESS)
		memory_change(MEMORY_HANDLE, *handle, 1, 0, 0, &record);
	return r;
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
	CUresult r = REAL(cuMemMap)(ptr, size, offset, handle, flags);

	if (r == CUDA_SUCCESS && memory_change(MEMORY_HANDLE, handle, 0, 1, 0, &record))
		memory_put(&mapping);
	return r;
}

/* A range of whole mappings, one after the other. */
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
