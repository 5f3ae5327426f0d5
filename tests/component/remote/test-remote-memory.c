/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Differences between a program's memory and the device's machine: page-locked sources that earlier
 * work still writes, captured copies, addresses already in use, late errors. All checks hold on a
 * local driver as well.
 */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../simgpu/driver.h"
#include "remote/session.h"
#include "../../patience.h"

enum { N = 3 << 20, IMAGE = 1 << 20 }; /* several pieces */

/*
 * True: locked() registers ordinary memory. Memory from cuMemHostAlloc travels in another way.
 */
static bool is_registered;

static uint32_t *locked(size_t bytes)
{
	void *p;

	if (!is_registered) {
		NEED(drv.cuMemHostAlloc(&p, bytes, 0));
		return p;
	}
	p = aligned_alloc(4096, bytes);
	NEED(drv.cuMemHostRegister_v2(p, bytes, 0));
	return p;
}

static bool all_are(const uint32_t *p, uint32_t value)
{
	for (size_t i = 0; i < N / 4; i++)
		if (p[i] != value)
			return false;
	return true;
}

static bool device_is(CUdeviceptr p, uint32_t value)
{
	uint32_t *host = malloc(N);
	bool is;

	NEED(drv.cuMemcpyDtoH_v2(host, p, N));
	is = all_are(host, value);
	free(host);
	return is;
}

static void there_and_back(void)
{
	CUcontext context = begin_context();
	CUdeviceptr a = device_memory(N), b = device_memory(N);
	uint32_t *host = locked(N);
	CUstream stream = new_stream();

	memset(host, 0, N);
	NEED(drv.cuMemsetD32Async(a, 7, N / 4, stream));
	NEED(drv.cuMemcpyDtoHAsync_v2(host, a, N, stream));
	NEED(drv.cuMemcpyHtoDAsync_v2(b, host, N, stream));
	NEED(drv.cuStreamSynchronize(stream));
	tap_ok(all_are(host, 7) && device_is(b, 7),
		"a copy from the host sends data that an earlier copy has brought");
	OK(drv.cuCtxDestroy_v2(context));
}

static void fill(void *p)
{
	for (size_t i = 0; i < N / 4; i++)
		((uint32_t *)p)[i] = 11;
}

static void filled_by_host(void)
{
	CUcontext context = begin_context();
	CUdeviceptr a = device_memory(N);
	uint32_t *host = locked(N);
	CUstream stream = new_stream(), other = new_stream();
	CUevent event;

	NEED(drv.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	memset(host, 0, N);
	NEED(drv.cuLaunchHostFunc(stream, fill, host));
	NEED(drv.cuMemcpyHtoDAsync_v2(a, host, N, stream));
	NEED(drv.cuStreamSynchronize(stream));
	tap_ok(device_is(a, 11), "a copy sends data that an earlier host function has written");
	memset(host, 0, N);
	NEED(drv.cuLaunchHostFunc(stream, fill, host));
	NEED(drv.cuEventRecord(event, stream));
	NEED(drv.cuStreamWaitEvent(other, event, 0));
	NEED(drv.cuMemsetD32Async(a, 0, N / 4, other));
	NEED(drv.cuMemcpyHtoDAsync_v2(a, host, N, other));
	NEED(drv.cuStreamSynchronize(other));
	tap_ok(device_is(a, 11), "... also if the host function is in another stream");
	OK(drv.cuCtxDestroy_v2(context));
}

static _Atomic bool is_released, has_given_up;

static void hold(void *unused)
{
	for (int i = patience_ms(60000); i > 0 && !is_released; i--)
		usleep(1000);
	has_given_up = !is_released;
}

/*
 * A host function in a non-blocking stream holds up no other stream, and no copy without a stream.
 */
static void held_by_host(void)
{
	CUcontext context = begin_context();
	CUdeviceptr a = device_memory(N);
	CUstream held = new_stream(), other = new_stream();
	CUevent event;

	NEED(drv.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	NEED(drv.cuLaunchHostFunc(held, hold, NULL));
	NEED(drv.cuMemsetD32Async(a, 9, N / 4, other));
	NEED(drv.cuEventRecord(event, other));
	NEED(drv.cuStreamSynchronize(other));
	NEED(drv.cuEventSynchronize(event));
	tap_ok(device_is(a, 9), "other streams complete work");
	EXPECT(CUDA_ERROR_NOT_READY, drv.cuStreamQuery(held));
	tap_ok(!has_given_up, "... while a host function runs in one stream");
	is_released = true;
	NEED(drv.cuCtxSynchronize());
	OK(drv.cuStreamQuery(held));
	OK(drv.cuCtxDestroy_v2(context));
}

static void captured(void)
{
	CUcontext context = begin_context();
	CUdeviceptr a = device_memory(N);
	uint32_t *from = locked(N), *to = locked(N);
	CUstream stream = new_stream();
	CUgraphExec exec;
	CUgraph graph;

	NEED(drv.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	NEED(drv.cuMemcpyHtoDAsync_v2(a, from, N, stream));
	NEED(drv.cuMemcpyDtoHAsync_v2(to, a, N, stream));
	NEED(drv.cuStreamEndCapture(stream, &graph));
	NEED(drv.cuGraphInstantiateWithFlags(&exec, graph, 0));
	for (uint32_t value = 1; value <= 3; value++) {
		for (size_t i = 0; i < N / 4; i++)
			from[i] = value;
		NEED(drv.cuGraphLaunch(exec, stream));
		NEED(drv.cuStreamSynchronize(stream));
		tap_ok(all_are(to, value),
			"each launch of a captured copy reads and writes the host's memory");
	}
	OK(drv.cuGraphExecDestroy(exec));
	OK(drv.cuCtxDestroy_v2(context));
}

static void wait_a_little(void *unused)
{
	usleep(30 * 1000);
}

static void set_all(uint32_t *p, uint32_t value)
{
	for (size_t i = 0; i < N / 4; i++)
		p[i] = value;
}

/* When a copy of pageable memory returns, the caller may reuse the source, and has the result. */
static bool is_as_ever(CUdeviceptr a, CUstream stream)
{
	uint32_t *from = malloc(N), *to = malloc(N);
	bool is;

	NEED(drv.cuLaunchHostFunc(stream, wait_a_little, NULL));
	set_all(from, 5);
	NEED(drv.cuMemcpyHtoDAsync_v2(a, from, N, stream));
	set_all(from, 6);
	NEED(drv.cuMemcpyDtoHAsync_v2(to, a, N, stream));
	is = all_are(to, 5);
	NEED(drv.cuStreamSynchronize(stream));
	free(from);
	free(to);
	return is;
}

struct copy_out {
	CUcontext context;
	CUdeviceptr from;
	CUstream stream;
	uint32_t word;
	CUresult result;
};

static void *copy_out(void *argument)
{
	struct copy_out *c = argument;

	NEED(drv.cuCtxSetCurrent(c->context));
	c->result = drv.cuMemcpyDtoHAsync_v2(&c->word, c->from, 4, c->stream);
	return NULL;
}

/* A copy by another thread does not become part of the capture. */
static void captured_beside_a_copy(void)
{
	CUcontext context = begin_context();
	struct copy_out c = {context, device_memory(N), new_stream(), 0, CUDA_ERROR_UNKNOWN};
	CUstream stream = new_stream();
	pthread_t thread;
	CUgraph graph;

	NEED(drv.cuMemsetD32_v2(c.from, 7, N / 4));
	NEED(drv.cuCtxSynchronize());
	NEED(drv.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	NEED(drv.cuMemsetD32Async(c.from + 4, 8, 1, stream));
	pthread_create(&thread, NULL, copy_out, &c);
	pthread_join(thread, NULL);
	OK(drv.cuStreamEndCapture(stream, &graph));
	OK(c.result);
	OK(drv.cuStreamSynchronize(c.stream));
	tap_ok(c.word == 7, "a copy succeeds during another thread's capture");
	OK(drv.cuCtxDestroy_v2(context));
}

/*
 * A stream still waits, even if a graph in another stream records again the event that was recorded
 * behind the wait.
 */
static void recorded_by_a_graph(void)
{
	CUcontext context = begin_context();
	CUdeviceptr flag = device_memory(4096), a = device_memory(N);
	CUstream stream = new_stream(), other = new_stream();
	uint32_t *host = locked(N);
	CUgraphNode node;
	CUgraphExec exec;
	CUevent event;
	CUgraph graph;

	NEED(drv.cuMemsetD32_v2(flag, 0, 1));
	NEED(drv.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	NEED(drv.cuGraphCreate(&graph, 0));
	NEED(drv.cuGraphAddEventRecordNode(&node, graph, NULL, 0, event));
	NEED(drv.cuGraphInstantiateWithFlags(&exec, graph, 0));
	memset(host, 0, N);
	NEED(drv.cuStreamWaitValue32_v2(stream, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
	NEED(drv.cuEventRecord(event, stream));
	NEED(drv.cuGraphLaunch(exec, other));
	NEED(drv.cuEventSynchronize(event));
	NEED(drv.cuMemcpyHtoDAsync_v2(a, host, N, stream));
	fill(host);
	NEED(drv.cuMemsetD32Async(flag, 1, 1, other));
	NEED(drv.cuStreamSynchronize(stream));
	tap_ok(device_is(a, 11), "a copy's source is read when the stream reaches the copy");
	OK(drv.cuCtxDestroy_v2(context));
}

static void beside_a_capture(void)
{
	CUcontext context = begin_context();
	CUdeviceptr a = device_memory(N);
	CUstream stream = new_stream(), other = new_stream();
	uint32_t *host = locked(N);
	CUgraph graph;

	NEED(drv.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	tap_ok(is_as_ever(a, other), "a stream continues during another stream's capture");
	memset(host, 0, N);
	NEED(drv.cuLaunchHostFunc(other, wait_a_little, NULL));
	NEED(drv.cuLaunchHostFunc(other, fill, host));
	NEED(drv.cuStreamEndCapture(stream, &graph));
	NEED(drv.cuMemcpyHtoDAsync_v2(a, host, N, other));
	NEED(drv.cuStreamSynchronize(other));
	tap_ok(device_is(a, 11), "... and keeps the order of its work");
	NEED(drv.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, drv.cuStreamSynchronize(stream));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, drv.cuStreamEndCapture(stream, &graph));
	tap_ok(is_as_ever(a, other), "... and after a failed capture");
	NEED(drv.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	NEED(drv.cuStreamDestroy_v2(stream));
	tap_ok(is_as_ever(a, other), "... and after the capturing stream is destroyed");
	OK(drv.cuCtxDestroy_v2(context));
}

#define AS_ADDRESS(p) ((CUdeviceptr)(uintptr_t)(p))

/* Clears `host`; the stream copies `from` to it a little later. */
static void bring(uint32_t *host, CUdeviceptr from, CUstream stream)
{
	set_all(host, 0);
	NEED(drv.cuLaunchHostFunc(stream, wait_a_little, NULL));
	NEED(drv.cuMemcpyDtoHAsync_v2(host, from, N, stream));
}

static void without_a_stream(void)
{
	CUcontext context = begin_context();
	CUdeviceptr a = device_memory(N), b = device_memory(N);
	uint32_t *host = locked(N), *other = locked(N), *own = malloc(N);
	CUstream stream;

	NEED(drv.cuStreamCreate(&stream, 0));
	NEED(drv.cuMemsetD32_v2(a, 7, N / 4));
	bring(host, a, stream);
	NEED(drv.cuMemcpyHtoD_v2(b, host, N));
	tap_ok(device_is(b, 7), "a copy without a stream waits for all blocking streams");
	NEED(drv.cuMemsetD32_v2(b, 0, N / 4));
	bring(host, a, stream);
	NEED(drv.cuMemcpy(b, AS_ADDRESS(host), N));
	tap_ok(device_is(b, 7), "... also by cuMemcpy");
	bring(host, a, stream);
	NEED(drv.cuMemcpy(AS_ADDRESS(other), AS_ADDRESS(host), N));
	tap_ok(all_are(other, 7), "... also from host to host");
	set_all(own, 0);
	NEED(drv.cuLaunchHostFunc(stream, wait_a_little, NULL));
	NEED(drv.cuLaunchHostFunc(stream, fill, own));
	NEED(drv.cuMemcpyHtoD_v2(b, own, N));
	tap_ok(device_is(b, 11), "... also from memory that a host function fills");
	free(own);
	OK(drv.cuCtxDestroy_v2(context));
}

static void lines_and_nothing(CUdeviceptr device)
{
	uint8_t *line = (uint8_t *)locked(4096), back[20] = {0};
	CUDA_MEMCPY3D c = {.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = line,
		.srcPitch = 8,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = device,
		.dstPitch = 64,
		.WidthInBytes = 20,
		.Height = 1,
		.Depth = 1};

	for (uint8_t i = 0; i < 20; i++)
		line[i] = i;
	NEED(drv.cuMemcpy3D_v2(&c));
	NEED(drv.cuMemcpyDtoH_v2(back, device, sizeof(back)));
	tap_ok(memcmp(back, line, sizeof(back)) == 0, "the pitch of a single row has no effect");
	c.srcLOD = 1;
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemcpy3D_v2(&c));
	c.srcLOD = 0;
	c.dstMemoryType = CU_MEMORYTYPE_ARRAY;
	EXPECT(CUDA_ERROR_INVALID_HANDLE, drv.cuMemcpy3D_v2(&c));
	c.Height = 0;
	c.srcMemoryType = c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	c.dstDevice = 0;
	OK(drv.cuMemcpy3D_v2(&c));
	c.dstMemoryType = (CUmemorytype)8;
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemcpy3D_v2(&c));
	OK(drv.cuMemFreeHost(NULL));
}

/* The products and sums of these sizes overflow 2^64. */
static void sizes_that_are_none(void *host, CUdeviceptr device)
{
	const size_t half = (size_t)1 << 63;
	const CUDA_MEMCPY3D box = {.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = host,
		.srcPitch = 64,
		.srcHeight = 4,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = device,
		.dstPitch = 64,
		.dstHeight = 4,
		.WidthInBytes = 16,
		.Height = 2,
		.Depth = 2};
	CUDA_MEMCPY3D c = box;

	OK(drv.cuMemcpy3D_v2(&c));
	c.srcPitch = c.dstPitch = c.WidthInBytes = half;
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemcpy3D_v2(&c));
	c = box;
	c.Depth = half;
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemcpy3D_v2(&c));
	c = box;
	c.srcXInBytes = -(size_t)8;
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemcpy3D_v2(&c));
	c = box;
	c.dstY = -(size_t)1;
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemcpy3D_v2(&c));
	c = box;
	c.dstPitch = half;
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemcpy3D_v2(&c));
	c = box;
	c.srcHeight = half;
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemcpy3D_v2(&c));
}

/* Copies from and to freed memory fail. Fields that a caller leaves at 0 get their defaults. */
static void what_cannot_be(void)
{
	CUcontext context = begin_context();
	CUdeviceptr a = device_memory(N), gone = device_memory(N);
	uint32_t *host = malloc(N);
	uint8_t back[256];
	size_t index = 7, first = 0, bytes = 100, room = 10;
	CUdeviceptr nowhere = 0, somewhere = AS_ADDRESS(host);
	CUmemcpyAttributes attributes = {0};
	CUstream stream = new_stream();
	CUgraphNode nodes[10];
	CUgraph graph;
	CUDA_MEMCPY2D c = {.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = host,
		.srcXInBytes = 16,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = a,
		.dstPitch = 64,
		.WidthInBytes = 16,
		.Height = 4};

	for (size_t i = 0; i < 256; i++)
		((uint8_t *)host)[i] = (uint8_t)i;
	NEED(drv.cuMemFree_v2(gone));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemcpy(gone, AS_ADDRESS(host), 100));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemcpy(AS_ADDRESS(host), gone, 100));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemcpy(0, AS_ADDRESS(host), 100));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemcpyHtoD_v2(a, (void *)(uintptr_t)gone, 100));
	NEED(drv.cuMemcpy2D_v2(&c));
	NEED(drv.cuMemcpyDtoH_v2(back, a, sizeof(back)));
	tap_ok(back[0] == 16 && back[64] == 48 && back[128] == 80,
		"rows with pitch 0 follow each other without a gap");
	c.srcPitch = 5;
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemcpy2D_v2(&c));
	c.srcPitch = 31;
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemcpy2D_v2(&c));
	lines_and_nothing(a);
	sizes_that_are_none(host, a);
	EXPECT(CUDA_ERROR_INVALID_VALUE,
		drv.cuMemcpyBatchAsync(
			&nowhere, &somewhere, &bytes, 1, &attributes, &first, 1, &index, stream));
	tap_ok(index == 0, "a batch reports the index of its first failed copy");
	EXPECT(CUDA_ERROR_INVALID_VALUE,
		drv.cuMemcpyBatchAsync(
			&a, &somewhere, &bytes, 1, &attributes, &first, 1, &index, NULL));
	NEED(drv.cuGraphCreate(&graph, 0));
	NEED(drv.cuGraphAddEmptyNode(&nodes[0], graph, NULL, 0));
	memset(nodes, 0x77, sizeof(nodes));
	NEED(drv.cuGraphGetNodes(graph, nodes, &room));
	tap_ok(room == 1 && nodes[0] && !nodes[1] && !nodes[9],
		"cuGraphGetNodes clears the unused places of the array");
	free(host);
	OK(drv.cuCtxDestroy_v2(context));
}

static void host_to_host(void)
{
	CUcontext context = begin_context();
	CUdeviceptr a = device_memory(N);
	uint32_t *host = locked(N), *other = locked(N);
	CUstream stream = new_stream();
	CUgraphExec exec;
	CUgraph graph;

	NEED(drv.cuMemsetD32_v2(a, 7, N / 4));
	bring(host, a, stream);
	NEED(drv.cuMemcpyAsync(AS_ADDRESS(other), AS_ADDRESS(host), N, stream));
	NEED(drv.cuStreamSynchronize(stream));
	tap_ok(all_are(other, 7), "a copy from host to host keeps its order in the stream");
	NEED(drv.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	NEED(drv.cuMemcpyAsync(AS_ADDRESS(other), AS_ADDRESS(host), N, stream));
	NEED(drv.cuStreamEndCapture(stream, &graph));
	NEED(drv.cuGraphInstantiateWithFlags(&exec, graph, 0));
	for (uint32_t value = 1; value <= 2; value++) {
		set_all(host, value);
		tap_ok(!all_are(other, value),
			"a captured copy from host to host does not run before a launch");
		NEED(drv.cuGraphLaunch(exec, stream));
		NEED(drv.cuStreamSynchronize(stream));
		tap_ok(all_are(other, value), "... and runs at each launch");
	}
	OK(drv.cuGraphExecDestroy(exec));
	OK(drv.cuCtxDestroy_v2(context));
}

struct release {
	CUcontext context;
	CUdeviceptr flag;
	void *host;
	CUresult without_context;
};

static void *release_later(void *argument)
{
	struct release *r = argument;

	r->without_context = is_registered ? drv.cuMemHostUnregister(r->host)
					   : drv.cuMemFreeHost(r->host);
	usleep(100 * 1000);
	NEED(drv.cuCtxSetCurrent(r->context));
	NEED(drv.cuMemsetD32_v2(r->flag, 1, 1));
	return NULL;
}

/* Freeing page-locked memory waits for copies in flight, in any context. */
static void freed_beside_others(void)
{
	CUcontext context = begin_context(), other;
	struct release release = {context, device_memory(4096), locked(N), CUDA_SUCCESS};
	CUdeviceptr a = device_memory(N);
	CUstream stream = new_stream();
	pthread_t thread;

	NEED(drv.cuMemsetD32_v2(a, 7, N / 4));
	NEED(drv.cuMemsetD32_v2(release.flag, 0, 1));
	NEED(drv.cuStreamWaitValue32_v2(stream, release.flag, 1, CU_STREAM_WAIT_VALUE_EQ));
	NEED(drv.cuMemcpyDtoHAsync_v2(release.host, a, N, stream));
	NEED(drv.cuCtxCreate_v2(&other, 0, 0));
	pthread_create(&thread, NULL, release_later, &release);
	if (is_registered) {
		OK(drv.cuMemHostUnregister(release.host));
		tap_ok(all_are(release.host, 7), "cuMemHostUnregister waits for copies in flight");
		free(release.host);
	} else {
		OK(drv.cuMemFreeHost(release.host));
	}
	pthread_join(thread, NULL);
	EXPECT(CUDA_ERROR_INVALID_CONTEXT, release.without_context);
	OK(drv.cuCtxDestroy_v2(other));
	NEED(drv.cuCtxSetCurrent(context));
	OK(drv.cuCtxSynchronize());
	OK(drv.cuCtxDestroy_v2(context));
}

static void registered(void)
{
	is_registered = true;
	part_run("registered: there and back", there_and_back);
	part_run("registered: filled by the host", filled_by_host);
	part_run("registered: captured copies", captured);
	part_run("registered: beside a capture", beside_a_capture);
	part_run("registered: without a stream", without_a_stream);
	part_run("registered: host to host", host_to_host);
	part_run("registered: freed beside another context", freed_beside_others);
}

/* A box of 3 slices of 5 rows of 100 bytes, inside a larger box on each side. */
enum { BOX = 64 << 10, PITCH = 192, ROWS = 7 };

static CUDA_MEMCPY3D box(void *host, CUdeviceptr device, bool is_in)
{
	CUDA_MEMCPY3D c = {.WidthInBytes = 100,
		.Height = 5,
		.Depth = 3,
		.srcXInBytes = 3,
		.srcY = 1,
		.srcZ = 2,
		.srcPitch = PITCH,
		.srcHeight = ROWS,
		.dstXInBytes = 5,
		.dstY = 2,
		.dstZ = 1,
		.dstPitch = PITCH + 64,
		.dstHeight = ROWS + 1};

	c.srcMemoryType = is_in ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
	c.dstMemoryType = is_in ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
	c.srcHost = c.dstHost = host;
	c.srcDevice = c.dstDevice = device;
	return c;
}

/* Copies a box to the device and back, from and to the given memory. */
static void copy_boxes(uint8_t *from, uint8_t *to, CUdeviceptr device, bool is_async)
{
	CUDA_MEMCPY3D in = box(from, device, true), out = box(to, device, false);
	CUstream stream = is_async ? new_stream() : NULL;

	for (size_t i = 0; i < BOX; i++)
		from[i] = (uint8_t)(i * 7 + i / 251);
	memset(to, 0, BOX);
	NEED(drv.cuMemsetD8_v2(device, 9, BOX));
	NEED(is_async ? drv.cuMemcpy3DAsync_v2(&in, stream) : drv.cuMemcpy3D_v2(&in));
	NEED(is_async ? drv.cuMemcpy3DAsync_v2(&out, stream) : drv.cuMemcpy3D_v2(&out));
	NEED(drv.cuStreamSynchronize(stream));
}

static void shapes(void)
{
	CUcontext context = begin_context();
	uint8_t *from = malloc(BOX), *to = malloc(BOX);
	uint8_t *own = (uint8_t *)locked(BOX), *back = (uint8_t *)locked(BOX);
	CUdeviceptr device = device_memory(BOX);

	for (int is_async = 0; is_async < 2; is_async++) {
		copy_boxes(from, to, device, is_async);
		copy_boxes(own, back, device, is_async);
		tap_ok(!memcmp(to, back, BOX) && memchr(to, from[1500], BOX),
			"3D copies of page-locked and pageable memory have equal results");
	}
	NEED(drv.cuMemcpyHtoDAsync_v2(device, own + 1000, 4001, NULL));
	NEED(drv.cuMemcpyDtoHAsync_v2(back + 17, device, 4001, NULL));
	NEED(drv.cuCtxSynchronize());
	tap_ok(!memcmp(back + 17, own + 1000, 4001),
		"copies of a part of page-locked memory are correct");
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemFreeHost(own + 4096));
	OK(drv.cuMemFreeHost(own));
	OK(drv.cuMemFreeHost(back));
	OK(drv.cuCtxDestroy_v2(context));
}

static void many_pieces(void)
{
	enum { PIECES = 4200 };
	CUcontext context = begin_context();
	CUdeviceptr device = device_memory(PIECES * 4);
	static uint32_t *piece[PIECES];
	bool is = true;

	for (uint32_t i = 0; i < PIECES; i++) {
		piece[i] = locked(4096);
		piece[i][0] = i;
		NEED(drv.cuMemcpyHtoDAsync_v2(device + i * 4, piece[i], 4, NULL));
		NEED(drv.cuMemcpyDtoHAsync_v2(piece[i] + 1, device + i * 4, 4, NULL));
	}
	NEED(drv.cuCtxSynchronize());
	for (uint32_t i = 0; i < PIECES; i++)
		is = is && piece[i][1] == i;
	tap_ok(is, "copies use thousands of page-locked allocations");
	for (uint32_t i = 0; i < PIECES; i++)
		is = !drv.cuMemFreeHost(piece[i]) && is;
	tap_ok(is, "... and all of them can be freed");
	/* Later allocations can reuse the ids of freed page-locked memory. */
	piece[0] = locked(N);
	memset(piece[0], 0, N);
	NEED(drv.cuMemFree_v2(device));
	device = device_memory(N);
	NEED(drv.cuMemsetD32Async(device, 3, N / 4, NULL));
	NEED(drv.cuMemcpyDtoHAsync_v2(piece[0], device, N, NULL));
	/* Freeing waits for the copy in flight. */
	OK(drv.cuMemFreeHost(piece[0]));
	OK(drv.cuCtxDestroy_v2(context));
}

/* ---- sources that the call itself sends ---- */

/* Finds the memory that this process shares with its worker. NULL: there is no worker. */
static const struct remote_session *find_session(void)
{
	const struct remote_session *s = NULL;
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];
	unsigned long at;

	while (maps && fgets(line, sizeof(line), maps))
		if (!s && strstr(line, "memfd:divvy-remote (") && sscanf(line, "%lx", &at) == 1)
			s = (const struct remote_session *)at;
	if (maps)
		fclose(maps);
	return s;
}

/*
 * True if the call itself sends the copy's source, so that the worker never asks for it. Each
 * question of the worker costs a round trip.
 */
static bool is_taken_along(CUdeviceptr to, uint32_t *host)
{
	const struct remote_session *s = find_session();
	CUstream stream = new_stream();
	uint64_t before = atomic_load(&s->lane[0].down.tail);

	NEED(drv.cuMemcpyHtoDAsync_v2(to, host, N, stream));
	NEED(drv.cuStreamSynchronize(stream));
	before = atomic_load(&s->lane[0].down.tail) - before;
	NEED(drv.cuStreamDestroy_v2(stream));
	return before == 0;
}

enum end { BY_STREAM, BY_CONTEXT, BY_EVENT, BY_QUERY, BY_EVENT_QUERY, BY_END, ENDS };

static void end_waiting(enum end how, CUstream stream, CUevent event)
{
	switch (how) {
	case BY_STREAM: NEED(drv.cuStreamSynchronize(stream)); break;
	case BY_CONTEXT: NEED(drv.cuCtxSynchronize()); break;
	case BY_EVENT: NEED(drv.cuEventSynchronize(event)); break;
	case BY_QUERY:
		while (drv.cuStreamQuery(stream) == CUDA_ERROR_NOT_READY)
			usleep(100);
		break;
	case BY_EVENT_QUERY:
		while (drv.cuEventQuery(event) == CUDA_ERROR_NOT_READY)
			usleep(100);
		break;
	default: NEED(drv.cuStreamDestroy_v2(stream)); NEED(drv.cuCtxSynchronize());
	}
}

/*
 * While a stream waits for a value, copies send their sources later. Once the wait is over, copies
 * send their sources during the call again.
 */
static void waits_end(void)
{
	static const char *const name[] = {"the stream's synchronisation",
		"the context's synchronisation", "the event's synchronisation",
		"the stream's query", "the event's query", "the stream's destruction"};
	CUcontext context = begin_context();
	CUdeviceptr a = device_memory(N), flag = device_memory(4096);
	CUstream stream = NULL, other = new_stream();
	CUgraphExec exec;
	CUgraphNode node;
	CUgraph graph;
	CUevent event;
	uint32_t *host;

	if (!is_remote())
		return;
	is_registered = true;
	host = locked(N);
	NEED(drv.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	tap_ok(is_taken_along(a, host), "a copy sends its source at the call");
	for (uint32_t i = 0; i < ENDS; i++) {
		stream = new_stream();
		NEED(drv.cuMemsetD32_v2(flag, 0, 1024));
		NEED(drv.cuStreamWaitValue32_v2(stream, flag, 1, CU_STREAM_WAIT_VALUE_GEQ));
		NEED(drv.cuEventRecord(event, stream));
		tap_ok(!is_taken_along(a, host), "... not while a stream waits for a value");
		NEED(drv.cuMemsetD32Async(flag, 1, 1024, other));
		end_waiting((enum end)i, stream, event);
		tap_ok(is_taken_along(a, host), "... again after %s", name[i]);
	}
	NEED(drv.cuStreamWaitEvent(other, event, 0));
	tap_ok(is_taken_along(a, host),
		"a copy sends its source at the call after a wait for a completed event");
	NEED(drv.cuGraphCreate(&graph, 0));
	NEED(drv.cuGraphAddEmptyNode(&node, graph, NULL, 0));
	NEED(drv.cuGraphInstantiateWithFlags(&exec, graph, 0));
	NEED(drv.cuGraphLaunch(exec, other));
	tap_ok(is_taken_along(a, host), "... also after a graph without host functions and copies");
	stream = new_stream();
	NEED(drv.cuMemsetD32_v2(flag, 0, 1024));
	NEED(drv.cuEventRecord(event, stream));
	NEED(drv.cuStreamWaitValue32_v2(stream, flag, 1, CU_STREAM_WAIT_VALUE_GEQ));
	NEED(drv.cuEventSynchronize(event));
	tap_ok(!is_taken_along(a, host),
		"an event's completion does not end a wait that follows the event");
	NEED(drv.cuMemsetD32Async(flag, 1, 1024, other));
	OK(drv.cuCtxDestroy_v2(context));
}

/* Work on the stream, and on all other streams, continues after the refused copy. */
static void late_and_wrong(void)
{
	CUcontext context = begin_context();
	CUdeviceptr a = device_memory(N), small = device_memory(4096), flag = device_memory(4096);
	CUstream stream = new_stream(), other = new_stream();
	CUresult at_call, at_sync;
	uint32_t *host;

	is_registered = true;
	host = locked(N);
	set_all(host, 11);
	NEED(drv.cuMemsetD32_v2(flag, 0, 1024));
	NEED(drv.cuStreamWaitValue32_v2(stream, flag, 1, CU_STREAM_WAIT_VALUE_GEQ));
	at_call = drv.cuMemcpyHtoDAsync_v2(small, host, N, stream);
	NEED(drv.cuMemsetD32Async(flag, 1, 1024, other));
	at_sync = drv.cuStreamSynchronize(stream);
	tap_ok(at_call == CUDA_ERROR_INVALID_VALUE || at_sync == CUDA_ERROR_INVALID_VALUE,
		"a copy beyond its destination is refused, even if its source is read later");
	NEED(drv.cuMemcpyHtoDAsync_v2(a, host, N, stream));
	NEED(drv.cuStreamSynchronize(stream));
	tap_ok(device_is(a, 11), "... and the stream's next copy succeeds");
	OK(drv.cuCtxDestroy_v2(context));
}

/* More copies wait than client and worker can hold; the call that releases them comes last. */
static void many_that_wait(void)
{
	CUcontext context = begin_context();
	CUdeviceptr a = device_memory(N), flag = device_memory(4096);
	CUstream stream = new_stream(), other = new_stream();
	uint32_t *from, *to;

	is_registered = true;
	from = locked(N);
	to = locked(N);
	for (uint32_t i = 0; i < 3; i++) {
		CUstream const held = i == 0 ? stream : i == 1 ? NULL : CU_STREAM_PER_THREAD;

		NEED(drv.cuMemsetD32Async(flag, 0, 1024, other));
		NEED(drv.cuStreamSynchronize(other));
		set_all(from, 0);
		NEED(drv.cuStreamWaitValue32_v2(held, flag, 1, CU_STREAM_WAIT_VALUE_GEQ));
		for (int j = 0; j < 30; j++) {
			NEED(drv.cuMemcpyHtoDAsync_v2(a, from, N, held));
			NEED(drv.cuMemcpyDtoHAsync_v2(to, a, N, held));
		}
		set_all(from, 7 + i);
		NEED(drv.cuMemsetD32Async(flag, 1, 1024, other));
		NEED(drv.cuStreamSynchronize(held));
		tap_ok(all_are(to, 7 + i) && device_is(a, 7 + i),
			"copies wait until a later call releases their stream");
	}
	OK(drv.cuCtxDestroy_v2(context));
}

/* A program that exceeds its file size limit gets a signal. */
static void limited_files(void)
{
	CUcontext context = begin_context();
	CUdeviceptr a = device_memory(N);
	uint32_t *host;

	setrlimit(RLIMIT_FSIZE, &(struct rlimit){4096, 4096});
	host = locked(N);
	set_all(host, 11);
	NEED(drv.cuMemcpyHtoD_v2(a, host, N));
	tap_ok(device_is(a, 11), "page-locked memory may exceed the limit of file sizes");
	OK(drv.cuMemFreeHost(host));
	OK(drv.cuCtxDestroy_v2(context));
}

/* ---- streams with a number: default and per-thread ---- */

static void fill_later(void *p)
{
	wait_a_little(NULL);
	fill(p);
}

static CUgraphExec filler(uint32_t *host)
{
	const CUDA_HOST_NODE_PARAMS params = {fill_later, host};
	CUgraphExec exec;
	CUgraphNode node;
	CUgraph graph;

	NEED(drv.cuGraphCreate(&graph, 0));
	NEED(drv.cuGraphAddHostNode(&node, graph, NULL, 0, &params));
	NEED(drv.cuGraphInstantiateWithFlags(&exec, graph, 0));
	return exec;
}

static void *synchronize(void *context)
{
	NEED(drv.cuCtxSetCurrent(context));
	NEED(drv.cuStreamSynchronize(CU_STREAM_PER_THREAD));
	return NULL;
}

static void numbered_streams(void)
{
	CUcontext context = begin_context(), other;
	CUdeviceptr a = device_memory(N);
	uint32_t *host;
	CUgraphExec exec;
	pthread_t thread;

	is_registered = true;
	host = locked(N);
	exec = filler(host);
	set_all(host, 0);
	NEED(drv.cuGraphLaunch(exec, CU_STREAM_PER_THREAD));
	pthread_create(&thread, NULL, synchronize, context);
	pthread_join(thread, NULL);
	NEED(drv.cuMemcpyHtoDAsync_v2(a, host, N, CU_STREAM_PER_THREAD));
	NEED(drv.cuStreamSynchronize(CU_STREAM_PER_THREAD));
	tap_ok(device_is(a, 11),
		"synchronising another thread's per-thread stream does not end a stream's wait");
	NEED(drv.cuCtxCreate_v2(&other, 0, 0));
	NEED(drv.cuCtxSetCurrent(context));
	for (int i = 0; i < 2; i++) {
		set_all(host, 0);
		NEED(drv.cuGraphLaunch(exec, NULL));
		NEED(drv.cuCtxPushCurrent_v2(other));
		NEED(drv.cuStreamSynchronize(i ? CU_STREAM_LEGACY : NULL));
		NEED(drv.cuCtxPopCurrent_v2(&other));
		NEED(drv.cuMemcpyHtoDAsync_v2(a, host, N, NULL));
		NEED(drv.cuStreamSynchronize(NULL));
		tap_ok(device_is(a, 11),
			"... nor does synchronising another context's default stream");
	}
	OK(drv.cuCtxDestroy_v2(other));
	OK(drv.cuCtxDestroy_v2(context));
}

/* ---- host nodes ---- */

static void add(void *p)
{
	++*(uint64_t *)p;
}

static void node_by_its_general_form(CUgraphExec exec, CUgraphNode node, CUstream stream)
{
	uint64_t one = 0, two = 0;
	CUgraphNodeParams p = {
		.type = CU_GRAPH_NODE_TYPE_HOST, .host = {.fn = add, .userData = &one}};
	CUDA_HOST_NODE_PARAMS now;

	OK(drv.cuGraphExecNodeSetParams(exec, node, &p));
	p.host.userData = &two;
	OK(drv.cuGraphNodeSetParams(node, &p));
	NEED(drv.cuGraphLaunch(exec, stream));
	NEED(drv.cuStreamSynchronize(stream));
	OK(drv.cuGraphHostNodeGetParams(node, &now));
	tap_ok(one == 1 && two == 0 && now.fn == add && now.userData == &two,
		"cuGraphExecNodeSetParams changes the executable graph only");
	p.type = CU_GRAPH_NODE_TYPE_MEMSET;
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuGraphExecNodeSetParams(exec, node, &p));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuGraphExecNodeSetParams(exec, node, NULL));
}

/*
 * Host functions that a graph's node had before take no memory, however often a program replaces
 * the function.
 */
static void host_nodes_again(void)
{
	CUcontext context = begin_context();
	uint64_t counts[3] = {0}, after = 0;
	CUDA_HOST_NODE_PARAMS params = {add, &counts[0]}, now;
	CUstream stream = new_stream();
	CUgraphExec exec;
	CUgraphNode node, empty;
	CUgraph graph;
	bool is = true;

	NEED(drv.cuGraphCreate(&graph, 0));
	NEED(drv.cuGraphAddHostNode(&node, graph, NULL, 0, &params));
	NEED(drv.cuGraphAddEmptyNode(&empty, graph, NULL, 0));
	NEED(drv.cuGraphInstantiateWithFlags(&exec, graph, 0));
	params.userData = &counts[1];
	/*
	 * Replaces the function more often than the table has entries; over a link fewer times,
	 * because each call takes long there.
	 */
	for (int i = 0; i < (getenv("DIVVY_TEST_LINK") ? 4096 : (1 << 20) + 100); i++) {
		NEED(drv.cuGraphExecHostNodeSetParams(exec, node, &params));
		if (i % 16 == 0)
			is = is && drv.cuGraphHostNodeSetParams(node, &params) == CUDA_SUCCESS;
	}
	NEED(drv.cuGraphHostNodeGetParams(node, &now));
	tap_ok(is && now.userData == &counts[1],
		"a program may replace a node's function many times");
	NEED(drv.cuLaunchHostFunc(stream, add, &after));
	NEED(drv.cuGraphLaunch(exec, stream));
	NEED(drv.cuStreamSynchronize(stream));
	tap_ok(after == 1 && !counts[0] && counts[1] == 1,
		"... and a launch calls the last function");
	/* Each launch calls the function that the node had at the launch. */
	for (uint64_t i = 0; i < 1000; i++) {
		params.userData = &counts[i % 3];
		NEED(drv.cuGraphExecHostNodeSetParams(exec, node, &params));
		NEED(drv.cuGraphLaunch(exec, stream));
		if (i % 7 == 0)
			NEED(drv.cuStreamSynchronize(stream));
	}
	NEED(drv.cuStreamSynchronize(stream));
	tap_ok(counts[0] == 334 && counts[1] == 334 && counts[2] == 333,
		"... and each launch calls the function of that time");
	OK(drv.cuGraphExecDestroy(exec));
	NEED(drv.cuGraphInstantiateWithFlags(&exec, graph, 0));
	NEED(drv.cuGraphLaunch(exec, stream));
	NEED(drv.cuStreamSynchronize(stream));
	tap_ok(counts[1] == 335, "another executable graph calls the function of the graph's node");
	node_by_its_general_form(exec, node, stream);
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuGraphHostNodeSetParams(empty, &params));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuGraphHostNodeGetParams(empty, &now));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuGraphExecHostNodeSetParams(exec, empty, &params));
	OK(drv.cuCtxDestroy_v2(context));
}

static CUgraph graph_of(CUhostFn fn, void *data, CUgraphNode *ret_node)
{
	const CUDA_HOST_NODE_PARAMS params = {fn, data};
	CUgraph graph;

	NEED(drv.cuGraphCreate(&graph, 0));
	NEED(drv.cuGraphAddHostNode(ret_node, graph, NULL, 0, &params));
	return graph;
}

/* A launch keeps its functions until it has run, even if its graph is changed or destroyed. */
static void host_nodes_under_way(void)
{
	CUcontext context = begin_context();
	uint64_t first = 0, updated = 0, own = 0, others = 0;
	const CUDA_HOST_NODE_PARAMS params = {add, &own};
	CUstream stream = new_stream();

	for (int i = 0; i < 30; i++) {
		CUgraphExecUpdateResultInfo info = {0};
		CUgraphNode node, other;
		CUgraph graph = graph_of(add, &first, &node),
			next = graph_of(add, &updated, &other);
		CUgraphExec exec;

		NEED(drv.cuGraphInstantiateWithFlags(&exec, graph, 0));
		NEED(drv.cuLaunchHostFunc(stream, wait_a_little, NULL));
		if (i % 3 == 1)
			NEED(drv.cuGraphExecUpdate_v2(exec, next, &info));
		NEED(drv.cuGraphExecHostNodeSetParams(exec, node, &params));
		NEED(drv.cuGraphLaunch(exec, stream));
		if (i % 3 == 2) {
			NEED(drv.cuGraphExecUpdate_v2(exec, next, &info));
			NEED(drv.cuGraphLaunch(exec, stream));
		}
		if (i % 2) {
			NEED(drv.cuGraphDestroy(graph));
			NEED(drv.cuGraphExecDestroy(exec));
			NEED(drv.cuGraphDestroy(next));
		} else {
			NEED(drv.cuGraphExecDestroy(exec));
			NEED(drv.cuGraphDestroy(next));
			NEED(drv.cuGraphDestroy(graph));
		}
		for (int j = 0; j < 5; j++)
			NEED(drv.cuGraphDestroy(graph_of(add, &others, &node)));
	}
	NEED(drv.cuStreamSynchronize(stream));
	tap_ok(first == 0 && updated == 10 && own == 30 && others == 0,
		"each launch calls the functions that it began with, once (%d, %d, %d, %d)",
		(int)first, (int)updated, (int)own, (int)others);
	OK(drv.cuCtxDestroy_v2(context));
}

/* ---- children ---- */

static CUevent polled;
static CUstream polled_stream;
static _Atomic bool is_enough;

static void *poll_both(void *context)
{
	NEED(drv.cuCtxSetCurrent(context));
	while (!is_enough) {
		drv.cuEventQuery(polled);
		drv.cuStreamQuery(polled_stream);
	}
	return NULL;
}

/* Queries in a child return an error at once, even if other threads were in a query at the fork. */
static void polled_by_others(void)
{
	CUcontext context = begin_context();
	pthread_t thread[4];
	int status = 0;

	polled_stream = new_stream();
	NEED(drv.cuEventCreate(&polled, CU_EVENT_DISABLE_TIMING));
	NEED(drv.cuEventRecord(polled, polled_stream));
	for (int i = 0; i < 4; i++)
		pthread_create(&thread[i], NULL, poll_both, context);
	for (int i = 0; i < 200 && !status; i++) {
		const pid_t child = fork();

		if (!child) {
			alarm(patience_s(PATIENCE_S));
			_exit(drv.cuEventQuery(polled) == CUDA_SUCCESS ||
				drv.cuStreamQuery(polled_stream) == CUDA_SUCCESS);
		}
		while (waitpid(child, &status, 0) < 0)
			;
	}
	is_enough = true;
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	tap_ok(!status, "calls in a forked child fail while the parent's threads make queries");
	OK(drv.cuStreamQuery(polled_stream));
	OK(drv.cuCtxDestroy_v2(context));
}

/* ---- queries ---- */

/* Pid of this process's worker; 0 over a link, and without a worker. */
static pid_t find_worker(void)
{
	DIR *all = opendir("/proc");
	pid_t found = 0;

	for (struct dirent *e; all && (e = readdir(all));) {
		char path[64], text[256] = "";
		int pid = (int)strtol(e->d_name, NULL, 10), parent = 0, grandparent = 0;
		FILE *f;

		snprintf(path, sizeof(path), "/proc/%d/stat", pid);
		f = pid > 0 ? fopen(path, "re") : NULL;
		if (!f)
			continue;
		if (!fgets(text, sizeof(text), f) || !strstr(text, "(divvy-remote-wo") ||
			sscanf(strrchr(text, ')'), ") %*c %d", &parent) != 1)
			parent = 0;
		fclose(f);
		snprintf(path, sizeof(path), "/proc/%d/stat", parent);
		f = parent > 0 ? fopen(path, "re") : NULL;
		if (f && fgets(text, sizeof(text), f))
			sscanf(strrchr(text, ')'), ") %*c %d", &grandparent);
		if (f)
			fclose(f);
		/* The newest worker: workers of earlier parts may still be exiting. */
		if (grandparent == getppid() && pid > found)
			found = pid;
	}
	if (all)
		closedir(all);
	return found;
}

static CUresult poll_event(CUevent event)
{
	CUresult r;

	while ((r = drv.cuEventQuery(event)) == CUDA_ERROR_NOT_READY)
		usleep(100);
	return r;
}

static void queries(void)
{
	CUcontext context = begin_context();
	CUdeviceptr flag = device_memory(4096);
	CUstream stream = new_stream(), other = new_stream();
	CUevent event, later;
	const pid_t worker = find_worker();
	bool is = true;

	NEED(drv.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	NEED(drv.cuEventCreate(&later, CU_EVENT_DISABLE_TIMING));
	NEED(drv.cuMemsetD32_v2(flag, 0, 1024));
	OK(drv.cuStreamQuery(stream));
	NEED(drv.cuStreamWaitValue32_v2(stream, flag, 1, CU_STREAM_WAIT_VALUE_GEQ));
	NEED(drv.cuEventRecord(event, stream));
	EXPECT(CUDA_ERROR_NOT_READY, drv.cuEventQuery(event));
	EXPECT(CUDA_ERROR_NOT_READY, drv.cuStreamQuery(stream));
	if (worker) {
		/* The worker is stopped: the answer must come without a request to it. */
		kill(worker, SIGSTOP);
		for (int i = 0; i < 100; i++)
			is = is && drv.cuEventQuery(event) == CUDA_ERROR_NOT_READY &&
				drv.cuStreamQuery(stream) == CUDA_ERROR_NOT_READY;
		kill(worker, SIGCONT);
		tap_ok(is, "repeated queries of unfinished work need no answer of the worker");
	}
	NEED(drv.cuMemsetD32Async(flag, 1, 1, other));
	OK(poll_event(event));
	OK(drv.cuEventQuery(event));
	while (drv.cuStreamQuery(stream) == CUDA_ERROR_NOT_READY)
		usleep(100);
	OK(drv.cuStreamQuery(stream));
	NEED(drv.cuMemsetD32Async(flag, 0, 1, other));
	NEED(drv.cuStreamSynchronize(other));
	NEED(drv.cuStreamWaitValue32_v2(stream, flag, 1, CU_STREAM_WAIT_VALUE_GEQ));
	EXPECT(CUDA_ERROR_NOT_READY, drv.cuStreamQuery(stream));
	OK(drv.cuEventQuery(event));
	NEED(drv.cuEventRecord(event, stream));
	NEED(drv.cuEventRecord(later, stream));
	EXPECT(CUDA_ERROR_NOT_READY, drv.cuEventQuery(event));
	NEED(drv.cuMemsetD32Async(flag, 1, 1, other));
	OK(poll_event(later));
	OK(drv.cuEventQuery(event));
	for (int i = 0; i < 100; i++) {
		NEED(drv.cuMemsetD32Async(flag, 1, 1024, stream));
		NEED(drv.cuEventRecord(event, stream));
		drv.cuEventQuery(event);
		NEED(drv.cuStreamSynchronize(stream));
		is = is && drv.cuEventQuery(event) == CUDA_SUCCESS &&
			drv.cuStreamQuery(stream) == CUDA_SUCCESS;
	}
	tap_ok(is, "queries after a synchronisation report earlier work complete");
	NEED(drv.cuStreamWaitValue32_v2(stream, flag, 2, CU_STREAM_WAIT_VALUE_GEQ));
	NEED(drv.cuEventRecord(event, stream));
	EXPECT(CUDA_ERROR_NOT_READY, drv.cuEventQuery(event));
	OK(drv.cuEventDestroy_v2(later));
	EXPECT(CUDA_ERROR_NOT_READY, drv.cuEventQuery(event));
	NEED(drv.cuMemsetD32Async(flag, 2, 1, other));
	OK(poll_event(event));
	OK(drv.cuEventQuery(event));
	NEED(drv.cuStreamWaitValue32_v2(stream, flag, 3, CU_STREAM_WAIT_VALUE_GEQ));
	NEED(drv.cuCtxRecordEvent(context, event));
	EXPECT(CUDA_ERROR_NOT_READY, drv.cuEventQuery(event));
	NEED(drv.cuMemsetD32Async(flag, 3, 1, other));
	OK(poll_event(event));
	OK(drv.cuCtxDestroy_v2(context));
}

static void taken_address(void)
{
	CUcontext context = begin_context();
	CUdeviceptr a = device_memory(64 << 20), b;
	uint32_t *mine;

	OK(drv.cuMemFree_v2(a));
	/*
	 * Maps memory where the device would allocate next. With a local driver this fails, because
	 * the driver has mapped the range already.
	 */
	mine = mmap((void *)(uintptr_t)(a + (64 << 20)), 64 << 20, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (mine == MAP_FAILED) {
		tap_note("the driver keeps its addresses to itself");
		_exit(0);
	}
	mine[0] = 5;
	for (int i = 0; i < 4; i++) {
		b = device_memory(32 << 20);
		tap_ok(b + (32 << 20) <= (uintptr_t)mine || b >= (uintptr_t)mine + (64 << 20),
			"device memory does not lie at addresses of the program's memory");
		NEED(drv.cuMemsetD32_v2(b, 9, 1024));
	}
	NEED(drv.cuCtxSynchronize());
	tap_ok(mine[0] == 5, "... and that memory is unchanged");
	OK(drv.cuCtxDestroy_v2(context));
}

/* ---- images ---- */

/* Bytes that this process has sent to its worker so far; 0 without a worker. */
static uint64_t sent(void)
{
	const struct remote_session *s = find_session();
	uint64_t bytes = 0;

	for (unsigned i = 0; s && i < REMOTE_LANES; i++)
		bytes += atomic_load(&s->lane[i].up.tail);
	return bytes;
}

/* The kernels' text, made large by a comment at its end. */
static char *large_image(void)
{
	const char *text = kernels_text();
	const size_t n = strlen(text);
	char *image = malloc(IMAGE + 1);

	memcpy(image, text, n);
	memset(image + n, '/', IMAGE - n);
	image[n] = '\n';
	image[IMAGE] = '\0';
	return image;
}

static bool is_again;

static void load_image(void)
{
	CUcontext context = begin_context();
	char *image = large_image();
	CUmodule module;
	uint64_t before;

	for (int i = 0; i < 2; i++) {
		before = sent();
		OK(drv.cuModuleLoadData(&module, image));
		/* Over a link, an earlier load has sent this image already. */
		if (getenv("DIVVY_TEST_LINK") && (i == 1 || is_again))
			tap_ok(sent() - before < IMAGE / 16,
				"an image that the server has is not sent again");
		OK(drv.cuModuleUnload(module));
	}
	NEED(drv.cuModuleLoadData(&module, image));
	tap_ok(kernel_get(module, "spin_ns") != NULL, "... and the image is unchanged");
	image[IMAGE - 1] = ' ';
	before = sent();
	OK(drv.cuModuleLoadData(&module, image));
	if (getenv("DIVVY_TEST_LINK") && !is_again)
		tap_ok(sent() - before >= IMAGE, "a changed image is sent");
	OK(drv.cuCtxDestroy_v2(context));
}

static void load_image_again(void)
{
	/* This part runs in another process, with another worker of the same server. */
	is_again = true;
	load_image();
}

static void late_error(void)
{
	CUcontext context = begin_context();
	CUdeviceptr p = device_memory(4096), live = device_memory(4096);
	CUresult at_call, at_sync;
	uint32_t word[2] = {0, 0};
	size_t room = 0, all = 0;

	OK(drv.cuMemFree_v2(p));
	at_call = drv.cuMemsetD32Async(p, 1, 1024, NULL);
	at_sync = drv.cuCtxSynchronize();
	tap_ok(at_call == CUDA_ERROR_INVALID_VALUE || at_sync == CUDA_ERROR_INVALID_VALUE,
		"an error is reported by the call or by the next synchronisation");
	OK(drv.cuCtxSynchronize());
	NEED(drv.cuMemsetD32_v2(live, 21, 2));
	at_call = drv.cuMemsetD32Async(p, 1, 1024, NULL);
	at_sync = drv.cuMemcpyDtoH_v2(word, live, sizeof(word));
	tap_ok(at_call == CUDA_ERROR_INVALID_VALUE || at_sync == CUDA_ERROR_INVALID_VALUE,
		"... or by the next copy");
	OK(drv.cuMemGetInfo_v2(&room, &all));
	tap_ok(all > 1u << 30 && room <= all, "a query after an error succeeds");
	OK(drv.cuMemcpyDtoH_v2(word, live, sizeof(word)));
	tap_ok(word[0] == 21 && word[1] == 21, "... and so does a copy");
	OK(drv.cuCtxDestroy_v2(context));
}

/* Freeing page-locked memory waits for copies, which must not hide an earlier error. */
static void late_error_before_a_release(void)
{
	CUcontext context = begin_context();
	CUdeviceptr p = device_memory(4096), live = device_memory(N);
	CUstream stream = new_stream();
	uint32_t *host = locked(N);
	CUresult at_call, at_free, at_sync;

	NEED(drv.cuMemsetD32_v2(live, 3, N / 4));
	OK(drv.cuMemFree_v2(p));
	NEED(drv.cuMemcpyDtoHAsync_v2(host, live, N, stream));
	at_call = drv.cuMemsetD32Async(p, 1, 1024, NULL);
	at_free = is_registered ? drv.cuMemHostUnregister(host) : drv.cuMemFreeHost(host);
	at_sync = drv.cuCtxSynchronize();
	tap_ok(at_call == CUDA_ERROR_INVALID_VALUE || at_free == CUDA_ERROR_INVALID_VALUE ||
			at_sync == CUDA_ERROR_INVALID_VALUE,
		"... or with the release of page-locked memory, or after it");
	OK(drv.cuCtxDestroy_v2(context));
}

static void late_error_before_an_unregistration(void)
{
	is_registered = true;
	late_error_before_a_release();
}

static void hostile(void)
{
	CUcontext context = begin_context();
	CUmodule module;
	CUdeviceptr p = device_memory(4096), table;
	uint64_t word = 0;

	/* Without a query of its size, a variable is still readable to its end. */
	NEED(drv.cuModuleGetGlobal_v2(&table, NULL, load_kernels(), "table"));
	OK(drv.cuMemcpyDtoH_v2(&word, table + 24, 8));
	tap_ok(word == 4, "the last word of a variable can be read");
	/* The worker must not use an address of the program. */
	EXPECT(CUDA_ERROR_INVALID_VALUE,
		drv.cuMemcpyDtoH_v2(&word, (CUdeviceptr)(uintptr_t)&drv, 8));
	EXPECT(CUDA_ERROR_FILE_NOT_FOUND, drv.cuModuleLoad(&module, "/proc/self/nothing"));
	EXPECT(CUDA_ERROR_INVALID_HANDLE,
		drv.cuStreamSynchronize((CUstream)(uintptr_t)0x00d1090000000001));
	OK(drv.cuMemFree_v2(p));
	OK(drv.cuCtxDestroy_v2(context));
}

static bool graph_memory_holds(CUdeviceptr p, CUstream stream, uint32_t value)
{
	uint32_t host[2] = {0, 0}, mark = value + 1;

	NEED(drv.cuStreamSynchronize(stream));
	NEED(drv.cuMemcpyDtoH_v2(&host[0], p, 4));
	NEED(drv.cuMemcpyHtoD_v2(p, &mark, 4));
	NEED(drv.cuMemcpyDtoHAsync_v2(&host[1], p, 4, stream));
	NEED(drv.cuStreamSynchronize(stream));
	return host[0] == value && host[1] == mark;
}

/* Memory that a graph allocates exists after each launch, and can be freed each time. */
static void allocated_by_graphs(void)
{
	CUcontext context = begin_context();
	CUstream stream = new_stream();
	CUgraph graph, freeing, built;
	CUgraphExec exec, freeing_exec, built_exec;
	CUgraphNode node, fill;
	CUdeviceptr p;
	CUDA_MEM_ALLOC_NODE_PARAMS wish = {.bytesize = N,
		.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}}};
	CUDA_MEMSET_NODE_PARAMS set = {
		.value = 9, .elementSize = 4, .width = N / 4, .height = 1, .pitch = 0};

	NEED(drv.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	NEED(drv.cuMemAllocAsync(&p, N, stream));
	NEED(drv.cuMemsetD32Async(p, 7, N / 4, stream));
	NEED(drv.cuStreamEndCapture(stream, &graph));
	NEED(drv.cuGraphInstantiateWithFlags(&exec, graph, 0));
	for (int i = 0; i < 3; i++) {
		OK(drv.cuGraphLaunch(exec, stream));
		tap_ok(graph_memory_holds(p, stream, 7),
			"memory of a captured allocation is usable after each launch");
		OK(i ? drv.cuMemFree_v2(p) : drv.cuMemFreeAsync(p, stream));
	}
	NEED(drv.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	NEED(drv.cuMemFreeAsync(p, stream));
	NEED(drv.cuStreamEndCapture(stream, &freeing));
	NEED(drv.cuGraphInstantiateWithFlags(&freeing_exec, freeing, 0));
	for (int i = 0; i < 2; i++) {
		OK(drv.cuGraphLaunch(exec, stream));
		tap_ok(graph_memory_holds(p, stream, 7),
			"... also if another graph frees the memory");
		OK(drv.cuGraphLaunch(freeing_exec, stream));
	}
	NEED(drv.cuGraphCreate(&built, 0));
	NEED(drv.cuGraphAddMemAllocNode(&node, built, NULL, 0, &wish));
	set.dst = wish.dptr;
	NEED(drv.cuGraphAddMemsetNode(&fill, built, &node, 1, &set, context));
	NEED(drv.cuGraphInstantiateWithFlags(&built_exec, built, 0));
	for (int i = 0; i < 2; i++) {
		OK(drv.cuGraphLaunch(built_exec, stream));
		tap_ok(graph_memory_holds(wish.dptr, stream, 9),
			"memory of an allocation node is usable after each launch");
		OK(drv.cuMemFreeAsync(wish.dptr, stream));
	}
	OK(drv.cuStreamSynchronize(stream));
	OK(drv.cuCtxDestroy_v2(context));
}

static const struct part parts[] = {
	{"there and back", there_and_back},
	{"filled by the host", filled_by_host},
	{"held by the host", held_by_host},
	{"captured copies", captured},
	{"beside a capture", beside_a_capture},
	{"a capture beside a copy", captured_beside_a_copy},
	{"recorded by a graph", recorded_by_a_graph},
	{"without a stream", without_a_stream},
	{"host to host", host_to_host},
	{"what cannot be", what_cannot_be},
	{"freed beside another context", freed_beside_others},
	{"memory of the program's that is locked", registered},
	{"shapes", shapes},
	{"many pieces", many_pieces},
	{"what is taken along", waits_end},
	{"late and wrong", late_and_wrong},
	{"many that wait", many_that_wait},
	{"limited files", limited_files},
	{"streams that have numbers", numbered_streams},
	{"host nodes", host_nodes_again},
	{"host nodes under way", host_nodes_under_way},
	{"memory of graphs", allocated_by_graphs},
	{"children", polled_by_others},
	{"queries", queries},
	{"a taken address", taken_address},
	{"an image", load_image},
	{"an image in another process", load_image_again},
	{"late errors", late_error},
	{"late errors before a release", late_error_before_a_release},
	{"late errors before an unregistration", late_error_before_an_unregistration},
	{"what is not the worker's", hostile},
};

int main(void)
{
	return parts_main(
		"1xH200-8Gi", "context_create_us=0", parts, sizeof(parts) / sizeof(parts[0]));
}
