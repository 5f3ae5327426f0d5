/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plugin with a RUNPATH of its own, which calls the loader from where it is.
 */
#include <dlfcn.h>

void *caller_dlopen(const char *name, int flags);
void *caller_dlsym_next(const char *name);

__attribute__((visibility("default"))) void *caller_dlopen(const char *name, int flags)
{
	void *handle = dlopen(name, flags);

	/*
	 * keeps the call above from becoming a jump: its return address is what the loader looks at
	 */
	__asm__ volatile("" : "+r"(handle));
	return handle;
}

__attribute__((visibility("default"))) void *caller_dlsym_next(const char *name)
{
	void *symbol = dlsym(RTLD_NEXT, name);

	__asm__ volatile("" : "+r"(symbol));
	return symbol;
}
