/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the second interpreter, ptx-naive*.c. */
#ifndef TESTS_UNIT_PTX_PTX_NAIVE_INTERNAL_H
#define TESTS_UNIT_PTX_PTX_NAIVE_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

enum { NAIVE_PARTS = 8, NAIVE_OPERANDS = 8, NAIVE_WORD = 24 };

struct naive_type {
	char kind; /* 'u', 's', 'b', 'f' (IEEE), 'g' (bfloat16), 'p'; 0: none */
	int bits;
	int lanes; /* values in one register: 2 for f16x2 */
};

struct naive_operand {
	char kind;  /* 'r' register, 'i' number, 's' special register, 'l' name, '_' nothing */
	char class; /* of registers: 'p', 'h', 'r', 'd' */
	int index;
	uint64_t number;
	char name[NAIVE_WORD];
	bool is_address, is_negated;
	int64_t offset;
};

struct naive_insn {
	int guard; /* predicate, or -1 */
	bool is_guard_negated;
	char base[NAIVE_WORD];
	char parts[NAIVE_PARTS][NAIVE_WORD]; /* modifiers that are no types */
	int n_parts;
	struct naive_type types[3];
	int n_types;
	struct naive_operand ops[NAIVE_OPERANDS];
	int n_ops;
	int target;     /* of a branch */
	char text[160]; /* for messages */
};

bool naive_has(const struct naive_insn *in, const char *part);
bool naive_is(const struct naive_insn *in, const char *base);
_Noreturn void naive_die(const struct naive_insn *in, const char *why);

/* Result of an instruction that computes one value; *carry is CC.CF. */
uint64_t naive_compute(const struct naive_insn *in, const uint64_t *s, uint32_t *carry);
/* The comparison of setp and set. */
bool naive_compare(const struct naive_insn *in, struct naive_type type, uint64_t a, uint64_t b);
bool naive_test(const struct naive_insn *in, uint64_t a);
/* Atomic operations: what is stored. */
uint64_t naive_atomic(const struct naive_insn *in, uint64_t old, uint64_t b, uint64_t c);

typedef __int128 naive_wide;

static inline int64_t naive_signed(uint64_t v, int bits)
{
	return bits == 64 ? (int64_t)v : (int64_t)(v << (64 - bits)) >> (64 - bits);
}

static inline uint64_t naive_low_bits(uint64_t v, int bits)
{
	return bits == 64 ? v : v & ((UINT64_C(1) << bits) - 1);
}

static inline naive_wide naive_value(uint64_t v, struct naive_type t)
{
	return t.kind == 's' ? (naive_wide)naive_signed(v, t.bits)
			     : (naive_wide)naive_low_bits(v, t.bits);
}

/* ---- ptx-naive-float.c ---- */
uint64_t naive_compute_float(const struct naive_insn *in, struct naive_type t, const uint64_t *s);
uint64_t naive_convert(
	const struct naive_insn *in, struct naive_type to, struct naive_type from, uint64_t v);
naive_wide naive_clamp(naive_wide v, struct naive_type t);
/* Whether slct takes the first value, by a float. */
bool naive_is_positive(const struct naive_insn *in, uint64_t v);
uint64_t naive_add_f32(uint64_t a, uint64_t b);

#endif
