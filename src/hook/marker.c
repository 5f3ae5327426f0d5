/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Markers: the device writes a sequence number into up.done behind a stream's work. The daemon and
 * this library read that number without asking the driver. The times of completions show how long
 * submissions take. From these durations the library computes the number of submissions between two
 * markers, and the work in flight.
 *
 * A submission sets its stream's `dirty` after the driver has taken it. A marker first clears
 * `dirty` and then goes to the driver. So every submission whose dirty flag was cleared precedes
 * the marker in the stream. All functions here hold the device's marker_lock, and may take the
 * stream lock inside.
 */
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "hook/hook.h"
#include "hook/relax.h"

/* Sets the spacing of markers on an uncontended device, where no in-flight window applies. */
#define WINDOW_ALONE_NS (16 * NSEC_PER_MSEC)
/* Sets the spacing of markers on a contended device while no other tenant waits. */
#define WINDOW_FIRST_NS (2 * NSEC_PER_MSEC)
#define SPIN_NS (20 * NSEC_PER_USEC) /* shorter waits do not sleep */
/* Longest hold of a submission without a completion, because running work may wait for it. */
#define WAIT_MAX_NS (250 * NSEC_PER_MSEC)
#define YIELD_MIN_NS (1 * NSEC_PER_MSEC) /* shorter submissions overrun a turn only a little */
#define DIRTY_MAX 1024u

uint64_t marker_submitted(const struct device *d)
{
	uint32_t lines = atomic_load_explicit(&d->up->lines, memory_order_acquire);
	uint64_t sum = 0;

	/* acquire: each counted submission has its dirty flag set (release in the submission) */
	for (uint32_t i = 0; i < lines && i < PAGE_LINES; i++)
		sum += atomic_load_explicit(&d->up->line[i].submitted, memory_order_acquire);
	return sum;
}

/* The program can write `done` too, so a number that was never issued does not count as reached. */
static bool marker_is_reached(const struct device *d, uint32_t slot, uint32_t sequence)
{
	uint32_t done = atomic_load_explicit(&d->up->done[slot], memory_order_acquire);
	uint32_t issued = atomic_load_explicit(&d->up->issued[slot], memory_order_relaxed);

	return (int32_t)(done - sequence) >= 0 && (int32_t)(issued - done) >= 0;
}

/* ---- segments in flight ---- */

static struct segment *segment_at(struct device *d, uint32_t i)
{
	return &d->segment[(d->segment_first + i) % HOOK_SEGMENTS];
}

/*
 * Notes the completions that are visible now, as if this look had been at time `at`. began: since
 * then the device runs only this tenant's work (page_down.began_ns); 0: not yet.
 */
static void look_as_at(struct device *d, uint64_t began, uint64_t at)
{
	struct estimate_end end = {0};

	if (began <= at)
		estimate_began(&d->estimate, began);
	for (uint32_t i = 0; i < d->segments; i++) {
		struct segment *g = segment_at(d, i);

		if (!g->used || g->issued_ns > at || !marker_is_reached(d, g->slot, g->sequence))
			continue;
		g->used = false;
		estimate_add(&d->estimate, &end, g->issued_ns, g->key, g->count);
		end.is_corun |= g->is_corun && !began;
	}
	while (d->segments && !segment_at(d, 0)->used) {
		d->segment_first = (d->segment_first + 1) % HOOK_SEGMENTS;
		d->segments--;
	}
	if (!end.subs) {
		estimate_look(&d->estimate, at);
		return;
	}
	end.has_more = d->segments != 0;
	estimate_ended(&d->estimate, &end, at);
	atomic_store_explicit(&d->up->longest_ns, d->estimate.longest_ns, memory_order_relaxed);
}

static void marker_check_device(struct device *d, uint64_t now)
{
	uint64_t drained = atomic_load_explicit(&d->down->drained_ns, memory_order_acquire);

	/*
	 * While this thread waited at the gate, the daemon looked at the page, and the next turn
	 * may have begun. So this thread uses the time of the daemon's look.
	 */
	if (drained > d->estimate.looked_ns && drained < now) {
		estimate_look(&d->estimate, MAX(d->estimate.looked_ns, drained - PAGE_DRAINED_NS));
		look_as_at(d,
			atomic_load_explicit(&d->down->drained_began_ns, memory_order_relaxed),
			drained);
	}
	look_as_at(d, atomic_load_explicit(&d->down->began_ns, memory_order_relaxed), now);
}

static struct estimate_queue marker_count_queued(struct device *d, uint64_t now)
{
	struct estimate_queue queue = {0};

	for (uint32_t i = 0; i < d->segments; i++) {
		const struct segment *g = segment_at(d, i);

		if (g->used)
			estimate_queue(&d->estimate, &queue, g->issued_ns, g->key, g->count, now);
	}
	return queue;
}

/* Publishes the work in flight, `queue`, for the daemon. `queue` was computed at `now`. */
static void marker_publish_queue(struct device *d, const struct estimate_queue *queue, uint64_t now)
{
	atomic_store_explicit(&d->up->segment_ns,
		d->estimate.sub_ns * atomic_load_explicit(&d->every, memory_order_relaxed),
		memory_order_relaxed);
	atomic_store_explicit(&d->up->spread_ns, queue->spread_ns, memory_order_relaxed);
	atomic_store_explicit(&d->up->queued_ns, queue->ns, memory_order_relaxed);
	atomic_store_explicit(&d->up->queued_at_ns, now, memory_order_release);
}

void marker_look(struct device *d)
{
	if (!lock_try(&d->marker_lock))
		return;
	marker_check_device(d, clock_now_ns());
	lock_drop(&d->marker_lock);
}

/* ---- slots ---- */

/* Takes a slot. Streams that find no free slot share slot 0, one marker at a time. */
static uint32_t slot_take(struct device *d)
{
	uint32_t slots = atomic_load_explicit(&d->up->slots, memory_order_relaxed);

	for (uint32_t i = 0; i < d->slot_frees; i++) {
		uint32_t slot = d->slot_free[i];

		if (atomic_load_explicit(&d->up->done[slot], memory_order_acquire) !=
			atomic_load_explicit(&d->up->issued[slot], memory_order_relaxed))
			continue;
		d->slot_free[i] = d->slot_free[--d->slot_frees];
		return slot;
	}
	if (!slots)
		slots = 1;
	if (slots >= PAGE_SLOTS)
		return 0;
	atomic_store_explicit(&d->up->slots, slots + 1, memory_order_release);
	return slots;
}

void marker_slot_release(struct device *d, struct stream *s)
{
	if (s->slot && d->slot_frees < PAGE_SLOTS)
		d->slot_free[d->slot_frees++] = s->slot;
	s->slot = 0;
}

void marker_context_dead(struct device *d, const uint32_t *slots, uint32_t n)
{
	/* the device writes nothing for a destroyed context, so all its markers count as reached */
	for (uint32_t i = 0; i < n; i++)
		atomic_store_explicit(&d->up->done[slots[i]],
			atomic_load_explicit(&d->up->issued[slots[i]], memory_order_relaxed),
			memory_order_release);
}

/* ---- contexts ---- */

void marker_context(struct context *c)
{
	struct device *d = c->device;
	void *page = (void *)d->up->done;
	CUresult r;

	lock_take(&d->marker_lock);
	r = REAL(cuMemHostGetDevicePointer_v2)(&c->done, page, 0);
	if (r != CUDA_SUCCESS) {
		r = REAL(cuMemHostRegister_v2)(page, sizeof d->up->done,
			CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
		c->owns_done = r == CUDA_SUCCESS;
		if (c->owns_done)
			r = REAL(cuMemHostGetDevicePointer_v2)(&c->done, page, 0);
	}
	if (r != CUDA_SUCCESS)
		c->done = 0;
	lock_drop(&d->marker_lock);
}

/*
 * The driver's registration of up.done ends with the context that was current when the memory was
 * registered. So another context of the device registers it.
 */
void marker_context_destroyed(struct context *gone)
{
	struct hook *h = hook_registered();
	struct context *heir = NULL;
	struct relaxed relaxed;

	if (!h || !gone->owns_done)
		return;
	relaxed = relax_begin();
	for (uint32_t i = 0; i < h->contexts; i++) {
		struct context *c = &h->context[i];

		if (c != gone && c->handle && c->device == gone->device && !heir)
			heir = c;
	}
	if (REAL(cuCtxPushCurrent_v2)(gone->handle) == CUDA_SUCCESS) {
		CUcontext popped;

		REAL(cuMemHostUnregister)((void *)gone->device->up->done);
		REAL(cuCtxPopCurrent_v2)(&popped);
	}
	gone->owns_done = false;
	gone->done = 0;
	if (heir && REAL(cuCtxPushCurrent_v2)(heir->handle) == CUDA_SUCCESS) {
		CUcontext popped;

		marker_context(heir);
		REAL(cuCtxPopCurrent_v2)(&popped);
	}
	relax_end(relaxed);
}

/* ---- markers ---- */

static CUstream marker_stream_handle(const struct stream *s)
{
	uintptr_t handle = atomic_load_explicit(&s->handle, memory_order_relaxed);

	/* 0 would mean the calling thread's own stream in programs built for per-thread streams */
	return (CUstream)(handle ? handle : STREAM_LEGACY);
}

/*
 * A thread of the driver runs this function behind the stream's work. Such a function must not call
 * CUDA.
 */
static void CUDA_CB host_marker(void *packed)
{
	struct hook *h = hook_registered();
	uint64_t word = (uintptr_t)packed;
	uint32_t device = (uint32_t)(word >> 48), slot = (uint32_t)(word >> 32) & 0xffff;

	if (h && device < h->devices && slot < PAGE_SLOTS)
		atomic_store_explicit(
			&h->device[device].up->done[slot], (uint32_t)word, memory_order_release);
}

static CUresult write_behind(
	struct device *d, const struct stream *s, uint32_t slot, uint32_t sequence)
{
	uint64_t word = (uint64_t)d->index << 48 | (uint64_t)slot << 32 | sequence;
	CUresult r = CUDA_ERROR_NOT_SUPPORTED;

	if (s->context->done && !d->no_values)
		r = REAL(cuStreamWriteValue32_v2)(marker_stream_handle(s),
			s->context->done + 4 * slot, sequence, CU_STREAM_WRITE_VALUE_DEFAULT);
	if (r != CUDA_ERROR_NOT_SUPPORTED)
		return r;
	/* a host function costs more than a write by the device, but is always possible */
	d->no_values = true;
	return REAL(cuLaunchHostFunc)(
		marker_stream_handle(s), host_marker, (void *)(uintptr_t)word);
}

bool marker_issue(struct device *d, struct stream *s, uint32_t count, uint64_t key, uint64_t now)
{
	/*
	 * This record stands for the default streams of several threads, and a marker in one stream
	 * does not cover the other streams.
	 */
	bool is_several = s == s->context->per_thread &&
		atomic_load_explicit(&s->owner, memory_order_relaxed) == ~0u;
	uint32_t sequence, slot;
	CUresult r;

	if (!s->slot)
		s->slot = slot_take(d);
	slot = s->slot;
	sequence = atomic_load_explicit(&d->up->issued[slot], memory_order_relaxed) + 1;
	/* markers of two streams in one slot could complete in the wrong order */
	if ((!slot || is_several) && !marker_is_reached(d, slot, sequence - 1))
		return false;
	if (!slot && !atomic_load_explicit(&d->up->slots, memory_order_relaxed))
		atomic_store_explicit(&d->up->slots, 1, memory_order_release);
	if (!is_several)
		atomic_store_explicit(&s->dirty, 0, memory_order_seq_cst);
	atomic_store_explicit(&d->up->issued[slot], sequence, memory_order_release);
	r = write_behind(d, s, slot, sequence);
	if (r != CUDA_SUCCESS) {
		atomic_store_explicit(&d->up->issued[slot], sequence - 1, memory_order_release);
		atomic_store_explicit(&s->dirty, 1, memory_order_release);
		return false;
	}
	s->sequence = sequence;
	atomic_fetch_add_explicit(&d->up->markers, 1, memory_order_relaxed);
	if (count && d->segments < HOOK_SEGMENTS) {
		uint32_t grant = atomic_load_explicit(&d->down->grant, memory_order_relaxed);

		d->segments++;
		*segment_at(d, d->segments - 1) = (struct segment){
			.slot = slot,
			.sequence = sequence,
			.count = count,
			.key = count == 1 ? key : 0,
			.used = true,
			.is_corun = grant != d->marked_grant,
			.issued_ns = now ? now : clock_now_ns(),
		};
		d->marked_grant = grant;
	}
	return true;
}

static uint32_t marker_count_unmarked(struct device *d)
{
	uint64_t sum = marker_submitted(d);
	uint64_t count = sum - d->marked_submitted;

	d->marked_submitted = sum;
	return (uint32_t)MIN(count, UINT64_C(64) * ESTIMATE_EVERY_MAX);
}

/* Writes only changes, because every submission reads this cache line. */
static void mark_each(struct device *d, bool is_each)
{
	uint32_t special = atomic_load_explicit(&d->special, memory_order_relaxed);

	if (is_each != ((special & SPECIAL_EACH) != 0))
		atomic_fetch_xor(&d->special, SPECIAL_EACH);
}

void marker_due(struct thread *t, struct stream *s, uint64_t key)
{
	struct device *d = t->device;
	uint64_t window = (uint64_t)atomic_load_explicit(
				  &d->down->window_us, memory_order_relaxed) *
		NSEC_PER_USEC;
	struct estimate_queue queue;
	struct relaxed relaxed;
	uint32_t count, every;
	uint64_t now, window_alone = 0;
	bool is_marked;

	if (!lock_try(&d->marker_lock)) {
		t->countdown = 1 + atomic_load_explicit(&d->every, memory_order_relaxed) / 4;
		/*
		 * Another thread holds the lock. The next submission waits for that thread instead
		 * of passing uncounted.
		 */
		if (window)
			atomic_fetch_or(&d->special, SPECIAL_FULL);
		return;
	}
	now = clock_now_ns();
	marker_check_device(d, now);
	count = marker_count_unmarked(d);
	d->used_grant = atomic_load_explicit(&d->down->grant, memory_order_relaxed);
	relaxed = relax_begin();
	is_marked = marker_issue(d, s, count, key, now);
	relax_end(relaxed);
	/*
	 * With one active stream, the usual case, this marker follows all work, and the daemon need
	 * not ask for more markers.
	 */
	if (is_marked && stream_few_clean(d))
		atomic_store_explicit(&d->up->flushed, d->marked_submitted, memory_order_release);
	if (!window)
		window_alone = atomic_load_explicit(&d->down->flags, memory_order_relaxed) &
				PAGE_COMPANY
			? WINDOW_FIRST_NS
			: WINDOW_ALONE_NS;
	every = estimate_every(&d->estimate, atomic_load_explicit(&d->every, memory_order_relaxed),
		window ? window : window_alone);
	atomic_store_explicit(&d->every, every, memory_order_relaxed);
	mark_each(d, every == 1);
	queue = marker_count_queued(d, now);
	if (window && estimate_is_full(&d->estimate, &queue, window))
		atomic_fetch_or(&d->special, SPECIAL_FULL);
	marker_publish_queue(d, &queue, now);
	t->countdown = every;
	lock_drop(&d->marker_lock);
}

void marker_wait_window(struct device *d)
{
	uint64_t start = clock_now_ns(), now;
	uint64_t longest = atomic_load_explicit(&d->up->longest_ns, memory_order_relaxed);
	struct estimate_queue queue;

	for (;;) {
		uint64_t window = (uint64_t)atomic_load_explicit(
					  &d->down->window_us, memory_order_relaxed) *
			NSEC_PER_USEC;
		uint64_t bound = MAX(4 * window, 2 * longest);
		uint64_t nap;

		if (atomic_load_explicit(&d->down->gate, memory_order_relaxed) != GATE_OPEN)
			return;
		lock_take(&d->marker_lock);
		now = clock_now_ns();
		marker_check_device(d, now);
		queue = marker_count_queued(d, now);
		nap = estimate_wait(&d->estimate, &queue,
			atomic_load_explicit(&d->every, memory_order_relaxed), window);
		/*
		 * No work has completed for the time `bound`, perhaps because the running work
		 * waits for the submission that is held back here. So the submission passes.
		 */
		if (clock_since_ns(now, MAX(start, d->estimate.done_ns)) > MIN(bound, WAIT_MAX_NS))
			nap = 0;
		if (!window || !nap) {
			atomic_fetch_and(&d->special, ~(uint32_t)SPECIAL_FULL);
			lock_drop(&d->marker_lock);
			return;
		}
		lock_drop(&d->marker_lock);
		if (nap > SPIN_NS)
			clock_sleep_until_ns(now + nap);
	}
}

bool marker_overruns(struct device *d, uint64_t key)
{
	uint32_t grant = atomic_load_explicit(&d->down->grant, memory_order_relaxed);
	uint64_t ends = atomic_load_explicit(&d->down->turn_ends_ns, memory_order_relaxed);
	struct estimate_queue queue;
	bool overruns = false;
	uint64_t next, now;

	if (!ends || !lock_try(&d->marker_lock))
		return false;
	next = estimate_kind(&d->estimate, key);
	/* Each turn passes at least one submission before it is yielded. */
	if (next > YIELD_MIN_NS && d->used_grant == grant && d->yielded_grant != grant) {
		now = clock_now_ns();
		marker_check_device(d, now);
		queue = marker_count_queued(d, now);
		overruns = now + queue.ns + next / 2 > ends;
	}
	if (overruns) {
		d->yielded_grant = grant;
		marker_publish_queue(d, &queue, now);
	}
	lock_drop(&d->marker_lock);
	return overruns;
}

/* ---- flush ---- */

struct dirt {
	struct stream *stream[DIRTY_MAX];
	uint32_t n;
	bool left; /* some stream could not be marked */
};

static void marker_collect_stream(struct stream *s, void *arg)
{
	struct dirt *dirt = arg;

	if (!atomic_load_explicit(&s->dirty, memory_order_acquire))
		return;
	if (dirt->n < DIRTY_MAX)
		dirt->stream[dirt->n++] = s;
	else
		dirt->left = true;
}

struct flush {
	struct device *device;
	struct dirt *dirt;
	struct context *context;
	uint32_t tid; /* the calling thread, which can name only its own per-thread stream */
	bool captures;
	uint64_t now;
	uint32_t count;
};

/* Whether this thread can name the stream in a call, to put a marker into it. */
static bool can_name(const struct flush *f, const struct stream *s)
{
	return s != f->context->per_thread ||
		atomic_load_explicit(&s->owner, memory_order_relaxed) == f->tid;
}

static void flush_one(struct flush *f, struct stream *s)
{
	if (!can_name(f, s) ||
		(f->captures && capture_active((uintptr_t)marker_stream_handle(s))) ||
		!marker_issue(f->device, s, f->count, 0, f->now))
		f->dirt->left = true;
	f->count = 0; /* only the first marker of a flush counts the submissions */
}

static void flush_context(struct flush *f)
{
	struct context *c = f->context;
	struct dirt *dirt = f->dirt;
	uint32_t blocking = 0;
	bool others = false;

	for (uint32_t i = 0; i < dirt->n; i++) {
		struct stream *s = dirt->stream[i];

		if (s->context != c || s->nonblocking)
			continue;
		blocking++;
		others |= !can_name(f, s);
	}
	/*
	 * The legacy stream waits for all blocking streams, so its marker covers them. During a
	 * capture no call may use the legacy stream.
	 */
	if (!f->captures && (blocking > 4 || others)) {
		for (uint32_t i = 0; i < dirt->n; i++) {
			if (dirt->stream[i]->context == c && !dirt->stream[i]->nonblocking)
				atomic_store_explicit(
					&dirt->stream[i]->dirty, 0, memory_order_seq_cst);
		}
		if (!marker_issue(f->device, c->legacy, f->count, 0, f->now)) {
			for (uint32_t i = 0; i < dirt->n; i++) {
				if (dirt->stream[i]->context == c && !dirt->stream[i]->nonblocking)
					atomic_store_explicit(
						&dirt->stream[i]->dirty, 1, memory_order_release);
			}
			dirt->left = true;
		}
		f->count = 0;
		blocking = 0;
	}
	for (uint32_t i = 0; i < dirt->n; i++) {
		struct stream *s = dirt->stream[i];

		if (s->context == c && (s->nonblocking || blocking))
			flush_one(f, s);
	}
}

void marker_flush(struct device *d, struct thread *t)
{
	struct hook *h = hook_registered();
	struct dirt *dirt;
	struct estimate_queue queue;
	struct relaxed relaxed;
	struct flush f;
	uint32_t seen;
	uint64_t sum;

	if (!h)
		return;
	lock_take(&d->marker_lock);
	dirt = d->dirt ? d->dirt : (d->dirt = hook_map(sizeof *dirt));
	seen = atomic_load_explicit(&d->down->flush, memory_order_acquire);
	sum = marker_submitted(d);
	if (!dirt ||
		(sum == atomic_load_explicit(&d->up->flushed, memory_order_relaxed) &&
			seen == atomic_load_explicit(&d->up->flush_seen, memory_order_relaxed))) {
		lock_drop(&d->marker_lock);
		return;
	}
	dirt->n = 0;
	dirt->left = false;
	stream_each(d, marker_collect_stream, dirt);
	f = (struct flush){
		.device = d,
		.dirt = dirt,
		.tid = t ? (uint32_t)syscall(SYS_gettid) : 0,
		.captures = atomic_load(&h->captures),
		.now = clock_now_ns(),
	};
	marker_check_device(d, f.now);
	f.count = marker_count_unmarked(d);
	relaxed = relax_begin();
	for (uint32_t i = 0; i < h->contexts && dirt->n; i++) {
		CUcontext popped;

		f.context = &h->context[i];
		if (!f.context->handle || f.context->device != d)
			continue;
		if (REAL(cuCtxPushCurrent_v2)(f.context->handle) != CUDA_SUCCESS) {
			dirt->left = true;
			continue;
		}
		flush_context(&f);
		REAL(cuCtxPopCurrent_v2)(&popped);
	}
	relax_end(relaxed);
	if (!dirt->left)
		atomic_store_explicit(&d->up->flushed, sum, memory_order_release);
	atomic_store_explicit(&d->up->flush_seen, seen, memory_order_release);
	queue = marker_count_queued(d, f.now);
	marker_publish_queue(d, &queue, f.now);
	lock_drop(&d->marker_lock);
}

bool marker_drained(struct device *d)
{
	uint32_t slots = atomic_load_explicit(&d->up->slots, memory_order_acquire);

	if (marker_submitted(d) != atomic_load_explicit(&d->up->flushed, memory_order_acquire))
		return false;
	for (uint32_t i = 0; i < slots && i < PAGE_SLOTS; i++) {
		if (atomic_load_explicit(&d->up->done[i], memory_order_acquire) !=
			atomic_load_explicit(&d->up->issued[i], memory_order_acquire))
			return false;
	}
	return true;
}
