/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds symbols and build-ids of ELF objects without libdl. This library interposes dlopen and
 * dlsym, and must load where neither is available: they are in libdl before glibc 2.34, and in libc
 * since. The functions allocate nothing, and take the loader's lock only briefly. The functions
 * call no libc function that a program may have replaced. Any thread may call them.
 */
#ifndef HOOK_ELF_H
#define HOOK_ELF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ELF_BUILD_ID_MAX 64u

struct elf_id {
	uint32_t n; /* 0: none */
	uint8_t bytes[ELF_BUILD_ID_MAX];
};

/* An object that the loader has mapped. */
struct elf_object {
	uintptr_t base;
	const char *path; /* the loader's path; the loader owns it */
	const void *dynamic;
	struct elf_id id;
};

/*
 * Finds the object that contains `address`. If address is NULL, finds the first object whose file
 * name starts with `name` ("libc.so."). Returns false if there is none.
 */
bool elf_object_find(const void *address, const char *name, struct elf_object *ret_object);

/* Finds the process's C library, glibc or musl. Returns false if there is none. */
bool elf_libc_find(struct elf_object *ret_object);

/* Address of a function that the object defines and exports, in any version; NULL if none. */
void *elf_symbol(const struct elf_object *object, const char *name);

/*
 * Reads a file's build-id. Returns 0; -ENODATA if the file has none; -ENOEXEC if the file is no ELF
 * file of this architecture; or -errno.
 */
int elf_file_id(const char *path, struct elf_id *ret_id);

bool elf_id_eq(const struct elf_id *a, const struct elf_id *b);

#endif
