/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokens of PTX. A word may contain dots and "::", so an opcode with its modifiers is one token.
 * Pure code, any thread.
 */
#include "ptx/ptx-lex.h"

#include <ctype.h>
#include <stdlib.h>

enum { NUMBER_MAX = 80 };

void lex_init(struct lex *lex, struct str text)
{
	*lex = (struct lex){.p = text.p, .end = text.p + text.n, .line = 1};
	lex_next(lex);
}

static void lex_skip_comment(struct lex *lex)
{
	lex->p += 2;
	while (lex->end - lex->p >= 2 && !(lex->p[0] == '*' && lex->p[1] == '/')) {
		if (*lex->p == '\n')
			lex->line++;
		lex->p++;
	}
	lex->p = lex->end - lex->p >= 2 ? lex->p + 2 : lex->end;
}

static void lex_skip_blank(struct lex *lex)
{
	while (lex->p < lex->end) {
		if (*lex->p == '\n') {
			lex->line++;
			lex->p++;
		} else if (isspace((unsigned char)*lex->p)) {
			lex->p++;
		} else if (lex->end - lex->p >= 2 && lex->p[0] == '/' && lex->p[1] == '/') {
			while (lex->p < lex->end && *lex->p != '\n')
				lex->p++;
		} else if (lex->end - lex->p >= 2 && lex->p[0] == '/' && lex->p[1] == '*') {
			lex_skip_comment(lex);
		} else {
			return;
		}
	}
}

static bool lex_is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '.' || c == '%';
}

static void lex_take_string(struct lex *lex, const char *start)
{
	while (lex->p < lex->end && *lex->p != '"' && *lex->p != '\n')
		lex->p++;
	lex->token.text = (struct str){start + 1, (size_t)(lex->p - start - 1)};
	if (lex->p == lex->end || *lex->p != '"') {
		lex->token.kind = LEX_BAD;
		return;
	}
	lex->token.kind = LEX_STRING;
	lex->p++;
}

/* The sign of a decimal exponent belongs to the number. */
static bool lex_is_exponent_sign(const char *start, const char *p)
{
	return (*p == '+' || *p == '-') && (p[-1] == 'e' || p[-1] == 'E') && p - start >= 2 &&
		!(start[0] == '0' && memchr("xXfFdD", start[1], 6) != NULL);
}

static void lex_take_word(struct lex *lex, const char *start)
{
	bool is_number = isdigit((unsigned char)*start);

	while (lex->p < lex->end) {
		/* Directives may stand close together, as in ".reg.b32"; an opcode is one word. */
		if (*start == '.' && *lex->p == '.')
			break;
		if (lex_is_word(*lex->p) || (is_number && lex_is_exponent_sign(start, lex->p)))
			lex->p++;
		else if (!is_number && *lex->p == ':' && lex->end - lex->p > 2 &&
			lex->p[1] == ':' && isalnum((unsigned char)lex->p[2]))
			lex->p += 2;
		else
			break;
	}
	lex->token.kind = is_number ? LEX_NUMBER : LEX_WORD;
	lex->token.text = (struct str){start, (size_t)(lex->p - start)};
}

void lex_next(struct lex *lex)
{
	const char *start;

	lex_skip_blank(lex);
	start = lex->p;
	lex->token = (struct lex_token){LEX_END, {start, 0}, lex->line};
	if (lex->p == lex->end)
		return;
	lex->p++;
	if (*start == '"') {
		lex_take_string(lex, start);
	} else if (lex_is_word(*start)) {
		lex_take_word(lex, start);
	} else {
		bool is_text = *start > 0x20 && *start < 0x7f;

		lex->token.kind = is_text ? LEX_PUNCT : LEX_BAD;
		lex->token.text.n = 1;
	}
}

void lex_skip_line(struct lex *lex)
{
	while (lex->p < lex->end && *lex->p != '\n')
		lex->p++;
	lex_next(lex);
}

bool lex_is(const struct lex *lex, const char *text)
{
	return (lex->token.kind == LEX_WORD || lex->token.kind == LEX_PUNCT) &&
		str_is(lex->token.text, text);
}

bool lex_accept(struct lex *lex, const char *text)
{
	if (!lex_is(lex, text))
		return false;
	lex_next(lex);
	return true;
}

static bool lex_integer(const char *text, struct lex_value *ret_value)
{
	char *end;
	bool is_binary = text[0] == '0' && (text[1] == 'b' || text[1] == 'B');

	ret_value->bits = strtoull(is_binary ? text + 2 : text, &end, is_binary ? 2 : 0);
	if (*end == 'U')
		end++;
	return *end == '\0';
}

bool lex_number(struct str text, struct lex_value *ret_value)
{
	char copy[NUMBER_MAX];
	char *end;

	*ret_value = (struct lex_value){0};
	if (text.n == 0 || text.n >= sizeof(copy))
		return false;
	memcpy(copy, text.p, text.n);
	copy[text.n] = '\0';
	if (copy[0] == '0' && strchr("fFdD", copy[1]) != NULL && copy[1] != '\0') {
		bool is_double = copy[1] == 'd' || copy[1] == 'D';

		if (text.n != (is_double ? 18 : 10))
			return false;
		ret_value->is_float = true;
		ret_value->float_bytes = is_double ? 8 : 4;
		ret_value->bits = strtoull(copy + 2, &end, 16);
		return *end == '\0';
	}
	if (lex_integer(copy, ret_value))
		return true;
	ret_value->is_float = true;
	ret_value->value = strtod(copy, &end);
	return *end == '\0' && strpbrk(copy, "xXnNpP") == NULL;
}
