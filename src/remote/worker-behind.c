/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker's own events behind a stream's work. The program may end streams and contexts in one
 * lane while other lanes still look at such events. So no lane looks while something is being
 * destroyed, and events of a destroyed context are never used again. The destroying thread may wait
 * in the driver for data of another lane, so the other lanes do not wait for the destruction: they
 * look later. Any lane's thread.
 */
#include <stdlib.h>

#include "base/cleanup.h"
#include "remote/numbered.h"
#include "remote/worker.h"

struct ended {
	CUcontext context;
	/*
	 * Value of ends.n (below) when a context with this handle last ended. A later context may
	 * have the same handle.
	 */
	uint64_t when;
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t none_looks;
	unsigned ending, looking; /* number of lanes that destroy an object; that look at events */
	struct ended *ended;
	size_t n_ended;
	_Atomic uint64_t n;
} ends = {.lock = PTHREAD_MUTEX_INITIALIZER, .none_looks = PTHREAD_COND_INITIALIZER};

/* Primary contexts by device; more entries than a tenant has devices. */
static _Atomic(CUcontext) primary[128];
/*
 * Serialises changes of primary contexts, so that the worker sees the end of a primary context
 * before another thread makes the device's next one.
 */
static pthread_mutex_t primary_lock = PTHREAD_MUTEX_INITIALIZER;

void end_begin(void)
{
	pthread_mutex_lock(&ends.lock);
	ends.ending++;
	while (ends.looking)
		pthread_cond_wait(&ends.none_looks, &ends.lock);
	pthread_mutex_unlock(&ends.lock);
}

void end_done(void)
{
	pthread_mutex_lock(&ends.lock);
	ends.ending--;
	pthread_mutex_unlock(&ends.lock);
}

bool look_begin(void)
{
	bool may;

	pthread_mutex_lock(&ends.lock);
	may = !ends.ending;
	ends.looking += may;
	pthread_mutex_unlock(&ends.lock);
	return may;
}

void look_done(void)
{
	pthread_mutex_lock(&ends.lock);
	if (--ends.looking == 0)
		pthread_cond_broadcast(&ends.none_looks);
	pthread_mutex_unlock(&ends.lock);
}

uint64_t ends_so_far(void)
{
	return atomic_load(&ends.n);
}

/* ---- contexts ---- */

/* The caller holds the lock. */
static struct ended *find_ended(CUcontext context)
{
	for (size_t i = 0; i < ends.n_ended; i++)
		if (ends.ended[i].context == context)
			return &ends.ended[i];
	return NULL;
}

static void behind_has_context_ended(CUcontext context)
{
	struct ended *e, *more;

	pthread_mutex_lock(&ends.lock);
	e = find_ended(context);
	more = e ? NULL : realloc(ends.ended, (ends.n_ended + 1) * sizeof(*more));
	if (more) {
		ends.ended = more;
		e = &more[ends.n_ended++];
	}
	if (e)
		*e = (struct ended){context, ends.n + 1};
	ends.n++;
	pthread_mutex_unlock(&ends.lock);
}

CUresult context_destroy(CUcontext context)
{
	const CUresult r = driver.cuCtxDestroy_v2(context);

	if (!r)
		behind_has_context_ended(context);
	return r;
}

CUresult context_detach(CUcontext context)
{
	const CUresult r = driver.cuCtxDetach(context);
	unsigned int version;

	if (!r && driver.cuCtxGetApiVersion(context, &version))
		behind_has_context_ended(context);
	return r;
}

static bool behind_is_primary(CUdevice device)
{
	return device >= 0 && (size_t)device < ARRAY_SIZE(primary);
}

CUresult primary_retain(CUcontext *ret_context, CUdevice device)
{
	CUresult r;

	pthread_mutex_lock(&primary_lock);
	r = driver.cuDevicePrimaryCtxRetain(ret_context, device);
	pthread_mutex_unlock(&primary_lock);
	if (!r && ret_context && behind_is_primary(device))
		primary[device] = *ret_context;
	return r;
}

static CUresult primary_left(CUdevice device, CUresult (*leave)(CUdevice device))
{
	unsigned int flags;
	int is_active;
	CUresult r;

	pthread_mutex_lock(&primary_lock);
	r = leave(device);
	if (!r && behind_is_primary(device) && primary[device] &&
		!driver.cuDevicePrimaryCtxGetState(device, &flags, &is_active) && !is_active)
		behind_has_context_ended(primary[device]);
	pthread_mutex_unlock(&primary_lock);
	return r;
}

CUresult primary_release(CUdevice device)
{
	return primary_left(device, driver.cuDevicePrimaryCtxRelease_v2);
}

CUresult primary_reset(CUdevice device)
{
	return primary_left(device, driver.cuDevicePrimaryCtxReset_v2);
}

/* ---- events ---- */

struct behind behind_stream(CUstream stream)
{
	struct behind b = {.ends = ends_so_far()};
	const bool is_here = stream_has_number(stream);
	CUcontext before;

	if (is_here ? driver.cuCtxGetCurrent(&b.context)
		    : driver.cuStreamGetCtx(stream, &b.context))
		return b;
	if (!is_here && driver.cuCtxPushCurrent_v2(b.context))
		return b;
	if (!driver.cuEventCreate(&b.event, CU_EVENT_DISABLE_TIMING) &&
		driver.cuEventRecord(b.event, stream)) {
		driver.cuEventDestroy_v2(b.event);
		b.event = NULL;
	}
	if (!is_here)
		driver.cuCtxPopCurrent_v2(&before);
	return b;
}

static bool is_dead(const struct behind *b)
{
	const struct ended *e;
	bool is;

	if (ends_so_far() == b->ends)
		return false;
	pthread_mutex_lock(&ends.lock);
	e = find_ended(b->context);
	is = e && e->when > b->ends;
	pthread_mutex_unlock(&ends.lock);
	return is;
}

bool behind_is_over(struct behind *b)
{
	bool is_over;

	if (!b->event)
		return true;
	if (!look_begin())
		return false;
	is_over = is_dead(b);
	if (!is_over && driver.cuEventQuery(b->event) != CUDA_ERROR_NOT_READY) {
		driver.cuEventDestroy_v2(b->event);
		is_over = true;
	}
	look_done();
	if (is_over)
		b->event = NULL;
	return is_over;
}

void behind_forget(struct behind *b)
{
	/* If a stream or context is being destroyed now, the event stays until its context ends. */
	if (b->event && look_begin()) {
		if (!is_dead(b))
			driver.cuEventDestroy_v2(b->event);
		look_done();
	}
	b->event = NULL;
}
