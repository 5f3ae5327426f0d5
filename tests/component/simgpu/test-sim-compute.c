/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels that come as PTX change memory on the simulated device, as on hardware: through the whole
 * path from the driver's calls to the engine. The executor alone has its own tests in
 * tests/unit/ptx.
 */
#include "driver.h"
#include "fatbin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N = 100000 };

#define HEAD ".version 8.0\n.target sm_80\n.address_size 64\n"

static const char *const add_text = HEAD
	".visible .entry add(.param .u64 c, .param .u64 a, .param .u64 b, .param .u32 n)\n"
	"{\n"
	"	.reg .pred %p; .reg .b32 %r<6>; .reg .f32 %f<4>; .reg .b64 %rd<8>;\n"
	"	ld.param.u64 %rd1, [c]; ld.param.u64 %rd2, [a]; ld.param.u64 %rd3, [b];\n"
	"	ld.param.u32 %r1, [n];\n"
	"	mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;\n"
	"	mad.lo.s32 %r5, %r2, %r3, %r4;\n"
	"	setp.ge.u32 %p, %r5, %r1;\n"
	"	@%p bra done;\n"
	"	mul.wide.u32 %rd4, %r5, 4;\n"
	"	add.s64 %rd5, %rd2, %rd4; add.s64 %rd6, %rd3, %rd4; add.s64 %rd7, %rd1, %rd4;\n"
	"	ld.global.f32 %f1, [%rd5]; ld.global.f32 %f2, [%rd6];\n"
	"	add.f32 %f3, %f1, %f2;\n"
	"	st.global.f32 [%rd7], %f3;\n"
	"done:\n"
	"	ret;\n"
	"}\n";

static CUfunction load(const char *text, const char *kernel)
{
	CUmodule module;

	NEED(drv.cuModuleLoadData(&module, text));
	return kernel_get(module, kernel);
}

static void run(CUfunction f, unsigned blocks, unsigned threads, unsigned shared, void **params)
{
	NEED(drv.cuLaunchKernel(f, blocks, 1, 1, threads, 1, 1, shared, NULL, params, NULL));
}

static float *host_a, *host_b, *host_c;

static bool adds(CUfunction add)
{
	CUdeviceptr a = device_memory(4 * N), b = device_memory(4 * N), c = device_memory(4 * N);
	unsigned n = N;
	void *params[] = {&c, &a, &b, &n};
	bool is_right = true;

	host_a = malloc(4 * N);
	host_b = malloc(4 * N);
	host_c = malloc(4 * N);
	if (!host_a || !host_b || !host_c)
		_exit(1);
	for (int i = 0; i < N; i++) {
		host_a[i] = (float)i;
		host_b[i] = 0.5f;
	}
	NEED(drv.cuMemcpyHtoD_v2(a, host_a, 4 * N));
	NEED(drv.cuMemcpyHtoD_v2(b, host_b, 4 * N));
	run(add, (N + 255) / 256, 256, 0, params);
	NEED(drv.cuMemcpyDtoH_v2(host_c, c, 4 * N));
	for (int i = 0; i < N; i++)
		is_right = is_right && host_c[i] == (float)i + 0.5f;
	return is_right;
}

static void computes(void)
{
	CUcontext context = begin_context();
	CUfunction add = load(add_text, "add");
	CUgraphExec exec;
	CUstream stream = new_stream();
	CUgraph graph;
	CUdeviceptr c = device_memory(16), a = device_memory(16);
	unsigned n = 4;
	float four[4] = {1, 2, 3, 4};
	void *params[] = {&c, &a, &a, &n};

	tap_ok(adds(add), "a vector addition changes memory");
	NEED(drv.cuMemcpyHtoD_v2(a, four, sizeof(four)));
	NEED(drv.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	NEED(drv.cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL));
	NEED(drv.cuStreamEndCapture(stream, &graph));
	NEED(drv.cuGraphInstantiateWithFlags(&exec, graph, 0));
	NEED(drv.cuGraphLaunch(exec, stream));
	NEED(drv.cuStreamSynchronize(stream));
	NEED(drv.cuMemcpyDtoH_v2(four, c, sizeof(four)));
	tap_ok(four[0] == 2 && four[3] == 8, "a graph's kernel computes");
	OK(drv.cuCtxDestroy_v2(context));
}

static const char *const heap_text = HEAD
	".extern .func (.param .b64 func_retval0) malloc(.param .b64 malloc_param_0);\n"
	".extern .func free(.param .b64 free_param_0);\n"
	/* Each thread takes and frees a block again and again, and finds its own bytes in it. */
	".visible .entry churn(.param .u64 wrong)\n"
	"{\n"
	"	.reg .pred %p, %q; .reg .b32 %r<10>; .reg .b64 %d<6>;\n"
	"	ld.param.u64 %d1, [wrong];\n"
	"	mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x;\n"
	"	mad.lo.s32 %r1, %r2, 128, %r1;\n"
	"	mov.u32 %r3, 0;\n"
	"again:\n"
	"	mad.lo.s32 %r4, %r3, 7, %r1; and.b32 %r4, %r4, 255; add.s32 %r4, %r4, 8;\n"
	"	cvt.u64.u32 %d2, %r4;\n"
	"	{ .param .b64 in; .param .b64 out; st.param.b64 [in], %d2;\n"
	"	call.uni (out), malloc, (in); ld.param.b64 %d3, [out]; }\n"
	"	setp.eq.u64 %p, %d3, 0;\n"
	"	@%p bra bad;\n"
	"	st.u32 [%d3], %r1; st.u32 [%d3+4], %r3;\n"
	"	bar.sync 0;\n"
	"	ld.u32 %r5, [%d3]; ld.u32 %r6, [%d3+4];\n"
	"	setp.ne.u32 %p, %r5, %r1; setp.ne.u32 %q, %r6, %r3; or.pred %p, %p, %q;\n"
	"	@%p bra bad;\n"
	"	{ .param .b64 in; st.param.b64 [in], %d3; call.uni free, (in); }\n"
	"	add.s32 %r3, %r3, 1;\n"
	"	setp.lt.u32 %p, %r3, 60;\n"
	"	@%p bra again;\n"
	"	ret;\n"
	"bad:\n"
	"	mov.u32 %r7, 1; atom.global.add.u32 %r8, [%d1], %r7;\n"
	"	ret;\n"
	"}\n"
	/* Takes blocks until none is left, frees all, and counts: one for each block. */
	".visible .entry fill(.param .u64 count, .param .u64 bytes)\n"
	"{\n"
	"	.reg .pred %p; .reg .b32 %r<4>; .reg .b64 %d<6>;\n"
	"	ld.param.u64 %d1, [count]; ld.param.u64 %d2, [bytes];\n"
	"	mov.u64 %d4, 0; mov.u32 %r1, 0;\n"
	"more:\n"
	"	{ .param .b64 in; .param .b64 out; st.param.b64 [in], %d2;\n"
	"	call.uni (out), malloc, (in); ld.param.b64 %d3, [out]; }\n"
	"	setp.eq.u64 %p, %d3, 0;\n"
	"	@%p bra empty;\n"
	"	st.u64 [%d3], %d4; mov.u64 %d4, %d3; add.s32 %r1, %r1, 1;\n"
	"	bra more;\n"
	"empty:\n"
	"	setp.eq.u64 %p, %d4, 0;\n"
	"	@%p bra done;\n"
	"	ld.u64 %d5, [%d4];\n"
	"	{ .param .b64 in; st.param.b64 [in], %d4; call.uni free, (in); }\n"
	"	mov.u64 %d4, %d5;\n"
	"	bra empty;\n"
	"done:\n"
	"	{ .param .b64 in; st.param.b64 [in], %d4; call.uni free, (in); }\n"
	"	st.global.u32 [%d1], %r1;\n"
	"	ret;\n"
	"}\n";

static unsigned fill_heap(CUfunction fill, CUdeviceptr count, uint64_t bytes)
{
	void *params[] = {&count, &bytes};
	unsigned n;

	run(fill, 1, 1, 0, params);
	NEED(drv.cuMemcpyDtoH_v2(&n, count, 4));
	return n;
}

/* The heap has 8 MiB. Blocks of a size go back to the blocks of this size. */
static void allocates(void)
{
	CUcontext context = begin_context();
	CUmodule module;
	CUdeviceptr out;
	unsigned wrong = 0, first;
	void *params[] = {&out};
	CUfunction churn, fill;

	NEED(drv.cuModuleLoadData(&module, heap_text));
	churn = kernel_get(module, "churn");
	fill = kernel_get(module, "fill");
	out = device_memory(4);
	NEED(drv.cuMemcpyHtoD_v2(out, &wrong, 4));
	run(churn, 40, 128, 0, params);
	NEED(drv.cuMemcpyDtoH_v2(&wrong, out, 4));
	tap_ok(wrong == 0, "threads of many blocks have blocks of their own: %u have not", wrong);
	NEED(drv.cuModuleUnload(module));
	NEED(drv.cuModuleLoadData(&module, heap_text));
	fill = kernel_get(module, "fill");
	first = fill_heap(fill, out, 1000);
	tap_ok(first >= 8000 && first <= 8388, "malloc returns NULL when 8 MiB are full: %u",
		first);
	tap_ok(fill_heap(fill, out, 1000) == first, "free blocks are allocated again");
	tap_ok(fill_heap(fill, out, UINT64_MAX) == 0 && fill_heap(fill, out, (8 << 20) + 1) == 0,
		"a block cannot have more than the heap");
	NEED(drv.cuCtxDestroy_v2(context));
}

/* Each round, each block adds 1, and after the barrier sees the sum of all blocks. */
static const char *const grid_text = HEAD
	".extern .func (.param .b64 func_retval0) cudaCGGetIntrinsicHandle(.param .b32 x);\n"
	".extern .func (.param .b32 func_retval0) cudaCGSynchronize(.param .b64 x, .param .b32 y);\n"
	".visible .entry rounds(.param .u64 sum, .param .u64 wrong)\n"
	"{\n"
	"	.reg .pred %p; .reg .b32 %r<12>; .reg .b64 %d<4>;\n"
	"	ld.param.u64 %d1, [sum]; ld.param.u64 %d2, [wrong];\n"
	"	{ .param .b32 in; .param .b64 out; mov.u32 %r1, 1; st.param.b32 [in], %r1;\n"
	"	call.uni (out), cudaCGGetIntrinsicHandle, (in); ld.param.b64 %d3, [out]; }\n"
	"	mov.u32 %r2, 0; mov.u32 %r3, 0;\n"
	"	mov.u32 %r4, %nctaid.x; mov.u32 %r5, %nctaid.y; mul.lo.u32 %r4, %r4, %r5;\n"
	"	mov.u32 %r5, %ntid.x; mul.lo.u32 %r4, %r4, %r5;\n"
	"again:\n"
	"	mov.u32 %r6, 1; atom.global.add.u32 %r7, [%d1], %r6; add.u32 %r3, %r3, %r4;\n"
	"	{ .param .b64 in; .param .b32 zero; .param .b32 out;\n"
	"	st.param.b64 [in], %d3; mov.u32 %r8, 0; st.param.b32 [zero], %r8;\n"
	"	call.uni (out), cudaCGSynchronize, (in, zero); ld.param.b32 %r9, [out]; }\n"
	"	ld.volatile.global.u32 %r10, [%d1];\n"
	"	setp.eq.u32 %p, %r10, %r3;\n"
	"	@!%p atom.global.add.u32 %r7, [%d2], %r6;\n"
	"	{ .param .b64 in; .param .b32 zero; .param .b32 out;\n"
	"	st.param.b64 [in], %d3; st.param.b32 [zero], %r8;\n"
	"	call.uni (out), cudaCGSynchronize, (in, zero); ld.param.b32 %r11, [out]; }\n"
	"	atom.global.or.b32 %r7, [%d2+4], %r9;\n"
	"	add.u32 %r2, %r2, 1; setp.lt.u32 %p, %r2, 5;\n"
	"	@%p bra again;\n"
	"	ret;\n"
	"}\n";

static void grids_wait(void)
{
	CUcontext context = begin_context();
	CUfunction rounds = load(grid_text, "rounds");
	CUdeviceptr sum = device_memory(4), wrong = device_memory(8);
	unsigned zero[2] = {0}, n[2];
	void *params[] = {&sum, &wrong};

	NEED(drv.cuMemcpyHtoD_v2(sum, zero, 4));
	NEED(drv.cuMemcpyHtoD_v2(wrong, zero, 8));
	NEED(drv.cuLaunchCooperativeKernel(rounds, 3, 2, 1, 40, 1, 1, 0, NULL, params));
	NEED(drv.cuMemcpyDtoH_v2(n, wrong, 8));
	tap_ok(n[0] == 0 && n[1] == 0, "a grid waits for all of its blocks: %u wrong, error %u",
		n[0], n[1]);
	run(rounds, 1, 1, 0, params);
	NEED(drv.cuMemcpyDtoH_v2(n, wrong, 8));
	tap_ok(n[1] == CUDA_ERROR_NOT_SUPPORTED, "a grid of a plain launch cannot wait: %u", n[1]);
	NEED(drv.cuCtxDestroy_v2(context));
}

static void reaches_memory(void)
{
	static const char *const text = HEAD
		".visible .global .align 4 .u32 counter = 5;\n"
		".visible .global .align 8 .u64 where = counter;\n"
		".extern .shared .align 4 .b8 dynamic[];\n"
		".visible .entry k(.param .u64 out)\n"
		"{\n"
		"	.reg .pred %p; .reg .b32 %r<9>; .reg .b64 %rd<9>;\n"
		"	ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ntid.x;\n"
		"	mov.u32 %r3, dynamic; shl.b32 %r4, %r1, 2; add.u32 %r3, %r3, %r4;\n"
		"	st.shared.u32 [%r3], %r1;\n"
		"	bar.sync 0;\n"
		"	sub.u32 %r5, %r2, 1; sub.u32 %r5, %r5, %r1; shl.b32 %r5, %r5, 2;\n"
		"	mov.u32 %r6, dynamic; add.u32 %r5, %r5, %r6; ld.shared.u32 %r7, [%r5];\n"
		"	mul.wide.u32 %rd2, %r1, 4; add.u64 %rd3, %rd1, %rd2;\n"
		"	st.u32 [%rd3], %r7;\n"
		"	ld.global.u64 %rd4, [where]; atom.global.add.u32 %r8, [%rd4], 1;\n"
		"	ret;\n"
		"}\n";
	CUcontext context = begin_context();
	CUmodule module;
	CUdeviceptr out, counter;
	unsigned *managed, value;
	bool is_right = true;

	NEED(drv.cuModuleLoadData(&module, text));
	NEED(drv.cuMemAllocManaged(&out, 4 * 256, CU_MEM_ATTACH_GLOBAL));
	void *params[] = {&out};
	run(kernel_get(module, "k"), 1, 256, 1024, params);
	NEED(drv.cuCtxSynchronize());
	managed = (unsigned *)(uintptr_t)out;
	for (unsigned i = 0; i < 256; i++)
		is_right = is_right && managed[i] == 255 - i;
	tap_ok(is_right, "a block exchanges values through shared memory into managed memory");
	NEED(drv.cuModuleGetGlobal_v2(&counter, NULL, module, "counter"));
	NEED(drv.cuMemcpyDtoH_v2(&value, counter, 4));
	tap_ok(value == 5 + 256, "a variable that holds an address leads to the other variable");

	NEED(drv.cuMemHostAlloc((void **)&managed, 4 * 256, CU_MEMHOSTALLOC_DEVICEMAP));
	NEED(drv.cuMemHostGetDevicePointer_v2(&out, managed, 0));
	run(kernel_get(module, "k"), 1, 256, 1024, params);
	NEED(drv.cuCtxSynchronize());
	tap_ok(managed[0] == 255 && managed[255] == 0, "a kernel writes to memory of the host");
	OK(drv.cuCtxDestroy_v2(context));
}

/* Many threads count in memory of the host, of managed memory and of the device. */
static void counts(void)
{
	static const char *const text = HEAD
		".visible .entry k(.param .u64 p)\n"
		"{\n"
		"	.reg .pred %p; .reg .b32 %r<4>; .reg .b64 %a;\n"
		"	ld.param.u64 %a, [p]; mov.u32 %r1, 0;\n"
		"L:	red.add.u32 [%a], 1; atom.max.u32 %r2, [%a+4], %r1;\n"
		"	atom.cas.b32 %r2, [%a+8], %r1, %r2; add.u32 %r1, %r1, 1;\n"
		"	setp.lt.u32 %p, %r1, 8; @%p bra L; ret;\n"
		"}\n";
	CUcontext context = begin_context();
	CUfunction f = load(text, "k");
	CUdeviceptr pinned, managed, device = device_memory(64);
	unsigned *host, seen[2];
	void *params[] = {&pinned};

	NEED(drv.cuMemHostAlloc((void **)&host, 64, CU_MEMHOSTALLOC_DEVICEMAP));
	NEED(drv.cuMemHostGetDevicePointer_v2(&pinned, host, 0));
	run(f, 64, 64, 0, params);
	NEED(drv.cuCtxSynchronize());
	tap_ok(host[0] == 64 * 64 * 8 && host[1] == 7, "atomics in memory of the host: %u",
		host[0]);
	NEED(drv.cuMemAllocManaged(&managed, 64, CU_MEM_ATTACH_GLOBAL));
	params[0] = &managed;
	run(f, 256, 256, 0, params);
	NEED(drv.cuCtxSynchronize());
	memcpy(seen, (void *)(uintptr_t)managed, sizeof(seen));
	tap_ok(seen[0] == 256 * 256 * 8, "atomics in managed memory: %u", seen[0]);
	NEED(drv.cuMemsetD8_v2(device, 0, 64));
	params[0] = &device;
	run(f, 256, 256, 0, params);
	NEED(drv.cuMemcpyDtoH_v2(seen, device, sizeof(seen)));
	tap_ok(seen[0] == 256 * 256 * 8, "atomics in memory of the device: %u", seen[0]);
	OK(drv.cuCtxDestroy_v2(context));
}

/* The most bytes of parameters since CUDA 12.1: the last word arrives. */
static void many_parameters(void)
{
	static const char *const text =
		".version 8.1\n.target sm_90\n.address_size 64\n"
		".visible .entry k(.param .u64 p, .param .align 4 .b8 big[32756])\n"
		"{\n"
		"	.reg .b32 %r<3>; .reg .b64 %a;\n"
		"	ld.param.u64 %a, [p]; ld.param.u32 %r1, [big+32752]; ld.param.u32 %r2, [big];\n"
		"	st.global.u32 [%a], %r1; st.global.u32 [%a+4], %r2; ret;\n"
		"}\n";
	CUcontext context = begin_context();
	CUdeviceptr p = device_memory(64);
	static unsigned big[32756 / 4];
	unsigned seen[2] = {0};
	void *params[] = {&p, big};
	CUstream stream = new_stream();
	CUgraphExec exec;
	CUgraph graph;
	CUfunction f;

	big[0] = 11;
	big[32752 / 4] = 22;
	f = load(text, "k");
	run(f, 1, 1, 0, params);
	NEED(drv.cuMemcpyDtoH_v2(seen, p, sizeof(seen)));
	tap_ok(seen[0] == 22 && seen[1] == 11, "a kernel has 32,764 bytes of parameters");
	NEED(drv.cuMemsetD8_v2(p, 0, 64));
	NEED(drv.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	NEED(drv.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
	NEED(drv.cuStreamEndCapture(stream, &graph));
	NEED(drv.cuGraphInstantiateWithFlags(&exec, graph, 0));
	NEED(drv.cuGraphLaunch(exec, stream));
	NEED(drv.cuStreamSynchronize(stream));
	NEED(drv.cuMemcpyDtoH_v2(seen, p, sizeof(seen)));
	tap_ok(seen[0] == 22 && seen[1] == 11, "a node of a graph has them, too");
	OK(drv.cuCtxDestroy_v2(context));
}

/* Each thread makes a list of blocks, checks and frees it; the heap is smaller than all of them. */
static void takes_from_the_heap(void)
{
	static const char *const text = HEAD
		".extern .func (.param .b64 r) malloc(.param .b64 n);\n"
		".extern .func free(.param .b64 p);\n"
		".visible .entry k(.param .u64 out)\n"
		"{\n"
		"	.reg .pred %p; .reg .b32 %r<8>; .reg .b64 %a<8>;\n"
		"	ld.param.u64 %a1, [out]; mov.u32 %r1, %tid.x; mov.u32 %r5, %ctaid.x;\n"
		"	mad.lo.u32 %r1, %r5, 64, %r1; mov.u32 %r2, 0; mov.u64 %a2, 0; mov.u32 %r6, 0;\n"
		"L:	{ .param .b64 n; .param .b64 r; st.param.b64 [n], 1000;\n"
		"	call (r), malloc, (n); ld.param.b64 %a3, [r]; }\n"
		"	setp.eq.u64 %p, %a3, 0; @%p bra F;\n"
		"	st.u64 [%a3], %a2; st.u32 [%a3+8], %r1; st.u32 [%a3+992], %r2; mov.u64 %a2, %a3;\n"
		"	add.u32 %r2, %r2, 1; setp.lt.u32 %p, %r2, 4; @%p bra L;\n"
		"F:	setp.eq.u64 %p, %a2, 0; @%p bra E; ld.u64 %a4, [%a2]; ld.u32 %r3, [%a2+8];\n"
		"	ld.u32 %r4, [%a2+992]; sub.u32 %r2, %r2, 1; setp.ne.u32 %p, %r3, %r1; @%p trap;\n"
		"	setp.ne.u32 %p, %r4, %r2; @%p trap; add.u32 %r6, %r6, 1;\n"
		"	{ .param .b64 p; st.param.b64 [p], %a2; call free, (p); } mov.u64 %a2, %a4;\n"
		"	bra F;\n"
		"E:	red.global.add.u32 [%a1], %r6; ret;\n"
		"}\n"
		".visible .entry twice()\n"
		"{\n"
		"	.reg .b64 %a;\n"
		"	{ .param .b64 n; .param .b64 r; st.param.b64 [n], 64; call (r), malloc, (n);\n"
		"	ld.param.b64 %a, [r]; }\n"
		"	{ .param .b64 p; st.param.b64 [p], %a; call free, (p); }\n"
		"	{ .param .b64 p; st.param.b64 [p], %a; call free, (p); } ret;\n"
		"}\n";
	CUcontext context = begin_context();
	CUdeviceptr out = device_memory(64);
	CUmodule module;
	unsigned n;
	void *params[] = {&out};

	NEED(drv.cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 1 << 20));
	NEED(drv.cuModuleLoadData(&module, text));
	for (int i = 0; i < 3; i++) {
		NEED(drv.cuMemsetD8_v2(out, 0, 64));
		/* 16384 blocks of 1 KiB would be 16 MiB: some get none, the others are right */
		run(kernel_get(module, "k"), 64, 64, 0, params);
		NEED(drv.cuMemcpyDtoH_v2(&n, out, 4));
		tap_ok(n >= 1024 && n <= 64 * 64 * 4, "threads took and freed %u blocks", n);
	}
	run(kernel_get(module, "twice"), 1, 1, 0, NULL);
	EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, drv.cuCtxSynchronize());
	drv.cuCtxDestroy_v2(context);
}

static void managed_variables(void)
{
	static const char *const text = HEAD
		".visible .global .attribute(.managed) .align 4 .u32 counter = 40;\n"
		".visible .global .align 4 .u32 plain = 7;\n"
		".visible .global .attribute(.managed) .align 8 .b8 table[64];\n"
		".visible .entry k()\n"
		"{\n"
		"	.reg .b32 %r<4>;\n"
		"	atom.global.add.u32 %r1, [counter], 2; ld.global.u32 %r2, [plain];\n"
		"	st.global.u32 [table+60], %r2;\n"
		"	ret;\n"
		"}\n";
	CUcontext context = begin_context();
	CUdeviceptr counter, table, plain;
	size_t bytes = 0;
	CUlibrary library;
	CUmodule module;
	unsigned value;

	NEED(drv.cuLibraryLoadData(&library, text, NULL, NULL, 0, NULL, NULL, 0));
	EXPECT(CUDA_ERROR_NOT_FOUND, drv.cuLibraryGetManaged(&counter, NULL, library, "counter"));
	NEED(drv.cuLibraryGetModule(&module, library));
	NEED(drv.cuLibraryGetManaged(&counter, &bytes, library, "counter"));
	tap_ok(bytes == 4 && *(unsigned *)(uintptr_t)counter == 40,
		"the host reads a managed variable's first value by its address");
	NEED(drv.cuLibraryGetManaged(&table, &bytes, library, "table"));
	tap_ok(bytes == 64, "a managed table has its size");
	EXPECT(CUDA_ERROR_NOT_FOUND, drv.cuLibraryGetManaged(&plain, NULL, library, "plain"));
	run(kernel_get(module, "k"), 1, 1, 0, NULL);
	NEED(drv.cuCtxSynchronize());
	tap_ok(*(unsigned *)(uintptr_t)counter == 42 && ((unsigned *)(uintptr_t)table)[15] == 7,
		"the host reads what a kernel wrote to managed variables");
	NEED(drv.cuModuleGetGlobal_v2(&plain, NULL, module, "plain"));
	NEED(drv.cuMemcpyDtoH_v2(&value, plain, 4));
	tap_ok(value == 7, "a variable beside managed ones has its value");
	OK(drv.cuLibraryUnload(library));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemFree_v2(counter));
	OK(drv.cuCtxDestroy_v2(context));
}

/* ---- faults ---- */

static const char *const bad_text = HEAD
	".visible .entry far() { .reg .b64 %a; mov.u64 %a, 0x300000000000; st.global.u32 [%a], 1; ret; }\n"
	".visible .entry odd(.param .u64 p) { .reg .b64 %a; ld.param.u64 %a, [p];\n"
	"	st.global.u32 [%a+2], 1; ret; }\n"
	".visible .entry stop() { trap; }\n"
	".visible .entry endless() { L: bra L; }\n"
	".visible .func deep() { .reg .b32 %r; .local .b8 big[1024]; ld.local.u32 %r, [big];\n"
	"	call deep; st.local.u32 [big], %r; ret; }\n"
	".visible .entry recurse() { call deep; ret; }\n";

static void fault(const char *kernel, CUresult expected)
{
	CUcontext context = begin_context();
	CUdeviceptr p = device_memory(64);
	void *params[] = {&p};

	run(load(bad_text, kernel), 1, 1, 0, params);
	tap_ok(drv.cuCtxSynchronize() == expected, "%s: the context's error is %d", kernel,
		expected);
	tap_ok(drv.cuMemFree_v2(p) == expected, "%s: the error stays", kernel);
	drv.cuCtxDestroy_v2(context);
}

static void illegal_address(void)
{
	fault("far", CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void misaligned(void)
{
	fault("odd", CUDA_ERROR_MISALIGNED_ADDRESS);
}

static void trap(void)
{
	fault("stop", CUDA_ERROR_LAUNCH_FAILED);
}

static void endless(void)
{
	fault("endless", CUDA_ERROR_LAUNCH_TIMEOUT);
}

static void deep(void)
{
	fault("recurse", CUDA_ERROR_HARDWARE_STACK_ERROR);
}

static void fail_beside(void *argument)
{
	CUcontext context = begin_context();
	CUdeviceptr p = device_memory(64);
	void *params[] = {&p};

	run(load(bad_text, "far"), 1, 1, 0, params);
	if (drv.cuCtxSynchronize() != CUDA_ERROR_ILLEGAL_ADDRESS)
		_exit(1);
	/* This program dies in the middle of a kernel. */
	drv.cuCtxDestroy_v2(context);
	begin_context();
	run(load(bad_text, "endless"), 4, 256, 0, NULL);
	_exit(0);
}

static void others_go_on(void)
{
	pid_t other = part_start(fail_beside, NULL); /* CUDA does not survive a fork */
	CUcontext context = begin_context();
	CUfunction add = load(add_text, "add");
	bool is_right = adds(add);

	tap_ok(part_wait(other), "another program fails and dies");
	tap_ok(is_right && adds(add), "the kernels of this program stay right");
	OK(drv.cuCtxDestroy_v2(context));
}

/* ---- what is not computed ---- */

static void missing(void)
{
	static const char *const text = HEAD
		".visible .entry k() {\n	.reg .b32 %r;\n	vadd.s32.s32.s32 %r, 1, 2;\n	ret; }\n";
	static const char *const wrong = HEAD
		".visible .entry k() {\n	.reg .b32 %r;\n	add.s32 %r, %q, 2;\n	ret; }\n";
	CUcontext context = begin_context();
	char log[512] = "";
	CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
	void *values[] = {log, (void *)sizeof(log)};
	CUmodule module;

	EXPECT(CUDA_ERROR_NOT_SUPPORTED, drv.cuModuleLoadDataEx(&module, text, 2, options, values));
	tap_ok(strstr(log, "line 6;") && strstr(log, "vadd.s32.s32.s32"), "%s", log);
	values[1] = (void *)sizeof(log);
	EXPECT(CUDA_ERROR_INVALID_PTX, drv.cuModuleLoadDataEx(&module, wrong, 2, options, values));
	tap_ok(strstr(log, "line 6;") && strstr(log, "%q"), "%s", log);
	OK(drv.cuCtxDestroy_v2(context));
}

static void machine_code(void)
{
	CUcontext context = begin_context();
	static uint8_t cubin[CUBIN_MAX];
	uint64_t parameters[2] = {0};
	void *params[] = {&parameters[0], &parameters[1]};
	int pipes[2], saved = dup(2);
	CUfunction f;
	char said[1024] = "";
	const char *first;

	cubin_make(cubin, 90, "only_sass", 0x17, 8);
	f = load((const char *)cubin, "only_sass");
	if (pipe(pipes) < 0 || dup2(pipes[1], 2) < 0)
		_exit(1);
	run(f, 1, 1, 0, params);
	run(f, 1, 1, 0, params);
	NEED(drv.cuCtxSynchronize());
	dup2(saved, 2);
	close(pipes[1]);
	if (read(pipes[0], said, sizeof(said) - 1) < 0)
		_exit(1);
	first = strstr(said, "only_sass");
	tap_ok(first && !strstr(first + 1, "only_sass"), "one message: %s", said);
	tap_ok(strstr(said, "simulated") != NULL, "the message says that the GPU is simulated");
	OK(drv.cuCtxDestroy_v2(context));
}

int main(void)
{
	static const struct part parts[] = {
		{"computes", computes},
		{"blocks of the heap", allocates},
		{"grids", grids_wait},
		{"memory", reaches_memory},
		{"atomics", counts},
		{"parameters", many_parameters},
		{"heap", takes_from_the_heap},
		{"managed variables", managed_variables},
		{"illegal address", illegal_address},
		{"misaligned address", misaligned},
		{"trap", trap},
		{"endless loop", endless},
		{"stack overflow", deep},
		{"others", others_go_on},
		{"missing instruction", missing},
		{"machine code", machine_code},
	};

	return parts_main("1xH200-8Gi", "context_create_us=0,kernel_msteps=2", parts,
		sizeof(parts) / sizeof(parts[0]));
}
