/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated driver end to end: programs compute correct data on every path, share a device in
 * time slices, and return their memory when they are killed. Data is compared bit for bit, and
 * shares come from the device's trace. No check depends on the machine's speed.
 */
#include "driver.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "simgpu/trace.h"

enum { N = 4096 };

static void launch(CUfunction f, unsigned blocks, CUstream stream, void **params)
{
	NEED(drv.cuLaunchKernel(f, blocks, 1, 1, 256, 1, 1, 0, stream, params, NULL));
}

static bool all_are(CUdeviceptr p, uint32_t value, size_t n)
{
	_cleanup_free_ uint32_t *host = calloc(n, sizeof(*host));
	bool same = true;

	NEED(drv.cuMemcpyDtoH_v2(host, p, n * sizeof(*host)));
	for (size_t i = 0; i < n; i++)
		same = same && host[i] == value;
	return same;
}

static void compute(void)
{
	CUcontext context = begin_context();
	CUmodule module = load_kernels();
	static float x[N], y[N], a[64], b[64], c[64];
	CUdeviceptr dx = device_memory(sizeof(x)), dy = device_memory(sizeof(y));
	CUdeviceptr da = device_memory(sizeof(a)), db = device_memory(sizeof(b));
	CUdeviceptr dc = device_memory(sizeof(c)), sum = device_memory(4);
	unsigned long long n = N;
	unsigned value = 3, side = 8, got = 0;
	float factor = 0.1f;
	void *fill[] = {&dx, &value, &n}, *reduce[] = {&sum, &dx, &n};
	void *saxpy[] = {&dy, &dx, &factor, &n}, *matmul[] = {&dc, &da, &db, &side};
	bool right = true;

	launch(kernel_get(module, "fill_u32"), 16, NULL, fill);
	launch(kernel_get(module, "reduce_u32"), 4, NULL, reduce);
	NEED(drv.cuMemcpyDtoH_v2(&got, sum, 4));
	tap_ok(got == 3 * N, "a kernel fills an array and another sums it: %u", got);
	for (int i = 0; i < N; i++) {
		x[i] = (float)i * 0.37f;
		y[i] = (float)(N - i) * 1.13f;
	}
	NEED(drv.cuMemcpyHtoD_v2(dx, x, sizeof(x)));
	NEED(drv.cuMemcpyHtoD_v2(dy, y, sizeof(y)));
	launch(kernel_get(module, "saxpy_f32"), 16, NULL, saxpy);
	for (int i = 0; i < N; i++) {
		volatile float product = factor * x[i];

		y[i] = product + y[i];
	}
	NEED(drv.cuMemcpyDtoH_v2(x, dy, sizeof(x)));
	tap_ok(memcmp(x, y, sizeof(x)) == 0, "saxpy is right, bit for bit");
	for (int i = 0; i < 64; i++) {
		a[i] = (float)(i % 7) - 2.5f;
		b[i] = (float)(i % 5) * 0.3f;
	}
	NEED(drv.cuMemcpyHtoD_v2(da, a, sizeof(a)));
	NEED(drv.cuMemcpyHtoD_v2(db, b, sizeof(b)));
	launch(kernel_get(module, "matmul_f32"), 1, NULL, matmul);
	NEED(drv.cuMemcpyDtoH_v2(c, dc, sizeof(c)));
	for (int i = 0; i < 8; i++) {
		for (int j = 0; j < 8; j++) {
			volatile float term, total = 0;

			for (int k = 0; k < 8; k++) {
				term = a[i * 8 + k] * b[k * 8 + j];
				total = total + term;
			}
			right = right && total == c[i * 8 + j];
		}
	}
	tap_ok(right, "a matrix product is right");
	OK(drv.cuCtxDestroy_v2(context));
}

static void copies(void)
{
	CUcontext context = begin_context();
	static uint8_t from[64 * 100], to[64 * 100];
	CUDA_MEMCPY2D c = {.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = from,
		.srcPitch = 100,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.WidthInBytes = 80,
		.Height = 64,
		.srcXInBytes = 7};
	CUDA_ARRAY_DESCRIPTOR desc = {
		.Width = 25, .Height = 64, .NumChannels = 1, .Format = CU_AD_FORMAT_UNSIGNED_INT32};
	CUDA_ARRAY3D_DESCRIPTOR deep = {.Width = 16,
		.Height = 8,
		.Depth = 4,
		.NumChannels = 4,
		.Format = CU_AD_FORMAT_UNSIGNED_INT8};
	CUDA_MEMCPY3D d = {.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = from,
		.srcPitch = 64,
		.srcHeight = 8,
		.dstMemoryType = CU_MEMORYTYPE_ARRAY,
		.WidthInBytes = 64,
		.Height = 8,
		.Depth = 4};
	CUmipmappedArray mipmap;
	size_t pitch, before, after, total;
	CUarray array, level;
	bool right = true;
	CUdeviceptr p;

	for (size_t i = 0; i < sizeof(from); i++)
		from[i] = (uint8_t)(i * 31 + 7);
	NEED(drv.cuMemAllocPitch_v2(&p, &pitch, 80, 64, 4));
	c.dstDevice = p;
	c.dstPitch = pitch;
	NEED(drv.cuMemcpy2D_v2(&c));
	c = (CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = p,
		.srcPitch = pitch,
		.dstMemoryType = CU_MEMORYTYPE_HOST,
		.dstHost = to,
		.dstPitch = 80,
		.WidthInBytes = 80,
		.Height = 64};
	NEED(drv.cuMemcpy2D_v2(&c));
	for (size_t i = 0; i < 64; i++)
		right = right && memcmp(to + i * 80, from + i * 100 + 7, 80) == 0;
	tap_ok(right, "two-dimensional copies go to pitched memory and back");

	NEED(drv.cuArrayCreate_v2(&array, &desc));
	c = (CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = from,
		.srcPitch = 100,
		.dstMemoryType = CU_MEMORYTYPE_ARRAY,
		.dstArray = array,
		.WidthInBytes = 100,
		.Height = 64};
	NEED(drv.cuMemcpy2D_v2(&c));
	memset(to, 0, sizeof(to));
	c = (CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_ARRAY,
		.srcArray = array,
		.dstMemoryType = CU_MEMORYTYPE_HOST,
		.dstHost = to,
		.dstPitch = 100,
		.WidthInBytes = 100,
		.Height = 64};
	NEED(drv.cuMemcpy2D_v2(&c));
	tap_ok(memcmp(to, from, sizeof(to)) == 0, "an array keeps the copied bytes");
	OK(drv.cuArrayDestroy(array));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, drv.cuArrayDestroy(array));

	NEED(drv.cuArray3DCreate_v2(&array, &deep));
	d.dstArray = array;
	NEED(drv.cuMemcpy3D_v2(&d));
	memset(to, 0, sizeof(to));
	d = (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_ARRAY,
		.srcArray = array,
		.srcY = 2,
		.srcZ = 1,
		.dstMemoryType = CU_MEMORYTYPE_HOST,
		.dstHost = to,
		.dstPitch = 64,
		.dstHeight = 3,
		.WidthInBytes = 64,
		.Height = 3,
		.Depth = 2};
	NEED(drv.cuMemcpy3D_v2(&d));
	right = memcmp(to, from + (8 + 2) * 64, 3 * 64) == 0 &&
		memcmp(to + 3 * 64, from + (16 + 2) * 64, 3 * 64) == 0;
	tap_ok(right, "a three-dimensional copy takes a box out of an array");

	deep = (CUDA_ARRAY3D_DESCRIPTOR){
		.Width = 4096, .Height = 4096, .NumChannels = 4, .Format = CU_AD_FORMAT_FLOAT};
	NEED(drv.cuMemGetInfo_v2(&before, &total));
	NEED(drv.cuMipmappedArrayCreate(&mipmap, &deep, 100));
	NEED(drv.cuMemGetInfo_v2(&after, &total));
	tap_ok(before - after >= 4096ul * 4096 * 16 * 4 / 3, "a mipmap takes its memory: %zu",
		before - after);
	OK(drv.cuMipmappedArrayGetLevel(&level, mipmap, 12));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMipmappedArrayGetLevel(&level, mipmap, 13));
	OK(drv.cuMipmappedArrayDestroy(mipmap));
	NEED(drv.cuMemGetInfo_v2(&after, &total));
	tap_ok(before == after, "a destroyed mipmap gives its memory back");
	OK(drv.cuCtxDestroy_v2(context));
}

static void large_copies(void)
{
	CUcontext context = begin_context();
	size_t n = 5 << 20;
	uint32_t *host = malloc(n), *pinned;
	CUstream stream = new_stream();
	CUdeviceptr p = device_memory(n);
	bool right = true;

	NEED(drv.cuMemHostAlloc((void **)&pinned, n, 0));
	for (size_t i = 0; i < n / 4; i++)
		host[i] = (uint32_t)(i * 2654435761u);
	NEED(drv.cuMemcpyHtoDAsync_v2(p, host, n, stream));
	NEED(drv.cuMemcpyDtoHAsync_v2(pinned, p, n, stream));
	NEED(drv.cuStreamSynchronize(stream));
	for (size_t i = 0; i < n / 4; i++)
		right = right && pinned[i] == (uint32_t)(i * 2654435761u);
	tap_ok(right,
		"bytes survive the copies from pageable memory to the device to pinned memory");
	/* The program may reuse a small pageable source as soon as the call returns. */
	memset(host, 1, 1024);
	NEED(drv.cuMemcpyHtoDAsync_v2(p, host, 1024, stream));
	memset(host, 2, 1024);
	NEED(drv.cuStreamSynchronize(stream));
	tap_ok(all_are(p, 0x01010101, 256), "the call itself reads a small pageable source");
	free(host);
	OK(drv.cuCtxDestroy_v2(context));
}

static void count_up(void *number)
{
	++*(int *)number;
}

static void capture(void)
{
	CUcontext context = begin_context();
	CUfunction fill = kernel_get(load_kernels(), "fill_u32");
	CUstream a = new_stream(), b = new_stream();
	CUdeviceptr p = device_memory(4 * N), q = device_memory(4 * N), memory;
	unsigned long long n = N;
	unsigned value = 5;
	void *params[] = {&p, &value, &n};
	CUevent fork_point, join_point;
	CUgraphExecUpdateResultInfo info;
	CUgraphNode nodes[16];
	CUDA_KERNEL_NODE_PARAMS k;
	CUgraph graph, second;
	CUgraphExec exec;
	int calls = 0;
	size_t count = 16;

	NEED(drv.cuEventCreate(&fork_point, CU_EVENT_DISABLE_TIMING));
	NEED(drv.cuEventCreate(&join_point, CU_EVENT_DISABLE_TIMING));
	NEED(drv.cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
	launch(fill, 4, a, params);
	NEED(drv.cuEventRecord(fork_point, a));
	NEED(drv.cuStreamWaitEvent(b, fork_point, 0));
	NEED(drv.cuMemcpyDtoDAsync_v2(q, p, 4 * N, b));
	NEED(drv.cuLaunchHostFunc(a, count_up, &calls));
	NEED(drv.cuEventRecord(join_point, b));
	NEED(drv.cuStreamWaitEvent(a, join_point, 0));
	NEED(drv.cuMemsetD32Async(p, 9, N, a));
	NEED(drv.cuStreamEndCapture(a, &graph));
	tap_ok(all_are(q, 0, N), "capturing runs nothing");
	NEED(drv.cuGraphGetNodes(graph, nodes, &count));
	tap_ok(count == 4, "the captured graph has four nodes: %zu", count);
	NEED(drv.cuGraphInstantiateWithFlags(&exec, graph, 0));
	NEED(drv.cuGraphLaunch(exec, a));
	NEED(drv.cuGraphLaunch(exec, a));
	NEED(drv.cuStreamSynchronize(a));
	tap_ok(all_are(q, 5, N) && all_are(p, 9, N), "branches run in the captured order");
	tap_ok(calls == 2, "the host function ran with each launch: %d", calls);

	OK(drv.cuGraphKernelNodeGetParams_v2(nodes[0], &k));
	tap_ok(k.gridDimX == 4 && k.blockDimX == 256 && *(unsigned *)k.kernelParams[1] == 5,
		"a captured kernel's parameters can be read");
	value = 6;
	k.kernelParams = params;
	OK(drv.cuGraphExecKernelNodeSetParams_v2(exec, nodes[0], &k));
	NEED(drv.cuGraphLaunch(exec, a));
	NEED(drv.cuStreamSynchronize(a));
	tap_ok(all_are(q, 6, N), "a launch uses the changed parameters of a node");

	NEED(drv.cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
	value = 7;
	launch(fill, 4, a, params);
	NEED(drv.cuStreamEndCapture(a, &second));
	EXPECT(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, drv.cuGraphExecUpdate_v2(exec, second, &info));
	tap_ok(info.result == CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED,
		"an update by a graph of another topology fails");
	NEED(drv.cuGraphDestroy(second));
	NEED(drv.cuGraphKernelNodeSetParams_v2(nodes[0], &k));
	OK(drv.cuGraphExecUpdate_v2(exec, graph, &info));
	OK(drv.cuGraphNodeSetEnabled(exec, nodes[3], 0));
	NEED(drv.cuGraphLaunch(exec, a));
	NEED(drv.cuStreamSynchronize(a));
	tap_ok(all_are(q, 7, N) && all_are(p, 7, N),
		"an updated graph runs without its disabled node");

	/* Allocation inside a capture. */
	NEED(drv.cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
	NEED(drv.cuMemAllocAsync(&memory, 4 * N, a));
	NEED(drv.cuMemsetD32Async(memory, 11, N, a));
	NEED(drv.cuMemcpyDtoDAsync_v2(q, memory, 4 * N, a));
	NEED(drv.cuMemFreeAsync(memory, a));
	NEED(drv.cuStreamEndCapture(a, &second));
	NEED(drv.cuGraphExecDestroy(exec));
	NEED(drv.cuGraphInstantiateWithFlags(&exec, second, 0));
	for (int i = 0; i < 3; i++)
		NEED(drv.cuGraphLaunch(exec, a));
	NEED(drv.cuStreamSynchronize(a));
	tap_ok(all_are(q, 11, N), "a graph can use memory that it allocates itself");
	OK(drv.cuDeviceGraphMemTrim(0));
	OK(drv.cuCtxDestroy_v2(context));
}

static void built_graph(void)
{
	CUcontext context = begin_context();
	CUfunction fill = kernel_get(load_kernels(), "fill_u32");
	CUdeviceptr p = device_memory(4 * N), q = device_memory(4 * N);
	CUstream stream = new_stream();
	unsigned long long n = N;
	unsigned value = 21;
	void *params[] = {&p, &value, &n};
	CUDA_KERNEL_NODE_PARAMS k = {.func = fill,
		.gridDimX = 2,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = 64,
		.blockDimY = 1,
		.blockDimZ = 1,
		.kernelParams = params};
	CUDA_MEMSET_NODE_PARAMS m = {
		.dst = q, .value = 1, .elementSize = 4, .width = N, .height = 1};
	CUDA_MEMCPY3D c = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = p,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = q,
		.WidthInBytes = 4 * N / 2,
		.Height = 1,
		.Depth = 1};
	CUgraph inner, outer;
	CUgraphNode first, child, last, record;
	CUgraphExec exec;
	CUevent event;
	char path[64];

	NEED(drv.cuEventCreate(&event, 0));
	NEED(drv.cuGraphCreate(&inner, 0));
	NEED(drv.cuGraphCreate(&outer, 0));
	OK(drv.cuGraphAddKernelNode_v2(&first, inner, NULL, 0, &k));
	OK(drv.cuGraphAddMemsetNode(&first, outer, NULL, 0, &m, context));
	OK(drv.cuGraphAddChildGraphNode(&child, outer, &first, 1, inner));
	OK(drv.cuGraphAddMemcpyNode(&last, outer, &child, 1, &c, context));
	OK(drv.cuGraphAddEventRecordNode(&record, outer, &last, 1, event));
	snprintf(path, sizeof(path), "%s/dot", machine_dir());
	/* A remote driver cannot write this file: left_out() checks that. */
	if (!is_remote())
		OK(drv.cuGraphDebugDotPrint(outer, path, 0));
	unlink(path);
	NEED(drv.cuGraphInstantiateWithFlags(&exec, outer, 0));
	NEED(drv.cuGraphLaunch(exec, stream));
	OK(drv.cuEventSynchronize(event));
	tap_ok(all_are(q, 21, N / 2) && all_are(q + 2 * N, 1, N / 2),
		"memset, child graph, copy, event");
	OK(drv.cuCtxDestroy_v2(context));
}

static void pools(void)
{
	CUcontext context = begin_context();
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED};
	CUstream stream = new_stream();
	CUmemoryPool pool;
	cuuint64_t reserved, used;
	CUdeviceptr a, b;

	props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	NEED(drv.cuMemPoolCreate(&pool, &props));
	NEED(drv.cuMemAllocFromPoolAsync(&a, 10 << 20, pool, stream));
	NEED(drv.cuMemsetD32Async(a, 77, N, stream));
	NEED(drv.cuStreamSynchronize(stream));
	NEED(drv.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
	NEED(drv.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
	tap_ok(used >= 10 << 20 && reserved >= used, "used %llu of %llu reserved",
		(unsigned long long)used, (unsigned long long)reserved);
	tap_ok(all_are(a, 77, N), "pool memory keeps the bytes of a memset");
	NEED(drv.cuMemFreeAsync(a, stream));
	NEED(drv.cuMemAllocFromPoolAsync(&b, 10 << 20, pool, stream));
	tap_ok(a == b, "memory freed in a stream is allocated again at once in this stream");
	NEED(drv.cuMemFreeAsync(b, stream));
	NEED(drv.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
	tap_ok(reserved >= 10 << 20, "a pool keeps freed memory until the next synchronisation");
	NEED(drv.cuStreamSynchronize(stream));
	NEED(drv.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
	tap_ok(reserved == 0, "after a synchronisation a pool keeps nothing by default");
	used = UINT64_MAX;
	OK(drv.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &used));
	NEED(drv.cuMemAllocFromPoolAsync(&b, 10 << 20, pool, stream));
	NEED(drv.cuMemFreeAsync(b, stream));
	NEED(drv.cuStreamSynchronize(stream));
	NEED(drv.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
	tap_ok(reserved >= 10 << 20, "a pool with the greatest threshold keeps all freed memory");
	OK(drv.cuMemPoolTrimTo(pool, 0));
	NEED(drv.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
	tap_ok(reserved == 0, "a pool can be trimmed to nothing");
	OK(drv.cuMemPoolDestroy(pool));
	OK(drv.cuCtxDestroy_v2(context));
}

/*
 * A pool that was trimmed before a pending free has run is trimmed again after the free. The early
 * trim comes from another stream's synchronisation, or from a refused allocation.
 */
static void pools_with_pending_frees(void)
{
	CUcontext context = begin_context();
	CUmodule module = load_kernels();
	CUstream held = new_stream(), other = new_stream();
	unsigned long long timeout = 60000000000ull;
	unsigned one = 1;
	CUdeviceptr flag = device_memory(4), p, q;
	void *wait[] = {&flag, &one, &timeout}, *set[] = {&flag, &one};
	cuuint64_t reserved;
	CUmemoryPool pool;

	NEED(drv.cuDeviceGetDefaultMemPool(&pool, 0));
	for (int is_refused = 0; is_refused < 2; is_refused++) {
		NEED(drv.cuMemsetD32_v2(flag, 0, 1));
		NEED(drv.cuMemAllocAsync(&p, (size_t)6 << 30, held));
		NEED(drv.cuCtxSynchronize());
		NEED(drv.cuLaunchKernel(
			kernel_get(module, "spin_flag"), 1, 1, 1, 1, 1, 1, 0, held, wait, NULL));
		NEED(drv.cuMemFreeAsync(p, held));
		if (is_refused)
			EXPECT(CUDA_ERROR_OUT_OF_MEMORY,
				drv.cuMemAllocAsync(&q, (size_t)6 << 30, other));
		else
			NEED(drv.cuStreamSynchronize(other));
		NEED(drv.cuLaunchKernel(
			kernel_get(module, "set_flag"), 1, 1, 1, 1, 1, 1, 0, other, set, NULL));
		NEED(drv.cuStreamSynchronize(held));
		NEED(drv.cuMemPoolGetAttribute(
			pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
		tap_ok(reserved == 0,
			"%s, the pool gives memory back that a pending free has freed",
			is_refused ? "after a refused allocation"
				   : "after another stream's synchronisation");
	}
	OK(drv.cuCtxDestroy_v2(context));
}

static void managed(void)
{
	CUcontext context = begin_context();
	CUfunction fill = kernel_get(load_kernels(), "fill_u32");
	CUstream stream = new_stream();
	unsigned long long n = N;
	unsigned value = 123;
	CUdeviceptr p;
	void *params[] = {&p, &value, &n};
	bool right = true;
	uint32_t *host;

	NEED(drv.cuMemAllocManaged(&p, 8 * N, CU_MEM_ATTACH_GLOBAL));
	host = (uint32_t *)(uintptr_t)p;
	host[N] = 456;
	OK(drv.cuMemPrefetchAsync(p, 8 * N, 0, stream));
	launch(fill, 4, stream, params);
	NEED(drv.cuStreamSynchronize(stream));
	for (size_t i = 0; i < N; i++)
		right = right && host[i] == 123;
	tap_ok(right && host[N] == 456, "host and device see the same managed memory");
	OK(drv.cuMemAdvise(p, 8 * N, CU_MEM_ADVISE_SET_READ_MOSTLY, 0));
	OK(drv.cuMemFree_v2(p));
	OK(drv.cuCtxDestroy_v2(context));
}

static struct {
	int n;
	int order[64];
} calls;

static void note_call(void *number)
{
	calls.order[calls.n++] = (int)(intptr_t)number;
}

static void ordered(void)
{
	CUcontext context = begin_context();
	CUfunction spin = kernel_get(load_kernels(), "spin_ns");
	CUstream stream = new_stream();
	unsigned long long ns = 100000;
	void *params[] = {&ns};
	CUevent events[17];
	float ms, total;
	bool right = true;

	for (int i = 0; i < 17; i++)
		NEED(drv.cuEventCreate(&events[i], 0));
	NEED(drv.cuEventRecord(events[0], stream));
	for (intptr_t i = 0; i < 16; i++) {
		launch(spin, 1, stream, params);
		NEED(drv.cuLaunchHostFunc(stream, note_call, (void *)i));
		NEED(drv.cuEventRecord(events[i + 1], stream));
	}
	NEED(drv.cuStreamSynchronize(stream));
	for (int i = 0; i < 16; i++)
		right = right && calls.order[i] == i;
	tap_ok(right && calls.n == 16, "host functions run once each and in order");
	right = true;
	for (int i = 0; i < 16; i++) {
		NEED(drv.cuEventElapsedTime(&ms, events[i], events[i + 1]));
		right = right && ms >= 0.1f;
	}
	NEED(drv.cuEventElapsedTime(&total, events[0], events[16]));
	tap_ok(right && total >= 1.6f,
		"the time between events is at least the kernels' time: %.3f ms", (double)total);
	OK(drv.cuCtxDestroy_v2(context));
}

static void host_releases(void)
{
	CUcontext context = begin_context();
	CUstream stream = new_stream();
	CUdeviceptr mapped;
	_Atomic uint32_t *host;

	NEED(drv.cuMemHostAlloc((void **)&host, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
	NEED(drv.cuMemHostGetDevicePointer_v2(&mapped, (void *)host, 0));
	atomic_store(host, 0);
	NEED(drv.cuStreamWaitValue32_v2(stream, mapped, 5, CU_STREAM_WAIT_VALUE_GEQ));
	NEED(drv.cuStreamWriteValue32_v2(stream, mapped + 64, 9, 0));
	EXPECT(CUDA_ERROR_NOT_READY, drv.cuStreamQuery(stream));
	tap_ok(atomic_load(host + 16) == 0, "work after a wait does not run before the wait ends");
	atomic_store(host, 5);
	OK(drv.cuStreamSynchronize(stream));
	tap_ok(atomic_load(host + 16) == 9, "a host write ends the wait");
	OK(drv.cuCtxDestroy_v2(context));
}

static void kernel_releases(void)
{
	CUcontext context = begin_context();
	CUmodule module = load_kernels();
	CUstream stream = new_stream(), other = new_stream();
	unsigned long long timeout = 60000000000ull;
	unsigned one = 1;
	CUdeviceptr flag = device_memory(4);
	void *wait[] = {&flag, &one, &timeout}, *set[] = {&flag, &one};

	NEED(drv.cuMemsetD32_v2(flag, 0, 1));
	NEED(drv.cuCtxSynchronize());
	NEED(drv.cuLaunchKernel(
		kernel_get(module, "spin_flag"), 1, 1, 1, 1, 1, 1, 0, stream, wait, NULL));
	NEED(drv.cuLaunchKernel(
		kernel_get(module, "set_flag"), 1, 1, 1, 1, 1, 1, 0, other, set, NULL));
	OK(drv.cuStreamSynchronize(stream));
	OK(drv.cuCtxDestroy_v2(context));
}

/* One executable in two streams: the second launch waits for the first. */
static void launched_once_at_a_time(void)
{
	CUcontext context = begin_context();
	CUmodule module = load_kernels();
	CUstream held = new_stream(), other = new_stream(), release = new_stream();
	unsigned long long timeout = 60000000000ull;
	unsigned one = 1;
	CUdeviceptr flag = device_memory(4);
	void *wait[] = {&flag, &one, &timeout}, *set[] = {&flag, &one};
	CUgraphExec exec;
	CUgraphNode node;
	CUgraph graph;

	NEED(drv.cuGraphCreate(&graph, 0));
	NEED(drv.cuGraphAddEmptyNode(&node, graph, NULL, 0));
	NEED(drv.cuGraphInstantiateWithFlags(&exec, graph, 0));
	NEED(drv.cuMemsetD32_v2(flag, 0, 1));
	NEED(drv.cuCtxSynchronize());
	NEED(drv.cuLaunchKernel(
		kernel_get(module, "spin_flag"), 1, 1, 1, 1, 1, 1, 0, held, wait, NULL));
	NEED(drv.cuGraphLaunch(exec, held));
	NEED(drv.cuGraphLaunch(exec, other));
	usleep(20000);
	EXPECT(CUDA_ERROR_NOT_READY, drv.cuStreamQuery(other));
	NEED(drv.cuLaunchKernel(
		kernel_get(module, "set_flag"), 1, 1, 1, 1, 1, 1, 0, release, set, NULL));
	OK(drv.cuStreamSynchronize(other));
	OK(drv.cuStreamQuery(held));
	OK(drv.cuCtxDestroy_v2(context));
}

static void many_streams(void)
{
	CUcontext context = begin_context();
	CUfunction spin = kernel_get(load_kernels(), "spin_ns");
	unsigned long long ns = 2000;
	void *params[] = {&ns};
	CUstream streams[64];
	CUevent event;
	bool right = true;
	int called = 0;

	NEED(drv.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	/* New streams get the slots of destroyed streams, whose work may still be in flight. */
	for (int round = 0; round < 200; round++) {
		for (int i = 0; i < 8; i++) {
			streams[i] = new_stream();
			for (int j = 0; j < 3; j++)
				NEED(drv.cuLaunchKernel(
					spin, 1, 1, 1, 1, 1, 1, 0, streams[i], params, NULL));
		}
		NEED(drv.cuEventRecord(event, streams[7]));
		for (int i = 0; i < 8; i++)
			NEED(drv.cuStreamDestroy_v2(streams[i]));
		right = right && drv.cuEventSynchronize(event) == CUDA_SUCCESS;
	}
	tap_ok(right, "events of destroyed streams complete");
	ns = 20000000;
	streams[0] = new_stream();
	NEED(drv.cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, streams[0], params, NULL));
	NEED(drv.cuLaunchHostFunc(streams[0], count_up, &called));
	NEED(drv.cuStreamDestroy_v2(streams[0]));
	OK(drv.cuCtxSynchronize());
	tap_ok(called == 1,
		"the work of a destroyed stream is complete when the context is synchronised");
	ns = 2000;
	/* Submits more launches than a stream holds: the calls block, and no launch is lost. */
	for (int i = 0; i < 64; i++)
		streams[i] = new_stream();
	for (int i = 0; i < 20000; i++)
		NEED(drv.cuLaunchKernel(
			spin, 1, 1, 1, 1, 1, 1, 0, streams[i % 4 * 16], params, NULL));
	OK(drv.cuCtxSynchronize());
	OK(drv.cuCtxDestroy_v2(context));
}

struct worker {
	CUcontext context;
	CUfunction fill;
	unsigned value;
	bool right;
};

static void *work(void *argument)
{
	struct worker *w = argument;
	unsigned long long n = 256;
	CUdeviceptr p;
	void *params[] = {&p, &w->value, &n};
	uint32_t host[256];
	CUstream stream;
	CUevent event;
	int called = 0;

	NEED(drv.cuCtxSetCurrent(w->context));
	stream = new_stream();
	NEED(drv.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	w->right = true;
	for (int i = 0; i < 50; i++) {
		NEED(drv.cuMemAllocAsync(&p, sizeof(host), stream));
		NEED(drv.cuLaunchKernel(w->fill, 1, 1, 1, 256, 1, 1, 0, stream, params, NULL));
		NEED(drv.cuLaunchHostFunc(stream, count_up, &called));
		NEED(drv.cuMemcpyDtoHAsync_v2(host, p, sizeof(host), stream));
		NEED(drv.cuEventRecord(event, stream));
		NEED(drv.cuMemFreeAsync(p, stream));
		NEED(i % 2 ? drv.cuEventSynchronize(event) : drv.cuStreamSynchronize(stream));
		for (int j = 0; j < 256; j++)
			w->right = w->right && host[j] == w->value;
	}
	w->right = w->right && called == 50;
	NEED(drv.cuStreamDestroy_v2(stream));
	return NULL;
}

static void threads(void)
{
	struct worker workers[8];
	pthread_t ids[8];
	bool right = true;

	workers[0].context = begin_context();
	workers[0].fill = kernel_get(load_kernels(), "fill_u32");
	for (unsigned i = 0; i < 8; i++) {
		workers[i] = workers[0];
		workers[i].value = i * 1000 + 1;
		pthread_create(&ids[i], NULL, work, &workers[i]);
	}
	for (int i = 0; i < 8; i++) {
		pthread_join(ids[i], NULL);
		right = right && workers[i].right;
	}
	tap_ok(right, "eight threads compute their own data");
	OK(drv.cuCtxDestroy_v2(workers[0].context));
}

static void per_thread(void)
{
	CUcontext context = begin_context();
	CUfunction fill = kernel_get(load_kernels(), "fill_u32");
	unsigned long long n = N, first, second;
	unsigned value = 8;
	CUdeviceptr p = device_memory(4 * N);
	void *params[] = {&p, &value, &n};
	uint32_t host[16];

	OK(drv.cuLaunchKernel_ptsz(fill, 4, 1, 1, 64, 1, 1, 0, NULL, params, NULL));
	OK(drv.cuMemcpyDtoH_v2_ptds(host, p, sizeof(host)));
	tap_ok(host[15] == 8, "calls in per-thread forms run in order");
	OK(drv.cuStreamGetId_ptsz(NULL, &first));
	OK(drv.cuStreamGetId(NULL, &second));
	tap_ok(first != second, "per-thread forms use another stream than plain forms");
	OK(drv.cuStreamGetId(CU_STREAM_PER_THREAD, &second));
	tap_ok(first == second, "per-thread forms use the stream of CU_STREAM_PER_THREAD");
	OK(drv.cuCtxDestroy_v2(context));
}

static void libraries(void)
{
	CUcontext context = begin_context();
	CUstream stream = new_stream();
	unsigned long long n = N;
	unsigned value = 31, count;
	CUdeviceptr p = device_memory(4 * N), table;
	void *params[] = {&p, &value, &n};
	const char *name = NULL;
	CUlibrary library;
	CUkernel kernel;
	long got[4];
	size_t bytes;

	OK(drv.cuLibraryLoadData(&library, kernels_text(), NULL, NULL, 0, NULL, NULL, 0));
	OK(drv.cuLibraryGetKernelCount(&count, library));
	tap_ok(count >= 7, "the library has the kernels of the file: %u", count);
	OK(drv.cuLibraryGetKernel(&kernel, library, "fill_u32"));
	OK(drv.cuKernelGetName(&name, kernel));
	tap_ok(name && strcmp(name, "fill_u32") == 0, "a kernel has its name");
	/* A kernel handle stands for its function in the current context. */
	NEED(drv.cuLaunchKernel((CUfunction)kernel, 4, 1, 1, 64, 1, 1, 0, stream, params, NULL));
	NEED(drv.cuStreamSynchronize(stream));
	tap_ok(all_are(p, 31, N), "a kernel of a library runs");
	OK(drv.cuLibraryGetGlobal(&table, &bytes, library, "table"));
	NEED(drv.cuMemcpyDtoH_v2(got, table, sizeof(got)));
	tap_ok(got[0] == 1 && got[3] == 4, "variables have their initial values");
	OK(drv.cuLibraryUnload(library));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, drv.cuLibraryUnload(library));
	OK(drv.cuCtxDestroy_v2(context));
}

/* ---- several processes ---- */

static int channel[2];

static void put(const void *p, size_t n)
{
	if (write(channel[1], p, n) != (ssize_t)n)
		_exit(1);
}

static void get(int end, void *p, size_t n)
{
	if (fd_read_exact(end, p, n) < 0)
		_exit(1);
}

static void both_end_well(pid_t a, pid_t b)
{
	bool a_well = part_wait(a), b_well = part_wait(b);

	tap_ok(a_well && b_well, "both processes exit with 0");
}

struct shared {
	CUipcMemHandle memory;
	CUipcEventHandle event;
};

static void exporter(void *unused)
{
	CUcontext context = begin_context();
	CUdeviceptr p = device_memory(4 * N);
	struct shared shared;
	CUevent event;
	char done;

	(void)unused;
	NEED(drv.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
	NEED(drv.cuMemsetD32Async(p, 99, N, NULL));
	NEED(drv.cuEventRecord(event, NULL));
	OK(drv.cuIpcGetMemHandle(&shared.memory, p));
	OK(drv.cuIpcGetEventHandle(&shared.event, event));
	put(&shared, sizeof(shared));
	get(channel[1], &done, 1);
	tap_ok(all_are(p, 100, N), "the exporter sees what the importer wrote");
	OK(drv.cuCtxDestroy_v2(context));
}

static void importer(void *unused)
{
	CUcontext context = begin_context();
	struct shared shared;
	CUdeviceptr p;
	CUevent event;

	(void)unused;
	get(channel[0], &shared, sizeof(shared));
	OK(drv.cuIpcOpenMemHandle_v2(&p, shared.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	OK(drv.cuIpcOpenEventHandle(&event, shared.event));
	OK(drv.cuStreamWaitEvent(NULL, event, 0));
	OK(drv.cuEventSynchronize(event));
	tap_ok(all_are(p, 99, N), "the importer sees what the exporter wrote");
	NEED(drv.cuMemsetD32_v2(p, 100, N));
	NEED(drv.cuCtxSynchronize());
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemFree_v2(p));
	OK(drv.cuIpcCloseMemHandle(p));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuIpcCloseMemHandle(p));
	if (write(channel[0], "", 1) != 1)
		_exit(1);
	OK(drv.cuCtxDestroy_v2(context));
}

static void ipc(void)
{
	pid_t a, b;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, channel) < 0)
		_exit(1);
	tap_note("memory and events between processes");
	a = part_start(exporter, NULL);
	b = part_start(importer, NULL);
	both_end_well(a, b);
	close(channel[0]);
	close(channel[1]);
}

static void vmm(void)
{
	CUcontext context = begin_context();
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
	CUmemAccessDesc access = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle, again;
	CUdeviceptr p, q;
	size_t granule;

	prop.location.type = access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	NEED(drv.cuMemGetAllocationGranularity(&granule, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	NEED(drv.cuMemAddressReserve(&p, granule, 0, 0, 0));
	NEED(drv.cuMemAddressReserve(&q, granule, 0, 0, 0));
	NEED(drv.cuMemCreate(&handle, granule, &prop, 0));
	NEED(drv.cuMemMap(p, granule, 0, handle, 0));
	NEED(drv.cuMemMap(q, granule, 0, handle, 0));
	NEED(drv.cuMemSetAccess(p, granule, &access, 1));
	NEED(drv.cuMemSetAccess(q, granule, &access, 1));
	NEED(drv.cuMemsetD32_v2(p, 43, granule / 4));
	tap_ok(all_are(q, 43, granule / 4), "two mappings show the same allocation");
	OK(drv.cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)q));
	tap_ok(again == handle, "a mapping leads to its handle");
	OK(drv.cuMemRelease(again));
	OK(drv.cuMemUnmap(p, granule));
	OK(drv.cuMemUnmap(q, granule));
	OK(drv.cuMemRelease(handle));
	OK(drv.cuMemAddressFree(p, granule));
	OK(drv.cuMemAddressFree(q, granule));
	OK(drv.cuCtxDestroy_v2(context));
}

static void vmm_exporter(void *unused)
{
	CUcontext context = begin_context();
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};
	CUmemAccessDesc access = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handles[2];
	size_t granule;
	CUdeviceptr p;
	char done;
	int fd;

	(void)unused;
	prop.location.type = access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	NEED(drv.cuMemGetAllocationGranularity(&granule, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	NEED(drv.cuMemAddressReserve(&p, 2 * granule, 0, 0, 0));
	for (size_t i = 0; i < 2; i++) {
		NEED(drv.cuMemCreate(&handles[i], granule, &prop, 0));
		NEED(drv.cuMemMap(p + i * granule, granule, 0, handles[i], 0));
	}
	NEED(drv.cuMemSetAccess(p, 2 * granule, &access, 1));
	NEED(drv.cuMemsetD32_v2(p, 42, 2 * granule / 4));
	tap_ok(all_are(p + granule - 4096, 42, 2048),
		"a memset reaches both allocations of a mapped range");
	OK(drv.cuMemExportToShareableHandle(
		&fd, handles[1], CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	if (fd_send(channel[1], "", 1, &fd, 1, 0) != 1)
		_exit(1);
	close(fd);
	get(channel[1], &done, 1);
	OK(drv.cuMemUnmap(p, 2 * granule));
	OK(drv.cuMemRelease(handles[0]));
	OK(drv.cuMemRelease(handles[1]));
	OK(drv.cuMemAddressFree(p, 2 * granule));
	OK(drv.cuCtxDestroy_v2(context));
}

static void vmm_importer(void *unused)
{
	CUcontext context = begin_context();
	CUmemAccessDesc access = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle, again;
	CUmemAllocationProp prop;
	struct fd_list fds;
	CUdeviceptr p;
	char byte;

	(void)unused;
	access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	if (fd_recv(channel[0], &byte, 1, &fds, 0) != 1 || fds.n != 1)
		_exit(1);
	OK(drv.cuMemImportFromShareableHandle(
		&handle, (void *)(intptr_t)fds.fd[0], CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	fd_list_done(&fds);
	OK(drv.cuMemGetAllocationPropertiesFromHandle(&prop, handle));
	NEED(drv.cuMemAddressReserve(&p, 2 << 20, 0, 0, 0));
	OK(drv.cuMemMap(p, 2 << 20, 0, handle, 0));
	OK(drv.cuMemSetAccess(p, 2 << 20, &access, 1));
	tap_ok(all_are(p, 42, 4096), "imported memory has the exporter's bytes");
	OK(drv.cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)p));
	tap_ok(again == handle, "a mapping leads to its handle");
	OK(drv.cuMemRelease(again));
	if (write(channel[0], "", 1) != 1)
		_exit(1);
	OK(drv.cuMemUnmap(p, 2 << 20));
	OK(drv.cuMemRelease(handle));
	OK(drv.cuMemAddressFree(p, 2 << 20));
	OK(drv.cuCtxDestroy_v2(context));
}

static void vmm_shared(void)
{
	pid_t a, b;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, channel) < 0)
		_exit(1);
	tap_note("virtual memory of two processes");
	a = part_start(vmm_exporter, NULL);
	b = part_start(vmm_importer, NULL);
	both_end_well(a, b);
	close(channel[0]);
	close(channel[1]);
}

static void hold_memory(void *unused)
{
	begin_context();
	(void)unused;
	device_memory((size_t)1 << 30);
	put("", 1);
	pause();
}

static void watch(void *holder)
{
	size_t before, after = 0, total;
	pid_t pid = *(pid_t *)holder;

	begin_context();
	NEED(drv.cuMemGetInfo_v2(&before, &total));
	kill(pid, SIGKILL);
	/* The engine notices the death by itself; only the test's time limit bounds this wait. */
	do {
		NEED(drv.cuMemGetInfo_v2(&after, &total));
	} while (after < before + ((size_t)1 << 30) && usleep(1000) == 0);
	tap_ok(after >= before + ((size_t)1 << 30), "a killed process gives its memory back");
}

static void killed(void)
{
	pid_t holder;
	char byte;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, channel) < 0)
		_exit(1);
	tap_note("a process is killed");
	holder = part_start(hold_memory, NULL);
	get(channel[0], &byte, 1);
	tap_ok(part_wait(part_start(watch, &holder)), "the watching process exits with 0");
	waitpid(holder, NULL, 0);
	close(channel[0]);
	close(channel[1]);
}

/* ---- time slices ---- */

enum { KERNELS = 400 };

static _Atomic unsigned *gate;

static void busy(void *unused)
{
	CUcontext context = begin_context();
	CUfunction spin = kernel_get(load_kernels(), "spin_ns");
	CUstream stream = new_stream();
	unsigned long long ns = 1000000;
	void *params[] = {&ns};

	(void)unused;
	/*
	 * Both processes submit all work before either completes, so that only the device decides.
	 */
	atomic_fetch_add(gate, 1);
	while (atomic_load(gate) < 2)
		usleep(100);
	for (int i = 0; i < KERNELS; i++)
		launch(spin, 200, stream, params);
	NEED(drv.cuStreamSynchronize(stream));
	NEED(drv.cuCtxDestroy_v2(context));
}

static void slices(void)
{
	uint64_t first[2] = {UINT64_MAX, UINT64_MAX}, last[2] = {0}, ran[2] = {0}, from, to;
	struct simgpu_trace *trace = NULL;
	struct simgpu_trace_record r;
	pid_t pids[2];

	tap_note("two processes share a device");
	gate = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < 2; i++)
		pids[i] = part_start(busy, NULL);
	both_end_well(pids[0], pids[1]);
	if (!tap_ok(simgpu_trace_open(NULL, &trace, NULL) == 0, "the trace opens"))
		return;
	for (int pass = 0; pass < 2; pass++) {
		from = first[0] > first[1] ? first[0] : first[1];
		to = last[0] < last[1] ? last[0] : last[1];
		for (uint64_t n = simgpu_trace_lost(trace); simgpu_trace_get(trace, n, &r) == 0;
			n++) {
			int who = (pid_t)r.pid == pids[0] ? 0 : (pid_t)r.pid == pids[1] ? 1 : -1;

			if (who < 0 || r.kind != SIMGPU_TRACE_KERNEL)
				continue;
			if (pass == 0) {
				first[who] = r.start_ns < first[who] ? r.start_ns : first[who];
				last[who] = r.end_ns > last[who] ? r.end_ns : last[who];
			} else if (r.start_ns >= from && r.end_ns <= to) {
				ran[who] += r.end_ns - r.start_ns;
			}
		}
	}
	simgpu_trace_close(trace);
	tap_note("%.1f ms and %.1f ms", (double)ran[0] / 1e6, (double)ran[1] / 1e6);
	tap_ok(ran[0] + ran[1] > 0 && ran[0] * 100 / (ran[0] + ran[1]) >= 45 &&
			ran[0] * 100 / (ran[0] + ran[1]) <= 55,
		"each process gets about half of the kernel time");
}

/* ---- functions that a remote device does not have ---- */

static const struct {
	const char *name, *travel;
} travels[] = {
#define REMOTE(name, travel, layout) {#name, #travel},
#include "cuda/remote.def"
#undef REMOTE
};

/* True if cuda/remote.def refuses this function. docs/remote-api.md comes from the same list. */
static bool is_listed(const char *name)
{
	for (size_t i = 0; i < sizeof(travels) / sizeof(travels[0]); i++)
		if (!strcmp(travels[i].name, name))
			return !strcmp(travels[i].travel, "REFUSED");
	return false;
}

typedef CUresult any_fn(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t,
	uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);

/* Calls every function that remote.def refuses; each must be refused, whatever its arguments. */
static void all_refused(void)
{
	CUcontext context = begin_context();
	unsigned n = 0, refused = 0;

#define CU(abi, since, variant, action, stream, params, args, ...) \
	if (is_listed(#abi)) { \
		any_fn *const fn = (any_fn *)(uintptr_t)drv.abi; \
		n++; \
		refused += fn && \
			fn(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0) == CUDA_ERROR_NOT_SUPPORTED; \
	}
#include "cuda/cuda.def"
#undef CU
	tap_ok(n > 100 && refused == n, "%u of %u functions that remote.def refuses are refused",
		refused, n);
	OK(drv.cuCtxDestroy_v2(context));
}

/* Checks that a part is left out only for functions that remote.def refuses. */
static void left_out(const char *part, const char *needs)
{
	struct str rest = str_from(needs), word;
	char name[64];

	while (str_word(&rest, &word))
		if (str_copy(name, sizeof(name), word) == 0)
			tap_ok(is_listed(name), "%s: left out, because remote.def refuses %s", part,
				name);
}

static const struct {
	const char *name;
	void (*part)(void);
	const char *needs; /* functions that a remote device does not have */
} parts[] = {
	{"kernels compute", compute},
	{"copies and arrays", copies},
	{"large copies", large_copies},
	{"capture", capture},
	{"graphs", built_graph},
	{"pools", pools},
	{"pools with pending frees", pools_with_pending_frees},
	{"managed memory", managed, "cuMemAllocManaged cuMemPrefetchAsync cuMemAdvise"},
	{"order of work in a stream", ordered},
	{"the host releases the device", host_releases, "cuMemHostGetDevicePointer_v2"},
	{"a kernel releases another one", kernel_releases},
	{"one launch at a time", launched_once_at_a_time},
	{"many streams", many_streams},
	{"threads", threads},
	{"default streams of threads", per_thread},
	{"libraries", libraries},
	{"virtual memory", vmm},
};

/* Parts with several processes, which this process starts. */
static const struct {
	const char *name;
	void (*part)(void);
	const char *needs;
} together[] = {
	{"memory and events between processes", ipc,
		"cuIpcGetMemHandle cuIpcOpenMemHandle_v2 cuIpcGetEventHandle cuIpcOpenEventHandle"},
	{"virtual memory of two processes", vmm_shared,
		"cuMemExportToShareableHandle cuMemImportFromShareableHandle"},
	{"a killed process", killed},
};

int main(void)
{
	tap_begin();
	machine_begin("1xH200-8Gi", "context_create_us=0");
	if (!driver_open())
		return 1;
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (is_remote() && parts[i].needs)
			left_out(parts[i].name, parts[i].needs);
		else
			part_run(parts[i].name, parts[i].part);
	for (size_t i = 0; i < sizeof(together) / sizeof(together[0]); i++)
		if (is_remote() && together[i].needs)
			left_out(together[i].name, together[i].needs);
		else
			together[i].part();
	if (is_remote()) {
		left_out("a graph as a file", "cuGraphDebugDotPrint");
		part_run("refused functions", all_refused);
	} else {
		/*
		 * The trace has the pids of local processes. With a remote device these are the
		 * workers, so the test cannot find its own processes.
		 */
		slices();
	}
	machine_end();
	tap_end();
	return tap_failures() != 0;
}
