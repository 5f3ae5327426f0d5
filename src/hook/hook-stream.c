/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of streams and contexts. If the library has not seen the creation of a stream (for
 * example, by a runtime through an export table), its handle gets a record at the first submission.
 *
 * Default streams have a record for each context, found through the thread's current context; all
 * other streams are in one map. A record is never freed, and keeps its handle after the stream's
 * end. So a record that a thread has cached is correct or leads to the slow path. Writers hold
 * stream_lock.
 */
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "hook/hook.h"
#include "hook/hook-memory.h"
#include "hook/relax.h"

/* at most this many streams are checked at each marker (stream_few_clean()) */
#define FEW_STREAMS 16u

#define MAP_FIRST 1024u

/* An empty map with room for two entries. While the memory is all zero, searches find nothing. */
static _Alignas(struct stream_map) char map_empty[sizeof(struct stream_map) +
	2 * sizeof(struct stream_map_entry)];

struct stream_map *_Atomic hook_streams = (struct stream_map *)map_empty;

struct device *device_of(CUdevice ordinal)
{
	struct hook *h = hook_registered();

	return h && ordinal >= 0 && (uint32_t)ordinal < h->visible_count ? h->visible[ordinal]
									 : NULL;
}

/* ---- records ---- */

static struct stream *record_new(struct hook *h)
{
	struct stream *s = h->free;

	if (s) {
		h->free = s->next_free;
		return s;
	}
	if (!h->spares) {
		struct stream_chunk *chunk = hook_map(sizeof *chunk);

		if (!chunk)
			return NULL;
		chunk->next = h->chunks;
		h->chunks = chunk;
		h->spare = chunk->stream;
		h->spares = sizeof chunk->stream / sizeof chunk->stream[0];
	}
	h->spares--;
	return h->spare++;
}

static void record_set(struct stream *s, uintptr_t handle, struct context *c, bool nonblocking)
{
	atomic_store_explicit(&s->device, NULL, memory_order_relaxed);
	atomic_store_explicit(&s->handle, handle, memory_order_relaxed);
	atomic_store_explicit(&s->dirty, 0, memory_order_relaxed);
	atomic_store_explicit(&s->owner, 0, memory_order_relaxed);
	s->slot = 0;
	s->context = c;
	s->nonblocking = nonblocking;
	s->alive = true;
	/*
	 * Release, pairs with the data dependency of the fast path (gate_try()): a thread that sees
	 * `device` also sees the stores before it.
	 */
	atomic_store_explicit(&s->device, c->device, memory_order_release);
}

static struct stream *map_find(const struct stream_map *m, uintptr_t handle)
{
	for (uint64_t i = stream_hash(handle);; i++) {
		const struct stream_map_entry *e = &m->entry[i & m->mask];
		uintptr_t at = atomic_load_explicit(&e->handle, memory_order_acquire);

		if (at == handle)
			return atomic_load_explicit(&e->stream, memory_order_acquire);
		if (!at)
			return NULL;
	}
}

struct stream *stream_find(uintptr_t handle)
{
	const struct stream_map *m = atomic_load_explicit(&hook_streams, memory_order_acquire);

	return handle > STREAM_PER_THREAD ? map_find(m, handle) : NULL;
}

static void map_put(struct stream_map *m, uintptr_t handle, struct stream *s)
{
	uint64_t i = stream_hash(handle);

	while (atomic_load_explicit(&m->entry[i & m->mask].handle, memory_order_relaxed))
		i++;
	atomic_store_explicit(&m->entry[i & m->mask].stream, s, memory_order_release);
	atomic_store_explicit(&m->entry[i & m->mask].handle, handle, memory_order_release);
	m->used++;
}

/*
 * Keeps the map at most a quarter full, so that a search is short. Never frees the old map, because
 * threads may be reading it.
 */
static struct stream_map *map_grow(struct hook *h, struct stream_map *old)
{
	uint64_t living = 0, n = MAP_FIRST;
	struct stream_map *m;

	for (uint64_t i = 0; i <= old->mask; i++) {
		struct stream *s = atomic_load_explicit(
			&old->entry[i].stream, memory_order_relaxed);

		living += s && s->alive;
	}
	while (n < 4 * (living + 1) * 2)
		n *= 2;
	m = hook_map(sizeof *m + (n + 1) * sizeof m->entry[0]);
	if (!m)
		return NULL;
	m->mask = n - 1;
	for (uint64_t i = 0; i <= old->mask; i++) {
		struct stream *s = atomic_load_explicit(
			&old->entry[i].stream, memory_order_relaxed);

		if (!s)
			continue;
		if (s->alive) {
			map_put(m, atomic_load_explicit(&s->handle, memory_order_relaxed), s);
		} else {
			s->next_free = h->free;
			h->free = s;
		}
	}
	atomic_store_explicit(&hook_streams, m, memory_order_release);
	return m;
}

static struct stream *stream_add(
	struct hook *h, uintptr_t handle, struct context *c, bool nonblocking)
{
	struct stream_map *m;
	struct stream *s;

	lock_take(&h->stream_lock);
	m = atomic_load_explicit(&hook_streams, memory_order_relaxed);
	s = map_find(m, handle);
	if (!s && (m->used + 1) * 4 > m->mask)
		m = map_grow(h, m);
	if (!s && m) {
		s = record_new(h);
		if (s)
			record_set(s, handle, c, nonblocking);
		if (s)
			map_put(m, handle, s);
	} else if (s && !s->alive) {
		record_set(s, handle, c, nonblocking);
	}
	lock_drop(&h->stream_lock);
	return s;
}

void stream_each(struct device *d, void (*fn)(struct stream *, void *), void *arg)
{
	struct hook *h = hook_registered();

	if (!h)
		return;
	lock_take(&h->stream_lock);
	for (struct stream_chunk *c = h->chunks; c; c = c->next) {
		for (size_t i = 0; i < sizeof c->stream / sizeof c->stream[0]; i++) {
			struct stream *s = &c->stream[i];

			if (s->alive && atomic_load_explicit(&s->device, memory_order_relaxed) == d)
				fn(s, arg);
		}
	}
	lock_drop(&h->stream_lock);
}

bool stream_few_clean(struct device *d)
{
	struct hook *h = hook_registered();
	bool is_clean;
	size_t n = 0;

	if (!h)
		return false;
	lock_take(&h->stream_lock);
	if (h->chunks && !h->chunks->next)
		n = sizeof h->chunks->stream / sizeof h->chunks->stream[0] - h->spares;
	is_clean = n > 0 && n <= FEW_STREAMS;
	for (size_t i = 0; i < n && is_clean; i++) {
		const struct stream *s = &h->chunks->stream[i];

		is_clean = !s->alive ||
			atomic_load_explicit(&s->device, memory_order_relaxed) != d ||
			!atomic_load_explicit(&s->dirty, memory_order_acquire);
	}
	lock_drop(&h->stream_lock);
	return is_clean;
}

/* ---- contexts ---- */

struct context *context_lookup(CUcontext handle)
{
	struct hook *h = hook_registered();

	for (uint32_t i = 0; h && handle && i < h->contexts; i++) {
		if (h->context[i].handle == handle)
			return &h->context[i];
	}
	return NULL;
}

/* Makes the context current if it is not. If *ret_pushed is true, the caller pops the context. */
static bool make_current(CUcontext handle, bool *ret_pushed)
{
	CUcontext now = NULL;

	*ret_pushed = false;
	if (REAL(cuCtxGetCurrent)(&now) == CUDA_SUCCESS && now == handle)
		return true;
	*ret_pushed = REAL(cuCtxPushCurrent_v2)(handle) == CUDA_SUCCESS;
	return *ret_pushed;
}

static struct context *context_add(struct hook *h, CUcontext handle, struct device *d)
{
	struct context *c = NULL;

	lock_take(&h->stream_lock);
	for (uint32_t i = 0; i < HOOK_CONTEXTS && !c; i++) {
		if (!h->context[i].handle)
			c = &h->context[i];
	}
	if (c) {
		struct stream *legacy = c->legacy ? c->legacy : record_new(h);
		struct stream *own = c->per_thread ? c->per_thread : record_new(h);

		*c = (struct context){
			.handle = handle, .device = d, .legacy = legacy, .per_thread = own};
		if (legacy && own) {
			record_set(legacy, 0, c, false);
			record_set(own, STREAM_PER_THREAD, c, false);
			if ((uint32_t)(c - h->context) >= h->contexts)
				h->contexts = (uint32_t)(c - h->context) + 1;
			atomic_fetch_add(&d->up->contexts, 1);
		} else {
			c->handle = NULL;
			c = NULL;
		}
	}
	lock_drop(&h->stream_lock);
	return c;
}

static struct context *context_made(CUcontext handle, struct device *d)
{
	struct hook *h = hook_registered();
	struct relaxed relaxed = relax_begin();
	struct context *c = context_add(h, handle, d);
	bool pushed;

	if (c && make_current(handle, &pushed)) {
		CUcontext popped;

		marker_context(c);
		if (pushed)
			REAL(cuCtxPopCurrent_v2)(&popped);
	}
	relax_end(relaxed);
	session_helper_start(h);
	return c;
}

struct context *context_find(CUcontext handle)
{
	struct context *c = context_lookup(handle);
	struct relaxed relaxed;
	CUdevice ordinal = -1;
	bool pushed;

	if (c || !handle || !hook_registered())
		return c;
	relaxed = relax_begin();
	if (make_current(handle, &pushed)) {
		CUcontext popped;

		if (REAL(cuCtxGetDevice)(&ordinal) != CUDA_SUCCESS)
			ordinal = -1;
		if (pushed)
			REAL(cuCtxPopCurrent_v2)(&popped);
	}
	relax_end(relaxed);
	if (!device_of(ordinal))
		return NULL;
	/*
	 * The context was made without this library's knowledge. Its memory exists already, so it
	 * is charged even beyond the quota.
	 */
	c = context_made(handle, device_of(ordinal));
	if (c)
		memory_context_reused(c);
	return c;
}

void context_created(CUcontext handle, CUdevice ordinal, bool primary, uint64_t pages)
{
	struct device *d = device_of(ordinal);
	struct context *c;

	if (!d)
		return;
	c = context_made(handle, d);
	if (!c) {
		memory_uncharge(d, pages);
		return;
	}
	c->primary = primary;
	c->pages = pages;
	memory_context_settle(c);
}

/* The caller holds the marker lock. */
static void stream_ends(struct stream *s)
{
	marker_slot_release(atomic_load_explicit(&s->device, memory_order_relaxed), s);
	atomic_store_explicit(&s->device, NULL, memory_order_relaxed);
	s->alive = false;
}

struct ending {
	struct context *context;
	uint32_t slot[PAGE_SLOTS];
	uint32_t n;
};

static void context_ends_stream(struct stream *s, void *arg)
{
	struct ending *ending = arg;

	if (s->context != ending->context)
		return;
	if (s->slot && ending->n < PAGE_SLOTS)
		ending->slot[ending->n++] = s->slot;
	stream_ends(s);
}

void context_destroying(CUcontext handle)
{
	struct hook *h = hook_registered();
	struct context *c = context_lookup(handle);
	struct ending ending;
	struct device *d;

	if (!c)
		return;
	d = c->device;
	ending.context = c;
	ending.n = 0;
	marker_context_destroyed(c);
	lock_take(&d->marker_lock);
	stream_each(d, context_ends_stream, &ending);
	marker_context_dead(d, ending.slot, ending.n);
	lock_drop(&d->marker_lock);
	lock_take(&h->stream_lock);
	c->handle = NULL;
	/* the records of its default streams stay here, for the next context in this entry */
	atomic_fetch_sub(&d->up->contexts, 1);
	lock_drop(&h->stream_lock);
	thread_forget_context();
}

struct context *context_current(struct thread *t)
{
	CUcontext handle = NULL;

	if (t->context && t->context->handle)
		return t->context;
	if (REAL(cuCtxGetCurrent)(&handle) != CUDA_SUCCESS || !handle)
		return NULL;
	t->context = context_find(handle);
	return t->context;
}

/* ---- streams by the program's handles ---- */

struct stream *stream_resolve(struct thread *t, uintptr_t handle)
{
	struct hook *h = hook_registered();
	unsigned int flags = 0;
	struct relaxed relaxed;
	CUcontext context = NULL;
	struct context *c;
	struct stream *s;

	if (handle <= STREAM_PER_THREAD) {
		c = context_current(t);
		if (!c)
			return NULL;
		s = handle == STREAM_PER_THREAD ? c->per_thread : c->legacy;
		return atomic_load_explicit(&s->device, memory_order_relaxed) ? s : NULL;
	}
	s = stream_find(handle);
	if (s && atomic_load_explicit(&s->device, memory_order_acquire))
		return s;
	relaxed = relax_begin();
	if (REAL(cuStreamGetCtx)((CUstream)handle, &context) != CUDA_SUCCESS)
		context = NULL;
	if (REAL(cuStreamGetFlags)((CUstream)handle, &flags) != CUDA_SUCCESS)
		flags = 0;
	relax_end(relaxed);
	c = context ? context_find(context) : context_current(t);
	return c ? stream_add(h, handle, c, flags & CU_STREAM_NON_BLOCKING) : NULL;
}

void stream_created(CUstream handle, unsigned int flags)
{
	struct thread *t = thread_get();
	struct context *c = t ? context_current(t) : NULL;

	if (c)
		stream_add(hook_registered(), (uintptr_t)handle, c, flags & CU_STREAM_NON_BLOCKING);
}

void stream_destroying(CUstream handle)
{
	struct hook *h = hook_registered();
	struct stream *s = h ? stream_find((uintptr_t)handle) : NULL;
	struct device *d = s ? atomic_load_explicit(&s->device, memory_order_relaxed) : NULL;

	if (!d)
		return;
	/* the marker behind the stream's work shows when that work completes */
	lock_take(&d->marker_lock);
	if (atomic_load_explicit(&s->dirty, memory_order_acquire)) {
		struct relaxed relaxed = relax_begin();

		marker_issue(d, s, 0, 0, 0);
		relax_end(relaxed);
	}
	lock_take(&h->stream_lock);
	stream_ends(s);
	lock_drop(&h->stream_lock);
	lock_drop(&d->marker_lock);
}
