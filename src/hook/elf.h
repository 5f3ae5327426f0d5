/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Symbols and identities of ELF objects, without libdl: dlopen and dlsym live in libdl before glibc
 * 2.34 and in libc after, we interpose both, and the library must load where neither is at hand.
 * Nothing here allocates. Any thread; takes the loader's lock for a moment. Objects and symbols are
 * found without any function that the program may have in libc's place.
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
	const char *path; /* as the loader knows it; owned by the loader */
	const void *dynamic;
	struct elf_id id;
};

/*
 * The object that holds `address`, or, with address NULL, the first one whose file name starts with
 * `name` ("libc.so."). False if there is none.
 */
bool elf_object_find(const void *address, const char *name, struct elf_object *ret_object);

/* The C library of the process, glibc's or musl's. False if there is none. */
bool elf_libc_find(struct elf_object *ret_object);

/* The address of a defined, exported function of that object, any version; NULL if it has none. */
void *elf_symbol(const struct elf_object *object, const char *name);

/* The build-id of a file. 0, -ENODATA if it has none, -ENOEXEC if it is no ELF of ours, -errno. */
int elf_file_id(const char *path, struct elf_id *ret_id);

bool elf_id_eq(const struct elf_id *a, const struct elf_id *b);

#endif
