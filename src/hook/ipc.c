/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that processes share by handles of 64 bytes: those of cuIpc, and those of pools' pointers.
 * Either counts as shared memory (hook-share.h) under a number made from the handle's bytes. An
 * allocation below 1 MiB shares blocks with other allocations, and a pool is charged as a whole. So
 * a shared part of such memory is charged a second time, for its importers. Any thread.
 */
#include "hook/hook.h"
#include "hook/hook-memory.h"
#include "hook/relax.h"
#include "hook/hook-share.h"

static struct device *device_of_pointer(CUdeviceptr address)
{
	struct relaxed relaxed = relax_begin();
	CUcontext context = NULL;
	int ordinal = 0;
	CUresult r = REAL(cuPointerGetAttribute)(
		&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address);

	relax_end(relaxed);
	return r == CUDA_SUCCESS ? device_of(ordinal) : memory_device(&context);
}

static uint64_t ipc_bytes_at(CUdeviceptr address)
{
	struct relaxed relaxed = relax_begin();
	CUdeviceptr base;
	size_t bytes = 0;
	CUresult r = REAL(cuMemGetAddressRange_v2)(&base, &bytes, address);

	relax_end(relaxed);
	return r == CUDA_SUCCESS ? bytes : 0;
}

/* ---- cuIpc ---- */

EXPORT CUresult cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr)
{
	CUresult r = REAL(cuIpcGetMemHandle)(pHandle, dptr);
	struct hook *h = hook_registered();
	struct memory_record record;
	struct device *d;
	uint64_t id;

	if (r != CUDA_SUCCESS || !memory_get(MEMORY_POINTER, dptr, &record) || !record.pages)
		return r;
	d = &h->device[record.device];
	id = share_id_of(pHandle);
	share_hold(d, id, record.pages, SHARE_CHARGED);
	if (!memory_set_share(MEMORY_POINTER, dptr, id)) {
		/* another thread was faster and moved the charge */
		memory_charge_anyway(d, record.pages);
		share_drop(d, id);
	}
	return r;
}

/* Counts a further opening of an open handle. */
static bool ipc_is_open(CUdeviceptr address)
{
	struct memory_record record;

	return memory_change(MEMORY_IPC, address, 1, 0, 0, &record);
}

static CUresult ipc_opened(CUresult r, const CUdeviceptr *address, const CUipcMemHandle *handle)
{
	struct memory_record record = {.kind = MEMORY_IPC, .refs = 1};
	struct device *d;
	uint64_t pages;

	if (r != CUDA_SUCCESS || !hook_registered() || ipc_is_open(*address))
		return r;
	d = device_of_pointer(*address);
	pages = memory_pages(ipc_bytes_at(*address));
	if (!d || !pages)
		return r;
	record.key = *address;
	record.device = (uint8_t)d->index;
	record.share = share_id_of(handle);
	memory_device(&record.context);
	if (share_hold(d, record.share, pages, SHARE_NEW)) {
		REAL(cuIpcCloseMemHandle)(*address);
		return memory_refusal();
	}
	memory_put(&record);
	return r;
}

EXPORT CUresult cuIpcOpenMemHandle(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)
{
	return ipc_opened(REAL(cuIpcOpenMemHandle)(pdptr, handle, Flags), pdptr, &handle);
}

EXPORT CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)
{
	return ipc_opened(REAL(cuIpcOpenMemHandle_v2)(pdptr, handle, Flags), pdptr, &handle);
}

EXPORT CUresult cuIpcCloseMemHandle(CUdeviceptr dptr)
{
	CUresult r = REAL(cuIpcCloseMemHandle)(dptr);
	struct memory_record record;

	if (r == CUDA_SUCCESS && memory_change(MEMORY_IPC, dptr, -1, 0, 0, &record) &&
		!record.refs && memory_take(MEMORY_IPC, dptr, &record))
		memory_record_uncharge(&record);
	return r;
}

/* ---- pools: memory stays charged to its pool, except exported pointers ---- */

EXPORT CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *shareData_out, CUdeviceptr ptr)
{
	CUresult r = REAL(cuMemPoolExportPointer)(shareData_out, ptr);
	struct hook *h = hook_registered();
	struct memory_record record;
	uint64_t id, pages;

	if (r != CUDA_SUCCESS || !memory_get(MEMORY_POINTER, ptr, &record) ||
		!(record.flags & MEMORY_OF_POOL))
		return r;
	id = share_id_of(shareData_out);
	/*
	 * rounds down, so that the pool's charge does not become too low; importers are charged at
	 * least one page
	 */
	pages = record.bytes / PAGE_MEM_UNIT;
	if (!pages)
		return r;
	share_hold(&h->device[record.device], id, pages, SHARE_ANYWAY);
	if (memory_set_share(MEMORY_POINTER, ptr, id))
		memory_pool_share(record.aux, (int64_t)pages);
	else
		share_drop(&h->device[record.device], id);
	return r;
}

EXPORT CUresult cuMemPoolImportPointer(
	CUdeviceptr *ptr_out, CUmemoryPool pool, CUmemPoolPtrExportData *shareData)
{
	CUresult r = REAL(cuMemPoolImportPointer)(ptr_out, pool, shareData);
	struct memory_record record = {.kind = MEMORY_POINTER}, known;
	struct device *d;
	uint64_t pages;

	if (r != CUDA_SUCCESS || !hook_registered() || memory_get(MEMORY_POINTER, *ptr_out, &known))
		return r;
	d = device_of_pointer(*ptr_out);
	record.bytes = ipc_bytes_at(*ptr_out);
	pages = (record.bytes + PAGE_MEM_UNIT - 1) / PAGE_MEM_UNIT;
	if (!d || !pages)
		return r;
	record.key = *ptr_out;
	record.device = (uint8_t)d->index;
	record.share = share_id_of(shareData);
	if (share_hold(d, record.share, pages, SHARE_NEW)) {
		REAL(cuMemFree_v2)(*ptr_out);
		return memory_refusal();
	}
	memory_put(&record);
	return r;
}
