/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rings: see ring.h. A position is published with release and read with acquire. A sleeper raises
 * `sleepers`, fences and looks once more. A side that has published fences and then looks at
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

/* The awaited thread may need this processor. */
#define YIELD_EVERY 64u

static inline void relax(unsigned spin)
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

void bell_ring(struct remote_bell *bell)
{
	atomic_thread_fence(memory_order_seq_cst); /* pairs with the fence in bell_listen() */
	if (!atomic_load_explicit(&bell->sleepers, memory_order_relaxed))
		return;
	atomic_fetch_add_explicit(&bell->seq, 1, memory_order_release);
	syscall(SYS_futex, &bell->seq, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

uint32_t bell_listen(struct remote_bell *bell)
{
	uint32_t heard = atomic_load_explicit(&bell->seq, memory_order_acquire);

	atomic_fetch_add_explicit(&bell->sleepers, 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst); /* pairs with the fence in bell_ring() */
	return heard;
}

void bell_leave(struct remote_bell *bell)
{
	atomic_fetch_sub_explicit(&bell->sleepers, 1, memory_order_relaxed);
}

void bell_sleep(struct remote_bell *bell, uint32_t heard, unsigned timeout_ms)
{
	struct timespec t = {timeout_ms / 1000, (long)(timeout_ms % 1000) * 1000000};

	syscall(SYS_futex, &bell->seq, FUTEX_WAIT, heard, &t, NULL, 0);
	bell_leave(bell);
}

/* ---- positions ---- */

static void attach(struct ring *r, struct remote_session *s, unsigned lane, enum ring_way way)
{
	struct remote_ring *shared = way == RING_UP ? &s->lane[lane].up : &s->lane[lane].down;
	const bool hub_reads = s->hub == (way == RING_UP ? REMOTE_HUB_SERVER : REMOTE_HUB_CLIENT);
	const bool hub_writes = s->hub == (way == RING_UP ? REMOTE_HUB_CLIENT : REMOTE_HUB_SERVER);

	r->shared = shared;
	r->bytes = (uint8_t *)s + REMOTE_HEAD + (2ull * lane + (unsigned)way) * REMOTE_RING;
	r->data = hub_reads ? &s->hub_bell : &shared->data;
	r->room = hub_writes ? &s->hub_bell : &shared->room;
	/* A link carries all bytes, also the padding of a restart, so there it does not pay. */
	r->rewinds = s->hub == REMOTE_HUB_NONE;
}

void ring_attach_producer(
	struct ring *r, struct remote_session *s, unsigned lane, enum ring_way way)
{
	attach(r, s, lane, way);
	r->at = atomic_load_explicit(&r->shared->tail, memory_order_relaxed);
	r->seen = atomic_load_explicit(&r->shared->head, memory_order_acquire);
}

void ring_attach_consumer(
	struct ring *r, struct remote_session *s, unsigned lane, enum ring_way way)
{
	attach(r, s, lane, way);
	r->at = atomic_load_explicit(&r->shared->head, memory_order_relaxed);
	r->seen = r->at;
}

/* Free room; a consumer that claims a position beyond the producer's gives none. */
static size_t room(struct ring *r)
{
	const uint64_t used = r->at - r->seen;

	return used > REMOTE_RING ? 0 : REMOTE_RING - used;
}

static void look_at_head(struct ring *r)
{
	/* pairs with the release in ring_consume() */
	r->seen = atomic_load_explicit(&r->shared->head, memory_order_acquire);
}

static bool await_room(struct ring *r, size_t bytes, const struct ring_watch *watch)
{
	for (unsigned i = ring_spins();; i--) {
		look_at_head(r);
		if (room(r) >= bytes)
			return true;
		if (i == 0)
			break;
		relax(i);
	}
	for (;;) {
		const uint32_t heard = bell_listen(r->room);

		look_at_head(r);
		if (room(r) >= bytes) {
			bell_leave(r->room);
			return true;
		}
		bell_sleep(r->room, heard, WAIT_MS);
		if (!watch->goes_on(watch->data))
			return false;
	}
}

static bool pad(struct ring *r, size_t left, const struct ring_watch *watch)
{
	const struct remote_frame frame = {.size = (uint32_t)left, .op = REMOTE_PAD};

	if (room(r) < left && !await_room(r, left, watch))
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
			if (!pad(r, left, watch))
				return NULL;
	}
	if (room(r) < bytes && !await_room(r, bytes, watch))
		return NULL;
	return r->bytes + r->at % REMOTE_RING;
}

void ring_publish(struct ring *r, size_t bytes)
{
	r->at += (bytes + 15) & ~(size_t)15;
	atomic_store_explicit(&r->shared->tail, r->at, memory_order_release);
	bell_ring(r->data);
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
		relax(i);
	}
	while (watch) {
		const uint32_t heard = bell_listen(r->data);

		if (has_data(r, bytes)) {
			bell_leave(r->data);
			return true;
		}
		bell_sleep(r->data, heard, WAIT_MS);
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
	bell_ring(r->room);
}
