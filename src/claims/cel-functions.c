/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of CEL that selectors may call: of texts, numbers, lists, quantities and versions.
 * Positions in texts count characters, as in CEL. One table names all functions; a function checks
 * the types of its arguments itself.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "claims/cel-internal.h"
#include "claims/cel-regex.h"

static const struct cel_value cel_error = {.type = CEL_ERROR};

#define CEL_NEED(condition, what) \
	do { \
		if (!(condition)) \
			return cel_fail_types(run, what); \
	} while (0)

#define IS(i, kind) (arg[i].type == CEL_##kind)
#define CEL_SHOWN(s) (int)MIN((s).n, (size_t)40), (s).p

/* ---- texts ---- */

/* The bytes of the first n characters; SIZE_MAX: the text is shorter. */
static size_t cel_offset(struct str s, int64_t n)
{
	size_t at = 0;

	while (n > 0 && at < s.n) {
		const size_t size = str_utf8((struct str){s.p + at, s.n - at});

		at += size ? size : 1;
		n--;
	}
	return n == 0 ? at : SIZE_MAX;
}

static int64_t cel_length(struct str s)
{
	int64_t n = 0;

	for (size_t at = 0; at < s.n; n++) {
		const size_t size = str_utf8((struct str){s.p + at, s.n - at});

		at += size ? size : 1;
	}
	return n;
}

static struct str cel_from(struct str s, size_t at)
{
	return (struct str){s.p + at, s.n - at};
}

/* Where `part` begins in s, in bytes, from `at` on; SIZE_MAX: nowhere. */
static size_t cel_find(struct str s, struct str part, size_t at)
{
	for (; at + part.n <= s.n; at++)
		if (!part.n || !memcmp(s.p + at, part.p, part.n))
			return at;
	return SIZE_MAX;
}

static struct cel_value cel_call_size(struct cel_run *run, const struct cel_value *arg, uint32_t n)
{
	switch (arg[0].type) {
	case CEL_STRING:
		return cel_count(run, arg[0].text.n) ? cel_int(cel_length(arg[0].text)) : cel_error;
	case CEL_BYTES: return cel_int((int64_t)arg[0].text.n);
	case CEL_LIST: return cel_int(arg[0].list.n);
	case CEL_MAP: return cel_int(arg[0].map.n);
	default: return cel_fail_types(run, "size()");
	}
}

static struct cel_value cel_call_contains(
	struct cel_run *run, const struct cel_value *arg, uint32_t n)
{
	CEL_NEED(IS(0, STRING) && IS(1, STRING), "contains()");
	if (!cel_count(run, arg[0].text.n * (arg[1].text.n + 1)))
		return cel_error;
	return cel_bool(cel_find(arg[0].text, arg[1].text, 0) != SIZE_MAX);
}

static struct cel_value cel_call_starts(
	struct cel_run *run, const struct cel_value *arg, uint32_t n)
{
	CEL_NEED(IS(0, STRING) && IS(1, STRING), "startsWith()");
	if (!cel_count(run, arg[1].text.n))
		return cel_error;
	return cel_bool(str_has_prefix(arg[0].text, arg[1].text));
}

static struct cel_value cel_call_ends(struct cel_run *run, const struct cel_value *arg, uint32_t n)
{
	CEL_NEED(IS(0, STRING) && IS(1, STRING), "endsWith()");
	if (!cel_count(run, arg[1].text.n))
		return cel_error;
	return cel_bool(str_has_suffix(arg[0].text, arg[1].text));
}

/* Steps of parsing a regular expression: it takes new memory each time, for some microseconds. */
#define CEL_REGEX_STEPS 200u

static struct cel_value cel_call_matches(
	struct cel_run *run, const struct cel_value *arg, uint32_t n)
{
	struct error err = {0};
	size_t steps = 0;
	bool does_match;
	int r;

	CEL_NEED(IS(0, STRING) && IS(1, STRING), "matches()");
	if (!cel_count(run, CEL_REGEX_STEPS + arg[0].text.n + arg[1].text.n))
		return cel_error;
	r = cel_regex_match(
		arg[1].text, arg[0].text, CEL_STEPS_MAX - run->steps, &does_match, &steps, &err);
	if (!cel_count(run, steps))
		return cel_error;
	if (r < 0)
		return cel_fail(run, "matches(): %s", err.msg);
	return cel_bool(does_match);
}

/* Makes a text of n bytes, which the caller fills; NULL: an error. */
static char *cel_new_text(struct cel_run *run, size_t n)
{
	return cel_count(run, n) ? cel_take(run, n, 1) : NULL;
}

static struct cel_value cel_change_case(
	struct cel_run *run, const struct cel_value *arg, char first, char last, int by)
{
	char *text = cel_new_text(run, arg[0].text.n);

	for (size_t i = 0; text && i < arg[0].text.n; i++) {
		const char c = arg[0].text.p[i];

		text[i] = c >= first && c <= last ? (char)(c + by) : c;
	}
	return text ? cel_text((struct str){text, arg[0].text.n}) : cel_error;
}

static struct cel_value cel_call_lower(struct cel_run *run, const struct cel_value *arg, uint32_t n)
{
	CEL_NEED(IS(0, STRING), "lowerAscii()");
	return cel_change_case(run, arg, 'A', 'Z', 'a' - 'A');
}

static struct cel_value cel_call_upper(struct cel_run *run, const struct cel_value *arg, uint32_t n)
{
	CEL_NEED(IS(0, STRING), "upperAscii()");
	return cel_change_case(run, arg, 'a', 'z', 'A' - 'a');
}

static struct cel_value cel_call_trim(struct cel_run *run, const struct cel_value *arg, uint32_t n)
{
	struct str s;

	CEL_NEED(IS(0, STRING), "trim()");
	if (!cel_count(run, arg[0].text.n))
		return cel_error;
	s = arg[0].text;
	while (s.n && strchr(" \t\r\n\v\f", s.p[0]) && s.p[0])
		s = cel_from(s, 1);
	while (s.n && strchr(" \t\r\n\v\f", s.p[s.n - 1]) && s.p[s.n - 1])
		s.n--;
	return cel_text(s);
}

static struct cel_value cel_call_char_at(
	struct cel_run *run, const struct cel_value *arg, uint32_t n)
{
	size_t at, size;

	CEL_NEED(IS(0, STRING) && IS(1, INT), "charAt()");
	if (!cel_count(run, arg[0].text.n))
		return cel_error;
	at = arg[1].integer < 0 ? SIZE_MAX : cel_offset(arg[0].text, arg[1].integer);
	if (at == SIZE_MAX)
		return cel_fail(run, "index out of range");
	size = at == arg[0].text.n ? 0 : str_utf8(cel_from(arg[0].text, at));
	return cel_text((struct str){arg[0].text.p + at, size ? size : at < arg[0].text.n});
}

/*
 * Reads where a search begins: the whole text without a third argument. Returns false, with the
 * result in *ret, if there is nothing to search.
 */
static bool cel_search_from(struct cel_run *run, const struct cel_value *arg, uint32_t n,
	size_t *ret_at, struct cel_value *ret)
{
	int64_t length;

	*ret = cel_error;
	if (!cel_count(run, arg[0].text.n * (arg[1].text.n + 1)))
		return false;
	if (n < 3)
		return true;
	length = cel_length(arg[0].text);
	if (arg[2].integer < 0)
		*ret = cel_fail(run, "index out of range");
	else if (!arg[1].text.n)
		*ret = cel_int(MIN(arg[2].integer, length));
	else if (arg[2].integer >= length)
		*ret = cel_int(-1);
	else
		*ret_at = cel_offset(arg[0].text, arg[2].integer);
	return arg[2].integer >= 0 && arg[1].text.n && arg[2].integer < length;
}

static struct cel_value cel_call_index_of(
	struct cel_run *run, const struct cel_value *arg, uint32_t n)
{
	struct cel_value result;
	size_t at = 0;

	CEL_NEED(IS(0, STRING) && IS(1, STRING) && (n < 3 || IS(2, INT)), "indexOf()");
	if (!cel_search_from(run, arg, n, &at, &result))
		return result;
	at = cel_find(arg[0].text, arg[1].text, at);
	return cel_int(at == SIZE_MAX ? -1 : cel_length((struct str){arg[0].text.p, at}));
}

static struct cel_value cel_call_last_index_of(
	struct cel_run *run, const struct cel_value *arg, uint32_t n)
{
	size_t last = SIZE_MAX, most = SIZE_MAX;
	struct cel_value result;

	CEL_NEED(IS(0, STRING) && IS(1, STRING) && (n < 3 || IS(2, INT)), "lastIndexOf()");
	if (!cel_search_from(run, arg, n, &most, &result))
		return result;
	for (size_t at = 0; at + arg[1].text.n <= arg[0].text.n && at <= most; at++)
		if (!arg[1].text.n || !memcmp(arg[0].text.p + at, arg[1].text.p, arg[1].text.n))
			last = at;
	return cel_int(last == SIZE_MAX ? -1 : cel_length((struct str){arg[0].text.p, last}));
}

static struct cel_value cel_call_substring(
	struct cel_run *run, const struct cel_value *arg, uint32_t n)
{
	size_t from, to;

	CEL_NEED(IS(0, STRING) && IS(1, INT) && (n < 3 || IS(2, INT)), "substring()");
	if (!cel_count(run, arg[0].text.n))
		return cel_error;
	from = arg[1].integer < 0 ? SIZE_MAX : cel_offset(arg[0].text, arg[1].integer);
	to = arg[0].text.n;
	if (n == 3)
		to = arg[2].integer < 0 ? SIZE_MAX : cel_offset(arg[0].text, arg[2].integer);
	if (from == SIZE_MAX || to == SIZE_MAX || from > to)
		return cel_fail(run, "index out of range");
	return cel_text((struct str){arg[0].text.p + from, to - from});
}

/*
 * Where the next piece of s ends that `separator` ends, or with an empty one, the next character.
 */
static size_t cel_next_piece(struct str s, struct str separator)
{
	size_t size;

	if (separator.n)
		return cel_find(s, separator, 0);
	size = s.n ? str_utf8(s) : 0;
	size = size ? size : MIN(s.n, (size_t)1);
	return size < s.n ? size : SIZE_MAX;
}

static struct cel_value cel_call_split(struct cel_run *run, const struct cel_value *arg, uint32_t n)
{
	struct cel_value list = {.type = CEL_LIST}, *items;
	int64_t most;
	struct str s;

	CEL_NEED(IS(0, STRING) && IS(1, STRING) && (n < 3 || IS(2, INT)), "split()");
	s = arg[0].text;
	most = n == 3 ? arg[2].integer : -1;
	if (!most || (!arg[1].text.n && !s.n))
		return list;
	if (!cel_count(run, (s.n + 1) * (arg[1].text.n + 1)))
		return cel_error;
	items = cel_take(run, s.n + 1, sizeof(*items));
	if (!items)
		return cel_error;
	list.list.v = items;
	for (;;) {
		const size_t end = cel_next_piece(s, arg[1].text);

		if (end == SIZE_MAX || (most > 0 && list.list.n + 1 == most))
			break;
		items[list.list.n++] = cel_text((struct str){s.p, end});
		s = cel_from(s, end + arg[1].text.n);
	}
	items[list.list.n++] = cel_text(s);
	return list;
}

static struct cel_value cel_call_join(struct cel_run *run, const struct cel_value *arg, uint32_t n)
{
	struct str separator = STR("");
	size_t size = 0, at = 0;
	char *text;

	CEL_NEED(IS(0, LIST) && (n < 2 || IS(1, STRING)), "join()");
	if (n == 2)
		separator = arg[1].text;
	if (!cel_count(run, arg[0].list.n))
		return cel_error;
	for (uint32_t i = 0; i < arg[0].list.n; i++) {
		CEL_NEED(arg[0].list.v[i].type == CEL_STRING, "join()");
		size += arg[0].list.v[i].text.n + (i ? separator.n : 0);
	}
	text = cel_new_text(run, size);
	for (uint32_t i = 0; text && i < arg[0].list.n; i++) {
		const struct str piece[] = {i ? separator : STR(""), arg[0].list.v[i].text};

		for (size_t k = 0; k < ARRAY_SIZE(piece); k++) {
			if (piece[k].n)
				memcpy(text + at, piece[k].p, piece[k].n);
			at += piece[k].n;
		}
	}
	return text ? cel_text((struct str){text, size}) : cel_error;
}

static struct cel_value cel_call_replace(
	struct cel_run *run, const struct cel_value *arg, uint32_t n)
{
	struct str s, out;
	int64_t most, done = 0;
	size_t room;
	char *text;

	CEL_NEED(IS(0, STRING) && IS(1, STRING) && IS(2, STRING) && (n < 4 || IS(3, INT)),
		"replace()");
	s = arg[0].text;
	most = n == 4 && arg[3].integer >= 0 ? arg[3].integer : INT64_MAX;
	room = s.n + (s.n + 1) * arg[2].text.n;
	if (!cel_count(run, (s.n + 1) * (arg[1].text.n + 1)))
		return cel_error;
	text = cel_new_text(run, room);
	if (!text)
		return cel_error;
	out = (struct str){text, 0};
	for (size_t at = 0; at <= s.n;) {
		size_t size;

		if (done < most && str_has_prefix(cel_from(s, at), arg[1].text)) {
			if (arg[2].text.n)
				memcpy(text + out.n, arg[2].text.p, arg[2].text.n);
			out.n += arg[2].text.n;
			at += arg[1].text.n;
			done++;
			if (arg[1].text.n)
				continue;
		}
		if (at >= s.n)
			break;
		size = str_utf8(cel_from(s, at));
		size = size ? size : 1;
		memcpy(text + out.n, s.p + at, size);
		out.n += size;
		at += size;
	}
	return cel_text(out);
}

/* ---- conversions ---- */

static struct cel_value cel_call_int(struct cel_run *run, const struct cel_value *arg, uint32_t n)
{
	char digits[32], *end;
	long long value;

	switch (arg[0].type) {
	case CEL_INT: return arg[0];
	case CEL_UINT:
		return arg[0].natural > INT64_MAX ? cel_fail(run, "integer overflow")
						  : cel_int((int64_t)arg[0].natural);
	case CEL_DOUBLE:
		if (!(fabs(arg[0].number) < 0x1p63))
			return cel_fail(run, "integer overflow");
		return cel_int((int64_t)arg[0].number);
	case CEL_STRING:
		errno = 0;
		if (str_copy(digits, sizeof(digits), arg[0].text) < 0 ||
			strspn(digits, "+-0123456789") != strlen(digits))
			return cel_fail(run, "the text is no integer");
		value = strtoll(digits, &end, 10);
		if (errno || end == digits || *end)
			return cel_fail(run, "the text is no integer");
		return cel_int(value);
	default: return cel_fail_types(run, "int()");
	}
}

static struct cel_value cel_call_uint(struct cel_run *run, const struct cel_value *arg, uint32_t n)
{
	struct cel_value r = {.type = CEL_UINT};
	char digits[32], *end;

	switch (arg[0].type) {
	case CEL_UINT: return arg[0];
	case CEL_INT:
		r.natural = (uint64_t)arg[0].integer;
		return arg[0].integer < 0 ? cel_fail(run, "integer overflow") : r;
	case CEL_DOUBLE:
		if (!(arg[0].number >= 0 && arg[0].number < 0x1p64))
			return cel_fail(run, "integer overflow");
		r.natural = (uint64_t)arg[0].number;
		return r;
	case CEL_STRING:
		errno = 0;
		if (str_copy(digits, sizeof(digits), arg[0].text) < 0 ||
			strspn(digits, "0123456789") != strlen(digits))
			return cel_fail(run, "the text is no integer");
		r.natural = strtoull(digits, &end, 10);
		return errno || end == digits ? cel_fail(run, "the text is no integer") : r;
	default: return cel_fail_types(run, "uint()");
	}
}

static struct cel_value cel_call_double(
	struct cel_run *run, const struct cel_value *arg, uint32_t n)
{
	struct cel_value r = {.type = CEL_DOUBLE};
	char digits[64], *end;

	switch (arg[0].type) {
	case CEL_DOUBLE: return arg[0];
	case CEL_INT: r.number = (double)arg[0].integer; return r;
	case CEL_UINT: r.number = (double)arg[0].natural; return r;
	case CEL_STRING:
		if (str_copy(digits, sizeof(digits), arg[0].text) < 0 || !digits[0] ||
			strspn(digits, "+-.eE0123456789") != strlen(digits))
			return cel_fail(run, "the text is no number");
		r.number = strtod(digits, &end);
		return *end || isinf(r.number) ? cel_fail(run, "the text is no number") : r;
	default: return cel_fail_types(run, "double()");
	}
}

static struct cel_value cel_call_bool(struct cel_run *run, const struct cel_value *arg, uint32_t n)
{
	static const char *const words[2][6] = {
		{"0", "f", "F", "false", "FALSE", "False"},
		{"1", "t", "T", "true", "TRUE", "True"},
	};

	if (IS(0, BOOL))
		return arg[0];
	CEL_NEED(IS(0, STRING), "bool()");
	for (size_t value = 0; value < 2; value++)
		for (size_t i = 0; i < ARRAY_SIZE(words[0]); i++)
			if (str_is(arg[0].text, words[value][i]))
				return cel_bool(value);
	return cel_fail(run, "the text is no bool");
}

static struct cel_value cel_call_string(
	struct cel_run *run, const struct cel_value *arg, uint32_t n)
{
	char *text;

	if (IS(0, STRING))
		return arg[0];
	if (IS(0, BOOL))
		return cel_text(arg[0].boolean ? STR("true") : STR("false"));
	CEL_NEED(IS(0, INT) || IS(0, UINT), "string()");
	text = cel_take(run, 24, 1);
	if (!text)
		return cel_error;
	if (IS(0, INT))
		snprintf(text, 24, "%lld", (long long)arg[0].integer);
	else
		snprintf(text, 24, "%llu", (unsigned long long)arg[0].natural);
	return cel_text(str_from(text));
}

static struct cel_value cel_call_dyn(struct cel_run *run, const struct cel_value *arg, uint32_t n)
{
	return arg[0];
}

/* ---- sets ---- */

static struct cel_value cel_call_set_contains(
	struct cel_run *run, const struct cel_value *arg, uint32_t n)
{
	CEL_NEED(IS(0, LIST) && IS(1, LIST), "sets.contains()");
	for (uint32_t i = 0; i < arg[1].list.n; i++) {
		const struct cel_value r = cel_contains(run, arg[0], arg[1].list.v[i]);

		if (r.type == CEL_ERROR || !r.boolean)
			return r;
	}
	return cel_bool(true);
}

static struct cel_value cel_call_set_intersects(
	struct cel_run *run, const struct cel_value *arg, uint32_t n)
{
	CEL_NEED(IS(0, LIST) && IS(1, LIST), "sets.intersects()");
	for (uint32_t i = 0; i < arg[1].list.n; i++) {
		const struct cel_value r = cel_contains(run, arg[0], arg[1].list.v[i]);

		if (r.type == CEL_ERROR || r.boolean)
			return r;
	}
	return cel_bool(false);
}

static struct cel_value cel_call_set_equivalent(
	struct cel_run *run, const struct cel_value *arg, uint32_t n)
{
	const struct cel_value swapped[] = {arg[1], arg[0]};
	const struct cel_value r = cel_call_set_contains(run, arg, 2);

	return r.type == CEL_ERROR || !r.boolean ? r : cel_call_set_contains(run, swapped, 2);
}

/* ---- quantities and versions ---- */

static struct cel_value cel_new_amount(struct cel_run *run, struct amount amount)
{
	struct amount *copy = cel_take(run, 1, sizeof(*copy));

	if (!copy)
		return cel_error;
	*copy = amount;
	return (struct cel_value){.type = CEL_QUANTITY, .amount = copy};
}

static struct cel_value cel_call_quantity(
	struct cel_run *run, const struct cel_value *arg, uint32_t n)
{
	struct amount amount;

	CEL_NEED(IS(0, STRING), "quantity()");
	if (amount_parse(arg[0].text, &amount) < 0)
		return cel_fail(run, "'%.*s' is no quantity", CEL_SHOWN(arg[0].text));
	return cel_new_amount(run, amount);
}

static struct cel_value cel_call_is_quantity(
	struct cel_run *run, const struct cel_value *arg, uint32_t n)
{
	struct amount amount;

	CEL_NEED(IS(0, STRING), "isQuantity()");
	return cel_bool(amount_parse(arg[0].text, &amount) == 0);
}

static struct cel_value cel_call_sign(struct cel_run *run, const struct cel_value *arg, uint32_t n)
{
	CEL_NEED(IS(0, QUANTITY), "sign()");
	return cel_int(amount_compare(*arg[0].amount, (struct amount){0}));
}

static struct cel_value cel_call_as_integer(
	struct cel_run *run, const struct cel_value *arg, uint32_t n)
{
	int64_t value;

	CEL_NEED(IS(0, QUANTITY), "asInteger()");
	if (!amount_read_int(*arg[0].amount, &value))
		return cel_fail(run, "the quantity is no integer");
	return cel_int(value);
}

static struct cel_value cel_call_is_integer(
	struct cel_run *run, const struct cel_value *arg, uint32_t n)
{
	int64_t value;

	CEL_NEED(IS(0, QUANTITY), "isInteger()");
	return cel_bool(amount_read_int(*arg[0].amount, &value));
}

static struct cel_value cel_call_as_float(
	struct cel_run *run, const struct cel_value *arg, uint32_t n)
{
	CEL_NEED(IS(0, QUANTITY), "asApproximateFloat()");
	return (struct cel_value){
		.type = CEL_DOUBLE, .number = (double)arg[0].amount->nano / 1000000000.0};
}

/* Adds the quantity or integer arg[1], `sign` times. */
static struct cel_value cel_add_amounts(
	struct cel_run *run, const struct cel_value *arg, __int128 sign)
{
	struct amount sum, other;

	CEL_NEED(IS(0, QUANTITY) && (IS(1, QUANTITY) || IS(1, INT)), "add()");
	sum = *arg[0].amount;
	other = IS(1, INT) ? amount_from_int(arg[1].integer) : *arg[1].amount;
	if (__builtin_add_overflow(sum.nano, sign * other.nano, &sum.nano))
		return cel_fail(run, "the quantity is too large");
	return cel_new_amount(run, sum);
}

static struct cel_value cel_call_add(struct cel_run *run, const struct cel_value *arg, uint32_t n)
{
	return cel_add_amounts(run, arg, 1);
}

static struct cel_value cel_call_sub(struct cel_run *run, const struct cel_value *arg, uint32_t n)
{
	return cel_add_amounts(run, arg, -1);
}

static struct cel_value cel_parse_version(
	struct cel_run *run, const struct cel_value *arg, uint32_t n, int *ret)
{
	struct semver *version = cel_take(run, 1, sizeof(*version));
	char *room = cel_take(run, SEMVER_TEXT_MAX, 1);

	if (!version || !room)
		return cel_error;
	CEL_NEED(IS(0, STRING) && (n < 2 || IS(1, BOOL)), "semver()");
	*ret = n == 2 && arg[1].boolean ? semver_parse_loosely(arg[0].text, room, version)
					: semver_parse(arg[0].text, version);
	return (struct cel_value){.type = CEL_SEMVER, .version = version};
}

static struct cel_value cel_call_semver(
	struct cel_run *run, const struct cel_value *arg, uint32_t n)
{
	int r = 0;
	const struct cel_value version = cel_parse_version(run, arg, n, &r);

	return r < 0 ? cel_fail(run, "'%.*s' is no version", CEL_SHOWN(arg[0].text)) : version;
}

static struct cel_value cel_call_is_semver(
	struct cel_run *run, const struct cel_value *arg, uint32_t n)
{
	int r = 0;
	const struct cel_value version = cel_parse_version(run, arg, n, &r);

	return version.type == CEL_ERROR ? version : cel_bool(r == 0);
}

static struct cel_value cel_version_part(
	struct cel_run *run, const struct cel_value *arg, uint32_t part)
{
	CEL_NEED(IS(0, SEMVER), "a part of a version");
	return cel_int((int64_t)arg[0].version->part[part]);
}

static struct cel_value cel_call_major(struct cel_run *run, const struct cel_value *arg, uint32_t n)
{
	return cel_version_part(run, arg, 0);
}

static struct cel_value cel_call_minor(struct cel_run *run, const struct cel_value *arg, uint32_t n)
{
	return cel_version_part(run, arg, 1);
}

static struct cel_value cel_call_patch(struct cel_run *run, const struct cel_value *arg, uint32_t n)
{
	return cel_version_part(run, arg, 2);
}

/* Compares two quantities or two versions. */
static struct cel_value cel_call_compare(
	struct cel_run *run, const struct cel_value *arg, uint32_t n)
{
	if (IS(0, QUANTITY) && IS(1, QUANTITY))
		return cel_int(amount_compare(*arg[0].amount, *arg[1].amount));
	CEL_NEED(IS(0, SEMVER) && IS(1, SEMVER), "compareTo()");
	return cel_int(semver_compare(arg[0].version, arg[1].version));
}

static struct cel_value cel_call_greater(
	struct cel_run *run, const struct cel_value *arg, uint32_t n)
{
	const struct cel_value r = cel_call_compare(run, arg, n);

	return r.type == CEL_ERROR ? r : cel_bool(r.integer > 0);
}

static struct cel_value cel_call_less(struct cel_run *run, const struct cel_value *arg, uint32_t n)
{
	const struct cel_value r = cel_call_compare(run, arg, n);

	return r.type == CEL_ERROR ? r : cel_bool(r.integer < 0);
}

static const struct cel_function cel_functions[] = {
	{"bool", 1, 1, false, cel_call_bool},
	{"double", 1, 1, false, cel_call_double},
	{"dyn", 1, 1, false, cel_call_dyn},
	{"int", 1, 1, false, cel_call_int},
	{"isQuantity", 1, 1, false, cel_call_is_quantity},
	{"isSemver", 1, 2, false, cel_call_is_semver},
	{"matches", 2, 2, false, cel_call_matches},
	{"quantity", 1, 1, false, cel_call_quantity},
	{"semver", 1, 2, false, cel_call_semver},
	{"sets.contains", 2, 2, false, cel_call_set_contains},
	{"sets.equivalent", 2, 2, false, cel_call_set_equivalent},
	{"sets.intersects", 2, 2, false, cel_call_set_intersects},
	{"size", 1, 1, false, cel_call_size},
	{"string", 1, 1, false, cel_call_string},
	{"uint", 1, 1, false, cel_call_uint},
	{"add", 2, 2, true, cel_call_add},
	{"asApproximateFloat", 1, 1, true, cel_call_as_float},
	{"asInteger", 1, 1, true, cel_call_as_integer},
	{"charAt", 2, 2, true, cel_call_char_at},
	{"compareTo", 2, 2, true, cel_call_compare},
	{"contains", 2, 2, true, cel_call_contains},
	{"endsWith", 2, 2, true, cel_call_ends},
	{"indexOf", 2, 3, true, cel_call_index_of},
	{"isGreaterThan", 2, 2, true, cel_call_greater},
	{"isInteger", 1, 1, true, cel_call_is_integer},
	{"isLessThan", 2, 2, true, cel_call_less},
	{"join", 1, 2, true, cel_call_join},
	{"lastIndexOf", 2, 3, true, cel_call_last_index_of},
	{"lowerAscii", 1, 1, true, cel_call_lower},
	{"major", 1, 1, true, cel_call_major},
	{"matches", 2, 2, true, cel_call_matches},
	{"minor", 1, 1, true, cel_call_minor},
	{"patch", 1, 1, true, cel_call_patch},
	{"replace", 3, 4, true, cel_call_replace},
	{"sign", 1, 1, true, cel_call_sign},
	{"size", 1, 1, true, cel_call_size},
	{"split", 2, 3, true, cel_call_split},
	{"startsWith", 2, 2, true, cel_call_starts},
	{"sub", 2, 2, true, cel_call_sub},
	{"substring", 2, 3, true, cel_call_substring},
	{"trim", 1, 1, true, cel_call_trim},
	{"upperAscii", 1, 1, true, cel_call_upper},
};

const struct cel_function *cel_function_find(struct str name, bool is_method)
{
	for (size_t i = 0; i < ARRAY_SIZE(cel_functions); i++)
		if (cel_functions[i].is_method == is_method && str_is(name, cel_functions[i].name))
			return &cel_functions[i];
	return NULL;
}
