/* SPDX-License-Identifier: Apache-2.0 */
/*
 * old: a program for old systems that uses the device. The program links libcuda.so.1 directly and
 * needs only GLIBC_2.2.5 of libc, so it has its own entry point (the usual one is newer). The
 * program uses a context, memory, a module, kernels and a thread of the library, and prints
 * "worked".
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "cuda/proto.h"

static const char kernel[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
			     ".visible .entry spin_ns(.param .u64 ns)\n{\n\tret;\n}\n";

static void say(const char *text)
{
	if (write(STDERR_FILENO, text, strlen(text)) < 0)
		_exit(3);
}

static void check(CUresult r, const char *what)
{
	char digits[] = "old: error 0000 of ";

	if (r == CUDA_SUCCESS)
		return;
	for (unsigned int i = 14, n = (unsigned int)r; i > 10; i--, n /= 10)
		digits[i] = (char)('0' + n % 10);
	say(digits);
	say(what);
	say("\n");
	_exit(1);
}

static void work(void)
{
	size_t before = 0, after = 0, total = 0;
	CUcontext context = NULL;
	CUfunction function;
	CUmodule module;
	CUdeviceptr p;
	uint64_t ns = 200000;
	void *params[] = {&ns};
	uint8_t bytes[64];

	check(cuInit(0), "cuInit");
	check(cuCtxCreate_v2(&context, 0, 0), "cuCtxCreate");
	check(cuMemGetInfo_v2(&before, &total), "cuMemGetInfo");
	check(cuMemAlloc_v2(&p, 16 << 20), "cuMemAlloc");
	check(cuMemGetInfo_v2(&after, &total), "cuMemGetInfo");
	if (before - after != 16 << 20)
		check(CUDA_ERROR_UNKNOWN, "memory that is not counted");
	check(cuModuleLoadData(&module, kernel), "cuModuleLoadData");
	check(cuModuleGetFunction(&function, module, "spin_ns"), "cuModuleGetFunction");
	for (int i = 0; i < 300; i++)
		check(cuLaunchKernel(function, 64, 1, 1, 32, 1, 1, 0, NULL, params, NULL),
			"cuLaunchKernel");
	check(cuMemsetD8_v2(p, 42, sizeof(bytes)), "cuMemsetD8");
	check(cuMemcpyDtoH_v2(bytes, p, sizeof(bytes)), "cuMemcpyDtoH");
	for (size_t i = 0; i < sizeof(bytes); i++)
		if (bytes[i] != 42)
			check(CUDA_ERROR_UNKNOWN, "a copy");
	/* An allocation above the quota fails as on a smaller device. */
	if (cuMemAlloc_v2(&p, total) != CUDA_ERROR_OUT_OF_MEMORY)
		check(CUDA_ERROR_UNKNOWN, "an allocation above the quota");
	check(cuCtxSynchronize(), "cuCtxSynchronize");
	check(cuCtxDestroy_v2(context), "cuCtxDestroy");
}

__attribute__((used, noreturn)) static void begin(void)
{
	work();
	if (write(STDOUT_FILENO, "worked\n", 7) != 7)
		_exit(3);
	_exit(0);
}

#if defined(__x86_64__)
__asm__(".globl _start\n_start:\n\txor %ebp, %ebp\n\tand $-16, %rsp\n\tcall begin\n");
#elif defined(__aarch64__)
__asm__(".globl _start\n_start:\n\tmov x29, #0\n\tmov x30, #0\n\tb begin\n");
#endif
