/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rings: see ring.h. A position is published with release and read with acquire. A sleeper raises
 * `sleepers`, fences and looks once more. A publisher fences after it has published, and then reads
 * `sleepers`. So at least one of the two sees the other's store.
 */
#include "remote/ring.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define WAIT_MS 100u
#define SPINS 1000u
/* Above this position an empty ring restarts at its beginning. */
#define REWIND (128u << 10)

/* Spins between two yields. The awaited thread may need this processor. */
#define YIELD_EVERY 64u

static inline void ring_relax(unsigned spin)
{
	if (spin % YIELD_EVERY == 0) {
		sched_yield();
		return;
	}
#if defined(__x86_64__)
	__builtin_ia32_pause();
#else
	__asm__ volatile("yield");
#endif
}

unsigned ring_spins(void)
{
	static _Atomic unsigned spins = UINT32_MAX;
	unsigned n = atomic_load_explicit(&spins, memory_order_relaxed);

	if (n == UINT32_MAX) {
		n = sysconf(_SC_NPROCESSORS_ONLN) > 1 ? SPINS : 0;
		atomic_store_explicit(&spins, n, memory_order_relaxed);
	}
	return n;
}

/* ---- doorbells ---- */

void doorbell_ring(struct remote_doorbell *doorbell)
{
	atomic_thread_fence(memory_order_seq_cst); /* pairs with the fence in doorbell_listen() */
	if (!atomic_load_explicit(&doorbell->sleepers, memory_order_relaxed))
		return;
	atomic_fetch_add_explicit(&doorbell->seq, 1, memory_order_release);
	syscall(SYS_futex, &doorbell->seq, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

uint32_t doorbell_listen(struct remote_doorbell *doorbell)
{
	uint32_t heard = atomic_load_explicit(&doorbell->seq, memory_order_acquire);

	atomic_fetch_add_explicit(&doorbell->sleepers, 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst); /* pairs with the fence in doorbell_ring() */
	return heard;
}

void doorbell_leave(struct remote_doorbell *doorbell)
{
	atomic_fetch_sub_explicit(&doorbell->sleepers, 1, memory_order_relaxed);
}

void doorbell_sleep(struct remote_doorbell *doorbell, uint32_t heard, unsigned timeout_ms)
{
	struct timespec t = {timeout_ms / 1000, (long)(timeout_ms % 1000) * 1000000};

	syscall(SYS_futex, &doorbell->seq, FUTEX_WAIT, heard, &t, NULL, 0);
	doorbell_leave(doorbell);
}

/* ---- positions ---- */

static void ring_attach_lane(
	struct ring *r, struct remote_session *s, unsigned lane, enum ring_direction direction)
{
	struct remote_ring *shared = direction == RING_UP ? &s->lane[lane].up : &s->lane[lane].down;
	const bool link_reads = s->link_role ==
		(direction == RING_UP ? REMOTE_LINK_SERVER : REMOTE_LINK_CLIENT);
	const bool link_writes = s->link_role ==
		(direction == RING_UP ? REMOTE_LINK_CLIENT : REMOTE_LINK_SERVER);

	r->shared = shared;
	r->bytes = (uint8_t *)s + REMOTE_HEAD + (2ull * lane + (unsigned)direction) * REMOTE_RING;
	r->data = link_reads ? &s->link_doorbell : &shared->data;
	r->room = link_writes ? &s->link_doorbell : &shared->room;
	/*
	 * A link carries all bytes, also the padding of a restart, so over a link a restart saves
	 * nothing.
	 */
	r->rewinds = s->link_role == REMOTE_LINK_NONE;
}

void ring_attach_producer(
	struct ring *r, struct remote_session *s, unsigned lane, enum ring_direction direction)
{
	ring_attach_lane(r, s, lane, direction);
	r->at = atomic_load_explicit(&r->shared->tail, memory_order_relaxed);
	r->seen = atomic_load_explicit(&r->shared->head, memory_order_acquire);
}

void ring_attach_consumer(
	struct ring *r, struct remote_session *s, unsigned lane, enum ring_direction direction)
{
	ring_attach_lane(r, s, lane, direction);
	r->at = atomic_load_explicit(&r->shared->head, memory_order_relaxed);
	r->seen = r->at;
}

/* Returns the free room; 0 if the consumer claims a position beyond the producer's. */
static size_t ring_free_bytes(struct ring *r)
{
	const uint64_t used = r->at - r->seen;

	return used > REMOTE_RING ? 0 : REMOTE_RING - used;
}

static void look_at_head(struct ring *r)
{
	/* pairs with the release in ring_consume() */
	r->seen = atomic_load_explicit(&r->shared->head, memory_order_acquire);
}

static bool ring_await_free(struct ring *r, size_t bytes, const struct ring_watch *watch)
{
	for (unsigned i = ring_spins();; i--) {
		look_at_head(r);
		if (ring_free_bytes(r) >= bytes)
			return true;
		if (i == 0)
			break;
		ring_relax(i);
	}
	for (;;) {
		const uint32_t heard = doorbell_listen(r->room);

		look_at_head(r);
		if (ring_free_bytes(r) >= bytes) {
			doorbell_leave(r->room);
			return true;
		}
		doorbell_sleep(r->room, heard, WAIT_MS);
		if (!watch->goes_on(watch->data))
			return false;
	}
}

static bool ring_pad_end(struct ring *r, size_t left, const struct ring_watch *watch)
{
	const struct remote_frame frame = {.size = (uint32_t)left, .op = REMOTE_PAD};

	if (ring_free_bytes(r) < left && !ring_await_free(r, left, watch))
		return false;
	memcpy(r->bytes + r->at % REMOTE_RING, &frame, sizeof(frame));
	ring_publish(r, left);
	return true;
}

void *ring_reserve(struct ring *r, size_t bytes, const struct ring_watch *watch)
{
	size_t left = REMOTE_RING - r->at % REMOTE_RING;

	bytes = (bytes + 15) & ~(size_t)15;
	if (bytes > REMOTE_FRAME_MAX)
		return NULL;
	if (left < bytes || (r->rewinds && REMOTE_RING - left > REWIND)) {
		look_at_head(r);
		if (left < bytes || (r->rewinds && r->seen == r->at && REMOTE_RING - left >= bytes))
			if (!ring_pad_end(r, left, watch))
				return NULL;
	}
	if (ring_free_bytes(r) < bytes && !ring_await_free(r, bytes, watch))
		return NULL;
	return r->bytes + r->at % REMOTE_RING;
}

void ring_publish(struct ring *r, size_t bytes)
{
	r->at += (bytes + 15) & ~(size_t)15;
	atomic_store_explicit(&r->shared->tail, r->at, memory_order_release);
	doorbell_ring(r->data);
}

static bool has_data(struct ring *r, size_t bytes)
{
	/* pairs with the release in ring_publish() */
	r->seen = atomic_load_explicit(&r->shared->tail, memory_order_acquire);
	return r->seen - r->at >= bytes;
}

static bool await_data(struct ring *r, size_t bytes, const struct ring_watch *watch)
{
	for (unsigned i = ring_spins();; i--) {
		if (has_data(r, bytes))
			return true;
		if (i == 0 || !watch)
			break;
		ring_relax(i);
	}
	while (watch) {
		const uint32_t heard = doorbell_listen(r->data);

		if (has_data(r, bytes)) {
			doorbell_leave(r->data);
			return true;
		}
		doorbell_sleep(r->data, heard, WAIT_MS);
		if (!watch->goes_on(watch->data))
			return false;
	}
	return false;
}

int ring_next(struct ring *r, const struct ring_watch *watch, struct remote_frame *ret_head,
	const void **ret_frame)
{
	for (;;) {
		const size_t left = REMOTE_RING - r->at % REMOTE_RING;
		const uint8_t *frame = r->bytes + r->at % REMOTE_RING;
		struct remote_frame head;

		if (r->seen - r->at < sizeof(head) && !await_data(r, sizeof(head), watch))
			return 0;
		memcpy(&head, frame, sizeof(head));
		if (head.size < sizeof(head) || head.size % 16 || head.size > left ||
			(head.op != REMOTE_PAD && head.size > REMOTE_FRAME_MAX))
			return -EBADMSG;
		/* Over a link a frame arrives in pieces. */
		if (head.size > r->seen - r->at && !await_data(r, head.size, watch))
			return 0;
		if (r->seen - r->at > REMOTE_RING)
			return -EBADMSG;
		if (head.op != REMOTE_PAD) {
			*ret_head = head;
			*ret_frame = frame;
			return 1;
		}
		ring_consume(r, head.size);
	}
}

void ring_consume(struct ring *r, size_t bytes)
{
	r->at += bytes;
	atomic_store_explicit(&r->shared->head, r->at, memory_order_release);
	doorbell_ring(r->room);
}
