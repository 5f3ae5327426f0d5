/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wanderer STEPS SEED: copies, memsets, kernels, host functions, captures and graphs in random
 * order, on all kinds of streams and memory. Each operation is ordered after all operations that it
 * depends on, as in a careful program. So memory must equal a simple model, whatever is in flight.
 * Prints "right" at the end. After a fault prints the step and the fault, and exits with 1.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../programs/kernels.h"
#include "../simgpu/driver.h"
#include "base/rand.h"

enum { WORDS = 600 << 10, DEVICE = 3, HOST = 5, BUFFERS = DEVICE + HOST };
enum { LEGACY, BLOCKING, OWN, FREE_1, FREE_2, STREAMS };
enum { OPS_MAX = 6, NOBODY = -1 };

enum kind { PINNED, REGISTERED, PAGEABLE };
static const enum kind kinds[HOST] = {PINNED, PINNED, REGISTERED, PAGEABLE, PAGEABLE};

struct buffer {
	uint32_t *host; /* NULL: device memory */
	CUdeviceptr device;
	enum kind kind;
	uint32_t *model;
	int writer;       /* the stream whose write is in flight; NOBODY: none */
	unsigned readers; /* bit mask of streams that read the buffer */
};

enum what { SET, FILL, COPY, CALL };
struct op {
	enum what what;
	int from, to; /* buffers; `from` only for COPY */
	size_t from_at, to_at, n;
	uint32_t value;
};

static struct buffer buffers[BUFFERS];
static CUstream streams[STREAMS], releasing;
static CUevent event;
static CUdeviceptr gate;
static CUfunction fill;
static struct rand dice;
static unsigned step;

static unsigned any(unsigned n)
{
	return (unsigned)rand_below(&dice, n);
}

static void must(CUresult r, const char *what)
{
	const char *name = "?";

	if (!r)
		return;
	drv.cuGetErrorName(r, &name);
	printf("step %u: %s: %s\n", step, what, name);
	exit(1);
}
#define MUST(call) must(drv.call, #call)

/* ---- order ---- */

static bool is_ordered(int before, int after)
{
	return before == after || (before == LEGACY && after <= OWN) ||
		(after == LEGACY && before <= OWN);
}

static void behind(int before, int after)
{
	if (before == NOBODY || is_ordered(before, after))
		return;
	MUST(cuEventRecord(event, streams[before]));
	MUST(cuStreamWaitEvent(streams[after], event, 0));
}

static void use(int which, int stream, bool is_write)
{
	struct buffer *b = &buffers[which];

	behind(b->writer, stream);
	for (int s = 0; is_write && s < STREAMS; s++)
		if (b->readers & 1u << s)
			behind(s, stream);
	if (is_write)
		b->readers = 0;
	if (is_write)
		b->writer = stream;
	else
		b->readers |= 1u << stream;
}

/* Waits for all work submitted to the stream. */
static void await(int stream)
{
	if (any(2)) {
		MUST(cuStreamSynchronize(streams[stream]));
	} else if (any(2)) {
		MUST(cuEventRecord(event, streams[stream]));
		MUST(cuEventSynchronize(event));
	} else {
		CUresult r;

		while ((r = drv.cuStreamQuery(streams[stream])) == CUDA_ERROR_NOT_READY)
			;
		must(r, "cuStreamQuery");
	}
	for (int i = 0; i < BUFFERS; i++) {
		buffers[i].readers &= ~(1u << stream);
		if (buffers[i].writer == stream)
			buffers[i].writer = NOBODY;
	}
}

static void await_all(void)
{
	MUST(cuCtxSynchronize());
	for (int i = 0; i < BUFFERS; i++) {
		buffers[i].readers = 0;
		buffers[i].writer = NOBODY;
	}
}

static void await_buffer(struct buffer *b, bool is_write)
{
	if (b->writer != NOBODY)
		await(b->writer);
	for (int s = 0; is_write && s < STREAMS; s++)
		if (b->readers & 1u << s)
			await(s);
}

/* ---- effects of operations ---- */

static void apply(const struct op *op)
{
	uint32_t *to = buffers[op->to].model + op->to_at;

	if (op->what == COPY)
		memmove(to, buffers[op->from].model + op->from_at, 4 * op->n);
	for (size_t i = 0; op->what == CALL && i < op->n; i++)
		to[i] ^= op->value;
	for (size_t i = 0; (op->what == SET || op->what == FILL) && i < op->n; i++)
		to[i] = op->value;
}

static void call(void *argument)
{
	const struct op *op = argument;

	for (size_t i = 0; i < op->n; i++)
		buffers[op->to].host[op->to_at + i] ^= op->value;
}

static CUdeviceptr address(int which, size_t at)
{
	const struct buffer *b = &buffers[which];

	return (b->host ? (CUdeviceptr)(uintptr_t)b->host : b->device) + 4 * at;
}

/* A plain copy has no stream: it goes to the legacy stream, or to the thread's own. */
static void copy(const struct op *op, int stream, bool is_plain)
{
	const CUdeviceptr from = address(op->from, op->from_at), to = address(op->to, op->to_at);
	void *const host = (void *)(uintptr_t)(op->from < DEVICE ? to : from);
	CUstream const s = streams[stream];
	const size_t n = 4 * op->n;
	const bool is_own = stream == OWN;
	CUresult r;

	if (any(3) == 0 || (op->from >= DEVICE && op->to >= DEVICE))
		r = !is_plain    ? drv.cuMemcpyAsync(to, from, n, s)
			: is_own ? drv.cuMemcpy_ptds(to, from, n)
				 : drv.cuMemcpy(to, from, n);
	else if (op->from < DEVICE && op->to < DEVICE)
		r = !is_plain    ? drv.cuMemcpyDtoDAsync_v2(to, from, n, s)
			: is_own ? drv.cuMemcpyDtoD_v2_ptds(to, from, n)
				 : drv.cuMemcpyDtoD_v2(to, from, n);
	else if (op->from < DEVICE)
		r = !is_plain    ? drv.cuMemcpyDtoHAsync_v2(host, from, n, s)
			: is_own ? drv.cuMemcpyDtoH_v2_ptds(host, from, n)
				 : drv.cuMemcpyDtoH_v2(host, from, n);
	else
		r = !is_plain    ? drv.cuMemcpyHtoDAsync_v2(to, host, n, s)
			: is_own ? drv.cuMemcpyHtoD_v2_ptds(to, host, n)
				 : drv.cuMemcpyHtoD_v2(to, host, n);
	must(r, "a copy");
}

static void issue(const struct op *op, int stream, bool is_plain)
{
	CUdeviceptr to = address(op->to, op->to_at);
	unsigned value = op->value;
	unsigned long long n = op->n;
	void *params[] = {&to, &value, &n};
	struct op *kept;

	switch (op->what) {
	case SET: MUST(cuMemsetD32Async(to, value, op->n, streams[stream])); break;
	case FILL:
		MUST(cuLaunchKernel(fill, 4, 1, 1, 128, 1, 1, 0, streams[stream], params, NULL));
		break;
	case COPY: copy(op, stream, is_plain); break;
	case CALL:
		kept = malloc(sizeof(*kept)); /* not freed: a graph may call the function again */
		*kept = *op;
		MUST(cuLaunchHostFunc(streams[stream], call, kept));
	}
}

static struct op any_op(void)
{
	struct op op = {.what = (enum what)any(4), .value = (uint32_t)rand_u64(&dice)};
	const size_t most = any(4) ? 2000 : WORDS;

	op.what = any(2) ? COPY : op.what;
	op.n = 1 + any((unsigned)most);
	op.from_at = any((unsigned)(WORDS - op.n) + 1);
	op.to_at = any((unsigned)(WORDS - op.n) + 1);
	op.to = op.what == CALL   ? DEVICE + (int)any(HOST)
		: op.what == COPY ? (int)any(BUFFERS)
				  : (int)any(DEVICE);
	op.from = (op.to + 1 + (int)any(BUFFERS - 1)) % BUFFERS;
	return op;
}

static bool is_pageable(int which)
{
	return which >= DEVICE && buffers[which].kind == PAGEABLE;
}

static void do_op(const struct op *op, int stream)
{
	const bool is_plain = op->what == COPY && (stream == LEGACY || stream == OWN) && any(2);

	/*
	 * A copy with a stream may read its pageable source during the call, so earlier writes to
	 * the source must have ended. A copy without a stream waits for them itself.
	 */
	if (op->what == COPY && is_pageable(op->from) && !is_plain)
		await_buffer(&buffers[op->from], false);
	if (op->what == COPY)
		use(op->from, stream, false);
	use(op->to, stream, true);
	issue(op, stream, is_plain);
	apply(op);
}

/* ---- the program's own reads ---- */

static void check(const struct buffer *b, const uint32_t *has)
{
	for (size_t i = 0; i < WORDS; i++)
		if (has[i] != b->model[i]) {
			printf("step %u: buffer %d, word %zu is %08x, not %08x\n", step,
				(int)(b - buffers), i, has[i], b->model[i]);
			exit(1);
		}
}

static void look(struct buffer *b)
{
	await_buffer(b, false);
	check(b, b->host);
}

static void scribble(struct buffer *b)
{
	const size_t n = 1 + any(WORDS), at = any((unsigned)(WORDS - n) + 1);

	await_buffer(b, true);
	for (size_t i = 0; i < n; i++)
		b->host[at + i] = b->model[at + i] = step * 2654435761u + (uint32_t)i;
}

/* ---- graphs ---- */

static void elsewhere(int stream)
{
	int other = (int)any(STREAMS);
	struct op op = any_op();

	if (other != stream)
		do_op(&op, other);
}

static void capture(int stream)
{
	const unsigned n = 1 + any(OPS_MAX), launches = any(4);
	const bool fails = any(4) == 0;
	struct op ops[OPS_MAX];
	CUgraphExec exec;
	CUgraph graph;

	await(stream);
	MUST(cuStreamBeginCapture_v2(streams[stream], CU_STREAM_CAPTURE_MODE_RELAXED));
	for (unsigned i = 0; i < n; i++) {
		ops[i] = any_op();
		issue(&ops[i], stream, false);
		elsewhere(stream);
	}
	if (fails) {
		drv.cuStreamSynchronize(streams[stream]);
		drv.cuStreamEndCapture(streams[stream], &graph);
		return;
	}
	MUST(cuStreamEndCapture(streams[stream], &graph));
	MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
	for (unsigned l = 0; l < launches; l++) {
		const int on = (int)any(STREAMS);

		for (unsigned i = 0; i < n; i++) {
			if (ops[i].what == COPY)
				use(ops[i].from, on, false);
			use(ops[i].to, on, true);
		}
		MUST(cuGraphLaunch(exec, streams[on]));
		for (unsigned i = 0; i < n; i++)
			apply(&ops[i]);
		elsewhere(STREAMS);
	}
	MUST(cuGraphExecDestroy(exec));
	MUST(cuGraphDestroy(graph));
}

/* Replaces the stream by a new one, ordered after the old one's work. */
static void replace(int stream)
{
	MUST(cuEventRecord(event, streams[stream]));
	MUST(cuStreamDestroy_v2(streams[stream]));
	MUST(cuStreamCreate(&streams[stream], CU_STREAM_NON_BLOCKING));
	MUST(cuStreamWaitEvent(streams[stream], event, 0));
}

/* Writes a copy's source after the call, but before the stream may reach the copy. */
static void fill_late(int stream)
{
	int other = FREE_1 + (int)any(2);
	struct op op = any_op();
	struct buffer *from;

	op.what = COPY;
	op.from = DEVICE + (int)any(3);
	op.to = (int)any(DEVICE);
	from = &buffers[op.from];
	await_buffer(from, true);
	MUST(cuStreamWaitValue32_v2(streams[stream], gate, step, CU_STREAM_WAIT_VALUE_GEQ));
	if (other != stream) {
		MUST(cuEventRecord(event, streams[stream]));
		MUST(cuStreamWaitEvent(streams[other], event, 0));
	}
	use(op.from, other, false);
	use(op.to, other, true);
	copy(&op, other, false);
	for (size_t i = 0; i < WORDS; i++)
		from->host[i] = from->model[i] = step * 2246822519u + (uint32_t)i;
	apply(&op);
	MUST(cuMemsetD32Async(gate, step, 1, releasing));
}

static void one_step(void)
{
	struct buffer *host = &buffers[DEVICE + any(HOST)];
	struct op op = any_op();

	switch (any(18)) {
	case 0: look(host); break;
	case 1:
	case 2: scribble(host); break;
	case 3: capture(FREE_1 + (int)any(2)); break;
	case 4: replace(FREE_1 + (int)any(2)); break;
	case 5: await((int)any(STREAMS)); break;
	case 6: fill_late(FREE_1 + (int)any(2)); break;
	case 7:
		if (any(4) == 0)
			await_all();
		break;
	default: do_op(&op, (int)any(STREAMS));
	}
}

/* ---- begin and end ---- */

static void begin(void)
{
	for (int i = 0; i < BUFFERS; i++) {
		struct buffer *b = &buffers[i];

		b->model = calloc(WORDS, 4);
		b->writer = NOBODY;
		if (i < DEVICE) {
			MUST(cuMemAlloc_v2(&b->device, 4 * WORDS));
			MUST(cuMemsetD32_v2(b->device, 0, WORDS));
			continue;
		}
		b->kind = kinds[i - DEVICE];
		if (b->kind == PINNED)
			MUST(cuMemHostAlloc((void **)(uintptr_t)&b->host, 4 * WORDS, 0));
		else
			b->host = aligned_alloc(4096, 4 * WORDS);
		memset(b->host, 0, 4 * WORDS);
		if (b->kind == REGISTERED)
			MUST(cuMemHostRegister_v2(b->host, 4 * WORDS, 0));
	}
	MUST(cuCtxSynchronize());
	streams[OWN] = CU_STREAM_PER_THREAD;
	MUST(cuStreamCreate(&streams[BLOCKING], CU_STREAM_DEFAULT));
	MUST(cuStreamCreate(&streams[FREE_1], CU_STREAM_NON_BLOCKING));
	MUST(cuStreamCreate(&streams[FREE_2], CU_STREAM_NON_BLOCKING));
	MUST(cuStreamCreate(&releasing, CU_STREAM_NON_BLOCKING));
	MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	MUST(cuMemAlloc_v2(&gate, 4));
	MUST(cuMemsetD32_v2(gate, 0, 1));
}

static void end(void)
{
	uint32_t *back = malloc(4 * WORDS);

	MUST(cuCtxSynchronize());
	for (int i = 0; i < BUFFERS; i++) {
		if (i < DEVICE)
			MUST(cuMemcpyDtoH_v2(back, buffers[i].device, 4 * WORDS));
		check(&buffers[i], i < DEVICE ? back : buffers[i].host);
	}
	free(back);
}

int main(int argc, char **argv)
{
	const unsigned steps = argc == 3 ? (unsigned)strtoul(argv[1], NULL, 10) : 0;
	char *kernels = kernels_read();
	CUcontext context;
	CUmodule module;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!steps || !driver_open()) {
		fprintf(stderr, "usage: wanderer STEPS SEED\n");
		return 2;
	}
	dice = rand_seeded(strtoul(argv[2], NULL, 10));
	MUST(cuInit(0));
	MUST(cuCtxCreate_v2(&context, 0, 0));
	MUST(cuModuleLoadData(&module, kernels));
	MUST(cuModuleGetFunction(&fill, module, "fill_u32"));
	begin();
	for (step = 1; step <= steps; step++)
		one_step();
	end();
	puts("right");
	return 0;
}
