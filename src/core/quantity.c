/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The grammar is a sign, digits with a point anywhere among them, then a unit of powers of 1024 or
 * of 1000, or an exponent of 10. "1E" is 10^18, "1E3" is 1000. The number is digits x 10^exponent
 * x 2^shift with 64 bits of digits, multiplied out in 128 bits.
 */
#include "core/quantity.h"

#include <errno.h>

#include "base/cleanup.h"

#define SHOW "'%.*s'"
#define SHOWN(s) (int)MIN((s).n, (size_t)40), (s).p ? (s).p : ""
#define EXPONENT_MAX 1000

struct number {
	uint64_t digits;
	int exponent; /* of 10 */
	unsigned int shift;
};

static const struct {
	const char *name;
	int exponent;
	unsigned int shift;
} units[] = {
	{"", 0, 0},
	{"n", -9, 0},
	{"u", -6, 0},
	{"m", -3, 0},
	{"k", 3, 0},
	{"M", 6, 0},
	{"G", 9, 0},
	{"T", 12, 0},
	{"P", 15, 0},
	{"E", 18, 0},
	{"Ki", 0, 10},
	{"Mi", 0, 20},
	{"Gi", 0, 30},
	{"Ti", 0, 40},
	{"Pi", 0, 50},
	{"Ei", 0, 60},
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool add_digits(struct number *n, char c, uint64_t zeros)
{
	for (; zeros; zeros--)
		if (__builtin_mul_overflow(n->digits, UINT64_C(10), &n->digits))
			return false;
	return !__builtin_mul_overflow(n->digits, UINT64_C(10), &n->digits) &&
		!__builtin_add_overflow(n->digits, (uint64_t)(c - '0'), &n->digits);
}

/* "12.50" off *rest. Zeros at the end are left to the exponent: they need no room. */
static int take_digits(struct str *rest, struct number *ret)
{
	struct number n = {0};
	bool in_fraction = false, has_digit = false, fits = true;
	uint64_t zeros = 0; /* not counted unless another digit follows */
	size_t i;

	for (i = 0; i < rest->n; i++) {
		const char c = rest->p[i];

		if (c == '.' && !in_fraction) {
			in_fraction = true;
			continue;
		}
		if (!is_digit(c))
			break;
		has_digit = true;
		n.exponent -= in_fraction;
		if (c == '0') {
			zeros++;
			continue;
		}
		fits = fits && add_digits(&n, c, n.digits ? zeros : 0);
		zeros = 0;
	}
	if (!has_digit)
		return -EINVAL;
	if (!fits)
		return -ERANGE;
	n.exponent = n.digits ? n.exponent + (int)zeros : 0;
	*rest = (struct str){rest->p + i, rest->n - i};
	*ret = n;
	return 0;
}

/* "e3", "E-6" */
static bool take_exponent(struct str text, int *ret_exponent)
{
	bool is_negative;
	int value = 0;

	if (!str_skip_prefix(&text, STR("e")) && !str_skip_prefix(&text, STR("E")))
		return false;
	is_negative = str_skip_prefix(&text, STR("-"));
	if (!is_negative)
		str_skip_prefix(&text, STR("+"));
	for (size_t i = 0; i < text.n; i++) {
		if (!is_digit(text.p[i]))
			return false;
		value = MIN(value * 10 + (text.p[i] - '0'), EXPONENT_MAX);
	}
	*ret_exponent = is_negative ? -value : value;
	return text.n > 0;
}

static int take_unit(struct str text, struct number *number)
{
	int exponent;

	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		if (str_is(text, units[i].name)) {
			number->exponent += units[i].exponent;
			number->shift = units[i].shift;
			return 0;
		}
	if (!take_exponent(text, &exponent))
		return -EINVAL;
	number->exponent += exponent;
	return 0;
}

/* The number x per_unit. -EDOM: that is no integer. */
static int multiply(struct number n, uint64_t per_unit, uint64_t *ret)
{
	unsigned __int128 value = n.digits;

	if (!n.digits) {
		*ret = 0;
		return 0;
	}
	/* At most 2^64 x 2^60. What overflows below was too large anyway. */
	value <<= n.shift;
	if (__builtin_mul_overflow(value, per_unit, &value))
		return -ERANGE;
	for (; n.exponent < 0; n.exponent++) {
		if (value % 10)
			return -EDOM;
		value /= 10;
	}
	for (; n.exponent > 0; n.exponent--)
		if (value > INT64_MAX || __builtin_mul_overflow(value, 10, &value))
			return -ERANGE;
	if (value > INT64_MAX)
		return -ERANGE;
	*ret = (uint64_t)value;
	return 0;
}

int quantity_parse(struct str text, uint64_t per_unit, uint64_t *ret_value, struct error *err)
{
	struct number number;
	struct str rest = text;
	bool is_negative = str_skip_prefix(&rest, STR("-"));
	int r;

	if (!is_negative)
		str_skip_prefix(&rest, STR("+"));
	r = text.n > QUANTITY_TEXT_MAX ? -ERANGE : take_digits(&rest, &number);
	if (r == 0)
		r = take_unit(rest, &number);
	if (r == 0 && is_negative && number.digits)
		return fail(err, ERANGE, SHOW " is negative", SHOWN(text));
	if (r == 0)
		r = multiply(number, per_unit, ret_value);
	if (r == -EINVAL)
		return fail(err, EINVAL, SHOW " is no quantity: write 2, 0.5, 500m or 4Gi",
			SHOWN(text));
	if (r == -EDOM && per_unit == 1)
		return fail(err, ERANGE, SHOW " is no whole number", SHOWN(text));
	if (r == -EDOM)
		return fail(err, ERANGE, SHOW " is too fine: steps of 1/%llu are possible",
			SHOWN(text), (unsigned long long)per_unit);
	if (r < 0)
		return fail(err, ERANGE, SHOW " is out of range", SHOWN(text));
	return 0;
}
