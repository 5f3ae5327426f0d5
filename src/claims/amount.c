/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses and formats amounts. An amount is an integer of 10^-9 units in 128 bits. The largest
 * amount leaves room to add a billion amounts without an overflow. Pure; any thread.
 */
#include "claims/amount.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "spec/quantity.h"

#define AMOUNT_NANO ((__int128)1000000000)
/* Above 10^27, which is the largest number of the API server in units of 10^-9, rounded up. */
#define AMOUNT_MOST ((__int128)INT64_MAX * AMOUNT_NANO)

static bool amount_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Returns digits * 10^exponent * 2^shift, rounded up, at most AMOUNT_MOST. */
static __int128 amount_scale(__int128 digits, int exponent, int shift)
{
	bool is_rounded = false;

	if (!digits)
		return 0;
	/*
	 * The unit comes first, because a fraction such as 0.5Ki is whole only then. A number above
	 * 2^126 loses digits that are far below 10^-9 units.
	 */
	for (; shift > 0; shift--) {
		if (digits >= (__int128)1 << 125) {
			if (exponent >= 0)
				return AMOUNT_MOST;
			is_rounded |= digits % 10 != 0;
			digits /= 10;
			exponent++;
		}
		digits *= 2;
	}
	for (; exponent > 0; exponent--) {
		if (digits > AMOUNT_MOST)
			return AMOUNT_MOST;
		digits *= 10;
	}
	for (; exponent < 0 && digits; exponent++) {
		is_rounded |= digits % 10 != 0;
		digits /= 10;
	}
	digits += is_rounded;
	return MIN(digits, AMOUNT_MOST);
}

int amount_parse(struct str text, struct amount *ret)
{
	struct str rest = text;
	const bool is_negative = str_skip_prefix(&rest, STR("-"));
	bool in_fraction = false, is_rounded = false;
	int exponent = 0, own_exponent, shift;
	__int128 digits = 0;
	size_t i;

	/* Like the API server, accepts a unit without digits as 0. */
	if (!text.n || text.n > AMOUNT_TEXT_MAX)
		return -EINVAL;
	if (!is_negative)
		str_skip_prefix(&rest, STR("+"));
	for (i = 0; i < rest.n; i++) {
		if (rest.p[i] == '.' && !in_fraction) {
			in_fraction = true;
			continue;
		}
		if (!amount_is_digit(rest.p[i]))
			break;
		/*
		 * Digits that do not fit only matter for rounding, or make the number the largest.
		 */
		if (digits > AMOUNT_MOST * 10) {
			is_rounded |= rest.p[i] != '0';
			exponent += !in_fraction;
			continue;
		}
		digits = digits * 10 + (rest.p[i] - '0');
		exponent -= in_fraction;
	}
	rest = (struct str){rest.p + i, rest.n - i};
	if (quantity_read_unit(rest, &own_exponent, &shift) < 0)
		return -EINVAL;
	ret->nano = amount_scale(digits + is_rounded, exponent + own_exponent + 9, shift);
	ret->nano = is_negative ? -ret->nano : ret->nano;
	ret->is_binary = shift > 0;
	return 0;
}

struct amount amount_from_int(int64_t value)
{
	return (struct amount){value * AMOUNT_NANO, false};
}

static bool amount_read(struct amount amount, __int128 unit, int64_t *ret)
{
	const __int128 value = amount.nano / unit;

	if (amount.nano % unit || value > INT64_MAX || value < INT64_MIN)
		return false;
	*ret = (int64_t)value;
	return true;
}

bool amount_read_int(struct amount amount, int64_t *ret)
{
	return amount_read(amount, AMOUNT_NANO, ret);
}

bool amount_read_milli(struct amount amount, int64_t *ret)
{
	return amount_read(amount, AMOUNT_NANO / 1000, ret);
}

int64_t amount_units(struct amount amount)
{
	const __int128 rest = amount.nano % AMOUNT_NANO;

	return (int64_t)(amount.nano / AMOUNT_NANO + (rest > 0) - (rest < 0));
}

const char *amount_format(struct amount amount, char ret[static AMOUNT_SIZE])
{
	static const char *const decimal[] = {"n", "u", "m", "", "k", "M", "G", "T", "P", "E"};
	static const char *const binary[] = {"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};
	__int128 value = amount.nano;
	const char *unit = "";
	uint32_t step = 0;

	if (amount.is_binary && value % AMOUNT_NANO == 0 &&
		(value >= 1024 * AMOUNT_NANO || value <= -1024 * AMOUNT_NANO)) {
		value /= AMOUNT_NANO;
		while (value && value % 1024 == 0 && step + 1 < ARRAY_SIZE(binary)) {
			value /= 1024;
			step++;
		}
		unit = binary[step];
	} else {
		while (value && value % 1000 == 0 && step + 1 < ARRAY_SIZE(decimal)) {
			value /= 1000;
			step++;
		}
		unit = value ? decimal[step] : "";
	}
	/* A value in units of 10^-9 can have more digits than an int64_t. */
	if (value > INT64_MAX || value < INT64_MIN)
		snprintf(ret, AMOUNT_SIZE, "%" PRId64 "%09" PRId64 "%s",
			(int64_t)(value / AMOUNT_NANO),
			(int64_t)(value < 0 ? -(value % AMOUNT_NANO) : value % AMOUNT_NANO), unit);
	else
		snprintf(ret, AMOUNT_SIZE, "%" PRId64 "%s", (int64_t)value, unit);
	return ret;
}
