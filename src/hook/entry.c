/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exports of libdivvy-cuda.so, and the driver behind them, which is opened at the first call
 * and stays open after a fork. Any thread; threads that resolve a slot at the same time store the
 * same value.
 */
#include "hook/entry.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "cuda/cuda-names.h"
#include "cuda/proto.h"
#include "hook/hook.h"
#include "hook/system.h"

__asm__(ENTRY_HEAD
#define CU(name, since, variant, action, stream, params, args, ...) ENTRY(name)
#include "cuda/cuda.def"
#undef CU
);

static void *_Atomic driver_handle;
static _Atomic int driver_state; /* 0: not searched yet; 1: found; -1: none */

void *hook_driver(void)
{
	char path[SYSTEM_PATH];
	void *handle, *none = NULL;

	int state = atomic_load_explicit(&driver_state, memory_order_acquire);

	if (state)
		return state > 0 ? atomic_load(&driver_handle) : NULL;
	/*
	 * two threads may open the driver at the same time: the loader gives both threads the same
	 * handle
	 */
	handle = system_open_real("libcuda.so.1", path);
	if (handle && !atomic_compare_exchange_strong(&driver_handle, &none, handle))
		handle = none;
	atomic_store_explicit(&driver_state, handle ? 1 : -1, memory_order_release);
	return handle;
}

bool hook_driver_present(void)
{
	return hook_driver();
}

void *hook_driver_symbol(const char *name)
{
	void *handle = hook_driver();

	return handle ? system_get()->dlsym(handle, name) : NULL;
}

/* Stands in for a function that the driver lacks. */
static CUresult entry_missing(void)
{
	return CUDA_ERROR_NOT_SUPPORTED;
}

/*
 * Without a driver, stands in for every function that has no own stand-in below. Programs call
 * cuInit first, which then returns CUDA_ERROR_NO_DEVICE.
 */
static CUresult no_driver(void)
{
	return CUDA_ERROR_NOT_INITIALIZED;
}

static CUresult no_driver_init(unsigned int flags)
{
	return CUDA_ERROR_NO_DEVICE;
}

static CUresult no_driver_version(int *version)
{
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	*version = 0; /* the CUDA runtime then reports a missing or too old driver */
	return CUDA_SUCCESS;
}

static CUresult error_name(CUresult error, const char **ret_text)
{
	if (!ret_text)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_text = cuda_result_name(error);
	return *ret_text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult error_string(CUresult error, const char **ret_text)
{
	if (!ret_text)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_text = cuda_result_text(error);
	return *ret_text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static void *stand_in(const char *name)
{
	if (!strcmp(name, "cuGetErrorString"))
		return (void *)error_string;
	if (!strcmp(name, "cuGetErrorName"))
		return (void *)error_name;
	if (hook_driver_present())
		return (void *)entry_missing;
	if (!strcmp(name, "cuInit"))
		return (void *)no_driver_init;
	if (!strcmp(name, "cuDriverGetVersion"))
		return (void *)no_driver_version;
	return (void *)no_driver;
}

void *hook_resolve(uint32_t index)
{
	const char *name = cuda_names[index].abi;
	int saved = errno;
	void *target = hook_driver_symbol(name);

	if (!target)
		target = stand_in(name);
	atomic_store_explicit(&hook_slots[index], target, memory_order_release);
	errno = saved;
	return target;
}
