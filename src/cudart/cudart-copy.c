/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of every shape. Plain copies call the driver's function for their direction; all others
 * become the driver's 3D copy. The per-thread forms of copies that wait are the copy in the
 * thread's stream, and a wait for this stream.
 */
#include <string.h>

#include "cudart/cudart.h"
#include "cudart/cudart-entries.h"

static cudaError_t wait_for(cudaError_t error, CUstream stream)
{
	return error ? error : rt_error(rt_driver.cuStreamSynchronize(stream));
}

/* ---- plain copies ---- */

static CUresult copy_now(void *dst, const void *src, size_t n, enum cudaMemcpyKind kind)
{
	switch (kind) {
	case cudaMemcpyHostToDevice: return rt_driver.cuMemcpyHtoD_v2(RT_PTR(dst), src, n);
	case cudaMemcpyDeviceToHost: return rt_driver.cuMemcpyDtoH_v2(dst, RT_PTR(src), n);
	case cudaMemcpyDeviceToDevice:
		return rt_driver.cuMemcpyDtoD_v2(RT_PTR(dst), RT_PTR(src), n);
	default: return rt_driver.cuMemcpy(RT_PTR(dst), RT_PTR(src), n);
	}
}

static CUresult copy_later(
	void *dst, const void *src, size_t n, enum cudaMemcpyKind kind, CUstream stream)
{
	switch (kind) {
	case cudaMemcpyHostToDevice:
		return rt_driver.cuMemcpyHtoDAsync_v2(RT_PTR(dst), src, n, stream);
	case cudaMemcpyDeviceToHost:
		return rt_driver.cuMemcpyDtoHAsync_v2(dst, RT_PTR(src), n, stream);
	case cudaMemcpyDeviceToDevice:
		return rt_driver.cuMemcpyDtoDAsync_v2(RT_PTR(dst), RT_PTR(src), n, stream);
	default: return rt_driver.cuMemcpyAsync(RT_PTR(dst), RT_PTR(src), n, stream);
	}
}

cudaError_t rt_cudaMemcpy(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind)
{
	RT_CHECK((unsigned int)kind <= cudaMemcpyDefault, cudaErrorInvalidMemcpyDirection);
	if (!count)
		return cudaSuccess;
	if (!rt_thread.per_thread)
		return rt_error(copy_now(dst, src, count, kind));
	return wait_for(rt_error(copy_later(dst, src, count, kind, CU_STREAM_PER_THREAD)),
		CU_STREAM_PER_THREAD);
}

cudaError_t rt_cudaMemcpyAsync(
	void *dst, const void *src, size_t count, enum cudaMemcpyKind kind, CUstream stream)
{
	RT_CHECK((unsigned int)kind <= cudaMemcpyDefault, cudaErrorInvalidMemcpyDirection);
	return count ? rt_error(copy_later(dst, src, count, kind, rt_stream(stream))) : cudaSuccess;
}

/* ---- copies to and from variables ---- */

/* A variable is device memory, so one side of the direction is given. */
static cudaError_t check_kind(enum cudaMemcpyKind kind, enum cudaMemcpyKind with_host)
{
	return kind == with_host || kind == cudaMemcpyDeviceToDevice || kind == cudaMemcpyDefault
		? cudaSuccess
		: cudaErrorInvalidMemcpyDirection;
}

cudaError_t rt_cudaMemcpyToSymbol(
	const void *symbol, const void *src, size_t count, size_t offset, enum cudaMemcpyKind kind)
{
	void *at;

	RT_TRY(check_kind(kind, cudaMemcpyHostToDevice));
	RT_TRY(rt_symbol_range(symbol, count, offset, &at));
	return rt_cudaMemcpy(at, src, count, kind);
}

cudaError_t rt_cudaMemcpyToSymbolAsync(const void *symbol, const void *src, size_t count,
	size_t offset, enum cudaMemcpyKind kind, CUstream stream)
{
	void *at;

	RT_TRY(check_kind(kind, cudaMemcpyHostToDevice));
	RT_TRY(rt_symbol_range(symbol, count, offset, &at));
	return rt_cudaMemcpyAsync(at, src, count, kind, stream);
}

cudaError_t rt_cudaMemcpyFromSymbol(
	void *dst, const void *symbol, size_t count, size_t offset, enum cudaMemcpyKind kind)
{
	void *at;

	RT_TRY(check_kind(kind, cudaMemcpyDeviceToHost));
	RT_TRY(rt_symbol_range(symbol, count, offset, &at));
	return rt_cudaMemcpy(dst, at, count, kind);
}

cudaError_t rt_cudaMemcpyFromSymbolAsync(void *dst, const void *symbol, size_t count, size_t offset,
	enum cudaMemcpyKind kind, CUstream stream)
{
	void *at;

	RT_TRY(check_kind(kind, cudaMemcpyDeviceToHost));
	RT_TRY(rt_symbol_range(symbol, count, offset, &at));
	return rt_cudaMemcpyAsync(dst, at, count, kind, stream);
}

/* ---- copies of boxes ---- */

/* One side of a copy: an array, or memory of the kind that the direction says. Bytes and rows. */
struct side {
	CUarray array;
	void *at;
	size_t pitch, rows, x, y, z;
};

static CUmemorytype memory_of(enum cudaMemcpyKind kind, bool is_source)
{
	switch (kind) {
	case cudaMemcpyHostToHost: return CU_MEMORYTYPE_HOST;
	case cudaMemcpyHostToDevice: return is_source ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
	case cudaMemcpyDeviceToHost: return is_source ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
	case cudaMemcpyDeviceToDevice: return CU_MEMORYTYPE_DEVICE;
	default: return CU_MEMORYTYPE_UNIFIED;
	}
}

static void set_source(CUDA_MEMCPY3D *copy, const struct side *s, enum cudaMemcpyKind kind)
{
	copy->srcMemoryType = s->array ? CU_MEMORYTYPE_ARRAY : memory_of(kind, true);
	copy->srcArray = s->array;
	if (copy->srcMemoryType == CU_MEMORYTYPE_HOST)
		copy->srcHost = s->at;
	else
		copy->srcDevice = RT_PTR(s->at);
	copy->srcPitch = s->pitch;
	copy->srcHeight = s->rows;
	copy->srcXInBytes = s->x;
	copy->srcY = s->y;
	copy->srcZ = s->z;
}

static void set_target(CUDA_MEMCPY3D *copy, const struct side *s, enum cudaMemcpyKind kind)
{
	copy->dstMemoryType = s->array ? CU_MEMORYTYPE_ARRAY : memory_of(kind, false);
	copy->dstArray = s->array;
	if (copy->dstMemoryType == CU_MEMORYTYPE_HOST)
		copy->dstHost = s->at;
	else
		copy->dstDevice = RT_PTR(s->at);
	copy->dstPitch = s->pitch;
	copy->dstHeight = s->rows;
	copy->dstXInBytes = s->x;
	copy->dstY = s->y;
	copy->dstZ = s->z;
}

static cudaError_t copy_box(const CUDA_MEMCPY3D *copy, CUstream stream, bool is_async)
{
	if (!copy->WidthInBytes || !copy->Height || !copy->Depth)
		return cudaSuccess;
	if (is_async)
		return rt_error(rt_driver.cuMemcpy3DAsync_v2(copy, rt_stream(stream)));
	if (!rt_thread.per_thread)
		return rt_error(rt_driver.cuMemcpy3D_v2(copy));
	return wait_for(rt_error(rt_driver.cuMemcpy3DAsync_v2(copy, CU_STREAM_PER_THREAD)),
		CU_STREAM_PER_THREAD);
}

static cudaError_t copy_rows(const struct side *to, const struct side *from, size_t width,
	size_t height, enum cudaMemcpyKind kind, CUstream stream, bool is_async)
{
	CUDA_MEMCPY3D copy = {.WidthInBytes = width, .Height = height, .Depth = 1};

	RT_CHECK((unsigned int)kind <= cudaMemcpyDefault, cudaErrorInvalidMemcpyDirection);
	RT_CHECK((to->array || height < 2 || width <= to->pitch) &&
			(from->array || height < 2 || width <= from->pitch),
		cudaErrorInvalidPitchValue);
	set_target(&copy, to, kind);
	set_source(&copy, from, kind);
	return copy_box(&copy, stream, is_async);
}

cudaError_t rt_cudaMemcpy2DAsync(void *dst, size_t dpitch, const void *src, size_t spitch,
	size_t width, size_t height, enum cudaMemcpyKind kind, CUstream stream)
{
	const struct side to = {.at = dst, .pitch = dpitch, .rows = height},
			  from = {.at = (void *)(uintptr_t)src, .pitch = spitch, .rows = height};

	return copy_rows(&to, &from, width, height, kind, stream, true);
}

cudaError_t rt_cudaMemcpy2D(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
	size_t height, enum cudaMemcpyKind kind)
{
	const struct side to = {.at = dst, .pitch = dpitch, .rows = height},
			  from = {.at = (void *)(uintptr_t)src, .pitch = spitch, .rows = height};

	return copy_rows(&to, &from, width, height, kind, NULL, false);
}

static cudaError_t to_array(CUarray dst, size_t x, size_t y, const void *src, size_t pitch,
	size_t width, size_t height, enum cudaMemcpyKind kind, CUstream stream, bool is_async)
{
	const struct side to = {.array = dst, .x = x, .y = y},
			  from = {.at = (void *)(uintptr_t)src, .pitch = pitch, .rows = height};

	RT_CHECK(dst, cudaErrorInvalidResourceHandle);
	return copy_rows(&to, &from, width, height, kind, stream, is_async);
}

static cudaError_t from_array(void *dst, size_t pitch, CUarray src, size_t x, size_t y,
	size_t width, size_t height, enum cudaMemcpyKind kind, CUstream stream, bool is_async)
{
	const struct side to = {.at = dst, .pitch = pitch, .rows = height},
			  from = {.array = src, .x = x, .y = y};

	RT_CHECK(src, cudaErrorInvalidResourceHandle);
	return copy_rows(&to, &from, width, height, kind, stream, is_async);
}

cudaError_t rt_cudaMemcpy2DToArray(CUarray dst, size_t wOffset, size_t hOffset, const void *src,
	size_t spitch, size_t width, size_t height, enum cudaMemcpyKind kind)
{
	return to_array(dst, wOffset, hOffset, src, spitch, width, height, kind, NULL, false);
}

cudaError_t rt_cudaMemcpy2DToArrayAsync(CUarray dst, size_t wOffset, size_t hOffset,
	const void *src, size_t spitch, size_t width, size_t height, enum cudaMemcpyKind kind,
	CUstream stream)
{
	return to_array(dst, wOffset, hOffset, src, spitch, width, height, kind, stream, true);
}

cudaError_t rt_cudaMemcpy2DFromArray(void *dst, size_t dpitch, CUarray src, size_t wOffset,
	size_t hOffset, size_t width, size_t height, enum cudaMemcpyKind kind)
{
	return from_array(dst, dpitch, src, wOffset, hOffset, width, height, kind, NULL, false);
}

cudaError_t rt_cudaMemcpy2DFromArrayAsync(void *dst, size_t dpitch, CUarray src, size_t wOffset,
	size_t hOffset, size_t width, size_t height, enum cudaMemcpyKind kind, CUstream stream)
{
	return from_array(dst, dpitch, src, wOffset, hOffset, width, height, kind, stream, true);
}

cudaError_t rt_cudaMemcpy2DArrayToArray(CUarray dst, size_t wOffsetDst, size_t hOffsetDst,
	CUarray src, size_t wOffsetSrc, size_t hOffsetSrc, size_t width, size_t height,
	enum cudaMemcpyKind kind)
{
	const struct side to = {.array = dst, .x = wOffsetDst, .y = hOffsetDst},
			  from = {.array = src, .x = wOffsetSrc, .y = hOffsetSrc};

	RT_CHECK(dst && src, cudaErrorInvalidResourceHandle);
	return copy_rows(&to, &from, width, height, kind, NULL, false);
}

/* ---- copies of a number of bytes to and from arrays, row after row ---- */

static cudaError_t row_bytes(CUarray array, size_t *ret)
{
	CUDA_ARRAY3D_DESCRIPTOR desc;
	size_t element;

	RT_CHECK(array, cudaErrorInvalidResourceHandle);
	RT_TRY(rt_element_bytes(array, &element));
	RT_DRIVE(cuArray3DGetDescriptor_v2(&desc, array));
	*ret = desc.Width * element;
	return cudaSuccess;
}

struct cursor {
	struct side side;
	size_t row; /* bytes of a row of the array */
};

static cudaError_t cursor_of(struct cursor *ret, CUarray array, size_t x, size_t y)
{
	*ret = (struct cursor){.side = {.array = array, .x = x, .y = y}};
	RT_TRY(row_bytes(array, &ret->row));
	RT_CHECK(x < ret->row, cudaErrorInvalidValue);
	return cudaSuccess;
}

static size_t rest_of(const struct cursor *c, size_t n)
{
	return c->row && c->row - c->side.x < n ? c->row - c->side.x : n;
}

static void advance(struct cursor *c, size_t n)
{
	if (!c->row) {
		c->side.at = (char *)c->side.at + n;
		return;
	}
	c->side.x += n;
	if (c->side.x == c->row) {
		c->side.x = 0;
		c->side.y++;
	}
}

static cudaError_t copy_bytes(struct cursor *to, struct cursor *from, size_t count,
	enum cudaMemcpyKind kind, CUstream stream, bool is_async)
{
	while (count) {
		const size_t n = rest_of(to, rest_of(from, count));

		RT_TRY(copy_rows(&to->side, &from->side, n, 1, kind, stream, is_async));
		advance(to, n);
		advance(from, n);
		count -= n;
	}
	return cudaSuccess;
}

static cudaError_t bytes_to_array(CUarray dst, size_t x, size_t y, const void *src, size_t count,
	enum cudaMemcpyKind kind, CUstream stream, bool is_async)
{
	struct cursor to, from = {.side = {.at = (void *)(uintptr_t)src}};

	RT_TRY(cursor_of(&to, dst, x, y));
	return copy_bytes(&to, &from, count, kind, stream, is_async);
}

static cudaError_t bytes_from_array(void *dst, CUarray src, size_t x, size_t y, size_t count,
	enum cudaMemcpyKind kind, CUstream stream, bool is_async)
{
	struct cursor to = {.side = {.at = dst}}, from;

	RT_TRY(cursor_of(&from, src, x, y));
	return copy_bytes(&to, &from, count, kind, stream, is_async);
}

cudaError_t rt_cudaMemcpyToArray(CUarray dst, size_t wOffset, size_t hOffset, const void *src,
	size_t count, enum cudaMemcpyKind kind)
{
	return bytes_to_array(dst, wOffset, hOffset, src, count, kind, NULL, false);
}

cudaError_t rt_cudaMemcpyToArrayAsync(CUarray dst, size_t wOffset, size_t hOffset, const void *src,
	size_t count, enum cudaMemcpyKind kind, CUstream stream)
{
	return bytes_to_array(dst, wOffset, hOffset, src, count, kind, stream, true);
}

cudaError_t rt_cudaMemcpyFromArray(void *dst, CUarray src, size_t wOffset, size_t hOffset,
	size_t count, enum cudaMemcpyKind kind)
{
	return bytes_from_array(dst, src, wOffset, hOffset, count, kind, NULL, false);
}

cudaError_t rt_cudaMemcpyFromArrayAsync(void *dst, CUarray src, size_t wOffset, size_t hOffset,
	size_t count, enum cudaMemcpyKind kind, CUstream stream)
{
	return bytes_from_array(dst, src, wOffset, hOffset, count, kind, stream, true);
}

cudaError_t rt_cudaMemcpyArrayToArray(CUarray dst, size_t wOffsetDst, size_t hOffsetDst,
	CUarray src, size_t wOffsetSrc, size_t hOffsetSrc, size_t count, enum cudaMemcpyKind kind)
{
	struct cursor to, from;

	RT_TRY(cursor_of(&to, dst, wOffsetDst, hOffsetDst));
	RT_TRY(cursor_of(&from, src, wOffsetSrc, hOffsetSrc));
	return copy_bytes(&to, &from, count, kind, NULL, false);
}

/* ---- 3D ---- */

/* Positions in an array, and the width of a copy with an array, count elements of the array. */
cudaError_t rt_copy_params(const struct cudaMemcpy3DParms *p, CUDA_MEMCPY3D *ret)
{
	struct side to = {.array = p->dstArray,
			    .at = p->dstPtr.ptr,
			    .pitch = p->dstPtr.pitch,
			    .rows = p->dstPtr.ysize,
			    .x = p->dstPos.x,
			    .y = p->dstPos.y,
			    .z = p->dstPos.z},
		    from = {.array = p->srcArray,
			    .at = p->srcPtr.ptr,
			    .pitch = p->srcPtr.pitch,
			    .rows = p->srcPtr.ysize,
			    .x = p->srcPos.x,
			    .y = p->srcPos.y,
			    .z = p->srcPos.z};
	size_t element = 1, bytes;

	RT_CHECK((unsigned int)p->kind <= cudaMemcpyDefault, cudaErrorInvalidMemcpyDirection);
	RT_CHECK(!to.array != !to.at && !from.array != !from.at, cudaErrorInvalidValue);
	if (to.array) {
		RT_TRY(rt_element_bytes(to.array, &element));
		to.x *= element;
	}
	if (from.array) {
		RT_TRY(rt_element_bytes(from.array, &bytes));
		RT_CHECK(!to.array || bytes == element, cudaErrorInvalidValue);
		element = bytes;
		from.x *= element;
	}
	*ret = (CUDA_MEMCPY3D){.WidthInBytes = p->extent.width * element,
		.Height = p->extent.height,
		.Depth = p->extent.depth};
	set_target(ret, &to, p->kind);
	set_source(ret, &from, p->kind);
	return cudaSuccess;
}

void rt_copy_params_1d(
	void *dst, const void *src, size_t count, enum cudaMemcpyKind kind, CUDA_MEMCPY3D *ret)
{
	const struct side to = {.at = dst, .pitch = count, .rows = 1},
			  from = {.at = (void *)(uintptr_t)src, .pitch = count, .rows = 1};

	*ret = (CUDA_MEMCPY3D){.WidthInBytes = count, .Height = 1, .Depth = 1};
	set_target(ret, &to, kind);
	set_source(ret, &from, kind);
}

static enum cudaMemcpyKind kind_of(CUmemorytype from, CUmemorytype to)
{
	if (from == CU_MEMORYTYPE_UNIFIED || to == CU_MEMORYTYPE_UNIFIED)
		return cudaMemcpyDefault;
	if (from == CU_MEMORYTYPE_HOST)
		return to == CU_MEMORYTYPE_HOST ? cudaMemcpyHostToHost : cudaMemcpyHostToDevice;
	return to == CU_MEMORYTYPE_HOST ? cudaMemcpyDeviceToHost : cudaMemcpyDeviceToDevice;
}

cudaError_t rt_copy_params_back(const CUDA_MEMCPY3D *copy, struct cudaMemcpy3DParms *ret)
{
	size_t element = 1;

	*ret = (struct cudaMemcpy3DParms){
		.srcPos = {copy->srcXInBytes, copy->srcY, copy->srcZ},
		.dstPos = {copy->dstXInBytes, copy->dstY, copy->dstZ},
		.kind = kind_of(copy->srcMemoryType, copy->dstMemoryType),
	};
	if (copy->dstMemoryType == CU_MEMORYTYPE_ARRAY) {
		ret->dstArray = copy->dstArray;
		RT_TRY(rt_element_bytes(copy->dstArray, &element));
		ret->dstPos.x /= element;
	} else {
		ret->dstPtr = (struct cudaPitchedPtr){copy->dstMemoryType == CU_MEMORYTYPE_HOST
				? copy->dstHost
				: (void *)(uintptr_t)copy->dstDevice,
			copy->dstPitch, copy->WidthInBytes, copy->dstHeight};
	}
	if (copy->srcMemoryType == CU_MEMORYTYPE_ARRAY) {
		ret->srcArray = copy->srcArray;
		RT_TRY(rt_element_bytes(copy->srcArray, &element));
		ret->srcPos.x /= element;
	} else {
		ret->srcPtr = (struct cudaPitchedPtr){copy->srcMemoryType == CU_MEMORYTYPE_HOST
				? (void *)(uintptr_t)copy->srcHost
				: (void *)(uintptr_t)copy->srcDevice,
			copy->srcPitch, copy->WidthInBytes, copy->srcHeight};
	}
	ret->extent = (struct cudaExtent){copy->WidthInBytes / element, copy->Height, copy->Depth};
	return cudaSuccess;
}

cudaError_t rt_cudaMemcpy3D(const struct cudaMemcpy3DParms *p)
{
	CUDA_MEMCPY3D copy;

	RT_CHECK(p, cudaErrorInvalidValue);
	RT_TRY(rt_copy_params(p, &copy));
	return copy_box(&copy, NULL, false);
}

cudaError_t rt_cudaMemcpy3DAsync(const struct cudaMemcpy3DParms *p, CUstream stream)
{
	CUDA_MEMCPY3D copy;

	RT_CHECK(p, cudaErrorInvalidValue);
	RT_TRY(rt_copy_params(p, &copy));
	return copy_box(&copy, stream, true);
}

/* ---- copies between devices ---- */

cudaError_t rt_cudaMemcpyPeer(
	void *dst, int dstDevice, const void *src, int srcDevice, size_t count)
{
	CUcontext to, from;

	RT_TRY(rt_primary(dstDevice, &to));
	RT_TRY(rt_primary(srcDevice, &from));
	return count ? rt_error(rt_driver.cuMemcpyPeer(RT_PTR(dst), to, RT_PTR(src), from, count))
		     : cudaSuccess;
}

cudaError_t rt_cudaMemcpyPeerAsync(
	void *dst, int dstDevice, const void *src, int srcDevice, size_t count, CUstream stream)
{
	CUcontext to, from;

	RT_TRY(rt_primary(dstDevice, &to));
	RT_TRY(rt_primary(srcDevice, &from));
	return count ? rt_error(rt_driver.cuMemcpyPeerAsync(
			       RT_PTR(dst), to, RT_PTR(src), from, count, rt_stream(stream)))
		     : cudaSuccess;
}

static cudaError_t peer_params(const struct cudaMemcpy3DPeerParms *p, CUDA_MEMCPY3D_PEER *ret)
{
	struct cudaMemcpy3DParms plain;
	CUDA_MEMCPY3D copy;
	CUcontext to, from;

	RT_CHECK(p, cudaErrorInvalidValue);
	plain = (struct cudaMemcpy3DParms){
		.srcArray = p->srcArray,
		.srcPos = p->srcPos,
		.srcPtr = p->srcPtr,
		.dstArray = p->dstArray,
		.dstPos = p->dstPos,
		.dstPtr = p->dstPtr,
		.extent = p->extent,
		.kind = cudaMemcpyDeviceToDevice,
	};
	RT_TRY(rt_copy_params(&plain, &copy));
	RT_TRY(rt_primary(p->dstDevice, &to));
	RT_TRY(rt_primary(p->srcDevice, &from));
	/* The two structs differ in the contexts alone, which have the place of reserved fields. */
	_Static_assert(sizeof(copy) == sizeof(*ret), "same fields");
	memcpy(ret, &copy, sizeof(*ret));
	ret->dstContext = to;
	ret->srcContext = from;
	return cudaSuccess;
}

cudaError_t rt_cudaMemcpy3DPeer(const struct cudaMemcpy3DPeerParms *p)
{
	CUDA_MEMCPY3D_PEER copy;

	RT_TRY(peer_params(p, &copy));
	if (!rt_thread.per_thread)
		return rt_error(rt_driver.cuMemcpy3DPeer(&copy));
	return wait_for(rt_error(rt_driver.cuMemcpy3DPeerAsync(&copy, CU_STREAM_PER_THREAD)),
		CU_STREAM_PER_THREAD);
}

cudaError_t rt_cudaMemcpy3DPeerAsync(const struct cudaMemcpy3DPeerParms *p, CUstream stream)
{
	CUDA_MEMCPY3D_PEER copy;

	RT_TRY(peer_params(p, &copy));
	return rt_error(rt_driver.cuMemcpy3DPeerAsync(&copy, rt_stream(stream)));
}
