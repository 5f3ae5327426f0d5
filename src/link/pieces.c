/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merges the pieces of a ring that several connections receive out of order. The list is sorted by
 * position, its entries never overlap, and none begins before `tail`. pieces_arrived() merges a
 * received entry with received neighbours. When a received entry begins at `tail`, pieces_arrived()
 * moves `tail` to its end and drops the entry. pieces_claim() measures positions from the
 * consumer's head, so its checks do not overflow whatever the peer sends.
 */
#include "link/pieces.h"

#include <errno.h>
#include <string.h>

static void pieces_take_piece(struct pieces *p, unsigned at)
{
	p->n--;
	memmove(&p->v[at], &p->v[at + 1], (p->n - at) * sizeof(p->v[0]));
}

int pieces_claim(struct pieces *p, uint64_t head, uint64_t position, uint32_t bytes)
{
	const uint64_t to = position + bytes;
	unsigned at = 0;

	/* Differences are relative to the head, so none of them overflows. */
	if (p->tail - head > REMOTE_RING || position - head < p->tail - head ||
		position - head >= REMOTE_RING || bytes == 0 ||
		bytes > REMOTE_RING - (position - head) ||
		bytes > REMOTE_RING - position % REMOTE_RING || p->n == PIECES_MAX)
		return -EBADMSG;
	while (at < p->n && p->v[at].to <= position)
		at++;
	if (at < p->n && p->v[at].from < to)
		return -EBADMSG;
	memmove(&p->v[at + 1], &p->v[at], (p->n - at) * sizeof(p->v[0]));
	p->v[at] = (struct piece){position, to, false};
	p->n++;
	return 0;
}

bool pieces_arrived(struct pieces *p, uint64_t position)
{
	unsigned at = 0;

	while (at < p->n && p->v[at].from != position)
		at++;
	if (at == p->n)
		return false;
	p->v[at].is_there = true;
	if (at + 1 < p->n && p->v[at + 1].is_there && p->v[at + 1].from == p->v[at].to) {
		p->v[at].to = p->v[at + 1].to;
		pieces_take_piece(p, at + 1);
	}
	if (at > 0 && p->v[at - 1].is_there && p->v[at - 1].to == p->v[at].from) {
		p->v[at - 1].to = p->v[at].to;
		pieces_take_piece(p, at--);
	}
	if (at > 0 || p->v[0].from != p->tail)
		return false;
	p->tail = p->v[0].to;
	pieces_take_piece(p, 0);
	return true;
}
