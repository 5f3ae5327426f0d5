/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loops over 32 lanes behind ptx-alu.def. The build compiles this file for each level of the
 * processor (ALU_LEVEL) with the vector instructions of that level, and ptx-select.c chooses the
 * table. Only existing lanes may matter: a lane that does not exist computes garbage, so every
 * expression must be defined for every input. Pure code, any thread.
 */
#include "ptx/ptx-internal.h"

#include <math.h>

#ifndef ALU_LEVEL
#define ALU_LEVEL 0
#endif
#define ALU_CAT_(a, b) a##b
#define ALU_CAT(a, b) ALU_CAT_(a, b)

typedef uint16_t t_U16;
typedef int16_t t_S16;
typedef uint32_t t_U32;
typedef int32_t t_S32;
typedef uint64_t t_U64;
typedef int64_t t_S64;
typedef float t_F32;
typedef double t_F64;
typedef unsigned __int128 t_U128;

enum { T_U128 = T_B128 };

#ifdef __FMA__
#define FMAF __builtin_fmaf
#define FMA __builtin_fma
#else
#define FMAF fmaf
#define FMA fma
#endif

/* A register may be operand and result at once; each lane still reads before it writes. */
#if defined(__clang__)
#define VECTOR /* the compiler checks for overlaps itself */
#else
#define VECTOR _Pragma("GCC ivdep")
#endif

/* ---- helpers of the expressions ---- */

static inline int32_t sat_s32(int64_t v)
{
	return v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : (int32_t)v;
}

static inline int64_t sext24(int32_t v)
{
	return (int32_t)((uint32_t)v << 8) >> 8;
}

static inline int64_t div_signed(int64_t a, int64_t b)
{
	if (b == 0)
		return -1;
	return b == -1 ? (int64_t)(UINT64_C(0) - (uint64_t)a) : a / b;
}

static inline int64_t rem_signed(int64_t a, int64_t b)
{
	if (b == 0)
		return a;
	return b == -1 ? 0 : a % b;
}

static inline int32_t relu(int32_t v)
{
	return v > 0 ? v : 0;
}

static inline uint32_t pair(uint32_t lo, uint32_t hi)
{
	return (lo & 0xffff) | hi << 16;
}

#define LO(x) ((uint16_t)(x))
#define HI(x) ((uint16_t)((x) >> 16))
#define MINMAX2(T, op) \
	pair((T)LO(a) op(T) LO(b) ? LO(a) : LO(b), (T)HI(a) op(T) HI(b) ? HI(a) : HI(b))

static inline uint64_t funnel(uint32_t lo, uint32_t hi)
{
	return (uint64_t)hi << 32 | lo;
}

static inline uint32_t reverse32(uint32_t v)
{
	v = (v >> 1 & 0x55555555u) | (v & 0x55555555u) << 1;
	v = (v >> 2 & 0x33333333u) | (v & 0x33333333u) << 2;
	v = (v >> 4 & 0x0f0f0f0fu) | (v & 0x0f0f0f0fu) << 4;
	return __builtin_bswap32(v);
}

static inline uint32_t find_bit(uint64_t v, uint32_t bits, bool is_shift)
{
	uint32_t at;

	if (v == 0)
		return UINT32_MAX;
	at = 63u - (uint32_t)__builtin_clzll(v);
	return is_shift ? bits - 1 - at : at;
}

static inline uint32_t find_nth(uint32_t mask, uint32_t base, int32_t offset)
{
	uint32_t left = offset < 0 ? 0u - (uint32_t)offset : (uint32_t)offset;

	if (base > 31)
		return UINT32_MAX;
	if (offset == 0)
		return mask >> base & 1 ? base : UINT32_MAX;
	for (int64_t at = base; at >= 0 && at<32; at += offset> 0 ? 1 : -1)
		if (mask >> at & 1 && --left == 0)
			return (uint32_t)at;
	return UINT32_MAX;
}

static inline uint64_t extract_bits(
	uint64_t v, uint32_t at, uint32_t len, uint32_t bits, bool is_signed)
{
	uint64_t sign, r;

	at &= 0xff;
	len &= 0xff;
	if (len == 0)
		return 0;
	sign = is_signed ? v >> (at + len - 1 < bits - 1 ? at + len - 1 : bits - 1) & 1 : 0;
	r = at < bits ? v >> at : 0;
	/* bits beyond the top of the value are sign bits, too */
	if (sign && at < bits && at != 0)
		r |= ~UINT64_C(0) << (bits - at);
	if (sign && at >= bits)
		r = ~UINT64_C(0);
	if (len < 64) {
		r &= (UINT64_C(1) << len) - 1;
		if (sign)
			r |= ~UINT64_C(0) << len;
	}
	return r;
}

static inline uint32_t bit_mask(uint32_t at, uint32_t len)
{
	uint64_t m = len < 32 ? (UINT64_C(1) << len) - 1 : UINT32_MAX;

	return at < 32 ? (uint32_t)(m << at) : 0;
}

static inline uint32_t sign_extend(uint32_t v, uint32_t bits)
{
	if (bits == 0)
		return 0;
	return (uint32_t)((int32_t)(v << (32 - bits)) >> (32 - bits));
}

static inline uint32_t dot4(uint32_t a, uint32_t b, bool is_a_signed, bool is_b_signed)
{
	int32_t sum = 0;

	for (int i = 0; i < 4; i++) {
		int32_t x = is_a_signed ? (int8_t)(a >> 8 * i) : (uint8_t)(a >> 8 * i);
		int32_t y = is_b_signed ? (int8_t)(b >> 8 * i) : (uint8_t)(b >> 8 * i);

		sum += x * y;
	}
	return (uint32_t)sum;
}

static inline uint32_t dot2(uint32_t a, uint32_t b, bool is_a_signed, bool is_b_signed)
{
	int64_t sum = 0;

	for (int i = 0; i < 2; i++) {
		int64_t x = is_a_signed ? (int16_t)(a >> 16 * i) : (uint16_t)(a >> 16 * i);
		int64_t y = is_b_signed ? (int8_t)(b >> 8 * i) : (uint8_t)(b >> 8 * i);

		sum += x * y;
	}
	return (uint32_t)sum;
}

static inline float nan_float(void)
{
	const uint32_t bits = 0x7fffffff;
	float f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}

/* Single precision has one NaN as result. */
static inline float quiet(float f)
{
	return f == f ? f : nan_float();
}

static inline uint32_t float_bits(float f)
{
	uint32_t u;

	memcpy(&u, &f, sizeof(u));
	return u;
}

static inline float bits_float(uint32_t u)
{
	float f;

	memcpy(&f, &u, sizeof(f));
	return f;
}

static inline float min_float(float a, float b)
{
	float r = a < b ? a : b;

	/* -0 is less than +0: the sign of either */
	r = a == b ? bits_float(float_bits(a) | float_bits(b)) : r;
	r = a != a ? b : r;
	r = b != b ? a : r;
	return quiet(r);
}

static inline float max_float(float a, float b)
{
	float r = a > b ? a : b;

	r = a == b ? bits_float(float_bits(a) & float_bits(b)) : r;
	r = a != a ? b : r;
	r = b != b ? a : r;
	return quiet(r);
}

/* The sign of a product; a NaN has none. */
static inline float xor_sign(float v, float a, float b)
{
	return v != v ? v
		      : bits_float((float_bits(v) & 0x7fffffffu) |
				((float_bits(a) ^ float_bits(b)) & 0x80000000u));
}

static inline double min_double(double a, double b)
{
	if (a != a)
		return b;
	if (b != b)
		return a;
	if (a == b)
		return signbit(a) ? a : b;
	return a < b ? a : b;
}

static inline double max_double(double a, double b)
{
	if (a != a)
		return b;
	if (b != b)
		return a;
	if (a == b)
		return signbit(a) ? b : a;
	return a > b ? a : b;
}

static inline float F2(uint64_t v, int i)
{
	return bits_float((uint32_t)(v >> 32 * i));
}

static inline uint64_t f32x2(float lo, float hi)
{
	return float_bits(quiet(lo)) | (uint64_t)float_bits(quiet(hi)) << 32;
}

#define H(x) half_to_float((uint16_t)(x))
#define B(x) bf16_to_float((uint16_t)(x))

static inline uint16_t half_result(double d)
{
	return d == d ? half_from_double(d) : 0x7fff;
}

static inline uint16_t bf16_result(double d)
{
	return d == d ? bf16_round(d, ROUND_NEAREST) : 0x7fff;
}

/* f16 with .ftz: subnormal numbers count as zeros of their sign, before and after. */
static inline uint16_t half_flush(uint16_t h)
{
	return h & 0x7c00 ? h : h & 0x8000;
}

#define HF(x) half_to_float(half_flush((uint16_t)(x)))

static inline uint16_t half_result_ftz(double d)
{
	return half_flush(half_result(d));
}

static inline uint32_t half_relu(uint32_t h)
{
	return (h & 0x7fff) == 0x7fff ? h : h & 0x8000 ? 0 : h;
}

/*
 * The product is exact in double precision. The sum is rounded to odd, so that the second rounding
 * sees whether something was lost.
 */
static inline double fma_odd(double a, double b, double c)
{
	double p = a * b, s = p + c, t = s - p, lost = (p - (s - t)) + (c - t);
	int64_t bits;

	memcpy(&bits, &s, sizeof(bits));
	if (lost == lost && lost != 0 && s - s == 0 && (bits & 1) == 0) {
		bits += (lost > 0) == (s > 0) ? 1 : -1;
		memcpy(&s, &bits, sizeof(s));
	}
	return s;
}

static inline uint16_t half_fma(uint16_t a, uint16_t b, uint16_t c)
{
	return half_result(fma_odd((double)H(a), (double)H(b), (double)H(c)));
}

static inline uint16_t half_fma_ftz(uint16_t a, uint16_t b, uint16_t c)
{
	return half_flush(half_fma(half_flush(a), half_flush(b), half_flush(c)));
}

static inline uint16_t bf16_fma(uint16_t a, uint16_t b, uint16_t c)
{
	return bf16_result(fma_odd((double)B(a), (double)B(b), (double)B(c)));
}

/* ---- the functions ---- */

#define LOOP(D, mask, expr) \
	if (warp_is_full(w, mask)) { \
		VECTOR for (uint32_t i = 0; i < LANES; i++) \
		{ \
			expr; \
			d[i] = r; \
		} \
	} else { \
		VECTOR for (uint32_t i = 0; i < LANES; i++) \
		{ \
			expr; \
			d[i] = mask >> i & 1 ? r : d[i]; \
		} \
	}

#define UN(name, id, D, A, e) \
	static void alu_##id(struct warp *w, const struct insn *in, uint32_t mask) \
	{ \
		t_##D *d = (t_##D *)REG(w, in->d); \
		const t_##A *pa = (const t_##A *)REG(w, in->a); \
\
		LOOP(t_##D, mask, const t_##A a = pa[i]; t_##D r = (t_##D)(e)) \
	}
#define BIN(name, id, D, A, B_, e) \
	static void alu_##id(struct warp *w, const struct insn *in, uint32_t mask) \
	{ \
		t_##D *d = (t_##D *)REG(w, in->d); \
		const t_##A *pa = (const t_##A *)REG(w, in->a); \
		const t_##B_ *pb = (const t_##B_ *)REG(w, in->b); \
\
		LOOP(t_##D, mask, const t_##A a = pa[i]; const t_##B_ b = pb[i]; \
			t_##D r = (t_##D)(e)) \
	}
#define TER(name, id, D, A, B_, C, e) \
	static void alu_##id(struct warp *w, const struct insn *in, uint32_t mask) \
	{ \
		t_##D *d = (t_##D *)REG(w, in->d); \
		const t_##A *pa = (const t_##A *)REG(w, in->a); \
		const t_##B_ *pb = (const t_##B_ *)REG(w, in->b); \
		const t_##C *pc = (const t_##C *)REG(w, in->c); \
\
		LOOP(t_##D, mask, const t_##A a = pa[i]; const t_##B_ b = pb[i]; \
			const t_##C c = pc[i]; t_##D r = (t_##D)(e)) \
	}
#define ALIAS(name, id, D, A, B_, C)
#include "ptx/ptx-alu.def"
#undef UN
#undef BIN
#undef TER
#undef ALIAS

#define UN(name, id, D, A, e) {name, alu_##id, T_##D, T_##A, T_NONE, T_NONE},
#define BIN(name, id, D, A, B_, e) {name, alu_##id, T_##D, T_##A, T_##B_, T_NONE},
#define TER(name, id, D, A, B_, C, e) {name, alu_##id, T_##D, T_##A, T_##B_, T_##C},
#define ALIAS(name, id, D, A, B_, C) {name, alu_##id, T_##D, T_##A, T_##B_, T_##C},
static const struct alu_row rows[] = {
#include "ptx/ptx-alu.def"
};

const struct alu_table ALU_CAT(alu_table_, ALU_LEVEL);
const struct alu_table ALU_CAT(alu_table_, ALU_LEVEL) = {rows, sizeof(rows) / sizeof(rows[0])};
