/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arithmetic of the second interpreter, one value at a time. Integers are computed with 128 bits
 * where that is simpler than to think. One thread.
 */
#include "ptx-naive-internal.h"

#include <string.h>

typedef naive_wide wide;
typedef unsigned __int128 uwide;

static uint64_t permute(const struct naive_insn *in, uint64_t a, uint64_t b, uint64_t c)
{
	static const struct {
		const char *mode;
		uint16_t selectors[4]; /* one digit for each byte, the highest byte first */
	} modes[] = {
		{"f4e", {0x3210, 0x4321, 0x5432, 0x6543}},
		{"b4e", {0x5670, 0x6701, 0x7012, 0x0123}},
		{"rc8", {0x0000, 0x1111, 0x2222, 0x3333}},
		{"ecl", {0x3210, 0x3211, 0x3222, 0x3333}},
		{"ecr", {0x0000, 0x1110, 0x2210, 0x3210}},
		{"rc16", {0x1010, 0x3232, 0x1010, 0x3232}},
	};
	uint64_t bytes = (a & 0xffffffff) | b << 32, r = 0, selector = c & 0xffff;

	for (int i = 0; i < 6; i++)
		if (naive_has(in, modes[i].mode))
			selector = modes[i].selectors[c & 3];
	for (int i = 0; i < 4; i++) {
		uint64_t nibble = selector >> (4 * i) & 15;
		uint64_t byte = bytes >> (8 * (nibble & 7)) & 0xff;

		if (nibble & 8)
			byte = byte & 0x80 ? 0xff : 0;
		r |= byte << (8 * i);
	}
	return r;
}

static uint64_t find_bit(const struct naive_insn *in, struct naive_type t, uint64_t a)
{
	int64_t r = -1;

	if (t.kind == 's' && naive_signed(a, t.bits) < 0)
		a = naive_low_bits(~a, t.bits);
	for (int i = 0; i < t.bits; i++)
		if (a >> i & 1)
			r = i;
	if (naive_has(in, "shiftamt") && r >= 0)
		r = t.bits - 1 - r;
	return (uint32_t)r;
}

static uint64_t extract(struct naive_type t, uint64_t a, uint64_t b, uint64_t c)
{
	int msb = t.bits - 1, pos = b & 0xff, len = c & 0xff;
	int last = pos + len - 1 < msb ? pos + len - 1 : msb;
	uint64_t sign = t.kind == 'u' || len == 0 ? 0 : a >> last & 1, r = 0;

	for (int i = 0; i <= msb; i++)
		r |= (i < len && pos + i <= msb ? a >> (pos + i) & 1 : sign) << i;
	return r;
}

static uint64_t insert(struct naive_type t, const uint64_t *s)
{
	int msb = t.bits - 1, pos = s[2] & 0xff, len = s[3] & 0xff;
	uint64_t r = s[1];

	for (int i = 0; i < len && pos + i <= msb; i++)
		r = (r & ~(UINT64_C(1) << (pos + i))) | (s[0] >> i & 1) << (pos + i);
	return r;
}

static uint64_t make_mask(const struct naive_insn *in, uint32_t a, uint32_t b)
{
	uint32_t a1 = a & 31, b1 = b & 31, sum = a1 + b1;
	uint32_t mask0 = UINT32_MAX << a1, mask1 = sum >= 32 ? 0 : UINT32_MAX << sum;
	bool is_clamp = naive_has(in, "clamp");

	if (is_clamp && a >= 32)
		mask0 = mask1 = 0;
	if (is_clamp && b >= 32)
		mask1 = 0;
	return mask0 & ~mask1;
}

static uint64_t extend(const struct naive_insn *in, struct naive_type t, uint32_t a, uint32_t b)
{
	uint32_t b1 = b & 31;
	bool is_large = b >= 32 && naive_has(in, "clamp");
	uint32_t mask = is_large ? 0 : UINT32_MAX << b1;
	bool sign = b1 && !is_large && t.kind == 's' && (a >> (b1 - 1) & 1);

	return (a & ~mask) | (sign ? mask : 0);
}

static uint64_t dot(const struct naive_insn *in, const uint64_t *s)
{
	const struct naive_type ta = in->types[0], tb = in->types[1];
	const int n = naive_is(in, "dp4a") ? 4 : 2, width = n == 4 ? 8 : 16;
	const int first = naive_has(in, "hi") ? 2 : 0;
	int64_t r = naive_signed(s[2], 32);

	for (int i = 0; i < n; i++) {
		uint64_t x = s[0] >> (width * i), y = s[1] >> (8 * (first + i));
		int64_t vx = ta.kind == 's' ? naive_signed(naive_low_bits(x, width), width)
					    : (int64_t)naive_low_bits(x, width);
		int64_t vy = tb.kind == 's' ? naive_signed(y & 0xff, 8) : (int64_t)(y & 0xff);

		r += vx * vy;
	}
	return (uint64_t)r;
}

static uint64_t shift(const struct naive_insn *in, struct naive_type t, uint64_t a, uint64_t b)
{
	uint32_t n = (uint32_t)b;

	if (naive_is(in, "shl"))
		return n >= (uint32_t)t.bits ? 0 : a << n;
	if (t.kind == 's')
		return (uint64_t)(naive_signed(a, t.bits) >> (n >= 63 ? 63 : n));
	return n >= (uint32_t)t.bits ? 0 : naive_low_bits(a, t.bits) >> n;
}

static uint64_t funnel(const struct naive_insn *in, const uint64_t *s)
{
	uint64_t both = (s[0] & 0xffffffff) | s[1] << 32;
	uint32_t c = (uint32_t)s[2], n = naive_has(in, "clamp") ? (c < 32 ? c : 32) : c & 31;

	return naive_has(in, "l") ? (both << n) >> 32 : both >> n;
}

/* add, sub, mul, mad and relatives, with carries */
static uint64_t sum(
	const struct naive_insn *in, struct naive_type t, const uint64_t *s, uint32_t *carry)
{
	bool has_carry = in->base[strlen(in->base) - 1] == 'c', is_sub = in->base[0] == 's';
	wide a = naive_value(s[0], t), b = naive_value(s[1], t), c = naive_value(s[2], t), r;
	struct naive_type u = {'u', t.bits, 1};

	if (naive_has(in, "cc") || has_carry) {
		bool is_mad = in->base[0] == 'm';
		wide product = (wide)((uwide)a * (uwide)b);
		uwide x = naive_low_bits(s[0], t.bits), y = naive_low_bits(s[1], t.bits), z;

		if (is_mad) {
			x = naive_low_bits(
				(uint64_t)(naive_has(in, "hi") ? product >> t.bits : product),
				t.bits);
			y = (uwide)naive_value(s[2], u);
		}
		z = is_sub ? x - y - (has_carry ? *carry : 0) : x + y + (has_carry ? *carry : 0);
		if (naive_has(in, "cc"))
			*carry = z >> t.bits & 1;
		return (uint64_t)z;
	}
	if (naive_is(in, "add"))
		r = a + b;
	else if (naive_is(in, "sub"))
		r = a - b;
	else if (naive_has(in, "wide"))
		r = a * b;
	else if (naive_has(in, "hi"))
		/* as an unsigned product where that has more than 127 bits */
		r = t.kind == 's' ? (a * b) >> t.bits : (wide)(((uwide)a * (uwide)b) >> t.bits);
	else
		r = (wide)((uwide)a * (uwide)b);
	if (naive_is(in, "mad")) {
		struct naive_type wider = {t.kind, naive_has(in, "wide") ? 2 * t.bits : t.bits, 1};

		r = (wide)((uwide)r + (uwide)naive_value(s[2], wider));
	}
	(void)c;
	if (naive_has(in, "sat"))
		r = naive_clamp(r, t);
	return (uint64_t)r;
}

static uint64_t multiply24(const struct naive_insn *in, struct naive_type t, const uint64_t *s)
{
	int64_t a = t.kind == 's' ? naive_signed(s[0] & 0xffffff, 24) : (int64_t)(s[0] & 0xffffff);
	int64_t b = t.kind == 's' ? naive_signed(s[1] & 0xffffff, 24) : (int64_t)(s[1] & 0xffffff);
	int64_t r = a * b;

	if (naive_has(in, "hi"))
		r >>= 16;
	if (naive_is(in, "mad24"))
		r = naive_signed((uint64_t)r & 0xffffffff, 32) + naive_signed(s[2], 32);
	return (uint64_t)r;
}

static uint64_t least_or_most_int(
	const struct naive_insn *in, struct naive_type t, uint64_t a, uint64_t b)
{
	const struct naive_type half = {t.kind, 16, 1};

	if (t.lanes == 2)
		return naive_low_bits(least_or_most_int(in, half, a & 0xffff, b & 0xffff), 16) |
			naive_low_bits(least_or_most_int(in, half, a >> 16, b >> 16), 16) << 16;
	a = (naive_value(a, t) < naive_value(b, t)) == naive_is(in, "min") ? a : b;
	return naive_has(in, "relu") && naive_signed(a, t.bits) < 0 ? 0 : a;
}

static uint64_t compute_int(
	const struct naive_insn *in, struct naive_type t, const uint64_t *s, uint32_t *carry)
{
	const uint64_t a = s[0], b = s[1], c = s[2];
	wide x = naive_value(a, t), y = naive_value(b, t);
	uint64_t r = 0;

	if (naive_is(in, "add") || naive_is(in, "sub") || naive_is(in, "mul") ||
		naive_is(in, "mad") || naive_is(in, "addc") || naive_is(in, "subc") ||
		naive_is(in, "madc"))
		return sum(in, t, s, carry);
	if (naive_is(in, "mul24") || naive_is(in, "mad24"))
		return multiply24(in, t, s);
	if (naive_is(in, "sad"))
		return (uint64_t)((x < y ? y - x : x - y) + naive_value(c, t));
	if (naive_is(in, "div"))
		return (uint64_t)(x / y);
	if (naive_is(in, "rem"))
		return (uint64_t)(x % y);
	if (naive_is(in, "abs"))
		return (uint64_t)(x < 0 ? -x : x);
	if (naive_is(in, "neg"))
		return (uint64_t)-x;
	if (naive_is(in, "min") || naive_is(in, "max"))
		return least_or_most_int(in, t, a, b);
	if (naive_is(in, "popc")) {
		for (int i = 0; i < t.bits; i++)
			r += a >> i & 1;
		return r;
	}
	if (naive_is(in, "clz")) {
		while (r < (uint64_t)t.bits && !(a >> (t.bits - 1 - (int)r) & 1))
			r++;
		return r;
	}
	if (naive_is(in, "brev")) {
		for (int i = 0; i < t.bits; i++)
			r |= (a >> i & 1) << (t.bits - 1 - i);
		return r;
	}
	if (naive_is(in, "bfind"))
		return find_bit(in, t, a);
	if (naive_is(in, "bfe"))
		return extract(t, a, b, c);
	if (naive_is(in, "bfi"))
		return insert(t, s);
	if (naive_is(in, "bmsk"))
		return make_mask(in, (uint32_t)a, (uint32_t)b);
	if (naive_is(in, "szext"))
		return extend(in, t, (uint32_t)a, (uint32_t)b);
	if (naive_is(in, "shl") || naive_is(in, "shr"))
		return shift(in, t, a, b);
	if (naive_is(in, "shf"))
		return funnel(in, s);
	if (naive_is(in, "and"))
		return a & b;
	if (naive_is(in, "or"))
		return a | b;
	if (naive_is(in, "xor"))
		return a ^ b;
	if (naive_is(in, "not"))
		return ~a;
	if (naive_is(in, "cnot"))
		return naive_low_bits(a, t.bits) == 0;
	if (naive_is(in, "lop3")) {
		for (int i = 0; i < 32; i++) {
			uint64_t row = (a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1);

			r |= (s[3] >> row & 1) << i;
		}
		return r;
	}
	if (naive_is(in, "prmt"))
		return permute(in, a, b, c);
	naive_die(in, "no such operation of integers");
}

uint64_t naive_compute(const struct naive_insn *in, const uint64_t *s, uint32_t *carry)
{
	const struct naive_type t = in->types[0];

	if (naive_is(in, "mov"))
		return s[0];
	if (naive_is(in, "selp"))
		return s[2] ? s[0] : s[1];
	if (naive_is(in, "slct")) {
		if (in->types[1].kind == 'f')
			return naive_is_positive(in, s[2]) ? s[0] : s[1];
		return naive_signed(s[2], 32) >= 0 ? s[0] : s[1];
	}
	if (naive_is(in, "set")) {
		bool r = naive_compare(in, in->types[1], s[0], s[1]);

		return !r ? 0 : t.kind == 'f' ? 0x3f800000 : UINT32_MAX;
	}
	if (naive_is(in, "cvt")) {
		if (in->n_ops == 3)
			return naive_convert(
				       in, (struct naive_type){t.kind, 16, 1}, in->types[1], s[1]) |
				naive_convert(
					in, (struct naive_type){t.kind, 16, 1}, in->types[1], s[0])
				<< 16;
		return naive_convert(in, t, in->types[1], s[0]);
	}
	if (naive_is(in, "dp4a") || naive_is(in, "dp2a"))
		return dot(in, s);
	if (t.kind == 'f' || t.kind == 'g')
		return naive_compute_float(in, t, s);
	return compute_int(in, t, s, carry);
}

uint64_t naive_atomic(const struct naive_insn *in, uint64_t old, uint64_t b, uint64_t c)
{
	const struct naive_type t = in->types[0];

	if (naive_has(in, "add")) {
		if (t.kind == 'f' && t.bits == 32)
			return naive_add_f32(old, b);
		return old + b;
	}
	if (naive_has(in, "min"))
		return naive_value(b, t) < naive_value(old, t) ? b : old;
	if (naive_has(in, "max"))
		return naive_value(b, t) > naive_value(old, t) ? b : old;
	if (naive_has(in, "and"))
		return old & b;
	if (naive_has(in, "or"))
		return old | b;
	if (naive_has(in, "xor"))
		return old ^ b;
	if (naive_has(in, "exch"))
		return b;
	if (naive_has(in, "cas"))
		return old == b ? c : old;
	if (naive_has(in, "inc"))
		return old >= b ? 0 : old + 1;
	if (naive_has(in, "dec"))
		return old == 0 || old > b ? b : old - 1;
	naive_die(in, "no such atomic operation");
}
