/* SPDX-License-Identifier: Apache-2.0 */
/* Exports of all GATE lines of cuda.def, whose head explains the actions. Any thread. */
#include "hook/gate.h"
#include "hook/graph.h"

#define DIM3(x, y, z) ((uint64_t)(x) << 42 ^ (uint64_t)(y) << 21 ^ (z))

/* Makes the key of a launch from its function and shape. Never 0. */
static uint64_t gated_launch_key(uintptr_t what, uint64_t grid, uint64_t block)
{
	uint64_t key = what;

	key = (key ^ grid) * UINT64_C(0x9e3779b97f4a7c15);
	key = (key ^ key >> 32 ^ block) * UINT64_C(0x9e3779b97f4a7c15);
	return key ? key : 1;
}

static uint64_t key_of_config(uintptr_t what, const CUlaunchConfig *c)
{
	return gated_launch_key(what, DIM3(c->gridDimX, c->gridDimY, c->gridDimZ),
		DIM3(c->blockDimX, c->blockDimY, c->blockDimZ));
}

#define none ((CUstream)NULL)
#define HANDLE(variant, stream) stream_handle(HOOK_PER_THREAD_##variant, stream)
#define KEY_OF_NAME(name) gated_launch_key((uintptr_t)slow_##name, 0, 0)
#define FIRST(first, ...) first

#define GATED(name, rests, handle, key, params, args) \
	GATED_PARTS(name, rests, handle, key, params, args) \
	GATED_CHECK(EXPORT, name, name, handle, params, args)

#define SUBMITS(name, variant, stream, params, args) \
	GATED(name, false, HANDLE(variant, stream), KEY_OF_NAME(name), params, args)

/* These calls wait for the device, and the program may pause afterwards. */
#define SUBMITS_AND_WAITS(name, variant, stream, params, args) \
	GATED(name, true, HANDLE(variant, stream), KEY_OF_NAME(name), params, args)

#define SUBMITS_LIST(name, variant, stream, params, args) \
	GATED(name, false, \
		HANDLE(variant, \
			!launchParamsList || !numDevices ? NULL : launchParamsList[0].hStream), \
		KEY_OF_NAME(name), params, args)

#define LAUNCHES_CONFIG(name, variant, stream, params, args) \
	GATED(name, false, HANDLE(variant, config ? config->hStream : NULL), \
		config ? key_of_config((uintptr_t)f, config) : 0, params, args)

#if defined(__x86_64__)
#define LAUNCHES_CHECK(name, variant, stream, params, args) GATED_STACK_##variant(name)
#else
#define LAUNCHES_CHECK(name, variant, stream, params, args) \
	GATED_CHECK(EXPORT, name, name, HANDLE(variant, stream), params, args)
#endif

/*
 * These calls are the most frequent. The code after the check begins a cache line, wherever the
 * linker places the function.
 */
#define LAUNCHES(name, variant, stream, params, args) \
	static __attribute__((aligned(64))) CUresult go_##name params; \
	GATED_PARTS(name, false, HANDLE(variant, stream), \
		gated_launch_key((uintptr_t)f, DIM3(gridDimX, gridDimY, gridDimZ), \
			DIM3(blockDimX, blockDimY, blockDimZ)), \
		params, args) \
	LAUNCHES_CHECK(name, variant, stream, params, args)

#define LAUNCHES_GRAPH(name, variant, stream, params, args) \
	GATED_PARTS(name, false, HANDLE(variant, stream), \
		gated_launch_key((uintptr_t)FIRST args, 0, 0), params, args) \
	GATED_CHECK(static, gated_##name, name, HANDLE(variant, stream), params, args) \
	EXPORT CUresult name params \
	{ \
		struct graph_launch launch; \
		CUresult r; \
\
		if (likely(!graph_memory_used())) \
			return gated_##name args; \
		r = graph_launch_begin(&launch, FIRST args, HANDLE(variant, stream)); \
		if (r == CUDA_SUCCESS) \
			r = graph_launch_end(&launch, gated_##name args); \
		return r; \
	}

#define DO_GATE ~, SUBMITS
#define DO_GATE_CONFIG ~, LAUNCHES_CONFIG
#define DO_GATE_GRAPH ~, LAUNCHES_GRAPH
#define DO_GATE_KERNEL ~, LAUNCHES
#define DO_GATE_LIST ~, SUBMITS_LIST
#define DO_GATE_WAITS ~, SUBMITS_AND_WAITS
#define CU HOOK_DO
#include "cuda/cuda.def"
#undef CU

#if defined(__x86_64__)
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
