/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hook and memory: the charge of each way to allocate, and whether each way to free removes the
 * whole charge. Amounts are exact: the stub driver packs small allocations like a device.
 */
#include "rig.h"
#include "../../patience.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct fake_daemon *start(uint32_t flags, uint64_t quota)
{
	struct fake_options options;

	rig_options(&options);
	options.flags = flags;
	options.quota_bytes = quota;
	return rig_start(&options);
}

/* Bytes charged beyond the context. */
static uint64_t charged(struct fake_daemon *d)
{
	return rig_charged(d, 0) - CONTEXT_BYTES;
}

/* ---- addresses ---- */

static int allocations_by_address(void *arg)
{
	struct fake_daemon *d = start(0, 8 * GiB);
	CUdeviceptr p[4], small[3000];
	size_t pitch;

	check(d && rig_context() && charged(d) == 0);
	check(cuMemAlloc_v2(&p[0], 1) == CUDA_SUCCESS && charged(d) == 2 * MiB);
	check(cuMemAlloc_v2(&p[1], MiB) == CUDA_SUCCESS && charged(d) == 4 * MiB);
	check(cuMemAlloc_v2(&p[2], 5 * MiB) == CUDA_SUCCESS && charged(d) == 10 * MiB);
	check(cuMemAllocPitch_v2(&p[3], &pitch, 1, 4096, 4) == CUDA_SUCCESS && pitch == 512);
	check(charged(d) == 12 * MiB);
	for (int i = 0; i < 4; i++)
		check(cuMemFree_v2(p[i]) == CUDA_SUCCESS);
	check(charged(d) == 0);
	/* 3000 allocations of 1 KiB fill two blocks; the last free in a block returns the block */
	for (int i = 0; i < 3000; i++)
		check(cuMemAlloc_v2(&small[i], 1024) == CUDA_SUCCESS);
	check(charged(d) == 4 * MiB);
	for (int i = 0; i < 3000; i++)
		check(cuMemFree_v2(small[i]) == CUDA_SUCCESS);
	check(charged(d) == 0);
	/* the driver frees addresses that the hook does not know; the charge stays */
	check(cuMemFree_v2(0x12345678) == CUDA_SUCCESS && charged(d) == 0);
	rig_stop(d);
	return 0;
}

/*
 * Legal mixtures: cuMemFree of an asynchronous allocation, and cuMemFreeAsync of a synchronous one.
 */
static int mixed_frees(void *arg)
{
	struct fake_daemon *d = start(0, 8 * GiB);
	CUdeviceptr p, q;
	CUmemoryPool pool;
	size_t free, total;

	check(d && rig_context());
	check(cuMemAlloc_v2(&p, 4 * MiB) == CUDA_SUCCESS && charged(d) == 4 * MiB);
	/*
	 * the memory is charged until the stream has run the free; cuMemGetInfo notices that it has
	 */
	check(cuMemFreeAsync(p, NULL) == CUDA_SUCCESS);
	check(cuMemGetInfo_v2(&free, &total) == CUDA_SUCCESS && charged(d) == 0);
	check(cuMemAllocAsync(&p, 4 * MiB, NULL) == CUDA_SUCCESS && charged(d) == 4 * MiB);
	check(cuMemAllocAsync(&q, 4 * MiB, NULL) == CUDA_SUCCESS && charged(d) == 8 * MiB);
	/* freed memory stays in the pool, which is charged until a trim */
	check(cuMemFree_v2(p) == CUDA_SUCCESS && cuMemFreeAsync(q, NULL) == CUDA_SUCCESS);
	check(charged(d) == 8 * MiB);
	/* the pool serves the next allocation without a further charge */
	check(cuMemAllocAsync(&p, 4 * MiB, NULL) == CUDA_SUCCESS && charged(d) == 8 * MiB);
	check(cuMemFreeAsync(p, NULL) == CUDA_SUCCESS);
	check(cuDeviceGetMemPool(&pool, 0) == CUDA_SUCCESS);
	check(cuMemPoolTrimTo(pool, 0) == CUDA_SUCCESS && charged(d) == 0);
	rig_stop(d);
	return 0;
}

/*
 * Pools grow by at least 32 MiB, and only the driver knows when. A pool that holds the whole quota
 * may not grow. The hook trims it when another allocation needs memory.
 */
static int full_pool_may_not_grow(void *arg)
{
	struct fake_daemon *d = start(0, CONTEXT_BYTES + 32 * MiB);
	CUdeviceptr p, q;

	check(d && rig_context());
	check(cuMemAllocAsync(&p, 32 * MiB, NULL) == CUDA_SUCCESS && charged(d) == 32 * MiB);
	check(cuMemAllocAsync(&q, 2 * MiB, NULL) == CUDA_ERROR_OUT_OF_MEMORY);
	check(cuMemFreeAsync(p, NULL) == CUDA_SUCCESS && charged(d) == 32 * MiB);
	check(cuMemAllocAsync(&q, 2 * MiB, NULL) == CUDA_SUCCESS && charged(d) <= 32 * MiB);
	check(cuMemFreeAsync(q, NULL) == CUDA_SUCCESS);
	check(cuMemAlloc_v2(&p, 32 * MiB) == CUDA_SUCCESS && charged(d) == 32 * MiB);
	rig_stop(d);
	return 0;
}

/* ---- physical memory ---- */

static int physical_memory(void *arg)
{
	const CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
	};
	struct fake_daemon *d = start(0, 8 * GiB);
	CUmemGenericAllocationHandle a, b, again;

	check(d && rig_context());
	check(cuMemCreate(&a, 4 * MiB, &prop, 0) == CUDA_SUCCESS);
	check(cuMemCreate(&b, 6 * MiB, &prop, 0) == CUDA_SUCCESS && charged(d) == 10 * MiB);
	/* memory released while mapped stays charged until it is unmapped */
	check(cuMemMap(0x100000000, 4 * MiB, 0, a, 0) == CUDA_SUCCESS);
	check(cuMemMap(0x100400000, 6 * MiB, 0, b, 0) == CUDA_SUCCESS);
	check(cuMemRelease(a) == CUDA_SUCCESS && charged(d) == 10 * MiB);
	/* a second reference to the same handle */
	check(cuMemRetainAllocationHandle(&again, (void *)0x100400000) == CUDA_SUCCESS &&
		again == b);
	check(cuMemRelease(b) == CUDA_SUCCESS);
	/* one range unmaps both mappings */
	check(cuMemUnmap(0x100000000, 10 * MiB) == CUDA_SUCCESS && charged(d) == 6 * MiB);
	check(cuMemRelease(again) == CUDA_SUCCESS && charged(d) == 0);
	rig_stop(d);
	return 0;
}

/* ---- memory shared with other processes ---- */

static const CUmemAllocationProp exportable = {
	.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
};

static int exported(bool is_counted)
{
	const CUmemAllocationHandleType type = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	struct fake_options options;
	struct fake_daemon *d;
	CUmemGenericAllocationHandle a, b;
	size_t free, total;
	int fd, copy;

#define ALL(mib) \
	(charged(d) == (is_counted ? 0 : (mib)*MiB) && \
		fake_daemon_shared(d) == (is_counted ? (mib)*MiB : 0))
	rig_options(&options);
	options.shares = is_counted;
	d = rig_start(&options);
	check(d && rig_context());
	check(cuMemCreate(&a, 4 * MiB, &exportable, 0) == CUDA_SUCCESS && charged(d) == 4 * MiB);
	check(cuMemExportToShareableHandle(&fd, a, type, 0) == CUDA_SUCCESS && ALL(4));
	copy = dup(fd);
	close(fd);
	check(cuMemRelease(a) == CUDA_SUCCESS && ALL(4)); /* the copied fd keeps the memory */
	check(cuMemImportFromShareableHandle(&b, (void *)(intptr_t)copy, type) == CUDA_SUCCESS);
	check(ALL(4)); /* the import is the same memory, charged once */
	close(copy);
	check(cuMemGetInfo_v2(&free, &total) == CUDA_SUCCESS && ALL(4));
	check(cuMemMap(0x100000000, 4 * MiB, 0, b, 0) == CUDA_SUCCESS);
	check(cuMemRelease(b) == CUDA_SUCCESS && ALL(4));
	check(cuMemUnmap(0x100000000, 4 * MiB) == CUDA_SUCCESS && ALL(0));
	/* the hook notices a closed last descriptor at the next cuMemGetInfo */
	check(cuMemCreate(&a, 4 * MiB, &exportable, 0) == CUDA_SUCCESS);
	check(cuMemExportToShareableHandle(&fd, a, type, 0) == CUDA_SUCCESS);
	check(cuMemRelease(a) == CUDA_SUCCESS && ALL(4));
	close(fd);
	check(cuMemGetInfo_v2(&free, &total) == CUDA_SUCCESS && ALL(0));
#undef ALL
	rig_stop(d);
	return 0;
}

static int exported_memory_is_counted_once(void *arg)
{
	return exported(true);
}

/* A dma-buf keeps memory charged after its allocation is freed, whatever the kind of memory. */
static int dma_bufs_keep_memory(void *arg)
{
	struct fake_options options;
	struct fake_daemon *d;
	CUmemGenericAllocationHandle a;
	const CUdeviceptr at = 0x100000000;
	size_t free, total;
	CUdeviceptr p;
	int fd;

#define RANGE(address, size) \
	cuMemGetHandleForAddressRange(&fd, address, size, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0)
#define HAS(own, shared) (charged(d) == (own)*MiB && fake_daemon_shared(d) == (shared)*MiB)
	rig_options(&options);
	options.shares = true;
	d = rig_start(&options);
	check(d && rig_context());
	check(cuMemAlloc_v2(&p, 8 * MiB) == CUDA_SUCCESS && HAS(8, 0));
	check(RANGE(p, 8 * MiB) == CUDA_SUCCESS && HAS(0, 8));
	check(cuMemFree_v2(p) == CUDA_SUCCESS && HAS(0, 8));
	close(fd);
	check(cuMemGetInfo_v2(&free, &total) == CUDA_SUCCESS && HAS(0, 0));
	/* physical memory, exported by its mapping */
	check(cuMemCreate(&a, 4 * MiB, &exportable, 0) == CUDA_SUCCESS);
	check(cuMemMap(at, 4 * MiB, 0, a, 0) == CUDA_SUCCESS && HAS(4, 0));
	check(RANGE(at, 4 * MiB) == CUDA_SUCCESS && HAS(0, 4));
	check(cuMemRelease(a) == CUDA_SUCCESS && cuMemUnmap(at, 4 * MiB) == CUDA_SUCCESS);
	check(HAS(0, 4));
	close(fd);
	check(cuMemGetInfo_v2(&free, &total) == CUDA_SUCCESS && HAS(0, 0));
	/* a small allocation shares its block, so the exported part has a charge of its own */
	check(cuMemAlloc_v2(&p, 65536) == CUDA_SUCCESS && HAS(2, 0));
	check(RANGE(p, 65536) == CUDA_SUCCESS && HAS(2, 2));
	check(cuMemFree_v2(p) == CUDA_SUCCESS && HAS(0, 2));
	close(fd);
	check(cuMemGetInfo_v2(&free, &total) == CUDA_SUCCESS && HAS(0, 0));
#undef HAS
#undef RANGE
	rig_stop(d);
	return 0;
}

/* A daemon that does not count shared memory: each process that holds the memory is charged. */
static int exported_memory_without_counting_daemon(void *arg)
{
	return exported(false);
}

/*
 * A program that closes unknown descriptors also closes the one by which the hook watches exported
 * memory. The memory then stays charged.
 */
static int closed_watch_keeps_charge(void *arg)
{
	struct fake_daemon *d = start(0, 8 * GiB);
	CUmemGenericAllocationHandle a;
	size_t free, total;
	int fd;

	check(d && rig_context());
	check(cuMemCreate(&a, 4 * MiB, &exportable, 0) == CUDA_SUCCESS);
	check(cuMemExportToShareableHandle(&fd, a, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) ==
		CUDA_SUCCESS);
	check(cuMemRelease(a) == CUDA_SUCCESS && charged(d) == 4 * MiB);
	/* the hook's descriptors start at 500, the fake daemon's are lower */
	for (int i = 500; i < 600; i++)
		close(i);
	check(cuMemGetInfo_v2(&free, &total) == CUDA_SUCCESS && charged(d) == 4 * MiB);
	rig_stop(d);
	return 0;
}

/* An import trims freed shared and stream-ordered memory first, and only then fails. */
static int imports_trim_freed_memory(void *arg)
{
	const CUmemAllocationHandleType type = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	/* the record lock that another process's hook sets on an export: number 77, 4 MiB */
	struct flock tag = {.l_type = F_WRLCK, .l_start = 77, .l_len = 1024};
	struct fake_options options;
	struct fake_daemon *d;
	CUmemGenericAllocationHandle a;
	CUipcMemHandle handle;
	CUdeviceptr p;
	int ends[2];

	rig_options(&options);
	options.shares = true;
	d = rig_start(&options);
	check(d && rig_context() && !pipe(ends) && !fcntl(ends[1], F_OFD_SETLK, &tag));
	check(cuMemAlloc_v2(&p, 8 * MiB) == CUDA_SUCCESS);
	memset(&handle, 1, sizeof handle);
	check(cuIpcGetMemHandle(&handle, p) == CUDA_SUCCESS && fake_daemon_shared(d) == 8 * MiB);
	check(cuMemFreeAsync(p, NULL) == CUDA_SUCCESS);
	fake_daemon_reserve(d, ENOMEM);
	check(cuMemImportFromShareableHandle(&a, (void *)(intptr_t)ends[1], type) ==
		CUDA_ERROR_OUT_OF_MEMORY);
	check(charged(d) == 0 && fake_daemon_shared(d) == 0);
	fake_daemon_reserve(d, 0);
	check(cuMemImportFromShareableHandle(&a, (void *)(intptr_t)ends[1], type) == CUDA_SUCCESS);
	check(charged(d) == 0 && fake_daemon_shared(d) == 4 * MiB);
	check(cuMemRelease(a) == CUDA_SUCCESS && fake_daemon_shared(d) == 0);
	rig_stop(d);
	return 0;
}

/* A descriptor that no hook exported does not give its size: the hook learns it from mappings. */
static int imports_of_unknown_size(void *arg)
{
	struct fake_daemon *d = start(0, CONTEXT_BYTES + 8 * MiB);
	CUmemGenericAllocationHandle a;
	int ends[2];

	check(d && rig_context() && !pipe(ends));
	check(cuMemImportFromShareableHandle(&a, (void *)(intptr_t)ends[1],
		      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == CUDA_SUCCESS);
	check(cuMemMap(0x100000000, 4 * MiB, 0, a, 0) == CUDA_SUCCESS && charged(d) == 4 * MiB);
	check(cuMemMap(0x200000000, 4 * MiB, 0, a, 0) == CUDA_SUCCESS && charged(d) == 4 * MiB);
	check(cuMemMap(0x300000000, 16 * MiB, 0, a, 0) == CUDA_ERROR_OUT_OF_MEMORY);
	check(cuMemUnmap(0x100000000, 4 * MiB) == CUDA_SUCCESS);
	check(cuMemUnmap(0x200000000, 4 * MiB) == CUDA_SUCCESS && charged(d) == 4 * MiB);
	check(cuMemRelease(a) == CUDA_SUCCESS && charged(d) == 0);
	rig_stop(d);
	return 0;
}

/*
 * The memory of an exported pool pointer is charged as shared memory, and only the rest is charged
 * to the pool.
 */
static int exported_pool_pointers(void *arg)
{
	struct fake_options options;
	struct fake_daemon *d;
	CUmemPoolPtrExportData data;
	CUmemoryPool pool;
	CUdeviceptr p, q;

	rig_options(&options);
	options.shares = true;
	d = rig_start(&options);
	check(d && rig_context());
	check(cuMemAllocAsync(&p, 32 * MiB, NULL) == CUDA_SUCCESS && charged(d) == 32 * MiB);
	check(cuMemPoolExportPointer(&data, p) == CUDA_SUCCESS);
	check(charged(d) == 0 && fake_daemon_shared(d) == 32 * MiB);
	check(cuDeviceGetMemPool(&pool, 0) == CUDA_SUCCESS);
	check(cuMemPoolImportPointer(&q, pool, &data) == CUDA_SUCCESS && q != p);
	check(charged(d) == 0 && fake_daemon_shared(d) == 32 * MiB);
	/*
	 * freed by the exporter, the memory is charged to the pool again, and still to the importer
	 */
	check(cuMemFree_v2(p) == CUDA_SUCCESS);
	check(charged(d) == 32 * MiB && fake_daemon_shared(d) == 32 * MiB);
	check(cuMemFree_v2(q) == CUDA_SUCCESS);
	check(charged(d) == 32 * MiB && fake_daemon_shared(d) == 0);
	check(cuMemPoolTrimTo(pool, 0) == CUDA_SUCCESS && charged(d) == 0);
	rig_stop(d);
	return 0;
}

/* Another node could hold fabric memory, and the daemon of this node would not know. */
static int fabric_is_refused(void *arg)
{
	const CUmemAllocationHandleType type = CU_MEM_HANDLE_TYPE_FABRIC;
	struct fake_daemon *d = start(0, 8 * GiB);
	CUmemAllocationProp prop = exportable;
	CUmemPoolProps props = {.handleTypes = type};
	CUmemGenericAllocationHandle a;
	CUmemoryPool pool;
	char handle[64];

	prop.requestedHandleTypes = type;
	check(d && rig_context());
	check(cuMemCreate(&a, 4 * MiB, &prop, 0) == CUDA_ERROR_NOT_SUPPORTED && charged(d) == 0);
	check(cuMemExportToShareableHandle(handle, 1, type, 0) == CUDA_ERROR_NOT_SUPPORTED);
	check(cuMemImportFromShareableHandle(&a, handle, type) == CUDA_ERROR_NOT_SUPPORTED);
	check(cuMemPoolCreate(&pool, &props) == CUDA_ERROR_NOT_SUPPORTED);
	rig_stop(d);
	return 0;
}

/* ---- arrays, modules, graphs, contexts ---- */

#define PTX \
	".version 7.0\n.target sm_70\n.address_size 64\n" \
	".visible .global .align 4 .b8 big[6291456];\n"

static int arrays_modules_graphs_contexts(void *arg)
{
	const CUDA_ARRAY_DESCRIPTOR desc = {1024, 1024, CU_AD_FORMAT_FLOAT, 4};
	const CUDA_ARRAY3D_DESCRIPTOR sparse = {
		1024, 1024, 1, CU_AD_FORMAT_FLOAT, 4, CUDA_ARRAY3D_SPARSE};
	struct fake_daemon *d = start(0, 8 * GiB);
	CUarray array, empty;
	CUmodule module;
	CUgraphExec exec;
	CUdeviceptr p;
	CUgraph graph;
	CUcontext context, second;

	check(d);
	context = rig_context();
	check(context);
	check(cuArrayCreate_v2(&array, &desc) == CUDA_SUCCESS && charged(d) == 18 * MiB);
	check(cuArray3DCreate_v2(&empty, &sparse) == CUDA_SUCCESS && charged(d) == 18 * MiB);
	check(cuArrayDestroy(array) == CUDA_SUCCESS && charged(d) == 0);
	/* the module's code takes a block too, which stays with the context for further modules */
	check(cuModuleLoadData(&module, PTX) == CUDA_SUCCESS && charged(d) == 8 * MiB);
	check(cuModuleUnload(module) == CUDA_SUCCESS && charged(d) == 2 * MiB);
	check(cuModuleLoadData(&module, PTX) == CUDA_SUCCESS && charged(d) == 8 * MiB);
	check(cuModuleUnload(module) == CUDA_SUCCESS && charged(d) == 2 * MiB);
	check(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 64 * MiB) == CUDA_SUCCESS);
	/* the limit's initial 1 KiB has taken a block of 2 MiB already */
	check(charged(d) == 64 * MiB);

	setenv("STUB_GRAPH_BYTES", "10485760", 1);
	check(cuGraphCreate(&graph, 0) == CUDA_SUCCESS);
	check(cuGraphInstantiateWithFlags(&exec, graph, 0) == CUDA_SUCCESS);
	check(charged(d) == 64 * MiB);
	for (int i = 0; i < 3; i++)
		check(cuGraphLaunch(exec, NULL) == CUDA_SUCCESS && charged(d) == 74 * MiB);
	check(cuDeviceGraphMemTrim(0) == CUDA_SUCCESS && charged(d) == 64 * MiB);
	check(cuGraphLaunch(exec, NULL) == CUDA_SUCCESS && charged(d) == 74 * MiB);
	check(cuDeviceGraphMemTrim(0) == CUDA_SUCCESS);

	/* destroying a context frees what was allocated in it, and nothing else */
	check(cuMemAlloc_v2(&p, 2 * MiB) == CUDA_SUCCESS && charged(d) == 66 * MiB);
	check(cuCtxCreate_v2(&second, 0, 0) == CUDA_SUCCESS);
	check(charged(d) == 66 * MiB + CONTEXT_BYTES);
	check(cuMemAlloc_v2(&p, 8 * MiB) == CUDA_SUCCESS && cuMemAlloc_v2(&p, 100) == CUDA_SUCCESS);
	check(charged(d) == 76 * MiB + CONTEXT_BYTES);
	check(cuCtxDestroy_v2(second) == CUDA_SUCCESS && charged(d) == 66 * MiB);
	check(cuCtxDestroy_v2(context) == CUDA_SUCCESS && rig_charged(d, 0) == 0);
	rig_stop(d);
	return 0;
}

/* ---- memory that CUDA reports to a tenant ---- */

static int reported_memory(void *arg)
{
	struct fake_daemon *d = start(0, GiB);
	size_t bytes_free, total, device;
	CUdeviceptr p;

	check(d && rig_context());
	check(cuDeviceTotalMem_v2(&device, 0) == CUDA_SUCCESS && device == GiB);
	check(cuMemAlloc_v2(&p, 256 * MiB) == CUDA_SUCCESS);
	check(cuMemGetInfo_v2(&bytes_free, &total) == CUDA_SUCCESS);
	check(total == GiB && bytes_free == GiB - CONTEXT_BYTES - 256 * MiB);
	/* a quota below the current use: free memory is 0, and the call succeeds */
	fake_daemon_quota(d, 64 * MiB);
	check(cuMemGetInfo_v2(&bytes_free, &total) == CUDA_SUCCESS);
	check(total == 64 * MiB && bytes_free == 0);
	check(cuMemAlloc_v2(&p, 1) == CUDA_ERROR_OUT_OF_MEMORY);
	rig_stop(d);
	return 0;
}

/* For every quota, one allocation can take all memory that is reported as free. */
static int free_memory_is_allocatable(void *arg)
{
	const uint64_t odd = 3 * GiB + 1234567;
	struct fake_daemon *d = start(0, odd);
	size_t bytes_free, total, device;
	CUdeviceptr p;

	/* a context's size need not be a multiple of 2 MiB */
	fake_daemon_measure(d, CONTEXT_BYTES + 20480);
	check(d && rig_context());
	check(cuDeviceTotalMem_v2(&device, 0) == CUDA_SUCCESS && device == 3 * GiB);
	check(cuMemGetInfo_v2(&bytes_free, &total) == CUDA_SUCCESS && total == device);
	check(bytes_free == 3 * GiB - CONTEXT_BYTES);
	check(cuMemAlloc_v2(&p, bytes_free) == CUDA_SUCCESS);
	check(cuMemGetInfo_v2(&bytes_free, &total) == CUDA_SUCCESS && bytes_free == 0);
	rig_stop(d);
	return 0;
}

/* ---- races: a tenant's threads and processes may take the quota, and never more ---- */

#define RACERS 4
#define ROUNDS 3000

struct racer {
	pthread_t thread;
	CUcontext context;
	struct fake_daemon *daemon;
	uint64_t quota;
	bool bad;
};

static void *race(void *arg)
{
	struct racer *r = arg;
	CUdeviceptr held[8] = {0};

	cuCtxSetCurrent(r->context);
	for (int i = 0; i < ROUNDS; i++) {
		CUdeviceptr *p = &held[i % 8];

		if (*p)
			r->bad |= cuMemFree_v2(*p) != CUDA_SUCCESS;
		*p = 0;
		if (cuMemAlloc_v2(p, (size_t)(1 + i % 7) * MiB) != CUDA_SUCCESS)
			*p = 0;
		r->bad |= rig_charged(r->daemon, 0) > r->quota;
	}
	for (int i = 0; i < 8; i++)
		r->bad |= held[i] && cuMemFree_v2(held[i]) != CUDA_SUCCESS;
	return NULL;
}

/* Waits for all contexts: an early process must not take the memory that they need. */
static void await_contexts(struct fake_daemon *d)
{
	while (rig_charged(d, 0) < 3 * CONTEXT_BYTES)
		usleep(1000);
}

static int racing_threads_and_processes(void *arg)
{
	uint64_t quota = CONTEXT_BYTES * 3 + 40 * MiB;
	struct fake_daemon *d = start(0, quota);
	struct racer racer[RACERS];
	int status, bad = 0;
	CUcontext context;
	pid_t pid[2];

	check(d);
	for (int i = 0; i < 2; i++) {
		pid[i] = fork();
		if (!pid[i]) {
			struct racer own = {.context = rig_context(), .daemon = d, .quota = quota};

			alarm(patience_s(PATIENCE_S));
			await_contexts(d);
			race(&own);
			_exit(own.bad || !own.context);
		}
	}
	context = rig_context();
	check(context);
	await_contexts(d);
	for (int i = 0; i < RACERS; i++) {
		racer[i] = (struct racer){.context = context, .daemon = d, .quota = quota};
		check(!pthread_create(&racer[i].thread, NULL, race, &racer[i]));
	}
	for (int i = 0; i < RACERS; i++) {
		pthread_join(racer[i].thread, NULL);
		bad += racer[i].bad;
	}
	for (int i = 0; i < 2; i++) {
		waitpid(pid[i], &status, 0);
		bad += status != 0;
	}
	check(!bad);
	/* all allocations are freed; the daemon removes the two children's contexts */
	check(rig_charged(d, 0) == 3 * CONTEXT_BYTES);
	rig_stop(d);
	return 0;
}

/* ---- wait and swap ---- */

struct waiter {
	pthread_t thread;
	CUcontext context;
	CUresult r;
	_Atomic bool done;
};

static void *wait_for_memory(void *arg)
{
	struct waiter *w = arg;
	CUdeviceptr p;

	cuCtxSetCurrent(w->context);
	w->r = cuMemAlloc_v2(&p, 4 * MiB);
	atomic_store(&w->done, true);
	return NULL;
}

static int allocation_waits_for_daemon(void *arg)
{
	struct fake_daemon *d = start(PAGE_MEM_RPC, 8 * GiB);
	struct waiter w = {.done = false};
	uint32_t asked;
	CUdeviceptr p;

	check(d);
	w.context = rig_context();
	check(w.context);
	asked = fake_daemon_count(d, MSG_MEM_RESERVE);
	fake_daemon_reserve(d, -1);
	check(!pthread_create(&w.thread, NULL, wait_for_memory, &w));
	check(fake_daemon_await(d, MSG_MEM_RESERVE, asked + 1));
	check(!atomic_load(&w.done) && charged(d) == 0);
	fake_daemon_reserve(d, 0);
	pthread_join(w.thread, NULL);
	check(w.r == CUDA_SUCCESS && charged(d) == 4 * MiB);
	/* a refusal by the daemon is always CUDA_ERROR_OUT_OF_MEMORY */
	fake_daemon_reserve(d, ENOMEM);
	check(cuMemAlloc_v2(&p, 4 * MiB) == CUDA_ERROR_OUT_OF_MEMORY && charged(d) == 4 * MiB);
	rig_stop(d);
	return 0;
}

/* The daemon corrects a context's charge to the device's answer: 200 MiB, not the expected 256. */
static int context_charge_is_corrected(void *arg)
{
	struct fake_daemon *d = start(0, 8 * GiB);

	check(d);
	fake_daemon_measure(d, 200 * MiB);
	check(rig_context() && rig_charged(d, 0) == 200 * MiB);
	rig_stop(d);
	return 0;
}

/* A limit below its initial value returns all that raising the limit had taken, and no more. */
static int context_limits(void *arg)
{
	struct fake_daemon *d = start(0, 8 * GiB);

	check(d && rig_context() && charged(d) == 0);
	for (int i = 0; i < 2; i++) {
		check(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 64 * MiB) == CUDA_SUCCESS);
		/* the limit's initial 1 KiB has taken a block of 2 MiB already */
		check(charged(d) == 62 * MiB);
		check(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 32 * MiB) == CUDA_SUCCESS);
		check(charged(d) == 30 * MiB);
		check(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 0) == CUDA_SUCCESS);
		check(charged(d) == 0);
	}
	rig_stop(d);
	return 0;
}

#define SCENARIO(name) \
	static void test_##name(void **state) \
	{ \
		rig_child(name, NULL); \
	}

SCENARIO(allocations_by_address)
SCENARIO(mixed_frees)
SCENARIO(full_pool_may_not_grow)
SCENARIO(physical_memory)
SCENARIO(exported_memory_is_counted_once)
SCENARIO(dma_bufs_keep_memory)
SCENARIO(exported_memory_without_counting_daemon)
SCENARIO(closed_watch_keeps_charge)
SCENARIO(imports_trim_freed_memory)
SCENARIO(imports_of_unknown_size)
SCENARIO(exported_pool_pointers)
SCENARIO(fabric_is_refused)
SCENARIO(arrays_modules_graphs_contexts)
SCENARIO(reported_memory)
SCENARIO(free_memory_is_allocatable)
SCENARIO(racing_threads_and_processes)
SCENARIO(allocation_waits_for_daemon)
SCENARIO(context_charge_is_corrected)
SCENARIO(context_limits)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_allocations_by_address),
		cmocka_unit_test(test_mixed_frees),
		cmocka_unit_test(test_full_pool_may_not_grow),
		cmocka_unit_test(test_physical_memory),
		cmocka_unit_test(test_exported_memory_is_counted_once),
		cmocka_unit_test(test_dma_bufs_keep_memory),
		cmocka_unit_test(test_exported_memory_without_counting_daemon),
		cmocka_unit_test(test_closed_watch_keeps_charge),
		cmocka_unit_test(test_imports_trim_freed_memory),
		cmocka_unit_test(test_imports_of_unknown_size),
		cmocka_unit_test(test_exported_pool_pointers),
		cmocka_unit_test(test_fabric_is_refused),
		cmocka_unit_test(test_arrays_modules_graphs_contexts),
		cmocka_unit_test(test_reported_memory),
		cmocka_unit_test(test_free_memory_is_allocatable),
		cmocka_unit_test(test_racing_threads_and_processes),
		cmocka_unit_test(test_allocation_waits_for_daemon),
		cmocka_unit_test(test_context_charge_is_corrected),
		cmocka_unit_test(test_context_limits),
	};

	return cmocka_run_group_tests_name("hook-memory", tests, NULL, NULL);
}
