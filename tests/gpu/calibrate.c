/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calibrate: costs on this device, as one JSON object, in the units of the simulator's table of
 * costs (src/simgpu/costs.def). One process, medians. The slice and the switch between processes
 * come from concurrent runs of `stamps`.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "bench/driver.h"

#define MIB (1024.0 * 1024)
#define REPEATS 15
#define BULK (256u << 20)

static int compare(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static double median(double *v, size_t n)
{
	qsort(v, n, sizeof(*v), compare);
	return v[n / 2];
}

static size_t free_bytes(void)
{
	size_t free_now, total;

	DRIVER_CHECK(DRIVER(cuMemGetInfo_v2)(&free_now, &total));
	return free_now;
}

static void contexts(CUdevice device)
{
	double us[5], mib[5];

	for (int i = 0; i < 5; i++) {
		size_t before = free_bytes();
		uint64_t begin = clock_now_ns();
		CUcontext c;

		DRIVER_CHECK(DRIVER(cuCtxCreate_v2)(&c, 0, device));
		us[i] = (double)(clock_now_ns() - begin) / 1e3;
		mib[i] = (double)(before - free_bytes()) / MIB;
		DRIVER_CHECK(DRIVER(cuCtxDestroy_v2)(c));
	}
	printf("\"context_us\": %.0f, \"context_mib\": %.1f, ", median(us, 5), median(mib, 5));
}

static void launches(CUstream stream, CUfunction kernel)
{
	double call[REPEATS], round[REPEATS], marker[REPEATS];
	uint64_t ns = 0;
	void *params[] = {&ns};
	PFN_cuLaunchKernel *launch = DRIVER(cuLaunchKernel);
	PFN_cuStreamSynchronize *synchronize = DRIVER(cuStreamSynchronize);
	PFN_cuStreamWriteValue32_v2 *write_value = DRIVER(cuStreamWriteValue32_v2);
	CUdeviceptr word;

	DRIVER_CHECK(DRIVER(cuMemAlloc_v2)(&word, 4));
	for (int i = 0; i < REPEATS; i++) {
		uint64_t begin = clock_now_ns();

		for (int k = 0; k < 500; k++)
			DRIVER_CHECK(launch(kernel, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL));
		call[i] = (double)(clock_now_ns() - begin) / 500;
		DRIVER_CHECK(synchronize(stream));
		begin = clock_now_ns();
		for (int k = 0; k < 50; k++) {
			DRIVER_CHECK(launch(kernel, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL));
			DRIVER_CHECK(synchronize(stream));
		}
		round[i] = (double)(clock_now_ns() - begin) / 50 / 1e3;
		begin = clock_now_ns();
		for (int k = 0; k < 500; k++)
			DRIVER_CHECK(write_value(stream, word, (cuuint32_t)k, 0));
		marker[i] = (double)(clock_now_ns() - begin) / 500;
		DRIVER_CHECK(synchronize(stream));
	}
	printf("\"launch_call_ns\": %.0f, \"launch_and_wait_us\": %.1f, \"marker_call_ns\": %.0f, ",
		median(call, REPEATS), median(round, REPEATS), median(marker, REPEATS));
	DRIVER_CHECK(DRIVER(cuMemFree_v2)(word));
}

static double rate(uint64_t ns)
{
	return (double)BULK / (double)ns; /* bytes a nanosecond: GB/s */
}

static void copies(void)
{
	double h2d[REPEATS], d2h[REPEATS], d2d[REPEATS];
	CUdeviceptr a, b;
	void *host;

	DRIVER_CHECK(DRIVER(cuMemAlloc_v2)(&a, BULK));
	DRIVER_CHECK(DRIVER(cuMemAlloc_v2)(&b, BULK));
	DRIVER_CHECK(DRIVER(cuMemAllocHost_v2)(&host, BULK));
	for (int i = 0; i < REPEATS; i++) {
		uint64_t begin = clock_now_ns();

		DRIVER_CHECK(DRIVER(cuMemcpyHtoD_v2)(a, host, BULK));
		DRIVER_CHECK(DRIVER(cuCtxSynchronize)());
		h2d[i] = rate(clock_now_ns() - begin);
		begin = clock_now_ns();
		DRIVER_CHECK(DRIVER(cuMemcpyDtoH_v2)(host, a, BULK));
		d2h[i] = rate(clock_now_ns() - begin);
		begin = clock_now_ns();
		DRIVER_CHECK(DRIVER(cuMemcpyDtoD_v2)(b, a, BULK));
		DRIVER_CHECK(DRIVER(cuCtxSynchronize)());
		d2d[i] = rate(clock_now_ns() - begin);
	}
	printf("\"h2d_pinned_gbs\": %.1f, \"d2h_pinned_gbs\": %.1f, \"d2d_gbs\": %.0f, ",
		median(h2d, REPEATS), median(d2h, REPEATS), median(d2d, REPEATS));
	DRIVER_CHECK(DRIVER(cuMemFreeHost)(host));
	DRIVER_CHECK(DRIVER(cuMemFree_v2)(b));
	DRIVER_CHECK(DRIVER(cuMemFree_v2)(a));
}

/* The device memory that the first byte of a new block takes. */
static void granularity(void)
{
	size_t before = free_bytes();
	double least = 0;
	CUdeviceptr p[64];

	for (int i = 0; i < 64; i++) {
		size_t left;

		DRIVER_CHECK(DRIVER(cuMemAlloc_v2)(&p[i], (1u << 20) + 1));
		left = free_bytes();
		if (left < before && (least == 0 || (double)(before - left) < least))
			least = (double)(before - left);
		before = left;
	}
	for (int i = 0; i < 64; i++)
		DRIVER_CHECK(DRIVER(cuMemFree_v2)(p[i]));
	printf("\"granularity_bytes\": %.0f, ", least);
}

int main(void)
{
	CUcontext context;
	CUdevice device;
	CUfunction kernel;
	CUstream stream;
	char name[128];
	int version;

	DRIVER_CHECK(DRIVER(cuInit)(0));
	DRIVER_CHECK(DRIVER(cuDeviceGet)(&device, 0));
	DRIVER_CHECK(DRIVER(cuDeviceGetName)(name, sizeof(name), device));
	DRIVER_CHECK(DRIVER(cuDriverGetVersion)(&version));
	DRIVER_CHECK(DRIVER(cuCtxCreate_v2)(&context, 0, device));
	DRIVER_CHECK(DRIVER(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
	DRIVER_CHECK(DRIVER(cuModuleGetFunction)(&kernel, driver_module(), "spin_ns"));
	printf("{");
	launches(stream, kernel);
	copies();
	granularity();
	contexts(device);
	printf("\"device\": \"%s\", \"driver_version\": %d}\n", name, version);
	return 0;
}
