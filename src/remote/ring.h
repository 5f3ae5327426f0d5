/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One ring of a session: frames from one producer to one consumer, each contiguous in memory. No
 * allocation, no lock. Links libc only. The other side is not trusted: positions and sizes that it
 * writes are clamped or end the session.
 */
#ifndef REMOTE_RING_H
#define REMOTE_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "remote/session.h"

enum ring_way { RING_UP, RING_DOWN };

struct ring {
	struct remote_ring *shared;
	uint8_t *bytes;
	struct remote_bell *data, *room;
	uint64_t at;   /* our own position, which the other side only reads */
	uint64_t seen; /* the other's, as last read */
	bool rewinds;  /* an empty ring begins anew: the same few pages serve small traffic */
};

/*
 * Blocking calls ask it every now and then (100 ms) whether to go on waiting: false ends the wait.
 */
struct ring_watch {
	bool (*goes_on)(void *data);
	void *data;
};

/* The ring of that lane. Both sides may attach at any time: positions stand in shared memory. */
void ring_attach_producer(
	struct ring *r, struct remote_session *s, unsigned lane, enum ring_way way);
void ring_attach_consumer(
	struct ring *r, struct remote_session *s, unsigned lane, enum ring_way way);

/* `bytes` in a row (at most REMOTE_FRAME_MAX, rounded up to 16); NULL when the wait was ended. */
void *ring_reserve(struct ring *r, size_t bytes, const struct ring_watch *watch);
/* Gives what was reserved, or its beginning, to the consumer; a multiple of 16. */
void ring_publish(struct ring *r, size_t bytes);

/*
 * The next frame, with a copy of its head; waits for it unless watch is NULL. 1; 0 when there is
 * none or the wait was ended; -EBADMSG when the other side has written nonsense. The frame stays
 * in place until it is consumed, and may be changed meanwhile by a hostile peer.
 */
int ring_next(struct ring *r, const struct ring_watch *watch, struct remote_frame *ret_head,
	const void **ret_frame);
void ring_consume(struct ring *r, size_t bytes);

/* ---- bells ---- */
void bell_ring(struct remote_bell *bell);
/* Before looking once more whether there is a reason to sleep: */
uint32_t bell_listen(struct remote_bell *bell);
/* after bell_listen, always one of these two: */
void bell_sleep(struct remote_bell *bell, uint32_t heard, unsigned timeout_ms);
void bell_leave(struct remote_bell *bell);

/* How long to look without sleeping: nothing on one core. */
unsigned ring_spins(void);

#endif
