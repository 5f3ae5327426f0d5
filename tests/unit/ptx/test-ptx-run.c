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

/* Runs the first kernel of a text with one parameter, the test's memory. */
static struct ptx_result run_text(const char *text, uint32_t grid, uint32_t block)
{
	struct ptx *ptx = machine_load(text);
	uint64_t base = (uintptr_t)machine.memory;
	struct ptx_result r = machine_run(ptx, grid, block, 0, &base, 8);

	ptx_free(ptx);
	return r;
}

/* Begins a kernel with %m the memory, %t the thread and %q the thread's own 4 bytes. */
#define KERNEL \
	".visible .entry k(.param .u64 m) {\n" \
	".reg .b64 %m, %q, %x<16>; .reg .b32 %t, %r<32>; .reg .pred %p<8>; .reg .f32 %f<16>;\n" \
	"ld.param.u64 %m, [m]; mov.u32 %t, %tid.x; mul.wide.u32 %q, %t, 4; add.u64 %q, %m, %q;\n"

static uint32_t *words(void)
{
	return (uint32_t *)machine.memory;
}

static void test_lanes_part_and_meet(void **state)
{
	/* Each lane loops as often as its number says, then the warp votes. */
	static const char text[] = HEAD KERNEL
		"mov.u32 %r1, 0; mov.u32 %r2, 0;\n"
		"L: setp.ge.u32 %p1, %r1, %t; @%p1 bra E;\n"
		"and.b32 %r3, %r1, 1; setp.eq.u32 %p2, %r3, 0; @%p2 bra A;\n"
		"add.u32 %r2, %r2, 100; bra B;\n"
		"A: add.u32 %r2, %r2, 1;\n"
		"B: add.u32 %r1, %r1, 1; bra L;\n"
		"E: vote.sync.ballot.b32 %r4, 1, 0xffffffff; popc.b32 %r4, %r4;\n"
		"mad.lo.u32 %r2, %r4, 10000, %r2; st.global.u32 [%q], %r2; ret; }\n";

	machine_init();
	assert_int_equal(run_text(text, 1, 32).fault, PTX_OK);
	for (uint32_t i = 0; i < 32; i++)
		assert_int_equal(words()[i], 320000 + (i + 1) / 2 + i / 2 * 100);
}

static void test_a_lock_inside_a_warp_makes_progress(void **state)
{
	static const char text[] = HEAD KERNEL
		"L: atom.global.cas.b32 %r1, [%m], 0, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra L;\n"
		"ld.volatile.global.u32 %r2, [%m+4]; add.u32 %r2, %r2, 1;\n"
		"st.volatile.global.u32 [%m+4], %r2; membar.gl;\n"
		"atom.global.exch.b32 %r3, [%m], 0; ret; }\n";

	machine_init();
	assert_int_equal(run_text(text, 3, 96).fault, PTX_OK);
	assert_int_equal(words()[1], 3 * 96);
}

static void test_blocks_that_wait_for_later_ones_end(void **state)
{
	static const char text[] = HEAD KERNEL
		"mov.u32 %r1, %ctaid.x; mov.u32 %r4, %nctaid.x; atom.global.add.u32 %r2, [%m], 1;\n"
		"L: ld.volatile.global.u32 %r3, [%m]; setp.lt.u32 %p1, %r3, %r4; @%p1 bra L; ret; }\n";

	machine_init();
	assert_int_equal(run_text(text, 8, 1).fault, PTX_OK);
	assert_int_equal(words()[0], 8);
}

static void test_barriers_join_some_or_all_threads(void **state)
{
	/* Warp 0 gives work to warp 1 by barriers of 64 threads; warp 2 has ended before. */
	static const char text[] = HEAD
		".shared .align 4 .u32 box;\n" KERNEL "setp.ge.u32 %p1, %t, 64; @%p1 exit;\n"
		"setp.ge.u32 %p2, %t, 32; @%p2 bra C;\n"
		"st.shared.u32 [box], 77; barrier.sync 1, 64; bra D;\n"
		"C: barrier.sync 1, 64;\n"
		"D: ld.shared.u32 %r1, [box]; bar.sync 0;\n"
		"setp.lt.u32 %p3, %t, 10; bar.red.popc.u32 %r2, 0, %p3; add.u32 %r1, %r1, %r2;\n"
		"st.global.u32 [%q], %r1; ret; }\n";

	machine_init();
	assert_int_equal(run_text(text, 1, 96).fault, PTX_OK);
	for (uint32_t i = 0; i < 64; i++)
		assert_int_equal(words()[i], 87);
	assert_int_equal(words()[64], 0);
}

static void test_barriers_have_numbers_and_counts(void **state)
{
	/*
	 * Warps 1 to 3 give a number to warp 0, each at a barrier of its own, whose number is in a
	 * register. Warp 0 waits for 64 threads at each, and the others do not wait.
	 */
	static const char text[] = HEAD
		".shared .align 4 .b32 box[4];\n" KERNEL
		"shr.u32 %r1, %t, 5; add.u32 %r2, %r1, 12;\n"
		"shl.b32 %r3, %r1, 2; mov.u32 %r4, box; add.u32 %r4, %r4, %r3;\n"
		"setp.eq.u32 %p1, %r1, 0; @%p1 bra W;\n"
		"st.shared.u32 [%r4], %r2; bar.arrive %r2, 64; st.global.u32 [%q], 1; ret;\n"
		"W: mov.u32 %r2, 13; mov.u32 %r5, 0;\n"
		"L: bar.sync %r2, 64; add.u32 %r4, %r4, 4; ld.shared.u32 %r6, [%r4];\n"
		"add.u32 %r5, %r5, %r6; add.u32 %r2, %r2, 1; setp.le.u32 %p1, %r2, 15; @%p1 bra L;\n"
		"st.global.u32 [%q], %r5; ret; }\n";
	/* reductions of two groups at once */
	static const char groups[] = HEAD KERNEL
		"shr.u32 %r1, %t, 6; add.u32 %r1, %r1, 3; and.b32 %r2, %t, 1; setp.ne.u32 %p1, %r2, 0;\n"
		"barrier.red.popc.u32 %r3, %r1, 64, %p1; setp.ge.u32 %p1, %t, 64;\n"
		"barrier.red.and.pred %p2, %r1, 64, %p1; selp.u32 %r4, 1000, 0, %p2;\n"
		"add.u32 %r3, %r3, %r4; st.global.u32 [%q], %r3; ret; }\n";
	static const char beyond[] = HEAD KERNEL "mov.u32 %r1, 16; bar.sync %r1; ret; }\n";

	machine_init();
	assert_int_equal(run_text(text, 1, 128).fault, PTX_OK);
	for (uint32_t i = 0; i < 128; i++)
		assert_int_equal(words()[i], i < 32 ? 13 + 14 + 15 : 1);
	machine_init();
	assert_int_equal(run_text(groups, 1, 128).fault, PTX_OK);
	for (uint32_t i = 0; i < 128; i++)
		assert_int_equal(words()[i], i < 64 ? 32 : 1032);
	machine_init();
	assert_int_equal(run_text(beyond, 1, 32).fault, PTX_ILLEGAL_INSTRUCTION);
}

static void test_a_stack_grows_and_shrinks_in_loops(void **state)
{
	/*
	 * Each lane takes and returns 1 KiB as often as its number says and calls a function in
	 * between: in all, much more than the stack has.
	 */
	static const char text[] = HEAD
		".func (.param .b32 r) sum(.param .b64 p) { .reg .b64 %a; .reg .b32 %r<3>;\n"
		".local .b32 own; st.local.u32 [own], 5;\n"
		"ld.param.u64 %a, [p]; ld.u32 %r1, [%a]; ld.local.u32 %r2, [own];\n"
		"add.u32 %r1, %r1, %r2; st.param.b32 [r], %r1; ret; }\n" KERNEL
		".reg .b64 %s; mov.u32 %r1, 0; mov.u32 %r2, 0; mul.lo.u32 %r3, %t, 40;\n"
		"L: setp.ge.u32 %p1, %r1, %r3; @%p1 bra E; stacksave.u64 %s; alloca.u64 %x1, 1024, 64;\n"
		"st.local.u32 [%x1], %t; st.local.u32 [%x1+1020], %r1; cvta.local.u64 %x2, %x1;\n"
		"{ .param .b64 p; .param .b32 r; st.param.b64 [p], %x2; call (r), sum, (p);\n"
		"ld.param.b32 %r4, [r]; } add.u32 %r2, %r2, %r4; ld.local.u32 %r4, [%x1+1020];\n"
		"setp.ne.u32 %p1, %r4, %r1; @%p1 trap; and.b64 %x2, %x1, 63;\n"
		"setp.ne.u64 %p1, %x2, 0; @%p1 trap;\n"
		"stackrestore.u64 %s; add.u32 %r1, %r1, 1; bra L;\n"
		"E: st.global.u32 [%q], %r2; ret; }\n";
	static const char endless[] = HEAD KERNEL
		"L: alloca.u64 %x1, 1024; st.local.u32 [%x1], 1; bra L; ret; }\n";

	machine_init();
	assert_int_equal(run_text(text, 1, 32).fault, PTX_OK);
	for (uint32_t i = 0; i < 32; i++)
		assert_int_equal(words()[i], i * 40 * (i + 5));
	machine_init();
	assert_int_equal(run_text(endless, 1, 32).fault, PTX_STACK_ERROR);
}

static void test_functions_recurse_and_return(void **state)
{
	static const char text[] = HEAD
		".visible .func (.param .b32 out) fib(.param .b32 in) {\n"
		".reg .b32 %r<9>; .reg .pred %p;\n"
		"ld.param.u32 %r1, [in]; setp.lt.u32 %p, %r1, 2; @%p bra L;\n"
		"sub.u32 %r2, %r1, 1; { .param .b32 a; .param .b32 b; st.param.b32 [a], %r2;\n"
		"call.uni (b), fib, (a); ld.param.b32 %r3, [b]; }\n"
		"sub.u32 %r2, %r1, 2; { .param .b32 a; .param .b32 b; st.param.b32 [a], %r2;\n"
		"call.uni (b), fib, (a); ld.param.b32 %r4, [b]; }\n"
		"add.u32 %r1, %r3, %r4;\n"
		"L: st.param.b32 [out], %r1; ret; }\n" KERNEL
		"{ .param .b32 a; .param .b32 b; st.param.b32 [a], %t;\n"
		"mov.u64 %x1, fib; P: .callprototype (.param .b32 _) _ (.param .b32 _);\n"
		"call (b), %x1, (a), P; ld.param.b32 %r1, [b]; }\n"
		"st.global.u32 [%q], %r1; ret; }\n";
	uint32_t fib[14] = {0, 1};

	machine_init();
	assert_int_equal(run_text(text, 1, 14).fault, PTX_OK);
	for (int i = 2; i < 14; i++)
		fib[i] = fib[i - 1] + fib[i - 2];
	for (int i = 0; i < 14; i++)
		assert_int_equal(words()[i], fib[i]);
}

static void test_lanes_exchange_values(void **state)
{
	static const char text[] = HEAD KERNEL
		"shfl.sync.up.b32 %r1|%p1, %t, 3, 0, 0xffffffff; selp.b32 %r2, 1000, 0, %p1;\n"
		"add.u32 %r1, %r1, %r2; shfl.sync.bfly.b32 %r3, %r1, 1, 0x1f, -1;\n"
		"redux.sync.max.u32 %r4, %t, -1; add.u32 %r3, %r3, %r4;\n"
		"shr.u32 %r5, %t, 2; match.any.sync.b32 %r6, %r5, -1; popc.b32 %r6, %r6;\n"
		"mad.lo.u32 %r3, %r6, 10000, %r3; st.global.u32 [%q], %r3; ret; }\n";

	machine_init();
	assert_int_equal(run_text(text, 1, 32).fault, PTX_OK);
	for (uint32_t i = 0; i < 32; i++) {
		uint32_t k = i ^ 1;

		assert_int_equal(words()[i], (k < 3 ? k : k - 3 + 1000) + 31 + 40000);
	}
}

static void test_an_mbarrier_counts_arrivals(void **state)
{
	static const char text[] = HEAD
		".shared .align 8 .b64 bar;\n.shared .u32 sum;\n" KERNEL
		"setp.ne.u32 %p1, %t, 0; @%p1 bra A; mbarrier.init.shared.b64 [bar], 96;\n"
		"st.shared.u32 [sum], 0;\n"
		"A: bar.sync 0; atom.shared.add.u32 %r1, [sum], 1;\n"
		"mbarrier.arrive.shared.b64 %x1, [bar];\n"
		"W: mbarrier.try_wait.shared.b64 %p2, [bar], %x1; @!%p2 bra W;\n"
		"ld.shared.u32 %r2, [sum]; st.global.u32 [%q], %r2; ret; }\n";

	machine_init();
	assert_int_equal(run_text(text, 1, 96).fault, PTX_OK);
	for (uint32_t i = 0; i < 96; i++)
		assert_int_equal(words()[i], 96);
}

static void test_bulk_copies_complete_their_barrier(void **state)
{
	/*
	 * One thread copies 8 KiB into shared memory, and all wait for it. Each thread adds its
	 * number to its words, and one thread copies them back, behind the input.
	 */
	static const char text[] = HEAD
		".shared .align 8 .b64 bar;\n.shared .align 128 .b32 box[2048];\n" KERNEL
		"setp.ne.u32 %p1, %t, 0; @%p1 bra A; mbarrier.init.shared::cta.b64 [bar], 1;\n"
		"fence.mbarrier_init.release.cluster;\n"
		"mov.u32 %r1, 8192; mbarrier.arrive.expect_tx.shared::cta.b64 %x1, [bar], %r1;\n"
		"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [box], [%m], %r1, "
		"[bar];\n"
		"A: bar.sync 0; mov.u32 %r2, 0;\n"
		"W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], %r2; @!%p2 bra W;\n"
		"shl.b32 %r3, %t, 2; mov.u32 %r4, box; add.u32 %r3, %r3, %r4; mov.u32 %r5, 0;\n"
		"L: ld.shared.u32 %r6, [%r3]; add.u32 %r6, %r6, %t; st.shared.u32 [%r3], %r6;\n"
		"add.u32 %r3, %r3, 512; add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 16; @%p2 bra L;\n"
		"fence.proxy.async.shared::cta; bar.sync 0; @%p1 bra E;\n"
		"cp.async.bulk.global.shared::cta.bulk_group [%m+8192], [box], 8192;\n"
		"cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0; E: ret; }\n";
	static const char odd[] = HEAD
		".shared .align 16 .b8 box[64];\n" KERNEL
		"mov.u32 %r1, 24; cp.async.bulk.global.shared::cta.bulk_group [%m], [box], %r1; ret; }\n";
	static const char far[] = HEAD
		".shared .align 16 .b8 box[65536];\n" KERNEL
		"cp.async.bulk.global.shared::cta.bulk_group [%m], [box+65520], 65536; ret; }\n";
	static const char most[] = HEAD
		".shared .align 16 .b8 box[262144];\n" KERNEL
		"cp.async.bulk.global.shared::cta.bulk_group [%m], [box], 232448; ret; }\n";
	static const char more[] = HEAD
		".shared .align 16 .b8 box[262144];\n" KERNEL
		"cp.async.bulk.global.shared::cta.bulk_group [%m], [box], 232464; ret; }\n";

	machine_init();
	for (uint32_t i = 0; i < 2048; i++)
		((uint32_t *)machine.memory)[i] = 1000 * i;
	assert_int_equal(run_text(text, 1, 128).fault, PTX_OK);
	for (uint32_t i = 0; i < 2048; i++)
		assert_int_equal(words()[2048 + i], 1000 * i + i % 128);
	machine_init();
	assert_int_equal(run_text(odd, 1, 1).fault, PTX_MISALIGNED_ADDRESS);
	machine_init();
	assert_int_equal(run_text(far, 1, 1).fault, PTX_ILLEGAL_ADDRESS);
	machine_init();
	assert_int_equal(run_text(most, 1, 1).fault, PTX_OK);
	assert_int_equal(run_text(more, 1, 1).fault, PTX_ILLEGAL_ADDRESS);
}

static void test_a_cluster_has_one_block(void **state)
{
	static const char text[] = HEAD
		".shared .align 4 .b32 box;\n" KERNEL
		"mov.u32 %r1, box; mapa.shared::cluster.u32 %r2, %r1, 0; st.shared::cluster.u32 [%r2], 7;\n"
		"barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n"
		"getctarank.shared::cluster.u32 %r3, %r2; mov.u32 %r4, %cluster_nctarank;\n"
		"createpolicy.fractional.L2::evict_last.b64 %x1, 1.0;\n"
		"ld.shared.u32 %r5, [box]; add.u32 %r5, %r5, %r3; add.u32 %r5, %r5, %r4;\n"
		"st.global.L2::cache_hint.u32 [%q], %r5, %x1; ret; }\n";
	static const char two[] = HEAD
		".visible .entry k()\n.explicitcluster\n.reqnctapercluster 2, 1, 1\n{ ret; }\n";
	struct error err = {0};
	struct ptx *ptx = NULL;

	machine_init();
	assert_int_equal(run_text(text, 2, 32).fault, PTX_OK);
	assert_int_equal(words()[31], 8);
	assert_int_equal(ptx_load(str_from(two), NULL, &ptx, &err), -ENOTSUP);
	assert_true(strstr(err.msg, "line 6") && strstr(err.msg, "reqnctapercluster"));
}

static void test_half_matrices_are_multiplied(void **state)
{
	/* 16x8x16: registers hold what the ISA's figures show. A[i][k] = i + k, B[k][j] = k - j. */
	char text[8192];
	size_t n = 0;

#define ADD(...) n += (size_t)snprintf(text + n, sizeof(text) - n, __VA_ARGS__)
	ADD("%s", HEAD KERNEL);
	ADD(".reg .b16 %%h<4>; .reg .b32 %%a<4>, %%b<2>, %%g, %%c; .reg .f32 %%d<4>;\n"
	    "shr.u32 %%g, %%t, 2; and.b32 %%c, %%t, 3; shl.b32 %%c, %%c, 1;\n");
	for (int r = 0; r < 4; r++) {
		/* row g (+8 for registers 1, 3), columns c, c+1 (+8 for registers 2, 3) */
		ADD("add.u32 %%r1, %%g, %%c; add.u32 %%r1, %%r1, %d; cvt.rn.f16.u32 %%h0, %%r1;\n"
		    "add.u32 %%r1, %%r1, 1; cvt.rn.f16.u32 %%h1, %%r1; mov.b32 %%a%d, {%%h0, %%h1};\n",
			(r & 1 ? 8 : 0) + (r & 2 ? 8 : 0), r);
	}
	for (int r = 0; r < 2; r++)
		ADD("sub.s32 %%r1, %%c, %%g; add.s32 %%r1, %%r1, %d; cvt.rn.f16.s32 %%h0, %%r1;\n"
		    "add.s32 %%r1, %%r1, 1; cvt.rn.f16.s32 %%h1, %%r1; mov.b32 %%b%d, {%%h0, %%h1};\n",
			8 * r, r);
	ADD("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%%d0,%%d1,%%d2,%%d3}, "
	    "{%%a0,%%a1,%%a2,%%a3}, {%%b0,%%b1}, {0f3F800000,0f3F800000,0f3F800000,0f3F800000};\n"
	    "mul.wide.u32 %%x1, %%t, 16; add.u64 %%x1, %%m, %%x1;\n"
	    "st.global.v4.f32 [%%x1], {%%d0,%%d1,%%d2,%%d3}; ret; }\n");
#undef ADD
	machine_init();
	assert_int_equal(run_text(text, 1, 32).fault, PTX_OK);
	for (int lane = 0; lane < 32; lane++)
		for (int e = 0; e < 4; e++) {
			int i = lane / 4 + (e >= 2 ? 8 : 0), j = lane % 4 * 2 + e % 2, sum = 1;

			for (int k = 0; k < 16; k++)
				sum += (i + k) * (k - j);
			if (((float *)machine.memory)[4 * lane + e] != (float)sum)
				fail_msg("row %d, column %d: %g, expected %d", i, j,
					(double)((float *)machine.memory)[4 * lane + e], sum);
		}
}

static void test_wmma_loads_multiplies_and_stores(void **state)
{
	static const char text[] = HEAD KERNEL
		".reg .b32 %a<8>, %b<8>; .reg .f32 %c<8>, %d<8>; .reg .b64 %s;\n"
		"add.u64 %x1, %m, 512; add.u64 %x2, %m, 1024;\n"
		"wmma.load.a.sync.aligned.row.m16n16k16.global.f16 "
		"{%a0,%a1,%a2,%a3,%a4,%a5,%a6,%a7}, [%m], 16;\n"
		"wmma.load.b.sync.aligned.col.m16n16k16.global.f16 "
		"{%b0,%b1,%b2,%b3,%b4,%b5,%b6,%b7}, [%x1], 16;\n"
		"mov.f32 %c0, 0f00000000; mov.f32 %c1, %c0; mov.f32 %c2, %c0; mov.f32 %c3, %c0;\n"
		"mov.f32 %c4, %c0; mov.f32 %c5, %c0; mov.f32 %c6, %c0; mov.f32 %c7, %c0;\n"
		"wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 "
		"{%d0,%d1,%d2,%d3,%d4,%d5,%d6,%d7}, {%a0,%a1,%a2,%a3,%a4,%a5,%a6,%a7}, "
		"{%b0,%b1,%b2,%b3,%b4,%b5,%b6,%b7}, {%c0,%c1,%c2,%c3,%c4,%c5,%c6,%c7};\n"
		"wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%x2], "
		"{%d0,%d1,%d2,%d3,%d4,%d5,%d6,%d7}, 16; ret; }\n";
	/* f16 of 0, 1, 2, 3 */
	static const uint16_t half[4] = {0, 0x3c00, 0x4000, 0x4200};
	uint16_t *a = (uint16_t *)machine.memory, *b = a + 256;
	const float *d = (const float *)(machine.memory + 1024);

	machine_init();
	for (int i = 0; i < 256; i++) {
		a[i] = half[i * 7 % 4];
		b[i] = half[i * 5 / 3 % 4];
	}
	assert_int_equal(run_text(text, 1, 32).fault, PTX_OK);
	for (int i = 0; i < 16; i++)
		for (int j = 0; j < 16; j++) {
			int sum = 0;

			for (int k = 0; k < 16; k++) /* b is stored column by column */
				sum += (16 * i + k) * 7 % 4 * ((16 * j + k) * 5 / 3 % 4);
			assert_true(d[16 * i + j] == (float)sum);
		}
}

static void test_a_load_may_drop_its_value(void **state)
{
	static const char text[] = HEAD KERNEL
		"ld.global.u32 _, [%q]; ld.global.v2.u32 {_, %r1}, [%m];\n"
		"st.global.u32 [%q], %r1; ret; }\n";

	machine_init();
	words()[1] = 7;
	assert_int_equal(run_text(text, 1, 32).fault, PTX_OK);
	assert_int_equal(words()[31], 7);
}

static void test_registers_begin_with_zeros(void **state)
{
	static const char text[] = HEAD
		".func (.reg .b64 r) f(.reg .b64 a) { .reg .b64 %z<600>; mov.u64 r, %z599; ret; }\n" KERNEL
		".reg .b64 %z<600>;\n"
		"call (%x1), f, (%m); or.b64 %x1, %x1, %z599; st.global.u64 [%m], %x1; ret; }\n";

	machine_init();
	for (int i = 0; i < 4; i++) {
		/* what others have left on the heap */
		for (size_t n = 1 << 14; n < 1 << 20; n += 1 << 12) {
			uint8_t *old = malloc(n);

			assert_non_null(old);
			memset(old, 0xa5, n);
			__asm__ volatile("" : : "r"(old) : "memory");
			free(old);
		}
		assert_int_equal(run_text(text, 1, 1).fault, PTX_OK);
		assert_int_equal(*(uint64_t *)machine.memory, 0);
	}
}

static uint32_t n_pauses;

static void count_pause(void *user)
{
	n_pauses++;
}

static int host_zeros(void *user, uint64_t address, void *buf, size_t n, bool write)
{
	memset(buf, 0, n);
	return 0;
}

/* Memory of the host: the range says -EFAULT elsewhere. */
static int range_or_host(void *user, uint64_t address, struct ptx_range *ret_range)
{
	return address < 4096 ? -ENXIO : machine_range(user, address, ret_range);
}

static void test_threads_may_stop_soon(void **state)
{
	static const char slow[] = HEAD KERNEL
		"mov.u32 %r2, 0; mov.u64 %x1, 64;\n"
		"L: ld.u32 %r1, [%x1]; add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 100;\n"
		"@%p1 bra L; ret; }\n";
	static const char line[] = "add.u32 %r1, %r1, 1;\n";
	enum { LINES = 100000 };
	char *text = malloc(sizeof(HEAD KERNEL) + LINES * (sizeof(line) - 1) + 64), *at = text;

	assert_non_null(text);
	at += snprintf(at, sizeof(HEAD KERNEL), "%s", HEAD KERNEL);
	for (int i = 0; i < LINES; i++, at += sizeof(line) - 1)
		memcpy(at, line, sizeof(line));
	memcpy(at, "ret; }", 7);
	machine_init();
	machine.device.pause = count_pause;
	n_pauses = 0;
	assert_int_equal(run_text(text, 1, 32).fault, PTX_OK);
	assert_in_range(n_pauses, 4, 20); /* without a branch */
	free(text);
	machine.device.range = range_or_host;
	machine.device.host = host_zeros;
	n_pauses = 0;
	assert_int_equal(run_text(slow, 1, 32).fault, PTX_OK);
	assert_in_range(n_pauses, 10, 100); /* 3200 system calls */
}

static void test_matrices_are_not_in_host_memory(void **state)
{
	static const char text[] = HEAD KERNEL
		"mov.u64 %x1, 64; ldmatrix.sync.aligned.m8n8.x1.b16 %r1, [%x1];\n"
		"st.global.u32 [%q], 1; ret; }\n";

	machine_init();
	machine.device.range = range_or_host;
	machine.device.host = host_zeros;
	assert_int_equal(run_text(text, 1, 32).fault, PTX_ILLEGAL_ADDRESS);
	assert_int_equal(words()[0], 0);
}

static void test_widths_of_printed_numbers_are_bounded(void **state)
{
	static const char text[] = HEAD
		".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 v);\n" KERNEL
		".param .b64 pf, pv; .param .b32 pr; st.param.b64 [pf], %m;\n"
		"add.u64 %x1, %m, 64; st.param.b64 [pv], %x1;\n"
		"call (pr), vprintf, (pf, pv); ret; }\n";
	static const struct {
		const char *format;
		uint32_t values[2];
		size_t n;
	} cases[] = {
		{"%999999999d", {5}, 999},
		{"%.999999999d", {5}, 999},

		{"%*d", {12, 5}, 12},
		{"%012u", {5}, 12},
		{"%1*2*d", {99, 99}, 1},
		{"%-8d|", {5}, 9},
		{"%.*d", {7, 5}, 7},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		machine_init();
		memcpy(machine.memory, cases[i].format, strlen(cases[i].format));
		memcpy(machine.memory + 64, cases[i].values, sizeof(cases[i].values));
		assert_int_equal(run_text(text, 1, 1).fault, PTX_OK);
		if (machine.n_printed != cases[i].n)
			fail_msg("%s: %zu", cases[i].format, machine.n_printed);
	}
}

static void test_modifiers_change_results(void **state)
{
	static const char text[] = HEAD KERNEL
		"mov.b32 %f1, 0x80000001;\n" /* the least subnormal number */
		"slct.u32.f32 %r1, 1, 2, %f1; slct.ftz.u32.f32 %r2, 1, 2, %f1;\n"
		"mov.b32 %f1, 0x80800000; slct.ftz.u32.f32 %r3, 1, 2, %f1;\n"
		"st.global.v2.u32 [%m], {%r1, %r2}; st.global.u32 [%m+8], %r3;\n"
		"mov.u32 %r1, 7; mov.u32 %r2, -7; cvt.rn.sat.f32.s32 %f1, %r1;\n"
		"cvt.rn.sat.f32.s32 %f2, %r2; st.global.v2.f32 [%m+16], {%f1, %f2}; ret; }\n";
	const float *f = (const float *)(machine.memory + 16);

	machine_init();
	assert_int_equal(run_text(text, 1, 1).fault, PTX_OK);
	assert_int_equal(words()[0], 2);
	assert_int_equal(words()[1], 1);
	assert_int_equal(words()[2], 2);
	assert_true(f[0] == 1 && f[1] == 0);
}

static void test_an_index_counts_elements(void **state)
{
	static const char text[] = HEAD
		".shared .f32 rows[4][3]; .shared .v2 .u32 pairs[4];\n" KERNEL
		".local .align 4 .b8 bytes[16]; .local .align 4 .b32 words[8];\n"
		/* tinygrad's PTX renderer takes the address of its arrays by index 0 */
		"mov.u64 %x1, words[0]; st.local.u32 [%x1+4], 11; mov.u64 %x1, words[5];\n"
		"st.local.u32 [%x1], 12; ld.local.u32 %r1, [words[1]];\n"
		"ld.local.u32 %r2, [words+20]; st.global.v2.u32 [%m], {%r1, %r2};\n"
		"mov.u64 %x1, bytes[4]; mov.u64 %x2, bytes; sub.u64 %x1, %x1, %x2;\n"
		"st.global.u64 [%m+8], %x1;\n"
		"mov.u32 %r1, rows[2]; mov.u32 %r2, rows; sub.u32 %r1, %r1, %r2;\n"
		"mov.u32 %r2, pairs[3]; mov.u32 %r3, pairs; sub.u32 %r2, %r2, %r3;\n"
		"st.global.v2.u32 [%m+16], {%r1, %r2};\n"
		"st.local.u32 words[7], 13; ld.local.u32 %r1, words[7];\n"
		"ld.local.u32 %r2, [words+28]; st.global.v2.u32 [%m+24], {%r1, %r2}; ret; }\n";
	static const uint32_t expected[] = {11, 12, 4, 0, 24, 24, 13, 13};

	machine_init();
	assert_int_equal(run_text(text, 1, 1).fault, PTX_OK);
	assert_memory_equal(words(), expected, sizeof(expected));
}

static void test_labels_belong_to_their_blocks(void **state)
{
	static const char text[] = HEAD KERNEL
		"mov.u32 %r1, 0; { bra A; }\n"
		"add.u32 %r1, %r1, 100;\n"
		"A: { { bra B; } { bra C; } add.u32 %r1, %r1, 1000;\n"
		"B: add.u32 %r1, %r1, 1; bra A; add.u32 %r1, %r1, 10000;\n"
		"A: add.u32 %r1, %r1, 2; bra C; }\n"
		"add.u32 %r1, %r1, 100000;\n"
		"C: st.global.u32 [%q], %r1; ret; }\n";

	machine_init();
	assert_int_equal(run_text(text, 1, 1).fault, PTX_OK);
	assert_int_equal(words()[0], 3);
}

static void test_faults_name_their_line(void **state)
{
	static const char far[] = HEAD KERNEL
		"\nadd.u64 %x1, %m, 0x100000;\nst.global.u32 [%x1], 1; ret; }\n";
	static const char odd[] = HEAD KERNEL "st.global.u32 [%m+2], 1; ret; }\n";
	static const char shared[] = HEAD ".extern .shared .b8 s[];\n" KERNEL
					  "mov.u32 %r1, s; st.shared.u32 [%r1+64], 1; ret; }\n";
	static const char endless[] = HEAD KERNEL "L: bra L; }\n";
	static const char stuck[] = HEAD KERNEL "barrier.sync 1, 64; ret; }\n";
	struct ptx_result r;

	machine_init();
	r = run_text(far, 1, 1);
	assert_int_equal(r.fault, PTX_ILLEGAL_ADDRESS);
	assert_int_equal(r.line, 9);
	assert_int_equal(r.address, (uintptr_t)machine.memory + MACHINE_BYTES);
	assert_int_equal(run_text(odd, 1, 1).fault, PTX_MISALIGNED_ADDRESS);
	assert_int_equal(run_text(shared, 1, 1).fault, PTX_ILLEGAL_ADDRESS);
	machine.device.steps_max = 1000000;
	assert_int_equal(run_text(endless, 2, 64).fault, PTX_TIMEOUT);
	assert_int_equal(run_text(stuck, 1, 32).fault, PTX_TIMEOUT);
}

static void test_what_is_wrong_or_missing_does_not_load(void **state)
{
	static const struct {
		const char *body, *message;
		int code;
	} cases[] = {
		{"tex.2d.v4.f32.f32 {%f1,%f2,%f3,%f4}, [%x1, {%f1,%f2}];", "line 8", -ENOTSUP},
		{"add.s32.foo %r1, %r2, %r3;", "'add.s32.foo'", -ENOTSUP},
		{"add.s32 %r1, %r2;", "operands", -EINVAL},
		{"add.s32 %r1, %r2, %x1;", "%x1", -EINVAL},
		{"add.s32 5, %r2, %r1;", "no register", -EINVAL},
		{"add.s32 %r1, %r2, %nothing;", "%nothing", -EINVAL},
		{"bra Nowhere;", "Nowhere", -EINVAL},
		{"ld.global.u64 %r1, [%m];", "4 bytes", -EINVAL},
		{"call missing;", "missing", -EINVAL},
		{"mov.u32 %r1, 0x;", "0x", -EINVAL},
		{".local .b32 one; mov.u64 %x1, one[0];", "'one' has an index", -EINVAL},
		{".local .b32 a[2]; mov.u64 %x1, a[%r1];", "number expected", -EINVAL},
		{".local .b32 a[2]; ld.local.u32 %r1, a;", "needs an address", -EINVAL},
		/* types of another size than the instruction's registers */
		{".reg .b128 %w<3>; bfi.b128 %w0, %w1, %w2, 1, 2;", "'bfi.b128'", -ENOTSUP},
		{".reg .b128 %w<3>; add.cc.b128 %w0, %w1, %w2;", "'add.cc.b128'", -ENOTSUP},
		{".reg .b128 %w<3>; cvt.u32.b128 %r1, %w1;", "'cvt.u32.b128'", -ENOTSUP},
		{".reg .b128 %w<3>; match.any.sync.b128 %r1, %w1, -1;", "'match", -ENOTSUP},
		{".reg .b128 %w<3>; alloca.b128 %w1, %w1;", "'alloca.b128'", -ENOTSUP},
		{".reg .b8 %b<3>; selp.b8 %b0, %b1, %b2, %p1;", "'selp.b8'", -ENOTSUP},
		{".reg .b8 %b<3>; slct.u32.u8 %r1, %r2, %r3, %b1;", "'slct.u32.u8'", -ENOTSUP},
		{".reg .b8 %b<3>; set.lt.u8.f32 %b0, %f1, %f2;", "'set.lt.u8.f32'", -ENOTSUP},
		{".reg .b8 %b<3>; redux.sync.add.u8 %b0, %b1, -1;", "'redux", -ENOTSUP},
		{".reg .b8 %b<3>; cvta.global.u8 %b0, %b1;", "'cvta.global.u8'", -ENOTSUP},
		{".reg .b16 %h<3>; testp.finite.f16 %p1, %h1;", "'testp", -ENOTSUP},
		{".reg .b16 %h<3>; cvt.rn.u16.f32 %h1, %f1, %f2;", "'cvt.rn", -ENOTSUP},
		/* matrices of fewer elements than a warp has lanes, or more than their registers */
		{"wmma.mma.sync.aligned.row.col.m1n1k1.f32.f32 {}, "
		 "{%r0,%r1,%r2,%r3,%r4,%r5,%r6,%r7}, {%r0,%r1,%r2,%r3,%r4,%r5,%r6,%r7}, {};",
			"'wmma.mma", -ENOTSUP},
		{"wmma.load.a.sync.aligned.row.m32n8k64.global.f16 "
		 "{%r0,%r1,%r2,%r3,%r4,%r5,%r6,%r7}, [%m], 16;",
			"'wmma.load", -ENOTSUP},
		{"selp.pred %p1, %p2, %p3, %p4;", "'selp.pred'", -ENOTSUP},
		{"cvt.pred.u32 _, %r1;", "'cvt.pred.u32'", -ENOTSUP},
		{"st.global.pred [%m], 1;", "'st.global.pred'", -ENOTSUP},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct error err = {0};
		struct ptx *ptx = NULL;
		char text[1024];

		snprintf(text, sizeof(text), "%s%s\n%s\nret; }\n", HEAD, KERNEL, cases[i].body);
		if (ptx_load(str_from(text), NULL, &ptx, &err) != cases[i].code ||
			!strstr(err.msg, cases[i].message))
			fail_msg("%s: %d %s", cases[i].body, err.code, err.msg);
	}
}

static void test_calls_match_their_functions(void **state)
{
	static const struct {
		const char *text, *message;
	} cases[] = {
		/* the function gets more parameters than the call has */
		{".func f(.param .b32 a);\n" KERNEL ".param .b32 v; call f, (v); ret; }\n"
		 ".func f(.param .b32 a, .param .b32 b, .param .b32 c) { ret; }\n",
			"arguments of another function"},
		{".func (.param .b32 r) f(.param .b32 a);\n" KERNEL
		 ".param .b32 u, v; call (u), f, (v); ret; }\n"
		 ".func (.param .b8 r[64]) f(.param .b32 a) { ret; }\n",
			"arguments of another function"},
		/* memory beside the arguments */
		{".func f(.param .b32 a) { ret; }\n" KERNEL
		 ".param .b32 v; call f, (v+1000000); ret; }\n",
			"offset"},
		/* more bytes than a register has */
		{".func f(.reg .b32 a[64]) { ret; }\n" KERNEL
		 ".param .b8 v[256]; call f, (v); ret; }\n",
			"parameter 'a'"},
		{".func f(.reg .pred a) { ret; }\n" KERNEL ".param .b32 v; call f, (v); ret; }\n",
			"parameter 'a'"},
		/* a constant as a result */
		{KERNEL "setp.eq.u32 %p1|1, %r1, %r2; ret; }\n", "no register"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct error err = {0};
		struct ptx *ptx = NULL;
		char text[2048];

		snprintf(text, sizeof(text), "%s%s", HEAD, cases[i].text);
		if (ptx_load(str_from(text), NULL, &ptx, &err) >= 0 ||
			!strstr(err.msg, cases[i].message))
			fail_msg("%s: %d %s", cases[i].text, err.code, err.msg);
	}
}

UNIT_MAIN(UNIT(test_a_kernel_changes_memory), UNIT(test_lanes_part_and_meet),
	UNIT(test_a_lock_inside_a_warp_makes_progress),
	UNIT(test_blocks_that_wait_for_later_ones_end),
	UNIT(test_barriers_join_some_or_all_threads), UNIT(test_barriers_have_numbers_and_counts),
	UNIT(test_a_stack_grows_and_shrinks_in_loops), UNIT(test_functions_recurse_and_return),
	UNIT(test_lanes_exchange_values), UNIT(test_an_mbarrier_counts_arrivals),
	UNIT(test_bulk_copies_complete_their_barrier), UNIT(test_a_cluster_has_one_block),
	UNIT(test_half_matrices_are_multiplied), UNIT(test_wmma_loads_multiplies_and_stores),
	UNIT(test_a_load_may_drop_its_value), UNIT(test_registers_begin_with_zeros),
	UNIT(test_threads_may_stop_soon), UNIT(test_matrices_are_not_in_host_memory),
	UNIT(test_widths_of_printed_numbers_are_bounded), UNIT(test_an_index_counts_elements),
	UNIT(test_labels_belong_to_their_blocks), UNIT(test_modifiers_change_results),
	UNIT(test_faults_name_their_line), UNIT(test_what_is_wrong_or_missing_does_not_load),
	UNIT(test_calls_match_their_functions))
