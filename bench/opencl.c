/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The types and numbers are those of the OpenCL API 1.2. PoCL translates a kernel at its first
 * launch, so that launch does not count.
 */
#include "bench/opencl.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"

enum {
	CL_PLATFORM_NAME_VERSION = 0x0901,
	CL_DEVICE_TYPE_CPU = 2,
	CL_MEM_COPY_HOST = (1 << 0) | (1 << 5), /* read and written, begins with the host's bytes */
	TEXT_MAX = 256,
	LAUNCHES_MAX = 256,
};
#define ROUND_S 0.1 /* of a round's launches */

typedef void *object;

/* The functions that this file calls: CL(result, name, parameters). */
#define CL_FUNCTIONS \
	CL(int, clGetPlatformIDs, (uint32_t, object *, uint32_t *)) \
	CL(int, clGetPlatformInfo, (object, uint32_t, size_t, void *, size_t *)) \
	CL(int, clGetDeviceIDs, (object, uint64_t, uint32_t, object *, uint32_t *)) \
	CL(object, clCreateContext, \
		(const void *, uint32_t, const object *, void *, void *, int *)) \
	CL(object, clCreateCommandQueue, (object, object, uint64_t, int *)) \
	CL(object, clCreateProgramWithSource, \
		(object, uint32_t, const char **, const size_t *, int *)) \
	CL(int, clBuildProgram, (object, uint32_t, const object *, const char *, void *, void *)) \
	CL(object, clCreateKernel, (object, const char *, int *)) \
	CL(int, clReleaseKernel, (object)) \
	CL(object, clCreateBuffer, (object, uint64_t, size_t, void *, int *)) \
	CL(int, clReleaseMemObject, (object)) \
	CL(int, clSetKernelArg, (object, uint32_t, size_t, const void *)) \
	CL(int, clEnqueueNDRangeKernel, \
		(object, object, uint32_t, const size_t *, const size_t *, const size_t *, \
			uint32_t, const object *, object *)) \
	CL(int, clEnqueueReadBuffer, \
		(object, object, uint32_t, size_t, size_t, void *, uint32_t, const object *, \
			object *)) \
	CL(int, clFinish, (object))

static struct {
	char version[TEXT_MAX];
	object device, context, queue, program;
#define CL(result, name, parameters) result(*name) parameters;
	CL_FUNCTIONS
#undef CL
} cl;

/* One dimension each, as the kernels of ptx.c. */
static const char source[] =
	"#define ARGS global float *c, global const float *a, global const float *b, uint n\n"
	"kernel void add(ARGS) { uint i = get_global_id(0); if (i < n) c[i] = a[i] + b[i]; }\n"
	"kernel void saxpy(ARGS) { uint i = get_global_id(0); if (i < n) c[i] = fma(a[i], 2.5f, c[i]); }\n"
	"kernel void reduce(global uint *c, global const uint *a, global const float *b, uint n) {\n"
	"  local uint tile[256]; uint t = get_local_id(0); tile[t] = a[get_global_id(0)];\n"
	"  for (uint s = 128; s; s >>= 1) { barrier(CLK_LOCAL_MEM_FENCE);\n"
	"    if (t < s) tile[t] += tile[t + s]; }\n"
	"  if (t == 0) atomic_add(c, tile[0]); }\n"
	"kernel void matmul(ARGS) { local float p[256], q[256];\n"
	"  uint t = get_local_id(0), x = t & 15, y = t >> 4, g = get_group_id(0), w = n >> 4;\n"
	"  uint col = g % w * 16 + x, row = g / w * 16 + y; float sum = 0;\n"
	"  for (uint k = 0; k < n; k += 16) { p[t] = a[row * n + k + x]; q[t] = b[(k + y) * n + col];\n"
	"    barrier(CLK_LOCAL_MEM_FENCE);\n"
	"    for (uint i = 0; i < 16; i++) sum = fma(p[y * 16 + i], q[i * 16 + x], sum);\n"
	"    barrier(CLK_LOCAL_MEM_FENCE); }\n"
	"  c[row * n + col] = sum; }\n"
	"kernel void nbody(ARGS) { uint i = get_global_id(0); float own = a[i], sum = 0;\n"
	"  for (uint k = 0; k < n; k++) { float d = a[k] - own, r = rsqrt(fma(d, d, 0.01f));\n"
	"    sum = fma(d, r * r * r, sum); }\n"
	"  c[i] = sum; }\n"
	"kernel void histogram(global uint *c, global const uchar *a, global const float *b, uint n) {\n"
	"  atomic_inc(c + a[get_global_id(0)]); }\n";

static bool open_functions(void)
{
	void *library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);

	if (!library)
		return false;
#define CL(result, name, parameters) \
	*(void **)&cl.name = dlsym(library, #name); \
	if (!cl.name) \
		return false;
	CL_FUNCTIONS
#undef CL
	return true;
}

bool opencl_open(void)
{
	const char *text = source;
	object platforms[8];
	uint32_t n = 0;
	int e = 0;

	setenv("POCL_MAX_PTHREAD_COUNT", "1", 1);
	setenv("POCL_KERNEL_CACHE", "0", 1);
	if (!open_functions() || cl.clGetPlatformIDs(ARRAY_SIZE(platforms), platforms, &n) != 0)
		return false;
	for (uint32_t i = 0; i < n && i < ARRAY_SIZE(platforms); i++) {
		if (cl.clGetPlatformInfo(platforms[i], CL_PLATFORM_NAME_VERSION, sizeof(cl.version),
			    cl.version, NULL) == 0 &&
			strstr(cl.version, "PoCL") &&
			cl.clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_CPU, 1, &cl.device, NULL) ==
				0)
			break;
		cl.device = NULL;
	}
	if (!cl.device)
		return false;
	cl.context = cl.clCreateContext(NULL, 1, &cl.device, NULL, NULL, &e);
	if (e == 0)
		cl.queue = cl.clCreateCommandQueue(cl.context, cl.device, 0, &e);
	if (e == 0)
		cl.program = cl.clCreateProgramWithSource(cl.context, 1, &text, NULL, &e);
	return e == 0 && cl.clBuildProgram(cl.program, 1, &cl.device, "", NULL, NULL) == 0;
}

const char *opencl_version(void)
{
	return cl.version;
}

static double cpu_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Returns the processor time of a launch, from `n` launches in a row; -1: one failed. */
static double run_launches(object kernel, uint32_t blocks, uint32_t threads, int n)
{
	const size_t global = (size_t)blocks * threads, local = threads;
	double from = cpu_s();

	for (int i = 0; i < n; i++)
		if (cl.clEnqueueNDRangeKernel(
			    cl.queue, kernel, 1, NULL, &global, &local, 0, NULL, NULL) != 0)
			return -1;
	if (cl.clFinish(cl.queue) != 0)
		return -1;
	return (cpu_s() - from) / n;
}

/*
 * The clock of the process misses what PoCL's thread has run since it last slept, so a round has
 * many launches of a short kernel.
 */
static double run_rounds(object kernel, uint32_t blocks, uint32_t threads, int rounds)
{
	double best = run_launches(kernel, blocks, threads, 1), s;
	int n = 1;

	if (best < 0 || rounds == 0)
		return best < 0 ? -1 : 0;
	best = run_launches(kernel, blocks, threads, 1);
	if (best >= 0 && best < ROUND_S)
		n = best < ROUND_S / LAUNCHES_MAX ? LAUNCHES_MAX : (int)(ROUND_S / best);
	for (int i = 0; i < rounds; i++) {
		s = run_launches(kernel, blocks, threads, n);
		if (s < 0)
			return -1;
		best = i == 0 || s < best ? s : best;
	}
	return best;
}

double opencl_run(const char *name, uint32_t blocks, uint32_t threads, uint32_t n, void *c,
	const void *a, const void *b, size_t bytes, int rounds)
{
	void *host[3] = {c, (void *)(uintptr_t)a, (void *)(uintptr_t)b};
	object kernel, buffers[3] = {0};
	double best = -1;
	int e;

	kernel = cl.clCreateKernel(cl.program, name, &e);
	if (e != 0)
		return -1;
	for (uint32_t i = 0; i < 3 && e == 0; i++) {
		buffers[i] = cl.clCreateBuffer(cl.context, CL_MEM_COPY_HOST, bytes, host[i], &e);
		if (e == 0)
			e = cl.clSetKernelArg(kernel, i, sizeof(object), &buffers[i]);
	}
	if (e == 0 && cl.clSetKernelArg(kernel, 3, sizeof(n), &n) == 0)
		best = run_rounds(kernel, blocks, threads, rounds);
	if (best >= 0 &&
		cl.clEnqueueReadBuffer(cl.queue, buffers[0], 1, 0, bytes, c, 0, NULL, NULL) != 0)
		best = -1;
	for (uint32_t i = 0; i < 3; i++)
		if (buffers[i])
			cl.clReleaseMemObject(buffers[i]);
	cl.clReleaseKernel(kernel);
	return best;
}
