/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pieces that overtake each other are put into order again; a piece outside the ring's room is
 * refused.
 */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/rand.h"
#include "link/pieces.h"

#define RING ((uint64_t)REMOTE_RING)
#define LONG PIECES_BULK_MIN

static void each_piece_in_order_moves_the_tail(void **state)
{
	struct pieces p = {0};

	assert_ok(pieces_claim(&p, 0, 0, 16));
	assert_int_equal(p.tail, 0);
	assert_true(pieces_arrived(&p, 0));
	assert_int_equal(p.tail, 16);
	assert_ok(pieces_claim(&p, 16, 16, LONG));
	assert_true(pieces_arrived(&p, 16));
	assert_int_equal(p.tail, 16 + LONG);
	assert_int_equal(p.n, 0);
}

static void a_late_piece_releases_all_behind_it(void **state)
{
	struct pieces p = {0};

	assert_ok(pieces_claim(&p, 0, 0, LONG));
	assert_ok(pieces_claim(&p, 0, 2 * LONG, LONG));
	assert_ok(pieces_claim(&p, 0, LONG, LONG));
	assert_false(pieces_arrived(&p, 2 * LONG));
	assert_false(pieces_arrived(&p, LONG));
	assert_int_equal(p.tail, 0);
	assert_true(pieces_arrived(&p, 0));
	assert_int_equal(p.tail, 3 * LONG);
	assert_int_equal(p.n, 0);
}

static void pieces_outside_the_room_are_refused(void **state)
{
	struct pieces p = {.tail = 2 * RING + 4096};
	const uint64_t head = 2 * RING + 1024;

	assert_int_equal(pieces_claim(&p, head, p.tail, 0), -EBADMSG);
	/* Places before the tail are refused, even if the consumer has not read there yet. */
	assert_int_equal(pieces_claim(&p, head, p.tail - 16, 16), -EBADMSG);
	assert_int_equal(pieces_claim(&p, head, p.tail - 16, 32), -EBADMSG);
	assert_int_equal(pieces_claim(&p, head, head - 16, 16), -EBADMSG);
	assert_int_equal(pieces_claim(&p, head, 0, 16), -EBADMSG);
	/*
	 * Places beyond the room that the consumer has freed, or across the end of the ring, are
	 * refused.
	 */
	assert_int_equal(pieces_claim(&p, head, head + RING, 16), -EBADMSG);
	assert_int_equal(pieces_claim(&p, head, head + RING - 16, 32), -EBADMSG);
	assert_int_equal(pieces_claim(&p, head, UINT64_MAX - 15, 16), -EBADMSG);
	assert_int_equal(pieces_claim(&p, head, 3 * RING - 16, 32), -EBADMSG);
	/* Impossible positions of the consumer are refused. */
	assert_int_equal(pieces_claim(&p, p.tail + 16, p.tail + 16, 16), -EBADMSG);
	assert_int_equal(pieces_claim(&p, p.tail - RING - 1, p.tail, 16), -EBADMSG);
	assert_int_equal(p.n, 0);
	assert_ok(pieces_claim(&p, head, 3 * RING - 16, 16));
	assert_ok(pieces_claim(&p, head, head + RING - 16, 16));
	assert_ok(pieces_claim(&p, head, p.tail, 16));
}

static void overlapping_pieces_are_refused(void **state)
{
	struct pieces p = {0};

	assert_ok(pieces_claim(&p, 0, 4096, 4096));
	assert_int_equal(pieces_claim(&p, 0, 4096, 4096), -EBADMSG);
	assert_int_equal(pieces_claim(&p, 0, 0, 4097), -EBADMSG);
	assert_int_equal(pieces_claim(&p, 0, 8191, 1), -EBADMSG);
	assert_int_equal(pieces_claim(&p, 0, 5000, 16), -EBADMSG);
	assert_int_equal(pieces_claim(&p, 0, 0, 16384), -EBADMSG);
	/* Bytes that have arrived are not written a second time either. */
	assert_false(pieces_arrived(&p, 4096));
	assert_int_equal(pieces_claim(&p, 0, 8191, 1), -EBADMSG);
	assert_false(pieces_arrived(&p, 0));
	assert_ok(pieces_claim(&p, 0, 0, 4096));
	assert_true(pieces_arrived(&p, 0));
	assert_int_equal(p.tail, 8192);
}

static void the_number_of_waiting_pieces_is_limited(void **state)
{
	struct pieces p = {0};

	for (unsigned i = 0; i < PIECES_MAX; i++) {
		assert_ok(pieces_claim(&p, 0, 32 + 32ull * i, 16));
		assert_false(pieces_arrived(&p, 32 + 32ull * i));
	}
	assert_int_equal(pieces_claim(&p, 0, 0, 16), -EBADMSG);
}

/* ---- an honest sender, over connections of any speed ---- */

#define CONNECTIONS 5u
#define QUEUED 4096u
#define TOTAL (24 * RING)

struct sent {
	uint64_t position;
	uint32_t bytes;
	bool is_claimed;
};

struct connection {
	struct sent v[QUEUED];
	unsigned first, n;
};

static void send_one(struct connection *c, uint64_t position, uint32_t bytes)
{
	assert_in_range(c->n, 0, QUEUED - 1);
	c->v[(c->first + c->n++) % QUEUED] = (struct sent){position, bytes, false};
}

/* Sends the next piece: a short one over the first connection, a long one over another. */
static uint64_t send_some(struct connection *c, struct rand *rand, uint64_t position, uint64_t head)
{
	const uint64_t room = head + RING - position, left = RING - position % RING;
	uint64_t n = rand_below(rand, 3) ? 16 + 16 * rand_below(rand, 64)
					 : LONG + rand_below(rand, 12) * 8192;

	n = n < room ? n : room;
	n = n < left ? n : left;
	if (n == 0 || c[0].n == QUEUED)
		return 0;
	send_one(n < LONG ? &c[0] : &c[1 + rand_below(rand, CONNECTIONS - 1)], position,
		(uint32_t)n);
	return n;
}

/* The first piece of a connection begins to arrive, or is complete. */
static void deliver(struct connection *c, struct pieces *p, uint64_t head, uint8_t *is_there)
{
	struct sent *s = &c->v[c->first];

	if (!c->n)
		return;
	if (!s->is_claimed) {
		assert_ok(pieces_claim(p, head, s->position, s->bytes));
		s->is_claimed = true;
		return;
	}
	for (uint64_t at = s->position; at < s->position + s->bytes; at += 16) {
		assert_int_equal(is_there[at / 16], 0);
		is_there[at / 16] = 1;
	}
	pieces_arrived(p, s->position);
	c->first = (c->first + 1) % QUEUED;
	c->n--;
}

static void pieces_in_any_order_end_as_one_row(void **state)
{
	struct connection *c = calloc(CONNECTIONS, sizeof(*c));
	uint8_t *is_there = calloc(TOTAL / 16 + REMOTE_RING, 1);
	struct rand rand = {7};
	struct pieces p = {0};
	uint64_t position = 0, head = 0, seen = 0;

	assert_non_null(c);
	assert_non_null(is_there);
	while (seen < TOTAL) {
		/* Now and then one connection stands still for long. */
		const unsigned still = (unsigned)rand_below(&rand, 2 * CONNECTIONS);
		const unsigned steps = (unsigned)rand_below(&rand, 400);

		for (unsigned i = 0; i < steps; i++) {
			const unsigned which = (unsigned)rand_below(&rand, CONNECTIONS);

			position += send_some(c, &rand, position, head);
			if (which != still)
				deliver(&c[which], &p, head, is_there);
			for (; seen < p.tail; seen += 16)
				assert_int_equal(is_there[seen / 16], 1);
			assert_true(seen == p.tail && (seen == position || !is_there[seen / 16]));
			if (rand_below(&rand, 8) == 0)
				head += rand_below(&rand, (p.tail - head) / 16 + 1) * 16;
		}
	}
	free(is_there);
	free(c);
}

UNIT_MAIN(UNIT(each_piece_in_order_moves_the_tail), UNIT(a_late_piece_releases_all_behind_it),
	UNIT(pieces_outside_the_room_are_refused), UNIT(overlapping_pieces_are_refused),
	UNIT(the_number_of_waiting_pieces_is_limited), UNIT(pieces_in_any_order_end_as_one_row))
