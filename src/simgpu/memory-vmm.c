/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reserved addresses, physical handles and their mappings, and memory that processes share. A
 * handle's memory counts for the process that created it. When this process ends, the memory counts
 * for a process that still holds it. An exported descriptor keeps the memory alive like a handle.
 */
#include "simgpu/memory-internal.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"

/* ---- reservations and handles ---- */

int mem_reserve(struct memory *m, struct mem_owner *o, uint64_t bytes, uint64_t align,
	uint64_t hint, uint64_t *ret_ptr)
{
	struct mem_region *r;
	uint64_t next, g = (hint - SIMGPU_VA_BASE) / SIMGPU_GRANULE, saved = m->next;
	int ret;

	if (!bytes || bytes % SIMGPU_GRANULE || (align & (align - 1)))
		return -EINVAL;
	if (hint && hint % SIMGPU_GRANULE == 0 && mem_is_device(hint) && bytes < SIMGPU_VA_SIZE &&
		g + bytes / SIMGPU_GRANULE <= GRANULES &&
		mem_range_is_free(m, g, bytes / SIMGPU_GRANULE, &next)) {
		m->next = g;
		m->wrap = MAX(m->wrap, g + bytes / SIMGPU_GRANULE);
		ret = mem_region_new(m, o, bytes, 0, &r);
		m->next = saved;
	} else {
		ret = mem_region_new(m, o, bytes, align, &r);
	}
	if (ret < 0)
		return ret;
	r->kind = SIMGPU_MEM_RESERVED;
	*ret_ptr = r->base;
	return 0;
}

int mem_unreserve(struct memory *m, struct mem_owner *o, uint64_t ptr, uint64_t bytes)
{
	struct mem_region *r = mem_region_at(m, ptr);

	if (!r || r->kind != SIMGPU_MEM_RESERVED || r->owner != o || r->base != ptr ||
		r->bytes != bytes || r->mappings)
		return -EINVAL;
	mem_region_free(m, r);
	return 0;
}

static struct mem_phys *phys_find(const struct memory *m, uint64_t id)
{
	struct mem_phys *p;

	LIST_FOREACH(p, &m->phys, link)
		if (p->id == id)
			break;
	return p;
}

static void phys_settle(struct memory *m, struct mem_phys *p)
{
	if (!LIST_EMPTY(&p->refs) || p->maps || p->exports)
		return;
	mem_count(m, p->charged, p->device, -(int64_t)p->bytes, SIMGPU_ACCOUNT_VMM);
	LIST_REMOVE(p, link);
	close(p->fd);
	free(p);
}

int mem_phys_create(
	struct memory *m, struct mem_owner *o, uint32_t device, uint64_t bytes, uint64_t *ret_id)
{
	struct mem_phys *p;
	int r;

	if (!bytes || bytes % SIMGPU_GRANULE || device >= m->devices)
		return -EINVAL;
	r = mem_make_room(m, device, bytes, NULL);
	if (r < 0)
		return r;
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->fd = memfd_new("divvy-sim-vmm", bytes);
	if (p->fd < 0 || memfd_seal(p->fd, MEM_SEALS) < 0 || mem_ref_add(&p->refs, o) < 0) {
		if (p->fd >= 0)
			close(p->fd);
		free(p);
		return -ENOMEM;
	}
	p->id = m->next_id++;
	p->device = device;
	p->bytes = bytes;
	p->charged = o;
	LIST_INSERT_HEAD(&m->phys, p, link);
	mem_count(m, o, device, (int64_t)bytes, SIMGPU_ACCOUNT_VMM);
	*ret_id = p->id;
	return 0;
}

static struct mem_phys *phys_of(const struct memory *m, const struct mem_owner *o, uint64_t id)
{
	struct mem_phys *p = phys_find(m, id);

	return p && mem_ref_find(&p->refs, o) ? p : NULL;
}

int mem_phys_release(struct memory *m, struct mem_owner *o, uint64_t id)
{
	struct mem_phys *p = phys_of(m, o, id);

	if (!p)
		return -EINVAL;
	mem_ref_drop(&p->refs, o, false);
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

/* ---- exported descriptors ---- */

int mem_phys_export(struct memory *m, const struct mem_owner *o, uint64_t id)
{
	/* no flags: epoll always reports EPOLLHUP, here that no writer is left */
	struct epoll_event ev = {.events = 0};
	struct mem_phys *p = phys_of(m, o, id);
	struct mem_export *x;
	struct stat st;
	int ends[2];

	if (!p)
		return -EINVAL;
	x = calloc(1, sizeof(*x));
	if (!x)
		return -ENOMEM;
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0) {
		free(x);
		return -ENOMEM;
	}
	ev.data.ptr = x;
	if (fstat(ends[0], &st) < 0 ||
		epoll_ctl(m->exports_epoll, EPOLL_CTL_ADD, ends[0], &ev) < 0) {
		close(ends[0]);
		close(ends[1]);
		free(x);
		return -ENOMEM;
	}
	*x = (struct mem_export){.phys = p, .read_end = ends[0], .ino = st.st_ino};
	LIST_INSERT_HEAD(&m->exports, x, link);
	p->exports++;
	return ends[1];
}

int mem_exports_fd(const struct memory *m)
{
	return m->exports_epoll;
}

static void export_end(struct memory *m, struct mem_export *x)
{
	LIST_REMOVE(x, link);
	x->phys->exports--;
	phys_settle(m, x->phys);
	close(x->read_end);
	free(x);
}

void mem_phys_settle(struct memory *m)
{
	struct epoll_event ev;

	while (epoll_wait(m->exports_epoll, &ev, 1, 0) > 0)
		export_end(m, ev.data.ptr);
}

void mem_exports_free(struct memory *m)
{
	while (!LIST_EMPTY(&m->exports))
		export_end(m, LIST_FIRST(&m->exports));
}

static void phys_move(struct memory *m, struct mem_phys *p, struct mem_owner *to)
{
	mem_count(m, p->charged, p->device, -(int64_t)p->bytes, SIMGPU_ACCOUNT_VMM);
	p->charged = to;
	mem_count(m, to, p->device, (int64_t)p->bytes, SIMGPU_ACCOUNT_VMM);
}

int mem_phys_import(struct memory *m, struct mem_owner *o, int fd, uint64_t *ret_id)
{
	struct mem_export *x;
	struct stat st;
	int r;

	if (fstat(fd, &st) < 0 || !S_ISFIFO(st.st_mode))
		return -EINVAL;
	LIST_FOREACH(x, &m->exports, link)
		if (x->ino == st.st_ino)
			break;
	if (!x)
		return -EINVAL;
	r = mem_ref_add(&x->phys->refs, o);
	if (r < 0)
		return r;
	if (x->phys->charged == &m->nobody)
		phys_move(m, x->phys, o);
	*ret_id = x->phys->id;
	return 0;
}

int mem_phys_retain(struct memory *m, struct mem_owner *o, uint64_t addr, uint64_t *ret_id)
{
	struct mem_region *r = mem_region_at(m, addr);

	if (!r || r->kind != SIMGPU_MEM_VMM || r->owner != o)
		return -EINVAL;
	*ret_id = r->phys->id;
	return mem_ref_add(&r->phys->refs, o);
}

int mem_map(struct memory *m, struct mem_owner *o, uint64_t ptr, uint64_t bytes, uint64_t offset,
	uint64_t id)
{
	struct mem_region *within = mem_region_at(m, ptr), *r;
	struct mem_phys *p = phys_of(m, o, id);

	if (!p || !within || within->kind != SIMGPU_MEM_RESERVED || within->owner != o || !bytes ||
		(ptr | bytes | offset) % SIMGPU_GRANULE || offset > p->bytes ||
		bytes > p->bytes - offset || bytes > within->base + within->bytes - ptr)
		return -EINVAL;
	for (uint64_t a = ptr; a < ptr + bytes; a += SIMGPU_GRANULE)
		if (mem_region_at(m, a) != within)
			return -EINVAL;
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	if (mem_back(ptr, bytes, p->fd, offset) < 0) {
		free(r);
		return -ENOMEM;
	}
	r->base = ptr;
	r->bytes = r->asked = bytes;
	r->kind = SIMGPU_MEM_VMM;
	r->device = p->device;
	r->ctx = MEM_NO_CTX;
	r->resident = -1;
	r->phys = p;
	r->within = within;
	within->mappings++;
	p->maps++;
	mem_region_link(o, r);
	mem_region_list(m, r);
	mem_region_map(m, r, r);
	return 0;
}

void mem_unmap_region(struct memory *m, struct mem_region *r)
{
	struct mem_phys *p = r->phys;

	mem_unback(r->base, r->bytes);
	r->within->mappings--;
	mem_region_free(m, r);
	p->maps--;
	phys_settle(m, p);
}

/* Checks that whole mappings make up exactly this range. */
static int check_mappings(
	const struct memory *m, const struct mem_owner *o, uint64_t ptr, uint64_t bytes)
{
	uint64_t at = ptr;

	if (!bytes || bytes > SIMGPU_VA_SIZE)
		return -EINVAL;
	while (at < ptr + bytes) {
		const struct mem_region *r = mem_region_at(m, at);

		if (!r || r->kind != SIMGPU_MEM_VMM || r->owner != o || r->base != at)
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
		struct mem_region *r = mem_region_at(m, ptr);

		ptr += r->bytes;
		mem_unmap_region(m, r);
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
	for (; ptr < end; ptr += mem_region_at(m, ptr)->bytes)
		mem_region_at(m, ptr)->access[device] = (uint8_t)access;
	return 0;
}

/* ---- between processes ---- */

int mem_ipc_export(struct memory *m, struct mem_owner *o, uint64_t ptr, uint64_t *ret_key)
{
	struct mem_region *r = mem_region_at(m, ptr);
	struct mem_info info;

	if (!r || mem_query(m, ptr, &info) < 0 || info.base != ptr || r->owner != o ||
		r->kind == SIMGPU_MEM_MANAGED || r->kind == SIMGPU_MEM_RESERVED ||
		r->kind == SIMGPU_MEM_VMM)
		return -EINVAL;
	if (!r->ipc_key)
		r->ipc_key = m->next_id++;
	/*
	 * The address finds the region. The number tells the region from a later region at the same
	 * address.
	 */
	*ret_key = ptr ^ (r->ipc_key << 48);
	return 0;
}

int mem_ipc_open(
	struct memory *m, struct mem_owner *o, uint64_t key, uint64_t *ret_ptr, uint64_t *ret_bytes)
{
	uint64_t ptr = key & ((UINT64_C(1) << 48) - 1);
	struct mem_region *r = mem_region_at(m, ptr);
	struct mem_info info;
	int ret;

	if (!r || !r->ipc_key || (r->ipc_key & 0xffff) != key >> 48 || mem_query(m, ptr, &info) < 0)
		return -EINVAL;
	if (r->owner == o && !r->is_orphan)
		return -EPERM;
	ret = mem_ref_add(&r->importers, o);
	if (ret < 0)
		return ret;
	mem_region_list(m, r);
	*ret_ptr = info.base;
	*ret_bytes = info.bytes;
	return 0;
}

int mem_ipc_close(struct memory *m, struct mem_owner *o, uint64_t ptr)
{
	struct mem_region *r = mem_region_at(m, ptr);

	if (!r || !mem_ref_find(&r->importers, o))
		return -EINVAL;
	if (mem_ref_drop(&r->importers, o, false) && r->is_orphan && r->owner == o)
		mem_region_leave(m, r, SIMGPU_ACCOUNT_FREE);
	return 0;
}

/* ---- the end of a process ---- */

/* Returns a process that has mapped the memory. The caller has checked that p->maps is not 0. */
static struct mem_owner *find_mapper(const struct memory *m, const struct mem_phys *p)
{
	const struct mem_region *r;

	LIST_FOREACH(r, &m->special, special_link)
		if (r->phys == p)
			return r->owner;
	assert(false);
	return p->charged;
}

void mem_drop_handles(struct memory *m, struct mem_owner *o)
{
	struct mem_phys *p, *next;

	for (p = LIST_FIRST(&m->phys); p; p = next) {
		next = LIST_NEXT(p, link);
		mem_ref_drop(&p->refs, o, true);
		/*
		 * Other processes still hold the memory, so from now on it counts for one of them.
		 */
		if (p->charged == o && (!LIST_EMPTY(&p->refs) || p->maps || p->exports))
			phys_move(m, p,
				!LIST_EMPTY(&p->refs) ? LIST_FIRST(&p->refs)->owner
					: p->maps     ? find_mapper(m, p)
						      : &m->nobody);
		phys_settle(m, p);
	}
}
