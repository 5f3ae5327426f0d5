/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every name of cuda.def. A closed gate blocks each GATE line. A quota of zero refuses each COUNT
 * line that takes memory. Both are tested for each way to find the function: ELF symbol, dlsym,
 * cuGetProcAddress; legacy and per-thread streams. A new line of cuda.def is tested at once. A
 * COUNT line must also be in `takers` or `others`: the last test fails without it.
 */
#include "rig.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda/cuda-names.h"

/* All arguments are zero. No launch has more than eleven. */
typedef CUresult generic(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
	uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

static generic *const symbols[CUDA_ENTRIES] = {
#define CU(name, since, variant, action, stream, params, args, ...) (generic *)(void (*)(void))name,
#include "cuda/cuda.def"
#undef CU
};

enum route { ROUTE_ELF, ROUTE_DLSYM, ROUTE_PROC, ROUTES };

static generic *by_route(uint32_t i, enum route route)
{
	const struct cuda_name *name = &cuda_names[i];
	char base[64];
	void *found = NULL;

	if (route == ROUTE_ELF)
		return symbols[i];
	if (route == ROUTE_DLSYM) {
		found = dlsym(RTLD_DEFAULT, name->abi);
	} else {
		snprintf(base, sizeof base, "%.*s", (int)cuda_name_base(name->abi), name->abi);
		if (cuGetProcAddress_v2(base, &found, name->since,
			    name->variant == CUDA_VARIANT_NONE
				    ? CU_GET_PROC_ADDRESS_LEGACY_STREAM
				    : CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,
			    NULL) != CUDA_SUCCESS)
			found = NULL;
	}
	return (generic *)(uintptr_t)found;
}

struct call {
	generic *fn;
	_Atomic bool returned;
	CUcontext context;
};

static void *call_it(void *arg)
{
	struct call *call = arg;

	cuCtxSetCurrent(call->context);
	call->fn(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
	atomic_store(&call->returned, true);
	return NULL;
}

/* Only a blocked thread sends WANT; the gate opens after this message. */
static int gate_one(struct fake_daemon *d, CUcontext context, uint32_t i, enum route route)
{
	struct call call = {.fn = by_route(i, route), .context = context};
	uint32_t before = fake_daemon_count(d, MSG_WANT);
	pthread_t thread;

	if (!call.fn) {
		fprintf(stderr, "%s: route %d does not find it\n", cuda_names[i].abi, route);
		return 1;
	}
	fake_daemon_gate(d, false);
	check(!pthread_create(&thread, NULL, call_it, &call));
	while (fake_daemon_count(d, MSG_WANT) == before && !atomic_load(&call.returned))
		sched_yield();
	if (atomic_load(&call.returned)) {
		fprintf(stderr, "%s: route %d passes a closed gate\n", cuda_names[i].abi, route);
		return 1;
	}
	fake_daemon_gate(d, true);
	check(!pthread_join(thread, NULL));
	check(atomic_load(&call.returned));
	return 0;
}

static int gates(void *arg)
{
	struct fake_options options;
	struct fake_daemon *d;
	CUcontext context;
	uint32_t n = 0;

	rig_options(&options);
	d = rig_start(&options);
	check(d);
	context = rig_context();
	check(context);
	for (uint32_t i = 0; i < CUDA_ENTRIES; i++) {
		if (cuda_names[i].action != CUDA_ACTION_GATE)
			continue;
		for (int route = 0; route < ROUTES; route++) {
			if (gate_one(d, context, i, (enum route)route))
				return 1;
		}
		n++;
	}
	check(n > 100);
	rig_stop(d);
	return 0;
}

static void test_closed_gate_blocks_each_gate_line(void **state)
{
	rig_child(gates, NULL);
}

/* ---- memory ---- */

#define PTX ".version 7.0\n.target sm_70\n.address_size 64\n.visible .global .b8 big[4194304];\n"

static CUdeviceptr p64;
static CUdeviceptr_v1 p32;
static size_t pitch64;
static unsigned int pitch32;
static void *made;
static CUmemGenericAllocationHandle vmm;
static const CUDA_ARRAY_DESCRIPTOR_v1 array_v1 = {1024, 1024, CU_AD_FORMAT_FLOAT, 1};
static const CUDA_ARRAY_DESCRIPTOR array = {1024, 1024, CU_AD_FORMAT_FLOAT, 1};
static const CUDA_ARRAY3D_DESCRIPTOR_v1 array3_v1 = {256, 64, 64, CU_AD_FORMAT_FLOAT, 1, 0};
static const CUDA_ARRAY3D_DESCRIPTOR array3 = {256, 64, 64, CU_AD_FORMAT_FLOAT, 1, 0};
static const CUmemAllocationProp prop = {
	.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
};
static const CUDA_EXTERNAL_MEMORY_HANDLE_DESC external = {
	.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,
	.size = 4194304,
};
static char ptx_path[80];
static CUgraphExec graph_exec; /* allocates 4 MiB when launched */

#define A(x) ((uint64_t)(uintptr_t)(x))
#define BIG 4194304

/* Calls that allocate megabytes, with their arguments in order; further arguments are zero. */
static const struct taker {
	const char *name;
	uint64_t arg[6];
} takers[] = {
	{"cuArray3DCreate", {A(&made), A(&array3_v1)}},
	{"cuArray3DCreate_v2", {A(&made), A(&array3)}},
	{"cuArrayCreate", {A(&made), A(&array_v1)}},
	{"cuArrayCreate_v2", {A(&made), A(&array)}},
	{"cuCtxCreate", {A(&made), 0, 0}},
	{"cuCtxCreate_v2", {A(&made), 0, 0}},
	{"cuCtxCreate_v3", {A(&made), 0, 0, 0, 0}},
	{"cuCtxCreate_v4", {A(&made), 0, 0, 0}},
	{"cuCtxSetLimit", {CU_LIMIT_MALLOC_HEAP_SIZE, 64 * MiB}},
	{"cuDevicePrimaryCtxRetain", {A(&made), 0}},
	{"cuGLCtxCreate", {A(&made), 0, 0}},
	{"cuGLCtxCreate_v2", {A(&made), 0, 0}},
	{"cuGraphUpload", {A(&graph_exec)}},
	{"cuGraphUpload_ptsz", {A(&graph_exec)}},
	{"cuGreenCtxCreate", {A(&made), 0, 0, 0}},
	{"cuImportExternalMemory", {A(&made), A(&external)}},
	{"cuLibraryLoadData", {A(&made), A(PTX)}},
	{"cuLibraryLoadFromFile", {A(&made), A(ptx_path)}},
	{"cuMemAlloc", {A(&p32), BIG}},
	{"cuMemAlloc_v2", {A(&p64), BIG}},
	{"cuMemAllocAsync", {A(&p64), BIG, 0}},
	{"cuMemAllocAsync_ptsz", {A(&p64), BIG, 0}},
	{"cuMemAllocFromPoolAsync", {A(&p64), BIG, 0xb0, 0}},
	{"cuMemAllocFromPoolAsync_ptsz", {A(&p64), BIG, 0xb0, 0}},
	{"cuMemAllocManaged", {A(&p64), BIG, CU_MEM_ATTACH_GLOBAL}},
	{"cuMemAllocPitch", {A(&p32), A(&pitch32), 1024, 4096, 4}},
	{"cuMemAllocPitch_v2", {A(&p64), A(&pitch64), 1024, 4096, 4}},
	{"cuMemCreate", {A(&vmm), BIG, A(&prop), 0}},
	{"cuMipmappedArrayCreate", {A(&made), A(&array3), 2}},
	{"cuModuleLoad", {A(&made), A(ptx_path)}},
	{"cuModuleLoadData", {A(&made), A(PTX)}},
	{"cuModuleLoadDataEx", {A(&made), A(PTX), 0}},
	{"cuModuleLoadFatBinary", {A(&made), A(PTX)}},
	{"cuVDPAUCtxCreate", {A(&made), 0, 0}},
	{"cuVDPAUCtxCreate_v2", {A(&made), 0, 0}},
};

/* COUNT lines that free, share or rearrange memory that is already charged. */
static const char *const others[] = {
	"cuArrayDestroy",
	"cuCheckpointProcessCheckpoint",
	"cuCheckpointProcessRestore",
	"cuCtxAttach",
	"cuCtxDestroy",
	"cuCtxDestroy_v2",
	"cuCtxDetach",
	"cuDestroyExternalMemory",
	"cuDeviceGraphMemTrim",
	"cuDevicePrimaryCtxRelease",
	"cuDevicePrimaryCtxRelease_v2",
	"cuDevicePrimaryCtxReset",
	"cuDevicePrimaryCtxReset_v2",
	"cuDeviceSetGraphMemAttribute",
	"cuDeviceSetMemPool",
	"cuExternalMemoryGetMappedBuffer",
	"cuExternalMemoryGetMappedMipmappedArray",
	"cuFuncLoad",
	"cuGraphExecDestroy",
	"cuGraphExecUpdate",
	"cuGraphExecUpdate_v2",
	"cuGraphInstantiate",
	"cuGraphInstantiate_v2",
	"cuGraphInstantiateWithFlags",
	"cuGraphInstantiateWithParams",
	"cuGraphInstantiateWithParams_ptsz",
	"cuGreenCtxDestroy",
	"cuIpcCloseMemHandle",
	"cuIpcGetMemHandle",
	"cuIpcOpenMemHandle",
	"cuIpcOpenMemHandle_v2",
	"cuKernelGetFunction",
	"cuLibraryGetModule",
	"cuLibraryUnload",
	"cuMemExportToShareableHandle",
	"cuMemFree",
	"cuMemFree_v2",
	"cuMemFreeAsync",
	"cuMemFreeAsync_ptsz",
	"cuMemGetHandleForAddressRange",
	"cuMemImportFromShareableHandle",
	"cuMemMap",
	"cuMemMapArrayAsync",
	"cuMemMapArrayAsync_ptsz",
	"cuMemPoolCreate",
	"cuMemPoolDestroy",
	"cuMemPoolExportPointer",
	"cuMemPoolExportToShareableHandle",
	"cuMemPoolGetAttribute",
	"cuMemPoolImportFromShareableHandle",
	"cuMemPoolImportPointer",
	"cuMemPoolSetAccess",
	"cuMemPoolSetAttribute",
	"cuMemPoolTrimTo",
	"cuMemRelease",
	"cuMemRetainAllocationHandle",
	"cuMemSetMemPool",
	"cuMemUnmap",
	"cuMipmappedArrayDestroy",
	"cuModuleUnload",
	"cuMulticastCreate",
};

static const struct taker *taker_of(const char *name)
{
	for (size_t i = 0; i < sizeof takers / sizeof takers[0]; i++) {
		if (!strcmp(takers[i].name, name))
			return &takers[i];
	}
	return NULL;
}

static CUresult take(generic *fn, const struct taker *taker)
{
	uint64_t a[6];

	memcpy(a, taker->arg, sizeof a);
	if (a[0] == A(&graph_exec))
		a[0] = A(graph_exec);
	return fn(a[0], a[1], a[2], a[3], a[4], a[5], 0, 0, 0, 0, 0, 0);
}

static int quota_one(struct fake_daemon *d, uint32_t i, enum route route, uint64_t held)
{
	const struct taker *taker = taker_of(cuda_names[i].abi);
	generic *fn = by_route(i, route);
	CUresult r;

	if (!fn) {
		fprintf(stderr, "%s: route %d does not find it\n", cuda_names[i].abi, route);
		return 1;
	}
	fake_daemon_quota(d, 0);
	r = take(fn, taker);
	if (r != CUDA_ERROR_OUT_OF_MEMORY) {
		fprintf(stderr, "%s: route %d: %d instead of out of memory\n", taker->name, route,
			r);
		return 1;
	}
	if (rig_charged(d, 0) != held) {
		fprintf(stderr, "%s: route %d: refused, it is charged all the same\n", taker->name,
			route);
		return 1;
	}
	return 0;
}

static int quotas(void *arg)
{
	struct fake_options options;
	struct fake_daemon *d;
	uint64_t held;
	CUgraph graph;
	FILE *f;

	rig_options(&options);
	d = rig_start(&options);
	check(d);
	check(rig_context());
	setenv("STUB_GRAPH_BYTES", "4194304", 1);
	check(cuGraphCreate(&graph, 0) == CUDA_SUCCESS);
	check(cuGraphInstantiateWithFlags(&graph_exec, graph, 0) == CUDA_SUCCESS);
	snprintf(ptx_path, sizeof ptx_path, "%s/ptx", rig_folder());
	f = fopen(ptx_path, "we");
	check(f && fputs(PTX, f) >= 0 && !fclose(f));
	held = rig_charged(d, 0);
	check(held == CONTEXT_BYTES);
	for (uint32_t i = 0; i < CUDA_ENTRIES; i++) {
		if (cuda_names[i].action != CUDA_ACTION_COUNT || !taker_of(cuda_names[i].abi))
			continue;
		for (int route = 0; route < ROUTES; route++) {
			if (quota_one(d, i, (enum route)route, held))
				return 1;
		}
	}
	/* a graph launch is a submission too; the memory check comes before the gate */
	check(cuGraphLaunch(graph_exec, NULL) == CUDA_ERROR_OUT_OF_MEMORY);
	check(cuGraphLaunch_ptsz(graph_exec, NULL) == CUDA_ERROR_OUT_OF_MEMORY);
	/* with enough quota all calls reach the driver */
	fake_daemon_quota(d, 64 * GiB);
	for (size_t i = 0; i < sizeof takers / sizeof takers[0]; i++) {
		const struct cuda_name *name = cuda_name_by_abi(takers[i].name);

		if (take(symbols[name - cuda_names], &takers[i]) != CUDA_SUCCESS) {
			fprintf(stderr, "%s: refused with 64 GiB to take from\n", takers[i].name);
			return 1;
		}
	}
	check(rig_charged(d, 0) > held);
	rig_stop(d);
	return 0;
}

static void test_zero_quota_refuses_each_taker(void **state)
{
	rig_child(quotas, NULL);
}

static void test_each_count_line_is_listed(void **state)
{
	for (uint32_t i = 0; i < CUDA_ENTRIES; i++) {
		int listed = taker_of(cuda_names[i].abi) ? 1 : 0;

		for (size_t k = 0; k < sizeof others / sizeof others[0]; k++)
			listed += !strcmp(others[k], cuda_names[i].abi);
		if (listed != (cuda_names[i].action == CUDA_ACTION_COUNT))
			fail_msg("%s: listed %d times in this test, must be %d", cuda_names[i].abi,
				listed, cuda_names[i].action == CUDA_ACTION_COUNT);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_closed_gate_blocks_each_gate_line),
		cmocka_unit_test(test_zero_quota_refuses_each_taker),
		cmocka_unit_test(test_each_count_line_is_listed),
	};

	return cmocka_run_group_tests_name("hook-names", tests, NULL, NULL);
}
