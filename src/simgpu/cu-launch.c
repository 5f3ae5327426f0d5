/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel launches: parameters, limits, all the entry points that launch, and occupancy.
 *
 * A launch costs one lock, one table look-up each for function and stream, and one ring entry.
 */
#include "simgpu/cu.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

enum { PORTABLE_CLUSTER_MAX = 8, CLUSTER_MAX = 16 };

/* Returns how many blocks of this shape fit on an SM, by threads, block slots and shared memory. */
static unsigned blocks_per_sm(const struct simgpu_state_device *d,
	const struct cu_function *function, unsigned threads, uint64_t dynamic_bytes)
{
	const struct simgpu_arch *arch = cu_arch_of(d);
	unsigned warps = (threads + 31) / 32, n = arch->blocks;
	uint64_t shared = function->kernel->shared_bytes + dynamic_bytes;

	if (threads == 0)
		return 0;
	if (arch->threads / 32 / warps < n)
		n = arch->threads / 32 / warps;
	if (shared == 0)
		return n;
	shared += arch->reserved_kib * 1024u;
	if (arch->shared_kib * 1024u / shared < n)
		n = (unsigned)(arch->shared_kib * 1024u / shared);
	return n;
}

static CUresult check_shape(const struct simgpu_state_device *d, const struct cu_function *function,
	const struct cu_launch *l, unsigned *ret_per_sm)
{
	uint64_t threads = (uint64_t)l->block[0] * l->block[1] * l->block[2];
	uint64_t max_threads = function->kernel->max_threads ? function->kernel->max_threads : 1024;
	int dynamic = function->attributes[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES];
	uint64_t room = dynamic >= 0                     ? (uint64_t)dynamic
		: function->kernel->shared_bytes < 49152 ? 49152 - function->kernel->shared_bytes
							 : 0;

	CU_CHECK(threads != 0 && l->grid[0] != 0 && l->grid[1] != 0 && l->grid[2] != 0,
		CUDA_ERROR_INVALID_VALUE);
	CU_CHECK(l->block[0] <= 1024 && l->block[1] <= 1024 && l->block[2] <= 64 &&
			threads <= max_threads,
		CUDA_ERROR_INVALID_VALUE);
	CU_CHECK(l->grid[0] <= 2147483647u && l->grid[1] <= 65535 && l->grid[2] <= 65535,
		CUDA_ERROR_INVALID_VALUE);
	CU_CHECK(l->shared_bytes <= room, CUDA_ERROR_INVALID_VALUE);
	*ret_per_sm = blocks_per_sm(d, function, (unsigned)threads, l->shared_bytes);
	CU_CHECK(*ret_per_sm != 0, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
	return CUDA_SUCCESS;
}

static CUresult check_cluster(const struct simgpu_state_device *d, const struct cu_launch *l)
{
	uint64_t n = (uint64_t)l->cluster[0] * l->cluster[1] * l->cluster[2];

	if (n == 0)
		return CUDA_SUCCESS;
	CU_CHECK(d->cc_major >= 9, CUDA_ERROR_INVALID_CLUSTER_SIZE);
	CU_CHECK(n <= PORTABLE_CLUSTER_MAX, CUDA_ERROR_INVALID_CLUSTER_SIZE);
	for (int i = 0; i < 3; i++)
		CU_CHECK(l->grid[i] % l->cluster[i] == 0, CUDA_ERROR_INVALID_CLUSTER_SIZE);
	return CUDA_SUCCESS;
}

/* Takes parameters from an array of pointers, or from a buffer given in `extra`. */
CUresult cu_take_params(const struct image_kernel *kernel, const struct cu_launch *l, uint8_t *to,
	uint32_t *ret_bytes)
{
	const void *buffer = NULL;
	size_t size = 0;

	*ret_bytes = kernel->param_bytes;
	CU_CHECK(!l->params || !l->extra, CUDA_ERROR_INVALID_VALUE);
	if (l->params) {
		for (uint32_t i = 0; i < kernel->n_params; i++) {
			CU_CHECK(l->params[i], CUDA_ERROR_INVALID_VALUE);
			memcpy(to + kernel->params[i].offset, l->params[i], kernel->params[i].size);
		}
		return CUDA_SUCCESS;
	}
	if (!l->extra)
		return kernel->n_params == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	for (void **at = l->extra; *at != CU_LAUNCH_PARAM_END; at += 2) {
		if (*at == CU_LAUNCH_PARAM_BUFFER_POINTER)
			buffer = at[1];
		else if (*at == CU_LAUNCH_PARAM_BUFFER_SIZE)
			size = *(const size_t *)at[1];
		else
			return CUDA_ERROR_INVALID_VALUE;
	}
	CU_CHECK(size >= kernel->param_bytes && (buffer || size == 0), CUDA_ERROR_INVALID_VALUE);
	if (kernel->param_bytes != 0)
		memcpy(to, buffer, kernel->param_bytes);
	return CUDA_SUCCESS;
}

/* Returns whether the kernel may write to memory that the host can see. */
static bool cu_launch_is_visible(const struct cu_function *function, const uint8_t *params)
{
	uint64_t target;

	if (function->sim_kernel == SIMGPU_KERNEL_SET_FLAG)
		return true;
	if (function->sim_kernel == SIMGPU_KERNEL_OTHER ||
		function->sim_kernel == SIMGPU_KERNEL_SPIN_NS)
		return false;
	memcpy(&target, params + (function->sim_kernel == SIMGPU_KERNEL_STAMP_NS ? 8 : 0),
		sizeof(target));
	if (!cu_is_device_address(target))
		return true;
	/* The host also sees managed memory. */
	const struct cu_range *range = cu_range_find(&cu.device_memory, target);

	return range && range->kind == CU_MEM_MANAGED;
}

CUresult cu_build_kernel(struct cu_context *context, struct cu_function *function,
	const struct cu_launch *launch, struct cu_op *op, uint8_t **ret_owned)
{
	const struct simgpu_state_device *d = cu_device_state(context->device);
	uint64_t blocks = (uint64_t)launch->grid[0] * launch->grid[1];
	uint8_t *params = op->small;
	uint32_t bytes;
	unsigned per_sm;

	*ret_owned = NULL;
	CU_TRY(check_shape(d, function, launch, &per_sm));
	if (launch->cluster[0] != 0)
		CU_TRY(check_cluster(d, launch));
	/* The engine computes clusters of one block. */
	CU_CHECK(!function->module->has_code || launch->cluster[0] == 0 ||
			launch->cluster[0] * launch->cluster[1] * launch->cluster[2] == 1,
		CUDA_ERROR_NOT_SUPPORTED);
	blocks = blocks > UINT32_MAX ? UINT32_MAX : blocks * launch->grid[2];
	if (blocks > UINT32_MAX)
		blocks = UINT32_MAX;
	if (launch->cooperative && blocks > (uint64_t)per_sm * d->sm_count)
		return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
	if (function->kernel->param_bytes > sizeof(op->small)) {
		CU_CHECK(function->kernel->param_bytes <= SIMGPU_MAX_PARAM_BYTES,
			CUDA_ERROR_NOT_SUPPORTED);
		params = malloc(function->kernel->param_bytes);
		CU_CHECK(params, CUDA_ERROR_OUT_OF_MEMORY);
		*ret_owned = params;
	}
	CUresult r = cu_take_params(function->kernel, launch, params, &bytes);

	if (r != CUDA_SUCCESS) {
		free(TAKE_PTR(*ret_owned));
		return r;
	}
	cu_op_init(op, SIMGPU_OP_KERNEL, context);
	op->bytes = params;
	op->trailing = bytes;
	op->entry.kernel = (struct simgpu_op_kernel){
		.kernel = function->sim_kernel,
		.name_id = function->name_id,
		.blocks = (uint32_t)blocks,
		.threads = launch->block[0] * launch->block[1] * launch->block[2],
		.param_bytes = bytes,
		.blocks_per_sm = per_sm,
	};
	if (function->module->has_code) {
		struct simgpu_op_kernel *k = &op->entry.kernel;

		k->code = function->module->engine_id;
		k->function = (uint32_t)(function - function->module->functions);
		k->shared_bytes = launch->shared_bytes;
		memcpy(k->grid, launch->grid, sizeof(k->grid));
		memcpy(k->block, launch->block, sizeof(k->block));
		op->entry.flags |= SIMGPU_ENTRY_VISIBLE;
	} else if (__builtin_expect(!function->is_reported, 0)) {
		cu_code_report(function);
	}
	if (launch->cooperative)
		op->entry.flags |= SIMGPU_ENTRY_COOPERATIVE;
	if (cu_launch_is_visible(function, params))
		op->entry.flags |= SIMGPU_ENTRY_VISIBLE;
	return CUDA_SUCCESS;
}

static CUresult launch_in(
	struct cu_context *ctx, CUfunction f, CUstream hStream, const struct cu_launch *l)
{
	_cleanup_free_ uint8_t *owned = NULL;
	struct cu_function *function;
	struct cu_stream *stream;
	struct cu_op op;

	CU_TRY(cu_function_get(f, ctx, &function));
	CU_TRY(cu_stream_get_own(hStream, ctx, &stream));
	CU_TRY(cu_build_kernel(ctx, function, l, &op, &owned));
	if (__builtin_expect(stream->capture != NULL, 0))
		return cu_capture_launch(stream, f, l);
	return cu_stream_do(stream, &op);
}

CUresult simgpu_cuLaunchKernel(struct cu_context *ctx, CUfunction f, unsigned int gridDimX,
	unsigned int gridDimY, unsigned int gridDimZ, unsigned int blockDimX,
	unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes,
	CUstream hStream, void **kernelParams, void **extra)
{
	struct cu_launch l = {
		.grid = {gridDimX, gridDimY, gridDimZ},
		.block = {blockDimX, blockDimY, blockDimZ},
		.shared_bytes = sharedMemBytes,
		.params = kernelParams,
		.extra = extra,
	};

	return launch_in(ctx, f, hStream, &l);
}

CUresult simgpu_cuLaunchCooperativeKernel(struct cu_context *ctx, CUfunction f,
	unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ, unsigned int blockDimX,
	unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes,
	CUstream hStream, void **kernelParams)
{
	struct cu_launch l = {
		.grid = {gridDimX, gridDimY, gridDimZ},
		.block = {blockDimX, blockDimY, blockDimZ},
		.shared_bytes = sharedMemBytes,
		.params = kernelParams,
		.cooperative = true,
	};

	return launch_in(ctx, f, hStream, &l);
}

CUresult simgpu_cuLaunchKernelEx(struct cu_context *ctx, const CUlaunchConfig *config, CUfunction f,
	void **kernelParams, void **extra)
{
	struct cu_launch l;

	CU_CHECK(config->numAttrs == 0 || config->attrs, CUDA_ERROR_INVALID_VALUE);
	l = (struct cu_launch){
		.grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
		.block = {config->blockDimX, config->blockDimY, config->blockDimZ},
		.shared_bytes = config->sharedMemBytes,
		.params = kernelParams,
		.extra = extra,
	};
	for (unsigned i = 0; i < config->numAttrs; i++) {
		const CUlaunchAttribute *a = &config->attrs[i];

		CU_CHECK((unsigned)a->id < CU_LAUNCH_ATTRIBUTE_MAX, CUDA_ERROR_INVALID_VALUE);
		if (a->id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) {
			l.cooperative = a->value.cooperative != 0;
		} else if (a->id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
			l.cluster[0] = a->value.clusterDim.x;
			l.cluster[1] = a->value.clusterDim.y;
			l.cluster[2] = a->value.clusterDim.z;
			CU_CHECK(l.cluster[0] != 0 && l.cluster[1] != 0 && l.cluster[2] != 0,
				CUDA_ERROR_INVALID_VALUE);
		}
	}
	return launch_in(ctx, f, config->hStream, &l);
}

CUresult simgpu_cuLaunchCooperativeKernelMultiDevice(
	CUDA_LAUNCH_PARAMS *launchParamsList, unsigned int numDevices, unsigned int flags)
{
	CU_CHECK(numDevices != 0 && numDevices <= (unsigned)cu.n_devices && (flags & ~3u) == 0,
		CUDA_ERROR_INVALID_VALUE);
	for (unsigned i = 0; i < numDevices; i++) {
		const CUDA_LAUNCH_PARAMS *p = &launchParamsList[i];
		struct cu_stream *stream = cu_handle_get(p->hStream, CU_KIND_STREAM);

		/*
		 * Each launch needs a stream on a device of its own, and default streams are not
		 * allowed.
		 */
		CU_CHECK(stream, CUDA_ERROR_INVALID_HANDLE);
		for (unsigned j = 0; j < i; j++) {
			struct cu_stream *other = cu_handle_get(
				launchParamsList[j].hStream, CU_KIND_STREAM);

			CU_CHECK(other->context->device != stream->context->device,
				CUDA_ERROR_INVALID_DEVICE);
		}
		CU_CHECK(p->gridDimX == launchParamsList[0].gridDimX &&
				p->gridDimY == launchParamsList[0].gridDimY &&
				p->gridDimZ == launchParamsList[0].gridDimZ,
			CUDA_ERROR_INVALID_VALUE);
	}
	for (unsigned i = 0; i < numDevices; i++) {
		const CUDA_LAUNCH_PARAMS *p = &launchParamsList[i];
		struct cu_stream *stream = cu_handle_get(p->hStream, CU_KIND_STREAM);
		struct cu_launch l = {
			.grid = {p->gridDimX, p->gridDimY, p->gridDimZ},
			.block = {p->blockDimX, p->blockDimY, p->blockDimZ},
			.shared_bytes = p->sharedMemBytes,
			.params = p->kernelParams,
			.cooperative = true,
		};

		CU_CHECK(stream, CUDA_ERROR_INVALID_HANDLE);
		CU_TRY(launch_in(stream->context, p->function, p->hStream, &l));
	}
	return CUDA_SUCCESS;
}

/* ---- the old interface: the function keeps parameters and shape ---- */

struct old_launch {
	const struct cu_function *function;
	unsigned block[3];
	unsigned shared_bytes;
	uint8_t params[SIMGPU_MAX_PARAM_BYTES];
	size_t param_bytes;
};

/* A list is enough, because few programs use this interface, with few functions. */
static struct old_launch **old_launches;
static size_t n_old_launches;

static CUresult old_get(struct cu_context *ctx, CUfunction f, struct old_launch **ret)
{
	struct cu_function *function;
	struct old_launch **bigger, *old;

	CU_TRY(cu_function_get(f, ctx, &function));
	for (size_t i = 0; i < n_old_launches; i++) {
		if (old_launches[i]->function == function) {
			*ret = old_launches[i];
			return CUDA_SUCCESS;
		}
	}
	bigger = realloc(old_launches, (n_old_launches + 1) * sizeof(struct old_launch *));
	CU_CHECK(bigger, CUDA_ERROR_OUT_OF_MEMORY);
	old_launches = bigger;
	old = calloc(1, sizeof(*old));
	CU_CHECK(old, CUDA_ERROR_OUT_OF_MEMORY);
	old->function = function;
	old->block[0] = old->block[1] = old->block[2] = 1;
	bigger[n_old_launches++] = old;
	*ret = old;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuFuncSetBlockShape(struct cu_context *ctx, CUfunction hfunc, int x, int y, int z)
{
	struct old_launch *old;

	CU_TRY(old_get(ctx, hfunc, &old));
	CU_CHECK(x > 0 && y > 0 && z > 0 && x <= 1024 && y <= 1024 && z <= 64 &&
			(int64_t)x * y * z <= 1024,
		CUDA_ERROR_INVALID_VALUE);
	old->block[0] = (unsigned)x;
	old->block[1] = (unsigned)y;
	old->block[2] = (unsigned)z;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuFuncSetSharedSize(struct cu_context *ctx, CUfunction hfunc, unsigned int bytes)
{
	struct old_launch *old;

	CU_TRY(old_get(ctx, hfunc, &old));
	old->shared_bytes = bytes;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuParamSetSize(struct cu_context *ctx, CUfunction hfunc, unsigned int numbytes)
{
	struct old_launch *old;

	CU_TRY(old_get(ctx, hfunc, &old));
	CU_CHECK(numbytes <= sizeof(old->params), CUDA_ERROR_INVALID_VALUE);
	old->param_bytes = numbytes;
	return CUDA_SUCCESS;
}

static CUresult old_param(
	struct cu_context *ctx, CUfunction f, int offset, const void *from, size_t n)
{
	struct old_launch *old;

	CU_TRY(old_get(ctx, f, &old));
	CU_CHECK(from && offset >= 0 && n <= sizeof(old->params) &&
			(size_t)offset <= sizeof(old->params) - n,
		CUDA_ERROR_INVALID_VALUE);
	memcpy(old->params + offset, from, n);
	return CUDA_SUCCESS;
}

CUresult simgpu_cuParamSeti(
	struct cu_context *ctx, CUfunction hfunc, int offset, unsigned int value)
{
	return old_param(ctx, hfunc, offset, &value, sizeof(value));
}

CUresult simgpu_cuParamSetf(struct cu_context *ctx, CUfunction hfunc, int offset, float value)
{
	return old_param(ctx, hfunc, offset, &value, sizeof(value));
}

CUresult simgpu_cuParamSetv(
	struct cu_context *ctx, CUfunction hfunc, int offset, void *ptr, unsigned int numbytes)
{
	return old_param(ctx, hfunc, offset, ptr, numbytes);
}

static CUresult old_run(
	struct cu_context *ctx, CUfunction f, int width, int height, CUstream hStream)
{
	struct old_launch *old;

	CU_TRY(old_get(ctx, f, &old));
	CU_CHECK(width > 0 && height > 0, CUDA_ERROR_INVALID_VALUE);
	void *extra[] = {
		CU_LAUNCH_PARAM_BUFFER_POINTER,
		old->params,
		CU_LAUNCH_PARAM_BUFFER_SIZE,
		&old->param_bytes,
		CU_LAUNCH_PARAM_END,
	};
	struct cu_launch l = {
		.grid = {(unsigned)width, (unsigned)height, 1},
		.block = {old->block[0], old->block[1], old->block[2]},
		.shared_bytes = old->shared_bytes,
		.extra = extra,
	};

	return launch_in(ctx, f, hStream, &l);
}

CUresult simgpu_cuLaunch(struct cu_context *ctx, CUfunction f)
{
	return old_run(ctx, f, 1, 1, NULL);
}

CUresult simgpu_cuLaunchGrid(struct cu_context *ctx, CUfunction f, int grid_width, int grid_height)
{
	return old_run(ctx, f, grid_width, grid_height, NULL);
}

CUresult simgpu_cuLaunchGridAsync(
	struct cu_context *ctx, CUfunction f, int grid_width, int grid_height, CUstream hStream)
{
	return old_run(ctx, f, grid_width, grid_height, hStream);
}

/* ---- occupancy ---- */

CUresult simgpu_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(struct cu_context *ctx,
	int *numBlocks, struct cu_function *f, int blockSize, size_t dynamicSMemSize,
	unsigned int flags)
{
	*numBlocks = blockSize > 1024 ? 0
				      : (int)blocks_per_sm(cu_device_state(ctx->device), f,
						(unsigned)blockSize, dynamicSMemSize);
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(
	int *numBlocks, CUfunction func, int blockSize, size_t dynamicSMemSize)
{
	return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
		numBlocks, func, blockSize, dynamicSMemSize, 0);
}

CUresult simgpu_cuOccupancyMaxPotentialBlockSizeWithFlags(struct cu_context *ctx, int *minGridSize,
	int *blockSize, struct cu_function *f, CUoccupancyB2DSize blockSizeToDynamicSMemSize,
	size_t dynamicSMemSize, int blockSizeLimit, unsigned int flags)
{
	const struct simgpu_state_device *d;
	unsigned best = 0, best_size = 32, limit;

	d = cu_device_state(ctx->device);
	limit = f->kernel->max_threads ? f->kernel->max_threads : 1024;
	if (blockSizeLimit != 0 && (unsigned)blockSizeLimit < limit)
		limit = (unsigned)blockSizeLimit;
	for (unsigned size = limit / 32 * 32; size >= 32; size -= 32) {
		size_t dynamic = blockSizeToDynamicSMemSize ? blockSizeToDynamicSMemSize((int)size)
							    : dynamicSMemSize;
		unsigned n = blocks_per_sm(d, f, size, dynamic);

		if (n * size > best) {
			best = n * size;
			best_size = size;
		}
	}
	*blockSize = (int)best_size;
	*minGridSize = (int)(best / best_size * d->sm_count);
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuOccupancyMaxPotentialBlockSize(int *minGridSize, int *blockSize,
	CUfunction func, CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize,
	int blockSizeLimit)
{
	return cuOccupancyMaxPotentialBlockSizeWithFlags(minGridSize, blockSize, func,
		blockSizeToDynamicSMemSize, dynamicSMemSize, blockSizeLimit, 0);
}

CUresult simgpu_cuOccupancyAvailableDynamicSMemPerBlock(struct cu_context *ctx,
	size_t *dynamicSmemSize, CUfunction func, int numBlocks, int blockSize)
{
	const struct simgpu_arch *arch;
	struct cu_function *f;
	unsigned per_block, fixed;

	CU_CHECK(numBlocks > 0 && blockSize > 0 && blockSize <= 1024, CUDA_ERROR_INVALID_VALUE);
	CU_TRY(cu_function_get(func, ctx, &f));
	CU_CHECK((int)blocks_per_sm(cu_device_state(ctx->device), f, (unsigned)blockSize, 0) >=
			numBlocks,
		CUDA_ERROR_INVALID_VALUE);
	arch = cu_arch_of(cu_device_state(ctx->device));
	per_block = arch->shared_kib * 1024u / (unsigned)numBlocks;
	fixed = f->kernel->shared_bytes + arch->reserved_kib * 1024u;
	*dynamicSmemSize = per_block > fixed ? per_block - fixed : 0;
	return CUDA_SUCCESS;
}

static unsigned gpc_sms(const struct simgpu_state_device *d)
{
	return d->sm_count >= 16 ? 16 : d->sm_count;
}

CUresult simgpu_cuOccupancyMaxPotentialClusterSize(struct cu_context *ctx, int *clusterSize,
	struct cu_function *f, const CUlaunchConfig *config)
{
	CU_CHECK(cu_device_state(ctx->device)->cc_major >= 9, CUDA_ERROR_NOT_SUPPORTED);
	*clusterSize = f->attributes[CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED] > 0
		? CLUSTER_MAX
		: PORTABLE_CLUSTER_MAX;
	return CUDA_SUCCESS;
}

CUresult simgpu_cuOccupancyMaxActiveClusters(
	struct cu_context *ctx, int *numClusters, CUfunction func, const CUlaunchConfig *config)
{
	const struct simgpu_state_device *d;
	unsigned size = 1, per_sm;
	struct cu_function *f;

	CU_CHECK(config->numAttrs == 0 || config->attrs, CUDA_ERROR_INVALID_VALUE);
	CU_TRY(cu_function_get(func, ctx, &f));
	d = cu_device_state(ctx->device);
	CU_CHECK(d->cc_major >= 9, CUDA_ERROR_NOT_SUPPORTED);
	for (unsigned i = 0; i < config->numAttrs; i++)
		if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
			size = config->attrs[i].value.clusterDim.x *
				config->attrs[i].value.clusterDim.y *
				config->attrs[i].value.clusterDim.z;
	CU_CHECK(size != 0 && size <= CLUSTER_MAX, CUDA_ERROR_INVALID_CLUSTER_SIZE);
	per_sm = blocks_per_sm(d, f, config->blockDimX * config->blockDimY * config->blockDimZ,
		config->sharedMemBytes);
	*numClusters = (int)(d->sm_count / gpc_sms(d) * (gpc_sms(d) * per_sm / size));
	return CUDA_SUCCESS;
}
