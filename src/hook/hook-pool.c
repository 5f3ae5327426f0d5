/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pool is charged for all memory that it has reserved from the device, because other tenants
 * cannot have that memory. An allocation is first charged as if the pool had to grow for it. Then
 * the pool's charge follows the reserved size that the driver reports. pool_lock admits one thread
 * at a time, and no thread holds it over a wait.
 */
#include "hook/hook.h"
#include "hook/hook-memory.h"
#include "hook/relax.h"

#define POOLS_AT_ONCE 64
#define POOL_CHUNK (UINT64_C(32) << 20) /* pools grow in multiples of this */

static uint64_t pool_read_attribute(CUmemoryPool pool, CUmemPool_attribute which)
{
	cuuint64_t value = 0;

	return REAL(cuMemPoolGetAttribute)(pool, which, &value) == CUDA_SUCCESS ? value : 0;
}

/*
 * Sets the pool's charge to its reserved memory, without the memory that is charged as shared
 * memory. `more` pages are charged already. The caller holds pool_lock.
 */
static void pool_settle_charge(struct memory_record *pool, struct device *d, uint64_t more)
{
	uint64_t reserved = memory_pages(pool_read_attribute(
		(CUmemoryPool)(uintptr_t)pool->key, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
	uint64_t charged = pool->pages + more;
	struct memory_record now;

	/* memory that other processes may have is charged separately */
	reserved = reserved > pool->aux ? reserved - pool->aux : 0;
	if (reserved > charged)
		memory_charge_anyway(d, reserved - charged);
	memory_change(MEMORY_POOL, pool->key, 0, 0, (int64_t)reserved - (int64_t)pool->pages, &now);
	if (reserved < charged)
		memory_uncharge(d, charged - reserved);
}

struct pools {
	struct memory_record pool[POOLS_AT_ONCE];
	uint32_t n;
};

static void pool_collect_record(struct memory_record *record, void *arg)
{
	struct pools *pools = arg;

	if (pools->n < POOLS_AT_ONCE && !(record->flags & MEMORY_POOL_DESTROYED))
		pools->pool[pools->n++] = *record;
}

bool memory_pools_settle(void)
{
	struct hook *h = hook_registered();
	struct relaxed relaxed;
	struct pools pools;
	bool given = false;

	if (!h || !atomic_load(&h->pools) || !lock_try(&h->pool_lock))
		return false;
	atomic_store(&h->pools_freed, false);
	pools.n = 0;
	memory_each(MEMORY_POOL, pool_collect_record, &pools);
	relaxed = relax_begin();
	for (uint32_t i = 0; i < pools.n; i++) {
		struct memory_record now;

		pool_settle_charge(&pools.pool[i], &h->device[pools.pool[i].device], 0);
		given |= memory_get(MEMORY_POOL, pools.pool[i].key, &now) &&
			now.pages < pools.pool[i].pages;
	}
	relax_end(relaxed);
	lock_drop(&h->pool_lock);
	return given;
}

void memory_pools_trim(const struct device *d)
{
	struct hook *h = hook_registered();
	struct relaxed relaxed;
	struct pools pools = {0};

	if (!h || !lock_try(&h->pool_lock))
		return;
	memory_each(MEMORY_POOL, pool_collect_record, &pools);
	relaxed = relax_begin();
	for (uint32_t i = 0; i < pools.n; i++) {
		if (&h->device[pools.pool[i].device] == d)
			REAL(cuMemPoolTrimTo)((CUmemoryPool)(uintptr_t)pools.pool[i].key, 0);
	}
	relax_end(relaxed);
	lock_drop(&h->pool_lock);
}

/* Notes that `pages` more (or fewer) pages of the pool are charged as shared memory. */
void memory_pool_share(uint64_t pool, int64_t pages)
{
	struct hook *h = hook_registered();
	struct memory_record record;
	struct relaxed relaxed;

	lock_take(&h->pool_lock);
	if (memory_change(MEMORY_POOL, pool, 0, pages, 0, &record)) {
		struct device *d = &h->device[record.device];

		relaxed = relax_begin();
		if (!(record.flags & MEMORY_POOL_DESTROYED)) {
			pool_settle_charge(&record, d, 0);
		} else if (pages < 0) { /* the driver reports no size for a destroyed pool */
			memory_charge_anyway(d, (uint64_t)-pages);
			memory_change(MEMORY_POOL, pool, 0, 0, -pages, &record);
		}
		relax_end(relaxed);
	}
	lock_drop(&h->pool_lock);
}

void memory_pools_note_free(void)
{
	struct hook *h = hook_registered();

	if (h)
		atomic_store(&h->pools_freed, true);
}

/*
 * Returns the pool's record, and makes it at the pool's first use. The caller holds pool_lock.
 * False: out of memory.
 */
static bool pool_get(CUmemoryPool pool, struct device *d, struct memory_record *ret_pool)
{
	struct hook *h = hook_registered();

	if (memory_get(MEMORY_POOL, (uintptr_t)pool, ret_pool))
		return true;
	*ret_pool = (struct memory_record){
		.kind = MEMORY_POOL,
		.key = (uintptr_t)pool,
		.device = (uint8_t)d->index,
	};
	if (!memory_put(ret_pool))
		return false;
	atomic_store(&h->pools, true);
	return true;
}

struct taking {
	struct device *device; /* NULL: not counted */
	CUmemoryPool pool;
	uint64_t bytes;
	uint64_t pages; /* charged in case the pool must grow */
};

static struct device *stream_device(uintptr_t stream)
{
	struct thread *t = thread_get();
	struct stream *s = t ? stream_resolve(t, stream == STREAM_LEGACY ? 0 : stream) : NULL;

	return s ? s->context->device : NULL;
}

/* pool NULL: the allocation is from the current pool of the stream's device. */
static int taking_begin(struct taking *t, CUmemoryPool pool, size_t bytes, uintptr_t stream)
{
	struct hook *h = hook_registered();
	struct memory_record known;

	*t = (struct taking){.pool = pool, .bytes = bytes};
	if (!h)
		return 0;
	/*
	 * A captured allocation becomes a node of a graph, and graph.c charges it when the graph is
	 * launched.
	 */
	if (atomic_load(&h->captures) && capture_active(stream))
		return 0;
	if (pool && memory_get(MEMORY_POOL, (uintptr_t)pool, &known))
		t->device = &h->device[known.device];
	else
		t->device = stream_device(stream);
	if (!t->device)
		return 0;
	if (!pool && REAL(cuDeviceGetMemPool)(&t->pool, t->device->ordinal) != CUDA_SUCCESS) {
		t->device = NULL;
		return 0;
	}
	/*
	 * Only the driver knows whether the pool's reserved memory suffices, so the charge assumes
	 * that the pool grows by the whole allocation.
	 */
	t->pages = memory_pages(bytes > UINT64_MAX / 4
			? bytes
			: (bytes + POOL_CHUNK - 1) / POOL_CHUNK * POOL_CHUNK);
	return memory_charge(t->device, t->pages);
}

static CUresult taking_end(struct taking *t, CUresult r, CUdeviceptr address)
{
	struct hook *h = hook_registered();
	struct memory_record pool,
		pointer = {
			.kind = MEMORY_POINTER,
			.key = address,
			.bytes = t->bytes,
			.aux = (uintptr_t)t->pool,
			.flags = MEMORY_OF_POOL,
		};

	if (!t->device)
		return r;
	pointer.device = (uint8_t)t->device->index;
	lock_take(&h->pool_lock);
	if (!pool_get(t->pool, t->device, &pool)) {
		lock_drop(&h->pool_lock);
		memory_uncharge(t->device, t->pages);
		return r;
	}
	if (r == CUDA_SUCCESS && memory_put(&pointer))
		memory_change(MEMORY_POOL, pool.key, 1, 0, 0, &pool);
	pool_settle_charge(&pool, t->device, t->pages);
	lock_drop(&h->pool_lock);
	return r;
}

#define TAKES(name, pool, handle, params, args) \
	EXPORT CUresult name params \
	{ \
		struct taking t; \
		CUresult r; \
\
		if (taking_begin(&t, pool, bytesize, handle)) \
			return memory_refusal(); \
		r = REAL(name) args; \
		return taking_end(&t, r, r == CUDA_SUCCESS ? *dptr : 0); \
	}

#define OWN(stream) ((stream) ? (uintptr_t)(stream) : STREAM_PER_THREAD)

TAKES(cuMemAllocAsync, NULL, (uintptr_t)hStream,
	(CUdeviceptr * dptr, size_t bytesize, CUstream hStream), (dptr, bytesize, hStream))
TAKES(cuMemAllocAsync_ptsz, NULL, OWN(hStream),
	(CUdeviceptr * dptr, size_t bytesize, CUstream hStream), (dptr, bytesize, hStream))
TAKES(cuMemAllocFromPoolAsync, pool, (uintptr_t)hStream,
	(CUdeviceptr * dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream),
	(dptr, bytesize, pool, hStream))
TAKES(cuMemAllocFromPoolAsync_ptsz, pool, OWN(hStream),
	(CUdeviceptr * dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream),
	(dptr, bytesize, pool, hStream))

EXPORT CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps)
{
	struct hook *h = hook_registered();
	struct memory_record record;
	struct device *d = NULL;
	CUresult r;

	/* other nodes could hold the pool's memory without the knowledge of this node's daemon */
	if (h && poolProps && poolProps->handleTypes & CU_MEM_HANDLE_TYPE_FABRIC)
		return CUDA_ERROR_NOT_SUPPORTED;
	r = REAL(cuMemPoolCreate)(pool, poolProps);
	if (r == CUDA_SUCCESS && h && poolProps->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
		d = device_of(poolProps->location.id);
	if (d) {
		lock_take(&h->pool_lock);
		memory_take(MEMORY_POOL, (uintptr_t)*pool, &record);
		pool_get(*pool, d, &record);
		lock_drop(&h->pool_lock);
	}
	return r;
}

/* The pool's memory stays charged while allocations from the pool are left. */
EXPORT CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
	struct hook *h = hook_registered();
	struct memory_record record;
	bool known = memory_take(MEMORY_POOL, (uintptr_t)pool, &record);
	CUresult r = REAL(cuMemPoolDestroy)(pool);

	if (!known)
		return r;
	if (r == CUDA_SUCCESS && !record.refs) {
		memory_uncharge(&h->device[record.device], record.pages);
		return r;
	}
	if (r == CUDA_SUCCESS)
		record.flags |= MEMORY_POOL_DESTROYED;
	memory_put(&record);
	return r;
}

EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep)
{
	CUresult r = REAL(cuMemPoolTrimTo)(pool, minBytesToKeep);

	memory_pools_settle();
	return r;
}

EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
	CUresult r = REAL(cuMemPoolSetAttribute)(pool, attr, value);

	memory_pools_settle();
	return r;
}
