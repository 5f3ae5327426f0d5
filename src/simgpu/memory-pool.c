/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small allocations and pools cut their regions into blocks. Each region keeps its blocks in a
 * sorted array, and free blocks merge with their neighbours. A block freed in a stream is "leaving"
 * until the stream reaches the free. Its ticket distinguishes this free from later ones.
 */
#include "simgpu/memory-internal.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

static void pool_settle(struct memory *m, struct mem_pool *pool, uint64_t keep);

/* ---- blocks ---- */

/* Returns the index of the block that contains the address. */
static uint32_t block_index(const struct mem_region *r, uint64_t addr)
{
	uint32_t lo = 0, hi = r->nblocks;

	while (hi - lo > 1) {
		uint32_t mid = (lo + hi) / 2;

		if (r->blocks[mid]->addr <= addr)
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}

static int block_insert(struct mem_region *r, uint32_t at, uint64_t addr, uint64_t bytes)
{
	struct mem_block *b;

	if (r->nblocks == r->cap) {
		uint32_t cap = r->cap ? 2 * r->cap : 16;
		struct mem_block **v = realloc(r->blocks, cap * sizeof(struct mem_block *));

		if (!v)
			return -ENOMEM;
		r->blocks = v;
		r->cap = cap;
	}
	b = calloc(1, sizeof(*b));
	if (!b)
		return -ENOMEM;
	b->addr = addr;
	b->bytes = bytes;
	b->region = r;
	memmove(&r->blocks[at + 1], &r->blocks[at], (r->nblocks - at) * sizeof(struct mem_block *));
	r->blocks[at] = b;
	r->nblocks++;
	LIST_INSERT_HEAD(&r->heap->free, b, link);
	return 0;
}

static void block_remove(struct mem_region *r, uint32_t at)
{
	free(r->blocks[at]);
	memmove(&r->blocks[at], &r->blocks[at + 1],
		(r->nblocks - at - 1) * sizeof(struct mem_block *));
	r->nblocks--;
}

static int heap_grow(struct memory *m, struct mem_heap *h, uint64_t bytes)
{
	struct mem_region *r;
	int ret;

	ret = mem_region_alloc(m, h->owner, h->device, mem_round_up(bytes, SIMGPU_GRANULE),
		h->pool ? SIMGPU_ACCOUNT_POOL : SIMGPU_ACCOUNT_ALLOC, &r);
	if (ret < 0)
		return ret;
	r->kind = h->kind;
	r->ctx = h->ctx;
	r->heap = h;
	ret = block_insert(r, 0, r->base, r->bytes);
	if (ret < 0) {
		mem_region_release(m, r, SIMGPU_ACCOUNT_FREE);
		return ret;
	}
	LIST_INSERT_HEAD(&h->regions, r, heap_link);
	if (h->pool) {
		h->pool->reserved += r->bytes;
		h->pool->reserved_high = MAX(h->pool->reserved_high, h->pool->reserved);
	}
	return 0;
}

static void heap_shrink(struct memory *m, struct mem_heap *h, struct mem_region *r)
{
	LIST_REMOVE(r, heap_link);
	for (uint32_t i = 0; i < r->nblocks; i++)
		LIST_REMOVE(r->blocks[i], link);
	if (h->pool)
		h->pool->reserved -= r->bytes;
	mem_region_release(m, r, h->pool ? SIMGPU_ACCOUNT_POOL : SIMGPU_ACCOUNT_FREE);
}

static int heap_take(struct mem_heap *h, uint64_t bytes, struct mem_block **ret_b)
{
	uint64_t need = mem_round_up(bytes, MEM_ALIGN);
	struct mem_block *b;
	uint32_t at;

	LIST_FOREACH(b, &h->free, link)
		if (b->bytes >= need)
			break;
	if (!b)
		return -ENOENT;
	if (b->bytes > need) {
		at = block_index(b->region, b->addr);
		if (block_insert(b->region, at + 1, b->addr + need, b->bytes - need) < 0)
			return -ENOMEM;
		b->bytes = need;
	}
	LIST_REMOVE(b, link);
	b->state = BLOCK_USED;
	b->asked = b->reach = bytes;
	b->region->used_blocks++;
	*ret_b = b;
	return 0;
}

/* Frees a block that is in no list, and merges it with free neighbours. */
static void block_free(struct mem_block *b)
{
	struct mem_region *r = b->region;
	struct mem_heap *h = r->heap;
	uint32_t at = block_index(r, b->addr);

	b->state = BLOCK_FREE;
	r->used_blocks--;
	if (at + 1 < r->nblocks && r->blocks[at + 1]->state == BLOCK_FREE) {
		b->bytes += r->blocks[at + 1]->bytes;
		LIST_REMOVE(r->blocks[at + 1], link);
		block_remove(r, at + 1);
	}
	if (at && r->blocks[at - 1]->state == BLOCK_FREE) {
		struct mem_block *left = r->blocks[at - 1];

		left->bytes += b->bytes;
		block_remove(r, at);
		return;
	}
	LIST_INSERT_HEAD(&h->free, b, link);
}

struct mem_heap *mem_heap_get(
	struct mem_owner *o, uint32_t ctx, uint32_t device, enum simgpu_mem_kind kind)
{
	struct mem_heap *h;

	LIST_FOREACH(h, &o->heaps, link)
		if (h->ctx == ctx && h->device == device && h->kind == kind)
			return h;
	h = calloc(1, sizeof(*h));
	if (!h)
		return NULL;
	*h = (struct mem_heap){.owner = o,
		.device = device,
		.ctx = ctx,
		.kind = kind,
		.grow_bytes = SIMGPU_GRANULE};
	LIST_INSERT_HEAD(&o->heaps, h, link);
	return h;
}

int mem_heap_alloc(struct memory *m, struct mem_heap *h, uint64_t bytes, uint64_t *ret_ptr)
{
	struct mem_block *b;
	int r = heap_take(h, bytes, &b);

	if (r == -ENOENT) {
		r = heap_grow(m, h, MAX(h->grow_bytes, bytes));
		if (r == -ENOMEM && bytes < h->grow_bytes)
			r = heap_grow(m, h, bytes);
		if (r < 0)
			return r;
		r = heap_take(h, bytes, &b);
	}
	if (r < 0)
		return r;
	*ret_ptr = b->addr;
	return 0;
}

struct mem_block *mem_block_at(const struct mem_region *r, uint64_t addr)
{
	return r->blocks[block_index(r, addr)];
}

void mem_block_free(struct memory *m, struct mem_block *b)
{
	struct mem_region *r = b->region;
	struct mem_heap *h = r->heap;

	if (h->pool) {
		if (b->state == BLOCK_LEAVING)
			LIST_REMOVE(b, link);
		h->pool->used -= b->bytes;
		block_free(b);
		pool_settle(m, h->pool, h->pool->destroyed ? 0 : h->pool->threshold);
		return;
	}
	block_free(b);
	if (!r->used_blocks)
		heap_shrink(m, h, r);
}

void mem_heaps_free(struct mem_owner *o, uint32_t ctx, bool all)
{
	struct mem_heap *h, *next;

	for (h = LIST_FIRST(&o->heaps); h; h = next) {
		next = LIST_NEXT(h, link);
		if (!all && h->ctx != ctx)
			continue;
		LIST_REMOVE(h, link);
		free(h);
	}
}

/* ---- pools ---- */

static struct mem_pool *pool_find(const struct mem_owner *o, uint64_t id)
{
	struct mem_pool *p;

	LIST_FOREACH(p, &o->pools, link)
		if (p->id == id && !p->destroyed)
			break;
	return p;
}

static int pool_new(struct memory *m, struct mem_owner *o, uint64_t id, uint32_t device,
	uint64_t chunk_bytes, struct mem_pool **ret_pool)
{
	struct mem_pool *p;

	if (device >= m->devices)
		return -EINVAL;
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->id = id;
	p->heap = (struct mem_heap){
		.owner = o,
		.pool = p,
		.device = device,
		.ctx = MEM_NO_CTX,
		.kind = SIMGPU_MEM_POOL,
		.grow_bytes = MIN(chunk_bytes, mem_round_up(m->total[device] / 64, SIMGPU_GRANULE)),
	};
	LIST_INSERT_HEAD(&o->pools, p, link);
	*ret_pool = p;
	return 0;
}

int mem_pool_create(struct memory *m, struct mem_owner *o, uint32_t device, uint64_t chunk_bytes,
	uint64_t max_bytes, uint64_t *ret_id)
{
	struct mem_pool *p;
	int r = pool_new(m, o, m->next_id, device, chunk_bytes, &p);

	if (r < 0)
		return r;
	p->max_bytes = max_bytes;
	*ret_id = m->next_id++;
	return 0;
}

int mem_pool_get(struct memory *m, struct mem_owner *o, uint64_t id, uint64_t chunk_bytes,
	struct mem_pool **ret_pool)
{
	struct mem_pool *p = pool_find(o, id);

	if (!p && id && id <= m->devices)
		return pool_new(m, o, id, (uint32_t)id - 1, chunk_bytes, ret_pool);
	if (!p)
		return -EINVAL;
	*ret_pool = p;
	return 0;
}

/* Frees unused regions while the pool reserves more than `keep`. */
static void pool_settle(struct memory *m, struct mem_pool *pool, uint64_t keep)
{
	struct mem_region *r, *next;

	for (r = LIST_FIRST(&pool->heap.regions); r; r = next) {
		next = LIST_NEXT(r, heap_link);
		if (!r->used_blocks && pool->reserved > keep)
			heap_shrink(m, &pool->heap, r);
	}
	if (pool->destroyed && LIST_EMPTY(&pool->heap.regions)) {
		LIST_REMOVE(pool, link);
		free(pool);
	}
}

void mem_pool_trim(struct memory *m, struct mem_pool *pool, uint64_t keep_bytes)
{
	pool_settle(m, pool, keep_bytes);
}

bool mem_pool_is_leaving(const struct mem_pool *pool)
{
	return !LIST_EMPTY(&pool->heap.leaving);
}

int mem_pool_destroy(struct memory *m, struct mem_owner *o, uint64_t id)
{
	struct mem_pool *p = pool_find(o, id);

	if (!p || id <= m->devices)
		return -EINVAL;
	p->destroyed = true;
	pool_settle(m, p, 0);
	return 0;
}

int mem_pool_set(struct memory *m, struct mem_pool *pool, uint32_t attr, uint64_t value)
{
	switch (attr) {
	case SIMGPU_POOL_RELEASE_THRESHOLD:
		pool->threshold = value;
		pool_settle(m, pool, value);
		return 0;
	case SIMGPU_POOL_RESERVED_HIGH:
		pool->reserved_high = pool->reserved;
		return value ? -EINVAL : 0;
	case SIMGPU_POOL_USED_HIGH: pool->used_high = pool->used; return value ? -EINVAL : 0;
	default: return -EINVAL;
	}
}

int mem_pool_read(const struct mem_pool *pool, uint32_t attr, uint64_t *ret_value)
{
	switch (attr) {
	case SIMGPU_POOL_RELEASE_THRESHOLD: *ret_value = pool->threshold; return 0;
	case SIMGPU_POOL_RESERVED_CURRENT: *ret_value = pool->reserved; return 0;
	case SIMGPU_POOL_RESERVED_HIGH: *ret_value = pool->reserved_high; return 0;
	case SIMGPU_POOL_USED_CURRENT: *ret_value = pool->used; return 0;
	case SIMGPU_POOL_USED_HIGH: *ret_value = pool->used_high; return 0;
	default: return -EINVAL;
	}
}

/*
 * Finds a block whose free waits in the same stream, and that is at most twice as large as needed.
 */
static struct mem_block *take_leaving(struct mem_heap *h, uint64_t order, uint64_t bytes)
{
	uint64_t need = mem_round_up(bytes, MEM_ALIGN);
	struct mem_block *b;

	LIST_FOREACH(b, &h->leaving, link) {
		if (b->order != order || b->bytes < need || b->bytes / 2 > need)
			continue;
		LIST_REMOVE(b, link);
		b->state = BLOCK_USED;
		b->asked = bytes;
		b->reach = MAX(b->reach, bytes);
		b->ticket = 0;
		return b;
	}
	return NULL;
}

int mem_pool_alloc(
	struct memory *m, struct mem_pool *pool, uint64_t order, uint64_t bytes, uint64_t *ret_ptr)
{
	struct mem_heap *h = &pool->heap;
	struct mem_block *b;
	int r;

	if (!bytes || pool->destroyed)
		return -EINVAL;
	if (bytes > m->total[h->device])
		return -ENOMEM;
	b = take_leaving(h, order, bytes);
	if (b) {
		*ret_ptr = b->addr;
		return 0;
	}
	r = heap_take(h, bytes, &b);
	if (r == -ENOENT) {
		uint64_t grow = MAX(h->grow_bytes, mem_round_up(bytes, SIMGPU_GRANULE));

		if (pool->max_bytes && pool->reserved + grow > pool->max_bytes)
			grow = mem_round_up(bytes, SIMGPU_GRANULE);
		if (pool->max_bytes && pool->reserved + grow > pool->max_bytes)
			return -ENOMEM;
		r = heap_grow(m, h, grow);
		if (r == -ENOMEM) {
			pool_settle(m, pool, 0);
			r = heap_grow(m, h, bytes);
		}
		if (r >= 0)
			r = heap_take(h, bytes, &b);
	}
	if (r < 0)
		return r;
	pool->used += b->bytes;
	pool->used_high = MAX(pool->used_high, pool->used);
	*ret_ptr = b->addr;
	return 0;
}

int mem_free_later(
	struct memory *m, struct mem_owner *o, uint64_t ptr, uint64_t order, uint64_t *ret_ticket)
{
	struct mem_region *r = mem_region_at(m, ptr);
	struct mem_block *b;

	if (!r || r->kind == SIMGPU_MEM_RESERVED || r->kind == SIMGPU_MEM_VMM)
		return -ENOENT;
	if (r->owner != o)
		return -EPERM;
	if (!r->heap || !r->heap->pool) {
		struct mem_info info;

		if (mem_query(m, ptr, &info) < 0 || info.base != ptr)
			return -ENOENT;
		*ret_ticket = 0;
		return 0;
	}
	b = mem_block_at(r, ptr);
	if (b->addr != ptr || b->state != BLOCK_USED)
		return -ENOENT;
	b->state = BLOCK_LEAVING;
	b->order = order;
	b->ticket = ++m->next_ticket;
	LIST_INSERT_HEAD(&r->heap->leaving, b, link);
	*ret_ticket = b->ticket;
	return 0;
}

void mem_free_ticket(struct memory *m, uint64_t ptr, uint64_t ticket)
{
	struct mem_region *r = mem_region_at(m, ptr);
	struct mem_block *b;

	if (!r || !r->heap)
		return;
	b = mem_block_at(r, ptr);
	if (b->state == BLOCK_LEAVING && b->ticket == ticket)
		mem_block_free(m, b);
}
