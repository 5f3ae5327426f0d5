/* SPDX-License-Identifier: Apache-2.0 */
/* Parses and compares versions: see semver.h. Nothing allocates. Any thread. */
#include "claims/semver.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/cleanup.h"

static bool semver_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool semver_is_number(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!semver_is_digit(s.p[i]))
			return false;
	return s.n > 0;
}

/* Reads a number without leading zeros. */
static int semver_read_number(struct str s, uint64_t *ret)
{
	uint64_t value = 0;

	if (!semver_is_number(s) || (s.n > 1 && s.p[0] == '0'))
		return -EINVAL;
	for (size_t i = 0; i < s.n; i++)
		if (__builtin_mul_overflow(value, 10u, &value) ||
			__builtin_add_overflow(value, (uint64_t)(s.p[i] - '0'), &value))
			return -EINVAL;
	*ret = value;
	return 0;
}

/* Checks the identifiers between dots; numbers have no leading zeros if is_strict. */
static bool semver_is_list(struct str list, bool is_strict)
{
	struct str piece;
	uint64_t number;

	while (str_split(&list, '.', &piece)) {
		if (!piece.n)
			return false;
		for (size_t i = 0; i < piece.n; i++) {
			const char c = piece.p[i];

			if (!semver_is_digit(c) && !(c >= 'a' && c <= 'z') &&
				!(c >= 'A' && c <= 'Z') && c != '-')
				return false;
		}
		if (is_strict && semver_is_number(piece) && semver_read_number(piece, &number) < 0)
			return false;
	}
	return true;
}

int semver_parse(struct str text, struct semver *ret)
{
	struct semver version = {.before = STR_NONE};
	const size_t plus = str_find(text, '+');
	struct str core = {text.p, plus}, piece;
	size_t dash;

	if (text.n >= SEMVER_TEXT_MAX)
		return -EINVAL;
	if (plus < text.n &&
		!semver_is_list((struct str){text.p + plus + 1, text.n - plus - 1}, false))
		return -EINVAL;
	dash = str_find(core, '-');
	if (dash < core.n) {
		version.before = (struct str){core.p + dash + 1, core.n - dash - 1};
		if (!semver_is_list(version.before, true))
			return -EINVAL;
		core.n = dash;
	}
	for (int i = 0; i < 3; i++)
		if (!str_split(&core, '.', &piece) ||
			semver_read_number(piece, &version.part[i]) < 0)
			return -EINVAL;
	if (core.p)
		return -EINVAL;
	*ret = version;
	return 0;
}

/* Removes the leading zeros of a part, but keeps one if no digit follows. */
static struct str semver_trim_zeros(struct str part)
{
	size_t zeros = 0;

	if (part.n < 2)
		return part;
	while (zeros < part.n && part.p[zeros] == '0')
		zeros++;
	if (zeros && (zeros == part.n || !semver_is_digit(part.p[zeros])))
		zeros--;
	return (struct str){part.p + zeros, part.n - zeros};
}

int semver_parse_loosely(struct str text, char room[static SEMVER_TEXT_MAX], struct semver *ret)
{
	struct str part[3] = {STR("0"), STR("0"), STR("0")};
	int n = 0;

	if (text.n >= SEMVER_TEXT_MAX)
		return -EINVAL;
	str_skip_prefix(&text, STR("v"));
	/* The third part has everything behind the second dot. */
	for (; n < 3 && text.p; n++) {
		const size_t dot = n < 2 ? str_find(text, '.') : text.n;

		part[n] = semver_trim_zeros((struct str){text.p, dot});
		text = dot < text.n ? (struct str){text.p + dot + 1, text.n - dot - 1} : STR_NONE;
	}
	if (n < 3 && n > 0)
		for (size_t i = 0; i < part[n - 1].n; i++)
			if (part[n - 1].p[i] == '+' || part[n - 1].p[i] == '-')
				return -EINVAL;
	n = snprintf(room, SEMVER_TEXT_MAX, "%" STR_FMT ".%" STR_FMT ".%" STR_FMT, STR_ARG(part[0]),
		STR_ARG(part[1]), STR_ARG(part[2]));
	if (n < 0 || (size_t)n >= SEMVER_TEXT_MAX)
		return -EINVAL;
	return semver_parse(str_from(room), ret);
}

static int semver_compare_pieces(struct str a, struct str b)
{
	const bool is_a = semver_is_number(a), is_b = semver_is_number(b);
	int r;

	if (is_a != is_b)
		return is_a ? -1 : 1;
	if (is_a && a.n != b.n)
		return a.n < b.n ? -1 : 1;
	r = str_compare(a, b);
	return r < 0 ? -1 : r > 0;
}

int semver_compare(const struct semver *a, const struct semver *b)
{
	struct str x = a->before, y = b->before, p, q;

	for (int i = 0; i < 3; i++)
		if (a->part[i] != b->part[i])
			return a->part[i] < b->part[i] ? -1 : 1;
	if (!x.n != !y.n)
		return x.n ? -1 : 1;
	if (!x.n)
		return 0;
	for (;;) {
		const bool has_p = str_split(&x, '.', &p), has_q = str_split(&y, '.', &q);
		int r;

		if (!has_p || !has_q)
			return has_p - has_q;
		r = semver_compare_pieces(p, q);
		if (r)
			return r;
	}
}
