/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A second interpreter of PTX, for comparison: it runs one lane at a time, straight from the text,
 * and follows the description of the instruction set as literally as possible. It shares no code
 * with src/ptx. It knows what ptx-generate.c writes: one statement on each line, registers
 * %p %h %r %d with numbers (predicates, 16, 32 and 64 bits), and variables in shared and local
 * memory. One thread.
 */
#ifndef TESTS_UNIT_PTX_PTX_NAIVE_H
#define TESTS_UNIT_PTX_PTX_NAIVE_H

#include <stdint.h>

enum { NAIVE_THREADS_MAX = 128, NAIVE_SHARED_BYTES = 16384, NAIVE_LOCAL_BYTES = 256 };

/*
 * Runs the kernel of a text in one block, with two parameters: the addresses of its input and of
 * its output. A statement that the interpreter does not know ends the program with a message.
 */
void naive_run(const char *text, uint32_t threads, const void *in, void *out);

#endif
