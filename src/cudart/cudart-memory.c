/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocations, memsets, and what an address is. Allocations of 0 bytes succeed and give NULL, which
 * all functions that free accept.
 */
#include <string.h>

#include "cudart/cudart.h"
#include "cudart/cudart-entries.h"

/* The width of a row's elements, which the driver's pitched allocation asks for: 4, 8 or 16. */
#define PITCH_ELEMENT 4u
#define NO_DEVICE (-2) /* cudaInvalidDeviceId */

cudaError_t rt_cudaMalloc(void **devPtr, size_t size)
{
	RT_CHECK(devPtr, cudaErrorInvalidValue);
	*devPtr = NULL;
	return size ? rt_error(rt_driver.cuMemAlloc_v2((CUdeviceptr *)devPtr, size)) : cudaSuccess;
}

cudaError_t rt_cudaFree(void *devPtr)
{
	return devPtr ? rt_error(rt_driver.cuMemFree_v2(RT_PTR(devPtr))) : cudaSuccess;
}

cudaError_t rt_cudaHostAlloc(void **pHost, size_t size, unsigned int flags)
{
	RT_CHECK(pHost, cudaErrorInvalidValue);
	*pHost = NULL;
	return size ? rt_error(rt_driver.cuMemHostAlloc(pHost, size, flags)) : cudaSuccess;
}

cudaError_t rt_cudaMallocHost(void **ptr, size_t size)
{
	return rt_cudaHostAlloc(ptr, size, 0);
}

cudaError_t rt_cudaMallocManaged(void **devPtr, size_t size, unsigned int flags)
{
	RT_CHECK(devPtr && size, cudaErrorInvalidValue);
	RT_DRIVE(cuMemAllocManaged((CUdeviceptr *)devPtr, size, flags));
	return cudaSuccess;
}

cudaError_t rt_cudaMallocPitch(void **devPtr, size_t *pitch, size_t width, size_t height)
{
	RT_CHECK(devPtr && pitch, cudaErrorInvalidValue);
	*devPtr = NULL;
	*pitch = 0;
	if (!width || !height)
		return cudaSuccess;
	RT_DRIVE(cuMemAllocPitch_v2((CUdeviceptr *)devPtr, pitch, width, height, PITCH_ELEMENT));
	return cudaSuccess;
}

cudaError_t rt_cudaMalloc3D(struct cudaPitchedPtr *pitchedDevPtr, struct cudaExtent extent)
{
	size_t rows;

	RT_CHECK(pitchedDevPtr, cudaErrorInvalidValue);
	RT_CHECK(!__builtin_mul_overflow(extent.height, extent.depth, &rows),
		cudaErrorMemoryAllocation);
	*pitchedDevPtr = (struct cudaPitchedPtr){.xsize = extent.width, .ysize = extent.height};
	return rt_cudaMallocPitch(&pitchedDevPtr->ptr, &pitchedDevPtr->pitch, extent.width, rows);
}

cudaError_t rt_cudaMallocAsync(void **devPtr, size_t size, CUstream hStream)
{
	RT_CHECK(devPtr, cudaErrorInvalidValue);
	*devPtr = NULL;
	return size ? rt_error(rt_driver.cuMemAllocAsync(
			      (CUdeviceptr *)devPtr, size, rt_stream(hStream)))
		    : cudaSuccess;
}

cudaError_t rt_cudaMallocFromPoolAsync(
	void **ptr, size_t size, CUmemoryPool memPool, CUstream stream)
{
	RT_CHECK(ptr, cudaErrorInvalidValue);
	*ptr = NULL;
	return size ? rt_error(rt_driver.cuMemAllocFromPoolAsync(
			      (CUdeviceptr *)ptr, size, memPool, rt_stream(stream)))
		    : cudaSuccess;
}

/* ---- memsets ---- */

static cudaError_t fill(void *at, size_t pitch, int value, size_t width, size_t height,
	CUstream stream, bool is_async)
{
	const unsigned char byte = (unsigned char)value;
	const CUdeviceptr to = RT_PTR(at);
	CUresult result;

	if (!width || !height)
		return cudaSuccess;
	stream = rt_stream(stream);
	/* Without an own stream, the form without a stream acts on the default one. */
	if (!is_async && !stream)
		result = height == 1 ? rt_driver.cuMemsetD8_v2(to, byte, width)
				     : rt_driver.cuMemsetD2D8_v2(to, pitch, byte, width, height);
	else
		result = height == 1
			? rt_driver.cuMemsetD8Async(to, byte, width, stream)
			: rt_driver.cuMemsetD2D8Async(to, pitch, byte, width, height, stream);
	return rt_error(result);
}

cudaError_t rt_cudaMemset(void *devPtr, int value, size_t count)
{
	return fill(devPtr, 0, value, count, 1, NULL, false);
}

cudaError_t rt_cudaMemsetAsync(void *devPtr, int value, size_t count, CUstream stream)
{
	return fill(devPtr, 0, value, count, 1, stream, true);
}

cudaError_t rt_cudaMemset2D(void *devPtr, size_t pitch, int value, size_t width, size_t height)
{
	return fill(devPtr, pitch, value, width, height, NULL, false);
}

cudaError_t rt_cudaMemset2DAsync(
	void *devPtr, size_t pitch, int value, size_t width, size_t height, CUstream stream)
{
	return fill(devPtr, pitch, value, width, height, stream, true);
}

static cudaError_t fill_3d(const struct cudaPitchedPtr *p, int value, struct cudaExtent extent,
	CUstream stream, bool is_async)
{
	/* Slices without rows between them are one slice. */
	if (p->ysize == extent.height)
		return fill(p->ptr, p->pitch, value, extent.width, extent.height * extent.depth,
			stream, is_async);
	for (size_t z = 0; z < extent.depth; z++)
		RT_TRY(fill((char *)p->ptr + z * p->pitch * p->ysize, p->pitch, value, extent.width,
			extent.height, stream, is_async));
	return cudaSuccess;
}

cudaError_t rt_cudaMemset3D(
	struct cudaPitchedPtr pitchedDevPtr, int value, struct cudaExtent extent)
{
	return fill_3d(&pitchedDevPtr, value, extent, NULL, false);
}

cudaError_t rt_cudaMemset3DAsync(
	struct cudaPitchedPtr pitchedDevPtr, int value, struct cudaExtent extent, CUstream stream)
{
	return fill_3d(&pitchedDevPtr, value, extent, stream, true);
}

/* ---- addresses ---- */

cudaError_t rt_cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *ptr)
{
	unsigned int type = 0;
	unsigned int is_managed = 0;
	int device = NO_DEVICE;
	CUdeviceptr on_device = 0;
	void *on_host = NULL;
	CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
		CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
		CU_POINTER_ATTRIBUTE_HOST_POINTER, CU_POINTER_ATTRIBUTE_IS_MANAGED};
	void *values[] = {&type, &device, &on_device, &on_host, &is_managed};

	RT_CHECK(attributes, cudaErrorInvalidValue);
	RT_DRIVE(cuPointerGetAttributes(5, asked, values, RT_PTR(ptr)));
	memset(attributes, 0, sizeof(*attributes));
	if (!type) {
		attributes->type = cudaMemoryTypeUnregistered;
		attributes->device = NO_DEVICE;
		attributes->hostPointer = (void *)(uintptr_t)ptr;
		return cudaSuccess;
	}
	attributes->type = is_managed        ? cudaMemoryTypeManaged
		: type == CU_MEMORYTYPE_HOST ? cudaMemoryTypeHost
					     : cudaMemoryTypeDevice;
	attributes->device = device;
	attributes->devicePointer = (void *)(uintptr_t)on_device;
	attributes->hostPointer = on_host;
	return cudaSuccess;
}
