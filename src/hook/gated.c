/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every GATE line of cuda.def. Copies to the host without a stream also wait for the device: a hint
 * that the program has come to rest.
 */
#include "hook/gate.h"
#include "hook/graph.h"

/*
 * Exports that do something more are made elsewhere or below; what is made here has another name.
 */
#define NAME_OF_cuGraphLaunch ~, gated_cuGraphLaunch
#define NAME_OF_cuGraphLaunch_ptsz ~, gated_cuGraphLaunch_ptsz

#define SCOPE_OF_cuGraphLaunch ~, static
#define SCOPE_OF_cuGraphLaunch_ptsz ~, static

#if defined(__x86_64__)
#define CHECK_OF_cuLaunchKernel ~, CHECK_ELSEWHERE
#define CHECK_OF_cuLaunchKernel_ptsz ~, CHECK_ELSEWHERE
#define CHECK_OF_cuLaunchCooperativeKernel ~, CHECK_ELSEWHERE
#define CHECK_OF_cuLaunchCooperativeKernel_ptsz ~, CHECK_ELSEWHERE
#endif
#define CHECK_ELSEWHERE(...)

#define RESTS_cuMemcpy ~, true
#define RESTS_cuMemcpy_ptds ~, true
#define RESTS_cuMemcpyDtoH ~, true
#define RESTS_cuMemcpyDtoH_v2 ~, true
#define RESTS_cuMemcpyDtoH_v2_ptds ~, true
#define RESTS_cuMemcpyAtoH ~, true
#define RESTS_cuMemcpyAtoH_v2 ~, true
#define RESTS_cuMemcpyAtoH_v2_ptds ~, true

/* Kernels are told apart by function and shape, graphs by themselves, all else by name. */
#define DIM3(x, y, z) ((uint64_t)(x) << 42 ^ (uint64_t)(y) << 21 ^ (z))
#define KEY_KERNEL \
	~, \
		key_of((uintptr_t)f, DIM3(gridDimX, gridDimY, gridDimZ), \
			DIM3(blockDimX, blockDimY, blockDimZ))
#define KEY_CONFIG ~, config ? key_of_config((uintptr_t)f, config) : 0
#define KEY_OF_cuLaunchKernel KEY_KERNEL
#define KEY_OF_cuLaunchKernel_ptsz KEY_KERNEL
#define KEY_OF_cuLaunchCooperativeKernel KEY_KERNEL
#define KEY_OF_cuLaunchCooperativeKernel_ptsz KEY_KERNEL
#define KEY_OF_cuLaunchKernelEx KEY_CONFIG
#define KEY_OF_cuLaunchKernelEx_ptsz KEY_CONFIG
#define KEY_OF_cuGraphLaunch ~, key_of((uintptr_t)hGraph, 0, 0)
#define KEY_OF_cuGraphLaunch_ptsz ~, key_of((uintptr_t)hGraphExec, 0, 0)

#define IS_NONE 0
#define IS_PTSZ 1
#define IS_PTDS 1

#define NAME_OF(name) PICK(NAME_OF_##name, name)
#define CHECK_OF(name) PICK(CHECK_OF_##name, GATED_CHECK)
#define RESTS(name) PICK(RESTS_##name, false)
#define SCOPE_OF(name) PICK(SCOPE_OF_##name, EXPORT)
#define KEY_OF(name) PICK(KEY_OF_##name, key_of((uintptr_t)slow_##name, 0, 0))
#define STREAM_OF(name, stream) PICK(STREAM_OF_##name, stream)

/* Never 0. */
static uint64_t key_of(uintptr_t what, uint64_t grid, uint64_t block)
{
	uint64_t key = what;

	key = (key ^ grid) * UINT64_C(0x9e3779b97f4a7c15);
	key = (key ^ key >> 32 ^ block) * UINT64_C(0x9e3779b97f4a7c15);
	return key ? key : 1;
}

static uint64_t key_of_config(uintptr_t what, const CUlaunchConfig *c)
{
	return key_of(what, DIM3(c->gridDimX, c->gridDimY, c->gridDimZ),
		DIM3(c->blockDimX, c->blockDimY, c->blockDimZ));
}

#define ACT_GATE(name, variant, stream, params, args) \
	GATED_PARTS(name, RESTS(name), IS_##variant, STREAM_OF(name, stream), KEY_OF(name), \
		params, args) \
	CHECK_OF(name) \
	(SCOPE_OF(name), NAME_OF(name), name, IS_##variant, STREAM_OF(name, stream), params, args)
#define ACT_PASS(name, variant, stream, params, args)
#define ACT_COUNT(name, variant, stream, params, args)
#define ACT_INFO(name, variant, stream, params, args)
#define ACT_SYNC(name, variant, stream, params, args)
#define ACT_CAPTURE(name, variant, stream, params, args)
#define ACT_CTX(name, variant, stream, params, args)
#define ACT_STREAM(name, variant, stream, params, args)
#define ACT_SYMBOL(name, variant, stream, params, args)
#define ACT_INIT(name, variant, stream, params, args)

#define CU(name, since, variant, action, stream, params, args) \
	ACT_##action(name, variant, stream, params, args)
#include "cuda/cuda.def"
#undef CU

#if defined(__x86_64__)
GATED_STACK_NONE(cuLaunchKernel)
GATED_STACK_PTSZ(cuLaunchKernel_ptsz)
GATED_STACK_NONE(cuLaunchCooperativeKernel)
GATED_STACK_PTSZ(cuLaunchCooperativeKernel_ptsz)

_Static_assert(offsetof(struct thread, last) == 0 && offsetof(struct thread, device) == 8 &&
		offsetof(struct thread, line) == 16 && offsetof(struct thread, gate) == 24,
	"gate.h");
_Static_assert(
	offsetof(struct stream, handle) == 0 && offsetof(struct stream, device) == 8, "gate.h");
_Static_assert(offsetof(struct device, special) == 16, "gate.h");
_Static_assert(offsetof(struct page_line, in_launch) == 0 && GATE_OPEN == 1, "gate.h");
_Static_assert(offsetof(struct stream_map, entry) == 16 && sizeof(struct stream_map_entry) == 16 &&
		offsetof(struct stream_map_entry, stream) == 8,
	"gate.h");
#endif

EXPORT CUresult cuGraphLaunch(CUgraphExec hGraph, CUstream hStream)
{
	struct graph_launch launch;
	CUresult r;

	if (likely(!graph_memory_used()))
		return gated_cuGraphLaunch(hGraph, hStream);
	r = graph_launch_begin(&launch, hGraph, (uintptr_t)hStream);
	if (r == CUDA_SUCCESS)
		r = graph_launch_end(&launch, gated_cuGraphLaunch(hGraph, hStream));
	return r;
}

EXPORT CUresult cuGraphLaunch_ptsz(CUgraphExec hGraphExec, CUstream hStream)
{
	struct graph_launch launch;
	CUresult r;

	if (likely(!graph_memory_used()))
		return gated_cuGraphLaunch_ptsz(hGraphExec, hStream);
	r = graph_launch_begin(
		&launch, hGraphExec, hStream ? (uintptr_t)hStream : STREAM_PER_THREAD);
	if (r == CUDA_SUCCESS)
		r = graph_launch_end(&launch, gated_cuGraphLaunch_ptsz(hGraphExec, hStream));
	return r;
}
