/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files behind memory.h: memory.c (regions, plain and managed allocations),
 * memory-pool.c (blocks inside regions, pools), memory-vmm.c (reservations, handles, sharing). A
 * region is a range of whole granules with one backing. A table with an entry for each granule of
 * the arena finds the region of any address. All physical memory is counted by mem_count().
 */
#ifndef SIMGPU_MEMORY_INTERNAL_H
#define SIMGPU_MEMORY_INTERNAL_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "simgpu/memory.h"

#define GRANULES (SIMGPU_VA_SIZE / SIMGPU_GRANULE)
#define GRANULES_WRAP (UINT64_C(1) << 20) /* 2 TiB */

/* Of files that clients get, too: the engine would end if a client cut one. */
#define MEM_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

enum block_state { BLOCK_FREE, BLOCK_USED, BLOCK_LEAVING };

struct mem_block {
	uint64_t addr, bytes;
	uint64_t asked; /* bytes that the caller requested */
	/*
	 * largest request since the block was last free: work in flight may still use these bytes
	 */
	uint64_t reach;
	enum block_state state;
	uint64_t order, ticket; /* LEAVING: stream of the pending free, and number of that free */
	struct mem_region *region;
	LIST_ENTRY(mem_block) link; /* LEAVING or FREE: in the heap's list */
};

LIST_HEAD(mem_blocks, mem_block);

/* Divides regions into blocks, for small allocations and for pools. */
struct mem_heap {
	struct mem_owner *owner;
	struct mem_pool *pool; /* the pool that owns the heap, or NULL */
	uint32_t device, ctx;
	enum simgpu_mem_kind kind;
	uint64_t grow_bytes;
	struct mem_blocks free, leaving;
	LIST_HEAD(, mem_region) regions;
	LIST_ENTRY(mem_heap) link; /* in the owner's list of heaps; a pool's heap is in no list */
};

struct mem_pool {
	uint64_t id;
	struct mem_heap heap;
	bool destroyed;
	uint64_t max_bytes, threshold;
	uint64_t reserved, reserved_high, used, used_high;
	LIST_ENTRY(mem_pool) link;
};

struct mem_ref {
	struct mem_owner *owner;
	uint32_t count;
	LIST_ENTRY(mem_ref) link;
};

LIST_HEAD(mem_refs, mem_ref);

struct mem_phys {
	uint64_t id;
	struct mem_owner *charged;
	uint32_t device;
	uint32_t maps;
	uint32_t exports;
	uint64_t bytes;
	int fd;
	struct mem_refs refs;
	LIST_ENTRY(mem_phys) link;
};

/*
 * An exported descriptor is the writing end of a pipe. The reading end shows when no process has
 * the descriptor any more. Until then a process may import a handle from the descriptor.
 */
struct mem_export {
	struct mem_phys *phys;
	int read_end;
	ino_t ino;
	LIST_ENTRY(mem_export) link;
};

struct mem_region {
	uint64_t base, bytes; /* in bytes, multiples of the granule */
	uint64_t asked;
	enum simgpu_mem_kind kind;
	uint32_t device, ctx;
	struct mem_owner *owner;
	LIST_ENTRY(mem_region) link; /* in the owner's list of regions */
	LIST_ENTRY(mem_region) special_link;
	bool special; /* in the machine's list of special regions */
	/* blocks, sorted by address; NULL: a single allocation */
	struct mem_heap *heap;
	LIST_ENTRY(mem_region) heap_link;
	struct mem_block **blocks;
	uint32_t nblocks, cap, used_blocks;
	/* managed memory: device that holds the bytes (-1: the host), and number of the last use */
	int resident;
	uint64_t use;
	/* VMM mappings */
	struct mem_phys *phys;
	struct mem_region *within; /* the reservation */
	uint32_t mappings;         /* reservation: number of mappings inside */
	uint8_t access[SIMGPU_MAX_DEVICES];
	struct mem_refs importers;
	uint64_t ipc_key;
	/* the allocating process has freed the region; the last importer's close ends the region */
	bool is_orphan;
};

struct memory {
	uint32_t devices;
	uint64_t total[SIMGPU_MAX_DEVICES], used[SIMGPU_MAX_DEVICES];
	struct mem_region **table;
	uint64_t next; /* next granule to try */
	uint64_t wrap; /* end of the searched addresses; grows when no range below is free */
	/* Regions that are managed, mapped, or open in other processes. */
	LIST_HEAD(, mem_region) special;
	uint64_t next_id, next_ticket, use, use_begin;
	LIST_HEAD(, mem_phys) phys;
	LIST_HEAD(, mem_export) exports;
	int exports_epoll;       /* epoll set of each export's read_end */
	struct mem_owner nobody; /* owner of memory that only descriptors keep */
	mem_account_fn *account;
	void *user;
};

static inline uint64_t mem_round_up(uint64_t v, uint64_t to)
{
	return (v + to - 1) / to * to;
}

/* ---- memory.c ---- */

struct mem_region *mem_region_at(const struct memory *m, uint64_t addr);
/* Counts each change of the memory that an owner holds. */
void mem_count(struct memory *m, struct mem_owner *o, uint32_t device, int64_t change,
	enum simgpu_account_reason reason);
/*
 * Evicts managed memory until `bytes` fit; -ENOMEM. Adds the moved bytes to *moved unless it is
 * NULL.
 */
int mem_make_room(struct memory *m, uint32_t device, uint64_t bytes, uint64_t *moved);
/* *ret_next: where the search continues if the range is not free. */
bool mem_range_is_free(const struct memory *m, uint64_t g, uint64_t n, uint64_t *ret_next);
void mem_region_map(struct memory *m, const struct mem_region *at, struct mem_region *value);
int mem_back(uint64_t base, uint64_t bytes, int fd, uint64_t offset);
void mem_unback(uint64_t base, uint64_t bytes);
void mem_region_link(struct mem_owner *o, struct mem_region *r);
/* Adds the region to the list of special regions, for searches that know no address. */
void mem_region_list(struct memory *m, struct mem_region *r);
/*
 * mem_region_new() makes a range of addresses without memory, mem_region_alloc() one with memory of
 * the device.
 */
int mem_region_new(struct memory *m, struct mem_owner *o, uint64_t bytes, uint64_t align,
	struct mem_region **ret_r);
int mem_region_alloc(struct memory *m, struct mem_owner *o, uint32_t device, uint64_t bytes,
	enum simgpu_account_reason reason, struct mem_region **ret_r);
void mem_region_free(struct memory *m, struct mem_region *r);
void mem_region_release(struct memory *m, struct mem_region *r, enum simgpu_account_reason reason);
/*
 * Like mem_region_release(), but if another process has opened the region, it then belongs to that
 * process.
 */
void mem_region_leave(struct memory *m, struct mem_region *r, enum simgpu_account_reason reason);
struct mem_ref *mem_ref_find(const struct mem_refs *refs, const struct mem_owner *o);
int mem_ref_add(struct mem_refs *refs, struct mem_owner *o);
/* Returns true when the owner's last reference was dropped. */
bool mem_ref_drop(struct mem_refs *refs, const struct mem_owner *o, bool all);

/* ---- memory-pool.c ---- */

/* NULL: the engine is out of memory. */
struct mem_heap *mem_heap_get(
	struct mem_owner *o, uint32_t ctx, uint32_t device, enum simgpu_mem_kind kind);
int mem_heap_alloc(struct memory *m, struct mem_heap *h, uint64_t bytes, uint64_t *ret_ptr);
void mem_heaps_free(struct mem_owner *o, uint32_t ctx, bool all);
/* Returns the block that contains the address; the region has blocks. */
struct mem_block *mem_block_at(const struct mem_region *r, uint64_t addr);
void mem_block_free(struct memory *m, struct mem_block *b);

/* ---- memory-vmm.c ---- */

void mem_unmap_region(struct memory *m, struct mem_region *r);
void mem_exports_free(struct memory *m);
/* Drops all handles of a process that ends. */
void mem_drop_handles(struct memory *m, struct mem_owner *o);

#endif
