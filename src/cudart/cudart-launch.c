/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches, attributes and occupancy of kernels. `kernel<<<...>>>(arguments)` is a push of the
 * configuration, the arguments, and a function of the program that pops the configuration and
 * launches.
 */
#include <string.h>

#include "cudart/cudart.h"
#include "cudart/cudart-entries.h"

RT_EXPORT unsigned int __cudaPushCallConfiguration(
	struct dim3 grid, struct dim3 block, size_t shared_bytes, CUstream stream);
RT_EXPORT cudaError_t __cudaPopCallConfiguration(
	struct dim3 *grid, struct dim3 *block, size_t *shared_bytes, void *stream);

/* Not 0: the program does not launch. */
RT_EXPORT unsigned int __cudaPushCallConfiguration(
	struct dim3 grid, struct dim3 block, size_t shared_bytes, CUstream stream)
{
	if (rt_thread.n_launches == RT_LAUNCHES)
		return (unsigned int)rt_end(cudaErrorMissingConfiguration);
	rt_thread.launch[rt_thread.n_launches++] = (struct rt_launch){
		.grid = grid, .block = block, .shared_bytes = shared_bytes, .stream = stream};
	return 0;
}

RT_EXPORT cudaError_t __cudaPopCallConfiguration(
	struct dim3 *grid, struct dim3 *block, size_t *shared_bytes, void *stream)
{
	const struct rt_launch *l;

	if (!rt_thread.n_launches)
		return rt_end(cudaErrorMissingConfiguration);
	l = &rt_thread.launch[--rt_thread.n_launches];
	*grid = l->grid;
	*block = l->block;
	*shared_bytes = l->shared_bytes;
	memcpy(stream, &l->stream, sizeof(l->stream));
	return cudaSuccess;
}

/* The driver has one code for wrong values; the runtime has one for the configuration alone. */
static cudaError_t launch_error(CUresult result)
{
	return result == CUDA_ERROR_INVALID_VALUE ? cudaErrorInvalidConfiguration
						  : rt_error(result);
}

/*
 * A remote driver reports errors of launches later, under the driver's code. No device has larger
 * blocks: a program that finds out what a device allows gets the answer at once.
 */
static cudaError_t check_size(struct dim3 grid, struct dim3 block, size_t shared_bytes)
{
	const uint64_t threads = (uint64_t)block.x * block.y;

	RT_CHECK(grid.x && grid.y && grid.z && threads && block.z, cudaErrorInvalidConfiguration);
	RT_CHECK(threads <= RT_BLOCK_THREADS && threads * block.z <= RT_BLOCK_THREADS,
		cudaErrorInvalidConfiguration);
	RT_CHECK(shared_bytes <= UINT32_MAX, cudaErrorInvalidConfiguration);
	return cudaSuccess;
}

cudaError_t rt_cudaLaunchKernel(const void *func, struct dim3 gridDim, struct dim3 blockDim,
	void **args, size_t sharedMem, CUstream stream)
{
	CUkernel kernel;

	RT_TRY(rt_kernel(func, &kernel));
	RT_TRY(check_size(gridDim, blockDim, sharedMem));
	return launch_error(rt_driver.cuLaunchKernel((CUfunction)kernel, gridDim.x, gridDim.y,
		gridDim.z, blockDim.x, blockDim.y, blockDim.z, (unsigned int)sharedMem,
		rt_stream(stream), args, NULL));
}

cudaError_t rt___cudaLaunchKernel(CUkernel kernel, struct dim3 gridDim, struct dim3 blockDim,
	void **args, size_t sharedMem, CUstream stream)
{
	return rt_cudaLaunchKernel(kernel, gridDim, blockDim, args, sharedMem, stream);
}

cudaError_t rt_cudaLaunchCooperativeKernel(const void *func, struct dim3 gridDim,
	struct dim3 blockDim, void **args, size_t sharedMem, CUstream stream)
{
	CUkernel kernel;

	RT_TRY(rt_kernel(func, &kernel));
	RT_TRY(check_size(gridDim, blockDim, sharedMem));
	return launch_error(rt_driver.cuLaunchCooperativeKernel((CUfunction)kernel, gridDim.x,
		gridDim.y, gridDim.z, blockDim.x, blockDim.y, blockDim.z, (unsigned int)sharedMem,
		rt_stream(stream), args));
}

static cudaError_t config_of(const struct cudaLaunchConfig *config, CUlaunchConfig *ret)
{
	RT_CHECK(config, cudaErrorInvalidValue);
	RT_TRY(check_size(config->gridDim, config->blockDim, config->dynamicSmemBytes));
	*ret = (CUlaunchConfig){
		.gridDimX = config->gridDim.x,
		.gridDimY = config->gridDim.y,
		.gridDimZ = config->gridDim.z,
		.blockDimX = config->blockDim.x,
		.blockDimY = config->blockDim.y,
		.blockDimZ = config->blockDim.z,
		.sharedMemBytes = (unsigned int)config->dynamicSmemBytes,
		.hStream = rt_stream(config->stream),
		.attrs = config->attrs,
		.numAttrs = config->numAttrs,
	};
	return cudaSuccess;
}

cudaError_t rt_cudaLaunchKernelExC(
	const struct cudaLaunchConfig *config, const void *func, void **args)
{
	CUlaunchConfig c;
	CUkernel kernel;

	RT_TRY(config_of(config, &c));
	RT_TRY(rt_kernel(func, &kernel));
	return launch_error(rt_driver.cuLaunchKernelEx(&c, (CUfunction)kernel, args, NULL));
}

/* ---- attributes ---- */

#define ATTRIBUTE(field, name) \
	{ \
		offsetof(struct cudaFuncAttributes, field), CU_FUNC_ATTRIBUTE_##name \
	}

static const struct {
	uint16_t offset, attribute;
} wide_attributes[] =
	{
		ATTRIBUTE(sharedSizeBytes, SHARED_SIZE_BYTES),
		ATTRIBUTE(constSizeBytes, CONST_SIZE_BYTES),
		ATTRIBUTE(localSizeBytes, LOCAL_SIZE_BYTES),
},
  int_attributes[] = {
	  ATTRIBUTE(maxThreadsPerBlock, MAX_THREADS_PER_BLOCK),
	  ATTRIBUTE(numRegs, NUM_REGS),
	  ATTRIBUTE(ptxVersion, PTX_VERSION),
	  ATTRIBUTE(binaryVersion, BINARY_VERSION),
	  ATTRIBUTE(cacheModeCA, CACHE_MODE_CA),
	  ATTRIBUTE(maxDynamicSharedSizeBytes, MAX_DYNAMIC_SHARED_SIZE_BYTES),
	  ATTRIBUTE(preferredShmemCarveout, PREFERRED_SHARED_MEMORY_CARVEOUT),
	  ATTRIBUTE(clusterDimMustBeSet, CLUSTER_SIZE_MUST_BE_SET),
	  ATTRIBUTE(requiredClusterWidth, REQUIRED_CLUSTER_WIDTH),
	  ATTRIBUTE(requiredClusterHeight, REQUIRED_CLUSTER_HEIGHT),
	  ATTRIBUTE(requiredClusterDepth, REQUIRED_CLUSTER_DEPTH),
	  ATTRIBUTE(clusterSchedulingPolicyPreference, CLUSTER_SCHEDULING_POLICY_PREFERENCE),
	  ATTRIBUTE(nonPortableClusterSizeAllowed, NON_PORTABLE_CLUSTER_SIZE_ALLOWED),
};

cudaError_t rt_cudaFuncGetAttributes(struct cudaFuncAttributes *attr, const void *func)
{
	struct cudaFuncAttributes found = {0};
	CUfunction function;

	RT_CHECK(attr, cudaErrorInvalidValue);
	RT_TRY(rt_function(func, &function));
	for (size_t i = 0; i < sizeof(wide_attributes) / sizeof(wide_attributes[0]); i++) {
		int value;
		size_t wide;

		RT_DRIVE(cuFuncGetAttribute(
			&value, (CUfunction_attribute)wide_attributes[i].attribute, function));
		wide = (size_t)value;
		memcpy((char *)&found + wide_attributes[i].offset, &wide, sizeof(wide));
	}
	for (size_t i = 0; i < sizeof(int_attributes) / sizeof(int_attributes[0]); i++) {
		int value;

		RT_DRIVE(cuFuncGetAttribute(
			&value, (CUfunction_attribute)int_attributes[i].attribute, function));
		memcpy((char *)&found + int_attributes[i].offset, &value, sizeof(value));
	}
	*attr = found;
	return cudaSuccess;
}

/* Attributes that programs set hold in the current context, where the launches are. */
cudaError_t rt_cudaFuncSetAttribute(const void *func, CUfunction_attribute attr, int value)
{
	CUfunction function;

	RT_TRY(rt_function(func, &function));
	RT_DRIVE(cuFuncSetAttribute(function, attr, value));
	return cudaSuccess;
}

cudaError_t rt_cudaFuncSetCacheConfig(const void *func, CUfunc_cache cacheConfig)
{
	CUfunction function;

	RT_TRY(rt_function(func, &function));
	RT_DRIVE(cuFuncSetCacheConfig(function, cacheConfig));
	return cudaSuccess;
}

cudaError_t rt_cudaFuncSetSharedMemConfig(const void *func, CUsharedconfig config)
{
	CUfunction function;

	RT_TRY(rt_function(func, &function));
	RT_DRIVE(cuFuncSetSharedMemConfig(function, config));
	return cudaSuccess;
}

cudaError_t rt_cudaFuncGetName(const char **name, const void *func)
{
	CUkernel kernel;

	RT_TRY(rt_kernel(func, &kernel));
	RT_DRIVE(cuKernelGetName(name, kernel));
	return cudaSuccess;
}

cudaError_t rt_cudaFuncGetParamInfo(
	const void *func, size_t paramIndex, size_t *paramOffset, size_t *paramSize)
{
	CUkernel kernel;

	RT_TRY(rt_kernel(func, &kernel));
	RT_DRIVE(cuKernelGetParamInfo(kernel, paramIndex, paramOffset, paramSize));
	return cudaSuccess;
}

/* ---- occupancy ---- */

cudaError_t rt_cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
	int *numBlocks, const void *func, int blockSize, size_t dynamicSMemSize, unsigned int flags)
{
	CUfunction function;

	RT_TRY(rt_function(func, &function));
	RT_DRIVE(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
		numBlocks, function, blockSize, dynamicSMemSize, flags));
	return cudaSuccess;
}

cudaError_t rt_cudaOccupancyMaxActiveBlocksPerMultiprocessor(
	int *numBlocks, const void *func, int blockSize, size_t dynamicSMemSize)
{
	return rt_cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
		numBlocks, func, blockSize, dynamicSMemSize, 0);
}

cudaError_t rt_cudaOccupancyAvailableDynamicSMemPerBlock(
	size_t *dynamicSmemSize, const void *func, int numBlocks, int blockSize)
{
	CUfunction function;

	RT_TRY(rt_function(func, &function));
	RT_DRIVE(cuOccupancyAvailableDynamicSMemPerBlock(
		dynamicSmemSize, function, numBlocks, blockSize));
	return cudaSuccess;
}

cudaError_t rt_cudaOccupancyMaxActiveClusters(
	int *numClusters, const void *func, const struct cudaLaunchConfig *launchConfig)
{
	CUfunction function;
	CUlaunchConfig config;

	RT_TRY(config_of(launchConfig, &config));
	RT_TRY(rt_function(func, &function));
	RT_DRIVE(cuOccupancyMaxActiveClusters(numClusters, function, &config));
	return cudaSuccess;
}

cudaError_t rt_cudaOccupancyMaxPotentialClusterSize(
	int *clusterSize, const void *func, const struct cudaLaunchConfig *launchConfig)
{
	CUfunction function;
	CUlaunchConfig config;

	RT_TRY(config_of(launchConfig, &config));
	RT_TRY(rt_function(func, &function));
	RT_DRIVE(cuOccupancyMaxPotentialClusterSize(clusterSize, function, &config));
	return cudaSuccess;
}
