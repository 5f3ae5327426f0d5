/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mbarrier objects: 64 bits in shared memory, opaque to programs. A block runs in one thread, so
 * its barriers need no atomics. Any thread.
 *
 *   bits 0-19   arrivals that the phase still needs
 *   bits 20-39  arrivals of each phase
 *   bits 40-62  bytes that asynchronous copies still owe, with sign
 *   bit 63      the phase's parity
 */
#include "ptx/ptx-select.h"

#include <errno.h>

#include "ptx/ptx-ops.h"

#define COUNT_MASK UINT64_C(0xfffff)

struct mbarrier {
	uint32_t pending, expected;
	int32_t bytes;
	uint32_t phase;
};

static struct mbarrier mbarrier_unpack(uint64_t v)
{
	return (struct mbarrier){
		.pending = (uint32_t)(v & COUNT_MASK),
		.expected = (uint32_t)(v >> 20 & COUNT_MASK),
		.bytes = (int32_t)((int64_t)(v << 1) >> 41),
		.phase = (uint32_t)(v >> 63),
	};
}

static uint64_t mbarrier_pack(const struct mbarrier *b)
{
	return (b->pending & COUNT_MASK) | (b->expected & COUNT_MASK) << 20 |
		((uint64_t)(uint32_t)b->bytes & 0x7fffff) << 40 | (uint64_t)b->phase << 63;
}

static void mbarrier_arrive(struct mbarrier *b, uint32_t n)
{
	b->pending -= n < b->pending ? n : b->pending;
	if (b->pending || b->bytes)
		return;
	b->phase ^= 1;
	b->pending = b->expected;
}

static void mbarrier_apply(struct mbarrier *b, enum mbarrier_op op, uint32_t n)
{
	switch (op) {
	case MBARRIER_INIT: *b = (struct mbarrier){.pending = n, .expected = n}; break;
	case MBARRIER_ARRIVE: mbarrier_arrive(b, n); break;
	case MBARRIER_ARRIVE_DROP:
		b->expected -= n < b->expected ? n : b->expected;
		mbarrier_arrive(b, n);
		break;
	case MBARRIER_EXPECT_TX: b->bytes += (int32_t)n; break;
	case MBARRIER_ARRIVE_EXPECT_TX:
		b->bytes += (int32_t)n;
		mbarrier_arrive(b, 1);
		break;
	case MBARRIER_COMPLETE_TX:
		b->bytes -= (int32_t)n;
		mbarrier_arrive(b, 0);
		break;
	default: break;
	}
}

bool mbarrier_complete(struct warp *w, const struct insn *in, uint32_t lane, enum space space,
	uint64_t address, uint32_t bytes)
{
	struct mbarrier b;
	bool is_host;
	uint64_t word;
	uint8_t *p;

	if (address & 7) {
		warp_fault(w, in, PTX_MISALIGNED_ADDRESS, address);
		return false;
	}
	p = access_lane(w, in, lane, space, address, 8, true, &is_host);
	if (!p)
		return false;
	memcpy(&word, p, 8);
	b = mbarrier_unpack(word);
	mbarrier_apply(&b, MBARRIER_COMPLETE_TX, bytes);
	word = mbarrier_pack(&b);
	memcpy(p, &word, 8);
	return true;
}

/* a: address; b: count, bytes, state or parity; d: state or predicate */
static void exec_mbarrier(struct warp *w, const struct insn *in, uint32_t mask)
{
	const struct extra *x = in->x;
	const enum mbarrier_op op = (enum mbarrier_op)x->op;
	uint32_t done = 0;

	FOR_LANES(i, mask)
	{
		uint64_t address = (uint64_t)in->imm, word, operand = 1;
		struct mbarrier b;
		bool is_host;
		uint8_t *p;

		if (in->a != OPERAND_NONE && x->flag_a == 8)
			address += ((const uint64_t *)REG(w, in->a))[i];
		else if (in->a != OPERAND_NONE)
			address += ((const uint32_t *)REG(w, in->a))[i];
		if (in->b != OPERAND_NONE) {
			operand = 0;
			memcpy(&operand, REG(w, in->b) + i * x->width, x->width);
		}
		if (address & 7) {
			warp_fault(w, in, PTX_MISALIGNED_ADDRESS, address);
			return;
		}
		p = access_lane(w, in, i, x->space, address, 8, true, &is_host);
		if (!p) {
			if (is_host)
				warp_fault(w, in, PTX_ILLEGAL_ADDRESS, address);
			return;
		}
		memcpy(&word, p, 8);
		b = mbarrier_unpack(word);
		if (op == MBARRIER_TEST_WAIT)
			done |= (uint32_t)(b.phase != operand >> 63) << i;
		else if (op == MBARRIER_TEST_PARITY)
			done |= (uint32_t)(b.phase != (operand & 1)) << i;
		else if (in->d != OPERAND_NONE)
			memcpy(REG(w, in->d) + 8 * i, &word, 8);
		mbarrier_apply(&b, op, (uint32_t)operand);
		word = mbarrier_pack(&b);
		memcpy(p, &word, 8);
	}
	if (op == MBARRIER_TEST_WAIT || op == MBARRIER_TEST_PARITY)
		pred_write(w, in->d, mask, done);
}

static void exec_pending_count(struct warp *w, const struct insn *in, uint32_t mask)
{
	FOR_LANES(i, mask)
	((uint32_t *)REG(w, in->d))[i] = (uint32_t)(((const uint64_t *)REG(w, in->a))[i] &
		COUNT_MASK);
}

static void take_words(struct parser *p)
{
	static const char *const words[] = {
		"release", "acquire", "relaxed", "cta", "cluster", "noComplete", "b64"};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		select_take(p, words[i]);
}

static bool take_op(struct parser *p, struct extra *x)
{
	bool is_wait = select_take(p, "test_wait") || select_take(p, "try_wait");

	if (is_wait)
		x->op = select_take(p, "parity") ? MBARRIER_TEST_PARITY : MBARRIER_TEST_WAIT;
	else if (select_take(p, "init"))
		x->op = MBARRIER_INIT;
	else if (select_take(p, "inval"))
		x->op = MBARRIER_INVAL;
	else if (select_take(p, "arrive"))
		x->op = select_take(p, "expect_tx") ? MBARRIER_ARRIVE_EXPECT_TX : MBARRIER_ARRIVE;
	else if (select_take(p, "arrive_drop"))
		x->op = MBARRIER_ARRIVE_DROP;
	else if (select_take(p, "expect_tx"))
		x->op = MBARRIER_EXPECT_TX;
	else if (select_take(p, "complete_tx"))
		x->op = MBARRIER_COMPLETE_TX;
	else
		return select_unsupported(p);
	return true;
}

static void select_pending_count(struct parser *p)
{
	struct insn *in;
	int32_t a, d;

	select_take(p, "b64");
	if (!select_is_done(p) || !select_has_operands(p, 2, 2))
		return;
	a = body_use(p, &p->operands[1], T_B64);
	d = body_define(p, &p->operands[0], T_B32);
	in = body_emit(p, CTL_LANES, exec_pending_count);
	if (!in)
		return;
	in->a = a;
	in->d = d;
}

void select_mbarrier(struct parser *p)
{
	struct extra *x = body_extra(p);
	struct insn *in;
	bool is_wait, has_state;
	uint32_t at = 0;
	int64_t imm;
	int32_t a, b = OPERAND_NONE, d = OPERAND_NONE;

	if (select_take(p, "pending_count")) {
		select_pending_count(p);
		return;
	}
	if (!x || !take_op(p, x))
		return;
	is_wait = x->op == MBARRIER_TEST_WAIT || x->op == MBARRIER_TEST_PARITY;
	take_words(p);
	select_take_space(p, x);
	if (!select_is_done(p) || !select_has_operands(p, 1, 4))
		return;
	has_state = p->operands[0].kind != OP_ADDRESS;
	if (is_wait)
		d = body_define(p, &p->operands[at++], T_PRED);
	else if (has_state)
		d = body_define(p, &p->operands[at++], T_B64);
	if (at == p->n_operands || !select_address(p, &p->operands[at++], x, &a, &imm))
		return;
	x->width = x->op == MBARRIER_TEST_WAIT ? 8 : 4;
	if (at < p->n_operands)
		b = body_use(p, &p->operands[at], x->width == 8 ? T_B64 : T_B32);
	/* After a wait, the warps that the barrier waits for run. */
	in = body_emit(p, is_wait ? CTL_YIELD : CTL_LANES, exec_mbarrier);
	if (!in)
		return;
	in->flags |= INSN_FAULT;
	in->a = a;
	in->b = b;
	in->d = d;
	in->imm = imm;
	in->x = x;
}
