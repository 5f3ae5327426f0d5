/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each instruction of one lane, on all combinations of interesting values. The expected results are
 * plain C of this file, with the compiler's own operators and builtins.
 */
#include "ptx-machine.h"

#include <fenv.h>
#include <math.h>

typedef uint16_t u16;
typedef int16_t s16;
typedef uint32_t u32;
typedef int32_t s32;
typedef uint64_t u64;
typedef int64_t s64;
typedef float f32;
typedef double f64;
typedef __int128 s128;
typedef unsigned __int128 u128;

static const u64 integers[] = {0, 1, 2, 3, 5, 7, 8, 15, 16, 31, 32, 33, 63, 64, 100, 127, 128, 255,
	256, 0x1234, 0x7ffe, 0x7fff, 0x8000, 0x8001, 0xffff, 0x10000, 0x12345678, 0x7fffffff,
	0x80000000, 0x80000001, 0xdeadbeef, 0xfffffffe, 0xffffffff, 0x100000000, 0x123456789abcdef0,
	0x7fffffffffffffff, 0x8000000000000000, 0xfedcba9876543210, 0xfffffffffffffffe,
	0xffffffffffffffff};
static const f64 floats[] = {0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, 7.25, 100.125,
	-1000.75, 0.1, 1.0 / 3, 65504, 65520, 1e-5, 6e-8, 5.96e-8, 1e-40, -1e-42, 0x1p-126,
	0x1p-149, 1e10, -3e9, 2147483647.0, 2147483648.0, 4294967295.0, 4294967296.0, 1e20, 1e38,
	3e38, -3.4e38, 1e300, INFINITY, -INFINITY, NAN, 0x1.000001p0, 0x1.fffffep10};
enum {
	N_INT = sizeof(integers) / sizeof(integers[0]),
	N_FLOAT = sizeof(floats) / sizeof(floats[0])
};

struct type {
	const char *reg;
	u32 bytes;
	bool is_float;
};
static const struct type types[] = {{"b16", 2, false}, {"b32", 4, false}, {"b64", 8, false},
	{"f32", 4, true}, {"f64", 8, true}};
#define TYPE_u16 0
#define TYPE_s16 0
#define TYPE_u32 1
#define TYPE_s32 1
#define TYPE_u64 2
#define TYPE_s64 2
#define TYPE_f32 3
#define TYPE_f64 4

static void put_value(uint8_t *to, const struct type *t, u32 k)
{
	if (t->is_float && t->bytes == 4) {
		f32 f = (f32)floats[k % N_FLOAT];

		memcpy(to, &f, sizeof(f));
	} else if (t->is_float) {
		memcpy(to, &floats[k % N_FLOAT], 8);
	} else {
		memcpy(to, &integers[k % N_INT], t->bytes);
	}
}

enum { THREADS = 1024, BLOCKS = 4, CASES = THREADS * BLOCKS, SLOT = CASES * 8 };

static char text[8192];

/* Every thread loads up to three operands, runs the instruction and stores the result. */
static void make_text(const char *op, const struct type *d, const struct type *const *in, u32 n)
{
	static const char *const names[] = {"%a", "%b", "%c"};
	size_t at = 0;

#define ADD(...) at += (size_t)snprintf(text + at, sizeof(text) - at, __VA_ARGS__)
	ADD(".version 8.6\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p) {\n"
	    ".reg .b64 %%p, %%i, %%q; .reg .b32 %%t, %%n, %%g; .reg .pred %%x, %%y;\n.reg .%s %%d;\n",
		d->reg);
	for (u32 i = 0; i < n; i++)
		ADD(".reg .%s %s;\n", in[i]->reg, names[i]);
	ADD("ld.param.u64 %%p, [p]; mov.u32 %%t, %%tid.x; mov.u32 %%n, %%ctaid.x;\n"
	    "mad.lo.u32 %%g, %%n, 1024, %%t; mul.wide.u32 %%i, %%g, 8; add.u64 %%q, %%p, %%i;\n");
	for (u32 i = 0; i < n; i++)
		ADD("ld.global.%s %s, [%%q+%u];\n", in[i]->reg, names[i], (i + 1) * SLOT);
	ADD("%s", op);
	if (!strchr(op, ';')) {
		ADD(" %%d");
		for (u32 i = 0; i < n; i++)
			ADD(", %s", names[i]);
		ADD(";");
	}
	ADD("\nst.global.%s [%%q], %%d;\nret;\n}\n", d->reg);
#undef ADD
}

typedef void want_fn(uint8_t *d, const uint8_t *a, const uint8_t *b, const uint8_t *c);

static bool is_same(const struct type *t, const uint8_t *have, const uint8_t *want, double ulps)
{
	if (memcmp(have, want, t->bytes) == 0)
		return true;
	if (!t->is_float)
		return false;
	if (t->bytes == 4) {
		f32 h, w;

		memcpy(&h, have, 4);
		memcpy(&w, want, 4);
		return (h != h && w != w) ||
			(ulps > 0 && fabs((f64)h - (f64)w) <= ulps * 0x1p-23 * fabs((f64)w));
	}
	f64 h, w;

	memcpy(&h, have, 8);
	memcpy(&w, want, 8);
	return (h != h && w != w) || (ulps > 0 && fabs(h - w) <= ulps * 0x1p-52 * fabs(w));
}

static void check(const char *op, int td, const int *tin, u32 n, want_fn *want, double ulps)
{
	const struct type *d = &types[td], *in[3];
	uint64_t base = (uintptr_t)machine.memory;
	struct ptx_result r;
	struct ptx *ptx;

	for (u32 i = 0; i < n; i++)
		in[i] = &types[tin[i]];
	make_text(op, d, in, n);
	machine_init();
	for (u32 k = 0; k < CASES; k++)
		for (u32 i = 0; i < n; i++)
			put_value(machine.memory + (i + 1) * SLOT + 8 * k, in[i],
				i == 0           ? k
					: i == 1 ? k / 40
						 : k / 7 + k / 300);
	ptx = machine_load(text);
	r = machine_run(ptx, BLOCKS, THREADS, 0, &base, 8);
	if (r.fault)
		fail_msg("%s: fault %d at line %u", op, r.fault, r.line);
	for (u32 k = 0; k < CASES; k++) {
		uint8_t expected[8] = {0};
		const uint8_t *a = machine.memory + SLOT + 8 * k;

		want(expected, a, a + SLOT, a + 2 * SLOT);
		if (!is_same(d, machine.memory + 8 * k, expected, ulps))
			fail_msg(
				"%s: a %016llx b %016llx c %016llx gives %016llx, expected %016llx",
				op, (unsigned long long)*(const u64 *)a,
				(unsigned long long)*(const u64 *)(a + SLOT),
				(unsigned long long)*(const u64 *)(a + 2 * SLOT),
				(unsigned long long)*(const u64 *)(machine.memory + 8 * k),
				(unsigned long long)*(const u64 *)expected);
	}
	ptx_free(ptx);
}

typedef int8_t s8;

static s64 clamp(s64 v, s64 lo, s64 hi)
{
	return v < lo ? lo : v > hi ? hi : v;
}

static s32 low24(s32 v)
{
	v &= 0xffffff;
	return v & 0x800000 ? v - 0x1000000 : v;
}

static u64 reversed(u64 v)
{
	u64 r = 0;

	for (int i = 0; i < 64; i++)
		r |= (v >> i & 1) << (63 - i);
	return r;
}

/* Bit by bit, as the ISA document describes bfe. */
static u64 field(u64 v, u32 at, u32 len, u32 bits, bool is_signed)
{
	u64 r = 0, sign = 0;

	at &= 255;
	len &= 255;
	if (is_signed && len != 0)
		sign = v >> (at + len - 1 < bits - 1 ? at + len - 1 : bits - 1) & 1;
	for (u32 i = 0; i < bits; i++)
		r |= (i < len && at + i < bits ? v >> (at + i) & 1 : sign) << i;
	return r;
}

static u32 table3(u32 a, u32 b, u32 c, u32 table)
{
	u32 r = 0;

	for (int i = 0; i < 32; i++)
		r |= (table >> ((a >> i & 1) * 4 + (b >> i & 1) * 2 + (c >> i & 1)) & 1) << i;
	return r;
}

static u32 permute(u32 a, u32 b, u32 c)
{
	uint8_t bytes[8];
	u32 r = 0;

	memcpy(bytes, &a, 4);
	memcpy(bytes + 4, &b, 4);
	for (int i = 0; i < 4; i++) {
		u32 s = c >> 4 * i & 15, v = bytes[s & 7];

		r |= (s & 8 ? (v & 128 ? 255u : 0u) : v) << 8 * i;
	}
	return r;
}

static f32 saturated(f32 v)
{
	return v != v ? 0 : v < 0 ? 0 : v > 1 ? 1 : v + 0.0f;
}

static f32 flushed(f32 v)
{
	return fpclassify(v) == FP_SUBNORMAL ? copysignf(0, v) : v;
}

static f32 least(f32 a, f32 b)
{
	if (a == 0 && b == 0)
		return signbit(a) || signbit(b) ? -0.0f : 0.0f;
	return fminf(a, b);
}

static f64 least64(f64 a, f64 b)
{
	if (a == 0 && b == 0)
		return signbit(a) || signbit(b) ? -0.0 : 0.0;
	return fmin(a, b);
}

/* volatile keeps the operation between both calls. */
#define ROUNDED(mode, T, e) \
	({ \
		volatile T rounded_; \
\
		fesetround(mode); \
		rounded_ = (T)(e); \
		fesetround(FE_TONEAREST); \
		rounded_; \
	})

#define JOIN3_(a, b) a##b
#define JOIN3(a, b) JOIN3_(a, b)
#define DEFINE(line, D, A, B, C, e) \
	static void JOIN3(want_, line)( \
		uint8_t * pd, const uint8_t *pa, const uint8_t *pb, const uint8_t *pc) \
	{ \
		volatile A va; \
		volatile B vb; \
		volatile C vc; \
		A a; \
		B b; \
		C c; \
		D d; \
\
		memcpy((void *)&va, pa, sizeof(va)); \
		memcpy((void *)&vb, pb, sizeof(vb)); \
		memcpy((void *)&vc, pc, sizeof(vc)); \
		a = va; \
		b = vb; \
		c = vc; \
		(void)b; \
		(void)c; \
		d = (D)(e); \
		memcpy(pd, &d, sizeof(d)); \
	}
#define U(op, D, A, B, C, e) DEFINE(__LINE__, D, A, B, C, e)
#define T(op, D, A, B, C, e) DEFINE(__LINE__, D, A, B, C, e)
#define O(op, D, A, e) DEFINE(__LINE__, D, A, A, A, e)
#define A(op, D, A_, e, ulps) DEFINE(__LINE__, D, A_, A_, A_, e)
#include "ptx-rows.def"
#undef U
#undef T
#undef O
#undef A

#define TYPE(t) JOIN3(TYPE_, t)
#define U(op, D, A, B, C, e) {op, TYPE(D), {TYPE(A), TYPE(B), 0}, 2, JOIN3(want_, __LINE__), 0},
#define T(op, D, A, B, C, e) \
	{op, TYPE(D), {TYPE(A), TYPE(B), TYPE(C)}, 3, JOIN3(want_, __LINE__), 0},
#define O(op, D, A, e) {op, TYPE(D), {TYPE(A), 0, 0}, 1, JOIN3(want_, __LINE__), 0},
#define A(op, D, A_, e, ulps) {op, TYPE(D), {TYPE(A_), 0, 0}, 1, JOIN3(want_, __LINE__), ulps},
static const struct {
	const char *op;
	int d, in[3];
	u32 n;
	want_fn *want;
	double ulps;
} rows[] = {
#include "ptx-rows.def"
};

static void test_each_instruction_gives_what_c_gives(void **state)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		check(rows[i].op, rows[i].d, rows[i].in, rows[i].n, rows[i].want, rows[i].ulps);
}

UNIT_MAIN(UNIT(test_each_instruction_gives_what_c_gives))
