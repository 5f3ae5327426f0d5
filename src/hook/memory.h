/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this process holds of its tenants' memory: the charge on the shared counter, made before the
 * driver is asked, and a table of what each charge was for. Any thread. Bytes of the device are
 * taken in blocks of 2 MiB, as it gives them out: a large allocation in whole ones, small ones
 * (below 1 MiB) together by the blocks that their addresses lie in.
 */
#ifndef HOOK_MEMORY_H
#define HOOK_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "hook/hook.h"

#define MEMORY_BLOCK (UINT64_C(2) << 20)
#define MEMORY_SMALL (UINT64_C(1) << 20) /* smaller ones share blocks */
#define MEMORY_BLOCK_PAGES (MEMORY_BLOCK / PAGE_MEM_UNIT)

/* ---- the charge ---- */

/* Whole blocks of so many bytes, in pages; UINT64_MAX / 2 when the sum would not fit. */
uint64_t memory_pages(uint64_t bytes);

/*
 * Reserves; with policy wait or swap it may block until there is room. 0, or -errno: the caller
 * answers memory_refusal() and asks the driver nothing. Called without locks of ours held.
 */
int memory_charge(struct device *d, uint64_t pages);
/* As that, of what is free now: neither asks nor makes room. */
int memory_charge_once(struct device *d, uint64_t pages);
/* Out of memory, or, when the tenant has been removed, that there is no device. */
CUresult memory_refusal(void);
/* For what the device has given already: counts beyond the quota too. */
void memory_charge_anyway(struct device *d, uint64_t pages);
void memory_uncharge(struct device *d, uint64_t pages);
/* They are charged by the daemon from now on. */
void memory_hand_over(struct device *d, uint64_t pages);
/* From `from` pages charged to `to`; -ENOMEM and unchanged if more are not to be had. */
int memory_recharge(struct device *d, uint64_t from, uint64_t to);

/* For show: whole blocks, in which all of it can be had, unless it is less than one. */
uint64_t memory_quota_bytes(const struct device *d);
uint64_t memory_used_bytes(const struct device *d); /* of the tenant, all processes */
/* Whole blocks that can be had yet. */
uint64_t memory_left_bytes(const struct device *d);

/* The device of the current context; NULL: not counted. */
struct device *memory_device(CUcontext *ret_context);

/* ---- the table ---- */

enum memory_kind {
	MEMORY_NONE = 0,
	MEMORY_POINTER, /* device address */
	MEMORY_BLOCKS,  /* number of a 2 MiB block with small allocations; refs of them */
	MEMORY_HANDLE,  /* cuMemCreate; refs to the handle, aux mappings */
	MEMORY_MAPPING, /* address of cuMemMap; aux handle, bytes its size */
	MEMORY_ARRAY,
	MEMORY_MIPMAP,
	MEMORY_MODULE,
	MEMORY_LIBRARY,
	MEMORY_EXTERNAL,
	MEMORY_POOL,   /* refs: pointers out of it; pages: charged; aux: pages charged as shares */
	MEMORY_GRAPH,  /* executable graph; pages: what its nodes allocate */
	MEMORY_SHARE,  /* number of shared memory; refs: of this process (share.c) */
	MEMORY_EXPORT, /* a descriptor with memory, in the epoll set under that key */
	MEMORY_IPC,    /* address of cuIpcOpenMemHandle; refs: how often opened */
};

enum memory_flags {
	MEMORY_OF_POOL = 1u << 0,        /* pointer: aux is its pool */
	MEMORY_POOL_DESTROYED = 1u << 1, /* lives on until its last pointer is freed */
	MEMORY_LAUNCHED = 1u << 2,       /* graph: its memory is charged */
	MEMORY_LOCAL = 1u << 3,          /* share: charged to this process, not by the daemon */
	MEMORY_UNSIZED = 1u << 4,        /* handle: imported, and known only as far as mapped */
};

struct memory_record {
	uint64_t key;
	uint64_t pages; /* charged for it */
	uint64_t bytes;
	uint64_t aux;
	uint64_t share;    /* number of the shared memory that it is, which is charged; 0: none */
	CUcontext context; /* it ends with this one; NULL: with none */
	uint8_t kind;
	uint8_t device; /* in hook.device */
	uint16_t flags; /* of its kind */
	uint32_t refs;
};

/* False when out of memory: the caller undoes the allocation. An equal key is replaced. */
bool memory_put(const struct memory_record *record);
/* Removes it. */
bool memory_take(enum memory_kind kind, uint64_t key, struct memory_record *ret_record);
bool memory_get(enum memory_kind kind, uint64_t key, struct memory_record *ret_record);
/*
 * Adds to refs and aux of a record in one step; false if there is none. ret_record: as it is then.
 */
bool memory_change(enum memory_kind kind, uint64_t key, int refs, int64_t aux, int64_t pages,
	struct memory_record *ret_record);
/* Sets `bytes` of a record, if there is one. */
void memory_stamp(enum memory_kind kind, uint64_t key, uint64_t bytes);
/* What is charged for a record becomes shared memory's; false: none there, or it is already. */
bool memory_set_share(enum memory_kind kind, uint64_t key, uint64_t share);
/* As memory_take for the first record of that kind for which `match` says so; false: no more. */
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

/* Charges `bytes` to the current context's device. -ENOMEM. */
int memory_alloc_begin(struct memory_alloc *a, uint64_t bytes);
/* The driver has answered; on success the address is recorded. Returns what the program gets. */
CUresult memory_alloc_end(struct memory_alloc *a, CUresult r, CUdeviceptr address);
/* A free, by any of the driver's ways. */
struct memory_free {
	struct memory_record record;
	bool known;
};
void memory_free_begin(struct memory_free *f, CUdeviceptr address);
/* `stream`: in whose order it was freed; MEMORY_NOW: at once. */
#define MEMORY_NOW UINTPTR_MAX
void memory_free_end(struct memory_free *f, CUresult r, uintptr_t stream);

/* ---- contexts ---- */

void memory_context_adopted(struct context *c);
void memory_context_settle(struct context *c);
/* All that ended with it. */
void memory_context_gone(CUcontext context);

/* ---- pools and graphs (pool.c, graph.c) ---- */

/* Charges follow what pools have reserved now. Returns whether anything was given back. */
bool memory_pools_settle(void);
void memory_pools_note_free(void);
void memory_pool_share(uint64_t pool, int64_t pages);
/* The device's pools give back all that is not in use. */
void memory_pools_trim(const struct device *d);

/* ---- what is freed in the order of a stream (deferred.c) ---- */

/* Stays charged until the stream (0: the legacy one) has come to the free just handed to it. */
void deferred_free(const struct memory_record *record, uintptr_t stream);
/* Gives back what has ended, or waits for all of it. Returns whether anything was given back. */
bool deferred_settle(bool wait);

enum memory_effort { MEMORY_ENDED, MEMORY_WAIT };
/* A charge did not fit: makes frees and pools give back. Returns whether it may fit now. */
bool memory_make_room(struct device *d, enum memory_effort effort);
void memory_record_uncharge(const struct memory_record *record);
/* What the driver's r says of the end of what `known` says that the table had: returns r. */
CUresult memory_ended(CUresult r, bool known, const struct memory_record *record);

#endif
