/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ptx.*: the executor of PTX alone, in one thread: how fast it loads a module, how many
 * instructions of lanes it executes, and how long common kernels take. The kernels are written as
 * compilers write them, with guards, loops and shared memory. Times are processor time of this
 * process. Where PoCL is installed, the same kernels run on it in OpenCL, with one processor, and
 * the results are compared.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "bench/bench.h"
#include "bench/opencl.h"
#include "ptx/ptx.h"

/* ARRAY: bytes of each of three arrays */
enum { MEMORY = 64 << 20, ARRAY = 16 << 20, USED = 4 << 20, ROUNDS = 5, MODULE_BYTES = 1 << 20 };

#define HEAD ".version 8.0\n.target sm_80\n.address_size 64\n"
#define KERNEL(name) \
	".visible .entry " name \
	"(.param .u64 pc, .param .u64 pa, .param .u64 pb, .param .u32 pn) {\n" \
	".reg .pred %p<4>; .reg .b32 %r<40>; .reg .f32 %f<40>; .reg .b64 %rd<20>;\n" \
	"ld.param.u64 %rd1, [pc]; ld.param.u64 %rd2, [pa]; ld.param.u64 %rd3, [pb];\n" \
	"ld.param.u32 %r1, [pn]; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;\n" \
	"mad.lo.s32 %r5, %r2, %r3, %r4;\n"

static const char kernels[] = HEAD ".shared .align 4 .b8 tile[2048];\n"
	/* 64 dependent instructions in a loop of 256 rounds */
	KERNEL("steps") "mov.u32 %r6, 0; cvt.rn.f32.u32 %f1, %r5;\n"
			"L1: fma.rn.f32 %f2, %f1, %f1, %f1; add.f32 %f3, %f2, %f1; mul.f32 %f1, %f3, 0f3F000000;\n"
			"xor.b32 %r7, %r6, %r5; shl.b32 %r8, %r7, 3; add.s32 %r9, %r8, %r6;\n"
			"and.b32 %r10, %r9, %r7; max.s32 %r11, %r10, %r8; selp.b32 %r12, %r11, %r9, %p1;\n"
			"mad.lo.s32 %r13, %r12, %r5, %r9; min.u32 %r5, %r13, %r11;\n"
			"add.u32 %r6, %r6, 1; setp.lt.u32 %p1, %r6, 4096; @%p1 bra L1;\n"
			"mul.wide.u32 %rd4, %r4, 4; add.s64 %rd5, %rd1, %rd4; st.global.f32 [%rd5], %f1; ret; }\n" KERNEL(
				"add") "setp.ge.u32 %p1, %r5, %r1; @%p1 bra E2;\n"
				       "mul.wide.u32 %rd4, %r5, 4; add.s64 %rd5, %rd2, %rd4; add.s64 %rd6, %rd3, %rd4;\n"
				       "ld.global.f32 %f1, [%rd5]; ld.global.f32 %f2, [%rd6]; add.f32 %f3, %f1, %f2;\n"
				       "add.s64 %rd7, %rd1, %rd4; st.global.f32 [%rd7], %f3; E2: ret; }\n" KERNEL(
					       "saxpy") "setp.ge.u32 %p1, %r5, %r1; @%p1 bra E3;\n"
							"mul.wide.u32 %rd4, %r5, 4; add.s64 %rd5, %rd2, %rd4; add.s64 %rd7, %rd1, %rd4;\n"
							"ld.global.f32 %f1, [%rd5]; ld.global.f32 %f2, [%rd7]; fma.rn.f32 %f3, %f1, 0f40200000, %f2;\n"
							"st.global.f32 [%rd7], %f3; E3: ret; }\n" KERNEL(
								"reduce") "mul.wide.u32 %rd4, %r5, 4; add.s64 %rd5, %rd2, %rd4;\n"
									  "ld.global.u32 %r6, [%rd5]; mov.u32 %r7, tile; shl.b32 %r8, %r4, 2; add.u32 %r8, %r7, %r8;\n"
									  "st.shared.u32 [%r8], %r6; mov.u32 %r9, 128;\n"
									  "L4: bar.sync 0; setp.ge.u32 %p1, %r4, %r9; @%p1 bra S4;\n"
									  "shl.b32 %r10, %r9, 2; add.u32 %r10, %r8, %r10; ld.shared.u32 %r11, [%r10];\n"
									  "ld.shared.u32 %r12, [%r8]; add.u32 %r12, %r12, %r11; st.shared.u32 [%r8], %r12;\n"
									  "S4: shr.u32 %r9, %r9, 1; setp.ne.u32 %p2, %r9, 0; @%p2 bra L4;\n"
									  "setp.ne.u32 %p3, %r4, 0; @%p3 bra E4; ld.shared.u32 %r13, [tile];\n"
									  "red.global.add.u32 [%rd1], %r13; E4: ret; }\n"
	/* tiles of 16 x 16; the block has 256 threads and computes one tile */
	KERNEL("matmul") "and.b32 %r6, %r4, 15; shr.u32 %r7, %r4, 4; shr.u32 %r8, %r1, 4;\n"
			 "rem.u32 %r9, %r2, %r8; div.u32 %r10, %r2, %r8; mad.lo.u32 %r11, %r9, 16, %r6;\n"
			 "mad.lo.u32 %r12, %r10, 16, %r7; mov.u32 %r13, tile; shl.b32 %r14, %r4, 2;\n"
			 "add.u32 %r14, %r13, %r14; mov.f32 %f1, 0f00000000; mov.u32 %r15, 0;\n"
			 "shl.b32 %r20, %r7, 6; add.u32 %r20, %r20, %r13; shl.b32 %r21, %r6, 2; add.u32 %r21, %r21, %r13;\n"
			 "L5: add.u32 %r16, %r15, %r6; mad.lo.u32 %r16, %r12, %r1, %r16; mul.wide.u32 %rd4, %r16, 4;\n"
			 "add.s64 %rd4, %rd2, %rd4; ld.global.f32 %f2, [%rd4]; st.shared.f32 [%r14], %f2;\n"
			 "add.u32 %r17, %r15, %r7; mad.lo.u32 %r17, %r17, %r1, %r11; mul.wide.u32 %rd5, %r17, 4;\n"
			 "add.s64 %rd5, %rd3, %rd5; ld.global.f32 %f3, [%rd5]; st.shared.f32 [%r14+1024], %f3;\n"
			 "bar.sync 0;\n"
#define ONE(a, b) \
	"ld.shared.f32 %f4, [%r20+" #a "]; ld.shared.f32 %f5, [%r21+" #b \
	"]; fma.rn.f32 %f1, %f4, %f5, %f1;\n"
	ONE(0, 1024) ONE(4, 1088) ONE(8, 1152) ONE(12, 1216) ONE(16, 1280) ONE(20, 1344) ONE(
		24, 1408) ONE(28, 1472) ONE(32, 1536) ONE(36, 1600) ONE(40, 1664) ONE(44,
		1728) ONE(48, 1792) ONE(52, 1856) ONE(56, 1920) ONE(60,
		1984) "bar.sync 0; add.u32 %r15, %r15, 16; setp.lt.u32 %p1, %r15, %r1; @%p1 bra L5;\n"
		      "mad.lo.u32 %r18, %r12, %r1, %r11; mul.wide.u32 %rd6, %r18, 4; add.s64 %rd6, %rd1, %rd6;\n"
		      "st.global.f32 [%rd6], %f1; ret; }\n" KERNEL(
			      "nbody") "mul.wide.u32 %rd4, %r5, 4; add.s64 %rd5, %rd2, %rd4; ld.global.f32 %f1, [%rd5];\n"
				       "mov.f32 %f2, 0f00000000; mov.u32 %r6, 0; mov.u64 %rd6, %rd2;\n"
				       "L6: ld.global.f32 %f3, [%rd6]; sub.f32 %f4, %f3, %f1; fma.rn.f32 %f5, %f4, %f4, 0f3C23D70A;\n"
				       "rsqrt.approx.f32 %f6, %f5; mul.f32 %f7, %f6, %f6; mul.f32 %f8, %f7, %f6;\n"
				       "fma.rn.f32 %f2, %f4, %f8, %f2; add.s64 %rd6, %rd6, 4; add.u32 %r6, %r6, 1;\n"
				       "setp.lt.u32 %p1, %r6, %r1; @%p1 bra L6;\n"
				       "add.s64 %rd7, %rd1, %rd4; st.global.f32 [%rd7], %f2; ret; }\n" KERNEL(
					       "histogram") "cvt.u64.u32 %rd4, %r5; add.s64 %rd5, %rd2, %rd4; ld.global.u8 %r6, [%rd5];\n"
							    "mul.wide.u32 %rd6, %r6, 4; add.s64 %rd7, %rd1, %rd6; red.global.add.u32 [%rd7], 1; ret; }\n";

static uint8_t *memory;

static int range(void *user, uint64_t address, struct ptx_range *ret_range)
{
	const uint64_t lo = (uint64_t)(uintptr_t)memory;

	if (address < lo || address >= lo + MEMORY)
		return -EFAULT;
	*ret_range = (struct ptx_range){lo, lo + MEMORY, true};
	return 0;
}

static const struct ptx_device device = {.range = range, .sm_count = 1};

static double cpu_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static struct ptx *load(const char *text)
{
	struct error err = {0};
	struct ptx *ptx;

	if (ptx_load(str_from(text), NULL, &ptx, &err) < 0)
		bench_die("%s", err.msg);
	return ptx;
}

/* Returns the least processor time of some runs, since other programs only add to it. */
static double run_rounds(const struct ptx *ptx, const char *name, uint32_t blocks, uint32_t threads,
	uint32_t n, uint64_t *ret_lane_steps, int rounds)
{
	const struct {
		uint64_t c, a, b;
		uint32_t n;
	} params = {(uintptr_t)memory, (uintptr_t)memory + ARRAY, (uintptr_t)memory + 2 * ARRAY, n};
	struct ptx_launch launch = {
		.ptx = ptx,
		.kernel = (uint32_t)ptx_find_kernel(ptx, str_from(name)),
		.grid = {blocks, 1, 1},
		.block = {threads, 1, 1},
		.params = &params,
		.param_bytes = 28,
		.device = &device,
	};
	double best = 1e9;

	for (int i = 0; i < rounds; i++) {
		struct ptx_result result;
		struct ptx_job *job;
		double from;

		if (ptx_job_new(&launch, &job) < 0)
			bench_die("kernel '%s' cannot be launched", name);
		from = cpu_s();
		ptx_job_work(job);
		best = cpu_s() - from < best ? cpu_s() - from : best;
		result = ptx_job_result(job);
		if (result.fault)
			bench_die("kernel '%s': %s at line %u", name, ptx_fault_name(result.fault),
				result.line);
		*ret_lane_steps = result.lane_steps;
		ptx_job_free(job);
	}
	return best;
}

static double run(const struct ptx *ptx, const char *name, uint32_t blocks, uint32_t threads,
	uint32_t n, uint64_t *ret_lane_steps)
{
	return run_rounds(
		ptx, name, blocks, threads, n, ret_lane_steps, bench_quick() ? 2 : ROUNDS);
}

static void measure_load(void)
{
	_cleanup_free_ char *text = malloc(MODULE_BYTES + 8192);
	size_t n = 0;
	double from;

	if (!text)
		bench_die("no memory");
	n += (size_t)snprintf(text, MODULE_BYTES, HEAD ".shared .align 4 .b8 tile[2048];\n");
	for (unsigned i = 0; n < MODULE_BYTES; i++) {
		n += (size_t)snprintf(text + n, 64, ".visible .entry k%u(.param .u64 p) {\n", i);
		n += (size_t)snprintf(text + n, 256,
			".reg .pred %%p<4>; .reg .b32 %%r<40>; .reg .f32 %%f<40>; .reg .b64 %%rd<20>;\n");
		for (int k = 0; k < 40; k++)
			n += (size_t)snprintf(text + n, 160,
				"ld.global.f32 %%f%d, [%%rd4+%d];\nfma.rn.f32 %%f%d, %%f%d, %%f%d, 0f3F%06X;\n",
				k % 40, 4 * k, (k + 1) % 40, k % 40, (k + 2) % 40, 4 * k);
		n += (size_t)snprintf(text + n, 16, "ret;\n}\n");
	}
	from = cpu_s();
	ptx_free(load(text));
	bench_metric("ptx.load_s", cpu_s() - from, "s", "<= 0.3", 1, true, "a module of 1 MB");
}

struct measured {
	const char *name, *metric, *detail;
	uint32_t blocks, threads, n;
};

/* The same numbers for each kernel: small, and whole, so that every order of sums is exact. */
static void fill(void)
{
	memset(memory, 0, ARRAY);
	for (uint32_t i = 0; i < USED / 4; i++) {
		float v = (float)(i % 13) - 6;

		memcpy(memory + ARRAY + 4 * (size_t)i, &v, 4);
		memcpy(memory + 2 * ARRAY + 4 * (size_t)i, &v, 4);
	}
}

/* The forces are rounded differently, so they are compared with an error of 1/1000. */
static bool is_alike(const uint8_t *a, const uint8_t *b, bool is_exact)
{
	for (size_t i = 0; i < USED / 4 && !is_exact; i++) {
		float x, y;

		memcpy(&x, a + 4 * i, 4);
		memcpy(&y, b + 4 * i, 4);
		if (!(x - y <= 1e-3f * (1 + (x < 0 ? -x : x)) &&
			    y - x <= 1e-3f * (1 + (x < 0 ? -x : x))))
			return false;
	}
	return !is_exact || memcmp(a, b, USED) == 0;
}

/* Runs the kernel once in each, from the same memory, and compares; then measures. */
static void measure_beside_pocl(const struct ptx *ptx, const struct measured *m)
{
	_cleanup_free_ uint8_t *c = calloc(1, USED);
	const int rounds = bench_quick() ? 2 : ROUNDS;
	char name[64], detail[160];
	uint64_t lanes;
	double own, other;

	if (!c)
		bench_die("no memory");
	fill();
	own = run(ptx, m->name, m->blocks, m->threads, m->n, &lanes);
	bench_metric(m->metric, own * 1e3, "ms", "", ROUNDS, true, m->detail);
	if (!opencl_version()[0])
		return;
	other = opencl_run(m->name, m->blocks, m->threads, m->n, c, memory + ARRAY,
		memory + 2 * ARRAY, USED, rounds);
	if (other <= 0)
		bench_die("PoCL does not run kernel '%s'", m->name);
	/* Kernels that add to what is there have added once for each round. */
	fill();
	memset(c, 0, USED);
	run_rounds(ptx, m->name, m->blocks, m->threads, m->n, &lanes, 1);
	if (opencl_run(m->name, m->blocks, m->threads, m->n, c, memory + ARRAY, memory + 2 * ARRAY,
		    USED, 0) < 0 ||
		!is_alike(memory, c, strcmp(m->name, "nbody") != 0))
		bench_die("kernel '%s': PoCL has other results", m->name);
	snprintf(name, sizeof(name), "ptx.%s_to_pocl", m->name);
	snprintf(detail, sizeof(detail), "%s: times PoCL's %.3g ms, one processor each", m->detail,
		other * 1e3);
	bench_metric(name, own / other, "x", "<= 20", (unsigned)rounds, true, detail);
}

int main(int argc, char **argv)
{
	static const struct measured cases[] = {
		{"add", "ptx.add_ms", "vector addition of 1 Mi floats", 4096, 256, 1 << 20},
		{"saxpy", "ptx.saxpy_ms", "saxpy of 1 Mi floats", 4096, 256, 1 << 20},
		{"reduce", "ptx.reduce_ms", "sum of 1 Mi integers", 4096, 256, 1 << 20},
		{"matmul", "ptx.matmul_ms", "product of 512 x 512 floats in tiles", 1024, 256, 512},
		{"nbody", "ptx.nbody_ms", "forces between 4096 bodies in one dimension", 16, 256,
			4096},
		{"histogram", "ptx.histogram_ms", "1 Mi bytes by atomics", 4096, 256, 1 << 20},
	};
	uint64_t lanes;
	struct ptx *ptx;
	double s;

	bench_init("ptx", argc, argv);
	memory = calloc(1, MEMORY);
	if (!memory)
		bench_die("no memory");
	ptx = load(kernels);
	s = run(ptx, "steps", 4, 256, 0, &lanes);
	bench_metric("ptx.lane_steps_per_s", (double)lanes / s, "1/s", ">= 3e8", ROUNDS, true,
		"instructions of lanes, one thread");
	if (opencl_open())
		bench_note("beside %s", opencl_version());
	else
		bench_note(
			"PoCL (package pocl-opencl-icd) is not installed: nothing to compare with");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		measure_beside_pocl(ptx, &cases[i]);
	ptx_free(ptx);
	measure_load();
	free(memory);
	return bench_done();
}
