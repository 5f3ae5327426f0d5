/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slow path of a submission: the first submission of a thread or a stream, a closed gate, a
 * full in-flight window, a capture, a line of the shared page that several threads use. Also
 * handles the return of a synchronisation. Preserves the program's errno.
 */
#include "hook/gate.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"

/* Longest sleep at a gate: bounds the delay after a lost wake-up, or when the daemon has ended. */
#define WAIT_NS (50 * NSEC_PER_MSEC)
#define HOLD_NS (300 * NSEC_PER_USEC) /* a pause shorter than this keeps the token */
#define LINGER_NS (20 * NSEC_PER_USEC)
#define YIELD_NS (1 * NSEC_PER_MSEC) /* the daemon answers within this time, or not at all */
#define YIELD_LOOK_NS (20 * NSEC_PER_USEC)

static bool gate_is_open(const struct device *d)
{
	return atomic_load_explicit(&d->down->gate, memory_order_acquire) == GATE_OPEN;
}

/* Returns false if the gate will never open again. */
static bool gate_block(struct hook *h, struct thread *t, struct device *d)
{
	uint64_t start = clock_now_ns();

	marker_flush(d, t);
	if (!atomic_fetch_add(&d->up->want, 1))
		session_note(h, MSG_WANT, d);
	while (!gate_is_open(d) && !atomic_load(&h->removed)) {
		uint64_t before = clock_now_ns();

		lock_futex_wait(
			(const _Atomic uint32_t *)&d->down->gate, GATE_CLOSED, WAIT_NS, true);
		/* repeat the message, because the first one may have met a full socket */
		if (!gate_is_open(d) && clock_now_ns() - before >= WAIT_NS / 2)
			session_note(h, MSG_WANT, d);
	}
	atomic_fetch_sub(&d->up->want, 1);
	atomic_fetch_add_explicit(&d->up->blocked_ns, clock_now_ns() - start, memory_order_relaxed);
	/* The gate may have closed again meanwhile; the caller then waits again. */
	return !atomic_load(&h->removed);
}

/*
 * Ends the turn early for other tenants: waits until the gate closes, at most for YIELD_NS. The
 * gate stays open if no tenant wants the device any more.
 */
static void gate_yield_device(struct hook *h, struct device *d)
{
	uint64_t until = clock_now_ns() + YIELD_NS, now;

	session_note(h, MSG_YIELD, d);
	while (gate_is_open(d) && (now = clock_now_ns()) < until)
		clock_sleep_until_ns(now + YIELD_LOOK_NS);
}

/*
 * Notes how long the program computed since its last synchronisation returned. The average of these
 * times decides whether the program keeps the token while it computes.
 */
static void note_gap(struct thread *t, struct device *d)
{
	uint64_t gap = clock_since_ns(clock_now_ns(), t->sync_ns);
	uint64_t average = atomic_load_explicit(&d->gap_ns, memory_order_relaxed);

	t->sync_ns = 0;
	if (gap > NSEC_PER_SEC)
		gap = NSEC_PER_SEC;
	atomic_store_explicit(
		&d->gap_ns, average ? (3 * average + gap) / 4 : gap + 1, memory_order_relaxed);
}

static void raise_in_launch(struct pass *pass)
{
	struct page_line *line = pass->thread->line;

	if (pass->shared)
		atomic_fetch_add(&line->in_launch, 1);
	else
		atomic_store_explicit(&line->in_launch, 1, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
}

static void lower_in_launch(struct pass *pass)
{
	struct page_line *line = pass->thread->line;

	if (pass->shared)
		atomic_fetch_sub(&line->in_launch, 1);
	else
		atomic_store_explicit(&line->in_launch, 0, memory_order_release);
}

static void note_owner(struct stream *s)
{
	uint32_t tid, owner;

	if (atomic_load_explicit(&s->handle, memory_order_relaxed) != STREAM_PER_THREAD)
		return;
	owner = 0;
	tid = (uint32_t)syscall(SYS_gettid);
	if (!atomic_compare_exchange_strong(&s->owner, &owner, tid) && owner != tid)
		atomic_store(&s->owner, ~0u);
}

/* Lowers in_launch, which the fast path may have raised before it jumped to the slow path. */
static void undo_try(struct thread *t)
{
	if (t->line && t->index < THREAD_SHARED)
		atomic_store_explicit(&t->line->in_launch, 0, memory_order_release);
}

bool gate_enter(struct pass *pass, uintptr_t handle, uint64_t key)
{
	int saved = errno;
	struct thread *t = thread_get();
	struct hook *h = hook_registered();
	struct device *d;
	struct stream *s;

	*pass = (struct pass){.thread = t, .key = key};
	if (!t || !h)
		return true;
	undo_try(t);
	s = stream_resolve(t, handle == STREAM_LEGACY ? 0 : handle);
	/* A captured submission reaches no device, so it neither waits nor is counted. */
	if (!s || (atomic_load(&h->captures) && capture_active(handle))) {
		errno = saved;
		return true;
	}
	d = s->context->device;
	thread_use(t, d);
	note_owner(s);
	pass->shared = t->index == THREAD_SHARED;
	if (t->sync_ns)
		note_gap(t, d);
	for (;;) {
		uint32_t special = atomic_load_explicit(&d->special, memory_order_relaxed);

		if (special & SPECIAL_FULL)
			marker_wait_window(d);
		if (special & SPECIAL_EACH && gate_is_open(d) && marker_overruns(d, key))
			gate_yield_device(h, d);
		raise_in_launch(pass);
		if (gate_is_open(d))
			break;
		lower_in_launch(pass);
		if (!gate_block(h, t, d)) {
			errno = saved;
			return false;
		}
	}
	pass->stream = s;
	t->last = pass->shared ? &hook_no_stream : s;
	/* keeps threads that share a line off the fast path */
	if (pass->shared)
		t->device = THREAD_NO_DEVICE;
	errno = saved;
	return true;
}

void gate_leave(struct pass *pass)
{
	int saved = errno;
	struct thread *t = pass->thread;
	struct stream *s = pass->stream;
	struct device *d;
	uint64_t count;

	if (!s)
		return;
	if (!pass->shared) {
		t->last = s; /* a callback within the driver's function may have changed t->last */
		if (gate_done(t))
			marker_due(t, s, pass->key);
		errno = saved;
		return;
	}
	d = s->context->device;
	atomic_store_explicit(&s->dirty, 1, memory_order_relaxed);
	count = atomic_fetch_add_explicit(&t->line->submitted, 1, memory_order_release);
	lower_in_launch(pass);
	if (!(count % atomic_load_explicit(&d->every, memory_order_relaxed))) {
		t->device = d;
		marker_due(t, s, pass->key);
		t->device = THREAD_NO_DEVICE;
	}
	errno = saved;
}

CUresult gate_due(CUresult r)
{
	struct thread *t = &hook_thread;
	int saved = errno;

	marker_due(t, t->last, 0);
	errno = saved;
	return r;
}

static bool drains_soon(struct device *d)
{
	uint64_t until = clock_now_ns() + LINGER_NS;

	while (!marker_drained(d)) {
		if (clock_now_ns() > until)
			return false;
	}
	return true;
}

void gate_synced(void)
{
	struct hook *h = hook_registered();
	struct thread *t = h ? thread_get() : NULL;
	struct device *d = t ? t->device : THREAD_NO_DEVICE;
	int saved = errno;
	uint32_t flags;
	uint64_t gap;

	if (d == THREAD_NO_DEVICE)
		return;
	flags = atomic_load_explicit(&d->down->flags, memory_order_relaxed);
	if (!(flags & (PAGE_COMPANY | PAGE_WAITED)))
		return;
	marker_look(d); /* the synchronisation shows that some work has completed */
	gap = atomic_load_explicit(&d->gap_ns, memory_order_relaxed);
	if ((flags & PAGE_WAITED) && gate_is_open(d) && (!gap || gap >= HOLD_NS)) {
		marker_flush(d, t);
		if (drains_soon(d))
			session_note(h, MSG_RELEASE, d);
	}
	t->sync_ns = clock_now_ns();
	/* Sends the next submission to the slow path, which calls note_gap(). */
	t->last = &hook_no_stream;
	errno = saved;
}

CUresult gate_copied(CUresult r)
{
	struct device *d = hook_thread.device;

	if (r == CUDA_SUCCESS && d != THREAD_NO_DEVICE && hook_registered() &&
		atomic_load_explicit(&d->down->flags, memory_order_relaxed) & PAGE_WAITED)
		gate_synced();
	return r;
}
