/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the function of each instruction by its opcode and modifiers. An instruction or modifier
 * that is missing here fails the load by name: nothing is guessed or left out. Pure code, any
 * thread.
 */
#include "ptx/ptx-select.h"

#include <errno.h>
#include <stdio.h>

#include "ptx/ptx-ops.h"

/* ---- modifiers ---- */

bool select_unsupported(struct parser *p)
{
	return parse_fail(p, ENOTSUP,
		"instruction '%" STR_FMT "' is not supported by the simulated device",
		STR_ARG(p->opcode));
}

void select_drop(struct parser *p, uint32_t i)
{
	memmove(&p->parts[i], &p->parts[i + 1], (p->n_parts - i - 1) * sizeof(p->parts[0]));
	p->n_parts--;
}

/* Takes a modifier out of the opcode if it is there. */
bool select_take(struct parser *p, const char *name)
{
	for (uint32_t i = 1; i < p->n_parts; i++) {
		if (str_is(p->parts[i], name)) {
			select_drop(p, i);
			return true;
		}
	}
	return false;
}

static bool take_prefixed(struct parser *p, const char *prefix)
{
	for (uint32_t i = 1; i < p->n_parts; i++) {
		if (str_has_prefix(p->parts[i], str_from(prefix))) {
			select_drop(p, i);
			return true;
		}
	}
	return false;
}

/*
 * Takes the last modifier, which is a type. Not .pred: instructions with predicates have functions
 * of their own, and all others write an element for each lane.
 */
bool select_take_type(struct parser *p, enum ptx_type *ret)
{
	if (p->n_parts < 2 || !parse_type(p->parts[p->n_parts - 1], ret) || *ret == T_PRED)
		return select_unsupported(p);
	p->n_parts--;
	return true;
}

/* As select_take_type(), but only types whose size in bytes is a bit of `sizes`. */
static bool take_sized_type(struct parser *p, uint32_t sizes, enum ptx_type *ret)
{
	return select_take_type(p, ret) &&
		((type_table[*ret].bytes & sizes) != 0 || select_unsupported(p));
}

/* Every modifier was understood. */
bool select_is_done(struct parser *p)
{
	return p->n_parts == 1 || select_unsupported(p);
}

bool select_has_operands(struct parser *p, uint32_t least, uint32_t most)
{
	if (p->n_operands >= least && p->n_operands <= most)
		return true;
	return parse_fail(
		p, EINVAL, "'%" STR_FMT "' has %u operands", STR_ARG(p->opcode), p->n_operands);
}

static int take_word(struct parser *p, const char *const *words, int n)
{
	for (int i = 0; i < n; i++)
		if (words[i] && select_take(p, words[i]))
			return i;
	return -1;
}

#define TAKE_WORD(p, words) take_word(p, words, (int)(sizeof(words) / sizeof((words)[0])))

static int32_t use(struct parser *p, uint32_t i, enum ptx_type type)
{
	return body_use(p, &p->operands[i], type);
}

static int32_t define(struct parser *p, uint32_t i, enum ptx_type type)
{
	return body_define(p, &p->operands[i], type);
}

/* The type of a raw register of that many bytes. */
static enum ptx_type raw_type(uint32_t bytes)
{
	return bytes == 16   ? T_B128
		: bytes == 8 ? T_B64
		: bytes == 4 ? T_B32
		: bytes == 2 ? T_B16
			     : T_B8;
}

/* ---- arithmetic by the table ---- */

static const char *const roundings[] = {[ROUND_NEAREST] = "rn",
	[ROUND_ZERO] = "rz",
	[ROUND_DOWN] = "rm",
	[ROUND_UP] = "rp",
	[ROUND_AWAY] = "rna"};

static enum rounding take_rounding(struct parser *p)
{
	int r = TAKE_WORD(p, roundings);

	return r < 0 ? ROUND_NEAREST : (enum rounding)r;
}

static const struct alu_row *find_row(struct parser *p)
{
	char name[64] = "";
	size_t n = 0;

	for (uint32_t i = 0; i < p->n_parts; i++) {
		int k = snprintf(name + n, sizeof(name) - n, "%s%" STR_FMT, i ? "." : "",
			STR_ARG(p->parts[i]));

		if (k < 0 || (size_t)k >= sizeof(name) - n)
			return NULL;
		n += (size_t)k;
	}
	return alu_find((struct str){name, n});
}

static bool is_float_opcode(const struct parser *p)
{
	enum ptx_type type;

	return p->n_parts > 1 && parse_type(p->parts[p->n_parts - 1], &type) &&
		type_table[type].kind == 'f';
}

static void select_alu(struct parser *p)
{
	struct extra wrap = {.rounding = ROUND_NEAREST};
	const struct alu_row *row = NULL;
	struct insn *in;
	uint32_t n = 2;
	enum ptx_type type = T_NONE, result;
	int32_t d, a, b, c;

	if (is_float_opcode(p)) {
		parse_type(p->parts[p->n_parts - 1], &type);
		if (p->n_parts > 2 && parse_type(p->parts[p->n_parts - 2], &result))
			type = result; /* mixed precision: the first type is the result's */
		wrap.type = (uint8_t)type;
		wrap.rounding = (uint8_t)take_rounding(p);
		wrap.is_sat = select_take(p, "sat");
		select_take(p, "approx");
		select_take(p, "full");
		select_take(p, "rnd");
		/* half precision with .ftz has rows of its own */
		if (type == T_F16 || type == T_F16X2)
			row = find_row(p);
		if (!row)
			wrap.is_ftz = select_take(p, "ftz");
	} else {
		select_take(p, "uni");
	}
	if (!row)
		row = find_row(p);
	if (!row || wrap.rounding == ROUND_AWAY) {
		select_unsupported(p);
		return;
	}
	n += (uint32_t)(row->b != T_NONE) + (uint32_t)(row->c != T_NONE);
	if (!select_has_operands(p, n, n))
		return;
	a = use(p, 1, row->a);
	b = row->b ? use(p, 2, row->b) : OPERAND_NONE;
	c = row->c ? use(p, 3, row->c) : OPERAND_NONE;
	d = define(p, 0, row->d);
	in = body_emit(p, CTL_LANES, row->fn);
	if (!in)
		return;
	in->d = d;
	in->a = a;
	in->b = b;
	in->c = c;
	if (wrap.rounding != ROUND_NEAREST || wrap.is_sat || wrap.is_ftz) {
		struct extra *x = body_extra(p);

		if (!x)
			return;
		wrap.d2 = wrap.mask = OPERAND_NONE;
		*x = wrap;
		x->inner = in->fn;
		in->fn = exec_wrapped;
		in->x = x;
	}
}

static void select_carry(struct parser *p)
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
	if (!take_sized_type(p, 4 | 8, &type) || !select_is_done(p) ||
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
		int32_t a = use(p, 1, type), b = use(p, 2, type);
		int32_t c = op >= CARRY_MAD_LO ? use(p, 3, type) : OPERAND_NONE;
		int32_t d = define(p, 0, type);

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

/* add, sub, mad: those with .cc are no table rows */
static void select_add(struct parser *p)
{
	for (uint32_t i = 1; i < p->n_parts; i++) {
		if (str_is(p->parts[i], "cc")) {
			select_carry(p);
			return;
		}
	}
	select_alu(p);
}

/* ---- comparisons and selections ---- */

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
		if (!take_sized_type(p, 2 | 4, &type))
			return false;
		x->type = (uint8_t)type;
	}
	if (p->n_parts < 2)
		return select_unsupported(p);
	*ret_fn = compare_find(p->parts[1], x->from_type);
	select_drop(p, 1);
	op = TAKE_WORD(p, bool_names);
	x->op = (uint8_t)(op < 0 ? BOOL_NONE : op);
	return *ret_fn ? select_is_done(p) : select_unsupported(p);
}

static void select_compare(struct parser *p)
{
	bool is_set = str_is(p->parts[0], "set");
	struct extra *x = body_extra(p);
	compare_fn *fn = NULL;
	struct insn *in;
	int32_t a, b, c = OPERAND_NONE, d;

	if (!x || !select_compare_parts(p, x, &fn) ||
		!select_has_operands(p, x->op ? 4 : 3, x->op ? 4 : 3))
		return;
	a = use(p, 1, x->from_type);
	b = use(p, 2, x->from_type);
	if (x->op)
		c = use(p, 3, T_PRED);
	d = define(p, 0, is_set ? x->type : T_PRED);
	if (p->operands[0].has_pair)
		x->d2 = p->operands[0].pair;
	in = body_emit(p, CTL_LANES, is_set ? exec_set : exec_setp);
	if (!in)
		return;
	in->a = a;
	in->b = b;
	in->c = c;
	in->d = d;
	in->x = x;
	memcpy(&in->imm, &fn, sizeof(fn));
	if (x->is_ftz && x->from_type == T_F32) {
		x->inner = in->fn;
		in->fn = exec_wrapped;
		if (!is_set)
			x->type = T_NONE;
	}
}

static void select_selection(struct parser *p)
{
	bool is_slct = str_is(p->parts[0], "slct");
	struct extra *x = body_extra(p);
	enum ptx_type type, by = T_PRED;
	struct insn *in;
	int32_t a, b, c, d;

	if (x)
		x->is_ftz = select_take(p, "ftz");
	if (!x || (is_slct && !select_take_type(p, &by)) ||
		!take_sized_type(p, 2 | 4 | 8 | 16, &type) || !select_is_done(p) ||
		!select_has_operands(p, 4, 4))
		return;
	if (is_slct && by != T_S32 && by != T_F32) {
		select_unsupported(p);
		return;
	}
	x->width = type_table[type].bytes;
	x->from_type = (uint8_t)by;
	a = use(p, 1, type);
	b = use(p, 2, type);
	c = use(p, 3, by);
	d = define(p, 0, type);
	in = body_emit(p, CTL_LANES, is_slct ? exec_slct : exec_selp);
	if (!in)
		return;
	in->a = a;
	in->b = b;
	in->c = c;
	in->d = d;
	in->x = x;
}

/* and, or, xor, not of predicates; other types are in the table */
static void select_logic(struct parser *p)
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
	a = use(p, 1, T_PRED);
	if (op >= PRED_AND)
		b = use(p, 2, T_PRED);
	d = define(p, 0, T_PRED);
	in = body_emit(p, CTL_LANES, exec_pred_op);
	if (!in)
		return;
	in->a = a;
	in->b = b;
	in->d = d;
	in->n = (uint16_t)op;
}

static void select_lop3(struct parser *p)
{
	int op = TAKE_WORD(p, bool_names);
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
		x->ops[0] = use(p, 5, T_PRED);
	else
		x->ops[0] = body_constant(p, 0, 0, 0);
	a = use(p, 1, T_B32);
	b = use(p, 2, T_B32);
	c = use(p, 3, T_B32);
	d = define(p, 0, T_B32);
	if (p->operands[0].has_pair)
		x->d2 = p->operands[0].pair;
	in = body_emit(p, CTL_LANES, exec_lop3);
	if (!in)
		return;
	in->a = a;
	in->b = b;
	in->c = c;
	in->d = d;
	in->imm = (int64_t)p->operands[4].value.bits;
	in->x = x;
}

static void select_prmt(struct parser *p)
{
	static const char *const modes[] = {[PRMT_F4E] = "f4e",
		[PRMT_B4E] = "b4e",
		[PRMT_RC8] = "rc8",
		[PRMT_ECL] = "ecl",
		[PRMT_ECR] = "ecr",
		[PRMT_RC16] = "rc16"};
	int mode = TAKE_WORD(p, modes);
	struct insn *in;
	int32_t a, b, c, d;

	if (!select_take(p, "b32") || !select_is_done(p)) {
		select_unsupported(p);
		return;
	}
	if (!select_has_operands(p, 4, 4))
		return;
	a = use(p, 1, T_B32);
	b = use(p, 2, T_B32);
	c = use(p, 3, T_B32);
	d = define(p, 0, T_B32);
	in = body_emit(p, CTL_LANES, exec_prmt);
	if (!in)
		return;
	in->a = a;
	in->b = b;
	in->c = c;
	in->d = d;
	in->n = (uint16_t)(mode < 0 ? PRMT_DEFAULT : mode);
}

static int32_t extract_part(struct parser *p, const struct operand *o, uint32_t bytes)
{
	return body_use(p, o, raw_type(bytes));
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

static void select_bfi(struct parser *p)
{
	struct extra *x = body_extra(p);
	enum ptx_type type;
	struct insn *in;
	int32_t a, b, c, d;

	if (!x || !take_sized_type(p, 4 | 8, &type) || !select_is_done(p) ||
		!select_has_operands(p, 5, 5))
		return;
	x->width = type_table[type].bytes;
	a = use(p, 1, type);
	b = use(p, 2, type);
	c = use(p, 3, T_B32);
	x->ops[0] = use(p, 4, T_B32);
	d = define(p, 0, type);
	in = body_emit(p, CTL_LANES, exec_bfi);
	if (!in)
		return;
	in->a = a;
	in->b = b;
	in->c = c;
	in->d = d;
	in->x = x;
}

static void select_testp(struct parser *p)
{
	static const char *const names[] = {[TESTP_FINITE] = "finite",
		[TESTP_INFINITE] = "infinite",
		[TESTP_NUMBER] = "number",
		[TESTP_NAN] = "notanumber",
		[TESTP_NORMAL] = "normal",
		[TESTP_SUBNORMAL] = "subnormal"};
	struct extra *x = body_extra(p);
	int op = TAKE_WORD(p, names);
	enum ptx_type type;
	struct insn *in;
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
	a = use(p, 1, type);
	d = define(p, 0, T_PRED);
	in = body_emit(p, CTL_LANES, exec_testp);
	if (!in)
		return;
	in->a = a;
	in->d = d;
	in->x = x;
}

/* ---- moves ---- */

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
			x->ops[i] = is_defined ? body_define(p, e, raw_type(x->width))
					       : extract_part(p, e, x->width);
	}
	return !p->has_failed;
}

static void select_mov(struct parser *p)
{
	struct extra *x;
	enum ptx_type type;
	struct insn *in;
	int32_t a, d;

	if (p->n_parts == 2 && str_is(p->parts[1], "pred")) {
		select_logic(p);
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
		d = define(p, 0, type);
		in = body_emit(p, CTL_LANES, exec_pack);
		if (in)
			in->d = d;
	} else {
		a = use(p, 1, type);
		if (!vector_elements(p, &p->operands[0], type, true, x))
			return;
		in = body_emit(p, CTL_LANES, exec_unpack);
		if (in)
			in->a = a;
	}
	if (in)
		in->x = x;
}

static bool is_float_type(enum ptx_type type)
{
	return type_table[type].kind == 'f';
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
	row = find_row(p);
	has_fast = row && p->n_operands == 2 && p->operands[0].kind == OP_REG &&
		p->operands[1].kind == OP_REG &&
		type_table[p->operands[0].type].bytes == type_table[row->d].bytes &&
		type_table[p->operands[1].type].bytes == type_table[row->a].bytes;
	memcpy(p->parts, parts, sizeof(parts));
	p->n_parts = n_parts;
	if (!has_fast)
		return false;
	{
		int32_t a = use(p, 1, row->a), d = define(p, 0, row->d);

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
		(!is_float_type(type) && type_table[type].bytes <= 8 && type != T_U16X2 &&
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

static void select_cvt(struct parser *p)
{
	static const char *const int_roundings[] = {[ROUND_NEAREST] = "rni",
		[ROUND_ZERO] = "rzi",
		[ROUND_DOWN] = "rmi",
		[ROUND_UP] = "rpi"};
	enum ptx_type type, from;
	struct extra *x;
	struct insn *in;
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
	to_int = TAKE_WORD(p, int_roundings);
	x->rounding = (uint8_t)take_rounding(p);
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
	x->flag_a = to_int >= 0 && is_float_type(type);
	a = convert_source(p, 1, from, &x->flag_b);
	if (p->n_operands == 3)
		b = convert_source(p, 2, from, &second);
	if (p->operands[0].kind == OP_SINK) {
		d = define(p, 0, type);
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
	in = body_emit(p, CTL_LANES, exec_convert);
	if (!in)
		return;
	in->a = a;
	in->b = b;
	in->d = d;
	in->x = x;
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

static void select_cvta(struct parser *p)
{
	bool is_to = select_take(p, "to");
	enum ptx_type type;
	uint64_t base;
	struct insn *in;
	int32_t a, d;

	if (!take_window(p, &base) || !take_sized_type(p, 4 | 8, &type) || !select_is_done(p) ||
		!select_has_operands(p, 2, 2))
		return;
	a = use(p, 1, type);
	d = define(p, 0, type);
	in = body_emit(p, CTL_LANES, exec_cvta);
	if (!in)
		return;
	in->a = a;
	in->d = d;
	in->n = type_table[type].bytes;
	in->imm = is_to ? -(int64_t)base : (int64_t)base;
}

static void select_isspacep(struct parser *p)
{
	uint64_t base;
	struct insn *in;
	int32_t a, d;

	if (!take_window(p, &base) || !select_is_done(p) || !select_has_operands(p, 2, 2))
		return;
	a = use(p, 1, T_B64);
	d = define(p, 0, T_PRED);
	in = body_emit(p, CTL_LANES, exec_isspacep);
	if (!in)
		return;
	in->a = a;
	in->d = d;
	in->imm = (int64_t)base;
}

/* ---- memory ---- */

static const char *const space_names[] = {"global", "shared", "shared::cta", "shared::cluster",
	"local", "param", "param::entry", "param::func", "const"};
static const enum space space_values[] = {SP_GLOBAL, SP_SHARED, SP_SHARED, SP_SHARED, SP_LOCAL,
	SP_PARAM, SP_PARAM, SP_PARAM, SP_GLOBAL};

/* Words that change nothing here: caches, order (the executor is in order), scopes. */
static void take_memory_words(struct parser *p)
{
	static const char *const words[] = {"weak", "relaxed", "acquire", "release", "acq_rel",
		"volatile", "mmio", "sc", "cta", "cluster", "gpu", "sys", "ca", "cg", "cs", "lu",
		"cv", "nc", "wb", "wt", "unified", "noftz"};

	while (TAKE_WORD(p, words) >= 0)
		;
	while (take_prefixed(p, "L1::") || take_prefixed(p, "L2::") || take_prefixed(p, "level::"))
		;
}

void select_take_space(struct parser *p, struct extra *x)
{
	int i = TAKE_WORD(p, space_names);

	x->space = (uint8_t)(i < 0 ? SP_GENERIC : space_values[i]);
	if (x->space == SP_PARAM && !p->func->is_entry)
		x->space = SP_LOCAL;
}

/* Where an instruction accesses memory. */
bool select_address(struct parser *p, const struct operand *o, struct extra *x, int32_t *ret_a,
	int64_t *ret_imm)
{
	uint32_t bytes;

	*ret_a = OPERAND_NONE;
	*ret_imm = o->offset;
	if (o->kind != OP_ADDRESS)
		return parse_fail(p, EINVAL, "'%" STR_FMT "' needs an address", STR_ARG(p->opcode));
	switch (o->base) {
	case OP_REG: {
		struct operand reg = *o;

		reg.kind = OP_REG;
		*ret_a = body_use_any(p, &reg, &bytes);
		x->flag_a = (uint8_t)bytes;
		return bytes == 4 || bytes == 8 ||
			parse_fail(p, EINVAL, "address '%" STR_FMT "' has %u bytes",
				STR_ARG(o->name), bytes);
	}
	case OP_SYMBOL:
		if (o->symbol->kind != SYM_VARIABLE)
			return parse_fail(
				p, EINVAL, "'%" STR_FMT "' is no variable", STR_ARG(o->name));
		x->space = (uint8_t)o->symbol->space;
		*ret_imm += (int64_t)o->symbol->address;
		return true;
	default: return true;
	}
}

static uint32_t take_vector_word(struct parser *p)
{
	return select_take(p, "v2") ? 2 : select_take(p, "v4") ? 4 : select_take(p, "v8") ? 8 : 1;
}

static bool memory_values(struct parser *p, const struct operand *o, bool is_load, struct extra *x)
{
	const struct operand *list = o->kind == OP_VECTOR ? &p->elements[o->first] : o;
	uint32_t n = o->kind == OP_VECTOR ? o->n : 1;

	if (n != x->n)
		return parse_fail(
			p, EINVAL, "'%" STR_FMT "' with %u values", STR_ARG(p->opcode), n);
	x->reg_bytes = 0;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t bytes = type_table[x->type].bytes;

		if (list[i].kind == OP_SINK && is_load) {
			x->ops[i] = OPERAND_NONE;
			continue;
		}
		if (list[i].kind == OP_REG)
			x->ops[i] = body_use_any(p, &list[i], &bytes);
		else if (!is_load)
			x->ops[i] = body_use(p, &list[i], x->type);
		else
			return parse_fail(
				p, EINVAL, "'%" STR_FMT "' is no register", STR_ARG(list[i].name));
		if (bytes < x->width || (x->reg_bytes && bytes != x->reg_bytes))
			return parse_fail(p, EINVAL, "'%" STR_FMT "' with registers of %u bytes",
				STR_ARG(p->opcode), bytes);
		x->reg_bytes = (uint8_t)bytes;
	}
	if (x->reg_bytes == 0)
		x->reg_bytes = x->width;
	return !p->has_failed;
}

static void select_access(struct parser *p)
{
	bool is_load = p->parts[0].p[0] == 'l';
	struct extra *x = body_extra(p);
	enum ptx_type type;
	struct insn *in;
	int64_t imm;
	int32_t a;

	if (!x)
		return;
	take_memory_words(p);
	select_take_space(p, x);
	x->n = take_vector_word(p);
	/* the operand behind the value is a hint for caches */
	if (!select_take_type(p, &type) || !select_is_done(p) || !select_has_operands(p, 2, 3))
		return;
	x->type = (uint8_t)type;
	x->width = type_table[type].bytes;
	if (!select_address(p, &p->operands[is_load ? 1 : 0], x, &a, &imm) ||
		!memory_values(p, &p->operands[is_load ? 0 : 1], is_load, x))
		return;
	in = body_emit(p, CTL_LANES, is_load ? exec_load : exec_store);
	if (!in)
		return;
	in->flags |= INSN_FAULT;
	in->a = a;
	in->imm = imm;
	in->x = x;
}

static void select_atomic(struct parser *p)
{
	static const char *const ops[] = {[ATOMIC_ADD] = "add",
		[ATOMIC_MIN] = "min",
		[ATOMIC_MAX] = "max",
		[ATOMIC_AND] = "and",
		[ATOMIC_OR] = "or",
		[ATOMIC_XOR] = "xor",
		[ATOMIC_EXCH] = "exch",
		[ATOMIC_CAS] = "cas",
		[ATOMIC_INC] = "inc",
		[ATOMIC_DEC] = "dec"};
	bool is_red = str_is(p->parts[0], "red");
	uint32_t at = is_red ? 0 : 1;
	struct extra *x = body_extra(p);
	enum ptx_type type;
	struct insn *in;
	int64_t imm;
	int32_t a, c = OPERAND_NONE;
	int op;

	if (!x || select_take(p, "async")) {
		select_unsupported(p);
		return;
	}
	take_memory_words(p);
	select_take_space(p, x);
	op = TAKE_WORD(p, ops);
	x->n = take_vector_word(p);
	if (op < 0 || !select_take_type(p, &type) || !select_is_done(p) || type == T_B128 ||
		type_table[type].bytes < 2) {
		select_unsupported(p);
		return;
	}
	if (!select_has_operands(p, at + 2, at + 4))
		return;
	x->op = (uint8_t)op;
	x->type = (uint8_t)type;
	x->width = type_table[type].bytes;
	if (!select_address(p, &p->operands[at], x, &a, &imm))
		return;
	for (uint32_t k = 0; k < x->n; k++) {
		const struct operand *d = &p->operands[0], *b = &p->operands[at + 1];

		if (x->n > 1 &&
			(b->kind != OP_VECTOR || b->n != x->n ||
				(!is_red && (d->kind != OP_VECTOR || d->n != x->n)))) {
			parse_fail(p, EINVAL, "'%" STR_FMT "' needs vectors", STR_ARG(p->opcode));
			return;
		}
		if (x->n > 1) {
			b = &p->elements[b->first + k];
			d = is_red ? d : &p->elements[d->first + k];
		}
		x->ops[x->n + k] = body_use(p, b, type);
		x->ops[k] = is_red || d->kind == OP_SINK ? OPERAND_NONE : body_define(p, d, type);
	}
	if (op == ATOMIC_CAS) {
		if (!select_has_operands(p, at + 3, at + 4))
			return;
		c = use(p, at + 2, type);
	}
	in = body_emit(p, CTL_LANES, exec_atomic);
	if (!in)
		return;
	in->flags |= INSN_FAULT;
	in->a = a;
	in->c = c;
	in->imm = imm;
	in->x = x;
}

/* cp.async: the copy is complete at once, so its groups need no waiting */
static void select_copy(struct parser *p)
{
	struct extra *x = body_extra(p), source = {0};
	struct insn *in;
	int64_t imm, from_imm;
	int32_t a, from, c = OPERAND_NONE;

	if (!x || !select_take(p, "async") || select_take(p, "bulk")) {
		select_unsupported(p);
		return;
	}
	if (select_take(p, "mbarrier")) { /* the copies are complete, so this is an arrival */
		if (select_take(p, "noinc"))
			select_mbarrier(p);
		else
			body_emit(p, CTL_LANES, exec_nop);
		return;
	}
	if (select_take(p, "commit_group") || select_take(p, "wait_group") ||
		select_take(p, "wait_all")) {
		if (select_is_done(p))
			body_emit(p, CTL_LANES, exec_nop);
		return;
	}
	take_memory_words(p);
	select_take(p, "global");
	select_take_space(p, x);
	if (x->space != SP_SHARED || !select_is_done(p)) {
		select_unsupported(p);
		return;
	}
	if (!select_has_operands(p, 3, 5))
		return;
	if (p->operands[2].kind != OP_IMM || p->operands[2].value.bits > 16) {
		parse_fail(p, EINVAL, "cp.async without size");
		return;
	}
	x->width = (uint8_t)p->operands[2].value.bits;
	if (!select_address(p, &p->operands[0], x, &a, &imm) ||
		!select_address(p, &p->operands[1], &source, &from, &from_imm))
		return;
	if (from == OPERAND_NONE) {
		from = body_constant(p, (uint64_t)from_imm, 0, 8);
		from_imm = 0;
	} else if (source.flag_a != 8 || from_imm != (int32_t)from_imm) {
		select_unsupported(p);
		return;
	}
	x->ops[0] = from;
	x->d2 = (int32_t)from_imm;
	if (p->n_operands > 3 && p->operands[3].kind == OP_REG &&
		type_table[p->operands[3].type].bytes == 4)
		c = use(p, 3, T_B32);
	else if (p->n_operands > 3 && p->operands[3].kind == OP_IMM)
		c = use(p, 3, T_B32);
	in = body_emit(p, CTL_LANES, exec_copy_async);
	if (!in)
		return;
	in->flags |= INSN_FAULT;
	in->a = a;
	in->c = c;
	in->imm = imm;
	in->x = x;
}

/* Hints and orders that need nothing here: memory is always in order and nothing is cached. */
static void select_nothing(struct parser *p)
{
	body_emit(p, CTL_LANES, exec_nop);
}

static void exec_fence(struct warp *w, const struct insn *in, uint32_t mask)
{
	atomic_thread_fence(memory_order_seq_cst);
}

static void select_fence(struct parser *p)
{
	body_emit(p, CTL_LANES, exec_fence);
}

static void select_sleep(struct parser *p)
{
	body_emit(p, CTL_YIELD, exec_nop);
}

enum { STACK_ALIGN = 16, STACK_ALIGN_MAX = 4096 };

static bool is_stack_alignment(uint64_t v)
{
	return v != 0 && (v & (v - 1)) == 0 && v <= STACK_ALIGN_MAX;
}

static void select_stack(struct parser *p)
{
	static const struct {
		const char *name;
		enum stack_op op;
	} names[] = {{"alloca", STACK_ALLOCA}, {"stacksave", STACK_SAVE},
		{"stackrestore", STACK_RESTORE}};
	struct extra *x = body_extra(p);
	enum ptx_type type;
	struct insn *in;
	int32_t a = OPERAND_NONE, d = OPERAND_NONE;
	uint16_t op = 0;

	if (!x || !take_sized_type(p, 4 | 8, &type) || !select_is_done(p) ||
		!select_has_operands(p, 1, 3))
		return;
	for (uint32_t i = 0; i < 3; i++)
		if (str_is(p->parts[0], names[i].name))
			op = (uint16_t)names[i].op;
	x->width = type_table[type].bytes;
	if (op == STACK_RESTORE)
		a = use(p, 0, type);
	else
		d = define(p, 0, type);
	if (op == STACK_ALLOCA)
		a = use(p, 1, type);
	if (op == STACK_ALLOCA && p->n_operands > 2 &&
		(p->operands[2].kind != OP_IMM || !is_stack_alignment(p->operands[2].value.bits))) {
		parse_fail(p, EINVAL, "alignment '%" STR_FMT "' of alloca is no power of two",
			STR_ARG(p->operands[2].name));
		return;
	}
	in = body_emit(p, CTL_LANES, exec_stack);
	if (!in)
		return;
	in->flags |= INSN_FAULT;
	in->n = op;
	in->a = a;
	in->d = d;
	in->imm = STACK_ALIGN;
	if (op == STACK_ALLOCA && p->n_operands > 2 && p->operands[2].value.bits > STACK_ALIGN)
		in->imm = (int64_t)p->operands[2].value.bits;
	in->x = x;
}

/* ---- control ---- */

static void select_branch(struct parser *p)
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
static void select_table(struct parser *p)
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
	a = use(p, 0, T_B32);
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
static void select_call(struct parser *p)
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

static void select_return(struct parser *p)
{
	select_take(p, "uni");
	if (select_is_done(p) && select_has_operands(p, 0, 0))
		body_emit(p, CTL_RETURN, NULL);
	p->next_is_join = true;
}

static void select_exit(struct parser *p)
{
	if (select_is_done(p) && select_has_operands(p, 0, 0))
		body_emit(p, CTL_EXIT, NULL);
	p->next_is_join = true;
}

static void exec_trap(struct warp *w, const struct insn *in, uint32_t mask)
{
	warp_fault(w, in, PTX_LAUNCH_FAILED, 0);
}

static void select_trap(struct parser *p)
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

static void select_barrier(struct parser *p)
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
		x->mask = use(p, 0, T_B32);
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
		pred = use(p, p->n_operands - 1, T_PRED);
		d = define(p, 0, op == BARRIER_POPC ? T_B32 : T_PRED);
		p->n_operands--;
	}
	id = use(p, at, T_B32);
	if (p->n_operands > at + 1)
		count = use(p, at + 1, T_B32);
	emit_barrier(p, op, d, pred, id, count);
}

/* ---- lanes of a warp ---- */

static struct insn *emit_warp(struct parser *p, exec_fn *fn, struct extra *x, bool is_sync)
{
	struct insn *in = body_emit(p, is_sync ? CTL_WARP : CTL_LANES, fn);

	if (in) {
		in->flags |= is_sync ? INSN_JOIN : 0;
		in->x = x;
	}
	return in;
}

static void select_shuffle(struct parser *p)
{
	static const char *const modes[] = {[SHUFFLE_UP] = "up",
		[SHUFFLE_DOWN] = "down",
		[SHUFFLE_BFLY] = "bfly",
		[SHUFFLE_IDX] = "idx"};
	bool is_sync = select_take(p, "sync");
	int mode = TAKE_WORD(p, modes);
	struct extra *x = body_extra(p);
	struct insn *in;
	int32_t a, b, c, d;

	if (!x || mode < 0 || !select_take(p, "b32") || !select_is_done(p)) {
		select_unsupported(p);
		return;
	}
	if (!select_has_operands(p, is_sync ? 5 : 4, is_sync ? 5 : 4))
		return;
	x->op = (uint8_t)mode;
	a = use(p, 1, T_B32);
	b = use(p, 2, T_B32);
	c = use(p, 3, T_B32);
	if (is_sync)
		x->mask = use(p, 4, T_B32);
	d = define(p, 0, T_B32);
	if (p->operands[0].has_pair)
		x->d2 = p->operands[0].pair;
	in = emit_warp(p, exec_shuffle, x, is_sync);
	if (!in)
		return;
	in->a = a;
	in->b = b;
	in->c = c;
	in->d = d;
}

static void select_vote(struct parser *p)
{
	static const char *const modes[] = {[VOTE_ALL] = "all",
		[VOTE_ANY] = "any",
		[VOTE_UNI] = "uni",
		[VOTE_BALLOT] = "ballot"};
	bool is_sync = select_take(p, "sync");
	int mode = TAKE_WORD(p, modes);
	struct extra *x = body_extra(p);
	struct insn *in;
	int32_t a, d;

	select_take(p, "pred");
	select_take(p, "b32");
	if (!x || mode < 0 || !select_is_done(p)) {
		select_unsupported(p);
		return;
	}
	if (!select_has_operands(p, is_sync ? 3 : 2, is_sync ? 3 : 2))
		return;
	x->op = (uint8_t)mode;
	a = use(p, 1, T_PRED);
	if (is_sync)
		x->mask = use(p, 2, T_B32);
	d = define(p, 0, mode == VOTE_BALLOT ? T_B32 : T_PRED);
	in = emit_warp(p, exec_vote, x, is_sync);
	if (!in)
		return;
	in->a = a;
	in->d = d;
}

static void select_match(struct parser *p)
{
	struct extra *x = body_extra(p);
	bool is_all = select_take(p, "all");
	enum ptx_type type;
	struct insn *in;
	int32_t a, d;

	select_take(p, "any");
	select_take(p, "sync");
	if (!x || !take_sized_type(p, 4 | 8, &type) || !select_is_done(p) ||
		!select_has_operands(p, 3, 3))
		return;
	x->op = is_all;
	x->width = type_table[type].bytes;
	a = use(p, 1, type);
	x->mask = use(p, 2, T_B32);
	d = define(p, 0, T_B32);
	if (p->operands[0].has_pair)
		x->d2 = p->operands[0].pair;
	in = emit_warp(p, exec_match, x, true);
	if (!in)
		return;
	in->a = a;
	in->d = d;
}

static void select_redux(struct parser *p)
{
	static const char *const ops[] = {[REDUX_ADD] = "add",
		[REDUX_MIN] = "min",
		[REDUX_MAX] = "max",
		[REDUX_AND] = "and",
		[REDUX_OR] = "or",
		[REDUX_XOR] = "xor"};
	struct extra *x = body_extra(p);
	enum ptx_type type;
	struct insn *in;
	int32_t a, d;
	int op;

	select_take(p, "sync");
	op = TAKE_WORD(p, ops);
	if (!x || op < 0 || !take_sized_type(p, 4, &type)) {
		select_unsupported(p);
		return;
	}
	x->flag_b = select_take(p, "abs");
	x->flag_a = select_take(p, "NaN");
	if (!select_is_done(p) || !select_has_operands(p, 3, 3))
		return;
	x->op = (uint8_t)op;
	x->type = (uint8_t)type;
	a = use(p, 1, type);
	x->mask = use(p, 2, T_B32);
	d = define(p, 0, type);
	in = emit_warp(p, exec_redux, x, true);
	if (!in)
		return;
	in->a = a;
	in->d = d;
}

struct insn *select_emit_warp(struct parser *p, exec_fn *fn, struct extra *x)
{
	return emit_warp(p, fn, x, true);
}

static void select_activemask(struct parser *p)
{
	struct insn *in;
	int32_t d;

	if (!select_take(p, "b32") || !select_is_done(p) || !select_has_operands(p, 1, 1)) {
		select_unsupported(p);
		return;
	}
	d = define(p, 0, T_B32);
	in = body_emit(p, CTL_LANES, exec_activemask);
	if (in)
		in->d = d;
}

static void select_elect(struct parser *p)
{
	struct extra *x = body_extra(p);
	struct insn *in;
	int32_t d;

	if (!x || !select_take(p, "sync") || !select_is_done(p) || !select_has_operands(p, 2, 2)) {
		select_unsupported(p);
		return;
	}
	x->mask = use(p, 1, T_B32);
	d = define(p, 0, T_B32);
	x->d2 = p->operands[0].has_pair ? p->operands[0].pair : parse_new_reg(p, 0);
	if (x->d2 == OPERAND_NONE)
		x->d2 = parse_new_reg(p, 0);
	in = emit_warp(p, exec_elect, x, true);
	if (in)
		in->d = d;
}

/* ---- the table of opcodes ---- */

static const struct {
	const char *name;
	void (*select)(struct parser *p);
} opcodes[] = {
	{"activemask", select_activemask},
	{"add", select_add},
	{"addc", select_carry},
	{"alloca", select_stack},
	{"and", select_logic},
	{"applypriority", select_nothing},
	{"atom", select_atomic},
	{"bar", select_barrier},
	{"barrier", select_barrier},
	{"bfi", select_bfi},
	{"bra", select_branch},
	{"brkpt", select_nothing},
	{"brx", select_table},
	{"call", select_call},
	{"cp", select_copy},
	{"cvt", select_cvt},
	{"cvta", select_cvta},
	{"discard", select_nothing},
	{"elect", select_elect},
	{"exit", select_exit},
	{"fence", select_fence},
	{"griddepcontrol", select_nothing},
	{"isspacep", select_isspacep},
	{"ld", select_access},
	{"ldmatrix", select_ldmatrix},
	{"ldu", select_access},
	{"lop3", select_lop3},
	{"mad", select_add},
	{"madc", select_carry},
	{"match", select_match},
	{"mbarrier", select_mbarrier},
	{"membar", select_fence},
	{"mma", select_mma},
	{"mov", select_mov},
	{"movmatrix", select_movmatrix},
	{"nanosleep", select_sleep},
	{"not", select_logic},
	{"or", select_logic},
	{"pmevent", select_nothing},
	{"prefetch", select_nothing},
	{"prefetchu", select_nothing},
	{"prmt", select_prmt},
	{"red", select_atomic},
	{"redux", select_redux},
	{"ret", select_return},
	{"selp", select_selection},
	{"set", select_compare},
	{"setmaxnreg", select_nothing},
	{"setp", select_compare},
	{"shfl", select_shuffle},
	{"slct", select_selection},
	{"st", select_access},
	{"stackrestore", select_stack},
	{"stacksave", select_stack},
	{"stmatrix", select_ldmatrix},
	{"sub", select_add},
	{"subc", select_carry},
	{"testp", select_testp},
	{"trap", select_trap},
	{"vote", select_vote},
	{"wmma", select_wmma},
	{"xor", select_logic},
};

void select_insn(struct parser *p)
{
	for (size_t i = 0; i < sizeof(opcodes) / sizeof(opcodes[0]); i++) {
		if (str_is(p->parts[0], opcodes[i].name)) {
			opcodes[i].select(p);
			return;
		}
	}
	select_alu(p);
}
