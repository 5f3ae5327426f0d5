/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs come from templates. In a template, "<a|b>" is a choice, and letters stand for operands:
 *
 *   R D H P   a register of 32, 64, 16 bits, or a predicate
 *   r d h     a register or a number
 *   n         a register of 32 bits or a small number, for shifts
 *   L         a number below 256
 *
 * A format behind "!" is that of a result that may be a NaN with bits that the ISA leaves open. The
 * program then replaces each NaN by one pattern. Registers from %r12, %d8, %h8 and %p6 on are the
 * generator's own.
 */
#include "ptx-generate.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DATA_R = 12, DATA_D = 8, DATA_H = 8, DATA_P = 6, DEPTH_MAX = 3, SCRATCH = 256 };

struct generator {
	struct rand *rand;
	char *text;
	size_t n;
	uint32_t threads, labels, depth, n_funcs;
	bool is_function;
	/* lanes of a warp that are here together: all, those of %r24, or unknown ones */
	enum { ALL, SOME, UNKNOWN } together;
};

static uint32_t below(struct generator *g, uint32_t n)
{
	return (uint32_t)rand_below(g->rand, n);
}

__attribute__((format(printf, 2, 3))) static void put(struct generator *g, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(g->text + g->n, GENERATE_TEXT_MAX - g->n, format, args);
	va_end(args);
	if (n < 0 || (size_t)n >= GENERATE_TEXT_MAX - g->n)
		abort();
	g->n += (size_t)n;
}

/* ---- templates ---- */

static const char *const integers[] = {
	"<add|sub>.<u32|s32> R, R, r",
	"<add|sub>.sat.s32 R, R, r",
	"<add|sub>.<u64|s64> D, D, d",
	"<add|sub>.<u16|s16> H, H, h",
	"mul.<lo|hi>.<u16|s16> H, H, h",
	"mul.<lo|hi>.<u32|s32> R, R, r",
	"mul.<lo|hi>.<u64|s64> D, D, d",
	"mul.wide.<u16|s16> R, H, h",
	"mul.wide.<u32|s32> D, R, r",
	"mad.lo.<u16|s16> H, H, h, h",
	"mad.<lo|hi>.<u32|s32> R, R, r, r",
	"mad.<lo|hi>.<u64|s64> D, D, d, d",
	"mad.wide.<u16|s16> R, H, h, r",
	"mad.wide.<u32|s32> D, R, r, d",
	"mul24.<lo|hi>.<u32|s32> R, R, R",
	"mad24.<lo|hi>.<u32|s32> R, R, R, R",
	"sad.<u16|s16> H, H, h, h",
	"sad.<u32|s32> R, R, r, r",
	"sad.<u64|s64> D, D, d, d",
	"<abs|neg>.s16 H, H",
	"<abs|neg>.s32 R, R",
	"<abs|neg>.s64 D, D",
	"<min|max>.<u16|s16> H, H, h",
	"<min|max>.<u32|s32> R, R, r",
	"<min|max>.<u64|s64> D, D, d",
	"<min|max>.<u16x2|s16x2> R, R, R",
	"<min|max>.relu.s32 R, R, R",
	"<popc|clz>.b32 R, R",
	"<popc|clz>.b64 R, D",
	"brev.b32 R, R",
	"brev.b64 D, D",
	"bfind<|.shiftamt>.<u32|s32> R, R",
	"bfind<|.shiftamt>.<u64|s64> R, D",
	"bfe.<u32|s32> R, R, n, n",
	"bfe.<u64|s64> D, D, n, n",
	"bfi.b32 R, R, R, n, n",
	"bfi.b64 D, D, D, n, n",
	"bmsk.<clamp|wrap>.b32 R, n, n",
	"szext.<clamp|wrap>.<u32|s32> R, R, n",
	"dp4a.<u32|s32>.<u32|s32> R, R, R, R",
	"dp2a.<lo|hi>.<u32|s32>.<u32|s32> R, R, R, R",
	"shl.b16 H, H, n",
	"shl.b32 R, R, n",
	"shl.b64 D, D, n",
	"shr.<b16|u16|s16> H, H, n",
	"shr.<b32|u32|s32> R, R, n",
	"shr.<b64|u64|s64> D, D, n",
	"shf.<l|r>.<clamp|wrap>.b32 R, R, R, n",
	"<and|or|xor>.b16 H, H, h",
	"<and|or|xor>.b32 R, R, r",
	"<and|or|xor>.b64 D, D, d",
	"<not|cnot>.b16 H, H",
	"<not|cnot>.b32 R, R",
	"<not|cnot>.b64 D, D",
	"lop3.b32 R, R, R, R, L",
	"prmt.b32<|.f4e|.b4e|.rc8|.ecl|.ecr|.rc16> R, R, R, r",
	"add.cc.u32 R, R, r;\naddc.cc.u32 R, R, r;\naddc.u32 R, R, r",
	"sub.cc.u32 R, R, r;\nsubc.cc.u32 R, R, r;\nsubc.u32 R, R, r",
	"add.cc.u64 D, D, d;\naddc.u64 D, D, d",
	"sub.cc.u64 D, D, d;\nsubc.u64 D, D, d",
	"mad.lo.cc.u32 R, R, R, R;\nmadc.hi.cc.u32 R, R, R, R;\naddc.u32 R, R, 0",
	"mad.hi.cc.u32 R, R, R, R;\nmadc.lo.u32 R, R, R, R",
	"or.b16 %h9, H, 1;\nand.b16 %h9, %h9, 0x7fff;\n<div|rem>.<u16|s16> H, H, %h9",
	"or.b32 %r12, R, 1;\nand.b32 %r12, %r12, 0x7fffffff;\n<div|rem>.<u32|s32> R, R, %r12",
	"or.b64 %d12, D, 2;\nshr.u64 %d12, %d12, 1;\n<div|rem>.<u64|s64> D, D, %d12",
	"and.b32 %r12, R, 255;\nor.b32 %r12, %r12, 3;\n<div|rem>.<u32|s32> R, R, %r12",
	"mov.b32 R, {H, H}",
	"mov.b64 D, {R, R}",
	"mov.b64 D, {H, H, H, H}",
	"mov.b32 {H, %h9}, R",
	"mov.b64 {R, %r12}, D",
	"mov.b64 {H, %h9, %h10, %h11}, D",
	"mov.<b32|u32|s32> R, r",
	"mov.b64 D, d",
	"mov.b16 H, h",
	"mov.u32 R, <%laneid|%tid.x|%ntid.x|%lanemask_eq|%lanemask_lt>",
};

static const char *const predicates[] = {
	"setp.<eq|ne|lt|le|gt|ge>.<u16|s16> P, H, h",
	"setp.<eq|ne|lt|le|gt|ge>.<u32|s32> P, R, r",
	"setp.<eq|ne|lt|le|gt|ge>.<u64|s64> P, D, d",
	"setp.<lo|ls|hi|hs>.u32 P, R, r",
	"setp.<eq|ne>.b32 P, R, r",
	"setp.<eq|lt|ge>.<and|or|xor>.s32 P, R, r, P",
	"setp.<eq|lt|ge>.<and|or|xor>.u64 %p4|%p5, D, d, P",
	"setp.<ne|le|gt>.s32 %p0|%p1, R, r",
	"setp.<eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan><|.ftz>.f32 P, R, R",
	"setp.<eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan>.f64 P, D, D",
	"setp.<eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan>.f16 P, H, H",
	"setp.<eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan>.bf16 P, H, H",
	"setp.<lt|nan>.<and|or|xor>.f32 P, R, R, P",
	"set.<eq|ne|lt|le|gt|ge>.<u32|s32|f32>.<u32|s32> R, R, R",
	"set.<eq|lt|ltu|geu|nan|num>.<u32|s32|f32>.f32 R, R, R",
	"set.<eq|lt|ltu|geu|nan|num>.<u32|f32>.f64 R, D, D",
	"testp.<finite|infinite|number|notanumber|normal|subnormal>.f32 P, R",
	"testp.<finite|infinite|number|notanumber|normal|subnormal>.f64 P, D",
	"selp.b16 H, H, h, P",
	"selp.<b32|u32|f32> R, R, R, P",
	"selp.<b64|f64> D, D, D, P",
	"slct.<b32|f32>.s32 R, R, R, R",
	"slct<|.ftz>.b32.f32 R, R, R, R",
	"slct.b64.<s32|f32> D, D, D, R",
	"<and|or|xor>.pred P, P, P",
	"not.pred P, P",
};

static const char *const floats[] = {
	"<add|sub|mul><|.rn|.rz|.rm|.rp><|.ftz><|.sat>.f32 R, R, R",
	"fma.<rn|rz|rm|rp><|.ftz><|.sat>.f32 R, R, R, R",
	"div.<rn|rz|rm|rp><|.ftz>.f32 R, R, R",
	"<rcp|sqrt>.<rn|rz|rm|rp><|.ftz>.f32 R, R",
	"<min|max><|.ftz><|.NaN><|.xorsign.abs>.f32 R, R, R",
	"<abs|neg><|.ftz>.f32 R, R!f32",
	"copysign.f32 R, R, R",
	"<add|sub|mul><|.rn|.rz|.rm|.rp>.f64 D, D, D!f64",
	"fma.<rn|rz|rm|rp>.f64 D, D, D, D!f64",
	"div.<rn|rz|rm|rp>.f64 D, D, D!f64",
	"<rcp|sqrt>.<rn|rz|rm|rp>.f64 D, D!f64",
	"<min|max>.f64 D, D, D!f64",
	"<abs|neg>.f64 D, D!f64",
	"copysign.f64 D, D, D",
	"<add|sub|mul><|.rn><|.ftz><|.sat>.f16 H, H, H",
	"<add|sub|mul><|.rn><|.ftz><|.sat>.f16x2 R, R, R",
	"fma.rn<|.ftz><|.sat|.relu>.f16 H, H, H, H",
	"fma.rn<|.ftz><|.sat|.relu>.f16x2 R, R, R, R",
	"<add|sub|mul>.bf16 H, H, H",
	"<add|sub|mul>.bf16x2 R, R, R",
	"fma.rn<|.relu>.bf16 H, H, H, H",
	"fma.rn<|.relu>.bf16x2 R, R, R, R",
	"<min|max><|.ftz><|.NaN><|.xorsign.abs>.f16 H, H, H",
	"<min|max><|.ftz><|.NaN><|.xorsign.abs>.f16x2 R, R, R",
	"<min|max><|.NaN><|.xorsign.abs>.bf16 H, H, H",
	"<min|max><|.NaN><|.xorsign.abs>.bf16x2 R, R, R",
	"<abs|neg><|.ftz>.f16 H, H!f16",
	"<abs|neg>.bf16 H, H!bf16",
	"cvt.<rn|rz><|.relu><|.satfinite>.<f16x2|bf16x2>.f32 R, R, R",
	"cvt.<rn|rz><|.relu><|.satfinite>.<f16|bf16>.f32 H, R",
};

static const char *const memory[] = {
	"st.shared.<b8|u8|s8> [%r20+<0|3|9|61>], R",
	"st.shared.<b16|u16> [%r20+<0|6|62>], H",
	"st.shared.<b32|u32|f32> [%r20+<0|8|20>], R",
	"st.shared.<b64|f64> [%r20+<8|16|24>], D",
	"st.shared.v2.b32 [%r20+<0|8|32>], {R, R}",
	"st.shared.v4.b32 [%r20+<0|16|48>], {R, R, R, R}",
	"st.shared.v2.b64 [%r20+<0|16|48>], {D, D}",
	"ld.shared.<u8|s8|b8> R, [%r20+<0|3|9|61>]",
	"ld.shared.<u8|s8> D, [%r20+<0|3|9|61>]",
	"ld.shared.<u16|s16> R, [%r20+<0|6|62>]",
	"ld.shared.<b32|u32|s32> R, [%r20+<0|8|20|28>]",
	"ld.shared.<u32|s32> D, [%r20+<0|8|20|28>]",
	"ld.shared.<b64|u64> D, [%r20+<8|16|24>]",
	"ld.shared.v2.b32 {R, %r12}, [%r20+<0|8|32>]",
	"ld.shared.v4.b32 {R, %r12, %r13, %r14}, [%r20+<0|16|48>]",
	"st.local.<b32|f32> [l+<0|4|60>], R",
	"st.local.b64 [l+<0|8|56>], D",
	"st.local.u8 [l+<0|7|63>], R",
	"ld.local.<b32|s32> R, [l+<0|4|60>]",
	"ld.local.<u16|s16> R, [l+<0|6|62>]",
	"ld.local.b64 D, [l+<0|8|56>]",
	"st.b32 [<%d8|%d9|%d10>+<0|4|20>], R",
	"ld.b32 R, [<%d8|%d9|%d10>+<0|4|20>]",
	"ld.<u8|s8> R, [<%d8|%d9|%d10>+<0|5|21>]",
	"st.global.<b16|u16> [%d10+<2|64>], H",
	"st.global.v2.b64 [%d10+<16|64>], {D, D}",
	"ld.global.<u16|s16> R, [%d10+<2|64>]",
	"ld.global.b64 D, [%d10+<16|24|64>]",
	"atom.<shared|shared|shared>.<add|min|max>.<u32|s32> R, [%r20+<0|8>], R",
	"atom.shared.<and|or|xor|exch>.b32 R, [%r20+<0|8>], R",
	"atom.shared.<inc|dec>.u32 R, [%r20+<0|8>], R",
	"atom.shared.cas.b32 R, [%r20+<0|8>], R, R",
	"atom.shared.<min|max>.<u64|s64> D, [%r20+<8|16>], D",
	"atom.shared.add.u64 D, [%r20+<8|16>], D",
	"atom.shared.cas.b64 D, [%r20+<8|16>], D, D",
	"atom.global.<add|min|max>.<u32|s32> R, [%d10+<0|4>], R",
	"atom.global.exch.b64 D, [%d10+<8|16>], D",
	"atom.<add|min>.u32 R, [<%d8|%d10>+<0|4>], R",
	"red.shared.<add|min|max>.<u32|s32> [%r20+<0|8>], R",
	"red.global.<and|or|xor>.b32 [%d10+<0|4>], R",
	"isspacep.<shared|local> P, <%d8|%d9|%d10>",
};

/* For lanes that are together; %r24 is the mask of them. */
static const char *const groups[] = {
	"vote.sync.<all|any|uni>.pred P, P, %r24",
	"vote.sync.ballot.b32 R, P, %r24",
	"match.any.sync.b32 R, R, %r24",
	"match.any.sync.b64 R, D, %r24",
	"match.all.sync.b32 %r3|%p2, R, %r24",
	"redux.sync.<add|min|max>.<u32|s32> R, R, %r24",
	"redux.sync.<and|or|xor>.b32 R, R, %r24",
};

/* For all lanes of the block. */
static const char *const blocks[] = {
	"shfl.sync.<up|down|bfly|idx>.b32 %r5|%p3, R, n, <0|31|0x1f|0x181f|0x1c1f|0x100f>, "
	"0xffffffff",
	"shfl.sync.<bfly|idx>.b32 R, R, <1|2|7|16>, 0x1f, 0xffffffff",
	"shfl.sync.<up>.b32 R, R, <1|2|7|16>, 0, 0xffffffff",
	"bar.red.popc.u32 R, 0, P",
	"bar.red.<and|or>.pred P, 0, P",
	"bar.sync 0",
	"red.shared.<add|min|max>.u32 [s+12288], R;\nbar.sync 0;\nld.shared.u32 R, [s+12288];\n"
	"bar.sync 0",
	"red.shared.<and|or|xor>.b32 [s+12292], R;\nbar.sync 0;\nld.shared.u32 R, [s+12292];\n"
	"bar.sync 0",
	"st.shared.b32 [%r20], R;\nbar.sync 0;\nand.b32 %r22, R, 31;\nshl.b32 %r22, %r22, 6;\n"
	"add.u32 %r22, %r22, %r23;\nld.shared.b32 R, [%r22];\nbar.sync 0",
};

static void put_number(struct generator *g, int bits)
{
	static const uint64_t special[] = {0, 1, 2, 31, 32, 33, 127, 128, 255, 0x7fff, 0x8000,
		0xffff, 0x7fffffff, 0x80000000, 0xffffffff};
	uint64_t v = below(g, 3) ? special[below(g, 15)] : rand_u64(g->rand);

	if (bits == 64)
		put(g, "0x%llx", (unsigned long long)v);
	else
		put(g, "0x%llx", (unsigned long long)(v & ((UINT64_C(1) << bits) - 1)));
}

/* Writes the operand of a letter. Returns false if it is none. */
static bool put_operand(struct generator *g, char letter)
{
	switch (letter) {
	case 'R': put(g, "%%r%u", below(g, DATA_R)); break;
	case 'D': put(g, "%%d%u", below(g, DATA_D)); break;
	case 'H': put(g, "%%h%u", below(g, DATA_H)); break;
	case 'P': put(g, "%%p%u", below(g, DATA_P)); break;
	case 'L': put(g, "%u", below(g, 256)); break;
	default: return false;
	}
	return true;
}

static void put_source(struct generator *g, char letter)
{
	if (below(g, 3)) {
		put_operand(g, letter == 'n' ? 'R' : (char)(letter - 'a' + 'A'));
		return;
	}
	if (letter == 'n')
		put(g, "%u", below(g, 70));
	else
		put_number(g, letter == 'r' ? 32 : letter == 'd' ? 64 : 16);
}

static const char *put_choice(struct generator *g, const char *t)
{
	uint32_t n = 1, chosen;
	const char *end = strchr(t, '>');

	for (const char *p = t; p < end; p++)
		n += *p == '|';
	chosen = below(g, n);
	for (; t < end; t++) {
		if (*t == '|')
			chosen--;
		else if (chosen == 0)
			put(g, "%c", *t);
	}
	return end;
}

static void put_guard(struct generator *g)
{
	if (below(g, 6) == 0)
		put(g, "@%s%%p%u ", below(g, 2) ? "" : "!", below(g, DATA_P));
}

/* Replaces each NaN in the first register of an instruction. */
static void put_plain_nan(struct generator *g, size_t from, const char *format)
{
	const char *reg = strchr(g->text + from, ' ');
	char name[8];
	size_t n;

	while (reg && *reg == ' ')
		reg++;
	if (reg && *reg != '%') /* behind a guard */
		reg = strchr(reg, '%');
	n = strcspn(reg, ",");
	memcpy(name, reg, n);
	name[n] = '\0';
	put(g, "setp.nan.%s %%p7, %s, %s;\n", format, name, name);
	put(g, "@%%p7 mov.b%d %s, %s;\n",
		name[1] == 'd'           ? 64
			: name[1] == 'r' ? 32
					 : 16,
		name,
		name[1] == 'd'           ? "0x7ff8000000000000"
			: name[1] == 'r' ? "0x7fc00000"
					 : "0x7fff");
}

static void put_template(struct generator *g, const char *t, bool may_guard)
{
	bool is_operand = false;
	size_t from;

	if (may_guard && !strchr(t, '\n')) /* several instructions go together */
		put_guard(g);
	from = g->n;
	for (; *t && *t != '!'; t++) {
		if (*t == ' ')
			is_operand = true;
		if (*t == '\n')
			is_operand = false;
		if (*t == '<')
			t = put_choice(g, t + 1);
		else if (is_operand && t[-1] != '%' && strchr("rdhn", *t) &&
			!(t[1] >= 'a' && t[1] <= 'z') && !(t[-1] >= 'a' && t[-1] <= 'z'))
			put_source(g, *t);
		else if (!is_operand || !put_operand(g, *t))
			put(g, "%c", *t);
	}
	put(g, ";\n");
	if (*t == '!')
		put_plain_nan(g, from, t + 1);
}

#define PUT_ONE_OF(g, list, may_guard) \
	put_template(g, (list)[below(g, sizeof(list) / sizeof((list)[0]))], may_guard)

/* ---- conversions ---- */

struct format {
	const char *name;
	char class;
	int bits;
	char kind;
};

static void put_conversion(struct generator *g)
{
	static const struct format formats[] = {{"u8", 'R', 8, 'u'}, {"s8", 'R', 8, 's'},
		{"u16", 'H', 16, 'u'}, {"s16", 'H', 16, 's'}, {"u32", 'R', 32, 'u'},
		{"s32", 'R', 32, 's'}, {"u64", 'D', 64, 'u'}, {"s64", 'D', 64, 's'},
		{"f16", 'H', 16, 'f'}, {"f32", 'R', 32, 'f'}, {"f64", 'D', 64, 'f'},
		{"bf16", 'H', 16, 'g'}};
	static const char *const roundings[] = {"rn", "rz", "rm", "rp"};
	static const char *const to_integer[] = {"rni", "rzi", "rmi", "rpi"};
	const struct format *to, *from;
	bool is_float, was_float, is_rounded, has_open_nan;
	char line[96];
	int n;

	do {
		to = &formats[below(g, 12)];
		from = &formats[below(g, 12)];
		is_float = to->kind == 'f' || to->kind == 'g';
		was_float = from->kind == 'f' || from->kind == 'g';
		/* bfloat16 goes to and from f32 alone */
	} while ((to->kind == 'g' && strcmp(from->name, "f32") != 0) ||
		(from->kind == 'g' && strcmp(to->name, "f32") != 0));
	has_open_nan = is_float && was_float &&
		(strcmp(from->name, "f16") != 0 || strcmp(to->name, "f32") != 0);
	is_rounded = is_float && (!was_float || from->bits > to->bits);
	n = snprintf(line, sizeof(line), "cvt");
	if (is_rounded)
		n += snprintf(line + n, sizeof(line) - (size_t)n, ".%s",
			roundings[below(g, to->kind == 'g' ? 2 : 4)]);
	else if (was_float && (!is_float || (to->bits == from->bits && below(g, 2))))
		n += snprintf(line + n, sizeof(line) - (size_t)n, ".%s", to_integer[below(g, 4)]);
	if ((strcmp(to->name, "f32") == 0 || strcmp(from->name, "f32") == 0) && to->kind != 'g' &&
		from->kind != 'g' && below(g, 4) == 0)
		n += snprintf(line + n, sizeof(line) - (size_t)n, ".ftz");
	if (to->kind != 'g' && from->kind != 'g' && below(g, 4) == 0)
		n += snprintf(line + n, sizeof(line) - (size_t)n, ".sat");
	snprintf(line + n, sizeof(line) - (size_t)n, ".%s.%s %c, %c%s%s", to->name, from->name,
		to->class, from->class, has_open_nan ? "!" : "", has_open_nan ? to->name : "");
	put_template(g, line, true);
}

/* ---- structure ---- */

static void put_block(struct generator *g, uint32_t n);

static void put_call(struct generator *g)
{
	uint32_t k = g->labels++, f = below(g, g->n_funcs);

	put(g, ".param .b32 x%u;\n.param .b32 y%u;\n.param .b32 z%u;\n", k, k, k);
	put(g, "st.param.b32 [x%u], %%r%u;\nst.param.b32 [y%u], %%r%u;\n", k, below(g, DATA_R), k,
		below(g, DATA_R));
	put_guard(g);
	put(g, "call (z%u), f%u, (x%u, y%u);\n", k, f, k, k);
	put(g, "ld.param.b32 %%r%u, [z%u];\n", below(g, DATA_R), k);
}

/* Lanes go different ways, and meet again. */
static void put_if(struct generator *g)
{
	uint32_t k = g->labels++, p = below(g, DATA_P);
	bool has_else = below(g, 2) != 0;
	int before = g->together;

	if (before == ALL) {
		put(g, "vote.sync.ballot.b32 %%r24, %%p%u, 0xffffffff;\n", p);
		g->together = SOME;
	} else {
		g->together = UNKNOWN;
	}
	put(g, "@!%%p%u bra %s%u;\n", p, has_else ? "E" : "J", k);
	put_block(g, 1 + below(g, 5));
	g->together = UNKNOWN;
	if (has_else) {
		put(g, "bra J%u;\nE%u:\n", k, k);
		put_block(g, 1 + below(g, 5));
	}
	put(g, "J%u:\n", k);
	g->together = before;
	if (before == ALL)
		put(g, "mov.u32 %%r24, 0xffffffff;\n");
}

static void put_loop(struct generator *g)
{
	uint32_t k = g->labels++, counter = 16 + g->depth, rounds = 1 + below(g, 4);
	bool is_even = below(g, 2) != 0; /* all lanes run as often */
	int before = g->together;

	if (!is_even)
		g->together = UNKNOWN;
	put(g, "mov.u32 %%r%u, 0;\nW%u:\n", counter, k);
	put_block(g, 1 + below(g, 5));
	put(g, "add.u32 %%r%u, %%r%u, 1;\n", counter, counter);
	if (is_even)
		put(g, "setp.lt.u32 %%p6, %%r%u, %u;\n", counter, rounds);
	else
		put(g, "setp.lt.and.u32 %%p6, %%r%u, %u, %%p%u;\n", counter, rounds,
			below(g, DATA_P));
	put(g, "@%%p6 bra W%u;\n", k);
	g->together = before;
}

static void put_statement(struct generator *g)
{
	uint32_t kind = below(g, 100);

	if (kind < 40)
		PUT_ONE_OF(g, integers, true);
	else if (kind < 52)
		PUT_ONE_OF(g, predicates, true);
	else if (kind < 70)
		PUT_ONE_OF(g, floats, true);
	else if (kind < 78)
		put_conversion(g);
	else if (kind < 86 && !g->is_function)
		PUT_ONE_OF(g, memory, true);
	else if (kind < 90 && g->together != UNKNOWN && !g->is_function)
		PUT_ONE_OF(g, groups, false);
	else if (kind < 94 && g->together == ALL && !g->is_function)
		PUT_ONE_OF(g, blocks, false);
	else if (kind < 96 && g->n_funcs && !g->is_function)
		put_call(g);
	else if (g->depth < DEPTH_MAX && kind < 98)
		put_if(g);
	else if (g->depth < DEPTH_MAX)
		put_loop(g);
	else
		PUT_ONE_OF(g, integers, true);
}

static void put_block(struct generator *g, uint32_t n)
{
	g->depth++;
	for (uint32_t i = 0; i < n; i++)
		put_statement(g);
	g->depth--;
}

static void put_registers(struct generator *g)
{
	put(g, ".reg .pred %%p<8>;\n.reg .b16 %%h<16>;\n.reg .b32 %%r<32>;\n.reg .b64 %%d<16>;\n");
}

static void put_function(struct generator *g)
{
	put(g, ".func (.param .b32 z) f%u(.param .b32 x, .param .b32 y)\n{\n", g->n_funcs);
	put_registers(g);
	put(g, "ld.param.b32 %%r0, [x];\nld.param.b32 %%r1, [y];\n");
	put(g, "mov.b64 %%d0, {%%r0, %%r1};\nmov.b32 {%%h0, %%h1}, %%r0;\n");
	g->is_function = true;
	g->together = UNKNOWN;
	put_block(g, 3 + below(g, 8));
	g->is_function = false;
	put(g, "xor.b32 %%r0, %%r0, %%r1;\nst.param.b32 [z], %%r0;\nret;\n}\n");
	g->n_funcs++;
}

/* Reads or writes the registers: d at 0, r at 64, h at 112, predicates at 128 (written only). */
static void put_transfer(struct generator *g, bool is_load, const char *base)
{
	static const struct {
		char class;
		int bits, count, at;
	} parts[] = {{'d', 64, DATA_D, 0}, {'r', 32, DATA_R, 64}, {'h', 16, DATA_H, 112}};

	for (size_t k = 0; k < sizeof(parts) / sizeof(parts[0]); k++)
		for (int i = 0; i < parts[k].count; i++) {
			int at = parts[k].at + i * parts[k].bits / 8;

			if (is_load)
				put(g, "ld.global.b%d %%%c%d, [%s+%d];\n", parts[k].bits,
					parts[k].class, i, base, at);
			else
				put(g, "st.global.b%d [%s+%d], %%%c%d;\n", parts[k].bits, base, at,
					parts[k].class, i);
		}
	for (int i = 0; i < DATA_P; i++) {
		if (is_load)
			put(g, "setp.lt.s32 %%p%d, %%r%d, %%r%d;\n", i, i, i + 1);
		else
			put(g, "selp.b32 %%r12, 1, 0, %%p%d;\nst.global.b32 [%s+%d], %%r12;\n", i,
				base, 128 + 4 * i);
	}
}

void generate_program(struct rand *rand, uint32_t threads, char *ret_text)
{
	struct generator g = {.rand = rand, .text = ret_text, .threads = threads};
	uint32_t n = below(&g, 3);

	put(&g, ".version 8.6\n.target sm_90\n.address_size 64\n");
	while (g.n_funcs < n)
		put_function(&g);
	put(&g, ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n");
	put_registers(&g);
	put(&g, ".shared .align 16 .b8 s[16384];\n.local .align 16 .b8 l[64];\n");
	put(&g, "ld.param.u64 %%d13, [in];\nld.param.u64 %%d14, [out];\nmov.u32 %%r25, %%tid.x;\n");
	put(&g, "mul.wide.u32 %%d15, %%r25, %d;\nadd.s64 %%d13, %%d13, %%d15;\n", GENERATE_RECORD);
	put(&g, "add.s64 %%d14, %%d14, %%d15;\nadd.s64 %%d10, %%d14, %d;\n", SCRATCH);
	put(&g, "shl.b32 %%r20, %%r25, 6;\nmov.u32 %%r23, s;\nadd.u32 %%r20, %%r20, %%r23;\n");
	put(&g, "cvt.u64.u32 %%d8, %%r20;\ncvta.shared.u64 %%d8, %%d8;\n");
	put(&g, "mov.u64 %%d9, l;\ncvta.local.u64 %%d9, %%d9;\nmov.u32 %%r24, 0xffffffff;\n");
	for (int i = 0; i < 64; i += 8) /* local memory begins with anything */
		put(&g, "st.local.b64 [l+%d], 0;\nst.shared.b64 [%%r20+%d], 0;\n", i, i);
	put(&g, "st.shared.b64 [s+12288], 0;\n");
	put_transfer(&g, true, "%d13");
	put(&g, "bar.sync 0;\n");
	g.together = ALL;
	put_block(&g, 10 + below(&g, 40));
	put_transfer(&g, false, "%d14");
	put(&g, "ret;\n}\n");
}

/* ---- input ---- */

static uint64_t pattern(struct rand *rand)
{
	static const uint64_t special[] = {0, 1, 0x80, 0xff, 0x7c00, 0xfc00, 0x7e00, 0x3c00, 0x0400,
		0x03ff, 0x8001, 0x7bff, 0x7f80, 0x3f80, 0x7fff, 0x8000, 0xffff, 0x7f800000,
		0xff800000, 0x7fc00000, 0x3f800000, 0x00800000, 0x007fffff, 0x80000001, 0x7f7fffff,
		0x80000000, 0x7fffffff, 0x4f000000, 0xcf000000, 0x3f000000, 0xbfc00000,
		0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000000, 0x3ff0000000000000,
		0x0010000000000000, 0x000fffffffffffff, 0x8000000000000001, 0x7fefffffffffffff,
		0x8000000000000000, 0x7fffffffffffffff, 0x43e0000000000000, 0x41e0000000000000,
		0xffffffffffffffff, 0xbff8000000000000};
	uint64_t v = special[rand_below(rand, sizeof(special) / sizeof(special[0]))];

	switch (rand_below(rand, 5)) {
	case 0: return v;
	case 1: return v | v << 32 | rand_below(rand, 4) << 16;
	case 2: return rand_below(rand, 100) - 50;
	case 3: return v ^ (UINT64_C(1) << rand_below(rand, 64));
	default: return rand_u64(rand);
	}
}

void generate_input(struct rand *rand, uint32_t threads, uint8_t *ret_input)
{
	memset(ret_input, 0, (size_t)threads * GENERATE_RECORD);
	for (uint32_t i = 0; i < threads; i++) {
		uint8_t *record = ret_input + (size_t)i * GENERATE_RECORD;

		for (int k = 0; k < 8; k++) {
			uint64_t v = pattern(rand);

			memcpy(record + 8 * k, &v, 8);
		}
		for (int k = 0; k < DATA_R; k++) {
			uint32_t v = (uint32_t)pattern(rand);

			memcpy(record + 64 + 4 * k, &v, 4);
		}
		for (int k = 0; k < DATA_H; k++) {
			uint16_t v = (uint16_t)pattern(rand);

			memcpy(record + 112 + 2 * k, &v, 2);
		}
	}
}
