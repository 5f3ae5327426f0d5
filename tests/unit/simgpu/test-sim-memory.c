/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated machine's memory: granules and blocks, the account at every change, pools, VMM,
 * managed memory, imports, and that the end of a process leaves nothing.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "simgpu/memory.h"
#include "unit.h"

#define MIB (UINT64_C(1) << 20)
#define TOTAL (64 * MIB)

struct world {
	struct memory *m;
	struct mem_owner a, b;
	uint64_t device[2];
	uint64_t nobody[2]; /* bytes that only exported descriptors keep */
	uint64_t changes;
	uint64_t peak;
};

static void on_account(void *user, struct mem_owner *o, uint32_t device, uint64_t owner_bytes,
	uint64_t device_bytes, enum simgpu_account_reason reason)
{
	struct world *w = user;

	assert_true(device < 2);
	assert_true(owner_bytes <= device_bytes);
	assert_true(device_bytes <= TOTAL);
	assert_int_equal(owner_bytes % SIMGPU_GRANULE, 0);
	if (o != &w->a && o != &w->b)
		w->nobody[device] = owner_bytes;
	assert_int_equal(w->a.used[device] + w->b.used[device] + w->nobody[device], device_bytes);
	w->device[device] = device_bytes;
	w->peak = MAX(w->peak, device_bytes);
	w->changes++;
}

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	w->a.pid = 1;
	w->b.pid = 2;
	assert_ok(mem_new((uint64_t[]){TOTAL, TOTAL}, 2, on_account, w, &w->m));
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	mem_free_owner(w->m, &w->a);
	mem_free_owner(w->m, &w->b);
	assert_int_equal(mem_used(w->m, 0), 0);
	assert_int_equal(mem_used(w->m, 1), 0);
	mem_free_all(w->m);
	free(w);
	return 0;
}

static uint64_t alloc(struct world *w, struct mem_owner *o, uint64_t bytes)
{
	uint64_t ptr = 0;

	assert_ok(mem_alloc(w->m, o, 0, 0, SIMGPU_MEM_LINEAR, bytes, &ptr, NULL));
	assert_true(mem_is_device(ptr));
	return ptr;
}

static void test_granules(void **state)
{
	struct world *w = *state;
	uint64_t p = alloc(w, &w->a, MIB), q = alloc(w, &w->a, 2 * MIB + 1), r;
	struct mem_info info;

	assert_int_equal(mem_used(w->m, 0), (2 + 4) * MIB);
	assert_ok(mem_query(w->m, q + 2 * MIB, &info));
	assert_true(info.base == q);
	assert_int_equal(info.bytes, 2 * MIB + 1);
	assert_int_equal(mem_query(w->m, q + 2 * MIB + 1, &info), -ENOENT);
	memset((void *)q, 7, 2 * MIB + 1);
	assert_int_equal(mem_alloc(w->m, &w->a, 0, 0, SIMGPU_MEM_LINEAR, TOTAL - 4 * MIB, &r, NULL),
		-ENOMEM);
	assert_int_equal(mem_free(w->m, &w->b, q), -EPERM);
	assert_int_equal(mem_free(w->m, &w->a, q + 512), -ENOENT);
	assert_ok(mem_free(w->m, &w->a, q));
	assert_int_equal(mem_free(w->m, &w->a, q), -ENOENT);
	assert_ok(mem_free(w->m, &w->a, p));
	assert_int_equal(mem_used(w->m, 0), 0);
	/* A freed address is not reused soon. */
	r = alloc(w, &w->a, MIB);
	assert_true(r != p && r != q);
}

static void test_blocks(void **state)
{
	struct world *w = *state;
	uint64_t p[64];
	struct mem_extent extent;
	struct mem_info info;

	/* Small allocations of one owner share a block. Another owner gets a block of its own. */
	for (int i = 0; i < 64; i++)
		p[i] = alloc(w, &w->a, 1000);
	assert_int_equal(mem_used(w->m, 0), 2 * MIB);
	assert_int_equal(p[0] / SIMGPU_GRANULE, p[63] / SIMGPU_GRANULE);
	alloc(w, &w->b, 1000);
	assert_int_equal(mem_used(w->m, 0), 4 * MIB);
	assert_ok(mem_query(w->m, p[10] + 999, &info));
	assert_true(info.base == p[10]);
	assert_int_equal(mem_query(w->m, p[10] + 1000, &info), -ENOENT);
	for (int i = 0; i < 64; i += 2)
		assert_ok(mem_free(w->m, &w->a, p[i]));
	assert_int_equal(mem_free(w->m, &w->a, p[10]), -ENOENT);
	assert_int_equal(mem_check(w->m, &w->a, 0, p[10], 4, true), -EFAULT);
	assert_ok(mem_check(w->m, &w->a, 0, p[11], 1000, true));
	assert_int_equal(mem_check(w->m, &w->a, 0, p[11], 1001, true), -EFAULT);
	assert_int_equal(mem_check(w->m, &w->b, 0, p[11], 4, false), -EFAULT);
	assert_ok(mem_find_extent(w->m, &w->a, 0, p[11] + 500, &extent));
	assert_true(extent.lo == p[11] && extent.hi == p[11] + 1024 && extent.can_write);
	assert_int_equal(mem_find_extent(w->m, &w->a, 0, p[10], &extent), -EFAULT);
	assert_int_equal(mem_find_extent(w->m, &w->b, 0, p[11], &extent), -EFAULT);
	assert_int_equal(mem_used(w->m, 0), 4 * MIB);
	for (int i = 1; i < 64; i += 2)
		assert_ok(mem_free(w->m, &w->a, p[i]));
	assert_int_equal(mem_used(w->m, 0), 2 * MIB);
}

/*
 * Compares random allocations and frees with a simple model: allocations do not overlap and keep
 * their sizes.
 */
static void test_random(void **state)
{
	enum { N = 200 };
	struct world *w = *state;
	struct {
		uint64_t ptr, bytes;
	} live[N] = {0};
	unsigned int seed = 99;

	for (int round = 0; round < 20000; round++) {
		unsigned int r = (unsigned int)rand_r(&seed);
		int i = (int)(r % N);
		uint64_t bytes = r % 3 ? 1 + r % 60000 : 1 + r % (3 * MIB), ptr;
		struct mem_info info;

		if (live[i].ptr) {
			assert_ok(mem_query(w->m, live[i].ptr + live[i].bytes - 1, &info));
			assert_true(info.base == live[i].ptr && info.bytes == live[i].bytes);
			assert_ok(mem_free(w->m, &w->a, live[i].ptr));
			live[i].ptr = 0;
			continue;
		}
		if (mem_alloc(w->m, &w->a, r % 2, 0, SIMGPU_MEM_LINEAR, bytes, &ptr, NULL) < 0)
			continue;
		for (int k = 0; k < N; k++)
			assert_true(!live[k].ptr || ptr >= live[k].ptr + live[k].bytes ||
				ptr + bytes <= live[k].ptr);
		live[i].ptr = ptr;
		live[i].bytes = bytes;
	}
	for (int i = 0; i < N; i++)
		if (live[i].ptr)
			assert_ok(mem_free(w->m, &w->a, live[i].ptr));
	assert_int_equal(mem_used(w->m, 0), 0);
	assert_true(w->peak > TOTAL / 2);
}

static void test_context_ends(void **state)
{
	struct world *w = *state;
	uint64_t p, q;

	assert_ok(mem_alloc(w->m, &w->a, 1, 0, SIMGPU_MEM_LINEAR, 5 * MIB, &p, NULL));
	assert_ok(mem_alloc(w->m, &w->a, 1, 0, SIMGPU_MEM_ARRAY, 100, &p, NULL));
	assert_ok(mem_alloc(w->m, &w->a, 2, 0, SIMGPU_MEM_GLOBAL, 100, &q, NULL));
	mem_free_ctx(w->m, &w->a, 1);
	assert_int_equal(mem_used(w->m, 0), 2 * MIB);
	assert_int_equal(mem_free(w->m, &w->a, p), -ENOENT);
	assert_ok(mem_free(w->m, &w->a, q));
	assert_ok(mem_charge(w->m, &w->a, 1, 3 * MIB, SIMGPU_ACCOUNT_CONTEXT));
	assert_int_equal(mem_used(w->m, 1), 4 * MIB);
	assert_int_equal(mem_charge(w->m, &w->a, 1, TOTAL, SIMGPU_ACCOUNT_CONTEXT), -ENOMEM);
	mem_uncharge(w->m, &w->a, 1, 3 * MIB, SIMGPU_ACCOUNT_CONTEXT);
}

/*
 * A pool allocates a freed block again for a smaller request in the same stream. Work of the former
 * owner may still be in flight, so its bytes stay accessible until the stream reaches the free.
 */
static void test_pool_gives_on_what_is_in_use(void **state)
{
	struct world *w = *state;
	struct mem_pool *pool;
	uint64_t p, q, ticket;

	assert_ok(mem_pool_get(w->m, &w->a, SIMGPU_POOL_DEFAULT(0), 32 * MIB, &pool));
	assert_ok(mem_pool_alloc(w->m, pool, 1, 900, &p));
	assert_ok(mem_free_later(w->m, &w->a, p, 1, &ticket));
	assert_ok(mem_pool_alloc(w->m, pool, 1, 600, &q));
	assert_true(q == p);
	assert_ok(mem_check(w->m, &w->a, 0, p, 900, true));
	assert_int_equal(mem_check(w->m, &w->a, 0, p, 901, true), -EFAULT);
	mem_free_ticket(w->m, p, ticket);
	assert_ok(mem_free(w->m, &w->a, q));
	assert_int_equal(mem_check(w->m, &w->a, 0, p, 1, true), -EFAULT);
	assert_ok(mem_pool_alloc(w->m, pool, 2, 600, &q));
	assert_int_equal(mem_check(w->m, &w->a, 0, q, 601, true), -EFAULT);
}

static void test_pool(void **state)
{
	struct world *w = *state;
	struct mem_pool *pool;
	uint64_t p, q, ticket, other, v, id;

	assert_ok(mem_pool_get(w->m, &w->a, SIMGPU_POOL_DEFAULT(0), 32 * MIB, &pool));
	assert_ok(mem_pool_alloc(w->m, pool, 1, 3 * MIB, &p));
	assert_int_equal(mem_used(w->m, 0), 4 * MIB); /* a chunk is at most 1/64 of the device */
	assert_ok(mem_free_later(w->m, &w->a, p, 1, &ticket));
	assert_int_not_equal(ticket, 0);
	assert_int_equal(mem_free_later(w->m, &w->a, p, 1, &other), -ENOENT);
	/* Another stream must not get the freed block yet. The same stream gets it. */
	assert_ok(mem_pool_alloc(w->m, pool, 2, 3 * MIB, &q));
	assert_true(q != p);
	assert_ok(mem_pool_alloc(w->m, pool, 1, 3 * MIB, &q));
	assert_true(q == p);
	/* this ticket is outdated, because the block was allocated again */
	mem_free_ticket(w->m, p, ticket);
	assert_ok(mem_check(w->m, &w->a, 0, p, 3 * MIB, true));
	assert_ok(mem_pool_read(pool, SIMGPU_POOL_USED_CURRENT, &v));
	assert_int_equal(v, 6 * MIB);
	/* A pool releases free memory above its threshold, and keeps free memory below it. */
	assert_ok(mem_pool_set(w->m, pool, SIMGPU_POOL_RELEASE_THRESHOLD, 8 * MIB));
	assert_ok(mem_free(w->m, &w->a, p));
	assert_int_equal(mem_used(w->m, 0), 8 * MIB);
	mem_pool_trim(w->m, pool, 0);
	assert_int_equal(mem_used(w->m, 0), 4 * MIB);
	assert_ok(mem_pool_read(pool, SIMGPU_POOL_RESERVED_HIGH, &v));
	assert_int_equal(v, 8 * MIB);
	/* A destroyed pool lives until its last allocation is freed. */
	assert_ok(mem_pool_create(w->m, &w->a, 1, 2 * MIB, 4 * MIB, &id));
	assert_ok(mem_pool_get(w->m, &w->a, id, 0, &pool));
	assert_ok(mem_pool_alloc(w->m, pool, 1, MIB, &p));
	assert_int_equal(mem_pool_alloc(w->m, pool, 1, 5 * MIB, &q), -ENOMEM);
	assert_ok(mem_pool_destroy(w->m, &w->a, id));
	assert_int_equal(mem_pool_get(w->m, &w->a, id, 0, &pool), -EINVAL);
	assert_int_equal(mem_used(w->m, 1), 2 * MIB);
	assert_ok(mem_free(w->m, &w->a, p));
	assert_int_equal(mem_used(w->m, 1), 0);
}

static void test_vmm(void **state)
{
	struct world *w = *state;
	uint64_t va, id, other, ptr;

	assert_ok(mem_reserve(w->m, &w->a, 16 * MIB, 0, 0, &va));
	assert_int_equal(mem_used(w->m, 0), 0);
	assert_int_equal(mem_phys_create(w->m, &w->a, 0, MIB, &id), -EINVAL);
	assert_ok(mem_phys_create(w->m, &w->a, 0, 4 * MIB, &id));
	assert_int_equal(mem_used(w->m, 0), 4 * MIB);
	assert_int_equal(mem_map(w->m, &w->a, va + 14 * MIB, 4 * MIB, 0, id), -EINVAL);
	assert_ok(mem_map(w->m, &w->a, va + 2 * MIB, 4 * MIB, 0, id));
	assert_ok(mem_map(w->m, &w->a, va + 6 * MIB, 2 * MIB, 2 * MIB, id));
	assert_int_equal(mem_map(w->m, &w->a, va + 4 * MIB, 2 * MIB, 0, id), -EINVAL);
	assert_int_equal(mem_check(w->m, &w->a, 0, va + 2 * MIB, 4, false), -EFAULT);
	assert_ok(mem_set_access(w->m, &w->a, va + 2 * MIB, 6 * MIB, 0, 3));
	assert_ok(mem_check(w->m, &w->a, 0, va + 2 * MIB, 6 * MIB, true));
	assert_int_equal(mem_check(w->m, &w->a, 0, va + 2 * MIB, 6 * MIB + 1, true), -EFAULT);
	assert_int_equal(mem_check(w->m, &w->a, 1, va + 2 * MIB, 4, true), -EFAULT);
	/* Both mappings show the same memory. */
	*(uint32_t *)(va + 4 * MIB) = 42;
	assert_int_equal(*(uint32_t *)(va + 6 * MIB), 42);
	assert_int_equal(mem_unreserve(w->m, &w->a, va, 16 * MIB), -EINVAL);
	assert_ok(mem_phys_retain(w->m, &w->a, va + 3 * MIB, &other));
	assert_int_equal(other, id);
	assert_ok(mem_phys_release(w->m, &w->a, id));
	assert_ok(mem_phys_release(w->m, &w->a, id));
	assert_int_equal(mem_phys_release(w->m, &w->a, id), -EINVAL);
	assert_int_equal(mem_used(w->m, 0), 4 * MIB); /* the mappings still hold the memory */
	assert_int_equal(mem_unmap(w->m, &w->a, va + 2 * MIB, 2 * MIB), -EINVAL);
	assert_ok(mem_unmap(w->m, &w->a, va + 2 * MIB, 6 * MIB));
	assert_int_equal(mem_used(w->m, 0), 0);
	assert_ok(mem_unreserve(w->m, &w->a, va, 16 * MIB));
	ptr = va;
	assert_ok(mem_reserve(w->m, &w->a, 2 * MIB, 0, ptr, &va));
	assert_true(va == ptr); /* the requested address */
}

static void test_shared_handles(void **state)
{
	struct world *w = *state;
	uint64_t id, theirs, va;
	int fd;

	assert_ok(mem_phys_create(w->m, &w->a, 0, 4 * MIB, &id));
	fd = mem_phys_export(w->m, &w->a, id);
	assert_true(fd >= 0);
	assert_int_equal(mem_phys_export(w->m, &w->b, id), -EINVAL);
	assert_ok(mem_phys_import(w->m, &w->b, fd, &theirs));
	close(fd);
	mem_phys_settle(w->m);
	assert_ok(mem_reserve(w->m, &w->b, 4 * MIB, 0, 0, &va));
	assert_ok(mem_map(w->m, &w->b, va, 4 * MIB, 0, theirs));
	assert_int_equal(w->a.used[0], 4 * MIB);
	assert_int_equal(w->b.used[0], 0);
	assert_ok(mem_phys_release(w->m, &w->b, theirs));
	/* After the creator's end, the memory counts for the process that has mapped it. */
	mem_free_owner(w->m, &w->a);
	assert_int_equal(w->a.used[0], 0);
	assert_int_equal(w->b.used[0], 4 * MIB);
	*(uint32_t *)va = 1;
	assert_ok(mem_unmap(w->m, &w->b, va, 4 * MIB));
	assert_int_equal(mem_used(w->m, 0), 0);
}

/* A descriptor keeps the memory after all handles are released, until its last copy is closed. */
static void test_exported_descriptors(void **state)
{
	struct world *w = *state;
	uint64_t id, theirs;
	int fd, copy, other;

	assert_ok(mem_phys_create(w->m, &w->a, 0, 4 * MIB, &id));
	fd = mem_phys_export(w->m, &w->a, id);
	other = mem_phys_export(w->m, &w->a, id);
	assert_true(fd >= 0 && other >= 0);
	copy = dup(fd);
	close(other);
	assert_ok(mem_phys_release(w->m, &w->a, id));
	mem_phys_settle(w->m);
	assert_int_equal(w->a.used[0], 4 * MIB);
	assert_ok(mem_phys_import(w->m, &w->b, copy, &theirs));
	close(fd);
	close(copy);
	mem_phys_settle(w->m);
	assert_int_equal(mem_used(w->m, 0), 4 * MIB);
	assert_ok(mem_phys_release(w->m, &w->b, theirs));
	assert_int_equal(mem_used(w->m, 0), 0);
	/* No handle is left when the last copy of the descriptor is closed. */
	assert_ok(mem_phys_create(w->m, &w->a, 0, 4 * MIB, &id));
	fd = mem_phys_export(w->m, &w->a, id);
	assert_ok(mem_phys_release(w->m, &w->a, id));
	assert_int_equal(mem_used(w->m, 0), 4 * MIB);
	close(fd);
	mem_phys_settle(w->m);
	assert_int_equal(mem_used(w->m, 0), 0);
}

/*
 * The creator ends before the descriptor is imported. From the import on, the memory counts for the
 * importer.
 */
static void test_descriptor_outlives_maker(void **state)
{
	struct world *w = *state;
	uint64_t id, theirs;
	int fd;

	assert_ok(mem_phys_create(w->m, &w->a, 0, 4 * MIB, &id));
	fd = mem_phys_export(w->m, &w->a, id);
	mem_free_owner(w->m, &w->a);
	assert_int_equal(w->a.used[0], 0);
	assert_int_equal(mem_used(w->m, 0), 4 * MIB);
	assert_ok(mem_phys_import(w->m, &w->b, fd, &theirs));
	assert_int_equal(w->b.used[0], 4 * MIB);
	close(fd);
	mem_phys_settle(w->m);
	assert_ok(mem_phys_release(w->m, &w->b, theirs));
	assert_int_equal(mem_used(w->m, 0), 0);
}

static void test_clients_cannot_cut_memory(void **state)
{
	struct world *w = *state;
	uint64_t p, id;
	int fds[2];

	assert_ok(mem_alloc(w->m, &w->a, 0, 0, SIMGPU_MEM_MANAGED, 2 * MIB, &p, &fds[0]));
	assert_ok(mem_phys_create(w->m, &w->a, 0, 2 * MIB, &id));
	fds[1] = mem_phys_export(w->m, &w->a, id);
	for (int i = 0; i < 2; i++) {
		assert_true(fds[i] >= 0);
		assert_int_equal(ftruncate(fds[i], 0), -1);
		close(fds[i]);
	}
	mem_phys_settle(w->m);
	assert_ok(mem_phys_release(w->m, &w->a, id));
	assert_ok(mem_free(w->m, &w->a, p));
}

static void test_managed(void **state)
{
	struct world *w = *state;
	uint64_t p[4], moved;
	int fd[4];

	/* Each allocation has 20 MiB, and the device has 64 MiB: three fit. */
	for (int i = 0; i < 4; i++)
		assert_ok(
			mem_alloc(w->m, &w->a, 0, 0, SIMGPU_MEM_MANAGED, 20 * MIB, &p[i], &fd[i]));
	assert_int_equal(mem_used(w->m, 0), 0);
	for (int i = 0; i < 3; i++) {
		mem_begin_use(w->m);
		assert_ok(mem_touch(w->m, p[i] + 5, 0, &moved));
		assert_int_equal(moved, 20 * MIB);
	}
	mem_begin_use(w->m);
	assert_ok(mem_touch(w->m, p[0], 0, &moved));
	assert_int_equal(moved, 0);
	assert_ok(mem_touch(w->m, p[3], 0, &moved)); /* evicts p[1], the least recently used */
	assert_int_equal(moved, 40 * MIB);
	assert_int_equal(mem_used(w->m, 0), 60 * MIB);
	mem_begin_use(w->m);
	assert_ok(mem_touch(w->m, p[0], 0, &moved));
	assert_int_equal(moved, 0);
	/*
	 * An allocation of other memory also evicts managed memory. A use evicts no memory that the
	 * same use has touched.
	 */
	alloc(w, &w->b, 10 * MIB);
	assert_int_equal(mem_used(w->m, 0), 50 * MIB);
	mem_begin_use(w->m);
	assert_ok(mem_touch(w->m, p[0], 0, &moved));
	assert_ok(mem_touch(w->m, p[1], 0, &moved));
	assert_int_equal(mem_touch(w->m, p[2], 0, &moved), -ENOMEM);
	/* Use on another device moves the memory there. */
	assert_ok(mem_touch(w->m, p[0], 1, &moved));
	assert_int_equal(mem_used(w->m, 1), 20 * MIB);
	mem_evict(w->m, p[0], &moved);
	assert_int_equal(mem_used(w->m, 1), 0);
	for (int i = 0; i < 4; i++)
		close(fd[i]);
}

static void test_ipc(void **state)
{
	struct world *w = *state;
	uint64_t p = alloc(w, &w->a, 4 * MIB), key, q, bytes;

	assert_int_equal(mem_ipc_export(w->m, &w->a, p + 512, &key), -EINVAL);
	assert_ok(mem_ipc_export(w->m, &w->a, p, &key));
	assert_int_equal(mem_ipc_open(w->m, &w->a, key, &q, &bytes), -EPERM);
	assert_int_equal(mem_ipc_open(w->m, &w->b, key ^ (UINT64_C(1) << 50), &q, &bytes), -EINVAL);
	assert_int_equal(mem_check(w->m, &w->b, 0, p, 4, true), -EFAULT);
	assert_ok(mem_ipc_open(w->m, &w->b, key, &q, &bytes));
	assert_int_equal(bytes, 4 * MIB);
	assert_ok(mem_check(w->m, &w->b, 0, q, 4 * MIB, true));
	assert_int_equal(w->b.used[0], 0); /* the memory counts for the exporter */
	assert_ok(mem_ipc_close(w->m, &w->b, q));
	assert_int_equal(mem_check(w->m, &w->b, 0, q, 4, true), -EFAULT);
	assert_int_equal(mem_ipc_close(w->m, &w->b, q), -EINVAL);
}

/*
 * Memory that its owner has freed, or left behind at its exit, lives until the last importer closes
 * it.
 */
static void test_ipc_outlives_maker(void **state)
{
	struct world *w = *state;
	uint64_t key, q, again, bytes, p = alloc(w, &w->a, 4 * MIB);

	assert_ok(mem_ipc_export(w->m, &w->a, p, &key));
	assert_ok(mem_ipc_open(w->m, &w->b, key, &q, &bytes));
	assert_ok(mem_free(w->m, &w->a, p));
	assert_int_equal(mem_free(w->m, &w->a, p), -EPERM);
	assert_int_equal(mem_free(w->m, &w->b, p), -ENOENT);
	assert_int_equal(w->a.used[0], 0);
	assert_int_equal(w->b.used[0], 4 * MIB);
	assert_ok(mem_check(w->m, &w->b, 0, q, 4 * MIB, true));
	assert_int_equal(mem_check(w->m, &w->a, 0, q, 4, true), -EFAULT);
	assert_ok(mem_ipc_open(w->m, &w->b, key, &again, &bytes));
	assert_ok(mem_ipc_close(w->m, &w->b, q));
	assert_int_equal(mem_used(w->m, 0), 4 * MIB);
	assert_ok(mem_ipc_close(w->m, &w->b, q));
	assert_int_equal(mem_used(w->m, 0), 0);
	p = alloc(w, &w->a, 4 * MIB);
	assert_ok(mem_ipc_export(w->m, &w->a, p, &key));
	assert_ok(mem_ipc_open(w->m, &w->b, key, &q, &bytes));
	mem_free_owner(w->m, &w->a);
	assert_int_equal(w->b.used[0], 4 * MIB);
	mem_free_owner(w->m, &w->b);
	assert_int_equal(mem_used(w->m, 0), 0);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_granules),
		TEST(test_blocks),
		TEST(test_random),
		TEST(test_context_ends),
		TEST(test_pool_gives_on_what_is_in_use),
		TEST(test_pool),
		TEST(test_vmm),
		TEST(test_shared_handles),
		TEST(test_exported_descriptors),
		TEST(test_descriptor_outlives_maker),
		TEST(test_clients_cannot_cut_memory),
		TEST(test_managed),
		TEST(test_ipc),
		TEST(test_ipc_outlives_maker),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
