/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plugin with its own RUNPATH, which calls dlopen and dlsym itself.
 */
#include <dlfcn.h>

void *caller_dlopen(const char *name, int flags);
void *caller_dlsym_next(const char *name);

__attribute__((visibility("default"))) void *caller_dlopen(const char *name, int flags)
{
	void *handle = dlopen(name, flags);

	/* keeps the call above from becoming a jump: the loader reads its return address */
	__asm__ volatile("" : "+r"(handle));
	return handle;
}

__attribute__((visibility("default"))) void *caller_dlsym_next(const char *name)
{
	void *symbol = dlsym(RTLD_NEXT, name);

	__asm__ volatile("" : "+r"(symbol));
	return symbol;
}
