/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether a worker may run the program of another user on its devices. If the environment
 * variable HOST_ACCESS_ENV has one of its two values, the code does not ask the driver. Otherwise
 * every device of the worker must report that kernels cannot access pageable memory. The code keeps
 * no state: each call reads the environment and the driver anew.
 */
#include "remote/host-access.h"

#include <stdlib.h>
#include <string.h>

#include "remote/worker.h"

static bool is_reached_by(int index)
{
	CUdevice device;
	int is_reached = 1;

	return driver.cuDeviceGet(&device, index) != CUDA_SUCCESS ||
		driver.cuDeviceGetAttribute(&is_reached, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS,
			device) != CUDA_SUCCESS ||
		is_reached;
}

bool host_access_is_permitted(void)
{
	const char *who = getenv(HOST_ACCESS_ENV);
	int n = 0;

	if (who && (!strcmp(who, HOST_ACCESS_OWN) || !strcmp(who, HOST_ACCESS_ALLOW)))
		return true;
	if (driver.cuDeviceGetCount(&n) != CUDA_SUCCESS)
		return false;
	for (int i = 0; i < n; i++)
		if (is_reached_by(i))
			return false;
	return true;
}
