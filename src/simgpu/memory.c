/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions, counting, plain and managed allocations, and the end of a process. All physical memory
 * goes through mem_count(), so the account is complete.
 */
#include "simgpu/memory-internal.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"

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
	arena = mmap((void *)SIMGPU_VA_BASE, SIMGPU_VA_SIZE, PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
	if (arena != (void *)SIMGPU_VA_BASE) {
		if (arena != MAP_FAILED)
			munmap(arena, SIMGPU_VA_SIZE);
		munmap(m->table, GRANULES * sizeof(*m->table));
		free(m);
		return -ENOMEM;
	}
	m->exports_epoll = epoll_create1(EPOLL_CLOEXEC);
	if (m->exports_epoll < 0) {
		munmap(arena, SIMGPU_VA_SIZE);
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
	m->next_id = SIMGPU_MAX_DEVICES + 1;
	*ret_m = m;
	return 0;
}

void mem_free_all(struct memory *m)
{
	if (!m)
		return;
	mem_exports_free(m);
	close(m->exports_epoll);
	munmap((void *)SIMGPU_VA_BASE, SIMGPU_VA_SIZE);
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

/* ---- counting ---- */

struct mem_region *mem_region_at(const struct memory *m, uint64_t addr)
{
	return mem_is_device(addr) ? m->table[(addr - SIMGPU_VA_BASE) / SIMGPU_GRANULE] : NULL;
}

void mem_count(struct memory *m, struct mem_owner *o, uint32_t device, int64_t change,
	enum simgpu_account_reason reason)
{
	m->used[device] += (uint64_t)change;
	o->used[device] += (uint64_t)change;
	m->account(m->user, o, device, o->used[device], m->used[device], reason);
}

static void region_evict(struct memory *m, struct mem_region *r)
{
	if (r->resident < 0)
		return;
	mem_count(m, r->owner, (uint32_t)r->resident, -(int64_t)r->bytes, SIMGPU_ACCOUNT_MIGRATE);
	r->resident = -1;
}

/*
 * Returns the device's least recently used managed region that the current operation does not need.
 */
static struct mem_region *find_victim(const struct memory *m, uint32_t device)
{
	struct mem_region *victim = NULL, *r;

	LIST_FOREACH(r, &m->special, special_link)
		if (r->kind == SIMGPU_MEM_MANAGED && r->resident == (int)device &&
			r->use <= m->use_begin && (!victim || r->use < victim->use))
			victim = r;
	return victim;
}

int mem_make_room(struct memory *m, uint32_t device, uint64_t bytes, uint64_t *moved)
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
	enum simgpu_account_reason reason)
{
	int r;

	bytes = mem_round_up(bytes, SIMGPU_GRANULE);
	r = mem_make_room(m, device, bytes, NULL);
	if (r < 0)
		return r;
	if (bytes)
		mem_count(m, o, device, (int64_t)bytes, reason);
	return 0;
}

void mem_uncharge(struct memory *m, struct mem_owner *o, uint32_t device, uint64_t bytes,
	enum simgpu_account_reason reason)
{
	bytes = mem_round_up(bytes, SIMGPU_GRANULE);
	assert(bytes <= o->used[device] && bytes <= m->used[device]);
	if (bytes)
		mem_count(m, o, device, -(int64_t)bytes, reason);
}

/* ---- addresses ---- */

bool mem_range_is_free(const struct memory *m, uint64_t g, uint64_t n, uint64_t *ret_next)
{
	for (uint64_t i = g; i < g + n; i++) {
		const struct mem_region *r = m->table[i];

		if (!r)
			continue;
		*ret_next = (r->base - SIMGPU_VA_BASE + r->bytes) / SIMGPU_GRANULE;
		if (*ret_next <= i) /* the search must always advance */
			*ret_next = i + 1;
		return false;
	}
	return true;
}

/*
 * Next fit: an address is reused only after many others, so tests notice a use after free. The
 * search wraps at m->wrap and doubles this limit only when needed, because the table of a whole
 * arena would take much memory.
 */
static int find_range(struct memory *m, uint64_t n, uint64_t align, uint64_t *ret_g)
{
	uint64_t g = m->next;
	bool wrapped = false;

	for (;;) {
		uint64_t next;

		g = mem_round_up(g, align);
		if (g + n > m->wrap) {
			if (wrapped && m->wrap == GRANULES)
				return -ENOMEM;
			if (wrapped)
				m->wrap = MIN(m->wrap * 2, (uint64_t)GRANULES);
			wrapped = true;
			g = align;
			continue;
		}
		if (mem_range_is_free(m, g, n, &next))
			break;
		g = next;
	}
	m->next = g + n;
	*ret_g = g;
	return 0;
}

void mem_region_map(struct memory *m, const struct mem_region *at, struct mem_region *value)
{
	uint64_t g = (at->base - SIMGPU_VA_BASE) / SIMGPU_GRANULE;

	for (uint64_t i = 0; i < at->bytes / SIMGPU_GRANULE; i++)
		m->table[g + i] = value;
}

int mem_back(uint64_t base, uint64_t bytes, int fd, uint64_t offset)
{
	int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	void *p = mmap((void *)base, bytes, PROT_READ | PROT_WRITE,
		flags | MAP_NORESERVE | MAP_FIXED, fd, (off_t)offset);

	return p == MAP_FAILED ? -ENOMEM : 0;
}

void mem_unback(uint64_t base, uint64_t bytes)
{
	void *p = mmap((void *)base, bytes, PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);

	/* mmap() fails at the kernel's limit of mappings: at least free the bytes. */
	if (p == MAP_FAILED)
		madvise((void *)base, bytes, MADV_DONTNEED);
}

void mem_region_link(struct mem_owner *o, struct mem_region *r)
{
	r->owner = o;
	LIST_INSERT_HEAD(&o->regions, r, link);
}

/* Creates a region of addresses without memory. */
int mem_region_new(struct memory *m, struct mem_owner *o, uint64_t bytes, uint64_t align,
	struct mem_region **ret_r)
{
	uint64_t g, n = mem_round_up(bytes, SIMGPU_GRANULE) / SIMGPU_GRANULE;
	struct mem_region *r;
	int ret;

	if (!bytes || n > GRANULES / 2)
		return -ENOMEM;
	ret = find_range(m, n, MAX(align / SIMGPU_GRANULE, UINT64_C(1)), &g);
	if (ret < 0)
		return ret;
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	r->base = SIMGPU_VA_BASE + g * SIMGPU_GRANULE;
	r->bytes = n * SIMGPU_GRANULE;
	r->asked = bytes;
	r->ctx = MEM_NO_CTX;
	r->resident = -1;
	mem_region_link(o, r);
	mem_region_map(m, r, r);
	*ret_r = r;
	return 0;
}

static void ref_free(struct mem_ref *ref)
{
	LIST_REMOVE(ref, link);
	free(ref);
}

/* Adds the region to the list of special regions, for searches that know no address. */
void mem_region_list(struct memory *m, struct mem_region *r)
{
	if (r->special)
		return;
	r->special = true;
	LIST_INSERT_HEAD(&m->special, r, special_link);
}

void mem_region_free(struct memory *m, struct mem_region *r)
{
	mem_region_map(m, r, r->within);
	LIST_REMOVE(r, link);
	if (r->special)
		LIST_REMOVE(r, special_link);
	for (uint32_t i = 0; i < r->nblocks; i++)
		free(r->blocks[i]);
	free(r->blocks);
	while (!LIST_EMPTY(&r->importers))
		ref_free(LIST_FIRST(&r->importers));
	free(r);
}

/* Creates a region with memory of the device. */
int mem_region_alloc(struct memory *m, struct mem_owner *o, uint32_t device, uint64_t bytes,
	enum simgpu_account_reason reason, struct mem_region **ret_r)
{
	struct mem_region *r;
	int ret;

	ret = mem_make_room(m, device, mem_round_up(bytes, SIMGPU_GRANULE), NULL);
	if (ret < 0)
		return ret;
	ret = mem_region_new(m, o, bytes, 0, &r);
	if (ret < 0)
		return ret;
	ret = mem_back(r->base, r->bytes, -1, 0);
	if (ret < 0) {
		mem_region_free(m, r);
		return ret;
	}
	r->device = device;
	mem_count(m, o, device, (int64_t)r->bytes, reason);
	*ret_r = r;
	return 0;
}

void mem_region_release(struct memory *m, struct mem_region *r, enum simgpu_account_reason reason)
{
	if (r->kind == SIMGPU_MEM_MANAGED)
		region_evict(m, r);
	else
		mem_count(m, r->owner, r->device, -(int64_t)r->bytes, reason);
	mem_unback(r->base, r->bytes);
	mem_region_free(m, r);
}

void mem_region_leave(struct memory *m, struct mem_region *r, enum simgpu_account_reason reason)
{
	struct mem_owner *heir = NULL;
	const struct mem_ref *ref;

	/* A region with blocks is not handed over, because its blocks are freed one by one. */
	LIST_FOREACH(ref, &r->importers, link)
		if (ref->owner != r->owner && !r->heap && !heir)
			heir = ref->owner;
	if (!heir || r->kind == SIMGPU_MEM_MANAGED) {
		mem_region_release(m, r, reason);
		return;
	}
	mem_count(m, r->owner, r->device, -(int64_t)r->bytes, reason);
	LIST_REMOVE(r, link);
	mem_region_link(heir, r);
	mem_count(m, heir, r->device, (int64_t)r->bytes, SIMGPU_ACCOUNT_ALLOC);
	r->ctx = MEM_NO_CTX;
	r->is_orphan = true;
}

struct mem_ref *mem_ref_find(const struct mem_refs *refs, const struct mem_owner *o)
{
	struct mem_ref *ref;

	LIST_FOREACH(ref, refs, link)
		if (ref->owner == o)
			break;
	return ref;
}

int mem_ref_add(struct mem_refs *refs, struct mem_owner *o)
{
	struct mem_ref *ref = mem_ref_find(refs, o);

	if (!ref) {
		ref = calloc(1, sizeof(*ref));
		if (!ref)
			return -ENOMEM;
		ref->owner = o;
		LIST_INSERT_HEAD(refs, ref, link);
	}
	ref->count++;
	return 0;
}

/* Returns true when this call dropped the last reference. */
bool mem_ref_drop(struct mem_refs *refs, const struct mem_owner *o, bool all)
{
	struct mem_ref *ref = mem_ref_find(refs, o);

	if (!ref || (!all && --ref->count))
		return false;
	ref_free(ref);
	return true;
}

/* ---- plain allocations ---- */

static int alloc_managed(struct memory *m, struct mem_owner *o, uint64_t bytes,
	struct mem_region **ret_r, int *ret_fd)
{
	_cleanup_close_ int fd = -1;
	struct mem_region *r;
	int ret;

	fd = memfd_new("divvy-sim-managed", mem_round_up(bytes, SIMGPU_GRANULE));
	if (fd < 0 || memfd_seal(fd, MEM_SEALS) < 0)
		return -ENOMEM;
	ret = mem_region_new(m, o, bytes, 0, &r);
	if (ret < 0)
		return ret;
	ret = mem_back(r->base, r->bytes, fd, 0);
	if (ret < 0) {
		mem_region_free(m, r);
		return ret;
	}
	*ret_r = r;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int mem_alloc(struct memory *m, struct mem_owner *o, uint32_t ctx, uint32_t device,
	enum simgpu_mem_kind kind, uint64_t bytes, uint64_t *ret_ptr, int *ret_fd)
{
	struct mem_region *r;
	int ret;

	if (!bytes || device >= m->devices || kind > SIMGPU_MEM_MANAGED)
		return -EINVAL;
	if (bytes > m->total[device] && kind != SIMGPU_MEM_MANAGED)
		return -ENOMEM;
	if (kind != SIMGPU_MEM_MANAGED && bytes < MEM_SMALL) {
		struct mem_heap *h = mem_heap_get(o, ctx, device, kind);

		return h ? mem_heap_alloc(m, h, bytes, ret_ptr) : -ENOMEM;
	}
	if (kind == SIMGPU_MEM_MANAGED)
		ret = alloc_managed(m, o, bytes, &r, ret_fd);
	else
		ret = mem_region_alloc(m, o, device, bytes, SIMGPU_ACCOUNT_ALLOC, &r);
	if (ret < 0)
		return ret;
	r->kind = kind;
	r->ctx = ctx;
	r->device = device;
	if (kind == SIMGPU_MEM_MANAGED)
		mem_region_list(m, r);
	*ret_ptr = r->base;
	return 0;
}

int mem_free(struct memory *m, struct mem_owner *o, uint64_t ptr)
{
	struct mem_region *r = mem_region_at(m, ptr);

	if (!r || r->kind == SIMGPU_MEM_RESERVED || r->kind == SIMGPU_MEM_VMM)
		return -ENOENT;
	if (r->owner != o)
		return -EPERM;
	if (r->heap) {
		struct mem_block *b = mem_block_at(r, ptr);

		if (b->addr != ptr || b->state != BLOCK_USED)
			return -ENOENT;
		mem_block_free(m, b);
		return 0;
	}
	if (r->base != ptr || r->is_orphan)
		return -ENOENT;
	mem_region_leave(m, r, SIMGPU_ACCOUNT_FREE);
	return 0;
}

void mem_free_ctx(struct memory *m, struct mem_owner *o, uint32_t ctx)
{
	struct mem_region *r, *next;

	for (r = LIST_FIRST(&o->regions); r; r = next) {
		next = LIST_NEXT(r, link);
		if (r->ctx == ctx)
			mem_region_leave(m, r, SIMGPU_ACCOUNT_FREE);
	}
	mem_heaps_free(o, ctx, false);
}

/* ---- queries ---- */

int mem_query(const struct memory *m, uint64_t addr, struct mem_info *ret_info)
{
	const struct mem_region *r = mem_region_at(m, addr);
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
	if (r->kind == SIMGPU_MEM_MANAGED && r->resident >= 0)
		info.resident_bytes = r->asked;
	if (r->heap) {
		const struct mem_block *b = mem_block_at(r, addr);

		if (b->state != BLOCK_USED)
			return -ENOENT;
		info.base = b->addr;
		info.bytes = b->asked;
		if (r->heap->pool)
			info.id = r->heap->pool->id;
	}
	if (addr >= info.base + info.bytes && r->kind != SIMGPU_MEM_VMM)
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
	/* The range may cover several adjacent mappings. */
	while (addr < end) {
		const struct mem_region *r = mem_region_at(m, addr);
		const struct mem_block *b = r && r->heap ? mem_block_at(r, addr) : NULL;
		struct mem_info info;

		/*
		 * Work submitted before the free of a block may still use the block: all of a
		 * leaving block, and of a reused block as many bytes as its earlier allocations
		 * had.
		 */
		if (b && b->state != BLOCK_FREE) {
			info.base = b->addr;
			info.bytes = b->state == BLOCK_LEAVING ? b->bytes : b->reach;
		} else if (mem_query(m, addr, &info) < 0) {
			return -EFAULT;
		}
		if (r->owner != o && !mem_ref_find(&r->importers, o))
			return -EFAULT;
		if (r->kind == SIMGPU_MEM_RESERVED)
			return -EFAULT;
		if (r->kind == SIMGPU_MEM_VMM && (r->access[device] & (write ? 2 : 1)) == 0)
			return -EFAULT;
		if (r->kind != SIMGPU_MEM_VMM)
			return end <= info.base + info.bytes ? 0 : -EFAULT;
		addr = r->base + r->bytes;
	}
	return 0;
}

int mem_find_extent(const struct memory *m, const struct mem_owner *o, uint32_t device,
	uint64_t addr, struct mem_extent *ret)
{
	const struct mem_region *r = mem_region_at(m, addr);
	const struct mem_block *b = r && r->heap ? mem_block_at(r, addr) : NULL;

	if (!r || r->kind == SIMGPU_MEM_RESERVED || (b && b->state == BLOCK_FREE))
		return -EFAULT;
	*ret = (struct mem_extent){
		.lo = b ? b->addr : r->base,
		.hi = b ? b->addr + b->bytes : r->base + r->bytes,
		.device = r->device,
		.is_shared = r->kind == SIMGPU_MEM_MANAGED || r->kind == SIMGPU_MEM_VMM,
	};
	if (mem_check(m, o, device, ret->lo, 1, false) < 0)
		return -EFAULT;
	ret->can_write = mem_check(m, o, device, ret->lo, 1, true) == 0;
	return 0;
}

/* ---- managed memory ---- */

void mem_begin_use(struct memory *m)
{
	m->use_begin = m->use;
}

int mem_touch(struct memory *m, uint64_t addr, uint32_t device, uint64_t *ret_moved)
{
	struct mem_region *r = mem_region_at(m, addr);
	uint64_t moved = 0;
	int ret;

	*ret_moved = 0;
	if (!r || r->kind != SIMGPU_MEM_MANAGED)
		return 0;
	r->use = ++m->use;
	if (r->resident == (int)device)
		return 0;
	region_evict(m, r);
	ret = mem_make_room(m, device, r->bytes, &moved);
	if (ret < 0)
		return ret;
	r->resident = (int)device;
	mem_count(m, r->owner, device, (int64_t)r->bytes, SIMGPU_ACCOUNT_MIGRATE);
	*ret_moved = moved + r->asked;
	return 0;
}

void mem_evict(struct memory *m, uint64_t addr, uint64_t *ret_moved)
{
	struct mem_region *r = mem_region_at(m, addr);

	*ret_moved = 0;
	if (!r || r->kind != SIMGPU_MEM_MANAGED || r->resident < 0)
		return;
	*ret_moved = r->asked;
	region_evict(m, r);
}

/* ---- the end of a process ---- */

void mem_free_owner(struct memory *m, struct mem_owner *o)
{
	struct mem_region *r, *next;
	struct mem_pool *p;

	for (r = LIST_FIRST(&o->regions); r; r = next) {
		next = LIST_NEXT(r, link);
		if (r->kind == SIMGPU_MEM_VMM)
			mem_unmap_region(m, r);
	}
	mem_drop_handles(m, o);
	/* Drops the memory of other processes that this process has opened. */
	LIST_FOREACH(r, &m->special, special_link)
		mem_ref_drop(&r->importers, o, true);
	while ((r = LIST_FIRST(&o->regions))) {
		if (r->kind == SIMGPU_MEM_RESERVED)
			mem_region_free(m, r);
		else
			mem_region_leave(m, r, SIMGPU_ACCOUNT_DEATH);
	}
	mem_heaps_free(o, 0, true);
	while ((p = LIST_FIRST(&o->pools))) {
		LIST_REMOVE(p, link);
		free(p);
	}
	for (uint32_t d = 0; d < m->devices; d++)
		if (o->used[d])
			mem_count(m, o, d, -(int64_t)o->used[d], SIMGPU_ACCOUNT_DEATH);
}
