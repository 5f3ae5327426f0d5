/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Floating point of the second interpreter: C's, in the rounding of the instruction. Half precision
 * is computed exactly and then rounded once. One thread.
 */
#include "ptx-naive-internal.h"

#include <fenv.h>
#include <math.h>
#include <string.h>

typedef naive_wide wide;
typedef __float128 quad;

/* ---- floating point ---- */

static float f32_of(uint64_t v)
{
	uint32_t u = (uint32_t)v;
	float f;

	memcpy(&f, &u, 4);
	return f;
}

static uint64_t bits_of_f32(float f)
{
	uint32_t u;

	memcpy(&u, &f, 4);
	return u;
}

static double f64_of(uint64_t v)
{
	double d;

	memcpy(&d, &v, 8);
	return d;
}

static uint64_t bits_of_f64(double d)
{
	uint64_t u;

	memcpy(&u, &d, 8);
	return u;
}

static double f16_of(uint64_t v)
{
	int exponent = v >> 10 & 31, fraction = v & 1023;
	double d = exponent == 31 ? (fraction ? NAN : INFINITY)
		: exponent        ? ldexp(1024 + fraction, exponent - 25)
				  : ldexp(fraction, -24);

	return v & 0x8000 ? -d : d;
}

static double bf16_of(uint64_t v)
{
	return (double)f32_of((v & 0xffff) << 16);
}

enum direction { NEAREST, ZERO, DOWN, UP };

static enum direction direction_of(const struct naive_insn *in)
{
	if (naive_has(in, "rz") || naive_has(in, "rzi"))
		return ZERO;
	if (naive_has(in, "rm") || naive_has(in, "rmi"))
		return DOWN;
	if (naive_has(in, "rp") || naive_has(in, "rpi"))
		return UP;
	return NEAREST;
}

static void set_direction(enum direction d)
{
	static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};

	fesetround(modes[d]);
}

/* Rounds a number to `precision` bits with the given exponents: binary16 or bfloat16. */
static uint64_t round_small(
	double d, int precision, int least_exponent, int exponent_bits, enum direction direction)
{
	const int fraction_bits = precision - 1;
	const uint64_t sign = signbit(d) ? UINT64_C(0x8000) : 0;
	const uint64_t infinity = ((UINT64_C(1) << exponent_bits) - 1) << fraction_bits;
	double m = fabs(d), unit, n, rest;
	uint64_t result;
	int exponent;
	bool up;

	if (isnan(d))
		return 0x7fff;
	if (isinf(d))
		return sign | infinity;
	if (m == 0)
		return sign;
	frexp(m, &exponent);
	exponent = exponent - 1 < least_exponent ? least_exponent : exponent - 1;
	unit = ldexp(1, exponent - fraction_bits);
	n = floor(m / unit);
	rest = m / unit - n;
	up = direction == NEAREST   ? rest > 0.5 || (rest == 0.5 && fmod(n, 2) == 1)
		: direction == ZERO ? false
				    : rest > 0 && (direction == UP) == (sign == 0);
	result = (uint64_t)n + up;
	/* A carry goes into the exponent by itself. */
	result += (uint64_t)(exponent - least_exponent) << fraction_bits;
	if (result >= infinity)
		result = direction == ZERO || (direction == DOWN && !sign) ||
				(direction == UP && sign)
			? infinity - 1
			: infinity;
	return sign | result;
}

static uint64_t round_f16(double d, enum direction direction)
{
	return round_small(d, 11, -14, 5, direction);
}

static uint64_t round_bf16(double d, enum direction direction)
{
	return round_small(d, 8, -126, 8, direction);
}

/* To the nearest double whose last bit says whether anything was lost. */
static double odd_of(quad q)
{
	double d;
	uint64_t u;

	fesetround(FE_TOWARDZERO);
	feclearexcept(FE_ALL_EXCEPT);
	d = (double)q;
	u = bits_of_f64(d);
	if (fetestexcept(FE_INEXACT) && isfinite(d))
		u |= 1;
	fesetround(FE_TONEAREST);
	return f64_of(u);
}

/* a * b + c, exact but for a last bit that says whether anything was lost. */
static double odd_fma(double a, double b, double c)
{
	quad sum;
	bool is_inexact;
	double d;

	if (!isfinite(a) || !isfinite(b) || !isfinite(c))
		return a * b + c;
	fesetround(FE_TOWARDZERO);
	feclearexcept(FE_ALL_EXCEPT);
	sum = (quad)a * (quad)b + (quad)c;
	is_inexact = fetestexcept(FE_INEXACT) != 0;
	fesetround(FE_TONEAREST);
	if (sum == 0) /* the sign of an exact zero is that of the rounding to nearest */
		return a * b + c;
	d = odd_of(sum);
	return is_inexact ? f64_of(bits_of_f64(d) | 1) : d;
}

static float flush_f32(float f)
{
	return fpclassify(f) == FP_SUBNORMAL ? copysignf(0, f) : f;
}

static double saturate(double d)
{
	return isnan(d) || d <= 0 ? 0 : d > 1 ? 1 : d;
}

static uint64_t result_f32(const struct naive_insn *in, float f)
{
	if (naive_has(in, "ftz"))
		f = flush_f32(f);
	if (naive_has(in, "sat"))
		f = (float)saturate((double)f);
	return isnan(f) ? UINT64_C(0x7fffffff) : bits_of_f32(f);
}

static float source_f32(const struct naive_insn *in, uint64_t v)
{
	float f = f32_of(v);

	return naive_has(in, "ftz") ? flush_f32(f) : f;
}

/* min and max of any format, in double */
static double least_or_most(const struct naive_insn *in, double a, double b)
{
	const bool is_min = naive_is(in, "min");
	bool has_sign = naive_has(in, "xorsign"), sign = signbit(a) != signbit(b);
	double d;

	if (naive_has(in, "abs")) {
		a = fabs(a);
		b = fabs(b);
	}
	if ((isnan(a) && isnan(b)) || (naive_has(in, "NaN") && (isnan(a) || isnan(b))))
		return NAN;
	if (isnan(a))
		d = b;
	else if (isnan(b))
		d = a;
	else if (a == b) /* +0 is above -0 */
		d = (signbit(a) != 0) == is_min ? a : b;
	else
		d = (a < b) == is_min ? a : b;
	return has_sign ? copysign(d, sign ? -1 : 1) : d;
}

static volatile float vf[3];
static volatile double vd[3];

/*
 * The description leaves open whether .ftz flushes a result that only the coarse rounding of
 * subnormal numbers makes normal. As src/ptx, and x86: yes, if it is below the normal numbers after
 * a rounding to 24 bits.
 */
static bool is_barely_normal(const struct naive_insn *in, float c)
{
	const double x = (double)vf[0], y = (double)vf[1];
	double r;

	fesetround(FE_TOWARDZERO);
	r = naive_is(in, "add")       ? x + y
		: naive_is(in, "sub") ? x - y
		: naive_is(in, "mul") ? x * y
		: naive_is(in, "div") ? x / y
		: naive_is(in, "rcp") ? 1 / x
				      : fma(x, y, (double)c);
	vd[0] = r;
	fesetround(FE_TONEAREST);
	if (direction_of(in) == NEAREST)
		return fabs(vd[0]) < 0x1p-126 * (1 - 0x1p-25);
	return fabs(vd[0]) <= 0x1p-126 * (1 - 0x1p-24);
}

static uint64_t compute_f32(const struct naive_insn *in, const uint64_t *s)
{
	float r = 0, c;

	for (int i = 0; i < 3; i++)
		vf[i] = source_f32(in, s[i]);
	c = vf[2];
	if (naive_is(in, "min") || naive_is(in, "max"))
		return result_f32(in, (float)least_or_most(in, (double)vf[0], (double)vf[1]));
	if (naive_is(in, "abs"))
		return bits_of_f32(vf[0]) & 0x7fffffff;
	if (naive_is(in, "neg"))
		return bits_of_f32(vf[0]) ^ 0x80000000;
	if (naive_is(in, "copysign"))
		return (s[0] & 0x80000000) | (s[1] & 0x7fffffff);
	set_direction(direction_of(in));
	if (naive_is(in, "add"))
		r = vf[0] + vf[1];
	else if (naive_is(in, "sub"))
		r = vf[0] - vf[1];
	else if (naive_is(in, "mul"))
		r = vf[0] * vf[1];
	else if (naive_is(in, "fma") || naive_is(in, "mad"))
		r = fmaf(vf[0], vf[1], vf[2]);
	else if (naive_is(in, "div"))
		r = vf[0] / vf[1];
	else if (naive_is(in, "rcp"))
		r = 1 / vf[0];
	else if (naive_is(in, "sqrt"))
		r = sqrtf(vf[0]);
	else
		naive_die(in, "no such operation of f32");
	vf[2] = r;
	fesetround(FE_TONEAREST);
	if (naive_has(in, "ftz") && fabsf(vf[2]) == 0x1p-126f && is_barely_normal(in, c))
		vf[2] = copysignf(0, vf[2]);
	return result_f32(in, vf[2]);
}

static uint64_t compute_f64(const struct naive_insn *in, const uint64_t *s)
{
	double r = 0;

	for (int i = 0; i < 3; i++)
		vd[i] = f64_of(s[i]);
	if (naive_is(in, "min") || naive_is(in, "max"))
		return bits_of_f64(least_or_most(in, vd[0], vd[1]));
	if (naive_is(in, "abs"))
		return s[0] & ~(UINT64_C(1) << 63);
	if (naive_is(in, "neg"))
		return s[0] ^ UINT64_C(1) << 63;
	if (naive_is(in, "copysign"))
		return (s[0] & UINT64_C(1) << 63) | (s[1] & ~(UINT64_C(1) << 63));
	set_direction(direction_of(in));
	if (naive_is(in, "add"))
		r = vd[0] + vd[1];
	else if (naive_is(in, "sub"))
		r = vd[0] - vd[1];
	else if (naive_is(in, "mul"))
		r = vd[0] * vd[1];
	else if (naive_is(in, "fma") || naive_is(in, "mad"))
		r = fma(vd[0], vd[1], vd[2]);
	else if (naive_is(in, "div"))
		r = vd[0] / vd[1];
	else if (naive_is(in, "rcp"))
		r = 1 / vd[0];
	else if (naive_is(in, "sqrt"))
		r = sqrt(vd[0]);
	else
		naive_die(in, "no such operation of f64");
	vd[0] = r;
	fesetround(FE_TONEAREST);
	return bits_of_f64(vd[0]);
}

/* One value of f16 or bf16. */
static uint64_t compute_half(const struct naive_insn *in, bool is_bf16, const uint64_t *s)
{
	double v[3], r = 0;
	uint64_t bits;

	for (int i = 0; i < 3; i++) {
		v[i] = is_bf16 ? bf16_of(s[i]) : f16_of(s[i]);
		if (naive_has(in, "ftz") && fabs(v[i]) < 0x1p-14)
			v[i] = copysign(0, v[i]);
	}
	if (naive_is(in, "abs"))
		return is_bf16 ? s[0] & 0x7fff : round_f16(fabs(v[0]), NEAREST);
	if (naive_is(in, "neg"))
		return is_bf16 ? s[0] ^ 0x8000 : round_f16(-v[0], NEAREST);
	if (naive_is(in, "min") || naive_is(in, "max"))
		r = least_or_most(in, v[0], v[1]);
	else if (naive_is(in, "add"))
		r = odd_fma(v[0], 1, v[1]);
	else if (naive_is(in, "sub"))
		r = odd_fma(v[1], -1, v[0]);
	else if (naive_is(in, "mul"))
		r = v[0] * v[1]; /* exact */
	else if (naive_is(in, "fma"))
		r = odd_fma(v[0], v[1], v[2]);
	else
		naive_die(in, "no such operation of half precision");
	bits = is_bf16 ? round_bf16(r, NEAREST) : round_f16(r, NEAREST);
	if (naive_has(in, "ftz") && (bits & 0x7c00) == 0)
		bits &= 0x8000;
	if (naive_has(in, "sat"))
		bits = isnan(r) ? 0 : round_f16(saturate(f16_of(bits)), NEAREST);
	if (naive_has(in, "relu") && !isnan(r) && bits & 0x8000)
		bits = 0;
	return bits;
}

uint64_t naive_compute_float(const struct naive_insn *in, struct naive_type t, const uint64_t *s)
{
	uint64_t low[3], high[3];

	if (t.bits == 64)
		return compute_f64(in, s);
	if (t.bits == 32 && t.lanes == 1)
		return compute_f32(in, s);
	for (int i = 0; i < 3; i++) {
		low[i] = s[i] & 0xffff;
		high[i] = s[i] >> 16 & 0xffff;
	}
	if (t.lanes == 1)
		return compute_half(in, t.kind == 'g', low);
	return compute_half(in, t.kind == 'g', low) | compute_half(in, t.kind == 'g', high) << 16;
}

/* ---- comparisons ---- */

bool naive_compare(const struct naive_insn *in, struct naive_type t, uint64_t a, uint64_t b)
{
	static const char *const names[] = {"eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi",
		"hs", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};
	int op = -1, order;
	bool is_nan = false;

	for (int i = 0; i < 18; i++)
		if (naive_has(in, names[i]))
			op = i;
	if (op < 0)
		naive_die(in, "no comparison");
	if (t.kind == 'f' || t.kind == 'g') {
		double x = t.bits == 64 ? f64_of(a)
			: t.bits == 32  ? (double)source_f32(in, a)
			: t.kind == 'g' ? bf16_of(a)
					: f16_of(a);
		double y = t.bits == 64 ? f64_of(b)
			: t.bits == 32  ? (double)source_f32(in, b)
			: t.kind == 'g' ? bf16_of(b)
					: f16_of(b);

		is_nan = isnan(x) || isnan(y);
		order = x < y ? -1 : x > y;
		if (op == 16 || op == 17)
			return is_nan == (op == 17);
		if (is_nan)
			return op >= 10;
		if (op >= 10)
			op -= 10;
	} else {
		wide x = naive_value(a, t), y = naive_value(b, t);

		order = x < y ? -1 : x > y;
		if (op >= 6 && op <= 9)
			op -= 4;
	}
	switch (op) {
	case 0: return order == 0;
	case 1: return order != 0;
	case 2: return order < 0;
	case 3: return order <= 0;
	case 4: return order > 0;
	default: return order >= 0;
	}
}

bool naive_test(const struct naive_insn *in, uint64_t a)
{
	int class = in->types[0].bits == 64 ? fpclassify(f64_of(a)) : fpclassify(f32_of(a));

	if (naive_has(in, "finite"))
		return class != FP_NAN && class != FP_INFINITE;
	if (naive_has(in, "infinite"))
		return class == FP_INFINITE;
	if (naive_has(in, "number"))
		return class != FP_NAN;
	if (naive_has(in, "notanumber"))
		return class == FP_NAN;
	if (naive_has(in, "normal"))
		return class == FP_NORMAL || class == FP_ZERO;
	return class == FP_SUBNORMAL;
}

/* ---- conversions ---- */

wide naive_clamp(wide v, struct naive_type t)
{
	wide low = t.kind == 's' ? -((wide)1 << (t.bits - 1)) : 0;
	wide high = t.kind == 's' ? ((wide)1 << (t.bits - 1)) - 1 : ((wide)1 << t.bits) - 1;

	return v < low ? low : v > high ? high : v;
}

static double integral(double d, enum direction direction)
{
	double r;

	set_direction(direction);
	r = rint(d);
	fesetround(FE_TONEAREST);
	return r;
}

static double convert_source(const struct naive_insn *in, struct naive_type t, uint64_t v)
{
	if (t.bits == 64)
		return f64_of(v);
	if (t.bits == 32)
		return (double)source_f32(in, v);
	return t.kind == 'g' ? bf16_of(v) : f16_of(v);
}

static uint64_t float_to_int(
	const struct naive_insn *in, struct naive_type to, struct naive_type from, uint64_t v)
{
	double d = convert_source(in, from, v);
	wide r;

	if (isnan(d))
		return from.bits == 64 || to.bits == 64 ? UINT64_C(1) << (to.bits - 1) : 0;
	d = integral(d, direction_of(in));
	if (fabs(d) >= 0x1p100)
		r = d < 0 ? -((wide)1 << 100) : (wide)1 << 100;
	else
		r = (wide)d;
	return (uint64_t)naive_clamp(r, to);
}

static uint64_t to_float(
	const struct naive_insn *in, struct naive_type to, double d, enum direction direction)
{
	float f;

	if (naive_has(in, "sat"))
		d = saturate(d);
	if (naive_has(in, "relu") && !isnan(d) && d <= 0)
		d = 0;
	if (to.bits == 64)
		return bits_of_f64(d);
	if (to.bits == 16) {
		uint64_t r = to.kind == 'g' ? round_bf16(d, direction) : round_f16(d, direction);

		if (naive_has(in, "satfinite") &&
			(r & 0x7fff) == (to.kind == 'g' ? 0x7f80 : 0x7c00))
			r--;
		return r;
	}
	set_direction(direction);
	vd[0] = d;
	f = (float)vd[0];
	vf[0] = f;
	fesetround(FE_TONEAREST);
	f = vf[0];
	if (naive_has(in, "ftz"))
		f = flush_f32(f);
	return isnan(f) ? UINT64_C(0x7fffffff) : bits_of_f32(f);
}

static uint64_t int_to_float(
	const struct naive_insn *in, struct naive_type to, struct naive_type from, uint64_t v)
{
	wide value = naive_value(v, from);
	enum direction direction = direction_of(in);

	if (to.bits == 64) {
		set_direction(direction);
		vd[0] = value < 0 ? (double)(int64_t)value : (double)(uint64_t)value;
		fesetround(FE_TONEAREST);
		return bits_of_f64(naive_has(in, "sat") ? saturate(vd[0]) : vd[0]);
	}
	return to_float(in, to, odd_of((quad)value), direction);
}

uint64_t naive_convert(
	const struct naive_insn *in, struct naive_type to, struct naive_type from, uint64_t v)
{
	bool is_to_float = to.kind == 'f' || to.kind == 'g';
	bool is_from_float = from.kind == 'f' || from.kind == 'g';
	double d;

	if (!is_to_float && !is_from_float) {
		wide value = naive_value(v, from);

		return (uint64_t)(naive_has(in, "sat") ? naive_clamp(value, to) : value);
	}
	if (!is_to_float)
		return float_to_int(in, to, from, v);
	if (!is_from_float)
		return int_to_float(in, to, from, v);
	d = convert_source(in, from, v);
	if (naive_has(in, "rni") || naive_has(in, "rzi") || naive_has(in, "rmi") ||
		naive_has(in, "rpi"))
		return to_float(in, to, integral(d, direction_of(in)), NEAREST);
	return to_float(in, to, d, direction_of(in));
}

bool naive_is_positive(const struct naive_insn *in, uint64_t v)
{
	return source_f32(in, v) >= 0;
}

uint64_t naive_add_f32(uint64_t a, uint64_t b)
{
	return bits_of_f32(f32_of(a) + f32_of(b));
}
