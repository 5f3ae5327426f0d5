/* SPDX-License-Identifier: Apache-2.0 */
/*
 * victim: goes once through all phases of a program that uses a device. The program announces each
 * phase to stepper by a system call without effect (prctl with an unused number). If memory runs
 * out, the program continues; any other failure ends the program with a message.
 *
 * usage: victim [PHASE]: stops after that phase and waits to be killed.
 */
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cuda-min.h"
#include "phases.h"

#define LAUNCHES 24
#define KERNEL_NS UINT64_C(300000)
#define SMALL 24

static cu_handle context, function;
static cu_pointer large[2], small[SMALL];

/*
 * A spin kernel whose parameter is its duration. The PTX is short, because stepper stops at many
 * points while the driver parses the PTX.
 */
static const char kernel[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
			     ".visible .global .align 4 .u32 hint = 0;\n"
			     ".visible .entry spin_ns(.param .u64 ns)\n{\n\tret;\n}\n";

static void load_module(void)
{
	cu_handle module = NULL;

	cuda_check(cuda.module_load(&module, kernel), "module");
	cuda_check(cuda.module_function(&function, module, "spin_ns"), "function");
}

static void phase_register(void)
{
	int count = 0;

	cuda_check(cuda.init(0), "cuInit");
	cuda_check(cuda.device_count(&count), "count");
}

static void phase_context(void)
{
	cuda_check(cuda.ctx_create(&context, 0, 0), "context");
	load_module();
}

static void allocate(cu_pointer *p, size_t bytes)
{
	cu_result r = cuda.mem_alloc(p, bytes);

	if (r == CU_OUT_OF_MEMORY)
		*p = 0;
	else
		cuda_check(r, "allocation");
}

static void phase_reserve(void)
{
	allocate(&large[0], 8u << 20);
	allocate(&large[1], 3u << 20);
}

static void phase_small(void)
{
	for (int i = 0; i < SMALL; i++)
		allocate(&small[i], 200u << 10);
}

static void phase_free(void)
{
	for (int i = 0; i < SMALL; i += 2)
		if (small[i])
			cuda_check(cuda.mem_free(small[i]), "free");
	if (large[1])
		cuda_check(cuda.mem_free(large[1]), "free");
}

static void phase_launch(void)
{
	uint64_t ns = KERNEL_NS;
	void *params[] = {&ns};

	for (int i = 0; i < LAUNCHES; i++)
		cuda_check(
			cuda.launch(function, 16, 1, 1, 32, 1, 1, 0, NULL, params, NULL), "launch");
}

static void phase_synchronise(void)
{
	for (int i = 0; i < 4; i++) {
		cuda_check(cuda.ctx_synchronize(), "synchronise");
		usleep(2000);
	}
}

static void phase_destroy(void)
{
	cuda_check(cuda.ctx_destroy(context), "destroy");
}

int main(int argc, char **argv)
{
	static void (*const run[])(void) = {
#define X(name) phase_##name,
		PHASES(X)
#undef X
	};
	static const char *const name[] = {
#define X(name) #name,
		PHASES(X)
#undef X
	};
	const size_t n = sizeof(run) / sizeof(run[0]);

	cuda_open("victim");
	for (size_t i = 0; i < n; i++) {
		syscall(SYS_prctl, PHASE_CALL, i + 1, 0, 0, 0);
		run[i]();
		if (argc > 1 && !strcmp(argv[1], name[i])) {
			puts("here");
			fflush(stdout);
			pause();
		}
	}
	syscall(SYS_prctl, PHASE_CALL, n + 1, 0, 0, 0);
	return 0;
}
