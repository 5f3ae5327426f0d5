// SPDX-License-Identifier: Apache-2.0
// What programs ask the runtime itself: versions, properties, attributes, errors, addresses, entry
// points of the driver, kernels by handle, launch attributes, reset.
#include <cstring>
#include <cuda.h>

#include "check.h"

__global__ void fill(int *v, int value)
{
	extern __shared__ int part[];

	part[threadIdx.x] = value;
	__syncthreads();
	v[blockIdx.x * blockDim.x + threadIdx.x] = part[blockDim.x - 1 - threadIdx.x];
}

static void devices()
{
	int n = 0, version = 0, driver = 0, value = 0, found = -1;
	char id[32];
	cudaDeviceProp p;
	size_t free_bytes, total;

	DO(cudaRuntimeGetVersion(&version));
	DO(cudaDriverGetVersion(&driver));
	MUST(version / 1000 == CUDART_VERSION / 1000 && driver >= 12000);
	DO(cudaGetDeviceCount(&n));
	MUST(n == 1);
	DO(cudaGetDeviceProperties(&p, 0));
	MUST(strlen(p.name) > 3 && p.major >= 7 && p.warpSize == 32 && p.maxThreadsPerBlock == 1024);
	DO(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0));
	MUST(value == p.multiProcessorCount && value > 0);
	DO(cudaMemGetInfo(&free_bytes, &total));
	MUST(total == p.totalGlobalMem && free_bytes <= total);
	DO(cudaDeviceGetPCIBusId(id, sizeof(id), 0));
	DO(cudaDeviceGetByPCIBusId(&found, id));
	MUST(found == 0);
	MUST(cudaGetDeviceProperties(&p, 1) == cudaErrorInvalidDevice);
	cudaGetLastError();
}

static void errors()
{
	MUST(!strcmp(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation"));
	MUST(!strcmp(cudaGetErrorName(static_cast<cudaError_t>(12345)), "unrecognized error code"));
	MUST(strlen(cudaGetErrorString(cudaErrorIllegalAddress)) > 5);
	MUST(cudaMalloc(static_cast<void **>(nullptr), 4) == cudaErrorInvalidValue);
	MUST(cudaGetLastError() == cudaErrorInvalidValue);
	DO(cudaGetLastError());
}

static void addresses()
{
	int on_stack, *d, *h, *mapped;
	cudaPointerAttributes a;

	DO(cudaMalloc(&d, 64));
	DO(cudaMallocHost(&h, 64));
	DO(cudaPointerGetAttributes(&a, d));
	MUST(a.type == cudaMemoryTypeDevice && a.device == 0 && a.devicePointer == d);
	DO(cudaPointerGetAttributes(&a, h));
	MUST(a.type == cudaMemoryTypeHost);
	DO(cudaPointerGetAttributes(&a, &on_stack));
	MUST(a.type == cudaMemoryTypeUnregistered);
	mapped = static_cast<int *>(malloc(1 << 16));
	DO(cudaHostRegister(mapped, 1 << 16, cudaHostRegisterDefault));
	DO(cudaPointerGetAttributes(&a, mapped));
	MUST(a.type == cudaMemoryTypeHost);
	DO(cudaHostUnregister(mapped));
	free(mapped);
	DO(cudaFreeHost(h));
	DO(cudaFree(d));
}

static void entry_points()
{
	cudaDriverEntryPointQueryResult result;
	CUresult (*count)(int *) = nullptr;
	int n = 0;

	DO(cudaGetDriverEntryPointByVersion("cuDeviceGetCount", reinterpret_cast<void **>(&count),
		12000, cudaEnableDefault, &result));
	MUST(result == cudaDriverEntryPointSuccess && count);
	MUST(count(&n) == CUDA_SUCCESS && n == 1);
	DO(cudaGetDriverEntryPointByVersion("cuNoSuchFunction", reinterpret_cast<void **>(&count),
		12000, cudaEnableDefault, &result));
	MUST(result == cudaDriverEntryPointSymbolNotFound && !count);
}

static void kernels()
{
	int value = 9, blocks = 0, got[64], *d;
	cudaLaunchAttribute attribute = {};
	cudaLaunchConfig_t config = {};
	cudaFuncAttributes a;
	cudaKernel_t kernel;
	const char *name;
	void *args[] = {&d, &value};

	DO(cudaMalloc(&d, sizeof(got)));
	DO(cudaFuncGetAttributes(&a, fill));
	MUST(a.maxThreadsPerBlock == 1024);
	DO(cudaFuncSetAttribute(fill, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 << 10));
	DO(cudaFuncGetAttributes(&a, fill));
	MUST(a.maxDynamicSharedSizeBytes == 64 << 10);
	DO(cudaOccupancyMaxPotentialBlockSize(&blocks, &value, fill));
	MUST(blocks > 0 && value > 0);
	value = 9;
	config.gridDim = dim3(2);
	config.blockDim = dim3(32);
	config.dynamicSmemBytes = 128;
	attribute.id = cudaLaunchAttributePriority;
	config.attrs = &attribute;
	config.numAttrs = 1;
	DO(cudaLaunchKernelExC(&config, reinterpret_cast<const void *>(fill), args));
	DO(cudaMemcpy(got, d, sizeof(got), cudaMemcpyDeviceToHost));
	MUST(got[0] == 9 && got[63] == 9);
	DO(cudaGetKernel(&kernel, fill));
	DO(cudaFuncGetName(&name, reinterpret_cast<const void *>(fill)));
	MUST(strstr(name, "fill"));
	value = 10;
	DO(cudaLaunchKernel(static_cast<const void *>(kernel), 2, 32, args, 128, nullptr));
	DO(cudaMemcpy(got, d, sizeof(got), cudaMemcpyDeviceToHost));
	MUST(got[31] == 10);
	MUST(cudaLaunchKernel(static_cast<const void *>(got), 1, 1, args, 0, nullptr) ==
		cudaErrorInvalidDeviceFunction);
	cudaGetLastError();
}

int main()
{
	int *d;

	devices();
	errors();
	addresses();
	entry_points();
	kernels();
	DO(cudaDeviceReset());
	kernels();
	DO(cudaMalloc(&d, 64));
	DO(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync));
	return right("runtime");
}
