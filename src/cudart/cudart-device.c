/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices and their primary contexts. The runtime API has no contexts: each thread has a device,
 * and the first call that needs the device retains its primary context for the life of the process
 * and makes the context current. A context that the program made current by the driver API stays
 * current, as in NVIDIA's runtime.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/cleanup.h"
#include "cudart/cudart.h"
#include "cudart/cudart-entries.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CUcontext primary[RT_DEVICES]; /* under the lock; NULL: not retained */
static _Atomic unsigned int resets;   /* calls of cudaDeviceReset() */
static _Atomic int first_device;      /* of a thread that has chosen none */

static cudaError_t check_device(int device)
{
	int n;

	RT_DRIVE(cuDeviceGetCount(&n));
	return device >= 0 && device < n && device < RT_DEVICES ? cudaSuccess
								: cudaErrorInvalidDevice;
}

static int thread_device(void)
{
	return rt_thread.has_device ? rt_thread.device : atomic_load(&first_device);
}

cudaError_t rt_primary(int device, CUcontext *ret_context)
{
	cudaError_t error = check_device(device);

	if (error)
		return error;
	pthread_mutex_lock(&lock);
	if (!primary[device])
		error = rt_error(rt_driver.cuDevicePrimaryCtxRetain(&primary[device], device));
	*ret_context = primary[device];
	pthread_mutex_unlock(&lock);
	return error;
}

static cudaError_t make_current(int device)
{
	const unsigned int now = atomic_load(&resets);
	CUcontext context;

	RT_TRY(rt_primary(device, &context));
	RT_DRIVE(cuCtxSetCurrent(context));
	rt_thread.context = context;
	rt_thread.resets = now;
	return cudaSuccess;
}

cudaError_t rt_begin_device(void)
{
	CUcontext context = NULL;

	RT_TRY(rt_begin_driver());
	RT_DRIVE(cuCtxGetCurrent(&context));
	if (context && (context != rt_thread.context || rt_thread.resets == atomic_load(&resets)))
		return cudaSuccess;
	return make_current(thread_device());
}

CUcontext rt_context(void)
{
	CUcontext context = NULL;

	return rt_driver.cuCtxGetCurrent(&context) == CUDA_SUCCESS ? context : NULL;
}

cudaError_t rt_current_device(int *ret_device)
{
	CUcontext context = rt_context();
	CUdevice device;

	if (!context) {
		*ret_device = thread_device();
		return cudaSuccess;
	}
	RT_DRIVE(cuCtxGetDevice(&device));
	*ret_device = device;
	return cudaSuccess;
}

cudaError_t rt_cudaGetDeviceCount(int *count)
{
	cudaError_t error;

	RT_CHECK(count, cudaErrorInvalidValue);
	*count = 0;
	error = rt_begin_driver();
	return error ? error : rt_error(rt_driver.cuDeviceGetCount(count));
}

cudaError_t rt_cudaGetDevice(int *device)
{
	RT_CHECK(device, cudaErrorInvalidValue);
	return rt_current_device(device);
}

cudaError_t rt_cudaSetDevice(int device)
{
	RT_TRY(check_device(device));
	rt_thread.device = device;
	rt_thread.has_device = true;
	return make_current(device);
}

cudaError_t rt_cudaInitDevice(int device, unsigned int deviceFlags, unsigned int flags)
{
	CUcontext context;

	RT_TRY(check_device(device));
	/* flag 1: deviceFlags hold */
	RT_CHECK(!(flags & ~1u), cudaErrorInvalidValue);
	if (flags & 1u)
		RT_DRIVE(cuDevicePrimaryCtxSetFlags_v2(
			device, deviceFlags & ~(unsigned)CU_CTX_MAP_HOST));
	return rt_primary(device, &context);
}

cudaError_t rt_cudaSetValidDevices(int *device_arr, int len)
{
	int n;

	RT_DRIVE(cuDeviceGetCount(&n));
	RT_CHECK(len >= 0 && len <= n && (device_arr || !len), cudaErrorInvalidValue);
	for (int i = 0; i < len; i++)
		RT_TRY(check_device(device_arr[i]));
	atomic_store(&first_device, len ? device_arr[0] : 0);
	return cudaSuccess;
}

/* Mapped host memory needs no flag in the runtime API, which reports the flag as set. */
cudaError_t rt_cudaSetDeviceFlags(unsigned int flags)
{
	RT_CHECK(!(flags & ~(unsigned)CU_CTX_FLAGS_MASK), cudaErrorInvalidValue);
	RT_DRIVE(
		cuDevicePrimaryCtxSetFlags_v2(thread_device(), flags & ~(unsigned)CU_CTX_MAP_HOST));
	return cudaSuccess;
}

cudaError_t rt_cudaGetDeviceFlags(unsigned int *flags)
{
	int device, is_active;

	RT_CHECK(flags, cudaErrorInvalidValue);
	RT_TRY(rt_current_device(&device));
	RT_DRIVE(cuDevicePrimaryCtxGetState(device, flags, &is_active));
	*flags |= CU_CTX_MAP_HOST;
	return cudaSuccess;
}

/* The next call of any thread that used the context retains the new one (resets). */
cudaError_t rt_cudaDeviceReset(void)
{
	int device;
	cudaError_t error;

	RT_TRY(rt_current_device(&device));
	RT_TRY(check_device(device));
	pthread_mutex_lock(&lock);
	error = rt_error(rt_driver.cuDevicePrimaryCtxReset_v2(device));
	if (!error && primary[device]) {
		rt_driver.cuDevicePrimaryCtxRelease_v2(device);
		primary[device] = NULL;
	}
	atomic_fetch_add(&resets, 1);
	pthread_mutex_unlock(&lock);
	rt_thread.last_error = cudaSuccess;
	return error;
}

#if CUDART_MAJOR == 12
cudaError_t rt_cudaThreadExit(void)
{
	return rt_cudaDeviceReset();
}
#endif

/* ---- versions ---- */

cudaError_t rt_cudaRuntimeGetVersion(int *runtimeVersion)
{
	RT_CHECK(runtimeVersion, cudaErrorInvalidValue);
	*runtimeVersion = CUDART_VERSION;
	return cudaSuccess;
}

cudaError_t rt_cudaDriverGetVersion(int *driverVersion)
{
	RT_CHECK(driverVersion, cudaErrorInvalidValue);
	*driverVersion = 0;
	return rt_open_driver() ? cudaSuccess
				: rt_error(rt_driver.cuDriverGetVersion(driverVersion));
}

/* In the functions for the per-thread default stream, the default form is the per-thread one. */
cudaError_t rt_cudaGetDriverEntryPointByVersion(const char *symbol, void **funcPtr,
	unsigned int cudaVersion, unsigned long long flags,
	CUdriverProcAddressQueryResult *driverStatus)
{
	RT_CHECK(symbol && funcPtr, cudaErrorInvalidValue);
	if (!flags && rt_thread.per_thread)
		flags = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
	RT_DRIVE(cuGetProcAddress_v2(symbol, funcPtr, (int)cudaVersion, flags, driverStatus));
	return cudaSuccess;
}

cudaError_t rt_cudaGetDriverEntryPoint(const char *symbol, void **funcPtr, unsigned long long flags,
	CUdriverProcAddressQueryResult *driverStatus)
{
	return rt_cudaGetDriverEntryPointByVersion(
		symbol, funcPtr, CUDART_VERSION, flags, driverStatus);
}

/* ---- peers ---- */

cudaError_t rt_cudaDeviceEnablePeerAccess(int peerDevice, unsigned int flags)
{
	CUcontext peer;

	RT_TRY(rt_primary(peerDevice, &peer));
	RT_DRIVE(cuCtxEnablePeerAccess(peer, flags));
	return cudaSuccess;
}

cudaError_t rt_cudaDeviceDisablePeerAccess(int peerDevice)
{
	CUcontext peer;

	RT_TRY(rt_primary(peerDevice, &peer));
	RT_DRIVE(cuCtxDisablePeerAccess(peer));
	return cudaSuccess;
}

/* ---- properties ---- */

#define PROP(field, attribute) \
	{ \
		offsetof(struct cudaDeviceProp, field), \
			sizeof(((struct cudaDeviceProp *)0)->field), \
			CU_DEVICE_ATTRIBUTE_##attribute \
	}

/* Each field is an int or a size_t. */
static const struct {
	uint16_t offset, bytes;
	uint16_t attribute;
} props[] = {
	PROP(sharedMemPerBlock, MAX_SHARED_MEMORY_PER_BLOCK),
	PROP(regsPerBlock, MAX_REGISTERS_PER_BLOCK),
	PROP(warpSize, WARP_SIZE),
	PROP(memPitch, MAX_PITCH),
	PROP(maxThreadsPerBlock, MAX_THREADS_PER_BLOCK),
	PROP(maxThreadsDim[0], MAX_BLOCK_DIM_X),
	PROP(maxThreadsDim[1], MAX_BLOCK_DIM_Y),
	PROP(maxThreadsDim[2], MAX_BLOCK_DIM_Z),
	PROP(maxGridSize[0], MAX_GRID_DIM_X),
	PROP(maxGridSize[1], MAX_GRID_DIM_Y),
	PROP(maxGridSize[2], MAX_GRID_DIM_Z),
	PROP(totalConstMem, TOTAL_CONSTANT_MEMORY),
	PROP(major, COMPUTE_CAPABILITY_MAJOR),
	PROP(minor, COMPUTE_CAPABILITY_MINOR),
	PROP(textureAlignment, TEXTURE_ALIGNMENT),
	PROP(texturePitchAlignment, TEXTURE_PITCH_ALIGNMENT),
	PROP(multiProcessorCount, MULTIPROCESSOR_COUNT),
	PROP(integrated, INTEGRATED),
	PROP(canMapHostMemory, CAN_MAP_HOST_MEMORY),
	PROP(maxTexture1D, MAXIMUM_TEXTURE1D_WIDTH),
	PROP(maxTexture1DMipmap, MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH),
	PROP(maxTexture2D[0], MAXIMUM_TEXTURE2D_WIDTH),
	PROP(maxTexture2D[1], MAXIMUM_TEXTURE2D_HEIGHT),
	PROP(maxTexture2DMipmap[0], MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH),
	PROP(maxTexture2DMipmap[1], MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT),
	PROP(maxTexture2DLinear[0], MAXIMUM_TEXTURE2D_LINEAR_WIDTH),
	PROP(maxTexture2DLinear[1], MAXIMUM_TEXTURE2D_LINEAR_HEIGHT),
	PROP(maxTexture2DLinear[2], MAXIMUM_TEXTURE2D_LINEAR_PITCH),
	PROP(maxTexture2DGather[0], MAXIMUM_TEXTURE2D_GATHER_WIDTH),
	PROP(maxTexture2DGather[1], MAXIMUM_TEXTURE2D_GATHER_HEIGHT),
	PROP(maxTexture3D[0], MAXIMUM_TEXTURE3D_WIDTH),
	PROP(maxTexture3D[1], MAXIMUM_TEXTURE3D_HEIGHT),
	PROP(maxTexture3D[2], MAXIMUM_TEXTURE3D_DEPTH),
	PROP(maxTexture3DAlt[0], MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE),
	PROP(maxTexture3DAlt[1], MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE),
	PROP(maxTexture3DAlt[2], MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE),
	PROP(maxTextureCubemap, MAXIMUM_TEXTURECUBEMAP_WIDTH),
	PROP(maxTexture1DLayered[0], MAXIMUM_TEXTURE1D_LAYERED_WIDTH),
	PROP(maxTexture1DLayered[1], MAXIMUM_TEXTURE1D_LAYERED_LAYERS),
	PROP(maxTexture2DLayered[0], MAXIMUM_TEXTURE2D_LAYERED_WIDTH),
	PROP(maxTexture2DLayered[1], MAXIMUM_TEXTURE2D_LAYERED_HEIGHT),
	PROP(maxTexture2DLayered[2], MAXIMUM_TEXTURE2D_LAYERED_LAYERS),
	PROP(maxTextureCubemapLayered[0], MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH),
	PROP(maxTextureCubemapLayered[1], MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS),
	PROP(maxSurface1D, MAXIMUM_SURFACE1D_WIDTH),
	PROP(maxSurface2D[0], MAXIMUM_SURFACE2D_WIDTH),
	PROP(maxSurface2D[1], MAXIMUM_SURFACE2D_HEIGHT),
	PROP(maxSurface3D[0], MAXIMUM_SURFACE3D_WIDTH),
	PROP(maxSurface3D[1], MAXIMUM_SURFACE3D_HEIGHT),
	PROP(maxSurface3D[2], MAXIMUM_SURFACE3D_DEPTH),
	PROP(maxSurface1DLayered[0], MAXIMUM_SURFACE1D_LAYERED_WIDTH),
	PROP(maxSurface1DLayered[1], MAXIMUM_SURFACE1D_LAYERED_LAYERS),
	PROP(maxSurface2DLayered[0], MAXIMUM_SURFACE2D_LAYERED_WIDTH),
	PROP(maxSurface2DLayered[1], MAXIMUM_SURFACE2D_LAYERED_HEIGHT),
	PROP(maxSurface2DLayered[2], MAXIMUM_SURFACE2D_LAYERED_LAYERS),
	PROP(maxSurfaceCubemap, MAXIMUM_SURFACECUBEMAP_WIDTH),
	PROP(maxSurfaceCubemapLayered[0], MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH),
	PROP(maxSurfaceCubemapLayered[1], MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS),
	PROP(surfaceAlignment, SURFACE_ALIGNMENT),
	PROP(concurrentKernels, CONCURRENT_KERNELS),
	PROP(ECCEnabled, ECC_ENABLED),
	PROP(pciBusID, PCI_BUS_ID),
	PROP(pciDeviceID, PCI_DEVICE_ID),
	PROP(pciDomainID, PCI_DOMAIN_ID),
	PROP(tccDriver, TCC_DRIVER),
	PROP(asyncEngineCount, ASYNC_ENGINE_COUNT),
	PROP(unifiedAddressing, UNIFIED_ADDRESSING),
	PROP(memoryBusWidth, GLOBAL_MEMORY_BUS_WIDTH),
	PROP(l2CacheSize, L2_CACHE_SIZE),
	PROP(persistingL2CacheMaxSize, MAX_PERSISTING_L2_CACHE_SIZE),
	PROP(maxThreadsPerMultiProcessor, MAX_THREADS_PER_MULTIPROCESSOR),
	PROP(streamPrioritiesSupported, STREAM_PRIORITIES_SUPPORTED),
	PROP(globalL1CacheSupported, GLOBAL_L1_CACHE_SUPPORTED),
	PROP(localL1CacheSupported, LOCAL_L1_CACHE_SUPPORTED),
	PROP(sharedMemPerMultiprocessor, MAX_SHARED_MEMORY_PER_MULTIPROCESSOR),
	PROP(regsPerMultiprocessor, MAX_REGISTERS_PER_MULTIPROCESSOR),
	PROP(managedMemory, MANAGED_MEMORY),
	PROP(isMultiGpuBoard, MULTI_GPU_BOARD),
	PROP(multiGpuBoardGroupID, MULTI_GPU_BOARD_GROUP_ID),
	PROP(hostNativeAtomicSupported, HOST_NATIVE_ATOMIC_SUPPORTED),
	PROP(pageableMemoryAccess, PAGEABLE_MEMORY_ACCESS),
	PROP(concurrentManagedAccess, CONCURRENT_MANAGED_ACCESS),
	PROP(computePreemptionSupported, COMPUTE_PREEMPTION_SUPPORTED),
	PROP(canUseHostPointerForRegisteredMem, CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM),
	PROP(cooperativeLaunch, COOPERATIVE_LAUNCH),
	PROP(sharedMemPerBlockOptin, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
	PROP(pageableMemoryAccessUsesHostPageTables, PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES),
	PROP(directManagedMemAccessFromHost, DIRECT_MANAGED_MEM_ACCESS_FROM_HOST),
	PROP(maxBlocksPerMultiProcessor, MAX_BLOCKS_PER_MULTIPROCESSOR),
	PROP(accessPolicyMaxWindowSize, MAX_ACCESS_POLICY_WINDOW_SIZE),
	PROP(reservedSharedMemPerBlock, RESERVED_SHARED_MEMORY_PER_BLOCK),
	PROP(hostRegisterSupported, HOST_REGISTER_SUPPORTED),
	PROP(sparseCudaArraySupported, SPARSE_CUDA_ARRAY_SUPPORTED),
	PROP(hostRegisterReadOnlySupported, READ_ONLY_HOST_REGISTER_SUPPORTED),
	PROP(timelineSemaphoreInteropSupported, TIMELINE_SEMAPHORE_INTEROP_SUPPORTED),
	PROP(memoryPoolsSupported, MEMORY_POOLS_SUPPORTED),
	PROP(gpuDirectRDMASupported, GPU_DIRECT_RDMA_SUPPORTED),
	PROP(gpuDirectRDMAFlushWritesOptions, GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS),
	PROP(gpuDirectRDMAWritesOrdering, GPU_DIRECT_RDMA_WRITES_ORDERING),
	PROP(memoryPoolSupportedHandleTypes, MEMPOOL_SUPPORTED_HANDLE_TYPES),
	PROP(deferredMappingCudaArraySupported, DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED),
	PROP(ipcEventSupported, IPC_EVENT_SUPPORTED),
	PROP(clusterLaunch, CLUSTER_LAUNCH),
	PROP(unifiedFunctionPointers, UNIFIED_FUNCTION_POINTERS),
#if CUDART_MAJOR == 12
	PROP(clockRate, CLOCK_RATE),
	PROP(deviceOverlap, GPU_OVERLAP),
	PROP(kernelExecTimeoutEnabled, KERNEL_EXEC_TIMEOUT),
	PROP(computeMode, COMPUTE_MODE),
	PROP(maxTexture1DLinear, MAXIMUM_TEXTURE1D_LINEAR_WIDTH),
	PROP(memoryClockRate, MEMORY_CLOCK_RATE),
	PROP(singleToDoublePrecisionPerfRatio, SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO),
	PROP(cooperativeMultiDeviceLaunch, COOPERATIVE_MULTI_DEVICE_LAUNCH),
#else
	PROP(deviceNumaConfig, NUMA_CONFIG),
	PROP(deviceNumaId, NUMA_ID),
	PROP(mpsEnabled, MPS_ENABLED),
	PROP(hostNumaId, HOST_NUMA_ID),
	PROP(gpuPciDeviceID, GPU_PCI_DEVICE_ID),
	PROP(gpuPciSubsystemID, GPU_PCI_SUBSYSTEM_ID),
	PROP(hostNumaMultinodeIpcSupported, HOST_NUMA_MULTINODE_IPC_SUPPORTED),
#endif
};

static cudaError_t read_properties(struct cudaDeviceProp *ret, int device)
{
	RT_TRY(check_device(device));
	memset(ret, 0, sizeof(*ret));
	RT_DRIVE(cuDeviceGetName(ret->name, sizeof(ret->name), device));
	RT_DRIVE(cuDeviceGetUuid_v2(&ret->uuid, device));
	RT_DRIVE(cuDeviceTotalMem_v2(&ret->totalGlobalMem, device));
	for (size_t i = 0; i < ARRAY_SIZE(props); i++) {
		char *at = (char *)ret + props[i].offset;
		int value = 0;
		size_t wide;

		/* An older driver at the other end of a remote device lacks the newest ones. */
		if (rt_driver.cuDeviceGetAttribute(
			    &value, (CUdevice_attribute)props[i].attribute, device))
			value = 0;
		wide = (size_t)value;
		if (props[i].bytes == sizeof(wide))
			memcpy(at, &wide, sizeof(wide));
		else
			memcpy(at, &value, sizeof(value));
	}
	return cudaSuccess;
}

#if CUDART_MAJOR == 12
cudaError_t rt_cudaGetDeviceProperties_v2(struct cudaDeviceProp *prop, int device)
{
	RT_CHECK(prop, cudaErrorInvalidValue);
	return read_properties(prop, device);
}

/* Programs that were built with CUDA 11 have a shorter struct, with the same first fields. */
cudaError_t rt_cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
	struct cudaDeviceProp all;

	RT_CHECK(prop, cudaErrorInvalidValue);
	RT_TRY(read_properties(&all, device));
	memcpy(prop, &all, offsetof(struct cudaDeviceProp, hostRegisterSupported));
	return cudaSuccess;
}
#else
cudaError_t rt_cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
	RT_CHECK(prop, cudaErrorInvalidValue);
	return read_properties(prop, device);
}
#endif

/* The first device that has at least the wanted version, memory and name. */
cudaError_t rt_cudaChooseDevice(int *device, const struct cudaDeviceProp *prop)
{
	struct cudaDeviceProp found;
	int n, best = -1;

	RT_CHECK(device && prop, cudaErrorInvalidValue);
	RT_DRIVE(cuDeviceGetCount(&n));
	for (int i = 0, most = 0; i < n; i++) {
		int fits = 1;

		RT_TRY(read_properties(&found, i));
		fits += found.major > prop->major ||
			(found.major == prop->major && found.minor >= prop->minor);
		fits += found.totalGlobalMem >= prop->totalGlobalMem;
		fits += found.multiProcessorCount >= prop->multiProcessorCount;
		fits += !prop->name[0] || !strncmp(found.name, prop->name, sizeof(found.name));
		if (fits > most) {
			most = fits;
			best = i;
		}
	}
	RT_CHECK(best >= 0, cudaErrorNoDevice);
	*device = best;
	return cudaSuccess;
}

cudaError_t rt_cudaDeviceGetTexture1DLinearMaxWidth(
	size_t *maxWidthInElements, const struct cudaChannelFormatDesc *fmtDesc, int device)
{
	CUarray_format format;
	unsigned int n;

	RT_CHECK(maxWidthInElements && fmtDesc, cudaErrorInvalidValue);
	RT_TRY(rt_format(fmtDesc, &format, &n));
	RT_DRIVE(cuDeviceGetTexture1DLinearMaxWidth(maxWidthInElements, format, n, device));
	return cudaSuccess;
}
