/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that a graph's own nodes allocate. The device reserves this memory at the first launch, so
 * the library charges it before that launch. The charge stays as long as the device keeps the
 * memory reserved. Any thread.
 */
#ifndef HOOK_GRAPH_H
#define HOOK_GRAPH_H

#include <stdbool.h>
#include <stdint.h>

#include "hook/hook.h"

struct graph_launch {
	struct device *device; /* NULL: nothing was charged */
	CUgraphExec exec;
	uint64_t pages;
};

extern _Atomic uint32_t graph_memory_execs;

/* Whether any executable graph of this process has allocated memory. */
static inline bool graph_memory_used(void)
{
	return atomic_load_explicit(&graph_memory_execs, memory_order_relaxed);
}

/* Charges the graph's memory. CUDA_SUCCESS, or CUDA_ERROR_OUT_OF_MEMORY: do not launch. */
CUresult graph_launch_begin(struct graph_launch *launch, CUgraphExec exec, uintptr_t stream);
CUresult graph_launch_end(struct graph_launch *launch, CUresult r);

/* Notes that *exec was instantiated from, or updated to, `graph`. Returns r. */
CUresult graph_instantiated(CUresult r, const CUgraphExec *exec, CUgraph graph);

#endif
