/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pieces of a ring that come over several connections, which overtake each other: where each may be
 * written, and up to where all of them are there. Memory for as many as can be under way at once
 * and no more: a piece that not every connection may carry is at least PIECES_BULK_MIN long, one
 * connection alone brings smaller ones, in order, so that of those that wait for an earlier one
 * each has, or comes after, a long one of its own. Pure; the caller keeps threads apart.
 */
#ifndef LINK_PIECES_H
#define LINK_PIECES_H

#include <stdbool.h>
#include <stdint.h>

#include "remote/session.h"

#define PIECES_BULK_MIN (64u << 10)
/* So many long ones fit into a ring; and each connection may be in the middle of one. */
#define PIECES_MAX (REMOTE_RING / PIECES_BULK_MIN + 8)

struct piece {
	uint64_t from, to;
	bool is_there; /* else it is being received */
};

/* Begins as all 0. */
struct pieces {
	uint64_t tail; /* all before it is there */
	unsigned n;
	struct piece v[PIECES_MAX]; /* from there on, in order */
};

/*
 * A piece is about to be written at that position by nobody else; head: what the consumer has
 * read. -EBADMSG when it is no part of the ring's room, or of it somebody else's.
 */
int pieces_claim(struct pieces *p, uint64_t head, uint64_t position, uint32_t bytes);

/* What was claimed is there. True when `tail` has moved. */
bool pieces_arrived(struct pieces *p, uint64_t position);

#endif
