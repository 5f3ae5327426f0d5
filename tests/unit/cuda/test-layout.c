/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sizes and offsets of the structs that other programs pass, as in the documented ABI of 64-bit
 * Linux. The compiler checks them, also without a CUDA toolkit.
 */
#include "unit.h"

#include "cuda/nvml-types.h"
#include "cuda/types.h"

#define SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), "size of " #type)
#define AT(type, member, bytes) \
	_Static_assert(offsetof(type, member) == (bytes), "offset of " #type "." #member)

SIZE(CUdeviceptr, 8);
SIZE(CUdevice, 4);
SIZE(CUresult, 4);
SIZE(CUuuid, 16);
SIZE(CUipcMemHandle, 64);
SIZE(CUipcEventHandle, 64);
SIZE(CUmemFabricHandle, 64);
SIZE(CUlaunchAttributeValue, 64);
SIZE(CUlaunchAttribute, 72);
AT(CUlaunchAttribute, value, 8);
SIZE(CUlaunchConfig, 56);
AT(CUlaunchConfig, hStream, 32);
AT(CUlaunchConfig, attrs, 40);
SIZE(CUDA_LAUNCH_PARAMS, 56);
AT(CUDA_LAUNCH_PARAMS, hStream, 40);
SIZE(CUDA_KERNEL_NODE_PARAMS_v1, 56);
SIZE(CUDA_KERNEL_NODE_PARAMS, 72);
AT(CUDA_KERNEL_NODE_PARAMS, kernelParams, 40);
SIZE(CUDA_MEMCPY2D, 128);
AT(CUDA_MEMCPY2D, dstXInBytes, 56);
SIZE(CUDA_MEMCPY3D, 200);
SIZE(CUDA_MEMCPY3D_PEER, 200);
SIZE(CUDA_ARRAY_DESCRIPTOR, 24);
SIZE(CUDA_ARRAY3D_DESCRIPTOR, 40);
SIZE(CUmemLocation, 8);
SIZE(CUmemAllocationProp, 32);
AT(CUmemAllocationProp, location, 8);
AT(CUmemAllocationProp, allocFlags, 24);
SIZE(CUmemAccessDesc, 12);
SIZE(CUmemPoolProps, 88);
AT(CUmemPoolProps, maxSize, 24);
SIZE(CUstreamBatchMemOpParams, 48);
SIZE(CUDA_MEM_ALLOC_NODE_PARAMS, 120);
AT(CUDA_MEM_ALLOC_NODE_PARAMS, bytesize, 104);
SIZE(CUgraphNodeParams, 256);
SIZE(CUtensorMap, 128);
SIZE(CUdevprop, 56);

SIZE(nvmlMemory_t, 24);
SIZE(nvmlMemory_v2_t, 40);
AT(nvmlMemory_v2_t, reserved, 16);
AT(nvmlMemory_v2_t, used, 32);
SIZE(nvmlUtilization_t, 8);
SIZE(nvmlPciInfo_v1_t, 32);
SIZE(nvmlPciInfo_v2_t, 36);
SIZE(nvmlPciInfo_t, 68);
SIZE(nvmlPciInfo_v3_t, 68);
AT(nvmlPciInfo_t, busId, 36);
SIZE(nvmlPciInfoExt_t, 64);
SIZE(nvmlBAR1Memory_t, 24);
SIZE(nvmlProcessInfo_v1_t, 16);
SIZE(nvmlProcessInfo_v2_t, 24);
SIZE(nvmlProcessInfo_t, 24);
AT(nvmlProcessInfo_t, gpuInstanceId, 16);
SIZE(nvmlProcessDetail_v1_t, 32);
SIZE(nvmlProcessDetailList_t, 24);
AT(nvmlProcessDetailList_t, procArray, 16);
SIZE(nvmlProcessUtilizationSample_t, 32);
AT(nvmlProcessUtilizationSample_t, smUtil, 16);
SIZE(nvmlProcessUtilizationInfo_v1_t, 40);
SIZE(nvmlProcessesUtilizationInfo_t, 24);
SIZE(nvmlValue_t, 8);
SIZE(nvmlSample_t, 16);
SIZE(nvmlFieldValue_t, 40);
AT(nvmlFieldValue_t, nvmlReturn, 28);
AT(nvmlFieldValue_t, value, 32);
SIZE(nvmlAccountingStats_t, 56);
SIZE(nvmlEventData_t, 32);
SIZE(nvmlDeviceAttributes_t, 40);
SIZE(nvmlEccErrorCounts_t, 32);
SIZE(nvmlUUID_t, 52);

/* The value that a caller puts into `version`: 2 << 24 | 40. */
static void versions_carry_the_size(void **state)
{
	(void)state;
	assert_int_equal(NVML_STRUCT_VERSION(Memory, 2), 0x02000028);
	assert_int_equal(NVML_STRUCT_VERSION(ProcessDetailList, 1), 0x01000018);
	assert_int_equal(NVML_STRUCT_VERSION(ProcessesUtilizationInfo, 1), 0x01000018);
}

/* Stream handles that are numbers, as programs compare them. */
static void special_streams(void **state)
{
	(void)state;
	assert_int_equal((uintptr_t)CU_STREAM_LEGACY, 1);
	assert_int_equal((uintptr_t)CU_STREAM_PER_THREAD, 2);
}

UNIT_MAIN(UNIT(versions_carry_the_size), UNIT(special_streams))
