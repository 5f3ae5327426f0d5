/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exports that only observe: start, current context, streams, synchronisation, capture. Any thread.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "hook/hook.h"
#include "hook/hook-memory.h"
#include "hook/relax.h"
#include "hook/visible.h"

/* ---- cuInit ---- */

/* Called after cuInit: matches the driver's ordinals with the tenant's devices. */
static bool devices_match(struct hook *h)
{
	int count = 0;

	if (REAL(cuDeviceGetCount)(&count) != CUDA_SUCCESS || count < 0)
		return false;
	h->visible_count = 0;
	for (int i = 0; i < count; i++) {
		struct device *found = NULL;
		CUdevice ordinal;
		CUuuid uuid;

		if (i >= (int)MSG_DEVICES || REAL(cuDeviceGet)(&ordinal, i) != CUDA_SUCCESS ||
			(REAL(cuDeviceGetUuid_v2)(&uuid, ordinal) != CUDA_SUCCESS &&
				REAL(cuDeviceGetUuid)(&uuid, ordinal) != CUDA_SUCCESS))
			return false;
		for (uint32_t k = 0; k < h->devices && !found; k++) {
			if (!memcmp(h->device[k].uuid, &uuid, sizeof h->device[k].uuid))
				found = &h->device[k];
		}
		if (!found)
			return false;
		found->ordinal = ordinal;
		h->visible[i] = found;
		h->visible_count = (uint32_t)i + 1;
	}
	return true;
}

/* A tenant's grant names devices, so a driver that finds none of them has a fault. */
static void complain_of_driver(const struct hook *h, CUresult r)
{
	static _Atomic bool has_said;

	if (atomic_exchange(&has_said, true))
		return;
	hook_complain_no_gpu(
		"the driver's cuInit failed with error %d, although %u device%s granted; %s",
		(int)r, h->devices, h->devices == 1 ? " is" : "s are",
		access("/proc/self/stat", F_OK) < 0
			? "mount /proc, which the driver needs"
			: "check that the program can open the device files (/dev/nvidia*)");
}

static CUresult init_registered(struct hook *h, unsigned int flags)
{
	struct visible visible;
	CUresult r;

	lock_take(&h->init_lock);
	if (h->driver_ready) {
		lock_drop(&h->init_lock);
		return REAL(cuInit)(flags);
	}
	if (!visible_begin(&visible, h)) {
		lock_drop(&h->init_lock);
		return CUDA_ERROR_NO_DEVICE;
	}
	r = REAL(cuInit)(flags);
	visible_end(&visible);
	if (r == CUDA_ERROR_NO_DEVICE)
		complain_of_driver(h, r);
	if (r == CUDA_SUCCESS && !devices_match(h)) {
		hook_complain_no_gpu(
			"the driver shows devices of other tenants; load libdivvy-cuda.so "
			"before the first CUDA call");
		atomic_store(&h->mode, HOOK_CLOSED);
		r = CUDA_ERROR_NO_DEVICE;
	}
	h->driver_ready = r == CUDA_SUCCESS;
	lock_drop(&h->init_lock);
	return r;
}

EXPORT CUresult cuInit(unsigned int Flags)
{
	struct hook *h = hook_get();
	int saved = errno;
	CUresult r;

	if (!h)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!hook_driver_present())
		return CUDA_ERROR_NO_DEVICE;
	switch (session_open(h)) {
	case HOOK_REGISTERED: r = init_registered(h, Flags); break;
	case HOOK_CLOSED: r = CUDA_ERROR_NO_DEVICE; break;
	default: r = REAL(cuInit)(Flags); break;
	}
	errno = saved;
	return r;
}

/* ---- current context ---- */

#define FORGETS(name, variant, stream, params, args) \
	EXPORT CUresult name params \
	{ \
		CUresult r = REAL(name) args; \
\
		thread_forget_context(); \
		return r; \
	}

/* ---- streams ---- */

EXPORT CUresult cuStreamCreate(CUstream *phStream, unsigned int Flags)
{
	CUresult r = REAL(cuStreamCreate)(phStream, Flags);

	if (r == CUDA_SUCCESS)
		stream_created(*phStream, Flags);
	return r;
}

EXPORT CUresult cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags, int priority)
{
	CUresult r = REAL(cuStreamCreateWithPriority)(phStream, flags, priority);

	if (r == CUDA_SUCCESS)
		stream_created(*phStream, flags);
	return r;
}

/*
 * Makes no record of the stream: the first submission does that, because the stream's context need
 * not be the current context here.
 */
EXPORT CUresult cuGreenCtxStreamCreate(
	CUstream *phStream, CUgreenCtx greenCtx, unsigned int flags, int priority)
{
	return REAL(cuGreenCtxStreamCreate)(phStream, greenCtx, flags, priority);
}

EXPORT CUresult cuStreamDestroy(CUstream hStream)
{
	stream_destroying(hStream);
	return REAL(cuStreamDestroy)(hStream);
}

EXPORT CUresult cuStreamDestroy_v2(CUstream hStream)
{
	stream_destroying(hStream);
	return REAL(cuStreamDestroy_v2)(hStream);
}

/* ---- synchronisation ---- */

static CUresult calls_synchronised(CUresult r)
{
	struct hook *h = hook_registered();

	if (h && r == CUDA_SUCCESS) {
		if (unlikely(atomic_load_explicit(&h->pools_freed, memory_order_relaxed)))
			memory_pools_settle();
		gate_synced();
	}
	return r;
}

#define SYNCS(name, variant, stream, params, args) \
	EXPORT CUresult name params \
	{ \
		return calls_synchronised(REAL(name) args); \
	}

/* ---- capture ---- */

bool capture_active(uintptr_t handle)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	CUresult r = REAL(cuStreamIsCapturing)((CUstream)handle, &status);

	/*
	 * An error (for example, a query of the legacy stream during a capture) counts as
	 * capturing, because the driver reports the error at the program's own call.
	 */
	return r != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

static void capture_count(struct hook *h, int change)
{
	uint32_t before = atomic_fetch_add(&h->captures, (uint32_t)change);

	for (uint32_t i = 0; i < h->devices; i++) {
		struct device *d = &h->device[i];

		atomic_store_explicit(
			&d->up->captures, before + (uint32_t)change, memory_order_relaxed);
		if (before + (uint32_t)change)
			atomic_fetch_or(&d->special, SPECIAL_CAPTURE);
		else
			atomic_fetch_and(&d->special, ~(uint32_t)SPECIAL_CAPTURE);
	}
}

/*
 * Puts a marker behind the stream's earlier work before the capture begins, because a later marker
 * would be captured.
 */
static void capture_begins(uintptr_t handle)
{
	struct hook *h = hook_registered();
	struct thread *t = h ? thread_get() : NULL;
	struct stream *s = t ? stream_resolve(t, handle) : NULL;
	struct device *d = s ? s->context->device : NULL;

	if (!h)
		return;
	if (d && atomic_load_explicit(&s->dirty, memory_order_acquire)) {
		struct relaxed relaxed = relax_begin();

		lock_take(&d->marker_lock);
		if (!atomic_load(&h->captures) || !capture_active(handle))
			marker_issue(d, s, 0, 0, 0);
		lock_drop(&d->marker_lock);
		relax_end(relaxed);
	}
	capture_count(h, 1);
}

static CUresult capture_began(CUresult r)
{
	struct hook *h = hook_registered();

	if (h && r != CUDA_SUCCESS)
		capture_count(h, -1);
	return r;
}

/*
 * Counts the end of a capture whatever the driver returned: an invalidated capture has ended too.
 */
static CUresult capture_ended(bool was, CUresult r)
{
	struct hook *h = hook_registered();

	if (h && was && atomic_load(&h->captures))
		capture_count(h, -1);
	return r;
}

#define BEGINS(name, variant, stream, params, args) \
	EXPORT CUresult name params \
	{ \
		capture_begins(stream_handle(HOOK_PER_THREAD_##variant, stream)); \
		return capture_began(REAL(name) args); \
	}

static bool calls_is_capturing(uintptr_t handle)
{
	struct hook *h = hook_registered();

	return h && atomic_load(&h->captures) && capture_active(handle);
}

#define ENDS(name, variant, stream, params, args) \
	EXPORT CUresult name params \
	{ \
		bool was = calls_is_capturing(stream_handle(HOOK_PER_THREAD_##variant, stream)); \
\
		return capture_ended(was, REAL(name) args); \
	}

#define DO_CAPTURE_BEGINS ~, BEGINS
#define DO_CAPTURE_ENDS ~, ENDS
#define DO_CTX ~, FORGETS
#define DO_SYNC ~, SYNCS
#define CU HOOK_DO
#include "cuda/cuda.def"
#undef CU
