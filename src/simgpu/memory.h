/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of the simulated machine: addresses, physical memory of each device in 2 MiB granules,
 * and the bytes themselves. The bytes are at the device's address in the engine's own address
 * space, which is reserved at the start and committed when touched.
 *
 * Physical memory is counted for each owner (a process) and device, and the account hook gets every
 * change. An allocation of 1 MiB or more has granules of its own. Smaller ones share 2 MiB blocks
 * of their owner, device and context (address / 2 MiB names the block); a block is freed with its
 * last allocation. New addresses come in order from the first 2 TiB, or from more if these are
 * full. So an address is reused late, and tests notice a use after free.
 *
 * Functions return 0, -ENOMEM (no room on the device, or the engine is out of memory), -EINVAL,
 * -ENOENT (nothing at the address) or -EPERM (another owner's). One thread.
 */
#ifndef SIMGPU_MEMORY_H
#define SIMGPU_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "simgpu/simgpu-proto.h"
#include "simgpu/trace.h"

#define MEM_SMALL (UINT64_C(1) << 20) /* least size with granules of its own */
#define MEM_ALIGN 512u
#define MEM_NO_CTX UINT32_MAX

struct memory;
struct mem_region;
struct mem_phys;
struct mem_pool;

/* A process. The caller zeroes and owns the struct, and may read used[]. */
struct mem_owner {
	uint32_t pid;
	uint64_t used[SIMGPU_MAX_DEVICES];
	LIST_HEAD(, mem_region) regions;
	LIST_HEAD(, mem_pool) pools;
	LIST_HEAD(, mem_heap) heaps;
	void *user;
};

/* owner->user is NULL for memory that only descriptors keep. */
typedef void mem_account_fn(void *user, struct mem_owner *owner, uint32_t device,
	uint64_t owner_bytes, uint64_t device_bytes, enum simgpu_account_reason reason);

int mem_new(const uint64_t *total_bytes, uint32_t devices, mem_account_fn *account, void *user,
	struct memory **ret_m);
void mem_free_all(struct memory *m);

uint64_t mem_total(const struct memory *m, uint32_t device);
uint64_t mem_used(const struct memory *m, uint32_t device);

/* Counts memory without an address: contexts, code. Evicts managed memory if necessary. */
int mem_charge(struct memory *m, struct mem_owner *o, uint32_t device, uint64_t bytes,
	enum simgpu_account_reason reason);
void mem_uncharge(struct memory *m, struct mem_owner *o, uint32_t device, uint64_t bytes,
	enum simgpu_account_reason reason);

/*
 * kind: LINEAR, ARRAY, GLOBAL, GRAPH or MANAGED. For MANAGED the caller owns *ret_fd; otherwise
 * ret_fd may be NULL. Managed memory is not counted until a device uses it.
 */
int mem_alloc(struct memory *m, struct mem_owner *o, uint32_t ctx, uint32_t device,
	enum simgpu_mem_kind kind, uint64_t bytes, uint64_t *ret_ptr, int *ret_fd);
/* Frees an allocation of mem_alloc() or mem_pool_alloc() by its first address. */
int mem_free(struct memory *m, struct mem_owner *o, uint64_t ptr);
/*
 * Free all allocations of a context, or of a process. The caller may then reuse the process's
 * struct.
 */
void mem_free_ctx(struct memory *m, struct mem_owner *o, uint32_t ctx);
void mem_free_owner(struct memory *m, struct mem_owner *o);

struct mem_info {
	uint64_t base, bytes;
	enum simgpu_mem_kind kind;
	uint32_t device, ctx;
	struct mem_owner *owner;
	uint64_t id;             /* id of the memory's pool or VMM handle */
	uint64_t resident_bytes; /* managed memory: bytes that are on a device now */
};

/* Describes the allocation, mapping or reservation that contains the address; -ENOENT. */
int mem_query(const struct memory *m, uint64_t addr, struct mem_info *ret_info);

/* Checks that the process may access these bytes from the device. -EFAULT: it may not. */
int mem_check(const struct memory *m, const struct mem_owner *o, uint32_t device, uint64_t addr,
	uint64_t bytes, bool write);

/* The bytes around an address that a process may access from a device. */
struct mem_extent {
	uint64_t lo, hi;
	uint32_t device; /* that has the bytes */
	bool is_shared;  /* every device may access them: managed and mapped memory */
	bool can_write;
};
/*
 * -EFAULT: the process may not access the address. Owners and devices are those of mem_check(),
 * but the extent has all bytes up to the next allocation: as on hardware, a kernel that writes a
 * few bytes behind its memory does not fail.
 */
int mem_find_extent(const struct memory *m, const struct mem_owner *o, uint32_t device,
	uint64_t addr, struct mem_extent *ret);

static inline bool mem_is_device(uint64_t addr)
{
	return addr - SIMGPU_VA_BASE < SIMGPU_VA_SIZE;
}

/*
 * The device uses managed memory from now on: moves it in, and evicts the least recently used
 * memory. *ret_moved: bytes that cross the bus. Does nothing for other addresses.
 */
int mem_touch(struct memory *m, uint64_t addr, uint32_t device, uint64_t *ret_moved);
/* Moves managed memory back to the host. */
void mem_evict(struct memory *m, uint64_t addr, uint64_t *ret_moved);
/*
 * Begins a new use, such as a kernel. Memory that the use touches is not evicted for the same use.
 */
void mem_begin_use(struct memory *m);

/* ---- addresses and physical handles ---- */

int mem_reserve(struct memory *m, struct mem_owner *o, uint64_t bytes, uint64_t align,
	uint64_t hint, uint64_t *ret_ptr);
int mem_unreserve(struct memory *m, struct mem_owner *o, uint64_t ptr, uint64_t bytes);
int mem_phys_create(
	struct memory *m, struct mem_owner *o, uint32_t device, uint64_t bytes, uint64_t *ret_id);
int mem_phys_release(struct memory *m, struct mem_owner *o, uint64_t id);
int mem_phys_info(const struct memory *m, const struct mem_owner *o, uint64_t id,
	uint64_t *ret_bytes, uint32_t *ret_device);
/*
 * Returns a new descriptor, which the caller owns. Until its last copy is closed, the descriptor
 * keeps the memory, and any process can import a handle from the descriptor.
 */
int mem_phys_export(struct memory *m, const struct mem_owner *o, uint64_t id);
/*
 * This descriptor becomes readable when the last copy of an exported descriptor was closed: then
 * call mem_phys_settle().
 */
int mem_exports_fd(const struct memory *m);
void mem_phys_settle(struct memory *m);
int mem_phys_import(struct memory *m, struct mem_owner *o, int fd, uint64_t *ret_id);
int mem_phys_retain(struct memory *m, struct mem_owner *o, uint64_t addr, uint64_t *ret_id);
int mem_map(struct memory *m, struct mem_owner *o, uint64_t ptr, uint64_t bytes, uint64_t offset,
	uint64_t id);
int mem_unmap(struct memory *m, struct mem_owner *o, uint64_t ptr, uint64_t bytes);
/* access: 0, 1 read, 3 read and write */
int mem_set_access(struct memory *m, struct mem_owner *o, uint64_t ptr, uint64_t bytes,
	uint32_t device, uint32_t access);

/* ---- pools ---- */

/* chunk_bytes: least growth of the pool. max_bytes: 0 for no maximum. */
int mem_pool_create(struct memory *m, struct mem_owner *o, uint32_t device, uint64_t chunk_bytes,
	uint64_t max_bytes, uint64_t *ret_id);
/* Also finds a device's default pool by its id, and makes that pool at its first use. */
int mem_pool_get(struct memory *m, struct mem_owner *o, uint64_t id, uint64_t chunk_bytes,
	struct mem_pool **ret_pool);
/* Destroys a pool. The pool's memory stays until its last allocation is freed. */
int mem_pool_destroy(struct memory *m, struct mem_owner *o, uint64_t id);
int mem_pool_set(struct memory *m, struct mem_pool *pool, uint32_t attr, uint64_t value);
int mem_pool_read(const struct mem_pool *pool, uint32_t attr, uint64_t *ret_value);
void mem_pool_trim(struct memory *m, struct mem_pool *pool, uint64_t keep_bytes);
/* Returns whether a free of the pool's memory still waits in a stream. */
bool mem_pool_is_leaving(const struct mem_pool *pool);
/*
 * order: names the stream. Memory freed in the same stream may be allocated again before that free
 * has been executed.
 */
int mem_pool_alloc(
	struct memory *m, struct mem_pool *pool, uint64_t order, uint64_t bytes, uint64_t *ret_ptr);
/*
 * Call when a free was put into the stream `order`. Writes the ticket for mem_free_ticket(), or 0
 * if the address is no pool memory (then use mem_free()). -ENOENT, -EPERM.
 */
int mem_free_later(
	struct memory *m, struct mem_owner *o, uint64_t ptr, uint64_t order, uint64_t *ret_ticket);
/*
 * Call when the stream has reached the free. Does nothing if the memory was allocated again
 * meanwhile.
 */
void mem_free_ticket(struct memory *m, uint64_t ptr, uint64_t ticket);

/* ---- between processes ---- */

int mem_ipc_export(struct memory *m, struct mem_owner *o, uint64_t ptr, uint64_t *ret_key);
int mem_ipc_open(struct memory *m, struct mem_owner *o, uint64_t key, uint64_t *ret_ptr,
	uint64_t *ret_bytes);
/*
 * Closes an opened allocation. If its maker has freed the allocation, the last importer's close
 * frees the memory.
 */
int mem_ipc_close(struct memory *m, struct mem_owner *o, uint64_t ptr);

#endif
