/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the process's libcuda.so.1 at the first call that needs it, and translates errors. The
 * library refuses every driver but divvy's own: with any other driver, NVIDIA's runtime is right.
 *
 * Once rt_driver is filled it does not change, so it needs no lock.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cuda/own-driver.h"
#include "cudart/cudart.h"

struct rt_driver rt_driver;
_Thread_local struct rt_thread rt_thread;

enum stage { CLOSED, OPEN, INITIALISED, FAILED };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Released with rt_driver and failure, acquired by begin_fast(). */
static _Atomic int stage;
static cudaError_t failure;

void rt_say(const char *format, ...)
{
	char line[512];
	va_list list;
	int n;

	va_start(list, format);
	n = vsnprintf(line, sizeof(line) - 1, format, list);
	va_end(list);
	if (n < 0)
		return;
	if ((size_t)n > sizeof(line) - 2)
		n = (int)sizeof(line) - 2;
	line[n++] = '\n';
	/* A message that cannot be written is lost. */
	if (write(STDERR_FILENO, line, (size_t)n) < 0)
		return;
}

static const char *const names[] = {
#define CU(abi, since, variant, action, stream, params, args, ...) #abi,
#include "cuda/cuda.def"
#undef CU
};
_Static_assert(sizeof(rt_driver) == sizeof(names), "one pointer for each name");

/* The interception library without a driver behind it answers version 0. */
static bool has_driver(void *handle)
{
	PFN_cuDriverGetVersion *get = (PFN_cuDriverGetVersion *)dlsym(handle, "cuDriverGetVersion");
	int version = 0;

	return !get || get(&version) != CUDA_SUCCESS || version;
}

static cudaError_t refuse_driver(void *handle)
{
	if (!has_driver(handle)) {
		rt_say("divvy: libcudart.so.%d found no driver, only divvy's interception library; "
		       "start the program by `divvy run --simulate ...` or `divvy run --remote "
		       "...`",
			CUDART_MAJOR);
		return cudaErrorInsufficientDriver;
	}
	rt_say("divvy: divvy's libcudart.so.%d works with divvy's simulated and remote devices "
	       "alone, and libcuda.so.1 of this process is another driver; remove "
	       "libdivvy-cudart-%d.so from LD_PRELOAD, so that the program loads NVIDIA's runtime",
		CUDART_MAJOR, CUDART_MAJOR);
	return cudaErrorSystemDriverMismatch;
}

static cudaError_t open_locked(void)
{
	const struct own_driver_table *table = NULL;
	void *handle = dlopen("libcuda.so.1", RTLD_NOW);
	void **slots = (void **)&rt_driver;

	if (!handle) {
		rt_say("divvy: libcudart.so.%d found no driver: %s; start the program by `divvy "
		       "run --simulate ...` or `divvy run --remote ...`",
			CUDART_MAJOR, dlerror());
		return cudaErrorInsufficientDriver;
	}
	rt_driver.cuGetExportTable = (PFN_cuGetExportTable *)dlsym(handle, "cuGetExportTable");
	if (!rt_driver.cuGetExportTable ||
		rt_driver.cuGetExportTable((const void **)&table, OWN_DRIVER_ID) != CUDA_SUCCESS ||
		!table || table->size < sizeof(*table))
		return refuse_driver(handle);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		slots[i] = dlsym(handle, names[i]);
		/* Both of divvy's own drivers, of the same version, export every name. */
		if (!slots[i]) {
			rt_say("divvy: libcudart.so.%d needs %s, which the %s driver lacks; both "
			       "must be of the same version of divvy: install divvy again",
				CUDART_MAJOR, names[i], table->kind);
			return cudaErrorInsufficientDriver;
		}
	}
	return cudaSuccess;
}

static cudaError_t begin_slowly(enum stage wanted)
{
	cudaError_t error = cudaSuccess;

	pthread_mutex_lock(&lock);
	if (stage == CLOSED) {
		error = open_locked();
		failure = error;
		atomic_store_explicit(&stage, error ? FAILED : OPEN, memory_order_release);
	}
	if (stage == OPEN && wanted == INITIALISED) {
		error = rt_error(rt_driver.cuInit(0));
		failure = error;
		atomic_store_explicit(&stage, error ? FAILED : INITIALISED, memory_order_release);
	}
	if (stage == FAILED)
		error = failure;
	pthread_mutex_unlock(&lock);
	return error;
}

cudaError_t rt_open_driver(void)
{
	const int now = atomic_load_explicit(&stage, memory_order_acquire);

	/* A driver without devices is open too. */
	if (now == FAILED && rt_driver.cuDriverGetVersion)
		return cudaSuccess;
	return now == OPEN || now == INITIALISED ? cudaSuccess : begin_slowly(OPEN);
}

cudaError_t rt_begin_driver(void)
{
	return atomic_load_explicit(&stage, memory_order_acquire) == INITIALISED
		? cudaSuccess
		: begin_slowly(INITIALISED);
}

/* ---- errors ---- */

static const struct {
	int number;
	const char *name, *text;
} errors[] = {
#define RT_ERROR(name, number, text) {number, #name, text},
#include "cudart/cudart-error.def"
#undef RT_ERROR
};

static const struct {
	int number;
	const char *text;
} driver_texts[] = {
#define CU_RESULT(name, number, text) {number, text},
#include "cuda/result.def"
#undef CU_RESULT
};

static int find_error(int number)
{
	size_t low = 0, high = ARRAY_SIZE(errors);

	while (low < high) {
		const size_t middle = (low + high) / 2;

		if (errors[middle].number == number)
			return (int)middle;
		if (errors[middle].number < number)
			low = middle + 1;
		else
			high = middle;
	}
	return -1;
}

cudaError_t rt_error(CUresult result)
{
	if (result == CUDA_SUCCESS)
		return cudaSuccess;
	return find_error((int)result) < 0 ? cudaErrorUnknown : (cudaError_t)result;
}

cudaError_t rt_end(cudaError_t error)
{
	if (error)
		rt_thread.last_error = error;
	return error;
}

RT_EXPORT cudaError_t cudaGetLastError(void);
RT_EXPORT cudaError_t cudaPeekAtLastError(void);

RT_EXPORT cudaError_t cudaGetLastError(void)
{
	const cudaError_t error = rt_thread.last_error;

	rt_thread.last_error = cudaSuccess;
	return error;
}

RT_EXPORT cudaError_t cudaPeekAtLastError(void)
{
	return rt_thread.last_error;
}

RT_EXPORT const char *cudaGetErrorName(cudaError_t error)
{
	const int i = find_error((int)error);

	return i < 0 ? "unrecognized error code" : errors[i].name;
}

RT_EXPORT const char *cudaGetErrorString(cudaError_t error)
{
	const int i = find_error((int)error);

	if (i < 0)
		return "unrecognized error code";
	if (errors[i].text)
		return errors[i].text;
	for (size_t n = 0; n < ARRAY_SIZE(driver_texts); n++)
		if (driver_texts[n].number == (int)error)
			return driver_texts[n].text;
	return errors[i].name;
}
