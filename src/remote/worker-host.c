/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies to and from the program's memory. For data that a stream moves later, the worker puts a
 * host function into the stream. That function asks the program, waits, and lets the stream
 * continue. The data passes through the worker's own memory, which the driver has locked (stages).
 * Any lane's thread.
 */
#include <stdlib.h>

#include "cuda/copy.h"
#include "remote/worker.h"

/* ---- copies ---- */

/* The source or destination of a copy in this process's memory. */
struct near {
	uint8_t *p;
	size_t pitch, rows; /* bytes from row to row, rows from slice to slice */
};

/* Describes packed data, in which one row follows another without a gap. */
static struct near host_copy_packed(const struct remote_copy *c, const uint8_t *p)
{
	return (struct near){(uint8_t *)(uintptr_t)p, c->width, c->height};
}

static CUDA_MEMCPY3D host_copy_describe(
	const struct remote_copy *c, const struct near *n, bool is_in)
{
	const CUDA_MEMCPY3D d = {
		.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = n->p,
		.srcPitch = n->pitch,
		.srcHeight = n->rows,
		.dstMemoryType = c->array ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_DEVICE,
		.dstArray = (CUarray)(uintptr_t)c->array,
		.dstDevice = c->address,
		.dstPitch = c->pitch,
		.dstHeight = c->pitch ? c->slice / c->pitch : 0,
		.dstXInBytes = c->x,
		.dstY = c->y,
		.dstZ = c->z,
		.WidthInBytes = c->width,
		.Height = c->height,
		.Depth = c->depth,
	};

	return is_in ? d : memcpy_3d_turned(&d);
}

static CUresult run_near(
	const struct remote_copy *c, CUstream stream, const struct near *n, bool is_in)
{
	const CUDA_MEMCPY3D d = host_copy_describe(c, n, is_in);

	if (!remote_copy_is_linear(c))
		return c->is_async ? driver.cuMemcpy3DAsync_v2(&d, stream)
				   : driver.cuMemcpy3D_v2(&d);
	if (is_in)
		return c->is_async
			? driver.cuMemcpyHtoDAsync_v2(c->address + c->x, n->p, c->width, stream)
			: driver.cuMemcpyHtoD_v2(c->address + c->x, n->p, c->width);
	return c->is_async ? driver.cuMemcpyDtoHAsync_v2(n->p, c->address + c->x, c->width, stream)
			   : driver.cuMemcpyDtoH_v2(n->p, c->address + c->x, c->width);
}

static CUresult host_copy_run(
	const struct remote_copy *c, CUstream stream, const void *p, bool is_in)
{
	const struct near n = host_copy_packed(c, p);

	return run_near(c, stream, &n, is_in);
}

/* Largest stage: a copy of a graph, or of page-locked memory, moves as a whole. */
#define LATER_MAX (16ull << 30)

static bool host_copy_check(struct serve *s, struct remote_copy *c, size_t most, size_t *ret_bytes)
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

/*
 * A call without a stream waits for the default stream, which waits for all blocking streams. These
 * streams may wait for another thread of the program. So the worker puts the copy into the default
 * stream instead. If the driver reports an error, the worker makes the original call, which returns
 * that error.
 */
static bool is_deferred(struct remote_copy *c)
{
	const CUresult r = driver.cuStreamQuery(CU_STREAM_LEGACY);

	if (r && r != CUDA_ERROR_NOT_READY)
		return false;
	c->stream = (uintptr_t)CU_STREAM_LEGACY;
	c->is_async = true;
	return true;
}

/* Returns the memory of a copy that came in parts, after adding the last part. */
static struct stage *take_parts(struct serve *s, size_t bytes)
{
	struct copy_parts *p = &s->in_parts;
	struct stage *stage = p->stage;
	const size_t n = bytes - p->at;

	if (!stage)
		return NULL;
	if (p->bytes != bytes || n > (size_t)(s->in_end - s->in)) {
		s->error = CUDA_ERROR_INVALID_VALUE;
		return NULL;
	}
	memcpy(stage_memory(stage) + p->at, s->data, n);
	*p = (struct copy_parts){NULL};
	return stage;
}

/* Blocks of REMOTE_STAGE bytes that the program counts for the copy; released if the copy fails. */
static uint32_t units_counted(const struct remote_copy *c)
{
	return c->is_beyond ? 0 : remote_copy_units(c);
}

/*
 * The driver takes a short copy at the call. Only a graph's node needs memory for a short copy,
 * because the node runs later.
 */
static struct stage *stage_new_for(const struct remote_copy *c, size_t bytes)
{
	if (!remote_copy_units(c))
		return stage_of_graph(bytes);
	return c->is_beyond ? stage_beyond(bytes) : stage_get(bytes);
}

static struct stage *stage_along(struct serve *s, const struct remote_copy *c, size_t bytes)
{
	struct stage *stage = stage_new_for(c, bytes);

	if (stage)
		memcpy(stage_memory(stage), s->data, bytes);
	else
		stage_released(units_counted(c));
	return stage;
}

/* Copies at once: there is no stream to wait for, and no graph. */
static CUresult copy_at_once(struct serve *s, const struct remote_copy *c, struct stage *stage)
{
	const CUresult r = host_copy_run(c, NULL, stage ? stage_memory(stage) : s->data, true);

	if (stage)
		stage_return(stage);
	else
		stage_released(units_counted(c));
	return r;
}

static void return_stage(void *stage)
{
	stage_return(stage);
}

/*
 * Copies in the stream's order. If another thread of the program is capturing the stream, the copy
 * becomes part of a graph. Then each launch copies the data that was sent.
 */
static CUresult copy_in_order(
	struct serve *s, const struct remote_copy *c, size_t bytes, struct stage **stage)
{
	CUstream const stream = (CUstream)(uintptr_t)c->stream;
	CUgraph graph;
	CUresult r;

	graphs_share();
	graph = graphs_are_used() ? graph_captured_by(stream) : NULL;
	if (!*stage && (graph || remote_copy_units(c))) {
		*stage = stage_along(s, c, bytes);
		if (!*stage) {
			graphs_unlock();
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
	}
	r = host_copy_run(c, stream, *stage ? stage_memory(*stage) : s->data, true);
	if (graph) {
		stage_becomes_a_graphs(*stage);
		graph_keep(graph, return_stage, *stage);
		*stage = NULL;
	}
	graphs_unlock();
	return r;
}

/* Copies data that came with the call. */
static CUresult copy_in(struct serve *s, struct remote_copy *c, size_t bytes)
{
	const bool is_direct = !c->is_async && !is_deferred(c);
	struct stage *stage = NULL;
	CUstreamCaptureMode mode;
	CUresult r;

	if (c->is_whole)
		stage = take_parts(s, bytes);
	else if (bytes > (size_t)(s->in_end - s->in))
		s->error = CUDA_ERROR_INVALID_VALUE;
	if (s->error)
		return s->error;
	if (c->is_whole && !stage) {
		stage_released(units_counted(c));
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (is_direct)
		return copy_at_once(s, c, stage);
	mode = capture_relax(CU_STREAM_CAPTURE_MODE_RELAXED);
	r = copy_in_order(s, c, bytes, &stage);
	if (stage && c->is_beyond)
		stage_release_awaited(stage, (CUstream)(uintptr_t)c->stream);
	else if (stage)
		stage_release_after(stage, (CUstream)(uintptr_t)c->stream);
	capture_relax(mode);
	return r;
}

CUresult serve_copy_part(struct serve *s)
{
	const struct remote_part part = TAKE_VALUE(s, struct remote_part);
	struct copy_parts *p = &s->in_parts;

	if (s->error || part.bytes > (size_t)(s->in_end - s->in) || !part.of ||
		part.of > REMOTE_WHOLE)
		return CUDA_ERROR_INVALID_VALUE;
	if (!p->stage) {
		const CUstreamCaptureMode mode = capture_relax(CU_STREAM_CAPTURE_MODE_RELAXED);

		*p = (struct copy_parts){
			part.is_beyond ? stage_beyond(part.of) : stage_get(part.of), part.of, 0};
		capture_relax(mode);
	}
	/* If there was no memory for the stage, the copy itself reports the error. */
	if (!p->stage)
		return CUDA_SUCCESS;
	if (p->bytes != part.of || part.bytes >= part.of - p->at)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(stage_memory(p->stage) + p->at, s->data, part.bytes);
	p->at += part.bytes;
	return CUDA_SUCCESS;
}

void serve_copy_done(struct serve *s)
{
	if (s->in_parts.stage)
		stage_return(s->in_parts.stage);
	if (s->out_parts.stage)
		stage_return(s->out_parts.stage);
	s->in_parts = s->out_parts = (struct copy_parts){NULL};
}

static size_t answer_bytes(size_t bytes)
{
	return (sizeof(struct remote_frame) + bytes + 15) & ~(size_t)15;
}

/*
 * Reserves the answer in the ring and returns the place of its data; NULL: there is none. Only
 * end_answer() sends the answer.
 */
static uint8_t *begin_answer(struct serve *s, size_t bytes)
{
	const size_t n = answer_bytes(bytes);
	struct remote_frame *frame = s->answers ? ring_reserve(&s->down, n, &worker_watch) : NULL;

	return frame ? (uint8_t *)(frame + 1) : NULL;
}

static CUresult end_answer(struct serve *s, uint8_t *data, size_t bytes)
{
	const size_t n = answer_bytes(bytes);
	const struct remote_frame head = {
		.size = (uint32_t)n, .released = stages_released(), .asked = reverse_asked()};

	memcpy(data - sizeof(head), &head, sizeof(head));
	ring_publish(&s->down, n);
	s->has_answered = true;
	return CUDA_SUCCESS;
}

static CUresult read_now(const struct remote_copy *c, uint8_t *to)
{
	CUstream const stream = (CUstream)(uintptr_t)c->stream;
	const CUresult r = host_copy_run(c, stream, to, false);

	return r || !c->is_async ? r : driver.cuStreamSynchronize(stream);
}

static CUresult answer_part(struct serve *s, size_t n)
{
	struct copy_parts *p = &s->out_parts;
	uint8_t *data = begin_answer(s, n);

	if (!data)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(data, stage_memory(p->stage) + p->at, n);
	p->at += n;
	if (p->at == p->bytes) {
		stage_return(p->stage);
		*p = (struct copy_parts){NULL};
	}
	return end_answer(s, data, n);
}

CUresult serve_copy_rest(struct serve *s)
{
	const uint64_t n = take_u64(s);
	const struct copy_parts *p = &s->out_parts;
	const CUresult r = worker_failed(s);

	if (s->error || !p->stage || !n || n > REMOTE_PIECE || n > p->bytes - p->at)
		return r ? r : CUDA_ERROR_INVALID_VALUE;
	return r ? r : answer_part(s, n);
}

/* Reads all data at once, whatever work the stream gets while the data is in transit. */
static CUresult copy_out_whole(struct serve *s, const struct remote_copy *c, size_t bytes)
{
	struct copy_parts *p = &s->out_parts;
	CUresult r;

	if (p->stage)
		stage_return(p->stage);
	*p = (struct copy_parts){stage_of_graph(bytes), bytes, 0};
	if (!p->stage)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = read_now(c, stage_memory(p->stage));
	r = r ? r : worker_failed(s);
	if (!r)
		return answer_part(s, bytes < REMOTE_PIECE ? bytes : REMOTE_PIECE);
	stage_return(p->stage);
	*p = (struct copy_parts){NULL};
	return r;
}

/* Copies into the answer in place. */
static CUresult copy_out(struct serve *s, const struct remote_copy *c, size_t bytes)
{
	uint8_t *data;
	CUresult r;

	if (c->is_whole)
		return copy_out_whole(s, c, bytes);
	data = begin_answer(s, bytes);
	if (!data)
		return CUDA_ERROR_INVALID_VALUE;
	r = read_now(c, data);
	r = r ? r : worker_failed(s);
	return r ? r : end_answer(s, data, bytes);
}

struct later {
	struct stage *stage;
	uint64_t work;
	size_t bytes;
	bool is_once;
};

/* The stream has reached the copy: moves all pieces between the program's memory and the stage. */
static void later_move(struct later *l, bool is_fetch)
{
	for (size_t at = 0; at < l->bytes;) {
		const size_t n = l->bytes - at < REMOTE_PIECE ? l->bytes - at : REMOTE_PIECE;
		uint8_t *p = stage_memory(l->stage) + at;
		struct remote_reverse head = {.work = l->work,
			.offset = at,
			.bytes = n,
			.is_last = at + n == l->bytes,
			.is_free = l->is_once};

		if (is_fetch)
			reverse_ask(REMOTE_PULL, &head, p, n);
		else
			reverse_push(&head, p, n);
		at += n;
	}
	if (l->is_once)
		free(l);
}

static void later_fetch(void *argument)
{
	later_move(argument, true);
}

static void later_push(void *argument)
{
	later_move(argument, false);
}

/* The driver calls this when the graph ends, in a thread that must not call the driver. */
static void forget_later(void *argument)
{
	struct later *l = argument;

	reverse_cancel(l->work);
	stage_return(l->stage);
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
 * graph: the graph that the copy becomes part of; NULL: none. The stream fetches a source even if
 * the copy after the fetch fails. A copy in a graph has a stage of its own; the stage of a stream
 * may still serve earlier copies.
 */
static CUresult later_begin(
	unsigned op, const struct remote_copy *c, struct later *l, CUgraph graph)
{
	CUstream const stream = (CUstream)(uintptr_t)c->stream;
	struct stage *const stage = l->stage;
	const bool is_fetch = op == REMOTE_COPY_FETCH;
	const CUresult first = is_fetch ? driver.cuLaunchHostFunc(stream, later_fetch, l)
					: host_copy_run(c, stream, stage_memory(stage), false);
	CUresult r = first;

	if (!first)
		r = is_fetch ? host_copy_run(c, stream, stage_memory(stage), true)
			     : driver.cuLaunchHostFunc(stream, later_push, l);
	if (graph && first)
		forget_later(l);
	else if (graph)
		graph_keep(graph, forget_later, l);
	if (graph)
		return r;
	/* Otherwise the stream moves the data and frees l. */
	if (is_fetch ? first : r) {
		reverse_cancel(l->work);
		free(l);
	}
	stage_release_after(stage, stream);
	return r;
}

/*
 * Asks the driver, because the client cannot know whether another thread of the program is
 * capturing.
 */
static CUresult host_copy_later(unsigned op, const struct remote_copy *c, size_t bytes)
{
	struct later *l;
	CUgraph graph;
	CUresult r;

	graphs_share();
	graph = graph_captured_by((CUstream)(uintptr_t)c->stream);
	l = later_new(c, bytes, graph);
	if (l)
		r = later_begin(op, c, l, graph);
	else
		r = CUDA_ERROR_OUT_OF_MEMORY;
	graphs_unlock();
	if (!l)
		reverse_cancel(c->work);
	return r;
}

static CUresult refuse_copy(
	struct serve *s, const struct remote_copy *c, unsigned op, uint32_t units)
{
	if (op == REMOTE_COPY_IN && c->is_whole && s->in_parts.stage) {
		stage_return(s->in_parts.stage);
		s->in_parts = (struct copy_parts){NULL};
	} else if (op == REMOTE_COPY_IN) {
		stage_released(units);
	} else if (op != REMOTE_COPY_OUT && c->is_free) {
		reverse_cancel(c->work);
	}
	return s->error;
}

CUresult serve_copy(struct serve *s, unsigned op)
{
	struct remote_copy c = TAKE_VALUE(s, struct remote_copy);
	const bool is_later = op == REMOTE_COPY_FETCH || op == REMOTE_COPY_PUSH;
	const size_t most = is_later ? LATER_MAX : c.is_whole ? REMOTE_WHOLE : REMOTE_PIECE;
	/* counts the units before the copy's handles are replaced by the driver's */
	const uint32_t units = units_counted(&c);
	CUstreamCaptureMode mode;
	size_t bytes;
	CUresult r;

	if (s->error || !host_copy_check(s, &c, most, &bytes))
		return refuse_copy(s, &c, op, units);
	if (op == REMOTE_COPY_IN) {
		r = copy_in(s, &c, bytes);
		return s->error ? refuse_copy(s, &c, op, units) : r;
	}
	if (op == REMOTE_COPY_OUT && !c.is_async)
		return copy_out(s, &c, bytes);
	mode = capture_relax(CU_STREAM_CAPTURE_MODE_RELAXED);
	r = is_later ? host_copy_later(op, &c, bytes) : copy_out(s, &c, bytes);
	capture_relax(mode);
	return r;
}

/* Bytes from the first byte to the last; UINT64_MAX on overflow. */
static uint64_t host_copy_reach(const struct remote_copy *c, const struct remote_window *w)
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

	if (s->error || !host_copy_check(s, &c, LATER_MAX, &bytes))
		return s->error;
	n.p = window_find(w.window, w.offset, host_copy_reach(&c, &w));
	if (!n.p)
		return CUDA_ERROR_INVALID_VALUE;
	window_used(w.window, (CUstream)(uintptr_t)c.stream);
	/* Refuses rows that overlap, and slices that are no multiple of the row's pitch. */
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
