/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits and rates that a device's compute capability determines. The figures are those of the CUDA
 * programming guide ("Compute Capabilities") and of the makers' white papers. Pure; any thread.
 */
#ifndef SIMGPU_SIMGPU_ARCH_H
#define SIMGPU_SIMGPU_ARCH_H

#include "base/cleanup.h"

struct simgpu_arch {
	unsigned sm; /* 10 * major + minor */
	/* of one multiprocessor */
	unsigned cores, threads, blocks, shared_kib;
	unsigned reserved_kib; /* shared memory that each block takes for the driver */
	unsigned fp64_ratio;   /* rate of single to rate of double precision */
	unsigned pcie_generation, nvlink_version;
	unsigned nvml; /* NVML_DEVICE_ARCH_* */
};

/* The row of the newest architecture that is not newer than sm_@sm. */
static inline const struct simgpu_arch *simgpu_arch_get(unsigned sm)
{
	static const struct simgpu_arch rows[] = {
		/* sm, cores, threads, blocks, shared, reserved, ratio, PCIe, NVLink, NVML */
		{70, 64, 2048, 32, 96, 0, 2, 3, 2, 5},
		{75, 64, 1024, 16, 64, 0, 32, 3, 2, 6},
		{80, 64, 2048, 32, 164, 1, 2, 4, 3, 7},
		{86, 128, 1536, 16, 100, 1, 64, 4, 3, 7},
		{89, 128, 1536, 24, 100, 1, 64, 4, 3, 8},
		{90, 128, 2048, 32, 228, 1, 2, 5, 4, 9},
		{100, 128, 2048, 32, 228, 1, 2, 5, 5, 10},
		{120, 128, 1536, 24, 100, 1, 64, 5, 5, 10},
	};
	const struct simgpu_arch *found = rows;

	for (unsigned i = 1; i < ARRAY_SIZE(rows) && rows[i].sm <= sm; i++)
		found = &rows[i];
	return found;
}

#endif
