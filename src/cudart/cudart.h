/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shares declarations between the files of libdivvy-cudart. An exported function of cudart.def is
 * generated code: it sets up what the function needs, calls the driver or rt_NAME, and records an
 * error for cudaGetLastError(). So rt_NAME only returns its error.
 *
 * Any thread may call every function. Nothing is locked while a function of the driver runs that
 * can call the program back.
 */
#ifndef CUDART_CUDART_H
#define CUDART_CUDART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/proto.h"
#include "cudart/cudart-types.h"

#define RT_EXPORT __attribute__((visibility("default")))
#define RT_PTR(p) ((CUdeviceptr)(uintptr_t)(p))
#define RT_DEVICES 64          /* devices of a process */
#define RT_BLOCK_THREADS 1024u /* threads of a block, on all devices since 2.0 */
#define RT_LAUNCHES 8          /* launches whose arguments contain launches */

#define RT_CHECK(condition, error) \
	do { \
		if (!(condition)) \
			return (error); \
	} while (0)
#define RT_TRY(call) \
	do { \
		const cudaError_t try_ = (call); \
		if (try_) \
			return try_; \
	} while (0)
/* Calls a function of the driver, and returns its error. */
#define RT_DRIVE(call) RT_TRY(rt_error(rt_driver.call))

/* The functions of the driver. Each is set once rt_begin_driver() has succeeded. */
struct rt_driver {
#define CU(abi, since, variant, action, stream, params, args, ...) PFN_##abi *abi;
#include "cuda/cuda.def"
#undef CU
};
extern struct rt_driver rt_driver;

/* <<<>>> of a launch whose arguments are being evaluated. */
struct rt_launch {
	struct dim3 grid, block;
	size_t shared_bytes;
	CUstream stream;
};

struct rt_thread {
	cudaError_t last_error;
	bool has_device; /* cudaSetDevice() has chosen the device */
	int device;
	unsigned int per_thread; /* > 0: stream 0 is the thread's own */
	CUcontext context;       /* the primary context that this library made current */
	unsigned int resets;     /* cudaDeviceReset() calls of the process when it did so */
	unsigned int n_launches;
	struct rt_launch launch[RT_LAUNCHES];
};
extern _Thread_local struct rt_thread rt_thread;

/* ---- start (cudart-driver.c) ---- */

RT_EXPORT const char *cudaGetErrorName(cudaError_t error);
RT_EXPORT const char *cudaGetErrorString(cudaError_t error);

/* Opens the driver, without initialising it. An error stays for the life of the process. */
cudaError_t rt_open_driver(void);
cudaError_t rt_begin_driver(void);
/* The driver's codes are the runtime's; other codes of the driver become cudaErrorUnknown. */
cudaError_t rt_error(CUresult result);
cudaError_t rt_end(cudaError_t error);
/* Writes one line to stderr. */
__attribute__((format(printf, 1, 2))) void rt_say(const char *format, ...);

/* ---- devices (cudart-device.c) ---- */

/* Makes the primary context of the thread's device current, unless a context is current. */
cudaError_t rt_begin_device(void);
CUcontext rt_context(void);
cudaError_t rt_primary(int device, CUcontext *ret_context);
cudaError_t rt_current_device(int *ret_device);

/* ---- code (cudart-module.c) ---- */

/* The kernel of a host address, or of a kernel handle. Loads its code. */
cudaError_t rt_kernel(const void *host, CUkernel *ret_kernel);
/* The kernel as a function of the current context. */
cudaError_t rt_function(const void *host, CUfunction *ret_function);
/*
 * The host address that was registered for this kernel, or for its function in the current context;
 * either may be NULL. Without such an address, the handle itself.
 */
void *rt_kernel_host(CUkernel kernel, CUfunction function);
cudaError_t rt_symbol(const void *symbol, CUdeviceptr *ret_address, size_t *ret_bytes);

/* ---- copies and arrays ---- */

cudaError_t rt_copy_params(const struct cudaMemcpy3DParms *p, CUDA_MEMCPY3D *ret);
void rt_copy_params_1d(
	void *dst, const void *src, size_t count, enum cudaMemcpyKind kind, CUDA_MEMCPY3D *ret);
cudaError_t rt_copy_params_back(const CUDA_MEMCPY3D *copy, struct cudaMemcpy3DParms *ret);
cudaError_t rt_symbol_range(const void *symbol, size_t count, size_t offset, void **ret_address);
cudaError_t rt_format(
	const struct cudaChannelFormatDesc *desc, CUarray_format *ret_format, unsigned int *ret_n);
cudaError_t rt_format_back(
	CUarray_format format, unsigned int n, struct cudaChannelFormatDesc *ret);
cudaError_t rt_element_bytes(CUarray array, size_t *ret_bytes);

/* Stream 0, or the thread's own stream in a function for the per-thread default stream. */
static inline CUstream rt_stream(CUstream stream)
{
	return stream || !rt_thread.per_thread ? stream : CU_STREAM_PER_THREAD;
}

#endif
