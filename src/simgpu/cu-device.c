/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices: numbers, names, attributes, peer relations. Values that differ between models come from
 * the engine's state file, and values of a compute capability from simgpu-arch.h. All others are
 * the same for compute capabilities 7.0 to 12.0, from tables of the CUDA programming guide.
 */
#include "simgpu/cu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

CUresult simgpu_cuDeviceGet(CUdevice *device, int ordinal)
{
	CU_CHECK(ordinal >= 0 && ordinal < cu.n_devices, CUDA_ERROR_INVALID_DEVICE);
	*device = ordinal;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuDeviceGetCount(int *count)
{
	*count = cu.n_devices;
	return CUDA_SUCCESS;
}

static CUresult state_of(CUdevice number, const struct simgpu_state_device **ret)
{
	struct cu_device *device;

	CU_TRY(cu_device_get(number, &device));
	*ret = cu_device_state(device->engine);
	return CUDA_SUCCESS;
}

CUresult simgpu_cuDeviceGetName(char *name, int len, struct cu_device *device)
{
	const struct simgpu_state_device *d = cu_device_state(device->engine);

	snprintf(name, (size_t)len, "%s", d->name);
	return CUDA_SUCCESS;
}

CUresult simgpu_cuDeviceGetUuid_v2(CUuuid *uuid, struct cu_device *device)
{
	const struct simgpu_state_device *d = cu_device_state(device->engine);

	memcpy(uuid->bytes, d->uuid_bytes, sizeof(uuid->bytes));
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice dev)
{
	return cuDeviceGetUuid_v2(uuid, dev);
}

CUresult simgpu_cuDeviceTotalMem_v2(size_t *bytes, struct cu_device *device)
{
	const struct simgpu_state_device *d = cu_device_state(device->engine);

	*bytes = d->mem_total;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuDeviceComputeCapability(int *major, int *minor, struct cu_device *device)
{
	const struct simgpu_state_device *d = cu_device_state(device->engine);

	*major = (int)d->cc_major;
	*minor = (int)d->cc_minor;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuDeviceGetProperties(CUdevprop *prop, struct cu_device *device)
{
	const struct simgpu_state_device *d = cu_device_state(device->engine);

	*prop = (CUdevprop){
		.maxThreadsPerBlock = 1024,
		.maxThreadsDim = {1024, 1024, 64},
		.maxGridSize = {2147483647, 65535, 65535},
		.sharedMemPerBlock = 49152,
		.totalConstantMemory = 65536,
		.SIMDWidth = 32,
		.memPitch = 2147483647,
		.regsPerBlock = 65536,
		.clockRate = (int)d->clock_khz,
		.textureAlign = CU_TEXTURE_ALIGN,
	};
	return CUDA_SUCCESS;
}

/* Attributes that are the same on every simulated model. */
static const struct {
	int attribute, value;
} constants[] = {
	{CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
	{CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
	{CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
	{CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
	{CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647},
	{CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
	{CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
	{CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152},
	{CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536},
	{CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
	{CU_DEVICE_ATTRIBUTE_MAX_PITCH, 2147483647},
	{CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
	{CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, CU_TEXTURE_ALIGN},
	{CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1},
	{CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT, 0},
	{CU_DEVICE_ATTRIBUTE_INTEGRATED, 0},
	{CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
	{CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, 0},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH, 131072},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH, 131072},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT, 65536},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH, 16384},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT, 16384},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH, 16384},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_WIDTH, 32768},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_HEIGHT, 32768},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_LAYERS, 2048},
	{CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT, CU_TEXTURE_ALIGN},
	{CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
	{CU_DEVICE_ATTRIBUTE_ECC_ENABLED, 1},
	{CU_DEVICE_ATTRIBUTE_TCC_DRIVER, 0},
	{CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 2},
	{CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_WIDTH, 32768},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_LAYERS, 2048},
	{CU_DEVICE_ATTRIBUTE_CAN_TEX2D_GATHER, 1},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_WIDTH, 32768},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_HEIGHT, 32768},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE, 8192},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE, 8192},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE, 32768},
	{CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 32},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_WIDTH, 32768},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH, 32768},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS, 2046},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_WIDTH, 32768},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_WIDTH, 131072},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_HEIGHT, 65536},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_WIDTH, 16384},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_HEIGHT, 16384},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_DEPTH, 16384},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_WIDTH, 32768},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_LAYERS, 2048},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_WIDTH, 32768},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_HEIGHT, 32768},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_LAYERS, 2048},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_WIDTH, 32768},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH, 32768},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS, 2046},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH, 268435456},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH, 131072},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT, 65000},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH, 2097120},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH, 32768},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT, 32768},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH, 32768},
	{CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
	{CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1},
	{CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD, 0},
	{CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED, 0},
	{CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 1},
	{CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1},
	{CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
	{CU_DEVICE_ATTRIBUTE_COOPERATIVE_MULTI_DEVICE_LAUNCH, 1},
	{CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES, 0},
	{CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED, 0},
	{CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, 0},
	{CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 1},
	{CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, 1},
	{CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_NUMA_CONFIG, 0},
	{CU_DEVICE_ATTRIBUTE_NUMA_ID, -1},
	{CU_DEVICE_ATTRIBUTE_MPS_ENABLED, 0},
	{CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS, 1},
	{CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING, 100},
};

const struct simgpu_arch *cu_arch_of(const struct simgpu_state_device *d)
{
	return simgpu_arch_get(d->cc_major * 10 + d->cc_minor);
}

CUresult simgpu_cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)
{
	const struct simgpu_state_device *d;
	const struct simgpu_arch *arch;

	CU_TRY(state_of(dev, &d));
	arch = cu_arch_of(d);
	*pi = 0;
	switch ((int)attrib) {
	case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: *pi = (int)d->clock_khz; return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *pi = (int)d->sm_count; return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID: *pi = (int)d->pci_bus; return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID: *pi = (int)d->pci_device; return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID: *pi = (int)d->pci_domain; return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
		*pi = (int)d->mem_clock_khz;
		return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
		*pi = (int)d->mem_bus_bits;
		return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: *pi = (int)d->l2_bytes; return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE:
		*pi = d->cc_major >= 8 ? (int)(d->l2_bytes / 4 * 3) : 0;
		return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
		*pi = (int)d->cc_major;
		return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
		*pi = (int)d->cc_minor;
		return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
		*pi = (int)arch->shared_kib * 1024;
		return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
		*pi = (int)(arch->shared_kib - arch->reserved_kib) * 1024;
		return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK:
		*pi = (int)arch->reserved_kib * 1024;
		return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
		*pi = (int)arch->threads;
		return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
		*pi = (int)arch->blocks;
		return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO:
		*pi = (int)arch->fp64_ratio;
		return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE:
		*pi = d->cc_major >= 8 ? 134213632 : 0;
		return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH: *pi = d->cc_major >= 9; return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT:
		*pi = d->cc_major >= 9 ? 4 : 1;
		return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS:
		*pi = d->host_access != SIMGPU_HOST_ACCESS_NONE;
		return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES:
		*pi = d->host_access == SIMGPU_HOST_ACCESS_ATS;
		return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID: *pi = (int)d->numa; return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID: *pi = dev; return CUDA_SUCCESS;
	default: break;
	}
	/* An attribute in neither list reads as 0: simulated devices lack its feature. */
	for (size_t i = 0; i < ARRAY_SIZE(constants); i++)
		if (constants[i].attribute == (int)attrib)
			*pi = constants[i].value;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuDeviceGetPCIBusId(char *pciBusId, int len, struct cu_device *device)
{
	const struct simgpu_state_device *d = cu_device_state(device->engine);

	snprintf(pciBusId, (size_t)len, "%04X:%02X:%02X.0", d->pci_domain, d->pci_bus,
		d->pci_device);
	return CUDA_SUCCESS;
}

CUresult simgpu_cuDeviceGetByPCIBusId(CUdevice *dev, const char *pciBusId)
{
	unsigned domain = 0, bus, device, function = 0;

	if (sscanf(pciBusId, "%x:%x:%x.%x", &domain, &bus, &device, &function) < 3) {
		domain = 0;
		CU_CHECK(sscanf(pciBusId, "%x:%x.%x", &bus, &device, &function) >= 2,
			CUDA_ERROR_INVALID_VALUE);
	}
	for (int i = 0; i < cu.n_devices; i++) {
		const struct simgpu_state_device *d = cu_device_state(cu.devices[i].engine);

		if (d->pci_domain == domain && d->pci_bus == bus && d->pci_device == device) {
			*dev = i;
			return CUDA_SUCCESS;
		}
	}
	return CUDA_ERROR_INVALID_DEVICE;
}

CUresult simgpu_cuDeviceGetTexture1DLinearMaxWidth(
	size_t *maxWidthInElements, CUarray_format format, unsigned numChannels, CUdevice dev)
{
	unsigned bytes = cu_array_element_bytes(format, numChannels);
	const struct simgpu_state_device *d;

	CU_CHECK(bytes != 0, CUDA_ERROR_INVALID_VALUE);
	CU_TRY(state_of(dev, &d));
	*maxWidthInElements = 268435456u;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuDeviceGetExecAffinitySupport(
	int *pi, CUexecAffinityType type, struct cu_device *device)
{
	*pi = 0;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev)
{
	const struct simgpu_state_device *d, *peer;

	CU_TRY(state_of(dev, &d));
	CU_TRY(state_of(peerDev, &peer));
	*canAccessPeer = dev != peerDev;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuDeviceGetP2PAttribute(
	int *value, CUdevice_P2PAttribute attrib, struct cu_device *src, struct cu_device *dst)
{
	bool linked;

	CU_CHECK(src != dst, CUDA_ERROR_INVALID_DEVICE);
	linked = cu_device_state(src->engine)->nvlinks[dst->engine] != 0;
	switch ((int)attrib) {
	case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK: *value = linked ? 0 : 1; return CUDA_SUCCESS;
	case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
	case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED: *value = 1; return CUDA_SUCCESS;
	case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED: *value = linked; return CUDA_SUCCESS;
	default: return CUDA_ERROR_INVALID_VALUE;
	}
}

static CUresult cu_device_find_peer(
	struct cu_context *context, CUcontext peer_handle, struct cu_context **ret_peer)
{
	struct cu_context *peer = cu_context_get(peer_handle);

	CU_CHECK(peer && peer->device != context->device, CUDA_ERROR_INVALID_CONTEXT);
	*ret_peer = peer;
	return CUDA_SUCCESS;
}

static CUresult set_peer(struct cu_context *context, struct cu_context *peer, bool enable)
{
	struct simgpu_request request = {
		.type = SIMGPU_MSG_PEER_ACCESS,
		.context = context->slot,
		.device = peer->device,
		.arg = {enable},
	};
	struct simgpu_reply reply;

	CU_TRY(cu_call(&request, &reply));
	if (enable)
		context->peers |= 1u << peer->device;
	else
		context->peers &= ~(1u << peer->device);
	return CUDA_SUCCESS;
}

CUresult simgpu_cuCtxEnablePeerAccess(
	struct cu_context *ctx, CUcontext peerContext, unsigned int Flags)
{
	struct cu_context *peer;

	CU_TRY(cu_device_find_peer(ctx, peerContext, &peer));
	CU_CHECK((ctx->peers & 1u << peer->device) == 0, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
	return set_peer(ctx, peer, true);
}

CUresult simgpu_cuCtxDisablePeerAccess(struct cu_context *ctx, CUcontext peerContext)
{
	struct cu_context *peer;

	CU_TRY(cu_device_find_peer(ctx, peerContext, &peer));
	CU_CHECK((ctx->peers & 1u << peer->device) != 0, CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
	return set_peer(ctx, peer, false);
}
