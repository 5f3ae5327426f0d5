/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bodies of functions: statements, labels, guards and operands. Operands become offsets of
 * registers or constants; special registers and addresses in a frame are read into registers of
 * their own before the instruction. Pure code, any thread.
 */
#include "ptx/ptx-parse.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

#include "ptx/ptx-ops.h"

/* STRAIGHT_MAX: instructions that run without a chance to stop, if no branch is between them */
enum { INSNS_MAX = 1 << 24, STRAIGHT_MAX = 4096 };

struct insn *body_emit(struct parser *p, enum control control, exec_fn *fn)
{
	struct insn *in;

	if (p->has_failed)
		return NULL;
	if (p->n_insns == p->cap_insns) {
		uint32_t cap = p->cap_insns ? 2 * p->cap_insns : 256;
		struct insn *more = NULL;

		if (cap <= INSNS_MAX && parse_account(p, cap * sizeof(*more)))
			more = realloc(p->insns, cap * sizeof(*more));

		if (!more) {
			parse_fail(p, ENOMEM, "too many instructions for the memory that is left");
			return NULL;
		}
		p->insns = more;
		p->cap_insns = cap;
	}
	in = &p->insns[p->n_insns++];
	*in = (struct insn){
		.fn = fn,
		.control = (uint8_t)control,
		.guard = p->guard,
		.line = p->line,
		.d = OPERAND_NONE,
		.a = OPERAND_NONE,
		.b = OPERAND_NONE,
		.c = OPERAND_NONE,
	};
	if (p->is_guard_negated)
		in->flags |= INSN_NOT;
	if (p->next_is_join)
		in->flags |= INSN_JOIN;
	p->next_is_join = false;
	return in;
}

/* An instruction before the statement's own: it has no guard. */
static struct insn *emit_before(struct parser *p, enum control control, exec_fn *fn)
{
	int32_t guard = p->guard;
	bool is_negated = p->is_guard_negated;
	struct insn *in;

	p->guard = OPERAND_NONE;
	p->is_guard_negated = false;
	in = body_emit(p, control, fn);
	p->guard = guard;
	p->is_guard_negated = is_negated;
	return in;
}

static struct insn *body_emit_before(struct parser *p, exec_fn *fn)
{
	return emit_before(p, CTL_LANES, fn);
}

struct extra *body_extra(struct parser *p)
{
	struct extra *x = arena_take(&p->ptx->arena, sizeof(*x));

	if (!x) {
		parse_fail(p, ENOMEM, "out of memory");
		return NULL;
	}
	x->d2 = x->mask = OPERAND_NONE;
	x->func = -1;
	x->n = 1;
	return x;
}

/* ---- operands as offsets ---- */

int32_t body_constant(struct parser *p, uint64_t lo, uint64_t hi, uint32_t bytes)
{
	const uint64_t key[3] = {lo, hi, bytes};
	struct constant *c;

	HASH_FIND(hh, p->constants, key, sizeof(key), c);
	if (c)
		return c->offset;
	c = arena_take(&p->scratch, sizeof(*c));
	if (c) {
		memcpy(c->key, key, sizeof(key));
		HASH_ADD(hh, p->constants, key, sizeof(key), c);
	}
	if (!c || !c->hh.tbl || p->n_const > REG_BYTES_MAX) {
		parse_fail(p, ENOMEM, "too many constants");
		return 0;
	}
	p->n_const += ((bytes ? bytes * LANES : 4) + 63) & ~63u;
	c->offset = -(int32_t)p->n_const;
	return c->offset;
}

static uint64_t float_as(double value, uint32_t bytes)
{
	uint64_t bits = 0;
	float f = (float)value;

	if (bytes == 8)
		memcpy(&bits, &value, sizeof(value));
	else if (bytes == 4)
		memcpy(&bits, &f, sizeof(f));
	else
		bits = half_from_double(value);
	return bits;
}

static double literal_value(const struct lex_value *v)
{
	double d;
	float f;
	uint32_t u = (uint32_t)v->bits;

	if (v->float_bytes == 4) {
		memcpy(&f, &u, sizeof(f));
		return (double)f;
	}
	if (v->float_bytes == 8) {
		memcpy(&d, &v->bits, sizeof(d));
		return d;
	}
	return v->value;
}

static int32_t use_immediate(struct parser *p, const struct operand *o, enum ptx_type type)
{
	const struct type_info *t = &type_table[type];
	uint32_t bytes = t->bytes;
	uint64_t bits = o->value.bits;

	if (type == T_PRED)
		return body_constant(p, bits ? MASK_ALL : 0, 0, 0);
	if (o->value.is_float) {
		if (o->value.float_bytes != bytes)
			bits = type == T_BF16 ? bf16_round(literal_value(&o->value), ROUND_NEAREST)
					      : float_as(literal_value(&o->value), bytes);
	} else if (type == T_F32 || type == T_F64) {
		bits = float_as((double)(int64_t)bits, bytes);
	}
	if (bytes < 8)
		bits &= (UINT64_C(1) << 8 * bytes) - 1;
	return body_constant(p, bits, bytes == 16 && (int64_t)bits < 0 ? UINT64_MAX : 0, bytes);
}

static int32_t use_symbol(struct parser *p, const struct operand *o, uint32_t bytes)
{
	const struct symbol *s = o->symbol;
	uint64_t address;
	struct insn *in;
	int32_t reg;

	if (s->kind == SYM_FUNC)
		return body_constant(p, SPACE_CODE + 16 * (uint64_t)s->index, 0, bytes);
	address = s->address + (uint64_t)o->offset;
	if (s->space != SP_FRAME)
		return body_constant(p, bytes == 4 ? (uint32_t)address : address, 0, bytes);
	reg = parse_new_reg(p, bytes);
	in = body_emit_before(p, exec_frame_address);
	if (!in)
		return 0;
	in->d = reg;
	in->n = (uint16_t)bytes;
	in->imm = (int64_t)address;
	return reg;
}

static int32_t use_sreg(struct parser *p, const struct operand *o, uint32_t bytes)
{
	int32_t reg = parse_new_reg(p, bytes);
	struct insn *in = body_emit_before(p, exec_sreg);

	if (!in)
		return 0;
	in->d = reg;
	in->n = (uint16_t)bytes;
	in->imm = o->sreg;
	return reg;
}

int32_t body_use(struct parser *p, const struct operand *o, enum ptx_type type)
{
	const uint32_t bytes = type_table[type].bytes;

	switch (o->kind) {
	case OP_REG:
		if (type_table[o->type].bytes != bytes || (o->type == T_PRED) != (type == T_PRED))
			parse_fail(p, EINVAL, "operand '%" STR_FMT "' of %s is no .%s",
				STR_ARG(o->name), type_table[o->type].name, type_table[type].name);
		if (o->is_negated && type == T_PRED) {
			int32_t reg = parse_new_reg(p, 0);
			struct insn *in = body_emit_before(p, exec_pred_op);

			if (!in)
				return 0;
			in->d = reg;
			in->a = o->reg;
			in->n = PRED_NOT;
			return reg;
		}
		return o->reg;
	case OP_IMM: return use_immediate(p, o, type);
	case OP_SREG: return use_sreg(p, o, bytes);
	case OP_SYMBOL:
		if (bytes == 4 || bytes == 8)
			return use_symbol(p, o, bytes);
		break;
	default: break;
	}
	parse_fail(p, EINVAL, "operand '%" STR_FMT "' of '%" STR_FMT "' is no .%s",
		STR_ARG(o->name), STR_ARG(p->opcode), type_table[type].name);
	return 0;
}

int32_t body_use_any(struct parser *p, const struct operand *o, uint32_t *ret_bytes)
{
	*ret_bytes = 4;
	if (o->kind != OP_REG || o->type == T_PRED) {
		parse_fail(p, EINVAL, "operand '%" STR_FMT "' of '%" STR_FMT "' is no register",
			STR_ARG(o->name), STR_ARG(p->opcode));
		return 0;
	}
	*ret_bytes = type_table[o->type].bytes;
	return o->reg;
}

int32_t body_define(struct parser *p, const struct operand *o, enum ptx_type type)
{
	if (o->kind == OP_SINK)
		return type == T_PRED ? parse_new_reg(p, 0)
				      : parse_new_reg(p, type_table[type].bytes);
	if (o->kind != OP_REG || o->is_negated) {
		parse_fail(p, EINVAL,
			"'%" STR_FMT "' writes to '%" STR_FMT "', which is no register",
			STR_ARG(p->opcode), STR_ARG(o->name));
		return 0;
	}
	return body_use(p, o, type);
}

/* ---- reading operands ---- */

static const struct {
	const char *name;
	uint32_t sreg;
} sregs[] = {
	{"%tid.x", SREG_TID_X},
	{"%tid.y", SREG_TID_Y},
	{"%tid.z", SREG_TID_Z},
	{"%ntid.x", SREG_NTID_X},
	{"%ntid.y", SREG_NTID_Y},
	{"%ntid.z", SREG_NTID_Z},
	{"%ctaid.x", SREG_CTAID_X},
	{"%ctaid.y", SREG_CTAID_Y},
	{"%ctaid.z", SREG_CTAID_Z},
	{"%nctaid.x", SREG_NCTAID_X},
	{"%nctaid.y", SREG_NCTAID_Y},
	{"%nctaid.z", SREG_NCTAID_Z},
	{"%laneid", SREG_LANEID},
	{"%warpid", SREG_WARPID},
	{"%nwarpid", SREG_NWARPID},
	{"%smid", SREG_SMID},
	{"%nsmid", SREG_NSMID},
	{"%gridid", SREG_GRIDID},
	{"%lanemask_eq", SREG_LANEMASK_EQ},
	{"%lanemask_le", SREG_LANEMASK_LE},
	{"%lanemask_lt", SREG_LANEMASK_LT},
	{"%lanemask_ge", SREG_LANEMASK_GE},
	{"%lanemask_gt", SREG_LANEMASK_GT},
	{"%clock", SREG_CLOCK},
	{"%clock_hi", SREG_CLOCK_HI},
	{"%clock64", SREG_CLOCK64},
	{"%globaltimer", SREG_GLOBALTIMER},
	{"%globaltimer_lo", SREG_GLOBALTIMER_LO},
	{"%globaltimer_hi", SREG_GLOBALTIMER_HI},
	{"%dynamic_smem_size", SREG_DYNAMIC_SMEM},
	{"%total_smem_size", SREG_TOTAL_SMEM},
	{"%aggr_smem_size", SREG_TOTAL_SMEM},
	{"%current_graph_exec", SREG_ZERO},
	{"%reserved_smem_offset_begin", SREG_ZERO},
	{"%reserved_smem_offset_end", SREG_ZERO},
	{"%reserved_smem_offset_cap", SREG_ZERO},
	{"%clusterid.x", SREG_CTAID_X},
	{"%clusterid.y", SREG_CTAID_Y},
	{"%clusterid.z", SREG_CTAID_Z},
	{"%nclusterid.x", SREG_NCTAID_X},
	{"%nclusterid.y", SREG_NCTAID_Y},
	{"%nclusterid.z", SREG_NCTAID_Z},
	{"%cluster_ctaid.x", SREG_ZERO},
	{"%cluster_ctaid.y", SREG_ZERO},
	{"%cluster_ctaid.z", SREG_ZERO},
	{"%cluster_nctaid.x", SREG_ONE},
	{"%cluster_nctaid.y", SREG_ONE},
	{"%cluster_nctaid.z", SREG_ONE},
	{"%cluster_ctarank", SREG_ZERO},
	{"%cluster_nctarank", SREG_ONE},
	{"WARP_SZ", SREG_WARP_SIZE},
};

static bool find_sreg(struct str name, uint32_t *ret)
{
	for (size_t i = 0; i < sizeof(sregs) / sizeof(sregs[0]); i++) {
		if (str_is(name, sregs[i].name)) {
			*ret = sregs[i].sreg;
			return true;
		}
	}
	if (str_is(name, "%envreg1") || str_is(name, "%envreg2")) {
		*ret = str_is(name, "%envreg1") ? SREG_GRID_HI : SREG_GRID_LO;
		return true;
	}
	if (str_has_prefix(name, STR("%pm")) || str_has_prefix(name, STR("%envreg"))) {
		*ret = SREG_ZERO;
		return true;
	}
	return false;
}

/* A register of a range: %r12 of .reg .b32 %r<100>. */
static bool find_numbered(struct parser *p, struct str name, struct operand *o)
{
	size_t n = name.n;
	uint64_t number = 0, scale = 1;

	while (n > 1 && isdigit((unsigned char)name.p[n - 1]) && scale < 1000000000) {
		struct symbol *s;

		number += (uint64_t)(name.p[--n] - '0') * scale;
		scale *= 10;
		if (name.p[n] == '0' && scale > 10)
			continue; /* no leading zeros */
		s = parse_find(p, (struct str){name.p, n});
		if (s && s->kind == SYM_REGS && number < s->count) {
			uint32_t bytes = s->type == T_PRED ? 4 : type_table[s->type].bytes * LANES;

			o->kind = OP_REG;
			o->type = s->type;
			o->reg = s->reg + (int32_t)(number * ((bytes + 63) & ~63u));
			return true;
		}
	}
	return false;
}

static bool find_name(struct parser *p, struct str name, struct operand *o)
{
	struct symbol *s;

	o->name = name;
	if (str_is(name, "_")) {
		o->kind = OP_SINK;
		return true;
	}
	s = parse_find(p, name);
	if (s && s->kind == SYM_REG) {
		o->kind = OP_REG;
		o->type = s->type;
		o->reg = s->reg;
		return true;
	}
	if (find_numbered(p, name, o))
		return true;
	if (find_sreg(name, &o->sreg)) {
		o->kind = OP_SREG;
		return true;
	}
	o->symbol = s;
	o->kind = s && (s->kind == SYM_VARIABLE || s->kind == SYM_FUNC) ? OP_SYMBOL : OP_NAME;
	return o->kind == OP_SYMBOL || name.p[0] != '%';
}

static void take_immediate(struct parser *p, struct operand *o, bool is_negative)
{
	o->kind = OP_IMM;
	o->name = p->lex.token.text;
	if (!lex_number(p->lex.token.text, &o->value)) {
		parse_fail(p, EINVAL, "'%" STR_FMT "' is no number", STR_ARG(o->name));
		return;
	}
	if (is_negative && !o->value.is_float)
		o->value.bits = UINT64_C(0) - o->value.bits;
	else if (is_negative && o->value.float_bytes)
		o->value.bits ^= UINT64_C(1) << (8 * o->value.float_bytes - 1);
	else if (is_negative)
		o->value.value = -o->value.value;
	lex_next(&p->lex);
}

static int64_t take_offset(struct parser *p)
{
	if (lex_accept(&p->lex, "+"))
		return (int64_t)parse_number(p);
	if (lex_is(&p->lex, "-"))
		return (int64_t)parse_number(p);
	return 0;
}

/* array[3] is the address of the element, and array+12 counts bytes. */
static int64_t take_index(struct parser *p, struct operand *o)
{
	uint64_t index;

	if (!lex_accept(&p->lex, "["))
		return take_offset(p);
	if (o->symbol->kind != SYM_VARIABLE || !o->symbol->element_bytes)
		parse_fail(
			p, EINVAL, "'%" STR_FMT "' has an index and is no array", STR_ARG(o->name));
	index = parse_number(p);
	parse_expect(p, "]");
	o->is_element = true;
	return (int64_t)(index * o->symbol->element_bytes);
}

static void take_operand(struct parser *p, struct operand *o);

static void take_list(struct parser *p, struct operand *o, const char *end)
{
	o->kind = OP_VECTOR;
	o->first = p->n_elements;
	if (lex_accept(&p->lex, end))
		return;
	do {
		if (p->n_elements == OPERANDS_MAX * VECTOR_MAX || o->n == VECTOR_MAX) {
			parse_fail(p, EINVAL, "too many operands in a list");
			return;
		}
		p->n_elements++;
		o->n++;
		take_operand(p, &p->elements[p->n_elements - 1]);
	} while (lex_accept(&p->lex, ","));
	parse_expect(p, end);
}

static void take_address(struct parser *p, struct operand *o)
{
	struct operand base = {.kind = OP_NONE, .pair = OPERAND_NONE};

	take_operand(p, &base);
	*o = base;
	o->base = base.kind;
	o->kind = OP_ADDRESS;
	if (base.kind == OP_IMM) {
		o->base = OP_NONE;
		o->offset = (int64_t)base.value.bits;
	} else if (base.kind != OP_REG && base.kind != OP_SYMBOL) {
		parse_fail(p, EINVAL, "address with base '%" STR_FMT "'", STR_ARG(base.name));
	}
	if (base.kind == OP_REG)
		o->offset = take_offset(p);
	if (lex_is(&p->lex, ","))
		parse_fail(p, ENOTSUP,
			"'%" STR_FMT "' with coordinates is not supported by the "
			"simulated device",
			STR_ARG(p->opcode));
	parse_expect(p, "]");
}

static void take_inner_operand(struct parser *p, struct operand *o)
{
	bool is_negative;

	*o = (struct operand){.kind = OP_NONE, .pair = OPERAND_NONE, .name = p->lex.token.text};
	if (lex_accept(&p->lex, "{")) {
		take_list(p, o, "}");
		return;
	}
	if (lex_accept(&p->lex, "(")) {
		take_list(p, o, ")");
		return;
	}
	if (lex_accept(&p->lex, "[")) {
		take_address(p, o);
		return;
	}
	if (lex_accept(&p->lex, "!")) {
		take_operand(p, o);
		o->is_negated = true;
		return;
	}
	is_negative = lex_accept(&p->lex, "-");
	if (p->lex.token.kind == LEX_NUMBER) {
		take_immediate(p, o, is_negative);
		return;
	}
	if (p->lex.token.kind != LEX_WORD || is_negative || !find_name(p, p->lex.token.text, o)) {
		parse_fail(p, EINVAL, "operand '%" STR_FMT "' of '%" STR_FMT "' is not declared",
			STR_ARG(p->lex.token.text), STR_ARG(p->opcode));
		return;
	}
	lex_next(&p->lex);
	if (o->kind == OP_SYMBOL)
		o->offset = take_index(p, o);
	if (lex_accept(&p->lex, "|")) {
		struct operand second;

		take_operand(p, &second);
		o->has_pair = true;
		o->pair = second.kind == OP_SINK ? OPERAND_NONE : body_define(p, &second, T_PRED);
	}
}

static void take_operand(struct parser *p, struct operand *o)
{
	if (p->nesting == NESTING_MAX) {
		*o = (struct operand){.kind = OP_NONE};
		parse_fail(p, EINVAL, "operand '%" STR_FMT "' nests too deep",
			STR_ARG(p->lex.token.text));
		return;
	}
	p->nesting++;
	take_inner_operand(p, o);
	p->nesting--;
}

/* ---- labels ---- */

void body_refer(struct parser *p, uint32_t insn, uint32_t *slot, struct str label)
{
	if (p->n_pending == p->cap_pending) {
		uint32_t cap = p->cap_pending ? 2 * p->cap_pending : 64;
		struct pending *more = realloc(p->pending, cap * sizeof(*more));

		if (!more) {
			parse_fail(p, ENOMEM, "out of memory");
			return;
		}
		p->pending = more;
		p->cap_pending = cap;
	}
	p->pending[p->n_pending++] = (struct pending){insn, slot, label, p->depth, p->line};
}

static void resolve_one(struct parser *p, const struct pending *ref, uint32_t target)
{
	struct insn *in = &p->insns[ref->insn];

	if (ref->slot)
		*ref->slot = target;
	else
		in->target = target;
	if (target <= ref->insn)
		in->flags |= INSN_BACK;
}

/*
 * Resolves what refers to labels of the block that ends; the rest belongs to the block around it.
 */
static void resolve_labels(struct parser *p, uint32_t outermost)
{
	uint32_t first = p->n_pending, left;

	/* References outside of the block come first, those of the block last. */
	while (first && p->pending[first - 1].depth >= p->depth)
		first--;
	left = first;
	for (uint32_t i = first; i < p->n_pending && !p->has_failed; i++) {
		struct pending *ref = &p->pending[i];
		struct symbol *s = NULL;

		HASH_FIND(hh, p->scopes[p->depth], ref->name.p, ref->name.n, s);
		if (s && s->kind == SYM_LABEL) {
			resolve_one(p, ref, s->index);
			continue;
		}
		if (p->depth == outermost) {
			p->line = ref->line;
			parse_fail(p, EINVAL, "label '%" STR_FMT "' is not declared",
				STR_ARG(ref->name));
		}
		ref->depth = p->depth - 1;
		p->pending[left++] = *ref;
	}
	p->n_pending = left;
}

/* name: .branchtargets a, b, c; and its relatives */
static void take_label(struct parser *p, struct str name)
{
	struct symbol *s = parse_add(p, name, SYM_LABEL);
	uint32_t cap = 0;

	if (!s)
		return;
	s->index = p->n_insns;
	p->next_is_join = true;
	if (lex_accept(&p->lex, ".callprototype")) {
		s->kind = SYM_SHAPE;
		s->shape = parse_prototype(p);
		return;
	}
	if (!lex_is(&p->lex, ".branchtargets") && !lex_is(&p->lex, ".calltargets"))
		return;
	s->kind = SYM_TARGETS;
	lex_next(&p->lex);
	do {
		if (s->n_labels == cap) {
			struct str *more;

			cap = cap ? 2 * cap : 8;
			more = arena_take_array(&p->scratch, cap, sizeof(*more));
			if (!more) {
				parse_fail(p, ENOMEM, "out of memory");
				return;
			}
			if (s->n_labels)
				memcpy(more, s->labels, s->n_labels * sizeof(*more));
			s->labels = more;
		}
		s->labels[s->n_labels++] = p->lex.token.text;
		lex_next(&p->lex);
	} while (lex_accept(&p->lex, ",") && s->n_labels < 4096);
	parse_expect(p, ";");
}

/* ---- statements ---- */

static void take_guard(struct parser *p)
{
	struct operand o;

	p->guard = OPERAND_NONE;
	p->is_guard_negated = false;
	if (!lex_accept(&p->lex, "@"))
		return;
	p->is_guard_negated = lex_accept(&p->lex, "!");
	take_operand(p, &o);
	p->guard = body_use(p, &o, T_PRED);
}

static void split_opcode(struct parser *p, struct str opcode)
{
	struct str rest = opcode, part;

	p->opcode = opcode;
	p->n_parts = 0;
	while (str_split(&rest, '.', &part)) {
		if (p->n_parts == MODIFIERS_MAX) {
			parse_fail(p, EINVAL, "'%" STR_FMT "' has too many modifiers",
				STR_ARG(opcode));
			return;
		}
		p->parts[p->n_parts++] = part;
	}
}

static void take_instruction(struct parser *p, struct str opcode)
{
	split_opcode(p, opcode);
	p->n_operands = p->n_elements = 0;
	if (!lex_is(&p->lex, ";")) {
		do {
			if (p->n_operands == OPERANDS_MAX) {
				parse_fail(p, EINVAL, "'%" STR_FMT "' has too many operands",
					STR_ARG(opcode));
				return;
			}
			take_operand(p, &p->operands[p->n_operands++]);
		} while (!p->has_failed && lex_accept(&p->lex, ","));
	}
	parse_expect(p, ";");
	if (p->n_insns - p->yielded_at >= STRAIGHT_MAX) {
		emit_before(p, CTL_YIELD, exec_nop);
		p->yielded_at = p->n_insns;
	}
	if (!p->has_failed)
		select_insn(p);
}

static void take_statement(struct parser *p)
{
	struct str word;

	p->line = p->lex.token.line;
	take_guard(p);
	word = p->lex.token.text;
	if (p->lex.token.kind != LEX_WORD) {
		parse_fail(p, EINVAL, "statement expected before '%" STR_FMT "'", STR_ARG(word));
		return;
	}
	if (word.p[0] == '.' && p->guard == OPERAND_NONE) {
		if (parse_declaration(p))
			return;
		if (lex_is(&p->lex, ".loc") || lex_is(&p->lex, ".file")) {
			lex_skip_line(&p->lex);
		} else if (lex_accept(&p->lex, ".pragma")) {
			while (!lex_is(&p->lex, ";") && p->lex.token.kind != LEX_END)
				lex_next(&p->lex);
			parse_expect(p, ";");
		} else {
			parse_fail(p, EINVAL, "unknown directive '%" STR_FMT "'", STR_ARG(word));
		}
		return;
	}
	lex_next(&p->lex);
	if (p->guard == OPERAND_NONE && lex_accept(&p->lex, ":"))
		take_label(p, word);
	else
		take_instruction(p, word);
}

void body_parse(struct parser *p)
{
	const uint32_t outermost = p->depth;

	p->guard = OPERAND_NONE;
	p->is_guard_negated = false;
	parse_expect(p, "{");
	while (!p->has_failed && parse_account(p, 0)) {
		p->line = p->lex.token.line;
		if (lex_accept(&p->lex, "{")) {
			parse_scope_open(p);
		} else if (lex_accept(&p->lex, "}")) {
			resolve_labels(p, outermost);
			if (p->depth == outermost)
				break;
			parse_scope_close(p);
		} else {
			take_statement(p);
		}
	}
	p->guard = OPERAND_NONE;
	p->is_guard_negated = false;
	p->next_is_join = true;
	/* A body may end without ret. */
	body_emit(p, CTL_RETURN, NULL);
}
