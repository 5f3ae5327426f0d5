/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notes which streams wait for a later action of the program, and where captures began. A numbered
 * stream is a different one in each context, and CU_STREAM_PER_THREAD also in each thread.
 *
 * A stream waits from the call that makes it wait until the end of a synchronisation that began
 * after that call. Such a synchronisation waits for the stream, for its context, or for an event
 * that was recorded in the stream after that call. The counter `moment` orders calls and
 * synchronisations. A stream that waits for an event needs no note, because the stream in which the
 * event was recorded has its own note until its wait ends. Any thread.
 */
#include <stdlib.h>

#include "base/cleanup.h"
#include "remote/client.h"
#include "remote/numbered.h"

struct stream {
	CUstream handle;   /* NULL: the stream was destroyed while it waited */
	CUcontext context; /* NULL: not known */
	uint64_t thread;   /* for CU_STREAM_PER_THREAD */
	bool is_capturing;
	uint64_t waits; /* moment at which the stream began to wait; 0: it does not wait */
	CUevent event;  /* the last event that was recorded in the stream */
	uint64_t recorded;
};

static struct {
	pthread_mutex_t lock;
	struct stream *stream;
	size_t n, room;
	/* read without the lock */
	_Atomic size_t waiting, capturing;
	_Atomic bool is_lost; /* a record could not be stored, so any stream may wait or capture */
	_Atomic bool has_graphs;
	_Atomic uint64_t moment;
} streams = {.lock = PTHREAD_MUTEX_INITIALIZER, .moment = 1};

/* Primary contexts by device; more entries than a tenant has devices. */
static _Atomic(CUcontext) primary[128];

static __thread CUcontext current; /* NULL: the worker must be asked */
static __thread uint64_t began;

/* ---- the current context ---- */

void context_is(CUcontext context)
{
	current = context;
}

CUcontext context_now(void)
{
	if (!current && cuCtxGetCurrent(&current) != CUDA_SUCCESS)
		current = NULL;
	return current;
}

static struct stream stream_of(CUstream handle)
{
	if (!stream_has_number(handle))
		return (struct stream){.handle = handle};
	return (struct stream){
		handle ? handle : CU_STREAM_LEGACY, context_now(), stream_thread(handle)};
}

/* ---- functions that are called with the lock held ---- */

static struct stream *streams_find(const struct stream *like)
{
	for (size_t i = 0; i < streams.n; i++) {
		struct stream *s = &streams.stream[i];

		if (s->handle == like->handle && s->thread == like->thread &&
			(!stream_has_number(s->handle) || s->context == like->context))
			return s;
	}
	return NULL;
}

static struct stream *streams_find_or_add(const struct stream *like)
{
	struct stream *s = streams_find(like);
	const size_t room = streams.room ? 2 * streams.room : 32;

	if (s)
		return s;
	if (streams.n == streams.room) {
		s = realloc(streams.stream, room * sizeof(*s));
		if (!s) {
			streams.is_lost = true;
			return NULL;
		}
		streams.stream = s;
		streams.room = room;
	}
	s = &streams.stream[streams.n++];
	*s = *like;
	return s;
}

static void set_waits(struct stream *s, uint64_t moment)
{
	streams.waiting += (size_t)(moment != 0) - (size_t)(s->waits != 0);
	s->waits = moment;
}

static void set_capturing(struct stream *s, bool is)
{
	streams.capturing += (size_t)is - (size_t)s->is_capturing;
	s->is_capturing = is;
}

/* The caller holds the lock. event NULL: forgets all events. */
static void forget_event(CUevent event)
{
	for (size_t i = 0; i < streams.n; i++)
		if (!event || streams.stream[i].event == event)
			streams.stream[i].event = NULL;
}

/*
 * Drops the records of streams that neither wait nor capture. A record stays if its stream has no
 * number and the record contains the stream's context: then note_waits() need not ask the driver
 * for the context again.
 */
static void streams_tidy(void)
{
	for (size_t i = streams.n; i-- > 0;) {
		const struct stream *s = &streams.stream[i];

		if (!s->waits && !s->is_capturing && (stream_has_number(s->handle) || !s->context))
			streams.stream[i] = streams.stream[--streams.n];
	}
}

/* ---- the end of waits ---- */

void streams_now(void)
{
	began = streams.moment;
}

void stream_done(CUstream handle)
{
	struct stream like, *s;

	if (!streams.waiting)
		return;
	like = stream_of(handle);
	pthread_mutex_lock(&streams.lock);
	s = streams_find(&like);
	if (s && s->waits <= began) {
		set_waits(s, 0);
		streams_tidy();
	}
	pthread_mutex_unlock(&streams.lock);
}

void context_done(CUcontext context)
{
	if (!streams.waiting)
		return;
	if (!context)
		context = context_now();
	pthread_mutex_lock(&streams.lock);
	for (size_t i = 0; i < streams.n; i++) {
		struct stream *s = &streams.stream[i];

		if (context && s->context == context && s->waits <= began)
			set_waits(s, 0);
	}
	streams_tidy();
	pthread_mutex_unlock(&streams.lock);
}

void event_done(CUevent event)
{
	if (!streams.waiting)
		return;
	pthread_mutex_lock(&streams.lock);
	for (size_t i = 0; i < streams.n; i++) {
		struct stream *s = &streams.stream[i];

		if (s->event == event && s->recorded <= began && s->waits <= s->recorded)
			set_waits(s, 0);
	}
	streams_tidy();
	pthread_mutex_unlock(&streams.lock);
}

void context_destroyed(CUcontext context)
{
	context_is(NULL);
	layouts_forget();
	queries_forget();
	if (!context)
		return;
	pinned_freed(context);
	pthread_mutex_lock(&streams.lock);
	for (size_t i = 0; i < streams.n; i++) {
		struct stream *s = &streams.stream[i];

		if (s->context != context)
			continue;
		set_waits(s, 0);
		set_capturing(s, false);
		s->handle = NULL;
	}
	streams_tidy();
	pthread_mutex_unlock(&streams.lock);
}

void context_left(CUcontext context)
{
	unsigned int version;

	context_is(NULL);
	if (cuCtxGetApiVersion(context, &version) != CUDA_SUCCESS)
		context_destroyed(context);
}

static bool streams_is_primary(CUdevice device)
{
	return device >= 0 && (size_t)device < ARRAY_SIZE(primary);
}

void primary_is(CUdevice device, const CUcontext *context)
{
	if (context && streams_is_primary(device))
		primary[device] = *context;
}

void primary_left(CUdevice device)
{
	unsigned int flags;
	int is_active;

	if (cuDevicePrimaryCtxGetState(device, &flags, &is_active) == CUDA_SUCCESS && !is_active)
		context_destroyed(streams_is_primary(device) ? primary[device] : NULL);
}

/* The stream's record stays while other streams may wait for one of its events. */
void stream_destroyed(CUstream handle)
{
	const struct stream like = stream_of(handle);
	struct stream *s;

	query_forget((uintptr_t)handle);
	pthread_mutex_lock(&streams.lock);
	s = streams_find(&like);
	if (s) {
		set_capturing(s, false);
		s->handle = NULL;
		streams_tidy();
	}
	pthread_mutex_unlock(&streams.lock);
}

/* ---- the beginning of waits ---- */

static void note_waits(CUstream handle)
{
	struct stream like = stream_of(handle), *s;

	pthread_mutex_lock(&streams.lock);
	s = streams_find(&like);
	like.context = s ? s->context : like.context;
	pthread_mutex_unlock(&streams.lock);
	if (!like.context && cuStreamGetCtx(handle, &like.context) != CUDA_SUCCESS)
		like.context = NULL;
	pthread_mutex_lock(&streams.lock);
	s = streams_find_or_add(&like);
	if (s) {
		s->context = like.context;
		set_waits(s, atomic_fetch_add(&streams.moment, 1) + 1);
	}
	pthread_mutex_unlock(&streams.lock);
}

void stream_waits(CUstream stream)
{
	if (is_capturing())
		graphs_have_work();
	note_waits(stream);
}

void stream_records_not(CUevent event)
{
	pthread_mutex_lock(&streams.lock);
	forget_event(event);
	pthread_mutex_unlock(&streams.lock);
}

void stream_records(CUstream handle, CUevent event)
{
	struct stream like, *s;

	if (!streams.waiting)
		return;
	like = stream_of(handle);
	pthread_mutex_lock(&streams.lock);
	forget_event(event);
	s = streams_find(&like);
	if (s) {
		s->event = event;
		s->recorded = began;
	}
	pthread_mutex_unlock(&streams.lock);
}

void graphs_have_work(void)
{
	streams.has_graphs = true;
}

void stream_launches(CUstream stream)
{
	/* The graph may record any event again. */
	if (streams.waiting)
		stream_records_not(NULL);
	if (streams.has_graphs)
		note_waits(stream);
}

bool is_hazardous(void)
{
	return work_writes() || streams.waiting || streams.is_lost;
}

/* ---- captures ---- */

bool is_capturing(void)
{
	return streams.capturing || streams.is_lost;
}

/*
 * A stream joins a capture when it waits for an event of the capture, so only the driver knows
 * which streams capture.
 */
bool is_captured_on(CUstream stream)
{
	CUstreamCaptureStatus status;

	return is_capturing() && cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
		status != CU_STREAM_CAPTURE_STATUS_NONE;
}

void capture_began(CUstream handle)
{
	const struct stream like = stream_of(handle);
	struct stream *s;

	pthread_mutex_lock(&streams.lock);
	s = streams_find_or_add(&like);
	if (s)
		set_capturing(s, true);
	pthread_mutex_unlock(&streams.lock);
}

/*
 * Called after cuStreamEndCapture. The capture has ended even if the call failed, unless the driver
 * refused the call because another thread began the capture.
 */
void capture_ended(CUstream handle, CUresult r)
{
	struct stream like, *s;

	if (r == CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD || !streams.capturing)
		return;
	like = stream_of(handle);
	pthread_mutex_lock(&streams.lock);
	s = streams_find(&like);
	if (s) {
		set_capturing(s, false);
		streams_tidy();
	}
	pthread_mutex_unlock(&streams.lock);
}
