/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves, conversions, and addresses of spaces. Pure code, any thread.
 */
#include "ptx/ptx-select.h"

#include <errno.h>

#include "ptx/ptx-ops.h"

static int32_t extract_part(struct parser *p, const struct operand *o, uint32_t bytes)
{
	return body_use(p, o, select_raw_type(bytes));
}

static bool vector_elements(struct parser *p, const struct operand *o, enum ptx_type type,
	bool is_defined, struct extra *x)
{
	if (o->n == 0 || o->n > 8 || type_table[type].bytes % o->n != 0)
		return parse_fail(p, EINVAL, "vector of %u elements in '%" STR_FMT "'", o->n,
			STR_ARG(p->opcode));
	x->n = o->n;
	x->width = (uint8_t)(type_table[type].bytes / o->n);
	for (uint32_t i = 0; i < o->n; i++) {
		const struct operand *e = &p->elements[o->first + i];

		x->sizes[i] = x->width;
		if (e->kind == OP_SINK && is_defined)
			x->ops[i] = OPERAND_NONE;
		else if (x->width == 1 && e->kind == OP_REG && e->type != T_PRED) {
			/* bytes live in wider registers */
			x->ops[i] = e->reg;
			x->sizes[i] = type_table[e->type].bytes;
		} else
			x->ops[i] = is_defined ? body_define(p, e, select_raw_type(x->width))
					       : extract_part(p, e, x->width);
	}
	return !p->has_failed;
}

/* A special register goes into the result at once. */
static void select_mov_special(struct parser *p)
{
	enum ptx_type type;
	struct insn *in;
	int32_t d;

	if (!select_take_type(p, &type) || !select_is_done(p))
		return;
	d = select_define(p, 0, type);
	in = body_emit(p, CTL_LANES, exec_sreg);
	if (!in)
		return;
	in->d = d;
	in->n = type_table[type].bytes;
	in->imm = p->operands[1].sreg;
}

void select_mov(struct parser *p)
{
	struct extra *x;
	enum ptx_type type;
	struct insn *in;
	int32_t a, d;

	if (p->n_parts == 2 && str_is(p->parts[1], "pred")) {
		select_logic(p);
		return;
	}
	if (p->n_operands == 2 && p->operands[1].kind == OP_SREG) {
		select_mov_special(p);
		return;
	}
	if (p->n_operands != 2 ||
		(p->operands[0].kind != OP_VECTOR && p->operands[1].kind != OP_VECTOR)) {
		select_alu(p);
		return;
	}
	x = body_extra(p);
	if (!x || !select_take_type(p, &type) || !select_is_done(p))
		return;
	if (p->operands[1].kind == OP_VECTOR) {
		if (!vector_elements(p, &p->operands[1], type, false, x))
			return;
		d = select_define(p, 0, type);
		in = body_emit(p, CTL_LANES, exec_pack);
		if (in)
			in->d = d;
	} else {
		a = select_use(p, 1, type);
		if (!vector_elements(p, &p->operands[0], type, true, x))
			return;
		in = body_emit(p, CTL_LANES, exec_unpack);
		if (in)
			in->a = a;
	}
	if (in)
		in->x = x;
}

/* A conversion that the table of arithmetic has, in registers of just the right size. */
static bool select_convert_fast(struct parser *p)
{
	struct str parts[MODIFIERS_MAX];
	uint32_t n_parts = p->n_parts;
	const struct alu_row *row;
	struct insn *in;
	bool has_fast;

	memcpy(parts, p->parts, sizeof(parts));
	select_take(p, "rn");
	row = select_find_row(p);
	has_fast = row && p->n_operands == 2 && p->operands[0].kind == OP_REG &&
		p->operands[1].kind == OP_REG &&
		type_table[p->operands[0].type].bytes == type_table[row->d].bytes &&
		type_table[p->operands[1].type].bytes == type_table[row->a].bytes;
	memcpy(p->parts, parts, sizeof(parts));
	p->n_parts = n_parts;
	if (!has_fast)
		return false;
	{
		int32_t a = select_use(p, 1, row->a), d = select_define(p, 0, row->d);

		in = body_emit(p, CTL_LANES, row->fn);
		if (in) {
			in->a = a;
			in->d = d;
		}
	}
	return true;
}

static int32_t convert_source(struct parser *p, uint32_t i, enum ptx_type type, uint8_t *ret_bytes)
{
	const struct operand *o = &p->operands[i];
	uint32_t bytes;
	int32_t at;

	if (o->kind != OP_REG) {
		at = body_use(p, o, type);
		*ret_bytes = type_table[type].bytes;
		return at;
	}
	at = body_use_any(p, o, &bytes);
	if (bytes < type_table[type].bytes)
		parse_fail(p, EINVAL, "'%" STR_FMT "' is too small for .%s", STR_ARG(o->name),
			type_table[type].name);
	*ret_bytes = (uint8_t)bytes;
	return at;
}

/* A number that convert_lane() reads and writes. */
static bool is_scalar(enum ptx_type type)
{
	return type == T_F16 || type == T_BF16 || type == T_F32 || type == T_F64 ||
		(!select_is_float(type) && type_table[type].bytes <= 8 && type != T_U16X2 &&
			type != T_S16X2);
}

/* Whether ptx-convert.c has a function for the types. */
static bool is_conversion(enum ptx_type type, enum ptx_type from, bool has_two_sources)
{
	bool is_pair8 = type == T_E4M3X2 || type == T_E5M2X2;

	if (has_two_sources)
		return from == T_F32 && (is_pair8 || type == T_F16X2 || type == T_BF16X2);
	if (from == T_E4M3X2 || from == T_E5M2X2)
		return type == T_F16X2;
	if (from == T_F16X2)
		return is_pair8;
	return type == T_TF32 ? from == T_F32 : is_scalar(type) && is_scalar(from);
}

void select_cvt(struct parser *p)
{
	static const char *const int_roundings[] = {[ROUND_NEAREST] = "rni",
		[ROUND_ZERO] = "rzi",
		[ROUND_DOWN] = "rmi",
		[ROUND_UP] = "rpi"};
	enum ptx_type type, from;
	struct extra *x;
	uint32_t bytes;
	uint8_t second = 0;
	int32_t a, b = OPERAND_NONE, d;
	int to_int;

	if (str_is(p->parts[1], "pack")) {
		select_unsupported(p);
		return;
	}
	if (select_convert_fast(p))
		return;
	x = body_extra(p);
	if (!x)
		return;
	to_int = SELECT_TAKE_WORD(p, int_roundings);
	x->rounding = (uint8_t)select_take_rounding(p);
	x->is_ftz = select_take(p, "ftz");
	x->is_sat = select_take(p, "sat");
	x->is_relu = select_take(p, "relu");
	x->is_finite = select_take(p, "satfinite");
	if (!select_take_type(p, &from) || !select_take_type(p, &type) || !select_is_done(p) ||
		!select_has_operands(p, 2, 3))
		return;
	if (!is_conversion(type, from, p->n_operands == 3)) {
		select_unsupported(p);
		return;
	}
	x->type = (uint8_t)type;
	x->from_type = (uint8_t)from;
	x->op = (uint8_t)(to_int < 0 ? ROUND_ZERO : to_int);
	x->flag_a = to_int >= 0 && select_is_float(type);
	a = convert_source(p, 1, from, &x->flag_b);
	if (p->n_operands == 3)
		b = convert_source(p, 2, from, &second);
	if (p->operands[0].kind == OP_SINK) {
		d = select_define(p, 0, type);
		bytes = type_table[type].bytes;
	} else {
		d = body_use_any(p, &p->operands[0], &bytes);
	}
	if (bytes < type_table[type].bytes || (b != OPERAND_NONE && second != x->flag_b)) {
		parse_fail(p, EINVAL, "'%" STR_FMT "' with registers of the wrong size",
			STR_ARG(p->opcode));
		return;
	}
	x->reg_bytes = (uint8_t)bytes;
	select_emit(p, exec_convert, d, a, b, OPERAND_NONE, x);
}

static const struct {
	const char *name;
	uint64_t base;
} windows[] = {
	{"global", 0},
	{"const", 0},
	{"shared", SPACE_SHARED},
	{"shared::cta", SPACE_SHARED},
	{"shared::cluster", SPACE_SHARED},
	{"local", SPACE_LOCAL},
	{"param", SPACE_PARAM},
	{"param::entry", SPACE_PARAM},
};

static bool take_window(struct parser *p, uint64_t *ret_base)
{
	for (size_t i = 0; i < sizeof(windows) / sizeof(windows[0]); i++) {
		if (!select_take(p, windows[i].name))
			continue;
		*ret_base = windows[i].base;
		/* parameters of functions are in local memory */
		if (windows[i].base == SPACE_PARAM && !p->func->is_entry)
			*ret_base = SPACE_LOCAL;
		return true;
	}
	return select_unsupported(p);
}

void select_cvta(struct parser *p)
{
	bool is_to = select_take(p, "to");
	enum ptx_type type;
	uint64_t base = 0;
	struct insn *in;
	int32_t a, d;

	if (!take_window(p, &base) || !select_take_sized_type(p, 4 | 8, &type) ||
		!select_is_done(p) || !select_has_operands(p, 2, 2))
		return;
	a = select_use(p, 1, type);
	d = select_define(p, 0, type);
	in = select_emit(p, exec_cvta, d, a, OPERAND_NONE, OPERAND_NONE, NULL);
	if (!in)
		return;
	in->n = type_table[type].bytes;
	in->imm = is_to ? -(int64_t)base : (int64_t)base;
}

/* Every cluster has one block, so the address in a block of the cluster is the address itself. */
void select_mapa(struct parser *p)
{
	struct extra x = {0};
	enum ptx_type type;
	struct insn *in;
	int32_t a, d;

	select_take_space(p, &x);
	if (!select_take_sized_type(p, 4 | 8, &type) || !select_is_done(p) ||
		!select_has_operands(p, 3, 3))
		return;
	a = select_use(p, 1, type);
	d = select_define(p, 0, type);
	in = select_emit(p, exec_cvta, d, a, OPERAND_NONE, OPERAND_NONE, NULL);
	if (!in)
		return;
	in->n = type_table[type].bytes;
}

/* A result that is 0: the rank of the only block, or a policy of caches that are not there. */
void select_zero(struct parser *p)
{
	const bool is_policy = str_is(p->parts[0], "createpolicy");
	const enum ptx_type type = is_policy ? T_B64 : T_B32;
	struct insn *in;
	int32_t d;

	if (!select_has_operands(p, 2, 5))
		return;
	d = select_define(p, 0, type);
	in = body_emit(p, CTL_LANES, exec_sreg);
	if (!in)
		return;
	in->d = d;
	in->n = type_table[type].bytes;
	in->imm = SREG_ZERO;
}

void select_isspacep(struct parser *p)
{
	uint64_t base = 0;
	struct insn *in;
	int32_t a, d;

	if (!take_window(p, &base) || !select_is_done(p) || !select_has_operands(p, 2, 2))
		return;
	a = select_use(p, 1, T_B64);
	d = select_define(p, 0, T_PRED);
	in = select_emit(p, exec_isspacep, d, a, OPERAND_NONE, OPERAND_NONE, NULL);
	if (!in)
		return;
	in->imm = (int64_t)base;
}
