/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses and formats quantities. The grammar is a sign, digits with at most one point, then a unit
 * of powers of 1024 or 1000, or an exponent of 10. "1E" is 10^18, "1E3" is 1000. The number is
 * digits x 10^exponent x 2^shift, multiplied in 128 bits and rounded once. Pure; any thread.
 */
#include "spec/quantity.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/cleanup.h"

#define SHOW "'%.*s'"
#define SHOWN(s) (int)MIN((s).n, (size_t)40), (s).p ? (s).p : ""
#define EXPONENT_MAX 1000

struct number {
	unsigned __int128 digits;
	int n_digits;
	int exponent; /* of 10 */
	int shift;
};

static const struct {
	const char *name;
	int exponent, shift;
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

static bool quantity_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool add_digits(struct number *n, char c, int zeros)
{
	n->n_digits += zeros + 1;
	if (n->n_digits > QUANTITY_DIGITS_MAX)
		return false;
	for (; zeros; zeros--)
		n->digits *= 10;
	n->digits = n->digits * 10 + (unsigned int)(c - '0');
	return true;
}

/* Cuts "12.50" off *rest. Trailing zeros only increase the exponent, so they need no room. */
static int take_digits(struct str *rest, struct number *ret)
{
	struct number n = {0};
	bool in_fraction = false, has_digit = false, fits = true;
	/* zeros read so far that become part of the number only if another digit follows */
	int zeros = 0;
	size_t i;

	for (i = 0; i < rest->n; i++) {
		const char c = rest->p[i];

		if (c == '.' && !in_fraction) {
			in_fraction = true;
			continue;
		}
		if (!quantity_is_digit(c))
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
	n.exponent += zeros;
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
		if (!quantity_is_digit(text.p[i]))
			return false;
		value = MIN(value * 10 + (text.p[i] - '0'), EXPONENT_MAX);
	}
	*ret_exponent = is_negative ? -value : value;
	return text.n > 0;
}

int quantity_read_unit(struct str text, int *ret_exponent, int *ret_shift)
{
	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		if (str_is(text, units[i].name)) {
			*ret_exponent = units[i].exponent;
			*ret_shift = units[i].shift;
			return 0;
		}
	*ret_shift = 0;
	return take_exponent(text, ret_exponent) ? 0 : -EINVAL;
}

static int take_unit(struct str text, struct number *number)
{
	int exponent;

	if (quantity_read_unit(text, &exponent, &number->shift) < 0)
		return -EINVAL;
	number->exponent += exponent;
	return 0;
}

/* The number as an integer, rounded up; -ERANGE above INT64_MAX. */
static int quantity_multiply(struct number n, uint64_t *ret, bool *ret_is_rounded)
{
	const unsigned __int128 most = (unsigned __int128)1 << 124;
	bool is_rounded = false;

	for (; n.exponent > 0 && n.digits; n.exponent--) {
		if (n.digits > INT64_MAX / 10)
			return -ERANGE;
		n.digits *= 10;
	}
	/* If the doubled number would not fit, divides it by 10 first. */
	for (; n.shift > 0; n.shift--) {
		if (n.digits > most && n.exponent == 0)
			return -ERANGE;
		if (n.digits > most) {
			is_rounded = is_rounded || n.digits % 10 != 0;
			n.digits /= 10;
			n.exponent++;
		}
		n.digits *= 2;
	}
	for (; n.exponent < 0 && n.digits; n.exponent++) {
		is_rounded = is_rounded || n.digits % 10 != 0;
		n.digits /= 10;
	}
	n.digits += is_rounded;
	if (n.digits > INT64_MAX)
		return -ERANGE;
	*ret = (uint64_t)n.digits;
	*ret_is_rounded = is_rounded;
	return 0;
}

static int quantity_parse_text(struct str text, uint64_t per_unit, uint64_t *ret_value,
	bool *ret_is_rounded, struct error *err)
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
		return fail(err, ERANGE, SHOW " is negative; expected 0 or more", SHOWN(text));
	for (; r == 0 && per_unit > 1; per_unit /= 10) {
		assert(per_unit % 10 == 0);
		number.exponent++;
	}
	if (r == 0)
		r = quantity_multiply(number, ret_value, ret_is_rounded);
	if (r == -EINVAL)
		return fail(err, EINVAL,
			SHOW " is not a quantity; expected a number such as 2, 0.5, 500m or 4Gi",
			SHOWN(text));
	return r < 0 ? fail(err, ERANGE, SHOW " is out of range", SHOWN(text)) : 0;
}

int quantity_parse(struct str text, uint64_t per_unit, uint64_t *ret_value, struct error *err)
{
	bool is_rounded;
	uint64_t value;
	int r = quantity_parse_text(text, per_unit, &value, &is_rounded, err);

	if (r < 0)
		return r;
	if (is_rounded && per_unit == 1)
		return fail(err, ERANGE, SHOW " is not a whole number", SHOWN(text));
	if (is_rounded)
		return fail(err, ERANGE, SHOW " has too many digits; expected steps of 1/%llu",
			SHOWN(text), (unsigned long long)per_unit);
	*ret_value = value;
	return 0;
}

int quantity_parse_up(struct str text, uint64_t per_unit, int64_t *ret_value, struct error *err)
{
	bool is_rounded;
	uint64_t value;
	int r = quantity_parse_text(text, per_unit, &value, &is_rounded, err);

	if (r == 0)
		*ret_value = (int64_t)value;
	return r;
}

/*
 * Formats the value in the largest unit that leaves a whole number; names[i] is the unit of step^i.
 */
static const char *quantity_format_step(
	uint64_t value, uint64_t step, const char *const *names, size_t n_names, char *ret)
{
	size_t i = 0;

	while (value && value % step == 0 && i + 1 < n_names) {
		value /= step;
		i++;
	}
	snprintf(ret, QUANTITY_SIZE, "%" PRIu64 "%s", value, value ? names[i] : "");
	return ret;
}

static const char *const decimal_names[] = {"m", "", "k", "M", "G", "T", "P", "E"};
static const char *const binary_names[] = {"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};

const char *quantity_format_milli(uint64_t milli, char ret[QUANTITY_SIZE])
{
	return quantity_format_step(milli, 1000, decimal_names, ARRAY_SIZE(decimal_names), ret);
}

/* Kubernetes writes amounts below 1024 bytes with decimal units. */
const char *quantity_format_bytes(uint64_t bytes, char ret[QUANTITY_SIZE])
{
	if (bytes < 1024)
		return quantity_format_step(
			bytes, 1000, decimal_names + 1, ARRAY_SIZE(decimal_names) - 1, ret);
	return quantity_format_step(bytes, 1024, binary_names, ARRAY_SIZE(binary_names), ret);
}
