/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries of the stub that return a value. Device addresses have a range apart from the host's, so
 * that a value write knows whether memory is behind its address.
 *
 * Allocations of up to 64 KiB are parts of blocks of 2 MiB, as on devices. Allocations of up to 2
 * MiB take a block each, and larger ones take as many blocks as they need. The stub reuses memory
 * of the first two sizes, last freed first.
 */
#include <ctype.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "bench/stub/stub.h"
#include "cuda/cuda-names.h"

#define EXPORT __attribute__((visibility("default")))

#define MEMORY_BYTES (UINT64_C(141) << 30)
#define BLOCK (UINT64_C(2) << 20)
#define PIECE (UINT64_C(64) << 10)
#define FREED_MAX (1u << 18)

/* Ranges of the three sizes; one range is far larger than all allocations of any bench. */
#define RANGE (UINT64_C(1) << 43)
#define PIECES (UINT64_C(1) << 45)
#define BLOCKS (PIECES + RANGE)
#define LARGE (BLOCKS + RANGE)
#define DEVICE_END (LARGE + RANGE)

struct CUctx_st {
	int unused;
};
static struct CUctx_st context;
static __thread CUcontext current;

struct CUstream_st {
	unsigned int flags;
};

static char handle; /* its address stands for every module and function */
static _Atomic uint64_t writes;

static uint64_t count_writes(void)
{
	return atomic_load_explicit(&writes, memory_order_relaxed);
}

EXPORT extern const struct stub stub;
const struct stub stub = {
	.launch = cuLaunchKernel,
	.alloc = cuMemAlloc_v2,
	.free = cuMemFree_v2,
	.writes = count_writes,
};

/* ---- the device ---- */

EXPORT CUresult cuDriverGetVersion(int *driverVersion)
{
	*driverVersion = CUDA_VERSION;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetCount(int *count)
{
	*count = 1;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	if (ordinal)
		return CUDA_ERROR_INVALID_DEVICE;
	*device = 0;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetName(char *name, int len, CUdevice dev)
{
	if (len > 0) {
		memset(name, 0, (size_t)len);
		strncat(name, "driver stub", (size_t)len - 1);
	}
	return CUDA_SUCCESS;
}

static int digit(char c)
{
	return isdigit((unsigned char)c) ? c - '0' : tolower((unsigned char)c) - 'a' + 10;
}

EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
	const char *text = getenv("STUB_UUID");
	size_t n = 0;

	memset(uuid, 0, sizeof(*uuid));
	if (text && !strncmp(text, "GPU-", 4))
		text += 4;
	for (; text && *text && n < 32; text++) {
		unsigned char *byte = (unsigned char *)&uuid->bytes[n / 2];

		if (!isxdigit((unsigned char)*text))
			continue;
		*byte = (unsigned char)(n % 2 ? *byte | digit(*text) : digit(*text) << 4);
		n++;
	}
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice dev)
{
	return cuDeviceGetUuid_v2(uuid, dev);
}

EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
	*bytes = MEMORY_BYTES;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)
{
	*pi = 1;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemGetInfo_v2(size_t *free, size_t *total)
{
	*free = *total = MEMORY_BYTES;
	return CUDA_SUCCESS;
}

/* ---- contexts, streams, modules ---- */

EXPORT CUresult cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
	*pctx = current = &context;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
	*pctx = &context;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSetCurrent(CUcontext ctx)
{
	current = ctx;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetCurrent(CUcontext *pctx)
{
	*pctx = current;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxPushCurrent_v2(CUcontext ctx)
{
	current = ctx;
	return CUDA_SUCCESS;
}

/* The stub has one context only, so that a pop changes nothing. */
EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *pctx)
{
	if (pctx)
		*pctx = current;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetDevice(CUdevice *device)
{
	*device = 0;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamCreate(CUstream *phStream, unsigned int Flags)
{
	CUstream stream = malloc(sizeof(*stream));

	if (!stream)
		return CUDA_ERROR_OUT_OF_MEMORY;
	stream->flags = Flags;
	*phStream = stream;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamDestroy_v2(CUstream hStream)
{
	free(hStream);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamGetCtx(CUstream hStream, CUcontext *pctx)
{
	*pctx = &context;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamGetFlags(CUstream hStream, unsigned int *flags)
{
	*flags = (uintptr_t)hStream > 2 ? hStream->flags : 0;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *captureStatus)
{
	*captureStatus = CU_STREAM_CAPTURE_STATUS_NONE;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
	*module = (CUmodule)&handle;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name)
{
	*hfunc = (CUfunction)&handle;
	return CUDA_SUCCESS;
}

/* ---- work ---- */

EXPORT CUresult cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
	unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
	unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream, void **kernelParams,
	void **extra)
{
	return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamWriteValue32_v2(
	CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags)
{
	atomic_fetch_add_explicit(&writes, 1, memory_order_relaxed);
	if (addr < PIECES || addr >= DEVICE_END)
		atomic_store_explicit(
			(_Atomic uint32_t *)(uintptr_t)addr, value, memory_order_release);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamWriteValue32_v2_ptsz(
	CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags)
{
	return cuStreamWriteValue32_v2(stream, addr, value, flags);
}

EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned int Flags)
{
	*pdptr = (CUdeviceptr)(uintptr_t)p;
	return CUDA_SUCCESS;
}

/* ---- memory ---- */

struct heap {
	uint64_t next, size;
	uint32_t n;
	uint64_t freed[FREED_MAX];
};

static struct heap pieces = {.next = PIECES, .size = PIECE};
static struct heap blocks = {.next = BLOCKS, .size = BLOCK};
static uint64_t large = LARGE;

static uint64_t heap_take(struct heap *heap)
{
	if (heap->n)
		return heap->freed[--heap->n];
	heap->next += heap->size;
	return heap->next - heap->size;
}

static void heap_give(struct heap *heap, uint64_t address)
{
	if (heap->n < FREED_MAX)
		heap->freed[heap->n++] = address;
}

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
	if (!bytesize)
		return CUDA_ERROR_INVALID_VALUE;
	if (bytesize <= BLOCK) {
		*dptr = heap_take(bytesize <= PIECE ? &pieces : &blocks);
	} else {
		*dptr = large;
		large += (bytesize + BLOCK - 1) / BLOCK * BLOCK;
	}
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemFree_v2(CUdeviceptr dptr)
{
	if (dptr < BLOCKS)
		heap_give(&pieces, dptr);
	else if (dptr < LARGE)
		heap_give(&blocks, dptr);
	return CUDA_SUCCESS;
}

/* ---- entries by name ---- */

/* The order is that of cuda.def, as in cuda_names. */
static void *const entries[] = {
#define CU(name, since, variant, action, stream, params, args, ...) (void *)name,
#include "cuda/cuda.def"
#undef CU
};

EXPORT CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion,
	cuuint64_t flags, CUdriverProcAddressQueryResult *symbolStatus)
{
	return cuda_name_ask(entries, symbol, pfn, cudaVersion, flags, symbolStatus);
}

EXPORT CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)
{
	return cuda_name_ask_first(entries, symbol, pfn, cudaVersion, flags);
}
