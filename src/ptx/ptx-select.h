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
void select_take_space(struct parser *p, struct extra *x);
/* Whether every modifier was understood. */
bool select_is_done(struct parser *p);
bool select_has_operands(struct parser *p, uint32_t least, uint32_t most);
/* Where an instruction accesses memory. */
bool select_address(struct parser *p, const struct operand *o, struct extra *x, int32_t *ret_a,
	int64_t *ret_imm);
/* An instruction of the whole warp. */
struct insn *select_emit_warp(struct parser *p, exec_fn *fn, struct extra *x);

void select_mma(struct parser *p);
void select_wmma(struct parser *p);
void select_ldmatrix(struct parser *p);
void select_movmatrix(struct parser *p);
void select_mbarrier(struct parser *p);

#endif
