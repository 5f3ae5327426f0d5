/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Purpose and contract: memory.h. A region is a range of whole granules with one backing; a table
 * with one entry per granule of the arena finds the region of any address. Regions of small
 * allocations and of pools are cut into blocks, kept in a sorted array. Everything physical goes
 * through mem_charge() and mem_uncharge(), so the account cannot miss anything.
 */
#include "sim/memory.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"

#define GRANULES (SIM_VA_SIZE / SIM_GRANULE)
#define GRANULES_WRAP (UINT64_C(1) << 20) /* 2 TiB */

enum block_state { BLOCK_FREE, BLOCK_USED, BLOCK_LEAVING };

struct mem_block {
	uint64_t addr, bytes;
	uint64_t asked; /* bytes that the caller asked for */
	enum block_state state;
	uint64_t order, ticket; /* LEAVING: freed in this stream */
	struct mem_region *region;
	struct mem_block *next, *prev; /* LEAVING or FREE: in the heap's list */
};

/* Cuts regions into blocks: for small allocations and for pools. */
struct mem_heap {
	struct mem_owner *owner;
	struct mem_pool *pool; /* or NULL */
	uint32_t device, ctx;
	enum sim_mem_kind kind;
	uint64_t grow_bytes;
	struct mem_block *free, *leaving;
	struct mem_region *regions;
	struct mem_heap *next;
};

struct mem_pool {
	uint64_t id;
	struct mem_heap heap;
	bool destroyed;
	uint64_t max_bytes, threshold;
	uint64_t reserved, reserved_high, used, used_high;
	struct mem_pool *next;
};

struct mem_ref {
	struct mem_owner *owner;
	uint32_t count;
	struct mem_ref *next;
};

struct mem_phys {
	uint64_t id;
	struct mem_owner *charged;
	uint32_t device;
	uint32_t maps;
	uint64_t bytes;
	int fd;
	ino_t ino;
	struct mem_ref *refs;
	struct mem_phys *next;
};

struct mem_region {
	uint64_t base, bytes; /* granules */
	uint64_t asked;
	enum sim_mem_kind kind;
	uint32_t device, ctx;
	struct mem_owner *owner;
	struct mem_region *next, *prev; /* the owner's */
	struct mem_region *special_next, *special_prev;
	bool special; /* in the machine's list of those that are looked for */
	/* blocks, sorted by address; NULL: one allocation */
	struct mem_heap *heap;
	struct mem_region *heap_next;
	struct mem_block **blocks;
	uint32_t nblocks, cap, used_blocks;
	/* managed: where it is (device, or -1: host), and when it was used */
	int resident;
	uint64_t use;
	/* VMM mappings */
	struct mem_phys *phys;
	struct mem_region *within; /* the reservation */
	uint32_t mappings;         /* reservations */
	uint8_t access[SIM_MAX_DEVICES];
	struct mem_ref *importers;
	uint64_t ipc_key;
};

struct memory {
	uint32_t devices;
	uint64_t total[SIM_MAX_DEVICES], used[SIM_MAX_DEVICES];
	struct mem_region **table;
	uint64_t next; /* granule to look at next */
	uint64_t wrap; /* addresses begin again here; grows when nothing below is free */
	struct mem_region *special; /* managed, or opened by other processes, or mappings */
	uint64_t next_id, next_ticket, use, use_begin;
	struct mem_phys *phys;
	mem_account_fn *account;
	void *user;
};

int mem_new(const uint64_t *total_bytes, uint32_t devices, mem_account_fn *account, void *user,
	struct memory **ret_m)
{
	struct memory *m = calloc(1, sizeof(*m));
	void *arena;

	if (!m)
		return -ENOMEM;
	m->table = mmap(NULL, GRANULES * sizeof(*m->table), PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (m->table == MAP_FAILED) {
		free(m);
		return -ENOMEM;
	}
	arena = mmap((void *)SIM_VA_BASE, SIM_VA_SIZE, PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
	if (arena != (void *)SIM_VA_BASE) {
		if (arena != MAP_FAILED)
			munmap(arena, SIM_VA_SIZE);
		munmap(m->table, GRANULES * sizeof(*m->table));
		free(m);
		return -ENOMEM;
	}
	m->devices = devices;
	memcpy(m->total, total_bytes, devices * sizeof(*total_bytes));
	m->account = account;
	m->user = user;
	m->next = 1;
	m->wrap = GRANULES_WRAP;
	m->next_id = SIM_MAX_DEVICES + 1;
	*ret_m = m;
	return 0;
}

void mem_free_all(struct memory *m)
{
	if (!m)
		return;
	munmap((void *)SIM_VA_BASE, SIM_VA_SIZE);
	munmap(m->table, GRANULES * sizeof(*m->table));
	free(m);
}

uint64_t mem_total(const struct memory *m, uint32_t device)
{
	return m->total[device];
}

uint64_t mem_used(const struct memory *m, uint32_t device)
{
	return m->used[device];
}

static uint64_t round_up(uint64_t v, uint64_t to)
{
	return (v + to - 1) / to * to;
}

/* ---- counting ---- */

static struct mem_region *region_at(const struct memory *m, uint64_t addr)
{
	return mem_is_device(addr) ? m->table[(addr - SIM_VA_BASE) / SIM_GRANULE] : NULL;
}

static void count(struct memory *m, struct mem_owner *o, uint32_t device, int64_t change,
	enum sim_account_reason reason)
{
	m->used[device] += (uint64_t)change;
	o->used[device] += (uint64_t)change;
	m->account(m->user, o, device, o->used[device], m->used[device], reason);
}

static void region_evict(struct memory *m, struct mem_region *r)
{
	if (r->resident < 0)
		return;
	count(m, r->owner, (uint32_t)r->resident, -(int64_t)r->bytes, SIM_ACCOUNT_MIGRATE);
	r->resident = -1;
}

/* Least recently used managed memory on the device that the present use does not need. */
static struct mem_region *find_victim(const struct memory *m, uint32_t device)
{
	struct mem_region *victim = NULL;

	for (struct mem_region *r = m->special; r; r = r->special_next)
		if (r->kind == SIM_MEM_MANAGED && r->resident == (int)device &&
			r->use <= m->use_begin && (!victim || r->use < victim->use))
			victim = r;
	return victim;
}

static int make_room(struct memory *m, uint32_t device, uint64_t bytes, uint64_t *moved)
{
	if (bytes > m->total[device])
		return -ENOMEM;
	while (m->used[device] + bytes > m->total[device]) {
		struct mem_region *victim = find_victim(m, device);

		if (!victim)
			return -ENOMEM;
		if (moved)
			*moved += victim->asked;
		region_evict(m, victim);
	}
	return 0;
}

int mem_charge(struct memory *m, struct mem_owner *o, uint32_t device, uint64_t bytes,
	enum sim_account_reason reason)
{
	int r;

	bytes = round_up(bytes, SIM_GRANULE);
	r = make_room(m, device, bytes, NULL);
	if (r < 0)
		return r;
	if (bytes)
		count(m, o, device, (int64_t)bytes, reason);
	return 0;
}

void mem_uncharge(struct memory *m, struct mem_owner *o, uint32_t device, uint64_t bytes,
	enum sim_account_reason reason)
{
	bytes = round_up(bytes, SIM_GRANULE);
	assert(bytes <= o->used[device] && bytes <= m->used[device]);
	if (bytes)
		count(m, o, device, -(int64_t)bytes, reason);
}

/* ---- addresses ---- */

static bool range_is_free(const struct memory *m, uint64_t g, uint64_t n, uint64_t *ret_next)
{
	for (uint64_t i = g; i < g + n; i++) {
		const struct mem_region *r = m->table[i];

		if (!r)
			continue;
		*ret_next = (r->base - SIM_VA_BASE + r->bytes) / SIM_GRANULE;
		if (*ret_next <= i) /* a mapping inside a reservation */
			*ret_next = i + 1;
		return false;
	}
	return true;
}

/*
 * Next fit: an address comes again only after many others, so that use after free is seen; but not
 * after the whole arena, whose table would then all be in memory.
 */
static int find_range(struct memory *m, uint64_t n, uint64_t align, uint64_t *ret_g)
{
	uint64_t g = m->next;
	bool wrapped = false;

	for (;;) {
		uint64_t next;

		g = round_up(g, align);
		if (g + n > m->wrap) {
			if (wrapped && m->wrap == GRANULES)
				return -ENOMEM;
			if (wrapped)
				m->wrap = MIN(m->wrap * 2, (uint64_t)GRANULES);
			wrapped = true;
			g = align;
			continue;
		}
		if (range_is_free(m, g, n, &next))
			break;
		g = next;
	}
	m->next = g + n;
	*ret_g = g;
	return 0;
}

static void set_table(struct memory *m, const struct mem_region *at, struct mem_region *value)
{
	uint64_t g = (at->base - SIM_VA_BASE) / SIM_GRANULE;

	for (uint64_t i = 0; i < at->bytes / SIM_GRANULE; i++)
		m->table[g + i] = value;
}

static int back(uint64_t base, uint64_t bytes, int fd, uint64_t offset)
{
	int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	void *p = mmap((void *)base, bytes, PROT_READ | PROT_WRITE,
		flags | MAP_NORESERVE | MAP_FIXED, fd, (off_t)offset);

	return p == MAP_FAILED ? -ENOMEM : 0;
}

static void unback(uint64_t base, uint64_t bytes)
{
	void *p = mmap((void *)base, bytes, PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);

	/* Out of mappings: the bytes at least go. */
	if (p == MAP_FAILED)
		madvise((void *)base, bytes, MADV_DONTNEED);
}

static void owner_link(struct mem_owner *o, struct mem_region *r)
{
	r->owner = o;
	r->prev = NULL;
	r->next = o->regions;
	if (r->next)
		r->next->prev = r;
	o->regions = r;
}

static void owner_unlink(struct mem_region *r)
{
	if (r->prev)
		r->prev->next = r->next;
	else
		r->owner->regions = r->next;
	if (r->next)
		r->next->prev = r->prev;
}

/* Addresses without memory. */
static int region_new(struct memory *m, struct mem_owner *o, uint64_t bytes, uint64_t align,
	struct mem_region **ret_r)
{
	uint64_t g, n = round_up(bytes, SIM_GRANULE) / SIM_GRANULE;
	struct mem_region *r;
	int ret;

	if (!bytes || n > GRANULES / 2)
		return -ENOMEM;
	ret = find_range(m, n, MAX(align / SIM_GRANULE, UINT64_C(1)), &g);
	if (ret < 0)
		return ret;
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	r->base = SIM_VA_BASE + g * SIM_GRANULE;
	r->bytes = n * SIM_GRANULE;
	r->asked = bytes;
	r->ctx = MEM_NO_CTX;
	r->resident = -1;
	owner_link(o, r);
	set_table(m, r, r);
	*ret_r = r;
	return 0;
}

static void refs_free(struct mem_ref **refs)
{
	while (*refs) {
		struct mem_ref *ref = *refs;

		*refs = ref->next;
		free(ref);
	}
}

/* Into the list of those that are looked for by something else than an address. */
static void special_add(struct memory *m, struct mem_region *r)
{
	if (r->special)
		return;
	r->special = true;
	r->special_prev = NULL;
	r->special_next = m->special;
	if (r->special_next)
		r->special_next->special_prev = r;
	m->special = r;
}

static void special_del(struct memory *m, struct mem_region *r)
{
	if (!r->special)
		return;
	if (r->special_prev)
		r->special_prev->special_next = r->special_next;
	else
		m->special = r->special_next;
	if (r->special_next)
		r->special_next->special_prev = r->special_prev;
	r->special = false;
}

static void region_free(struct memory *m, struct mem_region *r)
{
	set_table(m, r, r->within);
	owner_unlink(r);
	special_del(m, r);
	for (uint32_t i = 0; i < r->nblocks; i++)
		free(r->blocks[i]);
	free(r->blocks);
	refs_free(&r->importers);
	free(r);
}

/* With memory of the device behind it. */
static int region_alloc(struct memory *m, struct mem_owner *o, uint32_t device, uint64_t bytes,
	enum sim_account_reason reason, struct mem_region **ret_r)
{
	struct mem_region *r;
	int ret;

	ret = make_room(m, device, round_up(bytes, SIM_GRANULE), NULL);
	if (ret < 0)
		return ret;
	ret = region_new(m, o, bytes, 0, &r);
	if (ret < 0)
		return ret;
	ret = back(r->base, r->bytes, -1, 0);
	if (ret < 0) {
		region_free(m, r);
		return ret;
	}
	r->device = device;
	count(m, o, device, (int64_t)r->bytes, reason);
	*ret_r = r;
	return 0;
}

static void region_release(struct memory *m, struct mem_region *r, enum sim_account_reason reason)
{
	if (r->kind == SIM_MEM_MANAGED)
		region_evict(m, r);
	else
		count(m, r->owner, r->device, -(int64_t)r->bytes, reason);
	unback(r->base, r->bytes);
	region_free(m, r);
}

/* ---- blocks ---- */

static void block_list_del(struct mem_block **head, struct mem_block *b)
{
	if (b->prev)
		b->prev->next = b->next;
	else
		*head = b->next;
	if (b->next)
		b->next->prev = b->prev;
	b->next = b->prev = NULL;
}

static void block_list_add(struct mem_block **head, struct mem_block *b)
{
	b->prev = NULL;
	b->next = *head;
	if (b->next)
		b->next->prev = b;
	*head = b;
}

/* Index of the block that holds the address. */
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
	block_list_add(&r->heap->free, b);
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

	ret = region_alloc(m, h->owner, h->device, round_up(bytes, SIM_GRANULE),
		h->pool ? SIM_ACCOUNT_POOL : SIM_ACCOUNT_ALLOC, &r);
	if (ret < 0)
		return ret;
	r->kind = h->kind;
	r->ctx = h->ctx;
	r->heap = h;
	ret = block_insert(r, 0, r->base, r->bytes);
	if (ret < 0) {
		region_release(m, r, SIM_ACCOUNT_FREE);
		return ret;
	}
	r->heap_next = h->regions;
	h->regions = r;
	if (h->pool) {
		h->pool->reserved += r->bytes;
		h->pool->reserved_high = MAX(h->pool->reserved_high, h->pool->reserved);
	}
	return 0;
}

static void heap_shrink(struct memory *m, struct mem_heap *h, struct mem_region *r)
{
	struct mem_region **p = &h->regions;

	while (*p != r)
		p = &(*p)->heap_next;
	*p = r->heap_next;
	for (uint32_t i = 0; i < r->nblocks; i++)
		block_list_del(r->blocks[i]->state == BLOCK_LEAVING ? &h->leaving : &h->free,
			r->blocks[i]);
	if (h->pool)
		h->pool->reserved -= r->bytes;
	region_release(m, r, h->pool ? SIM_ACCOUNT_POOL : SIM_ACCOUNT_FREE);
}

static int heap_take(struct mem_heap *h, uint64_t bytes, struct mem_block **ret_b)
{
	uint64_t need = round_up(bytes, MEM_ALIGN);
	struct mem_block *b;
	uint32_t at;

	for (b = h->free; b; b = b->next)
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
	block_list_del(&h->free, b);
	b->state = BLOCK_USED;
	b->asked = bytes;
	b->region->used_blocks++;
	*ret_b = b;
	return 0;
}

/* The block is in no list; joins its free neighbours. */
static void block_free(struct mem_block *b)
{
	struct mem_region *r = b->region;
	struct mem_heap *h = r->heap;
	uint32_t at = block_index(r, b->addr);

	b->state = BLOCK_FREE;
	r->used_blocks--;
	if (at + 1 < r->nblocks && r->blocks[at + 1]->state == BLOCK_FREE) {
		b->bytes += r->blocks[at + 1]->bytes;
		block_list_del(&h->free, r->blocks[at + 1]);
		block_remove(r, at + 1);
	}
	if (at && r->blocks[at - 1]->state == BLOCK_FREE) {
		struct mem_block *left = r->blocks[at - 1];

		left->bytes += b->bytes;
		block_remove(r, at);
		return;
	}
	block_list_add(&h->free, b);
}

/* ---- plain allocations ---- */

static struct mem_heap *heap_get(
	struct mem_owner *o, uint32_t ctx, uint32_t device, enum sim_mem_kind kind)
{
	struct mem_heap *h;

	for (h = o->heaps; h; h = h->next)
		if (h->ctx == ctx && h->device == device && h->kind == kind)
			return h;
	h = calloc(1, sizeof(*h));
	if (!h)
		return NULL;
	*h = (struct mem_heap){.owner = o,
		.device = device,
		.ctx = ctx,
		.kind = kind,
		.grow_bytes = SIM_GRANULE,
		.next = o->heaps};
	o->heaps = h;
	return h;
}

static int heap_alloc(struct memory *m, struct mem_heap *h, uint64_t bytes, uint64_t *ret_ptr)
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

static int alloc_managed(struct memory *m, struct mem_owner *o, uint64_t bytes,
	struct mem_region **ret_r, int *ret_fd)
{
	_cleanup_close_ int fd = -1;
	struct mem_region *r;
	int ret;

	fd = memfd_new("divvy-sim-managed", round_up(bytes, SIM_GRANULE));
	if (fd < 0)
		return -ENOMEM;
	ret = region_new(m, o, bytes, 0, &r);
	if (ret < 0)
		return ret;
	ret = back(r->base, r->bytes, fd, 0);
	if (ret < 0) {
		region_free(m, r);
		return ret;
	}
	*ret_r = r;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int mem_alloc(struct memory *m, struct mem_owner *o, uint32_t ctx, uint32_t device,
	enum sim_mem_kind kind, uint64_t bytes, uint64_t *ret_ptr, int *ret_fd)
{
	struct mem_region *r;
	int ret;

	if (!bytes || device >= m->devices || kind > SIM_MEM_MANAGED)
		return -EINVAL;
	if (bytes > m->total[device] && kind != SIM_MEM_MANAGED)
		return -ENOMEM;
	if (kind != SIM_MEM_MANAGED && bytes < MEM_SMALL) {
		struct mem_heap *h = heap_get(o, ctx, device, kind);

		return h ? heap_alloc(m, h, bytes, ret_ptr) : -ENOMEM;
	}
	if (kind == SIM_MEM_MANAGED)
		ret = alloc_managed(m, o, bytes, &r, ret_fd);
	else
		ret = region_alloc(m, o, device, bytes, SIM_ACCOUNT_ALLOC, &r);
	if (ret < 0)
		return ret;
	r->kind = kind;
	r->ctx = ctx;
	r->device = device;
	if (kind == SIM_MEM_MANAGED)
		special_add(m, r);
	*ret_ptr = r->base;
	return 0;
}

static struct mem_block *block_at(const struct mem_region *r, uint64_t addr)
{
	return r->blocks[block_index(r, addr)];
}

static void pool_settle(struct memory *m, struct mem_pool *pool, uint64_t keep);

static void free_block(struct memory *m, struct mem_block *b)
{
	struct mem_region *r = b->region;
	struct mem_heap *h = r->heap;

	if (h->pool) {
		if (b->state == BLOCK_LEAVING)
			block_list_del(&h->leaving, b);
		h->pool->used -= b->bytes;
		block_free(b);
		pool_settle(m, h->pool, h->pool->destroyed ? 0 : h->pool->threshold);
		return;
	}
	block_free(b);
	if (!r->used_blocks)
		heap_shrink(m, h, r);
}

static bool is_imported(const struct mem_region *r, const struct mem_owner *o)
{
	for (const struct mem_ref *ref = r->importers; ref; ref = ref->next)
		if (ref->owner == o)
			return true;
	return false;
}

int mem_free(struct memory *m, struct mem_owner *o, uint64_t ptr)
{
	struct mem_region *r = region_at(m, ptr);

	if (!r || r->kind == SIM_MEM_RESERVED || r->kind == SIM_MEM_VMM)
		return -ENOENT;
	if (r->owner != o)
		return -EPERM;
	if (r->heap) {
		struct mem_block *b = block_at(r, ptr);

		if (b->addr != ptr || b->state != BLOCK_USED)
			return -ENOENT;
		free_block(m, b);
		return 0;
	}
	if (r->base != ptr)
		return -ENOENT;
	region_release(m, r, SIM_ACCOUNT_FREE);
	return 0;
}

static void heaps_free(struct mem_owner *o, uint32_t ctx, bool all)
{
	struct mem_heap **p = &o->heaps;

	while (*p) {
		struct mem_heap *h = *p;

		if (!all && h->ctx != ctx) {
			p = &h->next;
			continue;
		}
		*p = h->next;
		free(h);
	}
}

void mem_free_ctx(struct memory *m, struct mem_owner *o, uint32_t ctx)
{
	struct mem_region *r, *next;

	for (r = o->regions; r; r = next) {
		next = r->next;
		if (r->ctx == ctx)
			region_release(m, r, SIM_ACCOUNT_FREE);
	}
	heaps_free(o, ctx, false);
}

/* ---- looking ---- */

int mem_query(const struct memory *m, uint64_t addr, struct mem_info *ret_info)
{
	const struct mem_region *r = region_at(m, addr);
	struct mem_info info;

	if (!r)
		return -ENOENT;
	info = (struct mem_info){
		.base = r->base,
		.bytes = r->asked,
		.kind = r->kind,
		.device = r->device,
		.ctx = r->ctx,
		.owner = r->owner,
	};
	if (r->phys)
		info.id = r->phys->id;
	if (r->kind == SIM_MEM_MANAGED && r->resident >= 0)
		info.resident_bytes = r->asked;
	if (r->heap) {
		const struct mem_block *b = block_at(r, addr);

		if (b->state != BLOCK_USED)
			return -ENOENT;
		info.base = b->addr;
		info.bytes = b->asked;
		if (r->heap->pool)
			info.id = r->heap->pool->id;
	}
	if (addr >= info.base + info.bytes && r->kind != SIM_MEM_VMM)
		return -ENOENT;
	*ret_info = info;
	return 0;
}

int mem_check(const struct memory *m, const struct mem_owner *o, uint32_t device, uint64_t addr,
	uint64_t bytes, bool write)
{
	uint64_t end = addr + bytes;

	if (end < addr)
		return -EFAULT;
	/* Mappings may lie side by side: go through them. */
	while (addr < end) {
		const struct mem_region *r = region_at(m, addr);
		struct mem_info info;

		if (mem_query(m, addr, &info) < 0) {
			/* Freed in its stream, but the stream has not come to it. */
			if (!r || !r->heap || block_at(r, addr)->state != BLOCK_LEAVING)
				return -EFAULT;
			info.base = block_at(r, addr)->addr;
			info.bytes = block_at(r, addr)->bytes;
		}
		if (r->owner != o && !is_imported(r, o))
			return -EFAULT;
		if (r->kind == SIM_MEM_RESERVED)
			return -EFAULT;
		if (r->kind == SIM_MEM_VMM && (r->access[device] & (write ? 2 : 1)) == 0)
			return -EFAULT;
		if (r->kind != SIM_MEM_VMM)
			return end <= info.base + info.bytes ? 0 : -EFAULT;
		addr = r->base + r->bytes;
	}
	return 0;
}

/* ---- managed memory ---- */

void mem_begin_use(struct memory *m)
{
	m->use_begin = m->use;
}

int mem_touch(struct memory *m, uint64_t addr, uint32_t device, uint64_t *ret_moved)
{
	struct mem_region *r = region_at(m, addr);
	uint64_t moved = 0;
	int ret;

	*ret_moved = 0;
	if (!r || r->kind != SIM_MEM_MANAGED)
		return 0;
	r->use = ++m->use;
	if (r->resident == (int)device)
		return 0;
	region_evict(m, r);
	ret = make_room(m, device, r->bytes, &moved);
	if (ret < 0)
		return ret;
	r->resident = (int)device;
	count(m, r->owner, device, (int64_t)r->bytes, SIM_ACCOUNT_MIGRATE);
	*ret_moved = moved + r->asked;
	return 0;
}

void mem_evict(struct memory *m, uint64_t addr, uint64_t *ret_moved)
{
	struct mem_region *r = region_at(m, addr);

	*ret_moved = 0;
	if (!r || r->kind != SIM_MEM_MANAGED || r->resident < 0)
		return;
	*ret_moved = r->asked;
	region_evict(m, r);
}

/* ---- reservations and handles ---- */

int mem_reserve(struct memory *m, struct mem_owner *o, uint64_t bytes, uint64_t align,
	uint64_t wish, uint64_t *ret_ptr)
{
	struct mem_region *r;
	uint64_t next, g = (wish - SIM_VA_BASE) / SIM_GRANULE, saved = m->next;
	int ret;

	if (!bytes || bytes % SIM_GRANULE || (align & (align - 1)))
		return -EINVAL;
	if (wish && wish % SIM_GRANULE == 0 && mem_is_device(wish) && bytes < SIM_VA_SIZE &&
		g + bytes / SIM_GRANULE <= GRANULES &&
		range_is_free(m, g, bytes / SIM_GRANULE, &next)) {
		m->next = g;
		m->wrap = MAX(m->wrap, g + bytes / SIM_GRANULE);
		ret = region_new(m, o, bytes, 0, &r);
		m->next = saved;
	} else {
		ret = region_new(m, o, bytes, align, &r);
	}
	if (ret < 0)
		return ret;
	r->kind = SIM_MEM_RESERVED;
	*ret_ptr = r->base;
	return 0;
}

int mem_unreserve(struct memory *m, struct mem_owner *o, uint64_t ptr, uint64_t bytes)
{
	struct mem_region *r = region_at(m, ptr);

	if (!r || r->kind != SIM_MEM_RESERVED || r->owner != o || r->base != ptr ||
		r->bytes != bytes || r->mappings)
		return -EINVAL;
	region_free(m, r);
	return 0;
}

static struct mem_phys *phys_find(const struct memory *m, uint64_t id)
{
	struct mem_phys *p;

	for (p = m->phys; p && p->id != id; p = p->next)
		;
	return p;
}

static struct mem_ref *ref_find(struct mem_ref *refs, const struct mem_owner *o)
{
	while (refs && refs->owner != o)
		refs = refs->next;
	return refs;
}

static int ref_add(struct mem_ref **refs, struct mem_owner *o)
{
	struct mem_ref *ref = ref_find(*refs, o);

	if (!ref) {
		ref = calloc(1, sizeof(*ref));
		if (!ref)
			return -ENOMEM;
		ref->owner = o;
		ref->next = *refs;
		*refs = ref;
	}
	ref->count++;
	return 0;
}

/* True when the last one went. */
static bool ref_drop(struct mem_ref **refs, const struct mem_owner *o, bool all)
{
	for (struct mem_ref **p = refs; *p; p = &(*p)->next) {
		struct mem_ref *ref = *p;

		if (ref->owner != o)
			continue;
		if (!all && --ref->count)
			return false;
		*p = ref->next;
		free(ref);
		return true;
	}
	return false;
}

static void phys_settle(struct memory *m, struct mem_phys *p)
{
	struct mem_phys **at = &m->phys;

	if (p->refs || p->maps)
		return;
	count(m, p->charged, p->device, -(int64_t)p->bytes, SIM_ACCOUNT_VMM);
	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	close(p->fd);
	free(p);
}

int mem_phys_create(
	struct memory *m, struct mem_owner *o, uint32_t device, uint64_t bytes, uint64_t *ret_id)
{
	struct mem_phys *p;
	struct stat st;
	int r;

	if (!bytes || bytes % SIM_GRANULE || device >= m->devices)
		return -EINVAL;
	r = make_room(m, device, bytes, NULL);
	if (r < 0)
		return r;
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->fd = memfd_new("divvy-sim-vmm", bytes);
	if (p->fd < 0 || fstat(p->fd, &st) < 0 || ref_add(&p->refs, o) < 0) {
		if (p->fd >= 0)
			close(p->fd);
		free(p);
		return -ENOMEM;
	}
	p->ino = st.st_ino;
	p->id = m->next_id++;
	p->device = device;
	p->bytes = bytes;
	p->charged = o;
	p->next = m->phys;
	m->phys = p;
	count(m, o, device, (int64_t)bytes, SIM_ACCOUNT_VMM);
	*ret_id = p->id;
	return 0;
}

static struct mem_phys *phys_of(const struct memory *m, const struct mem_owner *o, uint64_t id)
{
	struct mem_phys *p = phys_find(m, id);

	return p && ref_find(p->refs, o) ? p : NULL;
}

int mem_phys_release(struct memory *m, struct mem_owner *o, uint64_t id)
{
	struct mem_phys *p = phys_of(m, o, id);

	if (!p)
		return -EINVAL;
	ref_drop(&p->refs, o, false);
	phys_settle(m, p);
	return 0;
}

int mem_phys_info(const struct memory *m, const struct mem_owner *o, uint64_t id,
	uint64_t *ret_bytes, uint32_t *ret_device)
{
	struct mem_phys *p = phys_of(m, o, id);

	if (!p)
		return -EINVAL;
	*ret_bytes = p->bytes;
	*ret_device = p->device;
	return 0;
}

int mem_phys_fd(const struct memory *m, const struct mem_owner *o, uint64_t id)
{
	struct mem_phys *p = phys_of(m, o, id);

	return p ? p->fd : -EINVAL;
}

int mem_phys_import(struct memory *m, struct mem_owner *o, int fd, uint64_t *ret_id)
{
	struct mem_phys *p;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -EINVAL;
	for (p = m->phys; p; p = p->next)
		if (p->ino == st.st_ino)
			break;
	if (!p)
		return -EINVAL;
	*ret_id = p->id;
	return ref_add(&p->refs, o);
}

int mem_phys_retain(struct memory *m, struct mem_owner *o, uint64_t addr, uint64_t *ret_id)
{
	struct mem_region *r = region_at(m, addr);

	if (!r || r->kind != SIM_MEM_VMM || r->owner != o)
		return -EINVAL;
	*ret_id = r->phys->id;
	return ref_add(&r->phys->refs, o);
}

int mem_map(struct memory *m, struct mem_owner *o, uint64_t ptr, uint64_t bytes, uint64_t offset,
	uint64_t id)
{
	struct mem_region *within = region_at(m, ptr), *r;
	struct mem_phys *p = phys_of(m, o, id);

	if (!p || !within || within->kind != SIM_MEM_RESERVED || within->owner != o || !bytes ||
		(ptr | bytes | offset) % SIM_GRANULE || offset > p->bytes ||
		bytes > p->bytes - offset || bytes > within->base + within->bytes - ptr)
		return -EINVAL;
	for (uint64_t a = ptr; a < ptr + bytes; a += SIM_GRANULE)
		if (region_at(m, a) != within)
			return -EINVAL;
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	if (back(ptr, bytes, p->fd, offset) < 0) {
		free(r);
		return -ENOMEM;
	}
	r->base = ptr;
	r->bytes = r->asked = bytes;
	r->kind = SIM_MEM_VMM;
	r->device = p->device;
	r->ctx = MEM_NO_CTX;
	r->resident = -1;
	r->phys = p;
	r->within = within;
	within->mappings++;
	p->maps++;
	owner_link(o, r);
	special_add(m, r);
	set_table(m, r, r);
	return 0;
}

static void unmap_region(struct memory *m, struct mem_region *r)
{
	struct mem_phys *p = r->phys;

	unback(r->base, r->bytes);
	r->within->mappings--;
	region_free(m, r);
	p->maps--;
	phys_settle(m, p);
}

/* Calls for the mappings that make up exactly this range. */
static int check_mappings(
	const struct memory *m, const struct mem_owner *o, uint64_t ptr, uint64_t bytes)
{
	uint64_t at = ptr;

	if (!bytes || bytes > SIM_VA_SIZE)
		return -EINVAL;
	while (at < ptr + bytes) {
		const struct mem_region *r = region_at(m, at);

		if (!r || r->kind != SIM_MEM_VMM || r->owner != o || r->base != at)
			return -EINVAL;
		at += r->bytes;
	}
	return at == ptr + bytes ? 0 : -EINVAL;
}

int mem_unmap(struct memory *m, struct mem_owner *o, uint64_t ptr, uint64_t bytes)
{
	int ret = check_mappings(m, o, ptr, bytes);
	uint64_t end = ptr + bytes;

	if (ret < 0)
		return ret;
	while (ptr < end) {
		struct mem_region *r = region_at(m, ptr);

		ptr += r->bytes;
		unmap_region(m, r);
	}
	return 0;
}

int mem_set_access(struct memory *m, struct mem_owner *o, uint64_t ptr, uint64_t bytes,
	uint32_t device, uint32_t access)
{
	int ret = check_mappings(m, o, ptr, bytes);
	uint64_t end = ptr + bytes;

	if (ret < 0 || device >= m->devices || (access & ~3u) || access == 2)
		return -EINVAL;
	for (; ptr < end; ptr += region_at(m, ptr)->bytes)
		region_at(m, ptr)->access[device] = (uint8_t)access;
	return 0;
}

/* ---- pools ---- */

static struct mem_pool *pool_find(const struct mem_owner *o, uint64_t id)
{
	struct mem_pool *p;

	for (p = o->pools; p && (p->id != id || p->destroyed); p = p->next)
		;
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
		.kind = SIM_MEM_POOL,
		.grow_bytes = MIN(chunk_bytes, round_up(m->total[device] / 64, SIM_GRANULE)),
	};
	p->next = o->pools;
	o->pools = p;
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

static void pool_forget(struct mem_pool *pool)
{
	struct mem_pool **p = &pool->heap.owner->pools;

	while (*p != pool)
		p = &(*p)->next;
	*p = pool->next;
	free(pool);
}

/* Gives back regions that nothing uses while more than keep is reserved. */
static void pool_settle(struct memory *m, struct mem_pool *pool, uint64_t keep)
{
	struct mem_region *r, *next;

	for (r = pool->heap.regions; r; r = next) {
		next = r->heap_next;
		if (!r->used_blocks && pool->reserved > keep)
			heap_shrink(m, &pool->heap, r);
	}
	if (pool->destroyed && !pool->heap.regions)
		pool_forget(pool);
}

void mem_pool_trim(struct memory *m, struct mem_pool *pool, uint64_t keep_bytes)
{
	pool_settle(m, pool, keep_bytes);
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
	case SIM_POOL_RELEASE_THRESHOLD:
		pool->threshold = value;
		pool_settle(m, pool, value);
		return 0;
	case SIM_POOL_RESERVED_HIGH:
		pool->reserved_high = pool->reserved;
		return value ? -EINVAL : 0;
	case SIM_POOL_USED_HIGH: pool->used_high = pool->used; return value ? -EINVAL : 0;
	default: return -EINVAL;
	}
}

int mem_pool_read(const struct mem_pool *pool, uint32_t attr, uint64_t *ret_value)
{
	switch (attr) {
	case SIM_POOL_RELEASE_THRESHOLD: *ret_value = pool->threshold; return 0;
	case SIM_POOL_RESERVED_CURRENT: *ret_value = pool->reserved; return 0;
	case SIM_POOL_RESERVED_HIGH: *ret_value = pool->reserved_high; return 0;
	case SIM_POOL_USED_CURRENT: *ret_value = pool->used; return 0;
	case SIM_POOL_USED_HIGH: *ret_value = pool->used_high; return 0;
	default: return -EINVAL;
	}
}

/* Memory on its way out in the same stream; not much larger than what is needed. */
static struct mem_block *take_leaving(struct mem_heap *h, uint64_t order, uint64_t bytes)
{
	uint64_t need = round_up(bytes, MEM_ALIGN);

	for (struct mem_block *b = h->leaving; b; b = b->next) {
		if (b->order != order || b->bytes < need || b->bytes / 2 > need)
			continue;
		block_list_del(&h->leaving, b);
		b->state = BLOCK_USED;
		b->asked = bytes;
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
		uint64_t grow = MAX(h->grow_bytes, round_up(bytes, SIM_GRANULE));

		if (pool->max_bytes && pool->reserved + grow > pool->max_bytes)
			grow = round_up(bytes, SIM_GRANULE);
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
	struct mem_region *r = region_at(m, ptr);
	struct mem_block *b;

	if (!r || r->kind == SIM_MEM_RESERVED || r->kind == SIM_MEM_VMM)
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
	b = block_at(r, ptr);
	if (b->addr != ptr || b->state != BLOCK_USED)
		return -ENOENT;
	b->state = BLOCK_LEAVING;
	b->order = order;
	b->ticket = ++m->next_ticket;
	block_list_add(&r->heap->leaving, b);
	*ret_ticket = b->ticket;
	return 0;
}

void mem_free_ticket(struct memory *m, uint64_t ptr, uint64_t ticket)
{
	struct mem_region *r = region_at(m, ptr);
	struct mem_block *b;

	if (!r || !r->heap)
		return;
	b = block_at(r, ptr);
	if (b->state == BLOCK_LEAVING && b->ticket == ticket)
		free_block(m, b);
}

/* ---- between processes ---- */

int mem_ipc_export(struct memory *m, struct mem_owner *o, uint64_t ptr, uint64_t *ret_key)
{
	struct mem_region *r = region_at(m, ptr);
	struct mem_info info;

	if (!r || mem_query(m, ptr, &info) < 0 || info.base != ptr || r->owner != o ||
		r->kind == SIM_MEM_MANAGED || r->kind == SIM_MEM_RESERVED || r->kind == SIM_MEM_VMM)
		return -EINVAL;
	if (!r->ipc_key)
		r->ipc_key = m->next_id++;
	/* The address finds the region; the number tells it from a later one there. */
	*ret_key = ptr ^ (r->ipc_key << 48);
	return 0;
}

int mem_ipc_open(
	struct memory *m, struct mem_owner *o, uint64_t key, uint64_t *ret_ptr, uint64_t *ret_bytes)
{
	uint64_t ptr = key & ((UINT64_C(1) << 48) - 1);
	struct mem_region *r = region_at(m, ptr);
	struct mem_info info;
	int ret;

	if (!r || !r->ipc_key || (r->ipc_key & 0xffff) != key >> 48 || mem_query(m, ptr, &info) < 0)
		return -EINVAL;
	if (r->owner == o)
		return -EPERM;
	ret = ref_add(&r->importers, o);
	if (ret < 0)
		return ret;
	special_add(m, r);
	*ret_ptr = info.base;
	*ret_bytes = info.bytes;
	return 0;
}

int mem_ipc_close(struct memory *m, struct mem_owner *o, uint64_t ptr)
{
	struct mem_region *r = region_at(m, ptr);

	if (!r || !is_imported(r, o))
		return -EINVAL;
	ref_drop(&r->importers, o, false);
	return 0;
}

/* ---- the end of a process ---- */

/* Some process that has it mapped; there is one while p->maps is not 0. */
static struct mem_owner *find_mapper(const struct memory *m, const struct mem_phys *p)
{
	for (const struct mem_region *r = m->special; r; r = r->special_next)
		if (r->phys == p)
			return r->owner;
	assert(false);
	return p->charged;
}

static void drop_phys_refs(struct memory *m, struct mem_owner *o)
{
	struct mem_phys *p, *next;

	for (p = m->phys; p; p = next) {
		next = p->next;
		ref_drop(&p->refs, o, true);
		/* Others still hold it: it is theirs from now on. */
		if (p->charged == o && (p->refs || p->maps)) {
			count(m, o, p->device, -(int64_t)p->bytes, SIM_ACCOUNT_VMM);
			p->charged = p->refs ? p->refs->owner : find_mapper(m, p);
			count(m, p->charged, p->device, (int64_t)p->bytes, SIM_ACCOUNT_VMM);
		}
		phys_settle(m, p);
	}
}

void mem_free_owner(struct memory *m, struct mem_owner *o)
{
	struct mem_region *r, *next;

	for (r = o->regions; r; r = next) {
		next = r->next;
		if (r->kind == SIM_MEM_VMM)
			unmap_region(m, r);
	}
	drop_phys_refs(m, o);
	while (o->regions) {
		r = o->regions;
		if (r->kind == SIM_MEM_RESERVED)
			region_free(m, r);
		else
			region_release(m, r, SIM_ACCOUNT_DEATH);
	}
	heaps_free(o, 0, true);
	while (o->pools) {
		struct mem_pool *p = o->pools;

		o->pools = p->next;
		free(p);
	}
	/* What it had opened of others. */
	for (r = m->special; r; r = r->special_next)
		if (r->importers)
			ref_drop(&r->importers, o, true);
	for (uint32_t d = 0; d < m->devices; d++)
		if (o->used[d])
			count(m, o, d, -(int64_t)o->used[d], SIM_ACCOUNT_DEATH);
}
