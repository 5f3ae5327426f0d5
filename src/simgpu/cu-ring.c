/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Submission and waiting: the client's end of the shared ring, of completions and of host
 * functions, as simgpu-proto.h describes them.
 *
 * A wait drops the client's lock, so objects found before the wait may no longer exist afterwards.
 * A waiting thread pins the stream's slot, so no other stream gets the slot meanwhile. A wait spins
 * briefly and then sleeps on the engine's futex. Once a second, it checks that the engine still
 * runs.
 */
#include "simgpu/cu.h"
#include "simgpu/cu-graph.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

static uint64_t ring_tail; /* end of the entries in the ring, including an unpublished one */
static uint32_t pins[SIMGPU_MAX_STREAMS];

static void cu_ring_futex_wait(_Atomic uint32_t *word, uint32_t value)
{
	struct timespec bound = {.tv_sec = 1};

	syscall(SYS_futex, word, FUTEX_WAIT, value, &bound, NULL, 0);
}

static void cu_ring_doorbell(void)
{
	uint64_t one = 1;
	ssize_t r = write(cu.link.doorbell, &one, sizeof(one));

	/* only EAGAIN is possible: the eventfd's counter is full and wakes the engine anyway */
	(void)r;
}

static bool cu_ring_has_room(uint64_t bytes)
{
	uint64_t head = atomic_load_explicit(&cu.link.shm->engine.head, memory_order_acquire);

	return SIMGPU_RING_BYTES - (ring_tail - head) >= bytes;
}

/*
 * Sleeps once until the ring may have room, and drops the lock meanwhile. Another thread may need
 * the lock for a write that the device awaits. Afterwards the end of the ring may have moved.
 */
static bool sleep_for_room(uint64_t bytes)
{
	struct simgpu_shm *shm = cu.link.shm;
	uint32_t seq;

	atomic_fetch_add(&shm->client.ring_waiters, 1);
	atomic_fetch_add(&shm->client.waiters, 1);
	seq = atomic_load(&shm->engine.wake_seq);
	cu_ring_doorbell();
	if (!cu_ring_has_room(bytes)) {
		pthread_mutex_unlock(&cu.lock);
		cu_ring_futex_wait(&shm->engine.wake_seq, seq);
		pthread_mutex_lock(&cu.lock);
	}
	atomic_fetch_sub(&shm->client.waiters, 1);
	atomic_fetch_sub(&shm->client.ring_waiters, 1);
	return !link_is_dead(&cu.link);
}

struct simgpu_entry *cu_ring_begin(uint32_t kind, uint32_t trailing)
{
	struct simgpu_shm *shm = cu.link.shm;
	uint32_t bytes = SIMGPU_ENTRY_UNITS(trailing) * SIMGPU_ENTRY_UNIT;
	struct simgpu_entry *entry;
	uint32_t left, need;

	for (;;) {
		left = SIMGPU_RING_BYTES - (uint32_t)(ring_tail % SIMGPU_RING_BYTES);
		need = left < bytes ? left + bytes : bytes;
		if (cu_ring_has_room(need))
			break;
		if (!sleep_for_room(need))
			return NULL;
	}
	if (left < bytes) {
		entry = (struct simgpu_entry *)(shm->ring + ring_tail % SIMGPU_RING_BYTES);
		entry->kind = SIMGPU_OP_PAD;
		entry->units = left / SIMGPU_ENTRY_UNIT;
		ring_tail += left;
	}
	entry = (struct simgpu_entry *)(shm->ring + ring_tail % SIMGPU_RING_BYTES);
	entry->kind = (uint16_t)kind;
	entry->flags = 0;
	entry->units = bytes / SIMGPU_ENTRY_UNIT;
	return entry;
}

void cu_ring_commit(struct simgpu_entry *entry, uint32_t trailing, const struct cu_stream *stream)
{
	struct simgpu_shm *shm = cu.link.shm;
	uint32_t doorbell, visible = entry->flags & SIMGPU_ENTRY_VISIBLE;
	uint64_t head;

	entry->submit_ns = clock_now_ns();
	ring_tail += SIMGPU_ENTRY_UNITS(trailing) * (uint64_t)SIMGPU_ENTRY_UNIT;
	/*
	 * Release: pairs with the engine's acquire of tail before the engine reads entries. The
	 * fence pairs with the engine's fence between storing doorbell and reading tail.
	 */
	atomic_store_explicit(&shm->client.tail, ring_tail, memory_order_release);
	atomic_thread_fence(memory_order_seq_cst);
	doorbell = atomic_load_explicit(&shm->engine.doorbell, memory_order_relaxed);
	if (doorbell == SIMGPU_DOORBELL_VISIBLE && visible && stream) {
		uint64_t wake = atomic_load_explicit(&shm->engine.wake_at_ns, memory_order_relaxed);
		uint64_t busy = atomic_load_explicit(
			&shm->streams[stream->slot].busy_until_ns, memory_order_relaxed);

		if (wake > busy)
			doorbell = SIMGPU_DOORBELL_ALL;
	}
	head = atomic_load_explicit(&shm->engine.head, memory_order_relaxed);
	if (doorbell == SIMGPU_DOORBELL_ALL ||
		(doorbell != SIMGPU_DOORBELL_NONE && ring_tail - head > SIMGPU_RING_BYTES / 2))
		cu_ring_doorbell();
}

/* A thread waits until a counter reaches a target or the context has an error. */
struct wait {
	_Atomic uint64_t *counter;
	uint64_t target;
	_Atomic uint32_t *error;
};

static bool wait_is_over(const struct wait *w)
{
	if (atomic_load_explicit(w->counter, memory_order_acquire) >= w->target)
		return true;
	return w->error && atomic_load_explicit(w->error, memory_order_acquire) != 0;
}

static CUresult wait_unlocked(const struct wait *w)
{
	struct simgpu_shm *shm = cu.link.shm;
	uint64_t spin_until = clock_now_ns() + CU_SPIN_NS;
	CUresult r = CUDA_SUCCESS;

	do {
		if (wait_is_over(w))
			return CUDA_SUCCESS;
		__builtin_ia32_pause();
	} while (clock_now_ns() < spin_until);
	atomic_fetch_add(&shm->client.waiters, 1);
	for (;;) {
		uint32_t seq = atomic_load(&shm->engine.wake_seq);

		if (wait_is_over(w))
			break;
		cu_ring_futex_wait(&shm->engine.wake_seq, seq);
		if (!wait_is_over(w) && link_is_dead(&cu.link)) {
			r = CUDA_ERROR_UNKNOWN;
			break;
		}
	}
	atomic_fetch_sub(&shm->client.waiters, 1);
	return r;
}

static void raise_await(uint32_t slot, uint64_t seq)
{
	struct simgpu_stream *s = &cu.link.shm->streams[slot];

	if (atomic_load_explicit(&s->await_seq, memory_order_relaxed) < seq) {
		atomic_store(&s->await_seq, seq);
		cu_ring_doorbell();
	}
}

static CUresult wait_slot(uint32_t slot, uint64_t seq, _Atomic uint32_t *error)
{
	struct simgpu_shm *shm = cu.link.shm;
	struct wait w = {
		.counter = &shm->streams[slot].completed,
		.target = seq,
		.error = error,
	};
	CUresult r;

	if (wait_is_over(&w))
		return CUDA_SUCCESS;
	raise_await(slot, seq);
	pins[slot]++;
	pthread_mutex_unlock(&cu.lock);
	r = wait_unlocked(&w);
	pthread_mutex_lock(&cu.lock);
	pins[slot]--;
	return r;
}

static CUresult wait_stream(struct cu_stream *stream, uint64_t seq, bool heed_error)
{
	return wait_slot(stream->slot, seq,
		heed_error ? &cu.link.shm->contexts[stream->context->slot].error : NULL);
}

CUresult cu_wait_stream(struct cu_stream *stream, uint64_t seq)
{
	_Atomic uint32_t *error = &cu.link.shm->contexts[stream->context->slot].error;
	struct cu_context *context = stream->context;
	CUcontext handle = context->handle;

	CU_TRY(wait_stream(stream, seq, true));
	if (cu_context_get(handle) == context)
		cu_code_print(context);
	return (CUresult)atomic_load(error);
}

/* Slots of destroyed streams, whose work may still run. */
static uint32_t freed_slots[SIMGPU_MAX_STREAMS];
static uint32_t freed_head, freed_count;
static struct {
	uint32_t context;
	uint64_t seq;
} freed[SIMGPU_MAX_STREAMS];

static bool find_left(uint32_t context, uint32_t *ret_slot)
{
	for (uint32_t i = 0; i < freed_count; i++) {
		const uint32_t slot = freed_slots[(freed_head + i) % SIMGPU_MAX_STREAMS];

		*ret_slot = slot;
		if (freed[slot].context == context &&
			atomic_load(&cu.link.shm->streams[slot].completed) < freed[slot].seq)
			return true;
	}
	return false;
}

static CUresult wait_destroyed(uint32_t context)
{
	_Atomic uint32_t *error = &cu.link.shm->contexts[context].error;
	uint32_t slot;

	while (atomic_load(error) == 0 && find_left(context, &slot))
		CU_TRY(wait_slot(slot, freed[slot].seq, error));
	return CUDA_SUCCESS;
}

CUresult cu_wait_context(struct cu_context *context)
{
	CUcontext handle = context->handle;
	uint32_t slot = context->slot;
	uint64_t done_before = 0;

	/*
	 * Other threads may change the list while the lock is dropped, so the search starts again
	 * after each wait. The caller waits for each stream once, even if other threads submit more
	 * work to it.
	 */
	for (bool again = true; again;) {
		again = false;
		CU_LIST_EACH(struct cu_stream, link, &context->streams, stream)
		{
			uint64_t seq = stream->seq;

			if (stream->id <= done_before || cu_stream_done(stream, seq))
				continue;
			done_before = stream->id;
			CU_TRY(wait_stream(stream, seq, true));
			if (cu_context_get(handle) != context)
				return CUDA_ERROR_CONTEXT_IS_DESTROYED;
			again = true;
			break;
		}
	}
	CU_TRY(wait_destroyed(slot));
	if (cu_context_get(handle) != context)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	cu_code_print(context);
	return (CUresult)atomic_load(&cu.link.shm->contexts[slot].error);
}

bool cu_stream_done(struct cu_stream *stream, uint64_t seq)
{
	uint64_t completed = atomic_load_explicit(
		&cu.link.shm->streams[stream->slot].completed, memory_order_acquire);

	if (completed > stream->waited)
		stream->waited = completed;
	return completed >= seq;
}

void cu_sync_engine(void)
{
	struct simgpu_request request = {.type = SIMGPU_MSG_SYNC};
	struct simgpu_reply reply;

	cu_call(&request, &reply);
}

/*
 * For queries. The raised await_seq makes the engine publish promptly, so the next query needs no
 * call to the engine.
 */
static bool stream_poll(struct cu_stream *stream, uint64_t seq)
{
	struct simgpu_stream *s = &cu.link.shm->streams[stream->slot];

	if (cu_stream_done(stream, seq))
		return true;
	if (atomic_load_explicit(&s->await_seq, memory_order_relaxed) >= seq)
		return false;
	atomic_store(&s->await_seq, seq);
	cu_sync_engine();
	return cu_stream_done(stream, seq);
}

CUresult simgpu_cuStreamQuery(struct cu_context *ctx, struct cu_stream *stream)
{
	if (stream->capture)
		return cu_capture_refuse(stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	if (stream->legacy)
		CU_TRY(cu_capture_check_legacy(stream->context));
	CU_TRY(cu_capture_check_unsafe());
	if (!stream_poll(stream, stream->seq))
		return CUDA_ERROR_NOT_READY;
	return cu_context_error(stream->context);
}

CUresult simgpu_cuStreamSynchronize(struct cu_context *ctx, struct cu_stream *stream)
{
	if (stream->capture)
		return cu_capture_refuse(stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	if (stream->legacy) {
		CU_TRY(cu_capture_check_legacy(stream->context));
		/*
		 * Work in the legacy stream waits for all blocking streams, so an empty operation
		 * there ends when those streams are done.
		 */
		struct cu_op op;

		cu_op_init(&op, SIMGPU_OP_EMPTY, stream->context);
		CU_TRY(cu_submit(stream, &op));
	}
	CU_TRY(cu_capture_check_unsafe());
	CU_TRY(cu_wait_stream(stream, stream->seq));
	cu_pools_trim(false);
	return CUDA_SUCCESS;
}

static CUresult wait_for_depth(struct cu_stream *stream)
{
	uint64_t target;

	if (cu_stream_done(stream, stream->seq + 1 - CU_STREAM_DEPTH))
		return CUDA_SUCCESS;
	target = stream->seq + 1 - CU_STREAM_DEPTH + CU_STREAM_DEPTH / 64;
	return wait_stream(stream, target, true);
}

CUresult cu_submit(struct cu_stream *stream, struct cu_op *op)
{
	struct simgpu_entry *entry;

	if (stream->seq >= stream->waited + CU_STREAM_DEPTH) {
		CUstream handle = stream->handle;

		CU_TRY(wait_for_depth(stream));
		if (handle && cu_handle_get(handle, CU_KIND_STREAM) != stream)
			return CUDA_ERROR_INVALID_HANDLE;
	}
	entry = cu_ring_begin(op->entry.kind, op->trailing);
	CU_CHECK(entry, CUDA_ERROR_UNKNOWN);
	op->entry.units = entry->units;
	op->entry.stream = stream->slot;
	op->entry.context = stream->context->slot;
	op->entry.seq = ++stream->seq;
	memcpy(entry, &op->entry, sizeof(*entry));
	if (op->trailing != 0)
		memcpy(entry + 1, op->bytes, op->trailing);
	cu_ring_commit(entry, op->trailing, stream);
	return CUDA_SUCCESS;
}

CUresult cu_stream_do(struct cu_stream *stream, struct cu_op *op)
{
	if (__builtin_expect(stream->capture != NULL, 0))
		return cu_capture_op(stream, op);
	if (stream->legacy)
		CU_TRY(cu_capture_check_legacy(stream->context));
	CU_TRY(cu_submit(stream, op));
	return op->waits ? cu_wait_stream(stream, stream->seq) : CUDA_SUCCESS;
}

void cu_op_init(struct cu_op *op, uint32_t kind, const struct cu_context *context)
{
	op->entry = (struct simgpu_entry){.kind = (uint16_t)kind, .context = context->slot};
	op->trailing = 0;
	op->bytes = NULL;
	op->waits = false;
}

/* ---- stream slots ---- */

static uint32_t slots_used;

static bool cu_ring_take_slot(uint32_t *ret_slot)
{
	struct simgpu_shm *shm = cu.link.shm;

	for (uint32_t i = 0; i < freed_count; i++) {
		uint32_t slot = freed_slots[freed_head];

		freed_head = (freed_head + 1) % SIMGPU_MAX_STREAMS;
		freed_count--;
		if (pins[slot] == 0 && atomic_load(&shm->streams[slot].live) == 0) {
			*ret_slot = slot;
			return true;
		}
		freed_slots[(freed_head + freed_count++) % SIMGPU_MAX_STREAMS] = slot;
		if (i >= 8 && slots_used < SIMGPU_MAX_STREAMS)
			break;
	}
	if (slots_used == SIMGPU_MAX_STREAMS)
		return false;
	*ret_slot = slots_used++;
	return true;
}

CUresult cu_stream_new(struct cu_context *context, unsigned flags, int priority, bool legacy,
	struct cu_stream **ret)
{
	struct cu_stream *stream = calloc(1, sizeof(*stream));
	struct simgpu_entry *entry;

	CU_CHECK(stream, CUDA_ERROR_OUT_OF_MEMORY);
	if (!cu_ring_take_slot(&stream->slot) && (cu_sync_engine(), true) &&
		!cu_ring_take_slot(&stream->slot)) {
		free(stream);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	stream->context = context;
	stream->flags = flags;
	stream->priority = priority;
	stream->legacy = legacy;
	stream->id = ++cu.next_id;
	stream->handle = legacy ? NULL : cu_handle_new(CU_KIND_STREAM, stream);
	/*
	 * Operation numbers belong to the slot: the new stream continues after the last number of
	 * the slot's former stream.
	 */
	stream->seq = atomic_load(&cu.link.shm->streams[stream->slot].completed);
	stream->waited = stream->seq;
	entry = cu_ring_begin(SIMGPU_OP_STREAM_CREATE, 0);
	if (!entry || (!legacy && !stream->handle)) {
		free(stream);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	entry->stream = stream->slot;
	entry->context = context->slot;
	entry->seq = 0;
	entry->stream_new.flags = (flags & CU_STREAM_NON_BLOCKING ? SIMGPU_STREAM_NON_BLOCKING
								  : 0u) |
		(legacy ? SIMGPU_STREAM_LEGACY : 0u);
	entry->stream_new.priority = priority;
	/*
	 * The client sets `live` here, because the program may destroy the stream, with work in it,
	 * before the engine reads the entry.
	 */
	atomic_store(&cu.link.shm->streams[stream->slot].live, 1);
	cu_ring_commit(entry, 0, NULL);
	cu_list_add(&context->streams, &stream->link);
	*ret = stream;
	return CUDA_SUCCESS;
}

void cu_stream_free(struct cu_stream *stream)
{
	struct simgpu_entry *entry;

	/*
	 * Events may wait for work in this stream, so the engine must still publish the work's
	 * completion promptly.
	 */
	if (!cu_stream_done(stream, stream->seq))
		raise_await(stream->slot, stream->seq);
	entry = cu_ring_begin(SIMGPU_OP_STREAM_DESTROY, 0);
	if (entry) {
		entry->stream = stream->slot;
		entry->context = stream->context->slot;
		entry->seq = 0;
		cu_ring_commit(entry, 0, NULL);
	}
	freed[stream->slot].context = stream->context->slot;
	freed[stream->slot].seq = stream->seq;
	freed_slots[(freed_head + freed_count++) % SIMGPU_MAX_STREAMS] = stream->slot;
	CU_LIST_EACH(struct cu_event, link, &stream->context->events, event)
	if (event->stream == stream)
		event->stream = NULL;
	cu_capture_forget_stream(stream);
	cu_exec_stream_destroyed(stream);
	cu_handle_free(stream->handle);
	cu_list_remove(&stream->link);
	free(stream->deps);
	free(stream);
}

/* ---- events ---- */

CUresult cu_event_query(struct cu_event *event)
{
	struct simgpu_event *e = &cu.link.shm->events[event->slot];

	if (!event->recorded)
		return CUDA_SUCCESS;
	for (int i = 0; i < 2; i++) {
		if (event->by_graph && atomic_load(&e->graph_records) >= event->graph_target)
			return CUDA_SUCCESS;
		if (!event->by_graph && !event->imported &&
			atomic_load_explicit(&e->record, memory_order_acquire) >= event->records)
			return CUDA_SUCCESS;
		if (event->stream && !event->imported) {
			if (i == 0 && !stream_poll(event->stream, event->seq))
				return CUDA_ERROR_NOT_READY;
		} else if (i == 0) {
			cu_sync_engine();
		}
	}
	return CUDA_ERROR_NOT_READY;
}

CUresult cu_wait_event(struct cu_event *event)
{
	struct simgpu_shm *shm = cu.link.shm;
	struct simgpu_event *e = &shm->events[event->slot];
	struct wait w = {
		.counter = event->by_graph ? &e->graph_records : &e->record,
		.target = event->by_graph ? event->graph_target : event->records,
		.error = &shm->contexts[event->context->slot].error,
	};
	uint32_t slot = event->stream ? event->stream->slot : 0;
	bool pinned = event->stream != NULL;
	CUresult r;

	if (!event->recorded || wait_is_over(&w))
		return (CUresult)atomic_load(w.error);
	if (pinned) {
		raise_await(slot, event->seq);
		pins[slot]++;
	}
	pthread_mutex_unlock(&cu.lock);
	r = wait_unlocked(&w);
	pthread_mutex_lock(&cu.lock);
	if (pinned)
		pins[slot]--;
	return r != CUDA_SUCCESS ? r : (CUresult)atomic_load(w.error);
}

/* ---- host functions ---- */

/*
 * Host functions have a lock of their own, because the holder of the client's lock may wait for a
 * host function.
 */
static pthread_mutex_t host_lock = PTHREAD_MUTEX_INITIALIZER;

void cu_host_launched(struct cu_host *host)
{
	pthread_mutex_lock(&host_lock);
	host->running++;
	pthread_mutex_unlock(&host_lock);
}

void cu_host_drop(struct cu_host *host)
{
	bool gone;

	pthread_mutex_lock(&host_lock);
	host->keep = false;
	gone = host->running == 0;
	pthread_mutex_unlock(&host_lock);
	if (gone)
		free(host);
}

static void run_callback(struct simgpu_callback *slot)
{
	struct cu_host *host = (struct cu_host *)(uintptr_t)slot->cookie;
	struct cu_host copy;
	bool gone;

	pthread_mutex_lock(&host_lock);
	copy = *host;
	pthread_mutex_unlock(&host_lock);
	cu_thread.in_callback = 1;
	if (copy.fn && slot->error == 0)
		copy.fn(copy.user_data);
	if (copy.callback)
		copy.callback(copy.stream, (CUresult)slot->error, copy.user_data);
	cu_thread.in_callback = 0;
	pthread_mutex_lock(&host_lock);
	if (host->running != 0)
		host->running--;
	gone = !host->keep && host->running == 0;
	pthread_mutex_unlock(&host_lock);
	if (gone)
		free(host);
}

static void *callback_thread(void *unused)
{
	struct simgpu_shm *shm = cu.link.shm;
	uint32_t next = 0;

	(void)unused;
	for (;;) {
		uint32_t tail = atomic_load_explicit(&shm->engine.cb_tail, memory_order_acquire);
		struct simgpu_callback *slot = &shm->callbacks[next % SIMGPU_MAX_CALLBACKS];

		if (tail == next) {
			if (link_is_dead(&cu.link))
				return NULL;
			cu_ring_futex_wait(&shm->engine.cb_tail, tail);
			continue;
		}
		run_callback(slot);
		atomic_store(&slot->done_ns, clock_now_ns());
		cu_ring_doorbell();
		next++;
	}
}

CUresult cu_host_start(void)
{
	static bool started;
	pthread_attr_t attributes;
	sigset_t all, before;
	pthread_t thread;
	int r;

	if (started)
		return CUDA_SUCCESS;
	/* Only the program's own threads should receive its signals. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	r = pthread_create(&thread, &attributes, callback_thread, NULL);
	pthread_attr_destroy(&attributes);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	CU_CHECK(r == 0, CUDA_ERROR_OUT_OF_MEMORY);
	started = true;
	return CUDA_SUCCESS;
}

CUresult cu_build_host(struct cu_context *context, struct cu_host *host, struct cu_op *op)
{
	CU_TRY(cu_host_start());
	cu_op_init(op, SIMGPU_OP_HOST_FUNC, context);
	op->entry.flags = SIMGPU_ENTRY_VISIBLE;
	op->entry.host.cookie = (uintptr_t)host;
	return CUDA_SUCCESS;
}
