/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The path of a submission. GATED(...) makes an exported function from a line of cuda.def. Its fast
 * path adds two loads, two stores and a counter to the driver's function, and jumps to a slow path
 * where needed. Each part has the same parameters as the function and ends in a jump to the next
 * part, so no part saves the registers of parameters. Other values pass between the parts in the
 * thread's TLS.
 *
 * in_launch and the gate form Dekker's algorithm. The thread stores in_launch and then loads the
 * gate, with only a compiler barrier between them. The daemon stores the gate, makes each CPU that
 * runs this process pass a barrier (membarrier), and then loads in_launch.
 */
#ifndef HOOK_GATE_H
#define HOOK_GATE_H

#include "hook/hook.h"

/*
 * Finds a stream's record for the fast path. hook_no_stream sends the caller to the slow path. Only
 * the handle's own place in the map and the next place are searched: the map is at most a quarter
 * full, so few handles are elsewhere. The map has one more entry after its last place, which stays
 * empty.
 */
static inline __attribute__((always_inline)) struct stream *gate_stream(uintptr_t handle)
{
	const struct stream_map *m = atomic_load_explicit(&hook_streams, memory_order_acquire);
	const struct stream_map_entry *e = &m->entry[stream_hash(handle) & m->mask];

	if (atomic_load_explicit(&e->handle, memory_order_acquire) != handle)
		e++;
	if (unlikely(atomic_load_explicit(&e->handle, memory_order_acquire) != handle ||
		    handle <= STREAM_PER_THREAD))
		return &hook_no_stream;
	return atomic_load_explicit(&e->stream, memory_order_relaxed);
}

/*
 * Returns false if the caller must take the slow path. True: in_launch is set, and t->last is the
 * stream.
 */
static inline __attribute__((always_inline)) bool gate_try(struct thread *t, uintptr_t handle)
{
	struct device *d = t->device;
	struct stream *s = t->last;

	if (atomic_load_explicit(&s->handle, memory_order_relaxed) != handle) {
		s = gate_stream(handle);
		t->last = s;
	}
	if (unlikely(atomic_load_explicit(&s->device, memory_order_relaxed) != d))
		return false;
	atomic_store_explicit(&t->line->in_launch, 1, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst); /* pairs with the daemon's membarrier */
	return likely(atomic_load_explicit(t->gate, memory_order_relaxed) == GATE_OPEN &&
		!atomic_load_explicit(&d->special, memory_order_relaxed));
}

/* Called after the driver's function. Returns true if a marker is due. */
static inline __attribute__((always_inline)) bool gate_done(struct thread *t)
{
	struct page_line *line = t->line;
	struct stream *s = t->last;

	/*
	 * Loads before it stores, so that threads that share a stream do not pass its cache line
	 * back and forth.
	 */
	if (unlikely(!atomic_load_explicit(&s->dirty, memory_order_relaxed)))
		atomic_store_explicit(&s->dirty, 1, memory_order_relaxed);
	/*
	 * Release, pairs with the acquire load in marker_submitted(): a thread that counts this
	 * submission also sees the stream's dirty flag.
	 */
	atomic_store_explicit(&line->submitted,
		atomic_load_explicit(&line->submitted, memory_order_relaxed) + 1,
		memory_order_release);
	atomic_store_explicit(&line->in_launch, 0, memory_order_release);
	return unlikely(--t->countdown == 0);
}

/*
 * The code after the check of the gate. rests: the function has waited for the device when it
 * returns. handle: an expression of the parameters, made by stream_handle(). key: the kind of
 * submission (estimate.h).
 */
#define GATED_PARTS(name, rests, handle, key, params, args) \
	static NOINLINE USED CUresult slow_##name params \
	{ \
		struct pass pass; \
		CUresult r; \
\
		if (!gate_enter(&pass, handle, (key))) \
			return CUDA_ERROR_DEVICE_UNAVAILABLE; \
		r = REAL(name) args; \
		gate_leave(&pass); \
		return (rests) ? gate_copied(r) : r; \
	} \
	static NOINLINE USED CUresult go_##name params \
	{ \
		CUresult r = REAL(name) args; \
\
		if (gate_done(&hook_thread)) \
			r = gate_due(r); \
		return (rests) ? gate_copied(r) : r; \
	}

/* `scope` is EXPORT or static. */
#define GATED_CHECK(scope, function, name, handle, params, args) \
	scope CUresult function params \
	{ \
		if (unlikely(!gate_try(&hook_thread, handle))) \
			return slow_##name args; \
		return go_##name args; \
	}

/*
 * The gate's check in assembly, for functions with arguments on the stack. In C, the compiler would
 * copy these arguments to registers and back. Three registers are free (rax, r10, r11). The stream
 * is the 9th parameter, so it is at 24(%rsp). Numbers are offsets in struct thread, stream, device
 * and stream_map (gated.c asserts them).
 */
#if defined(__x86_64__)
/* clang-format off */
#define GATED_CHECK_STACK(name, own_stream)                                                        \
	__asm__(                                                                                   \
		".pushsection .text\n.balign 32\n"                                                 \
		".globl " #name "\n.type " #name ",@function\n"                                    \
		#name ":\n"                                                                        \
		"	movq hook_thread@gottpoff(%rip), %rax\n"                                  \
		"	movq 24(%rsp), %r11\n"                                                    \
		own_stream                                                                         \
		"	movq %fs:0(%rax), %r10\n"	/* last */                                 \
		"	cmpq %r11, 0(%r10)\n	jne 3f\n"	/* .handle */                      \
		"1:	movq %fs:8(%rax), %r11\n"	/* device */                               \
		"	cmpq %r11, 8(%r10)\n	jne 2f\n"	/* .device */                      \
		"	movq %fs:16(%rax), %r10\n"	/* line */                                 \
		"	movl $1, 0(%r10)\n"		/* .in_launch */                           \
		"	movq %fs:24(%rax), %r10\n"	/* gate */                                 \
		"	cmpl $1, (%r10)\n	jne 2f\n"	/* GATE_OPEN */                    \
		"	cmpl $0, 16(%r11)\n	jne 2f\n"	/* .special */                     \
		"	jmp go_" #name "\n"                                                       \
		"2:	jmp slow_" #name "\n"                                                     \
		"3:	cmpq $2, %r11\n	jbe 2b\n"                                         \
		"	movabsq $0x9e3779b97f4a7c15, %r10\n"                                      \
		"	imulq %r11, %r10\n	shrq $40, %r10\n"                                 \
		"	movq hook_streams(%rip), %rax\n"                                          \
		"	andq (%rax), %r10\n	shlq $4, %r10\n"                                  \
		"	leaq 16(%rax,%r10), %r10\n"                                               \
		"	cmpq %r11, (%r10)\n	je 5f\n"                                          \
		"	addq $16, %r10\n"		/* next place */                           \
		"	cmpq %r11, (%r10)\n	jne 2b\n"                                         \
		"5:	movq 8(%r10), %r10\n"                                                     \
		"	movq hook_thread@gottpoff(%rip), %rax\n"                                  \
		"	movq %r10, %fs:0(%rax)\n"                                                 \
		"	jmp 1b\n"                                                                 \
		".size " #name ",.-" #name "\n"                                                    \
		".popsection\n");
#define GATED_STACK_NONE(name) GATED_CHECK_STACK(name, "")
#define GATED_STACK_PTSZ(name)                                                                     \
	GATED_CHECK_STACK(name, "	testq %r11, %r11\n	jne 4f\n	movl $2, %r11d\n4:\n")
/* clang-format on */
#endif

#endif
