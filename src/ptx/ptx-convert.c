/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conversions between types, with every rounding, and the wrapper that sets rounding, flushing of
 * subnormal numbers and saturation around another instruction. Any thread: the processor's rounding
 * belongs to the thread and is restored at once.
 */
#include "ptx/ptx-internal.h"

#include <fenv.h>
#include <math.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

/* ---- narrow formats ---- */

struct format {
	int mantissa, exponent; /* bits */
	bool has_infinity;
};
static const struct format half_format = {10, 5, true}, bf16_format = {7, 8, true};

/* Whether a value between two neighbours goes to the one further from zero. */
static bool round_is_away(uint64_t rest, uint64_t half, bool is_odd, bool is_negative, int rounding)
{
	switch (rounding) {
	case ROUND_NEAREST: return rest > half || (rest == half && is_odd);
	case ROUND_AWAY: return rest >= half;
	case ROUND_UP: return rest != 0 && !is_negative;
	case ROUND_DOWN: return rest != 0 && is_negative;
	default: return false;
	}
}

static uint32_t format_encode(const struct format *f, double d, int rounding)
{
	const int bias = (1 << (f->exponent - 1)) - 1, top = (1 << f->exponent) - 1;
	uint64_t bits, m, rest, q;
	uint32_t sign, magnitude;
	int e, shift;
	bool is_negative;

	memcpy(&bits, &d, sizeof(bits));
	is_negative = bits >> 63 != 0;
	sign = (uint32_t)is_negative << (f->mantissa + f->exponent);
	if (d != d)
		return (1u << (f->mantissa + f->exponent)) - 1;
	if (isinf(d))
		return sign | (uint32_t)top << f->mantissa;
	e = (int)(bits >> 52 & 0x7ff) - 1023;
	m = bits & ((UINT64_C(1) << 52) - 1);
	if (e == -1023)
		e = -1022;
	else
		m |= UINT64_C(1) << 52;
	shift = 52 - f->mantissa + (e < 1 - bias ? 1 - bias - e : 0);
	if (shift > 63)
		shift = 63;
	q = m >> shift;
	rest = m & ((UINT64_C(1) << shift) - 1);
	if (round_is_away(rest, UINT64_C(1) << (shift - 1), q & 1, is_negative, rounding))
		q++;
	magnitude = e < 1 - bias ? (uint32_t)q
				 : (uint32_t)(((uint64_t)(e + bias - 1) << f->mantissa) + q);
	if (magnitude >= (uint32_t)top << f->mantissa) {
		bool is_infinite = rounding == ROUND_NEAREST || rounding == ROUND_AWAY ||
			(rounding == ROUND_UP && !is_negative) ||
			(rounding == ROUND_DOWN && is_negative);

		magnitude = ((uint32_t)top << f->mantissa) - (is_infinite ? 0 : 1);
	}
	return sign | magnitude;
}

uint16_t half_round(double d, int rounding)
{
	return (uint16_t)format_encode(&half_format, d, rounding);
}

uint16_t bf16_round(double d, int rounding)
{
	return (uint16_t)format_encode(&bf16_format, d, rounding);
}

uint16_t half_from_double(double d)
{
	return half_round(d, ROUND_NEAREST);
}

uint16_t half_from_float(float f)
{
	return half_round((double)f, ROUND_NEAREST);
}

uint16_t bf16_from_float(float f)
{
	uint32_t u;

	memcpy(&u, &f, sizeof(u));
	if (f != f)
		return 0x7fff;
	return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

float half_to_float(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 0x3ff, u;
	float f;

	if (e == 31) {
		u = sign | 0x7f800000u | m << 13;
	} else if (e != 0) {
		u = sign | (e + 112) << 23 | m << 13;
	} else {
		f = (float)m * 0x1p-24f;
		memcpy(&u, &f, sizeof(u));
		u |= sign;
	}
	memcpy(&f, &u, sizeof(f));
	return f;
}

/* 8-bit formats: e4m3 has no infinity and one NaN, 0x7f; e5m2 is the upper half of f16. */
static uint8_t e4m3_from_double(double d)
{
	static const struct format f = {3, 4, false};
	double a = fabs(d);
	uint8_t sign = signbit(d) ? 0x80 : 0;

	if (d != d)
		return 0x7f;
	if (a >= 448)
		return sign | 0x7e;
	if (a >= 256) /* the exponent that other formats keep for infinity */
		return sign | (uint8_t)(0x78 + (uint8_t)nearbyint((a - 256) / 32));
	return sign | (uint8_t)(format_encode(&f, a, ROUND_NEAREST));
}

static uint8_t e5m2_from_double(double d)
{
	static const struct format f = {2, 5, true};
	uint8_t r = (uint8_t)format_encode(&f, d, ROUND_NEAREST);

	if (d != d)
		return 0x7f;
	return (r & 0x7f) >= 0x7c ? (r & 0x80) | 0x7b : r; /* saturates */
}

static float e4m3_to_float(uint8_t v)
{
	int e = v >> 3 & 15, m = v & 7;
	float f = e ? ldexpf((float)(8 + m), e - 10) : ldexpf((float)m, -9);

	if ((v & 0x7f) == 0x7f)
		f = NAN;
	return v & 0x80 ? -f : f;
}

static float e5m2_to_float(uint8_t v)
{
	return half_to_float((uint16_t)(v << 8));
}

/* ---- rounding of the processor ---- */

static int rounding_to_fenv(int rounding)
{
	switch (rounding) {
	case ROUND_ZERO: return FE_TOWARDZERO;
	case ROUND_DOWN: return FE_DOWNWARD;
	case ROUND_UP: return FE_UPWARD;
	default: return FE_TONEAREST;
	}
}

static void flush_on(bool is_on)
{
#if defined(__x86_64__)
	enum { FLUSH = 0x8040 }; /* FTZ and DAZ */
	unsigned csr = _mm_getcsr();

	_mm_setcsr(is_on ? csr | FLUSH : csr & ~(unsigned)FLUSH);
#endif
}

static void saturate_lanes(struct warp *w, const struct insn *in, uint32_t mask)
{
	const struct extra *x = in->x;
	uint8_t *d = REG(w, in->d);

	FOR_LANES(i, mask)
	{
		if (x->type == T_F64) {
			double v = ((double *)d)[i];

			((double *)d)[i] = v > 1 ? 1 : v > 0 ? v : 0;
		} else if (x->type == T_F32) {
			float v = ((float *)d)[i];

			((float *)d)[i] = v > 1 ? 1 : v > 0 ? v : 0;
		} else if (x->type == T_F32X2) {
			for (uint32_t k = 0; k < 2; k++) {
				float v = ((float *)d)[2 * i + k];

				((float *)d)[2 * i + k] = v > 1 ? 1 : v > 0 ? v : 0;
			}
		} else {
			uint32_t n = type_table[x->type].bytes / 2;
			bool is_bf16 = x->type == T_BF16 || x->type == T_BF16X2;

			for (uint32_t k = 0; k < n; k++) {
				uint16_t *h = (uint16_t *)d + i * n + k;
				float v = is_bf16 ? bf16_to_float(*h) : half_to_float(*h);

				if (!(v > 0))
					*h = 0;
				else if (v > 1)
					*h = is_bf16 ? 0x3f80 : 0x3c00;
			}
		}
	}
}

static void flush_lanes(struct warp *w, const struct insn *in, uint32_t mask)
{
	uint32_t *d = (uint32_t *)REG(w, in->d);

	FOR_LANES(i, mask)
	if ((d[i] & 0x7f800000u) == 0)
		d[i] &= 0x80000000u;
}

void exec_wrapped(struct warp *w, const struct insn *in, uint32_t mask)
{
	const struct extra *x = in->x;
	int before = 0;

	if (x->rounding != ROUND_NEAREST) {
		before = fegetround();
		fesetround(rounding_to_fenv(x->rounding));
	}
	if (x->is_ftz)
		flush_on(true);
	x->inner(w, in, mask);
	if (x->is_ftz)
		flush_on(false);
	if (x->rounding != ROUND_NEAREST)
		fesetround(before);
	if (x->is_sat)
		saturate_lanes(w, in, mask);
	if (x->is_ftz && x->type == T_F32)
		flush_lanes(w, in, mask);
}

/* ---- cvt ---- */

/* A value on its way: a float in double precision, or an integer. */
struct value {
	bool is_float, is_negative; /* is_negative: an integer below zero */
	double f;
	uint64_t u;
};

static struct value value_read(const uint8_t *p, enum ptx_type type)
{
	const struct type_info *t = &type_table[type];
	struct value v = {.is_float = t->kind == 'f'};
	uint16_t h;
	float f;

	memcpy(&v.u, p, t->bytes);
	if (t->kind == 's') {
		v.u = (uint64_t)((int64_t)(v.u << (64 - 8 * t->bytes)) >> (64 - 8 * t->bytes));
		v.is_negative = (int64_t)v.u < 0;
	} else if (type == T_F64) {
		memcpy(&v.f, p, sizeof(v.f));
	} else if (type == T_F32 || type == T_TF32) {
		memcpy(&f, p, sizeof(f));
		v.f = (double)f;
	} else if (type == T_F16 || type == T_BF16) {
		memcpy(&h, p, sizeof(h));
		v.f = (double)(type == T_F16 ? half_to_float(h) : bf16_to_float(h));
	}
	return v;
}

static uint64_t value_to_integer(struct value v, const struct extra *x)
{
	const struct type_info *t = &type_table[x->type];
	const uint32_t bits = 8u * t->bytes;
	const bool is_signed = t->kind == 's';
	uint64_t max = is_signed ? (UINT64_C(1) << (bits - 1)) - 1
				 : (bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1);
	uint64_t min = is_signed ? ~max : 0;
	double limit = ldexp(1, (int)(is_signed ? bits - 1 : bits));

	if (!v.is_float) {
		if (!x->is_sat)
			return v.u;
		if (v.is_negative)
			return (int64_t)v.u < (int64_t)min || !is_signed ? min : v.u;
		return v.u > max ? max : v.u;
	}
	if (v.f != v.f)
		return bits == 64 || x->from_type == T_F64 ? UINT64_C(1) << (bits - 1) : 0;
	switch (x->op) { /* enum rounding, to an integer */
	case ROUND_NEAREST: v.f = nearbyint(v.f); break;
	case ROUND_ZERO: v.f = trunc(v.f); break;
	case ROUND_DOWN: v.f = floor(v.f); break;
	default: v.f = ceil(v.f); break;
	}
	if (v.f >= limit)
		return max;
	if (v.f < (is_signed ? -limit : 0))
		return min;
	return is_signed ? (uint64_t)(int64_t)v.f : (uint64_t)v.f;
}

/* With .satfinite, infinity becomes the greatest number before it. */
static uint16_t narrow_half(double f, bool is_bf16, const struct extra *x)
{
	uint16_t h = is_bf16 ? bf16_round(f, x->rounding) : half_round(f, x->rounding);
	uint16_t infinity = is_bf16 ? 0x7f80 : 0x7c00;

	return x->is_finite && (h & 0x7fff) == infinity ? h - 1 : h;
}

static void value_write_float(uint8_t *p, struct value v, const struct extra *x)
{
	uint16_t h;
	float f;

	if (!v.is_float && x->type == T_F32) {
		f = v.is_negative ? (float)(int64_t)v.u : (float)v.u;
	} else {
		if (!v.is_float)
			v.f = v.is_negative ? (double)(int64_t)v.u : (double)v.u;
		f = (float)v.f;
	}
	if (x->type == T_F64) {
		memcpy(p, &v.f, sizeof(v.f));
	} else if (x->type == T_F32 && f != f) {
		/* single precision has one NaN as result */
		memcpy(p, &(uint32_t){0x7fffffff}, sizeof(f));
	} else if (x->type == T_F32) {
		memcpy(p, &f, sizeof(f));
	} else {
		h = narrow_half(v.f, x->type == T_BF16, x);
		memcpy(p, &h, sizeof(h));
	}
}

static double value_round(double f, int rounding)
{
	switch (rounding) {
	case ROUND_NEAREST: return nearbyint(f);
	case ROUND_ZERO: return trunc(f);
	case ROUND_DOWN: return floor(f);
	default: return ceil(f);
	}
}

static double value_limit(double f, const struct extra *x)
{
	if (x->is_sat)
		return f > 1 ? 1 : f > 0 ? f : 0;
	if (x->is_relu)
		return f != f ? f : f > 0 ? f : 0;
	return f;
}

/* Subnormal single precision numbers count as zero with .ftz. */
static double value_flush(double f, enum ptx_type type)
{
	return (type == T_F32) && fabs(f) < 0x1p-126 ? copysign(0, f) : f;
}

static void convert_lane(uint8_t *d, const uint8_t *a, const struct extra *x)
{
	struct value v = value_read(a, x->from_type);

	if (type_table[x->type].kind != 'f') {
		uint64_t u;
		uint32_t bytes = x->reg_bytes;

		if (x->is_ftz && v.is_float)
			v.f = value_flush(v.f, x->from_type);
		u = value_to_integer(v, x);
		if (type_table[x->type].bytes < 8 && type_table[x->type].kind == 's')
			u = (uint64_t)((int64_t)(u << (64 - 8 * type_table[x->type].bytes)) >>
				(64 - 8 * type_table[x->type].bytes));
		else if (type_table[x->type].bytes < 8)
			u &= (UINT64_C(1) << 8 * type_table[x->type].bytes) - 1;
		memcpy(d, &u, bytes < 8 ? bytes : 8);
		return;
	}
	if (!v.is_float && x->is_sat)
		v = (struct value){.is_float = true, .f = v.u && !v.is_negative ? 1 : 0};
	if (v.is_float) {
		if (x->is_ftz)
			v.f = value_flush(v.f, x->from_type);
		if (x->flag_a) /* .rni and its like, between floats */
			v.f = value_round(v.f, x->op);
		v.f = value_limit(v.f, x);
		if (x->is_ftz)
			v.f = value_flush(v.f, x->type);
	}
	value_write_float(d, v, x);
}

static float tf32_round(float f, const struct extra *x)
{
	enum { INFINITE = 0x7f800000, MOST = 0x7f7fe000 };
	uint32_t u;

	memcpy(&u, &f, sizeof(u));
	if (f != f)
		return f;
	if ((u & INFINITE) != INFINITE && x->rounding == ROUND_NEAREST)
		u += 0xfff + (u >> 13 & 1);
	else if ((u & INFINITE) != INFINITE && x->rounding == ROUND_AWAY)
		u += 0x1000;
	u &= ~0x1fffu;
	if (x->is_finite && (u & INFINITE) == INFINITE)
		u = (u & 0x80000000u) | MOST;
	memcpy(&f, &u, sizeof(f));
	return f;
}

/* Two values of a and b, packed into one register: a is the upper one. */
static void convert_pair(uint8_t *d, const uint8_t *a, const uint8_t *b, const struct extra *x)
{
	double hi = value_limit(value_read(a, x->from_type).f, x);
	double lo = value_limit(value_read(b, x->from_type).f, x);
	uint32_t r;
	uint16_t narrow;

	switch (x->type) {
	case T_E4M3X2:
		narrow = (uint16_t)(e4m3_from_double(hi) << 8 | e4m3_from_double(lo));
		memcpy(d, &narrow, sizeof(narrow));
		return;
	case T_E5M2X2:
		narrow = (uint16_t)(e5m2_from_double(hi) << 8 | e5m2_from_double(lo));
		memcpy(d, &narrow, sizeof(narrow));
		return;
	case T_F16X2:
		r = (uint32_t)narrow_half(hi, false, x) << 16 | narrow_half(lo, false, x);
		break;
	default: r = (uint32_t)narrow_half(hi, true, x) << 16 | narrow_half(lo, true, x); break;
	}
	memcpy(d, &r, sizeof(r));
}

/* Two 8-bit floats, or a pair of f16, into the other pair. */
static void convert_pairs(uint8_t *d, const uint8_t *a, const struct extra *x)
{
	float lo, hi;
	uint16_t h[2];

	memcpy(h, a, x->from_type == T_F16X2 ? 4 : 2);
	if (x->from_type == T_F16X2) {
		lo = half_to_float(h[0]);
		hi = half_to_float(h[1]);
	} else {
		bool is_e4m3 = x->from_type == T_E4M3X2;

		lo = is_e4m3 ? e4m3_to_float((uint8_t)h[0]) : e5m2_to_float((uint8_t)h[0]);
		hi = is_e4m3 ? e4m3_to_float((uint8_t)(h[0] >> 8))
			     : e5m2_to_float((uint8_t)(h[0] >> 8));
	}
	if (x->type == T_F16X2) {
		h[0] = half_from_float((float)value_limit((double)lo, x));
		h[1] = half_from_float((float)value_limit((double)hi, x));
		memcpy(d, h, 4);
	} else {
		bool is_e4m3 = x->type == T_E4M3X2;

		d[0] = is_e4m3 ? e4m3_from_double((double)lo) : e5m2_from_double((double)lo);
		d[1] = is_e4m3 ? e4m3_from_double((double)hi) : e5m2_from_double((double)hi);
	}
}

void exec_convert(struct warp *w, const struct insn *in, uint32_t mask)
{
	const struct extra *x = in->x;
	uint8_t *d = REG(w, in->d);
	const uint8_t *a = REG(w, in->a);
	const uint8_t *b = in->b == OPERAND_NONE ? NULL : REG(w, in->b);
	bool has_pair_from = x->from_type == T_E4M3X2 || x->from_type == T_E5M2X2 ||
		(x->from_type == T_F16X2);
	int before = fegetround();

	if (x->rounding != ROUND_NEAREST && (x->type == T_F32 || x->type == T_F64))
		fesetround(rounding_to_fenv(x->rounding));
	FOR_LANES(i, mask)
	{
		uint8_t *to = d + i * x->reg_bytes;
		const uint8_t *from = a + i * x->flag_b;

		if (b) {
			convert_pair(to, from, b + i * x->flag_b, x);
		} else if (has_pair_from) {
			convert_pairs(to, from, x);
		} else if (x->type == T_TF32) {
			float f;

			memcpy(&f, from, sizeof(f));
			f = tf32_round((float)value_limit((double)f, x), x);
			memcpy(to, &f, sizeof(f));
		} else {
			convert_lane(to, from, x);
		}
	}
	fesetround(before);
}
