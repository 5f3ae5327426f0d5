/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files that choose functions of instructions. The opcode is in p->parts. */
#ifndef PTX_PTX_SELECT_H
#define PTX_PTX_SELECT_H

#include "ptx/ptx-parse.h"

/* Fails the load because the instruction is missing here; returns false. */
bool select_unsupported(struct parser *p);
void select_drop(struct parser *p, uint32_t i);
/* Takes a modifier out of the opcode if it is there. */
bool select_take(struct parser *p, const char *name);
/* Takes the last modifier, which is a type. */
bool select_take_type(struct parser *p, enum ptx_type *ret);
/* As select_take_type(), but only types whose size in bytes is a bit of `sizes`. */
bool select_take_sized_type(struct parser *p, uint32_t sizes, enum ptx_type *ret);
/* Takes the first of the words that is there, and returns its place; -1: none. */
int select_take_word(struct parser *p, const char *const *words, int n);
#define SELECT_TAKE_WORD(p, words) \
	select_take_word(p, words, (int)(sizeof(words) / sizeof((words)[0])))
enum rounding select_take_rounding(struct parser *p); /* ROUND_NEAREST if there is none */
void select_take_space(struct parser *p, struct extra *x);
/* The row of arithmetic whose name is the opcode as it is now; NULL: none. */
const struct alu_row *select_find_row(struct parser *p);
bool select_is_float(enum ptx_type type);
/* The type of a raw register of that many bytes. */
enum ptx_type select_raw_type(uint32_t bytes);
/* Operand i, as body_use() and body_define(). */
int32_t select_use(struct parser *p, uint32_t i, enum ptx_type type);
int32_t select_define(struct parser *p, uint32_t i, enum ptx_type type);
/* Whether every modifier was understood. */
bool select_is_done(struct parser *p);
bool select_has_operands(struct parser *p, uint32_t least, uint32_t most);
/*
 * Adds an instruction of lanes with these operands, OPERAND_NONE where it has fewer; x may be NULL.
 * NULL: failed.
 */
struct insn *select_emit(struct parser *p, exec_fn *fn, int32_t d, int32_t a, int32_t b, int32_t c,
	const struct extra *x);
/* Where an instruction accesses memory. */
bool select_address(struct parser *p, const struct operand *o, struct extra *x, int32_t *ret_a,
	int64_t *ret_imm);
/* An instruction of the whole warp. */
struct insn *select_emit_warp(struct parser *p, exec_fn *fn, struct extra *x);

/* One for each entry of the table of opcodes. */
void select_access(struct parser *p);
void select_activemask(struct parser *p);
void select_add(struct parser *p);
void select_atomic(struct parser *p);
void select_barrier(struct parser *p);
void select_bfi(struct parser *p);
void select_branch(struct parser *p);
void select_call(struct parser *p);
void select_carry(struct parser *p);
void select_compare(struct parser *p);
void select_copy(struct parser *p);
void select_cvt(struct parser *p);
void select_cvta(struct parser *p);
void select_elect(struct parser *p);
void select_exit(struct parser *p);
void select_fence(struct parser *p);
void select_isspacep(struct parser *p);
void select_logic(struct parser *p);
void select_lop3(struct parser *p);
void select_mapa(struct parser *p);
void select_match(struct parser *p);
void select_mov(struct parser *p);
void select_nothing(struct parser *p);
void select_prmt(struct parser *p);
void select_redux(struct parser *p);
void select_return(struct parser *p);
void select_selection(struct parser *p);
void select_shuffle(struct parser *p);
void select_sleep(struct parser *p);
void select_stack(struct parser *p);
void select_table(struct parser *p);
void select_testp(struct parser *p);
void select_trap(struct parser *p);
void select_vote(struct parser *p);
void select_alu(struct parser *p);
void select_mma(struct parser *p);
void select_wmma(struct parser *p);
void select_zero(struct parser *p);
void select_ldmatrix(struct parser *p);
void select_movmatrix(struct parser *p);
void select_mbarrier(struct parser *p);
void select_bulk(struct parser *p);

#endif
