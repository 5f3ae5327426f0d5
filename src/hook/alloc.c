/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Charges memory that is allocated and freed by address. A program may free memory by another
 * function than the counterpart of the one that allocated it. Also imports, and the memory sizes
 * that a tenant sees. Any thread.
 */
#include <string.h>

#include "hook/hook.h"
#include "hook/hook-memory.h"
#include "hook/relax.h"
#include "hook/hook-share.h"

static bool alloc_may_swap(const struct device *d)
{
	return d && atomic_load_explicit(&d->down->flags, memory_order_relaxed) & PAGE_MEM_SWAP;
}

/* ---- allocate ---- */

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
	struct memory_alloc a;
	CUresult r;

	if (memory_alloc_begin(&a, bytesize))
		return memory_refusal();
	/* managed memory can leave the device again when another tenant needs memory */
	r = alloc_may_swap(a.device) ? REAL(cuMemAllocManaged)(dptr, bytesize, CU_MEM_ATTACH_GLOBAL)
				     : REAL(cuMemAlloc_v2)(dptr, bytesize);
	return memory_alloc_end(&a, r, r == CUDA_SUCCESS ? *dptr : 0);
}

EXPORT CUresult cuMemAlloc(CUdeviceptr_v1 *dptr, unsigned int bytesize)
{
	struct memory_alloc a;
	CUresult r;

	if (memory_alloc_begin(&a, bytesize))
		return memory_refusal();
	r = REAL(cuMemAlloc)(dptr, bytesize);
	return memory_alloc_end(&a, r, r == CUDA_SUCCESS ? *dptr : 0);
}

EXPORT CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
	struct memory_alloc a;
	CUresult r;

	if (memory_alloc_begin(&a, bytesize))
		return memory_refusal();
	r = REAL(cuMemAllocManaged)(dptr, bytesize, flags);
	return memory_alloc_end(&a, r, r == CUDA_SUCCESS ? *dptr : 0);
}

/*
 * Bytes of a pitched allocation. On all known devices a row takes at most the next multiple of 512
 * bytes; alloc_correct() compares the charge with the driver's pitch afterwards.
 */
static uint64_t pitched_bytes(uint64_t width, uint64_t height)
{
	uint64_t pitch, bytes;

	if (__builtin_add_overflow(width, 511, &pitch) ||
		__builtin_mul_overflow(pitch & ~UINT64_C(511), height, &bytes))
		return UINT64_MAX;
	return bytes;
}

/* Corrects the charge now that the driver has chosen the pitch. */
static int alloc_correct(struct memory_alloc *a, uint64_t bytes)
{
	uint64_t pages = memory_pages(bytes);

	if (a->device && pages != a->pages && memory_recharge(a->device, a->pages, pages))
		return -1;
	a->bytes = bytes;
	a->pages = pages;
	return 0;
}

EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes,
	size_t Height, unsigned int ElementSizeBytes)
{
	struct memory_alloc a;
	size_t pitch = (WidthInBytes + 511) & ~(size_t)511;
	CUresult r;

	if (memory_alloc_begin(&a, pitched_bytes(WidthInBytes, Height)))
		return memory_refusal();
	if (alloc_may_swap(a.device) && dptr && pPitch && WidthInBytes && Height) {
		r = REAL(cuMemAllocManaged)(dptr, pitch * Height, CU_MEM_ATTACH_GLOBAL);
		if (r == CUDA_SUCCESS)
			*pPitch = pitch;
	} else {
		r = REAL(cuMemAllocPitch_v2)(dptr, pPitch, WidthInBytes, Height, ElementSizeBytes);
	}
	if (r == CUDA_SUCCESS && alloc_correct(&a, (uint64_t)*pPitch * Height)) {
		REAL(cuMemFree_v2)(*dptr);
		r = CUDA_ERROR_OUT_OF_MEMORY;
	}
	return memory_alloc_end(&a, r, r == CUDA_SUCCESS ? *dptr : 0);
}

EXPORT CUresult cuMemAllocPitch(CUdeviceptr_v1 *dptr, unsigned int *pPitch,
	unsigned int WidthInBytes, unsigned int Height, unsigned int ElementSizeBytes)
{
	struct memory_alloc a;
	CUresult r;

	if (memory_alloc_begin(&a, pitched_bytes(WidthInBytes, Height)))
		return memory_refusal();
	r = REAL(cuMemAllocPitch)(dptr, pPitch, WidthInBytes, Height, ElementSizeBytes);
	if (r == CUDA_SUCCESS && alloc_correct(&a, (uint64_t)*pPitch * Height)) {
		REAL(cuMemFree)(*dptr);
		r = CUDA_ERROR_OUT_OF_MEMORY;
	}
	return memory_alloc_end(&a, r, r == CUDA_SUCCESS ? *dptr : 0);
}

/* ---- free: the driver also gets addresses that this library does not know ---- */

#define FREES(name, pointer, order, params, args) \
	EXPORT CUresult name params \
	{ \
		struct memory_free f; \
		CUresult r; \
\
		memory_free_begin(&f, pointer); \
		r = REAL(name) args; \
		memory_free_end(&f, r, order); \
		return r; \
	}

FREES(cuMemFree, dptr, MEMORY_NOW, (CUdeviceptr_v1 dptr), (dptr))
FREES(cuMemFree_v2, dptr, MEMORY_NOW, (CUdeviceptr dptr), (dptr))
FREES(cuMemFreeAsync, dptr, (uintptr_t)hStream, (CUdeviceptr dptr, CUstream hStream),
	(dptr, hStream))
FREES(cuMemFreeAsync_ptsz, dptr, hStream ? (uintptr_t)hStream : STREAM_PER_THREAD,
	(CUdeviceptr dptr, CUstream hStream), (dptr, hStream))

/* ---- imports from other APIs: no other tenant was charged for that memory ---- */

EXPORT CUresult cuImportExternalMemory(
	CUexternalMemory *extMem_out, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *memHandleDesc)
{
	struct memory_record record = {.kind = MEMORY_EXTERNAL};
	CUcontext context = NULL;
	struct device *d = memory_device(&context);
	CUresult r;

	if (!d || !memHandleDesc)
		return REAL(cuImportExternalMemory)(extMem_out, memHandleDesc);
	record.pages = memory_pages(memHandleDesc->size);
	record.device = (uint8_t)d->index;
	record.context = context;
	if (memory_charge(d, record.pages))
		return memory_refusal();
	r = REAL(cuImportExternalMemory)(extMem_out, memHandleDesc);
	if (r == CUDA_SUCCESS)
		record.key = (uintptr_t)*extMem_out;
	if (r != CUDA_SUCCESS || !memory_put(&record))
		memory_uncharge(d, record.pages);
	return r;
}

EXPORT CUresult cuDestroyExternalMemory(CUexternalMemory extMem)
{
	struct memory_record record;
	bool known = memory_take(MEMORY_EXTERNAL, (uintptr_t)extMem, &record);

	return memory_ended(REAL(cuDestroyExternalMemory)(extMem), known, &record);
}

/* ---- the sizes that a tenant sees ---- */

static void alloc_memory_info(const struct device *d, size_t *bytes_free, size_t *bytes_total)
{
	uint64_t quota = memory_quota_bytes(d), left = memory_left_bytes(d);

	/* the tenant cannot get more than the device has left */
	*bytes_free = *bytes_free < left ? *bytes_free : (size_t)left;
	*bytes_total = *bytes_total < quota ? *bytes_total : (size_t)quota;
}

EXPORT CUresult cuMemGetInfo_v2(size_t *free, size_t *total)
{
	CUcontext context;
	struct device *d;
	CUresult r = REAL(cuMemGetInfo_v2)(free, total);

	if (r != CUDA_SUCCESS || !free || !total)
		return r;
	deferred_settle(false);
	share_settle();
	memory_pools_settle();
	d = memory_device(&context);
	if (d)
		alloc_memory_info(d, free, total);
	return r;
}

EXPORT CUresult cuMemGetInfo(unsigned int *free, unsigned int *total)
{
	size_t wide_free, wide_total;
	CUresult r = REAL(cuMemGetInfo)(free, total);

	if (r != CUDA_SUCCESS || !free || !total)
		return r;
	r = cuMemGetInfo_v2(&wide_free, &wide_total);
	if (r == CUDA_SUCCESS) {
		*free = wide_free > UINT32_MAX ? UINT32_MAX : (unsigned int)wide_free;
		*total = wide_total > UINT32_MAX ? UINT32_MAX : (unsigned int)wide_total;
	}
	return r;
}

EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
	CUresult r = REAL(cuDeviceTotalMem_v2)(bytes, dev);
	struct device *d = device_of(dev);

	if (r == CUDA_SUCCESS && bytes && d && memory_quota_bytes(d) < *bytes)
		*bytes = (size_t)memory_quota_bytes(d);
	return r;
}

EXPORT CUresult cuDeviceTotalMem(unsigned int *bytes, CUdevice dev)
{
	CUresult r = REAL(cuDeviceTotalMem)(bytes, dev);
	struct device *d = device_of(dev);

	if (r == CUDA_SUCCESS && bytes && d && memory_quota_bytes(d) < *bytes)
		*bytes = (unsigned int)memory_quota_bytes(d);
	return r;
}
