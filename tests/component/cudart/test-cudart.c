/* SPDX-License-Identifier: Apache-2.0 */
/*
 * divvy's CUDA runtime on simulated devices, without any compiler of NVIDIA's: the test makes the
 * calls that nvcc puts into a program. The build compiles the test once for each library, as
 * CUDART_MAJOR says.
 */
#include "../simgpu/driver.h"
#include "../simgpu/fatbin.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cudart/cudart-types.h"

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define SONAME "libcudart.so." TEXT(CUDART_MAJOR)

#define HEAD ".version 8.0\n.target sm_80\n.address_size 64\n"
static const char *const code = HEAD
	".visible .global .align 4 .u32 factor = 3;\n"
	".visible .global .align 4 .b8 table[64];\n"
	".visible .entry scale(.param .u64 v)\n"
	"{\n"
	"	.reg .b32 %r<5>; .reg .b64 %rd<5>;\n"
	"	ld.param.u64 %rd1, [v]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4;\n"
	"	add.u64 %rd3, %rd1, %rd2; ld.global.u32 %r2, [%rd3]; ld.global.u32 %r3, [factor];\n"
	"	mul.lo.u32 %r4, %r2, %r3; st.global.u32 [%rd3], %r4;\n"
	"	ret;\n"
	"}\n";

/* The runtime's functions that this test calls. */
#define FUNCTIONS(F) \
	F(void **, __cudaRegisterFatBinary, (void *)) \
	F(void, __cudaUnregisterFatBinary, (void **)) \
	F(void, __cudaRegisterFunction, \
		(void **, const char *, char *, const char *, int, void *, void *, void *, void *, \
			int *)) \
	F(void, __cudaRegisterVar, (void **, char *, char *, const char *, int, size_t, int, int)) \
	F(unsigned, __cudaPushCallConfiguration, (struct dim3, struct dim3, size_t, CUstream)) \
	F(cudaError_t, __cudaPopCallConfiguration, \
		(struct dim3 *, struct dim3 *, size_t *, void *)) \
	F(cudaError_t, __cudaGetKernel, (CUkernel *, const void *)) \
	F(cudaError_t, __cudaLaunchKernel, \
		(CUkernel, struct dim3, struct dim3, void **, size_t, CUstream)) \
	F(cudaError_t, cudaLaunchKernel, \
		(const void *, struct dim3, struct dim3, void **, size_t, CUstream)) \
	F(cudaError_t, cudaLaunchKernel_ptsz, \
		(const void *, struct dim3, struct dim3, void **, size_t, CUstream)) \
	F(cudaError_t, cudaGetDeviceCount, (int *)) \
	F(cudaError_t, cudaGetDevice, (int *)) \
	F(cudaError_t, cudaSetDevice, (int)) \
	F(cudaError_t, cudaDeviceGetAttribute, (int *, int, int)) \
	F(cudaError_t, cudaDeviceReset, (void)) \
	F(cudaError_t, cudaDeviceSynchronize, (void)) \
	F(cudaError_t, cudaGraphicsUnregisterResource, (void *)) \
	F(cudaError_t, cudaMalloc, (void **, size_t)) \
	F(cudaError_t, cudaFree, (void *)) \
	F(cudaError_t, cudaMemcpy, (void *, const void *, size_t, enum cudaMemcpyKind)) \
	F(cudaError_t, cudaMemcpy_ptds, (void *, const void *, size_t, enum cudaMemcpyKind)) \
	F(cudaError_t, cudaMemcpyToSymbol, \
		(const void *, const void *, size_t, size_t, enum cudaMemcpyKind)) \
	F(cudaError_t, cudaMemcpyPeer, (void *, int, const void *, int, size_t)) \
	F(cudaError_t, cudaGetSymbolSize, (size_t *, const void *)) \
	F(cudaError_t, cudaStreamQuery, (CUstream)) \
	F(cudaError_t, cudaGetLastError, (void)) \
	F(cudaError_t, cudaPeekAtLastError, (void)) \
	F(const char *, cudaGetErrorName, (cudaError_t)) \
	F(const char *, cudaGetErrorString, (cudaError_t)) \
	F(cudaError_t, cudaRuntimeGetVersion, (int *))

static struct {
	void *handle;
#define DECLARE(type, name, params) type(*name) params;
	FUNCTIONS(DECLARE)
#undef DECLARE
} rt;

static void rt_open(void)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/src/cudart/libdivvy-cudart-%d.so", getenv("DIVVY_BUILD"),
		CUDART_MAJOR);
	rt.handle = dlopen(path, RTLD_NOW);
	if (!tap_ok(rt.handle != NULL, "the runtime loads"))
		_exit(1);
#define FIND(type, name, params) *(void **)&rt.name = dlsym(rt.handle, #name);
	FUNCTIONS(FIND)
#undef FIND
}

/* ---- exports ---- */

static bool is_exported(const char *name)
{
	return dlvsym(rt.handle, name, SONAME) != NULL;
}

static void exports(void)
{
	enum { BOTH = 0, ONLY_12 = 12, ONLY_13 = 13, NONE = 0, PTSZ, PTDS };
	static const char *const suffix[] = {"", "_ptsz", "_ptds"};
	static const struct {
		const char *name;
		int only, variant;
	} list[] = {
#define RT(name, libraries, variant, needs, params, answer) {#name, libraries, variant},
#include "cudart/cudart.def"
#undef RT
	};
	char name[128], missing[256] = "";
	unsigned n = 0;

	rt_open();
	for (size_t i = 0; i < ARRAY_SIZE(list); i++) {
		if (list[i].only && list[i].only != CUDART_MAJOR)
			continue;
		for (int form = 0; form <= (list[i].variant != 0); form++) {
			snprintf(name, sizeof(name), "%s%s", list[i].name,
				form ? suffix[list[i].variant] : "");
			n++;
			if (!is_exported(name))
				snprintf(missing, sizeof(missing), "%s", name);
		}
	}
	tap_ok(!missing[0], "each name of the list has the version " SONAME " (%s)", missing);
	tap_ok(n == (CUDART_MAJOR == 12 ? 435 : 422), "%u names", n);
}

/* ---- a program ---- */

static char scale_host, unknown_host;
static unsigned factor_host;
static struct fatbin fatbin;
static struct fatbin_wrapper wrapper;

static void **register_code(const char *text)
{
	const struct fatbin_member member = {.kind = FATBIN_PTX,
		.arch = 80,
		.packing = FATBIN_ZSTD,
		.bytes = text,
		.n = strlen(text) + 1};
	void **handle;

	fatbin_begin(&fatbin);
	fatbin_add(&fatbin, &member);
	wrapper = fatbin_wrap(&fatbin, 1);
	handle = rt.__cudaRegisterFatBinary(&wrapper);
	rt.__cudaRegisterFunction(
		handle, &scale_host, NULL, "scale", -1, NULL, NULL, NULL, NULL, NULL);
	rt.__cudaRegisterVar(
		handle, (char *)&factor_host, NULL, "factor", 0, sizeof(factor_host), 0, 1);
	return handle;
}

/* Whether the kernel multiplies by the factor. */
static bool scales(const void *kernel, unsigned factor)
{
	unsigned v[32], *d;
	void *args[] = {&d};
	bool is_right = true;

	for (unsigned i = 0; i < 32; i++)
		v[i] = i;
	if (rt.cudaMalloc((void **)&d, sizeof(v)) ||
		rt.cudaMemcpy(d, v, sizeof(v), cudaMemcpyHostToDevice) ||
		rt.cudaLaunchKernel(
			kernel, (struct dim3){1, 1, 1}, (struct dim3){32, 1, 1}, args, 0, NULL) ||
		rt.cudaMemcpy(v, d, sizeof(v), cudaMemcpyDeviceToHost) || rt.cudaFree(d))
		return false;
	for (unsigned i = 0; i < 32; i++)
		is_right = is_right && v[i] == factor * i;
	return is_right;
}

static void registration_is_lazy(void)
{
	int n = 0;

	rt_open();
	register_code(code);
	tap_ok(!dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD),
		"registration does not load the driver");
	tap_ok(!rt.cudaGetDeviceCount(&n) && n == 2, "two devices");
	tap_ok(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) != NULL,
		"the first call that needs the driver loads it");
}

static void code_runs(void)
{
	const unsigned seven = 7;
	void **handle;
	size_t size = 0;
	CUkernel kernel;

	rt_open();
	handle = register_code(code);
	tap_ok(scales(&scale_host, 3), "a registered kernel computes");
	tap_ok(!rt.__cudaGetKernel(&kernel, &scale_host) && scales(kernel, 3),
		"the kernel's handle takes the place of its address");
	tap_ok(!rt.cudaGetSymbolSize(&size, &factor_host) && size == 4, "a variable has its size");
	tap_ok(!rt.cudaMemcpyToSymbol(&factor_host, &seven, 4, 0, cudaMemcpyHostToDevice) &&
			scales(&scale_host, 7),
		"a copy to a variable");
	tap_ok(rt.cudaMemcpyToSymbol(&factor_host, &seven, 4, 1, cudaMemcpyHostToDevice) ==
			cudaErrorInvalidValue,
		"a copy beyond a variable is refused");
	tap_ok(rt.cudaMemcpyToSymbol(&unknown_host, &seven, 4, 0, cudaMemcpyHostToDevice) ==
			cudaErrorInvalidSymbol,
		"an unknown variable");
	tap_ok(!rt.cudaDeviceReset() && scales(&scale_host, 3),
		"after a reset, code and variables are as at the start");
	rt.__cudaUnregisterFatBinary(handle);
	tap_ok(rt.cudaLaunchKernel(&scale_host, (struct dim3){1, 1, 1}, (struct dim3){1, 1, 1},
		       NULL, 0, NULL) == cudaErrorInvalidDeviceFunction,
		"code that is gone");
	tap_ok(rt.cudaLaunchKernel(kernel, (struct dim3){1, 1, 1}, (struct dim3){1, 1, 1}, NULL, 0,
		       NULL) == cudaErrorInvalidDeviceFunction,
		"a handle whose code is gone");
}

static void devices_have_own_variables(void)
{
	const unsigned seven = 7;
	unsigned v[4] = {1, 2, 3, 4}, *first, *second;
	CUkernel kernel;

	rt_open();
	register_code(code);
	tap_ok(!rt.cudaSetDevice(0) && scales(&scale_host, 3), "the kernel on the first device");
	tap_ok(!rt.__cudaGetKernel(&kernel, &scale_host) && !rt.cudaSetDevice(1) &&
			scales(kernel, 3),
		"its handle on the second device");
	tap_ok(!rt.cudaMemcpyToSymbol(&factor_host, &seven, 4, 0, cudaMemcpyHostToDevice) &&
			scales(&scale_host, 7),
		"a copy to the second device's variable");
	tap_ok(!rt.cudaSetDevice(0) && scales(&scale_host, 3), "the first device keeps its own");
	tap_ok(!rt.cudaMalloc((void **)&first, sizeof(v)) && !rt.cudaSetDevice(1) &&
			!rt.cudaMalloc((void **)&second, sizeof(v)) &&
			!rt.cudaMemcpy(second, v, sizeof(v), cudaMemcpyHostToDevice) &&
			!rt.cudaMemcpyPeer(first, 0, second, 1, sizeof(v)),
		"a copy between devices");
	memset(v, 0, sizeof(v));
	tap_ok(!rt.cudaSetDevice(0) &&
			!rt.cudaMemcpy(v, first, sizeof(v), cudaMemcpyDeviceToHost) && v[3] == 4,
		"carries the bytes");
	tap_ok(!rt.cudaSetDevice(1) && !rt.cudaDeviceReset() && scales(&scale_host, 3) &&
			!rt.cudaSetDevice(0) &&
			!rt.cudaMemcpy(v, first, sizeof(v), cudaMemcpyDeviceToHost) && v[3] == 4,
		"a reset of one device leaves the other alone");
}

static void wrong_code_is_named(void)
{
	static const char *const text = HEAD
		".extern .func __cudaCDP2Launch();\n"
		".visible .entry scale() { call __cudaCDP2Launch; ret; }\n";
	int pipes[2], saved = dup(2);
	char said[1024] = "";
	CUkernel kernel;
	cudaError_t error;

	rt_open();
	register_code(text);
	tap_ok(!rt.__cudaGetKernel(&kernel, &scale_host), "a launch's look-up does not fail");
	if (pipe(pipes) < 0 || dup2(pipes[1], 2) < 0)
		_exit(1);
	error = rt.__cudaLaunchKernel(
		kernel, (struct dim3){1, 1, 1}, (struct dim3){1, 1, 1}, NULL, 0, NULL);
	dup2(saved, 2);
	close(pipes[1]);
	if (read(pipes[0], said, sizeof(said) - 1) < 0)
		_exit(1);
	tap_ok(error == cudaErrorNotSupported, "the launch itself fails");
	tap_ok(strstr(said, "__cudaCDP2Launch") != NULL, "the message names the function: %s",
		said);
}

/* ---- threads, configurations, errors ---- */

static void *fail_in_thread(void *unused)
{
	int device = -1;

	rt.cudaSetDevice(1);
	rt.cudaGetDevice(&device);
	return (void *)(uintptr_t)(rt.cudaSetDevice(99) == cudaErrorInvalidDevice &&
		rt.cudaPeekAtLastError() == cudaErrorInvalidDevice && device == 1);
}

static void threads_are_apart(void)
{
	pthread_t thread;
	int device = -1;
	void *is_right;

	rt_open();
	rt.cudaSetDevice(0);
	if (pthread_create(&thread, NULL, fail_in_thread, NULL) || pthread_join(thread, &is_right))
		_exit(1);
	tap_ok(is_right != NULL, "a thread has a device and an error");
	tap_ok(!rt.cudaGetLastError() && !rt.cudaGetDevice(&device) && device == 0,
		"another thread has its own");
}

static void configurations_nest(void)
{
	struct dim3 grid, block;
	CUstream stream;
	size_t bytes;

	rt_open();
	rt.__cudaPushCallConfiguration(
		(struct dim3){1, 2, 3}, (struct dim3){4, 5, 6}, 7, CU_STREAM_LEGACY);
	rt.__cudaPushCallConfiguration((struct dim3){8, 1, 1}, (struct dim3){9, 1, 1}, 0, NULL);
	tap_ok(!rt.__cudaPopCallConfiguration(&grid, &block, &bytes, &stream) && grid.x == 8 &&
			block.x == 9 && !stream,
		"the inner configuration comes first");
	tap_ok(!rt.__cudaPopCallConfiguration(&grid, &block, &bytes, &stream) && grid.z == 3 &&
			block.y == 5 && bytes == 7 && stream == CU_STREAM_LEGACY,
		"then the outer one");
	tap_ok(rt.__cudaPopCallConfiguration(&grid, &block, &bytes, &stream) ==
			cudaErrorMissingConfiguration,
		"then there is none");
}

static void errors(void)
{
	static const struct {
		int number;
		const char *name;
	} list[] = {
#define RT_ERROR(name, number, text) {number, #name},
#include "cudart/cudart-error.def"
#undef RT_ERROR
	};
	unsigned wrong = 0;
	int version = 0;

	rt_open();
	for (size_t i = 0; i < ARRAY_SIZE(list); i++) {
		const char *text = rt.cudaGetErrorString((cudaError_t)list[i].number);

		wrong += strcmp(rt.cudaGetErrorName((cudaError_t)list[i].number), list[i].name) !=
			0;
		wrong += !strcmp(text, list[i].name) || !strcmp(text, "unrecognized error code");
		wrong += i && list[i].number <= list[i - 1].number;
	}
	tap_ok(!wrong, "each error has a name and a text (%zu errors)", ARRAY_SIZE(list));
	tap_ok(!strcmp(rt.cudaGetErrorName((cudaError_t)10), "unrecognized error code"),
		"a number that is no error");
	tap_ok(!rt.cudaRuntimeGetVersion(&version) && version == CUDART_VERSION, "the version");
	tap_ok(rt.cudaGraphicsUnregisterResource(NULL) == cudaErrorNotSupported &&
			rt.cudaPeekAtLastError() == cudaErrorNotSupported &&
			rt.cudaGetLastError() == cudaErrorNotSupported && !rt.cudaGetLastError(),
		"a refused function, and its error");
	tap_ok(rt.cudaStreamQuery((CUstream)(uintptr_t)0x1234) == cudaErrorInvalidResourceHandle,
		"an error of the driver has its number");
}

/* ---- properties ---- */

static void properties(void)
{
	cudaError_t (*get)(struct cudaDeviceProp *, int);
	struct cudaDeviceProp p;
	int sms = 0, taken = 0;

	rt_open();
	*(void **)&get = dlsym(rt.handle,
		CUDART_MAJOR == 12 ? "cudaGetDeviceProperties_v2" : "cudaGetDeviceProperties");
	memset(&p, 0xff, sizeof(p));
	tap_ok(!get(&p, 1) && strstr(p.name, "H200") != NULL, "a device's name: %s", p.name);
	rt.cudaDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 1);
	tap_ok(p.major == 9 && p.multiProcessorCount == sms && p.warpSize == 32 &&
			p.maxGridSize[0] == 2147483647 && p.totalGlobalMem == 8ull << 30,
		"values of the device");
	for (size_t i = 0; i < ARRAY_SIZE(p.reserved); i++)
		taken += p.reserved[i] != 0;
	tap_ok(!taken, "reserved fields are 0");
	if (CUDART_MAJOR == 12) {
		struct cudaDeviceProp old;
		const size_t known = offsetof(struct cudaDeviceProp, hostRegisterSupported);
		const unsigned char *rest = (const unsigned char *)&old + known;
		size_t touched = 0;

		memset(&old, 0xff, sizeof(old));
		*(void **)&get = dlsym(rt.handle, "cudaGetDeviceProperties");
		tap_ok(!get(&old, 1) && !memcmp(&old, &p, known),
			"programs of CUDA 11 get the same first fields");
		for (size_t i = 0; i < sizeof(old) - known; i++)
			touched += rest[i] != 0xff;
		tap_ok(!touched, "and no byte behind their struct is written");
	}
	tap_ok(get(&p, 2) == cudaErrorInvalidDevice, "a device that is not there");
}

int main(void)
{
	static const struct part parts[] = {
		{"exports", exports},
		{"registration", registration_is_lazy},
		{"code", code_runs},
		{"devices", devices_have_own_variables},
		{"wrong code", wrong_code_is_named},
		{"threads", threads_are_apart},
		{"configurations", configurations_nest},
		{"errors", errors},
		{"properties", properties},
	};

	tap_begin();
	machine_begin("2xH200-8Gi", "context_create_us=0");
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		part_run(parts[i].name, parts[i].part);
	machine_end();
	tap_end();
	return tap_failures() != 0;
}
