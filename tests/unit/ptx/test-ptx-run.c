/* SPDX-License-Identifier: Apache-2.0 */
/* Whole kernels: control flow, memory, barriers, calls, and their faults. */
#include "ptx-machine.h"

#define HEAD ".version 8.0\n.target sm_90\n.address_size 64\n"

static const char vector_add[] = HEAD
	".visible .entry add(.param .u64 c, .param .u64 a, .param .u64 b, .param .u32 n)\n"
	"{\n"
	"	.reg .pred %p<2>;\n"
	"	.reg .b32 %r<6>;\n"
	"	.reg .f32 %f<4>;\n"
	"	.reg .b64 %rd<11>;\n"
	"	ld.param.u64 %rd1, [c];\n"
	"	ld.param.u64 %rd2, [a];\n"
	"	ld.param.u64 %rd3, [b];\n"
	"	ld.param.u32 %r2, [n];\n"
	"	mov.u32 %r3, %ctaid.x;\n"
	"	mov.u32 %r4, %ntid.x;\n"
	"	mov.u32 %r5, %tid.x;\n"
	"	mad.lo.s32 %r1, %r3, %r4, %r5;\n"
	"	setp.ge.u32 %p1, %r1, %r2;\n"
	"	@%p1 bra $L__BB0_2;\n"
	"	cvta.to.global.u64 %rd4, %rd2;\n"
	"	mul.wide.u32 %rd5, %r1, 4;\n"
	"	add.s64 %rd6, %rd4, %rd5;\n"
	"	add.s64 %rd8, %rd3, %rd5;\n"
	"	ld.global.f32 %f1, [%rd8];\n"
	"	ld.global.f32 %f2, [%rd6];\n"
	"	add.f32 %f3, %f2, %f1;\n"
	"	add.s64 %rd10, %rd1, %rd5;\n"
	"	st.global.f32 [%rd10], %f3;\n"
	"$L__BB0_2:\n"
	"	ret;\n"
	"}\n";

static void test_a_kernel_changes_memory(void **state)
{
	enum { N = 1000 };
	struct ptx *ptx = machine_load(vector_add);
	float *a = (float *)machine.memory, *b = a + N, *c = b + N;
	struct {
		uint64_t c, a, b;
		uint32_t n;
	} params = {(uintptr_t)c, (uintptr_t)a, (uintptr_t)b, N};
	struct ptx_result r;

	machine_init();
	for (int i = 0; i < N; i++) {
		a[i] = (float)i;
		b[i] = (float)(2 * i);
	}
	c[N] = -1;
	r = machine_run(ptx, 8, 128, 0, &params, 28);
	assert_int_equal(r.fault, PTX_OK);
	for (int i = 0; i < N; i++)
		if (c[i] != (float)(3 * i))
			fail_msg("element %d is %g", i, (double)c[i]);
	assert_true(c[N] == -1);
	ptx_free(ptx);
}

UNIT_MAIN(UNIT(test_a_kernel_changes_memory))
