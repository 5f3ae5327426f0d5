/* SPDX-License-Identifier: Apache-2.0 */
/* The heap from which the kernels of a context take memory. */
#ifndef SIMGPU_ENGINE_HEAP_H
#define SIMGPU_ENGINE_HEAP_H

#include <stdbool.h>
#include <stdint.h>

#include "ptx/ptx.h"

struct heap;

/*
 * Makes a heap of device memory that the caller owns. The memory that the heap needs in the engine
 * is taken from `memory`, which must outlive the heap. NULL: no memory.
 */
struct heap *heap_new(uint64_t base, uint64_t bytes, const struct ptx_memory *memory);
void heap_free(struct heap *heap); /* accepts NULL */
/* Returns the address of a block, aligned to 16 bytes; 0: the heap is full. Any thread. */
uint64_t heap_take(struct heap *heap, uint64_t bytes);
/* Returns false if no block begins there. Any thread. */
bool heap_give(struct heap *heap, uint64_t address);

#endif
