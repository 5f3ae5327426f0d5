/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a program or shared library without loading it: its build-id, its exported functions, and
 * traces of the CUDA runtime. 64-bit little-endian ELF. Accepts any file and reads nothing outside
 * it. One thread.
 */
#ifndef CLI_ELF_FILE_H
#define CLI_ELF_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/format.h"

struct elf_file {
	struct map map;
	const char *strings; /* names of the dynamic symbols */
	size_t strings_size;
	size_t symbols_at, n_symbols;
	struct text build_id; /* "": none */
	bool has_fatbin;      /* a section with device code, as nvcc makes it */
	char cudart[32];      /* the shared CUDA runtime that the loader loads; "": none */
};

/* -ENOEXEC: no such file. */
int elf_file_open(const char *path, struct elf_file *ret_file, struct error *err);
void elf_file_done(struct elf_file *file);

/* The i-th dynamic symbol if it is an exported function, else NULL. i < n_symbols. */
const char *elf_file_function(const struct elf_file *file, size_t i);
bool elf_file_exports(const struct elf_file *file, const char *name);

#endif
