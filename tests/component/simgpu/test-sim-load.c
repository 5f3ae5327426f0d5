/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How programs load code into the simulated driver: fat binaries from memory, from files, through
 * libraries and through the linker, and the messages of the JIT compiler about faulty code.
 */
#include "driver.h"
#include "fatbin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

enum { N = 256 };

static struct fatbin fat;

/* The test kernels, compressed with Zstandard as compilers do by default. */
static void pack_kernels(void)
{
	const char *text = kernels_text();

	fatbin_begin(&fat);
	fatbin_add(&fat,
		&(struct fatbin_member){.kind = FATBIN_PTX,
			.arch = 70,
			.packing = FATBIN_ZSTD,
			.more_header = 16,
			.bytes = text,
			.n = strlen(text) + 1});
}

static bool fills(CUfunction fill)
{
	CUdeviceptr p = device_memory(4 * N);
	unsigned long long n = N;
	unsigned value = 7, host[N];
	void *params[] = {&p, &value, &n};
	bool is_right = true;

	NEED(drv.cuLaunchKernel(fill, 1, 1, 1, N, 1, 1, 0, NULL, params, NULL));
	NEED(drv.cuMemcpyDtoH_v2(host, p, sizeof(host)));
	for (unsigned i = 0; i < N; i++)
		is_right = is_right && host[i] == value;
	NEED(drv.cuMemFree_v2(p));
	return is_right;
}

static bool module_fills(CUmodule module)
{
	bool is_right = fills(kernel_get(module, "fill_u32"));

	NEED(drv.cuModuleUnload(module));
	return is_right;
}

static bool library_fills(CUlibrary library)
{
	CUfunction function;
	CUkernel kernel;
	bool is_right;

	NEED(drv.cuLibraryGetKernel(&kernel, library, "fill_u32"));
	NEED(drv.cuKernelGetFunction(&function, kernel));
	is_right = fills(function);
	NEED(drv.cuLibraryUnload(library));
	return is_right;
}

static void write_file(const char *path, const void *bytes, size_t n)
{
	_cleanup_fclose_ FILE *f = fopen(path, "we");

	if (!f || fwrite(bytes, n, 1, f) != 1) {
		tap_ok(false, "write %s", path);
		_exit(0);
	}
}

static void fat_binaries(void)
{
	CUcontext context = begin_context();
	struct fatbin_wrapper wrapper;
	char path[128];
	CUmodule module;
	CUlibrary library;

	pack_kernels();
	wrapper = fatbin_wrap(&fat, 1);
	NEED(drv.cuModuleLoadData(&module, fat.bytes));
	tap_ok(module_fills(module), "cuModuleLoadData loads a fat binary");
	NEED(drv.cuModuleLoadData(&module, &wrapper));
	tap_ok(module_fills(module), "cuModuleLoadData loads a wrapper");
	NEED(drv.cuModuleLoadDataEx(&module, fat.bytes, 0, NULL, NULL));
	tap_ok(module_fills(module), "cuModuleLoadDataEx loads a fat binary");
	NEED(drv.cuModuleLoadFatBinary(&module, fat.bytes));
	tap_ok(module_fills(module), "cuModuleLoadFatBinary loads a fat binary");
	NEED(drv.cuLibraryLoadData(&library, &wrapper, NULL, NULL, 0, NULL, NULL, 0));
	tap_ok(library_fills(library), "cuLibraryLoadData loads a wrapper");
	snprintf(path, sizeof(path), "%s/kernels.fatbin", machine_dir());
	write_file(path, fat.bytes, fat.n);
	NEED(drv.cuModuleLoad(&module, path));
	tap_ok(module_fills(module), "cuModuleLoad loads a file");
	NEED(drv.cuLibraryLoadFromFile(&library, path, NULL, NULL, 0, NULL, NULL, 0));
	tap_ok(library_fills(library), "cuLibraryLoadFromFile loads a file");
	unlink(path);
	OK(drv.cuCtxDestroy_v2(context));
}

/* A file that states more bytes than it has, or an address, must not end the program. */
static void damaged_files(void)
{
	static uint8_t cubin[CUBIN_MAX];
	CUcontext context = begin_context();
	size_t n = cubin_make(cubin, 90, "only", 0x45, 5000);
	const struct fatbin_wrapper wrapper = {
		.magic = 0x466243b1, .version = 1, .data = (void *)(uintptr_t)8};
	const uint64_t far = UINT64_C(1) << 32;
	char path[128];

	pack_kernels();
	memcpy(fat.bytes + 8, &far, sizeof(far));
	memcpy(cubin + 40, &far, sizeof(far)); /* where the section headers are */
	const struct {
		const char *name;
		const void *bytes;
		size_t n;
	} files[] = {
		{"a fat binary", fat.bytes, fat.n},
		{"a cubin", cubin, n},
		{"a wrapper", &wrapper, sizeof(wrapper)},
	};

	snprintf(path, sizeof(path), "%s/damaged", machine_dir());
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		CUmodule module;
		CUlibrary library;

		tap_note("%s", files[i].name);
		write_file(path, files[i].bytes, files[i].n);
		EXPECT(CUDA_ERROR_INVALID_IMAGE, drv.cuModuleLoad(&module, path));
		EXPECT(CUDA_ERROR_INVALID_IMAGE,
			drv.cuLibraryLoadFromFile(&library, path, NULL, NULL, 0, NULL, NULL, 0));
	}
	unlink(path);
	OK(drv.cuCtxDestroy_v2(context));
}

static void linker(void)
{
	CUcontext context = begin_context();
	static const char *const more =
		".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry more() { ret; }\n";
	static const char *const weak = ".version 7.0\n.target sm_70\n.address_size 64\n"
					".weak .func copied(.param .b32 x) { { ret; } }\n";
	static const char *const archive = "!<arch>\nsome.o/";
	static uint8_t cubin[CUBIN_MAX];
	size_t n = cubin_make(cubin, 90, "only", 0x45, 5000), size;
	struct fatbin_wrapper wrapper;
	CUlinkState state;
	CUmodule module;
	void *image;

	pack_kernels();
	NEED(drv.cuLinkCreate_v2(0, NULL, NULL, &state));
	OK(drv.cuLinkAddData_v2(
		state, CU_JIT_INPUT_FATBINARY, fat.bytes, fat.n, "kernels", 0, NULL, NULL));
	OK(drv.cuLinkAddData_v2(state, CU_JIT_INPUT_PTX, (void *)(uintptr_t)more, strlen(more) + 1,
		"more", 0, NULL, NULL));
	EXPECT(CUDA_ERROR_NOT_SUPPORTED,
		drv.cuLinkAddData_v2(state, CU_JIT_INPUT_CUBIN, cubin, n, "cubin", 0, NULL, NULL));
	for (int i = 0; i < 2; i++)
		OK(drv.cuLinkAddData_v2(state, CU_JIT_INPUT_PTX, (void *)(uintptr_t)weak,
			strlen(weak) + 1, "weak", 0, NULL, NULL));
	OK(drv.cuLinkAddData_v2(state, CU_JIT_INPUT_LIBRARY, (void *)(uintptr_t)archive,
		strlen(archive), "archive", 0, NULL, NULL));
	EXPECT(CUDA_ERROR_INVALID_IMAGE,
		drv.cuLinkAddData_v2(state, CU_JIT_INPUT_LIBRARY, (void *)(uintptr_t)more,
			strlen(more), "no archive", 0, NULL, NULL));
	OK(drv.cuLinkComplete(state, &image, &size));
	NEED(drv.cuModuleLoadData(&module, image));
	kernel_get(module, "more");
	tap_ok(module_fills(module), "the linker joins the PTX of a fat binary with other PTX");
	OK(drv.cuLinkDestroy(state));

	NEED(drv.cuLinkCreate_v2(0, NULL, NULL, &state));
	wrapper = fatbin_wrap(&fat, 1);
	EXPECT(CUDA_ERROR_INVALID_IMAGE,
		drv.cuLinkAddData_v2(state, CU_JIT_INPUT_FATBINARY, &wrapper, sizeof(wrapper),
			"an address", 0, NULL, NULL));
	EXPECT(CUDA_ERROR_INVALID_IMAGE,
		drv.cuLinkAddData_v2(state, CU_JIT_INPUT_FATBINARY, fat.bytes, fat.n - 1, "cut off",
			0, NULL, NULL));
	EXPECT(CUDA_ERROR_INVALID_IMAGE,
		drv.cuLinkAddData_v2(
			state, CU_JIT_INPUT_CUBIN, cubin, n - 1, "cut off", 0, NULL, NULL));
	OK(drv.cuLinkAddData_v2(state, CU_JIT_INPUT_CUBIN, cubin, n, "cubin", 0, NULL, NULL));
	OK(drv.cuLinkComplete(state, &image, &size));
	tap_ok(size == n && !memcmp(image, cubin, n), "a cubin alone is its own result");
	NEED(drv.cuModuleLoadData(&module, image));
	NEED(drv.cuFuncGetParamInfo(kernel_get(module, "only"), 1, &size, &n));
	tap_ok(size == 8 && n == 5000, "a parameter of more than 4 KiB has its size");
	OK(drv.cuLinkDestroy(state));
	OK(drv.cuCtxDestroy_v2(context));
}

/* ---- messages ---- */

static char error_log[512], info_log[512];

static CUjit_option options[] = {CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
	CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_ERROR_LOG_BUFFER};

static void set_values(void *values[4], size_t error_bytes)
{
	memset(error_log, 'x', sizeof(error_log));
	memset(info_log, 'x', sizeof(info_log));
	values[0] = info_log;
	values[1] = (void *)sizeof(info_log);
	values[2] = (void *)(uintptr_t)error_bytes;
	values[3] = error_log;
}

static void check_message(void *const values[4], const char *part)
{
	tap_ok(memchr(error_log, '\0', sizeof(error_log)) && strstr(error_log, part) &&
			(uintptr_t)values[2] == strlen(error_log),
		"%zu bytes: %.200s", (size_t)(uintptr_t)values[2], error_log);
	tap_ok(info_log[0] == '\0' && !values[1], "nothing else is logged");
}

static void messages(void)
{
	CUcontext context = begin_context();
	static const char *const faulty =
		".version 7.0\n.target sm_70\n.address_size 64\n\n.entry k(.param .u65 x) { ret; }\n";
	static const char *const newer = ".version 9.9\n.target sm_70\n.address_size 64\n";
	static const char *const other = ".version 8.8\n.target sm_100\n.address_size 64\n";
	static const char *const right = ".version 7.0\n.target sm_70\n.address_size 64\n";
	void *values[4];
	CUlibrary library;
	CUmodule module;
	CUlinkState state;

	set_values(values, sizeof(error_log));
	EXPECT(CUDA_ERROR_INVALID_PTX, drv.cuModuleLoadDataEx(&module, faulty, 4, options, values));
	check_message(values, "simulated ptx input, line 5; error   : ");
	set_values(values, sizeof(error_log));
	EXPECT(CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
		drv.cuModuleLoadDataEx(&module, newer, 4, options, values));
	check_message(values, "line 1; error   : Unsupported .version 9.9");
	set_values(values, sizeof(error_log));
	EXPECT(CUDA_ERROR_NO_BINARY_FOR_GPU,
		drv.cuLibraryLoadData(&library, other, options, values, 4, NULL, NULL, 0));
	check_message(
		values, "line 2; error   : .target sm_100 does not run on this device, sm_90");
	set_values(values, 10);
	EXPECT(CUDA_ERROR_INVALID_PTX, drv.cuModuleLoadDataEx(&module, faulty, 4, options, values));
	tap_ok(!strcmp(error_log, "simulated") && (uintptr_t)values[2] == 9 && error_log[10] == 'x',
		"a message is cut where its buffer ends");
	set_values(values, 0);
	EXPECT(CUDA_ERROR_INVALID_PTX, drv.cuModuleLoadDataEx(&module, faulty, 4, options, values));
	tap_ok(error_log[0] == 'x' && !values[2], "an empty buffer stays untouched");
	set_values(values, sizeof(error_log));
	OK(drv.cuModuleLoadDataEx(&module, right, 4, options, values));
	check_message(values, "");

	set_values(values, sizeof(error_log));
	NEED(drv.cuLinkCreate_v2(4, options, values, &state));
	check_message(values, "");
	EXPECT(CUDA_ERROR_INVALID_PTX,
		drv.cuLinkAddData_v2(state, CU_JIT_INPUT_PTX, (void *)(uintptr_t)faulty,
			strlen(faulty) + 1, "faulty", 0, NULL, NULL));
	/* A remote linker has no log. */
	check_message(values, is_remote() ? "" : ", line 5;");
	OK(drv.cuLinkDestroy(state));
	OK(drv.cuCtxDestroy_v2(context));
}

int main(void)
{
	static const struct part parts[] = {
		{"fat binaries", fat_binaries},
		{"damaged files", damaged_files},
		{"linker", linker},
		{"messages", messages},
	};

	return parts_main(
		"1xH200-8Gi", "context_create_us=0", parts, sizeof(parts) / sizeof(parts[0]));
}
