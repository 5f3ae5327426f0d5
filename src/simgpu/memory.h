/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of the simulated machine: addresses, physical memory of each device counted in 2 MiB
 * granules, and the bytes themselves, which live at the device's address in the engine's own
 * address space (reserved up front, committed when touched).
 *
 * Physical memory is counted per owner (a process) and device; every change is told to the account
 * hook. Allocations of 1 MiB and more have granules of their own; smaller ones are carved from
 * 2 MiB blocks (address / 2 MiB names the block) of their owner, device and context; a block is
 * given back with its last allocation. Addresses are not reused until all have been used once, so
 * that use after free is seen.
 *
 * Functions return 0 or -ENOMEM (no room on the device, or none of ours), -EINVAL, -ENOENT (nothing
 * there), -EPERM (not the caller's). One thread.
 */
#ifndef SIMGPU_MEMORY_H
#define SIMGPU_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "simgpu/proto.h"
#include "simgpu/trace.h"

#define MEM_SMALL (UINT64_C(1) << 20) /* from here on: granules of its own */
#define MEM_ALIGN 512u
#define MEM_NO_CTX UINT32_MAX

struct memory;
struct mem_region;
struct mem_phys;
struct mem_pool;

/* A process. Zeroed by the caller, its memory; used[] is for reading. */
struct mem_owner {
	uint32_t pid;
	uint64_t used[SIM_MAX_DEVICES];
	LIST_HEAD(, mem_region) regions;
	LIST_HEAD(, mem_pool) pools;
	LIST_HEAD(, mem_heap) heaps;
	void *user;
};

/* owner->user is NULL for memory that only descriptors keep. */
typedef void mem_account_fn(void *user, struct mem_owner *owner, uint32_t device,
	uint64_t owner_bytes, uint64_t device_bytes, enum sim_account_reason reason);

int mem_new(const uint64_t *total_bytes, uint32_t devices, mem_account_fn *account, void *user,
	struct memory **ret_m);
void mem_free_all(struct memory *m);

uint64_t mem_total(const struct memory *m, uint32_t device);
uint64_t mem_used(const struct memory *m, uint32_t device);

/* Counts memory that has no address: contexts, code. Evicts managed memory when it must. */
int mem_charge(struct memory *m, struct mem_owner *o, uint32_t device, uint64_t bytes,
	enum sim_account_reason reason);
void mem_uncharge(struct memory *m, struct mem_owner *o, uint32_t device, uint64_t bytes,
	enum sim_account_reason reason);

/* kind: LINEAR, ARRAY, GLOBAL, GRAPH or MANAGED (then *ret_fd, else may be NULL, is the caller's).
 * Nothing is counted for managed memory until a device uses it. */
int mem_alloc(struct memory *m, struct mem_owner *o, uint32_t ctx, uint32_t device,
	enum sim_mem_kind kind, uint64_t bytes, uint64_t *ret_ptr, int *ret_fd);
/* Anything from mem_alloc or mem_pool_alloc, by its beginning. */
int mem_free(struct memory *m, struct mem_owner *o, uint64_t ptr);
/* All of a context's allocations; all of a process (it may then be forgotten). */
void mem_free_ctx(struct memory *m, struct mem_owner *o, uint32_t ctx);
void mem_free_owner(struct memory *m, struct mem_owner *o);

struct mem_info {
	uint64_t base, bytes;
	enum sim_mem_kind kind;
	uint32_t device, ctx;
	struct mem_owner *owner;
	uint64_t id;             /* of its pool or VMM handle */
	uint64_t resident_bytes; /* managed */
};

/* The allocation, mapping or reservation that holds the address; -ENOENT. */
int mem_query(const struct memory *m, uint64_t addr, struct mem_info *ret_info);

/* May the process touch these bytes from that device? -EFAULT if not. */
int mem_check(const struct memory *m, const struct mem_owner *o, uint32_t device, uint64_t addr,
	uint64_t bytes, bool write);

static inline bool mem_is_device(uint64_t addr)
{
	return addr - SIM_VA_BASE < SIM_VA_SIZE;
}

/* Managed memory used by device from now on: moves it in, evicting the least recently used of
 * others. *ret_moved: bytes that had to cross the bus. Addresses elsewhere: nothing. */
int mem_touch(struct memory *m, uint64_t addr, uint32_t device, uint64_t *ret_moved);
/* Managed memory back to the host. */
void mem_evict(struct memory *m, uint64_t addr, uint64_t *ret_moved);
/* Begins a new use: what is touched until the next is not evicted for one another. */
void mem_begin_use(struct memory *m);

/* ---- addresses and physical handles ---- */

int mem_reserve(struct memory *m, struct mem_owner *o, uint64_t bytes, uint64_t align,
	uint64_t wish, uint64_t *ret_ptr);
int mem_unreserve(struct memory *m, struct mem_owner *o, uint64_t ptr, uint64_t bytes);
int mem_phys_create(
	struct memory *m, struct mem_owner *o, uint32_t device, uint64_t bytes, uint64_t *ret_id);
int mem_phys_release(struct memory *m, struct mem_owner *o, uint64_t id);
int mem_phys_info(const struct memory *m, const struct mem_owner *o, uint64_t id,
	uint64_t *ret_bytes, uint32_t *ret_device);
/*
 * A new descriptor, the caller's. It keeps the memory, and a handle can be imported from it, until
 * the last copy of it is closed.
 */
int mem_phys_export(struct memory *m, const struct mem_owner *o, uint64_t id);
/* Readable when a descriptor's last copy was closed: then call mem_phys_settle(). */
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

/* chunk_bytes: grows by at least this; max_bytes 0: no maximum. */
int mem_pool_create(struct memory *m, struct mem_owner *o, uint32_t device, uint64_t chunk_bytes,
	uint64_t max_bytes, uint64_t *ret_id);
/* With id: the default pool of a device, made at its first use. */
int mem_pool_get(struct memory *m, struct mem_owner *o, uint64_t id, uint64_t chunk_bytes,
	struct mem_pool **ret_pool);
/* Gone with its last allocation. */
int mem_pool_destroy(struct memory *m, struct mem_owner *o, uint64_t id);
int mem_pool_set(struct memory *m, struct mem_pool *pool, uint32_t attr, uint64_t value);
int mem_pool_read(const struct mem_pool *pool, uint32_t attr, uint64_t *ret_value);
void mem_pool_trim(struct memory *m, struct mem_pool *pool, uint64_t keep_bytes);
/* Has the pool memory whose free is in a stream that has not come to it? */
bool mem_pool_is_leaving(const struct mem_pool *pool);
/* order: names the stream; memory freed in the same one may be given again before the free has
 * been executed. */
int mem_pool_alloc(
	struct memory *m, struct mem_pool *pool, uint64_t order, uint64_t bytes, uint64_t *ret_ptr);
/* A free has been put into the stream `order`: ticket for mem_free_ticket(), 0 when it is not
 * pool memory (then free it with mem_free). -ENOENT, -EPERM */
int mem_free_later(
	struct memory *m, struct mem_owner *o, uint64_t ptr, uint64_t order, uint64_t *ret_ticket);
/* The stream has come to the free. Does nothing if the memory has been given again since. */
void mem_free_ticket(struct memory *m, uint64_t ptr, uint64_t ticket);

/* ---- between processes ---- */

int mem_ipc_export(struct memory *m, struct mem_owner *o, uint64_t ptr, uint64_t *ret_key);
int mem_ipc_open(struct memory *m, struct mem_owner *o, uint64_t key, uint64_t *ret_ptr,
	uint64_t *ret_bytes);
/* What its maker has freed is freed when the last importer has closed it. */
int mem_ipc_close(struct memory *m, struct mem_owner *o, uint64_t ptr);

#endif
