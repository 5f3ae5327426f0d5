/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The translation of a module: what ptx-parse.c (declarations), ptx-body.c (statements and
 * operands) and ptx-select.c (instructions) share. The first failure is kept in the parser, and
 * everything after it is skipped.
 */
#ifndef PTX_PTX_PARSE_H
#define PTX_PTX_PARSE_H

#define HASH_NONFATAL_OOM 1
#include "base/hash.h"
#include "ptx/ptx-internal.h"
#include "ptx/ptx-lex.h"

enum {
	SCOPES_MAX = 64,
	OPERANDS_MAX = 16,
	VECTOR_MAX = 32,
	REG_BYTES_MAX = 1 << 28,
	LOCAL_BYTES_MAX = 512 << 10,
	MODIFIERS_MAX = 16,
	NESTING_MAX = 4,
};

enum symbol_kind { SYM_REG, SYM_REGS, SYM_VARIABLE, SYM_FUNC, SYM_LABEL, SYM_SHAPE, SYM_TARGETS };

struct symbol {
	struct str name;
	enum symbol_kind kind;
	enum ptx_type type;
	enum space space; /* variables */
	uint64_t address; /* variables, by space */
	uint64_t bytes;   /* variables */
	/* arrays: bytes that an index of 1 adds to the address; 0: no array */
	uint64_t element_bytes;
	int32_t reg;    /* registers: offset of the first */
	uint32_t count; /* SYM_REGS */
	uint32_t index; /* functions, labels */
	bool is_param;  /* in .param space */
	struct call_shape *shape;
	struct str *labels; /* SYM_TARGETS */
	uint32_t n_labels;
	UT_hash_handle hh;
};

enum operand_kind {
	OP_NONE,
	OP_REG,
	OP_IMM,
	OP_SREG,
	OP_SYMBOL, /* address of a variable or function, plus offset */
	OP_ADDRESS,
	OP_VECTOR,
	OP_NAME, /* label, or nothing known */
	OP_SINK,
};

struct operand {
	enum operand_kind kind;
	enum ptx_type type; /* registers */
	int32_t reg;
	bool is_negated;
	struct lex_value value; /* immediates */
	struct symbol *symbol;
	uint32_t sreg;
	int64_t offset;
	bool is_element; /* a symbol with an index: array[3] */
	struct str name;
	/* addresses: kind of the base, OP_NONE for a plain number */
	enum operand_kind base;
	uint32_t first, n; /* vectors and lists: elements in parser.elements */
	bool has_pair;     /* a|b */
	int32_t pair;      /* register behind the |, or OPERAND_NONE */
};

struct pending {
	uint32_t insn;  /* index of the branch */
	uint32_t *slot; /* of a table of targets, or NULL */
	struct str name;
	uint32_t depth, line;
};

struct constant {
	uint64_t key[3]; /* the two halves of the value, and bytes */
	int32_t offset;
	UT_hash_handle hh;
};

struct parser {
	struct lex lex;
	struct ptx *ptx;
	struct error *err;
	bool has_failed;
	bool is_weak; /* the directive that is read now: .weak */
	int code;
	const struct ptx_loading *loading;
	uint64_t taken; /* of the memory, for everything that the parser and the module have */
	uint32_t n_symbols, until_pause;
	unsigned address_size, version, target;
	struct arena scratch; /* lives as long as the parser */
	struct symbol *scopes[SCOPES_MAX];
	uint32_t depth;
	/* the present function */
	struct func *func;
	struct insn *insns;
	uint32_t n_insns, cap_insns;
	uint32_t yielded_at; /* n_insns at the last CTL_YIELD that the parser has added */
	bool next_is_join;
	struct pending *pending;
	uint32_t n_pending, cap_pending;
	struct constant *constants;
	uint32_t n_const; /* bytes of the constants */
	uint32_t line;    /* of the present statement */
	struct str opcode;
	struct operand operands[OPERANDS_MAX];
	uint32_t n_operands;
	struct operand elements[OPERANDS_MAX * VECTOR_MAX];
	uint32_t n_elements;
	uint32_t nesting; /* of the operand that is being read */
	int32_t guard;
	bool is_guard_negated;
	/* the opcode in parts: "ld", then its modifiers */
	struct str parts[MODIFIERS_MAX];
	uint32_t n_parts;
};

/* Fails once; returns false. */
bool parse_fail(struct parser *p, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
bool parse_expect(struct parser *p, const char *text);
/*
 * Counts the memory of module and parser, and `more` bytes that are about to be allocated. Fails if
 * the load may not take that much, or if it was canceled.
 */
bool parse_account(struct parser *p, uint64_t more);
struct symbol *parse_find(struct parser *p, struct str name);
struct symbol *parse_add(struct parser *p, struct str name, enum symbol_kind kind);
bool parse_type(struct str name, enum ptx_type *ret_type);
uint64_t parse_number(struct parser *p);
int32_t parse_new_reg(struct parser *p, uint32_t bytes);
/* Declarations that a body may have, too: .reg, .local, .shared, .param; false: none. */
bool parse_declaration(struct parser *p);
void parse_scope_open(struct parser *p);
void parse_scope_close(struct parser *p);
struct call_shape *parse_prototype(struct parser *p);

/* ---- ptx-body.c ---- */
void body_parse(struct parser *p);
/* Adds an instruction with the statement's line and guard; NULL: failed. */
struct insn *body_emit(struct parser *p, enum control control, exec_fn *fn);
struct extra *body_extra(struct parser *p);
/* The operand as an offset of `type`: a register or a constant. */
int32_t body_use(struct parser *p, const struct operand *o, enum ptx_type type);
/* A register operand of any size. */
int32_t body_use_any(struct parser *p, const struct operand *o, uint32_t *ret_bytes);
/* The register that the instruction writes; OPERAND_NONE for the sink. */
int32_t body_define(struct parser *p, const struct operand *o, enum ptx_type type);
int32_t body_constant(struct parser *p, uint64_t lo, uint64_t hi, uint32_t bytes);
void body_refer(struct parser *p, uint32_t insn, uint32_t *slot, struct str label);

/* ---- ptx-select.c ---- */
/* Translates the statement in opcode and operands. */
void select_insn(struct parser *p);
/* Fails if the call's arguments and results have not the sizes of the function's. */
bool select_check_call(struct parser *p, const struct call_shape *shape, const struct func *f);

#endif
