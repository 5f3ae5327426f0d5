/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the text and runs the lanes of the second interpreter. Each lane runs alone until it ends
 * or comes to an instruction of several lanes; when all lanes that this instruction needs are
 * there, it is carried out for all of them. One thread.
 */
#include "ptx-naive.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "base/str.h"
#include "ptx-naive-internal.h"

enum {
	INSNS = 4096,
	LABELS = 512,
	FUNCS = 16,
	DEPTH = 24,
	VARIABLES = 64,
	REGISTERS = 32,
	STEPS_MAX = 1000000,
	LANES = 32,
};

#define GENERIC_SHARED (UINT64_C(1) << 60)
#define GENERIC_LOCAL (UINT64_C(2) << 60)

/* ---- the program ---- */

/* A parameter of a function, or of a call. */
struct variable {
	char name[NAIVE_WORD];
	int place;
};

struct func {
	char name[NAIVE_WORD];
	int first; /* instruction */
	struct variable variables[VARIABLES];
	int n_variables;
	int n_rets, n_params; /* the first variables */
};

static struct naive_insn insns[INSNS];
static int n_insns;
static struct {
	char name[NAIVE_WORD];
	int at;
} labels[LABELS];
static int n_labels;
static struct func funcs[FUNCS];
static int n_funcs;

_Noreturn void naive_die(const struct naive_insn *in, const char *why)
{
	fprintf(stderr, "naive: %s: %s\n", in ? in->text : "?", why);
	abort();
}

bool naive_has(const struct naive_insn *in, const char *part)
{
	for (int i = 0; i < in->n_parts; i++)
		if (strcmp(in->parts[i], part) == 0)
			return true;
	return false;
}

bool naive_is(const struct naive_insn *in, const char *base)
{
	return strcmp(in->base, base) == 0;
}

/* ---- reading ---- */

/* A number of one or two digits; -1: another word. */
static int number_of(const char *word)
{
	uint64_t v;

	return parse_uint(str_from(word), 0, 99, &v, NULL) < 0 ? -1 : (int)v;
}

static bool type_of(const char *word, struct naive_type *ret)
{
	static const struct {
		const char *name;
		struct naive_type type;
	} names[] = {{"f16", {'f', 16, 1}}, {"bf16", {'g', 16, 1}}, {"f16x2", {'f', 32, 2}},
		{"bf16x2", {'g', 32, 2}}, {"u16x2", {'u', 32, 2}}, {"s16x2", {'s', 32, 2}},
		{"f32", {'f', 32, 1}}, {"f64", {'f', 64, 1}}, {"pred", {'p', 1, 1}}};
	int bits;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(word, names[i].name) == 0) {
			*ret = names[i].type;
			return true;
		}
	}
	if (!strchr("usb", word[0]) || word[0] == '\0')
		return false;
	bits = number_of(word + 1);
	if (bits != 8 && bits != 16 && bits != 32 && bits != 64)
		return false;
	*ret = (struct naive_type){word[0], bits, 1};
	return true;
}

static void copy_word(char *to, const char *from, size_t n)
{
	if (n >= NAIVE_WORD)
		abort();
	memcpy(to, from, n);
	to[n] = '\0';
}

static size_t word_length(const char *p)
{
	size_t n = 0;

	while (isalnum((unsigned char)p[n]) || (p[n] && strchr("_%.$", p[n])))
		n++;
	return n;
}

static const char *skip(const char *p)
{
	while (*p == ' ' || *p == '\t' || *p == ',')
		p++;
	return p;
}

static const char *read_number(const char *p, uint64_t *ret)
{
	char *end;

	if (p[0] == '0' && (p[1] == 'f' || p[1] == 'd'))
		*ret = strtoull(p + 2, &end, 16);
	else if (p[0] == '-')
		*ret = (uint64_t)strtoll(p, &end, 0);
	else
		*ret = strtoull(p, &end, 0);
	return end;
}

static const char *read_operand(const char *p, struct naive_operand *o)
{
	size_t n;

	*o = (struct naive_operand){0};
	if (*p == '[') {
		p = read_operand(skip(p + 1), o);
		o->is_address = true;
		if (*p == '+' || *p == '-') {
			uint64_t v;

			p = read_number(*p == '+' ? p + 1 : p, &v);
			o->offset = (int64_t)v;
		}
		return p + 1; /* ] */
	}
	if (*p == '!') {
		p = read_operand(p + 1, o);
		o->is_negated = true;
		return p;
	}
	if (isdigit((unsigned char)*p) || *p == '-') {
		o->kind = 'i';
		return read_number(p, &o->number);
	}
	n = word_length(p);
	copy_word(o->name, p, n);
	if (strcmp(o->name, "_") == 0) {
		o->kind = '_';
	} else if (o->name[0] == '%' && n > 2 && strchr("phrd", o->name[1]) &&
		isdigit((unsigned char)o->name[2])) {
		o->kind = 'r';
		o->class = o->name[1];
		o->index = number_of(o->name + 2);
	} else {
		o->kind = o->name[0] == '%' ? 's' : 'l';
	}
	return p + n;
}

static void read_opcode(struct naive_insn *in, const char *p, size_t n)
{
	const char *end = p + n, *dot;
	bool is_first = true;

	while (p < end) {
		char word[NAIVE_WORD];

		dot = memchr(p, '.', (size_t)(end - p));
		dot = dot ? dot : end;
		copy_word(word, p, (size_t)(dot - p));
		p = dot + 1;
		if (is_first)
			copy_word(in->base, word, strlen(word));
		else if (!type_of(word, &in->types[in->n_types < 2 ? in->n_types : 2]))
			copy_word(in->parts[in->n_parts++], word, strlen(word));
		else
			in->n_types++;
		is_first = false;
	}
}

static void read_instruction(const char *p)
{
	struct naive_insn *in = &insns[n_insns++];
	size_t n;

	if (n_insns == INSNS)
		abort();
	*in = (struct naive_insn){.guard = -1};
	str_copy(in->text, sizeof(in->text), str_from(p));
	if (*p == '@') {
		struct naive_operand o;

		p = read_operand(p + 1, &o);
		in->guard = o.index;
		in->is_guard_negated = o.is_negated;
		p = skip(p);
	}
	n = word_length(p);
	read_opcode(in, p, n);
	for (p = skip(p + n); *p && *p != ';'; p = skip(p)) {
		if (strchr("(){}|", *p)) {
			p++;
			continue;
		}
		if (in->n_ops == NAIVE_OPERANDS)
			naive_die(in, "too many operands");
		p = read_operand(p, &in->ops[in->n_ops++]);
	}
}

static int place_of(struct func *f, const char *name)
{
	for (int i = 0; i < f->n_variables; i++)
		if (strcmp(f->variables[i].name, name) == 0)
			return f->variables[i].place;
	naive_die(NULL, "unknown parameter");
}

static void add_variable(struct func *f, const char *name, size_t n)
{
	struct variable *v = &f->variables[f->n_variables];

	copy_word(v->name, name, n);
	v->place = f->n_variables++;
	if (f->n_variables == VARIABLES)
		abort();
}

/* .func (.param .b32 z) name(.param .b32 x, .param .b32 y) and .entry name(...) */
static void read_function(const char *p)
{
	struct func *f = &funcs[n_funcs++];
	const char *list;

	*f = (struct func){.first = n_insns};
	p = strstr(p, ".func") ? strstr(p, ".func") + 5 : strstr(p, ".entry") + 6;
	for (p = skip(p); *p == '('; p = skip(p + 1)) {
		for (list = p; *list != ')'; list++)
			if (strncmp(list, ".b32 ", 5) == 0) {
				add_variable(f, list + 5, word_length(list + 5));
				f->n_rets++;
			}
		p = list;
	}
	copy_word(f->name, p, word_length(p));
	for (list = p + word_length(p); *list && *list != '{'; list++) {
		if (strncmp(list, ".b32 ", 5) == 0 || strncmp(list, ".u64 ", 5) == 0) {
			add_variable(f, list + 5, word_length(list + 5));
			f->n_params++;
		}
	}
}

static void read_line(const char *p)
{
	size_t n;

	p = skip(p);
	n = word_length(p);
	if (strstr(p, ".entry") || strstr(p, ".func")) {
		read_function(p);
	} else if (strncmp(p, ".param", 6) == 0) {
		add_variable(&funcs[n_funcs - 1], p + 12, word_length(p + 12));
	} else if (*p == '\0' || strchr(".{}/", *p)) {
		return; /* what the interpreter knows by itself */
	} else if (p[n] == ':') {
		if (n_labels == LABELS)
			abort();
		copy_word(labels[n_labels].name, p, n);
		labels[n_labels++].at = n_insns;
	} else {
		read_instruction(p);
	}
}

static void read_text(const char *text)
{
	n_insns = n_labels = n_funcs = 0;
	while (*text) {
		char line[512];
		size_t n = strcspn(text, "\n");

		if (n >= sizeof(line))
			abort();
		memcpy(line, text, n);
		line[n] = '\0';
		read_line(line);
		text += n + (text[n] == '\n');
	}
	for (int i = 0; i < n_insns; i++)
		for (int k = 0; k < n_labels; k++)
			if (naive_is(&insns[i], "bra") &&
				strcmp(insns[i].ops[0].name, labels[k].name) == 0)
				insns[i].target = labels[k].at;
}

/* ---- lanes ---- */

struct frame {
	struct func *func;
	int pc;
	uint64_t registers[4][REGISTERS];
	uint64_t variables[VARIABLES];
	uint32_t carry;
	uint8_t local[NAIVE_LOCAL_BYTES];
};

struct lane {
	uint32_t tid, ntid;
	struct frame frames[DEPTH];
	int depth;
	bool has_ended, waits;
	uint32_t steps;
};

static struct lane lanes[NAIVE_THREADS_MAX];
static uint8_t shared[NAIVE_SHARED_BYTES];

static uint64_t *reg_at(struct frame *f, const struct naive_operand *o)
{
	static const char classes[] = "phrd";

	return &f->registers[strchr(classes, o->class) - classes][o->index];
}

static uint64_t special(const struct lane *l, const struct naive_insn *in, const char *name)
{
	if (strcmp(name, "%tid.x") == 0)
		return l->tid;
	if (strcmp(name, "%ntid.x") == 0)
		return l->ntid;
	if (strcmp(name, "%laneid") == 0)
		return l->tid % LANES;
	if (strcmp(name, "%warpid") == 0)
		return l->tid / LANES;
	if (strcmp(name, "%ctaid.x") == 0)
		return 0;
	if (strcmp(name, "%lanemask_eq") == 0)
		return 1u << l->tid % LANES;
	if (strcmp(name, "%lanemask_lt") == 0)
		return (1u << l->tid % LANES) - 1;
	naive_die(in, "unknown special register");
}

static uint64_t cut(uint64_t v, int bits)
{
	return bits == 64 ? v : v & ((UINT64_C(1) << bits) - 1);
}

static uint64_t value(struct lane *l, const struct naive_insn *in, int i, int bits)
{
	const struct naive_operand *o = &in->ops[i];
	uint64_t v;

	switch (o->kind) {
	case 'r': v = *reg_at(&l->frames[l->depth], o); break;
	case 'i': v = o->number; break;
	case 's': v = special(l, in, o->name); break;
	case 'l': v = 0; break; /* the address of a variable in its space */
	default: naive_die(in, "operand without value");
	}
	if (o->is_negated)
		v = !v;
	return cut(v, bits);
}

static int class_bits(char class)
{
	return class == 'p' ? 1 : class == 'h' ? 16 : class == 'r' ? 32 : 64;
}

static void put(struct lane *l, const struct naive_operand *o, uint64_t v)
{
	if (o->kind == '_')
		return;
	*reg_at(&l->frames[l->depth], o) = cut(v, class_bits(o->class));
}

/* ---- memory ---- */

static uint8_t *memory_at(struct lane *l, const struct naive_insn *in, int i, int bytes)
{
	const struct naive_operand *o = &in->ops[i];
	uint64_t at = (o->kind == 'l' ? 0 : value(l, in, i, 64)) + (uint64_t)o->offset;
	bool is_shared = naive_has(in, "shared"), is_local = naive_has(in, "local");

	if (!is_shared && !is_local && at >= GENERIC_LOCAL) {
		at -= GENERIC_LOCAL;
		is_local = true;
	} else if (!is_shared && !is_local && at >= GENERIC_SHARED) {
		at -= GENERIC_SHARED;
		is_shared = true;
	}
	if (at % (uint64_t)bytes)
		naive_die(in, "misaligned");
	if (is_shared && at + (uint64_t)bytes <= sizeof(shared))
		return shared + at;
	if (is_local && at + (uint64_t)bytes <= NAIVE_LOCAL_BYTES)
		return l->frames[l->depth].local + at;
	if (is_shared || is_local)
		naive_die(in, "out of range");
	return (uint8_t *)(uintptr_t)at;
}

static void load(struct lane *l, const struct naive_insn *in, int n)
{
	const struct naive_type t = in->types[0];
	int bytes = t.bits / 8;

	if (naive_has(in, "param")) {
		struct frame *f = &l->frames[l->depth];

		put(l, &in->ops[0], f->variables[place_of(f->func, in->ops[1].name)]);
		return;
	}
	for (int i = 0; i < n; i++) {
		uint64_t v = 0;

		memcpy(&v, memory_at(l, in, n, bytes * n) + i * bytes, (size_t)bytes);
		if (t.kind == 's')
			v = (uint64_t)naive_signed(v, t.bits);
		put(l, &in->ops[i], v);
	}
}

static void store(struct lane *l, const struct naive_insn *in, int n)
{
	int bytes = in->types[0].bits / 8;

	if (naive_has(in, "param")) {
		struct frame *f = &l->frames[l->depth];

		f->variables[place_of(f->func, in->ops[0].name)] = value(l, in, 1, 64);
		return;
	}
	for (int i = 0; i < n; i++) {
		uint64_t v = value(l, in, 1 + i, 64);

		memcpy(memory_at(l, in, 0, bytes * n) + i * bytes, &v, (size_t)bytes);
	}
}

static void atomic(struct lane *l, const struct naive_insn *in)
{
	const struct naive_type t = in->types[0];
	const int at = naive_is(in, "atom") ? 1 : 0;
	uint8_t *p = memory_at(l, in, at, t.bits / 8);
	uint64_t old = 0, now, c = in->n_ops > at + 2 ? value(l, in, at + 2, t.bits) : 0;

	memcpy(&old, p, (size_t)t.bits / 8);
	now = naive_atomic(in, old, value(l, in, at + 1, t.bits), c);
	memcpy(p, &now, (size_t)t.bits / 8);
	if (at)
		put(l, &in->ops[0], old);
}

/* ---- one lane ---- */

static void compare(struct lane *l, const struct naive_insn *in)
{
	const struct naive_type t = in->types[0];
	bool has_pair = strchr(in->text, '|') != NULL;
	int at = has_pair ? 2 : 1;
	bool r = naive_compare(in, t, value(l, in, at, t.bits), value(l, in, at + 1, t.bits));
	bool p = r, q = !r;

	if (in->n_ops > at + 2) {
		bool c = value(l, in, at + 2, 1) != 0;

		p = naive_has(in, "and") ? r && c : naive_has(in, "or") ? r || c : r != c;
		q = naive_has(in, "and") ? !r && c : naive_has(in, "or") ? !r || c : !r != c;
	}
	put(l, &in->ops[0], p);
	if (has_pair)
		put(l, &in->ops[1], q);
}

/* mov.b32 %r, {%h, %h} and back */
static void move_parts(struct lane *l, const struct naive_insn *in)
{
	int n = in->n_ops - 1, bits = in->types[0].bits / n;
	bool is_pack = strchr(in->text, '{') > strchr(in->text, ',');
	uint64_t v = 0;

	if (is_pack) {
		for (int i = 0; i < n; i++)
			v |= value(l, in, 1 + i, bits) << (bits * i);
		put(l, &in->ops[0], v);
		return;
	}
	v = value(l, in, n, 64);
	for (int i = 0; i < n; i++)
		put(l, &in->ops[i], cut(v >> (bits * i), bits));
}

/* In which size an instruction reads its operand number i. */
static int operand_bits(const struct naive_insn *in, int i)
{
	const int bits = in->types[0].bits;

	if (naive_is(in, "cvt") || naive_is(in, "set"))
		return in->types[1].bits;
	if (naive_is(in, "selp") && i == 3)
		return 1;
	if ((naive_is(in, "slct") && i == 3) || (naive_is(in, "shl") && i == 2) ||
		(naive_is(in, "shr") && i == 2) || (naive_is(in, "bfe") && i >= 2) ||
		(naive_is(in, "bfi") && i >= 3))
		return 32;
	return naive_has(in, "wide") && i == 3 ? 2 * bits : bits;
}

static void compute(struct lane *l, const struct naive_insn *in)
{
	struct frame *f = &l->frames[l->depth];
	const struct naive_type t = in->types[0];
	uint64_t s[4] = {0}, r;

	for (int i = 1; i < in->n_ops && i <= 4; i++)
		s[i - 1] = value(l, in, i, operand_bits(in, i));
	r = naive_compute(in, s, &f->carry);
	/* A conversion fills the whole register. */
	if (naive_is(in, "cvt"))
		r = t.kind == 's' ? (uint64_t)naive_signed(cut(r, t.bits), t.bits) : cut(r, t.bits);
	put(l, &in->ops[0], r);
}

static void call(struct lane *l, const struct naive_insn *in)
{
	struct frame *from = &l->frames[l->depth], *to = &l->frames[l->depth + 1];

	if (l->depth + 1 == DEPTH)
		naive_die(in, "too deep");
	for (int i = 0; i < n_funcs; i++) {
		struct func *f = &funcs[i];

		if (strcmp(f->name, in->ops[f->n_rets].name) != 0 || f->n_rets + 1 > in->n_ops)
			continue;
		memset(to, 0, sizeof(*to));
		to->func = f;
		to->pc = f->first;
		for (int k = 0; k < f->n_params; k++)
			to->variables[f->n_rets + k] = from->variables[place_of(
				from->func, in->ops[f->n_rets + 1 + k].name)];
		l->depth++;
		return;
	}
	naive_die(in, "unknown function");
}

static void leave(struct lane *l, const struct naive_insn *in, bool is_exit)
{
	struct frame *from = &l->frames[l->depth], *to;
	const struct naive_insn *caller;

	if (is_exit || l->depth == 0) {
		l->has_ended = true;
		return;
	}
	to = &l->frames[--l->depth];
	caller = &insns[to->pc - 1];
	for (int k = 0; k < from->func->n_rets; k++)
		to->variables[place_of(to->func, caller->ops[k].name)] = from->variables[k];
}

static void carry_out(struct lane *l, const struct naive_insn *in)
{
	const int n = naive_has(in, "v4") ? 4 : naive_has(in, "v2") ? 2 : 1;

	if (naive_is(in, "ld"))
		load(l, in, n);
	else if (naive_is(in, "st"))
		store(l, in, n);
	else if (naive_is(in, "atom") || naive_is(in, "red"))
		atomic(l, in);
	else if (naive_is(in, "setp"))
		compare(l, in);
	else if (naive_is(in, "testp"))
		put(l, &in->ops[0], naive_test(in, value(l, in, 1, in->types[0].bits)));
	else if (naive_is(in, "mov") && strchr(in->text, '{'))
		move_parts(l, in);
	else if (naive_is(in, "cvta"))
		put(l, &in->ops[0],
			value(l, in, 1, 64) +
				(naive_has(in, "shared") ? GENERIC_SHARED : GENERIC_LOCAL));
	else if (naive_is(in, "isspacep"))
		put(l, &in->ops[0], value(l, in, 1, 64) >> 60 == (naive_has(in, "shared") ? 1 : 2));
	else if (naive_is(in, "call"))
		call(l, in);
	else
		compute(l, in);
}

static bool is_collective(const struct naive_insn *in)
{
	static const char *const names[] = {"bar", "vote", "shfl", "match", "redux"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (naive_is(in, names[i]))
			return true;
	return false;
}

/* Runs a lane until it ends or waits at an instruction of several lanes. */
static void run_lane(struct lane *l)
{
	while (!l->has_ended) {
		struct frame *f = &l->frames[l->depth];
		const struct naive_insn *in = &insns[f->pc];
		bool is_on = true;

		if (l->steps++ == STEPS_MAX)
			naive_die(in, "too many steps");
		if (in->guard >= 0)
			is_on = (f->registers[0][in->guard] != 0) != in->is_guard_negated;
		if (is_on && is_collective(in)) {
			l->waits = true;
			return;
		}
		f->pc++;
		if (!is_on)
			continue;
		if (naive_is(in, "bra"))
			f->pc = in->target;
		else if (naive_is(in, "ret") || naive_is(in, "exit"))
			leave(l, in, naive_is(in, "exit"));
		else
			carry_out(l, in);
	}
}

/* ---- several lanes ---- */

static const struct naive_insn *insn_of(const struct lane *l)
{
	return &insns[l->frames[l->depth].pc];
}

/* The place of the operand with the member mask; -1: a barrier of the block. */
static int mask_place(const struct naive_insn *in)
{
	return naive_is(in, "bar") && !naive_has(in, "warp") ? -1 : in->n_ops - 1;
}

static void vote(struct lane *const *m, int n, const struct naive_insn *in)
{
	uint32_t votes = 0, members = 0;

	for (int i = 0; i < n; i++) {
		members |= 1u << m[i]->tid % LANES;
		votes |= (uint32_t)value(m[i], in, 1, 1) << m[i]->tid % LANES;
	}
	for (int i = 0; i < n; i++)
		put(m[i], &in->ops[0],
			naive_has(in, "ballot")        ? votes
				: naive_has(in, "all") ? votes == members
				: naive_has(in, "any") ? votes != 0
						       : votes == 0 || votes == members);
}

static void shuffle(struct lane *const *m, int n, const struct naive_insn *in)
{
	const bool has_pair = strchr(in->text, '|') != NULL;
	const int at = has_pair ? 2 : 1;
	uint64_t results[LANES];
	bool found[LANES];

	for (int i = 0; i < n; i++) {
		int lane = (int)(m[i]->tid % LANES), j;
		int b = (int)value(m[i], in, at + 1, 5), c = (int)value(m[i], in, at + 2, 32);
		int segment = c >> 8 & 31, clamp = c & 31;
		int most = (lane & segment) | (clamp & ~segment), least = lane & segment;

		if (naive_has(in, "up")) {
			j = lane - b;
			found[i] = j >= most;
		} else {
			j = naive_has(in, "down")       ? lane + b
				: naive_has(in, "bfly") ? lane ^ b
							: least | (b & ~segment);
			found[i] = j <= most;
		}
		if (!found[i])
			j = lane;
		results[i] = 0;
		for (int k = 0; k < n; k++)
			if ((int)(m[k]->tid % LANES) == j)
				results[i] = value(m[k], in, at, 32);
	}
	for (int i = 0; i < n; i++) {
		put(m[i], &in->ops[0], results[i]);
		if (has_pair)
			put(m[i], &in->ops[1], found[i]);
	}
}

static void match(struct lane *const *m, int n, const struct naive_insn *in)
{
	const bool has_pair = strchr(in->text, '|') != NULL;
	const int at = has_pair ? 2 : 1, bits = in->types[0].bits;
	uint64_t values[LANES];

	for (int i = 0; i < n; i++)
		values[i] = value(m[i], in, at, bits);
	for (int i = 0; i < n; i++) {
		uint32_t same = 0, members = 0;

		for (int k = 0; k < n; k++) {
			members |= 1u << m[k]->tid % LANES;
			same |= (uint32_t)(values[k] == values[i]) << m[k]->tid % LANES;
		}
		if (naive_has(in, "all"))
			same = same == members ? members : 0;
		put(m[i], &in->ops[0], same);
		if (has_pair)
			put(m[i], &in->ops[1], same != 0);
	}
}

static void reduce(struct lane *const *m, int n, const struct naive_insn *in)
{
	uint64_t r = value(m[0], in, 1, 32);

	for (int i = 1; i < n; i++)
		r = naive_atomic(in, r, value(m[i], in, 1, 32), 0);
	for (int i = 0; i < n; i++)
		put(m[i], &in->ops[0], r);
}

static void barrier(struct lane *const *m, int n, const struct naive_insn *in)
{
	int count = 0;

	if (!naive_has(in, "red"))
		return;
	for (int i = 0; i < n; i++)
		count += value(m[i], in, in->n_ops - 1, 1) != 0;
	for (int i = 0; i < n; i++)
		put(m[i], &in->ops[0],
			naive_has(in, "popc")          ? (uint64_t)count
				: naive_has(in, "and") ? count == n
						       : count != 0);
}

/* Carries out the instruction at which this lane waits, if all lanes that it needs are there. */
static bool run_collective(uint32_t threads, uint32_t first)
{
	const struct naive_insn *in = insn_of(&lanes[first]);
	int place = mask_place(in), n = 0;
	uint32_t from = place < 0 ? 0 : first / LANES * LANES;
	uint32_t to = place < 0 || from + LANES > threads ? threads : from + LANES;
	uint32_t mask = place < 0 ? UINT32_MAX : (uint32_t)value(&lanes[first], in, place, 32);
	struct lane *members[NAIVE_THREADS_MAX];

	for (uint32_t i = from; i < to; i++) {
		if (lanes[i].has_ended || (place >= 0 && !(mask >> (i % LANES) & 1)))
			continue;
		if (!lanes[i].waits || insn_of(&lanes[i]) != in)
			return false;
		members[n++] = &lanes[i];
	}
	if (naive_is(in, "vote"))
		vote(members, n, in);
	else if (naive_is(in, "shfl"))
		shuffle(members, n, in);
	else if (naive_is(in, "match"))
		match(members, n, in);
	else if (naive_is(in, "redux"))
		reduce(members, n, in);
	else
		barrier(members, n, in);
	for (int i = 0; i < n; i++) {
		members[i]->waits = false;
		members[i]->frames[members[i]->depth].pc++;
	}
	return true;
}

void naive_run(const char *text, uint32_t threads, const void *in, void *out)
{
	bool has_progress = true;

	read_text(text);
	memset(shared, 0, sizeof(shared));
	for (uint32_t i = 0; i < threads; i++) {
		struct lane *l = &lanes[i];

		l->tid = i;
		l->ntid = threads;
		l->depth = 0;
		l->has_ended = l->waits = false;
		l->steps = 0;
		memset(&l->frames[0], 0, sizeof(l->frames[0]));
		l->frames[0].func = &funcs[n_funcs - 1];
		l->frames[0].pc = l->frames[0].func->first;
		l->frames[0].variables[0] = (uint64_t)(uintptr_t)in;
		l->frames[0].variables[1] = (uint64_t)(uintptr_t)out;
	}
	while (has_progress) {
		has_progress = false;
		for (uint32_t i = 0; i < threads; i++)
			if (!lanes[i].has_ended && !lanes[i].waits) {
				run_lane(&lanes[i]);
				has_progress = true;
			}
		for (uint32_t i = 0; i < threads; i++)
			if (!lanes[i].has_ended && lanes[i].waits)
				has_progress |= run_collective(threads, i);
	}
	for (uint32_t i = 0; i < threads; i++)
		if (!lanes[i].has_ended)
			naive_die(insn_of(&lanes[i]), "lanes wait for ever");
}
