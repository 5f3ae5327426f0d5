/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mistakes and the answers that the CUDA driver API documents: each line is a call and its
 * documented answer. Against the simulator, a difference is a failure. With --real the program runs
 * on hardware and lists where the driver differs from the documentation.
 *
 *   sim-strict            on its own simulated machine
 *   sim-strict --real     on the libcuda.so.1 of the machine
 */
#include "driver.h"

#include "cuda/own-driver.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *const bad = (void *)(uintptr_t)0x123456780;

static void before_init(void)
{
	CUcontext context;
	CUdeviceptr p;
	int n;

	EXPECT(CUDA_ERROR_NOT_INITIALIZED, drv.cuDeviceGetCount(&n));
	EXPECT(CUDA_ERROR_NOT_INITIALIZED, drv.cuCtxCreate_v2(&context, 0, 0));
	EXPECT(CUDA_ERROR_NOT_INITIALIZED, drv.cuCtxGetCurrent(&context));
	EXPECT(CUDA_ERROR_NOT_INITIALIZED, drv.cuMemAlloc_v2(&p, 4096));
	EXPECT(CUDA_ERROR_NOT_INITIALIZED, drv.cuStreamSynchronize(NULL));
	OK(drv.cuDriverGetVersion(&n));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuInit(1));
}

static void devices(void)
{
	char name[64];
	int n, value;
	CUuuid uuid;

	NEED(drv.cuInit(0));
	OK(drv.cuInit(0));
	NEED(drv.cuDeviceGetCount(&n));
	EXPECT(CUDA_ERROR_INVALID_DEVICE, drv.cuDeviceGet(&value, n));
	EXPECT(CUDA_ERROR_INVALID_DEVICE, drv.cuDeviceGet(&value, -1));
	EXPECT(CUDA_ERROR_INVALID_DEVICE, drv.cuDeviceGetName(name, sizeof(name), n));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuDeviceGetName(NULL, sizeof(name), 0));
	EXPECT(CUDA_ERROR_INVALID_DEVICE, drv.cuDeviceGetUuid(&uuid, n));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
		drv.cuDeviceGetAttribute(&value, (CUdevice_attribute)100000, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
		drv.cuDeviceGetAttribute(NULL, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
	OK(drv.cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
	tap_ok(value == 32, "a warp has 32 threads");
}

static void errors(void)
{
	const char *text = NULL;

	OK(drv.cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &text));
	tap_ok(text && strcmp(text, "CUDA_ERROR_OUT_OF_MEMORY") == 0, "the name of code 2");
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuGetErrorName((CUresult)12345, &text));
	tap_ok(text == NULL, "an unknown code has no name");
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuGetErrorString((CUresult)12345, &text));
}

static void contexts(void)
{
	CUcontext a, b, current, popped;
	CUdevice device;
	size_t value;
	unsigned flags;
	int active;

	NEED(drv.cuInit(0));
	EXPECT(CUDA_ERROR_INVALID_CONTEXT, drv.cuCtxSynchronize());
	EXPECT(CUDA_ERROR_INVALID_CONTEXT, drv.cuCtxPopCurrent_v2(&popped));
	EXPECT(CUDA_ERROR_INVALID_CONTEXT, drv.cuCtxGetDevice(&device));
	OK(drv.cuCtxGetCurrent(&current));
	tap_ok(current == NULL, "no context is current at first");
	EXPECT(CUDA_ERROR_INVALID_DEVICE, drv.cuCtxCreate_v2(&a, 0, 1000));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuCtxCreate_v2(&a, 0x80000000u, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuCtxCreate_v2(NULL, 0, 0));
	OK(drv.cuCtxCreate_v2(&a, 0, 0));
	OK(drv.cuCtxGetCurrent(&current));
	tap_ok(current == a, "a new context is current");
	OK(drv.cuCtxCreate_v2(&b, 0, 0));
	OK(drv.cuCtxPopCurrent_v2(&popped));
	tap_ok(popped == b, "the latest context is popped first");
	OK(drv.cuCtxPushCurrent_v2(b));
	OK(drv.cuCtxGetDevice(&device));
	OK(drv.cuCtxDestroy_v2(b));
	OK(drv.cuCtxGetCurrent(&current));
	tap_ok(current == a, "destroying the current context pops it");
	EXPECT(CUDA_ERROR_INVALID_CONTEXT, drv.cuCtxPushCurrent_v2(b));
	EXPECT(CUDA_ERROR_INVALID_CONTEXT, drv.cuCtxSetCurrent(b));
	EXPECT(CUDA_ERROR_UNSUPPORTED_LIMIT, drv.cuCtxGetLimit(&value, (CUlimit)7));
	OK(drv.cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuCtxGetLimit(NULL, CU_LIMIT_STACK_SIZE));
	OK(drv.cuCtxSetCurrent(NULL));
	EXPECT(CUDA_ERROR_INVALID_CONTEXT, drv.cuCtxSynchronize());
	OK(drv.cuCtxDestroy_v2(a));
	OK(drv.cuDevicePrimaryCtxGetState(0, &flags, &active));
	tap_ok(active == 0, "the primary context is not active at first");
	EXPECT(CUDA_ERROR_INVALID_CONTEXT, drv.cuDevicePrimaryCtxRelease_v2(0));
	OK(drv.cuDevicePrimaryCtxRetain(&a, 0));
	OK(drv.cuDevicePrimaryCtxRetain(&b, 0));
	tap_ok(a == b, "there is one primary context");
	EXPECT(CUDA_ERROR_INVALID_CONTEXT, drv.cuCtxDestroy_v2(a));
	OK(drv.cuDevicePrimaryCtxRelease_v2(0));
	OK(drv.cuDevicePrimaryCtxGetState(0, &flags, &active));
	tap_ok(active == 1, "the primary context lives until the last release");
	OK(drv.cuCtxSetCurrent(a));
	OK(drv.cuDevicePrimaryCtxRelease_v2(0));
	EXPECT(CUDA_ERROR_CONTEXT_IS_DESTROYED, drv.cuCtxSynchronize());
}

static void *use_destroyed(void *context)
{
	NEED(drv.cuCtxSetCurrent(context));
	return NULL;
}

static void destroyed_elsewhere(void)
{
	CUcontext context = begin_context();
	pthread_t thread;
	CUdeviceptr p;

	pthread_create(&thread, NULL, use_destroyed, context);
	pthread_join(thread, NULL);
	NEED(drv.cuCtxPushCurrent_v2(context));
	OK(drv.cuCtxDestroy_v2(context));
	/* One entry of the stack still holds the destroyed context. */
	EXPECT(CUDA_ERROR_CONTEXT_IS_DESTROYED, drv.cuMemAlloc_v2(&p, 4096));
	EXPECT(CUDA_ERROR_CONTEXT_IS_DESTROYED, drv.cuCtxSynchronize());
}

static void memory(void)
{
	CUcontext context = begin_context();
	CUdeviceptr p, base;
	size_t size, pitch, free_bytes, total;
	unsigned type;
	char host[64];
	void *h;

	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemAlloc_v2(&p, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemAlloc_v2(NULL, 4096));
	EXPECT(CUDA_ERROR_OUT_OF_MEMORY, drv.cuMemAlloc_v2(&p, (size_t)1 << 44));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemAllocPitch_v2(&p, &pitch, 100, 10, 3));
	OK(drv.cuMemAllocPitch_v2(&p, &pitch, 100, 10, 4));
	tap_ok(pitch >= 100 && pitch % 4 == 0, "the pitch holds a row");
	OK(drv.cuMemFree_v2(p));
	OK(drv.cuMemGetInfo_v2(&free_bytes, &total));
	OK(drv.cuMemFree_v2(0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemFree_v2(0x1234));
	NEED(drv.cuMemAlloc_v2(&p, 1 << 20));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemFree_v2(p + 256));
	OK(drv.cuMemGetAddressRange_v2(&base, &size, p + 1000));
	tap_ok(base == p && size == 1 << 20, "an interior pointer leads to its allocation");
	OK(drv.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
	tap_ok(type == CU_MEMORYTYPE_DEVICE, "the pointer's memory is device memory");
	EXPECT(CUDA_ERROR_INVALID_VALUE,
		drv.cuPointerGetAttribute(
			&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)host));
	OK(drv.cuMemcpyHtoD_v2(p, host, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemcpyHtoD_v2(p + (1 << 20) - 32, host, 64));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemcpyDtoH_v2(host, p + (1 << 20), 64));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemcpyHtoD_v2(0, host, 64));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemsetD32_v2(p + 2, 0, 4));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemsetD8_v2(p, 0, (1 << 20) + 1));
	OK(drv.cuMemFree_v2(p));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemFree_v2(p));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemcpyDtoH_v2(host, p, 64));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemHostAlloc(&h, 4096, 0x80));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemFreeHost(host));
	OK(drv.cuMemHostAlloc(&h, 4096, 0));
	OK(drv.cuMemFreeHost(h));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemFreeHost(h));
	h = aligned_alloc(4096, 8192);
	OK(drv.cuMemHostRegister_v2(h, 8192, 0));
	EXPECT(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, drv.cuMemHostRegister_v2(h, 8192, 0));
	OK(drv.cuMemHostUnregister(h));
	EXPECT(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, drv.cuMemHostUnregister(h));
	free(h);
	if (is_remote()) {
		EXPECT(CUDA_ERROR_NOT_SUPPORTED, drv.cuMemAllocManaged(&p, 4096, 1));
	} else {
		EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemAllocManaged(&p, 4096, 0));
		OK(drv.cuMemAllocManaged(&p, 4096, CU_MEM_ATTACH_GLOBAL));
		OK(drv.cuMemFree_v2(p));
	}
	OK(drv.cuCtxDestroy_v2(context));
}

static void clusters(CUfunction function)
{
	CUlaunchAttribute attribute = {
		.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, .value.clusterDim = {2, 2, 1}};
	CUlaunchConfig config = {.gridDimX = 64,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = 128,
		.blockDimY = 1,
		.blockDimZ = 1,
		.attrs = &attribute,
		.numAttrs = 1};
	int n = 0, one = 0;

	OK(drv.cuOccupancyMaxPotentialClusterSize(&n, function, &config));
	tap_ok(n == 8, "a cluster has 8 blocks at most");
	OK(drv.cuOccupancyMaxActiveClusters(&n, function, &config));
	attribute.value.clusterDim.x = 4;
	OK(drv.cuOccupancyMaxActiveClusters(&one, function, &config));
	tap_ok(n > 100 && n == 2 * one, "clusters of twice the size are half as many (%d, %d)", n,
		one);
	attribute.value.clusterDim.x = 0;
	EXPECT(CUDA_ERROR_INVALID_CLUSTER_SIZE,
		drv.cuOccupancyMaxActiveClusters(&n, function, &config));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuOccupancyMaxActiveClusters(NULL, function, &config));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuOccupancyMaxActiveClusters(&n, function, NULL));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, drv.cuOccupancyMaxActiveClusters(&n, bad, &config));
	config.attrs = NULL;
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuOccupancyMaxActiveClusters(&n, function, &config));
}

static void modules(void)
{
	static const char no_ptx[] = "this is no module";
	CUcontext context = begin_context();
	CUfunction function;
	CUmodule module;
	CUdeviceptr p;
	size_t n, offset;
	int value;

	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuModuleLoadData(&module, NULL));
	EXPECT(CUDA_ERROR_FILE_NOT_FOUND, drv.cuModuleLoad(&module, "/nowhere/at/all.ptx"));
	EXPECT(CUDA_ERROR_INVALID_IMAGE, drv.cuModuleLoadData(&module, no_ptx));
	EXPECT(CUDA_ERROR_INVALID_PTX,
		drv.cuModuleLoadData(&module,
			".version 6.4\n.target sm_70\n.address_size 64\n"
			".entry f(.param .u65 x) { ret; }\n"));
	EXPECT(CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
		drv.cuModuleLoadData(&module, ".version 99.0\n.target sm_70\n.address_size 64\n"));
	module = load_kernels();
	EXPECT(CUDA_ERROR_NOT_FOUND, drv.cuModuleGetFunction(&function, module, "no such kernel"));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, drv.cuModuleGetFunction(&function, bad, "fill_u32"));
	OK(drv.cuModuleGetFunction(&function, module, "fill_u32"));
	EXPECT(CUDA_ERROR_NOT_FOUND, drv.cuModuleGetGlobal_v2(&p, &n, module, "no such variable"));
	OK(drv.cuModuleGetGlobal_v2(&p, &n, module, "table"));
	tap_ok(n == 32, "a variable has its size");
	OK(drv.cuFuncGetParamInfo(function, 1, &offset, &n));
	tap_ok(offset == 8 && n == 4, "parameter 1 of fill_u32 has 4 bytes at offset 8");
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuFuncGetParamInfo(function, 3, &offset, &n));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
		drv.cuFuncGetAttribute(&value, (CUfunction_attribute)1000, function));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
		drv.cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_NUM_REGS, 1));
	clusters(function);
	OK(drv.cuModuleUnload(module));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, drv.cuModuleUnload(module));
	OK(drv.cuCtxDestroy_v2(context));
}

static void launches(void)
{
	CUcontext context = begin_context(), other;
	CUfunction fill = kernel_get(load_kernels(), "fill_u32"), spin;
	unsigned long long n = 16, ns = 1000;
	unsigned value = 7;
	CUdeviceptr p;
	CUstream stream, foreign;
	void *params[] = {&p, &value, &n};
	size_t small = 8;
	void *too_small[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &p, CU_LAUNCH_PARAM_BUFFER_SIZE,
		&small, CU_LAUNCH_PARAM_END};
	void *time[] = {&ns};

	NEED(drv.cuMemAlloc_v2(&p, 4096));
	NEED(drv.cuStreamCreate(&stream, 0));
	OK(drv.cuLaunchKernel(fill, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
		drv.cuLaunchKernel(fill, 0, 1, 1, 32, 1, 1, 0, stream, params, NULL));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
		drv.cuLaunchKernel(fill, 1, 65536, 1, 32, 1, 1, 0, stream, params, NULL));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
		drv.cuLaunchKernel(fill, 1, 1, 1, 2048, 1, 1, 0, stream, params, NULL));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
		drv.cuLaunchKernel(fill, 1, 1, 1, 1, 1, 65, 0, stream, params, NULL));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
		drv.cuLaunchKernel(fill, 1, 1, 1, 32, 1, 1, 1 << 20, stream, params, NULL));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
		drv.cuLaunchKernel(fill, 1, 1, 1, 32, 1, 1, 0, stream, params, too_small));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
		drv.cuLaunchKernel(fill, 1, 1, 1, 32, 1, 1, 0, stream, NULL, too_small));
	EXPECT(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
		drv.cuLaunchCooperativeKernel(fill, 100000, 1, 1, 1024, 1, 1, 0, stream, params));
	EXPECT(CUDA_ERROR_INVALID_HANDLE,
		drv.cuLaunchKernel(bad, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL));
	NEED(drv.cuCtxCreate_v2(&other, 0, 0));
	NEED(drv.cuStreamCreate(&foreign, 0));
	spin = kernel_get(load_kernels(), "spin_ns");
	EXPECT(CUDA_ERROR_INVALID_HANDLE,
		drv.cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, time, NULL));
	OK(drv.cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, foreign, time, NULL));
	OK(drv.cuCtxDestroy_v2(other));
	OK(drv.cuStreamDestroy_v2(stream));
	EXPECT(CUDA_ERROR_INVALID_HANDLE,
		drv.cuLaunchKernel(fill, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL));
	OK(drv.cuCtxDestroy_v2(context));
}

static void streams_and_events(void)
{
	CUcontext context = begin_context();
	CUevent timed, untimed, fresh;
	CUstream stream;
	float ms;
	int least, greatest, priority;

	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuStreamCreate(&stream, 0x80));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuStreamCreate(NULL, 0));
	NEED(drv.cuCtxGetStreamPriorityRange(&least, &greatest));
	OK(drv.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, greatest - 100));
	OK(drv.cuStreamGetPriority(stream, &priority));
	tap_ok(priority == greatest, "a priority outside the range is clamped");
	EXPECT(CUDA_ERROR_INVALID_HANDLE, drv.cuStreamSynchronize(bad));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuEventCreate(&timed, 0x80));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuEventCreate(&timed, CU_EVENT_INTERPROCESS));
	NEED(drv.cuEventCreate(&timed, 0));
	NEED(drv.cuEventCreate(&fresh, 0));
	NEED(drv.cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
	OK(drv.cuEventQuery(fresh));
	OK(drv.cuEventSynchronize(fresh));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, drv.cuEventElapsedTime(&ms, fresh, fresh));
	OK(drv.cuEventRecord(timed, stream));
	OK(drv.cuEventRecord(untimed, stream));
	OK(drv.cuStreamSynchronize(stream));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, drv.cuEventElapsedTime(&ms, timed, untimed));
	OK(drv.cuEventElapsedTime(&ms, timed, timed));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, drv.cuEventRecord(bad, stream));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, drv.cuStreamWaitEvent(stream, bad, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuStreamWaitEvent(stream, timed, 0x80));
	OK(drv.cuEventDestroy_v2(timed));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, drv.cuEventDestroy_v2(timed));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, drv.cuEventQuery(timed));
	OK(drv.cuStreamDestroy_v2(stream));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, drv.cuStreamDestroy_v2(stream));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, drv.cuStreamDestroy_v2(NULL));
	OK(drv.cuCtxDestroy_v2(context));
}

static void not_ready(void)
{
	CUcontext context = begin_context();
	CUfunction spin = kernel_get(load_kernels(), "spin_ns");
	unsigned long long ns = 2000000000;
	void *params[] = {&ns};
	CUevent event, late;
	CUstream stream;
	float ms;

	NEED(drv.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	NEED(drv.cuEventCreate(&event, 0));
	NEED(drv.cuEventCreate(&late, 0));
	NEED(drv.cuEventRecord(event, stream));
	NEED(drv.cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
	NEED(drv.cuEventRecord(late, stream));
	EXPECT(CUDA_ERROR_NOT_READY, drv.cuStreamQuery(stream));
	EXPECT(CUDA_ERROR_NOT_READY, drv.cuEventQuery(late));
	EXPECT(CUDA_ERROR_NOT_READY, drv.cuEventElapsedTime(&ms, event, late));
	OK(drv.cuStreamSynchronize(stream));
	OK(drv.cuStreamQuery(stream));
	OK(drv.cuEventElapsedTime(&ms, event, late));
	OK(drv.cuCtxDestroy_v2(context));
}

struct elsewhere {
	CUcontext context;
	CUstream stream;
};

static void *capture_elsewhere(void *argument)
{
	const struct elsewhere *e = argument;
	CUstream stream = e->stream;
	CUgraph graph;

	NEED(drv.cuCtxSetCurrent(e->context));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, drv.cuStreamEndCapture(stream, &graph));
	return NULL;
}

static void captures(void)
{
	CUcontext context = begin_context();
	CUstreamCaptureStatus status;
	CUstreamCaptureMode mode;
	CUstream a, b, blocking;
	CUevent event, outside;
	CUgraph graph;
	CUdeviceptr p, q;
	pthread_t thread;

	NEED(drv.cuMemAlloc_v2(&p, 4096));
	NEED(drv.cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
	NEED(drv.cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
	NEED(drv.cuStreamCreate(&blocking, 0));
	NEED(drv.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	NEED(drv.cuEventCreate(&outside, CU_EVENT_DISABLE_TIMING));
	NEED(drv.cuEventRecord(outside, b));

	EXPECT(CUDA_ERROR_ILLEGAL_STATE, drv.cuStreamEndCapture(a, &graph));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, drv.cuStreamBeginCapture_v2(NULL, 0));
	OK(drv.cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	EXPECT(CUDA_ERROR_ILLEGAL_STATE, drv.cuStreamBeginCapture_v2(a, 0));
	OK(drv.cuStreamIsCapturing(a, &status));
	tap_ok(status == CU_STREAM_CAPTURE_STATUS_ACTIVE, "the stream captures");
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, drv.cuStreamSynchronize(a));
	OK(drv.cuStreamIsCapturing(a, &status));
	tap_ok(status == CU_STREAM_CAPTURE_STATUS_INVALIDATED,
		"synchronising invalidates the capture");
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, drv.cuMemsetD8Async(p, 0, 16, a));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, drv.cuStreamEndCapture(a, &graph));
	OK(drv.cuStreamIsCapturing(a, &status));
	tap_ok(status == CU_STREAM_CAPTURE_STATUS_NONE,
		"the stream no longer captures after the end of an invalid capture");

	OK(drv.cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, drv.cuMemAlloc_v2(&q, 4096));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, drv.cuStreamEndCapture(a, &graph));

	/* A thread in relaxed capture mode may allocate while it captures. */
	OK(drv.cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
	mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	OK(drv.cuThreadExchangeStreamCaptureMode(&mode));
	tap_ok(mode == CU_STREAM_CAPTURE_MODE_GLOBAL, "threads begin in global mode");
	OK(drv.cuMemAlloc_v2(&q, 4096));
	OK(drv.cuThreadExchangeStreamCaptureMode(&mode));
	OK(drv.cuStreamEndCapture(a, &graph));
	OK(drv.cuGraphDestroy(graph));

	/* Synchronous copies use the legacy stream, which waits for blocking streams. */
	OK(drv.cuStreamBeginCapture_v2(blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, drv.cuMemsetD8Async(p, 0, 16, NULL));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, drv.cuStreamEndCapture(blocking, &graph));

	OK(drv.cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_RELAXED));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, drv.cuStreamWaitEvent(a, outside, 0));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, drv.cuStreamEndCapture(a, &graph));

	OK(drv.cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(drv.cuMemsetD8Async(p, 0, 16, a));
	OK(drv.cuEventRecord(event, a));
	EXPECT(CUDA_ERROR_CAPTURED_EVENT, drv.cuEventQuery(event));
	OK(drv.cuStreamWaitEvent(b, event, 0));
	OK(drv.cuMemsetD8Async(p, 1, 16, b));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, drv.cuStreamEndCapture(a, &graph));
	OK(drv.cuStreamIsCapturing(b, &status));
	tap_ok(status == CU_STREAM_CAPTURE_STATUS_NONE, "the joined stream no longer captures");

	OK(drv.cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(drv.cuStreamBeginCapture_v2(b, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(drv.cuEventRecord(event, a));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_MERGE, drv.cuStreamWaitEvent(b, event, 0));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, drv.cuStreamEndCapture(a, &graph));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, drv.cuStreamEndCapture(b, &graph));

	OK(drv.cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	OK(drv.cuEventRecord(event, a));
	OK(drv.cuStreamWaitEvent(b, event, 0));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, drv.cuStreamEndCapture(b, &graph));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, drv.cuStreamEndCapture(a, &graph));

	OK(drv.cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	pthread_create(&thread, NULL, capture_elsewhere, &(struct elsewhere){context, a});
	pthread_join(thread, NULL);
	drv.cuStreamEndCapture(a, &graph);
	OK(drv.cuCtxDestroy_v2(context));
}

static void graphs(void)
{
	CUcontext context = begin_context();
	CUgraph graph, other, clone;
	CUgraphNode a, b, c;
	CUgraphExec exec;
	size_t n = 0;

	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuGraphCreate(NULL, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuGraphCreate(&graph, 1));
	NEED(drv.cuGraphCreate(&graph, 0));
	NEED(drv.cuGraphCreate(&other, 0));
	OK(drv.cuGraphAddEmptyNode(&a, graph, NULL, 0));
	OK(drv.cuGraphAddEmptyNode(&b, graph, &a, 1));
	NEED(drv.cuGraphAddEmptyNode(&c, other, NULL, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuGraphAddEmptyNode(&c, graph, &c, 1));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuGraphAddDependencies(graph, &a, &a, 1));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuGraphAddDependencies(graph, &a, &b, 1));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuGraphRemoveDependencies(graph, &b, &a, 1));
	OK(drv.cuGraphGetNodes(graph, NULL, &n));
	tap_ok(n == 2, "the graph has two nodes");
	OK(drv.cuGraphGetEdges(graph, NULL, NULL, &n));
	tap_ok(n == 1, "the graph has one edge");
	OK(drv.cuGraphAddDependencies(graph, &b, &a, 1));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(drv.cuGraphRemoveDependencies(graph, &b, &a, 1));
	OK(drv.cuGraphInstantiateWithFlags(&exec, graph, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuGraphLaunch(bad, NULL));
	OK(drv.cuGraphLaunch(exec, NULL));
	OK(drv.cuCtxSynchronize());
	OK(drv.cuGraphClone(&clone, graph));
	OK(drv.cuGraphNodeFindInClone(&c, a, clone));
	OK(drv.cuGraphDestroyNode(b));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuGraphDestroyNode(b));
	OK(drv.cuGraphExecDestroy(exec));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuGraphExecDestroy(exec));
	OK(drv.cuGraphDestroy(graph));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuGraphDestroy(graph));
	OK(drv.cuCtxDestroy_v2(context));
}

static void virtual_memory(void)
{
	CUcontext context = begin_context();
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
	CUmemAccessDesc access = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle;
	size_t granule;
	CUdeviceptr p;

	prop.location.type = access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	NEED(drv.cuMemGetAllocationGranularity(&granule, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemCreate(&handle, granule + 1, &prop, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemAddressReserve(&p, granule + 1, 0, 0, 0));
	NEED(drv.cuMemCreate(&handle, granule, &prop, 0));
	NEED(drv.cuMemAddressReserve(&p, 2 * granule, 0, 0, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemMap(p, 2 * granule, 0, handle, 0));
	OK(drv.cuMemMap(p, granule, 0, handle, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemMap(p, granule, 0, handle, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemSetAccess(p + granule, granule, &access, 1));
	OK(drv.cuMemSetAccess(p, granule, &access, 1));
	OK(drv.cuMemsetD8_v2(p, 1, granule));
	OK(drv.cuCtxSynchronize());
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemFree_v2(p));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemAddressFree(p, 2 * granule));
	OK(drv.cuMemRelease(handle));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemRelease(handle));
	OK(drv.cuMemUnmap(p, granule));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemUnmap(p, granule));
	OK(drv.cuMemAddressFree(p, 2 * granule));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemAddressFree(p, 2 * granule));
	OK(drv.cuCtxDestroy_v2(context));
}

static void pools(void)
{
	CUcontext context = begin_context();
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED};
	CUmemoryPool pool, first;
	CUstream stream;
	CUdeviceptr p;

	props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	NEED(drv.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	NEED(drv.cuDeviceGetDefaultMemPool(&first, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemPoolDestroy(first));
	OK(drv.cuMemPoolCreate(&pool, &props));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemAllocFromPoolAsync(&p, 0, pool, stream));
	EXPECT(CUDA_ERROR_OUT_OF_MEMORY, drv.cuMemAllocAsync(&p, (size_t)1 << 44, stream));
	OK(drv.cuMemAllocFromPoolAsync(&p, 1 << 20, pool, stream));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemFreeAsync(p + 512, stream));
	OK(drv.cuMemFreeAsync(p, stream));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemFreeAsync(p, stream));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemFree_v2(p));
	/* cuMemFree and cuMemFreeAsync both free memory of cuMemAlloc and of cuMemAllocAsync. */
	OK(drv.cuMemAlloc_v2(&p, 1 << 20));
	OK(drv.cuMemFreeAsync(p, stream));
	OK(drv.cuMemAllocAsync(&p, 1 << 20, stream));
	OK(drv.cuMemFree_v2(p));
	OK(drv.cuMemPoolDestroy(pool));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemPoolDestroy(pool));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemAllocFromPoolAsync(&p, 4096, pool, stream));
	OK(drv.cuCtxDestroy_v2(context));
}

static void values(void)
{
	CUcontext context = begin_context();
	CUstream stream;
	CUdeviceptr p;

	NEED(drv.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	NEED(drv.cuMemAlloc_v2(&p, 4096));
	OK(drv.cuStreamWriteValue32_v2(stream, p, 7, 0));
	OK(drv.cuStreamWaitValue32_v2(stream, p, 7, CU_STREAM_WAIT_VALUE_EQ));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuStreamWriteValue32_v2(stream, p + 2, 7, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuStreamWriteValue64_v2(stream, p + 4, 7, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuStreamWriteValue32_v2(stream, 0, 7, 0));
	OK(drv.cuStreamSynchronize(stream));
	OK(drv.cuCtxDestroy_v2(context));
}

static void illegal_address(void)
{
	CUcontext context = begin_context();
	CUfunction fill = kernel_get(load_kernels(), "fill_u32");
	unsigned long long n = 16;
	unsigned value = 1;
	CUdeviceptr wild = 0x2fffffff0000, p;
	void *params[] = {&wild, &value, &n};

	OK(drv.cuLaunchKernel(fill, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
	EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, drv.cuCtxSynchronize());
	EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, drv.cuMemAlloc_v2(&p, 4096));
	EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, drv.cuCtxSynchronize());
	OK(drv.cuCtxDestroy_v2(context));
	/* A new context has no error. */
	OK(drv.cuCtxCreate_v2(&context, 0, 0));
	OK(drv.cuMemAlloc_v2(&p, 4096));
}

static void after_fork(void)
{
	CUcontext context = begin_context();
	int status, n;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		EXPECT(CUDA_ERROR_NOT_INITIALIZED, drv.cuDeviceGetCount(&n));
		EXPECT(CUDA_ERROR_NOT_INITIALIZED, drv.cuInit(0));
		fflush(stdout);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	OK(drv.cuCtxSynchronize());
	OK(drv.cuCtxDestroy_v2(context));
}

static void callback_calls(void *got)
{
	*(CUresult *)got = drv.cuStreamSynchronize(NULL);
}

static void host_functions(void)
{
	CUcontext context = begin_context();
	CUresult got = CUDA_SUCCESS;
	CUstream stream;

	NEED(drv.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuLaunchHostFunc(stream, NULL, NULL));
	OK(drv.cuLaunchHostFunc(stream, callback_calls, &got));
	OK(drv.cuStreamSynchronize(stream));
	EXPECT(CUDA_ERROR_NOT_PERMITTED, got);
	OK(drv.cuCtxDestroy_v2(context));
}

static void symbols(void)
{
	const CUuuid unknown = {.bytes = "no such table..."};
	CUdriverProcAddressQueryResult status;
	const struct own_driver_table *own = NULL;
	const void *table;
	void *p = NULL;

	OK(drv.cuGetProcAddress_v2("cuMemAlloc", &p, 12000, 0, &status));
	tap_ok(p == (void *)drv.cuMemAlloc_v2 && status == CU_GET_PROC_ADDRESS_SUCCESS,
		"cuMemAlloc is cuMemAlloc_v2 for CUDA 12");
	OK(drv.cuGetProcAddress_v2("cuGraphAddNode", &p, 11000, 0, &status));
	tap_ok(!p && status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT,
		"cuGraphAddNode is too new for CUDA 11.0");
	OK(drv.cuGetProcAddress_v2("cuNoSuchThing", &p, 12000, 0, &status));
	tap_ok(!p && status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND,
		"an unknown name has no entry");
	p = &status;
	EXPECT(CUDA_ERROR_NOT_FOUND, drv.cuGetProcAddress("cuNoSuchThing", &p, 11030, 0));
	tap_ok(p == &status, "the first form of cuGetProcAddress leaves the pointer alone");
	OK(drv.cuGetProcAddress_v2("cuNoSuchThing", &p, 12000, 0, NULL));
	tap_ok(!p, "without a status, an unknown name has no entry either");
	OK(drv.cuGetProcAddress_v2("cuMemAlloc", &p, -1, 3, &status));
	tap_ok(p == (void *)drv.cuMemAlloc_v2,
		"version -1 is the newest, and both flags are valid");
	OK(drv.cuGetProcAddress_v2("cuLaunchKernel", &p, 6050,
		CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &status));
	tap_ok(!p && status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT,
		"a per-thread form is too new for CUDA 6.5");
	OK(drv.cuGetProcAddress_v2("cuLaunchKernel", &p, 12000,
		CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &status));
	tap_ok(p == (void *)drv.cuLaunchKernel_ptsz,
		"the flag for per-thread streams selects the per-thread form");
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuGetProcAddress_v2(NULL, &p, 12000, 0, &status));
	table = &status;
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuGetExportTable(&table, &unknown));
	tap_ok(!table, "an unknown table is NULL");
	OK(drv.cuGetExportTable((const void **)&own, OWN_DRIVER_ID));
	tap_ok(own && own->size == sizeof(*own) &&
			!strcmp(own->kind, is_remote() ? "remote" : "simulated"),
		"the driver says that it is divvy's own");
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuGetExportTable(NULL, OWN_DRIVER_ID));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuGetExportTable(NULL, &unknown));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuGetExportTable(&table, NULL));
}

static void one_visible(void)
{
	int n = 0;

	setenv("CUDA_VISIBLE_DEVICES", "0,99,0", 1);
	OK(drv.cuInit(0));
	OK(drv.cuDeviceGetCount(&n));
	tap_ok(n == 1, "devices after an invalid entry are not visible");
}

static void none_visible(void)
{
	setenv("CUDA_VISIBLE_DEVICES", "-1", 1);
	EXPECT(CUDA_ERROR_NO_DEVICE, drv.cuInit(0));
}

static const struct {
	const char *name;
	void (*part)(void);
} parts[] = {
	{"before cuInit", before_init},
	{"devices", devices},
	{"error names", errors},
	{"contexts", contexts},
	{"a destroyed context on a stack", destroyed_elsewhere},
	{"memory", memory},
	{"modules", modules},
	{"launches", launches},
	{"streams and events", streams_and_events},
	{"not ready", not_ready},
	{"capture", captures},
	{"graphs", graphs},
	{"virtual memory", virtual_memory},
	{"pools", pools},
	{"value operations", values},
	{"illegal address", illegal_address},
	{"after fork", after_fork},
	{"host functions", host_functions},
	{"symbols", symbols},
	{"CUDA_VISIBLE_DEVICES", one_visible},
	{"CUDA_VISIBLE_DEVICES without devices", none_visible},
};

int main(int argc, char **argv)
{
	driver_is_real = argc > 1 && strcmp(argv[1], "--real") == 0;
	tap_begin();
	if (!driver_is_real)
		machine_begin("1xH200-8Gi", "context_create_us=0");
	if (!driver_open()) {
		printf("1..0 # SKIP no libcuda.so.1\n");
		return driver_is_real ? 77 : 1;
	}
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		part_run(parts[i].name, parts[i].part);
	if (!driver_is_real)
		machine_end();
	else
		tap_note("%u disagreements with the driver", tap_failures());
	tap_end();
	return tap_failures() != 0 && !driver_is_real;
}
