/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The few driver entries that the small programs use, looked up by name in libcuda.so.1 as a
 * program without the toolkit does. cuda_open fills the only table; failures end the program, since
 * these are programs and no library.
 */
#ifndef TESTS_PROGRAMS_CUDA_MIN_H
#define TESTS_PROGRAMS_CUDA_MIN_H

#include <stddef.h>
#include <stdint.h>

typedef int cu_result;
typedef int cu_device;
typedef uint64_t cu_pointer;
typedef struct cu_handle *cu_handle; /* context, module, function, stream, event, graph */

#define CU_STREAM_NON_BLOCKING 1u
#define CU_EVENT_DISABLE_TIMING 2u
#define CU_CAPTURE_MODE_THREAD_LOCAL 1
#define CU_ATTRIBUTE_SM_COUNT 16
#define CU_OUT_OF_MEMORY 2

#define CUDA_ENTRIES(X) \
	X(init, "cuInit", (unsigned int flags)) \
	X(error_name, "cuGetErrorName", (cu_result result, const char **ret_name)) \
	X(error_string, "cuGetErrorString", (cu_result result, const char **ret_text)) \
	X(device_count, "cuDeviceGetCount", (int *ret_count)) \
	X(device_get, "cuDeviceGet", (cu_device * ret_device, int ordinal)) \
	X(device_name, "cuDeviceGetName", (char *ret_name, int size, cu_device device)) \
	X(device_attribute, "cuDeviceGetAttribute", (int *ret, int attribute, cu_device device)) \
	X(ctx_create, "cuCtxCreate_v2", (cu_handle * ret, unsigned int flags, cu_device device)) \
	X(ctx_destroy, "cuCtxDestroy_v2", (cu_handle ctx)) \
	X(ctx_set, "cuCtxSetCurrent", (cu_handle ctx)) \
	X(ctx_synchronize, "cuCtxSynchronize", (void)) \
	X(module_load, "cuModuleLoadData", (cu_handle * ret, const void *image)) \
	X(module_function, "cuModuleGetFunction", \
		(cu_handle * ret, cu_handle module, const char *name)) \
	X(mem_alloc, "cuMemAlloc_v2", (cu_pointer * ret, size_t bytes)) \
	X(mem_free, "cuMemFree_v2", (cu_pointer pointer)) \
	X(mem_info, "cuMemGetInfo_v2", (size_t * ret_free, size_t * ret_total)) \
	X(launch, "cuLaunchKernel", \
		(cu_handle function, unsigned int gx, unsigned int gy, unsigned int gz, \
			unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared, \
			cu_handle stream, void **params, void **extra)) \
	X(launch_cooperative, "cuLaunchCooperativeKernel", \
		(cu_handle function, unsigned int gx, unsigned int gy, unsigned int gz, \
			unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared, \
			cu_handle stream, void **params)) \
	X(stream_create, "cuStreamCreate", (cu_handle * ret, unsigned int flags)) \
	X(stream_synchronize, "cuStreamSynchronize", (cu_handle stream)) \
	X(stream_begin_capture, "cuStreamBeginCapture_v2", (cu_handle stream, int mode)) \
	X(stream_end_capture, "cuStreamEndCapture", (cu_handle stream, cu_handle * ret_graph)) \
	X(graph_instantiate, "cuGraphInstantiateWithFlags", \
		(cu_handle * ret_exec, cu_handle graph, unsigned long long flags)) \
	X(graph_launch, "cuGraphLaunch", (cu_handle exec, cu_handle stream)) \
	X(event_create, "cuEventCreate", (cu_handle * ret, unsigned int flags)) \
	X(event_record, "cuEventRecord", (cu_handle event, cu_handle stream)) \
	X(event_synchronize, "cuEventSynchronize", (cu_handle event))

struct cuda {
#define X(field, symbol, params) cu_result(*field) params;
	CUDA_ENTRIES(X)
#undef X
};

extern struct cuda cuda;

/* Opens libcuda.so.1 and fills the table; on failure ends the program with a message. */
void cuda_open(const char *program);

/* Ends the program with "<program>: <what>: <driver's name and text>" unless result is 0. */
void cuda_check(cu_result result, const char *what);

#endif
