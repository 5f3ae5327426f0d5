/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Grids use the memory that each cooperative launch has, and whose address the registers envreg1
 * and envreg2 hold, at byte 16. The blocks' first threads add up to 2^31, which changes the topmost
 * bit and keeps all other bits, so the word is ready for the next round.
 */
#include "simgpu/cu-devrt.h"

static const char grid_text[] =
	"\n.visible .func (.param .b64 handle_result) cudaCGGetIntrinsicHandle(.param .b32 handle_scope)\n"
	"{\n"
	"	.reg .pred %p; .reg .b32 %r<4>; .reg .b64 %d;\n"
	"	ld.param.u32 %r1, [handle_scope];\n"
	"	mov.b32 %r2, %envreg2;\n"
	"	mov.b32 %r3, %envreg1;\n"
	"	mov.b64 %d, {%r2, %r3};\n"
	"	setp.ne.u32 %p, %r1, 1;\n" /* cudaCGScopeGrid */
	"	@%p mov.u64 %d, 0;\n"
	"	st.param.b64 [handle_result], %d;\n"
	"	ret;\n"
	"}\n"
	".visible .func (.param .b32 sync_result) cudaCGSynchronize(.param .b64 sync_handle, "
	".param .b32 sync_flags)\n"
	"{\n"
	"	.reg .pred %p<4>; .reg .b32 %r<12>; .reg .b64 %d;\n"
	"	ld.param.u64 %d, [sync_handle];\n"
	"	mov.u32 %r11, 801;\n" /* cudaErrorNotSupported: no cooperative launch */
	"	setp.eq.u64 %p1, %d, 0;\n"
	"	@%p1 bra sync_done;\n"
	"	mov.u32 %r11, 0;\n"
	"	barrier.sync 0;\n"
	"	mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %tid.z;\n"
	"	or.b32 %r1, %r1, %r2; or.b32 %r1, %r1, %r3;\n"
	"	setp.ne.u32 %p2, %r1, 0;\n"
	"	@%p2 bra sync_others;\n"
	"	mov.u32 %r4, %nctaid.x; mov.u32 %r5, %nctaid.y; mov.u32 %r6, %nctaid.z;\n"
	"	mul.lo.u32 %r4, %r4, %r5; mul.lo.u32 %r4, %r4, %r6;\n"
	"	mov.u32 %r5, %ctaid.x; mov.u32 %r6, %ctaid.y; or.b32 %r5, %r5, %r6;\n"
	"	mov.u32 %r6, %ctaid.z; or.b32 %r5, %r5, %r6;\n"
	"	sub.u32 %r7, 0x80000001, %r4;\n" /* 2^31 less one for each other block */
	"	setp.ne.u32 %p3, %r5, 0;\n"
	"	@%p3 mov.u32 %r7, 1;\n"
	"	membar.gl;\n"
	"	atom.add.u32 %r8, [%d+16], %r7;\n"
	"sync_wait:\n"
	"	ld.volatile.u32 %r9, [%d+16];\n"
	"	xor.b32 %r9, %r9, %r8;\n"
	"	and.b32 %r9, %r9, 0x80000000;\n"
	"	setp.eq.u32 %p3, %r9, 0;\n"
	"	@%p3 bra sync_wait;\n"
	"	membar.gl;\n"
	"sync_others:\n"
	"	barrier.sync 0;\n"
	"sync_done:\n"
	"	st.param.b32 [sync_result], %r11;\n"
	"	ret;\n"
	"}\n";

const struct cu_devrt cu_devrt[CU_DEVRT_TEXTS] = {
	{{"cudaCGGetIntrinsicHandle", "cudaCGSynchronize"}, grid_text},
};
