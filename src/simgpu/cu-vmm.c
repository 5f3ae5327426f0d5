/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual memory management: reserved addresses, physical allocations, mappings between them and
 * access rights. Sizes and addresses are multiples of the 2 MiB granule, as on hardware.
 */
#include "simgpu/cu.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"

struct cu_vmm {
	void *handle;
	uint64_t engine_id;
	uint64_t size;
	int device;
	unsigned refs;
	bool shareable;
};

static CUresult vmm_get(CUmemGenericAllocationHandle handle, struct cu_vmm **ret)
{
	*ret = cu_handle_get((void *)(uintptr_t)handle, CU_KIND_VMM);
	return *ret ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult new_vmm(uint64_t engine_id, uint64_t size, int device, bool shareable,
	CUmemGenericAllocationHandle *ret)
{
	struct cu_vmm *vmm = calloc(1, sizeof(*vmm));

	CU_CHECK(vmm, CUDA_ERROR_OUT_OF_MEMORY);
	vmm->handle = cu_handle_new(CU_KIND_VMM, vmm);
	vmm->engine_id = engine_id;
	vmm->size = size;
	vmm->device = device;
	vmm->refs = 1;
	vmm->shareable = shareable;
	*ret = (uintptr_t)vmm->handle;
	return CUDA_SUCCESS;
}

static CUresult check_prop(const CUmemAllocationProp *prop, struct cu_device **ret)
{
	CU_CHECK(prop && prop->type == CU_MEM_ALLOCATION_TYPE_PINNED, CUDA_ERROR_INVALID_VALUE);
	CU_CHECK(prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE, CUDA_ERROR_NOT_SUPPORTED);
	CU_CHECK((prop->requestedHandleTypes &
			 ~(unsigned)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == 0,
		CUDA_ERROR_NOT_SUPPORTED);
	return cu_device_get(prop->location.id, ret);
}

CUresult simgpu_cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
	CUmemAllocationGranularity_flags option)
{
	struct cu_device *device;

	CU_TRY(check_prop(prop, &device));
	*granularity = SIMGPU_GRANULE;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuMemAddressReserve(
	CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr, unsigned long long flags)
{
	struct simgpu_request request = {
		.type = SIMGPU_MSG_VA_RESERVE, .ptr = addr, .arg = {size, alignment}};
	struct simgpu_reply reply;
	struct cu_range *range;

	CU_CHECK(size != 0 && size % SIMGPU_GRANULE == 0 && flags == 0 &&
			(alignment & (alignment - 1)) == 0,
		CUDA_ERROR_INVALID_VALUE);
	CU_TRY(cu_call(&request, &reply));
	range = cu_range_add(&cu.reserved, reply.ptr, size);
	CU_CHECK(range, CUDA_ERROR_OUT_OF_MEMORY);
	range->kind = CU_MEM_RESERVED;
	*ptr = reply.ptr;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
	struct simgpu_request request = {.type = SIMGPU_MSG_VA_FREE, .ptr = ptr, .arg = {size}};
	struct cu_range *range, *mapped;
	struct simgpu_reply reply;

	range = cu_range_find(&cu.reserved, ptr);
	CU_CHECK(range && range->base == ptr && range->size == size, CUDA_ERROR_INVALID_VALUE);
	mapped = cu_range_next(&cu.device_memory, ptr);
	CU_CHECK(!mapped || mapped->base >= ptr + size, CUDA_ERROR_INVALID_VALUE);
	CU_TRY(cu_call(&request, &reply));
	cu_range_remove(&cu.reserved, range);
	return CUDA_SUCCESS;
}

CUresult simgpu_cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
	const CUmemAllocationProp *prop, unsigned long long flags)
{
	struct simgpu_request request = {.type = SIMGPU_MSG_VMM_CREATE, .arg = {size}};
	struct cu_device *device;
	struct simgpu_reply reply;

	CU_TRY(check_prop(prop, &device));
	CU_CHECK(size != 0 && size % SIMGPU_GRANULE == 0, CUDA_ERROR_INVALID_VALUE);
	CU_TRY(cu_capture_check_unsafe());
	request.device = device->engine;
	CU_TRY(cu_call(&request, &reply));
	return new_vmm(reply.id, size, device->engine,
		prop->requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, handle);
}

/* The program owns the handle. The last release also drops the engine's reference. */
CUresult simgpu_cuMemRelease(CUmemGenericAllocationHandle handle)
{
	struct simgpu_request request = {.type = SIMGPU_MSG_VMM_RELEASE};
	struct simgpu_reply reply;
	struct cu_range *range;
	struct cu_vmm *vmm;

	CU_TRY(vmm_get(handle, &vmm));
	if (--vmm->refs != 0)
		return CUDA_SUCCESS;
	request.id = vmm->engine_id;
	CU_TRY(cu_call(&request, &reply));
	/* Mappings keep the memory but lose this handle. */
	for (uint64_t from = 0; (range = cu_range_next(&cu.device_memory, from));) {
		from = range->base + 1;
		if (range->vmm == vmm)
			range->vmm = NULL;
	}
	cu_handle_free(vmm->handle);
	free(vmm);
	return CUDA_SUCCESS;
}

CUresult simgpu_cuMemMap(CUdeviceptr ptr, size_t size, size_t offset,
	CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	struct simgpu_request request = {
		.type = SIMGPU_MSG_VMM_MAP, .ptr = ptr, .arg = {size, offset}};
	struct cu_range *range, *other;
	struct simgpu_reply reply;
	struct cu_vmm *vmm;

	CU_CHECK(flags == 0 && size != 0 && size % SIMGPU_GRANULE == 0 &&
			ptr % SIMGPU_GRANULE == 0 && offset % SIMGPU_GRANULE == 0,
		CUDA_ERROR_INVALID_VALUE);
	CU_TRY(vmm_get(handle, &vmm));
	CU_CHECK(offset <= vmm->size && size <= vmm->size - offset, CUDA_ERROR_INVALID_VALUE);
	range = cu_range_find(&cu.reserved, ptr);
	CU_CHECK(range && size <= range->base + range->size - ptr, CUDA_ERROR_INVALID_VALUE);
	other = cu_range_next(&cu.device_memory, ptr);
	CU_CHECK(!cu_range_find(&cu.device_memory, ptr) && (!other || other->base >= ptr + size),
		CUDA_ERROR_INVALID_VALUE);
	request.id = vmm->engine_id;
	CU_TRY(cu_call(&request, &reply));
	range = cu_range_add(&cu.device_memory, ptr, size);
	CU_CHECK(range, CUDA_ERROR_OUT_OF_MEMORY);
	range->kind = CU_MEM_MAPPED;
	range->device = vmm->device;
	range->vmm = vmm;
	range->vmm_id = vmm->engine_id;
	range->vmm_offset = offset;
	return CUDA_SUCCESS;
}

/*
 * Checks that [ptr, +size) is mapped without a gap. exactly: no mapping may extend beyond the
 * range.
 */
static CUresult whole_mappings(CUdeviceptr ptr, size_t size, bool exactly)
{
	uint64_t at = ptr, end = ptr + size;

	CU_CHECK(size != 0 && size % SIMGPU_GRANULE == 0 && ptr % SIMGPU_GRANULE == 0,
		CUDA_ERROR_INVALID_VALUE);
	while (at < end) {
		struct cu_range *range = cu_range_find(&cu.device_memory, at);

		CU_CHECK(range && range->kind == CU_MEM_MAPPED, CUDA_ERROR_INVALID_VALUE);
		CU_CHECK(!exactly || (range->base == at && range->base + range->size <= end),
			CUDA_ERROR_INVALID_VALUE);
		at = range->base + range->size;
	}
	return CUDA_SUCCESS;
}

CUresult simgpu_cuMemUnmap(CUdeviceptr ptr, size_t size)
{
	struct simgpu_request request = {.type = SIMGPU_MSG_VMM_UNMAP, .ptr = ptr, .arg = {size}};
	struct simgpu_reply reply;

	CU_TRY(whole_mappings(ptr, size, true));
	/* Work that uses the memory must end first; NVIDIA's driver synchronises too. */
	for (uint32_t i = 0; i < SIMGPU_MAX_CONTEXTS; i++)
		if (cu.contexts[i] && cu.contexts[i]->captures == 0)
			cu_wait_context(cu.contexts[i]);
	CU_TRY(whole_mappings(ptr, size, true));
	CU_TRY(cu_call(&request, &reply));
	while (size != 0) {
		struct cu_range *range = cu_range_find(&cu.device_memory, ptr);

		ptr += range->size;
		size -= range->size;
		cu_range_remove(&cu.device_memory, range);
	}
	return CUDA_SUCCESS;
}

CUresult simgpu_cuMemSetAccess(
	CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
	CU_TRY(whole_mappings(ptr, size, false));
	for (size_t i = 0; i < count; i++) {
		struct simgpu_request request = {
			.type = SIMGPU_MSG_VMM_ACCESS, .ptr = ptr, .arg = {size, desc[i].flags}};
		struct cu_device *device;
		struct simgpu_reply reply;

		CU_CHECK(desc[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE ||
				desc[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READ ||
				desc[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
			CUDA_ERROR_INVALID_VALUE);
		CU_CHECK(desc[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE,
			CUDA_ERROR_NOT_SUPPORTED);
		CU_TRY(cu_device_get(desc[i].location.id, &device));
		request.device = device->engine;
		CU_TRY(cu_call(&request, &reply));
		for (uint64_t at = ptr; at < ptr + size;) {
			struct cu_range *range = cu_range_find(&cu.device_memory, at);

			range->access[device->engine] = (uint8_t)desc[i].flags;
			at = range->base + range->size;
		}
	}
	return CUDA_SUCCESS;
}

CUresult simgpu_cuMemGetAccess(
	unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr)
{
	const struct cu_range *range;
	struct cu_device *device;

	CU_CHECK(location->type == CU_MEM_LOCATION_TYPE_DEVICE, CUDA_ERROR_INVALID_VALUE);
	CU_TRY(cu_device_get(location->id, &device));
	range = cu_range_find(&cu.device_memory, ptr);
	CU_CHECK(range && range->kind == CU_MEM_MAPPED, CUDA_ERROR_INVALID_VALUE);
	*flags = range->access[device->engine];
	return CUDA_SUCCESS;
}

CUresult simgpu_cuMemExportToShareableHandle(void *shareableHandle,
	CUmemGenericAllocationHandle handle, CUmemAllocationHandleType handleType,
	unsigned long long flags)
{
	struct simgpu_request request = {.type = SIMGPU_MSG_VMM_EXPORT};
	struct simgpu_reply reply;
	struct cu_vmm *vmm;
	int fd;

	CU_CHECK(handleType == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, CUDA_ERROR_NOT_SUPPORTED);
	CU_TRY(vmm_get(handle, &vmm));
	CU_CHECK(vmm->shareable, CUDA_ERROR_INVALID_VALUE);
	request.id = vmm->engine_id;
	CU_TRY(cu_call_fd(&request, -1, &reply, &fd));
	CU_CHECK(fd >= 0, CUDA_ERROR_UNKNOWN);
	*(int *)shareableHandle = fd;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *osHandle,
	CUmemAllocationHandleType shHandleType)
{
	struct simgpu_request request = {.type = SIMGPU_MSG_VMM_IMPORT};
	struct simgpu_reply reply;

	CU_CHECK(
		shHandleType == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, CUDA_ERROR_NOT_SUPPORTED);
	/* As documented, the pointer argument carries the descriptor itself. */
	CU_CHECK(fcntl((int)(intptr_t)osHandle, F_GETFD) >= 0, CUDA_ERROR_INVALID_VALUE);
	CU_TRY(cu_call_fd(&request, (int)(intptr_t)osHandle, &reply, NULL));
	return new_vmm(reply.id, reply.arg[0], reply.device, true, handle);
}

CUresult simgpu_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
	struct simgpu_request request = {.type = SIMGPU_MSG_VMM_RETAIN, .ptr = (uintptr_t)addr};
	struct simgpu_reply reply;
	struct cu_range *range;

	range = cu_range_find(&cu.device_memory, (uintptr_t)addr);
	CU_CHECK(range && range->kind == CU_MEM_MAPPED, CUDA_ERROR_INVALID_VALUE);
	if (range->vmm) {
		range->vmm->refs++;
		*handle = (uintptr_t)range->vmm->handle;
		return CUDA_SUCCESS;
	}
	CU_TRY(cu_call(&request, &reply));
	CU_TRY(new_vmm(reply.id, range->vmm_offset + range->size, range->device, false, handle));
	return vmm_get(*handle, &range->vmm);
}

CUresult simgpu_cuMemGetAllocationPropertiesFromHandle(
	CUmemAllocationProp *prop, struct cu_vmm *vmm)
{
	memset(prop, 0, sizeof(*prop));
	prop->type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop->location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop->location.id = cu_device_number(vmm->device);
	if (vmm->shareable)
		prop->requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	return CUDA_SUCCESS;
}
