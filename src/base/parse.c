/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file parses numbers and units. Fractions go through one decimal: a 64-bit integer and the
 * number of its digits behind the point. Products and quotients have 128 bits, so 0.1 stays exactly
 * one tenth. The units are tables. No state; any thread.
 */
#include "base/parse.h"

#include <errno.h>

#include "base/format.h"

#define FRACTION_MAX 19 /* 10^19 fits into 64 bits */

/* value = digits / 10^fraction; the fraction has no trailing zero. */
struct decimal {
	uint64_t digits;
	unsigned int fraction;
};

struct unit {
	const char *name;
	uint64_t factor;
};

/* Quotes a value in a message, cut at SHOWN_MAX bytes. */
#define SHOWN_MAX 40
#define SHOW_FMT "'%.*s%s'"
#define SHOW_ARG(s) \
	(int)MIN((s).n, (size_t)SHOWN_MAX), (s).p ? (s).p : "", (s).n > SHOWN_MAX ? "..." : ""

static bool parse_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

int parse_uint(struct str text, uint64_t min, uint64_t max, uint64_t *ret_value, struct error *err)
{
	uint64_t value = 0;
	bool too_large = false;
	size_t i;

	for (i = 0; i < text.n; i++) {
		if (!parse_is_digit(text.p[i]))
			break;
		too_large |= __builtin_mul_overflow(value, UINT64_C(10), &value);
		too_large |= __builtin_add_overflow(value, (uint64_t)(text.p[i] - '0'), &value);
	}
	if (!text.n || i < text.n)
		return fail(err, EINVAL, SHOW_FMT " is not a whole number; expected %llu to %llu",
			SHOW_ARG(text), (unsigned long long)min, (unsigned long long)max);
	if (too_large || value < min || value > max)
		return fail(err, ERANGE, SHOW_FMT " is out of range; expected %llu to %llu",
			SHOW_ARG(text), (unsigned long long)min, (unsigned long long)max);
	*ret_value = value;
	return 0;
}

/* Appends a digit; false if it does not fit. */
static bool add_digit(struct decimal *d, unsigned int digit, bool in_fraction)
{
	d->fraction += in_fraction;
	return d->fraction <= FRACTION_MAX &&
		!__builtin_mul_overflow(d->digits, UINT64_C(10), &d->digits) &&
		!__builtin_add_overflow(d->digits, (uint64_t)digit, &d->digits);
}

/* Cuts "12.500" off *rest. -EINVAL if there is no number, -ERANGE if it has too many digits. */
static int take_decimal(struct str *rest, struct decimal *ret)
{
	struct decimal d = {0};
	bool in_fraction = false, fits = true;
	size_t zeros = 0; /* behind the point; they count only if another digit follows */
	size_t i;

	for (i = 0; i < rest->n; i++) {
		if (rest->p[i] == '.' && !in_fraction && i > 0) {
			in_fraction = true;
			continue;
		}
		if (!parse_is_digit(rest->p[i]))
			break;
		if (in_fraction && rest->p[i] == '0') {
			zeros++;
			continue;
		}
		for (; zeros && fits; zeros--)
			fits = add_digit(&d, 0, in_fraction);
		fits = fits && add_digit(&d, (unsigned int)(rest->p[i] - '0'), in_fraction);
	}
	if (i == 0 || rest->p[i - 1] == '.')
		return -EINVAL;
	if (!fits)
		return -ERANGE;
	*rest = (struct str){rest->p + i, rest->n - i};
	*ret = d;
	return 0;
}

/* d * factor, exact. -ERANGE above max, -EDOM if it is no integer. */
static int parse_scale_decimal(struct decimal d, uint64_t factor, uint64_t max, uint64_t *ret)
{
	unsigned __int128 product = (unsigned __int128)d.digits * factor;
	uint64_t divisor = 1;
	unsigned int i;

	for (i = 0; i < d.fraction; i++)
		divisor *= 10;
	if (product / divisor > max)
		return -ERANGE;
	if (product % divisor)
		return -EDOM;
	*ret = (uint64_t)(product / divisor);
	return 0;
}

int parse_share(struct str text, uint32_t *ret_permille, struct error *err)
{
	struct str rest = text;
	struct decimal d;
	uint64_t permille = 0;
	int r = take_decimal(&rest, &d);

	if (r == 0)
		r = rest.n ? -EINVAL : parse_scale_decimal(d, SHARE_ONE, SHARE_MAX, &permille);
	else if (r == -ERANGE)
		r = -EDOM;
	if (r == -EINVAL)
		return fail(err, EINVAL,
			SHOW_FMT " is not a share of a GPU; expected a number such as 0.3 or 1",
			SHOW_ARG(text));
	if (r == -EDOM)
		return fail(err, ERANGE,
			SHOW_FMT
			" has too many digits; expected a multiple of 0.001, such as 0.125",
			SHOW_ARG(text));
	if (r < 0)
		return fail(err, ERANGE, SHOW_FMT " is out of range; expected at most %d GPUs",
			SHOW_ARG(text), SHARE_MAX / SHARE_ONE);
	*ret_permille = (uint32_t)permille;
	return 0;
}

int parse_percent(struct str text, uint32_t *ret_permille, struct error *err)
{
	struct str rest = text;
	struct decimal d;
	uint64_t permille = 0;
	int r = take_decimal(&rest, &d);

	if (r == 0)
		r = str_eq(rest, STR("%")) ? parse_scale_decimal(d, 10, 1000, &permille) : -EINVAL;
	if (r == -EINVAL)
		return fail(err, EINVAL,
			SHOW_FMT " is not a percentage; expected a number and %%, such as 25%%",
			SHOW_ARG(text));
	if (r < 0)
		return fail(err, ERANGE,
			SHOW_FMT " is out of range; expected 0%% to 100%% in steps of 0.1%%",
			SHOW_ARG(text));
	*ret_permille = (uint32_t)permille;
	return 0;
}

static const struct unit *find_unit(const struct unit *units, struct str name)
{
	for (; units->name; units++)
		if (str_is(name, units->name))
			return units;
	return NULL;
}

static const struct unit byte_units[] = {
	{"", 1},
	{"k", UINT64_C(1000)},
	{"K", UINT64_C(1000)},
	{"M", UINT64_C(1000000)},
	{"G", UINT64_C(1000000000)},
	{"T", UINT64_C(1000000000000)},
	{"P", UINT64_C(1000000000000000)},
	{"Ki", UINT64_C(1) << 10},
	{"Mi", UINT64_C(1) << 20},
	{"Gi", UINT64_C(1) << 30},
	{"Ti", UINT64_C(1) << 40},
	{"Pi", UINT64_C(1) << 50},
	{NULL, 0},
};

int parse_bytes(struct str text, uint64_t *ret_bytes, struct error *err)
{
	struct str rest = text;
	const struct unit *unit;
	struct decimal d;
	uint64_t bytes = 0;
	int r = take_decimal(&rest, &d);

	if (r == 0) {
		str_skip_suffix(&rest, STR("B"));
		unit = find_unit(byte_units, rest);
		r = unit ? parse_scale_decimal(d, unit->factor, INT64_MAX, &bytes) : -EINVAL;
	}
	if (r == -EINVAL)
		return fail(err, EINVAL,
			SHOW_FMT
			" is not an amount of memory; expected bytes, or a number with a unit, "
			"such as 4Gi or 500M",
			SHOW_ARG(text));
	if (r == -EDOM)
		return fail(err, ERANGE,
			SHOW_FMT " is not a whole number of bytes; write fewer decimals",
			SHOW_ARG(text));
	if (r < 0)
		return fail(err, ERANGE, SHOW_FMT " is out of range; expected less than 8192Pi",
			SHOW_ARG(text));
	*ret_bytes = bytes;
	return 0;
}

/* the whole days that fit into an int64_t */
#define DURATION_MAX_NS (UINT64_C(106751) * 86400 * 1000000000)

static const struct unit time_units[] = {
	{"ns", UINT64_C(1)},
	{"us", UINT64_C(1000)},
	{"ms", UINT64_C(1000000)},
	{"s", UINT64_C(1000000000)},
	{"m", UINT64_C(60000000000)},
	{"h", UINT64_C(3600000000000)},
	{"d", UINT64_C(86400000000000)},
	{NULL, 0},
};

int parse_duration(struct str text, uint64_t *ret_ns, struct error *err)
{
	return parse_duration_up_to(text, DURATION_MAX_NS, ret_ns, err);
}

int parse_duration_up_to(struct str text, uint64_t most_ns, uint64_t *ret_ns, struct error *err)
{
	struct str rest = text;
	const struct unit *unit;
	struct decimal d;
	uint64_t ns = 0;
	int r = take_decimal(&rest, &d);

	if (r == 0 && (rest.n || d.digits)) {
		unit = find_unit(time_units, rest);
		r = unit ? parse_scale_decimal(d, unit->factor, most_ns, &ns) : -EINVAL;
	}
	if (r == -EINVAL)
		return fail(err, EINVAL,
			SHOW_FMT " is not a duration; expected a number and ns, us, ms, s, m, h "
				 "or d, such as 10m",
			SHOW_ARG(text));
	if (r == -EDOM)
		return fail(err, ERANGE,
			SHOW_FMT " is not a whole number of nanoseconds; write fewer decimals",
			SHOW_ARG(text));
	if (r < 0)
		return fail(err, ERANGE, SHOW_FMT " is out of range; expected at most %s",
			SHOW_ARG(text), format_duration(most_ns).s);
	*ret_ns = ns;
	return 0;
}

int parse_bool(struct str text, bool *ret_value, struct error *err)
{
	static const char *const yes[] = {"yes", "true", "on", "1"};
	static const char *const no[] = {"no", "false", "off", "0"};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(yes); i++) {
		if (str_is(text, yes[i]) || str_is(text, no[i])) {
			*ret_value = str_is(text, yes[i]);
			return 0;
		}
	}
	return fail(err, EINVAL,
		SHOW_FMT " is neither yes nor no; expected yes, true, on, 1, no, false, off or 0",
		SHOW_ARG(text));
}

static int parse_hex_digit(char c)
{
	if (parse_is_digit(c))
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

int parse_hex(struct str text, uint8_t *ret_bytes, size_t n, struct error *err)
{
	size_t i;

	/* The value may be a secret: the message does not quote it. */
	if (text.n != 2 * n)
		return fail(err, EINVAL,
			"the value has %zu characters; expected %zu hexadecimal digits", text.n,
			2 * n);
	for (i = 0; i < text.n; i++)
		if (parse_hex_digit(text.p[i]) < 0)
			return fail(err, EINVAL,
				"character %zu is not a hexadecimal digit; expected 0-9, a-f or "
				"A-F",
				i + 1);
	for (i = 0; i < n; i++)
		ret_bytes[i] = (uint8_t)(parse_hex_digit(text.p[2 * i]) << 4 |
			parse_hex_digit(text.p[2 * i + 1]));
	return 0;
}
