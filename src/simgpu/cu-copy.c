/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies and memsets of every shape. Each copy call becomes one operation on width x height x depth
 * bytes between two addresses with pitches. An array counts as an address with the array's pitch.
 *
 * Pageable host memory behaves as NVIDIA documents it. A small source is read at the call and
 * travels in the ring. A larger source and every pageable destination make the call wait.
 */
#include "simgpu/cu.h"

#include <string.h>

#include "cuda/copy.h"

/* The source or the destination of a copy. */
struct side {
	uint64_t address; /* address of the first byte */
	uint64_t pitch, slice;
	bool host, pinned;
};

static bool is_pinned(uint64_t address, uint64_t bytes)
{
	const struct cu_range *range = cu_range_find(&cu.host_memory, address);

	return range && bytes <= range->base + range->size - address;
}

static CUresult check_side(struct side *side, uint64_t width, uint64_t height, uint64_t depth)
{
	uint64_t bytes = width + (height - 1) * side->pitch + (depth - 1) * side->slice;

	CU_CHECK(side->address != 0, CUDA_ERROR_INVALID_VALUE);
	if (cu_is_device_address(side->address)) {
		/* Managed memory counts as device memory and is never pageable. */
		side->pinned = true;
		return cu_check_device_range(side->address, bytes);
	}
	side->host = true;
	side->pinned = is_pinned(side->address, bytes);
	return CUDA_SUCCESS;
}

static void fill_copy(struct cu_op *op, const struct cu_context *context, const struct side *dst,
	const struct side *src, const uint64_t extent[3])
{
	const struct cu_range *range;

	cu_op_init(op, SIMGPU_OP_COPY, context);
	op->entry.copy = (struct simgpu_op_copy){
		.dst = dst->address,
		.src = src->address,
		.width = extent[0],
		.dst_pitch = dst->pitch,
		.src_pitch = src->pitch,
		.dst_slice = dst->slice,
		.src_slice = src->slice,
		.height = (uint32_t)extent[1],
		.depth = (uint32_t)extent[2],
	};
	if (!dst->pinned || !src->pinned)
		op->entry.flags |= SIMGPU_ENTRY_PAGEABLE;
	range = dst->host ? NULL : cu_range_find(&cu.device_memory, dst->address);
	if (dst->host || (range && range->kind == CU_MEM_MANAGED))
		op->entry.flags |= SIMGPU_ENTRY_VISIBLE;
}

/* The source or the destination of a copy, as the program described it. */
struct place {
	CUmemorytype type;
	const void *host;
	CUdeviceptr device;
	CUarray array;
	size_t x, y, z;
	size_t pitch, height;
};

/* Returns false if the offset overflows. */
static bool offset_of(const struct side *side, const uint64_t at[3], uint64_t *ret)
{
	uint64_t row, slice;

	return !__builtin_mul_overflow(at[1], side->pitch, &row) &&
		!__builtin_mul_overflow(at[2], side->slice, &slice) &&
		!__builtin_add_overflow(at[0], row, ret) &&
		!__builtin_add_overflow(*ret, slice, ret);
}

/*
 * Sets pitch, slice and address of the source or destination of a copy in linear memory. Returns
 * false if the described rows or planes overlap, or an address overflows.
 */
static bool cu_copy_is_inside(const struct place *p, uint64_t base, const uint64_t extent[3],
	const uint64_t end[3], struct side *side)
{
	const uint64_t rows = p->height ? p->height : end[1];
	const uint64_t first[3] = {p->x, p->y, p->z},
		       last[3] = {end[0] - 1, end[1] - 1, end[2] - 1};
	uint64_t n;

	side->pitch = p->pitch ? p->pitch : end[0];
	if ((extent[1] > 1 || extent[2] > 1) && side->pitch < end[0])
		return false;
	if (extent[2] > 1 && rows < end[1])
		return false;
	if (__builtin_mul_overflow(side->pitch, rows, &side->slice)) {
		if (end[2] > 1)
			return false;
		side->slice = 0;
	}
	if (!offset_of(side, last, &n) || __builtin_add_overflow(base, n, &n))
		return false;
	(void)offset_of(side, first, &n);
	side->address = base + n;
	return true;
}

static CUresult find_side(const struct place *p, const uint64_t extent[3], struct side *side)
{
	const struct cu_array *array;
	uint64_t base, rows, end[3];

	*side = (struct side){0};
	CU_CHECK(!__builtin_add_overflow(p->x, extent[0], &end[0]) &&
			!__builtin_add_overflow(p->y, extent[1], &end[1]) &&
			!__builtin_add_overflow(p->z, extent[2], &end[2]),
		CUDA_ERROR_INVALID_VALUE);
	switch ((int)p->type) {
	case CU_MEMORYTYPE_HOST:
		base = (uintptr_t)p->host;
		CU_CHECK(!cu_is_device_address(base) || cu_range_find(&cu.device_memory, base),
			CUDA_ERROR_INVALID_VALUE);
		break;
	case CU_MEMORYTYPE_DEVICE:
		base = p->device;
		CU_CHECK(
			cu_is_device_address(base) || is_pinned(base, 1), CUDA_ERROR_INVALID_VALUE);
		break;
	case CU_MEMORYTYPE_UNIFIED: base = p->device; break;
	case CU_MEMORYTYPE_ARRAY:
		array = cu_handle_get(p->array, CU_KIND_ARRAY);
		CU_CHECK(array, CUDA_ERROR_INVALID_HANDLE);
		rows = array->desc.Height ? array->desc.Height : 1;
		CU_CHECK(end[0] <= array->desc.Width * array->element && end[1] <= rows &&
				end[2] <= (array->desc.Depth ? array->desc.Depth : 1),
			CUDA_ERROR_INVALID_VALUE);
		side->pitch = array->pitch;
		side->slice = array->slice;
		side->address = array->base + p->z * array->slice + p->y * array->pitch + p->x;
		side->pinned = true;
		return CUDA_SUCCESS;
	default: return CUDA_ERROR_INVALID_VALUE;
	}
	CU_CHECK(base != 0 && cu_copy_is_inside(p, base, extent, end, side),
		CUDA_ERROR_INVALID_VALUE);
	return check_side(side, extent[0], extent[1], extent[2]);
}

static bool cu_copy_is_type(CUmemorytype type)
{
	return type >= CU_MEMORYTYPE_HOST && type <= CU_MEMORYTYPE_UNIFIED;
}

CUresult cu_build_copy(struct cu_context *context, const CUDA_MEMCPY3D *c, struct cu_op *op)
{
	const uint64_t extent[3] = {c->WidthInBytes, c->Height, c->Depth};
	struct place to = {
		.type = c->dstMemoryType,
		.host = c->dstHost,
		.device = c->dstDevice,
		.array = c->dstArray,
		.x = c->dstXInBytes,
		.y = c->dstY,
		.z = c->dstZ,
		.pitch = c->dstPitch,
		.height = c->dstHeight,
	};
	struct place from = {
		.type = c->srcMemoryType,
		.host = c->srcHost,
		.device = c->srcDevice,
		.array = c->srcArray,
		.x = c->srcXInBytes,
		.y = c->srcY,
		.z = c->srcZ,
		.pitch = c->srcPitch,
		.height = c->srcHeight,
	};
	struct side dst, src;

	CU_CHECK(cu_copy_is_type(c->srcMemoryType) && cu_copy_is_type(c->dstMemoryType),
		CUDA_ERROR_INVALID_VALUE);
	CU_CHECK(extent[0] < 1ull << 46 && extent[1] <= UINT32_MAX && extent[2] <= UINT32_MAX,
		CUDA_ERROR_INVALID_VALUE);
	if (extent[0] == 0 || extent[1] == 0 || extent[2] == 0) {
		cu_op_init(op, SIMGPU_OP_EMPTY, context);
		return CUDA_SUCCESS;
	}
	CU_TRY(find_side(&to, extent, &dst));
	CU_TRY(find_side(&from, extent, &src));
	fill_copy(op, context, &dst, &src, extent);
	return CUDA_SUCCESS;
}

/* ---- submission ---- */

static CUresult do_copy(CUstream hStream, struct cu_context *ctx, struct cu_op *op, bool is_async)
{
	const struct simgpu_op_copy *c = &op->entry.copy;
	bool pageable = (op->entry.flags & SIMGPU_ENTRY_PAGEABLE) != 0;
	bool to_host = !cu_is_device_address(c->dst), from_host = !cu_is_device_address(c->src);
	struct cu_stream *stream;

	CU_TRY(cu_stream_get(hStream, ctx, &stream));
	if (!is_async)
		CU_TRY(cu_capture_check_unsafe());
	if (op->entry.kind != SIMGPU_OP_COPY)
		return is_async ? cu_stream_do(stream, op) : CUDA_SUCCESS;
	op->entry.context = stream->context->slot;
	/*
	 * A call that copies from device to device returns before the copy is complete, even a
	 * synchronous call.
	 */
	op->waits = (!is_async && (to_host || from_host)) || pageable;
	/*
	 * An asynchronous call with a small pageable source reads the source at once, into the
	 * ring. A synchronous call cannot do that, because it must first wait for the stream's
	 * earlier work.
	 */
	if (is_async && pageable && from_host && !to_host && !stream->capture && c->height == 1 &&
		c->depth == 1 && c->width <= CU_INLINE_COPY_MAX) {
		op->entry.flags |= SIMGPU_ENTRY_INLINE;
		op->bytes = (const uint8_t *)(uintptr_t)c->src;
		op->trailing = (uint32_t)c->width;
		op->waits = false;
	}
	return cu_stream_do(stream, op);
}

enum { ANY, HOST, DEVICE };

static CUresult cu_copy_check_kind(uint64_t address, int kind)
{
	bool device = cu_is_device_address(address);

	if (kind == DEVICE)
		CU_CHECK(device || is_pinned(address, 1), CUDA_ERROR_INVALID_VALUE);
	if (kind == HOST && device) {
		const struct cu_range *range = cu_range_find(&cu.device_memory, address);

		CU_CHECK(range && range->kind == CU_MEM_MANAGED, CUDA_ERROR_INVALID_VALUE);
	}
	return CUDA_SUCCESS;
}

/* is_taken: the call reads host memory at once, as if the memory were pageable. */
static CUresult linear_taken(uint64_t to, int to_kind, uint64_t from, int from_kind, size_t n,
	CUstream hStream, bool is_async, bool is_taken)
{
	const uint64_t extent[3] = {n, 1, 1};
	struct side dst = {.address = to}, src = {.address = from};
	struct cu_op op;

	CU_ENTER_CONTEXT(ctx);
	CU_CHECK(n < 1ull << 46, CUDA_ERROR_INVALID_VALUE);
	if (n == 0) {
		struct cu_stream *stream;

		return cu_stream_get(hStream, ctx, &stream);
	}
	CU_TRY(cu_copy_check_kind(to, to_kind));
	CU_TRY(cu_copy_check_kind(from, from_kind));
	CU_TRY(check_side(&dst, n, 1, 1));
	CU_TRY(check_side(&src, n, 1, 1));
	src.pinned = src.pinned && !(is_taken && src.host);
	fill_copy(&op, ctx, &dst, &src, extent);
	return do_copy(hStream, ctx, &op, is_async);
}

static CUresult cu_copy_linear(uint64_t to, int to_kind, uint64_t from, int from_kind, size_t n,
	CUstream hStream, bool is_async)
{
	return linear_taken(to, to_kind, from, from_kind, n, hStream, is_async, false);
}

CU_EXPORT CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount)
{
	return cu_copy_linear(dst, ANY, src, ANY, ByteCount, NULL, false);
}

CU_EXPORT CUresult cuMemcpyAsync(
	CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream)
{
	return cu_copy_linear(dst, ANY, src, ANY, ByteCount, hStream, true);
}

CU_EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount)
{
	return cu_copy_linear(dstDevice, DEVICE, (uintptr_t)srcHost, HOST, ByteCount, NULL, false);
}

CU_EXPORT CUresult cuMemcpyDtoH_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount)
{
	return cu_copy_linear((uintptr_t)dstHost, HOST, srcDevice, DEVICE, ByteCount, NULL, false);
}

CU_EXPORT CUresult cuMemcpyDtoD_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount)
{
	return cu_copy_linear(dstDevice, DEVICE, srcDevice, DEVICE, ByteCount, NULL, false);
}

CU_EXPORT CUresult cuMemcpyHtoDAsync_v2(
	CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount, CUstream hStream)
{
	return cu_copy_linear(
		dstDevice, DEVICE, (uintptr_t)srcHost, HOST, ByteCount, hStream, true);
}

CU_EXPORT CUresult cuMemcpyDtoHAsync_v2(
	void *dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream)
{
	return cu_copy_linear(
		(uintptr_t)dstHost, HOST, srcDevice, DEVICE, ByteCount, hStream, true);
}

CU_EXPORT CUresult cuMemcpyDtoDAsync_v2(
	CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream)
{
	return cu_copy_linear(dstDevice, DEVICE, srcDevice, DEVICE, ByteCount, hStream, true);
}

static CUresult cu_copy_peer(CUdeviceptr dst, CUcontext dstContext, CUdeviceptr src,
	CUcontext srcContext, size_t n, CUstream hStream, bool is_async)
{
	{
		CU_ENTER();
		CU_CHECK(cu_context_get(dstContext) && cu_context_get(srcContext),
			CUDA_ERROR_INVALID_CONTEXT);
	}
	return cu_copy_linear(dst, DEVICE, src, DEVICE, n, hStream, is_async);
}

CU_EXPORT CUresult cuMemcpyPeer(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
	CUcontext srcContext, size_t ByteCount)
{
	return cu_copy_peer(dstDevice, dstContext, srcDevice, srcContext, ByteCount, NULL, false);
}

CU_EXPORT CUresult cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext,
	CUdeviceptr srcDevice, CUcontext srcContext, size_t ByteCount, CUstream hStream)
{
	return cu_copy_peer(dstDevice, dstContext, srcDevice, srcContext, ByteCount, hStream, true);
}

/* ---- arrays, 1D ---- */

static CUresult array_copy(CUDA_MEMCPY3D *c, size_t n, CUstream hStream, bool is_async)
{
	struct cu_op op;

	CU_ENTER_CONTEXT(ctx);
	c->WidthInBytes = n;
	c->Height = c->Depth = 1;
	CU_TRY(cu_build_copy(ctx, c, &op));
	return do_copy(hStream, ctx, &op, is_async);
}

CU_EXPORT CUresult cuMemcpyDtoA_v2(
	CUarray dstArray, size_t dstOffset, CUdeviceptr srcDevice, size_t ByteCount)
{
	CUDA_MEMCPY3D c = {.dstMemoryType = CU_MEMORYTYPE_ARRAY,
		.dstArray = dstArray,
		.dstXInBytes = dstOffset,
		.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = srcDevice};

	return array_copy(&c, ByteCount, NULL, false);
}

CU_EXPORT CUresult cuMemcpyAtoD_v2(
	CUdeviceptr dstDevice, CUarray srcArray, size_t srcOffset, size_t ByteCount)
{
	CUDA_MEMCPY3D c = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
		.srcArray = srcArray,
		.srcXInBytes = srcOffset,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = dstDevice};

	return array_copy(&c, ByteCount, NULL, false);
}

static CUresult host_to_array(
	CUarray array, size_t offset, const void *host, size_t n, CUstream hStream, bool is_async)
{
	CUDA_MEMCPY3D c = {.dstMemoryType = CU_MEMORYTYPE_ARRAY,
		.dstArray = array,
		.dstXInBytes = offset,
		.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = host};

	return array_copy(&c, n, hStream, is_async);
}

static CUresult array_to_host(
	void *host, CUarray array, size_t offset, size_t n, CUstream hStream, bool is_async)
{
	CUDA_MEMCPY3D c = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
		.srcArray = array,
		.srcXInBytes = offset,
		.dstMemoryType = CU_MEMORYTYPE_HOST,
		.dstHost = host};

	return array_copy(&c, n, hStream, is_async);
}

CU_EXPORT CUresult cuMemcpyHtoA_v2(
	CUarray dstArray, size_t dstOffset, const void *srcHost, size_t ByteCount)
{
	return host_to_array(dstArray, dstOffset, srcHost, ByteCount, NULL, false);
}

CU_EXPORT CUresult cuMemcpyHtoAAsync_v2(
	CUarray dstArray, size_t dstOffset, const void *srcHost, size_t ByteCount, CUstream hStream)
{
	return host_to_array(dstArray, dstOffset, srcHost, ByteCount, hStream, true);
}

CU_EXPORT CUresult cuMemcpyAtoH_v2(
	void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount)
{
	return array_to_host(dstHost, srcArray, srcOffset, ByteCount, NULL, false);
}

CU_EXPORT CUresult cuMemcpyAtoHAsync_v2(
	void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount, CUstream hStream)
{
	return array_to_host(dstHost, srcArray, srcOffset, ByteCount, hStream, true);
}

CU_EXPORT CUresult cuMemcpyAtoA_v2(
	CUarray dstArray, size_t dstOffset, CUarray srcArray, size_t srcOffset, size_t ByteCount)
{
	CUDA_MEMCPY3D c = {.dstMemoryType = CU_MEMORYTYPE_ARRAY,
		.dstArray = dstArray,
		.dstXInBytes = dstOffset,
		.srcMemoryType = CU_MEMORYTYPE_ARRAY,
		.srcArray = srcArray,
		.srcXInBytes = srcOffset};

	return array_copy(&c, ByteCount, NULL, false);
}

/* ---- 2D and 3D ---- */

static CUresult copy_3d(const CUDA_MEMCPY3D *c, CUstream hStream, bool is_async)
{
	struct cu_op op;

	CU_ENTER_CONTEXT(ctx);
	CU_CHECK(c, CUDA_ERROR_INVALID_VALUE);
	CU_CHECK(c->srcLOD == 0 && c->dstLOD == 0, CUDA_ERROR_INVALID_VALUE);
	CU_TRY(cu_build_copy(ctx, c, &op));
	return do_copy(hStream, ctx, &op, is_async);
}

static CUresult copy_2d(const CUDA_MEMCPY2D *c, CUstream hStream, bool is_async)
{
	CUDA_MEMCPY3D wide;

	CU_CHECK(c, CUDA_ERROR_INVALID_VALUE);
	wide = memcpy_3d_of(c);
	return copy_3d(&wide, hStream, is_async);
}

CU_EXPORT CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *pCopy)
{
	return copy_2d(pCopy, NULL, false);
}

CU_EXPORT CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *pCopy)
{
	return copy_2d(pCopy, NULL, false);
}

CU_EXPORT CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *pCopy, CUstream hStream)
{
	return copy_2d(pCopy, hStream, true);
}

CU_EXPORT CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *pCopy)
{
	return copy_3d(pCopy, NULL, false);
}

CU_EXPORT CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *pCopy, CUstream hStream)
{
	return copy_3d(pCopy, hStream, true);
}

static CUresult copy_3d_peer(const CUDA_MEMCPY3D_PEER *c, CUstream hStream, bool is_async)
{
	CUDA_MEMCPY3D plain;

	CU_CHECK(c, CUDA_ERROR_INVALID_VALUE);
	plain = (CUDA_MEMCPY3D){
		.srcXInBytes = c->srcXInBytes,
		.srcY = c->srcY,
		.srcZ = c->srcZ,
		.srcLOD = c->srcLOD,
		.srcMemoryType = c->srcMemoryType,
		.srcHost = c->srcHost,
		.srcDevice = c->srcDevice,
		.srcArray = c->srcArray,
		.srcPitch = c->srcPitch,
		.srcHeight = c->srcHeight,
		.dstXInBytes = c->dstXInBytes,
		.dstY = c->dstY,
		.dstZ = c->dstZ,
		.dstLOD = c->dstLOD,
		.dstMemoryType = c->dstMemoryType,
		.dstHost = c->dstHost,
		.dstDevice = c->dstDevice,
		.dstArray = c->dstArray,
		.dstPitch = c->dstPitch,
		.dstHeight = c->dstHeight,
		.WidthInBytes = c->WidthInBytes,
		.Height = c->Height,
		.Depth = c->Depth,
	};
	return copy_3d(&plain, hStream, is_async);
}

CU_EXPORT CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *pCopy)
{
	return copy_3d_peer(pCopy, NULL, false);
}

CU_EXPORT CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *pCopy, CUstream hStream)
{
	return copy_3d_peer(pCopy, hStream, true);
}

/* ---- batches ---- */

static CUresult linear_by(const CUmemcpyAttributes *attr, CUdeviceptr dst, CUdeviceptr src,
	size_t n, CUstream hStream)
{
	return linear_taken(dst, ANY, src, ANY, n, hStream, true, memcpy_is_taken(attr));
}

static CUresult copy_batch(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
	CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs, size_t *failIdx,
	CUstream hStream)
{
	if (failIdx)
		*failIdx = SIZE_MAX;
	CU_CHECK(dsts && srcs && sizes && count != 0 && attrs && attrsIdxs && numAttrs != 0 &&
			numAttrs <= count && attrsIdxs[0] == 0,
		CUDA_ERROR_INVALID_VALUE);
	/* Operations in a batch have no order; CUDA allows them no default stream. */
	CU_CHECK((uintptr_t)hStream > 2, CUDA_ERROR_INVALID_VALUE);
	for (size_t i = 0, a = 0; i < count; i++) {
		CUresult r;

		a = memcpy_attributes_of(attrsIdxs, numAttrs, a, i);
		r = linear_by(&attrs[a], dsts[i], srcs[i], sizes[i], hStream);
		if (r != CUDA_SUCCESS && failIdx)
			*failIdx = i;
		CU_TRY(r);
	}
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuMemcpyBatchAsync(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
	size_t count, CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs,
	size_t *failIdx, CUstream hStream)
{
	return copy_batch(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, failIdx, hStream);
}

CU_EXPORT CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
	size_t count, CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs,
	CUstream hStream)
{
	return copy_batch(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, NULL, hStream);
}

static CUresult copy_3d_operand(const CUDA_MEMCPY3D_BATCH_OP *b, CUstream hStream)
{
	const CUmemcpy3DOperand *d = &b->dst, *s = &b->src;
	unsigned element = 1;
	CUDA_MEMCPY3D c = {.Height = b->extent.height, .Depth = b->extent.depth};

	{
		const struct cu_array *array;

		CU_ENTER();
		array = d->type == CU_MEMCPY_OPERAND_TYPE_ARRAY
			? cu_handle_get(d->op.array.array, CU_KIND_ARRAY)
			: s->type == CU_MEMCPY_OPERAND_TYPE_ARRAY
			? cu_handle_get(s->op.array.array, CU_KIND_ARRAY)
			: NULL;
		if (array)
			element = array->element;
	}
	c.WidthInBytes = b->extent.width * element;
	c.dstMemoryType = c.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
	if (d->type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
		c.dstMemoryType = CU_MEMORYTYPE_ARRAY;
		c.dstArray = d->op.array.array;
		c.dstXInBytes = d->op.array.offset.x * element;
		c.dstY = d->op.array.offset.y;
		c.dstZ = d->op.array.offset.z;
	} else {
		c.dstDevice = d->op.ptr.ptr;
		c.dstPitch = d->op.ptr.rowLength * element;
		c.dstHeight = d->op.ptr.layerHeight;
	}
	if (s->type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
		c.srcMemoryType = CU_MEMORYTYPE_ARRAY;
		c.srcArray = s->op.array.array;
		c.srcXInBytes = s->op.array.offset.x * element;
		c.srcY = s->op.array.offset.y;
		c.srcZ = s->op.array.offset.z;
	} else {
		c.srcDevice = s->op.ptr.ptr;
		c.srcPitch = s->op.ptr.rowLength * element;
		c.srcHeight = s->op.ptr.layerHeight;
	}
	return copy_3d(&c, hStream, true);
}

static CUresult copy_3d_batch(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList, size_t *failIdx,
	unsigned long long flags, CUstream hStream)
{
	if (failIdx)
		*failIdx = SIZE_MAX;
	CU_CHECK(numOps != 0 && opList && flags == 0 && (uintptr_t)hStream > 2,
		CUDA_ERROR_INVALID_VALUE);
	for (size_t i = 0; i < numOps; i++) {
		CUresult r = copy_3d_operand(&opList[i], hStream);

		if (r != CUDA_SUCCESS && failIdx)
			*failIdx = i;
		CU_TRY(r);
	}
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuMemcpy3DBatchAsync(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList,
	size_t *failIdx, unsigned long long flags, CUstream hStream)
{
	return copy_3d_batch(numOps, opList, failIdx, flags, hStream);
}

CU_EXPORT CUresult cuMemcpy3DBatchAsync_v2(
	size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList, unsigned long long flags, CUstream hStream)
{
	return copy_3d_batch(numOps, opList, NULL, flags, hStream);
}

CU_EXPORT CUresult cuMemcpyWithAttributesAsync(
	CUdeviceptr dst, CUdeviceptr src, size_t size, CUmemcpyAttributes *attr, CUstream hStream)
{
	CU_CHECK(attr, CUDA_ERROR_INVALID_VALUE);
	return linear_by(attr, dst, src, size, hStream);
}

CU_EXPORT CUresult cuMemcpy3DWithAttributesAsync(
	CUDA_MEMCPY3D_BATCH_OP *op, unsigned long long flags, CUstream hStream)
{
	CU_CHECK(op && flags == 0, CUDA_ERROR_INVALID_VALUE);
	return copy_3d_operand(op, hStream);
}

/* ---- memset ---- */

CUresult cu_build_memset(
	struct cu_context *context, const CUDA_MEMSET_NODE_PARAMS *m, struct cu_op *op)
{
	uint64_t width = m->width * (uint64_t)m->elementSize, bytes;

	CU_CHECK(m->elementSize == 1 || m->elementSize == 2 || m->elementSize == 4,
		CUDA_ERROR_INVALID_VALUE);
	CU_CHECK(m->width < 1ull << 46 && m->height < 1ull << 32, CUDA_ERROR_INVALID_VALUE);
	CU_CHECK(m->dst % m->elementSize == 0, CUDA_ERROR_INVALID_VALUE);
	if (m->width == 0 || m->height == 0) {
		cu_op_init(op, SIMGPU_OP_EMPTY, context);
		return CUDA_SUCCESS;
	}
	if (m->height > 1)
		CU_CHECK(m->pitch >= width && m->pitch % m->elementSize == 0,
			CUDA_ERROR_INVALID_VALUE);
	bytes = width + (m->height - 1) * (m->height > 1 ? m->pitch : 0);
	if (cu_is_device_address(m->dst))
		CU_TRY(cu_check_device_range(m->dst, bytes));
	else
		CU_CHECK(is_pinned(m->dst, bytes), CUDA_ERROR_INVALID_VALUE);
	cu_op_init(op, SIMGPU_OP_MEMSET, context);
	op->entry.memset = (struct simgpu_op_memset){
		.ptr = m->dst,
		.width = m->width,
		.height = m->height,
		.pitch = m->pitch,
		.value = m->value,
		.elem_bytes = m->elementSize,
	};
	if (!cu_is_device_address(m->dst))
		op->entry.flags |= SIMGPU_ENTRY_VISIBLE;
	return CUDA_SUCCESS;
}

static CUresult cu_copy_fill(CUdeviceptr dst, size_t pitch, unsigned value, unsigned element,
	size_t width, size_t height, CUstream hStream, bool is_async)
{
	CUDA_MEMSET_NODE_PARAMS m = {
		.dst = dst,
		.pitch = pitch,
		.value = value,
		.elementSize = element,
		.width = width,
		.height = height,
	};
	struct cu_stream *stream;
	struct cu_op op;

	CU_ENTER_CONTEXT(ctx);
	CU_TRY(cu_stream_get(hStream, ctx, &stream));
	if (!is_async)
		CU_TRY(cu_capture_check_unsafe());
	CU_TRY(cu_build_memset(stream->context, &m, &op));
	/* A synchronous memset waits only for host memory. */
	op.waits = !is_async && !cu_is_device_address(dst);
	return cu_stream_do(stream, &op);
}

#define FILL(name, type, bytes) \
	CU_EXPORT CUresult cuMemset##name##_v2(CUdeviceptr dstDevice, type v, size_t N) \
	{ \
		return cu_copy_fill(dstDevice, 0, v, bytes, N, 1, NULL, false); \
	} \
	CU_EXPORT CUresult cuMemset##name##Async( \
		CUdeviceptr dstDevice, type v, size_t N, CUstream hStream) \
	{ \
		return cu_copy_fill(dstDevice, 0, v, bytes, N, 1, hStream, true); \
	}

#define FILL_2D(name, type, bytes) \
	CU_EXPORT CUresult cuMemset##name##_v2( \
		CUdeviceptr dstDevice, size_t dstPitch, type v, size_t Width, size_t Height) \
	{ \
		return cu_copy_fill(dstDevice, dstPitch, v, bytes, Width, Height, NULL, false); \
	} \
	CU_EXPORT CUresult cuMemset##name##Async(CUdeviceptr dstDevice, size_t dstPitch, type v, \
		size_t Width, size_t Height, CUstream hStream) \
	{ \
		return cu_copy_fill(dstDevice, dstPitch, v, bytes, Width, Height, hStream, true); \
	}

FILL(D8, unsigned char, 1)
FILL(D16, unsigned short, 2)
FILL(D32, unsigned int, 4)
FILL_2D(D2D8, unsigned char, 1)
FILL_2D(D2D16, unsigned short, 2)
FILL_2D(D2D32, unsigned int, 4)
