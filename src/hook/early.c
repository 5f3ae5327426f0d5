/* SPDX-License-Identifier: Apache-2.0 */
/*
 * system_get(): finds dlopen, dlsym and similar functions of libc, libdl and libpthread in their
 * symbol tables. This library's dlopen and dlsym call system_get() first, perhaps before the
 * program's start code has run. So nothing here calls a function that a program may have replaced
 * (plain.h). Any thread.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hook/elf.h"
#include "hook/plain.h"
#include "hook/system.h"

#define OBJECTS 3u /* libc, libdl, libpthread */

static struct system functions;
static _Atomic bool ready;

static void *early_find_symbol(const struct elf_object *object, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++) {
		void *found = elf_symbol(&object[i], name);

		if (found)
			return found;
	}
	return NULL;
}

/*
 * glibc 2.28 to 2.33 has libdl and libpthread in separate objects with fixed names, which libc may
 * have to load. Returns false if libc itself has the function.
 */
static bool load_apart(const struct elf_object *libc, const char *soname, const char *function)
{
	void *found = elf_symbol(libc, "__libc_dlopen_mode");
	void *(*open_private)(const char *, int) = (void *(*)(const char *, int))(uintptr_t)found;

	return found && !elf_symbol(libc, function) &&
		open_private(soname, (int)(RTLD_NOW | 0x80000000u));
}

static size_t find_objects(struct elf_object object[static OBJECTS])
{
	size_t n = 1;

	if (!elf_libc_find(&object[0]))
		return 0;
	if (elf_object_find(NULL, "libdl.so.", &object[n]) ||
		(load_apart(&object[0], "libdl.so.2", "dlopen") &&
			elf_object_find(NULL, "libdl.so.", &object[n])))
		n++;
	if (elf_object_find(NULL, "libpthread.so.", &object[n]) ||
		(load_apart(&object[0], "libpthread.so.0", "pthread_create") &&
			elf_object_find(NULL, "libpthread.so.", &object[n])))
		n++;
	return n;
}

/* Converts an object pointer to a function pointer: POSIX allows this, ISO C does not. */
#define FIND(field) \
	do { \
		void *_found = early_find_symbol(object, n, #field); \
		functions.field = (__typeof__(functions.field))(uintptr_t)_found; \
	} while (0)

const struct system *system_get(void)
{
	struct elf_object object[OBJECTS];
	size_t n;

	if (atomic_load_explicit(&ready, memory_order_acquire))
		return &functions;
	n = find_objects(object);
	/* several threads may write the same values */
	FIND(dlopen);
	FIND(dlsym);
	FIND(dlclose);
	FIND(dlerror);
	FIND(dladdr1);
	FIND(pthread_attr_init);
	FIND(pthread_attr_setstacksize);
	FIND(pthread_attr_setdetachstate);
	FIND(pthread_create);
	atomic_store_explicit(&ready, true, memory_order_release);
	return &functions;
}
