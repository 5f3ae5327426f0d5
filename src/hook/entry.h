/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Generates the exports of an interception library from its .def list. Each name has a slot, a
 * pointer to the function that a call runs, and a weak definition that jumps through the slot. At
 * first a slot points at code that saves all argument registers, calls hook_resolve() and continues
 * at the function that hook_resolve() returns. So the program may call any function first.
 *
 * A name that divvy handles also has a strong definition in C, which replaces the weak one at link
 * time and calls the driver through the same slot. nvml.def states which names are defined in C, so
 * nvml-entry.c uses ENTRY_SLOT and ENTRY_JUMP instead of ENTRY.
 */
#ifndef HOOK_ENTRY_H
#define HOOK_ENTRY_H

#include <stdint.h>

/* Emitted before the list: the start of the table, and the common part of each first call. */
#if defined(__x86_64__)
/* clang-format off */
#define ENTRY_HEAD                                                                                 \
	".pushsection .data.hook_slots,\"aw\",@progbits\n"                                         \
	".balign 64\n"                                                                             \
	".globl hook_slots\n.hidden hook_slots\nhook_slots:\n"                                     \
	".popsection\n"                                                                            \
	".pushsection .text.hook_first,\"ax\",@progbits\n"                                         \
	".type hook_first,@function\n"                                                             \
	"hook_first:\n"                                                                            \
	"	pushq %rbp\n	movq %rsp, %rbp\n	andq $-16, %rsp\n	subq $208, %rsp\n"         \
	"	movq %rdi, 0(%rsp)\n	movq %rsi, 8(%rsp)\n	movq %rdx, 16(%rsp)\n"                     \
	"	movq %rcx, 24(%rsp)\n	movq %r8, 32(%rsp)\n	movq %r9, 40(%rsp)\n"                      \
	"	movq %rax, 48(%rsp)\n	movq %r10, 56(%rsp)\n"                                         \
	"	movaps %xmm0, 64(%rsp)\n	movaps %xmm1, 80(%rsp)\n	movaps %xmm2, 96(%rsp)\n"      \
	"	movaps %xmm3, 112(%rsp)\n	movaps %xmm4, 128(%rsp)\n	movaps %xmm5, 144(%rsp)\n"     \
	"	movaps %xmm6, 160(%rsp)\n	movaps %xmm7, 176(%rsp)\n"                             \
	"	movl 8(%rbp), %edi\n"                                                                  \
	"	call hook_resolve\n"                                                                   \
	"	movq %rax, %r11\n"                                                                     \
	"	movq 0(%rsp), %rdi\n	movq 8(%rsp), %rsi\n	movq 16(%rsp), %rdx\n"                     \
	"	movq 24(%rsp), %rcx\n	movq 32(%rsp), %r8\n	movq 40(%rsp), %r9\n"                      \
	"	movq 48(%rsp), %rax\n	movq 56(%rsp), %r10\n"                                         \
	"	movaps 64(%rsp), %xmm0\n	movaps 80(%rsp), %xmm1\n	movaps 96(%rsp), %xmm2\n"      \
	"	movaps 112(%rsp), %xmm3\n	movaps 128(%rsp), %xmm4\n	movaps 144(%rsp), %xmm5\n"     \
	"	movaps 160(%rsp), %xmm6\n	movaps 176(%rsp), %xmm7\n"                             \
	"	leave\n	leaq 8(%rsp), %rsp\n	jmp *%r11\n"                                           \
	".size hook_first,.-hook_first\n"                                                          \
	".popsection\n"

#define ENTRY_SLOT(name)                                                                           \
	".pushsection .data.hook_slots,\"aw\",@progbits\n"                                         \
	".globl hook_slot_" #name "\n.hidden hook_slot_" #name "\n"                                \
	"hook_slot_" #name ": .quad hook_first_" #name "\n"                                        \
	".popsection\n"                                                                            \
	".pushsection .text.hook_first,\"ax\",@progbits\n"                                         \
	"hook_first_" #name ": pushq $(hook_slot_" #name " - hook_slots) / 8\n"                    \
	"	jmp hook_first\n"                                                                      \
	".popsection\n"

#define ENTRY_JUMP(name, binding)                                                                  \
	".pushsection .text.hook_entry,\"ax\",@progbits\n"                                         \
	".balign 8\n"                                                                              \
	binding " " #name "\n.type " #name ",@function\n"                                          \
	#name ": jmp *hook_slot_" #name "(%rip)\n"                                                 \
	".size " #name ",.-" #name "\n"                                                            \
	".popsection\n"

#elif defined(__aarch64__)
#define ENTRY_HEAD                                                                                 \
	".pushsection .data.hook_slots,\"aw\",@progbits\n"                                         \
	".balign 64\n"                                                                             \
	".globl hook_slots\n.hidden hook_slots\nhook_slots:\n"                                     \
	".popsection\n"                                                                            \
	".pushsection .text.hook_first,\"ax\",@progbits\n"                                         \
	".type hook_first,%function\n"                                                             \
	"hook_first:\n"                                                                            \
	"	stp x29, x30, [sp, #-224]!\n	mov x29, sp\n"                                         \
	"	stp x0, x1, [sp, #16]\n	stp x2, x3, [sp, #32]\n	stp x4, x5, [sp, #48]\n"           \
	"	stp x6, x7, [sp, #64]\n	str x8, [sp, #80]\n"                                           \
	"	stp q0, q1, [sp, #96]\n	stp q2, q3, [sp, #128]\n"                                      \
	"	stp q4, q5, [sp, #160]\n	stp q6, q7, [sp, #192]\n"                              \
	"	mov w0, w17\n"                                                                         \
	"	bl hook_resolve\n"                                                                     \
	"	mov x16, x0\n"                                                                         \
	"	ldp q0, q1, [sp, #96]\n	ldp q2, q3, [sp, #128]\n"                                      \
	"	ldp q4, q5, [sp, #160]\n	ldp q6, q7, [sp, #192]\n"                              \
	"	ldr x8, [sp, #80]\n	ldp x6, x7, [sp, #64]\n	ldp x4, x5, [sp, #48]\n"               \
	"	ldp x2, x3, [sp, #32]\n	ldp x0, x1, [sp, #16]\n"                                       \
	"	ldp x29, x30, [sp], #224\n	br x16\n"                                                   \
	".size hook_first,.-hook_first\n"                                                          \
	".popsection\n"

#define ENTRY_SLOT(name)                                                                           \
	".pushsection .data.hook_slots,\"aw\",@progbits\n"                                         \
	".globl hook_slot_" #name "\n.hidden hook_slot_" #name "\n"                                \
	"hook_slot_" #name ": .quad hook_first_" #name "\n"                                        \
	".popsection\n"                                                                            \
	".pushsection .text.hook_first,\"ax\",@progbits\n"                                         \
	"hook_first_" #name ": mov w17, #((hook_slot_" #name " - hook_slots) / 8)\n"               \
	"	b hook_first\n"                                                                        \
	".popsection\n"

#define ENTRY_JUMP(name, binding)                                                                  \
	".pushsection .text.hook_entry,\"ax\",@progbits\n"                                         \
	".balign 16\n"                                                                             \
	binding " " #name "\n.type " #name ",%function\n"                                          \
	#name ": adrp x16, hook_slot_" #name "\n"                                                  \
	"	ldr x16, [x16, #:lo12:hook_slot_" #name "]\n	br x16\n"                              \
	".size " #name ",.-" #name "\n"                                                            \
	".popsection\n"
/* clang-format on */
#else
#error "this architecture has no entries yet"
#endif
#define ENTRY(name) ENTRY_SLOT(name) ENTRY_JUMP(name, ".weak")

/* The table, in the order of the .def list. */
extern void *_Atomic hook_slots[] __attribute__((visibility("hidden")));

/*
 * Finds the function for slot `index`, stores it in the slot and returns it. The code above calls
 * hook_resolve().
 */
void *hook_resolve(uint32_t index) __attribute__((visibility("hidden")));

#endif
