/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stamps KERNEL_US SECONDS FILE: back-to-back kernels write the device's timer at their begin and
 * end (stamp_ns in kernels.ptx); FILE gets pairs of little-endian u64 nanoseconds. The timer
 * belongs to the device, so the files of several processes on one device are one trace, like that
 * of a simulated device. At most four kernels are in flight.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench/driver.h"

#define STAMPS_MAX (1u << 20)
#define QUEUED 4

int main(int argc, char **argv)
{
	CUcontext context;
	CUdevice device;
	CUdeviceptr stamps;
	CUevent event[QUEUED];
	CUfunction kernel;
	CUstream stream;
	uint64_t ns, end, *back, n = 0;
	int sms;
	FILE *f;

	if (argc != 4) {
		fputs("usage: stamps KERNEL_US SECONDS FILE\n", stderr);
		return 2;
	}
	ns = strtoull(argv[1], NULL, 10) * NSEC_PER_USEC;
	DRIVER_CHECK(DRIVER(cuInit)(0));
	DRIVER_CHECK(DRIVER(cuDeviceGet)(&device, 0));
	DRIVER_CHECK(DRIVER(cuDeviceGetAttribute)(
		&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
	DRIVER_CHECK(DRIVER(cuCtxCreate_v2)(&context, 0, device));
	DRIVER_CHECK(DRIVER(cuModuleGetFunction)(&kernel, driver_module(), "stamp_ns"));
	DRIVER_CHECK(DRIVER(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
	DRIVER_CHECK(DRIVER(cuMemAlloc_v2)(&stamps, 16ull * STAMPS_MAX));
	DRIVER_CHECK(DRIVER(cuMemsetD32_v2)(stamps, 0, 4ull * STAMPS_MAX));
	for (int i = 0; i < QUEUED; i++)
		DRIVER_CHECK(DRIVER(cuEventCreate)(&event[i], CU_EVENT_DISABLE_TIMING));
	end = clock_now_ns() + (uint64_t)(strtod(argv[2], NULL) * 1e9);
	for (; n < STAMPS_MAX && clock_now_ns() < end; n++) {
		CUdeviceptr out = stamps + 16 * n;
		void *params[] = {&ns, &out};

		if (n >= QUEUED)
			DRIVER_CHECK(DRIVER(cuEventSynchronize)(event[n % QUEUED]));
		DRIVER_CHECK(DRIVER(cuLaunchKernel)(
			kernel, (unsigned int)sms, 1, 1, 32, 1, 1, 0, stream, params, NULL));
		DRIVER_CHECK(DRIVER(cuEventRecord)(event[n % QUEUED], stream));
	}
	DRIVER_CHECK(DRIVER(cuStreamSynchronize)(stream));
	back = malloc(16 * n + 1);
	if (!back)
		return 1;
	DRIVER_CHECK(DRIVER(cuMemcpyDtoH_v2)(back, stamps, 16 * n));
	f = fopen(argv[3], "we");
	if (!f || fwrite(back, 16, n, f) != n || fclose(f)) {
		perror(argv[3]);
		return 1;
	}
	printf("{\"kernels\": %" PRIu64 ", \"kernel_us\": %s}\n", n, argv[1]);
	free(back);
	return 0;
}
