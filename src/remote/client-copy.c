/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies whose source or destination is in the program's memory. The client sends source data with
 * the call. If earlier work could still write to a page-locked source, or the copy is captured, the
 * worker fetches the data later. A call that copies to pageable memory waits for the copy, as in
 * the driver. The reverse thread moves the data of copies to page-locked memory and of copies in
 * graphs. If the worker has mapped the memory, the driver copies without the client's help. Any
 * thread.
 */
#include "cuda/copy.h"
#include "remote/client.h"

#define PER_THREAD CU_STREAM_PER_THREAD

struct how {
	CUstream stream;
	bool is_async;   /* the function takes a stream */
	bool is_awaited; /* after the call the program may reuse the source, and has the result */
	bool is_taken;   /* after the call the program may reuse the source */
};

/* Whether the copy becomes part of a graph instead of running. */
static bool becomes_a_node(struct how how)
{
	return how.is_async && is_captured_on(how.stream);
}

static bool is_host_type(CUmemorytype *type, const void **host, CUdeviceptr device)
{
	/*
	 * The program and the device have one address space, so an address shows whose memory it is
	 * in.
	 */
	if (*type == CU_MEMORYTYPE_UNIFIED) {
		*type = is_device(device) ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
		*host = (const void *)(uintptr_t)device;
	}
	return *type == CU_MEMORYTYPE_HOST;
}

/*
 * Position of the source or the destination of a copy in its memory. A pitch or a number of rows
 * that the program leaves 0 gets the value that the size of the copy requires.
 */
struct place {
	size_t x, y, z, pitch, rows;
};

static struct place copy_place_of(const CUDA_MEMCPY3D *c, bool is_source)
{
	struct place p = is_source
		? (struct place){c->srcXInBytes, c->srcY, c->srcZ, c->srcPitch, c->srcHeight}
		: (struct place){c->dstXInBytes, c->dstY, c->dstZ, c->dstPitch, c->dstHeight};

	p.pitch = p.pitch ? p.pitch : p.x + c->WidthInBytes;
	p.rows = p.rows ? p.rows : p.y + c->Height;
	return p;
}

/* False if the size, or the position of the last byte, overflows. */
static bool copy_is_possible(const CUDA_MEMCPY3D *c, const struct place *p)
{
	const bool is_line = c->Height == 1 && c->Depth == 1;
	size_t n, x_end, y_end, z_end;

	if (__builtin_mul_overflow(c->WidthInBytes, c->Height, &n) ||
		__builtin_mul_overflow(n, c->Depth, &n) ||
		__builtin_add_overflow(p->x, c->WidthInBytes, &x_end) ||
		__builtin_add_overflow(p->y, c->Height, &y_end) ||
		__builtin_add_overflow(p->z, c->Depth, &z_end) ||
		__builtin_mul_overflow(p->pitch, y_end, &n) ||
		(z_end > 1 &&
			(__builtin_mul_overflow(p->pitch, p->rows, &n) ||
				__builtin_mul_overflow(n, z_end, &n))))
		return false;
	return (is_line || p->pitch >= x_end) && (c->Depth == 1 || p->rows >= y_end);
}

static CUresult box_of(const CUDA_MEMCPY3D *c, bool is_source, struct box *ret_box)
{
	const struct place p = copy_place_of(c, is_source);
	const size_t slice = p.pitch * p.rows;
	const uint8_t *base = is_source ? c->srcHost : c->dstHost;

	if (!base || is_reserved((uintptr_t)base) || !copy_is_possible(c, &p))
		return CUDA_ERROR_INVALID_VALUE;
	base += p.x + p.y * p.pitch + p.z * slice;
	*ret_box = (struct box){
		(uint8_t *)(uintptr_t)base, p.pitch, slice, c->WidthInBytes, c->Height, c->Depth};
	return CUDA_SUCCESS;
}

static CUresult device_end(const CUDA_MEMCPY3D *c, bool is_source, struct remote_copy *ret)
{
	const bool is_array = (is_source ? c->srcMemoryType : c->dstMemoryType) ==
		CU_MEMORYTYPE_ARRAY;
	const struct place p = copy_place_of(c, is_source);

	*ret = (struct remote_copy){.width = c->WidthInBytes,
		.height = c->Height,
		.depth = c->Depth,
		.x = p.x,
		.y = p.y,
		.z = p.z};
	if (is_array) {
		ret->array = (uintptr_t)(is_source ? c->srcArray : c->dstArray);
		return ret->array ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
	}
	ret->address = is_source ? c->srcDevice : c->dstDevice;
	ret->pitch = p.pitch;
	ret->slice = p.pitch * p.rows;
	/*
	 * The call refuses a copy that does not fit as a whole, before any byte of source or
	 * destination is accessed.
	 */
	return copy_is_possible(c, &p) &&
			device_reaches(
				&(struct copy_place){ret->address, p.x, p.y, p.z, p.pitch, p.rows},
				c->WidthInBytes, c->Height, c->Depth)
		? CUDA_SUCCESS
		: CUDA_ERROR_INVALID_VALUE;
}

/*
 * The worker fetches the source from the program, or sends the data to it, when the stream reaches
 * the copy.
 */
static CUresult copy_send_later(
	unsigned op, const struct remote_copy *whole, const struct box *box, bool is_captured)
{
	const struct work work = {.kind = WORK_COPY,
		.box = *box,
		.is_source = op == REMOTE_COPY_FETCH,
		.is_once = !is_captured};
	struct remote_copy copy = *whole;
	struct call c;
	CUresult r = session_check();

	if (r)
		return r;
	copy.is_free = work.is_once;
	copy.is_async = true;
	r = work_new(&work, &copy.work);
	if (!r)
		r = call_begin(&c, op, sizeof(copy));
	if (r)
		return r;
	call_put(&c, &copy, sizeof(copy));
	return call_post(&c);
}

static CUresult copy_window(
	unsigned op, const struct remote_copy *copy, const struct remote_window *window)
{
	struct call c;
	CUresult r = call_begin(&c, op, sizeof(*copy) + sizeof(*window));

	if (r)
		return r;
	call_put(&c, copy, sizeof(*copy));
	call_put(&c, window, sizeof(*window));
	if (copy->is_async)
		return call_post(&c);
	r = call_wait(&c, REMOTE_SYNC);
	call_end(&c);
	return r;
}

static CUresult copy_device(const CUDA_MEMCPY3D *copy, struct how how)
{
	const uint64_t on = (uintptr_t)how.stream, is_async = how.is_async;
	struct call c;
	CUresult r = call_begin(&c, REMOTE_COPY_DEVICE, sizeof(*copy) + 16);

	if (r)
		return r;
	call_put(&c, copy, sizeof(*copy));
	call_put(&c, &on, sizeof(on));
	call_put(&c, &is_async, sizeof(is_async));
	return call_post(&c);
}

/* The copy runs when the stream reaches it, and the call waits for it, as in the driver. */
static CUresult copy_host(const CUDA_MEMCPY3D *copy, struct how how)
{
	const bool is_captured = becomes_a_node(how);
	struct work work = {.kind = WORK_MOVE};
	CUresult r = box_of(copy, false, &work.box);

	r = r ? r : box_of(copy, true, &work.from);
	r = r ? r : host_call(&work, how.stream, is_captured);
	return r || is_captured ? r : cuStreamSynchronize(how.stream);
}

/*
 * Returns whether the worker reads the source only when the stream reaches the copy, because
 * earlier work may still write it. The client sends a pageable source of an asynchronous call at
 * once, because the program may reuse it after the call.
 */
static bool is_read_later(const struct box *box, struct how how)
{
	return !how.is_taken && is_hazardous() && (how.is_awaited || is_pinned(box->base));
}

/*
 * Whether the worker may fetch the source later. Then the call need not wait until there is room to
 * send the source.
 */
static bool is_patient(const struct box *box, struct how how)
{
	return how.is_async && !how.is_awaited && !how.is_taken && is_pinned(box->base);
}

static CUresult copy_from_host(
	const struct remote_copy *device, const struct box *box, struct how how)
{
	const bool is_captured = becomes_a_node(how);
	CUresult r;

	if (!is_captured && !is_read_later(box, how)) {
		if (!is_patient(box, how))
			return pieces_in(device, box);
		if (pieces_fit_in(device, box, &r))
			return r;
	}
	r = copy_send_later(REMOTE_COPY_FETCH, device, box, is_captured);
	return r || !how.is_awaited ? r : cuStreamSynchronize(how.stream);
}

static CUresult copy_to_host(
	const struct remote_copy *device, const struct box *box, struct how how)
{
	const bool is_captured = becomes_a_node(how);

	return is_captured || (how.is_async && is_pinned(box->base))
		? copy_send_later(REMOTE_COPY_PUSH, device, box, is_captured)
		: pieces_out(device, box);
}

static bool copy_is_type(CUmemorytype type)
{
	return type >= CU_MEMORYTYPE_HOST && type <= CU_MEMORYTYPE_UNIFIED;
}

/* A copy of no bytes still fails if the thread has no context, or the stream does not exist. */
static CUresult copy_nothing(struct how how)
{
	CUstreamCaptureStatus status;
	CUdevice device;
	const CUresult r = cuCtxGetDevice(&device);

	return r || !how.is_async ? r : cuStreamIsCapturing(how.stream, &status);
}

static CUresult copy_any_3d(const CUDA_MEMCPY3D *given, struct how how)
{
	CUDA_MEMCPY3D copy;
	struct remote_copy device;
	struct remote_window window;
	bool is_from_host, is_to_host;
	struct box box;
	CUresult r = session_check();

	if (r)
		return r;
	if (!given || given->srcLOD || given->dstLOD || !copy_is_type(given->srcMemoryType) ||
		!copy_is_type(given->dstMemoryType))
		return CUDA_ERROR_INVALID_VALUE;
	copy = *given;
	is_from_host = is_host_type(&copy.srcMemoryType, &copy.srcHost, copy.srcDevice);
	is_to_host = is_host_type(
		&copy.dstMemoryType, (const void **)(uintptr_t)&copy.dstHost, copy.dstDevice);
	if (!copy.WidthInBytes || !copy.Height || !copy.Depth)
		return copy_nothing(how);
	if (!is_from_host && !is_to_host)
		return copy_device(&copy, how);
	if (is_from_host && is_to_host)
		return copy_host(&copy, how);
	r = device_end(&copy, is_to_host, &device);
	r = r ? r : box_of(&copy, is_from_host, &box);
	if (r)
		return r;
	device.stream = (uintptr_t)how.stream;
	device.is_async = how.is_async;
	if (!(is_from_host && how.is_taken) && is_in_window(&box, &window))
		return copy_window(
			is_from_host ? REMOTE_WINDOW_IN : REMOTE_WINDOW_OUT, &device, &window);
	return is_from_host ? copy_from_host(&device, &box, how) : copy_to_host(&device, &box, how);
}

static CUresult copy_any_2d(const CUDA_MEMCPY2D *c, struct how how)
{
	CUDA_MEMCPY3D copy;
	CUresult r = session_check();

	if (r)
		return r;
	if (!c)
		return CUDA_ERROR_INVALID_VALUE;
	copy = memcpy_3d_of(c);
	return copy_any_3d(&copy, how);
}

static CUDA_MEMCPY3D line_to_device(const void *host, CUdeviceptr device, size_t bytes)
{
	return (CUDA_MEMCPY3D){
		.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = host,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = device,
		.WidthInBytes = bytes,
		.Height = 1,
		.Depth = 1,
	};
}

static CUDA_MEMCPY3D line_to_array(const void *host, CUarray array, size_t x, size_t bytes)
{
	CUDA_MEMCPY3D c = line_to_device(host, 0, bytes);

	c.dstMemoryType = CU_MEMORYTYPE_ARRAY;
	c.dstArray = array;
	c.dstXInBytes = x;
	return c;
}

static CUresult copy_in_line(CUDA_MEMCPY3D line, struct how how)
{
	return copy_any_3d(&line, how);
}

static CUresult copy_out_line(CUDA_MEMCPY3D line, struct how how)
{
	line = memcpy_3d_turned(&line);
	return copy_any_3d(&line, how);
}

static CUresult to_device(CUdeviceptr dst, const void *src, size_t n, struct how how)
{
	return copy_in_line(line_to_device(src, dst, n), how);
}

static CUresult to_host(void *dst, CUdeviceptr src, size_t n, struct how how)
{
	return copy_out_line(line_to_device(dst, src, n), how);
}

static CUresult copy_anywhere(CUdeviceptr dst, CUdeviceptr src, size_t n, struct how how)
{
	const CUresult r = session_check();
	CUDA_MEMCPY3D line;

	if (r)
		return r;
	if (is_device(dst) && is_device(src))
		return how.is_async ? cuMemcpyDtoDAsync_v2(dst, src, n, how.stream)
				    : cuMemcpyDtoD_v2(dst, src, n);
	if (is_device(dst))
		return to_device(dst, (const void *)(uintptr_t)src, n, how);
	if (is_device(src))
		return to_host((void *)(uintptr_t)dst, src, n, how);
	line = line_to_device((const void *)(uintptr_t)src, 0, n);
	line.dstMemoryType = CU_MEMORYTYPE_HOST;
	line.dstHost = (void *)(uintptr_t)dst;
	return copy_any_3d(&line, how);
}

/*
 * Defines a function without a stream, its form for the thread's own stream, and the two forms with
 * a stream. All four run `body`, which uses `how`.
 */
#define COPY(name, params, body) \
	REMOTE_EXPORT CUresult name params \
	{ \
		const struct how how = {NULL, false, true}; \
		return body; \
	} \
	REMOTE_EXPORT CUresult name##_ptds params \
	{ \
		const struct how how = {PER_THREAD, true, true}; \
		const CUresult r = body; \
		return r ? r : cuStreamSynchronize(how.stream); \
	}
#define ARG(...) (__VA_ARGS__
#define COPY_ASYNC(name, params, body) \
	REMOTE_EXPORT CUresult name params, CUstream hStream) \
	{ \
		const struct how how = {hStream, true, false}; \
		return body; \
	} \
	REMOTE_EXPORT CUresult name##_ptsz params, CUstream hStream) \
	{ \
		const struct how how = {hStream ? hStream : PER_THREAD, true, false}; \
		return body; \
	}

/* clang-format off */
COPY(cuMemcpy, (CUdeviceptr dst, CUdeviceptr src, size_t n),
	copy_anywhere(dst, src, n, how))
COPY_ASYNC(cuMemcpyAsync, ARG(CUdeviceptr dst, CUdeviceptr src, size_t n),
	copy_anywhere(dst, src, n, how))
COPY(cuMemcpyHtoD_v2, (CUdeviceptr dst, const void *src, size_t n),
	to_device(dst, src, n, how))
COPY_ASYNC(cuMemcpyHtoDAsync_v2, ARG(CUdeviceptr dst, const void *src, size_t n),
	to_device(dst, src, n, how))
COPY(cuMemcpyDtoH_v2, (void *dst, CUdeviceptr src, size_t n),
	to_host(dst, src, n, how))
COPY_ASYNC(cuMemcpyDtoHAsync_v2, ARG(void *dst, CUdeviceptr src, size_t n),
	to_host(dst, src, n, how))
COPY(cuMemcpyAtoH_v2, (void *dst, CUarray src, size_t at, size_t n),
	copy_out_line(line_to_array(dst, src, at, n), how))
COPY_ASYNC(cuMemcpyAtoHAsync_v2, ARG(void *dst, CUarray src, size_t at, size_t n),
	copy_out_line(line_to_array(dst, src, at, n), how))
COPY(cuMemcpyHtoA_v2, (CUarray dst, size_t at, const void *src, size_t n),
	copy_in_line(line_to_array(src, dst, at, n), how))
COPY_ASYNC(cuMemcpyHtoAAsync_v2, ARG(CUarray dst, size_t at, const void *src, size_t n),
	copy_in_line(line_to_array(src, dst, at, n), how))
COPY(cuMemcpy2D_v2, (const CUDA_MEMCPY2D *c), copy_any_2d(c, how))
COPY(cuMemcpy2DUnaligned_v2, (const CUDA_MEMCPY2D *c), copy_any_2d(c, how))
COPY_ASYNC(cuMemcpy2DAsync_v2, ARG(const CUDA_MEMCPY2D *c), copy_any_2d(c, how))
COPY(cuMemcpy3D_v2, (const CUDA_MEMCPY3D *c), copy_any_3d(c, how))
COPY_ASYNC(cuMemcpy3DAsync_v2, ARG(const CUDA_MEMCPY3D *c), copy_any_3d(c, how))
/* clang-format on */

/* The driver must obey only one of the attributes, the access order of the source. */
static struct how how_by(const CUmemcpyAttributes *attr, CUstream stream)
{
	return (struct how){
		.stream = stream, .is_async = true, .is_taken = attr && memcpy_is_taken(attr)};
}

REMOTE_EXPORT CUresult cuMemcpyBatchAsync(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
	size_t count, CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs,
	size_t *failIdx, CUstream hStream)
{
	CUresult r = session_check();

	if (failIdx)
		*failIdx = SIZE_MAX;
	/* CUDA allows no batch in a default stream. */
	if (!r &&
		(!dsts || !srcs || !sizes || !count || !attrs || !attrsIdxs || !numAttrs ||
			numAttrs > count || attrsIdxs[0] || (uintptr_t)hStream <= 2))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0, a = 0; !r && i < count; i++) {
		a = memcpy_attributes_of(attrsIdxs, numAttrs, a, i);
		r = copy_anywhere(dsts[i], srcs[i], sizes[i], how_by(&attrs[a], hStream));
		if (r && failIdx)
			*failIdx = i;
	}
	return r;
}

REMOTE_EXPORT CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
	size_t count, CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs,
	CUstream hStream)
{
	return cuMemcpyBatchAsync(
		dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, NULL, hStream);
}

REMOTE_EXPORT CUresult cuMemcpyWithAttributesAsync(
	CUdeviceptr dst, CUdeviceptr src, size_t size, CUmemcpyAttributes *attr, CUstream hStream)
{
	return copy_anywhere(dst, src, size, how_by(attr, hStream));
}
