/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that is freed in stream order. The device keeps this memory until the stream reaches the
 * free, so it stays charged until then. An event behind each free shows when the stream has reached
 * the free. Pools return memory to the device later. When a charge does not fit, this code recovers
 * memory from completed frees and from pools. If that is too little, this code waits for the other
 * frees, as the driver waits before it reports out of memory. Lock order: see hook.h.
 */
#include "hook/hook.h"
#include "hook/hook-memory.h"
#include "hook/relax.h"
#include "hook/hook-share.h"

#define DEFERRED_MAX 64u

struct deferred {
	_Atomic uint32_t n;
	struct {
		CUevent event;
		struct memory_record record;
	} free[DEFERRED_MAX];
};

/* Records an event behind the work that is in the stream now; NULL if that is impossible. */
static CUevent event_behind(const struct stream *s, CUstream stream)
{
	CUcontext popped;
	CUevent event = NULL;

	if (REAL(cuCtxPushCurrent_v2)(s->context->handle) != CUDA_SUCCESS)
		return NULL;
	if (REAL(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
		event = NULL;
	if (event && REAL(cuEventRecord)(event, stream) != CUDA_SUCCESS) {
		REAL(cuEventDestroy_v2)(event);
		event = NULL;
	}
	REAL(cuCtxPopCurrent_v2)(&popped);
	return event;
}

bool deferred_settle(bool wait)
{
	struct hook *h = hook_registered();
	struct deferred *q = h ? h->deferred : NULL;
	struct relaxed relaxed;
	bool given = false;

	if (!q || !atomic_load_explicit(&q->n, memory_order_relaxed))
		return false;
	relaxed = relax_begin();
	lock_take(&h->deferred_lock);
	for (uint32_t i = 0; i < q->n;) {
		CUresult r = wait ? REAL(cuEventSynchronize)(q->free[i].event)
				  : REAL(cuEventQuery)(q->free[i].event);

		if (r == CUDA_ERROR_NOT_READY) {
			i++;
			continue;
		}
		/*
		 * Success shows that the stream has reached the free. Any other error shows that
		 * the context and its memory were destroyed.
		 */
		REAL(cuEventDestroy_v2)(q->free[i].event);
		memory_record_uncharge(&q->free[i].record);
		q->free[i] = q->free[--q->n];
		given = true;
	}
	lock_drop(&h->deferred_lock);
	relax_end(relaxed);
	return given;
}

static bool deferred_put_record(struct hook *h, CUevent event, const struct memory_record *record)
{
	struct deferred *q;
	bool ok;

	lock_take(&h->deferred_lock);
	q = h->deferred ? h->deferred : (h->deferred = hook_map(sizeof *q));
	ok = q && q->n < DEFERRED_MAX;
	if (ok) {
		q->free[q->n].event = event;
		q->free[q->n++].record = *record;
	}
	lock_drop(&h->deferred_lock);
	return ok;
}

void deferred_free(const struct memory_record *record, uintptr_t handle)
{
	struct hook *h = hook_registered();
	struct thread *t = thread_get();
	CUstream stream = (CUstream)(handle ? handle : STREAM_LEGACY);
	struct stream *s = t ? stream_resolve(t, handle == STREAM_LEGACY ? 0 : handle) : NULL;
	struct relaxed relaxed;
	CUevent event;

	if (!h)
		return;
	if (h->deferred && atomic_load(&h->deferred->n) >= DEFERRED_MAX / 2)
		deferred_settle(false);
	relaxed = relax_begin();
	event = s ? event_behind(s, stream) : NULL;
	if (!event || !deferred_put_record(h, event, record)) {
		/* without an event, or a place to store it, wait for the free now */
		REAL(cuStreamSynchronize)(stream);
		if (event)
			REAL(cuEventDestroy_v2)(event);
		memory_record_uncharge(record);
	}
	relax_end(relaxed);
}

bool memory_make_room(struct device *d, enum memory_effort effort)
{
	struct hook *h = hook_registered();
	bool given = deferred_settle(effort == MEMORY_WAIT);
	struct relaxed relaxed;

	/* settle shared memory too, even if the deferred frees gave memory back */
	given = share_settle() || given;
	if (!h)
		return given;
	/* Only a wait shows that frees into pools are complete. Never wait during a capture. */
	if (effort == MEMORY_WAIT && atomic_load(&h->pools) && !atomic_load(&h->captures)) {
		relaxed = relax_begin();
		REAL(cuCtxSynchronize)();
		relax_end(relaxed);
	}
	if (atomic_load(&h->pools))
		memory_pools_trim(d);
	return memory_pools_settle() || given;
}
