/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random programs in PTX. Each reads its registers from memory, computes with them, and writes them
 * back. Its results are those of any correct implementation: where the instruction set leaves a
 * result open, the program does not look at it. One thread.
 */
#ifndef TESTS_UNIT_PTX_PTX_GENERATE_H
#define TESTS_UNIT_PTX_PTX_GENERATE_H

#include <stddef.h>
#include <stdint.h>

#include "base/rand.h"

/* RECORD: bytes of a thread in the input and in the output. */
enum { GENERATE_RECORD = 512, GENERATE_TEXT_MAX = 1 << 17 };

/* Writes the text of a program, and values for `threads` records of input. */
void generate_program(struct rand *rand, uint32_t threads, char *ret_text);
void generate_input(struct rand *rand, uint32_t threads, uint8_t *ret_input);

#endif
