/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory of this process. The library charges the shared counter before it calls the driver,
 * and a table records the reason of each charge. The device gives out blocks of 2 MiB. A large
 * allocation is charged in whole blocks; small allocations (below 1 MiB) share the blocks that
 * contain their addresses. Any thread.
 */
#ifndef HOOK_HOOK_MEMORY_H
#define HOOK_HOOK_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "hook/hook.h"

#define MEMORY_BLOCK (UINT64_C(2) << 20)
#define MEMORY_SMALL (UINT64_C(1) << 20) /* smaller allocations share blocks */
#define MEMORY_BLOCK_PAGES (MEMORY_BLOCK / PAGE_MEM_UNIT)

/* ---- the charge ---- */

/*
 * Returns the pages of the whole 2 MiB blocks that `bytes` bytes occupy; UINT64_MAX / 2 if their
 * number would overflow.
 */
uint64_t memory_pages(uint64_t bytes);

/*
 * Reserves pages. With memory policy wait or swap, may block until there is room. Returns 0 or
 * -errno; after an error the caller returns memory_refusal() and does not call the driver. Call
 * without any lock of this library.
 */
int memory_charge(struct device *d, uint64_t pages);
/* Like memory_charge(), but takes only memory that is free now: never blocks, and frees nothing. */
int memory_charge_once(struct device *d, uint64_t pages);
/* Returns CUDA_ERROR_OUT_OF_MEMORY, or CUDA_ERROR_DEVICE_UNAVAILABLE if the tenant was removed. */
CUresult memory_refusal(void);
/* Charges memory that the device has allocated already, even beyond the quota. */
void memory_charge_anyway(struct device *d, uint64_t pages);
void memory_uncharge(struct device *d, uint64_t pages);
/* Removes a charge because the daemon itself charges this memory from now on. */
void memory_hand_over(struct device *d, uint64_t pages);
/*
 * Changes a charge from `from` pages to `to`. If memory_charge() fails, returns its error and
 * leaves the charge unchanged.
 */
int memory_recharge(struct device *d, uint64_t from, uint64_t to);

/*
 * The quota as programs see it: rounded down to whole blocks, all of which are usable. A quota
 * below one block is not rounded.
 */
uint64_t memory_quota_bytes(const struct device *d);
uint64_t memory_used_bytes(const struct device *d); /* use of the whole tenant */
/* Memory in whole blocks that the tenant can still allocate within its quota. */
uint64_t memory_left_bytes(const struct device *d);

/* Returns the device of the current context; NULL: the context's memory is not charged. */
struct device *memory_device(CUcontext *ret_context);

/* ---- the table of charges and their reasons ---- */

/* The comments say what a record's key is, and what its fields refs, pages, bytes and aux hold. */
enum memory_kind {
	MEMORY_NONE = 0,
	MEMORY_POINTER, /* key: device address */
	MEMORY_BLOCKS,  /* key: address / 2 MiB; refs: small allocations in this block */
	MEMORY_HANDLE,  /* of cuMemCreate; refs: references to the handle; aux: mappings */
	MEMORY_MAPPING, /* key: address of cuMemMap; aux: handle; bytes: size */
	MEMORY_ARRAY,
	MEMORY_MIPMAP,
	MEMORY_MODULE,
	MEMORY_LIBRARY,
	MEMORY_EXTERNAL,
	MEMORY_POOL,   /* refs: allocations; aux: pages charged as shared memory */
	MEMORY_GRAPH,  /* executable graph; bytes: pages of its nodes; aux: graph_epoch */
	MEMORY_SHARE,  /* key: see share_id_new(); refs: holds of this process */
	MEMORY_EXPORT, /* exported descriptor; key: as in the epoll set hook.share_set */
	MEMORY_IPC,    /* key: address of cuIpcOpenMemHandle; refs: number of openings */
};

enum memory_flags {
	/* MEMORY_POINTER: aux is the pool */
	MEMORY_OF_POOL = 1u << 0,
	/* MEMORY_POOL: exists until its last allocation is freed */
	MEMORY_POOL_DESTROYED = 1u << 1,
	/* MEMORY_GRAPH: the graph's memory is charged */
	MEMORY_LAUNCHED = 1u << 2,
	/* MEMORY_SHARE: charged to this process, not by the daemon */
	MEMORY_LOCAL = 1u << 3,
	/* MEMORY_HANDLE: imported; only the sizes of its mappings are known */
	MEMORY_UNSIZED = 1u << 4,
};

struct memory_record {
	uint64_t key;
	uint64_t pages; /* charged for the record's object */
	uint64_t bytes;
	uint64_t aux;
	uint64_t share;    /* number of the shared memory that holds the charge; 0: none */
	CUcontext context; /* the record ends with this context; NULL: with no context */
	uint8_t kind;
	uint8_t device; /* index in hook.device */
	uint16_t flags; /* enum memory_flags */
	uint32_t refs;
};

/*
 * Adds a record, or replaces the record with an equal key. False: out of memory, and the caller
 * undoes the allocation.
 */
bool memory_put(const struct memory_record *record);
/* Removes the record. */
bool memory_take(enum memory_kind kind, uint64_t key, struct memory_record *ret_record);
bool memory_get(enum memory_kind kind, uint64_t key, struct memory_record *ret_record);
/*
 * Adds to refs, aux and pages of a record in one step, and copies the result to *ret_record. False:
 * there is no record with that key.
 */
bool memory_change(enum memory_kind kind, uint64_t key, int refs, int64_t aux, int64_t pages,
	struct memory_record *ret_record);
/* Sets `bytes` of a record if it exists. */
void memory_stamp(enum memory_kind kind, uint64_t key, uint64_t bytes);
/*
 * Moves a record's charge to shared memory. False: there is no such record, or its charge was moved
 * before.
 */
bool memory_set_share(enum memory_kind kind, uint64_t key, uint64_t share);
/* Removes the first record for which `match` is true. False: none. */
bool memory_take_if(bool (*match)(const struct memory_record *, const void *), const void *arg,
	struct memory_record *ret_record);
void memory_each(enum memory_kind kind, void (*fn)(struct memory_record *, void *), void *arg);

/* ---- allocations by address ---- */

struct memory_alloc {
	struct device *device; /* NULL: not counted */
	CUcontext context;
	uint64_t bytes;
	uint64_t pages;
};

/* Charges `bytes` to the current context's device. Returns 0 or -ENOMEM. */
int memory_alloc_begin(struct memory_alloc *a, uint64_t bytes);
/*
 * Ends an allocation after the driver's answer r, and records the address on success. Returns the
 * result for the program.
 */
CUresult memory_alloc_end(struct memory_alloc *a, CUresult r, CUdeviceptr address);
/* Memory that is being freed, by any of the driver's functions. */
struct memory_free {
	struct memory_record record;
	bool known;
};
void memory_free_begin(struct memory_free *f, CUdeviceptr address);
/* stream: the stream whose work frees the memory; MEMORY_NOW: the call frees it at once. */
#define MEMORY_NOW UINTPTR_MAX
void memory_free_end(struct memory_free *f, CUresult r, uintptr_t stream);

/* ---- contexts ---- */

void memory_context_reused(struct context *c);
void memory_context_settle(struct context *c);
/* Removes the charges of all objects that ended with the context. */
void memory_context_destroyed(CUcontext context);

/* ---- pools and graphs (hook-pool.c, graph.c) ---- */

/*
 * Sets each pool's charge to the memory that the pool has reserved now. Returns whether any charge
 * fell.
 */
bool memory_pools_settle(void);
void memory_pools_note_free(void);
void memory_pool_share(uint64_t pool, int64_t pages);
/* Makes the device's pools give back unused memory. */
void memory_pools_trim(const struct device *d);

/* ---- frees in stream order (deferred.c) ---- */

/*
 * Keeps the memory charged until the stream (0: the legacy stream) has reached the free that was
 * just submitted.
 */
void deferred_free(const struct memory_record *record, uintptr_t stream);
/*
 * Removes the charges of completed frees; `wait`: first waits for all frees. Returns whether any
 * charge fell.
 */
bool deferred_settle(bool wait);

enum memory_effort { MEMORY_ENDED, MEMORY_WAIT };
/*
 * Called when a charge did not fit: recovers memory from frees and pools. Returns whether the
 * charge may fit now.
 */
bool memory_make_room(struct device *d, enum memory_effort effort);
void memory_record_uncharge(const struct memory_record *record);
/*
 * Removes a record's charge if the driver's result r shows that the record's object has ended.
 * known: the table had the record. Returns r.
 */
CUresult memory_ended(CUresult r, bool known, const struct memory_record *record);

#endif
