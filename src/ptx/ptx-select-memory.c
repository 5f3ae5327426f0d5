/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads, stores, atomics, copies, fences and the stack. Pure code, any thread.
 */
#include "ptx/ptx-select.h"

#include <errno.h>

#include "ptx/ptx-ops.h"

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

	while (SELECT_TAKE_WORD(p, words) >= 0)
		;
	while (take_prefixed(p, "L1::") || take_prefixed(p, "L2::") || take_prefixed(p, "level::"))
		;
}

void select_take_space(struct parser *p, struct extra *x)
{
	int i = SELECT_TAKE_WORD(p, space_names);

	x->space = (uint8_t)(i < 0 ? SP_GENERIC : space_values[i]);
	if (x->space == SP_PARAM && !p->func->is_entry)
		x->space = SP_LOCAL;
}

/* Where an instruction accesses memory. */
bool select_address(struct parser *p, const struct operand *o, struct extra *x, int32_t *ret_a,
	int64_t *ret_imm)
{
	/* An element of an array needs no brackets around it. */
	const enum operand_kind base = o->is_element ? OP_SYMBOL : o->base;
	uint32_t bytes;

	*ret_a = OPERAND_NONE;
	*ret_imm = o->offset;
	if (o->kind != OP_ADDRESS && !o->is_element)
		return parse_fail(p, EINVAL, "'%" STR_FMT "' needs an address", STR_ARG(p->opcode));
	switch (base) {
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

void select_access(struct parser *p)
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

void select_atomic(struct parser *p)
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
	op = SELECT_TAKE_WORD(p, ops);
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
		c = select_use(p, at + 2, type);
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
void select_copy(struct parser *p)
{
	struct extra *x = body_extra(p), source = {0};
	struct insn *in;
	int64_t imm, from_imm;
	int32_t a, from, c = OPERAND_NONE;

	if (!x || !select_take(p, "async")) {
		select_unsupported(p);
		return;
	}
	if (select_take(p, "bulk")) {
		select_bulk(p);
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
		c = select_use(p, 3, T_B32);
	else if (p->n_operands > 3 && p->operands[3].kind == OP_IMM)
		c = select_use(p, 3, T_B32);
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
void select_nothing(struct parser *p)
{
	body_emit(p, CTL_LANES, exec_nop);
}

static void exec_fence(struct warp *w, const struct insn *in, uint32_t mask)
{
	atomic_thread_fence(memory_order_seq_cst);
}

void select_fence(struct parser *p)
{
	body_emit(p, CTL_LANES, exec_fence);
}

void select_sleep(struct parser *p)
{
	body_emit(p, CTL_YIELD, exec_nop);
}

enum { STACK_ALIGN = 16, STACK_ALIGN_MAX = 4096 };

static bool is_stack_alignment(uint64_t v)
{
	return v != 0 && (v & (v - 1)) == 0 && v <= STACK_ALIGN_MAX;
}

void select_stack(struct parser *p)
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

	if (!x || !select_take_sized_type(p, 4 | 8, &type) || !select_is_done(p) ||
		!select_has_operands(p, 1, 3))
		return;
	for (uint32_t i = 0; i < 3; i++)
		if (str_is(p->parts[0], names[i].name))
			op = (uint16_t)names[i].op;
	x->width = type_table[type].bytes;
	if (op == STACK_RESTORE)
		a = select_use(p, 0, type);
	else
		d = select_define(p, 0, type);
	if (op == STACK_ALLOCA)
		a = select_use(p, 1, type);
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
