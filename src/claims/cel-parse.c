/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses expressions of CEL by recursive descent, and expands macros. Each level of precedence is
 * one row of levels[]. Memory is the program's arena. The first fault ends the parsing, and its
 * message is in `err`. Any thread.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "claims/cel-internal.h"

enum cel_token {
	CEL_TOKEN_END,
	CEL_TOKEN_NAME,
	CEL_TOKEN_VALUE,
	CEL_TOKEN_SIGN,
};

struct cel_parser {
	struct cel *cel;
	struct str rest; /* behind the current token */
	enum cel_token token;
	struct str text;        /* text of the current token */
	struct cel_value value; /* value of a literal */
	uint32_t depth;
	int fault; /* 0, or the first error as -errno */
	struct error *err;
};

#define CEL_FAULT(p, code, ...) \
	do { \
		if (!(p)->fault) \
			(p)->fault = fail((p)->err, code, __VA_ARGS__); \
	} while (0)

static bool cel_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool cel_is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static int cel_hex(char c)
{
	if (cel_is_digit(c))
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* ---- literals ---- */

/* Writes the character in UTF-8. Returns its length, or 0 for a code that is no character. */
static size_t cel_put_char(char *to, uint32_t code)
{
	if (code < 0x80) {
		to[0] = (char)code;
		return 1;
	}
	if (code < 0x800) {
		to[0] = (char)(0xc0 | code >> 6);
		to[1] = (char)(0x80 | (code & 0x3f));
		return 2;
	}
	if (code < 0x10000) {
		if (code >= 0xd800 && code < 0xe000)
			return 0;
		to[0] = (char)(0xe0 | code >> 12);
		to[1] = (char)(0x80 | (code >> 6 & 0x3f));
		to[2] = (char)(0x80 | (code & 0x3f));
		return 3;
	}
	if (code > 0x10ffff)
		return 0;
	to[0] = (char)(0xf0 | code >> 18);
	to[1] = (char)(0x80 | (code >> 12 & 0x3f));
	to[2] = (char)(0x80 | (code >> 6 & 0x3f));
	to[3] = (char)(0x80 | (code & 0x3f));
	return 4;
}

/* Cuts the digits of an escape off *s; base 8 or 16. */
static bool cel_read_code(struct str *s, size_t n, int base, uint32_t *ret)
{
	uint32_t code = 0;

	if (s->n < n)
		return false;
	for (size_t i = 0; i < n; i++) {
		const int digit = cel_hex(s->p[i]);

		if (digit < 0 || digit >= base)
			return false;
		code = code * (uint32_t)base + (uint32_t)digit;
	}
	*s = (struct str){s->p + n, s->n - n};
	*ret = code;
	return true;
}

/* Cuts an escape, which follows a backslash, off *s. Returns bytes written to `to`; 0: wrong. */
static size_t cel_read_escape(struct str *s, bool is_bytes, char *to)
{
	static const char from[] = "abfnrtv\\?\"'`", into[] = "\a\b\f\n\r\t\v\\?\"'`";
	const char c = s->n ? s->p[0] : '\0', *at = c ? strchr(from, c) : NULL;
	uint32_t code;
	bool is_read;

	if (!s->n)
		return 0;
	if (at) {
		*s = (struct str){s->p + 1, s->n - 1};
		*to = into[at - from];
		return 1;
	}
	if (c >= '0' && c <= '3') {
		is_read = cel_read_code(s, 3, 8, &code);
	} else {
		*s = (struct str){s->p + 1, s->n - 1};
		switch (c) {
		case 'x':
		case 'X': is_read = cel_read_code(s, 2, 16, &code); break;
		case 'u': is_read = !is_bytes && cel_read_code(s, 4, 16, &code); break;
		case 'U': is_read = !is_bytes && cel_read_code(s, 8, 16, &code); break;
		default: is_read = false;
		}
	}
	if (!is_read)
		return 0;
	if (!is_bytes)
		return cel_put_char(to, code);
	*to = (char)code;
	return 1;
}

/* The bytes up to the closing quotation mark, or to the end of the text if there is none. */
static size_t cel_text_size(struct str s, struct str quote, bool is_raw)
{
	size_t i = 0;

	while (i < s.n && !str_has_prefix((struct str){s.p + i, s.n - i}, quote))
		i += !is_raw && s.p[i] == '\\' ? 2 : 1;
	return MIN(i, s.n);
}

/*
 * Reads a string or bytes literal, whose prefix and opening quotation mark begin at p->rest. An
 * escape is never shorter than what it stands for, so the text has room for the result.
 */
static void cel_read_text(struct cel_parser *p, size_t prefix)
{
	bool is_raw = false, is_bytes = false;
	struct str s = p->rest, quote;
	char *to;
	size_t n = 0;

	for (size_t i = 0; i < prefix; i++) {
		is_raw |= s.p[i] == 'r' || s.p[i] == 'R';
		is_bytes |= s.p[i] == 'b' || s.p[i] == 'B';
	}
	s = (struct str){s.p + prefix, s.n - prefix};
	quote = (struct str){s.p, 1};
	if (s.n >= 3 && s.p[1] == s.p[0] && s.p[2] == s.p[0])
		quote.n = 3;
	str_skip_prefix(&s, quote);
	to = arena_take(&p->cel->arena, cel_text_size(s, quote, is_raw) + 1);
	if (!to) {
		CEL_FAULT(p, ENOMEM, "out of memory");
		return;
	}
	while (s.n && !str_has_prefix(s, quote)) {
		const char c = s.p[0];
		size_t taken = 1;

		if (quote.n == 1 && (c == '\n' || c == '\r'))
			break;
		s = (struct str){s.p + 1, s.n - 1};
		to[n] = c;
		if (c == '\\' && !is_raw)
			taken = cel_read_escape(&s, is_bytes, to + n);
		if (!taken) {
			CEL_FAULT(p, EINVAL, "wrong escape in the text that begins with %.20s",
				p->rest.p);
			return;
		}
		n += taken;
	}
	if (!str_skip_prefix(&s, quote)) {
		CEL_FAULT(p, EINVAL, "a text has no end: %.20s", p->rest.p);
		return;
	}
	p->rest = s;
	p->token = CEL_TOKEN_VALUE;
	p->value = cel_text((struct str){to, n});
	p->value.type = is_bytes ? CEL_BYTES : CEL_STRING;
}

/* Reads a number without sign: 1, 1u, 0x1f, 1.5, 1e3. */
static void cel_read_number(struct cel_parser *p)
{
	const struct str s = p->rest;
	const bool is_hex = s.n > 2 && s.p[0] == '0' && (s.p[1] == 'x' || s.p[1] == 'X');
	bool is_double = false, fits = true;
	size_t i = is_hex ? 2 : 0;
	uint64_t value = 0;
	char digits[64];

	for (; i < s.n && (is_hex ? cel_hex(s.p[i]) >= 0 : cel_is_digit(s.p[i])); i++)
		fits = fits && !__builtin_mul_overflow(value, is_hex ? 16u : 10u, &value) &&
			!__builtin_add_overflow(value, (uint64_t)cel_hex(s.p[i]), &value);
	if (!is_hex && i + 1 < s.n && s.p[i] == '.' && cel_is_digit(s.p[i + 1])) {
		is_double = true;
		for (i++; i < s.n && cel_is_digit(s.p[i]); i++)
			;
	}
	if (!is_hex && i + 1 < s.n && (s.p[i] == 'e' || s.p[i] == 'E')) {
		size_t at = i + 1 + (s.p[i + 1] == '+' || s.p[i + 1] == '-');

		if (at < s.n && cel_is_digit(s.p[at])) {
			is_double = true;
			for (i = at; i < s.n && cel_is_digit(s.p[i]); i++)
				;
		}
	}
	p->token = CEL_TOKEN_VALUE;
	p->text = (struct str){s.p, i};
	if (is_double) {
		if (str_copy(digits, sizeof(digits), p->text) < 0)
			CEL_FAULT(p, EINVAL, "the number %.20s is too long", s.p);
		p->value = (struct cel_value){.type = CEL_DOUBLE, .number = strtod(digits, NULL)};
	} else if (i < s.n && (s.p[i] == 'u' || s.p[i] == 'U')) {
		i++;
		p->value = (struct cel_value){.type = CEL_UINT, .natural = value};
	} else {
		/* The number after a minus sign may be one greater: cel_negate() checks that. */
		fits = fits && value <= (uint64_t)INT64_MAX + 1;
		p->value = (struct cel_value){.type = CEL_INT, .natural = value};
	}
	if (!fits)
		CEL_FAULT(p, EINVAL, "the number %.20s is out of range", s.p);
	p->rest = (struct str){s.p + i, s.n - i};
}

/* ---- tokens ---- */

static void cel_skip_space(struct cel_parser *p)
{
	struct str s = p->rest;

	for (;;) {
		if (s.n && strchr(" \t\r\n\f", s.p[0]) && s.p[0]) {
			s = (struct str){s.p + 1, s.n - 1};
		} else if (str_has_prefix(s, STR("//"))) {
			const size_t end = str_find(s, '\n');

			s = (struct str){s.p + end, s.n - end};
		} else {
			break;
		}
	}
	p->rest = s;
}

/* Returns the length of the prefix of a text literal, 0 for none; SIZE_MAX: no text follows. */
static size_t cel_text_prefix(struct str s)
{
	size_t n = 0;

	while (n < s.n && n < 2 && strchr("rRbB", s.p[n]))
		n++;
	return n < s.n && (s.p[n] == '"' || s.p[n] == '\'') ? n : SIZE_MAX;
}

static void cel_advance(struct cel_parser *p)
{
	static const char *const signs[] = {"&&", "||", "==", "!=", "<=", ">="};
	struct str s;
	size_t n = 0;

	cel_skip_space(p);
	s = p->rest;
	p->text = (struct str){s.p, 0};
	p->token = CEL_TOKEN_END;
	if (!s.n || p->fault)
		return;
	if (cel_text_prefix(s) != SIZE_MAX) {
		cel_read_text(p, cel_text_prefix(s));
		return;
	}
	if (cel_is_digit(s.p[0]) || (s.p[0] == '.' && s.n > 1 && cel_is_digit(s.p[1]))) {
		cel_read_number(p);
		return;
	}
	while (n < s.n && (cel_is_letter(s.p[n]) || (n && cel_is_digit(s.p[n]))))
		n++;
	p->token = n ? CEL_TOKEN_NAME : CEL_TOKEN_SIGN;
	for (size_t i = 0; !n && i < ARRAY_SIZE(signs); i++)
		if (str_has_prefix(s, str_from(signs[i])))
			n = 2;
	n = n ? n : 1;
	p->text = (struct str){s.p, n};
	p->rest = (struct str){s.p + n, s.n - n};
}

static bool cel_is_sign(const struct cel_parser *p, const char *sign)
{
	return p->token == CEL_TOKEN_SIGN && str_is(p->text, sign);
}

static bool cel_take_sign(struct cel_parser *p, const char *sign)
{
	if (!cel_is_sign(p, sign))
		return false;
	cel_advance(p);
	return true;
}

static void cel_expect(struct cel_parser *p, const char *sign)
{
	if (!cel_take_sign(p, sign))
		CEL_FAULT(p, EINVAL, "expected '%s' instead of '%.20s'", sign,
			p->text.p ? p->text.p : "");
}

/* ---- nodes ---- */

/* Never NULL: without memory, a node that nobody evaluates, because the fault ends the parsing. */
static struct cel_node *cel_node(struct cel_parser *p, enum cel_op op, uint32_t n)
{
	static struct cel_node none;
	struct cel_node *node = arena_take(&p->cel->arena, sizeof(*node));
	struct cel_node **arg = arena_take_array(
		&p->cel->arena, n + 1ul, sizeof(struct cel_node *));

	if (!node || !arg) {
		CEL_FAULT(p, ENOMEM, "out of memory");
		return &none;
	}
	node->op = op;
	node->arg = arg;
	node->n = n;
	return node;
}

static struct cel_node *cel_node2(
	struct cel_parser *p, enum cel_op op, struct cel_node *a, struct cel_node *b)
{
	struct cel_node *node = cel_node(p, op, b ? 2 : 1);

	if (p->fault)
		return node;
	node->arg[0] = a;
	node->arg[1] = b;
	return node;
}

static struct cel_node *cel_node_value(struct cel_parser *p, struct cel_value value)
{
	struct cel_node *node = cel_node(p, CEL_OP_VALUE, 0);

	if (!p->fault)
		node->value = value;
	return node;
}

static struct cel_node *cel_expression(struct cel_parser *p);

#define CEL_ARGUMENTS_MAX 256u

/* On the heap and freed soon: the program keeps only as many as it has. */
struct cel_arguments {
	struct cel_node *v[CEL_ARGUMENTS_MAX];
	uint32_t n;
};

/* Reads expressions up to the closing sign, with commas between; a comma may precede the sign. */
static void cel_read_arguments(
	struct cel_parser *p, const char *closing, bool are_pairs, struct cel_arguments *args)
{
	while (!p->fault && !cel_is_sign(p, closing)) {
		if (cel_is_sign(p, "?")) {
			CEL_FAULT(p, ENOTSUP, "optional values ('?') are not supported");
			return;
		}
		if (args->n + 2 > CEL_ARGUMENTS_MAX) {
			CEL_FAULT(p, E2BIG, "a list has more than %u items", CEL_ARGUMENTS_MAX - 2);
			return;
		}
		args->v[args->n++] = cel_expression(p);
		if (are_pairs) {
			cel_expect(p, ":");
			args->v[args->n++] = cel_expression(p);
		}
		if (!cel_take_sign(p, ","))
			break;
	}
	cel_expect(p, closing);
}

static struct cel_node *cel_node_of(
	struct cel_parser *p, enum cel_op op, const struct cel_arguments *args)
{
	struct cel_node *node = cel_node(p, op, args->n);

	for (uint32_t i = 0; !p->fault && i < args->n; i++)
		node->arg[i] = args->v[i];
	return node;
}

/* ---- calls and macros ---- */

static const struct {
	const char *name;
	enum cel_op op;
	uint32_t n; /* arguments behind the range */
} cel_macros[] = {
	{"all", CEL_OP_ALL, 2},
	{"exists", CEL_OP_EXISTS, 2},
	{"exists_one", CEL_OP_EXISTS_ONE, 2},
	{"existsOne", CEL_OP_EXISTS_ONE, 2},
	{"filter", CEL_OP_FILTER, 2},
	{"map", CEL_OP_TRANSFORM, 2},
	{"map", CEL_OP_TRANSFORM, 3},
};

/* Expands a macro with a variable; NULL: the call is no macro. */
static struct cel_node *cel_expand(struct cel_parser *p, struct cel_node *range, struct str name,
	const struct cel_arguments *args)
{
	for (size_t i = 0; i < ARRAY_SIZE(cel_macros); i++) {
		struct cel_node *node;

		if (!str_is(name, cel_macros[i].name) || args->n != cel_macros[i].n)
			continue;
		if (args->v[0]->op != CEL_OP_IDENT) {
			CEL_FAULT(p, EINVAL, "the first argument of %s() must be a name",
				cel_macros[i].name);
			return range;
		}
		node = cel_node(p, cel_macros[i].op, 3);
		if (p->fault)
			return node;
		node->text = args->v[0]->text;
		node->arg[0] = range;
		node->arg[1] = args->n == 3 || node->op != CEL_OP_TRANSFORM ? args->v[1] : NULL;
		node->arg[2] = args->v[args->n - 1];
		return node;
	}
	return NULL;
}

static struct cel_node *cel_bind(struct cel_parser *p, const struct cel_arguments *args)
{
	struct cel_node *node;

	if (args->n != 3 || args->v[0]->op != CEL_OP_IDENT) {
		CEL_FAULT(p, EINVAL, "cel.bind() needs a name and two expressions");
		return args->v[0];
	}
	node = cel_node2(p, CEL_OP_BIND, args->v[1], args->v[2]);
	if (!p->fault)
		node->text = args->v[0]->text;
	return node;
}

static struct cel_node *cel_has(struct cel_parser *p, const struct cel_arguments *args)
{
	struct cel_node *node;

	if (args->n != 1 || args->v[0]->op != CEL_OP_SELECT) {
		CEL_FAULT(p, EINVAL, "has() needs a field, such as has(a.b)");
		return cel_node(p, CEL_OP_VALUE, 0);
	}
	node = cel_node2(p, CEL_OP_HAS, args->v[0]->arg[0], NULL);
	if (!p->fault)
		node->text = args->v[0]->text;
	return node;
}

/* A call of a function, or with `object` of a method. */
static struct cel_node *cel_call(struct cel_parser *p, struct cel_node *object, struct str name,
	const struct cel_arguments *args)
{
	const bool is_method = object;
	const uint32_t n = args->n + is_method;
	const struct cel_function *function = cel_function_find(name, is_method);
	struct cel_node *node;

	if (!function) {
		CEL_FAULT(
			p, ENOTSUP, "the function %" STR_FMT "() is not supported", STR_ARG(name));
		return cel_node(p, CEL_OP_VALUE, 0);
	}
	if (n < function->least || n > function->most)
		CEL_FAULT(p, ENOTSUP,
			"the function %" STR_FMT "() with %u arguments is not supported",
			STR_ARG(name), args->n);
	node = cel_node(p, CEL_OP_CALL, n);
	if (p->fault)
		return node;
	node->function = function;
	node->arg[0] = object;
	for (uint32_t i = 0; i < args->n; i++)
		node->arg[i + is_method] = args->v[i];
	return node;
}

static bool cel_is_ident(const struct cel_node *node, const char *name)
{
	return node->op == CEL_OP_IDENT && str_is(node->text, name);
}

/* Reads what follows ".name(": a method, a macro, or a function whose name has a dot. */
static struct cel_node *cel_method(struct cel_parser *p, struct cel_node *object, struct str name)
{
	_cleanup_free_ struct cel_arguments *args = calloc(1, sizeof(*args));
	struct cel_node *node;
	char full[64];

	if (!args) {
		CEL_FAULT(p, ENOMEM, "out of memory");
		return object;
	}
	cel_read_arguments(p, ")", false, args);
	if (p->fault)
		return object;
	if (cel_is_ident(object, "cel") && str_is(name, "bind"))
		return cel_bind(p, args);
	if (object->op == CEL_OP_IDENT) {
		snprintf(full, sizeof(full), "%" STR_FMT ".%" STR_FMT, STR_ARG(object->text),
			STR_ARG(name));
		if (cel_function_find(str_from(full), false))
			return cel_call(p, NULL, str_from(full), args);
	}
	node = cel_expand(p, object, name, args);
	return node ? node : cel_call(p, object, name, args);
}

/* ---- expressions ---- */

static struct cel_node *cel_name(struct cel_parser *p)
{
	const struct str name = p->text;
	_cleanup_free_ struct cel_arguments *args = NULL;
	struct cel_node *node;

	cel_advance(p);
	if (cel_take_sign(p, "(")) {
		args = calloc(1, sizeof(*args));
		if (!args) {
			CEL_FAULT(p, ENOMEM, "out of memory");
			return cel_node(p, CEL_OP_VALUE, 0);
		}
		cel_read_arguments(p, ")", false, args);
		if (p->fault)
			return cel_node(p, CEL_OP_VALUE, 0);
		return str_is(name, "has") ? cel_has(p, args) : cel_call(p, NULL, name, args);
	}
	if (str_is(name, "true") || str_is(name, "false"))
		return cel_node_value(p, cel_bool(str_is(name, "true")));
	if (str_is(name, "null"))
		return cel_node_value(p, (struct cel_value){.type = CEL_NULL});
	node = cel_node(p, CEL_OP_IDENT, 0);
	if (!p->fault)
		node->text = name;
	return node;
}

static struct cel_node *cel_primary(struct cel_parser *p)
{
	_cleanup_free_ struct cel_arguments *args = NULL;
	struct cel_node *node;

	if (p->token == CEL_TOKEN_VALUE) {
		node = cel_node_value(p, p->value);
		cel_advance(p);
		return node;
	}
	if (p->token == CEL_TOKEN_NAME)
		return cel_name(p);
	if (cel_take_sign(p, "(")) {
		node = cel_expression(p);
		cel_expect(p, ")");
		return node;
	}
	if (cel_is_sign(p, "[") || cel_is_sign(p, "{")) {
		const bool is_list = cel_is_sign(p, "[");

		cel_advance(p);
		args = calloc(1, sizeof(*args));
		if (args) {
			cel_read_arguments(p, is_list ? "]" : "}", !is_list, args);
			return cel_node_of(p, is_list ? CEL_OP_LIST : CEL_OP_MAP, args);
		}
		CEL_FAULT(p, ENOMEM, "out of memory");
	}
	if (p->token == CEL_TOKEN_END)
		CEL_FAULT(p, EINVAL, "the expression ends too early");
	CEL_FAULT(p, EINVAL, "unexpected '%.20s'", p->text.p ? p->text.p : "");
	return cel_node(p, CEL_OP_VALUE, 0);
}

/* An integer literal without minus sign must not exceed INT64_MAX. */
static void cel_check_literal(struct cel_parser *p, const struct cel_node *node)
{
	if (!p->fault && node->op == CEL_OP_VALUE && node->value.type == CEL_INT &&
		node->value.natural > INT64_MAX)
		CEL_FAULT(p, EINVAL, "the number 9223372036854775808 is out of range");
}

static struct cel_node *cel_member(struct cel_parser *p)
{
	struct cel_node *node = cel_primary(p);

	while (!p->fault) {
		if (cel_take_sign(p, ".")) {
			const struct str name = p->text;

			if (cel_is_sign(p, "?"))
				CEL_FAULT(p, ENOTSUP, "optional values ('?') are not supported");
			if (p->token != CEL_TOKEN_NAME)
				CEL_FAULT(p, EINVAL, "expected a name behind '.'");
			cel_advance(p);
			if (cel_take_sign(p, "(")) {
				node = cel_method(p, node, name);
				continue;
			}
			node = cel_node2(p, CEL_OP_SELECT, node, NULL);
			if (!p->fault)
				node->text = name;
		} else if (cel_take_sign(p, "[")) {
			if (cel_is_sign(p, "?"))
				CEL_FAULT(p, ENOTSUP, "optional values ('?') are not supported");
			node = cel_node2(p, CEL_OP_INDEX, node, cel_expression(p));
			cel_expect(p, "]");
		} else if (cel_is_sign(p, "{")) {
			CEL_FAULT(p, ENOTSUP, "messages ('{') are not supported");
		} else {
			break;
		}
	}
	return node;
}

/* A minus sign before an integer literal belongs to the number. */
static struct cel_node *cel_negate(struct cel_parser *p, struct cel_node *node)
{
	if (!p->fault && node->op == CEL_OP_VALUE && node->value.type == CEL_INT &&
		node->value.natural <= (uint64_t)INT64_MAX + 1) {
		node->value.natural = -node->value.natural;
		return node;
	}
	return cel_node2(p, CEL_OP_MINUS, node, NULL);
}

static struct cel_node *cel_unary(struct cel_parser *p)
{
	struct cel_node *node;
	uint32_t n_not = 0, n_minus = 0;
	bool is_literal;

	while (cel_take_sign(p, "!"))
		n_not++;
	while (!n_not && cel_is_sign(p, "-")) {
		n_minus++;
		cel_advance(p);
	}
	is_literal = p->token == CEL_TOKEN_VALUE;
	node = cel_member(p);
	if (n_minus & 1 && is_literal)
		node = cel_negate(p, node);
	else if (n_minus & 1)
		node = cel_node2(p, CEL_OP_MINUS, node, NULL);
	else if (is_literal)
		cel_check_literal(p, node);
	/* An even number of signs has no effect, but needs a value of the right type. */
	if (n_minus && !(n_minus & 1))
		node = cel_node2(p, CEL_OP_MINUS, cel_node2(p, CEL_OP_MINUS, node, NULL), NULL);
	if (n_not && !(n_not & 1))
		node = cel_node2(p, CEL_OP_NOT, node, NULL);
	return n_not ? cel_node2(p, CEL_OP_NOT, node, NULL) : node;
}

static const struct {
	const char *sign;
	enum cel_op op;
	uint32_t level; /* operators of a higher level bind more tightly */
} cel_operators[] = {
	{"||", CEL_OP_OR, 0},
	{"&&", CEL_OP_AND, 1},
	{"==", CEL_OP_EQUAL, 2},
	{"!=", CEL_OP_UNEQUAL, 2},
	{"<", CEL_OP_LESS, 2},
	{"<=", CEL_OP_LESS_EQUAL, 2},
	{">", CEL_OP_GREATER, 2},
	{">=", CEL_OP_GREATER_EQUAL, 2},
	{"in", CEL_OP_IN, 2},
	{"+", CEL_OP_ADD, 3},
	{"-", CEL_OP_SUBTRACT, 3},
	{"*", CEL_OP_MULTIPLY, 4},
	{"/", CEL_OP_DIVIDE, 4},
	{"%", CEL_OP_MODULO, 4},
};
#define CEL_LEVELS 5u

static const enum cel_op *cel_operator(const struct cel_parser *p, uint32_t level)
{
	for (size_t i = 0; i < ARRAY_SIZE(cel_operators); i++)
		if (cel_operators[i].level == level && str_is(p->text, cel_operators[i].sign) &&
			(p->token == CEL_TOKEN_SIGN || p->token == CEL_TOKEN_NAME))
			return &cel_operators[i].op;
	return NULL;
}

static struct cel_node *cel_binary(struct cel_parser *p, uint32_t level)
{
	const enum cel_op *op;
	struct cel_node *node;

	if (level == CEL_LEVELS)
		return cel_unary(p);
	node = cel_binary(p, level + 1);
	while (!p->fault && (op = cel_operator(p, level))) {
		cel_advance(p);
		node = cel_node2(p, *op, node, cel_binary(p, level + 1));
	}
	return node;
}

static struct cel_node *cel_expression(struct cel_parser *p)
{
	struct cel_node *node, *choice;

	if (++p->depth > CEL_DEPTH_MAX)
		CEL_FAULT(p, E2BIG, "is nested deeper than %u levels", CEL_DEPTH_MAX);
	if (p->fault)
		return cel_node(p, CEL_OP_VALUE, 0);
	node = cel_binary(p, 0);
	if (cel_take_sign(p, "?")) {
		choice = cel_node(p, CEL_OP_IF, 3);
		if (p->fault)
			return choice;
		choice->arg[0] = node;
		choice->arg[1] = cel_binary(p, 0);
		cel_expect(p, ":");
		choice->arg[2] = cel_expression(p);
		node = choice;
	}
	p->depth--;
	return node;
}

int cel_parse(struct str text, struct cel **ret, struct error *err)
{
	_cleanup_(cel_free_p) struct cel *cel = calloc(1, sizeof(*cel));
	struct cel_parser p = {.cel = cel, .err = err};
	const char *copy;

	if (text.n > CEL_TEXT_MAX) {
		cel_free(TAKE_PTR(cel));
		return fail(err, E2BIG, "is longer than %u bytes", CEL_TEXT_MAX);
	}
	copy = cel ? arena_dup(&cel->arena, text) : NULL;
	if (!copy)
		return fail(err, ENOMEM, "out of memory");
	p.rest = (struct str){copy, text.n};
	cel_advance(&p);
	cel->root = cel_expression(&p);
	if (p.token != CEL_TOKEN_END)
		CEL_FAULT(&p, EINVAL, "unexpected '%.20s'", p.text.p);
	if (p.fault)
		return p.fault;
	*ret = TAKE_PTR(cel);
	return 0;
}

void cel_free(struct cel *cel)
{
	if (!cel)
		return;
	arena_done(&cel->arena);
	free(cel);
}
