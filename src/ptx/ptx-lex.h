/* SPDX-License-Identifier: Apache-2.0 */
/* Splits PTX text into tokens. A token points into the text. Pure code, any thread. */
#ifndef PTX_PTX_LEX_H
#define PTX_PTX_LEX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum lex_kind {
	LEX_END,
	LEX_WORD,   /* identifiers, directives, opcodes with their modifiers, %r1.x */
	LEX_NUMBER, /* begins with a digit */
	LEX_STRING, /* without its quotes */
	LEX_PUNCT,
	LEX_BAD,
};

struct lex_token {
	enum lex_kind kind;
	struct str text;
	uint32_t line;
};

struct lex {
	const char *p, *end;
	uint32_t line;
	struct lex_token token; /* the present token */
};

void lex_init(struct lex *lex, struct str text);
void lex_next(struct lex *lex);
/* Skips to the end of the line, behind directives that have no other end. */
void lex_skip_line(struct lex *lex);
bool lex_is(const struct lex *lex, const char *text);
/* Takes the token if it is this text. */
bool lex_accept(struct lex *lex, const char *text);

/* The value of a number token. */
struct lex_value {
	bool is_float;
	uint8_t float_bytes; /* 4 or 8 for 0f... and 0d...; otherwise 0 */
	uint64_t bits;       /* integers, and the bits of 0f and 0d */
	double value;        /* decimal floats */
};
bool lex_number(struct str text, struct lex_value *ret_value);

#endif
