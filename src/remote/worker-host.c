/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies to and from the program's memory. What a stream does later with that memory is a host
 * function of ours in the stream: it asks the program, waits, and the stream goes on. Between it
 * and the copy stand pieces of memory of our own, which the driver has locked.
 */
#include <stdlib.h>

#include "remote/worker.h"

/* A shorter one is read by the driver at the call. */
#define STAGED_LEAST (64ull << 10)

/* Whatever the program captures, what we do of our own is none of it. */
static CUstreamCaptureMode relax(CUstreamCaptureMode mode)
{
	driver.cuThreadExchangeStreamCaptureMode(&mode);
	return mode;
}

/* ---- copies ---- */

static bool is_linear(const struct remote_copy *c)
{
	return !c->array && !c->y && !c->z && c->height == 1 && c->depth == 1;
}

/* The end in memory of this process. */
struct near {
	uint8_t *p;
	size_t pitch, rows; /* bytes from row to row, rows from slice to slice */
};

/* One row after the other. */
static struct near packed(const struct remote_copy *c, const uint8_t *p)
{
	return (struct near){(uint8_t *)(uintptr_t)p, c->width, c->height};
}

static CUDA_MEMCPY3D describe(const struct remote_copy *c, const struct near *n, bool is_in)
{
	CUDA_MEMCPY3D d = {.WidthInBytes = c->width, .Height = c->height, .Depth = c->depth};

	if (is_in) {
		d.srcMemoryType = CU_MEMORYTYPE_HOST;
		d.srcHost = n->p;
		d.srcPitch = n->pitch;
		d.srcHeight = n->rows;
		d.dstMemoryType = c->array ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_DEVICE;
		d.dstArray = (CUarray)(uintptr_t)c->array;
		d.dstDevice = c->address;
		d.dstPitch = c->pitch;
		d.dstHeight = c->pitch ? c->slice / c->pitch : 0;
		d.dstXInBytes = c->x;
		d.dstY = c->y;
		d.dstZ = c->z;
	} else {
		d.dstMemoryType = CU_MEMORYTYPE_HOST;
		d.dstHost = n->p;
		d.dstPitch = n->pitch;
		d.dstHeight = n->rows;
		d.srcMemoryType = c->array ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_DEVICE;
		d.srcArray = (CUarray)(uintptr_t)c->array;
		d.srcDevice = c->address;
		d.srcPitch = c->pitch;
		d.srcHeight = c->pitch ? c->slice / c->pitch : 0;
		d.srcXInBytes = c->x;
		d.srcY = c->y;
		d.srcZ = c->z;
	}
	return d;
}

static CUresult run_near(
	const struct remote_copy *c, CUstream stream, const struct near *n, bool is_in)
{
	const CUDA_MEMCPY3D d = describe(c, n, is_in);

	if (!is_linear(c))
		return c->is_async ? driver.cuMemcpy3DAsync_v2(&d, stream)
				   : driver.cuMemcpy3D_v2(&d);
	if (is_in)
		return c->is_async
			? driver.cuMemcpyHtoDAsync_v2(c->address + c->x, n->p, c->width, stream)
			: driver.cuMemcpyHtoD_v2(c->address + c->x, n->p, c->width);
	return c->is_async ? driver.cuMemcpyDtoHAsync_v2(n->p, c->address + c->x, c->width, stream)
			   : driver.cuMemcpyDtoH_v2(n->p, c->address + c->x, c->width);
}

static CUresult run(const struct remote_copy *c, CUstream stream, const void *p, bool is_in)
{
	const struct near n = packed(c, p);

	return run_near(c, stream, &n, is_in);
}

/* The largest that is kept between: a box of a graph or of page-locked memory goes as a whole. */
#define LATER_MAX (16ull << 30)

static bool check(struct serve *s, struct remote_copy *c, size_t most, size_t *ret_bytes)
{
	size_t bytes;

	if (c->array)
		c->array = handle_real(s, KIND_CUarray, c->array);
	else if (!copy_reaches(&(struct copy_place){c->address, c->x, c->y, c->z, c->pitch,
				       c->pitch ? c->slice / c->pitch : 0},
			 c->width, c->height, c->depth))
		s->error = CUDA_ERROR_INVALID_VALUE;
	c->stream = handle_real(s, KIND_CUstream, c->stream);
	if (__builtin_mul_overflow(c->width, c->height, &bytes) ||
		__builtin_mul_overflow(bytes, c->depth, &bytes) || bytes > most || !bytes)
		s->error = s->error ? s->error : CUDA_ERROR_INVALID_VALUE;
	*ret_bytes = bytes;
	return !s->error;
}

/* Data that came along. A short one is taken by the driver at the call. */
static CUresult copy_in(struct serve *s, const struct remote_copy *c, size_t bytes)
{
	CUstream const stream = (CUstream)(uintptr_t)c->stream;
	struct stage *stage;
	CUresult r;

	if (bytes > (size_t)(s->in_end - s->in))
		return CUDA_ERROR_INVALID_VALUE;
	if (!c->is_async || (bytes <= STAGED_LEAST && is_linear(c)))
		return run(c, stream, s->data, true);
	stage = stage_get(bytes);
	if (!stage)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(stage_memory(stage), s->data, bytes);
	r = run(c, stream, stage_memory(stage), true);
	stage_release_after(stage, stream);
	return r;
}

/* Into the answer where it lies. */
static CUresult copy_out(struct serve *s, const struct remote_copy *c, size_t bytes)
{
	const size_t n = (sizeof(struct remote_frame) + bytes + 15) & ~(size_t)15;
	CUstream const stream = (CUstream)(uintptr_t)c->stream;
	struct remote_frame *frame, head = {.size = (uint32_t)n};
	CUresult r;

	if (!s->answers)
		return CUDA_ERROR_INVALID_VALUE;
	frame = ring_reserve(&s->down, n, &worker_watch);
	if (!frame)
		return CUDA_ERROR_INVALID_VALUE;
	r = run(c, stream, frame + 1, false);
	if (!r && c->is_async)
		r = driver.cuStreamSynchronize(stream);
	r = r ? r : worker_failed(s);
	if (r)
		return r; /* it was only reserved */
	head.asked = reverse_asked();
	memcpy(frame, &head, sizeof(head));
	ring_publish(&s->down, n);
	s->has_answered = true;
	return CUDA_SUCCESS;
}

struct later {
	struct stage *stage;
	uint64_t work;
	size_t bytes;
	bool is_once;
};

static void fetch(void *argument)
{
	struct later *l = argument;

	for (size_t at = 0; at < l->bytes;) {
		const size_t n = l->bytes - at < REMOTE_PIECE ? l->bytes - at : REMOTE_PIECE;
		struct remote_reverse head = {.work = l->work,
			.offset = at,
			.bytes = n,
			.is_last = at + n == l->bytes,
			.is_free = l->is_once};

		reverse_ask(REMOTE_PULL, &head, stage_memory(l->stage) + at, n);
		at += n;
	}
	if (l->is_once)
		free(l);
}

static void bring(void *argument)
{
	struct later *l = argument;

	for (size_t at = 0; at < l->bytes;) {
		const size_t n = l->bytes - at < REMOTE_PIECE ? l->bytes - at : REMOTE_PIECE;
		const struct remote_reverse head = {.work = l->work,
			.offset = at,
			.bytes = n,
			.is_last = at + n == l->bytes,
			.is_free = l->is_once};

		reverse_push(&head, stage_memory(l->stage) + at, n);
		at += n;
	}
	if (l->is_once)
		free(l);
}

/* With its graph, which the driver says; that thread must not call it. */
static void forget_later(void *argument)
{
	struct later *l = argument;

	reverse_cancel(l->work);
	stage_return(l->stage);
	free(l);
}

/* Nothing comes of it. A stream's stage may have earlier copies in it; a graph's is its own. */
static void drop_later(struct later *l, CUstream stream, CUgraph graph)
{
	if (graph) {
		forget_later(l);
		return;
	}
	reverse_cancel(l->work);
	stage_release_after(l->stage, stream);
	free(l);
}

static struct later *later_new(const struct remote_copy *c, size_t bytes, CUgraph graph)
{
	struct later *l = malloc(sizeof(*l));

	if (!l)
		return NULL;
	*l = (struct later){.stage = graph ? stage_of_graph(bytes)
					   : stage_of_stream((CUstream)(uintptr_t)c->stream, bytes),
		.work = c->work,
		.bytes = bytes,
		.is_once = !graph};
	if (l->stage)
		return l;
	free(l);
	return NULL;
}

/*
 * graph: of which it is a part; NULL: of none. What is in the stream comes to the program, also
 * when there is no copy behind it.
 */
static CUresult copy_fetch(const struct remote_copy *c, struct later *l, CUgraph graph)
{
	CUstream const stream = (CUstream)(uintptr_t)c->stream;
	struct stage *const stage = l->stage;
	CUresult r = driver.cuLaunchHostFunc(stream, fetch, l);

	if (r) {
		drop_later(l, stream, graph);
		return r;
	}
	r = run(c, stream, stage_memory(stage), true);
	if (graph)
		graph_keep(graph, forget_later, l);
	else
		stage_release_after(stage, stream);
	return r;
}

static CUresult copy_push(const struct remote_copy *c, struct later *l, CUgraph graph)
{
	CUstream const stream = (CUstream)(uintptr_t)c->stream;
	struct stage *const stage = l->stage;
	CUresult r = run(c, stream, stage_memory(stage), false);

	if (!r)
		r = driver.cuLaunchHostFunc(stream, bring, l);
	if (graph) {
		graph_keep(graph, forget_later, l);
		return r;
	}
	if (r)
		drop_later(l, stream, NULL);
	else
		stage_release_after(stage, stream);
	return r;
}

/* What the program took for a captured one is none where another stream is captured. */
static CUresult copy_later(unsigned op, const struct remote_copy *c, size_t bytes)
{
	CUgraph const graph = c->is_free ? NULL : graph_captured_by((CUstream)(uintptr_t)c->stream);
	struct later *l = later_new(c, bytes, graph);

	if (!l) {
		reverse_cancel(c->work);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return op == REMOTE_COPY_FETCH ? copy_fetch(c, l, graph) : copy_push(c, l, graph);
}

CUresult serve_copy(struct serve *s, unsigned op)
{
	struct remote_copy c = TAKE_VALUE(s, struct remote_copy);
	const bool is_later = op == REMOTE_COPY_FETCH || op == REMOTE_COPY_PUSH;
	CUstreamCaptureMode mode;
	size_t bytes;
	CUresult r;

	if (s->error || !check(s, &c, is_later ? LATER_MAX : REMOTE_PIECE, &bytes)) {
		if (is_later && c.is_free)
			reverse_cancel(c.work);
		return s->error;
	}
	if (op == REMOTE_COPY_OUT && !c.is_async)
		return copy_out(s, &c, bytes);
	if (op == REMOTE_COPY_IN && (!c.is_async || (bytes <= STAGED_LEAST && is_linear(&c))))
		return copy_in(s, &c, bytes);
	mode = relax(CU_STREAM_CAPTURE_MODE_RELAXED);
	if (op == REMOTE_COPY_OUT)
		r = copy_out(s, &c, bytes);
	else
		r = is_later ? copy_later(op, &c, bytes) : copy_in(s, &c, bytes);
	relax(mode);
	return r;
}

/* From its first byte to its last one; UINT64_MAX when there is no such number. */
static uint64_t reach(const struct remote_copy *c, const struct remote_window *w)
{
	uint64_t rows, slices, all;

	return __builtin_mul_overflow(c->height - 1, w->pitch, &rows) ||
			__builtin_mul_overflow(c->depth - 1, w->slice, &slices) ||
			__builtin_add_overflow(rows, slices, &all) ||
			__builtin_add_overflow(all, c->width, &all)
		? UINT64_MAX
		: all;
}

CUresult serve_window_copy(struct serve *s, unsigned op)
{
	struct remote_copy c = TAKE_VALUE(s, struct remote_copy);
	const struct remote_window w = TAKE_VALUE(s, struct remote_window);
	struct near n = {.pitch = w.pitch, .rows = w.pitch ? w.slice / w.pitch : 0};
	size_t bytes;

	if (s->error || !check(s, &c, LATER_MAX, &bytes))
		return s->error;
	n.p = window_find(w.window, w.offset, reach(&c, &w));
	if (!n.p)
		return CUDA_ERROR_INVALID_VALUE;
	/* Rows that overlap are no copy, and slices that do not begin with a row cannot be said. */
	if (c.height == 1 && c.depth == 1)
		n = (struct near){.p = n.p, .pitch = c.width, .rows = 1};
	else if (w.pitch < c.width || w.slice != n.rows * w.pitch)
		return CUDA_ERROR_INVALID_VALUE;
	return run_near(&c, (CUstream)(uintptr_t)c.stream, &n, op == REMOTE_WINDOW_IN);
}

CUresult serve_copy_device(struct serve *s)
{
	CUDA_MEMCPY3D copy = TAKE_VALUE(s, CUDA_MEMCPY3D);
	CUstream const stream = (CUstream)(uintptr_t)handle_real(s, KIND_CUstream, take_u64(s));
	const uint64_t is_async = take_u64(s);

	if (s->error || !fix_CUDA_MEMCPY3D(s, &copy))
		return s->error;
	return is_async ? driver.cuMemcpy3DAsync_v2(&copy, stream) : driver.cuMemcpy3D_v2(&copy);
}
