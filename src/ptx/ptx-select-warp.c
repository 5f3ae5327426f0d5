/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instructions in which the lanes of a warp exchange values. Pure code, any thread.
 */
#include "ptx/ptx-select.h"

#include <errno.h>

#include "ptx/ptx-ops.h"

/* An instruction with a member mask waits for the lanes of the mask. */
static struct insn *emit_warp(struct parser *p, exec_fn *fn, struct extra *x)
{
	bool is_sync = x->mask != OPERAND_NONE;
	struct insn *in = body_emit(p, is_sync ? CTL_WARP : CTL_LANES, fn);

	if (!in)
		return NULL;
	in->flags |= is_sync ? INSN_JOIN : 0;
	in->x = x;
	return in;
}

struct sources {
	int32_t a, b, c;
};

/* The first operand is the result, maybe with a predicate. */
static void emit_exchange(
	struct parser *p, exec_fn *fn, struct extra *x, enum ptx_type type, struct sources sources)
{
	int32_t d = select_define(p, 0, type);
	struct insn *in;

	if (p->operands[0].has_pair)
		x->d2 = p->operands[0].pair;
	in = emit_warp(p, fn, x);
	if (!in)
		return;
	in->a = sources.a;
	in->b = sources.b;
	in->c = sources.c;
	in->d = d;
}

void select_shuffle(struct parser *p)
{
	static const char *const modes[] = {[SHUFFLE_UP] = "up",
		[SHUFFLE_DOWN] = "down",
		[SHUFFLE_BFLY] = "bfly",
		[SHUFFLE_IDX] = "idx"};
	bool is_sync = select_take(p, "sync");
	int mode = SELECT_TAKE_WORD(p, modes);
	struct extra *x = body_extra(p);
	struct sources sources;

	if (!x || mode < 0 || !select_take(p, "b32") || !select_is_done(p)) {
		select_unsupported(p);
		return;
	}
	if (!select_has_operands(p, is_sync ? 5 : 4, is_sync ? 5 : 4))
		return;
	x->op = (uint8_t)mode;
	sources.a = select_use(p, 1, T_B32);
	sources.b = select_use(p, 2, T_B32);
	sources.c = select_use(p, 3, T_B32);
	if (is_sync)
		x->mask = select_use(p, 4, T_B32);
	emit_exchange(p, exec_shuffle, x, T_B32, sources);
}

void select_vote(struct parser *p)
{
	static const char *const modes[] = {[VOTE_ALL] = "all",
		[VOTE_ANY] = "any",
		[VOTE_UNI] = "uni",
		[VOTE_BALLOT] = "ballot"};
	bool is_sync = select_take(p, "sync");
	int mode = SELECT_TAKE_WORD(p, modes);
	struct extra *x = body_extra(p);
	struct sources sources = {OPERAND_NONE, OPERAND_NONE, OPERAND_NONE};

	select_take(p, "pred");
	select_take(p, "b32");
	if (!x || mode < 0 || !select_is_done(p)) {
		select_unsupported(p);
		return;
	}
	if (!select_has_operands(p, is_sync ? 3 : 2, is_sync ? 3 : 2))
		return;
	x->op = (uint8_t)mode;
	sources.a = select_use(p, 1, T_PRED);
	if (is_sync)
		x->mask = select_use(p, 2, T_B32);
	emit_exchange(p, exec_vote, x, mode == VOTE_BALLOT ? T_B32 : T_PRED, sources);
}

void select_match(struct parser *p)
{
	struct extra *x = body_extra(p);
	bool is_all = select_take(p, "all");
	struct sources sources = {OPERAND_NONE, OPERAND_NONE, OPERAND_NONE};
	enum ptx_type type;

	select_take(p, "any");
	select_take(p, "sync");
	if (!x || !select_take_sized_type(p, 4 | 8, &type) || !select_is_done(p) ||
		!select_has_operands(p, 3, 3))
		return;
	x->op = is_all;
	x->width = type_table[type].bytes;
	sources.a = select_use(p, 1, type);
	x->mask = select_use(p, 2, T_B32);
	emit_exchange(p, exec_match, x, T_B32, sources);
}

void select_redux(struct parser *p)
{
	static const char *const ops[] = {[REDUX_ADD] = "add",
		[REDUX_MIN] = "min",
		[REDUX_MAX] = "max",
		[REDUX_AND] = "and",
		[REDUX_OR] = "or",
		[REDUX_XOR] = "xor"};
	struct extra *x = body_extra(p);
	struct sources sources = {OPERAND_NONE, OPERAND_NONE, OPERAND_NONE};
	enum ptx_type type;
	int op;

	select_take(p, "sync");
	op = SELECT_TAKE_WORD(p, ops);
	if (!x || op < 0 || !select_take_sized_type(p, 4, &type)) {
		select_unsupported(p);
		return;
	}
	x->flag_b = select_take(p, "abs");
	x->flag_a = select_take(p, "NaN");
	if (!select_is_done(p) || !select_has_operands(p, 3, 3))
		return;
	x->op = (uint8_t)op;
	x->type = (uint8_t)type;
	sources.a = select_use(p, 1, type);
	x->mask = select_use(p, 2, T_B32);
	emit_exchange(p, exec_redux, x, type, sources);
}

struct insn *select_emit_warp(struct parser *p, exec_fn *fn, struct extra *x)
{
	struct insn *in = body_emit(p, CTL_WARP, fn);

	if (in) {
		in->flags |= INSN_JOIN;
		in->x = x;
	}
	return in;
}

void select_activemask(struct parser *p)
{
	struct insn *in;
	int32_t d;

	if (!select_take(p, "b32") || !select_is_done(p) || !select_has_operands(p, 1, 1)) {
		select_unsupported(p);
		return;
	}
	d = select_define(p, 0, T_B32);
	in = body_emit(p, CTL_LANES, exec_activemask);
	if (in)
		in->d = d;
}

void select_elect(struct parser *p)
{
	struct extra *x = body_extra(p);
	struct insn *in;
	int32_t d;

	if (!x || !select_take(p, "sync") || !select_is_done(p) || !select_has_operands(p, 2, 2)) {
		select_unsupported(p);
		return;
	}
	x->mask = select_use(p, 1, T_B32);
	d = select_define(p, 0, T_B32);
	x->d2 = p->operands[0].has_pair ? p->operands[0].pair : parse_new_reg(p, 0);
	if (x->d2 == OPERAND_NONE)
		x->d2 = parse_new_reg(p, 0);
	in = emit_warp(p, exec_elect, x);
	if (in)
		in->d = d;
}
