/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Branches, calls, the ends of kernels, and barriers. Pure code, any thread.
 */
#include "ptx/ptx-select.h"

#include <errno.h>

#include "ptx/ptx-ops.h"

void select_branch(struct parser *p)
{
	select_take(p, "uni");
	if (!select_is_done(p) || !select_has_operands(p, 1, 1))
		return;
	if (p->operands[0].kind != OP_NAME) {
		parse_fail(p, EINVAL, "branch to '%" STR_FMT "', which is no label",
			STR_ARG(p->operands[0].name));
		return;
	}
	body_refer(p, p->n_insns, NULL, p->operands[0].name);
	body_emit(p, CTL_BRANCH, NULL);
	p->next_is_join = true;
}

/* brx.idx index, list */
void select_table(struct parser *p)
{
	struct extra *x = body_extra(p);
	struct symbol *s;
	struct insn *in;
	uint32_t *targets;
	int32_t a;

	select_take(p, "uni");
	if (!x || !select_take(p, "idx") || !select_is_done(p)) {
		select_unsupported(p);
		return;
	}
	if (!select_has_operands(p, 2, 2))
		return;
	a = select_use(p, 0, T_B32);
	s = parse_find(p, p->operands[1].name);
	if (!s || s->kind != SYM_TARGETS) {
		parse_fail(p, EINVAL, "'%" STR_FMT "' is no list of labels",
			STR_ARG(p->operands[1].name));
		return;
	}
	targets = arena_take_array(&p->ptx->arena, s->n_labels, sizeof(*targets));
	if (!targets) {
		parse_fail(p, ENOMEM, "out of memory");
		return;
	}
	for (uint32_t i = 0; i < s->n_labels; i++)
		body_refer(p, p->n_insns, &targets[i], s->labels[i]);
	x->targets = targets;
	x->n = s->n_labels;
	in = body_emit(p, CTL_TABLE, NULL);
	p->next_is_join = true;
	if (!in)
		return;
	in->flags |= INSN_BACK;
	in->a = a;
	in->x = x;
}

static const struct param *call_list(struct parser *p, const struct operand *list, uint32_t *ret_n)
{
	struct param *params;

	*ret_n = 0;
	if (!list)
		return NULL;
	params = arena_take_array(&p->ptx->arena, list->n + 1, sizeof(*params));
	if (!params) {
		parse_fail(p, ENOMEM, "out of memory");
		return NULL;
	}
	for (uint32_t i = 0; i < list->n; i++) {
		const struct operand *o = &p->elements[list->first + i];

		params[i].reg = OPERAND_NONE;
		if (o->kind == OP_SYMBOL && o->symbol->kind == SYM_VARIABLE &&
			o->symbol->space == SP_FRAME) {
			if (o->offset)
				parse_fail(p, EINVAL, "argument '%" STR_FMT "' with an offset",
					STR_ARG(o->name));
			params[i].offset = (uint32_t)o->symbol->address;
			params[i].bytes = (uint32_t)o->symbol->bytes;
		} else if (o->kind == OP_REG && o->type != T_PRED) {
			params[i].reg = o->reg;
			params[i].reg_bytes = type_table[o->type].bytes;
			params[i].bytes = params[i].reg_bytes;
		} else {
			parse_fail(p, o->kind == OP_IMM ? ENOTSUP : EINVAL,
				"argument '%" STR_FMT "' of a call", STR_ARG(o->name));
		}
	}
	*ret_n = list->n;
	return params;
}

bool select_check_call(struct parser *p, const struct call_shape *shape, const struct func *f)
{
	bool is_ok = shape->n_args == f->n_params && shape->n_rets == f->n_rets;

	for (uint32_t i = 0; is_ok && i < shape->n_args; i++)
		is_ok = shape->args[i].bytes == f->params[i].bytes;
	for (uint32_t i = 0; is_ok && i < shape->n_rets; i++)
		is_ok = shape->rets[i].bytes == f->rets[i].bytes;
	return is_ok ||
		parse_fail(p, EINVAL, "call of '%s' with arguments of another function", f->name);
}

/* call (rets), function, (args), prototype */
void select_call(struct parser *p)
{
	const struct operand *o = p->operands, *end = o + p->n_operands;
	const struct operand *rets = NULL, *args = NULL, *callee;
	struct call_shape *shape = arena_take(&p->ptx->arena, sizeof(*shape));
	struct extra *x = body_extra(p);
	struct insn *in;
	int32_t a = OPERAND_NONE;

	select_take(p, "uni");
	if (!x || !shape || !select_is_done(p) || !select_has_operands(p, 1, 4))
		return;
	if (o < end && o->kind == OP_VECTOR)
		rets = o++;
	callee = o++;
	if (o < end && o->kind == OP_VECTOR)
		args = o++;
	shape->rets = call_list(p, rets, &shape->n_rets);
	shape->args = call_list(p, args, &shape->n_args);
	if (callee >= end || p->has_failed) {
		parse_fail(p, EINVAL, "call without function");
		return;
	}
	if (callee->kind == OP_SYMBOL && callee->symbol->kind == SYM_FUNC) {
		const struct func *f = p->ptx->funcs[callee->symbol->index];

		x->func = (int32_t)callee->symbol->index;
		if (f->is_entry) {
			parse_fail(p, ENOTSUP, "call of the kernel '%s'", f->name);
			return;
		}
		if (!select_check_call(p, shape, f))
			return;
	} else {
		a = body_use(p, callee, T_B64);
	}
	x->call = shape;
	in = body_emit(p, CTL_CALL, NULL);
	p->next_is_join = true;
	if (!in)
		return;
	in->flags |= INSN_FAULT;
	in->a = a;
	in->x = x;
}

void select_return(struct parser *p)
{
	select_take(p, "uni");
	if (select_is_done(p) && select_has_operands(p, 0, 0))
		body_emit(p, CTL_RETURN, NULL);
	p->next_is_join = true;
}

void select_exit(struct parser *p)
{
	if (select_is_done(p) && select_has_operands(p, 0, 0))
		body_emit(p, CTL_EXIT, NULL);
	p->next_is_join = true;
}

static void exec_trap(struct warp *w, const struct insn *in, uint32_t mask)
{
	warp_fault(w, in, PTX_LAUNCH_FAILED, 0);
}

void select_trap(struct parser *p)
{
	struct insn *in = body_emit(p, CTL_LANES, exec_trap);

	if (in)
		in->flags |= INSN_FAULT;
}

/* ---- barriers ---- */

static struct extra *emit_barrier(
	struct parser *p, enum barrier_op op, int32_t d, int32_t pred, int32_t id, int32_t count)
{
	struct extra *x = body_extra(p);
	struct insn *in;

	if (!x)
		return NULL;
	x->op = (uint8_t)op;
	x->ops[0] = id;
	x->ops[1] = count;
	in = body_emit(p, CTL_BARRIER, NULL);
	if (!in)
		return NULL;
	in->flags |= INSN_JOIN;
	in->d = d;
	in->a = pred;
	in->x = x;
	p->next_is_join = true;
	return x;
}

void select_barrier(struct parser *p)
{
	int32_t id, count = OPERAND_NONE, pred = OPERAND_NONE, d = OPERAND_NONE;
	enum barrier_op op = BARRIER_SYNC;
	uint32_t at = 0;
	bool is_red;

	if (select_take(p, "cluster")) { /* a cluster is one block here */
		bool is_arrive = select_take(p, "arrive");
		struct extra *x;

		select_take(p, "release");
		select_take(p, "relaxed");
		select_take(p, "acquire");
		select_take(p, "aligned");
		if (!is_arrive && !select_take(p, "wait")) {
			select_unsupported(p);
			return;
		}
		if (!select_is_done(p))
			return;
		if (is_arrive) {
			select_nothing(p);
			return;
		}
		x = emit_barrier(p, BARRIER_SYNC, OPERAND_NONE, OPERAND_NONE,
			body_constant(p, BARRIER_CLUSTER, 0, 4), OPERAND_NONE);
		if (x)
			x->flag_a = true; /* its number is not one of the program's */
		return;
	}
	select_take(p, "cta");
	select_take(p, "aligned");
	if (select_take(p, "warp")) {
		struct extra *x = body_extra(p);
		struct insn *in;

		if (!x || !select_take(p, "sync") || !select_is_done(p) ||
			!select_has_operands(p, 1, 1))
			return;
		x->mask = select_use(p, 0, T_B32);
		in = body_emit(p, CTL_WARP, exec_nop);
		if (in) {
			in->flags |= INSN_JOIN;
			in->x = x;
		}
		return;
	}
	is_red = select_take(p, "red");
	if (select_take(p, "arrive"))
		op = BARRIER_ARRIVE;
	else if (is_red)
		op = select_take(p, "popc")     ? BARRIER_POPC
			: select_take(p, "and") ? BARRIER_AND
			: select_take(p, "or")  ? BARRIER_OR
						: BARRIER_SYNC;
	else if (!select_take(p, "sync") && p->n_parts != 1) {
		select_unsupported(p);
		return;
	}
	select_take(p, "u32");
	select_take(p, "pred");
	if (!select_is_done(p) || (is_red && op == BARRIER_SYNC) ||
		!select_has_operands(p,
			is_red                         ? 3
				: op == BARRIER_ARRIVE ? 2
						       : 1,
			4))
		return;
	if (is_red) {
		at = 1;
		pred = select_use(p, p->n_operands - 1, T_PRED);
		d = select_define(p, 0, op == BARRIER_POPC ? T_B32 : T_PRED);
		p->n_operands--;
	}
	id = select_use(p, at, T_B32);
	if (p->n_operands > at + 1)
		count = select_use(p, at + 1, T_B32);
	emit_barrier(p, op, d, pred, id, count);
}
