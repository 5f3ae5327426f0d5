/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Comparisons, selections, logic and bits that are no rows of the table of arithmetic, because they
 * have predicates, carries or more than three operands. Pure code, any thread.
 */
#include "ptx/ptx-select.h"

#include <errno.h>

#include "ptx/ptx-ops.h"

void select_carry(struct parser *p)
{
	static const char *const names[] = {
		[CARRY_ADD] = "add", [CARRY_SUB] = "sub", [CARRY_MAD_LO] = "mad"};
	struct str base = p->parts[0];
	bool has_cc = select_take(p, "cc"), has_carry_in = base.p[base.n - 1] == 'c';
	bool is_hi = select_take(p, "hi");
	enum carry_op op = CARRY_ADD;
	enum ptx_type type;
	struct extra *x;
	struct insn *in;

	select_take(p, "lo");
	for (int i = CARRY_ADD; i <= CARRY_MAD_LO; i++)
		if (str_has_prefix(base, str_from(names[i])))
			op = (enum carry_op)i;
	if (op == CARRY_MAD_LO && is_hi)
		op = CARRY_MAD_HI;
	if (!select_take_sized_type(p, 4 | 8, &type) || !select_is_done(p) ||
		!select_has_operands(p, op >= CARRY_MAD_LO ? 4 : 3, op >= CARRY_MAD_LO ? 4 : 3))
		return;
	x = body_extra(p);
	if (!x)
		return;
	x->op = (uint8_t)op;
	x->type = (uint8_t)type;
	x->width = type_table[type].bytes;
	x->flag_a = has_carry_in;
	x->flag_b = has_cc;
	{
		int32_t a = select_use(p, 1, type), b = select_use(p, 2, type);
		int32_t c = op >= CARRY_MAD_LO ? select_use(p, 3, type) : OPERAND_NONE;
		int32_t d = select_define(p, 0, type);

		in = body_emit(p, CTL_LANES, exec_carry);
		if (!in)
			return;
		in->a = a;
		in->b = b;
		in->c = c;
		in->d = d;
		in->x = x;
	}
}

static const char *const bool_names[] = {[BOOL_AND] = "and", [BOOL_OR] = "or", [BOOL_XOR] = "xor"};

static bool select_compare_parts(struct parser *p, struct extra *x, compare_fn **ret_fn)
{
	enum ptx_type type;
	int op;

	x->is_ftz = select_take(p, "ftz");
	if (!select_take_type(p, &type))
		return false;
	x->from_type = (uint8_t)type;
	if (str_is(p->parts[0], "set")) {
		if (!select_take_sized_type(p, 2 | 4, &type))
			return false;
		x->type = (uint8_t)type;
	}
	if (p->n_parts < 2)
		return select_unsupported(p);
	*ret_fn = compare_find(p->parts[1], x->from_type);
	select_drop(p, 1);
	op = SELECT_TAKE_WORD(p, bool_names);
	x->op = (uint8_t)(op < 0 ? BOOL_NONE : op);
	return *ret_fn ? select_is_done(p) : select_unsupported(p);
}

void select_compare(struct parser *p)
{
	bool is_set = str_is(p->parts[0], "set");
	struct extra *x = body_extra(p);
	compare_fn *fn = NULL;
	struct insn *in;
	int32_t a, b, c = OPERAND_NONE, d;

	if (!x || !select_compare_parts(p, x, &fn) ||
		!select_has_operands(p, x->op ? 4 : 3, x->op ? 4 : 3))
		return;
	a = select_use(p, 1, x->from_type);
	b = select_use(p, 2, x->from_type);
	if (x->op)
		c = select_use(p, 3, T_PRED);
	d = select_define(p, 0, is_set ? x->type : T_PRED);
	if (p->operands[0].has_pair)
		x->d2 = p->operands[0].pair;
	in = select_emit(p, is_set ? exec_set : exec_setp, d, a, b, c, x);
	if (!in)
		return;
	memcpy(&in->imm, &fn, sizeof(fn));
	if (x->is_ftz && x->from_type == T_F32) {
		x->inner = in->fn;
		in->fn = exec_wrapped;
		if (!is_set)
			x->type = T_NONE;
	}
}

void select_selection(struct parser *p)
{
	bool is_slct = str_is(p->parts[0], "slct");
	struct extra *x = body_extra(p);
	enum ptx_type type, by = T_PRED;
	int32_t a, b, c, d;

	if (x)
		x->is_ftz = select_take(p, "ftz");
	if (!x || (is_slct && !select_take_type(p, &by)) ||
		!select_take_sized_type(p, 2 | 4 | 8 | 16, &type) || !select_is_done(p) ||
		!select_has_operands(p, 4, 4))
		return;
	if (is_slct && by != T_S32 && by != T_F32) {
		select_unsupported(p);
		return;
	}
	x->width = type_table[type].bytes;
	x->from_type = (uint8_t)by;
	a = select_use(p, 1, type);
	b = select_use(p, 2, type);
	c = select_use(p, 3, by);
	d = select_define(p, 0, type);
	select_emit(p, is_slct ? exec_slct : exec_selp, d, a, b, c, x);
}

/* and, or, xor, not of predicates; other types are in the table */
void select_logic(struct parser *p)
{
	static const char *const names[] = {[PRED_MOV] = "mov",
		[PRED_NOT] = "not",
		[PRED_AND] = "and",
		[PRED_OR] = "or",
		[PRED_XOR] = "xor"};
	struct insn *in;
	uint32_t op = PRED_MOV;
	int32_t a, b = OPERAND_NONE, d;

	if (p->n_parts != 2 || !str_is(p->parts[1], "pred")) {
		select_alu(p);
		return;
	}
	for (uint32_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (str_is(p->parts[0], names[i]))
			op = i;
	if (!select_has_operands(p, op >= PRED_AND ? 3 : 2, op >= PRED_AND ? 3 : 2))
		return;
	a = select_use(p, 1, T_PRED);
	if (op >= PRED_AND)
		b = select_use(p, 2, T_PRED);
	d = select_define(p, 0, T_PRED);
	in = select_emit(p, exec_pred_op, d, a, b, OPERAND_NONE, NULL);
	if (!in)
		return;
	in->n = (uint16_t)op;
}

void select_lop3(struct parser *p)
{
	int op = SELECT_TAKE_WORD(p, bool_names);
	uint32_t n = op < 0 ? 5 : 6;
	struct extra *x = body_extra(p);
	struct insn *in;
	int32_t a, b, c, d;

	if (!x || !select_take(p, "b32") || !select_is_done(p)) {
		select_unsupported(p);
		return;
	}
	if (!select_has_operands(p, n, n))
		return;
	if (p->operands[4].kind != OP_IMM) {
		parse_fail(p, EINVAL, "the table of lop3 is no number");
		return;
	}
	x->op = (uint8_t)(op < 0 ? BOOL_NONE : op);
	if (op >= 0)
		x->ops[0] = select_use(p, 5, T_PRED);
	else
		x->ops[0] = body_constant(p, 0, 0, 0);
	a = select_use(p, 1, T_B32);
	b = select_use(p, 2, T_B32);
	c = select_use(p, 3, T_B32);
	d = select_define(p, 0, T_B32);
	if (p->operands[0].has_pair)
		x->d2 = p->operands[0].pair;
	in = select_emit(p, exec_lop3, d, a, b, c, NULL);
	if (!in)
		return;
	in->imm = (int64_t)p->operands[4].value.bits;
	in->x = x;
}

void select_prmt(struct parser *p)
{
	static const char *const modes[] = {[PRMT_F4E] = "f4e",
		[PRMT_B4E] = "b4e",
		[PRMT_RC8] = "rc8",
		[PRMT_ECL] = "ecl",
		[PRMT_ECR] = "ecr",
		[PRMT_RC16] = "rc16"};
	int mode = SELECT_TAKE_WORD(p, modes);
	struct insn *in;
	int32_t a, b, c, d;

	if (!select_take(p, "b32") || !select_is_done(p)) {
		select_unsupported(p);
		return;
	}
	if (!select_has_operands(p, 4, 4))
		return;
	a = select_use(p, 1, T_B32);
	b = select_use(p, 2, T_B32);
	c = select_use(p, 3, T_B32);
	d = select_define(p, 0, T_B32);
	in = select_emit(p, exec_prmt, d, a, b, c, NULL);
	if (!in)
		return;
	in->n = (uint16_t)(mode < 0 ? PRMT_DEFAULT : mode);
}

/* bfi.b32/b64 d, a, b, c, n and fma-like instructions with four operands */
static void exec_bfi(struct warp *w, const struct insn *in, uint32_t mask)
{
	const struct extra *x = in->x;
	const uint32_t bits = 8u * x->width;

	FOR_LANES(i, mask)
	{
		uint64_t a = 0, b = 0, field;
		uint32_t at = ((const uint32_t *)REG(w, in->c))[i] & 0xff;
		uint32_t len = ((const uint32_t *)REG(w, x->ops[0]))[i] & 0xff;

		memcpy(&a, REG(w, in->a) + i * x->width, x->width);
		memcpy(&b, REG(w, in->b) + i * x->width, x->width);
		if (at < bits && len != 0) {
			field = len < 64 ? (UINT64_C(1) << len) - 1 : UINT64_MAX;
			b = (b & ~(field << at)) | (a & field) << at;
		}
		memcpy(REG(w, in->d) + i * x->width, &b, x->width);
	}
}

void select_bfi(struct parser *p)
{
	struct extra *x = body_extra(p);
	enum ptx_type type;
	int32_t a, b, c, d;

	if (!x || !select_take_sized_type(p, 4 | 8, &type) || !select_is_done(p) ||
		!select_has_operands(p, 5, 5))
		return;
	x->width = type_table[type].bytes;
	a = select_use(p, 1, type);
	b = select_use(p, 2, type);
	c = select_use(p, 3, T_B32);
	x->ops[0] = select_use(p, 4, T_B32);
	d = select_define(p, 0, type);
	select_emit(p, exec_bfi, d, a, b, c, x);
}

void select_testp(struct parser *p)
{
	static const char *const names[] = {[TESTP_FINITE] = "finite",
		[TESTP_INFINITE] = "infinite",
		[TESTP_NUMBER] = "number",
		[TESTP_NAN] = "notanumber",
		[TESTP_NORMAL] = "normal",
		[TESTP_SUBNORMAL] = "subnormal"};
	struct extra *x = body_extra(p);
	int op = SELECT_TAKE_WORD(p, names);
	enum ptx_type type;
	int32_t a, d;

	if (!x || op < 0 || !select_take_type(p, &type) || !select_is_done(p) ||
		(type != T_F32 && type != T_F64)) {
		select_unsupported(p);
		return;
	}
	if (!select_has_operands(p, 2, 2))
		return;
	x->op = (uint8_t)op;
	x->type = (uint8_t)type;
	a = select_use(p, 1, type);
	d = select_define(p, 0, T_PRED);
	select_emit(p, exec_testp, d, a, OPERAND_NONE, OPERAND_NONE, x);
}
