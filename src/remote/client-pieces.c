/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of pageable memory in pieces: the client writes one piece while the previous piece is in
 * transit. A copy of at most REMOTE_WHOLE bytes is still one step of its stream: the worker gathers
 * the pieces, or reads all data at once.
 *
 * The client counts the worker's memory for data that waits for its stream. A thread that finds no
 * room waits for its own stream, as it would in the driver, and no other thread waits. Any thread.
 */
#include "remote/client.h"

/*
 * Most requests in flight whose answers are not taken: all of them and the answers fit into the
 * rings.
 */
#define AHEAD 12u
#define STEPS_AHEAD 1u

/* ---- shapes ---- */

/*
 * Cuts the part of a copy that begins at packed byte `at`: part of a row, rows of a slice, or
 * slices, at most `most` bytes. Returns its size in bytes.
 */
static size_t pieces_cut_copy(
	const struct remote_copy *whole, size_t at, size_t most, struct remote_copy *ret_part)
{
	const size_t row = at / whole->width, y = row % whole->height, z = row / whole->height;
	const size_t slice = whole->width * whole->height;
	struct remote_copy *p = ret_part;

	*p = *whole;
	p->x += at % whole->width;
	p->y += y;
	p->z += z;
	p->height = p->depth = 1;
	if (at % whole->width || whole->width > most) {
		p->width = whole->width - at % whole->width;
		p->width = p->width > most ? most : p->width;
	} else if (y || slice > most) {
		p->height = most / whole->width;
		p->height = p->height > whole->height - y ? whole->height - y : p->height;
	} else {
		p->height = whole->height;
		p->depth = most / slice;
		p->depth = p->depth > whole->depth - z ? whole->depth - z : p->depth;
	}
	return p->width * p->height * p->depth;
}

static size_t pieces_copy_bytes(const struct remote_copy *c)
{
	return c->width * c->height * c->depth;
}

/* ---- room at the worker ---- */

/*
 * Blocks of REMOTE_STAGE bytes in the worker's memory, counted since the session began: how many
 * this program has taken, and how many the worker has reported as released.
 */
static struct {
	_Atomic uint64_t taken, released;
} room;

void pieces_heard(uint32_t released)
{
	uint64_t known = atomic_load_explicit(&room.released, memory_order_relaxed), now;

	/* another lane's answer may have reported a later count */
	do {
		const uint32_t more = (released - (uint32_t)known) & INT32_MAX;

		if (!more || more > INT32_MAX / 2)
			return;
		now = known + more;
	} while (!atomic_compare_exchange_weak_explicit(
		&room.released, &known, now, memory_order_relaxed, memory_order_relaxed));
}

static bool pieces_take_units(uint64_t units)
{
	uint64_t taken = atomic_load_explicit(&room.taken, memory_order_relaxed);

	do
		if (taken + units >
			atomic_load_explicit(&room.released, memory_order_relaxed) + REMOTE_STAGES)
			return false;
	while (!atomic_compare_exchange_weak_explicit(
		&room.taken, &taken, taken + units, memory_order_relaxed, memory_order_relaxed));
	return true;
}

/* Takes back pieces_take_units() for data that will not be sent. */
static void leave_room(uint64_t units)
{
	atomic_fetch_sub_explicit(&room.taken, units, memory_order_relaxed);
}

/* Units (blocks of REMOTE_STAGE bytes) that the copy's steps from byte `at` on take. */
static uint64_t units_of(const struct remote_copy *whole, size_t at)
{
	const size_t all = pieces_copy_bytes(whole);
	struct remote_copy step;
	uint64_t units = 0;

	while (at < all && units <= REMOTE_STAGES) {
		at += pieces_cut_copy(whole, at, REMOTE_WHOLE, &step);
		units += remote_copy_units(&step);
	}
	return units;
}

/* ---- to the device ---- */

static CUresult begin_in(
	struct call *c, const struct remote_copy *copy, const struct box *box, size_t at, size_t n)
{
	const CUresult r = call_begin(c, REMOTE_COPY_IN, sizeof(*copy) + FIELD(n));

	if (r)
		return r;
	call_put(c, copy, sizeof(*copy));
	box_read(box, at, c->at, n);
	c->at += FIELD(n);
	return CUDA_SUCCESS;
}

static CUresult send_part(
	const struct remote_copy *step, const struct box *box, size_t base, size_t at)
{
	const struct remote_part part = {pieces_copy_bytes(step), REMOTE_PIECE, step->is_beyond};
	struct call c;
	const CUresult r = call_begin(&c, REMOTE_COPY_PART, sizeof(part) + FIELD(part.bytes));

	if (r)
		return r;
	call_put(&c, &part, sizeof(part));
	box_read(box, base + at, c.at, part.bytes);
	c.at += FIELD(part.bytes);
	call_send_aside(&c);
	return CUDA_SUCCESS;
}

/*
 * Sends the last part in the COPY_IN itself. If other threads post frames between the parts, these
 * frames precede the copy.
 */
static CUresult pieces_gather_step(
	const struct remote_copy *step, const struct box *box, size_t base, struct call *c)
{
	const size_t all = pieces_copy_bytes(step);
	struct remote_copy whole = *step;
	size_t at = 0;

	for (; all - at > REMOTE_PIECE; at += REMOTE_PIECE) {
		const CUresult r = send_part(step, box, base, at);

		if (r)
			return r;
	}
	whole.is_whole = at > 0;
	return begin_in(c, &whole, box, base + at, all - at);
}

/* Sends a step for which there is room. asks: requests an answer, which the caller takes later. */
static CUresult send_step(
	const struct remote_copy *step, const struct box *box, size_t base, bool asks)
{
	struct call c;
	CUresult r = pieces_gather_step(step, box, base, &c);

	if (!r)
		r = asks ? call_post_asking(&c) : call_post(&c);
	return r;
}

static CUresult send_beyond(const struct remote_copy *step, const struct box *box, size_t base)
{
	struct remote_copy beyond = *step;
	struct call c;
	CUresult r;

	beyond.is_beyond = true;
	r = pieces_gather_step(&beyond, box, base, &c);
	if (r)
		return r;
	r = call_wait(&c, 0);
	call_end(&c);
	return r;
}

static CUresult take_answers(unsigned *n, unsigned but)
{
	CUresult r = CUDA_SUCCESS;

	for (; *n > but; --*n) {
		struct call c = {.lane = session_lane()};
		const CUresult one = call_receive(&c);

		call_end(&c);
		r = r ? r : one;
		if (one == CUDA_ERROR_GONE)
			return one;
	}
	return r;
}

/*
 * Sends a copy. If the copy has several steps, some steps are in flight at once, and their answers
 * report free room. has_room: the caller has taken the room for all steps.
 */
static CUresult send_in(const struct remote_copy *whole, const struct box *box, bool has_room)
{
	const size_t all = pieces_copy_bytes(whole);
	const bool asks = all > REMOTE_WHOLE && !is_synchronous();
	unsigned answers = 0;
	struct remote_copy step;
	CUresult r = CUDA_SUCCESS, last;
	size_t at = 0;

	while (at < all && !r) {
		const size_t n = pieces_cut_copy(whole, at, REMOTE_WHOLE, &step);
		const uint64_t units = remote_copy_units(&step);
		bool fits;

		r = take_answers(&answers, STEPS_AHEAD);
		fits = has_room || r || pieces_take_units(units);
		if (!fits) {
			r = take_answers(&answers, 0);
			fits = r || pieces_take_units(units);
		}
		if (r)
			break;
		r = fits ? send_step(&step, box, at, asks) : send_beyond(&step, box, at);
		answers += fits && asks && !r;
		at += n;
	}
	if (has_room)
		leave_room(units_of(whole, at));
	last = take_answers(&answers, 0);
	return r ? r : last;
}

CUresult pieces_in(const struct remote_copy *whole, const struct box *box)
{
	return send_in(whole, box, false);
}

bool pieces_fit_in(const struct remote_copy *whole, const struct box *box, CUresult *ret_result)
{
	if (!pieces_take_units(units_of(whole, 0)))
		return false;
	*ret_result = send_in(whole, box, true);
	return true;
}

/* ---- to the host ---- */

/*
 * Requests the next piece, of n bytes. is_first: the piece begins a step; false: the piece
 * continues a step.
 */
static CUresult ask_for(const struct remote_copy *step, bool is_first, uint64_t n)
{
	struct call c;
	const CUresult r = is_first ? call_begin(&c, REMOTE_COPY_OUT, sizeof(*step))
				    : call_begin(&c, REMOTE_COPY_REST, sizeof(n));

	if (r)
		return r;
	if (is_first)
		call_put(&c, step, sizeof(*step));
	else
		call_put(&c, &n, sizeof(n));
	return call_send(&c, REMOTE_SYNC);
}

static CUresult take_piece(const struct box *box, size_t at, size_t n)
{
	struct call c = {.lane = session_lane()};
	CUresult r = call_receive(&c);

	if (!r && (size_t)(c.in_end - c.in) < n)
		r = CUDA_ERROR_UNKNOWN;
	if (!r)
		box_write(box, at, c.in, n);
	call_end(&c);
	return r;
}

/* The state of a copy to the host. */
struct reading {
	const struct remote_copy *whole;
	size_t sent, taken, step_left;
	size_t length[AHEAD]; /* sizes of the pieces between `taken` and `sent` */
	unsigned first, n;
};

static CUresult pieces_send_next(struct reading *g)
{
	struct remote_copy step;
	const bool is_first = !g->step_left;
	size_t bytes;
	CUresult r;

	if (is_first) {
		g->step_left = pieces_cut_copy(g->whole, g->sent, REMOTE_WHOLE, &step);
		step.is_whole = g->step_left > REMOTE_PIECE;
	}
	bytes = g->step_left < REMOTE_PIECE ? g->step_left : REMOTE_PIECE;
	r = ask_for(&step, is_first, bytes);
	if (r)
		return r;
	g->length[(g->first + g->n++) % AHEAD] = bytes;
	g->sent += bytes;
	g->step_left -= bytes;
	return CUDA_SUCCESS;
}

static CUresult take_next(struct reading *g, const struct box *box)
{
	const size_t n = g->length[g->first];
	const CUresult r = take_piece(box, g->taken, n);

	g->taken += n;
	g->first = (g->first + 1) % AHEAD;
	g->n--;
	return r;
}

/*
 * The worker reads each step at once, because other threads may add work to the stream before all
 * pieces have arrived.
 */
CUresult pieces_out(const struct remote_copy *whole, const struct box *box)
{
	const size_t all = pieces_copy_bytes(whole);
	struct reading g = {.whole = whole};
	CUresult r = CUDA_SUCCESS;

	while (g.n || (g.sent < all && !r)) {
		CUresult one;

		if (g.n < AHEAD && g.sent < all && !r) {
			r = pieces_send_next(&g);
			continue;
		}
		one = take_next(&g, box);
		r = r ? r : one;
		if (one == CUDA_ERROR_GONE)
			break;
	}
	return r;
}
