/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The types of the CUDA runtime API (12.x and 13.x) that differ from the driver's, with their
 * documented names, numbers and layouts. This file needs no CUDA toolkit, and must not be included
 * beside a toolkit's headers, because the names are the same. CUDART_MAJOR, 12 or 13, selects the
 * library that is built: the properties of devices have two layouts.
 */
/* clang-format off */
#ifndef CUDART_CUDART_TYPES_H
#define CUDART_CUDART_TYPES_H

#include "cuda/types.h"

#if CUDART_MAJOR == 12
#define CUDART_VERSION 12090
#elif CUDART_MAJOR == 13
#define CUDART_VERSION 13000
#else
#error "CUDART_MAJOR must be 12 or 13"
#endif

typedef enum cudaError {
#define RT_ERROR(name, number, text) name = number,
#include "cudart/cudart-error.def"
#undef RT_ERROR
} cudaError_t;

enum cudaMemcpyKind {
	cudaMemcpyHostToHost = 0, cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2,
	cudaMemcpyDeviceToDevice = 3, cudaMemcpyDefault = 4
};
enum cudaMemoryType {
	cudaMemoryTypeUnregistered = 0, cudaMemoryTypeHost = 1, cudaMemoryTypeDevice = 2,
	cudaMemoryTypeManaged = 3
};
enum cudaChannelFormatKind {
	cudaChannelFormatKindSigned = 0, cudaChannelFormatKindUnsigned = 1,
	cudaChannelFormatKindFloat = 2, cudaChannelFormatKindNone = 3,
	cudaChannelFormatKindUnsignedNormalized8X1 = 5,
	cudaChannelFormatKindSignedNormalized16X4 = 16
};

struct dim3 {
	unsigned int x, y, z;
};
struct cudaChannelFormatDesc {
	int x, y, z, w;
	enum cudaChannelFormatKind f;
};
struct cudaExtent {
	size_t width, height, depth;
};
struct cudaPos {
	size_t x, y, z;
};
struct cudaPitchedPtr {
	void *ptr;
	size_t pitch, xsize, ysize;
};
struct cudaMemcpy3DParms {
	CUarray srcArray;
	struct cudaPos srcPos;
	struct cudaPitchedPtr srcPtr;
	CUarray dstArray;
	struct cudaPos dstPos;
	struct cudaPitchedPtr dstPtr;
	struct cudaExtent extent;
	enum cudaMemcpyKind kind;
};
struct cudaMemcpy3DPeerParms {
	CUarray srcArray;
	struct cudaPos srcPos;
	struct cudaPitchedPtr srcPtr;
	int srcDevice;
	CUarray dstArray;
	struct cudaPos dstPos;
	struct cudaPitchedPtr dstPtr;
	int dstDevice;
	struct cudaExtent extent;
};
struct cudaPointerAttributes {
	enum cudaMemoryType type;
	int device;
	void *devicePointer, *hostPointer;
#if CUDART_MAJOR >= 13
	long reserved[8];
#endif
};
struct cudaFuncAttributes {
	size_t sharedSizeBytes, constSizeBytes, localSizeBytes;
	int maxThreadsPerBlock, numRegs, ptxVersion, binaryVersion, cacheModeCA;
	int maxDynamicSharedSizeBytes, preferredShmemCarveout, clusterDimMustBeSet;
	int requiredClusterWidth, requiredClusterHeight, requiredClusterDepth;
	int clusterSchedulingPolicyPreference, nonPortableClusterSizeAllowed, reserved[16];
};
struct cudaKernelNodeParams {
	void *func;
	struct dim3 gridDim, blockDim;
	unsigned int sharedMemBytes;
	void **kernelParams, **extra;
};
struct cudaMemcpyNodeParams {
	int flags, reserved[3];
	struct cudaMemcpy3DParms copyParams;
};
struct cudaConditionalNodeParams {
	CUgraphConditionalHandle handle;
	CUgraphConditionalNodeType type;
	unsigned int size;
	CUgraph *phGraph_out;
};
struct cudaGraphNodeParams {
	CUgraphNodeType type;
	int reserved0[3];
	union {
		long long reserved1[29];
		struct cudaKernelNodeParams kernel;
		struct cudaMemcpyNodeParams memcpy;
		CUDA_MEMSET_NODE_PARAMS memset;
		CUDA_HOST_NODE_PARAMS host;
		CUDA_CHILD_GRAPH_NODE_PARAMS graph;
		CUDA_EVENT_WAIT_NODE_PARAMS eventWait;
		CUDA_EVENT_RECORD_NODE_PARAMS eventRecord;
		CUDA_MEM_ALLOC_NODE_PARAMS alloc;
		CUDA_MEM_FREE_NODE_PARAMS free;
		struct cudaConditionalNodeParams conditional;
	};
	long long reserved2;
};
struct cudaLaunchConfig {
	struct dim3 gridDim, blockDim;
	size_t dynamicSmemBytes;
	CUstream stream;
	CUlaunchAttribute *attrs;
	unsigned int numAttrs;
};
struct cudaResourceDesc {
	CUresourcetype resType;
	union {
		struct {
			CUarray array;
		} array;
		struct {
			CUmipmappedArray mipmap;
		} mipmap;
		struct {
			void *devPtr;
			struct cudaChannelFormatDesc desc;
			size_t sizeInBytes;
		} linear;
		struct {
			void *devPtr;
			struct cudaChannelFormatDesc desc;
			size_t width, height, pitchInBytes;
		} pitch2D;
#if CUDART_MAJOR >= 13
		struct {
			int reserved[32];
		} reserved;
#endif
	} res;
#if CUDART_MAJOR >= 13
	unsigned int flags;
#endif
};
struct cudaTextureDesc {
	CUaddress_mode addressMode[3];
	CUfilter_mode filterMode;
	int readMode; /* 0: as elements; 1: as normalised numbers */
	int sRGB;
	float borderColor[4];
	int normalizedCoords;
	unsigned int maxAnisotropy;
	CUfilter_mode mipmapFilterMode;
	float mipmapLevelBias, minMipmapLevelClamp, maxMipmapLevelClamp;
	int disableTrilinearOptimization, seamlessCubemap;
};

/* Fields that only one of the two libraries has. */
#if CUDART_MAJOR == 12
#define RT_12(...) __VA_ARGS__
#define RT_13(...)
#else
#define RT_12(...)
#define RT_13(...) __VA_ARGS__
#endif

struct cudaDeviceProp {
	char name[256];
	CUuuid uuid;
	char luid[8];
	unsigned int luidDeviceNodeMask;
	size_t totalGlobalMem, sharedMemPerBlock;
	int regsPerBlock, warpSize;
	size_t memPitch;
	int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3];
	RT_12(int clockRate;)
	size_t totalConstMem;
	int major, minor;
	size_t textureAlignment, texturePitchAlignment;
	RT_12(int deviceOverlap;)
	int multiProcessorCount;
	RT_12(int kernelExecTimeoutEnabled;)
	int integrated, canMapHostMemory;
	RT_12(int computeMode;)
	int maxTexture1D, maxTexture1DMipmap;
	RT_12(int maxTexture1DLinear;)
	int maxTexture2D[2], maxTexture2DMipmap[2], maxTexture2DLinear[3], maxTexture2DGather[2];
	int maxTexture3D[3], maxTexture3DAlt[3], maxTextureCubemap, maxTexture1DLayered[2];
	int maxTexture2DLayered[3], maxTextureCubemapLayered[2], maxSurface1D, maxSurface2D[2];
	int maxSurface3D[3], maxSurface1DLayered[2], maxSurface2DLayered[3], maxSurfaceCubemap;
	int maxSurfaceCubemapLayered[2];
	size_t surfaceAlignment;
	int concurrentKernels, ECCEnabled, pciBusID, pciDeviceID, pciDomainID, tccDriver;
	int asyncEngineCount, unifiedAddressing;
	RT_12(int memoryClockRate;)
	int memoryBusWidth, l2CacheSize, persistingL2CacheMaxSize, maxThreadsPerMultiProcessor;
	int streamPrioritiesSupported, globalL1CacheSupported, localL1CacheSupported;
	size_t sharedMemPerMultiprocessor;
	int regsPerMultiprocessor, managedMemory, isMultiGpuBoard, multiGpuBoardGroupID;
	int hostNativeAtomicSupported;
	RT_12(int singleToDoublePrecisionPerfRatio;)
	int pageableMemoryAccess, concurrentManagedAccess, computePreemptionSupported;
	int canUseHostPointerForRegisteredMem, cooperativeLaunch;
	RT_12(int cooperativeMultiDeviceLaunch;)
	size_t sharedMemPerBlockOptin;
	int pageableMemoryAccessUsesHostPageTables, directManagedMemAccessFromHost;
	int maxBlocksPerMultiProcessor, accessPolicyMaxWindowSize;
	size_t reservedSharedMemPerBlock;
	int hostRegisterSupported, sparseCudaArraySupported, hostRegisterReadOnlySupported;
	int timelineSemaphoreInteropSupported, memoryPoolsSupported, gpuDirectRDMASupported;
	unsigned int gpuDirectRDMAFlushWritesOptions;
	int gpuDirectRDMAWritesOrdering;
	unsigned int memoryPoolSupportedHandleTypes;
	int deferredMappingCudaArraySupported, ipcEventSupported, clusterLaunch;
	int unifiedFunctionPointers;
	RT_12(int reserved[63];)
	RT_13(int deviceNumaConfig, deviceNumaId, mpsEnabled, hostNumaId;)
	RT_13(unsigned int gpuPciDeviceID, gpuPciSubsystemID;)
	RT_13(int hostNumaMultinodeIpcSupported, reserved[56];)
};

#endif
