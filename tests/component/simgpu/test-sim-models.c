/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The models of simulated devices have the figures that their makers publish, and occupancy and
 * limits of launches follow from these figures. A library loads the code of each device.
 */
#include "driver.h"
#include "fatbin.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/nvml-proto.h"

#define GIB (UINT64_C(1) << 30)

static const struct model {
	const char *name;
	int major, minor, sms, clock_khz, memory_khz, bus_bits, l2_mib;
	uint64_t bytes;
	int sm_threads, sm_blocks, sm_shared_kib, block_shared_kib, reserved_bytes, has_clusters;
} models[] = {
	{"Tesla T4", 7, 5, 40, 1590000, 5001000, 256, 4, 16 * GIB, 1024, 16, 64, 64, 0, 0},
	{"NVIDIA L4", 8, 9, 58, 2040000, 6251000, 192, 48, 24 * GIB, 1536, 24, 100, 99, 1024, 0},
	{"NVIDIA A100-SXM4-80GB", 8, 0, 108, 1410000, 1593000, 5120, 40, 80 * GIB, 2048, 32, 164,
		163, 1024, 0},
	{"NVIDIA H100 80GB HBM3", 9, 0, 132, 1980000, 2619000, 5120, 50, 80 * GIB, 2048, 32, 228,
		227, 1024, 1},
	{"NVIDIA H200", 9, 0, 132, 1980000, 3201000, 6144, 60, 141 * GIB, 2048, 32, 228, 227, 1024,
		1},
	{"NVIDIA B200", 10, 0, 148, 1965000, 3996000, 8192, 126, 180 * GIB, 2048, 32, 228, 227,
		1024, 1},
};

enum { MODELS = sizeof(models) / sizeof(models[0]) };

static void is(CUdevice device, CUdevice_attribute attribute, const char *name, int expected)
{
	int value;

	NEED(drv.cuDeviceGetAttribute(&value, attribute, device));
	tap_ok(value == expected, "%s: %s is %d, expected %d", models[device].name, name, value,
		expected);
}

#define IS(name, expected) is(i, CU_DEVICE_ATTRIBUTE_##name, #name, expected)

static void attributes(void)
{
	NEED(drv.cuInit(0));
	for (int i = 0; i < MODELS; i++) {
		const struct model *m = &models[i];
		char name[64];
		size_t bytes;

		NEED(drv.cuDeviceGetName(name, sizeof(name), i));
		tap_ok(!strcmp(name, m->name), "device %d is %s", i, name);
		NEED(drv.cuDeviceTotalMem_v2(&bytes, i));
		tap_ok(bytes == m->bytes, "%s: %zu bytes", name, bytes);
		IS(COMPUTE_CAPABILITY_MAJOR, m->major);
		IS(COMPUTE_CAPABILITY_MINOR, m->minor);
		IS(MULTIPROCESSOR_COUNT, m->sms);
		IS(CLOCK_RATE, m->clock_khz);
		IS(MEMORY_CLOCK_RATE, m->memory_khz);
		IS(GLOBAL_MEMORY_BUS_WIDTH, m->bus_bits);
		IS(L2_CACHE_SIZE, m->l2_mib << 20);
		IS(MAX_THREADS_PER_MULTIPROCESSOR, m->sm_threads);
		IS(MAX_BLOCKS_PER_MULTIPROCESSOR, m->sm_blocks);
		IS(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, m->sm_shared_kib << 10);
		IS(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, m->block_shared_kib << 10);
		IS(MAX_SHARED_MEMORY_PER_BLOCK, 48 << 10);
		IS(RESERVED_SHARED_MEMORY_PER_BLOCK, m->reserved_bytes);
		IS(CLUSTER_LAUNCH, m->has_clusters);
	}
}

static void limits(void)
{
	static const char *const text =
		".version 7.0\n.target sm_70\n.address_size 64\n"
		".visible .entry shares() { .shared .align 4 .b8 part[16]; ret; }\n";

	NEED(drv.cuInit(0));
	for (int i = 0; i < MODELS; i++) {
		const struct model *m = &models[i];
		const int most = m->block_shared_kib << 10;
		CUcontext context;
		CUfunction fill, shares;
		CUmodule module;
		int blocks;

		NEED(drv.cuCtxCreate_v2(&context, 0, i));
		fill = kernel_get(load_kernels(), "fill_u32");
		NEED(drv.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, fill, 32, 0));
		tap_ok(blocks == m->sm_blocks, "%s: %d small blocks on a multiprocessor", m->name,
			blocks);
		NEED(drv.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, fill, 1024, 0));
		tap_ok(blocks == m->sm_threads / 1024, "%s: %d large blocks on a multiprocessor",
			m->name, blocks);
		OK(drv.cuFuncSetAttribute(
			fill, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, most));
		EXPECT(CUDA_ERROR_INVALID_VALUE,
			drv.cuFuncSetAttribute(
				fill, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, most + 1));
		NEED(drv.cuModuleLoadData(&module, text));
		shares = kernel_get(module, "shares");
		EXPECT(CUDA_ERROR_INVALID_VALUE,
			drv.cuFuncSetAttribute(shares,
				CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, most - 15));
		EXPECT(CUDA_ERROR_INVALID_VALUE,
			drv.cuFuncSetAttribute(shares,
				CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, INT32_MAX));
		NEED(drv.cuOccupancyMaxActiveBlocksPerMultiprocessor(
			&blocks, fill, 32, (size_t)most));
		tap_ok(blocks == 1, "%s: one block takes all shared memory", m->name);
		NEED(drv.cuCtxDestroy_v2(context));
	}
}

/* ---- NVML ---- */

static void nvml(void)
{
	static const struct {
		unsigned architecture, cores, pcie;
	} expected[MODELS] = {{NVML_DEVICE_ARCH_TURING, 2560, 3}, {NVML_DEVICE_ARCH_ADA, 7424, 4},
		{NVML_DEVICE_ARCH_AMPERE, 6912, 4}, {NVML_DEVICE_ARCH_HOPPER, 16896, 5},
		{NVML_DEVICE_ARCH_HOPPER, 16896, 5}, {NVML_DEVICE_ARCH_BLACKWELL, 18944, 5}};
	void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
#define FIND(name) PFN_##name *call_##name = (PFN_##name *)(uintptr_t)dlsym(library, #name)
	FIND(nvmlInit_v2);
	FIND(nvmlDeviceGetHandleByIndex_v2);
	FIND(nvmlDeviceGetArchitecture);
	FIND(nvmlDeviceGetNumGpuCores);
	FIND(nvmlDeviceGetGpuMaxPcieLinkGeneration);
#undef FIND

	if (!library || !call_nvmlInit_v2 || call_nvmlInit_v2() != NVML_SUCCESS) {
		tap_ok(false, "NVML starts");
		return;
	}
	for (unsigned i = 0; i < MODELS; i++) {
		nvmlDeviceArchitecture_t architecture = 0;
		unsigned cores = 0, pcie = 0;
		nvmlDevice_t device;

		if (call_nvmlDeviceGetHandleByIndex_v2(i, &device) == NVML_SUCCESS) {
			call_nvmlDeviceGetArchitecture(device, &architecture);
			call_nvmlDeviceGetNumGpuCores(device, &cores);
			call_nvmlDeviceGetGpuMaxPcieLinkGeneration(device, &pcie);
		}
		tap_ok(architecture == expected[i].architecture && cores == expected[i].cores &&
				pcie == expected[i].pcie,
			"%s: architecture %u, %u cores, PCIe %u", models[i].name, architecture,
			cores, pcie);
	}
}

/* ---- libraries ---- */

static struct fatbin fat;

/* Two kernels, of which the first of the text takes @bytes of parameters. */
static void add_kernels(unsigned arch, const char *first, const char *second, unsigned bytes)
{
	char text[512];

	snprintf(text, sizeof(text),
		".version 8.6\n.target sm_%u\n.address_size 64\n"
		".visible .entry %s(.param .align 8 .b8 p[%u]) { ret; }\n"
		".visible .entry %s() { ret; }\n",
		arch, first, bytes, second);
	fatbin_add(&fat,
		&(struct fatbin_member){.kind = FATBIN_PTX,
			.arch = arch,
			.packing = FATBIN_ZSTD,
			.bytes = text,
			.n = strlen(text) + 1});
}

/* Bytes of the first parameter of kernel `a` on a device; 0: none; -1: no code for the device. */
static int parameter_on(int device, CUkernel kernel)
{
	CUfunction function;
	CUcontext context;
	size_t offset, size = 0;
	CUresult r;

	NEED(drv.cuCtxCreate_v2(&context, 0, device));
	r = drv.cuKernelGetFunction(&function, kernel);
	if (r == CUDA_SUCCESS && drv.cuFuncGetParamInfo(function, 0, &offset, &size))
		size = 0;
	NEED(drv.cuCtxDestroy_v2(context));
	if (r != CUDA_SUCCESS && r != CUDA_ERROR_NO_BINARY_FOR_GPU)
		tap_ok(false, "cuKernelGetFunction: %d", r);
	return r == CUDA_SUCCESS ? (int)size : -1;
}

/* Devices 0 (7.5) and 1 (8.9) are older than the code for 9.0. */
static void libraries(void)
{
	CUlibrary library;
	CUkernel kernel;
	unsigned n;

	NEED(drv.cuInit(0));
	fatbin_begin(&fat);
	add_kernels(80, "a", "b", 16);
	add_kernels(90, "b", "a", 32);
	OK(drv.cuLibraryLoadData(&library, fat.bytes, NULL, NULL, 0, NULL, NULL, 0));
	NEED(drv.cuLibraryGetKernelCount(&n, library));
	tap_ok(n == 2, "the library has %u kernels", n);
	NEED(drv.cuLibraryGetKernel(&kernel, library, "a"));
	tap_ok(parameter_on(0, kernel) == -1, "no code for a T4");
	tap_ok(parameter_on(1, kernel) == 16, "an L4 takes the code for 8.0");
	tap_ok(parameter_on(3, kernel) == 0, "an H100 takes the kernel's code for 9.0");
	tap_ok(parameter_on(5, kernel) == 0, "a B200 takes the kernel's code for 9.0");
	NEED(drv.cuLibraryGetKernel(&kernel, library, "b"));
	tap_ok(parameter_on(1, kernel) == 0 && parameter_on(4, kernel) == 32,
		"the order of kernels may differ");
	OK(drv.cuLibraryUnload(library));
	fatbin_begin(&fat);
	add_kernels(120, "a", "b", 16);
	EXPECT(CUDA_ERROR_NO_BINARY_FOR_GPU,
		drv.cuLibraryLoadData(&library, fat.bytes, NULL, NULL, 0, NULL, NULL, 0));
}

int main(void)
{
	static const struct part parts[] = {
		{"attributes", attributes},
		{"limits", limits},
		{"NVML", nvml},
		{"libraries", libraries},
	};

	return parts_main("1xT4,1xL4,1xA100,1xH100,1xH200,1xB200", "context_create_us=0", parts,
		sizeof(parts) / sizeof(parts[0]));
}
