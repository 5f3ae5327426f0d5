/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A driver without a device, for tests of the libraries in front of it. Its addresses are never
 * dereferenced. Value writes and pools take effect at once. STUB_DEVICES sets the number of
 * devices, STUB_GRAPH_BYTES the memory that each graph allocates. STUB_HOLD_MARKERS delays value
 * writes, STUB_NO_VALUES refuses them. This code does not know of interception.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "cuda/cuda-names.h"
#include "cuda/proto.h"

#define API __attribute__((visibility("default")))
#define DEVICES_MAX 16
/* most contexts on a thread's stack: one thread of a test's pool may push those of all tasks */
#define CURRENT_MAX 64
#define TOTAL_BYTES (UINT64_C(64) << 30)

static int devices_visible[DEVICES_MAX];
static int devices_n;
static _Atomic uint64_t next_address = UINT64_C(0x7f0000000000);
static _Atomic uint64_t next_handle = 0x1000;
static _Atomic uint32_t primary_refs[DEVICES_MAX];
static _Thread_local CUcontext current[CURRENT_MAX];
static _Thread_local int current_n;
static _Thread_local CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
static CUstream _Atomic capturing;

static void *handle(void)
{
	return (void *)(uintptr_t)(atomic_fetch_add(&next_handle, 0x100));
}

static CUdeviceptr take(size_t bytes)
{
	/* like a device: small allocations share blocks, large ones have blocks of their own */
	uint64_t size = bytes < (1u << 20) ? (bytes + 511) & ~UINT64_C(511)
					   : (bytes + (2u << 20) - 1) & ~((UINT64_C(2) << 20) - 1);
	static _Atomic uint64_t small_at = UINT64_C(0x7e0000000000);

	return atomic_fetch_add(bytes < (1u << 20) ? &small_at : &next_address, size);
}

static void uuid_of(int device, CUuuid *ret_uuid)
{
	memset(ret_uuid, 0, sizeof *ret_uuid);
	memcpy(ret_uuid->bytes, "divvystub", 9);
	ret_uuid->bytes[15] = (char)(device + 1);
}

static void uuid_text(int device, char text[static 41])
{
	CUuuid u;
	int at = 4;

	uuid_of(device, &u);
	memcpy(text, "GPU-", 5);
	for (int i = 0; i < 16; i++)
		at += snprintf(text + at, 4, "%s%02x",
			i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
			(unsigned char)u.bytes[i]);
}

API CUresult cuInit(unsigned int Flags)
{
	const char *list = getenv("CUDA_VISIBLE_DEVICES"), *set = getenv("STUB_DEVICES");
	int n = set ? (int)strtol(set, NULL, 10) : 2;

	devices_n = 0;
	for (int i = 0; !list && i < n; i++)
		devices_visible[devices_n++] = i;
	while (list && *list) {
		size_t len = strcspn(list, ",");
		int found = -1;

		for (int i = 0; i < n; i++) {
			char text[41], number[12];

			uuid_text(i, text);
			snprintf(number, sizeof(number), "%d", i);
			if ((len == strlen(number) && !strncmp(list, number, len)) ||
				(len > 4 && !strncasecmp(list, text, len)))
				found = i;
		}
		if (found < 0)
			break;
		devices_visible[devices_n++] = found;
		list += len + (list[len] == ',');
	}
	return devices_n ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

API CUresult cuDriverGetVersion(int *driverVersion)
{
	*driverVersion = 13000;
	return CUDA_SUCCESS;
}

API CUresult cuDeviceGetCount(int *count)
{
	*count = devices_n;
	return CUDA_SUCCESS;
}

API CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	if (ordinal < 0 || ordinal >= devices_n)
		return CUDA_ERROR_INVALID_DEVICE;
	*device = ordinal;
	return CUDA_SUCCESS;
}

API CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice dev)
{
	if (dev < 0 || dev >= devices_n)
		return CUDA_ERROR_INVALID_DEVICE;
	uuid_of(devices_visible[dev], uuid);
	return CUDA_SUCCESS;
}

API CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
	return cuDeviceGetUuid(uuid, dev);
}

API CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
	*bytes = TOTAL_BYTES;
	return CUDA_SUCCESS;
}

API CUresult cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)
{
	*pi = attrib == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT               ? 100
		: attrib == CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR ? 2048
									       : 1;
	return CUDA_SUCCESS;
}

API CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
	*free_bytes = TOTAL_BYTES - (UINT64_C(1) << 30);
	*total = TOTAL_BYTES;
	return CUDA_SUCCESS;
}

/* ---- contexts: the handle carries the device ---- */

static CUcontext context_new(CUdevice dev, bool primary)
{
	uint64_t unique = primary ? 0 : atomic_fetch_add(&next_handle, 0x100);

	return (CUcontext)(uintptr_t)((UINT64_C(0xc) << 40) | unique << 8 | (uint64_t)(dev + 1));
}

static CUdevice device_of(CUcontext context)
{
	return (CUdevice)((uintptr_t)context & 0xff) - 1;
}

API CUresult cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
	if (dev < 0 || dev >= devices_n || current_n == CURRENT_MAX)
		return CUDA_ERROR_INVALID_DEVICE;
	*pctx = context_new(dev, false);
	current[current_n++] = *pctx;
	return CUDA_SUCCESS;
}

#define CREATES(name, params) \
	API CUresult name params \
	{ \
		return cuCtxCreate_v2(pctx, flags, dev); \
	}
CREATES(cuCtxCreate, (CUcontext * pctx, unsigned int flags, CUdevice dev))
CREATES(cuCtxCreate_v3,
	(CUcontext * pctx, CUexecAffinityParam *paramsArray, int numParams, unsigned int flags,
		CUdevice dev))
CREATES(cuCtxCreate_v4,
	(CUcontext * pctx, CUctxCreateParams *ctxCreateParams, unsigned int flags, CUdevice dev))

API CUresult cuCtxGetCurrent(CUcontext *pctx)
{
	*pctx = current_n ? current[current_n - 1] : NULL;
	return CUDA_SUCCESS;
}

API CUresult cuCtxSetCurrent(CUcontext ctx)
{
	if (current_n)
		current_n--;
	if (ctx)
		current[current_n++] = ctx;
	return CUDA_SUCCESS;
}

API CUresult cuCtxPushCurrent_v2(CUcontext ctx)
{
	if (!ctx || current_n == CURRENT_MAX)
		return CUDA_ERROR_INVALID_CONTEXT;
	current[current_n++] = ctx;
	return CUDA_SUCCESS;
}

API CUresult cuCtxPopCurrent_v2(CUcontext *pctx)
{
	if (!current_n)
		return CUDA_ERROR_INVALID_CONTEXT;
	*pctx = current[--current_n];
	return CUDA_SUCCESS;
}

API CUresult cuCtxDestroy_v2(CUcontext ctx)
{
	if (current_n && current[current_n - 1] == ctx)
		current_n--;
	return CUDA_SUCCESS;
}

API CUresult cuCtxGetDevice(CUdevice *device)
{
	if (!current_n)
		return CUDA_ERROR_INVALID_CONTEXT;
	*device = device_of(current[current_n - 1]);
	return CUDA_SUCCESS;
}

API CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
	if (dev < 0 || dev >= devices_n)
		return CUDA_ERROR_INVALID_DEVICE;
	primary_refs[dev]++;
	*pctx = context_new(dev, true);
	return CUDA_SUCCESS;
}

API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
	if (!primary_refs[dev])
		return CUDA_ERROR_INVALID_CONTEXT;
	primary_refs[dev]--;
	return CUDA_SUCCESS;
}

API CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)
{
	*flags = 0;
	*active = primary_refs[dev] > 0;
	return CUDA_SUCCESS;
}

static size_t limits[CU_LIMIT_MAX]; /* each value minus 1024, so all limits start at 1 KiB */

API CUresult cuCtxGetLimit(size_t *pvalue, CUlimit limit)
{
	*pvalue = limits[limit] + 1024;
	return CUDA_SUCCESS;
}

API CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
	limits[limit] = value - 1024;
	return CUDA_SUCCESS;
}

/* ---- streams, markers, capture ---- */

API CUresult cuStreamCreate(CUstream *phStream, unsigned int Flags)
{
	*phStream = handle();
	return CUDA_SUCCESS;
}

API CUresult cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags, int priority)
{
	*phStream = handle();
	return CUDA_SUCCESS;
}

API CUresult cuStreamGetCtx(CUstream hStream, CUcontext *pctx)
{
	return cuCtxGetCurrent(pctx);
}

API CUresult cuStreamGetFlags(CUstream hStream, unsigned int *flags)
{
	*flags = 0;
	return CUDA_SUCCESS;
}

API CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned int Flags)
{
	*pdptr = (uintptr_t)p;
	return CUDA_SUCCESS;
}

API CUresult cuStreamWriteValue32_v2(
	CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags)
{
	const char *held = getenv("STUB_HOLD_MARKERS");

	if (capturing && capturing == stream)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (getenv("STUB_NO_VALUES"))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!held)
		atomic_store((_Atomic uint32_t *)(uintptr_t)addr, value);
	return CUDA_SUCCESS;
}

API CUresult cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData)
{
	fn(userData);
	return CUDA_SUCCESS;
}

API CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *m)
{
	CUstreamCaptureMode before = mode;

	mode = *m;
	*m = before;
	return CUDA_SUCCESS;
}

API CUresult cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode m)
{
	capturing = hStream;
	return CUDA_SUCCESS;
}

API CUresult cuStreamEndCapture(CUstream hStream, CUgraph *phGraph)
{
	capturing = NULL;
	*phGraph = handle();
	return CUDA_SUCCESS;
}

API CUresult cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *status)
{
	*status = capturing && capturing == hStream ? CU_STREAM_CAPTURE_STATUS_ACTIVE
						    : CU_STREAM_CAPTURE_STATUS_NONE;
	return CUDA_SUCCESS;
}

/* ---- memory ---- */

#define ALLOCATES(name, bytes, result, params) \
	API CUresult name params \
	{ \
		*(result) = take(bytes); \
		return CUDA_SUCCESS; \
	}

ALLOCATES(cuMemAlloc_v2, bytesize, dptr, (CUdeviceptr * dptr, size_t bytesize))
ALLOCATES(cuMemAllocManaged, bytesize, dptr,
	(CUdeviceptr * dptr, size_t bytesize, unsigned int flags))

API CUresult cuMemAlloc(CUdeviceptr_v1 *dptr, unsigned int bytesize)
{
	*dptr = 0x400000 + (CUdeviceptr_v1)(atomic_fetch_add(&next_handle, 0x100) & 0xffff);
	return CUDA_SUCCESS;
}

API CUresult cuMemAllocPitch_v2(
	CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height, unsigned int element)
{
	*pPitch = (WidthInBytes + 511) & ~(size_t)511;
	*dptr = take(*pPitch * Height);
	return CUDA_SUCCESS;
}

API CUresult cuMemCreate(CUmemGenericAllocationHandle *h, size_t size,
	const CUmemAllocationProp *prop, unsigned long long flags)
{
	*h = (uintptr_t)handle();
	return CUDA_SUCCESS;
}

/* A mapping's address does not encode its handle: retain returns the handle mapped last. */
static _Atomic uint64_t last_mapped;

API CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle h,
	unsigned long long flags)
{
	last_mapped = h;
	return CUDA_SUCCESS;
}

API CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *h, void *addr)
{
	*h = last_mapped;
	return CUDA_SUCCESS;
}

/* The test uses only whether this descriptor is open. */
API CUresult cuMemExportToShareableHandle(void *shareableHandle, CUmemGenericAllocationHandle h,
	CUmemAllocationHandleType type, unsigned long long flags)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		return CUDA_ERROR_OPERATING_SYSTEM;
	memcpy(shareableHandle, &ends[1], sizeof ends[1]);
	return CUDA_SUCCESS;
}

API CUresult cuMemGetHandleForAddressRange(void *fd, CUdeviceptr dptr, size_t size,
	CUmemRangeHandleType type, unsigned long long flags)
{
	return cuMemExportToShareableHandle(fd, 0, 0, flags);
}

API CUresult cuMemImportFromShareableHandle(
	CUmemGenericAllocationHandle *h, void *osHandle, CUmemAllocationHandleType type)
{
	*h = (uintptr_t)handle();
	return CUDA_SUCCESS;
}

API CUresult cuMemGetAllocationPropertiesFromHandle(
	CUmemAllocationProp *prop, CUmemGenericAllocationHandle h)
{
	memset(prop, 0, sizeof *prop);
	prop->location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	return CUDA_SUCCESS;
}

#define MAKES(name, result, params) \
	API CUresult name params \
	{ \
		*(result) = handle(); \
		return CUDA_SUCCESS; \
	}

MAKES(cuArrayCreate_v2, pHandle, (CUarray * pHandle, const CUDA_ARRAY_DESCRIPTOR *pAllocateArray))
MAKES(cuArray3DCreate_v2, pHandle,
	(CUarray * pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray))
MAKES(cuMipmappedArrayCreate, pHandle,
	(CUmipmappedArray * pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pMipmappedArrayDesc,
		unsigned int numMipmapLevels))
MAKES(cuModuleLoad, module, (CUmodule * module, const char *fname))
MAKES(cuModuleLoadData, module, (CUmodule * module, const void *image))
MAKES(cuImportExternalMemory, extMem_out,
	(CUexternalMemory * extMem_out, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *memHandleDesc))

/* ---- one pool per device: grows by 2 MiB and shrinks only by a trim ---- */

static pthread_mutex_t pool_mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t pool_used, pool_reserved, pool_sizes[1024];
static CUdeviceptr pool_addresses[1024];

API CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
	*pool = (CUmemoryPool)(uintptr_t)(0xb0 + dev);
	return CUDA_SUCCESS;
}

API CUresult cuMemAllocFromPoolAsync(
	CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream)
{
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;

	pthread_mutex_lock(&pool_mutex);
	for (int i = 0; i < 1024 && r != CUDA_SUCCESS; i++) {
		if (pool_addresses[i])
			continue;
		*dptr = pool_addresses[i] = take(bytesize);
		pool_sizes[i] = bytesize;
		pool_used += bytesize;
		while (pool_reserved < pool_used)
			pool_reserved += UINT64_C(2) << 20;
		r = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&pool_mutex);
	return r;
}

API CUresult cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
	return cuMemAllocFromPoolAsync(dptr, bytesize, NULL, hStream);
}

API CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream)
{
	pthread_mutex_lock(&pool_mutex);
	for (int i = 0; i < 1024; i++) {
		if (pool_addresses[i] == dptr) {
			pool_used -= pool_sizes[i];
			pool_addresses[i] = 0;
		}
	}
	pthread_mutex_unlock(&pool_mutex);
	return CUDA_SUCCESS;
}

API CUresult cuMemFree_v2(CUdeviceptr dptr)
{
	return cuMemFreeAsync(dptr, NULL);
}

API CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep)
{
	uint64_t keep = pool_used > minBytesToKeep ? pool_used : minBytesToKeep;

	pthread_mutex_lock(&pool_mutex);
	while (pool_reserved >= keep + (UINT64_C(2) << 20))
		pool_reserved -= UINT64_C(2) << 20;
	pthread_mutex_unlock(&pool_mutex);
	return CUDA_SUCCESS;
}

API CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
	cuuint64_t v = attr == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT ? pool_reserved : pool_used;

	memcpy(value, &v, sizeof v);
	return CUDA_SUCCESS;
}

/* ---- pool pointers imported by other processes, at different addresses ---- */

#define IMPORTED (UINT64_C(1) << 47)

API CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *shareData_out, CUdeviceptr ptr)
{
	memset(shareData_out, 0, sizeof *shareData_out);
	memcpy(shareData_out, &ptr, sizeof ptr);
	return CUDA_SUCCESS;
}

API CUresult cuMemPoolImportPointer(
	CUdeviceptr *ptr_out, CUmemoryPool pool, CUmemPoolPtrExportData *shareData)
{
	memcpy(ptr_out, shareData, sizeof *ptr_out);
	*ptr_out |= IMPORTED;
	return CUDA_SUCCESS;
}

API CUresult cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
	*pbase = dptr;
	*psize = 0;
	for (int i = 0; i < 1024; i++) {
		if (pool_addresses[i] == (dptr & ~IMPORTED))
			*psize = pool_sizes[i];
	}
	return *psize ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- graphs: one node each, which allocates STUB_GRAPH_BYTES if set ---- */

API CUresult cuGraphGetNodes(CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes)
{
	if (nodes)
		nodes[0] = (CUgraphNode)(uintptr_t)1;
	*numNodes = getenv("STUB_GRAPH_BYTES") ? 1 : 0;
	return CUDA_SUCCESS;
}

API CUresult cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType *type)
{
	*type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
	return CUDA_SUCCESS;
}

API CUresult cuGraphMemAllocNodeGetParams(CUgraphNode hNode, CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
	const char *bytes = getenv("STUB_GRAPH_BYTES");

	memset(params, 0, sizeof *params);
	params->bytesize = bytes ? strtoull(bytes, NULL, 10) : 0;
	return CUDA_SUCCESS;
}

static _Atomic bool graph_launched;

API CUresult cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream)
{
	graph_launched = true;
	return CUDA_SUCCESS;
}

API CUresult cuDeviceGraphMemTrim(CUdevice device)
{
	graph_launched = false;
	return CUDA_SUCCESS;
}

API CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value)
{
	const char *bytes = getenv("STUB_GRAPH_BYTES");
	cuuint64_t v = graph_launched && bytes ? strtoull(bytes, NULL, 10) : 0;

	memcpy(value, &v, sizeof v);
	return CUDA_SUCCESS;
}

MAKES(cuGraphCreate, phGraph, (CUgraph * phGraph, unsigned int flags))
MAKES(cuGraphInstantiateWithFlags, phGraphExec,
	(CUgraphExec * phGraphExec, CUgraph hGraph, unsigned long long flags))

/* ---- symbols ---- */

static void *const entries[CUDA_ENTRIES] = {
#define CU(name, since, variant, action, stream, params, args, ...) (void *)name,
#include "cuda/cuda.def"
#undef CU
};

/* This name is in no list of this project, like a function of a newer driver. */
CUresult cuStubNewerThanTheList(int *value);

API CUresult cuStubNewerThanTheList(int *value)
{
	*value = 4711;
	return CUDA_SUCCESS;
}

/* With STUB_PLAIN_FORMS, like a driver with other rules about the per-thread forms. */
API CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
	CUdriverProcAddressQueryResult *symbolStatus)
{
	if (getenv("STUB_PLAIN_FORMS"))
		flags = 0;
	if (strcmp(symbol, "cuStubNewerThanTheList"))
		return cuda_name_ask(entries, symbol, pfn, cudaVersion, flags, symbolStatus);
	*pfn = (void *)cuStubNewerThanTheList;
	if (symbolStatus)
		*symbolStatus = CU_GET_PROC_ADDRESS_SUCCESS;
	return CUDA_SUCCESS;
}

API CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)
{
	return cuda_name_ask_first(entries, symbol, pfn, cudaVersion, flags);
}
