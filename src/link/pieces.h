/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tracks pieces of a ring that arrive over several connections and overtake each other: where a
 * piece may be written, and up to where the ring is complete. A struct pieces has room for the
 * largest number of pieces that can be in flight. Further connections carry only pieces of at least
 * PIECES_BULK_MIN bytes, and the first connection brings smaller pieces in order. So each piece
 * that waits for an earlier one is long itself, or follows a long piece of its own. Pure; the
 * caller locks.
 */
#ifndef LINK_PIECES_H
#define LINK_PIECES_H

#include <stdbool.h>
#include <stdint.h>

#include "remote/session.h"

#define PIECES_BULK_MIN (64u << 10)
/* A ring holds this many long pieces, and each connection may be receiving one more. */
#define PIECES_MAX (REMOTE_RING / PIECES_BULK_MIN + 8)

struct piece {
	uint64_t from, to;
	bool is_there; /* false: the piece is still being received */
};

/* All zero at the start. */
struct pieces {
	uint64_t tail; /* all bytes before `tail` have arrived */
	unsigned n;
	struct piece v[PIECES_MAX]; /* pieces after tail, in order */
};

/*
 * Reserves the place of a piece that is about to be written. head: the consumer's position.
 * -EBADMSG: the place is outside the ring's free room, or another piece has it.
 */
int pieces_claim(struct pieces *p, uint64_t head, uint64_t position, uint32_t bytes);

/* The claimed piece has arrived. Returns true if `tail` has moved. */
bool pieces_arrived(struct pieces *p, uint64_t position);

#endif
