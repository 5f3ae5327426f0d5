/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The heap of a context, from which kernels take memory by malloc(). It is one allocation of device
 * memory. The engine keeps the lists of free blocks in its own memory, since a kernel may write
 * anywhere in the heap. Sizes are powers of two, and a block that was freed serves the next request
 * of its size. The loop makes and frees heaps; any thread may take blocks.
 */
#include "simgpu/engine-heap.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/cleanup.h"

/* UNIT: the smallest block, and the alignment of all. */
enum { UNIT_BITS = 4, CLASSES = 40 };
#define UNIT (UINT64_C(1) << UNIT_BITS)
#define NO_UNIT UINT32_MAX

struct heap {
	pthread_mutex_t lock;
	uint64_t base;
	uint32_t units, used;   /* the units from `used` on were never taken */
	uint32_t free[CLASSES]; /* first free block of UNIT << size_class bytes */
	uint32_t *next;         /* of a free block, by its first unit */
	uint8_t *classes;       /* of a taken block, by its first unit, plus 1; 0: none */
	const struct ptx_memory *memory;
	uint64_t taken; /* of the memory */
};

struct heap *heap_new(uint64_t base, uint64_t bytes, const struct ptx_memory *memory)
{
	struct heap *h = calloc(1, sizeof(*h));
	uint64_t units = bytes >> UNIT_BITS, taken = units * (sizeof(*h->next) + 1);

	if (!h || units >= NO_UNIT || !memory->take(memory->user, taken, false)) {
		free(h);
		return NULL;
	}
	h->memory = memory;
	h->taken = taken;
	pthread_mutex_init(&h->lock, NULL);
	h->base = base;
	h->units = (uint32_t)units;
	h->next = malloc((units + 1) * sizeof(*h->next));
	/* A heap may have a billion units: nothing touches them all, as the loop makes heaps. */
	h->classes = calloc(units + 1, 1);
	if (!h->next || !h->classes) {
		heap_free(h);
		return NULL;
	}
	for (uint32_t i = 0; i < CLASSES; i++)
		h->free[i] = NO_UNIT;
	return h;
}

void heap_free(struct heap *h)
{
	if (!h)
		return;
	h->memory->give(h->memory->user, h->taken);
	pthread_mutex_destroy(&h->lock);
	free(h->next);
	free(h->classes);
	free(h);
}

uint64_t heap_take(struct heap *h, uint64_t bytes)
{
	uint32_t size_class = 0, unit;

	if (bytes > (uint64_t)h->units << UNIT_BITS)
		return 0;
	while (UNIT << size_class < bytes)
		size_class++;
	pthread_mutex_lock(&h->lock);
	unit = h->free[size_class];
	if (unit != NO_UNIT) {
		h->free[size_class] = h->next[unit];
	} else if (UINT64_C(1) << size_class <= h->units - h->used) {
		unit = h->used;
		h->used += 1u << size_class;
	}
	if (unit != NO_UNIT)
		h->classes[unit] = (uint8_t)(size_class + 1);
	pthread_mutex_unlock(&h->lock);
	return unit == NO_UNIT ? 0 : h->base + ((uint64_t)unit << UNIT_BITS);
}

bool heap_give(struct heap *h, uint64_t address)
{
	const uint64_t unit = (address - h->base) >> UNIT_BITS;
	bool is_block;

	if (address < h->base || unit >= h->units || (address - h->base) % UNIT)
		return false;
	pthread_mutex_lock(&h->lock);
	is_block = h->classes[unit] != 0;
	if (is_block) {
		uint32_t *free_block = &h->free[h->classes[unit] - 1];

		h->next[unit] = *free_block;
		*free_block = (uint32_t)unit;
		h->classes[unit] = 0;
	}
	pthread_mutex_unlock(&h->lock);
	return is_block;
}
