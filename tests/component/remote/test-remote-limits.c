/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that are refused before any of their effects, objects that end with their context, and a
 * program that locks its memory or forks beside its threads. All checks hold on a local driver as
 * well, unless a comment says otherwise.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../simgpu/driver.h"
#include "../../patience.h"

enum { MIB = 1 << 20, SMALL = 4 * MIB, LARGE = 8 * MIB };

static size_t resident_mib(void)
{
	unsigned long all = 0, resident = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	if (!f || fscanf(f, "%lu %lu", &all, &resident) != 2)
		exit(1);
	fclose(f);
	return resident * 4096 / MIB;
}

static bool is_all(const uint8_t *p, size_t n, uint8_t value)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] != value)
			return false;
	return true;
}

static bool is_untouched(CUdeviceptr device)
{
	uint8_t *host = malloc(SMALL);
	bool is;

	NEED(drv.cuMemcpyDtoH_v2(host, device, SMALL));
	is = is_all(host, SMALL, 1);
	free(host);
	return is;
}

static void too_large(void)
{
	CUcontext context = begin_context();
	const CUdeviceptr device = device_memory(SMALL);
	CUstream stream = new_stream();
	uint8_t *pageable = malloc(LARGE), *locked;
	CUDA_MEMCPY2D rows = {
		.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = pageable,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = device,
		.dstPitch = 8192,
		.WidthInBytes = 4096,
		.Height = 513,
	};

	NEED(drv.cuMemHostAlloc((void **)&locked, LARGE, 0));
	NEED(drv.cuMemsetD8_v2(device, 1, SMALL));
	memset(pageable, 2, LARGE);
	memset(locked, 2, LARGE);
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemcpyHtoD_v2(device, pageable, LARGE));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemcpyHtoDAsync_v2(device, pageable, LARGE, stream));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemcpyHtoDAsync_v2(device, locked, LARGE, stream));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemcpyHtoD_v2(device, pageable, 1ull << 45));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemcpy2D_v2(&rows));
	rows.dstXInBytes = 1ull << 40;
	rows.Height = 1;
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemcpy2D_v2(&rows));
	tap_ok(is_untouched(device),
		"a copy beyond the device memory changes nothing on the device");
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemcpyDtoH_v2(pageable, device, LARGE));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemcpyDtoH_v2(pageable, device + 1, SMALL));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemcpyDtoHAsync_v2(locked, device, LARGE, stream));
	tap_ok(is_all(pageable, LARGE, 2) && is_all(locked, LARGE, 2),
		"... and nothing on the host");
	free(pageable);
	OK(drv.cuCtxDestroy_v2(context));
}

static void goes_with_its_context(void)
{
	const size_t before = resident_mib();
	void *registered = aligned_alloc(4096, MIB);
	CUcontext context = begin_context();
	CUevent event;

	NEED(drv.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	NEED(drv.cuEventRecord(event, NULL));
	NEED(drv.cuEventSynchronize(event));
	NEED(drv.cuEventQuery(event));
	OK(drv.cuCtxDestroy_v2(context));
	for (int i = 0; i < 100; i++) {
		void *p;

		NEED(drv.cuCtxCreate_v2(&context, 0, 0));
		NEED(drv.cuMemHostAlloc(&p, LARGE, 0));
		memset(p, 1, LARGE);
		NEED(drv.cuMemHostRegister_v2(registered, MIB, 0));
		NEED(drv.cuCtxDestroy_v2(context));
	}
	tap_ok(resident_mib() < before + 300, "page-locked memory ends with its context (%zu MiB)",
		resident_mib());
	NEED(drv.cuCtxCreate_v2(&context, 0, 0));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, drv.cuEventQuery(event));
	OK(drv.cuCtxDestroy_v2(context));
	free(registered);
}

/* The primary context's objects end with it, after a release or a reset. */
static void goes_with_the_primary_context(CUresult (*end)(CUdevice device), const char *how)
{
	void *registered = aligned_alloc(4096, MIB), *p;
	CUcontext context, second;
	unsigned int flags;
	CUevent event;

	NEED(drv.cuInit(0));
	NEED(drv.cuDevicePrimaryCtxRetain(&context, 0));
	NEED(drv.cuCtxSetCurrent(context));
	NEED(drv.cuMemHostAlloc(&p, MIB, 0));
	NEED(drv.cuMemHostRegister_v2(registered, MIB, 0));
	NEED(drv.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	NEED(drv.cuEventRecord(event, NULL));
	NEED(drv.cuEventSynchronize(event));
	NEED(drv.cuEventQuery(event));
	OK(drv.cuDevicePrimaryCtxRetain(&second, 0));
	OK(drv.cuDevicePrimaryCtxRelease_v2(0));
	tap_ok(drv.cuMemHostGetFlags(&flags, p) == CUDA_SUCCESS && !drv.cuEventQuery(event),
		"releasing one of two references keeps a primary context's objects");
	OK(end(0));
	NEED(drv.cuCtxCreate_v2(&second, 0, 0));
	tap_ok(drv.cuMemHostGetFlags(&flags, p) == CUDA_ERROR_INVALID_VALUE &&
			drv.cuMemFreeHost(p) == CUDA_ERROR_INVALID_VALUE &&
			drv.cuEventQuery(event) == CUDA_ERROR_INVALID_HANDLE &&
			drv.cuMemHostRegister_v2(registered, MIB, 0) == CUDA_SUCCESS,
		"a primary context's memory and events end when it is %s", how);
	OK(drv.cuCtxDestroy_v2(second));
	free(registered);
}

static void reset(void)
{
	goes_with_the_primary_context(drv.cuDevicePrimaryCtxReset_v2, "reset");
}

static void released(void)
{
	goes_with_the_primary_context(drv.cuDevicePrimaryCtxRelease_v2, "released");
}

/*
 * A copy to memory of a destroyed context: a driver may choose the result, but the program must
 * neither hang nor crash.
 */
static void copies_to_what_has_gone(bool is_registered)
{
	uint64_t patience_ns = 60 * 1000000000ull;
	void *p = aligned_alloc(4096, MIB);
	uint32_t value = 1;
	CUdeviceptr flag, from;
	void *params[] = {&flag, &value, &patience_ns}, *set_params[] = {&flag, &value};
	CUcontext context = begin_context(), second;
	CUmodule module = load_kernels();
	CUstream held = new_stream(), other = new_stream();
	CUresult r;

	flag = device_memory(4);
	from = device_memory(MIB);
	NEED(drv.cuMemsetD32_v2(flag, 0, 1));
	NEED(drv.cuCtxSynchronize());
	NEED(drv.cuCtxCreate_v2(&second, 0, 0));
	if (is_registered)
		NEED(drv.cuMemHostRegister_v2(p, MIB, 0));
	else
		NEED(drv.cuMemHostAlloc(&p, MIB, 0));
	NEED(drv.cuCtxSetCurrent(context));
	alarm(patience_s(PATIENCE_S));
	NEED(drv.cuLaunchKernel(
		kernel_get(module, "spin_flag"), 1, 1, 1, 1, 1, 1, 0, held, params, NULL));
	NEED(drv.cuMemcpyDtoHAsync_v2(p, from, MIB, held));
	NEED(drv.cuMemcpyHtoDAsync_v2(from, p, MIB, held));
	OK(drv.cuCtxDestroy_v2(second));
	if (is_registered)
		free(p);
	NEED(drv.cuCtxSetCurrent(context));
	NEED(drv.cuLaunchKernel(
		kernel_get(module, "set_flag"), 1, 1, 1, 1, 1, 1, 0, other, set_params, NULL));
	r = drv.cuStreamSynchronize(held);
	tap_ok(r == CUDA_SUCCESS || r == CUDA_ERROR_ILLEGAL_ADDRESS,
		"a copy to %s memory of a destroyed context ends",
		is_registered ? "registered" : "page-locked");
	drv.cuCtxDestroy_v2(context);
}

static void copies_to_a_window_that_has_gone(void)
{
	copies_to_what_has_gone(false);
}

static void copies_to_memory_that_has_gone(void)
{
	copies_to_what_has_gone(true);
}

static void locks_all(int when)
{
	CUcontext context;
	void *p;

	if (mlockall(when) < 0) {
		tap_note("memory cannot be locked here");
		return;
	}
	context = begin_context();
	NEED(drv.cuMemHostAlloc(&p, MIB, 0));
	if (when == MCL_CURRENT && mlockall(when) < 0)
		tap_note("memory cannot be locked here");
	tap_ok(resident_mib() < 400, "a program that locks its memory stays small (%zu MiB)",
		resident_mib());
	OK(drv.cuCtxDestroy_v2(context));
}

static void locks_what_it_has(void)
{
	locks_all(MCL_CURRENT);
}

static void locks_what_comes(void)
{
	locks_all(MCL_CURRENT | MCL_FUTURE);
}

static void pointers(void)
{
	CUcontext context = begin_context();
	const CUdeviceptr device = device_memory(SMALL);
	CUpointer_attribute ordinal = CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
	CUpointer_attribute wrong = (CUpointer_attribute)1000;
	int at = 7, *there = &at;
	void *values[] = {there};
	size_t size = 0;

	OK(drv.cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_MAPPING_SIZE, device));
	OK(drv.cuPointerGetAttributes(1, &ordinal, values, (uintptr_t)&context));
	tap_ok(at == CU_DEVICE_INVALID, "ordinary memory has no device ordinal");
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuPointerGetAttributes(1, &wrong, values, device));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuPointerGetAttributes(1, &ordinal, NULL, device));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuMemHostRegister_v2((void *)values, 1ull << 63, 0));
	OK(drv.cuCtxDestroy_v2(context));
}

/* If the caller may reuse a source after the call, the source is read during the call. */
static void read_at_the_call(void)
{
	CUcontext context = begin_context();
	const CUdeviceptr device = device_memory(4), flag = device_memory(4);
	CUmemcpyAttributes attributes = {
		.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL};
	CUstream stream = new_stream(), other = new_stream();
	uint32_t *host, got = 0;

	NEED(drv.cuMemHostAlloc((void **)&host, 4096, 0));
	NEED(drv.cuMemsetD32_v2(flag, 0, 1));
	NEED(drv.cuCtxSynchronize());
	for (int is_known = 0; is_known < 2; is_known++) {
		size_t first = 0, size = 4;
		CUdeviceptr to = device, from = (uintptr_t)host;

		host[0] = 42;
		if (is_known)
			NEED(drv.cuStreamWaitValue32_v2(stream, flag, 1, CU_STREAM_WAIT_VALUE_GEQ));
		NEED(drv.cuMemcpyBatchAsync(
			&to, &from, &size, 1, &attributes, &first, 1, NULL, stream));
		host[0] = 7;
		NEED(drv.cuMemsetD32Async(flag, 1, 1, other));
		NEED(drv.cuStreamSynchronize(stream));
		NEED(drv.cuMemcpyDtoH_v2(&got, device, 4));
		tap_ok(got == 42,
			"a source is read at the call if the copy's attributes require this");
		NEED(drv.cuMemsetD32_v2(flag, 0, 1));
	}
	OK(drv.cuCtxDestroy_v2(context));
}

/*
 * Requests with the program's events are refused, because the worker's driver knows none of these
 * events.
 */
static void refused(void)
{
	CUcontext context = begin_context();
	CUDA_KERNEL_NODE_PARAMS params = {.gridDimX = 1,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = 1,
		.blockDimY = 1,
		.blockDimZ = 1};
	CUlaunchAttributeValue value = {0};
	const CUmemAllocationProp of_host = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_HOST}};
	CUmemGenericAllocationHandle memory;
	uint64_t ns = 1;
	void *arguments[] = {&ns};
	CUgraphNode node;
	CUgraph graph;

	if (!is_remote())
		return;
	params.func = kernel_get(load_kernels(), "spin_ns");
	params.kernelParams = arguments;
	NEED(drv.cuGraphCreate(&graph, 0));
	NEED(drv.cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &params));
	EXPECT(CUDA_ERROR_NOT_SUPPORTED,
		drv.cuGraphKernelNodeSetAttribute(
			node, CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE, &value));
	EXPECT(CUDA_ERROR_NOT_SUPPORTED,
		drv.cuGraphKernelNodeSetAttribute(
			node, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT, &value));
	EXPECT(CUDA_ERROR_NOT_SUPPORTED, drv.cuMemCreate(&memory, 2 << 20, &of_host, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, drv.cuGraphAddEmptyNode(&node, graph, NULL, 1u << 30));
	OK(drv.cuCtxDestroy_v2(context));
}

/* ---- forks ---- */

static _Atomic bool is_over;
static CUcontext forked_context;

static void *allocate(void *unused)
{
	char word[4];

	NEED(drv.cuCtxSetCurrent(forked_context));
	while (!is_over) {
		const CUdeviceptr p = device_memory(4096);
		unsigned type;

		NEED(drv.cuMemcpy((uintptr_t)word, p, 4));
		NEED(drv.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
		NEED(drv.cuMemFree_v2(p));
	}
	return NULL;
}

/* Calls in a forked child fail at once, even if another thread of the parent held locks. */
static bool child_is_told(CUdeviceptr p)
{
	const pid_t pid = fork();
	unsigned type;
	int status;

	if (pid == 0) {
		alarm(patience_s(PATIENCE_S));
		_exit(drv.cuMemFree_v2(p) != CUDA_ERROR_NOT_INITIALIZED ||
			drv.cuMemcpy(p, p + 4, 4) != CUDA_ERROR_NOT_INITIALIZED ||
			drv.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p) !=
				CUDA_ERROR_NOT_INITIALIZED);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
		WEXITSTATUS(status) == 0;
}

static void forks(void)
{
	pthread_t thread[2];
	CUdeviceptr p;
	int told = 0;

	forked_context = begin_context();
	p = device_memory(4096);
	for (int i = 0; i < 2; i++)
		if (pthread_create(&thread[i], NULL, allocate, NULL))
			exit(1);
	while (told < 300 && child_is_told(p))
		told++;
	is_over = true;
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	tap_ok(told == 300, "calls in a forked child fail at once (%d of 300)", told);
	OK(drv.cuCtxDestroy_v2(forked_context));
}

static const struct part parts[] = {
	{"too large", too_large},
	{"with its context", goes_with_its_context},
	{"with the primary context, reset", reset},
	{"with the primary context, released", released},
	{"another's window", copies_to_a_window_that_has_gone},
	{"another's memory", copies_to_memory_that_has_gone},
	{"locked memory", locks_what_it_has},
	{"locked memory to come", locks_what_comes},
	{"pointers", pointers},
	{"read at the call", read_at_the_call},
	{"refused", refused},
	{"forks", forks},
};

int main(void)
{
	return parts_main(
		"1xH200-8Gi", "context_create_us=0", parts, sizeof(parts) / sizeof(parts[0]));
}
