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
bool select_take_sized_type(struct parser *p, uint32_t sizes, enum ptx_type *ret)
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

int select_take_word(struct parser *p, const char *const *words, int n)
{
	for (int i = 0; i < n; i++)
		if (words[i] && select_take(p, words[i]))
			return i;
	return -1;
}

int32_t select_use(struct parser *p, uint32_t i, enum ptx_type type)
{
	return body_use(p, &p->operands[i], type);
}

int32_t select_define(struct parser *p, uint32_t i, enum ptx_type type)
{
	return body_define(p, &p->operands[i], type);
}

/* The type of a raw register of that many bytes. */
enum ptx_type select_raw_type(uint32_t bytes)
{
	return bytes == 16   ? T_B128
		: bytes == 8 ? T_B64
		: bytes == 4 ? T_B32
		: bytes == 2 ? T_B16
			     : T_B8;
}

bool select_is_float(enum ptx_type type)
{
	return type_table[type].kind == 'f';
}

/* ---- arithmetic by the table ---- */

static const char *const roundings[] = {[ROUND_NEAREST] = "rn",
	[ROUND_ZERO] = "rz",
	[ROUND_DOWN] = "rm",
	[ROUND_UP] = "rp",
	[ROUND_AWAY] = "rna"};

enum rounding select_take_rounding(struct parser *p)
{
	int r = SELECT_TAKE_WORD(p, roundings);

	return r < 0 ? ROUND_NEAREST : (enum rounding)r;
}

const struct alu_row *select_find_row(struct parser *p)
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

struct insn *select_emit(struct parser *p, exec_fn *fn, int32_t d, int32_t a, int32_t b, int32_t c,
	const struct extra *x)
{
	struct insn *in = body_emit(p, CTL_LANES, fn);

	if (!in)
		return NULL;
	in->d = d;
	in->a = a;
	in->b = b;
	in->c = c;
	in->x = x;
	return in;
}

void select_alu(struct parser *p)
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
		wrap.rounding = (uint8_t)select_take_rounding(p);
		wrap.is_sat = select_take(p, "sat");
		select_take(p, "approx");
		select_take(p, "full");
		select_take(p, "rnd");
		/* half precision with .ftz has rows of its own */
		if (type == T_F16 || type == T_F16X2)
			row = select_find_row(p);
		if (!row)
			wrap.is_ftz = select_take(p, "ftz");
	} else {
		select_take(p, "uni");
	}
	if (!row)
		row = select_find_row(p);
	if (!row || wrap.rounding == ROUND_AWAY) {
		select_unsupported(p);
		return;
	}
	n += (uint32_t)(row->b != T_NONE) + (uint32_t)(row->c != T_NONE);
	if (!select_has_operands(p, n, n))
		return;
	a = select_use(p, 1, row->a);
	b = row->b ? select_use(p, 2, row->b) : OPERAND_NONE;
	c = row->c ? select_use(p, 3, row->c) : OPERAND_NONE;
	d = select_define(p, 0, row->d);
	in = select_emit(p, row->fn, d, a, b, c, NULL);
	if (!in)
		return;
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

/* add, sub, mad: those with .cc are no table rows */
void select_add(struct parser *p)
{
	for (uint32_t i = 1; i < p->n_parts; i++) {
		if (str_is(p->parts[i], "cc")) {
			select_carry(p);
			return;
		}
	}
	select_alu(p);
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
	{"createpolicy", select_zero},
	{"cvt", select_cvt},
	{"cvta", select_cvta},
	{"discard", select_nothing},
	{"elect", select_elect},
	{"exit", select_exit},
	{"fence", select_fence},
	{"getctarank", select_zero},
	{"griddepcontrol", select_nothing},
	{"isspacep", select_isspacep},
	{"ld", select_access},
	{"ldmatrix", select_ldmatrix},
	{"ldu", select_access},
	{"lop3", select_lop3},
	{"mad", select_add},
	{"madc", select_carry},
	{"mapa", select_mapa},
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
