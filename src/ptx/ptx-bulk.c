/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cp.async.bulk between global and shared memory. A copy is complete at once, so bulk groups need
 * no waiting, and an mbarrier gets the bytes in the same instruction. Copies with tensor maps are
 * missing. A block runs in one thread. Any thread.
 */
#include "ptx/ptx-select.h"

#include <errno.h>

#include "ptx/ptx-ops.h"

enum { BULK_PART = 4096, BULK_ALIGN = 16, STEPS_BULK = 16 };

/* Places of addresses in struct bulk_copy. */
enum { BULK_TO, BULK_FROM, BULK_BARRIER, BULK_ADDRESSES };

static uint64_t bulk_lane_address(
	const struct warp *w, const struct bulk_copy *c, uint32_t k, uint32_t lane)
{
	uint64_t v = 0;

	if (c->reg[k] != OPERAND_NONE)
		memcpy(&v, REG(w, c->reg[k]) + lane * c->reg_bytes[k], c->reg_bytes[k]);
	v += (uint64_t)c->imm[k];
	return c->reg_bytes[k] == 4 ? (uint32_t)v : v;
}

/* Copies a part; false: a fault. */
static bool bulk_part(struct warp *w, const struct insn *in, uint32_t lane, uint64_t to,
	uint64_t from, uint32_t n)
{
	const struct bulk_copy *c = in->x->bulk;
	const struct ptx_device *device = w->worker->job->device;
	uint8_t bytes[BULK_PART];
	bool is_host;
	uint8_t *p = access_lane(
		w, in, lane, (enum space)c->space[BULK_FROM], from, n, false, &is_host);
	int r = 0;

	if (p)
		memcpy(bytes, p, n);
	else if (is_host)
		r = device->host(device->user, from, bytes, n, false);
	else
		return false;
	access_forget(w->worker);
	if (r == 0) {
		p = access_lane(w, in, lane, (enum space)c->space[BULK_TO], to, n, true, &is_host);
		if (p)
			memcpy(p, bytes, n);
		else if (is_host)
			r = device->host(device->user, to, bytes, n, true);
		else
			return false;
	}
	if (r < 0)
		warp_fault(w, in, PTX_ILLEGAL_ADDRESS, from);
	return r >= 0;
}

/* a: bytes */
static void exec_bulk(struct warp *w, const struct insn *in, uint32_t mask)
{
	const struct bulk_copy *c = in->x->bulk;

	FOR_LANES(i, mask)
	{
		uint64_t to = bulk_lane_address(w, c, BULK_TO, i);
		uint64_t from = bulk_lane_address(w, c, BULK_FROM, i);
		uint32_t n = ((const uint32_t *)REG(w, in->a))[i];

		if ((to | from | n) % BULK_ALIGN) {
			warp_fault(w, in, PTX_MISALIGNED_ADDRESS, to % BULK_ALIGN ? to : from);
			return;
		}
		/* Shared memory of devices is no larger. Longer copies would hold up the caller. */
		if (n > PTX_DYNAMIC_BYTES_MAX) {
			warp_fault(w, in, PTX_ILLEGAL_ADDRESS, from);
			return;
		}
		for (uint32_t at = 0; at < n; at += BULK_PART) {
			w->worker->until_pause -= STEPS_BULK;
			if (atomic_load_explicit(&w->worker->job->cancel, memory_order_relaxed) ||
				!bulk_part(w, in, i, to + at, from + at,
					n - at < BULK_PART ? n - at : BULK_PART))
				return;
		}
		if (c->has_barrier &&
			!mbarrier_complete(w, in, i, (enum space)c->space[BULK_BARRIER],
				bulk_lane_address(w, c, BULK_BARRIER, i), n))
			return;
	}
}

static bool take_address(struct parser *p, uint32_t operand, struct bulk_copy *c, uint32_t k)
{
	struct extra x = {.space = c->space[k]};

	if (!select_address(p, &p->operands[operand], &x, &c->reg[k], &c->imm[k]))
		return false;
	c->reg_bytes[k] = c->reg[k] == OPERAND_NONE ? 8 : x.flag_a;
	return true;
}

/* The two spaces follow each other: the destination's first. */
static bool take_spaces(struct parser *p, struct bulk_copy *c)
{
	static const struct {
		const char *name;
		enum space space;
	} spaces[] = {
		{"shared::cluster", SP_SHARED}, {"shared::cta", SP_SHARED}, {"global", SP_GLOBAL}};

	for (uint32_t k = BULK_TO; k <= BULK_FROM; k++) {
		bool is_found = false;

		for (size_t i = 0; i < sizeof(spaces) / sizeof(spaces[0]) && !is_found; i++) {
			if (p->n_parts < 2 || !str_is(p->parts[1], spaces[i].name))
				continue;
			c->space[k] = (uint8_t)spaces[i].space;
			select_drop(p, 1);
			is_found = true;
		}
		if (!is_found)
			return select_unsupported(p);
	}
	c->space[BULK_BARRIER] = SP_SHARED;
	return c->space[BULK_TO] != SP_GLOBAL || c->space[BULK_FROM] != SP_GLOBAL ||
		select_unsupported(p);
}

/* The opcode's parts behind cp.async.bulk. */
void select_bulk(struct parser *p)
{
	struct bulk_copy *c = arena_take(&p->ptx->arena, sizeof(*c));
	struct extra *x = body_extra(p);
	struct insn *in;
	int32_t bytes;

	if (select_take(p, "commit_group") || select_take(p, "wait_group") ||
		select_take(p, "prefetch")) {
		body_emit(p, CTL_LANES, exec_nop);
		return;
	}
	if (!c || !x || !take_spaces(p, c))
		return;
	c->has_barrier = select_take(p, "mbarrier::complete_tx::bytes");
	if (!c->has_barrier && !select_take(p, "bulk_group")) {
		select_unsupported(p);
		return;
	}
	select_take(p, "L2::cache_hint");
	if (!select_is_done(p) || !select_has_operands(p, c->has_barrier ? 4 : 3, 5) ||
		!take_address(p, 0, c, BULK_TO) || !take_address(p, 1, c, BULK_FROM) ||
		(c->has_barrier && !take_address(p, 3, c, BULK_BARRIER)))
		return;
	bytes = select_use(p, 2, T_B32);
	in = body_emit(p, CTL_LANES, exec_bulk);
	if (!in)
		return;
	x->bulk = c;
	in->flags |= INSN_FAULT;
	in->a = bytes;
	in->x = x;
}
