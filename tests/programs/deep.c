/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A module of which a test loads a copy with RTLD_DEEPBIND, as Python packages do with their own
 * modules. The module opens the driver by a name, and prints the memory that the device has.
 */
#include <dlfcn.h>
#include <stdio.h>

int device_memory(const char *name)
{
	void *driver = dlopen(name, RTLD_NOW);
	int (*init)(unsigned) = driver ? dlsym(driver, "cuInit") : NULL;
	int (*total)(size_t *, int) = driver ? dlsym(driver, "cuDeviceTotalMem_v2") : NULL;
	size_t bytes = 0;

	if (!init || !total || init(0) || total(&bytes, 0))
		return -1;
	return (int)(bytes >> 20);
}
