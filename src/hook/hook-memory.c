/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The charges of the process and the table of their reasons. The slot of the shared counter has one
 * writer at a time, under memory_lock. The table has a lock of its own. No thread holds either lock
 * over a driver call or a wait.
 */
#include "hook/hook-memory.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "core/ledger-counter.h"
#include "hook/relax.h"
#include "hook/hook-share.h"

#define TABLE_FIRST 1024u
#define PAGES_NEVER (UINT64_MAX / 2)

uint64_t memory_pages(uint64_t bytes)
{
	if (bytes > UINT64_MAX / 4)
		return PAGES_NEVER;
	return (bytes + MEMORY_BLOCK - 1) / MEMORY_BLOCK * MEMORY_BLOCK_PAGES;
}

/* ---- the charge ---- */

static struct ledger_counter counter_of(struct device *d)
{
	return (struct ledger_counter){
		.tenant = d->tenant,
		.slot = &d->up->memory,
		.process = d->down->process,
	};
}

static int memory_reserve_pages(struct hook *h, struct device *d, uint64_t pages)
{
	struct ledger_counter counter = counter_of(d);
	uint64_t quota = atomic_load_explicit(&d->down->quota_bytes, memory_order_relaxed);
	int r;

	lock_take(&h->memory_lock);
	r = ledger_counter_reserve(&counter, pages, quota / PAGE_MEM_UNIT);
	lock_drop(&h->memory_lock);
	return r;
}

static void memory_release_pages(struct hook *h, struct device *d, uint64_t pages)
{
	struct ledger_counter counter = counter_of(d);

	lock_take(&h->memory_lock);
	ledger_counter_release(&counter, pages);
	lock_drop(&h->memory_lock);
}

static bool memory_asks_daemon(const struct device *d)
{
	return atomic_load_explicit(&d->down->flags, memory_order_relaxed) & PAGE_MEM_RPC;
}

static int memory_charge_pages(struct hook *h, struct device *d, uint64_t pages)
{
	int r;

	if (memory_asks_daemon(d)) {
		session_helper_start(h); /* the helper thread receives the answer */
		do
			r = session_ask(h, MSG_MEM_RESERVE, d, pages * PAGE_MEM_UNIT, NULL);
		while (r == -ENOTCONN && session_comes_back(h));
		/* without a daemon, the charge below still checks the last quota */
		if (r && r != -ENOTCONN)
			return -ENOMEM;
	}
	r = memory_reserve_pages(h, d, pages);
	if (r && memory_make_room(d, MEMORY_ENDED))
		r = memory_reserve_pages(h, d, pages);
	if (r && memory_make_room(d, MEMORY_WAIT))
		r = memory_reserve_pages(h, d, pages);
	if (r && memory_asks_daemon(d))
		session_tell(h, MSG_MEM_RELEASE, d, pages * PAGE_MEM_UNIT);
	return r;
}

int memory_charge(struct device *d, uint64_t pages)
{
	struct hook *h = hook_registered();
	int r;

	if (!h || !pages)
		return 0;
	if (atomic_load(&h->removed))
		return -ENODEV;
	r = memory_charge_pages(h, d, pages);
	if (r)
		atomic_fetch_add_explicit(&d->up->denied, 1, memory_order_relaxed);
	return r;
}

int memory_charge_once(struct device *d, uint64_t pages)
{
	struct hook *h = hook_registered();

	if (!h || !pages)
		return 0;
	return atomic_load(&h->removed) ? -ENODEV : memory_reserve_pages(h, d, pages);
}

CUresult memory_refusal(void)
{
	struct hook *h = hook_registered();

	return h && atomic_load(&h->removed) ? CUDA_ERROR_DEVICE_UNAVAILABLE
					     : CUDA_ERROR_OUT_OF_MEMORY;
}

void memory_charge_anyway(struct device *d, uint64_t pages)
{
	struct hook *h = hook_registered();
	struct ledger_counter counter;

	if (!h || !pages || pages > LEDGER_PAGES_MAX)
		return;
	counter = counter_of(d);
	lock_take(&h->memory_lock);
	ledger_counter_reserve(&counter, pages, LEDGER_PAGES_MAX);
	lock_drop(&h->memory_lock);
}

void memory_uncharge(struct device *d, uint64_t pages)
{
	struct hook *h = hook_registered();

	if (!h || !pages)
		return;
	memory_release_pages(h, d, pages);
	if (memory_asks_daemon(d))
		session_tell(h, MSG_MEM_RELEASE, d, pages * PAGE_MEM_UNIT);
}

void memory_hand_over(struct device *d, uint64_t pages)
{
	struct hook *h = hook_registered();

	if (h && pages)
		memory_release_pages(h, d, pages);
}

int memory_recharge(struct device *d, uint64_t from, uint64_t to)
{
	if (to > from)
		return memory_charge(d, to - from);
	memory_uncharge(d, from - to);
	return 0;
}

uint64_t memory_quota_bytes(const struct device *d)
{
	uint64_t bytes = atomic_load_explicit(&d->down->quota_bytes, memory_order_relaxed);

	return bytes < MEMORY_BLOCK ? bytes : bytes / MEMORY_BLOCK * MEMORY_BLOCK;
}

uint64_t memory_left_bytes(const struct device *d)
{
	uint64_t quota = atomic_load_explicit(&d->down->quota_bytes, memory_order_relaxed);
	uint64_t used = memory_used_bytes(d);

	return quota > used ? (quota - used) / MEMORY_BLOCK * MEMORY_BLOCK : 0;
}

uint64_t memory_used_bytes(const struct device *d)
{
	return ledger_counter_pages(d->tenant) * PAGE_MEM_UNIT;
}

struct device *memory_device(CUcontext *ret_context)
{
	struct thread *t = thread_get();
	struct context *c = t ? context_current(t) : NULL;

	if (!c)
		return NULL;
	*ret_context = c->handle;
	return c->device;
}

/* ---- the table of reasons ---- */

static uint64_t memory_hash_key(uint32_t kind, uint64_t key)
{
	return ((key ^ (uint64_t)kind << 56) * UINT64_C(0x9e3779b97f4a7c15)) >> 20;
}

static struct memory_record *memory_find_record(
	const struct memory_table *t, uint32_t kind, uint64_t key)
{
	if (!t->record)
		return NULL;
	for (uint64_t i = memory_hash_key(kind, key);; i++) {
		struct memory_record *r = &t->record[i & t->mask];

		if (r->kind == kind && r->key == key)
			return r;
		if (r->kind == MEMORY_NONE)
			return NULL;
	}
}

static void memory_insert_record(struct memory_table *t, const struct memory_record *record)
{
	uint64_t i = memory_hash_key(record->kind, record->key);

	while (t->record[i & t->mask].kind != MEMORY_NONE)
		i++;
	t->record[i & t->mask] = *record;
	t->used++;
}

static bool memory_grow_table(struct memory_table *t)
{
	uint64_t n = t->record ? 2 * (t->mask + 1) : TABLE_FIRST;
	struct memory_table bigger = {.mask = n - 1};

	bigger.record = hook_map(n * sizeof *bigger.record);
	if (!bigger.record)
		return false;
	for (uint64_t i = 0; t->record && i <= t->mask; i++) {
		if (t->record[i].kind != MEMORY_NONE)
			memory_insert_record(&bigger, &t->record[i]);
	}
	if (t->record)
		munmap(t->record, (t->mask + 1) * sizeof *t->record);
	*t = bigger;
	return true;
}

/* Moves later records of the probe sequence into the gap, so that no search ends early. */
static void memory_erase_record(struct memory_table *t, struct memory_record *r)
{
	uint64_t gap = (uint64_t)(r - t->record), i = gap;

	for (;;) {
		struct memory_record *next;
		uint64_t home;

		i = (i + 1) & t->mask;
		next = &t->record[i];
		if (next->kind == MEMORY_NONE)
			break;
		home = memory_hash_key(next->kind, next->key) & t->mask;
		if (((i - home) & t->mask) >= ((i - gap) & t->mask)) {
			t->record[gap] = *next;
			gap = i;
		}
	}
	t->record[gap].kind = MEMORY_NONE;
	t->used--;
}

bool memory_put(const struct memory_record *record)
{
	struct hook *h = hook_registered();
	struct memory_record *old;
	bool ok = true;

	if (!h)
		return true;
	lock_take(&h->table_lock);
	old = memory_find_record(&h->table, record->kind, record->key);
	if (old)
		*old = *record;
	else if ((h->table.used + 1) * 2 <= h->table.mask || memory_grow_table(&h->table))
		memory_insert_record(&h->table, record);
	else
		ok = false;
	lock_drop(&h->table_lock);
	return ok;
}

bool memory_take(enum memory_kind kind, uint64_t key, struct memory_record *ret_record)
{
	struct hook *h = hook_registered();
	struct memory_record *r;

	if (!h)
		return false;
	lock_take(&h->table_lock);
	r = memory_find_record(&h->table, kind, key);
	if (r) {
		*ret_record = *r;
		memory_erase_record(&h->table, r);
	}
	lock_drop(&h->table_lock);
	return r;
}

bool memory_get(enum memory_kind kind, uint64_t key, struct memory_record *ret_record)
{
	return memory_change(kind, key, 0, 0, 0, ret_record);
}

bool memory_change(enum memory_kind kind, uint64_t key, int refs, int64_t aux, int64_t pages,
	struct memory_record *ret_record)
{
	struct hook *h = hook_registered();
	struct memory_record *r;

	if (!h)
		return false;
	lock_take(&h->table_lock);
	r = memory_find_record(&h->table, kind, key);
	if (r) {
		r->refs = (uint32_t)((int)r->refs + refs);
		r->aux = (uint64_t)((int64_t)r->aux + aux);
		r->pages = (uint64_t)((int64_t)r->pages + pages);
		*ret_record = *r;
	}
	lock_drop(&h->table_lock);
	return r;
}

void memory_stamp(enum memory_kind kind, uint64_t key, uint64_t bytes)
{
	struct hook *h = hook_registered();
	struct memory_record *r;

	if (!h)
		return;
	lock_take(&h->table_lock);
	r = memory_find_record(&h->table, kind, key);
	if (r)
		r->bytes = bytes;
	lock_drop(&h->table_lock);
}

bool memory_set_share(enum memory_kind kind, uint64_t key, uint64_t share)
{
	struct hook *h = hook_registered();
	struct memory_record *r;
	bool is_set = false;

	if (!h)
		return false;
	lock_take(&h->table_lock);
	r = memory_find_record(&h->table, kind, key);
	if (r && !r->share) {
		r->share = share;
		r->pages = 0;
		is_set = true;
	}
	lock_drop(&h->table_lock);
	return is_set;
}

bool memory_take_if(bool (*match)(const struct memory_record *, const void *), const void *arg,
	struct memory_record *ret_record)
{
	struct hook *h = hook_registered();
	bool found = false;

	if (!h)
		return false;
	lock_take(&h->table_lock);
	for (uint64_t i = 0; h->table.record && i <= h->table.mask && !found; i++) {
		struct memory_record *r = &h->table.record[i];

		if (r->kind == MEMORY_NONE || !match(r, arg))
			continue;
		*ret_record = *r;
		memory_erase_record(&h->table, r);
		found = true;
	}
	lock_drop(&h->table_lock);
	return found;
}

void memory_each(enum memory_kind kind, void (*fn)(struct memory_record *, void *), void *arg)
{
	struct hook *h = hook_registered();

	if (!h)
		return;
	lock_take(&h->table_lock);
	for (uint64_t i = 0; h->table.record && i <= h->table.mask; i++) {
		if (h->table.record[i].kind == kind)
			fn(&h->table.record[i], arg);
	}
	lock_drop(&h->table_lock);
}

/* ---- small allocations ---- */

/* The key needs no device, because one address space covers all devices. */
static uint64_t block_key(CUdeviceptr address)
{
	return address / MEMORY_BLOCK;
}

/*
 * Counts an allocation in the block that contains `address`, after the block was charged. Uncharges
 * the block again if an earlier allocation had charged it.
 */
static bool block_hold(struct device *d, CUcontext context, CUdeviceptr address)
{
	struct hook *h = hook_registered();
	struct memory_record *r,
		fresh = {
			.kind = MEMORY_BLOCKS,
			.key = block_key(address),
			.device = (uint8_t)d->index,
			.pages = MEMORY_BLOCK_PAGES,
			.refs = 1,
		};
	bool known = false, ok = true;

	lock_take(&h->table_lock);
	r = memory_find_record(&h->table, MEMORY_BLOCKS, fresh.key);
	known = r;
	if (r)
		r->refs++;
	else if ((h->table.used + 1) * 2 <= h->table.mask || memory_grow_table(&h->table))
		memory_insert_record(&h->table, &fresh);
	else
		ok = false;
	lock_drop(&h->table_lock);
	if (known)
		memory_uncharge(d, MEMORY_BLOCK_PAGES);
	return ok;
}

static void block_drop(struct device *d, uint64_t key)
{
	struct hook *h = hook_registered();
	struct memory_record *r;
	bool last = false;

	lock_take(&h->table_lock);
	r = memory_find_record(&h->table, MEMORY_BLOCKS, key);
	if (r && !--r->refs) {
		memory_erase_record(&h->table, r);
		last = true;
	}
	lock_drop(&h->table_lock);
	if (last)
		memory_uncharge(d, MEMORY_BLOCK_PAGES);
}

int memory_alloc_begin(struct memory_alloc *a, uint64_t bytes)
{
	*a = (struct memory_alloc){.bytes = bytes, .pages = memory_pages(bytes)};
	a->device = memory_device(&a->context);
	return a->device ? memory_charge(a->device, a->pages) : 0;
}

CUresult memory_alloc_end(struct memory_alloc *a, CUresult r, CUdeviceptr address)
{
	bool small = a->bytes < MEMORY_SMALL;
	struct memory_record record = {
		.kind = MEMORY_POINTER,
		.key = address,
		.bytes = a->bytes,
		.context = a->context,
	};

	if (!a->device)
		return r;
	if (r != CUDA_SUCCESS) {
		memory_uncharge(a->device, a->pages);
		return r;
	}
	record.device = (uint8_t)a->device->index;
	record.pages = small ? 0 : a->pages;
	record.aux = small ? block_key(address) : 0;
	if (memory_put(&record) && (!small || block_hold(a->device, a->context, address)))
		return CUDA_SUCCESS;
	/*
	 * The library's own table could not grow: the program's allocation fails, as it soon would
	 * without divvy.
	 */
	memory_take(MEMORY_POINTER, address, &record);
	REAL(cuMemFree_v2)(address);
	memory_uncharge(a->device, a->pages);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

void memory_record_uncharge(const struct memory_record *r)
{
	struct hook *h = hook_registered();
	struct device *d = h ? &h->device[r->device] : NULL;

	if (!d)
		return;
	if (r->share)
		share_drop(d, r->share);
	else if (r->kind == MEMORY_POINTER && !r->pages && r->aux)
		block_drop(d, r->aux);
	else
		memory_uncharge(d, r->pages);
}

CUresult memory_ended(CUresult r, bool known, const struct memory_record *record)
{
	if (known && r == CUDA_SUCCESS)
		memory_record_uncharge(record);
	else if (known)
		memory_put(record);
	return r;
}

void memory_free_begin(struct memory_free *f, CUdeviceptr address)
{
	f->known = memory_take(MEMORY_POINTER, address, &f->record);
}

void memory_free_end(struct memory_free *f, CUresult r, uintptr_t stream)
{
	struct memory_record pool;

	if (!f->known)
		return;
	if (r != CUDA_SUCCESS) {
		memory_put(&f->record);
		return;
	}
	if (!(f->record.flags & MEMORY_OF_POOL)) {
		if (stream == MEMORY_NOW)
			memory_record_uncharge(&f->record);
		else
			deferred_free(&f->record, stream);
		return;
	}
	/* charges the pool first, so that the memory is never uncharged in between */
	if (f->record.share) {
		memory_pool_share(f->record.aux, -(int64_t)share_size(f->record.share));
		memory_record_uncharge(&f->record);
	}
	/* the pool keeps freed memory until it gives it back to the device */
	if (memory_change(MEMORY_POOL, f->record.aux, -1, 0, 0, &pool) && !pool.refs &&
		(pool.flags & MEMORY_POOL_DESTROYED) &&
		memory_take(MEMORY_POOL, f->record.aux, &pool))
		memory_record_uncharge(&pool);
	else
		memory_pools_note_free();
}

/* ---- contexts ---- */

static bool ends_with(const struct memory_record *r, const void *context)
{
	return r->context == context;
}

void memory_context_destroyed(CUcontext context)
{
	struct memory_record r;

	deferred_settle(false);
	while (context && memory_take_if(ends_with, context, &r))
		memory_record_uncharge(&r);
	memory_pools_settle();
}

static uint64_t measured_pages(struct device *d)
{
	struct hook *h = hook_registered();
	uint64_t bytes = 0;

	if (!h || session_ask(h, MSG_MEASURE, d, 0, &bytes))
		return 0;
	return ledger_pages(bytes);
}

/*
 * Compares the memory that the device reports for this process with the charges. The difference
 * belongs to the context `c`.
 */
void memory_context_settle(struct context *c)
{
	struct hook *h = hook_registered();
	struct device *d = c->device;
	uint64_t seen = measured_pages(d);
	uint64_t held = ledger_slot_pages(&d->up->memory) + share_pages(d);

	if (!seen || seen == held)
		return;
	if (seen > held) {
		memory_charge_anyway(d, seen - held);
		c->pages += seen - held;
	} else if (c == h->context && h->contexts == 1 && held - seen < c->pages) {
		/*
		 * This is the process's first context, so the charges contain no reservation of
		 * another thread.
		 */
		memory_uncharge(d, held - seen);
		c->pages -= held - seen;
	}
}

void memory_context_reused(struct context *c)
{
	struct device *d = c->device;

	c->pages = ledger_pages(
		atomic_load_explicit(&d->down->context_bytes, memory_order_relaxed));
	memory_charge_anyway(d, c->pages);
	memory_context_settle(c);
}
