/* SPDX-License-Identifier: Apache-2.0 */
/* Quantities: see quantity.h. The value is digits x 10^ten x 2^two, rounded up once, at the end. */
#include "scheduler/quantity.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"

static const struct suffix {
	const char *text;
	int ten, two;
} suffixes[] = {
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

/* "e3", "E-2": what follows the letter, or false. */
static bool read_exponent(struct str s, int *ret_ten)
{
	bool is_negative = s.n > 1 && s.p[1] == '-';
	size_t at = s.n > 1 && (s.p[1] == '-' || s.p[1] == '+') ? 2 : 1;
	int ten = 0;

	if (s.n <= at || (s.p[0] != 'e' && s.p[0] != 'E') || s.n - at > 3)
		return false;
	for (; at < s.n; at++) {
		if (s.p[at] < '0' || s.p[at] > '9')
			return false;
		ten = ten * 10 + (s.p[at] - '0');
	}
	*ret_ten = is_negative ? -ten : ten;
	return true;
}

static bool read_suffix(struct str s, int *ret_ten, int *ret_two)
{
	*ret_two = 0;
	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++)
		if (str_is(s, suffixes[i].text)) {
			*ret_ten = suffixes[i].ten;
			*ret_two = suffixes[i].two;
			return true;
		}
	return read_exponent(s, ret_ten);
}

/* Takes "12.50" off s: the digits without the zeros at the end, and where the point stands. */
static int read_digits(struct str *s, unsigned __int128 *ret_digits, int *ret_ten)
{
	unsigned __int128 digits = 0;
	int ten = 0, n_zeros = 0, n = 0;
	bool is_fraction = false, is_any = false;

	for (; s->n; s->p++, s->n--) {
		char c = s->p[0];

		if (c == '.' && !is_fraction) {
			is_fraction = true;
			continue;
		}
		if (c < '0' || c > '9')
			break;
		is_any = true;
		if (is_fraction)
			ten--;
		n_zeros++;
		if (c == '0')
			continue;
		/* The zeros before this digit count now. */
		if (n || digits)
			n += n_zeros;
		else
			n = 1;
		if (n > QUANTITY_DIGITS_MAX)
			return -ERANGE;
		for (; n_zeros; n_zeros--)
			digits *= 10;
		digits += (unsigned)(c - '0');
	}
	if (!is_any)
		return -EINVAL;
	*ret_digits = digits;
	*ret_ten = ten + n_zeros;
	return 0;
}

/* digits x 10^ten x 2^two, rounded up; -ERANGE above INT64_MAX. */
static int to_units(unsigned __int128 digits, int ten, int two, int64_t *ret_units)
{
	const unsigned __int128 most = (unsigned __int128)1 << 124;
	bool is_rounded = false;

	if (!digits) {
		*ret_units = 0;
		return 0;
	}
	for (; ten > 0; ten--) {
		if (digits > INT64_MAX / 10)
			return -ERANGE;
		digits *= 10;
	}
	/* Dividing by 10^n 2^-two: by 10 first only where the product would not fit. */
	for (; two > 0; two--) {
		if (digits > most && ten == 0)
			return -ERANGE;
		if (digits > most) {
			is_rounded = is_rounded || digits % 10 != 0;
			digits /= 10;
			ten++;
		}
		digits *= 2;
	}
	for (; ten < 0 && digits; ten++) {
		is_rounded = is_rounded || digits % 10 != 0;
		digits /= 10;
	}
	digits += is_rounded || ten < 0;
	if (digits > INT64_MAX)
		return -ERANGE;
	*ret_units = (int64_t)digits;
	return 0;
}

int quantity_count(struct str text, enum quantity_unit unit, int64_t *ret_units, struct error *err)
{
	unsigned __int128 digits = 0;
	int ten = 0, two = 0, point = 0;
	bool is_negative = text.n && text.p[0] == '-';
	struct str rest = text;
	int r;

	if (text.n && (text.p[0] == '-' || text.p[0] == '+')) {
		rest.p++;
		rest.n--;
	}
	r = read_digits(&rest, &digits, &point);
	if (r == -EINVAL || (r == 0 && !read_suffix(rest, &ten, &two)))
		return fail(err, EINVAL,
			"'%" STR_FMT "' is no quantity: 2, 500m, 1.5Gi or 2e3 would be one",
			STR_ARG(text));
	if (r == 0 && is_negative && digits)
		return fail(err, ERANGE, "'%" STR_FMT "' is negative: an amount is at least 0",
			STR_ARG(text));
	if (r == 0)
		r = to_units(
			digits, ten + point + (unit == QUANTITY_MILLI ? 3 : 0), two, ret_units);
	if (r < 0)
		return fail(err, ERANGE,
			"'%" STR_FMT "' is too large or too fine: at most 2^63 - 1", STR_ARG(text));
	return 0;
}

int64_t quantity_add(int64_t a, int64_t b)
{
	int64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}
