/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file returns entry points by name (cuGetProcAddress) and error texts. cuGetExportTable() has
 * no table but the one that says whose driver this is. The profiler has no effect. Everything works
 * before cuInit() and in forked children.
 */
#include "simgpu/cu.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "cuda/cuda-names.h"
#include "cuda/other-runtime.h"
#include "cuda/own-driver.h"

/* In the order of cuda.def, like the indexes CUDA_ENTRY_*. */
static void *const entries[] = {
#define CU(abi, since, variant, action, stream, params, args, ...) (void *)abi,
#include "cuda/cuda.def"
#undef CU
};

CU_EXPORT CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion,
	cuuint64_t flags, CUdriverProcAddressQueryResult *symbolStatus)
{
	return cuda_name_ask(entries, symbol, pfn, cudaVersion, flags, symbolStatus);
}

CU_EXPORT CUresult cuGetProcAddress(
	const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)
{
	return cuda_name_ask_first(entries, symbol, pfn, cudaVersion, flags);
}

CU_EXPORT CUresult cuGetExportTable(const void **ppExportTable, const CUuuid *pExportTableId)
{
	static const struct own_driver_table own = {sizeof(own), "simulated"};
	static _Atomic bool said;
	char text[512];

	if (ppExportTable && pExportTableId && own_driver_is_asked(pExportTableId)) {
		*ppExportTable = &own;
		return CUDA_SUCCESS;
	}
	if (pExportTableId && other_runtime_asks(pExportTableId) && !atomic_exchange(&said, true)) {
		other_runtime_explain(text, sizeof(text));
		fprintf(stderr, "divvy: simulated device: %s\n", text);
	}
	/* NVIDIA's tables are undocumented, and this driver has none. A driver answers the same. */
	if (ppExportTable)
		*ppExportTable = NULL;
	return CUDA_ERROR_INVALID_VALUE;
}

CU_EXPORT CUresult cuGetErrorName(CUresult error, const char **pStr)
{
	CU_CHECK(pStr, CUDA_ERROR_INVALID_VALUE);
	*pStr = cuda_result_name(error);
	return *pStr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CU_EXPORT CUresult cuGetErrorString(CUresult error, const char **pStr)
{
	CU_CHECK(pStr, CUDA_ERROR_INVALID_VALUE);
	*pStr = cuda_result_text(error);
	return *pStr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult simgpu_cuProfilerStart(struct cu_context *ctx)
{
	return CUDA_SUCCESS;
}

CUresult simgpu_cuProfilerStop(struct cu_context *ctx)
{
	return CUDA_SUCCESS;
}

CUresult simgpu_cuProfilerInitialize(
	const char *configFile, const char *outputFile, CUoutput_mode outputMode)
{
	return CUDA_ERROR_NOT_SUPPORTED;
}
