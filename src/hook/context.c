/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of contexts. The expected size is charged before a context is made, and corrected
 * afterwards by the use that the device reports. All memory that was allocated in a context ends
 * with the context. Memory for limits that the program raises (cuCtxSetLimit) is charged too. Any
 * thread.
 */
#include "hook/hook.h"
#include "hook/hook-memory.h"
#include "hook/relax.h"

struct making {
	struct device *device; /* NULL: the context's memory is not charged */
	CUdevice ordinal;
	uint64_t pages;
};

static int context_making_begin(struct making *m, CUdevice ordinal)
{
	*m = (struct making){.device = device_of(ordinal), .ordinal = ordinal};
	if (!m->device)
		return 0;
	m->pages = (atomic_load_explicit(&m->device->down->context_bytes, memory_order_relaxed) +
			   PAGE_MEM_UNIT - 1) /
		PAGE_MEM_UNIT;
	return memory_charge(m->device, m->pages);
}

/* `handle` is current now, unless it is a primary context. */
static CUresult context_making_end(struct making *m, CUresult r, CUcontext handle, bool primary)
{
	if (m->device && r == CUDA_SUCCESS && handle && !context_lookup(handle))
		context_created(handle, m->ordinal, primary, m->pages);
	else if (m->device)
		memory_uncharge(m->device, m->pages);
	thread_forget_context();
	return r;
}

#define CREATES(name, ordinal, result, params, args) \
	EXPORT CUresult name params \
	{ \
		struct making m; \
		CUresult r; \
\
		if (context_making_begin(&m, ordinal)) \
			return memory_refusal(); \
		r = REAL(name) args; \
		return context_making_end(&m, r, r == CUDA_SUCCESS ? *(result) : NULL, false); \
	}

CREATES(cuCtxCreate, dev, pctx, (CUcontext * pctx, unsigned int flags, CUdevice dev),
	(pctx, flags, dev))
CREATES(cuCtxCreate_v2, dev, pctx, (CUcontext * pctx, unsigned int flags, CUdevice dev),
	(pctx, flags, dev))
CREATES(cuCtxCreate_v3, dev, pctx,
	(CUcontext * pctx, CUexecAffinityParam *paramsArray, int numParams, unsigned int flags,
		CUdevice dev),
	(pctx, paramsArray, numParams, flags, dev))
CREATES(cuCtxCreate_v4, dev, pctx,
	(CUcontext * pctx, CUctxCreateParams *ctxCreateParams, unsigned int flags, CUdevice dev),
	(pctx, ctxCreateParams, flags, dev))

static bool primary_active(CUdevice dev)
{
	unsigned int flags;
	int active = 0;

	return REAL(cuDevicePrimaryCtxGetState)(dev, &flags, &active) == CUDA_SUCCESS && active;
}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
	struct making m;
	CUresult r;

	if (!device_of(dev) || primary_active(dev)) {
		r = REAL(cuDevicePrimaryCtxRetain)(pctx, dev);
		if (r == CUDA_SUCCESS && device_of(dev))
			/* the context may have been made without this library's knowledge */
			context_find(*pctx);
		return r;
	}
	if (context_making_begin(&m, dev))
		return memory_refusal();
	r = REAL(cuDevicePrimaryCtxRetain)(pctx, dev);
	return context_making_end(&m, r, r == CUDA_SUCCESS ? *pctx : NULL, true);
}

/* ---- the end of a context ---- */

struct ending {
	CUcontext handle; /* NULL: no known context ends */
	struct device *device;
	uint64_t pages;
};

static struct ending ending_of(const struct context *c)
{
	return c ? (struct ending){c->handle, c->device, c->pages} : (struct ending){0};
}

static void context_ended(const struct ending *e)
{
	if (!e->handle)
		return;
	memory_context_destroyed(e->handle);
	memory_uncharge(e->device, e->pages);
	thread_forget_context();
}

static struct context *primary_of(const struct device *d)
{
	struct hook *h = hook_registered();

	for (uint32_t i = 0; h && d && i < h->contexts; i++) {
		if (h->context[i].handle && h->context[i].primary && h->context[i].device == d)
			return &h->context[i];
	}
	return NULL;
}

/* The context has ended only if its last reference was released, or a reset made it inactive. */
static CUresult primary_released(CUresult r, CUdevice dev)
{
	struct context *c = primary_of(device_of(dev));
	struct ending e = ending_of(c);

	if (r != CUDA_SUCCESS || !c || primary_active(dev))
		return r;
	context_destroying(e.handle);
	context_ended(&e);
	return r;
}

EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice dev)
{
	return primary_released(REAL(cuDevicePrimaryCtxRelease)(dev), dev);
}

EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
	return primary_released(REAL(cuDevicePrimaryCtxRelease_v2)(dev), dev);
}

/*
 * If the program still holds the context, a reset only makes it inactive. Its next use makes it
 * active again, under the same handle.
 */
EXPORT CUresult cuDevicePrimaryCtxReset(CUdevice dev)
{
	return primary_released(REAL(cuDevicePrimaryCtxReset)(dev), dev);
}

EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
	return primary_released(REAL(cuDevicePrimaryCtxReset_v2)(dev), dev);
}

EXPORT CUresult cuCtxDestroy_v2(CUcontext ctx)
{
	struct context *c = context_lookup(ctx);
	struct ending e = ending_of(c && !c->primary ? c : NULL);
	CUresult r;

	/* before the call, because no thread of this library may use the context during the call */
	if (e.handle)
		context_destroying(e.handle);
	r = REAL(cuCtxDestroy_v2)(ctx);
	context_ended(&e);
	return r;
}

EXPORT CUresult cuCtxDestroy(CUcontext ctx)
{
	struct context *c = context_lookup(ctx);
	struct ending e = ending_of(c && !c->primary ? c : NULL);
	CUresult r;

	if (e.handle)
		context_destroying(e.handle);
	r = REAL(cuCtxDestroy)(ctx);
	context_ended(&e);
	return r;
}

/*
 * The call may release the last reference: the context has ended if the driver no longer knows it.
 */
EXPORT CUresult cuCtxDetach(CUcontext ctx)
{
	struct context *c = context_lookup(ctx);
	struct ending e = ending_of(c && !c->primary ? c : NULL);
	CUresult r = REAL(cuCtxDetach)(ctx);
	unsigned int version;

	if (r == CUDA_SUCCESS && e.handle &&
		REAL(cuCtxGetApiVersion)(e.handle, &version) != CUDA_SUCCESS) {
		context_destroying(e.handle);
		context_ended(&e);
	}
	return r;
}

EXPORT CUresult cuGreenCtxCreate(
	CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev, unsigned int flags)
{
	struct making m = {.device = NULL};
	CUcontext primary = NULL;
	CUresult r;

	/* this call makes the primary context if there is none */
	if (device_of(dev) && !primary_active(dev) && context_making_begin(&m, dev))
		return memory_refusal();
	r = REAL(cuGreenCtxCreate)(phCtx, desc, dev, flags);
	if (!m.device)
		return r;
	if (r == CUDA_SUCCESS && primary_active(dev) &&
		REAL(cuDevicePrimaryCtxRetain)(&primary, dev) == CUDA_SUCCESS)
		REAL(cuDevicePrimaryCtxRelease_v2)(dev);
	return context_making_end(&m, r, primary, true);
}

/* ---- limits ---- */

/* Device memory that `limit` takes if its value is `value`. */
static uint64_t context_limit_bytes(CUlimit limit, size_t value, CUdevice dev)
{
	int processors = 0, threads = 0;
	uint64_t bytes;

	if (limit == CU_LIMIT_MALLOC_HEAP_SIZE || limit == CU_LIMIT_PRINTF_FIFO_SIZE)
		return value;
	if (limit != CU_LIMIT_STACK_SIZE)
		return 0;
	REAL(cuDeviceGetAttribute)(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, dev);
	REAL(cuDeviceGetAttribute)
	(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, dev);
	if (__builtin_mul_overflow(
		    (uint64_t)value, (uint64_t)processors * (uint64_t)threads, &bytes))
		return UINT64_MAX;
	return bytes;
}

/*
 * Converts the sum of all changes of a context's limits to pages to charge. A negative sum charges
 * nothing, so lowering a limit returns at most the charge for raising it.
 */
static uint64_t limits_charged(int64_t pages)
{
	return pages > 0 ? (uint64_t)pages : 0;
}

EXPORT CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
	struct thread *t = thread_get();
	struct context *c = t ? context_current(t) : NULL;
	struct device *d = c ? c->device : NULL;
	uint64_t before, after;
	int64_t pages;
	size_t now = 0;
	CUresult r;

	if (!d || REAL(cuCtxGetLimit)(&now, limit) != CUDA_SUCCESS)
		return REAL(cuCtxSetLimit)(limit, value);
	pages = (int64_t)memory_pages(context_limit_bytes(limit, value, d->ordinal)) -
		(int64_t)memory_pages(context_limit_bytes(limit, now, d->ordinal));
	if (__builtin_add_overflow(pages, c->limit_pages, &pages))
		pages = INT64_MAX; /* more than any device has: refused below */
	before = limits_charged(c->limit_pages);
	after = limits_charged(pages);
	if (after > before && memory_charge(d, after - before))
		return memory_refusal();
	r = REAL(cuCtxSetLimit)(limit, value);
	if (r != CUDA_SUCCESS) {
		if (after > before)
			memory_uncharge(d, after - before);
		return r;
	}
	if (after < before)
		memory_uncharge(d, before - after);
	c->pages += after - before;
	c->limit_pages = pages;
	return r;
}

/* ---- contexts for graphics ---- */

CREATES(cuGLCtxCreate, device, pCtx, (CUcontext * pCtx, unsigned int Flags, CUdevice device),
	(pCtx, Flags, device))
CREATES(cuGLCtxCreate_v2, device, pCtx, (CUcontext * pCtx, unsigned int Flags, CUdevice device),
	(pCtx, Flags, device))
CREATES(cuVDPAUCtxCreate, device, pCtx,
	(CUcontext * pCtx, unsigned int flags, CUdevice device, uint32_t vdpDevice,
		void *vdpGetProcAddress),
	(pCtx, flags, device, vdpDevice, vdpGetProcAddress))
CREATES(cuVDPAUCtxCreate_v2, device, pCtx,
	(CUcontext * pCtx, unsigned int flags, CUdevice device, uint32_t vdpDevice,
		void *vdpGetProcAddress),
	(pCtx, flags, device, vdpDevice, vdpGetProcAddress))
