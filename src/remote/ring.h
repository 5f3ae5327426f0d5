/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One ring of a session: frames from one producer to one consumer, each contiguous in memory. The
 * functions allocate nothing, take no lock, and need libc only. The other side is not trusted: its
 * positions and sizes are clamped or end the session.
 */
#ifndef REMOTE_RING_H
#define REMOTE_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "remote/session.h"

enum ring_direction { RING_UP, RING_DOWN };

struct ring {
	struct remote_ring *shared;
	uint8_t *bytes;
	struct remote_doorbell *data, *room;
	uint64_t at;   /* this side's position, which the other side only reads */
	uint64_t seen; /* the other side's position as last read */
	bool rewinds; /* an empty ring restarts at its beginning, so light traffic uses few pages */
};

/* A blocking call asks goes_on() every 100 ms whether to wait on; false ends the wait. */
struct ring_watch {
	bool (*goes_on)(void *data);
	void *data;
};

/*
 * Attaches to the ring of a lane. Either side may do so at any time, because positions are in
 * shared memory.
 */
void ring_attach_producer(
	struct ring *r, struct remote_session *s, unsigned lane, enum ring_direction direction);
void ring_attach_consumer(
	struct ring *r, struct remote_session *s, unsigned lane, enum ring_direction direction);

/*
 * Reserves `bytes` contiguous bytes (at most REMOTE_FRAME_MAX, rounded up to 16). NULL: goes_on()
 * ended the wait.
 */
void *ring_reserve(struct ring *r, size_t bytes, const struct ring_watch *watch);
/* Passes the reserved bytes, or a part from their beginning, to the consumer; a multiple of 16. */
void ring_publish(struct ring *r, size_t bytes);

/*
 * Returns the next frame with a copy of its head, and waits for the frame unless watch is NULL.
 * Returns 1; 0 if there is no frame, or if goes_on() ended the wait; -EBADMSG if the other side's
 * data are invalid. The frame stays in place until it is consumed, and a hostile peer may change it
 * meanwhile.
 */
int ring_next(struct ring *r, const struct ring_watch *watch, struct remote_frame *ret_head,
	const void **ret_frame);
void ring_consume(struct ring *r, size_t bytes);

/* ---- doorbells ---- */
void doorbell_ring(struct remote_doorbell *doorbell);
/* Call before the last check of the awaited condition, and then one of the next two functions. */
uint32_t doorbell_listen(struct remote_doorbell *doorbell);
/* doorbell_sleep() sleeps until a ring after doorbell_listen(); doorbell_leave() does not sleep. */
void doorbell_sleep(struct remote_doorbell *doorbell, uint32_t heard, unsigned timeout_ms);
void doorbell_leave(struct remote_doorbell *doorbell);

/* Number of checks before a sleep; 0 on one core. */
unsigned ring_spins(void);

#endif
