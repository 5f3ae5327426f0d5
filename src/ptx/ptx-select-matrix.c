/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the functions of matrix instructions and of mbarrier. Pure code, any thread. */
#include "ptx/ptx-select.h"

#include <errno.h>

#include "ptx/ptx-ops.h"

/* m16n8k16 as three numbers */
static bool take_shape(struct parser *p, struct extra *x)
{
	for (uint32_t i = 1; i < p->n_parts; i++) {
		unsigned v[3] = {0};
		const char *s = p->parts[i].p, *end = s + p->parts[i].n;

		if (*s != 'm' || end - s < 6)
			continue;
		for (int k = 0; k < 3 && s < end && *s == "mnk"[k]; k++)
			for (s++; s < end && *s >= '0' && *s <= '9'; s++)
				v[k] = v[k] * 10 + (unsigned)(*s - '0');
		if (s != end || !v[0] || !v[1] || !v[2] || v[0] > 32 || v[1] > 32 || v[2] > 64)
			continue;
		x->shape_m = (uint8_t)v[0];
		x->shape_n = (uint8_t)v[1];
		x->shape_k = (uint8_t)v[2];
		select_drop(p, i);
		return true;
	}
	return select_unsupported(p);
}

static enum ptx_type register_type(enum ptx_type type)
{
	return type == T_F64 ? T_F64 : T_B32;
}

/* The registers of one matrix: exactly as many as its elements need. */
static bool take_fragment(struct parser *p, const struct operand *o, enum ptx_type type, uint32_t n,
	bool is_defined, struct extra *x, uint32_t *at)
{
	const struct operand *list = o->kind == OP_VECTOR ? &p->elements[o->first] : o;
	uint32_t have = o->kind == OP_VECTOR ? o->n : 1;

	if (have != n || *at + n > EXTRA_OPERANDS_MAX)
		return parse_fail(p, EINVAL, "'%" STR_FMT "' with %u registers instead of %u",
			STR_ARG(p->opcode), have, n);
	for (uint32_t i = 0; i < n; i++, (*at)++)
		x->ops[*at] = is_defined ? body_define(p, &list[i], register_type(type))
					 : body_use(p, &list[i], register_type(type));
	return !p->has_failed;
}

static uint32_t registers_of(enum ptx_type type, uint32_t elements)
{
	uint32_t bytes = type == T_F64 ? 8 : 4;

	return (elements / LANES * type_table[type].bytes + bytes - 1) / bytes;
}

static bool is_input_type(enum ptx_type type)
{
	return type == T_F16 || type == T_BF16 || type == T_TF32 || type == T_S8 || type == T_U8 ||
		type == T_F64;
}

static bool is_output_type(enum ptx_type type)
{
	return type == T_F16 || type == T_F32 || type == T_S32 || type == T_F64;
}

/* The four types at the end: d, a, b, c; wmma of f16 names only d and c. */
static bool take_types(struct parser *p, struct extra *x)
{
	enum ptx_type t[4];

	for (int i = 3; i >= 0; i--) {
		if (!select_take_type(p, &t[i]))
			return false;
		if (i == 2 && (p->n_parts < 2 || !parse_type(p->parts[p->n_parts - 1], &t[1]))) {
			/* only d and c */
			t[0] = t[2];
			t[1] = t[2] = T_F16;
			break;
		}
	}
	x->type = (uint8_t)t[0];
	x->from_type = (uint8_t)t[1];
	x->flag_a = (uint8_t)t[2];
	x->flag_b = (uint8_t)t[3];
	return (is_output_type(t[0]) && is_input_type(t[1]) && is_input_type(t[2]) &&
		       is_output_type(t[3])) ||
		select_unsupported(p);
}

static bool is_mma_shape(const struct extra *x)
{
	uint32_t pack = x->from_type == T_F64 ? 1 : 4u / type_table[x->from_type].bytes;

	return x->shape_n == 8 && (x->shape_m == 16 || x->shape_m == 8) &&
		x->shape_k % (4 * pack) == 0 && x->shape_k / (4 * pack) <= 4 &&
		/* m8n8k4 of f16 is spread in another way */
		(x->shape_m == 16 || x->from_type == T_S8 || x->from_type == T_U8 ||
			x->from_type == T_F64);
}

/* The shapes of the ISA: each matrix has a multiple of 32 elements, which fit its registers. */
static bool is_wmma_shape(const struct extra *x)
{
	static const uint8_t shapes[][3] = {
		{16, 16, 16}, {32, 8, 16}, {8, 32, 16}, {16, 16, 8}, {8, 8, 4}};

	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
		if (x->shape_m == shapes[i][0] && x->shape_n == shapes[i][1] &&
			x->shape_k == shapes[i][2])
			return true;
	return false;
}

void select_mma(struct parser *p)
{
	struct extra *x = body_extra(p);
	bool is_wmma = str_is(p->parts[0], "wmma");
	enum ptx_type types[4];
	uint32_t elements[4], at = 0;

	if (!x || !select_take(p, "sync") || !select_take(p, "aligned")) {
		select_unsupported(p);
		return;
	}
	x->is_sat = select_take(p, "satfinite");
	select_take(p, "rn");
	if (is_wmma)
		select_take(p, "mma");
	if (!take_shape(p, x))
		return;
	while (select_take(p, "row") || select_take(p, "col"))
		;
	if (!take_types(p, x) || !select_is_done(p) || !select_has_operands(p, 4, 4))
		return;
	if (is_wmma ? !is_wmma_shape(x) : !is_mma_shape(x)) {
		select_unsupported(p);
		return;
	}
	types[0] = x->type;
	types[1] = x->from_type;
	types[2] = x->flag_a;
	types[3] = x->flag_b;
	elements[0] = elements[3] = (uint32_t)x->shape_m * x->shape_n;
	elements[1] = (uint32_t)x->shape_m * x->shape_k;
	elements[2] = (uint32_t)x->shape_k * x->shape_n;
	for (uint32_t i = 0; i < 4; i++) {
		uint32_t n = registers_of(types[i], elements[i]);

		/* Fragments of f16 inputs have twice the registers that they need. */
		if (is_wmma && (i == 1 || i == 2) && types[i] == T_F16)
			n = 8;
		x->sizes[i] = (uint8_t)n;
		if (!take_fragment(p, &p->operands[i], types[i], n, i == 0, x, &at))
			return;
	}
	select_emit_warp(p, is_wmma ? exec_wmma_mma : exec_mma, x);
}

void select_wmma(struct parser *p)
{
	static const char *const parts[] = {"load", "store", "mma"};
	struct extra *x;
	struct insn *in;
	enum ptx_type type;
	int64_t imm;
	int32_t a, b = OPERAND_NONE;
	uint32_t n, at = 0, k, rows, columns;
	bool is_store, is_col, is_a, is_b;

	for (uint32_t i = 0; i < 3; i++)
		if (p->n_parts > 1 && str_is(p->parts[1], parts[i]) && i == 2) {
			select_mma(p);
			return;
		}
	x = body_extra(p);
	is_store = select_take(p, "store");
	if (!x || (!is_store && !select_take(p, "load"))) {
		select_unsupported(p);
		return;
	}
	is_a = select_take(p, "a");
	is_b = select_take(p, "b");
	select_take(p, "c");
	select_take(p, "d");
	select_take(p, "sync");
	select_take(p, "aligned");
	is_col = select_take(p, "col");
	select_take(p, "row");
	if (!take_shape(p, x))
		return;
	select_take_space(p, x);
	if (!select_take_type(p, &type) || !select_is_done(p) || !select_has_operands(p, 2, 3))
		return;
	if ((!is_input_type(type) && !is_output_type(type)) || !is_wmma_shape(x)) {
		select_unsupported(p);
		return;
	}
	k = x->shape_k;
	rows = is_b ? k : x->shape_m;
	columns = is_a ? k : x->shape_n;
	x->shape_m = (uint8_t)rows;
	x->shape_n = (uint8_t)columns;
	x->type = (uint8_t)type;
	x->is_negated = is_col;
	n = (is_a || is_b) && type == T_F16 ? 8 : registers_of(type, rows * columns);
	if (!select_address(p, &p->operands[is_store ? 0 : 1], x, &a, &imm) ||
		!take_fragment(p, &p->operands[is_store ? 1 : 0], type, n, !is_store, x, &at))
		return;
	if (p->n_operands == 3)
		b = body_use(p, &p->operands[2], T_B32);
	in = select_emit_warp(p, is_store ? exec_wmma_store : exec_wmma_load, x);
	if (!in)
		return;
	in->flags |= INSN_FAULT;
	in->a = a;
	in->b = b;
	in->imm = imm;
}

/* ldmatrix and stmatrix of 8x8 matrices of 16 bits */
void select_ldmatrix(struct parser *p)
{
	bool is_store = str_is(p->parts[0], "stmatrix");
	struct extra *x = body_extra(p);
	struct insn *in;
	int64_t imm;
	int32_t a;
	uint32_t at = 0;

	if (!x || !select_take(p, "sync") || !select_take(p, "aligned") ||
		!select_take(p, "m8n8")) {
		select_unsupported(p);
		return;
	}
	x->n = select_take(p, "x4") ? 4 : select_take(p, "x2") ? 2 : 1;
	select_take(p, "x1");
	x->is_negated = select_take(p, "trans");
	select_take_space(p, x);
	if (!select_take(p, "b16") || !select_is_done(p) || !select_has_operands(p, 2, 2)) {
		select_unsupported(p);
		return;
	}
	if (!select_address(p, &p->operands[is_store ? 0 : 1], x, &a, &imm) ||
		!take_fragment(p, &p->operands[is_store ? 1 : 0], T_B32, x->n, !is_store, x, &at))
		return;
	in = select_emit_warp(p, is_store ? exec_stmatrix : exec_ldmatrix, x);
	if (!in)
		return;
	in->flags |= INSN_FAULT;
	in->a = a;
	in->imm = imm;
}

void select_movmatrix(struct parser *p)
{
	struct extra *x = body_extra(p);
	struct insn *in;
	int32_t a, d;

	if (!x || !select_take(p, "sync") || !select_take(p, "aligned") ||
		!select_take(p, "m8n8") || !select_take(p, "trans") || !select_take(p, "b16") ||
		!select_is_done(p)) {
		select_unsupported(p);
		return;
	}
	if (!select_has_operands(p, 2, 2))
		return;
	a = body_use(p, &p->operands[1], T_B32);
	d = body_define(p, &p->operands[0], T_B32);
	in = select_emit_warp(p, exec_movmatrix, x);
	if (!in)
		return;
	in->a = a;
	in->d = d;
}
